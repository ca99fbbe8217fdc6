"""Domain files: TOML with one table for each column."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from skdp._json import MAX_FILE_BYTES
from skdp.domain._attributes import (
    Categories,
    Interval,
    is_whole_by_default,
    name_errors,
)
from skdp.domain._bins import even_edges, shortest_edge
from skdp.tables import drop_missing

_KEYS = {"columns", "constraints", "derived", "guarantee"}
# Keys of a column with a list of values, and of a column with bins.
_VALUES_KEYS = {"values", "missing", "ordered"}
_INTERVAL_KEYS = {"edges", "low", "high", "bins", "missing", "real", "decimals"}
_TABLES = "a domain file must have a table [columns.NAME] for each column"
_EXPECTED = "a column has `values`, or `low`, `high` and `bins`, or `edges`"


# Writing.


def write_toml(
    columns: Mapping[Any, Categories | Interval],
    comments: Mapping[Any, str],
    options: Mapping[str, Any],
) -> str:
    """Write the declarations of all columns, and other lists and tables, as TOML."""
    # In TOML, lists of the file come before its tables.
    blocks = []
    tables = []
    for name, content in options.items():
        if isinstance(content, list):
            blocks.append(f"{name} = {_value(content)}\n")
        else:
            tables.append(f"[{name}]\n{_lines(content)}")
    for name, attribute in columns.items():
        with name_errors(name):
            if not isinstance(name, str):
                raise TypeError(
                    "a domain file requires column names that are text, got "
                    f"{type(name).__name__}"
                )
            comment = _comment(comments.get(name, ""))
            lines = _lines(_declaration(attribute))
        blocks.append(f"{comment}[columns.{_key(name)}]\n{lines}")
    return "\n".join(blocks + tables)


def _declaration(attribute: Categories | Interval) -> dict[str, Any]:
    """Return the table of a column: the shortest arguments that make an equal declaration."""
    if isinstance(attribute, Categories):
        return _declare_values(attribute)
    edges = list(map(shortest_edge, attribute.edges))
    low, high, bins = attribute.edges[0], attribute.edges[-1], len(edges) - 1
    # Bounds and a number of bins are shorter than edges, if they give the same edges.
    with np.errstate(all="ignore"):
        is_even = tuple(even_edges(low, high, bins)) == attribute.edges
    table: dict[str, Any] = {"edges": edges}
    if is_even:
        table = {"low": edges[0], "high": edges[-1], "bins": bins}
    if attribute.missing:
        table["missing"] = True
    is_whole = is_whole_by_default(attribute.edges, has_bounds=is_even)
    return table | attribute._precision(is_whole)


def _declare_values(attribute: Categories) -> dict[str, Any]:
    values = drop_missing(attribute.values)
    table: dict[str, Any] = {"values": values}
    # TOML has no null: `missing` is the index of None, or true if None is the last value.
    if None in attribute.values:
        index = attribute.values.index(None)
        table["missing"] = True if index == len(values) else index
    if attribute.ordered:
        table["ordered"] = True
    return table


def _lines(table: Mapping[str, Any]) -> str:
    return "".join(f"{_key(key)} = {_value(value)}\n" for key, value in table.items())


def _key(name: str) -> str:
    is_bare = re.fullmatch("[A-Za-z0-9_-]+", name)
    return name if is_bare else _value(name)


def _comment(text: str) -> str:
    """Write each line of a text as a comment, in which TOML forbids control characters."""
    comment = ""
    for line in text.splitlines():
        printable = [mark if mark.isprintable() else "?" for mark in line]
        comment += f"# {''.join(printable)}".rstrip() + "\n"
    return comment


def _value(value: Any) -> str:
    if isinstance(value, list):
        texts = list(map(_value, value))
        line = f"[{', '.join(texts)}]"
        if len(line) <= 100:
            return line
        return "[\n" + "".join(f"    {text},\n" for text in texts) + "]"
    if isinstance(value, str):
        if value != value.encode(errors="replace").decode():
            raise ValueError("expected Unicode text, got half of a surrogate pair")
        # A JSON string is a valid TOML string, except that TOML requires an escape for
        # DEL.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", r"\u007F")
    if type(value) in (bool, int, float):
        return json.dumps(value)
    if isinstance(value, pd.Timestamp) and value.nanosecond:
        raise ValueError("a domain file requires whole microseconds, got nanoseconds")
    return str(value.isoformat())  # a date


# Reading.


def read_toml(text: str) -> dict[str, Any]:
    """Read a domain file; the columns are declarations, the other keys as in the file."""
    content = _parse(text)
    unknown_keys = sorted(content.keys() - _KEYS)
    if unknown_keys:
        raise ValueError(f"unknown key {unknown_keys[0]!r}; {_TABLES}")
    tables = content.get("columns")
    if not isinstance(tables, dict) or not tables:
        raise ValueError(f"no column; {_TABLES}")
    columns = {}
    for name, table in tables.items():
        with name_errors(name):
            columns[name] = _read_column(table)
    return content | {"columns": columns}


def _parse(text: str) -> dict[str, Any]:
    if len(text) > MAX_FILE_BYTES:
        raise ValueError(
            f"a domain file has at most {MAX_FILE_BYTES:,} characters, got {len(text):,}"
        )
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"not a TOML file: {error}") from None
    except (RecursionError, ValueError):
        # Other errors of the parser quote the text.
        raise ValueError(
            "not a domain file: it has deeply nested lists, or a number, date or time that "
            "cannot be read"
        ) from None


def _read_column(table: Any) -> Categories | Interval:
    if not isinstance(table, dict):
        raise TypeError(f"{_EXPECTED}, got {type(table).__name__}")
    is_list = "values" in table
    unknown_keys = sorted(table.keys() - (_VALUES_KEYS if is_list else _INTERVAL_KEYS))
    if unknown_keys:
        is_table = isinstance(table[unknown_keys[0]], dict)
        hint = "; write a name with a dot in quotes" if is_table else ""
        raise ValueError(f"unexpected key {unknown_keys[0]!r}: {_EXPECTED}{hint}")
    if not is_list:
        return Interval(**table)
    values = table["values"]
    if not isinstance(values, list):
        raise TypeError(f"values must be a list, got {type(values).__name__}")
    index = table.get("missing", False)
    if index is True:
        index = len(values)
    if index is not False:
        if not isinstance(index, int) or not 0 <= index <= len(values):
            raise ValueError(
                f"missing must be true, false, or a position from 0 to {len(values)}, "
                f"got {index!r}"
            )
        values = [*values[:index], None, *values[index:]]
    return Categories(values, ordered=table.get("ordered", False))
