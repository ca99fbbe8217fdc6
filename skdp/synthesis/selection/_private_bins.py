"""Bins of numbers and dates that are found by noisy counts of fine public cells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skdp.domain import Domain, Interval
from skdp.synthesis.model import Marginal
from skdp.synthesis.selection._private_table import PrivateTable
from skdp.synthesis.tables import Shape, find_points

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
