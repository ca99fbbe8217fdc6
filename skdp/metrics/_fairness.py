"""Group fairness of predictions for true or privatized groups."""

from __future__ import annotations

from functools import cache
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from scipy.sparse import csr_array
from sklearn.exceptions import UndefinedMetricWarning

from skdp._arrays import ColumnLike, ColumnName, Floats, Label, Privileged, TableLike
from skdp.base import (
    Estimate,
    check_choice,
    check_column_name,
    check_confidence_level,
    check_row_order,
    warn_at_caller,
)
from skdp.central import TOTAL
from skdp.local import ReportTransformer
from skdp.metrics._labels import (
    CellLabels,
    code_cells,
    find_privileged,
    list_column_names,
    list_positive_labels,
    parse_columns,
    parse_outcomes,
    parse_weights,
)
from skdp.metrics._rates import (
    CellSums,
    Groups,
    Metrics,
    MetricTable,
    Rates,
    compare_rates,
    estimate_rates,
    read_metrics,
    score_table,
    sum_cells,
)
from skdp.metrics._reported_groups import (
    WEIGHTED,
    debias_groups,
    find_declared_groups,
    list_cells,
)
from skdp.survey import ReportDesign
from skdp.tables import name_missing

RowSource = Literal["population", "table"]


# Column of the class of each metric, if there are more than two classes.
CLASS = "class_vs_rest"

# Compared sides without privileged rows, as in fairlearn.
EXTREMES = {"difference": "largest − smallest", "ratio": "smallest / largest"}


def fairness_report(
    y_true: ColumnLike,
    y_pred: ColumnLike,
    sensitive_features: ColumnLike | TableLike,
    *,
    privileged: Privileged | None = None,
    positive_label: Label | None = None,
    metrics: Metrics | None = None,
    sample_weight: ColumnLike | None = None,
    confidence_level: float = 0.95,
) -> pd.DataFrame:
    """Compute group fairness metrics of predictions, with confidence intervals.

    Parameters
    ----------
    y_true, y_pred : array-like or series of shape (n_samples,), or dataframe of one column
        True and predicted labels, of any number of classes. All labels except the
        positive label are negative.
    sensitive_features : array-like or series of shape (n_samples,), or dataframe or array of several columns
        Group of each row; for several columns, the combination of their values.
        Missing values are a group, "missing". Rows are matched by position.
    privileged : value, list of values or mapping of column name to such, default=None
        Values of privileged rows; all other values, including missing values, are
        unprivileged. For several columns, a mapping: a row is privileged if it matches
        in all columns. If None, the group with the largest rate is compared with the
        group with the smallest rate.
    positive_label : label, default=None
        Favorable label. If None, it is 1 if all labels are 0 and 1, or False and True;
        with more than two labels, each of them is compared with all others.
    metrics : mapping of str to function, default=None
        Further metrics by name. A function of the proportions of true positives, false positives, false negatives
        and true negatives in a group, ``function(tp, fp, fn, tn)``, returns one number. A name ends in "_difference"
        or "_ratio", by which groups are compared: ``{"accuracy_difference": lambda tp, fp, fn, tn: tp + tn}``.
    sample_weight : array-like of shape (n_samples,), default=None
        Survey weight of each row, the number of people that it represents. If None, all
        weights are equal.
    confidence_level : float, default=0.95
        Coverage probability of each interval.

    Returns
    -------
    pandas.DataFrame
        One row per metric and group, with the columns ``metric, definition, group,
        value, std_error, lower, upper``. The groups are "unprivileged" and
        "privileged", or all occurring values if `privileged` is None:

        - ``selection_rate``, ``true_positive_rate``, ``false_positive_rate``,
          ``precision`` and ``false_discovery_rate`` of each group: ``P(ŷ = +)``, TPR =
          ``P(ŷ = + | y = +)``, FPR = ``P(ŷ = + | y = −)``, PPV = ``P(y = + | ŷ = +)``
          and FDR = ``P(y = − | ŷ = +)``;
        - ``statistical_parity_difference`` of selection rates, and
          ``disparate_impact``, their ratio;
        - ``equal_opportunity_difference`` of TPR; ``average_odds_difference``, the mean
          of the differences of TPR and FPR; and ``equalized_odds_difference``, the larger
          of their absolute values;
        - ``predictive_parity_difference`` of PPV;
        - `metrics`: the value of each group, named without the ending, and the comparison.

        With more than two labels and no positive label, the column ``class_vs_rest`` is
        first: it has the positive label of the row.

        In comparisons, ``group`` is None. With `privileged`, a difference is
        *unprivileged − privileged*, so a negative difference disadvantages the
        unprivileged group. If several groups are unprivileged, the rates of each of them
        and its comparison with the privileged rows follow, where ``group`` is the group.
        Without `privileged`, a difference is the largest rate minus
        the smallest, and ``disparate_impact`` is the smallest divided by the largest.
        Use `to_aif360` for the other metrics of aif360.

    Raises
    ------
    ValueError
        If lengths differ, two inputs have the same row labels in different orders, a
        label is missing, no label is positive, `y_true` and `y_pred` have more than two
        labels and none in common, more than 100 labels or 20 whole numbers are classes,
        or all or no rows are privileged.

    Warns
    -----
    UndefinedMetricWarning
        If a metric is nan or infinite, because a group has no rows that a rate divides
        by, or because a rate is 0. The interval of a nan is what the known rates leave
        possible, and the standard error of a rate that is nan 0.5, which no estimate in
        [0, 1] exceeds.

    See Also
    --------
    debiased_fairness : The same table for privatized groups.
    to_aif360 : Dataset for the metrics of aif360.

    Notes
    -----
    **Privacy.** The values depend on the true labels and groups and are not protected.
    With privatized sensitive features, differences are closer to 0 than the true differences.

    The definitions are from aif360 [1]_ with `privileged`, and from fairlearn [2]_
    without it (``demographic_parity_difference``, ``demographic_parity_ratio``,
    ``equal_opportunity_difference`` and ``equalized_odds_difference``, with
    ``agg="mean"`` for average odds). Unlike in fairlearn, a rate of a group without rows
    to divide by is nan, and so is the ratio if all selection rates are 0.

    **Intervals** treat the rows as an independent sample and cover the metric of the
    population. At 95 %, they cover in at least 93 % of samples with 50 rows per group.

    - Rates: Clopper and Pearson [3]_. Weighted rows count as the number of equally
      weighted rows with the same linearized variance [7]_.
    - Differences: method 10 of Newcombe [4]_, and MOVER for average odds [5]_.
    - Ratios: MOVER-R [6]_.
    - Largest minus smallest rate, and equalized odds: the endpoint next to equality
      holds for all pairs of groups and rates simultaneously, by Bonferroni's inequality.
      The standard error is the error of the groups and the rate with the largest
      difference; the mean of its square is at least the variance [8]_.

    References
    ----------
    .. [1] R. K. E. Bellamy et al. (2018). AI Fairness 360: an extensible toolkit for
       detecting, understanding, and mitigating unwanted algorithmic bias.
       arXiv:1810.01943.
    .. [2] H. Weerts et al. (2023). Fairlearn: Assessing and Improving Fairness of AI
       Systems. JMLR 24(257).
    .. [3] C. J. Clopper, E. S. Pearson (1934). The use of confidence or fiducial limits
       illustrated in the case of the binomial. Biometrika 26.
    .. [4] R. G. Newcombe (1998). Interval estimation for the difference between
       independent proportions: comparison of eleven methods. Statistics in Medicine 17.
    .. [5] G. Y. Zou, A. Donner (2008). Construction of confidence limits about effect
       measures: a general approach. Statistics in Medicine 27.
    .. [6] A. Donner, G. Y. Zou (2012). Closed-form confidence intervals for functions of
       the normal mean and standard deviation. Statistical Methods in Medical Research 21.
    .. [7] E. L. Korn, B. I. Graubard (1998). Confidence intervals for proportions with
       small expected number of positive counts estimated from survey data. Survey
       Methodology 24.
    .. [8] H. Chernoff (1981). A note on an inequality involving the normal distribution.
       Annals of Probability 9.

    Examples
    --------
    >>> from skdp.metrics import fairness_report
    >>> sex = ["Female"] * 4 + ["Male"] * 4
    >>> y_true = ["yes", "yes", "no", "no", "yes", "yes", "no", "no"]
    >>> y_pred = ["yes", "no", "no", "no", "yes", "yes", "yes", "no"]
    >>> report = fairness_report(y_true, y_pred, sex, privileged="Male", positive_label="yes")
    >>> numbers = ["group", "value", "std_error", "lower", "upper"]
    >>> shown = ["selection_rate", "statistical_parity_difference", "disparate_impact"]
    >>> report.set_index("metric").loc[shown, numbers].round(2)
                                          group  value  std_error  lower  upper
    metric
    selection_rate                 unprivileged   0.25       0.22   0.01   0.81
    selection_rate                   privileged   0.75       0.22   0.19   0.99
    statistical_parity_difference          None  -0.50       0.31  -0.79   0.14
    disparate_impact                       None   0.33       0.30   0.06   1.33

    Each of several unprivileged groups is also compared with the privileged one, here by a metric of the user:

    >>> race = ["Black"] * 3 + ["Other"] * 2 + ["White"] * 3
    >>> accuracy = {"accuracy_difference": lambda tp, fp, fn, tn: tp + tn}
    >>> options = {"privileged": "White", "positive_label": "yes", "metrics": accuracy}
    >>> report = fairness_report(y_true, y_pred, race, **options).set_index("metric")
    >>> report.loc["accuracy_difference", numbers].round(2)
                         group  value  std_error  lower  upper
    metric
    accuracy_difference   None   0.13       0.36  -0.49   0.74
    accuracy_difference  Black   0.00       0.43  -0.66   0.66
    accuracy_difference  Other   0.33       0.31  -0.65   0.91

    With three classes, each class is compared with the rest:

    >>> grades = fairness_report([*"ABCBCBAC"], [*"ABBCCBAC"], sex, privileged="Male").set_index("metric")
    >>> grades.loc["statistical_parity_difference", ["class_vs_rest", "value"]]
                                  class_vs_rest  value
    metric
    statistical_parity_difference             A   0.00
    statistical_parity_difference             B   0.25
    statistical_parity_difference             C  -0.25
    """
    check_row_order(y_true=y_true, y_pred=y_pred, sensitive_features=sensitive_features)
    features = parse_columns(sensitive_features, "sensitive_features")
    n_rows = max(map(len, features.values()))
    outcomes = parse_outcomes(y_true, y_pred, n_rows)
    # `privileged` is compared with each combination of values instead of each row.
    cells, cell_of_row = code_cells(features.values())
    names, is_group = group_cells(cells, list(features), privileged)
    weights = _scale_weights(sample_weight, sensitive_features, n_rows)
    index = np.arange(n_rows), cell_of_row
    groups = Groups(
        names,
        csr_array((np.ones(n_rows), index)) @ csr_array(is_group),
        weights,
        is_reported=False,
        has_privileged=privileged is not None,
    )
    return _tabulate_outcomes(
        outcomes, positive_label, groups, metrics, confidence_level
    )


def debiased_fairness(
    y_true: ColumnLike,
    y_pred: ColumnLike,
    sensitive_features: TableLike,
    encoder: ReportTransformer | ReportDesign,
    *,
    privileged: Privileged | None = None,
    positive_label: Label | None = None,
    columns: ColumnName | list[ColumnName] | None = None,
    metrics: Metrics | None = None,
    rows: RowSource = "population",
    sample_weight: ColumnLike | None = None,
    confidence_level: float = 0.95,
) -> pd.DataFrame:
    """Estimate group fairness metrics of predictions from privatized groups.

    Parameters
    ----------
    y_true, y_pred : array-like or series of shape (n_samples,), or dataframe of one column
        True and predicted labels, of any number of classes. All labels except the
        positive label are negative.
    sensitive_features : dataframe or array-like
        Reports of the groups, as for `joint_distribution`.
    encoder : fitted local transformer or ReportDesign
        Encoder of the reports, or the design of a questionnaire or of `PerHalf`.
    privileged : value, list of values or mapping of column name to such, default=None
        Declared values of privileged rows (labels of the bins of an `Interval`), as
        for `fairness_report`. If None, the group with the largest rate is compared with
        the group with the smallest rate.
    positive_label : label, default=None
        Favorable label. If None, it is 1 if all labels are 0 and 1, or False and True;
        with more than two labels, each of them is compared with all others.
    columns : column name or list of column names, default=None
        Columns whose combinations are the groups. If None, all columns of the encoder.
    metrics : mapping of str to function, default=None
        As for `fairness_report`.
    rows : {"population", "table"}, default="population"
        Target of inference. "population" treats the rows as an independent sample of a
        population; "table" accounts for the noise of the reports only.
    sample_weight : array-like of shape (n_samples,), default=None
        Survey weight of each row, the number of people that it represents. If None, all
        weights are equal.
    confidence_level : float, default=0.95
        Coverage probability of each interval.

    Returns
    -------
    pandas.DataFrame
        The table of `fairness_report`. All metrics are always included: a group that is
        small compared with the noise has a wide interval, up to [0, 1] for rates,
        [-1, 1] for differences and [0, inf) for the ratio. A rate is nan if its group
        is estimated to have no rows.

    Raises
    ------
    NotFittedError, TypeError, ValueError
        As for `joint_distribution` and `fairness_report`, or if a privileged value is
        not declared.

    Warns
    -----
    UndefinedMetricWarning
        If a metric is nan, because a group is estimated to have no rows that a rate
        divides by.
    UserWarning
        If the reports do not fit the encoder, as for `joint_distribution`.

    See Also
    --------
    fairness_report : The same metrics for known groups.
    joint_distribution : Estimate the distribution of labels, predictions and groups.
    scores_from_counts : AUC, ROC curve and calibration.

    Notes
    -----
    **Privacy.** For the groups, this is post-processing of reports, without privacy
    cost. y_true and y_pred are not protected.

    `sensitive_features` must be reports. A true value of the group is also a possible
    report of randomized response, so true groups are detected only if they do not fit
    the encoder; otherwise their differences are too large.

    The predictions must be independent of the noise of the reports. If a model uses
    reports, for training or as input, evaluate it with the reports of other people or
    with a second release.

    Each report becomes an unbiased indicator ψ of its group, and rates are ratios of
    sums of ψ. The mean of ψ² − ψ over the noise is the variance of ψ, because a true
    indicator is its own square.

    A rate outside [0, 1] is clipped, and differences and ratios are computed from
    clipped rates. This reduces their error, but if a true rate is 0 or 1, the bias is
    0.4 standard errors, which is not part of ``std_error``. Intervals of rates are
    computed before clipping. To average many tables, use the counts of
    `joint_distribution`, which are not clipped.

    **Intervals.** A rate a / b has the Fieller interval [2]_: all t for which ``a − t b``,
    whose mean is 0, is at most z standard errors from 0. Differences, ratios and
    average odds combine these intervals by MOVER, with the correlation of the noise of
    two groups [3]_, [4]_. With `sample_weight`, the variances are
    linearized. The largest rate is compared with the smallest as in `fairness_report`.
    Intervals add the noise of two selected and two other rows [5]_,
    because few rows may be misreported. At 95 %, they cover in at least 93 % of tables
    with 50 rows per group.

    Metrics with a small divisor are included because a selection by the noisy size of
    the group would be biased.

    Differences between *reported* groups are too close to 0. Let a and b be the
    probabilities of a privileged report of a privileged and of an unprivileged row,
    and π the true proportion of privileged rows. Up to sampling, the differences are
    the true differences times ``(a − b) π (1 − π) / (ρ (1 − ρ))``, where
    ``ρ = a π + b (1 − π)`` ([1]_, lemma 1).

    References
    ----------
    .. [1] H. Mozannar, M. Ohannessian, N. Srebro (2020). Fair learning with private
       demographic data. ICML. arXiv:2002.11651
    .. [2] E. C. Fieller (1954). Some problems in interval estimation. JRSS B 16.
    .. [3] G. Y. Zou (2007). Toward using confidence intervals to compare correlations.
       Psychological Methods 12.
    .. [4] A. Donner, G. Y. Zou (2012). Closed-form confidence intervals for functions of
       the normal mean and standard deviation. Statistical Methods in Medical Research 21.
    .. [5] A. Agresti, B. A. Coull (1998). Approximate is better than "exact" for interval
       estimation of binomial proportions. The American Statistician 52.

    Examples
    --------
    Half of 4,000 women and of 6,000 men are qualified; of the qualified, 60 % and 80 %
    are hired.

    >>> import pandas as pd
    >>> from skdp import RandomizedResponseEncoder
    >>> from skdp.metrics import debiased_fairness
    >>> people = pd.DataFrame({"sex": ["Female"] * 4_000 + ["Male"] * 6_000})
    >>> qualified = ([1] * 2_000 + [0] * 2_000) + ([1] * 3_000 + [0] * 3_000)
    >>> hired = ([1] * 1_200 + [0] * 2_800) + ([1] * 2_400 + [0] * 600 + [1] * 300 + [0] * 2_700)
    >>> encoder = RandomizedResponseEncoder(1.0, categories={"sex": ["Female", "Male"]}, random_state=0)
    >>> reports = encoder.fit_transform(people)
    >>> table = debiased_fairness(qualified, hired, reports, encoder, privileged="Male").set_index("metric")
    >>> shown = ["selection_rate", "statistical_parity_difference", "equalized_odds_difference"]
    >>> table.loc[shown].drop(columns="definition").round(3)
                                          group  value  std_error  lower  upper
    metric
    selection_rate                 unprivileged  0.315      0.014  0.288  0.342
    selection_rate                   privileged  0.442      0.010  0.422  0.463
    statistical_parity_difference          None -0.127      0.022 -0.170 -0.085
    equalized_odds_difference              None  0.196      0.028  0.133  0.252
    """
    check_choice("rows", rows, get_args(RowSource))
    check_row_order(y_true=y_true, y_pred=y_pred, sensitive_features=sensitive_features)
    domain, indicators = debias_groups(sensitive_features, encoder, columns)
    outcomes = parse_outcomes(y_true, y_pred, len(indicators))
    if privileged is not None:
        find_declared_groups(privileged, domain)
    cells = list_cells(domain)
    names, is_group = group_cells(cells, list(domain), privileged)
    weights = _scale_weights(sample_weight, sensitive_features, len(indicators))
    groups = Groups(
        names,
        # The indicator of a group is the sum over its cells, and stays unbiased.
        indicators @ is_group,
        weights,
        is_reported=True,
        has_privileged=privileged is not None,
        rows=rows,
    )
    return _tabulate_outcomes(
        outcomes, positive_label, groups, metrics, confidence_level
    )


def fairness_from_counts(
    counts: TableLike,
    y_true: ColumnName,
    y_pred: ColumnName,
    sensitive_features: ColumnName | list[ColumnName],
    *,
    privileged: Privileged | None = None,
    positive_label: Label | None = None,
    metrics: Metrics | None = None,
    confidence_level: float = 0.95,
) -> pd.DataFrame:
    """Estimate group fairness metrics of predictions from noisy counts.

    The curator of true test rows releases the counts once, and publishes a model with these metrics.

    Parameters
    ----------
    counts : dataframe
        Result of ``DPGroupBy(statistics="count").fit(test).to_frame()`` or of `DPHistogram` with true
        labels, predictions and groups among the keys. Counts are added up over all
        other keys. Exclude rows of totals.
    y_true, y_pred : column name
        Keys with the true and the predicted labels, or with scores as declared numbers.
    sensitive_features : column name or list of column names
        Keys whose combinations are the groups.
    privileged, positive_label, metrics : optional
        As for `fairness_report`.
    confidence_level : float, default=0.95
        Coverage probability of each interval.

    Returns
    -------
    pandas.DataFrame
        The table of `fairness_report`.

    Raises
    ------
    TypeError, ValueError
        As for `fairness_report`; if a column is missing; or if the counts are sums of
        weights, whose sampling error is unknown.

    Warns
    -----
    UndefinedMetricWarning
        If a metric is nan, because a group is estimated to have no rows that a rate
        divides by.

    See Also
    --------
    fairness_report : The same metrics for true rows.
    skdp.DPGroupBy : Release of the counts.

    Notes
    -----
    **Privacy.** This is post-processing of the counts, without privacy cost. The counts
    have the guarantee of the estimator that released them, for adding or removing a test
    row. The model is not protected by it.

    Intervals add the noise and the sampling error, as for `debiased_fairness`. The noise
    of different counts must be independent, as for `DPGroupBy`.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import DPGroupBy
    >>> from skdp.metrics import fairness_from_counts
    >>> test = pd.DataFrame({"sex": ["Female"] * 4_000 + ["Male"] * 6_000})
    >>> test["qualified"] = ([1] * 2_000 + [0] * 2_000) + ([1] * 3_000 + [0] * 3_000)
    >>> test["hired"] = ([1] * 1_200 + [0] * 2_800) + ([1] * 2_400 + [0] * 3_600)
    >>> keys = {"sex": ["Female", "Male"], "qualified": [0, 1], "hired": [0, 1]}
    >>> release = DPGroupBy(0.5, by=list(keys), keys=keys, statistics="count", random_state=0).fit(test)
    >>> table = fairness_from_counts(
    ...     release.to_frame(), "qualified", "hired", "sex", privileged="Male"
    ... )
    >>> shown = ["true_positive_rate", "equal_opportunity_difference"]
    >>> table.set_index("metric").loc[shown, ["group", "value", "lower", "upper"]].round(2)
                                         group  value  lower  upper
    metric
    true_positive_rate            unprivileged    0.6   0.58   0.62
    true_positive_rate              privileged    0.8   0.79   0.81
    equal_opportunity_difference          None   -0.2  -0.23  -0.18
    """
    check_column_name("y_true", y_true)
    check_column_name("y_pred", y_pred)
    names = list_column_names("sensitive_features", sensitive_features)
    table = read_counts(counts, [y_true, y_pred, *names])
    sizes = table["count"].to_numpy(float)
    outcomes = parse_outcomes(table[y_true], table[y_pred], len(sizes))
    cells, cell_of_row = code_cells([table[name] for name in names])
    group_names, is_group_of_cell = group_cells(cells, names, privileged)
    is_group = is_group_of_cell[cell_of_row]
    groups = Groups(
        group_names,
        is_group * sizes[:, np.newaxis],
        np.ones(len(sizes)),
        is_reported=True,
        has_privileged=privileged is not None,
        noise=(is_group.T * table["std_error"].to_numpy(float) ** 2).T,
    )
    return _tabulate_outcomes(
        outcomes, positive_label, groups, metrics, confidence_level
    )


def read_counts(
    counts: TableLike,
    keys: list[Any],
    *,
    allows_reports: bool = False,
    allows_weights: bool = False,
) -> dict[Any, pd.Series]:
    """Read the columns of `keys` and the columns "count" and "std_error" of noisy counts.

    Fractions are errors unless they are counts of reports without weights, or sums of weights are allowed.
    """
    is_weighted = getattr(counts, "attrs", {}).get(WEIGHTED, True)
    if hasattr(counts, "to_frame") and hasattr(counts, "fit"):
        raise TypeError(
            f"`counts` must be a table, got {type(counts).__name__}. Pass the result of "
            "its method to_frame."
        )
    # The keys are the index in pandas, and columns elsewhere.
    if isinstance(counts, pd.DataFrame):
        counts = counts.reset_index()
    table = parse_columns(counts, "counts")
    required = [*keys, "count", "count_std_error"]
    if "std_error" in table:  # of DPHistogram
        table["count_std_error"] = table["std_error"]
    if not {*required} <= {*table}:
        raise ValueError(
            f"`counts` must have the columns {required}, got {list(table)}. Release "
            "counts by these columns with DPHistogram or DPGroupBy."
        )
    if any((column == TOTAL).any() for column in table.values()):
        raise ValueError(
            f"`counts` must have no rows of totals, got {TOTAL!r}. Release the counts "
            "with totals=False, or exclude these rows."
        )
    table["count"] = table["count"].astype(float)
    table["std_error"] = table["count_std_error"].astype(float)
    allows_fractions = allows_weights or (allows_reports and not is_weighted)
    if not allows_fractions and (table["count"] % 1 != 0).any():
        raise ValueError(
            "`counts` must be numbers of rows, got fractions, such as sums of weights. "
            "Release the counts without weights; for reports, use debiased_fairness."
        )
    return table


def _scale_weights(
    sample_weight: ColumnLike | None, features: object, n_rows: int
) -> Floats:
    """Check the weight of each row, and scale the weights to a mean of 1."""
    weights = parse_weights(sample_weight, features, n_rows)
    return weights / weights.mean()


def group_cells(
    cells: CellLabels, columns: list[Any], privileged: Privileged | None
) -> tuple[list[Any], Floats]:
    """Return the names of the groups, and the indicators of their `cells`, combinations of values of `columns`.

    The indicators have the shape (n_cells, n_groups). If `privileged` is None, each combination is a group.
    """
    names, is_group = _name_cells(cells), np.eye(len(cells))
    if privileged is None:
        return names, is_group
    is_privileged = find_privileged(privileged, columns, cells)
    sides = np.column_stack([~is_privileged, is_privileged]).astype(float)
    # Several unprivileged combinations are groups as well.
    parts = np.flatnonzero(~is_privileged)
    if len(parts) == 1:
        return ["unprivileged", "privileged"], sides
    names = ["unprivileged", "privileged", *(names[cell] for cell in parts)]
    return names, np.hstack([sides, is_group[:, parts]])


def _name_cells(cells: CellLabels) -> list[Any]:
    """Return the names of combinations of values: the value, or a tuple of several values."""
    missing = name_missing(
        value for cell in cells for value in cell if value is not None
    )
    names = []
    for cell in cells:
        values = tuple(missing if value is None else value for value in cell)
        names.append(values[0] if len(values) == 1 else values)
    return names


def _tabulate_outcomes(
    outcomes: dict[str, pd.Series],
    positive_label: Label | None,
    groups: Groups,
    metrics: Metrics | None,
    confidence_level: float,
) -> pd.DataFrame:
    """Build the table of `fairness_report` from the true and predicted outcomes and the groups of the rows."""
    level, metric_table = (
        check_confidence_level(confidence_level),
        read_metrics(metrics),
    )
    labels = list_positive_labels(positive_label, outcomes)
    tables = []
    for label in labels:
        is_true, is_predicted = (
            column.isin([label]).to_numpy() for column in outcomes.values()
        )
        cells = sum_cells(is_true, is_predicted, groups)
        tables.append(_tabulate_metrics(cells, metric_table, level))
    table = pd.concat(tables, ignore_index=True)
    if len(labels) > 1:
        table.insert(0, CLASS, np.repeat(labels, len(tables[0])))
    warn_of_undefined(table, groups.is_reported)
    return table


def _tabulate_metrics(
    cells: CellSums, metrics: MetricTable, level: float
) -> pd.DataFrame:
    """Build the table of the values of groups, and of their comparisons."""
    lines: list[tuple[Any, ...]] = []
    groups = cells.groups
    estimates = estimate_rates(cells, metrics, level)
    for row, (metric, (definition, _)) in enumerate(metrics.rates.items()):
        for group, name in enumerate(groups.names):
            lines.append((metric, definition, name, *estimates.select((row, group))))

    @cache
    def score(n_intervals: int) -> Rates:
        """Estimate values whose intervals hold simultaneously, by Bonferroni's inequality."""
        return score_table(cells, metrics, 1 - (1 - level) / n_intervals)

    # Pairs of groups that are compared, in both orders, and the sides of the definition.
    # Extremes require at least two groups.
    pairs: Any = np.nonzero(~np.eye(len(groups.names), dtype=bool))
    compared: list[Any] = [(None, pairs, EXTREMES)] if len(groups.names) > 1 else []
    if groups.has_privileged:
        compared = []
        for group in (0, *range(2, len(groups.names))):
            side = "group" if group else "unprivileged"
            sides = {"difference": f"{side} − privileged"}
            sides["ratio"] = f"{side} / privileged"
            pairs = np.array([group, 1]), np.array([1, group])
            compared.append((groups.names[group] if group else None, pairs, sides))
    for metric, comparison in metrics.comparisons.items():
        for name, pairs, sides in compared:
            definition = comparison[0].format(**sides)
            options = comparison, pairs, not groups.has_privileged
            lines.append((metric, definition, name, *compare_rates(score, *options)))
    numbers = list(Estimate._fields)
    table = pd.DataFrame(lines, columns=["metric", "definition", "group", *numbers])
    # The dtype object keeps None and tuples of values.
    table["group"] = pd.Series([group for _, _, group, *_ in lines], dtype=object)
    return table.astype(dict.fromkeys(numbers, float))


def warn_of_undefined(table: pd.DataFrame, is_reported: bool) -> None:
    """Warn if a metric is nan, or infinite for groups that are not privatized."""
    is_undefined = table["value"].isna()
    if not is_reported:
        # A ratio of noisy estimates may be infinite.
        is_undefined |= np.isinf(table["value"])
    metrics = table.loc[is_undefined, "metric"].unique()
    if len(metrics):
        warn_at_caller(
            f"Undefined metrics: {', '.join(metrics)}. A group has, or is estimated to have, "
            "no rows that the definition divides by, or a rate is 0",
            UndefinedMetricWarning,
            about="guide/fairness",
        )
