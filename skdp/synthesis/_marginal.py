"""Synthetic tables with differential privacy, from a graphical model of noisy marginals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, BinaryIO, Literal, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from skdp._arrays import Floats, Indices, Mask
from skdp.base import (
    CallCounter,
    ColumnLike,
    ColumnName,
    PathType,
    TableLike,
    apply_set_output,
    check_choice,
    check_confidence_level,
    check_input,
    check_names,
    declares_missing,
    limit_blas_threads,
    restore_on_error,
    warn_of_released_size,
)
from skdp.central import CentralEstimator
from skdp.central.statistics import (
    read_persons,
    rows_within,
    select_columns,
    split_persons,
)
from skdp.domain import Domain, DomainLike, Interval
from skdp.persistence import load, save
from skdp.privacy import Mu, PrivacyBudget, PrivacyLedger, Rho, check_delta
from skdp.randomness import check_size
from skdp.synthesis.answers._counts import (
    ModelCount,
    combine_counts,
    estimate_errors,
    read_conditions,
)
from skdp.synthesis.answers._file import describe_fit, restore_fit
from skdp.synthesis.answers._rows import (
    DrawnRows,
    check_n_samples,
    draw_numbers,
    draw_valid,
    find_invalid,
    learn_ranks,
    make_generator,
    make_table,
    write_columns,
)
from skdp.synthesis.measure import (
    Fitted,
    MarginalPlan,
    NoiseBudget,
    PrivateCounts,
    check_width,
    find_columns,
    is_within,
    make_plan,
    measure_and_fit,
    measure_cells,
    warn_excluded,
)
from skdp.synthesis.model import (
    MAX_TABLE_CELLS,
    Marginal,
    estimate_total,
    merge_marginals,
)
from skdp.synthesis.private._cells import cut_domain
from skdp.synthesis.private._records import (
    CodedRecords,
    LargeRecords,
    Policy,
    Records,
    check_policy,
    check_replacements,
    open_rows,
    read_codes,
    with_target,
)
from skdp.synthesis.private._table import (
    check_computable,
    check_decodable,
    complete_domain,
    make_template,
    refine_domain,
)
from skdp.tables import LargeTable, Table, open_large, wrap_table

ESTIMATES = ("count", "std_error", "lower", "upper", "supported")
"""Columns that `marginal` adds to the values: the count and its error."""


class _PrivateRows(NamedTuple):
    """The private table of a fit, in memory or in an engine."""

    table: Table
    """The modeled columns, the target last; without rows if the table is in an engine."""
    features: tuple[Any, ...]
    """Names of the columns of X, including derived columns."""
    is_used: Mask
    """False for rows of a person in excess of `max_rows_per_person`; shape (n_rows,)."""
    large: LargeTable | None
    """The table in an engine; None if it is in memory."""

    @property
    def scope(self) -> list[Any]:
        """Names of all protected columns: the columns of X, and the target."""
        return list(dict.fromkeys([*self.features, *self.table.names]))


def check_person_budget(synthesizer: Any, *, by_person: bool) -> PrivacyBudget:
    """Check the parameters that need no table; return the budget, with the number of rows per person."""
    person_budget: PrivacyBudget = synthesizer._check_budget()
    n_rows = check_size(
        synthesizer.max_rows_per_person, name="max_rows_per_person", min_val=1
    )
    check_policy(synthesizer.handle_unknown)
    check_choice("bins", synthesizer.bins, ["declared", "private"])
    return replace(person_budget, rows=n_rows, by_person=by_person)


class DPMarginalSynthesizer(OneToOneFeatureMixin, TransformerMixin, CentralEstimator):
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
    domain : Domain, mapping of column name to values, list of values per column, or Interval
        Public values of each column: lists of values (None declares missing), or an `Interval`, which cuts numbers into
        bins. `discover_domain` finds a domain with differential privacy, and ``skdp draft-domain`` writes a file to
        edit. A polars Enum and ordered categories of pandas need no declaration. Bins, ordered categories and
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
        of the budget.
    max_cells : int, default=100_000
        Largest number of cells of a clique of the model. Time and memory are proportional to it. ``"auto"`` does not
        select marginals with more cells.
    bins : {"declared", "private"}, default="declared"
        Bins of each `Interval`. ``"declared"`` uses the declared bins. ``"private"`` spends a fifth of the budget on
        finding at most as many bins with about equal counts; use it for skewed or correlated numbers. In both cases,
        numbers within a bin are drawn by noisy counts of smaller cells, and have the `decimals` of the `Interval`.
    handle_unknown : {"error", "clip", "ignore"} or mapping of column name to value, default="error"
        How to handle a value outside the domain, such as a number with more decimals than the `Interval` declares.
        ``"error"`` raises `ValueError`, which reveals that such a value occurs. ``"clip"`` moves numbers to the first
        or last bin, and to the nearest number with the declared decimals. ``"ignore"`` excludes the record. A mapping
        contains the declared value that replaces such values, or ``"clip"``, for some columns; in all other columns
        they raise an error.
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
        Values of each modeled column, or the bins of the model. A target is the last column.
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
        ``misfit`` of the model as total variation distances, and whether it is ``usable`` (noise of at most 0.1).
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
        Number of steps of the last fit of the model.
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
    interactions are chosen by permute-and-flip if delta = 0, and otherwise by the exponential mechanism. The fractions
    of counts, scores and choices add up to at most 1. The model, samples and all other methods are post-processing,
    without privacy loss.

    With ``bins="private"``, a fifth of the budget is spent on counts of fine cells, which depend on the declared
    `Interval` only. With declared bins of d columns, each column whose bins have several values spends 3/(20 d) of
    the budget on counts of fine cells. Numbers are drawn in proportion to these counts where the counts exceed their
    noise, from fitted tails beyond them, and uniformly elsewhere.

    `transform` returns as many rows as X has, as scikit-learn requires. If X is the table of `fit`, this reveals the
    number of records, and the rows have the guarantee ``guarantee_.to("replace")``. With `person`, no guarantee holds
    for the result of `transform`, because people may have different numbers of rows. ``sample()`` returns the noisy
    number of rows, under `guarantee_`.

    Not covered: an error reveals that an undeclared value occurs, and synthetic rows have the library of X. Dtypes
    are determined by the declared values and the library, except that a library may read a column of a file as text if
    one record has no number.

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
    0   17  Female  <=50K
    1   49    Male  <=50K
    2   37    Male  <=50K
    >>> synthesizer.selected_cliques_[-2:]
    [('age', 'sex'), ('age', 'sex', 'income')]
    >>> synthesizer.marginal(["sex", "income"]).round()
          sex income    count  std_error    lower    upper  supported
    0  Female  <=50K   9591.0       22.0   9534.0   9619.0       True
    1  Female   >50K   1160.0       22.0   1105.0   1190.0       True
    2    Male  <=50K  15129.0       22.0  15072.0  15157.0       True
    3    Male   >50K   6671.0       30.0   6591.0   6677.0       True
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
        bins: Literal["declared", "private"] = "declared",
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
        self.bins = bins
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
        X: Any,
        y: ColumnLike | None = None,
        *,
        person: ColumnLike | ColumnName | None = None,
    ) -> Self:
        """Measure marginals of a table, and fit a model to them.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            Private table of declared values. Large tables that `skdp.engines` supports, such as a Polars LazyFrame, are
            also accepted; only counts of them are read.
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
            If a parameter is out of range, a column is not declared, the model would have too many cells, X is 1-D or
            sparse, X has undeclared values that are not handled, or y or `person` is a series with the row labels of X
            in another order.
        BudgetExceeded
            If the ledger does not cover the release.
        """
        plan = self._fit(X, y, person)
        # A filter may turn warnings into errors, so they come after the fit is complete.
        measured = [marginal.clique for marginal in self.marginals_]
        warn_excluded(self.domain_, plan.list_unchosen(measured))
        warn_of_released_size(self.guarantee_, self.n_rows_)
        return self

    @restore_on_error
    def _fit(self, X: Any, y: Any, person: Any) -> MarginalPlan:
        """Read the table, plan, charge the ledger, measure, and post-process; return the plan of the marginals."""
        # Read.
        person_budget = check_person_budget(self, by_person=person is not None)
        rows = self._read_rows(X, y, person)
        domain = complete_domain(rows.table, self.domain)
        # Plan: errors of parameters and of undeclared values are raised here.
        budget = NoiseBudget(person_budget, check_delta(self.delta), person_budget.rows)
        plan = self._plan(domain)
        template = make_template(rows.table, domain)
        check_decodable(template, domain)
        cells = cut_domain(domain)
        records = self._read_records(rows, domain, cells)
        if isinstance(records, LargeRecords):
            # Undeclared values raise an error here, before the charge.
            records.count_together(plan.columns)
        # Charge.
        mechanism = f"{budget.noise_name} noise on marginals"
        if plan.cliques is None:
            mechanism = budget.selection_name
        source = self._charge_release(
            person_budget,
            rows.scope,
            mechanism,
            delta=check_delta(self.delta),
            rho=budget.rho,
            losses=budget.losses,
        )
        # Measure.
        private = PrivateCounts(records, budget, source)
        with limit_blas_threads():
            domain, numbers = measure_cells(private, domain, cells, self.bins)
            plan = plan.with_domain(domain)
            fitted = measure_and_fit(private, plan, numbers)
        # Post-process: the records are not used from here on.
        template = make_template(rows.table, domain)
        self._set_fit(domain, private.marginals, fitted, rows.features, template)
        return plan

    def _set_fit(
        self,
        domain: Domain,
        marginals: list[Marginal],
        fitted: Fitted,
        features: tuple[Any, ...],
        template: Table,
    ) -> None:
        """Set the fitted attributes from noisy counts, after `fit` or from a file.

        `features` are the columns of X, and `template` is a table without rows with the library and dtypes of the
        output.
        """
        self.domain_ = domain
        self.marginals_ = marginals
        self.model_ = fitted.model
        self.n_iter_ = fitted.n_steps
        self.n_rows_, self.n_rows_std_error_ = estimate_total(marginals)
        self._scores = {}
        for clique, score in fitted.scores.items():
            if len(clique) == 2:
                self._scores[clique] = score
        self._searched = dict(fitted.searched)
        self._shapes = fitted.shapes
        # Private bins are wide, so the numbers within them depend on each other.
        ranked = fitted.shapes if self.bins == "private" else {}
        self._ranks = learn_ranks(self.model_, ranked)
        self._features = features
        self._template = template
        self._calls = CallCounter()

    def _read_rows(self, X: Any, y: Any, person: Any) -> _PrivateRows:
        """Read the table with its target, and choose at most `max_rows_per_person` rows of each person."""
        n_rows = int(self.max_rows_per_person)
        large = open_large(X)
        if large is not None:
            rng = make_generator(self.random_state, "contribution")
            large, X = open_rows(large, y=y, person=person, max_rows=n_rows, rng=rng)
        else:
            X, person = split_persons(X, person)
        table = self._read_table(X)
        features = table.names
        if isinstance(self.domain, Domain) and self.domain.derived:
            # Derived columns are computed from other columns, and their values are not read.
            names = [name for name in features if name not in self.domain.derived]
            modeled = select_columns(table, names)
            table = wrap_table(modeled.rebuild(modeled.columns, names))
        if y is not None:
            table = with_target(table, y)
        if isinstance(self.domain, Domain):
            check_computable(self.domain, features, table.names)
        check_width(len(table.names))
        is_used = np.ones(len(table.columns[0]), bool)
        if large is None and person is not None:
            persons = read_persons(person, table)
            rng = make_generator(self.random_state, "contribution")
            is_used = rows_within(persons, n_rows, rng)
        return _PrivateRows(table, features, is_used, large)

    def _plan(self, domain: Domain) -> MarginalPlan:
        """Plan the marginals, and warn of marginals of the workload that are not measured for any data."""
        plan = make_plan(
            domain, self.marginals, self.workload, self.target, self.max_cells
        )
        warn_excluded(domain, plan.list_excluded())
        return plan

    def _read_records(
        self, rows: _PrivateRows, domain: Domain, cells: Mapping[int, Interval]
    ) -> Records:
        """Encode the used rows, numbers and dates by the fine cells within their bins.

        `cells` has the fine cells of each column of numbers or dates, by index.
        """
        check_replacements(self.handle_unknown, domain)
        fine_domain = refine_domain(domain, cells)
        codes = read_codes(rows.table, fine_domain, self.handle_unknown)
        if rows.large is not None:
            return LargeRecords(
                rows.large,
                fine_domain,
                self.handle_unknown,
                uses_pairs=self.marginals == "auto",
            )
        # With handle_unknown="ignore", rows with an undeclared value are excluded.
        is_included = rows.is_used
        for column_codes, size in zip(codes, fine_domain.sizes, strict=True):
            is_included = is_included & (column_codes < size)
        if not is_included.all():
            codes = [column_codes[is_included] for column_codes in codes]
        return CodedRecords(codes, fine_domain.sizes)

    @property
    def selected_cliques_(self) -> list[tuple[Any, ...]]:
        """The columns of each measured marginal."""
        return list(self.noise_scale_)

    @property
    def noise_scale_(self) -> dict[tuple[Any, ...], float]:
        """Standard deviation of the noise of each count, by marginal."""
        check_is_fitted(self)
        scales: dict[tuple[Any, ...], float] = {}
        for marginal in merge_marginals(self.marginals_):
            names = self._name_columns(marginal.clique)
            # Measurements with different groups are not merged: the smaller noise is
            # stated.
            scales[names] = min(marginal.std_error, scales.get(names, np.inf))
        return scales

    def _name_columns(self, clique: Sequence[int]) -> tuple[Any, ...]:
        return tuple(map(self.domain_.columns.__getitem__, clique))

    @property
    def marginal_quality_(self) -> pd.DataFrame:
        """Noise and misfit of each measured marginal."""
        # Both are total variation distances, half of a sum of absolute differences. The
        # noise of a count has a mean absolute value of 0.8 standard errors.
        check_is_fitted(self)
        rows = []
        index = []
        for names, std_error in self.noise_scale_.items():
            columns = find_columns(self.domain_, names, "marginals")
            proportions = self.model_.marginal(columns)
            measured, _ = combine_counts(self.marginals_, dict.fromkeys(columns))
            noise = 0.4 * std_error * proportions.size / self.n_rows_
            differences = measured / self.n_rows_ - proportions
            misfit = np.nansum(np.abs(differences)) / 2
            rows.append((proportions.size, std_error, noise, misfit, noise <= 0.1))
            index.append(", ".join(map(str, names)))
        titles = ["n_cells", "std_error", "noise", "misfit", "usable"]
        labels = pd.Index(index, name="marginal")
        return pd.DataFrame(rows, columns=titles, index=labels)

    @property
    def pair_scores_(self) -> pd.DataFrame:
        """Noisy scores of pairs of columns, in descending order."""
        check_is_fitted(self)
        measured = [marginal.clique for marginal in self.marginals_]
        rows = []
        for pair, (score, std_error) in self._scores.items():
            names = self._name_columns(pair)
            rows.append((*names, score, std_error, is_within(pair, measured)))
        rows.sort(key=lambda row: -row[2])
        titles = ["first", "second", "score", "std_error", "measured"]
        table = pd.DataFrame(rows, columns=titles)
        dtypes = {"score": float, "std_error": float, "measured": bool}
        table = table.astype(dtypes).set_index(["first", "second"])
        table.attrs["n_searched"] = self._searched
        return table

    def sample(self, n_samples: int | None = None) -> Any:
        """Draw synthetic rows.

        Parameters
        ----------
        n_samples : int, optional
            Number of rows, at least 0; by default the estimated number of records.

        Returns
        -------
        same type as X of `fit`
            Synthetic rows, which differ from call to call. A target is the last column.

        Raises
        ------
        TypeError, ValueError
            If the number is not an integer or is out of range.

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
        return self._draw_table(*self._start_sample(n_samples))

    def _start_sample(self, n_samples: int | None) -> tuple[int, np.random.Generator]:
        """Return the number of rows to draw, and a generator for this call."""
        check_is_fitted(self)
        check_n_samples(n_samples)
        n = round(self.n_rows_) if n_samples is None else int(n_samples)
        return n, make_generator(self.random_state, "sample", self._calls.advance())

    def _draw_table(self, n: int, rng: np.random.Generator) -> Any:
        """Draw a table of n rows with the columns of X and the target."""
        columns = self._draw_columns(self._template, n, rng)
        return make_table(self._template, columns)

    def _draw_columns(
        self, template: Table, n: int, rng: np.random.Generator
    ) -> dict[Any, Any]:
        """Draw n rows that satisfy all constraints, as columns by name, in the library of a template."""
        rows = self._draw_rows(template, n, rng)
        columns = write_columns(template, rows)
        order = [*self._features, *self.domain_.derived, *self.domain_.columns]
        return {name: columns[name] for name in order}

    def _draw_rows(
        self, template: Table, n: int, rng: np.random.Generator
    ) -> DrawnRows:
        """Draw n rows that satisfy all constraints; `template` has the library in which these are evaluated."""

        def draw(indices: Indices) -> DrawnRows:
            codes = self.model_.sample(indices.size, rng)
            positions = None if self._ranks is None else self._ranks.draw(codes, rng)
            return draw_numbers(self.domain_, list(codes), rng, self._shapes, positions)

        rows, invalid = draw_valid(
            draw, lambda _, drawn: find_invalid(template, drawn), n
        )
        valid = np.setdiff1d(np.arange(n), invalid)
        if invalid.size and valid.size == 0:
            raise ValueError(
                "The constraints of `domain` must be satisfied by some rows of the "
                f"model, got {list(self.domain_.constraints)} and no such row. Remove "
                "some of them, or declare narrower bins."
            )
        if invalid.size:
            rows.replace(invalid, rows, rng.choice(valid, invalid.size))
        return rows

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
        # A copy, so that a later `fit` does not change the batches of this call.
        return copy(self)._draw_batches(n, size, rng)

    def _draw_batches(
        self, n: int, size: int, rng: np.random.Generator
    ) -> Iterator[Any]:
        """Draw tables of at most `size` rows, n rows in total."""
        for start in range(0, n, size):
            yield self._draw_table(min(size, n - start), rng)

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
        check_names(self, table, self._features)
        # The columns of an array get the names of the columns of `fit`.
        table = Table(tuple(self._features), table.columns, table.native)
        rng = make_generator(self.random_state, "transform", self._calls.advance())
        drawn = [name for name in self._features if name in self.domain_.columns]
        template = make_template(
            select_columns(table, drawn), self.domain_.select(drawn)
        )
        # The target is drawn, too, because constraints may name it.
        columns = (*template.columns, *self._template.columns[len(drawn) :])
        template = Table(self.domain_.columns, columns, template.native)
        n = len(table.columns[0])
        rows = self._draw_columns(template, n, rng)
        features = {name: rows[name] for name in self._features}
        return apply_set_output(self, make_table(table, features))

    def marginal(
        self, columns: str | Sequence[ColumnName], *, confidence_level: float = 0.95
    ) -> pd.DataFrame:
        """Estimate the counts of all combinations of values of some columns.

        Parameters
        ----------
        columns : list of column names
            Modeled columns.
        confidence_level : float, default=0.95
            Coverage of each interval, in (0, 1).

        Returns
        -------
        pandas.DataFrame
            A row for each combination of values (bins as text), with the ``count`` by the model, its ``std_error``, the
            bounds ``lower`` and ``upper`` of its interval, and whether it is ``supported`` (see `count_estimate`).

        Raises
        ------
        ValueError
            If a column is not modeled or has the name of an estimate, there are more than 2**26 combinations, or the
            confidence level is out of range.
        """
        check_is_fitted(self)
        names = [columns] if isinstance(columns, str) else list(columns)
        indices = find_columns(self.domain_, names, "columns")
        level = check_confidence_level(confidence_level)
        for name in names:
            if name in ESTIMATES:
                raise ValueError(
                    f"`columns` must not contain {name!r}, because the result has an "
                    "estimate of this name. Use `count` with a condition on it."
                )
        domain = self.domain_.select(names)
        if domain.size > MAX_TABLE_CELLS:
            raise ValueError(
                f"`columns` must have at most {MAX_TABLE_CELLS:,} combinations of "
                f"values, got {domain.size:,}. Name fewer columns, or use `count`."
            )
        counts = self.n_rows_ * self.model_.marginal(indices)
        table = domain.cells().to_frame(index=False)
        estimates = self._estimate(dict.fromkeys(indices), counts, level)
        for name, estimate in zip(ESTIMATES, estimates, strict=True):
            table[name] = estimate.ravel()
        return table

    def _estimate(
        self, query: Mapping[int, Any], counts: Floats, level: float
    ) -> tuple[NDArray[Any], ...]:
        """Return the counts of a query and their errors, in the order of `ESTIMATES`."""
        is_gaussian = self.guarantee_.rho is not None
        errors = estimate_errors(self.marginals_, query, counts, level, is_gaussian)
        return counts, *errors

    def count(self, conditions: Mapping[Any, Any]) -> float:
        """Estimate the number of records that fulfill conditions on several columns.

        Parameters
        ----------
        conditions : mapping of column name to (low, high), value or list of values
            A tuple is a half-open range, in which None stands for no bound: any numbers or dates for an `Interval`, or
            two declared values in their declared order. A range to or from the upper bound of an `Interval` contains
            this bound. A list contains the accepted values. All conditions must hold.

        Returns
        -------
        float
            Estimated count of the model, nonnegative and in general not an integer.

        Raises
        ------
        TypeError, ValueError
            If a column or a value is not declared.
        """
        return self.count_estimate(conditions).count

    def count_estimate(
        self, conditions: Mapping[Any, Any], *, confidence_level: float = 0.95
    ) -> ModelCount:
        """Estimate the number of records that fulfill conditions, with its error.

        Parameters
        ----------
        conditions : mapping of column name to (low, high), value or list of values
            As for `count`.
        confidence_level : float, default=0.95
            Coverage of the interval, in (0, 1).

        Returns
        -------
        ModelCount
            The ``count``, its ``std_error``, the bounds ``lower`` and ``upper`` of its interval, and whether it is
            ``supported`` (also False if an endpoint of a range is inside a bin).

        Raises
        ------
        TypeError, ValueError
            As for `count`; if the confidence level is out of range.

        Notes
        -----
        A count is supported if one measured marginal has all columns, and the conditions contain whole bins and whole
        groups of rare values. The noisy counts are then unbiased, and the interval is centered at their weighted mean.
        So its coverage is at least the stated one, whether or not the model is accurate.

        The count by the model is often more accurate than the noisy count, but it is biased in sparse marginals: a
        model has no negative counts, so it has too many records in nearly empty cells, and too few in all others. The
        interval contains it. The standard error is the standard error of the noisy count or, if larger, an estimate of
        the error of the model.

        Otherwise the dependence of the columns was not measured, or a condition contains a part of a bin or of a group
        of rare values. The error is then unknown, and nan.

        **Privacy.** Post-processing of noisy counts, without privacy loss.
        """
        check_is_fitted(self)
        level = check_confidence_level(confidence_level)
        weights = read_conditions(self.domain_, conditions, self._shapes)
        proportion = self.model_.expectation(weights) if weights else 1.0
        count = np.array(self.n_rows_ * proportion)
        estimates = self._estimate(weights, count, level)
        return ModelCount(*(estimate.item() for estimate in estimates))

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
        return describe_fit(self) if hasattr(self, "model_") else {}

    def _restore_fit(self, fitted: dict[str, Any]) -> None:
        """Check the fitted parts from `skdp.load`, and set them."""
        restore_fit(self, fitted)
