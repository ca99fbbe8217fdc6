"""Privatized groups: unbiased indicators, and joint distributions."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from skdp._arrays import (
    ColumnLike,
    ColumnName,
    Floats,
    Indices,
    Mask,
    Privileged,
    TableLike,
)
from skdp.base import check_row_order, to_array
from skdp.domain import Domain
from skdp.local import OracleEncoder, ReportTransformer
from skdp.metrics._labels import (
    CellLabels,
    check_classes,
    find_privileged,
    list_columns,
    list_privileged,
    parse_rows,
    parse_weights,
)
from skdp.oracles import project_to_simplex
from skdp.survey import ReportDesign
from skdp.tables import is_frame, wrap_table

# Attributes of a table of estimated counts: the columns whose values are from reports, and
# True if counts are sums of weights.
REPORTED, WEIGHTED = "reported_columns", "is_weighted"


def debias_groups(
    reports: ColumnLike | TableLike,
    encoder: Any,
    columns: ColumnName | list[ColumnName] | None = None,
) -> tuple[Domain, Floats]:
    """Return the domain of the groups and an unbiased indicator of each; shape (n_rows, n_groups).

    An indicator is a number whose mean over the noise of the report is 1 if the true value of the row is in the group,
    and 0 otherwise. Groups are the combinations of the values of `columns`, in the order of `list_cells`.
    """
    if isinstance(encoder, ReportDesign):
        list_columns(columns, [encoder.column])
        # Only the warning is used: proportions outside [0, 1] mean a wrong design.
        encoder.estimate_frequencies(reports)
        domain = Domain({encoder.column: encoder.values})
        return domain, _multiply_blocks([_to_matrix(encoder.debias(reports))])
    names = check_encoder(encoder, columns)
    protocol = encoder.protocol_
    reports = _convert_to_table(reports, protocol.report_columns)
    domain = protocol.domain.select(names)
    # Only the warning is used: counts outside [0, n] mean that the reports do not fit.
    encoder.estimate_counts(reports, columns=names)
    debiased = _to_matrix(encoder.debias(reports, columns=names))
    # Columns that are reported together have one block of indicators of combinations,
    # columns that are reported separately have a block of indicators each.
    blocks = [debiased]
    if protocol.strategy == "split":
        blocks = np.split(debiased, np.cumsum(domain.sizes)[:-1], axis=1)
    return domain, _multiply_blocks(blocks)


def _to_matrix(debiased: TableLike) -> Floats:
    """Return the columns of a table or an array as an array."""
    return np.column_stack([*map(np.asarray, wrap_table(debiased).columns)])


def _multiply_blocks(blocks: list[Floats]) -> Floats:
    """Multiply the unbiased indicators of columns with independent noise; shape (n_rows, n_groups)."""
    indicators = np.ones((len(blocks[0]), 1))
    for block in blocks:
        # A row has exactly one value, so its true indicators add up to 1. The nearest
        # indicators with this sum have less noise and are unbiased.
        block = block + (1 - block.sum(axis=1, keepdims=True)) / block.shape[1]
        # Columns have independent noise, so the product of indicators is unbiased.
        indicators = indicators[:, :, np.newaxis] * block[:, np.newaxis, :]
        indicators = indicators.reshape(len(block), -1)
    return indicators


def _convert_to_table(reports: ColumnLike | TableLike, names: list[Any]) -> Any:
    """Convert a series or 1-D array of reports to a table with one column."""
    # fairlearn takes sensitive features as a series, ``reports["sex"]``.
    if is_frame(reports):
        return reports
    table: Any
    if isinstance(reports, pd.Series):
        table = reports.to_frame(names[0] if reports.name is None else reports.name)
    else:
        table = to_array(reports, "reports")
        if table.ndim != 1:
            return reports
        table = table[:, np.newaxis]
    if len(names) > 1:
        raise ValueError(
            f"`reports` must have the columns {names} of the encoder, got one column."
        )
    return table


def check_encoder(
    encoder: object, columns: ColumnName | list[ColumnName] | None = None
) -> list[Any]:
    """Return the names of the columns of the groups; raise an error if reports do not contain all.

    With strategy="sample", a row reports one of several columns, and not its group.
    """
    if not isinstance(encoder, OracleEncoder):
        name = getattr(encoder, "__name__", type(encoder).__name__)
        raise TypeError(
            "`encoder` must be a fitted encoder of categories, such as "
            f"RandomizedResponseEncoder, got {name}. CSV files and polars tables keep no "
            "protocol: pass the encoder, or a protocol saved with `encoder.save`."
        )
    check_is_fitted(encoder)
    protocol: Any = encoder.protocol_
    declared = list(protocol.domain.columns)
    names = list_columns(columns, declared)
    if protocol.strategy == "sample" and len(declared) > 1:
        raise ValueError(
            "`encoder` must have strategy='split' or 'joint', got 'sample', with which "
            "a row reports one of its columns only."
        )
    return names


def list_cells(domain: Domain) -> CellLabels:
    """List the combinations of the declared values of all columns."""
    return list(itertools.product(*(domain[name].labels for name in domain.columns)))


def find_declared_groups(privileged: Privileged, domain: Domain) -> Mask:
    """Return a mask of the privileged groups; raise an error for values that are not declared."""
    names = list(domain.columns)
    # Without this check, a misspelled value among several would be ignored.
    for name, values in zip(names, list_privileged(privileged, names), strict=True):
        labels = list(domain[name].labels)
        if not all(value in labels for value in values):
            raise ValueError(
                f"`privileged` must contain only declared values of column {name!r}, "
                f"{labels}, got another value."
            )
    return find_privileged(privileged, names, list_cells(domain))


def encode_labels(
    reports: object, n_rows: int, **columns: ColumnLike
) -> list[pd.Categorical]:
    """Encode `y_true` and `y_pred` as categories; raise an error if they do not match the reports."""
    check_row_order(**columns, reports=reports)
    parsed = parse_rows(columns, reports=n_rows)
    # y_pred may be scores that are rounded to a few levels.
    if "y_true" in parsed:
        check_classes(parsed["y_true"], "y_true")
    return list(map(pd.Categorical, parsed.values()))


def sum_indicators(
    indicators: Floats, codes: Indices, n_codes: int, weights: Floats
) -> tuple[Floats, Floats]:
    """Estimate the weight of the rows of each code and group, and the variances of the noise.

    `indicators` are unbiased indicators of the groups, (n_rows, n_groups), `codes` the code and `weights` the weight of
    each row. The results have the shape (n_codes, n_groups).
    """
    counts = np.zeros((n_codes, indicators.shape[1]))
    variances = np.zeros_like(counts)
    for code in range(n_codes):
        rows = codes == code
        block, weight = indicators[rows], weights[rows]
        counts[code] = weight @ block
        # A true indicator equals its square, so the mean of ``indicator**2 - indicator``
        # is the variance of the noise. Its estimate may be negative.
        variances[code] = weight**2 @ (block**2 - block)
    return counts, np.maximum(variances, 0)


def project_rows(counts: Floats) -> Floats:
    """Return the nearest nonnegative counts with the same sum in each row (Euclidean)."""
    return np.array([project_to_simplex(row, max(row.sum(), 0.0)) for row in counts])


def joint_distribution(
    y_true: ColumnLike | None,
    y_pred: ColumnLike | None,
    reports: TableLike,
    encoder: ReportTransformer | ReportDesign,
    *,
    columns: ColumnName | list[ColumnName] | None = None,
    sample_weight: ColumnLike | None = None,
) -> pd.DataFrame:
    """Estimate the joint distribution of labels, predictions and privatized groups.

    Parameters
    ----------
    y_true, y_pred : array-like or series of shape (n_samples,), dataframe of one column, or None
        True and predicted labels, of any number of classes; y_pred may be scores that
        are rounded to a few levels. If None, the distribution is estimated without them.
    reports : array-like or dataframe, as returned by the encoder's `transform`
        Privatized group of each row, matched by position. A series or 1-D array is
        accepted if the encoder has one output column.
    encoder : local transformer or ReportDesign
        Fitted encoder of the reports, with ``strategy="split"`` or ``"joint"``, or of
        one column; or the design of a questionnaire or of `PerHalf`, whose columns are in
        `reports`.
    columns : column name or list of column names, default=None
        Columns whose combinations are the groups. If None, all columns of the encoder.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row, whose sums are estimated in place of numbers of rows. If
        None, all weights are 1.

    Returns
    -------
    pandas.DataFrame
        Columns ``count, std_error, share``, indexed by ``y_true``, ``y_pred`` and the
        columns of the groups. Counts are unbiased and may be negative. The counts of a
        combination of labels add up to its number of rows, or their weight; ``share`` is
        the proportion of all rows. The standard error of the unbiased count accounts for
        the noise of the reports only. The attributes
        (``attrs``) are for `scores_from_counts`: the columns of the reports.

    Raises
    ------
    NotFittedError, TypeError, ValueError
        If the encoder is not fitted or not a local transformer of categories, the
        reports are from another encoder, lengths differ, two inputs have the same row
        labels in different orders, a label is missing or a parameter is out of range.

    Warns
    -----
    UserWarning
        If the reports do not fit the encoder: the estimated number of rows of a group
        is more than six standard errors below 0 or above the number of rows.

    See Also
    --------
    debiased_fairness : Rates of groups and their differences.
    scores_from_counts : ROC curve and AUC from this table.

    Notes
    -----
    **Privacy.** For the groups, this is post-processing of reports, without privacy
    cost. Labels and predictions are not protected: the result contains their counts.

    The estimate inverts the transition matrix of the reports ([1]_, section 5).
    Columns that are reported separately are combined by the product of their inverses.

    References
    ----------
    .. [1] H. Mozannar, M. Ohannessian, N. Srebro (2020). Fair learning with private
       demographic data. ICML. arXiv:2002.11651

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import RandomizedResponseEncoder
    >>> from skdp.metrics import joint_distribution
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
    domain, indicators = debias_groups(reports, encoder, columns)
    label_columns = {}
    for name, values in {"y_true": y_true, "y_pred": y_pred}.items():
        if values is not None:
            label_columns[name] = values
    labels = encode_labels(reports, len(indicators), **label_columns)
    # Code of the combination of labels of each row; the last label varies fastest.
    codes = np.zeros(len(indicators), np.intp)
    n_codes = 1
    for label in labels:
        codes = codes * len(label.categories) + label.codes
        n_codes *= len(label.categories)
    weights = parse_weights(sample_weight, reports, len(indicators))
    counts, variances = sum_indicators(indicators, codes, n_codes, weights)
    table = {
        "count": counts.ravel(),
        "std_error": np.sqrt(variances).ravel(),
        "share": counts.ravel() / weights.sum(),
    }
    index = domain.cells()
    if labels:
        levels = [list(label.categories) for label in labels]
        levels += [list(domain[name].labels) for name in domain.columns]
        names = [*label_columns, *index.names]
        index = pd.MultiIndex.from_product(levels, names=names)
    result = pd.DataFrame(table, index=index)
    result.attrs[REPORTED] = list(domain.columns)
    result.attrs[WEIGHTED] = sample_weight is not None
    return result
