"""What a mechanism may lose, exactly: an epsilon, a rho or the square of a mu, and their parts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal

from scipy.optimize import brentq

from skdp.exact import exp_bounds, round_up
from skdp.privacy._numbers import check_delta, check_epsilon
from skdp.privacy._shares import Mu, Rho
from skdp.privacy._zcdp import zcdp_epsilon
from skdp.privacy.accounting import (
    GaussianLoss,
    Loss,
    PureLoss,
    StatedLoss,
    pure_epsilon,
    smallest_epsilon,
)

_MOST_SQUARE = 4000.0
"""Of mu**2, for the epsilon that it buys, which is then about 500."""


@dataclass(frozen=True)
class Share:
    """What a mechanism, or a part of it, may lose: exact, and adding up."""

    kind: Literal["epsilon", "rho", "mu"]
    amount: Fraction
    """Epsilon, rho or the square of mu."""
    given: Rho | Mu | None = None
    rows: int = 1
    """The most rows of one person: noise is in proportion to it."""

    def __mul__(self, part: Fraction) -> Share:
        return replace(self, amount=self.amount * part)

    def __truediv__(self, n: int) -> Share:
        return self * Fraction(1, n)

    @property
    def mu_squared(self) -> Fraction:
        """The square of mu of Gaussian noise; of an epsilon, which buys none, 0."""
        return {"epsilon": Fraction(0), "rho": 2 * self.amount, "mu": self.amount}[
            self.kind
        ]

    @property
    def of_a_row(self) -> Share:
        """The budget of a single row, in mu: with r rows a person, mu / r."""
        return Share("mu", self.mu_squared / self.rows**2)

    @property
    def pure(self) -> Fraction:
        """The epsilon of a purely private mechanism."""
        if self.kind == "epsilon":
            return self.amount
        if self.kind == "rho":
            return _pure_of_rho(self.amount)
        return Fraction(pure_epsilon(min(-round_up(-self.amount), _MOST_SQUARE)))

    @property
    def choice(self) -> Fraction:
        """The epsilon of the exponential mechanism, at least `pure`."""
        if self.kind == "epsilon":
            return self.amount
        if self.kind == "rho":
            return max(_root(8 * self.amount), self.pure)
        return 2 * self.pure

    def loss(self, delta: Fraction = Fraction(0)) -> Loss:
        """Return the loss of a part of which no more is known than this epsilon and a delta."""
        epsilon = round_up(self.amount)
        return StatedLoss(epsilon, round_up(delta)) if delta else PureLoss(epsilon)

    def stated(
        self, losses: Sequence[Loss], delta: Fraction, rho: Fraction | None
    ) -> dict[str, Any]:
        """Return epsilon, delta, rho and losses of a guarantee, from the losses of the parts if they are known."""
        if self.given is None:
            return {
                "epsilon": round_up(self.amount),
                "delta": round_up(check_delta(delta)),
                "rho": None if rho is None else round_up(rho),
                "losses": tuple(losses),
            }
        own = check_delta(self.given.delta)
        if isinstance(self.given, Mu):
            losses = (GaussianLoss(self.given.mu),)
        epsilon = _epsilon(
            None if isinstance(self.given, Mu) else self.amount, tuple(losses), own
        )
        return {
            "epsilon": epsilon,
            "delta": round_up(own),
            "rho": round_up(self.mu_squared / 2),
            "losses": tuple(losses),
        }


@lru_cache(maxsize=256)
def _epsilon(rho: Fraction | None, losses: tuple[Loss, ...], delta: Fraction) -> float:
    """Return the least epsilon of a rho or of losses, if they are given."""
    by_losses = smallest_epsilon(losses, delta) if losses else None
    found = [by_losses, None if rho is None else zcdp_epsilon(rho, delta)]
    return min(one for one in found if one is not None)


def read_share(epsilon: Any) -> Share:
    """Check the `epsilon` of a central release."""
    # A derived class might state one number and have the noise of another.
    if type(epsilon) is Rho:
        return Share("rho", Fraction(epsilon.rho), epsilon)
    if type(epsilon) is Mu:
        return Share("mu", Fraction(epsilon.mu) ** 2, epsilon)
    return Share("epsilon", check_epsilon(epsilon))


def _root(square: Fraction) -> Fraction:
    """Return a square root, rounded down."""
    shift = (
        max(0, square.denominator.bit_length() - square.numerator.bit_length()) + 160
    )
    shift += shift % 2
    return Fraction(
        math.isqrt((square.numerator << shift) // square.denominator), 1 << shift // 2
    )


def _pure_of_rho(rho: Fraction) -> Fraction:
    """Return the largest epsilon, but for rounding, of which ``epsilon * tanh(epsilon / 2)`` is at most rho."""
    if rho < Fraction(1, 1 << 20):
        return _root(2 * rho)
    if rho > 64:
        return rho
    wanted = float(rho)
    found = float(
        brentq(
            lambda one: one * math.tanh(one / 2) - wanted,
            0.0,
            2 + 2 * wanted,
            xtol=1e-13,
        )
    )
    while Fraction(found) * (1 - 2 / (exp_bounds(found)[1] + 1)) > rho:
        found *= 1 - 2.0**-40
    return Fraction(found)
