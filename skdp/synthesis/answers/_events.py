"""A model of the events of people: its columns, and the draw of the events of a person one after the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from skdp._arrays import Codes, ColumnName, Floats, Indices, Mask
from skdp.base import find_stack_level
from skdp.central.statistics import select_columns
from skdp.domain import Domain
from skdp.pages import warn
from skdp.synthesis.answers._fitted_table import FittedTable
from skdp.synthesis.answers._synthetic_rows import (
    MAX_NUMBER_ROUNDS,
    DrawnRows,
    Ranks,
    constrains_numbers,
    draw_numbers,
    draw_valid,
    find_invalid,
    learn_ranks,
    write_frame,
)
from skdp.synthesis.measure import (
    CLIQUES_PER_MODEL,
    EventColumns,
    Histories,
    fit_counts,
    measure_valid,
)
from skdp.synthesis.model import Elimination, GraphicalModel, Marginal
from skdp.synthesis.private._linked_tables import PERSON_WEIGHT, name_number
from skdp.synthesis.private._number_cells import Shape
from skdp.synthesis.private._records import CodedRecords
from skdp.tables import Table

# benchmarks/linked.py varies both.
N_SIMULATED = 20_000
"""Number of people whose simulated events estimate the marginals of given columns."""

N_SIMULATIONS = 2
"""Number of simulations; the first one is of a model without these marginals."""

POSITION = "position"
"""Key of the positions of numbers within their bins."""

MIN_VALID = 0.02
"""Smallest positive proportion of people of a bin for whom an event is valid; its inverse is the largest weight."""

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


def mark_placed(domain: Domain) -> Mask:
    """Mark the constraints on first and on last events; shape (2, n_constraints)."""
    places = [constraint.place for constraint in domain._constraints]
    return np.array([[p == place for p in places] for place in ("first", "last")], bool)


def mark_misplaced(domain: Domain, marks: Mask, persons: Indices) -> Mask:
    """Mark the events, with their marks of each constraint, that others precede or follow; sorted by person."""
    follows = np.append(False, persons[1:] == persons[:-1])[: persons.size]
    precedes = np.append(follows[1:], False)[: persons.size]
    is_first, is_last = mark_placed(domain)[..., np.newaxis]
    return marks & (is_first & follows | is_last & precedes)


class EventCounts:
    """The number of events of each person that each constraint limits or places, (n_constraints, n_persons)."""

    def __init__(self, joint: Domain, template: Table, n_persons: int) -> None:
        """Start with people without events, which have the columns of `joint`."""
        limits = [(limit.low, limit.high) for limit in joint._constraints]
        self._lows, self._highs = np.reshape(limits, (-1, 2)).T[..., np.newaxis]
        self._counts = np.zeros((len(limits), n_persons))
        self._is_first, self._is_last = mark_placed(joint)
        self._template = template

    def _add(self, persons: Indices, drawn: DrawnRows) -> Floats:
        """Return the numbers of some people after one more event of each; (n_constraints, n_persons)."""
        return self._counts[:, persons] + self._mark(drawn)

    def _mark(self, drawn: DrawnRows) -> Mask:
        """Mark the events that each constraint limits or places, or that violate it."""
        if not len(self._counts):
            return np.zeros((0, drawn.n_rows), bool)
        return drawn.domain._mark_limited(write_frame(self._template, drawn))

    def find_invalid(
        self,
        waiting: Indices,
        n_earlier: int,
        n_later: Indices,
        rows: Indices,
        drawn: DrawnRows,
    ) -> Mask:
        """Return True for each event that violates a constraint, or after which the limits cannot be met.

        The events are of the people `waiting[rows]`, after `n_earlier` events, and `n_later` events of the people
        `waiting` follow.
        """
        marks = self._mark(drawn)
        counts = self._counts[:, waiting[rows]] + marks
        n_missing = np.maximum(self._lows - counts, 0).sum(axis=0)
        is_invalid = np.any(counts > self._highs, axis=0) | (n_missing > n_later[rows])
        is_invalid |= marks[self._is_last].any(axis=0) & (n_later[rows] > 0)
        return is_invalid | marks[self._is_first].any(axis=0) & (n_earlier > 0)

    def add_event(self, persons: Indices, drawn: DrawnRows) -> None:
        """Add one event of each of some people."""
        self._counts[:, persons] = self._add(persons, drawn)

    def are_met(self, persons: Indices) -> Mask:
        """Return True for each person with enough events."""
        return np.all(self._counts[:, persons] >= self._lows, axis=0)


@dataclass(frozen=True, eq=False)
class EventModel:
    """The distribution of an event given its person and the person's earlier events."""

    columns: EventColumns
    fitted: FittedTable
    """The noisy counts of events, their histories and the columns of people, and a model of them."""
    shapes: Mapping[Any, Shape]
    """The distributions of people within bins, by name of the column."""

    @classmethod
    def estimate(
        cls,
        fitted: FittedTable,
        people: FittedTable,
        table: str,
        *,
        has_order: bool,
        max_cells: int,
    ) -> EventModel:
        """Fit a model to the noisy counts of events, and to simulated marginals of the columns that are given.

        Parameters
        ----------
        fitted : FittedTable
            The noisy counts of the events, their histories and the columns of people.
        people : FittedTable
            The fitted table of people.
        table : str
            Name of the table of events.
        has_order : bool
            True if the events of a person are ordered.
        max_cells : int
            Largest number of cells of a clique with simulated marginals.
        """
        domain = fitted.domain
        # Each column of events has a history, and the columns of people follow.
        n_events = (len(domain.columns) - len(people.domain.columns)) // 2
        columns = EventColumns.join(
            domain.select(domain.columns[:n_events]),
            people.domain,
            domain,
            number=name_number(table),
            has_order=has_order,
        )
        if columns.domain != domain:
            raise ValueError(
                f"The columns of the table {table!r} must be its events, their "
                "histories and the columns of people."
            )
        names = people.domain.columns
        shapes = {names[column]: s for column, s in people.counts.shapes.items()}
        model = cls(columns, fitted, shapes)._fit([], max_cells)
        # Given columns depend on each other. Without their marginals, the effect of one of
        # them on an event would be counted again for each column that depends on it.
        for _ in range(N_SIMULATIONS):
            model = model._fit(model._simulate_given_pairs(people), max_cells)
        return model

    def _fit(self, simulated: list[Marginal], max_cells: int) -> EventModel:
        """Fit the model to the noisy counts, and to simulated marginals as far as the model still has few cells."""
        counts = self.fitted.counts
        columns = self.columns
        structure = columns.find_structure(max_cells)
        cliques = {marginal.clique for marginal in counts.marginals}
        cliques.update(clique for clique, _ in structure.masks)
        graph = Elimination(structure.sizes, cliques, structure.given)
        max_total = CLIQUES_PER_MODEL * max_cells
        added = [m for m in simulated if graph.add(m.clique, max_cells, max_total)]
        fit = fit_counts(structure, counts.marginals, counts.numbers, added)
        fit = replace(fit, scores=counts.scores)
        return replace(self, fitted=replace(self.fitted, counts=fit))

    def _simulate_given_pairs(self, people: FittedTable) -> list[Marginal]:
        """Estimate marginals of pairs of columns on which an event is conditioned, from simulated people and events.

        A cell counts people: each of n events of a person has the weight 1 / n.
        """
        rng = np.random.default_rng(0)
        codes, persons, events = self._simulate(people, rng)
        n = self.columns.n_events
        records = self.columns.make_records(persons, events.codes[-n:], codes)
        marginals = self.fitted.counts.marginals
        cliques = self.columns.list_given_pairs(marginals, people.counts.marginals)
        counted = [*records.count(cliques)]
        if self.columns.has_order:
            weight = PERSON_WEIGHT * np.unique(persons).size // N_SIMULATED
            followed = self._follow_events(weight, rng).count(cliques)
            for index, counts in enumerate(followed):
                if cliques[index][0] < 2 * n <= cliques[index][1]:
                    # First events have the last code of a history.
                    counted[index][:-1] = counts[:-1]
        n_people, _ = people.n_rows
        scale = n_people / (N_SIMULATED * PERSON_WEIGHT)
        noise = min(marginal.std_error for marginal in marginals)
        simulated = []
        for clique, counts in zip(cliques, counted, strict=True):
            # The sampling error of a cell with the average count, and the smallest noise.
            sampling_error = n_people / math.sqrt(N_SIMULATED * counts.size)
            std_error = math.hypot(sampling_error, noise)
            estimates = scale * counts.astype(float)
            simulated.append(Marginal(clique, estimates, std_error, is_sampled=True))
        return simulated

    def _simulate(
        self, people: FittedTable, rng: np.random.Generator
    ) -> tuple[list[Codes], Indices, DrawnRows]:
        """Draw people and events without constraints; return the codes of people, the person of each event, and events.

        The seed is fixed, so that a loaded synthesizer has the same model.
        """
        codes = list(people.counts.model.sample(N_SIMULATED, rng))
        rows = draw_numbers(people.domain, codes, rng, people.counts.shapes)
        return codes, *self.draw(rows, Domain(dict(self.joint)), rng)

    def measure_forbidden(self, people: FittedTable) -> dict[str, float]:
        """Estimate the proportion of draws that each constraint forbids: of events, or of people for their numbers."""
        _, persons, events = self._simulate(people, np.random.default_rng(0))
        # The events that violate a constraint, or whose number or place it limits.
        marks = self.joint._mark_limited(write_frame(self.template, events))
        misplaced = mark_misplaced(self.joint, marks, persons)
        proportions = {}
        for limit, marked, is_misplaced in zip(
            self.joint._constraints, marks, misplaced, strict=True
        ):
            is_forbidden = is_misplaced if limit.place else marked
            if limit.counts:
                n_events = np.bincount(persons[marked], minlength=N_SIMULATED)
                is_forbidden = (n_events < limit.low) | (n_events > limit.high)
            proportions[limit.text] = float(np.mean(is_forbidden))
        return proportions

    def _follow_events(self, weight: int, rng: np.random.Generator) -> CodedRecords:
        """Draw the histories and persons of ordered events that follow events of the model, with equal weights.

        Simulated events would differ more from the model with each simulation, which repeats their errors.
        """
        columns, n = self.columns, self.columns.n_events
        number = columns.domain.columns.index(columns.number)
        codes = list(self.fitted.counts.model.sample(N_SIMULATED, rng))
        numbers = columns.domain.select([columns.number])
        drawn = draw_numbers(numbers, [codes[number]], rng)
        n_left = drawn.numbers[columns.number] - 1
        codes[number] = columns.encode_numbers(n_left, 0)
        codes[n : 2 * n] = codes[:n]
        later = np.flatnonzero(n_left > 0)
        weights = np.full(later.size, weight)
        return CodedRecords([c[later] for c in codes], columns.domain.sizes, weights)

    @cached_property
    def joint(self) -> Domain:
        """Domain of the columns of people and events, with constraints and derived columns."""
        names = self.columns.domain.columns
        n_events = self.columns.n_events
        return self.columns.domain.select(names[2 * n_events :] + names[:n_events])

    @cached_property
    def template(self) -> Table:
        """A table without rows of the columns of people and of events."""
        return select_columns(self.fitted.template, self.joint.columns)

    @cached_property
    def _proposal(self) -> GraphicalModel:
        """The model, in which the cells of events that are invalid for some people of a bin are more likely."""
        # These events are rejected for such people, so that other people of the bin have as many more of them.
        columns, model = self.columns, self.fitted.counts.model
        # An event is invalid for a person if none of these draws of its numbers is valid.
        n_draws = 1 + MAX_NUMBER_ROUNDS
        proportions = measure_valid(columns.domain, columns.given, self.shapes, n_draws)
        weights = {}
        for clique, valid in proportions.items():
            if model.tree.find(clique) is not None:
                positive = np.where(valid > 0, np.maximum(valid, MIN_VALID), 1)
                weights[clique] = 1 / positive
        return model.condition(weights)

    @cached_property
    def _ranks(self) -> Ranks | None:
        """The dependence of numbers within found bins on each other and on the history; None without such numbers."""
        ranked = {}
        for column, shape in self.fitted.counts.shapes.items():
            if self.columns.domain.columns[column] in self.fitted.found:
                ranked[column] = ranked[self.columns.n_events + column] = shape
        return learn_ranks(self.fitted.counts.model, ranked)

    def draw(
        self,
        people: DrawnRows,
        joint: Domain,
        rng: np.random.Generator,
        ranks: Ranks | None = None,
    ) -> tuple[Indices, DrawnRows]:
        """Draw the events of people; return the person of each event, ascending, and events with the columns of people.

        Parameters
        ----------
        people : DrawnRows
            The people, with their numbers of events.
        joint : Domain
            The columns of people and of events, with the constraints. Events that violate a constraint in all draws
            are omitted, and all events of a person whose events contradict a limit of their number.
        rng : Generator
            Draws the events, one of each person at a time.
        ranks : Ranks, optional
            Dependence of numbers within bins; by default, they are independent.
        """
        columns = self.columns
        n_events = people.numbers[columns.number].astype(np.intp)
        counts = EventCounts(joint, self.template, n_events.size)
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
            positions = {c: p[waiting] for c, p in histories.positions.items()}
            n_later = n_events[waiting] - n_earlier - 1
            valid, events = self._draw_next(
                rows,
                given,
                joint,
                rng,
                reject=partial(counts.find_invalid, waiting, n_earlier, n_later),
                ranks=ranks,
                positions=positions,
            )
            counts.add_event(waiting[valid], events)
            codes = events.codes[-len(sizes) :]
            drawn = {}
            for column in range(len(sizes)):
                if (POSITION, column) in events.numbers:
                    drawn[column] = events.numbers[POSITION, column]
            histories.add_event(waiting[valid], codes, drawn)
            batches.append((waiting[valid], events))
        persons = np.concatenate([batch for batch, _ in batches])
        order = np.argsort(persons, kind="stable")
        order = order[counts.are_met(persons[order])]
        events = DrawnRows.concatenate([batch for _, batch in batches])
        return persons[order], events.take(order)

    def sort_events(
        self, name: ColumnName, persons: Indices, events: DrawnRows
    ) -> tuple[Indices, DrawnRows]:
        """Sort the events of each person by the column `name`; return the person of each event, and the events."""
        # The values of the column move, so that the other columns keep the order in which they were drawn, unless this
        # violates a constraint.
        rows = events.sort_values(name, persons)
        is_moved = np.isin(persons, persons[find_invalid(self.template, rows)])
        moved = np.flatnonzero(is_moved)
        rows.replace(moved, events.take(events.sort(name, persons)), moved)
        if not mark_placed(events.domain).any():
            return persons, rows
        marks = events.domain._mark_limited(write_frame(self.template, rows))
        is_misplaced = mark_misplaced(events.domain, marks, persons).any(axis=0)
        kept = np.flatnonzero(~is_misplaced)
        return persons[kept], rows.take(kept)

    def _draw_next(
        self,
        people: DrawnRows,
        given: list[Codes],
        joint: Domain,
        rng: np.random.Generator,
        *,
        reject: Callable[[Indices, DrawnRows], Mask],
        ranks: Ranks | None,
        positions: Mapping[int, Floats],
    ) -> tuple[Indices, DrawnRows]:
        """Draw an event of each person, given codes, and positions of numbers of the history within bins.

        `people` has a row per person, `given` the codes of each column that follows the columns of events, and `joint`
        the columns of both tables. An event that is rejected whenever it is drawn given these codes is drawn without
        them. Return the indices of the persons whose event is not rejected, and these events.
        """
        n_events = self.columns.n_events
        names = self.columns.domain.columns
        event_domain = self.columns.domain.select(names[:n_events])

        def draw(persons: Indices, given: list[Codes] = given) -> DrawnRows:
            """Draw an event of each of some persons, given codes or nothing."""
            values = {n_events + index: c[persons] for index, c in enumerate(given)}
            model = self._proposal if joint.constraints else self.fitted.counts.model
            return draw_within(persons, [*model.sample(persons.size, rng, values)])

        def redraw(persons: Indices, events: DrawnRows) -> DrawnRows:
            """Draw the numbers of events within their bins again."""
            codes = [*events.codes[-n_events:], *(c[persons] for c in given)]
            return draw_within(persons, codes)

        def draw_within(persons: Indices, drawn: list[Codes]) -> DrawnRows:
            """Draw the numbers of events of some persons within bins, given the codes of all columns."""
            within = {}
            if ranks is not None:
                known = {n_events + c: p[persons] for c, p in positions.items()}
                within = ranks.draw(drawn, rng, known)
            codes, shapes = drawn[:n_events], self.fitted.counts.shapes
            events = draw_numbers(event_domain, codes, rng, shapes, within)
            events.numbers.update({(POSITION, c): p for c, p in within.items()})
            return people.take(persons).join(events, joint)

        has_numbers = constrains_numbers(joint, event_domain.columns)
        events, invalid = draw_valid(
            draw, reject, people.n_rows, redraw if has_numbers else None
        )
        if invalid.size:
            # Noise may leave no valid value beside the history or the number of events.
            redrawn, lost = draw_valid(
                lambda rows: draw(invalid[rows], []),
                lambda rows, drawn: reject(invalid[rows], drawn),
                invalid.size,
            )
            events.replace(invalid, redrawn, np.arange(invalid.size))
            invalid = invalid[lost]
        persons = np.delete(np.arange(people.n_rows), invalid)
        return persons, events.take(persons)
