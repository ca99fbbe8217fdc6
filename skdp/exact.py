"""Proven bounds of exp and log as exact fractions.

Internal: import nothing from here outside of skdp.
"""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from functools import lru_cache


@lru_cache(maxsize=128)
def exp_bounds(
    exponent: Fraction | float, *, precision: int = 320
) -> tuple[Fraction, Fraction]:
    """Return a lower and an upper bound of ``e**exponent``, for an exponent of at least 0.

    With 320 fractional bits, the bounds of e^700 agree in their first 290 bits.
    """
    # Cached, because every fit of an estimator needs the bounds of the same epsilon.
    lower, upper = _fixed_point_exp(Fraction(exponent), precision)
    return Fraction(lower, 1 << precision), Fraction(upper, 1 << precision)


def exp_minus_bounds(exponent: Fraction, bits: int) -> tuple[int, int]:
    """Return integers below and above ``2**bits * e**-exponent``, for an exponent of at least 0.

    The integers differ by at most a few units, so `bits` is the precision of the
    bounds.
    """
    if exponent == 0:
        return 1 << bits, 1 << bits
    if exponent > bits:
        return 0, 1  # e**-bits < 2**-bits
    # Each of about log2(exponent) squarings doubles the relative error of some dozen
    # units of 2**-precision.
    precision = bits + 16 + bits.bit_length()
    lower, upper = _fixed_point_exp(exponent, precision)
    # e**-x is 1 / e**x, rounded outward.
    scale = 1 << bits + precision
    return scale // upper, -(-scale // lower)


def _fixed_point_exp(exponent: Fraction, precision: int) -> tuple[int, int]:
    """Return integers below and above ``2**precision * e**exponent``, for an exponent of at least 0."""
    # e**x = (e**(x / 2**h))**(2**h). The exponent is halved h times until it is below
    # 1/2, the Taylor series of e**x is summed in fixed point, and the sum is squared h
    # times. Lower bounds round down, upper bounds round up.
    if exponent < 0:
        raise ValueError("`exponent` must be at least 0, got a negative exponent.")
    halvings = max(0, math.ceil(exponent).bit_length() + 1)
    scale = 1 << precision
    low_x = (exponent.numerator << precision) // (exponent.denominator << halvings)
    high_x = low_x + 1
    lower = upper = low_term = high_term = scale
    index = 1
    while high_term > 1:
        low_term = (low_term * low_x >> precision) // index
        high_term = (high_term * high_x >> precision) // index + 1
        lower += low_term
        upper += high_term
        index += 1
    # The exponent is below 1/2, so each remaining term is less than half of the term
    # before, and their sum is below the last term, 1 unit.
    upper += 1
    for _ in range(halvings):
        lower = lower * lower >> precision
        upper = (upper * upper >> precision) + 1
    return lower, upper


@lru_cache(maxsize=128)
def log_upper(ratio: Fraction) -> float:
    """Return the smallest float that is proven to be at least log(ratio), for a ratio of at least 1."""
    # A float x is an upper bound of log(ratio) if the lower bound of e**x is at least
    # the ratio. The search starts from the rounded logarithm.
    if ratio < 1:
        raise ValueError("`ratio` must be at least 1, got a smaller ratio.")
    excess = ratio - 1
    if excess < Fraction(1, 2**200):
        # log(1 + x) <= x; for such an x, `exp_bounds` has too few bits.
        return round_up(excess)
    if ratio < 2:
        estimate = math.log1p(float(excess))
    elif ratio < 2**1000:
        estimate = math.log(float(ratio))
    else:
        estimate = math.log(ratio.numerator) - math.log(ratio.denominator)
    while exp_bounds(estimate)[0] >= ratio:
        estimate = math.nextafter(estimate, 0.0)
    while exp_bounds(estimate)[0] < ratio:
        estimate = math.nextafter(estimate, math.inf)
    return estimate


def round_up(value: Fraction) -> float:
    """Round a fraction up to a float; return infinity above the largest float."""
    try:
        nearest = float(value)
    except OverflowError:
        return math.inf if value > 0 else -sys.float_info.max
    return nearest if nearest >= value else math.nextafter(nearest, math.inf)
