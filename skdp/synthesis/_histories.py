"""Columns of a model of events: the events, the earlier events of their person, and the person."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.domain import Domain, Interval
from skdp.synthesis._records import find_ordered
from skdp.synthesis._synthesizer import DPMarginalSynthesizer
from skdp.synthesis.model import (
    Clique,
    Elimination,
    GraphicalModel,
    Marginal,
    Structure,
    Table,
)
from skdp.synthesis.selection import CLIQUES_PER_MODEL, Plan

MAX_STEPS, MIN_DECREASES = 600, (0.02, 0.005)
"""Number of steps, and relative decreases of the loss at which the descent stops, of models of events. Known marginals
of given columns slow the descent, so that it needs more steps than other models."""

N_RAKES = 20
"""Rounds of raking of a table; its margins are nearly consistent."""

MIN_CELL = 1e-9
"""Smallest cell of a table that is raked, relative to the largest one."""

Codes = NDArray[np.integer]


def name_number(table: str) -> str:
    """Return the name of the column of people with their number of events in a table."""
    return f"n_{table}"


def name_history(column: Any) -> str:
    """Return the name of the history of a column of events."""
    return f"history of {column}"


def declare_numbers(largest: int) -> Interval:
    """Declare the number of events of a person, in bins: 0 to 7 one by one, wider ones, and the largest number."""
    edges = [0.0]
    while edges[-1] < largest:
        # Many people may have the largest number, to which others are limited.
        edges.append(min(edges[-1] + max(1, edges[-1] // 4), largest))
    return Interval([*edges, largest + 0.5], decimals=0)


def mean_inverses(numbers: Any) -> Table:
    """Return the mean of 1 / n of the numbers n of each bin; 0 for no events."""
    means = [0.0]
    for low, high in itertools.pairwise(numbers.edges[1:]):
        means.append(float(np.mean(1 / np.arange(low, high))))
    return np.array(means)


class Histories:
    """For each person and each event column: the previous value, or the most frequent value so far."""

    # The code of a column with s values is s before the first event of a person.

    def __init__(self, sizes: Sequence[int], n_persons: int, has_order: bool) -> None:
        """Start with people without events; `sizes` are the numbers of values of the event columns."""
        self.codes = [np.full(n_persons, size, np.int32) for size in sizes]
        self._counts: list[NDArray[np.int32]] = []
        if not has_order:
            self._counts = [np.zeros((n_persons, size), np.int32) for size in sizes]

    def add_event(self, persons: NDArray[np.intp], events: Sequence[Codes]) -> None:
        """Add one event of each of some people: the codes of its columns."""
        for column, codes in enumerate(events):
            is_changed = np.ones(persons.size, bool)
            if self._counts:
                # The latest one of several most frequent values.
                counts = self._counts[column]
                counts[persons, codes] += 1
                is_changed = counts[persons, codes] == counts[persons].max(axis=1)
            self.codes[column][persons[is_changed]] = codes[is_changed]


def iterate_events(persons: NDArray[np.intp]) -> Iterator[NDArray[np.intp]]:
    """Yield the rows of the first event of each person, of each second event, and so on; `persons` is ascending."""
    numbers = np.arange(persons.size) - np.searchsorted(persons, persons)
    order = np.argsort(numbers, kind="stable")
    yield from np.split(order, np.cumsum(np.bincount(numbers))[:-1])


def trace_histories(
    persons: NDArray[np.intp],
    events: Sequence[Codes],
    sizes: Sequence[int],
    has_order: bool,
) -> list[Codes]:
    """Compute the histories before each event: the codes of each column, of shape (n_events,).

    `persons` has the person of each event, ascending, and `events` the codes of its columns.
    """
    histories = Histories(sizes, int(persons.max(initial=-1)) + 1, has_order)
    traced: list[Codes] = [np.empty(persons.size, np.int32) for _ in sizes]
    for rows in iterate_events(persons):
        for before, codes in zip(traced, histories.codes, strict=True):
            before[rows] = codes[persons[rows]]
        histories.add_event(persons[rows], [codes[rows] for codes in events])
    return traced


@dataclass(frozen=True, eq=False)
class EventColumns:
    """The columns of a model of events: columns of an event, their histories, and columns of its person."""

    domain: Domain
    """All columns, in this order."""
    n_events: int
    """The number of columns of an event."""
    number: int
    """The index of the number of events among the columns of people."""
    has_order: bool

    @classmethod
    def join(
        cls, events: Domain, people: Domain, table: str, has_order: bool
    ) -> EventColumns:
        """Add histories and columns of people to the columns of a table of events."""
        columns: dict[Any, Any] = dict(events)
        for name in events.columns:
            # A history also has a code for people without earlier events.
            columns[name_history(name)] = range(len(events[name]) + 1)
        number = people.columns.index(name_number(table))
        domain = Domain(columns | dict(people))
        return cls(domain, len(events.columns), number, has_order)

    @property
    def event_sizes(self) -> tuple[int, ...]:
        """The numbers of values of the columns of an event."""
        return self.domain.sizes[: self.n_events]

    @property
    def people(self) -> range:
        """The indices of the columns of people."""
        return range(2 * self.n_events, len(self.domain.columns))

    @property
    def own_pairs(self) -> list[Clique]:
        """The pairs of each event column and its history."""
        return [(column, self.n_events + column) for column in range(self.n_events)]

    @property
    def structure(self) -> Structure:
        """The sizes of all columns; events are drawn given all other columns."""
        given = frozenset(range(self.n_events, len(self.domain.columns)))
        return Structure(
            self.domain.sizes,
            given=given,
            max_steps=MAX_STEPS,
            min_decreases=MIN_DECREASES,
        )

    def plan(self, max_cells: int) -> Plan:
        """Plan the marginals: pairs of event columns, with columns of people, and with the own history."""
        events = range(self.n_events)
        workload: list[Clique] = [
            *itertools.combinations(events, 2),
            *self.own_pairs,
            *itertools.product(events, self.people),
        ]
        if self.has_order:
            # The position of an event among the events of its person.
            number = self.people[self.number]
            workload += [(*pair, number) for pair in self.own_pairs]
        return Plan(
            self.structure,
            find_ordered(self.domain, ()),
            max_cells,
            None,
            tuple(workload),
            favored=frozenset(self.own_pairs),
        )


def list_known(
    columns: EventColumns,
    people: DPMarginalSynthesizer,
    model: GraphicalModel,
    measured: Iterable[Marginal],
) -> list[Marginal]:
    """Estimate marginals of given columns: of people, and of histories, which are distributed like earlier events.

    `model` is fitted to the `measured` marginals of events. Without these estimates, the dependence of an event on
    several given columns would be attributed to each of them again.
    """
    # A row is a random event of a random person with events. People with n events have n
    # rows of weight 1 / n, and one of them is a first event, without a history.
    number = columns.number
    inverses = mean_inverses(people.domain_[people.domain_.columns[number]])
    known = []
    for clique, std_error in _find_errors(people.marginals_).items():
        if len(clique) <= 2:
            together = dict.fromkeys((*clique, number))
            counts = people.n_rows_ * people.model_.marginal(tuple(together))
            axis = list(together).index(number)
            counts = np.moveaxis(
                np.moveaxis(counts, axis, -1) * (inverses > 0), -1, axis
            )
            if number not in clique:
                counts = counts.sum(axis=-1)
            indices = tuple(columns.people[column] for column in clique)
            known.append(Marginal(indices, counts, std_error))

    counts = people.n_rows_ * people.model_.marginal((number,))
    n_first = float(counts @ inverses)
    n_later = float(counts[1:].sum()) - n_first
    later = []
    for _, history in columns.own_pairs:
        earlier = model.marginal((history,))[:-1]
        later.append(earlier * (n_later / max(earlier.sum(), MIN_CELL)))
    errors = _find_errors(measured)
    for first, second in itertools.combinations(range(columns.n_events), 2):
        if (first, second) in errors:
            table = rake(model.marginal((first, second)), later[first], later[second])
            table = np.pad(table, (0, 1))
            table[-1, -1] = n_first
            clique = columns.n_events + first, columns.n_events + second
            known.append(Marginal(clique, table, errors[first, second]))
    for (column, history), person in itertools.product(
        columns.own_pairs, columns.people
    ):
        index = columns.people.index(person)
        std_error = errors.get((column, person), max(errors.values()))
        if index == number:
            with_events, first_events = counts * (inverses > 0), counts * inverses
        elif (column, person) in errors:
            joint = people.n_rows_ * people.model_.marginal((index, number))
            with_events, first_events = joint[:, 1:].sum(axis=1), joint @ inverses
        else:
            continue
        rest = np.maximum(with_events - first_events, 0.0)
        table = rake(model.marginal((column, person)), later[column], rest)
        table = np.vstack([table, first_events])
        known.append(Marginal((history, person), table, std_error))
    return known


def _find_errors(marginals: Iterable[Marginal]) -> Mapping[Clique, float]:
    """Return the smallest standard error of the marginals of each clique."""
    errors: dict[Clique, float] = {}
    for marginal in marginals:
        error = errors.get(marginal.clique, math.inf)
        errors[marginal.clique] = min(error, marginal.std_error)
    return errors


def rake(table: Table, rows: Table, columns: Table) -> Table:
    """Scale the rows and columns of a table to given sums: its association, with other margins."""
    table = np.maximum(table, MIN_CELL * table.max())
    rows, columns = np.maximum(rows, MIN_CELL), np.maximum(columns, MIN_CELL)
    for _ in range(N_RAKES):
        table = table * (rows / table.sum(axis=1))[:, np.newaxis]
        table = table * (columns / table.sum(axis=0))
    return table


def select_known(
    structure: Structure,
    measured: Iterable[Marginal],
    known: Iterable[Marginal],
    max_cells: int,
) -> list[Marginal]:
    """Select the known marginals with which the model of all marginals still has few cells."""
    cliques = {marginal.clique for marginal in measured}
    graph = Elimination(structure.sizes, cliques, structure.given)
    selected = []
    for marginal in known:
        if graph.add(marginal.clique, max_cells, CLIQUES_PER_MODEL * max_cells):
            selected.append(marginal)
    return selected
