"""Sources of random bytes, and exact draws from them: coins, uniform integers and categories."""

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

# Size of the blocks of draws: they fit in the cache, and OpenSSL is fastest at this
# size.
BLOCK = 1 << 16

# The threshold of a coin that is always True.
ONE = 1 << 64


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


# Most rows of a draw: with more, draws use blocks, and the draw of a row would
# depend on the other rows.
MAX_ROWS = 1 << 12

# The bytes of a block of SHAKE-256.
_RATE = 136


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
        One a row, at most `MAX_ROWS`.
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
        if len(seeds) > MAX_ROWS:
            raise ValueError(f"there must be at most {MAX_ROWS} rows, got {len(seeds)}")
        n_rows = len(seeds)
        self._head = head
        self._rows = np.arange(n_rows)
        # What is known of each stream, (n_rows, n_bytes), and how much of it was read.
        self._streams = np.empty((n_rows, 0), np.uint8)
        if not isinstance(seeds, np.ndarray):
            seeds = np.fromiter(map(bytes, seeds), object, n_rows)
            if head and n_rows:
                joined = np.frombuffer(b"".join(seeds), np.uint8)
                self._streams = joined.reshape(n_rows, -1)[:, :head]
        elif head:
            self._streams = seeds[:, :head]
        self._seeds = seeds
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


def rows_of(source: ByteSource, rows: NDArray[np.intp]) -> ByteSource:
    """Return the source restricted to some rows of a draw."""
    return source.of(rows) if isinstance(source, RowStreams | StreamsOfRows) else source


Drawn = TypeVar("Drawn")
# Called with the name of a sampler, what it drew and its other arguments; returns what
# the sampler returns.
Watcher = Callable[[str, Any, dict[str, Any]], Any]

_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextmanager
def watched(watcher: Watcher | None) -> Iterator[None]:
    """Pass each draw in a block of code through a function; through none, inside a sampler that uses others."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


def seen(sampler: str, drawn: Drawn, **parameters: Any) -> Drawn:
    """Return what a sampler drew, or what the watcher makes of it."""
    watcher = _watcher.get()
    if watcher is None:
        return drawn
    # What takes time to compute is given as a function.
    values = {
        name: value() if callable(value) else value
        for name, value in parameters.items()
    }
    return watcher(sampler, drawn, values)


def bernoulli(source: ByteSource, threshold: int, size: int) -> NDArray[np.bool_]:
    """Draw independent coins that are True with probability exactly ``threshold / 2**64``.

    >>> from skdp.randomness import SeededSource
    >>> coins = bernoulli(SeededSource(0), 3 * 2**62, 10_000)
    >>> round(float(coins.mean()), 2)
    0.75

    The bytes of a coin are compared with those of the threshold until they differ:
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
    """
    threshold = check_size(threshold, least=0, most=ONE, name="threshold")
    if threshold == ONE:
        return np.ones(size, bool)
    digits = [*threshold.to_bytes(8, "big"), None]
    return coins_of_digits(source, digits.__getitem__, size)


def bernoulli_ratio(
    source: ByteSource, numerator: int, denominator: int, size: int
) -> NDArray[np.bool_]:
    """Draw independent coins that are True with probability exactly numerator / denominator.

    >>> from skdp.randomness import SeededSource
    >>> coins = bernoulli_ratio(SeededSource(0), 1, 3, 10_000)
    >>> round(float(coins.mean()), 2)
    0.33

    The bytes of a coin are compared with the probability's digits to the base 256, of
    which as many are computed as needed: the probability is never rounded. A coin costs
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
    """
    numerator = check_size(numerator, least=0, most=None, name="numerator")
    denominator = check_size(denominator, least=1, most=None, name="denominator")
    if numerator > denominator:
        raise ValueError("a probability has a numerator of at most the denominator")
    if numerator == denominator:
        return np.ones(size, bool)
    digits = _RatioDigits(numerator, denominator)
    coins = coins_of_digits(source, digits.digit, size)
    return seen("bernoulli_ratio", coins, numerator=numerator, denominator=denominator)


class _RatioDigits:
    """The digits of a fraction below 1 to the base 256, computed as needed."""

    def __init__(self, numerator: int, denominator: int) -> None:
        self._digits: list[int] = []
        self._remainder = numerator
        self._denominator = denominator

    def digit(self, place: int) -> int | None:
        """Return a digit, None where this and all further ones are 0."""
        if place == len(self._digits):
            if place and self._remainder == 0:
                return None
            digit, self._remainder = divmod(256 * self._remainder, self._denominator)
            self._digits.append(digit)
        return self._digits[place]


def coins_of_digits(
    source: ByteSource, digit: Callable[[int], int | None], size: int
) -> NDArray[np.bool_]:
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


def uniform_integers(
    source: ByteSource, high: int, size: int
) -> NDArray[np.unsignedinteger]:
    """Draw independent integers, each value of ``0, ..., high - 1`` with probability exactly ``1 / high``.

    >>> import numpy as np
    >>> from skdp.randomness import SeededSource
    >>> np.bincount(uniform_integers(SeededSource(0), 3, 9_000)).tolist()
    [2959, 3062, 2979]

    A word x of w bits gives the integer ``x * high >> w``; words whose low half falls
    into the ``2**w mod high`` surplus values are drawn again, so there is no modulo
    bias (Lemire 2019, algorithm 5).

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
    """
    high = check_size(high, least=1, most=1 << 32, name="high")
    out = np.empty(size, np.min_scalar_type(high - 1))
    if high <= 256 and 256 % high == 0:
        for start in range(0, size, BLOCK):
            block = out[start : start + BLOCK]
            np.bitwise_and(source.bytes(block.size), np.uint8(high - 1), out=block)
        return seen("uniform_integers", out, high=high)
    # Words twice as wide as the integers keep a second draw rare: below 2**-8 up to 256
    # values, 2**-16 up to 65,536.
    bits = 16 if high <= 256 else 32
    surplus = (1 << bits) % high
    for start in range(0, size, BLOCK):
        block = out[start : start + BLOCK]
        surplus_places = np.flatnonzero(
            multiply_words(source, high, bits, block) < surplus
        )
        while surplus_places.size:
            redrawn = np.empty_like(block, shape=surplus_places.size)
            low = multiply_words(
                rows_of(source, start + surplus_places), high, bits, redrawn
            )
            block[surplus_places] = redrawn
            surplus_places = surplus_places[low < surplus]
    return seen("uniform_integers", out, high=high)


def multiply_words(
    source: ByteSource, high: int, bits: int, out: NDArray[np.unsignedinteger]
) -> NDArray[np.unsignedinteger]:
    """Write ``x * high >> bits`` for random words x of `bits` bits, and return the low halves of the products."""
    wide: type[np.unsignedinteger] = np.uint32 if bits == 16 else np.uint64
    words = source.bytes(out.size * (bits // 8)).view(f"<u{bits // 8}")
    product = np.multiply(words, wide(high), dtype=wide)
    np.right_shift(product, wide(bits), out=out, casting="unsafe")
    low: NDArray[np.unsignedinteger] = product.astype(f"<u{bits // 8}")
    return low


def uniform_below(source: ByteSource, bounds: NDArray) -> NDArray:
    """Draw independent integers, the i-th uniform in ``0 .. bounds[i] - 1``."""
    # Draw the bits of the bound until the number is below it: less than twice on
    # average.
    if bounds.dtype == object:
        return np.array([_below(source, int(bound)) for bound in bounds], object)
    mask = bounds - 1
    for shift in (1, 2, 4, 8, 16, 32):
        mask |= mask >> shift
    out = source.bytes(8 * bounds.size).view("<i8") & mask
    surplus_places = np.flatnonzero(out >= bounds)
    while surplus_places.size:
        out[surplus_places] = (
            source.bytes(8 * surplus_places.size).view("<i8") & mask[surplus_places]
        )
        surplus_places = surplus_places[out[surplus_places] >= bounds[surplus_places]]
    return out


def _below(source: ByteSource, bound: int) -> int:
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

    >>> import numpy as np
    >>> from skdp.randomness import SeededSource
    >>> np.bincount(categorical(SeededSource(0), [2**62, 2**63, 2**62], 10_000)).tolist()
    [2458, 5018, 2524]

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
    """
    if any(weight < 0 for weight in weights) or sum(weights) != ONE:
        raise ValueError("weights must be at least 0 and add up to 2**64")
    # A bound of 2**64 is above every word, and the categories after it have weight 0:
    # no word reaches them.
    ends = accumulate(weights[:-1])
    bounds = np.array([min(end, ONE - 1) for end in ends], np.uint64)
    largest = max(index for index, weight in enumerate(weights) if weight)
    out = np.empty(size, np.intp)
    for start in range(0, size, BLOCK):
        block = out[start : start + BLOCK]
        words = source.bytes(8 * block.size).view("<u8")
        np.minimum(np.searchsorted(bounds, words, side="right"), largest, out=block)
    return out


def check_size(
    k: Any, *, least: int = 2, most: int | None = (1 << 32) - 1, name: str = "k"
) -> int:
    """Check a number of values.

    Parameters
    ----------
    k : int
        The number.
    least, most : int
        Its range; None for no largest one.
    name : str, default="k"
        The name of the parameter in errors.

    Returns
    -------
    int
        The number.

    Raises
    ------
    TypeError, ValueError
        If it is not an integer, or out of range.

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
    if most is None and k < least:
        raise ValueError(f"{name} must be at least {least}, got {k}")
    if most is not None and not least <= k <= most:
        raise ValueError(f"{name} must be between {least} and {most}, got {k}")
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
    """Check and return a one-dimensional array of integers."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"{name} must have one dimension, got {array.ndim}")
    if array.size == 0:
        return np.empty(0, np.int64)
    if array.dtype == object:
        if not all(
            type(value) is not bool and isinstance(value, Integral) for value in array
        ):
            raise TypeError(f"{name} must be integers")
        return np.array([int(value) for value in array], object)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} must be integers, got {array.dtype}")
    return array.astype(object if array.dtype == np.uint64 else np.int64, copy=False)
