"""Private bins of numbers, with about as many records each, from one noisy histogram of each column."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.central.statistics._noise import Noise, as_float
from skdp.domain import Categories, Domain, Interval
from skdp.randomness import ByteSource

Floats = NDArray[np.float64]

# Cells of equal width between two bounds, of which powers of 2 are counted together.
MAX_EVEN_CELLS, MIN_EVEN_CELLS = 512, 16

# Octaves from the far bound towards the near one, with two edges each: for skewed
# numbers, 49 edges down to a 24-millionth of the width, which is 2**-24.5.
_N_OCTAVES = 24

# Records of a cell, in standard deviations of its noise, and the least of a bin. Of a
# cell, half or twice as many cost additive models .01 +- .005 of R2 on one of two
# generated tables (4,000 rows, epsilon 1, 6 fits); of a bin, less than .005.
_RECORDS_OF_CELL, _RECORDS_OF_BIN = 4.0, 2.5


@dataclass(frozen=True, eq=False)
class Bins:
    """The bins of a column, and their noisy counts."""

    attribute: Categories | Interval
    # The bin of each cell that was counted, and, last, the bin of rows in none.
    bins_of_cells: NDArray[np.intp]
    # Counts of the bins, and the variances of their noise: (n_bins,).
    counts: Floats
    variances: Floats

    @property
    def sizes(self) -> Floats:
        """The counts, of which none is below half the deviation of its noise."""
        return np.maximum(self.counts, np.sqrt(self.variances) / 2)


def fine_cells(low: float, high: float) -> Interval:
    """Return public cells between bounds, of equal width, and smaller towards the bound that is nearest to 0."""
    return cells_of(_edges(low, high)[0])


def cells_of(edges: Floats) -> Interval:
    """Return cells of numbers, of which some may be missing."""
    return Interval(edges=edges.tolist(), missing=True, real=True)


def _edges_towards_zero(low: float, high: float, shares: Floats) -> Floats:
    """Return numbers between bounds, at fractions of the way from the number nearest to 0 to each bound."""
    near = float(np.clip(0.0, low, high))
    edges: Floats = np.append(
        near + (high - near) * shares, near - (near - low) * shares
    )
    return edges[(edges > low) & (edges < high)]


def _edges(low: float, high: float) -> tuple[Floats, NDArray[np.intp]]:
    """Return the edges of the finest cells, and for how many of them each is an edge, too, if they are joined."""
    places = np.arange(MAX_EVEN_CELLS + 1)
    levels = np.append(places[1:-1] & -places[1:-1], [MAX_EVEN_CELLS, MAX_EVEN_CELLS])
    shares = places[[*range(1, MAX_EVEN_CELLS), 0, MAX_EVEN_CELLS]] / MAX_EVEN_CELLS
    even = low * (1 - shares) + high * shares
    skewed = _edges_towards_zero(
        low, high, 2.0 ** -np.arange(0.5, _N_OCTAVES + 0.6, 0.5)
    )
    edges = np.append(even, skewed)
    levels = np.append(levels, np.full(len(skewed), MAX_EVEN_CELLS))
    # Keep the highest level of equal edges.
    order = np.lexsort((-levels, edges))
    is_new = np.append(True, np.diff(edges[order]) > 0)
    return edges[order][is_new], levels[order][is_new]


def merge_cells(
    domain: Domain,
    ends: dict[Any, tuple[float, float]],
    cell_counts: Sequence[NDArray[np.int64]],
    noise: Noise,
    *,
    n_rows: float,
    most: int,
    source: ByteSource,
) -> list[Bins]:
    """Find bins of columns from the exact counts of their cells.

    Of columns with `ends`, neighbouring cells are first counted together, as far as the noise needs. Each such count
    gets one draw of noise. Then counts are joined to bins. Cells of other columns are bins.
    """
    error = as_float(noise.error)
    n_cells = _n_cells(n_rows, error)
    first_cells_of_columns = []
    exact_counts = []
    for name, counts in zip(domain.columns, cell_counts, strict=True):
        first_cells = np.arange(len(counts))
        if name in ends:
            first_cells = _first_cells(domain[name], *ends[name], n_cells)
        first_cells_of_columns.append(first_cells)
        exact_counts.append(np.add.reduceat(counts, first_cells))
    least_of_bin = _RECORDS_OF_BIN * error
    drawn = noise.add(source, np.concatenate(exact_counts).tolist())
    noisy: Floats = np.array([*map(as_float, drawn)])
    column_starts = np.cumsum([len(counts) for counts in exact_counts])[:-1]
    bins = []
    for name, first_cells, noisy_counts in zip(
        domain.columns,
        first_cells_of_columns,
        np.split(noisy, column_starts),
        strict=True,
    ):
        attribute = domain[name]
        # The first count of each bin.
        first_counts = np.arange(len(noisy_counts))
        if name in ends:
            least = max(noisy_counts[:-1].sum() / most, least_of_bin)
            joined = _join(noisy_counts[:-1], least, error)
            # The cell of missing numbers is a bin.
            first_counts = np.append(joined, len(noisy_counts) - 1)
            attribute = _joined_interval(attribute, first_cells[joined])
        bins.append(
            Bins(
                attribute,
                _bins_of_cells(first_cells[first_counts], len(domain[name])),
                np.add.reduceat(noisy_counts, first_counts),
                np.diff(first_counts, append=len(noisy_counts)) * error**2,
            )
        )
    return bins


def _n_cells(n_rows: float, error: float) -> int:
    """Return into how many cells of equal width numbers are counted, by the noise."""
    n_wanted = n_rows / (_RECORDS_OF_CELL * error)
    n_cells = MIN_EVEN_CELLS
    while n_cells < MAX_EVEN_CELLS and 2 * n_cells <= n_wanted:
        n_cells *= 2
    return n_cells


def _first_cells(
    cells: Categories | Interval, low: float, high: float, n_cells: int
) -> NDArray[np.intp]:
    """Return the first of the cells that are counted together, for each count."""
    assert isinstance(cells, Interval)
    edges, levels = _edges(low, high)
    # Cells that were cut keep the edges inside them.
    is_inside = levels < MAX_EVEN_CELLS // n_cells
    is_first = ~np.isin(cells.edges[:-1], edges[is_inside])
    # Missing numbers are in the cell after the last edge.
    return np.append(np.flatnonzero(is_first), len(cells.edges) - 1)


def _joined_interval(
    cells: Categories | Interval, first_cells: NDArray[np.intp]
) -> Interval:
    """Return the bins of numbers that begin with these cells."""
    assert isinstance(cells, Interval)
    return cells_of(np.array(cells.edges)[[*first_cells, -1]])


def _bins_of_cells(first_cells: NDArray[np.intp], n_cells: int) -> NDArray[np.intp]:
    """Return the bin of each cell, given the first cell of each, and, last, the bin of rows in none."""
    is_first = np.zeros(n_cells, np.intp)
    is_first[first_cells] = 1
    return np.append(np.cumsum(is_first) - 1, len(first_cells))


def _join(counts: NDArray[Any], least: float, error: float) -> list[int]:
    """Join neighbouring cells to bins of at least so many records; return the first cell of each bin."""
    firsts = [0]
    n_records = 0.0
    for cell, count in enumerate(counts):
        # A cell with enough records, such as the cell of zeros, is not merged with many cells.
        if cell > firsts[-1] and count >= least and n_records >= least / 2:
            firsts.append(cell)
            n_records = 0.0
        n_records += count
        if n_records >= least:
            firsts.append(cell + 1)
            n_records = 0.0
    # A last bin of many cells may be empty: noise must not make it.
    noise = _RECORDS_OF_BIN * error * math.sqrt(len(counts) - firsts[-1])
    if len(firsts) > 1 and n_records < max(least / 2, noise, 1.0):
        firsts.pop()
    return firsts
