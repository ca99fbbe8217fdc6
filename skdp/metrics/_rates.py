"""Rates of groups and their comparisons, with standard errors and confidence intervals.

The functions are used for true groups and for groups that are estimated from reports. Rates of true groups
have Clopper-Pearson intervals (1934); other rates have score intervals (Wilson 1927; Fieller 1954).
Differences and ratios combine score intervals by the method of variance estimates recovery (MOVER; Zou and
Donner 2008). ``benchmarks/fairness.py`` measures the coverage.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from skdp._arrays import Floats, Indices, Mask
from skdp.base import NORMAL, Estimate, find_binomial_interval
from skdp.randomness import check_type

# Estimated numbers of rows below this are rounding errors of 0.
MIN_TOTAL = 1e-9

# A rate of a group without rows is nan, without a warning of NumPy.
IGNORE_DIVISION = np.errstate(divide="ignore", invalid="ignore")


# Function of the weights of the rows of a group in four cells: true positives, false
# positives, false negatives and true negatives.
CellFunction = Callable[[Any, Any, Any, Any], Any]
Metrics = Mapping[str, CellFunction]

# Rates, where y is the true label and ŷ the prediction: the definition, and the function
# that returns the weights of the counted rows, and of all rows that the rate divides by.
RATES: dict[str, tuple[str, CellFunction]] = {
    "selection_rate": ("P(ŷ=+)", lambda tp, fp, fn, tn: (tp + fp, tp + fp + fn + tn)),
    "true_positive_rate": ("TPR = P(ŷ=+ | y=+)", lambda tp, fp, fn, tn: (tp, tp + fn)),
    "false_positive_rate": ("FPR = P(ŷ=+ | y=−)", lambda tp, fp, fn, tn: (fp, fp + tn)),
    "precision": ("PPV = P(y=+ | ŷ=+)", lambda tp, fp, fn, tn: (tp, tp + fp)),
    "false_discovery_rate": (
        "FDR = P(y=− | ŷ=+)",
        lambda tp, fp, fn, tn: (fp, tp + fp),
    ),
}

# A comparison of groups: the definition, where the sides are inserted at {difference} or
# {ratio}; the names of rates; and their function: the ratio, the mean difference, or the
# largest absolute difference.
Comparison = tuple[str, tuple[str, ...], str]

COMPARISONS: dict[str, Comparison] = {
    "statistical_parity_difference": (
        "P(ŷ=+): {difference}",
        ("selection_rate",),
        "difference",
    ),
    "disparate_impact": ("P(ŷ=+): {ratio}", ("selection_rate",), "ratio"),
    "equal_opportunity_difference": (
        "TPR: {difference}",
        ("true_positive_rate",),
        "difference",
    ),
    "average_odds_difference": (
        "FPR&TPR: {difference}",
        ("true_positive_rate", "false_positive_rate"),
        "difference",
    ),
    "equalized_odds_difference": (
        "max(FPR, TPR): |{difference}|",
        ("true_positive_rate", "false_positive_rate"),
        "largest",
    ),
    "predictive_parity_difference": (
        "PPV: {difference}",
        ("precision",),
        "difference",
    ),
}


@dataclass(frozen=True)
class MetricTable:
    """The rates of each group and their comparisons, built in and of the user."""

    # The definition and the function of each value of a group. The functions of the user,
    # which return one number, are last.
    rates: dict[str, tuple[str, CellFunction]]
    comparisons: dict[str, Comparison]


def read_metrics(metrics: Metrics | None) -> MetricTable:
    """Check the metrics of a user, and add them to the built-in metrics."""
    check_type("metrics", metrics, Mapping | None, "a mapping of names to functions")
    rates = dict(RATES)
    comparisons = dict(COMPARISONS)
    for name, function in (metrics or {}).items():
        rate, _, kind = str(name).rpartition("_")
        is_new = name not in COMPARISONS and rate not in RATES
        if not rate or kind not in ("difference", "ratio") or not is_new:
            raise ValueError(
                "`metrics` must have names that end in '_difference' or '_ratio' and "
                f"are not built in, got {name!r}. Use a name such as 'f1_difference'."
            )
        definition = f"{rate}(tp, fp, fn, tn)", function
        if rates.setdefault(rate, definition)[1] is not function:
            raise ValueError(
                f"`metrics` must have the same function for the difference and the "
                f"ratio of {rate!r}, got two functions. Rename one of them."
            )
        try:
            float(function(*map(np.float64, (0.4, 0.3, 0.2, 0.1))))
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"`metrics[{name!r}]` must be a function of four numbers tp, fp, fn, tn "
                f"that returns one number, got {type(function).__name__}. Use a "
                "function such as lambda tp, fp, fn, tn: tp + tn."
            ) from error
        comparisons[name] = f"{rate}: {{{kind}}}", (rate,), kind
    return MetricTable(rates, comparisons)


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
        """Estimate sums of numbers of each row by group; the last axis of rows becomes an axis of groups."""
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

    def add_noise(self, noise: Floats) -> Floats:
        """Return the variance that is added to the `noise` of few rows of reports; shape (n_groups,)."""
        if not self.is_reported or self.noise is not None or not noise.any():
            return np.zeros(len(self.names))
        # Normal intervals are too narrow if few rows are misreported, so they add the
        # noise of two rows, whose report is either of two values with probability 1/2
        # (after Agresti and Coull 1998).
        variance: Floats = (np.ptp(self.indicators, axis=0) / 2) ** 2
        return 2 * variance * np.mean(self.weights**2)


@dataclass(frozen=True)
class CellSums:
    """Estimated weights of the cells of each group: true and false positives, false and true negatives."""

    groups: Groups
    # Sums of weights and of squared weights, (4, n_groups), and the covariances of their
    # errors by noise, (4, n_groups, n_groups).
    counts: Floats
    squares: Floats
    noise: Floats
    # True for cells with a row of any group; shape (4,).
    is_present: Mask

    def sampling_effect(self) -> Floats:
        """Return the variance of sampling of one unit of weight, 1 for equal weights; shape (4, n_groups)."""
        if self.groups.rows == "table":
            return np.zeros_like(self.counts)
        means = _average_weights(self.counts, self.squares, self.groups.weights)
        return np.nan_to_num(means, nan=1.0)

    def covariance(self) -> Floats:
        """Estimate the covariances of the errors of a cell in two groups; shape (4, n_groups, n_groups)."""
        diagonal = np.eye(self.counts.shape[1])
        sampling = np.maximum(self.counts, 0) * self.sampling_effect()
        return self.noise + sampling[..., np.newaxis] * diagonal

    def find_intervals(self, level: float) -> Floats:
        """Return score intervals of the cells, as of Poisson counts with noise; shape (2, 4, n_groups)."""
        z = NORMAL.quantile(level)
        noise = np.diagonal(self.noise, axis1=1, axis2=2) + self.groups.add_noise(
            self.noise
        )
        # The bounds c solve ``(count - c)**2 = z**2 (effect * c + noise)``. An interval of a
        # negative count would be too short.
        shift = z**2 * self.sampling_effect() / 2
        middle = np.maximum(self.counts, 0) + shift
        margin = np.sqrt((2 * middle - shift) * shift + z**2 * noise)
        return np.maximum([middle - margin, middle + margin], 0)


def sum_cells(is_true: Mask, is_predicted: Mask, groups: Groups) -> CellSums:
    """Sum the weights of the rows of each group by cell.

    `is_true` marks the truly positive rows, and `is_predicted` the rows that are predicted to be; shape (n_rows,).
    """
    y, p = is_true, is_predicted
    cells: Any = np.stack([y & p, ~y & p, y & ~p, ~y & ~p])
    weights = groups.weights
    noise = np.array([groups.sum_noise(weights**2 * cell) for cell in cells])
    return CellSums(
        groups,
        groups.sum(weights * cells),
        groups.sum(weights**2 * cells),
        # The estimate of a variance may be negative.
        np.where(np.eye(len(groups.names)), np.maximum(noise, 0), noise),
        cells.any(axis=1),
    )


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
    added_variance: Floats | float = 0.0


def sum_rates(cells: CellSums) -> RateSums:
    """Sum the weights of the rows of each group that the rates count, and that they divide by."""
    groups, weights = cells.groups, cells.groups.weights
    # Masks of the cells; shape (n_rates, 4).
    masks = [function(*np.eye(4)) for _, function in RATES.values()]
    counted, divided = np.stack(masks, axis=1)
    # Counted and other cells of each rate; shape (2, n_rates, 4).
    parts = np.stack([counted, divided - counted])
    sums = parts @ cells.counts
    effect = _estimate_design_effect(sums, parts @ cells.squares, weights)
    noise = np.tensordot(parts, cells.noise, axes=1)
    diagonal = np.eye(len(groups.names))
    covariance = np.stack([noise[0], noise[0], noise.sum(axis=0)])
    total = sums.sum(axis=0)
    if groups.rows == "population":
        # Add the binomial variance ``n t (1 - t)`` of a rate t by its coefficients ``c`` (see
        # `RateSums`); n is 0 if the estimated number of rows is negative.
        binomial = (np.maximum(total, 0) * effect)[..., np.newaxis] * diagonal
        covariance -= np.multiply.outer([0, 0.5, 1], binomial)
    is_mixed = (parts @ cells.is_present > 0).all(axis=0)
    added_variance = np.outer(is_mixed, groups.add_noise(noise))
    added_variance = np.multiply.outer([1, 1, 2], added_variance)
    return RateSums(
        numerator=sums[0],
        denominator=total,
        covariance=covariance,
        added_variance=added_variance,
        exact_effect=None if groups.is_reported else effect,
    )


@IGNORE_DIVISION
def _average_weights(sums: Floats, squares: Floats, weights: Floats) -> Floats:
    """Return means of `weights` by sums of weights and of squared weights; nan without rows."""
    means = np.where(sums > MIN_TOTAL, squares / sums, np.nan)
    # Noise may move the mean weight of a few rows outside the possible weights.
    return np.clip(means, weights.min(), weights.max())


@IGNORE_DIVISION
def _estimate_design_effect(sums: Floats, squares: Floats, weights: Floats) -> Floats:
    """Estimate the design effect of each rate and group; shape (n_rates, n_groups).

    `sums` and `squares` are sums of weights and of squared weights of selected and unselected rows, of shape
    (2, n_rates, n_groups).
    """
    # The linearized variance of ``selected - rate * total`` is ``squares of selected rows *
    # (1 - rate)**2 + squares of unselected rows * rate**2`` (Woodruff 1971).
    means = _average_weights(sums, squares, weights)
    # Without selected rows, the mean of unselected rows replaces theirs, and conversely.
    selected, unselected = np.where(np.isnan(means), means[::-1], means)
    rate = np.clip(sums[0] / sums.sum(axis=0), 0, 1)
    effect: Floats = selected + (unselected - selected) * rate
    return np.nan_to_num(effect, nan=1.0)


@dataclass(frozen=True)
class Rates:
    """Values of groups with intervals, by name; shape (n_rates, n_groups)."""

    names: list[str]
    # Intervals of rates may extend below 0 and above 1 because of the noise of reports, and
    # are infinite for a group that may have no rows.
    unclipped: Estimate
    # Covariance of the errors of two groups, up to a factor for each group, because only
    # correlations are read; shape (n_rates, n_groups, n_groups).
    covariance: Floats

    @property
    def clipped(self) -> Estimate:
        """Values with intervals that are clipped to possible rates; functions of the user are not limited."""
        is_rate = np.isin(self.names, list(RATES))[:, np.newaxis]
        low, high = np.where(is_rate, 0, -np.inf), np.where(is_rate, 1, np.inf)
        return self.unclipped.clip(low, high)

    def select(self, names: list[str]) -> Rates:
        """Return some of the rates."""
        index = [self.names.index(name) for name in names]
        return Rates(names, self.unclipped.select(index), self.covariance[index])


def score_table(cells: CellSums, table: MetricTable, level: float) -> Rates:
    """Estimate all values of the groups with score intervals."""
    parts = [score_rates(sum_rates(cells), level)]
    for _, function in list(table.rates.values())[len(RATES) :]:
        parts.append(propagate_cells(cells, function, level))
    estimates, covariances = zip(*parts, strict=True)
    estimate = Estimate(*map(np.vstack, zip(*estimates, strict=True)))
    return Rates([*table.rates], estimate, np.concatenate(covariances))


@IGNORE_DIVISION
def propagate_cells(
    cells: CellSums, function: CellFunction, level: float
) -> tuple[Estimate, Floats]:
    """Estimate a function of the cells, (n_groups,), and the covariances of two groups, (1, n_groups, n_groups)."""
    # A division of NumPy's floats by 0 is nan.
    call = np.vectorize(lambda *parts: function(*map(np.float64, parts)), [float])
    counts, errors = np.maximum(cells.counts, 0), cells.covariance()
    value = call(*counts / counts.sum(axis=0))
    steps = np.sqrt(np.diagonal(errors, axis1=1, axis2=2))
    near = np.maximum(counts - steps, 0), counts + steps
    lower, upper = cells.find_intervals(level)
    # Errors of cells are independent, because they are errors of different rows, so one
    # cell is moved at a time. Axes: the cells, the moved cell, the ends and the groups.
    ends = np.stack([lower, upper, *near])
    is_moved = np.eye(4, dtype=bool)[..., np.newaxis, np.newaxis]
    moved = np.where(is_moved, ends.swapaxes(0, 1), counts[:, np.newaxis, np.newaxis])
    changes = call(*moved / moved.sum(axis=0)) - value
    slopes = np.nan_to_num((changes[:, 3] - changes[:, 2]) / (near[1] - near[0]))
    covariance = np.einsum("cg,cgh,ch->gh", slopes, errors, slopes)
    # The distances to the endpoints are combined like standard errors, as in MOVER.
    low = np.minimum(changes[:, :2].min(axis=1), 0)
    high = np.maximum(changes[:, :2].max(axis=1), 0)
    # The function is within its values at the corners of the intervals of the cells.
    corners = np.array([*product(*zip(lower, upper, strict=True))]).swapaxes(0, 1)
    possible = call(*corners / corners.sum(axis=0))
    estimate = Estimate(
        value,
        np.where(np.isfinite(value), np.sqrt(np.diag(covariance)), np.nan),
        np.fmax(value - np.sqrt((low**2).sum(axis=0)), possible.min(axis=0)),
        np.fmin(value + np.sqrt((high**2).sum(axis=0)), possible.max(axis=0)),
    )
    return estimate, covariance[np.newaxis]


@IGNORE_DIVISION
def score_rates(sums: RateSums, level: float) -> tuple[Estimate, Floats]:
    """Estimate rates with score intervals, (n_rates, n_groups), and covariances, (n_rates, n_groups, n_groups).

    The covariances are of ``numerator - rate * denominator``, whose correlations are also those of the rates.
    """
    total, coefficients = sums.denominator, sums.covariance
    raw_rate = np.where(total > MIN_TOTAL, sums.numerator / total, np.nan)
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
    # No estimate of a rate has a larger standard error than 1/2.
    std_error = np.where(np.isnan(rate), 0.5, np.sqrt(variance) / total)
    # The interval of a rate that is clipped to [0, 1] may have no possible rate. It
    # includes the rates within the margin of the clipped rate as well.
    margin = np.where(raw_rate == rate, 0, z * std_error)
    lower = np.where(is_bounded, np.fmin(raw_rate + lower, rate - margin), -np.inf)
    upper = np.where(is_bounded, np.fmax(raw_rate + upper, rate + margin), np.inf)
    return Estimate(rate, std_error, lower, upper), covariance


def _find_roots(
    squared: Floats, linear: Floats, constant: Floats
) -> tuple[Floats, Floats]:
    """Return the roots of ``squared * t**2 - 2 * linear * t + constant``."""
    # Rounding may make the discriminant negative.
    root = np.sqrt(np.maximum(linear**2 - squared * constant, 0))
    return (linear - root) / squared, (linear + root) / squared


def estimate_rates(cells: CellSums, table: MetricTable, level: float) -> Estimate:
    """Estimate all values of the groups, with Clopper-Pearson intervals of rates of true groups."""
    estimate, sums = score_table(cells, table, level).clipped, sum_rates(cells)
    effect = sums.exact_effect
    if effect is not None:
        # The Wilson interval of a rate of 0.0035 covers in only 84 % of samples of 50 rows.
        # Comparisons use score intervals because the coverage of MOVER depends on them.
        # Weighted rows count as fewer rows (Korn and Graubard 1998).
        selected = sums.numerator / effect
        unselected = (sums.denominator - sums.numerator) / effect
        exact = find_binomial_interval(selected, unselected, level)
        estimate.lower[: len(RATES)], estimate.upper[: len(RATES)] = exact
    return estimate


@IGNORE_DIVISION
def compare_rates(
    score: Callable[[int], Rates],
    comparison: Comparison,
    pairs: tuple[Indices, Indices],
    is_extreme: bool,
) -> Estimate:
    """Compare the first pair of groups, or with `is_extreme` the groups with the largest and smallest rate.

    `score` returns the rates, with intervals of which a number of pairs holds simultaneously. Pairs are listed in both
    orders.
    """
    _, names, function = comparison
    rates = score(1).select([*names])
    compare = divide_rates if function == "ratio" else average_differences
    if not is_extreme and function != "largest":
        return compare(rates, *pairs).select(0)
    simultaneous = score(len(names) * len(pairs[0]) // 2).select([*names])
    if function == "ratio":
        smallest, *_, largest = np.argsort(rates.unclipped.value[0])
        ratio, error, *_ = compare(rates, np.array([smallest]), np.array([largest]))
        low = compare(rates, *pairs).lower.min()
        high = compare(simultaneous, *pairs).upper.min()
        return Estimate(ratio.item(), error.item(), low, high).clip(0, 1)
    # The largest difference of all rates, or the mean over rates of their largest ones.
    parts = [[*names]] if function == "largest" else [[name] for name in names]
    value, errors, lower, upper = np.transpose(
        [find_largest_difference(rates, simultaneous, part, pairs) for part in parts]
    )
    # The rates are independent because they are rates of different rows.
    error = np.hypot.reduce(errors) / len(parts)
    return Estimate(value.mean(), error, lower.mean(), upper.mean())


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


def _combine_errors(first: Floats, second: Floats, correlation: Floats) -> Floats:
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
    (lower, _), (_, upper) = (
        _find_roots(
            b**2 - b_margin**2, a * b - rho * margin * b_margin, a**2 - margin**2
        )
        for margin, b_margin in (
            (a - top.lower, bottom.upper - b),
            (top.upper - a, b - bottom.lower),
        )
    )
    # MOVER-R covers in as little as 70 % of tables if a group may have no rows. The
    # ratio of opposite endpoints is then used.
    ends = rates.unclipped.lower
    is_bounded = np.isfinite(ends[:, first]) & np.isfinite(ends[:, second])
    lower = np.where(is_bounded, lower, top.lower / bottom.upper)
    upper = np.where(is_bounded, upper, top.upper / bottom.lower)
    return Estimate(value, error, lower, upper).clip(0, np.inf).select(0)
