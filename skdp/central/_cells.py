"""Counting cells batch by batch, wherever the rows are."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from skdp.central._distinct import dtypes_of, most_declared
from skdp.domain import Codes, Domain
from skdp.frames import LargeTable, Table, read_table

Coder = Callable[[Table, Domain], tuple[list[Codes], list[Any]]]
"""Returns codes, and the names of the columns that hold values that are not declared, but have to be."""


@dataclass(frozen=True)
class CellTally:
    """The counts of some marginals: what a `LargeTable` adds up."""

    domain: Domain
    code: Coder
    cliques: Sequence[tuple[int, ...]]
    refused: bool = False

    def zeros(self) -> list[NDArray[np.int64]]:
        """Return the counts of no rows."""
        marginals = [self.domain.select(self._names(clique)) for clique in self.cliques]
        return [np.zeros(len(self.domain.columns), np.int64), *(np.zeros(one.size, np.int64) for one in marginals)]

    def add(self, sums: list[NDArray[np.int64]], batch: Any, counts: NDArray[np.int64] | None = None) -> None:
        """Count the rows of a batch; those with an undeclared value are in no cell."""
        codes, undeclared = self.code(read_table(batch), self.domain)
        outside, *tables = sums
        outside += np.array([name in undeclared for name in self.domain.columns])
        declared = np.logical_and.reduce([code < size for code, size in zip(codes, self.domain.sizes, strict=True)])
        if not declared.all():
            codes = [code[declared] for code in codes]
            counts = None if counts is None else counts[declared]
        for clique, table in zip(self.cliques, tables, strict=True):
            cells = self.domain.select(self._names(clique)).join([codes[column] for column in clique])
            np.add.at(table, cells, 1 if counts is None else counts)

    def n_distinct(self, sample: Any) -> float:
        """Return how many different rows are declared."""
        if not self.refused:
            return math.inf
        columns = zip(dtypes_of(sample), self.domain.columns, strict=True)
        return math.prod(most_declared(dtype, self.domain[name]) for dtype, name in columns)

    def _names(self, clique: Sequence[int]) -> list[Any]:
        return [self.domain.columns[column] for column in clique]


def count_large(table: LargeTable, tally: CellTally, refuse: Callable[[Any], ValueError]) -> list[NDArray[np.int64]]:
    """Count some marginals of a large table, in one pass."""
    # What cannot be coded at all shows without a row, for the price of none.
    sample = nw.from_native(table.sample, eager_only=True).select(*tally.domain.columns)
    tally.add(tally.zeros(), sample.to_native())
    outside, *tables = table.add_up(tally.domain.columns, tally)
    if outside.any():
        raise refuse(tally.domain.columns[int(np.flatnonzero(outside)[0])])
    return tables
