"""Conversion of columns of any library to integer codes of declared values, and back."""

# **Privacy.** The dtype of a decoded column follows from the declared values and the
# library alone. Otherwise one private value could change the dtype: a missing value turns
# integers into floats and booleans into objects, a large value widens integers, and a
# fraction of a second turns seconds into nanoseconds.

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime, time
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp._arrays import Codes, Column, Mask
from skdp.tables._columns import (
    DECIMAL,
    TYPE_NAMES,
    VALUE_ERRORS,
    ColumnError,
    can_contain,
    drop_missing,
    is_missing,
    name_of_dtype,
    to_array_and_mask,
    to_objects,
    to_python,
    type_of_column,
    type_of_value,
    unwrap,
)

Decode = Callable[[Codes], Any]


# Types of values that are compared with each other: a date is its midnight.
TIMES = {"date", "datetime"}


class ValueCoder:
    """Encoder of a column of any library: the code of a value is its index in `values`."""

    def __init__(self, values: Sequence[Any]) -> None:
        # The code of a declared value is its index in `values`. Values that are not
        # declared have the code `unknown_code`, and missing values the code of None if
        # it is declared. `value_type` is the type of the declared values, such as
        # "string".
        self.values = tuple(values)
        # Values that are not declared, and missing values if None is not declared.
        self.unknown_code = self.missing_code = len(self.values)
        self.dtype = np.min_scalar_type(self.unknown_code)
        self.code_by_value: dict[Any, int] = {}
        for code, value in enumerate(self.values):
            if value is None:
                self.missing_code = code
            else:
                self.code_by_value[value] = code
        self.value_type = next(map(type_of_value, self.code_by_value), None)

    def check_dtype(self, column: object, *, declared: object) -> None:
        """Raise an error for a dtype that cannot contain the declared values, unless all values are missing.

        The `repr` of `declared` describes the declared values in the error.
        """
        if self.value_type is None:
            return
        types = {self.value_type}
        convert = "convert the column"
        if self.value_type == "number":
            types.add(DECIMAL)
        if self.value_type in TIMES:
            # A date is its midnight.
            types, convert = TIMES, f"{convert} to dates"
        if not can_contain(column, types):
            raise ColumnError(
                f"dtype {name_of_dtype(column)} cannot contain the declared values "
                f"{declared!r}; {convert}, or declare its own values"
            )

    def encode(self, column: Column) -> Codes:
        """Return the code of each value of a column of any library, of shape (n_rows,)."""
        library, column = unwrap(column)
        if library == "pyarrow" and hasattr(column.type, "index_type"):
            return self.encode(column.cast(column.type.value_type))
        are_texts = self.value_type == type_of_column(column) == "string"
        if library == "pyarrow" and are_texts:
            return self._encode_arrow_text(column)
        if library == "pandas" and isinstance(column.dtype, pd.CategoricalDtype):
            # Missing values have the index -1.
            return self._take(pd.Series(column.dtype.categories), column.array.codes)
        if library == "polars" and str(column.dtype.base_type()) == "Enum":
            declared = column.dtype.categories
            indices = column.to_physical().fill_null(len(declared)).to_numpy()
            return self._take(declared, indices)
        return self._encode_cells(column)

    def _take(self, values: object, indices: NDArray[np.integer]) -> Codes:
        """Return the code of each row from the index of its value; the last index is a missing value."""
        codes = np.append(self.encode(values), self.dtype.type(self.missing_code))
        # Half the time of ``codes[indices]``.
        return codes.take(indices, mode="wrap")

    def _encode_arrow_text(self, column: Any) -> Codes:
        """Encode strings of pyarrow by declared strings."""
        import pyarrow
        from pyarrow import compute

        # None is found at its index, if it is declared.
        declared = pyarrow.array(self.values, column.type)
        indices = compute.index_in(column, value_set=declared)
        codes = indices.fill_null(self.unknown_code).to_numpy()
        return np.asarray(codes, self.dtype)

    def _encode_cells(self, column: object) -> Codes:
        """Encode a column by a conversion to a NumPy array, according to the dtype of this array."""
        cells, is_null = to_array_and_mask(column)
        if cells.dtype.kind in "iufb":
            codes = self._encode_numbers(cells)
        elif cells.dtype.kind == "M":
            codes = self._encode_times(column, cells)
        else:
            codes = self._encode_objects(cells.astype(object, copy=False))
        if is_null is not None:
            codes[is_null] = self.missing_code
        return codes

    def _encode_numbers(self, cells: NDArray[Any]) -> Codes:
        """Encode integers, floats or booleans by declared values that their dtype represents."""
        dtype = cells.dtype
        code_by_number: dict[Any, int] = {}
        if self.value_type == ("boolean" if dtype.kind == "b" else "number"):
            for value, code in self.code_by_value.items():
                _check_exact(dtype, value)
                if not _can_represent(dtype, value):
                    continue
                number = dtype.type(value)
                if number in code_by_number:
                    raise ColumnError(
                        "two declared values are the same number in a column of dtype "
                        f"{dtype}"
                    )
                code_by_number[number] = code
        if dtype == np.float16:  # pandas has no index of half precision
            cells = cells.astype(np.float32)
        codes = self._look_up(cells, code_by_number)
        if dtype.kind == "f":
            codes[np.isnan(cells)] = self.missing_code
        return codes

    def _encode_times(self, column: object, times: NDArray[Any]) -> Codes:
        """Encode dates or datetimes as integers, because Python cannot represent all of them."""
        if type_of_column(column) == "date":
            times = times.astype("datetime64[D]")  # Arrow may have milliseconds of days
        code_by_number: dict[Any, int] = {}
        if type_of_column(column) in TIMES and self.value_type in TIMES:
            for value, code in self.code_by_value.items():
                time = _numpy_time(value)
                # A unit may round a time or have no such time, for which NumPy 2.5 raises
                # an error and earlier versions return another time.
                with suppress(OverflowError):
                    time_in_unit = time.astype(times.dtype)
                    if time_in_unit.astype(time.dtype) == time:
                        code_by_number[time_in_unit.view(np.int64)] = code
        codes = self._look_up(times.view(np.int64), code_by_number)
        codes[np.isnat(times)] = self.missing_code
        return codes

    def _look_up(self, cells: NDArray[Any], code_by_number: dict[Any, int]) -> Codes:
        """Return the code of each cell; the keys of `code_by_number` have the dtype of the cells."""
        keys = pd.Index(np.array(list(code_by_number), cells.dtype))
        table = np.array([*code_by_number.values(), self.unknown_code], self.dtype)
        return table[keys.get_indexer(cells)]  # -1 if not found

    def _encode_objects(self, values: NDArray[Any]) -> Codes:
        """Encode Python objects of any types."""
        if self.value_type == "string":
            # A loop in C. Some objects cannot be hashed or compared.
            table = _TextCodes(self)
            with suppress(Exception):
                codes = map(table.__getitem__, values.tolist())
                if self.dtype == np.uint8:
                    return np.frombuffer(bytearray(codes), np.uint8)
                return np.fromiter(codes, self.dtype, len(values))
        return np.fromiter(self._iter_codes(values), self.dtype, len(values))

    def _iter_codes(self, values: Iterable[Any]) -> Iterator[int]:
        """Yield the code of each Python object; common types are looked up by their class."""
        for value in values:
            value_type = TYPE_NAMES.get(type(value))
            if value_type is None:
                yield self.encode_object(value)
            elif value != value:  # nan
                yield self.missing_code
            else:
                is_declared = value_type == self.value_type
                codes = self.code_by_value if is_declared else {}
                yield codes.get(value, self.unknown_code)

    def encode_object(self, value: Any) -> int:
        """Return the code of a Python object of any type."""
        if is_missing(value):
            return self.missing_code
        # An object that cannot be converted, hashed or compared is not declared.
        with suppress(*VALUE_ERRORS):
            if type_of_value(value) == DECIMAL and self.value_type == "number":
                # A declared 0.1 is the nearest float, so a decimal is rounded to it too.
                value = int(value) if value == int(value) else float(value)
            value = to_python(value)
            if {type_of_value(value), self.value_type} == TIMES:
                value = _convert_time(value)
            if type_of_value(value) == self.value_type:
                return self.code_by_value.get(value, self.unknown_code)
        return self.unknown_code


def _convert_time(value: Any) -> Any:
    """Return the midnight of a date, or the date of a datetime; None unless the datetime is a midnight."""
    if not isinstance(value, datetime):
        return datetime.combine(value, time.min)
    return value.date() if value.timetz() == time.min else None


class _TextCodes(dict[Any, int]):
    """Dict of declared strings to their codes; other objects are encoded on lookup."""

    def __init__(self, coder: ValueCoder) -> None:
        # The dict contains the code of None, too. `coder` encodes other objects.
        super().__init__(coder.code_by_value)
        self[None] = coder.missing_code
        self._coder = coder

    def __missing__(self, value: object) -> int:
        is_text = type(value) is str
        return self._coder.unknown_code if is_text else self._coder.encode_object(value)


def _check_exact(dtype: np.dtype[Any], value: object) -> None:
    """Raise an error for a declared integer to which a float dtype rounds other integers."""
    if dtype.kind != "f" or not isinstance(value, int):
        return
    n_bits = np.finfo(dtype).nmant + 1
    if abs(value) >= 1 << n_bits:
        raise ColumnError(
            f"dtype {dtype} rounds integers of 2**{n_bits} or more, which are declared; "
            "convert the column to integers, in a database by a cast to bigint"
        )


def _can_represent(dtype: np.dtype[Any], value: object) -> bool:
    """Check if a dtype represents a declared number exactly, or as the nearest float of fewer bits."""
    with suppress(OverflowError), np.errstate(all="ignore"):
        number = dtype.type(value)
        if not isinstance(value, float):
            return bool(number.item() == value)
        # NumPy compares a scalar and a Python float in the dtype of the scalar, so the float
        # is rounded. Rounding must not make an infinity or zero of another number.
        is_limit = number == 0 or np.isinf(number)
        return bool(number.item() == value if is_limit else number == value)
    return False


def _numpy_time(value: Any) -> Any:
    """Return a declared date or datetime as a NumPy scalar."""
    if isinstance(value, datetime):
        return pd.Timestamp(value).to_datetime64()
    return np.datetime64(value, "D")


# Dtypes of declared values, by `type_of_declared`: in NumPy and pandas, polars, and Arrow.
_DECLARED_DTYPES = {
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
    """Name the type of declared values, a key of `_DECLARED_DTYPES`.

    Numbers are "real" if `real` is True, or if it is None and one of them has a
    fraction.
    """
    listed = drop_missing(values)
    if not listed:
        return "missing"
    value_type = type_of_value(listed[0])
    if value_type != "number":
        return value_type
    if real is None:
        real = not all(map(float.is_integer, map(float, listed)))
    if real:
        return "real"
    is_unsigned = max(listed) > np.iinfo(np.int64).max and min(listed) >= 0
    return "unsigned" if is_unsigned else "whole"


def number_dtype(declared_type: str) -> np.dtype[Any]:
    """Return the NumPy dtype of "whole", "unsigned" or "real" numbers."""
    return _DECLARED_DTYPES[declared_type][0]


def find_dtype(
    library: str,
    declared_type: str,
    values: Sequence[Any],
    *,
    is_ordered: bool | None = None,
) -> Any:
    """Return the dtype in a library for declared values; `declared_type` is a result of `type_of_declared`.

    It is a dtype of categories, in the order of the values, if `is_ordered` is not None.
    Enums of polars have no order, and can only contain strings.
    """
    listed = drop_missing(values)
    if is_ordered is None or not listed:
        return _find_plain_dtype(library, declared_type, values)
    dtype = _find_plain_dtype(library, declared_type, listed)
    if library == "pandas":
        return pd.CategoricalDtype(pd.Index(listed, dtype=dtype), is_ordered)
    if library == "pyarrow":
        import pyarrow

        return pyarrow.dictionary(pyarrow.int32(), dtype, is_ordered)
    if library == "polars" and declared_type == "string":
        import polars

        return polars.Enum(listed)
    return dtype


def _find_plain_dtype(library: str, declared_type: str, values: Sequence[Any]) -> Any:
    """Return the dtype in a library for declared values, without categories."""
    if library in ("numpy", "pandas"):
        return _numpy_dtype(library, declared_type, values)
    _, polars_name, arrow_name = _DECLARED_DTYPES[declared_type]
    if library == "polars":
        import polars

        make = getattr(polars, polars_name)
    else:
        import pyarrow

        make = getattr(pyarrow, arrow_name)
    return make("us") if declared_type == "datetime" else make()


def _numpy_dtype(library: str, declared_type: str, values: Sequence[Any]) -> Any:
    """Return the dtype for declared values in NumPy or pandas; None in `values` declares missing values."""
    has_missing = None in values
    if library == "pandas" and declared_type == "string":
        return _pandas_text_dtype()
    # pandas has no days, and NumPy no missing boolean or text.
    is_object = has_missing and declared_type in ("boolean", "string")
    if is_object or (library == "pandas" and declared_type == "date"):
        return np.dtype(object)
    dtype = number_dtype(declared_type)
    return np.dtype(float) if has_missing and dtype.kind in "iu" else dtype


@cache
def _pandas_text_dtype() -> Any:
    """Return the default dtype of text, which the version of pandas decides."""
    return pd.Series(["text"]).dtype


def empty_column(library: str, dtype: np.dtype[Any]) -> Any:
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

# Errors of libraries for a value that a dtype cannot represent; the errors of Arrow
# derive from these.
_DTYPE_ERRORS = (TypeError, ValueError, OverflowError, NotImplementedError)


def make_decoder(values: Sequence[Any], library: str, dtype: object) -> Decode:
    """Return a function that converts codes to a column of declared values, in a library.

    The column has `dtype` if it represents all values, otherwise the dtype that the
    library infers from them.
    """
    # Libraries cut texts, round numbers and wrap integers silently. So a dtype is
    # accepted only if the decoded values have their codes again.
    coder = ValueCoder(values)
    codes = np.arange(len(values))
    for candidate in (dtype, None):
        with suppress(*_DTYPE_ERRORS):
            decode = _build_decoder(values, library, candidate)
            column = decode(codes)
            if library == "pandas":
                column = pd.Series(column)
            if library == "pyarrow":
                column = _to_chunks(column)
            if np.array_equal(coder.encode(column), codes):
                return decode
    raise ColumnError(
        f"no dtype of {library} represents all declared values ({coder.value_type}); "
        "convert them and the column to text"
    )


def _build_decoder(values: Sequence[Any], library: str, dtype: Any) -> Decode:
    """Return a function that converts codes to values of a dtype; None lets the library infer the dtype."""
    if library == "polars":
        import polars

        try:
            return polars.Series(values, dtype=dtype).gather
        except polars.exceptions.PolarsError as error:  # derives from no standard error
            raise TypeError(type(error).__name__) from None
    if library == "pyarrow":
        import pyarrow

        levels = pyarrow.array(values, getattr(dtype, "value_type", dtype))
        if hasattr(dtype, "index_type"):
            coded = levels.dictionary_encode()
            levels = pyarrow.DictionaryArray.from_arrays(
                coded.indices, coded.dictionary, ordered=dtype.ordered
            )
        return lambda codes: levels.take(pyarrow.array(codes))
    if library == "pandas" and not isinstance(dtype, np.dtype):
        return pd.Series(list(values), dtype=dtype).array.take
    if dtype is None or dtype.kind == "O":
        return to_objects(values).__getitem__
    if dtype.kind == "f":
        values = [np.nan if value is None else value for value in values]
    return np.array(values, dtype).__getitem__


def _to_chunks(array: object) -> Any:
    """Return an Arrow array as a column of a table."""
    import pyarrow

    return pyarrow.chunked_array([array])


def to_column(values: NDArray[Any], library: str, missing: Mask | None = None) -> Any:
    """Convert numbers, dates or booleans to a column in a library; NaN, NaT and masked rows become missing."""
    if library in ("numpy", "pandas"):
        if missing is not None:
            values = np.where(missing, np.nan, values)
        is_time = library == "pandas" and values.dtype.kind == "M"
        return values.astype("datetime64[us]") if is_time else values
    if library == "pyarrow":
        import pyarrow

        return _to_chunks(pyarrow.array(values, mask=missing, from_pandas=True))
    import polars

    series = polars.Series(values, nan_to_null=True)
    return series if missing is None else series.set(polars.Series(missing), None)
