"""Joint distributions and probabilities of groups that are known from privatised reports only."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.base import ColumnLike, ColumnName, TableLike, check_choice
from skdp.local import ReportTransformer
from skdp.metrics.fairness import Numbers, find_positive_label, read_column
from skdp.metrics.private_groups._reports import (
    GroupReports,
    read_groups,
)
from skdp.oracles import project_to_simplex


def read_labels(groups: GroupReports, **columns: Any) -> list[pd.Categorical]:
    given = {name: read_column(values, name) for name, values in columns.items()}
    lengths = {name: len(values) for name, values in given.items()} | {
        "reports": len(groups)
    }
    if len(set(lengths.values())) > 1:
        raise ValueError(f"labels and reports must have the same length, got {lengths}")
    return [pd.Categorical(values) for values in given.values()]


def indicate_positive(y_true: pd.Categorical, positive_label: Any) -> NDArray[np.bool_]:
    """Return which labels are the positive one."""
    # By the categories as a series: a Categorical of Booleans holds no 1.
    values = pd.Series(y_true.categories)
    is_positive = values.isin(
        [find_positive_label(positive_label, y_true=values)]
    ).to_numpy(dtype=bool)
    positive: NDArray[np.bool_] = is_positive[y_true.codes]
    return positive


def _join_labels(
    groups: GroupReports, **columns: Any
) -> tuple[dict[str, pd.Index], NDArray[np.intp]]:
    """Return the values of the labels that are not None, and the code of the combination of each row."""
    given = {name: values for name, values in columns.items() if values is not None}
    labels = read_labels(groups, **given)
    values = dict(zip(given, (label.categories for label in labels), strict=True))
    if not labels:
        return values, np.zeros(len(groups), np.intp)
    codes = [label.codes.astype(np.intp) for label in labels]
    return values, np.ravel_multi_index(
        codes, [len(known) for known in values.values()]
    )


def invert_counts(
    groups: GroupReports, codes: NDArray[np.intp], n_combinations: int
) -> tuple[Numbers, Numbers]:
    """Estimate the number of rows of each group for each combination of labels."""
    counts = np.zeros((n_combinations, groups.domain.size))
    squares = np.zeros_like(counts)
    for rows, indicators in groups.indicators():
        for code in np.unique(codes[rows]):
            own = indicators[codes[rows] == code]
            counts[code] += own.sum(axis=0)
            squares[code] += (own * own).sum(axis=0)
    # The mean of an indicator is 0 or 1, its own square: the variance is the mean of the square minus the mean.
    return counts, np.maximum(squares - counts, 0)


def joint_distribution(
    y_true: ColumnLike | None,
    y_pred: ColumnLike | None,
    reports: TableLike,
    encoder: ReportTransformer,
    *,
    columns: ColumnName | list[ColumnName] | None = None,
    postprocess: Literal["none", "simplex"] = "none",
) -> pd.DataFrame:
    """Estimate the joint distribution of labels, predictions and true groups from reports of the groups.

    Parameters
    ----------
    y_true, y_pred : array-like or series of shape (n_samples,), dataframe of one column, or None
        True and predicted labels, of any number of classes, or other values with few levels; None leaves them out.
    reports : array-like or dataframe, as returned by the encoder's `transform`
        The privatised groups, a row for each label, matched by position. Of an encoder of one column, which reports in
        one column, a series or a 1-D array is enough.
    encoder : local transformer
        The fitted encoder that the reports come from, with ``strategy="split"`` or ``"joint"``, or of one column.
    columns : column name or list of column names, optional
        The columns whose combinations are the groups; by default all of the encoder. Columns reported separately are
        combined by the product of their inverses, as by `estimate_joint_counts`; jointly reported ones are summed.
    postprocess : {"none", "simplex"}, default="none"
        ``"none"``: unbiased, possibly negative. ``"simplex"``: for each combination of labels, the nearest counts that
        are not negative and add up to its number of rows.

    Returns
    -------
    pandas.DataFrame
        ``count, std_error, share``, indexed by ``y_true``, ``y_pred`` and the columns of the group. The counts of each
        combination of labels add up to the number of its rows; share is the count divided by the number of all rows.
        The standard error is that of the unbiased count over the encoder's noise, for given rows.

    Raises
    ------
    NotFittedError, TypeError, ValueError
        If the encoder is not fitted or not a local transformer of categories, the reports are of another one, lengths
        differ, a label is missing, there is no row, or a parameter is out of range.

    See Also
    --------
    debiased_fairness : Rates of groups, and their differences, from the same inversion.
    posterior_groups : The probability of each group given a report and labels.

    Notes
    -----
    **Privacy.** For the groups, this is post-processing of reports, without privacy cost. Labels and predictions are
    unprotected: their counts are in the result.

    This is the inverted distribution of [1]_ (section 5), for any oracle. The unbiased indicators of a report are
    adjusted to add up to 1, as the number of rows with the labels is known; this reduces the noise for unary encoding.

    References
    ----------
    .. [1] H. Mozannar, M. Ohannessian, N. Srebro (2020). Fair learning with private demographic data. ICML.
       arXiv:2002.11651

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import RandomizedResponseEncoder
    >>> people = pd.DataFrame({"sex": ["Female"] * 4_000 + ["Male"] * 6_000})
    >>> hired = [1] * 1_000 + [0] * 3_000 + [1] * 3_000 + [0] * 3_000
    >>> encoder = RandomizedResponseEncoder(1.0, categories={"sex": ["Female", "Male"]}, random_state=0)
    >>> reports = encoder.fit_transform(people)
    >>> joint_distribution(hired, None, reports, encoder).round({"count": 0, "std_error": 0, "share": 2})
                    count  std_error  share
    y_true sex
    0      Female  3006.0       74.0   0.30
           Male    2994.0       74.0   0.30
    1      Female  1098.0       61.0   0.11
           Male    2902.0       61.0   0.29
    """
    check_choice("postprocess", postprocess, ("none", "simplex"))
    groups = read_groups(reports, encoder, columns)
    labels, codes = _join_labels(groups, y_true=y_true, y_pred=y_pred)
    counts, variances = invert_counts(
        groups, codes, math.prod(map(len, labels.values()))
    )
    if postprocess == "simplex":
        counts = project_rows(counts)
    return pd.DataFrame(
        {
            "count": counts.ravel(),
            "std_error": np.sqrt(variances).ravel(),
            "share": counts.ravel() / len(groups),
        },
        index=_cross(labels, groups.domain.cells()),
    )


def project_rows(counts: Numbers) -> Numbers:
    return np.array([project_to_simplex(row, max(row.sum(), 0.0)) for row in counts])


def _cross(labels: dict[str, pd.Index], cells: pd.Index) -> pd.Index:
    """Build the index of all combinations of labels and groups, the groups fastest."""
    if not labels:
        return cells
    groups = [cell if isinstance(cell, tuple) else (cell,) for cell in cells]
    tuples = [(*pair, *group) for pair in product(*labels.values()) for group in groups]
    return pd.MultiIndex.from_tuples(tuples, names=[*labels, *cells.names])


def posterior_groups(
    y_true: ColumnLike | None,
    y_pred: ColumnLike | None,
    reports: TableLike,
    encoder: ReportTransformer,
    *,
    columns: ColumnName | list[ColumnName] | None = None,
) -> pd.DataFrame:
    """Estimate the probability of each group for each row, given its report and its labels.

    Parameters
    ----------
    y_true, y_pred : array-like or series of shape (n_samples,), dataframe of one column, or None
        True and predicted labels, or other values with few levels; None leaves them out.
    reports, encoder : dataframe or array-like, and fitted local transformer
        As for `joint_distribution`.
    columns : column name or list of column names, optional
        The columns whose combinations are the groups; by default all of the encoder.

    Returns
    -------
    pandas.DataFrame
        One row per report and one column per group. Each row adds up to 1.

    Raises
    ------
    NotFittedError, TypeError, ValueError
        As for `joint_distribution`.

    See Also
    --------
    joint_distribution : The prior, which is the shares of the groups among the rows of equal labels.

    Notes
    -----
    **Privacy.** For the groups, this is post-processing of reports, without privacy cost. The labels are unprotected.

    By Bayes' rule: the prior is `joint_distribution` with ``postprocess="simplex"``, the likelihood that of the
    encoder. A posterior is closer to the prior than the truth is: rates of groups that are weighted by it differ too
    little. For such rates, use `debiased_fairness`.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import RandomizedResponseEncoder
    >>> people = pd.DataFrame({"sex": ["Female"] * 4_000 + ["Male"] * 6_000})
    >>> hired = [1] * 1_000 + [0] * 3_000 + [1] * 3_000 + [0] * 3_000
    >>> encoder = RandomizedResponseEncoder(1.0, categories={"sex": ["Female", "Male"]}, random_state=0)
    >>> reports = encoder.fit_transform(people)
    >>> posterior_groups(hired, None, reports, encoder).groupby(hired).sum().round(0)
    sex  Female    Male
    0    3006.0  2994.0
    1    1098.0  2902.0
    """
    groups = read_groups(reports, encoder, columns)
    labels, codes = _join_labels(groups, y_true=y_true, y_pred=y_pred)
    n_combinations = math.prod(map(len, labels.values()))
    prior = project_rows(
        invert_counts(replace(groups, domain=groups.reported), codes, n_combinations)[0]
    )
    found = []
    for rows, likelihoods in groups.likelihoods():
        weights = likelihoods * prior[codes[rows]]
        found.append(groups.sum_to_groups(weights / weights.sum(axis=1, keepdims=True)))
    return pd.DataFrame(np.concatenate(found), columns=groups.domain.cells())
