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
    """What everything is computed from: for each cell [y, ŷ], the values that indicators take, and how often.

    Attributes
    ----------
    cells : ndarray of shape (m,)
        The cell ``2 y + ŷ`` of each distinct pair of a cell and an indicator.
    indicators : ndarray of shape (m,)
        Its indicator.
    repeats : ndarray of shape (m,)
        How many rows have it.
    """

    cells: NDArray[np.intp]
    indicators: NDArray[np.float64]
    repeats: NDArray[np.int64]

    @classmethod
    def of(cls, indicators: NDArray[np.float64], cells: NDArray[np.intp]) -> IndicatorSums:
        """Sum up the rows of a table.

        Parameters
        ----------
        indicators : ndarray of shape (n_samples,)
            Unbiased indicators of the privileged rows.
        cells : ndarray of shape (n_samples,)
            The cell of each row, ``2 y + ŷ``.

        Returns
        -------
        IndicatorSums
            The sums.
        """
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
    def counts(self) -> NDArray[np.float64]:  # numpydoc ignore=RT01
        """The estimated number of rows of each group (unprivileged, privileged), y and ŷ."""
        return _to_counts(self._moment(0), self._moment(1))

    @property
    def coin_variances(self) -> NDArray[np.float64]:  # numpydoc ignore=RT01
        """The variances over the coins of the privileged count of each cell."""
        return np.maximum(self._moment(2) - self._moment(1), 0)

    def variances(self, gradients: NDArray[np.float64], rows: str) -> NDArray[np.float64]:
        """Return the variances of metrics.

        Parameters
        ----------
        gradients : ndarray of shape (n_metrics, 2, 2, 2)
            The derivatives of each metric by the counts.
        rows : {"fixed", "sampled"}
            Whether only the coins are random, or the rows too.

        Returns
        -------
        ndarray of shape (n_metrics,)
            The variances, to first order.
        """
        other, own = gradients.reshape(-1, 2, 4).transpose(1, 0, 2)
        slope = own - other
        if rows == "fixed":
            return slope**2 @ self.coin_variances
        # The squared influences of the rows: each is other (1 − ψ) + own ψ.
        return other**2 @ self._moment(0) + 2 * (other * slope) @ self._moment(1) + slope**2 @ self._moment(2)

    def resample(self, rows: str, n_resamples: int, generator: np.random.Generator) -> NDArray[np.float64]:
        """Return the counts of resampled reports.

        Parameters
        ----------
        rows : {"fixed", "sampled"}
            Whether reports are resampled within each cell, their deviations shrunk to those of the coins, or rows.
        n_resamples : int
            How often.
        generator : numpy.random.Generator
            Where the draws come from.

        Returns
        -------
        ndarray of shape (n_resamples, 2, 2, 2)
            Counts by group, y and ŷ.
        """
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


def _rates(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return selection, true and false positive rates (first axis) of each group (second axis); nan for 0/0."""
    over, under = (np.einsum("...gyp,ryp->...rg", counts, which) for which in (OVER, UNDER))
    return np.divide(over, under, out=np.full(over.shape, np.nan), where=under > 0)


def measures(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute the metrics of counts.

    Parameters
    ----------
    counts : ndarray of shape (..., 2, 2, 2)
        Counts by group (unprivileged, privileged), y and ŷ.

    Returns
    -------
    ndarray of shape (..., 10)
        Selection, true and false positive rates, each of both groups; statistical parity difference, disparate impact,
        equal opportunity and average odds difference. nan where one divides by nothing.
    """
    rates = _rates(counts)
    difference = rates[..., 0] - rates[..., 1]
    ratio = np.divide(
        rates[..., 0, 0],
        rates[..., 0, 1],
        out=np.full(rates.shape[:-2], np.nan),
        where=rates[..., 0, 1] > 0,
    )
    four = [difference[..., 0], ratio, difference[..., 1], (difference[..., 1] + difference[..., 2]) / 2]
    return np.concatenate([rates.reshape(*rates.shape[:-2], 6), np.stack(four, axis=-1)], axis=-1)


def gradients(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Differentiate the metrics.

    Parameters
    ----------
    counts : ndarray of shape (2, 2, 2)
        Counts by group, y and ŷ.

    Returns
    -------
    ndarray of shape (10, 2, 2, 2)
        The derivatives of each of `measures` by each count.
    """
    rates = _rates(counts)
    by_counts = np.zeros((3, 2, 2, 2, 2))
    for group in range(2):
        under = np.einsum("yp,ryp->r", counts[group], UNDER)[:, np.newaxis, np.newaxis]
        top = OVER - rates[:, group, np.newaxis, np.newaxis] * UNDER
        by_counts[:, group, group] = np.divide(top, under, out=np.full(top.shape, np.nan), where=under > 0)
    difference = by_counts[:, 0] - by_counts[:, 1]
    other, own = rates[0]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = (by_counts[0, 0] - other / own * by_counts[0, 1]) / own
    four = np.stack([difference[0], ratio, difference[1], (difference[1] + difference[2]) / 2])
    return np.concatenate([by_counts.reshape(6, 2, 2, 2), four])


def find_defined(sums: IndicatorSums, reach: float) -> NDArray[np.bool_]:
    """Say which metrics divide by what can be told from 0.

    Parameters
    ----------
    sums : IndicatorSums
        The sums of the table.
    reach : float
        How many standard errors, over the coins, a number must be above 0.

    Returns
    -------
    ndarray of shape (10,), dtype bool
        Whether each of `measures` is defined.
    """
    variances = sums.coin_variances.reshape(2, 2)

    def is_told(cells: NDArray[np.float64]) -> Any:  # numpydoc ignore=GL08
        sizes = np.einsum("gyp,...yp->...g", sums.counts, cells)
        errors = np.sqrt(np.einsum("yp,...yp->...", variances, cells**2))
        return (sizes > reach * errors[..., np.newaxis]) & (sizes > 1e-6)

    rates = is_told(UNDER)
    both = rates.all(axis=1)
    ratio = both[0] and is_told(OVER[0])[1]
    return np.array([*rates.ravel(), both[0], ratio, both[1], both[1] and both[2]])
