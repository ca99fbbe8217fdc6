"""Exact integer noise: geometric, discrete Laplace and Gaussian, rounded Gaussian, and in cubes."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from skdp.exact import exp_minus_bounds
from skdp.randomness._draws import (
    check_positive_int,
    check_rational,
    seen,
    uniform_below,
)
from skdp.randomness._real import (
    Bounds,
    RealCoin,
    Uniform,
    exp_coins,
    real_categories,
    settled_coins,
)
from skdp.randomness._sources import BLOCK, ByteSource

_LARGEST_SCALE = 1 << 52
"""The largest scale of numbers in int64; above it, they are Python integers."""

_TRIES = 1 << 14
"""The most tries at a time: enough to hide NumPy's cost per step, and in the cache."""

_GAUSSIAN_TRIES = 1 << 13
"""The most tries at a time of rounded Gaussian noise, as `_TRIES`."""

_FINENESS = 1 << 8
"""The least variance in cells: uniform places in them are nearly always accepted."""

_PLACE_BITS = 63
"""Bits of a place in a cell: the last bit of a word is a sign."""


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


def discrete_gaussian(
    source: ByteSource, variance: Fraction | int, size: int
) -> NDArray:
    """Draw independent integers z with probability exactly proportional to ``e**(-z**2 / (2 * variance))``.

    >>> from skdp.randomness import SeededSource
    >>> noise = discrete_gaussian(SeededSource(0), 100, 100_000)
    >>> round(float(noise.mean())), round(float(noise.std()))
    (0, 10)

    Added to an integer of sensitivity s, the number gives s^2 / (2
    variance)-concentrated differential privacy; its variance is at most the parameter
    ([1]_).

    Discrete Laplace noise y of scale t is accepted with the probability ``e**(-(abs(y)
    - variance / t)**2 / (2 * variance))`` ([1]_, algorithm 3). Any t is correct; with
    the standard deviation, about 3 of 4 are accepted.

    Parameters
    ----------
    source : ByteSource
        Source of the random bytes.
    variance : Fraction or int
        Positive, of any size.
    size : int
        Number of integers.

    Returns
    -------
    ndarray of shape (size,), dtype int64 or object
        The integers; Python integers if the variance is above about 2**104, to prevent
        overflow.

    Raises
    ------
    TypeError, ValueError
        If the variance is not rational, or not positive.

    References
    ----------
    .. [1] C. L. Canonne, G. Kamath, T. Steinke (2020). The discrete Gaussian for
       differential privacy. NeurIPS.
    """
    variance = check_rational("variance", variance)
    scale = Fraction(math.isqrt(math.floor(variance * 2**16)) + 1, 2**8)
    laplace = geometric_digits(scale)
    center = variance / scale
    # At this variance and below, 0 is always accepted, and 1 never.
    share = float(max(center / scale, Fraction(1, 2**1000)))
    out: NDArray = np.empty(size, laplace.dtype)
    filled = 0
    while filled < size:
        n_tries = min(_TRIES, (size - filled) * 3 // 2 + 8)
        proposed = laplace.draw(source, n_tries, signed=True)
        distance = np.abs(proposed)
        # The exponent is (r - s)**2 / (2 s), with r = |y| / t and s = variance / t**2
        # of relative error about 2**-53.
        ratio = (distance / scale.numerator).astype(np.float64) * scale.denominator
        rounded = (ratio - share) ** 2 * (0.5 / share)
        exact = partial(_gaussian_exponent, distance, center, variance)
        accepted = proposed[exp_coins(source, rounded, exact)][: size - filled]
        out[filled : filled + accepted.size] = accepted
        filled += accepted.size
    return seen("discrete_gaussian", out, variance=variance)


def _gaussian_exponent(
    distance: NDArray, center: Fraction, variance: Fraction, index: int
) -> Fraction:
    return (int(distance[index]) - center) ** 2 / (2 * variance)


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

    See Also
    --------
    discrete_gaussian : A law on the integers alone, which is concentrated DP, but not
    Gaussian DP.

    Notes
    -----
    **Privacy.** Added to integers that one person changes by at most s (in Euclidean
    norm, for a vector), it gives s / sqrt(variance)-Gaussian differential privacy
    ([2]_, theorem 2.7), exactly: no probability is rounded.

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
        n_tries = min(_GAUSSIAN_TRIES, (size - filled) * 3 // 2 + 8)
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
    dimension = check_positive_int("dimension", dimension)
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
