"""Read a column as dates or datetimes, and write them as a column of the same kind."""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.coding._encode import ColumnError, library_of, shielded, take

Times = NDArray[np.datetime64]

_MISSING = np.datetime64("NaT", "us")
_YEARS = np.array(["-0001-01-01", "10001-01-01"], "datetime64[D]")
"""Limits beyond all dates of Python, to which further dates are clipped."""
_NANOSECOND_YEARS = np.array(["1677-09-22", "2262-04-11"], "datetime64[D]")
"""The range of 64-bit nanoseconds."""


def to_dates(column: Any, dtype: Any) -> Times:
    """Return a column of dates or datetimes as days or microseconds, which compare exactly."""
    if isinstance(column, np.ndarray):
        return shielded(_from_array, column, dtype)
    read = {"pandas": _from_pandas, "polars": _from_polars, "pyarrow": _from_arrow}
    return shielded(read[library_of(column)], column, dtype)


def time_type(like: Any) -> np.dtype[Any] | None:
    """Return the NumPy dtype with the unit of a column of dates or datetimes."""
    dtype = like.type if type(like).__module__.startswith("pyarrow") else like.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        dtype = dtype.categories.dtype
    if isinstance(dtype, pd.ArrowDtype):
        dtype = dtype.pyarrow_dtype
    if isinstance(dtype, np.dtype):
        return dtype if dtype.kind == "M" else None
    dtype = getattr(dtype, "value_type", dtype)  # of an Arrow dictionary
    if str(dtype) in ("Date", "date32[day]", "date64[ms]"):
        return np.dtype("datetime64[D]")
    unit = getattr(dtype, "time_unit", None) or getattr(dtype, "unit", None)
    return None if unit is None else np.dtype(f"datetime64[{unit}]")


def held_dates(times: Times, dtype: np.dtype[Any] | None) -> Times:
    """Clip times to the range that a dtype can hold."""
    if dtype is None or np.datetime_data(dtype)[0] != "ns":
        return times
    return np.clip(times, *_NANOSECOND_YEARS.astype(times.dtype))


def dates_like(times: Times, like: Any) -> Any:
    """Build a column of dates or datetimes with the library and dtype of another column."""
    dtype = time_type(like)
    if dtype is not None:
        times = held_dates(times, dtype).astype(dtype)
    if isinstance(like, np.ndarray):
        return times.astype(object) if dtype is None else times
    library = library_of(like)
    if library == "polars":
        import polars

        return polars.Series(times)
    if library == "pyarrow":
        return _to_arrow(times, like.type)
    if isinstance(like.dtype, pd.ArrowDtype):
        return pd.array(
            _to_arrow(times, like.dtype.pyarrow_dtype).to_pandas(
                types_mapper=pd.ArrowDtype
            )
        )
    return pd.array(
        times if dtype is not None else times.astype(object), dtype or np.dtype(object)
    )


def _to_arrow(times: Times, kind: Any) -> Any:
    import pyarrow

    kind = getattr(kind, "value_type", kind)
    column = pyarrow.chunked_array([pyarrow.array(times)])
    return column if pyarrow.types.is_null(kind) else column.cast(kind)


def _refuse(dtype: Any) -> ColumnError:
    return ColumnError(
        f"expected dates, or datetimes without a time zone, got a column of dtype {dtype}"
    )


def _from_array(array: NDArray[Any], dtype: Any) -> Times:
    if array.dtype.kind == "M":
        # Coarse units have dates beyond the range of microseconds.
        coarse = np.datetime_data(array.dtype)[0] not in (
            "us",
            "ns",
            "ps",
            "fs",
            "as",
            "generic",
        )
        return (
            np.clip(array, *_YEARS.astype(array.dtype)) if coarse else array
        ).astype(dtype)
    if array.dtype.kind != "O":
        # Not the dtype itself: the width of a string dtype reveals the length of the longest value.
        raise _refuse(array.dtype.type.__name__)
    return np.array([_date(value) for value in array], "datetime64[us]").astype(dtype)


def _date(value: Any) -> Any:
    """Return a date or datetime; NaT if it is missing, another object, or has a time zone."""
    if isinstance(value, np.datetime64):
        return _from_array(np.array([value]), "datetime64[us]")[0]
    known = isinstance(value, date) and value is not pd.NaT  # an instance of datetime
    return value if known and getattr(value, "tzinfo", None) is None else _MISSING


def _from_pandas(column: pd.Series, dtype: Any) -> Times:
    kind = column.dtype
    if isinstance(kind, pd.CategoricalDtype):
        levels = _from_pandas(pd.Series(kind.categories), dtype)
        return take(
            np.append(levels, _MISSING.astype(dtype)), column.cat.codes.to_numpy()
        )
    if isinstance(kind, pd.ArrowDtype):
        import pyarrow

        return _from_arrow(pyarrow.array(column.array), dtype)
    if isinstance(kind, np.dtype):
        return _from_array(column.to_numpy(), dtype)
    raise _refuse(kind)


def _from_polars(column: Any, dtype: Any) -> Times:
    import polars

    if column.dtype == polars.Null:  # the type of a column without values
        return np.full(len(column), _MISSING, dtype)
    if not (
        column.dtype == polars.Date
        or (column.dtype == polars.Datetime and column.dtype.time_zone is None)
    ):
        raise _refuse(column.dtype.base_type())
    return _from_array(column.to_numpy(), dtype)


def _from_arrow(column: Any, dtype: Any) -> Times:
    from pyarrow import types

    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if types.is_null(kind):
        return np.full(len(column), _MISSING, dtype)
    if not (types.is_date(kind) or (types.is_timestamp(kind) and kind.tz is None)):
        raise _refuse(kind)
    return _from_array(column.to_numpy(zero_copy_only=False), dtype)
