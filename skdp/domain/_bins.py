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

# Number of rows of a block.
_BLOCK_ROWS = 1 << 15

# Buckets for each edge: for 550 uneven bins of normal and log-normal values, 8 take up to
# twice the time, and 32 save less than a third.
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


def read_edges(edges: Any, name: str) -> tuple[Any, ...]:
    """Return the edges as floats, dates or datetimes; `name` is for errors."""
    if isinstance(edges, str) or not np.iterable(edges):
        raise TypeError(
            f"{name} of an Interval must be a sequence, got {type(edges).__name__}"
        )
    # A datetime is an instance of date, but the two are not compared.
    plain_edges = tuple(map(_read_edge, edges))
    if len(kinds_of(plain_edges)) > 1:
        raise TypeError(
            f"{name} of an Interval must be all numbers, all dates, or all datetimes"
        )
    return plain_edges


def _read_edge(edge: Any) -> Edge:
    if isinstance(edge, date | np.datetime64):
        return _read_date(edge)
    if isinstance(edge, bool | np.bool_) or not isinstance(edge, Real | Decimal):
        raise TypeError(
            "edges of an Interval must be numbers, dates or datetimes, "
            f"got {type(edge).__name__}"
        )
    try:
        number = float(edge)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError("edges of an Interval must be finite, got an infinite one")
    return number


def _read_date(edge: Any) -> date:
    if pd.isna(edge):
        raise ValueError("edges of an Interval must be finite, got a missing date")
    if isinstance(edge, pd.Timestamp | np.datetime64):
        timestamp = pd.Timestamp(edge)
        if timestamp.nanosecond:
            raise ValueError(
                "edges of an Interval must be whole microseconds, got nanoseconds"
            )
        edge = timestamp.to_pydatetime()
    if isinstance(edge, datetime) and edge.tzinfo is not None:
        raise ValueError("edges of an Interval must have no time zone")
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


class _Buckets(NamedTuple):
    """A lookup table of bins: arithmetic finds the bucket of a number, and the bucket its bin."""

    # Rounding is monotone, so a number has at least the bucket of each smaller number:
    # edges in lower buckets are below it, and edges in higher buckets above it.

    edges: NDArray[np.float64]
    scale: np.float64
    # For each bucket: the bin at its start, its first edge (inf if it has none), and
    # True if it has several edges.
    bins: NDArray[np.integer]
    first_edges: NDArray[np.float64]
    are_crowded: NDArray[np.bool_]

    @classmethod
    def fit(cls, edges: NDArray[np.float64]) -> _Buckets:
        # As many buckets as edges separate the edges of bins of equal width.
        for n_buckets in (edges.size, _BUCKETS_PER_EDGE * edges.size):
            with np.errstate(all="ignore"):
                scale = (n_buckets - 1) / (edges[-1] - edges[0])
            places = _find_buckets(edges, edges[0], scale)
            places = np.clip(places, 0, n_buckets - 1)
            n_edges = np.bincount(places, minlength=n_buckets)
            if n_edges.max() == 1:
                break
        # The number of edges in lower buckets, from -1 below the first edge.
        bins = np.cumsum(n_edges) - n_edges - 1
        first_edges = np.full(n_buckets, np.inf)
        np.minimum.at(first_edges, places, edges)
        return cls(edges, scale, bins.astype(np.int32), first_edges, n_edges > 1)

    def encode(self, values: NDArray[np.float64]) -> NDArray[np.integer]:
        """Return the bins of values; the bin of a value outside all edges, or of nan, is arbitrary."""
        buckets = _find_buckets(values, self.edges[0], self.scale)
        codes = self.bins.take(buckets, mode="clip")
        codes += values >= self.first_edges.take(buckets, mode="clip")
        if self.are_crowded.any():
            crowded = np.flatnonzero(self.are_crowded.take(buckets, mode="clip"))
            codes[crowded] = _compare(values[crowded], self.edges)
        return codes


def _find_buckets(values: NDArray[Any], low: Any, scale: Any) -> NDArray[np.intp]:
    with np.errstate(all="ignore"):
        buckets = values - low
        buckets *= scale
        return buckets.astype(np.intp)


def _compare(values: NDArray[Any], edges: NDArray[Any]) -> NDArray[np.intp]:
    return np.searchsorted(edges, values, side="right") - 1


def encode_numbers(
    values: NDArray[Any], edges: NDArray[Any], outside: int, missing: int
) -> NDArray[np.unsignedinteger]:
    """Return the bin of each value, or the codes `outside` or `missing`."""
    out = np.empty(values.size, np.min_scalar_type(max(outside, missing)))
    # In blocks of rows, whose intermediate results stay in the cache.
    find_bins: Callable[[Any], NDArray[np.integer]] = partial(_compare, edges=edges)
    # A table costs more than it saves if there are few values for each edge.
    is_large = values.size >= _BUCKETS_PER_EDGE * edges.size
    if edges.dtype == np.float64 and is_large:
        find_bins = _Buckets.fit(edges).encode
    for start in range(0, values.size, _BLOCK_ROWS):
        block = values[start : start + _BLOCK_ROWS]
        codes = find_bins(block)
        # The last bin is closed.
        np.minimum(codes, edges.size - 2, out=codes)
        is_inside = (block >= edges[0]) & (block <= edges[-1])
        if not is_inside.all():
            codes[~is_inside] = outside
            codes[np.isnan(block)] = missing
        out[start : start + _BLOCK_ROWS] = codes
    return out
