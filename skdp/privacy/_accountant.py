"""Accountant of privacy loss distributions: the smallest proven epsilon of several losses together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from skdp.exact import round_up
from skdp.privacy._conversions import gaussian_epsilon, log_delta_above, proven_edge
from skdp.privacy._losses import (
    GaussianLoss,
    Loss,
    PureLoss,
    gaussian_loss,
    merge_losses,
)

# Let L be the privacy loss under the distribution P of a dominating pair. Then delta is
# E[max(0, 1 - e**(epsilon - L))], and for independent losses L is their sum. Losses are
# placed on a grid. Three steps change them, and each can only increase the delta of a
# loss or of a sum, because max(0, 1 - e**epsilon * y) is convex and decreasing in
# y = e**-L:
#
# - A loss between two points of a grid is split such that E[y] stays ("connect the
#   dots", [1]_).
# - Small losses that are rare move up to the next loss that is kept.
# - Large losses that are rare become infinite: their probability is added to delta.
#
# All numbers are at least 0 and are only added and multiplied, so each rounding error is
# relative to the result: no Fourier transform is used, and delta may be arbitrarily
# small. Gaussian losses add up to one, whose delta is known for every epsilon, so it
# needs no grid: ``delta(e) = E[delta_mu(e - L)]`` with the sum L of all other losses.
# .. [1] V. Doroshenko, B. Ghazi, P. Kamath, R. Kumar, P. Manurangsi (2022). Connect the
#    dots: tighter discrete approximations of privacy loss distributions. PoPETs
#    2022(4). arXiv:2207.04380

# Points of a grid. The standard deviation of a sum is then above 200 of them.
MAX_POINTS = 1 << 13

# Steps of a grid in the step of another grid, if distributions on different grids are
# added.
N_STEPS = 1 << 9

# Bound of the relative error of a convolution and of the steps after it: `MAX_POINTS`
# roundings of 2**-53 each, and a few more.
_MARGIN = 2.0**-38


def smallest_epsilon(losses: Iterable[Loss], delta: Fraction) -> float | None:
    """Return a proven epsilon of the composition of losses; None if they exceed delta."""
    losses = merge_losses(losses)
    # The probability that at least one release fails: success probabilities multiply.
    failure = Fraction(0)
    exponent = 0.0
    for loss in losses:
        failure += loss.count * loss._failure
        exponent += loss.count * math.log1p(-float(loss._failure))
    failure = min(failure, Fraction(-math.expm1(exponent) * (1 + 2.0**-40)))
    if failure > delta:
        return None
    remaining = (delta - failure) / (1 - failure)
    pure = [loss for loss in losses if loss._epsilon]
    epsilon_sum = mu_squared = Fraction(0)
    for loss in losses:
        epsilon_sum += loss.count * (loss._epsilon or 0)
        if isinstance(loss, GaussianLoss):
            mu_squared += loss.count * Fraction(loss.mu) ** 2
    mu = gaussian_loss(mu_squared).mu
    if mu and remaining < math.ulp(0.0):
        return None
    # Basic composition: the epsilons of the pure and the Gaussian losses add.
    basic = epsilon_sum + Fraction(gaussian_epsilon(mu, remaining) if mu else 0)
    # Limits for which the margins below and `_MARGIN` hold.
    has_margins = (
        remaining > 1e-270
        and (mu == 0 or 2.0**-30 < mu < 2.0**5)
        and Fraction(1, 1 << 30) < epsilon_sum < 1 << 40
        and sum(loss.count for loss in pure) <= 1 << 24
    )
    if not has_margins:
        return round_up(basic)
    # A point is off by a few units in the last place after each change of the grid, and
    # there are at most two changes for each bit of a count and each different loss.
    slack = (epsilon_sum + Fraction(mu)) * (64 + len(pure)) / (1 << 50)
    found = _search_epsilon(pure, mu, float(remaining), round_up(basic))
    return round_up(min(basic, Fraction(found) + slack))


def _search_epsilon(
    pure: Sequence[Loss], mu: float, delta: float, basic: float
) -> float:
    """Return the smallest epsilon up to `basic` that the distribution of the sum implies."""
    n_losses = sum(loss.count for loss in pure)
    largest = max(float(loss._epsilon or 0) for loss in pure)
    # The rare losses of all convolutions have at most 2**-16 of delta.
    rare = delta * 2.0**-16 / n_losses
    parts = []
    for loss in pure:
        share = loss.share if isinstance(loss, PureLoss) else 1.0
        # Losses far below the largest one are rounded up to a negligible loss.
        epsilon = max(float(loss._epsilon or 0), largest * 2.0**-40)
        parts.append(
            Distribution.from_channel(epsilon, share).to_power(loss.count, rare)
        )
    # Distributions with a fine grid are added first.
    while len(parts) > 1:
        parts.sort(key=lambda part: part.step)
        parts.append(parts.pop(0).plus(parts.pop(0), rare))
    (total,) = parts

    def excess(epsilon: float) -> float:
        # Products of floats that underflow are lost: fewer than 2**50, each below
        # 2**-1022.
        reached = total.delta(epsilon, mu) * (1 + n_losses * _MARGIN) + 1e-280
        return math.log(reached / delta) + 2.0**-40

    return proven_edge(excess, 2.0**-30, safe=basic, unsafe=0.0)


@dataclass(frozen=True)
class Distribution:
    """Probabilities of a sum of losses on a grid, from the index `first` on."""

    step: float
    first: int
    masses: NDArray[np.float64]
    # Probability of an infinite loss.
    infinite: float = 0.0
    # Number of losses in the sum.
    count: int = 1

    @classmethod
    def from_channel(cls, epsilon: float, share: float) -> Distribution:
        """Return the distribution of a `PureLoss`: epsilon, -epsilon or 0."""
        # Sums of equal losses stay on this coarse grid.
        rare = share * math.exp(-epsilon) / (1 + math.exp(-epsilon))
        likely = share / (1 + math.exp(-epsilon))
        return cls(epsilon, -1, np.array([rare, 1 - share, likely]))

    @property
    def points(self) -> NDArray[np.float64]:
        """The losses."""
        indices = self.first + np.arange(self.masses.size, dtype=float)
        return indices * self.step

    def delta(self, epsilon: float, mu: float) -> float:
        """Return delta at epsilon of the sum plus a Gaussian loss, without a margin for rounding."""
        gaps = epsilon - self.points
        if mu:
            weights = _gaussian_delta(gaps, mu)
        else:
            weights = -np.expm1(np.minimum(gaps, 0))
        return float(weights @ self.masses) + self.infinite

    def to_power(self, count: int, rare: float) -> Distribution:
        """Return the distribution of the sum of `count` independent copies."""
        if count == 1:
            return self
        half = self.to_power(count // 2, rare)
        total = half.plus(half, rare)
        return total.plus(self, rare) if count % 2 else total

    def plus(self, other: Distribution, rare: float) -> Distribution:
        """Return the distribution of the sum of two independent losses."""
        # Losses on different grids get a finer grid, unless the sum would have too many
        # points.
        width = (self.masses.size + 1) * self.step + (
            other.masses.size + 1
        ) * other.step
        finest = min(self.step, other.step)
        if self.step != other.step:
            finest /= N_STEPS
        step = max(finest, width / MAX_POINTS)
        one, another = self._on_grid(step), other._on_grid(step)
        count = self.count + other.count
        masses = np.convolve(one.masses, another.masses)
        # Large losses that are rare become infinite.
        above = np.append(np.cumsum(masses[::-1])[::-1], 0.0)
        n_kept = max(int(np.searchsorted(-above, -rare * count)), 1)
        # Small losses that are rare move up.
        below = np.cumsum(masses[:n_kept])
        start = min(int(np.searchsorted(below, rare * count)), n_kept - 1)
        kept = masses[start:n_kept].copy()
        kept[0] = below[start]
        infinite = self.infinite + other.infinite + float(above[n_kept])
        first = one.first + another.first + start
        return Distribution(step, first, kept, infinite, count)

    def _on_grid(self, step: float) -> Distribution:
        """Split each loss between its neighbors on another grid such that E[e**-loss] stays."""
        if step == self.step:
            return self
        points = self.points
        below = np.floor(points / step)
        distances = np.maximum(points - below * step, 0)
        # The factor covers rounding errors, which must not move mass down.
        upper = np.expm1(-distances) / math.expm1(-step) * (1 + 2.0**-48)
        upper = np.minimum(upper, 1)
        first = int(below[0])
        indices = below.astype(np.int64) - first
        size = int(indices[-1]) + 2
        masses = np.zeros(size)
        masses += np.bincount(indices, self.masses * (1 - upper), size)
        masses += np.bincount(indices + 1, self.masses * upper, size)
        return Distribution(step, first, masses, self.infinite, self.count)


def _gaussian_delta(gaps: NDArray[np.float64], mu: float) -> NDArray[np.float64]:
    """Return upper bounds of delta of Gaussian noise at each gap, which may be negative."""
    # For a negative gap, delta(gap) = 1 - e**gap + e**gap * delta(-gap).
    log_deltas = log_delta_above(np.abs(gaps) / mu - mu / 2, mu)
    below = np.minimum(gaps, 0)
    weights: NDArray[np.float64] = np.exp(below + log_deltas) - np.expm1(below)
    return weights
