"""Elementary privacy losses of mechanisms, and conversions to rho and mu."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache, partial
from math import inf, isqrt
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import erf, erfinv, ndtr, ndtri

from skdp.exact import exp_bounds, round_up
from skdp.privacy._conversions import at_least_0, check_delta, float_above
from skdp.privacy._json import Fields

MAX_COUNT = 1 << 40

# The largest number of different losses of a guarantee, for the time of a composition
# and the size of a record.
MAX_DIFFERENT = 1 << 9


def _check_count(value: Any, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be a whole number, got {type(value).__name__}")
    number = int(value)
    if not 1 <= number <= MAX_COUNT:
        raise ValueError(f"{name} must be a whole number from 1 to 2**40, got {number}")
    return number


def _check_number(value: Any, name: str, *, maximum: float = inf) -> float:
    number = float_above(at_least_0, value, name)
    if number > maximum:
        raise ValueError(f"{name} must be a number in [0, {maximum:g}], got {number}")
    return number


def _check_number_or_none(value: Any, name: str) -> float | None:
    return None if value is None else _check_number(value, name)


@dataclass(frozen=True)
class Loss(ABC):
    """The privacy loss of a number of releases with equal mechanisms."""

    # A class stands for pairs of distributions, P and Q. A release has this loss if, for
    # any two neighbouring inputs, its hockey-stick divergences in both directions are at
    # most the divergences of P and Q: a dominating pair. Dominating pairs compose, also
    # if the mechanism is chosen by earlier results (Y. Zhu, J. Dong, Y.-X. Wang (2022).
    # Optimal accounting of differential privacy via characteristic function. AISTATS).

    # The name in records.
    kind: ClassVar[str]
    # A check of each number, which returns it as a float, rounded up.
    _checks: ClassVar[dict[str, Callable[..., Any]]]

    count: int = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        for name, check in ({"count": _check_count} | self._checks).items():
            object.__setattr__(self, name, check(getattr(self, name), name=name))

    @property
    def _numbers(self) -> dict[str, Any]:
        """The numbers of one release."""
        return {name: getattr(self, name) for name in self._checks}

    @property
    @abstractmethod
    def _pure(self) -> Fraction | None:
        """The epsilon of one release unless it fails; None for Gaussian noise."""

    @property
    def _failure(self) -> Fraction:
        """The probability that one release reveals everything."""
        return Fraction(0)

    @property
    def _concentrated(self) -> Fraction | None:
        """The rho of one release, None if it has none."""
        pure = self._pure
        return None if pure is None or pure >= 10**150 else pure**2 / 2

    @abstractmethod
    def _doubled(self) -> Self:
        """Return the loss for replacing a record: removing one and adding one."""

    def _content(self) -> dict[str, Any]:
        return {"kind": self.kind, "count": self.count} | self._numbers


@dataclass(frozen=True)
class StatedLoss(Loss):
    """The privacy loss of a release that is known by epsilon, delta and rho only."""

    # The worst of all (epsilon, delta) releases reveals the input with probability
    # delta, and is randomised response of two values otherwise (Kairouz, Oh and
    # Viswanath 2017).

    kind = "stated"
    _checks: ClassVar = {
        "epsilon": _check_number,
        "delta": partial(float_above, check_delta),
        "rho": _check_number_or_none,
    }

    epsilon: float
    delta: float = 0.0
    rho: float | None = None

    @property
    def _pure(self) -> Fraction:
        return Fraction(self.epsilon)

    @property
    def _failure(self) -> Fraction:
        return Fraction(self.delta)

    @property
    def _concentrated(self) -> Fraction | None:
        if self.rho is not None:
            return Fraction(self.rho)
        return None if self.delta else super()._concentrated

    def _doubled(self) -> Self:
        # Beyond e^800, the result is at least 1 for every float delta.
        power = exp_bounds(min(self.epsilon, 800.0))[1]
        delta = (1 + power) * Fraction(self.delta)
        if delta >= 1:
            raise ValueError(
                "the implied delta for replacing a record is 1 or more: nothing is "
                "promised"
            )
        rho = None if self.rho is None else 4 * self.rho
        return replace(self, epsilon=2 * self.epsilon, delta=round_up(delta), rho=rho)


@dataclass(frozen=True)
class PureLoss(Loss):
    """The privacy loss of a channel, by its epsilon and its total variation.

    Parameters
    ----------
    epsilon : float
        The logarithm of the largest ratio of the probabilities of a report under two inputs, finite and at least 0.
    count : int, default=1
        The number of such releases, from 1 to 2**40.
    share : float, default=1.0
        In [0, 1]: the largest total variation distance of the reports of two inputs is at most
        ``share * tanh(epsilon / 2)``.

    See Also
    --------
    GaussianLoss : The loss of Gaussian noise.

    Notes
    -----
    **Privacy.** The worst of these channels shows with probability ``1 - share`` nothing, and otherwise randomised
    response of two values: the divergence of order ``e**a`` of a channel is a convex function of ``e**a``, equal to the
    total variation at 1 and 0 at ``e**epsilon``, and that of this one is the straight line between these points. It is
    attained by randomised response, unary encoding, subset selection and hashing, of which a report has one of three
    ratios under two inputs. For randomised response of k values, share is ``(e**epsilon + 1) / (e**epsilon + k - 1)``.

    Examples
    --------
    Reports of randomised response of ten values, epsilon 0.5 each:

    >>> from math import exp
    >>> from skdp.privacy import PrivacyGuarantee, PureLoss, compose
    >>> loss = PureLoss(0.5, share=(exp(0.5) + 1) / (exp(0.5) + 9))
    >>> one, known = PrivacyGuarantee(0.5), PrivacyGuarantee(0.5, losses=(loss,))
    >>> [round(compose([each] * 20, delta=1e-6).epsilon, 2) for each in (one, known)]
    [9.99, 5.66]
    """

    kind = "pure"
    _checks: ClassVar = {
        "epsilon": _check_number,
        "share": partial(_check_number, maximum=1),
    }

    epsilon: float
    share: float = field(default=1.0, kw_only=True)

    @property
    def _pure(self) -> Fraction:
        return Fraction(self.epsilon if self.share else 0)

    def _doubled(self) -> Self:
        # Total variations add: share * 2 tanh(e / 2) / tanh(e) = share * (1 + tanh(e /
        # 2)**2).
        share = Fraction(self.share) * (1 + _tanh_of_half(self.epsilon) ** 2)
        return replace(
            self, epsilon=2 * self.epsilon, share=round_up(min(share, Fraction(1)))
        )


def exponential_loss(epsilon: Fraction) -> PureLoss:
    """Return an upper bound of the loss of an exponential mechanism.

    Epsilon is the rate times the range of the changes of scores.
    """
    # The odds of any set of candidates change by a factor of at most e**epsilon
    # ([1]_). So the total variation is at most the largest difference of two
    # probabilities with such odds, which is tanh(epsilon / 4), and its share of that of
    # randomised response is ``tanh(epsilon / 4) / tanh(epsilon / 2) = (1 + tanh(epsilon
    # / 4)**2) / 2``.
    # .. [1] J. Dong, D. Durfee, R. Rogers (2020). Optimal differential privacy
    #    composition for exponential mechanisms. ICML.
    share = (1 + _tanh_of_half(epsilon / 2) ** 2) / 2
    return PureLoss(round_up(epsilon), share=round_up(share))


def _tanh_of_half(exponent: Fraction | float) -> Fraction:
    """Return ``tanh(exponent / 2)``, rounded up."""
    return 1 - 2 / (exp_bounds(min(exponent, 700.0))[1] + 1)


def laplace_loss(epsilon: Fraction, sensitivity: int = 1 << 40) -> PureLoss:
    """Return an upper bound of the loss of discrete Laplace noise, or of another chain.

    Epsilon is the L1 sensitivity over the scale of the noise. The bound holds for every
    release for which a chain of at most s = `sensitivity` inputs leads from each input
    to its neighbours, where each link is epsilon / s-differentially private: integers
    that change by s in L1 norm; other noise in which a link is a change by 1 in the norm
    that is protected, such as `skdp.randomness.cube_noise`; and for all s at once where
    inputs can be divided as finely as one likes, such as scores.
    """
    # Of one link, the power of a test of level a is at most f(a) = min(e**d a, 1 - e**-d
    # (1 - a)) with d = epsilon / s, and at most f(f(a)) of two links, and so on (J. Dong,
    # A. Roth, W. J. Su 2022, theorem 2.14). The largest difference of power and level,
    # the total variation, is 1 - e**(-epsilon / 2) if s is even, and
    # 1 - e**(-epsilon / 2) / cosh(d / 2) if it is odd, as with discrete Laplace noise.
    low, high = exp_bounds(min(epsilon, Fraction(1400)) / 2)
    numerator = (1 - 1 / high) * (1 + 1 / low**2)
    if sensitivity % 2:
        root = exp_bounds(min(epsilon, Fraction(1400)) / (2 * sensitivity))[1]
        numerator = (1 - 2 / (root + 1 / root) / high) * (1 + 1 / low**2)
    variation = numerator / (1 - 1 / low**2) if low > 1 else Fraction(1)
    return PureLoss(round_up(epsilon), share=round_up(min(variation, Fraction(1))))


@dataclass(frozen=True)
class GaussianLoss(Loss):
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
    >>> one = PrivacyGuarantee(gaussian_epsilon(0.2, 1e-6), delta=1e-6, losses=(GaussianLoss(0.2),))
    >>> round(compose([one] * 20, delta=1e-6).epsilon, 2)
    4.31
    """

    kind = "gaussian"
    _checks: ClassVar = {"mu": partial(_check_number, maximum=1e100)}

    mu: float

    @property
    def _pure(self) -> None:
        return None

    @property
    def _concentrated(self) -> Fraction:
        return Fraction(self.mu) ** 2 / 2

    def _doubled(self) -> Self:
        return replace(self, mu=2 * self.mu)


def gaussian_loss(mu_squared: Fraction) -> GaussianLoss:
    """Return the loss of Gaussian noise, of the square of mu."""
    if mu_squared == 0:
        return GaussianLoss(0.0)
    # The root of the square of a float is this float, and no further one.
    scaled = isqrt((mu_squared.numerator * mu_squared.denominator << 200) - 1) + 1
    root = Fraction(scaled, mu_squared.denominator << 100)
    return GaussianLoss(round_up(root))


_KINDS: dict[str, type[Loss]] = {
    loss.kind: loss for loss in (StatedLoss, PureLoss, GaussianLoss)
}


def read_loss(record: Fields) -> Loss:
    """Read a loss of a record."""
    kind = _KINDS[record.one_of("kind", tuple(_KINDS))]
    checks = {"count": _check_count} | kind._checks
    return kind(**{name: record.checked(name, checks[name]) for name in checks})


def check_losses(losses: Iterable[Loss]) -> tuple[Loss, ...]:
    """Check that losses are of the kinds that records have."""
    if not isinstance(losses, Iterable):
        raise TypeError(
            "losses must be a tuple of losses of skdp.privacy, got "
            f"{type(losses).__name__}"
        )
    checked = tuple(losses)
    for loss in checked:
        if type(loss) not in _KINDS.values():
            raise TypeError(
                f"losses must be losses of skdp.privacy, got {type(loss).__name__}"
            )
    return checked


def merged(losses: Iterable[Loss]) -> tuple[Loss, ...]:
    """Add up the counts of equal losses, and round up similar ones if they are many."""
    counts: Counter[Loss] = Counter()
    for loss in losses:
        counts[replace(loss, count=1)] += loss.count
    different = [replace(single, count=count) for single, count in counts.items()]
    if len(different) <= MAX_DIFFERENT:
        return tuple(different)
    alike: dict[Any, list[Loss]] = {}
    for loss in different:
        absent = tuple(number is None for number in loss._numbers.values())
        alike.setdefault((loss.kind, absent), []).append(loss)
    size = -(-len(different) // (MAX_DIFFERENT - len(alike)))
    rounded: list[Loss] = []
    for group in alike.values():
        # Neighbours are similar in the first number, epsilon or mu.
        group.sort(key=lambda loss: [x or 0.0 for x in loss._numbers.values()])
        starts = range(0, len(group), size)
        rounded += [_round_up_together(group[start : start + size]) for start in starts]
    return tuple(rounded)


def _round_up_together(losses: Sequence[Loss]) -> Loss:
    """Return a loss that, with all their counts, is at least several of one class."""
    largest = {"count": sum(loss.count for loss in losses)}
    for name, number in losses[0]._numbers.items():
        if number is not None:
            largest[name] = max(getattr(loss, name) for loss in losses)
    return replace(losses[0], **largest)


def total_epsilon(losses: Iterable[Loss]) -> Fraction | None:
    """Return the sum of the epsilons of losses, None if one has none."""
    total = Fraction(0)
    for loss in losses:
        if isinstance(loss, GaussianLoss):
            return None
        total += loss.count * Fraction(loss._numbers["epsilon"])
    return total


def doubled(losses: Iterable[Loss]) -> tuple[Loss, ...]:
    """Return the losses for replacing a record, of those for adding or removing one."""
    return tuple(loss._doubled() for loss in losses)


# Some floating point operations with positive numbers.
_MARGIN = 1 + 2.0**-40

# Far above the floats that underflow.
_NORMAL = 2.0**-1000

# Between them, no number of `pure_rho` underflows, nor does cosh overflow.
_ORDINARY = 2.0**-30, 2.0**9


@lru_cache(maxsize=256)
def pure_rho(epsilon: float, share: float = 1.0) -> float:
    """Return the least rho of a `PureLoss`, rounded up: the largest D / a of Rényi's divergences D of orders a > 1."""
    if not _ORDINARY[0] < epsilon < _ORDINARY[1]:
        # Where floats underflow, each of the three operations is off by at most half of
        # the smallest one.
        underflow = 2 * math.ulp(0.0) if epsilon else 0.0
        return epsilon * epsilon / 2 * _MARGIN + underflow
    # The limit at order 1. If the share is 1, it is the largest (M. Kearns, L. Saul
    # 1998: see `Rho`).
    limit = share * epsilon * math.tanh(epsilon / 2)
    if share == 1 or limit < _NORMAL:
        return epsilon * math.tanh(epsilon / 2) * _MARGIN
    # Of neighbouring orders: the bound is above the truth by at most this factor.
    ratio = 1.005
    # D increases with a. So between two orders, D / a is at most D of the larger one
    # over the smaller one; and beyond epsilon / limit, at most the limit.
    n_orders = 2 + math.ceil(math.log(epsilon / limit) / math.log(ratio))
    orders = np.geomspace(1, epsilon / limit, n_orders)
    above = orders[1:]
    # With probability `share`, the loss is that of randomised response, of which ``e**((a
    # - 1) D) = cosh((a - 1/2) epsilon) / cosh(epsilon / 2)``; this is it minus 1.
    with np.errstate(over="ignore"):
        sines = np.sinh(above * epsilon / 2) * np.sinh((above - 1) * epsilon / 2)
        divergences = np.log1p(share * 2 / math.cosh(epsilon / 2) * sines) / (above - 1)
    # Also where floats overflow.
    ratios = np.fmin(divergences, epsilon) / orders[:-1]
    return max(limit, float(ratios.max())) * _MARGIN


# Of which the rarer of two values has a probability that is far above the least float.
_MAX_EPSILON = 500.0

# The least share whose probabilities are normal floats; less counts as this.
_RAREST = 2.0**-250


@lru_cache(maxsize=256)
def pure_mu(epsilon: Fraction, share: float = 1.0) -> Fraction | None:
    """Return the least mu of Gaussian DP that a `PureLoss` implies, rounded up; None if epsilon is large."""
    # With p = e**epsilon / (1 + e**epsilon), the trade-off function of this loss
    # consists of three lines with corners at (share * (1 - p), 1 - share * p) and its
    # mirror image. That of Gaussian noise is convex, so it is below if it goes through
    # these corners. The special functions state an error of some units in the highest
    # place.
    if epsilon > _MAX_EPSILON:
        return None
    number = round_up(epsilon)
    if share < 1:
        share = max(share, _RAREST)
        likely = share / (1 + math.exp(-number))
        rare = share / (1 + math.exp(number))
        # Of probabilities that are nearly 1, the float of the others has the digits.
        upper = ndtri(likely) if likely < 0.5 else -ndtri(1 - share + rare)
        mu = upper - ndtri(rare) + 2.0**-43
    elif number < 1:
        mu = 2 * math.sqrt(2) * erfinv(math.tanh(number / 2))
        if number < _NORMAL:
            # Four operations lose at most half of the smallest float each, and the last
            # one multiplies what the others lost by less than 3.
            mu += 8 * math.ulp(0.0)
    else:
        mu = -2 * ndtri(1 / (1 + math.exp(number)))
    return Fraction(float(mu)) * (1 + Fraction(1, 1 << 30))


def pure_epsilon(mu_squared: float) -> float:
    """Return the largest epsilon, but for rounding, of which `pure_mu` is at most a number."""
    mu = min(math.sqrt(mu_squared), 64.0)  # more than that of the largest epsilon
    if mu < 1:
        epsilon = float(2 * math.atanh(erf(mu / 2 / math.sqrt(2))))
    else:
        tail = ndtr(-mu / 2)
        epsilon = min(math.log((1 - tail) / tail), _MAX_EPSILON)
    while epsilon and (pure_mu(Fraction(epsilon)) or 0) ** 2 > mu_squared:
        epsilon *= 1 - 2.0**-28
    return epsilon
