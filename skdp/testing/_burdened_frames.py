"""The same rows in frames of every kind, with hidden data that must not be released."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd

from skdp.testing._tools import Rows, as_lists, objects_of_rows

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
    # They are sliced out of larger ones.
    if any(isinstance(value, tuple) for column in rows.values() for value in column):
        yield from _frames_of_lists(rows)
        return
    yield from _pandas_frames(rows)
    try:
        yield from _arrow_tables(rows)
        yield from _polars_frames(rows)
    except ImportError:
        return


def _frames_of_lists(rows: Rows) -> Iterator[tuple[str, Any]]:
    """Yield rows whose cells are lists, between two rows with the secret."""
    whole = {}
    for name, column in rows.items():
        whole[name] = [_other_cell(column), *column, _other_cell(column)]
    yield "pandas", pd.DataFrame(whole, dtype=object).iloc[1:-1]
    yield "array", objects_of_rows(whole)[1:-1]
    try:
        import polars as pl
        import pyarrow as pa
    except ImportError:
        return
    lists = {name: as_lists(column) for name, column in whole.items()}
    table = pa.table(lists).replace_schema_metadata({"note": SECRET})
    yield "pyarrow", table.slice(1, len(table) - 2)
    columns = {name: pl.Series(column) for name, column in lists.items()}
    yield "polars", pl.DataFrame(columns)[1:-1]


def _other_cell(column: Sequence[Any]) -> Any:
    """Return a cell of another row: a list with a secret in place of each value."""
    cell = next((value for value in column if value), ())
    if isinstance(cell, tuple):
        return tuple(_stranger([value]) for value in cell)
    return _stranger(column)


def _is_text(column: Sequence[Any]) -> bool:
    return all(value is None or isinstance(value, str) for value in column)


def _fresh(column: Sequence[Any]) -> list[Any]:
    """Copy the texts, so that they are distinct objects."""
    copies = []
    for value in column:
        if isinstance(value, str):
            value = "".join(list(value))
        copies.append(value)
    return copies


def _stranger(column: Sequence[Any]) -> Any:
    """Return the value of rows outside of a slice."""
    value = next((value for value in column if value is not None), None)
    if value is None or isinstance(value, str):
        return SECRET
    if type(value) in (int, float):
        return type(value)(_SECRET_NUMBER)
    return value


def _widened(column: Sequence[Any]) -> list[Any]:
    return [_stranger(column), *_fresh(column), _stranger(column)]


def _levels(column: Sequence[Any]) -> list[Any]:
    """Return the values in the order of their appearance, and one that does not occur."""
    levels = dict.fromkeys(value for value in column if value is not None)
    return list(levels | {_stranger(column): None})


def _pandas_frames(rows: Rows) -> Iterator[tuple[str, Any]]:
    makers: dict[str, Callable[[Sequence[Any]], pd.Series]] = {
        "pandas": _pandas_objects,
        "pandas, string": _pandas_strings,
        "pandas, nullable": _masked,
        "pandas, category": _pandas_categories,
    }
    if find_spec("pyarrow") is not None:
        makers["pandas, Arrow"] = _pandas_arrow
        makers["pandas, Arrow dictionary"] = _pandas_dictionary
    size = len(next(iter(rows.values()))) + 2
    labels = [f"row {7 * place % size}" for place in range(size)]
    labels[0] = labels[-1] = SECRET
    for label, make in makers.items():
        columns = {name: make(_widened(column)) for name, column in rows.items()}
        index = pd.MultiIndex.from_arrays([labels, range(size)])
        frame = pd.DataFrame(columns).set_axis(index).iloc[1:-1]
        frame.attrs["note"] = SECRET
        for name in frame:
            frame[name].attrs["note"] = SECRET
        yield label, frame
    array = np.array(list(map(_widened, rows.values())), dtype=object).T
    yield "array", array[1:-1]
    if all(_is_text(column) and None not in column for column in rows.values()):
        yield "array of text", array.astype(str)[1:-1]


def _pandas_objects(column: Sequence[Any]) -> pd.Series:
    return pd.Series(column, dtype=object if _is_text(column) else None)


def _pandas_strings(column: Sequence[Any]) -> pd.Series:
    return pd.Series(column, dtype="string" if _is_text(column) else _nullable(column))


def _pandas_categories(column: Sequence[Any]) -> pd.Series:
    return pd.Series(pd.Categorical(column, categories=_levels(column)))


def _pandas_arrow(column: Sequence[Any]) -> pd.Series:
    import pyarrow as pa

    return pd.Series(column, dtype=pd.ArrowDtype(pa.array(column).type))


def _nullable(column: Sequence[Any]) -> Any:
    kind = next((type(value) for value in column if value is not None), str)
    return {bool: "boolean", int: "Int64", float: "Float64"}.get(kind, object)


def _masked(column: Sequence[Any]) -> pd.Series:
    """Put the secret under the mask of missing values."""
    dtype = _nullable(column)
    if dtype not in ("Int64", "Float64"):
        return pd.Series(column, dtype="str" if _is_text(column) else dtype)
    mask = np.array([value is None for value in column])
    numbers = np.full(len(column), _SECRET_NUMBER, dtype.lower())
    numbers[~mask] = [value for value in column if value is not None]
    if dtype == "Int64":
        return pd.Series(pd.arrays.IntegerArray(numbers, mask))
    return pd.Series(pd.arrays.FloatingArray(numbers, mask))


def _pandas_dictionary(column: Sequence[Any]) -> pd.Series:
    coded = _arrow_dictionary(column)
    return pd.Series(pd.arrays.ArrowExtensionArray(coded))


def _arrow_dictionary(column: Sequence[Any]) -> Any:
    import pyarrow as pa

    levels = _levels(column)
    codes = [None if value is None else levels.index(value) for value in column]
    return pa.DictionaryArray.from_arrays(pa.array(codes, "int8"), pa.array(levels))


def _arrow_tables(rows: Rows) -> Iterator[tuple[str, Any]]:
    import pyarrow as pa

    makers: dict[str, Callable[[Sequence[Any]], Any]] = {
        "pyarrow": _arrow_strings,
        "pyarrow, string view": _arrow_views,
        "pyarrow, dictionary": _arrow_dictionary,
    }
    for label, make in makers.items():
        arrays, fields = [], []
        for name, column in rows.items():
            array = make(_widened(column))
            arrays.append(array)
            fields.append(pa.field(name, array.type, metadata={"note": SECRET}))
        schema = pa.schema(fields, metadata={"note": SECRET, "pandas": SECRET})
        whole = pa.Table.from_arrays(arrays, schema=schema)
        frame = whole.slice(1, len(whole) - 2)
        yield label, frame
        if label == "pyarrow, dictionary":
            cut = _change(rows)
            chunks = [frame.slice(0, cut), frame.slice(cut)]
            yield f"{label}, chunked", pa.concat_tables(chunks)


def _arrow_strings(column: Sequence[Any]) -> Any:
    import pyarrow as pa

    return _over_nulls(pa.array(column, "string" if _is_text(column) else None))


def _arrow_views(column: Sequence[Any]) -> Any:
    import pyarrow as pa

    return pa.array(column, "string_view" if _is_text(column) else None)


def _change(rows: Rows) -> int:
    """Return the position where the first column changes, at which a chunk ends."""
    first = next(iter(rows.values()))
    for place, value in enumerate(first):
        if value != first[0]:
            return place
    return 1


def _over_nulls(array: Any) -> Any:
    """Put the secret under the nulls of an array of text."""
    import pyarrow as pa

    if not array.null_count or not pa.types.is_string(array.type):
        return array
    full = array.fill_null(SECRET)
    return pa.Array.from_buffers(
        array.type, len(array), [array.buffers()[0], *full.buffers()[1:]]
    )


def _polars_frames(rows: Rows) -> Iterator[tuple[str, Any]]:
    import polars as pl

    # The dtype of text; that of an Enum follows from the column.
    dtypes: dict[str, Any] = {
        "polars": None,
        "polars, Categorical": pl.Categorical(),
        "polars, Enum": "Enum",
    }
    if hasattr(pl, "Categories"):  # with a separate table
        dtypes["polars, own Categorical"] = pl.Categorical(pl.Categories.random())
    for label, dtype in dtypes.items():
        columns = {}
        for name, column in rows.items():
            values = _widened(column)
            dtype_of_column = dtype if _is_text(values) else None
            if dtype_of_column == "Enum":
                dtype_of_column = pl.Enum(_levels(values))
            columns[name] = pl.Series(values, dtype=dtype_of_column)
        whole = pl.DataFrame(columns)
        frame = whole.slice(1, whole.height - 2)
        rising = [name for name, column in rows.items() if _rises(column)]
        yield label, frame.with_columns(pl.col(rising).set_sorted())
        if label == "polars, Categorical":
            cut = _change(rows)
            chunks = [frame.slice(0, cut), frame.slice(cut)]
            yield f"{label}, chunked", pl.concat(chunks, rechunk=False)


def _rises(column: Sequence[Any]) -> bool:
    return None not in column and list(column) == sorted(column)
