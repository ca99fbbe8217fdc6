"""The same rows in frames of every kind, with hidden data that must not be released."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd

from skdp.testing._tools import Rows, objects_of_rows

# The hidden data of each frame, in every place where it can be.
SECRET = "s3cr3t, and too long for Polars to keep in place"
_SECRET_NUMBER = 72_619


def signs(data: bytes) -> bool:
    """Whether serialised data contains the secret."""
    integer = np.array([_SECRET_NUMBER]).tobytes()
    number = np.array([_SECRET_NUMBER], float).tobytes()
    return SECRET.encode() in data or integer in data or number in data


def burdened_frames(rows: Rows) -> Iterator[tuple[str, Any]]:
    """Yield the same rows as frames of each kind, with the secret beside the rows."""
    # A slice of a larger table often keeps all of its memory: each frame is one, and
    # the row before and the row after it hold the secret.
    widened = {}
    for name, column in rows.items():
        stranger = _stranger(column)
        widened[name] = [stranger, *map(_copied, column), stranger]
    yield from _pandas_frames(widened)
    yield from _arrays(widened)
    if find_spec("pyarrow") is not None:
        yield from _arrow_tables(widened)
    if find_spec("polars") is not None:
        yield from _polars_frames(widened)


def _stranger(column: Sequence[Any]) -> Any:
    """Return the value of rows outside of a slice."""
    # An empty list says nothing of what the lists of a column hold.
    value = next((value for value in column if value not in (None, ())), None)
    if value is None or isinstance(value, str):
        return SECRET
    if isinstance(value, tuple):
        return tuple(_stranger([element]) for element in value)
    if type(value) in (int, float):
        return type(value)(_SECRET_NUMBER)
    return value


def _copied(value: Any) -> Any:
    """Copy a text, so that it is an object of this frame only."""
    return "".join(list(value)) if isinstance(value, str) else value


def _is_text(column: Sequence[Any]) -> bool:
    return all(value is None or isinstance(value, str) for value in column)


def _has_lists(rows: Rows) -> bool:
    return any(isinstance(column[0], tuple) for column in rows.values())


def _levels(column: Sequence[Any]) -> list[Any]:
    """Return the values in the order of their appearance; that of the strangers does not occur in the slice."""
    return list(dict.fromkeys(value for value in column if value is not None))


def _pandas_frames(widened: Rows) -> Iterator[tuple[str, Any]]:
    makers: dict[str, Callable[[Sequence[Any]], pd.Series]] = {"pandas": _objects}
    if not _has_lists(widened):
        makers["pandas, string"] = (
            pd.Series
        )  # of text; numbers are as pandas reads them
        makers["pandas, nullable"] = _masked
        makers["pandas, category"] = _categories
        if find_spec("pyarrow") is not None:
            makers["pandas, Arrow"] = _in_arrow
            makers["pandas, Arrow dictionary"] = _in_arrow_dictionary
    size = len(next(iter(widened.values())))
    labels = [f"row {7 * place % size}" for place in range(size)]
    labels[0] = labels[-1] = SECRET
    index = pd.MultiIndex.from_arrays([labels, range(size)])
    for kind, make in makers.items():
        columns = dict(zip(widened, map(make, widened.values()), strict=True))
        frame = pd.DataFrame(columns).set_axis(index).iloc[1:-1]
        frame.attrs["note"] = SECRET
        for name in frame:
            frame[name].attrs["note"] = SECRET
        yield kind, frame


def _objects(column: Sequence[Any]) -> pd.Series:
    is_object = _is_text(column) or isinstance(column[0], tuple)
    return pd.Series(column, dtype=object if is_object else None)


def _masked(column: Sequence[Any]) -> pd.Series:
    """Put the secret under the mask of missing values."""
    stranger = column[0]
    dtypes = {bool: "boolean", int: "Int64", float: "Float64"}
    dtype = dtypes.get(type(stranger), "string" if _is_text(column) else object)
    # A missing number is set by its mask alone, and what it was stays beneath.
    series = pd.Series([stranger] * len(column), dtype=dtype)
    for place, value in enumerate(column):
        series[place] = value
    return series


def _categories(column: Sequence[Any]) -> pd.Series:
    return pd.Series(pd.Categorical(column, categories=_levels(column)))


def _in_arrow(column: Sequence[Any]) -> pd.Series:
    import pyarrow as pa

    return pd.Series(column, dtype=pd.ArrowDtype(pa.array(column).type))


def _in_arrow_dictionary(column: Sequence[Any]) -> pd.Series:
    return pd.Series(pd.arrays.ArrowExtensionArray(_arrow_dictionary(column)))


def _arrays(widened: Rows) -> Iterator[tuple[str, Any]]:
    array = objects_of_rows(widened)
    yield "array", array[1:-1]
    if set(map(type, array.flat)) == {str}:
        yield "array of text", array.astype(str)[1:-1]


def _arrow_tables(widened: Rows) -> Iterator[tuple[str, Any]]:
    import pyarrow as pa

    makers: dict[str, Callable[[Sequence[Any]], Any]] = {"pyarrow": _over_nulls}
    if not _has_lists(widened):
        makers["pyarrow, string view"] = _arrow_views
        makers["pyarrow, dictionary"] = _arrow_dictionary
    # Metadata of a schema are copied by most functions of Arrow.
    for kind, make in makers.items():
        arrays, fields = [], []
        for name, column in widened.items():
            array = make(column)
            arrays.append(array)
            fields.append(pa.field(name, array.type, metadata={"note": SECRET}))
        schema = pa.schema(fields, metadata={"note": SECRET, "pandas": SECRET})
        table = pa.Table.from_arrays(arrays, schema=schema)
        frame = table.slice(1, len(table) - 2)
        yield kind, frame
    if not _has_lists(widened):
        cut = _first_change(widened)
        yield (
            f"{kind}, chunked",
            pa.concat_tables([frame.slice(0, cut), frame.slice(cut)]),
        )


def _over_nulls(column: Sequence[Any]) -> Any:
    """Put the secret under the nulls of an array of text."""
    import pyarrow as pa

    array = pa.array(column, "string" if _is_text(column) else None)
    if not pa.types.is_string(array.type):
        return array
    # The bits that say what is null, over the texts of an array without nulls.
    validity, *_ = array.buffers()
    _, *texts = array.fill_null(SECRET).buffers()
    return pa.Array.from_buffers(array.type, len(array), [validity, *texts])


def _arrow_views(column: Sequence[Any]) -> Any:
    import pyarrow as pa

    return pa.array(column, "string_view" if _is_text(column) else None)


def _arrow_dictionary(column: Sequence[Any]) -> Any:
    import pyarrow as pa

    return pa.array(column).dictionary_encode()


def _first_change(widened: Rows) -> int:
    """Return the row of a slice where the first column changes, at which a chunk ends."""
    _, *values, _ = next(iter(widened.values()))
    for place, value in enumerate(values):
        if value != values[0]:
            return place
    return 1


def _polars_frames(widened: Rows) -> Iterator[tuple[str, Any]]:
    import polars as pl

    # The dtype of text; that of an Enum follows from the column.
    dtypes: dict[str, Any] = {"polars": None}
    if not _has_lists(widened):
        dtypes["polars, Enum"] = "Enum"
        if hasattr(pl, "Categories"):  # with a table of its own
            dtypes["polars, own Categorical"] = pl.Categorical(pl.Categories.random())
        dtypes["polars, Categorical"] = pl.Categorical()
    for kind, dtype in dtypes.items():
        columns = {}
        for name, column in widened.items():
            dtype_of_column = dtype if _is_text(column) else None
            if dtype_of_column == "Enum":
                dtype_of_column = pl.Enum(_levels(column))
            columns[name] = pl.Series(column, dtype=dtype_of_column)
        table = pl.DataFrame(columns)
        frame = table.slice(1, table.height - 2)
        # polars notes where it has seen that a column rises.
        for name, column in widened.items():
            if _rises(column[1:-1]):
                frame = frame.with_columns(pl.col(name).set_sorted())
        yield kind, frame
    if not _has_lists(widened):
        cut = _first_change(widened)
        chunks = [frame.slice(0, cut), frame.slice(cut)]
        yield f"{kind}, chunked", pl.concat(chunks, rechunk=False)


def _rises(column: Sequence[Any]) -> bool:
    return None not in column and list(column) == sorted(column)
