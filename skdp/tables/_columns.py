"""Columns of any library: the types of their values, and the values as Python objects, numbers or dates."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal
from functools import partial, wraps
from itertools import chain
from numbers import Integral, Real
from typing import Any, ParamSpec, TypeVar

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp._arrays import Column, Integers, Mask

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class ColumnError(ValueError):
    """A column cannot be read or encoded; the message contains no value of the column."""


def call_safely(function: Callable[..., Any], *arguments: object) -> Any:
    """Call a function that reads a column; errors of other libraries become a `ColumnError`."""
    # **Privacy.** The text, the attributes and the context of a foreign error may contain
    # a value of the column. The new error is raised outside of the handler, so it has no
    # context.
    try:
        return function(*arguments)
    except ColumnError as error:
        message = str(error)
    except Exception as error:
        message = f"cannot be read ({type(error).__name__})"
    raise ColumnError(message)


def mask_errors(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Decorate a function that reads a column, so that its errors reveal no value of the column.

    `call_safely` replaces any other error by a `ColumnError` without its text and context.
    A `ColumnError` keeps its text, which must not contain a value.
    """

    @wraps(function)
    def call_masked(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        return call_safely(partial(function, *args, **kwargs))

    return call_masked


# Values.

# Errors of ordinary objects that cannot be converted, hashed or compared, such as
# Decimal("sNaN") or a list.
VALUE_ERRORS = (TypeError, ValueError, ArithmeticError)

# Names of the Python types of most values; other types are named by `type_of_value`.
TYPE_NAMES = {bool: "boolean", int: "number", float: "number", str: "string"}

# Types of values that a `Domain` can declare.
DECLARABLE_TYPES = ("boolean", "number", "string", "date", "datetime")

# Types of values with a natural order. Booleans and strings have none.
ORDERED_TYPES = ("number", "date", "datetime")


def is_missing(value: Any) -> bool:
    """Return True for None, nan, ``pd.NA`` and NaT."""
    if value is None or value is pd.NA or value is pd.NaT:
        return True
    try:
        return bool(np.isscalar(value)) and bool(pd.isna(value))
    except VALUE_ERRORS:
        return False


def type_of_value(value: object) -> str:
    """Name the type of a value, such as "number" for int and float.

    Values of two types are never equal, for example True and 1.
    """
    if type(value) in TYPE_NAMES:
        return TYPE_NAMES[type(value)]
    if isinstance(value, np.bool_):
        return "boolean"
    # NumPy registers timedelta64 as an integer.
    if isinstance(value, np.timedelta64):
        return "timedelta"
    if isinstance(value, Real):
        return "number"
    if isinstance(value, str):
        return "string"
    if isinstance(value, datetime | np.datetime64):
        return "datetime"
    return type(value).__name__


def drop_missing(values: Iterable[Any]) -> list[Any]:
    """Return the values that are not None."""
    return [value for value in values if value is not None]


def types_of_values(values: Iterable[Any]) -> set[str]:
    """Return the names of the types of all values that are not None."""
    return set(map(type_of_value, drop_missing(values)))


def is_whole_number(value: object) -> bool:
    """Return True for an integer parameter of Python or NumPy, and False for a boolean."""
    is_bool = isinstance(value, bool | np.bool_)
    return isinstance(value, Integral) and not is_bool


def to_python(value: Any) -> Any:
    """Convert a NumPy scalar to a Python object, and missing to None."""
    if type(value) in (str, int, bool):
        return value
    if is_missing(value):
        return None
    value_type = type_of_value(value)
    if value_type == "boolean":
        return bool(value)
    if value_type == "string":
        # `str` would return the name of an Enum member.
        return str.__str__(value)
    if value_type == "datetime":
        return pd.Timestamp(value)
    if isinstance(value, Integral):
        return int(value)
    return float(value) if isinstance(value, np.floating) else value


def is_declarable(value: object) -> bool:
    """Check if a value is missing, or a string, number, boolean, date or datetime without a time zone."""
    has_zone = getattr(value, "tzinfo", None) is not None
    return is_missing(value) or (
        type_of_value(value) in DECLARABLE_TYPES and not has_zone
    )


# Dtypes.

# Type of the values of a dtype that does not restrict them, such as object.
ANY_TYPE = "any"

# Type of the values of a dtype that no domain can declare, such as lists.
OTHER_TYPE = "other"

DECIMAL = Decimal.__name__

# Type of the values of a dtype, by the letters with which the name of the dtype begins
# in NumPy, pandas, polars or pyarrow.
_TYPES_OF_DTYPES = {
    **dict.fromkeys(("bool", "boolean"), "boolean"),
    **dict.fromkeys(("int", "uint", "halffloat", "float", "double"), "number"),
    **dict.fromkeys(("str", "stringdtype", "string", "large_string"), "string"),
    **dict.fromkeys(("string_view", "categorical", "enum"), "string"),
    **dict.fromkeys(("datetime", "timestamp"), "datetime"),
    **dict.fromkeys(("null", "object"), ANY_TYPE),
    "date": "date",
    "decimal": DECIMAL,
}


def library_of(column: object) -> str:
    """Return the library of a column: numpy, pandas, polars or pyarrow."""
    if isinstance(column, np.ndarray):
        return "numpy"
    # Subclasses of other libraries are included.
    if isinstance(column, pd.Series):
        return "pandas"
    library = type(column).__module__.partition(".")[0]
    name = type(column).__name__
    if (library, name) not in (("polars", "Series"), ("pyarrow", "ChunkedArray")):
        raise ColumnError(
            f"expected a column of pandas, polars or pyarrow, got {library}.{name}"
        )
    return library


def unwrap(column: Any) -> tuple[str, Any]:
    """Return the library of the array in which a column is stored, and this array.

    The result for a pandas series that stores a NumPy or Arrow array is this array; only
    other series are returned with the library "pandas".
    """
    library = library_of(column)
    dtype = column.type if library == "pyarrow" else column.dtype
    if isinstance(dtype, np.dtype):
        # The code below expects the byte order of the machine.
        native = dtype.newbyteorder("=")
        return "numpy", np.asarray(column).astype(native, copy=False)
    # pandas stores text in Arrow if pyarrow is installed.
    is_arrow = isinstance(dtype, pd.ArrowDtype)
    if is_arrow or getattr(dtype, "storage", None) == "pyarrow":
        import pyarrow

        library, column = "pyarrow", pyarrow.array(column.array)
        if isinstance(column, pyarrow.Array):
            column = pyarrow.chunked_array([column])
    if library == "pyarrow" and str(column.type) == "string_view":
        # Arrow has few functions for views.
        column = column.cast("large_string")
    return library, column


def _value_dtype(column: Any) -> Any:
    """Return the dtype of the values of a column, without categories, sparse storage or masks."""
    dtype = column.type if library_of(column) == "pyarrow" else column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        # The dtype of an empty list of categories is arbitrary.
        has_values = len(dtype.categories) > 0
        dtype = dtype.categories.dtype if has_values else np.dtype(object)
    if isinstance(dtype, pd.SparseDtype):
        dtype = dtype.subtype
    if isinstance(dtype, pd.ArrowDtype):
        dtype = dtype.pyarrow_dtype
    if hasattr(dtype, "index_type"):  # a dictionary of Arrow
        return dtype.value_type
    return getattr(dtype, "numpy_dtype", dtype)


def has_integer_dtype(column: object) -> bool:
    """Return True if a column has an integer dtype."""
    if isinstance(column, np.ndarray):
        return column.dtype.kind in "iu"
    return bool(nw.from_native(column, series_only=True).dtype.is_integer())


def has_categories(column: Any) -> bool:
    """Check if the dtype of a column has categories: a category, an Enum or Categorical, or an Arrow dictionary."""
    library = library_of(column)
    if library == "polars":
        return str(column.dtype.base_type()) in ("Categorical", "Enum")
    dtype = column.type if library == "pyarrow" else column.dtype
    is_arrow_dictionary = hasattr(dtype, "index_type")
    return isinstance(dtype, pd.CategoricalDtype) or is_arrow_dictionary


def has_order_of(column: object, values: Sequence[Any]) -> bool:
    """Check if a pandas column has ordered categories, in the order of the values that are among them."""
    dtype = getattr(column, "dtype", None)
    if not isinstance(dtype, pd.CategoricalDtype) or not dtype.ordered:
        return False
    listed = dtype.categories.tolist()
    ranks = [listed.index(value) for value in values if value in listed]
    return ranks == sorted(ranks)


def type_of_column(column: object) -> str:
    """Name the type of the values that the dtype of a column allows, such as "number" or "date".

    It is `ANY_TYPE` for a dtype of any objects, and `OTHER_TYPE` for types that no
    domain declares.
    """
    dtype = _value_dtype(column)
    if (getattr(dtype, "tz", None) or getattr(dtype, "time_zone", None)) is not None:
        return OTHER_TYPE  # no declared datetime has a time zone
    if library_of(column) == "polars":
        dtype = dtype.base_type()  # the name of an Enum would contain its values
    # Examples: "int64", "timestamp[us, tz=UTC]", "decimal128(10, 2)".
    name = dtype.name if isinstance(dtype, np.dtype) else str(dtype)
    letters = re.match("[a-z_]*", name.lower())
    return _TYPES_OF_DTYPES.get(letters[0], OTHER_TYPE) if letters else OTHER_TYPE


def name_of_dtype(column: Any) -> str:
    """Name the dtype of a column for a message, without parts that depend on the values."""
    library = library_of(column)
    dtype = column.type if library == "pyarrow" else column.dtype
    if library == "polars":
        dtype = dtype.base_type()  # the name of an Enum would contain its values
    if isinstance(dtype, np.dtype) and dtype.kind in "SUV":
        # The width of a text dtype is omitted, because it is the length of the longest
        # value.
        return dtype.type.__name__
    # The fields of a struct are omitted, because they may be keys of the data.
    return str(dtype).partition("<")[0]


def can_contain(column: object, types: Collection[str]) -> bool:
    """Check if a column can contain values of one of some types, such as "number", by its dtype."""
    value_type = type_of_column(column)
    # The dtype of a column without values is arbitrary.
    is_allowed = value_type in types or value_type == ANY_TYPE
    return is_allowed or _is_all_missing(column)


def _is_all_missing(column: object) -> bool:
    """Check if a column contains missing values only."""
    cells, is_null = to_array_and_mask(column)
    if is_null is None:
        is_null = np.zeros(len(cells), bool)
    if cells.dtype.kind in "OfmM":
        is_null = is_null | pd.isna(cells)
    return bool(is_null.all())


# Columns.

# Placeholder for a value that has no Python object, such as bytes in a column of text
# that are not UTF-8. It is equal to no declared value.
_UNREADABLE = object()


def to_array_and_mask(column: Column) -> tuple[NDArray[Any], Mask | None]:
    """Return the values of a column as an array, and a mask that is True at nulls.

    Values at nulls are arbitrary. The mask is None if the array marks its nulls itself,
    by None, NaN or NaT.
    """
    library, column = unwrap(column)
    if library == "numpy":
        return column, None
    dtype = column.type if library == "pyarrow" else column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        # Categories are never missing themselves.
        levels, _ = to_array_and_mask(pd.Series(dtype.categories))
        if levels.size == 0:
            return np.full(len(column), None, object), None
        codes = column.cat.codes.to_numpy()
        return levels[codes], codes < 0
    if hasattr(dtype, "index_type"):  # a dictionary of Arrow
        return to_array_and_mask(column.cast(dtype.value_type))
    if library == "pandas":
        if not hasattr(dtype, "numpy_dtype"):
            return column.to_numpy(), None
        # Numbers with a mask.
        zero = dtype.type(0)
        values = column.to_numpy(dtype=dtype.numpy_dtype, na_value=zero)
        return values, column.isna().to_numpy()
    series = nw.from_native(column, series_only=True)
    value_type = type_of_column(column)
    # NumPy has no integers of 128 bits.
    is_number = value_type == "number" and not str(dtype).endswith("128")
    if is_number or value_type == "boolean":
        is_null = None
        if series.null_count():
            is_null = series.is_null().to_numpy()
            series = series.fill_null(0 if is_number else False)
        return series.to_numpy(), is_null
    if value_type in ("date", "datetime"):
        return series.to_numpy(), None
    if series.dtype.is_nested():
        # No list or record is a declared value.
        cells = np.full(len(series), _UNREADABLE, object)
        return cells, series.is_null().to_numpy()
    return to_objects(_list_objects(series)), None


def _list_objects(series: nw.Series[Any]) -> list[Any]:
    """Return the values of a series of polars or Arrow as Python objects."""
    # One value without a Python object, such as a year beyond 9999, fails for the list.
    try:
        return list(series.to_list())
    except Exception:
        return [_read_cell(series, row) for row in range(len(series))]


def _read_cell(series: nw.Series[Any], row: int) -> Any:
    """Return one value of a series, or the placeholder of unreadable values."""
    try:
        return series[row]
    except Exception:
        return _UNREADABLE


def to_object_list(column: object) -> list[Any]:
    """Return the values of a column as Python objects."""
    library, stored = unwrap(column)
    if library in ("polars", "pyarrow"):
        return _list_objects(nw.from_native(stored, series_only=True))
    return pd.Series(column, dtype=object).tolist()


# Integers that are written as floats, as by R, and by dataframes in which an id is missing.
_FLOAT_KEY = re.compile(r"-?\d+(\.0*|(\.\d+)?[eE]\+\d{2,3})", re.ASCII)


def read_key(text: str) -> str:
    """Return the id of a person: an integer without a decimal point, or other text as written.

    7, 7.0 and 7e+00 are one id, and 7 and 007 are two ids.
    """
    number = Decimal(text) if _FLOAT_KEY.fullmatch(text) else None
    # A float of 2**53 or more may be another integer than before it was rounded.
    if number is not None and abs(number) >= 1 << 53:
        raise ColumnError(
            "must have exact keys, got numbers of 2**53 or more with a decimal point or "
            "an exponent. Write integers"
        )
    return text if number is None or number % 1 else str(int(number))


def name_missing(values: Iterable[Any]) -> str:
    """Return a label of missing values that none of the values has: "missing", in parentheses if it is a value."""
    label, texts = "missing", set(map(str, values))
    while label in texts:
        label = f"({label})"
    return label


def to_objects(values: Sequence[Any]) -> NDArray[Any]:
    """Return an array of Python objects of shape (n_values,), even if the objects are sequences."""
    return np.fromiter(values, object, len(values))


@mask_errors
def distinct_values(column: object) -> tuple[list[Any], bool]:
    """Return the distinct values of a column, sorted and without None, and True if one is missing."""
    library, stored = unwrap(column)
    if library == "numpy":
        stored = pd.Series(stored)
    series = nw.from_native(stored, series_only=True)
    # Hashing would merge 1, 1.0 and True in a column of objects.
    is_object = series.dtype == nw.Object
    listed = series.to_list() if is_object else _list_objects(series.unique())
    if str(_value_dtype(column)).lower() in ("float32", "float"):
        # The shortest decimal number, because Python would write 0.1 as
        # 0.10000000149011612.
        listed = [None if is_missing(x) else float(str(np.float32(x))) for x in listed]
    distinct = {}
    for value in map(to_python, listed):
        if value is not _UNREADABLE:
            distinct[type_of_value(value), value] = value
    values = drop_missing(distinct.values())
    if len(types_of_values(values)) > 1:
        raise ColumnError("must have values of one type, got several")
    return sorted(values), len(values) < len(distinct)


@mask_errors
def flatten_lists(column: object) -> tuple[Any, Integers]:
    """Return the values of all lists of a column as one array, and the length of each list; shape (n_rows,)."""
    cells = to_object_list(column)
    types = (list, tuple, set, frozenset, np.ndarray)
    for cell in cells:
        if not isinstance(cell, types) or getattr(cell, "ndim", 1) != 1:
            raise ColumnError(
                "expected lists of values; write a missing list as an empty list"
            )
    sizes = np.fromiter(map(len, cells), np.int64, len(cells))
    return to_objects(list(chain.from_iterable(cells))), sizes


# Numbers.


@mask_errors
def to_numbers(column: Column, *, allow_bool: bool = False) -> NDArray[np.floating]:
    """Return a numeric column as floats of shape (n_rows,).

    Missing values, and Python objects that are not numbers, become NaN. With
    `allow_bool`, booleans become 0 and 1.
    """
    types = {"number", DECIMAL} | ({"boolean"} if allow_bool else set())
    if not can_contain(column, types):
        value_type = type_of_column(column)
        remedy = (
            "Encode it, such as with DPOneHotEncoder, exclude it, or convert it to numbers, "
            "as in y == 'yes' for text"
        )
        if value_type == "boolean":
            remedy = "Declare the values False and True, or convert it to integers"
        elif value_type in ("date", "datetime"):
            remedy = "Convert dates to numbers, such as years, or exclude the column"
        elif value_type == OTHER_TYPE:
            remedy = "Convert durations to seconds, and remove the time zone of dates"
        raise ColumnError(
            f"expected numbers, got a column of dtype {name_of_dtype(column)}. {remedy}"
        )
    value_type = type_of_column(column)
    if value_type not in types and value_type != ANY_TYPE:
        return np.full(len(column), np.nan)
    if value_type == DECIMAL:
        column = _convert_decimals(column)
    cells, is_null = to_array_and_mask(column)
    if cells.dtype.kind == "O":
        values = (_to_number(cell, types) for cell in cells)
        numbers = np.fromiter(values, float, cells.size)
    else:
        numbers = cells if cells.dtype.kind == "f" else cells.astype(float)
    if is_null is not None and is_null.any():
        numbers = np.where(is_null, np.nan, numbers)
    return numbers


def _convert_decimals(column: object) -> Any:
    """Convert a column of decimal numbers to the nearest floats."""
    _, column = unwrap(column)
    series = nw.from_native(column, series_only=True)
    # The nearest float is the parsed text. Arrow would multiply by a rounded power of
    # ten, so 0.1 with six decimals would be less than 0.1.
    return series.cast(nw.String).cast(nw.Float64).to_native()


def _to_number(value: Any, types: set[str]) -> float:
    """Convert a Python object of one of some types to a float; NaN for other objects."""
    try:
        is_number = not is_missing(value) and type_of_value(value) in types
        return float(value) if is_number else np.nan
    except OverflowError:
        return np.inf if value > 0 else -np.inf
    except VALUE_ERRORS:
        return np.nan


# Dates.

# Limits of dates, beyond the years 1 to 9999 of Python. Dates further away are clipped,
# because they would overflow microseconds.
_YEARS = np.array(["-0001-01-01", "10001-01-01"], "datetime64[D]")

# Units whose range of dates is within the range of microseconds.
_FINE_UNITS = ("us", "ns", "ps", "fs", "as", "generic")


@mask_errors
def to_dates(column: Any, dtype: Any) -> NDArray[np.datetime64]:
    """Return a column of dates or datetimes as an array of `dtype`, ``datetime64[D]`` or ``datetime64[us]``.

    Missing values, and objects that are not dates, become NaT.
    """
    types = ("date", "datetime")
    if not can_contain(column, types):
        raise ColumnError(
            "expected dates, or datetimes without a time zone, got a column of dtype "
            f"{name_of_dtype(column)}. Convert text to dates, and remove a time "
            "zone"
        )
    if type_of_column(column) not in (*types, ANY_TYPE):
        return np.full(len(column), "NaT", dtype)
    cells, is_null = to_array_and_mask(column)
    if cells.dtype.kind == "O":
        cells = np.array(list(map(_to_datetime, cells)), "datetime64[us]")
    times = _clip_years(cells).astype(dtype)
    if is_null is not None:
        times[is_null] = "NaT"
    return times


def _clip_years(times: NDArray[np.datetime64]) -> NDArray[np.datetime64]:
    """Clip times that may overflow microseconds to `_YEARS`."""
    if np.datetime_data(times.dtype)[0] in _FINE_UNITS:
        return times
    return np.clip(times, *_YEARS.astype(times.dtype))


def _to_datetime(value: Any) -> Any:
    """Return a date or datetime; NaT if it is missing, another object, or has a time zone."""
    with suppress(*VALUE_ERRORS):
        if isinstance(value, np.datetime64):
            return _clip_years(np.array([value])).astype("datetime64[us]")[0]
        # NaT is an instance of datetime.
        is_time = isinstance(value, date) and value is not pd.NaT
        if is_time and getattr(value, "tzinfo", None) is None:
            return np.datetime64(value, "us")
    return np.datetime64("NaT", "us")
