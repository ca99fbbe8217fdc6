"""What releases add to the sums of a ledger, exactly."""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

from skdp.exact import round_up
from skdp.privacy._guarantee import PrivacyGuarantee
from skdp.privacy._numbers import check_epsilon
from skdp.privacy.accounting import (
    GaussianLoss,
    LaplaceLoss,
    Loss,
    PureLoss,
    StatedLoss,
    pure_mu,
    pure_rho,
)

# Floats have digits from 1e308 to 5e-324, so sums of them have some 640, and half the
# square of a float (with at most 17 digits) has fewer than 700: all are exact.
EXACT = Context(prec=800)

INFINITE = Decimal("Infinity")


def as_decimal(number: Any) -> Decimal:
    """Return the shortest decimal of a number, rounded up to a float."""
    return Decimal(repr(round_up(check_epsilon(number, zero=True))))


def rounded_down(amount: Decimal) -> float:
    """Return the largest float whose shortest decimal is at most an amount."""
    nearest = float(amount)
    if math.isfinite(nearest) and Decimal(repr(nearest)) > amount:
        return math.nextafter(nearest, -math.inf)
    return nearest


def rounded_up(amount: Decimal) -> float:
    """Return the smallest float whose shortest decimal is at least an amount."""
    # Of 0, the negative would be -0.0.
    return 0.0 - rounded_down(EXACT.minus(amount))


class Sums(NamedTuple):
    """Sums over charges in one relation; infinite if a charge has no such amount."""

    epsilon: Decimal = Decimal(0)
    delta: Decimal = Decimal(0)
    # Of the deltas of charges without a rho.
    failure: Decimal = Decimal(0)
    rho: Decimal = Decimal(0)
    mu_squared: Decimal = Decimal(0)

    def plus(self, sums: Sums) -> Sums:
        return Sums(*map(EXACT.add, self, sums))

    def times(self, count: int) -> Sums:
        return Sums(*[EXACT.multiply(amount, count) for amount in self])

    def larger(self, sums: Sums) -> Sums:
        """Return the larger of each."""
        return Sums(*map(max, self, sums))

    def minus(self, sums: Sums) -> Sums:
        """Subtract sums of which none is infinite where this one is not."""
        return Sums(*map(_difference, self, sums))

    def _content(self) -> dict[str, str]:
        """Write the sums beside epsilon and delta."""
        return {name: str(getattr(self, name)) for name in _FURTHER}

    @classmethod
    def _of(cls, epsilon: Decimal, delta: Decimal, further: Any) -> Sums:
        """Read what `_content` wrote."""
        try:
            amounts = [Decimal(further[name]) for name in _FURTHER]
            is_valid = len(further) == len(_FURTHER) and min(amounts) >= 0
        except (ArithmeticError, LookupError, TypeError):
            is_valid = False
        if not is_valid:
            raise ValueError(f"texts of {', '.join(_FURTHER)} of at least 0 are needed")
        return cls(epsilon, delta, *amounts)


_FURTHER = Sums._fields[2:]

NOTHING = Sums()


def total(sums: Iterable[Sums]) -> Sums:
    """Add up sums."""
    result = NOTHING
    for amounts in sums:
        result = result.plus(amounts)
    return result


def _difference(minuend: Decimal, subtrahend: Decimal) -> Decimal:
    return minuend if minuend == INFINITE else EXACT.subtract(minuend, subtrahend)


# Most charges of a ledger have the same guarantees.
@lru_cache(maxsize=256)
def sums_of(guarantee: PrivacyGuarantee) -> Sums:
    """Return what a release with a guarantee adds."""
    sums = total(map(_loss_sums, guarantee._all_losses()))
    # Losses are rounded up, and those of many parts may add up to more than what is
    # stated of all together.
    if guarantee.rho is not None:
        sums = sums._replace(rho=min(sums.rho, as_decimal(guarantee.rho)))
    if guarantee.delta == 0 and guarantee.losses:
        stated = _loss_sums(StatedLoss(guarantee.epsilon))
        sums = sums._replace(
            rho=min(sums.rho, stated.rho),
            mu_squared=min(sums.mu_squared, stated.mu_squared),
        )
    return sums._replace(
        epsilon=as_decimal(guarantee.epsilon), delta=as_decimal(guarantee.delta)
    )


def _loss_sums(loss: Loss) -> Sums:
    """Return what all releases of a loss add, beside epsilon and delta."""
    if isinstance(loss, GaussianLoss):
        return _gaussian_sums(loss).times(loss.count)
    if isinstance(loss, StatedLoss):
        return _stated_sums(loss).times(loss.count)
    if isinstance(loss, PureLoss | LaplaceLoss):
        return _pure_sums(loss).times(loss.count)
    raise TypeError(f"a ledger cannot add up a {type(loss).__name__}")


def _gaussian_sums(loss: GaussianLoss) -> Sums:
    mu = as_decimal(loss.mu)
    return Sums(rho=half_square(mu), mu_squared=EXACT.multiply(mu, mu))


def _stated_sums(loss: StatedLoss) -> Sums:
    epsilon = as_decimal(loss.epsilon)
    mu_squared = INFINITE if loss.delta else _mu_squared(loss._pure)
    if loss.rho is None:
        # It is epsilon-DP unless it fails, and so has rho = epsilon**2 / 2 (Bun and
        # Steinke 2016, proposition 1.4).
        return Sums(
            failure=as_decimal(loss.delta),
            rho=half_square(epsilon),
            mu_squared=mu_squared,
        )
    # With a rho, delta is one conversion of it.
    return Sums(rho=as_decimal(loss.rho), mu_squared=mu_squared)


def _pure_sums(loss: PureLoss | LaplaceLoss) -> Sums:
    share = 1.0
    if isinstance(loss, PureLoss) and loss._pure:
        share = loss.share
    epsilon = as_decimal(loss._pure)
    # Infinite where floats overflow.
    rho = Decimal(repr(pure_rho(float(loss._pure), share)))
    return Sums(
        rho=min(half_square(epsilon), rho), mu_squared=_mu_squared(loss._pure, share)
    )


def half_square(number: Decimal) -> Decimal:
    """Return the rho of an epsilon, or of a mu."""
    return EXACT.divide(EXACT.multiply(number, number), 2)


def _mu_squared(epsilon: Fraction, share: float = 1.0) -> Decimal:
    mu = pure_mu(epsilon, share)
    if mu is None:
        return INFINITE
    return EXACT.multiply(as_decimal(mu), as_decimal(mu))
