"""Rates of groups and their comparisons, with standard errors and confidence intervals.

The functions are used for true groups and for groups that are estimated from reports. A rate has
the score interval (Wilson 1927; Fieller 1954) if the groups are estimated, and otherwise the
Clopper-Pearson interval (1934). Differences and ratios combine score intervals by the method of variance
estimates recovery (MOVER; Zou and Donner 2008). ``benchmarks/fairness.py`` measures the coverage.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np
from scipy.special import betaincinv

from skdp.metrics._inputs import Codes, Mask, Numbers

# A rate is selected / (selected + unselected) rows. Lines are the selection rate, the
# true and the false positive rate; columns are the codes of `encode_predictions`:
# 2 if the row is truly positive, plus 1 if it is predicted to be.
SELECTED = np.array([[0, 1, 0, 1], [0, 0, 0, 1], [0, 1, 0, 0]])
UNSELECTED = np.array([[1, 0, 1, 0], [0, 0, 1, 0], [1, 0, 0, 0]])

# Estimated numbers of rows below this are rounding errors of 0.
MIN_ROWS = 1e-9

# A rate of a group without rows is nan, without a warning of NumPy.
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
        """Clip the interval to [low, high]; an endpoint that is nan becomes low or high."""
        lower = np.where(np.isnan(self.lower), low, np.clip(self.lower, low, high))
        upper = np.where(np.isnan(self.upper), high, np.clip(self.upper, low, high))
        return replace(self, lower=lower, upper=upper)


@dataclass(frozen=True)
class GroupSums:
    """Estimated sums of the weights of selected and unselected rows by rate and group, with their noise."""

    # Sums of weights, or numbers of rows without weights; shape (n_rates, n_groups).
    selected: Numbers
    unselected: Numbers
    # Covariances over the noise of the reports; shape (n_rates, n_groups, n_groups). They are
    # 0 for true groups.
    selected_covariance: Numbers
    unselected_covariance: Numbers
    # Variance that widens the intervals of rates of few rows; shape (n_rates, n_groups).
    extra_variance: Numbers
    # Design effect: ratio of the variance of sampling to the variance for weights of 1 and the
    # same sums; shape (n_rates, n_groups).
    design_effect: Numbers
    is_reported: bool

    @property
    def total(self) -> Numbers:
        """Sum of the weights of the rows that a rate divides by."""
        return self.selected + self.unselected

    def noise_variances(self) -> tuple[Numbers, Numbers]:
        """Return the variances of `selected` and `unselected`; shape (n_rates, n_groups)."""
        selected = np.diagonal(self.selected_covariance, axis1=1, axis2=2)
        unselected = np.diagonal(self.unselected_covariance, axis1=1, axis2=2)
        return selected, unselected

    def size_of_sample(self, rows: str) -> Numbers:
        """Return the factor of ``rate * (1 - rate)`` in the variance of sampling: 0 if rows="table"."""
        # The rows of a table are fixed, so only the noise of their reports is random.
        total = np.maximum(self.total, 0)
        return total * self.design_effect * (rows == "population")


def sum_known_groups(
    codes: Codes, groups: Codes, n_groups: int, weights: Numbers
) -> GroupSums:
    """Sum the weights of the rows of each code of labels and each true group, without noise.

    `codes` are the codes of `encode_predictions`; `groups` and `weights` have the group and the weight of each row.
    """

    def sum_by_cell(values: Numbers) -> Numbers:
        cells = codes * n_groups + groups
        sums = np.bincount(cells, values, 4 * n_groups).astype(float)
        return sums.reshape(4, n_groups)

    counts = sum_by_cell(weights)
    noise = np.zeros((len(SELECTED), n_groups, n_groups))
    return GroupSums(
        selected=SELECTED @ counts,
        unselected=UNSELECTED @ counts,
        selected_covariance=noise,
        unselected_covariance=noise,
        extra_variance=np.zeros((len(SELECTED), n_groups)),
        design_effect=_estimate_design_effect(counts, sum_by_cell(weights**2), weights),
        is_reported=False,
    )


def sum_reported_groups(
    codes: Codes, indicators: Numbers, weights: Numbers
) -> GroupSums:
    """Sum weighted unbiased indicators of the groups, (n_rows, n_groups), over the rows of each code.

    `codes` are 2 for truly positive rows plus 1 for rows predicted to be, as in `encode_predictions`; `weights` have a
    mean of 1.
    """
    n_groups = indicators.shape[1]
    counts, squares = np.zeros((2, 4, n_groups))
    noise = np.zeros((4, n_groups, n_groups))
    # A record is in one group, so the mean of the product of its indicators of two
    # groups is their covariance. A true indicator equals its square, so the mean of
    # ``indicator**2 - indicator`` is the variance. Its estimate may be negative.
    for code in range(4):
        block, weight = indicators[codes == code], weights[codes == code]
        counts[code], squares[code] = weight @ block, weight**2 @ block
        weighted = block * weight[:, np.newaxis]
        noise[code] = weighted.T @ weighted
        variances = noise[code].diagonal() - squares[code]
        np.fill_diagonal(noise[code], np.maximum(variances, 0))
    # Normal intervals are too narrow if few rows are misreported, so they add the noise
    # of two selected and two unselected rows, whose report is either of two values with
    # probability 1/2 (after Agresti and Coull 1998).
    variance_of_row = (np.ptp(indicators, axis=0) / 2) ** 2 * np.mean(weights**2)
    n_rows = np.bincount(codes, minlength=4)
    is_mixed = (SELECTED @ n_rows > 0) & (UNSELECTED @ n_rows > 0)
    return GroupSums(
        selected=SELECTED @ counts,
        unselected=UNSELECTED @ counts,
        selected_covariance=np.tensordot(SELECTED, noise, axes=1),
        unselected_covariance=np.tensordot(UNSELECTED, noise, axes=1),
        extra_variance=2 * np.outer(is_mixed, variance_of_row * noise.any()),
        design_effect=_estimate_design_effect(counts, squares, weights),
        is_reported=True,
    )


@IGNORE_DIVISION
def _estimate_design_effect(
    counts: Numbers, squares: Numbers, weights: Numbers
) -> Numbers:
    """Estimate the design effect of each rate and group; shape (n_rates, n_groups).

    `counts` and `squares` are sums of weights and of squared weights by code and group, of shape (4, n_groups).
    """
    # The linearized variance of ``selected - rate * total`` is ``squares of selected rows *
    # (1 - rate)**2 + squares of unselected rows * rate**2`` (Woodruff 1971).
    means = []
    for mask in (SELECTED, UNSELECTED):
        total = mask @ counts
        mean = np.where(total > MIN_ROWS, mask @ squares / total, np.nan)
        # Noise may move the mean weight of a few rows outside the possible weights.
        means.append(np.clip(mean, weights.min(), weights.max()))
    # Without selected rows, the mean of unselected rows replaces theirs, and conversely.
    selected = np.where(np.isnan(means[0]), means[1], means[0])
    unselected = np.where(np.isnan(means[1]), means[0], means[1])
    rate = np.clip((SELECTED @ counts) / ((SELECTED + UNSELECTED) @ counts), 0, 1)
    effect: Numbers = selected + (unselected - selected) * rate
    return np.nan_to_num(effect, nan=1.0)


@dataclass(frozen=True)
class Rates:
    """Rates of groups with score intervals; shape (n_rates, n_groups)."""

    sums: GroupSums
    # Variance of ``selected - rate * total``.
    variance: Numbers
    # Intervals may extend below 0 and above 1 because of the noise of reports.
    unclipped: Estimate
    # False for a group that may have no rows, whose interval is infinite.
    is_bounded: Mask

    @property
    def clipped(self) -> Estimate:
        """Rates with intervals that are clipped to [0, 1]."""
        return self.unclipped.clip(0, 1)


@IGNORE_DIVISION
def score_rates(sums: GroupSums, rows: str, level: float) -> Rates:
    """Estimate rates with score intervals of the confidence level `level`; shape (n_rates, n_groups).

    `rows` is "population" if the rows are a sample, and "table" if only the noise of reports is random.
    """
    total, n_sampled = sums.total, sums.size_of_sample(rows)
    raw_rate = np.where(total > MIN_ROWS, sums.selected / total, np.nan)
    rate = np.clip(raw_rate, 0, 1)
    # The variance of ``(1 - rate) * selected - rate * unselected`` is the variance of
    # the noise plus the binomial variance of the sample.
    noise, other_noise = sums.noise_variances()
    variance = noise * (1 - rate) ** 2 + other_noise * rate**2
    variance += n_sampled * rate * (1 - rate)
    # A rate t is in the interval if ``selected - t * total``, whose mean is 0, is at
    # most z standard errors from 0: between the roots of a quadratic function of t.
    z = NormalDist().inv_cdf((1 + level) / 2)
    noise = noise + sums.extra_variance
    other_noise = other_noise + sums.extra_variance
    squared = total**2 - z**2 * (noise + other_noise - n_sampled)
    linear = sums.selected * total - z**2 * (noise - n_sampled / 2)
    constant = sums.selected**2 - z**2 * noise
    lower, upper = _find_roots(squared, linear, constant)
    is_bounded = (squared > 0) & (total > 0)
    std_error = np.sqrt(variance) / total
    # The interval of a rate that is clipped to [0, 1] may have no possible rate. It
    # includes the rates within the margin of the clipped rate as well.
    margin = np.where(raw_rate == rate, 0, z * std_error)
    lower = np.where(is_bounded, np.fmin(lower, rate - margin), -np.inf)
    upper = np.where(is_bounded, np.fmax(upper, rate + margin), np.inf)
    estimate = Estimate(rate, std_error, lower, upper)
    return Rates(sums, variance, estimate, is_bounded)


def _find_roots(squared: Any, linear: Any, constant: Any) -> tuple[Numbers, Numbers]:
    """Return the roots of ``squared * t**2 - 2 * linear * t + constant``."""
    # Rounding may make the discriminant negative.
    root = np.sqrt(np.maximum(linear**2 - squared * constant, 0))
    return (linear - root) / squared, (linear + root) / squared


def estimate_rates(sums: GroupSums, rows: str, level: float) -> Estimate:
    """Estimate rates, with Clopper-Pearson intervals unless the groups are reported; shape (n_rates, n_groups)."""
    rates = score_rates(sums, rows, level).clipped
    if sums.is_reported:
        return rates
    # The Wilson interval of a rate of 0.0035 covers in only 84 % of samples of 50 rows.
    # Comparisons use score intervals because the coverage of MOVER depends on them.
    tail = (1 - level) / 2
    # Weighted rows count as fewer rows (Korn and Graubard 1998).
    selected = sums.selected / sums.design_effect
    unselected = sums.unselected / sums.design_effect
    # betaincinv requires positive parameters.
    lower = betaincinv(np.maximum(selected, MIN_ROWS), unselected + 1, tail)
    upper = betaincinv(selected + 1, np.maximum(unselected, MIN_ROWS), 1 - tail)
    lower = np.where(selected > 0, lower, 0)
    upper = np.where(unselected > 0, upper, 1)
    return replace(rates, lower=lower, upper=upper)


def compare_with_privileged(sums: GroupSums, rows: str, level: float) -> list[Estimate]:
    """Compare group 0 (unprivileged) with group 1 (privileged).

    Return parity difference, disparate impact, opportunity and average odds difference.
    """
    rates = score_rates(sums, rows, level)
    pair = np.array([0]), np.array([1])
    difference = subtract_rates(rates, *pair)
    impact = divide_rates(rates, *pair)
    odds = average_odds_difference(rates, *pair)
    return [difference[0, 0], impact[0, 0], difference[1, 0], odds[0]]


@IGNORE_DIVISION
def compare_extremes(sums: GroupSums, rows: str, level: float) -> list[Estimate]:
    """Compare the largest rate with the smallest, by the metrics of `compare_with_privileged`."""
    # The largest and the smallest estimate differ more than the true rates, so the
    # endpoint next to equality must hold for all pairs of groups (Bonferroni). The other
    # endpoint requires the interval of one pair only.
    n_groups = sums.selected.shape[1]
    pairs = np.nonzero(~np.eye(n_groups, dtype=bool))
    pairwise = score_rates(sums, rows, level)
    simultaneous_level = 1 - 2 * (1 - level) / (n_groups * (n_groups - 1))
    simultaneous = score_rates(sums, rows, simultaneous_level)
    lower = subtract_rates(simultaneous, *pairs).lower.max(axis=1).clip(0, 1)
    upper = subtract_rates(pairwise, *pairs).upper.max(axis=1).clip(0, 1)
    low_ratio = divide_rates(pairwise, *pairs).lower[0].min().clip(0, 1)
    high_ratio = divide_rates(simultaneous, *pairs).upper[0].min().clip(0, 1)
    selection = pairwise.unclipped.value[0]
    ratio = selection.min() / selection.max()
    # Largest minus smallest rate: selection rate, TPR and FPR. No standard error is
    # stated because the two groups are selected by their estimates.
    width = np.ptp(pairwise.unclipped.value, axis=1)
    odds = width[1:].mean(), np.nan, lower[1:].mean(), upper[1:].mean()
    return [
        Estimate(width[0], np.nan, lower[0], upper[0]),
        Estimate(ratio, np.nan, low_ratio, high_ratio),
        Estimate(width[1], np.nan, lower[1], upper[1]),
        Estimate(*odds),
    ]


@IGNORE_DIVISION
def _correlate_rates(rates: Rates, first: Codes, second: Codes) -> Numbers:
    """Return the correlations of the rates of pairs of groups; shape (n_rates, n_pairs).

    `first` and `second` are the indices of the two groups of each pair.
    """
    # A misreported row is missing in one group and added to another group, so the errors
    # of two rates have opposite signs. True groups have no covariance.
    t, u = rates.unclipped.value[:, first], rates.unclipped.value[:, second]
    covariance = rates.sums.selected_covariance[:, first, second] * (1 - t) * (1 - u)
    covariance += rates.sums.unselected_covariance[:, first, second] * t * u
    scale = np.sqrt(rates.variance[:, first] * rates.variance[:, second])
    return np.clip(np.nan_to_num(covariance / scale), -1, 1)


def _combine_errors(first: Any, second: Any, correlation: Any) -> Numbers:
    """Return the standard error of a difference of two estimates from their errors.

    MOVER combines the distances of estimates from endpoints of intervals in the same way.
    """
    squared = first**2 + second**2 - 2 * correlation * first * second
    distance: Numbers = np.sqrt(np.maximum(squared, 0))
    return distance


@IGNORE_DIVISION
def _subtract_unclipped(rates: Rates, first: Codes, second: Codes) -> Estimate:
    """Subtract rates of pairs of groups, with MOVER intervals that may exceed [-1, 1]; shape (n_rates, n_pairs).

    `first` and `second` are the indices of the two groups of each pair.
    """
    # The distances of estimates from endpoints are combined like standard errors (Zou
    # 2007; Zou and Donner 2008). For two binomial proportions, this is method 10 of
    # Newcombe (1998).
    a, b = rates.unclipped[:, first], rates.unclipped[:, second]
    rho = _correlate_rates(rates, first, second)
    value = a.value - b.value
    down = _combine_errors(a.value - a.lower, b.upper - b.value, rho)
    up = _combine_errors(a.upper - a.value, b.value - b.lower, rho)
    error = _combine_errors(a.std_error, b.std_error, rho)
    return Estimate(value, error, value - down, value + up)


def subtract_rates(rates: Rates, first: Codes, second: Codes) -> Estimate:
    """Subtract the rates of pairs of groups; shape (n_rates, n_pairs)."""
    # The distances of MOVER come from unclipped intervals; only their result is clipped.
    difference = _subtract_unclipped(rates, first, second)
    a, b = rates.clipped[:, first], rates.clipped[:, second]
    return difference.clip(a.lower - b.upper, a.upper - b.lower)


def average_odds_difference(rates: Rates, first: Codes, second: Codes) -> Estimate:
    """Average the differences of TPR and FPR of pairs of groups; shape (n_pairs,).

    `first` and `second` are the indices of the two groups of each pair.
    """
    # TPR and FPR are independent because they are rates of different rows.
    odds = _subtract_unclipped(rates, first, second)[1:]
    value = odds.value.mean(axis=0)
    down = np.hypot(*(odds.value - odds.lower)) / 2
    up = np.hypot(*(odds.upper - odds.value)) / 2
    estimate = Estimate(value, np.hypot(*odds.std_error) / 2, value - down, value + up)
    possible = subtract_rates(rates, first, second)[1:]
    return estimate.clip(possible.lower.mean(axis=0), possible.upper.mean(axis=0))


@IGNORE_DIVISION
def divide_rates(rates: Rates, first: Codes, second: Codes) -> Estimate:
    """Compute ratios of the rates of pairs of groups, with MOVER-R intervals; shape (n_rates, n_pairs).

    `first` and `second` are the indices of the two groups of each pair.
    """
    top, bottom = rates.clipped[:, first], rates.clipped[:, second]
    rho = _correlate_rates(rates, first, second)
    a, b = top.value, bottom.value
    value = a / b
    error = _combine_errors(top.std_error, value * bottom.std_error, rho) / b

    def find_endpoints(
        distance: Numbers, other_distance: Numbers
    ) -> tuple[Numbers, Numbers]:
        """Return both endpoints from the distances of `a` and `b` from their endpoints."""
        # The endpoints R are the ratios for which 0 is an endpoint of the MOVER interval
        # of ``top - R * bottom`` (Donner and Zou 2012, equation 9).
        linear = a * b - rho * distance * other_distance
        return _find_roots(b**2 - other_distance**2, linear, a**2 - distance**2)

    lower, _ = find_endpoints(a - top.lower, bottom.upper - b)
    _, upper = find_endpoints(top.upper - a, b - bottom.lower)
    # MOVER-R covers in as little as 70 % of tables if a group may have no rows. The
    # ratio of opposite endpoints is then used.
    is_bounded = rates.is_bounded[:, first] & rates.is_bounded[:, second]
    lower = np.where(is_bounded, lower, top.lower / bottom.upper)
    upper = np.where(is_bounded, upper, top.upper / bottom.lower)
    return Estimate(value, error, lower, upper).clip(0, np.inf)
