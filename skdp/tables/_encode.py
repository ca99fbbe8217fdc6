"""Encode the values of a column as integer codes of a list of values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.tables._columns import (
    KIND_NAMES,
    cells_of,
    held_by,
    kind_of_dtype,
    may_hold_nothing,
    name_of_dtype,
    objects_of,
    take,
)
from skdp.tables._values import ColumnError, is_missing, kind_of, plain

Codes = NDArray[np.unsignedinteger]

_BLOCK = 1 << 16

_FEW_VALUES, _SHORT_TEXT = 6, 12
"""Values, and bytes of each, that Polars compares faster than it hashes: it stores up to 12 bytes in line."""

_COMMON_TYPES = {
    "string": (str, np.str_),
    "number": (int, float, np.int64, np.float64),
    "boolean": (bool, np.bool_),
}


class ValueCoder:
    """Encoder of columns of any library by the declared values of one column."""

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = tuple(values)
        self.outside = len(self.values)
        self.dtype = np.min_scalar_type(self.outside)
        self.missing = self.outside
        self.codes: dict[Any, int] = {}
        for code, value in enumerate(self.values):
            if value is None:
                self.missing = code
            else:
                self.codes[value] = code
        self.kind = next((kind_of(value) for value in self.codes), None)

    def check_dtype(self, column: Any, *, declared: str) -> None:
        """Refuse a dtype that can hold none of the declared values: it is public, unlike the values of objects."""
        kind = kind_of_dtype(column)
        if self.kind is None or kind == self.kind or kind not in KIND_NAMES:
            return
        # What libraries make of a column without values, or in which all of them are
        # missing: to refuse it would show that no record has a value.
        may_be_missing = None in self.values or len(column) == 0
        if may_be_missing and may_hold_nothing(column):
            return
        raise ColumnError(
            f"its dtype {name_of_dtype(column)} holds {KIND_NAMES[kind]}, which the "
            f"declared values {declared} are not; convert the column, or declare what "
            "it holds"
        )

    def encode(self, column: Any) -> Codes:
        """Code a column."""
        library, column = held_by(column)
        if library == "pyarrow":
            return self._encode_arrow(column)
        if library == "polars":
            return self._encode_polars(column)
        if isinstance(column.dtype, pd.CategoricalDtype):
            levels = column.dtype.categories.to_list()
            return self._look_up(column.cat.codes.to_numpy(), levels)
        return self._encode_cells(column)

    def _encode_cells(self, column: Any) -> Codes:
        cells, is_null = cells_of(column)
        if cells.dtype.kind in "iufb":
            codes = self._encode_numbers(cells)
        elif cells.dtype.kind in "mM":
            codes = self._encode_objects(objects_of(column))
        else:
            codes = self._encode_objects(cells.astype(object, copy=False))
        if is_null is not None:
            codes[is_null] = self.missing
        return codes

    def _look_up(
        self, level_codes: NDArray[np.integer], levels: Iterable[Any]
    ) -> Codes:
        """Translate codes of another dictionary, of which the last one means missing."""
        table = np.array([*map(self._code_of, levels), self.missing], self.dtype)
        return take(table, level_codes)

    def _code_of(self, value: Any) -> int:
        if is_missing(value):
            return self.missing
        # Objects that cannot be converted, hashed or compared are not declared.
        try:
            if kind_of(value) == self.kind:
                return self.codes.get(plain(value), self.outside)
        except Exception:
            pass
        return self.outside

    def _encode_polars(self, column: Any) -> Codes:
        import polars

        if kind_of_dtype(column) != "string" or self.kind != "string":
            return self._encode_cells(column)
        if column.dtype == polars.Enum:
            names = column.dtype.categories.to_list()
            places = column.to_physical()
            if places.null_count():
                places = places.cast(polars.UInt32).fill_null(len(names))
            return self._look_up(places.to_numpy(), names)
        column = column.cast(polars.String)
        texts = list(self.codes)
        are_short = all(len(text.encode()) <= _SHORT_TEXT for text in texts)
        if are_short and len(texts) <= _FEW_VALUES:
            codes = _compare_polars(column, self.codes, self.outside)
        else:
            places = column.cast(polars.Enum(texts), strict=False).to_physical()
            places = places.cast(polars.UInt32).fill_null(len(texts))
            codes = self._code_at(places.to_numpy())
        if column.null_count():
            codes[column.is_null().to_numpy()] = self.missing
        return codes

    def _encode_arrow(self, column: Any) -> Codes:
        import pyarrow
        from pyarrow import compute, types

        if types.is_dictionary(column.type):
            # Each chunk may have its own dictionary.
            parts = [self._encode_dictionary(chunk) for chunk in column.chunks]
            return np.concatenate([np.empty(0, self.dtype), *parts])
        if kind_of_dtype(column) != "string" or self.kind != "string":
            return self._encode_cells(column)
        if types.is_string_view(column.type):
            # Arrow has no `index_in` for views.
            column = column.cast(pyarrow.large_string())
        texts = pyarrow.array(list(self.codes), column.type)
        places = compute.index_in(column, value_set=texts).fill_null(len(texts))
        codes = self._code_at(places.to_numpy())
        if column.null_count:
            codes[column.is_null().to_numpy(zero_copy_only=False)] = self.missing
        return codes

    def _encode_dictionary(self, chunk: Any) -> Codes:
        levels = chunk.dictionary.to_pylist()
        places = chunk.indices.cast("int64").fill_null(len(levels))
        return self._look_up(places.to_numpy(zero_copy_only=False), levels)

    def _code_at(self, places: NDArray[np.integer]) -> Codes:
        """Translate places among the values that are not missing; the place after the last is outside."""
        return take(np.array([*self.codes.values(), self.outside], self.dtype), places)

    def _encode_numbers(self, array: NDArray[Any]) -> Codes:
        kind = "boolean" if array.dtype.kind == "b" else "number"
        code_of = self._codes_in(array.dtype) if self.kind == kind else {}
        if not code_of:
            codes = np.full(array.shape, self.outside, self.dtype)
        elif array.dtype.kind in "iu" and array.dtype.itemsize <= 2:
            codes = take(self._table_of(array.dtype, code_of), array)
        else:
            codes = self._search(array, code_of)
        if array.dtype.kind == "f":
            is_nan = np.isnan(array)
            if is_nan.any():
                codes[is_nan] = self.missing
        return codes

    def _table_of(self, dtype: np.dtype[Any], code_of: dict[Any, int]) -> Codes:
        """Return the code of each number of a dtype of 8 or 16 bits."""
        # A negative number indexes from the end, in the table as in what looks it up.
        table = np.full(1 << 8 * dtype.itemsize, self.outside, self.dtype)
        for number, code in code_of.items():
            table[number] = code
        return table

    def _search(self, array: NDArray[Any], code_of: dict[Any, int]) -> Codes:
        codes = np.full(array.shape, self.outside, self.dtype)
        numbers = np.array(sorted(code_of), array.dtype)
        table = np.array([code_of[number] for number in numbers], self.dtype)
        # By blocks, so that the places stay in the cache.
        for start in range(0, array.size, _BLOCK):
            block = array[start : start + _BLOCK]
            places = np.searchsorted(numbers, block)
            np.minimum(places, numbers.size - 1, out=places)
            is_known = numbers[places] == block
            np.copyto(codes[start : start + _BLOCK], table[places], where=is_known)
        return codes

    def _codes_in(self, dtype: np.dtype[Any]) -> dict[Any, int]:
        """Return the codes of the values that a dtype can hold, by these as the dtype holds them."""
        code_of: dict[Any, int] = {}
        for value, code in self.codes.items():
            if _holds(dtype, value):
                number = dtype.type(value)
                if number in code_of:
                    raise ColumnError(
                        "two declared values are the same number in a column of dtype "
                        f"{dtype}"
                    )
                code_of[number] = code
        return code_of

    def _encode_objects(self, values: Any) -> Codes:
        return np.fromiter(self._object_codes(values), self.dtype, len(values))

    def _object_codes(self, values: Iterable[Any]) -> Iterator[int]:
        # Value by value, and in equal time for declared and other types: the time of a
        # fast path for columns of one kind would reveal that a value is of another.
        codes_of_type: dict[type, dict[Any, int]] = {type(None): {None: self.missing}}
        for kind, common_types in _COMMON_TYPES.items():
            codes = self.codes if kind == self.kind else {}
            codes_of_type |= dict.fromkeys(common_types, codes)
        for value in values:
            code_of = codes_of_type.get(type(value))
            if code_of is None:
                yield self._code_of(value)
            elif value != value:  # nan
                yield self.missing
            else:
                yield code_of.get(value, self.outside)


def _compare_polars(column: Any, codes: dict[Any, int], outside: int) -> Codes:
    import polars

    code_of = polars.lit(outside, polars.UInt8)
    for value, code in codes.items():
        is_equal = polars.when(polars.col("") == value)
        code_of = is_equal.then(polars.lit(code, polars.UInt8)).otherwise(code_of)
    return column.to_frame("").select(code_of).to_series().to_numpy(writable=True)


def _holds(dtype: np.dtype[Any], value: Any) -> bool:
    """Whether a dtype can represent a value exactly, or a decimal fraction rounded to a narrower float."""
    try:
        with np.errstate(all="ignore"):
            cast = dtype.type(value)
            number = cast if isinstance(value, float) else cast.item()
            return bool(number == value)
    except OverflowError:
        return False
