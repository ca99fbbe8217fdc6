"""Comparisons of groups with the privileged one: differences and ratios of rates, and average odds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np
from scipy.special import chdtrc, chdtri, ndtr
from scipy.stats import binom

from skdp.metrics.fairness._intervals import Estimate, Numbers, combine, ratio, two_sided
from skdp.metrics.fairness._rates import Mask, RateSums, variance_at

_PARITY_RANGE, _IMPACT_RANGE = (-1.0, 1.0), (0.0, np.inf)

_NEAR_0 = np.geomspace(1e-4, 0.02, 38)  # of few rows that are selected, or not, the possible differences end near 0
_DIFFERENCES = np.unique([*np.linspace(-1, 1, 81), *_NEAR_0, *-_NEAR_0])
_ANGLES = np.linspace(0, np.pi / 2, 65)  # of ratios
_PLACES = np.linspace(0, 1, 33)  # on a line of pairs of rates
_ALIKE = 1e-6
_IMPOSSIBLE = 1e300  # a squared score, of which two can be added up
_HALVINGS = 6  # of the step of a grid that an end is in

Scores = tuple[Numbers, Numbers]
"""Least squared scores over some rates, and how many of the rates that have them are 0 or 1."""

Score = Callable[[Numbers], Numbers]
"""The squared score of each group's own value, of one degree of freedom."""


def compare(sums: RateSums, rows: str, level: float) -> list[Estimate]:
    """Compare groups with the last one: differences, and the ratio of the selection rates."""
    rates, _ = sums.estimate(rows, level)
    found = _subtract(sums, rates, level)
    # Ends follow from rates that are not cut at 0 and 1: the distances from a cut rate to a cut end are too short, as
    # soon as two are added up. The difference is cut.
    free, bounded = sums.unlimited(rows, level)
    wide, usual = sums.for_ends(rows), bounded[..., :-1] & bounded[..., -1:]
    ends = _subtract(wide, free, level)
    with np.errstate(invalid="ignore"):
        odds, odds_ends = (combine((0.5, part[..., 1, :]), (0.5, part[..., 2, :])) for part in (found, ends))
    limited = ends
    if sums.scales is None:  # the ends of known groups are of possible rates
        least, most = _limits(sums, rows, level)
        odds_ends = _clip(odds_ends, *((part[..., 1, :] + part[..., 2, :]) / 2 for part in (least, most)))
        limited = _clip(ends, least, most)
    if not usual.all():
        scores = _difference_scores(wide, rows)
        both = _of_one(_odds_scores(scores, ends, usual, level), 4)
        odds_ends = _or_scores(usual[..., 1, :] & usual[..., 2, :], odds_ends, both, level)
        limited = _or_scores(
            usual, limited, _of_one(scores, 2), level, lambda place: _of_one(_difference_score(wide, rows, place), 2)
        )
    selection, tpr = (_cut(found, limited)[..., place, :] for place in range(2))
    return [selection, _impact(sums, rows, level), tpr, _cut(odds, odds_ends)]


def _subtract(sums: RateSums, rates: Estimate, level: float) -> Estimate:
    """Return the differences of rates from those of the last group."""
    others, own = rates[..., :-1], rates[..., -1:]
    with np.errstate(divide="ignore", invalid="ignore"):
        # Noise that moves rows from one group to the other moves both rates, in opposite directions.
        found = combine((1, others), (-1, own), common=_common(sums, others, own, level))
        variance = found.std_error**2 - 2 * sums.covariance(others.value, own.value)
    return replace(found, std_error=np.sqrt(np.maximum(variance, 0)))


def _common(sums: RateSums, others: Estimate, own: Estimate, level: float) -> tuple[Numbers, Numbers]:
    """Return the covariance of rates at either end of their difference, in units of their ends."""
    low, high = (sums.covariance(t, u) for t, u in ((others.lower, own.upper), (others.upper, own.lower)))
    return two_sided(level) ** 2 * low, two_sided(level) ** 2 * high


def _limits(sums: RateSums, rows: str, level: float) -> tuple[Numbers, Numbers]:
    """Return the least and the largest difference of a likely rate and any rate between 0 and 1."""
    # The difference t − u is at most t, as u is at least 0. The intervals of the difference and of t may both fail to
    # hold the truth, so that of t is wider: its quantile is that of two degrees of freedom.
    wide = 1 - 2 * float(ndtr(-np.sqrt(chdtri(2, 1 - level))))
    rates, _ = sums.estimate(rows, wide)
    others, own = rates[..., :-1], rates[..., -1:]
    return np.maximum(others.lower - 1, -own.upper), np.minimum(others.upper, 1 - own.lower)


def _clip(ends: Estimate, least: Numbers, most: Numbers) -> Estimate:
    return replace(ends, lower=np.clip(ends.lower, least, most), upper=np.clip(ends.upper, least, most))


def _or_scores(usual: Mask, ends: Estimate, scores: Numbers, level: float, score: Score | None = None) -> Estimate:
    lower, upper = _ends(_DIFFERENCES, scores, level, score)
    return replace(ends, lower=np.where(usual, ends.lower, lower), upper=np.where(usual, ends.upper, upper))


def _cut(found: Estimate, ends: Estimate) -> Estimate:
    """Cut ends to the possible differences; the estimate, of rates that are cut, is always between them."""
    ends = ends.within(*_PARITY_RANGE)
    return replace(found, lower=np.fmin(ends.lower, found.value), upper=np.fmax(ends.upper, found.value))


def _impact(sums: RateSums, rows: str, level: float) -> Estimate:
    """Return the ratio of the selection rates to that of the last group."""
    rates, bounded = sums.estimate(rows, level)
    wide = sums.for_ends(rows)
    others, own, usual = rates[..., :-1], rates[..., -1:], (bounded[..., :-1] & bounded[..., -1:])[..., 0, :]
    first, last = others[..., 0, :], own[..., 0, :]
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = _common(wide, others, own, level)
        common = sums.covariance(others.value, own.value)[..., 0, :]
        impact = ratio(first, last, common=(low[..., 0, :], high[..., 0, :]))
        if not usual.all():
            scores = _of_one(_ratio_scores(wide, rows), 2)
            ends = _ends(_ANGLES, scores, level, lambda angle: _of_one(_ratio_score(wide, rows, angle), 2))
            impact = either(usual, impact, *(np.where(end < np.pi / 2, np.tan(end), np.inf)[..., 0, :] for end in ends))
        variance = impact.std_error**2 - 2 * impact.value * common / last.value**2
    counted = sums.counted[..., 0, :-1] | sums.counted[..., 0, -1:]
    value = np.where((first.value == 0) & (last.value == 0) & counted, 1.0, impact.value)
    # Where the noise of both groups is nearly the same, or both rates are 0, the ends may leave it out.
    lower, upper = (
        np.where(beyond, value, end)
        for beyond, end in ((impact.lower > value, impact.lower), (impact.upper < value, impact.upper))
    )
    found = Estimate(value, np.sqrt(np.maximum(variance, 0)), lower, upper)
    return found.where(counted).within(*_IMPACT_RANGE)


# Where the set of a rate is unbounded, as there may be no rows that it divides by, a comparison θ is in the set if a
# pair of rates (t, u) with this θ is: if the least squared standard score of ``top − t bottom`` and ``last top − u last
# bottom``, whose mean is 0, over all such pairs is at most that of the quantile. Guggenberger, Kleibergen, Mavroeidis
# and Chen (2012) show for equations that are linear like these that no more is needed, however little the sums say
# of the other rate, if that may be anything. If a rate of the best pair is 0 or 1, it could not be chosen: with one
# degree of freedom more where the estimate without this limit is beyond it, which half of the estimates are if the true
# rate is at the limit (Self and Liang 1987). Only one pair has the difference 1, and so two degrees.


def _difference_score(sums: RateSums, rows: str, difference: Numbers | float) -> Scores:
    return _least_score(sums, rows, difference, 1.0, 1.0)


def _difference_scores(sums: RateSums, rows: str) -> Scores:
    """Return the least squared score of each of `_DIFFERENCES`, of each rate and group."""
    return _stack(_difference_score(sums, rows, difference) for difference in _DIFFERENCES)


def _ratio_score(sums: RateSums, rows: str, angle: Numbers | float) -> Scores:
    return _least_score(sums, rows, 0.0, np.sin(angle), np.cos(angle))


def _ratio_scores(sums: RateSums, rows: str) -> Scores:
    """Return the least squared score of each of `_ANGLES`, whose tangent is the ratio."""
    return _stack(_ratio_score(sums, rows, angle) for angle in _ANGLES)


def _odds_scores(scores: Scores, ends: Estimate, usual: Mask, level: float) -> Scores:
    """Return the least squared score of two differences, of the true and the false positive rate, of each mean."""
    # A place stands for the differences that are closest to it, as the usual ends may be closer than two places.
    grid, half = (x.reshape(-1, *[1] * ends.value.ndim) for x in (_DIFFERENCES, np.gradient(_DIFFERENCES) / 2))
    apart = np.abs(grid - ends.value) - half
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        reach = np.where(grid < ends.value, ends.value - ends.lower, ends.upper - ends.value)
        square = np.nan_to_num((two_sided(level) * np.maximum(apart, 0) / reach) ** 2, posinf=_IMPOSSIBLE)
    least, at_ends = np.where(usual, square, scores[0]), np.where(usual, np.abs(grid) == 1, scores[1])
    found = []
    for mean in _DIFFERENCES:
        other = 2 * mean - _DIFFERENCES
        first = np.flatnonzero(np.abs(other) <= 1 + 1e-9)
        after = np.clip(np.searchsorted(_DIFFERENCES, other[first]), 1, len(grid) - 1)
        share = (other[first] - _DIFFERENCES[after - 1]) / np.diff(_DIFFERENCES)[after - 1]
        share = share.reshape(-1, *[1] * (ends.value.ndim - 1))
        of_both = [
            part[first, ..., 1, :] + (1 - share) * part[after - 1, ..., 2, :] + share * part[after, ..., 2, :]
            for part in (least, at_ends)
        ]
        best = of_both[0].argmin(axis=0)[np.newaxis]
        found.append([np.take_along_axis(part, best, axis=0)[0] for part in of_both])
    return _stack(found)


def _stack(scores: Iterable[Sequence[Numbers]]) -> Scores:
    least, at_ends = map(np.array, zip(*scores, strict=True))
    return least, at_ends


def _of_one(scores: Scores, n_equations: int) -> Numbers:
    """Return the squared scores of one degree of freedom that are as unlikely."""
    least, at_ends = scores
    more = np.arange(n_equations)
    chances = np.vstack([binom.pmf(more, more[:, np.newaxis], 0.5), more == n_equations - 1])[
        np.rint(at_ends).astype(np.intp)
    ]
    tail = (chances * chdtrc(1 + more, least[..., np.newaxis])).sum(axis=-1)
    found: Numbers = chdtri(1, np.maximum(tail, 1e-300))
    return found


def _least_score(
    sums: RateSums, rows: str, start: Numbers | float, slope: Numbers | float, own_slope: Numbers | float
) -> tuple[Numbers, Numbers]:
    """Return the least squared score over the pairs of rates ``start + slope r`` and ``own_slope r``."""
    start, slope, own_slope = (np.asarray(part, float)[..., np.newaxis] for part in (start, slope, own_slope))
    moments = sums.moments(rows)[..., np.newaxis, :]
    top, bottom, shared = sums.top[..., np.newaxis], sums.bottom[..., np.newaxis], sums.shared[..., :-1, np.newaxis, :]
    most = np.minimum((1 - start) / np.maximum(slope, 1e-12), 1 / np.maximum(own_slope, 1e-12))
    places = np.maximum(0.0, -start) + (most - np.maximum(0.0, -start)) * _PLACES
    # If the two groups are all rows, their tops add up to a known number, and only the pairs of rates are possible that
    # give it, of any number of rows that the first group may have: these are tried, too.
    total = top[..., :-1, :] + top[..., -1:, :], bottom[..., :-1, :] + bottom[..., -1:, :]
    mean = np.divide(total[0], total[1], out=np.zeros_like(total[0]), where=total[1] > 0)
    slopes = np.maximum(_PLACES * slope + (1 - _PLACES) * own_slope, 1e-12)
    known = np.clip((mean - _PLACES * start) / slopes, places[..., :1], places[..., -1:])
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
    scores = square / determinant
    best = scores.argmin(axis=-1)[..., np.newaxis]
    least, r = (np.take_along_axis(part, best, axis=-1)[..., 0] for part in (scores, r))
    at_ends: Numbers = np.add(r <= places[..., 0], r >= places[..., -1], dtype=np.float64)
    return least, at_ends


def _ends(grid: Numbers, scores: Numbers, level: float, score: Score | None = None) -> tuple[Numbers, Numbers]:
    """Return the ends of the values whose score is at most that of the level, or the next places of a grid."""
    distance, usual = np.sqrt(np.maximum(scores, 0)), two_sided(level)
    # Where no pair is likely, the set is that of pairs that are not much less likely than the best one.
    least = distance.min(axis=0)
    quantile = np.where(least > usual, np.hypot(least, usual), usual)
    inside = distance <= quantile
    ends = []
    for step, first in ((1, inside.argmax(axis=0)), (-1, len(grid) - 1 - inside[::-1].argmax(axis=0))):
        likely, beyond = grid[first], grid[np.clip(first - step, 0, len(grid) - 1)]
        # Scores are no straight lines between two places: what is possible may end there.
        if score is not None:
            for _ in range(_HALVINGS):
                middle = (likely + beyond) / 2
                within = np.sqrt(np.maximum(score(middle), 0)) <= quantile
                likely, beyond = np.where(within, middle, likely), np.where(within, beyond, middle)
        ends.append(beyond)
    return ends[0], ends[1]


def either(usual: Mask, estimate: Estimate, lower: Numbers, upper: Numbers) -> Estimate:
    """Replace the ends where the usual ones do not hold; the estimate is always between them."""
    lower, upper = np.fmin(lower, estimate.value), np.fmax(upper, estimate.value)
    ends = np.where(usual, estimate.lower, lower), np.where(usual, estimate.upper, upper)
    return Estimate(estimate.value, estimate.std_error, *ends)
