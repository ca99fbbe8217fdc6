"""Exact geometric, discrete Laplace and discrete Gaussian noise of any rational parameter."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from skdp.exact import exp_minus_bounds
from skdp.randomness._draws import check_rational, seen
from skdp.randomness._real import RealCoin, exp_coins
from skdp.randomness._sources import BLOCK, ByteSource

_LARGEST = (
    1 << 52
)  # largest scale of numbers in int64; above it, they are Python integers


def geometric(source: ByteSource, scale: Fraction | int, size: int) -> NDArray:
    """Draw independent geometric numbers: g with probability exactly ``(1 - a) * a**g``, where ``a = e**(-1 / scale)``.

    The binary digits of a geometric number are independent: digit i is 1 with the odds a^(2^i) to 1 ([1]_). Above the m
    digits that are drawn, the number continues with probability a^(2^m) and another number of this law: neither the
    probabilities, which are irrational, nor the tail are rounded.

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
    .. [1] C. Dwork, K. Kenthapadi, F. McSherry, I. Mironov, M. Naor (2006). Our data, ourselves: privacy via
       distributed noise generation. EUROCRYPT.

    Examples
    --------
    >>> from skdp.randomness import SeededSource
    >>> round(float(geometric(SeededSource(0), 100, 100_000).mean()))
    99
    """
    return geometric_digits(check_rational("scale", scale)).draw(source, size)


def discrete_laplace(source: ByteSource, scale: Fraction | int, size: int) -> NDArray:
    """Draw independent integers z with probability exactly proportional to ``e**(-abs(z) / scale)``.

    With a = e^(-1/scale), the number is a `geometric` number g with probability 1 / (1 + a), otherwise -1 - g. Added to
    an integer of sensitivity s, it gives s / scale-differential privacy, and no other noise is better for counts
    ([1]_).

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
    .. [1] A. Ghosh, T. Roughgarden, M. Sundararajan (2012). Universally utility-maximizing privacy mechanisms. SIAM J.
       Comput. 41(6).

    Examples
    --------
    >>> from skdp.randomness import SeededSource
    >>> noise = discrete_laplace(SeededSource(0), 1, 100_000)
    >>> round(float((noise == 0).mean()), 2), round(float(noise.var()), 1)
    (0.46, 1.8)
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
        # The number continues, with probability a**(2**m), less than once in 2**20: 2**m >= 14 scale > 20 log(2) scale.
        n_digits = (math.ceil(14 * scale) - 1).bit_length()
        self._coins = [
            RealCoin(partial(_share_bounds, 2**digit / scale))
            for digit in range(n_digits)
        ]
        self._sign = (
            self._coins[0] if n_digits else RealCoin(partial(_share_bounds, 1 / scale))
        )
        self._more = RealCoin(partial(exp_minus_bounds, 2**n_digits / scale))
        self.dtype: type = np.int64 if scale <= _LARGEST else object

    def draw(self, source: ByteSource, size: int, *, signed: bool = False) -> NDArray:
        """Draw geometric numbers, or discrete Laplace noise."""
        out: NDArray = np.empty(size, self.dtype)
        for start in range(0, size, BLOCK):
            stop = min(start + BLOCK, size)
            block = self._draw_digits(source, stop - start)
            more, reached = np.arange(stop - start), 0
            while (more := more[self._more.draw(source, more.size)]).size:
                reached += 1 << len(self._coins)
                if reached >= 1 << 62:
                    out, block = out.astype(object), block.astype(object)
                block[more] += 1 << len(self._coins)
            if signed:
                block ^= -self._sign.draw(source, stop - start).astype(
                    np.int64
                )  # -1 - g is ~g
            out[start:stop] = block
        return out

    def _draw_digits(self, source: ByteSource, size: int) -> NDArray:
        """Draw the lowest binary digits, eight at a time in bytes, which is faster than in words."""
        block: NDArray = np.zeros(size, self.dtype)
        ends = range(len(self._coins), 0, -8)
        for end in ends:
            coins = self._coins[max(0, end - 8) : end]
            digits = coins.pop().draw(source, size).view(np.uint8)
            for coin in reversed(coins):
                digits += digits
                digits |= coin.draw(source, size)
            if end < len(self._coins):
                block <<= len(coins) + 1
            block |= digits
        return block


geometric_digits = lru_cache(maxsize=32)(GeometricDigits)


def _share_bounds(exponent: Fraction, bits: int) -> tuple[int, int]:
    """Enclose ``2**bits * b / (1 + b)``, where ``b = e**-exponent``."""
    lower, upper = exp_minus_bounds(exponent, bits + 8)
    one = 1 << bits + 8
    return (lower << bits) // (one + lower), -(-(upper << bits) // (one + upper))


_BLOCK = 1 << 14


def discrete_gaussian(
    source: ByteSource, variance: Fraction | int, size: int
) -> NDArray:
    """Draw independent integers z with probability exactly proportional to ``e**(-z**2 / (2 * variance))``.

    Added to an integer of sensitivity s, the number gives s^2 / (2 variance)-concentrated differential privacy; its
    variance is at most the parameter ([1]_).

    Discrete Laplace noise y of scale t is accepted with the probability ``e**(-(abs(y) - variance / t)**2 / (2 *
    variance))`` ([1]_, algorithm 3). Any t is correct; with the standard deviation, about 3 of 4 are accepted.

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
        The integers; Python integers if the variance is above about 2**104, to prevent overflow.

    Raises
    ------
    TypeError, ValueError
        If the variance is not rational, or not positive.

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
    # At this variance and below, 0 is always accepted, and 1 never.
    share = float(max(center / scale, Fraction(1, 2**1000)))
    out: NDArray = np.empty(size, laplace.dtype)
    filled = 0
    while filled < size:
        drawn = laplace.draw(
            source, min(_BLOCK, (size - filled) * 3 // 2 + 8), signed=True
        )
        distance = np.abs(drawn)
        # The exponent is (r - s)**2 / (2 s), with r = |y| / t and s = variance / t**2 of relative error about 2**-53.
        ratio = (distance / scale.numerator).astype(np.float64) * scale.denominator
        rounded = (ratio - share) ** 2 * (0.5 / share)
        accepted = exp_coins(
            source, rounded, partial(_exponent, distance, center, variance)
        )
        kept = drawn[accepted][: size - filled]
        out[filled : filled + kept.size] = kept
        filled += kept.size
    return seen("discrete_gaussian", out, variance=variance)


def _exponent(
    distance: NDArray, center: Fraction, variance: Fraction, index: int
) -> Fraction:
    return (int(distance[index]) - center) ** 2 / (2 * variance)
