"""The epsilon of shuffled reports for a delta, and the largest local epsilon that reaches one."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache, lru_cache

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

_FIRST_STEP = 2.0**-11
"""How far from the edge on the coarse lattice that on the fine one is looked for first, as a part of it."""

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
        part = _part(delta * share, len(pairs))
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
    aim, most = epsilon * (1 - _LATTICE), max(_MOST_LOCAL, epsilon)

    def reached(parts_at: Callable[[float], Sequence[ReportPair]], shares: Sequence[float]) -> float:
        part = Fraction(_part(delta, len(shares)))

        def excess(local: float, points: int) -> float:
            pairs = dict(zip(parts_at(local), shares, strict=True))
            return max(_log_ratio(shuffled_delta(one, n, aim * share, points), part) for one, share in pairs.items())

        return _edge(excess, safe=epsilon, unsafe=most, points=_FINE)

    together = reached(lambda local: [ReportPair.product(pairs_at(local))], [1.0])
    number = len(pairs_at(together))
    if number == 1:
        return together
    # Each part has a share of epsilon: equal ones at first, then those that it needs at what was found.
    apart = reached(pairs_at, [1 / number] * number)
    part = Fraction(_part(delta, number))
    needed = [shuffled_epsilon(pair, n, part, _COARSE) for pair in pairs_at(apart)]
    return max(together, apart, reached(pairs_at, [one / sum(needed) * (1 - _ROUNDING) for one in needed]))


def _part(delta: Fraction, number: int) -> float:
    """Return a part of delta; all parts add up to at most delta."""
    return float(delta / number) * (1 - 2**-50) if number > 1 else float(delta)


def _log_ratio(found: float, wanted: Fraction) -> float:
    return max(math.log(max(found, 1e-300)) - math.log(wanted) + _ROUNDING, -50.0)


def _edge(excess: Excess, *, safe: float, unsafe: float, points: int) -> float:
    """Return the number next to `unsafe`, about, that has no excess on the fine lattice; at worst `safe`."""
    # What is returned has no excess by its own check, or is `safe`, which needs none: the search need not be exact, nor
    # the excess monotone.
    if safe == unsafe or excess(unsafe, _COARSE) <= 0:
        return unsafe
    if excess(safe, _COARSE) >= 0:
        return safe
    edge = _root(lambda number: excess(number, _COARSE), safe, unsafe)
    # The fine lattice moves the edge by little: longer and longer steps away from it find two sides of the new one.
    fine = cache(lambda number: excess(number, points))
    beyond, step = fine(edge) > 0, 1 + _FIRST_STEP
    good, bad = (safe, edge) if beyond else (edge, unsafe)
    while min(good, bad) < (further := edge * step if beyond == (safe > unsafe) else edge / step) < max(good, bad):
        found = fine(further) > 0
        good, bad = (good, further) if found else (further, bad)
        if found != beyond:
            break
        step = step**4
    if fine(bad) <= 0:
        return bad
    if fine(good) > 0:
        return safe
    for tried in _near(_root(fine, good, bad), good):
        if fine(tried) <= 0:
            return tried
    return good


def _near(root: float, good: float) -> Iterator[float]:
    """Yield a root and numbers beside it, further and further in one direction up to a bound."""
    step = 0.0
    while abs(good - root) > step * abs(root):
        yield root + math.copysign(step * root, good - root)
        step = max(2 * step, _PRECISION)


def _root(excess: Callable[[float], float], one: float, other: float) -> float:
    return float(brentq(excess, min(one, other), max(one, other), xtol=1e-300, rtol=_PRECISION))
