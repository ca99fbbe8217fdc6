"""A few quantiles of a column at once, by recursive halving: values are cut in two, and each part again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from skdp.privacy import Share
from skdp.randomness import ByteSource, unimodal_choice

PARTS = 1 << 32
"""The parts of a cell, and of each value in it."""

_AUDITED = 500
"""About how many scores an audit is shown."""


@dataclass(frozen=True)
class Cuts:
    """The values of a column by cell, and the places where they can be cut in two."""

    # Equal values are taken to lie evenly in their cell. Cut c has c parts of cells on its left: ``c // PARTS`` whole
    # cells and, of each value of the next one, ``c % PARTS`` parts. The mass of values is in these parts, too, and so
    # an integer.

    before: NDArray[np.int64]
    """The number of values in the cells before each cell, and in all."""

    @property
    def last(self) -> int:
        """The cut with all cells on its left."""
        return (self.before.size - 1) * PARTS

    def mass(self, cut: int) -> int:
        """Return the mass of the values on the left of a cut."""
        place, part = divmod(cut, PARTS)
        here = int(self.before[place])
        return PARTS * here + (
            part * (int(self.before[place + 1]) - here) if part else 0
        )

    def first(self, mass: int) -> int:
        """Return the first cut with at least this mass on its left; if there is none, the number of cuts."""
        if mass <= 0:
            return 0
        place = int(np.searchsorted(self.before, -(-mass // PARTS))) - 1
        if place == self.before.size - 1:
            return self.last + 1
        here, until = self.before[place : place + 2].tolist()
        return place * PARTS - (PARTS * here - mass) // (until - here)


def n_halvings(probabilities: Sequence[Fraction]) -> int:
    """Return the number of levels of the recursion for some quantiles."""
    return len(probabilities).bit_length()


def cut_positions(
    counts: NDArray[np.int64],
    probabilities: Sequence[Fraction],
    share: Share,
    source: ByteSource,
) -> list[int]:
    """Choose where the quantiles of ascending probabilities are: each as a number of half cells on its left."""
    # The middle one is chosen among all cuts. Those below it are then quantiles of the values on its left, and those
    # above of the values on its right, in the same way ([1]_).
    # The values of a level of this recursion are in disjoint sets. Of a row, a fraction may be in each of several sets:
    # together at most 1. A fraction w changes the scores of a set by w times their sensitivity. So all choices of a
    # level are one exponential mechanism for one share of the budget: its candidates are tuples, a cut for each set,
    # and the score of a tuple is the sum of the scores of its cuts, each over its sensitivity. Levels compose
    # adaptively, with an equal share each.
    # .. [1] H. Kaplan, S. Schnapp, U. Stemmer (2022). Differentially private approximate quantiles. ICML.
    cuts = Cuts(np.append(0, np.cumsum(counts)))
    share /= n_halvings(probabilities)
    ranks = [Fraction(0), *probabilities, Fraction(1)]
    found = [0] * len(probabilities) + [0, cuts.last]

    def halve(low: int, high: int) -> None:
        if high - low > 1:
            middle = (low + high) // 2
            portion = (ranks[middle] - ranks[low]) / (ranks[high] - ranks[low])
            found[middle] = _cut(cuts, found[low], found[high], portion, share, source)
            halve(low, middle)
            halve(middle, high)

    halve(0, len(ranks) - 1)
    return [2 * cut // PARTS for cut in found[1:-1]]


def _cut(
    cuts: Cuts, low: int, high: int, portion: Fraction, share: Share, source: ByteSource
) -> int:
    """Choose the cut that has a portion of the values between two others on its left."""
    # The score of a cut is minus how far the mass on its left is from that portion, times the denominator. A value that
    # is added changes the mass on the left less the portion of all by minus the portion to 1 - portion.
    start, stop = cuts.mass(low), cuts.mass(high)
    wanted = portion.denominator * start + portion.numerator * (stop - start)

    def first(excess: int) -> int:
        """Return the first cut with this excess over what is wanted."""
        mass = -(-(wanted + excess) // portion.denominator)
        return min(max(cuts.first(min(mass, stop + 1)), low), high + 1)

    def missed(cut: int) -> int:
        return abs(portion.denominator * cuts.mass(cut) - wanted)

    nearest = min(first(0), high)
    best = min(missed(nearest), missed(max(nearest - 1, low)))
    sensitivity = PARTS * max(
        portion.numerator, portion.denominator - portion.numerator
    )

    def audited() -> list[int]:
        """Return the scores of some cuts: both ends, and between cells, in which they change linearly."""
        step = max((high - low) // (PARTS * _AUDITED), 1) * PARTS
        return [
            -missed(cut)
            for cut in (low, *range(low - low % PARTS + PARTS, high, step), high)
        ]

    return low + unimodal_choice(
        source,
        high - low + 1,
        lambda gap: (first(-best - gap) - low, first(best + gap + 1) - low),
        lambda index: missed(low + index) - best,
        share.choice / (2 * sensitivity * share.rows),
        audited,
    )
