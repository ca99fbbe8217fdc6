"""Counts from noisy marginals without a model: intervals, or bounds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from skdp.synthesis.model import (
    Marginal,
    arrange,
    estimate_total,
    expand,
    merge,
    shape_of,
)

Query: TypeAlias = Mapping[int, NDArray[np.float64] | None]
"""The columns of a question: None for each value of one, or weights of its cells."""

Counts: TypeAlias = NDArray[Any]

_ROUNDING = 1e-9
"""Of a weight: what is so near to a whole number is one."""

_FUZZ = 1e-6
"""Of a count: what is so near to a whole number is one."""

_MIN_VARIANCE = 1e-12
"""Of a sum that has no noise, so that nothing is divided by 0."""


@dataclass(frozen=True, eq=False)
class CountErrors:
    """The errors of counts; arrays, or numbers if no column is asked by value."""

    std_error: Counts
    lower: Counts
    upper: Counts
    supported: NDArray[np.bool_]


@dataclass(frozen=True)
class Quantile:
    """How many standard deviations an interval reaches."""

    level: float
    gaussian: bool

    @property
    def reach(self) -> float:
        """The number of standard deviations."""
        # A sum of discrete Laplace numbers is nearly normal for many, and Laplace for
        # one: the larger quantile counts.
        normal = NormalDist().inv_cdf((1 + self.level) / 2)
        if self.gaussian:
            return normal
        return max(normal, -math.log(1 - self.level) / math.sqrt(2))

    def ends(self, counts: Counts, noise: Counts | float) -> tuple[Counts, Counts]:
        """Return the ends of the intervals of estimates."""
        # A count with whole noise reaches half further: so the whole numbers inside
        # have the probability, also where the noise has few. Means of several counts
        # are not whole.
        is_whole = np.abs(counts - np.rint(counts)) < _FUZZ
        reach = self.reach * noise + np.where(is_whole, 0.5, 0.0)
        return np.ceil(counts - reach), np.floor(counts + reach)


def errors_of_counts(
    marginals: Iterable[Marginal],
    query: Query,
    sizes: Sequence[int],
    counts: Counts,
    quantile: Quantile,
) -> CountErrors:
    """Find how far counts by a model may be from the true ones."""
    # Where a measured marginal holds all columns, sums of its counts are unbiased, with
    # known noise: their interval covers the true count whatever the model has missed,
    # and whether or not it was fitted to the end. The count by the model is mostly
    # better, and always taken into the interval.
    # Arrays have an axis for each column that is asked for value by value: `shape`.
    merged = merge(marginals)
    pieces = []
    for marginal in merged:
        pieces.append(_Piece.of(marginal, query))
    by_value = _by_value(query)
    shape = shape_of(by_value, sizes)
    precision = np.zeros(shape)
    weighted = np.zeros(shape)
    for piece in pieces:
        if piece.columns == set(query):
            piece_precision = piece.onto(piece.is_exact, by_value) / piece.variance
            precision += piece_precision
            weighted += piece_precision * piece.onto(piece.most, by_value)
    # Without a marginal that holds all columns there is no estimate, but bounds.
    is_supported = precision > 0
    noise = np.full(shape, np.nan)
    np.divide(1, np.sqrt(precision), out=noise, where=is_supported)
    estimates = np.divide(weighted, precision, out=np.zeros(shape), where=is_supported)
    lower, upper = quantile.ends(estimates, np.where(is_supported, noise, 0))
    if not is_supported.all():
        total = estimate_total(merged)
        least, most = _bounds(total, pieces, query, shape, quantile)
        lower = np.where(is_supported, lower, least)
        upper = np.where(is_supported, upper, most)
    # The count by the model is inside, and a standard error is told such that the
    # interval is as many of them wide as that of a normal number.
    lower = np.minimum(np.maximum(lower, 0), np.floor(counts + _FUZZ))
    upper = np.maximum(upper, np.ceil(counts - _FUZZ))
    reach = np.maximum(upper - counts, counts - lower) / quantile.reach
    # The squared distance of the model from an unbiased estimate of variance v is its
    # squared error plus v on average, if the two are independent: where that says more
    # than the noise, the model was not fitted to the end.
    misfit = np.sqrt(np.maximum((counts - estimates) ** 2 - noise**2, 0))
    std_error = np.where(is_supported, np.maximum(noise, misfit), reach)
    return CountErrors(std_error, lower, upper, is_supported)


def _by_value(query: Query) -> list[int]:
    """List the columns that are asked for value by value."""
    return [column for column, weights in query.items() if weights is None]


@dataclass(frozen=True, eq=False)
class _Piece:
    """The counts of a marginal for some of the columns of a query."""

    columns: frozenset[int]
    axes: tuple[int, ...]
    """The columns of its axes, in order."""

    least: Counts
    most: Counts
    """Estimates of counts between which the true one is, if values were grouped."""

    is_exact: NDArray[np.bool_]
    variance: float

    @classmethod
    def of(cls, marginal: Marginal, query: Query) -> _Piece:
        """Sum a marginal to the columns that are asked for."""
        columns = frozenset(query) & set(marginal.clique)
        exact = np.ones(marginal.shape, bool)
        variance = marginal.std_error**2
        piece = cls(
            columns, marginal.clique, marginal.counts, marginal.counts, exact, variance
        )
        # From the last axis to the first: those before keep their places.
        for column in reversed(marginal.clique):
            members = marginal.groups_of(column)
            weights = query.get(column)
            if column not in query:
                axis = marginal.clique.index(column)
                ones = np.ones(marginal.shape[axis])
                piece = piece._sum(column, ones, ones)
            elif weights is not None:
                piece = piece._sum(column, *_weights_of_groups(weights, members))
            elif members is not None:
                piece = piece._spread(column, members)
        return piece

    def _sum(self, column: int, least: Counts, most: Counts) -> _Piece:
        """Sum over a column, with the least and the largest weights of its values."""
        # The variance of a weighted sum of independent noise: sum(weight ** 2) each.
        axis = self.axes.index(column)
        is_same = bool((least == most).all())
        return _Piece(
            self.columns,
            self.axes[:axis] + self.axes[axis + 1 :],
            np.tensordot(self.least, least, (axis, 0)),
            np.tensordot(self.most, most, (axis, 0)),
            np.asarray(self.is_exact.all(axis=axis) & is_same),
            max(_MIN_VARIANCE, self.variance * float(most @ most)),
        )

    def _spread(self, column: int, members: NDArray[np.intp]) -> _Piece:
        """Give each value what its group has; nothing is certain of grouped values."""
        axis = self.axes.index(column)
        is_alone = np.bincount(members)[members] == 1
        is_alone = expand(is_alone, (column,), self.axes)
        least = np.take(self.least, members, axis)
        return _Piece(
            self.columns,
            self.axes,
            np.where(is_alone, least, 0.0),
            np.take(self.most, members, axis),
            np.take(self.is_exact, members, axis) & is_alone,
            self.variance,
        )

    def onto(self, table: NDArray, columns: Sequence[int]) -> NDArray:
        """Give a table the axes of a query."""
        return arrange(table, self.axes, columns)


def _weights_of_groups(
    weights: Counts, members: NDArray[np.intp] | None
) -> tuple[Counts, Counts]:
    """Return the least and the largest weight that records of each group may have."""
    # How many records are in a part of a bin was not measured: none, or all of them.
    least = np.floor(weights + _ROUNDING)
    largest = np.ceil(weights - _ROUNDING)
    if members is None:
        return least, largest
    # All records of a group may have the value that weighs least, or the one that
    # weighs most. Weights are from 0 to 1.
    n_groups = members.max() + 1
    least_of_groups = np.ones(n_groups)
    largest_of_groups = np.zeros(n_groups)
    np.minimum.at(least_of_groups, members, least)
    np.maximum.at(largest_of_groups, members, largest)
    return least_of_groups, largest_of_groups


def _bounds(
    total: tuple[float, float],
    pieces: Iterable[_Piece],
    query: Query,
    shape: tuple[int, ...],
    quantile: Quantile,
) -> tuple[Counts, Counts]:
    """Bound counts of columns that were not measured together by what was."""
    # Of the records that fulfil all conditions there are no more than fulfil some of
    # them, and no fewer than remain if the rest failed one each ([1]_). Each bound has
    # its share of the error that the level allows.
    # .. [1] M. Fréchet (1935). Généralisation du théorème des probabilités totales.
    #    Fundamenta Mathematicae 25.
    best: dict[frozenset[int], _Piece] = {}
    for piece in pieces:
        rival = best.get(piece.columns)
        if piece.columns and (rival is None or piece.variance < rival.variance):
            best[piece.columns] = piece
    n_bounds = max(3, len(best) + len(query) + 1)
    level = 1 - 2 * (1 - quantile.level) / n_bounds
    quantile = Quantile(level, quantile.gaussian)
    by_value = _by_value(query)
    _, n_records = quantile.ends(np.array(total[0]), total[1])
    upper = np.full(shape, float(n_records))
    lower = np.full(shape, float(n_records))
    unbounded = frozenset(query)
    order = sorted(
        best.values(), key=lambda piece: (-len(piece.columns), piece.variance)
    )
    for piece in order:
        error = math.sqrt(piece.variance)
        _, most = quantile.ends(piece.onto(piece.most, by_value), error)
        upper = np.minimum(upper, most)
        if piece.columns <= unbounded:
            least, _ = quantile.ends(piece.onto(piece.least, by_value), error)
            lower = lower - (n_records - least)
            unbounded = unbounded - piece.columns
    if unbounded:
        lower = np.zeros(shape)
    return np.maximum(lower, 0), np.maximum(upper, 0)
