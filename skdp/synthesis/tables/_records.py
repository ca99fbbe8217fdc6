"""A private table as integer codes of its public domain, in memory or where it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal, Protocol, get_args

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.base import target_of, undeclared_error
from skdp.central.statistics import (
    CellTally,
    count_large,
    declared_domain,
    limit_persons,
    part_of,
)
from skdp.central.statistics import find_codes as find_outside
from skdp.domain import Categories, Domain, Interval
from skdp.synthesis.model import Clique, count_cells, count_pairs, cover
from skdp.tables import LargeTable, Table

Policy = Literal["error", "clip", "ignore"]
POLICIES = get_args(Policy)
_ADVICE = (
    "Or set handle_unknown: 'clip' puts numbers beyond bins into the first or last one, {column: declared value} "
    "takes this for all others, and 'ignore' leaves such rows out"
)


def with_target(table: Table, y: Any) -> Table:
    """Add the target as the last column."""
    column, name = target_of(table, y)
    return Table(
        (*table.names, name),
        (*table.columns, _like_table(column, table.native)),
        table.native,
    )


def _like_table(column: Any, native: Any) -> Any:
    """Convert a series to the library of a table; arrays fit into all of them."""
    if isinstance(column, np.ndarray):
        return column
    series = nw.from_native(column, series_only=True)
    if isinstance(native, np.ndarray):
        return series.to_numpy()
    library = nw.from_native(native).implementation
    if series.implementation is library:
        return column
    if library.is_pyarrow():
        import pyarrow

        return pyarrow.chunked_array([series.to_arrow()])
    return series.to_pandas() if library.is_pandas() else series.to_polars()


def check_policy(handle_unknown: Any) -> None:
    if isinstance(handle_unknown, Mapping):
        return
    if not isinstance(handle_unknown, str):
        raise TypeError(
            f"handle_unknown must be one of {POLICIES}, or a mapping of column name to a declared value, got "
            f"{type(handle_unknown).__name__}"
        )
    if handle_unknown not in POLICIES:
        raise ValueError(
            f"handle_unknown must be one of {POLICIES}, or a mapping, got {handle_unknown!r}"
        )


def read_codes(
    table: Table,
    domain: Domain,
    handle_unknown: Any,
    others: Mapping[Any, Any] | None = None,
) -> list[NDArray[np.unsignedinteger]]:
    """Code the columns of a table."""
    check_policy(handle_unknown)
    codes, undeclared = find_codes(table, domain, handle_unknown, others)
    if undeclared:
        raise undeclared_in(undeclared[0], domain)
    return codes


def find_codes(
    table: Table,
    domain: Domain,
    handle_unknown: Any,
    others: Mapping[Any, Any] | None = None,
) -> tuple[list[NDArray[np.unsignedinteger]], list[Any]]:
    """Code the columns of a table, and say which hold values that are not declared, but have to be."""
    codes, outside = find_outside(table, domain, "error")
    instead = _replacements(domain, others) | _replacements(domain, handle_unknown)
    undeclared = []
    for name in outside:
        place = domain.columns.index(name)
        code, size = codes[place], domain.sizes[place]
        if name in instead:
            code[code == size] = instead[name]
            continue
        if handle_unknown == "clip" and isinstance(domain[name], Interval):
            _clip(code, domain[name], table.columns[place])
        if handle_unknown != "ignore" and (code == size).any():
            undeclared.append(name)
    return codes, undeclared


def undeclared_in(name: Any, domain: Domain, advice: str = _ADVICE) -> ValueError:
    """Make the error of a value that is not declared; it shows no value."""
    return undeclared_error(name, domain[name], where="declared domain", advice=advice)


def _replacements(domain: Domain, handle_unknown: Any) -> dict[Any, int]:
    """Return the code of the value that stands for what is not declared."""
    if not isinstance(handle_unknown, Mapping):
        return {}
    found = {}
    for name, value in handle_unknown.items():
        if name not in domain.columns:
            raise ValueError(
                f"handle_unknown names {name!r}, which is no column of the domain"
            )
        values = domain[name]
        numeric = isinstance(values, Interval) and values.dtype.kind == "f"
        (code,) = values.encode(np.array([value], float if numeric else object))
        if code == len(values):
            raise ValueError(
                f"handle_unknown of column {name!r} must be one of its declared values"
            )
        found[name] = int(code)
    return found


def _clip(codes: NDArray[np.unsignedinteger], interval: Any, column: Any) -> None:
    """Put values beyond the ends, infinite numbers too, into the first or the last bin."""
    values = interval.read(column)
    edges = np.array(interval.edges, values.dtype)
    codes[values < edges[0]] = 0
    codes[values > edges[-1]] = len(interval.edges) - 2


def read_declared(
    table: Table, declared: Any, found: Mapping[Any, Any] | None = None
) -> Domain:
    """Build the domain of a table from what is declared; nothing is read from the data."""
    if found:
        known = declared if isinstance(declared, Mapping) else {}
        if isinstance(declared, Domain):
            known = {name: declared[name] for name in declared.columns}
        declared = {**known, **found}
    return declared_domain(table, declared, "domain")


def declared_orders(table: Table, domain: Domain) -> tuple[bool, ...]:
    """Return for each column whether neighbouring codes are declared to be neighbours: bins, and ordered categories."""
    # Numbers in a list may be codes of anything: of occupations, or of regions.
    columns = zip(domain.columns, table.columns, strict=True)
    return tuple(
        isinstance(domain[name], Interval) or _follows_order(domain[name], like)
        for name, like in columns
    )


def _follows_order(values: Categories | Interval, like: Any) -> bool:
    """Return whether a column has ordered categories, and its values are declared in this order."""
    dtype = getattr(like, "dtype", None)
    if not (isinstance(dtype, pd.CategoricalDtype) and dtype.ordered):
        return False
    places = dtype.categories.get_indexer(
        pd.Index([value for value in values.labels if value is not None])
    )
    return bool((places >= 0).all() and (np.diff(places) > 0).all())


_MOST_KEPT = 1 << 24  # cells of counts that are kept for a second use
_MOST_COUNTED = 1 << 23  # cells of counts of one pass: each worker holds them
_CACHE = 1 << 15  # cells that are counted quickly, as they stay in the cache
_TOGETHER = 80  # entries for each pair, up to which one matrix of all pairs of values takes less time than pair by pair


class Records(Protocol):
    """Private records, which can be counted exactly; they live inside `fit` only."""

    def count(self, cliques: Sequence[Clique]) -> Iterator[NDArray[np.int64]]:
        """Count marginals, one after the other."""

    def prepare(self, cliques: Sequence[Clique]) -> None:
        """Count in advance what will be asked for, where that saves reading the table again."""

    def coarser(self, domain: Domain, bins: Mapping[int, NDArray[np.intp]]) -> Records:
        """Return the same records by larger bins, given those of each cell of some columns."""


class CodedRecords:
    """Records in memory, as integer codes."""

    def __init__(
        self, codes: Sequence[NDArray[np.integer]], sizes: Sequence[int]
    ) -> None:
        self._codes, self._sizes = codes, sizes
        self._kept: dict[Clique, NDArray[np.int64]] = {}
        self._n_kept = 0

    def count(self, cliques: Sequence[Clique]) -> Iterator[NDArray[np.int64]]:
        pairs = [
            clique
            for clique in cliques
            if len(clique) == 2 and clique not in self._kept
        ]
        if sum(self._sizes) ** 2 <= min(_TOGETHER * len(pairs), _MOST_KEPT):
            self._kept |= count_pairs(self._codes, self._sizes, pairs)
        return map(self._count, cliques)

    def _count(self, clique: Clique) -> NDArray[np.int64]:
        if clique in self._kept:
            return self._kept[clique]
        counts = count_cells(
            [self._codes[column] for column in clique],
            [self._sizes[column] for column in clique],
        )
        self._n_kept += counts.size
        if self._n_kept <= _MOST_KEPT:
            self._kept[clique] = counts
        return counts

    def prepare(self, cliques: Sequence[Clique]) -> None:
        """Do nothing: codes in memory are counted when they are asked for."""

    def coarser(self, domain: Domain, bins: Mapping[int, NDArray[np.intp]]) -> Records:
        codes = [
            bins[place][code] if place in bins else code
            for place, code in enumerate(self._codes)
        ]
        return CodedRecords(codes, domain.sizes)


class LargeRecords:
    """Records of a table that stays where it is: it is read as few times as possible."""

    def __init__(self, table: LargeTable, domain: Domain, handle_unknown: Any) -> None:
        self._table, self._domain = table, domain
        self._handle_unknown = handle_unknown
        self._tables: dict[Clique, NDArray[np.int64]] = {}

    def count(self, cliques: Sequence[Clique]) -> Iterator[NDArray[np.int64]]:
        """Count marginals; those that were not counted yet in as few passes as memory allows."""
        for place, clique in enumerate(cliques):
            if self._holder(clique) is None:
                self._pass(cliques[place:])
            yield self._project(clique)

    def prepare(self, cliques: Sequence[Clique]) -> None:
        """Count as many marginals as one pass holds."""
        if any(self._holder(clique) is None for clique in cliques):
            self._pass(cliques)

    def coarser(self, domain: Domain, bins: Mapping[int, NDArray[np.intp]]) -> Records:
        return LargeRecords(self._table, domain, self._handle_unknown)

    def _pass(self, cliques: Sequence[Clique]) -> None:
        """Read the table once, for the first of some marginals."""
        sizes = self._domain.sizes
        wanted: list[Clique] = []
        n_cells = 0
        for clique in cliques:
            if self._holder(clique) is None:
                n_cells += part_of(self._domain, clique).size
                if wanted and n_cells > _MOST_COUNTED:
                    break
                wanted.append(clique)
        counted = cover(wanted, sizes, _CACHE)
        # Which rows are left out depends on all columns.
        needed = (
            range(len(sizes))
            if self._handle_unknown == "ignore"
            else sorted({*sum(counted, ())})
        )
        places = {column: place for place, column in enumerate(needed)}
        domain = part_of(self._domain, needed)
        marginals = [tuple(places[c] for c in clique) for clique in counted]
        tally = CellTally(
            domain, self._coder(domain), marginals, self._handle_unknown == "error"
        )
        tables = count_large(self._table, tally, partial(undeclared_in, domain=domain))
        for clique, table in zip(counted, tables, strict=True):
            self._tables[clique] = table.reshape([sizes[column] for column in clique])
        while sum(table.size for table in self._tables.values()) > _MOST_KEPT and len(
            self._tables
        ) > len(counted):
            del self._tables[next(iter(self._tables))]

    def _coder(self, domain: Domain) -> Any:
        policy = self._handle_unknown
        if isinstance(policy, Mapping):
            policy = {
                name: value for name, value in policy.items() if name in domain.columns
            }
        return partial(find_codes, handle_unknown=policy)

    def _holder(self, clique: Clique) -> Clique | None:
        """Find the smallest table that was counted and holds a marginal."""
        wanted = set(clique)
        holders = (counted for counted in self._tables if wanted.issubset(counted))
        return min(
            holders, key=lambda counted: self._tables[counted].size, default=None
        )

    def _project(self, clique: Clique) -> NDArray[np.int64]:
        holder = self._holder(clique)
        assert holder is not None  # it was just counted
        dropped = tuple(
            axis for axis, column in enumerate(holder) if column not in clique
        )
        return self._tables[holder].sum(axis=dropped)


def open_rows(
    table: LargeTable,
    *,
    y: Any,
    discover: Any,
    groups: Any,
    most: int,
    rng: np.random.Generator,
) -> tuple[LargeTable, Any]:
    """Return the rows of a large table, at most `most` of each person, and a table of its columns without rows."""
    if y is not None:
        raise TypeError(
            "y must be None, as X is a large table: keep the target among its columns"
        )
    if discover is not None:
        raise TypeError(
            "discover needs the values of a column, and skdp.engines only counts declared ones: declare them, or "
            "collect the frame first"
        )
    return (
        (table, table.sample)
        if groups is None
        else limit_persons(table, groups, most, rng)
    )
