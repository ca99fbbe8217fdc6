"""Exact draws of Gaussian noise, rounded to integers."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from skdp.exact import exp_minus_bounds
from skdp.randomness._discrete_noise import geometric_digits
from skdp.randomness._draws import check_rational, seen
from skdp.randomness._real import Bounds, Uniform, settled_coins
from skdp.randomness._sources import ByteSource

_BLOCK = 1 << 13
_FINENESS = (
    1 << 8
)  # least variance in cells, so that uniform places in them are nearly always accepted
_PLACE_BITS = 63


def rounded_gaussian(
    source: ByteSource, variance: Fraction | int, size: int
) -> NDArray:
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
        kept = np.flatnonzero(_accepted(source, cells, places, in_cells, scale))[
            : size - filled
        ]
        # A cell has length 1 / 2**halvings; an integer is in the middle of the cells that round to it.
        nearest = (cells[kept] >> halvings - 1) + 1 >> 1
        out[filled : filled + kept.size] = np.where(words[kept] < 0, -nearest, nearest)
        filled += kept.size
    return seen("rounded_gaussian", out, variance=exact)


def _accepted(
    source: ByteSource,
    cells: NDArray,
    places: NDArray[np.int64],
    variance: Fraction,
    scale: int,
) -> NDArray[np.bool_]:
    """Toss coins of probability e^-f."""
    # The float exponent is wrong by less than ``2**-42 * max(1, f)``: its terms are products and sums of positive
    # floats, except ``ratio - share``, where share is between 1 and 1.14; and the bits of U that are not yet drawn, or
    # that a float cannot hold, change f by less than ``2**-52 * (k + 1) / variance < 2**-52 * max(1, f)``.
    ratio = (cells / scale).astype(np.float64)
    share = float(variance / scale**2)
    place = places * 2.0**-_PLACE_BITS
    steps = (ratio - share) ** 2
    curve = (
        place
        * (2 * ratio + place * float(Fraction(1, scale)))
        * float(Fraction(1, scale))
    )

    def bounds(index: int) -> Bounds:
        place_in_cell = Uniform(source, int(places[index]), _PLACE_BITS)
        return partial(
            _acceptance_bounds, int(cells[index]), place_in_cell, variance, scale
        )

    return settled_coins(source, (steps + curve) * (0.5 / share), bounds)


def _acceptance_bounds(
    cell: int, place: Uniform, variance: Fraction, scale: int, bits: int
) -> tuple[int, int]:
    """Enclose ``2**bits * e**-f``, with at least `bits` bits of the place."""
    while place.bits < bits:
        place.extend()
    ends = (Fraction(place.value + end, 1 << place.bits) for end in (0, 1))
    least, most = (_exponent(cell, end, variance, scale) for end in ends)
    return exp_minus_bounds(most, bits)[0], exp_minus_bounds(least, bits)[1]


def _exponent(cell: int, place: Fraction, variance: Fraction, scale: int) -> Fraction:
    return ((cell - variance / scale) ** 2 + place * (2 * cell + place)) / (
        2 * variance
    )
