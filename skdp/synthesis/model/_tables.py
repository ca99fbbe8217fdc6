"""Tables with an axis a column: their sums, products and quotients, and noisy counts."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, reduce

import numpy as np
from numpy.typing import NDArray

Clique = tuple[int, ...]
"""Column numbers, increasing."""

Table = NDArray[np.float64]

_FEW = 4
_SMALL = 4096
"""Cells of a table, times marginals of it, that are summed by the places of the cells."""


@cache
def _ones(size: int) -> NDArray[np.float64]:
    return np.ones(size)


def sum_out(table: Table, axis: int) -> Table:
    # NumPy sums slowly where the axes behind are short: a product with a vector of ones is up to 20 times as fast, and
    # for few summands adding them up.
    size, behind = table.shape[axis], math.prod(table.shape[axis + 1 :])
    blocks = table.reshape(-1, size, behind)
    if behind == 1:
        summed = blocks[:, :, 0] @ _ones(size)
    elif size <= _FEW:
        summed = blocks[:, 0] + blocks[:, 1] if size > 1 else blocks[:, 0]
        for place in range(2, size):
            summed += blocks[:, place]
    else:
        summed = _ones(size) @ blocks
    return summed.reshape(table.shape[:axis] + table.shape[axis + 1 :])


def project(table: Table, columns: Clique, keep: Sequence[int]) -> Table:
    """Sum out the columns that are not kept, and put the others into the wanted order."""
    left = list(columns)
    for column in sorted(
        set(columns) - set(keep), key=lambda column: -table.shape[left.index(column)]
    ):
        table = sum_out(table, left.index(column))
        left.remove(column)
    return np.transpose(table, [left.index(column) for column in keep])


def expand(table: NDArray, columns: Clique, onto: Clique) -> NDArray:
    """Give a table an axis of length 1 for each column that it lacks."""
    sizes = dict(zip(columns, table.shape, strict=True))
    return table.reshape([sizes.get(column, 1) for column in onto])


def divide(numerator: Table, denominator: Table) -> Table:
    """Divide, where 0 / 0 is 0: what has no probability stays without."""
    return np.divide(
        numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0
    )


def peaks(table: Table, axes: int | tuple[int, ...]) -> Table:
    """Return the largest logarithms, but 0 where all are minus infinity: what can be subtracted from any."""
    largest = table.max(axis=axes, keepdims=True)
    return np.where(largest > -np.inf, largest, 0.0)


def log_sum(table: Table, axes: tuple[int, ...]) -> Table:
    """Sum what logarithms stand for over some axes."""
    if not axes:
        return table
    largest = peaks(table, axes)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(table - largest).sum(axis=axes)) + largest.squeeze(axes)


class Projections:
    """The sums of one table to several marginals, one after the other in a vector, and the way back."""

    # Columns are summed out one at a time, first those that most of the marginals lack: a tree of tables, in which the
    # sums of the large ones are few. Where a table is small, calls take more time than sums: there each marginal has
    # the place of each cell.

    def __init__(
        self, columns: Clique, sizes: Sequence[int], wanted: Sequence[Clique]
    ) -> None:
        self._shape = tuple(sizes[column] for column in columns)
        shapes = [[sizes[column] for column in clique] for clique in wanted]
        ends = list(itertools.accumulate(map(math.prod, shapes), initial=0))
        self.size = ends[-1]
        self._places: NDArray[np.intp] | None = None
        self._whole: list[slice] = []
        self._parts: list[tuple[int, NDArray[np.intp], Projections]] = []
        if 0 < math.prod(self._shape) * len(wanted) <= _SMALL:
            self._places = np.empty((len(wanted), math.prod(self._shape)), np.intp)
            for at, clique in enumerate(wanted):
                numbers = np.arange(ends[at], ends[at + 1]).reshape(shapes[at])
                self._places[at] = np.broadcast_to(
                    expand(numbers, clique, columns), self._shape
                ).ravel()
            return
        self._whole = [
            slice(ends[at], ends[at + 1])
            for at, clique in enumerate(wanted)
            if clique == columns
        ]
        left = [at for at, clique in enumerate(wanted) if clique != columns]
        while left:
            missing = {
                column: sum(column not in wanted[at] for at in left)
                for column in columns
            }
            column = max(missing, key=lambda column: (missing[column], sizes[column]))
            inside = [at for at in left if column not in wanted[at]]
            smaller = Projections(
                tuple(other for other in columns if other != column),
                sizes,
                [wanted[at] for at in inside],
            )
            where = np.concatenate([np.arange(ends[at], ends[at + 1]) for at in inside])
            self._parts.append((columns.index(column), where, smaller))
            left = [at for at in left if column in wanted[at]]

    def project(self, table: Table) -> NDArray[np.float64]:
        """Sum a table to all of the marginals."""
        if self._places is not None:
            cells = np.concatenate([table.ravel()] * len(self._places))
            return np.asarray(
                np.bincount(self._places.ravel(), cells, self.size), float
            )
        found = np.empty(self.size)
        for part in self._whole:
            found[part] = table.ravel()
        for axis, where, smaller in self._parts:
            found[where] = smaller.project(sum_out(table, axis))
        return found

    def lift(self, changes: NDArray[np.float64], join: np.ufunc = np.add) -> Table:
        """Give each cell the sum, or the product, of what its marginals have: with sums the adjoint of `project`."""
        # An axis of length 1 stands for all values.
        if self._places is not None:
            return join.reduce(changes[self._places], axis=0).reshape(self._shape)
        found = [changes[part].reshape(self._shape) for part in self._whole]
        for axis, where, smaller in self._parts:
            found.append(
                smaller.lift(changes[where], join)[(*(slice(None),) * axis, np.newaxis)]
            )
        return reduce(join, found) if found else np.array(float(join.identity))


class Tables:
    """Many tables in one vector."""

    def __init__(self, shapes: Sequence[Sequence[int]]) -> None:
        self._shapes = [tuple(shape) for shape in shapes]
        ends = list(itertools.accumulate(map(math.prod, self._shapes), initial=0))
        self.size, self._starts = ends[-1], ends[:-1]
        self.parts = [slice(*pair) for pair in itertools.pairwise(ends)]

    def join(self, tables: Sequence[NDArray]) -> NDArray:
        """Write tables one after the other."""
        return np.concatenate([table.ravel() for table in tables])

    def split(self, vector: NDArray) -> list[NDArray]:
        """Return a view of each table."""
        return [
            vector[part].reshape(shape)
            for part, shape in zip(self.parts, self._shapes, strict=True)
        ]

    def sums(self, vector: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sum each table."""
        return np.add.reduceat(vector, self._starts)

    def below_peaks(self, vector: NDArray[np.float64]) -> NDArray[np.float64]:
        """Subtract from each table its maximum."""
        return vector - np.repeat(
            np.maximum.reduceat(vector, self._starts),
            np.diff(self._starts, append=self.size),
        )


Groups = tuple[NDArray[np.intp] | None, ...]
"""For each column the group of each of its values; None where each value is counted by itself."""


@dataclass(frozen=True, eq=False)
class Marginal:
    """The noisy counts of all cells of some columns."""

    clique: Clique
    counts: NDArray[np.float64]
    std_error: float
    groups: Groups | None = None
    counted: NDArray[np.bool_] | None = None
    """The counts that a model is fitted to; the others are noise."""

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
        if (
            members is not None
        ):  # by shapes: for small tables, moving axes would take most of the time
            before, behind = table.shape[:axis], table.shape[axis + 1 :]
            indicator = (np.arange(members.max() + 1)[:, np.newaxis] == members).astype(
                table.dtype
            )
            blocks = table.reshape(math.prod(before), members.size, math.prod(behind))
            summed = indicator @ blocks if behind else blocks[:, :, 0] @ indicator.T
            table = summed.reshape(*before, -1, *behind)
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
    kept = [marginal for marginal in marginals if not _alike(marginal)]
    for marginal in filter(_alike, marginals):
        other = found.get(marginal.clique)
        if other is None:
            found[marginal.clique] = marginal
            continue
        weights = other.std_error**-2, marginal.std_error**-2
        counts = (weights[0] * other.counts + weights[1] * marginal.counts) / sum(
            weights
        )
        found[marginal.clique] = Marginal(
            marginal.clique, counts, 1 / math.sqrt(sum(weights))
        )
    return [*found.values(), *kept]


def _alike(marginal: Marginal) -> bool:
    """Return whether all cells are counted alike."""
    return marginal.groups is None and marginal.counted is None


def estimate_total(marginals: Sequence[Marginal]) -> tuple[float, float]:
    """Estimate the number of records from noisy counts, which costs nothing more."""
    totals, variances = np.array([marginal.total for marginal in marginals]).T
    weights = 1 / variances
    return max(1.0, float(weights @ totals / weights.sum())), float(
        1 / math.sqrt(weights.sum())
    )


def count_cells(
    codes: Sequence[NDArray[np.integer]], sizes: Sequence[int]
) -> NDArray[np.int64]:
    joint = codes[0].astype(np.intp)
    for column, size in zip(codes[1:], sizes[1:], strict=True):
        joint *= size
        joint += column
    return np.bincount(joint, minlength=math.prod(sizes)).reshape(sizes)


_ROWS = 1 << 12  # whose counts are exact in single precision


def count_pairs(
    codes: Sequence[NDArray[np.integer]], sizes: Sequence[int], pairs: Iterable[Clique]
) -> dict[Clique, NDArray[np.int64]]:
    """Count many pairs of columns of few values at once, by products of indicators."""
    ends = np.cumsum([0, *sizes])
    together = np.zeros((ends[-1], ends[-1]), np.int64)
    for start in range(0, codes[0].size, _ROWS):
        values = np.array(
            [
                end + code[start : start + _ROWS]
                for end, code in zip(ends, codes, strict=False)
            ]
        )
        indicators = np.zeros((values.shape[1], ends[-1]), np.float32)
        indicators[np.arange(values.shape[1]), values] = 1
        together += (indicators.T @ indicators).astype(np.int64)
    parts = [slice(*pair) for pair in itertools.pairwise(ends)]
    return {pair: together[parts[pair[0]], parts[pair[1]]] for pair in pairs}


def cover(
    cliques: Sequence[tuple[int, ...]], sizes: Sequence[int], most: int
) -> list[tuple[int, ...]]:
    """Find larger marginals, fewer of them, that hold some marginals: less work to count, and the sums are exact."""
    waiting = {
        frozenset(clique): None
        for clique in sorted(cliques, key=lambda clique: -_cells(clique, sizes))
    }
    found = []
    while waiting:
        held = set(next(iter(waiting)))
        while True:
            gains = Counter[int]()
            for clique in waiting:
                missing = clique - held
                if len(missing) == 1:
                    gains[next(iter(missing))] += 1
            fitting = [
                column for column in gains if _cells((*held, column), sizes) <= most
            ]
            if not fitting:
                break
            held.add(max(fitting, key=lambda column: (gains[column], -sizes[column])))
        waiting = {clique: None for clique in waiting if not clique <= held}
        found.append(tuple(sorted(held)))
    return found


def _cells(columns: Iterable[int], sizes: Sequence[int]) -> int:
    return math.prod(sizes[column] for column in columns)
