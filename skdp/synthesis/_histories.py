"""Columns of a model of events: the events, the earlier events of their person, and the person."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import Codes, Indices
from skdp.domain import Domain, Interval
from skdp.synthesis._records import CodedRecords, replace_columns, select_present
from skdp.synthesis.model import Clique, Marginal, Structure
from skdp.synthesis.selection import Plan, make_plan

UNIT = 1 << 20
"""Integer weight of a person: each of n events has the weight UNIT // n, so that all of them have at most UNIT."""


def name_number(table: str) -> str:
    """Return the name of the column of people with their number of events in a table."""
    return f"n_{table}"


def name_history(column: Any) -> str:
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


class Histories:
    """For each person and each event column: the previous value, or the most frequent value so far."""

    # The code of a column with s values is s before the first event of a person.

    def __init__(self, sizes: Sequence[int], n_persons: int, has_order: bool) -> None:
        """Start with people without events; `sizes` are the numbers of values of the event columns."""
        self.codes = [np.full(n_persons, size, np.int32) for size in sizes]
        self._counts: list[NDArray[np.int32]] = []
        if not has_order:
            self._counts = [np.zeros((n_persons, size), np.int32) for size in sizes]

    def add_event(self, persons: Indices, events: Sequence[Codes]) -> None:
        """Add one event of each of some people: the codes of its columns."""
        for column, codes in enumerate(events):
            is_changed = np.ones(persons.size, bool)
            if self._counts:
                # The latest one of several most frequent values.
                counts = self._counts[column]
                counts[persons, codes] += 1
                is_changed = counts[persons, codes] == counts[persons].max(axis=1)
            self.codes[column][persons[is_changed]] = codes[is_changed]


@dataclass(frozen=True, eq=False)
class EventColumns:
    """The columns of a model of events: columns of an event, their histories, and columns of its person."""

    domain: Domain
    """All columns, in this order."""
    n_events: int
    """The number of columns of an event."""
    number: Any
    """The name of the number of events: of all events, or of the remaining events if they have an order."""
    has_order: bool

    @classmethod
    def join(
        cls,
        events: Domain,
        people: Domain,
        facts: Domain,
        *,
        number: Any,
        has_order: bool,
    ) -> EventColumns:
        """Add histories, columns of people, and the constraints and derived columns of `facts` to columns of events."""
        columns: dict[Any, Any] = dict(events)
        for name in events.columns:
            # A history also has a code for people without earlier events.
            columns[name_history(name)] = range(len(events[name]) + 1)
        columns |= dict(people)
        # The domain may declare columns of other tables.
        domain = replace_columns(select_present(facts, columns), columns)
        return cls(domain, len(events.columns), number, has_order)

    @property
    def structure(self) -> Structure:
        """The sizes of all columns; events are drawn given all other columns."""
        given = range(self.n_events, len(self.domain.columns))
        return Structure(self.domain.sizes, given=frozenset(given))

    def plan(self, max_cells: int) -> Plan:
        """Plan the marginals: pairs of event columns, with columns of people, and with the own history."""
        n = self.n_events
        own_pairs: list[Clique] = [(column, n + column) for column in range(n)]
        people = range(2 * n, len(self.domain.columns))
        number = self.domain.columns.index(self.number)
        workload: list[Clique] = [
            *itertools.combinations(range(n), 2),
            *own_pairs,
            *itertools.product(range(n), people),
        ]
        if self.has_order:
            workload += [(*pair, number) for pair in own_pairs]
        # A person with many events has more rows, but the same weight in scores.
        number_pairs = itertools.product(range(n), [number])
        return replace(
            make_plan(self.domain, "auto", None, None, max_cells),
            structure=self.structure,
            workload=tuple(workload),
            favored=frozenset([*own_pairs, *number_pairs]),
        )

    def encode_numbers(self, n_events: Indices, n_earlier: Any) -> Codes:
        """Encode the number of events of people who had `n_earlier` events before."""
        numbers = n_events - n_earlier if self.has_order else n_events
        codes: Codes = self.domain[self.number].encode(numbers.astype(float))
        return codes

    def make_records(
        self,
        persons: Indices,
        events: Sequence[Codes],
        people: Sequence[Codes],
    ) -> CodedRecords:
        """Return events with the weights UNIT // n, given their persons, ascending, and the codes of their columns.

        `people` are the codes of the columns of people.
        """
        n_events = np.bincount(persons, minlength=people[0].size)
        histories = Histories(
            self.domain.sizes[: self.n_events], n_events.size, self.has_order
        )
        n_earlier = count_earlier_events(persons)
        earlier: list[Codes] = [np.empty(persons.size, np.int32) for _ in events]
        for number in range(n_events.max(initial=0)):
            rows = np.flatnonzero(n_earlier == number)
            for before, history in zip(earlier, histories.codes, strict=True):
                before[rows] = history[persons[rows]]
            histories.add_event(persons[rows], [codes[rows] for codes in events])
        codes = [*events, *earlier, *(column[persons] for column in people)]
        number = self.domain.columns.index(self.number)
        codes[number] = self.encode_numbers(n_events[persons], n_earlier)
        return CodedRecords(codes, self.domain.sizes, UNIT // n_events[persons])

    def list_known(
        self, events: Iterable[Marginal], people: Iterable[Marginal]
    ) -> list[Clique]:
        """List the pairs of given columns whose dependence the marginals of events and people contain.

        A history has the dependences of its column of events.
        """
        n = self.n_events
        cliques = [{2 * n + column for column in m.clique} for m in people]
        for marginal in events:
            cliques.append({c + n if c < n else c for c in marginal.clique})
        return [*{tuple(sorted(c)): None for c in cliques if len(c) == 2}]
