"""Read a table of people and tables of their events, linked by a key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.central.statistics import select_columns
from skdp.domain import Domain, Interval
from skdp.synthesis._records import Codes, complete_domain, read_codes
from skdp.tables import (
    ColumnError,
    Table,
    call_safely,
    is_frame,
    open_large,
    wrap_table,
)

Integers = NDArray[np.intp]


@dataclass(frozen=True)
class LinkedTable:
    """A table of people or of events: its modeled columns, and the key of the person of each row."""

    name: str
    """The name of the table in messages."""
    features: tuple[Any, ...]
    """Names of all columns of the result, in order: the key, modeled and derived columns."""
    table: Table
    """The modeled columns."""
    domain: Domain
    keys: pd.Series
    order: pd.Series | None = None
    """The values by which the events of a person are sorted."""

    def encode(
        self, cells: Mapping[int, Interval], handle_unknown: Any
    ) -> tuple[list[Codes], NDArray[np.bool_]]:
        """Encode the columns by fine cells; also return False for each row with undeclared values to be ignored."""
        names = self.domain.columns
        fine = {name: self.domain[name] for name in names}
        fine |= {names[column]: interval for column, interval in cells.items()}
        fine_domain = Domain(fine)
        policy = handle_unknown
        if isinstance(policy, Mapping):
            policy = {name: policy[name] for name in policy if name in names}
        codes = read_codes(self.table, fine_domain, policy)
        is_valid = np.ones(len(self.keys), bool)
        for column_codes, size in zip(codes, fine_domain.sizes, strict=True):
            is_valid &= column_codes < size
        return codes, is_valid


def open_table(
    data: Any, name: str, declared: Domain, key: Any, order_by: Any = None
) -> LinkedTable:
    """Split a table into the key of the person and the modeled columns; derived columns are not read."""
    if open_large(data) is not None or not is_frame(data):
        raise TypeError(
            f"{name} must be a dataframe in memory with column names, got "
            f"{type(data).__name__}. Load its columns into memory first."
        )
    table = wrap_table(data)
    if key not in table.names:
        raise ValueError(
            f"`key` must name a column of every table, got {key!r}, which {name} lacks. "
            f"Its columns are {list(table.names)}."
        )
    order = None
    if order_by in table.names:
        order = _to_series(table, order_by)
    is_only_order = order is not None and order_by not in declared.columns
    modeled = []
    features = []
    for column in table.names:
        if is_only_order and column == order_by:
            continue
        features.append(column)
        if column != key and column not in declared.derived:
            modeled.append(column)
    columns = select_columns(table, modeled)
    columns = (
        wrap_table(columns.rebuild(columns.columns, modeled)) if modeled else columns
    )
    domain = Domain({})
    if modeled:
        domain = complete_domain(columns, declared)
    keys = _to_series(table, key)
    return LinkedTable(name, tuple(features), columns, domain, keys, order)


def _to_series(table: Table, name: Any) -> pd.Series:
    column = table.columns[table.names.index(name)]
    if not isinstance(column, pd.Series):
        column = nw.from_native(column, series_only=True).to_pandas()
    return column.reset_index(drop=True)


def check_names(tables: Sequence[LinkedTable], key: Any) -> None:
    """Check that a column name occurs in one table only, and that the keys of all tables have one type."""
    seen = {key: ""}
    for table in tables:
        for name in table.features:
            if name in seen and name != key:
                raise ValueError(
                    f"Column {name!r} must be in one table only, got it in {seen[name]} "
                    f"and in {table.name}. Rename it in one of them."
                )
            seen[name] = table.name
    kinds = {_type_of_keys(table.keys) for table in tables if len(table.keys)}
    if len(kinds) > 1:
        raise ValueError(
            f"Column {key!r} must have one type in all tables, got {sorted(kinds)}. "
            "Convert the keys of one of them."
        )


def _type_of_keys(keys: pd.Series) -> str:
    name = pd.api.types.infer_dtype(keys, skipna=True)
    # Integers become floats in pandas if keys are missing.
    return "number" if name in ("integer", "floating") else name


def number_people(keys: pd.Series, name: str) -> pd.Index:
    """Return the keys of people as an index; raise an error for missing or repeated keys."""
    index, is_missing, is_repeated = call_key(_index_keys, keys, name)
    if is_missing or is_repeated:
        problem = "missing keys" if is_missing else "a key that occurs twice"
        raise ValueError(
            f"Column {keys.name!r} of {name} must have a different key in each row, got "
            f"{problem}. Keep one row per person."
        )
    return index


def call_key(function: Any, keys: pd.Series, *arguments: Any) -> Any:
    """Call a function of a column of keys; the message of an error has no key."""
    try:
        return call_safely(function, keys, *arguments)
    except ColumnError as error:
        raise ValueError(f"Column {keys.name!r} {error}.") from None


def _index_keys(keys: pd.Series, name: str) -> tuple[pd.Index, bool, bool]:
    index = pd.Index(keys)
    return index, bool(keys.isna().any()), not index.is_unique


def find_persons(people: pd.Index, keys: pd.Series) -> Integers:
    """Return the number of the person of each event; -1 for events without a person."""

    def find(keys: pd.Series) -> Integers:
        return np.where(keys.isna(), -1, people.get_indexer(pd.Index(keys)))

    persons: Integers = call_key(find, keys)
    return persons


def choose_events(
    persons: Integers, max_rows: int, order: pd.Series | None, rng: np.random.Generator
) -> Integers:
    """Choose at most `max_rows` events of each person at random; return their rows, sorted by person and order.

    `persons` has the person of each event, -1 for events that are excluded. Without an order, the events of a person
    are in random order.
    """
    # The numbers of a person's rows do not depend on other people.
    numbers = rng.random(persons.size)
    rows = np.flatnonzero(persons >= 0)
    rows = rows[np.lexsort((numbers[rows], persons[rows]))]
    chosen = persons[rows]
    positions = np.arange(rows.size) - np.searchsorted(chosen, chosen)
    rows = rows[positions < max_rows]
    if order is None:
        return rows
    ranks = call_key(_rank_values, order.iloc[rows])
    return rows[np.lexsort((ranks, persons[rows]))]


def _rank_values(values: pd.Series) -> NDArray[np.float64]:
    return np.asarray(values.rank(method="dense", na_option="bottom"), float)


@dataclass(frozen=True)
class LinkedTables:
    """A table of people and the tables of their events, before they are encoded."""

    declared: Domain
    """The parameter `domain`."""
    features: tuple[Any, ...]
    """Names of the columns of a single table, in order; empty for several tables."""
    people: LinkedTable
    events: dict[str, LinkedTable]
    is_single: bool
    """True for one table with several rows per person, of which both are columns."""

    @property
    def all(self) -> list[LinkedTable]:
        """All tables, the people first."""
        return [self.people, *self.events.values()]

    @property
    def scope(self) -> list[Any]:
        """The names of all columns."""
        return list(
            dict.fromkeys(name for table in self.all for name in table.features)
        )


def open_tables(
    people: Any,
    events: Any,
    declared: Domain,
    *,
    key: Any,
    order_by: Any,
    person_columns: Sequence[Any] | None,
) -> LinkedTables:
    """Open a table of people and tables of events, or one table of which `person_columns` are columns of people."""
    if (events is None) == (person_columns is None):
        raise ValueError(
            "fit requires either a table of `events`, or `person_columns` for a single "
            "table with several rows per person. Pass one of them."
        )
    features: tuple[Any, ...] = ()
    if person_columns is not None:
        features = tuple(wrap_table(people).names) if is_frame(people) else ()
        people, events = split_columns(people, key, person_columns)
    named = dict(events) if isinstance(events, Mapping) else {"events": events}
    if not named:
        raise ValueError("`events` must have at least one table, got none.")
    opened = open_table(people, "the table of people", declared, key)
    children = {}
    for name, data in named.items():
        table = open_table(data, f"the table {name!r}", declared, key, order_by)
        if not table.domain.columns:
            raise ValueError(
                f"{table.name} must have columns besides {key!r}, got none."
            )
        children[name] = table
    kept = {name for table in (opened, *children.values()) for name in table.features}
    features = tuple(name for name in features if name in kept)
    tables = LinkedTables(
        declared, features, opened, children, person_columns is not None
    )
    has_order = [table.order is not None for table in children.values()]
    if order_by is not None and not any(has_order):
        raise ValueError(
            f"`order_by` must name a column of events, got {order_by!r}. Their columns "
            f"are {[list(table.features) for table in children.values()]}."
        )
    check_names(tables.all, key)
    return tables


def split_columns(
    data: Any, key: Any, person_columns: Sequence[Any]
) -> tuple[Any, Any]:
    """Split a table into the columns of people and the columns of events, both with the key."""
    if not is_frame(data):
        raise TypeError(
            f"The table must be a dataframe with column names, got {type(data).__name__}."
        )
    table = wrap_table(data)
    unknown = [name for name in (key, *person_columns) if name not in table.names]
    if isinstance(person_columns, str) or unknown:
        raise ValueError(
            f"`key` and `person_columns` must be columns of the table, "
            f"{list(table.names)}, got {unknown or person_columns!r}."
        )
    constant = [name for name in table.names if name in {key, *person_columns}]
    varying = [name for name in table.names if name == key or name not in constant]
    split = []
    for names in (constant, varying):
        columns = select_columns(table, names)
        split.append(columns.rebuild(columns.columns, names))
    return split[0], split[1]


@dataclass(frozen=True)
class EventCodes:
    """The events of people, sorted by person."""

    persons: Integers
    """The person of each event."""
    codes: list[Codes]
    """The fine codes of each column."""


@dataclass(frozen=True)
class LinkedCodes:
    """The exact records of a fit, as codes of fine cells."""

    people: list[NDArray[np.integer]]
    n_persons: int
    events: list[EventCodes]

    def count_events(self, child: int) -> Integers:
        """Count the events of each person in a table of events."""
        return np.bincount(self.events[child].persons, minlength=self.n_persons)


def encode_tables(
    tables: LinkedTables,
    cells: Sequence[Mapping[int, Interval]],
    handle_unknown: Any,
    max_rows: int,
    rng: np.random.Generator,
) -> LinkedCodes:
    """Encode all tables, and choose at most `max_rows` events of each person.

    `cells` has the fine cells of the columns of each table, the people first.
    """
    encoded = []
    for table, table_cells in zip(tables.all, cells, strict=True):
        encoded.append(table.encode(table_cells, handle_unknown))
    codes, is_valid = encoded[0]
    if tables.is_single:
        is_valid = is_valid & encoded[1][1]
        persons, first = _split_rows(tables.people, codes, is_valid)
        found = [persons]
    else:
        first = np.flatnonzero(is_valid)
        index = number_people(tables.people.keys, tables.people.name)[first]
        found = [find_persons(index, table.keys) for table in tables.events.values()]
    events = []
    for (event_codes, is_valid), persons, table in zip(
        encoded[1:], found, tables.events.values(), strict=True
    ):
        persons = np.where(is_valid, persons, -1)
        rows = choose_events(persons, max_rows, table.order, rng)
        events.append(EventCodes(persons[rows], [c[rows] for c in event_codes]))
    return LinkedCodes([c[first] for c in codes], first.size, events)


def _split_rows(
    table: LinkedTable, codes: Sequence[Codes], is_valid: NDArray[np.bool_]
) -> tuple[Integers, Integers]:
    """Return the person of each row of a single table, -1 for excluded rows, and the first row of each person.

    `codes` are the columns of people, which must be constant for each person.
    """
    rows = np.flatnonzero(is_valid)
    persons = np.full(is_valid.size, -1)
    persons[rows] = call_key(lambda keys: pd.factorize(keys)[0], table.keys.iloc[rows])
    if (persons[rows] < 0).any():
        raise ValueError(
            f"Column {table.keys.name!r} must have the person of each row, got missing "
            "keys. Exclude these rows."
        )
    _, first = np.unique(persons[rows], return_index=True)
    first = rows[first]
    for name, column in zip(table.domain.columns, codes, strict=True):
        if (column[rows] != column[first][persons[rows]]).any():
            raise ValueError(
                f"Column {name!r} of `person_columns` must be constant for each person, "
                "got several values of one person. Leave it out of `person_columns`."
            )
    return persons, first
