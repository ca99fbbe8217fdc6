"""The input of estimators: its rows, its target, its bounds, and the row index of pandas."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from skdp.base._warnings import warn_once
from skdp.privacy import PrivacyLeakWarning
from skdp.tables import (
    ColumnError,
    Table,
    convert_frame,
    is_frame,
    is_missing,
    lazy_error,
    objects_of,
    read_table,
    to_numbers,
)


def read_input(
    estimator: BaseEstimator, X: Any, *, reset: bool, least: int = 1
) -> Table:
    """Check the shape and the column names of an input as scikit-learn does, without looking at a value."""
    if is_frame(X):
        n_rows, n_columns = X.shape
        if n_columns == 0:
            raise ValueError(
                "Found a table with 0 feature(s) (columns); at least 1 is required"
            )
        if n_rows < least:
            raise ValueError(
                f"Found a table with {n_rows} sample(s) (rows); "
                f"at least {least} is required"
            )
        validate_data(estimator, X, reset=reset, skip_check_array=True)
        return read_table(X)
    _refuse_masked(X)
    if type(X).__module__.startswith("pyarrow"):
        if hasattr(X, "to_table"):  # a Dataset
            raise lazy_error(X)
        raise TypeError(
            f"pyarrow's {type(X).__name__} is not supported; make a pyarrow.Table of it"
        )
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
        ensure_min_samples=least,
    )
    return replace(read_table(array), has_dtypes=has_dtypes)


def _refuse_masked(values: Any) -> None:
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(
            "masked arrays are not supported, as their masked values would be "
            "released; fill them first"
        )


def _read_rows(X: Any) -> NDArray[Any]:
    """Convert an array-like of rows; the messages of scikit-learn for these errors print the data."""
    array = read_array(X, "X")
    if array.dtype.kind == "c":
        raise ValueError("Complex data not supported")
    if array.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {array.ndim}D array instead. Reshape your data: "
            "X.reshape(-1, 1) for a single column, X.reshape(1, -1) for a single row, "
            "or X[['column']] of a dataframe"
        )
    return array


def read_array(values: Any, name: str) -> NDArray[Any]:
    """Convert an array-like to an array, of objects for a list that mixes text with other values."""
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
    # scikit-learn compares names only if all of them are strings.
    is_array = isinstance(table.native, np.ndarray)
    is_compared = hasattr(estimator, "feature_names_in_") and not is_array
    are_strings = all(isinstance(name, str) for name in fitted)
    if (is_compared or not are_strings) and table.names != fitted:
        raise ValueError(
            f"X has the columns {list(table.names)}; fit saw {list(fitted)}"
        )


def as_asked(estimator: Any, released: Any) -> Any:
    """Convert the output of a transformer to the kind of frame set by `set_output`."""
    config = getattr(estimator, "_sklearn_output_config", {})
    output = config.get("transform", get_config()["transform_output"])
    return convert_frame(released, output)


TARGET = "target"
"""What a target without a name is called."""


def one_column(values: Any, what: str) -> Table:
    """Read a series, a dataframe of one column or an array-like of shape (n,) or (n, 1) as a table of one column."""
    series = nw.from_native(values, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        return read_table(series.to_frame().to_native())
    if is_frame(values):
        table = read_table(values)
        if len(table.names) != 1:
            raise ValueError(f"{what} must be one column, got {len(table.names)}")
        return table
    _refuse_masked(values)
    array = read_array(values, what)
    if array.ndim == 1:
        array = array[:, np.newaxis]
    if array.ndim != 2 or array.shape[1] != 1:
        raise ValueError(
            f"{what} must be one column, got an array of {array.ndim} dimensions"
        )
    return read_table(array)


def target_column(y: Any) -> tuple[Any, Any]:
    """Return the target as a column, and its name."""
    if isinstance(nw.from_native(y, series_only=True, pass_through=True), nw.Series):
        name = getattr(y, "name", None)
        return y, TARGET if name in (None, "") else name
    table = one_column(y, "y")
    return table.columns[0], table.names[0] if is_frame(y) else TARGET


def target_of(table: Table, y: Any) -> tuple[Any, Any]:
    """Return the target of the rows of a table as a column, and its name, or another one if a column has this name."""
    column, name = target_column(y)
    n_rows = len(table.columns[0]) if table.columns else 0
    if len(column) != n_rows or not table.columns:
        raise ValueError(f"y has {len(column)} rows; X has {n_rows}")
    check_same_order(table.native, y, "y")
    if name not in table.names:
        return column, name
    # Such as one that was computed from this column.
    for number in itertools.count(1):
        name = TARGET if number == 1 else f"{TARGET}_{number}"
        if name not in table.names:
            break
    return column, name


def split_target(table: Any) -> tuple[Any, Any]:
    """Take the last column of a table, with its name, as its target; of a lazy table, which keeps it, the name."""
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


def rows_and_target(estimator: Any, table: Any) -> tuple[Any, Any]:
    """Split a table where an estimator needs a target, which otherwise is None."""
    tags = getattr(estimator, "__sklearn_tags__", None)
    is_needed = tags is not None and tags().target_tags.required
    return split_target(table) if is_needed else (table, None)


def named_levels(table: Any) -> tuple[Any, ...]:
    """Return the names of the levels of the row index of a table or series, without levels that have none."""
    if not isinstance(table, pd.DataFrame | pd.Series):
        return ()
    return tuple(name for name in table.index.names if name is not None)


def refuse_protected_levels(
    table: Any, protected: Sequence[Any], *, what: str = "X"
) -> None:
    """Refuse a row index with a level of the name of a protected column, whose values would pass through."""
    for name in named_levels(table):
        if name in protected:
            raise ValueError(
                f"the row index of {what} has a level {name!r}, as a protected column "
                "is called, and passes through: the true values would stay beside the "
                f"reports. Drop the level before, by {what}.reset_index({name!r}, "
                "drop=True) (without drop=True, where it is not a column yet); to have "
                "groups in the index, as aif360 does, put the reports there: "
                f"reports.set_index({name!r}, drop=False)"
            )


def warn_of_levels(table: Any, known: Collection[Any] = ()) -> None:
    """Warn of a row index whose levels have names, unless these were warned of before."""
    # An index without names is usually the number of a row, or of a row of the table
    # that it was drawn from.
    names = [repr(name) for name in named_levels(table) if name not in known]
    if names:
        warn_once(
            f"the row index passes through unprotected, with {', '.join(names)}: if it "
            "says something of a record or identifies a person, drop it before by "
            "reset_index(drop=True)",
            PrivacyLeakWarning,
        )


def check_same_order(X: Any, column: Any, what: str) -> None:
    """Refuse a series that has the row labels of X in another order, as it is read by position."""
    is_indexed = isinstance(column, pd.DataFrame | pd.Series)
    if not is_indexed or not isinstance(X, pd.DataFrame) or len(X) != len(column):
        return
    if X.index.equals(column.index) or not _are_permuted(X.index, column.index):
        return
    in_place = f"pass {what}.to_numpy() if its rows are in the order of X"
    advice = f": reindex it like X, by {what}.reindex(X.index), or {in_place}"
    if not X.index.is_unique:
        advice = (
            ". Labels that occur twice do not say which row is which: "
            f"{in_place}; otherwise give each row a label of its own where both are made"
        )
    raise ValueError(
        f"{what} has the labels of X in another order, and rows are read by position"
        f"{advice}"
    )


def _are_permuted(labels: pd.Index, other_labels: pd.Index) -> bool:
    """Return whether two indexes of one length hold the same labels, each as often."""
    try:
        distinct = labels.unique()
        places = distinct.get_indexer_for(labels)
        other_places = distinct.get_indexer_for(other_labels)
    except (TypeError, ValueError):  # labels that cannot be looked up
        return False
    # A label that is not there has the place -1.
    return np.array_equal(np.sort(places), np.sort(other_places))


def read_numbers(
    table: Table, *, missing: bool = False, truth: bool = True, others: bool = False
) -> list[NDArray[np.float64]]:
    """Read the columns of a table as numbers, also of truth values (0 and 1) if asked."""
    # With `others`, a Python object that is no number counts as missing instead of
    # being an error.
    columns = []
    for name, column in zip(table.names, table.columns, strict=True):
        try:
            numbers = to_numbers(column, truth=truth)
        except ColumnError as error:
            raise TypeError(f"column {name!r}: {error}") from None
        columns.append(numbers.astype(float, copy=False))
    if not missing and _are_finite(columns):
        return columns
    for name, column, numbers in zip(table.names, table.columns, columns, strict=True):
        is_object = getattr(getattr(column, "dtype", None), "kind", "") == "O"
        if (missing and (others or not is_object)) or np.isfinite(numbers).all():
            continue
        if is_object and not others and _has_other(column, numbers):
            # "argument must be ... string ... number": what scikit-learn's own check
            # looks for.
            raise TypeError(
                f"column {name!r} holds text or other objects; argument must be "
                "numeric: convert strings to numbers"
            )
        if not missing:
            raise ValueError(
                f"column {name!r} holds a missing value, a NaN or an inf. Fill it in, "
                "or drop the record, by a public rule."
            )
    return columns


def _are_finite(columns: Sequence[NDArray[np.float64]]) -> bool:
    """Whether all numbers of a table that lies together are finite; False if it does not."""
    # Column by column, all of an array passes through the cache for each of its columns.
    array = together(columns)
    with np.errstate(over="ignore", invalid="ignore"):
        return array is not None and bool(np.isfinite(array.sum()))


def _has_other(column: Any, numbers: NDArray[np.floating]) -> bool:
    """Whether a column of objects has one that is neither a number nor missing."""
    values = objects_of(column)
    return not all(
        is_missing(values[place]) for place in np.isnan(numbers).nonzero()[0]
    )


def together(columns: Sequence[NDArray[np.float64]]) -> NDArray[np.float64] | None:
    """Return the array that columns are views of, without a copy, if they lie side by side in memory."""
    # The caller keeps the columns, and so the memory.
    if not columns:
        return None
    addresses = [column.__array_interface__["data"][0] for column in columns]
    first, stride = columns[0], columns[0].strides
    step = addresses[1] - addresses[0] if len(addresses) > 1 else first.itemsize
    for place, column in enumerate(columns):
        is_beside = addresses[place] == addresses[0] + step * place
        if not is_beside or column.dtype != float or column.strides != stride:
            return None
    shape = (len(first), len(columns))
    return as_strided(first, shape, (*stride, step), writeable=False)


def read_bounds(
    bounds: Any, names: Sequence[Any], *, parameter: str = "bounds"
) -> NDArray[np.float64]:
    """Check declared bounds and return them as an array of shape (n_columns, 2)."""
    if bounds is None:
        raise ValueError(
            "bounds must be declared, as (low, high) or {column: (low, high)}, from "
            "what is publicly known: the lowest and the highest value of the data are "
            "private"
        )
    pairs = _pairs(bounds, names)
    ends = []
    for name, pair in zip(names, pairs, strict=True):
        ends.append(_read_pair(pair, f"{parameter} of column {name!r}"))
    return np.array(ends)


def check_declared(
    declared: Mapping[Any, Any], names: Sequence[Any], parameter: str, hint: str = ""
) -> None:
    """Check that a mapping by column name has the columns of a table, and no others."""
    unknown = [name for name in declared if name not in names]
    if unknown:
        raise ValueError(
            f"{parameter} declares columns that X does not have: {unknown}; "
            f"X has {list(names)}"
        )
    absent = [name for name in names if name not in declared]
    if absent:
        raise ValueError(f"{parameter} declares nothing for the columns {absent}{hint}")


def _pairs(bounds: Any, names: Sequence[Any]) -> list[Any]:
    if isinstance(bounds, Mapping):
        check_declared(bounds, names, "bounds")
        return [bounds[name] for name in names]
    rows = _as_list(bounds)
    if rows is None:
        raise TypeError(
            "bounds must be (low, high), a mapping or an array of shape "
            f"(n_features, 2), got {type(bounds).__name__}"
        )
    if len(rows) == 2 and all(_as_list(row) is None for row in rows):
        return [rows] * len(names)
    if len(rows) != len(names):
        raise ValueError(f"bounds has {len(rows)} rows; X has {len(names)} columns")
    return rows


def _as_list(value: Any) -> list[Any] | None:
    if isinstance(value, np.ndarray):
        return value.tolist() if value.ndim else None
    is_list = isinstance(value, Sequence) and not isinstance(value, str | bytes)
    return list(value) if is_list else None


def _read_pair(pair: Any, what: str) -> tuple[float, float]:
    ends = _as_list(pair)
    if ends is None or len(ends) != 2:
        raise ValueError(f"{what} must be a pair (low, high)")
    for end in ends:
        if isinstance(end, bool | np.bool_) or not isinstance(end, Real):
            raise TypeError(f"{what} must be two numbers, got {type(end).__name__}")
    try:
        low, high = map(float, ends)
    except OverflowError:
        raise ValueError(
            f"{what} must be finite, got a number beyond the range of floats"
        ) from None
    # The difference of two finite numbers may still be infinite.
    if not (math.isfinite(high - low) and low < high):
        raise ValueError(
            f"{what} must be finite with low < high, got ({low:g}, {high:g})"
        )
    if not floats_between(low, high):
        raise ValueError(
            f"{what} are too close together for floats, got ({low!r}, {high!r})"
        )
    return low, high


_LEAST_WIDTH = 1e-9
"""Relative to the larger end: floats then still distinguish the steps of a grid of 65,536 points."""


def floats_between(low: float, high: float) -> bool:
    """Whether bounds are far enough apart."""
    return high - low >= max(_LEAST_WIDTH * max(abs(low), abs(high)), 1e-300)
