"""Estimates with intervals from a synthesizer's noisy counts, without its rows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.utils.validation import check_is_fitted

from skdp.base import ColumnName, check_confidence_level, level_of_the_caller
from skdp.domain import Interval
from skdp.oracles import project_to_simplex
from skdp.pages import warn
from skdp.synthesis._queries import find_columns
from skdp.synthesis._synthesizer import DPMarginalSynthesizer
from skdp.synthesis.model import (
    Groups,
    Marginal,
    arrange,
    group,
    merge,
    n_cells_of,
    shape_of,
    spread,
    sum_others,
)
from skdp.synthesis.tables import Shape, middles

Table = NDArray[np.float64]

_MOST_CELLS = 1 << 18
"""Combinations of values: a table of two megabytes for each term."""

_NEGLIGIBLE = 2e-3
"""Of the standard deviation of what a record adds: what need not be measured."""

_TERMS = [
    "term",
    "estimate",
    "std_error",
    "lower",
    "upper",
    "p_value",
    "supported",
]


def synthetic_inference(
    synthesizer: DPMarginalSynthesizer,
    statistic: Callable[[pd.DataFrame], Any] | BaseEstimator,
    *,
    columns: Sequence[ColumnName] | None = None,
    target: ColumnName | None = None,
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
    statistic : callable, LinearRegression or LogisticRegression
        A function that takes a pandas DataFrame of rows of `columns` and returns a number, or several in a mapping, a
        Series or an array. It must be smooth in the shares of the rows (means, differences, correlations, ratios,
        coefficients; no quantile), and not depend on their number. Or a regression of scikit-learn, whose coefficients
        are estimated.
    columns : list of column names, optional
        The columns that `statistic` reads, or the features of a regression; by default all. The function is called once
        for each of their combinations of values, so name no more than needed.
    target : column name, optional
        What a regression predicts; by default the y of `fit`. Numbers for a linear one, two values for a logistic one,
        of which the larger is predicted.
    confidence_level : float, default=0.95
        Coverage of each interval, between 0 and 1.

    Returns
    -------
    pandas.DataFrame
        A row a term: ``term``, ``estimate``, ``std_error``, the ends ``lower`` and ``upper`` of the interval, the
        ``p_value`` of the hypothesis that the term is 0, and whether it is ``supported``. If not, all errors are nan.

    Raises
    ------
    NotFittedError
        Before the synthesizer's `fit`.
    TypeError
        If `synthesizer` or `statistic` is of another type, or `statistic` returns no numbers.
    ValueError
        If a column is not there, there are too many combinations of values, a regression has an unsuitable target or
        parameters, a number may be missing, or `statistic` returns what is not finite, or other terms for other tables.

    See Also
    --------
    DPMarginalSynthesizer.count_estimate : Counts of the table itself, with intervals.

    Notes
    -----
    Near the model's shares p, a statistic T of shares q is T(p) plus the sum of f(x) * (q(x) - p(x)) over all
    combinations x of values, where the influence f(x) is what a little more of x adds ([1]_). It is known for
    regressions, and found by adding one row of each combination to 20,000 rows otherwise. The sum is estimated from the
    noisy counts: f is split into a component for each set of columns, as in the analysis of variance, and each
    component is estimated by all marginals that hold its columns. That has no bias, however the model was fitted. The
    variance is that of the noise, which is known, and the mean of f(x)**2 divided by the number of records. Intervals
    are normal; those of coefficients are Fieller's ([3]_), as a coefficient is a ratio of sums that both have noise.
    Where that of the divisor may be all of it, as of a rare value whose noisy count may be 0, a coefficient may be
    anything, and is not supported.

    A component of columns that no marginal holds is taken from the model, as are differences between rare values that
    were counted together. The most that these can change is added to the interval, if it is less than what the interval
    reaches without; otherwise a term is not supported. So a mean needs its column, a difference of groups or a
    correlation its two columns together, a linear regression all pairs, and a logistic one all features together and
    each with the target; name them in `workload` or `marginals` of the synthesizer. What all added rows change
    alike is not supported either, such as the number of rows, or a median, which they do not change.

    Numbers in bins are taken as the middle of their bin, or as the mean within it by ``bins="private"``: what is
    estimated is the statistic of a table of such numbers. These means come from noisy counts too, and their noise is
    not in the intervals: of 95 % intervals for the mean of a column of 440 to 1,500 numbers with ``bins="private"``, 0
    to .53 held it at an epsilon of .3, and .4 to 1 at 3, so a warning is given. Declare narrow bins where an interval
    matters. A regularised regression is that of the estimated number of rows. The number of records is private, and
    enters as the noisy counts have it. With few records a marginal of many cells, the correction is too large for first
    order: look whether ``std_error`` is small beside what would change the conclusion.

    **Privacy.** Post-processing of noisy counts: free, and repeatable; no record is read.

    References
    ----------
    .. [1] P. J. Huber, E. M. Ronchetti (2009). Robust statistics. Wiley.
    .. [2] O. Räisä, J. Jälkö, S. Kaski, A. Honkela (2023). Noise-aware statistical inference with differentially
       private synthetic data. AISTATS.
    .. [3] E. C. Fieller (1954). Some problems in interval estimation. JRSS B 16(2).

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skdp import DPMarginalSynthesizer
    >>> from skdp.datasets import load_adult
    >>> from skdp.synthesis import synthetic_inference
    >>> adult = load_adult(dropna=True)
    >>> names = ["age", "sex", "income"]
    >>> domain = adult.domain.select(names)
    >>> synthesizer = DPMarginalSynthesizer(1.0, domain=domain, marginals=[names], random_state=0)
    >>> synthesizer = synthesizer.fit(adult.frame[names])
    >>> synthetic_inference(synthesizer, lambda table: table["age"].mean(), columns=["age"]).round(2)
            term  estimate  std_error  lower  upper  p_value  supported
    0  statistic     38.43       0.08  38.28  38.59      0.0       True
    >>> model = LogisticRegression()
    >>> synthetic_inference(synthesizer, model, columns=["age", "sex"], target="income").round(3)
            term  estimate  std_error  lower  upper  p_value  supported
    0  intercept    -3.729      0.055 -3.837 -3.621      0.0       True
    1        age     0.042      0.001  0.040  0.044      0.0       True
    2   sex=Male     1.256      0.037  1.183  1.329      0.0       True
    """
    if not isinstance(synthesizer, DPMarginalSynthesizer):
        kind = type(synthesizer).__name__
        raise TypeError(f"synthesizer must be a DPMarginalSynthesizer, got {kind}")
    check_is_fitted(synthesizer)
    level = check_confidence_level(confidence_level)
    is_model = type(statistic) in (LinearRegression, LogisticRegression)
    is_class = isinstance(statistic, type)
    is_function = callable(statistic) and not is_class and not hasattr(statistic, "fit")
    if not is_model and not is_function:
        kind = statistic.__name__ if is_class else type(statistic).__name__
        raise TypeError(
            "statistic must be a function of a table, a LinearRegression or a "
            f"LogisticRegression, got {kind}"
        )
    names = _read_names(synthesizer, columns, target, is_model)
    places = find_columns(synthesizer.domain_, names)
    _warn_of_found_bins(synthesizer, names)
    size = n_cells_of(places, synthesizer.domain_.sizes)
    if size > _MOST_CELLS:
        raise ValueError(
            f"columns have {size:,} combinations of values; at most {_MOST_CELLS:,} are "
            "computed. Name fewer"
        )
    marginals = merge(synthesizer.marginals_)
    n_rows = synthesizer.n_rows_
    shares = np.maximum(synthesizer.model_.marginal(places), 0)
    shares = rake(marginals, places, shares, n_rows)
    cells = _cells(synthesizer, places)
    if is_model:
        linear = _linear_model(statistic, cells, names[-1], shares.ravel(), n_rows)
    else:
        linear = _linear_statistic(statistic, cells, shares.ravel())
    counts = _NoisyCounts(marginals, places, shares, n_rows)
    rows = []
    for index in range(len(linear.terms)):
        rows.append(_infer(counts, linear, index, level))
    return pd.DataFrame(rows, columns=_TERMS)


def _read_names(
    synthesizer: Any, columns: Any, target: Any, is_model: bool
) -> list[Any]:
    """Find the columns that an analysis reads, the target last."""
    domain_columns = synthesizer.domain_.columns
    names = list(domain_columns)
    if columns is not None:
        names = [columns] if isinstance(columns, str) else list(columns)
    if not is_model:
        if target is not None:
            raise ValueError(
                f"target is for an estimator; got {target!r} with a function"
            )
        return names
    if target is None:
        if synthesizer.n_features_in_ == len(domain_columns):
            raise ValueError(
                "target must name the column to be predicted, as the synthesizer was "
                "fitted without y"
            )
        target = domain_columns[-1]
    if columns is None:
        names = [name for name in names if name != target]
    return [*names, target]


def _warn_of_found_bins(synthesizer: Any, names: Iterable[Any]) -> None:
    shapes = _shapes_of_found_bins(synthesizer)
    with_bins = [name for name in names if name in shapes]
    if with_bins:
        warn(
            f"the bins of {with_bins} were found by noisy counts, and so were the "
            "numbers that stand for them: their noise is not in the intervals, which "
            "may be much too short. Fit with bins='declared' where an interval matters",
            UserWarning,
            about="guide/synthetic_inference",
            stacklevel=level_of_the_caller(),
        )


def _shapes_of_found_bins(synthesizer: Any) -> Mapping[Any, Shape]:
    # Declared bins stand for their middles, which have no noise.
    if synthesizer._shapes is None or synthesizer.bins != "private":
        return {}
    shapes: Mapping[Any, Shape] = synthesizer._shapes.columns
    return shapes


def _cells(synthesizer: Any, places: Sequence[int]) -> pd.DataFrame:
    """List all combinations of the values of some columns."""
    domain = synthesizer.domain_
    shapes = _shapes_of_found_bins(synthesizer)
    sizes = shape_of(places, domain.sizes)
    codes = np.indices(sizes).reshape(len(places), -1)
    columns = {}
    for place, column_codes in zip(places, codes, strict=True):
        name = domain.columns[place]
        values = domain[name]
        if isinstance(values, Interval):
            like = synthesizer._template.columns[place]
            numbers = pd.Series(middles(values, like, shapes.get(name)))
            column = numbers.reindex(range(len(numbers) + values.missing))
        else:
            column = pd.Series(list(values.values)).infer_objects()
        columns[name] = column.iloc[column_codes].reset_index(drop=True)
    return pd.DataFrame(columns)


def _infer(
    counts: _NoisyCounts, linear: Linear, term: int, level: float
) -> tuple[Any, ...]:
    """Estimate a statistic from the counts, as far as it is linear in them."""
    # A step of Newton's method, in which the slope has noise too.
    value = linear.values[term]
    # (2, n_cells): of the statistic, and of the slope, whose mean at the table is 1.
    weights = np.stack([linear.influence[term], linear.slope[term] - 1])
    change, slope = map(counts.mean, weights)
    divisor = 1 + slope.value
    step = Ratio(change.value, 0.0)
    reach = None
    if linear.is_determined[term] and divisor > 0:
        # Covariances of both, of the noise and of the records as a sample.
        covariance = change.covariance(slope)
        noise = [
            [change.covariance(change), covariance],
            [covariance, slope.covariance(slope)],
        ]
        shares = counts.shares.ravel()
        sampling = (weights * shares) @ weights.T / counts.n_rows
        step = Ratio.of(change.value, divisor, sampling + np.array(noise))
        reach = step.reach(level)
    estimate = value + step.value
    if reach is not None:
        low, high = reach
        # At the end of the interval that is further away, the slope matters most.
        bias = change.bias + (abs(step.value) + max(reach)) * slope.bias
        bias /= divisor
        if bias <= (low + high) / 2:
            p_value = step.p_value(-value, bias)
            ends = (estimate - low - bias, estimate + high + bias)
            return (linear.terms[term], estimate, step.error, *ends, p_value, True)
    return (linear.terms[term], estimate, *[math.nan] * 4, False)


@dataclass(frozen=True)
class Ratio:
    """A ratio of two estimates with normal errors, each over the lower estimate."""

    # For each ratio r, upper - r * lower has a known variance: an interval holds the r
    # for which it may be 0 ([1]_).
    # .. [1] E. C. Fieller (1954). Some problems in interval estimation. JRSS B 16(2).
    value: float
    error: float
    """The standard deviation of ``upper - value * lower``."""

    covariance: float = 0.0
    """Of that with ``lower``."""

    variance: float = 0.0
    """Of ``lower``."""

    @classmethod
    def of(cls, upper: float, lower: float, covariances: Table) -> Ratio:
        """Make a ratio of estimates with known covariances."""
        # Of (upper - value * lower) / lower and of lower / lower, linear in both.
        value = upper / lower
        change = np.array([[1.0, -value], [0.0, 1.0]]) / lower
        moments = change @ covariances @ change.T
        error = math.sqrt(max(0.0, moments[0, 0]))
        return cls(value, error, float(moments[0, 1]), float(moments[1, 1]))

    def reach(self, level: float) -> tuple[float, float] | None:
        """Return how far an interval reaches below and above; None if anywhere."""
        # The ends are the roots d of d**2 * (1 - q**2 * variance) + 2 * d * q**2 *
        # covariance = q**2 * error**2, with the quantile q and the distance d from the
        # ratio. If the divisor may be 0, they hold nothing out.
        quantile = NormalDist().inv_cdf((1 + level) / 2)
        divisor = 1 - quantile**2 * self.variance
        if divisor <= 0:
            return None
        middle = -(quantile**2) * self.covariance
        root = math.sqrt(middle**2 + divisor * (quantile * self.error) ** 2)
        return (root - middle) / divisor, (root + middle) / divisor

    def p_value(self, ratio: float, bias: float = 0.0) -> float:
        """Return the probability of an estimate at least as far from a ratio."""
        # At the ratio r, upper - r * lower has the variance of its error there; what a
        # bias may explain does not count.
        distance = ratio - self.value
        beyond = max(0.0, abs(distance) - bias)
        variance = self.error**2 + distance**2 * self.variance
        variance -= 2 * distance * self.covariance
        if variance <= 0:
            return float(beyond == 0)
        return 2 * NormalDist().cdf(-beyond / math.sqrt(variance))


@dataclass(frozen=True, eq=False)
class MeasuredMean:
    """An estimate of the mean of weights over all records."""

    value: float
    noise: tuple[Table, ...]
    """What a standard deviation of the noise of each count adds, a table a marginal."""

    bias: float
    """How far the weights that no marginal measures may move it."""

    def covariance(self, mean: MeasuredMean) -> float:
        """Return the covariance with the noise of another mean of the same counts."""
        covariances = []
        for noise, noise_of_mean in zip(self.noise, mean.noise, strict=True):
            covariances.append(float((noise * noise_of_mean).sum()))
        return math.fsum(covariances)


_EXACT = 1e-9
"""Of the largest weight: differences that are rounding."""

_LEAST = 1e-300
"""In place of 0, so that nothing is divided by it."""


@dataclass(frozen=True, eq=False)
class _NoisyCounts:
    """Noisy marginals, and the shares of a model of the cells of some columns."""

    # A mean of weights is estimated as follows. The weights are the sum of one
    # component for each set of columns, as in the analysis of variance: it depends on
    # these columns, and adds up to 0 along each. Each marginal that holds the columns
    # estimates the component's sum; these estimates are weighted by their inverse
    # variances, and sums of different components in one marginal are independent
    # ([1]_): the estimate is the best linear one that has no bias. Where rare values
    # were counted together, a component is replaced by its means over them. What is
    # left is taken from the shares of the model; its bias is at most what moving the
    # records of each group of values, or of all that was not measured, could change.
    # .. [1] Y. Xiao, G. He, D. Zhang, D. Kifer (2023). An optimal and scalable matrix
    #    mechanism for noisy marginals under convex loss functions. NeurIPS.

    marginals: Sequence[Marginal]
    columns: Sequence[int]
    shares: Table
    n_rows: float

    def mean(self, weights: Table) -> MeasuredMean:
        """Estimate the mean of weights, one a cell."""
        squares = float((self.shares.ravel() * weights.ravel() ** 2).sum())
        return measure_mean(
            self.marginals,
            self.columns,
            weights.reshape(self.shares.shape),
            self.shares,
            self.n_rows,
            _NEGLIGIBLE * math.sqrt(squares),
        )


def measure_mean(
    marginals: Sequence[Marginal],
    columns: Sequence[int],
    weights: Table,
    shares: Table,
    n_rows: float,
    small: float,
) -> MeasuredMean:
    """Estimate the mean of weights, an axis a column, from all that measures it."""
    # A component is a sum of what marginals say of it, each with a coefficient for each
    # of its counts; the coefficients of all components add up.
    coefficients = []
    for marginal in marginals:
        coefficients.append(np.zeros(marginal.shape))
    unmeasured = weights.copy()
    grouped = np.zeros_like(weights)
    bias = 0.0
    all_axes = range(len(columns))
    for axes in _measured_sets(marginals, columns):
        names = [columns[axis] for axis in axes]
        component = _component(weights, axes)
        marginal_shares = sum_others(shares, axes)
        unmeasured -= arrange(component, axes, all_axes)
        for precision, index, groups in _best(marginals, names, component):
            means = _group_means(component, groups)
            within = component - spread(means, groups)
            clique = marginals[index].clique
            coefficients[index] += precision * arrange(means, names, clique)
            grouped += precision * arrange(within, axes, all_axes)
            # Within a group, its records may all have the value of the largest weight,
            # and the model says that they have that of the smallest.
            ranges = _largest(within, groups) + _largest(-within, groups)
            bias += precision * float((group(marginal_shares, groups) * ranges).sum())
    is_unknown = np.abs(unmeasured) > small
    if is_unknown.any():
        bias += float(shares[is_unknown].sum() * np.ptp(unmeasured[is_unknown]))
    sums = []
    noise = []
    for table, marginal in zip(coefficients, marginals, strict=True):
        sums.append(float((table * marginal.counts).sum()))
        noise.append(table * (marginal.std_error / n_rows))
    by_model = float(((unmeasured + grouped) * shares).sum())
    return MeasuredMean(math.fsum(sums) / n_rows + by_model, tuple(noise), bias)


def _measured_sets(
    marginals: Iterable[Marginal], columns: Sequence[int]
) -> list[tuple[int, ...]]:
    """List the sets of columns, as axes, that some marginal holds."""
    # A dict in place of a set, whose order may change from one process to the next.
    sets: dict[tuple[int, ...], None] = {(): None}
    for marginal in marginals:
        axes = [axis for axis, name in enumerate(columns) if name in marginal.clique]
        for size in range(1, len(axes) + 1):
            sets |= dict.fromkeys(itertools.combinations(axes, size))
    return list(sets)


def _component(weights: Table, axes: Sequence[int]) -> Table:
    """Return what some columns together, and no fewer, add to the weights."""
    n_summed = weights.size / n_cells_of(axes, weights.shape)
    component = sum_others(weights, axes) / n_summed
    for axis in range(component.ndim):
        component = component - component.mean(axis=axis, keepdims=True)
    return component


class _Holder(NamedTuple):
    """A marginal that holds the columns of a component."""

    is_whole: bool
    """Whether it counts apart what the component tells apart."""
    precision: float
    """The inverse of the variance of its estimate."""
    place: int
    """Among all marginals."""
    groups: Groups


def _best(
    marginals: Iterable[Marginal], columns: Sequence[int], component: Table
) -> Iterator[tuple[float, int, Groups]]:
    """Yield the weights of the marginals that measure a component, whole if some do."""
    largest = float(np.abs(component).max())
    holders = []
    for index, marginal in enumerate(marginals):
        if largest == 0 or not set(columns) <= set(marginal.clique):
            continue
        groups = tuple(marginal.groups_of(column) for column in columns)
        means = _group_means(component, groups)
        n_summed = marginal.counts.size / means.size
        variance = marginal.std_error**2 * n_summed * float((means**2).sum())
        error = np.abs(component - spread(means, groups)).max()
        is_whole = bool(error <= _EXACT * largest)
        precision = 1 / max(variance, _LEAST)
        holders.append(_Holder(is_whole, precision, index, groups))
    # Marginals that have grouped values of it only count if no other one is whole.
    some_whole = any(holder.is_whole for holder in holders)
    total = 0.0
    for holder in holders:
        if holder.is_whole == some_whole:
            total += holder.precision
    for holder in holders:
        if holder.is_whole == some_whole:
            yield holder.precision / total, holder.place, holder.groups


def _group_means(table: Table, groups: Groups) -> Table:
    means: Table = group(table, groups) / group(np.ones_like(table), groups)
    return means


def _largest(table: Table, groups: Groups) -> Table:
    """Return the largest number of each group of cells."""
    for axis, members in enumerate(groups):
        if members is not None:
            rows = np.moveaxis(table, axis, 0)
            largest = np.full((int(members.max()) + 1, *rows.shape[1:]), -np.inf)
            np.maximum.at(largest, members, rows)
            table = np.moveaxis(largest, 0, axis)
    return table


_RAKES = 5
"""Rounds of iterative proportional fitting: marginals are near those of the model."""

_LEAST_SHARE = 5e-5
"""Of a value that noise made 0: its cells stay in the table of a regression."""


def rake(
    marginals: Iterable[Marginal], columns: Sequence[int], shares: Table, n_rows: float
) -> Table:
    """Give shares by a model the distribution of each column by the noisy counts."""
    # Iterative proportional fitting, as in the model's scaling.
    # A model is drawn to equal shares by its noise, and columns with more spread than
    # theirs would shrink all coefficients and their errors. Counts of single columns
    # have little noise.
    targets = {}
    for axis, column in enumerate(columns):
        # Columns that are only counted in groups keep the shares of the model.
        column_shares = _column_shares(marginals, column, n_rows)
        if column_shares is not None:
            targets[axis] = column_shares
    for _ in range(_RAKES):
        for axis, target in targets.items():
            sums = sum_others(shares, [axis])
            ones = np.ones_like(sums)
            ratio = np.divide(target, sums, out=ones, where=sums > 0)
            shares = shares * arrange(ratio, [axis], range(shares.ndim))
    return shares / shares.sum()


def _column_shares(
    marginals: Iterable[Marginal], column: int, n_rows: float
) -> Table | None:
    """Estimate the shares of a column's values, all positive, from all that count it."""
    weighted = np.zeros(1)
    precision = 0.0
    for marginal in marginals:
        if column in marginal.clique and marginal.groups_of(column) is None:
            counts, error = marginal.counts_of(column)
            weighted = weighted + counts * error**-2
            precision += error**-2
    if precision == 0:
        return None
    shares = project_to_simplex(weighted / precision / n_rows, 1.0)
    return np.maximum(shares, _LEAST_SHARE)


_N_ROWS = 20_000
"""Of the table that a statistic is differentiated at: one row more changes little."""

_MOST_CALLS = 20_000
"""Of a statistic: minutes, of one that takes ten milliseconds."""

_MOST_STEPS = 100
"""Of Newton's method, which mostly takes fewer than ten."""


@dataclass(frozen=True, eq=False)
class Linear:
    """Statistics near a table: their values there, and what a share of a cell adds."""

    terms: list[str]
    values: Table
    influence: Table
    """(n_terms, n_cells); the mean at the table is 0."""

    is_determined: NDArray[np.bool_]
    """Which statistics the table determines."""

    slope: Table
    """By how much the influence of each cell falls where a statistic is 1 larger.

    The mean at the table is 1."""


def _linear_statistic(
    statistic: Callable[[Any], Any], cells: pd.DataFrame, shares: Table
) -> Linear:
    """Differentiate a function of rows: one row of each cell is added in turn."""
    n_cells = len(cells)
    if n_cells > _MOST_CALLS:
        raise ValueError(
            f"columns have {n_cells:,} combinations of values, for each of which "
            f"statistic is called; at most {_MOST_CALLS:,} are allowed. Name fewer "
            "columns"
        )
    # A table of rows that is like the shares: sums from the start are rounded, so that no
    # part is lost.
    sums = np.rint(np.cumsum(shares) / shares.sum() * _N_ROWS)
    counts = np.diff(sums, prepend=0.0).astype(np.int64)
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
    return Linear(terms, values, influence, is_determined, np.ones_like(influence))


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


def _linear_model(
    estimator: Any, cells: pd.DataFrame, target: Any, shares: Table, n_rows: float
) -> Linear:
    """Differentiate the coefficients of a linear or logistic regression."""
    # A regression is the solution b of sum(shares * x * (y - mean(x @ b))) = penalty * b.
    # What a share of a cell adds to it follows from the implicit function theorem: the
    # inverse of the curvature times the cell's own score.
    terms, design = _design(cells.drop(columns=target))
    targets, link = _read_target(estimator, cells[target])
    penalty = np.full(len(terms), _penalty(estimator) / n_rows)
    if estimator.fit_intercept:
        terms = ["intercept", *terms]
        design = np.column_stack([np.ones(len(cells)), design])
        penalty = np.append(0.0, penalty)

    def curvature_at(slopes: Table) -> Table:
        return (design.T * (shares * slopes)) @ design + np.diag(penalty)

    # Newton's method, in steps of at most 5 for the logistic loss.
    coefficients = np.zeros(len(terms))
    for _ in range(_MOST_STEPS):
        means, slopes = link(design @ coefficients)
        gradient = design.T @ (shares * (targets - means)) - penalty * coefficients
        step = np.linalg.pinv(curvature_at(slopes), hermitian=True) @ gradient
        length = float(np.abs(step).max())
        if link is _logistic:
            step *= min(1.0, 5 / max(_LEAST, length))
        coefficients = coefficients + step
        if length < 1e-10 * (1 + np.abs(coefficients).max()):
            break
    means, slopes = link(design @ coefficients)
    curvature = curvature_at(slopes)
    inverse = np.linalg.pinv(curvature, hermitian=True)
    scores = design * (targets - means)[:, np.newaxis] - penalty * coefficients
    is_determined = np.isclose(np.diag(inverse @ curvature), 1, atol=1e-4)
    # Where one coefficient is moved, the others follow: the slope of what a cell adds is
    # the square of its score's row of the inverse, times the slope of its own mean.
    falls = (inverse @ design.T) ** 2 * slopes + (inverse**2 @ penalty)[:, np.newaxis]
    scale = np.maximum(np.diag(inverse), _LEAST)[:, np.newaxis]
    influence = inverse @ scores.T
    return Linear(terms, coefficients, influence, is_determined, falls / scale)


def _identity(scores: Table) -> tuple[Table, Table]:
    """Return the expected target of a linear model, and its derivative."""
    return scores, np.ones_like(scores)


def _logistic(scores: Table) -> tuple[Table, Table]:
    """Return the expected target of a logistic model, and its derivative."""
    means = 1 / (1 + np.exp(-np.clip(scores, -500, 500)))
    return means, means * (1 - means)


def _penalty(estimator: Any) -> float:
    if isinstance(estimator, LinearRegression):
        if estimator.positive:
            raise ValueError(
                "estimator with positive=True has coefficients at a bound, of which no "
                "error is known"
            )
        return 0.0
    parameters = estimator.get_params()
    penalty = parameters.get("penalty", "deprecated")
    has_l1 = parameters.get("l1_ratio") not in (None, 0, 0.0)
    if has_l1 or penalty not in ("l2", None, "deprecated"):
        raise ValueError(
            "estimator must be a LogisticRegression with an l2 penalty or none"
        )
    if estimator.class_weight is not None:
        raise ValueError("estimator must have class_weight=None")
    is_free = penalty is None or np.isinf(estimator.C)
    return 0.0 if is_free else 1 / float(estimator.C)


Link = Callable[[Table], tuple[Table, Table]]


def _read_target(estimator: Any, column: pd.Series) -> tuple[Table, Link]:
    """Return the target as numbers, 0 and 1 for a logistic model, and its link."""
    name = f"target {column.name!r}"
    if column.isna().any():
        raise ValueError(f"{name} may be missing: such rows have no target")
    if isinstance(estimator, LinearRegression):
        if not pd.api.types.is_numeric_dtype(column):
            raise ValueError(
                f"{name} must be a column of numbers for a linear regression"
            )
        return column.to_numpy(float), _identity
    values = np.unique(column.to_numpy())
    if len(values) != 2:
        raise ValueError(
            f"{name} must have two values for a logistic regression, it has "
            f"{len(values)}"
        )
    return (column.to_numpy() == values[1]).astype(float), _logistic


def _design(features: pd.DataFrame) -> tuple[list[str], Table]:
    """Return numbers, and an indicator of each value of other columns but the first."""
    terms: list[str] = []
    # The first value of a column is what others are compared with.
    columns: list[Table] = []
    for name in features:
        column = features[name]
        is_boolean = pd.api.types.is_bool_dtype(column)
        if pd.api.types.is_numeric_dtype(column) and not is_boolean:
            if column.isna().any():
                raise ValueError(
                    f"column {name!r} has numbers that may be missing: such rows cannot "
                    "be regressed on"
                )
            terms.append(str(name))
            columns.append(column.to_numpy(float))
            continue
        codes, values = pd.factorize(column, use_na_sentinel=False)
        for code, value in list(enumerate(values))[1:]:
            label = "missing" if pd.isna(value) else value
            terms.append(f"{name}={label}")
            columns.append((codes == code).astype(float))
    if not columns:
        return terms, np.empty((len(features), 0))
    return terms, np.column_stack(columns)
