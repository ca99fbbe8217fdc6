"""Read a table of people and tables of their events, linked by a key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.central.statistics import find_missing, select_columns
from skdp.domain import Domain, Interval
from skdp.synthesis._cells import cut_domain
from skdp.synthesis._records import Codes, check_computable, complete_domain, read_codes
from skdp.synthesis._rows import check_decodable, make_template
from skdp.tables import (
    ColumnError,
    Table,
    call_safely,
    is_frame,
    open_large,
    to_object_list,
    to_objects,
    wrap_table,
)

Integers = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class LinkedTable:
    """A table of people or of events: its modeled columns, and the key of the person of each row."""

    title: str
    """The name of the table in messages."""
    features: tuple[Any, ...]
    """Names of all columns of the result, in order: the key, modeled and derived columns."""
    table: Table
    """The modeled columns."""
    domain: Domain
    cells: Mapping[int, Interval]
    """The fine cells of numbers and dates, by index of the column."""
    keys: pd.Index
    is_missing: NDArray[np.bool_]
    """True for each row without a key."""
    ranks: Integers | None = None
    """The rank of each event in the order of events."""

    def encode(self, handle_unknown: Any) -> tuple[list[Codes], NDArray[np.bool_]]:
        """Encode the columns by fine cells; also return False for each row with undeclared values to be ignored."""
        names = self.domain.columns
        fine = dict(self.domain) | {names[c]: cell for c, cell in self.cells.items()}
        codes = read_codes(self.table, Domain(fine), handle_unknown)
        is_valid = np.ones(len(self.keys), bool)
        for column_codes, values in zip(codes, fine.values(), strict=True):
            is_valid &= column_codes < len(values)
        return codes, is_valid


class LinkedTables(NamedTuple):
    """A table of people, and tables of their events by name."""

    people: LinkedTable
    events: dict[str, LinkedTable]

    @property
    def features(self) -> list[Any]:
        """The names of all columns."""
        tables = (self.people, *self.events.values())
        return list(dict.fromkeys(n for table in tables for n in table.features))


def open_table(
    data: Any,
    title: str,
    declared: Domain,
    *,
    key: Any,
    order_by: Any = None,
) -> LinkedTable:
    """Read a table; derived columns, and an undeclared column that orders events, are not modeled."""
    if open_large(data) is not None or not is_frame(data):
        raise TypeError(
            f"{title} must be a dataframe in memory with column names, got "
            f"{type(data).__name__}. Load its columns into memory first."
        )
    table = wrap_table(data)
    if key not in table.names:
        raise ValueError(
            f"`key` must name a column of every table, got {key!r}, which {title} lacks. "
            f"Its columns are {list(table.names)}."
        )
    columns = dict(zip(table.names, table.columns, strict=True))
    features = list(table.names)
    if order_by in features and order_by not in declared:
        features.remove(order_by)
    modeled = [name for name in features if name not in {key, *declared.derived}]
    table = select_columns(table, modeled)
    domain = complete_domain(table, declared) if modeled else Domain({})
    check_decodable(make_template(table, domain), domain)
    keys, is_missing = _read_column(key, _index_keys, columns[key])
    ranks = None
    if order_by in columns:
        ranks = _read_column(order_by, _rank_values, columns[order_by])
    return LinkedTable(
        title,
        tuple(features),
        table,
        domain,
        cut_domain(domain),
        keys.rename(key),
        is_missing,
        ranks,
    )


def _read_column(name: Any, function: Any, *arguments: Any) -> Any:
    """Call a function that reads a column; an error names the column, and has none of its values."""
    try:
        return call_safely(function, *arguments)
    except ColumnError as error:
        raise ValueError(f"Column {name!r} {error}.") from None


def _index_keys(column: Any) -> tuple[pd.Index, NDArray[np.bool_]]:
    # Objects, because other integers may become floats, which are equal if they are large.
    keys = pd.Index(to_objects(to_object_list(column)), dtype=object)
    return keys, find_missing(column)


def open_tables(
    people: Any,
    events: Any,
    declared: Domain,
    *,
    key: Any,
    order_by: Any,
    person_columns: Sequence[Any] | None,
) -> LinkedTables:
    """Read a table of people and tables of events; both may be columns of one table."""
    if (events is None) == (person_columns is None):
        raise ValueError(
            "fit requires either a table of `events`, or `person_columns` for a single "
            "table with several rows per person. Pass one of them."
        )
    if person_columns is not None:
        people, events = split_rows(people, key, person_columns)
    people = open_table(people, "the table of people", declared, key=key)
    tables = LinkedTables(people, {})
    named = dict(events) if isinstance(events, Mapping) else {"events": events}
    for name, data in named.items():
        title = f"the table {name!r}"
        tables.events[name] = open_table(
            data, title, declared, key=key, order_by=order_by
        )
    _check_tables(tables, declared, key=key, order_by=order_by)
    return tables


def split_rows(rows: Any, key: Any, person_columns: Sequence[Any]) -> tuple[Any, Any]:
    """Split a table into people, with the `person_columns`, and their events."""
    names = wrap_table(rows).names if is_frame(rows) else ()
    if isinstance(person_columns, str) or not {key, *person_columns} <= {*names}:
        raise ValueError(
            "`key` and `person_columns` must name columns of the table, "
            f"{list(names)}, got {key!r} and {person_columns!r}."
        )
    frame = nw.from_native(rows, eager_only=True)
    people = frame.select(nw.col(key), *map(nw.col, person_columns))
    distinct = _read_column(key, partial(people.unique, maintain_order=True))
    if len(distinct) > len(frame.select(nw.col(key)).unique()):
        raise ValueError(
            f"`person_columns` must be constant for each person, got {person_columns} "
            "with several values of one person. Name fewer columns."
        )
    events = frame.select(nw.col(n) for n in names if n not in person_columns)
    return distinct.to_native(), events.to_native()


def _check_tables(
    tables: LinkedTables, declared: Domain, *, key: Any, order_by: Any
) -> None:
    """Check the columns of all tables together."""
    people = tables.people
    events = list(tables.events.values())
    if not events:
        raise ValueError("`events` must have at least one table, got none.")
    has_order = False
    seen: dict[Any, str] = {}
    for table in (people, *events):
        for name in table.features:
            if name in seen and name != key:
                raise ValueError(
                    f"Column {name!r} must be in one table only, got it in {seen[name]} "
                    f"and in {table.title}. Rename it in one of them."
                )
            seen[name] = table.title
    for table in events:
        if not table.domain.columns:
            raise ValueError(
                f"{table.title} must have columns besides {key!r}, got none."
            )
        columns = {*people.domain.columns, *table.domain.columns}
        check_computable(declared, (*people.features, *table.features), columns)
        has_order |= table.ranks is not None
    if order_by is not None and not has_order:
        raise ValueError(
            f"`order_by` must name a column of events, got {order_by!r}. Their columns "
            f"are {[list(table.features) for table in events]}."
        )


class EventCodes(NamedTuple):
    """The chosen events of people, sorted by person."""

    persons: Integers
    """The person of each event."""
    codes: list[Codes]
    """The fine codes of each column."""


class LinkedCodes(NamedTuple):
    """The exact records of a fit, as codes of fine cells."""

    n_persons: int
    people: Sequence[Codes]
    events: dict[str, EventCodes]


def encode_tables(
    tables: LinkedTables,
    handle_unknown: Any,
    max_rows: int,
    rng: np.random.Generator,
) -> LinkedCodes:
    """Encode people, and at most `max_rows` events of each person in each table."""
    people = tables.people
    keys = people.keys
    if people.is_missing.any() or not keys.is_unique:
        problem = (
            "missing keys" if people.is_missing.any() else "a key that occurs twice"
        )
        raise ValueError(
            f"Column {keys.name!r} of {people.title} must have a different key in each row, "
            f"got {problem}. Keep one row per person."
        )
    codes, is_valid = people.encode(handle_unknown)
    keys = keys[is_valid]
    events = {}
    for name, table in tables.events.items():
        event_codes, is_used = table.encode(handle_unknown)
        found = _read_column(keys.name, _find_persons, keys, table)
        persons = np.where(is_used, found, -1)
        rows = choose_events(persons, max_rows, table.ranks, rng)
        chosen = [column[rows] for column in event_codes]
        events[name] = EventCodes(persons[rows], chosen)
    return LinkedCodes(len(keys), [column[is_valid] for column in codes], events)


def _find_persons(people: pd.Index, events: LinkedTable) -> Integers:
    """Return the number of the person of each event; -1 for events without a person."""
    keys = events.keys
    types = {people.inferred_type, keys[~events.is_missing].inferred_type} - {"empty"}
    # Integers become floats in pandas if keys are missing.
    if len(types) > 1 and types != {"integer", "floating"}:
        raise ColumnError(
            f"must have one type in all tables, got {sorted(types)}. Convert the keys of "
            "one of them"
        )
    return np.where(events.is_missing, -1, people.get_indexer(keys))


def _rank_values(column: Any) -> Integers:
    """Return the rank of each value of a column; missing values are last."""
    values = nw.from_native(column, series_only=True).to_pandas()
    return np.asarray(values.rank(method="dense", na_option="bottom"), np.intp)


def choose_events(
    persons: Integers,
    max_rows: int,
    ranks: Integers | None,
    rng: np.random.Generator,
) -> Integers:
    """Choose at most `max_rows` events of each person at random; return their rows, sorted by person and rank.

    `persons` has the person of each event, -1 for events that are excluded. Events of equal rank are in random order.
    """
    # Each row has a random number of its own, so the choice does not depend on other people.
    rows = np.lexsort((rng.random(persons.size), persons))
    rows = rows[np.searchsorted(persons[rows], 0) :]
    chosen = persons[rows]
    rows = rows[np.arange(rows.size) - np.searchsorted(chosen, chosen) < max_rows]
    return rows if ranks is None else rows[np.lexsort((ranks[rows], persons[rows]))]
