"""The edges of bins of numbers or dates, and the bin of a value."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import partial
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.tables import kinds_of

# A number, a date or a datetime (a subclass of date).
Edge = float | date

# Rows per block, so that intermediate results stay in the cache.
BLOCK = 1 << 15

# Buckets of a lookup for each edge: of normal and log-normal values in 550 uneven bins, 8
# take up to twice the time, and 32 are no faster by more than a third.
_BUCKETS_PER_EDGE = 16

# Floats represent all whole numbers up to this one.
_MAX_EXACT = 1 << 53


def even_edges(low: Any, high: Any, bins: int) -> list[Any]:
    """Return the edges of even bins, for dates with equal numbers of months if possible."""
    if isinstance(low, float):
        return cut_evenly(low, high, bins).tolist()
    # Months are of different lengths; a year of 12 bins has one for each.
    months = 12 * (high.year - low.year) + high.month - low.month
    # The last day that every month has.
    every_month = 28
    is_divisible = months > 0 and months % bins == 0 and low.day <= every_month
    if is_divisible and _after(low, months) == high:
        return [_after(low, index * months // bins) for index in range(bins + 1)]
    # In whole microseconds, so that the last edge is the end itself.
    unit = timedelta.resolution
    span = (high - low) // unit
    return [low + index * span // bins * unit for index in range(bins + 1)]


def cut_evenly(low: float, high: float, bins: int) -> NDArray[np.float64]:
    """Return the edges of equal bins: the floats nearest to fractions of the decimal numbers `low` and `high`."""
    # The third edge of 10 bins from 0 to 1 is 0.3, as a user writes it, and not 3 * 0.1,
    # which is 0.30000000000000004.
    first, last = Fraction(repr(float(low))), Fraction(repr(float(high)))
    unit = math.lcm(first.denominator, last.denominator)
    start, end = int(first * unit), int(last * unit)
    # Floats compute the same as integers of any size while all products are exact.
    largest = bins * max(abs(start), abs(end), unit)
    index = np.arange(bins + 1, dtype=float if largest <= _MAX_EXACT else object)
    edges = (start * (bins - index) + end * index) / (bins * unit)
    return edges.astype(float)


def _after(start: Any, months: int) -> Any:
    year, month = divmod(12 * start.year + start.month - 1 + months, 12)
    return start.replace(year=year, month=month + 1)


def read_edges(edges: Any, what: str) -> tuple[Any, ...]:
    if isinstance(edges, str) or not np.iterable(edges):
        raise TypeError(
            f"{what} of an Interval must be a sequence, got {type(edges).__name__}"
        )
    plain_edges = tuple(map(_read_edge, edges))
    if len(kinds_of(plain_edges)) > 1:
        raise TypeError(
            f"{what} of an Interval must be all numbers, all dates, or all datetimes"
        )
    return plain_edges


def _read_edge(edge: Any) -> Edge:
    if isinstance(edge, date | np.datetime64):
        return _read_date(edge)
    if isinstance(edge, bool | np.bool_) or not isinstance(edge, Real | Decimal):
        raise TypeError(
            "Interval needs edges that are numbers, dates or datetimes, "
            f"got {type(edge).__name__}"
        )
    try:
        number = float(edge)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError("Interval needs edges that are finite")
    return number


def _read_date(edge: Any) -> date:
    if pd.isna(edge):
        raise ValueError("Interval needs edges that are finite, got a missing date")
    if isinstance(edge, pd.Timestamp | np.datetime64):
        timestamp = pd.Timestamp(edge)
        if timestamp.nanosecond:
            raise ValueError(
                "Interval holds datetimes to the microsecond, not the nanosecond"
            )
        edge = timestamp.to_pydatetime()
    if isinstance(edge, datetime) and edge.tzinfo is not None:
        raise ValueError("Interval needs datetimes without a time zone")
    return edge


def edge_text(edge: Edge) -> str:
    """Write an edge; a whole number without a point, as 38 rather than 38.0."""
    if isinstance(edge, date):
        return edge.isoformat()
    return repr(shortest_edge(edge))


def shortest_edge(edge: Edge) -> Edge | int:
    """Return an edge, as int if it is a whole number that floats count up to."""
    if isinstance(edge, float) and edge.is_integer() and abs(edge) < _MAX_EXACT:
        return int(edge)
    return edge


class Grid(NamedTuple):
    """Bins of about equal width, in which arithmetic finds the bin of a value instead of comparison with each edge."""

    # With ``k = floor((x - low) * scale)``, a value between the first and the last edge
    # is in bin ``k - (x < edges[k])``, or in the last bin if that equals the number of
    # bins. The number is negative below the first edge, and at least the number of the
    # last bin above the last edge.

    edges: NDArray[np.float64]
    scale: float

    @classmethod
    def fit(cls, edges: NDArray[np.float64]) -> Grid | None:
        """Return the grid of some edges, None if their widths differ too much."""
        # index, k: (n_bins + 1,), one for each edge
        low = edges[0]
        index = np.arange(edges.size)
        with np.errstate(all="ignore"):
            # Rounded up: k is at most one too high, never too low.
            scale = (index[1:] / (edges[1:] - low)).max() * (1 + 2.0**-50)
            k = np.floor((edges - low) * scale)
        # Rounding is monotone: what holds at both edges of a bin holds between them.
        return cls(edges, float(scale)) if (k == index).all() else None

    def bins(self, values: NDArray[np.float64]) -> NDArray[np.intp]:
        """Return the bins of values; the bin of a value outside all edges, or of nan, is arbitrary."""
        with np.errstate(all="ignore"):
            places = values - self.edges[0]
            places *= self.scale
        # nan gets a place, too.
        np.fmax(places, 0.0, out=places)
        np.fmin(places, self.edges.size - 1, out=places)
        codes = places.astype(np.intp)
        codes -= values < np.take(self.edges, codes)
        return codes


class Buckets(NamedTuple):
    """A lookup of the bins of many uneven edges: only values in a bucket that an edge is in are compared."""

    # The bucket of a value does not fall as the value grows, whatever rounding does. So
    # all edges of lower buckets are below a value, and all of higher ones above it.

    edges: NDArray[np.float64]
    # Of a difference from the first edge.
    scale: np.float64
    # The bin of each bucket: (n_buckets,), or -1 where it has an edge.
    codes: NDArray[np.intp]

    @classmethod
    def of(cls, edges: NDArray[np.float64]) -> Buckets:
        """Return buckets of some edges."""
        n_last = _BUCKETS_PER_EDGE * edges.size
        with np.errstate(all="ignore"):
            scale = n_last / (edges[-1] - edges[0])
        empty = cls(edges, scale, np.zeros(n_last + 1, np.intp))
        n_edges = np.bincount(empty.places(edges), minlength=n_last + 1)
        return empty._replace(codes=np.where(n_edges > 0, -1, np.cumsum(n_edges) - 1))

    def places(self, values: NDArray[np.float64]) -> NDArray[np.intp]:
        """Return the buckets of values; nan is in the first."""
        with np.errstate(all="ignore"):
            places = values - self.edges[0]
            places *= self.scale
        np.fmax(places, 0.0, out=places)
        np.fmin(places, self.codes.size - 1, out=places)
        return places.astype(np.intp)

    def bins(self, values: NDArray[np.float64]) -> NDArray[np.intp]:
        """Return the bins of values; that of a value which is outside of all edges, or nan, is arbitrary."""
        codes = np.take(self.codes, self.places(values))
        compared = np.flatnonzero(codes < 0)
        codes[compared] = _compare(values[compared], self.edges)
        return codes


def _compare(values: NDArray[Any], edges: NDArray[Any]) -> NDArray[np.intp]:
    return np.searchsorted(edges, values, side="right") - 1


def encode_numbers(
    values: NDArray[Any], edges: NDArray[Any], outside: int, missing: int
) -> NDArray[np.unsignedinteger]:
    """Find the bin of each value."""
    out = np.empty(values.size, np.min_scalar_type(max(outside, missing)))
    grid = Grid.fit(edges) if edges.dtype == np.float64 else None
    n_bins = edges.size - 1
    bins_of: Callable[[Any], NDArray[np.intp]] = partial(_compare, edges=edges)
    are_floats = edges.dtype == np.float64 and values.dtype == np.float64
    if grid is not None:
        bins_of = grid.bins
    elif are_floats and values.size >= _BUCKETS_PER_EDGE * edges.size:
        bins_of = Buckets.of(edges).bins
    for start in range(0, values.size, BLOCK):
        block = values[start : start + BLOCK]
        codes = bins_of(block)
        np.minimum(codes, n_bins - 1, out=codes)  # the last bin is closed
        is_inside = (block >= edges[0]) & (block <= edges[-1])
        if not is_inside.all():
            codes[~is_inside] = outside
            codes[np.isnan(block)] = missing
        out[start : start + BLOCK] = codes
    return out
