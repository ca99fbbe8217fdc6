"""Totals of statements: the guarantee of a fixed list of releases, composed as a ledger does."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from skdp.exact import round_up
from skdp.privacy.guarantees._accountant import smallest_epsilon
from skdp.privacy.guarantees._conversions import zcdp_epsilon
from skdp.privacy.guarantees._guarantee import (
    PrivacyGuarantee,
    add_guarantees,
    convert_to_common_relation,
    sum_of_rhos,
)
from skdp.privacy.guarantees._losses import Loss, gaussian_loss, pure_mu

# The losses of equal releases, whose epsilon is a conversion for this delta.
Converted = tuple[float, list[Loss]]


# Epsilons of releases without a delta, and of releases that are known by epsilon and delta
# only, add up. Other epsilons are conversions of a mu or a stated rho: the sum of the squares
# of mu, or of the rhos, is converted for the largest delta, which counts once. For deltas far
# below 0.1, a part of the list has no larger epsilon or delta: sums grow, a conversion grows
# with mu and rho, and it is not below the conversion of releases with smaller deltas.
def compose_steps(counts: Mapping[PrivacyGuarantee, int]) -> PrivacyGuarantee:
    """Return the guarantee of a fixed list of releases, by the number of releases with each guarantee.

    The epsilon is at most the sum of the epsilons, and at least the largest one.
    """
    total = add_guarantees(counts)
    releases = convert_to_common_relation(counts)
    pure = other = delta = Fraction(0)
    pure_losses: list[Loss] = []
    with_mu: list[Converted] = []
    with_rho: list[Converted] = []
    for release, count in zip(releases, counts.values(), strict=True):
        losses = [replace(x, count=count * x.count) for x in release._get_losses()]
        if not release.delta:
            pure += count * Fraction(release.epsilon)
            # Losses with a failure or without an epsilon do not contain this epsilon.
            has_epsilons = all(
                x._epsilon is not None and not x._failure for x in losses
            )
            stated = replace(release._to_loss(), count=count)
            pure_losses += losses if has_epsilons else [stated]
        elif any(loss._rho is None for loss in losses):
            other += count * Fraction(release.epsilon)
            delta += count * Fraction(release.delta)
        else:
            group = with_mu if sum_of_rhos(losses) is None else with_rho
            group.append((release.delta, losses))
    for group in (with_mu, with_rho):
        delta += Fraction(max((one for one, _ in group), default=0.0))
    both = [*with_mu, *with_rho]
    sums = [pure + _convert(with_mu) + _convert(with_rho)]
    if both:
        sums.append(_convert(both, pure_losses))
    if with_mu and with_rho:
        sums.append(_convert(with_mu, pure_losses) + _convert(with_rho))
    largest = max(release.epsilon for release in releases)
    epsilon = max(other + max(pure, min(sums)), Fraction(largest))
    if epsilon >= Fraction(total.epsilon):
        return total
    return replace(total, epsilon=round_up(epsilon), delta=round_up(delta))


def _convert(group: Sequence[Converted], pure: Sequence[Loss] = ()) -> Fraction:
    """Return the epsilon of the losses of a group and pure losses together, for the largest delta of the group."""
    epsilons = [Fraction(0)]
    for delta in {delta for delta, _ in group}:
        losses = [x for one, part in group if one <= delta for x in part]
        # A stated rho may be of discrete Gaussian noise, which has no mu.
        rho = sum_of_rhos([*losses, *pure])
        if rho is None:
            found = smallest_epsilon([*losses, *_bound_by_mu(pure)], Fraction(delta))
        else:
            found = zcdp_epsilon(rho, Fraction(delta))
        epsilons.append(Fraction(sys.float_info.max if found is None else found))
    return max(epsilons)


def _bound_by_mu(losses: Sequence[Loss]) -> list[Loss]:
    """Return a Gaussian loss that is not below pure losses together, as a ledger of mu charges it."""
    squares = Fraction(0)
    for loss in losses:
        mu = pure_mu(loss._epsilon or Fraction(0), loss._share)
        if mu is None:
            return list(losses)
        squares += loss.count * mu**2
    return [gaussian_loss(squares)]
