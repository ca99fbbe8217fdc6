"""Sources of random bytes: the operating system, or a seed."""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Sequence
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

BLOCK = 1 << 16
"""Size of the blocks of draws: they fit in the cache, and OpenSSL is fastest at this size."""

ONE = 1 << 64
"""The threshold of a coin that is always True."""


class ByteSource(Protocol):
    """Protocol of a source of random bytes: the operating system, a seeded stream, or the list of a test.

    Examples
    --------
    >>> from skdp.randomness import SecureSource
    >>> SecureSource().bytes(3).size  # what any source must have
    3
    """

    def bytes(self, size: int) -> NDArray[np.uint8]:
        """Return the next bytes, independent and uniform.

        Parameters
        ----------
        size : int
            Number of bytes.

        Returns
        -------
        ndarray of shape (size,), dtype uint8
            The bytes.
        """
        ...


class SecureSource:
    """Cryptographically secure bytes of OpenSSL's generator, which reseeds itself from the operating system.

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
            Number of bytes.

        Returns
        -------
        ndarray of shape (size,), dtype uint8
            The bytes.
        """
        if size <= BLOCK:
            return np.frombuffer(ssl.RAND_bytes(size), np.uint8)
        out = np.empty(size, np.uint8)
        for start in range(0, size, BLOCK):
            block = out[start : start + BLOCK]
            block[:] = np.frombuffer(ssl.RAND_bytes(block.size), np.uint8)
        return out


class SeededSource(ByteSource):
    """A reproducible stream of bytes for each key, for tests and experiments. Not secure.

    With the key, every draw can be undone: never use it for a real release.

    Parameters
    ----------
    *key : int or str
        Purpose of the stream, such as a seed, a class, a column and a call number. Streams of different keys are
        independent, and the same on every platform: the key is hashed (SHA-256) into the 128-bit key of the
        counter-based generator Philox.

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
        words = self._philox.random_raw((size + 7) // 8)
        return np.asarray(words).astype("<u8", copy=False).view(np.uint8)[:size]


MOST_ROWS = 1 << 12
"""Most rows of a draw: with more, draws use blocks and tables, and a row's draw would depend on the others."""

_RATE = 136


class DigestSource(ByteSource):
    """The SHAKE-256 stream of a keyed digest, after the first bytes of the digest itself if they are asked for."""

    # As unpredictable as the bytes of the digest that are not in the stream: of 32, at least half.

    def __init__(self, digest: bytes | NDArray[np.uint8], *, head: int = 0) -> None:
        self._shake, self._head, self._used = (
            hashlib.shake_256(bytes(digest)),
            bytes(digest[:head]),
            0,
        )
        self._stream = self._head

    def bytes(self, size: int) -> NDArray[np.uint8]:
        start, self._used = self._used, self._used + size
        if self._used > len(self._stream) or not self._stream:
            # A longer digest begins with the shorter one; twice as much as needed keeps the work linear.
            self._stream = self._head + self._shake.digest(
                _RATE * (1 + 2 * self._used // _RATE)
            )
        return np.frombuffer(self._stream, np.uint8, size, start)


class RowStreams(ByteSource):
    """The SHAKE-256 streams of one seed per row: a draw for n rows reads the next bytes of each of them.

    A draw for all rows gives each row what a draw for this row alone would give from its stream, if it first reads the
    same number of bytes for each row, and calls `rows_of` on the source where some rows need more. `bytes` returns the
    bytes row by row, and takes a multiple of the number of rows.

    Parameters
    ----------
    seeds : sequence of bytes, or ndarray of uint8, shape (n_rows, size)
        One a row, at most `MOST_ROWS`.
    head : int, default=0
        How many bytes of a seed its stream begins with, before those of SHAKE-256: what is left of the seed makes the
        rest of the stream unpredictable. If it is not 0, all seeds have the same length.

    Raises
    ------
    ValueError
        If there are too many rows, or they cannot have the same number of bytes.

    Examples
    --------
    >>> streams = RowStreams([b"one", b"two"])
    >>> together = streams.bytes(2 * 8).reshape(2, 8)
    >>> (together[1] == RowStreams([b"two"]).bytes(8)).all()
    np.True_
    """

    def __init__(
        self, seeds: Sequence[bytes] | NDArray[np.uint8], *, head: int = 0
    ) -> None:
        if len(seeds) > MOST_ROWS:
            raise ValueError(
                f"there must be at most {MOST_ROWS} rows, got {len(seeds)}"
            )
        self._state = _State(seeds, head)
        self._rows = np.arange(len(seeds))

    def bytes(self, size: int) -> NDArray[np.uint8]:
        if not self._rows.size and not size:
            return np.empty(0, np.uint8)
        width, rest = divmod(size, self._rows.size) if self._rows.size else (0, size)
        if rest:
            raise ValueError(
                f"{size} bytes are not the same number for each of {self._rows.size} rows"
            )
        return self._state.read(self._rows, width)

    def of(self, rows: NDArray[np.intp]) -> Self:
        """Return the streams of some of the rows.

        Parameters
        ----------
        rows : ndarray of intp
            Their indices, without repetition.

        Returns
        -------
        RowStreams
            Their streams; bytes that are read there are not read again here.
        """
        some = object.__new__(type(self))
        some._state, some._rows = self._state, self._rows[rows]
        return some


class _State:
    """The streams as far as they are known, and the position up to which each has been read."""

    def __init__(self, seeds: Sequence[bytes] | NDArray[np.uint8], head: int) -> None:
        self._seeds, self._head = seeds, head
        joined = seeds if isinstance(seeds, np.ndarray) else b"".join(seeds)
        whole = np.frombuffer(joined if head else b"", np.uint8)
        self._streams = whole.reshape(len(seeds), -1 if whole.size else 0)[:, :head]
        self._known, self._used = (
            np.full(len(seeds), head),
            np.zeros(len(seeds), np.intp),
        )

    def read(self, rows: NDArray[np.intp], width: int) -> NDArray[np.uint8]:
        start = self._used[rows]
        self._stretch(rows[start + width > self._known[rows]], int(start.max()) + width)
        self._used[rows] += width
        if (
            first := int(start.min())
        ) == start.max():  # mostly; it takes a third of the time
            return self._streams[:, first : first + width][rows].ravel()
        return self._streams[
            rows[:, np.newaxis], start[:, np.newaxis] + np.arange(width)
        ].ravel()

    def _stretch(self, rows: NDArray[np.intp], least: int) -> None:
        """Hash the seeds of rows whose streams are too short, which takes longer than all the rest."""
        if not rows.size:
            return
        length = _RATE * (
            1 + 2 * least // _RATE
        )  # a longer digest begins with the shorter one
        if (missing := self._head + length - self._streams.shape[1]) > 0:
            self._streams = np.pad(self._streams, ((0, 0), (0, missing)))
        stream = b"".join(
            [
                hashlib.shake_256(self._seeds[row]).digest(length)
                for row in rows.tolist()
            ]
        )
        self._streams[rows, self._head : self._head + length] = np.frombuffer(
            stream, np.uint8
        ).reshape(-1, length)
        self._known[rows] = self._head + length


def rows_of(source: ByteSource, rows: NDArray[np.intp]) -> ByteSource:
    """Return the source restricted to some rows of a draw."""
    return source.of(rows) if isinstance(source, RowStreams) else source
