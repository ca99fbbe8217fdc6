"""Privacy losses of single mechanisms, and their conversions to rho and mu."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import erfinv, ndtri

from skdp.exact import exp_bounds, round_up
from skdp.privacy._formats import check_failure, check_fields, check_loss
from skdp.privacy.guarantees._conversions import find_largest_safe
from skdp.randomness import check_size


@dataclass(frozen=True)
class Loss(ABC):
    """The privacy loss of a number of releases with equal mechanisms."""

    # A subclass stands for a dominating pair of distributions P and Q: for any two
    # neighboring inputs, the hockey-stick divergences of the outputs in both directions are
    # at most the divergences of P and Q. Dominating pairs compose, even if the mechanism is
    # chosen by earlier results (Y. Zhu, J. Dong, Y.-X. Wang (2022). Optimal accounting of
    # differential privacy via characteristic function. AISTATS).

    # Name of the subclass in JSON records.
    kind: ClassVar[str]

    # Number of releases.
    count: int = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        count = check_size(self.count, min_val=1, max_val=1 << 40, name="count")
        self._set(count=count)

    def _set(self, **numbers: object) -> None:
        """Set attributes of the frozen dataclass in `__post_init__`."""
        for name, number in numbers.items():
            object.__setattr__(self, name, number)

    @property
    @abstractmethod
    def _epsilon(self) -> Fraction | None:
        """Epsilon of one release, except for failures; None for Gaussian noise, which has no finite epsilon."""

    @property
    def _failure(self) -> Fraction:
        """Probability of a failure of one release, which may reveal the input."""
        return Fraction(0)

    @property
    def _rho(self) -> Fraction | None:
        """Rho of one release in zero-concentrated privacy; None if it has no finite rho."""
        if self._epsilon is None or self._failure:
            return None
        return Fraction(pure_rho(float(self._epsilon), self._share))

    @property
    def _share(self) -> float:
        """Total variation as a fraction of the largest one for this epsilon; see `PureLoss`."""
        return 1.0

    @abstractmethod
    def _to_replacement(self) -> Self:
        """Return the loss for replacing a record, from the loss for adding or removing a record."""

    def _to_fields(self) -> dict[str, Any]:
        """Return the fields of a JSON record."""
        return {"kind": self.kind} | vars(self)


@dataclass(frozen=True)
class StatedLoss(Loss):
    """The privacy loss of a release that is known by epsilon, delta and rho only."""

    # The worst (epsilon, delta)-private release reveals the input with probability delta,
    # and otherwise is randomized response with two values (P. Kairouz, S. Oh,
    # P. Viswanath 2017).

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
        return super()._rho if self.rho is None else Fraction(self.rho)

    def _to_replacement(self) -> Self:
        """Return the loss for replacing a record, from the loss for adding or removing a record.

        Replacing a record is a removal and an addition.
        """
        # Group privacy for two records: (2 epsilon, (1 + e**epsilon) delta). With e**800,
        # the delta is at least 1 for every positive float delta.
        power = exp_bounds(min(self.epsilon, 800.0))[1]
        delta = (1 + power) * Fraction(self.delta)
        if delta >= 1:
            raise ValueError(
                "The delta implied for replacing a record is 1 or more, so there is no "
                "guarantee."
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
            raise ValueError(f"`share` must be in [0, 1], got {share}.")
        self._set(epsilon=check_loss(self.epsilon, "epsilon"), share=share)

    @property
    def _epsilon(self) -> Fraction:
        return Fraction(self.epsilon if self.share else 0)

    @property
    def _share(self) -> float:
        # The epsilon of a share of 0 is 0.
        return self.share or 1.0

    def _to_replacement(self) -> Self:
        """Return the loss for replacing a record, from the loss for adding or removing a record."""
        # The total variations of two steps add up to 2 share tanh(epsilon / 2). Divided by
        # tanh(epsilon) of epsilon' = 2 epsilon, this is share (1 + tanh(epsilon / 2)**2).
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
    **Privacy.** Rounding is post-processing of continuous noise. The discrete Gaussian is not, so it has a rho only.

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
            raise ValueError(f"`mu` must be at most 1e100, got {mu}.")
        self._set(mu=mu)

    @property
    def _epsilon(self) -> None:
        return None

    @property
    def _rho(self) -> Fraction:
        return Fraction(self.mu) ** 2 / 2

    def _to_replacement(self) -> Self:
        """Return the loss for replacing a record: twice the sensitivity."""
        return replace(self, mu=2 * self.mu)


_LOSSES: dict[str, type[Loss]] = {
    loss.kind: loss for loss in (StatedLoss, PureLoss, GaussianLoss)
}


def parse_loss(content: Any) -> Loss:
    """Return the loss of the fields in a JSON record; `kind` names its class."""
    kind = content.get("kind") if isinstance(content, dict) else None
    loss_class = _LOSSES.get(kind) if isinstance(kind, str) else None
    if loss_class is None:
        raise ValueError(
            f"`losses` must have a kind of {list(_LOSSES)}, got {kind!r:.40}."
        )
    names = ["kind", *(number.name for number in fields(loss_class))]
    check_fields(content, names, "A loss")
    return loss_class(**{name: content[name] for name in names[1:]})


def check_losses(losses: Iterable[Loss]) -> tuple[Loss, ...]:
    """Check that losses are instances of the classes of this module, and return them as a tuple."""
    checked = tuple(losses)
    for loss in checked:
        if type(loss) not in _LOSSES.values():
            raise TypeError(
                f"`losses` must be losses of skdp.privacy, got {type(loss).__name__}."
            )
    return checked


def merge_losses(losses: Iterable[Loss]) -> tuple[Loss, ...]:
    """Return distinct losses, with the sums of the counts of equal losses."""
    counts: Counter[Loss] = Counter()
    for loss in losses:
        counts[_with_count(loss, 1)] += loss.count
    return tuple(map(_with_count, counts.keys(), counts.values()))


def _with_count(loss: Loss, count: int) -> Loss:
    """Return the loss of another number of releases; a copy is checked again."""
    return loss if loss.count == count else replace(loss, count=count)


def exponential_loss(epsilon: Fraction) -> PureLoss:
    """Return an upper bound of the loss of an exponential mechanism.

    Epsilon is the rate of the mechanism times the largest difference between the changes
    of two scores, when one record changes.
    """
    # The odds of any set of candidates change by a factor of at most e**epsilon ([1]_).
    # Probabilities p and q whose odds differ by this factor differ by at most
    # tanh(epsilon / 4), the total variation. Divided by the total variation
    # tanh(epsilon / 2) of randomized response, this is (1 + tanh(epsilon / 4)**2) / 2.
    # .. [1] J. Dong, D. Durfee, R. Rogers (2020). Optimal differential privacy
    #    composition for exponential mechanisms. ICML.
    share = (1 + _tanh_of_half(epsilon / 2) ** 2) / 2
    return PureLoss(round_up(epsilon), share=round_up(share))


def _tanh_of_half(exponent: Fraction | float) -> Fraction:
    """Return ``tanh(exponent / 2)``, rounded up."""
    return 1 - 2 / (exp_bounds(min(exponent, 700.0))[1] + 1)


def laplace_loss(epsilon: Fraction, sensitivity: int = 1 << 40) -> PureLoss:
    """Return an upper bound of the loss of discrete Laplace noise.

    Parameters
    ----------
    epsilon : Fraction
        Ratio of the sensitivity to the scale of the noise.
    sensitivity : int, default=2**40
        Sensitivity s of the integers in the norm of the noise: the L1 norm, or the
        maximum norm for `skdp.randomness.cube_noise`. The default is for real numbers,
        such as scores, which may change by any small amount.

    Returns
    -------
    PureLoss
        Upper bound of the loss, whose total variation is rounded up.
    """
    # Neighbors are connected by s steps of size 1, and each step is d-private with
    # d = epsilon / s. So the power of a test of level a is at most f(f(...f(a))), s times,
    # where f(a) = min(e**d a, 1 - e**-d (1 - a)) (J. Dong, A. Roth, W. J. Su 2022, theorem
    # 2.14). Its largest difference from a is the total variation: 1 - e**(-epsilon / 2)
    # if s is even, and 1 - e**(-epsilon / 2) / cosh(d / 2) if s is odd. It is divided by
    # tanh(epsilon / 2), the total variation of randomized response.
    low, high = exp_bounds(min(epsilon, Fraction(1400)) / 2)
    numerator = (1 - 1 / high) * (1 + 1 / low**2)
    if sensitivity % 2:
        root = exp_bounds(min(epsilon, Fraction(1400)) / (2 * sensitivity))[1]
        numerator = (1 - 2 / (root + 1 / root) / high) * (1 + 1 / low**2)
    variation = numerator / (1 - 1 / low**2) if low > 1 else Fraction(1)
    return PureLoss(round_up(epsilon), share=round_up(min(variation, Fraction(1))))


def gaussian_loss(mu_squared: Fraction) -> GaussianLoss:
    """Return the loss of Gaussian noise for mu**2, rounded up."""
    if mu_squared == 0:
        return GaussianLoss(0.0)
    # sqrt(n / d) = sqrt(n d) / d, with 100 more bits, so that squares of floats have
    # exact roots.
    scaled = math.isqrt((mu_squared.numerator * mu_squared.denominator << 200) - 1) + 1
    return GaussianLoss(round_up(Fraction(scaled, mu_squared.denominator << 100)))


# Bound of the relative error of a few floating-point operations with positive numbers.
_MARGIN = 1 + 2.0**-40

# Smaller values of `share` are rounded up to this, so that probabilities are normal floats.
_MIN_FRACTION = 2.0**-250


@lru_cache(maxsize=256)
def pure_rho(epsilon: float, share: float = 1.0) -> float:
    """Return the smallest rho (zCDP) of a `PureLoss`, rounded up.

    It is the largest ratio of a Rényi divergence to its order. The worst case is
    randomized response with two values that is used with probability `share`, and otherwise reveals nothing.
    """
    # Otherwise floats may underflow or overflow. A divergence is at most epsilon.
    if not 2.0**-30 < epsilon < 2.0**9:
        # Each of three operations loses at most half of the smallest float by underflow.
        underflow = 2 * math.ulp(0.0) if epsilon else 0.0
        return min(epsilon * epsilon / 2, epsilon) * _MARGIN + underflow
    share = max(share, _MIN_FRACTION)
    # The ratio at order 1, the Kullback-Leibler divergence. If share is 1, it is the
    # largest ratio (M. Kearns, L. Saul 1998, see `Rho`).
    limit = share * epsilon * math.tanh(epsilon / 2)
    if share == 1:
        return limit * _MARGIN
    # A divergence increases with its order. So between two orders a < b of a grid, its
    # ratio to the order is at most the divergence of b over a. A divergence is at most
    # epsilon, so for orders above epsilon / limit the ratio is at most the limit. The
    # factor between successive orders bounds the relative error of the result.
    factor = 1.005
    n_orders = 2 + math.ceil(math.log(epsilon / limit) / math.log(factor))
    orders = np.geomspace(1, epsilon / limit, n_orders)
    above = orders[1:]
    # The divergence D of order a of randomized response has e**((a - 1) D) =
    # cosh((a - 1/2) epsilon) / cosh(epsilon / 2) = 1 + 2 sinh(a epsilon / 2)
    # sinh((a - 1) epsilon / 2) / cosh(epsilon / 2). With probability 1 - share, the ratio
    # of probabilities is 1, so the term after 1 is multiplied by share.
    with np.errstate(over="ignore"):
        sines = np.sinh(above * epsilon / 2) * np.sinh((above - 1) * epsilon / 2)
        divergences = np.log1p(share * 2 / math.cosh(epsilon / 2) * sines) / (above - 1)
    # A divergence is at most epsilon, even if the floats overflow.
    ratios = np.fmin(divergences, epsilon) / orders[:-1]
    largest = min(float(ratios.max()), epsilon * math.tanh(epsilon / 2))
    return max(limit, largest) * _MARGIN


@lru_cache(maxsize=256)
def pure_mu(epsilon: Fraction, share: float = 1.0) -> Fraction | None:
    """Return the smallest mu of Gaussian privacy that a `PureLoss` implies, rounded up; None if epsilon > 500.

    The worst case is randomized response with two values that is used with
    probability `share`, and otherwise reveals nothing.
    """
    # The trade-off function maps the false positive rate of a test to its smallest false
    # negative rate. For this loss, with p = e**epsilon / (1 + e**epsilon), it consists of
    # three lines, with corners at (share (1 - p), 1 - share p) and its mirror image. The
    # trade-off function of Gaussian noise is convex, so it is below these lines if it goes
    # through the corners: mu = Phi^-1(share p) - Phi^-1(share (1 - p)). The special
    # functions have errors of a few units in the last place.
    if epsilon > 500:
        return None
    number = round_up(epsilon)
    if share < 1:
        share = max(share, _MIN_FRACTION)
        likely = share / (1 + math.exp(-number))
        rare = share / (1 + math.exp(number))
        # If `likely` is nearly 1, the complement 1 - share + rare has more digits.
        upper = ndtri(likely) if likely < 0.5 else -ndtri(1 - share + rare)
        mu = upper - ndtri(rare) + 2.0**-43
    elif number < 1:
        # 2 Phi^-1(p), where 2 p - 1 = tanh(epsilon / 2).
        mu = 2 * math.sqrt(2) * erfinv(math.tanh(number / 2))
        # Four operations lose at most half of the smallest float each, and the last one
        # multiplies the earlier errors by less than 3.
        mu += 8 * math.ulp(0.0)
    else:
        mu = -2 * ndtri(1 / (1 + math.exp(number)))
    return Fraction(float(mu)) * (1 + Fraction(1, 1 << 30))


@lru_cache(maxsize=256)
def pure_epsilon(mu_squared: float) -> float:
    """Return the largest epsilon, except for rounding, whose `pure_mu` squared is at most `mu_squared`."""

    def excess(epsilon: float) -> float:
        mu = pure_mu(Fraction(epsilon))
        return 1e300 if mu is None else float(mu**2 - Fraction(mu_squared))

    # The normal density is at most 0.4, so mu is at most 1.2534 epsilon.
    return find_largest_safe(excess, min(math.sqrt(mu_squared) / 1.2534, 499.0))
