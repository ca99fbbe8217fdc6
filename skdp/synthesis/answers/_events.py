"""A model of the events of people: its columns, and the draw of the events of a person one after the other."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import Codes, Indices
from skdp.base import find_stack_level, limit_blas_threads
from skdp.central.statistics import select_columns
from skdp.domain import Domain
from skdp.pages import warn
from skdp.synthesis._marginal import DPMarginalSynthesizer
from skdp.synthesis.answers._rows import (
    DrawnRows,
    draw_numbers,
    draw_valid,
    find_invalid,
)
from skdp.synthesis.measure import (
    CLIQUES_PER_MODEL,
    MarginalPlan,
    NumberCounts,
    make_plan,
)
from skdp.synthesis.model import Clique, Elimination, Marginal, Structure, fit_model
from skdp.synthesis.private._cells import find_intervals
from skdp.synthesis.private._linked_tables import (
    UNIT,
    count_earlier_events,
    name_history,
    name_number,
)
from skdp.synthesis.private._records import CodedRecords
from skdp.synthesis.private._table import replace_columns, select_present
from skdp.tables import Table

# benchmarks/linked.py varies both.
N_SIMULATED = 20_000
"""Number of people whose simulated events estimate the marginals of given columns."""

N_SIMULATIONS = 2
"""Number of simulations; the first one is of a model without these marginals."""

MAX_OMITTED, MIN_PLANNED = 0.05, 100
"""Largest proportion of omitted events without a warning, and smallest number of events of which one must be valid."""


def check_omitted(table: str, domain: Domain, n_drawn: int, n_planned: int) -> None:
    """Check that most planned events of a table satisfy the constraints; raise an error if none of many does."""
    n_omitted = n_planned - n_drawn
    if n_omitted <= max(1, MAX_OMITTED * n_planned):
        return
    constraints = list(domain.constraints)
    if n_drawn == 0 and n_planned >= MIN_PLANNED:
        raise ValueError(
            f"The constraints of `domain` must be satisfied by some events of {table!r}, "
            f"got {constraints} and no such event. Remove some of them, or correct their "
            "units and signs."
        )
    warn(
        f"{n_omitted:,} of {n_planned:,} synthetic events of {table!r} are omitted, "
        f"because no draw satisfies the constraints {constraints}. Correct the "
        "constraints, or remove some of them from `domain`",
        UserWarning,
        about="guide/linked_tables",
        stacklevel=find_stack_level(),
    )


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
        return self.domain[self.number].encode(numbers.astype(float))

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


@dataclass(frozen=True, eq=False)
class EventModel:
    """The distribution of an event given its person and the person's earlier events."""

    columns: EventColumns
    counts: DPMarginalSynthesizer
    """The noisy counts of events, and a model of them."""

    @classmethod
    def estimate(
        cls,
        counts: DPMarginalSynthesizer,
        people: DPMarginalSynthesizer,
        table: str,
        *,
        has_order: bool,
    ) -> EventModel:
        """Fit a model to the noisy counts of events, and to simulated marginals of the columns that are given.

        Parameters
        ----------
        counts : DPMarginalSynthesizer
            The noisy counts of the events, their histories and the columns of people.
        people : DPMarginalSynthesizer
            The fitted synthesizer of people.
        table : str
            Name of the table of events.
        has_order : bool
            True if the events of a person are ordered.
        """
        domain = counts.domain_
        # Each column of events has a history, and the columns of people follow.
        n_events = (len(domain.columns) - len(people.domain_.columns)) // 2
        columns = EventColumns.join(
            domain.select(domain.columns[:n_events]),
            people.domain_,
            domain,
            number=name_number(table),
            has_order=has_order,
        )
        if columns.domain != domain:
            raise ValueError(
                f"The columns of the table {table!r} must be its events, their "
                "histories and the columns of people."
            )
        model = cls(columns, counts)
        model._fit([])
        # Given columns depend on each other. Without their marginals, the effect of one of
        # them on an event would be counted again for each column that depends on it.
        for _ in range(N_SIMULATIONS):
            model._fit(model._estimate_known(people))
        return model

    def _fit(self, known: list[Marginal]) -> None:
        """Fit the model to the noisy counts, and to known marginals as far as the model still has few cells."""
        part = self.counts
        structure = self.columns.structure
        shapes = part._shapes
        numbers = NumberCounts(
            find_intervals(part.domain_),
            {column: shape.cells for column, shape in shapes.items()},
            {column: shape.levels for column, shape in shapes.items()},
            is_gaussian=part.guarantee_.rho is not None,
        )
        tails, _ = numbers.estimate(part.marginals_)
        cliques = {marginal.clique for marginal in part.marginals_}
        graph = Elimination(structure.sizes, cliques, structure.given)
        marginals = list(part.marginals_)
        for marginal in known:
            limit = part.max_cells
            if graph.add(marginal.clique, limit, CLIQUES_PER_MODEL * limit):
                marginals.append(marginal)
        with limit_blas_threads():
            part.model_, _ = fit_model(structure, marginals, tails)

    def _estimate_known(self, people: DPMarginalSynthesizer) -> list[Marginal]:
        """Estimate the marginals of pairs of given columns from the events of simulated people."""
        # The seed is fixed, so that a loaded synthesizer has the same model.
        rng = np.random.default_rng(0)
        codes = list(people.model_.sample(N_SIMULATED, rng))
        rows = draw_numbers(people.domain_, codes, rng, people._shapes)
        persons, events = self.draw(rows, Domain(dict(self.joint)), rng)
        n_events = self.columns.n_events
        records = self.columns.make_records(persons, events.codes[-n_events:], codes)
        part = self.counts
        cliques = self.columns.list_known(part.marginals_, people.marginals_)
        scale = people.n_rows_ / (N_SIMULATED * UNIT)
        noise = min(marginal.std_error for marginal in part.marginals_)
        known = []
        for clique, counts in zip(cliques, records.count(cliques), strict=True):
            # The sampling error of a cell with the average count, and the least noise.
            sampling_error = people.n_rows_ / math.sqrt(N_SIMULATED * counts.size)
            std_error = math.hypot(sampling_error, noise)
            known.append(Marginal(clique, scale * counts.astype(float), std_error))
        return known

    @cached_property
    def joint(self) -> Domain:
        """The columns of people and of events, with constraints and derived columns."""
        names = self.columns.domain.columns
        n_events = self.columns.n_events
        return self.columns.domain.select(names[2 * n_events :] + names[:n_events])

    @cached_property
    def template(self) -> Table:
        """A table without rows of the columns of people and of events."""
        return select_columns(self.counts._template, self.joint.columns)

    def draw(
        self, people: DrawnRows, joint: Domain, rng: np.random.Generator
    ) -> tuple[Indices, DrawnRows]:
        """Draw the events of people; return the person of each event, ascending, and events with the columns of people.

        Parameters
        ----------
        people : DrawnRows
            The people, with their numbers of events.
        joint : Domain
            The columns of people and of events, with the constraints. Events that violate a constraint in all draws
            are omitted.
        rng : Generator
            Draws the events, one of each person at a time.
        """
        columns = self.columns
        n_events = people.numbers[columns.number].astype(np.intp)
        sizes = columns.domain.sizes[: columns.n_events]
        histories = Histories(sizes, n_events.size, columns.has_order)
        number = people.domain.columns.index(columns.number)
        batches = []
        for n_earlier in range(max(1, int(n_events.max(initial=0)))):
            waiting = np.flatnonzero(n_events > n_earlier)
            rows = people.take(waiting)
            given = [*(codes[waiting] for codes in histories.codes), *rows.codes]
            given[len(sizes) + number] = columns.encode_numbers(
                n_events[waiting], n_earlier
            )
            valid, events = self._draw_next(rows, given, joint, rng)
            histories.add_event(waiting[valid], events.codes[-len(sizes) :])
            batches.append((waiting[valid], events))
        persons = np.concatenate([batch for batch, _ in batches])
        order = np.argsort(persons, kind="stable")
        events = DrawnRows.concatenate([batch for _, batch in batches])
        return persons[order], events.take(order)

    def _draw_next(
        self,
        people: DrawnRows,
        given: list[Codes],
        joint: Domain,
        rng: np.random.Generator,
    ) -> tuple[Indices, DrawnRows]:
        """Draw an event of each person, given codes; return the persons whose event is valid, and these events."""
        n_events = self.columns.n_events
        names = self.columns.domain.columns
        event_domain = self.columns.domain.select(names[:n_events])

        def draw(persons: Indices) -> DrawnRows:
            values = {n_events + index: c[persons] for index, c in enumerate(given)}
            drawn = self.counts.model_.sample_given(values, rng)
            shapes = self.counts._shapes
            events = draw_numbers(event_domain, list(drawn[:n_events]), rng, shapes)
            return people.take(persons).join(events, joint)

        events, invalid = draw_valid(
            draw, lambda _, drawn: find_invalid(self.template, drawn), people.n_rows
        )
        persons = np.setdiff1d(np.arange(people.n_rows), invalid)
        return persons, events.take(persons)
