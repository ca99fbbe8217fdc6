"""Columns of any library: their kinds, their values, and integer codes of values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import chain
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
    # Their texts, attributes and contexts may hold a value. The new error is raised
    # outside of the handler, so that it has no context.
    try:
        return function(*arguments)
    except ColumnError as error:
        message = str(error)
    except Exception as error:
        message = f"cannot be read ({type(error).__name__})"
    raise ColumnError(message)


def is_missing(value: Any) -> bool:
    """Whether a value is missing: None, nan, ``pd.NA`` or NaT."""
    try:
        if value is None or value is pd.NA or value is pd.NaT:
            return True
        return bool(np.isscalar(value)) and bool(pd.isna(value))
    except Exception:  # not comparable with itself, such as Decimal("sNaN")
        return False


_KINDS = {bool: "boolean", int: "number", float: "number", str: "string"}

# The kinds of values that have an order of their own.
ORDERED_KINDS = ("number", "date", "datetime")


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
        if isinstance(value, timedelta | np.timedelta64):
            return "timedelta"
        if isinstance(value, bytes):
            return "bytes"
    except Exception:  # an object that hides its class
        pass
    return type(value).__name__


def present(values: Iterable[Any]) -> list[Any]:
    """Return the values that are not None."""
    return [value for value in values if value is not None]


def kinds_of(values: Iterable[Any]) -> set[str]:
    """Return the kinds of values, without None."""
    return set(map(kind_of, present(values)))


def is_whole_number(value: Any) -> bool:
    """Whether a parameter is a whole number, of Python or NumPy, and no truth value."""
    is_truth = isinstance(value, bool | np.bool_)
    return isinstance(value, Integral) and not is_truth


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
    if isinstance(value, np.timedelta64):
        return pd.Timedelta(value)
    if isinstance(value, Integral):
        return int(value)
    return float(value) if isinstance(value, np.floating) else value


def is_declarable(value: Any) -> bool:
    """Whether a value may be declared: it can be hashed and written, and equals itself; missing may."""
    if type(value) in _KINDS:
        return True
    # Errors of foreign classes are dropped: their text may hold the value.
    try:
        plain_value = plain(value)
        hash(plain_value)
        str(plain_value)
        return bool(plain_value == plain_value)
    except Exception:
        return False


Times = NDArray[np.datetime64]

_BLOCK = 1 << 16


def library_of(column: Any) -> str:
    """Return the name of the library of a column: numpy, pandas, polars or pyarrow."""
    if isinstance(column, np.ndarray):
        return "numpy"
    # Also a subclass of another library.
    if isinstance(column, pd.Series):
        return "pandas"
    library = type(column).__module__.partition(".")[0]
    name = type(column).__name__
    if (library, name) not in (("polars", "Series"), ("pyarrow", "ChunkedArray")):
        raise ColumnError(
            f"columns of {name} are not supported; use pandas, polars or pyarrow"
        )
    return library


def held_by(column: Any) -> tuple[str, Any]:
    """Return the library that holds the values of a column, which pandas may leave to others, and its column."""
    library = library_of(column)
    if library not in ("numpy", "pandas"):
        return library, column
    dtype = column.dtype
    if isinstance(dtype, np.dtype):
        # In the byte order of the machine, which all code below expects.
        native = dtype.newbyteorder("=")
        return "numpy", np.asarray(column).astype(native, copy=False)
    # Text of pandas is Arrow's where pyarrow is installed.
    if isinstance(dtype, pd.ArrowDtype) or getattr(dtype, "storage", None) == "pyarrow":
        import pyarrow

        array = pyarrow.array(column.array)
        is_whole = isinstance(array, pyarrow.Array)
        return "pyarrow", pyarrow.chunked_array([array]) if is_whole else array
    return library, column


# The kind of a dtype that holds values of any kind, or none at all.
ANY = "any"

# The kind of a dtype of lists, records or other objects that cannot be declared.
OTHER = "other"

_DECIMAL = Decimal.__name__

# The kinds of values that have dtypes of their own.
KIND_NAMES = {
    "boolean": "truth values",
    "date": "dates",
    "datetime": "dates with times",
    "number": "numbers",
    "string": "text",
    "bytes": "bytes",
    "time": "times of day",
    "timedelta": "durations",
    "Decimal": "decimal numbers",
    "Period": "periods",
    "Interval": "intervals",
    OTHER: "lists, records or other objects",
}

# The kind of a dtype of any other library, by the word that its lower-case name begins
# with.
_KIND_OF_NAME = {
    "bool": "boolean",
    "boolean": "boolean",
    "date": "date",
    "datetime": "datetime",
    "timestamp": "datetime",
    "decimal": _DECIMAL,
    "duration": "timedelta",
    "interval": "Interval",
    "null": ANY,
    "period": "Period",
    "time": "time",
}
_KIND_OF_NAME |= dict.fromkeys(
    ("int", "uint", "halffloat", "float", "double"), "number"
)
_KIND_OF_NAME |= dict.fromkeys(
    (
        "str",
        "string",
        "large_string",
        "string_view",
        "categorical",
        "enum",
    ),
    "string",
)
_KIND_OF_NAME |= dict.fromkeys(
    ("binary", "large_binary", "binary_view", "fixed_size_binary"), "bytes"
)

# The names of dtypes of NumPy may begin with a byte order.
_KIND_OF_LETTER = {
    "b": "boolean",
    "i": "number",
    "u": "number",
    "f": "number",
    "m": "timedelta",
    "M": "datetime",
    "O": ANY,
    "S": "bytes",
    "T": "string",
    "U": "string",
}


def value_dtype(column: Any) -> Any:
    """Return the dtype of the values of a column, which a dictionary, Arrow or a mask may hold."""
    dtype = column.type if library_of(column) == "pyarrow" else column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        # Without a value there is no category, and their dtype says nothing.
        has_values = len(dtype.categories) > 0
        dtype = dtype.categories.dtype if has_values else np.dtype(object)
    if isinstance(dtype, pd.SparseDtype):
        dtype = dtype.subtype
    if isinstance(dtype, pd.ArrowDtype):
        dtype = dtype.pyarrow_dtype
    if hasattr(dtype, "index_type"):  # a dictionary of Arrow
        return dtype.value_type
    return getattr(dtype, "numpy_dtype", dtype)


def kind_of_dtype(column: Any) -> str:
    """Return the kind of all values that a column can hold by its dtype, as of `kind_of`, or `ANY` or `OTHER`."""
    dtype = value_dtype(column)
    if library_of(column) == "polars":
        dtype = dtype.base_type()  # without the values of an Enum
    if isinstance(dtype, np.dtype):
        return _KIND_OF_LETTER.get(dtype.kind, OTHER)
    # Such as "int64", "timestamp[us, tz=UTC]" or "decimal128(10, 2)".
    word = re.match("[a-z_]*", str(dtype).lower())
    return _KIND_OF_NAME.get(word[0], OTHER) if word else OTHER


def name_of_dtype(column: Any) -> str:
    """Name the dtype of a column for a message, without what it may tell of the values."""
    library = library_of(column)
    if library == "pyarrow":
        return str(column.type)
    if library == "polars":
        return str(column.dtype.base_type())  # not the values of an Enum
    dtype = column.dtype
    if isinstance(dtype, np.dtype) and dtype.kind in "SUV":
        # Not the width of text, which is the length of the longest value.
        return dtype.type.__name__
    return str(dtype)


def is_all_missing(column: Any) -> bool:
    """Return whether no row of a column has a value; libraries give such a column any dtype."""
    cells, is_null = cells_of(column)
    if is_null is None:
        is_null = np.zeros(len(cells), bool)
    if cells.dtype.kind in "OfmM":
        is_null = is_null | pd.isna(cells)
    return bool(is_null.all())


def cells_of(column: Any) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    """Return the values of a column as NumPy holds them, and which are null, if NumPy cannot say it itself."""
    library, column = held_by(column)
    if library == "numpy":
        return column, None
    dtype = column.type if library == "pyarrow" else column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        # Categories are never missing themselves.
        levels, _ = cells_of(pd.Series(dtype.categories))
        if levels.size == 0:
            return np.full(len(column), None, object), None
        codes = column.cat.codes.to_numpy()
        return take(levels, codes), codes < 0
    if hasattr(dtype, "index_type"):  # a dictionary of Arrow
        return cells_of(column.cast(dtype.value_type))
    if library == "pandas":
        if not hasattr(dtype, "numpy_dtype"):
            return column.to_numpy(), None
        # Numbers beside a mask; what stands for null is arbitrary.
        zero = dtype.type(0)
        values = column.to_numpy(dtype=dtype.numpy_dtype, na_value=zero)
        return values, column.isna().to_numpy()
    series = nw.from_native(column, series_only=True)
    kind = kind_of_dtype(column)
    # NumPy has no integers of 128 bits.
    if kind == "boolean" or (kind == "number" and not str(dtype).endswith("128")):
        is_null = None
        if series.null_count():
            is_null = series.is_null().to_numpy()
            series = series.fill_null(False if kind == "boolean" else 0)
        return series.to_numpy(), is_null
    if kind in ("date", "datetime") or series.dtype == nw.Duration:
        return series.to_numpy(), None
    if series.dtype.is_nested():
        # No list or record is a declared value.
        cells = np.full(len(series), _UNREADABLE, object)
        return cells, series.is_null().to_numpy()
    return as_objects(_list_of(series)), None


# Stands for a value that Python has no object for, such as bytes in a column of text
# that are not UTF-8. It is equal to no declared value.
_UNREADABLE = object()

# The first and the last day that Python has.
_FIRST_DAY = np.datetime64(date.min)
_LAST_DAY = np.datetime64(date.max)


def _list_of(series: nw.Series[Any]) -> list[Any]:
    """Return the values of a series of polars or Arrow as Python objects."""
    # One value that Python has no object for would be an error for all.
    if series.dtype in (nw.Date, nw.Datetime):
        days = series.to_numpy().astype(_FIRST_DAY.dtype)
        is_far = (days < _FIRST_DAY) | (days > _LAST_DAY)
        if is_far.any():
            values = np.full(len(series), _UNREADABLE, object)
            near = series.filter((~is_far).tolist())
            values[~is_far] = as_objects(near.to_list())
            return list(values)
    try:
        return list(series.to_list())
    except Exception:
        return [_read_cell(series, place) for place in range(len(series))]


def _read_cell(series: nw.Series[Any], place: int) -> Any:
    try:
        return series[place]
    except Exception:
        return _UNREADABLE


def take(table: NDArray[Any], positions: NDArray[np.integer]) -> NDArray[Any]:
    """Look up positions in a small table, by blocks to avoid a wide copy of the positions."""
    out = np.empty(len(positions), table.dtype)
    for start in range(0, len(positions), _BLOCK):
        out[start : start + _BLOCK] = table[positions[start : start + _BLOCK]]
    return out


def to_numbers(column: Any, *, truth: bool = False) -> NDArray[np.floating]:
    """Return a numeric column as floats, with nan for missing values and for Python objects that are not numbers."""
    return shielded(_numbers, column, truth)


def _numbers(column: Any, truth: bool) -> NDArray[np.floating]:
    # With `truth`, truth values are 0 and 1.
    kind = kind_of_dtype(column)
    is_number = kind in ("number", _DECIMAL, ANY) or (truth and kind == "boolean")
    if not is_number and is_all_missing(column):
        return np.full(len(column), np.nan)
    if not is_number:
        raise ColumnError(
            f"expected numbers, got a column of dtype {name_of_dtype(column)}"
        )
    # As Python objects, which NumPy would make of them, they would take seconds.
    if kind == _DECIMAL:
        column = _decimals_as_floats(column)
    cells, is_null = cells_of(column)
    if cells.dtype.kind == "O":
        values = (_number(cell, truth) for cell in cells)
        numbers = np.fromiter(values, float, cells.size)
    elif cells.dtype.kind == "f":
        numbers = cells
    else:
        numbers = cells.astype(float)
    if is_null is not None and is_null.any():
        numbers = np.where(is_null, np.nan, numbers)
    return numbers


_FLOAT_ERRORS = 8
"""Of the last place of a number: as of a sum of a few amounts."""


def has_more_decimals(
    numbers: NDArray[np.floating], decimals: int
) -> NDArray[np.bool_]:
    """Mark those of finite numbers that have more than some decimals, but for errors of floats."""
    # Rounding multiplies first: 900.5 to two decimals is 90,050, beyond half precision.
    wide = numbers.astype(float)
    rounded = np.round(wide, decimals)
    # Sums of amounts differ from these by a few errors of floats. In a column of single
    # precision, each is the nearest number of it.
    is_near = np.abs(wide - rounded) <= _FLOAT_ERRORS * np.spacing(np.abs(numbers))
    with np.errstate(over="ignore", invalid="ignore"):
        single = wide.astype(np.float32)
        is_single = (single == wide) & (single == rounded.astype(np.float32))
    return ~(is_near | is_single)


def _decimals_as_floats(column: Any) -> Any:
    _, column = held_by(column)
    series = nw.from_native(column, series_only=True)
    # By way of text, which is read as the nearest float: Arrow would multiply by a power
    # of ten that no float holds, and make 0.1 of six decimals less than 0.1.
    return series.cast(nw.String).cast(nw.Float64).to_native()


def _number(value: Any, truth: bool) -> float:
    try:
        if is_missing(value):
            return np.nan
        kind = kind_of(value)
        is_number = kind in ("number", _DECIMAL) or (truth and kind == "boolean")
        return float(value) if is_number else np.nan
    except OverflowError:
        return np.inf if value > 0 else -np.inf
    except Exception:
        # Not a number in spite of its class, or an object that does not tell its class.
        return np.nan


_NO_TIME = np.datetime64("NaT", "us")

# Limits beyond all dates of Python, to which further dates are clipped.
_YEARS = np.array(["-0001-01-01", "10001-01-01"], "datetime64[D]")

# Units that hold no dates beyond the range of microseconds.
_FINE_UNITS = ("us", "ns", "ps", "fs", "as", "generic")


def to_dates(column: Any, dtype: Any) -> Times:
    """Return a column of dates or datetimes as days or microseconds, which compare exactly."""
    return shielded(_dates, column, dtype)


def _dates(column: Any, dtype: Any) -> Times:
    is_date = kind_of_dtype(column) in ("date", "datetime", ANY)
    is_comparable = is_date and not _has_zone(column)
    if not is_comparable and is_all_missing(column):
        return np.full(len(column), "NaT", dtype)
    if not is_comparable:
        raise ColumnError(
            "expected dates, or datetimes without a time zone, "
            f"got a column of dtype {name_of_dtype(column)}"
        )
    cells, is_null = cells_of(column)
    if cells.dtype.kind == "O":
        dates = list(map(_to_datetime, cells))
        times = np.array(dates, "datetime64[us]")
    else:
        times = _clipped(cells)
    times = times.astype(dtype)
    if is_null is not None:
        times[is_null] = np.datetime64("NaT")
    return times


def _has_zone(column: Any) -> bool:
    dtype = value_dtype(column)
    return (getattr(dtype, "tz", None) or getattr(dtype, "time_zone", None)) is not None


def _clipped(times: Times) -> Times:
    if np.datetime_data(times.dtype)[0] in _FINE_UNITS:
        return times
    return np.clip(times, *_YEARS.astype(times.dtype))


def _to_datetime(value: Any) -> Any:
    """Return a date or datetime; NaT if it is missing, another object, or has a time zone."""
    time = _NO_TIME
    try:
        # NaT is an instance of datetime.
        is_time = isinstance(value, date) and value is not pd.NaT
        if isinstance(value, np.datetime64):
            time = _clipped(np.array([value])).astype("datetime64[us]")[0]
        elif is_time and getattr(value, "tzinfo", None) is None:
            time = np.datetime64(value, "us")
    except Exception:  # an object that hides its class, or is no date in spite of it
        pass
    return time


def objects_of(column: Any) -> list[Any]:
    """Return the values of a column as Python objects."""
    library, held_column = held_by(column)
    if library in ("polars", "pyarrow"):
        return _list_of(nw.from_native(held_column, series_only=True))
    if isinstance(column, pd.Series):
        return list(column.to_numpy(dtype=object))
    is_time = column.dtype.kind in "mM"
    return pd.Series(column).to_list() if is_time else list(column)


def as_objects(values: Sequence[Any]) -> NDArray[Any]:
    """Return Python values as they are, in an array of one dimension."""
    return np.fromiter(values, object, len(values))


def distinct_values(column: Any) -> tuple[list[Any], bool]:
    """Return the distinct values of a column, sorted, and whether any is missing."""
    # Without those that Python has no object for, such as dates beyond the year 9999:
    # one of them would be an error for all.
    try:
        return _distinct(column)
    except ColumnError:
        raise
    except Exception:
        pass  # it may hold a value, so it must not be the context of the error below
    raise ColumnError("holds values that cannot be hashed and sorted")


def _distinct(column: Any) -> tuple[list[Any], bool]:
    library, held_column = held_by(column)
    if library == "pyarrow":
        column = held_column
        if str(column.type) == "string_view":
            # `unique` of Arrow misreads nulls in views.
            column = column.cast("large_string")
    elif library == "numpy":
        column = pd.Series(held_column)
    elif isinstance(column.dtype, pd.CategoricalDtype):
        used = column.unique().remove_unused_categories()
        values, _ = _distinct(pd.Series(used.categories))
        return values, bool(column.hasnans)
    series = nw.from_native(column, series_only=True)
    if series.dtype == nw.Object:
        # Hashing would merge 1, 1.0 and True.
        objects = list(map(plain, series.to_list()))
        values = list({(kind_of(value), value): value for value in objects}.values())
    else:
        objects = objects_of(series.unique().to_native())
        values = [plain(value) for value in objects if value is not _UNREADABLE]
    n_values = len(values)
    values = present(values)
    if len(kinds_of(values)) > 1:
        raise ColumnError("mixes values of several kinds")
    return sorted(values), len(values) < n_values


_LISTS = (list, tuple, set, frozenset, np.ndarray)
_MISSING_LIST = "expected lists of values; a missing list is written as an empty one"


def flatten_lists(column: Any) -> tuple[Any, NDArray[np.int64]]:
    """Return the values of all lists of a column, as a column of its own, and the number of values of each list."""
    return shielded(_flat_lists, column)


def _flat_lists(column: Any) -> tuple[Any, NDArray[np.int64]]:
    library, column = held_by(column)
    if library == "pyarrow":
        return _flat_arrow(column)
    if library == "polars" and column.dtype.is_nested():
        import pyarrow

        return _flat_arrow(pyarrow.chunked_array([column.to_arrow()]))
    cells = objects_of(column)
    for cell in cells:
        is_array = isinstance(cell, np.ndarray) and cell.ndim != 1
        if is_array or not isinstance(cell, _LISTS):
            raise ColumnError(_MISSING_LIST)
    sizes = np.fromiter(map(len, cells), np.int64, len(cells))
    return as_objects(list(chain.from_iterable(cells))), sizes


def _flat_arrow(column: Any) -> tuple[Any, NDArray[np.int64]]:
    from pyarrow import compute, types

    dtype = column.type
    checks = (types.is_list, types.is_large_list, types.is_fixed_size_list)
    if not any(check(dtype) for check in checks):
        what = "text" if kind_of_dtype(column) == "string" else "values"
        raise ColumnError(f"expected lists of values, got a column of {what}")
    if column.null_count:
        raise ColumnError(_MISSING_LIST)
    sizes = compute.list_value_length(column).to_numpy()
    return compute.list_flatten(column), sizes.astype(np.int64)


Codes = NDArray[np.unsignedinteger]

# Polars stores texts of up to 12 bytes in line. To compare them with up to 6 values
# takes a quarter of the time of hashing them.
_FEW_VALUES = 6
_SHORT_TEXT = 12

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
        self.kind = next(map(kind_of, self.codes), None)
        self._texts = self.codes if self.kind == "string" else {}

    def check_dtype(self, column: Any, *, declared: str) -> None:
        """Refuse a dtype that cannot hold the declared values, unless all values are missing."""
        if self._fits(column) or is_all_missing(column):
            return
        held = KIND_NAMES[kind_of_dtype(column)]
        if self._fits_but_for_zone(column):
            held = f"times {'with' if _has_zone(column) else 'without'} a time zone"
        raise ColumnError(
            f"its dtype {name_of_dtype(column)} holds {held}, which the declared "
            f"values {declared} are not; convert the column, or declare what it holds"
        )

    def _fits(self, column: Any) -> bool:
        """Return whether a dtype can hold declared values."""
        if self.kind != "datetime" or kind_of_dtype(column) == ANY:
            return self._fits_but_for_zone(column)
        zones = {value.tzinfo is not None for value in self.codes}
        return self._fits_but_for_zone(column) and _has_zone(column) in zones

    def _fits_but_for_zone(self, column: Any) -> bool:
        kind = kind_of_dtype(column)
        is_decimal = kind == _DECIMAL and self.kind == "number"
        return self.kind is None or kind in (ANY, self.kind) or is_decimal

    def encode(self, column: Any) -> Codes:
        """Code a column."""
        library, column = held_by(column)
        if library == "pyarrow":
            return self._encode_arrow(column)
        if library == "polars":
            return self._encode_polars(column)
        if isinstance(column.dtype, pd.CategoricalDtype):
            levels = pd.Series(column.dtype.categories)
            return self._look_up(column.cat.codes.to_numpy(), levels)
        return self._encode_cells(column)

    def _encode_cells(self, column: Any) -> Codes:
        cells, is_null = cells_of(column)
        if cells.dtype.kind in "iufb":
            codes = self._encode_numbers(cells)
        elif cells.dtype.kind in "mM":
            codes = self._encode_times(column, cells)
        else:
            codes = self._encode_objects(cells.astype(object, copy=False))
        if is_null is not None:
            codes[is_null] = self.missing
        return codes

    def _look_up(self, level_codes: NDArray[np.integer], levels: Any) -> Codes:
        """Translate codes of another dictionary, of which the code after the last level means missing."""
        table = np.append(self.encode(levels), self.dtype.type(self.missing))
        return take(table, level_codes)

    def _code_of(self, value: Any) -> int:
        if is_missing(value):
            return self.missing
        # Objects that cannot be converted, hashed or compared are not declared.
        try:
            kind = kind_of(value)
            if kind == _DECIMAL and self.kind == "number":
                # The float that is written as this decimal fraction.
                value = int(value) if value == int(value) else float(value)
                kind = "number"
            if kind == self.kind:
                return self.codes.get(plain(value), self.outside)
        except Exception:
            pass
        return self.outside

    def _encode_polars(self, column: Any) -> Codes:
        import polars

        if kind_of_dtype(column) != "string":
            return self._encode_cells(column)
        if column.dtype == polars.Enum:
            names = column.dtype.categories
            places = column.to_physical()
            if places.null_count():
                places = places.cast(polars.UInt32).fill_null(len(names))
            return self._look_up(places.to_numpy(), names)
        column = column.cast(polars.String)
        texts = list(self._texts)
        longest = max(map(len, map(str.encode, texts)), default=0)
        if longest <= _SHORT_TEXT and 0 < len(texts) <= _FEW_VALUES:
            codes = self._compare_texts(column)
        else:
            places = column.cast(polars.Enum(texts), strict=False).to_physical()
            places = places.cast(polars.UInt32).fill_null(len(texts))
            codes = self._code_at(places.to_numpy())
        if column.null_count():
            codes[column.is_null().to_numpy()] = self.missing
        return codes

    def _compare_texts(self, column: Any) -> Codes:
        import polars

        code = polars.lit(self.outside, polars.UInt8)
        for text, code_of_text in self.codes.items():
            is_equal = polars.when(polars.col("") == text)
            code = is_equal.then(polars.lit(code_of_text, polars.UInt8)).otherwise(code)
        return column.to_frame("").select(code).to_series().to_numpy(writable=True)

    def _encode_arrow(self, column: Any) -> Codes:
        import pyarrow
        from pyarrow import compute, types

        if types.is_dictionary(column.type):
            # Each chunk may have its own dictionary.
            parts = map(self._encode_dictionary, column.chunks)
            return np.concatenate([np.empty(0, self.dtype), *parts])
        if kind_of_dtype(column) != "string":
            return self._encode_cells(column)
        if types.is_string_view(column.type):
            # Arrow has no `index_in` for views.
            column = column.cast(pyarrow.large_string())
        texts = pyarrow.array(list(self._texts), column.type)
        places = compute.index_in(column, value_set=texts).fill_null(len(texts))
        codes = self._code_at(places.to_numpy())
        if column.null_count:
            codes[column.is_null().to_numpy(zero_copy_only=False)] = self.missing
        return codes

    def _encode_dictionary(self, chunk: Any) -> Codes:
        import pyarrow

        levels = pyarrow.chunked_array([chunk.dictionary])
        places = chunk.indices.cast("int64").fill_null(len(levels))
        return self._look_up(places.to_numpy(zero_copy_only=False), levels)

    def _code_at(self, places: NDArray[np.integer]) -> Codes:
        """Translate places among the declared texts; the place after the last is outside."""
        return take(np.array([*self._texts.values(), self.outside], self.dtype), places)

    def _encode_times(self, column: Any, times: NDArray[Any]) -> Codes:
        """Code dates, times and durations as the integers that they are: Python may have no objects for them."""
        kind = kind_of_dtype(column)
        if kind == "date":
            times = times.astype("datetime64[D]")  # Arrow may have milliseconds of days
        code_of = {}
        for value, code in self.codes.items():
            is_duration = isinstance(value, timedelta)
            is_alike = times.dtype.kind == "m" if is_duration else kind == self.kind
            has_zone = getattr(value, "tzinfo", None) is not None
            if not is_alike or has_zone != _has_zone(column):
                continue
            time = _numpy_time(value)
            time_in_unit = time.astype(times.dtype)
            # What the unit rounds or cannot hold comes back as another time.
            if time_in_unit.astype(time.dtype) == time:
                code_of[time_in_unit] = code
        codes = self._search(times, code_of)
        codes[np.isnat(times)] = self.missing
        return codes

    def _encode_numbers(self, array: NDArray[Any]) -> Codes:
        kind = "boolean" if array.dtype.kind == "b" else "number"
        code_of = self._codes_in(array.dtype) if self.kind == kind else {}
        # For a number of 8 or 16 bits, a table of all of them: an eighth of the time.
        if code_of and array.dtype.kind in "iu" and array.dtype.itemsize <= 2:
            # A negative number indexes from the end, here and in `take`.
            table = np.full(1 << 8 * array.dtype.itemsize, self.outside, self.dtype)
            table[np.array(list(code_of))] = list(code_of.values())
            codes = take(table, array)
        else:
            codes = self._search(array, code_of)
        if array.dtype.kind == "f":
            is_nan = np.isnan(array)
            if is_nan.any():
                codes[is_nan] = self.missing
        return codes

    def _search(self, array: NDArray[Any], code_of: dict[Any, int]) -> Codes:
        codes = np.full(array.shape, self.outside, self.dtype)
        if not code_of:
            return codes
        numbers = np.array(sorted(code_of), array.dtype)
        table = np.array(list(map(code_of.__getitem__, numbers)), self.dtype)
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


def _holds(dtype: np.dtype[Any], value: Any) -> bool:
    """Whether a dtype can represent a value exactly, or a decimal fraction rounded to a narrower float."""
    try:
        with np.errstate(all="ignore"):
            cast = dtype.type(value)
            if not isinstance(value, float):
                return bool(cast.item() == value)
            return bool(cast == value) and bool(is_in_range(cast, value))
    except OverflowError:
        return False


def is_in_range(cast: Any, number: Any) -> NDArray[np.bool_]:
    """Whether numbers as another dtype holds them are no infinities or zeros of others."""
    is_finite = np.isfinite(cast) == np.isfinite(number)
    is_zero = np.equal(cast, 0) == np.equal(number, 0)
    return is_finite & is_zero


def _numpy_time(value: Any) -> Any:
    """Return a declared date, time or duration as NumPy holds it, in UTC if it has a time zone."""
    if isinstance(value, timedelta):
        return pd.Timedelta(value).to_timedelta64()
    if isinstance(value, datetime):
        return pd.Timestamp(value).to_datetime64()
    return np.datetime64(value, "D")
