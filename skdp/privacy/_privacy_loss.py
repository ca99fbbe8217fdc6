"""The distribution of the privacy loss of several releases together, never better than it is."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from skdp.exact import round_up

_CELLS = 1 << 17
"""Points of the grid: so many steps add up to the sum of the epsilons."""

_LARGEST = 1 << 16
"""As many releases, and as large a sum of epsilons, as the margins below are proven for."""

_SMALLEST = 2.0**-960
"""As small a sum, so that the steps of its grid have all the digits of a float. (Below, nothing is worth gaining.)"""

_MARGIN = 2.0**-30
"""A probability is a product and a sum of positive floats, with a few roundings a release and one a point of the grid:
its relative error is below (8 * 2**16 + 2**18) * 2**-53 < 2**-33, and an exponential adds 2**-52 times epsilon."""

_UNDERFLOW = 2.0**-960
"""More than all the products together that are too small for a float."""

_SLACK = Fraction(1, 1 << 40)
"""A loss is a multiple of the sum of the epsilons, rounded a few times: its error is far below this share of it."""


def smallest_epsilon(releases: Sequence[tuple[Fraction, Fraction]], delta: Fraction) -> float | None:
    """Bound epsilon for a fixed list of (epsilon, delta) releases together."""
    # Whatever an (epsilon, delta) release does, it follows from an answer that gives the truth away with probability
    # delta, and otherwise is randomised response with this epsilon ([1]_, [2]_). So the privacy loss of all is infinite
    # unless all deltas spare it, and then a sum of ``+epsilon`` or ``-epsilon``, independently, and plus with
    # probability ``e**epsilon / (1 + e**epsilon)``. Epsilons are rounded up to a grid (an epsilon release is also one
    # of any larger epsilon), on which the sums are again points. Then ``delta(e) = E[(1 - e**(e - loss))+]`` is found
    # by bisection.
    # .. [1] P. Kairouz, S. Oh, P. Viswanath (2017). The composition theorem for differential privacy. IEEE Transactions
    #    on Information Theory 63(6).
    # .. [2] J. Murtagh, S. Vadhan (2016). The complexity of computing the optimal composition of differential privacy.
    #    TCC.
    failure = joint_failure([part for _, part in releases])
    if failure > delta:
        return None
    total = sum((epsilon for epsilon, _ in releases), Fraction(0))
    budget = float((delta - failure) / (1 - failure)) * (1 - _MARGIN) - _UNDERFLOW
    if budget <= 0 or not _SMALLEST < total <= _LARGEST or len(releases) > _LARGEST:
        return round_up(total)
    losses, masses = _distribution(Counter(epsilon for epsilon, _ in releases if epsilon))
    low, high = 0.0, float(losses[-1])
    while high - low > float(_SLACK * total):
        middle = (low + high) / 2
        larger = np.searchsorted(losses, middle, side="right")
        if float(-np.expm1(middle - losses[larger:]) @ masses[larger:]) > budget:
            low = middle
        else:
            high = middle
    return round_up(min(total, Fraction(high) + _SLACK * total))


def joint_failure(deltas: Sequence[Fraction]) -> Fraction:
    """Return the probability that at least one of independent failures happens."""
    return 1 - math.prod((1 - delta for delta in deltas), start=Fraction(1))


def _distribution(counts: Counter[Fraction]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the positive values of the sum of the losses, in order, and their probabilities."""
    unit = _unit(counts)
    masses, steps = np.ones(1), 0
    for epsilon, count in counts.most_common():
        number = math.ceil(epsilon / unit)
        shares = _binomial(count, float(number * unit))
        wider = np.zeros(masses.size + number * count)
        for index, share in enumerate(shares):
            wider[number * index : number * index + masses.size] += share * masses
        masses, steps = wider, steps + number * count
    # The point i is where releases of i steps together lose, and those of the other steps gain.
    losses = (2 * np.arange(masses.size, dtype=np.float64) - steps) * float(unit)
    kept = (losses > 0) & (masses > 0)
    return losses[kept], masses[kept]


def _unit(counts: Counter[Fraction]) -> Fraction:
    """Return the step of a grid that the commonest epsilon is on, and with it such as are round multiples of it."""
    total = sum((epsilon * count for epsilon, count in counts.items()), Fraction(0))
    commonest = counts.most_common(1)[0][0]
    steps = math.ceil(commonest * _CELLS / total)
    if steps == 1:
        return total / _CELLS
    if steps > 100:
        steps += -steps % 100
    # A tenth as a float is a little more than a tenth: a little longer steps keep it from taking one more of them.
    return commonest / steps * (1 + _SLACK)


def _binomial(n: int, epsilon: float) -> NDArray[np.float64]:
    """Return the probabilities of 0 to n pluses, by their ratios, from the likeliest number in both directions."""
    odds = math.exp(min(epsilon, 700.0))  # what is left out is less than a float can tell, see _UNDERFLOW
    mode = min(n, math.floor((n + 1) * odds / (1 + odds)))
    rising = np.arange(mode + 1, n + 1)
    falling = np.arange(mode, 0, -1)
    above = np.cumprod((n - rising + 1) / rising * odds)
    below = np.cumprod(falling / (n - falling + 1) / odds)
    shares = np.concatenate([below[::-1], [1.0], above])
    return shares / shares.sum()
