"""Counts estimated by a fitted model: conditions on columns, standard errors and intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from skdp._arrays import ColumnName, Floats, Mask
from skdp.base import LAPLACE, NORMAL, check_confidence_level
from skdp.central import find_range
from skdp.domain import (
    OTHER,
    Categories,
    Domain,
    FoundCategories,
    Interval,
    make_edge_array,
)
from skdp.synthesis.answers._fitted_table import Conditions, FittedTable
from skdp.synthesis.answers._hidden import find_hidden
from skdp.synthesis.answers._kept import measure_kept
from skdp.synthesis.measure import find_columns
from skdp.synthesis.model import (
    MAX_TABLE_CELLS,
    Clique,
    Marginal,
    Structure,
    merge_marginals,
    project,
)
from skdp.synthesis.private._number_cells import Shape, Steps
from skdp.tables import (
    ORDERED_TYPES,
    drop_missing,
    is_missing,
    to_objects,
    type_of_value,
)

ESTIMATES = ("count", "std_error", "lower", "upper", "supported")
"""Columns that `tabulate_counts` adds to the values: the count and its error."""

MIN_PART = 1e-12
"""Smallest weight of a part of a bin: a part has no noisy count, unlike an empty range or the whole bin."""

Query = Mapping[int, Floats | None]
"""The counts to estimate, by column: weights over which the values are summed, or None for a count of each value."""


@dataclass(frozen=True)
class ModelCount:
    """A count by a model, with its standard error and interval; `CountsMixin.count_estimate` describes the fields."""

    count: float
    std_error: float
    lower: float
    upper: float
    supported: bool


def tabulate_counts(
    fitted: FittedTable, names: Sequence[Any], level: float
) -> pd.DataFrame:
    """Estimate the counts of all combinations of values of some columns, with intervals of a confidence level."""
    indices = find_columns(fitted.domain, names, "columns")
    for name in names:
        if name in ESTIMATES:
            raise ValueError(
                f"`columns` must not contain {name!r}, because the result has an "
                "estimate of this name. Use `count` with a condition on it."
            )
    domain = fitted.domain.select(names)
    if domain.size > MAX_TABLE_CELLS:
        raise ValueError(
            f"`columns` must have at most {MAX_TABLE_CELLS:,} combinations of "
            f"values, got {domain.size:,}. Name fewer columns, or use `count`."
        )
    counts = fitted.n_rows[0] * fitted.counts.model.marginal(indices)
    table = domain.cells().to_frame(index=False)
    errors = _estimate_errors(fitted, dict.fromkeys(indices), counts, level)
    for name, estimate in zip(ESTIMATES, (counts, *errors), strict=True):
        table[name] = estimate.ravel()
    return table


def count_conditions(
    fitted: FittedTable, conditions: object, level: float
) -> ModelCount:
    """Estimate the number of records that fulfill conditions, with an interval of a confidence level."""
    weights = read_conditions(fitted.domain, conditions, fitted.counts.shapes)
    proportion = fitted.counts.model.expectation(weights) if weights else 1.0
    count = np.array(fitted.n_rows[0] * proportion)
    errors = _estimate_errors(fitted, weights, count, level)
    return ModelCount(count.item(), *(error.item() for error in errors))


def plan_conditions(
    fitted: FittedTable, conditions: Mapping[ColumnName, object]
) -> Conditions:
    """Condition the model on whole values and bins, and list the ranges that end within bins."""
    weights = read_conditions(fitted.domain, conditions, fitted.counts.shapes)
    whole: dict[Clique, Floats] = {(c,): np.ceil(w) for c, w in weights.items()}
    ranges = {}
    for name, limits in conditions.items():
        values = fitted.domain[name]
        if isinstance(values, Interval) and isinstance(limits, tuple):
            ranges[name] = _read_range(name, values, *limits)
    model = fitted.counts.model
    count = fitted.n_rows[0] * model.expectation(weights)
    return Conditions(model.condition(whole), count, ranges)


def _read_range(
    name: ColumnName, values: Interval, low: object, high: object
) -> tuple[Any, Any]:
    """Return the ends of a half-open range; None for no upper limit, and at the upper bound, which it contains."""
    start = _read_limit(name, values, low, values.edges[0])
    stop = _read_limit(name, values, high, values.edges[-1])
    is_closed = bool(stop >= np.array(values.edges[-1], stop.dtype))
    return start, None if is_closed else stop


def _estimate_errors(
    fitted: FittedTable, query: Query, counts: Floats, level: float
) -> tuple[NDArray[Any], ...]:
    """Return the errors of the counts of a query by the model, and the bounds of intervals that cover with `level`.

    `counts` has an axis for each column without weights. Each result has its shape: the standard error, the lower and
    the upper bound, and whether a measured marginal contains the count. Without such a marginal the first three are
    nan.
    """
    measured, noise = combine_counts(fitted.counts.marginals, query)
    # The expected squared distance from an unbiased estimate is the squared error of the
    # model plus the variance of the estimate.
    misfit = np.sqrt(np.maximum((counts - measured) ** 2 - noise**2, 0))
    std_error = np.maximum(noise, misfit)
    is_gaussian = fitted.counts.numbers.is_gaussian
    quantile = (NORMAL if is_gaussian else LAPLACE).quantile(level)
    # A model is nonnegative, so it has too many records in nearly empty cells and too few
    # in all others. The interval is centered at the noisy count, which is unbiased, and
    # contains the count by the model. A distance from a whole number of a millionth of a
    # record is rounding.
    margin = quantile * noise - 1e-6
    lower = np.floor(np.minimum(measured - margin, counts))
    upper = np.ceil(np.maximum(np.maximum(measured, 0) + margin, counts))
    return std_error, np.maximum(0, lower), upper + 0.0, np.isfinite(std_error)


def describe_quality(fitted: FittedTable) -> pd.DataFrame:
    """Describe the noise, the misfit and the residual of the fit of each measured marginal."""
    # The first two are total variation distances, half of a sum of absolute differences. The
    # noise of a count has a mean absolute value of 0.8 standard errors.
    n_rows, _ = fitted.n_rows
    model = fitted.counts.model
    merged = merge_marginals(fitted.counts.marginals)
    structure = Structure(fitted.domain.sizes)
    _, model_columns = structure.refine((m.clique, m.groups) for m in merged)
    grouped = {}
    for marginal, columns in zip(merged, model_columns, strict=True):
        if columns != marginal.clique:
            grouped[marginal.clique] = model.marginal(columns), marginal.counts
    kept = measure_kept(fitted)
    hidden = find_hidden(fitted)
    rows = {}
    for names, std_error in fitted.noise_scales.items():
        clique = tuple(find_columns(fitted.domain, names, "marginals"))
        if clique in grouped:
            proportions, measured = grouped[clique]
        else:
            proportions = model.marginal(clique)
            query = dict.fromkeys(clique)
            measured, _ = combine_counts(fitted.counts.marginals, query)
        noise = 0.4 * std_error * proportions.size / n_rows
        rows[", ".join(map(str, names))] = {
            "n_cells": proportions.size,
            "std_error": std_error,
            "noise": noise,
            "misfit": np.nansum(np.abs(measured / n_rows - proportions)) / 2,
            "residual": model.residuals.get(clique, 0.0),
            "usable": noise <= 0.1 and clique not in hidden,
            "kept": kept.get(names, (math.nan, 0.0))[0],
        }
    return pd.DataFrame.from_records(
        list(rows.values()), pd.Index(rows, name="marginal")
    )


def combine_counts(
    marginals: Iterable[Marginal], query: Query
) -> tuple[Floats, Floats]:
    """Estimate the counts of a query from all marginals that contain them, with standard errors; NaN if none does.

    A query maps columns to weights of their values, which are summed, or to None for a count of each value.
    """
    # Estimates are unbiased and weighted by their precisions 1 / variance.
    weighted = np.zeros(())
    precision = np.zeros(())
    for marginal in marginals:
        if set(query) <= set(marginal.clique):
            counts, variance, is_measured = _sum_marginal(marginal, query)
            weighted = weighted + np.where(is_measured, counts / variance, 0)
            precision = precision + np.where(is_measured, 1 / variance, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        estimate = np.where(precision > 0, weighted / precision, math.nan)
        return estimate, np.where(precision > 0, precision**-0.5, math.nan)


def _sum_marginal(marginal: Marginal, query: Query) -> tuple[Floats, float, Mask]:
    """Sum the noisy counts of a marginal to the counts of a query.

    Returns
    -------
    counts : ndarray
        The counts.
    variance : float
        The variance of each count.
    is_measured : ndarray of bool
        False for counts that are derived from the count of a group of values.
    """
    counts = project(marginal.counts, marginal.clique, list(query))
    variance = marginal.std_error**2 * marginal.counts.size / counts.size
    is_measured: Mask = np.ones(counts.shape, bool)
    # From the last axis to the first, so that the axes before keep their positions.
    for axis, (column, weights) in reversed(list(enumerate(query.items()))):
        group_of_value = marginal.groups_of(column)
        if group_of_value is None:
            n_values = counts.shape[axis] if weights is None else weights.size
            group_of_value = np.arange(n_values)
        group_sizes = np.bincount(group_of_value)
        if weights is None:
            # A value has a count of its own if it is alone in its group.
            is_single = group_sizes[group_of_value] == 1
            shape = np.ones(counts.ndim, int)
            shape[axis] = -1
            counts = np.take(counts, group_of_value, axis)
            is_measured = np.take(is_measured, group_of_value, axis)
            is_measured = is_measured & is_single.reshape(shape)
            continue
        # A condition must contain all values of a group or none.
        group_weights = np.bincount(group_of_value, weights) / group_sizes
        is_whole = bool(np.isin(group_weights, [0.0, 1.0]).all())
        counts = np.tensordot(counts, group_weights, (axis, 0))
        sum_of_squares = float(group_weights @ group_weights)
        variance *= max(sum_of_squares, np.finfo(float).tiny)
        is_measured = np.asarray(is_measured.all(axis=axis) & is_whole)
    return np.asarray(counts), variance, np.asarray(is_measured)


def read_conditions(
    domain: Domain, conditions: object, shapes: Mapping[int, Shape]
) -> dict[int, Floats]:
    """Return the fraction of each value or bin that fulfills conditions, by index of the column."""
    if not isinstance(conditions, Mapping):
        raise TypeError(
            "`conditions` must be a mapping of column name to a value, a list of "
            f"values or (low, high), got {type(conditions).__name__}."
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
    name: ColumnName,
    values: Categories | Interval,
    limits: tuple[Any, ...],
    shape: Shape | None = None,
) -> Floats:
    """Return the fraction of each value or bin that is in a half-open range; shape (n_values,).

    `limits` are (low, high), with None for no limit. `shape` is the distribution within bins; without it, numbers are
    uniform.
    """
    if len(limits) != 2:
        raise ValueError(
            f"The range of column {name!r} must be a pair (low, high), got {limits}. "
            "Use a list for several values."
        )
    if not isinstance(values, Interval):
        if limits != (None, None):  # all values but missing ones
            _check_is_ordered(name, values)
        return find_range(name, values, *limits).astype(float)
    start = _read_limit(name, values, limits[0], values.edges[0])
    stop = _read_limit(name, values, limits[1], values.edges[-1])
    if start > stop and None not in limits:
        raise ValueError(
            f"The range of column {name!r} must be (low, high) with low <= high, got "
            f"{limits}."
        )
    edges = make_edge_array(values.edges, values.dtype)
    is_day = edges.dtype == "datetime64[D]"
    # The last bin contains its upper edge.
    is_closed = bool(stop >= np.array(values.edges[-1], edges.dtype))
    if values.decimals == 0:
        start, stop = np.ceil(start), np.ceil(stop)
    if is_day:  # rounded up, because a day is its midnight
        instant, day = np.timedelta64(1, "us"), np.timedelta64(1, "D")
        start, stop = [
            (limit - instant).astype(edges.dtype) + day for limit in (start, stop)
        ]
    if is_closed:
        stop = edges[-1]
    low = np.clip(start, edges[:-1], edges[1:])
    high = np.clip(stop, edges[:-1], edges[1:])
    # Numbers are uniform within a bin, or within its fine cells.
    weights = np.asarray((high - low) / np.diff(edges), float)
    if shape is not None:
        is_part = (weights > 0) & (weights < 1)
        ranks = shape.rank(np.asarray(high)) - shape.rank(np.asarray(low))
        weights[is_part] = np.clip(ranks[is_part], MIN_PART, 1 - MIN_PART)
    if not is_day and edges[-1] in (start, stop):
        # The upper bound is in the last fine cell; without fine cells, the bin has one or
        # two numbers.
        if shape is None:
            last = 1 / Steps.of(values).n_values[-1]
        else:
            last = float(np.clip(shape.proportions[-1], MIN_PART, 1 - MIN_PART))
        if not is_closed:  # a whole limit between the last two numbers
            weights[-1] = max(weights[-1] - last, 0.0)
        elif start == edges[-1]:
            weights[-1] = last
    return np.append(weights, 0.0) if values.missing else weights


def _check_is_ordered(name: ColumnName, values: Categories) -> None:
    """Raise an error for a tuple of values without an order, which may be meant as a list of values."""
    types = {type_of_value(value) for value in drop_missing(values.values)}
    if not values.ordered and not types <= set(ORDERED_TYPES):
        raise ValueError(
            f"The condition on column {name!r}, whose values have no order, must be a value "
            "or a list of values, got a tuple, which is a range. Use a list for several "
            "values, or declare Categories(values, ordered=True) for a range."
        )


def _read_limit(
    name: ColumnName, values: Interval, limit: object, bound: object
) -> Any:
    """Convert the lower or upper bound of a range to an array; None stands for the bound of the interval."""
    is_date = values.dtype.kind == "M"
    types: tuple[type, ...] = (int, float, np.number)
    expected = "numbers"
    if is_date:
        expected, types = "dates, datetimes without a time zone", (date, np.datetime64)
    limit = bound if limit is None else limit
    number = np.array(np.nan)
    is_aware = getattr(limit, "tzinfo", None) is not None
    if isinstance(limit, types) and not isinstance(limit, bool) and not is_aware:
        number = np.array(limit, "datetime64[us]" if is_date else float)
    if np.isnan(number):
        raise TypeError(
            f"The bounds of a range of column {name!r} must be {expected} or None, got "
            f"{type(limit).__name__}."
        )
    return number


def _weigh_values(
    name: ColumnName, values: Categories | Interval, condition: Any
) -> Floats:
    """Return 1 for each value that a condition lists, and 0 for all other values; bins can list missing only."""
    weights = np.zeros(len(values))
    if isinstance(values, Interval):
        if not values.missing or not is_missing(condition):
            raise ValueError(
                f"The condition on column {name!r}, which has bins, must be a range "
                f"(low, high), got {type(condition).__name__}."
            )
        weights[-1] = 1
        return weights
    is_list = isinstance(condition, Iterable) and not isinstance(condition, str | bytes)
    listed = list(condition) if is_list else [condition]
    listed = [None if is_missing(value) else value for value in listed]
    codes = values.encode(to_objects(listed))
    if isinstance(values, FoundCategories):  # which reads other values as the last one
        is_other = np.array([value == OTHER for value in listed])
        codes = np.where(codes < len(values.found), codes, len(values) - is_other)
    if (codes == len(values)).any():
        raise ValueError(
            f"The condition on column {name!r} must list declared values, {values!r}, "
            f"got {condition!r}."
        )
    weights[codes] = 1
    return weights


class CountsMixin:
    """The counts of a fitted table, with their errors."""

    _fitted: FittedTable

    @property
    def selected_cliques_(self) -> list[tuple[Any, ...]]:
        """The columns of each measured marginal."""
        return list(self.noise_scale_)

    @property
    def noise_scale_(self) -> dict[tuple[Any, ...], float]:
        """Standard deviation of the noise of each count, by marginal."""
        check_is_fitted(self)
        return self._fitted.noise_scales

    @property
    def marginal_quality_(self) -> pd.DataFrame:
        """Noise and misfit of each measured marginal."""
        check_is_fitted(self)
        return describe_quality(self._fitted)

    @property
    def pair_scores_(self) -> pd.DataFrame:
        """Noisy scores of pairs of columns, in descending order."""
        check_is_fitted(self)
        return self._fitted.pair_scores

    def marginal(
        self, columns: str | Sequence[ColumnName], *, confidence_level: float = 0.95
    ) -> pd.DataFrame:
        """Estimate the counts of all combinations of values of some columns.

        Parameters
        ----------
        columns : list of column names
            Modeled columns.
        confidence_level : float, default=0.95
            Coverage of each interval, in (0, 1).

        Returns
        -------
        pandas.DataFrame
            A row for each combination of values (bins as text), with the ``count`` by the model, its ``std_error``, the
            bounds ``lower`` and ``upper`` of its interval, and whether it is ``supported`` (see `count_estimate`).

        Raises
        ------
        ValueError
            If a column is not modeled or has the name of an estimate, there are more than 2**26 combinations, or the
            confidence level is out of range.
        """
        check_is_fitted(self)
        names = [columns] if isinstance(columns, str) else list(columns)
        level = check_confidence_level(confidence_level)
        return tabulate_counts(self._fitted, names, level)

    def count(self, conditions: Mapping[Any, Any]) -> float:
        """Estimate the number of records that fulfill conditions on several columns.

        Parameters
        ----------
        conditions : mapping of column name to (low, high), value or list of values
            A tuple is a half-open range, in which None stands for no bound: any numbers or dates for an `Interval`, or
            two declared values of a column with an order (numbers, dates, or `Categories` with ``ordered=True``). A
            range to or from the upper bound of an `Interval` contains this bound. A list contains the accepted values.
            All conditions must hold.

        Returns
        -------
        float
            Estimated count of the model, nonnegative and in general not an integer.

        Raises
        ------
        TypeError, ValueError
            If a column or a value is not declared.
        """
        return self.count_estimate(conditions).count

    def count_estimate(
        self, conditions: Mapping[Any, Any], *, confidence_level: float = 0.95
    ) -> ModelCount:
        """Estimate the number of records that fulfill conditions, with its error.

        Parameters
        ----------
        conditions : mapping of column name to (low, high), value or list of values
            As for `count`.
        confidence_level : float, default=0.95
            Coverage of the interval, in (0, 1).

        Returns
        -------
        ModelCount
            The ``count``, its ``std_error``, the bounds ``lower`` and ``upper`` of its interval, and whether it is
            ``supported`` (also False if an endpoint of a range is inside a bin).

        Raises
        ------
        TypeError, ValueError
            As for `count`; if the confidence level is out of range.

        Notes
        -----
        A count is supported if one measured marginal has all columns, and the conditions contain whole bins and whole
        groups of rare values. The noisy counts are then unbiased, and the interval is centered at their weighted mean.
        So its coverage is at least the stated one, whether or not the model is accurate.

        The count by the model is often more accurate than the noisy count, but it is biased in sparse marginals: a
        model has no negative counts, so it has too many records in nearly empty cells, and too few in all others. The
        interval contains it. The standard error is the standard error of the noisy count or, if larger, an estimate of
        the error of the model.

        Otherwise the dependence of the columns was not measured, or a condition contains a part of a bin or of a group
        of rare values. The error is then unknown, and nan.

        **Privacy.** Post-processing of noisy counts, without privacy loss.
        """
        check_is_fitted(self)
        level = check_confidence_level(confidence_level)
        return count_conditions(self._fitted, conditions, level)
