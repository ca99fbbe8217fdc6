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
    draw_coins,
    notify_watcher,
    uniform_below,
    uniform_integers,
    watch_draws,
)

# Function that returns, for a number of bits, two integers that enclose ``2**bits``
# times a real number.
Bounds = Callable[[int], tuple[int, int]]

# Draws of a rejection sampler per block, whose floats fit in the cache.
_BLOCK = 1 << 13

# Larger exponents are rounded to this: the first 32 bits of a coin are the same.
_MAX_EXPONENT = Fraction(1 << 10)

# A word of 32 bits is up to 2**-32 below its uniform number, and the error of e^-x in
# floating point is far below another 2**-32.
_MAX_ERROR = 2.0**-31

# Digits to the base 256 of a coin that are computed in advance; one coin in 2**64
# needs more.
_N_DIGITS = 8

# Bits of a word that is looked up among the bounds of categories.
_WORD_BITS = 62

# Larger scales need Python integers, as numbers could exceed 64 bits.
_MAX_INT64_SCALE = 1 << 52

# Bits of a position in a cell: the last bit of a word is a sign.
_POSITION_BITS = 63


class Uniform:
    """A uniform real number in [0, 1) whose binary digits are drawn on demand."""

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
        """Compare with a real number: True with exactly this probability."""
        while True:
            lower, upper = bounds(self.bits)
            if self.value < lower:
                return True
            if self.value >= upper:
                return False
            self.extend()


def bernoulli_exp(
    source: ByteSource, exponents: ArrayLike, rate: Fraction | int = 1
) -> NDArray[np.bool_]:
    """Draw independent coins, the i-th True with probability exactly ``e**(-exponents[i] * rate)``."""
    rate = check_rational("rate", rate, zero=True)
    exponents = check_integers("exponents", exponents)
    if exponents.size and exponents.min() < 0:
        raise ValueError("exponents must be at least 0")
    if exponents.dtype == object:
        exact = [min(int(exponent) * rate, _MAX_EXPONENT) for exponent in exponents]
        rounded = np.array(exact, np.float64)
    else:
        # Three roundings, each of less than 2**-52 of the product.
        rounded = exponents.astype(np.float64) * float(min(rate, _MAX_EXPONENT))

    def bounds(index: int) -> Bounds:
        return partial(exp_minus_bounds, int(exponents[index]) * rate)

    return draw_exp_coins(source, rounded, bounds)


def draw_exp_coins(
    source: ByteSource, rounded: NDArray[np.float64], bounds: Callable[[int], Bounds]
) -> NDArray[np.bool_]:
    """Draw coins of probability ``e**-x`` for rounded exponents x and functions that bound ``e**-x``."""
    # The first 32 bits of a uniform number are compared with e^-x in floating point.
    # This leaves one coin in 2**30 undecided. For it, more bits are compared with
    # proven integer bounds of e^-x.
    out = np.empty(rounded.size, np.bool_)
    for start in range(0, rounded.size, _BLOCK):
        exponents = rounded[start : start + _BLOCK]
        words = source.bytes(4 * exponents.size).view("<u4")
        # The errors of the exponent and of its power are below 2**-34: NumPy's exp is
        # exact to 4 units in the last place.
        gap = np.exp(-exponents) - words * 2.0**-32
        block = out[start : start + _BLOCK]
        np.greater(gap, 0, out=block)
        for index in np.flatnonzero(np.abs(gap) <= _MAX_ERROR).tolist():
            uniform = Uniform(source, int(words[index]), 32)
            block[index] = uniform.is_below(bounds(start + index))
    return out


class RealCoin:
    """Independent coins of an irrational probability, such as 1 / (1 + e)."""

    # A digit is computed from bounds of the probability, which are tightened until both
    # have the same digit: the probability is never rounded.

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        # Immutable: the object may be shared by threads.
        self._digits = self._floor(_N_DIGITS).to_bytes(_N_DIGITS, "big")

    def draw(self, source: ByteSource, size: int) -> NDArray[np.bool_]:
        """Toss the coin."""
        return draw_coins(source, self._digit, size)

    def _digit(self, index: int) -> int:
        if index < _N_DIGITS:
            return self._digits[index]
        return self._floor(index + 1) & 255

    def _floor(self, n_digits: int) -> int:
        """Return ``floor(256**n_digits * p)``."""
        n_extra = 16
        while True:
            lower, upper = self._bounds(8 * n_digits + n_extra)
            # p is irrational, and so strictly below its upper bound. If the bound is an
            # integer, such as for p just below 1/2, no further bits are needed.
            if lower >> n_extra == upper - 1 >> n_extra:
                return lower >> n_extra
            n_extra *= 2


def real_categories(
    source: ByteSource,
    cumulated_bounds: Callable[[int], list[tuple[int, int]]],
    size: int,
) -> NDArray[np.int64]:
    """Draw independent categories of real probabilities exactly, given bounds of the cumulated probabilities."""
    # A word is looked up among the bounds. If it is between the lower and the upper
    # bound of an endpoint, more bits are compared with tighter bounds.
    bounds = np.array(cumulated_bounds(_WORD_BITS), np.int64)  # (n_categories, 2)
    words = source.bytes(8 * size).view("<u8") >> np.uint64(64 - _WORD_BITS)
    categories = np.searchsorted(bounds[:-1, 1], words.view(np.int64), side="right")
    is_tied = words >= bounds[categories, 0].view(np.uint64)
    for index in np.flatnonzero(is_tied).tolist():
        uniform = Uniform(source, int(words[index]), _WORD_BITS)
        category = 0
        while not uniform.is_below(
            partial(_bounds_of_category, cumulated_bounds, category)
        ):
            category += 1
        categories[index] = category
    return categories


def _bounds_of_category(
    cumulated_bounds: Callable[[int], list[tuple[int, int]]], category: int, bits: int
) -> tuple[int, int]:
    return cumulated_bounds(bits)[category]


def geometric(source: ByteSource, scale: Fraction | int, size: int) -> NDArray:
    """Draw independent geometric numbers: g with probability exactly ``(1 - a) * a**g``, where ``a = e**(-1 / scale)``.

    The binary digits of a geometric number are independent: digit i is 1 with the odds
    a^(2^i) to 1 ([1]_). Above the m digits that are drawn, the number continues with
    probability a^(2^m) and another number of this distribution: neither the probabilities, which
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

    Examples
    --------
    >>> from skdp.randomness import SeededSource, geometric
    >>> round(float(geometric(SeededSource(0), 100, 100_000).mean()))
    99
    """
    return geometric_digits(check_rational("scale", scale)).draw(source, size)


def discrete_laplace(source: ByteSource, scale: Fraction | int, size: int) -> NDArray:
    """Draw independent integers z with probability exactly proportional to ``e**(-abs(z) / scale)``.

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

    Examples
    --------
    >>> from skdp.randomness import SeededSource, discrete_laplace
    >>> noise = discrete_laplace(SeededSource(0), 1, 100_000)
    >>> round(float((noise == 0).mean()), 2), round(float(noise.var()), 1)
    (0.46, 1.8)
    """
    scale = check_rational("scale", scale)
    noise = geometric_digits(scale).draw(source, size, signed=True)
    return notify_watcher("discrete_laplace", noise, scale=scale)


class GeometricDigits:
    """The coins for the binary digits of geometric numbers of one scale."""

    def __init__(self, scale: Fraction) -> None:
        # The number continues, with probability a**(2**m), less than once in 2**20:
        # 2**m >= 14 scale > 20 log(2) scale.
        n_digits = (math.ceil(14 * scale) - 1).bit_length()
        self._sign = RealCoin(partial(_odds_bounds, 1 / scale))
        self._coins = [
            RealCoin(partial(_odds_bounds, 2**digit / scale))
            for digit in range(n_digits)
        ]
        self._more = RealCoin(partial(exp_minus_bounds, 2**n_digits / scale))
        self.dtype: type = np.int64 if scale <= _MAX_INT64_SCALE else object

    def draw(self, source: ByteSource, size: int, *, signed: bool = False) -> NDArray:
        """Draw geometric numbers, or discrete Laplace noise."""
        out: NDArray = np.empty(size, self.dtype)
        step = 1 << len(self._coins)
        for start in range(0, size, BLOCK):
            n_draws = min(BLOCK, size - start)
            block = self._draw_digits(source, n_draws)
            # At a scale of 2**52, more than 32 continuations exceed 63 bits: less than
            # once in 2**640.
            continuing = np.flatnonzero(self._more.draw(source, n_draws))
            while continuing.size:
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


@lru_cache(maxsize=32)
def geometric_digits(scale: Fraction) -> GeometricDigits:
    """Return the coins of a scale; one release often draws several times with one scale."""
    return GeometricDigits(scale)


def _odds_bounds(exponent: Fraction, bits: int) -> tuple[int, int]:
    """Enclose ``2**bits * b / (1 + b)``, where ``b = e**-exponent``."""
    lower, upper = exp_minus_bounds(exponent, bits + 8)
    unit = 1 << bits + 8
    return (lower << bits) // (unit + lower), -(-(upper << bits) // (unit + upper))


def rounded_gaussian(
    source: ByteSource, variance: Fraction | int, size: int
) -> NDArray:
    """Draw independent integers ``round(X)``, where X is normal with mean 0.

    The integer z has exactly the probability of the real event ``-1/2 <= X - z < 1/2``.
    An integer plus ``round(X)`` is the rounded sum with X: post-processing of the ideal
    Gaussian mechanism, whose proofs apply.

    The line is cut into cells of a length ``1 / m``, where m is an even power of two,
    so that a cell rounds to one integer. In units of cells, the distance from 0 is half
    of a normal distribution of variance ``s = m**2 * variance``, and is drawn by rejection
    ([1]_, algorithm N): propose a geometric cell k of scale t and a uniform position U in
    it; accept with the probability e^-f, ::

        f = (k - s / t)**2 / (2 s)  +  U * (2 k + U) / (2 s)  =  (k + U)**2 / (2 s) - k
        / t + s / (2 t**2).

    The density of proposals is proportional to e^(-k/t), so the density of accepted
    numbers is proportional to e^(-(k + U)^2 / 2s). The two terms on the left are at least 0, so e^-f is a probability;
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

    Examples
    --------
    >>> from fractions import Fraction
    >>> from skdp.randomness import SeededSource, rounded_gaussian
    >>> noise = rounded_gaussian(SeededSource(0), 100, 100_000)
    >>> round(float(noise.mean())), round(float(noise.std()))
    (0, 10)
    """
    variance = check_rational("variance", variance)
    # With a variance of 2**8 cells or more, most positions in them are accepted.
    ratio = math.ceil((1 << 8) / variance)
    halvings = max(1, (ratio - 1).bit_length() + 1 >> 1)
    cell_variance = variance * 4**halvings
    scale = math.isqrt(math.floor(cell_variance))
    proposals = geometric_digits(Fraction(scale))
    out: NDArray = np.empty(size, proposals.dtype)
    n_drawn = 0
    while n_drawn < size:
        n_tries = min(_BLOCK, (size - n_drawn) * 3 // 2 + 8)
        cells = proposals.draw(source, n_tries)
        # A word is a position in the cell, and a sign.
        words = source.bytes(8 * n_tries).view("<i8")
        positions = words & (1 << _POSITION_BITS) - 1
        is_accepted = _accept_cells(source, cells, positions, cell_variance, scale)
        accepted = np.flatnonzero(is_accepted)[: size - n_drawn]
        # A cell has length 1 / 2**halvings; an integer is in the middle of the cells
        # that round to it.
        nearest = (cells[accepted] >> halvings - 1) + 1 >> 1
        signed = np.where(words[accepted] < 0, -nearest, nearest)
        out[n_drawn : n_drawn + accepted.size] = signed
        n_drawn += accepted.size
    return notify_watcher("rounded_gaussian", out, variance=variance)


def _accept_cells(
    source: ByteSource,
    cells: NDArray,
    positions: NDArray[np.int64],
    variance: Fraction,
    scale: int,
) -> NDArray[np.bool_]:
    """Toss coins of probability e^-f."""
    # The float exponent is wrong by less than ``2**-42 * max(1, f)``: its terms are
    # products and sums of positive floats, except ``ratio - center``, where center is
    # between 1 and 1.14; and the bits of U that are not yet drawn, or that a float
    # cannot hold, change f by less than ``2**-52 * (k + 1) / variance < 2**-52 * max(1,
    # f)``.
    ratio = (cells / scale).astype(np.float64)
    center = float(variance / scale**2)
    cell_length = float(Fraction(1, scale))
    position = positions * 2.0**-_POSITION_BITS
    steps = (ratio - center) ** 2
    curve = position * (2 * ratio + position * cell_length) * cell_length

    def bounds(index: int) -> Bounds:
        position = Uniform(source, int(positions[index]), _POSITION_BITS)
        return partial(_acceptance_bounds, int(cells[index]), position, variance, scale)

    return draw_exp_coins(source, (steps + curve) * (0.5 / center), bounds)


def _acceptance_bounds(
    cell: int, position: Uniform, variance: Fraction, scale: int, bits: int
) -> tuple[int, int]:
    """Enclose ``2**bits * e**-f``, with at least `bits` bits of the position."""
    while position.bits < bits:
        position.extend()
    start = Fraction(position.value, 1 << position.bits)
    end = Fraction(position.value + 1, 1 << position.bits)
    lower = exp_minus_bounds(_exponent(cell, end, variance, scale), bits)[0]
    upper = exp_minus_bounds(_exponent(cell, start, variance, scale), bits)[1]
    return lower, upper


def _exponent(
    cell: int, position: Fraction, variance: Fraction, scale: int
) -> Fraction:
    steps = (cell - variance / scale) ** 2
    curve = position * (2 * cell + position)
    return (steps + curve) / (2 * variance)


def cube_noise(
    source: ByteSource, scale: Fraction | int, dimension: int, size: int = 1
) -> NDArray:
    """Draw integer vectors z with probability exactly proportional to ``e**(-max(abs(z)) / scale)``.

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

    Examples
    --------
    >>> from skdp.randomness import SeededSource
    >>> cube_noise(SeededSource(0), 1000, 3)
    array([[ 1701, -6895,  2517]])
    """
    scale = check_rational("scale", scale)
    dimension = check_size(dimension, min_val=1, name="dimension")
    n_parts = dimension + 1
    parts = geometric(source, scale, size * n_parts).reshape(size, n_parts)
    # With smaller scales, a sum exceeds 63 bits with probability below 2**-1000.
    if n_parts * scale > _MAX_INT64_SCALE:
        parts = parts.astype(object)
    cumulated_bounds = partial(_radius_bounds, 1 / scale, dimension)
    radius = parts.sum(axis=1) + real_categories(source, cumulated_bounds, size)
    radius = np.repeat(radius, dimension)
    vectors = uniform_below(source, 2 * radius + 1) - radius
    return notify_watcher("cube_noise", vectors.reshape(size, dimension), scale=scale)


def _radius_bounds(
    exponent: Fraction, dimension: int, bits: int
) -> list[tuple[int, int]]:
    """Enclose ``2**bits`` times the probabilities that k is at most 0, …, D."""
    numbers = _eulerian_numbers(dimension)
    # The errors of the weights are up to B(D, k) times the errors of the powers; the sum
    # of the weights is at least B(D, 0) = 1.
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

    # A probability is smallest if its own weights are at their lower bounds and all
    # other weights at their upper bounds, and vice versa.
    bounds = []
    for low, high in zip(low_sums[1:], high_sums[1:], strict=True):
        lower = (low << bits) // (low + high_sums[-1] - high)
        upper = -(-(high << bits) // (high + low_sums[-1] - low))
        bounds.append((lower, upper))
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

    The mechanism tosses coins of probability ``e**(-rate * (best - score))`` for the
    candidates in random order, and stops at the first head ([1]_, algorithm 1). The
    coins do not depend on the order: all are tossed, and a head is chosen uniformly.

    With ``rate = epsilon / (2 * sensitivity)``, the choice is epsilon-differentially
    private (without the 2 if one row can only raise the scores, or only lower them). Its
    expected error is never larger than the error of `exponential_mechanism`.

    Parameters
    ----------
    source : ByteSource
        Source of the random bytes.
    scores : array-like of int, shape (n_candidates,)
        Scores of the candidates, at least one; larger is better.
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

    Examples
    --------
    >>> from fractions import Fraction
    >>> from skdp.randomness import SeededSource, permute_and_flip
    >>> permute_and_flip(SeededSource(0), [10, 40, 20], Fraction(1, 2))
    1
    """
    heads = np.flatnonzero(bernoulli_exp(source, _score_gaps(scores), rate))
    with watch_draws(None):
        index = uniform_integers(source, heads.size, 1)[0]
    choice = int(heads[index])
    return notify_watcher("permute_and_flip", choice, scores=scores, rate=rate)


def exponential_mechanism(
    source: ByteSource, scores: ArrayLike, rate: Fraction | int
) -> int:
    """Choose a candidate with probability exactly proportional to ``e**(rate * score)``.

    A candidate is drawn uniformly and accepted with probability ``e**(-rate * (best -
    score))``, until one is accepted. With ``rate = epsilon / (2 * sensitivity)``, the
    choice is epsilon-differentially private (without the 2 if one row can only raise
    the scores, or only lower them) ([1]_). The number of tries, and with it the run
    time, depends on the scores, unlike the time of `permute_and_flip`.

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

    Examples
    --------
    >>> from fractions import Fraction
    >>> from skdp.randomness import SeededSource, exponential_mechanism
    >>> exponential_mechanism(SeededSource(0), [10, 40, 20], Fraction(1, 2))
    1
    """
    gaps = _score_gaps(scores)
    rate = check_rational("rate", rate, zero=True)
    accepted: NDArray = np.empty(0, np.intp)
    n_tries = 1 << 10
    while accepted.size == 0:
        with watch_draws(None):
            proposed = uniform_integers(source, gaps.size, n_tries)
        accepted = proposed[bernoulli_exp(source, gaps[proposed], rate)]
        n_tries = min(2 * n_tries, BLOCK)
    choice = int(accepted[0])
    return notify_watcher("exponential_mechanism", choice, scores=scores, rate=rate)


def _score_gaps(scores: ArrayLike) -> NDArray:
    """Return the difference of each score from the best score."""
    scores = check_integers("scores", scores)
    if scores.size == 0:
        raise ValueError("scores must have at least one candidate, got none")
    best = int(scores.max())
    if best - int(scores.min()) >= 1 << 63:
        scores = scores.astype(object)
    return best - scores


def unimodal_choice(
    source: ByteSource,
    size: int,
    within: Callable[[int], tuple[int, int]],
    gap: Callable[[int], int],
    rate: Fraction | int,
    scores: Callable[[], ArrayLike] = tuple,
) -> int:
    """Choose by the exponential mechanism among very many candidates, whose scores rise and then fall.

    The probabilities are the same as in `exponential_mechanism`, but only the score of
    the drawn candidate is computed.

    Parameters
    ----------
    source : ByteSource
        Source of the random bytes.
    size : int
        The number of candidates, at least 1.
    within : callable
        Returns the range (start, stop) of the candidates whose scores are below the best
        score by at most the argument, an integer >= 0.
    gap : callable
        Returns the integer by which the score of a candidate is below the best score.
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
    # log(2) to (t + 1) log(2), or slightly more, and so with a weight ``exp(-gap *
    # rate)`` of at most 2**-t. A candidate is proposed with a probability in proportion
    # to 2**-t, and accepted if a uniform number below 2**-t is below its weight: in
    # about half of the cases or more. The last band has all remaining candidates, which
    # are rarely accepted: together they are proposed at most 2**-20 times as often as
    # the best candidate.
    size = check_size(size, min_val=1, max_val=None, name="size")
    rate = check_rational("rate", rate)
    halving = Fraction(711, 1024)  # slightly more than log(2)
    ranges: list[tuple[int, int]] = []
    for band in range(size.bit_length() + 20):
        ranges.append(within(math.ceil((band + 1) * halving / rate) - 1))
        if ranges[-1] == (0, size):
            break
    else:
        ranges.append((0, size))

    # A band is the part of its range on both sides of the range before. Its weight is
    # its size times 2**-band, in units of the weight of the last band.
    inner = [(ranges[0][0], ranges[0][0]), *ranges[:-1]]
    last_band = len(ranges) - 1
    ends = [0]
    for band, (start, stop) in enumerate(ranges):
        inner_start, inner_stop = inner[band]
        n_candidates = stop - start - (inner_stop - inner_start)
        ends.append(ends[-1] + (n_candidates << last_band - band))
    while True:
        with watch_draws(None):
            word = int(uniform_below(source, np.array([ends[-1]], object))[0])
        band = bisect_right(ends, word) - 1
        index = ranges[band][0] + (word - ends[band] >> last_band - band)
        inner_start, inner_stop = inner[band]
        if index >= inner_start:
            index += inner_stop - inner_start
        weight = partial(exp_minus_bounds, gap(index) * rate)
        if Uniform(source, 0, band).is_below(weight):
            return notify_watcher(
                "exponential_mechanism", index, scores=scores, rate=rate
            )
