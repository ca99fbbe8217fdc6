"""Counts of cells, in memory or batch by batch where the rows are."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from skdp.base import read_domain
from skdp.base import undeclared_error as error_of_undeclared
from skdp.central.statistics._batches import (
    Batches,
    dtypes_of,
    find_missing,
    most_values,
)
from skdp.domain import Categories, Codes, Domain, Interval
from skdp.tables import ORDERED_KINDS, LargeTable, Table, kind_of, present, read_table

# Returns codes, and the names of the columns with values that are undeclared, but must
# not be.
Coder = Callable[[Table, Domain], tuple[list[Codes], list[Any]]]


# Makes the error of a column with values that are undeclared.
Refusal = Callable[[Any], ValueError]


@dataclass(frozen=True)
class CellTally:
    """The counts of some marginals: what a `LargeTable` adds up."""

    domain: Domain
    code: Coder
    cliques: Sequence[tuple[int, ...]]
    refused: bool = False

    def zeros(self) -> list[NDArray[np.int64]]:
        sizes = [
            len(self.domain.columns),
            *(part_of(self.domain, clique).size for clique in self.cliques),
        ]
        return [np.zeros(size, np.int64) for size in sizes]

    def add(
        self,
        sums: list[NDArray[np.int64]],
        batch: Any,
        counts: NDArray[np.int64] | None = None,
    ) -> None:
        """Count the rows of a batch; those with an undeclared value are in no cell."""
        codes, undeclared = self.code(read_table(batch), self.domain)
        n_undeclared, *tables = sums
        n_undeclared += np.array([name in undeclared for name in self.domain.columns])
        codes, counts = _declared(self.domain, codes, counts)
        for clique, total in zip(self.cliques, tables, strict=True):
            part = part_of(self.domain, clique)
            cells = part.join([codes[column] for column in clique])
            if counts is None:
                total += np.bincount(cells, minlength=part.size)
            else:
                np.add.at(total, cells, counts)

    def n_distinct(self, sample: Any) -> float:
        """Return the number of different declared rows."""
        if not self.refused:
            return math.inf
        columns = zip(dtypes_of(sample), self.domain.columns, strict=True)
        return math.prod(
            most_declared(dtype, self.domain[name]) for dtype, name in columns
        )


def part_of(domain: Domain, clique: Iterable[int]) -> Domain:
    """Select some columns of a domain by their places."""
    return domain.select([domain.columns[place] for place in clique])


def count_large(
    table: LargeTable, tally: CellTally, refuse: Refusal
) -> list[NDArray[np.int64]]:
    """Count some marginals of a large table, in one pass."""
    # A column that cannot be coded at all is an error before any row is read.
    sample = nw.from_native(table.sample, eager_only=True).select(*tally.domain.columns)
    tally.add(tally.zeros(), sample.to_native())
    n_undeclared, *tables = table.add_up(tally.domain.columns, tally)
    if n_undeclared.any():
        raise refuse(tally.domain.columns[int(np.flatnonzero(n_undeclared)[0])])
    return tables


def declared_domain(table: Table, declared: Any, name: str) -> Domain:
    """Build the domain of a table from what is declared."""
    if isinstance(declared, Interval):
        declared = dict.fromkeys(table.names, declared)
    if declared is None:
        declared = {}
    if isinstance(declared, str):
        raise ValueError(
            f"{name} must be declared; the values of the data would reveal somebody's"
        )
    return read_domain(table, declared, name=name)


def count_cells(
    rows: Batches,
    domain: Domain,
    cliques: Sequence[Sequence[int]],
    handle_unknown: str,
    name: str = "",
    *,
    missing: bool = False,
    refuse: Refusal | None = None,
) -> list[NDArray[np.int64]]:
    """Count the records of each cell of some marginals; in each, those with an undeclared value are in no cell."""
    code = partial(encode_columns, handle_unknown=handle_unknown, missing=missing)
    if refuse is None:
        refuse = partial(undeclared_error, domain=domain, name=name, missing=missing)
    # Undeclared values of any column are an error before a marginal is counted.
    codes, undeclared = code(rows.table, domain)
    if undeclared:
        raise refuse(undeclared[0])
    counts = []
    for clique in cliques:
        part = part_of(domain, clique)
        if rows.large is None:
            declared, _ = _declared(part, [codes[place] for place in clique])
            counts.append(np.bincount(part.join(declared), minlength=part.size))
        else:
            cells = [tuple(range(len(clique)))]
            tally = CellTally(part, code, cells, handle_unknown == "error")
            counts += count_large(rows.large, tally, refuse)
    return counts


def _declared(
    domain: Domain, codes: list[Codes], counts: NDArray[np.int64] | None = None
) -> tuple[list[Codes], NDArray[np.int64] | None]:
    """Drop the rows with an undeclared value."""
    declared = np.logical_and.reduce(
        [column < size for column, size in zip(codes, domain.sizes, strict=True)]
    )
    if declared.all():
        return codes, counts
    if counts is not None:
        counts = counts[declared]
    return [column[declared] for column in codes], counts


def encode_columns(
    table: Table, domain: Domain, handle_unknown: str, *, missing: bool = False
) -> tuple[list[Codes], list[Any]]:
    """Code the columns of a table; also return the columns with values that are undeclared, but must not be."""
    codes = domain.encode(table.columns)
    if handle_unknown == "ignore":
        return codes, []
    undeclared = []
    for column, size, column_codes, values in zip(
        domain.columns, domain.sizes, codes, table.columns, strict=True
    ):
        is_undeclared = column_codes == size
        if missing:
            is_undeclared &= ~find_missing(values)
        if is_undeclared.any():
            undeclared.append(column)
    return codes, undeclared


def undeclared_error(
    column: Any,
    domain: Domain,
    name: str,
    *,
    known: str = "declared",
    missing: bool = False,
) -> ValueError:
    """Make the error of a value that is not declared; it shows no value."""
    what = "a value" if missing else "a value, or a NaN or inf,"
    where = f"{known} {name}"
    return error_of_undeclared(
        column,
        domain[column],
        what=what,
        where=where,
        missing_is_undeclared=not missing,
    )


def most_declared(dtype: Any, attribute: Categories | Interval) -> float:
    """Return the number of declared values of a column."""
    if isinstance(attribute, Interval):
        return most_values(dtype, attribute.edges[0], attribute.edges[-1])
    return len(attribute)


def is_ordered(attribute: Categories | Interval) -> bool:
    """Whether neighbouring cells of a column are neighbours by value, or declared to be."""
    if isinstance(attribute, Interval):
        return True
    values = present(attribute.values)
    if not all(kind_of(value) in ORDERED_KINDS for value in values):
        return attribute.ordered
    # Ranges of numbers and dates are by value, whatever their order is declared to be.
    return all(value < following for value, following in pairwise(values))


def join_codes(
    domain: Domain, codes: Sequence[NDArray[np.integer]]
) -> NDArray[np.int64]:
    """Combine the codes of several columns; a row with an undeclared value gets the number of combinations."""
    declared = np.logical_and.reduce(
        [column < size for column, size in zip(codes, domain.sizes, strict=True)]
    )
    joint = np.full(len(declared), domain.size, np.int64)
    joint[declared] = domain.join([column[declared] for column in codes])
    return joint


def library_of(table: Table) -> str:
    """Return the library of tables about a table: its own, or pandas for an array."""
    if isinstance(table.native, np.ndarray):
        return "pandas"
    return nw.from_native(table.native, eager_only=True).implementation.name.lower()


def keyed_frame(
    keys: Mapping[str, NDArray[Any]], columns: Mapping[str, NDArray[Any]], library: Any
) -> Any:
    """Build a table of a library whose first columns are keys; no two columns have one name."""
    of_keys = {name: _plain(values) for name, values in keys.items()}
    return nw.from_dict(of_keys | dict(columns), backend=library).to_native()


def _plain(values: NDArray[Any]) -> list[Any]:
    """Return keys as a list of one type, where numbers are whole and others are not."""
    listed: list[Any] = values.tolist()
    if any(isinstance(value, float) for value in listed):
        return [None if value is None else float(value) for value in listed]
    return listed
