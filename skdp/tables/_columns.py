"""Read a column of any library: its kind, and its values as numbers, as dates, as objects, or distinct."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from itertools import chain
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.tables._values import ColumnError, is_missing, kind_of, plain, shielded

Times = NDArray[np.datetime64]

_BLOCK = 1 << 16

# narwhals takes 0.1 ms to recognise a column, which is long for a batch.
_SERIES = {
    ("numpy", "ndarray"),
    ("pandas", "Series"),
    ("polars", "Series"),
    ("pyarrow", "ChunkedArray"),
}


def library_of(column: Any) -> str:
    """Return the name of the library of a column: numpy, pandas, polars or pyarrow."""
    library = type(column).__module__.partition(".")[0]
    if (library, type(column).__name__) in _SERIES:
        return library
    if isinstance(column, np.ndarray):
        return "numpy"
    series = nw.from_native(column, series_only=True, pass_through=True)
    name = type(column).__name__
    if isinstance(series, nw.Series):
        name = series.implementation.name.lower()
    if name not in ("pandas", "polars", "pyarrow"):
        raise ColumnError(
            f"columns of {name} are not supported; use pandas, polars or pyarrow"
        )
    return name


def held_by(column: Any) -> tuple[str, Any]:
    """Return the library that holds the values of a column, which pandas may leave to others, and its column."""
    library = library_of(column)
    if library != "pandas":
        return library, column
    dtype = column.dtype
    if isinstance(dtype, np.dtype):
        return "numpy", column.to_numpy()
    # Text of pandas is Arrow's where pyarrow is installed.
    if isinstance(dtype, pd.ArrowDtype) or getattr(dtype, "storage", None) == "pyarrow":
        import pyarrow

        array = pyarrow.array(column.array)
        is_whole = isinstance(array, pyarrow.Array)
        return "pyarrow", pyarrow.chunked_array([array]) if is_whole else array
    return library, column


ANY = "any"
"""The kind of a dtype that holds values of any kind, or none at all."""

OTHER = "other"
"""The kind of a dtype that is none of those of `kind_of` with a name of their own, such as one of lists."""

_DECIMAL = Decimal.__name__

KIND_NAMES = {
    "boolean": "truth values",
    "date": "dates",
    "datetime": "dates with times",
    "number": "numbers",
    "string": "text",
}
"""The kinds of values that have dtypes of their own."""

_NUMPY_KINDS = {
    "b": "boolean",
    "i": "number",
    "u": "number",
    "f": "number",
    "U": "string",
    "T": "string",
    "M": "datetime",
    "O": ANY,
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
    if isinstance(dtype, np.dtype):
        return _NUMPY_KINDS.get(dtype.kind, OTHER)
    if isinstance(dtype, pd.StringDtype):
        return "string"
    if isinstance(dtype, pd.DatetimeTZDtype):
        return "datetime"
    library = type(dtype).__module__.partition(".")[0]
    if library == "pyarrow":
        return _arrow_kind(dtype)
    return _polars_kind(dtype) if library == "polars" else OTHER


def _polars_kind(dtype: Any) -> str:
    import polars

    kinds = {
        polars.Null: ANY,
        polars.Object: ANY,
        polars.Boolean: "boolean",
        polars.String: "string",
        polars.Categorical: "string",
        polars.Enum: "string",
        polars.Date: "date",
        polars.Datetime: "datetime",
        polars.Decimal: _DECIMAL,
    }
    number = "number" if dtype.is_numeric() else OTHER
    return kinds.get(dtype.base_type(), number)


def _arrow_kind(dtype: Any) -> str:
    from pyarrow import types

    kinds = {
        ANY: (types.is_null,),
        "boolean": (types.is_boolean,),
        "number": (types.is_integer, types.is_floating),
        "string": (types.is_string, types.is_large_string, types.is_string_view),
        "date": (types.is_date,),
        "datetime": (types.is_timestamp,),
        _DECIMAL: (types.is_decimal,),
    }
    for kind, checks in kinds.items():
        if any(check(dtype) for check in checks):
            return kind
    return OTHER


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


def may_hold_nothing(column: Any) -> bool:
    """Whether a dtype is what libraries make of a column in which all values are missing."""
    # Floats, and what `convert_dtypes` of pandas makes of them.
    if str(value_dtype(column)).lower().startswith(("float", "double", "halffloat")):
        return True
    is_pandas = library_of(column) == "pandas"
    return is_pandas and str(column.dtype) in ("Int64", "int64[pyarrow]")


def cells_of(column: Any) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    """Return the values of a column as NumPy holds them, and which are null, if NumPy cannot say it itself."""
    library, column = held_by(column)
    if library == "numpy":
        return column, None
    if library == "pyarrow":
        return _arrow_cells(column)
    if library == "polars":
        return _polars_cells(column)
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        # Categories are never missing themselves.
        levels, _ = cells_of(pd.Series(dtype.categories))
        if levels.size == 0:
            return np.full(len(column), None, object), None
        codes = column.cat.codes.to_numpy()
        return take(levels, codes), codes < 0
    # Numbers and truth values beside a mask. What is under the mask is arbitrary: zero.
    if hasattr(dtype, "numpy_dtype"):
        zero = dtype.type(0)
        values = column.to_numpy(dtype=dtype.numpy_dtype, na_value=zero)
        return values, column.isna().to_numpy()
    return column.to_numpy(), None


def _polars_cells(column: Any) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    import polars

    dtype = column.dtype
    is_boolean = dtype == polars.Boolean
    # NumPy has no integers of 128 bits.
    if is_boolean or (dtype.is_numeric() and not str(dtype).endswith("128")):
        is_null = column.is_null().to_numpy() if column.null_count() else None
        return column.fill_null(False if is_boolean else 0).to_numpy(), is_null
    if dtype in (polars.Date, polars.Datetime):
        return column.to_numpy(), None
    return as_objects(column.to_list()), None


def _arrow_cells(column: Any) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    import pyarrow
    from pyarrow import types

    dtype = column.type
    if types.is_dictionary(dtype):
        return _arrow_cells(column.cast(dtype.value_type))
    is_boolean = types.is_boolean(dtype)
    if is_boolean or types.is_integer(dtype) or types.is_floating(dtype):
        is_null = None
        # This copies even if there is nothing to fill.
        if column.null_count:
            is_null = column.is_null().to_numpy(zero_copy_only=False)
            zero = pyarrow.scalar(False if is_boolean else 0, dtype)
            column = column.fill_null(zero)
        return column.to_numpy(zero_copy_only=False), is_null
    if types.is_date(dtype) or types.is_timestamp(dtype):
        return column.to_numpy(zero_copy_only=False), None
    return as_objects(column.to_pylist()), None


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
    is_number = kind in ("number", _DECIMAL) or (truth and kind == "boolean")
    if not is_number and (kind != ANY or _has_categories(column)):
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


def _has_categories(column: Any) -> bool:
    """Whether a column is a categorical of pandas; one without values has no category."""
    dtype = getattr(column, "dtype", None)
    return isinstance(dtype, pd.CategoricalDtype) and len(dtype.categories) > 0


def _decimals_as_floats(column: Any) -> Any:
    library, column = held_by(column)
    if library == "polars":
        import polars

        return column.cast(polars.Float64)
    import pyarrow

    if pyarrow.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    # The error of a safe cast would show the number.
    return column.cast(pyarrow.float64(), safe=False)


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

_YEARS = np.array(["-0001-01-01", "10001-01-01"], "datetime64[D]")
"""Limits beyond all dates of Python, to which further dates are clipped."""

_FINE_UNITS = ("us", "ns", "ps", "fs", "as", "generic")
"""Units that hold no dates beyond the range of microseconds."""


def to_dates(column: Any, dtype: Any) -> Times:
    """Return a column of dates or datetimes as days or microseconds, which compare exactly."""
    return shielded(_dates, column, dtype)


def _dates(column: Any, dtype: Any) -> Times:
    if kind_of_dtype(column) not in ("date", "datetime", ANY) or _has_zone(column):
        raise ColumnError(
            "expected dates, or datetimes without a time zone, "
            f"got a column of dtype {name_of_dtype(column)}"
        )
    cells, is_null = cells_of(column)
    if cells.dtype.kind == "O":
        times = np.array([_time(value) for value in cells], "datetime64[us]")
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


def _time(value: Any) -> Any:
    """Return a date or datetime; NaT if it is missing, another object, or has a time zone."""
    if isinstance(value, np.datetime64):
        return _clipped(np.array([value])).astype("datetime64[us]")[0]
    # NaT is an instance of datetime.
    is_time = isinstance(value, date) and value is not pd.NaT
    return value if is_time and getattr(value, "tzinfo", None) is None else _NO_TIME


def objects_of(column: Any) -> list[Any]:
    """Return the values of a column as Python objects."""
    library = library_of(column)
    if library == "numpy" and column.dtype.kind not in "mM":
        return list(column)
    if library == "numpy":
        column = pd.Series(column)
    if library == "pyarrow":
        values: list[Any] = column.to_pylist()
        return values
    if library == "polars":
        return column.to_list()
    return list(column.to_numpy(dtype=object))


def as_objects(values: Sequence[Any]) -> NDArray[Any]:
    """Return Python values as they are, in an array of one dimension."""
    return np.fromiter(values, object, len(values))


def distinct_values(column: Any) -> tuple[list[Any], bool]:
    """Return the distinct values of a column, sorted, and whether any is missing."""
    try:
        return _distinct(column)
    except ColumnError:
        raise
    except Exception:
        pass  # it may hold a value, so it must not be the context of the error below
    raise ColumnError("holds values that cannot be hashed and sorted")


def _distinct(column: Any) -> tuple[list[Any], bool]:
    library = library_of(column)
    if library == "numpy":
        column = pd.Series(column)
    elif library == "pyarrow" and str(column.type) == "string_view":
        # `unique` of Arrow misreads nulls in views.
        column = column.cast("large_string")
    series = nw.from_native(column, series_only=True)
    if series.dtype == nw.Object:
        # Hashing would merge 1, 1.0 and True.
        objects = [plain(value) for value in series.to_list()]
        values = list({(kind_of(value), value): value for value in objects}.values())
    else:
        values = [plain(value) for value in series.unique().to_list()]
    n_values = len(values)
    values = [value for value in values if value is not None]
    if len({kind_of(value) for value in values}) > 1:
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
        what = "text" if _arrow_kind(dtype) == "string" else "values"
        raise ColumnError(f"expected lists of values, got a column of {what}")
    if column.null_count:
        raise ColumnError(_MISSING_LIST)
    sizes = compute.list_value_length(column).to_numpy()
    return compute.list_flatten(column), sizes.astype(np.int64)
