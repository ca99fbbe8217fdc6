"""Synthesizer that resamples the private columns of public rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import Any, Self

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from skdp._arrays import Codes, ColumnLike, ColumnName, Indices, Mask, TableLike
from skdp.base import (
    CallCounter,
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
from skdp.central.statistics import select_columns
from skdp.domain import Domain, DomainLike, Interval, draft_columns
from skdp.pages import warn
from skdp.privacy import Mu, PrivacyGuarantee, PrivacyLedger, Rho, check_delta
from skdp.readers import load_large
from skdp.synthesis.answers._file import describe_shapes, read_shapes
from skdp.synthesis.answers._kept import (
    Kept,
    measure_columns_kept,
    state_kept,
    warn_flattened,
)
from skdp.synthesis.answers._synthetic_rows import (
    MAX_ROUNDS,
    DrawnRows,
    draw_numbers,
    draw_valid,
    make_table,
    write_rows,
)
from skdp.synthesis.measure import NoiseSource, measure_columns, plan_release
from skdp.synthesis.model import ColumnModel, NoisyCounts, draw_balanced, fit_columns
from skdp.synthesis.private._column_records import (
    ColumnRecords,
    drop_derived,
    encode_public,
)
from skdp.synthesis.private._number_cells import with_edges
from skdp.synthesis.private._table import (
    check_row_constraints,
    complete_domain,
    find_open,
    find_ordered,
    list_undeclared,
    make_generator,
    make_template,
    widen_found,
    with_target,
)
from skdp.tables import Table, is_frame, wrap_table

# Fitted attributes that `skdp.save` writes, without the model.
_SAVED_ATTRIBUTES = (
    "domain_",
    "guarantee_",
    "measured_columns_",
    "n_features_in_",
    "feature_names_in_",
    "_columns",
)


class DPColumnSynthesizer(OneToOneFeatureMixin, TransformerMixin, CentralEstimator):
    """Resample private columns of a table given all other columns, with differential privacy.

    Only the values of the named columns are private. Each row keeps the values of its other columns, and its private
    values are drawn from a model of noisy counts.

    Parameters
    ----------
    columns : list of column names
        Private columns. All other columns, a target `y` and the number of rows are public.
    epsilon : float, Rho or Mu, default=1.0
        Privacy loss for the values of all private columns of one record together, finite and > 0.
    delta : float, default=0.0
        Failure probability, in [0, 1). With 0 the noise is discrete Laplace; otherwise it is Gaussian, which is more
        accurate for many columns.
    domain : Domain, or mapping of column name to values or Interval
        Values of each private column. An open end of its `Interval`, both ends of a column with a dtype of numbers that
        `domain` omits, and with `delta` the values of a column of text are found with a part of the budget. Public
        columns may also be declared, for example by an `Interval` that cuts numbers into bins; otherwise their values
        are read from the data.
    ledger : PrivacyLedger, optional
        Ledger that `fit` charges before it draws noise. It must be a ledger for the private columns
        (``relation="replace_values", columns=[...]``).
    random_state : None or int, default=None
        None uses secure randomness. Pass an int for reproducible experiments only: the release is then not private.

    Attributes
    ----------
    domain_ : Domain
        Values of each column in the model, between declared or found limits. A target is the last column.
    guarantee_ : PrivacyGuarantee
        Privacy guarantee of `fit`.
    measured_columns_ : list of tuple
        Names of the private columns and of the pairs of columns whose counts were measured with noise.
    n_features_in_ : int
        Number of columns seen during `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of columns seen during `fit`. Defined only when X has column names that are all strings.

    See Also
    --------
    DPMarginalSynthesizer : Synthesize tables whose whole records are private.
    RandomizedResponseEncoder : Privatize columns in the local model, without a trusted curator.

    Notes
    -----
    **Privacy.** Central model: the curator of the table is trusted. Replacing the values of the private columns in one
    record changes the distribution of all fitted attributes by at most ``(epsilon, delta)``. All other
    columns, a target `y`, the number of rows, and the person of each row are public. The guarantee does not cover
    information about private columns that public columns contain: a relationship "Husband" reveals the sex. Make such
    columns private, or drop them.

    `fit` measures counts of each private column, of fine cells of its numbers, and of pairs with a private column that
    noisy scores select. If an `Interval` has no declared bins, they are found from the noisy counts of cells. Replacing
    a value changes a table of counts by 2 in L1 norm and by sqrt(2) in L2 norm, and a score by 2. Numbers within a bin
    have the distribution of its cells. The counts of public values are exact. Therefore, only one count is measured for
    a column with two private values, and it changes by 1; public values without records have no noise. The model is a
    logistic regression of the private columns on the public columns, and is computed from the noisy counts ([1]_).
    `transform` does not read private columns. A replaced value is one row less and one row more, so limits of open ends
    and values of text are found with noise for two rows.

    An undeclared value of a private column raises an error, which reveals that such a value occurs. A domain from
    `discover_domain` lacks rare values: replace them by a declared value ``other`` before `fit`, as in
    ``X["city"].where(X["city"].isin(domain["city"].values), other)``, and clip numbers to the bounds of their
    `Interval`.

    If a row violates a constraint of `domain` on a private column, its private values are resampled up to 200 times.
    If no draw satisfies the constraint, the row keeps the first draw, with a warning. A column of X that the domain
    derives from private columns raises an error, because it would reveal private values. Columns that are derived from
    public columns are unchanged.

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
    epsilon = 1, delta = 0.000001, rho = 0.0280..., central model, replacing the values of age, sex in one record, no
    other column is protected, NOT SECURE: ...
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
        """Names of the columns that `transform` resamples, which are private."""
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
        """Measure the private columns of a table, and fit a model of them given the public columns.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            Table with private and public columns. If it is an array, all columns must be declared.
        y : array-like of shape (n_samples,), optional
            Target. It is public, because a pipeline passes it to later steps unchanged. To make it private, keep it in
            X and name it in `columns`.

        Returns
        -------
        self
            The fitted synthesizer.

        Raises
        ------
        TypeError, ValueError
            If a parameter is out of range, X lacks a private column or has undeclared values in one, the private
            columns have too many combinations of values, X or y is derived from private columns, or y or a level of
            the row index has the name of a private column.
        BudgetExceeded
            If the ledger does not cover the release.

        Warns
        -----
        UserWarning
            If the model keeps less than 0.9 of the rank correlation of a measured pair by noisy counts.
        """
        _, _, kept = self._fit(X, y)
        warn_flattened(kept, "guide/protected_columns")
        return self

    def fit_transform(self, X: TableLike, y: ColumnLike | None = None) -> Any:
        """Fit to a table, and resample its private columns given the public columns and the target.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            As for `fit`.
        y : array-like of shape (n_samples,), optional
            Public target. Unlike in `transform`, private values are drawn given the target, so that later steps can
            learn its dependence on them.

        Returns
        -------
        same type as X
            Rows with new values of the private columns.

        Raises
        ------
        TypeError, ValueError, BudgetExceeded
            As for `fit`.
        """
        records, noisy, kept = self._fit(X, y)
        model = self._model
        if y is not None:
            with limit_blas_threads():
                model = fit_columns(
                    noisy, records.public, records.n_rows, records.private_ordered
                )
            kept = measure_columns_kept(
                model, noisy, records.private_names, records.public_names
            )
        warn_flattened(kept, "guide/protected_columns")
        return self._resample(
            records.table, model, records.public_table, records.public
        )

    def transform(self, X: TableLike) -> Any:
        """Resample the private columns of rows given the public columns.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            Rows with the columns of `fit`. Values of private columns are not read and may be missing. Public values
            that did not occur in `fit` are allowed.

        Returns
        -------
        same type as X
            Rows with new values of the private columns.

        Raises
        ------
        TypeError, ValueError
            If the columns of X differ from the columns of `fit`.
        """
        check_is_fitted(self)
        table = check_input(self, X, reset=False, min_rows=0)
        check_names(self, table, self._columns)
        check_index_levels(X, self.guarantee_.scope)
        private = self.guarantee_.scope
        names = [name for name in self.domain_.columns if name not in private]
        # The domain may have a target of `fit`, which X does not have.
        names = [name for name in names if name in table.names]
        codes = encode_public(table, self.domain_, names)
        return self._resample(table, self._model, select_columns(table, names), codes)

    def _check_columns(self) -> list[Any]:
        """Check the parameter `columns`, and return it as a list."""
        names = list_names(self.columns)
        if names is None:
            raise TypeError(
                "`columns` must be a list of column names, such as ['age', 'sex'], got "
                f"{type(self.columns).__name__}."
            )
        if not names or any(names.count(name) > 1 for name in names):
            raise ValueError(
                f"`columns` must name at least one column, and none twice, got {names}."
            )
        return names

    @restore_on_error
    def _fit(
        self, X: TableLike, y: ColumnLike | None
    ) -> tuple[ColumnRecords, list[NoisyCounts], Kept]:
        """Read, charge, measure, and fit; return the table, the noisy counts, and the kept parts of correlations."""
        person_budget, delta = self._check_budget(), check_delta(self.delta)
        records, excluded = self._read(X, y)
        # A replaced value is one row less and one row more.
        release = plan_release(
            person_budget,
            delta,
            records.found,
            records.private_names,
            max_values=records.max_values,
            n_changed=2,
        )
        if excluded:
            reasons = [f"column {name!r} {reason}" for name, reason in excluded.items()]
            _warn(
                "Some public columns are excluded from the model of the private "
                f"columns: {'; '.join(reasons)}. Declare them in `domain` to include "
                "them"
            )
        exact = release.count(records.rows)
        source = release.charge(
            self._charge_release,
            records.private_names,
            f"{release.noise_name} noise on counts",
            relation="replace_values",
        )
        if records.found:
            values = release.find(records.rows, exact, source, self._state_limits)
            records = records.with_values(values)
        with limit_blas_threads():
            noise = NoiseSource(release.rest, source)
            noisy, self._shapes = measure_columns(records, noise)
            # `transform` has no target, so its model excludes tables with the target.
            without_target = []
            for counts in noisy:
                index = counts.cross.public
                if index is None or records.public_names[index] in records.table.names:
                    without_target.append(counts)
            self._model = fit_columns(
                without_target,
                records.public,
                records.n_rows,
                records.private_ordered,
            )
        kept = measure_columns_kept(
            self._model, without_target, records.private_names, records.public_names
        )
        self.guarantee_ = state_kept(self.guarantee_, kept)
        self.domain_ = records.domain
        self.measured_columns_ = []
        for counts in noisy:
            names = [records.private_names[index] for index in counts.cross.private]
            if counts.cross.public is not None:
                names.append(records.public_names[counts.cross.public])
            self.measured_columns_.append(tuple(names))
        self._columns = records.table.names
        self._calls = CallCounter()
        return records, noisy, kept

    def _read(
        self, X: TableLike, y: ColumnLike | None
    ) -> tuple[ColumnRecords, dict[Any, str]]:
        """Encode a table; also return the public columns that are excluded from the model, with reasons.

        `y` is the target, a further public column, or None.
        """
        private = self._check_columns()
        table = self._read_table(load_large(X))
        unknown = [name for name in private if name not in table.names]
        if unknown:
            raise ValueError(
                f"`columns` must name columns of X, {list(table.names)}, got {unknown}."
            )
        if len(table.columns[0]) == 0:
            raise ValueError("X must have at least one row, got none.")
        check_index_levels(X, private)
        # The columns of the model: X with the target, without derived columns.
        modeled = table
        if y is not None:
            check_target_name(table, y, private)
            modeled = with_target(table, y)
        if isinstance(self.domain, Domain):
            modeled = drop_derived(modeled, self.domain, private)
        public_values: dict[Any, Any] = {}
        excluded: dict[Any, str] = {}
        # The values of public columns may be read from the rows. The columns of an array
        # must be declared, because they share a dtype, which depends on private values.
        if is_frame(table.native):
            undeclared = list_undeclared(modeled, self.domain)
            undeclared_public = [name for name in undeclared if name not in private]
            # Columns of at most 64 different numbers have no bins, because rare values
            # are grouped later anyway. Compared with 32, distances of pairs are 0.62 to 1.07
            # times as large.
            public_values, excluded = draft_columns(
                select_columns(modeled, undeclared_public),
                bins=32,
                max_values=1_000,
                max_numbers=64,
            )
            columns = dict(zip(modeled.names, modeled.columns, strict=True))
            for name, values in public_values.items():
                public_values[name] = _cut_equally(values, columns[name])
        included = [name for name in modeled.names if name not in excluded]
        modeled = select_columns(modeled, included)
        found = find_open(select_columns(modeled, private), self.domain)
        domain = complete_domain(
            modeled, self.domain, public_values | widen_found(found)
        )
        check_row_constraints(domain)
        is_ordered = find_ordered(domain, public_values)
        ordered = dict(zip(included, is_ordered, strict=True))
        return ColumnRecords(table, modeled, domain, private, ordered, found), excluded

    def _describe_fit(self) -> dict[str, Any]:
        """Return the fitted state for `skdp.save`."""
        fitted = {}
        for name in _SAVED_ATTRIBUTES:
            if name in vars(self):
                fitted[name] = vars(self)[name]
        if not fitted:
            return {}
        return fitted | {
            "tables": self._model.describe(),
            "shapes": describe_shapes(self.domain_.select(self.columns), self._shapes),
        }

    def _restore_fit(self, fitted: dict[str, Any]) -> None:
        """Check the parts from `skdp.load`, the tables of the model and fitted attributes by name, and set them."""
        parts = dict(fitted)
        tables = parts.pop("tables")
        shapes = parts.pop("shapes")
        if not parts.keys() <= {*_SAVED_ATTRIBUTES}:
            raise ValueError(
                "The fitted attributes must be the attributes of a DPColumnSynthesizer."
            )
        if list(parts["guarantee_"].scope) != self._check_columns():
            raise ValueError("The guarantee must be for the private columns.")
        private = parts["domain_"].select(self._check_columns())
        self._model = ColumnModel.read(tables)
        self._shapes = read_shapes(private, shapes)
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
        """Replace the private columns of a table by draws of a model, given the public columns and their codes.

        The private values of rows that violate a constraint of the domain are resampled.
        """
        names = self.guarantee_.scope
        rng = make_generator(self.random_state, "transform", self._calls.advance())
        domain = self.domain_.select(names)
        template = make_template(select_columns(table, names), domain)
        constrained = self._constrain(public.names)

        def draw(indices: Indices) -> DrawnRows:
            """Draw the private columns of some rows of the table."""
            public_codes = [column_codes[indices] for column_codes in codes]
            combinations = draw_balanced(model, public_codes, indices.size, rng)
            private_codes = np.unravel_index(combinations, domain.sizes)
            return draw_numbers(domain, list(private_codes), rng, self._shapes)

        def find_invalid(indices: Indices, rows: DrawnRows) -> Mask:
            """Return True for each of the rows, drawn for these rows of the table, that violates a constraint."""
            if not constrained.constraints:
                return np.zeros(indices.size, bool)
            drawn = dict(zip(names, write_rows(template, rows), strict=True))
            private = wrap_table(make_table(template, drawn))
            columns = (*public.take(indices).columns, *private.columns)
            whole_rows = Table(constrained.columns, columns, public.native)
            return ~constrained.check_constraints(whole_rows)

        rows, invalid = draw_valid(draw, find_invalid, len(table.columns[0]))
        if invalid.size > 0:
            _warn(
                f"Some rows violate the constraints {list(constrained.constraints)} "
                f"after {MAX_ROUNDS} draws of their private columns, and have the "
                "first draw. Drop these rows, or remove the constraints from `domain`"
            )
        columns = dict(zip(table.names, table.columns, strict=True))
        columns |= zip(names, write_rows(template, rows), strict=True)
        X_out = table.rebuild(list(columns.values()), table.names)
        return apply_set_output(self, X_out)

    def _constrain(self, public: Sequence[Any]) -> Domain:
        """Return the domain of some public and all private columns, with the constraints on private columns."""
        domain = self.domain_.select([*public, *self.guarantee_.scope])
        public_constraints = domain.select(public).constraints
        constraints = []
        for constraint in domain._constraints:
            if constraint.text not in public_constraints:
                constraints.append(constraint)
        return Domain(dict(domain), constraints=constraints, derived=domain.derived)


def _warn(text: str) -> None:
    """Warn the caller of skdp, with the page of the guide on private columns."""
    level = find_stack_level()
    warn(text, UserWarning, about="guide/protected_columns", stacklevel=level)


def _cut_equally(values: Any, column: ColumnLike) -> Any:
    """Cut the numbers of a public column into as many bins with about equal counts, and tails, if they have bins."""
    if not isinstance(values, Interval) or isinstance(values.edges[0], date):
        return values
    numbers = values.read(column)
    ranks = np.linspace(0, 1, len(values.edges))[1:-1]
    # Most of the variance of skewed numbers is in the tails.
    tails = ranks[0] / 2.0 ** np.arange(1, 6)
    ranks = np.concatenate([tails, ranks, 1 - tails])
    cuts = np.nanquantile(numbers, ranks, method="inverted_cdf")
    ends = [values.edges[0], values.edges[-1]]
    return with_edges(values, np.unique([*ends, *cuts]))
