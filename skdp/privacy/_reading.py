"""What a release loses for the values of named columns: the losses of those of its parts that read them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from skdp.exact import round_up
from skdp.privacy._guarantee import PrivacyGuarantee
from skdp.privacy._json import written_name
from skdp.privacy._losses import GaussianLoss, Loss, PureLoss
from skdp.privacy._total_loss import smallest_epsilon


@dataclass(frozen=True)
class Reading:
    """A part of a release, and what it loses if values of the columns that it reads are replaced."""

    columns: tuple[Any, ...]
    loss: Loss


def reads(columns: Iterable[Any], names: Iterable[Any]) -> bool:
    """Whether some names are among columns, as records write both."""
    return not set(map(written_name, columns)).isdisjoint(map(written_name, names))


def least_cap(
    caps: Iterable[PrivacyGuarantee], columns: Sequence[Any]
) -> PrivacyGuarantee | None:
    """Return the least that caps of one release promise together for some columns, None if they do not cover them."""
    cover = _least_cover(tuple(caps), frozenset(map(written_name, columns)), {})
    if not cover:
        return None
    if len(cover) == 1:
        return cover[0].to("replace_values", columns)
    # In steps: the columns of a first cap get their other values, then those of a
    # second, and so on. Each step is one of neighbours for its cap. Epsilons add up over
    # the steps, and so do mu: trade-off functions of Gaussian noise compose along a chain
    # of tables by adding mu ([1]_).
    # .. [1] J. Dong, A. Roth, W. Su (2022). Gaussian differential privacy. JRSS B 84(1),
    #    section 2.5.
    first = cover[0]
    total: Fraction | float = sum(map(_step, cover), Fraction(0))
    if not isinstance(total, Fraction):
        return None
    loss: Loss = PureLoss(round_up(total))
    rho = None
    if first.delta > 0:
        loss = GaussianLoss(round_up(total))
        rho = round_up(total**2 / 2)
    epsilon = smallest_epsilon((loss,), Fraction(first.delta))
    if epsilon is None:
        return None
    scope = tuple(columns)
    return replace(first, scope=scope, epsilon=epsilon, rho=rho, losses=(loss,))


def _step(cap: PrivacyGuarantee) -> Fraction | float:
    """Return what a cap adds to others: its epsilon, or mu of Gaussian noise; infinity if it is not known."""
    if cap.delta == 0:
        return Fraction(cap.epsilon)
    if len(cap.losses) == 1:
        (loss,) = cap.losses
        if isinstance(loss, GaussianLoss) and loss.count == 1:
            return Fraction(loss.mu)
    return math.inf


def _least_cover(
    caps: Sequence[PrivacyGuarantee],
    names: frozenset[Any],
    known: dict[frozenset[Any], tuple[PrivacyGuarantee, ...]],
) -> tuple[PrivacyGuarantee, ...]:
    """Return the caps that cover names and add up to the least; none if they do not cover them."""
    if names in known:
        return known[names]
    # Some cap of the first name is among them: each is tried, with the least cover of
    # what it leaves.
    first = min(names, key=repr)
    least: tuple[PrivacyGuarantee, ...] = ()
    least_total: Fraction | float = 0
    for cap in caps:
        scope = frozenset(map(written_name, cap.scope))
        if first not in scope:
            continue
        cover: tuple[PrivacyGuarantee, ...] = (cap,)
        if not names <= scope:
            more = _least_cover(caps, names - scope, known)
            if not more:
                continue
            cover = (cap, *more)
        total: Fraction | float = sum(map(_step, cover), Fraction(0))
        if not least or total < least_total:
            least = cover
            least_total = total
    known[names] = least
    return least
