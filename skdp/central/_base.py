"""Base classes of estimators of the central model: checks of parameters, one charge per fit, tables in and out."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import compress
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from skdp._arrays import ColumnLike, ColumnName, Floats, TableLike
from skdp.base import (
    PrivateEstimator,
    apply_set_output,
    check_choice,
    check_declared,
    check_design_effect,
    check_input,
    check_ledger,
    check_names,
    check_random_state,
    make_source,
    parse_bounds,
    parse_ends,
    restore_on_error,
    warn_of_release,
)
from skdp.central._limits import (
    FoundLimits,
    LimitSearch,
    format_beyond,
    plan_limit_search,
)
from skdp.central._quantiles import QuantilePlan
from skdp.central._sums import read_values, warn_of_objects
from skdp.central.statistics import (
    SEARCH_PART,
    Batches,
    CategorySearch,
    Noise,
    append_weights,
    check_types,
    convert_bounds,
    find_times,
    find_undeclared,
    format_ranges,
    plan_categories,
    read_private_rows,
    split_off_column,
    undeclared_columns_error,
)
from skdp.domain import Domain, FoundCategories
from skdp.privacy import (
    BudgetExceeded,
    GaussianLoss,
    Loss,
    Mu,
    PrivacyBudget,
    PrivacyGuarantee,
    PrivacyLedger,
    PureLoss,
    Relation,
    Rho,
    check_delta,
    check_epsilon,
    compose,
    parse_budget,
)
from skdp.randomness import ByteSource, check_size
from skdp.readers import LargeTable, open_large
from skdp.tables import Table, choose_library, nan_to_null

Unknown = Literal["error", "ignore"]
Columns = list[NDArray[Any]]
Exact = TypeVar("Exact", covariant=True)
Sums = TypeVar("Sums")

# Parameters with public facts that a note of method states, beside bounds.
_METHOD_PARAMETERS = (
    "statistics",
    "by",
    "totals",
    "max_weight",
    "max_rows_per_person",
    "confidence_level",
)

# Limits of no columns, for estimators without bounds.
NO_BOUNDS = np.empty((0, 2))

# Protected part of a supervised model: whole records, or the target.
RECORD, TARGET = "record", "target"


def charge(
    name: str,
    budget: PrivacyBudget,
    ledger: PrivacyLedger | None,
    random_state: int | None,
    *,
    mechanism: str,
    scope: Sequence[Any] = (),
    relation: Relation = "add_remove",
    delta: Fraction = Fraction(0),
    losses: Sequence[Loss] = (),
    rho: Fraction | None = None,
    method: Mapping[str, Any] | tuple[()] = (),
) -> tuple[PrivacyGuarantee, ByteSource]:
    """Charge a ledger for a release; return its guarantee and a source of random bits for its noise.

    `name` is the estimator or function, in the record of the ledger. `delta`, `losses` (of the noises) and `rho` are
    what the budget states in the guarantee; `scope` are the protected columns, and `method` public facts by parameter.
    """
    check_ledger(ledger)
    check_random_state(random_state)
    guarantee = PrivacyGuarantee(
        relation=relation,
        trust="central",
        scope=tuple(scope),
        mechanism=mechanism,
        secure=random_state is None,
        method=method,
        **budget.unit,
        **budget.state_guarantee(losses, delta, rho),
    )
    warn_of_release(guarantee)
    try:
        if ledger is not None:
            ledger.charge(guarantee, name)
    except BudgetExceeded as error:
        if error.remedy:
            raise  # a smaller epsilon would not help
        raise BudgetExceeded(
            str(error), "Decrease `epsilon`, or use a ledger with a larger budget."
        ) from None
    return guarantee, make_source(random_state, name)


def check_declared_columns(
    declared: object, names: Sequence[Any], parameter: str = "bounds"
) -> None:
    """Check that a parameter which declares some columns names columns of X only."""
    # A Domain may have more columns than the table.
    if isinstance(declared, Mapping) and not isinstance(declared, Domain):
        check_declared({**dict.fromkeys(names), **declared}, names, parameter)


def check_unique_names(names: Sequence[Any]) -> None:
    """Check that the columns of a result have different names."""
    for index, name in enumerate(names):
        if name in names[:index]:
            raise ValueError(
                f"The columns of the result must have different names, got {name!r} "
                "twice. Rename a column of X, or replace a declared value."
            )


class CentralEstimator(PrivateEstimator):
    """Base class of estimators that release noisy statistics of a private table in `fit`."""

    # `fit` checks all inputs, charges the ledger, draws noise, and sets attributes, in
    # this order: an error costs nothing, and a charge is never refunded. Fitted
    # attributes depend on the table through noisy statistics only.

    # The guarantee does not cover the rows that `transform` returns.
    protects_rows = False

    # True if (epsilon, delta) is converted to mu for Gaussian noise.
    _delta_is_for_noise: ClassVar[bool] = False
    # The default of `delta`; > 0 if the mechanism requires delta > 0.
    _default_delta: ClassVar[float] = 0.0

    # Parameters; the values are those of estimators without the parameter.
    epsilon: Any  # a number, `Rho` or `Mu`
    delta: float = 0.0
    protect: str = RECORD
    ledger: PrivacyLedger | None
    random_state: int | None
    max_rows_per_person: int
    guarantee_: PrivacyGuarantee

    @property
    def _protects_only_target(self) -> bool:
        """True if the target is protected, and features are public."""
        return isinstance(self.protect, str) and self.protect == TARGET

    def _check_budget(self) -> PrivacyBudget:
        """Check `epsilon`, `delta`, `ledger` and `random_state`; return the budget for noise.

        With a delta for Gaussian noise, it is the largest mu that implies (epsilon, delta); otherwise it is `epsilon`
        as given.
        """
        budget = parse_budget(self.epsilon)
        delta = check_delta(self.delta)
        default = check_delta(self._default_delta)
        if budget.given is not None and delta not in {0, default}:
            raise ValueError(
                f"`delta` must be {self._default_delta} with `epsilon={self.epsilon}`, "
                f"which includes a delta, got {self.delta}. Omit it. Values "
                "without a declaration are found with a number as epsilon only."
            )
        check_ledger(self.ledger)
        check_random_state(self.random_state)
        if budget.given is not None or not self._delta_is_for_noise:
            return budget
        if delta:
            return parse_budget(Mu.of(self.epsilon, self.delta))
        if default:
            raise ValueError(
                f"`delta` must be in (0, 1), got 0. {type(self).__name__} adds Gaussian "
                "noise, which requires delta > 0."
            )
        return budget

    def _planned_guarantee(self) -> PrivacyGuarantee:
        """Return the largest guarantee that `fit` may state with these parameters.

        Returns
        -------
        PrivacyGuarantee
            The guarantee without columns and mechanism, which `privacy_statement` shows before `fit`. If `person` is
            given to `fit`, `guarantee_` is for all rows of one person.

        Raises
        ------
        TypeError, ValueError
            If `epsilon`, `delta`, `ledger` or `random_state` is out of range.
        """
        budget = self._check_budget()
        numbers: dict[str, Any] = budget.state_guarantee((), Fraction(0), None)
        if parse_budget(self.epsilon).given is None:
            # With a numeric epsilon, some estimators choose between Gaussian noise with
            # delta and noise without a delta by the number of columns.
            delta = self.delta
            if isinstance(budget.given, Rho | Mu):
                delta = budget.given.delta
            numbers = {
                "epsilon": check_epsilon(self.epsilon),
                "delta": check_delta(delta),
            }
        # The name of the target is not known before `fit`.
        scope: tuple[Any, ...] = (TARGET,) if self._protects_only_target else ()
        return PrivacyGuarantee(
            relation="replace_values" if scope else "add_remove",
            trust="central",
            scope=scope,
            secure=self.random_state is None,
            max_rows_per_person=self.max_rows_per_person,
            **numbers,
        )

    def _follows_from_parameters(self, guarantee: PrivacyGuarantee) -> bool:
        """Return True if `fit` with these parameters may state this guarantee, which was loaded from a file."""
        planned = self._planned_guarantee()
        if not guarantee.epsilon and not guarantee.delta:
            return self._is_free(guarantee.scope)
        budget, requested = self._check_budget(), parse_budget(self.epsilon)
        epsilons = {planned.epsilon}
        if budget.given is not None:
            stated = budget.state_guarantee(guarantee.losses, Fraction(0), None)
            epsilons.add(stated["epsilon"])
        deltas = {planned.delta}
        # Noise without a delta may have been smaller than Gaussian noise.
        if all(isinstance(loss, PureLoss) for loss in guarantee.losses):
            deltas.add(0.0 if guarantee.losses else planned.delta)
        composed = guarantee.epsilon
        if any(isinstance(loss, GaussianLoss) for loss in guarantee.losses):
            # The guess of an attacker follows from the losses. Pure ones have been added up.
            composed = compose([guarantee]).epsilon
        return (
            guarantee.epsilon in epsilons
            and guarantee.delta in deltas
            and composed > guarantee.epsilon * (1 - 1e-9)
            and (requested.given is None or guarantee.rho == planned.rho)
            and guarantee.relation == planned.relation
            and guarantee.trust == "central"
            and (planned.secure or not guarantee.secure)
            and guarantee.unit != "limited_person"
            and guarantee.max_rows_per_person == planned.max_rows_per_person
        )

    def _is_free(self, names: Sequence[Any]) -> bool:
        """Return True if `fit` reads no values of these columns, so that it spends no budget."""
        return False

    def _read_table(self, X: TableLike) -> Table:
        """Read a private table, which may have no rows: the number of rows is private."""
        return check_input(self, X, reset=True, min_rows=0)

    def _charge_release(
        self, budget: PrivacyBudget, columns: Sequence[Any], mechanism: str, **more: Any
    ) -> ByteSource:
        """Charge the ledger for a release, set `guarantee_`, and return a source of random bits.

        `columns` are the protected columns, and `more` are further arguments of `charge`.
        """
        self.guarantee_, source = charge(
            type(self).__name__,
            budget,
            self.ledger,
            self.random_state,
            mechanism=mechanism,
            scope=columns,
            **more,
        )
        return source

    def _state_limits(self, search: LimitSearch, found: FoundLimits) -> None:
        """State the limits that were found, and the rows beyond them, in the note of method of `guarantee_`."""
        is_found = (found.bounds != search.ends).any(axis=1)
        names = list(compress(search.names, is_found))
        ranges = format_ranges(names, found.bounds[is_found], self._time_columns)
        numbers = np.rint(found.beyond[is_found, :2]).tolist()
        beyond = [
            format_beyond(name, number, error)
            for name, (number, error) in zip(names, numbers, strict=True)
        ]
        method = dict(self.guarantee_.method) | {"limits": ranges, "beyond": beyond}
        self.guarantee_ = replace(self.guarantee_, method=method)

    @property
    def _time_columns(self) -> dict[Any, str]:
        """The types of the columns of dates and durations, which are numbers of days."""
        return vars(self).get("_times", {})

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "guarantee_")  # a `fit` that failed has set n_features_in_


@dataclass(frozen=True)
class FitInput:
    """The arguments of `fit` besides the table: arrays, or names of columns, which the table then loses."""

    target: ColumnLike | ColumnName | None = None
    # None if rows have no weights.
    weights: ColumnLike | ColumnName | None = None
    # None if each row is one person.
    person: ColumnLike | ColumnName | None = None


@dataclass(frozen=True)
class Plan(Generic[Exact]):
    """A checked release before the charge and the draw."""

    # The exact statistics and other inputs of `_release`.
    exact: Exact
    # The budget of the release, without the part of a search.
    budget: PrivacyBudget
    # The noises that are known before the draw.
    noises: tuple[Noise, ...] = ()
    # Name of the mechanism; by default, the name of the first noise.
    mechanism: str = ""
    # Losses of the release. None takes them from `noises`; () if only the budget is
    # known.
    losses: tuple[Loss, ...] | None = None
    # True if no value is read, so that nothing is charged.
    free: bool = False
    # Columns whose values are protected; empty if whole records are protected.
    protected_columns: tuple[Any, ...] = ()
    # The failure probability in addition to the failure probability of Gaussian noise.
    delta: Fraction = Fraction(0)

    @property
    def stated_mechanism(self) -> str:
        """The name of the mechanism."""
        return self.mechanism or self.noises[0].name

    @property
    def stated_losses(self) -> tuple[Loss, ...]:
        """The losses of the release."""
        if self.losses is None:
            return tuple(noise.loss for noise in self.noises)
        return self.losses

    def after(self, search: LimitSearch) -> Plan[Exact]:
        """Return the plan of a release after a search of limits, for the charge."""
        losses = self.stated_losses
        if losses:
            losses = (*search.losses, *losses) if search.losses else ()
        mechanism = f"{search.mechanism}; with the rest: {self.stated_mechanism}"
        return replace(self, losses=losses, mechanism=mechanism)

    def after_categories(self, search: CategorySearch) -> Plan[Exact]:
        """Return the plan of a release after a search of categories, for the charge."""
        mechanism = search.mechanism
        if not self.free:
            mechanism += f"; with the rest: {self.stated_mechanism}"
        # The threshold needs a delta, so only the total is known.
        return replace(
            self, losses=(), delta=search.delta, mechanism=mechanism, free=False
        )

    @staticmethod
    def from_gaussian(exact: Sums, budget: PrivacyBudget, mechanism: str) -> Plan[Sums]:
        """Plan several measurements with Gaussian noise, whose squares of mu add up to the square of the budget.

        `exact` contains the exact statistics. `_release` gives each of them a fraction of the budget.
        """
        losses: tuple[Loss, ...] = ()
        if budget.kind == "rho":
            losses = (Noise.gaussian(budget).loss,)
        name = f"{mechanism}, rounded Gaussian"
        return Plan(exact, budget, mechanism=name, losses=losses)

    @staticmethod
    def from_quantiles(quantiles: QuantilePlan) -> Plan[QuantilePlan]:
        """Plan the release of quantiles of columns."""
        mechanism, losses = quantiles.mechanism, quantiles.losses
        return Plan(quantiles, quantiles.budget, mechanism=mechanism, losses=losses)


class CentralStatistic(CentralEstimator):
    """Base class of estimators whose `fit` reads a table, plans a release, charges the ledger, and draws noise."""

    bounds: Any = None
    handle_unknown: str = "error"
    max_weight: float | None = None

    # True if `fit` reads the rows several times, which requires them in memory.
    _requires_rows: ClassVar[bool] = False
    # True if missing numbers are excluded.
    _takes_missing: ClassVar[bool] = True
    # True if the fraction of rows that are excluded for `max_rows_per_person` is released.
    _releases_exclusions: ClassVar[bool] = False
    # True if columns have declared values of any type instead of numbers.
    _takes_categories: ClassVar[bool] = False
    # The parameter with the values of columns; values that it omits are found with a delta. ""
    # if they are not.
    _found_parameter: ClassVar[str] = ""
    # Largest number of values of a column that are found.
    _max_found: ClassVar[int] = 1 << 20
    # Fraction of the budget for the search of values.
    _search_part: ClassVar[Fraction] = SEARCH_PART
    # True if ends of `bounds` that are not declared are found, with a part of the budget.
    _finds_limits: ClassVar[bool] = False
    # True if narrower limits are found within declared bounds, too.
    _finds_limits_within: ClassVar[bool] = False

    @restore_on_error
    def fit(
        self,
        X: TableLike,
        y: object = None,
        *,
        person: ColumnLike | ColumnName | None = None,
    ) -> Self:
        """Release the statistics of a table.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            Private table of numbers or of declared values. Infinite numbers are clipped to the bounds, and missing
            values are allowed. In a column of Python objects, a value that is not a number is read as missing, because
            an error would reveal that the record exists. Estimators whose tag ``allow_nan`` is False, such as `DPPCA`,
            raise an error for missing values. Large tables that `skdp.engines` supports, such as a Polars LazyFrame,
            are also accepted; only sums and counts of them are read.
        y : None
            Ignored.
        person : array-like of shape (n_samples,) or column name, optional
            Person of each row: an array, or the name of a column of X, which is then excluded from the statistics. At
            most `max_rows_per_person` rows of each person are used, chosen at random, and the guarantee covers all rows
            of one person. A large table requires the name of a column; the rows with the smallest hashes are used.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        TypeError, ValueError
            If a parameter is out of range, a declaration does not fit the columns, or X is 1-D, sparse, not numeric
            where it must be, or contains values that the estimator does not accept; or if `person` is a series with the
            row labels of X in another order.
        BudgetExceeded
            If the ledger does not cover the release.

        Warns
        -----
        UserWarning
            If a statistic is not released or is smaller than its noise, or if a numeric column has dtype object.
        """
        return self._fit(X, FitInput(person=person))

    def _fit(self, X: TableLike, given: FitInput) -> Self:
        """Read the table, plan the release, charge the ledger, and release, in this order.

        All errors are raised before the charge.
        """
        # Read.
        max_rows = check_size(
            self.max_rows_per_person, name="max_rows_per_person", min_val=1
        )
        budget = replace(
            self._check_budget(),
            rows_per_person=max_rows,
            by_person=given.person is not None,
        )
        rows = self._read(X, given, max_rows)
        check_choice("handle_unknown", self.handle_unknown, get_args(Unknown))

        # Plan.
        categories = self._plan_categories(rows, budget)
        if categories is None:
            total = budget = self._choose_budget(budget, rows)
        else:
            total, budget = categories.total, categories.rest
            rows = replace(rows, found=categories.placeholder)
            values = categories.count(rows)
        selected = self._select_bounded(rows)
        bounded = selected.names
        bounds = _bound_booleans(self._declared_bounds(bounded), selected)
        search = self._plan_search(bounded, bounds, budget)
        if search is None:
            limits = NO_BOUNDS if bounds is None else parse_bounds(bounds, bounded)
            described = None if bounds is None else limits
            plan = self._plan(rows, budget, limits)
        else:
            # This plan checks all parameters and columns; its exact statistics are not used.
            plan = self._plan(rows, search.rest, search.placeholder)
            plan, described = plan.after(search), search.ends
            counts = search.count(rows)

        # Charge.
        names = rows.names
        method = self._describe_method(bounded, described)
        if categories is not None:
            plan = plan.after_categories(categories)
            method["categories"] = categories.describe()
        source = self._charge_plan(plan, total, names, method)

        # Release.
        if categories is not None:
            rows = self._add_found(rows, categories.find(values, source))
        if search is not None:
            found = search.find(rows, counts, source, type(self).__name__)
            self._state_limits(search, found)
            # `_beyond` has no default in the class: `load` refuses attributes of the class.
            limits, self._beyond = found.bounds, found.beyond
        else:
            self.__dict__.pop("_beyond", None)  # of an earlier fit
        if search is not None or categories is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the first plan has warned
                plan = self._replan(plan, rows, search or categories, limits)
        del rows, selected  # the plan has the integers that the release requires
        if bounds is None:
            self.__dict__.pop("bounds_", None)  # of an earlier fit
        else:
            self.bounds_ = limits
        self._release(plan, source)
        return self

    def _plan_categories(
        self, rows: Batches, budget: PrivacyBudget
    ) -> CategorySearch | None:
        """Plan the search of the categories that are not declared; None if all are declared."""
        columns = self._select_undeclared(rows)
        if not columns.names:
            return None
        delta = check_delta(self.delta)
        given = parse_budget(self.epsilon)
        if given.given is not None or not delta:
            raise self._make_undeclared_error(rows, columns.names)
        check_types(columns.table, self._found_parameter)
        total = replace(
            given, rows_per_person=budget.rows_per_person, by_person=budget.by_person
        )
        if self._delta_is_for_noise:
            # Rounded down, because the threshold has exactly half of delta.
            half = Mu.of(self.epsilon, math.nextafter(float(delta / 2), 0))
            budget = replace(budget, amount=half.amount, given=half)
        return plan_categories(
            columns.names,
            self._choose_budget(budget, rows),
            total,
            delta,
            part=self._search_part,
            max_values=self._max_found,
        )

    def _make_undeclared_error(self, rows: Batches, names: Sequence[Any]) -> ValueError:
        """Return the error for columns whose categories must be declared without a delta."""
        features = getattr(self, "feature_names_in_", ())
        parameter = self._found_parameter
        declared = getattr(self, parameter)
        return undeclared_columns_error(parameter, declared, names, features)

    def _add_found(
        self, rows: Batches, found: Mapping[Any, FoundCategories]
    ) -> Batches:
        """Add the categories that a search found to the rows."""
        return replace(rows, found=found)

    def _select_undeclared(self, rows: Batches) -> Batches:
        """Select the columns whose categories are not declared."""
        names: list[Any] = []
        if self._found_parameter:
            columns = self._select_categories(rows)
            declared = getattr(self, self._found_parameter)
            all_names = rows.names[: self.n_features_in_]
            check_declared_columns(declared, all_names, self._found_parameter)
            names = find_undeclared(columns.table, declared)
        return rows.select(names)

    @property
    def _finds_all_categories(self) -> bool:
        """True if the categories of all columns are found, so that every value has one."""
        declared: object = getattr(self, self._found_parameter, self)
        return declared is None and bool(self.delta)

    def _select_categories(self, rows: Batches) -> Batches:
        """Select the columns of categories."""
        return rows

    def _plan_search(
        self, names: Sequence[Any], bounds: Any, budget: PrivacyBudget
    ) -> LimitSearch | None:
        """Plan the search of limits of the columns `names` with declared bounds; None if all limits are declared."""
        if bounds is None or not self._finds_limits or self._is_free(names):
            return None
        ends = parse_ends(bounds, names)
        return plan_limit_search(names, ends, budget, within=self._finds_limits_within)

    def _describe_method(
        self, bounded: Sequence[Any], limits: Floats | None
    ) -> dict[str, Any]:
        """Describe the release by public facts; see `PrivacyGuarantee.method`.

        `limits` are the bounds of the columns `bounded`, of shape (n_columns, 2); None without bounds.
        """
        facts = {name: getattr(self, name, None) for name in _METHOD_PARAMETERS}
        if limits is not None:
            facts["bounds"] = format_ranges(bounded, limits, self._time_columns)
        return facts

    def _read(self, X: TableLike, given: FitInput, max_rows: int) -> Batches:
        """Read the columns of a table, the target and the weights, with at most `max_rows` random rows of each person.

        The target and the weights are the last columns if there are any.
        """
        large = open_large(X) if self._requires_rows else None
        if large is not None:
            X = large.load()
            if given.target is not None:
                X, target = split_off_column(X, given.target, "y")
                given = replace(given, target=target)
        rows = read_private_rows(
            X,
            given.person,
            max_rows,
            self.random_state,
            partial(self._read_columns, given=given),
            counts_persons=self._releases_exclusions,
        )
        return replace(rows, is_weighted=given.weights is not None)

    def _charge_plan(
        self,
        plan: Plan[Any],
        budget: PrivacyBudget,
        names: tuple[Any, ...],
        method: Mapping[str, Any],
    ) -> ByteSource:
        """Charge the ledger for a plan, set `guarantee_`, and return a source of random bits."""
        if plan.free:
            self.guarantee_ = PrivacyGuarantee(
                0.0,
                relation="add_remove",
                trust="central",
                scope=names,
                mechanism=plan.mechanism,
            )
            return make_source(self.random_state, type(self).__name__)
        mechanism = plan.stated_mechanism
        if budget.rows_per_person > 1:
            mechanism = f"{mechanism}, up to {budget.rows_per_person} rows a person"
        relation: Relation = (
            "replace_values" if plan.protected_columns else "add_remove"
        )
        return self._charge_release(
            budget,
            plan.protected_columns or names,
            mechanism,
            relation=relation,
            losses=plan.stated_losses,
            delta=plan.delta,
            method=method,
        )

    def _read_columns(
        self, X: TableLike, given: FitInput, large: LargeTable | None
    ) -> Table:
        """Read the columns of X, the target and the weights. `large` is the table in an engine."""
        is_large = large is not None
        X, weights = split_weights(X, given.weights, self.max_weight, is_large=is_large)
        return append_weights(self._read_features(X, given.target, large), weights)

    def _read_features(
        self, X: TableLike, target: object, large: LargeTable | None
    ) -> Table:
        """Read the columns of X, and the target if the estimator has one."""
        return self._read_table(X)

    def _choose_budget(self, budget: PrivacyBudget, rows: Batches) -> PrivacyBudget:
        """Return the budget that a release of these columns spends, by default all of it."""
        return budget

    def _allows_missing(self) -> bool:
        """Return True if X may have missing values."""
        if self._takes_categories:
            return self.handle_unknown == "ignore" or self._finds_all_categories
        return self._takes_missing

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._allows_missing()
        if self._takes_categories:
            tags.input_tags.categorical = tags.input_tags.string = True
        return tags

    def _select_bounded(self, rows: Batches) -> Batches:
        """Select the columns for which bounds are declared."""
        return rows.features if rows.is_weighted else rows

    def _declared_bounds(self, names: Sequence[Any]) -> Any:
        """Return the declared bounds of columns; None if they need none."""
        if self.bounds is None and self._finds_limits and names:
            return parse_ends(None, names)
        return self.bounds

    def _plan(self, rows: Batches, budget: PrivacyBudget, bounds: Floats) -> Plan[Any]:
        """Check the parameters and the table, and compute exact statistics; all errors are raised here."""
        raise NotImplementedError

    def _replan(
        self, plan: Plan[Any], rows: Batches, search: Any, bounds: Floats
    ) -> Plan[Any]:
        """Plan again with the bounds or categories that were found; `plan` has the placeholder."""
        return self._plan(rows, search.rest, bounds)

    def _release(self, plan: Plan[Any], source: ByteSource) -> None:
        """Draw noise, and set the fitted attributes."""
        raise NotImplementedError


def _bound_booleans(bounds: object, rows: Batches) -> Any:
    """Return declared bounds with 0 and 1 as the ends of boolean columns that are not declared."""
    is_boolean = rows.are_boolean()
    if bounds is None or not is_boolean.any():
        return bounds
    ends = parse_ends(bounds, rows.names)
    declared = np.where(np.isinf(ends), (0.0, 1.0), ends)
    return np.where(is_boolean[:, np.newaxis], declared, ends)


class WeightedStatistic(CentralStatistic):
    """Base class of statistics of rows that may have weights."""

    # True if columns of dates and durations are read as numbers of days.
    _takes_times: ClassVar[bool] = False

    def _find_sampling_factor(self, design_effect: float | None) -> float:
        """Return the sampling variance of a sum, relative to rows of weight 1 that are drawn at random; 0 if None."""
        if design_effect is None:
            return 0.0
        # The variance of a sum of weights w is the sum of w**2, at most the largest weight
        # times the sum. The rows of a person count as one row with their number as weight.
        largest = (self.max_weight or 1.0) * self.max_rows_per_person
        return check_design_effect(design_effect) * largest

    @restore_on_error
    def fit(
        self,
        X: TableLike,
        y: object = None,
        *,
        sample_weight: ColumnLike | ColumnName | None = None,
        person: ColumnLike | ColumnName | None = None,
    ) -> Self:
        """Release the statistics of a table.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            Private table of numbers or of declared values. Infinite numbers are clipped to the bounds, and missing
            values are allowed. In a column of Python objects, a value that is not a number is read as missing, because
            an error would reveal that the record exists. Large tables that `skdp.engines` supports, such as a Polars
            LazyFrame, are also accepted; only sums and counts of them are read.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,) or column name, optional
            Private weight of each row, such as the inverse of its sampling probability: a row counts as so many rows.
            Larger weights than `max_weight` are clipped, and a missing weight is 0. A column name excludes this column
            from the statistics. For a large table, the name of a column.
        person : array-like of shape (n_samples,) or column name, optional
            Person of each row: an array, or the name of a column of X, which is then excluded from the statistics. At
            most `max_rows_per_person` rows of each person are used, chosen at random, and the guarantee covers all rows
            of one person. A large table requires the name of a column; the rows with the smallest hashes are used.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        TypeError, ValueError
            If a parameter is out of range, a declaration does not fit the columns, or X is 1-D, sparse, not numeric
            where it must be, or contains values that the estimator does not accept; or if a weight is negative (which
            reveals it), or `sample_weight` or `person` is a series with the row labels of X in another order.
        BudgetExceeded
            If the ledger does not cover the release.

        Warns
        -----
        UserWarning
            If a statistic is not released or is smaller than its noise, or if a numeric column has dtype object.
        """
        return self._fit(X, FitInput(weights=sample_weight, person=person))

    def _read(self, X: TableLike, given: FitInput, max_rows: int) -> Batches:
        rows = super()._read(X, given, max_rows)
        self._library = choose_library(rows.table.native)
        self._times: dict[Any, str] = {}
        if self._takes_times:
            names = [x for x in rows.names if x not in self._key_names]
            names = names[: len(names) - rows.is_weighted]
            self._times = find_times(rows.table, names, self.bounds)
            warn_of_objects(rows.select([*self._times]).table)
        return rows.convert_times(self._times)

    @property
    def _key_names(self) -> list[Any]:
        """The columns that are not measured."""
        return []

    @property
    def _bounds_in_days(self) -> Any:
        """The parameter `bounds`, with numbers of days for columns of times."""
        return convert_bounds(self.bounds, self._time_columns)

    def _declared_bounds(self, names: Sequence[Any]) -> Any:
        if self._time_columns and self.bounds is not None:
            return self._bounds_in_days
        return super()._declared_bounds(names)

    def _check_max_weight(self, rows: Batches) -> float | None:
        """Check `max_weight`, and return it; None if rows have no weights."""
        if self.max_weight is None:
            return None
        max_weight = float(check_epsilon(self.max_weight, name="max_weight"))
        return max_weight if rows.is_weighted else None


def split_weights(
    X: TableLike, sample_weight: object, max_weight: object, *, is_large: bool = False
) -> tuple[Any, Any]:
    """Check that `sample_weight` and `max_weight` are both given; return X without the weights, and the weights."""
    if sample_weight is None:
        if max_weight is not None:
            raise ValueError(
                f"`sample_weight` must be given with max_weight={max_weight}, got None. "
                "Use fit(X, sample_weight=...), or in a pipeline <step>__sample_weight."
            )
        return X, None
    if max_weight is None:
        raise ValueError(
            "`max_weight` must be the largest weight of a row with `sample_weight`, "
            "from public knowledge such as the design of the sample, got None. Set "
            "max_weight=1 in a bagging ensemble, which passes repeated rows as weights."
        )
    if is_large or isinstance(sample_weight, str):
        return split_off_column(X, sample_weight, "sample_weight")
    return X, sample_weight


class CentralTransformer(OneToOneFeatureMixin, TransformerMixin, CentralStatistic):
    """Base class of transformers with noisy statistics; `transform` adds no noise to rows."""

    # The output of `transform` is a function of each input row, so it is as sensitive
    # as the row.

    # True if columns keep their dtype.
    _preserves_dtype: ClassVar[bool] = True

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        if not self._preserves_dtype:
            tags.transformer_tags.preserves_dtype = []
        return tags

    def transform(self, X: TableLike) -> Any:
        """Transform the rows of a table.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            Rows with the columns of `fit`; values may be missing.

        Returns
        -------
        same type as X
            Transformed rows. No noise is added, so they are as sensitive as X.

        Raises
        ------
        TypeError, ValueError
            If X has other columns, or is not numeric where it must be.
        """
        check_is_fitted(self)
        table = check_input(self, X, reset=False, min_rows=0)
        check_names(self, table, self._columns)
        columns = self._transform_table(table)
        rows = nan_to_null(table.rebuild(columns, self._output_names()))
        if not table.has_dtypes:  # a list, whose values are objects
            rows = pd.DataFrame(rows).infer_objects().to_numpy()
        return apply_set_output(self, rows)

    @property
    def _columns(self) -> tuple[Any, ...]:
        """Names of the columns of X seen during `fit`."""
        return self.guarantee_.scope[: self.n_features_in_]

    def _transform_table(self, table: Table) -> Sequence[Any]:
        return self._transform_columns(read_values(table))

    def _transform_columns(self, columns: Columns) -> Columns:
        """Transform columns of floats, in which missing values are nan. They may be views of X."""
        raise NotImplementedError

    def _output_names(self) -> Sequence[Any]:
        return self._columns


class InvertibleTransformer(CentralTransformer):
    """Base class of transformers of numbers with an inverse."""

    def inverse_transform(self, X: TableLike) -> Any:
        """Transform rows back to the original units.

        Values that `transform` has clipped remain clipped.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            Transformed rows.

        Returns
        -------
        same type as X
            Rows in the original units.

        Raises
        ------
        TypeError, ValueError
            If X has other columns, or is not numeric.
        """
        check_is_fitted(self)
        # Checked for an unfitted estimator, because scikit-learn would warn of an array
        # after `fit` with a dataframe.
        table = check_input(BaseEstimator(), X, reset=True, min_rows=0)
        names = tuple(self._output_names())
        if len(table.names) != len(names):
            raise ValueError(
                f"X must have the {len(names)} columns of the output of transform, got "
                f"{len(table.names)}."
            )
        check_names(self, table, names)
        columns = self._invert_columns(read_values(table))
        return nan_to_null(table.rebuild(columns, self._columns))

    def _invert_columns(self, columns: Columns) -> Columns:
        """Invert `_transform_columns`."""
        raise NotImplementedError
