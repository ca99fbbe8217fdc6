"""A noisy table of counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skdp.synthesis._junction_tree import Clique

Groups = tuple[NDArray[np.intp] | None, ...]
"""For each column the group of each of its values; None where each value is counted by itself."""


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
    groups : tuple of (ndarray of int or None), optional
        Rare values may be counted together: then the group of each value of each column, and the axis of the column has
        a count a group.
    """

    clique: Clique
    counts: NDArray[np.float64]
    std_error: float
    groups: Groups | None = None

    @property
    def shape(self) -> tuple[int, ...]:  # numpydoc ignore=RT01
        """The number of counts along each column."""
        return self.counts.shape

    @property
    def total(self) -> tuple[float, float]:  # numpydoc ignore=RT01
        """The noisy number of records, and the variance of its noise."""
        return float(self.counts.sum()), self.counts.size * self.std_error**2


def group(table: NDArray, groups: Groups | None) -> NDArray:
    """Sum the cells of a table by groups of values.

    Parameters
    ----------
    table : ndarray, an axis a column
        Counts or probabilities.
    groups : tuple of (ndarray of int or None), or None
        The group of each value of each column.

    Returns
    -------
    ndarray
        The sums; integers stay integers.

    Examples
    --------
    >>> group(np.array([[1, 2, 3], [4, 5, 6]]), (None, np.array([0, 1, 1]))).tolist()
    [[1, 5], [4, 11]]
    """
    for axis, members in enumerate(groups or ()):
        if members is not None:
            indicator = np.eye(members.max() + 1, dtype=table.dtype)[members]
            table = np.moveaxis(np.moveaxis(table, axis, -1) @ indicator, -1, axis)
    return table


def spread(table: NDArray[np.float64], groups: Groups | None) -> NDArray[np.float64]:
    """Give each cell what its group has: the adjoint of `group`.

    Parameters
    ----------
    table : ndarray, an axis a column
        A number a group.
    groups : tuple of (ndarray of int or None), or None
        The group of each value of each column.

    Returns
    -------
    ndarray
        A number a cell.
    """
    for axis, members in enumerate(groups or ()):
        if members is not None:
            table = np.take(table, members, axis)
    return table


def merge(marginals: Sequence[Marginal]) -> list[Marginal]:
    """Combine releases of the same columns, weighted by their inverse variances.

    Parameters
    ----------
    marginals : sequence of Marginal
        Any; those of grouped values stay as they are.

    Returns
    -------
    list of Marginal
        One for each set of columns, and the grouped ones.
    """
    found: dict[Clique, Marginal] = {}
    grouped = [marginal for marginal in marginals if marginal.groups is not None]
    for marginal in marginals:
        if marginal.groups is not None:
            continue
        other = found.get(marginal.clique)
        if other is None:
            found[marginal.clique] = marginal
            continue
        weights = other.std_error**-2, marginal.std_error**-2
        counts = (weights[0] * other.counts + weights[1] * marginal.counts) / sum(weights)
        found[marginal.clique] = Marginal(marginal.clique, counts, 1 / math.sqrt(sum(weights)))
    return [*found.values(), *grouped]


def estimate_total(marginals: Sequence[Marginal]) -> tuple[float, float]:
    """Estimate the number of records from noisy counts, which costs nothing more.

    Parameters
    ----------
    marginals : sequence of Marginal
        Noisy counts of the same records.

    Returns
    -------
    tuple of float
        The mean of their sums, weighted by the inverse variances, but at least 1; and its standard error.
    """
    totals, variances = np.array([marginal.total for marginal in marginals]).T
    weights = 1 / variances
    return max(1.0, float(weights @ totals / weights.sum())), float(1 / math.sqrt(weights.sum()))
