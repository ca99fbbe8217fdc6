"""Exact draws of real probability, such as e^-x: bits are drawn, and bounds tightened, until they decide."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp.exact import exp_minus_bounds
from skdp.randomness._draws import check_integers, check_rational, coins_of_digits
from skdp.randomness._sources import ByteSource

Bounds = Callable[[int], tuple[int, int]]
"""Function that returns, for a number of bits, two integers that enclose ``2**bits`` times a real number."""

_PLACES = 8
"""Digits of a coin that are computed ahead: a tie of all is one coin in 2**64."""

_BITS = 62
"""The length of the words that are looked up among the bounds of categories."""

_BLOCK = 1 << 13
"""Floats that stay in the cache."""

_UNDECIDED = 2.0**-31
"""How near to e^-x a word of 32 bits does not decide: 2**-32, and the errors of e^-x."""

_LARGE = Fraction(1 << 10)
"""Larger exponents are rounded to this: the first 32 bits of a coin are the same."""

_STEPS = 64
_TABLED = 32
"""e^-x is tabled in steps of 1/64, up to x = 32."""


def bernoulli_exp(
    source: ByteSource, exponents: ArrayLike, rate: Fraction | int = 1
) -> NDArray[np.bool_]:
    """Draw independent coins, the i-th True with probability exactly ``e**(-exponents[i] * rate)``.

    >>> from skdp.randomness import SeededSource
    >>> coins = bernoulli_exp(SeededSource(0), np.repeat([0, 1, 2], 10_000), Fraction(1, 2))
    >>> coins.reshape(3, -1).mean(axis=1).round(2).tolist()
    [1.0, 0.62, 0.38]

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
        If the exponents are not integers, the rate is not rational, or a number is
        negative.
    """
    rate = check_rational("rate", rate, zero=True)
    exponents = check_integers("exponents", exponents)
    if exponents.size and exponents.min() < 0:
        raise ValueError("exponents must be at least 0")
    if exponents.dtype == object:
        rounded = np.array(
            [float(min(int(exponent) * rate, _LARGE)) for exponent in exponents]
        )
    else:
        # Three roundings, each of less than 2**-52 of the product.
        rounded = exponents.astype(np.float64) * float(min(rate, _LARGE))
    return exp_coins(source, rounded, lambda index: int(exponents[index]) * rate)


def exp_coins(
    source: ByteSource, rounded: NDArray[np.float64], exact: Callable[[int], Fraction]
) -> NDArray[np.bool_]:
    """Draw coins of probability ``e**-x`` for rational exponents, given rounded, and exactly on demand."""
    return settled_coins(
        source, rounded, lambda index: partial(exp_minus_bounds, exact(index))
    )


def settled_coins(
    source: ByteSource, rounded: NDArray[np.float64], bounds: Callable[[int], Bounds]
) -> NDArray[np.bool_]:
    """Draw coins of probability ``e**-x`` for exponents, given rounded, and enclosed on demand."""
    # The first 32 bits of a uniform number are compared with e^-x in floating point.
    # One coin in 2**30 is undecided: more bits of its uniform number are compared with
    # proven bounds of e^-x, in integers.
    out = np.empty(rounded.size, np.bool_)
    for start in range(0, rounded.size, _BLOCK):
        exponents = rounded[start : start + _BLOCK]
        words = source.bytes(4 * exponents.size).view("<u4")
        # The errors of the exponent and of its power are below 2**-34; a number is up
        # to 2**-32 above its word.
        gap = _exp_minus(exponents) - words * 2.0**-32
        block = out[start : start + _BLOCK]
        np.greater(gap, 0, out=block)
        for index in np.flatnonzero(np.abs(gap) <= _UNDECIDED).tolist():
            uniform = Uniform(source, int(words[index]), 32)
            block[index] = uniform.is_below(bounds(start + index))
    return out


def _exp_minus(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``e**-x`` with a proven error below 2**-36: it uses sums and products only, no library's exp."""
    # ``x = place / 64 + rest`` without rounding. The power of the first part is
    # tabulated; the series of the second one ends with rest**4 / 4!: the remainder is
    # below rest**5 / 5! < 2**-36.9. The rounding errors are of order 2**-53. Beyond x =
    # 32, e^-x is replaced by e^-32 < 2**-46.
    x = np.minimum(x, _TABLED)
    place = (x * _STEPS).astype(np.intp)
    remainder = x - place * (1 / _STEPS)
    series = 1 - remainder * (1 / 4)
    for divisor in (3, 2):
        series = 1 - remainder * (1 / divisor) * series
    return _table()[place] * (1 - remainder * series)


@lru_cache
def _table() -> NDArray[np.float64]:
    factor = exp_minus_bounds(Fraction(1, _STEPS), 192)[0]
    power = 1 << 192
    powers = []
    for _ in range(_STEPS * _TABLED + 1):
        powers.append(math.ldexp(power, -192))
        # Errors of at most 2 units add up to less than 2**-180.
        power = power * factor >> 192
    return np.array(powers)


class Uniform:
    """A uniform real number in [0, 1), of which binary digits are drawn as they are needed."""

    # The number is between ``value / 2**bits`` and ``(value + 1) / 2**bits``.

    def __init__(self, source: ByteSource, value: int = 0, bits: int = 0) -> None:
        self._source = source
        self.value = value
        self.bits = bits

    def extend(self) -> None:
        """Draw 64 more bits."""
        word = int.from_bytes(self._source.bytes(8).tobytes(), "big")
        self.value = (self.value << 64) + word
        self.bits += 64

    def is_below(self, bounds: Bounds) -> bool:
        """Whether it is below a real number: True with exactly this probability."""
        while True:
            lower, upper = bounds(self.bits)
            if self.value < lower:
                return True
            if self.value >= upper:
                return False
            self.extend()


class RealCoin:
    """Independent coins of an irrational probability, such as 1 / (1 + e)."""

    # A digit is computed from bounds of the probability, which are tightened until both
    # have the same digit: the probability is never rounded.

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        # Immutable: the object may be shared by threads.
        self._digits = self._floor(_PLACES).to_bytes(_PLACES, "big")

    def draw(self, source: ByteSource, size: int) -> NDArray[np.bool_]:
        """Toss the coin."""
        return coins_of_digits(source, self._digit, size)

    def _digit(self, place: int) -> int:
        return self._digits[place] if place < _PLACES else self._floor(place + 1) & 255

    def _floor(self, places: int) -> int:
        """Return ``floor(256**places * p)``."""
        more = 16
        while True:
            lower, upper = self._bounds(8 * places + more)
            # An irrational number is below its upper bound: half, less next to nothing,
            # needs no further bits.
            if lower >> more == upper - 1 >> more:
                return lower >> more
            more *= 2


def real_categories(
    source: ByteSource, shares: Callable[[int], list[tuple[int, int]]], size: int
) -> NDArray[np.int64]:
    """Draw independent categories of real probabilities, exactly."""
    # A word of 62 bits is looked up among bounds of the cumulated probabilities. Where
    # it is between the lower and the upper bound of one, more bits are compared with
    # tighter bounds.
    ends = np.array(shares(_BITS), np.int64)  # (n_categories, 2), the last 2**62 twice
    words = source.bytes(8 * size).view("<u8") >> np.uint64(64 - _BITS)
    categories = np.searchsorted(ends[:-1, 1], words.view(np.int64), side="right")
    for index in np.flatnonzero(words >= ends[categories, 0].view(np.uint64)).tolist():
        uniform = Uniform(source, int(words[index]), _BITS)
        categories[index] = _settled_category(uniform, shares)
    return categories


def _settled_category(
    uniform: Uniform, shares: Callable[[int], list[tuple[int, int]]]
) -> int:
    def bounds(category: int, bits: int) -> tuple[int, int]:
        return shares(bits)[category]

    category = 0
    while not uniform.is_below(partial(bounds, category)):
        category += 1
    return category
