"""How numbers and dates lie within bins that were found: fine public cells, and ranks that depend on each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from skdp.domain import Categories, Domain, Interval
from skdp.synthesis.model import GraphicalModel, sample

_EVEN, _LOG, _WHOLE, _CELLS = 64, 448, 256, 512
"""Cells of even widths, those whose widths grow with the numbers, whole numbers with a cell of their own, and dates."""

_POINT = 2.0**-20
"""How wide the cell of a single number is, relative to the whole interval."""

_ERROR = 1e-12  # of edges, relative to the whole interval

_SWEEPS, _LEARNING, _LEARNT_FROM, _LEAST = 4, 15, 10_000, 1e-9


def fine_grid(interval: Interval) -> Interval:
    """Cut an interval into fine cells, by what is declared alone: its ends, and the decimals of its numbers."""
    if interval.dtype.kind != "f":
        return Interval(edges=_cut_dates(interval), missing=interval.missing)
    low, high = float(interval.edges[0]), float(interval.edges[-1])
    if not interval.decimals:
        edges = (
            _cut_reals(low, high) if interval.real else _cut_whole_numbers(low, high)
        )
    else:
        # The whole numbers of steps, and single whole numbers: prices and marks are often whole.
        unit = 10.0**interval.decimals
        steps = np.array(_cut_whole_numbers(low * unit, high * unit))
        single = _single_numbers(low, high)
        if steps.size <= _CELLS:
            single = single[:0]
        found = np.concatenate([steps / unit, single, single + 1 / unit])
        edges = np.unique(
            np.append(found[(found > low) & (found < high)], [low, high])
        ).tolist()
    return Interval(
        edges=edges,
        missing=interval.missing,
        real=interval.real,
        decimals=interval.decimals,
    )


def _cut_whole_numbers(low: float, high: float) -> list[float]:
    if high - low <= _CELLS:
        # Each number has a cell. The last cell is closed: the end has one of its own.
        inside = np.arange(np.ceil(low), high)
        return np.unique(
            [low, *inside[inside > low], max(low, high - 0.5), high]
        ).tolist()
    edges = np.rint(np.append(_rough_edges(low, high), [0.0, 1.0]))
    return np.unique([low, *edges[(edges > low) & (edges < high)], high]).tolist()


def _rough_edges(low: float, high: float) -> NDArray[np.float64]:
    """Return even edges for numbers around any middle, and edges of growing distance for long tails."""
    largest = max(abs(low), abs(high))
    sides = [sign for sign, end in ((1, high), (-1, -low)) if end > 0]
    least = max(_POINT * (high - low), low, -high)
    growing = [
        sign * np.geomspace(least, largest, _LOG // len(sides) + 1) for sign in sides
    ]
    return np.concatenate([np.linspace(low, high, _EVEN + 1), *growing])


def _cut_reals(low: float, high: float) -> list[float]:
    # Beside rough edges, single numbers have cells for points of mass: zero, and whole numbers if there are few.
    point = _POINT * (high - low)
    edges = _rough_edges(low, high)
    single = _single_numbers(low, high)
    near = (np.abs(edges[:, None] - single) <= 2 * point).any(axis=1)
    edges = np.concatenate([edges[~near], single, single + point])
    return np.unique(
        np.append(edges[(edges > low) & (edges < high)], [low, high])
    ).tolist()


def _single_numbers(low: float, high: float) -> NDArray[np.float64]:
    """Return the numbers that have a cell of their own: whole ones, or zero if they are too many."""
    first, last = np.ceil(low), np.floor(high)
    found = (
        np.arange(first, last + 1)
        if last - first < _WHOLE
        else np.zeros(int(low <= 0 <= high))
    )
    return found[found + 2 * _POINT * (high - low) <= high]


def _cut_dates(interval: Interval) -> list[Any]:
    ends = np.array([interval.edges[0], interval.edges[-1]], interval.dtype)
    seconds = ends.astype("datetime64[s]")
    unit = (
        seconds.dtype
        if ends.dtype != np.dtype("datetime64[D]") and (seconds == ends).all()
        else ends.dtype
    )
    first, last = ends.astype(unit).astype(np.int64).tolist()
    cells = min(_CELLS, last - first)
    steps = np.array(
        [first + place * (last - first) // cells for place in range(cells + 1)]
    )
    return steps.astype(unit).astype(ends.dtype).tolist()


def cells_within(interval: Interval) -> Interval:
    """Cut the declared bins of an interval into fine cells; return itself where these say no more than bins."""
    grid = fine_grid(interval)
    # Bins as many as the cells of the grid are as fine as it is, and each further cell makes the counts slower.
    if len(interval.edges) >= len(grid.edges):
        return interval
    edges = sorted({*_edges_between(grid, interval), *interval.edges})
    # Bins of single numbers have one cell each, and the last one, which is closed, has two.
    if len(edges) <= len(interval.edges) + 1:
        return interval
    return Interval(
        edges=edges,
        missing=interval.missing,
        real=interval.real,
        decimals=interval.decimals,
    )


def _edges_between(grid: Interval, interval: Interval) -> list[Any]:
    """List the edges of a grid that are not those of an interval, or these but for the errors of floats."""
    if interval.dtype.kind != "f":
        return [*grid.edges]
    edges, declared = np.array(grid.edges), np.array(interval.edges)
    place = np.clip(np.searchsorted(declared, edges), 1, declared.size - 1)
    distance = np.minimum(
        np.abs(edges - declared[place - 1]), np.abs(edges - declared[place])
    )
    return edges[distance > _ERROR * (declared[-1] - declared[0])].tolist()


def find_points(grid: Interval) -> NDArray[np.bool_]:
    """Mark the cells of a grid that stand for a single number: their left end."""
    edges = np.array(grid.edges, grid.dtype)
    if not grid.real:  # of whole numbers, or dates
        return np.zeros(edges.size - 1, bool)
    narrow = np.diff(edges) <= 2 * _POINT * (edges[-1] - edges[0])
    return narrow & np.isin(edges[:-1], _single_numbers(edges[0], edges[-1]))


@dataclass(frozen=True, eq=False)
class Shape:
    """A fine grid, and the share of records below each of its edges, by noisy counts."""

    grid: Interval
    below: NDArray[np.float64]

    def share_below(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Return the share of records below numbers or dates."""
        edges = np.array(self.grid.edges, values.dtype)
        return np.interp(values.astype(float), edges.astype(float), self.below)

    def limits(
        self, interval: Categories | Interval, codes: NDArray[np.integer]
    ) -> NDArray[np.float64]:
        """Return the shares below the two ends of the bin of each code: 0 and 1 if it is missing."""
        below = self.below[self._starts(interval)]
        return np.array([np.append(below[:-1], 0.0), np.append(below[1:], 1.0)])[
            :, codes
        ]

    def place(
        self,
        interval: Categories | Interval,
        codes: NDArray[np.integer],
        ranks: NDArray[np.float64],
    ) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Return the cell of each rank in its bin, and how far into it the rank is."""
        starts, missing = self._starts(interval), self.below.size - 1
        first, last = (
            np.append(starts[:-1], missing)[codes],
            np.append(starts[1:] - 1, missing)[codes],
        )
        cells = np.clip(
            np.searchsorted(self.below, ranks, side="right") - 1, first, last
        )
        shares = np.append(np.diff(self.below), 0.0)[cells]
        drawn = (shares > 0) & ~np.append(find_points(self.grid), True)[cells]
        inside = np.divide(
            ranks - self.below[cells], shares, out=np.zeros(ranks.size), where=drawn
        )
        return cells, np.clip(inside, 0, np.nextafter(1, 0))

    def _starts(self, interval: Categories | Interval) -> NDArray[np.intp]:
        """Return the cells at which the bins of an interval begin, and the number of cells."""
        assert isinstance(interval, Interval)
        edges, found = (
            np.array(one.edges, self.grid.dtype) for one in (self.grid, interval)
        )
        return np.searchsorted(edges, found)


@dataclass(frozen=True, eq=False)
class Shapes:
    """The shapes of columns, and the correlations of their ranks as normal numbers."""

    # A row has its bins by the model. Within them its ranks are those of normal numbers with these correlations, given
    # the bins: so that rows that are low in the bin of one column are so in those of others.
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
        """Estimate the correlations from rows of a model, in turns with the ranks within their bins."""
        rows = list(sample(model, _LEARNT_FROM, rng))
        shapes = cls(columns, np.eye(len(columns)))
        low, high = shapes._limits(domain, rows)
        numbers = ndtri(low + (high - low) * rng.random(low.shape))
        ends = ndtri(low), ndtri(high)
        for _ in range(_LEARNING):
            moments = numbers @ numbers.T / max(1, numbers.shape[1]) + 1e-6 * np.eye(
                len(numbers)
            )
            scale = np.sqrt(np.diag(moments))
            shapes = cls(columns, moments / np.outer(scale, scale))
            _sweep(numbers, ends, shapes.correlations, rng)
        return shapes

    @classmethod
    def alone(cls, columns: Mapping[Any, Shape]) -> Shapes:
        """Return shapes of which nothing is known together: ranks within bins are independent."""
        return cls(columns, np.eye(len(columns)))

    def _limits(
        self, domain: Domain, rows: Sequence[NDArray[np.integer]]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        found = [
            self.columns[name].limits(domain[name], code)
            for name, code in zip(domain.columns, rows, strict=True)
            if name in self.columns
        ]
        low, high = np.moveaxis(np.array(found), 1, 0)
        low = np.clip(low, _LEAST, 1 - 2 * _LEAST)
        return low, np.clip(high, low + _LEAST, 1 - _LEAST)

    def draw(
        self,
        domain: Domain,
        rows: Sequence[NDArray[np.integer]],
        rng: np.random.Generator,
    ) -> dict[Any, tuple[NDArray[np.intp], NDArray[np.float64]]]:
        """Draw for each column that has a shape the cells of rows, and the places within them."""
        names = [name for name in domain.columns if name in self.columns]
        if not names:
            return {}
        low, high = self._limits(domain, rows)
        ranks = low + (high - low) * rng.random(low.shape)
        places = [list(self.columns).index(name) for name in names]
        correlations = self.correlations[np.ix_(places, places)]
        if (correlations != np.eye(len(names))).any():
            numbers, ends = ndtri(ranks), (ndtri(low), ndtri(high))
            for _ in range(_SWEEPS):
                _sweep(numbers, ends, correlations, rng)
            ranks = ndtr(numbers)
        ranks = np.clip(ranks, low, np.nextafter(high, 0))
        columns = {name: rows[domain.columns.index(name)] for name in names}
        return {
            name: self.columns[name].place(domain[name], code, own)
            for (name, code), own in zip(columns.items(), ranks, strict=True)
        }


def _sweep(
    numbers: NDArray[np.float64],
    ends: tuple[NDArray[np.float64], NDArray[np.float64]],
    correlations: NDArray[np.float64],
    rng: np.random.Generator,
) -> None:
    """Draw each normal number again, given the others of its row and its two ends (Gibbs sampling)."""
    precision = np.linalg.inv(correlations)
    for place, row in enumerate(precision):
        spread, (low, high) = 1 / np.sqrt(row[place]), (end[place] for end in ends)
        mean = numbers[place] - row @ numbers / row[place]
        least, most = (ndtr((end - mean) / spread) for end in (low, high))
        ranks = np.clip(
            least + (most - least) * rng.random(mean.size), 1e-15, 1 - 1e-15
        )
        numbers[place] = np.clip(ndtri(ranks) * spread + mean, low, high)
