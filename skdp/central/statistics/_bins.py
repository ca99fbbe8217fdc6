"""Private bins of numbers, with about as many records each, from one noisy histogram of each column."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.central.statistics._noise import Floats, Noise, as_float
from skdp.domain import Categories, Domain, Interval
from skdp.randomness import ByteSource

# Half or twice of the records of a cell or of a bin changes areas and R2 of additive models
# of nine tables at epsilon 1 by less than 0.01 (benchmarks/central_models.py).

# Cells of equal width between two bounds, beside the skewed ones: a power of 2, as many
# as have so many records each, in standard deviations of the noise of a cell.
MIN_EVEN_CELLS, MAX_EVEN_CELLS = 16, 512
RECORDS_PER_CELL = 4.0

# Octaves from the far bound towards the near one, with two edges each: for skewed
# numbers, 49 edges down to a 24-millionth of the width, which is 2**-24.5.
N_OCTAVES = 24

# The smallest number of records of a bin, in standard deviations of the noise of a cell.
MIN_BIN_ERRORS = 2.5


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
    return cells_of(_find_edges(low, high, MAX_EVEN_CELLS))


def _find_edges(low: float, high: float, n_cells: int) -> Floats:
    """Return the edges of cells of equal width, and of skewed ones; fewer cells have some of these edges."""
    shares = np.arange(n_cells + 1) / n_cells
    even = low * (1 - shares) + high * shares
    near = float(np.clip(0.0, low, high))
    octaves = 2.0 ** -np.arange(0.5, N_OCTAVES + 0.6, 0.5)
    skewed = near + np.outer([high - near, low - near], octaves)
    edges: Floats = np.unique(np.clip([*even, *skewed.ravel()], low, high))
    return edges


def cells_of(edges: Floats) -> Interval:
    """Return cells of numbers, of which some may be missing."""
    return Interval(edges=edges.tolist(), missing=True, real=True)


def merge_cells(
    domain: Domain,
    numbers: Sequence[Any],
    cell_counts: Sequence[NDArray[np.int64]],
    noise: Noise,
    *,
    n_rows: float,
    max_bins: int,
    source: ByteSource,
) -> list[Bins]:
    """Find bins of columns from the exact counts of their cells.

    Neighbouring cells of numbers are first counted together, as far as the noise needs. Each such count gets one draw
    of noise. Then counts are joined to bins. Cells of other columns are bins.
    """
    error = as_float(noise.error)
    power = np.clip(np.log2(n_rows / (RECORDS_PER_CELL * error)), 4, 9)
    n_cells = 2 ** int(power)
    starts = []
    exact_counts = []
    for name, counts in zip(domain.columns, cell_counts, strict=True):
        first_cells = np.arange(len(counts))
        attribute = domain[name]
        if name in numbers and isinstance(attribute, Interval):
            edges = np.array(attribute.edges)
            counted_edges = _find_edges(edges[0], edges[-1], n_cells)
            # The last cell is for missing numbers, and a bin of its own.
            first_cells = np.searchsorted(edges, counted_edges)
        starts.append(first_cells)
        exact_counts.append(np.add.reduceat(counts, first_cells))
    noisy = noise.add_floats(source, np.concatenate(exact_counts))
    column_ends = np.cumsum(list(map(len, exact_counts)))[:-1]

    bins = []
    for name, first_cells, noisy_counts in zip(
        domain.columns, starts, np.split(noisy, column_ends), strict=True
    ):
        attribute = domain[name]
        firsts = np.arange(len(noisy_counts))
        if name in numbers and isinstance(attribute, Interval):
            min_count = max(noisy_counts[:-1].sum() / max_bins, MIN_BIN_ERRORS * error)
            firsts = np.append(
                _join(noisy_counts[:-1], min_count, error), len(noisy_counts) - 1
            )
            attribute = cells_of(np.array(attribute.edges)[first_cells[firsts]])
        cells = np.arange(len(domain[name]))
        places = np.searchsorted(first_cells[firsts], cells, "right") - 1
        bins.append(
            Bins(
                attribute,
                np.append(places, len(firsts)),
                np.add.reduceat(noisy_counts, firsts),
                np.diff(firsts, append=len(noisy_counts)) * error**2,
            )
        )
    return bins


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
    noise = MIN_BIN_ERRORS * error * math.sqrt(len(counts) - firsts[-1])
    if len(firsts) > 1 and n_records < max(least / 2, noise, 1.0):
        firsts.pop()
    return firsts
