"""Many coins of one probability, eight from a word."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from skdp.randomness._sources import BLOCK, ONE, ByteSource


class EightCoins:
    """Independent coins, eight at a time, as the bits of a byte.

    With h the threshold, a byte with j ones has the probability ``h**j (2**64 - h)**(8 - j) / 2**512``: a number of 32
    digits to the base 2**16. Of the 2**16 values of a random word, as many stand for a byte as its first digit says.
    The rest, r < 256 of them, is told apart by one more word: of the r 2**16 values that the two then have, as many
    stand for a byte as its second digit says, and so on. After 32 digits nothing is left, so the coins are exact; one
    word is almost always enough.

    Parameters
    ----------
    threshold : int
        From 0 to 2**64.
    """

    def __init__(self, threshold: int) -> None:
        self._heads = [threshold**ones * (ONE - threshold) ** (8 - ones) for ones in range(9)]
        self._settled = int(self.digits(0).sum())
        self._table = np.zeros(1 << 16, np.uint8)
        self._table[: self._settled] = np.repeat(np.arange(256), self.digits(0))
        # All of them at once: the object is shared by all threads, and nothing of it changes any more.
        self._bounds = tuple(np.cumsum(self.digits(place)) for place in range(1, 32))

    def digits(self, place: int) -> NDArray[np.int64]:
        """Return a digit of the probability of each byte.

        Parameters
        ----------
        place : int
            Which digit to the base 2**16; the first one, at 0, alone can be 2**16.

        Returns
        -------
        ndarray of shape (256,), dtype int64
            The digits.
        """
        shift = 16 * (31 - place)
        digits = [head >> shift & (0xFFFF if place else 0x1FFFF) for head in self._heads]
        return np.array(digits, np.int64)[np.bitwise_count(np.arange(256))]

    def draw(self, source: ByteSource, size: int) -> NDArray[np.uint8]:
        """Draw bytes.

        Parameters
        ----------
        source : ByteSource
            Where the random bytes come from.
        size : int
            How many bytes: eight coins each.

        Returns
        -------
        ndarray of shape (size,), dtype uint8
            The coins, packed.
        """
        out = np.empty(size, np.uint8)
        for start in range(0, size, BLOCK // 2):
            block = out[start : start + BLOCK // 2]
            words = source.bytes(2 * block.size).view("<u2")
            block[:] = np.take(self._table, words)
            if self._settled < 1 << 16:
                tied = np.flatnonzero(words >= self._settled)
                self._settle(source, block, tied, words[tied].astype(np.int64) - self._settled)
        return out

    def _settle(
        self, source: ByteSource, block: NDArray[np.uint8], tied: NDArray[np.intp], left: NDArray[np.int64]
    ) -> None:
        for bounds in self._bounds:
            if tied.size == 0:
                break
            left = (left << 16) + source.bytes(2 * tied.size).view("<u2")
            settled = left < bounds[-1]
            block[tied[settled]] = np.searchsorted(bounds, left[settled], side="right")
            tied, left = tied[~settled], left[~settled] - bounds[-1]


eight_coins = lru_cache(maxsize=32)(EightCoins)
