"""Discrete Gaussian noise of any rational variance, exactly."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from skdp.randomness._exp_coins import exp_coins
from skdp.randomness._geometric import geometric_digits
from skdp.randomness._rationals import check_rational
from skdp.randomness._sources import ByteSource

_BLOCK = 1 << 14


def discrete_gaussian(source: ByteSource, variance: Fraction | int, size: int) -> NDArray:
    """Draw independent integers z with probability exactly proportional to ``e**(-z**2 / (2 * variance))``.

    Added to an integer of sensitivity s, such a number gives s^2 / (2 variance)-concentrated differential privacy; its
    own variance is at most the parameter ([1]_).

    Discrete Laplace noise y of scale t is accepted with the probability ``e**(-(abs(y) - variance / t)**2 / (2 *
    variance))`` ([1]_, algorithm 3). Any t is right; with the standard deviation, about 3 of 4 are accepted.

    Parameters
    ----------
    source : ByteSource
        Where the bytes come from.
    variance : Fraction or int
        Positive, of any size.
    size : int
        How many integers.

    Returns
    -------
    ndarray of shape (size,), dtype int64 or object
        The integers; Python's if the variance is above about 2**104, for they could be too large for int64.

    Raises
    ------
    TypeError
        If the variance is not rational.
    ValueError
        If it is not positive.

    References
    ----------
    .. [1] C. L. Canonne, G. Kamath, T. Steinke (2020). The discrete Gaussian for differential privacy. NeurIPS.

    Examples
    --------
    >>> from skdp.randomness import SeededSource
    >>> noise = discrete_gaussian(SeededSource(0), 100, 100_000)
    >>> round(float(noise.mean())), round(float(noise.std()))
    (0, 10)
    """
    variance = check_rational("variance", variance)
    scale = Fraction(math.isqrt(math.floor(variance * 2**16)) + 1, 2**8)
    laplace, center = geometric_digits(scale), variance / scale
    # A variance below 2**-1000 is as good as this one, at which 0 is always accepted too, and 1 never.
    share = float(max(center / scale, Fraction(1, 2**1000)))
    out: NDArray = np.empty(size, laplace.dtype)
    filled = 0
    while filled < size:
        drawn = laplace.draw(source, min(_BLOCK, (size - filled) * 3 // 2 + 8), signed=True)
        distance = np.abs(drawn)
        # With r = |y| / t and s = variance / t**2, each wrong by some 2**-53 of it, the exponent is (r - s)**2 / (2 s).
        ratio = (distance / scale.numerator).astype(np.float64) * scale.denominator
        rounded = (ratio - share) ** 2 * (0.5 / share)
        accepted = exp_coins(source, rounded, partial(_exponent, distance, center, variance))
        kept = drawn[accepted][: size - filled]
        out[filled : filled + kept.size] = kept
        filled += kept.size
    return out


def _exponent(distance: NDArray, center: Fraction, variance: Fraction, index: int) -> Fraction:
    return (int(distance[index]) - center) ** 2 / (2 * variance)
