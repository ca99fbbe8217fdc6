"""How the columns of a report are shuffled: together, each by itself, or one of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
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
    if released == "tally":
        return tuple(pairs)
    joint = ReportPair.product(pairs)
    if joint is None:  # too many classes: what holds for any randomiser
        worst = math.prod((pair.worst_ratio for pair in pairs), start=Fraction(1))
        joint = ReportPair.of_any(worst)
    return (joint,)
