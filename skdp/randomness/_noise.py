"""Exact draws of irrational probability, integer noise, and private selection by scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp._arrays import Floats, Integers, Mask
from skdp.exact import exp_minus_bounds
from skdp.randomness._draws import (
    bernoulli_of_digits,
    check_integers,
    check_rational,
    check_size,
    notify_watcher,
    uniform_below,
    uniform_integers,
    watch_draws,
)
from skdp.randomness._sources import BLOCK, ByteSource

# Function of a number of bits, which returns integers below and above ``2**bits`` times
# a real number. More bits give tighter bounds.
ProbabilityBounds = Callable[[int], tuple[int, int]]

# Draws of a rejection sampler per block, whose floats fit in the cache.
_BLOCK = 1 << 13

# Exponents are clipped here for floats. e**-1024 and all smaller probabilities have 32
# leading zero bits.
MAX_EXPONENT = Fraction(1 << 10)

# Error of a comparison in floats: a word of 32 bits is up to 2**-32 below its uniform
# number, and the error of e**-x is far below another 2**-32.
_MAX_ERROR = 2.0**-31

# Bits of a position in a cell. The last bit of a word of 64 bits is the sign of the noise.
_POSITION_BITS = 63


class Uniform:
    """A uniform real number in [0, 1) whose binary digits are drawn on demand.

    The number is between ``prefix / 2**bits`` and ``(prefix + 1) / 2**bits``.
    """

    def __init__(self, source: ByteSource, prefix: int, bits: int) -> None:
        # The number is in [0, 1). Its first `bits` bits are the integer `prefix`;
        # further bits are drawn from the source if a comparison requires them.
        self._source = source
        self.prefix = prefix
        self.bits = bits

    def extend(self) -> None:
        """Draw 64 more bits."""
        word = int.from_bytes(self._source.bytes(8).tobytes(), "big")
        self.prefix = (self.prefix << 64) + word
        self.bits += 64

    def is_below(self, bounds: ProbabilityBounds) -> bool:
        """Check if the number is below a real number in [0, 1], which has exactly this probability."""
        while True:
            lower, upper = bounds(self.bits)
            if self.prefix < lower:
                return True
            if self.prefix >= upper:
                return False
            self.extend()


def bernoulli_exp(
    source: ByteSource, exponents: ArrayLike, rate: Fraction | int = 1
) -> Mask:
    """Draw independent Bernoulli variables, the i-th True with probability exactly ``e**(-exponents[i] * rate)``.

    Most draws are decided in floats; only draws within the rounding error compute exact
    bounds.
    """
    rate = check_rational("rate", rate, zero=True)
    exponents = check_integers("exponents", exponents)
    if exponents.size and exponents.min() < 0:
        raise ValueError("`exponents` must be at least 0, got a negative one.")
    if exponents.dtype == object:
        exact = [min(int(exponent) * rate, MAX_EXPONENT) for exponent in exponents]
        rounded = np.array(exact, np.float64)
    else:
        # Three roundings, each with a relative error below 2**-52.
        rounded = exponents.astype(np.float64) * float(min(rate, MAX_EXPONENT))

    def bounds(index: int) -> ProbabilityBounds:
        return partial(exp_minus_bounds, int(exponents[index]) * rate)

    return bernoulli_of_exponents(source, rounded, bounds)


def bernoulli_of_exponents(
    source: ByteSource,
    rounded: Floats,
    bounds: Callable[[int], ProbabilityBounds],
    max_errors: Floats | None = None,
) -> Mask:
    """Draw independent Bernoulli variables, the i-th True with probability exactly ``e**-x[i]``.

    Parameters
    ----------
    source : ByteSource
        Source of the random bytes.
    rounded : ndarray of shape (n,)
        The exponents x as floats of at least 0, with relative errors below 2**-42.
    bounds : callable
        Function of i, which returns the `ProbabilityBounds` of ``e**-x[i]``.
    max_errors : ndarray of shape (n,), default=None
        Bounds of further, absolute errors of the exponents.

    Returns
    -------
    ndarray of shape (n,), dtype bool
        The draws.
    """
    # The first 32 bits of a uniform number are compared with e**-x in floats. One draw
    # in 2**30 is too close to decide; then more bits are compared with proven integer
    # bounds of e**-x.
    out = np.empty(rounded.size, np.bool_)
    for start in range(0, rounded.size, _BLOCK):
        exponents = rounded[start : start + _BLOCK]
        words = source.bytes(4 * exponents.size).view("<u4")
        # x e**-x < 1 bounds the effect of a relative error of x, and NumPy's exp errs by
        # at most 4 units in the last place: together less than 2**-34. NumPy takes five times
        # as long for results below 2**-1022 as for e**-64, which is as far below this error.
        gap = np.exp(-np.minimum(exponents, 64.0)) - words * 2.0**-32
        block = out[start : start + _BLOCK]
        np.greater(gap, 0, out=block)
        max_gap: float | Floats = _MAX_ERROR
        if max_errors is not None:
            # The slope of e**-x is between -1 and 0.
            max_gap = _MAX_ERROR + max_errors[start : start + _BLOCK]
        for index in np.flatnonzero(np.abs(gap) <= max_gap).tolist():
            uniform = Uniform(source, int(words[index]), 32)
            block[index] = uniform.is_below(bounds(start + index))
    return out


class IrrationalBernoulli:
    """Bernoulli variables that are True with an irrational probability p, such as 1 / (1 + e).

    Digits of p follow from bounds, which are tightened until both have the same digits,
    so p is never rounded.
    """

    def __init__(self, bounds: ProbabilityBounds, first: int | None = None) -> None:
        # ``bounds(bits)`` returns integers below and above ``2**bits * p`` for the
        # probability p. Each digit of p to the base 256 is computed once; `first` is the
        # first one if it is known.
        self._bounds = bounds
        self._known = {} if first is None else {0: first}

    def draw(self, source: ByteSource, size: int) -> Mask:
        """Draw `size` independent variables."""
        return bernoulli_of_digits(source, self._digit, size)

    def _digit(self, index: int) -> int:
        """Return the digit of ``256**-(index + 1)`` in p."""
        if index not in self._known:
            self._known[index] = self._floor(index + 1) & 255
        return self._known[index]

    def _floor(self, n_digits: int) -> int:
        """Return ``floor(256**n_digits * p)``, the first digits of p."""
        n_extra = 16
        while True:
            lower, upper = self._bounds(8 * n_digits + n_extra)
            # p is irrational, so it is strictly below its upper bound, and its largest
            # possible floor is the floor of ``upper - 1``.
            if lower >> n_extra == upper - 1 >> n_extra:
                return lower >> n_extra
            n_extra *= 2


def discrete_laplace(source: ByteSource, scale: Fraction | int, size: int) -> NDArray:
    """Draw independent integers z with probability exactly proportional to ``e**(-abs(z) / scale)``.

    With a = e^(-1/scale), z is a geometric number g, with probabilities (1 - a) a^g, with
    probability 1 / (1 + a), and otherwise -1 - g. The binary digits of g are independent,
    and digit i is 1 with probability b / (1 + b), where b = a^(2^i) ([2]_). The m lowest
    digits are drawn so. The remaining multiple of 2^m is geometric with ratio a^(2^m).
    Neither the irrational probabilities nor the tail are rounded. Added to an integer of
    sensitivity s, it gives epsilon-differential privacy with epsilon = s / scale, and is
    the optimal noise for counts ([1]_).

    Parameters
    ----------
    source : ByteSource
        Source of the random bytes.
    scale : Fraction or int
        Positive, of any size. Far below 1, the noise is nearly always 0.
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
    .. [2] C. Dwork, K. Kenthapadi, F. McSherry, I. Mironov, M. Naor (2006). Our data,
       ourselves: privacy via distributed noise generation. EUROCRYPT.

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
    """Sampler of geometric numbers and `discrete_laplace` noise of one scale, by binary digits."""

    def __init__(self, scale: Fraction) -> None:
        # A geometric number g has P(g >= n) = a**n with a = e**(-1 / scale). `_digits`
        # draw its lowest m binary digits, which are independent, `_exceeds` draws
        # whether 2**m is to be added, and `_sign` whether Laplace noise is negative.
        # With m digits, 2**m >= 14 scale > 20 log(2) scale. So the number exceeds them
        # with probability a**(2**m) = e**(-2**m / scale) < 2**-20.
        n_digits = (math.ceil(14 * scale) - 1).bit_length()
        self._sign = IrrationalBernoulli(partial(_odds_bounds, 1 / scale))
        self._digits = [
            IrrationalBernoulli(partial(_digit_bounds, scale, digit), first)
            for digit, first in enumerate(_find_first_digits(scale, n_digits))
        ]
        self._exceeds = IrrationalBernoulli(
            partial(exp_minus_bounds, 2**n_digits / scale)
        )
        # Noise of larger scales is drawn as Python integers, because it may exceed 64 bits.
        self.dtype: type = np.int64 if scale <= 1 << 52 else object

    def draw(self, source: ByteSource, size: int, *, signed: bool = False) -> NDArray:
        """Draw `size` geometric numbers, or with `signed` discrete Laplace noise of the same scale."""
        out: NDArray = np.empty(size, self.dtype)
        step = 1 << len(self._digits)
        for start in range(0, size, BLOCK):
            n_draws = min(BLOCK, size - start)
            block = self._draw_digits(source, n_draws)
            # With m low digits, g is at least k 2**m with probability a**(k 2**m). So with
            # the largest scale of int64, a number has more than 63 bits with a probability
            # below 2**-640.
            larger = np.flatnonzero(self._exceeds.draw(source, n_draws))
            while larger.size:
                block[larger] += step
                larger = larger[self._exceeds.draw(source, larger.size)]
            if signed:
                # In two's complement, -1 - g is ~g, which is g ^ -1.
                block ^= -self._sign.draw(source, n_draws).astype(np.int64)
            out[start : start + n_draws] = block
        return out

    def _draw_digits(self, source: ByteSource, size: int) -> NDArray:
        """Draw the m lowest binary digits of geometric numbers, as integers of shape (size,).

        The digits are independent, and `_digits` draw them, from the lowest to the
        highest one.
        """
        block: NDArray = np.zeros(size, self.dtype)
        # Digits are drawn from the highest one, in groups of eight, because bytes are
        # faster than words.
        for stop in range(len(self._digits), 0, -8):
            *lower, highest = self._digits[max(0, stop - 8) : stop]
            byte = highest.draw(source, size).view(np.uint8)
            for digit in reversed(lower):
                byte += byte
                byte |= digit.draw(source, size)
            block <<= len(lower) + 1
            block |= byte
        return block


@lru_cache(maxsize=32)
def geometric_digits(scale: Fraction) -> GeometricDigits:
    """Return the cached sampler of a scale, because one release often draws several times."""
    return GeometricDigits(scale)


def _find_first_digits(scale: Fraction, n_digits: int) -> Iterator[int | None]:
    """Yield the first digit to the base 256 of the probability of each binary digit; None if it is not certain.

    The probability of binary digit i is b / (1 + b), where ``b = e**-(2**i / scale)`` is the square of the one before.
    This takes an eighth of the time of separate bounds.
    """
    # Each squaring doubles the relative error.
    bits = n_digits + 64
    unit = 1 << bits
    lower, upper = exp_minus_bounds(1 / scale, bits)
    for _ in range(n_digits):
        low, high = (lower << 8) // (unit + lower), (upper << 8) // (unit + upper)
        yield low if low == high else None
        lower, upper = lower * lower >> bits, (upper * upper >> bits) + 1


def _digit_bounds(scale: Fraction, digit: int, bits: int) -> tuple[int, int]:
    """Return the bounds of the probability of a binary digit, see `_odds_bounds`."""
    return _odds_bounds(2**digit / scale, bits)


def _odds_bounds(exponent: Fraction, bits: int) -> tuple[int, int]:
    """Return integers below and above ``2**bits * b / (1 + b)``, where ``b = e**-exponent``."""
    # The quotient increases with b, so the bounds of b give its bounds.
    lower, upper = exp_minus_bounds(exponent, bits + 8)
    unit = 1 << bits + 8
    return (lower << bits) // (unit + lower), -(-(upper << bits) // (unit + upper))


def rounded_gaussian(
    source: ByteSource, variance: Fraction | int, size: int
) -> NDArray:
    """Draw independent integers ``round(X)``, where X is normal with mean 0.

    The integer z has exactly the probability that X rounds to z. For an integer q,
    ``q + round(X)`` is ``round(q + X)``, so this noise is post-processing of the Gaussian
    mechanism with continuous noise, and has its guarantee.

    The real line is divided into cells of length ``1 / m``, where m is an even power of
    two, so that all numbers of a cell round to one integer. In units of cells, the
    distance of X from 0 is half-normal with variance ``s = m**2 * variance``. It is drawn
    by rejection ([1]_, algorithm N). Propose a geometric cell k of scale t and a uniform
    position U in the cell, and accept with probability e^-f, where ::

        f = (k - s / t)**2 / (2 s) + U * (2 k + U) / (2 s)
          = (k + U)**2 / (2 s) - k / t + s / (2 t**2).

    The density of proposals is proportional to e^(-k / t), so the density of accepted
    numbers is proportional to e^(-(k + U)^2 / (2 s)). Both terms of the first line are
    at least 0, so e^-f is a probability. With t near the square root of s, about 3 of 4
    proposals are accepted.

    Acceptance is decided in floats with a proven error. One proposal in 2**30 is too
    close to decide; then further bits of U and of the random number decide, because f
    increases with U.

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
    **Privacy.** Added to an integer, or a vector of integers, of L2 sensitivity s, it
    gives mu-Gaussian differential privacy with mu = s / sqrt(variance) ([2]_, theorem
    2.7), which implies (mu^2 / 2)-zero-concentrated differential privacy. No probability
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
    # Cells of length 2**-halvings, such that s = variance * 4**halvings >= 2**8: the
    # density is then nearly constant in a cell, and most positions are accepted.
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
        # Cell k contains numbers from k / 2**halvings on; adding half rounds to nearest.
        nearest = (cells[accepted] >> halvings - 1) + 1 >> 1
        signed = np.where(words[accepted] < 0, -nearest, nearest)
        out[n_drawn : n_drawn + accepted.size] = signed
        n_drawn += accepted.size
    return notify_watcher("rounded_gaussian", out, variance=variance)


def _accept_cells(
    source: ByteSource,
    cells: NDArray,
    positions: Integers,
    variance: Fraction,
    scale: int,
) -> Mask:
    """Accept each cell k and position U with probability e^-f, see `rounded_gaussian`.

    `positions` are the first 63 bits of U; `variance` is s, and `scale` is t.
    """
    # With r = k / t and c = s / t**2,
    # f = ((r - c)**2 + U (2 r + U / t) / t) / (2 c).
    # The error of f in floats is below ``2**-42 * max(1, f)``: its terms are products and
    # sums of positive floats, except ``r - c``, where c is between 1 and 1.14. The bits of
    # U that are not drawn yet, or that a float cannot represent, change f by less than
    # ``2**-52 * (k + 1) / s < 2**-52 * max(1, f)``.
    ratio = (cells / scale).astype(np.float64)
    center = float(variance / scale**2)
    cell_length = float(Fraction(1, scale))
    position = positions * 2.0**-_POSITION_BITS
    squared_gap = (ratio - center) ** 2
    position_term = position * (2 * ratio + position * cell_length) * cell_length

    def bounds(index: int) -> ProbabilityBounds:
        position = Uniform(source, int(positions[index]), _POSITION_BITS)
        return partial(_acceptance_bounds, int(cells[index]), position, variance, scale)

    exponents = (squared_gap + position_term) * (0.5 / center)
    return bernoulli_of_exponents(source, exponents, bounds)


def _acceptance_bounds(
    cell: int, position: Uniform, variance: Fraction, scale: int, bits: int
) -> tuple[int, int]:
    """Return integers below and above ``2**bits * e**-f``, with at least `bits` bits of the position.

    f is the exponent of a cell k and a position U in `rounded_gaussian`, for the
    variance s and the scale t.
    """
    # f increases with the position, which is in [start, end].
    while position.bits < bits:
        position.extend()
    start = Fraction(position.prefix, 1 << position.bits)
    end = Fraction(position.prefix + 1, 1 << position.bits)
    lower = exp_minus_bounds(_exponent(cell, end, variance, scale), bits)[0]
    upper = exp_minus_bounds(_exponent(cell, start, variance, scale), bits)[1]
    return lower, upper


def _exponent(
    cell: int, position: Fraction, variance: Fraction, scale: int
) -> Fraction:
    """Return f of `rounded_gaussian` exactly, for s = `variance` and t = `scale`."""
    squared_gap = (cell - variance / scale) ** 2
    return (squared_gap + position * (2 * cell + position)) / (2 * variance)


def cube_noise(
    source: ByteSource, scale: Fraction | int, dimension: int, size: int = 1
) -> NDArray:
    """Draw integer vectors z with probability exactly proportional to ``e**(-max(abs(z)) / scale)``.

    This is the K-norm mechanism ([1]_) for the maximum norm ([2]_). If a record changes
    each of D integers by at most s, adding such a vector gives epsilon-differential
    privacy with epsilon = s / scale.

    Let a = e^(-1/scale). The vector is uniform in a cube {-M, …, M}^D whose random radius
    M has probabilities proportional to ``(2 * M + 1)**D * a**M``: the cubes that contain z
    have radius max(abs(z)) or more, so z has probability proportional to
    ``a**max(abs(z)) / (1 - a)``.

    The radius is drawn by rejection. Let b = e^(-1/((D + 1) scale)), so that b^(D + 1) = a,
    and v(M) = (2 M + 1) b^M. Then the weight of M is ``v(M)**D * b**M``. Propose a
    geometric number M with ratio b, and accept it with probability ::

        (v(M) / v(m))**D = e^-f,  f = D * ((M - m) / ((D + 1) scale) - log((2 M + 1) / (2 m + 1))),

    where m is the mode of v, so that e^-f is at most 1. As v(k + 1) / v(k) = b (2 k + 3) /
    (2 k + 1) decreases with k, m is the smallest k at which this ratio is below 1. About
    ``1.1 * sqrt(D + 1)`` proposals are required on average, or fewer with a small scale.

    As in `rounded_gaussian`, acceptance is decided in floats with a proven error, and by
    further bits and proven bounds of e^-f if it is too close to decide.

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

    Examples
    --------
    >>> from skdp.randomness import SeededSource
    >>> cube_noise(SeededSource(0), 1000, 3)
    array([[-2702,  -879, -2204]])
    """
    scale = check_rational("scale", scale)
    dimension = check_size(dimension, min_val=1, name="dimension")
    radius = np.repeat(_draw_radii(source, scale, dimension, size), dimension)
    vectors = uniform_below(source, 2 * radius + 1) - radius
    return notify_watcher("cube_noise", vectors.reshape(size, dimension), scale=scale)


def _draw_radii(
    source: ByteSource, scale: Fraction, dimension: int, size: int
) -> NDArray:
    """Draw numbers M with probabilities proportional to ``(2 * M + 1)**D * e**(-M / scale)``, see `cube_noise`."""
    proposal_scale = (dimension + 1) * scale
    proposals = geometric_digits(proposal_scale)
    mode = _find_mode(proposal_scale)
    # The mean number of proposals for a radius of a large scale.
    mean_tries = math.e * math.sqrt((dimension + 1) / (2 * math.pi))
    out: NDArray = np.empty(size, proposals.dtype)
    n_drawn = 0
    while n_drawn < size:
        n_missing = size - n_drawn
        n_tries = min(_BLOCK, math.ceil(mean_tries * (1.1 * n_missing + 3)))
        radii = proposals.draw(source, n_tries)
        is_accepted = _accept_radii(source, radii, mode, proposal_scale, dimension)
        accepted = radii[is_accepted][:n_missing]
        out[n_drawn : n_drawn + accepted.size] = accepted
        n_drawn += accepted.size
    return out


def _find_mode(scale: Fraction) -> int:
    """Return the integer k of at least 0 with the largest ``(2 * k + 1) * e**(-k / scale)``."""
    # It is the smallest k with ``b * (2 * k + 3) < 2 * k + 1``, where b = e**(-1 / scale):
    # the number ``(3 * b - 1) / (2 * (1 - b))``, rounded up. It is irrational and increases
    # with b, so tight bounds of b give one integer.
    bits = 64
    while True:
        bounds = exp_minus_bounds(1 / scale, bits)
        unit = 1 << bits
        if bounds[1] < unit:
            lower, upper = (-((unit - 3 * b) // (2 * (unit - b))) for b in bounds)
            if lower == upper:
                return lower
        bits *= 2


def _accept_radii(
    source: ByteSource, radii: NDArray, mode: int, scale: Fraction, dimension: int
) -> Mask:
    """Accept each radius M with probability e^-f, see `cube_noise`; `scale` is the scale of the proposals."""
    # With u = (M - m) / scale and l = log((2 M + 1) / (2 m + 1)), f = D (u - l). In floats,
    # the relative error of u is at most 3 * 2**-53, and the absolute error of l at most
    # ``2**-51 + 2**-50 * abs(l)``. With the roundings of the difference and the product, the
    # error of f is below ``2**-49 * D * (1 + abs(u) + abs(l))``.
    steps = radii - mode
    if radii.dtype == object:
        exact = [Fraction(step) / scale for step in steps.tolist()]
        steps = np.array(exact, np.float64)
    else:
        # With a smaller scale, m = 0, and f exceeds 1,000 for all M above 0.
        steps = steps / max(float(scale), 2.0**-10)
    logs = np.log(((2 * radii + 1) / (2 * mode + 1)).astype(np.float64))
    exponents = np.maximum(dimension * (steps - logs), 0.0)
    max_errors = 2.0**-49 * dimension * (1 + np.abs(steps) + np.abs(logs))

    def bounds(index: int) -> ProbabilityBounds:
        return partial(_radius_bounds, int(radii[index]), mode, scale, dimension)

    return bernoulli_of_exponents(source, exponents, bounds, max_errors)


def _radius_bounds(
    radius: int, mode: int, scale: Fraction, dimension: int, bits: int
) -> tuple[int, int]:
    """Return integers below and above ``2**bits * e**-f``, see `cube_noise`; `scale` is the scale of the proposals."""
    # e**-f is the quotient of ``(2 k + 1)**D * e**(-D k / scale)`` for k = M and k = m. For
    # k = m, the power of e is at least 3**-D: a mode m >= 1 requires
    # ``e**(1 / scale) < (2 m + 1) / (2 m - 1)``, whose m-th power is at most 3.
    numerator = (2 * radius + 1) ** dimension
    denominator = (2 * mode + 1) ** dimension
    n_extra = max(0, numerator.bit_length() - denominator.bit_length())
    precision = bits + 2 * n_extra + 4 * dimension + 8
    low, high = exp_minus_bounds(dimension * radius / scale, precision)
    mode_low, mode_high = exp_minus_bounds(dimension * mode / scale, precision)
    lower = (numerator * low << bits) // (denominator * mode_high)
    upper = -(-(numerator * high << bits) // (denominator * mode_low))
    return lower, upper


def permute_and_flip(
    source: ByteSource, scores: ArrayLike, rate: Fraction | int
) -> int:
    """Select a candidate with a high score by permute-and-flip.

    The mechanism visits the candidates in random order, and selects each with probability
    ``e**(-rate * (best - score))`` until one is selected ([1]_, algorithm 1). Equivalently,
    all these draws are made, and one of the successes is selected uniformly.

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
        At least 0. With 0, the selection is uniform.

    Returns
    -------
    int
        The index of the selected candidate.

    Raises
    ------
    TypeError, ValueError
        If `scores` is empty or not of integers, or `rate` is not rational or negative.

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
    accepted = np.flatnonzero(bernoulli_exp(source, _score_gaps(scores), rate))
    with watch_draws(None):
        index = uniform_integers(source, accepted.size, 1)[0]
    choice = int(accepted[index])
    return notify_watcher("permute_and_flip", choice, scores=scores, rate=rate)


def exponential_mechanism(
    source: ByteSource, scores: ArrayLike, rate: Fraction | int
) -> int:
    """Select a candidate with probability exactly proportional to ``e**(rate * score)``.

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
        The index of the selected candidate.

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
        raise ValueError("`scores` must have at least one candidate, got none.")
    best = int(scores.max())
    if best - int(scores.min()) >= 1 << 63:
        scores = scores.astype(object)
    return best - scores


# Candidates, the differences of their scores from a constant of the choice, and the numbers of
# candidates of their pieces.
Proposals = tuple[Sequence[int], Sequence[int], Sequence[int]]


def piecewise_choices(
    source: ByteSource,
    bounds: Floats,
    draw: Callable[[Integers, Integers], Proposals],
    rates: Sequence[Fraction],
) -> list[int]:
    """Make independent choices, each of a candidate with probability exactly proportional to ``e**(-rate * gap)``.

    The candidates of a choice are divided into pieces. A piece is proposed with a probability proportional to an
    integer W that is at least a bound of the sum of its weights, and one of its n candidates is drawn uniformly. It
    is accepted with the probability ``n * e**(-rate * gap) / (W * unit)``, until one is accepted. So the integers may
    come from floats, whose errors this probability cancels. Acceptance is decided in floats with a proven error, and
    by proven bounds if it is too close to decide.

    Parameters
    ----------
    source : ByteSource
        Source of the random bytes.
    bounds : ndarray of shape (n_choices, n_pieces)
        Upper bounds of the number of candidates of each piece times the largest weight ``e**(-rate * gap)`` of them,
        with relative errors below 2**-41. They are 0 for pieces without candidates, and positive for one or more.
    draw : callable
        Function of arrays of choices and of their pieces. Returns for each of them a candidate that is uniform in the
        piece, its gap, and the number of candidates of the piece, as Python integers.
    rates : list of Fraction, of shape (n_choices,)
        The rates.

    Returns
    -------
    list of int
        The candidates.
    """
    # Weights of pieces are multiples of 2**-50 of the sum of their bounds, and are rounded up
    # by more than the errors of floats.
    units = bounds.sum(axis=1) * 2.0**-50
    shares = bounds / units[:, np.newaxis] * (1 + 2.0**-40)
    weights = np.floor(shares).astype(np.int64)
    weights += bounds > 0
    ends = np.cumsum(weights, axis=1)
    chosen = [0] * len(bounds)
    pending = np.arange(len(bounds))
    while pending.size:
        with watch_draws(None):
            words = uniform_below(source, ends[pending, -1])
        pieces = (ends[pending] <= words[:, np.newaxis]).sum(axis=1)
        candidates, gaps, sizes = draw(pending, pieces)
        proposed = pending.tolist()
        exponents = [
            gap * rates[choice] for choice, gap in zip(proposed, gaps, strict=True)
        ]
        proposed_weights = weights[pending, pieces]
        is_accepted = _accept(
            source, exponents, sizes, units[pending], proposed_weights
        )
        for index in np.flatnonzero(is_accepted).tolist():
            chosen[proposed[index]] = candidates[index]
        pending = pending[~is_accepted]
    return chosen


def _accept(
    source: ByteSource,
    exponents: Sequence[Fraction],
    sizes: Sequence[int],
    units: Floats,
    weights: Integers,
) -> Mask:
    """Accept proposals, each with the probability ``size * e**-exponent / (weight * unit)``."""
    # The exponents of this probability are differences of numbers below 2**10 with relative
    # errors below 2**-50.
    rounded = np.array([float(min(x, MAX_EXPONENT)) for x in exponents])
    logs = np.log(np.array(sizes, float)) - np.log(weights) - np.log(units)

    def bounds(index: int) -> ProbabilityBounds:
        factor = sizes[index] / (Fraction(units[index]) * int(weights[index]))
        return partial(_multiply_bounds, factor, exponents[index])

    errors = np.full(len(rounded), 2.0**-38)
    return bernoulli_of_exponents(
        source, np.maximum(rounded - logs, 0.0), bounds, errors
    )


def _multiply_bounds(
    factor: Fraction, exponent: Fraction, bits: int
) -> tuple[int, int]:
    """Return integers below and above ``2**bits * factor * e**-exponent``."""
    numerator, denominator = factor.as_integer_ratio()
    n_extra = max(numerator.bit_length() - denominator.bit_length(), 0) + 2
    low, high = exp_minus_bounds(exponent, bits + n_extra)
    lower = numerator * low // (denominator << n_extra)
    return lower, -(-numerator * high // (denominator << n_extra))
