"""Read and write a domain as a TOML file with one table per column."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from typing import Any

import numpy as np
import pandas as pd

from skdp.domain._edges import Edge, even_edges
from skdp.domain._values import MOST_BINS, Categories, Interval

_FLAGS = {"missing", "real", "decimals"}
_WAYS = ({"values"}, {"edges"}, {"low", "high", "bins"})
_EXPECTED = (
    "expected values, or low, high and bins, or edges; and missing, real, decimals"
)
_BARE = re.compile("[A-Za-z0-9_-]+")
_SPECIAL = re.compile(r'["\\\x00-\x1f\x7f]')
LONGEST_TEXT = 1 << 23
"""Limit on the characters of a file: reading one character takes some hundred bytes."""

_WIDTH = 100
"""A longer list is written with one item per line."""


def write_toml(
    attributes: Mapping[Any, Categories | Interval], comments: Mapping[Any, str]
) -> str:
    """Write the values of all columns as TOML."""
    return "\n".join(
        _block(name, attribute, comments.get(name, ""))
        for name, attribute in attributes.items()
    )


def read_toml(text: str) -> dict[str, Categories | Interval]:
    """Read the columns of a domain file."""
    if len(text) > LONGEST_TEXT:
        raise ValueError(
            f"a domain file has at most {LONGEST_TEXT:,} characters, got {len(text):,}"
        )
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"not a TOML file: {error}") from None
    except (ValueError, RecursionError) as error:
        what = (
            "lists within lists without end"
            if isinstance(error, RecursionError)
            else "a number, date or time"
        )
        raise ValueError(
            f"not a domain file: it has {what} that cannot be read"
        ) from None
    unknown = sorted(content.keys() - {"columns"})
    if unknown:
        raise ValueError(
            f"unknown key {unknown[0]!r}; a domain file has a table [columns.NAME] for each column"
        )
    columns = content.get("columns")
    if not isinstance(columns, dict) or not columns:
        raise ValueError(
            "no column; a domain file has a table [columns.NAME] for each column"
        )
    bins = sum(_asked_bins(table) for table in columns.values())
    if bins > MOST_BINS:
        raise ValueError(
            f"a domain file has at most {MOST_BINS:,} bins in all its columns, got {bins:,}"
        )
    return {name: _read_column(name, table) for name, table in columns.items()}


def _asked_bins(table: Any) -> int:
    """Return the number of bins that a column declares."""
    bins = table.get("bins") if isinstance(table, dict) else None
    return bins if isinstance(bins, int) and bins > 0 else 0


def comment(text: str) -> str:
    """Write each line of a text as a TOML comment."""
    # TOML forbids control characters in comments.
    lines = (
        "".join(mark if mark.isprintable() else "?" for mark in line)
        for line in text.splitlines()
    )
    return "".join(f"# {line}".rstrip() + "\n" for line in lines)


def _block(name: Any, attribute: Categories | Interval, remark: str) -> str:
    if not isinstance(name, str):
        raise TypeError(
            f"column {name!r}: a domain file needs names that are text, got {type(name).__name__}"
        )
    try:
        keys = (
            _interval_keys(attribute)
            if isinstance(attribute, Interval)
            else _category_keys(attribute)
        )
        head = f"[columns.{name if _BARE.fullmatch(name) else _string(name)}]"
    except (TypeError, ValueError) as error:
        raise type(error)(f"column {name!r}: {error}") from None
    return (
        comment(remark)
        + "\n".join([head, *(f"{key} = {value}" for key, value in keys.items())])
        + "\n"
    )


def _interval_keys(interval: Interval) -> dict[str, str]:
    """Write even bins by their ends if that gives identical edges, others by their edges."""
    low, high, bins = interval.edges[0], interval.edges[-1], len(interval.edges) - 1
    missing = {"missing": "true"} if interval.missing else {}
    missing |= {"real": "true"} if interval.says_real else {}
    missing |= (
        {}
        if interval.says_decimals is None
        else {"decimals": str(interval.says_decimals)}
    )
    with np.errstate(all="ignore"):
        even = tuple(even_edges(low, high, bins)) == interval.edges
    if even:
        return {"low": _edge(low), "high": _edge(high), "bins": str(bins)} | missing
    return {"edges": _list([_edge(edge) for edge in interval.edges])} | missing


def _edge(edge: Edge) -> str:
    """Write an edge; a whole number without a point, as 38 rather than 38.0."""
    if not isinstance(edge, float):
        return edge.isoformat()
    return str(int(edge)) if edge.is_integer() and abs(edge) < 1 << 53 else repr(edge)


def _category_keys(categories: Categories) -> dict[str, str]:
    known = [value for value in categories.values if value is not None]
    keys = {"values": _list([_scalar(value) for value in known])}
    if None in categories.values:
        place = categories.values.index(None)
        keys["missing"] = "true" if place == len(known) else str(place)
    return keys


def _list(items: list[str]) -> str:
    line = f"[{', '.join(items)}]"
    return (
        line
        if len(line) <= _WIDTH
        else "".join(["[\n", *(f"    {item},\n" for item in items), "]"])
    )


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _string(value)
    if type(value) in (int, float):
        return repr(value)
    if isinstance(value, pd.Timestamp) and value.nanosecond:
        raise ValueError(
            "a domain file holds times to the microsecond, not the nanosecond"
        )
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).isoformat()  # TOML has no offsets with seconds
    if isinstance(value, date) or (isinstance(value, time) and value.tzinfo is None):
        return value.isoformat()
    raise TypeError(
        f"a domain file holds text, numbers, booleans and dates, not {type(value).__name__}"
    )


def _string(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(
            "expected Unicode text, got half of a surrogate pair"
        ) from None
    return f'"{_SPECIAL.sub(_escape, text)}"'


def _escape(found: re.Match[str]) -> str:
    mark = found[0]
    return "\\" + mark if mark in '"\\' else f"\\u{ord(mark):04X}"


def _read_column(name: str, table: Any) -> Categories | Interval:
    try:
        if not isinstance(table, dict):
            raise TypeError(f"{_EXPECTED}; got {_type(table)}")
        given = set(table)
        unknown = sorted(given - set().union(*_WAYS, _FLAGS))
        if unknown:
            hint = (
                "; write a name with a dot in quotes"
                if isinstance(table[unknown[0]], dict)
                else ""
            )
            raise ValueError(f"unknown key {unknown[0]!r}; {_EXPECTED}{hint}")
        if given - _FLAGS not in _WAYS or (
            "values" in given and given & {"real", "decimals"}
        ):
            raise ValueError(
                f"{_EXPECTED}; got {', '.join(sorted(given)) or 'nothing'}"
            )
        if "values" in given:
            return Categories(
                _with_missing(
                    _read_list(table["values"], "values"), table.get("missing", False)
                )
            )
        return _read_interval(table)
    except (TypeError, ValueError) as error:
        raise type(error)(f"column {name!r}: {error}") from None


def _with_missing(values: list[Any], missing: Any) -> list[Any]:
    if isinstance(missing, bool):
        return [*values, None] if missing else values
    if not isinstance(missing, int):
        raise TypeError(
            f"missing must be true, false, or its place among the values, got {_type(missing)}"
        )
    if not 0 <= missing <= len(values):
        raise ValueError(
            f"missing must be true, false, or a place from 0 to {len(values)}, got {missing}"
        )
    return [*values[:missing], None, *values[missing:]]


def _read_interval(table: Mapping[str, Any]) -> Interval:
    missing = table.get("missing", False)
    if not isinstance(missing, bool):
        raise TypeError(
            f"missing must be true or false for an interval, got {_type(missing)}"
        )
    real = table.get("real", False)
    if not isinstance(real, bool):
        raise TypeError(f"real must be true or false, got {_type(real)}")
    decimals = table.get("decimals")
    if decimals is not None and (
        not isinstance(decimals, int) or isinstance(decimals, bool)
    ):
        raise TypeError(f"decimals must be a whole number, got {_type(decimals)}")
    if "edges" in table:
        edges = [
            _read_edge(edge, "edges") for edge in _read_list(table["edges"], "edges")
        ]
        return Interval(edges=edges, missing=missing, real=real, decimals=decimals)
    bins = table["bins"]
    if not isinstance(bins, int) or isinstance(bins, bool):
        raise TypeError(f"bins must be a whole number, got {_type(bins)}")
    low, high = _read_edge(table["low"], "low"), _read_edge(table["high"], "high")
    return Interval(low, high, bins=bins, missing=missing, real=real, decimals=decimals)


def _read_edge(value: Any, key: str) -> Edge:
    if isinstance(value, date):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        expected = "numbers or dates" if key == "edges" else "a number or a date"
        raise TypeError(f"{key} must be {expected}, got {_type(value)}")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(
            f"{key} is beyond the range of floating-point numbers"
        ) from None


def _read_list(value: Any, key: str) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{key} must be a list in square brackets, got {_type(value)}")
    if any(isinstance(item, list | dict) for item in value):
        raise TypeError(f"{key} must be a flat list")
    return value


def _type(value: Any) -> str:
    """Return the name of the TOML type of a value."""
    names = {
        bool: "a boolean",
        str: "text",
        int: "a whole number",
        float: "a number with a point",
        list: "a list",
        dict: "a table",
    }
    return names.get(type(value), f"a {type(value).__name__}")
