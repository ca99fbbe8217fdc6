"""Lists of losses: their sum, their conversion and their records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from math import isqrt
from typing import Any

from skdp.privacy._json import Fields
from skdp.privacy.accounting._channels import PureLoss, StatedLoss
from skdp.privacy.accounting._loss import Loss, read_whole
from skdp.privacy.accounting._noise import GaussianLoss, LaplaceLoss

MOST_LOSSES = 1 << 12
"""The most different losses of a guarantee and of its record."""

_KINDS: dict[str, type[Loss]] = {
    one.kind: one for one in (StatedLoss, PureLoss, LaplaceLoss, GaussianLoss)
}


def read_loss(record: Fields) -> Loss:
    """Read a loss of a record."""
    kind = record.one_of("kind", tuple(_KINDS))
    return _KINDS[kind]._of(record, read_whole(record, "count"))


def check_losses(losses: Iterable[Loss]) -> tuple[Loss, ...]:
    """Check that losses are of the kinds that records have."""
    if not isinstance(losses, Iterable):
        raise TypeError(
            f"losses must be a tuple of losses of skdp.privacy, got {type(losses).__name__}"
        )
    checked = tuple(losses)
    for loss in checked:
        if type(loss) not in _KINDS.values():
            raise TypeError(
                f"losses must be losses of skdp.privacy, got {type(loss).__name__}"
            )
    return checked


def merged(losses: Iterable[Loss]) -> tuple[Loss, ...]:
    """Add up the counts of equal losses, and round up similar ones together if there are more than a record has."""
    counts: dict[Loss, int] = {}
    for loss in losses:
        one = loss if loss.count == 1 else replace(loss, count=1)
        counts[one] = counts.get(one, 0) + loss.count
    different = [
        one if count == 1 else replace(one, count=count)
        for one, count in counts.items()
    ]
    return tuple(coarsened(different, MOST_LOSSES))


def coarsened(losses: Sequence[Loss], most: int) -> Sequence[Loss]:
    """Round up similar losses together, to at most a number of different ones."""
    if len(losses) <= most:
        return losses
    kinds: dict[tuple[Any, ...], list[Loss]] = {}
    for loss in sorted(losses, key=lambda loss: loss._similar()):
        kinds.setdefault(loss._similar()[:2], []).append(loss)
    size = -(-len(losses) // (most - len(kinds)))
    # Of two numbers, such as epsilon and share, both are similar in a part.
    slabs = (
        slab
        for same in kinds.values()
        for slab in _cut(same, size * (1 + isqrt(len(same) // size)))
    )
    parts = (
        part
        for slab in slabs
        for part in _cut(sorted(slab, key=lambda loss: loss._similar()[-1]), size)
    )
    return [_rounded_up(part) for part in parts]


def _cut(losses: Sequence[Loss], size: int) -> Iterator[Sequence[Loss]]:
    return (losses[start : start + size] for start in range(0, len(losses), size))


def _rounded_up(losses: Sequence[Loss]) -> Loss:
    """Return a loss that, with all their counts, is at least those of one kind together."""
    single = (replace(loss, count=1) for loss in losses)
    return replace(
        reduce(lambda one, other: one._or(other), single),
        count=sum(loss.count for loss in losses),
    )


def total_epsilon(losses: Iterable[Loss]) -> Fraction | None:
    """Return the sum of the epsilons of losses, None if one has none."""
    total = Fraction(0)
    for loss in losses:
        if loss._pure is None:
            return None
        total += loss.count * (
            Fraction(loss.epsilon) if isinstance(loss, PureLoss) else loss._pure
        )
    return total


def doubled(losses: Iterable[Loss]) -> tuple[Loss, ...]:
    """Return the losses for replacing a record, of those for adding or removing one."""
    return tuple(loss._doubled() for loss in losses)


def either(ours: tuple[Loss, ...], theirs: tuple[Loss, ...]) -> tuple[Loss, ...]:
    """Return losses that dominate both; none if this does not show."""
    if ours == theirs:
        return ours
    if (
        len(ours) != 1
        or len(theirs) != 1
        or type(ours[0]) is not type(theirs[0])
        or ours[0].count != theirs[0].count
    ):
        return ()
    return (ours[0]._or(theirs[0]),)
