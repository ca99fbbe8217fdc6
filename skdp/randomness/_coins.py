"""Coins of a given probability, exactly."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from skdp.randomness._row_streams import rows_of
from skdp.randomness._sources import BLOCK, ONE, ByteSource
from skdp.randomness._word_table import WordTable

_MANY = 1 << 14  # from so many coins on, eight are drawn at once


def bernoulli(source: ByteSource, threshold: int, size: int) -> NDArray[np.bool_]:
    """Draw independent coins that are True with probability exactly ``threshold / 2**64``.

    A byte below the threshold's first byte decides for True, above it for False; at a tie the next byte of both
    decides. A coin costs 1.004 bytes on average, and the run time depends on the random bytes only. Where there are
    many coins, 16 random bits draw eight of them from a table, just as exactly: see `WordTable`.

    Parameters
    ----------
    source : ByteSource
        Where the bytes come from.
    threshold : int
        From 0 (never True) to 2**64 (always True).
    size : int
        How many coins.

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
    out = np.empty(size, bool)
    for start in range(0, size, BLOCK):
        block = out[start : start + BLOCK]
        drawn = source.bytes(block.size)
        np.less(drawn, digits[0], out=block)
        tied = np.flatnonzero(drawn == digits[0])
        for digit in digits[1:]:
            if tied.size == 0:
                break
            drawn = rows_of(source, start + tied).bytes(tied.size)
            block[tied] = drawn < digit
            tied = tied[drawn == digit]
    return out


def bernoulli_ratio(source: ByteSource, numerator: int, denominator: int, size: int) -> NDArray[np.bool_]:
    """Draw independent coins that are True with probability exactly numerator / denominator.

    The bytes of a coin are compared with the probability's digits to the base 256, which are computed as far as a tie
    asks for: there is no last one at which the probability would be rounded. A coin costs 1.004 bytes on average.

    Parameters
    ----------
    source : ByteSource
        Where the bytes come from.
    numerator, denominator : int
        With ``0 <= numerator <= denominator`` and a positive denominator; they may be huge, and need not be coprime.
    size : int
        How many coins.

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
    first, remainder = divmod(256 * numerator, denominator)
    digits = [first]
    out = np.empty(size, bool)
    for start in range(0, size, BLOCK):
        block = out[start : start + BLOCK]
        drawn = source.bytes(block.size)
        np.less(drawn, first, out=block)
        tied = np.flatnonzero(drawn == first)
        place = 0
        while tied.size:
            place += 1
            if place == len(digits):
                if remainder == 0:
                    break  # all further digits are 0, and no byte is below that: still False
                digit, remainder = divmod(256 * remainder, denominator)
                digits.append(digit)
            drawn = rows_of(source, start + tied).bytes(tied.size)
            block[tied] = drawn < digits[place]
            tied = tied[drawn == digits[place]]
    return out


@lru_cache(maxsize=32)
def eight_coins(thresholds: tuple[int, ...]) -> WordTable:
    """Make a table for independent coins, eight at a time, as the bits of a byte."""
    weights = [1]
    for threshold in thresholds:
        weights = [weight * side for weight in weights for side in (ONE - threshold, threshold)]
    return WordTable([weights], np.arange(256, dtype=np.uint8))
