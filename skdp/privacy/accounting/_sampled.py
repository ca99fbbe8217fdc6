"""The losses of releases from a secret random sample of the records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from skdp.exact import exp_bounds, log_upper, round_up
from skdp.privacy._json import Fields
from skdp.privacy._numbers import check_rate
from skdp.privacy.accounting._channels import PureLoss, StatedLoss
from skdp.privacy.accounting._loss import Loss, Radii, at_least_0
from skdp.privacy.accounting._noise import GaussianLoss, LaplaceLoss, gaussian_loss

# Let P and Q be the laws of a release without and with a record that is in the sample with probability q, and given the
# rest of the sample. The law with the record in the table is ``M = (1 - q) P + q Q``, and for g >= 1, ``H_g(M, P) = q
# H_h(Q, P)`` with ``h = 1 + (g - 1) / q`` ([1]_, theorem 2). In a symmetric loss of randomised response, of radius r,
# this is a straight line from ``q tanh(r / 2)`` at g = 1 to 0 at ``g = 1 + q (e**r - 1)``: randomised response of the
# radius ``r' = log(1 + q (e**r - 1))`` with the probability ``q tanh(r / 2) / tanh(r' / 2)``, and nothing otherwise.
# H_g(P, M) is a line from the same point to 0 at ``1 / (1 - q + q e**-r)``, which is at most e**r'. So a mixture of
# radii becomes the mixture of theirs, in both directions.
#
# For replacing a record, with samples of a fixed size, P and Q are the laws with the old and the new record in the
# sample, and H_g is at most the same ([1]_, theorem 9).
# .. [1] B. Balle, G. Barthe, M. Gaboardi (2018). Privacy amplification by subsampling: tight analyses via couplings
#    and divergences. NeurIPS. arXiv:1807.01647

_LEVELS = 1 << 11
"""Absolute values of the loss of Gaussian noise that are distinguished."""

_WIDE = 14.0
"""Standard deviations of the loss that are distinguished: beyond them is less than 2**-144."""

_MOST = 24.0
"""The largest mu: e**r is then finite at all levels."""

_FAILURE = Fraction(1, 1 << 140)

_ROOM, _LEAST = 2.0**-36, 2.0**-40
"""For the rounding of the share of the upper one of two levels, times mu; smaller mus count as the least one."""


@dataclass(frozen=True)
class SampledGaussianLoss(Loss):  # numpydoc ignore=PR02
    """The privacy loss of Gaussian noise on a statistic of a secret random sample.

    Parameters
    ----------
    mu : float
        The Gaussian privacy loss given the sample, finite and at least 0.
    rate : float
        The probability with which a record is in the sample, in (0, 1].
    count : int, default=1
        The number of such releases, each from a sample of its own, from 1 to 2**40.

    See Also
    --------
    GaussianLoss : Without a sample.
    skdp.privacy.subsampled_guarantee : The guarantee.

    Notes
    -----
    **Privacy.** In rho and in mu, a sample hides nothing: the loss of a record that happens to be in it has the tail of
    the whole Gaussian loss. So ledgers in rho and mu are charged as without a sample; `compose`, and ledgers in epsilon
    and delta, are not.

    Examples
    --------
    A hundred releases, of samples of a hundredth of the records each:

    >>> from skdp.privacy import PrivacyGuarantee, GaussianLoss, SampledGaussianLoss, compose, gaussian_epsilon
    >>> whole = PrivacyGuarantee(gaussian_epsilon(1, 1e-6), 1e-6, losses=(GaussianLoss(1),))
    >>> part = PrivacyGuarantee(whole.epsilon, 1e-6, losses=(SampledGaussianLoss(1, 0.01),))
    >>> [round(compose([one] * 100, delta=1e-6).epsilon, 1) for one in (whole, part)]
    [96.7, 1.0]
    """

    kind = "sampled gaussian"

    mu: float
    rate: float

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set("mu", at_least_0)
        self._set("rate", check_rate)
        if self.mu > _MOST:
            raise ValueError(f"mu must be at most {_MOST:g} for the loss of a sample, got {self.mu}")

    @property
    def _pure(self) -> Fraction:
        return Fraction(amplified(Fraction(_ends(self.mu)), Fraction(self.rate))) if self.mu else Fraction(0)

    @property
    def _failure(self) -> Fraction:
        return _FAILURE if self.mu else Fraction(0)

    @property
    def _concentrated(self) -> Fraction:
        return Fraction(self.mu) ** 2 / 2

    @property
    def whole(self) -> GaussianLoss:
        """The loss without a sample, which is never less."""
        return GaussianLoss(self.mu, count=self.count)

    def _doubled(self) -> Self:
        # The law with the old record in the sample and that with the new one differ by twice the mu.
        return replace(self, mu=2 * self.mu)

    def _or(self, other: SampledGaussianLoss) -> Self:
        return replace(self, mu=max(self.mu, other.mu), rate=max(self.rate, other.rate))

    def _radii(self) -> Radii:
        return _sampled_radii(self.mu, self.rate)

    @classmethod
    def _of(cls, record: Fields, count: int) -> Self:
        return cls(record.number("mu", at_least_0), record.number("rate", check_rate), count=count)


def _ends(mu: float) -> float:
    return mu * mu / 2 + _WIDE * mu


@lru_cache(maxsize=64)
def _sampled_radii(mu: float, rate: float) -> Radii:
    """Return levels of the absolute loss of Gaussian noise, and their probabilities, after sampling."""
    mu = max(mu, _LEAST)
    edges = np.linspace(0, _ends(mu), _LEVELS + 1)
    # The loss is normal with mean mu**2 / 2 and standard deviation mu, and at -r it has e**-r of the density at r. In a
    # cell from a to b, the mean of ``1 - tanh(r / 2)`` is twice the mass of the negative part over that of both. It is
    # split among the ends of the cell such that it stays, which increases all divergences.
    below = _masses((edges + mu * mu / 2) / mu)
    masses = _masses((edges - mu * mu / 2) / mu) + below
    levels = 2 / (1 + np.exp(edges))
    shares = (levels[:-1] - 2 * below / masses) / (levels[:-1] - levels[1:])
    shares = np.clip(shares + _ROOM * (1 + 1 / mu), 0, 1)
    weights = np.zeros(_LEVELS + 1)
    weights[:-1] += masses * (1 - shares)
    weights[1:] += masses * shares
    return sampled_radii(edges, weights, rate)


def _masses(places: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the masses of the normal law between places, from the tail that is smaller."""
    return np.where(places[:-1] > 0, ndtr(-places[:-1]) - ndtr(-places[1:]), ndtr(places[1:]) - ndtr(places[:-1]))


def sampled_radii(radii: NDArray[np.float64], weights: NDArray[np.float64], rate: float) -> Radii:
    """Return the absolute losses after sampling, the last one 0, and their probabilities."""
    large = np.logaddexp(radii + np.log(rate), np.log1p(-min(rate, 1 - 2.0**-53)))
    found = np.where(radii > 30, large, np.log1p(rate * np.expm1(np.minimum(radii, 30.0))))
    rest = np.exp(-radii)
    kept = weights * (rate + (2 - rate) * rest) / (1 + rest)
    nothing = float((weights * (1 - rate) * -np.expm1(-radii) / (1 + rest)).sum())
    return np.append(found, 0.0), np.append(kept, nothing)


def amplified(epsilon: Fraction, rate: Fraction) -> float:
    """Return ``log(1 + rate * (e**epsilon - 1))``, rounded up."""
    if rate == 1 or epsilon > 700:
        return round_up(epsilon)
    return min(log_upper(1 + rate * (exp_bounds(epsilon)[1] - 1)), round_up(epsilon))


def sampled(losses: Sequence[Loss], rate: Fraction) -> tuple[Loss, ...]:
    """Return what a release with these losses, all from one sample, loses if the sample is secret; none if unknown."""
    if losses and all(isinstance(loss, GaussianLoss) for loss in losses):
        mu = gaussian_loss(sum((loss.count * Fraction(loss._concentrated or 0) * 2 for loss in losses), Fraction(0))).mu
        return (SampledGaussianLoss(mu, round_up(rate)),) if mu <= _MOST / 2 else ()
    if all(isinstance(loss, PureLoss | LaplaceLoss | StatedLoss) and not loss._failure for loss in losses):
        total = sum((loss.count * (loss._pure or Fraction(0)) for loss in losses), Fraction(0))
        one = losses[0]
        alone = len(losses) == 1 and one.count == 1
        share = Fraction(one.share) if alone and isinstance(one, PureLoss) else Fraction(1)
        return (_sampled_pure(total, share, rate),)
    return ()


def _sampled_pure(epsilon: Fraction, share: Fraction, rate: Fraction) -> PureLoss:
    # The probability is rate * tanh(epsilon / 2) / tanh(epsilon' / 2), decreasing in epsilon.
    low = exp_bounds(min(epsilon, Fraction(700)))[0]
    kept = (2 + rate * (low - 1)) / (1 + low)
    return PureLoss(amplified(epsilon, rate), round_up(min(Fraction(1), share * kept)))
