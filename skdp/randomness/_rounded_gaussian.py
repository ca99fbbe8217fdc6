"""Gaussian noise, rounded to integers: exactly."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from skdp.exact import exp_minus_bounds
from skdp.randomness._exp_coins import settled_coins
from skdp.randomness._geometric import geometric_digits
from skdp.randomness._rationals import check_rational
from skdp.randomness._sources import ByteSource
from skdp.randomness._uniform import Bounds, Uniform

_BLOCK = 1 << 13
_FINENESS = 1 << 8  # the variance in cells is at least this: uniform places in them are accepted nearly always
_PLACE_BITS = 63


def rounded_gaussian(source: ByteSource, variance: Fraction | int, size: int) -> NDArray:
    """Draw independent integers ``round(X)``, where X is a real number of the normal law of mean 0.

    The integer z has exactly the probability of the real event ``-1/2 <= X - z < 1/2``. To round a sum of an integer
    and X is to add ``round(X)`` to the integer: it is post-processing of the ideal Gaussian mechanism, and what is
    proved of that one holds.

    The line is cut into cells of a length ``1 / m``, where m is an even power of two, so that a cell rounds to one
    integer. In units of cells, the distance from 0 is half of a normal law of variance ``s = m**2 * variance``, and is
    drawn by rejection ([1]_, algorithm N): propose a geometric cell k of scale t and a uniform place U in it; accept
    with the probability e^-f, ::

        f = (k - s / t)**2 / (2 s)  +  U * (2 k + U) / (2 s)  =  (k + U)**2 / (2 s) - k / t + s / (2 t**2).

    As the proposal's density is proportional to e^(-k/t), the accepted one is to e^(-(k + U)^2 / 2s). The two terms on
    the left are at least 0, so e^-f is a probability; with a t near the root of s, about 3 of 4 are accepted. The first
    one alone would give the discrete Gaussian; the second one turns its steps into the real curve.

    The exponent f is a real number, as U is. Coins are tossed with floats of a proven error, and the one in 2**30 that
    they leave undecided with as many more bits of U, and of the coin, as it takes: f increases with U.

    Parameters
    ----------
    source : ByteSource
        Where the bytes come from.
    variance : Fraction or int
        Of X; positive, of any size.
    size : int
        How many integers.

    Returns
    -------
    ndarray of shape (size,), dtype int64 or object
        The integers; Python's if the variance is above about 2**102, for they could be too large for int64.

    Raises
    ------
    TypeError
        If the variance is not rational.
    ValueError
        If it is not positive.

    See Also
    --------
    discrete_gaussian : A law on the integers alone, which is concentrated DP, but not Gaussian DP.

    Notes
    -----
    **Privacy.** Added to integers that one person changes by s at most (in Euclidean norm, for a vector), it gives
    s / sqrt(variance)-Gaussian differential privacy ([2]_, theorem 2.7), exactly: there is no rounded probability.

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
        # A cell is as long as 1 / 2**halvings, and the integers are in the middle of those that round to them.
        nearest = (cells[kept] >> halvings - 1) + 1 >> 1
        out[filled : filled + kept.size] = np.where(words[kept] < 0, -nearest, nearest)
        filled += kept.size
    return out


def _accepted(
    source: ByteSource, cells: NDArray, places: NDArray[np.int64], variance: Fraction, scale: int
) -> NDArray[np.bool_]:
    """Toss coins of probability e^-f."""
    # The float exponent is wrong by less than ``2**-42 * max(1, f)``: its terms are products and sums of positive
    # floats, save for ``ratio - share``, where share is between 1 and 1.14; and the bits of U that are not yet drawn,
    # and those that a float cannot hold, change f by less than ``2**-52 * (k + 1) / variance < 2**-52 * max(1, f)``.
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
    """Enclose ``2**bits * e**-f``, with at least as many bits of the place."""
    while place.bits < bits:
        place.extend()
    ends = (Fraction(place.value + end, 1 << place.bits) for end in (0, 1))
    least, most = (_exponent(cell, end, variance, scale) for end in ends)
    return exp_minus_bounds(most, bits)[0], exp_minus_bounds(least, bits)[1]


def _exponent(cell: int, place: Fraction, variance: Fraction, scale: int) -> Fraction:
    return ((cell - variance / scale) ** 2 + place * (2 * cell + place)) / (2 * variance)
