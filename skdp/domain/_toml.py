"""The text of domain files: TOML with one table of plain values per column."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from typing import Any

import pandas as pd

# Limit on the characters of a file: reading one takes some hundred bytes.
_MAX_CHARACTERS = 1 << 23

# Keys of a column with a list of values, and of a column with bins.
_VALUES_KEYS = {"values", "missing", "ordered"}
_INTERVAL_KEYS = {"edges", "low", "high", "bins", "missing", "real", "decimals"}
_EXPECTED = "a column has `values`, or `low`, `high` and `bins`, or `edges`"
_KEYS = {"columns", "constraints", "derived", "guarantee"}
_TABLES = "a domain file must have a table [columns.NAME] for each column"

# Names that TOML takes without quotes.
_BARE = re.compile("[A-Za-z0-9_-]+")


def write_toml(
    columns: Mapping[Any, Mapping[str, Any]],
    comments: Mapping[Any, str],
    others: Mapping[str, Any],
) -> str:
    """Write the declarations of all columns, and other lists and tables, as TOML."""
    blocks = []
    # Lists come before all tables.
    for title, content in others.items():
        if isinstance(content, list):
            blocks.append(f"{title} = {_list(content)}\n")
    for name, declaration in columns.items():
        if not isinstance(name, str):
            raise TypeError(
                f"column {name!r}: a domain file needs names that are text, "
                f"got {type(name).__name__}"
            )
        try:
            comment = _comment(comments.get(name, ""))
            block = f"{comment}[columns.{_key(name)}]\n{_lines(declaration)}"
        except (TypeError, ValueError) as error:
            raise type(error)(f"column {name!r}: {error}") from None
        blocks.append(block)
    # Tables: of derived columns, and of the guarantee.
    for title, content in others.items():
        if isinstance(content, Mapping):
            blocks.append(f"[{title}]\n{_lines(content)}")
    return "\n".join(blocks)


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _scalar(name)


def _lines(table: Mapping[str, Any]) -> str:
    """Write a line for each key of a table."""
    lines = ""
    for key, value in table.items():
        text = _list(value) if isinstance(value, list) else _scalar(value)
        lines += f"{_key(key)} = {text}\n"
    return lines


def _comment(text: str) -> str:
    """Write each line of a text as a TOML comment."""
    comment = ""
    for line in text.splitlines():
        # TOML forbids control characters in comments.
        marks = [mark if mark.isprintable() else "?" for mark in line]
        comment += f"# {''.join(marks)}".rstrip() + "\n"
    return comment


def _list(values: list[Any]) -> str:
    texts = list(map(_scalar, values))
    line = f"[{', '.join(texts)}]"
    # A longer list is written with one item per line.
    width = 100
    if len(line) <= width:
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
    if isinstance(value, dict):
        items = [f"{key} = {_scalar(item)}" for key, item in value.items()]
        return f"{{ {', '.join(items)} }}"
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


def read_toml(text: str) -> dict[str, Any]:
    """Read the tables of a domain file; `check_keys` checks the table of one column."""
    if len(text) > _MAX_CHARACTERS:
        raise ValueError(
            f"a domain file has at most {_MAX_CHARACTERS:,} characters, got {len(text):,}"
        )
    # The parser quotes the text in some of its errors.
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
    unknown_keys = sorted(content.keys() - _KEYS)
    if unknown_keys:
        raise ValueError(f"unknown key {unknown_keys[0]!r}; {_TABLES}")
    columns = content.get("columns")
    if not isinstance(columns, dict) or not columns:
        raise ValueError(f"no column; {_TABLES}")
    return content


def check_keys(declaration: Any) -> None:
    """Check the keys of a column that declares a list of values, or an interval."""
    if not isinstance(declaration, dict):
        raise TypeError(f"{_EXPECTED}, got {type(declaration).__name__}")
    is_list = "values" in declaration
    allowed = _VALUES_KEYS if is_list else _INTERVAL_KEYS
    unknown_keys = sorted(declaration.keys() - allowed)
    if unknown_keys:
        is_table = isinstance(declaration[unknown_keys[0]], dict)
        hint = "; write a name with a dot in quotes" if is_table else ""
        raise ValueError(f"unexpected key {unknown_keys[0]!r}: {_EXPECTED}{hint}")
    if is_list and not isinstance(declaration["values"], list):
        name = type(declaration["values"]).__name__
        raise TypeError(f"values must be a list, got {name}")
