"""Exact integer noise vectors whose probability depends on their maximum norm only."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache, partial
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from skdp.exact import exp_minus_bounds
from skdp.randomness._discrete_noise import geometric
from skdp.randomness._draws import (
    check_positive_int,
    check_rational,
    seen,
    uniform_below,
)
from skdp.randomness._real import real_categories
from skdp.randomness._sources import ByteSource


def cube_noise(
    source: ByteSource, scale: Fraction | int, dimension: int, size: int = 1
) -> NDArray:
    """Draw integer vectors z with probability exactly proportional to ``e**(-max(abs(z)) / scale)``.

    This is the K-norm mechanism ([1]_) of the maximum norm ([2]_): where a row changes each of several integers by at
    most s, adding such a vector to them is s / scale-differentially private.

    With a = e^(-1/scale), the vector is uniform in a cube {-M, …, M}^D whose radius has the weights
    ``(2 * M + 1)**D * a**M``: together, the cubes that contain z give it ``a**max(abs(z)) / (1 - a)``. The radius is k
    plus D + 1 geometric numbers, where k = 0, …, D has the weights ``B(D, k) * a**k`` with the Eulerian numbers of type
    B: the generating function of (2 M + 1)^D is ``sum_k B(D, k) * x**k / (1 - x)**(D + 1)`` ([3]_).

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
        The vectors; of Python integers if ``(dimension + 1) * scale`` is above 2**52, to prevent overflow.

    Raises
    ------
    TypeError, ValueError
        If the scale is not rational, the dimension is not an integer, or one of them is not positive.

    References
    ----------
    .. [1] M. Hardt, K. Talwar (2010). On the geometry of differential privacy. STOC.
    .. [2] T. Steinke, J. Ullman (2016). Between pure and approximate differential privacy. J. Privacy and
       Confidentiality 7(2).
    .. [3] F. Brenti (1994). q-Eulerian polynomials arising from Coxeter groups. European J. Combin. 15(5).

    Examples
    --------
    >>> from skdp.randomness import SeededSource
    >>> cube_noise(SeededSource(0), 1000, 3)
    array([[ 1701, -6895,  2517]])
    """
    scale = check_rational("scale", scale)
    dimension = check_positive_int("dimension", dimension)
    radii = geometric(source, scale, size * (dimension + 1)).reshape(
        size, dimension + 1
    )
    if (dimension + 1) * scale > 1 << 52 or radii.max(initial=0) > (1 << 61) // (
        dimension + 1
    ):
        radii = radii.astype(object)
    radius = radii.sum(axis=1) + real_categories(
        source, partial(_shares, 1 / scale, dimension), size
    )
    radius = np.repeat(radius, dimension)
    vectors = (uniform_below(source, 2 * radius + 1) - radius).reshape(size, dimension)
    return seen("cube_noise", vectors, scale=scale)


def _shares(exponent: Fraction, dimension: int, bits: int) -> list[tuple[int, int]]:
    """Enclose ``2**bits`` times the probabilities that k is at most 0, …, D."""
    numbers = _eulerian_numbers(dimension)
    # The errors of the weights are up to B(D, k) times those of the powers; their sum is at least B(D, 0) = 1.
    precision = bits + sum(numbers).bit_length() + 8
    below, above = exp_minus_bounds(exponent, precision)
    low_power = high_power = 1 << precision
    low, high = [], []
    for number in numbers:
        low.append(number * low_power)
        high.append(number * high_power)
        low_power = low_power * below >> precision
        high_power = (high_power * above >> precision) + 1
    lowest, highest = sum(low), sum(high)
    # A share is smallest if its weights are at their lower bounds and the others at their upper ones, and vice versa.
    return [
        (
            (part << bits) // (part + highest - larger),
            -(-(larger << bits) // (larger + lowest - part)),
        )
        for part, larger in zip(accumulate(low), accumulate(high), strict=True)
    ]


@lru_cache(maxsize=32)
def _eulerian_numbers(dimension: int) -> tuple[int, ...]:
    """Return the Eulerian numbers of type B: the coefficients of ``(1 - x)**(D + 1) * sum_M (2 M + 1)**D * x**M``."""
    # The recurrence follows from F_(D+1) = F_D + 2 x F_D', where F_D is the sum.
    numbers = [1]
    for d in range(1, dimension + 1):
        left, right = [*numbers, 0], [0, *numbers]
        numbers = [
            (2 * k + 1) * left[k] + (2 * (d - k) + 1) * right[k] for k in range(d + 1)
        ]
    return tuple(numbers)
