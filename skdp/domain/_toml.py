"""Domains as TOML: reading and writing."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any

import pandas as pd

from skdp._arrays import TableLike
from skdp._json import MAX_FILE_BYTES, check_version, value_to_json
from skdp.domain._attributes import (
    Categories,
    FoundCategories,
    Interval,
    check_file_bins,
    describe_interval,
    name_column_in_errors,
)
from skdp.privacy import list_releases
from skdp.randomness import check_type
from skdp.tables import (
    drop_missing,
)

# Keys of a file.
_KEYS = {"columns", "constraints", "derived", "guarantee"}
# Keys of the table of a column with a list of values, and of a column with bins.
_VALUES_KEYS = {"values", "missing", "ordered", "other"}
_INTERVAL_KEYS = {"edges", "low", "high", "bins", "missing", "real", "decimals"}
_TABLES = "a domain file must have a table [columns.NAME] for each column"
_EXPECTED = (
    "a column has `values`, or `low`, `high` and `bins`, or `edges`, or other = true"
)


# Writing.


def write_toml(
    columns: Mapping[Any, Categories | Interval],
    comments: Mapping[Any, str],
    options: Mapping[str, Any],
) -> str:
    """Return the text of a domain file.

    Parameters
    ----------
    columns : mapping of column name to Categories or Interval
        Declared values.
    comments : mapping of column name to str
        Comments above the tables of some columns.
    options : mapping of key to list or mapping
        Other entries of the file: "constraints", "derived" and "guarantee".

    Returns
    -------
    str
        Text of the file in TOML.
    """
    # In TOML, lists of the file must come before its tables.
    blocks = []
    tables = []
    for name, content in options.items():
        if isinstance(content, list) and isinstance(content[0], dict):
            tables += [f"[[{name}]]\n{_format_lines(table)}" for table in content]
        elif isinstance(content, list):
            blocks.append(f"{name} = {_format_value(content)}\n")
        else:
            tables.append(f"[{name}]\n{_format_lines(content)}")
    for name, attribute in columns.items():
        with name_column_in_errors(name):
            if not isinstance(name, str):
                raise TypeError(
                    "A domain file requires column names that are strings, got "
                    f"{type(name).__name__}."
                )
            comment = _format_comment(comments.get(name, ""))
            is_list = isinstance(attribute, Categories)
            describe: Any = _describe_categories if is_list else describe_interval
            lines = _format_lines(describe(attribute))
        blocks.append(f"{comment}[columns.{_format_key(name)}]\n{lines}")
    return "\n".join(blocks + tables)


def _describe_categories(attribute: Categories) -> dict[str, Any]:
    """Return the table of a column with a list of values in a domain file."""
    has_other = isinstance(attribute, FoundCategories)
    if isinstance(attribute, FoundCategories) and attribute.is_open:
        return {"other": True}
    values = attribute.values[:-1] if has_other else attribute.values
    table: dict[str, Any] = {"values": drop_missing(values)}
    # TOML has no null.
    if None in values[:-1]:
        raise ValueError("None must be the last value in a domain file.")
    if None in values:
        table["missing"] = True
    if has_other:
        table["other"] = True
    if attribute.ordered:
        table["ordered"] = True
    return table


def _format_lines(table: Mapping[str, Any]) -> str:
    """Return a line "key = value" for each entry of a table."""
    return "".join(
        f"{_format_key(key)} = {_format_value(value)}\n" for key, value in table.items()
    )


def _format_key(name: str) -> str:
    """Return a key, in quotes if TOML requires them."""
    is_bare = re.fullmatch("[A-Za-z0-9_-]+", name)
    return name if is_bare else _format_value(name)


def _format_comment(text: str) -> str:
    """Return the lines of a string as comments; TOML forbids control characters in comments."""
    comment = ""
    for line in text.splitlines():
        printable = [mark if mark.isprintable() else "?" for mark in line]
        comment += f"# {''.join(printable)}".rstrip() + "\n"
    return comment


def _format_value(value: Any) -> str:
    """Return a list, string, boolean, number or date as the text of a TOML value."""
    if isinstance(value, list):
        texts = list(map(_format_value, value))
        line = f"[{', '.join(texts)}]"
        if len(line) <= 100:
            return line
        return "[\n" + "".join(f"    {text},\n" for text in texts) + "]"
    if isinstance(value, str):
        if value != value.encode(errors="replace").decode():
            raise ValueError("text must be valid Unicode, got a lone surrogate.")
        # A JSON string is a valid TOML string, except that TOML requires an escape for
        # DEL.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", r"\u007F")
    if type(value) in (bool, int, float):
        return json.dumps(value)
    if isinstance(value, pd.Timestamp) and value.nanosecond:
        raise ValueError(
            "Datetimes in a domain file must be whole microseconds, got nanoseconds. "
            "Round them."
        )
    return str(value.isoformat())  # a date


# Reading.


def parse_toml(text: str) -> dict[str, Any]:
    """Parse a domain file, and return its entries with the declared values of the columns."""
    content = _parse(text)
    # Later formats have a version.
    check_version(content.pop("version", 1), 1, "The domain file")
    unknown_keys = sorted(content.keys() - _KEYS)
    if unknown_keys:
        raise ValueError(f"Unknown key {unknown_keys[0]!r}; {_TABLES}.")
    tables = content.get("columns")
    if not isinstance(tables, dict) or not tables:
        raise ValueError(f"No column; {_TABLES}.")
    columns = {}
    for name, table in tables.items():
        with name_column_in_errors(name):
            columns[name] = _parse_column(table)
    return content | {"columns": columns}


def _parse(text: str) -> dict[str, Any]:
    """Parse TOML of limited size."""
    if len(text) > MAX_FILE_BYTES:
        raise ValueError(
            f"A domain file must have at most {MAX_FILE_BYTES:,} characters, got "
            f"{len(text):,}."
        )
    if text.endswith(".toml") and "\n" not in text:
        raise ValueError(
            "`text` must be the text of a domain file, got a path. Read the file first: "
            "Path('people.toml').read_text()."
        )
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"Not a TOML file: {error}.") from None
    except (RecursionError, ValueError):
        # The parser quotes the text in these errors.
        raise ValueError(
            "Not a domain file: it has deeply nested lists, or a number, date or time "
            "that cannot be read."
        ) from None


def _parse_column(table: TableLike) -> Categories | Interval:
    """Return the declared values of a column, from its table in a domain file."""
    if not isinstance(table, dict):
        raise TypeError(f"{_EXPECTED}, got {type(table).__name__}.")
    if table == {"other": True}:
        return FoundCategories()
    is_list = "values" in table
    unknown_keys = sorted(table.keys() - (_VALUES_KEYS if is_list else _INTERVAL_KEYS))
    if unknown_keys:
        is_table = isinstance(table[unknown_keys[0]], dict)
        hint = "; write a name with a dot in quotes" if is_table else ""
        if unknown_keys[0] in _KEYS:
            hint = f"; write `{unknown_keys[0]}` above the first [columns.NAME]"
        raise ValueError(f"unexpected key {unknown_keys[0]!r}: {_EXPECTED}{hint}.")
    if not is_list:
        check_file_bins(table)
        return Interval(**table)
    values = table["values"]
    check_type("values", values, list, "a list")
    has_missing = table.get("missing", False)
    if not isinstance(has_missing, bool):
        raise TypeError(f"`missing` must be true or false, got {has_missing!r}.")
    if has_missing:
        values = [*values, None]
    if table.get("other"):
        return FoundCategories(values)
    return Categories(values, ordered=table.get("ordered", False))


def guarantee_fields(declared: Mapping[Any, Any]) -> list[dict[str, Any]]:
    """Return the releases that found columns as fields of a JSON or TOML file.

    `declared` are the values by column. A release has the names of its columns unless it found all columns.
    """
    fields = []
    for release in list_releases(declared):
        field = {"record": release.guarantee.to_json(), "release_id": release.id}
        names = [name for name in declared if release in list_releases(declared[name])]
        if len(names) < len(declared):
            field["columns"] = value_to_json(names)
        fields.append(field)
    return fields
