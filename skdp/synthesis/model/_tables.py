"""Tables with an axis a column: their sums, products and quotients, and noisy counts."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Clique = tuple[int, ...]
"""Column numbers, increasing."""

Table = NDArray[np.float64]

_SMALL = 4096
"""Cells of a table, times marginals of it, that are summed by the cells' positions.

It decides the time only."""


def shape_of(columns: Iterable[int], sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the shape of the table of some columns."""
    return tuple(sizes[column] for column in columns)


def n_cells_of(columns: Iterable[int], sizes: Sequence[int]) -> int:
    """Return how many cells the table of some columns has."""
    return math.prod(shape_of(columns, sizes))


@cache
def _ones(size: int) -> Table:
    return np.ones(size)


def sum_out(table: Table, axis: int) -> Table:
    """Sum a table over one axis."""
    # NumPy sums slowly where the axes behind are short: a product with a vector of
    # ones is up to 20 times as fast.
    size = table.shape[axis]
    n_behind = math.prod(table.shape[axis + 1 :])
    blocks = table.reshape(-1, size, n_behind)
    if n_behind == 1:
        sums = blocks[:, :, 0] @ _ones(size)
    elif size == 1:
        sums = blocks[:, 0]
    else:
        sums = _ones(size) @ blocks
    return sums.reshape(table.shape[:axis] + table.shape[axis + 1 :])


def project(table: Table, columns: Clique, onto: Sequence[int]) -> Table:
    """Sum a table to its marginal of some columns, in their order."""
    remaining = list(columns)
    # The longest axes first: what is left to sum is smallest then.
    dropped = sorted(
        set(columns) - set(onto),
        key=lambda column: -table.shape[columns.index(column)],
    )
    for column in dropped:
        table = sum_out(table, remaining.index(column))
        remaining.remove(column)
    return np.transpose(table, [remaining.index(column) for column in onto])


def expand(table: NDArray, columns: Sequence[int], onto: Sequence[int]) -> NDArray:
    """Give a table an axis of length 1 for each column that it lacks."""
    sizes = dict(zip(columns, table.shape, strict=True))
    return table.reshape([sizes.get(column, 1) for column in onto])


def arrange(table: NDArray, columns: Sequence[int], onto: Sequence[int]) -> NDArray:
    """Give a table the axes of more columns, in their order."""
    order = [column for column in onto if column in columns]
    axes = list(map(list(columns).index, order))
    return expand(np.transpose(table, axes), order, onto)


def sum_others(table: NDArray, axes: Iterable[int]) -> NDArray:
    """Sum a table over all axes but some."""
    dropped = set(range(table.ndim)) - set(axes)
    return np.asarray(table.sum(axis=tuple(sorted(dropped))))


def divide(numerator: Table, denominator: Table) -> Table:
    """Divide, where 0 / 0 is 0: what has no probability stays without."""
    zeros = np.zeros_like(numerator)
    return np.divide(numerator, denominator, out=zeros, where=denominator > 0)


def peaks(logs: Table, axes: int | tuple[int, ...]) -> Table:
    """Return the largest logarithms, or 0 where all are minus infinity."""
    largest = logs.max(axis=axes, keepdims=True)
    return np.where(largest > -np.inf, largest, 0.0)


def is_small(n_cells: int, n_marginals: int) -> bool:
    """Return whether a table is summed by the positions of its cells."""
    return n_cells * max(1, n_marginals) <= _SMALL


class Positions:
    """The sums of small tables to marginals, in one vector, and the way back."""

    # Where tables are small, calls take more time than sums: here each sum has the
    # positions of its cells, in one vector of the cells of all tables.

    def __init__(
        self, tables: Iterable[tuple[Clique, Sequence[Clique]]], sizes: Sequence[int]
    ) -> None:
        cells = [np.empty(0, np.intp)]
        entries = [np.empty(0, np.intp)]
        self._n_cells = 0
        self.size = 0
        for columns, marginals in tables:
            shape = shape_of(columns, sizes)
            cells_of_table = np.arange(self._n_cells, self._n_cells + math.prod(shape))
            self._n_cells += cells_of_table.size
            for marginal in marginals:
                marginal_shape = shape_of(marginal, sizes)
                end = self.size + math.prod(marginal_shape)
                positions = np.arange(self.size, end).reshape(marginal_shape)
                self.size = end
                # Each cell of the table is a term of one entry of the marginal.
                of_cells = np.broadcast_to(expand(positions, marginal, columns), shape)
                entries.append(of_cells.ravel())
                cells.append(cells_of_table)
        self._cells = np.concatenate(cells)
        self._entries = np.concatenate(entries)

    def project(self, cells: Table) -> Table:
        """Sum the cells of all tables to the marginals."""
        sums = np.bincount(self._entries, cells[self._cells], self.size)
        return np.asarray(sums, float)

    def lift(self, vector: Table) -> Table:
        """Give each cell the sum of what its marginals have: the adjoint of `project`."""
        sums = np.bincount(self._cells, vector[self._entries], self._n_cells)
        return np.asarray(sums, float)


class Projections:
    """The sums of a table to several marginals, in one vector, and the way back."""

    # Columns are summed out one at a time, first those that most of the marginals
    # lack: a tree of tables, in which the sums of the large ones are few.

    def __init__(
        self, columns: Clique, marginals: Sequence[Clique], sizes: Sequence[int]
    ) -> None:
        self._shape = shape_of(columns, sizes)
        self._layout = Tables(marginal_shapes(marginals, sizes))
        self.size = self._layout.size
        self._positions: Positions | None = None
        self._same: list[slice] = []
        self._branches: list[tuple[int, NDArray[np.intp], Projections]] = []
        if is_small(math.prod(self._shape), len(marginals)):
            self._positions = Positions([(columns, marginals)], sizes)
            return
        remaining = []
        for index, marginal in enumerate(marginals):
            if marginal == columns:
                self._same.append(self._layout.parts[index])
            else:
                remaining.append(index)
        while remaining:
            remaining = self._branch(columns, sizes, marginals, remaining)

    def _branch(
        self,
        columns: Clique,
        sizes: Sequence[int],
        marginals: Sequence[Clique],
        remaining: list[int],
    ) -> list[int]:
        """Sum out the column that most marginals lack; return those that have it."""
        n_lacking = Counter[int]()
        for index in remaining:
            n_lacking.update(set(columns) - set(marginals[index]))
        column = max(columns, key=lambda column: (n_lacking[column], sizes[column]))
        axis = columns.index(column)
        numbers = np.arange(self.size)
        entries = []
        lacking = []
        having = []
        for index in remaining:
            if column in marginals[index]:
                having.append(index)
            else:
                lacking.append(marginals[index])
                entries.append(numbers[self._layout.parts[index]])
        smaller = Projections(columns[:axis] + columns[axis + 1 :], lacking, sizes)
        self._branches.append((axis, np.concatenate(entries), smaller))
        return having

    def project(self, table: Table) -> Table:
        """Sum a table to all of the marginals."""
        if self._positions is not None:
            return self._positions.project(table.ravel())
        vector = np.empty(self.size)
        for part in self._same:
            vector[part] = table.ravel()
        for axis, entries, smaller in self._branches:
            vector[entries] = smaller.project(sum_out(table, axis))
        return vector

    def lift(self, vector: Table) -> Table:
        """Give each cell the sum of what its marginals have: the adjoint of `project`."""
        # An axis of length 1 stands for all values.
        if self._positions is not None:
            return self._positions.lift(vector).reshape(self._shape)
        tables = []
        for part in self._same:
            tables.append(vector[part].reshape(self._shape))
        for axis, entries, smaller in self._branches:
            lifted = smaller.lift(vector[entries])
            shape = lifted.shape
            tables.append(lifted.reshape(*shape[:axis], 1, *shape[axis:]))
        return reduce(np.add, tables) if tables else np.zeros(())


class Tables:
    """Many tables in one vector."""

    def __init__(self, shapes: Iterable[Sequence[int]]) -> None:
        self._shapes = list(map(tuple, shapes))
        self._n_cells = list(map(math.prod, self._shapes))
        ends = list(itertools.accumulate(self._n_cells, initial=0))
        self.size = ends[-1]
        self._starts = ends[:-1]
        self.parts = [slice(*pair) for pair in itertools.pairwise(ends)]

    def join(self, tables: Iterable[NDArray]) -> NDArray:
        """Write tables one after the other."""
        return np.concatenate([table.ravel() for table in tables])

    def split(self, vector: NDArray) -> list[NDArray]:
        """Return a view of each table."""
        views = []
        for part, shape in zip(self.parts, self._shapes, strict=True):
            views.append(vector[part].reshape(shape))
        return views

    def sums(self, vector: Table) -> Table:
        """Sum each table."""
        return np.add.reduceat(vector, self._starts)

    def peaks(self, vector: Table) -> Table:
        """Return the largest number of each cell's table."""
        peaks = np.maximum.reduceat(vector, self._starts)
        return np.repeat(peaks, self._n_cells)


def marginal_shapes(
    cliques: Iterable[Clique], sizes: Sequence[int]
) -> list[tuple[int, ...]]:
    """Return the shapes of marginals."""
    return [shape_of(clique, sizes) for clique in cliques]


Groups = tuple[NDArray[np.intp] | None, ...]
"""For each column the group of each value; None where each value is counted alone."""


@dataclass(frozen=True, eq=False)
class Marginal:
    """The noisy counts of all cells of some columns."""

    clique: Clique
    counts: Table
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

    def groups_of(self, column: int) -> NDArray[np.intp] | None:
        """Return the groups of the values of one of its columns, if there are any."""
        return self.groups[self.clique.index(column)] if self.groups else None

    def has_cells_of(self, columns: Iterable[int]) -> bool:
        """Return whether it counts each combination of values of some columns apart."""
        held = [column in self.clique for column in columns]
        return all(held) and all(self.groups_of(column) is None for column in columns)

    def counts_of(self, columns: Sequence[int]) -> tuple[Table, float]:
        """Return its counts of some columns, and the standard deviation of their noise."""
        axes = list(map(self.clique.index, columns))
        sums = sum_others(self.counts, axes)
        std_error = self.std_error * math.sqrt(self.counts.size / sums.size)
        ordered = [column for column in self.clique if column in columns]
        return arrange(sums, ordered, columns), std_error


def group(table: NDArray, groups: Groups | None) -> NDArray:
    """Sum the cells of a table by groups of values."""
    # A product with a matrix that has a 1 where a value is in a group.
    for axis, members in enumerate(groups or ()):
        if members is None:
            continue
        # By shapes: for small tables, moving axes would take most of the time.
        before = table.shape[:axis]
        behind = table.shape[axis + 1 :]
        numbers = np.arange(members.max() + 1)
        indicator = (numbers[:, np.newaxis] == members).astype(table.dtype)
        blocks = table.reshape(math.prod(before), members.size, math.prod(behind))
        sums = indicator @ blocks if behind else blocks[:, :, 0] @ indicator.T
        table = sums.reshape(*before, -1, *behind)
    return table


def spread(table: NDArray, groups: Groups | None) -> NDArray:
    """Give each cell what its group has: the adjoint of `group`."""
    for axis, members in enumerate(groups or ()):
        if members is not None:
            table = np.take(table, members, axis)
    return table


def merge(marginals: Iterable[Marginal]) -> list[Marginal]:
    """Combine releases of the same columns, weighted by their inverse variances."""
    means: dict[Clique, Marginal] = {}
    apart = []
    for marginal in marginals:
        mean = means.get(marginal.clique)
        # Counts by groups have no cells in common.
        if marginal.groups is not None:
            apart.append(marginal)
        elif mean is None:
            means[marginal.clique] = marginal
        else:
            precision = mean.std_error**-2
            new_precision = marginal.std_error**-2
            both = precision + new_precision
            counts = precision * mean.counts + new_precision * marginal.counts
            means[marginal.clique] = Marginal(
                marginal.clique, counts / both, 1 / math.sqrt(both)
            )
    return [*means.values(), *apart]


class MeanCounts(NamedTuple):
    """A weighted mean of noisy counts of the same cells."""

    counts: Table
    std_error: float


def mean_counts(
    marginals: Iterable[Marginal], columns: Sequence[int]
) -> MeanCounts | None:
    """Estimate counts of columns by all marginals that count each cell, if there are any."""
    # Weighted by the inverse of their variances, the mean of independent estimates has
    # the least variance.
    weighted_sum = np.zeros(1)
    precision = 0.0
    for marginal in marginals:
        if marginal.has_cells_of(columns):
            counts, std_error = marginal.counts_of(columns)
            weighted_sum = weighted_sum + counts * std_error**-2
            precision += std_error**-2
    if precision == 0:
        return None
    return MeanCounts(weighted_sum / precision, precision**-0.5)


def estimate_total(marginals: Iterable[Marginal]) -> tuple[float, float]:
    """Estimate the number of records from noisy counts, with its standard error."""
    # Totals of marginals of few cells have the least noise. Weighted by the inverse of
    # their variances, the mean of independent estimates has the least variance.
    pairs = [marginal.total for marginal in marginals]
    totals, variances = np.array(pairs).T
    weights = 1 / variances
    mean = float(weights @ totals / weights.sum())
    return max(1.0, mean), float(1 / math.sqrt(weights.sum()))


def count_cells(
    codes: Sequence[NDArray[np.integer]], sizes: Sequence[int]
) -> NDArray[np.int64]:
    """Count the combinations of the codes of some columns."""
    # The number of a cell in row-major order, as reshape has it: Horner's rule.
    cells = codes[0].astype(np.intp)
    for column, size in zip(codes[1:], sizes[1:], strict=True):
        cells *= size
        cells += column
    return np.bincount(cells, minlength=math.prod(sizes)).reshape(sizes)


_EXACT_ROWS = 1 << 12
"""Rows whose counts are exact in single precision."""


def hubs_of(pairs: Collection[Clique], sizes: Sequence[int]) -> list[int]:
    """List columns of which each pair has one: few if pairs share them, otherwise all."""
    n_pairs = Counter[int]()
    for pair in pairs:
        n_pairs.update(pair)
    hubs = set[int]()
    for pair in pairs:
        if hubs.isdisjoint(pair):
            hubs.add(max(pair, key=n_pairs.__getitem__))
    if 2 * sum(shape_of(hubs, sizes)) > sum(sizes):
        return list(range(len(sizes)))
    return sorted(hubs)


def count_pairs(
    codes: Sequence[NDArray[np.integer]],
    sizes: Sequence[int],
    pairs: Collection[Clique],
) -> dict[Clique, NDArray[np.int64]]:
    """Count many pairs of columns of few values by products of indicators."""
    # The counts of all pairs of values of hubs and of all columns are one matrix.
    starts = np.cumsum([0, *sizes])
    n_values = starts[-1]
    hubs = hubs_of(pairs, sizes)
    hub_starts = dict(zip(hubs, np.cumsum([0, *shape_of(hubs, sizes)]), strict=False))
    hub_values = [np.arange(starts[hub], starts[hub + 1]) for hub in hubs]
    values_of_hubs = np.concatenate(hub_values)
    together = np.zeros((values_of_hubs.size, n_values), np.int64)
    for first_row in range(0, codes[0].size, _EXACT_ROWS):
        rows = slice(first_row, first_row + _EXACT_ROWS)
        values = np.array([code[rows] for code in codes], np.int64)  # (d, n_rows)
        values += starts[:-1, np.newaxis]
        indicators = np.zeros((values.shape[1], n_values), np.float32)
        indicators[np.arange(values.shape[1]), values] = 1
        # A product with itself takes half the time.
        if len(hubs) < len(sizes):
            products = indicators[:, values_of_hubs].T @ indicators
        else:
            products = indicators.T @ indicators
        together += products.astype(np.int64)
    counts: dict[Clique, NDArray[np.int64]] = {}
    for first, second in pairs:
        hub, other = (first, second) if first in hub_starts else (second, first)
        hub_part = slice(hub_starts[hub], hub_starts[hub] + sizes[hub])
        table = together[hub_part, starts[other] : starts[other + 1]]
        counts[first, second] = table if hub == first else table.T
    return counts


def cover(
    cliques: Iterable[Clique], sizes: Sequence[int], max_cells: int
) -> list[Clique]:
    """Find fewer, larger marginals that hold all of some: less work to count."""
    by_size = sorted(cliques, key=lambda clique: -n_cells_of(clique, sizes))
    waiting = list(dict.fromkeys(map(frozenset, by_size)))
    covers = []
    while waiting:
        # The largest one grows by the column that completes most of the others.
        columns = set(waiting[0])
        while True:
            # How many cliques a further column completes.
            n_completed = Counter[int]()
            for clique in waiting:
                missing = clique - columns
                if len(missing) == 1:
                    n_completed.update(missing)
            fitting = []
            for column in n_completed:
                if n_cells_of((*columns, column), sizes) <= max_cells:
                    fitting.append(column)
            if not fitting:
                break
            columns.add(
                max(fitting, key=lambda column: (n_completed[column], -sizes[column]))
            )
        waiting = [clique for clique in waiting if not clique <= columns]
        covers.append(tuple(sorted(columns)))
    return covers
