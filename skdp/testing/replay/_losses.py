"""What the draws of a release lose between two tables, each by itself and together."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from skdp.exact import round_up
from skdp.privacy import (
    Loss,
    PrivacyGuarantee,
    PureLoss,
    exponential_loss,
    gaussian_loss,
    laplace_loss,
    zcdp_epsilon,
)
from skdp.privacy.accounting import pure_mu, smallest_epsilon
from skdp.testing.replay._recording import Draw, differences, scores_of

# The relative error of the floats here.
ROUNDING = 1e-9

# Composed losses are rounded up, by at most some thousandths of the total.
_SLACK = 2e-3

_OF_INTEGERS = ("discrete_laplace", "cube_noise")


@dataclass(frozen=True)
class DrawLoss:
    """What a draw loses between two tables."""

    sampler: str
    size: int
    difference: float
    epsilon: Fraction | float
    rho: float
    # Of rounded Gaussian noise.
    mu_squared: Fraction | float = 0
    # Whether the loss lies in an interval of length epsilon, as that of the exponential
    # mechanism.
    by_range: bool = False


def loss_of(draw: Draw, other: Draw) -> DrawLoss:
    """Return the loss of a draw, from what its noise was added to in both runs."""
    if "scores" in draw.parameters:
        return _loss_of_choice(draw, other)
    size = math.prod(draw.shape)
    changes = []
    for change in differences(draw, other):
        if change is None:
            return DrawLoss(draw.sampler, size, math.nan, math.inf, math.inf)
        changes.append(abs(change))
    if "variance" in draw.parameters:
        return _loss_of_gaussian(draw, size, changes)
    if draw.sampler == "cube_noise":
        # The norm of a row is that of its largest change.
        width = draw.shape[1]
        rows = range(0, len(changes), width)
        norm = Fraction(sum(max(changes[row : row + width]) for row in rows))
    else:
        norm = Fraction(sum(changes))
    return _pure_loss(draw, size, norm, norm / draw.parameters["scale"])


def _loss_of_choice(draw: Draw, other: Draw) -> DrawLoss:
    """Return the loss of a choice by scores: the range of their changes matters."""
    changes = [Fraction(0)]
    for score, other_score in zip(scores_of(draw), scores_of(other), strict=True):
        changes.append(Fraction(int(score)) - int(other_score))
    size = len(changes) - 1
    spread = Fraction(0)
    if size:
        spread = max(changes[1:]) - min(changes[1:])
    by_range = draw.sampler == "exponential_mechanism"
    epsilon = draw.parameters["rate"] * spread
    return _pure_loss(draw, size, spread, epsilon, by_range=by_range)


def _loss_of_gaussian(draw: Draw, size: int, changes: list[Fraction]) -> DrawLoss:
    square = Fraction(sum(change**2 for change in changes))
    mu_squared = square / draw.parameters["variance"]
    return DrawLoss(
        sampler=draw.sampler,
        size=size,
        difference=math.sqrt(square),
        epsilon=math.inf if square else 0,
        rho=float(mu_squared / 2),
        # The discrete Gaussian has the rho of the Gaussian, but not its mu.
        mu_squared=mu_squared if draw.sampler == "rounded_gaussian" else Fraction(0),
    )


def _pure_loss(
    draw: Draw,
    size: int,
    difference: Fraction,
    epsilon: Fraction | float,
    *,
    by_range: bool = False,
) -> DrawLoss:
    loss = float(epsilon)
    rho = loss * math.tanh(loss / 2)
    if by_range:
        rho = min(rho, loss**2 / 8)
    difference_as_float = float(difference)
    return DrawLoss(
        draw.sampler, size, difference_as_float, epsilon, rho, by_range=by_range
    )


def epsilon_of(losses: Sequence[DrawLoss], delta: Fraction) -> float:
    """Return the least epsilon, at a delta, of the certificates that apply."""
    certificates = [_sum_of_epsilons(losses)]
    if not delta:
        return certificates[0]
    rho = sum(loss.rho for loss in losses)
    if math.isfinite(rho):
        certificates.append(zcdp_epsilon(rho, delta) if rho else 0.0)
    if all(loss.mu_squared or math.isfinite(loss.epsilon) for loss in losses):
        certificates += _certificates_of_losses(losses, delta)
    return min(certificates)


def _certificates_of_losses(
    losses: Sequence[DrawLoss], delta: Fraction
) -> Iterator[float]:
    """Yield the epsilons of Gaussian and pure losses, with all of them as Gaussian too."""
    mu_squared = Fraction(sum(Fraction(loss.mu_squared) for loss in losses))
    pure = [loss for loss in losses if not loss.mu_squared and loss.epsilon]
    parts: list[Loss] = [PureLoss(round_up(Fraction(loss.epsilon))) for loss in pure]
    epsilon = smallest_epsilon([*parts, gaussian_loss(mu_squared)], delta)
    if epsilon is not None:
        yield epsilon
    for loss in pure:
        # An exponential mechanism loses at most what pure privacy of half its range
        # does, in the terms of mu.
        mu = pure_mu(Fraction(loss.epsilon) / (2 if loss.by_range else 1))
        if mu is None:
            return
        mu_squared += mu**2
    epsilon = smallest_epsilon([gaussian_loss(mu_squared)], delta)
    if epsilon is not None:
        yield epsilon


_DELTAS = tuple(Fraction(1, 10**power) for power in (1, 2, 4, 8, 16))


def understated(losses: Sequence[DrawLoss], claim: PrivacyGuarantee) -> str | None:
    """Return how the draws lose more, together, than the stated losses allow; None if they do not."""
    if not claim.losses:
        return None
    # A draw without a bound is reported by its epsilon.
    if not all(loss.mu_squared or math.isfinite(loss.epsilon) for loss in losses):
        return None
    drawn = [loss_in_steps(loss) for loss in losses if loss.mu_squared or loss.epsilon]
    for delta in _DELTAS:
        stated_epsilon = smallest_epsilon(claim.losses, delta)
        if stated_epsilon is None:
            continue
        drawn_epsilon = smallest_epsilon(drawn, delta) or 0.0
        if drawn_epsilon > stated_epsilon * (1 + _SLACK) + _SLACK * claim.epsilon:
            return (
                f"the draws lose epsilon {drawn_epsilon:.6g} at delta {float(delta):g};"
                f" the stated losses {stated_epsilon:.6g}"
            )
    return None


def loss_in_steps(loss: DrawLoss) -> Loss:
    """Return the loss of a draw of noise for the change that it was drawn for."""
    if loss.mu_squared:
        return gaussian_loss(Fraction(loss.mu_squared))
    epsilon = Fraction(loss.epsilon)
    if loss.sampler in _OF_INTEGERS:
        return laplace_loss(epsilon, max(1, round(loss.difference)))
    if loss.sampler == "permute_and_flip":
        return laplace_loss(epsilon)
    if loss.sampler == "exponential_mechanism":
        return exponential_loss(epsilon)
    return PureLoss(round_up(epsilon))


def _sum_of_epsilons(losses: Sequence[DrawLoss]) -> float:
    if not all(math.isfinite(loss.epsilon) for loss in losses):
        return math.inf
    return float(sum(Fraction(loss.epsilon) for loss in losses))
