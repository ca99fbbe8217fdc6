"""The dtypes of declared values in each library, whatever the dtype of the data is."""

# One value may change a dtype: a missing one makes floats of integers and objects of
# truth values, a large one widens them, and a fraction of a second makes nanoseconds of
# seconds. So of a column only the library remains, and a family of its dtypes: those of
# NumPy, nullable or of Arrow in pandas, categories, text, Python objects, and of polars
# and Arrow, a time zone.

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, timedelta
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from skdp.tables._columns import kind_of, library_of, present


class _Dtypes(NamedTuple):
    """The dtypes of a kind of values: in NumPy, nullable in pandas, in polars and in Arrow."""

    numpy: np.dtype[Any]
    nullable: Any
    polars: str
    arrow: str


_DTYPES = {
    "unsigned": _Dtypes(np.dtype(np.uint64), pd.UInt64Dtype(), "UInt64", "uint64"),
    "whole": _Dtypes(np.dtype(np.int64), pd.Int64Dtype(), "Int64", "int64"),
    "real": _Dtypes(np.dtype(float), pd.Float64Dtype(), "Float64", "float64"),
    "boolean": _Dtypes(np.dtype(bool), pd.BooleanDtype(), "Boolean", "bool_"),
    "string": _Dtypes(np.dtype("U1"), pd.StringDtype(), "String", "string"),
}

_MISSING = "missing"

_DAYS = np.dtype("datetime64[D]")
_MICROSECONDS = np.dtype("datetime64[us]")
_DURATION = np.dtype("timedelta64[us]")

# The kinds of NumPy's dtypes that one value may turn into each other.
_SIMPLE = "iufbO"


def kind_of_values(values: Sequence[Any], *, real: bool | None = None) -> str:
    """Return the kind of declared values, which decides their dtype.

    Numbers are whole if `real` is False, or if it is None and all listed ones are.
    """
    listed = present(values)
    if not listed:
        return _MISSING
    if isinstance(listed[0], timedelta | np.timedelta64):
        return "duration"
    kind = kind_of(listed[0])
    if kind != "number":
        return kind
    if real is None:
        real = not all(map(float.is_integer, map(float, listed)))
    if real:
        return "real"
    # Beyond the largest integer with a sign, but not negative. What no integer holds, the
    # libraries make floats of.
    is_unsigned = max(listed) > np.iinfo(np.int64).max and min(listed) >= 0
    return "unsigned" if is_unsigned else "whole"


def number_dtype(kind: str) -> np.dtype[Any]:
    """Return the dtype of NumPy of a kind of numbers."""
    return _DTYPES[kind].numpy


def dtype_like(column: Any, kind: str, values: Sequence[Any]) -> Any:
    """Return the dtype of declared values in the library and family of a column."""
    library = library_of(column)
    if library == "pyarrow":
        return _arrow_dtype(column.type, kind, values)
    if library == "polars":
        return _polars_dtype(column.dtype, kind, values)
    if library == "pandas":
        return _pandas_dtype(column.dtype, kind, values)
    return _numpy_dtype(column.dtype, kind)


def empty_column(library: str, dtype: Any) -> Any:
    """Make a column without rows, from nothing: a slice may hold the memory of all."""
    if library == "numpy":
        return np.empty(0, dtype)
    if library == "pandas":
        return pd.Series([], dtype=dtype)
    if library == "pyarrow":
        import pyarrow

        return pyarrow.chunked_array([], dtype)
    import polars

    return polars.Series([], dtype=dtype)


def _numpy_dtype(dtype: np.dtype[Any], kind: str) -> np.dtype[Any]:
    if kind in _DTYPES:
        return _DTYPES[kind].numpy
    if dtype.kind == "M":
        return _DAYS if kind == "date" else _MICROSECONDS
    if dtype.kind == "m":
        return _DURATION
    if dtype.kind in "US":  # its width is that of the longest value
        return np.dtype(f"{dtype.kind}1")
    if dtype.kind not in _SIMPLE:
        return dtype
    return np.dtype(float if kind == _MISSING else object)


def _pandas_dtype(dtype: Any, kind: str, values: Sequence[Any]) -> Any:
    is_of_numpy = isinstance(dtype, np.dtype)
    may_be_of_times = isinstance(dtype, pd.DatetimeTZDtype) or is_of_numpy
    if may_be_of_times and kind in ("date", "datetime"):
        return _pandas_times(values)
    is_extension = isinstance(dtype, pd.PeriodDtype | pd.IntervalDtype)
    if kind in ("Period", "Interval") and (is_of_numpy or is_extension):
        # Of these, a missing one makes Python objects.
        listed = present(values)
        return _inferred(lambda: pd.array(listed).dtype, np.dtype(object))
    if is_of_numpy:
        if dtype.kind == "M":
            return _MICROSECONDS
        if kind == "string" and dtype.kind in _SIMPLE:
            return _text_dtype()
        return _numpy_dtype(dtype, kind)
    if isinstance(dtype, pd.CategoricalDtype):
        # What is not declared among the categories may be somebody's value, and their
        # dtype says whether one is missing.
        return pd.CategoricalDtype(pd.Index([], dtype=object), dtype.ordered)
    if isinstance(dtype, pd.ArrowDtype):
        return pd.ArrowDtype(_arrow_dtype(dtype.pyarrow_dtype, kind, values))
    if isinstance(dtype, pd.DatetimeTZDtype):
        return pd.DatetimeTZDtype("us", dtype.tz)
    if isinstance(dtype, pd.StringDtype | pd.PeriodDtype):
        return dtype
    if pd.api.types.is_numeric_dtype(dtype):  # truth values are numeric, too
        if kind == _MISSING:
            kind = "real"
        return _DTYPES[kind].nullable if kind in _DTYPES else np.dtype(object)
    return _inferred(lambda: pd.array(list(values)).dtype, dtype)


def _pandas_times(values: Sequence[Any]) -> Any:
    """Return the dtype of declared dates or times."""
    # One value may make Python objects of a column: a day among times, one beyond the
    # range of nanoseconds, or one of another offset. So the dtype is that of what is
    # declared (of bins, of their middles). Pandas has no days.
    zones = {getattr(value, "tzinfo", None) for value in present(values)}
    if zones == {None}:
        return _MICROSECONDS
    if None in zones:
        return np.dtype(object)
    # Times of different offsets are in UTC, also those of one zone that a file declares:
    # it has their offsets, and no names of zones.
    zone = zones.pop() if len(zones) == 1 else UTC
    return pd.DatetimeTZDtype("us", zone)


@cache  # to infer it takes as long as to write a small batch
def _text_dtype() -> Any:
    """Return what pandas makes of text by default, which its version decides."""
    return pd.Series(["text"]).dtype


def _polars_dtype(dtype: Any, kind: str, values: Sequence[Any]) -> Any:
    import polars

    base = dtype.base_type()
    # The categories of a Categorical, which it has from the rows, live as long as
    # anything of its dtype.
    if base in (polars.Enum, polars.Categorical):
        return polars.Enum([])
    if base == polars.Object:
        return dtype
    if kind == _MISSING and dtype.is_numeric():
        return polars.Float64()
    if kind in _DTYPES:
        return getattr(polars, _DTYPES[kind].polars)()
    if kind == "date":
        return polars.Date()
    if kind == "datetime" or (kind == _MISSING and base == polars.Datetime):
        return polars.Datetime("us", getattr(dtype, "time_zone", None))
    if kind == "duration" or (kind == _MISSING and base == polars.Duration):
        return polars.Duration("us")
    if kind == _MISSING:
        return dtype
    return _inferred(lambda: polars.Series(values).dtype, dtype)


def _arrow_dtype(dtype: Any, kind: str, values: Sequence[Any]) -> Any:
    import pyarrow
    from pyarrow import types

    if types.is_dictionary(dtype):
        # The width of the codes is that of the number of values that occur.
        held = _arrow_dtype(dtype.value_type, kind, values)
        return pyarrow.dictionary(pyarrow.int32(), held, dtype.ordered)
    is_text = types.is_string(dtype) or types.is_large_string(dtype)
    if kind == "string" and (is_text or types.is_string_view(dtype)):
        return dtype
    if kind in _DTYPES:
        return getattr(pyarrow, _DTYPES[kind].arrow)()
    if kind == "date":
        return pyarrow.date32()
    if kind == "datetime" or (kind == _MISSING and types.is_timestamp(dtype)):
        return pyarrow.timestamp("us", getattr(dtype, "tz", None))
    if kind == "duration" or (kind == _MISSING and types.is_duration(dtype)):
        return pyarrow.duration("us")
    if kind == _MISSING:
        is_whole = types.is_integer(dtype) or types.is_decimal(dtype)
        is_number = is_whole or types.is_floating(dtype)
        return pyarrow.float64() if is_number else dtype
    return _inferred(lambda: pyarrow.array(values).type, dtype)


def _inferred(infer: Callable[[], Any], dtype: Any) -> Any:
    """Return the dtype that a library makes of declared values, or that of a column."""
    try:
        return infer()
    except Exception:  # of any kind, as each library has its own
        return dtype
