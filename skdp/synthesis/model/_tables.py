"""Tables with one axis per column, and noisy marginals."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

Clique = tuple[int, ...]
"""Increasing column numbers."""

Table = NDArray[np.float64]

Groups = tuple[NDArray[np.intp] | None, ...]
"""The group of each value, per column; None where each value is its own group."""


def shape_of(columns: Iterable[int], sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the shape of the table of some columns."""
    return tuple(sizes[column] for column in columns)


def n_cells_of(columns: Iterable[int], sizes: Sequence[int]) -> int:
    """Count the cells of the table of some columns."""
    return math.prod(shape_of(columns, sizes))


@cache
def _ones(size: int) -> Table:
    return np.ones(size)


def sum_out(table: Table, axis: int) -> Table:
    """Sum a table over one axis."""
    # A product with a vector of ones is up to 20 times as fast as np.sum where the
    # trailing axes are short.
    size = table.shape[axis]
    n_trailing = math.prod(table.shape[axis + 1 :])
    blocks = table.reshape(-1, size, n_trailing)
    sums = blocks[:, :, 0] @ _ones(size) if n_trailing == 1 else _ones(size) @ blocks
    return sums.reshape(table.shape[:axis] + table.shape[axis + 1 :])


def project(table: Table, columns: Clique, onto: Sequence[int]) -> Table:
    """Sum a table to the marginal of some of its columns, in their order."""
    remaining = list(columns)
    dropped = sorted(
        set(columns) - set(onto),
        key=lambda column: -table.shape[columns.index(column)],
    )
    for column in dropped:
        table = sum_out(table, remaining.index(column))
        remaining.remove(column)
    return np.transpose(table, [remaining.index(column) for column in onto])


def expand(table: NDArray, columns: Sequence[int], onto: Sequence[int]) -> NDArray:
    """Insert an axis of length 1 for each column that a table lacks."""
    sizes = dict(zip(columns, table.shape, strict=True))
    return table.reshape([sizes.get(column, 1) for column in onto])


def divide(numerator: Table, denominator: Table) -> Table:
    """Divide with 0 / 0 = 0."""
    zeros = np.zeros(np.broadcast_shapes(numerator.shape, denominator.shape))
    return np.divide(numerator, denominator, out=zeros, where=denominator > 0)


class Layout:
    """Layout of several tables in one vector."""

    def __init__(self, shapes: Iterable[Sequence[int]]) -> None:
        self._shapes = list(map(tuple, shapes))
        self.lengths = list(map(math.prod, self._shapes))
        stops = list(itertools.accumulate(self.lengths, initial=0))
        self.size = stops[-1]
        self._starts = stops[:-1]
        self._parts = [slice(*pair) for pair in itertools.pairwise(stops)]

    def join(self, tables: Iterable[NDArray]) -> NDArray:
        """Write the cells of all tables into one vector."""
        return np.concatenate([table.ravel() for table in tables])

    def split(self, vector: NDArray) -> list[NDArray]:
        """Return a view of each table."""
        pairs = zip(self._parts, self._shapes, strict=True)
        return [vector[part].reshape(shape) for part, shape in pairs]

    def sums(self, vector: Table) -> Table:
        """Sum the cells of each table."""
        return np.add.reduceat(vector, self._starts)


def group(table: NDArray, groups: Groups | None) -> NDArray:
    """Sum the cells of a table by groups of values."""
    for axis, members in enumerate(groups or ()):
        if members is None:
            continue
        # A product with a matrix of zeros and ones: (n_groups, n_values).
        numbers = np.arange(members.max() + 1)
        indicator = (numbers[:, np.newaxis] == members).astype(table.dtype)
        leading, trailing = table.shape[:axis], table.shape[axis + 1 :]
        blocks = table.reshape(math.prod(leading), members.size, math.prod(trailing))
        sums = indicator @ blocks if trailing else blocks[:, :, 0] @ indicator.T
        table = sums.reshape(*leading, -1, *trailing)
    return table


def spread(table: NDArray, groups: Groups | None) -> NDArray:
    """Repeat the number of each group for all of its values: the adjoint of `group`."""
    for axis, members in enumerate(groups or ()):
        if members is not None:
            table = np.take(table, members, axis)
    return table


@dataclass(frozen=True, eq=False)
class Marginal:
    """The noisy counts of all cells of some columns, possibly by groups of values."""

    clique: Clique
    counts: Table
    std_error: float
    groups: Groups | None = None

    @property
    def total(self) -> tuple[float, float]:
        """The noisy number of records, and its variance."""
        return float(self.counts.sum()), self.counts.size * self.std_error**2

    def groups_of(self, column: int) -> NDArray[np.intp] | None:
        """Return the groups of the values of one of its columns."""
        return self.groups[self.clique.index(column)] if self.groups else None

    def has_cells_of(self, columns: Iterable[int]) -> bool:
        """Return True if every combination of values of the columns has a count."""
        return all(c in self.clique and self.groups_of(c) is None for c in columns)

    def counts_of(self, columns: Sequence[int]) -> tuple[Table, float]:
        """Return the counts of some of its columns, and their standard error."""
        counts = project(self.counts, self.clique, columns)
        return counts, self.std_error * math.sqrt(self.counts.size / counts.size)


def merge(marginals: Iterable[Marginal]) -> list[Marginal]:
    """Combine ungrouped releases of the same columns by inverse variance."""
    releases: dict[Clique, list[Marginal]] = {}
    grouped = []
    for marginal in marginals:
        if marginal.groups is not None:
            grouped.append(marginal)
        else:
            releases.setdefault(marginal.clique, []).append(marginal)
    merged = []
    for clique, same in releases.items():
        merged.append(Marginal(clique, *estimate_counts(same, clique)))
    return [*merged, *grouped]


def estimate_counts(
    marginals: Iterable[Marginal], columns: Sequence[int]
) -> tuple[Table, float]:
    """Estimate counts by inverse-variance weighting; the error is infinite if unmeasured."""
    weighted = np.zeros(())
    precision = 0.0
    for marginal in marginals:
        if marginal.has_cells_of(columns):
            counts, std_error = marginal.counts_of(columns)
            weighted = weighted + counts * std_error**-2
            precision += std_error**-2
    if precision == 0:
        return weighted, math.inf
    return weighted / precision, precision**-0.5


def estimate_total(marginals: Iterable[Marginal]) -> tuple[float, float]:
    """Estimate the number of records and its standard error."""
    totals, variances = np.array([marginal.total for marginal in marginals]).T
    weights = 1 / variances
    mean = float(weights @ totals / weights.sum())
    return max(1.0, mean), float(weights.sum() ** -0.5)
