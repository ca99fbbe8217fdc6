"""Means of numeric columns, and counts, means and sums by group."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from skdp._arrays import Floats
from skdp.base import (
    Bounds,
    ColumnName,
    check_choice,
    check_confidence_level,
    check_flag,
    find_decimals,
    parse_bounds,
)
from skdp.central._base import Plan, Unknown, WeightedStatistic, check_unique_names
from skdp.central._quantiles import (
    GroupQuantiles,
    make_candidates,
    read_masses,
    read_probability,
)
from skdp.central._ranges import count_interval
from skdp.central._sums import (
    GRID,
    GroupSums,
    NoisySums,
    clip_floats,
    count_noisy_numbers,
    estimate_means,
    estimate_sums,
    sum_by_cells,
    sum_columns,
    warn_of_objects,
)
from skdp.central.statistics import (
    MAX_NOISY_COUNT,
    Batches,
    Estimate,
    Noise,
    declared_domain,
    library_of,
    make_frame,
    to_float,
)
from skdp.domain import Domain, DomainLike
from skdp.privacy import Loss, Mu, PrivacyBudget, PrivacyLedger, Rho
from skdp.randomness import ByteSource
from skdp.tables import to_objects


class DPMean(WeightedStatistic):
    """Estimate the means of numeric columns with differential privacy.

    For each column, noisy sums of the distances of its values to both bounds are
    released, jointly for all columns [1]_; their ratio determines the mean.

    Parameters
    ----------
    epsilon : float, Rho or Mu, default=1.0
        Privacy loss of all columns together, finite and > 0. With `skdp.privacy.Rho` or
        `skdp.privacy.Mu`, the noise is Gaussian.
    bounds : pair of float, mapping of column name to pair, array-like of shape (n_features, 2), or Domain
        Bounds (low, high) of all columns or of each column, from public knowledge. Values outside
        are clipped.
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
        The noisy means, between the bounds.
    std_error_ : ndarray of shape (n_features,)
        The standard deviation of the noise. It does not include the sampling error of a population.
    interval_ : ndarray of shape (n_features, 2)
        Confidence interval of the mean of the clipped values of each column, within the bounds.
    bounds_ : ndarray of shape (n_features, 2)
        The declared bounds.
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

    `interval_` is for the mean of the values clipped to the bounds. If the bounds are from `discover_domain`, the bias
    of clipping is unknown.

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
    (array([38.63]), np.float64(38.58))
    >>> mean.to_frame().round(2)
             mean  std_error  lower  upper
    column
    age     38.63       0.03  38.56  38.69
    >>> print(mean.guarantee_)
    epsilon = 0.1, central model, adding or removing one record's values of: age,
    NOT SECURE: the randomness comes from a seed
    """

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

    def _plan(self, rows: Batches, budget: PrivacyBudget, bounds: Any) -> Plan:
        """Compute exact sums and numbers of values of all columns, and one noise for all these numbers."""
        check_confidence_level(self.confidence_level)
        max_weight = self._check_max_weight(rows)
        sums = sum_columns(rows, bounds, max_weight=max_weight)
        size = count_noisy_numbers(len(sums.bounds), squares=False, shared_count=False)
        exact = sums, library_of(rows.table)
        return Plan(exact, (Noise.joint(budget, GRID, size),))

    def _release(self, plan: Plan, source: ByteSource) -> None:
        """Add noise to the sums, and set the means with standard errors and confidence intervals."""
        (noise,) = plan.noises
        sums, self._library = plan.exact
        level = check_confidence_level(self.confidence_level)
        noisy = NoisySums.draw(sums, noise, source)
        estimate = estimate_means(noisy, sums.bounds, noise, level)
        self.mean_, self.std_error_ = estimate.value[0], estimate.std_error[0]
        self.interval_ = np.column_stack([estimate.lower[0], estimate.upper[0]])

    def to_frame(self) -> Any:
        """Return the means as a table.

        Returns
        -------
        pandas.DataFrame, polars.DataFrame or pyarrow.Table
            Table in the library of X (pandas for an array) with a row for each column of X, and the columns ``mean``,
            ``std_error``, ``lower`` and ``upper``. The names of the columns of X are the index in pandas, and the
            column ``column`` elsewhere.
        """
        check_is_fitted(self)
        lower, upper = self.interval_.T
        columns = {"mean": self.mean_, "std_error": self.std_error_}
        columns |= {"lower": lower, "upper": upper}
        names = self.guarantee_.scope[: self.n_features_in_]
        return make_frame(Domain({"column": names}), columns, self._library)


Statistic = Literal["count", "mean", "sum", "median"] | float

SUFFIXES = ("", "_std_error", "_lower", "_upper")


class DPGroupBy(WeightedStatistic):
    """Estimate the number of rows, means, sums and quantiles of groups with differential privacy.

    All declared groups are released, including groups without rows.

    Parameters
    ----------
    epsilon : float, Rho or Mu, default=1.0
        Privacy loss of all groups and statistics together, finite and > 0. With
        `skdp.privacy.Rho` or `skdp.privacy.Mu`, the noise is Gaussian.
    by : column name, list of column names, or None
        Key columns: a group has the rows with the same values in these columns. All other columns of X must be numbers.
        None makes one group of all rows.
    keys : Domain, mapping of column name to values, list of values per column, or Interval
        The values of each key column, as the `domain` of `DPHistogram`: declared from public knowledge, or found
        by `discover_domain`. The groups are all combinations. None among the values declares missing as a key.
    bounds : pair of float, mapping of column name to pair, array-like of shape (n_columns, 2), or Domain
        Bounds (low, high) of all columns except the keys, or of each of them, from public knowledge or from
        `discover_domain`. Values outside are clipped. Two integers more than 1 apart declare whole numbers, so that
        quantiles are whole numbers; use floats otherwise.
    statistics : {"count", "mean", "sum", "median"}, float, or list of these, default=("count", "mean")
        The statistics to release: the number of rows of each group, and for each column in it the mean, the sum, the
        median, or the quantile of a probability, such as 0.25.
    handle_unknown : {"error", "ignore"}, default="error"
        How `fit` handles an undeclared key. ``"error"`` reveals that such a key occurs; ``"ignore"`` excludes its row.
    max_weight : float, optional
        The largest `sample_weight` of a row, from public knowledge. The noise is proportional to it.
    intervals : bool, default=True
        If False, quantiles have no intervals, which get two thirds of the budget of quantiles otherwise. Other
        intervals are free.
    confidence_level : float, default=0.95
        The coverage of each interval, between 0 and 1.
    max_rows_per_person : int, default=1
        Maximum number of rows of one person. The guarantee covers all of them, and noise is proportional to this
        number. With ``person``, `fit` excludes further rows at random; otherwise the number is not checked.
    ledger : PrivacyLedger, optional
        Ledger that `fit` charges before it draws noise.
    random_state : None or int, default=None
        None uses secure randomness. Pass an int for reproducible experiments only: the release is then not private.

    Attributes
    ----------
    estimates_ : dict of str to ndarray of shape (n_groups, 4)
        For ``"count"``, ``"<column>_mean"``, ``"<column>_sum"``, ``"<column>_median"`` and ``"<column>_q25"`` (for
        0.25): the noisy statistic of each group, the standard deviation of its noise (nan for quantiles), and its
        interval, for the clipped values of this table.
    keys_ : list of ndarray of object, each of shape (n_groups,)
        For each key column, the value of each group; of an `Interval`, the name of the bin.
    bounds_ : ndarray of shape (n_columns, 2)
        The bounds.
    guarantee_ : PrivacyGuarantee
        Guarantee of `fit`.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number of columns, and their names if all of them are strings.

    See Also
    --------
    DPHistogram : Counts with hierarchies and ranges.
    DPMean : Means of whole columns.
    DPQuantileTransformer : Many quantiles of whole columns.

    Notes
    -----
    **Privacy.** Central model: the curator of the table is trusted. Adding or removing a record changes the
    distribution of the fitted attributes by at most ``(epsilon, 0)``; replacing one by ``(2 epsilon, 0)``. The
    number of rows of each group is protected too. Values are placed on a grid of 2**30 steps between the bounds and
    summed as integers, and noise is drawn exactly. Not covered: an error under ``handle_unknown="error"`` reveals
    that some key is not declared.

    A record is in one group. It changes the number of rows of the group by 1. For each column, it changes the number of
    values by at most 1, and the sum of their distances from the middle of the bounds by at most half of the width of
    the bounds. In these units, all numbers of a group get noise of the K-norm mechanism of the maximum norm ([1]_), in
    one draw. Each group gets all of epsilon, because groups have no record in common. The k rows of a person may be in
    several groups. The largest changes of these groups add up to at most k, so the noise is k times as large.

    With `sample_weight`, counts and sums are of weights between 0 and `max_weight`, and their noise is `max_weight`
    times as large. Quantiles have no weights.

    With quantiles, counts, means and sums together get half of the budget, and quantiles the other half. Quantiles are
    chosen by the exponential mechanism among all numbers between the bounds, as in `DPKBinsDiscretizer`. With
    `intervals`, a third of their budget is for the quantiles, and the remainder is divided equally among the endpoints
    of all intervals. An endpoint is chosen in the same way among few numbers on one side of the quantile, for a rank
    that is so far outside that the interval covers the quantile of this table with the stated probability, for any
    values ([2]_). Few quantiles therefore have narrower intervals: with one column and a median, an endpoint is about
    20 / epsilon to 30 / epsilon values away from it.

    References
    ----------
    .. [1] M. Hardt, K. Talwar (2010). On the geometry of differential privacy. STOC.
    .. [2] J. Drechsler, I. Globus-Harris, A. McMillan, J. Sarathy, A. Smith (2022). Nonparametric differentially
       private confidence intervals for the median. Journal of Survey Statistics and Methodology 10(3).

    Examples
    --------
    >>> from skdp import DPGroupBy
    >>> from skdp.datasets import load_adult
    >>> adult = load_adult()
    >>> people = adult.data[["sex", "hours-per-week"]]
    >>> sexes = {"sex": ["Female", "Male"]}
    >>> groups = DPGroupBy(0.1, by="sex", keys=sexes, bounds=(0, 100), random_state=0).fit(people)
    >>> groups.to_frame().iloc[:, [0, 4, 5]].round(2)
            count  hours-per-week_mean  hours-per-week_mean_std_error
    sex
    Female  10790                36.48                           0.12
    Male    21781                42.41                           0.06

    >>> hours = DPGroupBy(by="sex", keys=sexes, statistics=["median", 0.9], bounds=(0, 100), random_state=0).fit(people)
    >>> hours.to_frame().filter(like="q90").rename(columns=lambda name: name[15:])
             q90  q90_lower  q90_upper
    sex
    Female  48.0       45.0       51.0
    Male    59.0       56.0       60.0
    """

    _takes_categories = True

    def __init__(
        self,
        epsilon: float | Rho | Mu = 1.0,
        *,
        by: ColumnName | Sequence[ColumnName] | None,
        keys: DomainLike | None = None,
        bounds: Bounds | None = None,
        statistics: Statistic | Sequence[Statistic] = ("count", "mean"),
        handle_unknown: Unknown = "error",
        max_weight: float | None = None,
        intervals: bool = True,
        confidence_level: float = 0.95,
        max_rows_per_person: int = 1,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.by = by
        self.keys = keys
        self.bounds = bounds
        self.statistics = statistics
        self.handle_unknown = handle_unknown
        self.max_weight = max_weight
        self.intervals = intervals
        self.confidence_level = confidence_level
        self.max_rows_per_person = max_rows_per_person
        self.ledger = ledger
        self.random_state = random_state

    def _allows_missing(self) -> bool:
        return True  # except in keys

    def to_frame(self) -> Any:
        """Return the groups as a table.

        Returns
        -------
        pandas.DataFrame, polars.DataFrame or pyarrow.Table
            Table in the library of X (pandas for an array) with a row for each group:
            its keys, as columns, or in pandas as the index; and for each statistic the
            columns ``<statistic>``, ``<statistic>_std_error``, ``<statistic>_lower``
            and ``<statistic>_upper``. Quantiles have no standard error.
        """
        check_is_fitted(self)
        columns: dict[str, NDArray[Any]] = {}
        for name, estimate in self.estimates_.items():
            for suffix, column in zip(SUFFIXES, estimate.T, strict=True):
                if not np.isnan(column).all():
                    columns[name + suffix] = column
        if "count" in columns and not self._is_weighted:
            for suffix in ("", "_lower", "_upper"):
                columns[f"count{suffix}"] = columns[f"count{suffix}"].astype(np.int64)
        return make_frame(self._domain, columns, self._library)

    @property
    def _key_names(self) -> list[Any]:
        """The parameter `by` as a list."""
        if self.by is None:
            return []
        return list(self.by) if isinstance(self.by, list) else [self.by]

    @property
    def _statistics(self) -> list[Any]:
        """The parameter `statistics` as a list."""
        statistics: Any = self.statistics
        is_single = isinstance(statistics, str | Real)
        return [statistics] if is_single else list(statistics)

    @property
    def _probabilities(self) -> dict[str, Fraction]:
        """The probability of each quantile, by the end of its name."""
        probabilities = {}
        for statistic in self._statistics:
            if statistic == "median":
                probabilities["median"] = Fraction(1, 2)
            elif isinstance(statistic, Real):
                probability = read_probability(statistic, "statistics")
                probabilities[f"q{float(100 * probability):g}"] = probability
        return probabilities

    def _select_bounded(self, rows: Batches) -> Batches:
        """Check `by` and `statistics`, and select the columns that are measured: all except the keys."""
        keys, statistics = self._key_names, self._statistics
        names = super()._select_bounded(rows).names
        unknown = [name for name in keys if name not in names]
        if unknown:
            raise ValueError(
                f"`by` must name columns of X, {list(names)}, got {unknown}."
            )
        if (not keys and self.by is not None) or len(set(keys)) < len(keys):
            raise ValueError(
                f"`by` must name at least one column, and none twice, got {keys}."
            )
        for statistic in statistics:
            if not isinstance(statistic, Real):
                check_choice(
                    "statistics", statistic, ("count", "mean", "sum", "median")
                )
        # "median" is the quantile 0.5.
        distinct = {0.5 if name == "median" else name for name in statistics}
        if len(distinct) < len(statistics):
            raise ValueError(
                f"`statistics` must not name a statistic twice, got {statistics}."
            )
        measured = [name for name in names if name not in keys]
        if statistics == ["count"]:
            measured = []
        results = self._result_names(measured)
        if not results:
            raise ValueError(
                f"X must have columns besides the keys {keys} for "
                f"statistics={self.statistics!r}, got none."
            )
        check_unique_names([*keys, *results])
        return rows.select(measured)

    def _result_names(self, measured: Sequence[Any]) -> list[Any]:
        """Return the names of the columns of `to_frame`, without the keys."""
        names = ["count"] if "count" in self._statistics else []
        statistics = [name for name in ("mean", "sum") if name in self._statistics]
        for column in measured:
            for statistic in [*statistics, *self._probabilities]:
                names.append(f"{column}_{statistic}")
        return [name + suffix for name in names for suffix in SUFFIXES]

    def _declared_bounds(self, names: Sequence[Any]) -> Any:
        return None if self._statistics == ["count"] else self.bounds

    def _plan(self, rows: Batches, budget: PrivacyBudget, bounds: Any) -> Plan:
        """Count the rows, and sum the bounded columns, in each cell of the declared keys; choose the noise.

        The plan has these exact sums and the planned quantiles; `_release` adds the noise. `bounds` is None if only
        rows are counted. Missing values are not counted, and neither are Python objects other than numbers, with a
        warning.
        """
        check_confidence_level(self.confidence_level)
        check_flag("intervals", self.intervals)
        measured = self._select_bounded(rows)
        warn_of_objects(measured.table)
        names = measured.names
        bounds = parse_bounds(bounds, names) if names else np.empty((0, 2))
        keys = rows.select(self._key_names)
        domain = declared_domain(keys.table, self.keys if keys.names else {}, "keys")

        # Counts, means and sums; quantiles; and their intervals have a part of the budget each.
        has_sums = not {"count", "mean", "sum"}.isdisjoint(self._statistics)
        probabilities = list(self._probabilities.values())
        max_weight = self._check_max_weight(rows)
        if probabilities and max_weight is not None:
            raise ValueError(
                "`statistics` must not contain quantiles if rows have weights, got "
                f"{self._statistics}. Weights apply to counts, means and sums."
            )
        part = budget / (has_sums + bool(probabilities))
        noises: list[Noise] = []
        mechanisms: list[str] = []
        losses: tuple[Loss, ...] = ()

        is_summed = not {"mean", "sum"}.isdisjoint(self._statistics)
        summed = names if is_summed else ()
        weight = rows.names[-1:] if max_weight is not None else ()
        sums = None
        if has_sums or domain.columns:  # also finds undeclared keys
            columns = [*domain.columns, *summed, *weight]
            (sums,) = sum_by_cells(
                rows.select(columns or rows.names[:1]),
                domain,
                [range(len(domain.columns))],
                bounds[: len(summed)],
                self.handle_unknown,
                "keys",
                missing=True,
                max_weight=max_weight,
            )
        if has_sums:
            noise = self._noise(part, len(summed), max_weight is not None)
            noises.append(noise)
            statistics = "counts and sums" if summed else "counts"
            mechanisms.append(f"{noise.name} on {statistics} of groups")
            losses += (noise.loss,)
        quantiles = None
        if probabilities:
            decimals = find_decimals(self.bounds, names)
            candidates = make_candidates(bounds, decimals)
            masses = read_masses(
                rows.select([*domain.columns, *names]), domain, candidates
            )
            quantiles = GroupQuantiles(masses, probabilities, part, self.intervals)
            mechanisms.append(quantiles.mechanism)
            losses = (*losses, *quantiles.losses) if quantiles.losses else ()
        library = library_of(rows.table)
        exact = sums, domain, library, (names, summed), quantiles, max_weight
        return Plan(exact, tuple(noises), "; ".join(mechanisms), losses)

    def _noise(self, budget: PrivacyBudget, n_columns: int, is_weighted: bool) -> Noise:
        """Return the noise of the sums of all groups; a record changes the sums of one group.

        `n_columns` is the number of columns that are summed; for 0, it is the noise of counts.
        """
        if not n_columns:
            return Noise.from_budget(budget, GRID if is_weighted else 1)
        size = count_noisy_numbers(n_columns, squares=False, shared_count=False)
        return Noise.joint(budget, GRID, size + ("count" in self._statistics))

    def _release(self, plan: Plan, source: ByteSource) -> None:
        """Add noise to the numbers of each group, and set the estimates with standard errors and intervals."""
        sums, self._domain, self._library, columns, quantiles, max_weight = plan.exact
        names, summed = columns
        self._is_weighted = max_weight is not None
        labels = [self._domain[name].labels for name in self._domain.columns]
        self.keys_ = list(map(to_objects, zip(*product(*labels), strict=True)))
        level = check_confidence_level(self.confidence_level)
        self.estimates_ = {}
        by_statistic: dict[str, Estimate] = {}
        if plan.noises:
            by_statistic = self._release_sums(
                sums, summed, plan.noises[0], source, max_weight=max_weight
            )
        if quantiles is not None:
            drawn = quantiles.draw(level, source)
            for index, name in enumerate(self._probabilities):
                parts = [part[:, :, index] for part in drawn]
                by_statistic[name] = Estimate(*parts)
        for column, name in enumerate(names):
            for statistic, estimate in by_statistic.items():
                parts = [part[:, column] for part in estimate]
                self.estimates_[f"{name}_{statistic}"] = np.column_stack(parts)

    def _release_sums(
        self,
        sums: GroupSums,
        names: Sequence[Any],
        noise: Noise,
        source: ByteSource,
        *,
        max_weight: float | None,
    ) -> dict[str, Estimate]:
        """Add noise to the counts and sums of each group, set the counts, and return the means and sums."""
        # One block of noise for each group. The first number is the number of rows, in units
        # of the sums if there are sums.
        unit = sums.count_unit if names else 1
        exact = sums.numbers(squares=False, shared_count=False)
        n_counts = 0
        if "count" in self._statistics:
            exact = np.hstack([sums.rows[:, np.newaxis].astype(object) * unit, exact])
            n_counts = 1
        numbers = clip_floats(exact + noise.draw_each(source, *exact.shape))

        level = check_confidence_level(self.confidence_level)
        if n_counts:
            counts = _estimate_counts(
                numbers[:, 0], noise, level, unit=unit, max_weight=max_weight
            )
            self.estimates_["count"] = np.column_stack(counts)
        noisy = NoisySums.of(numbers[:, n_counts:], len(names), squares=False)
        estimates = {}
        if "mean" in self._statistics and names:
            estimates["mean"] = estimate_means(noisy, sums.bounds, noise, level)
        if "sum" in self._statistics and names:
            totals = estimate_sums(noisy, sums.bounds, noise, level)
            factor = 1.0 if max_weight is None else max_weight
            estimates["sum"] = Estimate(*(factor * part for part in totals))
        return estimates


def _estimate_counts(
    counts: Floats, noise: Noise, level: float, *, unit: int, max_weight: float | None
) -> Estimate:
    """Estimate the number of rows, or the sum of weights, of each group from noisy counts.

    Counts of rows are multiplied by `unit`, and sums of weights are in steps of the grid.
    """
    if max_weight is None:
        value = np.clip(np.rint(counts / unit), -MAX_NOISY_COUNT, MAX_NOISY_COUNT)
        value, scale = value.astype(np.int64), 1 / unit
    else:
        scale = max_weight / GRID
        value = counts * scale
    error = np.full_like(counts, to_float(noise.std) * scale)
    return Estimate(value, error, *count_interval(value, error, level))
