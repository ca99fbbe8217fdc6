"""Private rows as integers of a bounded norm, measured from their noisy mean."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, Self

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from skdp.base import read_numbers
from skdp.central._supervised import features, warn_of_few
from skdp.central.statistics import GaussianNoise
from skdp.frames import LargeTable, Table, read_table
from skdp.randomness import ByteSource

UNIT = 1 << 14
"""Of the values of a row: the place of the end of its bounds that is farther from where they start."""

_BLOCK = 1 << 17
"""Values at a time, which stay in the cache. Floats add up their products exactly: below 2**(15 + 15 + 17)."""


def widths(ends: NDArray[np.float64], starts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the distance of the end of each pair of bounds that is farther from a start."""
    distances: NDArray[np.float64] = np.abs(ends.T - starts).max(axis=0)
    return distances


@dataclass(frozen=True, eq=False)
class Rows:
    """Private rows whose values are integers, of a bounded norm; they live inside `fit` only."""

    # A float sum of real values depends on the order of its terms, so that a row could change it by more than itself.
    # All products and sums here are of integers below 2**53, which floats hold exactly, in any order.

    places: NDArray[np.int16]
    codes: NDArray[np.intp]
    """The class of each row, or the place of its target."""
    square: int
    """The square of the largest norm of a row, its constant included."""
    constant: int = 0
    """A last value, of all rows; 0 for none."""

    @classmethod
    def of(
        cls,
        columns: list[NDArray[np.float64]],
        ends: NDArray[np.float64],
        starts: NDArray[np.float64],
        codes: NDArray[Any],
    ) -> Rows:
        """Place values between bounds on a grid whose 0 is at a start."""
        places = np.empty((len(codes), len(columns)), np.int16)
        lows, highs = ends.T
        scale = widths(ends, starts)
        for rows in _slices(places):
            part = np.stack([column[rows] for column in columns], axis=1)
            np.clip(part, lows, highs, out=part)
            part -= starts
            part /= scale
            part *= UNIT
            places[rows] = part  # cut towards 0
        return cls(places, codes.astype(np.intp), len(columns) * UNIT**2)

    @property
    def reach(self) -> float:
        """The largest norm, in units of the bounds."""
        return math.sqrt(self.square) / UNIT

    @property
    def n_columns(self) -> int:
        """The number of values of a row, without its constant."""
        return self.places.shape[1]

    @property
    def n_weights(self) -> int:
        """The number of values of a row, its constant included."""
        return self.n_columns + (self.constant > 0)

    def sum(self, what: Callable[[Rows], NDArray[np.int64]]) -> NDArray[np.int64]:
        """Return sums over the rows."""
        return what(self)

    def map(self, change: Callable[[Rows], Rows]) -> Rows:
        """Change each row."""
        return change(self)

    def counts(self, limits: Sequence[int]) -> NDArray[np.int64]:
        """Count the rows by the first limit that their squared norm does not exceed, or else the last."""
        places = np.minimum(np.searchsorted(limits, self.squares), len(limits) - 1)
        return np.bincount(places, minlength=len(limits))

    def blocks(self) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """Return some rows after others, without their constant; the next overwrite them."""
        buffer = np.empty((0, 0))
        for rows in _slices(self.places):
            part = self.places[rows]
            if not buffer.size:
                buffer = np.empty(part.shape)
            np.copyto(buffer[: len(part)], part)
            yield rows, buffer[: len(part)]

    @cached_property
    def squares(self) -> NDArray[np.float64]:
        """The squared norm of each row, without its constant."""
        squares = np.empty(len(self.places))
        for rows, part in self.blocks():
            np.einsum("ij,ij->i", part, part, out=squares[rows])
        return squares

    def clipped(self, square: int) -> Rows:
        """Shrink the rows whose squared norm is larger, towards 0."""
        places, factors = self.places.copy(), self.factors(square)
        (long,) = np.nonzero(factors < 1)
        places[long] = places[long] * factors[long, np.newaxis]
        return Rows(places, self.codes, square)

    def factors(self, square: int) -> NDArray[np.float64]:
        """Return what each row is multiplied with, and then cut towards 0, so that no squared norm is larger."""
        # The three roundings make a factor too large by less than 2**-50.
        long = self.squares > square
        return np.where(long, np.sqrt(square / np.where(long, self.squares, 1)) * (1 - 2.0**-40), 1.0)

    def total(self, square: int) -> NDArray[np.int64]:
        """Return the sum of the rows, shrunk as by `clipped`: a row changes it by at most the root of `square`."""
        factors, total = self.factors(square), np.zeros(self.n_columns, np.int64)
        for block, part in self.blocks():
            total += np.trunc(part * factors[block, np.newaxis]).sum(axis=0).astype(np.int64)
        return total

    def moments(self) -> NDArray[np.int64]:
        """Return the sums of the products of two values, of all pairs, without the constant."""
        total = np.zeros((self.n_columns,) * 2, np.int64)
        for _, part in self.blocks():
            total += (part.T @ part).astype(np.int64)
        return total

    def centred(self, middle: NDArray[np.int16]) -> Rows:
        """Subtract a public row of integers, of less than `UNIT` in size."""
        return Rows(self.places - middle, self.codes, sum((UNIT + abs(int(place))) ** 2 for place in middle))

    def with_constant(self, constant: int) -> Rows:
        """Add a last column of one integer."""
        return replace(self, square=self.square + constant**2, constant=constant)


@dataclass(frozen=True)
class Reader:
    """Reads rows of a table whose last column is the target."""

    ends: NDArray[np.float64]
    starts: NDArray[np.float64]
    codes: Callable[[Any], NDArray[Any]]
    """Returns the class, or the place, of each value of the target."""
    changes: tuple[Callable[[Rows], Rows], ...] = ()

    def __call__(self, table: Table) -> Rows:
        rows = Rows.of(read_numbers(features(table)), self.ends, self.starts, self.codes(table.columns[-1]))
        for change in self.changes:
            rows = change(rows)
        return rows


@dataclass(frozen=True, eq=False)
class LargeRows(Rows):
    """The rows of a large table, which are read again for each of their sums; in memory there are none of them."""

    source: LargeTable = field(kw_only=True)
    names: tuple[Any, ...] = field(kw_only=True)
    read: Reader = field(kw_only=True)

    @classmethod
    def open(cls, source: LargeTable, names: tuple[Any, ...], read: Reader) -> Self:
        no_rows = read(read_table(nw.from_native(source.sample, eager_only=True).select(*names).to_native()))
        return cls(
            no_rows.places, no_rows.codes, no_rows.square, no_rows.constant, source=source, names=names, read=read
        )

    def sum(self, what: Callable[[Rows], NDArray[np.int64]]) -> NDArray[np.int64]:
        (total,) = self.source.add_up(self.names, _Sum(self.read, what, what(self)))
        return total

    def map(self, change: Callable[[Rows], Rows]) -> Rows:
        return self.open(self.source, self.names, replace(self.read, changes=(*self.read.changes, change)))


@dataclass(frozen=True, eq=False)
class _Sum:
    """Sums over rows: a `skdp.frames.Summary`."""

    read: Reader
    what: Callable[[Rows], NDArray[np.int64]]
    nothing: NDArray[np.int64]

    def zeros(self) -> list[NDArray[np.int64]]:
        return [np.zeros_like(self.nothing)]

    def add(self, sums: list[NDArray[np.int64]], batch: Any, counts: NDArray[np.int64] | None = None) -> None:
        """Add the rows of a batch, which no engine has grouped."""
        sums[0] += self.what(self.read(read_table(batch)))

    def n_distinct(self, sample: Any) -> float:
        """Return infinity: all rows differ."""
        return math.inf


def _slices(table: NDArray[Any]) -> Iterator[slice]:
    step = max(1, _BLOCK // max(table.shape[1], 1))
    return (slice(start, start + step) for start in range(0, len(table), step))


_SIZE_PART, _MEAN_PART = Fraction(1, 32), Fraction(1, 16)
"""Of the budget, for the numbers of rows by norm, and for their mean."""

_N_NORMS = 24
"""Limits of the norm to choose from."""


@dataclass(frozen=True, eq=False)
class Bounded:
    """Rows, measured from a public middle, and what was found on the way."""

    rows: Rows
    square: int
    """The square of a norm that few rows exceed."""
    middle: NDArray[np.int16]
    n_rows: float
    error: float
    """The standard deviation of `n_rows`."""
    rest: Fraction
    """What remains of the squared mu."""


def find_limits(rows: Rows, mu_squared: Fraction, cut: float, source: ByteSource, *, centred: bool) -> Bounded:
    """Find the middle of rows, if they are to be centred, and a norm that only the share `cut` of them exceeds."""
    sizes, means = GaussianNoise(mu_squared * _SIZE_PART), GaussianNoise(mu_squared * _MEAN_PART)
    square, n_rows = choose_limit(rows, sizes, cut, source)
    error = math.sqrt(_N_NORMS) * float(sizes.error)
    if n_rows < 3 * error:
        warn_of_few()
    middle, rest = np.zeros(rows.n_columns, np.int16), mu_squared - sizes.mu_squared
    if centred:
        total = rows.sum(partial(Rows.total, square=square))
        sums = replace(means, square=square).add(source, total.tolist())
        middle = np.array([total / max(n_rows, 3 * error) for total in sums])
        middle = np.clip(np.rint(middle), 1 - UNIT, UNIT - 1).astype(np.int16)
        rows = rows.map(partial(Rows.centred, middle=middle))
        square, _ = choose_limit(rows, sizes, cut, source)
        rest -= sizes.mu_squared + means.mu_squared
    return Bounded(rows, square, middle, n_rows, error, rest)


def choose_limit(rows: Rows, noise: GaussianNoise, cut: float, source: ByteSource) -> tuple[int, float]:
    """Choose the least limit of the norm that few rows exceed, from noisy numbers of rows; and count all rows."""
    # A row is in one of the numbers: adding or removing it changes this one by 1.
    limits = [int(rows.square * 2 ** (-step / 3)) for step in reversed(range(_N_NORMS))]
    counts = noise.add(source, rows.sum(partial(Rows.counts, limits=limits)).tolist())
    n_rows = max(sum(counts), 0)
    few = (place for place in range(_N_NORMS) if sum(counts[place + 1 :]) <= cut * n_rows)
    return limits[next(few)], float(n_rows)


def largest_moments(square: int, largest: int) -> int:
    """Return the square of the largest norm of the products of all pairs of values of a row, each counted once."""
    # Half the sum of the fourth power of the norm, of which the square is given, and of those of the values.
    return (square * (square + min(square, largest**2)) + 1) // 2
