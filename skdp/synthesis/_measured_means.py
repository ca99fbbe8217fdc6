"""Means over all records, from all noisy marginals that tell of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skdp.oracles import project_to_simplex
from skdp.synthesis._bin_points import BinPoints
from skdp.synthesis.model import (
    Groups,
    Marginal,
    arrange,
    divide,
    group,
    mean_counts,
    n_cells_of,
    spread,
    sum_others,
)

# A mean of weights is estimated as follows. The weights are the sum of one component
# for each set of columns, as in the analysis of variance: it depends on these columns,
# and adds up to 0 along each. Each marginal that holds the columns estimates the
# component's sum; these estimates are weighted by their inverse variances, and sums of
# different components in one marginal are independent ([1]_): the estimate is the best
# linear one that has no bias. Where rare values were counted together, a component is
# replaced by its means over them. What is left is taken from the shares of the model;
# its bias is at most what moving the records of each group of values, or of all that
# was not measured, could change.
# .. [1] Y. Xiao, G. He, D. Zhang, D. Kifer (2023). An optimal and scalable matrix
#    mechanism for noisy marginals under convex loss functions. NeurIPS.

Table = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class MeasuredMean:
    """An estimate of the mean of weights over all records."""

    value: float
    noise: tuple[Table, ...]
    """What a standard deviation of the noise of each count adds, a table a marginal."""

    bias: float
    """How far the weights that no marginal measures may move it."""

    bias_in_bins: float
    """How far it may depend on numbers in bins of which those nearby tell nothing."""

    within: float
    """How far it depends on where numbers lie in bins together with other columns."""

    @property
    def size(self) -> float:
        """The root of the mean square, of the estimate with its noise again."""
        return math.sqrt(self.value**2 + self.covariance(self))

    def plus(self, value: float, noise: Table) -> MeasuredMean:
        """Add what other noisy counts say."""
        return replace(self, value=self.value + value, noise=(*self.noise, noise))

    def covariance(self, mean: MeasuredMean) -> float:
        """Return the covariance with the noise of another mean of the same counts."""
        covariances = []
        for noise, noise_of_mean in zip(self.noise, mean.noise, strict=True):
            covariances.append(float((noise * noise_of_mean).sum()))
        return math.fsum(covariances)


_EXACT = 1e-9
"""Of the largest weight: differences that are rounding."""

MIN_DIVISOR = 1e-300
"""In place of 0, so that nothing is divided by it."""


NEGLIGIBLE = 2e-3
"""Of the standard deviation of what a record adds: what need not be measured."""


class ComponentSums:
    """Sums of components over all records, by all marginals that tell of them."""

    # A component is a sum of what marginals say of it, each with a coefficient for each
    # of its counts; the coefficients of all components add up.

    def __init__(
        self,
        marginals: Sequence[Marginal],
        n_rows: float,
        points: Mapping[int, BinPoints],
    ) -> None:
        self._marginals = marginals
        self._n_rows = n_rows
        self._points = points
        self._slopes = {}
        for column, of_column in points.items():
            self._slopes[column] = np.zeros(of_column.sums.size)
        self._within = 0.0
        self._bias_in_bins = 0.0
        self._coefficients = []
        for marginal in marginals:
            self._coefficients.append(np.zeros(marginal.shape))
        self._by_model = 0.0
        self._bias = 0.0

    def take_slopes(
        self, columns: Sequence[int], weights: Table, shares: Table
    ) -> tuple[Table, Table]:
        """Add what weights of points rise by within bins; return means, and shares, of bins."""
        slopes: dict[int, Table] = {}
        scores: dict[int, Table] = {}
        for axis, column in enumerate(columns):
            points = self._points.get(column)
            if points is None:
                continue
            for before in slopes:
                slopes[before] = points.split(slopes[before], axis)[0]
                scores[before] = points.gather(scores[before], axis)[0]
            weights, slopes[axis] = points.split(weights, axis)
            shares, scores[axis] = points.gather(shares, axis)
        for axis, slope in slopes.items():
            # What they rise by on average is measured, by the counts of fine cells; what
            # else they do with other columns is only known from the bins nearby.
            points = self._points[columns[axis]]
            totals = sum_others(shares, [axis])
            mean = divide(sum_others(shares * slope, [axis]), totals)
            self._slopes[columns[axis]] += mean
            rest = slope - arrange(mean, [axis], range(slope.ndim))
            change = float((scores[axis] * rest).sum())
            self._by_model += change
            self._within += abs(change)
            weights = weights + points.sensitivity(rest, shares, axis)
            # The mean square of scores is 1 (Cauchy and Schwarz).
            is_unknown = arrange(points.is_unknown(totals), [axis], range(slope.ndim))
            squares = float((shares * rest**2 * is_unknown).sum())
            self._bias_in_bins += math.sqrt(squares)
        return weights, shares

    def add(self, columns: Sequence[int], component: Table, shares: Table) -> bool:
        """Add a component of some columns, if some marginal holds them; return that."""
        holders = list(_best(self._marginals, columns, component))
        for precision, place, groups in holders:
            means = _group_means(component, groups)
            within = component - spread(means, groups)
            coefficients = arrange(means, columns, self._marginals[place].clique)
            self._coefficients[place] += precision * coefficients
            self._by_model += precision * float((within * shares).sum())
            # Within a group, its records may all have the value of the largest weight,
            # and the model says that they have that of the smallest.
            ranges = _largest(within, groups) + _largest(-within, groups)
            self._bias += precision * float((group(shares, groups) * ranges).sum())
        return bool(holders) or not component.any()

    def add_unmeasured(self, weights: Table, shares: Table, small: float) -> None:
        """Add weights that only the model tells of, and what these may change."""
        self._by_model += float((weights * shares).sum())
        is_unknown = np.abs(weights) > small
        if is_unknown.any():
            most = float(shares[is_unknown].sum() * np.ptp(weights[is_unknown]))
            self._bias += most

    def mean(self) -> MeasuredMean:
        """Return the sums as a mean over the records."""
        sums = []
        noise = []
        for coefficients, marginal in zip(
            self._coefficients, self._marginals, strict=True
        ):
            sums.append(float((coefficients * marginal.counts).sum()))
            noise.append(coefficients * (marginal.std_error / self._n_rows))
        for column, coefficients in self._slopes.items():
            points = self._points[column]
            sums.append(float(coefficients @ points.sums))
            noise.append(coefficients @ points.noise / self._n_rows)
        value = math.fsum(sums) / self._n_rows + self._by_model
        return MeasuredMean(
            value, tuple(noise), self._bias, self._bias_in_bins, self._within
        )


def measure_mean(
    marginals: Sequence[Marginal],
    columns: Sequence[int],
    weights: Table,
    shares: Table,
    n_rows: float,
    small: float,
    points: Mapping[int, BinPoints],
) -> MeasuredMean:
    """Estimate the mean of weights, an axis a column, from all that measures it."""
    sums = ComponentSums(marginals, n_rows, points)
    weights, shares = sums.take_slopes(columns, weights, shares)
    unmeasured = weights.copy()
    for axes in _measured_sets(marginals, columns):
        names = [columns[axis] for axis in axes]
        component = component_of(weights, axes)
        unmeasured -= arrange(component, axes, range(len(columns)))
        sums.add(names, component, sum_others(shares, axes))
    sums.add_unmeasured(unmeasured, shares, small)
    return sums.mean()


def _measured_sets(
    marginals: Sequence[Marginal], columns: Sequence[int]
) -> list[tuple[int, ...]]:
    """List the sets of columns, as axes, that some marginal holds."""
    # A dict in place of a set, whose order may change from one process to the next.
    sets: dict[tuple[int, ...], None] = {(): None}
    for marginal in marginals:
        axes = [axis for axis, name in enumerate(columns) if name in marginal.clique]
        for size in range(1, len(axes) + 1):
            sets |= dict.fromkeys(itertools.combinations(axes, size))
    return list(sets)


def component_of(weights: Table, axes: Sequence[int]) -> Table:
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
    marginals: Sequence[Marginal], columns: Sequence[int], component: Table
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
        precision = 1 / max(variance, MIN_DIVISOR)
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

_MIN_SHARE = 5e-5
"""Of a value that noise made 0: its cells stay in the table of a regression."""


def rake(
    marginals: Sequence[Marginal],
    columns: Sequence[int],
    shares: Table,
    n_rows: float,
    points: Mapping[int, BinPoints],
) -> Table:
    """Scale a model's table of shares until each column is distributed as its noisy counts."""
    # Iterative proportional fitting, as in the model's scaling. Noise draws the columns
    # of a model towards equal shares: their spread is then too large, and coefficients
    # and their errors would be too small. Counts of single columns have little noise.
    targets = {}
    for axis, column in enumerate(columns):
        # Columns that are only counted in groups keep the shares of the model.
        estimate = mean_counts(marginals, (column,))
        if estimate is None:
            continue
        counts = estimate.counts
        target = np.maximum(project_to_simplex(counts / n_rows, 1.0), _MIN_SHARE)
        if column in points:
            # What is left of the noise of bins far from most numbers would have nearly
            # all of their variance. There, the model has the tail of their fine cells.
            by_model = sum_others(shares, [axis])
            is_noise = by_model <= points[column].least_share
            target = np.where(is_noise, by_model, target)
        targets[axis] = target / target.sum()
    for _ in range(_RAKES):
        for axis, target in targets.items():
            sums = sum_others(shares, [axis])
            ones = np.ones_like(sums)
            ratio = np.divide(target, sums, out=ones, where=sums > MIN_DIVISOR)
            shares = shares * arrange(ratio, [axis], range(shares.ndim))
    return shares / shares.sum()
