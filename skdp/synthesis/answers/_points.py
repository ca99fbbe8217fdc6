"""Points that represent the values and bins of columns, and their combinations in a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from skdp._arrays import Floats, Indices
from skdp.domain import Interval
from skdp.synthesis.answers._fitted_table import FittedTable
from skdp.synthesis.private._number_cells import Shape, Steps, find_middles

MAX_CALLS = 20_000
"""Largest number of calls of a statistic: three minutes if each takes ten milliseconds."""

MIN_DIVISOR = np.finfo(float).tiny
"""The smallest normal float: it replaces a divisor of 0 where the dividend is 0, too."""


@dataclass(frozen=True, eq=False)
class Axis:
    """The points that represent the values of one column: one for a listed value or missing, and two for a bin."""

    points: pd.Series
    """(n_points,)."""
    value_of: Indices
    """The index of the value of each point."""
    proportions: Floats
    """The proportion of each point in the records of its value."""
    shape: Shape | None = None
    """The distribution of numbers within bins; None for listed values."""
    means: Floats = field(default_factory=lambda: np.empty(0))
    """(n_bins,): the mean of the numbers of each bin, relative to the first edge."""
    positions: Floats = field(default_factory=lambda: np.empty(0))
    """(n_points,): the distances of points from the means of their bins; 0 for missing."""
    max_slopes: Floats = field(default_factory=lambda: np.empty(0))
    """(n_points,): the largest slope of a density that is nonnegative at both points."""
    scores: Floats = field(default_factory=lambda: np.empty((0, 0)))
    """(n_cells, n_points): the change of each proportion with the counts of fine cells."""


@dataclass(frozen=True, eq=False)
class PointTable:
    """All combinations of the points of columns, and their proportions by the model."""

    axes: Sequence[Axis]
    rows: pd.DataFrame
    """The combinations, one per row."""
    proportions: Floats
    """The proportion of each combination, with one axis per column."""
    conditional: Floats
    """The proportion of each combination of points in the records of its values."""


def make_point_table(fitted: FittedTable, columns: Sequence[int]) -> PointTable:
    """List the combinations of the points of columns, with their proportions by the model.

    `columns` are indices. A listed value is one point, and a bin two.
    """
    axes = []
    for column in columns:
        values = fitted.domain[fitted.domain.columns[column]]
        if not isinstance(values, Interval):
            points = pd.Series(list(values.values)).infer_objects()
            size = len(points)
            axes.append(Axis(points, np.arange(size), np.ones(size)))
            continue
        shape = fitted.counts.shapes.get(column) or Shape.uniform(values)
        axes.append(_represent_bins(values, shape))
    proportions = fitted.counts.model.marginal(columns)
    n_points = [axis.value_of.size for axis in axes]
    if math.prod(n_points) > MAX_CALLS:
        raise ValueError(
            f"`columns` must have at most {MAX_CALLS:,} combinations of values, for "
            f"each of which `statistic` is called, got {math.prod(n_points):,}. Name "
            "fewer columns."
        )
    codes = np.indices(n_points).reshape(len(axes), -1)
    rows = {}
    for axis_number, axis in enumerate(axes):
        name = fitted.domain.columns[columns[axis_number]]
        rows[name] = axis.points.iloc[codes[axis_number]].reset_index(drop=True)
    conditional = np.ones(n_points)
    for axis_number, axis in enumerate(axes):
        one_axis = [-1 if other == axis_number else 1 for other in range(len(axes))]
        points_of_bins = axis.proportions.reshape(one_axis)
        if len(axes) > 1 and axis.means.size > 1:
            slopes = _estimate_slopes(axes, proportions, axis_number, axis.means)
            positions = axis.positions.reshape(one_axis)
            # Densities are nonnegative at both points of a bin.
            limits = axis.max_slopes.reshape(one_axis)
            slopes = np.clip(slopes, -limits, limits)
            points_of_bins = points_of_bins * (1 + positions * slopes)
        conditional = conditional * points_of_bins
    value_proportions = proportions[np.ix_(*(axis.value_of for axis in axes))]
    return PointTable(
        axes, pd.DataFrame(rows), value_proportions * conditional, conditional
    )


def _estimate_slopes(
    axes: Sequence[Axis], proportions: Floats, axis_number: int, means: Floats
) -> Floats:
    """Estimate the slope of the density within bins given the other columns, relative to the density of all records.

    `proportions` of values by the model have one axis per column, and the result has the points on these axes. The
    slope is for the column `axis_number`, whose bins have these `means`.
    """
    # Given the values of other columns, the density of the numbers of a bin, relative to
    # all records, is assumed to be linear in the number. Its slope is the slope between the
    # means of neighboring bins, divided by the density.
    by_bin = np.moveaxis(proportions, axis_number, 0)
    other_axes = tuple(range(1, proportions.ndim))
    bin_proportions = by_bin[: means.size]
    independent = bin_proportions.sum(axis=0) * bin_proportions.sum(
        axis=other_axes, keepdims=True
    )
    ratio = bin_proportions / np.maximum(independent, MIN_DIVISOR)
    slopes = np.zeros(by_bin.shape)
    slopes[: means.size] = np.gradient(ratio, means, axis=0)
    slopes[: means.size] /= np.maximum(ratio, MIN_DIVISOR)
    values = np.ix_(*(axis.value_of for axis in axes))
    return np.moveaxis(slopes, 0, axis_number)[values]


def _represent_bins(values: Interval, shape: Shape) -> Axis:
    """Represent the numbers of each bin by two points, with their mean and variance, and missing by one point."""
    edges = np.array(values.edges, values.dtype)[:-1]
    n_bins, n_missing = len(edges), int(values.missing)
    n_points = 2 * n_bins + n_missing
    value_of = np.repeat(np.arange(n_bins + n_missing), [2] * n_bins + [1] * n_missing)

    def list_by_point(lower: Floats, upper: Floats, missing: float) -> Floats:
        """List a number of the lower and the upper point of each bin, and of the point of missing."""
        by_bin = np.column_stack([lower, upper]).ravel()
        return np.append(by_bin, [missing] * n_missing)

    # Numbers and dates are offsets from the first edge of their bin, because dates cannot
    # be added.
    bin_of = shape.bins
    cell_offsets = (find_middles(shape.cells) - edges[bin_of]).astype(float)
    means, variances = _compute_moments(shape, cell_offsets)
    limits = Steps.of(values)
    below = means - (limits.first - edges).astype(float)
    above = (limits.last - edges).astype(float) - means
    down, up = _find_distances(variances, below, above)

    # The points of numbers; a point of missing has no number.
    offsets = np.column_stack([means - down, means + up]).ravel()
    if values.dtype.kind == "M":
        unit = np.datetime_data(values.dtype)[0]
        offsets = np.rint(offsets).astype(f"timedelta64[{unit}]")
    numbers = np.repeat(edges, 2) + offsets
    numbers = np.clip(numbers, np.repeat(limits.first, 2), np.repeat(limits.last, 2))

    # The point nearer to the mean has the larger proportion.
    gaps = down + up
    lower_parts = np.divide(up, gaps, out=np.full(n_bins, 0.5), where=gaps > 0)
    max_slopes = 1 / np.maximum(np.maximum(down, up), MIN_DIVISOR)

    # A record of a cell at some distance from the mean moves this distance, divided by the
    # gap between the points, from the lower to the upper point, which preserves the mean to
    # first order.
    moved = (cell_offsets - means[bin_of]) / np.maximum(gaps[bin_of], MIN_DIVISOR)
    scores = np.zeros((bin_of.size, n_points))
    scores[np.arange(bin_of.size), 2 * bin_of] = -moved
    scores[np.arange(bin_of.size), 2 * bin_of + 1] = moved
    return Axis(
        pd.Series(numbers).reindex(range(n_points)),
        value_of,
        list_by_point(lower_parts, 1 - lower_parts, 1.0),
        shape=shape,
        means=means + (edges - edges[0]).astype(float),
        positions=list_by_point(-down, up, 0.0),
        max_slopes=list_by_point(max_slopes, max_slopes, 0.0),
        scores=scores,
    )


def _compute_moments(shape: Shape, cell_offsets: Floats) -> tuple[Floats, Floats]:
    """Compute the mean and the variance of the numbers of each bin, which are uniform within the cells of a shape.

    `cell_offsets` are the middles of the cells, and means are relative to the same number as they.
    """
    bins, weights = shape.bins, shape.proportions
    means = np.asarray(np.bincount(bins, weights * cell_offsets), float)
    steps = Steps.of(shape.cells)
    step = float(steps.step)
    widths = steps.n_values * (step or 1.0)
    variances = (cell_offsets - means[bins]) ** 2 + (widths**2 - step**2) / 12
    return means, np.maximum(np.bincount(bins, weights * variances), 0)


def _find_distances(
    variances: Floats, below: Floats, above: Floats
) -> tuple[Floats, Floats]:
    """Return the distances below and above the mean of each bin at which two points have its variance; (n_bins,).

    They are at most `below` and `above`.
    """
    # Points at the distances a and b below and above the mean, with proportions in the
    # ratio b : a, have the variance a * b. They are equal unless one leaves the bin.
    stds = np.sqrt(variances)
    down, up = np.minimum(stds, below), np.minimum(stds, above)
    np.divide(variances, down, out=up, where=(below < stds) & (down > 0))
    np.divide(variances, up, out=down, where=(above < stds) & (up > 0))
    return down, up


def sum_points(table: Floats, axis: Axis, axis_number: int) -> Floats:
    """Sum a table over the points of each value of a column, on its axis `axis_number`."""
    moved = np.moveaxis(table, axis_number, 0)
    sums = np.zeros((axis.value_of.max() + 1, *moved.shape[1:]))
    np.add.at(sums, axis.value_of, moved)
    return np.moveaxis(sums, 0, axis_number)
