"""Parts shared by the estimators of the central model: checks, one charge, random bits, tables in and out."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, Literal, Self

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from skdp.base import (
    ColumnLike,
    ColumnName,
    OnSite,
    TableLike,
    all_or_nothing,
    as_asked,
    check_ledger,
    check_names,
    check_random_state,
    coins,
    level_of_the_caller,
    read_bounds,
    read_input,
    warn_of_release,
)
from skdp.central.statistics import (
    LOOKS,
    NOWHERE,
    Noise,
    check_bounds_share,
    check_steps,
    count_values,
    limit_persons,
    losses_of,
    place_bounds,
    read_persons,
    read_values,
    rows_within,
    split_bounds,
)
from skdp.oracles import check_size
from skdp.privacy import (
    Loss,
    Mu,
    PrivacyGuarantee,
    PrivacyLedger,
    Rho,
    Share,
    check_delta,
    check_epsilon,
    read_share,
    search_advice,
    spend,
)
from skdp.randomness import ByteSource
from skdp.tables import LargeTable, Table, open_large

Unknown = Literal["error", "ignore"]
Columns = list[NDArray[Any]]


def charge(
    what: str,
    share: Share,
    ledger: PrivacyLedger | None,
    random_state: int | None,
    *,
    mechanism: str,
    n_rows: int | None,
    scope: Sequence[Any] = (),
    delta: Fraction = Fraction(0),
    losses: Sequence[Loss] = (),
    rho: Fraction | None = None,
) -> tuple[PrivacyGuarantee, ByteSource]:
    """Charge a release from `n_rows` rows, None if unknown; return its guarantee and its random bits."""
    check_ledger(ledger)
    check_random_state(random_state)
    guarantee = PrivacyGuarantee(
        relation="add_remove",
        trust="central",
        scope=tuple(scope),
        mechanism=mechanism,
        secure=random_state is None,
        max_rows_per_person=share.rows,
        **share.stated(losses, delta, rho),
    )
    warn_of_release(guarantee)
    spend(ledger, guarantee, what, n_rows=n_rows)
    return guarantee, coins(random_state, what)


class CentralEstimator(OnSite, BaseEstimator):
    """A statistic of a table held by a trusted curator, released once in `fit`."""

    # `fit` checks everything, charges the ledger, draws, and sets attributes, in this order: an error costs nothing,
    # and a charge is never refunded. Only noisy statistics stay on the estimator.

    protects_rows = False
    """The statistics are private; rows that a `transform` returns are not."""

    _takes_missing = True
    """Whether missing values of rows are left out, unless a parameter says otherwise."""

    epsilon: Any
    """A number, `Rho` or `Mu`."""
    ledger: PrivacyLedger | None
    random_state: int | None
    max_rows_per_person: int
    guarantee_: PrivacyGuarantee

    def _check_promise(self) -> Share:
        """Check the parameters that all estimators have, and return what may be lost."""
        share = read_share(self.epsilon)
        if share.given is not None and getattr(self, "delta", None):
            raise ValueError(
                f"delta must be 0 with epsilon={self.epsilon}, which has its own, got {self.delta}"
            )
        check_ledger(self.ledger)
        check_random_state(self.random_state)
        return share

    def planned_guarantee(self) -> PrivacyGuarantee:
        """Return what the parameters allow `fit` to spend.

        Returns
        -------
        PrivacyGuarantee
            What `privacy_statement` says before `fit`: at least `guarantee_`, without columns and mechanism.

        Raises
        ------
        TypeError, ValueError
            If `epsilon`, `delta`, `ledger` or `random_state` is out of range.
        """
        share = self._check_promise()
        if read_share(self.epsilon).given is not None:
            numbers = share.stated(
                (), check_delta(getattr(self, "delta", None) or 0), None
            )
        else:
            # A number may buy Gaussian noise with delta, or pure noise: which one, some decide by the columns.
            delta = (
                share.given.delta
                if isinstance(share.given, Rho | Mu)
                else getattr(self, "delta", None)
            )
            numbers = {
                "epsilon": check_epsilon(self.epsilon),
                "delta": check_delta(delta or 0),
            }
        return PrivacyGuarantee(
            relation="add_remove",
            trust="central",
            secure=self.random_state is None,
            max_rows_per_person=self.max_rows_per_person,
            **numbers,
        )

    def _read_table(self, X: Any) -> Table:
        """Read a private table, which may have no rows: the number of rows is private."""
        return read_input(self, X, reset=True, least=0)

    def _spend(
        self, share: Share, columns: Sequence[Any], mechanism: str, **more: Any
    ) -> ByteSource:
        """Charge what `fit` releases, set `guarantee_`, and return the random bits."""
        with search_advice():
            self.guarantee_, source = charge(
                type(self).__name__,
                share,
                self.ledger,
                self.random_state,
                mechanism=mechanism,
                scope=columns,
                **more,
            )
        return source

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "guarantee_")  # a `fit` that failed has set n_features_in_

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = (
            self._takes_missing and getattr(self, "missing", "ignore") == "ignore"
        )
        return tags


@dataclass(frozen=True)
class Plan:
    """A checked release that is neither charged nor drawn yet; `release` draws, and sets the fitted attributes."""

    mechanism: str
    release: Callable[[ByteSource], None]
    delta: Fraction = Fraction(0)
    losses: tuple[Loss, ...] = ()
    """Of all that is released; empty if no more is known of it than its share of the budget and delta."""
    free: bool = False
    """Whether no value is used, so that nothing is charged and nobody needs to be trusted."""


class CentralStatistic(CentralEstimator):
    """An estimator whose `fit` follows the plan of its subclass."""

    bounds_share: float

    @all_or_nothing
    def fit(
        self,
        X: TableLike,
        y: Any = None,
        *,
        groups: ColumnLike | ColumnName | None = None,
    ) -> Self:
        """Release the statistics of a table.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            The private table: numbers, which may be missing or infinite (clipped to the bounds), or declared values.
            What is no number in a column of Python objects counts as missing: an error would show that there is such a
            record. Estimators whose tag ``allow_nan`` is False, such as `DPPCA`, refuse both. Or, with `skdp.engines`,
            a large table, of which only sums and counts are read: a Polars LazyFrame, a DuckDB relation, a pyarrow
            Dataset, or a Dask or Spark DataFrame.
        y : None
            Ignored.
        groups : 1-D array-like of shape (n_samples,), optional
            The person of each row: of each at most `max_rows_per_person` rows are used, chosen at random. For a large
            table, the name of a column, of which no statistic is released; the rows with the least hashes are used.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        TypeError, ValueError
            If a parameter is out of range, a declaration does not fit the columns, or X is 1-D, sparse, not numeric
            where it must be, or holds values that are to be an error; or groups is a series with the row labels of X in
            another order.
        BudgetExceeded
            If the ledger does not cover it.

        Warns
        -----
        UserWarning
            If a statistic is refused, or the noise hides it; if a column of numbers is of dtype object, or a column
            whose values are found privately has frequent values of several kinds.
        """
        return self._fit(X, None, groups)

    def _fit(self, X: Any, y: Any, groups: Any) -> Self:
        """Check everything, charge, draw, and set attributes."""
        rows = check_size(self.max_rows_per_person, name="max_rows_per_person", least=1)
        share = replace(self._check_promise(), rows=rows)
        large = open_large(X)
        if large is not None:
            X = large.sample  # the names and dtypes
            if groups is not None:
                large, X = limit_persons(large, groups, rows, self._chooser())
        table = self._read_columns(X, y, large)
        n_rows = None if large is not None else len(table.columns[0])
        if large is None and groups is not None:
            table = self._limited(table, groups, rows)
        share = self._settled(share, table)
        bounded = self._bounded(table)
        private, bounds = self._split_bounds(bounded.names)
        part = check_bounds_share(self.bounds_share) if private else Fraction(0)
        check_steps(
            getattr(self, "candidates", None),
            [bounded.names[place] for place in private],
        )
        plan = self._plan(table, large, share * (1 - part), bounds)
        of_looks = (
            [(Fraction(1) if plan.free else part) * look for look in LOOKS]
            if private
            else []
        )
        noises = [
            Noise.of(share * look, len(private), len(private)) for look in of_looks
        ]
        hidden: list[Any] = []
        if plan.free and not noises:
            self.guarantee_ = PrivacyGuarantee(
                0.0, relation="add_remove", scope=table.names, mechanism=plan.mechanism
            )
            source = coins(self.random_state, type(self).__name__)
        else:
            mechanism, losses = plan.mechanism, plan.losses
            if noises:
                found_by = f"{' and '.join(dict.fromkeys(noise.name for noise in noises))} on counts for bounds"
                mechanism = found_by if plan.free else f"{mechanism}, {found_by}"
                losses = (*losses_of(noises), *losses) if losses or plan.free else ()
            if rows > 1:
                mechanism = f"{mechanism}, up to {rows} rows a person"
            source = self._spend(
                share,
                table.names,
                mechanism,
                delta=plan.delta,
                losses=losses,
                n_rows=n_rows,
            )
            if noises:
                count = partial(count_values, bounded, large, private)
                bounds, hidden = place_bounds(
                    bounds, bounded.names, private, count, noises, source
                )
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    plan = self._plan(table, large, share * (1 - part), bounds)
        plan.release(source)
        if hidden:
            self._leave_open(np.array([name in hidden for name in bounded.names]))
        if bounds is None:
            self.__dict__.pop("bounds_", None)  # that of another guarantee
        else:
            self.bounds_ = read_bounds(bounds, bounded.names)
        if hidden:
            warnings.warn(
                f"the noise hides where the values of {hidden} are, if they are not 0, and bounds_ says {NOWHERE}, "
                "so that nothing limits how far their statistics are from the truth: there may be too few rows for "
                "this epsilon, or for bounds_share. Declare bounds from what is publicly known",
                UserWarning,
                stacklevel=level_of_the_caller(),
            )
        return self

    def _limited(self, table: Table, groups: Any, rows: int) -> Table:
        """Choose some rows of each person."""
        persons = read_persons(groups, table)
        kept = rows_within(persons, rows, self._chooser())
        return replace(table, persons=persons).take(np.flatnonzero(kept))

    def _chooser(self) -> np.random.Generator:
        """Return the generator that chooses rows of persons, which shares no random bits with the noise."""
        return np.random.default_rng(
            None if self.random_state is None else int(self.random_state)
        )

    def _read_columns(self, X: Any, y: Any, large: LargeTable | None) -> Table:
        """Read all columns of the release."""
        return self._read_table(X)

    def _settled(self, share: Share, table: Table) -> Share:
        """Return what is spent on these columns."""
        return share

    def _bounded(self, table: Table) -> Table:
        """Return the columns that have bounds."""
        return table

    def _split_bounds(self, names: Sequence[Any]) -> tuple[list[int], Any]:
        """Return which of these columns have private bounds, and what `_plan` is given as bounds."""
        return split_bounds(self._declared_bounds(), names)

    def _declared_bounds(self) -> Any:
        """Return what is declared of the bounds that `_plan` needs."""
        return getattr(self, "bounds", None)

    def _leave_open(self, hidden: NDArray[np.bool_]) -> None:
        """State of the columns with bounds that were not found that the errors of their statistics have no limit."""
        # Not those of the values clipped to `NOWHERE`, which say nothing of the values. An estimator that states no
        # errors has nothing to do.

    def _plan(
        self, table: Table, large: LargeTable | None, share: Share, bounds: Any
    ) -> Plan:
        """Check the parameters and the table, compute the exact statistics, and plan their release."""
        # With private bounds it is called twice: before the charge with bounds that stand in for them, so that all that
        # can be an error is one, and then with those that were found.
        raise NotImplementedError


class CentralTransformer(OneToOneFeatureMixin, TransformerMixin, CentralStatistic):
    """A transformer whose statistics are private, while its output is the rows themselves."""

    # After `fit`, `transform` is a plain function of each row: it draws nothing, and it protects nobody.

    def transform(self, X: TableLike) -> Any:
        """Transform the rows of a table.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            Rows, in the columns of `fit`; values may be missing.

        Returns
        -------
        same kind as X
            The transformed rows, which are as private as those of X: no noise is added to them.

        Raises
        ------
        TypeError, ValueError
            If X has other columns, or is not numeric where it must be.
        """
        check_is_fitted(self)
        table = read_input(self, X, reset=False, least=0)
        check_names(self, table, self._columns)
        return as_asked(
            self, table.rebuild(self._transform_table(table), self._output_names())
        )

    @property
    def _columns(self) -> tuple[Any, ...]:
        """The columns of X that `fit` saw."""
        return self.guarantee_.scope[: self.n_features_in_]

    def _transform_table(self, table: Table) -> Sequence[Any]:
        return _on_numbers(table, self._transform_columns)

    def _transform_columns(self, columns: Columns) -> Columns:
        """Transform all columns; a missing value is nan. They may be views of X, and are not written to."""
        raise NotImplementedError

    def _output_names(self) -> Sequence[Any]:
        return self._columns


class InvertibleTransformer(CentralTransformer):
    """A transformer of numbers that can be undone."""

    def inverse_transform(self, X: TableLike) -> Any:
        """Undo `transform`, but for what was clipped.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            Transformed rows, or an array of them.

        Returns
        -------
        same kind as X
            The rows in their own units.

        Raises
        ------
        TypeError, ValueError
            If X has other columns, or is not numeric.
        """
        check_is_fitted(self)
        # By an estimator that has seen no names: scikit-learn would warn of an array where `fit` saw a frame.
        table = read_input(BaseEstimator(), X, reset=True, least=0)
        names = tuple(self._output_names())
        if len(table.names) != len(names):
            raise ValueError(
                f"X has {len(table.names)} features; transform makes {len(names)}"
            )
        check_names(self, table, names)
        return table.rebuild(_on_numbers(table, self._invert_columns), self._columns)

    def _invert_columns(self, columns: Columns) -> Columns:
        """Undo `_transform_columns`."""
        raise NotImplementedError


def _on_numbers(table: Table, function: Callable[[Columns], Columns]) -> Columns:
    columns = function(read_values(table))
    if isinstance(table.native, np.ndarray | pd.DataFrame):
        return columns
    return [
        with_nulls(column, nw.get_native_namespace(table.native)) for column in columns
    ]


def with_nulls(column: Any, backend: Any) -> Any:
    """Write nan as null for polars and pyarrow, where nan is a number."""
    if column.dtype.kind != "f" or not np.isnan(column).any():
        return column
    frame = nw.new_series("column", column, backend=backend).to_frame()
    return frame.select(nw.when(~nw.col("column").is_nan()).then("column"))[
        "column"
    ].to_native()


def keep_missing(codes: NDArray[Any], column: NDArray[np.float64]) -> NDArray[Any]:
    """Write nan where a column has one; without any, the codes keep their integer dtype."""
    missing = np.isnan(column)
    return np.where(missing, np.nan, codes) if missing.any() else codes
