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
class Marginal:
    """The noisy counts of all cells of some columns."""

    clique: Clique
    counts: NDArray[np.float64]
    std_error: float
    groups: Groups | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of counts along each column."""
        return self.counts.shape

    @property
    def total(self) -> tuple[float, float]:
        """The noisy number of records, and the variance of its noise."""
        return float(self.counts.sum()), self.counts.size * self.std_error**2


def group(table: NDArray, groups: Groups | None) -> NDArray:
    """Sum the cells of a table by groups of values."""
    for axis, members in enumerate(groups or ()):
        if members is not None:
            indicator = np.eye(members.max() + 1, dtype=table.dtype)[members]
            table = np.moveaxis(np.moveaxis(table, axis, -1) @ indicator, -1, axis)
    return table


def spread(table: NDArray[np.float64], groups: Groups | None) -> NDArray[np.float64]:
    """Give each cell what its group has: the adjoint of `group`."""
    for axis, members in enumerate(groups or ()):
        if members is not None:
            table = np.take(table, members, axis)
    return table


def merge(marginals: Sequence[Marginal]) -> list[Marginal]:
    """Combine releases of the same columns, weighted by their inverse variances."""
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
    """Estimate the number of records from noisy counts, which costs nothing more."""
    totals, variances = np.array([marginal.total for marginal in marginals]).T
    weights = 1 / variances
    return max(1.0, float(weights @ totals / weights.sum())), float(1 / math.sqrt(weights.sum()))
