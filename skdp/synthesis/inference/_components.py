"""Means of weights over the records, estimated from noisy marginals without bias."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skdp.oracles import project_to_simplex
from skdp.synthesis.model import Groups, Marginal, group, spread

Table = NDArray[np.float64]

_EXACT = 1e-9
_LEAST = 1e-300
_SWEEPS = 5
_LEAST_SHARE = 5e-5


@dataclass(frozen=True, eq=False)
class MeasuredMean:
    """An estimate of the mean of weights over all records."""

    value: float
    noise: tuple[Table, ...]
    """What a standard deviation of the noise of each count adds, a table a marginal."""

    bias: float
    """How far the weights that no marginal measures may move it."""

    def covariance(self, other: MeasuredMean) -> float:
        """Return the covariance with the noise of another estimate from the same marginals."""
        return math.fsum(
            float((one * two).sum())
            for one, two in zip(self.noise, other.noise, strict=True)
        )


def measure_mean(
    marginals: Sequence[Marginal],
    columns: Sequence[int],
    weights: Table,
    shares: Table,
    n_rows: float,
    small: float,
) -> MeasuredMean:
    """Estimate the mean of weights, an axis a column, from all marginals that measure a part of it."""
    # The weights are the sum of one component for each set of columns, as in the analysis of variance: it depends on
    # these columns, and adds up to 0 along each. Each marginal that holds the columns estimates the component's sum;
    # these estimates are weighted by their inverse variances, and sums of different components in one marginal are
    # independent ([1]_): the estimate is the best linear one that has no bias. Where rare values were counted together,
    # a component is replaced by its means over them. What is left is taken from the shares of the model; its bias is at
    # most what moving the records of each group of values, or of all that was not measured, could change.
    # .. [1] Y. Xiao, G. He, D. Zhang, D. Kifer (2023). An optimal and scalable matrix mechanism for noisy marginals
    #    under convex loss functions. NeurIPS.
    taken = [np.zeros(marginal.shape) for marginal in marginals]
    left, together, bias = weights.copy(), np.zeros_like(weights), 0.0
    for axes in _measured_sets(marginals, columns):
        names = [columns[axis] for axis in axes]
        component = _component(weights, axes)
        own = shares.sum(
            axis=tuple(axis for axis in range(shares.ndim) if axis not in axes)
        )
        left -= _onto(component, axes, range(len(columns)))
        for share, place, groups in _best(marginals, names, component):
            means = group(component, groups) / group(np.ones_like(component), groups)
            rest = component - spread(means, groups)
            taken[place] += share * _onto(means, names, marginals[place].clique)
            together += share * _onto(rest, axes, range(len(columns)))
            bias += share * float(
                (
                    group(own, groups) * (_most(rest, groups) + _most(-rest, groups))
                ).sum()
            )
    unknown = np.abs(left) > small
    if unknown.any():
        bias += float(shares[unknown].sum() * np.ptp(left[unknown]))
    pairs = list(zip(taken, marginals, strict=True))
    value = (
        math.fsum(float((table * marginal.counts).sum()) for table, marginal in pairs)
        / n_rows
    )
    noise = tuple(table * (marginal.std_error / n_rows) for table, marginal in pairs)
    return MeasuredMean(value + float(((left + together) * shares).sum()), noise, bias)


def rake(
    marginals: Sequence[Marginal], columns: Sequence[int], shares: Table, n_rows: float
) -> Table:
    """Give shares by a model the distribution of each column that the noisy counts have."""
    # A model is drawn to equal shares by its noise, and columns with more spread than theirs would shrink all
    # coefficients and their errors. Counts of single columns have little noise.
    wanted = [_one_way(marginals, column, n_rows) for column in columns]
    for _ in range(_SWEEPS):
        for axis, own in enumerate(wanted):
            if own is not None:
                have = shares.sum(
                    axis=tuple(other for other in range(shares.ndim) if other != axis)
                )
                ratio = np.divide(own, have, out=np.ones_like(have), where=have > 0)
                shares = shares * _onto(ratio, [axis], range(shares.ndim))
    return shares / shares.sum()


def _one_way(marginals: Sequence[Marginal], column: int, n_rows: float) -> Table | None:
    """Estimate the shares of a column's values, all positive, from all marginals that count them one by one."""
    total, precision = 0.0, 0.0
    for marginal in marginals:
        axes = [axis for axis, other in enumerate(marginal.clique) if other != column]
        if column not in marginal.clique or (
            marginal.groups
            and marginal.groups[marginal.clique.index(column)] is not None
        ):
            continue
        summed = marginal.counts.sum(axis=tuple(axes))
        own = 1 / (marginal.std_error**2 * marginal.counts.size / summed.size)
        total, precision = total + own * summed, precision + own
    return (
        None
        if precision == 0
        else np.maximum(
            project_to_simplex(total / precision / n_rows, 1.0), _LEAST_SHARE
        )
    )


def _best(
    marginals: Sequence[Marginal], columns: Sequence[int], component: Table
) -> Iterator[tuple[float, int, Groups]]:
    """Yield the marginals that measure a component, all of it if some do, and the weight of each."""
    largest = float(np.abs(component).max())
    held = []
    for place, marginal in enumerate(marginals):
        if largest == 0 or not set(columns) <= set(marginal.clique):
            continue
        axes = [marginal.clique.index(column) for column in columns]
        groups = tuple(
            None if marginal.groups is None else marginal.groups[axis] for axis in axes
        )
        means = group(component, groups) / group(np.ones_like(component), groups)
        variance = (
            marginal.std_error**2
            * (marginal.counts.size / means.size)
            * float((means**2).sum())
        )
        whole = bool(
            np.abs(component - spread(means, groups)).max() <= _EXACT * largest
        )
        held.append((whole, 1 / max(variance, _LEAST), place, groups))
    wanted = any(whole for whole, *_ in held)
    total = sum(precision for whole, precision, *_ in held if whole == wanted)
    for whole, precision, place, groups in held:
        if whole == wanted:
            yield precision / total, place, groups


def _most(table: Table, groups: Groups) -> Table:
    """Return the largest number of each group of cells."""
    for axis, members in enumerate(groups):
        if members is not None:
            moved = np.moveaxis(table, axis, 0)
            most = np.full((int(members.max()) + 1, *moved.shape[1:]), -np.inf)
            np.maximum.at(most, members, moved)
            table = np.moveaxis(most, 0, axis)
    return table


def _measured_sets(
    marginals: Sequence[Marginal], columns: Sequence[int]
) -> list[tuple[int, ...]]:
    """List the sets of columns, as axes, that some marginal holds."""
    found: dict[tuple[int, ...], None] = {(): None}
    for marginal in marginals:
        held = [
            axis for axis, column in enumerate(columns) if column in marginal.clique
        ]
        for size in range(1, len(held) + 1):
            found |= dict.fromkeys(itertools.combinations(held, size))
    return list(found)


def _component(weights: Table, axes: Sequence[int]) -> Table:
    """Return what some columns together, and no fewer of them, add to the weights."""
    found = weights.mean(
        axis=tuple(axis for axis in range(weights.ndim) if axis not in axes)
    )
    for axis in range(found.ndim):
        found = found - found.mean(axis=axis, keepdims=True)
    return np.asarray(found)


def _onto(table: Table, columns: Sequence[int], onto: Sequence[int]) -> Table:
    """Give a table the axes of more columns."""
    kept = [column for column in onto if column in columns]
    table = np.transpose(table, [list(columns).index(column) for column in kept])
    return table.reshape(
        [table.shape[kept.index(column)] if column in columns else 1 for column in onto]
    )
