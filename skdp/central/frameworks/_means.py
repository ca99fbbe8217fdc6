"""The mean in the three frameworks of local sensitivity."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from skdp.central.frameworks._propose_test_release import pass_threshold, passes
from skdp.central.frameworks._sample_and_aggregate import noisy_totals, totals_noise
from skdp.central.frameworks._smooth_sensitivity import DEGREES_OF_FREEDOM, SmoothNoise
from skdp.central.statistics import GRID, REFUSED, BoundedColumn, Estimate, ratio
from skdp.exact import exp_bounds
from skdp.privacy import Share
from skdp.randomness import ByteSource, discrete_laplace, rounded_laplace, uniform_integers

# Adding or removing a record moves the mean of n values between bounds of distance w by at most w / max(n, 1), and by
# that much at most after k more changes with n - k instead of n (the mean of no value is the middle).
WIDTH = 2 * GRID

_HALF = Fraction(1, 2)  # floor(x + 1/2) is the nearest integer


def proposed_mean(
    column: BoundedColumn,
    test: Fraction,
    release: Fraction,
    delta: Fraction,
    min_n: int,
    level: float,
    source: ByteSource,
) -> Estimate:
    """Release a mean with noise for `min_n` values, if a private test finds as many."""
    # From n values it takes n - min_n + 1 removals to reach a table at which the proposal is wrong. With one value or
    # none proposed, there is no such table.
    distance = max(0, column.sums.n - min_n + 1)
    if min_n > 1 and not passes(distance, test, pass_threshold(test, delta), source):
        return REFUSED
    return laplace_mean(column, WIDTH / (min_n * release), level, source)


def adaptive_mean(
    column: BoundedColumn, test: Fraction, release: Fraction, delta: Fraction, level: float, source: ByteSource
) -> Estimate:
    """Release a mean with noise for a private lower bound of the number of values."""
    # The bound is the number of values plus discrete Laplace noise minus a margin, and at least 1. With probability at
    # most delta it exceeds the larger number of values of two neighbours; otherwise their means differ by at most the
    # width over it.
    noisy = column.sums.n + discrete_laplace(source, 1 / test, 1).item()
    at_least = max(1, noisy - (pass_threshold(test, delta) - 1))
    return laplace_mean(column, WIDTH / (at_least * release), level, source)


def laplace_mean(column: BoundedColumn, scale: Fraction, level: float, source: ByteSource) -> Estimate:
    """Release a mean with Laplace noise of a public scale."""
    place = rounded_laplace(source, column.mean + _HALF, scale)
    return Estimate.around(Fraction(place), Fraction(math.sqrt(2)) * scale, Fraction(-math.log(1 - level)) * scale)


def smooth_beta(epsilon: Fraction, delta: Fraction, min_n: int | None) -> Fraction:
    """Choose the smoothness of the sensitivity of the mean."""
    most = epsilon / DEGREES_OF_FREEDOM
    if delta:
        most = epsilon / Fraction(2 * (math.log(2) - math.log(delta)))
    wanted = most / 10 if min_n is None else Fraction(2 * math.log(max(min_n, 2)) / max(min_n, 2))
    return min(wanted, most / 2, Fraction(1, 4))


def smooth_mean_sensitivity(count: int, beta: Fraction) -> Fraction:
    """Return the smooth sensitivity of a mean of values between bounds."""
    # The maximum over k of ``e**(-beta k) width / max(n - k, 1)`` ([1]_). Its logarithm is convex in k, so it is at one
    # of the ends: ``width max(1 / n, e**(-beta (n - 1)))``, and the width for no value.
    # .. [1] K. Nissim, S. Raskhodnikova, A. Smith (2007). Smooth sensitivity and sampling in private data
    #    analysis. STOC.
    if count <= 1:
        return Fraction(WIDTH)
    # Where the exponential is far below 1 / n, it does not matter how far. The count is private, so nothing of it is
    # cached.
    return WIDTH * max(Fraction(1, count), 1 / exp_bounds.__wrapped__(min(beta * (count - 1), Fraction(1000)))[0])


def smooth_mean(
    column: BoundedColumn, noise: SmoothNoise, beta: Fraction, min_n: int | None, level: float, source: ByteSource
) -> Estimate:
    """Release a mean with noise in proportion to its smooth sensitivity."""
    place = Fraction(noise.draw(source, column.mean + _HALF, smooth_mean_sensitivity(column.sums.n, beta)))
    if min_n is None:
        return Estimate(place, math.nan, math.nan, math.nan)
    sensitivity = smooth_mean_sensitivity(min_n, beta)
    return Estimate.around(place, noise.std * sensitivity, noise.quantile(level) * sensitivity)


def chunk_means(
    columns: Sequence[BoundedColumn], share: Share, n_chunks: int, level: float, source: ByteSource
) -> list[Estimate]:
    """Release the mean of the means of random chunks, of those that have a value, each column with a share."""
    labels = uniform_integers(source, n_chunks, columns[0].numbers.size)
    noises = totals_noise(share, 1)
    errors = noises[0].error, GRID * noises[1].error
    reaches = noises[0].reach(level), GRID * noises[1].reach(level)
    estimates = []
    for column in columns:
        sums, counts = np.zeros(n_chunks, np.int64), np.zeros(n_chunks, np.int64)
        start = 0
        for places in column.places():
            present = ~np.isnan(places)
            chunk = labels[start : start + places.size][present]
            start += places.size
            sums += np.bincount(chunk, places[present], n_chunks).astype(np.int64)
            counts += np.bincount(chunk, minlength=n_chunks)
        means = sums[counts > 0] // counts[counts > 0]  # rounded down
        (total,), answered = noisy_totals(source, [sum(means.tolist())], means.size, noises)
        estimates.append(ratio(total, answered * GRID, errors, reaches))
    return estimates
