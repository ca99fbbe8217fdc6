"""Exact Bernoulli draws (coins)."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp.exact import exp_minus_bounds
from skdp.randomness._integers import check_integers, check_rational
from skdp.randomness._sources import ONE, ByteSource
from skdp.randomness._uniform import Bounds, Uniform, coins_of_digits
from skdp.randomness._word_table import WordTable

_MANY = 1 << 14  # from this number of coins on, eight are drawn at once


def bernoulli(source: ByteSource, threshold: int, size: int) -> NDArray[np.bool_]:
    """Draw independent coins that are True with probability exactly ``threshold / 2**64``.

    The bytes of a coin are compared with those of the threshold until they differ: 1.004 bytes on average. From 2**14
    coins on, 16 random bits draw eight coins from a `WordTable`, with the same exact probabilities. The run time
    depends on the random bytes only.

    Parameters
    ----------
    source : ByteSource
        Source of the random bytes.
    threshold : int
        From 0 (never True) to 2**64 (always True).
    size : int
        Number of coins.

    Returns
    -------
    ndarray of shape (size,), dtype bool
        The coins.

    Raises
    ------
    ValueError
        If the threshold is out of range.

    Examples
    --------
    >>> from skdp.randomness import SeededSource
    >>> coins = bernoulli(SeededSource(0), 3 * 2**62, 10_000)
    >>> round(float(coins.mean()), 2)
    0.75
    """
    if not 0 <= threshold <= ONE:
        raise ValueError("threshold must be between 0 and 2**64")
    if threshold == ONE:
        return np.ones(size, bool)
    if size >= _MANY:
        n_bytes = -(-size // 8)
        fair = threshold == ONE // 2  # then the random bits are the coins
        packed = source.bytes(n_bytes) if fair else eight_coins((threshold,) * 8).draw(source, n_bytes)
        return np.unpackbits(packed, count=size).view(bool)
    digits = threshold.to_bytes(8, "big")
    return coins_of_digits(source, lambda place: digits[place] if place < 8 else None, size)


def bernoulli_ratio(source: ByteSource, numerator: int, denominator: int, size: int) -> NDArray[np.bool_]:
    """Draw independent coins that are True with probability exactly numerator / denominator.

    The bytes of a coin are compared with the probability's digits to the base 256, of which as many are computed as
    needed: the probability is never rounded. A coin costs 1.004 bytes on average.

    Parameters
    ----------
    source : ByteSource
        Source of the random bytes.
    numerator, denominator : int
        ``0 <= numerator <= denominator`` and ``denominator > 0``; of any size, not necessarily coprime.
    size : int
        Number of coins.

    Returns
    -------
    ndarray of shape (size,), dtype bool
        The coins.

    Raises
    ------
    ValueError
        If the numbers are not the parts of a probability.

    Examples
    --------
    >>> from skdp.randomness import SeededSource
    >>> coins = bernoulli_ratio(SeededSource(0), 1, 3, 10_000)
    >>> round(float(coins.mean()), 2)
    0.33
    """
    if not 0 <= numerator <= denominator or denominator == 0:
        raise ValueError("a probability needs 0 <= numerator <= denominator and denominator > 0")
    if numerator == denominator:
        return np.ones(size, bool)
    digits: list[int] = []
    remainder = numerator

    def digit(place: int) -> int | None:
        nonlocal remainder
        if place == len(digits):
            if place and remainder == 0:
                return None  # all further digits are 0
            found, remainder = divmod(256 * remainder, denominator)
            digits.append(found)
        return digits[place]

    return coins_of_digits(source, digit, size)


@lru_cache(maxsize=32)
def eight_coins(thresholds: tuple[int, ...]) -> WordTable:
    """Build a table that draws eight independent coins as the bits of a byte."""
    weights = [1]
    for threshold in thresholds:
        weights = [weight * side for weight in weights for side in (ONE - threshold, threshold)]
    return WordTable([weights], np.arange(256, dtype=np.uint8))


_BLOCK = 1 << 13  # floats that stay in the cache
_UNDECIDED = 2.0**-31
_LARGE = Fraction(1 << 10)  # larger exponents are rounded to this: the first 32 bits of a coin are the same
_STEPS, _TABLED = 64, 32  # e^-x is tabled in steps of 1/64, up to x = 32


def bernoulli_exp(source: ByteSource, exponents: ArrayLike, rate: Fraction | int = 1) -> NDArray[np.bool_]:
    """Draw independent coins, the i-th True with probability exactly ``e**(-exponents[i] * rate)``.

    Parameters
    ----------
    source : ByteSource
        Source of the random bytes.
    exponents : array-like of int, shape (n,)
        Not negative; Python integers (dtype object) may have any size.
    rate : Fraction or int, default=1
        Not negative, of any size.

    Returns
    -------
    ndarray of shape (n,), dtype bool
        The coins.

    Raises
    ------
    TypeError, ValueError
        If the exponents are not integers, the rate is not rational, or a number is negative.

    Examples
    --------
    >>> from skdp.randomness import SeededSource
    >>> coins = bernoulli_exp(SeededSource(0), np.repeat([0, 1, 2], 10_000), Fraction(1, 2))
    >>> coins.reshape(3, -1).mean(axis=1).round(2).tolist()
    [1.0, 0.62, 0.38]
    """
    rate = check_rational("rate", rate, zero=True)
    exponents = check_integers("exponents", exponents)
    if exponents.size and exponents.min() < 0:
        raise ValueError("exponents must be at least 0")
    if exponents.dtype == object:
        rounded = np.array([float(min(int(exponent) * rate, _LARGE)) for exponent in exponents])
    else:
        # Three roundings, each of less than 2**-52 of the product.
        rounded = exponents.astype(np.float64) * float(min(rate, _LARGE))
    return exp_coins(source, rounded, lambda index: int(exponents[index]) * rate)


def exp_coins(source: ByteSource, rounded: NDArray[np.float64], exact: Callable[[int], Fraction]) -> NDArray[np.bool_]:
    """Draw coins of probability ``e**-x`` for rational exponents, given rounded, and exactly on demand."""
    return settled_coins(source, rounded, lambda index: partial(exp_minus_bounds, exact(index)))


def settled_coins(
    source: ByteSource, rounded: NDArray[np.float64], bounds: Callable[[int], Bounds]
) -> NDArray[np.bool_]:
    """Draw coins of probability ``e**-x`` for exponents, given rounded, and enclosed on demand."""
    # The first 32 bits of a uniform number are compared with e^-x in floating point. One coin in 2**30 is undecided:
    # more bits of its uniform number are compared with proven bounds of e^-x, in integers.
    out = np.empty(rounded.size, np.bool_)
    for start in range(0, rounded.size, _BLOCK):
        words = source.bytes(4 * rounded[start : start + _BLOCK].size).view("<u4")
        # The errors of the exponent and of its power are below 2**-34; a number is up to 2**-32 above its word.
        gap = _exp_minus(rounded[start : start + _BLOCK]) - words * 2.0**-32
        block = out[start : start + _BLOCK]
        np.greater(gap, 0, out=block)
        for index in np.flatnonzero(np.abs(gap) <= _UNDECIDED):
            block[index] = Uniform(source, int(words[index]), 32).is_below(bounds(start + int(index)))
    return out


def _exp_minus(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``e**-x`` with a proven error below 2**-36: it uses sums and products only, no library's exp."""
    # ``x = place / 64 + rest`` without rounding. The power of the first part is tabulated; the series of the second one
    # ends with rest**4 / 4!: the remainder is below rest**5 / 5! < 2**-36.9. The rounding errors are of order 2**-53.
    # Beyond x = 32, e^-x is replaced by e^-32 < 2**-46.
    x = np.minimum(x, _TABLED)
    place = (x * _STEPS).astype(np.intp)
    rest = x - place * (1 / _STEPS)
    return _table()[place] * (1 - rest * (1 - rest * (1 / 2) * (1 - rest * (1 / 3) * (1 - rest * (1 / 4)))))


@lru_cache
def _table() -> NDArray[np.float64]:
    factor = exp_minus_bounds(Fraction(1, _STEPS), 192)[0]
    powers = [1 << 192]
    for _ in range(_STEPS * _TABLED):
        powers.append(powers[-1] * factor >> 192)  # errors of at most 2 units add up to less than 2**-180
    return np.array([math.ldexp(power, -192) for power in powers])
