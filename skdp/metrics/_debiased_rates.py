"""Rates of two groups, their differences and their variances, from unbiased indicators of one of the groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Which cells [y, ŷ] a rate counts, and which it divides by: selection, true positives, false positives.
OVER = np.array([[[0, 1], [0, 1]], [[0, 0], [0, 1]], [[0, 1], [0, 0]]], float)
UNDER = np.array([[[1, 1], [1, 1]], [[0, 0], [1, 1]], [[1, 1], [0, 0]]], float)


@dataclass(frozen=True)
class IndicatorSums:
    """What everything is computed from: for each cell [y, ŷ], the values that indicators take, and how often."""

    cells: NDArray[np.intp]
    indicators: NDArray[np.float64]
    repeats: NDArray[np.int64]

    @classmethod
    def of(cls, indicators: NDArray[np.float64], cells: NDArray[np.intp]) -> IndicatorSums:
        """Sum up the rows of a table."""
        found = []
        for cell in range(4):
            # Rounded, as the order of a sum shows in its last digit.
            values, repeats = np.unique(np.round(indicators[cells == cell], 9), return_counts=True)
            found.append((np.full(len(values), cell), values, repeats))
        return cls(*(np.concatenate(column) for column in zip(*found, strict=True)))

    def _moment(self, power: int, repeats: NDArray[Any] | None = None) -> NDArray[np.float64]:
        """Sum a power of the indicators of each cell; of several resamples, of each."""
        weights = (self.repeats if repeats is None else repeats) * self.indicators**power
        return np.stack([weights[..., self.cells == cell].sum(axis=-1) for cell in range(4)], axis=-1)

    @property
    def counts(self) -> NDArray[np.float64]:
        """The estimated number of rows of each group (unprivileged, privileged), y and ŷ."""
        return _to_counts(self._moment(0), self._moment(1))

    @property
    def coin_variances(self) -> NDArray[np.float64]:
        """The variances over the coins of the privileged count of each cell."""
        return np.maximum(self._moment(2) - self._moment(1), 0)

    def variances(self, gradients: NDArray[np.float64], rows: str) -> NDArray[np.float64]:
        """Return the variances of metrics."""
        other, own = gradients.reshape(-1, 2, 4).transpose(1, 0, 2)
        slope = own - other
        if rows == "fixed":
            return slope**2 @ self.coin_variances
        # The squared influences of the rows: each is other (1 − ψ) + own ψ.
        return other**2 @ self._moment(0) + 2 * (other * slope) @ self._moment(1) + slope**2 @ self._moment(2)

    def resample(self, rows: str, n_resamples: int, generator: np.random.Generator) -> NDArray[np.float64]:
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
        # Reports differ by their coins and by their true groups, and the latter are given.
        share = np.sqrt(np.divide(self.coin_variances, spread, out=np.zeros(4), where=spread > 1e-9))
        return _to_counts(size, mean + share * (self._moment(1, repeats) - mean))


def _to_counts(sizes: NDArray[np.float64], privileged: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.stack(np.broadcast_arrays(sizes - privileged, privileged), axis=-2).reshape(
        *privileged.shape[:-1], 2, 2, 2
    )


def estimate_rates(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Estimate the rates of both groups, with negative counts taken for 0."""
    over, under = (np.einsum("...gyp,ryp->...rg", counts, which) for which in (OVER, UNDER))
    positive, negative = np.maximum(over, 0), np.maximum(under - over, 0)
    total = positive + negative
    return np.divide(positive, total, out=np.full(over.shape, np.nan), where=total > 1e-9)


def compare_rates(rates: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute the metrics of rates."""
    difference = rates[..., 0] - rates[..., 1]
    other, own = rates[..., 0, 0], rates[..., 0, 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where((other == 0) & (own == 0), 1.0, other / own)
    four = [difference[..., 0], ratio, difference[..., 1], (difference[..., 1] + difference[..., 2]) / 2]
    return np.concatenate([rates.reshape(*rates.shape[:-2], 6), np.stack(four, axis=-1)], axis=-1)


def measures(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute the metrics of counts."""
    return compare_rates(estimate_rates(counts))


def gradients(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Differentiate the metrics."""
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
    """Say which metrics have rows to divide by, as the labels alone tell."""
    sizes = np.bincount(sums.cells, sums.repeats, minlength=4).reshape(2, 2)
    rates = np.einsum("yp,ryp->r", sizes, UNDER) > 0
    ratio = rates[0] and sizes[:, 1].sum() > 0
    return np.array([*np.repeat(rates, 2), rates[0], ratio, rates[1], rates[1] and rates[2]])
