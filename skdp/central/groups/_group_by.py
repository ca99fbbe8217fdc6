"""Statistics by group, with totals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import compress, product
from numbers import Real
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from skdp._arrays import ColumnName, Floats, Indices, Mask
from skdp.base import (
    Bounds,
    Estimate,
    check_choice,
    check_column_name,
    check_confidence_level,
    check_design_effect,
    check_flag,
    check_probability,
    find_decimals,
)
from skdp.central._base import (
    Plan,
    Unknown,
    WeightedStatistic,
    check_declared_columns,
    check_unique_names,
)
from skdp.central._limits import LimitSearch
from skdp.central._quantiles import QuantilePlan, make_candidates, read_groups
from skdp.central._ranges import estimate_counts
from skdp.central._sums import (
    GRID,
    GroupSums,
    NoisySums,
    add_bias,
    sum_by_cells,
    warn_of_objects,
)
from skdp.central.groups._exclusions import (
    EXCLUSION_PARTS,
    draw_exclusions,
    plan_exclusion_noise,
    sum_excluded,
)
from skdp.central.groups._found_keys import (
    TOTAL,
    OccurringKeys,
    append_totals,
    encode_cells,
    find_frequent,
    find_totals,
    read_keys,
    widen_margins,
)
from skdp.central.groups._independence import find_p_value
from skdp.central.groups._sampling import add_sampling_errors
from skdp.central.statistics import (
    DURATION,
    MAX_NOISY_COUNT,
    Batches,
    Noise,
    declared_domain,
    find_threshold,
    make_frame,
    make_label_decoders,
    to_float,
    to_times,
)
from skdp.domain import Domain, DomainLike
from skdp.oracles import project_to_simplex
from skdp.privacy import Mu, PrivacyBudget, PrivacyLedger, Rho, check_delta
from skdp.randomness import ByteSource
from skdp.tables import to_objects

Statistic = Literal["count", "mean", "sum", "std", "var", "median"] | float

# Values of `postprocess`, as of estimates from reports.
Postprocess = Literal["none", "simplex"]

SUFFIXES = ("", "_std_error", "_lower", "_upper")

# Statistics of a column that are functions of its noisy sums.
SUM_STATISTICS: dict[Any, Callable[[NoisySums, float], Estimate]] = {
    "mean": NoisySums.estimate_means,
    "sum": NoisySums.estimate_sums,
    "std": NoisySums.estimate_deviations,
    "var": NoisySums.estimate_variances,
}
LINEAR_STATISTICS = {"mean", "sum"}  # do not read the sums of squares
MEDIAN = "median"
COUNT = "count"

# Largest fraction of the budget for quantiles if counts or sums are released, too. The errors of
# many quantiles grow by at most a ninth, and the errors of sums decrease by up to nine tenths.
MAX_QUANTILES_PART = Fraction(9, 10)

# Number of groups in the choice of limits. Few, because a tail may be in few groups: with 4, the
# error of means decreased from 1.65 to 1.28 times the error with bounds that fit (median of 10
# tables of 5,000 to 15,000 rows).
TYPICAL_GROUPS = 4

# Value of `totals` for totals of quantiles, too.
QUANTILES = "quantiles"

# Value of `keys` for keys that are found by their noisy counts.
AUTO = "auto"


@dataclass(frozen=True, eq=False)
class GroupNumbers:
    """The exact numbers of groups."""

    # The columns that are measured, and their bounds.
    names: Sequence[Any]
    bounds: Floats
    # The declared groups, or the keys that occur; and the smallest noisy count of a key that is
    # found, in multiples of `unit` (0 for declared groups).
    groups: Domain
    occurring: OccurringKeys | None
    reach: int
    # The integers that get noise, (n_cells, n_numbers), and their unit in rows.
    numbers: NDArray[Any]
    unit: float
    quantiles: QuantilePlan | None
    # The sums over persons of the fraction of excluded rows.
    excluded: GroupSums | None


class DPGroupBy(WeightedStatistic):
    """Estimate statistics of groups and of their totals with differential privacy.

    All declared groups are released, including groups without rows. A mean, a standard deviation, a variance or a
    quantile is missing if the number of values of its group does not exceed the noise.

    Parameters
    ----------
    epsilon : float, Rho or Mu, default=1.0
        Privacy loss of all groups and statistics together, finite and > 0. With
        `skdp.privacy.Rho` or `skdp.privacy.Mu`, the noise is Gaussian.
    delta : float, default=0.0
        Failure probability of ``keys="auto"``, which must be > 0: an upper bound of the probability that keys of one
        person only are released. Otherwise 0.
    by : column name, list of column names, or None
        Key columns: a group has the rows with the same values in these columns. All other columns of X must be numbers,
        dates or durations. None makes one group of all rows.
    keys : Domain, mapping of column name to values, list of values per column, Interval, or "auto"
        The values of each key column, as the `domain` of `DPHistogram`: declared from public knowledge, or found
        by `discover_domain`. The groups are all combinations. None among the values declares missing as a key. With
        "auto", which requires `delta`, the groups are found in the release of their statistics: all combinations of
        texts, and of whole numbers or booleans in columns of their dtype, whose noisy count reaches a threshold.
    bounds : pair of float, mapping of column name to pair, array-like of shape (n_columns, 2), or Domain, optional
        Bounds (low, high) of all columns except the keys, or of the columns that a mapping names, from public
        knowledge; other columns are not measured then. Values outside are clipped. An end that is None, such as in
        (0, None), is found with a third of the budget, from the rows of all groups; None alone finds all ends. Two
        integers more than 1 apart declare whole numbers: quantiles are whole numbers, and for them a fraction in the
        column is an error, which reveals it. Otherwise, use floats. Bounds of dates and durations are dates and
        ``timedelta``.
    statistics : {"count", "mean", "sum", "std", "var", "median"}, float, or list of these, default=("count", "mean")
        The statistics to release: the number of rows of each group, and for each column in it the mean, the sum, the
        standard deviation, the variance (divided by the number of values), the median, or the quantile of a
        probability, such as 0.25.
    totals : bool or "quantiles", default=False
        If True, also release the totals over all values of each key and of all keys, whose key is "total". Counts and
        sums of totals are sums of cells, at no cost, and quantiles of totals are missing. With "quantiles", quantiles
        of totals are released, too, from the budget of the quantiles of cells. Keys are text. With ``keys="auto"``,
        totals are sums over the groups that are found.
    intervals : bool, default=True
        If False, quantiles have no intervals, which otherwise get half of the budget of quantiles or more. Other
        intervals are free.
    handle_unknown : {"error", "ignore"}, default="error"
        How `fit` handles an undeclared key, or with ``keys="auto"`` a number with a fraction, or a Python object that
        is neither text nor missing. ``"error"`` reveals that such a key occurs; ``"ignore"`` excludes its row.
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
        values of this table clipped to `bounds_`. Dates are days since 1970, and durations numbers of days.
    excluded_fraction_ : ndarray of shape (4,)
        Only with ``person``: the noisy fraction of the rows of a person that `max_rows_per_person` excludes, as a mean
        over persons, its standard error and its interval. It has 4 % of the budget.
    keys_ : list of ndarray of object, each of shape (n_groups,)
        For each key column, the value of each group; of an `Interval`, the name of the bin.
    bounds_ : ndarray of shape (n_columns, 2)
        The declared bounds, and limits that are found. Declare them in a later release that is compared with this one.
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
    that some key is not declared (or not text), an error of quantiles that a column with whole bounds has a fraction,
    and an error of weights that one is negative.

    A record is in one group. It changes the number of rows of the group by 1. For each column, it changes the number of
    values by at most 1, and the sum of their distances from the middle of the bounds by at most half of the width of
    the bounds. In these units, all numbers of a group get noise of the K-norm mechanism of the maximum norm ([1]_), in
    one draw. Each group gets all of epsilon, because groups have no record in common. The k rows of a person may be in
    several groups. The largest changes of these groups add up to at most k, so the noise is k times as large. Limits
    are found by a choice among public windows and by noisy counts (:doc:`/guarantees/statistics`); the bias of clipping
    to them is unknown.

    With ``keys="auto"``, the guarantee is ``(epsilon, delta)``. Noise is added to the numbers of all combinations of
    keys that occur, which are always counted, and the groups whose counts reach a threshold are released. Keys that
    only one person has reach it with a probability of at most delta ([3]_). Quantiles are chosen in these groups
    alone. Rows without any key are a group, too. It is released if it or no other group reaches the threshold. All
    intervals of groups near the threshold are long, because large noise may have reached it.

    With `sample_weight`, counts and sums are of weights between 0 and `max_weight`, and their noise is `max_weight`
    times as large. Means, standard deviations and quantiles are weighted.

    With `totals`, counts and sums of totals are sums of noisy cells, without further privacy loss. The standard error
    of the sum of c cells is sqrt(c) times as large as the one of a cell. Means, standard deviations and variances are
    functions of these sums. With ``totals="quantiles"`` and j keys, a record is in 2**j groups, which share the budget
    of quantiles equally.

    Quantiles and other statistics have parts of the budget in the ratio of the roots of two numbers: the number D
    of the noisy sums of a group; and for quantiles, the number of columns times ``l + 6 m`` for m quantiles, where
    l is the number of binary digits of m (only l without `intervals`). With a count, a mean and a median of one
    column, the median has 60 % of the budget. `guarantee_` states the parts. Quantiles are chosen by the
    exponential mechanism among all numbers between the bounds, as in `DPKBinsDiscretizer`. With `intervals`, quantiles
    have the fraction ``l b / (l b + 20 m)`` of their budget, where b is the number of binary digits of the number of
    numbers between the bounds, at most 20: half for a median of numbers with many digits, a quarter for 100 whole
    numbers. The remainder is divided equally among the endpoints of all intervals. An endpoint is chosen in the same
    way among few numbers on one side of the quantile, for a rank that is so far outside that the interval covers the
    quantile of this table with the stated probability, for any values ([2]_). Few quantiles therefore have narrower
    intervals: with one column and a median, an endpoint is about 18 / epsilon to 40 / epsilon values away from it.

    References
    ----------
    .. [1] M. Hardt, K. Talwar (2010). On the geometry of differential privacy. STOC.
    .. [2] J. Drechsler, I. Globus-Harris, A. McMillan, J. Sarathy, A. Smith (2022). Nonparametric differentially
       private confidence intervals for the median. Journal of Survey Statistics and Methodology 10(3).
    .. [3] A. Korolova, K. Kenthapadi, N. Mishra, A. Ntoulas (2009). Releasing search queries and clicks privately. WWW.

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
    Female  10791                36.35                           0.12
    Male    21770                42.34                           0.06

    >>> hours = DPGroupBy(by="sex", keys=sexes, statistics=["median", 0.9], bounds=(0, 100), random_state=0).fit(people)
    >>> hours.to_frame().filter(like="q90").rename(columns=lambda name: name[15:])
             q90  q90_lower  q90_upper
    sex
    Female  48.0       48.0       48.0
    Male    59.0       58.0       60.0

    >>> groups.set_params(statistics="count", totals=True).fit(people).to_frame()
            count  count_std_error  count_lower  count_upper
    sex
    Female  10771             14.14        10741        10801
    Male    21797             14.14        21767        21827
    total   32568             19.99        32525        32611
    """

    _finds_limits = True
    _takes_categories = True
    _takes_times = True
    _releases_exclusions = True

    def __init__(
        self,
        epsilon: float | Rho | Mu = 1.0,
        *,
        delta: float = 0.0,
        by: ColumnName | Sequence[ColumnName] | None,
        keys: DomainLike | None = None,
        bounds: Bounds | None = None,
        statistics: Statistic | Sequence[Statistic] = ("count", "mean"),
        totals: bool | Literal["quantiles"] = False,
        intervals: bool = True,
        handle_unknown: Unknown = "error",
        max_weight: float | None = None,
        confidence_level: float = 0.95,
        max_rows_per_person: int = 1,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.by = by
        self.keys = keys
        self.bounds = bounds
        self.statistics = statistics
        self.totals = totals
        self.intervals = intervals
        self.handle_unknown = handle_unknown
        self.max_weight = max_weight
        self.confidence_level = confidence_level
        self.max_rows_per_person = max_rows_per_person
        self.ledger = ledger
        self.random_state = random_state

    def _describe_method(
        self, bounded: Sequence[Any], limits: Floats | None
    ) -> dict[str, Any]:
        facts = super()._describe_method(bounded, limits)
        if self.delta:
            facts["by"] = None
            names = ", ".join(map(str, self._key_names))
            facts["keys"] = f"Groups: the values of {names} with many rows."
        return facts

    def _allows_missing(self) -> bool:
        return True  # except in keys

    def to_frame(
        self,
        *,
        postprocess: Postprocess = "none",
        design_effect: float | None = None,
    ) -> Any:
        """Return the groups as a table.

        Parameters
        ----------
        postprocess : {"none", "simplex"}, default="none"
            Post-processing of counts, and of sums of columns with bounds of at least 0. "none" is unbiased, and small
            cells may be negative. "simplex" subtracts one number from all positive cells, so that none is negative and
            their total is kept. This bias is about one standard error in a table of nearly empty cells, and 0 if no
            cell is negative. Totals of keys are sums of cells. The intervals of the unbiased estimates are cut at 0 and
            extended to the new estimates, so they cover at least as often.
        design_effect : float, default=None
            If None, standard errors and intervals are for this table. Otherwise, they are for a population from which
            the rows are a sample, with the sampling variance times this factor: 1 for a simple random sample, and above
            1 for a sample of clusters. Means and sums require ``"std"`` among the statistics, except of columns with
            the bounds (0, 1), whose means are proportions; quantiles require a count. Intervals of quantiles, standard
            deviations and variances are wider than required.

        Returns
        -------
        pandas.DataFrame, polars.DataFrame or pyarrow.Table
            Table in the library of X (pandas for an array) with a row for each group:
            its keys, as columns, or in pandas as the index; and for each statistic the
            columns ``<statistic>``, ``<statistic>_std_error``, ``<statistic>_lower``
            and ``<statistic>_upper``. Quantiles have no standard error. Numbers are rounded to a
            thousandth of the width of the narrowest interval of their statistic, or less.

        Raises
        ------
        ValueError
            If a parameter is out of range, or sampling variances do not follow from the statistics.
        """
        check_is_fitted(self)
        check_choice("postprocess", postprocess, get_args(Postprocess))
        estimates = self.estimates_
        if design_effect is not None and check_design_effect(design_effect):
            estimates = add_sampling_errors(self, design_effect)
        columns: dict[str, Any] = {}
        quantiles = tuple(f"_{name}" for name in self._probabilities)
        for name, estimate in estimates.items():
            _, _, lower, upper = self.estimates_[name].T
            width = np.fmin.reduce(upper - lower)
            if postprocess == "simplex" and self._is_nonnegative(name):
                numbers = self._make_nonnegative(estimate, name, width)
            else:
                numbers = _round_to_width(estimate, width) if width > 0 else estimate
            converted = self._convert_days(numbers.T, name)
            for suffix, column in zip(SUFFIXES, converted, strict=True):
                # Quantiles have no standard errors, and intervals by choice.
                is_absent = suffix and name.endswith(quantiles)
                if not is_absent or not pd.isna(column).all():
                    columns[name + suffix] = column
        if COUNT in columns and not self._is_weighted:
            for suffix in ("", "_lower", "_upper"):
                columns[COUNT + suffix] = columns[COUNT + suffix].astype(np.int64)
        return make_frame(self._domain, columns, self._library, self._codes)

    def _convert_days(self, numbers: NDArray[Any], name: str) -> Sequence[NDArray[Any]]:
        """Return the columns of an estimate, with dates and durations of columns of times."""
        for column, kind in self._time_columns.items():
            statistic = name.removeprefix(f"{column}_")
            if statistic in self._statistics and statistic not in (name, "var"):
                is_length = [kind == DURATION or statistic == "std", True]
                return [
                    to_times(part, is_duration=is_length[suffix == "_std_error"])
                    for part, suffix in zip(numbers, SUFFIXES, strict=True)
                ]
        return list(numbers)

    @property
    def _codes(self) -> Indices | None:
        """The codes of the keys of each group, (n_groups, n_keys); None if all combinations are groups."""
        # Estimators of earlier versions do not have this attribute.
        return vars(self).get("_cells")

    @property
    def _n_groups(self) -> int:
        return self._domain.size if self._codes is None else len(self._codes)

    def _is_nonnegative(self, name: str) -> bool:
        """Return True if the true values of an estimate cannot be negative: a count, or a sum of such a column."""
        if name == COUNT:
            return True
        lows = zip(self._measured, self.bounds_[:, 0], strict=True)
        return any(name == f"{column}_sum" and low >= 0 for column, low in lows)

    def _make_nonnegative(self, estimate: Floats, name: str, width: float) -> Floats:
        """Return nonnegative estimates with intervals that contain them, (n_groups, 4), whose cells add up."""
        cells = estimate[~self._is_total, 0]
        cells = project_to_simplex(cells, max(float(cells.sum()), 0.0))
        is_whole = name == COUNT and not self._is_weighted
        if is_whole or width > 0:
            # Cumulative sums are rounded, so that the total is kept.
            step = np.inf if is_whole else width
            sums = _round_to_width(np.cumsum(cells), step)
            cells = _round_to_width(np.diff(sums, prepend=0.0), step)
        value = self._add_totals(cells)
        error, lower, upper = _round_to_width(estimate, width or 1.0).T[1:]
        lower = np.minimum(np.maximum(lower, 0), value)
        return np.column_stack([value, error, lower, np.maximum(upper, value)])

    def test_independence(self) -> float:
        """Test if two keys are independent in a population of which the rows are a sample.

        Returns
        -------
        float
            P-value of the chi-square statistic of the noisy counts, from 1,999 simulated tables with the same
            marginals and the same noise. Without noise, it is exact for small tables, too.

        Raises
        ------
        ValueError
            If `by` does not have two keys, the statistic ``"count"`` was not released, or rows have weights.
        """
        check_is_fitted(self)
        sizes = self._domain.sizes
        if len(sizes) != 2 or COUNT not in self.estimates_ or self._codes is not None:
            raise ValueError(
                "`test_independence` requires two declared keys in `by` and the statistic "
                f"'count', got {self.by!r} and {self.statistics!r}."
            )
        if self._is_weighted:
            raise ValueError(
                "`test_independence` requires rows without weights, because the sampling "
                "error of a weighted count depends on the design."
            )
        counts, errors = self.estimates_[COUNT][:, :2].T.reshape(2, *sizes)
        if self.totals:
            counts = counts[:-1, :-1]
        *parameters, unit = self._noise
        return find_p_value(counts, errors[0, 0], Noise(*parameters), unit)

    @property
    def _key_names(self) -> list[Any]:
        """The parameter `by` as a list, whose elements are checked."""
        by: object = [] if self.by is None else self.by
        names = list(by) if isinstance(by, list) else [by]
        for name in names:
            check_column_name("by", name)
        return names

    @property
    def _statistics(self) -> dict[str, Fraction | None]:
        """The names of the statistics, with the probability of each quantile; None for other statistics."""
        given: Any = self.statistics
        if isinstance(given, str) or not isinstance(given, Iterable):
            given = [given]
        statistics: dict[str, Fraction | None] = {}
        for name in given:
            probability = Fraction(1, 2) if name == MEDIAN else None
            if isinstance(name, Real):
                probability = check_probability(name, "statistics")
                name = f"q{float(100 * probability):g}"
                name = MEDIAN if probability == Fraction(1, 2) else name
            elif name not in (COUNT, *SUM_STATISTICS, MEDIAN):
                choices = ", ".join(map(repr, (COUNT, *SUM_STATISTICS, MEDIAN)))
                raise ValueError(
                    f"`statistics` must be {choices}, or the probability of a "
                    f"quantile, such as 0.9, got {name!r}."
                )
            if name in statistics:
                raise ValueError(
                    "`statistics` must not name a statistic twice, got "
                    f"{self.statistics}."
                )
            statistics[name] = probability
        return statistics

    @property
    def _probabilities(self) -> dict[str, Fraction]:
        """The probability of each quantile."""
        return {name: p for name, p in self._statistics.items() if p is not None}

    @property
    def _sum_statistics(self) -> list[str]:
        """The statistics that are functions of sums of a column."""
        return [name for name in SUM_STATISTICS if name in self._statistics]

    def _select_bounded(self, rows: Batches) -> Batches:
        """Check `by` and `statistics`, and select the columns that are measured: all except the keys."""
        keys = self._key_names
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
        measured = [name for name in names if name not in keys]
        if list(self._statistics) == [COUNT]:
            measured = []
        elif isinstance(self.bounds, Mapping) and not isinstance(self.bounds, Domain):
            check_declared_columns(self.bounds, measured)
            measured = [name for name in measured if name in self.bounds]
        results = self._result_names(measured)
        if not results:
            raise ValueError(
                f"X must have columns besides the keys {keys} for "
                f"`statistics={self.statistics!r}`, got none."
            )
        check_unique_names([*keys, *results])
        return rows.select(measured)

    def _result_names(self, measured: Sequence[Any]) -> list[Any]:
        """List the columns that `to_frame` and `grade_estimates` may add to the keys; all names must differ."""
        names = [COUNT] if COUNT in self._statistics else []
        for column in measured:
            for statistic in [*self._sum_statistics, *self._probabilities]:
                names.append(f"{column}_{statistic}")
        suffixes = (*SUFFIXES, "_quality")
        return [name + suffix for name in names for suffix in suffixes]

    def _declared_bounds(self, names: Sequence[Any]) -> Any:
        return super()._declared_bounds(names) if names else None

    def _plan_search(
        self, names: Sequence[Any], bounds: object, budget: PrivacyBudget
    ) -> LimitSearch | None:
        search = super()._plan_search(names, bounds, budget)
        if search is None or self.by is None:
            return search
        return replace(search, n_groups=TYPICAL_GROUPS)

    def _plan(
        self, rows: Batches, budget: PrivacyBudget, bounds: Floats
    ) -> Plan[GroupNumbers]:
        """Count the rows, and sum the bounded columns, in each cell of the declared keys; choose the noise.

        The plan has these exact sums and the planned quantiles; `_release` adds the noise. `bounds` is None if only
        rows are counted. The numbers of values of a column exclude missing values, and Python objects other than
        numbers, with a warning.
        """
        check_confidence_level(self.confidence_level)
        check_flag("intervals", self.intervals)
        measured = self._select_bounded(rows)
        warn_of_objects(measured.table)
        names = measured.names
        dates = [name for name in names if self._times.get(name, DURATION) != DURATION]
        if dates and "sum" in self._statistics:
            raise ValueError(
                f"`statistics` must not contain 'sum' with columns of dates, got {dates}."
            )
        max_weight = self._check_max_weight(rows)
        is_summed = bool(names and self._sum_statistics)
        # All numbers of a group have this unit.
        step = GRID if is_summed or max_weight is not None else 1
        summed = bounds if is_summed else bounds[:0]
        weight = rows.names[-1:] if max_weight is not None else ()
        rows = rows.select([*self._key_names, *names, *weight] or rows.names[:1])
        groups, occurring = Domain({}), None
        self._check_totals()
        if self._finds_keys:
            occurring, numbers = self._sum_occurring(rows, names, summed, step)
            encode, n_cells = occurring.encode, occurring.size
        else:
            keys = rows.select(self._key_names).table
            domain = declared_domain(keys, self.keys if keys.names else {}, "keys")
            groups = append_totals(domain) if self.totals else domain
            # Keys that a table cannot contain raise an error before the charge.
            make_label_decoders(groups, self._library)
            (sums,) = sum_by_cells(
                rows,
                domain,
                [range(len(domain.columns))],
                summed,
                self.handle_unknown,
                missing=True,
                max_weight=self.max_weight,
                squares=not LINEAR_STATISTICS.issuperset(self._sum_statistics),
            )
            numbers = self._list_numbers(sums, step)
            encode, n_cells = partial(encode_cells, domain=domain), domain.size
        excluded, released = None, budget
        if rows.rows_by_person is not None:
            excluded = sum_excluded(rows.rows_by_person, budget.rows_per_person)
            budget *= EXCLUSION_PARTS.groups
        part = self._find_part_of_quantiles(numbers.shape[1], len(names))
        noises: tuple[Noise, ...] = ()
        mechanisms: list[str] = []
        reach, delta = 0, check_delta(self.delta)
        if numbers.size:
            noises = (Noise.joint(budget * (1 - part), step, numbers.shape[1]),)
            counted = "counts and sums" if is_summed else "counts"
            mechanisms.append(f"{noises[0].name} on {counted} of groups")
        if delta:
            threshold = find_threshold(
                noises[0], budget.rows_per_person, 1, delta, step=step
            )
            reach = threshold * step
            counts = "with counts " if is_summed else ""
            mechanisms[0] += f" {counts}that reach {threshold * (max_weight or 1):.12g}"
        losses = tuple(noise.loss for noise in noises)
        quantiles = None
        if self._probabilities:
            candidates = make_candidates(
                bounds, find_decimals(self._bounds_in_days, names)
            )
            values = read_groups(
                rows, names, candidates, encode, n_cells, max_weight=max_weight
            )
            quantiles = QuantilePlan(
                values,
                list(self._probabilities.values()),
                # The groups with a total of the same keys do not overlap.
                budget * part / self._n_overlapping,
                self.intervals,
                self._n_overlapping,
            )
            mechanisms.append(quantiles.mechanism)
            losses = (*losses, *quantiles.losses) if quantiles.losses else ()
        if 0 < part < 1:
            parts = zip(mechanisms, (1 - part, part), strict=True)
            mechanisms = [f"{name} ({float(x):.0%} of the budget)" for name, x in parts]
        if excluded is not None:
            noise = plan_exclusion_noise(released)
            losses = (*losses, noise.loss) if losses else ()
            mechanisms.append(f"{noise.name} on the fraction of excluded rows")
        if delta:
            losses = ()  # the threshold may fail
        unit, mechanism = (max_weight or 1.0) / step, "; ".join(mechanisms)
        of_keys = groups, occurring, reach
        exact = GroupNumbers(
            names, bounds, *of_keys, numbers, unit, quantiles, excluded
        )
        return Plan(exact, released, noises, mechanism, losses, delta=delta)

    def _list_numbers(self, sums: GroupSums, step: int) -> NDArray[Any]:
        """Return the integers of each cell that get noise, (n_cells, n_numbers), as multiples of `step`."""
        has_squares = not LINEAR_STATISTICS.issuperset(self._sum_statistics)
        numbers = sums.numbers(squares=has_squares)
        if COUNT in self._statistics or self._finds_keys:
            counts = sums.rows[:, np.newaxis] // (GRID // step)
            numbers = np.hstack([counts.astype(object), numbers])
        return numbers

    @property
    def _finds_keys(self) -> bool:
        """True if keys are found in this release; checks `delta`."""
        if (is_auto := isinstance(self.keys, str)) and self.keys != AUTO:
            raise ValueError(
                f"`keys` must be a list, a mapping, a Domain or {AUTO!r}, got {self.keys!r}. "
                "Declare the values of the keys, or set `keys='auto'` with a `delta`."
            )
        if bool(check_delta(self.delta)) != is_auto:
            raise ValueError(
                "`delta` must be in (0, 1) with `keys='auto'` and a number as epsilon, and "
                f"0 otherwise, got {self.delta}."
            )
        if is_auto and self.by is None:
            raise ValueError("`by` must name key columns with `keys='auto'`, got None.")
        return is_auto

    def _sum_occurring(
        self, rows: Batches, names: Sequence[Any], bounds: Floats, step: int
    ) -> tuple[OccurringKeys, NDArray[Any]]:
        """Return the combinations of texts that occur in the key columns, and their integers that get noise."""
        strict = self.handle_unknown == "error"
        keys, n_rows = read_keys(
            rows.select(self._key_names), strict=strict, has_totals=bool(self.totals)
        )
        if step == 1:  # only rows are counted, without weights
            return keys, n_rows[:, np.newaxis].astype(object)
        measured = names[: len(bounds)]
        sums = keys.sum_numbers(rows, measured, bounds, max_weight=self.max_weight)
        return keys, self._list_numbers(sums, step)

    def _find_part_of_quantiles(self, n_sums: int, n_columns: int) -> Fraction:
        """Return the fraction of the budget of quantiles, beside `n_sums` sums in each group."""
        # The errors of sums are proportional to their number, and the errors of quantiles
        # to the number of choices. Interval endpoints need about six times as many rows. For errors
        # a / x + b / (1 - x), the best x is proportional to the root of a.
        n_quantiles = len(self._probabilities)
        n_choices = n_quantiles.bit_length() + 6 * n_quantiles * self.intervals
        needs = n_sums, n_choices * n_columns * self._n_overlapping
        of_sums, of_quantiles = map(math.sqrt, needs)
        part = Fraction(round(100 * of_quantiles / (of_sums + of_quantiles)), 100)
        return min(part, MAX_QUANTILES_PART) if n_sums else part

    @property
    def _n_overlapping(self) -> int:
        """The number of groups with quantiles of a record: of its cell, and of the totals with this cell."""
        return 2 ** len(self._key_names) if self.totals == QUANTILES else 1

    def _check_totals(self) -> None:
        """Check the parameter `totals`."""
        is_flag = isinstance(self.totals, bool | np.bool_)
        if not is_flag and self.totals != QUANTILES:
            raise ValueError(
                f"`totals` must be True, False or {QUANTILES!r}, got {self.totals!r}."
            )
        statistics = set(self._probabilities)
        if self.totals != QUANTILES:
            statistics = self._statistics.keys() - statistics
        if self.totals and not statistics:
            raise ValueError(
                f"`totals` must be True for counts and sums, or {QUANTILES!r} for "
                f"quantiles, too, got {self.totals!r} with {self.statistics!r}."
            )
        if self.totals and self.by is None:
            raise ValueError("`totals` requires keys in `by`, got by=None.")

    def _release(self, plan: Plan[GroupNumbers], source: ByteSource) -> None:
        """Add noise to the numbers of each group, and set the estimates with standard errors and intervals."""
        exact, unit = plan.exact, plan.exact.unit
        self._measured = tuple(exact.names)
        self._is_weighted = self.max_weight is not None
        level = check_confidence_level(self.confidence_level)
        self.__dict__.pop("excluded_fraction_", None)  # of an earlier fit
        if exact.excluded is not None:
            noise = plan_exclusion_noise(plan.budget)
            self.excluded_fraction_ = draw_exclusions(
                exact.excluded, noise, source, level, max_rows=self.max_rows_per_person
            )
        (sums_noise,) = plan.noises or (None,)  # quantiles alone have no sums
        noisy: Any = None
        if sums_noise is not None:
            self._noise = *astuple(sums_noise), unit
            noisy = sums_noise.add_by_group(source, exact.numbers)
        self._domain, self._cells, found = exact.groups, None, None
        if exact.occurring is not None:
            found = find_frequent(noisy[:, 0], exact.reach)
            noisy = noisy[found]
            self._domain, codes = exact.occurring.make_groups(
                found, totals=bool(self.totals)
            )
            if len(self._key_names) > 1:
                self._cells = codes
        self._set_keys()
        self.estimates_: dict[str, Floats] = {}
        # Noisy numbers of values, or sums of weights, means, and upper estimates of variances,
        # (3, n_groups, n_columns).
        self._moments: Floats | None = None
        estimates: dict[str, Estimate] = {}
        is_known = np.ones((self._n_groups, 1), bool)
        if sums_noise is not None:
            estimates, is_known = self._estimate_sums(
                noisy, exact.bounds, sums_noise, unit, exact.reach
            )
        if exact.quantiles is not None:
            self._endpoint_epsilon = exact.quantiles.endpoint_epsilon
            quantiles = self._select_groups(exact.quantiles, found)
            estimates |= self._draw_quantiles(quantiles, level, source)
        self._set_estimates(exact.names, estimates, is_known)

    def _set_keys(self) -> None:
        """Set `keys_` to the values of each group."""
        labels = [self._domain[name].labels for name in self._domain.columns]
        if self._codes is None:
            columns = zip(*product(*labels), strict=True)
            self.keys_ = list(map(to_objects, columns))
        else:
            pairs = zip(labels, self._codes.T, strict=True)
            self.keys_ = [to_objects(values)[codes] for values, codes in pairs]

    def _select_groups(self, plan: QuantilePlan, found: Mask | None) -> QuantilePlan:
        """Return the plan of the quantiles of the groups that are found, and of totals."""
        values = plan.values
        if found is not None:
            n_found = int(np.count_nonzero(found))
            group_of_cell = np.where(found, np.cumsum(found) - 1, -1)
            values = values.regroup(group_of_cell[np.newaxis], n_found)
        if self.totals == QUANTILES:
            values = values.regroup(self._find_totals(), self._n_groups)
        return replace(plan, values=values)

    def _draw_quantiles(
        self, quantiles: QuantilePlan, level: float, source: ByteSource
    ) -> dict[str, Estimate]:
        """Draw the quantiles of each group with their intervals; return estimates by the names of statistics."""
        # Each part of an estimate has the shape (n_cells, n_columns, n_quantiles).
        drawn = quantiles.draw(level, source)
        estimates = {}
        for index, name in enumerate(self._probabilities):
            parts = [self._place_cells(part[:, :, index]) for part in drawn]
            estimates[name] = Estimate(*parts)
        return estimates

    def _set_estimates(
        self, names: Sequence[Any], estimates: Mapping[str, Estimate], is_known: Mask
    ) -> None:
        """Add the estimates of statistics to `estimates_`, by columns; (n_groups, 4).

        Where `is_known` is False, the number of values may be 0, so all estimates except sums are missing.
        """
        n_columns = max(len(names), 1)
        is_known = np.broadcast_to(is_known, (len(is_known), n_columns))
        for column, name in enumerate(names):
            for statistic, estimate in estimates.items():
                parts = np.column_stack([part[:, column] for part in estimate])
                if statistic != "sum":
                    parts[~is_known[:, column], :2] = np.nan
                self.estimates_[f"{name}_{statistic}"] = parts

    def _estimate_sums(
        self,
        noisy: Floats,
        bounds: Floats,
        noise: Noise,
        unit: float,
        reach: int,
    ) -> tuple[dict[str, Estimate], Mask]:
        """Set the counts of groups, and return statistics of sums and where the number of values exceeds its noise.

        `noisy` has a row per group without totals, (n_groups, n_numbers), in multiples of `unit`. The counts of keys
        that were found reach `reach`, which is 0 for declared keys.
        """
        level = check_confidence_level(self.confidence_level)
        margins = widen_margins(noisy[:, :1], reach, noise, level) if reach else None
        n_cells = self._add_totals(np.ones((len(noisy), 1)))
        options: dict[str, Any] = {"noise": noise, "n_cells": n_cells, "unit": unit}
        estimates: dict[str, Estimate] = {}
        if COUNT in self._statistics or margins is not None:
            counts, noisy = noisy[:, :1], noisy[:, 1:]
            sums = NoisySums.of(self._add_totals(counts), bounds[:0], **options)
            error = to_float(noise.std) * unit * np.sqrt(n_cells)
            cells = self._round_counts(counts * unit, error[0])
            counts = self._add_totals(cells)
            n_values = counts * np.ones(len(bounds))
            self._moments = np.array([n_values, 0 * n_values, 0 * n_values])
            estimate = estimate_counts(counts, error, level, noise.distribution)
            if margins is not None:
                lower = self._bound_found(cells, margins, noise, level, unit)
                lower = np.minimum(estimate.lower, lower)
                estimate = estimate._replace(lower=lower)
            if COUNT in self._statistics:
                self.estimates_[COUNT] = np.hstack(estimate)
        if noisy.size:
            sums = NoisySums.of(self._add_totals(noisy), bounds, **options)
            means = sums.estimate_means(level).value
            moments = sums.counts * unit, means, sums.bound_variances(level)
            self._moments = np.array(np.broadcast_arrays(*moments))
            widened = sums
            if margins is not None:
                widened = replace(sums, n_cells=self._count_widened(margins))
            for name in self._sum_statistics:
                _, _, *ends = SUM_STATISTICS[name](widened, level)
                value, error, *_ = SUM_STATISTICS[name](sums, level)
                estimates[name] = Estimate(value, error, *ends)
            if (beyond := vars(self).get("_beyond")) is not None:
                n_rows = (sums.counts[~self._is_total] * unit).sum(axis=0)
                add_bias(estimates, sums.counts * unit, beyond[:, 2:].T, n_rows)
        if "sum" in estimates:
            # Rounded cells add up to their totals.
            value, _, lower, upper = estimates["sum"]
            cells = _round_to_width(value[~self._is_total], (upper - lower)[0])
            estimates["sum"] = estimates["sum"]._replace(value=self._add_totals(cells))
        return estimates, sums.is_measured(level)

    def _count_widened(self, margins: Floats) -> Floats:
        """Return for each group the number of usual cells whose noise has its margin of error, (n_groups, 1)."""
        # The squares of usual margins add up. Large noise of keys that are found has one sign.
        usual = self._add_totals(1.0 * (margins == 1))
        others = self._add_totals(np.where(margins == 1, 0.0, margins))
        return (np.sqrt(usual) + others) ** 2

    def _bound_found(
        self,
        counts: NDArray[Any],
        margins: Floats,
        noise: Noise,
        level: float,
        unit: float,
    ) -> NDArray[Any]:
        """Return lower bounds of the counts of groups with keys that are found, (n_groups, 1).

        `margins` are margins of error of the cells, divided by the usual one, see `widen_margins`. If one is above 1,
        all of the count may be noise.
        """
        # A key that is found has a row, except missing keys, which are always counted.
        cells = compress(zip(*self.keys_, strict=True), ~self._is_total)
        is_text = [any(key is not None for key in keys) for keys in cells]
        smallest = np.array(is_text)[:, np.newaxis] & (not self._is_weighted)
        slack = self._add_totals(np.where(margins > 1, counts - smallest, 0))
        usual = to_float(noise.margin_of_error(level)) * unit
        margin = usual * np.sqrt(self._add_totals(1.0 * (margins == 1)))
        if not self._is_weighted:
            margin = np.ceil(margin).astype(np.int64)
        return self._add_totals(counts) - slack - margin

    def _round_counts(self, counts: Floats, error: Floats) -> Any:
        """Round counts to whole numbers, or sums of weights by their standard error."""
        if self._is_weighted:
            return _round_to_width(counts, 4 * error)
        limit = MAX_NOISY_COUNT // counts.size
        return np.clip(np.rint(counts), -limit, limit).astype(np.int64)

    def _place_cells(self, cells: Floats) -> Floats:
        """Return the cells (n_cells, ...) as groups (n_groups, ...), in which totals are missing unless given."""
        if len(cells) == self._n_groups:
            return cells
        placed = self._add_totals(cells)
        placed[self._is_total] = math.nan
        return placed

    @property
    def _is_total(self) -> Mask:
        """True for each group that is a total of cells; (n_groups,)."""
        if not self.totals:
            return np.zeros(self._n_groups, bool)
        is_total = [labels == TOTAL for labels in self.keys_]
        return np.logical_or.reduce(is_total)

    def _add_totals(self, cells: NDArray[Any]) -> NDArray[Any]:
        """Append to each key the sums over its values, with totals: an array (n_cells, ...) to (n_groups, ...)."""
        if not self.totals:
            return cells
        if self._codes is not None:
            groups = self._find_totals()
            sums = np.zeros((self._n_groups, *cells.shape[1:]), cells.dtype)
            # NumPy reads beyond the end of a shorter array of one dimension.
            np.add.at(sums, groups, np.broadcast_to(cells, (len(groups), *cells.shape)))
            return sums
        sizes = [size - 1 for size in self._domain.sizes]
        table = cells.reshape(*sizes, *cells.shape[1:])
        for axis in range(len(sizes)):
            table = np.concatenate([table, table.sum(axis, keepdims=True)], axis)
        return table.reshape(self._domain.size, *cells.shape[1:])

    def _find_totals(self) -> Indices:
        """Return the groups of each cell, which are the cell and its totals; (2**n_keys, n_cells)."""
        codes = self._codes
        if codes is None:
            cells = np.unravel_index(np.arange(self._domain.size), self._domain.sizes)
            codes = np.column_stack(cells)
        return find_totals(codes, self._domain)


def _round_to_width(values: Floats, widths: float | Floats) -> Floats:
    """Round values to a thousandth of the width of intervals or less, but at most to whole numbers."""
    factors = 10.0 ** np.clip(3 - np.floor(np.log10(widths)), 0, 300)
    rounded: Floats = np.rint(values * factors) / factors
    return rounded
