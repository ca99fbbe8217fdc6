"""Domains as TOML: reading, writing, and drafts from rows."""

from __future__ import annotations

import itertools
import json
import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime
from fractions import Fraction
from typing import Any, TypeAlias

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from skdp._json import MAX_FILE_BYTES, check_version
from skdp.domain._attributes import (
    Categories,
    Interval,
    describe_bounds,
    describe_precision,
    name_column_in_errors,
    read_bins,
)
from skdp.domain._bins import MAX_WHOLE_NUMBER, shorten_edge
from skdp.tables import (
    ColumnError,
    Table,
    distinct_values,
    drop_missing,
    is_declarable,
    is_whole_number,
    type_of_value,
)

# Keys of a file.
_KEYS = {"columns", "constraints", "derived", "guarantee"}
# Keys of the table of a column with a list of values, and of a column with bins.
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
            lines = _format_lines(_describe_attribute(attribute))
        blocks.append(f"{comment}[columns.{_format_key(name)}]\n{lines}")
    return "\n".join(blocks + tables)


def _describe_attribute(attribute: Categories | Interval) -> dict[str, Any]:
    """Return the table of a column in a domain file, as arguments of `Categories` or `Interval`."""
    if isinstance(attribute, Categories):
        return _describe_categories(attribute)
    table = describe_bounds(attribute)
    if table is None:
        table = {"edges": list(map(shorten_edge, attribute.edges))}
    declared = table.get("edges") or [table["low"], table["high"]]
    if attribute.missing:
        table["missing"] = True
    return table | describe_precision(attribute, declared)


def _describe_categories(attribute: Categories) -> dict[str, Any]:
    """Return the table of a column with a list of values in a domain file."""
    values = drop_missing(attribute.values)
    table: dict[str, Any] = {"values": values}
    # TOML has no null: `missing` is the index of None, or true if None is the last value.
    if None in attribute.values:
        index = attribute.values.index(None)
        table["missing"] = True if index == len(values) else index
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


def _parse_column(table: Any) -> Categories | Interval:
    """Return the declared values of a column, from its table in a domain file."""
    if not isinstance(table, dict):
        raise TypeError(f"{_EXPECTED}, got {type(table).__name__}.")
    is_list = "values" in table
    unknown_keys = sorted(table.keys() - (_VALUES_KEYS if is_list else _INTERVAL_KEYS))
    if unknown_keys:
        is_table = isinstance(table[unknown_keys[0]], dict)
        hint = "; write a name with a dot in quotes" if is_table else ""
        raise ValueError(f"unexpected key {unknown_keys[0]!r}: {_EXPECTED}{hint}.")
    if not is_list:
        read_bins(table)
        return Interval(**table)
    values = table["values"]
    if not isinstance(values, list):
        raise TypeError(f"`values` must be a list, got {type(values).__name__}.")
    index = table.get("missing", False)
    if index is True:
        index = len(values)
    if index is not False:
        if not isinstance(index, int) or not 0 <= index <= len(values):
            raise ValueError(
                f"`missing` must be true, false, or an index from 0 to {len(values)}, "
                f"got {index!r}."
            )
        values = [*values[:index], None, *values[index:]]
    return Categories(values, ordered=table.get("ordered", False))


# Listed values, or bins.
Values: TypeAlias = list[Any] | Categories | Interval

# Characters of numbers as text, with thousands separators, signs and units.
_NUMBER_CHARACTERS = "0123456789.,+-<>~%$€£ "


def domains_of_dtypes(table: Table) -> dict[Any, Categories]:
    """Return the values that dtypes declare, by column: an Enum of polars, or ordered categories of pandas."""
    # Unordered categories of pandas may be the values that occur, and the bins of
    # ``pandas.cut`` may have edges from the data, so these are not declarations.
    declared: dict[Any, Categories] = {}
    for name, column in zip(table.names, table.columns, strict=True):
        dtype = getattr(column, "dtype", None)
        if isinstance(dtype, pd.CategoricalDtype):
            are_bins = isinstance(dtype.categories, pd.IntervalIndex)
            if dtype.ordered and not are_bins and len(dtype.categories):
                with name_column_in_errors(name):
                    listed = dtype.categories.tolist()
                    declared[name] = Categories(listed, ordered=True)
        elif not isinstance(column, np.ndarray | pd.Series):
            series = nw.from_native(column, series_only=True)
            if series.dtype == nw.Enum:
                listed = series.cat.get_categories().to_list()
                declared[name] = Categories(listed, ordered=True)
    return declared


def check_draft(bins: Any, max_values: Any) -> None:
    """Check the parameters of a draft."""
    for name, number in (("bins", bins), ("max_values", max_values)):
        if not is_whole_number(number) or number < 1:
            raise ValueError(
                f"`{name}` must be a whole number of at least 1, got {number!r}."
            )


def draft_columns(
    table: Table,
    *,
    bins: int,
    max_values: int,
    max_numbers: int | None = None,
    has_bins: bool = True,
) -> tuple[dict[Any, Values], dict[Any, str]]:
    """Draft the values of each column from the rows of a public table.

    Parameters
    ----------
    table : Table
        A public table.
    bins : int
        Largest number of bins of numbers and dates.
    max_values : int
        Largest number of listed values. Dates with more values get bins.
    max_numbers : int, default=None
        Largest number of listed numbers. Columns with more numbers get bins. None uses
        `bins`.
    has_bins : bool, default=True
        If False, an Interval of numbers has rounded bounds without bins. Dates have bins
        of a calendar.

    Returns
    -------
    columns : dict
        List of values or Interval of each column.
    excluded : dict
        Reason for each column without a draft.
    """
    declared = domains_of_dtypes(table)
    limits: dict[str, Any] = {
        "bins": bins,
        "max_values": max_values,
        "max_numbers": bins if max_numbers is None else max_numbers,
        "has_bins": has_bins,
    }
    columns: dict[Any, Values] = {}
    excluded = {}
    values: Values
    for name, column in zip(table.names, table.columns, strict=True):
        try:
            distinct, has_missing = distinct_values(column)
            if name in declared:
                values = declared[name]
            else:
                values = list_or_cut(distinct, **limits)
        except ColumnError as error:
            excluded[name] = str(error)
            continue
        columns[name] = declare_missing(values) if has_missing else values
    return columns, excluded


def declare_missing(values: Values) -> Values:
    """Return the drafted values of a column that has missing values."""
    if isinstance(values, Interval):
        values.missing = True
        return values
    if isinstance(values, Categories):
        return Categories((*values.values, None), ordered=values.ordered)
    return [*values, None]


def list_or_cut(
    values: list[Any], *, bins: int, max_values: int, max_numbers: int, has_bins: bool
) -> Values:
    """List distinct values in ascending order, or cut the range of many numbers or dates into bins.

    `max_values` is the largest number of listed values, and `max_numbers` of numbers. If
    `has_bins` is False, the range of numbers has no bins.
    """
    # `distinct_values` has checked that all values have the same type.
    value_type = type_of_value(values[0]) if values else None
    if value_type == "boolean":
        return [False, True]
    if value_type is None:
        raise ColumnError("has no value")
    if value_type == "number":
        if {math.inf, -math.inf} & {*values}:
            raise ColumnError("has infinite numbers")
        are_dates = are_date_codes(values)
        if are_dates:
            max_numbers = max(max_numbers, max_values)
        if len(values) <= max_numbers:
            return [int(x) if x == int(x) else x for x in values]
        if are_dates:
            # Numbers within a bin may be no date of the calendar, such as a week 60.
            raise ColumnError(
                "has numbers that are dates or weeks, such as 20240131; write them as "
                "2024-01-31"
            )
        return cut_numbers(values, bins, has_bins=has_bins)
    if value_type not in ("string", "date", "datetime"):
        raise ColumnError(f"has values of type {value_type}, which no domain declares")
    if not all(map(is_declarable, values)):
        raise ColumnError(
            "has times with a time zone, which no domain declares; remove it"
        )
    if len(values) <= max_values:
        return values
    if value_type == "string":
        raise ColumnError(
            f"has more than {max_values} distinct values{describe_texts(values)}; group "
            "them, or drop the column"
        )
    return _cut_dates(values, bins)


def describe_texts(texts: Sequence[str]) -> str:
    """Describe texts that look like numbers, as a clause for a message; empty for other texts."""
    n_numbers = sum(not text.strip(_NUMBER_CHARACTERS) for text in texts)
    is_plain = all(text.replace(".", "").isdecimal() for text in texts)
    if 2 * n_numbers < len(texts) or is_plain:
        return ""
    return (
        ", which are numbers with other text, such as a unit, a thousands separator or "
        "a mark for missing values: write plain numbers"
    )


def are_date_codes(values: Sequence[Any]) -> bool:
    """Check if distinct numbers in ascending order encode dates, such as 202401 or 20240131.

    Other codes are weeks (202452), quarters (20244) and days of a year (2024366).
    """
    texts = [f"{value:.15g}" for value in values]
    size = len(texts[0])
    is_year = "1900" <= texts[0] <= texts[-1] < "2100"
    if not is_year or any(len(t) != size or not t.isdecimal() for t in texts):
        return False
    # Largest number after the year: quarters, months and weeks, and days of the year.
    largest = {5: 4, 6: 53, 7: 366}.get(size)
    if largest is not None:
        return all(1 <= int(text[4:]) <= largest for text in texts)
    with suppress(ValueError):
        return size == 8 and all(datetime.strptime(t, "%Y%m%d") for t in texts)
    return False


def cut_numbers(values: Sequence[Any], bins: int, *, has_bins: bool) -> Interval:
    """Cut the range of numbers into at most `bins` bins of a round width; without `has_bins`, return its bounds.

    A round width is 1, 2 or 5 times a power of ten.
    """
    numbers = np.array(values, float)
    low, high = Fraction(float(numbers.min())), Fraction(float(numbers.max()))
    is_whole = bool((numbers == np.floor(numbers)).all())
    if is_whole and max(-low, high) > MAX_WHOLE_NUMBER:
        raise ColumnError(
            "has whole numbers beyond 2**52, such as identifiers, which bins round; drop "
            "the column, or declare its bounds with real=True"
        )
    # Edges are multiples of the width, so a range around 0 has at least two bins.
    max_bins = max(bins, 2)
    for width in _list_round_widths((high - low) / max_bins, is_whole):
        first, stop = math.floor(low / width), math.ceil(high / width)
        # The last bin includes its upper edge. If the largest whole number were this edge,
        # the last bin would contain one more whole number than the other bins. So the
        # largest number is always below the last edge.
        if is_whole:
            stop = math.floor(high / width) + 1
        if stop - first <= max_bins:
            break
    try:
        # Integers declare whole numbers.
        convert: Any = int if is_whole else float
        bounds = convert(first * width), convert(stop * width)
        n_bins = min(stop - first, bins) if has_bins else None
        with np.errstate(all="ignore"):
            return Interval(*bounds, bins=n_bins)
    except (ValueError, OverflowError):
        raise ColumnError(
            "has a range that cannot be divided into bins with floats as edges"
        ) from None


def _list_round_widths(smallest: Fraction, is_whole: bool) -> Iterator[Fraction]:
    """Yield the widths 1, 2 and 5 times a power of ten, in ascending order from `smallest` on."""
    n_digits = len(str(smallest.numerator)) - len(str(smallest.denominator))
    for power in itertools.count(n_digits - 1):
        for step in (1, 2, 5):
            width = step * Fraction(10) ** power
            if width >= smallest and (width.denominator == 1 or not is_whole):
                yield width


def _cut_dates(values: Sequence[Any], bins: int) -> Interval:
    """Cut the range of ascending dates into at most `bins` bins of a day, of 1, 2, 3 or 6 months, or of years."""
    low, high = np.array([values[0], values[-1]], "datetime64[us]")
    if high > np.datetime64(datetime.max):
        raise ColumnError("has times beyond the year 9999, for which there are no bins")
    for unit in ("D", "M", "2M", "3M", "6M", "Y"):
        dtype = f"datetime64[{unit}]"
        stop = high.astype(dtype) + np.array(2, dtype=f"timedelta64[{unit}]")
        edges = np.arange(low.astype(dtype), stop)
        if edges.size <= bins + 1:
            break
    else:
        indices = np.linspace(0, edges.size - 1, bins + 1).astype(int)
        edges = edges[indices]
    if unit == "D" and edges.size > 2:
        edges[-1] = edges[-2]  # each day has a bin
    # The stop edge may be after the year 9999.
    days = np.minimum(edges.astype("datetime64[D]"), np.datetime64(date.max))
    return Interval(edges=days.tolist())
