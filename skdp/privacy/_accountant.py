"""An accountant of privacy loss distributions: the smallest proven epsilon of elementary losses together."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from skdp.exact import exp_bounds, log_upper, round_up
from skdp.privacy._conversions import gaussian_epsilon, log_delta_above, proven_edge
from skdp.privacy._losses import GaussianLoss, Loss, PureLoss, gaussian_loss, merged

# Let L be the privacy loss under the distribution P of a dominating pair. Then delta is
# E[max(0, 1 - e**(epsilon - L))], and for independent losses L is their sum. Losses are
# placed on a grid. Three steps change them, and each can only increase the delta of a
# loss or of a sum, because max(0, 1 - e**epsilon * y) is convex and decreasing in
# y = e**-L:
#
# - A loss between two points of the grid is split such that E[y] stays ("connect the
#   dots", [1]_).
# - Small losses that are rare move up to the next one that is kept.
# - Large losses that are rare become infinite: their probability is added to delta.
#
# All numbers are at least 0 and are only added and multiplied, so each rounding error is
# relative to the result: there is no Fourier transform, and no delta is too small.
# Gaussian losses add up to one, whose delta is known for every epsilon, so it needs no
# grid: ``delta(e) = E[delta_mu(e - L)]`` with the sum L of all other losses.
# .. [1] V. Doroshenko, B. Ghazi, P. Kamath, R. Kumar, P. Manurangsi (2022). Connect the
#    dots: tighter discrete approximations of privacy loss distributions. PoPETs
#    2022(4). arXiv:2207.04380

# Points of a grid; the standard deviation of a sum is then above 200 of them.
MAX_POINTS = 1 << 13

# Steps of the grid in a single loss: splitting increases its variance by 1 part in 2**18.
MIN_STEPS = 1 << 9

# The largest number of losses for which the margins below hold.
MAX_LOSSES = 1 << 24

# Bound of the relative error of the masses of a convolution and of the steps after it:
# some more than `MAX_POINTS` roundings of 2**-53 each.
MARGIN = 2.0**-38

# Products of floats that underflow are lost: fewer than 2**50, each below 2**-1022.
MAX_LOST = 1e-280

# Fraction of delta that the rare losses of a convolution may have.
RARE = 2.0**-16


def smallest_epsilon(losses: Iterable[Loss], delta: Fraction) -> float | None:
    """Return a proven epsilon for losses together; None if they exceed delta."""
    losses = merged(losses)
    failure = joint_failure(losses)
    left = (delta - failure) / (1 - failure) if failure < delta else Fraction(0)
    pure = [loss for loss in losses if loss._pure]
    epsilon_sum = sum(
        (loss.count * Fraction(loss._pure or 0) for loss in pure), Fraction(0)
    )
    gaussians = [loss for loss in losses if isinstance(loss, GaussianLoss)]
    mu_squared = sum(
        (loss.count * Fraction(loss.mu) ** 2 for loss in gaussians), Fraction(0)
    )
    if failure > delta or (mu_squared and left < Fraction(5e-324)):
        return None
    mu = gaussian_loss(mu_squared).mu
    basic = epsilon_sum + Fraction(gaussian_epsilon(mu, left) if mu else 0)
    n_losses = sum(loss.count for loss in pure)
    is_mu_within = mu == 0 or 2.0**-30 < mu < 2.0**5
    is_sum_within = n_losses <= MAX_LOSSES and 2.0**-30 < epsilon_sum < 2**40
    if left > 1e-270 and is_mu_within and is_sum_within:
        # The error of the points of the grid, and of epsilon minus a point.
        slack = (epsilon_sum + Fraction(mu)) / (1 << 40)
        found = _search(pure, mu, float(left), round_up(basic))
        basic = min(basic, Fraction(found) + slack)
    return round_up(basic)


def joint_failure(losses: Iterable[Loss]) -> Fraction:
    """Bound the probability that at least one of independent failures happens."""
    failure_sum = exponent = Fraction(0)
    for loss in losses:
        failure_sum += loss.count * loss._failure
        exponent += loss.count * Fraction(log_upper(1 / (1 - loss._failure)))
    # A probability below e**-100 that nothing fails counts as 0.
    if exponent > 100:
        return Fraction(1)
    # Nothing fails with the product of their probabilities, rounded down.
    return min(failure_sum, 1 - 1 / exp_bounds(exponent)[1])


def _search(pure: list[Loss], mu: float, delta: float, basic: float) -> float:
    """Return the smallest epsilon up to `basic` that the distribution of the loss allows."""
    n_losses = sum(loss.count for loss in pure)
    unit = max(float(loss._pure or 0) for loss in pure)
    rare = delta * RARE / n_losses
    parts = []
    for loss in pure:
        share = loss.share if isinstance(loss, PureLoss) else 1.0
        one = Distribution.of_channel(float(loss._pure or 0), share, unit)
        parts.append(one.to_power(loss.count, rare))
    while len(parts) > 1:
        parts.sort(key=lambda part: part.exponent)
        parts.append(parts.pop(0).plus(parts.pop(0), rare))
    (total,) = parts

    def excess(epsilon: float) -> float:
        reached = total.delta(epsilon, mu) * (1 + n_losses * MARGIN) + MAX_LOST
        return math.log(reached / delta) + 2.0**-40

    return proven_edge(excess, 2.0**-30, safe=basic, unsafe=0.0)


@dataclass(frozen=True)
class Distribution:
    """Probabilities of a sum of losses on a grid of step ``unit * 2**exponent``."""

    unit: float
    exponent: int
    # The index of the first point.
    first: int
    masses: NDArray[np.float64]
    # The probability of an infinite loss.
    infinite: float = 0.0
    # The number of losses in the sum.
    count: int = 1

    @classmethod
    def of_channel(cls, epsilon: float, share: float, unit: float) -> Distribution:
        """Make the distribution of a `PureLoss`: epsilon, -epsilon or 0, rounded to a grid."""
        # Smaller losses are rounded up to a negligible one.
        epsilon = max(epsilon, unit * 2.0**-40)
        mantissa, exponent = math.frexp(epsilon / unit)
        if mantissa == 0.5:
            exponent -= 1  # a point of the grid
        else:
            exponent -= MIN_STEPS.bit_length() - 1
        step = unit * 2.0**exponent
        index = math.floor(epsilon / step)
        # Fractions of the two losses that are moved to the upper neighbouring point.
        upper = _upper_fraction(epsilon - index * step, step)
        lower = _upper_fraction((index + 1) * step - epsilon, step)
        likely = share / (1 + math.exp(-epsilon))
        rare = share * math.exp(-epsilon) / (1 + math.exp(-epsilon))
        masses = np.zeros(2 * index + 3)
        masses[:2] = rare * (1 - lower), rare * lower
        masses[-2:] = likely * (1 - upper), likely * upper
        masses[index + 1] = 1 - share
        return cls(unit, exponent, -index - 1, masses)

    @property
    def step(self) -> float:
        return self.unit * 2.0**self.exponent

    def plus(self, other: Distribution, rare: float) -> Distribution:
        """Return the distribution of the sum of two independent losses."""
        coarse, fine = sorted([self, other], key=lambda part: -part.exponent)
        while fine.exponent < coarse.exponent:
            if 2 * coarse.masses.size <= MAX_POINTS:
                coarse = coarse._refine()
            else:
                fine = fine._coarsen()
        total = Distribution(
            self.unit,
            fine.exponent,
            coarse.first + fine.first,
            np.convolve(coarse.masses, fine.masses),
            coarse.infinite + fine.infinite,
            coarse.count + fine.count,
        )
        total = total._trim(rare * total.count)
        while total.masses.size > MAX_POINTS:
            total = total._coarsen()
        return total

    def to_power(self, count: int, rare: float) -> Distribution:
        """Return the distribution of the sum of `count` independent copies."""
        total = None
        square = self
        while True:
            if count & 1:
                total = square if total is None else total.plus(square, rare)
            count >>= 1
            if not count:
                assert total is not None
                return total
            square = square.plus(square, rare)

    def delta(self, epsilon: float, mu: float) -> float:
        """Return delta at epsilon of the sum and a Gaussian loss, without a margin for rounding."""
        points = (self.first + np.arange(self.masses.size)) * self.step
        gaps: NDArray[np.float64] = np.asarray(epsilon - points, float)
        if mu:
            weights = _gaussian_delta(gaps, mu)
        else:
            weights = -np.expm1(np.minimum(gaps, 0))
        return float(weights @ self.masses) + self.infinite

    def _trim(self, rare: float) -> Distribution:
        """Make rare large losses infinite, and move rare small ones up."""
        above = np.cumsum(self.masses[::-1])[::-1]
        end = max(int(np.searchsorted(-above, -rare)), 1)
        below = np.cumsum(self.masses[:end])
        start = min(int(np.searchsorted(below, rare)), end - 1)
        masses = self.masses[start:end].copy()
        masses[0] = below[start]
        tail = float(above[end]) if end < above.size else 0.0
        infinite = self.infinite + tail
        return replace(self, first=self.first + start, masses=masses, infinite=infinite)

    def _refine(self) -> Distribution:
        """Halve the step."""
        masses = np.zeros(2 * self.masses.size - 1)
        masses[::2] = self.masses
        return replace(
            self, exponent=self.exponent - 1, first=2 * self.first, masses=masses
        )

    def _coarsen(self) -> Distribution:
        """Double the step; split the mass of each odd point between its neighbours."""
        is_odd = self.first % 2
        padding = is_odd, (self.masses.size + is_odd + 1) % 2
        padded = np.pad(self.masses, padding)
        masses = padded[::2].copy()
        upper = _upper_fraction(self.step, 2 * self.step)
        masses[1:] += padded[1::2] * upper
        masses[:-1] += padded[1::2] * (1 - upper)
        first = (self.first - is_odd) // 2
        return replace(self, exponent=self.exponent + 1, first=first, masses=masses)


def _upper_fraction(distance: float, step: float) -> float:
    """Return the fraction of a loss that goes up, if it is a distance above a point."""
    fraction = math.expm1(-max(distance, 0.0)) / math.expm1(-step)
    # A factor near 1 covers rounding errors, which must not move mass down.
    return min(fraction * (1 + 2.0**-48), 1.0)


def _gaussian_delta(gaps: NDArray[np.float64], mu: float) -> NDArray[np.float64]:
    """Return upper bounds of delta of Gaussian noise at each gap, which may be negative."""
    # Below 0, delta(gap) = 1 - e**gap + e**gap * delta(-gap).
    log_deltas = log_delta_above(np.abs(gaps) / mu - mu / 2, mu)
    below = np.minimum(gaps, 0)
    weights: NDArray[np.float64] = np.exp(below + log_deltas) - np.expm1(below)
    return weights
