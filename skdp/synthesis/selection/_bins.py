"""Bins of numbers and dates that are found by noisy counts of fine public cells.

And where the numbers and dates of declared bins are, by counts of finer cells.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skdp.domain import Domain, Interval
from skdp.synthesis.model import GraphicalModel, Marginal, calibrate, expand
from skdp.synthesis.selection._private_table import PrivateTable
from skdp.synthesis.selection._strategy import FittedTable
from skdp.synthesis.tables import Shape, Shapes, ends_of_cells, find_points

BINS = ("declared", "private")
"""What `bins=` takes."""

# Chosen on the tables "skewed" and "incomes" of benchmarks/synthesis_numbers.py, at epsilons .5 and 1.
SHARE = Fraction(1, 5)
"""Of the budget, for the counts of fine cells."""

_BRANCHES, _ROOTS = 8, 16
_CLEAR, _POINT = 3.0, 1.5
"""From how many standard deviations a count is more than noise, and how much more a single number needs."""

_COST, _FEWEST = 0.05, 2
"""The noise that a pair of columns may have, as a share of all records."""


class FineCounts(NamedTuple):
    """Unbiased counts of the fine cells of a column, and the covariances of their noise."""

    counts: NDArray[np.float64]
    covariance: NDArray[np.float64]


def find_bins(
    table: PrivateTable, cells: Domain, declared: Domain
) -> tuple[PrivateTable, Domain, dict[Any, Shape]]:
    """Find bins that hold about as many records each; return the records by these, with the rest of the budget."""
    intervals = {
        place: (declared[name], cells[name])
        for place, name in enumerate(declared.columns)
        if isinstance(declared[name], Interval)
    }
    known = count_fine_cells(table.part(SHARE), cells, list(intervals))
    total = max(1.0, float(np.mean([counts.sum() for counts, _ in known.values()])))
    most = round(
        math.sqrt(
            _COST
            * total
            / table.budget.std_error(table.budget.left / (2 * len(cells.columns)))
        )
    )
    columns = {name: declared[name] for name in declared.columns}
    shapes, marginals, bins = {}, [], {}
    for place, (interval, grid) in intervals.items():
        assert isinstance(interval, Interval)
        assert isinstance(grid, Interval)
        name, (counts, covariance), n = (
            declared.columns[place],
            known[place],
            len(grid.edges) - 1,
        )
        shares = shares_of_cells(counts[:n], covariance[:n, :n], find_points(grid))
        cuts = _cut(shares, min(len(interval.edges) - 1, max(_FEWEST, most)))
        if (
            interval.decimals is not None
            and 2 * (grid.edges[n] - grid.edges[n - 1]) <= 10.0**-interval.decimals
        ):
            cuts = [
                cut for cut in cuts if cut < n - 1
            ]  # the last number has a cell, but no bin of its own
        edges = [grid.edges[cut] for cut in (*cuts, n)]
        columns[name] = Interval(
            edges=edges,
            missing=grid.missing,
            real=interval.real,
            decimals=interval.decimals,
        )
        shapes[name] = Shape(grid, np.append(0.0, np.cumsum(shares)))
        bins[place] = np.searchsorted(cuts, np.arange(len(grid)), side="right") - 1
        bins[place][n:] = len(cuts)
        sums = np.eye(len(columns[name]))[bins[place]]
        # The noise of bins is not independent: no sum of them has more than this.
        error = math.sqrt(np.linalg.eigvalsh(sums.T @ covariance @ sums)[-1])
        marginals.append(Marginal((place,), counts @ sums, error))
    domain = Domain(columns)
    return table.coarser(domain, bins, marginals), domain, shapes


def count_fine_cells(
    part: PrivateTable, cells: Domain, places: Sequence[int]
) -> dict[int, FineCounts]:
    """Count the fine cells of some columns, and return counts and covariances; all that a part has is spent."""
    # Each column gets an equal share, and each level of its tree: every 1, 8, 64, … neighbouring cells together. A
    # record is in one node of each level. The counts of the cells that agree best with all levels are unbiased.
    part.prepare([(place,) for place in places])
    known, covariances = {}, cache(_covariance)
    for place in places:
        levels = _levels(len(cells[cells.columns[place]]))
        share = Fraction(1, len(places) * len(levels))
        measured = [part.measure((place,), share, (level,)) for level in levels]
        std_error = measured[0].std_error
        covariance = covariances(levels[0].size, std_error)
        sums = sum(
            one.counts[level] for one, level in zip(measured, levels, strict=True)
        )
        known[place] = FineCounts(covariance @ sums / std_error**2, covariance)
    part.progress.flush()
    return known


def _levels(size: int) -> list[NDArray[np.intp]]:
    """Return the node of each cell in each level of a tree, the cells themselves first."""
    levels = [np.arange(size)]
    while levels[-1][-1] >= _ROOTS:
        levels.append(levels[-1] // _BRANCHES)
    return levels


def _covariance(size: int, error: float) -> NDArray[np.float64]:
    """Return the covariances of the counts of cells that agree best with the equally noisy counts of all levels."""
    # Each level adds what it says of its cells: a change of rank one for each node.
    cells, *levels = _levels(size)
    covariance = np.eye(cells.size)
    for level in levels:
        starts = np.searchsorted(level, np.arange(level[-1] + 2))
        for inside in map(slice, starts[:-1], starts[1:]):
            moved = covariance[inside, inside].sum(axis=1)
            covariance[inside, inside] -= np.outer(moved, moved) / (1 + moved.sum())
    return covariance * error**2


def shares_of_cells(
    counts: NDArray[np.float64],
    covariance: NDArray[np.float64],
    points: NDArray[np.bool_],
) -> NDArray[np.float64]:
    """Return the share of each cell: from the top of the tree, as far as counts are more than noise."""
    mass, nodes = np.array([1.0]), np.zeros(counts.size, np.intp)
    total = max(1.0, counts.sum())
    widths = np.where(points, _LEAST, 1.0)
    for level in reversed(_levels(counts.size)):
        starts = np.searchsorted(level, np.arange(level[-1] + 1))
        known = np.add.reduceat(counts, starts) / total
        blocks = np.add.reduceat(
            np.add.reduceat(covariance, starts, axis=0), starts, axis=1
        )
        least = _CLEAR * np.sqrt(np.diag(blocks)) / total
        size = np.add.reduceat(widths, starts)
        if starts.size == counts.size:
            least = np.where(points, _POINT * least, least)
        parents, found = nodes[starts], np.zeros(starts.size)
        for parent in range(mass.size):
            inside = parents == parent
            found[inside] = _split(
                mass[parent], known[inside], least[inside], size[inside]
            )
        mass, nodes = found, level
    return mass / mass.sum()


_LEAST = 1e-9


def _split(
    mass: float,
    known: NDArray[np.float64],
    least: NDArray[np.float64],
    size: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Split the share of a node among those below it: what is noise evenly, or not at all beside what is not."""
    clear = known >= least
    if not clear.any():
        return mass * size / size.sum()
    found = np.where(clear, known, 0.0)
    rest = mass - found.sum()
    if not clear.all() and rest > math.hypot(*least[~clear]):
        found[~clear] = rest * size[~clear] / size[~clear].sum()
    return found * mass / found.sum()


def _cut(shares: NDArray[np.float64], most: int) -> list[int]:
    """Return the first cells of bins, at most as many as asked, of about equal shares; large cells are bins alone."""
    large = shares >= 1 / most
    least = max(shares[~large].sum() / max(1, most - large.sum()), 1 / (2 * most))
    while True:
        cuts, held = [0], 0.0
        rest = np.cumsum(shares[::-1])[::-1]
        for cell, share in enumerate(shares):
            alone = large[cell] or (cell > 0 and large[cell - 1])
            enough = least / 4 if alone else least - share / 2
            if (
                cell > 0
                and held >= enough
                and rest[cell] >= (least / 4 if alone else least / 2)
            ):
                cuts.append(cell)
                held = 0.0
            held += share
        if len(cuts) <= most:
            return cuts
        least *= 1.1


SHARE_WITHIN = Fraction(1, 25)
"""Of the budget: the standard deviation of all other noise is larger by 2 %, by 4 % if it is Laplace noise."""

_CLEAR_BIN = 2.0
"""From how many standard deviations a count is more than noise: one empty bin in 44 is taken to have records."""

_BEYOND = 2.0
"""How far beyond the clear counts records are looked for, as a multiple of their distance from the mean."""

UNLIKELY = 1e-9
"""By what the probability of bins far from all records is multiplied: no table has rows there."""

_LEAST_MASS = 1e-12


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
        widths = np.where(points, _LEAST_MASS, 1.0)
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
        for code, share in enumerate(np.maximum(of_bins, _LEAST_MASS).tolist()):
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
        if counts[first:last].sum() < _CLEAR_BIN * std_error * math.sqrt(last - first):
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
