"""A private table that is read once: its domain, the fine cells of numbers, a template, and its rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from skdp._arrays import Codes, ColumnLike, ColumnName, Indices, Mask, TableLike
from skdp.base import (
    draw_seed,
    find_open_intervals,
    find_stack_level,
    get_target,
    name_declared,
)
from skdp.central.statistics import (
    Batches,
    declared_domain,
    is_ordered,
    limit_persons,
    read_persons,
    rows_within,
    select_columns,
    split_persons,
)
from skdp.domain import (
    Categories,
    Domain,
    DomainLike,
    FoundCategories,
    Interval,
    domains_of_dtypes,
    dtype_of_attribute,
    widen_interval,
)
from skdp.readers import LargeTable, open_large
from skdp.synthesis.private._number_cells import cut_domain
from skdp.synthesis.private._records import (
    CodedRecords,
    HandleUnknown,
    LargeRecords,
    Records,
    check_policy,
    encode_records,
    read_codes,
)
from skdp.tables import (
    ANY_TYPE,
    Table,
    empty_column,
    has_categories,
    has_integer_dtype,
    type_of_column,
    wrap_table,
)

MAX_COLUMNS = 500
"""Largest number of modeled columns."""

MAX_LOADED_BYTES = 1 << 27
"""Size of the largest table of an engine that is loaded: about a million rows of 16 numbers."""


@dataclass(frozen=True, eq=False)
class PrivateTable:
    """A private table: its public form, and its rows in memory or in an engine."""

    features: tuple[Any, ...]
    """Names of the columns of X, including derived columns."""
    table: Table
    """The modeled columns, the target last; without rows if the table is in an engine."""
    domain: Domain
    cells: Mapping[int, Interval]
    """The fine cells of numbers and dates, by index of the column."""
    is_used: Mask | bool = True
    """False for rows of a person in excess of `max_rows_per_person`; shape (n_rows,)."""
    large: LargeTable | None = None
    """The table in an engine; None if it is in memory."""
    found: Mapping[Any, Interval | FoundCategories] = field(default_factory=dict)
    """The columns whose values are found: intervals with an open end, and texts; see `find_open`."""

    @classmethod
    def of(
        cls, features: Collection[ColumnName], table: Table, domain: Domain, **rows: Any
    ) -> Self:
        """Cut the intervals of a domain into fine cells, and check that the table can represent declared values."""
        check_decodable(make_template(table, domain), domain)
        return cls(tuple(features), table, domain, cut_domain(domain), **rows)

    @property
    def scope(self) -> list[Any]:
        """Names of all protected columns: the columns of X, and the target."""
        return list(dict.fromkeys([*self.features, *self.table.names]))

    @property
    def fine(self) -> Domain:
        """The domain of the fine cells."""
        return refine_domain(self.domain, self.cells)

    @property
    def texts(self) -> list[int]:
        """The indices of the columns of text whose values are found."""
        columns = enumerate(self.domain.columns)
        return [i for i, n in columns if isinstance(self.found.get(n), FoundCategories)]

    @property
    def rows(self) -> Batches:
        """The rows that are used, to search the values of columns."""
        if self.large is not None or self.is_used is True:
            return Batches(self.table, self.large)
        return Batches(self.table.take(np.flatnonzero(self.is_used)))

    def with_values(self, values: Mapping[Any, Interval | FoundCategories]) -> Self:
        """Return the table with the values that were found, by name of the column."""
        columns: dict[Any, Any] = dict(self.domain)
        columns |= {name: values[name] for name in self.found}
        domain = replace_columns(self.domain, columns)
        return replace(self, domain=domain, cells=cut_domain(domain))

    def encode(self, handle_unknown: HandleUnknown) -> tuple[list[Codes], Mask]:
        """Encode the columns by fine cells; also return False for each row to exclude."""
        codes = read_codes(self.table, self.fine, handle_unknown)
        # With handle_unknown="ignore", rows with an undeclared value are excluded.
        is_included: Any = self.is_used
        for column_codes, size in zip(codes, self.fine.sizes, strict=True):
            is_included = is_included & (column_codes < size)
        return codes, is_included

    def encode_cells(
        self,
        handle_unknown: HandleUnknown,
        rows: Indices,
        cells: Mapping[int, Interval],
    ) -> dict[int, Codes]:
        """Encode some columns of the rows at some indices by other cells than the fine ones."""
        names = [self.domain.columns[column] for column in cells]
        columns = dict(zip(names, cells.values(), strict=True))
        table = select_columns(self.table, names)
        codes, _ = encode_records(table, Domain(columns), handle_unknown)
        return dict(zip(cells, [one[rows] for one in codes], strict=True))

    def read(self, handle_unknown: HandleUnknown, *, uses_pairs: bool) -> Records:
        """Encode the used rows by fine cells; `uses_pairs` states that all pairs of columns will be counted."""
        check_policy(handle_unknown, self.domain, self.found)
        if self.large is not None:
            rows = self.large.read_small(self.domain.columns, MAX_LOADED_BYTES)
            if rows is not None:
                loaded = replace(self, table=wrap_table(rows), large=None)
                records = loaded.read(handle_unknown, uses_pairs=uses_pairs)
                # The size of the table is private, so it must not change what is measured.
                records.is_large = True
                return records
        codes, is_included = self.encode(handle_unknown)
        if self.large is None:
            rows = np.flatnonzero(np.broadcast_to(is_included, len(codes[0])))
            codes = [column_codes[rows] for column_codes in codes]
            encode = partial(self.encode_cells, handle_unknown, rows)
            return CodedRecords(codes, self.fine.sizes, encode=encode)
        records = LargeRecords(
            self.large, self.fine, handle_unknown, uses_pairs=uses_pairs
        )
        # Undeclared values of a large table raise an error here.
        records.count_together([(column,) for column in range(len(codes))])
        return records


def open_table(
    X: TableLike,
    y: ColumnLike | None,
    person: ColumnLike | ColumnName | None,
    declared: DomainLike | None,
    *,
    read: Callable[[Any], Table],
    max_rows: int,
    rng: np.random.Generator,
) -> PrivateTable:
    """Open a table with its target, and choose at most `max_rows` rows of each person.

    `declared` is the parameter `domain` of a synthesizer, and `read` checks X.
    """
    large = open_large(X)
    if large is not None:
        large, X = _limit_large(large, y=y, person=person, max_rows=max_rows, rng=rng)
    else:
        X, person = split_persons(X, person)
    table = read(X)
    features = table.names
    if isinstance(declared, Domain) and declared.derived:
        # Derived columns are computed from other columns, and their values are not read.
        names = [name for name in features if name not in declared.derived]
        modeled = select_columns(table, names)
        table = wrap_table(modeled.rebuild(modeled.columns, names))
    if y is not None:
        table = with_target(table, y)
    if isinstance(declared, Domain):
        check_computable(declared, features, table.names)
    check_width(len(table.names))
    is_used: Mask | bool = True
    if large is None and person is not None:
        is_used = rows_within(read_persons(person, table), max_rows, rng)
    found = find_open(table, declared, target=None if y is None else table.names[-1])
    domain = complete_domain(table, declared, widen_found(found))
    check_row_constraints(domain)
    rows = {"is_used": is_used, "large": large, "found": found}
    return PrivateTable.of(features, table, domain, **rows)


def _limit_large(
    table: LargeTable,
    *,
    y: object,
    person: object,
    max_rows: int,
    rng: np.random.Generator,
) -> tuple[LargeTable, Any]:
    """Limit a large table to `max_rows` rows of each person; also return a table of its columns without rows."""
    if y is not None:
        raise TypeError(
            f"`y` must be None if X is a large table, got {type(y).__name__}. Keep the "
            "target among the columns of X."
        )
    if person is None:
        return table, table.template
    return limit_persons(table, person, max_rows, rng)


def with_target(table: Table, y: ColumnLike) -> Table:
    """Add the target as the last column, which may be a column of another library."""
    column, name = get_target(table, y)
    return Table((*table.names, name), (*table.columns, column), table.native)


def check_width(n_columns: int) -> None:
    """Check the number of columns."""
    if n_columns > MAX_COLUMNS:
        raise ValueError(
            f"X must have at most {MAX_COLUMNS} columns, got {n_columns}. The budget "
            "is split among the columns; select some by public knowledge."
        )


def make_generator(random_state: int | None, *key: object) -> np.random.Generator:
    """Return a generator for post-processing, whose random bits are independent of the noise."""
    seed = draw_seed(random_state)
    if seed is None:
        return np.random.default_rng()
    return np.random.default_rng([seed, *map(ord, repr(key))])


def complete_domain(
    table: Table,
    declared: Any,
    public_values: Mapping[ColumnName, Any] | None = None,
) -> Domain:
    """Return the domain of the columns of a table.

    Parameters
    ----------
    table : Table
        The columns to model.
    declared : Domain, mapping, list, Interval or None
        The parameter `domain` of a synthesizer.
    public_values : mapping of column name to values or Interval, optional
        Values of public columns, which were read from the data.
    """
    declared_names = _declared_names(table, declared)
    values_by_name = declared
    public_values = {**_declare_booleans(table, declared), **(public_values or {})}
    used = []
    if isinstance(declared, Domain):
        used = [name for name in declared.columns if name in table.names]
    if public_values:
        if isinstance(declared, Domain):
            # The error for an undeclared column names the columns of the Domain.
            private = [name for name in table.names if name not in public_values]
            declared_domain(select_columns(table, private), declared, "domain")
            values_by_name = {name: declared[name] for name in used}
        values_by_name = {**(values_by_name or {}), **public_values}
    domain = declared_domain(table, values_by_name, "domain")
    # A dtype gives an order only to values that it declares: otherwise one record may
    # decide which categories it has.
    by_dtype = domains_of_dtypes(table)
    for name, column in zip(table.names, table.columns, strict=True):
        values = domain[name]
        is_declared = name in declared_names
        is_from_dtype = not is_declared and (name in by_dtype or values.observed)
        if is_from_dtype and isinstance(values, Categories):
            values.ordered = _has_ordered_dtype(column)
    if not used:
        return domain
    # The constraints and derived columns of the Domain that read these columns.
    facts = declared.select(used)
    return replace_columns(facts, domain)


def _declare_booleans(
    table: Table, declared: DomainLike | None
) -> dict[Any, list[bool]]:
    """Return the values of columns with a dtype of booleans that the parameter `domain` omits."""
    if not table.has_dtypes:
        return {}
    columns = dict(zip(table.names, table.columns, strict=True))
    omitted = list_undeclared(table, declared)
    booleans = [name for name in omitted if type_of_column(columns[name]) == "boolean"]
    return {name: [False, True] for name in booleans}


def derived_from(domain: Domain, columns: Collection[Any]) -> list[Any]:
    """List the derived columns that depend on one of some columns, directly or through other derived columns."""
    independent = [name for name in domain.columns if name not in columns]
    computed = domain.select(independent).derived
    return [name for name in domain.derived if name not in computed]


def check_row_constraints(domain: Domain) -> None:
    """Check that all constraints of a domain are on single rows, and warn if they exclude missing values."""
    if texts := [c.text for c in domain._constraints if not c.is_on_rows]:
        raise ValueError(
            f"The constraints {texts} of `domain` limit the events of a person, which "
            "requires DPLinkedSynthesizer. Use it, or remove them."
        )
    level = find_stack_level() + 1
    domain._warn_of_missing(domain._constraints, stacklevel=level)


def check_computable(
    domain: Domain, features: Collection[Any], columns: Collection[Any]
) -> None:
    """Check that the modeled columns suffice to compute the derived columns of X.

    `features` are the columns of X, and `columns` the columns that the model has.
    """
    computed = select_present(domain, columns)
    missing = []
    for name in domain.derived:
        if name in features and name not in computed.derived:
            missing.append(name)
    if missing:
        raise ValueError(
            f"X has derived columns {missing}, but lacks columns from which `domain` "
            "computes them. Add these columns to X, or drop the derived columns."
        )


def select_present(domain: Domain, columns: Collection[Any]) -> Domain:
    """Select the columns of a domain that are among some columns, with the constraints and derived columns of these."""
    return domain.select([name for name in domain.columns if name in columns])


def replace_columns(domain: Domain, columns: Mapping[Any, Any]) -> Domain:
    """Return a domain of other columns with the same constraints and derived columns."""
    return Domain(columns, constraints=domain._constraints, derived=domain.derived)


def refine_domain(domain: Domain, cells: Mapping[int, Interval]) -> Domain:
    """Return a domain with the fine cells of some columns, by index, in place of their bins."""
    columns: dict[Any, Any] = dict(domain)
    for column, interval in cells.items():
        columns[domain.columns[column]] = interval
    return Domain(columns)


def _has_ordered_dtype(column: ColumnLike) -> bool:
    """Return True if a column has an ordered categorical dtype of pandas."""
    dtype = getattr(column, "dtype", None)
    return isinstance(dtype, pd.CategoricalDtype) and bool(dtype.ordered)


def _declared_names(table: Table, declared: DomainLike | None) -> set[Any]:
    """Return the names of the columns that the parameter `domain` declares; a list declares all columns."""
    if declared is None:
        return set()
    return set(declared if isinstance(declared, Mapping) else table.names)


def find_ordered(domain: Domain, public_names: Collection[Any]) -> tuple[bool, ...]:
    """Return True for each column whose codes are ordered.

    `public_names` are public columns whose values are read from the data.
    """
    # Bins and ordered categories are ordered. Declared numbers in a list may be codes,
    # such as codes of occupations. Numbers from public columns are sorted.
    is_column_ordered = []
    for name in domain.columns:
        values = domain[name]
        is_sorted = name in public_names and is_ordered(values)
        has_order = isinstance(values, Interval) or values.ordered
        is_column_ordered.append(has_order or is_sorted)
    return tuple(is_column_ordered)


def list_undeclared(table: Table, declared: DomainLike | None) -> list[Any]:
    """List the columns whose values neither the parameter `domain` nor a dtype declares."""
    # A polars Enum declares its values.
    by_dtype = domains_of_dtypes(table)
    declared_names = _declared_names(table, declared) | by_dtype.keys()
    return [name for name in table.names if name not in declared_names]


def find_open(
    table: Table, declared: DomainLike | None, target: ColumnName | None = None
) -> dict[Any, Interval | FoundCategories]:
    """Find the columns whose values are found: those declared as such, with an open end, or omitted by `declared`.

    Columns with a dtype of text or of any objects have `FoundCategories` without values. A `target` of integers must be
    declared, because they may be classes.
    """
    omitted = list_undeclared(table, declared)
    found: dict[Any, Interval | FoundCategories] = {}
    found |= find_open_intervals(table, declared)
    for name, values in name_declared(table.names, declared).items():
        if isinstance(values, FoundCategories) and values.is_open:
            found[name] = FoundCategories([])
            check_unconstrained(name, declared)
    absent = []
    for name, column in zip(table.names, table.columns, strict=True):
        if name not in omitted:
            continue
        dtype = type_of_column(column)
        is_whole = dtype == "number" and has_integer_dtype(column)
        # The dtype of a list of rows is inferred from its values.
        if not table.has_dtypes or (is_whole and name == target):
            absent.append(name)
        elif dtype in ("string", ANY_TYPE):
            found[name] = FoundCategories([])
        elif dtype == "number" and not has_categories(column):  # no codes of categories
            found[name] = Interval(real=not is_whole, decimals=0 if is_whole else None)
        elif dtype != "boolean":
            absent.append(name)
    if absent and not isinstance(declared, Domain):  # whose error names its columns
        raise ValueError(
            f"`domain` must declare the values of the columns {absent}, got none. Only "
            "the limits of columns with a dtype of numbers, and the values of columns of text, "
            "are found. Add lists of values from public knowledge, or exclude these columns."
        )
    return found


def check_unconstrained(name: ColumnName, domain: DomainLike | None) -> None:
    """Check that no constraint reads a column whose values are found, which may exclude all of them."""
    if isinstance(domain, Domain):
        read = [c.text for c in domain._constraints if name in domain._list_read(c)]
        if read:
            raise ValueError(
                f"`domain` must declare the values of column {name!r}, which the constraints "
                f"{read} read, got values to be found. Declare them."
            )


def find_others(domain: Domain) -> frozenset[int]:
    """Find the columns with a value for all values that are not found."""
    columns = enumerate(domain.values())
    return frozenset(c for c, values in columns if isinstance(values, FoundCategories))


def widen_found(
    found: Mapping[Any, Interval | FoundCategories],
) -> dict[Any, Interval | FoundCategories]:
    """Return the widest values of columns that are found, by which columns are checked before."""
    return {
        name: widen_interval(values) if isinstance(values, Interval) else values
        for name, values in found.items()
    }


def make_template(table: Table, domain: Domain) -> Table:
    """Return a table without rows that has the library and the names of a table, and the dtypes of a domain.

    Columns of categories keep their type, with the declared categories.
    """
    # A target may be of another library than the table; synthetic rows have one.
    native: object = np.empty((0, len(table.names)), object)
    library = "numpy"
    if not isinstance(table.native, np.ndarray):
        backend = nw.from_native(table.native).implementation
        library = backend.value
        native = nw.from_dict({}, backend=backend).to_native()
    inputs = dict(zip(table.names, table.columns, strict=True))
    columns = []
    for name in domain.columns:
        dtype = dtype_of_attribute(domain[name], library, inputs[name])
        columns.append(empty_column(library, dtype))
    return Table(table.names, tuple(columns), native)


def check_decodable(template: Table, domain: Domain) -> None:
    """Check that the library of a table can represent all declared values."""
    listed = []
    for name, column in zip(domain.columns, template.columns, strict=True):
        if not isinstance(domain[name], Interval):
            listed.append((name, column))
    if listed:
        names, columns = zip(*listed, strict=True)
        domain.select(names).decoders(columns)
