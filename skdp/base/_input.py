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

from skdp.base._warnings import warn_at_caller
from skdp.privacy import PrivacyLeakWarning
from skdp.tables import (
    ColumnError,
    Table,
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
    """Check the shape and the column names of an input, without reading its values."""
    if is_frame(X):
        n_rows, n_columns = X.shape
        if n_columns == 0:
            raise ValueError(
                "Found a table with 0 feature(s) (columns); at least 1 is required"
            )
        if n_rows < min_rows:
            raise ValueError(
                f"Found a table with {n_rows} sample(s) (rows); "
                f"at least {min_rows} is required"
            )
        validate_data(estimator, X, reset=reset, skip_check_array=True)
        return wrap_table(X)
    _refuse_masked(X)
    if hasattr(X, "to_table"):  # a Dataset of pyarrow
        raise lazy_error(X)
    has_dtypes = hasattr(X, "__array__")
    if not issparse(X):
        array = _read_rows(X)
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


def _refuse_masked(values: Any) -> None:
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(
            "masked arrays are not supported, as their masked values would be "
            "released; fill them first"
        )


def _read_rows(X: Any) -> NDArray[Any]:
    """Convert an array-like of rows."""
    if isinstance(X, str | os.PathLike):
        raise TypeError(
            f"X must be a table, got {type(X).__name__}. Read the file first"
        )
    # Errors of scikit-learn contain the data.
    array = to_array(X, "X")
    if array.dtype.kind == "c":
        raise ValueError("Complex data not supported")
    if array.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {array.ndim}D array instead. Reshape your data: "
            "X.reshape(-1, 1) for a single column, X.reshape(1, -1) for a single row, "
            "or X[['column']] of a dataframe"
        )
    return array


def to_array(values: Any, name: str) -> NDArray[Any]:
    """Convert an array-like to an array, of objects for lists with text and other values."""
    is_list = not hasattr(values, "__array__")
    for dtype in (None, object):
        try:
            array = np.asarray(values, dtype)
        except Exception:
            continue
        if dtype is object or not is_list or array.dtype.kind not in "USV":
            return array
    raise ValueError(
        f"{name} cannot be read as an array: expected rows of single values, all of "
        "one length"
    )


def check_names(
    estimator: BaseEstimator, table: Table, fitted: tuple[Any, ...]
) -> None:
    """Check that a table has the columns of `fit`."""
    # scikit-learn compares names only if all are strings.
    is_array = isinstance(table.native, np.ndarray)
    is_compared = hasattr(estimator, "feature_names_in_") and not is_array
    are_strings = all(isinstance(name, str) for name in fitted)
    if (is_compared or not are_strings) and table.names != fitted:
        raise ValueError(
            f"X has the columns {list(table.names)}; fit saw {list(fitted)}"
        )


def apply_set_output(estimator: Any, released: Any) -> Any:
    """Convert the output of a transformer to the type set by `set_output`."""
    config = getattr(estimator, "_sklearn_output_config", {})
    output = config.get("transform", get_config()["transform_output"])
    return convert_frame(released, output)


def _named_levels(table: Any) -> tuple[Any, ...]:
    """Return the names of the named levels of a row index."""
    if not isinstance(table, pd.DataFrame | pd.Series):
        return ()
    return tuple(name for name in table.index.names if name is not None)


def check_index_levels(
    table: Any, protected: Sequence[Any], *, what: str = "X"
) -> None:
    """Check that no level of the row index has the name of a protected column."""
    for name in _named_levels(table):
        if name in protected:
            raise ValueError(
                f"the row index of {what} has a level {name!r}, the name of a protected "
                "column, and passes through without protection. Use "
                f"{what}.reset_index({name!r}, drop=True), and for groups in the index "
                f"reports.set_index({name!r}, drop=False)."
            )


def warn_of_levels(table: Any) -> None:
    """Warn of a row index with named levels."""
    # An index without names usually has numbers of rows.
    names = [repr(name) for name in _named_levels(table)]
    if names:
        warn_at_caller(
            f"the row index passes through unprotected, with {', '.join(names)}. Use "
            "reset_index(drop=True) if it identifies persons",
            PrivacyLeakWarning,
            about="answers/not_covered",
        )


def check_row_order(**inputs: Any) -> None:
    """Check that no two pandas inputs have equal row labels in different orders."""
    for (name, rows), (what, column) in itertools.combinations(inputs.items(), 2):
        check_same_order(rows, column, what, name_of_X=name)


def check_same_order(X: Any, column: Any, what: str, *, name_of_X: str = "X") -> None:
    """Check that a series does not have the row labels of X in another order."""
    indexed = pd.DataFrame | pd.Series
    if not isinstance(X, indexed) or not isinstance(column, indexed):
        return
    if len(X) != len(column):
        return
    if X.index.equals(column.index) or not _are_permuted(X.index, column.index):
        return
    raise ValueError(
        f"{what} has the labels of {name_of_X} in another order, and rows are read by "
        f"position. Use {what}.reindex({name_of_X}.index), or pass {what}.to_numpy() if its "
        f"rows are in the order of {name_of_X}."
    )


def _are_permuted(labels: pd.Index, other_labels: pd.Index) -> bool:
    """Return True if two indexes are permutations of each other."""
    try:
        distinct = labels.unique()
        indices = distinct.get_indexer_for(labels)
        other_indices = distinct.get_indexer_for(other_labels)
    except (TypeError, ValueError):  # labels that cannot be looked up
        return False
    # Absent labels have the index -1.
    return np.array_equal(np.sort(indices), np.sort(other_indices))


def to_float_columns(
    table: Table, *, missing: bool = False, truth: bool = True, others: bool = False
) -> list[NDArray[np.float64]]:
    """Read the columns of a table as numbers."""
    # With `truth`, booleans are read as 0 and 1. With `others`, Python objects other than numbers are read as missing
    # values.
    columns = []
    for name, column in zip(table.names, table.columns, strict=True):
        try:
            numbers = to_numbers(column, truth=truth)
        except ColumnError as error:
            raise TypeError(f"column {name!r}: {error}") from None
        columns.append(numbers.astype(float, copy=False))
    for name, column, numbers in zip(table.names, table.columns, columns, strict=True):
        is_object = getattr(getattr(column, "dtype", None), "kind", "") == "O"
        if (missing and (others or not is_object)) or np.isfinite(numbers).all():
            continue
        if is_object and not others and _has_other(column, numbers):
            # The check of scikit-learn requires the words "argument must be".
            raise TypeError(
                f"column {name!r} contains text or other objects; argument must be "
                "numeric: convert strings to numbers"
            )
        if not missing:
            raise ValueError(
                f"column {name!r} contains a missing value, a NaN or an inf. Fill it in, "
                "or drop the record, by a public rule."
            )
    return columns


def _has_other(column: Any, numbers: NDArray[np.floating]) -> bool:
    """Return True if a column has an object other than a number or missing."""
    values = to_object_list(column)
    return not all(
        is_missing(values[index]) for index in np.isnan(numbers).nonzero()[0]
    )


# Targets of supervised estimators.

# Name of a target without a name.
TARGET = "target"


def to_single_column(values: Any, what: str) -> Table:
    """Read a series, a dataframe of one column or an array-like of shape (n,) or (n, 1) as a table of one column."""
    series = nw.from_native(values, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        return wrap_table(series.to_frame().to_native())
    if is_frame(values):
        table = wrap_table(values)
        if len(table.names) != 1:
            raise ValueError(f"{what} must be one column, got {len(table.names)}")
        return table
    _refuse_masked(values)
    array = to_array(values, what)
    if array.ndim == 1:
        array = array[:, np.newaxis]
    if array.ndim != 2 or array.shape[1] != 1:
        raise ValueError(
            f"{what} must be one column, got an array of {array.ndim} dimensions"
        )
    return wrap_table(array)


def target_column(y: Any) -> tuple[Any, Any]:
    """Return the target as a column, and its name."""
    if isinstance(nw.from_native(y, series_only=True, pass_through=True), nw.Series):
        name = getattr(y, "name", None)
        return y, TARGET if name in (None, "") else name
    if isinstance(y, str):
        raise ValueError(
            "y must be the column itself for a table in memory, got a str; column "
            "names are accepted for files and lazy frames only"
        )
    table = to_single_column(y, "y")
    name = table.names[0] if is_frame(y) else TARGET
    return table.columns[0], name


def get_target(table: Table, y: Any) -> tuple[Any, Any]:
    """Return the target as a column, and a name that no column of the table has."""
    column, name = target_column(y)
    n_rows = len(table.columns[0]) if table.columns else 0
    if len(column) != n_rows or not table.columns:
        raise ValueError(f"y has {len(column)} rows; X has {n_rows}")
    check_same_order(table.native, y, "y")
    if name not in table.names:
        return column, name
    name, number = TARGET, 1
    while name in table.names:
        number += 1
        name = f"{TARGET}_{number}"
    return column, name


def check_target_name(
    table: Table, y: Any, protected: Collection[Any] | None = None
) -> None:
    """Check that y and a protected column of X have different names."""
    # A guarantee names columns, so it would also cover the public column of this name. By
    # default, y is protected.
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
            "variable"
        )


def split_target(table: Any) -> tuple[Any, Any]:
    """Split the last column from a table as its target; a lazy table keeps the column."""
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
    if n_columns < 2:
        raise ValueError(
            "X must have two columns or more, the last of them the target, "
            f"got {n_columns}"
        )


def split_if_supervised(estimator: Any, table: Any) -> tuple[Any, Any]:
    """Split a table if an estimator requires a target, which is None otherwise."""
    tags = getattr(estimator, "__sklearn_tags__", None)
    is_needed = tags is not None and tags().target_tags.required
    return split_target(table) if is_needed else (table, None)
