"""Integer sums by group, in memory or batch by batch where the rows are, and what noisy ones say."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from skdp.central.statistics._cells import Coder, most_declared
from skdp.central.statistics._noise import Noise
from skdp.central.statistics._ranges import LARGEST
from skdp.central.statistics._sums import (
    GRID,
    dtypes_of,
    most_rows,
    read_values,
    to_places,
)
from skdp.domain import Domain
from skdp.tables import Table, read_table

Floats = NDArray[np.float64]
_LIMB = 32
"""Bits. A sum of places is kept as two integers, the lower one less than 2**32 per batch."""


@dataclass(frozen=True)
class GroupSums:
    """Exact sums of each group; it lives inside `fit` only."""

    # A record adds 1 to the rows of one group, and for each column 1 to its number of values and a number from -`GRID`
    # to `GRID` to its sum of places; a missing value adds nothing to the latter two.

    rows: NDArray[np.int64]
    parts: NDArray[np.int64]
    """Of each column: numbers of values, and two limbs of the sums of places."""
    odd: NDArray[np.int64]
    """The number of values of each column that are missing or infinite."""

    @classmethod
    def zeros(cls, n_groups: int, n_columns: int) -> GroupSums:
        """Return the sums over no rows."""
        shapes = (n_groups,), (n_columns, 3, n_groups), (n_columns,)
        return cls(*(np.zeros(shape, np.int64) for shape in shapes))

    def add(
        self,
        groups: NDArray[np.integer],
        columns: Sequence[Floats],
        bounds: Sequence[tuple[float, float]],
        counts: NDArray[np.int64] | None = None,
    ) -> None:
        """Add rows, each as often as it counts; those of no group have a number beyond the last."""
        times = np.ones(len(groups), np.int64) if counts is None else counts
        inside = groups < self.rows.size
        np.add.at(self.rows, groups[inside], times[inside])
        for place, (column, ends) in enumerate(zip(columns, bounds, strict=True)):
            self.odd[place] += times[~np.isfinite(column)].sum()
            known = inside & ~np.isnan(column)
            places = to_places(column[known], *ends).astype(np.int64)
            n, upper, lower = self.parts[place]
            np.add.at(n, groups[known], times[known])
            total = np.zeros_like(n)
            np.add.at(total, groups[known], places * times[known])
            upper += total >> _LIMB
            lower += total & ((1 << _LIMB) - 1)

    def numbers(self, *, rows: bool, shared: bool) -> NDArray[Any]:
        """Return what gets noise, for each group: one record changes each number of one group by at most `GRID`."""
        wide = self.parts.astype(object)
        columns = [self.rows.astype(object) * GRID] if rows or shared else []
        for n, upper, lower in wide:
            columns += [] if shared else [n * GRID]
            columns.append((upper << _LIMB) + lower)
        return np.column_stack(columns)


@dataclass(frozen=True)
class GroupTally:
    """The sums of groups by declared keys, the first columns: what a `LargeTable` adds up."""

    domain: Domain
    code: Coder
    bounds: Sequence[tuple[float, float]]
    refused: bool

    def zeros(self) -> list[NDArray[np.int64]]:
        sums = GroupSums.zeros(self.domain.size, len(self.bounds))
        return [
            np.zeros(len(self.domain.columns), np.int64),
            sums.rows,
            sums.parts,
            sums.odd,
        ]

    def add(
        self,
        sums: list[NDArray[np.int64]],
        batch: Any,
        counts: NDArray[np.int64] | None = None,
    ) -> None:
        outside, *rest = sums
        table = read_table(batch)
        halves = zip(self._split(table.names), self._split(table.columns), strict=True)
        keys, others = (
            Table(tuple(names), tuple(columns), table.native)
            for names, columns in halves
        )
        codes, undeclared = self.code(keys, self.domain)
        outside += np.array([name in undeclared for name in self.domain.columns])
        numbers = read_values(others)
        GroupSums(*rest).add(
            join_codes(self.domain, codes), numbers, self.bounds, counts
        )

    def n_distinct(self, sample: Any) -> float:
        """Return the number of different declared rows."""
        if not self.refused:
            return math.inf
        frame = nw.from_native(sample, eager_only=True)
        keys, others = (
            frame.select(names).to_native() for names in self._split(frame.columns)
        )
        declared = zip(dtypes_of(keys), self.domain.columns, strict=True)
        n_groups = math.prod(
            most_declared(dtype, self.domain[name]) for dtype, name in declared
        )
        return n_groups * most_rows(others, self.bounds)

    def _split(self, columns: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        """Split columns into keys and others."""
        return columns[: len(self.domain.columns)], columns[len(self.domain.columns) :]


def join_codes(
    domain: Domain, codes: Sequence[NDArray[np.integer]]
) -> NDArray[np.int64]:
    """Combine the codes of several columns; a row with an undeclared value gets the number of combinations."""
    declared = np.logical_and.reduce(
        [column < size for column, size in zip(codes, domain.sizes, strict=True)]
    )
    joint = np.full(len(declared), domain.size, np.int64)
    joint[declared] = domain.join([column[declared] for column in codes])
    return joint


_MOST = Fraction(1 << 124)
"""The limit of errors, in steps of the grid."""

_KNOTS = np.linspace(0, 1, 33)


@lru_cache(maxsize=16)
def _reaches_at_knots(noise: Noise, level: float) -> list[float]:
    return [float(min(noise.reach(level, slope), _MOST)) for slope in _KNOTS.tolist()]


def reaches(noise: Noise, level: float, slopes: Floats) -> Floats:
    """Return `Noise.reach` for many slopes, between those of a few."""
    return np.interp(slopes, _KNOTS, _reaches_at_knots(noise, level))


def count_estimates(count: Floats, noise: Noise, level: float, unit: int) -> Floats:
    """Estimate numbers of rows from noisy ones in units."""
    reach = float(min(noise.reach(level) / unit, _MOST))
    value = np.clip(np.rint(count / unit), -LARGEST, LARGEST)
    error = np.full_like(count, float(min(noise.error / unit, _MOST)))
    ends = (
        np.clip(end, -LARGEST, LARGEST)
        for end in (np.floor(value - reach), np.ceil(value + reach))
    )
    return np.column_stack([value, error, *ends])


def sum_estimates(
    places: Floats, count: Floats, ends: tuple[float, float], noise: Noise, level: float
) -> Floats:
    """Estimate sums between bounds from noisy sums of places and noisy counts in steps of the grid."""
    half, middle = (ends[1] - ends[0]) / 2 / GRID, (ends[0] + ends[1]) / 2 / GRID
    size = math.hypot(half, middle)
    slope = np.array([min(half, abs(middle)) / max(half, abs(middle))])
    value = half * places + middle * count
    error = np.full_like(value, size * float(min(noise.error, _MOST)))
    reach = size * reaches(noise, level, slope)
    return np.column_stack([value, error, value - reach, value + reach])


def mean_estimates(
    places: Floats, count: Floats, ends: tuple[float, float], noise: Noise, level: float
) -> Floats:
    """Estimate means between bounds, as `ratio` does."""
    some = count > 0
    n = np.where(some, count, 1.0)
    mean = np.clip(np.where(some, places / n, 0.0), -LARGEST, LARGEST)
    error = np.where(some, float(min(noise.error, _MOST)) / n * np.hypot(1, mean), 1.0)
    reach = reaches(noise, level, np.minimum(np.abs(mean), 1)) / n
    known = some & (reach < 1)
    reach = np.where(known, reach, 0.0)
    spread = np.sqrt(reach**2 * (1 - reach**2) + (reach * mean) ** 2)
    lower, upper = ((mean + sign * spread) / (1 - reach**2) for sign in (-1, 1))
    low, high = ends
    shares = [mean, np.where(known, lower, -np.inf), np.where(known, upper, np.inf)]
    value, lower, upper = (
        low + (high - low) * ((np.clip(share, -1, 1) + 1) / 2) for share in shares
    )
    return np.column_stack(
        [value, np.minimum(error, 1) * (high - low) / 2, lower, upper]
    )


def library_of(table: Table) -> str:
    """Return the library of tables about a table: its own, or pandas for an array."""
    if isinstance(table.native, np.ndarray):
        return "pandas"
    return nw.from_native(table.native, eager_only=True).implementation.name.lower()


def keyed_frame(
    keys: Mapping[str, NDArray[Any]], columns: Mapping[str, NDArray[Any]], library: Any
) -> Any:
    """Build a table of a library whose first columns are keys; no two columns have one name."""
    of_keys = {name: _plain(values) for name, values in keys.items()}
    return nw.from_dict(of_keys | dict(columns), backend=library).to_native()


def _plain(values: NDArray[Any]) -> list[Any]:
    """Return keys as a list of one type, where numbers are whole and others are not."""
    listed: list[Any] = values.tolist()
    if any(isinstance(value, float) for value in listed):
        return [None if value is None else float(value) for value in listed]
    return listed
