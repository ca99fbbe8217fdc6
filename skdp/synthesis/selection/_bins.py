"""Where numbers and dates are, by noisy counts of fine public cells.

Bins of about as many records each are found by them, or where records are within
declared bins.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skdp.domain import Domain, Interval
from skdp.synthesis.model import GraphicalModel, Marginal, calibrate, expand
from skdp.synthesis.selection._moved import PlannedShare
from skdp.synthesis.selection._private_table import PrivateTable
from skdp.synthesis.selection._strategy import FittedTable
from skdp.synthesis.tables import Shape, Shapes, ends_of_cells, find_points

BINS = ("declared", "private")
"""What `bins=` takes."""

# Chosen on the tables "skewed" and "incomes" of benchmarks/synthesis_numbers.py, at
# epsilons .5 and 1.
_SHARE_OF_BINS = Fraction(1, 5)
"""Of the budget, for the counts of fine cells from which bins are found."""

_SHARE_WITHIN = Fraction(1, 25)
"""Of the budget, if bins are declared: other noise is larger by 2 to 4 %."""

_BRANCHES, _ROOTS = 8, 16
"""The cells that are counted together at each level, until fewer are left."""

_CLEAR, _CLEAR_NUMBER = 3.0, 4.5
"""Standard deviations from which a cell, or a single number, has records."""

_CLEAR_BIN = 2.0
"""The same of a declared bin: one empty bin in 44 is taken to have records."""

_PAIR_NOISE = 0.05
"""The noise that a pair of columns may have, as a share of all records."""

_BEYOND = 2.0
"""How far beyond clear counts records may be, in distances from the mean."""

UNLIKELY = 1e-9
"""By what bins far from all records are multiplied: no table has rows there."""

_POINT_WIDTH = 1e-9
"""The width of the cell of a single number, against that of another cell."""

_LEAST_SHARE = 1e-12
"""Of a bin without records, so that nothing is divided by 0."""


class FineCounts(NamedTuple):
    """Unbiased counts of the fine cells of a column, and their covariances."""

    counts: NDArray[np.float64]
    covariance: NDArray[np.float64]
    std_error: float
    """Of the count of each node of the tree, from which these counts are."""

    def without_missing(self, grid: Interval) -> FineCounts:
        """Return the counts of cells of numbers or dates."""
        size = len(grid.edges) - 1
        covariance = self.covariance[:size, :size]
        return FineCounts(self.counts[:size], covariance, self.std_error)


@dataclass(frozen=True, eq=False)
class FoundCells:
    """The records by the bins of a model, and what is known of where they are."""

    table: PrivateTable
    domain: Domain
    cells: Domain
    shapes: Mapping[Any, Shape]
    """Of bins that were found."""
    fine_counts: Mapping[Any, FineCounts]
    """Of the cells within declared bins, for each column that has some."""

    def place(
        self, fitted: FittedTable, rng: np.random.Generator
    ) -> tuple[FittedTable, Shapes | None]:
        """Return a model without far bins, and how records lie within bins."""
        if self.shapes:
            return fitted, Shapes.of(self.shapes, self.domain, fitted.model, rng)
        if not self.fine_counts:
            return fitted, None
        columns = {}
        for name, fine in self.fine_counts.items():
            place = self.domain.columns.index(name)
            counts = _counts_of_bins(place, self.table.marginals)
            columns[place] = _Column.of(
                self.cells[name], self.domain[name], fine, counts
            )
        far_bins = {place: column.far_bins for place, column in columns.items()}
        fitted = without_bins(fitted, far_bins)
        shapes = {}
        for place, column in columns.items():
            shares = fitted.model.marginal((place,))[: column.n_bins]
            mass = column.mass_of_cells(shares, fitted.total)
            below = np.append(0.0, np.cumsum(mass)) / mass.sum()
            shapes[self.domain.columns[place]] = Shape(column.grid, below)
        return fitted, Shapes.alone(shapes)


def find_cells(
    table: PrivateTable, cells: Domain, declared: Domain, bins: str
) -> FoundCells:
    """Count fine cells, if columns have any, and find bins or leave the declared."""
    if cells is declared:
        return FoundCells(table, declared, cells, {}, {})
    if bins == "private":
        coarser, domain, shapes = find_bins(table, cells, declared)
        return FoundCells(coarser, domain, cells, shapes, {})
    names = []
    for name in cells.columns:
        if cells[name] is not declared[name]:
            names.append(name)
    counts = _count_fine_cells(table.part(_SHARE_WITHIN), cells, names)
    bins_of_cells = {}
    for name in names:
        place = cells.columns.index(name)
        bins_of_cells[place] = _bins_of_cells(cells[name], declared[name])
    coarser = table.coarser(declared, bins_of_cells, ())
    return FoundCells(coarser, declared, cells, {}, counts)


def planned_shares_of_cells(
    cells: Domain, declared: Domain, bins: str
) -> list[PlannedShare]:
    """Split what `find_cells` spends by the columns whose cells are counted."""
    if cells is declared:
        return []
    share = _SHARE_WITHIN
    names = [name for name in cells.columns if cells[name] is not declared[name]]
    if bins == "private":
        share = _SHARE_OF_BINS
        names = [name for name in cells.columns if isinstance(cells[name], Interval)]
    planned = []
    for name in names:
        place = cells.columns.index(name)
        planned.append(PlannedShare((place,), share / len(names)))
    return planned


def find_bins(
    table: PrivateTable, cells: Domain, declared: Domain
) -> tuple[PrivateTable, Domain, dict[Any, Shape]]:
    """Find bins of about as many records; return the records by these."""
    intervals = {}
    for name in declared.columns:
        interval = declared[name]
        # What follows from other columns has one bin, and its cells are not counted.
        if isinstance(interval, Interval) and cells[name] is not interval:
            intervals[name] = interval
    counts = _count_fine_cells(table.part(_SHARE_OF_BINS), cells, list(intervals))
    # The number of records, of which each column has an estimate.
    totals = [fine.counts.sum() for fine in counts.values()]
    total = max(1.0, float(np.mean(totals)))
    # A pair of n bins a column has n**2 cells, each with the noise of one of twice as
    # many marginals as there are columns.
    noise = table.budget.std_error(table.budget.left / (2 * len(cells.columns)))
    n_affordable = round(math.sqrt(_PAIR_NOISE * total / noise))

    columns: dict[Any, Any] = {name: declared[name] for name in declared.columns}
    bins_of_cells = {}
    shapes = {}
    marginals = []
    for name, interval in intervals.items():
        grid = cells[name]
        assert isinstance(grid, Interval)
        place = cells.columns.index(name)
        fine = counts[name]
        of_numbers = fine.without_missing(grid)
        shares = _shares_of_cells(of_numbers, find_points(grid))
        most = min(len(interval.edges) - 1, max(2, n_affordable))
        cuts = _without_last_number(_cut(shares, most), grid)
        edges = [grid.edges[cut] for cut in cuts]
        columns[name] = Interval(
            edges=[*edges, grid.edges[-1]],
            missing=grid.missing,
            real=interval.real,
            decimals=interval.decimals,
        )
        below = np.append(0.0, np.cumsum(shares))
        shapes[name] = Shape(grid, below, of_numbers.counts, fine.std_error)
        bins = _bins_of_cells(grid, columns[name])
        bins_of_cells[place] = bins
        # The noise of bins is not independent: no sum of them has more than this.
        sums = np.eye(len(columns[name]))[bins]  # (n_cells, n_bins)
        largest_variance = np.linalg.eigvalsh(sums.T @ fine.covariance @ sums)[-1]
        error = math.sqrt(largest_variance)
        marginals.append(Marginal((place,), fine.counts @ sums, error))
    domain = Domain(columns)
    return table.coarser(domain, bins_of_cells, marginals), domain, shapes


def _without_last_number(cuts: list[int], grid: Interval) -> list[int]:
    """Leave out a bin of the last number alone, which has a cell of half a step."""
    highest = len(grid.edges) - 2
    if grid.decimals is None:
        return cuts
    width = grid.edges[highest + 1] - grid.edges[highest]
    is_half = 2 * width <= 10.0**-grid.decimals
    return [cut for cut in cuts if cut < highest] if is_half else cuts


def _count_fine_cells(
    part: PrivateTable, cells: Domain, names: Sequence[Any]
) -> dict[Any, FineCounts]:
    """Count the fine cells of columns, and spend all that a part has."""
    # Each column gets an equal share, and each level of its tree: every 1, 8, 64, …
    # neighbouring cells together. A record is in one node of each level. The counts of
    # the cells that agree best with all levels are unbiased.
    places = list(map(cells.columns.index, names))
    cliques = list(zip(places, strict=True))
    part.prepare(cliques)
    planned = [Fraction(1, len(places))] * len(places)
    shares = part.caps.ration(cliques, planned, part.budget.share)
    fine_counts = {}
    for name, place, share_of_column in zip(names, places, shares, strict=True):
        levels = _levels(len(cells[name]))
        share = share_of_column / len(levels)
        sums = np.zeros(len(cells[name]))
        for level in levels:
            marginal = part.measure((place,), share, (level,))
            sums += marginal.counts[level]
        covariance = covariance_of_cells(len(cells[name])) * marginal.std_error**2
        counts = covariance @ sums / marginal.std_error**2
        fine_counts[name] = FineCounts(counts, covariance, marginal.std_error)
    return fine_counts


def _levels(size: int) -> list[NDArray[np.intp]]:
    """Return the node of each cell in each level of a tree, the cells first."""
    # Up to 15 nodes at the top: more levels would have less of the budget each.
    levels = [np.arange(size)]
    while levels[-1][-1] >= _ROOTS:
        levels.append(levels[-1] // _BRANCHES)
    return levels


def covariance_of_cells(size: int) -> NDArray[np.float64]:
    """Return the covariances of cells that agree best with counts of all levels."""
    # Of equally noisy counts, of variance 1. Each level adds what it says of its cells:
    # a change of rank one for each node (Sherman and Morrison).
    cells, *levels = _levels(size)
    covariance = np.eye(cells.size)
    for level in levels:
        starts = np.searchsorted(level, np.arange(level[-1] + 2))
        for start, stop in itertools.pairwise(starts):
            block = covariance[start:stop, start:stop]
            sums = block.sum(axis=1)
            block -= np.outer(sums, sums) / (1 + sums.sum())
    return covariance


def _shares_of_cells(
    fine: FineCounts, is_point: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Return the share of each cell, as far as counts are more than noise."""
    # From the top of the tree: the share of a node is split among those below it.
    counts = fine.counts
    total = max(1.0, counts.sum())
    widths = np.where(is_point, _POINT_WIDTH, 1.0)
    shares = np.array([1.0])
    parent_level = np.zeros(counts.size, np.intp)
    for level in reversed(_levels(counts.size)):
        starts = np.searchsorted(level, np.arange(level[-1] + 1))
        block_rows = np.add.reduceat(fine.covariance, starts, axis=0)
        blocks = np.add.reduceat(block_rows, starts, axis=1)
        errors = np.sqrt(np.diag(blocks)) / total
        limits = _CLEAR * errors
        if starts.size == counts.size:
            limits = np.where(is_point, _CLEAR_NUMBER * errors, limits)
        noisy = np.add.reduceat(counts, starts) / total
        sizes = np.add.reduceat(widths, starts)
        parents = parent_level[starts]
        split = np.zeros(starts.size)
        for parent, share in enumerate(shares):
            cells_of_bin = parents == parent
            split[cells_of_bin] = share * _split(
                noisy[cells_of_bin] / max(share, _LEAST_SHARE),
                limits[cells_of_bin] / max(share, _LEAST_SHARE),
                sizes[cells_of_bin],
            )
        shares = split
        parent_level = level
    return shares / shares.sum()


def _split(
    noisy: NDArray[np.float64],
    limits: NDArray[np.float64],
    sizes: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Split a node: what is noise evenly, or not at all beside what is not."""
    # What is clear has its noisy share. What is left is that of all others together: if
    # it is more than the noise of them all, they share it evenly.
    is_clear = noisy >= limits
    if not is_clear.any():
        return sizes / sizes.sum()
    shares = np.where(is_clear, noisy, 0.0)
    remainder = 1 - shares.sum()
    if not is_clear.all() and remainder > math.hypot(*limits[~is_clear]):
        shares[~is_clear] = remainder * sizes[~is_clear] / sizes[~is_clear].sum()
    return shares / shares.sum()


def _cut(shares: NDArray[np.float64], most: int) -> list[int]:
    """Return the first cells of at most so many bins of about equal shares."""
    # Large cells are bins alone; the others share what is left of the number of bins.
    # From the left, a bin ends where it has enough, or would with half of the next cell,
    # and enough is left for another one. Bins become larger until they are few enough.
    is_large = shares >= 1 / most
    n_small = max(1, most - is_large.sum())
    least = max(shares[~is_large].sum() / n_small, 1 / (2 * most))
    remainders = np.cumsum(shares[::-1])[::-1]
    while True:
        cuts = [0]
        share_of_bin = shares[0]
        for cell in range(1, shares.size):
            is_alone = is_large[cell] or is_large[cell - 1]
            enough = least / 4 if is_alone else least - shares[cell] / 2
            enough_left = least / 4 if is_alone else least / 2
            if share_of_bin >= enough and remainders[cell] >= enough_left:
                cuts.append(cell)
                share_of_bin = 0.0
            share_of_bin += shares[cell]
        if len(cuts) <= most:
            return cuts
        least *= 1.1


def _bins_of_cells(grid: Any, interval: Any) -> NDArray[np.intp]:
    """Return the bin of each fine cell; missing is the last of both."""
    starts = np.array(grid.edges, grid.dtype)[:-1]
    edges = np.array(interval.edges, grid.dtype)
    # Each edge of a bin is one of the grid: a cell is in the bin that its start is in.
    bins = np.searchsorted(edges, starts, side="right") - 1
    return np.append(bins, len(interval.edges) - 1) if interval.missing else bins


def without_bins(
    fitted: FittedTable, left_out: Mapping[int, NDArray[np.bool_]]
) -> FittedTable:
    """Make some values of columns unlikely, and leave what they say of others."""
    # A factor for each such column multiplies the model, whose marginals are computed
    # again. Not impossible: nobody knows that they are, and the logarithm of the probability
    # of a row is to be finite.
    model = fitted.model
    tree = model.tree
    factors = {}
    for column, is_out in left_out.items():
        if model.marginal((column,))[is_out].any() and not is_out.all():
            factors[column] = np.where(is_out, math.log(UNLIKELY), 0.0)
    if not factors:
        return fitted
    potentials = [model.log_conditional(index) for index in range(len(tree.cliques))]
    for column, factor in factors.items():
        holder = tree.holder_of((column,))
        logs = expand(factor, (column,), tree.cliques[holder])
        potentials[holder] = potentials[holder] + logs
    return replace(fitted, model=GraphicalModel(tree, calibrate(tree, potentials)))


@dataclass(frozen=True, eq=False)
class _Column:
    """What is known of the cells of a column, in order, without missing."""

    grid: Interval
    bins: NDArray[np.intp]
    fine: FineCounts
    shares: NDArray[np.float64]
    """Of the cells, as far as their counts are more than noise."""
    widths: NDArray[np.float64]
    values: NDArray[np.float64]
    """The mean of what is drawn in each cell, in a unit of the interval's size."""
    is_near: NDArray[np.bool_]
    """Which cells are not far from all records."""

    @classmethod
    def of(
        cls,
        grid: Any,
        interval: Any,
        fine_counts: FineCounts,
        counts_of_bins: tuple[NDArray[np.float64], float] | None,
    ) -> _Column:
        fine = fine_counts.without_missing(grid)
        is_point = find_points(grid)
        shares = _shares_of_cells(fine, is_point)
        first, highest = ends_of_cells(grid)
        # In a unit of the size of the interval, as squares would overflow otherwise: a
        # power of two, which changes no digit.
        exponent = math.frexp(highest[-1])[1]
        first = np.ldexp(first, -exponent)
        highest = np.ldexp(highest, -exponent)
        values = np.where(is_point, first, (first + highest) / 2)
        bins = _bins_of_cells(grid, interval)[: shares.size]
        is_clear = shares > 0
        if counts_of_bins is not None:
            # Where fine counts are only noise, the whole bin may have records.
            counts, error = counts_of_bins
            is_empty = find_empty(counts[: bins[-1] + 1], error)
            has_clear_cell = np.bincount(bins, is_clear) > 0
            is_clear |= (~is_empty & ~has_clear_cell)[bins]
        mean = float(shares @ values)
        low = mean - _BEYOND * (mean - first[is_clear].min())
        high = mean + _BEYOND * (highest[is_clear].max() - mean)
        is_near = is_clear | ((highest >= low) & (first <= high))
        widths = np.where(is_point, _POINT_WIDTH, 1.0)
        return cls(grid, bins, fine, shares, widths, values, is_near)

    @property
    def n_bins(self) -> int:
        """The number of bins."""
        return int(self.bins[-1]) + 1

    @property
    def far_bins(self) -> NDArray[np.bool_]:
        """The bins all of whose cells are far from all records; missing is not."""
        is_far = np.bincount(self.bins, self.is_near) == 0
        return np.append(is_far, False) if self.grid.missing else is_far

    def mass_of_cells(
        self, shares_of_bins: NDArray[np.float64], total: float
    ) -> NDArray[np.float64]:
        """Split the share of each bin among its cells."""
        mass = np.zeros(self.bins.size)
        for code, share in enumerate(np.maximum(shares_of_bins, _LEAST_SHARE)):
            start, stop = np.searchsorted(self.bins, [code, code + 1])
            cells_of_bin = slice(start, stop)
            mass[cells_of_bin] = share * self._split(
                cells_of_bin, max(1.0, share * total)
            )
        return mass

    def _split(self, cells_of_bin: slice, n_records: float) -> NDArray[np.float64]:
        """Return the shares of the cells of a bin."""
        is_near = self.is_near[cells_of_bin]
        if not is_near.any():
            is_near = np.ones_like(is_near)
        even = np.where(is_near, self.widths[cells_of_bin], 0.0)
        shares = self.shares[cells_of_bin]
        if shares.sum() == 0:
            shares = even
        shares = shares / shares.sum()
        # Shares leave out what is not clearly more than noise, such as a long tail, and
        # much of that adds up. Counts have no bias: sum((value - mean) * count) / n is
        # how far the mean is off, with a known standard error. It is shrunk by the
        # positive-part rule of James and Stein, and made up for by records that lie
        # evenly on the side to which the mean has to move.
        values = self.values[cells_of_bin]
        distances = np.where(is_near, values - shares @ values, 0.0)
        change = float(distances @ self.fine.counts[cells_of_bin]) / n_records
        covariance = self.fine.covariance[cells_of_bin, cells_of_bin]
        variance = float(distances @ covariance @ distances) / n_records**2
        if change**2 <= variance:
            return shares
        change *= 1 - variance / change**2
        side = np.where(distances * change > 0, even, 0.0)
        if side.sum() == 0:
            return shares
        side /= side.sum()
        moved = min(1.0, change / float(side @ distances))
        return (1 - moved) * shares + moved * side


def find_empty(counts: NDArray[np.float64], std_error: float) -> NDArray[np.bool_]:
    """Mark bins that are only noise, nor part of neighbours that are more together."""
    is_empty = np.zeros(counts.size, bool)

    def visit(start: int, stop: int) -> None:
        bins = slice(start, stop)
        if counts[bins].sum() < _CLEAR_BIN * std_error * math.sqrt(stop - start):
            is_empty[bins] = True
        elif stop - start > 1:
            middle = (start + stop) // 2
            visit(start, middle)
            visit(middle, stop)
            if is_empty[bins].all():  # in which of them its records are is not known
                is_empty[bins] = False

    visit(0, counts.size)
    return is_empty


def _counts_of_bins(
    column: int, marginals: Iterable[Marginal]
) -> tuple[NDArray[np.float64], float] | None:
    """Return the mean of all noisy counts of a column, by precision, and its error."""
    precision = 0.0
    weighted = np.zeros(1)
    for marginal in marginals:
        if column in marginal.clique and marginal.groups_of(column) is None:
            counts, error = marginal.counts_of(column)
            precision += error**-2
            weighted = weighted + counts * error**-2
    return None if precision == 0 else (weighted / precision, precision**-0.5)
