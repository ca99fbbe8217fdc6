"""The epsilon of shuffled reports for a delta, and the largest local epsilon that reaches one."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import lru_cache

from scipy.optimize import brentq

from skdp.exact import log_upper
from skdp.privacy._composition import compose
from skdp.privacy._guarantee import PrivacyGuarantee
from skdp.privacy.shuffle._pair import ReportPair

_PRECISION = 1e-5
"""The relative precision of an epsilon that is searched for."""

MOST_LOCAL = 50.0
"""The largest local epsilon that is tried: beyond, the lies of most oracles are at the limit of 64 bits."""

_SHARES = Fraction(1), Fraction(1, 2)
"""Shares of delta for the parts of a release that are shuffled apart; the rest is for their composition."""

_FEW = 8
"""The number of parts up to which the sum of their epsilons is the best composition."""

_CERTAIN = 2.0**-13
"""More than what the search leaves of an epsilon, as a part of it: an epsilon that was reached is found again."""

_ROUNDING = 2.0**-40
"""More than the rounding error of a logarithm."""

Excess = Callable[[float], float]
"""The logarithm of the ratio of delta at an epsilon to the wanted one."""


@lru_cache(maxsize=64)  # fits, statements and files ask for the same one
def shuffled_epsilon(pair: ReportPair, n: int, delta: Fraction) -> float:
    """Return an epsilon that n shuffled reports are proven to have; at most that of a single report."""
    most = log_upper(max(pair.worst_ratio, pair.swapped().worst_ratio))
    if delta == 0 or most == 0:
        return most

    return _edge(
        lambda epsilon: _log_ratio(pair.delta(n, epsilon), delta), safe=most, unsafe=0.0
    )


def epsilon_apart(pairs: Sequence[ReportPair], n: int, delta: Fraction) -> float:
    """Bound epsilon for several parts of each report, each shuffled by itself."""
    if len(pairs) == 1:
        return shuffled_epsilon(pairs[0], n, delta)
    kinds, found = Counter(pairs), []
    for share in _SHARES if delta and len(pairs) > _FEW else _SHARES[:1]:
        part = _part(delta * share, len(pairs))
        guarantees = [
            PrivacyGuarantee(shuffled_epsilon(pair, n, Fraction(part)), part)
            for pair, number in kinds.items()
            for _ in range(number)
        ]
        found.append(compose(guarantees, delta=delta).epsilon)
    # The parts by themselves follow from the parts together.
    return min(*found, shuffled_epsilon(ReportPair.product(pairs), n, delta))


def largest_local(
    pairs_at: Callable[[float], Sequence[ReportPair]],
    n: int,
    epsilon: float,
    delta: Fraction,
) -> float:
    """Return about the largest local epsilon whose shuffled reports are proven to have an epsilon and delta."""
    aim, most = epsilon * (1 - _CERTAIN), max(MOST_LOCAL, epsilon)

    def reached(
        parts_at: Callable[[float], Sequence[ReportPair]], shares: Sequence[float]
    ) -> float:
        part = Fraction(_part(delta, len(shares)))

        def excess(local: float) -> float:
            pairs = dict(zip(parts_at(local), shares, strict=True))
            return max(
                _log_ratio(one.delta(n, aim * share), part)
                for one, share in pairs.items()
            )

        return _edge(excess, safe=epsilon, unsafe=most)

    together = reached(lambda local: [ReportPair.product(pairs_at(local))], [1.0])
    number = len(pairs_at(together))
    if number == 1:
        return together
    # Each part has a share of epsilon: equal ones at first, then those that it needs at what was found.
    apart = reached(pairs_at, [1 / number] * number)
    part = Fraction(_part(delta, number))
    needed = [shuffled_epsilon(pair, n, part) for pair in pairs_at(apart)]
    return max(
        together,
        apart,
        reached(pairs_at, [one / sum(needed) * (1 - _ROUNDING) for one in needed]),
    )


def _part(delta: Fraction, number: int) -> float:
    """Return a part of delta; all parts add up to at most delta."""
    return float(delta / number) * (1 - 2**-50) if number > 1 else float(delta)


def _log_ratio(found: float, wanted: Fraction) -> float:
    return max(math.log(max(found, 1e-300)) - math.log(wanted) + _ROUNDING, -50.0)


def _edge(excess: Excess, *, safe: float, unsafe: float) -> float:
    """Return the number next to `unsafe`, about, that has no excess; at worst `safe`."""
    # What is returned has no excess by its own check, or is `safe`, which needs none: the search need not be exact, nor
    # the excess monotone.
    if safe == unsafe or excess(unsafe) <= 0:
        return unsafe
    if excess(safe) >= 0:
        return safe
    edge = float(
        brentq(
            excess, min(safe, unsafe), max(safe, unsafe), xtol=1e-300, rtol=_PRECISION
        )
    )
    return next((tried for tried in _near(edge, safe) if excess(tried) <= 0), safe)


def _near(root: float, good: float) -> Iterator[float]:
    """Yield a root and numbers beside it, further and further in one direction up to a bound."""
    step = 0.0
    while abs(good - root) > step * abs(root):
        yield root + math.copysign(step * root, good - root)
        step = max(2 * step, _PRECISION)
