"""Counts of cells, in memory or batch by batch where the rows are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import pairwise, product
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.base import make_domain
from skdp.base import undeclared_error as error_of_undeclared
from skdp.central.statistics._batches import Batches, find_missing
from skdp.domain import Categories, Codes, Domain, Interval
from skdp.tables import ORDERED_TYPES, Table, drop_missing, type_of_value

# Returns codes, and the names of the columns with undeclared values that are errors.
Coder = Callable[[Table, Domain], tuple[list[Codes], list[Any]]]


# Returns the error of a column with undeclared values.
Refusal = Callable[[Any], ValueError]


def part_of(domain: Domain, clique: Iterable[int]) -> Domain:
    """Select some columns of a domain by their positions."""
    return domain.select([domain.columns[column] for column in clique])


def count_marginals(
    rows: Batches,
    domain: Domain,
    cliques: Sequence[Sequence[int]],
    code: Coder,
    refuse: Refusal,
) -> list[NDArray[np.int64]]:
    """Count some marginals in one pass; rows with an undeclared value are excluded."""
    counts_of = partial(_count_table, domain=domain, cliques=cliques, code=code)
    has_undeclared, *counts = rows.select(domain.columns).add_up(counts_of)
    for column, n in zip(domain.columns, has_undeclared, strict=True):
        if n:
            raise refuse(column)
    return counts


def _count_table(
    table: Table, *, domain: Domain, cliques: Sequence[Sequence[int]], code: Coder
) -> list[NDArray[np.int64]]:
    """Return by column whether values are undeclared, and the counts of each marginal."""
    codes, undeclared = code(table, domain)
    is_declared = find_declared(domain, codes)
    counts = [np.array([name in undeclared for name in domain.columns], np.int64)]
    for clique in cliques:
        part = part_of(domain, clique)
        cells = part.join([codes[column][is_declared] for column in clique])
        counts.append(np.bincount(cells, minlength=part.size))
    return counts


def declared_domain(table: Table, declared: Any, name: str) -> Domain:
    """Build the domain of a table from declared values."""
    if isinstance(declared, Interval):
        declared = dict.fromkeys(table.names, declared)
    if declared is None:
        declared = {}
    if isinstance(declared, str):
        raise ValueError(
            f"{name} must be declared, because values that are read from the data "
            "reveal records"
        )
    return make_domain(table, declared, name=name)


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
    """Count the records of each cell of some marginals; records with an undeclared value are excluded."""
    code = partial(encode_columns, handle_unknown=handle_unknown, missing=missing)
    if refuse is None:
        refuse = partial(undeclared_error, domain=domain, name=name)
    counts = []
    for clique in cliques:
        part = part_of(domain, clique)
        all_columns = [range(len(part.columns))]
        counts += count_marginals(rows, part, all_columns, code, refuse)
    return counts


def find_declared(
    domain: Domain, codes: Sequence[NDArray[np.integer]]
) -> NDArray[np.bool_]:
    """Mark the rows with a declared value in each column."""
    in_columns = [
        column < size for column, size in zip(codes, domain.sizes, strict=True)
    ]
    is_declared: NDArray[np.bool_] = np.logical_and.reduce(in_columns)
    return is_declared


def encode_columns(
    table: Table, domain: Domain, handle_unknown: str, *, missing: bool = False
) -> tuple[list[Codes], list[Any]]:
    """Encode the columns of a table; also return the columns with undeclared values that are errors."""
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


def encode_declared(
    table: Table, domain: Domain, handle_unknown: str, name: str = "categories"
) -> list[Codes]:
    """Encode the columns of a table; undeclared values may be errors."""
    codes, undeclared = encode_columns(table, domain, handle_unknown)
    if undeclared:
        raise undeclared_error(undeclared[0], domain, name)
    return codes


def undeclared_error(
    column: Any,
    domain: Domain,
    name: str,
) -> ValueError:
    """Make the error of an undeclared value; the message contains no value."""
    return error_of_undeclared(column, domain[column], where=f"declared {name}")


def is_ordered(attribute: Categories | Interval) -> bool:
    """Return True if the cells of a column are ordered by value, or declared as ordered."""
    if isinstance(attribute, Interval):
        return True
    values = drop_missing(attribute.values)
    if not all(type_of_value(value) in ORDERED_TYPES for value in values):
        return attribute.ordered
    # Ranges of numbers and dates are by value, whatever their order is declared to be.
    return all(value < following for value, following in pairwise(values))


def join_codes(
    domain: Domain, codes: Sequence[NDArray[np.integer]]
) -> NDArray[np.int64]:
    """Combine the codes of several columns; a row with an undeclared value gets the number of combinations."""
    is_declared = find_declared(domain, codes)
    joint = np.full(len(is_declared), domain.size, np.int64)
    joint[is_declared] = domain.join([column[is_declared] for column in codes])
    return joint


def library_of(table: Table) -> str:
    """Return the library of result tables: the library of the table, or pandas for an array."""
    if isinstance(table.native, np.ndarray):
        return "pandas"
    return nw.from_native(table.native, eager_only=True).implementation.name.lower()


def make_frame(
    domain: Domain, columns: Mapping[str, NDArray[Any]], library: Any
) -> Any:
    """Build a table of a library with a row for each cell: pandas has cells as its index, others as columns."""
    if library == "pandas":
        return pd.DataFrame(columns, index=domain.cells())
    labels = product(*(domain[name].labels for name in domain.columns))
    keys = dict(
        zip(domain.columns, map(_plain, zip(*labels, strict=True)), strict=True)
    )
    return nw.from_dict(keys | dict(columns), backend=library).to_native()


def _plain(values: Sequence[Any]) -> list[Any]:
    """Return keys as a list of one type: floats if one of them is a float."""
    if any(isinstance(value, float) for value in values):
        return [None if value is None else float(value) for value in values]
    return list(values)
