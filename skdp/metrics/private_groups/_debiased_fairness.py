"""Group fairness for groups that are known from privatised reports only."""

from __future__ import annotations

import warnings
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.exceptions import UndefinedMetricWarning

from skdp.base import check_confidence_level
from skdp.coding import kind_of
from skdp.metrics.fairness import COMPARISONS, CONVENTION, RATES, Estimate, check_labels
from skdp.metrics.private_groups._debiased_rates import LEAST, MOST, IndicatorSums, bound, find_defined, resample
from skdp.metrics.private_groups._joint import read_labels
from skdp.metrics.private_groups._reports import (
    GroupReports,
    check_choice,
    check_integer,
    find_privileged,
    indicate_privileged_rows,
    read_groups,
)
from skdp.typing import ColumnLike, ColumnName, TableLike

_GROUPS = ("unprivileged", "privileged")
Rows = Literal["sampled", "fixed"]
Interval = Literal["fieller", "bootstrap"]


def debiased_fairness(
    y_true: ColumnLike,
    y_pred: ColumnLike,
    reports: TableLike,
    encoder: Any,
    *,
    privileged: Any,
    positive_label: Any,
    columns: ColumnName | list[ColumnName] | None = None,
    rows: Rows = "sampled",
    interval: Interval = "fieller",
    confidence_level: float = 0.95,
    n_resamples: int = 2000,
    random_state: int | None = None,
) -> pd.DataFrame:
    """Estimate group fairness metrics of predictions for two groups known from reports only.

    The noise is inverted: each report becomes an unbiased indicator of its row's group, and rates are ratios of sums of
    these.

    Parameters
    ----------
    y_true, y_pred : array-like or series of shape (n_samples,), or dataframe of one column
        True and predicted labels. Of several classes, all but the positive one count as negative.
    reports, encoder : dataframe or array-like, and fitted local transformer
        As for `joint_distribution`.
    privileged : value or list of values, or tuple or list of tuples
        The declared values (of an `Interval`, the labels of the bins) that make a row privileged; others make it
        unprivileged. For several columns a tuple has one value per column.
    positive_label : label
        The favourable label.
    columns : column name or list of column names, optional
        The columns whose combinations are the groups, as for `joint_distribution`; by default all of the encoder.
    rows : {"sampled", "fixed"}, default="sampled"
        What the standard errors and intervals account for. ``"sampled"``: the rows are independent draws, as for
        `fairness_report`, and the intervals cover the metric of the population. ``"fixed"``: only the random bits of
        the encoder vary, and the intervals cover the metric of these rows with their true groups.
    interval : {"fieller", "bootstrap"}, default="fieller"
        ``"fieller"``: see the notes. ``"bootstrap"``: percentiles over resampled reports, within each combination of
        labels for fixed rows, with the deviations shrunk to the variance of the encoder's noise. It cannot reflect
        events without a row: if no row is predicted positive, its intervals are points at 0.
    confidence_level : float, default=0.95
        Coverage of each interval, between 0 and 1.
    n_resamples : int, default=2000
        Number of resamples of the reports, at least 100; for the bootstrap only.
    random_state : int, optional
        Seed of the resampling, at least 0.

    Returns
    -------
    pandas.DataFrame
        One row per metric, with the columns ``metric, definition, value, std_error, lower, upper``: the selection, true
        positive and false positive rates of both groups, and the differences and the ratio of `fairness_report`, with
        the same definitions. Differences are *unprivileged − privileged*: below 0, the unprivileged group gets less.
        **All metrics are always included**: where a group is too small for the noise, its interval is wide, up to the
        whole possible range: [0, 1] for rates, [-1, 1] for differences, 0 or more for the ratio. Standard errors are by
        linearisation, and nan where a group is estimated to have no row; those of the bootstrap are half the distance
        between the quantiles at ±1 of the normal distribution.

    Raises
    ------
    NotFittedError, TypeError, ValueError
        As for `joint_distribution`, or if there are no labels, they are of several kinds or none is positive, `y_true`
        and `y_pred` have no label in common although there are more than two, a privileged value is not declared, or
        all or none are privileged.

    Warns
    -----
    UndefinedMetricWarning
        If the labels leave no row that a metric divides by: its value is nan, its interval the whole possible range.

    See Also
    --------
    fairness_report : The same metrics for known groups.
    joint_distribution : Estimate the distribution of labels, predictions and groups.

    Notes
    -----
    **Privacy.** For the groups, this is post-processing of reports, without privacy cost. y_true and y_pred are
    unprotected.

    The predictions must be independent of the noise of these reports: audit a model that was trained on reports, or
    that uses them as input, with reports of other people or a second release of the same ones.

    With ψ the unbiased indicator of a row (its mean over the noise is 1 if the row is privileged, else 0), ψ² − ψ is an
    unbiased estimate of the variance of ψ over the noise, for any oracle, as a true indicator is its own square: this
    gives the variance for ``rows="fixed"``. A ratio of unbiased sums has a bias of the order of its variance, far below
    its standard error.

    The interval of a rate a / b contains all t in [0, 1] for which ``a − t b``, of mean 0, is at most z standard errors
    from 0 (Fieller 1954). The ends of differences and of the ratio are combined from those of the rates, with their
    correlation (Zou 2008, Donner and Zou 2012), or, where b is not significantly different from 0, are those of all
    pairs of rates in their intervals. Without noise, the intervals for sampled rows are those of `fairness_report`.

    **Selection.** No metric is hidden where its divisor is small: shown only in the draws in which the noise made the
    group large, it would be biased.

    Metrics of the reported groups are too close to parity: let a privileged value be reported as a privileged one with
    probability a, an unprivileged one with probability b, and let π be the true share of the privileged among the rows
    of a rate. Then the difference of this rate between reported groups is the true one times
    ``(a − b) π (1 − π) / (ρ (1 − ρ))``, where ``ρ = a π + b (1 − π)``, up to sampling ([1]_, lemma 1).

    References
    ----------
    .. [1] H. Mozannar, M. Ohannessian, N. Srebro (2020). Fair learning with private demographic data. ICML.
       arXiv:2002.11651

    Examples
    --------
    Half of 4,000 women and of 6,000 men are qualified; of the qualified, 60 % and 80 % are hired.

    >>> import pandas as pd
    >>> from skdp import RandomizedResponseEncoder
    >>> people = pd.DataFrame({"sex": ["Female"] * 4_000 + ["Male"] * 6_000})
    >>> qualified = ([1] * 2_000 + [0] * 2_000) + ([1] * 3_000 + [0] * 3_000)
    >>> hired = ([1] * 1_200 + [0] * 2_800) + ([1] * 2_400 + [0] * 600 + [1] * 300 + [0] * 2_700)
    >>> encoder = RandomizedResponseEncoder(1.0, categories={"sex": ["Female", "Male"]}, random_state=0)
    >>> reports = encoder.fit_transform(people)
    >>> table = debiased_fairness(qualified, hired, reports, encoder, privileged="Male", positive_label=1)
    >>> table.drop(columns="definition").round(3)
                                  metric  value  std_error  lower  upper
    0       selection rate, unprivileged  0.315      0.014  0.288  0.342
    1         selection rate, privileged  0.442      0.010  0.422  0.463
    2   true positive rate, unprivileged  0.605      0.019  0.568  0.641
    3     true positive rate, privileged  0.801      0.013  0.776  0.826
    4  false positive rate, unprivileged  0.017      0.009  0.001  0.035
    5    false positive rate, privileged  0.089      0.008  0.075  0.104
    6      statistical parity difference -0.127      0.022 -0.170 -0.085
    7                   disparate impact  0.712      0.043  0.630  0.800
    8       equal opportunity difference -0.196      0.028 -0.251 -0.140
    9            average odds difference -0.134      0.016 -0.165 -0.102
    """
    check_choice("rows", rows, get_args(Rows))
    check_choice("interval", interval, get_args(Interval))
    level = check_confidence_level(confidence_level)
    check_integer("n_resamples", n_resamples, 100)
    if random_state is not None:
        check_integer("random_state", random_state, 0)
    groups = read_groups(reports, encoder, columns)
    cells = find_privileged(privileged, groups.domain)
    true, predicted = _read_positive(groups, y_true, y_pred, positive_label)
    sums = IndicatorSums.of(indicate_privileged_rows(groups, cells), 2 * true + predicted)
    if interval == "fieller":
        found = bound(sums, rows, level)
    else:
        found = resample(sums, rows, level, int(n_resamples), np.random.default_rng(random_state))
    report = _label(found, find_defined(sums))
    report.attrs["confidence_level"] = confidence_level
    return report


def _read_positive(groups: GroupReports, y_true: Any, y_pred: Any, positive_label: Any) -> list[NDArray[np.bool_]]:
    """Return which rows are positive, in truth and as predicted."""
    true, predicted = labels = read_labels(groups, y_true=y_true, y_pred=y_pred)
    kinds = {kind_of(value) for label in labels for value in label.categories}
    if len(kinds) > 1:
        raise ValueError(f"y_true and y_pred must hold labels of one kind, got {' and '.join(sorted(kinds))}")
    check_labels(true, predicted, positive_label)
    return [label.isin([positive_label]) for label in labels]


def _label(found: Estimate, defined: NDArray[np.bool_]) -> pd.DataFrame:
    """Build the table of values, errors and limits, and warn of undefined metrics."""
    rates = [(f"{name}, {group}", definition) for name, definition in RATES for group in _GROUPS]
    compared = [(name, definition.format(_GROUPS[0])) for name, definition in COMPARISONS]
    metrics, definitions = zip(*rates, *compared, strict=True)
    unknown: dict[str, Any] = {"value": np.nan, "std_error": np.nan, "lower": LEAST, "upper": MOST}
    columns = {name: np.where(defined, getattr(found, name), value) for name, value in unknown.items()}
    table = pd.DataFrame({"metric": metrics, "definition": definitions} | columns)
    table.attrs["convention"] = CONVENTION
    if not defined.all():
        warnings.warn(
            f"undefined: {'; '.join(table.loc[~defined, 'metric'])}. There is no row that the definition divides by",
            UndefinedMetricWarning,
            stacklevel=3,
        )
    return table
