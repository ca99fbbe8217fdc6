"""What the draws of a release lose between two tables, each by itself and together."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from skdp.privacy import (
    Loss,
    PrivacyGuarantee,
    exponential_loss,
    gaussian_loss,
    laplace_loss,
    zcdp_epsilon,
)
from skdp.privacy.accounting import pure_mu, smallest_epsilon
from skdp.testing.replay._recording import Draw, differences, scores_of

# Sums of floats of a few dozen draws, which are exact to 2**-53 each.
ROUNDING = 1e-9

# `smallest_epsilon` rounds the losses that it composes up, by at most some thousandths
# of the total. It rounds those of two lists alike, but not equally.
_SLACK = 2e-3


@dataclass(frozen=True)
class DrawLoss:
    """What a draw loses between two tables."""

    sampler: str
    size: int
    difference: float
    epsilon: Fraction | float
    rho: float
    # The loss as the accountant knows it; None if it has no bound of this form.
    loss: Loss | None = None
    # The square of the least mu that is known to cover it; None if there is none.
    mu_squared: Fraction | None = None


def loss_of(draw: Draw, other: Draw) -> DrawLoss:
    """Return the loss of a draw, from what its noise was added to in both runs."""
    if "scores" in draw.parameters:
        return _loss_of_choice(draw, other)
    changes = []
    for change in differences(draw, other):
        if change is None:
            size = math.prod(draw.shape)
            return DrawLoss(draw.sampler, size, math.nan, math.inf, math.inf)
        changes.append(abs(change))
    if "variance" in draw.parameters:
        return _loss_of_gaussian(draw, changes)
    return _loss_of_laplace(draw, changes)


def _loss_of_choice(draw: Draw, other: Draw) -> DrawLoss:
    """Return the loss of a choice by scores: the range of their changes matters."""
    changes = []
    for score, other_score in zip(scores_of(draw), scores_of(other), strict=True):
        changes.append(Fraction(int(score)) - int(other_score))
    spread = max(changes, default=Fraction(0)) - min(changes, default=Fraction(0))
    epsilon = draw.parameters["rate"] * spread
    rho = _pure_rho(epsilon)
    if draw.sampler == "exponential_mechanism":
        # Its losses lie in an interval of length epsilon: see `skdp.privacy.Rho` and
        # `Mu` for what follows.
        loss: Loss = exponential_loss(epsilon)
        mu_squared = _pure_mu_squared(epsilon / 2)
        rho = min(rho, float(epsilon) ** 2 / 8)
    else:
        loss = laplace_loss(epsilon)
        mu_squared = _pure_mu_squared(epsilon)
    return DrawLoss(
        draw.sampler, len(changes), float(spread), epsilon, rho, loss, mu_squared
    )


def _loss_of_gaussian(draw: Draw, changes: Sequence[Fraction]) -> DrawLoss:
    square = sum((change**2 for change in changes), Fraction(0))
    mu_squared = square / draw.parameters["variance"]
    # The discrete Gaussian has the rho of the Gaussian, but not its mu.
    is_rounded = draw.sampler == "rounded_gaussian"
    return DrawLoss(
        sampler=draw.sampler,
        size=math.prod(draw.shape),
        difference=math.sqrt(square),
        epsilon=math.inf if square else 0,
        rho=float(mu_squared / 2),
        loss=gaussian_loss(mu_squared) if is_rounded else None,
        mu_squared=mu_squared if is_rounded else None,
    )


def _loss_of_laplace(draw: Draw, changes: Sequence[Fraction]) -> DrawLoss:
    norm = sum(changes, Fraction(0))
    if draw.sampler == "cube_noise":
        # The norm of a row is that of its largest change.
        width = draw.shape[1]
        norm = Fraction(0)
        for start in range(0, len(changes), width):
            norm += max(changes[start : start + width])
    epsilon = norm / draw.parameters["scale"]
    return DrawLoss(
        sampler=draw.sampler,
        size=math.prod(draw.shape),
        difference=float(norm),
        epsilon=epsilon,
        rho=_pure_rho(epsilon),
        # Each change by 1 is a link of the chain of `LaplaceLoss`.
        loss=laplace_loss(epsilon, max(1, int(norm))),
        mu_squared=_pure_mu_squared(epsilon),
    )


def _pure_rho(epsilon: Fraction) -> float:
    return float(epsilon) * math.tanh(epsilon / 2)


def _pure_mu_squared(epsilon: Fraction) -> Fraction | None:
    mu = pure_mu(epsilon)
    return None if mu is None else mu**2


def epsilon_of(losses: Sequence[DrawLoss], delta: Fraction) -> float:
    """Return the least epsilon, at a delta, of the certificates that apply."""
    return min(_certificates(losses, delta))


def _certificates(losses: Sequence[DrawLoss], delta: Fraction) -> Iterator[float]:
    """Yield what all draws lose: by the sums of epsilon, rho and mu, and by the accountant."""
    # A release may have been planned in any of these terms, and none is always the
    # least: a loss that is not of Gaussian noise is not below that of its mu at every
    # delta, but the squares of the mus add up.
    if any(loss.epsilon == math.inf for loss in losses):
        yield math.inf
    else:
        yield float(sum(Fraction(loss.epsilon) for loss in losses))
    if not delta:
        return
    rho = sum(loss.rho for loss in losses)
    if rho < math.inf:
        yield zcdp_epsilon(rho, delta) if rho else 0.0
    covers: list[Sequence[Loss]] = []
    parts = [loss.loss for loss in losses if loss.loss is not None]
    if len(parts) == len(losses):
        covers.append(parts)
    squares = [loss.mu_squared for loss in losses if loss.mu_squared is not None]
    if len(squares) == len(losses):
        covers.append([gaussian_loss(sum(squares, Fraction(0)))])
    for cover in covers:
        epsilon = smallest_epsilon(cover, delta)
        if epsilon is not None:
            yield epsilon


_DELTAS = tuple(Fraction(1, 10**power) for power in (1, 2, 4, 8, 16))


def understated(losses: Sequence[DrawLoss], claim: PrivacyGuarantee) -> str | None:
    """Return how the draws lose more, together, than the stated losses allow; None if they do not."""
    if not claim.losses:
        return None
    for delta in _DELTAS:
        stated_epsilon = smallest_epsilon(claim.losses, delta)
        if stated_epsilon is None:
            continue
        drawn_epsilon = epsilon_of(losses, delta)
        most = stated_epsilon * (1 + _SLACK) + _SLACK * claim.epsilon
        # A draw without a bound is reported by its epsilon.
        if most < drawn_epsilon < math.inf:
            return (
                f"the draws lose epsilon {drawn_epsilon:.6g} at delta {float(delta):g};"
                f" the stated losses {stated_epsilon:.6g}"
            )
    return None
