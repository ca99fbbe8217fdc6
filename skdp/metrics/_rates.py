"""Rates of groups and their comparisons, with standard errors and confidence intervals.

One engine for known groups and for groups that are estimated from reports. A rate has the score interval (Wilson 1927;
Fieller 1954), or that of Clopper and Pearson (1934) if the groups are known. Differences and ratios combine score
intervals by MOVER. ``benchmarks/fairness.py`` measures the coverage.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np
from scipy.special import betaincinv

from skdp.metrics._inputs import Codes, Mask, Numbers

# The rows that a rate counts and its other rows, as indicators of the codes of labels
# (see `read_predictions`): selection rate, true and false positive rate.
SELECTED = np.array([[0, 1, 0, 1], [0, 0, 0, 1], [0, 1, 0, 0]])
OTHERS = np.array([[1, 0, 1, 0], [0, 0, 1, 0], [1, 0, 0, 0]])

# Estimated numbers of rows below this are rounding errors of 0.
MIN_ROWS = 1e-9


@dataclass(frozen=True)
class Estimate:
    """Estimates, standard errors and intervals, as arrays of the same shape."""

    value: Any
    std_error: Any
    lower: Any
    upper: Any

    def __getitem__(self, index: Any) -> Estimate:
        return Estimate(
            self.value[index],
            self.std_error[index],
            self.lower[index],
            self.upper[index],
        )

    def __neg__(self) -> Estimate:
        return Estimate(-self.value, self.std_error, -self.upper, -self.lower)

    def clip(self, low: Any, high: Any) -> Estimate:
        """Cut the interval to possible values; an unknown endpoint becomes a bound."""
        lower = np.where(np.isnan(self.lower), low, np.clip(self.lower, low, high))
        upper = np.where(np.isnan(self.upper), high, np.clip(self.upper, low, high))
        return replace(self, lower=lower, upper=upper)


@dataclass(frozen=True)
class GroupSums:
    """Numbers of selected and of other rows by rate and group, and their noise."""

    selected: Numbers  # (n_rates, n_groups)
    others: Numbers
    # Covariances over the noise of reports: (n_rates, n_groups, n_groups).
    selected_noise: Numbers
    other_noise: Numbers
    # Variance that intervals add for few rows: (n_rates, n_groups).
    few_rows: Numbers
    is_reported: bool

    @property
    def total(self) -> Numbers:
        """Number of rows that a rate divides by."""
        return self.selected + self.others

    def variance(self, rate: Numbers, rows: str) -> Numbers:
        """Variance of ``selected - rate * total``: noise, and the sampling of rows."""
        own = np.arange(self.selected.shape[1])
        variance: Numbers = (
            self.selected_noise[:, own, own] * (1 - rate) ** 2
            + self.other_noise[:, own, own] * rate**2
        )
        if rows == "population":
            variance += np.maximum(self.total, 0) * rate * (1 - rate)
        return variance


def sum_known_groups(codes: Codes, groups: Codes, n_groups: int) -> GroupSums:
    """Count rows by label and known group."""
    counts = np.bincount(codes * n_groups + groups, minlength=4 * n_groups)
    counts = counts.reshape(4, n_groups).astype(float)
    noise = np.zeros((len(SELECTED), n_groups, n_groups))
    few_rows = np.zeros((len(SELECTED), n_groups))
    return GroupSums(SELECTED @ counts, OTHERS @ counts, noise, noise, few_rows, False)


def sum_reported_groups(codes: Codes, indicators: Numbers) -> GroupSums:
    """Sum unbiased indicators of the groups, (n_rows, n_groups), by label."""
    n_groups = indicators.shape[1]
    counts = np.zeros((4, n_groups))
    noise = np.zeros((4, n_groups, n_groups))
    # A record is in one group, so the mean of the product of two of its indicators is
    # their covariance. A true indicator is its own square, so the mean of the square
    # minus the indicator is the variance.
    for code in range(4):
        block = indicators[codes == code]
        counts[code] = block.sum(axis=0)
        noise[code] = block.T @ block
        variances = noise[code].diagonal() - counts[code]
        np.fill_diagonal(noise[code], np.maximum(variances, 0))
    # The normal distribution is too narrow if few reports are misreported. Intervals
    # add the noise of two selected and two other rows, each report of which is a fair
    # coin (Agresti and Coull 1998).
    coin = (np.ptp(indicators, axis=0) / 2) ** 2
    n_rows = np.bincount(codes, minlength=4)
    is_mixed = (n_rows @ SELECTED.T > 0) & (n_rows @ OTHERS.T > 0)
    few_rows = 2 * np.outer(is_mixed, coin * noise.any())
    return GroupSums(
        SELECTED @ counts,
        OTHERS @ counts,
        np.tensordot(SELECTED, noise, axes=1),
        np.tensordot(OTHERS, noise, axes=1),
        few_rows,
        True,
    )


@dataclass(frozen=True)
class Rates:
    """Rates of groups at one confidence level: (n_rates, n_groups)."""

    sums: GroupSums
    rows: str
    # Noise may take score intervals below 0 and above 1.
    unclipped: Estimate
    # A score interval is bounded if the group certainly has rows.
    is_bounded: Mask

    @classmethod
    def estimate(cls, sums: GroupSums, rows: str, level: float) -> Rates:
        """Estimate rates with score intervals."""
        has_rows = sums.total > MIN_ROWS
        with np.errstate(divide="ignore", invalid="ignore"):
            rate = np.clip(sums.selected / sums.total, 0, 1)
            rate = np.where(has_rows, rate, np.nan)
            std_error = np.sqrt(sums.variance(rate, rows)) / sums.total
        lower, upper, is_bounded = _score_interval(sums, rows, level)
        # A rate that is cut at 0 or 1 may be outside of its interval.
        lower, upper = np.fmin(lower, rate), np.fmax(upper, rate)
        return cls(sums, rows, Estimate(rate, std_error, lower, upper), is_bounded)

    @property
    def clipped(self) -> Estimate:
        """Rates with intervals between 0 and 1."""
        return self.unclipped.clip(0, 1)

    def correlations(self, first: Codes, second: Codes) -> Numbers:
        """Correlations of the noise of pairs of groups: (n_rates, n_pairs)."""
        # A row that noise takes from one group is added to another one, so errors of
        # two rates have opposite signs.
        rates = self.unclipped.value
        t, u = rates[:, first], rates[:, second]
        covariance = (
            self.sums.selected_noise[:, first, second] * (1 - t) * (1 - u)
            + self.sums.other_noise[:, first, second] * t * u
        )
        variance = self.sums.variance(rates, self.rows)
        with np.errstate(divide="ignore", invalid="ignore"):
            scale = np.sqrt(variance[:, first] * variance[:, second])
            return np.clip(np.nan_to_num(covariance / scale), -1, 1)


def _score_interval(
    sums: GroupSums, rows: str, level: float
) -> tuple[Numbers, Numbers, Mask]:
    """Return the endpoints of score intervals and which are bounded."""
    # A rate t is in the interval if ``selected - t * total``, of mean 0, is at most z
    # standard errors from 0: between the roots of a quadratic function of t.
    squared_z = NormalDist().inv_cdf((1 + level) / 2) ** 2
    own = np.arange(sums.selected.shape[1])
    selected_noise = sums.selected_noise[:, own, own] + sums.few_rows
    other_noise = sums.other_noise[:, own, own] + sums.few_rows
    sampled = np.maximum(sums.total, 0) if rows == "population" else 0.0
    squared = sums.total**2 - squared_z * (selected_noise + other_noise - sampled)
    linear = sums.selected * sums.total - squared_z * (selected_noise - sampled / 2)
    constant = sums.selected**2 - squared_z * selected_noise
    lower, upper = _roots(squared, linear, constant)
    # Without certain rows, any rate is possible.
    is_bounded = (squared > 0) & (sums.total > 0)
    lower = np.where(is_bounded, lower, -np.inf)
    upper = np.where(is_bounded, upper, np.inf)
    return lower, upper, is_bounded


def _roots(squared: Numbers, linear: Numbers, constant: Numbers) -> tuple[Any, Any]:
    """Return the roots of ``squared * t**2 - 2 * linear * t + constant``."""
    root = np.sqrt(np.maximum(linear**2 - squared * constant, 0))
    with np.errstate(divide="ignore", invalid="ignore"):
        return (linear - root) / squared, (linear + root) / squared


def estimate_rates(sums: GroupSums, rows: str, level: float) -> Estimate:
    """Estimate rates, with exact intervals of known groups."""
    rates = Rates.estimate(sums, rows, level).clipped
    if sums.is_reported:
        return rates
    # Wilson's interval of a rate of 0.0035 covers in 84 % of samples of 50 rows.
    tail = (1 - level) / 2
    counts, others = sums.selected, sums.others
    # betaincinv requires positive parameters.
    lower = betaincinv(np.maximum(counts, MIN_ROWS), others + 1, tail)
    upper = betaincinv(counts + 1, np.maximum(others, MIN_ROWS), 1 - tail)
    lower, upper = np.where(counts > 0, lower, 0), np.where(others > 0, upper, 1)
    return replace(rates, lower=lower, upper=upper)


def compare_with_privileged(sums: GroupSums, rows: str, level: float) -> list[Estimate]:
    """Compare group 0 with group 1: parity, impact, opportunity and average odds."""
    rates = Rates.estimate(sums, rows, level)
    first, second = np.array([0]), np.array([1])
    difference = subtract_rates(rates, first, second)
    impact = divide_rates(rates, first, second)
    odds = average_odds(rates, first, second)
    return [difference[0, 0], impact[0, 0], difference[1, 0], odds[0]]


def compare_extremes(sums: GroupSums, rows: str, level: float) -> list[Estimate]:
    """Compare the largest rate with the smallest one, in the same order."""
    # Estimated extremes differ more than the true ones, so the endpoint next to equality
    # must hold for all pairs (Bonferroni). The other endpoint needs the interval of one
    # pair.
    n_groups = sums.selected.shape[1]
    first, second = np.nonzero(~np.eye(n_groups, dtype=bool))
    n_pairs = n_groups * (n_groups - 1) / 2
    single = Rates.estimate(sums, rows, level)
    joint = Rates.estimate(sums, rows, 1 - (1 - level) / n_pairs)
    lower = subtract_rates(joint, first, second).lower.max(axis=1).clip(0, 1)
    upper = subtract_rates(single, first, second).upper.max(axis=1).clip(0, 1)
    low_ratio = divide_rates(single, first, second).lower[0].min().clip(0, 1)
    high_ratio = divide_rates(joint, first, second).upper[0].min().clip(0, 1)
    values = single.unclipped.value
    ranges = Estimate(np.ptp(values, axis=1), np.full(3, np.nan), lower, upper)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = values[0].min() / values[0].max()
    impact = Estimate(ratio, np.nan, low_ratio, high_ratio)
    odds = Estimate(ranges.value[1:].mean(), np.nan, lower[1:].mean(), upper[1:].mean())
    return [ranges[0], impact, ranges[1], odds]


def subtract_rates(rates: Rates, first: Codes, second: Codes) -> Estimate:
    """Return the differences of pairs of groups: (n_rates, n_pairs)."""
    difference = _subtract(
        rates.unclipped[:, first],
        rates.unclipped[:, second],
        rates.correlations(first, second),
    )
    # Endpoints that noise takes below 0 or above 1 are cut after the distances are added.
    one, other = rates.clipped[:, first], rates.clipped[:, second]
    return difference.clip(one.lower - other.upper, one.upper - other.lower)


def average_odds(rates: Rates, first: Codes, second: Codes) -> Estimate:
    """Return the means of the differences of TPR and FPR: (n_pairs,)."""
    correlation = rates.correlations(first, second)
    difference = _subtract(
        rates.unclipped[:, first], rates.unclipped[:, second], correlation
    )
    # The two are independent: no row is truly positive and truly negative.
    total = _subtract(difference[1], -difference[2], 0.0)
    possible = subtract_rates(rates, first, second)
    total = total.clip(
        possible.lower[1] + possible.lower[2], possible.upper[1] + possible.upper[2]
    )
    return Estimate(
        total.value / 2, total.std_error / 2, total.lower / 2, total.upper / 2
    )


def _subtract(first: Estimate, second: Estimate, correlation: Any) -> Estimate:
    """Return a difference with the interval of MOVER."""
    # The distances of estimates from endpoints are added as standard errors are (Zou and
    # Donner 2008; Zou 2007). For two binomial proportions: Newcombe (1998), method 10.
    value = first.value - second.value

    def add(a: Numbers, b: Numbers) -> Numbers:
        with np.errstate(invalid="ignore"):
            squared: Numbers = a**2 + b**2 - 2 * correlation * a * b
            return np.sqrt(np.maximum(squared, 0))

    down = add(first.value - first.lower, second.upper - second.value)
    up = add(first.upper - first.value, second.value - second.lower)
    std_error = add(first.std_error, second.std_error)
    return Estimate(value, std_error, value - down, value + up)


def divide_rates(rates: Rates, first: Codes, second: Codes) -> Estimate:
    """Return the ratios of pairs of groups with MOVER-R intervals: (n_rates, n_pairs)."""
    top, bottom = rates.clipped[:, first], rates.clipped[:, second]
    correlation = rates.correlations(first, second)
    a, b = top.value, bottom.value
    with np.errstate(divide="ignore", invalid="ignore"):
        value = a / b
        error = _subtract(
            top, replace(bottom, std_error=value * bottom.std_error), correlation
        )
        # The endpoints R are the ratios at which 0 is an endpoint of the MOVER interval
        # of ``top - R * bottom`` (Donner and Zou 2012, equation 9).
        lower, _ = _ratio_endpoints(a, b, a - top.lower, bottom.upper - b, correlation)
        _, upper = _ratio_endpoints(a, b, top.upper - a, b - bottom.lower, correlation)
        # Without certain rows MOVER-R covers in as little as 70 % of tables.
        is_bounded = rates.is_bounded[:, first] & rates.is_bounded[:, second]
        lower = np.where(is_bounded, lower, top.lower / bottom.upper)
        upper = np.where(is_bounded, upper, top.upper / bottom.lower)
        std_error = error.std_error / b
    return Estimate(value, std_error, lower, upper).clip(0, np.inf)


def _ratio_endpoints(
    a: Numbers, b: Numbers, distance: Numbers, other_distance: Numbers, correlation: Any
) -> tuple[Numbers, Numbers]:
    common = correlation * distance * other_distance
    return _roots(b**2 - other_distance**2, a * b - common, a**2 - distance**2)
