"""What charges add to the sums of a ledger, exactly."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import Any

from skdp.exact import round_up
from skdp.privacy._guarantee import PrivacyGuarantee
from skdp.privacy._numbers import check_epsilon
from skdp.privacy.accounting import (
    GaussianLoss,
    LaplaceLoss,
    Loss,
    PureLoss,
    StatedLoss,
    least_rho,
    pure_mu,
)

EXACT = Context(prec=800)
"""Sums of the decimals of floats, from 1e308 to 5e-324, are exact."""

INFINITE = Decimal("Infinity")


def as_decimal(number: Any) -> Decimal:
    """Return the shortest decimal of a number, rounded up to a float."""
    return Decimal(repr(round_up(check_epsilon(number, zero=True))))


def exactly(sums: Any) -> Any:
    with localcontext(EXACT):
        return sums()


def rounded_down(number: Decimal) -> float:
    """Return the largest float whose shortest decimal is at most a number."""
    found = float(number)
    return (
        found
        if not math.isfinite(found) or Decimal(repr(found)) <= number
        else math.nextafter(found, -math.inf)
    )


def rounded_up_total(amounts: Iterable[tuple[Decimal, int]]) -> float:
    """Return the smallest float whose shortest decimal is at least the sum of amounts, each a number of times."""
    return 0.0 - rounded_down(
        exactly(lambda: -sum((count * one for one, count in amounts), Decimal(0)))
    )


@dataclass(frozen=True)
class Sums:
    """Sums over charges in one relation."""

    epsilon: Decimal = Decimal(0)
    delta: Decimal = Decimal(0)
    failure: Decimal = Decimal(0)
    """Of the deltas of charges without a rho."""
    pure: Decimal = Decimal(0)
    """Of the epsilons of charges that hold unless they fail; infinite with a charge of rho and delta > 0."""
    rho: Decimal = Decimal(0)
    mu_squared: Decimal = Decimal(0)
    """Infinite with a charge that is not Gaussian-DP."""

    def plus(self, other: Sums) -> Sums:
        return exactly(
            lambda: Sums(
                *(
                    ours + theirs
                    for ours, theirs in zip(self._all(), other._all(), strict=True)
                )
            )
        )

    def larger(self, other: Sums) -> Sums:
        """Return the larger of each."""
        return Sums(*map(max, self._all(), other._all()))

    def minus(self, other: Sums) -> Sums:
        """Subtract sums of which none is infinite where this one is not."""
        pairs = zip(self._all(), other._all(), strict=True)
        return exactly(
            lambda: Sums(
                *(ours if ours == INFINITE else ours - theirs for ours, theirs in pairs)
            )
        )

    def written(self) -> dict[str, str]:
        """Write the sums beside epsilon and delta, exactly."""
        return {name: str(getattr(self, name)) for name in NAMES[2:]}

    @classmethod
    def read(cls, epsilon: Decimal, delta: Decimal, further: Any) -> Sums:
        """Read what `written` wrote."""
        if not isinstance(further, dict) or set(further) != set(NAMES[2:]):
            raise ValueError("a charge has other sums than those of a ledger")
        if not all(isinstance(further[name], str) for name in NAMES[2:]):
            raise ValueError("the sums of a charge are texts")
        try:
            numbers = [Decimal(further[name]) for name in NAMES[2:]]
        except ArithmeticError:
            raise ValueError("the sums of a charge are no numbers") from None
        if any(number.is_nan() or number < 0 for number in numbers):
            raise ValueError("the sums of a charge are at least 0")
        return cls(epsilon, delta, *numbers)

    def _all(self) -> list[Decimal]:
        return [getattr(self, name) for name in NAMES]


NAMES = tuple(Sums.__dataclass_fields__)

NOTHING = Sums()


@lru_cache(maxsize=256)  # most charges of a ledger have the same guarantees
def added_by(guarantee: PrivacyGuarantee) -> Sums:
    """Return what a guarantee adds to all sums but those of epsilon and delta."""
    sums = exactly(lambda: _amounts(guarantee._all_losses()))
    # The losses are rounded up, and those of many parts may add up to more than what is stated of all together.
    if guarantee.rho is not None:
        sums = replace(sums, rho=min(sums.rho, Decimal(repr(guarantee.rho))))
    if guarantee.delta == 0 and guarantee.losses:
        # That of a release that never fails holds beside what its parts imply.
        stated = exactly(lambda: _amounts((StatedLoss(guarantee.epsilon),)))
        least = {
            name: min(getattr(sums, name), getattr(stated, name))
            for name in ("pure", "rho", "mu_squared")
        }
        sums = replace(sums, **least)
    return sums


def _amounts(losses: tuple[Loss, ...]) -> Sums:
    sums = Sums()
    for loss in losses:
        epsilon, mu = _written(loss._pure), _written(_mu(loss))
        rho = _written(loss.rho if isinstance(loss, StatedLoss) else None)
        unknown = loss._concentrated is None
        failure = _written(loss._failure) if unknown else Decimal(0)
        holds = epsilon is not None and (unknown or not loss._failure)
        pure = epsilon if holds else None
        square = mu if isinstance(loss, GaussianLoss) else epsilon
        if rho is None and square is not None:
            rho = square * square / 2
            if isinstance(loss, PureLoss | LaplaceLoss):
                rho = min(rho, Decimal(repr(least_rho(replace(loss, count=1)))))
        one = (failure, pure, rho, None if mu is None else mu * mu)
        added = (INFINITE if each is None else loss.count * each for each in one)
        sums = sums.plus(Sums(Decimal(0), Decimal(0), *added))
    return sums


def _mu(loss: Loss) -> Fraction | None:
    """Return the mu of Gaussian DP of one of them, None if it has none."""
    if isinstance(loss, GaussianLoss):
        return Fraction(loss.mu)
    if loss._failure or loss._pure is None:
        return None
    return (
        pure_mu(loss._pure, loss.share)
        if isinstance(loss, PureLoss) and loss._pure
        else pure_mu(loss._pure)
    )


def _written(number: float | Fraction | None) -> Decimal | None:
    """Return the decimal of a float as it was written; of another fraction, that of the next float."""
    return None if number is None else Decimal(repr(round_up(Fraction(number))))
