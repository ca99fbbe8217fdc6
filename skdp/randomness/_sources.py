"""Sources of random bytes: the operating system, or a seed."""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

BLOCK = 1 << 16
"""Size of the blocks of draws: they fit in the cache, and OpenSSL is fastest at this size."""

ONE = 1 << 64
"""The threshold of a coin that is always True."""


class ByteSource(Protocol):
    """Protocol of a source of random bytes: the operating system, a seeded stream, or the list of a test.

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

    >>> SecureSource().bytes(16).size
    16

    It holds no state: copies, pickles, threads and forked processes never repeat each
    other's bytes, and ``np.random.seed`` has no effect.
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

    >>> SeededSource(0, "sex").bytes(4).tolist() == SeededSource(0, "sex").bytes(4).tolist()
    True
    >>> SeededSource(0, "sex").bytes(4).tolist() == SeededSource(0, "age").bytes(4).tolist()
    False

    With the key, every draw can be undone: never use it for a real release.

    Parameters
    ----------
    *key : int or str
        Purpose of the stream, such as a seed, a class, a column and a call number.
        Streams of different keys are independent, and the same on every platform: the
        key is hashed (SHA-256) into the 128-bit key of the counter-based generator
        Philox.
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
"""The bytes of a block of SHAKE-256."""


class DigestSource(ByteSource):
    """The SHAKE-256 stream of a keyed digest."""

    # As unpredictable as the digest, of which no byte is in the stream.

    def __init__(self, digest: bytes | NDArray[np.uint8]) -> None:
        self._shake = hashlib.shake_256(bytes(digest))
        self._stream = b""
        self._n_read = 0

    def bytes(self, size: int) -> NDArray[np.uint8]:
        start = self._n_read
        self._n_read += size
        if self._n_read > len(self._stream) or not self._stream:
            length = _stream_length(self._n_read, len(self._stream))
            self._stream = self._shake.digest(length)
        return np.frombuffer(self._stream, np.uint8, size, start)


def _stream_length(n_bytes: int, n_known: int) -> int:
    """Return how many bytes to hash for a stream of which some are known and some are read."""
    # A longer digest begins with the shorter one: at least twice as many as before keep
    # the work linear, in whole blocks of the hash function.
    return -(-max(n_bytes, 2 * n_known) // _RATE) * _RATE


class RowStreams(ByteSource):
    """The SHAKE-256 streams of one seed per row: a draw for n rows reads the next bytes of each of them.

    >>> streams = RowStreams([b"one", b"two"])
    >>> together = streams.bytes(2 * 8).reshape(2, 8)
    >>> (together[1] == RowStreams([b"two"]).bytes(8)).all()
    np.True_

    A draw for all rows gives each row what a draw for this row alone would give from
    its stream, if it first reads the same number of bytes for each row, and calls
    `rows_of` on the source where some rows need more. `bytes` returns the bytes row by
    row, and takes a multiple of the number of rows.

    Parameters
    ----------
    seeds : sequence of bytes, or ndarray of uint8, shape (n_rows, size)
        One a row, at most `MOST_ROWS`.
    head : int, default=0
        How many bytes of a seed its stream begins with, before those of SHAKE-256: what
        is left of the seed makes the rest of the stream unpredictable. If it is not 0,
        all seeds have the same length.

    Raises
    ------
    ValueError
        If there are too many rows, or they cannot have the same number of bytes.
    """

    def __init__(
        self, seeds: Sequence[bytes] | NDArray[np.uint8], *, head: int = 0
    ) -> None:
        if len(seeds) > MOST_ROWS:
            raise ValueError(
                f"there must be at most {MOST_ROWS} rows, got {len(seeds)}"
            )
        n_rows = len(seeds)
        self._seeds = seeds
        self._head = head
        self._rows = np.arange(n_rows)
        # What is known of each stream, (n_rows, n_bytes), and how much of it was read.
        self._streams = np.empty((n_rows, 0), np.uint8)
        if head and n_rows:
            if not isinstance(seeds, np.ndarray):
                seeds = np.frombuffer(b"".join(seeds), np.uint8).reshape(n_rows, -1)
            self._streams = seeds[:, :head]
        self._n_known = np.full(n_rows, head)
        self._n_read = np.zeros(n_rows, np.intp)

    def bytes(self, size: int) -> NDArray[np.uint8]:
        return self.read(slice(None), size)

    def of(self, rows: NDArray[np.intp]) -> StreamsOfRows:
        """Return the streams of some of the rows.

        Parameters
        ----------
        rows : ndarray of intp
            Their indices, without repetition.

        Returns
        -------
        StreamsOfRows
            Their streams; bytes that are read there are not read again here.
        """
        return StreamsOfRows(self, rows)

    def read(self, rows: NDArray[np.intp] | slice, size: int) -> NDArray[np.uint8]:
        """Return the next bytes of some of the rows.

        Parameters
        ----------
        rows : ndarray of intp, or slice
            Their indices, without repetition.
        size : int
            Number of bytes, the same for each row.

        Returns
        -------
        ndarray of shape (size,), dtype uint8
            The bytes, row by row.
        """
        if size == 0:
            return np.empty(0, np.uint8)
        indices = self._rows[rows]
        if indices.size == 0 or size % indices.size:
            raise ValueError(
                f"{size} bytes are not the same number for each of {indices.size} rows"
            )
        width = size // indices.size
        start = self._n_read[rows]
        first = int(start.min())
        furthest = int(start.max())
        is_short = start + width > self._n_known[rows]
        if is_short.any():
            self._hash(indices[is_short], furthest + width)
        # Mostly, all rows are at the same byte: a slice takes a third of the time.
        if first == furthest:
            drawn = self._streams[rows, first : first + width]
        else:
            columns = start[:, np.newaxis] + np.arange(width)
            drawn = self._streams[indices[:, np.newaxis], columns]
        self._n_read[rows] += width
        return drawn.ravel()

    def _hash(self, rows: NDArray[np.intp], n_bytes: int) -> None:
        """Hash the seeds of rows whose streams are too short."""
        # This takes longer than everything else, so only where it is needed.
        n_known = int(self._n_known[rows].max()) - self._head
        length = _stream_length(n_bytes - self._head, n_known)
        missing = self._head + length - self._streams.shape[1]
        if missing > 0:
            self._streams = np.pad(self._streams, ((0, 0), (0, missing)))
        digests = [hashlib.shake_256(self._seeds[row]).digest(length) for row in rows]
        hashed = np.frombuffer(b"".join(digests), np.uint8).reshape(-1, length)
        self._streams[rows, self._head : self._head + length] = hashed
        self._n_known[rows] = self._head + length


class StreamsOfRows(ByteSource):
    """The streams of some rows of `RowStreams`."""

    def __init__(self, streams: RowStreams, rows: NDArray[np.intp]) -> None:
        self._streams = streams
        self._rows = rows

    def bytes(self, size: int) -> NDArray[np.uint8]:
        return self._streams.read(self._rows, size)

    def of(self, rows: NDArray[np.intp]) -> StreamsOfRows:
        """Return the streams of some of these rows."""
        return StreamsOfRows(self._streams, self._rows[rows])


def rows_of(source: ByteSource, rows: NDArray[np.intp]) -> ByteSource:
    """Return the source restricted to some rows of a draw."""
    return source.of(rows) if isinstance(source, RowStreams | StreamsOfRows) else source
