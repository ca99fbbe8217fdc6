"""The losses of channels, and of releases of which only epsilon, delta and rho are known."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Self

import numpy as np

from skdp.exact import exp_bounds, round_up
from skdp.privacy._json import Fields
from skdp.privacy._numbers import check_delta
from skdp.privacy.accounting._loss import Loss, Radii, at_least_0


@dataclass(frozen=True)
class StatedLoss(Loss):
    """A privacy loss of which no more is known than a guarantee states."""

    # The worst of all (epsilon, delta) releases reveals the input with probability delta, and is randomised response of
    # two values otherwise (Kairouz, Oh and Viswanath 2017).

    kind = "stated"

    epsilon: float
    delta: float = 0.0
    rho: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set("epsilon", at_least_0)
        self._set("delta", check_delta)
        if self.rho is not None:
            self._set("rho", at_least_0)

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
        return super()._concentrated if self.delta == 0 else None

    def _doubled(self) -> Self:
        rho = None if self.rho is None else 4 * self.rho
        # Beyond e^800, the result is at least 1 for every float delta.
        delta = (
            (1 + exp_bounds(min(self.epsilon, 800.0))[1]) * Fraction(self.delta)
            if self.delta
            else Fraction(0)
        )
        if delta >= 1:
            raise ValueError(
                "the implied delta for replacing a record is 1 or more: nothing is promised"
            )
        return replace(self, epsilon=2 * self.epsilon, delta=round_up(delta), rho=rho)

    def _or(self, other: StatedLoss) -> Self:
        rhos = [Fraction(one.rho) for one in (self, other) if one.rho is not None]
        rho = round_up(max(rhos)) if len(rhos) == 2 else None
        return replace(
            self,
            epsilon=max(self.epsilon, other.epsilon),
            delta=max(self.delta, other.delta),
            rho=rho,
        )

    @classmethod
    def _of(cls, record: Fields, count: int) -> Self:
        rho = record.optional("rho", lambda name: record.number(name, at_least_0))
        return cls(
            record.number("epsilon", at_least_0),
            record.number("delta", check_delta),
            rho,
            count=count,
        )


@dataclass(frozen=True)
class PureLoss(Loss):  # numpydoc ignore=PR02
    """The privacy loss of a channel, by its epsilon and its total variation.

    Parameters
    ----------
    epsilon : float
        The logarithm of the largest ratio of the probabilities of a report under two inputs, finite and at least 0.
    share : float, default=1.0
        In [0, 1]: the largest total variation distance of the reports of two inputs is at most
        ``share * tanh(epsilon / 2)``.
    count : int, default=1
        The number of such releases, from 1 to 2**40.

    See Also
    --------
    LaplaceLoss : The loss of Laplace noise.
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
    >>> loss = PureLoss(0.5, (exp(0.5) + 1) / (exp(0.5) + 9))
    >>> one, known = PrivacyGuarantee(0.5), PrivacyGuarantee(0.5, losses=(loss,))
    >>> [round(compose([each] * 20, delta=1e-6).epsilon, 2) for each in (one, known)]
    [9.99, 5.66]
    """

    kind = "pure"

    epsilon: float
    share: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set("epsilon", at_least_0)
        self._set("share", at_least_0)
        if self.share > 1:
            raise ValueError(f"share must be a number in [0, 1], got {self.share}")

    @property
    def _pure(self) -> Fraction:
        return Fraction(self.epsilon if self.share else 0)

    def _doubled(self) -> Self:
        # Total variations add: share * 2 tanh(e / 2) / tanh(e) = share * (1 + tanh(e / 2)**2).
        root = 1 - 2 / (exp_bounds(min(self.epsilon, 700.0))[1] + 1)
        share = min(Fraction(1), Fraction(self.share) * (1 + root**2))
        return replace(self, epsilon=2 * self.epsilon, share=round_up(share))

    def _or(self, other: PureLoss) -> Self:
        return replace(
            self,
            epsilon=max(self.epsilon, other.epsilon),
            share=max(self.share, other.share),
        )

    def _radii(self) -> Radii:
        return np.array([self.epsilon, 0.0]), np.array([self.share, 1 - self.share])

    @classmethod
    def _of(cls, record: Fields, count: int) -> Self:
        return cls(
            record.number("epsilon", at_least_0),
            record.number("share", at_least_0),
            count=count,
        )


def exponential_loss(epsilon: Fraction) -> PureLoss:
    """Return a loss of the exponential mechanism whose scores, times its rate, change by epsilon from each other."""
    # The odds of any set of candidates change by a factor of at most e**epsilon ([1]_). So the total variation is at
    # most the largest difference of two probabilities with such odds, which is tanh(epsilon / 4): `PureLoss` has the
    # share ``tanh(epsilon / 4) / tanh(epsilon / 2) = (1 + tanh(epsilon / 4)**2) / 2`` of that of randomised response.
    # .. [1] J. Dong, D. Durfee, R. Rogers (2020). Optimal differential privacy composition for exponential mechanisms.
    #    ICML.
    tanh = 1 - 2 / (exp_bounds(min(epsilon, Fraction(700)) / 2)[1] + 1)
    return PureLoss(round_up(epsilon), round_up((1 + tanh**2) / 2))
