"""Where numbers and dates are, by noisy counts of fine public cells.

Bins of about as many records each are found by them, or where records are within
declared bins.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skdp.domain import Domain, Interval
from skdp.synthesis.model import (
    Marginal,
    mean_counts,
)
from skdp.synthesis.selection._private_table import PrivateTable
from skdp.synthesis.selection._strategy import FittedTable
from skdp.synthesis.tables import (
    Shape,
    Shapes,
    count_values,
    find_points,
    replace_columns,
)

BINS = ("declared", "private")
"""What `bins=` takes."""

# Halving and doubling, in largest distances D of the distributions of columns and in rank
# correlations R of pairs, on "skewed" and "incomes" of benchmarks/synthesis_numbers.py and
# six numbers of Adult, at epsilons .5 and 1 (3 seeds, errors of about .002):
#                  half                       twice
# _SHARE_OF_BINS   D +.001 to +.015           D -.003 to -.011, R up to +.009
# _PAIR_NOISE      D below .002, R +-.01      D below .003, R up to +.013
# _BRANCHES        D +-.004                   D up to +.006
# _ROOTS           D up to +.009              nothing
# _CLEAR           D -.001 to -.012           D -.011 to +.013
_SHARE_OF_BINS = Fraction(1, 5)
"""The share of the budget for the counts of fine cells from which bins are found."""

_SHARE_WITHIN = Fraction(3, 20)
"""The share of its part of the budget that a column with declared bins spends on fine cells.

With a tenth, the largest errors of the distributions of forty columns at epsilon 1 are 15 to
29 % larger, with standard errors of 3 to 7 %, and those of pairs of bins 5 to 11 % (12 seeds)."""

_BRANCHES, _ROOTS = 8, 16
"""The cells that are counted together at each level, until fewer are left."""

_CLEAR, _CLEAR_GAUSSIAN, _CLEAR_LAPLACE = 3.0, 4.5, 8.5
"""Standard errors from which a node, or a single cell with one of two kinds of noise, has records.

Noise alone exceeds the last two with a chance of 3e-6: a false one would be a number
that many rows have."""

_PAIR_NOISE = 0.05
"""The noise that a pair of columns may have, as a share of all records."""

_MIN_OPEN = 0.1
"""The part of a node's values in its unclear cells, from which on these share records."""

_MAX_GROWTH = 2.0
"""By what a cell's share may grow with its bin: a little noise would be a frequent number."""

_POINT_WIDTH = 1e-9
"""The width of the cell of a single number, against that of another cell."""

_MIN_SHARE = 1e-12
"""The share of a bin without records, so that nothing is divided by 0."""


class FineCounts(NamedTuple):
    """Unbiased counts of the fine cells of a column, and their covariances."""

    counts: NDArray[np.float64]
    covariance: NDArray[np.float64]
    std_error: float
    """Of the count of each node of the tree, from which these counts are."""
    clear: float
    """Standard errors from which the count of a cell is more than noise."""

    def without_missing(self, grid: Interval) -> FineCounts:
        """Return the counts of cells of numbers or dates."""
        size = len(grid.edges) - 1
        covariance = self.covariance[:size, :size]
        return self._replace(counts=self.counts[:size], covariance=covariance)


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
        """Return a model, and how records lie within its bins."""
        if self.shapes:
            return fitted, Shapes.of(self.shapes, self.domain, fitted.model, rng)
        if not self.fine_counts:
            return fitted, None
        shapes = {}
        for name in self.fine_counts:
            place = self.domain.columns.index(name)
            by_model = fitted.model.marginal((place,))
            shapes[name] = self._place_column(name, place, by_model)
        return fitted, Shapes.alone(shapes)

    def _place_column(
        self, name: Any, place: int, by_model: NDArray[np.float64]
    ) -> Shape:
        """Return how records lie within the bins of a column."""
        grid = self.cells[name]
        interval = self.domain[name]
        assert isinstance(grid, Interval)
        assert isinstance(interval, Interval)
        # Missing, the last cell and the last bin, is no number.
        bins = _bins_of_cells(grid, interval)[: len(grid.edges) - 1]
        n_bins = bins[-1] + 1
        fine = self.fine_counts[name].without_missing(grid)

        # What the counts of cells say, and those of bins in marginals.
        with_bins = fine
        estimate = mean_counts(self.table.marginals, (place,))
        if estimate is not None:
            estimate = estimate._replace(counts=estimate.counts[:n_bins])
            with_bins = with_counts_of_bins(fine, bins, *estimate)
        shares = _shares_of_cells(with_bins, grid, count_values(grid))
        shares_of_bins = by_model[:n_bins] / by_model[:n_bins].sum()
        mass = _split_bins(shares_of_bins, shares, bins, grid)
        below = np.append(0.0, np.cumsum(mass)) / mass.sum()
        # A shape has the counts of cells alone: those of bins are in other marginals.
        return Shape(grid, below, fine.counts, fine.std_error)


def find_cells(
    table: PrivateTable, cells: Domain, declared: Domain, bins: str
) -> FoundCells:
    """Count fine cells, if columns have any, and find bins or leave the declared."""
    if cells is declared:
        return FoundCells(table, declared, cells, {}, {})
    if bins == "private":
        coarser, domain, shapes = find_bins(table, cells, declared)
        return FoundCells(coarser, domain, cells, shapes, {})
    names, share = _plan_fine_cells(cells, declared, bins)
    counts = _count_fine_cells(table.part(share), cells, names)
    bins_of_cells = {}
    for name in names:
        place = cells.columns.index(name)
        bins_of_cells[place] = _bins_of_cells(cells[name], declared[name])
    coarser = table.coarser(declared, bins_of_cells, ())
    return FoundCells(coarser, declared, cells, {}, counts)


def _plan_fine_cells(
    cells: Domain, declared: Domain, bins: str
) -> tuple[list[Any], Fraction]:
    """Return the columns whose fine cells are counted, and the share of the budget for that."""
    # A column that is derived from others has no fine cells.
    names = [name for name in cells.columns if cells[name] is not declared[name]]
    if bins == "private":
        return names, _SHARE_OF_BINS
    return names, _SHARE_WITHIN * Fraction(len(names), len(cells.columns))


def find_bins(
    table: PrivateTable, cells: Domain, declared: Domain
) -> tuple[PrivateTable, Domain, dict[Any, Shape]]:
    """Find bins of about as many records; return the records by these."""
    names, share = _plan_fine_cells(cells, declared, "private")
    intervals = {}
    for name in names:
        interval = declared[name]
        assert isinstance(interval, Interval)
        intervals[name] = interval
    counts = _count_fine_cells(table.part(share), cells, names)
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
        # Cells grow with the distance from 0, as a long tail does: nodes have as many.
        shares = _shares_of_cells(of_numbers, grid, np.ones(of_numbers.counts.size))
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
    domain = replace_columns(declared, columns)
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
    share_of_column = Fraction(1, len(places))
    is_laplace = part.budget.power == 1
    clear_limit = _CLEAR_LAPLACE if is_laplace else _CLEAR_GAUSSIAN
    fine_counts = {}
    for name, place in zip(names, places, strict=True):
        levels = _levels(len(cells[name]))
        share = share_of_column / len(levels)
        sums = np.zeros(len(cells[name]))
        for level in levels:
            marginal = part.measure((place,), share, (level,))
            sums += marginal.counts[level]
        covariance = covariance_of_cells(len(cells[name])) * marginal.std_error**2
        counts = covariance @ sums / marginal.std_error**2
        fine_counts[name] = FineCounts(
            counts, covariance, marginal.std_error, clear_limit
        )
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
    fine: FineCounts, grid: Interval, sizes_of_cells: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the fraction of each cell: by clear counts, and by the sizes of cells within the noise."""
    # From the top of the tree: the share of a node is split among those below it.
    counts = fine.counts
    total = max(1.0, counts.sum())
    widths = _weigh_cells(grid)
    shares = np.array([1.0])
    parent_level = np.zeros(counts.size, np.intp)
    for level in reversed(_levels(counts.size)):
        starts = np.searchsorted(level, np.arange(level[-1] + 1))
        variances = np.zeros(starts.size)
        stops = np.append(starts[1:], counts.size)
        for node, (start, stop) in enumerate(zip(starts, stops, strict=True)):
            variances[node] = fine.covariance[start:stop, start:stop].sum()
        errors = np.sqrt(variances) / total
        are_cells = starts.size == counts.size
        limits = (fine.clear if are_cells else _CLEAR) * errors
        noisy = np.add.reduceat(counts, starts) / total
        sizes = widths if are_cells else np.add.reduceat(sizes_of_cells, starts)
        parents = parent_level[starts]
        split = np.zeros(starts.size)
        for parent, share in enumerate(shares):
            cells_of_bin = parents == parent
            split[cells_of_bin] = share * _split(
                noisy[cells_of_bin] / max(share, _MIN_SHARE),
                limits[cells_of_bin] / max(share, _MIN_SHARE),
                sizes[cells_of_bin],
                are_cells=are_cells,
            )
        shares = split
        parent_level = level
    return shares / shares.sum()


def _weigh_cells(grid: Interval) -> NDArray[np.float64]:
    """Return the number of values of each cell; nearly none for a single real number."""
    return count_values(grid) * np.where(find_points(grid), _POINT_WIDTH, 1.0)


def _split(
    noisy: NDArray[np.float64],
    limits: NDArray[np.float64],
    sizes: NDArray[np.float64],
    *,
    are_cells: bool,
) -> NDArray[np.float64]:
    """Split a node: by clear counts, and what is left by the numbers of values."""
    is_clear = noisy >= limits
    if not is_clear.any():
        return sizes / sizes.sum()
    shares = np.where(is_clear, noisy, 0.0)
    unclear = np.where(is_clear, 0.0, sizes)
    # Single numbers do not share the rest by themselves: noise would be a frequent
    # number. Nodes share it only if it exceeds their noise, so that none is far away.
    remainder = 1 - shares.sum()
    has_width = unclear.sum() > _MIN_OPEN * sizes.sum()
    least = 0.0 if are_cells else math.hypot(*limits[~is_clear])
    if has_width and remainder > least:
        shares += remainder * unclear / unclear.sum()
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


def with_counts_of_bins(
    fine: FineCounts,
    bins: NDArray[np.intp],
    counts: NDArray[np.float64],
    error: float,
) -> FineCounts:
    """Return the counts of cells that agree best with noisy counts of their bins, too."""
    # Generalised least squares: the gain of a Kalman filter, whose observations are sums.
    sums = np.eye(counts.size)[bins]  # (n_cells, n_bins)
    covariance_of_sums = fine.covariance @ sums  # (n_cells, n_bins)
    noise = error**2 * np.eye(counts.size)
    gain = np.linalg.solve(sums.T @ covariance_of_sums + noise, covariance_of_sums.T)
    change = (counts - fine.counts @ sums) @ gain
    covariance = fine.covariance - covariance_of_sums @ gain
    covariance = (covariance + covariance.T) / 2
    return fine._replace(counts=fine.counts + change, covariance=covariance)


def _split_bins(
    shares_of_bins: NDArray[np.float64],
    shares: NDArray[np.float64],
    bins: NDArray[np.intp],
    grid: Interval,
) -> NDArray[np.float64]:
    """Split the share of each bin as its cells share it, or evenly if they have little of it."""
    targets = np.maximum(shares_of_bins, _MIN_SHARE)
    sums = np.maximum(np.bincount(bins, shares), _MIN_SHARE)
    kept = shares * np.minimum(_MAX_GROWTH, targets / sums)[bins]
    widths = _weigh_cells(grid)
    # Rounding may leave a little less than nothing.
    remainders = np.maximum(targets - np.bincount(bins, kept), 0)
    densities = remainders / np.bincount(bins, widths)
    return np.asarray(kept + densities[bins] * widths)
