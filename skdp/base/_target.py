"""Targets of supervised estimators."""

from __future__ import annotations

import itertools
from collections.abc import (
    Collection,
)
from typing import TYPE_CHECKING, Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from skdp.base._input import _refuse_masked, check_same_order, read_array
from skdp.tables import (
    Table,
    is_frame,
    read_table,
)

if TYPE_CHECKING:  # an optional dependency
    pass


# Name of a target without a name.
TARGET = "target"


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
        if name in (None, ""):
            name = TARGET
        return y, name
    if isinstance(y, str):
        raise ValueError(
            "y must be the column itself for a table in memory, got a text; the name "
            "of a column is for files and lazy frames"
        )
    table = one_column(y, "y")
    name = table.names[0] if is_frame(y) else TARGET
    return table.columns[0], name


def target_of(table: Table, y: Any) -> tuple[Any, Any]:
    """Return the target as a column, and a name that no column of the table has."""
    column, name = target_column(y)
    n_rows = len(table.columns[0]) if table.columns else 0
    if len(column) != n_rows or not table.columns:
        raise ValueError(f"y has {len(column)} rows; X has {n_rows}")
    check_same_order(table.native, y, "y")
    if name not in table.names:
        return column, name
    for number in itertools.count(1):
        name = TARGET if number == 1 else f"{TARGET}_{number}"
        if name not in table.names:
            break
    return column, name


def refuse_no_public_rows(n_rows: int | None) -> None:
    """Check that a table whose number of rows is public has rows."""
    if n_rows == 0:
        raise ValueError(
            "X has no rows, and with protect this is public: nothing can be learnt"
        )


def refuse_shared_name(
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
    _, name_in_table = target_of(table, y)
    if protected is None or not {name, name_in_table}.isdisjoint(protected):
        raise ValueError(
            f"X has a column of the name of y, {name!r}, and only one of them is "
            "protected: leave the column out of X, or name y otherwise if it is about "
            "something else"
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


def rows_and_target(estimator: Any, table: Any) -> tuple[Any, Any]:
    """Split a table if an estimator requires a target, which is None otherwise."""
    tags = getattr(estimator, "__sklearn_tags__", None)
    is_needed = tags is not None and tags().target_tags.required
    return split_target(table) if is_needed else (table, None)
