"""Private rows as integers of a bounded norm, measured from their noisy mean."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.central._sums import BLOCK
from skdp.central.statistics import Noise, to_float, warn_user
from skdp.privacy import PrivacyBudget
from skdp.randomness import ByteSource

# Position of the bound that is farther from the start of a column.
UNIT = 1 << 14


def in_units(number: int | Fraction) -> float:
    """Return a noisy sum of products of two values in units of the rows."""
    return to_float(number) / UNIT**2


def noisy_products(
    sums: NDArray[np.int64], noise: Noise, source: ByteSource
) -> NDArray[np.float64]:
    """Add noise to a symmetric matrix of sums of products, one draw for each pair; return units of the rows."""
    pairs = np.triu_indices(len(sums))
    noisy = np.zeros(sums.shape)
    noisy[pairs] = noise.add_floats(source, sums[pairs]) / UNIT**2
    return noisy + np.triu(noisy, 1).T


def widths(
    bounds: NDArray[np.float64], starts: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the distance from each start to the farther bound."""
    distances: NDArray[np.float64] = np.abs(bounds.T - starts).max(axis=0)
    return distances


@dataclass(frozen=True, eq=False)
class Rows:
    """Private rows whose values are integers, of a bounded norm; they live inside `fit` only."""

    # The rounding of a float sum depends on all terms, so a row could change the sum by
    # more than its own value. All products and sums here are of integers below 2**53,
    # which floats hold exactly, in any order.

    positions: NDArray[np.int16]
    # The class of each row, or the position of its target.
    codes: NDArray[np.intp]
    # The square of the largest norm of a row, its constant included.
    square: int
    # Constant that is appended to each row; 0 for none.
    constant: int = 0
    # The largest size of each value.
    most: int | NDArray[np.int64] = UNIT

    @classmethod
    def of(
        cls,
        columns: list[NDArray[np.float64]],
        bounds: NDArray[np.float64],
        starts: NDArray[np.float64],
        codes: NDArray[Any],
        units: NDArray[np.float64] | None = None,
    ) -> Rows:
        """Round values between bounds to a grid with `starts` as 0, in units of at least `widths` (the default)."""
        positions = np.empty((len(codes), len(columns)), np.int16)
        scale = (widths(bounds, starts) if units is None else units) / UNIT
        lows, highs = (np.trunc((numbers - starts) / scale) for numbers in bounds.T)
        most = np.maximum(-lows, highs).astype(np.int64)
        with np.errstate(over="ignore"):
            for number, column in enumerate(columns):
                values = (column - starts[number]) / scale[number]
                # Cut towards 0.
                positions[:, number] = np.clip(values, lows[number], highs[number])
        return cls(positions, codes.astype(np.intp), int((most**2).sum()), most=most)

    @property
    def n_columns(self) -> int:
        """The number of values of a row, without its constant."""
        return self.positions.shape[1]

    def blocks(self, n_more: int = 0) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """Return blocks of rows without their constant, with further columns; a block overwrites the last one."""
        buffer = np.empty((0, 0))
        for rows in _slices(self.positions):
            part = self.positions[rows]
            if not buffer.size:
                buffer = np.empty((len(part), self.n_columns + n_more))
            np.copyto(buffer[: len(part), : self.n_columns], part)
            yield rows, buffer[: len(part)]

    @cached_property
    def squares(self) -> NDArray[np.float64]:
        """The squared norm of each row, without its constant."""
        squares = np.empty(len(self.positions))
        for rows, part in self.blocks():
            np.einsum("ij,ij->i", part, part, out=squares[rows])
        return squares

    def clip(self, square: int) -> Rows:
        """Shrink the rows whose squared norm is larger, towards 0."""
        positions, factors = self.positions.copy(), self.factors(square)
        (long,) = np.nonzero(factors < 1)
        positions[long] = positions[long] * factors[long, np.newaxis]
        return replace(self, positions=positions, square=square)

    def factors(self, square: int) -> NDArray[np.float64]:
        """Return the factors of rows that, after cutting towards 0, bound their squared norms."""
        # Three roundings increase a factor by less than 2**-50.
        long = self.squares > square
        return np.where(
            long,
            np.sqrt(square / np.where(long, self.squares, 1)) * (1 - 2.0**-40),
            1.0,
        )

    def counts(self, limits: Sequence[int]) -> NDArray[np.int64]:
        """Count rows by squared norm: each in the class of the first limit that it does not exceed, or of the last."""
        # Takes less time than a search.
        within = [np.count_nonzero(self.squares <= limit) for limit in limits[:-1]]
        return np.diff([0, *within, len(self.squares)])

    def total(self, square: int) -> NDArray[np.int64]:
        """Return the sum of the rows, shrunk as by `clip`: a row changes it by at most the root of `square`."""
        factors, total = self.factors(square), np.zeros(self.n_columns, np.int64)
        for block, part in self.blocks():
            _shorten(part, factors[block])
            total += (np.ones(len(part)) @ part).astype(np.int64)
        return total

    def clipped_moments(
        self, square: int, constant: int, *, with_target: bool
    ) -> NDArray[np.int64]:
        """Return sums of products of two values of rows clipped to a norm, with a constant and perhaps their target.

        Of shape (n_columns + 1, n_columns + 1), or one more with the target.
        """
        # The values of a row, its constant and its target are multiplied by one factor,
        # such that the squared norm of the values is at most `square`.
        factors = self.factors(square)
        n_further = 2 if with_target else 1
        size = self.n_columns + n_further
        total = np.zeros((size, size), np.int64)
        for block, part in self.blocks(n_further):
            part[:, self.n_columns] = constant
            if with_target:
                part[:, -1] = self.codes[block]
            _shorten(part, factors[block])
            total += (part.T @ part).astype(np.int64)
        return total

    def center(self, middle: NDArray[np.int16]) -> Rows:
        """Subtract a public row of integers, each smaller than `UNIT` in absolute value."""
        most = (np.abs(middle.astype(np.int64)) + self.most).astype(np.int64)
        return replace(
            self,
            positions=self.positions - middle,
            square=int((most**2).sum()),
            most=most,
        )

    def with_constant(self, constant: int) -> Rows:
        """Add a last column of one integer."""
        return replace(self, square=self.square + constant**2, constant=constant)


def _shorten(part: NDArray[np.float64], factors: NDArray[np.float64]) -> None:
    """Multiply rows of integers by factors in place, and truncate towards 0."""
    (long,) = np.nonzero(factors < 1)
    part[long] = np.trunc(part[long] * factors[long, np.newaxis])


def _slices(table: NDArray[Any]) -> Iterator[slice]:
    step = max(1, BLOCK // max(table.shape[1], 1))
    return (slice(start, start + step) for start in range(0, len(table), step))


def warn_of_few(n_rows: float, error: float) -> None:
    """Warn if there are too few rows for the noise, of this standard deviation, of their number."""
    if n_rows < 3 * error:
        warn_user(
            "the noise is about as large as the number of rows, so the fitted values "
            "are unreliable: there are too few rows for this epsilon",
            "answers/which_epsilon",
        )


# Limits of the norm to choose from.
_N_NORMS = 24


@dataclass(frozen=True, eq=False)
class Bounded:
    """Rows centered at a noisy middle, and their noisy limits."""

    rows: Rows
    # The square of a norm that few rows exceed.
    square: int
    middle: NDArray[np.int16]
    n_rows: float
    # The standard deviation of `n_rows`.
    error: float
    # What remains of the budget, in mu if there is one.
    rest: PrivacyBudget


def find_limits(
    rows: Rows,
    share: PrivacyBudget,
    cut: float,
    source: ByteSource,
    *,
    most: float = math.inf,
) -> Bounded:
    """Find the middle of rows, and a norm that only the fraction `cut` of the centered rows exceeds."""
    if share.kind == "rho":  # Gaussian noise only
        share = replace(share, kind="mu", amount=share.mu_squared)
    # The numbers of rows by norm, measured twice, and the mean cost an eighth.
    of_sizes = share * Fraction(1, 32)
    of_mean = share * Fraction(1, 16)
    rest = share * Fraction(7, 8)
    sizes = Noise.of(of_sizes)
    square, n_rows = choose_limit(rows, sizes, cut, source, most)
    error = math.sqrt(_N_NORMS) * to_float(sizes.error)
    warn_of_few(n_rows, error)
    # In L1 norm, a row is at most as many times longer as the root of the number of
    # columns.
    means = Noise.of(of_mean, math.isqrt(rows.n_columns * square) + 1, square)
    sums = means.add_floats(source, rows.total(square))
    mean = np.rint(sums / max(n_rows, 3 * error, 1.0))
    middle = np.clip(mean, 1 - UNIT, UNIT - 1).astype(np.int16)
    rows = rows.center(middle)
    square, _ = choose_limit(rows, sizes, cut, source, most)
    return Bounded(rows, square, middle, n_rows, error, rest)


def choose_limit(
    rows: Rows, noise: Noise, cut: float, source: ByteSource, most: float = math.inf
) -> tuple[int, float]:
    """Choose the smallest limit of the norm that few rows exceed, from noisy counts; also count all rows."""
    # A row is counted in one of the numbers, so adding or removing it changes one
    # number by 1.
    limits = [int(rows.square * 2 ** (-step / 3)) for step in reversed(range(_N_NORMS))]
    counts = noise.add(source, rows.counts(limits).tolist())
    n_rows = to_float(max(sum(counts), 0))
    n_longer = sum(counts) - np.cumsum(np.array(counts, object))
    return limits[int(np.argmax(n_longer <= min(cut * n_rows, most)))], n_rows


def largest_moments(square: int, largest: int) -> int:
    """Return the square of the largest norm of the products of all pairs of values of a row, each counted once."""
    # Half the sum of the fourth power of the norm, of which the square is given, and of
    # the fourth powers of the values.
    return (square * (square + min(square, largest**2)) + 1) // 2
