"""The losses of Laplace and Gaussian noise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import atanh, exp, isqrt, log, sqrt, tanh
from typing import Any, Self

import numpy as np
from scipy.special import erf, erfinv, ndtr, ndtri

from skdp.exact import round_up
from skdp.privacy._json import Fields
from skdp.privacy.accounting._channels import PureLoss
from skdp.privacy.accounting._loss import (
    MOST,
    Loss,
    Radii,
    at_least_0,
    read_whole,
    whole,
)

_LEVELS = 1 << 11
"""The most absolute values of the loss of Laplace noise that are distinguished; others are rounded up."""


@dataclass(frozen=True)
class LaplaceLoss(Loss):  # numpydoc ignore=PR02
    """The privacy loss of integers with discrete Laplace noise.

    Parameters
    ----------
    epsilon : float
        The L1 sensitivity over the scale of the noise, finite and at least 0.
    sensitivity : int
        The L1 sensitivity of the integers, from 1 to 2**40: 1 is as bad as randomised response, any multiple of it is
        better, and beyond 1,000 it hardly matters.
    count : int, default=1
        The number of such releases, from 1 to 2**40.

    See Also
    --------
    GaussianLoss : The loss of Gaussian noise.
    skdp.randomness.discrete_laplace : The noise.

    Notes
    -----
    **Privacy.** With ``s = sensitivity``, this is the loss of every release for which a chain of at most s inputs leads
    from each input to its neighbours, where each link is epsilon / s-differentially private. Proof. Let F be the
    largest power of a test of one link, by its level: with ``d = epsilon / s`` it is at most ``min(e**d a, 1 -
    e**-d (1 - a))``. A test of both ends of two links has at most the power F(F(a)), and so on ([1]_, theorem 2.14).
    Discrete Laplace noise attains this: on integers that are 1 apart its tests are those of randomised response, and
    the power for a change by s is F, s times. Fewer links have less power.

    So it holds for integers that change by s in L1 norm, with discrete Laplace noise: each link changes one of them by
    1. It holds for other noise in which a link is a change by 1 in the norm that is protected, such as
    `skdp.randomness.cube_noise` of integers that change by at most s each; and for all s at once where inputs can be
    divided as finely as one likes, such as the scores of `skdp.randomness.permute_and_flip`.

    References
    ----------
    .. [1] J. Dong, A. Roth, W. J. Su (2022). Gaussian differential privacy. Journal of the Royal Statistical Society B
       84(1).

    Examples
    --------
    >>> from skdp.privacy import LaplaceLoss, PrivacyGuarantee, compose
    >>> sums = [PrivacyGuarantee(0.1, losses=(LaplaceLoss(0.1, 1000),))] * 100
    >>> round(compose(sums, delta=1e-6).epsilon, 2)
    4.69
    """

    kind = "laplace"

    epsilon: float
    sensitivity: int

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set("epsilon", at_least_0)
        object.__setattr__(self, "sensitivity", whole("sensitivity", self.sensitivity))

    @property
    def _pure(self) -> Fraction:
        return Fraction(self.epsilon)

    def _doubled(self) -> Self:
        if 2 * self.sensitivity > MOST:
            return replace(
                self, epsilon=2 * self.epsilon
            )  # one link for each two: worse
        return replace(self, epsilon=2 * self.epsilon, sensitivity=2 * self.sensitivity)

    def _or(self, other: LaplaceLoss) -> Self:
        if self.sensitivity != other.sensitivity:
            return replace(
                self, epsilon=max(self.epsilon, other.epsilon), sensitivity=1
            )
        return replace(self, epsilon=max(self.epsilon, other.epsilon))

    def _radii(self) -> Radii:
        # Of the loss (s - 2j) epsilon / s at j steps, the absolute value is epsilon at the ends j = 0 and j = s, with
        # (1 + q**s) / (1 + q) together. From j to s - j, inner places have (q**j - q**(s - j + 1)) / (1 + q) together.
        steps, rate = self.sensitivity, self.epsilon / self.sensitivity
        ends = np.unique(
            np.linspace(1, steps // 2 + 1, min(_LEVELS, steps // 2 + 1)).astype(
                np.int64
            )
        )
        first, after = (
            ends[:-1],
            ends[1:],
        )  # places from `first` to before `after`, and their mirror images
        scale = 1 / (1 + np.exp(-rate))
        mirrored = scale * (
            _between(rate, first, after)
            + _between(rate, steps - after + 1, steps - first + 1)
        )
        if (
            steps % 2 == 0 and first.size
        ):  # the last place, in the middle, is its own mirror image
            mirrored[-1] -= scale * _between(rate, steps / 2, steps / 2 + 1)
        radii = np.concatenate([[self.epsilon], rate * (steps - 2 * first)])
        weights = np.concatenate([[scale * (1 + np.exp(-self.epsilon))], mirrored])
        return radii, weights

    @classmethod
    def _of(cls, record: Fields, count: int) -> Self:
        epsilon = record.number("epsilon", at_least_0)
        return cls(epsilon, read_whole(record, "sensitivity"), count=count)


def laplace_loss(epsilon: Fraction, sensitivity: int = MOST) -> LaplaceLoss | PureLoss:
    """Return the loss of a chain of `sensitivity` links, of any number; by default of one that is as long as may be."""
    if sensitivity == 1:
        return PureLoss(
            round_up(epsilon)
        )  # the same, in the form of other randomised response
    # With more links than a loss has, several are one, and the last one is made as long as the others.
    in_each = -(-sensitivity // MOST)
    n_links = -(-sensitivity // in_each)
    return LaplaceLoss(round_up(epsilon * n_links * in_each / sensitivity), n_links)


def _between(rate: float, first: Any, after: Any) -> Any:
    """Return ``q**first - q**after`` for ``q = e**-rate``."""
    return np.exp(-rate * first) * -np.expm1(-rate * (after - first))


@dataclass(frozen=True)
class GaussianLoss(Loss):  # numpydoc ignore=PR02
    """The privacy loss of Gaussian noise, also if rounded.

    Parameters
    ----------
    mu : float
        The Gaussian privacy loss: the L2 sensitivity over the standard deviation, finite and at least 0.
    count : int, default=1
        The number of such releases, from 1 to 2**40.

    See Also
    --------
    skdp.privacy.gaussian_delta : The conversion to (epsilon, delta).
    skdp.randomness.rounded_gaussian : The noise.

    Notes
    -----
    **Privacy.** Rounding is post-processing of real noise. The discrete Gaussian is none: it has a rho alone.

    Examples
    --------
    >>> from skdp.privacy import GaussianLoss, PrivacyGuarantee, compose, gaussian_epsilon
    >>> one = PrivacyGuarantee(gaussian_epsilon(0.2, 1e-6), 1e-6, losses=(GaussianLoss(0.2),))
    >>> round(compose([one] * 20, delta=1e-6).epsilon, 2)
    4.31
    """

    kind = "gaussian"

    mu: float

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set("mu", at_least_0)
        if self.mu > 1e100:
            raise ValueError(f"mu must be at most 1e100, got {self.mu}")

    @property
    def _pure(self) -> None:
        return None

    @property
    def _concentrated(self) -> Fraction:
        return Fraction(self.mu) ** 2 / 2

    def _doubled(self) -> Self:
        return replace(self, mu=2 * self.mu)

    def _or(self, other: GaussianLoss) -> Self:
        return replace(self, mu=max(self.mu, other.mu))

    @classmethod
    def _of(cls, record: Fields, count: int) -> Self:
        return cls(record.number("mu", at_least_0), count=count)


def gaussian_loss(mu_squared: Fraction) -> GaussianLoss:
    """Return the loss of Gaussian noise, of the square of mu."""
    if mu_squared == 0:
        return GaussianLoss(0.0)
    # The root of the square of a float is this float, and no further one.
    whole = isqrt((mu_squared.numerator * mu_squared.denominator << 200) - 1) + 1
    root = Fraction(whole, mu_squared.denominator << 100)
    return GaussianLoss(round_up(root))


_RAREST = 2.0**-250
"""The least share whose probabilities are normal floats; less counts as this."""


@lru_cache(maxsize=256)
def pure_mu(epsilon: Fraction, share: float = 1.0) -> Fraction | None:
    """Return the least mu of Gaussian DP that a `PureLoss` implies, rounded up; None if epsilon is large."""
    # With p = e**epsilon / (1 + e**epsilon), the trade-off function of this loss consists of three lines with corners
    # at (share * (1 - p), 1 - share * p) and its mirror image. That of Gaussian noise is convex, so it is below if it
    # goes through these corners. The special functions state an error of some units in the last place.
    if epsilon > 500:
        return None
    number = round_up(epsilon)
    if share == 1:
        mu = (
            2 * sqrt(2) * erfinv(tanh(number / 2))
            if number < 1
            else -2 * ndtri(1 / (1 + exp(number)))
        )
    else:
        share = max(share, _RAREST)
        likely, rare = share / (1 + exp(-number)), share / (1 + exp(number))
        # Of probabilities that are nearly 1, the float of the rest has the digits.
        upper = ndtri(likely) if likely < 0.5 else -ndtri(1 - share + rare)
        mu = upper - ndtri(rare) + 2.0**-43
    return Fraction(float(mu)) * (1 + Fraction(1, 1 << 30))


def pure_epsilon(mu_squared: float) -> float:
    """Return the largest epsilon, but for rounding, of which `pure_mu` is at most a number."""
    mu = min(sqrt(mu_squared), 64.0)  # more than that of 500
    tail = ndtr(-mu / 2)
    epsilon = float(
        2 * atanh(erf(mu / 2 / sqrt(2)))
        if mu < 1
        else min(log((1 - tail) / tail), 500.0)
    )
    while epsilon and Fraction(pure_mu(Fraction(epsilon)) or 0) ** 2 > mu_squared:
        epsilon *= 1 - 2.0**-28
    return epsilon
