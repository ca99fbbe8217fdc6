"""Exact draws of Laplace, Student's t and Gaussian noise, rounded to integers."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from skdp.exact import exp_minus_bounds
from skdp.randomness._discrete_noise import GeometricDigits, geometric_digits
from skdp.randomness._draws import check_positive_int, check_rational, seen
from skdp.randomness._real import Bounds, Uniform, bernoulli_exp, settled_coins
from skdp.randomness._sources import ByteSource


def rounded_laplace(source: ByteSource, center: Fraction | int, scale: Fraction | int) -> int:
    """Draw ``floor(center + scale * X)``, where X is a real number of the standard Laplace law.

    The integer has exactly the probability of this real event: it is post-processing of the ideal mechanism. Proofs for
    continuous noise apply, also where the scale depends on the data, as with smooth sensitivity ([1]_).

    Parameters
    ----------
    source : ByteSource
        Source of the random bytes.
    center : Fraction or int
        Any number.
    scale : Fraction or int
        Positive, of any size. Nothing of it is kept for the next call: it may be secret.

    Returns
    -------
    int
        The integer.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not rational, or the scale is not positive.

    References
    ----------
    .. [1] K. Nissim, S. Raskhodnikova, A. Smith (2007). Smooth sensitivity and sampling in private data analysis. STOC.

    Examples
    --------
    >>> from skdp.randomness import SeededSource
    >>> rounded_laplace(SeededSource(0), Fraction(1, 3), 100)
    -63
    """
    # The distance from the center is exponential, which is memoryless. It stays within the center's own cell, on the
    # side that a fair coin chooses, or reaches the next integer; the number of further integers is geometric.
    center, scale = check_rational("center", center, signed=True), check_rational("scale", scale)
    upwards = source.bytes(1)[0] < 128
    drawn = math.floor(center)
    to_next = math.ceil(center) - center if upwards else center - drawn  # 0 is passed for certain
    if bernoulli_exp(source, [1], to_next / scale)[0]:
        passed = int(GeometricDigits(scale).draw(source, 1)[0])
        drawn = math.ceil(center) + passed if upwards else drawn - 1 - passed
    return seen("rounded_laplace", drawn, center=center, scale=scale)


def rounded_student_t(
    source: ByteSource, center: Fraction | int, scale: Fraction | int, degrees_of_freedom: int
) -> int:
    """Draw ``floor(center + scale * X)``, where X is a real number of Student's t law.

    As with `rounded_laplace`, proofs for the real mechanism, such as that of smooth sensitivity ([2]_), apply to the
    integer.

    X is a ratio of uniforms ([1]_): for the density ``f(x) = (1 + x**2 / d)**(-(d + 1) / 2)``, a point (u, v) that is
    uniform where ``0 < u <= sqrt(f(v / u))`` has a ratio v / u of this law. The right half of this region is in the
    unit square; the other half is its mirror image. Bits of u and v are drawn until both the condition and the integer
    are certain; only integers are compared.

    Parameters
    ----------
    source : ByteSource
        Source of the random bytes.
    center : Fraction or int
        Any number.
    scale : Fraction or int
        Positive, of any size.
    degrees_of_freedom : int
        At least 1.

    Returns
    -------
    int
        The integer.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not rational, the degrees of freedom are not an integer, or they or the scale not positive.

    References
    ----------
    .. [1] A. J. Kinderman, J. F. Monahan (1977). Computer generation of random variables using the ratio of uniform
       deviates. ACM TOMS 3(3).
    .. [2] M. Bun, T. Steinke (2019). Average-case averages: private algorithms for smooth sensitivity and mean
       estimation. NeurIPS.

    Examples
    --------
    >>> from skdp.randomness import SeededSource
    >>> rounded_student_t(SeededSource(0), Fraction(1, 3), 100, 3)
    52
    """
    center, scale = check_rational("center", center, signed=True), check_rational("scale", scale)
    d = check_positive_int("degrees_of_freedom", degrees_of_freedom)
    sign = -1 if source.bytes(1)[0] < 128 else 1
    drawn = None
    while drawn is None:
        u, v = Uniform(source), Uniform(source)
        while (inside := _is_inside(u, v, d)) is None:
            u.extend()
            v.extend()
        while inside and (drawn := _rounded(u, v, center, sign * scale)) is None:
            u.extend()
            v.extend()
    return seen("rounded_student_t", drawn, center=center, scale=scale, degrees_of_freedom=d)


def _is_inside(u: Uniform, v: Uniform, d: int) -> bool | None:
    """Whether a point is in the region of the ratio of uniforms; None if more bits are needed."""
    # The condition is ``(d * u**2 + v**2)**(d + 1) <= d**(d + 1) * u**(2 * d - 2)``.
    factor = d ** (d + 1) << 4 * u.bits
    if (d * (u.value + 1) ** 2 + (v.value + 1) ** 2) ** (d + 1) <= factor * u.value ** (2 * d - 2):
        return True
    if (d * u.value**2 + v.value**2) ** (d + 1) > factor * (u.value + 1) ** (2 * d - 2):
        return False
    return None


def _rounded(u: Uniform, v: Uniform, center: Fraction, scale: Fraction) -> int | None:
    """Return ``floor(center + scale * v / u)``, or None if more bits are needed."""
    if u.value == 0:
        return None
    ratios = Fraction(v.value, u.value + 1), Fraction(v.value + 1, u.value)
    least, most = (math.floor(center + scale * ratio) for ratio in ratios)
    return least if least == most else None


_BLOCK = 1 << 13
_FINENESS = 1 << 8  # least variance in cells, so that uniform places in them are nearly always accepted
_PLACE_BITS = 63


def rounded_gaussian(source: ByteSource, variance: Fraction | int, size: int) -> NDArray:
    """Draw independent integers ``round(X)``, where X is a real number of the normal law of mean 0.

    The integer z has exactly the probability of the real event ``-1/2 <= X - z < 1/2``. An integer plus ``round(X)`` is
    the rounded sum with X: post-processing of the ideal Gaussian mechanism, whose proofs apply.

    The line is cut into cells of a length ``1 / m``, where m is an even power of two, so that a cell rounds to one
    integer. In units of cells, the distance from 0 is half of a normal law of variance ``s = m**2 * variance``, and is
    drawn by rejection ([1]_, algorithm N): propose a geometric cell k of scale t and a uniform place U in it; accept
    with the probability e^-f, ::

        f = (k - s / t)**2 / (2 s)  +  U * (2 k + U) / (2 s)  =  (k + U)**2 / (2 s) - k / t + s / (2 t**2).

    As the proposal's density is proportional to e^(-k/t), the accepted one is to e^(-(k + U)^2 / 2s). The two terms on
    the left are at least 0, so e^-f is a probability; with t near the root of s, about 3 of 4 are accepted.

    Coins are tossed with floats of a proven error; the one in 2**30 that is undecided is settled by further bits of U,
    and of the coin: f increases with U.

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
        The integers; Python integers if the variance is above about 2**102, to prevent overflow.

    Raises
    ------
    TypeError, ValueError
        If the variance is not rational, or not positive.

    See Also
    --------
    discrete_gaussian : A law on the integers alone, which is concentrated DP, but not Gaussian DP.

    Notes
    -----
    **Privacy.** Added to integers that one person changes by at most s (in Euclidean norm, for a vector), it gives
    s / sqrt(variance)-Gaussian differential privacy ([2]_, theorem 2.7), exactly: no probability is rounded.

    References
    ----------
    .. [1] C. F. F. Karney (2016). Sampling exactly from the normal distribution. ACM Transactions on Mathematical
       Software 42(1).
    .. [2] J. Dong, A. Roth, W. J. Su (2022). Gaussian differential privacy. Journal of the Royal Statistical Society B
       84(1). Numbers as in arXiv:1905.02383.

    Examples
    --------
    >>> from skdp.randomness import SeededSource
    >>> noise = rounded_gaussian(SeededSource(0), 100, 100_000)
    >>> round(float(noise.mean())), round(float(noise.std()))
    (0, 10)
    """
    exact = check_rational("variance", variance)
    halvings = max(1, (math.ceil(_FINENESS / exact) - 1).bit_length() + 1 >> 1)
    in_cells = exact * 4**halvings
    scale = math.isqrt(math.floor(in_cells))
    geometric = geometric_digits(Fraction(scale))
    out: NDArray = np.empty(size, geometric.dtype)
    filled = 0
    while filled < size:
        tries = min(_BLOCK, (size - filled) * 3 // 2 + 8)
        cells = geometric.draw(source, tries)
        words = source.bytes(8 * tries).view("<i8")  # a place in the cell, and a sign
        places = words & (1 << _PLACE_BITS) - 1
        kept = np.flatnonzero(_accepted(source, cells, places, in_cells, scale))[: size - filled]
        # A cell has length 1 / 2**halvings; an integer is in the middle of the cells that round to it.
        nearest = (cells[kept] >> halvings - 1) + 1 >> 1
        out[filled : filled + kept.size] = np.where(words[kept] < 0, -nearest, nearest)
        filled += kept.size
    return seen("rounded_gaussian", out, variance=exact)


def _accepted(
    source: ByteSource, cells: NDArray, places: NDArray[np.int64], variance: Fraction, scale: int
) -> NDArray[np.bool_]:
    """Toss coins of probability e^-f."""
    # The float exponent is wrong by less than ``2**-42 * max(1, f)``: its terms are products and sums of positive
    # floats, except ``ratio - share``, where share is between 1 and 1.14; and the bits of U that are not yet drawn, or
    # that a float cannot hold, change f by less than ``2**-52 * (k + 1) / variance < 2**-52 * max(1, f)``.
    ratio = (cells / scale).astype(np.float64)
    share = float(variance / scale**2)
    place = places * 2.0**-_PLACE_BITS
    steps = (ratio - share) ** 2
    curve = place * (2 * ratio + place * float(Fraction(1, scale))) * float(Fraction(1, scale))

    def bounds(index: int) -> Bounds:
        place_in_cell = Uniform(source, int(places[index]), _PLACE_BITS)
        return partial(_acceptance_bounds, int(cells[index]), place_in_cell, variance, scale)

    return settled_coins(source, (steps + curve) * (0.5 / share), bounds)


def _acceptance_bounds(cell: int, place: Uniform, variance: Fraction, scale: int, bits: int) -> tuple[int, int]:
    """Enclose ``2**bits * e**-f``, with at least `bits` bits of the place."""
    while place.bits < bits:
        place.extend()
    ends = (Fraction(place.value + end, 1 << place.bits) for end in (0, 1))
    least, most = (_exponent(cell, end, variance, scale) for end in ends)
    return exp_minus_bounds(most, bits)[0], exp_minus_bounds(least, bits)[1]


def _exponent(cell: int, place: Fraction, variance: Fraction, scale: int) -> Fraction:
    return ((cell - variance / scale) ** 2 + place * (2 * cell + place)) / (2 * variance)
