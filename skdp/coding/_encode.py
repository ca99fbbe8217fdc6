"""Encode the values of a column as integer codes, and distinguish 1, True and "1" by their kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from numbers import Integral, Real
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray


class ColumnError(ValueError):
    """A column cannot be encoded; the message holds no value of it."""


def shielded(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function that reads values, and replace the errors of other libraries."""
    # Their texts, attributes and contexts may hold a value. The new error is raised outside of the handler, so that it
    # has no context.
    try:
        return function(*arguments)
    except ColumnError as error:
        message = str(error)
    except Exception as error:
        message = f"cannot be read ({type(error).__name__})"
    raise ColumnError(message)


def library_of(column: Any) -> str:
    """Return the name of the library of a series."""
    library, name = type(column).__module__.partition(".")[0], type(column).__name__
    if (library, name) in (
        ("pandas", "Series"),
        ("polars", "Series"),
        ("pyarrow", "ChunkedArray"),
    ):
        return library  # narwhals takes 0.1 ms per batch
    series = nw.from_native(column, series_only=True, pass_through=True)
    name = (
        series.implementation.name.lower()
        if isinstance(series, nw.Series)
        else type(column).__name__
    )
    if name not in ("pandas", "polars", "pyarrow"):
        raise ColumnError(
            f"columns of {name} are not supported; use pandas, polars or pyarrow"
        )
    return name


def is_missing(value: Any) -> bool:
    """Whether a value is missing: None, nan, ``pd.NA`` or NaT."""
    try:
        return value is None or (
            bool(np.isscalar(value) or value is pd.NA or value is pd.NaT)
            and bool(pd.isna(value))
        )
    except Exception:  # not comparable with itself, such as Decimal("sNaN")
        return False


_KINDS = {bool: "boolean", int: "number", float: "number", str: "string"}


def kind_of(value: Any) -> str:
    """Return the kind of a value; only values of one kind are compared."""
    if type(value) in _KINDS:
        return _KINDS[type(value)]
    try:
        if isinstance(value, bool | np.bool_):
            return "boolean"
        if isinstance(value, Real):
            return "number"
        if isinstance(value, str):
            return "string"
        if isinstance(value, datetime | np.datetime64):
            return "datetime"
    except Exception:  # an object that hides its class
        pass
    return type(value).__name__


def plain(value: Any) -> Any:
    """Convert a NumPy scalar to a Python object, and missing to None."""
    if type(value) in (str, int, bool):
        return value
    if is_missing(value):
        return None
    kind = kind_of(value)
    if kind == "boolean":
        return bool(value)
    if kind == "string":
        return str.__str__(value)  # not `str`, which returns the name of an Enum member
    if kind == "datetime":
        return pd.Timestamp(value)
    if isinstance(value, Integral):
        return int(value)
    return float(value) if isinstance(value, np.floating) else value


Codes = NDArray[np.unsignedinteger]

_BLOCK = 1 << 16
_FEW_VALUES, _SHORT_TEXT = (
    6,
    12,
)  # bytes, which Polars stores inline: comparing with each is faster than hashing

_COMMON_TYPES: dict[type, str] = {
    **dict.fromkeys((str, np.str_), "string"),
    **dict.fromkeys((int, float, np.int64, np.float64), "number"),
    **dict.fromkeys((bool, np.bool_), "boolean"),
    type(None): "missing",
}


class ValueCoder:
    """Encoder of columns of any library by the declared values of one column."""

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = tuple(values)
        self.outside = len(self.values)
        self.dtype = np.min_scalar_type(self.outside)
        self.codes = {
            value: code for code, value in enumerate(self.values) if value is not None
        }
        self.missing = self.values.index(None) if None in self.values else self.outside
        self.kind = next((kind_of(value) for value in self.codes), None)

    def encode(self, column: Any) -> Codes:
        """Code a column."""
        if isinstance(column, np.ndarray):
            return self._encode_array(column, None)
        encode = {
            "pandas": self._encode_pandas,
            "polars": self._encode_polars,
            "pyarrow": self._encode_arrow,
        }
        return encode[library_of(column)](column)

    def _code_of(self, value: Any) -> int:
        if is_missing(value):
            return self.missing
        try:
            return (
                self.codes.get(plain(value), self.outside)
                if kind_of(value) == self.kind
                else self.outside
            )
        except (
            Exception
        ):  # objects that cannot be converted, hashed or compared are not declared
            return self.outside

    def _encode_one_by_one(self, values: Any) -> Codes:
        return np.fromiter(
            (self._code_of(value) for value in values), self.dtype, len(values)
        )

    def _look_up(
        self, level_codes: NDArray[np.integer], level_values: Sequence[Any]
    ) -> Codes:
        """Translate codes of another dictionary; ``len(level_values)`` and -1 mean missing."""
        table = np.array([*map(self._code_of, level_values), self.missing], self.dtype)
        return take(table, level_codes)

    def _mark_missing(self, codes: Codes, mask: NDArray[np.bool_] | None) -> Codes:
        if mask is not None:
            codes[mask] = self.missing
        return codes

    def _encode_pandas(self, column: pd.Series) -> Codes:
        dtype = column.dtype
        if isinstance(dtype, pd.CategoricalDtype):
            return self._look_up(
                column.cat.codes.to_numpy(), dtype.categories.to_list()
            )
        if (
            isinstance(dtype, pd.ArrowDtype)
            or getattr(dtype, "storage", None) == "pyarrow"
        ):
            import pyarrow

            return self._encode_arrow(pyarrow.array(column.array))
        if isinstance(dtype, pd.api.extensions.ExtensionDtype) and hasattr(
            dtype, "numpy_dtype"
        ):
            filled = column.to_numpy(dtype=dtype.numpy_dtype, na_value=dtype.type(0))
            return self._encode_array(filled, column.isna().to_numpy())
        if isinstance(dtype, np.dtype):
            return self._encode_array(column.to_numpy(), None)
        return self._encode_array(column.to_numpy(dtype=object), None)

    def _encode_polars(self, column: Any) -> Codes:
        import polars

        mask = column.is_null().to_numpy() if column.null_count() else None
        if column.dtype in (polars.String, polars.Categorical, polars.Enum):
            if self.kind != "string":
                return self._mark_missing(
                    np.full(len(column), self.outside, self.dtype), mask
                )
            if column.dtype == polars.Enum:
                names = column.dtype.categories.to_list()
                places = column.to_physical()
                if mask is not None:
                    places = places.cast(polars.UInt32).fill_null(len(names))
                return self._look_up(places.to_numpy(), names)
            levels = list(self.codes)
            if len(levels) <= _FEW_VALUES and all(
                len(level.encode()) <= _SHORT_TEXT for level in levels
            ):
                return self._mark_missing(
                    self._compare_polars(column.cast(polars.String)), mask
                )
            coded = (
                column.cast(polars.String)
                .cast(polars.Enum(levels), strict=False)
                .to_physical()
            )
            codes = self._look_up_known(
                coded.cast(polars.UInt32).fill_null(len(levels)).to_numpy()
            )
            return self._mark_missing(codes, mask)
        if column.dtype.is_numeric() or column.dtype == polars.Boolean:
            zero = False if column.dtype == polars.Boolean else 0
            return self._encode_array(column.fill_null(zero).to_numpy(), mask)
        return self._encode_one_by_one(column.to_list())

    def _compare_polars(self, column: Any) -> Codes:
        import polars

        codes = polars.lit(self.outside, polars.UInt8)
        for value, code in self.codes.items():
            codes = (
                polars.when(polars.col("") == value)
                .then(polars.lit(code, polars.UInt8))
                .otherwise(codes)
            )
        return column.to_frame("").select(codes).to_series().to_numpy(writable=True)

    def _encode_arrow(self, column: Any) -> Codes:
        import pyarrow
        from pyarrow import compute, types

        if types.is_dictionary(column.type):
            return self._encode_dictionary(column)
        mask = (
            column.is_null().to_numpy(zero_copy_only=False)
            if column.null_count
            else None
        )
        if types.is_string_view(column.type):
            column = column.cast(
                pyarrow.large_string()
            )  # Arrow has no `index_in` for views
        if types.is_string(column.type) or types.is_large_string(column.type):
            if self.kind != "string":
                return self._mark_missing(
                    np.full(len(column), self.outside, self.dtype), mask
                )
            coded = compute.index_in(
                column, value_set=pyarrow.array(list(self.codes), column.type)
            )
            filled = coded.fill_null(len(self.codes)).to_numpy()
            return self._mark_missing(self._look_up_known(filled), mask)
        if (
            types.is_integer(column.type)
            or types.is_floating(column.type)
            or types.is_boolean(column.type)
        ):
            zero = pyarrow.scalar(
                False if types.is_boolean(column.type) else 0, column.type
            )
            return self._encode_array(
                column.fill_null(zero).to_numpy(zero_copy_only=False), mask
            )
        return self._encode_one_by_one(column.to_pylist())

    def _encode_dictionary(self, column: Any) -> Codes:
        # Each chunk may have its own dictionary.
        codes = np.empty(len(column), self.dtype)
        start = 0
        for chunk in getattr(column, "chunks", [column]):
            names = chunk.dictionary.to_pylist()
            indices = (
                chunk.indices.cast("int64")
                .fill_null(len(names))
                .to_numpy(zero_copy_only=False)
            )
            codes[start : start + len(chunk)] = self._look_up(indices, names)
            start += len(chunk)
        return codes

    def _look_up_known(self, positions: NDArray[np.integer]) -> Codes:
        """Translate positions among the values that are not missing; the position after the last is outside."""
        return take(
            np.array([*self.codes.values(), self.outside], self.dtype), positions
        )

    def _encode_array(
        self, array: NDArray[Any], mask: NDArray[np.bool_] | None
    ) -> Codes:
        if array.dtype.kind in "iufb":
            codes = self._encode_numbers(array)
            if array.dtype.kind == "f" and (absent := np.isnan(array)).any():
                codes[absent] = self.missing
        elif array.dtype.kind in "mM":
            codes = self._encode_one_by_one(pd.Series(array).astype(object))
        else:
            codes = self._encode_objects(array.astype(object))
        return self._mark_missing(codes, mask)

    def _encode_numbers(self, array: NDArray[Any]) -> Codes:
        codes = np.full(array.shape, self.outside, self.dtype)
        if self.kind != ("boolean" if array.dtype.kind == "b" else "number"):
            return codes
        known: dict[Any, int] = {}
        for value, code in self.codes.items():
            if _holds(array.dtype, value):
                if array.dtype.type(value) in known:
                    raise ColumnError(
                        f"two declared values are the same number in a column of dtype {array.dtype}"
                    )
                known[array.dtype.type(value)] = code
        if not known:
            return codes
        if array.dtype.kind in "iu" and array.dtype.itemsize <= 2:
            # Tabulate the code of every value of the dtype.
            every = np.full(1 << 8 * array.dtype.itemsize, self.outside, self.dtype)
            for value, code in known.items():
                every[value] = code  # a negative value indexes from the end in both
            return take(every, array)
        values = np.array(sorted(known), array.dtype)
        table = np.array([known[value] for value in values], self.dtype)
        for start in range(0, array.size, _BLOCK):
            block = array[start : start + _BLOCK]
            places = np.minimum(np.searchsorted(values, block), values.size - 1)
            np.copyto(
                codes[start : start + _BLOCK],
                table[places],
                where=values[places] == block,
            )
        return codes

    def _encode_objects(self, array: NDArray[np.object_]) -> Codes:
        # Value by value: the time of a fast path for columns of one kind would reveal that a value is of another.
        coders = {kind: self._coder_of(kind) for kind in _COMMON_TYPES}
        code_of = self._code_of
        return np.fromiter(
            (coders.get(type(value), code_of)(value) for value in array),
            self.dtype,
            len(array),
        )

    def _coder_of(self, kind: type) -> Callable[[Any], int]:
        """Return `_code_of` specialised to a common type, in equal time for declared and other types."""
        known, outside, missing = self.codes.get, self.outside, self.missing
        if kind is type(None):
            return lambda value: missing
        own = _COMMON_TYPES[kind] == self.kind
        if issubclass(kind, float):
            return lambda value: (
                missing if value != value else known(value, outside) if own else outside
            )
        return lambda value: known(value, outside) if own else outside


def take(table: NDArray[Any], positions: NDArray[np.integer]) -> NDArray[Any]:
    """Look up positions in a small table, by blocks to avoid a wide copy of the positions."""
    out = np.empty(len(positions), table.dtype)
    for start in range(0, len(positions), _BLOCK):
        out[start : start + _BLOCK] = table[positions[start : start + _BLOCK]]
    return out


def _holds(dtype: np.dtype[Any], value: Any) -> bool:
    """Whether a dtype can represent a value exactly, or a decimal fraction rounded to a narrower float."""
    try:
        with np.errstate(all="ignore"):
            cast = dtype.type(value)
            return bool(
                cast == value if isinstance(value, float) else cast.item() == value
            )
    except OverflowError:
        return False
