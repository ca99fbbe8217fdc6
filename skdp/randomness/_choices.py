"""Many exact choices by the exponential mechanism at once, among pieces of candidates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial

import numpy as np

from skdp._arrays import Floats, Integers, Mask
from skdp.exact import exp_minus_bounds
from skdp.randomness._draws import uniform_below, watch_draws
from skdp.randomness._noise import (
    MAX_EXPONENT,
    ProbabilityBounds,
    bernoulli_of_exponents,
)
from skdp.randomness._sources import ByteSource

# Candidates, the differences of their scores from a constant of the choice, and the numbers of
# candidates of their pieces.
Proposals = tuple[Sequence[int], Sequence[int], Sequence[int]]


def piecewise_choices(
    source: ByteSource,
    bounds: Floats,
    draw: Callable[[Integers, Integers], Proposals],
    rates: Sequence[Fraction],
) -> list[int]:
    """Make independent choices, each of a candidate with probability exactly proportional to ``e**(-rate * gap)``.

    The candidates of a choice are divided into pieces. A piece is proposed with a probability proportional to an
    integer W that is at least a bound of the sum of its weights, and one of its n candidates is drawn uniformly. It
    is accepted with the probability ``n * e**(-rate * gap) / (W * unit)``, until one is accepted. So the integers may
    come from floats, whose errors this probability cancels. Acceptance is decided in floats with a proven error, and
    by proven bounds if it is too close to decide.

    Parameters
    ----------
    source : ByteSource
        Source of the random bytes.
    bounds : ndarray of shape (n_choices, n_pieces)
        Upper bounds of the number of candidates of each piece times the largest weight ``e**(-rate * gap)`` of them,
        with relative errors below 2**-41. They are 0 for pieces without candidates, and positive for one or more.
    draw : callable
        Function of arrays of choices and of their pieces. Returns for each of them a candidate that is uniform in the
        piece, its gap, and the number of candidates of the piece, as Python integers.
    rates : list of Fraction, of shape (n_choices,)
        The rates.

    Returns
    -------
    list of int
        The candidates.
    """
    # Weights of pieces are multiples of 2**-50 of the sum of their bounds, and are rounded up
    # by more than the errors of floats.
    units = bounds.sum(axis=1) * 2.0**-50
    shares = bounds / units[:, np.newaxis] * (1 + 2.0**-40)
    weights = np.floor(shares).astype(np.int64)
    weights += bounds > 0
    ends = np.cumsum(weights, axis=1)
    chosen = [0] * len(bounds)
    pending = np.arange(len(bounds))
    while pending.size:
        with watch_draws(None):
            words = uniform_below(source, ends[pending, -1])
        pieces = (ends[pending] <= words[:, np.newaxis]).sum(axis=1)
        candidates, gaps, sizes = draw(pending, pieces)
        proposed = pending.tolist()
        exponents = [
            gap * rates[choice] for choice, gap in zip(proposed, gaps, strict=True)
        ]
        proposed_weights = weights[pending, pieces]
        is_accepted = _accept(
            source, exponents, sizes, units[pending], proposed_weights
        )
        for index in np.flatnonzero(is_accepted).tolist():
            chosen[proposed[index]] = candidates[index]
        pending = pending[~is_accepted]
    return chosen


def _accept(
    source: ByteSource,
    exponents: Sequence[Fraction],
    sizes: Sequence[int],
    units: Floats,
    weights: Integers,
) -> Mask:
    """Accept proposals, each with the probability ``size * e**-exponent / (weight * unit)``."""
    # The exponents of this probability are differences of numbers below 2**10 with relative
    # errors below 2**-50.
    rounded = np.array([float(min(x, MAX_EXPONENT)) for x in exponents])
    logs = np.log(np.array(sizes, float)) - np.log(weights) - np.log(units)

    def bounds(index: int) -> ProbabilityBounds:
        factor = sizes[index] / (Fraction(units[index]) * int(weights[index]))
        return partial(_multiply_bounds, factor, exponents[index])

    errors = np.full(len(rounded), 2.0**-38)
    return bernoulli_of_exponents(
        source, np.maximum(rounded - logs, 0.0), bounds, errors
    )


def _multiply_bounds(
    factor: Fraction, exponent: Fraction, bits: int
) -> tuple[int, int]:
    """Return integers below and above ``2**bits * factor * e**-exponent``."""
    numerator, denominator = factor.as_integer_ratio()
    n_extra = max(numerator.bit_length() - denominator.bit_length(), 0) + 2
    low, high = exp_minus_bounds(exponent, bits + n_extra)
    lower = numerator * low // (denominator << n_extra)
    return lower, -(-numerator * high // (denominator << n_extra))
