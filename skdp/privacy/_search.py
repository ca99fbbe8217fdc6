"""Search for the last number that a proven bound still allows."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

from scipy.optimize import brentq

# How far a bound is above what is wanted, at a number: at most 0 where this is proven.
Excess = Callable[[float], float]


def proven_edge(
    excess: Excess, precision: float, *, safe: float, unsafe: float
) -> float:
    """Return the number next to `unsafe`, about, that has no excess, or `safe`."""
    # What is returned has no excess by its own check, or is `safe`, which needs none:
    # the search need not be exact, nor the excess monotone.
    excess = cache(excess)
    if safe == unsafe or excess(unsafe) <= 0:
        return unsafe
    if excess(safe) >= 0:
        return safe
    ends = sorted([safe, unsafe])
    least = math.ulp(0.0)
    edge = float(brentq(excess, *ends, xtol=least, rtol=precision, disp=False))
    step = 0.0
    while abs(safe - edge) > step * edge:
        nearby = edge + math.copysign(step * edge, safe - edge)
        if excess(nearby) <= 0:
            return nearby
        step = max(2 * step, precision)
    return safe


def proven_start(excess: Excess, start: float, step: float) -> float:
    """Return a number without excess, a few steps from one that has none but for rounding."""
    # A step is a part of the number, and negative toward 0.
    while excess(start) > 0:
        start *= 1 + step
        step *= 2
    return start
