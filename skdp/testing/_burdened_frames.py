"""The same rows in frames of every kind, with hidden data that must not be released."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from skdp.testing._tools import Rows, as_lists, objects_of_rows

SECRET = "s3cr3t, and too long for Polars to keep in place"
"""The hidden data of each frame, in every place where it can be."""

_SECRET_NUMBER = 72_619
_NUMBERS = (bool, int, float)


def signs(data: bytes) -> bool:
    """Whether serialised data contains the secret."""
    numbers = np.array([_SECRET_NUMBER]), np.array([_SECRET_NUMBER], float)
    return SECRET.encode() in data or any(
        number.tobytes() in data for number in numbers
    )


def burdened_frames(rows: Rows) -> Iterator[tuple[str, Any]]:
    """Yield the same rows as frames of each kind, sliced out of larger ones, and with the secret beside the rows."""
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
    whole = {
        name: [_other_cell(column), *column, _other_cell(column)]
        for name, column in rows.items()
    }
    yield (
        "pandas",
        pd.DataFrame(
            {name: pd.Series(column, dtype=object) for name, column in whole.items()}
        ).iloc[1:-1],
    )
    yield "array", objects_of_rows(whole)[1:-1]
    try:
        import polars as pl
        import pyarrow as pa
    except ImportError:
        return
    lists = {name: as_lists(column) for name, column in whole.items()}
    table = pa.table(lists).replace_schema_metadata({"note": SECRET})
    yield "pyarrow", table.slice(1, len(table) - 2)
    yield (
        "polars",
        pl.DataFrame({name: pl.Series(column) for name, column in lists.items()})[1:-1],
    )


def _other_cell(column: Sequence[Any]) -> Any:
    """Return a cell of another row: a list with a secret in place of each value."""
    cell = next((value for value in column if value), ())
    return (
        tuple(_stranger([value]) for value in cell)
        if isinstance(cell, tuple)
        else _stranger(column)
    )


def _is_text(column: Sequence[Any]) -> bool:
    return all(value is None or isinstance(value, str) for value in column)


def _fresh(column: Sequence[Any]) -> list[Any]:
    """Copy the texts, so that they are distinct objects."""
    return [
        "".join(list(value)) if isinstance(value, str) else value for value in column
    ]


def _stranger(column: Sequence[Any]) -> Any:
    """Return the values of rows outside of a slice."""
    known = [value for value in column if value is not None]
    if not known or isinstance(known[0], str):
        return SECRET
    kind = type(known[0])
    return kind(_SECRET_NUMBER) if kind in _NUMBERS[1:] else known[0]


def _widened(column: Sequence[Any]) -> list[Any]:
    return [_stranger(column), *_fresh(column), _stranger(column)]


def _levels(column: Sequence[Any]) -> list[Any]:
    """Return the values in the order of their first appearance, and then one that does not occur."""
    found = list(dict.fromkeys(value for value in column if value is not None))
    return [*found, _stranger(column)] if _stranger(column) not in found else found


def _pandas_frames(rows: Rows) -> Iterator[tuple[str, Any]]:
    makers: dict[str, Any] = {
        "pandas": lambda column: pd.Series(
            column, dtype=object if _is_text(column) else None
        ),
        "pandas, string": lambda column: pd.Series(
            column, dtype="string" if _is_text(column) else _nullable(column)
        ),
        "pandas, nullable": lambda column: _masked(column),
        "pandas, category": lambda column: pd.Series(
            pd.Categorical(column, categories=_levels(column))
        ),
    }
    try:
        import pyarrow as pa
    except ImportError:
        pass
    else:
        makers["pandas, Arrow"] = lambda column: pd.Series(
            column, dtype=pd.ArrowDtype(pa.array(column).type)
        )
        makers["pandas, Arrow dictionary"] = lambda column: _pandas_dictionary(column)
    for label, make in makers.items():
        whole = pd.DataFrame(
            {name: make(_widened(column)) for name, column in rows.items()}
        )
        size = len(whole)
        whole.index = pd.MultiIndex.from_tuples(
            [
                (SECRET if place in (0, size - 1) else f"row {7 * place % size}", place)
                for place in range(size)
            ],
        )
        frame = whole.iloc[1:-1]
        frame.attrs["note"] = SECRET
        for name in frame:
            frame[name].attrs["note"] = SECRET
        yield label, frame
    whole_array = np.array(
        [list(row) for row in zip(*map(_widened, rows.values()), strict=True)],
        dtype=object,
    )
    yield "array", whole_array[1:-1]
    if all(map(_is_text, rows.values())) and not any(
        None in column for column in rows.values()
    ):
        yield "array of text", whole_array.astype(str)[1:-1]


def _nullable(column: Sequence[Any]) -> Any:
    kind = next((type(value) for value in column if value is not None), str)
    return {bool: "boolean", int: "Int64", float: "Float64"}.get(kind, object)


def _masked(column: Sequence[Any]) -> pd.Series:
    """Put the secret under the mask of missing values."""
    dtype = _nullable(column)
    if dtype not in ("Int64", "Float64"):
        return pd.Series(column, dtype="str" if _is_text(column) else dtype)
    mask = np.array([value is None for value in column])
    data = np.array(
        [_SECRET_NUMBER if value is None else value for value in column], dtype.lower()
    )
    kind = pd.arrays.IntegerArray if dtype == "Int64" else pd.arrays.FloatingArray
    return pd.Series(kind(data, mask))


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

    def typed(kind: str, column: Sequence[Any]) -> Any:
        return pa.array(column, kind if _is_text(column) else None)

    makers: dict[str, Any] = {
        "pyarrow": lambda column: _over_nulls(typed("string", column)),
        "pyarrow, string view": lambda column: typed("string_view", column),
        "pyarrow, dictionary": _arrow_dictionary,
    }
    for label, make in makers.items():
        arrays = [make(_widened(column)) for column in rows.values()]
        fields = [
            pa.field(name, array.type, metadata={"note": SECRET})
            for name, array in zip(rows, arrays, strict=True)
        ]
        whole = pa.Table.from_arrays(
            arrays,
            schema=pa.schema(fields, metadata={"note": SECRET, "pandas": SECRET}),
        )
        frame = whole.slice(1, len(whole) - 2)
        yield label, frame
        if label == "pyarrow, dictionary":
            cut = _change(rows)
            yield (
                f"{label}, chunked",
                pa.concat_tables([frame.slice(0, cut), frame.slice(cut)]),
            )


def _change(rows: Rows) -> int:
    """Return the position where the first column changes, at which a chunk ends."""
    first = next(iter(rows.values()))
    return next((place for place, value in enumerate(first) if value != first[0]), 1)


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

    makers: dict[str, Any] = {
        "polars": lambda column: pl.Series(column),
        "polars, Categorical": lambda column: pl.Series(
            column, dtype=pl.Categorical() if _is_text(column) else None
        ),
        "polars, Enum": lambda column: pl.Series(
            column, dtype=pl.Enum(_levels(column)) if _is_text(column) else None
        ),
    }
    if hasattr(pl, "Categories"):  # with a separate table
        own = pl.Categories.random()
        makers["polars, own Categorical"] = lambda column: pl.Series(
            column, dtype=pl.Categorical(own) if _is_text(column) else None
        )
    for label, make in makers.items():
        whole = pl.DataFrame(
            {name: make(_widened(column)) for name, column in rows.items()}
        )
        frame = whole.slice(1, whole.height - 2)
        yield (
            label,
            frame.with_columns(
                pl.col(name).set_sorted()
                for name, column in rows.items()
                if _rises(column)
            ),
        )
        if label == "polars, Categorical":
            cut = _change(rows)
            yield (
                f"{label}, chunked",
                pl.concat([frame.slice(0, cut), frame.slice(cut)], rechunk=False),
            )


def _rises(column: Sequence[Any]) -> bool:
    return None not in column and all(one <= other for one, other in pairwise(column))
