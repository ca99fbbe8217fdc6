"""Rates of groups and their comparisons, with standard errors and confidence intervals.

The functions are used for true groups and for groups that are estimated from reports. Rates of true groups
have Clopper-Pearson intervals (1934); other rates have score intervals (Wilson 1927; Fieller 1954).
Differences and ratios combine score intervals by the method of variance estimates recovery (MOVER; Zou and
Donner 2008). ``benchmarks/fairness.py`` measures the coverage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdp._arrays import Floats, Indices, Mask
from skdp.base import NORMAL, Estimate, find_binomial_interval

# Estimated numbers of rows below this are rounding errors of 0.
MIN_ROWS = 1e-9

# A rate of a group without rows is nan, without a warning of NumPy.
IGNORE_DIVISION = np.errstate(divide="ignore", invalid="ignore")


# Rates, where y is the true label and ŷ the prediction: the definition, and the function
# that returns the mask of the rows that the rate divides by from the positive rows.
RATES: dict[str, tuple[str, Callable[[Mask], Mask]]] = {
    "selection_rate": ("P(ŷ=+)", np.ones_like),
    "true_positive_rate": ("TPR = P(ŷ=+ | y=+)", np.array),
    "false_positive_rate": ("FPR = P(ŷ=+ | y=−)", np.logical_not),
}


# Comparisons of groups: the definition, where the sides are inserted at {difference} or
# {ratio}, the rates, and True for a ratio; otherwise the mean of the differences.
COMPARISONS: dict[str, tuple[str, tuple[str, ...], bool]] = {
    "statistical_parity_difference": (
        "P(ŷ=+): {difference}",
        ("selection_rate",),
        False,
    ),
    "disparate_impact": ("P(ŷ=+): {ratio}", ("selection_rate",), True),
    "equal_opportunity_difference": (
        "TPR: {difference}",
        ("true_positive_rate",),
        False,
    ),
    "average_odds_difference": (
        "FPR&TPR: {difference}",
        ("true_positive_rate", "false_positive_rate"),
        False,
    ),
}


@dataclass(frozen=True)
class Groups:
    """Groups of weighted rows: true groups, or groups that are estimated from reports."""

    names: list[Any]
    # Indicators of the groups, or unbiased estimates of them; shape (n_rows, n_groups).
    # True groups are a sparse array.
    indicators: Any
    # Weight of each row, with a mean of 1; shape (n_rows,).
    weights: Floats
    is_reported: bool
    # True if group 0 is unprivileged and group 1 is privileged.
    has_privileged: bool
    # "population" if the rows are a sample, "table" if only the noise is random.
    rows: str = "population"
    # Variances of `indicators` that are noisy counts, of the same shape; None for reports.
    noise: Floats | None = None

    def sum(self, values: Floats) -> Floats:
        """Estimate the sum of a number of each row by group; shape (n_groups,)."""
        return values @ self.indicators

    def sum_noise(self, values: Floats) -> Floats:
        """Sum the estimated covariances of the indicators of each row, times `values`; shape (n_groups, n_groups).

        The covariances are due to the noise of the reports. `values` has a number for each row.
        """
        if not self.is_reported:
            return np.zeros((len(self.names), len(self.names)))
        if self.noise is not None:
            return np.diag(values @ self.noise)
        # A record is in one group, so the mean of the product of its indicators of two
        # groups is their covariance. A true indicator equals its square, so the mean of
        # ``indicator**2 - indicator`` is the variance.
        products: Floats = (self.indicators.T * values) @ self.indicators
        return products - np.diag(self.sum(values))


@dataclass(frozen=True)
class RateSums:
    """Estimated weighted sums of the rates of each group, with the variance of their errors."""

    # A rate is numerator / denominator: sums of weights; shape (n_rates, n_groups).
    numerator: Floats
    denominator: Floats
    # Coefficients c of the covariance ``c[0] - c[1] (t + u) + c[2] t u`` of ``numerator -
    # rate * denominator`` of two groups with the rates t and u; shape (3, n_rates,
    # n_groups, n_groups).
    covariance: Floats
    # Design effect of rates of true groups, whose intervals are exact: ratio of the
    # variance of sampling to the variance for weights of 1 and the same sums; shape
    # (n_rates, n_groups). None for other groups.
    exact_effect: Floats | None = None
    # Variances that widen the intervals of rates of few rows, added to the coefficients of
    # one group; shape (3, n_rates, n_groups).
    added_variance: Any = 0.0


def sum_rates(is_true: Mask, is_predicted: Mask, groups: Groups) -> RateSums:
    """Sum the weights of the rows of each group for the selection rate, the true and the false positive rate.

    `is_true` marks the truly positive rows, and `is_predicted` the rows that are predicted to be; shape (n_rows,).
    """
    weights, n_groups = groups.weights, len(groups.names)
    rows = np.stack([find_rows(is_true) for _, find_rows in RATES.values()])
    # Selected and unselected rows of each rate; shape (2, n_rates, n_rows).
    parts = np.stack([rows & is_predicted, rows & ~is_predicted])

    def sum_parts(function: Any, weights: Floats) -> Floats:
        """Sum the weights of each part by a method of the groups; shape (2, n_rates, n_groups, ...)."""
        return np.array([[function(weights * part) for part in half] for half in parts])

    sums = sum_parts(groups.sum, weights)
    effect = _estimate_design_effect(sums, sum_parts(groups.sum, weights**2), weights)
    noise = sum_parts(groups.sum_noise, weights**2)
    # The estimate of a variance may be negative.
    diagonal = np.eye(n_groups)
    noise = np.where(diagonal, np.maximum(noise, 0), noise)
    covariance = np.stack([noise[0], noise[0], noise.sum(axis=0)])
    total = sums.sum(axis=0)
    if groups.rows == "population":
        # Add the binomial variance ``n t (1 - t)`` of a rate t by its coefficients ``c`` (see
        # `RateSums`); n is 0 if the estimated number of rows is negative.
        binomial = (np.maximum(total, 0) * effect)[..., np.newaxis] * diagonal
        covariance -= np.multiply.outer([0, 0.5, 1], binomial)
    added_variance: Any = 0.0
    if groups.is_reported and groups.noise is None:
        # Normal intervals are too narrow if few rows are misreported, so they add the
        # noise of two selected and two unselected rows, whose report is either of two
        # values with probability 1/2 (after Agresti and Coull 1998).
        is_mixed = parts.any(axis=2).all(axis=0)
        variance_of_row = (np.ptp(groups.indicators, axis=0) / 2) ** 2
        variance_of_row *= np.mean(weights**2)
        added_variance = 2 * np.outer(is_mixed, variance_of_row * noise.any())
        added_variance = np.multiply.outer([1, 1, 2], added_variance)
    return RateSums(
        numerator=sums[0],
        denominator=total,
        covariance=covariance,
        added_variance=added_variance,
        exact_effect=None if groups.is_reported else effect,
    )


@IGNORE_DIVISION
def _estimate_design_effect(sums: Floats, squares: Floats, weights: Floats) -> Floats:
    """Estimate the design effect of each rate and group; shape (n_rates, n_groups).

    `sums` and `squares` are sums of weights and of squared weights of selected and unselected rows, of shape
    (2, n_rates, n_groups).
    """
    # The linearized variance of ``selected - rate * total`` is ``squares of selected rows *
    # (1 - rate)**2 + squares of unselected rows * rate**2`` (Woodruff 1971).
    means = np.where(sums > MIN_ROWS, squares / sums, np.nan)
    # Noise may move the mean weight of a few rows outside the possible weights.
    means = np.clip(means, weights.min(), weights.max())
    # Without selected rows, the mean of unselected rows replaces theirs, and conversely.
    selected, unselected = np.where(np.isnan(means), means[::-1], means)
    rate = np.clip(sums[0] / sums.sum(axis=0), 0, 1)
    effect: Floats = selected + (unselected - selected) * rate
    return np.nan_to_num(effect, nan=1.0)


@dataclass(frozen=True)
class Rates:
    """Rates of groups with intervals; shape (n_rates, n_groups)."""

    # Intervals may extend below 0 and above 1 because of the noise of reports, and are
    # infinite for a group that may have no rows.
    unclipped: Estimate
    # Covariance of the errors of two groups; shape (n_rates, n_groups, n_groups).
    covariance: Floats

    @property
    def clipped(self) -> Estimate:
        """Rates with intervals that are clipped to possible values."""
        return self.unclipped.clip(0, 1)

    def select(self, names: Iterable[str]) -> Rates:
        """Return some of the rates."""
        index = [list(RATES).index(name) for name in names]
        return Rates(self.unclipped.select(index), self.covariance[index])


@IGNORE_DIVISION
def score_rates(sums: RateSums, level: float) -> Rates:
    """Estimate rates with score intervals of the confidence level `level`; shape (n_rates, n_groups)."""
    total, coefficients = sums.denominator, sums.covariance
    raw_rate = np.where(total > MIN_ROWS, sums.numerator / total, np.nan)
    rate = np.clip(raw_rate, 0, 1)
    t, u = rate[..., np.newaxis], rate[:, np.newaxis]
    covariance = coefficients[0] - coefficients[1] * (t + u) + coefficients[2] * t * u
    # Rounding, or few misreported rows, may make a variance negative.
    variance = np.maximum(np.diagonal(covariance, axis1=1, axis2=2), 0)
    # A rate t is in the interval if ``numerator - t * denominator``, whose mean is 0, is at
    # most z standard errors from 0: between the roots of a quadratic function of ``t -
    # raw_rate``.
    z = NORMAL.quantile(level)
    constant, linear, squared = z**2 * (
        np.diagonal(coefficients, axis1=2, axis2=3) + sums.added_variance
    )
    slope = raw_rate * squared - linear
    lower, upper = _find_roots(
        total**2 - squared, slope, raw_rate * (linear - slope) - constant
    )
    is_bounded = (total**2 > squared) & (total > 0)
    std_error = np.sqrt(variance) / total
    # The interval of a rate that is clipped to [0, 1] may have no possible rate. It
    # includes the rates within the margin of the clipped rate as well.
    margin = np.where(raw_rate == rate, 0, z * std_error)
    lower = np.where(is_bounded, np.fmin(raw_rate + lower, rate - margin), -np.inf)
    upper = np.where(is_bounded, np.fmax(raw_rate + upper, rate + margin), np.inf)
    estimate = Estimate(rate, std_error, lower, upper)
    return Rates(estimate, covariance)


def _find_roots(squared: Any, linear: Any, constant: Any) -> tuple[Floats, Floats]:
    """Return the roots of ``squared * t**2 - 2 * linear * t + constant``."""
    # Rounding may make the discriminant negative.
    root = np.sqrt(np.maximum(linear**2 - squared * constant, 0))
    return (linear - root) / squared, (linear + root) / squared


def estimate_rates(sums: RateSums, level: float) -> Estimate:
    """Estimate rates, with Clopper-Pearson intervals of rates of true groups; shape (n_rates, n_groups)."""
    rates = score_rates(sums, level).clipped
    effect = sums.exact_effect
    if effect is None:
        return rates
    # The Wilson interval of a rate of 0.0035 covers in only 84 % of samples of 50 rows.
    # Comparisons use score intervals because the coverage of MOVER depends on them.
    # Weighted rows count as fewer rows (Korn and Graubard 1998).
    selected = sums.numerator / effect
    unselected = (sums.denominator - sums.numerator) / effect
    lower, upper = find_binomial_interval(selected, unselected, level)
    return rates._replace(lower=lower, upper=upper)


def compare_with_privileged(
    rates: Rates, names: Sequence[str], is_ratio: bool
) -> Estimate:
    """Compare some rates of group 0 (unprivileged) with group 1 (privileged)."""
    compare = divide_rates if is_ratio else average_differences
    pair = np.array([0]), np.array([1])
    return compare(rates.select(names), *pair).select(0)


def make_simultaneous(level: float, n_groups: int) -> float:
    """Return the level of the interval of each pair, so that all of them cover with the confidence `level`."""
    # Bonferroni's inequality.
    return 1 - 2 * (1 - level) / (n_groups * (n_groups - 1))


@IGNORE_DIVISION
def compare_extremes(
    pairwise: Rates, simultaneous: Rates, names: Sequence[str], is_ratio: bool
) -> Estimate:
    """Compare the largest rate with the smallest, by intervals of one pair and of all pairs of groups.

    `pairwise` has the confidence level for one pair, and `simultaneous` for all pairs together. Differences are
    averaged over the rates `names`.
    """
    # The largest and the smallest estimate differ more than the true rates, so the
    # endpoint next to equality must hold for all pairs of groups. The other endpoint
    # requires the interval of one pair only.
    n_groups = pairwise.covariance.shape[1]
    pairs = np.nonzero(~np.eye(n_groups, dtype=bool))
    # No standard error is stated because the two groups are selected by their estimates.
    if is_ratio:
        pairwise, simultaneous = pairwise.select(names), simultaneous.select(names)
        low = divide_rates(pairwise, *pairs).lower.min()
        high = divide_rates(simultaneous, *pairs).upper.min()
        values = pairwise.unclipped.value
        ratio = values.min() / values.max()
        return Estimate(ratio, np.nan, low, high).clip(0, 1)
    differences = []
    for name in names:
        one, all_pairs = pairwise.select([name]), simultaneous.select([name])
        lower = average_differences(all_pairs, *pairs).lower.max()
        upper = average_differences(one, *pairs).upper.max()
        width = np.ptp(one.unclipped.value)
        differences.append((width, np.nan, max(lower, 0.0), upper))
    return Estimate(*np.mean(differences, axis=0))


@IGNORE_DIVISION
def _correlate_rates(rates: Rates, first: Indices, second: Indices) -> Floats:
    """Return the correlations of the rates of pairs of groups; shape (n_rates, n_pairs).

    `first` and `second` are the indices of the two groups of each pair.
    """
    # A misreported row is missing in one group and added to another group, so the errors
    # of two rates have opposite signs. True groups have no covariance.
    variance = np.diagonal(rates.covariance, axis1=1, axis2=2)
    scale = np.sqrt(variance[:, first] * variance[:, second])
    correlation = rates.covariance[:, first, second] / scale
    return np.clip(np.nan_to_num(correlation), -1, 1)


def _combine_errors(first: Any, second: Any, correlation: Any) -> Floats:
    """Return the standard error of a difference of two estimates from their errors.

    MOVER combines the distances of estimates from endpoints of intervals in the same way.
    """
    squared = first**2 + second**2 - 2 * correlation * first * second
    return np.sqrt(np.maximum(squared, 0))


@IGNORE_DIVISION
def average_differences(rates: Rates, first: Indices, second: Indices) -> Estimate:
    """Average the differences of all rates of pairs of groups, with MOVER intervals; shape (n_pairs,).

    `first` and `second` are the indices of the two groups of each pair.
    """
    # The distances of estimates from endpoints are combined like standard errors (Zou
    # 2007; Zou and Donner 2008). For two binomial proportions, this is method 10 of
    # Newcombe (1998).
    a, b = (rates.unclipped.select((slice(None), group)) for group in (first, second))
    rho = _correlate_rates(rates, first, second)
    error = _combine_errors(a.std_error, b.std_error, rho)
    down = _combine_errors(a.value - a.lower, b.upper - b.value, rho)
    up = _combine_errors(a.upper - a.value, b.value - b.lower, rho)
    # TPR and FPR are independent because they are rates of different rows.
    n_rates = len(a.value)
    mean_error, mean_down, mean_up = (
        np.hypot.reduce(distance) / n_rates for distance in (error, down, up)
    )
    mean = (a.value - b.value).mean(axis=0)
    estimate = Estimate(mean, mean_error, mean - mean_down, mean + mean_up)
    # The interval contains possible differences only.
    a, b = (rates.clipped.select((slice(None), group)) for group in (first, second))
    smallest, largest = a.lower - b.upper, a.upper - b.lower
    return estimate.clip(smallest.mean(axis=0), largest.mean(axis=0))


@IGNORE_DIVISION
def divide_rates(rates: Rates, first: Indices, second: Indices) -> Estimate:
    """Compute ratios of the only rate of pairs of groups, with MOVER-R intervals; shape (n_pairs,).

    `first` and `second` are the indices of the two groups of each pair.
    """
    top, bottom = (
        rates.clipped.select((slice(None), group)) for group in (first, second)
    )
    rho = _correlate_rates(rates, first, second)
    a, b = top.value, bottom.value
    value = a / b
    error = _combine_errors(top.std_error, value * bottom.std_error, rho) / b

    # The endpoints R are the ratios for which 0 is an endpoint of the MOVER interval of
    # ``top - R * bottom`` (Donner and Zou 2012, equation 9).
    # They solve ``squared * R**2 - 2 * linear * R + constant = 0``.
    a_down, b_up = a - top.lower, bottom.upper - b
    squared, linear = b**2 - b_up**2, a * b - rho * a_down * b_up
    lower, _ = _find_roots(squared, linear, a**2 - a_down**2)
    a_up, b_down = top.upper - a, b - bottom.lower
    squared, linear = b**2 - b_down**2, a * b - rho * a_up * b_down
    _, upper = _find_roots(squared, linear, a**2 - a_up**2)
    # MOVER-R covers in as little as 70 % of tables if a group may have no rows. The
    # ratio of opposite endpoints is then used.
    ends = rates.unclipped.lower
    is_bounded = np.isfinite(ends[:, first]) & np.isfinite(ends[:, second])
    lower = np.where(is_bounded, lower, top.lower / bottom.upper)
    upper = np.where(is_bounded, upper, top.upper / bottom.lower)
    return Estimate(value, error, lower, upper).clip(0, np.inf).select(0)
