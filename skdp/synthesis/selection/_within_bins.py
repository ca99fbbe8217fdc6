"""Where the numbers and dates of declared bins are, by noisy counts of finer public cells."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.domain import Domain, Interval
from skdp.synthesis.model import GraphicalModel, Marginal, calibrate, expand
from skdp.synthesis.selection._private_bins import (
    FineCounts,
    count_fine_cells,
    find_bins,
    shares_of_cells,
)
from skdp.synthesis.selection._private_table import PrivateTable
from skdp.synthesis.selection._strategy import FittedTable
from skdp.synthesis.tables import Shape, Shapes, ends_of_cells, find_points

SHARE_WITHIN = Fraction(1, 25)
"""Of the budget: the standard deviation of all other noise is larger by 2 %, by 4 % if it is Laplace noise."""

_CLEAR = 2.0
"""From how many standard deviations a count is more than noise: one empty bin in 44 is taken to have records."""

_BEYOND = 2.0
"""How far beyond the clear counts records are looked for, as a multiple of their distance from the mean."""

UNLIKELY = 1e-9
"""By what the probability of bins far from all records is multiplied: no table has rows there."""

_LEAST = 1e-12


@dataclass(frozen=True, eq=False)
class FoundCells:
    """The records by the bins of a model, and what is known of where they are within them."""

    table: PrivateTable
    domain: Domain
    cells: Domain
    found: Mapping[Any, Shape]
    """The shapes of bins that were found."""
    within: Mapping[int, FineCounts]
    """The counts of finer cells than declared bins."""

    def place(
        self, fitted: FittedTable, rng: np.random.Generator
    ) -> tuple[FittedTable, Shapes | None]:
        """Return how records lie in bins, and a model in which bins that are far from all records are unlikely."""
        if self.found:
            return fitted, Shapes.of(self.found, self.domain, fitted.model, rng)
        if not self.within:
            return fitted, None
        columns = {}
        for place, fine in self.within.items():
            name = self.domain.columns[place]
            of_bins = _counts_of_column(place, self.table.marginals)
            columns[place] = _Column.of(
                self.cells[name], self.domain[name], fine, of_bins
            )
        fitted = without_bins(
            fitted, {place: column.far_bins for place, column in columns.items()}
        )
        shapes = {}
        for place, column in columns.items():
            of_model = fitted.model.marginal((place,))[: column.n_bins]
            mass = column.mass_of_cells(of_model, fitted.total)
            shapes[self.domain.columns[place]] = Shape(
                column.grid, np.append(0.0, np.cumsum(mass)) / mass.sum()
            )
        return fitted, Shapes.alone(shapes)


def find_cells(
    table: PrivateTable, cells: Domain, declared: Domain, bins: str
) -> FoundCells:
    """Count fine cells, if columns have any: to find bins, or to know where records are within the declared ones."""
    if cells is declared:
        return FoundCells(table, declared, cells, {}, {})
    if bins == "private":
        coarser, domain, shapes = find_bins(table, cells, declared)
        return FoundCells(coarser, domain, cells, shapes, {})
    names = {
        place: name
        for place, name in enumerate(declared.columns)
        if cells[name] is not declared[name]
    }
    counts = count_fine_cells(table.part(SHARE_WITHIN), cells, list(names))
    bins_of_cells = {
        place: _bins_of_cells(cells[name], declared[name])
        for place, name in names.items()
    }
    return FoundCells(
        table.coarser(declared, bins_of_cells, ()), declared, cells, {}, counts
    )


def without_bins(
    fitted: FittedTable, left_out: Mapping[int, NDArray[np.bool_]]
) -> FittedTable:
    """Make some values of columns unlikely: what a column says of the others given its value stays as it is."""
    # Not impossible: nobody knows that they are, and the logarithm of the probability of a row is to be finite.
    tree = fitted.model.tree
    likely = {
        column: fitted.model.marginal((column,))[values].any()
        for column, values in left_out.items()
    }
    columns = [
        column
        for column, values in left_out.items()
        if likely[column] and not values.all()
    ]
    if not columns:
        return fitted
    potentials = [
        fitted.model.log_conditional(place) for place in range(len(tree.cliques))
    ]
    for column in columns:
        holder = tree.holder((column,))
        assert holder is not None  # a tree holds all columns
        factor = np.where(left_out[column], math.log(UNLIKELY), 0.0)
        potentials[holder] = potentials[holder] + expand(
            factor, (column,), tree.cliques[holder]
        )
    return replace(fitted, model=GraphicalModel(tree, calibrate(tree, potentials)))


@dataclass(frozen=True, eq=False)
class _Column:
    """What is known of the cells of a column; arrays are of cells, in order, without missing."""

    grid: Interval
    bins: NDArray[np.intp]
    counts: NDArray[np.float64]
    covariance: NDArray[np.float64]
    shares: NDArray[np.float64]
    """Of the cells, as far as their counts are more than noise."""
    widths: NDArray[np.float64]
    values: NDArray[np.float64]
    """The mean of what is drawn in each cell, beyond the start of the grid, in a unit of the size of the interval."""
    near: NDArray[np.bool_]
    """Which cells are not far from all records."""

    @classmethod
    def of(
        cls,
        grid: Any,
        interval: Any,
        fine: FineCounts,
        of_bins: tuple[NDArray[np.float64], float] | None,
    ) -> _Column:
        size = len(grid.edges) - 1
        counts, covariance = fine.counts[:size], fine.covariance[:size, :size]
        points = find_points(grid)
        shares = shares_of_cells(counts, covariance, points)
        first, last = ends_of_cells(grid)
        # In a unit of the size of the interval, as squares would overflow otherwise: a power of two, which changes no
        # digit.
        unit = math.frexp(last[-1])[1]
        first = np.ldexp(first, -unit)
        last = np.ldexp(last, -unit)
        values = np.where(points, first, (first + last) / 2)
        bins = _bins_of_cells(grid, interval)[:size]
        clear = shares > 0
        if of_bins is not None:
            empty = find_empty(of_bins[0][: bins[-1] + 1], of_bins[1])
            # Where fine counts are only noise, the whole bin may have records.
            of_fine = np.bincount(bins, clear) > 0
            clear |= (~empty & ~of_fine)[bins]
        middle = float(shares @ values)
        low = middle - _BEYOND * (middle - first[clear].min())
        high = middle + _BEYOND * (last[clear].max() - middle)
        near = clear | ((last >= low) & (first <= high))
        widths = np.where(points, _LEAST, 1.0)
        return cls(grid, bins, counts, covariance, shares, widths, values, near)

    @property
    def n_bins(self) -> int:
        return int(self.bins[-1]) + 1

    @property
    def far_bins(self) -> NDArray[np.bool_]:
        """The bins all of whose cells are far from all records, and missing, which is not."""
        far = np.bincount(self.bins, self.near) == 0
        return np.append(far, False) if self.grid.missing else far

    def mass_of_cells(
        self, of_bins: NDArray[np.float64], total: float
    ) -> NDArray[np.float64]:
        """Split the share of each bin among its cells."""
        mass = np.zeros(self.bins.size)
        for code, share in enumerate(np.maximum(of_bins, _LEAST).tolist()):
            inside = slice(*np.searchsorted(self.bins, [code, code + 1]))
            mass[inside] = share * self._split(inside, max(1.0, share * total))
        return mass

    def _split(self, inside: slice, total: float) -> NDArray[np.float64]:
        near = (
            self.near[inside]
            if self.near[inside].any()
            else np.ones_like(self.near[inside])
        )
        even = np.where(near, self.widths[inside], 0.0)
        held = self.shares[inside] if self.shares[inside].sum() > 0 else even
        held = held / held.sum()
        # Shares leave out what is not clearly more than noise, such as a long tail, and much of that adds up. Counts
        # have no bias: sum((value - mean) * count) / total is how far the mean is off, with a known standard error. It
        # is shrunk by the positive-part rule of James and Stein, and made up for by records that lie evenly on the side
        # to which the mean has to move.
        beyond = np.where(near, self.values[inside] - held @ self.values[inside], 0.0)
        change = float(beyond @ self.counts[inside]) / total
        variance = float(beyond @ self.covariance[inside, inside] @ beyond) / total**2
        if change**2 <= variance:
            return held
        change *= 1 - variance / change**2
        side = np.where(beyond * change > 0, even, 0.0)
        if side.sum() == 0:
            return held
        side /= side.sum()
        moved = min(1.0, change / float(side @ beyond))
        return (1 - moved) * held + moved * side


def find_empty(counts: NDArray[np.float64], std_error: float) -> NDArray[np.bool_]:
    """Mark bins that are not clearly more than noise, nor part of neighbours that are so together."""
    empty = np.zeros(counts.size, bool)

    def visit(first: int, last: int) -> None:
        if counts[first:last].sum() < _CLEAR * std_error * math.sqrt(last - first):
            empty[first:last] = True
        elif last - first > 1:
            middle = (first + last) // 2
            visit(first, middle)
            visit(middle, last)
            if empty[first:last].all():  # in which of them its records are is not known
                empty[first:last] = False

    visit(0, counts.size)
    return empty


def _counts_of_column(
    column: int, marginals: Sequence[Marginal]
) -> tuple[NDArray[np.float64], float] | None:
    """Return the mean of all noisy counts of a column, weighted by precision, and its standard deviation."""
    precision = 0.0
    weighted = np.zeros(1)
    for marginal in marginals:
        if column not in marginal.clique:
            continue
        place = marginal.clique.index(column)
        if marginal.groups is not None and marginal.groups[place] is not None:
            continue
        counts = marginal.counts.sum(
            axis=tuple(axis for axis in range(marginal.counts.ndim) if axis != place)
        )
        weight = counts.size / (marginal.counts.size * marginal.std_error**2)
        precision += weight
        weighted = weighted + weight * counts
    return None if precision == 0 else (weighted / precision, precision**-0.5)


def _bins_of_cells(grid: Any, interval: Any) -> NDArray[np.intp]:
    """Return the bin of each fine cell; missing is the last of both."""
    starts = np.array(grid.edges, grid.dtype)[:-1]
    bins = (
        np.searchsorted(np.array(interval.edges, grid.dtype), starts, side="right") - 1
    )
    return np.append(bins, len(interval.edges) - 1) if interval.missing else bins
