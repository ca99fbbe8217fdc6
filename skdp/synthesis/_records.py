"""A private table as integer codes of its public domain, in memory or in an engine."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from numbers import Real
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.base import (
    check_choice,
    get_target,
    undeclared_error,
)
from skdp.central.statistics import (
    Batches,
    count_marginals,
    declared_domain,
    encode_columns,
    is_ordered,
    limit_persons,
    part_of,
)
from skdp.domain import Categories, Domain, Interval, copy_guarantee, domains_of_dtypes
from skdp.synthesis.model import Clique, n_cells_of, shape_of
from skdp.tables import LargeTable, Table, wrap_table

Codes = NDArray[np.unsignedinteger]

Policy = Literal["error", "clip", "ignore"]
POLICIES = get_args(Policy)
# Advice for lists of values, and for bins.
ADVICE = (
    "Or set handle_unknown: {column: declared value} replaces such values, and 'ignore' "
    "excludes such rows"
)
CLIP_ADVICE = (
    "Or set handle_unknown: 'clip' moves numbers to the first or last bin, "
    "{column: declared value or 'clip'} decides column by column, and 'ignore' excludes "
    "such rows"
)


def with_target(table: Table, y: Any) -> Table:
    """Add the target as the last column, in its own library."""
    column, name = get_target(table, y)
    return Table((*table.names, name), (*table.columns, column), table.native)


def check_policy(handle_unknown: Any) -> None:
    """Check the parameter `handle_unknown`, except for the names of columns."""
    if not isinstance(handle_unknown, Mapping):
        check_choice("handle_unknown", handle_unknown, POLICIES)


def read_codes(
    table: Table,
    domain: Domain,
    handle_unknown: Any,
) -> list[Codes]:
    """Encode the columns of a table, or raise for undeclared values."""
    codes, undeclared = encode_records(table, domain, handle_unknown)
    if undeclared:
        raise make_undeclared_error(undeclared[0], domain)
    return codes


def encode_records(
    table: Table,
    domain: Domain,
    handle_unknown: Any,
) -> tuple[list[Codes], list[Any]]:
    """Encode a table, and list the columns with undeclared values that are errors."""
    codes, unlisted = encode_columns(table, domain, "error")
    undeclared = []
    for index, name in enumerate(domain.columns):
        values = domain[name]
        column_codes = codes[index]
        size = domain.sizes[index]
        policy = handle_unknown
        if isinstance(handle_unknown, Mapping):
            policy = handle_unknown.get(name, "error")
        is_clipped = _is_clip(policy) and isinstance(values, Interval)
        if is_clipped:
            if name in unlisted:
                _clip(column_codes, values, table.columns[index])
        elif isinstance(handle_unknown, Mapping) and name in handle_unknown:
            replacement = _encode_replacement(name, values, policy)
            column_codes[column_codes == size] = replacement
        if handle_unknown != "ignore" and (column_codes == size).any():
            undeclared.append(name)
    return codes, undeclared


def _is_clip(policy: Any) -> bool:
    return isinstance(policy, str) and policy == "clip"


def make_undeclared_error(
    name: Any, domain: Domain, advice: str | None = None
) -> ValueError:
    """Return the error for an undeclared value, which contains no value."""
    where = "declared domain"
    if advice is None:
        advice = CLIP_ADVICE if isinstance(domain[name], Interval) else ADVICE
    return undeclared_error(name, domain[name], where=where, advice=advice)


def check_replacements(handle_unknown: Any, domain: Domain) -> None:
    """Check the column names of the parameter `handle_unknown`."""
    unknown = []
    if isinstance(handle_unknown, Mapping):
        unknown = [name for name in handle_unknown if name not in domain.columns]
    if unknown:
        raise ValueError(
            f"`handle_unknown` must name columns of the domain, got {unknown[0]!r}."
        )


def _encode_replacement(name: Any, values: Categories | Interval, value: Any) -> int:
    """Return the code of the value that replaces undeclared values of a column."""
    is_number = isinstance(values, Interval) and values.dtype.kind == "f"
    code = len(values)
    if not is_number or value is None or isinstance(value, Real):
        (code,) = values.encode(np.array([value], float if is_number else object))
    if code == len(values):
        or_clip = " or 'clip'" if is_number else ""
        raise ValueError(
            f"`handle_unknown` of column {name!r} must be one of its declared values"
            f"{or_clip}, got another {type(value).__name__}."
        )
    return int(code)


def _clip(codes: Codes, interval: Any, column: Any) -> None:
    """Move values beyond the bounds, including infinite ones, to the first or last bin."""
    values = interval.read(column)
    edges = np.array(interval.edges, values.dtype)
    codes[values < edges[0]] = 0
    codes[values > edges[-1]] = len(interval.edges) - 2


def complete_domain(
    table: Table, declared: Any, read: Mapping[Any, Any] | None = None
) -> Domain:
    """Return the domain of a table: declared values, and values read from public columns."""
    known = _declared_names(table, declared)
    public = None
    if isinstance(declared, Domain):
        used = [name for name in declared.columns if name in table.names]
        public = declared.select(used) if used else None
        declared = {name: declared[name] for name in used}
    if read:
        declared = {**(declared or {}), **read}
    domain = declared_domain(table, declared, "domain")
    # A dtype gives an order only to values that it declares: otherwise one record may
    # decide which categories it has.
    by_dtype = domains_of_dtypes(table)
    for name, column in zip(table.names, table.columns, strict=True):
        values = domain[name]
        is_of_dtype = name not in known and (name in by_dtype or values.observed)
        if is_of_dtype and isinstance(values, Categories):
            values.ordered = _is_ordered(column)
    if public is None:
        return domain
    columns = {name: domain[name] for name in domain.columns}
    return copy_guarantee(replace_columns(public, columns), public)


def derived_from(domain: Domain, columns: Collection[Any]) -> list[Any]:
    """List the derived columns that read one of some columns, also indirectly."""
    others = [name for name in domain.columns if name not in columns]
    computed = domain.select(others).derived
    return [name for name in domain.derived if name not in computed]


def check_computable(
    domain: Domain, features: Collection[Any], columns: Collection[Any]
) -> None:
    """Refuse a derived column of X that reads a column which the model lacks."""
    computed = domain.select([name for name in domain.columns if name in columns])
    lost = [c for c in domain.derived if c in features and c not in computed.derived]
    if lost:
        raise ValueError(
            f"X has derived columns {lost}, but not all columns from which the domain "
            "computes them. Add these columns to X, or drop the derived ones."
        )


def replace_columns(domain: Domain, columns: Mapping[Any, Any]) -> Domain:
    """Return a domain of other columns with the same constraints and derived columns."""
    return Domain(columns, constraints=domain.constraints, derived=domain.derived)


def _is_ordered(column: Any) -> bool:
    """Return True if a column has an ordered categorical dtype of pandas."""
    dtype = getattr(column, "dtype", None)
    return isinstance(dtype, pd.CategoricalDtype) and bool(dtype.ordered)


def _declared_names(table: Table, declared: Any) -> set[Any]:
    """Return the columns that are declared, whatever their dtypes are."""
    if declared is None:
        return set()
    if isinstance(declared, Domain):
        return set(declared.columns)
    return set(declared if isinstance(declared, Mapping) else table.names)


def declared_orders(domain: Domain, read: Collection[Any] = ()) -> tuple[bool, ...]:
    """Return for each column whether its codes are ordered."""
    # Bins and ordered categories are ordered. Declared numbers in a list may be codes,
    # such as codes of occupations; numbers that were read from public columns are
    # sorted.
    orders = []
    for name in domain.columns:
        values = domain[name]
        is_sorted = name in read and is_ordered(values)
        orders.append(isinstance(values, Interval) or values.ordered or is_sorted)
    return tuple(orders)


class CodedRecords:
    """Records in memory, as integer codes."""

    def __init__(
        self, codes: Sequence[NDArray[np.integer]], sizes: Sequence[int]
    ) -> None:
        self._codes = codes
        self._sizes = tuple(sizes)

    def count(self, cliques: Sequence[Clique]) -> Iterator[NDArray[np.int64]]:
        """Count marginals, one after the other."""
        return map(self._count, cliques)

    def _count(self, clique: Clique) -> NDArray[np.int64]:
        shape = shape_of(clique, self._sizes)
        cells = self._codes[clique[0]].astype(np.intp)
        for column in clique[1:]:
            cells *= self._sizes[column]
            cells += self._codes[column]
        return np.bincount(cells, minlength=math.prod(shape)).reshape(shape)

    def coarsen(
        self, domain: Domain, bins: Mapping[int, NDArray[np.intp]]
    ) -> CodedRecords:
        """Return the records by larger bins."""
        codes = list(self._codes)
        for column, bin_of_cell in bins.items():
            codes[column] = bin_of_cell[codes[column]]
        return CodedRecords(codes, domain.sizes)


class LargeRecords:
    """Records of a large table, which is not loaded: each pass counts many marginals."""

    def __init__(self, table: LargeTable, domain: Domain, handle_unknown: Any) -> None:
        self._table = table
        self._domain = domain
        self._handle_unknown = handle_unknown
        self._counts: dict[Clique, NDArray[np.int64]] = {}

    def count(self, cliques: Sequence[Clique]) -> Iterator[NDArray[np.int64]]:
        """Count marginals; marginals of the last pass are not read again."""
        for index, clique in enumerate(cliques):
            if clique not in self._counts:
                self.read(cliques[index:])
            yield self._counts[clique]

    def coarsen(
        self, domain: Domain, bins: Mapping[int, NDArray[np.intp]]
    ) -> LargeRecords:
        """Return the records by larger bins."""
        return LargeRecords(self._table, domain, self._handle_unknown)

    def read(self, cliques: Sequence[Clique]) -> None:
        """Read the table once, and count as many of the first marginals as one pass allows."""
        sizes = self._domain.sizes
        n_cells = np.cumsum([n_cells_of(clique, sizes) for clique in cliques])
        # Each worker holds all counts of a pass.
        n_counted = max(1, int((n_cells <= 1 << 23).sum()))
        counted = list(dict.fromkeys(cliques[:n_counted]))
        # Which rows are excluded depends on all columns.
        columns = sorted({*itertools.chain(*counted)})
        if self._handle_unknown == "ignore":
            columns = list(range(len(sizes)))
        domain = part_of(self._domain, columns)
        marginals = [tuple(map(columns.index, clique)) for clique in counted]
        # Workers return counts alone; undeclared values raise there.
        code = partial(encode_records, handle_unknown=self._handle_unknown)
        error = partial(make_undeclared_error, domain=domain)
        rows = Batches(wrap_table(self._table.sample), self._table)
        tables = count_marginals(rows, domain, marginals, code, error)
        self._counts.clear()
        for clique, table in zip(counted, tables, strict=True):
            self._counts[clique] = table.reshape(shape_of(clique, sizes))


Records = CodedRecords | LargeRecords
"""Private records, which can be counted exactly; they exist only during `fit`."""


def open_rows(
    table: LargeTable, *, y: Any, groups: Any, max_rows: int, rng: np.random.Generator
) -> tuple[LargeTable, Any]:
    """Return at most `max_rows` rows of each person, and a table without rows."""
    if y is not None:
        raise TypeError(
            "`y` must be None if X is a large table. Keep the target among its columns."
        )
    if groups is None:
        return table, table.sample
    return limit_persons(table, groups, max_rows, rng)


def undeclared(table: Table, declared: Any) -> list[Any]:
    """List the columns that are not declared."""
    # A dtype may declare values, such as a polars Enum.
    by_dtype = domains_of_dtypes(table)
    known = _declared_names(table, declared) | by_dtype.keys()
    return [name for name in table.names if name not in known]
