"""How the columns of a report are shuffled: together, each by itself, or one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from skdp.privacy.shuffle import Released, ReportPair


def shuffled_parts(pairs: Sequence[ReportPair], strategy: str, released: Released) -> tuple[ReportPair, ...]:
    """Return the pair of each part of a report that is shuffled by itself, from those of the attributes."""
    # One pair stands for all pairs of records: that of the attributes, whose values differ in each. With the ratios
    # (a, b) = (P(y | x0) / m(y), P(y | x1) / m(y)) of one attribute and (A, B) of the others, convex f and t > 0, the
    # function f(A a - t B b) is convex and has decreasing differences in (a, b). So its mean over (u, v) and (v, u) is
    # at least that over (u, u) and (v, v), as where the values agree, and that over any (u', v') and (v', u') between.
    if strategy == "sample":
        return (ReportPair.mixed((Fraction(1, len(pairs)), pair) for pair in pairs),)
    return tuple(pairs) if released == "tally" else (ReportPair.product(pairs),)


def drawn_parts(pair: ReportPair, size: int) -> tuple[ReportPair, ...]:
    """Return the pair of a report of some columns that are drawn at random and named, from that of each column."""
    # The chance of a set of columns cancels in all ratios, so the classes of all sets are those of one. But there are
    # two reports for each column: others who agree with x0 in one column and with x1 in another one are not between.
    return (replace(ReportPair.product([pair] * size), two_valued=False),)
