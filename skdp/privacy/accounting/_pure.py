"""What a pure loss is in concentrated and in Gaussian privacy: its rho, and its mu."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf, erfinv, ndtr, ndtri

from skdp.exact import round_up
from skdp.privacy.accounting._losses import Loss, Radii

# Of neighbouring orders, minus 1: the bound is larger than the truth by at most half a
# percent.
_RATIO = 1.1

# The first order, minus 1.
_FIRST = 2.0**-8

# The most radii, for the time that each takes.
_N_RADII = 1 << 6

# Some floating point operations with positive numbers.
_MARGIN = 1 + 2.0**-40


@lru_cache(maxsize=256)
def least_rho(loss: Loss) -> float:
    """Bound the largest D / a over all orders a > 1, with Rényi's divergence D of order a."""
    # With s = a - 1, the cumulant K = s D is a convex function of s, 0 at 0, and at
    # most s epsilon. So between two points it is at most its chord, and beyond the last
    # one D / a is at most epsilon / a. With radii r of probabilities w, ``e**K - 1`` is
    # the mean of ``cosh((a - 1/2) r) / cosh(r / 2) - 1``, which is ``2 sinh(a r / 2)
    # sinh((a - 1) r / 2) / cosh(r / 2)``.
    radii, weights = _at_most(_N_RADII, *loss._radii())
    epsilon = float(radii.max())
    with np.errstate(over="ignore", invalid="ignore"):
        square = float(weights @ radii**2)
        if not 2.0**-30 < epsilon < 2.0**9 or square < 2.0**-900:
            # Infinite where floats overflow. Where they underflow, each of the three
            # operations is off by at most half of the smallest float.
            underflow = 2 * math.ulp(0.0) if epsilon else 0.0
            return epsilon * epsilon / 2 * _MARGIN + underflow
        highest = 2 + 40 * (1 + math.log(epsilon**2 / square)) / epsilon
        n_points = 2 + math.ceil(math.log(highest / _FIRST) / math.log(_RATIO))
        points = np.geomspace(_FIRST, highest, n_points)[:, np.newaxis]
        sines = np.sinh((points + 1) * (radii / 2)) * np.sinh(points * (radii / 2))
        cumulants = np.log1p(sines @ (2 * weights / np.cosh(radii / 2)))
    # Also where floats overflow.
    points = points.ravel()
    cumulants = np.fmin(cumulants, points * epsilon)
    chords = _largest_of_chords(np.append(0, points), np.append(0, cumulants))
    return min(max(chords, epsilon / (1 + highest)), epsilon**2 / 2) * _MARGIN


def _at_most(
    n_radii: int, radii: NDArray[np.float64], weights: NDArray[np.float64]
) -> Radii:
    """Split radii among fewer ones such that the mean of tanh(r / 2) stays."""
    # This can only increase a divergence.
    if radii.size <= n_radii:
        return radii, weights
    grid = np.linspace(0, radii.max(), n_radii + 1)
    upper = np.clip(np.searchsorted(grid, radii), 1, n_radii)
    share = np.ones(radii.size)  # rounded up, where floats of tanh are all nearly 1
    if grid[-1] < 16:
        variation = np.tanh(grid / 2)
        below, above = variation[upper - 1], variation[upper]
        share = (np.tanh(radii / 2) - below) / (above - below)
        share = np.clip(share * _MARGIN, 0, 1)
    split = np.zeros(n_radii + 1)
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
    # The derivative of (start + slope s) / (s + s**2) is 0 there; without a slope, all
    # is 0.
    best = (np.sqrt(start**2 - start * slope) - start) / np.where(slope > 0, slope, 1)
    best = np.clip(best, np.maximum(low, points[1] * 2.0**-60), high)
    return float(((start / best + slope) / (1 + best)).max())


# Of which the rarer of two values has a probability that is far above the least float.
_MOST_EPSILON = 500.0

# Far above the floats that underflow.
_NORMAL = 2.0**-1000

# The least share whose probabilities are normal floats; less counts as this.
_RAREST = 2.0**-250


@lru_cache(maxsize=256)
def pure_mu(epsilon: Fraction, share: float = 1.0) -> Fraction | None:
    """Return the least mu of Gaussian DP that a `PureLoss` implies, rounded up; None if epsilon is large."""
    # With p = e**epsilon / (1 + e**epsilon), the trade-off function of this loss
    # consists of three lines with corners at (share * (1 - p), 1 - share * p) and its
    # mirror image. That of Gaussian noise is convex, so it is below if it goes through
    # these corners. The special functions state an error of some units in the highest
    # place.
    if epsilon > _MOST_EPSILON:
        return None
    number = round_up(epsilon)
    if share < 1:
        share = max(share, _RAREST)
        likely = share / (1 + math.exp(-number))
        rare = share / (1 + math.exp(number))
        # Of probabilities that are nearly 1, the float of the others has the digits.
        upper = ndtri(likely) if likely < 0.5 else -ndtri(1 - share + rare)
        mu = upper - ndtri(rare) + 2.0**-43
    elif number < 1:
        mu = 2 * math.sqrt(2) * erfinv(math.tanh(number / 2))
        if number < _NORMAL:
            # Four operations lose at most half of the smallest float each, and the last
            # one multiplies what the others lost by less than 3.
            mu += 8 * math.ulp(0.0)
    else:
        mu = -2 * ndtri(1 / (1 + math.exp(number)))
    return Fraction(float(mu)) * (1 + Fraction(1, 1 << 30))


def pure_epsilon(mu_squared: float) -> float:
    """Return the largest epsilon, but for rounding, of which `pure_mu` is at most a number."""
    mu = min(math.sqrt(mu_squared), 64.0)  # more than that of the largest epsilon
    if mu < 1:
        epsilon = float(2 * math.atanh(erf(mu / 2 / math.sqrt(2))))
    else:
        tail = ndtr(-mu / 2)
        epsilon = min(math.log((1 - tail) / tail), _MOST_EPSILON)
    while epsilon and (pure_mu(Fraction(epsilon)) or 0) ** 2 > mu_squared:
        epsilon *= 1 - 2.0**-28
    return epsilon
