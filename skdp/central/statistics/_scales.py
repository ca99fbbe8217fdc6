"""Scales of columns of which most values lie close together, from noisy counts between their bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skdp.central.statistics._batches import Batches
from skdp.central.statistics._bins import edges_towards_zero
from skdp.central.statistics._nested_cells import N_LEVELS, nested_cells
from skdp.central.statistics._noise import LARGEST, Noise, as_float
from skdp.central.statistics._private_bounds import count_values
from skdp.oracles import project_to_simplex
from skdp.privacy import Share
from skdp.randomness import ByteSource

Floats = NDArray[np.float64]
Scale = Floats | None
"""Knots: values, ascending, and their places from -1 to 1, (n_knots, 2). None for a column that stays as it is."""

# The share of the budget for the counts. Half or twice as much changes the area under
# the curve by at most .008 on six tables, at epsilon .1 and 1 over 5 splits; on a
# seventh, half loses .04 +- .04 at .1, and twice .014 +- .01.
SCALING_PART = Fraction(3, 20)

# Of this, for each level of counts by which cells are cut, and the part of the values
# from which on a cell is.
_LEVEL_PART = Fraction(1, 20)
_LARGE = 1 / 2

# Cells of equal width, and those that halve towards the bound next to 0. About twice as
# many change the area by -.008 to .001 at epsilon .1, and by less above, on six tables.
_EVEN_CELLS, _HALVINGS = 16, 20

# A column stays as it is if its values have this standard deviation, in half the width
# of the bounds, for certain: 1 / 8 for a normal column within 8 deviations. The noise
# of a model is then at most 6 times that of a column that fills its bounds evenly.
_SPREAD_OUT = 0.1

# With fewer rows, in standard deviations of a count, all columns stay as they are.
_ENOUGH = 6

# The central part of the values, between the ends of the linear half of a scale.
_ENDS = 0.005, 0.995


@dataclass(frozen=True, eq=False)
class CellsBetween:
    """Cells between two bounds, narrow next to the one that is nearer to 0."""

    edges: Floats

    @classmethod
    def of_bounds(cls, low: float, high: float) -> CellsBetween:
        """Return the cells of a column, which follow from its bounds alone."""
        even = low + (high - low) * (np.arange(_EVEN_CELLS) / _EVEN_CELLS)
        halves: Floats = np.ldexp(1.0, -np.arange(1, _HALVINGS + 1))
        skewed = edges_towards_zero(low, high, halves)
        return cls(np.unique(np.concatenate([even, skewed, [low, high]])))

    @property
    def size(self) -> int:
        return len(self.edges) - 1

    @property
    def middles(self) -> Floats:
        """The middle of each cell."""
        middles: Floats = self.edges[:-1] / 2 + self.edges[1:] / 2
        return middles

    def of(self, numbers: Floats) -> NDArray[np.intp]:
        """Return the cell of each number; beyond the bounds, the last one."""
        cells = np.searchsorted(self.edges[1:-1], numbers, side="right")
        return cells.astype(np.intp)


class ScalingNoise(NamedTuple):
    """The noise of counts by which columns are scaled."""

    # Of each level of cells that may be cut, and of those that are left.
    of_levels: Noise
    of_cells: Noise

    @classmethod
    def of(cls, share: Share, n_columns: int) -> ScalingNoise:
        """Return the noise of some columns: a row changes one count of each on each level."""
        share *= SCALING_PART
        of_cells = share * (1 - N_LEVELS * _LEVEL_PART)
        return cls(
            Noise.of(share * _LEVEL_PART, n_columns, n_columns),
            Noise.of(of_cells, n_columns, n_columns),
        )

    @property
    def draws(self) -> tuple[Noise, ...]:
        """What is drawn at most, one after another."""
        return *[self.of_levels] * N_LEVELS, self.of_cells


def find_scales(
    columns: Batches, ends: Floats, scaling_noise: ScalingNoise, source: ByteSource
) -> list[Scale]:
    """Find the scale of each column between its bounds."""

    def count(edges_of_columns: Sequence[Floats]) -> list[NDArray[np.int64]]:
        return count_values(columns, [*map(CellsBetween, edges_of_columns)])

    all_edges, _ = nested_cells(
        [CellsBetween.of_bounds(low, high).edges for low, high in ends],
        count,
        scaling_noise.of_levels,
        source,
        large=_LARGE,
    )
    cells = [*map(CellsBetween, all_edges)]
    noise = scaling_noise.of_cells
    noisy_counts = []
    for exact_counts in count_values(columns, cells):
        counts = exact_counts + noise.draw(source, exact_counts.size)
        # As floats: noise may be larger than all of them.
        noisy_counts.append(np.clip(counts, -LARGEST, LARGEST).astype(float))
    error = as_float(noise.error)

    # Each column counts all rows: the mean, by the noise of each of these sums.
    sums = [counts.sum() for counts in noisy_counts]
    n_rows = np.average(sums, weights=[1 / of_column.size for of_column in cells])
    if n_rows < max(_ENOUGH * error, 1.0):
        return [None] * len(cells)
    scales = []
    for of_column, counts in zip(cells, noisy_counts, strict=True):
        scales.append(_find_scale(of_column, counts, float(n_rows), error))
    return scales


def _find_scale(
    cells: CellsBetween, counts: Floats, n_rows: float, error: float
) -> Scale:
    """Find the scale of a column by noisy counts of its cells, each with this standard deviation."""
    low, high = cells.edges[[0, -1]]
    # The deviation of the values, in half the width of the bounds.
    cell_places = 2 * _parts(cells.middles, low, high) - 1
    mean = counts @ cell_places / n_rows
    distances = cell_places - mean
    variance = counts @ distances**2 / n_rows
    std_error = error * np.sqrt((distances**4).sum()) / n_rows
    if variance - 2 * std_error > _SPREAD_OUT**2:
        return None

    shares = project_to_simplex(counts, n_rows) / n_rows
    ranks = np.append(0.0, np.cumsum(shares))
    # Half the place of a value is that between the ends of nearly all, and half its
    # rank. The place alone is worse where a few values are far from the others, and the
    # rank alone where they are not: the half is close to the better one on all tables.
    first = _value_of_rank(cells.edges, ranks, _ENDS[0])
    last = _value_of_rank(cells.edges, ranks, _ENDS[1])
    if first >= last:
        first, last = low, high
    values = np.unique(np.append(cells.edges, [first, last]))
    places = np.clip(_parts(values, first, last), 0, 1)
    places += np.interp(values, cells.edges, ranks)
    return np.stack([values, places - 1], axis=1)


def _parts(values: Floats, low: float, high: float) -> Floats:
    """Return how far between two ends some values are, from 0 to 1."""
    parts: Floats = (values - low) / (high - low)
    return parts


def _value_of_rank(edges: Floats, ranks: Floats, rank: float) -> float:
    """Return the value below which this share of the values is."""
    cell = int(np.searchsorted(ranks, rank, side="right")) - 1
    cell = min(cell, len(edges) - 2)
    inside = (rank - ranks[cell]) / (ranks[cell + 1] - ranks[cell])
    return float(edges[cell] * (1 - inside) + edges[cell + 1] * inside)


def scale_columns(
    columns: Sequence[Floats], scales: Sequence[Scale] | None
) -> list[Floats]:
    """Return the places of the values of scaled columns, and all others as they are."""
    if scales is None:
        return list(columns)
    places = []
    for numbers, scale in zip(columns, scales, strict=True):
        if scale is None:
            places.append(numbers)
        else:
            places.append(np.interp(numbers, scale[:, 0], scale[:, 1]))
    return places


def scaled_ends(ends: Floats, scales: Sequence[Scale]) -> Floats:
    """Return the bounds of scaled columns."""
    bounds = ends.copy()
    for index, scale in enumerate(scales):
        if scale is not None:
            bounds[index] = -1, 1
    return bounds
