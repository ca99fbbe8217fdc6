"""The joint distribution of labels, predictions and groups that are known from reports only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.metrics.fairness import read_column
from skdp.metrics.private_groups._reports import GroupReports, read_groups
from skdp.oracles import project_to_simplex


def read_labels(groups: GroupReports, **columns: Any) -> list[pd.Categorical]:
    """Read the labels and predictions of reports."""
    given = {name: read_column(values, name) for name, values in columns.items()}
    lengths = {name: len(values) for name, values in given.items()} | {"reports": len(groups)}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"labels and reports must have the same length, got {lengths}")
    if not len(groups):
        raise ValueError("reports has no rows")
    return [pd.Categorical(values) for values in given.values()]


def leave_out_none(**columns: Any) -> dict[str, Any]:
    """Return the labels that were given."""
    return {name: values for name, values in columns.items() if values is not None}


def join_labels(labels: Sequence[pd.Categorical], n: int) -> tuple[NDArray[np.intp], int]:
    """Code the combinations of labels."""
    shape = [len(label.categories) for label in labels]
    if not labels:
        return np.zeros(n, np.intp), 1
    codes = np.ravel_multi_index([label.codes.astype(np.intp) for label in labels], shape)
    return codes, math.prod(shape)


def invert_counts(
    groups: GroupReports, codes: NDArray[np.intp], n_combinations: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
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
    y_true: Any, y_pred: Any, reports: Any, encoder: Any, *, columns: Any = None, postprocess: str = "none"
) -> pd.DataFrame:
    """Estimate the joint distribution of labels, predictions and true groups from reports of the groups.

    Parameters
    ----------
    y_true : array-like or series of shape (n_samples,), dataframe of one column, or None
        True labels, of any number of classes; None leaves them out.
    y_pred : array-like or series of shape (n_samples,), dataframe of one column, or None
        Predicted labels, or other values with few levels; None leaves them out.
    reports : array-like or dataframe, as returned by the encoder's `transform`
        The privatised groups, a row for each label, matched by position.
    encoder : local transformer
        The fitted encoder that the reports come from, with ``strategy="split"`` or ``"joint"``, or of one column.
    columns : column name or list of column names, optional
        The columns whose combinations are the groups; by default all of the encoder. Columns that were reported
        separately are combined by the product of their inverses, as by `estimate_joint_counts`; those that were
        reported jointly are summed over the other columns.
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
    NotFittedError
        If the encoder is not fitted.
    TypeError
        If it is not a local transformer of categories.
    ValueError
        If lengths differ, a label is missing, there is no row, the reports are of another encoder, or a parameter is
        out of range.

    See Also
    --------
    debiased_fairness : Rates of groups, and their differences, from the same inversion.
    posterior_groups : The probability of each group given a report and labels.

    Notes
    -----
    **Privacy.** For the groups, this is post-processing of reports, without privacy cost. Labels and predictions are
    unprotected: their counts are in the result.

    This is the inverted distribution of [1]_ (section 5), for any oracle. The unbiased indicators of a report are
    adjusted to add up to 1, which has no effect for randomised response and subset selection and reduces the noise for
    unary encoding: the number of rows with the labels is known.

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
    if postprocess not in ("none", "simplex"):
        raise ValueError(f"postprocess must be 'none' or 'simplex', got {postprocess!r}")
    groups = read_groups(reports, encoder, columns)
    given = leave_out_none(y_true=y_true, y_pred=y_pred)
    labels = read_labels(groups, **given)
    codes, n_combinations = join_labels(labels, len(groups))
    counts, variances = invert_counts(groups, codes, n_combinations)
    if postprocess == "simplex":
        counts = project_rows(counts)
    cells = groups.domain.cells()
    return pd.DataFrame(
        {"count": counts.ravel(), "std_error": np.sqrt(variances).ravel(), "share": counts.ravel() / len(groups)},
        index=_cross([label.categories for label in labels], list(given), cells),
    )


def project_rows(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Postprocess the counts of each combination of labels."""
    return np.array([project_to_simplex(row, max(row.sum(), 0.0)) for row in counts])


def _cross(labels: Sequence[pd.Index], names: Sequence[str], cells: pd.Index) -> pd.Index:
    """Build the index of all combinations of labels and groups, the groups fastest."""
    if not labels:
        return cells
    groups = [cell if isinstance(cell, tuple) else (cell,) for cell in cells]
    tuples = [(*pair, *group) for pair in product(*labels) for group in groups]
    return pd.MultiIndex.from_tuples(tuples, names=[*names, *cells.names])
