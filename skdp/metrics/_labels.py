"""Reading of columns, labels and groups for the fairness metrics."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from numbers import Real
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from skdp._arrays import (
    ColumnLike,
    ColumnName,
    Floats,
    Indices,
    Label,
    Mask,
    Privileged,
    TableLike,
)
from skdp.base import check_column_name, to_array, to_single_column
from skdp.local import check_sample_weight
from skdp.randomness import check_type
from skdp.tables import ColumnError, call_safely, is_frame, is_missing, wrap_table

# Combinations of values of the sensitive columns; None represents a missing value.
CellLabels = list[tuple[Any, ...]]


class EmptyGroupError(ValueError):
    """A group is estimated to have no rows with a label."""


def parse_column(values: ColumnLike, name: str, *, missing: bool = False) -> pd.Series:
    """Convert a column of any library to a Series; `missing` allows missing values."""
    (column,) = to_single_column(values, name).columns
    try:
        return call_safely(_convert_to_series, column, missing)
    except ColumnError as error:
        raise ValueError(f"`{name}` {error}.") from None


def _convert_to_series(values: ColumnLike, missing: bool) -> pd.Series:
    """Convert a column to a Series with a default index; raise an error for values without a hash.

    Missing values are errors unless `missing` is True.
    """
    if isinstance(values, pd.Series):
        column = values.reset_index(drop=True)
    else:
        series = nw.from_native(values, pass_through=True, allow_series=True)
        column = pd.Series(series.to_numpy() if series is not values else values)
    if not missing and column.isna().any():
        raise ColumnError("has missing values")
    column = column.infer_objects()
    if column.dtype == object:
        if not all(isinstance(value, Hashable) for value in column):
            raise ColumnError("must have single values, got lists")
        # Other values without a hash raise here, where `call_safely` replaces the error,
        # whose message might contain a value.
        pd.Categorical(column)
    return column


def parse_classes(values: ColumnLike, name: str) -> pd.Series:
    """Read a column of class labels; raise an error for numbers with fractions."""
    column = parse_column(values, name)
    check_classes(column, name)
    return column


def check_classes(column: pd.Series, name: str) -> None:
    """Raise an error if a column of class labels has numbers with fractions."""
    # scikit-learn's type_of_target also detects fractions, but warns if there are many
    # classes.
    if column.dtype.kind not in "biu" and any(map(_is_fraction, column.unique())):
        raise ValueError(
            f"`{name}` must be class labels, got numbers with fractions, such as "
            "probabilities. Apply a threshold first, for example `score >= 0.5`."
        )


def _is_fraction(value: object) -> bool:
    """Return True for a number that is not an integer."""
    return isinstance(value, Real) and not float(value).is_integer()


def parse_columns(features: ColumnLike | TableLike, name: str) -> dict[Any, pd.Series]:
    """Convert sensitive features to Series by column name; a column without a name is None."""
    if not is_frame(features):
        if to_array(features, name).ndim < 2:
            # The name of an unnamed polars series is "".
            label = getattr(features, "name", None)
            column = parse_column(features, name, missing=True)
            return {None if label == "" else label: column}
        features = np.array(features, dtype=object)
    table = wrap_table(features)
    if not table.names:
        raise ValueError(f"`{name}` must have at least one column, got none.")
    columns = {}
    for column_name, column in zip(table.names, table.columns, strict=True):
        label = name if len(table.names) == 1 else f"{name}[{column_name!r}]"
        columns[column_name] = parse_column(column, label, missing=True)
    return columns


def list_column_names(
    parameter: str, columns: ColumnName | list[ColumnName]
) -> list[Any]:
    """Return the name of a column, or a list of names, as a list; raise an error for a series or an array."""
    names = list(columns) if isinstance(columns, list) else [columns]
    for name in names:
        check_column_name(parameter, name)
    return names


def list_columns(
    columns: ColumnName | list[ColumnName] | None, declared: list[Any]
) -> list[Any]:
    """Return `columns` as a list, by default all declared columns; raise an error for other names."""
    names = list_column_names("columns", declared if columns is None else columns)
    is_known = all(name in declared for name in names)
    if not names or not is_known or len({*names}) < len(names):
        raise ValueError(
            f"`columns` must be distinct names from {declared}, got {names}."
        )
    return names


def parse_outcomes(
    y_true: ColumnLike | None, y_pred: ColumnLike | None, n_rows: int
) -> dict[str, pd.Series]:
    """Read the true and predicted outcomes, and check that sensitive features have as many rows, `n_rows`."""
    if y_true is None:
        raise ValueError(
            "`y_true` must be one column, got None. For selection rates without true "
            "labels, pass the predictions twice."
        )
    columns = {"y_true": y_true, "y_pred": y_pred}
    return parse_rows(columns, sensitive_features=n_rows)


def parse_rows(columns: Mapping[str, Any], **lengths: int) -> dict[str, pd.Series]:
    """Convert columns to Series; raise an error unless these and other inputs, with the `lengths`, are equally long."""
    parsed = {name: parse_column(values, name) for name, values in columns.items()}
    # Rows are matched by position.
    lengths = {name: len(values) for name, values in parsed.items()} | lengths
    if len(set(lengths.values())) > 1:
        raise ValueError(
            f"`{'`, `'.join(lengths)}` must have the same length, got "
            f"{', '.join(map(str, lengths.values()))}."
        )
    return parsed


def list_positive_labels(
    positive_label: Label | None, outcomes: dict[str, pd.Series]
) -> list[Any]:
    """Return the positive label, or all labels if there are more than two and none is declared as positive."""
    for name, column in outcomes.items():
        check_classes(column, name)
    true, predicted = (list(column.unique()) for column in outcomes.values())
    labels = pd.Categorical([*true, *predicted]).categories
    # Labels such as 1 and "1", or ">50K" and ">50K.", do not match. Labels are values of
    # the data, so messages do not contain them.
    if len(labels) > 2 and not {*true} & {*predicted}:
        raise ValueError(
            "`y_true` and `y_pred` must have a label in common, got none. Convert both "
            "to the same labels."
        )
    if positive_label is None and len(labels) > 2:
        # Each class has its own table. Many whole numbers may be ages.
        limit = 20 if labels.dtype.kind in "iuf" else 100
        if len(labels) > limit:
            raise ValueError(
                f"`y_true` and `y_pred` must have at most {limit} labels, got "
                f"{len(labels)}. Compare numbers with a threshold, such as y >= 1000, "
                "pass classes as text, or set positive_label."
            )
        return list(labels)
    label = find_positive_label(positive_label, **outcomes)
    if label not in {*true, *predicted}:
        raise ValueError(
            "`positive_label` must be a label of `y_true` or `y_pred`, got another "
            "value."
        )
    return [label]


def find_positive_label(positive_label: Label | None, **columns: pd.Series) -> Any:
    """Return the positive label: 1 by default, if all labels are 0 and 1 or booleans.

    `columns` are the columns of labels by their parameter.
    """
    check_type("positive_label", positive_label, Hashable, "a label")
    if positive_label is not None:
        return positive_label
    for name, labels in columns.items():
        if not labels.isin([0, 1]).all():
            raise ValueError(
                f"`positive_label` must be the favorable label, because {name} has other "
                "labels than 0 and 1, or False and True, got None. Pass it, such as "
                "positive_label='yes'."
            )
    return 1


def parse_weights(
    sample_weight: ColumnLike | None, rows: object, n_rows: int
) -> Floats:
    """Return the weight of each row, 1 by default; raise an error for invalid weights or another order of `rows`."""
    if sample_weight is None:
        return np.ones(n_rows)
    return check_sample_weight(sample_weight, rows, n_rows)


def code_cells(columns: Iterable[pd.Series]) -> tuple[CellLabels, Indices]:
    """Return the occurring combinations of values as tuples, and the index of the combination of each row."""
    # Only occurring combinations become groups, because several columns have many more.
    frame = pd.DataFrame(dict(enumerate(columns)))
    groups = frame.groupby(list(frame), dropna=False, observed=True)
    cells = []
    for values in groups.size().index.to_frame().itertuples(index=False, name=None):
        cells.append(tuple(None if is_missing(value) else value for value in values))
    return cells, np.asarray(groups.ngroup(), np.intp)


def list_privileged(privileged: Privileged, names: Sequence[Any]) -> list[list[Any]]:
    """Return the privileged values of each column of `names`; raise an error for other keys."""
    if not isinstance(privileged, Mapping):
        if len(names) > 1:
            raise ValueError(
                f"`privileged` must be a mapping with the keys {list(names)} for "
                f"several columns, got {type(privileged).__name__}."
            )
        return [_list_privileged_values(privileged)]
    if set(privileged) != set(names):
        raise ValueError(
            f"`privileged` must have the keys {list(names)}, got {list(privileged)}. "
            "Name the column, or pass its privileged values."
        )
    return [_list_privileged_values(privileged[name]) for name in names]


def _list_privileged_values(values: object) -> list[Any]:
    """Return one value or a collection of values as a list, with None for missing."""
    types = (list, tuple, set, frozenset, np.ndarray, pd.Index, pd.Series)
    listed = list(values) if isinstance(values, types) else [values]
    for value in listed:
        if callable(value) or not isinstance(value, Hashable):
            kind = "function" if callable(value) else type(value).__name__
            raise TypeError(
                "`privileged` must be a value, a list of values or a mapping, got a "
                f"{kind}. Pass the privileged values."
            )
    # nan, None and NA are the same missing value.
    return [None if is_missing(value) else value for value in listed]


def find_privileged(
    privileged: Privileged, names: Sequence[Any], cells: CellLabels
) -> Mask:
    """Return a mask of the combinations of values that are privileged in all columns; shape (n_cells,)."""
    values = list_privileged(privileged, names)
    is_privileged = np.ones(len(cells), bool)
    for column, listed in enumerate(values):
        is_privileged &= [cell[column] in listed for cell in cells]
    check_both_groups(is_privileged, "sensitive_features")
    return is_privileged


def check_both_groups(is_privileged: Mask, name: str) -> None:
    """Raise an error unless there are both privileged and unprivileged values."""
    if not is_privileged.any():
        raise ValueError(
            f"`{name}` must have a row with a privileged value, in the same spelling and "
            "case, got none."
        )
    if is_privileged.all():
        raise ValueError(
            f"`{name}` must have a row with an unprivileged value, got none."
        )
