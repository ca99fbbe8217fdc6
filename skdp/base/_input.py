"""Input tables and targets: shape, names, row index and numbers."""

from __future__ import annotations

import itertools
import os
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from skdp._arrays import ColumnLike, Floats, TableLike
from skdp.base._messages import warn_at_caller
from skdp.privacy import PrivacyLeakWarning
from skdp.tables import (
    ColumnError,
    Table,
    check_readable,
    convert_frame,
    is_frame,
    is_missing,
    lazy_error,
    to_numbers,
    to_object_list,
    wrap_table,
)


def check_input(
    estimator: BaseEstimator, X: Any, *, reset: bool, min_rows: int = 1
) -> Table:
    """Check the shape and the column names of an input, and wrap it in a `Table`.

    The values are not read. With `reset`, the names and their number become fitted
    attributes of the estimator; otherwise they must be equal to these.
    """
    if is_frame(X):
        n_rows, n_columns = X.shape
        if n_columns == 0:
            raise ValueError(
                "X must have at least one column, got 0 feature(s). If X has the columns "
                "that `discover_domain` found, declare the values of a further column."
            )
        if n_rows < min_rows:
            raise ValueError(
                f"Found a table with {n_rows} sample(s) (rows); "
                f"at least {min_rows} is required."
            )
        validate_data(estimator, X, reset=reset, skip_check_array=True)
        return wrap_table(X)
    _check_not_masked(X)
    if hasattr(X, "to_table"):  # a Dataset of pyarrow
        raise lazy_error(X)
    has_dtypes = hasattr(X, "__array__")
    if not issparse(X):
        array = _to_rows(X)
        if isinstance(X, np.ndarray) or not has_dtypes:
            X = array
    array = validate_data(
        estimator,
        X,
        reset=reset,
        dtype=None,
        ensure_all_finite=False,
        ensure_min_samples=min_rows,
    )
    return replace(wrap_table(array), has_dtypes=has_dtypes)


def _check_not_masked(values: object) -> None:
    """Raise an error for a masked array, whose masked values scikit-learn would read."""
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(
            "Masked arrays are not supported, because their masked values would be "
            "read. Fill them first."
        )


def _to_rows(X: TableLike) -> NDArray[Any]:
    """Convert an array-like to an array of shape (n_rows, n_columns)."""
    if isinstance(X, str | os.PathLike):
        raise TypeError(
            f"X must be a table, got {type(X).__name__}. Read the file first."
        )
    # **Privacy.** Errors of scikit-learn would quote the values.
    array = to_array(X, "X")
    if array.dtype.kind == "c":
        raise ValueError("Complex data not supported")
    if array.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {array.ndim}D array instead. Reshape your data: "
            "X.reshape(-1, 1) for a single column, X.reshape(1, -1) for a single row, "
            "or X[['column']] of a dataframe."
        )
    return array


def to_array(values: object, name: str) -> NDArray[Any]:
    """Convert an array-like to an array; lists become arrays of dtype object. `name` is for errors."""
    # NumPy would choose the dtype of a list by all of its values, so that one record would
    # change how the others are read.
    _check_not_masked(values)
    check_readable(values)
    has_dtype = hasattr(values, "__array__")
    for dtype in (None, object) if has_dtype else (object,):
        try:
            return np.asarray(values, dtype)
        except Exception:
            continue
    raise ValueError(
        f"`{name}` must be an array-like whose rows have equal lengths, got "
        f"{type(values).__name__}."
    )


def check_names(
    estimator: BaseEstimator, table: Table, fitted: tuple[Any, ...]
) -> None:
    """Check that a table has the column names that the estimator was fitted on."""
    # scikit-learn compares names only if all are strings.
    is_array = isinstance(table.native, np.ndarray)
    is_compared = hasattr(estimator, "feature_names_in_") and not is_array
    are_strings = all(isinstance(name, str) for name in fitted)
    if (is_compared or not are_strings) and table.names != fitted:
        raise ValueError(
            f"X must have the columns of fit, {list(fitted)}, got {list(table.names)}."
        )


def apply_set_output(estimator: object, X_out: object) -> Any:
    """Convert the output of a transformer to the container chosen with `set_output`."""
    config = getattr(estimator, "_sklearn_output_config", {})
    output = config.get("transform", get_config()["transform_output"])
    return convert_frame(X_out, output)


def _get_level_names(table: TableLike) -> tuple[Any, ...]:
    """Return the names of the row index of a pandas object, without unnamed levels."""
    if not isinstance(table, pd.DataFrame | pd.Series):
        return ()
    return tuple(name for name in table.index.names if name is not None)


def check_index_levels(
    table: TableLike, protected: Sequence[Any], *, what: str = "X"
) -> None:
    """Check that no level of the row index has the name of a protected column; `what` names the table in errors.

    The row index is returned with the reports, so the level would reveal the column.
    """
    for name in _get_level_names(table):
        if name in protected:
            raise ValueError(
                f"The row index of {what} must not have the name of a protected "
                f"column, got level {name!r}, which would be released. Use "
                f"{what}.reset_index({name!r}, drop=True), and for groups in the index "
                f"reports.set_index({name!r}, drop=False)."
            )


def warn_of_levels(table: TableLike) -> None:
    """Warn that the named levels of a row index are released."""
    # An index without a name usually has row numbers.
    names = [repr(name) for name in _get_level_names(table)]
    if names:
        warn_at_caller(
            f"The row index is released without protection, with levels "
            f"{', '.join(names)}. Use reset_index(drop=True) if it identifies people",
            PrivacyLeakWarning,
            about="answers/not_covered",
        )


def check_row_order(**inputs: object) -> None:
    """Check that no two pandas inputs, given by name, have equal row labels in different orders."""
    for (name, X), (other_name, other) in itertools.combinations(inputs.items(), 2):
        check_same_order(X, other, other_name, name_of_X=name)


def check_same_order(
    X: TableLike, column: object, what: str, *, name_of_X: str = "X"
) -> None:
    """Check that the pandas object `column`, named `what`, does not have the row labels of X in another order."""
    # Rows are matched by position, so permuted labels would be silently wrong.
    indexed = pd.DataFrame | pd.Series
    if not isinstance(X, indexed) or not isinstance(column, indexed):
        return
    if len(X) != len(column):
        return
    if X.index.equals(column.index) or not _are_permuted(X.index, column.index):
        return
    raise ValueError(
        f"`{what}` must have its row labels in the order of {name_of_X}, because rows "
        f"are matched by position. Use {what}.reindex({name_of_X}.index), or "
        f"{what}.to_numpy() if its rows are in the order of {name_of_X}."
    )


def _are_permuted(labels: pd.Index, other_labels: pd.Index) -> bool:
    """Check if two indexes have the same labels equally often, in any order."""
    try:
        distinct = labels.unique()
        indices = distinct.get_indexer_for(labels)
        other_indices = distinct.get_indexer_for(other_labels)
    except (TypeError, ValueError):  # labels that cannot be looked up
        return False
    # Absent labels have the index -1.
    return np.array_equal(np.sort(indices), np.sort(other_indices))


def to_float_columns(
    table: Table,
    *,
    allow_missing: bool = False,
    allow_bool: bool = True,
    coerce: bool = False,
) -> list[Floats]:
    """Return the columns of a table as float arrays of shape (n_rows,).

    Missing and infinite numbers raise an error unless `allow_missing` is True. Booleans
    become 0 and 1 if they are allowed. With `coerce`, Python objects other than numbers
    become NaN, as in ``pandas.to_numeric``; otherwise they raise an error.
    """
    columns = []
    for name, column in zip(table.names, table.columns, strict=True):
        try:
            numbers = to_numbers(column, allow_bool=allow_bool)
        except ColumnError as error:
            raise TypeError(f"Column {name!r}: {error}.") from None
        with np.errstate(over="ignore"):  # a warning would reveal a wide float
            columns.append(numbers.astype(float, copy=False))
    if _are_finite(columns):
        return columns
    for name, column, numbers in zip(table.names, table.columns, columns, strict=True):
        is_object = getattr(getattr(column, "dtype", None), "kind", "") == "O"
        is_allowed = allow_missing and (coerce or not is_object)
        if is_allowed or np.isfinite(numbers).all():
            continue
        if is_object and not coerce and _has_other_objects(column, numbers):
            # The check of scikit-learn requires the words "argument must be".
            raise TypeError(
                f"Column {name!r} contains text or other objects; the argument must "
                "be numeric. Convert strings to numbers."
            )
        if not allow_missing:
            raise ValueError(
                f"Column {name!r} contains a missing value, NaN or infinity. Impute "
                "missing values, or drop their rows."
            )
    return columns


def _are_finite(columns: list[Floats]) -> bool:
    """Check quickly if arrays are the columns of one matrix without missing or infinite numbers."""
    # Reading a matrix in the order of its memory takes a tenth of the time.
    bases = {id(numbers.base): numbers.base for numbers in columns}
    matrix = next(iter(bases.values()), None)
    return (
        len(bases) == 1
        and isinstance(matrix, np.ndarray)
        and matrix.dtype == float
        and matrix.size <= 2 * sum(map(len, columns))
        and bool(np.isfinite(matrix).all())
    )


def _has_other_objects(column: object, numbers: NDArray[np.floating]) -> bool:
    """Check if a column has an object that is neither a number nor missing."""
    values = to_object_list(column)
    return not all(
        is_missing(values[index]) for index in np.isnan(numbers).nonzero()[0]
    )


# Targets of supervised estimators.

# Column name of a target that has no name.
TARGET = "target"


def to_single_column(values: object, what: str) -> Table:
    """Convert a series, or an array-like of shape (n,) or (n, 1), to a table of one column.

    `what` is the name of the parameter in errors.
    """
    check_readable(values)
    series = nw.from_native(values, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        return wrap_table(series.to_frame().to_native())
    if is_frame(values):
        table = wrap_table(values)
        if len(table.names) != 1:
            raise ValueError(f"`{what}` must be one column, got {len(table.names)}.")
        return table
    array = to_array(values, what)
    if array.ndim == 1:
        array = array[:, np.newaxis]
    if array.ndim != 2 or array.shape[1] != 1:
        raise ValueError(
            f"`{what}` must be one column, got an array of shape {array.shape}."
        )
    return wrap_table(array)


def target_column(y: ColumnLike) -> tuple[Any, Any]:
    """Return the column and the name of a target; the name is "target" if it has none."""
    check_readable(y)
    if isinstance(nw.from_native(y, series_only=True, pass_through=True), nw.Series):
        name = getattr(y, "name", None)
        return y, TARGET if name in (None, "") else name
    if isinstance(y, str):
        raise ValueError(
            "y must be a column with a value for each row of X, got str. Use X[y], and "
            "drop this column from X."
        )
    table = to_single_column(y, "y")
    name = table.names[0] if is_frame(y) else TARGET
    return table.columns[0], name


def get_target(table: Table, y: ColumnLike) -> tuple[Any, Any]:
    """Return the target as a column, with a name that differs from the column names of the table."""
    column, name = target_column(y)
    n_rows = len(table.columns[0]) if table.columns else 0
    if len(column) != n_rows or not table.columns:
        # The numbers of rows are private.
        raise ValueError("X and y must have the same number of rows.")
    check_same_order(table.native, y, "y")
    if name not in table.names:
        return column, name
    name, number = TARGET, 1
    while name in table.names:
        number += 1
        name = f"{TARGET}_{number}"
    return column, name


def check_target_name(
    table: Table, y: ColumnLike, protected: Collection[Any] | None = None
) -> None:
    """Check that y and a column of X do not share a name if only one of them is protected.

    `protected` are the names of the protected columns; None if y is protected.
    """
    # A guarantee names columns, so it would also cover the public column of this name.
    if y is None or isinstance(y, str):
        return
    _, name = target_column(y)
    has_name = getattr(y, "name", None) == name
    if is_frame(y):
        # Tables from arrays have numbers as names.
        has_name = isinstance(name, str)
    if not has_name or name not in table.names:
        return
    _, name_in_table = get_target(table, y)
    if protected is None or not {name, name_in_table}.isdisjoint(protected):
        raise ValueError(
            f"X must not have a column with the name of y, {name!r}, because only one "
            "of them is protected. Drop the column, or rename y if it is another "
            "variable."
        )


def split_target(table: TableLike) -> tuple[Any, Any]:
    """Return a table without its last column, and this column as target.

    A lazy table stays whole, and its target is the name of the column.
    """
    if isinstance(table, np.ndarray | pd.DataFrame):
        _check_width(table.shape[1] if table.ndim == 2 else 1)
        rows = table.iloc if isinstance(table, pd.DataFrame) else table
        return rows[:, :-1], rows[:, -1]
    frame = nw.from_native(table)
    names = frame.collect_schema().names()
    _check_width(len(names))
    if isinstance(frame, nw.LazyFrame):
        return table, names[-1]
    return frame.select(names[:-1]).to_native(), frame.select(names[-1]).to_native()


def _check_width(n_columns: int) -> None:
    """Check that a table has a column besides the target."""
    if n_columns < 2:
        raise ValueError(
            "X must have at least two columns, the last of which is the target, "
            f"got {n_columns}."
        )


def split_if_supervised(estimator: object, table: TableLike) -> tuple[Any, Any]:
    """Split the last column as target if the estimator requires one; otherwise the target is None."""
    tags = getattr(estimator, "__sklearn_tags__", None)
    is_needed = tags is not None and tags().target_tags.required
    return split_target(table) if is_needed else (table, None)
