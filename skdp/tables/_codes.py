"""Conversion of columns of any library to integer codes of declared values, and back."""

# The dtype of a decoded column follows from the declared values and the library alone. Otherwise one private value
# could change the dtype of a column: a missing value turns integers into floats and booleans into objects, a large
# value widens integers, and a fraction of a second turns seconds into nanoseconds.

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.tables._columns import (
    DECIMAL,
    VALUE_ERRORS,
    VALUE_TYPES,
    ColumnError,
    can_contain,
    cells_of,
    drop_missing,
    is_missing,
    name_of_dtype,
    to_objects,
    to_python,
    type_of_column,
    type_of_value,
    unwrap,
)

Codes = NDArray[np.unsignedinteger]
Decode = Callable[[NDArray[np.integer]], Any]


class ValueCoder:
    """Encoder of columns of any library by the declared values of a column."""

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = tuple(values)
        # The code of a value that is not declared, and the code of a missing value.
        self.outside = self.missing = len(self.values)
        self.dtype = np.min_scalar_type(self.outside)
        self.codes: dict[Any, int] = {}
        for code, value in enumerate(self.values):
            if value is None:
                self.missing = code
            else:
                self.codes[value] = code
        self.kind = next(map(type_of_value, self.codes), None)

    def check_dtype(self, column: Any, *, declared: str) -> None:
        """Refuse a dtype that cannot contain the declared values, unless all values are missing."""
        if self.kind is None:
            return
        kinds = {self.kind} | ({DECIMAL} if self.kind == "number" else set())
        if not can_contain(column, kinds):
            raise ColumnError(
                f"dtype {name_of_dtype(column)} cannot contain the declared values "
                f"{declared}; convert the column, or declare its own values"
            )

    def encode(self, column: Any) -> Codes:
        """Encode a column."""
        library, column = unwrap(column)
        if library == "pyarrow" and hasattr(column.type, "index_type"):
            return self.encode(column.cast(column.type.value_type))
        if library in ("polars", "pyarrow") and type_of_column(column) == "string":
            return self._encode_text(library, column)
        if library == "pandas" and isinstance(column.dtype, pd.CategoricalDtype):
            levels = self.encode(pd.Series(column.dtype.categories))
            table = np.append(levels, self.dtype.type(self.missing))
            coded: Codes = table[column.cat.codes.to_numpy()]  # -1 if missing
            return coded
        return self._encode_cells(column)

    def _encode_text(self, library: str, column: Any) -> Codes:
        texts = list(self.codes) if self.kind == "string" else []
        codes = np.array([self.codes[text] for text in texts], self.dtype)
        if library == "polars":
            import polars

            found = column.cast(polars.String).replace_strict(
                [*texts, None],
                [*codes, self.missing],
                default=self.outside,
                return_dtype=polars.UInt32,
            )
            return np.asarray(found.to_numpy(), self.dtype)
        import pyarrow
        from pyarrow import compute

        value_set = pyarrow.array([*texts, None], column.type)
        positions = compute.index_in(column, value_set=value_set).fill_null(-1)
        table = np.array([*codes, self.missing, self.outside], self.dtype)
        coded: Codes = table[positions.to_numpy()]
        return coded

    def _encode_cells(self, column: Any) -> Codes:
        cells, is_null = cells_of(column)
        if cells.dtype.kind in "iufb":
            codes = self._encode_numbers(cells)
        elif cells.dtype.kind == "M":
            codes = self._encode_times(column, cells)
        else:
            objects = cells.astype(object, copy=False)
            codes = np.fromiter(self._object_codes(objects), self.dtype, len(objects))
        if is_null is not None:
            codes[is_null] = self.missing
        return codes

    def _encode_numbers(self, cells: NDArray[Any]) -> Codes:
        dtype = cells.dtype
        code_of: dict[Any, int] = {}
        if self.kind == ("boolean" if dtype.kind == "b" else "number"):
            for value, code in self.codes.items():
                if not _represents(dtype, value):
                    continue
                number = dtype.type(value)
                if number in code_of:
                    raise ColumnError(
                        "two declared values are the same number in a column of dtype "
                        f"{dtype}"
                    )
                code_of[number] = code
        if dtype == np.float16:  # pandas has no index of half precision
            cells = cells.astype(np.float32)
        codes = self._find(cells, code_of)
        if dtype.kind == "f":
            codes[np.isnan(cells)] = self.missing
        return codes

    def _encode_times(self, column: Any, times: NDArray[Any]) -> Codes:
        """Encode dates and datetimes by their integers, because Python cannot represent all of them."""
        if type_of_column(column) == "date":
            times = times.astype("datetime64[D]")  # Arrow may have milliseconds of days
        code_of = {}
        if type_of_column(column) == self.kind:
            for value, code in self.codes.items():
                time = _numpy_time(value)
                # A unit may round a time or have no such time, for which NumPy 2.5 raises
                # an error and earlier versions return another time.
                with suppress(OverflowError):
                    time_in_unit = time.astype(times.dtype)
                    if time_in_unit.astype(time.dtype) == time:
                        code_of[time_in_unit.view(np.int64)] = code
        codes = self._find(times.view(np.int64), code_of)
        codes[np.isnat(times)] = self.missing
        return codes

    def _find(self, cells: NDArray[Any], code_of: dict[Any, int]) -> Codes:
        """Look up each cell among the declared values, as the dtype represents them."""
        keys = pd.Index(np.array(list(code_of), cells.dtype))
        table = np.array([*code_of.values(), self.outside], self.dtype)
        coded: Codes = table[keys.get_indexer(cells)]  # -1 if not found
        return coded

    def _object_codes(self, values: Iterable[Any]) -> Iterator[int]:
        for value in values:
            kind = VALUE_TYPES.get(type(value))
            if kind is None:
                yield self._code_of(value)
            elif value != value:  # nan
                yield self.missing
            else:
                code_of = self.codes if kind == self.kind else {}
                yield code_of.get(value, self.outside)

    def _code_of(self, value: Any) -> int:
        if is_missing(value):
            return self.missing
        # An object that cannot be converted, hashed or compared is not declared.
        with suppress(*VALUE_ERRORS):
            kind = type_of_value(value)
            if kind == DECIMAL and self.kind == "number":
                # Converted to the float whose text is this decimal fraction.
                value = int(value) if value == int(value) else float(value)
                kind = "number"
            if kind == self.kind:
                return self.codes.get(to_python(value), self.outside)
        return self.outside


def _represents(dtype: np.dtype[Any], value: Any) -> bool:
    """Return True if a dtype represents a value exactly, or a fraction rounded to a narrower float."""
    with suppress(OverflowError), np.errstate(all="ignore"):
        number = dtype.type(value)
        if not isinstance(value, float):
            return bool(number.item() == value)
        # Rounding must not make an infinity or zero of another number.
        is_limit = number == 0 or np.isinf(number)
        return bool(number.item() == value if is_limit else number == value)
    return False


def _numpy_time(value: Any) -> Any:
    """Return a declared date or datetime as a NumPy scalar."""
    if isinstance(value, datetime):
        return pd.Timestamp(value).to_datetime64()
    return np.datetime64(value, "D")


# Dtypes of declared values.

# The dtypes of each kind: in NumPy and pandas, polars, and Arrow.
_DTYPES = {
    "unsigned": (np.dtype(np.uint64), "UInt64", "uint64"),
    "whole": (np.dtype(np.int64), "Int64", "int64"),
    "real": (np.dtype(float), "Float64", "float64"),
    "missing": (np.dtype(float), "Float64", "float64"),
    "boolean": (np.dtype(bool), "Boolean", "bool_"),
    "string": (np.dtype("U"), "String", "string"),
    "date": (np.dtype("datetime64[D]"), "Date", "date32"),
    "datetime": (np.dtype("datetime64[us]"), "Datetime", "timestamp"),
}


def type_of_declared(values: Sequence[Any], *, real: bool | None = None) -> str:
    """Return the kind of declared values, which decides their dtype.

    Numbers are whole if `real` is False, or if it is None and all of them are.
    """
    listed = drop_missing(values)
    if not listed:
        return "missing"
    kind = type_of_value(listed[0])
    if kind != "number":
        return kind
    if real is None:
        real = not all(map(float.is_integer, map(float, listed)))
    if real:
        return "real"
    is_unsigned = max(listed) > np.iinfo(np.int64).max and min(listed) >= 0
    return "unsigned" if is_unsigned else "whole"


def number_dtype(kind: str) -> np.dtype[Any]:
    """Return the NumPy dtype of a kind of numbers."""
    return _DTYPES[kind][0]


def find_dtype(library: str, kind: str, values: Sequence[Any]) -> Any:
    """Return the dtype of declared values of a kind in a library."""
    if library in ("numpy", "pandas"):
        return _numpy_dtype(library, kind, values)
    _, polars_name, arrow_name = _DTYPES[kind]
    if library == "polars":
        import polars

        make = getattr(polars, polars_name)
    else:
        import pyarrow

        make = getattr(pyarrow, arrow_name)
    return make("us") if kind == "datetime" else make()


def _numpy_dtype(library: str, kind: str, values: Sequence[Any]) -> Any:
    has_missing = None in values
    if library == "pandas" and kind == "string":
        return _pandas_text_dtype()
    # pandas has no days, and NumPy no missing boolean or text.
    is_object = has_missing and kind in ("boolean", "string")
    if is_object or (library == "pandas" and kind == "date"):
        return np.dtype(object)
    dtype = number_dtype(kind)
    return np.dtype(float) if has_missing and dtype.kind in "iu" else dtype


@cache
def _pandas_text_dtype() -> Any:
    """Return the default dtype of text, which the version of pandas decides."""
    return pd.Series(["text"]).dtype


def empty_column(library: str, dtype: Any) -> Any:
    """Make a column without rows, which shares no memory with other columns."""
    if library == "numpy":
        return np.empty(0, dtype)
    if library == "pandas":
        return pd.Series([], dtype=dtype)
    if library == "pyarrow":
        import pyarrow

        return pyarrow.chunked_array([], dtype)
    import polars

    return polars.Series([], dtype=dtype)


# From codes to columns.

# Raised by libraries when a dtype cannot represent a value; the errors of Arrow derive
# from these.
_DTYPE_ERRORS = (TypeError, ValueError, OverflowError, NotImplementedError)


def make_decoder(values: Sequence[Any], library: str, dtype: Any) -> Decode:
    """Return a function from codes to a column of a library, of a dtype if it represents all declared values."""
    # Libraries cut texts, round numbers and wrap integers silently, so the decoded
    # values are encoded again. The library infers a dtype if this one fails.
    coder = ValueCoder(values)
    codes = np.arange(len(values))
    for candidate in (dtype, None):
        with suppress(*_DTYPE_ERRORS):
            decode = _make_decoder(values, library, candidate)
            column = decode(codes)
            if library == "pandas":
                column = pd.Series(column)
            if library == "pyarrow":
                column = _chunked(column)
            if np.array_equal(coder.encode(column), codes):
                return decode
    raise ColumnError(
        f"no dtype of {library} represents all declared values ({coder.kind})"
    )


def _make_decoder(values: Sequence[Any], library: str, dtype: Any) -> Decode:
    if library == "polars":
        import polars

        try:
            return polars.Series(values, dtype=dtype).gather
        except polars.exceptions.PolarsError as error:  # derives from no standard error
            raise TypeError(type(error).__name__) from None
    if library == "pyarrow":
        import pyarrow

        levels = pyarrow.array(values, dtype)
        return lambda codes: levels.take(pyarrow.array(codes))
    if library == "pandas" and not isinstance(dtype, np.dtype):
        return pd.Series(list(values), dtype=dtype).array.take
    if dtype is None or dtype.kind == "O":
        return to_objects(values).__getitem__
    if dtype.kind == "f":
        values = [np.nan if value is None else value for value in values]
    return np.array(values, dtype).__getitem__


def _chunked(array: Any) -> Any:
    import pyarrow

    return pyarrow.chunked_array([array])


def to_column(
    values: NDArray[Any], library: str, missing: NDArray[np.bool_] | None = None
) -> Any:
    """Convert numbers, dates or booleans to a column of a library; NaN, NaT and masked rows become missing."""
    if library in ("numpy", "pandas"):
        if missing is not None:
            values = np.where(missing, np.nan, values)
        is_time = library == "pandas" and values.dtype.kind == "M"
        return values.astype("datetime64[us]") if is_time else values
    if library == "pyarrow":
        import pyarrow

        return _chunked(pyarrow.array(values, mask=missing, from_pandas=True))
    import polars

    series = polars.Series(values, nan_to_null=True)
    return series if missing is None else series.set(polars.Series(missing), None)
