"""The columns of a model of events, and the measurement of people and of their events."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import Codes, ColumnName, Floats, Indices
from skdp.domain import Domain, Expression
from skdp.privacy import Split
from skdp.synthesis.measure._cell_counts import MAX_FOUND_BINS, measure_cells
from skdp.synthesis.measure._plan import MarginalPlan, make_plan, make_structure
from skdp.synthesis.measure._private_counts import NoiseSource, PrivateCounts
from skdp.synthesis.measure._rules import (
    CLIQUES_PER_MODEL,
    list_related,
    mark_places,
)
from skdp.synthesis.measure._selection import FittedCounts, measure_and_fit
from skdp.synthesis.model import Clique, Elimination, Marginal, Structure, expand
from skdp.synthesis.private._linked_tables import (
    PERSON_WEIGHT,
    CodedTables,
    LinkedTables,
    count_earlier_events,
    name_history,
    name_number,
)
from skdp.synthesis.private._number_cells import find_intervals
from skdp.synthesis.private._records import CodedRecords
from skdp.synthesis.private._table import replace_columns, select_present

PARTS = Split(rest="events", people=Fraction(1, 5))
"""Parts of the budget for people with their numbers of events, and for all events; see benchmarks/linked.py."""


class Histories:
    """For each person and each event column: the previous value, or the most frequent value so far."""

    # The code of a column with s values is s before the first event of a person.

    def __init__(self, sizes: Sequence[int], n_persons: int, has_order: bool) -> None:
        """Start with people without events; `sizes` are the numbers of values of the event columns."""
        self.codes = [np.full(n_persons, size, np.int32) for size in sizes]
        self.positions: dict[int, Floats] = {}
        self._counts: list[NDArray[np.int32]] = []
        if not has_order:
            self._counts = [np.zeros((n_persons, size), np.int32) for size in sizes]

    def add_event(
        self,
        persons: Indices,
        events: Sequence[Codes],
        positions: Mapping[int, Floats] | None = None,
    ) -> None:
        """Add one event of each of some people: the codes of its columns, and positions of numbers within bins.

        All arrays have the shape (n_events,), and positions, by index of the column, are from 0 to 1.
        """
        for column, codes in enumerate(events):
            is_changed = np.ones(persons.size, bool)
            if self._counts:
                # The latest one of several most frequent values.
                counts = self._counts[column]
                counts[persons, codes] += 1
                is_changed = counts[persons, codes] == counts[persons].max(axis=1)
            self.codes[column][persons[is_changed]] = codes[is_changed]
            if positions and column in positions:
                known = self.positions.setdefault(
                    column, np.full(self.codes[column].size, np.nan)
                )
                known[persons[is_changed]] = positions[column][is_changed]


@dataclass(frozen=True, eq=False)
class EventColumns:
    """The columns of a model of events: columns of an event, their histories, and columns of its person."""

    domain: Domain
    """All columns, in this order."""
    n_events: int
    """The number of columns of an event."""
    number: ColumnName
    """The name of the number of events: of all events, or of the remaining events if they have an order."""
    has_order: bool

    @classmethod
    def join(
        cls,
        events: Domain,
        people: Domain,
        facts: Domain,
        *,
        number: ColumnName,
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
    def given(self) -> frozenset[int]:
        """The columns given which events are drawn: all other columns."""
        return frozenset(range(self.n_events, len(self.domain.columns)))

    def find_structure(self, max_cells: int) -> Structure:
        """Find the sizes of all columns and the impossible cells, such as events that follow a last one."""
        structure = make_structure(self.domain, max_cells, self.given)
        masks = dict(structure.masks)
        graph = Elimination(structure.sizes, masks, self.given)
        for constraint in self._places:
            read, is_placed = mark_places(self.domain, constraint)
            column = self._find_place(constraint)
            codes = np.arange(self.domain.sizes[column])
            # A person without earlier events has the last code of a history.
            is_misplaced = codes < codes[-1]
            if constraint.place == "last":
                is_misplaced = codes > self.encode_numbers(np.array([1]), 0)
            clique = tuple(sorted({*read, column}))
            if graph.add(clique, max_cells, CLIQUES_PER_MODEL * max_cells):
                mask = expand(is_placed, read, clique)
                mask = mask & expand(is_misplaced, (column,), clique)
                masks[clique] = masks.get(clique, np.False_) | mask
        # A history has the order of its column; its last code is before all events.
        n, orders = self.n_events, structure.n_ordered
        n_ordered = (*orders[:n], *orders[:n], *orders[2 * n :])
        return replace(structure, masks=tuple(masks.items()), n_ordered=n_ordered)

    @property
    def _places(self) -> list[Expression]:
        """The constraints on first and last events, if these are known."""
        constraints = self.domain._constraints if self.has_order else ()
        return [constraint for constraint in constraints if constraint.place]

    def _find_place(self, constraint: Expression) -> int:
        """Return the column that states whether an event is first, a history, or last, the number of events."""
        if constraint.place == "last":
            return self.domain.columns.index(self.number)
        # The columns of events are before the columns of people.
        read = self.domain._list_read(constraint)
        return self.n_events + self.domain.columns.index(read[0])

    def plan(self, max_cells: int) -> MarginalPlan:
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
        # Pairs with the number of events are favored, because a person with many events has
        # more rows, but the same weight in scores.
        number_pairs = itertools.product(range(n), [number])
        related = list_related(self.domain, self.given)
        for constraint in self._places:
            read = map(self.domain.columns.index, self.domain._list_read(constraint))
            place = self._find_place(constraint)
            related += [(column, place) for column in read if column < n]
        return replace(
            make_plan(self.domain, "auto", None, None, max_cells),
            structure=self.find_structure(max_cells),
            workload=tuple(workload),
            favored=frozenset([*own_pairs, *number_pairs]),
            related=tuple(related),
        )

    def encode_numbers(self, n_events: Indices, n_earlier: Indices | int) -> Codes:
        """Encode the number of events of a person, with an order only the events from this one on."""
        numbers = n_events - n_earlier if self.has_order else n_events
        return self.domain[self.number].encode(numbers.astype(float))

    def make_records(
        self, persons: Indices, events: Sequence[Codes], people: Sequence[Codes]
    ) -> CodedRecords:
        """Return events, each with the weight PERSON_WEIGHT // n for the n events of its person.

        `persons` is the index of the person of each event, ascending; `events` and `people` are the codes of the
        columns of events and of people.
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
        return CodedRecords(
            codes, self.domain.sizes, PERSON_WEIGHT // n_events[persons]
        )

    def list_given_pairs(
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


def limit_bins(tables: LinkedTables, n_numbers: int, max_cells: int) -> int:
    """Return the largest number of bins of a column such that models of events carry pairs of such columns.

    A clique of any column of an event, its history, the number of events, with `n_numbers` values, and any column of
    people then has at most `max_cells` cells.
    """
    persons = max(tables.people.fine.sizes, default=1)
    events = max(max(table.fine.sizes) for table in tables.events.values())
    for n_bins in range(MAX_FOUND_BINS, 2, -1):
        size = min(n_bins, events)
        if size * (size + 1) * n_numbers * min(n_bins, persons) <= max_cells:
            return n_bins
    return 2


def measure_linked(
    tables: LinkedTables,
    plan: MarginalPlan,
    declared: Domain,
    coded: CodedTables,
    *,
    noise: NoiseSource,
) -> dict[Any, tuple[Domain, FittedCounts]]:
    """Spend the budget on noisy counts of people and of events; return the domain and counts of each table.

    `plan` has the marginals of people, `declared` the constraints, and `coded` the records. The result has the table of
    people first, for None.
    """
    domain, people, events = coded
    private = PrivateCounts(people, noise.split(PARTS.people))
    max_bins = limit_bins(tables, domain.sizes[-1], plan.max_cells)
    domain, cells = measure_cells(
        private, domain, tables.people.cells, max_bins, declared
    )
    persons = people.refine(cells.cells).coarsen(domain, cells.bins).codes
    counts = measure_and_fit(private, plan.with_domain(domain), cells)
    measured: dict[Any, tuple[Domain, FittedCounts]] = {None: (domain, counts)}
    fraction = PARTS.events / len(tables.events)
    for name, table in tables.events.items():
        rows, records = events[name]
        private = PrivateCounts(records, noise.split(fraction, PERSON_WEIGHT))
        cut, cells = measure_cells(
            private, table.domain, table.cells, max_bins, declared
        )
        columns = EventColumns.join(
            cut, domain, declared, number=name_number(name), has_order=table.has_order
        )
        codes = records.refine(cells.cells).coarsen(cut, cells.bins).codes
        linked = columns.make_records(rows, codes, persons)
        private = PrivateCounts(linked, private.noise)
        cells = replace(cells, intervals=find_intervals(columns.domain))
        counts = measure_and_fit(private, columns.plan(plan.max_cells), cells)
        measured[name] = columns.domain, counts
    return measured
