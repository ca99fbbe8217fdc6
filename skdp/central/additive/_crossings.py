"""Cells of pairs of columns, and how those of many pairs are added up in few passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
# Of blocks of rows: the groups of each column, by its number.
GroupsOfRows = Mapping[int, NDArray[np.uint8]]


class Crossing(NamedTuple):
    """The cells of two columns: each group of bins of the first with each of the second."""

    columns: tuple[int, int]
    # Of each column, the group of each bin, and, last, the number of groups, for what is
    # in no bin. A column has the same groups in all crossings.
    groups_of_bins: tuple[NDArray[np.intp], NDArray[np.intp]]

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of groups."""
        first, second = self.groups_of_bins
        return int(first[-1]), int(second[-1])

    @property
    def n_cells(self) -> int:
        """The number of cells, which have the order of a table of the first groups by the second."""
        n_first, n_second = self.shape
        return n_first * n_second

    def codes(self, bins: Sequence[NDArray[np.int16]]) -> NDArray[np.int16]:
        """Return the cells of rows with these bins in each column; that of what is in none is last."""
        n_first, n_second = self.shape
        cells_of_groups = np.full((n_first + 1, n_second + 1), self.n_cells, np.int16)
        cells_of_groups[:-1, :-1] = np.arange(self.n_cells).reshape(self.shape)
        cells_of_bins = cells_of_groups[np.ix_(*self.groups_of_bins)]
        first, second = self.columns
        n_bins_of_second = cells_of_bins.shape[1]
        places = bins[first].astype(np.intp) * n_bins_of_second + bins[second]
        # A flat look-up takes less than half of the time of one by two indices.
        return np.asarray(cells_of_bins.ravel().take(places))


class JointTable(NamedTuple):
    """Up to four columns whose groups are counted together: one pass has the cells of six pairs."""

    columns: tuple[int, ...]
    # The numbers of groups, with one more for what is in no bin.
    shape: tuple[int, ...]

    def codes(self, groups: GroupsOfRows) -> NDArray[np.int32]:
        """Return the cells of the table of rows in these groups."""
        codes = np.zeros(len(groups[self.columns[0]]), np.int32)
        for column, size in zip(self.columns, self.shape, strict=True):
            codes *= size
            codes += groups[column]
        return codes

    def cells(self, crossing: Crossing, totals: Integers) -> Integers:
        """Return the totals of the cells of two of the columns: (n_cells,)."""
        axes = range(len(self.columns))
        first, second = map(self.columns.index, crossing.columns)
        # Added up over the other columns.
        cells = np.einsum(totals.reshape(self.shape), axes, [first, second])
        # Without the rows that are in no group of either column.
        return cells[:-1, :-1].ravel()


class JointTables:
    """A few tables of up to four columns, from which the cells of all crossings are added up."""

    def __init__(self, crossings: Sequence[Crossing]) -> None:
        self.crossings = crossings
        # Of each column: the groups of its bins.
        self._groups_of_bins: dict[int, NDArray[np.uint8]] = {}
        for crossing in crossings:
            for column, groups in zip(
                crossing.columns, crossing.groups_of_bins, strict=True
            ):
                self._groups_of_bins[column] = groups.astype(np.uint8)
        self.tables: list[JointTable] = []
        for columns in _joint_columns(crossings):
            shape = [int(self._groups_of_bins[column][-1]) + 1 for column in columns]
            self.tables.append(JointTable(columns, tuple(shape)))

    def groups(self, bins: Sequence[NDArray[np.int16]], block: slice) -> GroupsOfRows:
        """Return the groups of some rows with these bins in each column."""
        groups = {}
        for column, groups_of_bins in self._groups_of_bins.items():
            # Without "clip", bins are compared with the size first.
            groups[column] = groups_of_bins.take(bins[column][block], mode="clip")
        return groups

    def cells(self, totals: Sequence[Integers]) -> Integers:
        """Return the totals of the cells of all crossings, in their order, from the totals of each table."""
        cells = []
        for crossing in self.crossings:
            for table, table_totals in zip(self.tables, totals, strict=True):
                if set(crossing.columns) <= set(table.columns):
                    cells.append(table.cells(crossing, table_totals))
                    break
        return np.concatenate(cells)


def _joint_columns(crossings: Sequence[Crossing]) -> list[tuple[int, ...]]:
    """Put columns into tables of at most four, such that each crossing lies in one of them."""
    # Columns are taken in twos, in their order: 0 and 1, 2 and 3, and so on. A table has
    # the twos of the columns of a crossing.
    columns = sorted({column for crossing in crossings for column in crossing.columns})
    twos = {}
    for index, column in enumerate(columns):
        start = index - index % 2
        twos[column] = set(columns[start : start + 2])
    tables = set()
    for crossing in crossings:
        first, second = crossing.columns
        tables.add(frozenset(twos[first] | twos[second]))
    # A crossing within a two needs no table of its own if a larger one has both columns.
    largest = []
    for table in tables:
        if not any(table < other for other in tables):
            largest.append(tuple(sorted(table)))
    return sorted(largest)
