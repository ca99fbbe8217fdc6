"""Values of columns from their dtypes, or drafted from the rows of a table."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from datetime import date, datetime
from fractions import Fraction
from typing import Any, TypeAlias

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.domain._attributes import Interval
from skdp.tables import (
    ColumnError,
    Table,
    distinct_values,
    to_dates,
    to_numbers,
    type_of_value,
)

# A list of values, or bins.
Values: TypeAlias = list[Any] | Interval


def domains_of_dtypes(table: Table) -> dict[Any, list[Any]]:
    """Return the values that dtypes declare, by column: an Enum of polars, or ordered categories of pandas."""
    # Unordered categories of pandas may be the values that occur, and the bins of
    # ``pandas.cut`` may have edges from the data, so these are not declarations.
    declared: dict[Any, list[Any]] = {}
    for name, column in zip(table.names, table.columns, strict=True):
        dtype = getattr(column, "dtype", None)
        if isinstance(dtype, pd.CategoricalDtype):
            are_bins = isinstance(dtype.categories, pd.IntervalIndex)
            if dtype.ordered and not are_bins:
                declared[name] = dtype.categories.tolist()
        elif not isinstance(column, np.ndarray | pd.Series):
            series = nw.from_native(column, series_only=True)
            if series.dtype == nw.Enum:
                declared[name] = series.cat.get_categories().to_list()
    return declared


def draft_columns(
    table: Table, *, bins: int, max_values: int, max_numbers: int | None = None
) -> tuple[dict[Any, Values], dict[Any, str]]:
    """Draft the values of each column from the rows of a table.

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

    Returns
    -------
    columns : dict
        List of values or Interval of each column.
    excluded : dict
        Reason for each column without a draft.
    """
    declared = domains_of_dtypes(table)
    columns: dict[Any, Values] = {}
    excluded = {}
    for name, column in zip(table.names, table.columns, strict=True):
        try:
            distinct, has_missing = distinct_values(column)
            if name in declared:
                values: Values = declared[name]
            elif distinct and type_of_value(distinct[0]) == "number":
                is_long = len(distinct) > (max_numbers or bins)
                values = _draft_numbers(column, distinct, bins if is_long else None)
            else:
                values = _draft_list(column, distinct, bins, max_values)
        except ColumnError as error:
            excluded[name] = str(error)
            continue
        if has_missing:
            if isinstance(values, Interval):
                values = Interval(
                    edges=values.edges,
                    missing=True,
                    real=values.real,
                    decimals=values.decimals,
                )
            else:
                values = [*values, None]
        columns[name] = values
    return columns, excluded


def _draft_list(column: Any, values: list[Any], bins: int, max_values: int) -> Values:
    """List the booleans, strings or dates of a column, or cut the range of many dates into bins.

    `values` are the distinct values. Dates are cut if there are more than `max_values`
    of them.
    """
    # `distinct_values` has checked that all values have the same type.
    value_type = type_of_value(values[0]) if values else None
    if value_type == "boolean":
        return [False, True]
    if value_type is None:
        raise ColumnError("has no value")
    if value_type not in ("string", "date", "datetime"):
        raise ColumnError(f"has values of type {value_type}, which no domain declares")
    if len(values) <= max_values:
        return values
    if value_type == "string":
        raise ColumnError(
            f"has more than {max_values} distinct values; group them, or drop the "
            "column"
        )
    return _cut_dates(to_dates(column, np.dtype("datetime64[us]")), bins)


def _draft_numbers(column: Any, values: list[Any], bins: int | None) -> Values:
    """List the distinct numbers of a column, or with `bins` cut their range into bins of a round width.

    `values` are the distinct numbers, which are listed if `bins` is None. A round width
    is 1, 2 or 5 times a power of ten.
    """
    numbers = to_numbers(column)
    numbers = numbers[~np.isnan(numbers)]
    if np.isinf(numbers).any():
        raise ColumnError("has infinite numbers")
    if bins is None:
        return [int(value) if value == int(value) else value for value in values]
    low, high = Fraction(float(numbers.min())), Fraction(float(numbers.max()))
    is_whole = bool((numbers == np.floor(numbers)).all())
    # Edges are multiples of the width, so a range around 0 has at least two bins.
    max_bins = max(bins, 2)
    for width in _round_widths((high - low) / max_bins, is_whole):
        first, stop = math.floor(low / width), math.ceil(high / width)
        # The last bin includes its upper edge. If the largest whole number were this edge,
        # the last bin would contain one more whole number than the other bins. So the
        # largest number is always below the last edge.
        if is_whole:
            stop = math.floor(high / width) + 1
        if stop - first <= max_bins:
            break
    try:
        bounds = float(first * width), float(stop * width)
        n_bins = min(stop - first, bins)
        with np.errstate(all="ignore"):
            decimals = 0 if is_whole else None
            return Interval(*bounds, bins=n_bins, decimals=decimals)
    except (ValueError, OverflowError):
        raise ColumnError(
            "has a range that cannot be divided into bins with floats as edges"
        ) from None


def _round_widths(smallest: Fraction, is_whole: bool) -> Iterator[Fraction]:
    """Yield the widths 1, 2 and 5 times a power of ten, in ascending order from `smallest` on."""
    n_digits = len(str(smallest.numerator)) - len(str(smallest.denominator))
    for power in itertools.count(n_digits - 1):
        for step in (1, 2, 5):
            width = step * Fraction(10) ** power
            if width >= smallest and (width.denominator == 1 or not is_whole):
                yield width


def _cut_dates(times: NDArray[np.datetime64], bins: int) -> Interval:
    """Cut the range of dates into bins of a day, of 1, 2, 3 or 6 months, or of years."""
    times = times[~np.isnat(times)]
    low, high = times.min(), times.max()
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
    # The stop edge may be after the year 9999.
    days = np.minimum(edges.astype("datetime64[D]"), np.datetime64(date.max))
    return Interval(edges=days.tolist())
