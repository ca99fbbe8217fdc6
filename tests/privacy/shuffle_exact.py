"""What shuffled reports reveal, in exact fractions for all tables of others, and what an attacker attains."""

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import permutations

from skdp.exact import exp_bounds
from skdp.privacy import ReportPair

Counts = dict[tuple[int, ...], int]


class AllTables:
    """The exact distributions of the histogram of n reports, for each table of n - 1 others and each further value.

    With `alike`, for each table of others who hold the same value.
    """

    def __init__(self, channel: Sequence[Sequence[Fraction]], n: int, *, alike: bool = False) -> None:
        whole = math.lcm(*(share.denominator for row in channel for share in row))
        rows = [[int(share * whole) for share in row] for row in channel]
        self.n, self.total = n, whole**n
        tables: list[Counts] = []

        def grow(law: Counts, first: int, left: int) -> None:
            if left == 0:
                tables.append(law)
                return
            for place in range(first, first + 1 if alike and left < n - 1 else len(rows)):
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
