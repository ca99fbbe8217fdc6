"""A model of the events of people, from which the events of a person are drawn one after the other."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skdp._arrays import Codes, Indices
from skdp.base import limit_blas_threads
from skdp.central.statistics import select_columns
from skdp.domain import Domain
from skdp.synthesis._cells import find_intervals
from skdp.synthesis._histories import (
    UNIT,
    EventColumns,
    Histories,
    name_number,
)
from skdp.synthesis._rows import DrawnRows, draw_numbers, draw_valid, find_invalid
from skdp.synthesis._synthesizer import DPMarginalSynthesizer
from skdp.synthesis.model import Elimination, Marginal, fit_model
from skdp.synthesis.selection import CLIQUES_PER_MODEL, NumberCounts
from skdp.tables import Table

# benchmarks/linked.py varies both.
N_SIMULATED = 20_000
"""Number of people whose simulated events estimate the marginals of given columns."""

N_SIMULATIONS = 2
"""Number of simulations; the first one is of a model without these marginals."""


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
