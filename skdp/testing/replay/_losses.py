"""What the draws of a release lose between two tables, each by itself and together."""

from __future__ import annotations

import math
from collections.abc import Sequence
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

ROUNDING = 1e-9
"""The relative error of the floats here."""


@dataclass(frozen=True)
class DrawLoss:
    """What a draw loses between two tables."""

    sampler: str
    size: int
    difference: float
    epsilon: Fraction | float
    rho: float
    mu_squared: Fraction | float = 0
    """Of rounded Gaussian noise."""
    half: bool = False
    """Whether the loss lies in an interval of this length, as that of the exponential mechanism."""


def loss_of(one: Draw, other: Draw) -> DrawLoss:
    """Return the loss of a draw, from what its noise was added to in both runs."""
    size = math.prod(one.shape)
    if "scores" in one.parameters:
        changes = [
            Fraction(int(a)) - int(b)
            for a, b in zip(scores_of(one), scores_of(other), strict=True)
        ]
        spread = max(changes, default=Fraction(0)) - min(changes, default=Fraction(0))
        by_range = one.sampler == "exponential_mechanism"
        return _pure(
            one, len(changes), spread, one.parameters["rate"] * spread, half=by_range
        )
    changes_or_none = differences(one, other)
    if None in changes_or_none:
        return DrawLoss(one.sampler, size, math.nan, math.inf, math.inf)
    changes = [abs(change) for change in changes_or_none if change is not None]
    if "variance" in one.parameters:
        square = Fraction(sum(change**2 for change in changes))
        mu_squared = square / one.parameters["variance"]
        rounded = mu_squared if one.sampler == "rounded_gaussian" else Fraction(0)
        return DrawLoss(
            one.sampler,
            size,
            math.sqrt(square),
            math.inf if square else 0,
            float(mu_squared / 2),
            mu_squared=rounded,
        )
    if one.sampler == "cube_noise":
        width = one.shape[1]
        norm = Fraction(
            sum(
                max(changes[start : start + width])
                for start in range(0, len(changes), width)
            )
        )
    else:
        norm = Fraction(sum(changes))
    return _pure(one, size, norm, norm / one.parameters["scale"])


def _pure(
    draw: Draw,
    size: int,
    difference: Fraction,
    epsilon: Fraction | float,
    *,
    half: bool = False,
) -> DrawLoss:
    loss = float(epsilon)
    rho = loss * math.tanh(loss / 2)
    return DrawLoss(
        draw.sampler,
        size,
        float(difference),
        epsilon,
        min(rho, loss**2 / 8) if half else rho,
        half=half,
    )


def epsilon_of(losses: Sequence[DrawLoss], delta: Fraction) -> float:
    """Return the least epsilon, at a delta, of the certificates that apply."""
    found: list[float | None] = [_sum(losses)]
    if delta and all(loss.mu_squared or math.isfinite(loss.epsilon) for loss in losses):
        gaussian = Fraction(sum(Fraction(loss.mu_squared) for loss in losses))
        pure = [loss for loss in losses if not loss.mu_squared and loss.epsilon]
        listed: list[Loss] = [
            PureLoss(round_up(Fraction(loss.epsilon))) for loss in pure
        ]
        found.append(smallest_epsilon([*listed, gaussian_loss(gaussian)], delta))
        # An exponential mechanism loses at most what pure privacy of half its range does, in the terms of mu.
        mus = [
            pure_mu(Fraction(loss.epsilon) / (2 if loss.half else 1)) for loss in pure
        ]
        known = [mu for mu in mus if mu is not None]
        if len(known) == len(mus):
            found.append(
                smallest_epsilon(
                    [gaussian_loss(gaussian + sum(mu**2 for mu in known))], delta
                )
            )
    rho = sum(loss.rho for loss in losses)
    if delta and math.isfinite(rho):
        found.append(zcdp_epsilon(rho, delta) if rho else 0.0)
    return min(epsilon for epsilon in found if epsilon is not None)


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
        # Both are rounded up, by at most some thousandths of the total.
        drawn_epsilon = smallest_epsilon(drawn, delta) or 0.0
        if drawn_epsilon > stated_epsilon * (1 + _SLACK) + _SLACK * claim.epsilon:
            return (
                f"the draws lose epsilon {drawn_epsilon:.6g} at delta {float(delta):g}; "
                f"the stated losses {stated_epsilon:.6g}"
            )
    return None


_SLACK = 2e-3


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


_OF_INTEGERS = "discrete_laplace", "cube_noise"


def _sum(losses: Sequence[DrawLoss]) -> float:
    if not all(math.isfinite(loss.epsilon) for loss in losses):
        return math.inf
    return float(sum(Fraction(loss.epsilon) for loss in losses))
