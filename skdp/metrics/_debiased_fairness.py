"""Group fairness for groups that are known from reports only."""

from __future__ import annotations

from typing import Literal, get_args

import pandas as pd

from skdp.base import (
    ColumnLike,
    ColumnName,
    Label,
    Privileged,
    TableLike,
    check_choice,
    check_confidence_level,
    check_row_order,
)
from skdp.local import ReportTransformer
from skdp.metrics._fairness_report import (
    Groups,
    measure,
    write_table,
)
from skdp.metrics._inputs import (
    name_groups,
    read_predictions,
)
from skdp.metrics._private_groups import (
    cells_of,
    find_privileged,
    read_groups,
)
from skdp.metrics._rates import sums_of_estimated

Rows = Literal["population", "table"]


def debiased_fairness(
    y_true: ColumnLike,
    y_pred: ColumnLike,
    sensitive_features: TableLike,
    encoder: ReportTransformer,
    *,
    privileged: Privileged | None = None,
    positive_label: Label | None = None,
    by_group: bool | None = None,
    columns: ColumnName | list[ColumnName] | None = None,
    rows: Rows = "population",
    confidence_level: float = 0.95,
    sample_weight: ColumnLike | None = None,
) -> pd.DataFrame:
    """Estimate group fairness metrics of predictions for groups known from reports only.

    The noise is inverted: each report becomes an unbiased indicator of its row's group, and rates are ratios of sums of
    these.

    Parameters
    ----------
    y_true, y_pred : array-like or series of shape (n_samples,), or dataframe of one column
        True and predicted labels. Of several classes, all but the positive one count as negative.
    sensitive_features : dataframe or array-like
        The reports, as for `joint_distribution`.
    encoder : fitted local transformer
        The encoder of the reports.
    privileged : value or list of values, tuple or list of tuples, or mapping of column name to values, optional
        The declared values (of an `Interval`, the labels of the bins) that make a row privileged; others make it
        unprivileged. For several columns a tuple has one value per column. By default no group is privileged, and
        groups are compared with each other only.
    positive_label : label, optional
        The favourable label. By default 1, if all labels are 0 and 1, or False and True.
    by_group : bool, optional
        Whether each declared value, or combination of values, is a group, as for `fairness_report`.
    columns : column name or list of column names, optional
        The columns whose combinations are the groups, as for `joint_distribution`; by default all of the encoder.
    rows : {"population", "table"}, default="population"
        What the standard errors and intervals account for. ``"population"``: the rows are independent draws, as for
        `fairness_report`, and the intervals cover the metric of the population. ``"table"``: only the random bits of
        the encoder vary, and the intervals cover the metric of these rows with their true groups.
    confidence_level : float, default=0.95
        Coverage of each interval, between 0 and 1.
    sample_weight : array-like or series of shape (n_samples,), optional
        As for `fairness_report`.

    Returns
    -------
    pandas.DataFrame
        The table of `fairness_report`, metric by metric, with the columns ``metric, definition, group, value,
        std_error, lower, upper``. Differences are *unprivileged − privileged*: below 0, the unprivileged group gets
        less. **All metrics are always included**: where a group is too small for the noise, its interval is wide, up to
        the whole possible range: [0, 1] for rates, [-1, 1] for differences, 0 or more for the ratio. Where a group is
        estimated to have no row that a rate divides by, the value is nan, as in `fairness_report`, and the interval is
        what is known. Standard errors are by linearisation.

    Raises
    ------
    NotFittedError, TypeError, ValueError
        As for `joint_distribution` and `fairness_report`, or if a privileged value is not declared, or all or none are
        privileged.

    Warns
    -----
    UndefinedMetricWarning
        If no row that a metric divides by is estimated: its value is nan, its interval up to the whole possible range.

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
    gives the variance for ``rows="table"``. A ratio of unbiased sums has a bias of the order of its variance, far below
    its standard error.

    **Intervals.** That of a rate a / b is Fieller's: all t for which ``a − t b``, of mean 0, is at most z standard
    errors from 0 ([2]_; with known groups, Wilson's score interval). Differences, ratios and average odds combine these
    by MOVER, with the correlation that the noise gives two groups ([3]_, [4]_), and the largest rate is compared with
    the smallest as by `fairness_report`. Intervals of 95 % cover in at least 93 % of tables from 50 rows of a group on,
    for sampled and for fixed rows; with heavy weights in fewer (.86 to .93, if 1 % of 1,000 rows have half of the
    weight). Where b is not significantly different from 0, as the group may have no rows, the interval of a rate is the
    whole possible range, and those of comparisons are what follows from the rates'. Of fixed rows, few may have a
    report that is not true; so intervals add the noise of two more rows of each kind, whose reports are as uncertain as
    a coin, as Agresti and Coull [5]_ add successes and failures.

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
    .. [2] E. C. Fieller (1954). Some problems in interval estimation. JRSS B 16.
    .. [3] G. Y. Zou (2007). Toward using confidence intervals to compare correlations. Psychological Methods 12.
    .. [4] A. Donner, G. Y. Zou (2012). Closed-form confidence intervals for functions of the normal mean and standard
       deviation. Statistical Methods in Medical Research 21.
    .. [5] A. Agresti, B. A. Coull (1998). Approximate is better than "exact" for interval estimation of binomial
       proportions. The American Statistician 52.

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
                               metric         group  value  std_error  lower  upper
    0                  selection_rate  unprivileged  0.315      0.014  0.288  0.342
    1                  selection_rate    privileged  0.442      0.010  0.422  0.463
    2              true_positive_rate  unprivileged  0.605      0.019  0.568  0.641
    3              true_positive_rate    privileged  0.801      0.013  0.776  0.826
    4             false_positive_rate  unprivileged  0.017      0.009  0.001  0.035
    5             false_positive_rate    privileged  0.089      0.008  0.075  0.105
    6   statistical_parity_difference          None -0.127      0.022 -0.170 -0.085
    7                disparate_impact          None  0.712      0.043  0.630  0.800
    8    equal_opportunity_difference          None -0.196      0.028 -0.252 -0.141
    9         average_odds_difference          None -0.134      0.016 -0.165 -0.103
    """
    check_choice("rows", rows, get_args(Rows))
    level = check_confidence_level(confidence_level)
    check_row_order(
        y_true=y_true,
        y_pred=y_pred,
        sensitive_features=sensitive_features,
        sample_weight=sample_weight,
    )
    reports_of_groups = read_groups(sensitive_features, encoder, columns)
    n_rows = len(reports_of_groups)
    labels = read_predictions(
        y_true,
        y_pred,
        positive_label,
        sample_weight=sample_weight,
        sensitive_features=n_rows,
    )
    domain = reports_of_groups.domain
    is_privileged = None
    if privileged is not None:
        is_privileged = find_privileged(privileged, domain)
    groups = Groups.of(name_groups(cells_of(domain)), is_privileged, by_group)
    sums = sums_of_estimated(reports_of_groups.indicators(), groups.members, labels)
    metrics = measure(sums, groups, rows, level)
    return write_table(metrics, level, estimated=True)
