"""Loss of shuffled reports in exact fractions, for all tables of other records, and attained losses."""

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import permutations

import numpy as np
from scipy import stats

from skdp.exact import exp_bounds
from skdp.privacy import ReportPair

Counts = dict[tuple[int, ...], int]


class AllTables:
    """Exact distributions of the histogram of n reports, for each n - 1 other records and each further value."""

    def __init__(self, channel: Sequence[Sequence[Fraction]], n: int) -> None:
        whole = math.lcm(*(share.denominator for row in channel for share in row))
        rows = [[int(share * whole) for share in row] for row in channel]
        self.n, self.total = n, whole**n
        tables: list[Counts] = []

        def grow(histogram: Counts, first: int, left: int) -> None:
            if left == 0:
                tables.append(histogram)
                return
            for index in range(first, len(rows)):
                grow(with_report(histogram, rows[index]), index, left - 1)

        grow({(0,) * len(rows[0]): 1}, 0, n - 1)
        self.pmfs = [[with_report(histogram, row) for row in rows] for histogram in tables]

    def delta(self, ratio: Fraction) -> Fraction:
        """Return the largest hockey-stick divergence of an order."""
        up, down = ratio.numerator, ratio.denominator
        worst = max(
            sum(max(down * mass - up * second.get(key, 0), 0) for key, mass in first.items())
            for pmfs in self.pmfs
            for first, second in permutations(pmfs, 2)
        )
        return Fraction(worst, down * self.total)

    def is_bounded(self, pair: ReportPair, epsilon: float) -> bool:
        """Return True if a pair's delta for an epsilon is at least the exact one."""
        return self.delta(exp_bounds(epsilon)[1]) <= Fraction(pair.delta(self.n, epsilon)) + Fraction(1, 10**60)


def with_report(histogram: Counts, row: Sequence[int]) -> Counts:
    """Add a report to the histogram."""
    wider: Counts = {}
    for counts, mass in histogram.items():
        for report, share in enumerate(row):
            if share:
                more = (*counts[:report], counts[report] + 1, *counts[report + 1 :])
                wider[more] = wider.get(more, 0) + mass * share
    return wider


def attained_delta(p: float, q: float, k: int, n: int, ratio: float) -> float:
    """Return a lower bound of delta for k-ary randomized response, k >= 3, if all other records have the same value.

    For a value z, it is ``E[(V_1 + ... + V_n)+] / n`` for reports y of z, with ``V = (P(y | x0) - t P(y | x1)) / P(y |
    z)``. Here z is a third value, x0, or x1. The sum is over the number c of reports other than z, and then over those
    of x0 or x1.
    """
    c = _likely(n, (k - 1) * q)
    mass = stats.binom.pmf(c, n, (k - 1) * q)
    # The other records have x0 or x1: a report of the other value is among c with probability 1 / (k - 1).
    same = (n - c) * (1 - ratio * q / p) + c * (1 - ratio)
    first = mass @ _mean_above(same, ratio * (1 - p / q), c, 1 / (k - 1))
    second = mass @ _mean_above((n - c) * (q / p - ratio) + c * (1 - ratio), p / q - 1, c, 1 / (k - 1))
    # A third value: u reports are x0 or x1. For large u, its own reports are included in the remainder.
    u = _likely(n, 2 * q)
    both = u * (1 - ratio * p / q), (1 + ratio) * (p / q - 1), u, 0.5
    if c.size * u.size > 1 << 18:
        left = (n - u) * (k - 2) * q * (1 - ratio) / (1 - 2 * q)
        third = stats.binom.pmf(u, n, 2 * q) @ _mean_above(left + both[0], *both[1:])
    else:
        left = ((n - c) * q / p + c)[:, np.newaxis] * (1 - ratio) - u * (1 - ratio)
        masses = mass[:, np.newaxis] * stats.binom.pmf(u, c[:, np.newaxis], 2 / (k - 1))
        third = (masses * _mean_above(left + both[0], *both[1:])).sum()
    return float(max(first, second, third)) / n


def _likely(n: int, share: float) -> np.ndarray:
    spread = 9 * math.sqrt(n * share * (1 - share)) + 30
    return np.arange(max(0, int(n * share - spread)), min(n, int(n * share + spread)) + 1)


def _mean_above(start: np.ndarray, slope: float, count: np.ndarray, share: float) -> np.ndarray:
    """Return ``E[(start + slope h)+]`` for binomial h."""
    if slope < 0:  # count the other reports
        start, slope, share = start + slope * count, -slope, 1 - share
    smallest = np.floor(-start / slope) + 1
    mean = count * share * stats.binom.sf(smallest - 2, np.maximum(count - 1, 0), share)
    return slope * mean + start * stats.binom.sf(smallest - 1, count, share)
