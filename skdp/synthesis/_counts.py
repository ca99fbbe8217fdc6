"""Counts from a fitted model: conditions on columns, standard errors and intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.central import find_range
from skdp.domain import Categories, Domain, Interval
from skdp.synthesis._cells import Shape
from skdp.synthesis.model import Marginal, project
from skdp.synthesis.selection import find_columns
from skdp.tables import is_missing, to_objects

Weights = NDArray[np.float64]

Query = Mapping[int, Weights | None]
"""The columns of a query: weights of its values, or None for one count per value."""


@dataclass(frozen=True)
class ModelCount:
    """A count by a model, with its standard error and interval.

    Parameters
    ----------
    count : float
        Estimated number of records, nonnegative and in general not an integer.
    std_error : float
        Standard error; nan if not supported.
    lower, upper : float
        Bounds of the interval, whole numbers; nan if not supported.
    supported : bool
        Whether one measured marginal has all columns, and the conditions are whole
        bins and groups of values of it.

    Notes
    -----
    **Privacy.** Post-processing of noisy counts, without privacy loss.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import DPMarginalSynthesizer
    >>> people = pd.DataFrame({"smokes": ["yes", "no", "no", "no"] * 250})
    >>> synthesizer = DPMarginalSynthesizer(domain={"smokes": ["yes", "no"]}, random_state=0)
    >>> found = synthesizer.fit(people).count_estimate({"smokes": "yes"})
    >>> found.lower <= 250 <= found.upper
    True
    """

    count: float
    std_error: float
    lower: float
    upper: float
    supported: bool


def estimate_errors(
    marginals: Iterable[Marginal],
    query: Query,
    counts: NDArray[np.float64],
    level: float,
    is_gaussian: bool,
) -> tuple[NDArray[Any], ...]:
    """Return the standard errors of counts, the bounds of intervals, and True if a marginal contains the counts."""
    measured, noise = combine_counts(marginals, query)
    # A model that has not converged has a larger error than the noise: the squared
    # distance from an unbiased estimate is the squared error plus the variance of the
    # estimate.
    misfit = np.sqrt(np.maximum((counts - measured) ** 2 - noise**2, 0))
    std_error = np.maximum(noise, misfit)
    quantile = NormalDist().inv_cdf((1 + level) / 2)
    if not is_gaussian:
        quantile = max(quantile, -math.log(1 - level) / math.sqrt(2))
    # A distance from a whole number of a millionth of a record is rounding.
    margin = quantile * std_error - 1e-6
    lower = np.maximum(0, np.floor(counts - margin))
    upper = np.ceil(counts + margin)
    return std_error, lower, upper, np.isfinite(std_error)


def combine_counts(
    marginals: Iterable[Marginal], query: Query
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return unbiased counts of a query and their standard errors; nan if unmeasured."""
    weighted = np.zeros(())
    precision = np.zeros(())
    for marginal in marginals:
        if set(query) <= set(marginal.clique):
            counts, variance, is_exact = _sum_weighted(marginal, query)
            weighted = weighted + np.where(is_exact, counts / variance, 0)
            precision = precision + np.where(is_exact, 1 / variance, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        estimate = np.where(precision > 0, weighted / precision, math.nan)
        return estimate, np.where(precision > 0, precision**-0.5, math.nan)


def _sum_weighted(
    marginal: Marginal, query: Query
) -> tuple[NDArray[np.float64], float, NDArray[np.bool_]]:
    """Return counts of a query, their variance, and True if the groups of values determine them."""
    counts = project(marginal.counts, marginal.clique, list(query))
    variance = marginal.std_error**2 * marginal.counts.size / counts.size
    is_exact: NDArray[np.bool_] = np.ones(counts.shape, bool)
    # From the last axis to the first: the axes before keep their positions.
    for axis, (column, weights) in reversed(list(enumerate(query.items()))):
        members = marginal.groups_of(column)
        if members is None:
            n_values = counts.shape[axis] if weights is None else weights.size
            members = np.arange(n_values)
        if weights is None:
            is_single = np.bincount(members)[members] == 1
            shape = [-1 if other == axis else 1 for other in range(counts.ndim)]
            counts = np.take(counts, members, axis)
            is_exact = np.take(is_exact, members, axis) & is_single.reshape(shape)
            continue
        sizes = np.bincount(members)
        means = np.bincount(members, weights) / sizes
        is_whole = bool(np.isin(means, [0.0, 1.0]).all())
        counts = np.tensordot(counts, means, (axis, 0))
        variance *= max(float(means @ means), np.finfo(float).tiny)
        is_exact = np.asarray(is_exact.all(axis=axis) & is_whole)
    return np.asarray(counts), variance, np.asarray(is_exact)


def read_conditions(
    domain: Domain, conditions: Any, shapes: Mapping[int, Shape]
) -> dict[int, Weights]:
    """Return the fraction of each cell that fulfills conditions, by column."""
    if not isinstance(conditions, Mapping):
        raise TypeError(
            "`conditions` must be a mapping of column name to a value, a list of values "
            f"or (low, high), got {type(conditions).__name__}."
        )
    weights = {}
    for name, condition in conditions.items():
        (column,) = find_columns(domain, [name], "conditions")
        values = domain[name]
        if isinstance(condition, tuple):
            shape = shapes.get(column)
            weights[column] = weigh_range(name, values, condition, shape)
        else:
            weights[column] = _weigh_values(name, values, condition)
    return weights


def weigh_range(
    name: Any,
    values: Categories | Interval,
    limits: tuple[Any, ...],
    shape: Shape | None = None,
) -> Weights:
    """Return the fraction of each cell that is in a half-open range."""
    if len(limits) != 2:
        raise ValueError(
            f"The range of column {name!r} must be a pair (low, high), got {limits}. "
            "Use a list for values."
        )
    if not isinstance(values, Interval):
        return find_range(name, values, *limits).astype(float)
    start = _read_limit(name, values, limits[0], values.edges[0])
    stop = _read_limit(name, values, limits[1], values.edges[-1])
    if start > stop and None not in limits:
        raise ValueError(
            f"The range of column {name!r} must be (low, high) with low <= high."
        )
    dtype = float if values.dtype.kind == "f" else "datetime64[us]"
    edges = np.array(values.edges, dtype)
    low, high = (
        np.clip(start, edges[:-1], edges[1:]),
        np.clip(stop, edges[:-1], edges[1:]),
    )
    # Numbers are evenly distributed within the fine cells of a bin.
    weights = np.asarray((high - low) / np.diff(edges), float)
    if shape is not None:
        is_part = (weights > 0) & (weights < 1)
        ranks = shape.rank(np.asarray(high)) - shape.rank(np.asarray(low))
        weights[is_part] = ranks[is_part]
    return np.append(weights, 0.0) if values.missing else weights


def _read_limit(name: Any, values: Interval, limit: Any, bound: Any) -> Any:
    """Read the lower or upper bound of a range; None stands for the bound of the interval."""
    is_date = values.dtype.kind == "M"
    types: tuple[type, ...] = (int, float, np.number)
    expected = "numbers"
    if is_date:
        expected, types = "dates, datetimes without a time zone", (date, np.datetime64)
    limit = bound if limit is None else limit
    read = np.array(np.nan)
    is_aware = getattr(limit, "tzinfo", None) is not None
    if isinstance(limit, types) and not isinstance(limit, bool) and not is_aware:
        read = np.array(limit, "datetime64[us]" if is_date else float)
    if np.isnan(read):
        raise TypeError(
            f"The bounds of a range of column {name!r} must be {expected} or None, got "
            f"{type(limit).__name__}."
        )
    return read


def _weigh_values(name: Any, values: Categories | Interval, condition: Any) -> Weights:
    """Return 1 for the values of a condition, 0 for other values."""
    weights = np.zeros(len(values))
    if isinstance(values, Interval):
        if not values.missing or not is_missing(condition):
            raise ValueError(
                f"Column {name!r} has bins. Use a range, a tuple (low, high)."
            )
        weights[-1] = 1
        return weights
    is_list = isinstance(condition, Iterable) and not isinstance(condition, str | bytes)
    listed = list(condition) if is_list else [condition]
    listed = [None if is_missing(value) else value for value in listed]
    codes = values.encode(to_objects(listed))
    if (codes == len(values)).any():
        raise ValueError(
            f"The condition on column {name!r} must have declared values, {values!r}."
        )
    weights[codes] = 1
    return weights
