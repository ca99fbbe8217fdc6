"""Estimates with intervals from a synthesizer's noisy counts, without its rows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from skdp.base import ColumnName, check_confidence_level
from skdp.domain import Interval
from skdp.synthesis._bin_points import BinCells, BinPoints, divide_by_points
from skdp.synthesis._measured_means import (
    MIN_DIVISOR,
    NEGLIGIBLE,
    MeasuredMean,
    measure_mean,
    rake,
)
from skdp.synthesis._queries import find_columns
from skdp.synthesis._synthesizer import DPMarginalSynthesizer
from skdp.synthesis.model import (
    Marginal,
    mean_counts,
    merge,
    n_cells_of,
)
from skdp.synthesis.tables import middles

Table = NDArray[np.float64]


class _Term(NamedTuple):
    """A row of the result."""

    term: str
    estimate: float
    std_error: float
    lower: float
    upper: float
    p_value: float
    supported: bool
    reason: str


def synthetic_inference(
    synthesizer: DPMarginalSynthesizer,
    statistic: Callable[[pd.DataFrame], Any],
    *,
    columns: Sequence[ColumnName] | None = None,
    confidence_level: float = 0.95,
) -> pd.DataFrame:
    """Estimate statistics of a population from a synthesizer's noisy counts, with intervals that hold.

    The usual intervals from synthetic rows are too short: they leave out the noise of the counts, and what was not
    measured ([2]_). Here a statistic is evaluated at the model, and
    corrected to first order by the noisy counts, which have no bias; the error is that of the records as a sample of
    the population, and of the noise.

    Parameters
    ----------
    synthesizer : DPMarginalSynthesizer
        Fitted.
    statistic : callable
        A function that takes a pandas DataFrame of rows of `columns` and returns a number, or several in a mapping, a
        Series or an array. It must be smooth in the shares of the rows (means, differences, correlations, ratios,
        coefficients; no quantile), and not depend on their number.
    columns : list of column names, optional
        The columns that `statistic` reads; by default all. It is called once for each of their combinations of values,
        so name no more than needed.
    confidence_level : float, default=0.95
        Coverage of each interval, between 0 and 1.

    Returns
    -------
    pandas.DataFrame
        A row a term: ``term``, ``estimate``, ``std_error``, the ends ``lower`` and ``upper`` of the interval, the
        ``p_value`` of the hypothesis that the term is 0, and whether it is ``supported``. If not, all errors are nan,
        and there is a ``reason``, which is empty otherwise.

    Raises
    ------
    NotFittedError
        Before the synthesizer's `fit`.
    TypeError
        If `synthesizer` or `statistic` is of another type, or `statistic` returns no numbers.
    ValueError
        If a column is not there, there are too many combinations of values, or `statistic` returns what is not finite,
        or other terms for other tables.

    See Also
    --------
    DPMarginalSynthesizer.count_estimate : Counts of the table itself, with intervals.

    Notes
    -----
    Near the model's shares p, a statistic T of shares q is T(p) plus the sum of f(x) * (q(x) - p(x)) over all
    combinations x of values, where the influence f(x) is what a little more of x adds ([1]_), found by adding one row
    of each combination to 20,000 rows. The sum is estimated from the
    noisy counts: f is split into a component for each set of columns, as in the analysis of variance, and each
    component is estimated by all marginals that hold its columns. That has no bias, however the model was fitted. The
    variance is that of the noise, which is known, and the mean of f(x)**2 divided by the number of records. Intervals
    are normal. A function may be a ratio, as
    the mean of a group is: where a record adds less than half to it with so many more of the group as noise may be,
    noise may be all of its divisor. Groups are values of one or two columns without bins. No term is supported where
    noise may be all of the number of records.

    A component of columns that no marginal holds is taken from the model, as are differences between rare values that
    were counted together. The most that these can change is added to the interval, if it is less than what the interval
    reaches without; otherwise a term is not supported. So a mean needs its column, and a difference of groups or a
    correlation its two columns together: `marginals` of the synthesizer names them. What all added rows
    change alike is not supported either, such as the number of rows, or a median, which they do not change.

    Of numbers in bins, declared ones or such as ``bins="private"`` found, the figures of the numbers themselves are
    estimated. Where they lie in their bins is estimated without bias by the counts of fine cells, whose noise is in the
    intervals; a function of a single column is evaluated at each of these cells. How numbers depend within bins on the
    other columns of a statistic was not measured: from bin to bin, their shares are taken for linear in the number, and
    the interval is widened by as much as this changes the estimate, which is much of a few wide bins. Of a bin that has
    most of the numbers and much of their variance, other bins tell too little: a term of several columns is not
    supported. Of several columns, three things may be missed: a jump within a bin that the bins beside it do not show
    (declare an edge there), a function that is far from linear within a bin, and the noise of the variance within wide
    bins, as of long tails. Bins as narrow as fine cells, such as single numbers, count as their middle.

    The number of records is private, and enters as the noisy counts have it. With few records
    a marginal of many cells, the correction is too large for first order:
    look whether ``std_error`` is small beside what would change the conclusion.

    **Privacy.** Post-processing of noisy counts: free, and repeatable; no record is read.

    References
    ----------
    .. [1] P. J. Huber, E. M. Ronchetti (2009). Robust statistics. Wiley.
    .. [2] O. Räisä, J. Jälkö, S. Kaski, A. Honkela (2023). Noise-aware statistical inference with differentially
       private synthetic data. AISTATS.

    Examples
    --------
    >>> from skdp import DPMarginalSynthesizer
    >>> from skdp.datasets import load_adult
    >>> from skdp.synthesis import synthetic_inference
    >>> adult = load_adult(dropna=True)
    >>> names = ["age", "sex", "income"]
    >>> domain = adult.domain.select(names)
    >>> synthesizer = DPMarginalSynthesizer(1.0, domain=domain, marginals=[names], random_state=0)
    >>> synthesizer = synthesizer.fit(adult.frame[names])
    >>> synthetic_inference(synthesizer, lambda table: table["age"].mean(), columns=["age"]).round(2)
            term  estimate  std_error  lower  upper  p_value  supported reason
    0  statistic     38.46       0.08   38.3  38.62      0.0       True
    """
    if not isinstance(synthesizer, DPMarginalSynthesizer):
        kind = type(synthesizer).__name__
        raise TypeError(f"synthesizer must be a DPMarginalSynthesizer, got {kind}")
    check_is_fitted(synthesizer)
    level = check_confidence_level(confidence_level)
    is_class = isinstance(statistic, type)
    if not callable(statistic) or is_class or hasattr(statistic, "fit"):
        kind = statistic.__name__ if is_class else type(statistic).__name__
        raise TypeError(f"statistic must be a function of a table, got {kind}")
    names = _read_names(synthesizer, columns)
    places = find_columns(synthesizer.domain_, names)
    marginals = merge(synthesizer.marginals_)
    n_rows = synthesizer.n_rows_
    quantile = NormalDist().inv_cdf((1 + level) / 2)
    has_no_records = n_rows <= quantile * synthesizer.n_rows_std_error_
    points = _points_in_bins(synthesizer, places)
    estimates = _differentiate(
        statistic, synthesizer, places, marginals, n_rows, points
    )
    if not has_no_records:
        is_hidden = _find_hidden(statistic, estimates, level)
        estimates = replace(estimates, is_hidden=is_hidden)
    rows = []
    for term, name in enumerate(estimates.terms):
        if has_no_records:
            rows.append(_unsupported(name, float(estimates.values[term]), _RECORDS))
        else:
            rows.append(_infer(estimates, term, n_rows, level))
    return pd.DataFrame(rows)


def _read_names(synthesizer: Any, columns: Any) -> list[Any]:
    """Find the columns that an analysis reads."""
    domain_columns = synthesizer.domain_.columns
    names = list(domain_columns)
    if isinstance(columns, str):
        names = [columns]
    elif isinstance(columns, Iterable) and not isinstance(columns, Mapping):
        names = list(columns)
    elif columns is not None:
        kind = type(columns).__name__
        raise TypeError(f"columns must be a list of column names, got {kind}")
    return names


def _points_in_bins(synthesizer: Any, places: Sequence[int]) -> Mapping[int, BinPoints]:
    """Find the points of columns with fine cells; other bins have their middles."""
    points = {}
    shapes = synthesizer._shapes.columns if synthesizer._shapes else {}
    domain = synthesizer.domain_
    for place in places:
        name = domain.columns[place]
        if name not in shapes:
            continue
        estimate = mean_counts(synthesizer.marginals_, (place,))
        n_rows = max(1.0, synthesizer.n_rows_)
        noise = 0.0 if estimate is None else estimate.std_error / n_rows
        points[place] = BinPoints.of(
            domain[name],
            shapes[name],
            noise,
            are_private=synthesizer.bins == "private",
        )
    return points


def _cells(
    synthesizer: Any,
    places: Sequence[int],
    points: Mapping[int, BinPoints],
    bin_cells: BinCells | None = None,
) -> pd.DataFrame:
    """List all combinations of the values of columns, with points or cells for bins."""
    domain = synthesizer.domain_
    values_of = []
    for place in places:
        values = domain[domain.columns[place]]
        if not isinstance(values, Interval):
            values_of.append(pd.Series(list(values.values)).infer_objects())
            continue
        numbers = middles(values)
        n_missing = int(values.missing)
        if bin_cells is not None:
            numbers = bin_cells.values
        elif place in points:
            numbers = points[place].values
            n_missing *= 2  # Missing has two points, too.
        column = pd.Series(numbers)
        values_of.append(column.reindex(range(len(numbers) + n_missing)))
    sizes = list(map(len, values_of))
    codes = np.indices(sizes).reshape(len(places), -1)
    columns = {}
    for place, column, column_codes in zip(places, values_of, codes, strict=True):
        name = domain.columns[place]
        columns[name] = column.iloc[column_codes].reset_index(drop=True)
    return pd.DataFrame(columns)


def _differentiate(
    statistic: Any,
    synthesizer: Any,
    places: Sequence[int],
    marginals: Sequence[Marginal],
    n_rows: float,
    points: Mapping[int, BinPoints],
) -> _CellStatistics:
    """Differentiate statistics by the shares of all combinations of values."""
    size = n_cells_of(places, synthesizer.domain_.sizes)
    if size > _MAX_CALLS:
        raise ValueError(
            f"columns have {size:,} combinations of values, for each of which "
            f"statistic is called; at most {_MAX_CALLS:,} are allowed. Name fewer "
            "columns"
        )
    shares = np.maximum(synthesizer.model_.marginal(places), 0)
    shares = rake(marginals, places, shares, n_rows, points)
    bin_cells = None
    if len(places) == 1 and points:
        # Of one column all is known that its fine cells tell, for any function of it.
        bin_cells = points[places[0]].cells
        shares = bin_cells.divide(shares)
    else:
        shares = divide_by_points(shares, places, points)
    cells = _cells(synthesizer, places, points, bin_cells)
    linear = _linear_statistic(statistic, cells, shares.ravel())
    is_hidden = np.zeros(len(linear.terms), bool)
    return _CellStatistics(
        linear, cells, marginals, places, shares, n_rows, points, bin_cells, is_hidden
    )


@dataclass(frozen=True, eq=False)
class Linear:
    """Statistics near a table: their values there, and what a share of a cell adds."""

    terms: list[str]
    values: Table
    influence: Table
    """(n_terms, n_cells); the mean at the table is 0."""

    is_determined: NDArray[np.bool_]
    """Which statistics the table determines."""


@dataclass(frozen=True, eq=False)
class _CellStatistics:
    """Statistics near a table, by what each combination of values adds to them."""

    linear: Linear
    cells: pd.DataFrame
    marginals: Sequence[Marginal]
    columns: Sequence[int]
    shares: Table
    """Of the combinations: an axis a column."""
    n_rows: float
    points: Mapping[int, BinPoints]
    bin_cells: BinCells | None
    """If the combinations are the fine cells of a single column."""
    is_hidden: NDArray[np.bool_]
    """Which statistics are ratios whose divisor noise may be all of."""

    @property
    def terms(self) -> list[str]:
        """The names of the statistics."""
        return self.linear.terms

    @property
    def values(self) -> Table:
        """The statistics at the table."""
        return self.linear.values

    @property
    def is_determined(self) -> NDArray[np.bool_]:
        """Which statistics the table determines."""
        return self.linear.is_determined

    def mean(self, term: int) -> MeasuredMean:
        """Estimate the mean of what records add to a statistic."""
        return self._mean(self.linear.influence[term])

    def variance(self, term: int) -> float:
        """Return the variance of the contribution of one record to a statistic."""
        return float(self.linear.influence[term] ** 2 @ self.shares.ravel())

    def _mean(self, weights: Table) -> MeasuredMean:
        squares = float((self.shares.ravel() * weights**2).sum())
        small = NEGLIGIBLE * math.sqrt(squares)
        if self.bin_cells is None:
            weights = weights.reshape(self.shares.shape)
            return self._measure(weights, self.shares, small, self.points)
        weights, rest = self.bin_cells.split(weights)
        shares = self.bin_cells.gather(self.shares)
        mean = self._measure(weights, shares, small, {})
        within = float(rest @ self.bin_cells.counts) / self.n_rows
        return mean.plus(within, rest @ self.bin_cells.noise / self.n_rows)

    def _measure(
        self,
        weights: Table,
        shares: Table,
        small: float,
        points: Mapping[int, BinPoints],
    ) -> MeasuredMean:
        return measure_mean(
            self.marginals, self.columns, weights, shares, self.n_rows, small, points
        )


def _infer(
    estimates: _CellStatistics,
    term: int,
    n_rows: float,
    level: float,
) -> _Term:
    """Estimate a statistic from the counts, as far as it is linear in them."""
    name = estimates.terms[term]
    value = float(estimates.values[term])
    if not estimates.is_determined[term]:
        return _unsupported(name, value, "the rows do not determine it")
    change = estimates.mean(term)
    estimate = value + change.value
    # Variances of the noise and of sampling.
    variance = change.covariance(change) + estimates.variance(term) / n_rows
    std_error = math.sqrt(max(0.0, variance))
    margin = NormalDist().inv_cdf((1 + level) / 2) * std_error
    in_bins = change.bias_in_bins
    if change.bias + in_bins > margin:
        reason = _BINS if in_bins > change.bias else _COLUMNS
        return _unsupported(name, estimate, reason)
    if estimates.is_hidden[term]:
        return _unsupported(name, value, _DIVISOR)
    # What lines between bins change widens the interval, however much it is: of Adult,
    # and of one table with jumps within bins, such intervals of 95 % hold 96 to 97 %;
    # with half of it, those of the table with jumps hold 92 %.
    bias = change.bias + in_bins + change.within
    beyond = max(0.0, abs(estimate) - bias)
    p_value = float(beyond == 0)
    if std_error > 0:
        p_value = 2 * NormalDist().cdf(-beyond / std_error)
    return _Term(
        term=name,
        estimate=estimate,
        std_error=std_error,
        lower=estimate - margin - bias,
        upper=estimate + margin + bias,
        p_value=p_value,
        supported=True,
        reason="",
    )


_DIVISOR = "noise may be all of its divisor"
_RECORDS = "noise may be all of the number of records"
_COLUMNS = "columns or rare values were not counted together"
_BINS = "most numbers are in one wide bin: declare narrower ones"


def _unsupported(name: str, estimate: float, reason: str) -> _Term:
    return _Term(
        term=name,
        estimate=estimate,
        std_error=math.nan,
        lower=math.nan,
        upper=math.nan,
        p_value=math.nan,
        supported=False,
        reason=reason,
    )


_N_ROWS = 20_000
"""Of the table that a statistic is differentiated at: one row more changes little."""

_MAX_CALLS = 20_000
"""Of a statistic: minutes, of one that takes ten milliseconds.

Each column with bins doubles it."""


def _linear_statistic(
    statistic: Callable[[Any], Any], cells: pd.DataFrame, shares: Table
) -> Linear:
    """Differentiate a function of rows: one row of each cell is added in turn."""
    n_cells = len(cells)
    counts = _round_shares(shares, _N_ROWS)
    rows = cells.iloc[np.repeat(np.arange(n_cells), counts)]
    terms, values = _read_terms(statistic(rows.reset_index(drop=True)))
    # One row more changes the share of its cell by about 1 / n_rows.
    influence = np.empty((len(terms), n_cells))
    for index in range(n_cells):
        more_rows = pd.concat([rows, cells.iloc[[index]]], ignore_index=True)
        names, moved = _read_terms(statistic(more_rows))
        if names != terms:
            raise ValueError(
                "statistic must return the same terms for all tables, got "
                f"{names} after {terms}"
            )
        influence[:, index] = (moved - values) * (_N_ROWS + 1)
    # No row changes a median, and every row changes the number of rows alike.
    is_determined = np.ptp(influence, axis=1) > 0
    means = influence @ (counts / _N_ROWS)
    influence -= means[:, np.newaxis]
    return Linear(terms, values, influence, is_determined)


def _round_shares(shares: Table, n_rows: int) -> NDArray[np.int64]:
    """Return how many rows of each cell a table has that is like the shares."""
    # Sums from the start are rounded, so that no part is lost.
    sums = np.rint(np.cumsum(shares) / shares.sum() * n_rows)
    return np.diff(sums, prepend=0.0).astype(np.int64)


_NO_DIVISOR = 0.99
"""Of what records add: a statistic without a divisor keeps 1, but for rounding."""


class _NoisyGroup(NamedTuple):
    """A group of records that may all be noise, by its noisy count."""

    key: tuple[tuple[int, ...], tuple[int, ...]]
    """Its columns, as axes, and their codes."""
    more_rows: NDArray[np.int64]
    """Of each cell: together as many, of `_N_ROWS`, as the noise of the count reaches."""

    @property
    def least(self) -> float:
        """What records still add, of what they add before, if no noise is as large."""
        # What a record adds to a ratio, such as the mean of a group, is divided by the
        # share p of the group. With m more of the group, of all records, it is
        # p * (1 + m) / (p + m) of that: (1 + m) / 2 or less, if p is at most m.
        m = int(self.more_rows.sum()) / _N_ROWS
        return min((1 + m) / 2, _NO_DIVISOR)


class _AddedRecords:
    """What a record adds to statistics where a group has more records."""

    def __init__(
        self, statistic: Callable[[Any], Any], estimates: _CellStatistics
    ) -> None:
        self._statistic = statistic
        self._cells = estimates.cells
        self._counts = _round_shares(estimates.shares.ravel(), _N_ROWS)
        # Statistics share groups and cells, and each call returns all statistics.
        self._kept: dict[Any, Table] = {}

    def of(self, group: _NoisyGroup, cell: int) -> Table:
        """Return what a record of a cell adds, up to what any record adds: (n_terms,)."""
        key = group.key, cell
        if key not in self._kept:
            counts = self._counts + group.more_rows
            counts[cell] += 1
            rows = self._cells.iloc[np.repeat(np.arange(counts.size), counts)]
            _, values = _read_terms(self._statistic(rows.reset_index(drop=True)))
            self._kept[key] = values * len(rows)
        return self._kept[key]


def _find_hidden(
    statistic: Callable[[Any], Any], estimates: _CellStatistics, level: float
) -> NDArray[np.bool_]:
    """Find the statistics whose divisor noise may be all of, as far as groups tell."""
    is_hidden = np.zeros(len(estimates.terms), bool)
    if estimates.bin_cells is not None:
        return is_hidden
    added = _AddedRecords(statistic, estimates)
    for term, influence in enumerate(estimates.linear.influence):
        highest = int(influence.argmax())
        lowest = int(influence.argmin())
        for group in _noisy_groups(estimates, (highest, lowest), level):
            difference = added.of(group, highest) - added.of(group, lowest)
            if difference[term] <= group.least * np.ptp(influence):
                is_hidden[term] = True
                break
    return is_hidden & estimates.is_determined


def _noisy_groups(
    estimates: _CellStatistics, cells: Sequence[int], level: float
) -> Iterator[_NoisyGroup]:
    """Yield the groups by one or two columns that hold some cells and may be noise."""
    quantile = NormalDist().inv_cdf((1 + level) / 2)
    shape = estimates.shares.shape
    codes_of_cells = np.transpose(
        np.unravel_index(cells, shape)
    )  # (n_cells, n_columns)
    # Values of numbers in bins are points, of which there are no counts.
    listed = []
    for axis, column in enumerate(estimates.columns):
        if column not in estimates.points:
            listed.append(axis)
    sets = [*itertools.combinations(listed, 1), *itertools.combinations(listed, 2)]
    for axes in sets:
        columns = [estimates.columns[axis] for axis in axes]
        estimate = mean_counts(estimates.marginals, columns)
        if estimate is None:
            continue
        reach = quantile * estimate.std_error
        n_more = math.ceil(reach / estimates.n_rows * _N_ROWS)
        groups = np.unique(codes_of_cells[:, axes], axis=0).tolist()
        for codes in map(tuple, groups):
            if estimate.counts[codes] <= reach:
                shares = _shares_of_group(estimates.shares, axes, codes)
                yield _NoisyGroup((axes, codes), _round_shares(shares, n_more))


def _shares_of_group(shares: Table, axes: Sequence[int], codes: Sequence[int]) -> Table:
    """Return the shares of cells with some codes along some axes, and 0 for others: (n_cells,)."""
    place: list[Any] = [slice(None)] * shares.ndim
    for axis, code in zip(axes, codes, strict=True):
        place[axis] = code
    of_group = np.zeros_like(shares)
    # Of a group without a share, all cells are alike.
    of_group[tuple(place)] = shares[tuple(place)] + MIN_DIVISOR
    return of_group.ravel()


def _read_terms(statistics: Any) -> tuple[list[str], Table]:
    """Read what a statistic returned."""
    if isinstance(statistics, Mapping):
        names = list(map(str, statistics))
        numbers = list(statistics.values())
    elif isinstance(statistics, pd.Series):
        names = []
        for name in statistics.index:
            levels = name if isinstance(name, tuple) else (name,)
            names.append(", ".join(map(str, levels)))
        numbers = list(statistics)
    else:
        numbers = list(np.atleast_1d(np.asarray(statistics)))
        names = list(map(str, range(len(numbers))))
        if len(numbers) == 1:
            names = ["statistic"]
    try:
        values = np.array(list(map(float, numbers)))
    except (TypeError, ValueError) as error:
        raise TypeError(
            "statistic must return a number, or several in an array, a Series or a "
            "mapping"
        ) from error
    if not np.isfinite(values).all():
        raise ValueError("statistic must return finite numbers")
    return names, values
