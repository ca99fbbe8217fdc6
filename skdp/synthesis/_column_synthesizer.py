"""Private columns of public rows, resampled given all other columns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from skdp.base import (
    CallCounter,
    ColumnLike,
    ColumnName,
    TableLike,
    apply_set_output,
    check_index_levels,
    check_input,
    check_names,
    check_target_name,
    find_stack_level,
    limit_blas_threads,
    list_names,
    restore_on_error,
)
from skdp.central import CentralEstimator
from skdp.central.statistics import encode_columns, select_columns
from skdp.domain import Domain, DomainLike, draft_columns
from skdp.pages import warn
from skdp.privacy import Mu, PrivacyGuarantee, PrivacyLedger, Rho, check_delta
from skdp.synthesis._column_counts import (
    Codes,
    ColumnLayout,
    NoisyCounts,
    PrivateColumns,
    measure_columns,
)
from skdp.synthesis._column_model import ColumnModel, draw_evenly, fit_model
from skdp.synthesis._records import (
    complete_domain,
    declared_orders,
    derived_from,
    make_undeclared_error,
    undeclared,
    with_target,
)
from skdp.synthesis._rows import (
    MAX_ROUNDS,
    DrawnRows,
    check_decodable,
    draw_numbers,
    draw_valid,
    make_frame,
    make_generator,
    make_template,
    write_rows,
)
from skdp.synthesis.selection import NoiseBudget
from skdp.tables import Table, is_frame, wrap_table

MAX_COMBINATIONS = 1 << 12
"""Maximum number of combinations of private values."""

_FITTED = (
    "domain_",
    "guarantee_",
    "measured_columns_",
    "n_features_in_",
    "feature_names_in_",
    "_columns",
)


class DPColumnSynthesizer(OneToOneFeatureMixin, TransformerMixin, CentralEstimator):
    """Resample private columns of a table given all other columns, which are unchanged.

    Only the values of the named columns are private: each row keeps its other columns, and gets new private values
    from a model of noisy counts.

    Parameters
    ----------
    columns : list of column names
        The private columns. All other columns, a target `y` and the number of rows are public.
    epsilon : float, Rho or Mu, default=1.0
        Privacy loss for the values of all private columns of one record together, finite and > 0.
    delta : float, default=0.0
        Failure probability, in [0, 1). With 0 the noise is discrete Laplace, otherwise Gaussian, which is more accurate
        for many columns.
    domain : Domain, or mapping of column name to values or Interval
        Declared values of the private columns; required. Public columns may be declared, too, such as by an `Interval`
        that cuts numbers into bins; otherwise their values are read from the data.
    ledger : PrivacyLedger, optional
        Charged by each `fit`, before anything is drawn. It must be for these columns
        (``relation="replace_values", columns=[...]``).
    random_state : int, optional
        Seed for reproducible experiments, without a guarantee if it is known. None for secure randomness.

    Attributes
    ----------
    domain_ : Domain
        Values of each column in the model, a target last.
    guarantee_ : PrivacyGuarantee
        The guarantee of this `fit`.
    measured_columns_ : list of tuple
        The private columns, and the pairs of columns whose counts were measured with noise.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of str
        Their names, if all of them are strings.

    See Also
    --------
    DPMarginalSynthesizer : Synthetic rows, where whole records are private.
    RandomizedResponseEncoder : The same columns in the local model, without a trusted curator.

    Notes
    -----
    **Privacy.** Central model. Replacing the values of these columns in one record changes the distribution of all that
    is released by at most ``(epsilon, delta)``. Everything else is public: all other columns, a target `y`, the number
    of rows, and which rows belong to whom. Nothing limits what public columns reveal of private ones, such as a
    relationship "Husband" of the sex: make such columns private, too, or drop them.

    `fit` measures counts of each private column, and of pairs with a private column that noisy scores choose. Another
    value changes a table of counts by 2 in L1 norm and by sqrt(2) in L2 norm, and a score by 2. The counts of public
    values are exact. So a column with two private values needs one count, which changes by 1, and public values
    without records have no noise. The model is a logistic regression of the private columns on the public ones. It
    depends on private values through the noisy counts alone ([1]_). `transform` does not read private columns.

    An undeclared value of a private column raises an error, which reveals that such a value exists. A domain of
    `discover_domain` lacks rare values: replace them by a declared value ``other``, as in
    ``X["city"].where(X["city"].isin(domain["city"].values), other)``, and clip numbers to the bounds of their
    `Interval` before `fit`.

    If a row breaks a constraint of `domain` on a private column, its private values are resampled up to 200 times. If
    no draw satisfies it, the row keeps the first one, with a warning. Columns of X that the domain derives from private
    columns raise an error, because they would reveal private values; columns derived from public ones are unchanged.

    References
    ----------
    .. [1] A. Agresti (2013). Categorical data analysis. Wiley, section 9.5: log-linear models and logistic regression.

    Examples
    --------
    >>> from skdp import DPColumnSynthesizer
    >>> from skdp.datasets import load_adult
    >>> adult = load_adult()
    >>> people = adult.frame[["age", "sex", "education", "income"]]
    >>> synthesizer = DPColumnSynthesizer(["age", "sex"], 1.0, delta=1e-6, domain=adult.domain, random_state=0)
    >>> rows = synthesizer.fit_transform(people)
    >>> (rows["income"] == people["income"]).all(), (rows["sex"] == people["sex"]).all()
    (np.True_, np.False_)
    >>> print(synthesizer.guarantee_)
    epsilon = 1, delta = 0.000001, rho = 0.0280..., central model, replacing the values of age, sex in one record, all
    other columns are public, NOT SECURE: ...
    """

    max_rows_per_person = 1
    _takes_missing = True

    def __init__(
        self,
        columns: Sequence[ColumnName],
        epsilon: float | Rho | Mu = 1.0,
        *,
        delta: float = 0.0,
        domain: DomainLike | None = None,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.columns = columns
        self.epsilon = epsilon
        self.delta = delta
        self.domain = domain
        self.ledger = ledger
        self.random_state = random_state

    @property
    def protects_rows(self) -> Any:  # type: ignore[override]
        """The private columns, which `transform` resamples."""
        if hasattr(self, "guarantee_"):
            return list(self.guarantee_.scope)
        return list_names(self.columns) or []

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.transformer_tags.preserves_dtype = []
        return tags

    def _planned_guarantee(self) -> PrivacyGuarantee:
        """Return the guarantee of `fit` according to the parameters."""
        names = tuple(self._check_columns())
        planned = super()._planned_guarantee()
        return replace(planned, relation="replace_values", scope=names)

    def fit(self, X: TableLike, y: ColumnLike | None = None) -> Self:
        """Measure the private columns of a table, and fit a model of them given all other columns.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            The table. In an array, all columns must be declared.
        y : 1-D array-like of shape (n_samples,), optional
            A target, which is public, because a pipeline passes it to later steps
            unchanged. To make it private, keep it in X and name it in `columns`.

        Returns
        -------
        self
            The fitted transformer.

        Raises
        ------
        TypeError, ValueError
            If a parameter is out of range, X lacks a private column or has undeclared values in one, the private
            columns have too many combinations of values, X or y is derived from private columns, or y or a level of
            the row index has the name of a private column.
        BudgetExceeded
            If the ledger does not cover it.
        """
        self._fit(X, y)
        return self

    def fit_transform(self, X: TableLike, y: ColumnLike | None = None) -> Any:
        """Fit to a table, and resample its private columns given all other columns and the target.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            As for `fit`.
        y : 1-D array-like of shape (n_samples,), optional
            A target, which is public. Private values are drawn given the target, too, which `transform` does not have:
            so a later step learns how it depends on them.

        Returns
        -------
        same kind as X
            The rows with new values of the private columns.

        Raises
        ------
        TypeError, ValueError, BudgetExceeded
            As for `fit`.
        """
        records, noisy = self._fit(X, y)
        model = self._model
        if y is not None:
            with limit_blas_threads():
                model = fit_model(noisy, records.public, records.n_rows)
        return self._resample(
            records.table, model, records.public_table, records.public
        )

    def transform(self, X: TableLike) -> Any:
        """Resample the private columns of rows given all other columns.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            The columns of `fit`. Values of private columns are not read and may be missing. Public values that did not
            occur in `fit` are allowed.

        Returns
        -------
        same kind as X
            The rows with new values of the private columns.

        Raises
        ------
        TypeError, ValueError
            If X has other columns than in `fit`.
        """
        check_is_fitted(self)
        table = check_input(self, X, reset=False, min_rows=0)
        check_names(self, table, self._columns)
        check_index_levels(X, self.guarantee_.scope)
        private = self.guarantee_.scope
        names = [name for name in self.domain_.columns if name not in private]
        # The domain may have a target of `fit`, which X does not have.
        names = [name for name in names if name in table.names]
        codes = _encode(table, self.domain_, names)
        return self._resample(table, self._model, select_columns(table, names), codes)

    def _check_columns(self) -> list[Any]:
        """Return the names of the private columns."""
        names = list_names(self.columns)
        if names is None:
            raise TypeError(
                "`columns` must be a list of column names, such as ['age', 'sex'], got "
                f"{type(self.columns).__name__}"
            )
        if not names or len(set(names)) < len(names):
            raise ValueError(
                f"`columns` must name at least one column, each once, got {names}"
            )
        return names

    @restore_on_error
    def _fit(self, X: Any, y: Any) -> tuple[_Records, list[NoisyCounts]]:
        """Read the table, charge the ledger, measure, and fit."""
        promise = self._check_promise()
        delta = check_delta(self.delta)
        records, excluded = self._read(X, y)
        budget = NoiseBudget(promise, delta)
        if excluded:
            reasons = [f"column {name!r} {reason}" for name, reason in excluded.items()]
            _warn(
                "some public columns are returned unchanged, but excluded from the model "
                f"of the private ones: {'; '.join(reasons)}"
            )
        source = self._spend(
            promise,
            records.names,
            f"{budget.noise_name} noise on counts",
            relation="replace_values",
            delta=delta,
            rho=budget.rho,
            losses=budget.losses,
        )
        columns = PrivateColumns(records.combinations, records.public, budget, source)
        with limit_blas_threads():
            noisy = measure_columns(columns, records.layout)
            # `transform` has no target, so its model excludes tables with the target.
            target = set(records.domain.columns) - set(records.table.names)
            indices = {records.public_names.index(name) for name in target}
            known = [table for table in noisy if table.cross.public not in indices]
            self._model = fit_model(known, records.public, records.n_rows)
        self.domain_ = records.domain
        self.measured_columns_ = records.name_crosses(noisy)
        self._columns = records.table.names
        self._calls = CallCounter()
        return records, noisy

    def _read(self, X: Any, y: Any) -> tuple[_Records, dict[Any, str]]:
        """Encode a table; also return the public columns that the model excludes, with reasons."""
        names = self._check_columns()
        table = self._read_table(X)
        unknown = [name for name in names if name not in table.names]
        if unknown:
            raise ValueError(
                f"`columns` must name columns of X, got {unknown}; X has "
                f"{list(table.names)}"
            )
        if len(table.columns[0]) == 0:
            raise ValueError("X must have at least one row, got none.")
        check_index_levels(X, names)
        modelled = table
        if y is not None:
            check_target_name(table, y, names)
            modelled = with_target(table, y)
        if isinstance(self.domain, Domain):
            modelled = _without_derived(modelled, self.domain, names)
        public_values: dict[Any, Any] = {}
        excluded: dict[Any, str] = {}
        # The dtype of an array depends on its private values, too.
        if is_frame(table.native):
            unread = [
                name for name in undeclared(modelled, self.domain) if name not in names
            ]
            # Values that are rare against the noise are counted together, so a list of
            # numbers is finer than bins if the noise is small: distances of pairs with
            # 64 numbers are 0.62 to 1.07 times the distances with 32.
            public_values, excluded = draft_columns(
                select_columns(modelled, unread),
                bins=32,
                max_values=1_000,
                max_numbers=64,
            )
        kept = [name for name in modelled.names if name not in excluded]
        modelled = select_columns(modelled, kept)
        domain = complete_domain(modelled, self.domain, public_values)
        ordered = dict(zip(kept, declared_orders(domain, public_values), strict=True))
        return _Records(table, modelled, domain, names, ordered), excluded

    def _describe_fit(self) -> dict[str, Any]:
        """Return the fitted parts for `skdp.save`."""
        fitted = {name: vars(self)[name] for name in _FITTED if name in vars(self)}
        return fitted | {"tables": self._model.describe()} if fitted else {}

    def _restore_fit(self, fitted: dict[str, Any]) -> None:
        """Check the fitted parts from `skdp.load`, and set them."""
        parts = dict(fitted)
        tables = parts.pop("tables")
        if not parts.keys() <= {*_FITTED}:
            raise ValueError(
                "the parts of the file do not belong to a column synthesizer"
            )
        if list(parts["guarantee_"].scope) != self._check_columns():
            raise ValueError(
                "the guarantee must be for the private columns of the file"
            )
        self._model = ColumnModel.read(tables)
        for name, part in parts.items():
            setattr(self, name, part)
        self._calls = CallCounter()

    def _resample(
        self,
        table: Table,
        model: ColumnModel,
        public: Table,
        codes: Sequence[Codes],
    ) -> Any:
        """Return a table with new values of the private columns, given the public ones and their codes."""
        names = self.guarantee_.scope
        rng = make_generator(self.random_state, "transform", self._calls.advance())
        domain = self.domain_.select(names)
        template = make_template(select_columns(table, names), domain)
        constrained = self._constrain(public.names)

        def draw(indices: NDArray[np.intp]) -> DrawnRows:
            part = [column_codes[indices] for column_codes in codes]
            drawn = draw_evenly(model, part, indices.size, rng)
            return draw_numbers(
                domain, list(np.unravel_index(drawn, domain.sizes)), rng
            )

        def find_broken(
            indices: NDArray[np.intp], rows: DrawnRows
        ) -> NDArray[np.bool_]:
            if not constrained.constraints:
                return np.zeros(indices.size, bool)
            written = make_frame(template, write_rows(template, rows), names)
            columns = (*public.take(indices).columns, *wrap_table(written).columns)
            both = Table(constrained.columns, columns, public.native)
            return ~constrained.check_constraints(both)

        rows, broken = draw_valid(draw, find_broken, len(table.columns[0]))
        if broken.size > 0:
            _warn(
                f"some rows break the constraints {list(constrained.constraints)} after "
                f"{MAX_ROUNDS} draws of their private columns, and keep the first draw"
            )
        columns = dict(zip(table.names, table.columns, strict=True))
        columns |= zip(names, write_rows(template, rows), strict=True)
        X_out = table.rebuild(list(columns.values()), table.names)
        return apply_set_output(self, X_out)

    def _constrain(self, public: Sequence[Any]) -> Domain:
        """Return the domain of the given and the private columns, with the constraints that read a private column."""
        domain = self.domain_.select([*public, *self.guarantee_.scope])
        of_public = domain.select(public).constraints
        constraints = [text for text in domain.constraints if text not in of_public]
        columns = {name: domain[name] for name in domain.columns}
        return Domain(columns, constraints=constraints, derived=domain.derived)


class _Records:
    """The codes of a table, split into private and public columns."""

    def __init__(
        self,
        table: Table,
        modelled: Table,
        domain: Domain,
        names: list[Any],
        ordered: Mapping[Any, bool],
    ) -> None:
        self.table = table
        self.domain = domain
        self.names = names
        self.public_names = [name for name in domain.columns if name not in names]
        private_domain = domain.select(names)
        sizes = private_domain.sizes
        n_combinations = math.prod(sizes)
        if n_combinations > MAX_COMBINATIONS:
            raise ValueError(
                f"`columns` have {n_combinations:,} combinations of values; the maximum "
                f"is {MAX_COMBINATIONS:,}. Name fewer columns, or declare "
                "coarser bins"
            )
        private_table = select_columns(modelled, names)
        check_decodable(make_template(private_table, private_domain), private_domain)
        codes, unlisted = encode_columns(private_table, private_domain, "error")
        if unlisted:
            raise make_undeclared_error(
                unlisted[0], private_domain, "Or replace such values before `fit`"
            )
        self.combinations = np.ravel_multi_index(tuple(codes), sizes)
        self.public_table = select_columns(modelled, self.public_names)
        self.public = _encode(modelled, domain, self.public_names)
        self.layout = ColumnLayout(
            private_sizes=sizes,
            private_ordered=tuple(map(ordered.__getitem__, names)),
            public_sizes=tuple(len(domain[name]) for name in self.public_names),
            public_ordered=tuple(map(ordered.__getitem__, self.public_names)),
        )

    @property
    def n_rows(self) -> int:
        """The number of rows, which is public."""
        return self.combinations.size

    def name_crosses(self, noisy: Sequence[NoisyCounts]) -> list[tuple[Any, ...]]:
        """Name the columns of noisy counts."""
        named = []
        for counts in noisy:
            names = [self.names[index] for index in counts.cross.private]
            if counts.cross.public is not None:
                names.append(self.public_names[counts.cross.public])
            named.append(tuple(names))
        return named


def _encode(table: Table, domain: Domain, names: Sequence[Any]) -> Sequence[Codes]:
    """Encode public columns; values outside their domain get the code after the last."""
    if not names:
        return []
    part = select_columns(table, names)
    codes, _ = encode_columns(part, domain.select(names), "ignore")
    return codes


def _without_derived(table: Table, domain: Domain, private: Sequence[Any]) -> Table:
    """Drop columns derived from public columns; raise for columns derived from private ones."""
    reads_private = derived_from(domain, private)
    derived = [name for name in domain.derived if name in table.names]
    refused = [name for name in derived if name in [*reads_private, *private]]
    if refused:
        raise ValueError(
            f"X must not have columns {refused}, which the domain computes from private "
            "columns. Drop them, and compute them from the result with "
            "domain.add_derived"
        )
    # They add no information to the model, and the domain does not list their values.
    declared = [name for name in domain.columns if name in table.names]
    computed = domain.select(declared).derived
    return select_columns(table, [n for n in table.names if n not in computed])


def _warn(text: str) -> None:
    level = find_stack_level()
    warn(text, UserWarning, about="guide/protected_columns", stacklevel=level)
