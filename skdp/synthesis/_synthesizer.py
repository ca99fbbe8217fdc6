"""Tables that may be shared: a graphical model of noisy marginals, and rows drawn from it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, Self

import numpy as np
from sklearn.utils import Tags

from skdp.base import (
    CallCounter,
    ColumnLike,
    ColumnName,
    all_or_nothing,
    check_choice,
    declares_missing,
    one_thread,
    warn_of_released_size,
)
from skdp.central import CentralEstimator
from skdp.central.statistics import read_persons, rows_within
from skdp.domain import Domain, DomainLike
from skdp.oracles import check_size
from skdp.privacy import (
    Mu,
    PrivacyLedger,
    Rho,
    check_delta,
)
from skdp.synthesis._coded_table import CodedTable, PrivateRows, code_table
from skdp.synthesis._rows import RowTransformer
from skdp.synthesis.model import Clique
from skdp.synthesis.selection import (
    BINS,
    FittedTable,
    FoundCells,
    NoiseBudget,
    Plan,
    PrivateTable,
    Strategy,
    check_marginals,
    check_width,
    find_cells,
    open_budget,
    out_of_reach,
    warn_left_out,
    warn_not_chosen,
    warn_unknown,
)
from skdp.synthesis.tables import (
    Policy,
    Shapes,
    check_computable,
    check_policy,
    open_rows,
    sample_template,
    select_columns,
    with_target,
)
from skdp.tables import open_large, read_table


class DPMarginalSynthesizer(RowTransformer, CentralEstimator):
    """Learn a table from private counts, and draw synthetic rows that may be shared.

    `fit` measures marginals (tables of counts of a few columns) with noise on every cell, and fits a graphical model to
    them; `sample` draws new rows from it.

    Parameters
    ----------
    epsilon : float, Rho or Mu, default=1.0
        Privacy loss of all that is released, finite and > 0. `skdp.privacy.Rho` and `skdp.privacy.Mu` have a delta of
        their own, and Gaussian noise.
    delta : float, default=0.0
        Failure probability, in [0, 1); should be below one in the number of records. With 0 the noise is discrete
        Laplace, otherwise Gaussian, with which many marginals are more accurate.
    domain : Domain, mapping of column name to values, list of values a column, or Interval
        Declared values of each column, from public knowledge: lists of values (None declares missing), or an
        `Interval`, which cuts numbers into bins; `discover_domain` finds one privately. A polars Enum needs no
        declaration, nor do ordered categories of pandas. ``skdp draft-domain`` writes a file to start from. Bins have
        an order, and so do ordered categories that are not declared otherwise, and
        ``skdp.domain.Categories(values, ordered=True)``; lists have none: numbers in them are codes. Its `constraints`
        hold in all rows that are drawn, and its `derived` columns are computed and not modelled.
    marginals : {"auto", "independent", "full"} or list of tuples, default="auto"
        What is measured. ``"auto"``: the columns, and the pairs that gain more than their noise costs; with a large
        budget also what the first model misses, of up to four columns ([1]_). Pairs with a column of at most two
        declared values, which models may predict, are kept a little better.
        ``"independent"``: the columns. ``"full"``: all combinations of values. Or a list of tuples of column names, all
        with the same noise.
    workload : list of tuple of column names, optional
        The marginals that matter; by default all pairs. ``"auto"`` chooses among them and their subsets. A warning
        names those that are not measured, and why.
    target : column name, optional
        What models will predict (an array y is called ``"target"``): its pairs are kept better, others a little worse.
    max_cells : int, default=100_000
        The most cells of a clique of the model; memory and time grow with it. Pairs with more cells are not scored.
    max_rows_per_person : int, default=1
        The most rows of one person; all noise is in proportion to it. Further rows are left out if `fit` is given
        ``groups``; without, the number is taken on trust.
    bins : {"declared", "private"}, default="declared"
        The bins of each `Interval`: its own, or at most as many that hold about as many records each, which are found
        by noisy counts of fine cells, for skewed and correlated numbers. In both cases rows follow noisy counts of
        finer cells within bins, and have the `decimals` of the `Interval`, spread over all values of a cell.
    handle_unknown : {"error", "clip", "ignore"} or mapping of column name to value, default="error"
        Treatment of undeclared values: an error, which shows that there is one. ``"clip"`` puts a number beyond the end
        of an `Interval` into its first or last bin, ``"ignore"`` leaves the record out. A mapping names for some
        columns the declared value that stands for all others; elsewhere they are errors. A number with more `decimals`
        than an `Interval` declares, if any, is undeclared, and ``"clip"`` drops them; where it has whole numbers, one
        with a fraction is in its bin.
    ledger : PrivacyLedger, optional
        Charged by each `fit`, before anything is drawn.
    random_state : None or int, default=None
        None for secure randomness; an int for reproducible experiments, without a guarantee if it is known.

    Attributes
    ----------
    domain_ : Domain
        The values of each column, the target's last.
    guarantee_ : PrivacyGuarantee
        The guarantee of this `fit`.
    selected_cliques_ : list of tuple
        The columns of each marginal that was measured.
    noise_scale_ : dict of tuple to float
        The standard deviation of the noise of each count, a marginal each.
    marginals_ : list of Marginal
        The noisy counts.
    pair_scores_ : DataFrame
        The noisy scores of pairs, if there are any: the distance of all counts together from those of independent
        columns, its standard error, and whether the pair was measured.
    model_ : GraphicalModel
        The distribution of the rows.
    n_rows_, n_rows_std_error_ : float
        The estimated number of records, from the noisy counts, and its standard deviation.
    n_iter_ : int
        The number of models that the last fit went through, the first one included.
    n_features_in_ : int
        The number of columns of X.
    feature_names_in_ : ndarray of str
        Their names, if all of them are strings.

    See Also
    --------
    SyntheticResampler : Trains on synthetic rows and predicts real ones, in a pipeline of imbalanced-learn.
    DPHistogram : A single marginal, with intervals.

    Notes
    -----
    **Privacy.** Central model: a curator who holds the table is trusted. Adding or removing a person, who has at most
    `max_rows_per_person` rows, changes the distribution of the release by at most ``(epsilon, delta)``; for replacing
    one, see ``guarantee_.to("replace")``. `fit` reads the values of all columns. The number of records is protected
    too, and every cell of the declared domain gets noise, whether or not it occurs. A person with k rows changes the
    counts of a marginal by at most k, and a score (the distance of a model from a marginal, in whole records) by at
    most k. With delta = 0, a marginal that gets the share s of epsilon has discrete Laplace noise of scale
    ``k / (s * epsilon)``. Otherwise it has Gaussian noise of variance ``k**2 / (s * mu**2)``, drawn exactly and
    rounded, where mu is the largest number for which mu-Gaussian privacy is (epsilon, delta) ([2]_), or that of
    `epsilon`. Shares add up to exactly 1. The model, samples, and all other methods are post-processing: free, and
    repeatable.

    With ``bins="private"``, a fifth of the budget is for counts of fine cells, which follow from what each `Interval`
    declares, by themselves and 8, 64, … together: a person with k rows changes each such list by at most k. Bins, and
    where rows lie within them, follow from these counts alone. With declared bins, each column
    whose bins hold several values has 15 % of its share for them; rows lie where these counts exceed their noise,
    and evenly elsewhere.

    `transform` returns as many rows as X has, as scikit-learn requires. If X is the table of `fit`, that is the number
    of records: its rows have the guarantee ``guarantee_.to("replace")``, which `skdp.privacy.privacy_statement` states.
    With ``groups``, no guarantee holds for the result of `transform`, as persons may have different numbers of rows.
    ``sample()`` returns the noisy number of rows, under `guarantee_`.

    Not covered: that an error shows an undeclared value; the library of X, which synthetic rows share. Of a file in
    which one record has no number, a column may be read as text.
    Dtypes follow from the declared values and the library: int64 if all declared values are whole, or the numbers
    of an `Interval` are declared as whole, and float64 if not; days where all edges are dates (`datetime.date`),
    and times in microseconds where these are `datetime.datetime` or a pandas Timestamp; pandas has no days. `score`
    depends on the rows that it is given.

    Synthetic rows have the structure that was measured, not all of the data's. Conclusions from them need the errors of
    sampling, of noise, and of what the model leaves out.

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
    0  Female  <=50K   9572.0       22.0   9512.0   9596.0       True
    1  Female   >50K   1182.0       22.0   1157.0   1241.0       True
    2    Male  <=50K  15120.0       22.0  15092.0  15176.0       True
    3    Male   >50K   6651.0       27.0   6643.0   6727.0       True
    """

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
        max_rows_per_person: int = 1,
        bins: Literal["declared", "private"] = "declared",
        handle_unknown: Policy | Mapping[Any, Any] = "error",
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
        self.max_rows_per_person = max_rows_per_person
        self.bins = bins
        self.handle_unknown = handle_unknown
        self.ledger = ledger
        self.random_state = random_state

    protects_rows = True
    """`transform` returns synthetic rows."""

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

    def fit(
        self,
        X: Any,
        y: ColumnLike | None = None,
        *,
        groups: ColumnLike | ColumnName | None = None,
    ) -> Self:
        """Measure a table, and fit a model to it.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            Declared values. Or a large table that `skdp.engines` names, such as a Polars LazyFrame, of which only
            counts of declared cells are read.
        y : 1-D array-like of shape (n_samples,), optional
            One more column, declared under its name, or as ``"target"`` if it has none, or that of a column of X. Of a
            large table, the target is a column.
        groups : 1-D array-like of shape (n_samples,), optional
            The person of each row: of each at most `max_rows_per_person` rows are kept, chosen at random. The guarantee
            is then for all rows of one person. For a large table, the name of a column, which is not modelled; the rows
            with the least hashes are kept.

        Returns
        -------
        self
            The fitted synthesizer.

        Raises
        ------
        TypeError, ValueError
            If a parameter is out of range, the domain is not declared or does not fit the columns, the model would have
            too many cells, or X is 1-D or sparse, or holds undeclared values that are not handled; or y or groups is a
            series with the row labels of X in another order.
        BudgetExceeded
            If the ledger does not cover it.
        """
        # Warnings are given outside of what is undone if warnings are errors.
        warnings = self._fit(X, y, groups)
        for warn in warnings:
            warn()
        return self

    @all_or_nothing
    def _fit(self, X: Any, y: Any, groups: Any) -> list[Callable[[], None]]:
        """Fit; return the warnings to give."""
        # Read.
        self._forget()
        promise = self._check_promise()
        delta = check_delta(self.delta)
        max_rows = check_size(
            self.max_rows_per_person, name="max_rows_per_person", least=1
        )
        self._check_options()
        of_persons = replace(promise, rows=max_rows, by_person=groups is not None)
        private = self._read_private(X, y, groups, max_rows)

        # Plan.
        budget, rho = open_budget(promise, delta, max_rows)
        coded = code_table(self, private.table, private.is_counted)
        never_measured = out_of_reach(coded.plan, coded.strategy)
        warn_left_out(coded.plan, coded.domain.columns, never_measured)
        # Undeclared values of a large table are found in the first pass.
        records = private.records(coded, self.handle_unknown)
        records.prepare(coded.first_cliques)

        # Charge.
        source = self._spend(
            of_persons,
            [*private.features, *private.target],
            self._mechanism(budget, coded, max_rows),
            delta=delta,
            rho=rho,
            losses=budget.losses,
        )

        # Measure.
        table = PrivateTable(records, coded.cells.sizes, budget, source)
        cells = find_cells(table, coded.cells, coded.domain, self.bins)
        plan = replace(coded.plan, sizes=cells.domain.sizes)
        cells.table.prepare(coded.strategy.first_cliques(plan))
        with one_thread():
            measured = coded.strategy.measure(cells.table, plan)
            fitted, shapes = cells.place(measured, self._generator("shapes"))
        self._set_fitted(fitted, shapes, cells)
        self._features = private.features
        self._template = sample_template(private.table, cells.domain)
        return self._warnings(plan, coded.strategy, fitted, never_measured)

    def _warnings(
        self,
        plan: Plan,
        strategy: Strategy,
        fitted: FittedTable,
        never_measured: Collection[Clique],
    ) -> list[Callable[[], None]]:
        """List the warnings of what was released, to give once `fit` has succeeded."""
        names = self.domain_.columns
        cliques = [marginal.clique for marginal in self.marginals_]
        return [
            partial(warn_not_chosen, plan, strategy, names, cliques, never_measured),
            partial(warn_unknown, plan, strategy, names, fitted.unknown),
            self._warn_of_constraints,
            partial(warn_of_released_size, self.guarantee_, self.n_rows_),
        ]

    def _check_options(self) -> None:
        check_policy(self.handle_unknown)
        check_marginals(self.marginals)
        check_choice("bins", self.bins, list(BINS))

    def _read_private(self, X: Any, y: Any, groups: Any, rows: int) -> PrivateRows:
        """Read a table, with its target, and choose the rows of each person."""
        large = open_large(X)
        if large is not None:
            rng = self._generator("contribution")
            large, X = open_rows(large, y=y, groups=groups, most=rows, rng=rng)
        table = self._read_table(X)
        features = table.names
        if isinstance(self.domain, Domain) and self.domain.derived:
            # Derived columns are not read: they are computed from the declared columns.
            names = [name for name in features if name not in self.domain.derived]
            part = select_columns(table, names)
            table = read_table(part.rebuild(part.columns, names))
        if y is not None:
            table = with_target(table, y)
        if isinstance(self.domain, Domain):
            check_computable(self.domain, features, table.names)
        check_width(len(table.names))
        is_counted = np.ones(len(table.columns[0]), bool)
        if large is None and groups is not None:
            persons = read_persons(groups, table)
            is_counted = rows_within(persons, rows, self._generator("contribution"))
        return PrivateRows(table, features, is_counted, large)

    def _mechanism(self, budget: NoiseBudget, coded: CodedTable, rows: int) -> str:
        """Name the mechanism, and what is done to rows after it."""
        finds_bins = self.bins == "private" and coded.cells is not coded.domain
        counted = "bins and marginals" if finds_bins else "marginals"
        reach = f", up to {rows} rows a person" if rows > 1 else ""
        return f"{budget.name} noise on {counted}{reach}"

    def _set_fitted(
        self, fitted: FittedTable, shapes: Shapes | None, cells: FoundCells
    ) -> None:
        """Set what is learnt from noisy counts."""
        self.domain_ = cells.domain
        self._shapes = shapes
        self.marginals_ = cells.table.marginals
        self._scores = {}
        for clique, score in fitted.scores.items():
            if len(clique) == 2:
                self._scores[clique] = score
        self.model_ = fitted.model
        self.n_rows_ = fitted.total
        self.n_rows_std_error_ = fitted.std_error
        self.n_iter_ = len(fitted.losses)
        self._calls = CallCounter()

    def _forget(self) -> None:
        hidden = ("_template", "_features", "_calls", "_scores", "_shapes")
        for name in list(vars(self)):
            if name.endswith("_") or name in hidden:
                delattr(self, name)
