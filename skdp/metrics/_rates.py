"""Rates of groups and their comparisons, with standard errors and confidence intervals.

One engine for known groups and for groups that are estimated from reports. A rate has the score interval (Wilson 1927;
Fieller 1954), or Clopper and Pearson's (1934) if the groups are known. Differences and ratios combine score
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
# (see `encode_predictions`): selection rate, true and false positive rate.
SELECTED = np.array([[0, 1, 0, 1], [0, 0, 0, 1], [0, 1, 0, 0]])
OTHERS = np.array([[1, 0, 1, 0], [0, 0, 1, 0], [1, 0, 0, 0]])

# Coverage of the intervals.
LEVEL = 0.95

# Estimated numbers of rows below this are rounding errors of 0.
MIN_ROWS = 1e-9

# A rate without rows is nan.
IGNORE_DIVISION = np.errstate(divide="ignore", invalid="ignore")


@dataclass(frozen=True)
class Estimate:
    """Estimates, standard errors and intervals, as arrays of the same shape."""

    value: Any
    std_error: Any
    lower: Any
    upper: Any

    def __getitem__(self, index: Any) -> Estimate:
        fields = self.value, self.std_error, self.lower, self.upper
        return Estimate(*(field[index] for field in fields))

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
    # Variance added to intervals of rates with few rows: (n_rates, n_groups).
    few_rows: Numbers
    is_reported: bool

    @property
    def total(self) -> Numbers:
        """Number of rows that a rate divides by."""
        return self.selected + self.others

    def own_noise(self) -> tuple[Numbers, Numbers]:
        """Return the variances of selected and of other rows: (n_rates, n_groups)."""
        own = np.arange(self.selected.shape[1])
        return self.selected_noise[:, own, own], self.other_noise[:, own, own]

    def sampled(self, rows: str) -> Numbers:
        """Return the number of rows whose sampling is part of the variance."""
        # Only the noise of given rows is random.
        return np.maximum(self.total, 0) * (rows == "population")


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
    # minus the indicator is the variance. Its estimate may be negative.
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
    is_mixed = (SELECTED @ n_rows > 0) & (OTHERS @ n_rows > 0)
    few_rows = 2 * np.outer(is_mixed, coin * noise.any())
    selected_noise = np.tensordot(SELECTED, noise, axes=1)
    other_noise = np.tensordot(OTHERS, noise, axes=1)
    sums = SELECTED @ counts, OTHERS @ counts
    return GroupSums(*sums, selected_noise, other_noise, few_rows, True)


@dataclass(frozen=True)
class Rates:
    """Rates of groups with score intervals: (n_rates, n_groups)."""

    sums: GroupSums
    # Variance of ``selected - rate * total``.
    variance: Numbers
    # With noise, intervals may extend below 0 and above 1.
    unclipped: Estimate
    # The interval of a group that may have no rows is not bounded.
    is_bounded: Mask

    @property
    def clipped(self) -> Estimate:
        """Rates with intervals between 0 and 1."""
        return self.unclipped.clip(0, 1)


@IGNORE_DIVISION
def score_rates(sums: GroupSums, rows: str, level: float = LEVEL) -> Rates:
    """Estimate rates with score intervals."""
    total, sampled = sums.total, sums.sampled(rows)
    selected_noise, other_noise = sums.own_noise()
    rate = np.clip(sums.selected / total, 0, 1)
    rate = np.where(total > MIN_ROWS, rate, np.nan)
    variance = selected_noise * (1 - rate) ** 2 + other_noise * rate**2
    variance += sampled * rate * (1 - rate)
    # A rate t is in the interval if ``selected - t * total``, of mean 0, is at most z
    # standard errors from 0: between the roots of a quadratic function of t.
    z = NormalDist().inv_cdf((1 + level) / 2)
    selected_noise, other_noise = (
        selected_noise + sums.few_rows,
        other_noise + sums.few_rows,
    )
    squared = total**2 - z**2 * (selected_noise + other_noise - sampled)
    linear = sums.selected * total - z**2 * (selected_noise - sampled / 2)
    constant = sums.selected**2 - z**2 * selected_noise
    lower, upper = _find_roots(squared, linear, constant)
    is_bounded = (squared > 0) & (total > 0)
    # A rate that is cut at 0 or 1 may be outside of its interval.
    lower = np.where(is_bounded, np.fmin(lower, rate), -np.inf)
    upper = np.where(is_bounded, np.fmax(upper, rate), np.inf)
    estimate = Estimate(rate, np.sqrt(variance) / total, lower, upper)
    return Rates(sums, variance, estimate, is_bounded)


def _find_roots(squared: Any, linear: Any, constant: Any) -> tuple[Numbers, Numbers]:
    """Return the roots of ``squared * t**2 - 2 * linear * t + constant``."""
    # Rounding may make the discriminant negative.
    root = np.sqrt(np.maximum(linear**2 - squared * constant, 0))
    return (linear - root) / squared, (linear + root) / squared


def estimate_rates(sums: GroupSums, rows: str) -> Estimate:
    """Estimate rates, with exact intervals of known groups."""
    rates = score_rates(sums, rows).clipped
    if sums.is_reported:
        return rates
    # Wilson's interval of a rate of 0.0035 covers in 84 % of samples of 50 rows.
    # Comparisons use score intervals, from which MOVER has its coverage.
    tail = (1 - LEVEL) / 2
    counts, others = sums.selected, sums.others
    # betaincinv requires positive parameters.
    lower = betaincinv(np.maximum(counts, MIN_ROWS), others + 1, tail)
    upper = betaincinv(counts + 1, np.maximum(others, MIN_ROWS), 1 - tail)
    lower, upper = np.where(counts > 0, lower, 0), np.where(others > 0, upper, 1)
    return replace(rates, lower=lower, upper=upper)


def compare_with_privileged(sums: GroupSums, rows: str) -> list[Estimate]:
    """Compare group 0 with group 1: parity, impact, opportunity and average odds."""
    rates = score_rates(sums, rows)
    pair = np.array([0]), np.array([1])
    difference = subtract_rates(rates, *pair)
    impact, odds = divide_rates(rates, *pair), average_odds(rates, *pair)
    return [difference[0, 0], impact[0, 0], difference[1, 0], odds[0]]


@IGNORE_DIVISION
def compare_extremes(sums: GroupSums, rows: str) -> list[Estimate]:
    """Compare the largest rate with the smallest one, in the same order."""
    # Estimated extremes differ more than the true ones, so the endpoint next to equality
    # must hold for all pairs (Bonferroni). The other endpoint needs the interval of one
    # pair.
    n_groups = sums.selected.shape[1]
    pairs = np.nonzero(~np.eye(n_groups, dtype=bool))
    one = score_rates(sums, rows)
    joint_level = 1 - 2 * (1 - LEVEL) / (n_groups * (n_groups - 1))
    joint = score_rates(sums, rows, joint_level)
    lower = subtract_rates(joint, *pairs).lower.max(axis=1).clip(0, 1)
    upper = subtract_rates(one, *pairs).upper.max(axis=1).clip(0, 1)
    low_ratio = divide_rates(one, *pairs).lower[0].min().clip(0, 1)
    high_ratio = divide_rates(joint, *pairs).upper[0].min().clip(0, 1)
    selection = one.unclipped.value[0]
    ratio = selection.min() / selection.max()
    width = np.ptp(one.unclipped.value, axis=1)
    odds = width[1:].mean(), np.nan, lower[1:].mean(), upper[1:].mean()
    return [
        Estimate(width[0], np.nan, lower[0], upper[0]),
        Estimate(ratio, np.nan, low_ratio, high_ratio),
        Estimate(width[1], np.nan, lower[1], upper[1]),
        Estimate(*odds),
    ]


@IGNORE_DIVISION
def _correlate(rates: Rates, first: Codes, second: Codes) -> Numbers:
    """Return the correlations of the rates of pairs of groups: (n_rates, n_pairs)."""
    # A row that noise takes from one group is added to another one, so errors of two
    # rates have opposite signs.
    t, u = rates.unclipped.value[:, first], rates.unclipped.value[:, second]
    covariance = rates.sums.selected_noise[:, first, second] * (1 - t) * (1 - u)
    covariance += rates.sums.other_noise[:, first, second] * t * u
    scale = np.sqrt(rates.variance[:, first] * rates.variance[:, second])
    return np.clip(np.nan_to_num(covariance / scale), -1, 1)


def _add_distances(first: Any, second: Any, correlation: Any) -> Numbers:
    """Return the standard error of a difference, or a distance of MOVER."""
    squared = first**2 + second**2 - 2 * correlation * first * second
    distance: Numbers = np.sqrt(np.maximum(squared, 0))
    return distance


@IGNORE_DIVISION
def _subtract_unclipped(rates: Rates, first: Codes, second: Codes) -> Estimate:
    """Return differences with the intervals of MOVER."""
    # The distances of estimates from endpoints are added as standard errors are (Zou and
    # Donner 2008; Zou 2007). For two binomial proportions: Newcombe (1998), method 10.
    one, other = rates.unclipped[:, first], rates.unclipped[:, second]
    rho = _correlate(rates, first, second)
    value = one.value - other.value
    down = _add_distances(one.value - one.lower, other.upper - other.value, rho)
    up = _add_distances(one.upper - one.value, other.value - other.lower, rho)
    error = _add_distances(one.std_error, other.std_error, rho)
    return Estimate(value, error, value - down, value + up)


def subtract_rates(rates: Rates, first: Codes, second: Codes) -> Estimate:
    """Return the differences of pairs of groups: (n_rates, n_pairs)."""
    # Endpoints that noise takes below 0 or above 1 are cut after distances are added.
    difference = _subtract_unclipped(rates, first, second)
    one, other = rates.clipped[:, first], rates.clipped[:, second]
    return difference.clip(one.lower - other.upper, one.upper - other.lower)


def average_odds(rates: Rates, first: Codes, second: Codes) -> Estimate:
    """Return the means of the differences of TPR and FPR: (n_pairs,)."""
    # The two are independent: no row is truly positive and truly negative.
    odds = _subtract_unclipped(rates, first, second)[1:]
    value = odds.value.mean(axis=0)
    down = np.hypot(*(odds.value - odds.lower)) / 2
    up = np.hypot(*(odds.upper - odds.value)) / 2
    estimate = Estimate(value, np.hypot(*odds.std_error) / 2, value - down, value + up)
    possible = subtract_rates(rates, first, second)[1:]
    return estimate.clip(possible.lower.mean(axis=0), possible.upper.mean(axis=0))


@IGNORE_DIVISION
def divide_rates(rates: Rates, first: Codes, second: Codes) -> Estimate:
    """Return the ratios of pairs of groups with MOVER-R intervals: (n_rates, n_pairs)."""
    top, bottom = rates.clipped[:, first], rates.clipped[:, second]
    rho = _correlate(rates, first, second)
    a, b = top.value, bottom.value
    value = a / b
    error = _add_distances(top.std_error, value * bottom.std_error, rho) / b

    def solve(distance: Numbers, other_distance: Numbers) -> tuple[Numbers, Numbers]:
        # The endpoints R are the ratios at which 0 is an endpoint of the MOVER interval
        # of ``top - R * bottom`` (Donner and Zou 2012, equation 9).
        linear = a * b - rho * distance * other_distance
        return _find_roots(b**2 - other_distance**2, linear, a**2 - distance**2)

    lower, _ = solve(a - top.lower, bottom.upper - b)
    _, upper = solve(top.upper - a, b - bottom.lower)
    # If a group may have no rows, MOVER-R covers in as little as 70 % of tables.
    is_bounded = rates.is_bounded[:, first] & rates.is_bounded[:, second]
    lower = np.where(is_bounded, lower, top.lower / bottom.upper)
    upper = np.where(is_bounded, upper, top.upper / bottom.lower)
    return Estimate(value, error, lower, upper).clip(0, np.inf)
