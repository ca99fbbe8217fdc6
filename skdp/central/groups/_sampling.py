"""Sampling variances of statistics of groups, whose rows are a sample of a population."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from skdp._arrays import Floats
from skdp.base import K_NORM, NORMAL, Estimate, check_confidence_level, find_decimals
from skdp.central._ranges import estimate_counts
from skdp.central._sums import add_sampling, list_unknown_deviations
from skdp.central.statistics import MAX_NOISY_COUNT

# An interval endpoint is at least log((N - 1) odds) ranks, divided by the rate of its choice,
# from its quantile, for N candidates and the odds of the level: N - 1 is at least this
# number if the range of a column has 256 numbers or more.
MIN_ENDPOINTS = 8


def find_unknown_deviations(
    groups: Any, names: Sequence[Any], bounds: Any
) -> list[Any]:
    """Return the columns with means or sums whose deviation does not follow from the statistics of `groups`."""
    statistics = set(groups._statistics)
    if statistics.isdisjoint({"mean", "sum"}) or statistics & {"std", "var"}:
        return []
    return list_unknown_deviations(names, bounds)


def check_sampling(groups: Any, names: Sequence[Any], bounds: Any) -> None:
    """Raise an error unless sampling variances of the columns `names` follow from the statistics of `groups`."""
    check_ranks(groups)
    unknown = find_unknown_deviations(groups, names, bounds)
    if unknown:
        raise ValueError(
            f"`statistics` must contain 'std' for the sampling error of {unknown}, got "
            f"{list(groups._statistics)}. Add 'std'."
        )


def check_ranks(groups: Any) -> None:
    """Raise an error unless sampling variances of the quantiles of `groups` follow from their intervals and counts."""
    if not groups._probabilities:
        return
    if len(groups._probabilities) == len(groups._statistics):
        raise ValueError(
            "`statistics` must contain 'count' for the sampling error of quantiles, got "
            f"{list(groups._statistics)}. Add 'count'."
        )
    if not groups.intervals or groups.confidence_level < 0.5:
        raise ValueError(
            "`intervals` must be True and `confidence_level` at least 0.5 for the "
            "sampling error of quantiles."
        )


def measure_rank(groups: Any, index: int, statistic: str, p: float) -> Floats:
    """Return the lengths of one row below and above a quantile of a column; shape (2, n_groups)."""
    name = f"{groups._measured[index]}_{statistic}"
    value, _, lower, upper = groups.estimates_[name].T
    level = groups.confidence_level
    odds = MIN_ENDPOINTS * level / (1 - level)
    ranks = 2 * math.log(odds) * max(p, 1 - p) / groups._endpoint_epsilon
    # The endpoints have this distance in rows of the largest weight.
    ranks *= groups._find_sampling_factor(1.0)
    sides: Floats = np.array([value - lower, upper - value])
    decimals = find_decimals(groups._bounds_in_days, groups._measured)[index]
    if decimals is None:
        return sides / ranks
    # Many rows have the same number, and those of an endpoint any ranks within its step. If the
    # distribution has one mode, a fraction p or 1 - p of the rows, beyond the quantile, is
    # at most as dense as the rows at the quantile.
    low, high = groups.bounds_[index]
    n = np.maximum(groups._moments[0, :, index], 1.0)
    longest = (high - low) / (n * min(p, 1 - p))
    return np.minimum((sides + 10.0**-decimals) / ranks, longest)


def list_sampling_variances(
    groups: Any, index: int, n_rows: float = math.inf
) -> tuple[Floats, dict[str, Floats]]:
    """Return degrees of freedom and the sampling variances of the statistics of a column; of quantiles, both sides.

    They are for rows of the largest weight. `n_rows` is the number of all rows if it is fixed.
    """
    largest = groups._find_sampling_factor(1.0)
    n, mean, variance = groups._moments[..., index]
    n = np.maximum(n, largest)
    degrees = np.maximum(n / largest - 1, 1.0)
    # The released variance is the sum of squares divided by the number of values.
    variance = variance * (1 + 1 / degrees)
    low, high = groups.bounds_[index]
    with np.errstate(over="ignore", invalid="ignore"):
        # The square of a distance from the mean is at most the square of the largest distance.
        farthest = np.maximum(mean - low, high - mean) ** 2
        squares = largest * variance * np.maximum(farthest - variance, 0) / n
        variances = {
            "mean": largest * variance / n,
            "sum": largest * n * (variance + mean**2 * np.maximum(1 - n / n_rows, 0)),
            "var": squares,
            "std": squares / np.maximum(4 * variance, 1e-300),
        }
    for statistic, probability in groups._probabilities.items():
        p = float(probability)
        lengths = measure_rank(groups, index, statistic, p)
        variances[statistic] = largest * n * p * (1 - p) * lengths**2
    return degrees, variances


def add_sampling_errors(groups: Any, design_effect: float) -> dict[str, Floats]:
    """Return the estimates of `DPGroupBy.estimates_` for a population; shape (n_groups, 4) each."""
    check_sampling(groups, groups._measured, vars(groups).get("bounds_"))
    level = check_confidence_level(groups.confidence_level)
    found = {name: Estimate(*each.T) for name, each in groups.estimates_.items()}
    if "count" in found:
        factor = groups._find_sampling_factor(design_effect)
        found["count"] = _add_sampling_of_counts(groups, found["count"], level, factor)
    for index, column in enumerate(groups._measured):
        low, high = groups.bounds_[index]
        half = (high - low) / 2
        # Endpoints outside these limits, of means and quantiles the bounds, are not possible.
        limits = {"std": (0, half), "var": (0, half**2), "sum": (-np.inf, np.inf)}
        n_rows = max(float(groups._moments[0, ~groups._is_total, index].sum()), 1.0)
        degrees, variances = list_sampling_variances(groups, index, n_rows)
        for statistic in groups._statistics.keys() - {"count"}:
            name = f"{column}_{statistic}"
            errors = np.sqrt(design_effect * variances[statistic])
            # A mean of few rows is missing, but its interval has the bounds.
            is_released = ~np.isnan(found[name].lower)
            estimate = add_sampling(found[name], errors, degrees, level)
            estimate = estimate.clip(*limits.get(statistic, (low, high)))
            parts = (np.where(is_released, part, np.nan) for part in estimate)
            found[name] = Estimate(*parts)
    return {name: np.column_stack(estimate) for name, estimate in found.items()}


def _add_sampling_of_counts(
    groups: Any, counts: Estimate, level: float, factor: float
) -> Estimate:
    """Return the counts of groups for a population, in which the number of all rows is fixed."""
    value = counts.value if groups._is_weighted else counts.value.astype(np.int64)
    is_gaussian, *_ = groups._noise
    n_rows = float(counts.value[~groups._is_total].sum())
    if groups._finds_keys:
        n_rows = float(MAX_NOISY_COUNT)  # other keys have rows, too
    found = estimate_counts(
        value,
        counts.std_error,
        level,
        NORMAL if is_gaussian else K_NORM,
        n_rows=n_rows,
        design_effect=factor,
    )
    # Intervals of keys that are found may be longer.
    lower = np.minimum(found.lower, counts.lower)
    return found._replace(lower=lower, upper=np.maximum(found.upper, counts.upper))
