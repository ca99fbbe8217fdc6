"""The zero-concentrated loss of a symmetric loss whose law is known."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from skdp.privacy.accounting._loss import Loss, Radii

_RATIO = 1.1
"""Of neighbouring orders, minus 1: the bound is larger than the truth by at most half a percent."""

_FIRST = 2.0**-8
"""The first order, minus 1."""

_LEVELS = 1 << 6
"""The most radii, for the time that each takes."""

_MARGIN = 1 + 2.0**-40
"""Some floating point operations with positive numbers."""


@lru_cache(maxsize=256)
def least_rho(loss: Loss) -> float:
    """Bound the largest D / a over all orders a > 1, where D is Rényi's divergence of order a of the worst pair."""
    # With s = a - 1, the cumulant K = s D is a convex function of s, 0 at 0, and at most s epsilon. So between two
    # points it is at most its chord, and beyond the last one D / a is at most epsilon / a. With radii r of
    # probabilities w, ``e**K - 1`` is the mean of ``cosh((a - 1/2) r) / cosh(r / 2) - 1``, which is
    # ``2 sinh(a r / 2) sinh((a - 1) r / 2) / cosh(r / 2)``.
    radii, weights = _at_most(_LEVELS, *loss._radii())
    epsilon = float(radii.max())
    with np.errstate(over="ignore"):
        known = float(weights @ radii**2)
    if not 2.0**-30 < epsilon < 2.0**9 or known < 2.0**-900:
        return epsilon * epsilon / 2 * _MARGIN  # infinite where floats overflow
    last = 2 + 40 * (1 + math.log(epsilon**2 / known)) / epsilon
    points = np.geomspace(
        _FIRST, last, 2 + math.ceil(math.log(last / _FIRST) / math.log(_RATIO))
    )
    halves, shares = radii / 2, 2 * weights / np.cosh(radii / 2)
    with np.errstate(over="ignore", invalid="ignore"):
        sines = np.sinh((points[:, None] + 1) * halves) * np.sinh(
            points[:, None] * halves
        )
        cumulants = np.log1p(sines @ shares)
    cumulants = np.fmin(cumulants, points * epsilon)  # also where floats overflow
    largest = max(
        _largest_of_chords(np.append(0, points), np.append(0, cumulants)),
        epsilon / (1 + last),
    )
    return min(largest, epsilon**2 / 2) * _MARGIN


def _at_most(
    levels: int, radii: NDArray[np.float64], weights: NDArray[np.float64]
) -> Radii:
    """Split radii among fewer ones such that the mean of tanh(r / 2) stays, which can only increase a divergence."""
    if radii.size <= levels:
        return radii, weights
    grid = np.linspace(0, radii.max(), levels + 1)
    upper = np.clip(np.searchsorted(grid, radii), 1, levels)
    places = np.tanh(grid / 2)
    share = np.ones(radii.size)  # rounded up, where the floats of tanh are all nearly 1
    if grid[-1] < 16:
        share = (np.tanh(radii / 2) - places[upper - 1]) / (
            places[upper] - places[upper - 1]
        )
        share = np.clip(share * _MARGIN, 0, 1)
    split = np.zeros(levels + 1)
    np.add.at(split, upper, weights * share)
    np.add.at(split, upper - 1, weights * (1 - share))
    return grid, split


def _largest_of_chords(
    points: NDArray[np.float64], values: NDArray[np.float64]
) -> float:
    """Return the largest chord over ``s * (1 + s)``."""
    low, high = points[:-1], points[1:]
    slope = np.diff(values) / (high - low)
    start = np.minimum(
        values[:-1] - slope * low, 0
    )  # of a convex function that is 0 at 0
    # The derivative of (start + slope s) / (s + s**2) is 0 there; without a slope, all is 0.
    best = (np.sqrt(start**2 - start * slope) - start) / np.where(slope > 0, slope, 1)
    best = np.clip(best, np.maximum(low, points[1] * 2.0**-60), high)
    return float(((start / best + slope) / (1 + best)).max())
