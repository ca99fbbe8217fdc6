"""Whose a row is: record ids of any kind as bytes."""

from __future__ import annotations

from datetime import date
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd

from skdp.coding import ColumnError, is_missing, plain
from skdp.local._permanent import framed, to_bytes


def canonical(value: Any) -> bytes:
    """Write a value as bytes: equal bytes for equal values of a kind, different bytes for all others."""
    # 1 and 1.0 are one value, and so are a day, and its midnight without a time zone; 1, "1", True, b"1" and (1,) are
    # five.
    if type(value) is str:
        return b"s " + value.encode("utf-8", "surrogatepass")
    if type(value) is int:
        return b"n %d" % value
    if isinstance(value, tuple):
        return b"t " + framed(*map(canonical, value))
    if isinstance(value, bytes):
        return b"y " + value
    if isinstance(value, UUID):
        return b"u " + value.bytes
    if isinstance(value, date | np.datetime64) and not is_missing(value):
        time = plain(value)
        if not isinstance(time, pd.Timestamp):
            return b"d " + time.isoformat().encode() + b"T00:00:00"  # libraries without a type of days write midnight
        return b"d " + (time if time.tz is None else time.tz_convert("UTC")).isoformat().encode()
    return to_bytes([value])[0]


def read_record_ids(record_id: Any, n_rows: int) -> list[bytes]:
    """Write record ids as bytes."""
    ids = _as_list(record_id)
    if len(ids) != n_rows:
        raise ValueError(f"record_id must have an id for each of the {n_rows} rows, got {len(ids)}")
    try:
        return [canonical(value) for value in ids]
    except ColumnError as error:
        message = str(error)
    except Exception:
        message = "holds an id that cannot be written as bytes"
    raise ValueError(f"record_id {message}")  # here, where no error that may hold an id is its context


def _as_list(record_id: Any) -> list[Any]:
    if isinstance(record_id, list | tuple):
        return list(record_id)
    if getattr(record_id, "ndim", 1) != 1:
        raise ValueError(f"record_id must be 1-D, got {record_id.ndim}-D")
    if getattr(getattr(record_id, "dtype", None), "time_unit", None) == "ns" and hasattr(record_id, "to_physical"):
        zone = record_id.dtype.time_zone and "UTC"  # the objects that polars makes have no nanoseconds
        return [None if time is None else pd.Timestamp(time, tz=zone) for time in record_id.to_physical().to_list()]
    if isinstance(record_id, np.ndarray) and record_id.dtype.kind == "M":
        return list(record_id)  # as plain objects, times in nanoseconds would be numbers
    for name in ("tolist", "to_list", "to_pylist"):  # numpy and pandas, polars, pyarrow
        if hasattr(record_id, name) and not isinstance(record_id, np.generic):
            return list(getattr(record_id, name)())
    raise TypeError(f"record_id must be a 1-D array, a series or a list, got {type(record_id).__name__}")
