"""Fractions of a privacy budget: epsilon, rho or the square of mu, exact, and their parts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from numbers import Integral
from typing import Any, ClassVar, Literal, Self

from scipy.optimize import brentq

from skdp.exact import exp_bounds, round_up
from skdp.privacy._accountant import smallest_epsilon
from skdp.privacy._conversions import (
    gaussian_epsilon,
    largest_mu,
    largest_rho,
    proven_start,
    zcdp_epsilon,
)
from skdp.privacy._formats import check_delta, check_epsilon
from skdp.privacy._losses import GaussianLoss, Loss, PureLoss, StatedLoss, pure_epsilon

# Between these values of rho and mu**2, conversions neither overflow nor take long.
_MIN_AMOUNT, _MAX_AMOUNT = 1e-60, 1e6

# Relative margin for the rounding of a part, also to the decimals that a ledger adds.
_ROUNDING = 2.0**-50


class _Fraction:
    """Checks and arithmetic of `Rho` and `Mu`."""

    name: ClassVar[Literal["rho", "mu"]]
    # Exponent of the parameter in the amount that adds up: 1 for rho, 2 for mu.
    power: ClassVar[int]

    delta: float

    def __post_init__(self) -> None:
        stated = getattr(self, self.name)
        number = check_epsilon(stated, name=self.name)
        delta = check_delta(self.delta)
        if not _MIN_AMOUNT <= number**self.power <= _MAX_AMOUNT:
            smallest = self._from_amount(Fraction(_MIN_AMOUNT))
            largest = self._from_amount(Fraction(_MAX_AMOUNT))
            raise ValueError(
                f"{self.name} must be from {smallest:g} to {largest:g}, got {stated}"
            )
        if delta == 0:
            raise ValueError(
                f"delta must be in (0, 1), got 0. {type(self).__name__} requires delta "
                "> 0."
            )
        object.__setattr__(self, self.name, -round_up(-number))
        object.__setattr__(self, "delta", -round_up(-delta))

    @property
    def amount(self) -> Fraction:
        """Amount that adds up over releases: rho, or mu squared."""
        return Fraction(getattr(self, self.name)) ** self.power

    @classmethod
    def _from_amount(cls, amount: Fraction) -> float:
        """Return rho or mu of an amount, rounded down."""
        number = math.sqrt(amount) if cls.power == 2 else float(amount)
        return number * (1 - _ROUNDING)

    @classmethod
    def of(cls, epsilon: float, delta: float) -> Self:
        """Return the largest rho or mu, except for rounding, that implies (epsilon, delta)-differential privacy.

        Parameters
        ----------
        epsilon : float
            Finite and > 0. A large epsilon has the largest possible fraction.
        delta : float
            In (0, 1).

        Returns
        -------
        Rho or Mu
            The fraction.
        """
        exact_epsilon, exact_delta = check_epsilon(epsilon), check_delta(delta)
        if exact_delta == 0:
            number = 1.0  # refused below
        elif cls.name == "mu":
            number = _largest_mu(exact_epsilon, exact_delta)
        else:
            number = -round_up(-largest_rho(exact_epsilon, exact_delta))
        largest = cls._from_amount(Fraction(_MAX_AMOUNT))
        return cls(**{cls.name: min(number, largest), "delta": delta})

    def split(self, n: int) -> Self:
        """Divide the fraction among n releases.

        Parameters
        ----------
        n : int
            Number of releases, at least 1.

        Returns
        -------
        Rho or Mu
            The largest fraction, except for rounding, of which n add up to at most this one, with the same delta.
        """
        if isinstance(n, bool) or not isinstance(n, Integral) or n < 1:
            raise ValueError(f"n must be an int of at least 1, got {n!r:.40}")
        if n == 1:
            return self
        number = self._from_amount(self.amount / int(n))
        return type(self)(**{self.name: number, "delta": self.delta})


@dataclass(frozen=True)
class Rho(_Fraction):
    """Fraction of a budget in zero-concentrated privacy, as the `epsilon` of a central estimator.

    The parts of a release then add up in rho, and the noise is Gaussian if this is smaller than Laplace noise.

    Parameters
    ----------
    rho : float
        Loss of the release in zero-concentrated differential privacy ([1]_), > 0.
    delta : float
        Failure probability at which `guarantee_` states an epsilon, in (0, 1). A ledger in rho does not count it.

    See Also
    --------
    Mu : Fraction of a budget in Gaussian privacy.
    zcdp_epsilon : Conversion to epsilon.

    Notes
    -----
    **Privacy.** Adding or removing a record changes the release by a Rényi divergence of at most ``rho * a``, for each
    order a. `guarantee_` has rho, the losses of the noise, and an epsilon for delta; `compose` computes epsilon for
    other deltas. A purely private mechanism with epsilon counts as ``epsilon * tanh(epsilon / 2)``, which is exact: its
    loss is between -epsilon and epsilon, and the inequality of Kearns and Saul ([2]_) bounds the exponential moments. A
    choice by the exponential mechanism counts as ``epsilon**2 / 8`` ([3]_).

    References
    ----------
    .. [1] M. Bun, T. Steinke (2016). Concentrated differential privacy: simplifications, extensions, and lower bounds.
       TCC.
    .. [2] M. Kearns, L. Saul (1998). Large deviation methods for approximate probabilistic inference. UAI.
    .. [3] M. Cesar, R. Rogers (2021). Bounding, concentrating, and truncating: unifying privacy loss composition for
       data analytics. ALT.

    Examples
    --------
    Ten releases that are (1, 1e-6)-private together:

    >>> from skdp import DPMean, PrivacyLedger
    >>> from skdp.datasets import load_adult
    >>> from skdp.privacy import Rho
    >>> total = Rho.of(epsilon=1, delta=1e-6)
    >>> ledger = PrivacyLedger(rho=total.rho)
    >>> mean = DPMean(total.split(10), bounds=(0, 100), ledger=ledger, random_state=0).fit(load_adult().frame[["age"]])
    >>> round(mean.guarantee_.rho, 5), round(mean.guarantee_.epsilon, 2)
    (0.00244, 0.27)
    """

    name = "rho"
    power = 1

    rho: float
    delta: float


@dataclass(frozen=True)
class Mu(_Fraction):
    """Fraction of a budget in Gaussian privacy, as the `epsilon` of a central estimator.

    The squares of mu of the parts of a release then add up, and the noise is Gaussian.

    Parameters
    ----------
    mu : float
        Loss of the release in Gaussian differential privacy ([1]_), > 0.
    delta : float
        Failure probability at which `guarantee_` states an epsilon, in (0, 1). A ledger in mu does not count it.

    See Also
    --------
    Rho : Fraction of a budget in zero-concentrated privacy.
    gaussian_epsilon : Conversion to epsilon.

    Notes
    -----
    **Privacy.** To decide whether a record was added or removed is, for each release, at least as hard as to
    distinguish two normal distributions whose means differ by mu standard deviations. `guarantee_` states this as a
    `GaussianLoss`, with an epsilon for delta. A choice by the exponential mechanism, whose losses are in an interval of
    length epsilon, is post-processing of a choice among two such losses ([2]_). The worst of these is randomized
    response with ``epsilon / 2``, so its mu is ``2 q`` for the normal quantile q of ``1 / (1 + e**(-epsilon / 2))``.

    References
    ----------
    .. [1] J. Dong, A. Roth, W. J. Su (2022). Gaussian differential privacy. Journal of the Royal Statistical Society B
       84(1).
    .. [2] J. Dong, D. Durfee, R. Rogers (2020). Optimal differential privacy composition for exponential mechanisms.
       ICML.

    Examples
    --------
    Ten releases that are (1, 1e-6)-private together:

    >>> from skdp import DPHistogram, PrivacyLedger
    >>> from skdp.datasets import load_adult
    >>> from skdp.privacy import Mu
    >>> total = Mu.of(epsilon=1, delta=1e-6)
    >>> ledger = PrivacyLedger(mu=total.mu)
    >>> sexes = load_adult().data[["sex"]]
    >>> counts = DPHistogram(total.split(10), domain={"sex": ["Female", "Male"]}, ledger=ledger, random_state=0)
    >>> print(counts.fit(sexes).guarantee_)
    epsilon = 0.291..., delta = 0.000001, rho = 0.00280..., central model, adding or removing one record's values of:
    sex, NOT SECURE: the randomness comes from a seed
    """

    name = "mu"
    power = 2

    mu: float
    delta: float


@lru_cache(maxsize=256)
def _largest_mu(epsilon: Fraction, delta: Fraction) -> float:
    """Return the largest mu whose epsilon, as `guarantee_` states it, is at most epsilon."""

    def excess(mu: float) -> float:
        return float(gaussian_epsilon(mu, delta) - epsilon)

    # Both conversions round to the safe side, so a ledger with this epsilon might refuse
    # the release.
    return proven_start(excess, largest_mu(epsilon, delta), -_ROUNDING)


@dataclass(frozen=True)
class PrivacyBudget:
    """The exact fraction of a budget for a mechanism or a part of it."""

    kind: Literal["epsilon", "rho", "mu"]
    # Epsilon, rho or the square of mu.
    amount: Fraction
    given: Rho | Mu | None = None
    # Largest number of rows of one person, to which the noise is proportional.
    rows: int = 1
    # True if the rows of each person are sampled, so that neighbors may differ in all
    # sampled rows.
    by_person: bool = False

    def __mul__(self, part: Fraction) -> PrivacyBudget:
        return replace(self, amount=self.amount * part)

    def __truediv__(self, n: int) -> PrivacyBudget:
        return self * Fraction(1, n)

    @property
    def mu_squared(self) -> Fraction:
        """The square of mu for Gaussian noise; 0 for epsilon, which has no Gaussian noise."""
        if self.kind == "epsilon":
            return Fraction(0)
        return 2 * self.amount if self.kind == "rho" else self.amount

    @property
    def of_a_row(self) -> PrivacyBudget:
        """The fraction for a single row, in mu: with r rows per person, mu / r."""
        return PrivacyBudget("mu", self.mu_squared / self.rows**2)

    @property
    def pure(self) -> Fraction:
        """The epsilon of a pure (delta = 0) mechanism."""
        if self.kind == "epsilon":
            return self.amount
        if self.kind == "rho":
            return _pure_of_rho(self.amount)
        return Fraction(pure_epsilon(-round_up(-self.amount)))

    @property
    def choice(self) -> Fraction:
        """The epsilon of the exponential mechanism, at least `pure`."""
        if self.kind == "epsilon":
            return self.amount
        if self.kind == "rho":
            return max(_root(8 * self.amount), self.pure)
        return 2 * self.pure

    @property
    def unit(self) -> dict[str, Any]:
        """The unit of a guarantee, and the largest number of rows of a person."""
        unit = "person" if self.by_person else "record"
        return {"unit": unit, "max_rows_per_person": self.rows}

    def loss(self, delta: Fraction = Fraction(0)) -> Loss:
        """Return the loss of a part that is known by epsilon and delta only."""
        epsilon = round_up(self.amount)
        return StatedLoss(epsilon, round_up(delta)) if delta else PureLoss(epsilon)

    def state_guarantee(
        self, losses: Sequence[Loss], delta: Fraction, rho: Fraction | None
    ) -> dict[str, Any]:
        """Return epsilon, delta, rho and losses of a guarantee, from the losses of the parts if they are known."""
        epsilon = round_up(self.amount)
        if self.given is not None:
            delta, rho = check_delta(self.given.delta), self.mu_squared / 2
            if isinstance(self.given, Mu):
                losses = (GaussianLoss(self.given.mu),)
                epsilon = _epsilon_of_losses(tuple(losses), delta)
            else:
                epsilon = zcdp_epsilon(self.amount, delta)
                if losses:
                    by_losses = _epsilon_of_losses(tuple(losses), delta)
                    epsilon = min(epsilon, by_losses)
        return {
            "epsilon": epsilon,
            "delta": round_up(check_delta(delta)),
            "rho": None if rho is None else round_up(rho),
            "losses": tuple(losses),
        }


@lru_cache(maxsize=256)
def _epsilon_of_losses(losses: tuple[Loss, ...], delta: Fraction) -> float:
    """Return the smallest epsilon of losses, infinite if they exceed delta."""
    epsilon = smallest_epsilon(losses, delta)
    return math.inf if epsilon is None else epsilon


def parse_budget(epsilon: Any) -> PrivacyBudget:
    """Check the `epsilon` of a central release."""
    # A subclass could override the value, so only the exact types are accepted.
    if type(epsilon) in (Rho, Mu):
        return PrivacyBudget(epsilon.name, epsilon.amount, epsilon)
    return PrivacyBudget("epsilon", check_epsilon(epsilon))


def _root(square: Fraction) -> Fraction:
    """Return a square root with at least 80 bits, rounded down."""
    n_bits = square.denominator.bit_length() - square.numerator.bit_length()
    half = (max(0, n_bits) + 161) // 2
    scaled = math.isqrt((square.numerator << 2 * half) // square.denominator)
    return Fraction(scaled, 1 << half)


def _pure_of_rho(rho: Fraction) -> Fraction:
    """Return the largest epsilon with ``epsilon * tanh(epsilon / 2)`` of at most rho, except for rounding."""
    # The product is at most epsilon**2 / 2 and at most epsilon.
    if rho < Fraction(1, 1 << 20):
        return _root(2 * rho)
    if rho > 64:
        return rho

    def excess(epsilon: float) -> float:
        return epsilon * math.tanh(epsilon / 2) - float(rho)

    epsilon = float(brentq(excess, 0.0, 2 + 2 * float(rho), xtol=1e-13))
    while Fraction(epsilon) * (1 - 2 / (exp_bounds(epsilon)[1] + 1)) > rho:
        epsilon *= 1 - 2.0**-40
    return Fraction(epsilon)
