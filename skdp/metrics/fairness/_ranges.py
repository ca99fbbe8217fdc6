"""Intervals of the inequality of several rates: the largest less the smallest, and the smallest over the largest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import ndtr

from skdp.metrics.fairness._intervals import Estimate, Numbers
from skdp.metrics.fairness._rates import variance_at

_STEPS = 12  # of bisection
_PLACES = np.linspace(-4, 4, 13)  # standard errors from the rate of each group, where distributions are computed
_MOST_PLACES = 129
_TOPS = np.linspace(0, 1, 21)


@dataclass(frozen=True)
class Rates:
    """Rates of groups, with the moments of the variance of each numerator, and the denominator."""

    value: Numbers
    moments: Numbers
    size: Numbers
    known: bool
    """Whether the groups are known, so that the numerators are binomial."""

    def __post_init__(self) -> None:
        with np.errstate(divide="ignore", invalid="ignore"):
            trials = self.size**2 / np.maximum(-self.moments[..., 0], 1e-12)
        object.__setattr__(self, "trials", np.clip(np.nan_to_num(trials, nan=1.0), 1, 1e12))

    trials: Numbers = field(init=False)

    def inside(self, rates: Numbers) -> Numbers:
        """Move rates off 0 and 1, as no group is so certain."""
        edge = 1 / (self.trials + 4) if self.known else np.zeros_like(self.trials)
        return np.clip(rates, edge, 1 - edge)

    def variances(self, rates: Numbers) -> Numbers:
        """Return the variances that the estimates have if these are the rates."""
        with np.errstate(divide="ignore", invalid="ignore"):
            found = variance_at(self.moments, self.inside(rates)) / self.size**2
        return np.clip(np.nan_to_num(found, nan=1.0), 1e-18, 1)  # of what is between 0 and 1

    def below(self, x: Numbers, rates: Numbers) -> Numbers:
        """Return the probabilities of estimates below x, if these are the rates."""
        if not self.known:
            found: Numbers = ndtr((x - rates) / np.sqrt(self.variances(rates)))
            return found
        # The probability of each number of rows is spread over the rates that are closer to its own than to others.
        # The distribution function is that of Camp and Paulson (1951).
        n, own = self.trials, self.inside(rates)
        more, less = np.maximum(x * n + 0.5, 1e-9), np.maximum(n - x * n + 0.5, 1e-9)
        root = np.cbrt(more * (1 - own) / (less * own))
        return ndtr(
            ((1 - 1 / (9 * more)) * root - (1 - 1 / (9 * less))) / np.sqrt(root**2 / (9 * more) + 1 / (9 * less))
        )


def compare_extremes(parts: Sequence[Rates], level: float | None, *, quotient: bool) -> Estimate:
    """Compare the largest rate with the smallest, in that of several parts in which they differ most."""
    found = np.max([_inequality(part.value, quotient) for part in parts], axis=0)
    lower, upper = (
        (np.zeros_like(found), np.ones_like(found)) if level is None else _ends(parts, found, level, quotient)
    )
    none = np.full_like(found, np.nan)
    return Estimate(1 - found, none, 1 - upper, 1 - lower) if quotient else Estimate(found, none, lower, upper)


def _ends(parts: Sequence[Rates], found: Numbers, level: float, quotient: bool) -> tuple[Numbers, Numbers]:
    """Return the ends of the interval of an inequality."""
    # The range of estimated rates is larger than that of the rates, the more so the more groups there are and the
    # closer their rates are. An inequality θ is in the interval if the estimated one is not among the smallest or the
    # largest that are likely under θ: the interval inverts the distribution of the estimate, by bisection. The other
    # rates, of which this distribution depends, are the estimates moved, as little as possible, to the inequality θ.
    # Near equality only large estimates speak against θ, and at θ = 0 they get three quarters of the level; the last
    # one is left, as numbers of rows are whole.
    tail = (1 - level) / 2

    def share(theta: Numbers) -> Numbers:
        """Return the probability of an estimate that is at most the one found, where that is as likely by half."""
        moved = _move(parts, theta, quotient)
        chances = [_chance(part, rates, found, quotient) for part, rates in zip(parts, moved, strict=True)]
        chance: Numbers = np.prod(chances, axis=0)
        return chance

    # The lower end and the upper one, at once.
    low, high = np.stack([np.zeros_like(found), found]), np.stack([found, np.ones_like(found)])
    first, last = low, high
    for _ in range(_STEPS):
        middle = (low + high) / 2
        with np.errstate(divide="ignore", invalid="ignore"):
            near = np.clip(1 - middle[0] / found, 0, 1) ** 2 / 2
        above = share(middle) > np.stack([1 - tail * (1 + near), np.full_like(found, tail)])
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    lower, upper = np.where(low == first, first, np.where(high == last, last, (low + high) / 2))
    undefined = np.isnan(found)
    return np.where(undefined, 0, lower), np.where(undefined, 1, upper)


def _inequality(rates: Numbers, quotient: bool) -> Numbers:
    smallest, largest = rates.min(axis=-1), rates.max(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Numbers = 1 - smallest / largest if quotient else largest - smallest
    return found


def _line(theta: Numbers, quotient: bool) -> tuple[Numbers, Numbers]:
    """Return the factor and the offset that make the smallest rate of the largest one."""
    return (1 - theta, np.zeros_like(theta)) if quotient else (np.ones_like(theta), -theta)


def _move(parts: Sequence[Rates], theta: Numbers, quotient: bool) -> list[Numbers]:
    """Return the rates, of which the most unequal part has the inequality θ, that are closest to the estimates."""
    moved, costs, own = [], [], []
    for part in parts:
        # Of all groups at the same rate: a rate that is near 0 by chance must not weigh more.
        size = np.maximum(part.size, 0)
        mean = (size * part.value).sum(axis=-1, keepdims=True) / np.maximum(size.sum(axis=-1, keepdims=True), 1e-12)
        weights = 1 / part.variances(np.broadcast_to(mean, part.value.shape))
        widened, cost = _widen(part.value, weights, theta, quotient)
        inequality = _inequality(part.value, quotient)
        moved.append((_narrow(part.value, weights, theta, quotient), widened))
        costs.append(cost)
        own.append(inequality)
    # All parts are narrowed to θ; if all are less unequal, the one that has the least way is widened.
    least, all_below = np.argmin(costs, axis=0), np.all([one < theta for one in own], axis=0)
    return [
        np.where((all_below & (least == place))[..., np.newaxis], widened, narrowed)
        for place, (narrowed, widened) in enumerate(moved)
    ]


def _narrow(rates: Numbers, weights: Numbers, theta: Numbers, quotient: bool) -> Numbers:
    """Move rates into the window of the inequality θ that is the closest one."""
    factor, offset = (part[..., np.newaxis, np.newaxis] for part in _line(theta, quotient))
    smallest, largest = rates.min(axis=-1)[..., np.newaxis], rates.max(axis=-1)[..., np.newaxis]
    with np.errstate(divide="ignore", invalid="ignore"):
        first = np.minimum(np.nan_to_num((smallest - offset[..., 0]) / factor[..., 0], posinf=1), largest)
    tops = (first + (largest - first) * _TOPS)[..., np.newaxis, :]
    clipped = np.clip(rates[..., np.newaxis], factor * tops + offset, tops)
    loss = (weights[..., np.newaxis] * (rates[..., np.newaxis] - clipped) ** 2).sum(axis=-2)
    best = np.nanargmin(np.nan_to_num(loss, nan=np.inf), axis=-1)[..., np.newaxis, np.newaxis]
    return np.take_along_axis(clipped, best, axis=-1)[..., 0]


def _widen(rates: Numbers, weights: Numbers, theta: Numbers, quotient: bool) -> tuple[Numbers, Numbers]:
    """Move the two rates that have the least way to the inequality θ, and return the others within."""
    factor, offset = (part[..., np.newaxis, np.newaxis] for part in _line(theta, quotient))
    high, low = rates[..., :, np.newaxis], rates[..., np.newaxis, :]
    of_high, of_low = weights[..., :, np.newaxis], weights[..., np.newaxis, :]
    top = (of_high * high + factor * of_low * (low - offset)) / (of_high + factor**2 * of_low)
    top = np.clip(top, -offset, 1)
    cost = of_high * (high - top) ** 2 + of_low * (low - factor * top - offset) ** 2
    n_groups = rates.shape[-1]
    cost = np.where(np.eye(n_groups, dtype=bool), np.inf, np.nan_to_num(cost, nan=np.inf))
    flat = cost.reshape(*cost.shape[:-2], -1)
    best = flat.argmin(axis=-1)
    top = np.take_along_axis(top.reshape(flat.shape), best[..., np.newaxis], axis=-1)
    bottom = factor[..., 0] * top + offset[..., 0]
    place = np.arange(n_groups)
    first, second = (place == which[..., np.newaxis] for which in np.divmod(best, n_groups))
    return np.where(first, top, np.where(second, bottom, np.clip(rates, bottom, top))), flat.min(axis=-1)


def _chance(part: Rates, rates: Numbers, theta: Numbers, quotient: bool) -> Numbers:
    """Return the probability of estimates with an inequality of at most θ, where that of exactly θ counts by half."""
    spread, n_all = np.sqrt(part.variances(rates))[..., np.newaxis], rates.shape[:-1]
    factor, offset = (one[..., np.newaxis] for one in _line(theta, quotient))
    inner = np.clip(rates[..., np.newaxis] + spread * _PLACES, 0, 1).reshape(*n_all, -1)
    inner = np.sort(inner, axis=-1)[..., :: 1 + inner.shape[-1] // _MOST_PLACES]
    tops = np.concatenate([np.zeros((*n_all, 1)), inner, np.ones((*n_all, 1))], axis=-1)[..., np.newaxis]
    one = replace(
        part,
        **{name: getattr(part, name)[..., np.newaxis, :] for name in ("value", "size")},
        moments=part.moments[..., np.newaxis, :, :],
    )
    own = rates[..., np.newaxis, :]
    # The largest estimate is between two neighbouring tops, and the others are in its window below it. Estimates that
    # are not possible count as 0 and 1; of known groups, so does what is closer to 0 than to the rate of one row.
    distribution = np.where(tops >= 1, 1.0, one.below(tops, own))
    bottoms = factor[..., np.newaxis] * (tops[..., 1:, :] + tops[..., :-1, :]) / 2 + offset[..., np.newaxis]
    outside = one.below(np.maximum(bottoms, 0.5 / one.trials if part.known else 0.0), own)
    if not quotient:
        outside = np.where(bottoms > 0, outside, 0.0)
    upper, lower = (
        np.maximum(distribution[..., end, :] - outside, 0).prod(axis=-1) for end in (slice(1, None), slice(-1))
    )
    chance = (upper - lower).sum(axis=-1)
    if quotient:  # of which an estimate of 0 may have a large probability
        return np.where(theta >= 1, (1 + chance) / 2, chance)
    chance = np.asarray(chance + distribution[..., 0, :].prod(axis=-1))
    # So may an estimate of 1: of one group with all rows, and one with none.
    edge = 0.5 / part.trials if part.known else np.zeros_like(part.trials)
    least, most = part.below(edge, rates), part.below(1 - edge, rates)
    below = (1 - least).prod(axis=-1) + most.prod(axis=-1) - np.maximum(most - least, 0).prod(axis=-1)
    return np.where(theta >= 1, (1 + below) / 2, chance)
