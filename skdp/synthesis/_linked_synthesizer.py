"""Synthetic tables of people and their events, with one guarantee for all rows of a person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, Literal, NamedTuple, Self

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
from skdp.domain import Domain, DomainLike, Interval
from skdp.privacy import Mu, PrivacyBudget, PrivacyLedger, Rho, check_delta
from skdp.randomness import check_size
from skdp.synthesis._cells import cut_domain, find_intervals
from skdp.synthesis._events import (
    UNIT,
    EventModel,
    EventTable,
    MeasuredEvents,
    measure_events,
    measure_people,
    measure_quality,
)
from skdp.synthesis._histories import (
    EventColumns,
    People,
    declare_numbers,
    mean_inverses,
)
from skdp.synthesis._linked_file import describe_events, restore_events
from skdp.synthesis._linked_tables import (
    LinkedCodes,
    LinkedTables,
    encode_tables,
    open_tables,
)
from skdp.synthesis._records import (
    Policy,
    check_policy,
    check_replacements,
    find_ordered,
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
from skdp.synthesis.model import Marginal
from skdp.synthesis.selection import (
    Fitted,
    NoiseBudget,
    check_width,
    make_plan,
)
from skdp.tables import Table, to_column

PEOPLE_FRACTION = Fraction(1, 5)
"""Fraction of the budget for people and their numbers of events (benchmarks/linked.py)."""


class _Drawn(NamedTuple):
    """Synthetic people, and for each table of events the person of each event, ascending, and the events."""

    people: DrawnRows
    codes: NDArray[np.integer]
    """The codes of the model of people, with numbers of events; shape (n_columns, n_persons)."""
    events: dict[str, tuple[NDArray[np.intp], DrawnRows]]
    """Events have the columns of their people, too."""


def name_number(table: str) -> str:
    """Return the name of the column of people with their number of events in a table."""
    return f"n_{table}"


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
        ``noise`` and the ``misfit`` of synthetic events as total variation distances, and whether it is ``usable``
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

    Not covered: an error reveals that an undeclared value, a repeated or a missing key occurs, and synthetic tables
    have the libraries of the inputs.

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
        cells = [cut_domain(table.domain) for table in tables.all]
        codes = self._encode(tables, cells)
        # Charge.
        source = self._spend(
            person_budget,
            tables.scope,
            f"{budget.noise_name} noise on marginals",
            delta=check_delta(self.delta),
            rho=budget.rho,
            losses=budget.losses,
        )
        # Measure.
        with limit_blas_threads():
            part = budget.split(PEOPLE_FRACTION)
            domain, marginals, fitted, people_codes = measure_people(
                codes, plan, domain, cells[0], part, source, self.bins
            )
            fraction = budget.remaining / len(tables.events)
            measured = []
            for child, (name, table) in enumerate(tables.events.items()):
                has_order = table.order is not None
                columns = list_columns(domain, table.domain, name, has_order)
                counted = measure_events(
                    codes.events[child],
                    columns,
                    table.domain,
                    cells[child + 1],
                    people_codes,
                    budget.split(fraction, UNIT),
                    source,
                    bins=self.bins,
                    max_cells=plan.max_cells,
                )
                measured.append(counted)
        # Post-process: the records are not used from here on.
        people_table = tables.people.table
        self._set_people(domain, marginals, fitted, people_table)
        joined = self._join_tables(tables, measured)
        self._set_events(joined, tables.people.features)
        self._has_names = isinstance(events, Mapping)
        self._set_names(tables.scope)

    def _set_names(self, names: Sequence[Any]) -> None:
        self.n_features_in_ = len(names)
        if all(isinstance(name, str) for name in names):
            self.feature_names_in_ = np.array(names, object)

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
        """Read the names of all tables, and the domain of each."""
        if not isinstance(self.domain, Mapping | Domain):
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
        columns: dict[Any, Any] = {}
        for table in tables.all:
            columns |= {name: table.domain[name] for name in table.domain.columns}
        check_width(len(columns))
        check_replacements(self.handle_unknown, Domain(columns))
        return tables

    def _encode(
        self, tables: LinkedTables, cells: Sequence[Mapping[int, Interval]]
    ) -> LinkedCodes:
        """Encode all tables by fine cells, and choose the events of each person."""
        rng = make_generator(self.random_state, "contribution")
        n_rows = int(self.max_rows_per_person)
        return encode_tables(tables, cells, self.handle_unknown, n_rows, rng)

    def _add_numbers(self, tables: LinkedTables) -> Domain:
        """Return the domain of people with the number of events in each table."""
        domain = tables.people.domain
        columns = {name: domain[name] for name in domain.columns}
        for name in map(name_number, tables.events):
            if name in tables.scope:
                raise ValueError(
                    f"A table must not have a column {name!r}, which is the name of the "
                    "number of events. Rename it."
                )
            first = 1 if tables.is_single else 0
            columns[name] = declare_numbers(first, int(self.max_rows_per_person))
        return replace_columns(domain, columns)

    def _join_tables(
        self, tables: LinkedTables, measured: Sequence[MeasuredEvents]
    ) -> dict[str, EventTable]:
        """Add the columns of people to the tables of events."""
        joined = {}
        people = tables.people.table
        people_domain = self.people_.domain_.select(people.names)
        for events, (name, table) in zip(measured, tables.events.items(), strict=True):
            joint = join_domains(tables.declared, people_domain, events.domain)
            columns = (*people.columns, *table.table.columns)
            native = table.table.native
            template = make_template(Table(joint.columns, columns, native), joint)
            features = tables.features if tables.is_single else table.features
            joined[name] = EventTable(
                features, joint, template, events, table.order is not None
            )
        return joined

    def _set_people(
        self, domain: Domain, marginals: list[Marginal], fitted: Fitted, table: Table
    ) -> None:
        """Set the synthesizer of people, whose domain has the numbers of events; `table` has all other columns."""
        self.people_ = DPMarginalSynthesizer(
            self.epsilon,
            delta=self.delta,
            domain=domain,
            max_cells=self.max_cells,
            max_rows_per_person=self.max_rows_per_person,
            bins=self.bins,
            handle_unknown=self.handle_unknown,
            random_state=self.random_state,
        )
        numbers = np.empty(0)
        n_numbers = len(domain.columns) - len(table.names)
        columns = (*table.columns, *[numbers] * n_numbers)
        template = make_template(Table(domain.columns, columns, table.native), domain)
        features = (*domain.columns, *domain.derived)
        self.people_.guarantee_ = replace(self.guarantee_, scope=features)
        self.people_.n_features_in_ = len(features)
        if all(isinstance(name, str) for name in features):
            self.people_.feature_names_in_ = np.array(features, object)
        self.people_._set_fit(domain, marginals, fitted, features, template)

    def _set_events(
        self, tables: Mapping[str, EventTable], features: Sequence[Any]
    ) -> None:
        """Fit the models of events, and set the fitted attributes; `features` are the columns of people."""
        self._features = tuple(features)
        self._tables = dict(tables)
        self._calls = CallCounter()
        self._models = {}
        domain = self.people_.domain_
        for name, table in tables.items():
            events = table.measured
            columns = list_columns(domain, events.domain, name, table.has_order)
            people = People(
                self.people_.model_,
                self.people_.marginals_,
                self.people_.n_rows_,
                columns.count,
                mean_inverses(find_intervals(domain)[columns.count]),
            )
            self._models[name] = EventModel.estimate(
                events, columns, people, self.max_cells
            )

    @property
    def _declared(self) -> Domain:
        """The parameter `domain` as a Domain."""
        declared: Any = self.domain
        return declared if isinstance(declared, Domain) else Domain(declared)

    @property
    def n_persons_(self) -> float:
        """Estimated number of people."""
        check_is_fitted(self)
        return self.people_.n_rows_

    @property
    def n_persons_std_error_(self) -> float:
        """Standard error of `n_persons_`."""
        check_is_fitted(self)
        return self.people_.n_rows_std_error_

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
        drawn = self._draw(n, rng)
        tables = {}
        for name, (persons, rows) in drawn.events.items():
            table = self._tables[name]
            tables[name] = self._write(table.features, table.template, rows, persons)
        if self.person_columns is not None:
            return tables["events"]
        people = drawn.people
        template = self.people_._template
        columns = template.columns[: len(people.codes)]
        template = Table(people.domain.columns, columns, template.native)
        written = self._write(self._features, template, people, np.arange(n))
        return written, tables if self._has_names else tables["events"]

    def _draw(self, n: int, rng: np.random.Generator) -> _Drawn:
        """Draw people and their events, with the columns of the person in each event."""
        rows = self.people_._draw_rows(self.people_._template, n, rng)
        codes = np.array(rows.codes)
        n_columns = len(rows.codes) - len(self._tables)
        people = rows.select(rows.domain.select(rows.domain.columns[:n_columns]))
        events = {}
        for name, table in self._tables.items():
            n_events = rows.numbers[name_number(name)].astype(np.intp)
            persons, drawn = self._models[name].draw(
                people, codes, n_events, table.template, table.joint, rng
            )
            if self.order_by in drawn.domain.columns:
                order = drawn.sort(self.order_by, persons)
                persons, drawn = persons[order], drawn.take(order)
            events[name] = persons, people.take(persons).join(drawn, table.joint)
        return _Drawn(people, codes, events)

    def _write(
        self,
        features: Sequence[Any],
        template: Table,
        rows: DrawnRows,
        keys: NDArray[np.intp],
    ) -> Any:
        """Write rows with their keys as a table with the columns `features`, in the library of a template."""
        columns = dict(
            zip(rows.domain.columns, write_rows(template, rows), strict=True)
        )
        columns |= compute_derived(template, rows)
        library = nw.from_native(template.native).implementation.value
        columns[self.key] = to_column(keys, library)
        return make_table(template, {name: columns[name] for name in features})

    @property
    def link_quality_(self) -> pd.DataFrame:
        """Noise of each measured marginal of events, and its distance from synthetic events."""
        check_is_fitted(self)
        drawn = self._draw(round(self.n_persons_), np.random.default_rng(0))
        tables = {}
        for name, model in self._models.items():
            persons, events = drawn.events[name]
            codes = events.codes[-model.columns.n_events :]
            names = [*model.measured.domain.columns, *self.people_.domain_.columns]
            tables[name] = measure_quality(model, names, drawn.codes, persons, codes)
        return pd.concat(tables, names=["table"])

    def _describe_fit(self) -> dict[str, Any]:
        """Return the fitted parts for `skdp.save`."""
        if not hasattr(self, "people_"):
            return {}
        tables = {}
        for name, table in self._tables.items():
            tables[name] = describe_events(table, self._models[name])
        return {
            "guarantee": self.guarantee_,
            "people": self.people_,
            "features": list(self._features),
            "named": self._has_names,
            "tables": tables,
        }

    def _restore_fit(self, fitted: dict[str, Any]) -> None:
        """Check the fitted parts from `skdp.load`, and set them."""
        people, tables = fitted["people"], fitted["tables"]
        if not isinstance(people, DPMarginalSynthesizer) or not tables:
            raise ValueError(
                "Fitted linked tables must have a synthesizer of people and events."
            )
        domain = people.domain_
        names = domain.columns[: len(domain.columns) - len(tables)]
        restored = {}
        for name, parts in tables.items():
            joint = join_domains(self._declared, domain.select(names), parts["domain"])
            columns = list_columns(domain, parts["domain"], name, parts["has_order"])
            is_gaussian = people.guarantee_.rho is not None
            restored[name] = restore_events(
                parts, columns, joint, is_gaussian=is_gaussian
            )
        self.people_ = people
        self.guarantee_ = fitted["guarantee"]
        self._has_names = fitted["named"] is True
        self._set_names(self.guarantee_.scope)
        self._set_events(restored, fitted["features"])


def list_columns(
    people: Domain, events: Domain, name: str, has_order: bool
) -> EventColumns:
    """List the columns of the model of a table of events, named `name`."""
    return EventColumns(
        events.sizes,
        people.sizes,
        find_ordered(events, ()),
        find_ordered(people, ()),
        count=people.columns.index(name_number(name)),
        has_order=has_order,
    )


def join_domains(declared: Domain, people: Domain, events: Domain) -> Domain:
    """Return the columns of people and of events, with the declared constraints and derived columns of both."""
    columns = {name: people[name] for name in people.columns}
    columns |= {name: events[name] for name in events.columns}
    return replace_columns(declared.select(columns), columns)
