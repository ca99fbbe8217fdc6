"""Sums and ranks of the columns of a table, wherever its rows are."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from skdp.base import read_bounds, read_numbers
from skdp.central.statistics._quantiles import Ranks, count_below, ranked_quantiles
from skdp.central.statistics._sums import BoundedColumn, ColumnSums, SummedColumn, Sums, weighted_sums
from skdp.domain import Categories, Grid, Interval
from skdp.frames import LargeTable, Table, read_table
from skdp.randomness import ByteSource

_LIMB = 32
"""Bits. A sum is kept as two integers, the lower one less than 2**32 per batch: no table is too long."""


@dataclass(frozen=True)
class SumTally:
    """The sums of columns between bounds, as `BoundedColumn.sums`: what a `LargeTable` adds up."""

    bounds: Sequence[tuple[float, float]]

    def zeros(self) -> list[NDArray[np.int64]]:
        """Return the sums over no rows."""
        return [np.zeros(6, np.int64) for _ in self.bounds]

    def add(self, sums: list[NDArray[np.int64]], batch: Any, counts: NDArray[np.int64] | None = None) -> None:
        """Add the rows of a batch."""
        columns = read_numbers(read_table(batch), missing=True)
        for total, numbers, ends in zip(sums, columns, self.bounds, strict=True):
            found = BoundedColumn(numbers, *ends).sums if counts is None else weighted_sums(numbers, counts, *ends)
            finite = np.isfinite(numbers)
            n_odd = numbers.size - np.count_nonzero(finite) if counts is None else int(counts[~finite].sum())
            total += np.array([n_odd, found.n, *_limbs(found.places), *_limbs(found.squares)], np.int64)

    def n_distinct(self, sample: Any) -> float:
        """Return the number of different rows between the bounds."""
        columns = zip(dtypes_of(sample), self.bounds, strict=True)
        return math.prod(most_values(dtype, *ends) for dtype, ends in columns)

    def read(self, sums: list[NDArray[np.int64]]) -> list[SummedColumn]:
        """Turn the sums over all rows into columns."""
        found = []
        for total, ends in zip(sums, self.bounds, strict=True):
            _, n, *limbs = total.tolist()
            places, squares = ((upper << _LIMB) + lower for upper, lower in (limbs[:2], limbs[2:]))
            found.append(SummedColumn(Sums(n, places, squares), *ends))
        return found


def _limbs(total: int) -> tuple[int, int]:
    return total >> _LIMB, total & ((1 << _LIMB) - 1)


@dataclass(frozen=True)
class RankTally:
    """The numbers of values below each candidate, as of `count_below`: what a `LargeTable` adds up."""

    candidates: Sequence[NDArray[np.float64]]

    def zeros(self) -> list[NDArray[np.int64]]:
        """Return the numbers of no rows."""
        return [np.zeros(size, np.int64) for values in self.candidates for size in (values.size, values.size, 1)]

    def add(self, sums: list[NDArray[np.int64]], batch: Any, counts: NDArray[np.int64] | None = None) -> None:
        """Add the rows of a batch."""
        columns = read_numbers(read_table(batch), missing=True)
        pairs = zip(columns, self.candidates, strict=True)
        parts = [part for pair in pairs for part in count_below(*pair, counts)]
        for total, part in zip(sums, parts, strict=True):
            total += part

    def n_distinct(self, sample: Any) -> float:
        """Return the number of different rows between the candidates."""
        columns = zip(dtypes_of(sample), self.candidates, strict=True)
        return math.prod(most_values(dtype, float(grid[0]), float(grid[-1])) for dtype, grid in columns)


def sum_columns(table: Table, large: LargeTable | None, bounds: Any, *, missing: bool = True) -> Sequence[ColumnSums]:
    """Read the numbers of a table between declared bounds; of a large table, their sums."""
    ends = [(low, high) for low, high in read_bounds(bounds, table.names).tolist()]
    numbers = read_numbers(table, missing=missing)
    if large is None:
        return [BoundedColumn(column, *pair) for column, pair in zip(numbers, ends, strict=True)]
    tally = SumTally(ends)
    sums = large.add_up(table.names, tally)
    for name, total in zip(table.names, sums, strict=True):
        if total[0] and not missing:
            raise ValueError(
                f"column {name!r} holds a missing value, a NaN or an inf. Fill it in, or drop the record, by a public "
                "rule."
            )
    return tally.read(sums)


def rank_columns(table: Table, large: LargeTable | None, candidates: Sequence[NDArray[np.float64]]) -> list[Ranks]:
    """Count the values of each column below its candidates."""
    numbers = read_numbers(table, missing=True)
    if large is None:
        return [count_below(*pair) for pair in zip(numbers, candidates, strict=True)]
    sums = large.add_up(table.names, RankTally(candidates))
    return [(below, up_to, int(n[0])) for below, up_to, n in zip(sums[::3], sums[1::3], sums[2::3], strict=True)]


def plan_quantiles(
    table: Table,
    large: LargeTable | None,
    candidates: Sequence[NDArray[np.float64]],
    probabilities: Sequence[Fraction],
    epsilon: Fraction,
) -> Callable[[ByteSource], NDArray[np.float64]]:
    """Read the columns of a table, and return a function that draws their quantiles."""
    ranks = rank_columns(table, large, candidates)
    return lambda source: ranked_quantiles(ranks, probabilities, candidates, epsilon, source)


def most_values(dtype: Any, low: Any, high: Any) -> float:
    """Return the number of values of a column between two ends, missing among them."""
    if isinstance(low, float):
        return high - low + 2 if dtype.is_integer() else math.inf
    return float((high - low).days + 2) if dtype == nw.Date else math.inf


def most_declared(dtype: Any, attribute: Categories | Interval) -> float:
    """Return the number of declared values of a column."""
    if isinstance(attribute, Interval):
        if grid_of(dtype, attribute) is not None:
            return len(attribute.edges) + 3  # below, above, the last bin twice, missing and nan
        return most_values(dtype, attribute.edges[0], attribute.edges[-1])
    return len(attribute)


def grid_of(dtype: Any, attribute: Categories | Interval) -> Grid | None:
    """Return the grid by which a database finds the bins of a column of wide floats."""
    if dtype == nw.Float64 and isinstance(attribute, Interval) and attribute.dtype.kind == "f":
        return Grid.of(np.array(attribute.edges))
    return None


def dtypes_of(sample: Any) -> list[Any]:
    """Return the dtypes of the columns of a table."""
    return list(nw.from_native(sample, eager_only=True).schema.values())
