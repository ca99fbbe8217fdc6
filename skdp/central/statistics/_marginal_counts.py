"""Encoding of columns by a public domain, and exact counts of the cells of marginals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp._arrays import Codes, ColumnName, Integers, Mask
from skdp.base import count_undeclared, make_domain, undeclared_error
from skdp.central.statistics._batches import Batches, find_missing
from skdp.domain import (
    Categories,
    Domain,
    Interval,
    find_decoder,
    is_mixed,
    name_column_in_errors,
)
from skdp.tables import ORDERED_TYPES, Table, call_safely, drop_missing, type_of_value

# Encodes a table; returns the codes of each column, and the names of the columns with
# undeclared values that are errors.
Encoder = Callable[[Table, Domain], tuple[list[Codes], list[Any]]]

# Makes the error for a column with undeclared values.
ErrorMaker = Callable[[Any, Batches], ValueError]


def select_domain(domain: Domain, clique: Iterable[int]) -> Domain:
    """Select some columns of a domain by their indices."""
    columns = domain.columns
    return domain.select([columns[index] for index in clique])


def count_marginals(
    rows: Batches,
    domain: Domain,
    cliques: Sequence[Sequence[int]],
    *,
    encode: Encoder,
    make_error: ErrorMaker,
) -> list[Integers]:
    """Count the cells of marginals in one pass over the rows; rows with an undeclared value are excluded.

    Parameters
    ----------
    rows : Batches
        The private rows.
    domain : Domain
        The columns.
    cliques : list of list of int
        Indices of the columns of each marginal.
    encode : callable
        Encodes a table by the domain; also returns the columns with undeclared values that are errors.
    make_error : callable
        Makes the error for the name of a column with such values and the rows.

    Returns
    -------
    list of ndarray of shape (n_cells,)
        The counts of each marginal.
    """
    count_table = partial(_count_table, domain=domain, cliques=cliques, encode=encode)
    rows = rows.select(domain.columns)
    has_undeclared, *counts = rows.add_up(count_table)
    for column, n in zip(domain.columns, has_undeclared, strict=True):
        if n:
            raise make_error(column, rows)
    return counts


def _count_table(
    table: Table,
    *,
    domain: Domain,
    cliques: Sequence[Sequence[int]],
    encode: Encoder,
) -> list[Integers]:
    """Return an indicator of each column with undeclared values that are errors, and the counts of each marginal."""
    codes, undeclared = encode(table, domain)
    is_declared = find_declared(domain, codes)
    counts = [np.array([name in undeclared for name in domain.columns], np.int64)]
    if not is_declared.all():
        codes = [column[is_declared] for column in codes]
    for clique in cliques:
        marginal_domain = select_domain(domain, clique)
        cells = marginal_domain.join([codes[column] for column in clique])
        counts.append(np.bincount(cells, minlength=marginal_domain.size))
    return counts


def declared_domain(table: Table, declared: object, name: str) -> Domain:
    """Make the domain of a table from the values that a parameter declares.

    `declared` is the value of the parameter `name`: one `Interval` for all columns, a list, a mapping, a `Domain`, or
    None if the dtypes of all columns declare their values.
    """
    if isinstance(declared, Interval):
        declared = dict.fromkeys(table.names, declared)
    if declared is None:
        declared = {}
    if isinstance(declared, str):
        raise ValueError(
            f"`{name}` must be a list, a mapping or a Domain, got {declared!r}. Values "
            "that are read from the data reveal records."
        )
    domain = make_domain(table, declared, name=name)
    for column in domain.columns:
        # The release would contain these values, and its guarantee covers added records.
        if domain[column].observed:
            raise ValueError(
                f"`{name}` of column {column!r} must be declared, got values that an "
                "encoder has read from the data. Declare them from public knowledge."
            )
    return domain


def count_cells(
    rows: Batches,
    domain: Domain,
    cliques: Sequence[Sequence[int]],
    handle_unknown: str,
    *,
    missing: bool = False,
    make_error: ErrorMaker | None = None,
) -> list[Integers]:
    """Count the records in each cell of marginals; records with an undeclared value in its columns are excluded.

    Parameters
    ----------
    rows : Batches
        The private rows.
    domain : Domain
        The columns.
    cliques : list of list of int
        Indices of the columns of each marginal.
    handle_unknown : {"error", "ignore"}
        If "error", undeclared values raise an error.
    missing : bool, default=False
        If True, missing values are excluded without an error.
    make_error : callable, optional
        Makes the error for the name of a column with undeclared values and the rows.

    Returns
    -------
    list of ndarray of shape (n_cells,)
        The counts of each marginal.
    """
    encode = partial(encode_columns, handle_unknown=handle_unknown, missing=missing)
    counts = []
    for clique in cliques:
        # One pass per marginal, so that undeclared values in other columns do not matter.
        marginal_domain = select_domain(domain, clique)
        all_columns = [range(len(marginal_domain.columns))]
        default = partial(make_undeclared_error, domain=marginal_domain)
        counts += count_marginals(
            rows,
            marginal_domain,
            all_columns,
            encode=encode,
            make_error=make_error or default,
        )
    return counts


def find_declared(domain: Domain, codes: Sequence[Codes]) -> Mask:
    """Return True for each row whose values are declared in all columns."""
    in_columns = [
        column < size for column, size in zip(codes, domain.sizes, strict=True)
    ]
    return np.logical_and.reduce(in_columns)


def encode_columns(
    table: Table, domain: Domain, handle_unknown: str, *, missing: bool = False
) -> tuple[list[Codes], list[Any]]:
    """Encode the columns of a table; also list the columns with undeclared values that are errors.

    An undeclared value has the number of declared values as its code. With ``handle_unknown="ignore"``, undeclared
    values are not errors; with `missing`, undeclared missing values are not errors.
    """
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


def encode_declared(table: Table, domain: Domain, handle_unknown: str) -> list[Codes]:
    """Encode the columns of a table; undeclared values raise an error unless ``handle_unknown="ignore"``."""
    codes, undeclared = encode_columns(table, domain, handle_unknown)
    if undeclared:
        raise make_undeclared_error(undeclared[0], Batches(table), domain)
    return codes


def make_undeclared_error(
    name: ColumnName,
    rows: Batches,
    domain: Domain,
    *,
    is_exact: bool = False,
    **words: str,
) -> ValueError:
    """Return the error for undeclared values of a column of a domain; `words` are those of `undeclared_error`."""
    rows = rows.select([name])
    count = partial(_count_undeclared, values=domain[name], is_exact=is_exact)
    (counts,) = rows.add_up(count)
    (column,) = rows.table.columns
    return undeclared_error(name, column, domain[name], counts=counts, **words)


def _count_undeclared(table: Table, **declared: Any) -> list[Integers]:
    """Count the undeclared values of the only column of a table, by type (see `count_undeclared`)."""
    return [count_undeclared(table.columns[0], **declared)]


def is_ordered(attribute: Categories | Interval) -> bool:
    """Return True if the values of a column are declared in ascending order, or as ordered."""
    if isinstance(attribute, Interval):
        return True
    values = drop_missing(attribute.values)
    if not all(type_of_value(value) in ORDERED_TYPES for value in values):
        return attribute.ordered
    # Numbers and dates are ordered by value, even if they are declared as ordered.
    return all(value < following for value, following in pairwise(values))


def join_codes(domain: Domain, codes: Sequence[Codes], n_rows: int) -> Integers:
    """Return the code of the combination of values of each row; the number of combinations if one is undeclared.

    Without columns, the code of all rows is 0.
    """
    if not codes:
        return np.zeros(n_rows, np.int64)
    is_declared = find_declared(domain, codes)
    if is_declared.all():
        return domain.join(codes).astype(np.int64)
    joint = np.full(len(is_declared), domain.size, np.int64)
    joint[is_declared] = domain.join([column[is_declared] for column in codes])
    return joint


def make_frame(
    domain: Domain,
    columns: Mapping[str, NDArray[Any]],
    library: str,
    codes: Integers | None = None,
) -> Any:
    """Make a table with a row for each cell of a domain: in pandas the cells are its index, otherwise columns.

    `codes` are the codes of the values of each row, (n_rows, n_columns), unless all cells are rows.
    """
    if library == "pandas":
        return pd.DataFrame(columns, index=make_index(domain, codes))
    cells: dict[Any, Any] = {}
    if domain.columns:
        if codes is None:
            all_cells = np.unravel_index(np.arange(domain.size), domain.sizes)
            codes = np.column_stack(all_cells)
        decoders = make_label_decoders(domain, library)
        for name, decode, column in zip(domain.columns, decoders, codes.T, strict=True):
            cells[name] = decode(column)
    for name, column in columns.items():
        values = column.tolist()
        cells[name] = [None if value != value else value for value in values]
    return nw.from_dict(cells, backend=library).to_native()


def make_index(domain: Domain, codes: Integers | None) -> pd.Index | None:
    """Make an index of the cells of a domain, or of the cells with some codes, (n_cells, n_columns)."""
    if not domain.columns:
        return None
    if codes is None:
        return domain.cells()
    parts = [domain.select([name]).cells() for name in domain.columns]
    arrays = [part[column] for part, column in zip(parts, codes.T, strict=True)]
    return pd.MultiIndex.from_arrays(arrays, names=domain.columns)


def make_label_decoders(domain: Domain, library: str) -> list[Callable[[Codes], Any]]:
    """Return a function for each column that converts codes to labels; raise an error for labels without a dtype."""
    decoders = []
    for name in domain.columns:
        with name_column_in_errors(name):
            values, labels = domain[name], list(domain[name].labels)
            if not is_mixed(values):
                # Missing alone is text, as the other keys that may be found.
                values = Categories([None, ""] if labels == [None] else labels)
            decoders.append(call_safely(find_decoder, values, library, None))
    return decoders
