"""Integer sums of columns whose values are placed on a grid between public bounds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from operator import mul
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

GRID = 1 << 29
"""Steps from the middle between the bounds to either of them: a value moves by at most a billionth of the width."""

Bound = float | NDArray[np.float64]

_BLOCK = 1 << 16
"""Rows at a time: they stay in the cache, and floats add the integers of a block exactly (2**45 < 2**53)."""


class Sums(NamedTuple):
    """The exact sums of a column."""

    # One record adds 1 to the number n of values, a number from -`GRID` to `GRID` to the sum of places, and one from 0
    # to `GRID` to the sum of squares; a missing value adds nothing.

    n: int
    places: int
    squares: int


class ColumnSums:
    """A private column between public bounds, of which the sums are known; it lives inside `fit` only."""

    low: float
    high: float
    sums: Sums

    @property
    def mean(self) -> Fraction:
        """The exact mean place, the middle if there is no value."""
        return Fraction(self.sums.places, max(self.sums.n, 1))

    def value(self, place: float | Fraction) -> float:
        """Convert a place on the grid to a value."""
        return to_value(place, self.low, self.high)


@dataclass(frozen=True)
class SummedColumn(ColumnSums):
    """A column of which only the sums are here."""

    sums: Sums
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class BoundedColumn(ColumnSums):
    """A column in memory."""

    # Every value is clipped to the bounds and placed on the integers from -`GRID` (the lower bound) to `GRID` (the
    # upper). So sums are sums of integers: neither their order nor the rounding of floats shows in them, and how far
    # one record moves them is exact. Blocks are added up by Python's integers, which do not overflow.

    numbers: NDArray[np.float64]
    low: float
    high: float

    def places(self) -> Iterator[NDArray[np.float64]]:
        """Place the values on the grid, block by block."""
        for start in range(0, self.numbers.size, _BLOCK):
            yield to_places(self.numbers[start : start + _BLOCK], self.low, self.high)

    @cached_property
    def sums(self) -> Sums:  # type: ignore[override]  # mypy takes it as read-only
        """The number of values, the sum of their places, and that of the squares of their places over `GRID`."""
        n = total = squares = 0
        for start in range(0, self.numbers.size, _BLOCK):
            block = self.numbers[start : start + _BLOCK]
            places = to_places(block, self.low, self.high)
            n += block.size
            sum_places = places.sum()
            if np.isnan(sum_places):
                missing = np.isnan(places)
                n -= int(np.count_nonzero(missing))
                places[missing] = 0.0  # adds nothing
                sum_places = places.sum()
            total += int(sum_places)
            places *= places
            places *= 1 / GRID  # exact, as it is a power of 2
            squares += int(np.rint(places, out=places).sum())
        return Sums(n, total, squares)


def weighted_sums(values: NDArray[np.float64], counts: NDArray[np.int64], low: float, high: float) -> Sums:
    """Return the sums of a column of which each value occurs several times, as of `BoundedColumn.sums`."""
    known = ~np.isnan(values)
    places = to_places(values[known], low, high)
    squares = np.rint(places * places / GRID)
    # Integers of Python, which do not overflow.
    weights = counts[known].tolist()
    total, total_squares = (sum(map(mul, column.astype(np.int64).tolist(), weights)) for column in (places, squares))
    return Sums(sum(weights), total, total_squares)


def to_places(values: NDArray[np.float64], low: Bound, high: Bound) -> NDArray[np.float64]:
    """Place values on the grid between bounds."""
    places = np.clip(values, low, high)
    # Rounding is monotone, so the share of the width is at most 1, whatever the bounds.
    places -= low
    places /= np.subtract(high, low)
    places *= 2 * GRID
    np.rint(places, out=places)
    places -= GRID
    return places


def to_value(place: float | Fraction, low: float, high: float) -> float:
    """Convert a place on the grid to a value between the bounds."""
    inside = place if isinstance(place, float) else float(min(max(place, Fraction(-GRID)), Fraction(GRID)))
    return float(np.clip(low + (high - low) * ((inside / GRID + 1) / 2), low, high))
