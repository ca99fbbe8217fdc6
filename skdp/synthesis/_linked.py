"""Synthetic tables of people and their events, with one guarantee for all rows of a person."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from skdp._arrays import ColumnName, Indices, TableLike
from skdp.base import (
    CallCounter,
    find_stack_level,
    restore_on_error,
    warn_of_released_size,
)
from skdp.central import CentralEstimator
from skdp.domain import Domain, DomainLike
from skdp.pages import warn
from skdp.privacy import Mu, PrivacyGuarantee, PrivacyLedger, Rho, check_delta
from skdp.readers import load_large
from skdp.synthesis._marginal import (
    DPMarginalSynthesizer,
    check_person_budget,
    get_fitted,
    make_fitted,
)
from skdp.synthesis.answers._counts import describe_quality, plan_conditions
from skdp.synthesis.answers._events import EventModel, check_omitted
from skdp.synthesis.answers._fitted_table import FittedTable
from skdp.synthesis.answers._kept import (
    Kept,
    measure_kept,
    state_kept,
    warn_flattened,
)
from skdp.synthesis.answers._synthetic_rows import (
    DrawnRows,
    check_n_samples,
    make_table,
    write_columns,
)
from skdp.synthesis.measure import (
    NoiseSource,
    make_plan,
    make_structure,
    measure_linked,
    plan_release,
)
from skdp.synthesis.private._linked_tables import (
    LinkedTables,
    declare_numbers,
    encode_tables,
    name_history,
    name_number,
    open_tables,
)
from skdp.synthesis.private._records import Policy, check_policy
from skdp.synthesis.private._table import (
    check_width,
    make_generator,
    replace_columns,
    select_present,
)
from skdp.tables import Table, to_column, wrap_table


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
        Public values of the columns of all tables, except the column `person`. Open ends of an `Interval`, and columns
        with a dtype of numbers that `domain` omits, are found with a part of the budget. Constraints and derived
        columns of an event may also read columns of its person. ``"count(ward == 'birth') <= 1"`` limits the number of
        such events of a person, and a smallest number above 0 requires events of each person. ``"last(died == 'yes')"``
        and ``"first(state == 'admitted')"`` require `order_by`: nothing follows or precedes such an event.
    person : column name
        Column of every table that identifies the person. Synthetic people have new ids 0, 1, 2 and so on.
    order_by : column name, optional
        Column that orders the events of a person, such as a date. Events then depend on the previous event; without
        an order, on the most frequent earlier values. A column that `domain` does not declare is used for the order
        only. Synthetic events are sorted by the column. Text is ordered alphabetically, and missing values are last:
        pass dates as dates.
    person_columns : list of column names, optional
        For a single table with several rows per person: the columns that are constant for each person. All other
        columns are events.
    max_cells : int, default=100_000
        Largest number of cells of a clique of a model. Time and memory are proportional to it.
    handle_unknown : {"error", "clip", "ignore"} or mapping of column name to value, default="error"
        How to handle a value outside the domain, as for `DPMarginalSynthesizer`. ``"ignore"`` excludes the person or
        the event.
    max_rows_per_person : int
        Largest number of events of a person in each table of events. `fit` excludes further events, chosen at random.
        The noise does not depend on it.
    ledger : PrivacyLedger, optional
        Ledger that `fit` charges once, before it draws noise.
    random_state : None or int, default=None
        None uses secure randomness. Pass an int for reproducible experiments only: the release is then not private.

    Attributes
    ----------
    domain_ : Domain
        Values of the modeled columns of all tables, or the bins of the models, between declared or found limits.
    guarantee_ : PrivacyGuarantee
        Privacy guarantee of `fit`, for all tables together.
    people_ : DPMarginalSynthesizer
        Synthesizer of the table of people without their ids, with a column ``"n_events"`` for the number of events, or
        ``"n_visits"`` for a table named ``"visits"``. Its `marginal` and `count_estimate` have intervals.
    n_persons_ : float
        Estimated number of people.
    n_persons_std_error_ : float
        Standard error of `n_persons_`.
    link_quality_ : DataFrame
        Quality of each measured marginal of events: the number of its cells, the standard error of a count, the
        ``noise`` and the ``misfit`` of the model as total variation distances, whether it is ``usable`` (noise of at
        most 0.1), and the rank correlation ``kept``, as in `DPMarginalSynthesizer`.
    constraint_quality_ : DataFrame
        For each table of events and constraint of `domain`, the proportion of draws of the model that are
        ``forbidden``: of events, or of people if it limits their number of events. These are resampled, so values
        that a constraint names may be too rare if it forbids many draws.

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
    most 1, and each score by at most 1. Limits of open ends are found from people and one random event of each person
    in each table, with a third of the budget if all columns have an open end. A fifth of the rest is spent on people
    and their numbers of events, and the remainder is divided equally between the tables of events; fractions add up to
    exactly 1. Histories of events are
    functions of the events of one person. The models, samples and all other methods are post-processing, without
    privacy loss.

    Events without a person are excluded. `sample` without a number returns the noisy number of people.

    Not covered: an error reveals that an undeclared value, a repeated or a missing id, or an id or an order of another
    type occurs, and synthetic tables have the libraries of the inputs.

    A model of events has the dependence between two columns of an event, of a column and the person, and of a column
    and its history: the previous value, and the number of remaining events, if `order_by` is given, otherwise the most
    frequent earlier value. Numbers within bins that are found depend on each other and on the number of the history.
    Dependence beyond these is preserved only as far as it follows from them, such as trends
    over more than one event.

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
    ...     epsilon=2.0, domain=domain, person="id", max_rows_per_person=5, random_state=0
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
        person: ColumnName,
        order_by: ColumnName | None = None,
        person_columns: Sequence[ColumnName] | None = None,
        max_cells: int = 100_000,
        handle_unknown: Policy | Mapping[Any, Any] = "error",
        max_rows_per_person: int,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.domain = domain
        self.person = person
        self.order_by = order_by
        self.person_columns = person_columns
        self.max_cells = max_cells
        self.handle_unknown = handle_unknown
        self.max_rows_per_person = max_rows_per_person
        self.ledger = ledger
        self.random_state = random_state

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "people_")

    def _planned_guarantee(self) -> PrivacyGuarantee:
        """Return the guarantee of `fit` according to the parameters."""
        return replace(super()._planned_guarantee(), unit="person")

    def fit(
        self,
        people: TableLike,
        events: TableLike | Mapping[str, TableLike] | None = None,
    ) -> Self:
        """Measure marginals of people and of their events, and fit models to them.

        Parameters
        ----------
        people : dataframe
            One row per person, with the id in the column `person`. With `person_columns`, the table of all rows.
        events : dataframe or mapping of name to dataframe, optional
            Events with the id of their person. A mapping has several tables, such as
            ``{"visits": visits, "drugs": drugs}``. None with `person_columns`.

        Returns
        -------
        self
            The fitted synthesizer.

        Raises
        ------
        TypeError, ValueError
            If a parameter is out of range, a constraint cannot be satisfied by declared values or by
            `max_rows_per_person` events, a table is not a dataframe or lacks the column `person`, a column
            is in two tables or is not declared, an id is missing or occurs twice in `people`, a column of
            `person_columns` varies within a person, or undeclared values are not handled.
        BudgetExceeded
            If the ledger does not cover the release.

        Warns
        -----
        UserWarning
            If the model keeps less than 0.9 of the rank correlation of a measured pair by noisy counts.
        """
        kept = self._fit(people, events)
        warn_flattened(kept, "guide/linked_tables", "`max_cells`")
        warn_of_released_size(self.guarantee_, self.n_persons_)
        return self

    @restore_on_error
    def _fit(
        self, people: TableLike, events: TableLike | Mapping[str, TableLike] | None
    ) -> Kept:
        """Read, plan, charge, measure, and post-process; return the kept parts of correlations."""
        # Read.
        person_budget = check_person_budget(self, by_person=True)
        people = load_large(people)
        tables = self._read_tables(people, events)
        # Plan: errors of parameters and of undeclared values are raised here.
        numbers = declare_numbers(person_budget.rows_per_person)
        encode = partial(
            encode_tables,
            declared=self._declared,
            numbers=numbers,
            handle_unknown=self.handle_unknown,
        )
        random = partial(make_generator, self.random_state)
        coded = encode(tables, rng=random("contribution"))
        plan = make_plan(coded.domain, "auto", None, None, self.max_cells)
        release = plan_release(
            person_budget,
            check_delta(self.delta),
            tables.found,
            [*tables.domain],
            max_values=plan.limit_values(()),
        )
        for table in tables.events.values():
            columns = dict(tables.people.domain) | dict(table.domain)
            facts = select_present(self._declared, columns)
            # Constraints that exclude all combinations of listed values raise an error.
            make_structure(replace_columns(facts, columns), plan.max_cells)
        # Charge.
        mechanism = release.name_marginals(selects=True)
        if tables.found:
            searched = tables.choose_searched(random("search"))
            exact = release.count(searched)
        source = release.charge(self._charge_release, tables.features, mechanism)
        # Measure.
        if tables.found:
            values = release.find(searched, exact, source, self._state_limits)
            tables = tables.with_values(values)
            coded = encode(tables, rng=random("contribution"))
            plan = plan.with_domain(coded.domain)
        measured = measure_linked(
            tables,
            plan,
            self._declared,
            coded,
            noise=NoiseSource(release.rest, source),
        )
        # Post-process: the records are not used from here on.
        self._features = tables.list_written(self._declared)
        if self.person_columns is not None:
            # One table has the columns of both, in the order of the input.
            written = [*self._features[0], *self._features[1]]
            order = dict.fromkeys([*wrap_table(people).names, *written])
            self._features[1] = tuple(name for name in order if name in written)
        self._has_names = isinstance(events, Mapping)
        fitted = {}
        for name, (domain, counts) in measured.items():
            features = (*domain.columns, *domain.derived)
            joined = tables.join(name, domain)
            fitted[name] = FittedTable.of(
                features, joined, domain, counts, tables.domain
            )
        ordered = [name for name, table in tables.events.items() if table.has_order]
        of_people = fitted.pop(None)
        self._fit_models(of_people, fitted, ordered)
        kept: dict[tuple[Any, ...], tuple[float, float]] = {}
        for part in (of_people, *(model.fitted for model in self._models.values())):
            kept |= measure_kept(part)
        self.guarantee_ = state_kept(self.guarantee_, kept)
        for name in tables.events:
            _warn_of_no_events(self.people_, name)
        return kept

    def _read_tables(
        self, people: TableLike, events: TableLike | Mapping[str, TableLike] | None
    ) -> LinkedTables:
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
            person=self.person,
            order_by=self.order_by,
            person_columns=self.person_columns,
        )
        columns = tables.domain
        facts = select_present(self._declared, columns)
        facts._warn_of_missing(facts._constraints, stacklevel=find_stack_level() + 1)
        check_width(len(columns))
        check_policy(self.handle_unknown, Domain(columns), tables.found)
        names = {*map(name_number, tables.events), *map(name_history, columns)}
        taken = names & {*tables.features}
        if taken:
            raise ValueError(
                f"A table must not have the columns {sorted(taken)}, which are names of "
                "numbers of events or of histories. Rename them."
            )
        return tables

    def _fit_models(
        self,
        people: FittedTable,
        events: Mapping[str, FittedTable],
        ordered: Collection[str],
    ) -> None:
        """Fit models of events to the noisy counts of all tables; the tables `ordered` have an order of events."""
        models = {}
        for name, fitted in events.items():
            models[name] = EventModel.estimate(
                fitted,
                people,
                name,
                has_order=name in ordered,
                max_cells=self.max_cells,
            )
        self.people_ = self._wrap(people)
        self._models = models
        self._calls = CallCounter()
        self.n_persons_, self.n_persons_std_error_ = people.n_rows
        self.n_features_in_ = len(self.guarantee_.scope)

    def _wrap(self, fitted: FittedTable) -> DPMarginalSynthesizer:
        """Make a synthesizer of one fitted table, with the parameters of this one."""
        names = ("epsilon", "delta", "max_cells", "max_rows_per_person")
        parameters = {name: getattr(self, name) for name in names}
        guarantee = replace(self.guarantee_, scope=fitted.features)
        return make_fitted(fitted, guarantee, **parameters)

    @property
    def _declared(self) -> Domain:
        """The parameter `domain` as a Domain."""
        declared: Any = self.domain
        return declared if isinstance(declared, Domain) else Domain(declared)

    def sample(
        self,
        n_persons: int | None = None,
        *,
        conditions: Mapping[Any, Any] | None = None,
    ) -> Any:
        """Draw synthetic people and their events.

        Parameters
        ----------
        n_persons : int, optional
            Number of people, at least 0; by default the estimated number of people, with `conditions` of those that
            fulfill them.
        conditions : mapping of column name to (low, high), value or list of values, optional
            Conditions on columns of people that all people fulfill, as in `DPMarginalSynthesizer.sample`.

        Returns
        -------
        tuple of people and events, or table
            The tables in the form and the libraries of `fit`: people with new ids, and events with the ids of their
            people, sorted by person and `order_by`. Several tables of events are a dict. With `person_columns`, one
            table. The tables differ from call to call.

        Raises
        ------
        TypeError, ValueError
            If the number is not an integer or is out of range, a condition is not on a column of `people_`, or no
            person or no event of a table satisfies the conditions and the constraints of `domain`.

        Warns
        -----
        UserWarning
            If more than a twentieth of the events of a table are omitted, because no draw satisfies the constraints.

        Notes
        -----
        **Privacy.** Post-processing of the models, without privacy loss.
        """
        check_is_fitted(self)
        check_n_samples(n_persons, "n_persons")
        fitted = get_fitted(self.people_)
        given = None if conditions is None else plan_conditions(fitted, conditions)
        n_people = self.n_persons_ if given is None else given.count
        n = round(n_people) if n_persons is None else int(n_persons)
        rng = make_generator(self.random_state, "sample", self._calls.advance())
        rows = fitted.draw_rows(n, rng, given=given)
        people = self._write(fitted.template, rows, np.arange(n), self._features[0])
        events = {}
        for index, (name, model) in enumerate(self._models.items(), 1):
            persons, drawn = model.draw(rows, model.joint, rng, model._ranks)
            if self.order_by in drawn.domain.columns:
                persons, drawn = model.sort_events(self.order_by, persons, drawn)
            n_planned = int(rows.numbers[name_number(name)].sum())
            check_omitted(name, model.joint, persons.size, n_planned)
            features = self._features[index]
            events[name] = self._write(model.template, drawn, persons, features)
        if self._has_names:
            return people, events
        (table,) = events.values()
        return (people, table) if self.person_columns is None else table

    def _write(
        self,
        template: Table,
        rows: DrawnRows,
        ids: Indices,
        features: Sequence[Any],
    ) -> Any:
        """Write the columns `features` of rows, among them the ids, in the library of a template."""
        columns = write_columns(template, rows)
        library = nw.from_native(template.native).implementation.value
        columns[self.person] = to_column(ids, library)
        return make_table(template, {name: columns[name] for name in features})

    @property
    def domain_(self) -> Domain:
        """Values of the modeled columns of all tables, or their bins, between declared or found limits."""
        check_is_fitted(self)
        columns: dict[Any, Any] = dict(self.people_.domain_)
        for model in self._models.values():
            columns |= dict(model.fitted.domain)
        names = [name for name in self.guarantee_.scope if name in columns]
        return Domain({name: columns[name] for name in names})

    @property
    def link_quality_(self) -> pd.DataFrame:
        """Noise and misfit of each measured marginal of events."""
        check_is_fitted(self)
        tables = {}
        for name, model in self._models.items():
            tables[name] = describe_quality(model.fitted)
        return pd.concat(tables, names=["table"])

    @property
    def constraint_quality_(self) -> pd.DataFrame:
        """Proportion of draws of the models that each constraint forbids, before they are resampled."""
        check_is_fitted(self)
        people = get_fitted(self.people_)
        tables = {}
        for name, model in self._models.items():
            forbidden = pd.Series(model.measure_forbidden(people), dtype=float)
            tables[name] = forbidden.rename_axis("constraint").to_frame("forbidden")
        return pd.concat(tables, names=["table"])

    def _describe_fit(self) -> dict[str, Any]:
        """Return the fitted parts for `skdp.save`."""
        if not hasattr(self, "people_"):
            return {}
        return {
            "guarantee": self.guarantee_,
            "people": self.people_,
            "events": {
                n: self._wrap(model.fitted) for n, model in self._models.items()
            },
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
        tables = {name: get_fitted(part) for name, part in events.items()}
        self._fit_models(get_fitted(people), tables, fitted["ordered"])


def _warn_of_no_events(people: DPMarginalSynthesizer, table: str) -> None:
    """Warn if most people, or people of whom a constraint requires events, have no event of a table by noisy counts."""
    number = name_number(table)
    required = get_fitted(people).domain.select([number]).constraints
    if required and people.count_estimate({number: (0, 1)}).lower > 0:
        warn(
            f"By noisy counts, some people have no {table!r}, but constraints on numbers of "
            "events require some of each person, and all synthetic people have them. State "
            "only the largest number, such as count(...) <= 1",
            UserWarning,
            about="guide/linked_tables",
            stacklevel=find_stack_level(),
        )
    estimate = people.count_estimate({number: (1, None)})
    if estimate.lower <= 0 and estimate.upper < people.n_rows_ / 2:
        warn(
            f"The noisy number of people with {table!r} does not differ from 0, so the "
            "synthetic table may be empty. If many people have events, write their ids "
            "equally in both tables: '0007' and '7' are different ids",
            UserWarning,
            about="guide/linked_tables",
            stacklevel=find_stack_level(),
        )
