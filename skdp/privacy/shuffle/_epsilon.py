"""The epsilon and the losses of shuffled reports, and the largest local epsilon that reaches one."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np
from scipy.special import ndtr

from skdp.exact import log_upper
from skdp.privacy._search import proven_edge
from skdp.privacy.accounting import GaussianLoss, Loss, StatedLoss, smallest_epsilon
from skdp.privacy.shuffle._pair import ReportPair

# The relative precision of an epsilon that is searched for.
_PRECISION = 1e-5

# The largest local epsilon of a part that is tried: beyond, the lies of most oracles
# are at the limit of 64 bits.
_MOST_LOCAL = 50.0

# More than what the search leaves of an epsilon, as a part of it: an epsilon that was
# reached is found again.
_CERTAIN = 2.0**-13

# More than the rounding error of a logarithm.
_LOG_ERROR = 2.0**-40

# More than the rounding errors of a tangent, relative to the larger of its two terms.
_ROUNDING = 2.0**-38

# The failure probability of Gaussian noise, as a part of delta, which is then hardly
# less.
_FAILURE = 2.0**-10

# Of the grid that compares Gaussian noise with reports: half as many cost a percent of
# mu, twice as many gain 0.2.
_POINTS = 40

# The relative precision of a mu, and of what follows from several.
_ROUGH = 2.0**-10

# Returns the pairs of the parts of a report for a local epsilon.
PairsAt = Callable[[float], Sequence[ReportPair]]


@lru_cache(maxsize=64)  # fits, statements and files ask for the same one
def _epsilon_of_pair(pair: ReportPair, n: int, delta: Fraction) -> float:
    """Return a proven epsilon of n shuffled reports; at most that of a single one."""
    most = log_upper(pair.largest_ratio)
    if delta == 0 or most == 0:
        return most

    def excess(epsilon: float) -> float:
        return _log_ratio(pair.delta(n, epsilon), delta)

    return proven_edge(excess, _PRECISION, safe=most, unsafe=0.0)


def shuffled_epsilon(pairs: Sequence[ReportPair], n: int, delta: Fraction) -> float:
    """Return a proven epsilon of n reports, whose parts are shuffled by themselves."""
    # The parts by themselves follow from the parts together.
    together = _epsilon_of_pair(ReportPair.product(pairs), n, delta)
    if len(pairs) == 1:
        return together
    return min(together, _composed_epsilon(pairs, n, delta))


def _composed_epsilon(pairs: Sequence[ReportPair], n: int, delta: Fraction) -> float:
    """Bound epsilon by the losses of the parts; infinite if there are none."""
    losses = shuffled_losses(pairs, n, delta)
    composed = smallest_epsilon(losses, delta) if losses else None
    return math.inf if composed is None else composed


def largest_local(pairs_at: PairsAt, n: int, epsilon: float, delta: Fraction) -> float:
    """Return about the largest local epsilon whose reports have epsilon and delta."""
    aim = epsilon * (1 - _CERTAIN)
    most = max(_MOST_LOCAL, epsilon)

    def excess_together(local: float) -> float:
        pair = ReportPair.product(pairs_at(local))
        return _log_ratio(pair.delta(n, aim), delta)

    together = proven_edge(excess_together, _PRECISION, safe=epsilon, unsafe=most)
    n_parts = len(pairs_at(together))
    if n_parts == 1:
        return together

    def excess_apart(local: float) -> float:
        composed = _composed_epsilon(pairs_at(local), n, delta)
        return min(math.log(max(composed, 1e-300) / aim), 9.0)

    return proven_edge(excess_apart, _ROUGH, safe=together, unsafe=most * n_parts)


def _log_ratio(reached: float, target: Fraction) -> float:
    """Return the logarithm of a ratio, rounded up, within what a search can handle."""
    return max(math.log(max(reached, 1e-300)) - math.log(target) + _LOG_ERROR, -50.0)


# A sum of many reports is nearly normal. So the divergences of both orders are compared
# with that of Gaussian noise which fails with a small probability: if they are below it
# for every epsilon >= 0, it dominates. As functions of t = e**epsilon, all are convex.
# So between two points of a grid, those of the reports are below the chord, and that of
# Gaussian noise is above a tangent; lines that are in order at both ends are so in
# between. Beyond the last point, the divergence of the reports is at most the failure
# probability.


def shuffled_losses(
    pairs: Sequence[ReportPair], n: int, delta: Fraction
) -> tuple[Loss, ...]:
    """Return losses that dominate parts, each shuffled by itself; none if not found."""
    if not delta:
        return ()
    failure = float(delta) / len(pairs) * _FAILURE
    losses: list[Loss] = []
    for pair, count in Counter(pairs).items():
        mu = _gaussian_mu(pair, n, failure)
        if mu is None:
            return ()
        losses.append(GaussianLoss(mu, count=count))
        losses.append(StatedLoss(0.0, failure, count=count))
    return tuple(losses)


@lru_cache(maxsize=256)
def _gaussian_mu(pair: ReportPair, n: int, failure: float) -> float | None:
    """Return about the least mu of Gaussian noise that dominates but for a failure."""
    largest = _epsilon_of_pair(pair, n, Fraction(failure))
    if not largest:
        return None
    epsilons = np.linspace(0, largest, _POINTS + 1)
    reports = np.array([pair.delta(n, epsilon) for epsilon in epsilons.tolist()])
    # What is left to Gaussian noise if the failure probability is taken off.
    needed = np.maximum(reports - failure, 0) * (1 + _ROUNDING) / (1 - failure)
    touched = (epsilons[:-1] + epsilons[1:]) / 2
    orders = np.exp(touched)
    steps_below = orders - np.exp(epsilons[:-1])
    steps_above = np.exp(epsilons[1:]) - orders

    def dominates(mu: float) -> bool:
        # Of delta(t) = near - t far, the slope is -far.
        near = ndtr(mu / 2 - touched / mu)
        far = ndtr(-mu / 2 - touched / mu)
        tangent = near - orders * far - _ROUNDING * near
        is_above_before = tangent + steps_below * far >= needed[:-1]
        is_above_after = tangent - steps_above * far >= needed[1:]
        return bool(is_above_before.all() and is_above_after.all())

    low, high = 0.0, 4 * float(needed[0]) + largest
    if not dominates(high):
        return None
    while high - low > _ROUGH * high:
        middle = (low + high) / 2
        if dominates(middle):
            high = middle
        else:
            low = middle
    return high
