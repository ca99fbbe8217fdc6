"""A noisy table of counts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skdp.synthesis.model._junction_tree import Clique

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


def noise_of_marginal(
    marginals: Sequence[Marginal], columns: Sequence[int], sizes: Sequence[int]
) -> NDArray[np.float64]:
    """Return the standard deviation of the best estimate of each count of a marginal from what was measured."""
    # Each measurement that holds the columns gives the counts as sums of its own; they are weighted by their inverse
    # variances. Where it counted rare values together, it says nothing of cells with such a value.
    precision = np.zeros([sizes[column] for column in columns])
    for marginal in marginals:
        if not set(columns) <= set(marginal.clique):
            continue
        axes = [marginal.clique.index(column) for column in columns]
        groups = marginal.groups or (None,) * len(marginal.clique)
        alone = [_alone(groups[axis], sizes[column]) for axis, column in zip(axes, columns, strict=True)]
        summed = marginal.counts.size // math.prod(marginal.counts.shape[axis] for axis in axes)
        precision[np.ix_(*alone)] += 1 / (summed * marginal.std_error**2)
    return np.divide(1, np.sqrt(precision), out=np.full(precision.shape, np.nan), where=precision > 0)


def _alone(groups: NDArray[np.intp] | None, size: int) -> NDArray[np.bool_]:
    """Mark the values that are counted by themselves."""
    return np.ones(size, bool) if groups is None else np.bincount(groups)[groups] == 1


def count_cells(codes: Sequence[NDArray[np.integer]], sizes: Sequence[int]) -> NDArray[np.int64]:
    """Count the rows of each cell."""
    joint = codes[0].astype(np.intp)
    for column, size in zip(codes[1:], sizes[1:], strict=True):
        joint *= size
        joint += column
    return np.bincount(joint, minlength=math.prod(sizes)).reshape(sizes)


def cover(cliques: Sequence[tuple[int, ...]], sizes: Sequence[int], most: int) -> list[tuple[int, ...]]:
    """Find larger marginals, fewer of them, that hold some marginals: less work to count, and the sums are exact."""
    waiting = {frozenset(clique): None for clique in sorted(cliques, key=lambda clique: -_cells(clique, sizes))}
    found = []
    while waiting:
        held = set(next(iter(waiting)))
        while True:
            gains = Counter[int]()
            for clique in waiting:
                missing = clique - held
                if len(missing) == 1:
                    gains[next(iter(missing))] += 1
            fitting = [column for column in gains if _cells((*held, column), sizes) <= most]
            if not fitting:
                break
            held.add(max(fitting, key=lambda column: (gains[column], -sizes[column])))
        waiting = {clique: None for clique in waiting if not clique <= held}
        found.append(tuple(sorted(held)))
    return found


def _cells(columns: Iterable[int], sizes: Sequence[int]) -> int:
    return math.prod(sizes[column] for column in columns)
