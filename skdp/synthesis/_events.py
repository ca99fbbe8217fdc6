"""A model of the events of people, from which the events of a person are drawn one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skdp.base import limit_blas_threads
from skdp.central.statistics import select_columns
from skdp.domain import Domain, Interval
from skdp.randomness import ByteSource
from skdp.synthesis._cells import find_intervals
from skdp.synthesis._histories import (
    Codes,
    EventColumns,
    Histories,
    list_known,
    select_known,
    trace_histories,
)
from skdp.synthesis._linked_tables import LinkedCodes, LinkedTable
from skdp.synthesis._records import CodedRecords
from skdp.synthesis._rows import DrawnRows, draw_numbers, draw_valid, find_invalid
from skdp.synthesis._synthesizer import DPMarginalSynthesizer
from skdp.synthesis.model import Marginal, fit_model
from skdp.synthesis.selection import (
    Fitted,
    NoiseBudget,
    NumberCounts,
    Plan,
    PrivateCounts,
    measure_and_fit,
    measure_cells,
)
from skdp.tables import Table as Template

UNIT = 1 << 20
"""Integer weight of a person: each of n events has the weight UNIT // n, so that all of them have at most UNIT."""


def weigh_events(persons: NDArray[np.intp]) -> NDArray[np.int64]:
    """Return the weight of each event, in units of 1 / UNIT persons; the events of a person have at most UNIT."""
    weights: NDArray[np.int64] = UNIT // np.bincount(persons)[persons]
    return weights


class Measured(NamedTuple):
    """The noisy counts of a table, with the bins of its model."""

    domain: Domain
    marginals: list[Marginal]
    fitted: Fitted


class PrivateTables:
    """The private codes of people and their events, of which only noisy counts leave this object."""

    def __init__(self, codes: LinkedCodes, source: ByteSource, bins: str) -> None:
        """Store the codes by fine cells; `bins` is "declared" or "private"."""
        self._codes = codes
        self._people: Sequence[Codes] = codes.people
        self._source = source
        self._bins = bins

    def measure_people(
        self,
        table: LinkedTable,
        domain: Domain,
        plan: Plan,
        budget: NoiseBudget,
    ) -> Measured:
        """Spend a budget on people; the last columns of `domain` are the numbers of events in each table."""
        codes: list[Codes] = list(self._codes.people)
        n_columns = len(codes)
        for name, events in zip(
            domain.columns[n_columns:], self._codes.events.values(), strict=True
        ):
            n_events = np.bincount(events.persons, minlength=self._codes.n_persons)
            codes.append(domain[name].encode(n_events.astype(float)))
        records, domain, numbers = self._count_cells(
            codes, None, domain, table.cells, budget
        )
        self._people = records.codes
        private = PrivateCounts(records, budget, self._source)
        fitted = measure_and_fit(private, plan.with_domain(domain), numbers)
        return Measured(domain, private.marginals, fitted)

    def measure_events(
        self,
        name: str,
        table: LinkedTable,
        people: Domain,
        max_cells: int,
        budget: NoiseBudget,
    ) -> Measured:
        """Spend a budget on events, after people: a person with n events has n records of weight 1 / n.

        `people` has the columns of the model of people.
        """
        persons, events = self._codes.events[name]
        weights = weigh_events(persons)
        records, domain, numbers = self._count_cells(
            events, weights, table.domain, table.cells, budget
        )
        columns = EventColumns.join(domain, people, name, table.ranks is not None)
        histories = trace_histories(
            persons, records.codes, domain.sizes, columns.has_order
        )
        codes = [*records.codes, *histories]
        codes += [person_codes[persons] for person_codes in self._people]
        records = CodedRecords(codes, columns.domain.sizes, weights)
        private = PrivateCounts(records, budget, self._source)
        numbers = replace(numbers, intervals=find_intervals(columns.domain))
        fitted = measure_and_fit(private, columns.plan(max_cells), numbers)
        return Measured(columns.domain, private.marginals, fitted)

    def _count_cells(
        self,
        codes: Sequence[Codes],
        weights: NDArray[np.int64] | None,
        domain: Domain,
        cells: Mapping[int, Interval],
        budget: NoiseBudget,
    ) -> tuple[CodedRecords, Domain, NumberCounts]:
        """Count fine cells with noise; return the records by the bins of the model, these bins, and the counts."""
        sizes = list(domain.sizes)
        for column, fine in cells.items():
            sizes[column] = len(fine)
        records = CodedRecords(codes, sizes, weights)
        private = PrivateCounts(records, budget, self._source)
        domain, numbers = measure_cells(private, domain, cells, self._bins)
        bins = {column: numbers.bins_of_cells(column) for column in cells}
        return records.coarsen(domain, bins), domain, numbers


@dataclass(frozen=True, eq=False)
class EventModel:
    """The distribution of an event given its person and the person's earlier events."""

    columns: EventColumns
    counts: DPMarginalSynthesizer
    """The noisy counts of events, and a model of them."""
    joint: Domain
    """The columns of people, without numbers of events, and of events, with constraints and derived columns."""

    def estimate(self, people: DPMarginalSynthesizer) -> None:
        """Fit the model to the noisy counts, and to marginals of given columns that follow from `people`."""
        structure = self.columns.structure
        part = self.counts
        marginals = part.marginals_
        cells = {column: shape.cells for column, shape in part._shapes.items()}
        levels = {column: shape.levels for column, shape in part._shapes.items()}
        is_gaussian = part.guarantee_.rho is not None
        numbers = NumberCounts(
            find_intervals(self.columns.domain), cells, levels, is_gaussian
        )
        tails, _ = numbers.estimate(marginals)
        with limit_blas_threads():
            model, _ = fit_model(structure, marginals, tails)
            known = list_known(self.columns, people, model, marginals)
            known = select_known(structure, marginals, known, part.max_cells)
            part.model_, _ = fit_model(structure, [*marginals, *known], tails)

    def draw(
        self,
        people: DrawnRows,
        codes: Sequence[Codes],
        n_events: NDArray[np.intp],
        rng: np.random.Generator,
    ) -> tuple[NDArray[np.intp], DrawnRows]:
        """Draw the events of people; return the person of each event, ascending, and events with the columns of people.

        Parameters
        ----------
        people : DrawnRows
            The people.
        codes : list of ndarray of shape (n_persons,)
            The codes of the columns of the model of people.
        n_events : ndarray of shape (n_persons,)
            The number of events of each person. Events that violate a constraint in all draws are omitted.
        rng : Generator
            Draws the events, one of each person at a time.
        """
        columns = self.columns
        histories = Histories(columns.event_sizes, n_events.size, columns.has_order)
        batches = []
        for number in range(max(1, int(n_events.max(initial=0)))):
            waiting = np.flatnonzero(n_events > number)
            given = [column[waiting] for column in (*histories.codes, *codes)]
            persons, events = self._draw_next(people.take(waiting), given, rng)
            persons = waiting[persons]
            histories.add_event(persons, events.codes[-columns.n_events :])
            batches.append((persons, events))
        persons = np.concatenate([batch for batch, _ in batches])
        order = np.argsort(persons, kind="stable")
        events = DrawnRows.concatenate([batch for _, batch in batches])
        return persons[order], events.take(order)

    def _draw_next(
        self, people: DrawnRows, given: Sequence[Codes], rng: np.random.Generator
    ) -> tuple[NDArray[np.intp], DrawnRows]:
        """Draw an event of each person, given codes; return the persons whose event is valid, and these events."""
        n_columns = self.columns.n_events
        domain = self.columns.domain
        event_domain = domain.select(domain.columns[:n_columns])

        def draw(persons: NDArray[np.intp]) -> DrawnRows:
            values = {n_columns + index: c[persons] for index, c in enumerate(given)}
            drawn = self.counts.model_.sample_given(values, rng)
            shapes = self.counts._shapes
            events = draw_numbers(event_domain, list(drawn[:n_columns]), rng, shapes)
            return people.take(persons).join(events, self.joint)

        n = given[0].size
        template = self.template
        events, invalid = draw_valid(
            draw, lambda _, drawn: find_invalid(template, drawn), n
        )
        persons = np.setdiff1d(np.arange(n), invalid)
        return persons, events.take(persons)

    @property
    def template(self) -> Template:
        """A table without rows of the columns of people and of events."""
        return select_columns(self.counts._template, self.joint.columns)
