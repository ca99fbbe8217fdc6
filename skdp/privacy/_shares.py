"""Shares of a budget in rho or mu: what the `epsilon` of a central estimator may be beside a number."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, Self

from skdp.exact import round_up
from skdp.privacy._gaussian import gaussian_epsilon, largest_mu
from skdp.privacy._numbers import check_delta, check_epsilon
from skdp.privacy._zcdp import largest_rho

_LEAST, _MOST = 1e-60, 1e6
"""Of rho and mu**2: between them, conversions neither overflow nor take long."""

_ROOM = 2.0**-50
"""For the rounding of a part, also to the decimals that a ledger adds up."""


@dataclass(frozen=True)
class _Composed(ABC):
    """Checks and arithmetic of `Rho` and `Mu`."""

    name: ClassVar[str]

    def __post_init__(self) -> None:
        exact = {self.name: check_epsilon(getattr(self, self.name), name=self.name)}
        exact["delta"] = check_delta(getattr(self, "delta", None))
        if not _LEAST <= self._amount(exact[self.name]) <= _MOST:
            least, most = (
                self._from_amount(Fraction(_LEAST)),
                self._from_amount(Fraction(_MOST)),
            )
            raise ValueError(
                f"{self.name} must be from {least:g} to {most:g}, got {getattr(self, self.name)}"
            )
        if exact["delta"] == 0:
            raise ValueError(
                f"delta must be a number in (0, 1), got 0: {self.name} gives no epsilon without it"
            )
        for name, number in exact.items():
            object.__setattr__(self, name, -round_up(-number))

    @staticmethod
    @abstractmethod
    def _amount(number: Fraction) -> Fraction:
        """Return what adds up."""

    @staticmethod
    @abstractmethod
    def _from_amount(amount: Fraction) -> float:
        """Return the number of an amount, rounded down."""

    @staticmethod
    @abstractmethod
    def _largest(epsilon: float, delta: float) -> float:
        """Return the largest number that is (epsilon, delta)-private, rounded down."""

    @classmethod
    def of(cls, epsilon: float, delta: float) -> Self:
        """Return the largest share, but for rounding, that is (epsilon, delta)-private.

        Parameters
        ----------
        epsilon : float
            Finite and > 0. The share of a large one is the largest that there is.
        delta : float
            In (0, 1).

        Returns
        -------
        same type
            The share.
        """
        check_epsilon(epsilon)
        number = (
            cls._largest(epsilon, delta) if check_delta(delta) else 1.0
        )  # without a delta it is refused
        most = cls._from_amount(Fraction(_MOST))
        return cls(**{cls.name: min(number, most), "delta": delta})

    def split(self, n: int) -> Self:
        """Return the share of each of n releases.

        Parameters
        ----------
        n : int
            The number of releases, at least 1.

        Returns
        -------
        same type
            The largest share, but for rounding, of which n add up to at most this one, with the same delta.
        """
        if isinstance(n, bool) or not hasattr(n, "__index__"):
            raise TypeError(f"n must be a whole number, got {type(n).__name__}")
        count = n.__index__()
        if count < 1:
            raise ValueError(f"n must be at least 1, got {count}")
        if count == 1:
            return self
        amount = self._amount(Fraction(getattr(self, self.name))) / count
        return replace(self, **{self.name: self._from_amount(amount)})


@dataclass(frozen=True)
class Rho(_Composed):
    """A share of a budget in zero-concentrated privacy, as the `epsilon` of a central estimator.

    The parts of a release then add up in rho, and noise is Gaussian where this is less than Laplace noise.

    Parameters
    ----------
    rho : float
        The loss of the release in zero-concentrated differential privacy ([1]_), > 0.
    delta : float
        The failure probability at which `guarantee_` states an epsilon, in (0, 1). A ledger in rho does not count it.

    See Also
    --------
    Mu : The same in Gaussian privacy.
    zcdp_epsilon : The conversion to epsilon.

    Notes
    -----
    **Privacy.** Adding or removing a record changes the release by a Rényi divergence of at most ``rho * a``, for each
    order a. `guarantee_` states rho, what the noise loses if more is known, and an epsilon for delta; `compose` finds
    that of other deltas. A purely private mechanism of epsilon counts as ``epsilon * tanh(epsilon / 2)``, which is
    exact: its loss has the bounds -epsilon and epsilon, and the inequality of Kearns and Saul ([2]_) bounds the
    exponential moments. A choice by the exponential mechanism counts as ``epsilon**2 / 8`` ([3]_).

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

    rho: float
    delta: float

    @staticmethod
    def _amount(number: Fraction) -> Fraction:
        return number

    @staticmethod
    def _from_amount(amount: Fraction) -> float:
        return float(amount) * (1 - _ROOM)

    @staticmethod
    def _largest(epsilon: float, delta: float) -> float:
        return -round_up(-largest_rho(check_epsilon(epsilon), check_delta(delta)))


@dataclass(frozen=True)
class Mu(_Composed):
    """A share of a budget in Gaussian privacy, as the `epsilon` of a central estimator.

    The squares of the mus of the parts of a release then add up, and noise is Gaussian.

    Parameters
    ----------
    mu : float
        The loss of the release in Gaussian differential privacy ([1]_), > 0.
    delta : float
        The failure probability at which `guarantee_` states an epsilon, in (0, 1). A ledger in mu does not count it.

    See Also
    --------
    Rho : The same in zero-concentrated privacy.
    gaussian_epsilon : The conversion to epsilon.

    Notes
    -----
    **Privacy.** Telling whether a record was added or removed is, for each release, at least as hard as telling two
    normal distributions apart whose means differ by mu standard deviations. `guarantee_` states this as a
    `GaussianLoss`, with an epsilon for delta. A choice by the exponential mechanism, whose losses lie in an interval of
    length epsilon, is post-processing of a choice among two such losses ([2]_); the worst of these is randomised
    response of ``epsilon / 2``, so its mu is ``2 q`` for the normal quantile q of ``1 / (1 + e**(-epsilon / 2))``.

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

    mu: float
    delta: float

    @staticmethod
    def _amount(number: Fraction) -> Fraction:
        return number**2

    @staticmethod
    def _from_amount(amount: Fraction) -> float:
        return math.sqrt(amount) * (1 - _ROOM)

    @staticmethod
    def _largest(epsilon: float, delta: float) -> float:
        return _largest_mu(check_epsilon(epsilon), check_delta(delta))


@lru_cache(maxsize=256)
def _largest_mu(epsilon: Fraction, delta: Fraction) -> float:
    """Return the largest mu whose epsilon, as `guarantee_` states it, is no more than what was asked for."""
    number = largest_mu(epsilon, delta)
    # Both conversions round to the safe side: a ledger of just this epsilon would refuse the release.
    while gaussian_epsilon(number, delta) > epsilon:
        number *= 1 - _ROOM
    return number
