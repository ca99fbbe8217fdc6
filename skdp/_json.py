"""Conversion of typed values to JSON and back, and size limits of untrusted files."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from datetime import date, datetime
from fractions import Fraction
from importlib.metadata import version as release
from typing import Any

import numpy as np
import pandas as pd

# Limits of a protocol, a tally, a record or a domain file. Loading takes memory and time
# in proportion to its size and to the number of declared values in it.
MAX_FILE_BYTES = 1 << 24
MAX_DECLARED_VALUES = 1 << 17

_NOT_FINITE = {"inf": math.inf, "-inf": -math.inf}


# Types that JSON lacks, with their conversions to types of JSON and back, by the tag in
# the file, such as {"$date": "2020-02-29"}. A datetime is also an instance of date, so it
# comes first.
_TYPES: dict[str, tuple[type, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "datetime": (datetime, lambda x: pd.Timestamp(x).isoformat(), pd.Timestamp),
    "date": (date, date.isoformat, date.fromisoformat),
    # Two integers, because Fraction("1e999999999") would not end.
    "fraction": (
        Fraction,
        lambda x: f"{x.numerator}/{x.denominator}",
        lambda text: Fraction(*map(int, text.split("/"))),
    ),
    "integer": (int, str, int),
    "float": (float, repr, _NOT_FINITE.__getitem__),
    "tuple": (
        tuple,
        lambda items: list(map(value_to_json, items)),
        lambda items: tuple(map(value_from_json, items)),
    ),
    "pairs": (
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
    """Add a type with its conversions to and from JSON, for packages above this module."""
    _TYPES[tag] = type_, write, read


def value_to_json(value: Any) -> Any:
    """Convert a value to types of JSON; a type that JSON lacks becomes {"$tag": content}.

    The tag names the type, such as "$date"; `value_from_json` converts it back.
    """
    value = _to_python(value)
    if isinstance(value, str | bool | None):
        return value
    # JavaScript and other readers use 64-bit floats.
    if type(value) is int and abs(value) < 1 << 53:
        return value
    if type(value) is float and math.isfinite(value):
        return value
    if isinstance(value, list):
        return list(map(value_to_json, value))
    if type(value) is dict and all(map(_is_plain_key, value)):
        return {key: value_to_json(item) for key, item in value.items()}
    for tag, (type_, write, _) in _TYPES.items():
        if isinstance(value, type_):
            return {f"${tag}": write(value)}
    raise TypeError(f"Values of type {type(value).__name__} cannot be written as JSON.")


def value_from_json(content: Any) -> Any:
    """Convert the output of `value_to_json` back to the value."""
    if isinstance(content, list):
        return list(map(value_from_json, content))
    if not isinstance(content, dict):
        return content
    if all(map(_is_plain_key, content)):
        return {key: value_from_json(item) for key, item in content.items()}
    if len(content) != 1:
        raise ValueError(f"expected one tag and its value, got {len(content)} keys.")
    ((tag, value),) = content.items()
    if tag[1:] not in _TYPES:
        raise ValueError(f"A tag must be one of {list(_TYPES)}, got {tag[:50]!r}.")
    # Only the functions of this table are called with the content of a file.
    _, _, read = _TYPES[tag[1:]]
    return read(value)


def _is_plain_key(key: Any) -> bool:
    """Check if a key of a dict is text that cannot be mistaken for a tag."""
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


def check_version(found: Any, version: int, name: str) -> None:
    """Raise an error if a file has another version than the version that is read; `name` is for errors."""
    if not isinstance(found, int) or found == version:
        return
    writer, remedy = "a later", "Upgrade skdp to read it."
    if found < version:
        writer, remedy = "an earlier", "Write it again with this version of skdp."
    raise ValueError(
        f"{name} was written by {writer} version of skdp: skdp {release('skdp')} reads "
        f"version {version}, got {found}. {remedy}"
    )


def parse_json(text: str, name: str) -> Any:
    """Parse JSON of limited size; None if the text is not JSON. `name` is for errors."""
    if len(text) > MAX_FILE_BYTES:
        raise ValueError(
            f"{name} must have at most {MAX_FILE_BYTES:,} characters, got "
            f"{len(text):,}."
        )
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
