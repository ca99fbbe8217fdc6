"""Proven bounds of the tail of the normal distribution, to any precision."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from skdp.exact import exp_bounds

_GUARD = 48


def mills_ratio_bounds(x: Fraction, bits: int) -> tuple[int, int]:
    """Return integer bounds of ``2**bits * Phi(-x) / phi(x)``, Mills' ratio of the standard normal distribution."""
    # Near 0, it is ``e**(x**2 / 2) * sqrt(2 * pi) / 2`` less the series x + x^3/3 + x^5/(3 * 5) + ... ([1]_, 26.2.11).
    # For large x, it is the continued fraction 1/(x + 1/(x + 2/(x + 3/(x + ...)))) ([1]_, 26.2.14): the integrals J_n
    # of ``t**n / n! * e**(-x * t - t**2 / 2)`` over t > 0 satisfy J_(n-1) / J_n = x + (n + 1) / (J_n / J_(n+1)), so
    # each of its tails is above x. Computed in integers, rounded outwards.
    # .. [1] M. Abramowitz, I. A. Stegun (1964). Handbook of mathematical functions. Chapter 26, M. Zelen, N. C. Severo.
    if x < 4 or 8 * x * x < bits:  # beyond, the continued fraction is shorter than the series
        guard = _GUARD + math.ceil(x * x)  # the series is subtracted from a number of nearly its size
        lower, upper = _by_series(x, bits + guard)
    else:
        guard = _GUARD
        lower, upper = _by_continued_fraction(x, bits + guard)
    return lower >> guard, -(-upper >> guard)


@lru_cache
def root_two_pi_bounds(bits: int) -> tuple[int, int]:
    """Return integer bounds of ``2**bits * sqrt(2 * pi)``, by Machin's formula for pi."""
    precision = 2 * bits + _GUARD
    pi = 16 * _arctan_of_inverse(5, precision) - 4 * _arctan_of_inverse(239, precision)
    error = 20 * precision  # fewer terms than bits, each rounded by less than 1
    return math.isqrt(2 * (pi - error) >> _GUARD), math.isqrt(2 * (pi + error) >> _GUARD) + 1


def _arctan_of_inverse(number: int, precision: int) -> int:
    """Return ``2**precision * arctan(1 / number)`` with an error of at most one unit per term."""
    power = (1 << precision) // number
    total, odd = 0, 1
    while power:
        total += power // odd if odd & 2 == 0 else -(power // odd)
        power //= number**2
        odd += 2
    return total


def _by_series(x: Fraction, bits: int) -> tuple[int, int]:
    """Bound Mills' ratio as half of the mass minus the mass between 0 and x, over the density."""
    root_low, root_high = root_two_pi_bounds(bits)
    power_low, power_high = exp_bounds(x * x / 2, precision=bits)
    half_low, half_high = math.floor(power_low * root_low / 2), math.ceil(power_high * root_high / 2)
    low_sum, high_sum = _odd_series(abs(x), bits)
    if x < 0:
        return half_low + low_sum, half_high + high_sum
    return half_low - high_sum, half_high - low_sum


def _odd_series(x: Fraction, bits: int) -> tuple[int, int]:
    """Bound ``2**bits`` times the sum of x^n / (1 * 3 * ... * n) over all odd n."""
    low_term = math.floor(x * (1 << bits))
    high_term = low_term + 1
    low_square, high_square = low_term**2 >> bits, (high_term**2 >> bits) + 1
    low_sum, high_sum, odd = low_term, high_term, 1
    while high_term > 1 or odd < 2 * x * x:
        odd += 2
        low_term = low_term * low_square // (odd << bits)
        high_term = high_term * high_square // (odd << bits) + 1
        low_sum += low_term
        high_sum += high_term
    return low_sum, high_sum + 1  # each later term is less than half of the previous one


def _by_continued_fraction(x: Fraction, bits: int) -> tuple[int, int]:
    """Bound Mills' ratio by a continued fraction, doubling its depth until the bounds are close."""
    low, high = math.floor(x * (1 << bits)), math.ceil(x * (1 << bits))
    one = 1 << 2 * bits
    depth = 8 + bits**2 // (16 * math.floor(x) ** 2)
    while True:
        bottom, top = low, high + depth * one // low + 1
        for numerator in range(depth - 1, 0, -1):
            bottom, top = low + numerator * one // top, high + numerator * one // bottom + 1
        lower, upper = one // top, one // bottom + 1
        if upper - lower < 1 << _GUARD // 2:
            return lower, upper
        depth *= 2
