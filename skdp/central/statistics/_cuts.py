"""A few quantiles of a column at once: its values are cut in two, and each part is again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from skdp.privacy import Share
from skdp.randomness import ByteSource, unimodal_choice

PARTS = 1 << 32
"""The parts of a cell and of the values in it."""

_AUDITED = 500


@dataclass(frozen=True)
class Cuts:
    """The places where values can be cut in two: cut c has c parts of the cells on its left."""

    # Values that are equal lie evenly in their cell: with c = place * PARTS + part, so many parts of each of them are
    # on the left. All numbers of values here are in these parts, so they are whole.

    before: NDArray[np.int64]
    """The number of values in the cells before each of them, and of all."""

    @property
    def last(self) -> int:
        return (self.before.size - 1) * PARTS

    def mass(self, cut: int) -> int:
        """Return the number of parts of values on the left of a cut."""
        place, part = divmod(cut, PARTS)
        here = int(self.before[place])
        return PARTS * here + (part * (int(self.before[place + 1]) - here) if part else 0)

    def first(self, mass: int) -> int:
        """Return the first cut with at least this mass on its left; if there is none, the number of cuts."""
        if mass <= 0:
            return 0
        place = int(np.searchsorted(self.before, -(-mass // PARTS))) - 1
        if place == self.before.size - 1:
            return self.last + 1
        here, until = self.before[place : place + 2].tolist()
        return place * PARTS - (PARTS * here - mass) // (until - here)


def cut_positions(
    counts: NDArray[np.int64], probabilities: Sequence[Fraction], share: Share, source: ByteSource
) -> list[int]:
    """Choose the cells that hold the quantiles of ascending probabilities, with a half of them: in half cells."""
    # The middle one is chosen among all cuts; those below it are then quantiles of what is on its left, and those above
    # of what is on its right ([1]_). Each level of this recursion gets an equal share, since no part of a row is in two
    # of its sets: with the fraction w of a row in a set, its scores change by w times their sensitivity. So all choices
    # of a level together are one exponential mechanism, whose candidates are the tuples of their candidates, and whose
    # scores are the sums of theirs, each over its sensitivity: a row changes one of them less another by no more than
    # in a single set. The levels compose adaptively.
    # .. [1] H. Kaplan, S. Schnapp, U. Stemmer (2022). Differentially private approximate quantiles. ICML.
    cuts = Cuts(np.append(0, np.cumsum(counts)))
    share /= len(probabilities).bit_length()
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


def _cut(cuts: Cuts, low: int, high: int, portion: Fraction, share: Share, source: ByteSource) -> int:
    """Choose the cut between two others that has a portion of what is between them on its left."""
    # The score is minus the distance from the portion, times its denominator: a value that is added moves what is on
    # the left, less the portion, by 1 - portion or by minus the portion.
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
    sensitivity = PARTS * max(portion.numerator, portion.denominator - portion.numerator)

    def audited() -> list[int]:
        """Return the scores of some cuts: both ends, and between cells, in which they change linearly."""
        step = max((high - low) // (PARTS * _AUDITED), 1) * PARTS
        return [-missed(cut) for cut in (low, *range(low - low % PARTS + PARTS, high, step), high)]

    return low + unimodal_choice(
        source,
        high - low + 1,
        lambda gap: (first(-best - gap) - low, first(best + gap + 1) - low),
        lambda index: missed(low + index) - best,
        share.choice / (2 * sensitivity * share.rows),
        audited,
    )
