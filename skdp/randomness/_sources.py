"""Sources of random bytes: the operating system, a seed, and streams of rows."""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import Bytes, Indices

# Draws per block. A block fits in the cache, and OpenSSL is fastest at this size.
BLOCK = 1 << 16

# Largest number of rows of a draw from `RowStreams`. Samplers process more rows in
# blocks, and the bytes of a row would then depend on the other rows.
MAX_ROWS = 1 << 12


class ByteSource(Protocol):
    """Interface of a source of random bytes.

    Examples
    --------
    >>> from skdp.randomness import SecureSource
    >>> SecureSource().bytes(3).size
    3
    """

    def bytes(self, size: int) -> Bytes:
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

    It has no state: copies, pickles, threads and forked processes never repeat each
    other's bytes, and ``np.random.seed`` has no effect.

    Examples
    --------
    >>> from skdp.randomness import SecureSource
    >>> SecureSource().bytes(16).size
    16
    """

    def bytes(self, size: int) -> Bytes:
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
        return np.frombuffer(ssl.RAND_bytes(size), np.uint8)


class SeededSource(ByteSource):
    """A reproducible stream of bytes for each key, for tests and experiments. Not secure.

    With the key, every draw can be undone: never use it for a real release.

    Parameters
    ----------
    *key : int or str
        Purpose of the stream, such as a seed, a class, a column and a call number.
        Streams of different keys are independent, and the same on every platform: the
        key is hashed (SHA-256) into the 128-bit key of the counter-based generator
        Philox.

    Examples
    --------
    >>> from skdp.randomness import SeededSource
    >>> SeededSource(0, "sex").bytes(4).tolist() == SeededSource(0, "sex").bytes(4).tolist()
    True
    >>> SeededSource(0, "sex").bytes(4).tolist() == SeededSource(0, "age").bytes(4).tolist()
    False
    """

    def __init__(self, *key: int | str) -> None:
        digest = hashlib.sha256(repr(key).encode()).digest()
        self._philox = np.random.Philox(key=int.from_bytes(digest[:16], "little"))

    def bytes(self, size: int) -> Bytes:
        words = self._philox.random_raw((size + 7) // 8)
        return np.asarray(words).astype("<u8", copy=False).view(np.uint8)[:size]


class RowStreams(ByteSource):
    """Independent streams of bytes for each row, which SHAKE-256 derives from one seed per row.

    A draw for n rows gives each row the value that a draw for this row alone would give,
    whatever the other rows are: every row reads the same number of bytes, and
    `restrict_source` selects the rows that need more. `bytes` returns the next bytes of
    all streams, row by row; their number must be a multiple of the number of rows.

    Parameters
    ----------
    seeds : ndarray of uint8 of shape (n_rows, seed_size)
        Secret and random seeds of at most `MAX_ROWS` rows.
    head : int, default=0
        Number of bytes of a seed that are used as the first bytes of its stream, which
        saves hashing. The remaining bytes of the seed must be sufficient as a secret.

    Raises
    ------
    ValueError
        If the rows cannot have the same number of bytes.

    Examples
    --------
    >>> import numpy as np
    >>> seeds = np.array([[1, 2], [3, 4]], np.uint8)
    >>> together = RowStreams(seeds).bytes(2 * 8).reshape(2, 8)
    >>> (together[1] == RowStreams(seeds[1:]).bytes(8)).all()
    np.True_
    """

    def __init__(self, seeds: Bytes, *, head: int = 0) -> None:
        # `seeds` has a row of bytes for each stream. A stream begins with the first
        # `head` bytes of its seed, and continues with the SHAKE-256 hash of the whole
        # seed.
        self._seeds = seeds
        self._head = head
        self._rows = np.arange(len(seeds))
        # Array of shape (n_rows, n_bytes). The first `_n_computed` bytes of each stream are
        # computed, and the first `_n_read` bytes were returned.
        self._streams = seeds[:, :head]
        self._n_computed = np.full(len(seeds), head)
        self._n_read = np.zeros(len(seeds), np.intp)

    def bytes(self, size: int) -> Bytes:
        return self.read(slice(None), size)

    def select(self, rows: Indices) -> StreamsOfRows:
        """Return the streams of some of the rows.

        Parameters
        ----------
        rows : ndarray of intp
            Distinct row indices.

        Returns
        -------
        StreamsOfRows
            View of these streams. Draws from the view advance these streams, too.
        """
        return StreamsOfRows(self, rows)

    def read(self, rows: Indices | slice, size: int) -> Bytes:
        """Return the next bytes of some of the rows.

        Parameters
        ----------
        rows : ndarray of intp, or slice
            Row indices. If some are repeated, they are ascending and read one byte each.
        size : int
            Total number of bytes, a multiple of the number of rows.

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
                f"`size` must be a multiple of the number of rows, {indices.size}, got "
                f"{size}."
            )
        width = size // indices.size
        counts = np.bincount(indices, minlength=len(self._rows))
        start = self._n_read[rows]
        if counts.max() > 1:
            firsts = np.cumsum(counts) - counts
            start = start + np.arange(indices.size) - firsts[indices]
        is_short = start + width > self._n_computed[rows]
        if is_short.any():
            self._hash(indices[is_short], int(start.max()) + width)
        columns = start[:, np.newaxis] + np.arange(width)
        drawn = self._streams[indices[:, np.newaxis], columns]
        self._n_read += width * counts
        return drawn.ravel()

    def _hash(self, rows: Indices, n_bytes: int) -> None:
        """Compute the streams of the given rows up to at least `n_bytes` bytes, the head of the seed included."""
        # A longer digest begins with the shorter one and is computed from its beginning, so
        # the length doubles: a stream of n bytes costs O(n).
        length = 2 * (n_bytes - self._head)
        n_missing = self._head + length - self._streams.shape[1]
        if n_missing > 0:
            self._streams = np.pad(self._streams, ((0, 0), (0, n_missing)))
        digests = [hashlib.shake_256(seed).digest(length) for seed in self._seeds[rows]]
        hashed = np.frombuffer(b"".join(digests), np.uint8).reshape(-1, length)
        self._streams[rows, self._head : self._head + length] = hashed
        self._n_computed[rows] = self._head + length


class StreamsOfRows(ByteSource):
    """View of the streams of some rows of `RowStreams`."""

    def __init__(self, streams: RowStreams, rows: Indices) -> None:
        self._streams = streams
        self._rows = rows

    def bytes(self, size: int) -> Bytes:
        return self._streams.read(self._rows, size)

    def select(self, rows: Indices) -> StreamsOfRows:
        """Return the streams of some of these rows."""
        return StreamsOfRows(self._streams, self._rows[rows])


def restrict_source(
    source: ByteSource, draws: Indices, size: int | None = None
) -> ByteSource:
    """Return the source of further bytes for some draws: the streams of their rows, or a source without rows itself.

    `draws` are indices of draws in the order of the rows. There are `size` draws in total, by default one per row.
    """
    if isinstance(source, RowStreams | StreamsOfRows):
        return source.select(
            draws if size is None else draws // (size // len(source._rows))
        )
    return source


def draw_by_row(
    draw: Callable[..., NDArray[Any]],
    digests: Bytes,
    *arrays: NDArray[Any],
    head: int = 16,
    width: int = 1,
) -> NDArray[Any]:
    """Call ``draw(*arrays, source)``, where the random bits of a row follow from its digest.

    `digests` has the shape (n, 32): a keyed hash of 32 bytes for each row. `arrays`
    have n rows each. Rows with equal digests get equal bits, and other rows have no
    effect on them. `width` is the number of draws for a row.
    """
    blocks = []
    # `RowStreams` serves a limited number of rows at once. The single block of an empty
    # array has the dtype and shape of the result.
    n_rows = min(MAX_ROWS, max(1, BLOCK // width))
    for start in range(0, max(1, len(digests)), n_rows):
        rows = slice(start, start + n_rows)
        # The first `head` bytes of a digest are random bits. If a row needs more, the
        # whole digest is the seed of further bits.
        source = RowStreams(digests[rows], head=head)
        blocks.append(draw(*[array[rows] for array in arrays], source))
    return np.concatenate(blocks)
