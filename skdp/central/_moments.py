"""Means and variances of several columns from one draw of cube noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from skdp.central._cube_law import cube_std
from skdp.central._sums import GRID, ColumnSums
from skdp.randomness import ByteSource, cube_noise

UNIFORM_VARIANCE = 1 / 3
"""Of a uniform law between the bounds, in squared half widths."""


class Moments(NamedTuple):
    """A noisy mean and variance, in half widths of the bounds from their middle; nothing of it is private."""

    # The errors are standard deviations of the noise, at most the half width and its square. `variance` is never below
    # its error.

    mean: float
    mean_error: float
    variance: float
    variance_error: float

    @property
    def drowned(self) -> bool:
        """Whether the noise is as large as the variance of a uniform law, which then stands for the variance."""
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
