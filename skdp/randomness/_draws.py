"""Exact draws from random bytes: Bernoulli, uniform, categorical and subsets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from fractions import Fraction
from itertools import accumulate
from numbers import Integral, Rational
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp._arrays import Indices, Mask
from skdp.randomness._sources import BLOCK, ByteSource, restrict_source

# Probabilities are thresholds in units of 2**-64; this is probability 1.
ONE = 1 << 64

# Audits and replays of `skdp.testing` and `skdp.evaluation` pass each draw through a
# function, the watcher. Its arguments are the name of the sampler, the drawn values and
# the parameters of the sampler; it returns the values that the sampler returns.
Drawn = TypeVar("Drawn")
Watcher = Callable[[str, Any, dict[str, Any]], Any]

_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextmanager
def watch_draws(watcher: Watcher | None) -> Iterator[None]:
    """Pass each draw in a block of code through a watcher.

    None suspends the watcher, for a sampler that uses other samplers.
    """
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


def notify_watcher(sampler: str, drawn: Drawn, **arguments: object) -> Drawn:
    """Return the values of a draw, which a watcher of an audit may record or replace.

    `sampler` is the name of the sampler, and `arguments` are its parameters for the
    watcher.
    """
    watcher = _watcher.get()
    if watcher is None:
        return drawn
    # Arguments that take time to compute are passed as functions.
    computed = {}
    for name, argument in arguments.items():
        computed[name] = argument() if callable(argument) else argument
    return watcher(sampler, drawn, computed)


def bernoulli(source: ByteSource, threshold: int, size: int) -> Mask:
    """Draw independent Bernoulli variables that are True with probability exactly ``threshold / 2**64``.

    Random bytes are compared with the bytes of the threshold until they differ, after
    1.004 bytes on average. The run time depends on the random bytes only.

    Parameters
    ----------
    source : ByteSource
        Source of the random bytes.
    threshold : int
        From 0 (never True) to 2**64 (always True).
    size : int
        Number of draws.

    Returns
    -------
    ndarray of shape (size,), dtype bool
        The draws.

    Examples
    --------
    >>> from skdp.randomness import SeededSource, bernoulli
    >>> draws = bernoulli(SeededSource(0), 3 * 2**62, 10_000)
    >>> round(float(draws.mean()), 2)
    0.75
    """
    threshold = check_size(threshold, min_val=0, max_val=ONE, name="threshold")
    if threshold == ONE:
        return np.ones(size, bool)
    digits = [*threshold.to_bytes(8, "big"), None]
    return bernoulli_of_digits(source, digits.__getitem__, size)


def bernoulli_ratio(
    source: ByteSource, numerator: int, denominator: int, size: int
) -> Mask:
    """Draw independent Bernoulli variables that are True with probability exactly ``numerator / denominator``.

    Random bytes are compared with the digits of the probability to the base 256, which
    are computed as they are needed, so the probability is never rounded. A draw uses
    1.004 bytes on average.

    Parameters
    ----------
    source : ByteSource
        Source of the random bytes.
    numerator, denominator : int
        Integers of any size with ``0 <= numerator <= denominator`` and
        ``denominator > 0``, not necessarily coprime.
    size : int
        Number of draws.

    Returns
    -------
    ndarray of shape (size,), dtype bool
        The draws.

    Raises
    ------
    TypeError, ValueError
        If the numbers are not integers, or are out of range.

    Examples
    --------
    >>> from skdp.randomness import SeededSource
    >>> draws = bernoulli_ratio(SeededSource(0), 1, 3, 10_000)
    >>> round(float(draws.mean()), 2)
    0.33
    """
    numerator = check_size(numerator, min_val=0, max_val=None, name="numerator")
    denominator = check_size(denominator, min_val=1, max_val=None, name="denominator")
    if numerator > denominator:
        raise ValueError(
            "`numerator` must be at most the denominator, got a larger numerator."
        )
    if numerator == denominator:
        return np.ones(size, bool)

    def digit(index: int) -> int | None:
        """Return ``floor(256**(index + 1) p) mod 256``; None if all further digits are 0."""
        scaled = numerator << 8 * index
        if index and scaled % denominator == 0:
            return None
        return (scaled << 8) // denominator & 255

    draws = bernoulli_of_digits(source, digit, size)
    return notify_watcher(
        "bernoulli_ratio", draws, numerator=numerator, denominator=denominator
    )


def bernoulli_of_digits(
    source: ByteSource, digit: Callable[[int], int | None], size: int
) -> Mask:
    """Draw independent Bernoulli variables of a probability p with the given digits to the base 256.

    ``digit(i)`` returns the digit of ``256**-(i + 1)``, or None if all further digits are
    0. A uniform number is below p if its first byte that differs from the digits of p is
    smaller.
    """
    out = np.empty(size, bool)
    first: Any = digit(0)
    for start in range(0, size, BLOCK):
        block = out[start : start + BLOCK]
        drawn = source.bytes(block.size)
        np.less(drawn, first, out=block)
        # Most of the small draws have no tie, which bytes find fastest.
        if first not in drawn.tobytes():
            continue
        tied = np.flatnonzero(drawn == first)
        index = 1
        while tied.size and (bound := digit(index)) is not None:
            drawn = restrict_source(source, start + tied, size).bytes(tied.size)
            block[tied] = drawn < bound
            tied = tied[drawn == bound]
            index += 1
    return out


def uniform_integers(
    source: ByteSource, high: int, size: int
) -> NDArray[np.unsignedinteger]:
    """Draw independent integers, each value of ``0, ..., high - 1`` with probability exactly ``1 / high``.

    A random word x of w bits gives the integer ``x * high >> w``. Words for which the low
    w bits of ``x * high`` are below ``2**w mod high`` are rejected, so that each integer
    has the same number of words ([1]_, algorithm 5).

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
        Integers of the smallest unsigned dtype that represents ``high - 1``.

    References
    ----------
    .. [1] D. Lemire (2019). Fast random integer generation in an interval. ACM TOMACS
       29(1).

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
        rejected = np.flatnonzero(_multiply_words(source, high, block))
        while rejected.size:
            redrawn = np.empty_like(block, shape=rejected.size)
            is_rejected = _multiply_words(
                restrict_source(source, start + rejected), high, redrawn
            )
            block[rejected] = redrawn
            rejected = rejected[is_rejected]
    return notify_watcher("uniform_integers", out, high=high)


def _multiply_words(
    source: ByteSource, high: int, out: NDArray[np.unsignedinteger]
) -> Mask:
    """Write ``x * high >> w`` for random words x of w bits to `out`, and mark the rejected words.

    The integers that are not rejected are uniform from 0 to high - 1 (Lemire 2019); the
    caller draws the rejected integers again.
    """
    # Words of twice the bits of the integers keep the probability of a rejection below
    # 2**-8 for up to 256 values, and below 2**-16 for up to 65,536.
    n_bytes, wide = (2, np.uint32) if high <= 256 else (4, np.uint64)
    words = source.bytes(out.size * n_bytes).view(f"<u{n_bytes}")
    product = np.multiply(words, high, dtype=wide)
    np.right_shift(product, 8 * n_bytes, out=out, casting="unsafe")
    return product.astype(f"<u{n_bytes}") < (1 << 8 * n_bytes) % high


def uniform_below(source: ByteSource, bounds: NDArray) -> NDArray:
    """Draw independent integers, the i-th uniform in ``0, ..., bounds[i] - 1``.

    `bounds` has dtype int64, or object for Python integers of any size.
    """
    # Rejection sampling: numbers with as many bits as ``bound - 1`` are drawn until one is
    # below the bound, less than twice on average.
    if bounds.dtype == object:
        return np.array(
            [_integer_below(source, int(bound)) for bound in bounds], object
        )
    # Set all bits below the highest bit.
    mask = bounds - 1
    for shift in (1, 2, 4, 8, 16, 32):
        mask |= mask >> shift
    out = np.empty_like(bounds)
    pending = np.arange(bounds.size)
    while pending.size:
        out[pending] = source.bytes(8 * pending.size).view("<i8") & mask[pending]
        pending = pending[out[pending] >= bounds[pending]]
    return out


def _integer_below(source: ByteSource, bound: int) -> int:
    """Draw a Python integer that is uniform in ``0, ..., bound - 1``."""
    n_bits = (bound - 1).bit_length()
    n_bytes = -(-n_bits // 8)
    while True:
        word = int.from_bytes(source.bytes(n_bytes).tobytes(), "big")
        drawn = word >> 8 * n_bytes - n_bits
        if drawn < bound:
            return drawn


def categorical(source: ByteSource, weights: Sequence[int], size: int) -> Indices:
    """Draw independent categories, category i with probability exactly ``weights[i] / 2**64``.

    Parameters
    ----------
    source : ByteSource
        Source of the random bytes. A draw uses eight bytes.
    weights : sequence of int
        Integers of at least 0 that add up to 2**64.
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
        raise ValueError(
            "`weights` must be at least 0 and add up to 2**64, got other weights."
        )
    # A word of 64 bits is in the first category whose cumulative weight exceeds it. The
    # total of 2**64 exceeds every word, and is not representable.
    cumulative = [total for total in accumulate(weights) if total < ONE]
    words = source.bytes(8 * size).view("<u8")
    return np.searchsorted(np.array(cumulative, np.uint64), words, side="right")


def subsets(
    source: ByteSource,
    n_cells: int,
    size: int,
    n: int,
    required: NDArray[np.integer] | None = None,
) -> Mask:
    """Draw independent sets of cells, each uniform among all sets of a size.

    A set consists of the cells with the smallest of independent random words of 32 bits,
    whose orders are equally likely. If the largest word of the set is also the word of
    another cell, all words of this set are drawn again.

    Parameters
    ----------
    source : ByteSource
        Source of the random bytes.
    n_cells : int
        Number of cells, at least 1.
    size : int
        Number of cells in each set, from 0 to `n_cells`; with `required`, at least 1.
    n : int
        Number of sets.
    required : ndarray of int of shape (n,), default=None
        A cell that each set must contain, or -1 for none. The other cells of the set
        are uniform.

    Returns
    -------
    ndarray of shape (n, n_cells), dtype bool
        True for the cells of each set.

    Raises
    ------
    ValueError
        If `size` is out of range.

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
    # Single bits, drawn for undecided cells only, would be 2 bits a cell, but eight times
    # the time.
    step = max(1, BLOCK // n_cells)
    for start in range(0, n, step):
        rows = np.arange(start, min(start + step, n))
        while rows.size:
            drawn = restrict_source(source, rows).bytes(4 * n_cells * rows.size)
            words = drawn.view(">u4").reshape(rows.size, n_cells).astype(np.uint32)
            if required is not None:
                # The smallest word, which may tie with the words of other cells.
                has_cell = np.flatnonzero(required[rows] >= 0)
                words[has_cell, required[rows[has_cell]]] = 0
            last_words = np.partition(words, size - 1, axis=1)[:, [size - 1]]
            bits[rows] = words <= last_words
            rows = rows[np.count_nonzero(bits[rows], axis=1) > size]
    return bits


def check_type(
    name: str, value: Any, types: Any, expected: str, *, excluded: Any = ()
) -> None:
    """Check that a parameter has one of some types, and none of the types `excluded`."""
    if not isinstance(value, types) or isinstance(value, excluded):
        raise TypeError(f"`{name}` must be {expected}, got {type(value).__name__}.")


def check_size(
    k: Any,
    *,
    min_val: int = 2,
    max_val: int | None = (1 << 32) - 1,
    name: str = "k",
) -> int:
    """Check an integer parameter, such as a number of values, and return it as a Python int.

    Without a maximum, `max_val` is None. `name` is for errors.
    """
    check_type(name, k, int | np.integer, "an integer", excluded=bool)
    if max_val is None and k < min_val:
        raise ValueError(f"`{name}` must be at least {min_val}, got {k}.")
    if max_val is not None and not min_val <= k <= max_val:
        raise ValueError(f"`{name}` must be between {min_val} and {max_val}, got {k}.")
    return int(k)


def check_rational(name: str, value: Any, *, zero: bool = False) -> Fraction:
    """Check a rational parameter, > 0 or with `zero` >= 0, and return it as a fraction."""
    check_type(name, value, Rational, "a Fraction or an int", excluded=bool)
    # NumPy integers would remain inside the fraction, and overflow.
    exact = Fraction(int(value.numerator), int(value.denominator))
    if exact < 0 or (exact == 0 and not zero):
        raise ValueError(f"`{name}` must be {'>= 0' if zero else '> 0'}, got {value}.")
    return exact


def check_integers(name: str, values: ArrayLike) -> NDArray:
    """Check a one-dimensional array of integers, and return it as int64 or Python integers."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"`{name}` must have one dimension, got {array.ndim}.")
    if array.size == 0:
        return np.empty(0, np.int64)
    if array.dtype.kind not in "iuO":
        raise TypeError(f"`{name}` must be integers, got {array.dtype}.")
    if array.dtype.kind in "iu" and array.dtype != np.uint64:
        return array.astype(np.int64, copy=False)
    for value in array:
        check_type(name, value, Integral, "integers", excluded=bool)
    return np.array(list(map(int, array)), object)
