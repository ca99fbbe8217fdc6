"""The epsilon of shuffled reports for a delta, and the largest local epsilon that reaches one."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache

from scipy.optimize import brentq

from skdp.exact import exp_bounds, log_upper
from skdp.privacy._composition import compose
from skdp.privacy._guarantee import PrivacyGuarantee
from skdp.privacy.shuffle._divergence import delta_above
from skdp.privacy.shuffle._pair import ReportPair

_COARSE, _FINE = 512, 4096
"""Points of the lattice while searching, and of the bound that is stated."""

_PRECISION = 1e-5
"""The relative precision of an epsilon that is searched for."""

_MOST_LOCAL = 50.0
"""The largest local epsilon that is tried: beyond, the lies of most oracles are at the limit of 64 bits."""

_SHARES = Fraction(1), Fraction(1, 2)
"""Shares of delta for the parts of a release that are shuffled apart; the rest is for their composition."""

_FEW = 8
"""The number of parts up to which the sum of their epsilons is the best composition."""

_LATTICE = 2.0**-11
"""More than the part by which the lattice changes an epsilon: an epsilon that was reached is found again."""

_ROUNDING = 2.0**-40
"""More than the rounding error of a logarithm."""

Excess = Callable[[float, int], float]
"""The logarithm of the ratio of delta at an epsilon, on a lattice of some points, to the wanted one."""


def shuffled_delta(pair: ReportPair, n: int, epsilon: float, points: int = _FINE) -> float:
    """Bound delta for an epsilon, for both orders of the two values."""
    ratio = exp_bounds(epsilon)[0]  # delta falls with it
    orders = [pair] if pair.is_symmetric else [pair, pair.swapped()]
    return max(delta_above(order, n, ratio, points=points) for order in orders)


@lru_cache(maxsize=64)  # fits, statements and files ask for the same one
def shuffled_epsilon(pair: ReportPair, n: int, delta: Fraction, points: int = _FINE) -> float:
    """Return an epsilon that n shuffled reports are proven to have; at most that of a single report."""
    most = log_upper(max(pair.worst_ratio, pair.swapped().worst_ratio))
    if delta == 0 or most == 0:
        return most

    def excess(epsilon: float, points: int) -> float:
        return _log_ratio(shuffled_delta(pair, n, epsilon, points), delta)

    return _edge(excess, safe=most, unsafe=0.0, points=points)


def epsilon_apart(pairs: Sequence[ReportPair], n: int, delta: Fraction, points: int = _FINE) -> float:
    """Bound epsilon for several parts of each report, each shuffled by itself."""
    if len(pairs) == 1:
        return shuffled_epsilon(pairs[0], n, delta, points)
    kinds, found = Counter(pairs), []
    for share in _SHARES if delta and len(pairs) > _FEW else _SHARES[:1]:
        part = float(delta * share / len(pairs)) * (1 - 2**-50)  # the parts add up to at most delta
        guarantees = [
            PrivacyGuarantee(shuffled_epsilon(pair, n, Fraction(part), points), part)
            for pair, number in kinds.items()
            for _ in range(number)
        ]
        found.append(compose(guarantees, delta=delta).epsilon)
    # The parts by themselves follow from the parts together.
    return min(*found, shuffled_epsilon(ReportPair.product(pairs), n, delta, points))


def largest_local(pairs_at: Callable[[float], Sequence[ReportPair]], n: int, epsilon: float, delta: Fraction) -> float:
    """Return about the largest local epsilon whose shuffled reports are proven to have an epsilon and delta."""
    aim = epsilon * (1 - _LATTICE)

    def excess(local: float, points: int) -> float:
        pairs = pairs_at(local)
        if len(pairs) == 1:
            return _log_ratio(shuffled_delta(pairs[0], n, aim, points), delta)
        return _log_ratio(epsilon_apart(pairs, n, delta, points), Fraction(aim))

    return _edge(excess, safe=epsilon, unsafe=max(_MOST_LOCAL, epsilon), points=_FINE)


def _log_ratio(found: float, wanted: Fraction) -> float:
    return max(math.log(max(found, 1e-300)) - math.log(wanted) + _ROUNDING, -50.0)


def _edge(excess: Excess, *, safe: float, unsafe: float, points: int) -> float:
    """Return the number next to `unsafe`, about, that has no excess on the fine lattice; at worst `safe`."""
    # What is returned has been checked itself: the search need not be exact, nor the excess monotone.
    if safe == unsafe or excess(unsafe, _COARSE) <= 0:
        return unsafe
    if excess(safe, _COARSE) >= 0:
        return safe
    low, high = sorted((safe, unsafe))
    edge = float(brentq(lambda number: excess(number, _COARSE), low, high, xtol=1e-300, rtol=_PRECISION))
    # The fine lattice moves the edge by little: steps along the slope of the coarse one find it.
    change = 1.01 if edge * 1.01 < high else 0.99
    slope = (excess(edge * change, _COARSE) - excess(edge, _COARSE)) / math.log(change)
    outwards = 1 if unsafe > safe else -1
    for _ in range(4):
        over = excess(edge, points)
        if -20 * _PRECISION * abs(slope) <= over <= 0:
            return edge
        if not slope * outwards > 0:
            break
        edge = min(max(edge * math.exp(-(over / slope) - outwards * _PRECISION), low), high)
    step = _PRECISION
    while edge != safe and excess(edge, points) > 0:
        edge = edge * (1 - outwards * step)
        edge = safe if (edge - safe) * outwards <= 0 else edge
        step = min(2 * step, 0.25)
    return edge
