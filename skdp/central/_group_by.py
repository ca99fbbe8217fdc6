"""Counts, means and sums of groups by key columns, declared or found privately."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from skdp.base import (
    Bounds,
    ColumnName,
    check_choice,
    check_confidence_level,
    read_bounds,
    read_numbers,
)
from skdp.central._base import (
    CentralStatistic,
    Plan,
    Unknown,
    check_different,
)
from skdp.central.statistics import (
    GRID,
    LARGEST,
    Batches,
    Estimate,
    GroupSums,
    Noise,
    NoisySums,
    as_float,
    clip_floats,
    declared_domain,
    encode_columns,
    join_codes,
    keyed_frame,
    library_of,
    mean_estimates,
    n_numbers,
    read_values,
    select_columns,
    sum_estimates,
    sums_of_groups,
    undeclared_error,
    warn_of_objects,
)
from skdp.domain import Domain, DomainLike
from skdp.privacy import Mu, PrivacyLedger, Rho, Share
from skdp.randomness import ByteSource
from skdp.tables import Table, as_objects

Statistic = Literal["count", "mean", "sum"]
_MAX_GROUPS = 1 << 20

# A sum has steps of 2**-29 of the bounds, and noise of up to 2**200 steps (`as_float`).
_LARGEST_BOUND = 2.0**800

_COLUMNS = ("", "_std_error", "_lower", "_upper")

Floats = NDArray[np.float64]


class DPGroupBy(CentralStatistic):
    """Count the rows of each group, and release means and sums of its columns, private for the whole record.

    Every declared group gets an answer, also one without rows.

    Parameters
    ----------
    epsilon : float, Rho or Mu, default=1.0
        Privacy loss of all groups and statistics together, finite and > 0. A share of a budget in rho or mu
        (`skdp.privacy.Rho`, `skdp.privacy.Mu`) gets Gaussian noise where that is less.
    by : column name, or list of column names
        The keys: rows with the same values in these columns are a group. The other columns of X are numbers.
    keys : Domain, mapping of column name to values, list of values a column, or Interval
        The values of each key column, as the `domain` of `DPHistogram`: declared from public knowledge, or found
        by `discover_domain`. The groups are all combinations. None among the values declares missing as a key.
    statistics : {"count", "mean", "sum"} or list of these, default=("count", "mean")
        The statistics to release: the number of rows of each group, and the mean and the sum of each column in it.
    missing : {"ignore", "error"}, default="ignore"
        What `fit` does with a missing number: it adds nothing to the mean and the sum of its column; or it is an error,
        as is an infinite value, which reveals that there is one. Then all columns share one count, and noise is less.
    bounds : pair of float, mapping of column name to pair, array-like of shape (n_columns, 2), or Domain
        The smallest and largest value of all columns that are no keys, or of each, from public knowledge, or
        found by `discover_domain`. Values outside are clipped to them. For sums they are at most 2**800.
    handle_unknown : {"error", "ignore"}, default="error"
        What `fit` does with a key that is not declared: an error reveals that there is one; if it is ignored, its row
        is in no group.
    confidence_level : float, default=0.95
        The coverage of each interval, between 0 and 1.
    max_rows_per_person : int, default=1
        Maximum number of rows of one person, all of which are protected: noise is proportional to it. Further rows are
        left out if `fit` is given ``groups``; without, the number is not checked.
    ledger : PrivacyLedger, optional
        Ledger that each `fit` charges, before anything is drawn.
    random_state : None or int, default=None
        None for secure random bits; an int for experiments, without a guarantee if it is known.

    Attributes
    ----------
    estimates_ : dict of str to ndarray of shape (n_groups, 4)
        For ``"count"``, ``"<column>_mean"`` and ``"<column>_sum"``: the noisy statistic of each group, the standard
        deviation of its noise, and the ends of its interval. Relative to the clipped values of this table, not to a
        population.
    keys_ : list of ndarray of object, each of shape (n_groups,)
        For each key column, the value of each group; of an `Interval`, the name of the bin.
    bounds_ : ndarray of shape (n_columns, 2)
        The bounds.
    guarantee_ : PrivacyGuarantee
        The guarantee of this `fit`.
    n_features_in_, feature_names_in_ : int, ndarray of str
        The number of columns; their names, if all of them are strings.

    See Also
    --------
    DPHistogram : Counts with hierarchies and ranges.
    DPMean : Means of whole columns, by other mechanisms too.

    Notes
    -----
    **Privacy.** Central model: a curator who holds the table is trusted. Adding or removing a record changes the
    distribution of all that is released by at most ``(epsilon, 0)``; replacing one by ``(2 epsilon, 0)``. The number of
    rows of each group is protected too. Values are placed on a grid of 2**30 steps between the bounds and summed as
    integers, and noise is drawn exactly. Not covered: an error under ``handle_unknown="error"`` reveals that some key
    is not declared.

    A record is in one group. It changes its number of rows by 1 and, for each column, the number of values by 1 at most
    and the sum of their distances from the middle of the bounds by half a width at most. In these units all numbers of
    a group get noise of the K-norm mechanism of the maximum norm ([1]_), in one draw: groups do not share epsilon, as
    they have no record in common. The k rows of a person may be in several groups, of which the largest changes add up
    to k, and the noise is k times as large.

    References
    ----------
    .. [1] M. Hardt, K. Talwar (2010). On the geometry of differential privacy. STOC.

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
    """

    def __init__(
        self,
        epsilon: float | Rho | Mu = 1.0,
        *,
        by: ColumnName | Sequence[ColumnName],
        keys: DomainLike | None = None,
        statistics: Statistic | Sequence[Statistic] = ("count", "mean"),
        missing: Unknown = "ignore",
        bounds: Bounds | None = None,
        handle_unknown: Unknown = "error",
        confidence_level: float = 0.95,
        max_rows_per_person: int = 1,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.by = by
        self.epsilon = epsilon
        self.keys = keys
        self.statistics = statistics
        self.missing = missing
        self.bounds = bounds
        self.handle_unknown = handle_unknown
        self.confidence_level = confidence_level
        self.max_rows_per_person = max_rows_per_person
        self.ledger = ledger
        self.random_state = random_state

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = tags.input_tags.string = True
        return tags

    def to_frame(self) -> Any:
        """Return the groups as a table.

        Returns
        -------
        pandas.DataFrame, polars.DataFrame or pyarrow.Table
            Of the kind of X (pandas for an array), a row for each group: its keys, as columns, or in pandas as the
            index; and for each statistic the columns ``<statistic>``, ``<statistic>_std_error``, ``<statistic>_lower``
            and ``<statistic>_upper``.
        """
        check_is_fitted(self)
        columns: dict[str, NDArray[Any]] = {}
        for name, estimate in self.estimates_.items():
            for end, column in zip(_COLUMNS, estimate.T, strict=True):
                columns[name + end] = column
        if "count" in columns:
            for end in ("", "_lower", "_upper"):
                columns[f"count{end}"] = columns[f"count{end}"].astype(np.int64)
        names = self._key_names
        if self._library != "pandas":
            keys = dict(zip(names, self.keys_, strict=True))
            return keyed_frame(keys, columns, self._library)
        if len(names) > 1:
            index = pd.MultiIndex.from_arrays(self.keys_, names=names)
            return pd.DataFrame(columns, index=index)
        single = pd.Index(self.keys_[0], name=names[0]).infer_objects()
        return pd.DataFrame(columns, index=single)

    @property
    def _key_names(self) -> list[Any]:
        return list(self.by) if isinstance(self.by, list) else [self.by]

    @property
    def _statistics(self) -> list[str]:
        """The statistics that are asked for."""
        statistics = self.statistics
        return [statistics] if isinstance(statistics, str) else list(statistics)

    def _bounded(self, rows: Batches) -> Batches:
        keys = self._key_names
        unknown = [name for name in keys if name not in rows.names]
        if unknown:
            raise ValueError(
                f"by must name columns of X, got {unknown}; X has {list(rows.names)}"
            )
        if not keys or len(set(keys)) < len(keys):
            raise ValueError(
                f"by must name one or several different columns of X, got {keys}"
            )
        statistics = self._statistics
        for statistic in statistics:
            check_choice("statistics", statistic, get_args(Statistic))
        measured = [name for name in rows.names if name not in keys]
        if statistics == ["count"]:
            measured = []
        results = self._names_of_results(measured)
        if not results:
            raise ValueError(
                f"X has no columns for statistics={self.statistics!r} beside the keys "
                f"{keys}"
            )
        check_different([*keys, *results])
        return rows.select(measured)

    def _names_of_results(self, measured: Sequence[Any]) -> list[Any]:
        """Return the names of the columns of the result that are no keys."""
        names = []
        if "count" in self._statistics:
            names += ["count" + end for end in _COLUMNS]
        for column in measured:
            for statistic in self._statistics:
                if statistic != "count":
                    names += [f"{column}_{statistic}{end}" for end in _COLUMNS]
        return names

    def _declared_bounds(self, names: Sequence[Any]) -> Any:
        if self._statistics == ["count"]:
            return None
        if "sum" in self._statistics:
            _check_bounds_of_sums(read_bounds(self.bounds, names))
        return self.bounds

    def _plan(self, rows: Batches, share: Share, bounds: Any) -> Plan:
        check_confidence_level(self.confidence_level)
        check_choice("missing", self.missing, get_args(Unknown))
        check_choice("handle_unknown", self.handle_unknown, get_args(Unknown))
        measured = self._bounded(rows)
        ends = np.empty((0, 2))
        if measured.names:
            ends = read_bounds(bounds, measured.names)
        if self.missing == "ignore":
            warn_of_objects(measured.table)
        domain = declared_domain(rows.select(self._key_names).table, self.keys, "keys")
        if domain.size > _MAX_GROUPS:
            raise ValueError(
                f"keys has {domain.size:,} combinations; at most {_MAX_GROUPS:,} are "
                "released"
            )
        groups = self._sum_groups(rows, measured, domain, ends)
        exact = GroupPlan(groups, library_of(rows.table), measured.names)
        noise = self._noise(share, len(ends))
        return Plan(exact, (noise,), _mechanism(noise, len(ends)))

    def _sum_groups(
        self, rows: Batches, measured: Batches, domain: Domain, ends: Floats
    ) -> Groups:
        """Add up the rows of each combination of declared keys."""
        names = [*domain.columns, *measured.names]
        columns = rows.select(names)
        sums_of = partial(
            _sums_of_keys,
            domain=domain,
            ends=ends,
            handle_unknown=self.handle_unknown,
            missing=self.missing == "ignore",
        )
        n_undeclared, *parts = columns.add_up(sums_of)
        for name, n in zip(domain.columns, n_undeclared, strict=True):
            if n:
                raise undeclared_error(name, domain, "keys")
        sums = GroupSums.read(parts, ends)
        if self.missing == "error":
            sums.refuse_missing(names[len(domain.columns) :])
        labels = [domain[name].labels for name in domain.columns]
        # An index of pandas would make nan of None.
        keys = [as_objects(column) for column in zip(*product(*labels), strict=True)]
        return Groups(sums, keys)

    def _noise(self, share: Share, n_columns: int) -> Noise:
        """Return the noise of the numbers of all groups."""
        if not n_columns:
            return Noise.of(share, self._change_of_count(n_columns))
        return Noise.joint(share, GRID, self._n_numbers(n_columns))

    def _n_numbers(self, n_columns: int) -> int:
        """Return how many numbers of each group get noise."""
        is_shared = self._shares_count(n_columns)
        size = n_numbers(n_columns, squares=False, shared_count=is_shared)
        return size + 1 if self._counts_rows(n_columns) else size

    def _shares_count(self, n_columns: int) -> bool:
        """Whether the number of rows is that of the values of each column."""
        return self.missing == "error" and n_columns > 0

    def _counts_rows(self, n_columns: int) -> bool:
        """Whether the number of rows gets noise of its own: the columns do not share it."""
        return "count" in self._statistics and not self._shares_count(n_columns)

    def _change_of_count(self, n_columns: int) -> int:
        """Return what a row changes its count by, at most, in the units of the noise."""
        return 1 if n_columns == 0 else GRID

    def _release(self, plan: Plan, source: ByteSource) -> None:
        exact: GroupPlan = plan.exact
        groups = exact.groups
        sums = groups.sums
        self._library = exact.library
        self.keys_ = groups.keys or [as_objects([]) for _ in self._key_names]
        (noise,) = plan.noises
        numbers = self._noisy_numbers(sums, noise, source)
        estimates = self._estimate(numbers, sums.bounds, noise)
        self._store(estimates, exact.names)

    def _noisy_numbers(
        self, sums: GroupSums, noise: Noise, source: ByteSource
    ) -> Floats:
        """Add noise to the numbers of all groups: (n_groups, n_numbers)."""
        # One block of noise for each group. The number of rows, if the columns do not
        # share it already, comes first.
        n_columns = len(sums.bounds)
        is_shared = self._shares_count(n_columns)
        exact = sums.numbers(squares=False, shared_count=is_shared)
        if self._counts_rows(n_columns):
            n_rows = sums.rows[:, np.newaxis] * self._change_of_count(n_columns)
            exact = np.hstack([n_rows, exact])
        return clip_floats(exact + noise.draw_each(source, *exact.shape))

    def _estimate(
        self, numbers: Floats, bounds: Floats, noise: Noise
    ) -> dict[str, Estimate]:
        """Estimate the statistics by noisy numbers: of counts (n_groups,), of others (n_groups, n_columns)."""
        n_columns = len(bounds)
        level = check_confidence_level(self.confidence_level)
        estimates = {}
        if "count" in self._statistics:
            unit = self._change_of_count(n_columns)
            estimates["count"] = _estimate_counts(numbers[:, 0], noise, level, unit)
        if n_columns == 0:
            return estimates
        if self._counts_rows(n_columns):
            numbers = numbers[:, 1:]
        n_counts = 1 if self._shares_count(n_columns) else n_columns
        noisy = NoisySums.of(numbers, n_counts, squares=False)
        if "mean" in self._statistics:
            estimates["mean"] = mean_estimates(noisy, bounds, noise, level)
        if "sum" in self._statistics:
            estimates["sum"] = self._sums(noisy, bounds, noise, level)
        return estimates

    def _sums(
        self, noisy: NoisySums, bounds: Floats, noise: Noise, level: float
    ) -> Estimate:
        """Estimate sums."""
        # In units of the bounds, powers of two, in which all that is computed is finite.
        exponents = np.frexp(np.abs(bounds).max(axis=1))[1]
        scaled_bounds = np.ldexp(bounds, -exponents[:, np.newaxis])
        scaled = sum_estimates(noisy, scaled_bounds, noise, level)
        with np.errstate(over="ignore"):
            return Estimate(*(np.ldexp(part, exponents) for part in scaled))

    def _store(self, estimates: Mapping[str, Estimate], names: Sequence[Any]) -> None:
        """Set `estimates_`: the counts, and then the statistics of each column."""
        self.estimates_ = {}
        if "count" in estimates:
            self.estimates_["count"] = np.column_stack(estimates["count"])
        for place, name in enumerate(names):
            for statistic, estimate in estimates.items():
                if statistic != "count":
                    columns = [part[:, place] for part in estimate]
                    self.estimates_[f"{name}_{statistic}"] = np.column_stack(columns)


class Groups(NamedTuple):
    """Groups of rows, and the sums of their columns."""

    sums: GroupSums
    # By key column, the values of all groups.
    keys: list[NDArray[Any]]


class GroupPlan(NamedTuple):
    """What is read and checked before the charge."""

    groups: Groups
    # Of the tables to return.
    library: str
    # The columns beside the keys.
    names: Sequence[Any]


def _check_bounds_of_sums(bounds: Floats) -> None:
    """Check that sums of values between declared bounds are floats."""
    largest = float(np.abs(bounds).max())
    if largest > _LARGEST_BOUND:
        raise ValueError(
            f"for sums, bounds must be at most {_LARGEST_BOUND:.2g}, got {largest:g}"
        )


def _mechanism(noise: Noise, n_columns: int) -> str:
    what = "counts and sums" if n_columns else "counts"
    return f"{noise.name} on {what} of groups"


def _read_numbers(table: Table, *, missing: bool) -> list[Floats]:
    return read_values(table) if missing else read_numbers(table)


def _sums_of_keys(
    table: Table,
    counts: NDArray[np.int64] | None,
    *,
    domain: Domain,
    ends: Floats,
    handle_unknown: str,
    missing: bool,
) -> list[NDArray[np.int64]]:
    """Return by key column whether values are undeclared, and the sums of each combination of keys."""
    n_keys = len(domain.columns)
    keys = select_columns(table, table.names[:n_keys])
    codes, undeclared = encode_columns(keys, domain, handle_unknown)
    is_undeclared = [name in undeclared for name in domain.columns]
    numbers = _read_numbers(
        select_columns(table, table.names[n_keys:]), missing=missing
    )
    groups = join_codes(domain, codes)
    sums = sums_of_groups(numbers, ends, groups, domain.size, counts)
    return [np.array(is_undeclared, np.int64), *sums]


def _estimate_counts(counts: Floats, noise: Noise, level: float, unit: int) -> Estimate:
    """Estimate numbers of rows from noisy ones in units."""
    reach = as_float(noise.reach(level)) / unit
    value = np.clip(np.rint(counts / unit), -LARGEST, LARGEST)
    error = np.full_like(counts, as_float(noise.error) / unit)
    lower = np.clip(np.floor(value - reach), -LARGEST, LARGEST)
    upper = np.clip(np.ceil(value + reach), -LARGEST, LARGEST)
    return Estimate(value, error, lower, upper)
