"""Geometric and discrete Laplace noise of a rational ratio, exactly."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skdp.randomness._coins import bernoulli_ratio
from skdp.randomness._sources import ByteSource


def geometric(source: ByteSource, numerator: int, denominator: int, size: int) -> NDArray[np.int64]:
    """Draw independent numbers of heads before the first tails, for a coin of rational probability.

    A number g has probability exactly ``(1 - a) a**g``, a = numerator / denominator. Its binary digits are independent:
    digit i is 1 with the odds a**(2**i) to 1. Above the digits that are drawn, ``a**(2**m)`` is the probability that
    the number goes on, and from there it begins anew.

    Parameters
    ----------
    source : ByteSource
        Where the bytes come from.
    numerator, denominator : int
        With ``0 <= numerator < denominator``; the ratio is at most 1 - 2**-24, or a draw would take too long.
    size : int
        How many numbers.

    Returns
    -------
    ndarray of shape (size,), dtype int64
        The numbers.

    Raises
    ------
    ValueError
        If the ratio is out of range.

    Examples
    --------
    >>> from skdp.randomness import SeededSource
    >>> round(float(geometric(SeededSource(0), 1, 2, 100_000).mean()), 2)
    1.0
    """
    if not 0 <= numerator < denominator:
        raise ValueError("a geometric draw needs 0 <= numerator < denominator")
    if (denominator - numerator) << 24 < denominator:
        raise ValueError("a geometric draw needs numerator <= (1 - 2**-24) denominator")
    out = np.zeros(size, np.int64)
    digit = 0
    # Until going on is rarer than once in 2**20 draws, or the exact powers become too long to be worth it.
    while numerator << 20 > denominator and denominator.bit_length() < 1 << 16:
        out += bernoulli_ratio(source, numerator, numerator + denominator, size).astype(np.int64) << digit
        numerator, denominator = numerator**2, denominator**2
        digit += 1
    more = np.arange(size)
    while more.size:
        more = more[bernoulli_ratio(source, numerator, denominator, more.size)]
        out[more] += 1 << digit
    return out


def discrete_laplace(source: ByteSource, numerator: int, denominator: int, size: int) -> NDArray[np.int64]:
    """Draw independent integers z with probability exactly ``(1 - a) / (1 + a) * a**abs(z)``.

    The difference of two independent geometric numbers of the ratio a = numerator / denominator; a = e**(-epsilon), or
    a fraction above it, makes a count of sensitivity 1 epsilon-differentially private (Ghosh et al. 2012).

    Parameters
    ----------
    source : ByteSource
        Where the bytes come from.
    numerator, denominator : int
        With ``0 <= numerator < denominator``.
    size : int
        How many integers.

    Returns
    -------
    ndarray of shape (size,), dtype int64
        The integers.

    Raises
    ------
    ValueError
        If the ratio is not in [0, 1).

    Examples
    --------
    >>> from skdp.randomness import SeededSource
    >>> noise = discrete_laplace(SeededSource(0), 1, 3, 100_000)
    >>> round(float((noise == 0).mean()), 2), round(float(noise.var()), 1)
    (0.5, 1.5)
    """
    return geometric(source, numerator, denominator, size) - geometric(source, numerator, denominator, size)
