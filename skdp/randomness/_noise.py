"""Exact draws of real probability, integer noise, and the choice of a candidate of high score."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp.exact import exp_minus_bounds
from skdp.randomness._draws import (
    BLOCK,
    ByteSource,
    check_integers,
    check_rational,
    check_size,
    coins_of_digits,
    seen,
    uniform_below,
    uniform_integers,
    watched,
)

# Function that returns, for a number of bits, two integers that enclose ``2**bits``
# times a real number.
Bounds = Callable[[int], tuple[int, int]]

# Digits of a coin that are computed ahead: a tie of all is one coin in 2**64.
_PLACES = 8

# The length of the words that are looked up among the bounds of categories.
_BITS = 62

# Floats, and tries of a rejection, at a time: they stay in the cache.
_BLOCK = 1 << 13

# How near to e^-x a word of 32 bits does not decide: 2**-32, and the errors of e^-x.
_UNDECIDED = 2.0**-31

# Larger exponents are rounded to this: the first 32 bits of a coin are the same.
_LARGE = Fraction(1 << 10)

_STEPS = 64
# e^-x is tabled in steps of 1/64, up to x = 32.
_TABLED = 32


def bernoulli_exp(
    source: ByteSource, exponents: ArrayLike, rate: Fraction | int = 1
) -> NDArray[np.bool_]:
    """Draw independent coins, the i-th True with probability exactly ``e**(-exponents[i] * rate)``."""
    rate = check_rational("rate", rate, zero=True)
    exponents = check_integers("exponents", exponents)
    if exponents.size and exponents.min() < 0:
        raise ValueError("exponents must be at least 0")
    if exponents.dtype == object:
        rounded = np.array(
            [float(min(int(exponent) * rate, _LARGE)) for exponent in exponents]
        )
    else:
        # Three roundings, each of less than 2**-52 of the product.
        rounded = exponents.astype(np.float64) * float(min(rate, _LARGE))

    def bounds(index: int) -> Bounds:
        return partial(exp_minus_bounds, int(exponents[index]) * rate)

    return settled_coins(source, rounded, bounds)


def settled_coins(
    source: ByteSource, rounded: NDArray[np.float64], bounds: Callable[[int], Bounds]
) -> NDArray[np.bool_]:
    """Draw coins of probability ``e**-x`` for exponents, given rounded, and enclosed on demand."""
    # The first 32 bits of a uniform number are compared with e^-x in floating point.
    # One coin in 2**30 is undecided: more bits of its uniform number are compared with
    # proven bounds of e^-x, in integers.
    out = np.empty(rounded.size, np.bool_)
    for start in range(0, rounded.size, _BLOCK):
        exponents = rounded[start : start + _BLOCK]
        words = source.bytes(4 * exponents.size).view("<u4")
        # The errors of the exponent and of its power are below 2**-34; a number is up
        # to 2**-32 above its word.
        gap = _exp_minus(exponents) - words * 2.0**-32
        block = out[start : start + _BLOCK]
        np.greater(gap, 0, out=block)
        for index in np.flatnonzero(np.abs(gap) <= _UNDECIDED).tolist():
            uniform = Uniform(source, int(words[index]), 32)
            block[index] = uniform.is_below(bounds(start + index))
    return out


def _exp_minus(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``e**-x`` with a proven error below 2**-36: it uses sums and products only, no library's exp."""
    # ``x = place / 64 + rest`` without rounding. The power of the first part is
    # tabulated; the series of the second one ends with rest**4 / 4!: the remainder is
    # below rest**5 / 5! < 2**-36.9. The rounding errors are of order 2**-53. Beyond x =
    # 32, e^-x is replaced by e^-32 < 2**-46.
    x = np.minimum(x, _TABLED)
    place = (x * _STEPS).astype(np.intp)
    remainder = x - place * (1 / _STEPS)
    series = 1 - remainder * (1 / 4)
    for divisor in (3, 2):
        series = 1 - remainder * (1 / divisor) * series
    return _table()[place] * (1 - remainder * series)


@lru_cache
def _table() -> NDArray[np.float64]:
    factor = exp_minus_bounds(Fraction(1, _STEPS), 192)[0]
    power = 1 << 192
    powers = []
    for _ in range(_STEPS * _TABLED + 1):
        powers.append(math.ldexp(power, -192))
        # Errors of at most 2 units add up to less than 2**-180.
        power = power * factor >> 192
    return np.array(powers)


class Uniform:
    """A uniform real number in [0, 1), of which binary digits are drawn as they are needed."""

    # The number is between ``value / 2**bits`` and ``(value + 1) / 2**bits``.

    def __init__(self, source: ByteSource, value: int = 0, bits: int = 0) -> None:
        self._source = source
        self.value = value
        self.bits = bits

    def extend(self) -> None:
        """Draw 64 more bits."""
        word = int.from_bytes(self._source.bytes(8).tobytes(), "big")
        self.value = (self.value << 64) + word
        self.bits += 64

    def is_below(self, bounds: Bounds) -> bool:
        """Whether it is below a real number: True with exactly this probability."""
        while True:
            lower, upper = bounds(self.bits)
            if self.value < lower:
                return True
            if self.value >= upper:
                return False
            self.extend()


class RealCoin:
    """Independent coins of an irrational probability, such as 1 / (1 + e)."""

    # A digit is computed from bounds of the probability, which are tightened until both
    # have the same digit: the probability is never rounded.

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        # Immutable: the object may be shared by threads.
        self._digits = self._floor(_PLACES).to_bytes(_PLACES, "big")

    def draw(self, source: ByteSource, size: int) -> NDArray[np.bool_]:
        """Toss the coin."""
        return coins_of_digits(source, self._digit, size)

    def _digit(self, place: int) -> int:
        return self._digits[place] if place < _PLACES else self._floor(place + 1) & 255

    def _floor(self, places: int) -> int:
        """Return ``floor(256**places * p)``."""
        more = 16
        while True:
            lower, upper = self._bounds(8 * places + more)
            # p is irrational, and so strictly below its upper bound: if that is an
            # integer, as where p is just below 1/2, no further bits are needed.
            if lower >> more == upper - 1 >> more:
                return lower >> more
            more *= 2


def real_categories(
    source: ByteSource, shares: Callable[[int], list[tuple[int, int]]], size: int
) -> NDArray[np.int64]:
    """Draw independent categories of real probabilities, exactly."""
    # A word of 62 bits is looked up among bounds of the cumulated probabilities. Where
    # it is between the lower and the upper bound of one, more bits are compared with
    # tighter bounds.
    ends = np.array(shares(_BITS), np.int64)  # (n_categories, 2), the last 2**62 twice
    words = source.bytes(8 * size).view("<u8") >> np.uint64(64 - _BITS)
    categories = np.searchsorted(ends[:-1, 1], words.view(np.int64), side="right")
    for index in np.flatnonzero(words >= ends[categories, 0].view(np.uint64)).tolist():
        uniform = Uniform(source, int(words[index]), _BITS)
        categories[index] = _settled_category(uniform, shares)
    return categories


def _settled_category(
    uniform: Uniform, shares: Callable[[int], list[tuple[int, int]]]
) -> int:
    def bounds(category: int, bits: int) -> tuple[int, int]:
        return shares(bits)[category]

    category = 0
    while not uniform.is_below(partial(bounds, category)):
        category += 1
    return category


# The largest scale of numbers in int64; above it, they are Python integers.
_LARGEST_SCALE = 1 << 52

# The least variance in cells: uniform places in them are nearly always accepted.
_FINENESS = 1 << 8

# Bits of a place in a cell: the last bit of a word is a sign.
_PLACE_BITS = 63


def geometric(source: ByteSource, scale: Fraction | int, size: int) -> NDArray:
    """Draw independent geometric numbers: g with probability exactly ``(1 - a) * a**g``, where ``a = e**(-1 / scale)``.

    >>> from skdp.randomness import SeededSource
    >>> round(float(geometric(SeededSource(0), 100, 100_000).mean()))
    99

    The binary digits of a geometric number are independent: digit i is 1 with the odds
    a^(2^i) to 1 ([1]_). Above the m digits that are drawn, the number continues with
    probability a^(2^m) and another number of this law: neither the probabilities, which
    are irrational, nor the tail are rounded.

    Parameters
    ----------
    source : ByteSource
        Source of the random bytes.
    scale : Fraction or int
        Positive, of any size: half above the mean, if it is large.
    size : int
        Number of numbers.

    Returns
    -------
    ndarray of shape (size,), dtype int64 or object
        The numbers; Python integers if the scale is above 2**52, to prevent overflow.

    Raises
    ------
    TypeError, ValueError
        If the scale is not rational, or not positive.

    References
    ----------
    .. [1] C. Dwork, K. Kenthapadi, F. McSherry, I. Mironov, M. Naor (2006). Our data,
       ourselves: privacy via distributed noise generation. EUROCRYPT.
    """
    return geometric_digits(check_rational("scale", scale)).draw(source, size)


def discrete_laplace(source: ByteSource, scale: Fraction | int, size: int) -> NDArray:
    """Draw independent integers z with probability exactly proportional to ``e**(-abs(z) / scale)``.

    >>> from skdp.randomness import SeededSource
    >>> noise = discrete_laplace(SeededSource(0), 1, 100_000)
    >>> round(float((noise == 0).mean()), 2), round(float(noise.var()), 1)
    (0.46, 1.8)

    With a = e^(-1/scale), the number is a `geometric` number g with probability 1 / (1
    + a), otherwise -1 - g. Added to an integer of sensitivity s, it gives s /
    scale-differential privacy, and no other noise is better for counts ([1]_).

    Parameters
    ----------
    source : ByteSource
        Source of the random bytes.
    scale : Fraction or int
        Positive, of any size; far below 1 the noise is nearly always 0.
    size : int
        Number of integers.

    Returns
    -------
    ndarray of shape (size,), dtype int64 or object
        The integers; Python integers if the scale is above 2**52, to prevent overflow.

    Raises
    ------
    TypeError, ValueError
        If the scale is not rational, or not positive.

    References
    ----------
    .. [1] A. Ghosh, T. Roughgarden, M. Sundararajan (2012). Universally
       utility-maximizing privacy mechanisms. SIAM J. Comput. 41(6).
    """
    scale = check_rational("scale", scale)
    return seen(
        "discrete_laplace",
        geometric_digits(scale).draw(source, size, signed=True),
        scale=scale,
    )


class GeometricDigits:
    """The coins for the binary digits of geometric numbers of one scale."""

    def __init__(self, scale: Fraction) -> None:
        # The number continues, with probability a**(2**m), less than once in 2**20:
        # 2**m >= 14 scale > 20 log(2) scale.
        n_digits = (math.ceil(14 * scale) - 1).bit_length()
        self._sign = RealCoin(partial(_share_bounds, 1 / scale))
        self._coins = [
            RealCoin(partial(_share_bounds, 2**digit / scale))
            for digit in range(n_digits)
        ]
        self._more = RealCoin(partial(exp_minus_bounds, 2**n_digits / scale))
        self.dtype: type = np.int64 if scale <= _LARGEST_SCALE else object

    def draw(self, source: ByteSource, size: int, *, signed: bool = False) -> NDArray:
        """Draw geometric numbers, or discrete Laplace noise."""
        out: NDArray = np.empty(size, self.dtype)
        step = 1 << len(self._coins)
        for start in range(0, size, BLOCK):
            n_draws = min(BLOCK, size - start)
            block = self._draw_digits(source, n_draws)
            continuing = np.flatnonzero(self._more.draw(source, n_draws))
            reached = 0
            while continuing.size:
                reached += step
                if reached >= 1 << 62:
                    out = out.astype(object)
                    block = block.astype(object)
                block[continuing] += step
                continuing = continuing[self._more.draw(source, continuing.size)]
            if signed:
                # -1 - g is ~g.
                block ^= -self._sign.draw(source, n_draws).astype(np.int64)
            out[start : start + n_draws] = block
        return out

    def _draw_digits(self, source: ByteSource, size: int) -> NDArray:
        """Draw the lowest binary digits, eight at a time in bytes, which is faster than in words."""
        block: NDArray = np.zeros(size, self.dtype)
        for end in range(len(self._coins), 0, -8):
            *lower, highest = self._coins[max(0, end - 8) : end]
            digits = highest.draw(source, size).view(np.uint8)
            for coin in reversed(lower):
                digits += digits
                digits |= coin.draw(source, size)
            block <<= len(lower) + 1
            block |= digits
        return block


geometric_digits = lru_cache(maxsize=32)(GeometricDigits)


def _share_bounds(exponent: Fraction, bits: int) -> tuple[int, int]:
    """Enclose ``2**bits * b / (1 + b)``, where ``b = e**-exponent``."""
    lower, upper = exp_minus_bounds(exponent, bits + 8)
    unit = 1 << bits + 8
    return (lower << bits) // (unit + lower), -(-(upper << bits) // (unit + upper))


def rounded_gaussian(
    source: ByteSource, variance: Fraction | int, size: int
) -> NDArray:
    """Draw independent integers ``round(X)``, where X is a real number of the normal law of mean 0.

    >>> from skdp.randomness import SeededSource
    >>> noise = rounded_gaussian(SeededSource(0), 100, 100_000)
    >>> round(float(noise.mean())), round(float(noise.std()))
    (0, 10)

    The integer z has exactly the probability of the real event ``-1/2 <= X - z < 1/2``.
    An integer plus ``round(X)`` is the rounded sum with X: post-processing of the ideal
    Gaussian mechanism, whose proofs apply.

    The line is cut into cells of a length ``1 / m``, where m is an even power of two,
    so that a cell rounds to one integer. In units of cells, the distance from 0 is half
    of a normal law of variance ``s = m**2 * variance``, and is drawn by rejection
    ([1]_, algorithm N): propose a geometric cell k of scale t and a uniform place U in
    it; accept with the probability e^-f, ::

        f = (k - s / t)**2 / (2 s)  +  U * (2 k + U) / (2 s)  =  (k + U)**2 / (2 s) - k
        / t + s / (2 t**2).

    As the proposal's density is proportional to e^(-k/t), the accepted one is to e^(-(k
    + U)^2 / 2s). The two terms on the left are at least 0, so e^-f is a probability;
    with t near the root of s, about 3 of 4 are accepted.

    Coins are tossed with floats of a proven error; the one in 2**30 that is undecided
    is settled by further bits of U, and of the coin: f increases with U.

    Parameters
    ----------
    source : ByteSource
        Source of the random bytes.
    variance : Fraction or int
        Variance of X; positive, of any size.
    size : int
        Number of integers.

    Returns
    -------
    ndarray of shape (size,), dtype int64 or object
        The integers; Python integers if the variance is above about 2**102, to prevent
        overflow.

    Raises
    ------
    TypeError, ValueError
        If the variance is not rational, or not positive.

    Notes
    -----
    **Privacy.** Added to integers that one person changes by at most s (in Euclidean
    norm, for a vector), it gives s / sqrt(variance)-Gaussian differential privacy
    ([2]_, theorem 2.7), and so s^2 / (2 variance)-concentrated, exactly: no probability
    is rounded.

    References
    ----------
    .. [1] C. F. F. Karney (2016). Sampling exactly from the normal distribution. ACM
       Transactions on Mathematical Software 42(1).
    .. [2] J. Dong, A. Roth, W. J. Su (2022). Gaussian differential privacy. Journal of
       the Royal Statistical Society B 84(1). Numbers as in arXiv:1905.02383.
    """
    exact = check_rational("variance", variance)
    halvings = max(1, (math.ceil(_FINENESS / exact) - 1).bit_length() + 1 >> 1)
    cell_variance = exact * 4**halvings
    scale = math.isqrt(math.floor(cell_variance))
    geometric = geometric_digits(Fraction(scale))
    out: NDArray = np.empty(size, geometric.dtype)
    filled = 0
    while filled < size:
        n_tries = min(_BLOCK, (size - filled) * 3 // 2 + 8)
        cells = geometric.draw(source, n_tries)
        # A word is a place in the cell, and a sign.
        words = source.bytes(8 * n_tries).view("<i8")
        places = words & (1 << _PLACE_BITS) - 1
        is_accepted = _accepted(source, cells, places, cell_variance, scale)
        accepted = np.flatnonzero(is_accepted)[: size - filled]
        # A cell has length 1 / 2**halvings; an integer is in the middle of the cells
        # that round to it.
        nearest = (cells[accepted] >> halvings - 1) + 1 >> 1
        signed = np.where(words[accepted] < 0, -nearest, nearest)
        out[filled : filled + accepted.size] = signed
        filled += accepted.size
    return seen("rounded_gaussian", out, variance=exact)


def _accepted(
    source: ByteSource,
    cells: NDArray,
    places: NDArray[np.int64],
    variance: Fraction,
    scale: int,
) -> NDArray[np.bool_]:
    """Toss coins of probability e^-f."""
    # The float exponent is wrong by less than ``2**-42 * max(1, f)``: its terms are
    # products and sums of positive floats, except ``ratio - share``, where share is
    # between 1 and 1.14; and the bits of U that are not yet drawn, or that a float
    # cannot hold, change f by less than ``2**-52 * (k + 1) / variance < 2**-52 * max(1,
    # f)``.
    ratio = (cells / scale).astype(np.float64)
    share = float(variance / scale**2)
    cell_length = float(Fraction(1, scale))
    place = places * 2.0**-_PLACE_BITS
    steps = (ratio - share) ** 2
    curve = place * (2 * ratio + place * cell_length) * cell_length

    def bounds(index: int) -> Bounds:
        place = Uniform(source, int(places[index]), _PLACE_BITS)
        return partial(_acceptance_bounds, int(cells[index]), place, variance, scale)

    return settled_coins(source, (steps + curve) * (0.5 / share), bounds)


def _acceptance_bounds(
    cell: int, place: Uniform, variance: Fraction, scale: int, bits: int
) -> tuple[int, int]:
    """Enclose ``2**bits * e**-f``, with at least `bits` bits of the place."""
    while place.bits < bits:
        place.extend()
    start = Fraction(place.value, 1 << place.bits)
    end = Fraction(place.value + 1, 1 << place.bits)
    lower = exp_minus_bounds(_exponent(cell, end, variance, scale), bits)[0]
    upper = exp_minus_bounds(_exponent(cell, start, variance, scale), bits)[1]
    return lower, upper


def _exponent(cell: int, place: Fraction, variance: Fraction, scale: int) -> Fraction:
    steps = (cell - variance / scale) ** 2
    curve = place * (2 * cell + place)
    return (steps + curve) / (2 * variance)


def cube_noise(
    source: ByteSource, scale: Fraction | int, dimension: int, size: int = 1
) -> NDArray:
    """Draw integer vectors z with probability exactly proportional to ``e**(-max(abs(z)) / scale)``.

    >>> from skdp.randomness import SeededSource
    >>> cube_noise(SeededSource(0), 1000, 3)
    array([[ 1701, -6895,  2517]])

    This is the K-norm mechanism ([1]_) of the maximum norm ([2]_): where a row changes
    each of several integers by at most s, adding such a vector to them is s /
    scale-differentially private.

    With a = e^(-1/scale), the vector is uniform in a cube {-M, …, M}^D whose radius has
    the weights ``(2 * M + 1)**D * a**M``: together, the cubes that contain z give it
    ``a**max(abs(z)) / (1 - a)``. The radius is k plus D + 1 geometric numbers, where k
    = 0, …, D has the weights ``B(D, k) * a**k`` with the Eulerian numbers of type B:
    the generating function of (2 M + 1)^D is ``sum_k B(D, k) * x**k / (1 - x)**(D +
    1)`` ([3]_).

    Parameters
    ----------
    source : ByteSource
        Source of the random bytes.
    scale : Fraction or int
        Positive, of any size.
    dimension : int
        Number of integers in a vector, at least 1.
    size : int, default=1
        Number of vectors.

    Returns
    -------
    ndarray of shape (size, dimension), dtype int64 or object
        The vectors; of Python integers if ``(dimension + 1) * scale`` is above 2**52,
        to prevent overflow.

    Raises
    ------
    TypeError, ValueError
        If the scale is not rational, the dimension is not an integer, or one of them is
        not positive.

    References
    ----------
    .. [1] M. Hardt, K. Talwar (2010). On the geometry of differential privacy. STOC.
    .. [2] T. Steinke, J. Ullman (2016). Between pure and approximate differential
       privacy. J. Privacy and Confidentiality 7(2).
    .. [3] F. Brenti (1994). q-Eulerian polynomials arising from Coxeter groups.
       European J. Combin. 15(5).
    """
    scale = check_rational("scale", scale)
    dimension = check_size(dimension, least=1, name="dimension")
    n_parts = dimension + 1
    parts = geometric(source, scale, size * n_parts).reshape(size, n_parts)
    most = int(parts.max(initial=0))
    if n_parts * scale > _LARGEST_SCALE or most > (1 << 61) // n_parts:
        parts = parts.astype(object)
    shares = partial(_radius_shares, 1 / scale, dimension)
    radius = parts.sum(axis=1) + real_categories(source, shares, size)
    radius = np.repeat(radius, dimension)
    vectors = uniform_below(source, 2 * radius + 1) - radius
    return seen("cube_noise", vectors.reshape(size, dimension), scale=scale)


def _radius_shares(
    exponent: Fraction, dimension: int, bits: int
) -> list[tuple[int, int]]:
    """Enclose ``2**bits`` times the probabilities that k is at most 0, …, D."""
    numbers = _eulerian_numbers(dimension)
    # The errors of the weights are up to B(D, k) times those of the powers; their sum
    # is at least B(D, 0) = 1.
    precision = bits + sum(numbers).bit_length() + 8
    below, above = exp_minus_bounds(exponent, precision)
    low_power = high_power = 1 << precision
    low_sums = [0]
    high_sums = [0]
    for number in numbers:
        low_sums.append(low_sums[-1] + number * low_power)
        high_sums.append(high_sums[-1] + number * high_power)
        low_power = low_power * below >> precision
        high_power = (high_power * above >> precision) + 1

    # A share is smallest if its weights are at their lower bounds and the others at
    # their upper ones, and vice versa.
    bounds = []
    for low, high in zip(low_sums[1:], high_sums[1:], strict=True):
        least = (low << bits) // (low + high_sums[-1] - high)
        most = -(-(high << bits) // (high + low_sums[-1] - low))
        bounds.append((least, most))
    return bounds


@lru_cache(maxsize=32)
def _eulerian_numbers(dimension: int) -> tuple[int, ...]:
    """Return the Eulerian numbers of type B: the coefficients of ``(1 - x)**(D + 1) * sum_M (2 M + 1)**D * x**M``."""
    # The recurrence follows from F_(D+1) = F_D + 2 x F_D', where F_D is the sum.
    numbers = [1]
    for d in range(1, dimension + 1):
        padded = [0, *numbers, 0]
        numbers = []
        for k in range(d + 1):
            numbers.append((2 * k + 1) * padded[k + 1] + (2 * (d - k) + 1) * padded[k])
    return tuple(numbers)


def permute_and_flip(
    source: ByteSource, scores: ArrayLike, rate: Fraction | int
) -> int:
    """Choose a candidate of a high score by permute-and-flip.

    >>> from skdp.randomness import SeededSource
    >>> permute_and_flip(SeededSource(0), [10, 40, 20], Fraction(1, 2))
    1

    The mechanism goes through the candidates in random order, and stops at the first
    one whose coin, of probability ``e**(-rate * (best - score))``, shows heads ([1]_,
    algorithm 1). The coins do not depend on the order: all are tossed, and one of the
    heads is chosen uniformly.

    With ``rate = epsilon / (2 * sensitivity)``, the choice is epsilon-differentially
    private (without the 2 if one row can only raise the scores, or only lower them); in
    expectation it is never worse than the exponential mechanism's.

    Parameters
    ----------
    source : ByteSource
        Source of the random bytes.
    scores : array-like of int, shape (n_candidates,)
        The higher the better; at least one.
    rate : Fraction or int
        Not negative; 0 chooses uniformly.

    Returns
    -------
    int
        The index of the chosen candidate.

    Raises
    ------
    TypeError, ValueError
        If the scores are not integers, there are none, or the rate is not rational, or
        negative.

    References
    ----------
    .. [1] R. McKenna, D. Sheldon (2020). Permute-and-flip: a new mechanism for
       differentially private selection. NeurIPS.
    """
    heads = np.flatnonzero(bernoulli_exp(source, _gaps(scores), rate))
    with watched(None):
        place = uniform_integers(source, heads.size, 1)[0]
    choice = int(heads[place])
    return seen("permute_and_flip", choice, scores=scores, rate=rate)


def exponential_mechanism(
    source: ByteSource, scores: ArrayLike, rate: Fraction | int
) -> int:
    """Choose a candidate with probability exactly proportional to ``e**(rate * score)``.

    >>> from skdp.randomness import SeededSource
    >>> exponential_mechanism(SeededSource(0), [10, 40, 20], Fraction(1, 2))
    1

    A candidate is drawn uniformly and accepted with probability ``e**(-rate * (best -
    score))``, until one is accepted. With ``rate = epsilon / (2 * sensitivity)``, the
    choice is epsilon-differentially private (without the 2 if one row can only raise
    the scores, or only lower them) ([1]_). The number of tries, and with it the run
    time, depends on the scores, unlike that of `permute_and_flip`.

    Parameters
    ----------
    source, scores, rate : ByteSource, array-like of int, and Fraction or int
        As for `permute_and_flip`.

    Returns
    -------
    int
        The index of the chosen candidate.

    Raises
    ------
    TypeError, ValueError
        As for `permute_and_flip`.

    References
    ----------
    .. [1] F. McSherry, K. Talwar (2007). Mechanism design via differential privacy.
       FOCS.
    """
    gaps = _gaps(scores)
    rate = check_rational("rate", rate, zero=True)
    n_tries = 1 << 10
    while True:
        with watched(None):
            proposed = uniform_integers(source, gaps.size, n_tries)
        accepted = proposed[bernoulli_exp(source, gaps[proposed], rate)]
        if accepted.size:
            choice = int(accepted[0])
            return seen("exponential_mechanism", choice, scores=scores, rate=rate)
        n_tries = min(2 * n_tries, BLOCK)


# A little more than log(2).
_HALVING = Fraction(711, 1024)


def unimodal_choice(
    source: ByteSource,
    size: int,
    within: Callable[[int], tuple[int, int]],
    gap: Callable[[int], int],
    rate: Fraction | int,
    scores: Callable[[], ArrayLike] = tuple,
) -> int:
    """Choose by the exponential mechanism among very many candidates, in an order in which scores rise and then fall.

    The probabilities are those of `exponential_mechanism`, but only the candidate that
    is drawn is looked at.

    Parameters
    ----------
    source : ByteSource
        Source of the random bytes.
    size : int
        The number of candidates, at least 1.
    within : callable
        Returns the range (start, stop) of the candidates whose score is at most this
        far below the best one, for an integer >= 0.
    gap : callable
        Returns how far the score of a candidate is below the best one, an integer.
    rate : Fraction or int
        Positive.
    scores : callable, optional
        Returns the scores of some candidates, for an audit.

    Returns
    -------
    int
        The index of the chosen candidate.

    Raises
    ------
    TypeError, ValueError
        If there is no candidate, or the rate is not rational, or not positive.

    Examples
    --------
    >>> from skdp.randomness import SeededSource
    >>> best, size = 10**15, 10**18
    >>> unimodal_choice(
    ...     SeededSource(0),
    ...     size,
    ...     within=lambda far: (max(best - far, 0), min(best + far + 1, size)),
    ...     gap=lambda index: abs(index - best),
    ...     rate=Fraction(1, 1000),
    ... )
    1000000000000365
    """
    # Rejection sampling by bands: band t has the candidates with ``gap * rate`` from t
    # log(2) to (t + 1) log(2), or a little more, and so with a weight ``exp(-gap *
    # rate)`` of at most 2**-t. One of them is proposed with a probability in proportion
    # to 2**-t, and accepted if a uniform number below 2**-t is below its weight: in
    # about half of the cases or more. The last band has all candidates that are left,
    # which are rarely accepted: together they are proposed at most 2**-20 times as
    # often as the best one.
    size = check_size(size, least=1, most=None, name="size")
    rate = check_rational("rate", rate)
    ranges: list[tuple[int, int]] = []
    for band in range(size.bit_length() + 20):
        ranges.append(within(math.ceil((band + 1) * _HALVING / rate) - 1))
        if ranges[-1] == (0, size):
            break
    else:
        ranges.append((0, size))

    # A band is what its range has on both sides of the one before. Its weight is its
    # size times 2**-band, in units of the last band's.
    inner = [(ranges[0][0], ranges[0][0]), *ranges[:-1]]
    last_band = len(ranges) - 1
    ends = [0]
    for band, (start, stop) in enumerate(ranges):
        inner_start, inner_stop = inner[band]
        n_candidates = stop - start - (inner_stop - inner_start)
        ends.append(ends[-1] + (n_candidates << last_band - band))
    while True:
        with watched(None):
            place = int(uniform_below(source, np.array([ends[-1]], object))[0])
        band = bisect_right(ends, place) - 1
        index = ranges[band][0] + (place - ends[band] >> last_band - band)
        inner_start, inner_stop = inner[band]
        if index >= inner_start:
            index += inner_stop - inner_start
        weight = partial(exp_minus_bounds, gap(index) * rate)
        if Uniform(source, 0, band).is_below(weight):
            return seen("exponential_mechanism", index, scores=scores, rate=rate)


def _gaps(scores: ArrayLike) -> NDArray:
    """Return how far each score is below the best."""
    scores = check_integers("scores", scores)
    if scores.size == 0:
        raise ValueError("scores must have at least one candidate")
    best = int(scores.max())
    if best - int(scores.min()) >= 1 << 63:
        scores = scores.astype(object)
    return best - scores
