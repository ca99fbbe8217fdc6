"""ROC curve, AUC, calibration and Brier score of a classifier from noisy counts of its scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit, logit

from skdp._arrays import ColumnName, Floats, Indices, Label, Mask, TableLike
from skdp.base import (
    ErrorDistribution,
    Estimate,
    check_column_name,
    check_confidence_level,
)
from skdp.domain import Interval
from skdp.metrics._fairness import group_cells, read_counts, warn_of_undefined
from skdp.metrics._labels import (
    code_cells,
    find_positive_label,
    list_column_names,
    parse_column,
)
from skdp.metrics._rates import RateSums, score_rates
from skdp.metrics._reported_groups import REPORTED

# Metrics that are no proportions of rows.
MEANS = ("roc_auc", "brier_score")

# Rates of negative and of positive rows.
ROC_RATES = ("false_positive_rate", "true_positive_rate")

# Largest number of scores. The time is proportional to its square: 0.3 seconds.
MAX_SCORES = 1_000

# Name of the group of all rows.
ALL = "all"

# A metric, its score, and the weights of the counts in its numerator and denominator, of
# shape (n_bins, 2).
Line = tuple[str, float, Floats, Floats]


def score_bins() -> Interval:
    """Make 44 bins for predicted probabilities, with equal widths in log odds.

    Returns
    -------
    Interval
        Bins from 0 to 1. The first one ends at 0.0009, and the last one is its mirror image.

    See Also
    --------
    scores_from_counts : ROC curve and AUC from counts of these bins.

    Examples
    --------
    >>> from skdp.metrics import score_bins
    >>> [round(edge, 3) for edge in score_bins().edges[:6]]
    [0.0, 0.001, 0.001, 0.002, 0.002, 0.003]
    """
    inner = expit(np.linspace(-7, 7, 43))
    return Interval([0.0, *inner.tolist(), 1.0])


def scores_from_counts(
    counts: TableLike,
    y_true: ColumnName,
    y_score: ColumnName,
    sensitive_features: ColumnName | list[ColumnName] | None = None,
    *,
    positive_label: Label | None = None,
    confidence_level: float = 0.95,
) -> pd.DataFrame:
    """Estimate the ROC curve, AUC, calibration and Brier score of a classifier from noisy counts of its scores.

    The curator of test rows, or a client with reports of labels or groups, publishes these metrics with intervals.

    Parameters
    ----------
    counts : dataframe
        Counts of rows by label, score and group: ``DPHistogram(...).fit(test).to_frame()``, counts of `DPGroupBy`
        without totals, or the result of `joint_distribution` for reports of labels or groups. Counts are added up over
        all other columns.
    y_true : column name
        Column with the true labels.
    y_score : column name
        Column with the scores: bins of an `Interval`, such as `score_bins`, or declared numbers. Declare the scores of
        a tree or of nearest neighbors as numbers, because bins change their Brier score and calibration.
    sensitive_features : column name or list of column names, optional
        Columns whose combinations are the groups. None for one group of all rows.
    positive_label : label, default=None
        Label with large scores. If None, it is 1, and all labels must be 0 and 1, or False and True.
    confidence_level : float, default=0.95
        Coverage probability of each interval.

    Returns
    -------
    pandas.DataFrame
        One row per group, metric and score, with the columns ``metric, group, score, value, std_error, lower, upper``.
        The group of all rows is "all". The metrics are:

        - ``roc_auc``, and ``brier_score`` if all scores are from 0 to 1;
        - ``prob_true``, the proportion of positive rows in ten parts with about equal numbers of rows, and ``score`` is
          the mean score of the part: a calibration curve;
        - ``false_positive_rate`` and ``true_positive_rate`` of the rows with at least this ``score``: a ROC curve.

    Raises
    ------
    TypeError, ValueError
        If a column is missing, labels are missing, scores are not numbers or bins, or are more than 1,000, the positive
        label does not occur, or counts are sums of weights, whose sampling error is unknown.

    Warns
    -----
    UndefinedMetricWarning
        If a metric is nan, because a group is estimated to have no rows that a rate divides by.

    See Also
    --------
    score_bins : Bins of probabilities.
    fairness_from_counts : Rates of predicted labels by group, and their differences.
    sklearn.metrics.RocCurveDisplay : Plot of the rates.

    Notes
    -----
    **Privacy.** This is post-processing of the counts, without privacy cost. The counts have the guarantee of the
    estimator that released them, for adding or removing a test row, or of the encoder of the reports. The model is not
    protected by it.

    The AUC is the probability that a positive row has a larger score than a negative row, with ties counted as one
    half. Scores of a bin are tied, so coarse bins decrease the AUC. Merging neighboring bins doubles their width, and a
    third of the resulting change is added, which is the effect of the bins on smooth densities. The effect is 0 for
    scores that are tied, so the addition is part of the standard error. So is a fourth of the pairs of rows that are in
    the first or the last bin, whose order is not known. Use `score_bins`, because equal bins from 0 to
    1 are too wide for a rare label. For probabilities below 0.001, use log odds as scores, and bins of an `Interval`.

    **Intervals** contain the noise of the counts and the sampling error of the rows. A proportion has the score
    interval of `fairness_from_counts`. The AUC is linearized in the counts: a positive row contributes the proportion
    of negative rows below it, and a negative row the proportion of positive rows above it ([1]_). Its variance is the
    sum over all cells of the squared contribution, times the count for sampling, and times the variance of the noise.
    Intervals of the AUC and of the Brier score are symmetric in log odds, except at 0 and 1, with a quantile of
    Student's distribution for few rows (Satterthwaite). The interval of the Brier score contains its change if all rows
    of a bin have one score. Without `sensitive_features`, the noise of the cells of all groups adds up: release counts
    without groups for the most accurate AUC of all rows. From reports of labels, both counts of a score have errors of
    opposite signs. Errors of different groups are independent for counts of a curator.

    References
    ----------
    .. [1] E. R. DeLong, D. M. DeLong, D. L. Clarke-Pearson (1988). Comparing the areas under two or more correlated
       receiver operating characteristic curves: a nonparametric approach. Biometrics 44.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdp import DPHistogram
    >>> from skdp.metrics import score_bins, scores_from_counts
    >>> rng = np.random.default_rng(0)
    >>> score = rng.beta(1, 2, 20_000)
    >>> test = pd.DataFrame({"score": score, "default": rng.random(20_000) < score})
    >>> domain = {"score": score_bins(), "default": [False, True]}
    >>> counts = DPHistogram(1.0, domain=domain, random_state=0).fit(test).to_frame()
    >>> table = scores_from_counts(counts, "default", "score")
    >>> table.drop(columns="group").iloc[[0, 1, 2, 11]].round(3)
             metric  score  value  std_error  lower  upper
    0       roc_auc    NaN  0.802      0.004  0.795  0.808
    1   brier_score    NaN  0.166      0.001  0.163  0.169
    2     prob_true  0.024  0.019      0.004  0.011  0.028
    11    prob_true  0.776  0.792      0.009  0.775  0.809

    The rates at some thresholds, which the display of scikit-learn plots:

    >>> rates = table.pivot_table("value", "score", "metric")[["false_positive_rate", "true_positive_rate"]].dropna()
    >>> rates.iloc[[20, 23, 26]].round(3).reset_index(names="score").rename_axis(columns=None)
          score  false_positive_rate  true_positive_rate
    0  0.339244                0.282               0.724
    1  0.582570                0.070               0.381
    2  0.791391                0.009               0.114
    >>> from sklearn.metrics import RocCurveDisplay
    >>> display = RocCurveDisplay(fpr=rates["false_positive_rate"], tpr=rates["true_positive_rate"]).plot()
    """
    level = check_confidence_level(confidence_level)
    check_column_name("y_true", y_true)
    check_column_name("y_score", y_score)
    names = [] if sensitive_features is None else sensitive_features
    names = list_column_names("sensitive_features", names)
    is_reported = y_true in getattr(counts, "attrs", {}).get(REPORTED, ())
    table = read_counts(counts, [y_true, y_score, *names], allows_reports=True)
    labels = parse_column(table[y_true], "y_true")
    label = find_positive_label(positive_label, y_true=labels)
    is_positive = labels.isin([label]).to_numpy(int)
    if np.ptp(is_positive) == 0:
        raise ValueError(
            "`positive_label` must be one of at least two labels of `y_true`."
        )
    bins, bin_of_row = np.unique(
        read_bins(table[y_score], "y_score"), axis=0, return_inverse=True
    )
    if len(bins) > MAX_SCORES:
        raise ValueError(
            f"`y_score` must have at most {MAX_SCORES:,} scores, got {len(bins):,}. "
            "Round the scores before you count them."
        )
    tables = []
    for name, counted, noise in sum_bins_by_group(
        table, names, bin_of_row, is_positive
    ):
        with np.errstate(divide="ignore", invalid="ignore"):
            scores = _score_group(bins, counted, noise, level, is_reported)
        warn_of_undefined(scores, is_reported=True)
        # The dtype object keeps tuples of values.
        scores.insert(1, "group", pd.Series([name] * len(scores), dtype=object))
        tables.append(scores)
    return pd.concat(tables, ignore_index=True)


def sum_bins_by_group(
    table: Mapping[Any, pd.Series],
    names: list[Any],
    bins: Indices,
    labels: Indices | Mask,
) -> Iterator[tuple[Any, Floats, Floats]]:
    """Yield the name of each group with the counts and the variances of its bins and labels; shape (n_bins, 2).

    `table` is a result of `read_counts`, whose columns `names` have the groups, and `bins` and `labels` the codes of
    its rows.
    """
    columns = [table[name] for name in names] or [pd.Series(ALL).repeat(len(labels))]
    cells, group_of_row = code_cells(columns)
    sums = np.zeros((2, len(cells), bins.max() + 1, 2))
    index = group_of_row, bins.ravel(), labels
    np.add.at(sums[0], index, table["count"])
    np.add.at(sums[1], index, table["std_error"] ** 2)
    return zip(group_cells(cells, names, None)[0], *sums, strict=True)


def read_bins(column: pd.Series, parameter: str) -> Floats:
    """Return the smallest and the middle value of numbers or of bins such as "[0.1, 0.2)"; shape (n_rows, 2)."""
    edges = column.astype(str).str.extract(r"^\[?([^,]+)(?:, (.+)[\])])?$")
    edges[1] = edges[1].fillna(edges[0])
    numbers = edges.apply(pd.to_numeric, errors="coerce").to_numpy(float)
    if np.isnan(numbers).any():
        raise ValueError(
            f"`{parameter}` must be the name of a column of numbers, or of bins of "
            "numbers, got other values."
        )
    return np.column_stack([numbers[:, 0], numbers.mean(axis=1)])


def _sum_auc(counts: Floats) -> tuple[float, Floats]:
    """Return the area under the ROC curve, and the weights of counts in it, of the shape (n_bins, 2) of `counts`."""
    sizes = counts.sum(axis=0)
    # Ties count as one half.
    below = (np.cumsum(counts, axis=0) - counts / 2) / sizes
    weights = np.stack([1 - below[:, 1], below[:, 0]], axis=1) / sizes
    return weights[:, 1] @ counts[:, 1], weights


def _find_rounding(bins: Floats, counts: Floats, auc: float) -> tuple[float, float]:
    """Estimate the decrease of the AUC by ties within bins, and its standard error."""
    if not np.ptp(bins, axis=1).any():
        return 0.0, 0.0
    # Merging pairs of bins has three times the effect of the bins, if their densities are
    # smooth.
    merged = _sum_auc(np.add.reduceat(counts, np.arange(0, len(counts), 2)))[0]
    change = (auc - merged) / 3
    # The order of rows within the first and the last bin, which are wide, is not known. It
    # changes the AUC by up to half of the proportion of pairs of rows in one of these bins.
    tied = np.maximum(counts.prod(axis=1), 0) / counts.sum(axis=0).prod()
    unknown = tied[0] + tied[-1]
    return change, np.hypot(change, unknown / 4)


def _bound_brier_rounding(bins: Floats, counts: Floats) -> float:
    """Bound the variance of the Brier score by the unknown scores within bins, relative to one row."""
    sizes = np.maximum(counts.sum(axis=1), 0)
    # The rows of a bin may all have one score, which is uniform within the bin, of half width `half`.
    half = np.ptp(bins, axis=1)
    slopes = 2 * (bins[:, 1] * sizes - np.maximum(counts[:, 1], 0))
    variance = slopes**2 @ half**2 / 3 + (sizes @ half**2 / 3) ** 2
    return float(variance / max(sizes.sum(), 1) ** 2)


def _list_rates(bins: Floats) -> list[Line]:
    """List the false, then the true positive rate at each threshold, the smallest score of a bin or infinity."""
    lines = []
    for name, label in zip(ROC_RATES, np.eye(2), strict=True):
        for threshold in [*bins[:, 0], np.inf]:
            selected = np.multiply.outer(bins[:, 0] >= threshold, label)
            lines.append((name, threshold, selected, np.ones_like(selected) * label))
    return lines


def _list_calibration(bins: Floats, counts: Floats) -> list[Line]:
    """List the Brier score, and the proportion of positive rows in parts with about equal numbers of rows."""
    low, scores = bins.T
    if low.min() < 0 or scores.max() > 1:
        return []
    # The variance within a bin reduces the mean square of calibrated probabilities.
    variance = (scores - low) ** 2 / 3
    squares = (scores - [[0], [1]]) ** 2 - variance
    lines = [("brier_score", np.nan, squares.T, np.ones_like(counts))]
    sizes = np.maximum(counts.sum(axis=1), 0)
    ranks = (np.cumsum(sizes) - sizes / 2) / sizes.sum()
    parts = np.floor(10 * ranks)
    for part in np.unique(parts):
        weights = np.outer(parts == part, [1.0, 1.0])
        if (weights * counts).sum() > 0:
            mean = np.average(scores, weights=weights[:, 0] * sizes)
            lines.append(("prob_true", mean, weights * [0, 1], weights))
    return lines


def _multiply_parts(parts: Floats) -> Floats:
    """Return products of numerators and denominators, in the order of `RateSums.covariance`.

    `parts` has the numerators and the denominators of lines by cell, (2, n_lines, n_bins, 2), and the products have
    the shape (3, n_lines, n_bins, 2).
    """
    numerators, denominators = parts
    return np.stack([numerators**2, numerators * denominators, denominators**2])


def _score_group(
    bins: Floats, counts: Floats, variances: Floats, level: float, is_reported: bool
) -> pd.DataFrame:
    """Estimate all metrics of a group.

    `bins` has the smallest and the middle score of each bin, of shape (n_bins, 2). `counts` and the `variances` of
    their noise are for negative and positive rows, of this shape, too.
    """
    auc, auc_weights = _sum_auc(counts)
    change, error = _find_rounding(bins, counts, auc)
    sizes = np.ones_like(counts) / counts.sum(axis=0)
    lines = [("roc_auc", np.nan, auc_weights, sizes)]
    lines += _list_calibration(bins, counts) + _list_rates(bins)
    metrics, scores, *pairs = map(np.array, zip(*lines, strict=True))
    # Weights of the counts in numerators and denominators, (2, n_lines, n_bins, 2).
    weights = np.stack(pairs)
    numerator, denominator = (weights * counts).sum(axis=(2, 3))
    # Covariances by sampling; proportions have the binomial variance ``n t (1 - t)``.
    means = (_multiply_parts(weights) * counts).sum(axis=(2, 3))
    proportions = np.outer([0, -0.5, -1], np.maximum(denominator, 0))
    covariance = np.where(np.isin(metrics, MEANS), means, proportions)
    # Covariances by noise. From reports of labels, the counts of both labels of a score add
    # up to a known number, so their errors differ in the sign only.
    errors = weights * np.sqrt(variances) * [-1, 1]
    errors = errors.sum(axis=3, keepdims=True) if is_reported else errors
    covariance += _multiply_parts(errors).sum(axis=(2, 3))
    # The unknown order and scores of rows within bins.
    numerator[0], denominator[0] = auc + change, 1.0
    covariance[0, 0] += error**2
    bound = _bound_brier_rounding(bins, counts) * denominator**2
    covariance[0] += np.where(metrics == "brier_score", bound, 0)
    sums = RateSums(
        numerator[:, np.newaxis],
        denominator[:, np.newaxis],
        covariance[:, :, np.newaxis, np.newaxis],
    )
    rates = score_rates(sums, level)[0].clip(0, 1).select((slice(None), 0))
    # Squared weights of the counts in the error of each metric.
    influence = (weights[0] - rates.value[:, np.newaxis, np.newaxis] * weights[1]) ** 2
    degrees = _find_degrees(influence, np.maximum(counts, 0) + variances)
    intervals = _find_logit_intervals(rates, degrees, level)
    is_mean = np.isin(metrics, MEANS)
    lower, upper = np.where(is_mean, intervals, [rates.lower, rates.upper])
    rates = rates._replace(lower=lower, upper=upper)
    return pd.DataFrame({"metric": metrics, "score": scores, **rates._asdict()})


def _find_degrees(influence: Floats, variances: Floats) -> Floats:
    """Return the degrees of freedom of variances that are weighted sums of counts (Satterthwaite 1946).

    `influence` are the weights, (n_lines, n_bins, 2), and `variances` the variances of the counts, (n_bins, 2).
    """
    total = (influence * variances).sum(axis=(1, 2))
    squares = (influence**2 * variances).sum(axis=(1, 2))
    # A sum without weights is exactly 0.
    degrees: Floats = 2 * total**2 / np.maximum(squares, np.finfo(float).tiny)
    return np.maximum(degrees, 1.0)


def _find_logit_intervals(rates: Estimate, degrees: Floats, level: float) -> Floats:
    """Return intervals that are symmetric in log odds; shape (2, n_lines).

    Log odds never reach 0 or 1, the AUC of separate classes, so an end is there if an interval of equal sides is.
    """
    # An interval of all possible values stays, as the group may have no rows.
    is_bounded = (rates.lower > 0) | (rates.upper < 1)
    is_inside = is_bounded & (rates.value > 0) & (rates.value < 1)
    value = np.where(is_inside, rates.value, 0.5)
    margin = ErrorDistribution(degrees).quantile(level) * rates.std_error
    odds = margin / (value * (1 - value))
    ends = expit(logit(value) + np.stack([-odds, odds]))
    sides = value + np.stack([-margin, margin])
    ends = np.where((sides > 0) & (sides < 1), ends, sides.clip(0, 1))
    return np.where(is_inside, ends, [rates.lower, rates.upper])
