"""Read and write a domain as a TOML file with one table per column."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from typing import Any

import numpy as np
import pandas as pd

from skdp.domain._bins import edge_text, even_edges
from skdp.domain._values import MOST_BINS, Categories, Interval

_LONGEST_TEXT = 1 << 23
"""Limit on the characters of a file: reading one character takes some hundred bytes."""

_FLAGS = {"missing", "real", "decimals"}
_WAYS = ({"values"}, {"edges"}, {"low", "high", "bins"})
_EXPECTED = (
    "expected values, or low, high and bins, or edges; and missing, real, decimals"
)
_TABLES = "a domain file has a table [columns.NAME] for each column"

_BARE = re.compile("[A-Za-z0-9_-]+")
"""Names that TOML takes without quotes."""

_WIDTH = 100
"""A longer list is written with one item per line."""


def write_toml(
    attributes: Mapping[Any, Categories | Interval], comments: Mapping[Any, str]
) -> str:
    """Write the values of all columns as TOML."""
    blocks = []
    for name, attribute in attributes.items():
        if not isinstance(name, str):
            raise TypeError(
                f"column {name!r}: a domain file needs names that are text, "
                f"got {type(name).__name__}"
            )
        try:
            block = _block(name, attribute)
        except (TypeError, ValueError) as error:
            raise type(error)(f"column {name!r}: {error}") from None
        blocks.append(_comment(comments.get(name, "")) + block)
    return "\n".join(blocks)


def _comment(text: str) -> str:
    """Write each line of a text as a TOML comment."""
    comment = ""
    for line in text.splitlines():
        # TOML forbids control characters in comments.
        marks = [mark if mark.isprintable() else "?" for mark in line]
        comment += f"# {''.join(marks)}".rstrip() + "\n"
    return comment


def _block(name: str, attribute: Categories | Interval) -> str:
    keys = _keys(attribute)
    lines = [f"[columns.{name if _BARE.fullmatch(name) else _scalar(name)}]\n"]
    for key, value in keys.items():
        lines.append(f"{key} = {value}\n")
    return "".join(lines)


def _keys(attribute: Categories | Interval) -> dict[str, str]:
    if isinstance(attribute, Interval):
        return _interval_keys(attribute)
    return _category_keys(attribute)


def _interval_keys(interval: Interval) -> dict[str, str]:
    """Write even bins by their ends if that gives identical edges, others by their edges."""
    low, high = interval.edges[0], interval.edges[-1]
    bins = len(interval.edges) - 1
    with np.errstate(all="ignore"):
        is_even = tuple(even_edges(low, high, bins)) == interval.edges
    if is_even:
        keys = {"low": edge_text(low), "high": edge_text(high), "bins": str(bins)}
    else:
        keys = {"edges": _list([edge_text(edge) for edge in interval.edges])}
    if interval.missing:
        keys["missing"] = "true"
    if interval.says_real:
        keys["real"] = "true"
    if interval.says_decimals is not None:
        keys["decimals"] = str(interval.says_decimals)
    return keys


def _category_keys(categories: Categories) -> dict[str, str]:
    texts = [_scalar(value) for value in categories.values if value is not None]
    keys = {"values": _list(texts)}
    if None in categories.values:
        place = categories.values.index(None)
        keys["missing"] = "true" if place == len(texts) else str(place)
    return keys


def _list(texts: list[str]) -> str:
    line = f"[{', '.join(texts)}]"
    if len(line) <= _WIDTH:
        return line
    lines = [f"    {text},\n" for text in texts]
    return f"[\n{''.join(lines)}]"


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, bool):
        return str(value).lower()
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
        "a domain file holds text, numbers, booleans and dates, "
        f"not {type(value).__name__}"
    )


def _string(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(
            "expected Unicode text, got half of a surrogate pair"
        ) from None
    # A string of JSON is one of TOML, except that TOML wants an escape for this mark.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", r"\u007F")


def read_toml(text: str) -> dict[str, Categories | Interval]:
    """Read the columns of a domain file."""
    if len(text) > _LONGEST_TEXT:
        raise ValueError(
            f"a domain file has at most {_LONGEST_TEXT:,} characters, got {len(text):,}"
        )
    columns = _columns(text)
    n_bins = 0
    for table in columns.values():
        bins = table.get("bins") if isinstance(table, dict) else None
        if isinstance(bins, int):
            n_bins += max(0, bins)
    if n_bins > MOST_BINS:
        raise ValueError(
            f"a domain file has at most {MOST_BINS:,} bins in all its columns, "
            f"got {n_bins:,}"
        )
    attributes = {}
    for name, table in columns.items():
        try:
            attributes[name] = _read_column(table)
        except (TypeError, ValueError) as error:
            raise type(error)(f"column {name!r}: {error}") from None
    return attributes


def _columns(text: str) -> dict[str, Any]:
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"not a TOML file: {error}") from None
    except RecursionError:
        raise ValueError(
            "not a domain file: it has lists within lists without end"
        ) from None
    except ValueError:
        raise ValueError(
            "not a domain file: it has a number, date or time that cannot be read"
        ) from None
    unknown_keys = sorted(content.keys() - {"columns"})
    if unknown_keys:
        raise ValueError(f"unknown key {unknown_keys[0]!r}; {_TABLES}")
    columns = content.get("columns")
    if not isinstance(columns, dict) or not columns:
        raise ValueError(f"no column; {_TABLES}")
    return columns


def _read_column(table: Any) -> Categories | Interval:
    if not isinstance(table, dict):
        raise TypeError(f"{_EXPECTED}; got {type(table).__name__}")
    keys = set(table)
    unknown_keys = sorted(keys - set().union(*_WAYS, _FLAGS))
    if unknown_keys:
        hint = ""
        if isinstance(table[unknown_keys[0]], dict):
            hint = "; write a name with a dot in quotes"
        raise ValueError(f"unknown key {unknown_keys[0]!r}; {_EXPECTED}{hint}")
    is_list = "values" in keys
    if keys - _FLAGS not in _WAYS or (is_list and keys & {"real", "decimals"}):
        raise ValueError(f"{_EXPECTED}; got {', '.join(sorted(keys)) or 'nothing'}")
    if not is_list:
        return Interval(**table)
    if not isinstance(table["values"], list):
        raise TypeError(f"values must be a list, got {type(table['values']).__name__}")
    return Categories(_with_missing(table["values"], table.get("missing", False)))


def _with_missing(values: list[Any], missing: bool | int) -> list[Any]:
    if isinstance(missing, bool):
        return [*values, None] if missing else values
    if not isinstance(missing, int) or not 0 <= missing <= len(values):
        raise ValueError(
            f"missing must be true, false, or a place from 0 to {len(values)}, "
            f"got {missing!r}"
        )
    return [*values[:missing], None, *values[missing:]]
