"""Synthetic tables with differential privacy, from a graphical model of noisy marginals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, BinaryIO, Self

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from skdp._arrays import ColumnLike, ColumnName, PathType, TableLike
from skdp.base import (
    CallCounter,
    apply_set_output,
    check_input,
    check_names,
    declares_missing,
    restore_on_error,
    warn_of_released_size,
)
from skdp.central import CentralEstimator
from skdp.central.statistics import (
    select_columns,
)
from skdp.domain import Domain, DomainLike
from skdp.persistence import load, save
from skdp.privacy import (
    Mu,
    PrivacyBudget,
    PrivacyGuarantee,
    PrivacyLedger,
    Rho,
    check_delta,
)
from skdp.randomness import check_size
from skdp.synthesis.answers._counts import CountsMixin, plan_conditions
from skdp.synthesis.answers._file import describe_fitted, read_fitted
from skdp.synthesis.answers._fitted_table import FittedTable
from skdp.synthesis.answers._hidden import warn_hidden
from skdp.synthesis.answers._kept import Kept, measure_kept, state_kept, warn_flattened
from skdp.synthesis.answers._synthetic_rows import check_n_samples, make_table
from skdp.synthesis.measure import (
    MarginalPlan,
    NoiseSource,
    make_plan,
    measure_table,
    plan_release,
    warn_excluded,
)
from skdp.synthesis.private._records import Policy
from skdp.synthesis.private._table import make_generator, make_template, open_table
from skdp.tables import Table


def check_person_budget(
    synthesizer: CentralEstimator, *, by_person: bool
) -> PrivacyBudget:
    """Check the parameters that need no table; return the budget, with the number of rows per person."""
    person_budget: PrivacyBudget = synthesizer._check_budget()
    n_rows = check_size(
        synthesizer.max_rows_per_person, name="max_rows_per_person", min_val=1
    )
    return replace(person_budget, rows_per_person=n_rows, by_person=by_person)


def get_fitted(synthesizer: DPMarginalSynthesizer) -> FittedTable:
    """Return the result of a fit, which other files read in place of attributes."""
    check_is_fitted(synthesizer)
    return synthesizer._fitted


def make_fitted(
    fitted: FittedTable, guarantee: PrivacyGuarantee, **parameters: Any
) -> DPMarginalSynthesizer:
    """Make a synthesizer with the result of a fit."""
    synthesizer = DPMarginalSynthesizer(domain=fitted.domain, **parameters)
    synthesizer._set_fit(fitted, guarantee)
    synthesizer.n_features_in_ = len(fitted.features)
    return synthesizer


def draw_sample(
    synthesizer: DPMarginalSynthesizer,
    n_samples: int | None,
    conditions: Mapping[Any, Any] | None = None,
) -> dict[Any, Any]:
    """Draw rows of a fitted synthesizer as columns by name, with the random source of `sample`."""
    check_n_samples(n_samples)
    fitted, given = get_fitted(synthesizer), None
    if conditions is not None:
        given = plan_conditions(fitted, conditions)
        n_samples = round(given.count) if n_samples is None else n_samples
    n, rng = synthesizer._start_sample(n_samples)
    return fitted.draw_columns(n, rng, given=given)


class DPMarginalSynthesizer(
    CountsMixin, OneToOneFeatureMixin, TransformerMixin, CentralEstimator
):
    """Synthesize tables from noisy marginals, with differential privacy.

    `fit` measures marginals (tables of counts of a few columns) with noise and fits a graphical model to them.
    `sample` draws rows from the model.

    Parameters
    ----------
    epsilon : float, Rho or Mu, default=1.0
        Privacy loss of `fit`, finite and > 0. `skdp.privacy.Rho` and `skdp.privacy.Mu` include a delta, and use
        Gaussian noise.
    delta : float, default=0.0
        Failure probability, in [0, 1). It should be smaller than one over the number of records. With 0 the noise is
        discrete Laplace; otherwise it is Gaussian, which is more accurate for many marginals.
    domain : Domain, mapping of column name to values, list of values per column, or Interval, optional
        Public values of each column: lists of values (None declares missing), or an `Interval` of numbers or dates.
        Limits of columns with a dtype of numbers that it omits are found with a part of the budget, and numbers beyond
        them are clipped; a dtype of integers declares whole numbers. A `y` of integers must be declared. With a `delta`
        and a number as `epsilon`, values of columns of text that it omits are found, too: values of many rows, and
        ``"(other)"`` for all others.
        Bins of an Interval that are not declared are found: they have about equal noisy counts, and a value with more
        than a fifth of the records, such as 0, has its own. Frequent values are drawn exactly if the budget suffices.
        Numbers within a bin are drawn by noisy counts of smaller cells, and have the `decimals` of the Interval.
        `discover_domain` finds a domain with differential privacy, and ``skdp draft-domain`` writes a file to edit. A
        polars Enum and ordered categories of pandas need no declaration. Bins, ordered categories and
        ``skdp.domain.Categories(values, ordered=True)`` are ordered; other lists are not. All rows satisfy the
        `constraints` of the domain. Its `derived` columns are computed and not modeled.
    marginals : {"auto", "independent", "full"} or list of tuples, default="auto"
        Marginals to measure. ``"auto"`` measures all single columns and selects pairs by noisy scores ([1]_). If the
        budget suffices, it also selects marginals of up to five columns that a first model estimates badly.
        ``"independent"`` measures the single columns, and ``"full"`` measures all columns together. Listed marginals
        are measured with the same noise.
    workload : list of tuple of column names, optional
        Marginals that should be accurate, from which ``"auto"`` selects; by default all
        pairs. A warning lists the marginals that are not measured, with the reason.
    target : column name, optional
        Column that downstream models predict; ``"target"`` for a y without a name. Pairs with it get a larger fraction
        of the budget. If delta > 0, one table of up to 16 columns by groups of their values is also measured if it
        improves predictions of the target.
    max_cells : int, default=100_000
        Largest number of cells of a clique of the model. Time and memory are proportional to it. ``"auto"`` does not
        select marginals with more cells.
    handle_unknown : {"error", "clip", "ignore"} or mapping of column name to value, default="error"
        How to handle a value outside the domain, such as a number with more decimals than the `Interval` declares.
        ``"error"`` raises `ValueError`, which reveals that such a value occurs. ``"clip"`` moves numbers to the first
        or last bin, and to the nearest number with the declared decimals, of two to the even one. ``"ignore"`` excludes
        the record. A mapping contains the declared value that replaces such values, or ``"clip"``, for some columns; in
        all other columns they raise an error.
    max_rows_per_person : int, default=1
        Largest number of rows of one person, > 0. Noise is proportional to it. If `person` is given, `fit` excludes
        further rows; otherwise the number is not checked.
    ledger : PrivacyLedger, optional
        Ledger that `fit` charges before it draws noise.
    random_state : None or int, default=None
        None uses secure randomness. Pass an int for reproducible experiments only: the release is then not private.

    Attributes
    ----------
    domain_ : Domain
        Values of each modeled column, or the bins of the model, between declared or found limits. A target is the last
        column.
    guarantee_ : PrivacyGuarantee
        Privacy guarantee of `fit`.
    selected_cliques_ : list of tuple
        Names of the columns of each measured marginal.
    noise_scale_ : dict of tuple to float
        Standard deviation of the noise of each count of a marginal, by names of columns.
    marginals_ : list of Marginal
        Noisy counts of the measured marginals.
    marginal_quality_ : DataFrame
        Quality of each measured marginal: its number of cells, the standard error of a count, the ``noise`` and the
        ``misfit`` of the model as total variation distances, the ``residual`` of the fit, and whether it is ``usable``
        (noise of at most 0.1, which hides no rank correlation of two columns with found bins). The residual is the
        distance from the optimum in standard errors, as a root mean square: if it is above 1, the fit has not
        converged, and the noise does not explain the misfit. ``kept`` is the rank correlation of two ordered columns by
        the model, relative to their noisy counts: nan if its error exceeds 0.1.
    pair_scores_ : DataFrame
        Noisy scores of pairs (L1 distance from independent columns, in records), their standard errors, and whether the
        pair was measured. ``attrs["n_searched"]`` is the number of marginals of 3, 4 and 5 columns among which
        interactions were searched: 0 if the noise is too large, if there are too many marginals, or if a table outside
        of memory has more than 2**22 combinations of values. It is empty after `load`.
    model_ : GraphicalModel
        Distribution of the rows.
    n_rows_ : float
        Estimated number of records.
    n_rows_std_error_ : float
        Standard error of `n_rows_`.
    n_iter_ : int
        Number of sweeps over all marginals in the last fit of the model.
    n_features_in_ : int
        Number of columns seen during `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of columns seen during `fit`. Defined only when X has column names that are all strings.

    See Also
    --------
    DPColumnSynthesizer : Resample private columns of rows whose other columns are public.
    SyntheticResampler : Train on synthetic rows and predict real rows, in a pipeline of imbalanced-learn.
    DPHistogram : Noisy counts of a single marginal, with intervals.

    Notes
    -----
    **Privacy.** Central model: the curator of the table is trusted. Adding or removing a person with at most
    `max_rows_per_person` rows changes the distribution of the release by at most ``(epsilon, delta)``; for replacing a
    person see ``guarantee_.to("replace")``. The number of records is private, and every cell of the declared domain
    gets noise. A person with k rows changes the counts of a marginal by at most k, and each score by at most k. With
    delta = 0, a marginal with the fraction f of epsilon has discrete Laplace noise of scale ``k / (f * epsilon)``.
    Otherwise it has Gaussian noise of variance ``k**2 / (f * mu**2)``, drawn exactly and rounded, where mu is the
    largest number for which mu-Gaussian privacy implies (epsilon, delta) ([2]_). With ``marginals="auto"``,
    interactions are chosen by permute-and-flip if delta = 0, and otherwise by the exponential mechanism, as is a table
    with the target, by the number of records whose target it predicts and a first model does not (of two targets, the
    more frequent one counts less). The fractions of counts, scores and choices add up to at most 1. The model, samples
    and all other methods are post-processing, without privacy loss.

    If `domain` omits j columns of text of d columns, j / (5 d) of the budget is spent on noisy counts of their values,
    which are found if the counts reach a threshold; it has half of delta. If it omits k columns of numbers, k / (3 d)
    of the rest is spent on the search of their limits by private choices and noisy counts, and all other fractions are
    of the rest.

    Of d columns, each with declared bins of several values spends 3/(20 d) of the budget on counts of fine cells. If k
    columns have fine cells, each whose bins are found spends 1/(5 k) of the budget on them. The fine cells depend on
    the declared `Interval`. Cells with many records are divided by further noisy counts, for at most 3/(40 k) of the
    budget, until a frequent number has its own cell. Numbers are drawn in proportion to these counts where the counts
    exceed their noise, from fitted tails beyond them, and uniformly elsewhere.

    `transform` returns as many rows as X has, as scikit-learn requires. If X is the table of `fit`, this reveals the
    number of records, and the rows have the guarantee ``guarantee_.to("replace")``. With `person`, no guarantee holds
    for the result of `transform`, because people may have different numbers of rows. ``sample()`` returns the noisy
    number of rows, under `guarantee_`.

    Not covered: an error reveals that an undeclared value occurs, and synthetic rows have the library of X. Dtypes
    are determined by the declared values and the library, except that a library may read a column of a file as text if
    one record has no number. Names and dtypes of columns that `domain` omits are treated as public.

    Synthetic rows preserve the dependence of columns within measured marginals only. Use `synthetic_inference` and
    `marginal` for standard errors.

    References
    ----------
    .. [1] R. McKenna, B. Mullins, D. Sheldon, G. Miklau (2022). AIM: an adaptive and iterative mechanism for
       differentially private synthetic data. PVLDB 15(11).
    .. [2] J. Dong, A. Roth, W. Su (2022). Gaussian differential privacy. JRSS B 84(1).

    Examples
    --------
    >>> from skdp import DPMarginalSynthesizer
    >>> from skdp.datasets import load_adult
    >>> adult = load_adult()
    >>> people = adult.frame[["age", "sex", "income"]]
    >>> domain = adult.domain.select(people.columns)
    >>> synthesizer = DPMarginalSynthesizer(epsilon=1.0, delta=1e-9, domain=domain, random_state=0).fit(people)
    >>> synthesizer.sample(3)
       age     sex income
    0   50  Female  <=50K
    1   29    Male  <=50K
    2   37    Male  <=50K
    >>> synthesizer.selected_cliques_[-2:]
    [('age', 'sex'), ('age', 'sex', 'income')]
    >>> synthesizer.marginal(["sex", "income"]).round()
          sex income    count  std_error    lower    upper  supported
    0  Female  <=50K   9588.0       22.0   9577.0   9659.0       True
    1  Female   >50K   1186.0       21.0   1169.0   1251.0       True
    2    Male  <=50K  15111.0       21.0  15069.0  15151.0       True
    3    Male   >50K   6660.0       21.0   6620.0   6702.0       True
    """

    protects_rows = True
    """True because the guarantee covers the rows that `transform` returns."""

    def __init__(
        self,
        epsilon: float | Rho | Mu = 1.0,
        *,
        delta: float = 0.0,
        domain: DomainLike | None = None,
        marginals: str | Sequence[Sequence[ColumnName]] = "auto",
        workload: Sequence[Sequence[ColumnName]] | None = None,
        target: ColumnName | None = None,
        max_cells: int = 100_000,
        handle_unknown: Policy | Mapping[Any, Any] = "error",
        max_rows_per_person: int = 1,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.domain = domain
        self.marginals = marginals
        self.workload = workload
        self.target = target
        self.max_cells = max_cells
        self.handle_unknown = handle_unknown
        self.max_rows_per_person = max_rows_per_person
        self.ledger = ledger
        self.random_state = random_state

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        is_declared = isinstance(self.domain, Domain) and declares_missing(self.domain)
        is_mapping = not isinstance(self.handle_unknown, str)
        is_handled = is_mapping or self.handle_unknown == "ignore"
        tags.input_tags.allow_nan = is_declared or is_handled
        tags.transformer_tags.preserves_dtype = []
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def fit(
        self,
        X: TableLike,
        y: ColumnLike | None = None,
        *,
        person: ColumnLike | ColumnName | None = None,
    ) -> Self:
        """Measure marginals of a table, and fit a model to them.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            Private table of declared values. Large tables that `skdp.engines` supports, such as a Polars LazyFrame, are
            also accepted; only counts of tables above 128 MB are kept in memory.
        y : array-like of shape (n_samples,), optional
            Target, which is modeled as a further column. `domain` declares its values under its name, or as
            ``"target"`` if it has no name or the name of a column of X. The target of a large table is one of its
            columns.
        person : array-like of shape (n_samples,) or column name, optional
            Person of each row: an array, or the name of a column of X, which is then not modeled. At most
            `max_rows_per_person` rows of each person are used, chosen at random, and the guarantee covers all rows of
            one person. A large table requires the name of a column; the rows with the smallest hashes are used.

        Returns
        -------
        self
            The fitted synthesizer.

        Raises
        ------
        TypeError, ValueError
            If a parameter is out of range, a column is neither declared nor found, the model would have too many cells,
            X is 1-D or sparse, X has undeclared values that are not handled, or y or `person` is a series with the row
            labels of X in another order.
        BudgetExceeded
            If the ledger does not cover the release.

        Warns
        -----
        UserWarning
            If marginals of the workload are not measured, the model keeps less than 0.9 of the rank correlation of a
            measured pair, noise hides the correlation of two columns with found bins, limits that are found may be far
            from the numbers, or no value of a column of text has enough rows.
        """
        plan, kept = self._fit(X, y, person)
        # A filter may turn warnings into errors, so they come after the fit is complete.
        measured = [marginal.clique for marginal in self.marginals_]
        warn_excluded(self.domain_, plan.list_unchosen(measured))
        warn_hidden(self._fitted)
        warn_flattened(kept, "guide/synthetic_tables#accuracy", "`max_cells`")
        warn_of_released_size(self.guarantee_, self.n_rows_)
        return self

    @restore_on_error
    def _fit(
        self,
        X: TableLike,
        y: ColumnLike | None,
        person: ColumnLike | ColumnName | None,
    ) -> tuple[MarginalPlan, Kept]:
        """Read, plan, charge, measure, and post-process; return the plan, and the kept parts of correlations."""
        # Read: no value yet.
        person_budget = check_person_budget(self, by_person=person is not None)
        table = open_table(
            X,
            y,
            person,
            self.domain,
            read=self._read_table,
            max_rows=person_budget.rows_per_person,
            rng=make_generator(self.random_state, "contribution"),
        )
        # Plan: errors of parameters and of undeclared values are raised here.
        plan = make_plan(
            table.domain, self.marginals, self.workload, self.target, self.max_cells
        )
        release = plan_release(
            person_budget,
            check_delta(self.delta),
            table.found,
            table.domain.columns,
            max_values=plan.limit_values(table.texts),
            rows=person_budget.rows_per_person,
        )
        warn_excluded(table.domain, plan.list_excluded())
        records = table.read(self.handle_unknown, uses_pairs=plan.cliques is None)
        # Charge.
        mechanism = release.name_marginals(selects=plan.cliques is None)
        n_equal = 0 if table.cells else len(plan.cliques or ())
        exact = release.count(table.rows)
        source = release.charge(self._charge_release, table.scope, mechanism, n_equal)
        # Measure.
        if table.found:
            values = release.find(table.rows, exact, source, self._state_limits)
            table = table.with_values(values)
            records = table.read(self.handle_unknown, uses_pairs=plan.cliques is None)
        found_plan = plan.with_domain(table.domain)
        noise = NoiseSource(release.rest, source)
        counts, domain = measure_table(table, records, found_plan, noise)
        # Post-process: the records are not used from here on.
        fitted = FittedTable.of(
            table.features, table.table, domain, counts, table.domain
        )
        kept = measure_kept(fitted)
        self._set_fit(fitted, state_kept(self.guarantee_, kept))
        return plan, kept

    def _set_fit(self, fitted: FittedTable, guarantee: PrivacyGuarantee) -> None:
        """Set the fitted attributes, after `fit` or from a file."""
        self._fitted = fitted
        self._calls = CallCounter()
        self.guarantee_ = guarantee
        self.domain_ = fitted.domain
        self.marginals_ = fitted.counts.marginals
        self.model_ = fitted.counts.model
        self.n_iter_ = fitted.counts.n_steps
        self.n_rows_, self.n_rows_std_error_ = fitted.n_rows

    def sample(
        self,
        n_samples: int | None = None,
        *,
        conditions: Mapping[Any, Any] | None = None,
    ) -> Any:
        """Draw synthetic rows.

        Parameters
        ----------
        n_samples : int, optional
            Number of rows, at least 0; by default the estimated number of records, with `conditions` of those that
            fulfill them.
        conditions : mapping of column name to (low, high), value or list of values, optional
            Conditions that all rows fulfill, as for `count`: a tuple is a half-open range. Rows are drawn from the
            model given the conditions.

        Returns
        -------
        same type as X of `fit`
            Synthetic rows, which differ from call to call. A target is the last column.

        Raises
        ------
        TypeError, ValueError
            If the number is not an integer or is out of range, a column or a value of a condition is not declared, or
            no row of the model fulfills all conditions.

        Warnings
        --------
        Standard errors and intervals that are computed from these rows as if they were records are too small, because
        they ignore the noise and the dependence that was not measured. Use `skdp.synthetic_inference`, `marginal` or
        `count_estimate`.

        See Also
        --------
        sample_batches : Draw more rows than fit into memory.
        skdp.synthetic_inference : Estimate statistics with valid confidence intervals.
        """
        rows = draw_sample(self, n_samples, conditions)
        return make_table(get_fitted(self).template, rows)

    def _start_sample(self, n_samples: int | None) -> tuple[int, np.random.Generator]:
        """Return the number of rows to draw, and a generator for this call."""
        check_is_fitted(self)
        check_n_samples(n_samples)
        n = round(self.n_rows_) if n_samples is None else int(n_samples)
        return n, make_generator(self.random_state, "sample", self._calls.advance())

    def sample_batches(
        self, n_samples: int | None = None, *, batch_size: int = 1 << 18
    ) -> Iterator[Any]:
        """Draw synthetic rows in batches, with one batch in memory at a time.

        Parameters
        ----------
        n_samples : int, optional
            Total number of rows, at least 0; by default the estimated number of records.
        batch_size : int, default=262_144
            Number of rows of a batch, at least 1. The last batch may have fewer rows.

        Returns
        -------
        iterator of the same type as X of `fit`
            Batches of rows. A single batch has the same rows as the result of `sample`.

        Raises
        ------
        NotFittedError
            Before `fit`. All errors are raised at the call, before the first batch.
        TypeError, ValueError
            If a number is not an integer or is too small.

        Notes
        -----
        **Privacy.** Post-processing of the model, without privacy loss.

        Examples
        --------
        >>> import pandas as pd
        >>> from skdp import DPMarginalSynthesizer
        >>> people = pd.DataFrame({"smokes": ["yes", "no", "no", "no"] * 250})
        >>> synthesizer = DPMarginalSynthesizer(domain={"smokes": ["yes", "no"]}, random_state=0).fit(people)
        >>> for rows in synthesizer.sample_batches(1_000, batch_size=400):
        ...     print(len(rows), (rows["smokes"] == "yes").sum())
        400 100
        400 100
        200 50
        """
        check_is_fitted(self)
        size = check_size(batch_size, name="batch_size", min_val=1)
        n, rng = self._start_sample(n_samples)
        # A later `fit` does not change the batches of this call.
        draw = get_fitted(self).draw_table
        return (draw(min(size, n - start), rng) for start in range(0, n, size))

    def transform(self, X: TableLike) -> Any:
        """Return as many synthetic rows as X has.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            Table with the columns of `fit`. Only the number of rows is used.

        Returns
        -------
        same type as X
            Synthetic rows with a new index. They do not correspond to the rows of X.

        Raises
        ------
        TypeError, ValueError
            If X has other columns.

        See Also
        --------
        DPColumnSynthesizer : Resample private columns of rows whose other columns are public.

        Notes
        -----
        **Privacy.** The number of rows reveals the number of rows of X. If X is the table of `fit`, the guarantee of
        these rows is ``guarantee_.to("replace")``, with twice the epsilon; `sample` without a number keeps
        `guarantee_`.
        """
        check_is_fitted(self)
        table = check_input(self, X, reset=False, min_rows=0)
        fitted = get_fitted(self)
        check_names(self, table, fitted.features)
        # The columns of an array get the names of the columns of `fit`.
        table = Table(fitted.features, table.columns, table.native)
        rng = make_generator(self.random_state, "transform", self._calls.advance())
        drawn = [name for name in fitted.features if name in self.domain_.columns]
        template = make_template(
            select_columns(table, drawn), self.domain_.select(drawn)
        )
        # The target is drawn, too, because constraints may name it.
        columns = (*template.columns, *fitted.template.columns[len(drawn) :])
        template = Table(self.domain_.columns, columns, template.native)
        n = len(table.columns[0])
        rows = fitted.draw_columns(n, rng, template)
        features = {name: rows[name] for name in fitted.features}
        return apply_set_output(self, make_table(table, features))

    def save(self, path: PathType | BinaryIO) -> None:
        """Save the fitted synthesizer to a file.

        The file contains noisy counts and public facts only, so it has the guarantee `guarantee_`. The ledger and
        `random_state` are excluded, because a seed would reveal the noise, and `domain` is the fitted domain.

        Parameters
        ----------
        path : str, path or binary file
            Destination. An existing file is replaced.

        Raises
        ------
        TypeError
            If a name, a value or a dtype is of a type that cannot be saved.
        """
        check_is_fitted(self)
        shared = {"domain": self.domain_, "ledger": None, "random_state": None}
        save(copy(self).set_params(**shared), path)

    @classmethod
    def load(cls, path: PathType | BinaryIO) -> Self:
        """Load a synthesizer saved with `save`, without executing code from the file.

        Parameters
        ----------
        path : str, path or binary file
            The file.

        Returns
        -------
        DPMarginalSynthesizer
            Fitted synthesizer. Its model is fitted to the noisy counts again.

        Raises
        ------
        OSError
            If there is no such file.
        ImportError
            If the library of its tables is not installed.
        ValueError
            If the file has an unsupported format or version, or is damaged.
        """
        synthesizer = load(path)
        if not isinstance(synthesizer, cls):
            raise ValueError(
                f"`path` must contain a {cls.__name__}, got a "
                f"{type(synthesizer).__name__}. Use `skdp.load`."
            )
        return synthesizer

    def _describe_fit(self) -> dict[str, Any]:
        """Return the fitted parts for `skdp.save`."""
        if not hasattr(self, "model_"):
            return {}
        return {
            "guarantee": self.guarantee_,
            "named": hasattr(self, "feature_names_in_"),
            **describe_fitted(self._fitted),
        }

    def _restore_fit(self, fitted: dict[str, Any]) -> None:
        """Check the fitted parts from `skdp.load`, and set them."""
        # Nothing is set before all parts are read.
        table = read_fitted(fitted, self.max_cells)
        self._set_fit(table, fitted["guarantee"])
        self.n_features_in_ = len(table.features)
        if fitted["named"] is True:
            self.feature_names_in_ = np.array(table.features, object)
