"""Names and declared values as JSON that keeps their types, and can make nothing else."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from skdp.domain._attributes import Interval
from skdp.tables import plain

_MAX_CHARACTERS, _MAX_ITEMS = 1 << 24, 1 << 19

_SAME = {str, bool, type(None)}

# Larger whole numbers are not exact where all numbers are floats of 64 bits.
_MAX_EXACT = (1 << 53) - 1

_NOT_FINITE = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}

_MICROSECOND = timedelta.resolution

_INTERVAL_KEYS = {"edges", "missing", "real", "decimals"}


class Kind(NamedTuple):
    """A kind of values that JSON does not know: how they are written, and read."""

    type: type | tuple[type, ...]
    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


Kinds = Mapping[str, Kind]

NONE: Kinds = MappingProxyType({})


def pack(value: Any, further: Kinds = NONE) -> Any:
    """Turn a value into what JSON can hold: one of the plain kinds, or of further ones."""
    # What JSON knows stands for itself. All else is an object of one member, whose name
    # begins with a dollar sign and says the kind.
    if type(value) in _SAME:
        return value
    if type(value) is int:
        return value if abs(value) <= _MAX_EXACT else {"$integer": str(value)}
    if type(value) is float and math.isfinite(value):
        return value
    if isinstance(value, list):
        return [pack(item, further) for item in value]
    if isinstance(value, tuple):
        return {"$tuple": [pack(item, further) for item in value]}
    if isinstance(value, Mapping):
        return _pack_mapping(value, further)
    for name, kind in further.items():
        if isinstance(value, kind.type):
            return {f"${name}": kind.write(value)}
    if isinstance(value, np.ndarray):
        return pack(value.tolist())
    # Missing of all libraries is null, and numbers of NumPy are those of Python.
    simple = plain(value)
    for name, kind in PLAIN.items():
        if isinstance(simple, kind.type):
            return {f"${name}": kind.write(simple)}
    if type(simple) is float and not math.isfinite(simple):
        return {"$float": repr(simple)}
    if type(simple) is type(value):
        raise TypeError(f"a {type(value).__name__} cannot be saved")
    return pack(simple)


def _pack_mapping(mapping: Mapping[Any, Any], further: Kinds) -> Any:
    """Write a mapping as an object, if its keys are text that names no kind."""
    if all(type(key) is str and not key.startswith("$") for key in mapping):
        return {key: pack(item, further) for key, item in mapping.items()}
    pairs = [[pack(key, further), pack(item, further)] for key, item in mapping.items()]
    return {"$pairs": pairs}


def unpack(packed: Any, further: Kinds = NONE) -> Any:
    """Turn JSON into what `pack` was given."""
    if isinstance(packed, list):
        return [unpack(item, further) for item in packed]
    if not isinstance(packed, dict):
        return packed
    if not any(name.startswith("$") for name in packed):
        return {name: unpack(item, further) for name, item in packed.items()}
    if len(packed) != 1:
        raise ValueError("expected one kind and its value")
    ((name, value),) = packed.items()
    if name == "$tuple":
        return tuple(unpack(list(value), further))
    if name == "$pairs":
        keys = []
        items = []
        for key, item in value:
            keys.append(unpack(key, further))
            items.append(unpack(item, further))
        return dict(zip(keys, items, strict=True))
    if name == "$integer":
        return int(value)
    if name == "$float":
        return _NOT_FINITE[value]
    kind = further.get(name[1:]) or PLAIN.get(name[1:])
    if kind is None:
        raise ValueError(f"unknown kind {name[:50]!r}")
    # Nothing but these parsers is ever called on the text of a file.
    return kind.read(value)


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


def _pack_interval(interval: Interval) -> dict[str, Any]:
    return {
        "edges": [pack(edge) for edge in interval.edges],
        "missing": interval.missing,
        "real": interval.real,
        "decimals": interval.decimals,
    }


def _unpack_interval(packed: dict[str, Any]) -> Interval:
    # Of low, high and bins, a text of few bytes could make millions of edges.
    if packed.keys() != _INTERVAL_KEYS or not isinstance(packed["edges"], list):
        raise ValueError("an interval has a list of edges, missing, real and decimals")
    return Interval(**{**packed, "edges": unpack(packed["edges"])})


# In this order: a timestamp is a date, too, and a Timedelta a timedelta.
PLAIN = {
    "datetime": Kind(datetime, _timestamp_text, pd.Timestamp),
    "date": Kind(date, date.isoformat, date.fromisoformat),
    "time": Kind(time, time.isoformat, time.fromisoformat),
    "timedelta": Kind(pd.Timedelta, pd.Timedelta.isoformat, pd.Timedelta),
    "microseconds": Kind(timedelta, _in_microseconds, _duration),
    "decimal": Kind(Decimal, str, Decimal),
    "fraction": Kind(Fraction, _fraction_text, _fraction),
    "bytes": Kind(bytes, bytes.hex, bytes.fromhex),
    "interval": Kind(Interval, _pack_interval, _unpack_interval),
}


def parse_json(
    text: str,
    what: str,
    most_items: int = _MAX_ITEMS,
    most_characters: int = _MAX_CHARACTERS,
) -> Any:
    """Parse JSON of limited size; None if it is none."""
    if len(text) > most_characters:
        raise ValueError(
            f"{what} has at most {most_characters:,} characters, got {len(text):,}"
        )
    # Every value follows a bracket or a comma; a mapping takes four times the memory
    # of a list.
    n_items = text.count("[") + text.count(",") + 4 * text.count("{")
    if n_items > most_items:
        raise ValueError(f"{what} has at most {most_items:,} values, got {n_items:,}")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
