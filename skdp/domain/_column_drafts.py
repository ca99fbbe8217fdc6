"""Drafts of the values of columns from rows and dtypes."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import date, datetime
from fractions import Fraction
from typing import Any, TypeAlias

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from skdp._arrays import ColumnName, Integers
from skdp.domain._attributes import (
    Categories,
    Interval,
    name_column_in_errors,
)
from skdp.domain._bins import MAX_WHOLE_NUMBER
from skdp.tables import (
    ColumnError,
    Table,
    distinct_values,
    is_declarable,
    is_whole_number,
    type_of_value,
)

# Listed values, or bins.
Values: TypeAlias = list[Any] | Categories | Interval

# Characters of numbers as text, with thousands separators, signs and units.
_NUMBER_CHARACTERS = "0123456789.,+-<>~%$€£ "

# Names of columns that identify people, such as "name", "id", "person_id" and "personID".
_IDENTIFIER_NAME = re.compile(r"(?:(?:^|[\W_])(?i:uuid|id|e-?mail|name)|[a-z]I[dD])$")


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


def check_draft(bins: int, max_values: Any) -> None:
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


def draft_values(
    name: ColumnName,
    values: list[Any] | Categories,
    counts: Integers,
    *,
    has_missing: bool,
    **limits: Any,
) -> Values:
    """List or cut the values of a column; raise an error if they identify people, or if there is a single one.

    `values` are distinct and ascending, or declared, and `counts` are the numbers of rows of the values that were
    counted, in any order. `limits` are the options of `list_or_cut`.
    """
    drafted: Any = values
    if not isinstance(values, Categories):
        if _are_amounts(name, values, counts, limits["bins"]):
            limits |= {"max_values": 0, "max_numbers": 0}
        drafted = list_or_cut(values, **limits)
    if has_missing:
        drafted = declare_missing(drafted)
    if not isinstance(drafted, Interval) and len(drafted) == 1:
        raise ColumnError("has a single value; declare further values, or drop it")
    return drafted


def _are_amounts(
    name: ColumnName, values: Sequence[Any], counts: Integers, bins: int
) -> bool:
    """Return True for unique fractions and dates, which are cut; raise an error if values identify people.

    More values than `bins` in a column with a name such as "id" identify people.
    """
    value_type = type_of_value(values[0]) if values else None
    is_text = value_type == "string"
    # At least 90 % of the values occur once if 95 % of the rows have distinct values.
    min_unique = 0.95 * counts.sum()
    if is_text:
        # Beside the names, a word such as "unknown" may occur in many rows. At most a
        # tenth of the names occur in several rows.
        min_unique = min(min_unique, 10 * (counts > 1).sum())
    is_unique = len(counts) >= max(6, min_unique)
    is_whole = value_type == "number" and all(value % 1 == 0 for value in values)
    is_date = is_whole and detect_date_codes(values)
    if is_date:
        return is_unique and values[-1] >= 1_000_000  # a day, not a month
    if not is_text and not is_whole:
        return is_unique
    if is_unique:
        clause = describe_texts(values) if is_text else ""
        raise ColumnError(
            f"has values that nearly all occur once{clause}; drop it, or declare "
            "groups or bins"
        )
    has_name = len(values) > bins and _IDENTIFIER_NAME.search(str(name))
    if has_name or (is_text and any("@" in text for text in values)):
        raise ColumnError(
            "seems to identify people; drop it, or declare it from public knowledge"
        )
    return False


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
        are_dates = detect_date_codes(values)
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
    return _bin_dates(values, bins)


def describe_texts(texts: Sequence[str]) -> str:
    """Describe texts that look like numbers, as a clause for a message; empty for other texts."""
    n_numbers = sum(not text.strip(_NUMBER_CHARACTERS) for text in texts)
    if 2 * n_numbers < len(texts) or all(map(_is_number, texts)):
        return ""
    return (
        ", which are numbers with other text, such as a unit, a thousands separator or "
        "a mark for missing values: write plain numbers"
    )


def _is_number(text: str) -> bool:
    """Check if a text is a number."""
    with suppress(ValueError):
        return not math.isnan(float(text))
    return False


def detect_date_codes(values: Sequence[Any]) -> bool:
    """Check if distinct numbers in ascending order encode dates, such as 202401 or 20240131.

    Other codes are weeks (202452), quarters (20244) and days of a year (2024366).
    """
    texts = [f"{value:.15g}" for value in values]
    size = len(texts[0])
    # Years of most records. With a wider range, more amounts would be taken for dates.
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
            "the column, or declare its bounds with `real=True`"
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


def _bin_dates(values: Sequence[Any], bins: int) -> Interval:
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
