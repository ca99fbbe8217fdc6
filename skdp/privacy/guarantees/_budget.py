"""Privacy budgets of a release in epsilon, rho or mu, and their exact division into parts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from scipy.special import ndtri

from skdp.exact import round_up
from skdp.privacy._formats import check_delta, check_epsilon
from skdp.privacy.guarantees._accountant import bound_guess, smallest_epsilon
from skdp.privacy.guarantees._conversions import (
    find_largest_safe,
    find_safe_start,
    gaussian_epsilon,
    largest_mu,
    largest_rho,
    zcdp_epsilon,
)
from skdp.privacy.guarantees._losses import (
    GaussianLoss,
    Loss,
    PureLoss,
    StatedLoss,
    pure_epsilon,
    pure_rho,
)
from skdp.randomness import check_size, check_type

# Range of rho and mu**2 in which conversions neither overflow nor take long.
_MIN_AMOUNT, _MAX_AMOUNT = 1e-60, 1e6

# Relative margin by which parts are rounded down. A ledger adds the shortest decimals of
# floats, which may be larger than the floats.
_PART_ROUNDING = 2.0**-50


class _ConcentratedBudget:
    """Base class of `Rho` and `Mu`."""

    name: ClassVar[Literal["rho", "mu"]]
    # Exponent of the parameter in the amount that adds up: 1 for rho, 2 for mu.
    power: ClassVar[int]

    delta: float

    def __post_init__(self) -> None:
        # Check the number, rho or mu (`name`), and delta, and round both down to
        # floats. The number to the power `power` is an amount that adds up over
        # releases.
        stated = getattr(self, self.name)
        number = check_epsilon(stated, name=self.name)
        delta = check_delta(self.delta)
        if not _MIN_AMOUNT <= number**self.power <= _MAX_AMOUNT:
            smallest = self._from_amount(Fraction(_MIN_AMOUNT))
            largest = self._from_amount(Fraction(_MAX_AMOUNT))
            raise ValueError(
                f"`{self.name}` must be from {smallest:g} to {largest:g}, got {stated}."
            )
        if delta == 0:
            raise ValueError(
                f"`delta` must be in (0, 1), got 0. {type(self).__name__} requires "
                "delta > 0."
            )
        object.__setattr__(self, self.name, -round_up(-number))
        object.__setattr__(self, "delta", -round_up(-delta))

    @property
    def amount(self) -> Fraction:
        """The amount that adds up over releases: rho, or mu squared."""
        return Fraction(getattr(self, self.name)) ** self.power

    @classmethod
    def _from_amount(cls, amount: Fraction) -> float:
        """Return rho, or the square root of mu squared, rounded down."""
        number = math.sqrt(amount) if cls.power == 2 else float(amount)
        return number * (1 - _PART_ROUNDING)

    @classmethod
    def of(cls, epsilon: float, delta: float = 1e-6) -> Self:
        """Return the largest rho or mu, except for rounding, that implies (epsilon, delta)-differential privacy.

        Parameters
        ----------
        epsilon : float
            Privacy loss, finite and > 0. The result for a large epsilon is limited to the
            largest valid rho or mu.
        delta : float, default=1e-6
            Failure probability, in (0, 1).

        Returns
        -------
        Rho or Mu
            Budget with this delta.
        """
        exact_epsilon, exact_delta = check_epsilon(epsilon), check_delta(delta)
        if exact_delta == 0:
            number = 1.0  # the constructor raises the error for delta = 0
        elif cls.name == "mu":
            number = _largest_mu(exact_epsilon, exact_delta)
        else:
            number = -round_up(-largest_rho(exact_epsilon, exact_delta))
        largest = cls._from_amount(Fraction(_MAX_AMOUNT))
        return cls(**{cls.name: min(number, largest), "delta": delta})

    def split(self, n: int) -> Self:
        """Divide the budget into n equal parts.

        Parameters
        ----------
        n : int
            Number of parts, at least 1.

        Returns
        -------
        Rho or Mu
            Budget of one part, rounded down such that n parts add up to at most this
            budget, with the same delta.
        """
        n = check_size(n, min_val=1, max_val=None, name="n")
        return self._take(Fraction(1, n))

    def _take(self, fraction: Fraction) -> Self:
        """Return a part of the budget, rounded down such that all parts add up to at most this budget."""
        if fraction == 1:
            return self
        number = self._from_amount(self.amount * fraction)
        return type(self)(**{self.name: number, "delta": self.delta})


@dataclass(frozen=True)
class Rho(_ConcentratedBudget):
    """Budget in zero-concentrated differential privacy, for the parameter `epsilon` of a central estimator.

    The parts of a release then add up in rho, and the noise is Gaussian if this is smaller than Laplace noise.

    Parameters
    ----------
    rho : float
        Loss of the release in zero-concentrated differential privacy ([1]_), > 0.
    delta : float
        Failure probability at which `guarantee_` states an epsilon, in (0, 1). A ledger in rho does not count it.

    See Also
    --------
    Mu : Budget in Gaussian differential privacy.
    zcdp_epsilon : Conversion to epsilon.

    Notes
    -----
    **Privacy.** For inputs that differ in one added or removed record, the Rényi divergence of order a of the releases
    is at most ``rho * a``. `guarantee_` contains rho, the losses of the noise, and an epsilon for delta; `compose`
    computes epsilon for other deltas. A mechanism with epsilon and delta = 0 counts as
    ``epsilon * tanh(epsilon / 2)``, its exact rho by the inequality of Kearns and Saul ([2]_). A selection by the
    exponential mechanism counts as ``epsilon**2 / 8`` ([3]_).

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
class Mu(_ConcentratedBudget):
    """Budget in Gaussian differential privacy, for the parameter `epsilon` of a central estimator.

    The squares of mu of the parts of a release then add up, and the noise is Gaussian.

    Parameters
    ----------
    mu : float
        Loss of the release in Gaussian differential privacy ([1]_), > 0.
    delta : float
        Failure probability at which `guarantee_` states an epsilon, in (0, 1). A ledger in mu does not count it.

    Attributes
    ----------
    guess : float
        Largest probability of a correct guess between two equally likely neighboring tables.

    See Also
    --------
    Rho : Budget in zero-concentrated differential privacy.
    gaussian_epsilon : Conversion to epsilon.

    Notes
    -----
    **Privacy.** To detect an added or removed record in the release is at least as hard as to distinguish two normal
    distributions whose means differ by mu standard deviations. `guarantee_` states this as a `GaussianLoss`, with an
    epsilon for delta. A selection by the exponential mechanism with epsilon is at most as informative as randomized
    response with ``epsilon / 2`` ([2]_), so its mu is ``2 q`` for the normal quantile q of
    ``1 / (1 + e**(-epsilon / 2))``.

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

    @classmethod
    def of(
        cls,
        epsilon: float | None = None,
        delta: float = 1e-6,
        *,
        guess: float | None = None,
    ) -> Self:
        """Return the largest mu, except for rounding, for an epsilon and delta or for a probability of a correct guess.

        Parameters
        ----------
        epsilon : float, default=None
            Privacy loss, finite and > 0. The result for a large epsilon is limited to the largest valid mu.
        delta : float, default=1e-6
            Failure probability, in (0, 1).
        guess : float, default=None
            Largest probability of a correct guess between two equally likely neighboring tables, between 0.5 and 1,
            instead of epsilon: ``Phi(mu / 2)`` for the standard normal distribution function Phi.

        Returns
        -------
        Mu
            Budget with this delta.

        Examples
        --------
        Twelve counts, after which a guess is right in at most 60 of 100 cases, and their standard deviation:

        >>> from skdp.privacy import Mu
        >>> month = Mu.of(guess=0.6).split(12)
        >>> round(1 / month.mu, 1)
        6.8
        """
        if (guess is None) == (epsilon is None):
            raise TypeError("`of` requires either `epsilon` or `guess`.")
        if epsilon is not None:
            return super().of(epsilon, delta)
        target = check_epsilon(guess, name="guess")
        if not Fraction(1, 2) < target < 1:
            raise ValueError(
                f"`guess` must be between 0.5 and 1, such as 0.6 for 60 of 100, got {guess}."
            )

        def excess(mu: float) -> float:
            return float(Fraction(cls(mu, delta).guess) - target)

        start = 2 * float(ndtri(float(target)))
        return cls(find_safe_start(excess, start, -_PART_ROUNDING), delta)

    @property
    def guess(self) -> float:
        """The largest probability of a correct guess between two equally likely neighboring tables."""
        return bound_guess(StatedLoss(700.0), (GaussianLoss(self.mu),))


@lru_cache(maxsize=256)
def _largest_mu(epsilon: Fraction, delta: Fraction) -> float:
    """Return the largest mu whose `gaussian_epsilon` for delta is at most epsilon."""

    def excess(mu: float) -> float:
        return float(gaussian_epsilon(mu, delta) - epsilon)

    # `largest_mu` and `gaussian_epsilon` are both rounded to the safe side, so the epsilon
    # of `guarantee_` may be slightly larger than the parameter. Mu is decreased until this
    # epsilon is at most the parameter.
    return find_safe_start(excess, largest_mu(epsilon, delta), -_PART_ROUNDING)


@dataclass(frozen=True)
class PrivacyBudget:
    """The exact budget of a mechanism, or of a part of it.

    Products and quotients with numbers divide the budget into parts that add up.
    """

    # Measure of privacy loss of `amount`.
    kind: Literal["epsilon", "rho", "mu"]
    # Epsilon, rho or mu squared, which add up.
    amount: Fraction
    # The parameter `epsilon`, if it is a Rho or Mu.
    given: Rho | Mu | None = None
    # Largest number of rows of one person, to which the noise is proportional. It is a factor of
    # the sensitivity in `Noise`.
    rows_per_person: int = 1
    # True for a guarantee for all rows of a person, False for a number of rows.
    by_person: bool = False

    def __mul__(self, fraction: Fraction) -> PrivacyBudget:
        return replace(self, amount=self.amount * fraction)

    def __truediv__(self, n: int) -> PrivacyBudget:
        return self * Fraction(1, n)

    @property
    def mu_squared(self) -> Fraction:
        """Mu squared of Gaussian noise with this budget; 0 for epsilon, which allows no Gaussian noise."""
        # Gaussian noise has rho = mu**2 / 2.
        if self.kind == "epsilon":
            return Fraction(0)
        return 2 * self.amount if self.kind == "rho" else self.amount

    @property
    def pure(self) -> Fraction:
        """The largest epsilon of a mechanism with delta = 0 within this budget."""
        if self.kind == "epsilon":
            return self.amount
        if self.kind == "rho":
            return Fraction(_find_pure_epsilon(self.amount))
        return Fraction(pure_epsilon(-round_up(-self.amount)))

    @property
    def choice(self) -> Fraction:
        """The largest epsilon of an exponential mechanism within this budget, see `Rho` and `Mu`."""
        if self.kind == "epsilon":
            return self.amount
        if self.kind == "rho":
            root = math.sqrt(8 * self.amount) * (1 - _PART_ROUNDING)
            return max(Fraction(root), self.pure)
        return 2 * self.pure

    @property
    def unit(self) -> dict[str, Any]:
        """The fields `unit` and `max_rows_per_person` of a guarantee."""
        unit = "person" if self.by_person else "record"
        return {"unit": unit, "max_rows_per_person": self.rows_per_person}

    def loss(self, delta: Fraction = Fraction(0)) -> Loss:
        """Return the loss of a mechanism that is known by its epsilon and delta only."""
        epsilon = round_up(self.amount)
        return StatedLoss(epsilon, round_up(delta)) if delta else PureLoss(epsilon)

    def state_guarantee(
        self, losses: Sequence[Loss], delta: Fraction, rho: Fraction | None
    ) -> dict[str, Any]:
        """Return the fields epsilon, delta, rho and losses of a guarantee of all parts of a release.

        `losses` are the losses of the parts, empty if they are not known. `given` is
        the Rho or Mu of the user, from which epsilon is computed; for a Rho, it is the
        smaller one of its conversion and the composition of the losses.
        """
        epsilon = round_up(self.amount)
        if self.given is not None:
            delta, rho = check_delta(self.given.delta), self.mu_squared / 2
            if isinstance(self.given, Mu):
                losses = (GaussianLoss(self.given.mu),)
                epsilon = _compose_losses(tuple(losses), delta)
            else:
                epsilon = zcdp_epsilon(self.amount, delta)
                if losses:
                    by_losses = _compose_losses(tuple(losses), delta)
                    epsilon = min(epsilon, by_losses)
        return {
            "epsilon": epsilon,
            "delta": round_up(check_delta(delta)),
            "rho": None if rho is None else round_up(rho),
            "losses": tuple(losses),
        }


class Split:
    """Named fractions of a budget, which add up to 1: the fraction `rest` is the remainder.

    The fractions are attributes, so ``budget * split.counts`` is the part of the budget for counts.
    """

    def __init__(self, rest: str, **fractions: Fraction) -> None:
        remainder = 1 - sum(fractions.values(), Fraction(0))
        if rest in fractions or min(remainder, *fractions.values()) <= 0:
            raise ValueError(
                f"Fractions of a budget must be positive and leave some for {rest!r}, got "
                f"{fractions}."
            )
        vars(self).update(fractions, **{rest: remainder})

    if TYPE_CHECKING:  # the names of the attributes are checked by tests/test_rooms.py

        def __getattr__(self, name: str) -> Fraction: ...


@lru_cache(maxsize=256)
def _compose_losses(losses: tuple[Loss, ...], delta: Fraction) -> float:
    """Return the smallest epsilon of the composition of losses for delta; infinite if there is none."""
    epsilon = smallest_epsilon(losses, delta)
    return math.inf if epsilon is None else epsilon


def parse_budget(epsilon: Any) -> PrivacyBudget:
    """Check the parameter `epsilon` of a central estimator and return it as a budget."""
    # Subclasses are rejected, because they could return another amount at each access.
    if type(epsilon) in (Rho, Mu):
        return PrivacyBudget(epsilon.name, epsilon.amount, epsilon)
    expected = "a finite number > 0, or a Rho or Mu such as Mu.of(guess=0.6)"
    check_type("epsilon", epsilon, Real, expected)
    return PrivacyBudget("epsilon", check_epsilon(epsilon))


@lru_cache(maxsize=256)
def _find_pure_epsilon(rho: Fraction) -> float:
    """Return the largest epsilon, except for rounding, whose `pure_rho` is at most rho."""

    def excess(epsilon: float) -> float:
        return float(Fraction(pure_rho(epsilon)) - rho)

    # The rho of a pure release is at most epsilon**2 / 2.
    return find_largest_safe(excess, math.sqrt(2 * rho))
