"""Means of numeric columns, and statistics by group with totals."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import product
from numbers import Real
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from skdp._arrays import Floats, Mask
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
    Masses,
    QuantilePlan,
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
    estimate_deviations,
    estimate_means,
    estimate_sums,
    estimate_variances,
    is_measured,
    sum_by_cells,
    sum_columns,
    warn_of_objects,
)
from skdp.central.statistics import (
    MAX_NOISY_COUNT,
    Batches,
    Difference,
    Estimate,
    Independence,
    Noise,
    compute_difference,
    compute_independence,
    declared_domain,
    make_frame,
    make_table,
    to_float,
)
from skdp.domain import Domain, DomainLike
from skdp.privacy import Loss, Mu, PrivacyBudget, PrivacyLedger, Rho
from skdp.randomness import ByteSource
from skdp.tables import choose_library, to_objects


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
        exact = sums, choose_library(rows.table.native)
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


Statistic = Literal["count", "mean", "sum", "std", "var", "median"] | float

SUFFIXES = ("", "_std_error", "_lower", "_upper")

# Statistics of a column that are functions of its noisy sums.
SUM_STATISTICS: dict[str, Callable[..., Estimate]] = {
    "mean": estimate_means,
    "sum": estimate_sums,
    "std": estimate_deviations,
    "var": estimate_variances,
}
OF_SQUARES = {"std", "var"}
QUANTILES = {"median": Fraction(1, 2)}
COUNT = "count"

# Name of the sum over all values of a key.
TOTAL = "total"


class DPGroupBy(WeightedStatistic):
    """Estimate statistics of groups and of their totals with differential privacy.

    All declared groups are released, including groups without rows. A mean, a standard deviation, a variance or a
    quantile is missing if the number of values of its group does not exceed the noise.

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
    statistics : {"count", "mean", "sum", "std", "var", "median"}, float, or list of these, default=("count", "mean")
        The statistics to release: the number of rows of each group, and for each column in it the mean, the sum, the
        standard deviation, the variance (divided by the number of values), the median, or the quantile of a
        probability, such as 0.25.
    totals : bool, default=False
        If True, also release the totals over all values of each key and of all keys. Counts and sums of totals are sums
        of cells.
    quantile_fraction : float, default=0.5
        The fraction of the budget for quantiles if there are other statistics, too.
    intervals : bool, default=True
        If False, quantiles have no intervals, which get two thirds of the budget of quantiles otherwise. Other
        intervals are free.
    handle_unknown : {"error", "ignore"}, default="error"
        How `fit` handles an undeclared key. ``"error"`` reveals that such a key occurs; ``"ignore"`` excludes its row.
    max_weight : float, optional
        The largest `sample_weight` of a row, from public knowledge. The noise is proportional to it.
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
        For ``"count"``, ``"<column>_mean"`` and all other statistics, such as ``"<column>_q25"`` (for 0.25): the noisy
        statistic of each group, the standard deviation of its noise (nan for quantiles), and its interval, for the
        clipped values of this table.
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
    times as large. Means, standard deviations and quantiles are weighted.

    With `totals`, counts and sums of totals are sums of noisy cells, without further privacy loss. The standard error
    of the sum of c cells is sqrt(c) times as large as the one of a cell. Means, standard deviations and variances are
    functions of these sums. Quantiles of totals are released in addition: with j keys, a record is in 2**j groups,
    which share the budget of quantiles equally.

    Quantiles get `quantile_fraction` of the budget, and all other statistics together the rest. Quantiles are chosen by
    the exponential mechanism among all numbers between the bounds, as in `DPKBinsDiscretizer`. With `intervals`, a
    third of their budget is for the quantiles, and the remainder is divided equally among the endpoints of all
    intervals. An endpoint is chosen in the same way among few numbers on one side of the quantile, for a rank that is
    so far outside that the interval covers the quantile of this table with the stated probability, for any values
    ([2]_). Few quantiles therefore have narrower intervals: with one column and a median, an endpoint is about 20 /
    epsilon to 30 / epsilon values away from it.

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
    Female  48.0       48.0       51.0
    Male    59.0       58.0       60.0

    >>> groups.set_params(statistics="count", totals=True).fit(people).to_frame()
            count  count_std_error  count_lower  count_upper
    sex
    Female  10771        14.136245        10741        10801
    Male    21797        14.136245        21767        21827
    total   32568        19.991669        32525        32611
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
        totals: bool = False,
        quantile_fraction: float = 0.5,
        intervals: bool = True,
        handle_unknown: Unknown = "error",
        max_weight: float | None = None,
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
        self.totals = totals
        self.quantile_fraction = quantile_fraction
        self.intervals = intervals
        self.handle_unknown = handle_unknown
        self.max_weight = max_weight
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
            and ``<statistic>_upper``. Quantiles have no standard error. With `totals`, the
            key of a total is "total", and the keys are text if it is a column.
        """
        check_is_fitted(self)
        columns: dict[str, NDArray[Any]] = {}
        quantiles = tuple(f"_{name}" for name in self._probabilities)
        for name, estimate in self.estimates_.items():
            for suffix, column in zip(SUFFIXES, estimate.T, strict=True):
                # Quantiles have no standard errors, and intervals by choice.
                is_absent = suffix and name.endswith(quantiles)
                if not is_absent or not np.isnan(column).all():
                    columns[name + suffix] = column
        if COUNT in columns and not self._is_weighted:
            for suffix in ("", "_lower", "_upper"):
                columns[COUNT + suffix] = columns[COUNT + suffix].astype(np.int64)
        if not self.keys_ or self.keys_[0].size == self._domain.size:
            return make_frame(self._domain, columns, self._library)
        keys = dict(zip(self._domain.columns, self.keys_, strict=True))
        texts = {}
        for name, labels in keys.items():
            texts[name] = [None if label is None else str(label) for label in labels]
        return make_table(_make_index(keys), texts, columns, self._library)

    def compare_means(self, column: ColumnName, first: Any, second: Any) -> Difference:
        """Compare the means of a column in two groups, as samples of a population.

        Parameters
        ----------
        column : column name
            A column with the statistic ``"mean"``. The statistic ``"count"`` is required, too. With ``"std"`` or
            ``"var"``, the variances of the groups are used; otherwise the largest variance for the mean and the bounds,
            which is exact for a column of 0 and 1 (a proportion).
        first, second : key, or tuple of a key for each column of `by`
            Two groups without common rows.

        Returns
        -------
        Difference
            The difference of the means as ``value``, with its ``std_error`` (noise and sampling), its interval
            ``lower`` and ``upper``, and the ``p_value`` of the hypothesis that the means of the population are equal.
            If the number of values of a group does not exceed its noise, the difference is nan and the p-value is 1.

        Raises
        ------
        ValueError
            If a group or a statistic was not released, groups have common rows, or rows have weights.
        """
        check_is_fitted(self)
        indices = [self._find_group(group) for group in (first, second)]
        keys = [[labels[index] for labels in self.keys_] for index in indices]
        if not any(a != b and TOTAL not in (a, b) for a, b in zip(*keys, strict=True)):
            raise ValueError(
                "`first` and `second` must be groups without common rows, got "
                f"{first!r} and {second!r}."
            )
        self._require_statistics([COUNT, f"{column}_mean"], "compare_means")
        names = [name for name in self.guarantee_.scope if name not in self._key_names]
        low, high = self.bounds_[names.index(column)]
        half = (high - low) / 2
        groups = [self._describe_group(i, column, low, half) for i in indices]
        if np.isnan([group[0] for group in groups]).any():
            return Difference(np.nan, np.nan, low - high, high - low, 1.0)
        level = check_confidence_level(self.confidence_level)
        is_gaussian = isinstance(self.epsilon, Rho | Mu)
        rows = np.array(groups).T
        found = compute_difference(rows, level, is_gaussian=is_gaussian)
        *numbers, p_value = found
        value, error, lower, upper = (float(half * number) for number in numbers)
        return Difference(value, error, lower, upper, p_value)

    def test_independence(self) -> Independence:
        """Test if two keys are independent in a population of which the rows are a sample.

        Returns
        -------
        Independence
            The chi-square ``statistic`` of the noisy counts, and its ``p_value``, from 1,999 simulated tables with the
            same noise.

        Raises
        ------
        ValueError
            If `by` does not have two keys, the statistic ``"count"`` was not released, or rows have weights.
        """
        check_is_fitted(self)
        sizes = self._domain.sizes
        if len(sizes) != 2:
            raise ValueError(f"`by` must have two keys, got {self.by!r}.")
        self._require_statistics([COUNT], "test_independence")
        table = self.estimates_[COUNT][:, :2]
        if len(table) > self._domain.size:
            with_totals = [size + 1 for size in sizes]
            table = table.reshape(*with_totals, 2)[: sizes[0], : sizes[1]]
        counts, errors = np.moveaxis(table.reshape(*sizes, 2), -1, 0)
        is_gaussian = isinstance(self.epsilon, Rho | Mu)
        return compute_independence(counts, errors[0, 0], is_gaussian=is_gaussian)

    def _find_group(self, group: Any) -> int:
        """Return the index of a group."""
        keys = group if isinstance(group, tuple) else (group,)
        for index, labels in enumerate(zip(*self.keys_, strict=True)):
            if labels == keys:
                return index
        raise ValueError(
            f"A group must be a key for each of {self._key_names}, got {group!r}."
        )

    def _require_statistics(self, names: Sequence[str], method: str) -> None:
        """Raise an error if a statistic for a test was not released, or rows have weights."""
        missing = [name for name in names if name not in self.estimates_]
        if missing:
            raise ValueError(
                f"`{method}` requires the statistics {list(names)}, got no {missing}. "
                "Add them to `statistics` of another release."
            )
        if self._is_weighted:
            raise ValueError(
                f"`{method}` requires rows without weights, because the sampling error "
                "of a weighted statistic depends on the design."
            )

    def _describe_group(
        self, index: int, column: Any, low: float, half: float
    ) -> tuple[float, ...]:
        """Return a column of the argument of `compute_difference`, in units of half the width of the bounds."""
        mean, mean_error, *_ = self.estimates_[f"{column}_mean"][index] / half
        mean -= low / half + 1
        noise_std = self.estimates_[COUNT][index, 1]
        # The noise of a mean m of n values has the standard deviation s sqrt(1 + m**2) / n.
        n_values = noise_std * np.hypot(1, mean) / mean_error
        variance, error = np.nan, np.nan
        if f"{column}_var" in self.estimates_:
            variance, error, *_ = self.estimates_[f"{column}_var"][index] / half**2
        elif f"{column}_std" in self.estimates_:
            std, std_error, *_ = self.estimates_[f"{column}_std"][index] / half
            variance, error = std**2, 2 * max(std, std_error) * std_error
        return mean, n_values, noise_std, variance, error

    @property
    def _key_names(self) -> list[Any]:
        """The parameter `by` as a list."""
        if self.by is None:
            return []
        return list(self.by) if isinstance(self.by, list) else [self.by]

    @property
    def _statistics(self) -> list[Any]:
        """The parameter `statistics` as a list, with the exact probability of each quantile that is a number."""
        statistics: Any = self.statistics
        if isinstance(statistics, str | Real):
            statistics = [statistics]
        return [
            read_probability(one, "statistics") if isinstance(one, Real) else one
            for one in statistics
        ]

    @property
    def _probabilities(self) -> dict[str, Fraction]:
        """The probability of each quantile, by the end of its name."""
        names = {probability: name for name, probability in QUANTILES.items()}
        probabilities = {}
        for statistic in self._statistics:
            probability = QUANTILES.get(statistic, statistic)
            if isinstance(probability, Fraction):
                name = f"q{float(100 * probability):g}"
                probabilities[names.get(probability, name)] = probability
        return probabilities

    @property
    def _sum_statistics(self) -> list[str]:
        """The statistics that are functions of sums of a column."""
        return [name for name in SUM_STATISTICS if name in self._statistics]

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
            if not isinstance(statistic, Fraction):
                choices = (COUNT, *SUM_STATISTICS, *QUANTILES)
                check_choice("statistics", statistic, choices)
        # "median" is the quantile 0.5.
        if len({QUANTILES.get(name, name) for name in statistics}) < len(statistics):
            raise ValueError(
                f"`statistics` must not name a statistic twice, got {self.statistics}."
            )
        measured = [name for name in names if name not in keys]
        if statistics == [COUNT]:
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
        names = [COUNT] if COUNT in self._statistics else []
        for column in measured:
            for statistic in [*self._sum_statistics, *self._probabilities]:
                names.append(f"{column}_{statistic}")
        return [name + suffix for name in names for suffix in SUFFIXES]

    def _declared_bounds(self, names: Sequence[Any]) -> Any:
        return None if self._statistics == [COUNT] else self.bounds

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
        self._check_keys(domain)

        # Quantiles have a fraction of the budget, and sums of all other statistics the rest.
        fraction = read_probability(self.quantile_fraction, "quantile_fraction")
        summed = names if self._sum_statistics else ()
        has_sums = bool(summed) or COUNT in self._statistics
        probabilities = list(self._probabilities.values())
        max_weight = self._check_max_weight(rows)
        weight = rows.names[-1:] if max_weight is not None else ()
        noises: list[Noise] = []
        mechanisms: list[str] = []
        losses: tuple[Loss, ...] = ()
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
            part = budget * (1 - fraction) if probabilities else budget
            noise = self._noise(part, len(summed), max_weight is not None)
            noises.append(noise)
            statistics = "counts and sums" if summed else "counts"
            mechanisms.append(f"{noise.name} on {statistics} of groups")
            losses += (noise.loss,)
        quantiles = None
        if probabilities:
            masses = read_masses(
                rows.select([*domain.columns, *names, *weight]),
                domain,
                make_candidates(bounds, find_decimals(self.bounds, names)),
                max_weight,
            )
            part = budget * fraction if has_sums else budget
            quantiles = self._plan_quantiles(masses, domain, part)
            mechanisms.append(quantiles.mechanism)
            losses = (*losses, *quantiles.losses) if quantiles.losses else ()
        library = choose_library(rows.table.native)
        exact = sums, domain, library, (names, summed), quantiles, max_weight
        return Plan(exact, tuple(noises), "; ".join(mechanisms), losses)

    def _check_keys(self, domain: Domain) -> None:
        """Check the parameter `totals`, and that no key has the name of a total."""
        check_flag("totals", self.totals)
        if self.totals and not domain.columns:
            raise ValueError("`totals` requires keys in `by`, got by=None.")
        for name in domain.columns:
            labels = domain[name].labels
            if self.totals and TOTAL in labels:
                raise ValueError(
                    f"`keys` of column {name!r} must not contain {TOTAL!r} with "
                    "totals=True. Rename this value."
                )

    def _plan_quantiles(
        self, masses: list[list[Masses]], domain: Domain, budget: PrivacyBudget
    ) -> QuantilePlan:
        """Plan the quantiles of each column by group, and of all totals, which share the budget equally."""
        n_overlapping = 1
        if self.totals:
            # The groups with a total of the same keys do not overlap.
            n_overlapping = 2 ** len(domain.columns)
            masses = [
                add_totals(_to_array(groups), domain).tolist() for groups in masses
            ]
        return QuantilePlan(
            masses,
            list(self._probabilities.values()),
            budget / n_overlapping,
            bool(self.intervals),
            n_overlapping,
        )

    def _noise(self, budget: PrivacyBudget, n_columns: int, is_weighted: bool) -> Noise:
        """Return the noise of the sums of all groups; a record changes the sums of one group.

        `n_columns` is the number of columns that are summed; for 0, it is the noise of counts.
        """
        if not n_columns:
            return Noise.from_budget(budget, GRID if is_weighted else 1)
        size = count_noisy_numbers(
            n_columns, squares=self._has_squares, shared_count=False
        )
        return Noise.joint(budget, GRID, size + (COUNT in self._statistics))

    @property
    def _has_squares(self) -> bool:
        """True if a statistic requires the sums of squares."""
        return not OF_SQUARES.isdisjoint(self._statistics)

    def _release(self, plan: Plan, source: ByteSource) -> None:
        """Add noise to the numbers of each group, and set the estimates with standard errors and intervals."""
        sums, self._domain, self._library, columns, quantiles, max_weight = plan.exact
        names, summed = columns
        self._is_weighted = max_weight is not None
        labels = [list(self._domain[name].labels) for name in self._domain.columns]
        if self.totals:
            labels = [[*values, TOTAL] for values in labels]
        self.keys_ = list(map(to_objects, zip(*product(*labels), strict=True)))
        level = check_confidence_level(self.confidence_level)
        self.estimates_ = {}
        by_statistic: dict[str, Estimate] = {}
        is_known = None
        if plan.noises:
            by_statistic, is_known = self._release_sums(
                sums, summed, plan.noises[0], source, max_weight=max_weight
            )
        if quantiles is not None:
            drawn = quantiles.draw(level, source)
            for index, name in enumerate(self._probabilities):
                value, *others = (part[:, :, index] for part in drawn)
                if is_known is not None:
                    value = np.where(is_known, value, np.nan)
                by_statistic[name] = Estimate(value, *others)
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
    ) -> tuple[dict[str, Estimate], Mask]:
        """Add noise to the counts and sums of each group, set the counts, and return the statistics of columns.

        Also return for each group and column, or for each group, if the number of values exceeds its noise. Other
        groups have no statistics except counts and sums.
        """
        # One block of noise for each group. The first number is the number of rows, in units
        # of the sums if there are sums.
        unit = sums.count_unit if names else 1
        exact = sums.numbers(squares=self._has_squares, shared_count=False)
        n_counts = 0
        if COUNT in self._statistics:
            exact = np.hstack([sums.rows[:, np.newaxis].astype(object) * unit, exact])
            n_counts = 1
        numbers = clip_floats(exact + noise.draw_each(source, *exact.shape))
        n_cells = self._total(np.ones((len(numbers), 1)))
        level = check_confidence_level(self.confidence_level)
        is_known = np.ones(n_cells.shape, bool)
        if n_counts:
            scale = 1 / unit if max_weight is None else max_weight / GRID
            counts = numbers[:, :1] * scale
            error = to_float(noise.std) * scale * np.sqrt(n_cells)
            if max_weight is None:
                limit = MAX_NOISY_COUNT // counts.size
                counts = np.clip(np.rint(counts), -limit, limit).astype(np.int64)
            elif self.totals:
                lower, upper = count_interval(0.0, error[0], level)
                counts = _round_to_width(counts, upper - lower)
            counts = self._total(counts)
            lower, upper = count_interval(counts, error, level)
            self.estimates_[COUNT] = np.hstack([counts, error, lower, upper])
            rows = NoisySums.of(self._total(numbers[:, :1]), 1, squares=False)
            is_known = is_measured(rows, noise, level, n_cells)
        if not names:
            return {}, is_known
        cells = NoisySums.of(
            numbers[:, n_counts:], len(names), squares=self._has_squares
        )
        arrays = (cells.counts, cells.position_sums, cells.squares)
        noisy = NoisySums(*map(self._total, arrays))
        is_known = is_measured(noisy, noise, level, n_cells)
        estimates = {}
        for name in self._sum_statistics:
            estimate = SUM_STATISTICS[name](noisy, sums.bounds, noise, level, n_cells)
            value, error, lower, upper = estimate
            if name == "sum":
                factor = 1.0 if max_weight is None else max_weight
                if self.totals:  # rounded cells add up to their totals
                    value = estimate_sums(cells, sums.bounds, noise, level).value
                    width = factor * (upper - lower)[0]
                    decimals = None
                    if max_weight is None:
                        decimals = find_decimals(self.bounds, names)
                    rounded = _round_to_width(factor * value, width, decimals)
                    value = self._total(rounded) / factor
                estimates[name] = Estimate(
                    *(factor * part for part in (value, error, lower, upper))
                )
                continue
            value = np.where(is_known, value, np.nan)
            error = np.where(is_known, error, np.nan)
            estimates[name] = Estimate(value, error, lower, upper)
        return estimates, is_known

    def _total(self, cells: NDArray[Any]) -> NDArray[Any]:
        """Add the totals to an array of cells, if they are requested."""
        return add_totals(cells, self._domain) if self.totals else cells


def add_totals(cells: NDArray[Any], domain: Domain) -> NDArray[Any]:
    """Append to each key of a table of cells the sum over its values: an array (n_cells, ...) to (n_groups, ...)."""
    table = cells.reshape(*domain.sizes, *cells.shape[1:])
    for axis in range(len(domain.sizes)):
        table = np.concatenate([table, table.sum(axis, keepdims=True)], axis)
    n_groups = math.prod(size + 1 for size in domain.sizes)
    return table.reshape(n_groups, *cells.shape[1:])


def _to_array(objects: Sequence[Any]) -> NDArray[Any]:
    """Return objects as a 1-D array."""
    array = np.empty(len(objects), object)
    array[:] = objects
    return array


def _round_to_width(
    values: Floats, widths: Floats, decimals: Sequence[int | None] | None = None
) -> Floats:
    """Round each column to a hundredth of the width of its intervals or less, but at most to whole numbers.

    `decimals` has the largest number of decimals of the values of each column; None for any number.
    """
    rounded = []
    for index, width in enumerate(widths):
        digits = max(0, 2 - math.floor(math.log10(width)))
        declared = None if decimals is None else decimals[index]
        if declared is not None:
            digits = min(digits, max(declared, 0))
        rounded.append(np.round(values[:, index], digits))
    return np.column_stack(rounded)


def _make_index(keys: Mapping[Any, NDArray[Any]]) -> pd.Index:
    """Make the index of groups in pandas."""
    names = list(keys)
    if len(names) == 1:
        return pd.Index(keys[names[0]], name=names[0], tupleize_cols=False)
    return pd.MultiIndex.from_arrays(list(keys.values()), names=names)
