"""Exact draws from finite distributions, nearly always by one random word and one table look-up."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.randomness._sources import BLOCK, ByteSource

_LEAST_BITS = 12


class WordTable:
    """Exact draws from a few distributions over the same outcomes, nearly always with one random word each.

    Of the 2**b words of b bits, each outcome has as many as the first digit of its probability to the base 2**b. The
    remaining words, fewer than there are outcomes, are distinguished by a second word of 16 bits: of the values of the
    pair, each outcome has as many as the next digit of its probability, to the base 2**16, and so on, as far as needed:
    no probability is rounded.

    Parameters
    ----------
    weights : sequence of sequences of int, shape (n_distributions, n_outcomes)
        One row per distribution: the probabilities are the weights, divided by their sum.
    values : ndarray of shape (n_outcomes, ...)
        The values of the outcomes, of which there are at most 2**16.

    Attributes
    ----------
    bits : int
        The number b: 16 less the bits that number the distributions, but at least 12.

    Examples
    --------
    >>> from skdp.randomness import SeededSource
    >>> table = WordTable([[1, 2, 0], [0, 1, 4]], np.array([-1, 0, 1]))
    >>> drawn = table.draw(SeededSource(0), 20_000, np.arange(20_000) % 2)
    >>> drawn[::2].mean().round(2), drawn[1::2].mean().round(2)
    (np.float64(-0.33), np.float64(0.8))
    """

    def __init__(self, weights: Sequence[Sequence[int]], values: NDArray[Any]) -> None:
        self._weights, self._values = [list(row) for row in weights], values
        self.bits = max(_LEAST_BITS, 16 - (len(weights) - 1).bit_length())
        first = self.digits(0)
        # The same number of words is settled in each row, so that the run time does not distinguish the rows.
        self._settled = int(first.sum(axis=1).min())
        kept = np.diff(np.minimum(first.cumsum(axis=1), self._settled), prepend=0)
        table = np.zeros(
            (len(weights), 1 << self.bits, *values.shape[1:]), values.dtype
        )
        for row, counts in zip(table, kept, strict=True):
            row[: self._settled] = np.repeat(values, counts, axis=0)
        self._table = table.reshape(-1, *values.shape[1:])
        # Beyond the settled words, pairs of words have a number of values for each outcome. The bounds of each row are
        # above those of the row before, so that one search serves all rows.
        bounds = (self.digits(1) + (first - kept << 16)).cumsum(axis=1) + (
            self._settled << 16
        )
        self._ends = bounds[:, -1]
        self._bounds = (bounds + (np.arange(len(weights)) << 32)[:, np.newaxis]).ravel()
        self._index = np.uint16 if len(self._table) <= 1 << 16 else np.uint32
        # Immutable from here on: tables are shared by all threads.

    def digits(self, place: int) -> NDArray[np.int64]:
        """Return a digit of the probability of each outcome.

        Parameters
        ----------
        place : int
            Index of the digit; the first one, 0, is to the base ``2**bits``, and can be as large as that.

        Returns
        -------
        ndarray of shape (n_distributions, n_outcomes), dtype int64
            The digits.
        """
        shift, mask = self.bits + 16 * place, 0xFFFF if place else -1
        totals = [sum(row) for row in self._weights]
        digits = [
            [(w << shift) // total & mask for w in row]
            for row, total in zip(self._weights, totals, strict=True)
        ]
        return np.array(digits, np.int64)

    def draw(
        self, source: ByteSource, size: int, rows: NDArray[np.integer] | None = None
    ) -> NDArray[Any]:
        """Draw outcomes.

        Parameters
        ----------
        source : ByteSource
            Source of the random bytes.
        size : int
            Number of draws.
        rows : ndarray of shape (size,), optional
            The distribution of each draw; not needed if there is only one.

        Returns
        -------
        ndarray of shape (size, ...)
            The values.
        """
        out = np.empty((size, *self._values.shape[1:]), self._values.dtype)
        for start in range(0, size, BLOCK):
            block = out[start : start + BLOCK]
            words = source.bytes(2 * len(block)).view("<u2")
            index, row = words, None
            if rows is not None:
                row = rows[start : start + BLOCK]
                words = words & np.uint16((1 << self.bits) - 1)
                index = row.astype(self._index)
                index <<= self.bits
                index |= words
            self._table.take(
                index, axis=0, out=block, mode="wrap"
            )  # none is out of range; "wrap" is the fastest
            tied = (words >= self._settled).nonzero()[0]
            if tied.size:
                left = words[tied].astype(np.int64) << 16
                left += source.bytes(2 * tied.size).view("<u2")
                block[tied] = self._values[
                    self._settle(source, left, None if row is None else row[tied])
                ]
        return out

    def _settle(
        self,
        source: ByteSource,
        left: NDArray[np.int64],
        rows: NDArray[np.integer] | None,
    ) -> NDArray[np.int64]:
        """Return the indices of the outcomes of pairs of words, drawing further words where needed."""
        if rows is None:
            outcomes, ends = (
                self._bounds.searchsorted(left, side="right"),
                self._ends[0],
            )
        else:
            rows = rows.astype(np.int64)
            outcomes, ends = (
                self._bounds.searchsorted(left + (rows << 32), side="right"),
                self._ends[rows],
            )
            outcomes -= rows * len(self._values)
        for place in (left >= ends).nonzero()[0].tolist():
            row = 0 if rows is None else int(rows[place])
            outcomes[place] = self._follow(
                source, row, int(left[place] - self._ends[row])
            )
        return outcomes

    def _follow(self, source: ByteSource, row: int, left: int) -> int:
        """Draw further words of one draw until they decide the outcome."""
        total = sum(self._weights[row])
        rests = [(weight << self.bits + 16) % total for weight in self._weights[row]]
        while True:
            left = (left << 16) + int(source.bytes(2).view("<u2")[0])
            bounds = list(accumulate((rest << 16) // total for rest in rests))
            if left < bounds[-1]:
                return bisect_right(bounds, left)
            left -= bounds[-1]
            rests = [(rest << 16) % total for rest in rests]
