"""Names and declared values as JSON that keeps their types, and can make nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd

from skdp.coding import plain
from skdp.domain._values import Interval

# In this order: a timestamp is a date, too.
_SCALARS: dict[str, tuple[type, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "float": (float, repr, float),  # those that JSON does not know
    "timestamp": (datetime, lambda value: pd.Timestamp(value).isoformat(), pd.Timestamp),
    "date": (date, date.isoformat, date.fromisoformat),
    "time": (time, time.isoformat, time.fromisoformat),
    "timedelta": (pd.Timedelta, pd.Timedelta.isoformat, pd.Timedelta),
    "duration": (timedelta, lambda value: value // timedelta(microseconds=1), lambda n: timedelta(microseconds=n)),
    "decimal": (Decimal, str, Decimal),
    # Not "1e9", whose digits would be computed.
    "fraction": (Fraction, str, lambda text: Fraction(*map(int, text.split("/")))),
    "bytes": (bytes, bytes.hex, bytes.fromhex),
    "interval": (
        Interval,
        lambda value: [pack(value.edges), value.missing, value.says_real],
        lambda packed: Interval(edges=unpack(packed[0]), missing=packed[1], real=packed[2] if packed[2:] else False),
    ),
}

_TIMES, _LONGEST_TIME = frozenset({"timestamp", "date", "time", "timedelta"}), 100
"""Their parsers take seconds for long texts."""


_SAME = {str, int, bool, type(None)}


def pack(value: Any) -> Any:
    """Turn a scalar, a list, a tuple or a mapping into what JSON can hold."""
    if type(value) in _SAME:
        return value
    if isinstance(value, np.ndarray):
        return pack(value.tolist())
    if isinstance(value, tuple | list):
        packed = [pack(item) for item in value]
        return {"tuple": packed} if isinstance(value, tuple) else packed
    if isinstance(value, Mapping):
        return {"mapping": [[pack(key), pack(item)] for key, item in value.items()]}
    value = plain(value)
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and np.isfinite(value)):
        return value
    for name, (kind, write, _) in _SCALARS.items():
        if isinstance(value, kind):
            return {name: write(value)}
    raise TypeError(f"a {type(value).__name__} cannot be saved")


def unpack(packed: Any) -> Any:
    """Turn JSON into what `pack` was given."""
    if isinstance(packed, list):
        return [unpack(item) for item in packed]
    if not isinstance(packed, dict):
        return packed
    if len(packed) != 1:
        raise ValueError("expected one type and its value")
    ((name, value),) = packed.items()
    if name == "tuple":
        return tuple(unpack(item) for item in value)
    if name == "mapping":
        return {unpack(key): unpack(item) for key, item in value}
    if name not in _SCALARS:
        raise ValueError(f"unknown type {str(name)[:50]!r}")
    if name in _TIMES and isinstance(value, str) and len(value) > _LONGEST_TIME:
        raise ValueError("a time is too long")
    return _SCALARS[name][2](value)
