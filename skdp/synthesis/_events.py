"""A model of the events of people, from which the events of a person are drawn one after the other."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.base import limit_blas_threads
from skdp.domain import Domain, Interval
from skdp.randomness import ByteSource
from skdp.synthesis._cells import Shape
from skdp.synthesis._histories import (
    EventColumns,
    Histories,
    HistoryRanks,
    People,
    list_known,
    select_known,
    trace_histories,
)
from skdp.synthesis._linked_tables import EventCodes, LinkedCodes
from skdp.synthesis._records import CodedRecords
from skdp.synthesis._rows import (
    DrawnRows,
    draw_numbers,
    draw_valid,
    find_invalid,
)
from skdp.synthesis.model import (
    GraphicalModel,
    Marginal,
    fit_model,
    merge_marginals,
    shape_of,
    sum_groups,
)
from skdp.synthesis.selection import (
    Fitted,
    NoiseBudget,
    NumberCounts,
    Plan,
    PrivateCounts,
    measure_and_fit,
    measure_cells,
)
from skdp.tables import Table

UNIT = 1 << 20
"""Integer weight of a person: each of n events has the weight UNIT // n, so that all of them have at most UNIT."""


@dataclass(frozen=True, eq=False)
class MeasuredEvents:
    """The noisy counts of a table of events: a person with n events has n records of weight 1 / n."""

    domain: Domain
    """The columns of an event, with the bins of the model."""
    marginals: list[Marginal]
    """The noisy marginals of the columns of a model of events."""
    numbers: NumberCounts


@dataclass(frozen=True, eq=False)
class EventTable:
    """The measured part of a table of events."""

    features: tuple[Any, ...]
    """Names of the columns of the result, in order."""
    joint: Domain
    """The columns of people and of events, with constraints and derived columns."""
    template: Table
    """A table without rows of these columns."""
    measured: MeasuredEvents
    has_order: bool


def measure_people(
    codes: LinkedCodes,
    plan: Plan,
    domain: Domain,
    cells: Mapping[int, Interval],
    budget: NoiseBudget,
    source: ByteSource,
    bins: str,
) -> tuple[Domain, list[Marginal], Fitted, Sequence[NDArray[np.integer]]]:
    """Spend a budget on people; return the final domain, noisy marginals and a model, and the codes of people.

    The last columns of `domain` are the numbers of events, and `cells` has the fine cells of the other columns.
    """
    people: list[NDArray[np.integer]] = list(codes.people)
    for child, name in enumerate(domain.columns[len(people) :]):
        people.append(domain[name].encode(codes.count_events(child).astype(float)))
    records = CodedRecords(people, _count_codes(domain, cells))
    private = PrivateCounts(records, budget, source)
    domain, numbers = measure_cells(private, domain, cells, bins)
    fitted = measure_and_fit(private, plan.with_domain(domain), numbers)
    records = records.coarsen(domain, {c: numbers.bins_of_cells(c) for c in cells})
    return domain, private.marginals, fitted, records.codes


def measure_events(
    events: EventCodes,
    columns: EventColumns,
    domain: Domain,
    cells: Mapping[int, Interval],
    people: Sequence[NDArray[np.integer]],
    budget: NoiseBudget,
    source: ByteSource,
    *,
    bins: str,
    max_cells: int,
) -> MeasuredEvents:
    """Spend a budget on the columns and the marginals of events.

    `domain` and `cells` have the bins and the fine cells of the columns of an event, and `people` the codes of each
    person. Private bins replace the sizes of events in `columns`.
    """
    persons = events.persons
    n_events = np.bincount(persons, minlength=len(people[0]))
    weights = UNIT // np.maximum(1, n_events)[persons]
    records = CodedRecords(events.codes, _count_codes(domain, cells), weights)
    private = PrivateCounts(records, budget, source)
    domain, numbers = measure_cells(private, domain, cells, bins)
    records = records.coarsen(domain, {c: numbers.bins_of_cells(c) for c in cells})
    columns = replace(columns, event_sizes=domain.sizes)
    histories = trace_histories(
        persons, records.codes, columns.event_sizes, columns.has_order
    )
    codes = [*records.codes, *histories, *(column[persons] for column in people)]
    records = CodedRecords(codes, columns.structure.sizes, weights)
    private = PrivateCounts(records, budget, source)
    measure_and_fit(private, columns.plan(max_cells), numbers)
    return MeasuredEvents(domain, private.marginals, numbers)


def _count_codes(domain: Domain, cells: Mapping[int, Interval]) -> tuple[int, ...]:
    """Return the number of codes of each column, of which some have fine cells."""
    sizes = dict(enumerate(domain.sizes)) | {c: len(fine) for c, fine in cells.items()}
    return tuple(sizes.values())


@dataclass(frozen=True, eq=False)
class EventModel:
    """The distribution of an event given its person and the person's earlier events."""

    columns: EventColumns
    measured: MeasuredEvents
    model: GraphicalModel
    shapes: Mapping[int, Shape]

    @classmethod
    def estimate(
        cls,
        measured: MeasuredEvents,
        columns: EventColumns,
        people: People,
        max_cells: int,
    ) -> EventModel:
        """Fit a model to noisy marginals, and to the marginals of given columns that follow from them."""
        structure = columns.structure
        marginals = measured.marginals
        tails, shapes = measured.numbers.estimate(marginals)
        with limit_blas_threads():
            model, _ = fit_model(structure, marginals, tails)
            known = list_known(columns, people, model, marginals)
            known = select_known(structure, marginals, known, max_cells)
            model, _ = fit_model(structure, [*marginals, *known], tails)
        return cls(columns, measured, model, shapes)

    @cached_property
    def _ranks(self) -> dict[int, HistoryRanks]:
        """The dependence of numbers on their histories, by index of the column."""
        ranks = {}
        for column, shape in self.shapes.items():
            pairs = self.model.marginal((column, self.columns.history_of(column)))
            ranks[column] = HistoryRanks.learn(pairs, shape.starts.size - 1)
        return ranks

    def draw(
        self,
        people: DrawnRows,
        codes: NDArray[np.integer],
        n_events: NDArray[np.intp],
        template: Table,
        joint: Domain,
        rng: np.random.Generator,
    ) -> tuple[NDArray[np.intp], DrawnRows]:
        """Draw the events of people; return the person of each event, ascending, and the events.

        Parameters
        ----------
        people : DrawnRows
            The people.
        codes : ndarray of shape (n_columns, n_persons)
            The codes of the columns of the model of people.
        n_events : ndarray of shape (n_persons,)
            The number of events of each person.
        template : Table
            A table without rows of the columns of people and events.
        joint : Domain
            These columns with their constraints. Events that violate a constraint in all draws are omitted.
        rng : Generator
            Draws the events, one of each person at a time.
        """
        columns = self.columns
        histories = Histories(columns.event_sizes, n_events.size, columns.has_order)
        nobody = np.empty(0, np.intp)
        batches = [(nobody, self._draw_next(histories, codes, nobody, rng))]
        for number in range(int(n_events.max(initial=0))):
            waiting = np.flatnonzero(n_events > number)

            def draw(
                indices: NDArray[np.intp], waiting: NDArray[np.intp] = waiting
            ) -> DrawnRows:
                return self._draw_next(histories, codes, waiting[indices], rng)

            def find(
                indices: NDArray[np.intp],
                events: DrawnRows,
                waiting: NDArray[np.intp] = waiting,
            ) -> NDArray[np.bool_]:
                if not joint.constraints:
                    return np.zeros(indices.size, bool)
                rows = people.take(waiting[indices]).join(events, joint)
                return find_invalid(template, rows)

            events, invalid = draw_valid(draw, find, waiting.size)
            valid = np.setdiff1d(np.arange(waiting.size), invalid)
            events = events.take(valid)
            histories.add_event(waiting[valid], events.codes, events.scores)
            batches.append((waiting[valid], events))
        persons = np.concatenate([batch for batch, _ in batches])
        order = np.argsort(persons, kind="stable")
        events = DrawnRows.concatenate([batch for _, batch in batches])
        return persons[order], events.take(order)

    def _draw_next(
        self,
        histories: Histories,
        codes: NDArray[np.integer],
        persons: NDArray[np.intp],
        rng: np.random.Generator,
    ) -> DrawnRows:
        """Draw the next event of each of some people, given their histories and their codes."""
        given = [*(history[persons] for history in histories.codes), *codes[:, persons]]
        n_columns = self.columns.n_events
        drawn = self.model.sample_given(dict(enumerate(given, n_columns)), rng)
        events = list(drawn[:n_columns])
        positions = {}
        scores = {}
        for column, ranks in self._ranks.items():
            bins = np.minimum(events[column], ranks.n_bins - 1)
            history = histories.scores[column][persons]
            positions[column], scores[column] = ranks.draw(bins, history, rng)
            scores[column][events[column] >= ranks.n_bins] = np.nan  # missing
        rows = draw_numbers(self.measured.domain, events, rng, self.shapes, positions)
        return replace(rows, scores=scores)


def measure_quality(
    model: EventModel,
    names: Sequence[Any],
    people: NDArray[np.integer],
    persons: NDArray[np.intp],
    events: Sequence[NDArray[np.integer]],
) -> pd.DataFrame:
    """Compare synthetic events with the noisy marginals of a model.

    `names` are the columns of events and of people, `people` has the codes of synthetic people, and `events` the codes
    of their events, whose `persons` are ascending.
    """
    # Both distances are total variation distances, half of a sum of absolute differences.
    # The noise of a count has a mean absolute value of 0.8 standard errors.
    columns = model.columns
    histories = trace_histories(persons, events, columns.event_sizes, columns.has_order)
    weights = 1 / np.bincount(persons)[persons] if persons.size else np.empty(0)
    rows = [*events, *histories, *people[:, persons]]
    titles = [
        *names[: columns.n_events],
        *(f"history of {name}" for name in names[: columns.n_events]),
        *names[columns.n_events :],
    ]
    table = []
    index = []
    total = max(1.0, weights.sum())
    for marginal in merge_marginals(model.measured.marginals):
        shape = shape_of(marginal.clique, columns.structure.sizes)
        cells = np.ravel_multi_index([rows[c] for c in marginal.clique], shape)
        counts = np.bincount(cells, weights, math.prod(shape)).reshape(shape)
        synthetic = sum_groups(counts, marginal.groups) / total
        measured = marginal.counts / max(1.0, marginal.counts.sum())
        noise = 0.4 * marginal.std_error * marginal.counts.size / total
        misfit = np.abs(synthetic - measured).sum() / 2
        table.append(
            (marginal.counts.size, marginal.std_error, noise, misfit, noise <= 0.1)
        )
        index.append(", ".join(str(titles[column]) for column in marginal.clique))
    return pd.DataFrame(
        table,
        columns=["n_cells", "std_error", "noise", "misfit", "usable"],
        index=pd.Index(index, name="marginal"),
    )
