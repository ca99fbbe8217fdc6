"""A noisy table of counts."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skdp.synthesis._junction_tree import Clique


@dataclass(frozen=True, eq=False)
class Marginal:  # numpydoc ignore=PR02
    """The noisy counts of all cells of some columns.

    Parameters
    ----------
    clique : tuple of int
        The columns, increasing.
    counts : ndarray, an axis a column
        The counts with noise: whole numbers, or means of several releases.
    std_error : float
        The standard deviation of the noise of each count, positive.
    """

    clique: Clique
    counts: NDArray[np.float64]
    std_error: float

    @property
    def total(self) -> tuple[float, float]:  # numpydoc ignore=RT01
        """The noisy number of records, and the variance of its noise."""
        return float(self.counts.sum()), self.counts.size * self.std_error**2


def merge(marginals: list[Marginal]) -> list[Marginal]:
    """Combine releases of the same columns, weighted by their inverse variances.

    Parameters
    ----------
    marginals : list of Marginal
        Any.

    Returns
    -------
    list of Marginal
        One for each set of columns.
    """
    found: dict[Clique, Marginal] = {}
    for marginal in marginals:
        other = found.get(marginal.clique)
        if other is None:
            found[marginal.clique] = marginal
            continue
        weights = other.std_error**-2, marginal.std_error**-2
        counts = (weights[0] * other.counts + weights[1] * marginal.counts) / sum(weights)
        found[marginal.clique] = Marginal(marginal.clique, counts, 1 / math.sqrt(sum(weights)))
    return list(found.values())


def estimate_total(marginals: list[Marginal]) -> tuple[float, float]:
    """Estimate the number of records from noisy counts, which costs nothing more.

    Parameters
    ----------
    marginals : list of Marginal
        Noisy counts of the same records.

    Returns
    -------
    tuple of float
        The mean of their sums, weighted by the inverse variances, but at least 1; and its standard error.
    """
    totals, variances = np.array([marginal.total for marginal in marginals]).T
    weights = 1 / variances
    return max(1.0, float(weights @ totals / weights.sum())), float(1 / math.sqrt(weights.sum()))
