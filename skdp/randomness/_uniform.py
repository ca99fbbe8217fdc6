"""Uniform real numbers with as many digits as needed, and uniform integers below any bound."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.randomness._sources import BLOCK, ByteSource, rows_of

Bounds = Callable[[int], tuple[int, int]]
"""Function that returns, for a number of bits, two integers that enclose ``2**bits`` times a real number."""


class Uniform:
    """A uniform real number in [0, 1), of which binary digits are drawn as they are needed."""

    # The number is between ``value / 2**bits`` and ``(value + 1) / 2**bits``.

    def __init__(self, source: ByteSource, value: int = 0, bits: int = 0) -> None:
        self._source, self.value, self.bits = source, value, bits

    def extend(self) -> None:
        """Draw 64 more bits."""
        self.value = (self.value << 64) + int.from_bytes(self._source.bytes(8).tobytes(), "big")
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


def uniform_below(source: ByteSource, bounds: NDArray) -> NDArray:
    """Draw independent integers, the i-th uniform in ``0 .. bounds[i] - 1``."""
    # Draw the bits of the bound until the number is below it: less than twice on average.
    if bounds.dtype == object:
        return np.array([_below(source, int(bound)) for bound in bounds], object)
    mask = bounds - 1
    for shift in (1, 2, 4, 8, 16, 32):
        mask |= mask >> shift
    out = source.bytes(8 * bounds.size).view("<i8") & mask
    again = np.flatnonzero(out >= bounds)
    while again.size:
        out[again] = source.bytes(8 * again.size).view("<i8") & mask[again]
        again = again[out[again] >= bounds[again]]
    return out


def _below(source: ByteSource, bound: int) -> int:
    bits = (bound - 1).bit_length()
    n_bytes = -(-bits // 8)
    while True:
        drawn = int.from_bytes(source.bytes(n_bytes).tobytes(), "big") >> (8 * n_bytes - bits)
        if drawn < bound:
            return drawn


_PLACES = 8  # number of digits kept; after a tie of all of them, once in 2**64 coins, further ones are computed
_BITS = 62  # length of the words that are looked up among the bounds of categories


def coins_of_digits(source: ByteSource, digit: Callable[[int], int | None], size: int) -> NDArray[np.bool_]:
    """Draw coins by comparing bytes with the digits of their probability to the base 256; None follows its last one."""
    out = np.empty(size, bool)
    first: Any = digit(0)
    for start in range(0, size, BLOCK):
        block = out[start : start + BLOCK]
        drawn = source.bytes(block.size)
        np.less(drawn, first, out=block)
        tied = np.flatnonzero(drawn == first)
        place = 1
        while tied.size and (bound := digit(place)) is not None:
            drawn = rows_of(source, start + tied).bytes(tied.size)
            block[tied] = drawn < bound
            tied = tied[drawn == bound]
            place += 1
    return out


class RealCoin:
    """Independent coins of an irrational probability, such as 1 / (1 + e)."""

    # A digit is computed from bounds of the probability, which are tightened until both have the same digit: the
    # probability is never rounded.

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
            lower, upper = (bound >> more for bound in self._bounds(8 * places + more))
            if lower == upper:
                return lower
            more *= 2


def real_categories(source: ByteSource, shares: Callable[[int], list[tuple[int, int]]], size: int) -> NDArray[np.int64]:
    """Draw independent categories of real probabilities, exactly."""
    # A word of 62 bits is looked up among bounds of the cumulated probabilities. Where it is between the lower and the
    # upper bound of one, more bits are compared with tighter bounds.
    lower, upper = np.array(shares(_BITS)[:-1], np.int64).reshape(-1, 2).T
    words = source.bytes(8 * size).view("<i8") >> (64 - _BITS) & (1 << _BITS) - 1
    out = np.searchsorted(upper, words, side="right")
    for index in np.flatnonzero(words >= np.append(lower, 1 << _BITS)[out]):
        out[index] = _settle(Uniform(source, int(words[index]), _BITS), shares)
    return out


def _settle(uniform: Uniform, shares: Callable[[int], list[tuple[int, int]]]) -> int:
    def bounds(category: int, bits: int) -> tuple[int, int]:
        return shares(bits)[category]

    return next(category for category in count() if uniform.is_below(partial(bounds, category)))
