"""How numbers and dates lie within bins: fine public cells, and dependent ranks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from skdp.domain import Categories, Domain, Interval
from skdp.synthesis.model import GraphicalModel, sample

# A table of counts of a thousand cells is made in no time, and pairs of a thousand
# numbers have as many: so a grid has up to about 500 cells.
_EVEN, _GROWING, _SINGLE, _CELLS = 64, 448, 256, 512
"""Cells of even and of growing widths, single whole numbers, and numbers or dates."""

_DECADES = 4
"""The powers of ten whose multiples have cells of their own, from the largest one on.

Ends are at most a hundred times the numbers that most records have, and one digit less."""

_POINT = 2.0**-20
"""How wide the cell of a single number is, relative to the whole interval."""

_ERROR = 1e-12
"""Of edges that are the same, relative to the whole interval."""

_SWEEPS, _LEARNING_STEPS, _N_LEARNT_FROM = 4, 15, 10_000
"""Of Gibbs sampling; of learning correlations, and the rows for it.

A correlation of 10,000 rows has a standard error of at most .01."""

_LEAST = 1e-9
"""The least distance of ranks from 0, from 1 and from each other."""


def fine_grid(interval: Interval) -> Interval:
    """Cut an interval into fine cells, by its ends and the decimals of its numbers."""
    if interval.dtype.kind != "f":
        return Interval(edges=_cut_dates(interval), missing=interval.missing)
    low = float(interval.edges[0])
    high = float(interval.edges[-1])
    numbers = _single_numbers(low, high)
    if interval.decimals:
        # The whole numbers of steps.
        unit = 10.0**interval.decimals
        edges = _cut_whole_numbers(low * unit, high * unit, numbers * unit) / unit
    elif interval.real:
        edges = _cut_reals(low, high)
    else:
        edges = _cut_whole_numbers(low, high, numbers)
    is_inside = (edges > low) & (edges < high)
    return _with_edges(interval, np.unique([low, *edges[is_inside], high]).tolist())


def _with_edges(interval: Interval, edges: list[Any]) -> Interval:
    return Interval(
        edges=edges,
        missing=interval.missing,
        real=interval.real,
        decimals=interval.decimals,
    )


def _cut_whole_numbers(
    low: float, high: float, numbers: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return edges of cells of whole numbers, each alone if they are few."""
    if high - low > _CELLS:
        parts = [_rough_edges(low, high), numbers, numbers + 1]
        return np.rint(np.concatenate(parts))
    # The last cell is closed: the end has one of its own.
    return np.append(np.arange(np.ceil(low), high), [max(low, high - 0.5), high])


def _rough_edges(low: float, high: float) -> NDArray[np.float64]:
    """Return even edges for any middle, and growing ones for long tails."""
    # Edges that grow by a factor begin at the end that is next to 0, or, if 0 is inside,
    # near to it, on both sides.
    largest = max(abs(low), abs(high))
    least = max(_POINT * (high - low), low, -high)
    signs = [1.0] * (high > 0) + [-1.0] * (low < 0)
    growing = np.geomspace(least, largest, _GROWING // len(signs) + 1)
    even = np.linspace(low, high, _EVEN + 1)
    return np.concatenate([even, np.outer(signs, growing).ravel()])


def _cut_reals(low: float, high: float) -> NDArray[np.float64]:
    """Return rough edges, and those of single numbers for points of mass."""
    # No rough edge is near to a number that has a cell of its own: no cell is narrower.
    width = _POINT * (high - low)
    edges = _rough_edges(low, high)
    numbers = _single_numbers(low, high)
    distances = np.abs(edges[:, np.newaxis] - numbers)
    is_near = (distances <= 2 * width).any(axis=1)
    return np.concatenate([edges[~is_near], numbers, numbers + width])


def _single_numbers(low: float, high: float) -> NDArray[np.float64]:
    """Return the numbers with a cell of their own: whole ones, or round ones if too many."""
    # Where a column has points of mass, these are mostly whole numbers, above all 0.
    first = np.ceil(low)
    highest = np.floor(high)
    if highest - first < _SINGLE:
        numbers = np.arange(first, highest + 1)
    elif max(-low, high) <= 2.0**53:  # beyond, floats do not hold all whole numbers
        numbers = _round_numbers(low, high)
    else:
        numbers = np.zeros(int(low <= 0 <= high))
    return numbers[numbers + 2 * _POINT * (high - low) <= high]


def _round_numbers(low: float, high: float) -> NDArray[np.float64]:
    """Return 0, and whole numbers of one digit, or of a second one that is 5, and zeros."""
    largest = math.floor(math.log10(max(-low, high)))
    powers = 10.0 ** np.arange(max(0, largest - _DECADES + 1), largest + 1)
    digits = np.concatenate([np.arange(1, 10), np.arange(1.5, 10)])
    positive = np.rint(np.outer(powers, digits).ravel())
    numbers = np.unique(np.concatenate([-positive, [0.0], positive]))
    return numbers[(numbers >= low) & (numbers <= high)]


def _cut_dates(interval: Interval) -> list[Any]:
    """Return edges of even cells of whole days, whole seconds or microseconds."""
    ends = np.array([interval.edges[0], interval.edges[-1]], interval.dtype)
    seconds = ends.astype("datetime64[s]")
    is_day = ends.dtype == np.dtype("datetime64[D]")
    unit = ends.dtype if is_day or (seconds != ends).any() else seconds.dtype
    first, highest = ends.astype(unit).astype(np.int64).tolist()
    n_cells = min(_CELLS, highest - first)
    # Python's integers do not overflow.
    steps = []
    for cell in range(n_cells + 1):
        steps.append(first + cell * (highest - first) // n_cells)
    return np.array(steps).astype(unit).astype(ends.dtype).tolist()


def cells_within(interval: Interval) -> Interval:
    """Cut declared bins into fine cells; return itself where these say no more."""
    grid = fine_grid(interval)
    # Bins as many as the cells of the grid are as fine as it is, and each further cell
    # makes the counts slower.
    if len(interval.edges) >= len(grid.edges):
        return interval
    edges = sorted({*_edges_between(grid, interval), *interval.edges})
    # Bins of single numbers have one cell each, and the last one, which is closed, two.
    if len(edges) <= len(interval.edges) + 1:
        return interval
    return _with_edges(interval, edges)


def _edges_between(grid: Interval, interval: Interval) -> list[Any]:
    """List the edges of a grid that are not those of an interval, but for errors."""
    if interval.dtype.kind != "f":
        return list(grid.edges)
    edges = np.array(grid.edges)
    declared = np.array(interval.edges)
    if not interval.real:
        # No whole number is between a declared edge 18.5 and an edge 19 of the grid: a
        # cell from 18.5 to 19 would have rows, and these would be drawn as 18.
        unit = 10.0 ** (interval.decimals or 0)
        first_numbers = (
            np.ceil(declared * unit * (1 - np.sign(declared) * _ERROR)) / unit
        )
        declared = np.union1d(declared, first_numbers)
    # The distance of each edge of the grid from the nearest declared one, which is next
    # below or next above.
    nearest = np.clip(np.searchsorted(declared, edges), 1, declared.size - 1)
    below = np.abs(edges - declared[nearest - 1])
    distances = np.minimum(below, np.abs(edges - declared[nearest]))
    return edges[distances > _ERROR * (declared[-1] - declared[0])].tolist()


def find_points(grid: Interval) -> NDArray[np.bool_]:
    """Mark the cells of a grid that stand for a single number: their left end."""
    edges = np.array(grid.edges, grid.dtype)
    if not grid.real:  # of whole numbers, or dates
        return np.zeros(edges.size - 1, bool)
    is_narrow = np.diff(edges) <= 2 * _POINT * (edges[-1] - edges[0])
    return is_narrow & np.isin(edges[:-1], _single_numbers(edges[0], edges[-1]))


@dataclass(frozen=True, eq=False)
class Shape:
    """A fine grid, and the share of records below each edge, by noisy counts."""

    grid: Interval
    below: NDArray[np.float64]
    counts: NDArray[np.float64]
    """The unbiased noisy counts of the cells, without those of declared bins."""

    std_error: float
    """Of each count of a node, of which the counts of cells are made."""

    def share_below(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Return the share of records below numbers or dates."""
        edges = np.array(self.grid.edges, values.dtype)
        return np.interp(values.astype(float), edges.astype(float), self.below)

    def limits(
        self, interval: Categories | Interval, codes: NDArray[np.integer]
    ) -> NDArray[np.float64]:
        """Return the shares below the ends of each code's bin; 0 and 1 if missing."""
        below = self.below[self._starts(interval)]
        low = np.append(below[:-1], 0.0)
        high = np.append(below[1:], 1.0)
        return np.array([low[codes], high[codes]])

    def place(
        self,
        interval: Categories | Interval,
        codes: NDArray[np.integer],
        ranks: NDArray[np.float64],
    ) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Return the cell of each rank in its bin, and how far into it the rank is."""
        # A rank is the share of records below a number. The cell in which the share below
        # reaches it is kept within the bin; missing has a cell behind all others.
        starts = self._starts(interval)
        missing = self.below.size - 1
        first = np.append(starts[:-1], missing)[codes]
        highest = np.append(starts[1:] - 1, missing)[codes]
        cells = np.searchsorted(self.below, ranks, side="right") - 1
        cells = np.clip(cells, first, highest)
        shares = np.append(np.diff(self.below), 0.0)[cells]
        is_point = np.append(find_points(self.grid), True)[cells]
        positions = np.zeros(ranks.size)
        # Within a cell numbers are even. A cell of a single number has it at its left end.
        distances = ranks - self.below[cells]
        np.divide(distances, shares, out=positions, where=(shares > 0) & ~is_point)
        return cells, np.clip(positions, 0, np.nextafter(1, 0))

    def _starts(self, interval: Categories | Interval) -> NDArray[np.intp]:
        """Return the first cell of each bin of an interval, and the number of cells."""
        assert isinstance(interval, Interval)
        edges = np.array(self.grid.edges, self.grid.dtype)
        return np.searchsorted(edges, np.array(interval.edges, self.grid.dtype))


@dataclass(frozen=True, eq=False)
class Shapes:
    """The shapes of columns, and the correlations of their ranks as normal numbers."""

    # A row has its bins by the model. Within them its ranks are those of normal numbers
    # with these correlations (a Gaussian copula), given the bins: so that rows that are
    # low in the bin of one column are so in those of others.
    columns: Mapping[Any, Shape]
    correlations: NDArray[np.float64]

    @classmethod
    def of(
        cls,
        columns: Mapping[Any, Shape],
        domain: Domain,
        model: GraphicalModel,
        rng: np.random.Generator,
    ) -> Shapes:
        """Estimate correlations from rows of a model, in turns with their ranks."""
        rows = sample(model, _N_LEARNT_FROM, rng)
        shapes = cls.alone(columns)
        names = list(columns)
        limits = shapes._limits(domain, rows, names)
        numbers = ndtri(_uniform_between(limits, rng))
        # Correlations are those of the numbers, and numbers are drawn by the correlations,
        # in turns (stochastic EM). The ridge keeps the matrix invertible.
        ridge = 1e-6 * np.eye(len(numbers))
        for _ in range(_LEARNING_STEPS):
            moments = numbers @ numbers.T / max(1, numbers.shape[1]) + ridge
            scale = np.sqrt(np.diag(moments))
            shapes = cls(columns, moments / np.outer(scale, scale))
            _sweep(numbers, ndtri(limits), shapes.correlations, rng)
        return shapes

    @classmethod
    def alone(cls, columns: Mapping[Any, Shape]) -> Shapes:
        """Return shapes whose ranks within bins are independent."""
        return cls(columns, np.eye(len(columns)))

    def _limits(
        self,
        domain: Domain,
        rows: Sequence[NDArray[np.integer]] | NDArray[np.integer],
        names: Sequence[Any],
    ) -> NDArray[np.float64]:
        """Return the ranks between which each row is: (2, n_columns, n_rows)."""
        limits = []
        for name in names:
            codes = rows[domain.columns.index(name)]
            limits.append(self.columns[name].limits(domain[name], codes))
        low, high = np.moveaxis(np.array(limits), 1, 0)
        low = np.clip(low, _LEAST, 1 - 2 * _LEAST)
        return np.array([low, np.clip(high, low + _LEAST, 1 - _LEAST)])

    def draw(
        self,
        domain: Domain,
        rows: Sequence[NDArray[np.integer]],
        rng: np.random.Generator,
    ) -> dict[Any, tuple[NDArray[np.intp], NDArray[np.float64]]]:
        """Draw for each column with a shape the cells of rows, and positions within."""
        names = [name for name in domain.columns if name in self.columns]
        if not names:
            return {}
        # Independent ranks within the bins of each row, then as normal numbers, each drawn
        # again given those of the other columns, as correlations say.
        limits = self._limits(domain, rows, names)
        ranks = _uniform_between(limits, rng)
        places = list(map(list(self.columns).index, names))
        correlations = self.correlations[np.ix_(places, places)]
        if (correlations != np.eye(len(names))).any():
            numbers = ndtri(ranks)
            for _ in range(_SWEEPS):
                _sweep(numbers, ndtri(limits), correlations, rng)
            ranks = ndtr(numbers)
        low, high = limits
        ranks = np.clip(ranks, low, np.nextafter(high, 0))
        drawn = {}
        for name, column_ranks in zip(names, ranks, strict=True):
            codes = rows[domain.columns.index(name)]
            drawn[name] = self.columns[name].place(domain[name], codes, column_ranks)
        return drawn


def _uniform_between(
    limits: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.float64]:
    low, high = limits
    return low + (high - low) * rng.random(low.shape)


def _sweep(
    numbers: NDArray[np.float64],
    limits: NDArray[np.float64],
    correlations: NDArray[np.float64],
    rng: np.random.Generator,
) -> None:
    """Draw normal numbers again, given others and their limits (Gibbs sampling)."""
    # Given the others, number i is normal: with the row p of the inverse of the
    # correlations, its variance is 1 / p[i], and its mean -sum(p[j] * x[j]) / p[i] over
    # the others. Between limits, it is drawn by the inverse of its distribution.
    precision = np.linalg.inv(correlations)
    for column, row in enumerate(precision):
        low, high = limits[:, column]
        std = 1 / np.sqrt(row[column])
        mean = numbers[column] - row @ numbers / row[column]
        least = ndtr((low - mean) / std)
        most = ndtr((high - mean) / std)
        ranks = least + (most - least) * rng.random(mean.size)
        ranks = np.clip(ranks, 1e-15, 1 - 1e-15)
        numbers[column] = np.clip(ndtri(ranks) * std + mean, low, high)
