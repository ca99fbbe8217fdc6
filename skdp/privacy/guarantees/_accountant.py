"""Accountant of privacy loss distributions: the smallest proven epsilon of several losses, and bounds of attacks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from skdp._arrays import Floats
from skdp.exact import round_up
from skdp.privacy.guarantees._conversions import (
    find_safe_boundary,
    gaussian_epsilon,
    log_delta_above,
    zcdp_epsilon,
)
from skdp.privacy.guarantees._losses import (
    GaussianLoss,
    Loss,
    StatedLoss,
    gaussian_loss,
    merge_losses,
)

# Let L = log(P / Q) be the privacy loss of a dominating pair (P, Q), under P. Then delta is
# E[max(0, 1 - e**(epsilon - L))], and the loss of independent releases is the sum of
# their losses. The distribution of L is approximated on a grid in three steps. Each can
# only increase delta, also the delta of a sum, because max(0, 1 - e**epsilon * y) is
# convex and decreasing in y = e**-L:
#
# - The mass of a loss between two grid points is divided between them such that E[y]
#   stays ("connect the dots", [1]_).
# - The lower tail moves up to the smallest loss that is kept.
# - The upper tail becomes an infinite loss: its probability is added to delta.
#
# Probabilities are only added and multiplied, so rounding errors are relative, and delta
# may be arbitrarily small. (A Fourier transform would have absolute errors.) The sum of
# Gaussian losses is Gaussian and has a closed form, so it is not on the grid:
# ``delta(epsilon) = E[delta_mu(epsilon - L)]`` with the sum L of all other losses.
# .. [1] V. Doroshenko, B. Ghazi, P. Kamath, R. Kumar, P. Manurangsi (2022). Connect the
#    dots: tighter discrete approximations of privacy loss distributions. PoPETs
#    2022(4). arXiv:2207.04380

# Largest number of grid points. The standard deviation of a sum is then above 200 steps.
MAX_POINTS = 1 << 13

# Divisor of the smaller step if distributions with different steps are added.
N_SUBSTEPS = 1 << 9

# Bound of the relative error of a sum of two distributions: a convolution has up to
# `MAX_POINTS` = 2**13 roundings of 2**-53 each, and a few follow.
_SUM_MARGIN = 2.0**-38


def smallest_epsilon(losses: Iterable[Loss], delta: Fraction) -> float | None:
    """Return a proven epsilon of the composition of losses for a delta; None if there is none.

    Each loss is the loss of one mechanism and the number of its releases. Losses that
    fail with a larger probability than delta have no epsilon.
    """
    losses = merge_losses(losses)
    failure = _find_failure(losses)
    if failure > delta:
        return None
    # Without a failure, this delta remains: delta = failure + (1 - failure) * remaining.
    remaining = (delta - failure) / (1 - failure)
    pure, epsilon_sum, mu, slack = _sum_losses(losses)
    if mu and remaining < math.ulp(0.0):
        return None
    # Basic composition: the epsilons of the pure and the Gaussian losses add.
    basic = epsilon_sum + Fraction(gaussian_epsilon(mu, remaining) if mu else 0)
    if not pure or slack is None or remaining <= 1e-270:
        return round_up(basic)
    searched = _search_epsilon(pure, mu, float(remaining), round_up(basic))
    return round_up(min(basic, Fraction(searched) + slack))


def find_profile(losses: Iterable[Loss]) -> list[tuple[float, float]]:
    """Return epsilons with a proven delta of the composition of losses; empty if none is proven.

    This is the privacy profile, from which bounds of attacks follow.
    """
    losses = merge_losses(losses)
    pure, _, mu, slack = _sum_losses(losses)
    if slack is None:
        return []
    n_losses = 1 + sum(loss.count for loss in pure)
    # All tails that convolutions cut together have at most 2**-40.
    total = LossDistribution(1.0, 0, np.ones(1))
    if pure:
        total = _compose_pure(pure, 2.0**-40 / n_losses)
    # With four times as many pairs, the true positive rates of Gaussian noise with mu = 3
    # decrease by less than 0.0001.
    n_points = 1 << 8
    # Delta has kinks at the most frequent losses.
    frequent = total.points[np.argsort(total.masses)[-n_points:]]
    largest = max(float(total.points[-1]), 0.0) + mu**2 / 2 + 4 * mu
    even = np.linspace(0, largest, n_points)
    epsilons = np.append(even, frequent[frequent > 0])
    failure = round_up(_find_failure(losses))
    pairs = []
    for epsilon in epsilons.tolist():
        delta = total.delta(epsilon - float(slack), mu)
        bound = delta * (1 + n_losses * _SUM_MARGIN) + 1e-280
        pairs.append((epsilon, failure + (1 - failure) * bound))
    return pairs


def _sum_losses(
    losses: Iterable[Loss],
) -> tuple[list[Loss], Fraction, float, Fraction | None]:
    """Return the losses with a finite epsilon > 0, their sum of epsilons, the mu of all Gaussian losses, and the slack.

    The slack bounds the error of epsilon by the rounding of points of the grid. It is
    None if it is not proven.
    """
    epsilon_sum = mu_squared = Fraction(0)
    pure = []
    for loss in losses:
        if isinstance(loss, GaussianLoss):
            mu_squared += loss.count * Fraction(loss.mu) ** 2
        elif loss._epsilon:
            epsilon_sum += loss.count * loss._epsilon
            pure.append(loss)
    mu = gaussian_loss(mu_squared).mu
    # The error bounds and `_SUM_MARGIN` are proven for these ranges only.
    has_margins = (
        (mu == 0 or (2.0**-30 if pure else 0) < mu < 2.0**5)
        and (not pure or Fraction(1, 1 << 30) < epsilon_sum < 1 << 40)
        and sum(loss.count for loss in pure) <= 1 << 24
    )
    # Each change of the grid moves points by a few units in the last place, and there are
    # at most two changes for each bit of a count and each different loss.
    slack = (epsilon_sum + Fraction(mu)) * (64 + len(pure)) / (1 << 50)
    return pure, epsilon_sum, mu, slack if has_margins else None


def _find_failure(losses: Iterable[Loss]) -> Fraction:
    """Return an upper bound of the probability that at least one release fails."""
    # It is 1 minus the product of the success probabilities, and at most the sum of the
    # failure probabilities.
    total = Fraction(0)
    log_success = 0.0
    for loss in losses:
        total += loss.count * loss._failure
        log_success += loss.count * math.log1p(-float(loss._failure))
    return min(total, Fraction(-math.expm1(log_success) * (1 + 2.0**-40)))


def _search_epsilon(
    pure: Sequence[Loss], mu: float, delta: float, basic: float
) -> float:
    """Return the smallest epsilon up to `basic` for delta, by the distribution of the sum of losses.

    `pure` are the losses without Gaussian noise, each with a number of releases; mu is
    the parameter of all Gaussian noise together; `basic` is a proven epsilon.
    """
    n_losses = sum(loss.count for loss in pure)
    # All tails that convolutions cut together have at most 2**-16 of delta.
    total = _compose_pure(pure, delta * 2.0**-16 / n_losses)

    def excess(epsilon: float) -> float:
        # The last term bounds the products that underflow: fewer than 2**50, each below
        # 2**-1022.
        bound = total.delta(epsilon, mu) * (1 + n_losses * _SUM_MARGIN) + 1e-280
        return math.log(bound / delta) + 2.0**-40

    return find_safe_boundary(excess, 2.0**-30, safe=basic, unsafe=0.0)


def _compose_pure(pure: Sequence[Loss], tail_mass: float) -> LossDistribution:
    """Return the distribution of the sum of losses, each with a number of releases and without Gaussian noise.

    `tail_mass` is the largest mass of the tails that are cut, for each release.
    """
    largest = max(float(loss._epsilon or 0) for loss in pure)
    parts = []
    for loss in pure:
        # Tiny losses are rounded up, so that the steps of all grids are comparable.
        epsilon = max(float(loss._epsilon or 0), largest * 2.0**-40)
        parts.append(
            LossDistribution.from_channel(epsilon, loss._share).to_power(
                loss.count, tail_mass
            )
        )
    # The finest grids are added first.
    while len(parts) > 1:
        parts.sort(key=lambda part: part.step)
        parts.append(parts.pop(0).plus(parts.pop(0), tail_mass))
    return parts[0]


@dataclass(frozen=True)
class LossDistribution:
    """Distribution of a sum of privacy losses on the grid ``step * (first + i)``, i = 0, 1, ..."""

    step: float
    first: int
    # Probability of each grid point.
    masses: Floats
    # Probability of an infinite loss.
    infinite: float = 0.0
    # Number of losses in the sum.
    count: int = 1

    @classmethod
    def from_channel(cls, epsilon: float, fraction: float) -> LossDistribution:
        """Return the distribution of a `PureLoss`.

        The loss is 0 with probability ``1 - fraction``. Otherwise it is the loss of
        randomized response: epsilon with probability ``1 / (1 + e**-epsilon)``, and
        -epsilon with the remaining probability.
        """
        # With the step epsilon, sums of equal losses stay on the grid.
        lower = fraction * math.exp(-epsilon) / (1 + math.exp(-epsilon))
        upper = fraction / (1 + math.exp(-epsilon))
        return cls(epsilon, -1, np.array([lower, 1 - fraction, upper]))

    @property
    def points(self) -> Floats:
        """The losses of the grid points."""
        indices = self.first + np.arange(self.masses.size, dtype=float)
        return indices * self.step

    def delta(self, epsilon: float, mu: float) -> float:
        """Return delta at `epsilon` for this loss composed with mu-Gaussian noise, ignoring rounding errors."""
        gaps = epsilon - self.points
        if mu:
            weights = _gaussian_delta(gaps, mu)
        else:
            weights = -np.expm1(np.minimum(gaps, 0))
        return float(weights @ self.masses) + self.infinite

    def to_power(self, count: int, tail_mass: float) -> LossDistribution:
        """Return the distribution of the sum of `count` independent copies, by repeated doubling."""
        if count == 1:
            return self
        half = self.to_power(count // 2, tail_mass)
        total = half.plus(half, tail_mass)
        return total.plus(self, tail_mass) if count % 2 else total

    def plus(self, other: LossDistribution, tail_mass: float) -> LossDistribution:
        """Return the distribution of the sum of two independent losses, rounded up where it is rounded.

        Tails of up to `tail_mass` for each single loss are cut: the upper tail becomes
        an infinite loss, and the lower tail moves up.
        """
        # Losses on different grids get a finer grid, with at most `MAX_POINTS`.
        width = (self.masses.size + 1) * self.step + (
            other.masses.size + 1
        ) * other.step
        finest = min(self.step, other.step)
        if self.step != other.step:
            finest /= N_SUBSTEPS
        step = max(finest, width / MAX_POINTS)
        first, second = self._to_grid(step), other._to_grid(step)
        count = self.count + other.count
        masses = np.convolve(first.masses, second.masses)
        # The upper tail becomes an infinite loss.
        above = np.append(np.cumsum(masses[::-1])[::-1], 0.0)
        n_kept = max(int(np.searchsorted(-above, -tail_mass * count)), 1)
        # The lower tail moves up.
        below = np.cumsum(masses[:n_kept])
        start = min(int(np.searchsorted(below, tail_mass * count)), n_kept - 1)
        masses = masses[start:n_kept].copy()
        masses[0] = below[start]
        infinite = self.infinite + other.infinite + float(above[n_kept])
        start += first.first + second.first
        return LossDistribution(step, start, masses, infinite, count)

    def _to_grid(self, step: float) -> LossDistribution:
        """Divide the mass of each loss between its neighbors on another grid such that E[e**-loss] is preserved.

        `step` is the distance of the points of the new grid. The result has at least
        the delta of this distribution for each epsilon.
        """
        if step == self.step:
            return self
        points = self.points
        below = np.floor(points / step)
        distances = np.maximum(points - below * step, 0)
        # A loss at distance d above a grid point moves to the next point with probability
        # (1 - e**-d) / (1 - e**-step). The factor bounds rounding errors, which must not
        # move mass down.
        upper = np.expm1(-distances) / math.expm1(-step) * (1 + 2.0**-48)
        upper = np.minimum(upper, 1)
        first = int(below[0])
        indices = below.astype(np.int64) - first
        size = int(indices[-1]) + 2
        masses = np.zeros(size)
        masses += np.bincount(indices, self.masses * (1 - upper), size)
        masses += np.bincount(indices + 1, self.masses * upper, size)
        return LossDistribution(step, first, masses, self.infinite, self.count)


def _gaussian_delta(gaps: Floats, mu: float) -> Floats:
    """Return upper bounds of delta of mu-Gaussian noise for each epsilon in `gaps`, which may be negative."""
    # By symmetry, delta(-g) = 1 - e**-g + e**-g * delta(g).
    log_deltas = log_delta_above(np.abs(gaps) / mu - mu / 2, mu)
    below = np.minimum(gaps, 0)
    return np.exp(below + log_deltas) - np.expm1(below)


# Let a test of two neighboring inputs have the false positive rate a and the true positive
# rate t. A release that is (epsilon, delta)-private for both directions has
#
# - t <= delta + e**epsilon * a, the definition for the event "positive", and
# - t <= 1 - e**-epsilon * (1 - delta - a), the definition for the event "negative".
#
# All pairs (epsilon, delta) hold at once, so the smallest of these bounds holds for each a
# (J. Dong, A. Roth, W. J. Su 2022, proposition 2.5: for all pairs it is the trade-off
# function). A guess between two equally likely inputs is correct with the probability (1 -
# a + t) / 2, at most (e**epsilon + delta) / (1 + e**epsilon) by both lines (P. Kairouz,
# S. Oh, P. Viswanath 2017). At epsilon 0, delta is the total variation.

# Bound of the rounding errors of an exponential, a product and a sum.
_BOUND_MARGIN = 2.0**-48


@lru_cache(maxsize=256)
def list_pairs(stated: StatedLoss, losses: tuple[Loss, ...]) -> tuple[Floats, Floats]:
    """Return epsilons and deltas that hold for a release with a stated loss and the losses of its parts."""
    pairs = [*find_profile(losses or [stated]), (stated.epsilon, stated.delta)]
    if stated.rho is not None:
        # By Pinsker's inequality, the total variation is at most sqrt(rho / 2).
        pairs.append((0.0, math.sqrt(stated.rho / 2) * (1 + _BOUND_MARGIN)))
        for digits in range(1, 9):
            delta = 10.0**-digits
            pairs.append((zcdp_epsilon(stated.rho, delta), delta))
    # e**710 is not a float, and such a pair hardly limits an attack.
    epsilons, deltas = np.array([(0, 1), *(x for x in pairs if x[0] < 700)]).T
    return epsilons, deltas


def bound_guess(stated: StatedLoss, losses: tuple[Loss, ...] = ()) -> float:
    """Return the largest success probability of a guess between two equally likely neighboring inputs."""
    epsilons, deltas = list_pairs(stated, losses)
    powers = np.exp(epsilons)
    bounds = (powers + deltas) / (1 + powers) * (1 + _BOUND_MARGIN)
    return min(1.0, float(bounds.min()))


def bound_true_positives(
    stated: StatedLoss, losses: tuple[Loss, ...], false_positives: ArrayLike
) -> Floats:
    """Return the largest true positive rate of a test for each false positive rate."""
    rates = np.asarray(false_positives, dtype=float)
    if not ((rates >= 0) & (rates <= 1)).all():
        raise ValueError("`false_positive_rate` must be in [0, 1], got another number.")
    epsilons, deltas = list_pairs(stated, losses)
    column = rates[..., None]
    positive = (deltas + np.exp(epsilons) * column) * (1 + _BOUND_MARGIN)
    negative = 1 - np.exp(-epsilons) * (1 - deltas - column) + _BOUND_MARGIN
    return np.clip(np.minimum(positive, negative).min(axis=-1), 0, 1)
