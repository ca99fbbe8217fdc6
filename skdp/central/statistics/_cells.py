"""Counting cells batch by batch, wherever the rows are."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from skdp.base import read_domain
from skdp.central.statistics._filling import find_missing
from skdp.central.statistics._large_sums import dtypes_of, grid_of, most_declared
from skdp.domain import Codes, Domain, Grid, Interval
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

    def grids(self, sample: Any) -> list[Grid | None]:
        """Return the columns of which only the bin matters."""
        columns = zip(dtypes_of(sample), self.domain.columns, strict=True)
        return [grid_of(dtype, self.domain[name]) for dtype, name in columns]

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


def declared_domain(table: Table, declared: Any, name: str) -> Domain:
    """Build the domain of a table from what is declared."""
    if isinstance(declared, Interval):
        declared = dict.fromkeys(table.names, declared)
    if declared is None:
        declared = {}
    if isinstance(declared, str):
        raise ValueError(f"{name} must be declared; the values of the data would reveal somebody's")
    return read_domain(table, declared, name=name)


def check_policy(handle_unknown: Any) -> None:
    """Check what is to be done with values that are not declared."""
    if not isinstance(handle_unknown, str) or handle_unknown not in ("error", "ignore"):
        raise ValueError(f"handle_unknown must be 'error' or 'ignore', got {handle_unknown!r}")


def read_codes(
    table: Table, domain: Domain, handle_unknown: Any, name: str, *, missing: bool = False
) -> list[NDArray[np.unsignedinteger]]:
    """Code the columns of a table."""
    check_policy(handle_unknown)
    codes, undeclared = find_codes(table, domain, handle_unknown, missing=missing)
    if undeclared:
        raise undeclared_error(undeclared[0], name, missing=missing)
    return codes


def find_codes(
    table: Table, domain: Domain, handle_unknown: str, *, missing: bool = False
) -> tuple[list[NDArray[np.unsignedinteger]], list[Any]]:
    """Code the columns of a table, and say which hold values that are not declared, but have to be."""
    codes = domain.encode(table.columns)
    if handle_unknown == "ignore":
        return codes, []
    undeclared = []
    for column, size, found, values in zip(domain.columns, domain.sizes, codes, table.columns, strict=True):
        outside = found == size
        if missing:
            outside &= ~find_missing(values)
        if outside.any():
            undeclared.append(column)
    return codes, undeclared


def undeclared_error(column: Any, name: str, *, missing: bool = False) -> ValueError:
    """Make the error of a value that is not declared; it shows no value."""
    what = "a value" if missing else "a value, or a NaN or inf,"
    return ValueError(
        f"column {column!r} holds {what} outside the declared {name}. Declare it, or set handle_unknown='ignore'."
    )
