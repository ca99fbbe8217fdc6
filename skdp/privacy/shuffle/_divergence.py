"""A proven upper bound of delta after shuffling, for an epsilon, from the classes of two values' reports.

The bound ([1]_, lemma 5.3). Let the report of value x be y with probability P(y | x), and let m be a blanket: m(y) <=
P(y | x) for every x. Each of the n - 1 other records, whatever its value, reports y from the blanket with probability
m(y), and otherwise something else, which is revealed together with the fact that it is not from the blanket. What is
left is the unordered set of the own report and those from the blanket. For a record of value x, and k - 1 others from
the blanket w = m / gamma, gamma = sum m, an ordered list of reports y_1, ..., y_k in which the own one is at a random
place has the probability ``prod w(y_i) * (1 / k) sum_i P(y_i | x) / w(y_i)``. With ``V = (P(y | x0) - t P(y | x1)) /
m(y)`` with probability m(y), and V = 0 otherwise, the hockey-stick divergence of order t is thus, averaged over k,
``delta(t) = E[(V_1 + ... + V_n)+] / n``, V_i independent: the factor 1 / k turns n trials into n - 1.

The numbers. ``S -> S+`` is convex and increasing. So a V_i, or a sum of some of them, may be replaced by a random
number of the same conditional mean, or by a larger one: delta can only grow. Values are put on a lattice by splitting
each among its two neighbours so that the mean stays; sums are formed by doubling (the law of 2 k trials is that of k
trials convolved with itself), and the lattice is made twice as coarse, by the same splitting, when there are too many
points. Masses are non-negative, so floats have small relative errors only; these are bounded below. Tails: points far
below are raised to the lowest one kept, points far above count with the largest sum possible.

.. [1] B. Balle, J. Bell, A. Gascón, K. Nissim (2019). The privacy blanket of the shuffle model. CRYPTO.
   arXiv:1903.02837
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from skdp.exact import round_up
from skdp.privacy.shuffle._pair import ReportPair

MOST_RECORDS = 1 << 30
"""More records are counted as this number: fewer hide less."""

_TAIL = 2.0**-120
"""The mass at either end of a distribution that is cut off."""

_UNDERFLOW = 2.0**-700
"""Bound of what all products that underflow add."""


def delta_above(pair: ReportPair, n: int, ratio: Fraction, *, points: int) -> float:
    """Return an upper bound of the hockey-stick divergence of order `ratio` of n shuffled reports."""
    n = min(n, MOST_RECORDS)
    values = [((first - ratio * second) / mass, mass) for first, second, mass in pair.classes]
    largest = max(value for value, _ in values)
    if largest <= 0:
        return 0.0
    rest = 1 - sum((mass for _, mass in values), Fraction(0))
    if rest:
        values.append((Fraction(0), rest))
    spread = max(value for value, _ in values) - min(value for value, _ in values)
    step = Fraction(2) ** math.ceil(math.log2(spread / points))
    total = _Lattice.of(values, step)
    for bit in format(n, "b")[1:]:
        total = total.plus(total).trimmed().coarser(points)
        if bit == "1":
            total = total.plus(_Lattice.of(values, total.step)).coarser(points)
    # The relative errors of the masses of 2 k trials are twice those of k trials, and that of a sum of `size` products.
    # So for n trials they are below 2 n times the largest of the latter, which is below 2 (points + 4) 2**-53.
    margin = n * (points + 4) * 2.0**-50
    places = np.arange(total.first, total.first + total.masses.size)
    above = places > 0
    mean = float(places[above] @ total.masses[above]) * float(total.step) / n
    beyond = total.beyond * float(total.top * total.step) / n
    return (mean + beyond) * (1 + margin) + _UNDERFLOW


@dataclass(frozen=True)
class _Lattice:
    """A distribution on multiples of a step, with a mass beyond them that is at most at `top` of these."""

    step: Fraction
    first: int
    masses: NDArray[np.float64]
    top: int
    beyond: float = 0.0

    @classmethod
    def of(cls, values: list[tuple[Fraction, Fraction]], step: Fraction) -> _Lattice:
        """Split each value among its two neighbours so that the mean stays."""
        split: dict[int, Fraction] = {}
        for value, mass in values:
            place = math.floor(value / step)
            upper = value / step - place
            split[place] = split.get(place, Fraction(0)) + mass * (1 - upper)
            split[place + 1] = split.get(place + 1, Fraction(0)) + mass * upper
        first, last = min(split), max(split)
        masses = np.zeros(last - first + 1)
        for place, mass in split.items():
            masses[place - first] = round_up(mass)
        return cls(step, first, masses, last)

    def plus(self, other: _Lattice) -> _Lattice:
        """Return the distribution of the sum of two independent numbers on lattices of the same step."""
        masses = np.convolve(self.masses, other.masses)
        beyond = self.beyond + other.beyond
        return _Lattice(self.step, self.first + other.first, masses, self.top + other.top, beyond)

    def trimmed(self) -> _Lattice:
        """Cut the tails: the lower one is raised to the lowest point kept, the upper one goes beyond."""
        low = int(np.searchsorted(np.cumsum(self.masses), _TAIL))
        high = self.masses.size - int(np.searchsorted(np.cumsum(self.masses[::-1]), _TAIL))
        masses = self.masses[low:high].copy()
        masses[0] += self.masses[:low].sum()
        beyond = self.beyond + float(self.masses[high:].sum())
        return _Lattice(self.step, self.first + low, masses, self.top, beyond)

    def coarser(self, points: int) -> _Lattice:
        """Double the step, halving the masses between two points among these, until there are few points."""
        lattice = self
        while lattice.masses.size > points:
            lattice = lattice._halved()
        return lattice

    def _halved(self) -> _Lattice:
        start, masses = self.first, self.masses
        if start % 2:
            start, masses = start - 1, np.concatenate([[0.0], masses])
        if masses.size % 2 == 0:
            masses = np.concatenate([masses, [0.0]])
        halved = masses[::2].copy()
        halved[:-1] += masses[1::2] / 2
        halved[1:] += masses[1::2] / 2
        return _Lattice(2 * self.step, start // 2, halved, -(-self.top // 2), self.beyond)
