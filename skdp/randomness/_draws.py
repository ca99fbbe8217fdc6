"""Sources of random bytes, and exact draws from them: coins, uniform integers, categories and subsets."""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from fractions import Fraction
from itertools import accumulate
from numbers import Integral, Rational
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

# Draws per block: a block fits in the cache, and OpenSSL is fastest at this size.
BLOCK = 1 << 16

# Threshold of a coin that is always True, and the unit of all thresholds.
ONE = 1 << 64

# Largest number of rows of a draw from `RowStreams`. Samplers process more rows in
# blocks, and the bytes of a row would then depend on the other rows.
MAX_ROWS = 1 << 12

# Bytes of a block of SHAKE-256.
_SHAKE_BYTES = 136


class ByteSource(Protocol):
    """Protocol of a source of random bytes: the operating system, a seeded stream, or the list of a test.

    Examples
    --------
    >>> from skdp.randomness import SecureSource
    >>> SecureSource().bytes(3).size
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

    It has no state: copies, pickles, threads and forked processes never repeat each
    other's bytes, and ``np.random.seed`` has no effect.

    Examples
    --------
    >>> from skdp.randomness import SecureSource
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

    def bytes(self, size: int) -> NDArray[np.uint8]:
        words = self._philox.random_raw((size + 7) // 8)
        return np.asarray(words).astype("<u8", copy=False).view(np.uint8)[:size]


class DigestSource(ByteSource):
    """The SHAKE-256 stream of a keyed digest."""

    # The stream does not reveal the digest, and is as hard to predict.

    def __init__(self, digest: bytes | NDArray[np.uint8]) -> None:
        self._shake = hashlib.shake_256(bytes(digest))
        self._stream = self._shake.digest(_SHAKE_BYTES)
        self._n_read = 0

    def bytes(self, size: int) -> NDArray[np.uint8]:
        start = self._n_read
        self._n_read += size
        if self._n_read > len(self._stream):
            self._stream = self._shake.digest(_shake_length(self._n_read))
        return np.frombuffer(self._stream, np.uint8, size, start)


def _shake_length(n_bytes: int) -> int:
    """Return the number of bytes to compute, at least `n_bytes`."""
    # A longer digest begins with the shorter one, and is hashed from its beginning:
    # powers of two keep the work of a growing stream linear.
    n_blocks = -(-n_bytes // _SHAKE_BYTES)
    return _SHAKE_BYTES << (n_blocks - 1).bit_length()


class RowStreams(ByteSource):
    """The SHAKE-256 streams of one seed per row: a draw for n rows reads the next bytes of each stream.

    A draw for all rows gives each row the values that a draw for this row alone would
    give from its stream, if it first reads the same number of bytes for each row, and
    calls `restrict_source` on the source where some rows need more. `bytes` returns the bytes
    row by row, and takes a multiple of the number of rows.

    Parameters
    ----------
    seeds : ndarray of uint8, shape (n_rows, size)
        At most `MAX_ROWS`.
    head : int, default=0
        Number of bytes of a seed with which its stream begins, before the bytes of
        SHAKE-256. The rest of the seed makes the rest of the stream unpredictable.

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

    def __init__(self, seeds: NDArray[np.uint8], *, head: int = 0) -> None:
        self._seeds = seeds
        self._head = head
        self._rows = np.arange(len(seeds))
        # (n_rows, n_bytes): the first `_n_known` bytes of a stream are computed.
        self._streams = seeds[:, :head]
        self._n_known = np.full(len(seeds), head)
        self._n_read = np.zeros(len(seeds), np.intp)

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
                f"size must be a multiple of the {indices.size} rows, got {size}"
            )
        width = size // indices.size
        start = self._n_read[rows]
        is_short = start + width > self._n_known[rows]
        if is_short.any():
            self._hash(indices[is_short], int(start.max()) + width)
        columns = start[:, np.newaxis] + np.arange(width)
        drawn = self._streams[indices[:, np.newaxis], columns]
        self._n_read[rows] += width
        return drawn.ravel()

    def _hash(self, rows: NDArray[np.intp], n_bytes: int) -> None:
        """Extend the streams that are too short. Hashing takes most of the time of a draw."""
        length = _shake_length(n_bytes - self._head)
        n_missing = self._head + length - self._streams.shape[1]
        if n_missing > 0:
            self._streams = np.pad(self._streams, ((0, 0), (0, n_missing)))
        digests = [hashlib.shake_256(seed).digest(length) for seed in self._seeds[rows]]
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


def restrict_source(source: ByteSource, rows: NDArray[np.intp]) -> ByteSource:
    """Return the source restricted to some rows of a draw."""
    return source.of(rows) if isinstance(source, RowStreams | StreamsOfRows) else source


# Audits and replays pass each draw through a watcher: it gets the name of a sampler, the
# drawn values and the other arguments, and returns the values to use.
Drawn = TypeVar("Drawn")
Watcher = Callable[[str, Any, dict[str, Any]], Any]

_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextmanager
def watch_draws(watcher: Watcher | None) -> Iterator[None]:
    """Pass each draw in a block of code through a watcher; None is for a sampler that uses other samplers."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


def notify_watcher(sampler: str, drawn: Drawn, **arguments: Any) -> Drawn:
    """Return the drawn values, or the values that the watcher returns for them."""
    watcher = _watcher.get()
    if watcher is None:
        return drawn
    # Arguments that take time to compute are passed as functions.
    values = {}
    for name, value in arguments.items():
        values[name] = value() if callable(value) else value
    return watcher(sampler, drawn, values)


def bernoulli(source: ByteSource, threshold: int, size: int) -> NDArray[np.bool_]:
    """Draw independent coins that are True with probability exactly ``threshold / 2**64``.

    The bytes of a coin are compared with the bytes of the threshold until they differ:
    1.004 bytes on average. The run time depends on the random bytes only.

    Parameters
    ----------
    source : ByteSource
        Source of the random bytes.
    threshold : int
        From 0 (never True) to 2**64 (always True).
    size : int
        Number of coins.

    Returns
    -------
    ndarray of shape (size,), dtype bool
        The coins.

    Examples
    --------
    >>> from skdp.randomness import SeededSource, bernoulli
    >>> coins = bernoulli(SeededSource(0), 3 * 2**62, 10_000)
    >>> round(float(coins.mean()), 2)
    0.75
    """
    threshold = check_size(threshold, min_val=0, max_val=ONE, name="threshold")
    if threshold == ONE:
        return np.ones(size, bool)
    digits = [*threshold.to_bytes(8, "big"), None]
    return draw_coins(source, digits.__getitem__, size)


def bernoulli_ratio(
    source: ByteSource, numerator: int, denominator: int, size: int
) -> NDArray[np.bool_]:
    """Draw independent coins that are True with probability exactly numerator / denominator.

    The bytes of a coin are compared with the probability's digits to the base 256, which
    are computed as they are needed: the probability is never rounded. A coin costs
    1.004 bytes on average.

    Parameters
    ----------
    source : ByteSource
        Source of the random bytes.
    numerator, denominator : int
        ``0 <= numerator <= denominator`` and ``denominator > 0``; of any size, not
        necessarily coprime.
    size : int
        Number of coins.

    Returns
    -------
    ndarray of shape (size,), dtype bool
        The coins.

    Raises
    ------
    TypeError, ValueError
        If the numbers are not the parts of a probability.

    Examples
    --------
    >>> from skdp.randomness import SeededSource
    >>> coins = bernoulli_ratio(SeededSource(0), 1, 3, 10_000)
    >>> round(float(coins.mean()), 2)
    0.33
    """
    numerator = check_size(numerator, min_val=0, max_val=None, name="numerator")
    denominator = check_size(denominator, min_val=1, max_val=None, name="denominator")
    if numerator > denominator:
        raise ValueError(
            "numerator must be at most the denominator, got a larger numerator"
        )
    if numerator == denominator:
        return np.ones(size, bool)

    def digit(index: int) -> int | None:
        scaled = numerator << 8 * index
        if index and scaled % denominator == 0:
            return None
        return (scaled << 8) // denominator & 255

    coins = draw_coins(source, digit, size)
    return notify_watcher(
        "bernoulli_ratio", coins, numerator=numerator, denominator=denominator
    )


def draw_coins(
    source: ByteSource, digit: Callable[[int], int | None], size: int
) -> NDArray[np.bool_]:
    """Draw coins by comparing bytes with the digits of their probability to the base 256; None ends the digits."""
    out = np.empty(size, bool)
    first: Any = digit(0)
    for start in range(0, size, BLOCK):
        block = out[start : start + BLOCK]
        drawn = source.bytes(block.size)
        np.less(drawn, first, out=block)
        tied = np.flatnonzero(drawn == first)
        index = 1
        while tied.size and (bound := digit(index)) is not None:
            drawn = restrict_source(source, start + tied).bytes(tied.size)
            block[tied] = drawn < bound
            tied = tied[drawn == bound]
            index += 1
    return out


def uniform_integers(
    source: ByteSource, high: int, size: int
) -> NDArray[np.unsignedinteger]:
    """Draw independent integers, each value of ``0, ..., high - 1`` with probability exactly ``1 / high``.

    A word x of w bits gives the integer ``x * high >> w``; words whose low half is one
    of the ``2**w mod high`` surplus values are drawn again, so there is no modulo bias
    (Lemire 2019, algorithm 5).

    Parameters
    ----------
    source : ByteSource
        Source of the random bytes.
    high : int
        From 1 to 2**32.
    size : int
        Number of integers.

    Returns
    -------
    ndarray of shape (size,)
        Of the smallest unsigned dtype that holds ``high - 1``.

    References
    ----------
    D. Lemire (2019). Fast random integer generation in an interval. ACM TOMACS 29(1).

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.randomness import SeededSource, uniform_integers
    >>> np.bincount(uniform_integers(SeededSource(0), 3, 9_000)).tolist()
    [2959, 3062, 2979]
    """
    high = check_size(high, min_val=1, max_val=1 << 32, name="high")
    out = np.empty(size, np.min_scalar_type(high - 1))
    for start in range(0, size, BLOCK):
        block = out[start : start + BLOCK]
        if high <= 256 and 256 % high == 0:
            np.bitwise_and(source.bytes(block.size), np.uint8(high - 1), out=block)
            continue
        surplus = np.flatnonzero(_multiply_words(source, high, block))
        while surplus.size:
            redrawn = np.empty_like(block, shape=surplus.size)
            is_surplus = _multiply_words(
                restrict_source(source, start + surplus), high, redrawn
            )
            block[surplus] = redrawn
            surplus = surplus[is_surplus]
    return notify_watcher("uniform_integers", out, high=high)


def _multiply_words(
    source: ByteSource, high: int, out: NDArray[np.unsignedinteger]
) -> NDArray[np.bool_]:
    """Write ``x * high >> w`` for random words x of w bits, and mark the surplus values."""
    # Words twice as wide as the integers keep a second draw rare: below 2**-8 up to 256
    # values, 2**-16 up to 65,536.
    n_bytes, wide = (2, np.uint32) if high <= 256 else (4, np.uint64)
    words = source.bytes(out.size * n_bytes).view(f"<u{n_bytes}")
    product = np.multiply(words, high, dtype=wide)
    np.right_shift(product, 8 * n_bytes, out=out, casting="unsafe")
    is_surplus: NDArray[np.bool_] = (
        product.astype(f"<u{n_bytes}") < (1 << 8 * n_bytes) % high
    )
    return is_surplus


def uniform_below(source: ByteSource, bounds: NDArray) -> NDArray:
    """Draw independent integers, the i-th uniform in ``0 .. bounds[i] - 1``."""
    # Draw the bits of the bound until the number is below it: less than twice on
    # average.
    if bounds.dtype == object:
        return np.array(
            [_integer_below(source, int(bound)) for bound in bounds], object
        )
    mask = bounds - 1
    for shift in (1, 2, 4, 8, 16, 32):
        mask |= mask >> shift
    out = np.empty_like(bounds)
    surplus = np.arange(bounds.size)
    while surplus.size:
        out[surplus] = source.bytes(8 * surplus.size).view("<i8") & mask[surplus]
        surplus = surplus[out[surplus] >= bounds[surplus]]
    return out


def _integer_below(source: ByteSource, bound: int) -> int:
    n_bits = (bound - 1).bit_length()
    n_bytes = -(-n_bits // 8)
    while True:
        word = int.from_bytes(source.bytes(n_bytes).tobytes(), "big")
        drawn = word >> 8 * n_bytes - n_bits
        if drawn < bound:
            return drawn


def categorical(
    source: ByteSource, weights: Sequence[int], size: int
) -> NDArray[np.intp]:
    """Draw independent categories, category i with probability exactly ``weights[i] / 2**64``.

    Parameters
    ----------
    source : ByteSource
        Source of the random bytes: eight per draw.
    weights : sequence of int
        Not negative; they add up to 2**64.
    size : int
        Number of draws.

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
    >>> from skdp.randomness import SeededSource, categorical
    >>> np.bincount(categorical(SeededSource(0), [2**62, 2**63, 2**62], 10_000)).tolist()
    [2458, 5018, 2524]
    """
    if any(weight < 0 for weight in weights) or sum(weights) != ONE:
        raise ValueError("weights must be at least 0 and add up to 2**64")
    # A word is in the first category whose cumulated weight exceeds it. No word reaches
    # 2**64, the end of the last category.
    ends = [end for end in accumulate(weights) if end < ONE]
    words = source.bytes(8 * size).view("<u8")
    return np.searchsorted(np.array(ends, np.uint64), words, side="right")


def subsets(
    source: ByteSource,
    n_cells: int,
    size: int,
    n: int,
    required: NDArray[np.integer] | None = None,
) -> NDArray[np.bool_]:
    """Draw independent sets of cells, each uniform among all sets of the size.

    Each cell has a random word of 32 bits, and the set consists of the cells with the
    smallest words: all orders of the words are equally likely. Where words tie at the
    end of the set, all words of the set are drawn again.

    Parameters
    ----------
    source : ByteSource
        Source of the random bytes.
    n_cells : int
        The number of cells, at least 1.
    size : int
        The size of each set, from 0 to `n_cells`; with `required`, at least 1.
    n : int
        The number of sets.
    required : ndarray of integers, shape (n,), optional
        For each set a cell that it contains, or -1 for none; the rest of the set is
        uniform.

    Returns
    -------
    ndarray of shape (n, n_cells), dtype bool
        True for the cells of each set.

    Raises
    ------
    ValueError
        If there are no sets of this size.

    Examples
    --------
    >>> from skdp.randomness import SeededSource
    >>> subsets(SeededSource(0), 10, 3, 2, np.array([-1, 4])).sum(axis=1).tolist()
    [3, 3]
    """
    min_size = 0 if required is None else 1
    check_size(size, min_val=min_size, max_val=n_cells, name="size")
    bits = np.zeros((n, n_cells), bool)
    if size == 0:
        return bits
    step = max(1, BLOCK // n_cells)
    for start in range(0, n, step):
        rows = np.arange(start, min(start + step, n))
        while rows.size:
            drawn = restrict_source(source, rows).bytes(4 * n_cells * rows.size)
            words = drawn.view(">u4").reshape(rows.size, n_cells).astype(np.uint32)
            if required is not None:
                # The required cell comes before all other cells, and may tie with them.
                has_cell = np.flatnonzero(required[rows] >= 0)
                words[has_cell, required[rows[has_cell]]] = 0
            last_words = np.partition(words, size - 1, axis=1)[:, [size - 1]]
            bits[rows] = words <= last_words
            rows = rows[np.count_nonzero(bits[rows], axis=1) > size]
    return bits


def check_size(
    k: Any,
    *,
    min_val: int = 2,
    max_val: int | None = (1 << 32) - 1,
    name: str = "k",
) -> int:
    """Check an integer parameter, such as a number of values.

    Parameters
    ----------
    k : int
        Value to check.
    min_val : int, default=2
        Smallest valid value.
    max_val : int or None, default=2**32 - 1
        Largest valid value. None for no maximum.
    name : str, default="k"
        Name of the parameter in errors.

    Returns
    -------
    int
        The value as a Python int.

    Raises
    ------
    TypeError
        If `k` is not an integer.
    ValueError
        If `k` is not between `min_val` and `max_val`.

    Examples
    --------
    >>> from skdp.randomness import check_size
    >>> check_size(3)
    3
    >>> check_size(1)
    Traceback (most recent call last):
    ...
    ValueError: k must be between 2 and 4294967295, got 1
    """
    if isinstance(k, bool) or not isinstance(k, int | np.integer):
        raise TypeError(f"{name} must be an integer, got {type(k).__name__}")
    if max_val is None and k < min_val:
        raise ValueError(f"{name} must be at least {min_val}, got {k}")
    if max_val is not None and not min_val <= k <= max_val:
        raise ValueError(f"{name} must be between {min_val} and {max_val}, got {k}")
    return int(k)


def check_rational(name: str, value: Any, *, zero: bool = False) -> Fraction:
    """Check a rational parameter and return it as a fraction."""
    if isinstance(value, bool) or not isinstance(value, Rational):
        raise TypeError(
            f"{name} must be a Fraction or an int, got {type(value).__name__}"
        )
    # NumPy integers would remain inside the fraction, and overflow.
    exact = Fraction(int(value.numerator), int(value.denominator))
    if exact < 0 or (exact == 0 and not zero):
        raise ValueError(f"{name} must be {'>= 0' if zero else '> 0'}, got {value}")
    return exact


def check_integers(name: str, values: ArrayLike) -> NDArray:
    """Check a one-dimensional array of integers, and return it as int64 or Python integers."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"{name} must have one dimension, got {array.ndim}")
    if array.size == 0:
        return np.empty(0, np.int64)
    if array.dtype == object:
        for value in array:
            if isinstance(value, bool) or not isinstance(value, Integral):
                raise TypeError(f"{name} must be integers, got an object")
        return np.array(list(map(int, array)), object)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} must be integers, got {array.dtype}")
    return array.astype(object if array.dtype == np.uint64 else np.int64, copy=False)
