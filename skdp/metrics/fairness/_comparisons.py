"""Comparisons of groups with the privileged one: differences and ratios of rates, and average odds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import chdtrc, chdtri, ndtr
from scipy.stats import binom

from skdp.metrics.fairness._intervals import Estimate, Numbers, combine, ratio, two_sided
from skdp.metrics.fairness._rates import Mask, RateSums, variance_at

_PARITY_RANGE, _IMPACT_RANGE = (-1.0, 1.0), (0.0, np.inf)

_NEAR_0 = np.geomspace(1e-4, 0.04, 20)  # of few rows that are selected, or not, the possible differences end near 0
_DIFFERENCES = np.unique([*np.linspace(-1, 1, 41), *_NEAR_0, *-_NEAR_0])
_ANGLES = np.linspace(0, np.pi / 2, 65)  # of ratios
_PLACES = np.linspace(0, 1, 13)  # on a line of pairs of rates
_PAIRS = np.sin(np.pi / 2 * np.sin(np.linspace(0, np.pi / 2, 65)) ** 2) ** 2
"""Places in a range of differences, most of them next to its ends."""

_ALIKE = 1e-6
_IMPOSSIBLE = 1e300  # a squared score, of which two can be added up
_HALVINGS = 10  # of the step of a grid that an end is in
_FAR = 1.5  # times the usual quantile: differences beyond are in no likely pair

Scores = tuple[Numbers, Numbers]
"""Least squared scores over some rates, and how many of the rates that have them are 0 or 1."""

Score = Callable[[Numbers], Numbers]
"""The distance of each group's own value, of which 1 is the largest likely one."""


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
    least, most = _limits(sums, rows, level)
    limited = _clip(ends, least, most)
    if not usual.all():

        def score(difference: Numbers | float) -> Numbers:
            return _distance(_difference_score(wide, rows, difference), 2, level)

        distances = np.array([score(place) for place in _DIFFERENCES])
        limited = _where(usual, limited, *_ends(_DIFFERENCES, distances, score))
        far = _ends(_DIFFERENCES, distances, score, most=_FAR)
        both = usual[..., 1, :] & usual[..., 2, :]
        odds_ends = _where(both, odds_ends, *_odds_ends(wide, rows, usual, ends, far, level))
    odds_ends = _clip(odds_ends, *((part[..., 1, :] + part[..., 2, :]) / 2 for part in (least, most)))
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


def _where(usual: Mask, ends: Estimate, lower: Numbers, upper: Numbers) -> Estimate:
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
            impact = either(usual, impact, *(end[..., 0, :] for end in _ratio_ends(wide, rows, level)))
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


def _ratio_ends(sums: RateSums, rows: str, level: float) -> tuple[Numbers, Numbers]:
    """Return the ends of ratios, which are tangents."""

    def score(angle: Numbers | float) -> Numbers:
        return _distance(_least_score(sums, rows, 0.0, np.sin(angle), np.cos(angle)), 2, level)

    ends = _ends(_ANGLES, np.array([score(angle) for angle in _ANGLES]), score)
    lower, upper = (np.where(end < np.pi / 2, np.tan(end), np.inf) for end in ends)
    return lower, upper


def _odds_ends(
    sums: RateSums, rows: str, usual: Mask, ends: Estimate, far: tuple[Numbers, Numbers], level: float
) -> tuple[Numbers, Numbers]:
    """Return the ends of the mean of two differences, of the true and the false positive rate."""
    # Of all pairs of differences whose scores add up to a likely one.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        reach = _FAR * (ends.lower - ends.value), _FAR * (ends.upper - ends.value)
        first, last = (np.where(usual, ends.value + one, end) for one, end in zip(reach, far, strict=True))
        places = first + (last - first) * _PAIRS.reshape(-1, *[1] * first.ndim)
        distance = (places - ends.value) / np.where(places < ends.value, *reach) * _FAR * two_sided(level)
        square = np.nan_to_num(distance**2, posinf=_IMPOSSIBLE)
    least, at_ends = _stack(_difference_score(sums, rows, place) for place in places)
    least, at_ends = np.where(usual, square, least), np.where(usual, 0, at_ends)
    (tpr, fpr), (at_tpr, at_fpr), (own, other) = (
        (part[..., 1, :], part[..., 2, :]) for part in (least, at_ends, places)
    )
    pairs = (tpr[:, np.newaxis] + fpr, at_tpr[:, np.newaxis] + at_fpr)
    distances = _distance(pairs, 4, level)
    inside = distances <= _farthest(distances.min(axis=(0, 1)), 1.0)
    # The next place beyond, as the set may end there.
    beyond = [np.concatenate([other[:1], other[:-1]]), np.concatenate([other[1:], other[-1:]])]
    lower, upper = ((own[:, np.newaxis] + one) / 2 for one in beyond)
    return np.where(inside, lower, np.inf).min(axis=(0, 1)), np.where(inside, upper, -np.inf).max(axis=(0, 1))


def _stack(scores: Iterable[Sequence[Numbers]]) -> Scores:
    least, at_ends = map(np.array, zip(*scores, strict=True))
    return least, at_ends


def _distance(scores: Scores, n_equations: int, level: float) -> Numbers:
    """Return the roots of least squared scores, in units of the largest likely one."""
    least, at_ends = scores
    found: Numbers = np.sqrt(least / _quantiles(n_equations, level)[np.rint(at_ends).astype(np.intp)])
    return found


@cache
def _quantiles(n_equations: int, level: float) -> Numbers:
    """Return the largest likely squared score, by the number of rates at 0 and 1."""
    more = np.arange(n_equations)
    chances = [*binom.pmf(more, more[:, np.newaxis], 0.5), more == n_equations - 1]
    most = float(chdtri(n_equations, 1 - level))

    def excess(q: float, own: Numbers) -> float:
        return float(own @ chdtrc(1 + more, q)) - (1 - level)

    return np.array([brentq(excess, 0, most + 1, args=(own,)) for own in chances])


def _least_score(
    sums: RateSums, rows: str, start: Numbers | float, slope: Numbers | float, own_slope: Numbers | float
) -> Scores:
    """Return the least squared score over the pairs of rates ``start + slope r`` and ``own_slope r``."""
    start, slope, own_slope = (np.asarray(part, float)[..., np.newaxis] for part in (start, slope, own_slope))
    moments = sums.moments(rows)[..., np.newaxis, :]
    top, bottom, shared = sums.top[..., np.newaxis], sums.bottom[..., np.newaxis], sums.shared[..., :-1, np.newaxis, :]
    error, own_error = top[..., :-1, :] - start * bottom[..., :-1, :], top[..., -1:, :]
    change, own_change = slope * bottom[..., :-1, :], own_slope * bottom[..., -1:, :]
    first = np.maximum(0.0, -start)
    last = np.minimum((1 - start) / np.maximum(slope, 1e-12), 1 / np.maximum(own_slope, 1e-12))

    def noise(r: Numbers) -> tuple[Numbers, Numbers, Numbers, Numbers]:
        """Return the variances, the covariance and the determinant."""
        t, u = start + slope * r, own_slope * r
        variance, own_variance = (
            np.maximum(variance_at(part, at), 1e-12) * (1 + _ALIKE)
            for part, at in ((moments[..., :-1, :, :], t), (moments[..., -1:, :, :], u))
        )
        both = variance * own_variance
        common = shared[..., 2] - (t + u) * shared[..., 1] + t * u * shared[..., 0]
        common = np.clip(common, -np.sqrt(both), np.sqrt(both))
        return variance, own_variance, common, np.maximum(both - common**2, _ALIKE * both)

    def score(r: Numbers) -> Numbers:
        variance, own_variance, common, determinant = noise(r)
        e, own = error - r * change, own_error - r * own_change
        square = e**2 * own_variance - 2 * e * own * common + own**2 * variance
        return np.maximum(square, 0) / determinant

    # Where a rate is well known, its score is small in a narrow place. The least squares at the noise of each place of
    # a grid come near it, and the neighbours of the best place are divided further.
    r = np.broadcast_to(first + (last - first) * _PLACES, (*error.shape[:-1], len(_PLACES)))
    best = r
    for _ in range(2):
        variance, own_variance, common, _ = noise(best)
        along = change * (error * own_variance - own_error * common) + own_change * (
            own_error * variance - error * common
        )
        square = change**2 * own_variance - 2 * change * own_change * common + own_change**2 * variance
        with np.errstate(over="ignore"):
            best = np.clip(along / np.maximum(square, 1e-300), first, last)
    r = np.sort(np.concatenate([r, best], axis=-1), axis=-1)
    for _ in range(2):
        place = score(r).argmin(axis=-1)[..., np.newaxis]
        low, high = (np.take_along_axis(r, np.clip(place + step, 0, r.shape[-1] - 1), axis=-1) for step in (-1, 1))
        r = low + (high - low) * _PLACES
    scores = score(r)
    place = scores.argmin(axis=-1)[..., np.newaxis]
    least, r = (np.take_along_axis(part, place, axis=-1)[..., 0] for part in (scores, r))
    at_ends: Numbers = np.add(r <= first[..., 0] + 1e-9, r >= last[..., 0] - 1e-9, dtype=np.float64)
    return least, at_ends


def _ends(grid: Numbers, distances: Numbers, score: Score, most: float = 1.0) -> tuple[Numbers, Numbers]:
    """Return the ends of the values that are no farther than likely, or than some times of that."""
    quantile = _farthest(distances.min(axis=0), most)
    inside = distances <= quantile
    ends = []
    for step, first in ((1, inside.argmax(axis=0)), (-1, len(grid) - 1 - inside[::-1].argmax(axis=0))):
        likely, beyond = grid[first], grid[np.clip(first - step, 0, len(grid) - 1)]
        # Scores are no straight lines between two places: what is possible may end there.
        for _ in range(_HALVINGS):
            middle = (likely + beyond) / 2
            within = score(middle) <= quantile
            likely, beyond = np.where(within, middle, likely), np.where(within, beyond, middle)
        ends.append(beyond)
    return ends[0], ends[1]


def _farthest(least: Numbers, most: float) -> Numbers:
    """Return the largest likely distance: where no pair is likely, of those that are not much less so than the best."""
    return np.where(least > most, np.hypot(least, most), most)


def either(usual: Mask, estimate: Estimate, lower: Numbers, upper: Numbers) -> Estimate:
    """Replace the ends where the usual ones do not hold; the estimate is always between them."""
    return _where(usual, estimate, np.fmin(lower, estimate.value), np.fmax(upper, estimate.value))
