"""What reports say of groups: their joint distribution with labels, and of each row.

The groups are known from privatised reports only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Literal

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from skdp.base import (
    ColumnLike,
    ColumnName,
    TableLike,
    check_choice,
    check_row_order,
    read_array,
)
from skdp.domain import Domain
from skdp.local import ReportTransformer, read_and_tally
from skdp.metrics._inputs import (
    find_positive_label,
    is_in_products,
    read_classes,
    read_column,
    read_privileged,
)
from skdp.metrics._intervals import Numbers
from skdp.oracles import FrequencyOracle, project_to_simplex
from skdp.tables import is_frame

# The numbers of a block of rows and cells: 8 MB.
_BLOCK_SIZE = 1 << 20

# Consecutive rows, and a number for each of them and each cell.
Block = tuple[slice, Numbers]


@dataclass(frozen=True)
class GroupReports:
    """The reports of the columns that make up the group of each row."""

    # The cells of the groups, and those that the reports tell apart.
    domain: Domain
    reported: Domain
    oracles: tuple[FrequencyOracle, ...]
    parts: tuple[NDArray[Any], ...]

    def __len__(self) -> int:
        return len(self.parts[0])

    def blocks(self) -> Iterator[slice]:
        """Yield slices of rows whose cells fit into a block."""
        step = max(1, _BLOCK_SIZE // self.reported.size)
        for start in range(0, len(self), step):
            yield slice(start, start + step)

    def indicators(self) -> Iterator[Block]:
        """Turn reports into unbiased indicators of the group."""
        for rows in self.blocks():
            factors = []
            for oracle, part in zip(self.oracles, self.parts, strict=True):
                factors.append(unbiased_indicators(oracle, part[rows]))
            yield rows, self.sum_to_groups(_outer_product(factors))

    def likelihoods(self) -> Iterator[Block]:
        """Return the likelihood of each report under each reported cell."""
        # Up to a factor.
        for rows in self.blocks():
            factors = []
            for oracle, part in zip(self.oracles, self.parts, strict=True):
                # A report is as likely under all values that it supports, and so it
                # is under all others.
                ratio = float(oracle.support_ratio)
                factors.append(np.where(oracle.supports(part[rows]), ratio, 1.0))
            yield rows, _outer_product(factors)

    def sum_to_groups(self, cells: Numbers) -> Numbers:
        """Add up the reported cells of each group."""
        names = self.reported.columns
        if names == self.domain.columns:
            return cells
        # An axis for the rows, then those of the group, in its order, then the others.
        axes = [1 + names.index(name) for name in self.domain.columns]
        table = cells.reshape(-1, *self.reported.sizes)
        table = np.moveaxis(table, axes, range(1, 1 + len(axes)))
        other_axes = tuple(range(1 + len(axes), table.ndim))
        groups: Numbers = table.sum(axis=other_axes)
        return groups.reshape(len(cells), -1)


def _outer_product(factors: list[Numbers]) -> Numbers:
    """Multiply vectors of each row; the entries of the last one are the fastest."""
    joint = factors[0]
    for factor in factors[1:]:
        joint = joint[:, :, np.newaxis] * factor[:, np.newaxis, :]
        joint = joint.reshape(len(factor), -1)
    return joint


def unbiased_indicators(oracle: FrequencyOracle, reports: NDArray[Any]) -> Numbers:
    """Return unbiased indicators of the values that add up to 1 in each row."""
    # The nearest ones to those of the oracle.
    # That a row has exactly one value is known, and lowers the noise.
    indicators: Numbers = oracle.unbiased(reports)
    indicators += (1 - indicators.sum(axis=1, keepdims=True)) / oracle.k
    return indicators


def read_groups(reports: Any, encoder: Any, columns: Any = None) -> GroupReports:
    """Read the reports of the columns that make up the group."""
    columns = check_encoder(encoder, columns)
    protocol = encoder.protocol_
    reports = _as_table(reports, protocol.report_columns)
    arrays, _ = read_and_tally(reports, encoder)
    parts = tuple(protocol.parts(arrays))
    oracles = tuple(protocol.oracles)
    domain = protocol.domain.select(columns)
    # One oracle reports all columns together: cells are summed to groups afterwards.
    if len(oracles) == 1:
        return GroupReports(domain, protocol.domain, oracles, parts)
    # Of columns that are reported one by one, only those of the group are read.
    places = [protocol.domain.columns.index(name) for name in columns]
    oracles = tuple(oracles[place] for place in places)
    parts = tuple(parts[place] for place in places)
    return GroupReports(domain, domain, oracles, parts)


def _as_table(reports: Any, names: list[Any]) -> Any:
    """Make a table of one column of a series or 1-D array."""
    # As fairlearn takes sensitive features: ``reports["sex"]``. A series without a name
    # is matched by position. Anything else stays as it is.
    if is_frame(reports):
        return reports
    series = nw.from_native(reports, pass_through=True, allow_series=True)
    table: Any
    if isinstance(reports, pd.Series):
        table = reports.to_frame(names[0] if reports.name is None else reports.name)
    elif isinstance(series, nw.Series):
        table = series.alias(series.name or str(names[0])).to_frame().to_native()
    else:
        array = read_array(reports, "reports")
        if array.ndim != 1:
            return reports
        table = array[:, np.newaxis]
    if len(names) > 1:
        raise ValueError(
            f"the reports of this encoder have the columns {names}, got a single column"
        )
    return table


def check_encoder(encoder: Any, columns: Any = None) -> list[Any]:
    """Return the columns that make up the group.

    Encoders whose reports say nothing of the group of each row are refused.
    """
    if isinstance(encoder, ReportTransformer):
        check_is_fitted(encoder)
    protocol: Any = getattr(encoder, "protocol_", None)
    if isinstance(encoder, type) or getattr(protocol, "strategy", None) is None:
        kind = encoder if isinstance(encoder, type) else type(encoder)
        raise TypeError(
            "encoder must be a fitted local transformer, as RandomizedResponseEncoder "
            f"is; got {kind.__name__}"
        )
    domain = protocol.domain
    columns = _check_columns(columns, domain)
    if protocol.strategy == "sample" and len(domain.columns) > 1:
        raise ValueError(
            "under strategy='sample' a row reports one of its columns only; use "
            "'split' or 'joint'"
        )
    return columns


def _check_columns(columns: Any, domain: Domain) -> list[Any]:
    if columns is None:
        return list(domain.columns)
    names = list(columns) if isinstance(columns, list) else [columns]
    is_declared = all(name in domain.columns for name in names)
    if not names or not is_declared or len(set(names)) < len(names):
        raise ValueError(
            f"columns must be distinct ones of {list(domain.columns)}, got {names}"
        )
    return names


def cells_of(domain: Domain) -> list[tuple[Any, ...]]:
    """List the cells of a domain as tuples."""
    return list(product(*(domain[name].labels for name in domain.columns)))


def find_privileged(privileged: Any, domain: Domain) -> NDArray[np.bool_]:
    """Return which cells of the domain are privileged."""
    products = read_privileged(privileged, domain.columns)
    for values_of_columns in products:
        for name, values in zip(domain.columns, values_of_columns, strict=True):
            labels = list(domain[name].labels)
            if not all(value in labels for value in values):
                raise ValueError(
                    f"privileged holds a value that column {name!r} does not declare; "
                    f"it declares {labels}"
                )
    is_privileged = is_in_products(cells_of(domain), products)
    if is_privileged.all() or not is_privileged.any():
        raise ValueError(
            "privileged must name some of the declared groups, and not all of them"
        )
    return is_privileged


def indicate_privileged_rows(
    groups: GroupReports, is_privileged: NDArray[np.bool_]
) -> Numbers:
    """Turn reports into unbiased indicators of the privileged rows."""
    indicators = []
    for _, cells in groups.indicators():
        indicators.append(cells[:, is_privileged].sum(axis=1))
    return np.concatenate(indicators)


def read_labels(
    groups: GroupReports, reports: Any, **columns: Any
) -> list[pd.Categorical]:
    """Read columns of labels of the rows of the reports."""
    check_row_order(**columns, reports=reports)
    labels = []
    lengths = {"reports": len(groups)}
    for name, values in columns.items():
        # y_pred may be scores with few levels: a joint distribution counts each level.
        read = read_classes if name == "y_true" else read_column
        column = read(values, name)
        lengths[name] = len(column)
        labels.append(pd.Categorical(column))
    if len(set(lengths.values())) > 1:
        raise ValueError(f"labels and reports must have the same length, got {lengths}")
    return labels


def indicate_positive(y_true: pd.Categorical, positive_label: Any) -> NDArray[np.bool_]:
    """Return which labels are the positive one."""
    # By the categories as a series: a Categorical of Booleans holds no 1.
    values = pd.Series(y_true.categories)
    positive_label = find_positive_label(positive_label, y_true=values)
    is_positive = values.isin([positive_label]).to_numpy(dtype=bool)
    positive: NDArray[np.bool_] = is_positive[y_true.codes]
    return positive


def _join_labels(
    groups: GroupReports, reports: Any, y_true: Any, y_pred: Any
) -> tuple[dict[str, pd.Index], NDArray[np.intp]]:
    """Return the values of labels, and the code of the combination of each row."""
    columns = {"y_true": y_true, "y_pred": y_pred}
    for name in ("y_true", "y_pred"):
        if columns[name] is None:
            del columns[name]
    labels = read_labels(groups, reports, **columns)
    values = {}
    codes = np.zeros(len(groups), np.intp)
    for name, label in zip(columns, labels, strict=True):
        values[name] = label.categories
        codes = codes * len(label.categories) + label.codes
    return values, codes


def invert_counts(
    groups: GroupReports, codes: NDArray[np.intp], n_combinations: int
) -> tuple[Numbers, Numbers]:
    """Estimate the rows of each group, and the variance, by combination of labels."""
    counts = np.zeros((n_combinations, groups.domain.size))
    squares = np.zeros_like(counts)
    for rows, indicators in groups.indicators():
        for code in np.unique(codes[rows]):
            of_code = indicators[codes[rows] == code]
            counts[code] += of_code.sum(axis=0)
            squares[code] += (of_code**2).sum(axis=0)
    # The mean of an indicator is 0 or 1, its own square: the variance is the mean of the
    # square minus the mean.
    return counts, np.maximum(squares - counts, 0)


def project_rows(counts: Numbers) -> Numbers:
    """Return the nearest counts of at least 0 with the same sum in each row."""
    return np.array([project_to_simplex(row, max(row.sum(), 0.0)) for row in counts])


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
        True and predicted labels, of any number of classes; y_pred may be scores rounded to a few levels. None leaves
        them out.
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
        differ, two inputs have the same row labels in different orders, a label is missing, there is no row, or a
        parameter is out of range.

    See Also
    --------
    debiased_fairness : Rates of groups, and their differences, from the same inversion.

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
    labels, codes = _join_labels(groups, reports, y_true, y_pred)
    n_combinations = math.prod(map(len, labels.values()))
    counts, variances = invert_counts(groups, codes, n_combinations)
    if postprocess == "simplex":
        counts = project_rows(counts)
    table = {
        "count": counts.ravel(),
        "std_error": np.sqrt(variances).ravel(),
        "share": counts.ravel() / len(groups),
    }
    return pd.DataFrame(table, index=_cross(labels, groups.domain.cells()))


def _cross(labels: dict[str, pd.Index], cells: pd.Index) -> pd.Index:
    """Build the index of all combinations of labels and groups, the groups fastest."""
    if not labels:
        return cells
    tuples = []
    for *values, cell in product(*labels.values(), cells):
        group = cell if isinstance(cell, tuple) else (cell,)
        tuples.append((*values, *group))
    return pd.MultiIndex.from_tuples(tuples, names=[*labels, *cells.names])


def group_posteriors(
    y_true: ColumnLike,
    reports: TableLike,
    encoder: ReportTransformer,
    columns: ColumnName | list[ColumnName] | None,
) -> Numbers:
    """Estimate the probability of each group for each row, given its report and its label: (n_rows, n_groups)."""
    # By Bayes' rule: the prior is the shares of the groups among the rows of the label.
    # A posterior is closer to the prior than the truth is.
    groups = read_groups(reports, encoder, columns)
    labels, codes = _join_labels(groups, reports, y_true, None)
    n_labels = math.prod(map(len, labels.values()))
    # The likelihood of a report depends on its cell, not on its group alone.
    by_cell = replace(groups, domain=groups.reported)
    counts, _ = invert_counts(by_cell, codes, n_labels)
    prior = project_rows(counts)
    posteriors = []
    for rows, likelihoods in groups.likelihoods():
        # Bayes' rule by the reported cells, whose sums are the groups.
        weights = likelihoods * prior[codes[rows]]
        weights /= weights.sum(axis=1, keepdims=True)
        posteriors.append(groups.sum_to_groups(weights))
    return np.concatenate(posteriors)
