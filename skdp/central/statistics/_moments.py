"""Means and variances of several columns from one draw of cube noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from scipy.optimize import brentq
from scipy.special import gammainc

from skdp.central.statistics._sums import GRID, ColumnSums
from skdp.randomness import ByteSource, cube_noise, discrete_laplace

UNIFORM_VARIANCE = 1 / 3
"""Of a uniform distribution between the bounds, in squared half widths."""


class Moments(NamedTuple):
    """A released mean and variance, in half widths of the bounds from their middle."""

    # The errors are standard deviations of the noise, at most the half width and its square. `variance` is never below
    # its error.

    mean: float
    mean_error: float
    variance: float
    variance_error: float

    @property
    def drowned(self) -> bool:
        """Whether the noise is as large as the variance of a uniform distribution, which then replaces it."""
        return self.variance_error >= UNIFORM_VARIANCE


def cube_moments(
    columns: Sequence[ColumnSums], epsilon: Fraction, source: ByteSource, *, squares: bool, shared_count: bool
) -> list[Moments]:
    """Estimate the mean and the variance of each column by the cube mechanism."""
    # One record changes each number of `query` by at most `GRID`. So noise of the density ``e**(-epsilon max|z| /
    # GRID)`` gives epsilon-differential privacy for all columns together: this is the K-norm mechanism of the maximum
    # norm ([1]_, [2]_).
    # .. [1] M. Hardt, K. Talwar (2010). On the geometry of differential privacy. STOC.
    # .. [2] T. Steinke, J. Ullman (2016). Between pure and approximate differential privacy. Journal of Privacy and
    #    Confidentiality 7(2).
    numbers = query(columns, squares=squares, shared_count=shared_count)
    scale = GRID / epsilon
    noise = cube_noise(source, scale, len(numbers))[0]
    noisy = [number + int(part) for number, part in zip(numbers, noise, strict=True)]
    error = scale * Fraction(cube_std(len(numbers)))
    n_counts = 1 if shared_count else len(columns)
    counts, sums, width = noisy[:n_counts], noisy[n_counts:], 2 if squares else 1
    return [
        _moments(counts[0 if shared_count else index], sums[width * index : width * (index + 1)], error)
        for index in range(len(columns))
    ]


def query(columns: Sequence[ColumnSums], *, squares: bool, shared_count: bool) -> list[int]:
    """Return the counts and sums that get noise; one record changes each by at most `GRID`."""
    numbers = [column.sums.n * GRID for column in (columns[:1] if shared_count else columns)]
    for column in columns:
        numbers.append(column.sums.places)
        if squares:
            numbers.append(2 * column.sums.squares - GRID * column.sums.n)
    return numbers


def _moments(count: int, sums: Sequence[int], error: Fraction) -> Moments:
    """Turn a noisy count and noisy sums, whose noise has the given standard deviation, into moments."""
    if count <= 0:
        return Moments(0.0, 1.0, UNIFORM_VARIANCE, 1.0)
    # What is possible without noise; and no quotient overflows.
    mean, *second = [min(max(total, -count), count) / count for total in sums]
    share = float(min(error / count, Fraction(1)))
    mean_error = min(share * math.hypot(1, mean), 1.0)
    if not second:
        return Moments(mean, mean_error, UNIFORM_VARIANCE, 1.0)
    variance = max((second[0] + 1) / 2 - mean**2, 0.0)
    # The slopes of the variance in the three sums; and places are rounded, by up to half a step.
    variance_error = min(share * math.hypot(0.5, 2 * mean, mean**2 - variance + 0.5) + 1 / GRID, 1.0)
    known = variance_error < UNIFORM_VARIANCE
    return Moments(mean, mean_error, max(variance, variance_error) if known else UNIFORM_VARIANCE, variance_error)


class Estimate(NamedTuple):
    """A released mean, its standard error and its interval, in steps of the grid."""

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
    # One record adds two numbers of at least 0 to (A, B), together the width of the column, or nothing. So neighbours
    # lie within the hull of these segments and their negatives, a square on its corner, and the noise has the density
    # e^(-epsilon |z|) for the norm with this unit ball ([1]_): for one column Laplace noise on A and B. Turned by 45
    # degrees the square lies flat: A - B and A + B move by at most the width each. So for d columns the ball is a cube
    # of 2 d dimensions ([2]_), and one draw with the whole epsilon is smaller than d separate ones.
    # .. [1], [2] As in `cube_moments`.
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
    """Estimate means from a noisy sum of the values and a noisy count, each with half of epsilon."""
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


# Cube noise of scale 1 in D dimensions has the density e^-max|z| up to a factor: a mixture of uniform distributions on
# cubes, whose half side R has a gamma distribution of shape D + 1.


def cube_std(dimension: int) -> float:
    """Return the standard deviation of a coordinate of cube noise of scale 1."""
    return math.sqrt((dimension + 1) * (dimension + 2) / 3)


def cube_quantile(level: float, dimension: int, slope: float) -> float:
    """Return a quantile of the absolute value of ``z_1 - slope z_2`` of cube noise of scale 1."""
    # For two uniform numbers on [-1, 1] the combination has a trapezoidal distribution. Its tail is 1 - y up to
    # 1 - slope, and then ``(1 + slope - y)**2 / (4 slope)``: polynomials in reach / R, whose means over R are known.
    shape, longest = dimension + 1, 1 + slope

    def share(power: int, low: float, high: float) -> float:
        # The integral of R**-power over the gamma distribution from low to high.
        factor = math.prod(range(shape - power, shape))
        return float(gammainc(shape - power, high) - gammainc(shape - power, low)) / factor

    def beyond(reach: float) -> float:
        near = reach / (1 - slope) if slope < 1 else math.inf
        tail = share(0, near, math.inf) - reach * share(1, near, math.inf) if slope < 1 else 0.0
        if slope > 0:
            ends = reach / longest, near
            square = longest**2 * share(0, *ends) - 2 * longest * reach * share(1, *ends) + reach**2 * share(2, *ends)
            tail += square / (4 * slope)
        return tail - (1 - level)

    return float(brentq(beyond, 0, 40 * dimension - 40 * math.log(1 - level)))
