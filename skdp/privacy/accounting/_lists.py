"""Lists of losses: their sum, their conversion and their records."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction

from skdp.privacy._json import Fields
from skdp.privacy.accounting._channels import PureLoss, StatedLoss
from skdp.privacy.accounting._loss import Loss, whole
from skdp.privacy.accounting._noise import GaussianLoss, LaplaceLoss
from skdp.privacy.accounting._sampled import SampledGaussianLoss

_KINDS: dict[str, type[Loss]] = {
    one.kind: one for one in (StatedLoss, PureLoss, LaplaceLoss, GaussianLoss, SampledGaussianLoss)
}


def read_loss(record: Fields) -> Loss:
    """Read a loss of a record."""
    kind = record.one_of("kind", tuple(_KINDS))
    return _KINDS[kind]._of(record, whole(record.at("count"), record.take("count")))


def merged(losses: Iterable[Loss]) -> tuple[Loss, ...]:
    """Add up the counts of equal losses."""
    counts: dict[Loss, int] = {}
    for loss in losses:
        one = loss if loss.count == 1 else replace(loss, count=1)
        counts[one] = counts.get(one, 0) + loss.count
    return tuple(one if count == 1 else replace(one, count=count) for one, count in counts.items())


def total_epsilon(losses: Iterable[Loss]) -> Fraction | None:
    """Return the sum of the epsilons of losses, None if one has none."""
    total = Fraction(0)
    for loss in losses:
        if loss._pure is None or isinstance(loss, SampledGaussianLoss):
            return None
        total += loss.count * (Fraction(loss.epsilon) if isinstance(loss, PureLoss) else loss._pure)
    return total


def doubled(losses: Iterable[Loss]) -> tuple[Loss, ...]:
    """Return the losses for replacing a record, of those for adding or removing one."""
    return tuple(loss._doubled() for loss in losses)


def either(ours: tuple[Loss, ...], theirs: tuple[Loss, ...]) -> tuple[Loss, ...]:
    """Return losses that dominate both; none if this does not show."""
    if ours == theirs:
        return ours
    if len(ours) != 1 or len(theirs) != 1 or type(ours[0]) is not type(theirs[0]) or ours[0].count != theirs[0].count:
        return ()
    return (ours[0]._or(theirs[0]),)
