"""Releases as columns of comparable cells: every value, and in single calls their form too."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.base import heard
from skdp.tables import is_frame, is_missing, without_releases

Outputs = dict[str, NDArray[Any]]
"""A column for each part of the output, an entry for each draw."""

FORM = "the form: dtypes, names, index, attributes, warnings, output, errors"
WHOLE = "the whole output as text"
ABSENT = "\0absent"
_RAISED = "\0raised "
_MOST_CELLS = 256
_MOST_ITEMS = 64
_MOST_TEXT = 100_000
_PLAIN = (str, bytes, int, float, np.generic, type(None))
_NESTED = (list, tuple, set, frozenset, dict, np.ndarray)


def read_rows(released: Any, rows: int) -> Outputs:
    """Read the columns of a released table whose rows are independent draws."""
    columns: Outputs = {}
    for name, values in _columns(released):
        if len(values) != rows:
            raise ValueError(f"the release has {len(values)} rows, not {rows}")
        columns |= _spread(name, values) if values.dtype == object else {name: values}
    if not columns:
        raise ValueError("the release is no table")
    return columns


def _columns(released: Any) -> list[tuple[str, NDArray[Any]]]:
    """List the columns; those of the same name are distinguished by their place."""
    if isinstance(released, pd.Series):
        released = released.to_frame()
    if isinstance(released, pd.DataFrame):
        names: list[Any] = list(released.columns)
        arrays = [_array(column) for _, column in released.items()]
    elif is_frame(released):
        frame = nw.from_native(released, eager_only=True)
        names, arrays = (
            frame.columns,
            [frame.get_column(name).to_numpy() for name in frame.columns],
        )
    else:
        table = np.asarray(released)
        if table.ndim == 0:
            return []
        table = table.reshape(len(table), -1)
        names, arrays = list(range(table.shape[1])), list(table.T)
    repeated = Counter(map(str, names))
    return [
        (
            f"column {str(name)!r}"
            + (f" ({place})" if repeated[str(name)] > 1 else ""),
            array,
        )
        for place, (name, array) in enumerate(zip(names, arrays, strict=True))
    ]


def _array(series: pd.Series) -> NDArray[Any]:
    plain = isinstance(series.dtype, np.dtype) and series.dtype.kind in "iubf"
    return series.to_numpy() if plain else series.to_numpy(dtype=object)


def _spread(name: str, values: NDArray[Any]) -> Outputs:
    """Split cells that hold lists into one column for each place."""
    if not any(
        isinstance(value, list | tuple | set | frozenset | np.ndarray)
        for value in values[:1]
    ):
        return {name: values}
    lists = [
        list(value)
        if hasattr(value, "__iter__") and not isinstance(value, str)
        else [value]
        for value in values
    ]
    width = min(max(map(len, lists)), _MOST_ITEMS)
    columns = {f"{name}, length": np.array([len(items) for items in lists])}
    for place in range(width):
        cells = np.empty(len(lists), object)
        cells[:] = [items[place] if place < len(items) else ABSENT for items in lists]
        columns[f"{name}, place {place}"] = cells
    return columns


def read_call(release: Callable[[], Any]) -> dict[str, Any]:
    """Make one release and record everything that is visible of it."""
    with heard() as said:
        try:
            released, failed = release(), None
        except Exception as error:
            released, failed = None, error
    if failed is not None:
        return {FORM: f"{_RAISED}{type(failed).__name__}\n{failed}\n{said}", WHOLE: ""}
    cells: dict[str, Any] = {}
    form: Any = _flatten(released, "", cells)
    text = repr((form, said))
    return {FORM: text, WHOLE: repr(list(cells.values()))[:_MOST_TEXT]} | dict(
        list(cells.items())[:_MOST_CELLS]
    )


def raised(call: dict[str, Any]) -> str | None:
    """Return the name of the error that a call raised, if any."""
    form: str = call[FORM]
    return (
        form.removeprefix(_RAISED).split("\n")[0] if form.startswith(_RAISED) else None
    )


def _flatten(value: Any, name: str, cells: dict[str, Any]) -> Any:
    """Add the cells of a value to a dict, by their places, and return its form."""
    if isinstance(value, pd.Series):
        value = value.to_frame()
    if isinstance(value, pd.DataFrame):
        return _flatten_table(value, name, cells)
    if isinstance(value, np.ndarray):
        if value.dtype != object:
            items: list[Any] = value.reshape(-1).tolist()
        else:
            items = list(value.reshape(-1))
        form: Any = ("array", value.dtype.str, value.shape)
    elif isinstance(value, dict):
        return "dict", [
            (str(key), _flatten(item, f"{name}[{key!r}]", cells))
            for key, item in value.items()
        ]
    elif isinstance(value, list | tuple | set | frozenset):
        items, form = list(value), (type(value).__name__, len(value))
    elif not isinstance(value, _PLAIN) and is_frame(value):
        return _flatten_table(value, name, cells)
    else:
        cells[name or "the value"] = value
        return type(value).__name__
    return form, [
        _flatten(item, f"{name}[{place}]", cells) for place, item in enumerate(items)
    ]


def _flatten_table(table: Any, name: str, cells: dict[str, Any]) -> Any:
    table = without_releases(table)
    columns = _columns(table)
    rows = list(zip(*(array.tolist() for _, array in columns), strict=True))
    types = []
    for place, row in enumerate(rows):
        for (column, _), cell in zip(columns, row, strict=True):
            where = f"{name}{column}, row {place}"
            if isinstance(cell, _NESTED):
                types.append(_flatten(cell, where, cells))
            else:
                cells[where] = cell
                types.append(type(cell).__name__)
    if len(rows) > 1:
        kinds = Counter(map(repr, rows))
        cells[f"{name}the number of different rows"] = len(kinds)
        for text, count in kinds.items():
            cells[f"{name}the number of rows of one kind\0{text}"] = count
    # The types of the cells distinguish 1, 1.0 and True.
    form = [
        type(table).__module__,
        type(table).__name__,
        [label for label, _ in columns],
        len(rows),
        types,
    ]
    if isinstance(table, pd.DataFrame):
        index = table.index
        form += [
            [_dtype_text(dtype) for dtype in table.dtypes],
            type(index).__name__,
            repr(index.tolist()),
        ]
        form += [repr(table.attrs), repr(index.names), repr(table.columns.names)]
    else:
        frame = nw.from_native(table, eager_only=True)
        form += [str(frame.schema), str(getattr(table, "schema", ""))]
    return form


def _dtype_text(dtype: Any) -> str:
    return (
        f"{dtype} {list(dtype.categories)} {dtype.ordered}"
        if isinstance(dtype, pd.CategoricalDtype)
        else str(dtype)
    )


def stack_calls(calls: Iterable[dict[str, Any]]) -> Outputs:
    """Arrange the cells of many calls as columns."""
    listed = list(calls)
    columns = {}
    for name in dict.fromkeys(name for call in listed for name in call):
        column = np.empty(len(listed), object)
        for place, call in enumerate(listed):
            column[place] = call.get(name, ABSENT)
        columns[name] = column
    return columns


def column_of(outputs: Outputs, name: str) -> NDArray[Any]:
    """Return a column; one of absent cells if the outputs lack it."""
    if name in outputs:
        return outputs[name]
    return np.full(len(next(iter(outputs.values()))), ABSENT, object)


_MULTIPLIERS = np.array([0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9], np.uint64)
_SALT = np.uint64(0x94D049BB133111EB)
_MISSING = np.uint64(0x2545F4914F6CDD1D)
_WORD = (1 << 64) - 1


def hash_cells(values: NDArray[Any]) -> NDArray[np.uint64]:
    """Hash every cell by its value alone, for any dtype of its column."""
    # Equal numbers have equal hashes, as do all kinds of missing: a dtype that depends on other rows must not make
    # equal cells differ. (In single calls, dtypes and types are part of the form.)
    if values.dtype.kind in "iub":
        return _mix(values.astype(np.int64, copy=False).view(np.uint64))
    if values.dtype.kind == "f":
        return _hash_floats(values.astype(np.float64, copy=False))
    objects = values.astype(object, copy=False)
    if pd.api.types.infer_dtype(objects, skipna=False) == "string":
        return pd.util.hash_array(objects)
    known: dict[Any, np.uint64] = {}
    hashes = np.empty(len(objects), np.uint64)
    for place, value in enumerate(objects):
        key = (type(value), repr(value))
        if key not in known:
            known[key] = _hash_object(value)
        hashes[place] = known[key]
    return hashes


def _hash_object(value: Any) -> np.uint64:
    if isinstance(value, str):
        return pd.util.hash_array(np.array([value], object))[0]
    if is_missing(value):
        return _MISSING
    if isinstance(value, bool | np.bool_ | int | np.integer):
        return _mix(np.array([int(value) & _WORD], np.uint64))[0]
    if isinstance(value, float | np.floating):
        return _hash_floats(np.array([value], float))[0]
    return pd.util.hash_array(
        np.array([f"\0{type(value).__name__}:{value!r}"], object)
    )[0]


def _hash_floats(values: NDArray[np.float64]) -> NDArray[np.uint64]:
    whole = (
        (np.abs(values) < 2.0**62)
        & (values == np.floor(values))
        & ~(np.signbit(values) & (values == 0))
    )
    integers = np.where(whole, values, 0).astype(np.int64).view(np.uint64)
    hashes = np.where(whole, _mix(integers), _mix(values.view(np.uint64) ^ _SALT))
    hashes[np.isnan(values)] = _MISSING
    return hashes


def _mix(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    for multiplier in _MULTIPLIERS:
        words = (words ^ (words >> np.uint64(31))) * multiplier
    return words ^ (words >> np.uint64(29))


def combine(left: NDArray[np.uint64], right: NDArray[np.uint64]) -> NDArray[np.uint64]:
    return _mix(_mix(left ^ _SALT) + right)


def to_floats(values: NDArray[Any]) -> NDArray[np.float64]:
    if values.dtype.kind in "iubf":
        return values.astype(float)
    return np.array([_to_float(value) for value in values])


def _to_float(value: Any) -> float:
    if not isinstance(value, int | float | np.number):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan
