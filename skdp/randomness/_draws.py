"""Exact draws of rational probability: coins (Bernoulli draws), uniform integers and categories."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from fractions import Fraction
from functools import lru_cache
from numbers import Integral, Rational
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp.randomness._sources import BLOCK, ONE, ByteSource, rows_of
from skdp.randomness._word_table import WordTable

_MANY = 1 << 14  # from this number of coins on, eight are drawn at once

Drawn = TypeVar("Drawn")
Watcher = Callable[[str, Any, dict[str, Any]], Any]
"""Called with the name of a sampler, what it drew and its other arguments; returns what the sampler returns."""

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
    return watcher(
        sampler,
        drawn,
        {name: one() if callable(one) else one for name, one in parameters.items()},
    )


def bernoulli(source: ByteSource, threshold: int, size: int) -> NDArray[np.bool_]:
    """Draw independent coins that are True with probability exactly ``threshold / 2**64``.

    The bytes of a coin are compared with those of the threshold until they differ: 1.004 bytes on average. From 2**14
    coins on, 16 random bits draw eight coins from a `WordTable`, with the same exact probabilities. The run time
    depends on the random bytes only.

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
    >>> from skdp.randomness import SeededSource
    >>> coins = bernoulli(SeededSource(0), 3 * 2**62, 10_000)
    >>> round(float(coins.mean()), 2)
    0.75
    """
    threshold = _check_between("threshold", threshold, 0, 64)
    if threshold == ONE:
        return np.ones(size, bool)
    if size >= _MANY:
        n_bytes = -(-size // 8)
        fair = threshold == ONE // 2  # then the random bits are the coins
        packed = (
            source.bytes(n_bytes)
            if fair
            else eight_coins((threshold,) * 8).draw(source, n_bytes)
        )
        return np.unpackbits(packed, count=size).view(bool)
    digits = threshold.to_bytes(8, "big")
    return coins_of_digits(
        source, lambda place: digits[place] if place < 8 else None, size
    )


def bernoulli_ratio(
    source: ByteSource, numerator: int, denominator: int, size: int
) -> NDArray[np.bool_]:
    """Draw independent coins that are True with probability exactly numerator / denominator.

    The bytes of a coin are compared with the probability's digits to the base 256, of which as many are computed as
    needed: the probability is never rounded. A coin costs 1.004 bytes on average.

    Parameters
    ----------
    source : ByteSource
        Source of the random bytes.
    numerator, denominator : int
        ``0 <= numerator <= denominator`` and ``denominator > 0``; of any size, not necessarily coprime.
    size : int
        Number of coins.

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
    numerator, denominator = (
        _check_int("numerator", numerator),
        _check_int("denominator", denominator),
    )
    if not 0 <= numerator <= denominator or denominator == 0:
        raise ValueError(
            "a probability needs 0 <= numerator <= denominator and denominator > 0"
        )
    if numerator == denominator:
        return np.ones(size, bool)
    digits: list[int] = []
    remainder = numerator

    def digit(place: int) -> int | None:
        nonlocal remainder
        if place == len(digits):
            if place and remainder == 0:
                return None  # all further digits are 0
            found, remainder = divmod(256 * remainder, denominator)
            digits.append(found)
        return digits[place]

    return seen(
        "bernoulli_ratio",
        coins_of_digits(source, digit, size),
        numerator=numerator,
        denominator=denominator,
    )


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


@lru_cache(maxsize=32)
def eight_coins(thresholds: tuple[int, ...]) -> WordTable:
    """Build a table that draws eight independent coins as the bits of a byte.

    Parameters
    ----------
    thresholds : tuple of eight int
        Each from 0 to 2**64; a coin is True with probability exactly ``threshold / 2**64``. The first coin is the
        highest bit.

    Returns
    -------
    WordTable
        Its `draw` returns bytes, each with probability exactly the product of those of its bits.

    Examples
    --------
    >>> from skdp.randomness import ONE, SeededSource, eight_coins
    >>> eight_coins((ONE, 0, 0, 0, 0, 0, ONE, ONE)).draw(SeededSource(0), 2)
    array([131, 131], dtype=uint8)
    """
    weights = [1]
    for threshold in thresholds:
        weights = [
            weight * side for weight in weights for side in (ONE - threshold, threshold)
        ]
    return WordTable([weights], np.arange(256, dtype=np.uint8))


def uniform_integers(
    source: ByteSource, high: int, size: int
) -> NDArray[np.unsignedinteger]:
    """Draw independent integers, each value of ``0, ..., high - 1`` with probability exactly ``1 / high``.

    A word x of w bits gives the integer ``x * high >> w``; words whose low half falls into the ``2**w mod high``
    surplus values are drawn again, so there is no modulo bias (Lemire 2019, algorithm 5).

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
    >>> from skdp.randomness import SeededSource
    >>> np.bincount(uniform_integers(SeededSource(0), 3, 9_000)).tolist()
    [2959, 3062, 2979]
    """
    high = _check_between("high", high, 1, 32)
    out = np.empty(size, np.min_scalar_type(high - 1))
    if high <= 256 and 256 % high == 0:
        for start in range(0, size, BLOCK):
            block = out[start : start + BLOCK]
            np.bitwise_and(source.bytes(block.size), np.uint8(high - 1), out=block)
        return seen("uniform_integers", out, high=high)
    # Words twice as wide as the integers keep a second draw rare: below 2**-8 up to 256 values, 2**-16 up to 65,536.
    bits = 16 if high <= 256 else 32
    surplus = (1 << bits) % high
    for start in range(0, size, BLOCK):
        block = out[start : start + BLOCK]
        again = np.flatnonzero(multiply_words(source, high, bits, block) < surplus)
        while again.size:
            redrawn = np.empty_like(block, shape=again.size)
            low = multiply_words(rows_of(source, start + again), high, bits, redrawn)
            block[again] = redrawn
            again = again[low < surplus]
    return seen("uniform_integers", out, high=high)


def multiply_words(
    source: ByteSource, high: int, bits: int, out: NDArray[np.unsignedinteger]
) -> NDArray[np.unsignedinteger]:
    """Write ``x * high >> bits`` for random words x of `bits` bits, and return the low halves of the products."""
    wide: type[np.unsignedinteger] = np.uint32 if bits == 16 else np.uint64
    words = source.bytes(out.size * (bits // 8)).view(f"<u{bits // 8}")
    product = np.multiply(words, wide(high), dtype=wide)
    np.right_shift(product, wide(bits), out=out, casting="unsafe")
    low: NDArray[np.unsignedinteger] = product.astype(
        np.uint16 if bits == 16 else np.uint32
    )
    return low


def uniform_below(source: ByteSource, bounds: NDArray) -> NDArray:
    """Draw independent integers, the i-th uniform in ``0 .. bounds[i] - 1``."""
    # Draw the bits of the bound until the number is below it: less than twice on average.
    if bounds.dtype == object:
        return np.array([_below(source, int(bound)) for bound in bounds], object)
    mask = bounds - 1
    for shift in (1, 2, 4, 8, 16, 32):
        mask |= mask >> shift
    out = source.bytes(8 * bounds.size).view("<i8") & mask
    again = np.flatnonzero(out >= bounds)
    while again.size:
        out[again] = source.bytes(8 * again.size).view("<i8") & mask[again]
        again = again[out[again] >= bounds[again]]
    return out


def _below(source: ByteSource, bound: int) -> int:
    bits = (bound - 1).bit_length()
    n_bytes = -(-bits // 8)
    while True:
        drawn = int.from_bytes(source.bytes(n_bytes).tobytes(), "big") >> (
            8 * n_bytes - bits
        )
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
    >>> from skdp.randomness import SeededSource
    >>> np.bincount(categorical(SeededSource(0), [2**62, 2**63, 2**62], 10_000)).tolist()
    [2458, 5018, 2524]
    """
    if any(weight < 0 for weight in weights) or sum(weights) != ONE:
        raise ValueError("weights must be at least 0 and add up to 2**64")
    bounds = np.empty(len(weights) - 1, np.uint64)
    total = 0
    for index, weight in enumerate(weights[:-1]):
        total += weight
        # A bound of 2**64 is above every word, and the categories after it have weight 0: no word reaches them.
        bounds[index] = min(total, ONE - 1)
    out = np.empty(size, np.intp)
    last = max(index for index, weight in enumerate(weights) if weight)
    for start in range(0, size, BLOCK):
        block = out[start : start + BLOCK]
        words = source.bytes(8 * block.size).view("<u8")
        np.minimum(np.searchsorted(bounds, words, side="right"), last, out=block)
    return out


def check_rational(name: str, value: Any, *, zero: bool = False) -> Fraction:
    """Check a rational parameter and return it as a fraction."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Rational):
        raise TypeError(
            f"{name} must be a Fraction or an int, got {type(value).__name__}"
        )
    # NumPy integers would remain inside the fraction, and overflow.
    exact = Fraction(int(value.numerator), int(value.denominator))
    if exact < 0 or (exact == 0 and not zero):
        raise ValueError(f"{name} must be {'>= 0' if zero else '> 0'}, got {value}")
    return exact


def _check_int(name: str, value: Any) -> int:
    """Check and return an integer."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an int, got {type(value).__name__}")
    return int(value)


def _check_between(name: str, value: Any, least: int, bits: int) -> int:
    """Check and return an integer from `least` to 2**bits."""
    whole = _check_int(name, value)
    if not least <= whole <= 1 << bits:
        raise ValueError(f"{name} must be between {least} and 2**{bits}, got {whole}")
    return whole


def check_positive_int(name: str, value: Any) -> int:
    """Check and return a positive integer."""
    whole = _check_int(name, value)
    if whole < 1:
        raise ValueError(f"{name} must be at least 1, got {whole}")
    return whole


def check_integers(name: str, values: ArrayLike) -> NDArray:
    """Check and return a one-dimensional array of integers."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"{name} must have one dimension, got {array.ndim}")
    if array.dtype == object or array.size == 0:
        if not all(
            isinstance(value, Integral) and not isinstance(value, bool)
            for value in array
        ):
            raise TypeError(f"{name} must be integers")
        return np.array(
            [int(value) for value in array], object if array.size else np.int64
        )
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} must be integers, got {array.dtype}")
    return array.astype(object if array.dtype == np.uint64 else np.int64, copy=False)
