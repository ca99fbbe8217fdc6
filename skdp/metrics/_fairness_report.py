"""Group fairness: one table for groups that are known and for those that are estimated.

The definitions are aif360's for two groups, fairlearn's for several.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.exceptions import UndefinedMetricWarning

from skdp.base import (
    ColumnLike,
    Label,
    Privileged,
    TableLike,
    check_confidence_level,
    check_row_order,
)
from skdp.metrics._inputs import (
    check_both,
    code_cells,
    is_in_products,
    name_groups,
    read_columns,
    read_predictions,
    read_privileged,
)
from skdp.metrics._intervals import Estimate
from skdp.metrics._rates import (
    Mask,
    Places,
    RateSums,
    compare_extremes,
    compare_with_last,
    sums_of_known,
)
from skdp.pages import warn

CONVENTION = (
    "difference = unprivileged − privileged, ratio = unprivileged / privileged, "
    "+ is the positive label"
)


class Metric(NamedTuple):
    """The name of a metric in code, that for people, and its definition."""

    name: str
    label: str
    definition: str


RATES = (
    Metric("selection_rate", "selection rate", "P(ŷ=+)"),
    Metric("true_positive_rate", "true positive rate", "TPR = P(ŷ=+ | y=+)"),
    Metric("false_positive_rate", "false positive rate", "FPR = P(ŷ=+ | y=−)"),
)
COMPARISONS = (
    Metric(
        "statistical_parity_difference",
        "statistical parity difference",
        "P(ŷ=+): {difference}",
    ),
    Metric("disparate_impact", "disparate impact", "P(ŷ=+): {ratio}"),
    Metric(
        "equal_opportunity_difference",
        "equal opportunity difference",
        "TPR: {difference}",
    ),
    Metric(
        "average_odds_difference", "average odds difference", "FPR&TPR: {difference}"
    ),
)


# Where no group is privileged, the comparisons are between the extremes, as in fairlearn.
DIFFERENCE_OF_EXTREMES, RATIO_OF_EXTREMES = "largest − smallest", "smallest / largest"
LABELS = {metric.name: metric.label for metric in (*RATES, *COMPARISONS)}


class Row(NamedTuple):
    """A metric, its definition, its group and its estimate."""

    metric: Metric
    definition: str
    group: Any
    estimate: Estimate


@dataclass(frozen=True)
class Groups:
    """Groups of cells by name, and which of them are compared with the privileged one."""

    names: tuple[Any, ...]
    # Of each cell, the groups that it is in: (n_cells, n_groups). The privileged one, if
    # there is one, is the last.
    members: Mask
    # The groups that are compared with the last one; none without privileged rows.
    compared: Places
    by_group: bool

    @classmethod
    def of(
        cls, names: Sequence[Any], privileged: Mask | None, by_group: bool | None
    ) -> Groups:
        if by_group not in (None, True, False):
            raise ValueError(f"by_group must be True, False or None, got {by_group!r}")
        every_cell = np.eye(len(names), dtype=bool)
        if privileged is None:
            if by_group is False:
                raise ValueError(
                    "privileged must be given, or by_group must not be False"
                )
            none = np.zeros(0, np.intp)
            return cls(tuple(names), every_cell, none, True)
        # aif360's two groups, whatever number of cells each consists of.
        if not by_group:
            both = np.stack([~privileged, privileged], axis=1)
            return cls(("unprivileged", "privileged"), both, np.array([0]), False)
        # All privileged cells together are a further group, with which every other one
        # is compared.
        members = np.concatenate([every_cell, privileged[:, np.newaxis]], axis=1)
        return cls(tuple(names), members, np.flatnonzero(~privileged), True)


def measure(sums: RateSums, groups: Groups, rows: str, level: float) -> Iterator[Row]:
    """Estimate all metrics, with intervals of the randomness that `rows` names."""
    yield from _rates_of_groups(sums, groups, rows, level)
    if groups.compared.size > 0:
        yield from _comparisons_with_privileged(sums, groups, rows, level)
    elif len(groups.names) > 1:
        yield from _comparisons_of_extremes(sums, rows, level)


def _rates_of_groups(
    sums: RateSums, groups: Groups, rows: str, level: float
) -> Iterator[Row]:
    # A rate of a group that is estimated to have no row has an interval alone.
    rates = sums.estimate(rows, level).where(sums.has_estimated_rows)
    for place, metric in enumerate(RATES):
        for group, name in enumerate(groups.names):
            yield Row(metric, metric.definition, name, rates[place, group])


def _comparisons_with_privileged(
    sums: RateSums, groups: Groups, rows: str, level: float
) -> Iterator[Row]:
    privileged = sums.n_groups - 1
    compared = sums[np.append(groups.compared, privileged)]
    estimates = compare_with_last(compared, rows, level)
    word = "group" if groups.by_group else "unprivileged"
    for metric, estimate in zip(COMPARISONS, estimates, strict=True):
        definition = metric.definition.format(
            difference=f"{word} − privileged", ratio=f"{word} / privileged"
        )
        for place, group in enumerate(groups.compared):
            name = groups.names[group] if groups.by_group else None
            yield Row(metric, definition, name, estimate[place])


def _comparisons_of_extremes(sums: RateSums, rows: str, level: float) -> Iterator[Row]:
    """Compare the largest rate with the smallest."""
    has_rows = sums.has_rows[0]
    # If no row has a weight, nothing is known of any group.
    if has_rows.any():
        sums = sums[np.flatnonzero(has_rows)]
    estimates = compare_extremes(sums, rows, level)
    for metric, estimate in zip(COMPARISONS, estimates, strict=True):
        definition = metric.definition.format(
            difference=DIFFERENCE_OF_EXTREMES, ratio=RATIO_OF_EXTREMES
        )
        yield Row(metric, definition, None, estimate)


def write_table(
    metrics: Iterable[Row],
    confidence_level: float | None,
    *,
    estimated: bool = False,
) -> pd.DataFrame:
    """Write the metrics, a row each."""
    rows: list[tuple[Any, ...]] = []
    for metric, definition, group, estimate in metrics:
        ends = estimate.lower, estimate.upper
        numbers = estimate.value, estimate.std_error, *ends
        rows.append((metric.name, definition, group, *numbers))
    names = ["metric", "definition"]
    numbers_of_row = ["value", "std_error", "lower", "upper"]
    # Objects, to keep None and groups of several values.
    header = [*names, "group", *numbers_of_row]
    table = pd.DataFrame(rows, columns=header, dtype=object)
    table = table.astype(dict.fromkeys(numbers_of_row, float))
    table[names] = table[names].infer_objects()
    if not confidence_level:
        table = table.drop(columns=numbers_of_row[1:])
    known = table["metric"].unique()
    table.attrs["convention"] = CONVENTION
    table.attrs["labels"] = dict(zip(known, map(LABELS.get, known), strict=True))
    if confidence_level:
        table.attrs["confidence_level"] = confidence_level
    _warn_of_undefined(table, estimated)
    return table


def _warn_of_undefined(table: pd.DataFrame, estimated: bool) -> None:
    unknown = table["value"].isna()
    if not estimated:
        # A quotient of estimates is infinite by their noise alone.
        unknown |= np.isinf(table["value"])
    metrics = table.loc[unknown, "metric"].unique()
    if len(metrics):
        warn(
            f"undefined: {'; '.join(metrics)}. There is {'estimated to be ' * estimated}"
            "no row that the definition divides by, or a rate of 0",
            UndefinedMetricWarning,
            about="guide/fairness",
            stacklevel=4,
        )


def fairness_report(
    y_true: ColumnLike,
    y_pred: ColumnLike,
    sensitive_features: ColumnLike | TableLike,
    *,
    privileged: Privileged | None = None,
    positive_label: Label | None = None,
    by_group: bool | None = None,
    confidence_level: float | None = None,
    sample_weight: ColumnLike | None = None,
) -> pd.DataFrame:
    """Compute group fairness metrics of predictions.

    Parameters
    ----------
    y_true, y_pred : array-like or series of shape (n_samples,), or dataframe of one column
        True and predicted labels. Numbers with fractions, such as probabilities, are refused: apply a threshold first.
    sensitive_features : array-like or series of shape (n_samples,), or dataframe or array of several columns
        The value of each row that defines its group; of several columns, the combination of values. Missing values form
        a separate group, "missing" (or "(missing)", if a value has this name). The three are matched by position.
    privileged : value, list of values or mapping of column name to such, optional
        The values that make a row privileged; other values make it unprivileged, and so do missing ones, unless None or
        nan is in the list. A mapping fits named columns, or a named series. For several columns, a tuple of values or a
        list of them, or a mapping: a row is privileged if it matches in all columns. By default no group is privileged,
        and groups are compared with each other only.
    positive_label : label, optional
        The favourable label. By default 1, if all labels are 0 and 1, or False and True. If
        there are more than two labels, it is compared with all others together.
    by_group : bool, optional
        Whether each value of the sensitive feature is a group; if not, the groups are the privileged rows and all
        others. By default only if `privileged` is not given.
    confidence_level : float, optional
        Coverage of each interval, between 0 and 1. By default there are no intervals.
    sample_weight : array-like or series of shape (n_samples,), optional
        Finite weights of the rows, at least 0: how much each counts in a rate. By default all are 1. Where a few rows
        carry most of the weight, intervals are too short: see the notes.

    Returns
    -------
    pandas.DataFrame
        One row per metric and group, with the columns ``metric, definition, group, value``; ``attrs["labels"]`` has a
        name for people of each metric. The groups are "unprivileged" and "privileged", or, with `by_group`, each value
        that occurs:

        - ``selection_rate``, ``true_positive_rate``, ``false_positive_rate`` of each group: ``P(ŷ = +)``, TPR =
          ``P(ŷ = + | y = +)`` and FPR = ``P(ŷ = + | y = −)``;
        - ``statistical_parity_difference`` of selection rates, and ``disparate_impact``, their ratio;
        - ``equal_opportunity_difference`` of TPR, and ``average_odds_difference``, the mean of the differences of TPR
          and of FPR.

        With `privileged`, the last four compare the unprivileged rows with the privileged (``group`` is None), or, with
        `by_group`, each unprivileged group with all privileged rows. Each difference is *unprivileged − privileged*:
        below 0, the unprivileged group gets less (``attrs["convention"]``). Without `privileged`, they compare the
        extremes of all groups: a difference is the largest rate minus the smallest, ``disparate_impact`` the smallest
        divided by the largest.

        With a `confidence_level`, ``std_error, lower, upper`` at the end, and the level in ``attrs``. `to_aif360`
        gives aif360's other metrics.

    Raises
    ------
    ValueError
        If lengths differ, two inputs have the same row labels in different orders, a label is missing, labels are of
        several kinds, no label is positive, `y_true` and `y_pred` have none of more than two in common, the privileged
        or the unprivileged group is empty, or a parameter is out of range.

    Warns
    -----
    UndefinedMetricWarning
        If a value is nan or infinite: no row of a group is truly positive (or negative), or predicted so. The interval
        of what is nan is the whole possible range.

    See Also
    --------
    debiased_fairness : The same table for groups that are known from reports only.
    to_aif360 : A dataset for aif360's own metrics.

    Notes
    -----
    **Privacy.** The values depend on the true labels and groups and are not protected. With a privatised sensitive
    feature, the groups are not the true ones, and the differences are closer to 0 than the true ones.

    With `privileged`, the values are those of aif360 [1]_; without, those of fairlearn [2]_: in the order above,
    ``demographic_parity_difference``, ``demographic_parity_ratio``, ``equal_opportunity_difference`` and
    ``equalized_odds_difference(agg="mean")``. Unlike in fairlearn, the true positive rate of a group without a positive
    row is nan, and so is the ratio where all selection rates are 0.

    **Intervals** treat the rows as an independent sample, and cover the metric of the population in at least 93 % of
    samples (at 95 %) from 50 rows of a group on; with fewer rows they are wider. They are of two methods. A score
    interval of a rate holds the values from which the data are at most z standard errors away. MOVER combines the
    intervals of two rates: of their difference, the distances of the estimates from the ends add up as standard errors
    do, as squares.

    - rates: Clopper and Pearson's exact interval [3]_ instead of the score interval, as it covers always, also where a
      handful of rows is counted; of rows with weights, of the effective numbers of rows (Korn and Graubard [4]_), which
      is approximate;
    - differences: method 10 of Newcombe [5]_, the MOVER of Wilson's score intervals; average odds: MOVER of the two
      differences [6]_; `disparate_impact`: MOVER-R [7]_;
    - the largest rate against the smallest: the range of estimates is larger than that of the rates, the more so the
      more groups there are. So the end next to equality holds for all pairs that may be the most unequal ones, by
      Bonferroni's bound; the other end needs the interval of one pair only.

    Heavy weights: where a few rows carry most of the weight, errors are estimated from these few, and are often too
    small. Intervals of 95 % cover in .86 to .92 of tables of 1,000 rows of which 1 % have half of the weight, and in
    .92 to .94 where these have a third.

    Measured coverage and widths: ``benchmarks/fairness.py``.

    References
    ----------
    .. [1] R. K. E. Bellamy et al. (2018). AI Fairness 360: an extensible toolkit for detecting, understanding, and
       mitigating unwanted algorithmic bias. arXiv:1810.01943.
    .. [2] H. Weerts et al. (2023). Fairlearn: Assessing and Improving Fairness of AI Systems. JMLR 24(257).
    .. [3] C. J. Clopper, E. S. Pearson (1934). The use of confidence or fiducial limits illustrated in the case of the
       binomial. Biometrika 26.
    .. [4] E. L. Korn, B. I. Graubard (1998). Confidence intervals for proportions with small expected number of
       positive counts estimated from survey data. Survey Methodology 24.
    .. [5] R. G. Newcombe (1998). Interval estimation for the difference between independent proportions: comparison of
       eleven methods. Statistics in Medicine 17.
    .. [6] G. Y. Zou, A. Donner (2008). Construction of confidence limits about effect measures: a general approach.
       Statistics in Medicine 27.
    .. [7] A. Donner, G. Y. Zou (2012). Closed-form confidence intervals for functions of the normal mean and standard
       deviation. Statistical Methods in Medical Research 21.

    Examples
    --------
    >>> sex = ["Female"] * 4 + ["Male"] * 4
    >>> y_true = ["yes", "yes", "no", "no", "yes", "yes", "no", "no"]
    >>> y_pred = ["yes", "no", "no", "no", "yes", "yes", "yes", "no"]
    >>> report = fairness_report(y_true, y_pred, sex, privileged="Male", positive_label="yes", confidence_level=0.95)
    >>> report.loc[6:, ["metric", "definition", "value"]].round(3)
                               metric                          definition  value
    6   statistical_parity_difference   P(ŷ=+): unprivileged − privileged -0.500
    7                disparate_impact   P(ŷ=+): unprivileged / privileged  0.333
    8    equal_opportunity_difference      TPR: unprivileged − privileged -0.500
    9         average_odds_difference  FPR&TPR: unprivileged − privileged -0.500

    Eight rows give wide intervals:

    >>> report.round(2).loc[[0, 1, 6, 7], ["metric", "group", "value", "std_error", "lower", "upper"]]
                              metric         group  value  std_error  lower  upper
    0                 selection_rate  unprivileged   0.25       0.22   0.01   0.81
    1                 selection_rate    privileged   0.75       0.22   0.19   0.99
    6  statistical_parity_difference          None  -0.50       0.31  -0.79   0.14
    7               disparate_impact          None   0.33       0.30   0.06   1.33

    Groups formed by several columns are compared with each other:

    >>> people = pd.DataFrame({"sex": sex, "race": ["Black", "White"] * 4})
    >>> fairness_report(y_true, y_pred, people, positive_label="yes").loc[[2, 3, 12], ["metric", "group", "value"]]
                               metric          group  value
    2                  selection_rate  (Male, Black)    1.0
    3                  selection_rate  (Male, White)    0.5
    12  statistical_parity_difference           None    1.0
    """
    level = 0.95
    if confidence_level is not None:
        level = check_confidence_level(confidence_level)
    check_row_order(
        y_true=y_true,
        y_pred=y_pred,
        sensitive_features=sensitive_features,
        sample_weight=sample_weight,
    )
    columns = read_columns(sensitive_features, "sensitive_features")
    n_rows = max(map(len, columns.values()))
    labels = read_predictions(
        y_true,
        y_pred,
        positive_label,
        sample_weight=sample_weight,
        sensitive_features=n_rows,
    )
    cells, cell_of_row = code_cells(list(columns.values()))
    is_privileged = None
    if privileged is not None:
        products = read_privileged(privileged, list(columns))
        is_privileged = is_in_products(cells, products)
        check_both(is_privileged, "sensitive_features")
    groups = Groups.of(name_groups(cells), is_privileged, by_group)
    sums = sums_of_known(cell_of_row, groups.members, labels)
    metrics = measure(sums, groups, "population", level)
    return write_table(metrics, confidence_level)
