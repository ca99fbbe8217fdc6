"""Read a table of people and tables of their events, linked by the id of the person."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from skdp._arrays import ColumnLike, ColumnName, Indices, TableLike
from skdp.base import check_column_name
from skdp.central.statistics import Batches, select_columns
from skdp.domain import Categories, Domain, FoundCategories, Interval
from skdp.readers import load_large
from skdp.synthesis.private._records import CodedRecords, HandleUnknown
from skdp.synthesis.private._table import (
    PrivateTable,
    check_computable,
    complete_domain,
    find_open,
    refine_domain,
    replace_columns,
    select_present,
    widen_found,
)
from skdp.tables import (
    ColumnError,
    Table,
    call_safely,
    is_frame,
    read_key,
    to_object_list,
    to_objects,
    wrap_table,
)

PERSON_WEIGHT = 1 << 20
"""Integer weight of a person: each of n events has this weight divided by n, rounded down."""


def name_number(table: str) -> str:
    """Return the name of the column of people with their number of events in a table."""
    return f"n_{table}"


def name_history(column: ColumnName) -> str:
    """Return the name of the history of a column of events."""
    return f"history of {column}"


def declare_numbers(largest: int) -> Interval:
    """Declare the number of events of a person, in bins: 0 to 7 alone, wider bins, and the largest number."""
    edges = [0.0]
    while edges[-1] < largest:
        # Many people may have the largest number, to which others are limited.
        edges.append(min(edges[-1] + max(1, edges[-1] // 4), largest))
    return Interval([*edges, largest + 0.5], decimals=0)


def count_earlier_events(persons: Indices) -> Indices:
    """Return the number of earlier events of the person of each event; `persons` is ascending."""
    return np.arange(persons.size) - np.searchsorted(persons, persons)


@dataclass(frozen=True, eq=False, kw_only=True)
class LinkedTable(PrivateTable):
    """A table of people or of events, with the id of the person of each row, which is one of the features."""

    ids: pd.Index
    ranks: Indices
    """The rank of each event in the order of events; equal for all events without an order."""
    has_order: bool


class LinkedTables(NamedTuple):
    """A table of people, and tables of their events by name."""

    people: LinkedTable
    events: dict[str, LinkedTable]

    @property
    def features(self) -> list[Any]:
        """The names of the columns of all tables, including ids and derived columns."""
        tables = (self.people, *self.events.values())
        return list(dict.fromkeys(n for table in tables for n in table.features))

    @property
    def found(self) -> dict[Any, Interval | FoundCategories]:
        """The columns of all tables whose values are found, by name."""
        tables = (self.people, *self.events.values())
        return {name: found for table in tables for name, found in table.found.items()}

    @property
    def domain(self) -> dict[Any, Any]:
        """The values of the modeled columns of all tables, by name."""
        tables = (self.people, *self.events.values())
        return {
            name: values for table in tables for name, values in table.domain.items()
        }

    def choose_searched(self, rng: np.random.Generator) -> Batches:
        """Choose the rows to search values: people, and one event of each person from each table."""
        people = self.people.table
        columns = dict(zip(people.names, people.columns, strict=True))
        for table in self.events.values():
            persons = _find_persons(self.people.ids, table.ids)
            chosen = table.table.take(choose_events(persons, 1, table.ranks, rng))
            columns |= zip(chosen.names, chosen.columns, strict=True)
        return Batches(Table(tuple(columns), tuple(columns.values()), people.native))

    def with_values(
        self, values: Mapping[Any, Interval | FoundCategories]
    ) -> LinkedTables:
        """Return the tables with the values that were found, by name of the column."""
        events = {n: table.with_values(values) for n, table in self.events.items()}
        return LinkedTables(self.people.with_values(values), events)

    def join(self, name: str | None, domain: Domain) -> Table:
        """Return the columns of people and of a table of events, or of people for None, in the order of a domain.

        The domain also has columns that are computed, which are empty.
        """
        table = self.people if name is None else self.events[name]
        columns = dict.fromkeys(domain.columns, np.empty(0))
        for part in (self.people, table):
            columns |= dict(zip(part.table.names, part.table.columns, strict=True))
        return Table(domain.columns, tuple(columns.values()), table.table.native)

    def list_written(self, declared: Domain) -> list[tuple[Any, ...]]:
        """List the columns of each synthetic table: its own, and derived columns that no table of the input has."""
        absent = set(declared.derived).difference(self.features)
        written = []
        for table in (self.people, *self.events.values()):
            columns = {*self.people.domain.columns, *table.domain.columns}
            computed = select_present(declared, columns).derived
            added = [name for name in computed if name in absent]
            absent.difference_update(added)
            written.append((*table.features, *added))
        return written


def _open_linked(
    data: TableLike,
    declared: Domain,
    *,
    person: ColumnName,
    order_by: ColumnName | None = None,
) -> LinkedTable:
    """Read a table; derived columns, and an undeclared column that orders events, are not modeled."""
    data = load_large(data)
    if not is_frame(data):
        raise TypeError(
            "Tables of people and of events must be dataframes with column names, got "
            f"{type(data).__name__}."
        )
    table = wrap_table(data)
    columns = dict(zip(table.names, table.columns, strict=True))
    if person not in table.names:
        raise ValueError(
            f"`person` must name a column of every table, got {person!r}, and a table with the "
            f"columns {list(columns)}."
        )
    features = [n for n in columns if n != order_by or n in declared]
    modeled = [name for name in features if name not in {person, *declared.derived}]
    table = select_columns(table, modeled)
    found = find_open(table, declared)
    domain = Domain({})
    if modeled:
        domain = complete_domain(table, declared, widen_found(found))
    ids = _read_column(person, _index_ids, columns[person])
    has_order = order_by in columns
    ranks = np.zeros(len(ids), np.intp)
    if has_order:
        listed = declared.get(order_by)
        rank = listed.encode if isinstance(listed, Categories) else _rank_values
        ranks = _read_column(order_by, rank, columns[order_by])
    return LinkedTable.of(
        features,
        table,
        domain,
        found=found,
        is_used=np.ones(len(ids), bool),
        ids=ids.rename(person),
        ranks=ranks,
        has_order=has_order,
    )


def _read_column(
    name: ColumnName, function: Callable[..., Any], *arguments: object
) -> Any:
    """Call a function that reads a column; an error names the column, and has none of its values."""
    try:
        return call_safely(function, *arguments)
    except ColumnError as error:
        raise ValueError(f"Column {name!r} {error}.") from None


def _index_ids(column: ColumnLike) -> pd.Index:
    # Objects, because other integers may become floats, which are equal if they are large.
    ids = to_object_list(column)
    for index, value in enumerate(ids):
        if isinstance(value, str | float):
            key = read_key(str(value))  # raises an error for rounded integers
            ids[index] = key if isinstance(value, str) else value
    return pd.Index(to_objects(ids), dtype=object)


def _rank_values(column: ColumnLike) -> Indices:
    """Return the rank of each value of a column; missing values are last."""
    values = nw.from_native(column, series_only=True).to_pandas()
    return np.asarray(values.rank(method="dense", na_option="bottom"), np.intp)


def open_tables(
    people: TableLike,
    events: TableLike,
    declared: Domain,
    *,
    person: ColumnName,
    order_by: ColumnName | None,
    person_columns: Sequence[Any] | None,
) -> LinkedTables:
    """Read a table of people and tables of events; both may be columns of one table."""
    for parameter, name in (("person", person), ("order_by", order_by)):
        check_column_name(parameter, name)
    if (events is None) == (person_columns is None):
        raise ValueError(
            "fit requires either a table of `events`, or `person_columns` for a single "
            "table with several rows per person. Pass one of them."
        )
    if person_columns is not None:
        people, events = split_rows(people, person, person_columns)
    tables = LinkedTables(_open_linked(people, declared, person=person), {})
    named = events if isinstance(events, Mapping) else {"events": events}
    for name, data in named.items():
        tables.events[name] = _open_linked(
            data, declared, person=person, order_by=order_by
        )
    _check_tables(tables, declared, person=person, order_by=order_by)
    return tables


def split_rows(
    rows: TableLike, person: ColumnName, person_columns: Sequence[Any]
) -> tuple[Any, Any]:
    """Split a table into people, with the `person_columns`, and their events."""
    names = wrap_table(rows).names if is_frame(rows) else ()
    is_name = isinstance(person_columns, str) or not isinstance(
        person_columns, Iterable
    )
    named = [person] if is_name else [person, *person_columns]
    if is_name or any(name not in names for name in named):
        raise ValueError(
            "`person` and `person_columns` must name columns of the table, "
            f"{list(names)}, got {person!r} and {person_columns!r}."
        )
    frame = nw.from_native(rows, eager_only=True)
    # The id itself may be among them.
    constant = list(dict.fromkeys(named))
    distinct = partial(frame.select(constant).unique, maintain_order=True)
    people = _read_column(person, distinct)
    if people[person].n_unique() < len(people):
        raise ValueError(
            f"`person_columns` must be constant for each person, got {person_columns} "
            "with several values of one person. Name fewer columns."
        )
    return people.to_native(), frame.drop(constant[1:]).to_native()


def _check_tables(
    tables: LinkedTables,
    declared: Domain,
    *,
    person: ColumnName,
    order_by: ColumnName | None,
) -> None:
    """Check the columns of all tables together."""
    people = tables.people
    n_tables = Counter(people.features)
    if texts := [c.text for c in people.domain._constraints if not c.is_on_rows]:
        raise ValueError(
            "Constraints on the number or order of events must read a column of events, got "
            f"{texts}. Add a comparison with such a column."
        )
    facts = select_present(declared, tables.features)
    unused = {*facts.constraints, *facts.derived}
    for name, table in tables.events.items():
        n_tables.update(table.features)
        if not table.domain.columns:
            raise ValueError(
                f"The table {name!r} must have columns besides {person!r}, got none."
            )
        columns = {*people.domain.columns, *table.domain.columns}
        check_computable(declared, (*people.features, *table.features), columns)
        facts = select_present(declared, columns)
        places = [c.text for c in facts._constraints if c.place]
        if places and not table.has_order:
            raise ValueError(
                f"`order_by` must name a column of the table {name!r} for the constraints "
                f"{places}, got {order_by!r}. Pass the column that orders its events, or "
                "remove them from `domain`."
            )
        unused -= {*facts.constraints, *facts.derived}
    if not tables.events:
        raise ValueError("`events` must have at least one table, got none.")
    if unused:
        raise ValueError(
            "Constraints and derived columns must read columns of people and of one "
            f"table of events, got {sorted(map(str, unused))}, which read several tables "
            "of events. Remove them from `domain`, or join these tables."
        )
    del n_tables[person]
    for name, n in n_tables.items():
        if n > 1:
            raise ValueError(
                f"Column {name!r} must be in one table only, got it in {n} tables. "
                "Rename it in one of them."
            )
    if order_by is not None and not any(t.has_order for t in tables.events.values()):
        raise ValueError(
            f"`order_by` must name a column of events, got {order_by!r}. The columns of "
            f"all tables are {tables.features}."
        )


class CodedTables(NamedTuple):
    """The records of people and of their events."""

    domain: Domain
    """The domain of people, with their numbers of events."""
    people: CodedRecords
    events: dict[str, tuple[Indices, CodedRecords]]
    """The person of each event, ascending, and the events, by name of the table."""


def encode_tables(
    tables: LinkedTables,
    declared: Domain,
    numbers: Interval,
    handle_unknown: HandleUnknown,
    rng: np.random.Generator,
) -> CodedTables:
    """Encode people and their events: at most as many events of each person and table as the largest of `numbers`.

    `numbers` declares the number of events of a person, which becomes a column of people for each table.
    """
    people = tables.people
    if people.ids.hasnans or not people.ids.is_unique:
        problem = "missing ids" if people.ids.hasnans else "an id that occurs twice"
        raise ValueError(
            f"Column {people.ids.name!r} of the table of people must have a different "
            f"id in each row, got {problem}. Keep one row per person."
        )
    codes, is_valid = people.encode(handle_unknown)
    codes = [column[is_valid] for column in codes]
    ids = people.ids[is_valid]
    columns: dict[Any, Any] = dict(people.domain)
    events = {}
    for name, table in tables.events.items():
        event_codes, is_used = table.encode(handle_unknown)
        found = _read_column(ids.name, _find_persons, ids, table.ids)
        persons = np.where(is_used, found, -1)
        rows = choose_events(persons, int(numbers.edges[-1]), table.ranks, rng)
        persons = persons[rows]
        n_events = np.bincount(persons, minlength=len(ids))
        codes.append(numbers.encode(n_events.astype(float)))
        columns[name_number(name)] = numbers
        chosen = [column[rows] for column in event_codes]
        weights = PERSON_WEIGHT // n_events[persons]
        encode = partial(table.encode_cells, handle_unknown, rows)
        records = CodedRecords(chosen, table.fine.sizes, weights, encode)
        events[name] = persons, records
    domain = _require_events(
        replace_columns(people.domain, columns), tables, declared, numbers
    )
    sizes = refine_domain(domain, people.cells).sizes
    encode = partial(people.encode_cells, handle_unknown, np.flatnonzero(is_valid))
    return CodedTables(domain, CodedRecords(codes, sizes, encode=encode), events)


def _require_events(
    domain: Domain, tables: LinkedTables, declared: Domain, numbers: Interval
) -> Domain:
    """Constrain people to as many events as the constraints on these require."""
    constraints = []
    for name, table in tables.events.items():
        columns = {*domain.columns, *table.domain.columns}
        for limit in select_present(declared, columns)._constraints:
            if limit.low > numbers.edges[-1]:
                raise ValueError(
                    f"{limit.title}: a person must have at most `max_rows_per_person` "
                    f"events, got {limit.low}. Increase it, or correct the constraint."
                )
            if limit.low:
                constraints.append(f"`{name_number(name)}` >= {limit.low}")
    return Domain(domain, constraints=constraints)


def _find_persons(people: pd.Index, ids: pd.Index) -> Indices:
    """Return the number of the person of each event; -1 for events without a person."""
    types = {people.inferred_type, ids.dropna().inferred_type} - {"empty"}
    # Integers become floats in pandas if ids are missing.
    if len(types) > 1 and types != {"integer", "floating"}:
        raise ColumnError(
            f"must have one type in all tables, got {sorted(types)}. Convert the ids of "
            "one of them"
        )
    return people.get_indexer(ids)


def choose_events(
    persons: Indices, max_rows: int, ranks: Indices, rng: np.random.Generator
) -> Indices:
    """Choose at most `max_rows` events of each person at random; return their rows, sorted by person and rank.

    `persons` has the person of each event, -1 for events that are excluded. Events of equal rank are in random order.
    """
    # Each row has a random number of its own, so the choice does not depend on other people.
    rows = np.lexsort((rng.random(persons.size), persons))
    rows = rows[np.searchsorted(persons[rows], 0) :]
    rows = rows[count_earlier_events(persons[rows]) < max_rows]
    return rows[np.lexsort((ranks[rows], persons[rows]))]
