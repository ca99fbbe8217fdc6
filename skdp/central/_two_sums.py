"""The mean from two noisy sums: how far the values are from either bound."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from skdp.central._cube_law import cube_quantile, cube_std
from skdp.central._sums import GRID, ColumnSums
from skdp.randomness import ByteSource, cube_noise, discrete_laplace


class Estimate(NamedTuple):
    """A noisy mean, its standard error and its interval, in steps of the grid; nothing of it is private."""

    mean: float | Fraction
    std_error: float | Fraction
    lower: float | Fraction
    upper: float | Fraction

    @classmethod
    def around(cls, mean: Fraction, error: Fraction, reach: Fraction) -> Estimate:
        """Make an estimate with a symmetric interval."""
        return cls(mean, error, mean - reach, mean + reach)

    def shifted(self, steps: int) -> Estimate:
        """Move the mean and its interval."""
        return Estimate(self.mean + steps, self.std_error, self.lower + steps, self.upper + steps)


REFUSED = Estimate(math.nan, math.nan, math.nan, math.nan)


def two_sums(columns: Sequence[ColumnSums], epsilon: Fraction, level: float, source: ByteSource) -> list[Estimate]:
    """Estimate means from the sums A of ``x - low`` and B of ``high - x``, as ``low + (high - low) A / (A + B)``."""
    # One record adds two numbers to (A, B) that are at least 0 and together the width of the column, or nothing. So
    # neighbours lie within the hull of these segments and their negatives, a square on its corner, and the noise has
    # the density e^(-epsilon |z|) for the norm with this unit ball ([1]_): for one column Laplace noise on A and B.
    # Turned by 45 degrees the square lies flat: A - B and A + B move by at most the width each. So for d columns the
    # ball is a cube of 2 d dimensions ([2]_), and the noise, which is that of a single epsilon for all of them, is
    # smaller than d separate ones.
    # .. [1] M. Hardt, K. Talwar (2010). On the geometry of differential privacy. STOC.
    # .. [2] T. Steinke, J. Ullman (2016). Between pure and approximate differential privacy. Journal of Privacy and
    #    Confidentiality 7(2).
    scale, dimension = GRID / epsilon, 2 * len(columns)
    noise = cube_noise(source, scale, dimension)[0]
    error = scale * Fraction(cube_std(dimension))
    estimates = []
    for index, column in enumerate(columns):
        total = column.sums.places + int(noise[2 * index])
        count = column.sums.n * GRID + int(noise[2 * index + 1])
        slope = float(min(Fraction(abs(total), count), Fraction(1))) if count > 0 else 1.0
        reach = scale * Fraction(cube_quantile(level, dimension, slope) / math.hypot(1, slope))
        estimates.append(ratio(total, count, (error, error), (reach, reach)))
    return estimates


def noisy_sum_count(
    columns: Sequence[ColumnSums], epsilon: Fraction, level: float, source: ByteSource
) -> list[Estimate]:
    """Estimate means from a noisy sum of the values and a noisy number of them, each with its half of epsilon."""
    half = epsilon / (2 * len(columns))
    deviation, quantile = Fraction(math.sqrt(2)), Fraction(-math.log(1 - level))
    estimates = []
    for column in columns:
        # The values themselves are summed, in steps from 0: none of them is farther away than the farther bound.
        low, high = Fraction(column.low), Fraction(column.high)
        middle = round(GRID * (high + low) / (high - low))
        largest = GRID + abs(middle)
        total = column.sums.places + middle * column.sums.n + int(discrete_laplace(source, largest / half, 1)[0])
        count = column.sums.n + int(discrete_laplace(source, 1 / half, 1)[0])
        scales = largest / half, GRID / half
        estimate = ratio(
            total, count * GRID, [deviation * scale for scale in scales], [quantile * scale for scale in scales]
        )
        estimates.append(estimate.shifted(-middle) if count > 0 else estimate)
    return estimates


def ratio(total: int, count: int, errors: Sequence[Fraction], reaches: Sequence[Fraction]) -> Estimate:
    """Estimate a mean place from a noisy sum of places and a noisy count times `GRID`."""
    if count <= 0:
        return Estimate(Fraction(0), GRID, -math.inf, math.inf)
    mean = Fraction(total, count)
    top, bottom = (float(min(error / count, Fraction(1 << 64))) for error in errors)
    error = GRID * math.hypot(top, float(mean) * bottom)
    if reaches[1] >= count:
        return Estimate(mean * GRID, error, -math.inf, math.inf)
    top, bottom = (float(reach / count) for reach in reaches)
    rest = 1 - bottom**2
    spread = math.sqrt(top**2 * rest + (bottom * float(mean)) ** 2)
    ends = [(float(mean) + sign * spread) / rest * GRID for sign in (-1, 1)]
    return Estimate(mean * GRID, error, *ends)
