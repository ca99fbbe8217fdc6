"""Comparisons of groups with the privileged one: differences and ratios of rates, and average odds."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from skdp.metrics.fairness._intervals import Estimate, Numbers, combine, ratio, two_sided
from skdp.metrics.fairness._rates import Mask, RateSums, variance_at

_PARITY_RANGE, _IMPACT_RANGE = (-1.0, 1.0), (0.0, np.inf)

_DIFFERENCES = np.linspace(-1, 1, 81)
_ANGLES = np.linspace(0, np.pi / 2, 65)  # of ratios
_PLACES = np.linspace(0, 1, 33)  # on a line of pairs of rates
_ALIKE = 1e-6


def compare(sums: RateSums, rows: str, level: float) -> list[Estimate]:
    """Compare groups with the last one: differences, and the ratio of the selection rates."""
    difference, impact, usual = compare_rates(sums, rows, level)
    selection, tpr, fpr = (difference[..., place, :] for place in range(3))
    both = usual[..., 1, :] & usual[..., 2, :]
    odds = combine((0.5, tpr), (0.5, fpr))
    if not both.all():
        odds = either(both, odds, *_odds_ends(sums, rows, level))
    return [selection, impact, tpr, odds.within(*_PARITY_RANGE)]


def compare_rates(sums: RateSums, rows: str, level: float) -> tuple[Estimate, Estimate, Mask]:
    """Return the differences of all rates, the ratio of the selection rates, and which sets of rates are bounded."""
    rates, bounded = sums.estimate(rows, level)
    others, own = rates[..., :-1], rates[..., -1:]
    usual = bounded[..., :-1] & bounded[..., -1:]
    with np.errstate(divide="ignore", invalid="ignore"):
        common = sums.covariance(others.value, own.value)
        low, high = _common(sums, others, own, level)
        difference = combine((1, others), (-1, own), common=(low, high))
        first, last = others[..., 0, :], own[..., 0, :]
        impact = ratio(first, last, common=(low[..., 0, :], high[..., 0, :]))
        cut = usual & _are_cut(sums, others, own)
        if cut.any() or not usual.all():
            # Where ends are cut, pairs are compared with the best one, as no pair within 0 and 1 may fit well.
            scores = _difference_scores(sums, rows)
            lower, upper = _ends(_DIFFERENCES, scores - np.where(cut, scores.min(axis=0), 0), level)
            wider = np.fmin(lower, difference.lower), np.fmax(upper, difference.upper)
            lower, upper = np.where(cut, wider, (lower, upper))
            difference = either(usual & ~cut, difference, lower, upper)
        if not usual[..., 0, :].all():
            ends = _ends(_ANGLES, _ratio_scores(sums, rows)[..., 0, :], level)
            impact = either(usual[..., 0, :], impact, *(np.where(end < np.pi / 2, np.tan(end), np.inf) for end in ends))
        difference = _with_error(difference, difference.std_error**2 - 2 * common).within(*_PARITY_RANGE)
        impact = _with_error(impact, impact.std_error**2 - 2 * impact.value * common[..., 0, :] / last.value**2)
        counted = sums.counted[..., 0, :-1] | sums.counted[..., 0, -1:]
        even = (first.value == 0) & (last.value == 0) & counted
        value = np.where(even, 1.0, impact.value)
        # Where the noise of both groups is nearly the same, or both rates are 0, the ends may leave it out.
        lower, upper = (
            np.where(beyond, value, end)
            for beyond, end in ((impact.lower > value, impact.lower), (impact.upper < value, impact.upper))
        )
        impact = Estimate(value, impact.std_error, lower, upper)
    return difference, impact.where(counted).within(*_IMPACT_RANGE), usual


def _are_cut(sums: RateSums, others: Estimate, own: Estimate) -> Mask:
    """Return where the intervals of two estimated rates end at 0 and at 1: the distances to both ends are too short."""
    if sums.scales is not None:
        return np.zeros(others.value.shape, np.bool_)
    return ((others.upper >= 1) & (own.lower <= 0)) | ((others.lower <= 0) & (own.upper >= 1))


def _common(sums: RateSums, others: Estimate, own: Estimate, level: float) -> tuple[Numbers, Numbers]:
    """Return the covariance of rates at either end of their difference, in units of their ends."""
    # Noise that moves rows from one group to the other moves both rates, in opposite directions.
    low, high = (sums.covariance(t, u) for t, u in ((others.lower, own.upper), (others.upper, own.lower)))
    return two_sided(level) ** 2 * low, two_sided(level) ** 2 * high


def _odds_ends(sums: RateSums, rows: str, level: float) -> tuple[Numbers, Numbers]:
    """Return the ends of average odds where sets of rates are unbounded."""
    # The two differences are of different rows, and so independent: a pair of them is in the set if the squares of its
    # standard scores add up to at most that of the quantile. Where a set is unbounded, a difference is that of any two
    # rates in their intervals: sets by the least scores below would be too small for two differences together, as no
    # rate can be below 0 or above 1 (where rates were .9 and .1, 83 to 89 % held the truth).
    lower, upper = [], []
    for angle in np.linspace(0, np.pi / 2, 9):
        low, high = [], []
        for place, part in ((1, np.cos(angle)), (2, np.sin(angle))):
            within = 2 * NormalDist().cdf(two_sided(level) * part) - 1
            rates, bounded = sums.estimate(rows, within)
            others, own = rates[..., :-1], rates[..., -1:]
            with np.errstate(divide="ignore", invalid="ignore"):
                usual = combine((1, others), (-1, own), common=_common(sums, others, own, within))
            ends = others.lower - own.upper, others.upper - own.lower
            found = either(bounded[..., :-1] & bounded[..., -1:], usual, *ends).within(*_PARITY_RANGE)
            low.append(found.lower[..., place, :])
            high.append(found.upper[..., place, :])
        lower.append((low[0] + low[1]) / 2)
        upper.append((high[0] + high[1]) / 2)
    return np.min(lower, axis=0), np.max(upper, axis=0)


# Where the set of a rate is unbounded, as there may be no rows that it divides by, a comparison θ is in the set if a
# pair of rates (t, u) with this θ is: if the least squared standard score of ``top − t bottom`` and ``last top − u last
# bottom``, whose mean is 0, over all such pairs is at most that of the quantile. Guggenberger, Kleibergen, Mavroeidis
# and Chen (2012) show for equations that are linear like these that no more is needed, however little the sums say
# of the other rate.


def _difference_scores(sums: RateSums, rows: str) -> Numbers:
    """Return the least squared score of each of `_DIFFERENCES`, of each rate and group."""
    return np.array([_least_score(sums, rows, difference, 1.0, 1.0) for difference in _DIFFERENCES])


def _ratio_scores(sums: RateSums, rows: str) -> Numbers:
    """Return the least squared score of each of `_ANGLES`, whose tangent is the ratio."""
    return np.array([_least_score(sums, rows, 0.0, np.sin(angle), np.cos(angle)) for angle in _ANGLES])


def _least_score(sums: RateSums, rows: str, start: float, slope: float, own_slope: float) -> Numbers:
    """Return the least squared score over the pairs of rates ``start + slope r`` and ``own_slope r``."""
    moments = sums.moments(rows)[..., np.newaxis, :]
    top, bottom, shared = sums.top[..., np.newaxis], sums.bottom[..., np.newaxis], sums.shared[..., :-1, np.newaxis, :]
    most = min((1 - start) / max(slope, 1e-12), 1 / max(own_slope, 1e-12))
    places = max(0.0, -start) + (most - max(0.0, -start)) * _PLACES
    # If the two groups are all rows, their tops add up to a known number, and only the pairs of rates are possible that
    # give it, of any number of rows that the first group may have: these are tried, too.
    total = top[..., :-1, :] + top[..., -1:, :], bottom[..., :-1, :] + bottom[..., -1:, :]
    mean = np.divide(total[0], total[1], out=np.zeros_like(total[0]), where=total[1] > 0)
    slopes = np.maximum(_PLACES * slope + (1 - _PLACES) * own_slope, 1e-12)
    known = np.clip((mean - _PLACES * start) / slopes, places[0], places[-1])
    r = np.concatenate([np.broadcast_to(places, known.shape), known], axis=-1)
    t, u = start + slope * r, own_slope * r
    error, own_error = top[..., :-1, :] - t * bottom[..., :-1, :], top[..., -1:, :] - u * bottom[..., -1:, :]
    variance, own_variance = (
        np.maximum(variance_at(part, at), 1e-12) * (1 + _ALIKE)
        for part, at in ((moments[..., :-1, :, :], t), (moments[..., -1:, :, :], u))
    )
    common = shared[..., 2] - (t + u) * shared[..., 1] + t * u * shared[..., 0]
    determinant = np.maximum(variance * own_variance - common**2, _ALIKE * variance * own_variance)
    square = error**2 * own_variance - 2 * error * own_error * common + own_error**2 * variance
    least: Numbers = (square / determinant).min(axis=-1)
    return least


def _ends(grid: Numbers, scores: Numbers, level: float) -> tuple[Numbers, Numbers]:
    """Return the least and the largest value whose score is at most that of the level, between the places of a grid."""
    distance, usual = np.sqrt(np.maximum(scores, 0)), two_sided(level)
    # Where no pair is likely, the set is that of pairs that are not much less likely than the best one.
    least = distance.min(axis=0)
    quantile = np.where(least > usual, np.hypot(least, usual), usual)
    inside = distance <= quantile
    ends = []
    for step, first in ((1, inside.argmax(axis=0)), (-1, len(grid) - 1 - inside[::-1].argmax(axis=0))):
        before = np.clip(first - step, 0, len(grid) - 1)
        own, other = (np.take_along_axis(distance, at[np.newaxis], axis=0)[0] for at in (first, before))
        share = np.clip((quantile - own) / np.maximum(other - own, 1e-12), 0, 1)
        ends.append(grid[first] + share * (grid[before] - grid[first]))
    return ends[0], ends[1]


def either(usual: Mask, estimate: Estimate, lower: Numbers, upper: Numbers) -> Estimate:
    """Replace the ends where the usual ones do not hold; the estimate is always between them."""
    lower, upper = np.fmin(lower, estimate.value), np.fmax(upper, estimate.value)
    ends = np.where(usual, estimate.lower, lower), np.where(usual, estimate.upper, upper)
    return Estimate(estimate.value, estimate.std_error, *ends)


def _with_error(estimate: Estimate, variance: Numbers) -> Estimate:
    return Estimate(estimate.value, np.sqrt(np.maximum(variance, 0)), estimate.lower, estimate.upper)
