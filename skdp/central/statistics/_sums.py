"""Integer sums of columns whose values are placed on a grid between public bounds, wherever their rows are."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from operator import mul
from typing import Any, NamedTuple, Self

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.base import level_of_the_caller, read_bounds, read_numbers
from skdp.tables import LargeTable, Table, read_table

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


@dataclass(frozen=True)
class ColumnSums:
    """A private column between public bounds, of which the sums are known; it lives inside `fit` only."""

    # Every value is clipped to the bounds and placed on the integers from -`GRID` (the lower bound) to `GRID` (the
    # upper). So sums are sums of integers: neither their order nor the rounding of floats shows in them, and how far
    # one record moves them is exact.

    sums: Sums
    low: float
    high: float

    @classmethod
    def of(cls, numbers: NDArray[np.float64], low: float, high: float) -> Self:
        """Add up a column in memory."""
        return cls(exact_sums(numbers, low, high), low, high)

    def value(self, place: float | Fraction) -> float:
        """Convert a place on the grid to a value."""
        return to_value(place, self.low, self.high)

    def error(self, of_place: float | Fraction) -> float:
        """Convert the error of a place to that of a value; beyond half the width nothing is known."""
        return (
            float(min(of_place, Fraction(GRID))) / (2 * GRID) * (self.high - self.low)
        )


def exact_sums(numbers: NDArray[np.float64], low: float, high: float) -> Sums:
    """Return the number of values, the sum of their places, and that of the squares of their places over `GRID`."""
    # Blocks are added up by Python's integers, which do not overflow.
    n = total = squares = 0
    for start in range(0, numbers.size, _BLOCK):
        places = to_places(numbers[start : start + _BLOCK], low, high)
        n += places.size
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


def weighted_sums(
    values: NDArray[np.float64], counts: NDArray[np.int64], low: float, high: float
) -> Sums:
    """Return the sums of a column of which each value occurs several times, as of `exact_sums`."""
    known = ~np.isnan(values)
    places = to_places(values[known], low, high)
    squares = np.rint(places * places / GRID)
    # Integers of Python, which do not overflow.
    weights = counts[known].tolist()
    total, total_squares = (
        sum(map(mul, column.astype(np.int64).tolist(), weights))
        for column in (places, squares)
    )
    return Sums(sum(weights), total, total_squares)


def to_places(
    values: NDArray[np.float64], low: Bound, high: Bound
) -> NDArray[np.float64]:
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
    inside = (
        place
        if isinstance(place, float)
        else float(min(max(place, Fraction(-GRID)), Fraction(GRID)))
    )
    return float(np.clip(low + (high - low) * ((inside / GRID + 1) / 2), low, high))


_LIMB = 32
"""Bits. A sum is kept as two integers, the lower one less than 2**32 per batch: no table is too long."""


@dataclass(frozen=True)
class SumTally:
    """The sums of columns between bounds, as of `exact_sums`: what a `LargeTable` adds up."""

    bounds: Sequence[tuple[float, float]]

    def zeros(self) -> list[NDArray[np.int64]]:
        return [np.zeros(6, np.int64) for _ in self.bounds]

    def add(
        self,
        sums: list[NDArray[np.int64]],
        batch: Any,
        counts: NDArray[np.int64] | None = None,
    ) -> None:
        self.add_numbers(sums, read_values(read_table(batch)), counts)

    def add_numbers(
        self,
        sums: list[NDArray[np.int64]],
        columns: Sequence[NDArray[np.float64]],
        counts: NDArray[np.int64] | None = None,
    ) -> None:
        """Add columns to the sums."""
        for total, numbers, ends in zip(sums, columns, self.bounds, strict=True):
            found = (
                exact_sums(numbers, *ends)
                if counts is None
                else weighted_sums(numbers, counts, *ends)
            )
            finite = np.isfinite(numbers)
            n_odd = (
                numbers.size - np.count_nonzero(finite)
                if counts is None
                else int(counts[~finite].sum())
            )
            total += np.array(
                [n_odd, found.n, *_limbs(found.places), *_limbs(found.squares)],
                np.int64,
            )

    def n_distinct(self, sample: Any) -> float:
        """Return the number of different rows between the bounds."""
        return most_rows(sample, self.bounds)

    def read(self, sums: list[NDArray[np.int64]]) -> list[ColumnSums]:
        """Turn the sums over all rows into columns."""
        found = []
        for total, ends in zip(sums, self.bounds, strict=True):
            _, n, *limbs = total.tolist()
            places, squares = (
                (upper << _LIMB) + lower for upper, lower in (limbs[:2], limbs[2:])
            )
            found.append(ColumnSums(Sums(n, places, squares), *ends))
        return found


def read_values(table: Table) -> list[NDArray[np.float64]]:
    """Read private numbers of which some may be missing; Python objects that are no numbers are."""
    # Only a dtype is refused. That a record holds text is private, and an error would show it: anybody could stop a
    # release with it.
    return read_numbers(table, missing=True, others=True)


def warn_of_objects(table: Table) -> None:
    """Warn of columns of Python objects that are read by `read_values`."""
    # By the dtype alone, whatever the objects are. That of a list of rows is inferred from its values, and a warning
    # would tell of them.
    if not table.has_dtypes or not isinstance(table.native, pd.DataFrame | np.ndarray):
        return
    names = [
        name
        for name, column in zip(table.names, table.columns, strict=True)
        if column.dtype == object
    ]
    if names:
        warnings.warn(
            f"the columns {names} are of dtype object: what is not a number in them counts as missing, and no error "
            "says so, since it would show that there is such a record. Convert them to a dtype of numbers, in a "
            "dataframe if other columns hold text",
            stacklevel=level_of_the_caller(),
        )


def _limbs(total: int) -> tuple[int, int]:
    return total >> _LIMB, total & ((1 << _LIMB) - 1)


def sum_columns(
    table: Table, large: LargeTable | None, bounds: Any, *, missing: bool = True
) -> Sequence[ColumnSums]:
    """Read the numbers of a table between declared bounds; of a large table, their sums."""
    ends = [(low, high) for low, high in read_bounds(bounds, table.names).tolist()]
    if missing:
        warn_of_objects(table)
        numbers = read_values(table)
    else:
        numbers = read_numbers(table)
    if large is None:
        return [
            ColumnSums.of(column, *pair)
            for column, pair in zip(numbers, ends, strict=True)
        ]
    tally = SumTally(ends)
    sums = large.add_up(table.names, tally)
    return tally.read(sums if missing else complete(table.names, sums))


def complete(
    names: Sequence[Any], sums: list[NDArray[np.int64]]
) -> list[NDArray[np.int64]]:
    """Refuse the sums of columns with missing values."""
    for name, total in zip(names, sums, strict=True):
        if total[0]:
            raise missing_error(name)
    return sums


def missing_error(name: Any) -> ValueError:
    """Make the error of a missing value."""
    return ValueError(
        f"column {name!r} holds a missing value, a NaN or an inf. Fill it in, or drop the record, by a public rule."
    )


def most_rows(sample: Any, ends: Iterable[tuple[float, float]]) -> float:
    """Return the number of different rows of a table between two ends for each column."""
    return math.prod(
        most_values(dtype, *pair)
        for dtype, pair in zip(dtypes_of(sample), ends, strict=True)
    )


def most_values(dtype: Any, low: Any, high: Any) -> float:
    """Return the number of values of a column between two ends, missing among them."""
    if isinstance(low, float):
        return high - low + 2 if dtype.is_integer() else math.inf
    return float((high - low).days + 2) if dtype == nw.Date else math.inf


def dtypes_of(sample: Any) -> list[Any]:
    return list(nw.from_native(sample, eager_only=True).schema.values())
