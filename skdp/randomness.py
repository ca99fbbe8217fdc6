"""From random bytes to exact draws.

A source gives bytes; a draw turns bytes into coins, integers or categories whose probabilities are exact integers over
2**64. Nothing here knows of privacy or of columns, and nothing uses ``u < p`` on floating-point numbers.
"""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

BLOCK = 1 << 16
"""Draws are made in blocks that fit in the cache; OpenSSL is fastest at this size too."""

ONE = 1 << 64
"""The threshold of a coin that is always True."""


class ByteSource(Protocol):
    """Anything that gives random bytes: the operating system's, a seeded stream, or a test's list."""

    def bytes(self, size: int) -> NDArray[np.uint8]:
        """Return the next bytes, independent and uniform.

        Parameters
        ----------
        size : int
            How many.

        Returns
        -------
        ndarray of shape (size,), dtype uint8
            The bytes.
        """
        ...


class SecureSource:
    """Cryptographically secure bytes from OpenSSL's generator, which reseeds itself from the operating system.

    It holds no state: copies, pickles, threads and forked processes never repeat each other's bytes, and
    ``np.random.seed`` has no effect.

    Examples
    --------
    >>> SecureSource().bytes(16).size
    16
    """

    def bytes(self, size: int) -> NDArray[np.uint8]:
        """Return fresh bytes.

        Parameters
        ----------
        size : int
            How many.

        Returns
        -------
        ndarray of shape (size,), dtype uint8
            The bytes.
        """
        if size <= BLOCK:
            return np.frombuffer(ssl.RAND_bytes(size), np.uint8)
        out = np.empty(size, np.uint8)
        for start in range(0, size, BLOCK):
            stop = min(start + BLOCK, size)
            out[start:stop] = np.frombuffer(ssl.RAND_bytes(stop - start), np.uint8)
        return out


class SeededSource:
    """A reproducible stream of bytes for tests and experiments, one for each key. Not secure.

    Whoever knows the key can undo every draw, so a real release must not use it.

    Parameters
    ----------
    *key : int or str
        What the stream is for, such as a seed, a class, a column and a call number. Streams of different keys are
        independent: the key is hashed (SHA-256) into the 128-bit key of the counter-based generator Philox.

    Examples
    --------
    >>> SeededSource(0, "sex").bytes(4).tolist() == SeededSource(0, "sex").bytes(4).tolist()
    True
    >>> SeededSource(0, "sex").bytes(4).tolist() == SeededSource(0, "age").bytes(4).tolist()
    False
    """

    def __init__(self, *key: int | str) -> None:
        digest = hashlib.sha256(repr(key).encode()).digest()
        self._philox = np.random.Philox(key=int.from_bytes(digest[:16], "little"))

    def bytes(self, size: int) -> NDArray[np.uint8]:
        """Return the next bytes of the stream.

        Parameters
        ----------
        size : int
            How many.

        Returns
        -------
        ndarray of shape (size,), dtype uint8
            The bytes, the same on every platform.
        """
        words = self._philox.random_raw((size + 7) // 8)
        return np.asarray(words).astype("<u8", copy=False).view(np.uint8)[:size]


def bernoulli(source: ByteSource, threshold: int, size: int) -> NDArray[np.bool_]:
    """Draw independent coins that are True with probability exactly ``threshold / 2**64``.

    A byte below the threshold's first byte decides for True, above it for False; at a tie the next byte of both
    decides. A coin costs 1.004 bytes on average, and the run time depends on the random bytes only.

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
    >>> coins = bernoulli(SeededSource(0), 3 * 2**62, 10_000)
    >>> round(float(coins.mean()), 2)
    0.75
    """
    if not 0 <= threshold <= ONE:
        raise ValueError("threshold must be between 0 and 2**64")
    if threshold == ONE:
        return np.ones(size, bool)
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
            drawn = source.bytes(tied.size)
            block[tied] = drawn < digit
            tied = tied[drawn == digit]
    return out


def uniform_integers(source: ByteSource, high: int, size: int) -> NDArray[np.unsignedinteger]:
    """Draw independent integers, each of ``0 .. high - 1`` with probability exactly ``1 / high``.

    A word x of w bits gives the integer ``x * high >> w``; words whose low half falls into the ``2**w mod high``
    surplus values are drawn again, so there is no modulo bias (Lemire 2019, algorithm 5).

    Parameters
    ----------
    source : ByteSource
        Where the bytes come from.
    high : int
        From 1 to 2**32.
    size : int
        How many integers.

    Returns
    -------
    ndarray of shape (size,)
        Of the smallest unsigned dtype that holds ``high - 1``.

    Raises
    ------
    ValueError
        If high is out of range.

    References
    ----------
    D. Lemire (2019). Fast random integer generation in an interval. ACM TOMACS 29(1).

    Examples
    --------
    >>> import numpy as np
    >>> np.bincount(uniform_integers(SeededSource(0), 3, 9_000)).tolist()
    [2959, 3062, 2979]
    """
    if not 1 <= high <= 1 << 32:
        raise ValueError("high must be between 1 and 2**32")
    out = np.empty(size, np.min_scalar_type(high - 1))
    if high <= 256 and 256 % high == 0:
        for start in range(0, size, BLOCK):
            block = out[start : start + BLOCK]
            np.bitwise_and(source.bytes(block.size), np.uint8(high - 1), out=block)
        return out
    # Words twice as wide as the integers keep a second draw rare: below 2**-8 up to 256 values, 2**-16 up to 65,536.
    bits = 16 if high <= 256 else 32
    surplus = (1 << bits) % high
    for start in range(0, size, BLOCK):
        block = out[start : start + BLOCK]
        again = np.flatnonzero(_multiply_words(source, high, bits, block) < surplus)
        while again.size:
            redrawn = np.empty_like(block, shape=again.size)
            low = _multiply_words(source, high, bits, redrawn)
            block[again] = redrawn
            again = again[low < surplus]
    return out


def _multiply_words(
    source: ByteSource, high: int, bits: int, out: NDArray[np.unsignedinteger]
) -> NDArray[np.unsignedinteger]:
    """Write ``x * high >> bits`` for random words x of so many bits, and return the low halves of the products."""
    wide: type[np.unsignedinteger] = np.uint32 if bits == 16 else np.uint64
    words = source.bytes(out.size * (bits // 8)).view(f"<u{bits // 8}")
    product = np.multiply(words, wide(high), dtype=wide)
    np.right_shift(product, wide(bits), out=out, casting="unsafe")
    low: NDArray[np.unsignedinteger] = product.astype(np.uint16 if bits == 16 else np.uint32)
    return low


def categorical(source: ByteSource, weights: Sequence[int], size: int) -> NDArray[np.intp]:
    """Draw independent categories, category i with probability exactly ``weights[i] / 2**64``.

    Parameters
    ----------
    source : ByteSource
        Where the bytes come from: eight a draw.
    weights : sequence of int
        Not negative; they add up to 2**64.
    size : int
        How many draws.

    Returns
    -------
    ndarray of shape (size,), dtype intp
        Indices into the weights.

    Raises
    ------
    ValueError
        If a weight is negative or the weights do not add up to 2**64.

    Examples
    --------
    >>> import numpy as np
    >>> np.bincount(categorical(SeededSource(0), [2**62, 2**63, 2**62], 10_000)).tolist()
    [2458, 5018, 2524]
    """
    if any(weight < 0 for weight in weights) or sum(weights) != ONE:
        raise ValueError("weights must be at least 0 and add up to 2**64")
    bounds = np.empty(len(weights) - 1, np.uint64)
    total = 0
    for index, weight in enumerate(weights[:-1]):
        total += weight
        # A bound of 2**64 lies beyond every word; words never reach what is behind it, because its weight is 0.
        bounds[index] = min(total, ONE - 1)
    out = np.empty(size, np.intp)
    last = max(index for index, weight in enumerate(weights) if weight)
    for start in range(0, size, BLOCK):
        block = out[start : start + BLOCK]
        words = source.bytes(8 * block.size).view("<u8")
        np.minimum(np.searchsorted(bounds, words, side="right"), last, out=block)
    return out
