"""Tables that may be shared: a graphical model of noisy marginals, and rows drawn from it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
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
    Share,
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
    largest_sizes,
    open_budget,
    out_of_reach,
    warn_left_out,
    warn_not_chosen,
    warn_unknown,
)
from skdp.synthesis.tables import (
    Policy,
    Shapes,
    check_not_named,
    check_policy,
    check_share,
    count_open_columns,
    count_others,
    find_values,
    open_rows,
    sample_template,
    undeclared,
    warn_undiscovered,
    with_target,
)
from skdp.tables import open_large


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
        The values that each column may take, from public knowledge: lists of values (None declares missing), or an
        `Interval`, which cuts numbers into bins. A polars Enum needs no declaration, nor do ordered categories of
        pandas. ``skdp draft-domain`` writes a file to start from. Bins have an order, ordered categories that are not
        declared otherwise, and ``skdp.domain.Categories(values, ordered=True)``; lists have none: numbers in them are
        codes.
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
    structural_zeros : list of mapping of column name to values, or tuple, optional
        What cannot occur, from public knowledge: combinations, such as ``{"sex": "Male", "relationship": "Wife"}``, and
        what rules exclude: ``("start", "<=", "end")`` where both are present, ``("job", "missing with", "wage")``.
    relations : list of str, optional
        What holds in each row, from public knowledge: linear equalities and inequalities of numbers, such as
        ``"total = a + b"`` or ``"a + 2 * b <= 100"``, and orders of two dates, such as ``"end >= start"``. Names with
        other characters than letters, digits and _ stand between backticks. A column that stands alone in an equality
        (the left one, if both do) follows from the other side: it is not modelled, and missing where a part is. Each
        relation is of rows in which none of its columns is missing.
    max_cells : int, default=100_000
        The most cells of a clique of the model; memory and time grow with it. Pairs with more cells are not scored.
    max_iter : int, default=300
        The most steps in which the model is fitted.
    tol : float, default=0.5
        The least share of its loss that the fit saves in 20 steps, or it ends: much noise is better not fitted to the
        end. From an epsilon of 10 on, 0.05 gives better counts, in up to twice the time.
    max_rows_per_person : int, default=1
        The most rows of one person; all noise is in proportion to it. Further rows are left out if `fit` is given
        ``groups``; without, the number is taken on trust.
    bins : {"declared", "private"}, default="declared"
        The bins of each `Interval`: its own, or at most as many that hold about as many records each, which are found
        by noisy counts of fine cells, for skewed and correlated numbers. In both cases rows follow noisy counts of
        finer cells within bins, and have the `decimals` of the `Interval`, spread over all values of a cell.
    discover : float, optional
        The share of epsilon and delta that is spent on finding the values of undeclared columns: those whose noisy
        count is above a threshold. Other values become ``"<not discovered>"`` in columns of text, and missing
        elsewhere; `undiscovered_` estimates their number, and a warning names the columns with many. Without, an
        undeclared column is an error. Numbers are better declared as an `Interval`. Needs delta > 0.
    handle_unknown : {"error", "clip", "ignore"} or mapping of column name to value, default="error"
        Treatment of undeclared values: an error, which shows that there is one. ``"clip"`` puts a number beyond the end
        of an `Interval` into its first or last bin, ``"ignore"`` leaves the record out. A mapping names for some
        columns the declared value that stands for all others; elsewhere they are errors. A number with more `decimals`
        than an `Interval` declares, if any, is undeclared, and ``"clip"`` drops them; where it has whole numbers, one
        with a fraction is in its bin.
    ledger : PrivacyLedger, optional
        Charged by each `fit`, before anything is drawn.
    random_state : None or int, default=None
        None for secure randomness; an int for reproducible experiments, not private to anyone who knows it.

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
    undiscovered_ : dict of column name to float
        For each column whose values `discover` found, about how many records have another (or no) value.
    relations_ : list of str
        What holds in all rows that are drawn, by `relations`.
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
    `max_rows_per_person` rows, changes the law of all that is released by at most ``(epsilon, delta)``; for replacing
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

    With `discover`, a value that only one person has is published with a probability of at most its share of delta; the
    marginals get the other shares. As for `DPOneHotEncoder`, the values of a column are of one kind, and a record with
    one of another kind has none that was found.

    `transform` returns as many rows as X has, as scikit-learn requires. If X is the table of `fit`, that is the number
    of records: its rows have the guarantee ``guarantee_.to("replace")``, which `skdp.privacy.privacy_statement` states.
    With ``groups``, no guarantee holds for the result of `transform`, as persons may have different numbers of rows.
    ``sample()`` returns the noisy number of rows, under `guarantee_`.

    Not covered: that an error shows an undeclared value; the library of X, which synthetic rows share. Of a file in
    which one record has no number, a column may be read as text, and so are the values that `discover` finds in it.
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
        structural_zeros: Sequence[Mapping[Any, Any] | tuple[Any, ...]] | None = None,
        relations: Sequence[str] | None = None,
        max_cells: int = 100_000,
        max_iter: int = 300,
        tol: float = 0.5,
        max_rows_per_person: int = 1,
        bins: Literal["declared", "private"] = "declared",
        discover: float | None = None,
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
        self.structural_zeros = structural_zeros
        self.relations = relations
        self.max_cells = max_cells
        self.max_iter = max_iter
        self.tol = tol
        self.max_rows_per_person = max_rows_per_person
        self.bins = bins
        self.discover = discover
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
        open_columns, discover_share = self._read_open_columns(private, promise, delta)

        # Plan. All that can be checked before the values of open columns are known, is:
        # as if none were found, and the most that fit.
        rest = 1 - discover_share
        budget, rho = open_budget(promise * rest, delta * rest, max_rows)
        check_not_named(open_columns, self.handle_unknown, self.structural_zeros)
        placeholders = {name: [None] for name in open_columns}
        coded = code_table(self, private.table, private.is_counted, placeholders)
        self._check_relations(coded)
        never_measured = out_of_reach(coded.plan, coded.strategy)
        warn_left_out(coded.plan, coded.domain.columns, never_measured)
        mechanism = self._mechanism(budget, coded, max_rows)
        spend = partial(
            self._spend,
            of_persons,
            private.table.names,
        )

        # Columns in which missing values and those that were not found are one.
        mixed: set[Any] = set()

        # Charge. What is not declared in a large table shows in the first pass: before
        # the charge, as in memory.
        if open_columns:
            places = set(map(coded.domain.columns.index, open_columns))
            max_values = largest_sizes(coded.plan, coded.strategy, places)
            source = spend(f"{mechanism}, thresholds on values", delta=delta)
            values, mixed = find_values(
                source,
                open_columns,
                promise.amount * discover_share,
                delta * discover_share,
                max_rows,
                max_values,
            )
            coded = code_table(self, private.table, private.is_counted, values)
            records = private.records(coded, self.handle_unknown)
        else:
            records = private.records(coded, self.handle_unknown)
            records.prepare(coded.first_cliques)
            source = spend(mechanism, delta=delta, rho=rho, losses=budget.losses)

        # Measure.
        table = PrivateTable(records, coded.cells.sizes, budget, source)
        cells, plan, fitted = self._measure(table, coded)
        self._template = sample_template(private.table, cells.domain)
        self._set_relations(coded.relations)
        return self._warnings(plan, coded.strategy, fitted, never_measured, mixed)

    def _read_open_columns(
        self, private: PrivateRows, promise: Share, delta: Fraction
    ) -> tuple[dict[Any, Any], Fraction]:
        """Count the columns whose values are to be found; return their share, too."""
        share = self._check_discover(promise, delta)
        if not share:
            return {}, share
        names = undeclared(private.table, self.domain)
        open_columns = count_open_columns(private.table, names, private.is_counted)
        return open_columns, share if open_columns else Fraction(0)

    def _measure(
        self, table: PrivateTable, coded: CodedTable
    ) -> tuple[FoundCells, Plan, FittedTable]:
        """Find bins, measure marginals, and set what is learnt from them."""
        cells = find_cells(table, coded.cells, coded.domain, self.bins)
        # Which bins break a relation is known once bins are.
        zeros = self._zeros(coded.relations, cells.domain)
        plan = replace(coded.plan, sizes=cells.domain.sizes, zeros=zeros)
        cells.table.prepare(coded.strategy.first_cliques(plan))
        with one_thread():
            measured = coded.strategy.measure(cells.table, plan)
            fitted, shapes = cells.place(measured, self._generator("shapes"))
        self._set_fitted(fitted, shapes, cells, coded.substitutes)
        return cells, plan, fitted

    def _warnings(
        self,
        plan: Plan,
        strategy: Strategy,
        fitted: FittedTable,
        never_measured: Collection[Clique],
        mixed: set[Any],
    ) -> list[Callable[[], None]]:
        """List the warnings of what was released, to give once `fit` has succeeded."""
        names = self.domain_.columns
        cliques = [marginal.clique for marginal in self.marginals_]
        return [
            partial(warn_not_chosen, plan, strategy, names, cliques, never_measured),
            partial(warn_unknown, plan, strategy, names, fitted.unknown),
            partial(
                warn_undiscovered,
                self.domain_,
                self.undiscovered_,
                self.n_rows_,
                mixed,
            ),
            self._warn_redrawn,
            partial(warn_of_released_size, self.guarantee_, self.n_rows_),
        ]

    def _check_options(self) -> None:
        check_policy(self.handle_unknown)
        check_marginals(self.marginals)
        check_choice("bins", self.bins, list(BINS))

    def _check_relations(self, coded: CodedTable) -> None:
        """Refuse parameters that name columns which are derived from others."""
        for parameter, names in self._names_in_parameters(coded).items():
            coded.relations.check_not_derived(parameter, names)

    def _names_in_parameters(self, coded: CodedTable) -> dict[str, list[Any]]:
        """Return the columns that parameters about measurements name."""
        names: dict[str, list[Any]] = {"target": [self.target]}
        for parameter in ("workload", "marginals"):
            names[parameter] = []
            cliques = getattr(self, parameter)
            if cliques is None or isinstance(cliques, str):
                continue
            for clique in cliques:
                is_column = isinstance(clique, str)
                names[parameter] += [clique] if is_column else list(clique)
        names["structural_zeros"] = []
        for combination in self.structural_zeros or ():
            names["structural_zeros"].extend(combination)
        return names

    def _read_private(self, X: Any, y: Any, groups: Any, rows: int) -> PrivateRows:
        """Read a table, with its target, and choose the rows of each person."""
        large = open_large(X)
        if large is not None:
            rng = self._generator("contribution")
            large, X = open_rows(
                large, y=y, discover=self.discover, groups=groups, most=rows, rng=rng
            )
        table = self._read_table(X)
        if y is not None:
            table = with_target(table, y)
        check_width(len(table.names))
        is_counted = np.ones(len(table.columns[0]), bool)
        if large is None and groups is not None:
            persons = read_persons(groups, table)
            is_counted = rows_within(persons, rows, self._generator("contribution"))
        return PrivateRows(table, is_counted, large)

    def _check_discover(self, promise: Share, delta: Fraction) -> Fraction:
        """Return the share of the budget that is for finding values."""
        if promise.given is not None and self.discover is not None:
            raise ValueError(
                f"discover needs an epsilon and a delta, got epsilon={self.epsilon}"
            )
        return check_share(self.discover, delta)

    def _mechanism(self, budget: NoiseBudget, coded: CodedTable, rows: int) -> str:
        """Name the mechanism, and what is done to rows after it."""
        finds_bins = self.bins == "private" and coded.cells is not coded.domain
        counted = "bins and marginals" if finds_bins else "marginals"
        reach = f", up to {rows} rows a person" if rows > 1 else ""
        change = f", {coded.relations}" if coded.relations.texts else ""
        return f"{budget.name} noise on {counted}{reach}{change}"

    def _set_fitted(
        self,
        fitted: FittedTable,
        shapes: Shapes | None,
        cells: FoundCells,
        others: dict[Any, Any],
    ) -> None:
        """Set what is learnt from noisy counts."""
        self.domain_ = cells.domain
        self._others = others
        self._shapes = shapes
        self.marginals_ = cells.table.marginals
        self._scores = {}
        for clique, score in fitted.scores.items():
            if len(clique) == 2:
                self._scores[clique] = score
        self.model_ = fitted.model
        self.n_rows_ = fitted.total
        self.n_rows_std_error_ = fitted.std_error
        self.undiscovered_ = count_others(
            fitted.model, cells.domain, fitted.total, others
        )
        self.n_iter_ = len(fitted.losses)
        self._calls = CallCounter()

    def _forget(self) -> None:
        hidden = (
            "_others",
            "_template",
            "_calls",
            "_scores",
            "_shapes",
            "_relations",
        )
        for name in list(vars(self)):
            if name.endswith("_") or name in hidden:
                delattr(self, name)
