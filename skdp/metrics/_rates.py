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
# that returns the masks of the counted rows, and of the other rows that the rate divides
# by, from the masks of the truly positive rows and of the rows that are predicted to be.
RATES: dict[str, tuple[str, Callable[[Mask, Mask], tuple[Mask, Mask]]]] = {
    "selection_rate": ("P(ŷ=+)", lambda y, p: (p, ~p)),
    "true_positive_rate": ("TPR = P(ŷ=+ | y=+)", lambda y, p: (y & p, y & ~p)),
    "false_positive_rate": ("FPR = P(ŷ=+ | y=−)", lambda y, p: (~y & p, ~y & ~p)),
    "precision": ("PPV = P(y=+ | ŷ=+)", lambda y, p: (y & p, ~y & p)),
    "false_discovery_rate": ("FDR = P(y=− | ŷ=+)", lambda y, p: (~y & p, y & p)),
}


# Comparisons of groups: the definition, where the sides are inserted at {difference} or
# {ratio}; the rates; and the function of the rates: their ratio, or the mean or the largest
# absolute value of their differences.
COMPARISONS: dict[str, tuple[str, tuple[str, ...], str]] = {
    "statistical_parity_difference": (
        "P(ŷ=+): {difference}",
        ("selection_rate",),
        "mean",
    ),
    "disparate_impact": ("P(ŷ=+): {ratio}", ("selection_rate",), "ratio"),
    "equal_opportunity_difference": (
        "TPR: {difference}",
        ("true_positive_rate",),
        "mean",
    ),
    "average_odds_difference": (
        "FPR&TPR: {difference}",
        ("true_positive_rate", "false_positive_rate"),
        "mean",
    ),
    "equalized_odds_difference": (
        "max(FPR, TPR): |{difference}|",
        ("true_positive_rate", "false_positive_rate"),
        "largest",
    ),
    "predictive_parity_difference": ("PPV: {difference}", ("precision",), "mean"),
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
    # True if group 0 is unprivileged and group 1 is privileged. Further groups are parts of
    # group 0.
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
        # A record is in one of two disjoint groups, so the mean of the product of its
        # indicators is their covariance, which is not used for a group and its part. A
        # true indicator equals its square, so the mean of ``indicator**2 - indicator`` is
        # the variance.
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
    """Sum the weights of the rows of each group for all `RATES`.

    `is_true` marks the truly positive rows, and `is_predicted` the rows that are predicted to be; shape (n_rows,).
    """
    weights, n_groups = groups.weights, len(groups.names)
    masks = [find_parts(is_true, is_predicted) for _, find_parts in RATES.values()]
    # Counted and other rows of each rate; shape (2, n_rates, n_rows).
    parts = np.stack(masks, axis=1)

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
    score: Callable[[int], Rates], names: Sequence[str], function: str, group: int
) -> Estimate:
    """Compare some rates of a group with group 1 (privileged).

    `score` returns the rates, with intervals of which a number of pairs holds simultaneously.
    """
    pair = np.array([group, 1]), np.array([1, group])
    if function == "largest":
        return find_largest_difference(score(1), score(len(names)), names, pair)
    compare = divide_rates if function == "ratio" else average_differences
    return compare(score(1).select(names), *pair).select(0)


@IGNORE_DIVISION
def compare_extremes(
    score: Callable[[int], Rates], names: Sequence[str], function: str
) -> Estimate:
    """Compare the largest rate with the smallest, with the `score` of `compare_with_privileged`.

    The mean is over the differences of the rates `names`.
    """
    n_groups = score(1).covariance.shape[1]
    first, second = np.nonzero(~np.eye(n_groups, dtype=bool))
    pairs = first, second
    one, all_pairs = score(1), score(len(names) * len(first) // 2)
    if function == "largest":
        return find_largest_difference(one, all_pairs, names, pairs)
    if function == "mean":
        value, errors, lower, upper = np.transpose(
            [find_largest_difference(one, all_pairs, [name], pairs) for name in names]
        )
        # The rates are independent because they are rates of different rows.
        error = np.hypot.reduce(errors) / len(names)
        return Estimate(value.mean(), error, lower.mean(), upper.mean())
    one, all_pairs = one.select(names), all_pairs.select(names)
    smallest, *_, largest = np.argsort(one.unclipped.value[0])
    ratio, error, *_ = divide_rates(one, np.array([smallest]), np.array([largest]))
    low = divide_rates(one, *pairs).lower.min()
    high = divide_rates(all_pairs, *pairs).upper.min()
    return Estimate(ratio.item(), error.item(), low, high).clip(0, 1)


def find_largest_difference(
    one: Rates,
    simultaneous: Rates,
    names: Sequence[str],
    pairs: tuple[Indices, Indices],
) -> Estimate:
    """Return the largest difference of some rates of pairs of groups, which are listed in both orders.

    The intervals of `one` hold for one pair and rate, and the intervals of `simultaneous` for all of them.
    """
    # The largest estimate exceeds the largest true difference on average, so the endpoint
    # next to 0 must hold for all pairs and rates. The other endpoint requires only the
    # interval of the pair and rate with the largest true difference.
    value, error, _, upper = _subtract_rates(one, names, pairs)
    lower = _subtract_rates(simultaneous, names, pairs)[2]
    # The mean of the squared standard error of the largest difference is at least its
    # variance (Chernoff 1981).
    largest = np.argmax(value)
    return Estimate(
        value.flat[largest], error.flat[largest], max(lower.max(), 0.0), upper.max()
    )


def _subtract_rates(
    rates: Rates, names: Sequence[str], pairs: tuple[Indices, Indices]
) -> Floats:
    """Return the value, standard error and endpoints of differences; shape (4, n_rates, n_pairs)."""
    differences = [average_differences(rates.select([name]), *pairs) for name in names]
    return np.stack(differences, axis=1)


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
