"""What a model of events conditions on: the earlier events of a person, and known marginals of the given columns."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from skdp.domain import Interval
from skdp.synthesis._rows import MIN_RANK_DISTANCE, N_COPULA_ROWS, Ranks, accumulate
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
of given columns slow the descent (benchmarks/linked.py)."""

N_RAKES = 20
"""Rounds of raking of a table; its margins are nearly consistent."""

MIN_CELL = 1e-9
"""Smallest cell of a table that is raked, relative to the largest one."""

Codes = NDArray[np.integer]


def declare_numbers(first: int, last: int) -> Interval:
    """Declare the number of events of a person, in bins: 0 to 7 one by one, wider ones, and the largest number."""
    edges = [float(first)]
    while edges[-1] < last:
        # Many people may have the largest number, to which others are limited.
        edges.append(min(edges[-1] + max(1, edges[-1] // 4), last))
    return Interval([*edges, last + 0.5], decimals=0)


def mean_inverses(numbers: Interval) -> Table:
    """Return the mean of 1 / n of the numbers n of each bin; 0 for no events."""
    means = []
    for low, high in itertools.pairwise(numbers.edges):
        n_events = np.arange(low, high)
        means.append(np.mean(1 / n_events) if low > 0 else 0.0)
    return np.array(means)


class Histories:
    """For each person and each event column: the previous value, or the most frequent value so far."""

    # The code of a column with s values is s before the first event of a person.

    def __init__(self, sizes: Sequence[int], n_persons: int, has_order: bool) -> None:
        """Start with people without events; `sizes` are the numbers of values of the event columns."""
        self.codes = [np.full(n_persons, size, np.int32) for size in sizes]
        self.scores = [np.full(n_persons, np.nan) for _ in sizes]
        """The normal scores of the numbers with these codes; NaN if unknown."""
        self._counts: list[NDArray[np.int32]] = []
        if not has_order:
            self._counts = [np.zeros((n_persons, size), np.int32) for size in sizes]

    def add_event(
        self,
        persons: NDArray[np.intp],
        events: Sequence[Codes],
        scores: Mapping[int, Table],
    ) -> None:
        """Add one event of each of some people: the codes of its columns, and the normal scores of its numbers."""
        for column, codes in enumerate(events):
            is_changed = np.ones(persons.size, bool)
            if self._counts:
                # The latest one of several most frequent values.
                counts = self._counts[column]
                counts[persons, codes] += 1
                largest = counts[persons].max(axis=1)
                is_changed = counts[persons, codes] == largest
            changed = persons[is_changed]
            self.codes[column][changed] = codes[is_changed]
            if column in scores:
                self.scores[column][changed] = scores[column][is_changed]


def iterate_events(persons: NDArray[np.intp]) -> Iterator[NDArray[np.intp]]:
    """Yield the rows of the first event of each person, of each second event, and so on; `persons` is ascending."""
    numbers = np.arange(persons.size) - np.searchsorted(persons, persons)
    order = np.argsort(numbers, kind="stable")
    stops = np.cumsum(np.bincount(numbers))
    for start, stop in itertools.pairwise([0, *stops.tolist()]):
        yield order[start:stop]


def trace_histories(
    persons: NDArray[np.intp],
    events: Sequence[Codes],
    sizes: Sequence[int],
    has_order: bool,
) -> list[Codes]:
    """Compute the histories before each event: the codes of each column, of shape (n_events,).

    `persons` has the person of each event, ascending, and `events` the codes of its columns.
    """
    n_persons = int(persons.max(initial=-1)) + 1
    histories = Histories(sizes, n_persons, has_order)
    traced: list[Codes] = [np.empty(persons.size, np.int32) for _ in sizes]
    for rows in iterate_events(persons):
        for before, codes in zip(traced, histories.codes, strict=True):
            before[rows] = codes[persons[rows]]
        histories.add_event(persons[rows], [codes[rows] for codes in events], {})
    return traced


@dataclass(frozen=True, eq=False)
class HistoryRanks:
    """A Gaussian copula of a number and its history, which makes the positions within bins depend on each other."""

    edges: Table
    """The distribution function of the number at the edges of its bins."""
    correlation: float

    @property
    def n_bins(self) -> int:
        """The number of bins."""
        return self.edges.size - 1

    @classmethod
    def learn(cls, pairs: Table, n_bins: int) -> HistoryRanks:
        """Estimate the correlation from the proportions of pairs of codes of the number and its history."""
        pairs = np.maximum(pairs[:n_bins, :n_bins], 0.0)
        edges = [accumulate(pairs.sum(axis=1)), accumulate(pairs.sum(axis=0))]
        rng = np.random.default_rng(0)
        probabilities = pairs.ravel() + MIN_CELL / pairs.size
        cells = rng.choice(
            pairs.size, N_COPULA_ROWS, p=probabilities / probabilities.sum()
        )
        rows = np.array(np.divmod(cells, n_bins))
        ranks = Ranks.learn((0, 1), edges, rows, rng)
        return cls(edges[0], float(ranks.correlations[0, 1]))

    def draw(
        self, bins: Codes, scores: Table, rng: np.random.Generator
    ) -> tuple[Table, Table]:
        """Draw the position of each number within its bin, given the normal scores of the histories.

        Also return the normal scores of the numbers. A history with the score NaN is unknown.
        """
        correlation = np.where(np.isnan(scores), 0.0, self.correlation)
        mean = correlation * np.nan_to_num(scores)
        std = np.sqrt(1 - correlation**2)
        low = np.clip(self.edges[bins], MIN_RANK_DISTANCE, 1 - 2 * MIN_RANK_DISTANCE)
        high = np.clip(
            self.edges[bins + 1], low + MIN_RANK_DISTANCE, 1 - MIN_RANK_DISTANCE
        )
        lowest, highest = (
            ndtr((ndtri(low) - mean) / std),
            ndtr((ndtri(high) - mean) / std),
        )
        ranks = lowest + (highest - lowest) * rng.random(bins.size)
        drawn = ndtri(np.clip(ranks, 1e-15, 1 - 1e-15)) * std + mean
        drawn = np.clip(drawn, ndtri(low), ndtri(high))
        positions = np.clip((ndtr(drawn) - low) / (high - low), 0, np.nextafter(1, 0))
        return positions, drawn


@dataclass(frozen=True)
class EventColumns:
    """The columns of a model of events: the columns of an event, their histories, and the columns of its person."""

    event_sizes: tuple[int, ...]
    person_sizes: tuple[int, ...]
    """The columns of the model of people, among them the number of events."""
    is_event_ordered: tuple[bool, ...]
    is_person_ordered: tuple[bool, ...]
    count: int
    """The index of the number of events among the columns of people."""
    has_order: bool

    @property
    def n_events(self) -> int:
        """The number of columns of an event."""
        return len(self.event_sizes)

    def history_of(self, column: int) -> int:
        """Return the index of the history of an event column."""
        return self.n_events + column

    def person(self, column: int) -> int:
        """Return the index of a column of people."""
        return 2 * self.n_events + column

    @property
    def own_pairs(self) -> list[Clique]:
        """The pairs of each event column and its history."""
        return [(c, self.history_of(c)) for c in range(self.n_events)]

    @property
    def structure(self) -> Structure:
        """The sizes of all columns; events are drawn given all other columns."""
        # A history also has a code for people without earlier events.
        histories = [size + 1 for size in self.event_sizes]
        sizes = (*self.event_sizes, *histories, *self.person_sizes)
        given = frozenset(range(self.n_events, len(sizes)))
        return Structure(
            sizes, given=given, max_steps=MAX_STEPS, min_decreases=MIN_DECREASES
        )

    def plan(self, max_cells: int) -> Plan:
        """Plan the marginals: pairs of event columns, with columns of people, and with the own history."""
        people = map(self.person, range(len(self.person_sizes)))
        workload: list[Clique] = [
            *itertools.combinations(range(self.n_events), 2),
            *self.own_pairs,
            *itertools.product(range(self.n_events), people),
        ]
        if self.has_order:
            # The position of an event among the events of its person.
            workload += [(*pair, self.person(self.count)) for pair in self.own_pairs]
        no_order = [False] * self.n_events
        is_ordered = (*self.is_event_ordered, *no_order, *self.is_person_ordered)
        own = frozenset(self.own_pairs)
        return Plan(
            self.structure, is_ordered, max_cells, None, tuple(workload), favored=own
        )


@dataclass(frozen=True, eq=False)
class People:
    """The model of people, from which counts of people with events follow."""

    model: GraphicalModel
    marginals: Sequence[Marginal]
    """The noisy marginals of people."""
    n_persons: float
    count: int
    """The index of the number of events."""
    inverse_counts: Table
    """The mean of 1 / n for people whose number n of events has each code; 0 for people without events."""

    def count_values(self, columns: Clique) -> tuple[Table, Table]:
        """Count people with events by some columns, and add up their weights 1 / n of a first event."""
        everyone = self.n_persons * self.model.marginal((*columns, self.count))
        with_events = everyone * (self.inverse_counts > 0)
        return with_events.sum(axis=-1), with_events @ self.inverse_counts

    def count_numbers(self) -> tuple[Table, Table]:
        """Count people by their number of events, and add up their weights 1 / n of a first event."""
        everyone = self.n_persons * self.model.marginal((self.count,))
        return everyone * (self.inverse_counts > 0), everyone * self.inverse_counts

    def count_pair(self, clique: Clique) -> Table:
        """Count people with events by one or two columns, which may be the number of events."""
        if self.count not in clique:
            return self.count_values(clique)[0]
        has_events = self.inverse_counts > 0
        if clique[0] == self.count and len(clique) == 2:
            has_events = has_events[:, np.newaxis]
        return self.n_persons * self.model.marginal(clique) * has_events


def list_known(
    columns: EventColumns,
    people: People,
    model: GraphicalModel,
    measured: Iterable[Marginal],
) -> list[Marginal]:
    """Estimate marginals of given columns: of people, and of histories, which are distributed like earlier events.

    `model` is fitted to the `measured` marginals of events. Without these estimates, the dependence of an event on
    several given columns would be attributed to each of them again.
    """
    # A row is a random event of a random person with events. People with n events have n
    # rows of weight 1 / n, and one of them is a first event, without a history.
    known = []
    for clique in dict.fromkeys(m.clique for m in people.marginals):
        if len(clique) > 2:
            continue
        std_error = min(m.std_error for m in people.marginals if m.clique == clique)
        indices = tuple(map(columns.person, clique))
        known.append(Marginal(indices, people.count_pair(clique), std_error))
    errors: dict[Clique, float] = {}
    for marginal in measured:
        std_error = errors.get(marginal.clique, math.inf)
        errors[marginal.clique] = min(std_error, marginal.std_error)
    of_people, of_first = people.count_numbers()
    n_first = float(of_first.sum())
    n_later = float(of_people.sum()) - n_first
    later = []
    for _, history in columns.own_pairs:
        earlier = model.marginal((history,))[:-1]
        later.append(earlier * (n_later / max(earlier.sum(), MIN_CELL)))
    for first, second in itertools.combinations(range(columns.n_events), 2):
        if (first, second) in errors:
            table = rake(model.marginal((first, second)), later[first], later[second])
            table = np.pad(table, (0, 1))
            table[-1, -1] = n_first
            clique = columns.history_of(first), columns.history_of(second)
            known.append(Marginal(clique, table, errors[first, second]))
    for column, person in itertools.product(
        range(columns.n_events), range(len(columns.person_sizes))
    ):
        pair = column, columns.person(person)
        if person == columns.count:
            of_people, of_first = people.count_numbers()
        elif pair in errors:
            of_people, of_first = people.count_values((person,))
        else:
            continue
        rest = np.maximum(of_people - of_first, 0.0)
        table = rake(model.marginal(pair), later[column], rest)
        clique = columns.history_of(column), columns.person(person)
        std_error = errors.get(pair, max(errors.values()))
        known.append(Marginal(clique, np.vstack([table, of_first]), std_error))
    return known


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
