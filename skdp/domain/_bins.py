"""Edges of bins of numbers or dates, and encoding of values by bin."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from dateutil.relativedelta import relativedelta  # type: ignore[import-untyped]
from numpy.typing import NDArray

from skdp._arrays import Codes, Floats, Indices, Mask
from skdp.tables import types_of_values

# A number, a date or a datetime (a subclass of date).
Edge = float | date

# Floats represent all whole numbers up to this one.
MAX_EXACT = 1 << 53
# Floats represent the halves between whole numbers up to this one, such as the edge below
# the largest number.
MAX_WHOLE_NUMBER = 1 << 52


def make_even_edges(low: float, high: float, bins: int, step: Any = None) -> list[Any]:
    """Return the edges of equal bins of numbers or dates; for dates, with equal numbers of months if possible.

    Whole numbers and days have a `step`. With as many bins as values, each value has a bin.
    """
    if step and bins > (high - low) // step:
        # The last bin is closed, so the largest number needs an edge below it. The sum of a
        # date and half a day is the date, so the last two edges of days are equal.
        return [
            *(low + index * step for index in range(bins - 1)),
            high - step / 2,
            high,
        ]
    if isinstance(low, float):
        edges = cut_evenly(low, high, bins).tolist()
        # The bins contain the same whole numbers: [0, 9.5) and [9.5, 19) are 0 to 9 and 10 to 18.
        return [low, *map(float, map(math.ceil, edges[1:-1])), high] if step else edges
    # Months have different lengths, so bins of equal widths would not start at months.
    months = 12 * (high.year - low.year) + high.month - low.month
    is_divisible = months > 0 and months % bins == 0
    if is_divisible and low + relativedelta(months=months) == high:
        width = months // bins
        return [low + relativedelta(months=index * width) for index in range(bins + 1)]
    # Integer arithmetic in microseconds, so that the last edge is exactly `high`.
    unit = timedelta.resolution
    span = (high - low) // unit
    return [low + index * span // bins * unit for index in range(bins + 1)]


def cut_evenly(low: float, high: float, bins: int) -> Floats:
    """Return the `bins` + 1 edges of equal bins of numbers, as floats nearest to their decimal values."""
    # Edge i is (low * (bins - i) + high * i) / bins for the decimal fractions of the texts
    # of both bounds, so edge 3 of 10 bins from 0 to 1 is 0.3. Float steps would give
    # 3 * 0.1 = 0.30000000000000004.
    exact_low, exact_high = Fraction(repr(float(low))), Fraction(repr(float(high)))
    unit = math.lcm(exact_low.denominator, exact_high.denominator)
    start, end = int(exact_low * unit), int(exact_high * unit)
    # Floats give the same result as Python integers if all products are exact.
    largest = bins * max(abs(start), abs(end), unit)
    index = np.arange(bins + 1, dtype=float if largest <= MAX_EXACT else object)
    edges = (start * (bins - index) + end * index) / (bins * unit)
    return edges.astype(float)


def make_edge_array(edges: Sequence[Edge], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return edges as an ascending array; the last bin of days ends at the beginning of the next day."""
    array = np.array(edges, dtype)
    if dtype == "datetime64[D]":
        array[-1] += np.timedelta64(1, "D")
    return array


def round_numbers(
    values: NDArray[Any], decimals: int
) -> tuple[NDArray[Any], Indices, Mask]:
    """Round numbers to a number of decimals.

    Also return the positions of the numbers that are changed, and whether they have more decimals.
    """
    unit = 10.0**decimals
    numbers = values.astype(float, copy=False)
    with np.errstate(all="ignore"):
        rounded = np.rint(numbers * unit) / unit if decimals else np.rint(numbers)
    moved = np.flatnonzero(rounded != numbers)
    moved = moved[~np.isnan(numbers[moved])]
    numbers = values[moved].astype(float)
    # Sums of rounded numbers have rounding errors, such as 0.1 + 0.2.
    precision = np.abs(numbers) * np.finfo(values.dtype).eps
    error = np.maximum(1e-6 / unit, precision)
    return rounded, moved, np.abs(rounded[moved] - numbers) > error


def parse_edges(edges: object, name: str, *, is_whole: bool) -> tuple[Any, ...]:
    """Check the edges of an Interval and return them as floats, dates or datetimes; `name` is for errors.

    `is_whole` states that numbers are whole.
    """
    if isinstance(edges, str) or not np.iterable(edges):
        raise TypeError(
            f"{name} of an Interval must be a sequence, got {type(edges).__name__}."
        )
    edges = tuple(edges)
    # The cells of a column are thousands of floats.
    is_parsed = {*map(type, edges)} == {float} and all(map(math.isfinite, edges))
    parsed = edges if is_parsed else tuple(map(_parse_edge, edges))
    # A datetime is an instance of date, but they cannot be compared.
    types = types_of_values({type(edge): edge for edge in parsed}.values())
    if len(types) > 1:
        raise TypeError(
            f"{name} of an Interval must be all numbers, all dates, or all datetimes, "
            f"got {' and '.join(sorted(types))}."
        )
    if is_whole and any(
        isinstance(e, float) and abs(e) > MAX_WHOLE_NUMBER for e in parsed
    ):
        raise ValueError(
            f"{name} of an Interval of whole numbers must be from -2**52 to 2**52 "
            "(4,503,599,627,370,496), got a larger number. List the values, or set "
            "`real=True` if rounded numbers suffice."
        )
    return parsed


def _parse_edge(edge: object) -> Edge:
    """Check an edge and return it as a float, date or datetime."""
    if isinstance(edge, date | np.datetime64):
        return _parse_date(edge)
    if isinstance(edge, bool) or not isinstance(edge, float | Real | Decimal):
        remedy = "For a time of day, use its hour."
        if isinstance(edge, str):
            remedy = "Write a date as datetime.date(2025, 1, 31)."
        raise TypeError(
            "`edges` of an Interval must be numbers, dates or datetimes, "
            f"got {type(edge).__name__}. {remedy}"
        )
    try:
        number = float(edge)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError("`edges` of an Interval must be finite, got an infinite edge.")
    return number


def _parse_date(edge: Any) -> date:
    """Check an edge that is a date or datetime, and return it as an object of Python."""
    if pd.isna(edge):
        raise ValueError("`edges` of an Interval must be finite, got a missing date.")
    if isinstance(edge, pd.Timestamp | np.datetime64):
        timestamp = pd.Timestamp(edge)
        if timestamp.nanosecond:
            raise ValueError(
                "`edges` of an Interval must be whole microseconds, got nanoseconds."
            )
        edge = timestamp.to_pydatetime()
    if isinstance(edge, datetime) and edge.tzinfo is not None:
        raise ValueError(
            "`edges` of an Interval must have no time zone, got a datetime with a time "
            "zone."
        )
    return edge


def format_edge(edge: Edge) -> str:
    """Format an edge; whole numbers without a decimal point, such as 38."""
    if isinstance(edge, date):
        return edge.isoformat()
    return repr(shorten_edge(edge))


def shorten_edge(edge: Edge) -> Edge | int:
    """Return an edge, as an int if it is a whole number up to `MAX_EXACT`."""
    if isinstance(edge, float) and edge.is_integer() and abs(edge) < MAX_EXACT:
        return int(edge)
    return edge


class _EdgeTable:
    """Numbers of edges below cells of equal width, in which numbers are found faster than by binary search."""

    def __init__(self, edges: NDArray[Any]) -> None:
        """Count ascending edges of floats."""
        self._edges = edges
        self._n_cells = 2 * edges.size
        with np.errstate(all="ignore"):
            self._scale = self._n_cells / (edges[-1] - edges[0])
        n_edges = np.bincount(self._find_cells(edges), minlength=self._n_cells)
        self._n_below = np.cumsum(n_edges) - n_edges
        self._is_crowded = (n_edges > 1) | (not 0 < self._scale < math.inf)
        self._has_crowded = self._is_crowded.any()

    def _find_cells(self, numbers: NDArray[Any]) -> Indices:
        """Return the cell of each number, which does not decrease with the number."""
        with np.errstate(all="ignore"):
            cells: Indices = ((numbers - self._edges[0]) * self._scale).astype(np.intp)
        return cells.clip(0, self._n_cells - 1, out=cells)

    def search(self, numbers: NDArray[Any]) -> Indices:
        """Return ``np.searchsorted(edges, numbers, "right")`` for numbers between the edges."""
        cells = self._find_cells(numbers)
        rest: Any = np.flatnonzero(self._is_crowded[cells]) if self._has_crowded else []
        if 2 * len(rest) > numbers.size:
            return np.searchsorted(self._edges, numbers, "right")
        # Edges in lower cells are at most the number, and edges in higher cells exceed it, so
        # a comparison with the only edge in its own cell suffices.
        n_edges = self._n_below[cells]
        n_edges += numbers >= self._edges[n_edges]
        n_edges[rest] = np.searchsorted(self._edges, numbers[rest], "right")
        return n_edges


def encode_numbers(
    values: NDArray[Any], edges: NDArray[Any], outside: int, missing: int
) -> Codes:
    """Return the index of the bin of each value between ascending edges; the last bin includes its upper edge.

    Values below the first or above the last edge get the code `outside`; NaN and NaT
    get the code `missing`.
    """
    out = np.empty(values.size, np.min_scalar_type(max(outside, missing)))
    search: Callable[..., Any] = partial(np.searchsorted, edges, side="right")
    if edges.dtype.kind == "f" and values.size > edges.size:
        search = _EdgeTable(edges).search
    n_rows = 1 << 15  # of a block, whose intermediate arrays fit in the cache
    for start in range(0, values.size, n_rows):
        block = values[start : start + n_rows]
        codes = search(block) - 1
        # The last bin contains its upper edge.
        np.minimum(codes, edges.size - 2, out=codes)
        is_inside = (block >= edges[0]) & (block <= edges[-1])
        if not is_inside.all():
            codes[~is_inside] = outside
            codes[np.isnan(block)] = missing
        out[start : start + n_rows] = codes
    return out
