"""Outputs of a release as columns of values, with an entry for each draw."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.tables import convert_frame, is_frame

# A column for each part of the output, with an entry for each draw.
Draws = dict[str, NDArray[Any]]

FAILURE = "the type of the error"
ABSENT = "\0absent"

_LISTS = (list, tuple, set, frozenset, np.ndarray)


def read_columns(table: Any) -> Draws:
    """Read the columns of a table or array; a repeated name gets its position."""
    if not isinstance(table, pd.DataFrame | pd.Series) and is_frame(table):
        table = convert_frame(table, "pandas")
    frame = table if isinstance(table, pd.DataFrame) else pd.DataFrame(table)
    names = list(map(str, frame.columns))
    columns = {}
    for position, name in enumerate(names):
        label = f"column {name!r}" + f" ({position})" * (names.count(name) > 1)
        columns[label] = frame.iloc[:, position].to_numpy()
    return columns


def read_rows(release: Callable[[], Any], n_rows: int) -> Draws:
    """Read the columns of a release whose rows are independent draws; lists are spread."""
    try:
        released = release()
    except Exception as error:
        return {FAILURE: np.full(n_rows, type(error).__name__, object)}
    columns: Draws = {}
    for name, values in read_columns(released).items():
        if len(values) != n_rows:
            raise ValueError(
                f"The release has {len(values)} rows for a table of {n_rows} rows. Pass a "
                "callable and neighbours to audit releases of whole tables."
            )
        if values.dtype == object and isinstance(values[0], _LISTS):
            width = max(map(len, values))
            padded = [[*items, *[None] * (width - len(items))] for items in values]
            for position, column in pd.DataFrame(padded, dtype=object).items():
                columns[f"{name}, item {position}"] = column.to_numpy()
        else:
            columns[name] = values
    return columns


def read_calls(release: Callable[[], Any], n_calls: int) -> Draws:
    """Release a table many times, and read each output as one draw."""
    calls: list[dict[str, Any]] = []
    for _ in range(n_calls):
        try:
            parts = list(_list_parts(release(), ""))
        except Exception as error:
            parts = [(FAILURE, type(error).__name__)]
        calls.append(dict(parts[:256]))  # limits the columns to compare
    columns = {}
    for name in dict.fromkeys(name for call in calls for name in call):
        column = np.empty(n_calls, object)
        column[:] = [call.get(name, ABSENT) for call in calls]
        columns[name] = column
    return columns


def _list_parts(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """List the single values of an output, with their paths."""
    items: Iterable[tuple[Any, Any]]
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, pd.DataFrame | pd.Series) or is_frame(value):
        items = read_columns(value).items()
    elif isinstance(value, _LISTS):
        items = enumerate(np.asarray(value, object).ravel().tolist())
    else:
        yield path or "the value", value
        return
    for key, item in items:
        yield from _list_parts(item, f"{path}[{key!r}]")


def add_supports(fitted: Any, columns: Draws) -> Draws:
    """Add the values that each hashed report supports, because its hash function is public."""
    if FAILURE in columns:
        return columns
    arrays = list(columns.values())
    supports: Draws = {}
    start = 0
    for number, oracle in enumerate(getattr(fitted, "oracles_", ())):
        parts = arrays[start : start + oracle.width]
        start += oracle.width
        if oracle.shows_hash:
            reports = np.column_stack([part.astype(np.uint64) for part in parts])
            # (n_reports, n_values)
            # The first 64 values limit the columns to compare.
            is_supported = oracle.supports(reports)[:, :64]
            for value, column in enumerate(is_supported.T):
                supports[f"support of value {value} by column {number}"] = column
    return columns | supports


def column_of(draws: Draws, name: str) -> NDArray[Any]:
    """Return a column, or absent parts if the draws lack it."""
    if name in draws:
        return draws[name]
    return np.full(len(next(iter(draws.values()))), ABSENT, object)


def hash_column(values: NDArray[Any]) -> NDArray[np.uint64]:
    """Hash each value of a column: numbers by their value, other objects by their text."""
    if values.dtype.kind in "iub":
        return pd.util.hash_array(values.astype(np.int64).view(np.uint64))
    if values.dtype.kind == "f":
        # One of the many words of nan. The sign of -0.0 is visible.
        floats = np.where(np.isnan(values), np.nan, values).astype(np.float64)
        return pd.util.hash_array(floats.view(np.uint64))
    texts = np.empty(len(values), object)
    texts[:] = [
        value if isinstance(value, str) else f"\x01{value!r}" for value in values
    ]
    return pd.util.hash_array(texts)


def to_floats(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return numbers, with nan for other values."""
    if values.dtype.kind in "iubf":
        return values.astype(float)
    is_number = [isinstance(value, float | np.floating) for value in values]
    return np.where(is_number, values, np.nan).astype(float)
