"""Names and declared values as JSON that keeps their types, and can make nothing else."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import groupby
from typing import Any, NoReturn

import numpy as np
import pandas as pd

from skdp.coding import plain
from skdp.domain._values import Interval

_MOST_CHARACTERS, _MOST_ITEMS, _MOST_DIGITS = 1 << 24, 1 << 19, 1000

# In this order: a timestamp is a date, too.
_SCALARS: dict[str, tuple[type, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "float": (float, repr, float),  # those that JSON does not know
    "timestamp": (
        datetime,
        lambda value: pd.Timestamp(value).isoformat(),
        pd.Timestamp,
    ),
    "date": (date, date.isoformat, date.fromisoformat),
    "time": (time, time.isoformat, time.fromisoformat),
    "timedelta": (pd.Timedelta, pd.Timedelta.isoformat, pd.Timedelta),
    "duration": (
        timedelta,
        lambda value: value // timedelta(microseconds=1),
        lambda n: timedelta(microseconds=n),
    ),
    "decimal": (Decimal, str, Decimal),
    # Not "1e9", whose digits would be computed.
    "fraction": (Fraction, str, lambda text: Fraction(*map(int, text.split("/")))),
    "bytes": (bytes, bytes.hex, bytes.fromhex),
    "interval": (
        Interval,
        lambda value: _pack_interval(value),
        lambda packed: _unpack_interval(*packed),
    ),
}


def _pack_interval(interval: Interval) -> list[Any]:
    packed = [pack(interval.edges), interval.missing, interval.says_real]
    return (
        packed if interval.says_decimals is None else [*packed, interval.says_decimals]
    )


def _unpack_interval(
    edges: Any, missing: bool, real: bool = False, decimals: int | None = None
) -> Interval:
    return Interval(edges=unpack(edges), missing=missing, real=real, decimals=decimals)


_TIMES, _LONGEST_TIME = frozenset({"timestamp", "date", "time", "timedelta"}), 100
"""Their parsers take seconds for long texts."""

_MOST_OF_ONE_HASH = 1 << 7

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
    if (
        value is None
        or isinstance(value, bool | int | str)
        or (isinstance(value, float) and np.isfinite(value))
    ):
        return value
    for name, (kind, write, _) in _SCALARS.items():
        if isinstance(value, kind):
            return {name: write(value)}
    raise TypeError(f"a {type(value).__name__} cannot be saved")


def check_hashes(values: Iterable[Any]) -> None:
    """Refuse values of others that were chosen for their hash: a set or mapping of them would take quadratic time."""
    values = list(values)
    _check_fractions(values)
    _check_counts(values)


def _check_fractions(values: Iterable[Any]) -> None:
    # Python keeps the hashes of fractions in a mapping of their pairs of whole numbers, which are therefore looked at
    # before any fraction is hashed.
    pairs, left = [], [*values]
    while left:
        value = left.pop()
        if isinstance(value, Fraction):
            pairs.append((value.numerator, value.denominator))
        elif isinstance(value, tuple):
            left += value
    _check_counts(pair for pair, _ in groupby(sorted(pairs)))


def _check_counts(values: Iterable[Any]) -> None:
    if max(Counter(map(hash, values)).values(), default=0) > _MOST_OF_ONE_HASH:
        raise ValueError("too many values have one hash")


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
        pairs = [(unpack(key), unpack(item)) for key, item in value]
        check_hashes(key for key, _ in pairs)
        return dict(pairs)
    if name not in _SCALARS:
        raise ValueError(f"unknown type {str(name)[:50]!r}")
    if name in _TIMES and isinstance(value, str) and len(value) > _LONGEST_TIME:
        raise ValueError("a time is too long")
    return _SCALARS[name][2](value)


def parse_json(text: str, what: str, most_items: int = _MOST_ITEMS) -> Any:
    """Parse JSON of others, in bounded time and memory; None if it is none."""
    if len(text) > _MOST_CHARACTERS:
        raise ValueError(
            f"{what} has at most {_MOST_CHARACTERS:,} characters, got {len(text):,}"
        )
    if (items := sum(map(text.count, "[,")) + 4 * text.count("{")) > most_items:
        raise ValueError(f"{what} has at most {most_items:,} values, got {items:,}")
    fractions: list[Fraction] = []

    def collect(found: dict[str, Any]) -> dict[str, Any]:
        if isinstance(found.get("fraction"), str):
            with suppress(ValueError, ArithmeticError, TypeError):
                fractions.append(unpack(found))
        return found

    try:
        content = json.loads(
            text, parse_int=_whole, parse_constant=_refuse, object_hook=collect
        )
    except (ValueError, RecursionError, MemoryError):
        return None
    _check_fractions(fractions)  # those of all columns: they share the mapping
    return content


def _whole(text: str) -> int:
    return int(text) if len(text) <= _MOST_DIGITS else _refuse(text)


def _refuse(text: str) -> NoReturn:
    raise ValueError
