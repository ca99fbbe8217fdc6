"""The dtypes of declared values in each library."""

# They follow from the declared values and the library alone. One private value may change
# the dtype of a column: a missing one makes floats of integers and objects of truth
# values, a large one widens them, and a fraction of a second makes nanoseconds of seconds.

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, timedelta
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from skdp.tables._columns import kind_of, present


class _Dtypes(NamedTuple):
    """The dtypes of a kind of values: in NumPy, and by name in polars and Arrow."""

    numpy: np.dtype[Any]
    polars: str
    arrow: str


_DTYPES = {
    "unsigned": _Dtypes(np.dtype(np.uint64), "UInt64", "uint64"),
    "whole": _Dtypes(np.dtype(np.int64), "Int64", "int64"),
    "real": _Dtypes(np.dtype(float), "Float64", "float64"),
    "missing": _Dtypes(np.dtype(float), "Float64", "float64"),
    "boolean": _Dtypes(np.dtype(bool), "Boolean", "bool_"),
    "string": _Dtypes(np.dtype("U"), "String", "string"),
    "date": _Dtypes(np.dtype("datetime64[D]"), "Date", "date32"),
    "datetime": _Dtypes(np.dtype("datetime64[us]"), "Datetime", "timestamp"),
    "duration": _Dtypes(np.dtype("timedelta64[us]"), "Duration", "duration"),
}

_NUMBERS = ("unsigned", "whole", "real", "missing")


def kind_of_values(values: Sequence[Any], *, real: bool | None = None) -> str:
    """Return the kind of declared values, which decides their dtype.

    Numbers are whole if `real` is False, or if it is None and all listed ones are.
    """
    listed = present(values)
    if not listed:
        return "missing"
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


def dtype_of(library: str, kind: str, values: Sequence[Any]) -> Any:
    """Return the dtype of declared values of a kind in a library; None if the library infers it from the values."""
    if library == "numpy":
        return _numpy_dtype(kind, values)
    if library == "pandas":
        return _pandas_dtype(kind, values)
    if kind not in _DTYPES:
        return None
    zone = _zone_of(values)
    if library == "polars":
        import polars

        if kind == "datetime":
            return polars.Datetime("us", zone and str(zone))
        dtype = getattr(polars, _DTYPES[kind].polars)
        return dtype("us") if kind == "duration" else dtype()
    import pyarrow

    make_type = getattr(pyarrow, _DTYPES[kind].arrow)
    if kind == "datetime":
        return make_type("us", zone and str(zone))
    return make_type("us") if kind == "duration" else make_type()


def _numpy_dtype(kind: str, values: Sequence[Any]) -> np.dtype[Any]:
    has_missing = None in values
    if has_missing and kind in _NUMBERS:
        return np.dtype(float)
    # NumPy has no time zones, and no truth value or text that is missing.
    is_object = has_missing and kind in ("boolean", "string")
    if is_object or kind not in _DTYPES or _zone_of(values) is not None:
        return np.dtype(object)
    return _DTYPES[kind].numpy


def _pandas_dtype(kind: str, values: Sequence[Any]) -> Any:
    if kind == "string":
        return _text_dtype()
    if kind == "date":  # pandas has no days
        return np.dtype(object)
    zone = _zone_of(values)
    if zone is not None:
        return pd.DatetimeTZDtype("us", zone)
    if kind in ("Period", "Interval"):
        # With a missing one, pandas infers Python objects.
        return pd.array(present(values)).dtype
    return _numpy_dtype(kind, values)


def _zone_of(values: Sequence[Any]) -> Any:
    """Return the time zone of declared times; None if they have none."""
    zones = {getattr(value, "tzinfo", None) for value in present(values)}
    if zones <= {None}:
        return None
    # Times of different offsets are in UTC, also those of one zone that a file declares:
    # it has their offsets, and no names of zones.
    zone = zones.pop() if len(zones) == 1 else UTC
    return zone if hasattr(zone, "key") else UTC


@cache  # to infer it takes as long as to write a small batch
def _text_dtype() -> Any:
    """Return what pandas makes of text by default, which its version decides."""
    return pd.Series(["text"]).dtype


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
