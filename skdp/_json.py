"""Typed values as JSON, and size limits of untrusted files."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from datetime import date, datetime
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

# Size of a protocol, a tally, a record or a domain file, and the number of declared
# values in it: a reader needs memory and time in proportion to both.
MAX_FILE_BYTES = 1 << 24
MAX_DECLARED_VALUES = 1 << 17

# Readers that store all numbers as 64-bit floats represent integers up to this one.
_MAX_INTEGER = (1 << 53) - 1

_NOT_FINITE = {"inf": math.inf, "-inf": -math.inf}


class _Type(NamedTuple):
    type: type
    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


# Types that JSON lacks, by the tag in the file. A datetime is an instance of date, and
# therefore comes first.
_TYPES = {
    "datetime": _Type(datetime, lambda x: pd.Timestamp(x).isoformat(), pd.Timestamp),
    "date": _Type(date, date.isoformat, date.fromisoformat),
    # A ratio of two integers: Fraction("1e9") would compute the digits of a power.
    "fraction": _Type(
        Fraction,
        lambda x: f"{x.numerator}/{x.denominator}",
        lambda text: Fraction(*map(int, text.split("/"))),
    ),
    "integer": _Type(int, str, int),
    "float": _Type(float, repr, _NOT_FINITE.__getitem__),
    "tuple": _Type(
        tuple,
        lambda items: list(map(value_to_json, items)),
        lambda items: tuple(map(value_from_json, items)),
    ),
    "pairs": _Type(
        Mapping,
        lambda mapping: [[*map(value_to_json, pair)] for pair in mapping.items()],
        lambda pairs: {
            value_from_json(key): value_from_json(item) for key, item in pairs
        },
    ),
}


def register_type(
    tag: str, type_: type, write: Callable[[Any], Any], read: Callable[[Any], Any]
) -> None:
    """Add a type of a package above this module."""
    _TYPES[tag] = _Type(type_, write, read)


def value_to_json(value: Any) -> Any:
    """Convert a value to types of JSON; other types are tagged."""
    value = _to_python(value)
    if isinstance(value, str | bool | None):
        return value
    if type(value) is int and abs(value) <= _MAX_INTEGER:
        return value
    if type(value) is float and math.isfinite(value):
        return value
    if isinstance(value, list):
        return list(map(value_to_json, value))
    if type(value) is dict and all(map(_is_plain_key, value)):
        return {key: value_to_json(item) for key, item in value.items()}
    for tag, known in _TYPES.items():
        if isinstance(value, known.type):
            return {f"${tag}": known.write(value)}
    raise TypeError(f"values of type {type(value).__name__} cannot be written as JSON")


def value_from_json(content: Any) -> Any:
    """Convert the output of `value_to_json` back to the value."""
    if isinstance(content, list):
        return list(map(value_from_json, content))
    if not isinstance(content, dict):
        return content
    if all(map(_is_plain_key, content)):
        return {key: value_from_json(item) for key, item in content.items()}
    if len(content) != 1:
        raise ValueError("expected one tag and its value")
    ((tag, value),) = content.items()
    if tag[1:] not in _TYPES:
        raise ValueError(f"unknown tag {tag[:50]!r}")
    # No function but these readers is called on the text of a file.
    return _TYPES[tag[1:]].read(value)


def _is_plain_key(key: Any) -> bool:
    return type(key) is str and not key.startswith("$")


def _to_python(value: Any) -> Any:
    """Convert arrays and scalars of NumPy to Python objects, and missing values to None."""
    if isinstance(value, np.ndarray):
        return list(value)
    if isinstance(value, np.datetime64):
        value = pd.Timestamp(value)
    elif isinstance(value, np.generic):
        value = value.item()
    elif isinstance(value, str):
        # An enum member is also an instance of str, and `str` returns its name.
        return str.__str__(value)
    is_missing = value is pd.NA or value is pd.NaT
    is_nan = isinstance(value, float) and math.isnan(value)
    return None if is_missing or is_nan else value


def parse_json(text: str, name: str) -> Any:
    """Parse JSON of limited size; None if the text is not JSON."""
    if len(text) > MAX_FILE_BYTES:
        raise ValueError(
            f"{name} must have at most {MAX_FILE_BYTES:,} characters, got {len(text):,}"
        )
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
