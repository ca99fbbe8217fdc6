"""Privacy losses of single mechanisms, and their conversion to rho and mu."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import lru_cache
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import erf, erfinv, ndtr, ndtri

from skdp.exact import exp_bounds, round_up
from skdp.privacy._formats import check_failure, check_fields, check_loss


@dataclass(frozen=True)
class Loss(ABC):
    """The privacy loss of a number of releases with equal mechanisms."""

    # A class stands for pairs of distributions, P and Q. A release has this loss if, for
    # any two neighboring inputs, its hockey-stick divergences in both directions are at
    # most the divergences of P and Q: a dominating pair. Dominating pairs compose, also
    # if the mechanism is chosen by earlier results (Y. Zhu, J. Dong, Y.-X. Wang (2022).
    # Optimal accounting of differential privacy via characteristic function. AISTATS).

    # Name of the class in records.
    kind: ClassVar[str]

    count: int = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        count = self.count
        if isinstance(count, bool) or not isinstance(count, Integral):
            raise TypeError(f"count must be an int, got {type(count).__name__}")
        if not 1 <= count <= 1 << 40:
            raise ValueError(f"count must be from 1 to 2**40, got {count}")
        self._set(count=int(count))

    def _set(self, **numbers: Any) -> None:
        for name, number in numbers.items():
            object.__setattr__(self, name, number)

    @property
    @abstractmethod
    def _epsilon(self) -> Fraction | None:
        """Epsilon of one release, given that it does not fail; None for Gaussian noise."""

    @property
    def _failure(self) -> Fraction:
        """Probability that one release reveals everything."""
        return Fraction(0)

    @property
    def _rho(self) -> Fraction | None:
        """Rho of one release; None if it has none."""
        epsilon = self._epsilon
        # Squares of larger numbers are not finite floats.
        if epsilon is None or epsilon >= 10**150:
            return None
        return epsilon**2 / 2

    @abstractmethod
    def _double(self) -> Self:
        """Return the loss for replacing a record: removing one and adding one."""

    def _to_fields(self) -> dict[str, Any]:
        numbers = {one.name: getattr(self, one.name) for one in fields(self)}
        return {"kind": self.kind} | numbers


@dataclass(frozen=True)
class StatedLoss(Loss):
    """The privacy loss of a release that is known by epsilon, delta and rho only."""

    # The worst (epsilon, delta) release reveals the input with probability delta, and is
    # randomized response with two values otherwise (P. Kairouz, S. Oh, P. Viswanath 2017).

    kind = "stated"

    epsilon: float
    delta: float = 0.0
    rho: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        rho = None if self.rho is None else check_loss(self.rho, "rho")
        delta = check_failure(self.delta)
        self._set(epsilon=check_loss(self.epsilon, "epsilon"), delta=delta, rho=rho)

    @property
    def _epsilon(self) -> Fraction:
        return Fraction(self.epsilon)

    @property
    def _failure(self) -> Fraction:
        return Fraction(self.delta)

    @property
    def _rho(self) -> Fraction | None:
        if self.rho is not None:
            return Fraction(self.rho)
        return None if self.delta else super()._rho

    def _double(self) -> Self:
        # Beyond e**800, the result is at least 1 for every positive float delta.
        power = exp_bounds(min(self.epsilon, 800.0))[1]
        delta = (1 + power) * Fraction(self.delta)
        if delta >= 1:
            raise ValueError(
                "the delta implied for replacing a record is 1 or more, so there is no "
                "guarantee"
            )
        rho = None if self.rho is None else 4 * self.rho
        return replace(self, epsilon=2 * self.epsilon, delta=round_up(delta), rho=rho)


@dataclass(frozen=True)
class PureLoss(Loss):
    """The privacy loss of a channel, by its epsilon and its total variation.

    Parameters
    ----------
    epsilon : float
        Logarithm of the largest ratio of the probabilities of a report under two inputs, finite and at least 0.
    count : int, default=1
        Number of such releases, from 1 to 2**40.
    share : float, default=1.0
        In [0, 1]. The total variation distance of the reports of two inputs is at most ``share * tanh(epsilon / 2)``.

    See Also
    --------
    GaussianLoss : The loss of Gaussian noise.

    Notes
    -----
    **Privacy.** The worst of these channels reveals nothing with probability ``1 - share``, and otherwise is randomized
    response with two values. Reason: the hockey-stick divergence of a channel is a convex function of its order, equal
    to the total variation at 1 and to 0 at ``e**epsilon``, and the divergence of this channel is the straight line
    between these points. Randomized response, unary encoding, subset selection and hashing attain it, because their
    reports have only three ratios of probabilities. For randomized response with k values, share is
    ``(e**epsilon + 1) / (e**epsilon + k - 1)``.

    Examples
    --------
    Reports of randomized response with ten values, epsilon 0.5 each:

    >>> from math import exp
    >>> from skdp.privacy import PrivacyGuarantee, PureLoss, compose
    >>> loss = PureLoss(0.5, share=(exp(0.5) + 1) / (exp(0.5) + 9))
    >>> one, known = PrivacyGuarantee(0.5), PrivacyGuarantee(0.5, losses=(loss,))
    >>> [round(compose([each] * 20, delta=1e-6).epsilon, 2) for each in (one, known)]
    [9.99, 5.66]
    """

    kind = "pure"

    epsilon: float
    share: float = field(default=1.0, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        share = check_loss(self.share, "share")
        if share > 1:
            raise ValueError(f"share must be in [0, 1], got {share}")
        self._set(epsilon=check_loss(self.epsilon, "epsilon"), share=share)

    @property
    def _epsilon(self) -> Fraction:
        return Fraction(self.epsilon if self.share else 0)

    def _double(self) -> Self:
        # Total variations add: share * 2 tanh(e / 2) / tanh(e) = share * (1 + tanh(e /
        # 2)**2).
        share = Fraction(self.share) * (1 + _tanh_of_half(self.epsilon) ** 2)
        return replace(
            self, epsilon=2 * self.epsilon, share=round_up(min(share, Fraction(1)))
        )


@dataclass(frozen=True)
class GaussianLoss(Loss):
    """The privacy loss of Gaussian noise, which may be rounded.

    Parameters
    ----------
    mu : float
        Gaussian privacy loss, the L2 sensitivity over the standard deviation; at least 0 and at most 1e100.
    count : int, default=1
        Number of such releases, from 1 to 2**40.

    See Also
    --------
    skdp.privacy.gaussian_delta : The conversion to (epsilon, delta).
    skdp.randomness.rounded_gaussian : The noise.

    Notes
    -----
    **Privacy.** Rounding is post-processing of real noise. The discrete Gaussian is not, so it has a rho only.

    Examples
    --------
    >>> from skdp.privacy import GaussianLoss, PrivacyGuarantee, compose, gaussian_epsilon
    >>> one = PrivacyGuarantee(gaussian_epsilon(0.2, 1e-6), delta=1e-6, losses=(GaussianLoss(0.2),))
    >>> round(compose([one] * 20, delta=1e-6).epsilon, 2)
    4.31
    """

    kind = "gaussian"

    mu: float

    def __post_init__(self) -> None:
        super().__post_init__()
        mu = check_loss(self.mu, "mu")
        if mu > 1e100:
            raise ValueError(f"mu must be at most 1e100, got {mu}")
        self._set(mu=mu)

    @property
    def _epsilon(self) -> None:
        return None

    @property
    def _rho(self) -> Fraction:
        return Fraction(self.mu) ** 2 / 2

    def _double(self) -> Self:
        return replace(self, mu=2 * self.mu)


_LOSSES: dict[str, type[Loss]] = {
    loss.kind: loss for loss in (StatedLoss, PureLoss, GaussianLoss)
}


def parse_loss(content: Any) -> Loss:
    """Read a loss of a JSON record."""
    kind = content.get("kind") if isinstance(content, dict) else None
    loss_class = _LOSSES.get(kind) if isinstance(kind, str) else None
    if loss_class is None:
        raise ValueError(f"losses must have a kind of {list(_LOSSES)}")
    names = ["kind", *(one.name for one in fields(loss_class))]
    check_fields(content, names, "a loss")
    return loss_class(**{name: content[name] for name in names[1:]})


def check_losses(losses: Any) -> tuple[Loss, ...]:
    """Check that losses have the classes of this module."""
    checked = tuple(losses)
    for loss in checked:
        if type(loss) not in _LOSSES.values():
            raise TypeError(
                f"losses must be losses of skdp.privacy, got {type(loss).__name__}"
            )
    return checked


def merge_losses(losses: Iterable[Loss]) -> tuple[Loss, ...]:
    """Add the counts of equal losses."""
    counts: Counter[Loss] = Counter()
    for loss in losses:
        counts[replace(loss, count=1)] += loss.count
    return tuple(replace(loss, count=count) for loss, count in counts.items())


def exponential_loss(epsilon: Fraction) -> PureLoss:
    """Return an upper bound of the loss of an exponential mechanism.

    Epsilon is the rate times the range of the changes of scores.
    """
    # The odds of any set of candidates change by a factor of at most e**epsilon
    # ([1]_). So the total variation is at most the largest difference of two
    # probabilities with such odds, tanh(epsilon / 4). Divided by the total variation of
    # randomized response, this is ``tanh(epsilon / 4) / tanh(epsilon / 2) = (1 +
    # tanh(epsilon / 4)**2) / 2``.
    # .. [1] J. Dong, D. Durfee, R. Rogers (2020). Optimal differential privacy
    #    composition for exponential mechanisms. ICML.
    share = (1 + _tanh_of_half(epsilon / 2) ** 2) / 2
    return PureLoss(round_up(epsilon), share=round_up(share))


def _tanh_of_half(exponent: Fraction | float) -> Fraction:
    """Return ``tanh(exponent / 2)``, rounded up."""
    return 1 - 2 / (exp_bounds(min(exponent, 700.0))[1] + 1)


def laplace_loss(epsilon: Fraction, sensitivity: int = 1 << 40) -> PureLoss:
    """Return an upper bound of the loss of discrete Laplace noise.

    Epsilon is the L1 sensitivity over the scale of the noise. The bound holds for every
    release with a chain of at most s = `sensitivity` inputs from each input to its
    neighbors in which each link is epsilon / s-differentially private: integers that
    change by s in L1 norm, and noise in which a change by 1 in another norm is a link,
    such as `skdp.randomness.cube_noise`. It holds for all s at once if inputs can be
    divided without end, such as scores.
    """
    # For one link, the power of a test with level a is at most f(a) = min(e**d a, 1 -
    # e**-d (1 - a)) with d = epsilon / s; for two links, it is at most f(f(a)); and so
    # on (J. Dong, A. Roth, W. J. Su 2022, theorem 2.14). The largest difference,
    # the total variation, is 1 - e**(-epsilon / 2) if s is even, and
    # 1 - e**(-epsilon / 2) / cosh(d / 2) if it is odd, as with discrete Laplace noise.
    low, high = exp_bounds(min(epsilon, Fraction(1400)) / 2)
    numerator = (1 - 1 / high) * (1 + 1 / low**2)
    if sensitivity % 2:
        root = exp_bounds(min(epsilon, Fraction(1400)) / (2 * sensitivity))[1]
        numerator = (1 - 2 / (root + 1 / root) / high) * (1 + 1 / low**2)
    variation = numerator / (1 - 1 / low**2) if low > 1 else Fraction(1)
    return PureLoss(round_up(epsilon), share=round_up(min(variation, Fraction(1))))


def gaussian_loss(mu_squared: Fraction) -> GaussianLoss:
    """Return the loss of Gaussian noise with the square of a mu."""
    if mu_squared == 0:
        return GaussianLoss(0.0)
    # The root of the square of a float is rounded to this float.
    scaled = math.isqrt((mu_squared.numerator * mu_squared.denominator << 200) - 1) + 1
    root = Fraction(scaled, mu_squared.denominator << 100)
    return GaussianLoss(round_up(root))


# Bound of the relative error of a few floating-point operations with positive numbers.
_MARGIN = 1 + 2.0**-40

# Smaller fractions are treated as this one, so that probabilities are normal floats.
_MIN_SHARE = 2.0**-250


@lru_cache(maxsize=256)
def pure_rho(epsilon: float, share: float = 1.0) -> float:
    """Return the smallest rho of a `PureLoss`, rounded up: the largest ratio of a Rényi divergence to its order."""
    # Between these epsilons, the floats below neither underflow nor overflow.
    if not 2.0**-30 < epsilon < 2.0**9:
        # Each of the three operations loses at most half of the smallest float.
        underflow = 2 * math.ulp(0.0) if epsilon else 0.0
        return epsilon * epsilon / 2 * _MARGIN + underflow
    share = max(share, _MIN_SHARE)
    # The limit at order 1, which is the largest ratio if share is 1 (M. Kearns, L. Saul
    # 1998, see `Rho`).
    limit = share * epsilon * math.tanh(epsilon / 2)
    if share == 1:
        return limit * _MARGIN
    # A divergence increases with its order. So between two orders of a grid, its ratio
    # to the order is at most the divergence of the larger order over the smaller order;
    # and beyond epsilon / limit, it is at most the limit. The factor between the orders
    # bounds the relative excess of the result.
    factor = 1.005
    n_orders = 2 + math.ceil(math.log(epsilon / limit) / math.log(factor))
    orders = np.geomspace(1, epsilon / limit, n_orders)
    above = orders[1:]
    # With probability `share`, the loss is the loss of randomized response, whose
    # divergence D of order a is ``e**((a - 1) D) = cosh((a - 1/2) epsilon) /
    # cosh(epsilon / 2)``. The following expression is the right side minus 1.
    with np.errstate(over="ignore"):
        sines = np.sinh(above * epsilon / 2) * np.sinh((above - 1) * epsilon / 2)
        divergences = np.log1p(share * 2 / math.cosh(epsilon / 2) * sines) / (above - 1)
    # A divergence is at most epsilon, also if the floats overflow.
    ratios = np.fmin(divergences, epsilon) / orders[:-1]
    return max(limit, float(ratios.max())) * _MARGIN


@lru_cache(maxsize=256)
def pure_mu(epsilon: Fraction, share: float = 1.0) -> Fraction | None:
    """Return the smallest mu of Gaussian DP that a `PureLoss` implies, rounded up; None if epsilon is large."""
    # With p = e**epsilon / (1 + e**epsilon), the trade-off function of this loss
    # consists of three lines with corners at (share * (1 - p), 1 - share * p) and its
    # mirror image. The trade-off function of Gaussian noise is convex, so it is below
    # if it goes through these corners. The special functions have errors of a few units
    # in the last place.
    if epsilon > 500:
        return None
    number = round_up(epsilon)
    if share < 1:
        share = max(share, _MIN_SHARE)
        likely = share / (1 + math.exp(-number))
        rare = share / (1 + math.exp(number))
        # 1 - likely would lose digits if likely is nearly 1.
        upper = ndtri(likely) if likely < 0.5 else -ndtri(1 - share + rare)
        mu = upper - ndtri(rare) + 2.0**-43
    elif number < 1:
        mu = 2 * math.sqrt(2) * erfinv(math.tanh(number / 2))
        # Four operations lose at most half of the smallest float each, and the last one
        # multiplies the earlier errors by less than 3.
        mu += 8 * math.ulp(0.0)
    else:
        mu = -2 * ndtri(1 / (1 + math.exp(number)))
    return Fraction(float(mu)) * (1 + Fraction(1, 1 << 30))


def pure_epsilon(mu_squared: float) -> float:
    """Return the largest epsilon, except for rounding, with a `pure_mu` of at most a number."""
    mu = min(math.sqrt(mu_squared), 64.0)  # more than the mu of epsilon 500
    if mu < 1:
        epsilon = float(2 * math.atanh(erf(mu / 2 / math.sqrt(2))))
    else:
        tail = ndtr(-mu / 2)
        epsilon = min(math.log((1 - tail) / tail), 500.0)
    while epsilon and (pure_mu(Fraction(epsilon)) or 0) ** 2 > mu_squared:
        epsilon *= 1 - 2.0**-28
    return epsilon
