"""Synthetic tables of people and their events, with one guarantee for all rows of a person."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, Literal, Self

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from skdp.base import (
    CallCounter,
    ColumnName,
    check_choice,
    limit_blas_threads,
    restore_on_error,
    warn_of_released_size,
)
from skdp.central import CentralEstimator
from skdp.central.statistics import select_columns
from skdp.domain import Domain, DomainLike
from skdp.privacy import Mu, PrivacyBudget, PrivacyLedger, Rho, check_delta
from skdp.randomness import check_size
from skdp.synthesis._events import UNIT, EventModel, Measured, PrivateTables
from skdp.synthesis._histories import (
    EventColumns,
    declare_numbers,
    name_history,
    name_number,
)
from skdp.synthesis._linked_tables import (
    LinkedTable,
    LinkedTables,
    encode_tables,
    open_tables,
)
from skdp.synthesis._records import (
    Policy,
    check_policy,
    check_replacements,
    replace_columns,
)
from skdp.synthesis._rows import (
    DrawnRows,
    check_n_samples,
    compute_derived,
    make_generator,
    make_table,
    make_template,
    write_rows,
)
from skdp.synthesis._synthesizer import DPMarginalSynthesizer
from skdp.synthesis.selection import NoiseBudget, check_width, make_plan
from skdp.tables import Table, to_column, wrap_table

PEOPLE_FRACTION = Fraction(1, 5)
"""Fraction of the budget for people and their numbers of events, whose few columns need less."""


class DPLinkedSynthesizer(CentralEstimator):
    """Synthesize a table of people and tables of their events, with differential privacy for each person.

    Use it for patients and visits, households and persons, or customers and orders: the events of a synthetic person
    depend on each other and on the person.

    Parameters
    ----------
    epsilon : float, Rho or Mu, default=1.0
        Privacy loss of `fit`, finite and > 0. `skdp.privacy.Rho` and `skdp.privacy.Mu` include a delta, and use
        Gaussian noise.
    delta : float, default=0.0
        Failure probability, in [0, 1). It should be smaller than one over the number of people. With 0 the noise is
        discrete Laplace; otherwise it is Gaussian, which is more accurate for many marginals.
    domain : Domain or mapping of column name to values
        Public values of the columns of all tables, except the key. Constraints and derived columns of an event may also
        read columns of its person.
    key : column name
        Column of every table that identifies the person. Synthetic people have new keys 0, 1, 2 and so on.
    max_rows_per_person : int
        Largest number of events of a person in each table of events. `fit` excludes further events, chosen at random.
        The noise does not depend on it.
    order_by : column name, optional
        Column that orders the events of a person, such as a date. Events then depend on the previous event; without
        an order, on the most frequent earlier values. A column that `domain` does not declare is used for the order
        only. Synthetic events are sorted by the column.
    person_columns : list of column names, optional
        For a single table with several rows per person: the columns that are constant for each person. All other
        columns are events.
    max_cells : int, default=100_000
        Largest number of cells of a clique of a model. Time and memory are proportional to it.
    bins : {"declared", "private"}, default="declared"
        Bins of each `Interval`, as for `DPMarginalSynthesizer`.
    handle_unknown : {"error", "clip", "ignore"} or mapping of column name to value, default="error"
        How to handle a value outside the domain, as for `DPMarginalSynthesizer`. ``"ignore"`` excludes the person or
        the event.
    ledger : PrivacyLedger, optional
        Ledger that `fit` charges once, before it draws noise.
    random_state : None or int, default=None
        None uses secure randomness. Pass an int for reproducible experiments only: the release is then not private.

    Attributes
    ----------
    guarantee_ : PrivacyGuarantee
        Privacy guarantee of `fit`, for all tables together.
    people_ : DPMarginalSynthesizer
        Synthesizer of the table of people without the key, with a column ``"n_events"`` for the number of events, or
        ``"n_visits"`` for a table named ``"visits"``. Its `marginal` and `count_estimate` have intervals.
    n_persons_ : float
        Estimated number of people.
    n_persons_std_error_ : float
        Standard error of `n_persons_`.
    link_quality_ : DataFrame
        Quality of each measured marginal of events: the number of its cells, the standard error of a count, the
        ``noise`` and the ``misfit`` of the model as total variation distances, and whether it is ``usable``
        (noise of at most 0.1).

    See Also
    --------
    DPMarginalSynthesizer : Synthesize a table with one row per person.
    skdp.metrics.link_errors : Compare synthetic with real linked tables, without privacy.

    Notes
    -----
    **Privacy.** Central model: the curator of the tables is trusted. Adding or removing one person, with the row of the
    table of people and all events in all tables, changes the distribution of the release by at most
    ``(epsilon, delta)``. A person changes one count of a marginal of people by 1. The events of a person with n events
    weigh 1 / n each, in integers, so all events of a person together change the counts of a marginal of events by at
    most 1, and each score by at most 1. A fifth of the budget is spent on people and their numbers of events, and the
    rest is divided equally between the tables of events; fractions add up to exactly 1. Histories of events are
    functions of the events of one person. The models, samples and all other methods are post-processing, without
    privacy loss.

    Events without a person are excluded. `sample` without a number returns the noisy number of people.

    Not covered: an error reveals that an undeclared value, a repeated or a missing key, or a key or an order of another
    type occurs, and synthetic tables have the libraries of the inputs.

    A model of events has the dependence between two columns of an event, of a column and the person, and of a column
    and its history: the previous value if `order_by` is given, otherwise the most frequent earlier value. Dependence
    beyond these is preserved only as far as it follows from them, such as trends over more than one event, or the
    composition of households.

    References
    ----------
    .. [1] R. McKenna, D. Sheldon, G. Miklau (2019). Graphical-model based estimation and inference for differential
       privacy. ICML.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import Domain, DPLinkedSynthesizer
    >>> patients = pd.DataFrame({"id": range(1_000), "sex": ["f", "m"] * 500})
    >>> visits = pd.DataFrame({"id": [i // 2 for i in range(2_000)], "ward": ["er", "gp", "gp", "gp"] * 500})
    >>> domain = Domain({"sex": ["f", "m"], "ward": ["er", "gp"]})
    >>> synthesizer = DPLinkedSynthesizer(
    ...     epsilon=2.0, domain=domain, key="id", max_rows_per_person=5, random_state=0
    ... )
    >>> people, events = synthesizer.fit(patients, visits).sample()
    >>> list(people), list(events)
    (['id', 'sex'], ['id', 'ward'])
    """

    protects_rows = True
    """True because the guarantee covers the rows that `sample` returns."""

    def __init__(
        self,
        epsilon: float | Rho | Mu = 1.0,
        *,
        delta: float = 0.0,
        domain: DomainLike,
        key: ColumnName,
        max_rows_per_person: int,
        order_by: ColumnName | None = None,
        person_columns: Sequence[ColumnName] | None = None,
        max_cells: int = 100_000,
        bins: Literal["declared", "private"] = "declared",
        handle_unknown: Policy | Mapping[Any, Any] = "error",
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.domain = domain
        self.key = key
        self.max_rows_per_person = max_rows_per_person
        self.order_by = order_by
        self.person_columns = person_columns
        self.max_cells = max_cells
        self.bins = bins
        self.handle_unknown = handle_unknown
        self.ledger = ledger
        self.random_state = random_state

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "people_")

    def fit(self, people: Any, events: Any = None) -> Self:
        """Measure marginals of people and of their events, and fit models to them.

        Parameters
        ----------
        people : dataframe
            One row per person, with the key. With `person_columns`, the table of all rows.
        events : dataframe or mapping of name to dataframe, optional
            Events with the key of their person. A mapping has several tables, such as
            ``{"visits": visits, "drugs": drugs}``. None with `person_columns`.

        Returns
        -------
        self
            The fitted synthesizer.

        Raises
        ------
        TypeError, ValueError
            If a parameter is out of range, a table is not a dataframe in memory or lacks the key, a column is in two
            tables or is not declared, a key is missing or occurs twice in `people`, a column of `person_columns` varies
            within a person, or undeclared values are not handled.
        BudgetExceeded
            If the ledger does not cover the release.
        """
        self._fit(people, events)
        warn_of_released_size(self.guarantee_, self.n_persons_)
        return self

    @restore_on_error
    def _fit(self, people: Any, events: Any) -> None:
        """Read the tables, plan, charge the ledger, measure, and post-process."""
        # Read.
        person_budget = self._check_person_budget()
        tables = self._open_tables(people, events)
        # Plan: errors of parameters and of undeclared values are raised here.
        budget = NoiseBudget(person_budget, check_delta(self.delta))
        domain = self._add_numbers(tables)
        plan = make_plan(domain, "auto", None, None, self.max_cells)
        rng = make_generator(self.random_state, "contribution")
        codes = encode_tables(tables, self.handle_unknown, person_budget.rows, rng)
        # Charge.
        source = self._spend(
            person_budget,
            tables.features,
            f"{budget.noise_name} noise on marginals",
            delta=check_delta(self.delta),
            rho=budget.rho,
            losses=budget.losses,
        )
        # Measure.
        private = PrivateTables(codes, source, self.bins)
        with limit_blas_threads():
            part = budget.split(PEOPLE_FRACTION)
            people_counts = private.measure_people(tables.people, domain, plan, part)
            fraction = budget.remaining / len(tables.events)
            event_counts = {}
            for name, table in tables.events.items():
                event_counts[name] = private.measure_events(
                    name,
                    table,
                    people_counts.domain,
                    plan.max_cells,
                    budget.split(fraction, UNIT),
                )
        # Post-process: the records are not used from here on.
        parts = {}
        for name, table in tables.events.items():
            parts[name] = self._make_part(event_counts[name], tables.people, table)
        self._features = [tables.people.features]
        self._features += [table.features for table in tables.events.values()]
        if self.person_columns is not None:
            self._features[1] = tuple(wrap_table(people).names)
        self._has_names = isinstance(events, Mapping)
        self._link(
            self._make_part(people_counts, tables.people),
            parts,
            [name for name, table in tables.events.items() if table.ranks is not None],
        )

    def _check_person_budget(self) -> PrivacyBudget:
        """Check the parameters that need no table; return the budget, for all rows of a person."""
        budget = self._check_budget()
        n_rows = check_size(
            self.max_rows_per_person, name="max_rows_per_person", min_val=1
        )
        check_policy(self.handle_unknown)
        check_choice("bins", self.bins, ["declared", "private"])
        return replace(budget, rows=n_rows, by_person=True)

    def _open_tables(self, people: Any, events: Any) -> LinkedTables:
        """Read all tables, except the values of their modeled columns."""
        if not isinstance(self.domain, Mapping):
            raise TypeError(
                "`domain` must be a Domain or a mapping of column names to values, got "
                f"{type(self.domain).__name__}."
            )
        tables = open_tables(
            people,
            events,
            self._declared,
            key=self.key,
            order_by=self.order_by,
            person_columns=self.person_columns,
        )
        columns = dict(tables.people.domain)
        for table in tables.events.values():
            columns |= dict(table.domain)
        check_width(len(columns))
        check_replacements(self.handle_unknown, Domain(columns))
        return tables

    def _add_numbers(self, tables: LinkedTables) -> Domain:
        """Return the domain of people with the number of events in each table."""
        numbers = list(map(name_number, tables.events))
        taken = {*numbers, *map(name_history, tables.features)} & {*tables.features}
        if taken:
            raise ValueError(
                f"A table must not have the columns {sorted(taken)}, which are names of "
                "numbers of events or of histories. Rename them."
            )
        number = declare_numbers(int(self.max_rows_per_person))
        columns = dict(tables.people.domain) | dict.fromkeys(numbers, number)
        return replace_columns(tables.people.domain, columns)

    def _make_part(
        self, measured: Measured, *tables: LinkedTable
    ) -> DPMarginalSynthesizer:
        """Make a synthesizer of one table from its noisy counts; `tables` have its columns, except computed ones."""
        domain = measured.domain
        part = DPMarginalSynthesizer(
            self.epsilon,
            delta=self.delta,
            domain=domain,
            max_cells=self.max_cells,
            max_rows_per_person=self.max_rows_per_person,
            bins=self.bins,
        )
        columns = dict.fromkeys(domain.columns, np.empty(0))
        for table in tables:
            columns |= dict(zip(table.table.names, table.table.columns, strict=True))
        template = make_template(
            Table(domain.columns, tuple(columns.values()), tables[-1].table.native),
            domain,
        )
        features = (*domain.columns, *domain.derived)
        part.guarantee_ = replace(self.guarantee_, scope=features)
        part.n_features_in_ = len(features)
        part._set_fit(domain, measured.marginals, measured.fitted, features, template)
        return part

    def _link(
        self,
        people: DPMarginalSynthesizer,
        parts: Mapping[str, DPMarginalSynthesizer],
        ordered: Collection[str],
    ) -> None:
        """Fit models of events to the noisy counts of all tables; the tables `ordered` have an order of events."""
        names = people.domain_.columns[: -len(parts)]
        models = {}
        for name, part in parts.items():
            events = part.domain_.columns
            events = events[: (len(events) - len(people.domain_.columns)) // 2]
            columns = EventColumns.join(
                part.domain_.select(events), people.domain_, name, name in ordered
            )
            if columns.domain != part.domain_:
                raise ValueError(
                    f"The columns of the table {name!r} must be its events, their "
                    "histories and the columns of people."
                )
            values = {column: part.domain_[column] for column in (*names, *events)}
            facts = self._declared
            facts = facts.select([column for column in values if column in facts])
            models[name] = EventModel(columns, part, replace_columns(facts, values))
            models[name].estimate(people)
        self.people_ = people
        self._models = models
        self._calls = CallCounter()
        self.n_persons_ = people.n_rows_
        self.n_persons_std_error_ = people.n_rows_std_error_
        self.n_features_in_ = len(self.guarantee_.scope)

    @property
    def _declared(self) -> Domain:
        """The parameter `domain` as a Domain."""
        declared: Any = self.domain
        return declared if isinstance(declared, Domain) else Domain(declared)

    def sample(self, n_persons: int | None = None) -> Any:
        """Draw synthetic people and their events.

        Parameters
        ----------
        n_persons : int, optional
            Number of people, at least 0; by default the estimated number of people.

        Returns
        -------
        tuple of people and events, or table
            The tables in the form and the libraries of `fit`: people with new keys, and events with the keys of their
            people, sorted by person and `order_by`. Several tables of events are a dict. With `person_columns`, one
            table. The tables differ from call to call.

        Raises
        ------
        TypeError, ValueError
            If the number is not an integer or is out of range.

        Notes
        -----
        **Privacy.** Post-processing of the models, without privacy loss.
        """
        check_is_fitted(self)
        check_n_samples(n_persons, "n_persons")
        n = round(self.n_persons_) if n_persons is None else int(n_persons)
        rng = make_generator(self.random_state, "sample", self._calls.advance())
        people, drawn = self._draw(n, rng)
        written = []
        tables = zip(self._models.values(), self._features[1:], strict=True)
        for (model, features), (persons, rows) in zip(tables, drawn, strict=True):
            written.append(self._write(model.template, rows, persons, features))
        if self.person_columns is not None:
            return written[0]
        template = select_columns(self.people_._template, people.domain.columns)
        table = self._write(template, people, np.arange(n), self._features[0])
        if self._has_names:
            return table, dict(zip(self._models, written, strict=True))
        return table, written[0]

    def _draw(
        self, n: int, rng: np.random.Generator
    ) -> tuple[DrawnRows, list[tuple[NDArray[np.intp], DrawnRows]]]:
        """Draw people, and for each table of events the person of each event, and the events."""
        rows = self.people_._draw_rows(self.people_._template, n, rng)
        n_columns = len(rows.codes) - len(self._models)
        domain = rows.domain.select(rows.domain.columns[:n_columns])
        people = DrawnRows(domain, rows.codes[:n_columns], rows.numbers)
        events = []
        for name, model in self._models.items():
            n_events = rows.numbers[name_number(name)].astype(np.intp)
            persons, drawn = model.draw(people, rows.codes, n_events, rng)
            if self.order_by in drawn.domain.columns:
                order = drawn.sort(self.order_by, persons)
                persons, drawn = persons[order], drawn.take(order)
            events.append((persons, drawn))
        return people, events

    def _write(
        self,
        template: Table,
        rows: DrawnRows,
        keys: NDArray[np.intp],
        features: Sequence[Any],
    ) -> Any:
        """Write the columns `features` of rows, among them their keys, in the library of a template."""
        values = write_rows(template, rows)
        columns = dict(zip(template.names, values, strict=True))
        columns |= compute_derived(template, rows)
        library = nw.from_native(template.native).implementation.value
        columns[self.key] = to_column(keys, library)
        return make_table(template, {name: columns[name] for name in features})

    @property
    def link_quality_(self) -> pd.DataFrame:
        """Noise and misfit of each measured marginal of events."""
        check_is_fitted(self)
        tables = {}
        for name, model in self._models.items():
            tables[name] = model.counts.marginal_quality_
        return pd.concat(tables, names=["table"])

    def _describe_fit(self) -> dict[str, Any]:
        """Return the fitted parts for `skdp.save`."""
        if not hasattr(self, "people_"):
            return {}
        return {
            "guarantee": self.guarantee_,
            "people": self.people_,
            "events": {name: model.counts for name, model in self._models.items()},
            "ordered": [
                n for n, model in self._models.items() if model.columns.has_order
            ],
            "features": list(map(list, self._features)),
            "named": self._has_names,
        }

    def _restore_fit(self, fitted: dict[str, Any]) -> None:
        """Check the fitted parts from `skdp.load`, and set them."""
        people, events = fitted["people"], fitted["events"]
        for part in (people, *events.values()):
            if not isinstance(part, DPMarginalSynthesizer) or not events:
                raise ValueError(
                    "Fitted linked tables must have synthesizers of people and events."
                )
        self._features = list(map(tuple, fitted["features"]))
        self._has_names = fitted["named"] is True
        self.guarantee_ = fitted["guarantee"]
        self._link(people, events, fitted["ordered"])
