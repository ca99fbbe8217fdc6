"""Names and declared values as JSON that keeps their types, and can make nothing else."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np
import pandas as pd

from skdp.domain._domain import Interval
from skdp.tables import plain

_MOST_CHARACTERS, _MOST_ITEMS, _MOST_DIGITS = 1 << 24, 1 << 19, 1000

# Python keeps the hashes of fractions in a mapping of its own, whose time is quadratic
# in those of one hash.
_MOST_FRACTIONS = 1000

_MOST_OF_ONE_HASH = 1 << 7

# The parsers of times take seconds for long texts.
_LONGEST_TIME = 100

_SAME = {str, int, bool, type(None)}

_MICROSECOND = timedelta.resolution


def pack(value: Any) -> Any:
    """Turn a scalar, a list, a tuple or a mapping into what JSON can hold."""
    if type(value) in _SAME:
        return value
    if isinstance(value, np.ndarray):
        return pack(value.tolist())
    if isinstance(value, list):
        return list(map(pack, value))
    if isinstance(value, tuple):
        return {"tuple": pack(list(value))}
    if isinstance(value, Mapping):
        return {"mapping": [[pack(key), pack(item)] for key, item in value.items()]}
    value = plain(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and np.isfinite(value):
        return value
    for name, (kind, write, _) in _SCALARS.items():
        if isinstance(value, kind):
            return {name: write(value)}
    raise TypeError(f"a {type(value).__name__} cannot be saved")


def unpack(packed: Any) -> Any:
    """Turn JSON into what `pack` was given."""
    if isinstance(packed, list):
        return list(map(unpack, packed))
    if not isinstance(packed, dict):
        return packed
    if len(packed) != 1:
        raise ValueError("expected one type and its value")
    ((name, value),) = packed.items()
    if name == "tuple":
        return tuple(map(unpack, value))
    if name == "mapping":
        keys = []
        items = []
        for key, item in value:
            keys.append(unpack(key))
            items.append(unpack(item))
        check_hashes(keys)
        return dict(zip(keys, items, strict=True))
    if name not in _SCALARS:
        raise ValueError(f"unknown type {str(name)[:50]!r}")
    # Nothing but these parsers is ever called on the text of a file.
    kind, _, parse = _SCALARS[name]
    is_time = kind in (datetime, date, time, pd.Timedelta)
    if is_time and isinstance(value, str) and len(value) > _LONGEST_TIME:
        raise ValueError("a time is too long")
    return parse(value)


def _timestamp_text(value: datetime) -> str:
    return pd.Timestamp(value).isoformat()


def _in_microseconds(duration: timedelta) -> int:
    return duration // _MICROSECOND


def _duration(microseconds: int) -> timedelta:
    return microseconds * _MICROSECOND


def _fraction(text: str) -> Fraction:
    # Not "1e9", whose digits would be computed.
    numerator, denominator = text.split("/")
    return Fraction(int(numerator), int(denominator))


def _fraction_text(fraction: Fraction) -> str:
    return f"{fraction.numerator}/{fraction.denominator}"


def _pack_interval(interval: Interval) -> list[Any]:
    edges = pack(interval.edges)
    return [edges, interval.missing, interval.real, interval.decimals]


def _unpack_interval(packed: list[Any]) -> Interval:
    edges, missing, real, decimals = packed
    return Interval(edges=unpack(edges), missing=missing, real=real, decimals=decimals)


# In this order: a timestamp is a date, too, and a Timedelta a timedelta.
_SCALARS: dict[str, tuple[type, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "float": (float, repr, float),  # those that JSON does not know
    "timestamp": (datetime, _timestamp_text, pd.Timestamp),
    "date": (date, date.isoformat, date.fromisoformat),
    "time": (time, time.isoformat, time.fromisoformat),
    "timedelta": (pd.Timedelta, pd.Timedelta.isoformat, pd.Timedelta),
    "duration": (timedelta, _in_microseconds, _duration),
    "decimal": (Decimal, str, Decimal),
    "fraction": (Fraction, _fraction_text, _fraction),
    "bytes": (bytes, bytes.hex, bytes.fromhex),
    "interval": (Interval, _pack_interval, _unpack_interval),
}


def check_hashes(values: Iterable[Any]) -> None:
    """Refuse values of others that were chosen for their hash: a set or mapping of them would take quadratic time."""
    if max(Counter(map(hash, values)).values(), default=0) > _MOST_OF_ONE_HASH:
        raise ValueError("too many values have one hash")


def parse_json(text: str, what: str, most_items: int = _MOST_ITEMS) -> Any:
    """Parse JSON of others, in bounded time and memory; None if it is none."""
    if len(text) > _MOST_CHARACTERS:
        raise ValueError(
            f"{what} has at most {_MOST_CHARACTERS:,} characters, got {len(text):,}"
        )
    # Every value follows a bracket or a comma; a mapping takes four times the memory
    # of a list.
    n_items = text.count("[") + text.count(",") + 4 * text.count("{")
    if n_items > most_items:
        raise ValueError(f"{what} has at most {most_items:,} values, got {n_items:,}")
    fractions = []

    def note_fraction(mapping: dict[str, Any]) -> dict[str, Any]:
        if "fraction" in mapping:
            fractions.append(mapping)
        return mapping

    try:
        content = json.loads(
            text, parse_int=_whole, parse_constant=_refuse, object_hook=note_fraction
        )
    except (ValueError, RecursionError, MemoryError):
        return None
    if len(fractions) > _MOST_FRACTIONS:
        raise ValueError(
            f"{what} has at most {_MOST_FRACTIONS:,} fractions, got {len(fractions):,}"
        )
    return content


def _whole(text: str) -> int:
    return int(text) if len(text) <= _MOST_DIGITS else _refuse(text)


def _refuse(text: str) -> NoReturn:
    raise ValueError
