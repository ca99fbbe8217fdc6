"""Rates of two groups, their differences and their variances, from unbiased indicators of one of the groups."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.metrics.fairness import Estimate, Numbers, combine, ratio, two_sided

# The cells [y, ŷ] that a rate counts, and those that it divides by: selection, true positives, false positives.
OVER = np.array([[[0, 1], [0, 1]], [[0, 0], [0, 1]], [[0, 1], [0, 0]]], float)
UNDER = np.array([[[1, 1], [1, 1]], [[0, 0], [1, 1]], [[1, 1], [0, 0]]], float)


@dataclass(frozen=True)
class IndicatorSums:
    """The values of the indicators and their counts, for each cell [y, ŷ]."""

    cells: NDArray[np.intp]
    indicators: Numbers
    repeats: NDArray[np.int64]

    @classmethod
    def of(cls, indicators: Numbers, cells: NDArray[np.intp]) -> IndicatorSums:
        found = []
        for cell in range(4):
            # Rounded, as the last digit of a sum depends on the order.
            values, repeats = np.unique(np.round(indicators[cells == cell], 9), return_counts=True)
            found.append((np.full(len(values), cell), values, repeats))
        return cls(*(np.concatenate(column) for column in zip(*found, strict=True)))

    def _moment(self, power: int, repeats: NDArray[Any] | None = None) -> Numbers:
        """Sum a power of the indicators of each cell, for each resample if there are several."""
        weights = (self.repeats if repeats is None else repeats) * self.indicators**power
        return np.stack([weights[..., self.cells == cell].sum(axis=-1) for cell in range(4)], axis=-1)

    @property
    def counts(self) -> Numbers:
        """The estimated number of rows of each group (unprivileged, privileged), y and ŷ."""
        return _to_counts(self._moment(0), self._moment(1))

    @property
    def noise_variances(self) -> Numbers:
        """The variances over the noise of the privileged count of each cell."""
        return np.maximum(self._moment(2) - self._moment(1), 0)

    def variances(self, gradients: Numbers, rows: str) -> Numbers:
        other, own = gradients.reshape(-1, 2, 4).transpose(1, 0, 2)
        slope = own - other
        if rows == "fixed":
            return slope**2 @ self.noise_variances
        # The influence of a row is other (1 − ψ) + own ψ.
        return other**2 @ self._moment(0) + 2 * (other * slope) @ self._moment(1) + slope**2 @ self._moment(2)

    def resample(self, rows: str, n_resamples: int, generator: np.random.Generator) -> Numbers:
        """Return the counts of resampled reports."""
        n = int(self.repeats.sum())
        if rows == "sampled":
            repeats = generator.multinomial(n, self.repeats / n, size=n_resamples)
            return _to_counts(self._moment(0, repeats), self._moment(1, repeats))
        repeats = np.empty((n_resamples, len(self.repeats)), np.int64)
        for cell in np.unique(self.cells):
            own = self.cells == cell
            total = self.repeats[own].sum()
            repeats[:, own] = generator.multinomial(total, self.repeats[own] / total, size=n_resamples)
        size, mean = self._moment(0), self._moment(1)
        spread = self._moment(2) - mean**2 / np.maximum(size, 1)
        # Reports vary by their noise and by their true groups, and the latter are given.
        share = np.sqrt(np.divide(self.noise_variances, spread, out=np.zeros(4), where=spread > 1e-9))
        return _to_counts(size, mean + share * (self._moment(1, repeats) - mean))


def _to_counts(sizes: Numbers, privileged: Numbers) -> Numbers:
    return np.stack(np.broadcast_arrays(sizes - privileged, privileged), axis=-2).reshape(
        *privileged.shape[:-1], 2, 2, 2
    )


def estimate_rates(counts: Numbers) -> Numbers:
    """Estimate the rates of both groups, with negative counts set to 0."""
    over, under = (np.einsum("...gyp,ryp->...rg", counts, which) for which in (OVER, UNDER))
    positive, negative = np.maximum(over, 0), np.maximum(under - over, 0)
    total = positive + negative
    return np.divide(positive, total, out=np.full(over.shape, np.nan), where=total > 1e-9)


def compare_rates(rates: Numbers) -> Numbers:
    difference = rates[..., 0] - rates[..., 1]
    other, own = rates[..., 0, 0], rates[..., 0, 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where((other == 0) & (own == 0), 1.0, other / own)
    four = [difference[..., 0], ratio, difference[..., 1], (difference[..., 1] + difference[..., 2]) / 2]
    return np.concatenate([rates.reshape(*rates.shape[:-2], 6), np.stack(four, axis=-1)], axis=-1)


def measures(counts: Numbers) -> Numbers:
    return compare_rates(estimate_rates(counts))


def gradients(counts: Numbers) -> Numbers:
    over, under = (np.einsum("gyp,ryp->rg", counts, which) for which in (OVER, UNDER))
    rates = np.divide(over, under, out=np.full(over.shape, np.nan), where=under > 0)
    by_counts = np.zeros((3, 2, 2, 2, 2))
    for group in range(2):
        size = under[:, group, np.newaxis, np.newaxis]
        top = OVER - rates[:, group, np.newaxis, np.newaxis] * UNDER
        by_counts[:, group, group] = np.divide(top, size, out=np.full(top.shape, np.nan), where=size > 0)
    difference = by_counts[:, 0] - by_counts[:, 1]
    other, own = rates[0]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = (by_counts[0, 0] - other / own * by_counts[0, 1]) / own
    four = np.stack([difference[0], ratio, difference[1], (difference[1] + difference[2]) / 2])
    return np.concatenate([by_counts.reshape(6, 2, 2, 2), four])


def find_defined(sums: IndicatorSums) -> NDArray[np.bool_]:
    """Return which metrics have rows to divide by, according to the labels."""
    sizes = np.bincount(sums.cells, sums.repeats, minlength=4).reshape(2, 2)
    rates = np.einsum("yp,ryp->r", sizes, UNDER) > 0
    ratio = rates[0] and sizes[:, 1].sum() > 0
    return np.array([*np.repeat(rates, 2), rates[0], ratio, rates[1], rates[1] and rates[2]])


LEAST = np.array([*[0.0] * 6, -1, 0, -1, -1])
MOST = np.array([*[1.0] * 6, 1, np.inf, 1, 1])
"""The possible range of each of `measures`."""


def bound(sums: IndicatorSums, rows: str, level: float) -> Estimate:
    """Estimate the metrics, with score intervals."""
    # A rate t = a / b, of sums over rows, is in the confidence set if ``a − t b``, of mean 0, is at most z standard
    # errors from 0. Its variance over the noise is ``(1 − t)² c₁ + t² c₀``, with the variances c₁ and c₀ of the numbers
    # of rows of the group that are predicted positive and negative; sampled rows add ``b t (1 − t)``, as Bernoulli
    # draws do. The set (Fieller 1954, and Wilson 1927 without noise) ends at the roots of a quadratic equation: it is
    # the part between them, or, where b is not significantly different from 0, the rest, or everything. The interval is
    # the smallest one that contains the set within [0, 1]. The ends of differences and the ratio follow from those of
    # the rates, at the relevant end, with the covariance of the rates of the two groups: as a report adds to one group
    # what it takes from the other, this is ``−((1 − t)(1 − t') c₁ + t t' c₀) / (b b')``. Where one of the two sets is
    # unbounded, the ends are those of all pairs of rates in the two intervals. Indexed by rate (selection, true and
    # false positive) and group (unprivileged, privileged).
    over, under = (np.einsum("gyp,ryp->rg", sums.counts, which) for which in (OVER, UNDER))
    noise = two_sided(level) ** 2 * sums.noise_variances.reshape(2, 2)
    positive = np.einsum("yp,ryp->r", noise, OVER)
    negative = np.einsum("yp,ryp->r", noise, UNDER) - positive
    drawn = two_sided(level) ** 2 * np.maximum(under, 0) if rows == "sampled" else np.zeros_like(under)
    lower, upper, bounded = _solve(over, under, positive[:, np.newaxis], negative[:, np.newaxis], drawn)
    found = estimate_rates(sums.counts)
    found = np.where(np.isnan(found), (lower + upper) / 2, found)
    values = compare_rates(found)
    errors = np.sqrt(sums.variances(gradients(sums.counts), rows))
    rates = Estimate(found, errors[:6].reshape(3, 2), np.minimum(lower, found), np.maximum(upper, found))
    other, own = rates[:, 0], rates[:, 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = (
            -((1 - t) * (1 - u) * positive + t * u * negative) / under.prod(axis=1)
            for t, u in ((other.lower, own.upper), (other.upper, own.lower))
        )
        usual = np.asarray(bounded.all(axis=1))
        difference = combine((1, other), (-1, own), common=(low, high))
        differences = _either(usual, difference, other.lower - own.upper, other.upper - own.lower)
        odds = combine((0.5, differences[1]), (0.5, differences[2]))
        pair = differences[1:]
        odds = _either(usual[1:].all(), odds, pair.lower.mean(), pair.upper.mean())
        impact = ratio(other[0], own[0], common=(low[0], high[0]))
        impact = _either(usual[0], impact, other.lower[0] / own.upper[0], other.upper[0] / own.lower[0])
    compared = (differences[0], impact, differences[1], odds)
    ends = [
        np.concatenate([getattr(rates, end).ravel(), [getattr(one, end) for one in compared]])
        for end in ("lower", "upper")
    ]
    return Estimate(values, errors, *_cut(*ends))


def _solve(
    over: Numbers, under: Numbers, positive: Numbers, negative: Numbers, drawn: Numbers
) -> tuple[Numbers, Numbers, NDArray[np.bool_]]:
    """Return the ends in [0, 1] of the confidence sets, and which of them are between two roots."""
    # The set of t with ``(over − t under)² <= (1 − t)² positive + t² negative + t (1 − t) drawn``.
    square = under**2 - positive - negative + drawn
    middle, rest = over * under - positive + drawn / 2, over**2 - positive
    inside = middle**2 - square * rest
    bounded = (square > 0) & (under > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        root = np.sqrt(np.maximum(inside, 0))
        first, second = np.sort([(middle - root) / square, (middle + root) / square], axis=0)
    lower, upper = np.clip(first, 0, 1), np.clip(second, 0, 1)
    # Outside the roots: from 0 to the first one, if it is in [0, 1], and from the second one to 1.
    beyond = ~bounded & (square < 0) & (inside > 0)
    below, above = first >= 0, second <= 1
    lower = np.where(bounded, lower, np.where(beyond & ~below & above, upper, 0))
    upper = np.where(bounded, upper, np.where(beyond & below & ~above, np.clip(first, 0, 1), 1))
    return lower, upper, bounded


def _either(usual: NDArray[np.bool_] | np.bool_, estimate: Estimate, lower: Numbers, upper: Numbers) -> Estimate:
    """Replace the ends where the usual ones do not hold."""
    ends = np.where(usual, estimate.lower, lower), np.where(usual, estimate.upper, upper)
    return Estimate(estimate.value, estimate.std_error, *ends)


def _cut(lower: Numbers, upper: Numbers) -> tuple[Numbers, Numbers]:
    """Clip intervals to the possible range; unknown ones become the whole range."""
    return (
        np.clip(np.where(np.isnan(lower), LEAST, lower), LEAST, MOST),
        np.clip(np.where(np.isnan(upper), MOST, upper), LEAST, MOST),
    )


def resample(
    sums: IndicatorSums, rows: str, level: float, n_resamples: int, generator: np.random.Generator
) -> Estimate:
    """Estimate the metrics, with bootstrap percentile intervals."""
    values = compare_rates(np.nan_to_num(estimate_rates(sums.counts), nan=0.5))
    resampled = measures(sums.resample(rows, n_resamples, generator))
    unknown = np.isnan(resampled)
    one = NormalDist().cdf(1)
    low = np.sort(np.where(unknown, LEAST, resampled), axis=0)
    high = np.sort(np.where(unknown, MOST, resampled), axis=0)
    ends = [
        _quantile(ordered, share)
        for ordered, share in ((low, (1 - level) / 2), (high, (1 + level) / 2), (low, 1 - one), (high, one))
    ]
    with np.errstate(invalid="ignore"):
        return Estimate(values, (ends[3] - ends[2]) / 2, ends[0], ends[1])


def _quantile(ordered: Numbers, share: float) -> Numbers:
    """Return a quantile of each column, between its neighbours where these are finite."""
    place = share * (len(ordered) - 1)
    before, after = ordered[int(np.floor(place))], ordered[int(np.ceil(place))]
    weight = place % 1
    with np.errstate(invalid="ignore"):
        between = before + weight * (after - before)
    return np.where(np.isfinite(before) & np.isfinite(after), between, after if weight else before)
