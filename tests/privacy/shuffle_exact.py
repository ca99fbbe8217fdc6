"""What shuffled reports reveal, in exact fractions for all tables of others, and what an attacker attains."""

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
    """The exact distributions of the histogram of n reports, for each table of n - 1 others and each further value."""

    def __init__(self, channel: Sequence[Sequence[Fraction]], n: int) -> None:
        whole = math.lcm(*(share.denominator for row in channel for share in row))
        rows = [[int(share * whole) for share in row] for row in channel]
        self.n, self.total = n, whole**n
        tables: list[Counts] = []

        def grow(law: Counts, first: int, left: int) -> None:
            if left == 0:
                tables.append(law)
                return
            for place in range(first, len(rows)):
                grow(with_report(law, rows[place]), place, left - 1)

        grow({(0,) * len(rows[0]): 1}, 0, n - 1)
        self.laws = [[with_report(law, row) for row in rows] for law in tables]

    def delta(self, ratio: Fraction) -> Fraction:
        """Return the largest hockey-stick divergence of an order."""
        up, down = ratio.numerator, ratio.denominator
        worst = max(
            sum(max(down * mass - up * second.get(key, 0), 0) for key, mass in first.items())
            for laws in self.laws
            for first, second in permutations(laws, 2)
        )
        return Fraction(worst, down * self.total)

    def is_bounded(self, pair: ReportPair, epsilon: float) -> bool:
        """Return whether a pair's delta for an epsilon is at least the exact one."""
        return self.delta(exp_bounds(epsilon)[1]) <= Fraction(pair.delta(self.n, epsilon)) + Fraction(1, 10**60)


def with_report(law: Counts, row: Sequence[int]) -> Counts:
    """Add a report to the histogram."""
    wider: Counts = {}
    for counts, mass in law.items():
        for report, share in enumerate(row):
            if share:
                more = (*counts[:report], counts[report] + 1, *counts[report + 1 :])
                wider[more] = wider.get(more, 0) + mass * share
    return wider


def attained_delta(p: float, q: float, k: int, n: int, ratio: float) -> float:
    """Return a lower bound of delta for k-ary randomised response, k >= 3, if all others hold a third value.

    Of the reports only those of the two values are distinguished. With ``V = (P(y | x0) - t P(y | x1)) / P(y | third)``
    for a report y of the third value, it is ``E[(V_1 + ... + V_n)+] / n``, here summed over the number c of reports of
    the two values, with binomial tails.
    """
    rest, share = (k - 2) * q, 2 * q
    spread = 9 * math.sqrt(n * share * (1 - share)) + 30
    c = np.arange(max(0, int(n * share - spread)), min(n, int(n * share + spread)) + 1)
    gain, loss = (p / q - ratio), (1 - ratio * p / q)
    drift = (n - c) * rest * (1 - ratio) / (1 - share)
    least = np.floor(-(c * loss + drift) / (gain - loss)) + 1  # of the first value: h gain + (c - h) loss + drift > 0
    tail = stats.binom.sf(least - 1, c, 0.5)
    mean = np.where(c > 0, c / 2 * stats.binom.sf(least - 2, np.maximum(c - 1, 0), 0.5), 0)
    total = (gain - loss) * mean + (c * loss + drift) * tail
    return float((stats.binom.pmf(c, n, share) * np.maximum(total, 0)).sum() / n)
