"""Where random bytes come from: the operating system, or a seed."""

from __future__ import annotations

import hashlib
import ssl
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
