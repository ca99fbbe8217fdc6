"""Noisy counts of all cells of a domain, and of ranges of cells; noisy means of numeric columns."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from skdp._arrays import ColumnName, Floats, Indices, Integers
from skdp.base import (
    K_NORM,
    NORMAL,
    Bounds,
    Estimate,
    check_choice,
    check_confidence_level,
    declares_missing,
    find_open_intervals,
    name_declared,
)
from skdp.central._base import (
    Plan,
    Unknown,
    WeightedStatistic,
    check_unique_names,
)
from skdp.central._limits import LimitSearch
from skdp.central._ranges import (
    Hierarchy,
    count_std,
    estimate_counts,
    find_range,
    plan_hierarchy,
    read_levels,
)
from skdp.central._sums import (
    GRID,
    GroupSums,
    NoisySums,
    add_sampling,
    list_unknown_deviations,
    sum_by_cells,
    sum_columns,
)
from skdp.central.statistics import (
    DURATION,
    Batches,
    CategorySearch,
    Noise,
    declared_domain,
    is_ordered,
    make_frame,
    make_label_decoders,
    to_float,
    to_times,
)
from skdp.domain import (
    DEFAULT_BINS,
    Domain,
    DomainLike,
    FoundCategories,
    Interval,
    close_interval,
    widen_interval,
)
from skdp.oracles import project_to_simplex
from skdp.privacy import Mu, PrivacyBudget, PrivacyLedger, Rho, parse_budget
from skdp.randomness import ByteSource

Method = Literal["auto", "flat", "hierarchical"]

# Largest number of cells, which take about 50 bytes each.
MAX_CELLS = 1 << 27

_COLUMNS = ("count", "std_error", "lower", "upper")


@dataclass(frozen=True, eq=False)
class CellCounts:
    """Exact counts of the cells of a domain, and their levels."""

    domain: Domain
    tree: Hierarchy
    counts: Integers
    # The cells in the order of `tree`; None if it is the order of the domain.
    order: Indices | None
    # The labels and the first cells of the groups of each level of the parameter `levels`.
    levels: Mapping[Any, tuple[list[Any], Indices]]


class DPHistogram(WeightedStatistic):
    """Estimate the number of records in each cell of a public domain with differential privacy.

    Parameters
    ----------
    epsilon : float, Rho or Mu, default=1.0
        Privacy loss of all counts together, finite and > 0. With `skdp.privacy.Rho` or
        `skdp.privacy.Mu`, the noise is Gaussian.
    delta : float, default=0.0
        Failure probability of values that are found: an upper bound of the probability that a value of one person only
        is found. It is not spent if `domain` declares all columns.
    domain : Domain, mapping of column name to values, list of values per column, or Interval
        The publicly known values of each column; an `Interval` cuts a numeric column into bins. A single `Interval` is
        for all columns. An open end of an `Interval`, such as ``Interval(0, None)``, is found with a third of the
        budget, and numbers beyond it are counted in the outer bin. A polars Enum needs no declaration, nor do ordered
        categories of pandas. None among the values declares missing as a value. Several columns are counted together: a
        cell is a combination of values. With a `delta`, values of columns that `domain` omits are found with a fifth of
        the budget: texts, whole numbers, booleans and missing values of many rows. All other values are counted as the
        value "(other)".
    method : {"auto", "flat", "hierarchical"}, default="auto"
        ``"flat"`` adds noise to the count of each cell. ``"hierarchical"``, for one column, also counts nested groups
        of neighboring cells with the same epsilon, and makes all counts consistent [1]_. Errors of single cells are
        larger, and errors of long ranges much smaller. ``"auto"`` selects the method with the smallest expected squared
        error of all ranges for one column of numbers or dates, and ``"flat"`` otherwise.
    levels : mapping of level name to mapping, optional
        For one column, groups of its values on higher levels: the first mapping maps each declared value to its group,
        such as a city to its region, the next one maps these groups to larger groups, and so on. The methods
        ``"auto"`` and ``"hierarchical"`` measure the counts of all levels, and ``"flat"`` adds up the counts of values,
        which is more accurate for values and less accurate for large groups.
    handle_unknown : {"error", "ignore"}, default="error"
        How `fit` handles an undeclared value. ``"error"`` reveals that such a value
        occurs; ``"ignore"`` excludes its record.
    max_weight : float, optional
        The largest `sample_weight` of a row, from public knowledge. The noise is proportional to it.
    confidence_level : float, default=0.95
        Coverage probability of each interval, between 0 and 1.
    max_rows_per_person : int, default=1
        Maximum number of rows of one person. The guarantee covers all of them, and noise is proportional to this
        number. With ``person``, `fit` excludes further rows at random; otherwise the number is not checked.
    ledger : PrivacyLedger, optional
        Ledger that `fit` charges before it draws noise.
    random_state : None or int, default=None
        None uses secure randomness. Pass an int for reproducible experiments only: the release is then not private.

    Attributes
    ----------
    counts_ : ndarray of int, shape (n_cells,)
        The noisy counts in the order of ``domain_.cells()``, in which the last column varies fastest. They may be
        negative. In a hierarchy they are the least-squares estimates, rounded so that each range changes by less
        than 1. With `sample_weight`, they are floats: sums of weights.
    std_error_ : ndarray of shape (n_cells,)
        The standard deviation of the noise of each count, before rounding.
    frequencies_ : ndarray of shape (n_cells,)
        Proportion of each cell: the nearest proportions that are nonnegative and sum to 1.
    domain_ : Domain
        The values of each column, declared or found, with the limits that are found in place of open ends.
    bounds_ : ndarray of shape (n_open, 2)
        The ends of the columns with an open end, declared or found. Defined only for such columns.
    method_ : {"flat", "hierarchical"}
        The method used.
    branching_ : int
        The number of neighboring cells in a group; all cells if the method is flat.
    guarantee_ : PrivacyGuarantee
        Guarantee of `fit`.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number of columns, and their names if all of them are strings.

    See Also
    --------
    DPMean : More accurate for the mean alone.

    Notes
    -----
    **Privacy.** Central model: the curator of the table is trusted. Adding or removing a record changes the
    distribution of all counts together by at most ``(epsilon, 0)``; replacing one by ``(2 epsilon, 0)``. With values
    that are found, the guarantee is ``(epsilon, delta)`` (:doc:`/guarantees/statistics`). `fit` reads the values of all
    columns. The number of records is protected too, and every cell gets noise, whether or not it occurs: a record
    changes one count by 1, so exact discrete Laplace noise of scale 1 / epsilon protects it; in a hierarchy of h levels
    it changes one count on each, and the scale is h / epsilon. Methods of the fitted histogram are post-processing,
    without privacy loss. The method used depends on the domain and epsilon only. Not covered: an error under
    ``handle_unknown="error"`` reveals that some value is undeclared.

    With `sample_weight`, counts are sums of weights between 0 and `max_weight`, and the noise is `max_weight` times as
    large.

    Intervals cover with the stated probability or a little more: they use the larger of the quantiles of a normal and
    of a Laplace distribution, of a normal one for Gaussian noise, and are rounded outward.

    References
    ----------
    .. [1] M. Hay, V. Rastogi, G. Miklau, D. Suciu (2010). Boosting the accuracy of differentially private histograms
       through consistency. PVLDB 3(1).

    Examples
    --------
    >>> from skdp import DPHistogram, Interval
    >>> from skdp.datasets import load_adult
    >>> adult = load_adult()
    >>> people = adult.frame
    >>> sexes = adult.domain.select(["sex"])
    >>> DPHistogram(epsilon=0.1, domain=sexes, random_state=0).fit(people[["sex"]]).to_frame().round(1)
            count  std_error  lower  upper
    sex
    Female  10766       14.1  10736  10796
    Male    21804       14.1  21774  21834

    >>> ages = DPHistogram(epsilon=0.1, domain=Interval(0, 128, bins=128), random_state=0).fit(people[["age"]])
    >>> ages.method_, ages.branching_
    ('hierarchical', 12)
    >>> ages.range_estimate(25, 65)
    Estimate(value=25550, std_error=72.74..., lower=25395, upper=25705)
    >>> int(people["age"].between(25, 64).sum())
    25655
    """

    counts_: NDArray[Any]
    _takes_categories = True
    _found_parameter = "domain"
    _finds_limits = True

    def __init__(
        self,
        epsilon: float | Rho | Mu = 1.0,
        *,
        delta: float = 0.0,
        domain: DomainLike | None = None,
        method: Method = "auto",
        levels: Mapping[Any, Mapping[Any, Any]] | None = None,
        handle_unknown: Unknown = "error",
        max_weight: float | None = None,
        confidence_level: float = 0.95,
        max_rows_per_person: int = 1,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.domain = domain
        self.method = method
        self.levels = levels
        self.handle_unknown = handle_unknown
        self.max_weight = max_weight
        self.confidence_level = confidence_level
        self.max_rows_per_person = max_rows_per_person
        self.ledger = ledger
        self.random_state = random_state

    def _allows_missing(self) -> bool:
        declared = isinstance(self.domain, Domain) and declares_missing(self.domain)
        return super()._allows_missing() or declared

    def _select_categories(self, rows: Batches) -> Batches:
        return super()._select_bounded(rows)

    def _plan_categories(
        self, rows: Batches, budget: PrivacyBudget
    ) -> CategorySearch | None:
        """Plan the search of values, of which so many are found that the cells fit into memory."""
        search = super()._plan_categories(rows, budget)
        if search is None:
            return None
        rows = replace(rows, found=search.placeholder)
        largest = MAX_CELLS / self._make_cells(rows, self._widen_open(rows)).size
        n_values = int(largest ** (1 / len(search.names)) + 1e-9)
        return replace(search, max_values=n_values - 1)

    def _select_bounded(self, rows: Batches) -> Batches:
        """Select the columns with an open end."""
        return rows.select([*self._find_open(rows)])

    def _find_open(self, rows: Batches) -> dict[Any, Interval]:
        """Find the declared intervals with an open end."""
        columns = super()._select_bounded(rows)
        return find_open_intervals(columns.table, self.domain)

    def _declared_bounds(self, names: Sequence[Any]) -> Any:
        declared = name_declared(names, self.domain)
        return [declared[name].ends for name in names] or None

    def _plan(
        self, rows: Batches, budget: PrivacyBudget, bounds: Floats
    ) -> Plan[CellCounts]:
        """Plan the counts of a domain with the widest intervals for open ends."""
        return self._plan_cells(rows, budget, self._widen_open(rows))

    def _widen_open(self, rows: Batches) -> dict[Any, Interval]:
        """Return the widest intervals for intervals with an open end."""
        closed = {}
        for name, interval in self._find_open(rows).items():
            closed[name] = widen_interval(interval, bins=DEFAULT_BINS)
        return closed

    def _replan(
        self,
        plan: Plan[Any],
        rows: Batches,
        search: LimitSearch | CategorySearch,
        bounds: Floats,
    ) -> Plan[CellCounts]:
        closed = {}
        intervals = self._find_open(rows).items()
        # Without an open end, there are no bounds.
        ends_of_columns = bounds.tolist() if intervals else []
        for (name, interval), ends in zip(intervals, ends_of_columns, strict=True):
            closed[name] = close_interval(interval, *ends, bins=DEFAULT_BINS)
        return self._plan_cells(rows, search.rest, closed)

    def _make_cells(self, rows: Batches, closed: Mapping[Any, Interval]) -> Domain:
        """Make the domain of the cells; `closed` replaces the intervals with an open end."""
        columns = super()._select_bounded(rows)
        declared = columns.add_found(self.domain)
        if closed:
            declared = {**name_declared(columns.names, declared), **closed}
        domain = declared_domain(columns.table, declared, "domain")
        if domain.size > MAX_CELLS:
            raise ValueError(
                f"`domain` must have at most {MAX_CELLS:,} cells, got {domain.size:,}. "
                "Use fewer columns or wider bins."
            )
        return domain

    def _plan_cells(
        self, rows: Batches, budget: PrivacyBudget, closed: Mapping[Any, Interval]
    ) -> Plan[CellCounts]:
        """Count the cells of the domain, and choose the levels of counts (`Hierarchy`), which share the budget.

        `closed` replaces the intervals with an open end; their numbers of bins do not depend on the limits.
        """
        check_choice("method", self.method, get_args(Method))
        check_confidence_level(self.confidence_level)
        max_weight = self._check_max_weight(rows)
        domain = self._make_cells(rows, closed)
        if self._library != "pandas":
            check_unique_names([*domain.columns, *_COLUMNS])
        method = _choose_method(self.method, domain, has_levels=self.levels is not None)
        order: Indices | None = None
        levels: dict[Any, tuple[list[Any], Indices]] = {}
        if self.levels is None:
            tree = plan_hierarchy(domain.size, budget, method)
        else:
            tree, order, levels = read_levels(domain, self.levels)
            if method == "flat":
                tree = Hierarchy(domain.size)
        # Labels that a table cannot contain raise an error before the charge.
        for name, (labels, _) in levels.items():
            make_label_decoders(Domain({name: labels}), self._library)
        make_label_decoders(domain, self._library)
        n_levels = len(tree.sizes)
        step = 1 if max_weight is None else GRID
        noise = Noise.from_budget(budget / n_levels, step)
        (sums,) = sum_by_cells(
            rows,
            domain,
            [range(len(domain.columns))],
            np.empty((0, 2)),
            self.handle_unknown,
            name="domain",
            max_weight=max_weight,
        )
        mechanism = noise.name
        if n_levels > 1:
            mechanism += f" on {n_levels} levels"
        counts = sums.rows // (GRID // step)
        if order is not None:
            counts = counts[order]
        return Plan(
            CellCounts(domain, tree, counts, order, levels),
            budget,
            (noise,),
            mechanism,
            # One record changes one count of each level by 1.
            (replace(noise.loss, count=n_levels),),
        )

    def _release(self, plan: Plan[CellCounts], source: ByteSource) -> None:
        """Add noise to the counts of all levels, and set the counts of cells that fit them best."""
        exact, tree, order = plan.exact, plan.exact.tree, plan.exact.order
        self.domain_ = exact.domain
        (noise,) = plan.noises
        noisy = tree.measure(exact.counts, noise, source)
        is_flat = len(tree.sizes) == 1
        self.method_ = "flat" if is_flat else "hierarchical"
        self.branching_ = tree.branching
        std_error = to_float(noise.std)
        max_weight = self.max_weight
        unit = 1.0 if max_weight is None else float(max_weight) / GRID
        self.std_error_ = np.sqrt(std_error**2 * tree.cell_variances) * unit
        estimates: NDArray[Any] = noisy[0] if is_flat else tree.estimate(noisy)
        if max_weight is not None:
            self.counts_ = estimates * unit
        elif is_flat:
            self.counts_ = noisy[0].astype(np.int64)
        else:
            self.counts_ = _round_all_ranges(estimates)
        self._levels: dict[Any, tuple[list[Any], Any, Any]] = {}
        for level, (name, (labels, starts)) in enumerate(exact.levels.items(), 1):
            totals = np.add.reduceat(self.counts_, starts)
            if is_flat:
                variances = np.add.reduceat(tree.cell_variances, starts)
            else:
                variances = tree.level_variances[level]
            errors = np.sqrt(std_error**2 * variances) * unit
            self._levels[name] = labels, totals, errors
        if order is not None:
            in_order = np.argsort(order)
            self.counts_ = self.counts_[in_order]
            self.std_error_ = self.std_error_[in_order]

    @property
    def frequencies_(self) -> Floats:
        """Proportion of each cell: the nearest proportions that are nonnegative and sum to 1."""
        check_is_fitted(self)
        total = self.counts_.sum()
        if total <= 0:
            return np.full(self.counts_.size, 1 / self.counts_.size)
        return project_to_simplex(self.counts_ / total, 1)

    def to_frame(
        self, level: ColumnName | None = None, *, design_effect: float | None = None
    ) -> Any:
        """Return the counts as a table.

        Parameters
        ----------
        level : name of a level, optional
            Return the counts of the groups of this level of `levels`, each the sum of the counts of its parts. By
            default, return the counts of the cells.
        design_effect : float, default=None
            If None, standard errors and intervals are for the counts of this table. Otherwise, they are for the
            expected counts in a sample of as many rows from a population, with the sampling variance of proportions
            times this factor: 1 for a simple random sample, and above 1 for a sample of clusters.

        Returns
        -------
        pandas.DataFrame, polars.DataFrame or pyarrow.Table
            Of the library of X, pandas for an array: a row for each cell, with ``count, std_error, lower, upper``. The
            values of the columns of X, or the bins of an `Interval`, are the index in pandas, and columns elsewhere.

        Raises
        ------
        ValueError
            If `level` is not a level, or `design_effect` is not a number of at least 0.
        """
        check_is_fitted(self)
        domain, counts, std_error = self.domain_, self.counts_, self.std_error_
        if level is not None:
            if level not in self._levels:
                raise ValueError(
                    f"`level` must be one of {list(self._levels)}, got {level!r}."
                )
            labels, counts, std_error = self._levels[level]
            domain = Domain({level: labels})
        estimate = self._estimate(counts, std_error, design_effect)
        table = dict(zip(_COLUMNS, estimate, strict=True))
        return make_frame(domain, table, self._library)

    def range_estimate(
        self,
        low: Hashable | None = None,
        high: Hashable | None = None,
        *,
        design_effect: float | None = None,
    ) -> Estimate:
        """Estimate the number of records from a lower bound up to an upper bound, which is excluded.

        Parameters
        ----------
        low, high : value or None, default=None
            Endpoints of the range; None for no bound. The endpoints must be edges of bins for an `Interval`, whose last
            bin includes its upper edge; any numbers or dates for a column of these; and otherwise declared values. A
            range does not contain missing values.
        design_effect : float, default=None
            Factor of the sampling variance, as in `to_frame`.

        Returns
        -------
        Estimate
            The sum of the counts as ``value``, with its ``std_error`` and the endpoints ``lower`` and ``upper`` of its
            interval.

        Raises
        ------
        TypeError, ValueError
            If an endpoint is not in the domain, there are several columns, or `design_effect` is not a number of at
            least 0.
        """
        check_is_fitted(self)
        if len(self.domain_.columns) > 1:
            raise ValueError(
                "`range_estimate` requires a histogram of one column, got columns "
                f"{list(self.domain_.columns)}."
            )
        if self._levels:
            raise ValueError(
                "`range_estimate` requires a histogram without `levels`, got levels "
                f"{list(self._levels)}. Use to_frame(level)."
            )
        (name,) = self.domain_.columns
        in_range = find_range(name, self.domain_[name], low, high)
        total = self.counts_[in_range].sum().item()
        tree = Hierarchy.even(self.counts_.size, self.branching_)
        variance_of_level = self.std_error_[0] ** 2 / tree.cell_variances[0]
        std_error = math.sqrt(variance_of_level * tree.variance(in_range))
        value, std_error, *bounds = self._estimate(total, std_error, design_effect)
        return Estimate(value, float(std_error), *(bound.item() for bound in bounds))

    def _estimate(
        self,
        counts: NDArray[Any],
        std_error: float | Floats,
        design_effect: float | None,
    ) -> Estimate:
        """Return counts with errors and intervals, for this table or for a population."""
        level = check_confidence_level(self.confidence_level)
        # A search of values may have Gaussian noise beside Laplace noise on the counts.
        is_gaussian = isinstance(self.epsilon, Rho | Mu)
        return estimate_counts(
            counts,
            std_error,
            level,
            NORMAL if is_gaussian else K_NORM,
            n_rows=float(self.counts_.sum()),
            design_effect=self._find_sampling_factor(design_effect),
        )


def plan_margin_of_error(histogram: DPHistogram, domain: Domain, level: float) -> float:
    """Return the margin of error of the least accurate count of `to_frame`, for planning before `fit`."""
    budget = replace(
        parse_budget(histogram.epsilon), rows_per_person=histogram.max_rows_per_person
    )
    method = _choose_method(histogram.method, domain)
    tree = plan_hierarchy(domain.size, budget, method)
    std_error = count_std(budget, len(tree.sizes))
    std_error *= math.sqrt(tree.cell_variances.max())
    distribution = Noise.from_budget(budget).distribution
    *_, lower, upper = estimate_counts(0, std_error, level, distribution)
    return float(upper - lower) / 2


def _choose_method(method: str, domain: Domain, *, has_levels: bool = False) -> str:
    """Return the method for a domain: flat counts if its cells have no order and no levels."""
    are_found = any(isinstance(values, FoundCategories) for values in domain.values())
    if are_found and (has_levels or method == "hierarchical"):
        raise ValueError(
            "`domain` must declare all values with `levels` or method='hierarchical', "
            "because values that are found have no order, got a column without values."
        )
    if has_levels:
        return method
    if len(domain.columns) > 1 and method == "hierarchical":
        raise ValueError(
            "`method` must be 'auto' or 'flat' for several columns, whose cells have "
            "no order, got 'hierarchical'."
        )
    ordered = len(domain.columns) == 1 and is_ordered(domain[domain.columns[0]])
    return method if ordered or method != "auto" else "flat"


def _round_all_ranges(estimates: Floats) -> Integers:
    """Round estimates of cells so that each sum of neighboring cells changes by less than 1."""
    sums = np.floor(np.cumsum(estimates) + 0.5).astype(np.int64)
    return np.diff(sums, prepend=0)


class DPMean(WeightedStatistic):
    """Estimate the means of numeric columns with differential privacy.

    For each column, noisy sums of the distances of its values to both bounds are
    released, jointly for all columns [1]_; their ratio determines the mean.

    Parameters
    ----------
    epsilon : float, Rho or Mu, default=1.0
        Privacy loss of all columns together, finite and > 0. With `skdp.privacy.Rho` or
        `skdp.privacy.Mu`, the noise is Gaussian.
    bounds : pair of float, mapping of column name to pair, array-like of shape (n_features, 2), or Domain, optional
        Bounds (low, high) of all columns or of each column, from public knowledge. Values outside are clipped. An end
        that is None, such as in (0, None), is found with a third of the budget; None alone finds all ends. Bounds of
        dates and durations are dates and ``timedelta``.
    max_weight : float, optional
        The largest `sample_weight` of a row, from public knowledge. The noise is proportional to it.
    confidence_level : float, default=0.95
        The coverage of `interval_`, between 0 and 1.
    max_rows_per_person : int, default=1
        Maximum number of rows of one person. The guarantee covers all of them, and noise is proportional to this
        number. With ``person``, `fit` excludes further rows at random; otherwise the number is not checked.
    ledger : PrivacyLedger, optional
        Ledger that `fit` charges before it draws noise.
    random_state : None or int, default=None
        None uses secure randomness. Pass an int for reproducible experiments only: the release is then not private.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        The noisy means, between the bounds. Dates are days since 1970, and durations numbers of days; `to_frame`
        converts them. All columns have one type.
    std_error_ : ndarray of shape (n_features,)
        The standard deviation of the noise. It does not include the sampling error of a population.
    interval_ : ndarray of shape (n_features, 2)
        Confidence interval of the mean of the values clipped to declared bounds. Where a limit is found, it is longer
        by the expected bias of the rows beyond this limit.
    bounds_ : ndarray of shape (n_features, 2)
        The declared bounds, and limits that are found.
    guarantee_ : PrivacyGuarantee
        Guarantee of `fit`.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number of columns, and their names if all of them are strings.

    See Also
    --------
    discover_domain : Find bounds with differential privacy.

    Notes
    -----
    **Privacy.** Central model: the curator of the table is trusted. Adding or removing a record changes the
    distribution of the fitted attributes by at most ``(epsilon, 0)``; replacing one by ``(2 epsilon, 0)``. The
    number of values in each column is protected, too: missing values are excluded, and an empty table is allowed.
    Values are placed on a grid of 2**30 steps between the bounds and summed as integers, and noise is drawn
    exactly: discrete K-norm noise for the convex hull of the contributions of one record to all sums. For a single
    column this is Laplace noise on two sums.

    With `sample_weight`, each sum has weights between 0 and `max_weight`, the noise of the sums is proportional to
    `max_weight`, and `mean_` is a weighted mean.

    `interval_` is for the mean of the values clipped to declared bounds, so the bias of bounds from `discover_domain`
    is unknown. Limits are found by a choice among public windows and by noisy counts (:doc:`/guarantees/statistics`),
    and a warning states that many rows may be beyond them. Without a warning, 96 % of the intervals of 95 % contained
    the mean of ordinary public columns, but as few as 7 % that of a heavy tail, such as Pareto with the exponent 1.5,
    whose few largest values noise hides: declare bounds for it.

    References
    ----------
    .. [1] M. Hardt, K. Talwar (2010). On the geometry of differential privacy. STOC.

    Examples
    --------
    >>> from skdp import DPMean
    >>> from skdp.datasets import load_adult
    >>> ages = load_adult().frame[["age"]]
    >>> mean = DPMean(epsilon=0.1, bounds=(0, 100), random_state=0).fit(ages)
    >>> mean.mean_.round(2), ages.to_numpy().mean().round(2)
    (array([38.6]), np.float64(38.58))
    >>> mean.to_frame().round(2)
            mean  std_error  lower  upper
    column
    age     38.6       0.03  38.54  38.67
    >>> print(mean.guarantee_)
    epsilon = 0.1, central model, adding or removing one record's values of: age,
    NOT SECURE: the randomness comes from a seed
    """

    _finds_limits = True
    _takes_times = True

    def __init__(
        self,
        epsilon: float | Rho | Mu = 1.0,
        *,
        bounds: Bounds | None = None,
        max_weight: float | None = None,
        confidence_level: float = 0.95,
        max_rows_per_person: int = 1,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.bounds = bounds
        self.max_weight = max_weight
        self.confidence_level = confidence_level
        self.max_rows_per_person = max_rows_per_person
        self.ledger = ledger
        self.random_state = random_state

    def _plan(
        self, rows: Batches, budget: PrivacyBudget, bounds: Floats
    ) -> Plan[GroupSums]:
        """Compute exact sums and numbers of values of all columns, and one noise for all these numbers."""
        check_confidence_level(self.confidence_level)
        kinds = {self._times.get(name) == DURATION for name in self._times}
        n_columns = len(rows.names) - rows.is_weighted
        if self._times and (len(self._times) < n_columns or len(kinds) > 1):
            raise ValueError(
                "X must have columns of one type, dates, durations or numbers, got dates "
                f"or durations in {list(self._times)} only. Use DPGroupBy(by=None)."
            )
        max_weight = self._check_max_weight(rows)
        sums = sum_columns(rows, bounds, max_weight=max_weight, squares=False)
        # A row changes the sum and the number of values of each column.
        noise = Noise.joint(budget, GRID, 2 * len(sums.bounds))
        return Plan(sums, budget, (noise,))

    def _release(self, plan: Plan[GroupSums], source: ByteSource) -> None:
        """Add noise to the sums, and set the means with standard errors and confidence intervals."""
        (noise,), sums = plan.noises, plan.exact
        level = check_confidence_level(self.confidence_level)
        noisy = NoisySums.draw(sums.numbers(), sums.bounds, noise, source)
        estimate = noisy.estimate_means(level)
        n_values = noisy.counts[0] * (self.max_weight or 1.0) / GRID
        # For the sampling errors of `to_frame`: the numbers of values, and upper estimates of
        # their variances.
        self._moments = np.array([n_values, noisy.bound_variances(level)[0]])
        if (beyond := vars(self).get("_beyond")) is not None:
            # The interval contains the expected bias of the limits.
            down, up = beyond[:, 2:].T / np.maximum(n_values, 1.0)
            estimate = estimate._replace(
                lower=estimate.lower - down, upper=estimate.upper + up
            )
        self.mean_, self.std_error_ = estimate.value[0], estimate.std_error[0]
        self.interval_ = np.column_stack([estimate.lower[0], estimate.upper[0]])

    def to_frame(self, *, design_effect: float | None = None) -> Any:
        """Return the means as a table.

        Parameters
        ----------
        design_effect : float, default=None
            If None, standard errors and intervals are for the means of this table. Otherwise, they are for a population
            from which the rows are a sample, with the sampling variance times this factor, such as 1 for a simple
            random sample. This requires columns with the bounds (0, 1), whose means are proportions, because deviations
            are not released.

        Returns
        -------
        pandas.DataFrame, polars.DataFrame or pyarrow.Table
            Table in the library of X (pandas for an array) with a row for each column of X, and the columns ``mean``,
            ``std_error``, ``lower`` and ``upper``. If limits are found, ``beyond`` is the noisy number of rows beyond
            them, and ``beyond_std_error`` its standard error. The names of the columns of X are the index in pandas,
            and the column ``column`` elsewhere.

        Raises
        ------
        ValueError
            If `design_effect` is not a number of at least 0, or requires deviations.
        """
        check_is_fitted(self)
        estimate = Estimate(self.mean_, self.std_error_, *self.interval_.T)
        factor = self._find_sampling_factor(design_effect)
        if factor:
            unknown = list_unknown_deviations(self.guarantee_.scope, self.bounds_)
            if unknown:
                raise ValueError(
                    f"`design_effect` requires the standard deviations of {unknown}, which "
                    "DPMean does not release. Use DPGroupBy(by=None) with 'mean' and 'std' "
                    "in `statistics`."
                )
            # Estimators of earlier versions do not have these moments.
            n_values, variance = vars(self).get("_moments", np.full((2, 1), np.nan))
            level = check_confidence_level(self.confidence_level)
            degrees = np.maximum(n_values / factor - 1, 1.0)
            errors = np.sqrt(variance / degrees)
            estimate = add_sampling(estimate, errors, degrees, level)
            estimate = estimate.clip(*self.bounds_.T)
        parts: Any = estimate
        kinds = set(self._time_columns.values())
        if kinds:
            is_length = [kinds == {DURATION}, True]
            parts = [
                to_times(part, is_duration=is_length[index == 1])
                for index, part in enumerate(estimate)
            ]
        columns = dict(zip(("mean", *_COLUMNS[1:]), parts, strict=True))
        if (found := vars(self).get("_beyond")) is not None:
            columns |= {"beyond": found[:, 0], "beyond_std_error": found[:, 1]}
        names = self.guarantee_.scope[: self.n_features_in_]
        if self._library == "pandas":  # whose names may be tuples
            index = pd.Index(names, name="column", tupleize_cols=False)
            return pd.DataFrame(columns, index=index)
        return make_frame(Domain({"column": names}), columns, self._library)
