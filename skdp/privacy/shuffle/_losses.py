"""Losses that dominate those of shuffled reports, so that several releases compose."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

from skdp.privacy.accounting import GaussianLoss, Loss, StatedLoss, smallest_epsilon
from skdp.privacy.shuffle._epsilon import MOST_LOCAL, shuffled_epsilon
from skdp.privacy.shuffle._pair import ReportPair

# A sum of many reports is nearly normal. So the divergences of both orders are compared with that of Gaussian noise
# which fails with a small probability: if they are below it for every epsilon >= 0, it dominates. As functions of t =
# e**epsilon, all are convex. So between two points of a grid, those of the reports are below the chord, and that of
# Gaussian noise is above a tangent; lines that are in order at both ends are so in between. Beyond the last point, the
# divergence of the reports is at most the failure probability.

_POINTS = 40
_MOST_KINDS, _MOST_SEARCHED = 8, 4

_FAILURE = 2.0**-10
"""The failure probability as a part of delta."""

_MOST_TOGETHER = 256.0
"""The largest local epsilon of a record that is tried."""

_PRECISION = 2.0**-10
_ROUNDING = 2.0**-38
"""More than the rounding errors of a tangent, relative to the larger of its two terms."""


def shuffled_losses(
    pairs: Sequence[ReportPair], n: int, delta: Fraction
) -> tuple[Loss, ...]:
    """Return losses that dominate parts of n reports, each shuffled by itself; none if not found, or parts differ."""
    kinds = Counter(pairs)
    if not delta or len(kinds) > _MOST_KINDS:
        return ()
    found: list[Loss] = []
    for pair, count in kinds.items():
        failure = float(delta) / len(pairs) * _FAILURE
        mu = _gaussian(pair, n, failure)
        if mu is None:
            return ()
        found += [GaussianLoss(mu, count=count), StatedLoss(0.0, failure, count=count)]
    return tuple(found)


def composed_epsilon(pairs: Sequence[ReportPair], n: int, delta: Fraction) -> float:
    """Bound epsilon for several parts by their losses, infinite if they have none."""
    losses = shuffled_losses(pairs, n, delta)
    found = smallest_epsilon(losses, delta) if losses else None
    return math.inf if found is None else found


def largest_composed(
    pairs_at: Callable[[float], Sequence[ReportPair]],
    n: int,
    epsilon: float,
    delta: Fraction,
    reached: float,
) -> float:
    """Return about the largest local epsilon whose parts have an epsilon by their losses; at least one reached."""
    parts = pairs_at(reached)
    if len(parts) == 1 or len(set(parts)) > _MOST_SEARCHED:
        return reached

    def excess(local: float) -> float:
        found = composed_epsilon(pairs_at(local), n, delta)
        return min(math.log(max(found, 1e-300) / epsilon) + _PRECISION / 4, 9.0)

    low, high = reached, 1.25 * reached
    if excess(low) >= 0:
        return reached
    most = min(MOST_LOCAL * len(parts), _MOST_TOGETHER)
    while excess(high) < 0 and 1.25 * high < most:
        low, high = high, 1.25 * high
    if excess(high) < 0:
        return low
    edge = float(brentq(excess, low, high, rtol=_PRECISION))
    return next(
        (tried for tried in (edge, edge * (1 - _PRECISION), low) if excess(tried) <= 0),
        reached,
    )


@lru_cache(maxsize=256)
def _gaussian(pair: ReportPair, n: int, failure: float) -> float | None:
    """Return about the least mu of Gaussian noise that dominates with a failure probability."""
    last = shuffled_epsilon(pair, n, Fraction(failure))
    if not last:
        return None
    epsilons = np.linspace(0, last, _POINTS + 1)
    reports = np.array([pair.delta(n, epsilon) for epsilon in epsilons.tolist()])
    # What is left to Gaussian noise if the failure probability is taken off.
    needed = np.maximum(reports - failure, 0) * (1 + _ROUNDING) / (1 - failure)
    points, touched = np.exp(epsilons), (epsilons[:-1] + epsilons[1:]) / 2

    middles = np.exp(touched)

    def dominates(mu: float) -> bool:
        near, far = ndtr(mu / 2 - touched / mu), ndtr(-mu / 2 - touched / mu)
        tangent = near - middles * far - _ROUNDING * near
        before, after = (
            tangent + (middles - points[:-1]) * far,
            tangent - (points[1:] - middles) * far,
        )
        return bool((before >= needed[:-1]).all() and (after >= needed[1:]).all())

    high = 4 * float(needed[0]) + last
    if not dominates(high):
        return None
    low = 0.0
    while high - low > _PRECISION * high:
        middle = (low + high) / 2
        low, high = (low, middle) if dominates(middle) else (middle, high)
    return high
