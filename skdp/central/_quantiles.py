"""Quantiles of columns, by private choices among public candidates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from skdp.base import parse_bounds
from skdp.central._sums import read_values, warn_of_objects
from skdp.central.statistics import Batches
from skdp.domain import cut_evenly
from skdp.privacy import Loss, PrivacyBudget, exponential_loss
from skdp.randomness import ByteSource, unimodal_choice
from skdp.tables import Table

Floats = NDArray[np.float64]

# Number of parts of a cell, and of each value in it: values are separated as if they
# were evenly distributed in their cell. It must exceed the largest count of a cell, and
# the time does not depend on it.
PARTS = 1 << 32


def read_probability(value: Any, name: str) -> Fraction:
    """Check the probability of a quantile, and round it to a fraction."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise TypeError(
            f"{name} must be a number between 0 and 1, got {type(value).__name__}"
        )
    number = float(value)
    exact = Fraction(0)
    if 0 < number < 1:
        exact = Fraction(number).limit_denominator(1_000_000)
    if not 0 < exact < 1:
        raise ValueError(f"{name} must be between 1e-6 and 1 - 1e-6, got {value}")
    return exact


def plan_quantiles(
    rows: Batches, bounds: Any, probabilities: Sequence[Fraction], share: PrivacyBudget
) -> QuantilePlan:
    """Count the values of each column by its candidates."""
    # Candidates do not depend on the table, whose dtypes depend on its values: pandas
    # makes floats of integers where one is missing.
    bounds = parse_bounds(bounds, rows.names)
    warn_of_objects(rows.table)
    candidates = [_make_candidates(low, high) for low, high in bounds.tolist()]
    cells = rows.add_up(partial(_count_columns, candidates=candidates))
    return QuantilePlan(cells, candidates, probabilities, share)


def _make_candidates(low: float, high: float) -> Floats:
    """Return even steps between two bounds, with all whole numbers if the bounds are whole."""
    width = high - low
    n_steps = 10_000
    if low.is_integer() and high.is_integer() and width <= 100_000:
        n_steps = max(n_steps - n_steps % int(width), int(width))
    return cut_evenly(low, high, n_steps)


def _count_columns(
    table: Table, *, candidates: Sequence[Floats]
) -> list[NDArray[np.int64]]:
    return list(map(count_cells, read_values(table), candidates))


def count_cells(column: Floats, candidates: Floats) -> NDArray[np.int64]:
    """Count the values that equal a candidate, or are between two: each value is in one of these cells."""
    values = np.clip(column[~np.isnan(column)], candidates[0], candidates[-1])
    values.sort()
    below = np.searchsorted(values, candidates, "left")
    up_to = np.searchsorted(values, candidates, "right")
    cells = np.empty(2 * below.size - 1, np.int64)
    cells[::2], cells[1::2] = up_to - below, below[1:] - up_to[:-1]
    return cells


@dataclass(frozen=True, eq=False)
class QuantilePlan:
    """A planned release of quantiles."""

    # The counts of `count_cells` of each column.
    cells: Sequence[NDArray[np.int64]]
    candidates: Sequence[Floats]
    # Ascending.
    probabilities: Sequence[Fraction]
    share: PrivacyBudget

    mechanism: ClassVar[str] = "exponential mechanism"

    def draw(self, source: ByteSource) -> Floats:
        """Draw the quantiles of each column, each with an equal part of the budget: (n_columns, n_quantiles)."""
        share = self.share / len(self.cells)
        quantiles = np.empty((len(self.cells), len(self.probabilities)))
        for row, cells, values in zip(
            quantiles, self.cells, self.candidates, strict=True
        ):
            cuts = choose_cuts(cells, self.probabilities, share, source)
            row[:] = values[list(map(nearest_candidate, cuts))]
        return quantiles

    def draw_with_bounds(self, source: ByteSource) -> Floats:
        """Draw the quantiles, between the two bounds of each column."""
        lows = [values[0] for values in self.candidates]
        highs = [values[-1] for values in self.candidates]
        return np.column_stack([lows, self.draw(source), highs])

    @property
    def losses(self) -> tuple[Loss, ...]:
        """The losses of all choices; empty for rho or mu, where the loss of a choice is less than its epsilon."""
        if self.share.kind != "epsilon":
            return ()
        n_levels = count_levels(self.probabilities) * len(self.cells)
        loss = exponential_loss((self.share / n_levels).amount)
        return (replace(loss, count=n_levels),)


def count_levels(probabilities: Sequence[Fraction]) -> int:
    """Return the number of levels of the recursion for some quantiles."""
    return len(probabilities).bit_length()


def choose_cuts(
    counts: NDArray[np.int64],
    probabilities: Sequence[Fraction],
    share: PrivacyBudget,
    source: ByteSource,
) -> list[int]:
    """Choose the quantiles of ascending probabilities, each as a cut of the cells with these counts."""
    # The middle quantile is chosen among all cuts. The quantiles below it are then
    # quantiles of the values on its left, and those above of the values on its right,
    # and are found in the same way (H. Kaplan, S. Schnapp, U. Stemmer, 2022.
    # Differentially private approximate quantiles. ICML).
    # The sets of values that are cut on one level of this recursion are disjoint. Parts
    # of one row may be in several sets, together at most the whole row, and a part w
    # changes the scores of its set by w times their sensitivity. So all choices of a
    # level are one exponential mechanism for one fraction of the budget: its candidates
    # are tuples of cuts, and the score of a tuple is the sum of the scores of its cuts,
    # each over its sensitivity. Levels compose adaptively, with an equal fraction each.
    masses = Masses(np.append(0, np.cumsum(counts)))
    share /= count_levels(probabilities)
    ranks = [Fraction(0), *probabilities, Fraction(1)]
    cuts = [0] * len(ranks)
    cuts[-1] = masses.last_cut
    intervals = [(0, len(ranks) - 1)]
    while intervals:
        low, high = intervals.pop()
        if high - low == 1:
            continue
        middle = (low + high) // 2
        portion = (ranks[middle] - ranks[low]) / (ranks[high] - ranks[low])
        cuts[middle] = CutScores(masses, cuts[low], cuts[high], portion).choose(
            share, source
        )
        intervals += [(middle, high), (low, middle)]
    return cuts[1:-1]


def nearest_candidate(cut: int) -> int:
    """Return the index of the candidate nearest to a cut of `count_cells`, where every second cell is a candidate."""
    # The cut ``c * PARTS`` is the left end of cell c, and candidate i is cell 2 i. A
    # cut between two candidates is rounded to the nearer one by numbers of values.
    return (cut + PARTS // 2) // (2 * PARTS)


@dataclass(frozen=True)
class Masses:
    """Counts of the values of a column by cell, and the cuts that divide the values in two."""

    # Cut c has c parts of cells on its left: ``c // PARTS`` whole cells and, of each
    # value of the next one, ``c % PARTS`` parts. The mass of values is in these parts,
    # too, and so an integer.

    # The number of values in the cells before each cell, and in all: (n_cells + 1,).
    n_before: NDArray[np.int64]

    @property
    def last_cut(self) -> int:
        """The cut with all cells on its left."""
        return (self.n_before.size - 1) * PARTS

    def of(self, cut: int) -> int:
        """Return the mass of the values on the left of a cut."""
        cell, part = divmod(cut, PARTS)
        n_before = int(self.n_before[cell])
        if part == 0:
            return PARTS * n_before
        n_in_cell = int(self.n_before[cell + 1]) - n_before
        return PARTS * n_before + part * n_in_cell

    def first_cut(self, mass: int) -> int:
        """Return the first cut with at least this mass on its left; if there is none, the number of cuts."""
        if mass <= 0:
            return 0
        n_values = -(-mass // PARTS)  # rounded up
        cell = int(np.searchsorted(self.n_before, n_values)) - 1
        if cell == self.n_before.size - 1:
            return self.last_cut + 1
        n_before, n_until = self.n_before[cell : cell + 2].tolist()
        missing_mass = mass - PARTS * n_before
        return cell * PARTS - (-missing_mass // (n_until - n_before))


@dataclass(frozen=True)
class CutScores:
    """Scores of the cuts between two cuts by their distance from a portion of the values."""

    # The score of a cut is minus the difference of the mass on its left to that
    # portion, times the denominator of the portion: an integer. It rises up to the best
    # cut, and then falls.

    masses: Masses
    low: int
    high: int
    portion: Fraction

    @cached_property
    def _target(self) -> int:
        start, stop = self.masses.of(self.low), self.masses.of(self.high)
        return self.portion.denominator * start + self.portion.numerator * (
            stop - start
        )

    def _miss(self, cut: int) -> int:
        return abs(self.portion.denominator * self.masses.of(cut) - self._target)

    def _first(self, excess: int) -> int:
        """Return the first cut whose mass exceeds the target by at least `excess`; ``high + 1`` if there is none."""
        mass = -(-(self._target + excess) // self.portion.denominator)  # rounded up
        if mass > self.masses.of(self.high):
            return self.high + 1
        return max(self.masses.first_cut(mass), self.low)

    @cached_property
    def _least_miss(self) -> int:
        nearest = min(self._first(0), self.high)
        return min(self._miss(nearest), self._miss(max(nearest - 1, self.low)))

    def within(self, gap: int) -> tuple[int, int]:
        """Return the range of the cuts, from `low` on, whose scores are at most this far below the best."""
        most = self._least_miss + gap
        return self._first(-most) - self.low, self._first(most + 1) - self.low

    def gap(self, index: int) -> int:
        """Return the difference of the best score and the score of a cut, counted from `low`."""
        return self._miss(self.low + index) - self._least_miss

    def between_cells(self) -> NDArray[Any]:
        """Return the scores of both limits and of the cuts between cells: inside a cell they change linearly."""
        inner = self.masses.n_before[self.low // PARTS + 1 : -(-self.high // PARTS)]
        limits = [self.masses.of(self.low), self.masses.of(self.high)]
        masses = np.array([*(PARTS * inner.astype(object)), *limits], object)
        scores: NDArray[Any] = -abs(self.portion.denominator * masses - self._target)
        return scores

    def choose(self, share: PrivacyBudget, source: ByteSource) -> int:
        """Choose a cut by the exponential mechanism."""
        # A value that is added changes the mass on the left, less the portion of all,
        # by minus the portion to 1 - portion.
        numerator, denominator = self.portion.numerator, self.portion.denominator
        sensitivity = PARTS * max(numerator, denominator - numerator)
        return self.low + unimodal_choice(
            source,
            self.high - self.low + 1,
            self.within,
            self.gap,
            share.choice / (2 * sensitivity * share.rows),
            self.between_cells,
        )
