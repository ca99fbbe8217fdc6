"""Means and variances of several columns from one draw of cube noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from skdp.central.statistics._noise import Estimate, Noise
from skdp.central.statistics._sums import GRID, ColumnSums
from skdp.randomness import ByteSource

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


def noisy_moments(
    columns: Sequence[ColumnSums],
    noise: Noise,
    source: ByteSource,
    *,
    squares: bool,
    shared_count: bool,
) -> list[Moments]:
    """Estimate the mean and the variance of each column from one draw of noise."""
    # One record changes each number of `query` by at most `GRID`. So noise of the density ``e**(-epsilon max|z| /
    # GRID)`` gives epsilon-differential privacy for all columns together: this is the K-norm mechanism of the maximum
    # norm ([1]_, [2]_). All of D numbers change by at most ``sqrt(D) * GRID`` in L2 norm, which is attained by a record
    # at the bounds: the sensitivity for Gaussian noise.
    # .. [1] M. Hardt, K. Talwar (2010). On the geometry of differential privacy. STOC.
    # .. [2] T. Steinke, J. Ullman (2016). Between pure and approximate differential privacy. Journal of Privacy and
    #    Confidentiality 7(2).
    noisy = noise.add(
        source, query(columns, squares=squares, shared_count=shared_count)
    )
    n_counts = 1 if shared_count else len(columns)
    counts, sums, width = noisy[:n_counts], noisy[n_counts:], 2 if squares else 1
    return [
        moments_of(
            counts[0 if shared_count else index],
            sums[width * index : width * (index + 1)],
            noise.error,
        )
        for index in range(len(columns))
    ]


def n_numbers(n_columns: int, *, squares: bool, shared_count: bool) -> int:
    """Return how many numbers `query` has."""
    return (1 if shared_count else n_columns) + (2 if squares else 1) * n_columns


def query(
    columns: Sequence[ColumnSums], *, squares: bool, shared_count: bool
) -> list[int]:
    """Return the counts and sums that get noise; one record changes each by at most `GRID`."""
    numbers = [
        column.sums.n * GRID for column in (columns[:1] if shared_count else columns)
    ]
    for column in columns:
        numbers.append(column.sums.places)
        if squares:
            numbers.append(2 * column.sums.squares - GRID * column.sums.n)
    return numbers


def moments_of(count: int, sums: Sequence[int], error: Fraction) -> Moments:
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
    variance_error = min(
        share * math.hypot(0.5, 2 * mean, mean**2 - variance + 0.5) + 1 / GRID, 1.0
    )
    known = variance_error < UNIFORM_VARIANCE
    return Moments(
        mean,
        mean_error,
        max(variance, variance_error) if known else UNIFORM_VARIANCE,
        variance_error,
    )


def two_sums(
    columns: Sequence[ColumnSums],
    noise: Noise,
    level: float,
    source: ByteSource,
    *,
    shared_count: bool = False,
) -> list[Estimate]:
    """Estimate means from the sums A of ``x - low`` and B of ``high - x``, as ``low + (high - low) A / (A + B)``."""
    # One record adds two numbers of at least 0 to (A, B), together the width of the column, or nothing. So neighbours
    # lie within the hull of these segments and their negatives, a square on its corner, and the noise has the density
    # e^(-epsilon |z|) for the norm with this unit ball ([1]_): for one column Laplace noise on A and B. Turned by 45
    # degrees the square lies flat: A - B and A + B move by at most the width each. So for d columns the ball is a cube
    # of 2 d dimensions ([2]_), and one draw with the whole epsilon is smaller than d separate ones. In L2 norm all 2 d
    # numbers move by at most ``sqrt(2 d)`` widths, for Gaussian noise. Where no value may be missing, all A + B are
    # that of the first column, in as many widths, and the cube has d + 1 dimensions.
    # .. [1], [2] As in `noisy_moments`.
    pairs = [(column.sums.places, column.sums.n * GRID) for column in columns]
    if shared_count:
        (count, *totals) = noise.add(
            source, [pairs[0][1], *(total for total, _ in pairs)]
        )
        noisy = [(total, count) for total in totals]
    else:
        flat = noise.add(source, [number for pair in pairs for number in pair])
        noisy = list(zip(flat[::2], flat[1::2], strict=True))
    estimates = []
    for total, count in noisy:
        slope = (
            float(min(Fraction(abs(total), count), Fraction(1))) if count > 0 else 1.0
        )
        reach = noise.reach(level, slope)
        estimates.append(
            ratio(total, count, (noise.error, noise.error), (reach, reach))
        )
    return estimates


def ratio(
    total: int, count: int, errors: Sequence[Fraction], reaches: Sequence[Fraction]
) -> Estimate:
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
