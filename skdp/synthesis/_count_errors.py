"""Counts from noisy marginals without a model: unbiased estimates with intervals, or bounds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from skdp.synthesis.model import Marginal, estimate_total, merge

Query: TypeAlias = Mapping[int, NDArray[np.float64] | None]
"""The columns that are asked for: None for each value of one, or the share of each of its cells that is counted."""

Counts: TypeAlias = NDArray[Any]

_ROUNDING, _FUZZ = 1e-9, 1e-6
_LEAST_VARIANCE = 1e-12


@dataclass(frozen=True, eq=False)
class CountErrors:
    """The errors of counts; arrays, or numbers if no column is asked for value by value."""

    std_error: Counts
    lower: Counts
    upper: Counts
    supported: NDArray[np.bool_]


@dataclass(frozen=True)
class Quantile:
    """How many standard deviations an interval reaches."""

    level: float
    gaussian: bool

    def at(self, level: float) -> float:
        # A sum of discrete Laplace numbers is nearly normal for many, and Laplace for one: the larger quantile counts.
        tail = 0.0 if self.gaussian else -math.log(1 - level) / math.sqrt(2)
        return max(NormalDist().inv_cdf((1 + level) / 2), tail)

    def ends(
        self, counts: Counts, noise: Counts | float, level: float | None = None
    ) -> tuple[Counts, Counts]:
        """Return the ends of the intervals of estimates."""
        # A count with whole noise reaches half further: so the whole numbers inside have the probability, also where
        # the noise has few. Means of several counts are not whole.
        whole = np.abs(counts - np.rint(counts)) < _FUZZ
        reach = self.at(self.level if level is None else level) * noise + np.where(
            whole, 0.5, 0.0
        )
        return np.ceil(counts - reach), np.floor(counts + reach)


def errors_of_counts(
    marginals: Sequence[Marginal],
    query: Query,
    sizes: Sequence[int],
    counts: Counts,
    quantile: Quantile,
) -> CountErrors:
    """Find how far counts by a model may be from the true ones."""
    # Where a measured marginal holds all columns, sums of its counts are unbiased, with known noise: their interval
    # covers the true count whatever the model has missed, and whether or not it was fitted to the end. The count by
    # the model is mostly better, and always taken into the interval.
    merged = merge(marginals)
    pieces = [_read(marginal, query, frozenset(query)) for marginal in merged]
    shape = tuple(sizes[column] for column, weights in query.items() if weights is None)
    whole = [piece for piece in pieces if piece.columns == frozenset(query)]
    precision, weighted = np.zeros(shape), np.zeros(shape)
    for piece in whole:
        known = piece.onto(piece.exact, query) / piece.variance
        precision += known
        weighted += known * piece.onto(piece.most, query)
    noise = np.divide(
        1, np.sqrt(precision), out=np.full(shape, np.nan), where=precision > 0
    )
    estimates = np.divide(weighted, precision, out=np.zeros(shape), where=precision > 0)
    bounds = (
        None
        if (precision > 0).all()
        else _bounds(estimate_total(merged), pieces, query, shape, quantile)
    )
    return errors_of_estimates(estimates, noise, counts, quantile, bounds)


def errors_of_estimates(
    estimates: Counts,
    noise: Counts,
    counts: Counts,
    quantile: Quantile,
    bounds: tuple[Counts, Counts] | None = None,
) -> CountErrors:
    """Return the intervals of unbiased estimates, and bounds where the standard deviation of the noise is nan."""
    supported = ~np.isnan(noise)
    lower, upper = quantile.ends(estimates, np.where(supported, noise, 0))
    if bounds is not None:
        lower, upper = (
            np.where(supported, lower, bounds[0]),
            np.where(supported, upper, bounds[1]),
        )
    lower = np.minimum(np.maximum(lower, 0), np.floor(counts + _FUZZ))
    upper = np.maximum(upper, np.ceil(counts - _FUZZ))
    reach = np.maximum(upper - counts, counts - lower) / quantile.at(quantile.level)
    return CountErrors(np.where(supported, noise, reach), lower, upper, supported)


@dataclass(frozen=True, eq=False)
class _Piece:
    """The counts of a marginal for some of the columns of a query."""

    columns: frozenset[int]
    order: tuple[int, ...]
    """The columns of its axes."""

    least: Counts
    most: Counts
    """Estimates of counts between which the true one is: not alike where rare values were counted together."""

    exact: NDArray[np.bool_]
    variance: float

    def onto(self, table: NDArray, query: Query) -> NDArray:
        """Give a table the axes of a query."""
        wanted = [column for column, weights in query.items() if weights is None]
        held = [column for column in wanted if column in self.order]
        table = np.transpose(table, [self.order.index(column) for column in held])
        return table.reshape(
            [
                table.shape[held.index(column)] if column in held else 1
                for column in wanted
            ]
        )


def _read(marginal: Marginal, query: Query, wanted: frozenset[int]) -> _Piece:
    """Sum a marginal to the columns that are asked for."""
    found = _Axes(
        marginal.counts,
        marginal.counts,
        np.ones(marginal.shape, bool),
        marginal.std_error**2,
    )
    groups = marginal.groups or (None,) * len(marginal.clique)
    for axis in reversed(range(len(marginal.clique))):
        column = marginal.clique[axis]
        if column not in wanted:
            ones = np.ones(marginal.shape[axis])
            found = found.weigh(axis, ones, ones)
        elif (weights := query[column]) is not None:
            found = found.weigh(axis, *_of_groups(weights, groups[axis]))
        elif (members := groups[axis]) is not None:
            found = found.take(axis, members)
    columns = wanted & frozenset(marginal.clique)
    order = tuple(
        column
        for column in marginal.clique
        if column in columns and query[column] is None
    )
    return _Piece(columns, order, found.least, found.most, found.exact, found.variance)


@dataclass(frozen=True, eq=False)
class _Axes:
    """A marginal of which some axes are summed."""

    least: Counts
    most: Counts
    exact: NDArray[np.bool_]
    variance: float

    def weigh(self, axis: int, least: Counts, most: Counts) -> _Axes:
        """Sum over an axis."""
        return _Axes(
            np.tensordot(self.least, least, (axis, 0)),
            np.tensordot(self.most, most, (axis, 0)),
            np.asarray(self.exact.all(axis=axis) & bool((least == most).all())),
            max(_LEAST_VARIANCE, self.variance * float(most @ most)),
        )

    def take(self, axis: int, members: NDArray[np.intp]) -> _Axes:
        """Give each value what its group has, but nothing for certain to values that are counted together."""
        alone = np.expand_dims(
            np.bincount(members)[members] == 1,
            [other for other in range(self.most.ndim) if other != axis],
        )
        least, most, exact = (
            np.take(table, members, axis)
            for table in (self.least, self.most, self.exact)
        )
        return _Axes(np.where(alone, least, 0.0), most, exact & alone, self.variance)


def _of_groups(
    weights: Counts, members: NDArray[np.intp] | None
) -> tuple[Counts, Counts]:
    """Return the share of each group that is counted at least and at most."""
    # How many records are in a part of a bin was not measured.
    least, most = np.floor(weights + _ROUNDING), np.ceil(weights - _ROUNDING)
    if members is None:
        return least, most
    low, high = np.ones(members.max() + 1), np.zeros(members.max() + 1)
    np.minimum.at(low, members, least)
    np.maximum.at(high, members, most)
    return low, high


def _bounds(
    total: tuple[float, float],
    pieces: Iterable[_Piece],
    query: Query,
    shape: tuple[int, ...],
    quantile: Quantile,
) -> tuple[Counts, Counts]:
    """Bound counts of columns that were not measured together by what was."""
    # Of the records that fulfil all conditions there are no more than fulfil some of them, and no fewer than are left
    # if the others failed one each ([1]_). Each bound has its share of the error that the level allows.
    # .. [1] M. Fréchet (1935). Généralisation du théorème des probabilités totales. Fundamenta Mathematicae 25.
    best: dict[frozenset[int], _Piece] = {}
    for piece in pieces:
        if piece.columns and (
            piece.columns not in best or piece.variance < best[piece.columns].variance
        ):
            best[piece.columns] = piece
    level = 1 - 2 * (1 - quantile.level) / max(3, len(best) + len(query) + 1)
    _, n = quantile.ends(np.array(total[0]), total[1], level)
    upper = np.full(shape, float(n))
    for piece in best.values():
        _, most = quantile.ends(
            piece.onto(piece.most, query), math.sqrt(piece.variance), level
        )
        upper = np.minimum(upper, most)
    lower, left = np.full(shape, float(n)), frozenset(query)
    for piece in sorted(
        best.values(), key=lambda piece: (-len(piece.columns), piece.variance)
    ):
        if piece.columns <= left:
            least, _ = quantile.ends(
                piece.onto(piece.least, query), math.sqrt(piece.variance), level
            )
            lower, left = lower - (n - least), left - piece.columns
    return np.zeros(shape) if left else np.maximum(lower, 0), np.maximum(upper, 0)
