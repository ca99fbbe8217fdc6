"""Group fairness of predictions: aif360's definitions for two groups, fairlearn's for several."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.exceptions import UndefinedMetricWarning

from skdp.base import check_confidence_level, read_array
from skdp.coding import is_missing
from skdp.frames import is_frame, read_table
from skdp.metrics.fairness._aif360 import check_both, is_collection, read_column
from skdp.metrics.fairness._intervals import Estimate, combine, proportion, ratio, spread, theil, worst
from skdp.typing import ColumnLike, TableLike

CONVENTION = "difference = unprivileged − privileged, ratio = unprivileged / privileged, + is the positive label"

# Definitions have at most 34 characters, to print the table on 80 columns.
RATES = (
    ("selection rate", "P(ŷ=+)"),
    ("true positive rate", "TPR = P(ŷ=+ | y=+)"),
    ("false positive rate", "FPR = P(ŷ=+ | y=−)"),
)
COMPARISONS = (
    ("statistical parity difference", "P(ŷ=+): {} − privileged"),
    ("disparate impact", "P(ŷ=+): {} / privileged"),
    ("equal opportunity difference", "TPR: {} − privileged"),
    ("average odds difference", "FPR&TPR: {} − privileged"),
)

# A metric, its definition, its group and its estimate.
_Row = tuple[str, str, Any, Estimate]


def fairness_report(
    y_true: ColumnLike,
    y_pred: ColumnLike,
    sensitive_features: ColumnLike | TableLike,
    *,
    privileged: Any = None,
    positive_label: Any,
    by_group: bool | None = None,
    confidence_level: float | None = None,
) -> pd.DataFrame:
    """Compute group fairness metrics of predictions.

    Parameters
    ----------
    y_true, y_pred : array-like or series of shape (n_samples,), or dataframe of one column
        True and predicted labels.
    sensitive_features : array-like or series of shape (n_samples,), or dataframe or array of several columns
        The value of each row that defines its group; of several columns, the combination of values. Missing values form
        a separate group, "missing" (or "(missing)", if a value has this name). The three are matched by position.
    privileged : value, list of values or mapping of column name to such, optional
        The values that make a row privileged; other values make it unprivileged, and so do missing ones, unless None or
        nan is in the list. For several columns, a tuple of values or a list of them, or a mapping: a row is privileged
        if it matches in all columns. By default no group is privileged, and groups are compared with each other only.
    positive_label : label
        The favourable label. If there are more than two labels, it is compared with all others together.
    by_group : bool, optional
        Whether each value of the sensitive feature is a group; if not, the groups are the privileged rows and all
        others. By default only if `privileged` is not given.
    confidence_level : float, optional
        Coverage of each interval, between 0 and 1. By default there are no intervals.

    Returns
    -------
    pandas.DataFrame
        One row per metric, with the columns ``metric, definition, value``:

        - statistical parity difference, of the selection rates ``P(ŷ = +)``, and disparate impact, their ratio;
        - equal opportunity difference, of the true positive rates (TPR, ``P(ŷ = + | y = +)``), and average odds
          difference, the mean of this one and that of the false positive rates (FPR, ``P(ŷ = + | y = −)``);
        - Theil index, the mean of ``b/μ ln(b/μ)`` over all rows, for the benefits ``b = 1 + ŷ − y`` (labels as 0 and 1)
          and their mean μ; 0 is equality.

        Each difference is *unprivileged − privileged*: below 0, the unprivileged group gets less
        (``attrs["convention"]``).

        With `by_group`, a column ``group`` after the definition, and as rows the three rates of each group that occurs,
        the first four metrics of each unprivileged group against all privileged rows, and (``group`` is None) the
        metrics of fairlearn: the largest rate minus the smallest and the smallest divided by the largest, for each
        rate, and the worse of those for true and false positive rates; and the Theil index.

        With a `confidence_level`, ``std_error, lower, upper`` at the end, and the level in ``attrs``.

    Raises
    ------
    ValueError
        If lengths differ, a label is missing, no label is positive, `y_true` and `y_pred` have none of more than two in
        common, the privileged or the unprivileged group is empty, or a parameter is out of range.

    Warns
    -----
    UndefinedMetricWarning
        If a value is nan or infinite: no row of a group is truly positive (or negative), or predicted so.

    See Also
    --------
    to_aif360 : A dataset for aif360's own metrics.

    Notes
    -----
    **Privacy.** The values depend on the true labels and groups and are not protected. With a privatised sensitive
    feature, the groups are not the true ones, and the differences are closer to 0 than the true ones.

    The values are those of aif360 [1]_ and fairlearn [2]_, whose "equal opportunity difference" is the largest rate
    minus the smallest. Unlike in fairlearn, the true positive rate of a group without a positive row is nan, and so are
    the ratio and "odds, smallest / largest" where all rates of one kind are 0.

    Intervals treat the rows as an independent sample with given groups and true labels. Those of rates are Wilson's
    (1927); those of differences and ratios combine these (Newcombe 1998, Zou and Donner 2008, Donner and Zou 2012).
    Those between the largest and the smallest rate hold for all groups together (Bonferroni), without a standard error.
    Other standard errors, and the interval of the Theil index, are by the delta method.

    References
    ----------
    .. [1] R. K. E. Bellamy et al. (2018). AI Fairness 360: an extensible toolkit for detecting, understanding, and
       mitigating unwanted algorithmic bias. arXiv:1810.01943.
    .. [2] H. Weerts et al. (2023). Fairlearn: Assessing and Improving Fairness of AI Systems. JMLR 24(257).

    Examples
    --------
    >>> sex = ["Female"] * 4 + ["Male"] * 4
    >>> y_true = ["yes", "yes", "no", "no", "yes", "yes", "no", "no"]
    >>> y_pred = ["yes", "no", "no", "no", "yes", "yes", "yes", "no"]
    >>> fairness_report(y_true, y_pred, sex, privileged="Male", positive_label="yes").round(3)
                              metric                          definition  value
    0  statistical parity difference   P(ŷ=+): unprivileged − privileged -0.500
    1               disparate impact   P(ŷ=+): unprivileged / privileged  0.333
    2   equal opportunity difference      TPR: unprivileged − privileged -0.500
    3        average odds difference  FPR&TPR: unprivileged − privileged -0.500
    4                    Theil index  mean of b/μ·ln(b/μ), b = 1 + ŷ − y  0.173

    Eight rows give wide intervals:

    >>> report = fairness_report(y_true, y_pred, sex, privileged="Male", positive_label="yes", confidence_level=0.95)
    >>> report.round(2).loc[:1, ["metric", "value", "std_error", "lower", "upper"]]
                              metric  value  std_error  lower  upper
    0  statistical parity difference  -0.50       0.31  -0.79   0.14
    1               disparate impact   0.33       0.30   0.06   1.33

    Groups formed by several columns are compared with each other:

    >>> people = pd.DataFrame({"sex": sex, "race": ["Black", "White"] * 4})
    >>> fairness_report(y_true, y_pred, people, positive_label="yes").loc[[2, 3, 12], ["metric", "group", "value"]]
                                    metric          group  value
    2                       selection rate  (Male, Black)    1.0
    3                       selection rate  (Male, White)    0.5
    12  selection rate, largest − smallest           None    1.0
    """
    if by_group not in (None, True, False):
        raise ValueError(f"by_group must be True, False or None, got {by_group!r}")
    if by_group is False and privileged is None:
        raise ValueError("privileged must be given, or by_group must not be False")
    level = 0.95 if confidence_level is None else check_confidence_level(confidence_level)
    counts = _count_groups(y_true, y_pred, sensitive_features, privileged, positive_label)
    each = privileged is None if by_group is None else bool(by_group)
    # The warning below names the metric, unlike NumPy's "invalid value".
    with np.errstate(divide="ignore", invalid="ignore"):
        rows = list(_rows_by_group(counts, level) if each else _rows_of_two(counts, level))
    report = _to_frame(rows, each, confidence_level)
    undefined = report.loc[~np.isfinite(report["value"]), "metric"].unique()
    if len(undefined):
        warnings.warn(
            f"undefined: {'; '.join(undefined)}. A group has no row that the definition divides by, or a rate of 0",
            UndefinedMetricWarning,
            stacklevel=2,
        )
    return report


@dataclass(frozen=True)
class _GroupCounts:
    """The number of rows of each group with each pair of labels."""

    groups: tuple[Any, ...]
    table: NDArray[np.int64]
    privileged: NDArray[np.bool_] | None


def _count_groups(
    y_true: Any, y_pred: Any, sensitive_features: Any, privileged: Any, positive_label: Any
) -> _GroupCounts:
    """Count the rows of each group by true and predicted label."""
    true, predicted = read_column(y_true, "y_true"), read_column(y_pred, "y_pred")
    columns = _read_columns(sensitive_features)
    sizes = {len(column) for column in columns.values()}
    if not sizes == {len(true)} == {len(predicted)}:
        raise ValueError(
            "y_true, y_pred and sensitive_features must have the same length, got "
            f"{len(true)}, {len(predicted)} and {max(sizes)}"
        )
    check_labels(true, predicted, positive_label)
    cells, codes = _cells(list(columns.values()))
    positive = [labels.isin([positive_label]).to_numpy(dtype=bool) for labels in (true, predicted)]
    places = (codes * 2 + positive[0]) * 2 + positive[1]
    table = np.bincount(places, minlength=4 * len(cells)).reshape(-1, 2, 2)
    return _GroupCounts(_name_groups(cells), table, _find_privileged(cells, privileged, list(columns)))


def _read_columns(features: Any) -> dict[Any, pd.Series]:
    """Read the sensitive features: a name for each column of a table, None for a column without a name."""
    if not is_frame(features) and read_array(features, "sensitive_features").ndim != 2:
        return {None: read_column(features, "sensitive_features", missing=True)}
    table = read_table(features if is_frame(features) else np.array(features, dtype=object))
    if not table.names:
        raise ValueError("sensitive_features must have at least one column")
    many = "sensitive_features column {!r}" if len(table.names) > 1 else "sensitive_features"
    named = zip(table.names, table.columns, strict=True)
    return {name: read_column(column, many.format(name), missing=True) for name, column in named}


def check_labels(true: Any, predicted: Any, positive_label: Any) -> None:
    """Refuse labels that do not match."""
    in_true, in_predicted = set(true.unique().tolist()), set(predicted.unique().tolist())
    if positive_label not in in_true | in_predicted:
        raise ValueError("neither y_true nor y_pred holds a label that equals positive_label")
    # One of two labels may only be predicted; with more, a mistake is likely: 1 and "1", ">50K" and ">50K.".
    if len(in_true | in_predicted) > 2 and not in_true & in_predicted:
        raise ValueError("y_true and y_pred have no label in common, though there are more than two labels")


def _cells(columns: list[pd.Series]) -> tuple[list[tuple[Any, ...]], NDArray[np.intp]]:
    """Return the combinations of values that occur, with None for missing, and the index of each row's one."""
    coded = [pd.Categorical(column) for column in columns]
    values = [[*column.categories.to_list(), None] for column in coded]
    places = [np.where(column.codes < 0, len(column.categories), column.codes.astype(np.intp)) for column in coded]
    shape = [len(known) for known in values]
    occurring, codes = np.unique(np.ravel_multi_index(places, shape), return_inverse=True)
    cells = zip(*np.unravel_index(occurring, shape), strict=True)
    return [tuple(v[p] for v, p in zip(values, cell, strict=True)) for cell in cells], codes


def _name_groups(cells: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Name missing values "missing", or, if there is such a value, "(missing)", and so on."""
    name = "missing"
    while any(name in cell for cell in cells):
        name = f"({name})"
    named = [tuple(name if value is None else value for value in cell) for cell in cells]
    return tuple(cell[0] if len(cell) == 1 else cell for cell in named)


def _find_privileged(cells: list[tuple[Any, ...]], privileged: Any, names: list[Any]) -> NDArray[np.bool_] | None:
    if privileged is None:
        return None
    if len(names) == 1 and not isinstance(privileged, Mapping):
        privileged = {names[0]: privileged}
    if isinstance(privileged, Mapping):
        if set(privileged) != set(names):
            raise ValueError(f"privileged has the keys {list(privileged)}; sensitive_features has the columns {names}")
        wanted = [_listed(privileged[name]) for name in names]
        chosen = [all(v in w for v, w in zip(cell, wanted, strict=True)) for cell in cells]
    else:
        listed = [privileged] if isinstance(privileged, tuple) else privileged
        if not isinstance(listed, list) or any(not isinstance(one, tuple) or len(one) != len(names) for one in listed):
            raise ValueError(
                f"privileged must be a mapping with the keys {names}, or a tuple of {len(names)} values, or a list of "
                f"such tuples, because sensitive_features has {len(names)} columns"
            )
        chosen = [cell in [tuple(_listed(one)) for one in listed] for cell in cells]
    return check_both(np.array(chosen, dtype=bool), "sensitive_features")


def _listed(values: Any) -> list[Any]:
    listed = list(values) if is_collection(values) else [values]
    return [None if is_missing(value) else value for value in listed]


def _rows_of_two(counts: _GroupCounts, level: float) -> Iterator[_Row]:
    mask = counts.privileged
    assert mask is not None
    pair = np.stack([counts.table[~mask].sum(axis=0), counts.table[mask].sum(axis=0)])
    rates = _rates(pair, level)
    yield from _compare([rate[:1] for rate in rates], [rate[1] for rate in rates], [None], "unprivileged")
    yield _theil(counts.table, level)


def _rows_by_group(counts: _GroupCounts, level: float) -> Iterator[_Row]:
    rates = _rates(counts.table, level)
    for (metric, definition), rate in zip(RATES, rates, strict=True):
        for place, group in enumerate(counts.groups):
            yield metric, definition, group, rate[place]
    mask = counts.privileged
    if mask is not None:
        others = [group for group, privileged in zip(counts.groups, mask, strict=True) if not privileged]
        privileged_rates = _rates(counts.table[mask].sum(axis=0), level)
        yield from _compare([rate[~mask] for rate in rates], privileged_rates, others, "group")
    yield from _spreads(counts, level)
    yield _theil(counts.table, level)


def _rates(table: NDArray[np.int64], level: float) -> list[Estimate]:
    """Estimate the three rates of counts by (group,) true and predicted label."""
    positive, rows = table[..., 1], table.sum(axis=-1)
    pairs = ((positive.sum(axis=-1), rows.sum(axis=-1)), *((positive[..., y], rows[..., y]) for y in (1, 0)))
    return [proportion(successes, trials, level) for successes, trials in pairs]


def _compare(rates: list[Estimate], privileged: list[Estimate], groups: list[Any], name: str) -> Iterator[_Row]:
    selection, tpr, fpr = zip(rates, privileged, strict=True)
    odds = combine((0.5, fpr[0]), (-0.5, fpr[1]), (0.5, tpr[0]), (-0.5, tpr[1]))
    parity, opportunity = (combine((1, left), (-1, right)) for left, right in (selection, tpr))
    estimates = (parity, ratio(*selection), opportunity, odds)
    for (metric, definition), estimate in zip(COMPARISONS, estimates, strict=True):
        for place, group in enumerate(groups):
            yield metric, definition.format(name), group, estimate[place]


def _spreads(counts: _GroupCounts, level: float) -> Iterator[_Row]:
    """Compare the largest rate with the smallest, as fairlearn does."""
    tail = (1 - level) / len(counts.groups)
    differences, ratios = "largest − smallest", "smallest / largest"
    for (metric, _), short, rate in zip(RATES, ("P(ŷ=+)", "TPR", "FPR"), _rates(counts.table, 1 - tail), strict=True):
        difference, quotient = spread(rate)
        yield f"{metric}, {differences}", f"{short}: {differences}", None, difference
        yield f"{metric}, {ratios}", f"{short}: {ratios}", None, quotient
    # Two rates of each group at once.
    odds = [spread(rate) for rate in _rates(counts.table, 1 - tail / 2)[1:]]
    larger, smaller = worst((d for d, _ in odds), largest=True), worst((q for _, q in odds), largest=False)
    yield f"odds, {differences}", f"larger of TPR, FPR: {differences}", None, larger
    yield f"odds, {ratios}", f"smaller of TPR, FPR: {ratios}", None, smaller


def _theil(table: NDArray[np.int64], level: float) -> _Row:
    (right_negative, lucky), (unlucky, right_positive) = table.sum(axis=0).tolist()
    estimate = theil(unlucky, right_negative + right_positive, lucky, level)
    return "Theil index", "mean of b/μ·ln(b/μ), b = 1 + ŷ − y", None, estimate


def _to_frame(rows: list[_Row], by_group: bool, confidence_level: float | None) -> pd.DataFrame:
    metrics, definitions, groups, estimates = zip(*rows, strict=True)
    columns: dict[str, Any] = {"metric": metrics, "definition": definitions}
    if by_group:
        # Objects, to keep None and groups of several values.
        columns["group"] = pd.Series(list(groups), dtype=object)
    names = ("value", "std_error", "lower", "upper") if confidence_level else ("value",)
    columns |= {name: [float(getattr(estimate, name)) for estimate in estimates] for name in names}
    report = pd.DataFrame(columns)
    report.attrs["convention"] = CONVENTION
    if confidence_level:
        report.attrs["confidence_level"] = confidence_level
    return report
