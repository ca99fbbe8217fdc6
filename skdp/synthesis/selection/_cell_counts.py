"""Noisy counts of fine cells: private bins, and the distribution within bins."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from skdp.domain import Domain, Interval, copy_guarantee
from skdp.synthesis._cells import Shape, Steps, find_intervals, find_points, with_edges
from skdp.synthesis.model import Clique
from skdp.synthesis.selection._budget import PrivateCounts

# Tuned by benchmarks/synthesis_numbers.py.
CLEAR_STD_ERRORS = 3.0
CLEAR_NUMBER_STD_ERRORS, CLEAR_NUMBER_STD_ERRORS_PURE = 4.5, 8.5
"""Standard errors above which a block of cells, or a single cell, has records.

Gaussian noise exceeds 4.5, and Laplace noise 8.5, with a probability of 3e-6."""


MIN_PROPORTION = 1e-9


def measure_cells(
    private: PrivateCounts, domain: Domain, cells: Mapping[int, Interval], bins: str
) -> tuple[Domain, dict[int, Shape]]:
    """Count fine cells; find bins if they are private; continue with bins."""
    if not cells:
        return domain, {}
    # Within declared bins, a column spends a tenth of an equal part of the budget; all
    # columns together spend a fifth of the budget on finding private bins.
    fraction = Fraction(1, 10 * len(domain.columns))
    if bins == "private":
        fraction = Fraction(1, 5 * len(cells))
    columns: list[Clique] = [(column,) for column in cells]
    counts = {}
    for marginal in private.measure(columns, [fraction] * len(columns)):
        (column,) = marginal.clique
        # The last code may be missing, which is no number.
        cell_counts = marginal.counts[: len(cells[column].edges) - 1]
        counts[column] = CellCounts.of(
            cells[column], cell_counts, marginal.std_error, private.budget.is_gaussian
        )
    if bins == "private":
        domain = _find_bins(private, domain, cells, counts)
    shapes = {}
    bins_of_cells = {}
    intervals = find_intervals(domain)
    for column, fine in cells.items():
        shape = make_shape(fine, intervals[column], counts[column])
        shapes[column] = shape
        # The last cell and the last bin may be missing.
        bins_of_cells[column] = np.append(shape.bins, shape.starts.size - 1)
    private.coarsen(domain, bins_of_cells)
    return domain, shapes


def make_shape(fine: Interval, bins: Interval, counts: CellCounts) -> Shape:
    """Estimate the distribution of records within bins."""
    edges = np.array(fine.edges, fine.dtype)
    starts = np.searchsorted(edges, np.array(bins.edges, fine.dtype))
    proportions = counts.estimate_within(starts)
    return Shape(fine, starts, proportions, counts.counts, counts.std_error)


def _find_bins(
    private: PrivateCounts,
    domain: Domain,
    cells: Mapping[int, Interval],
    counts: Mapping[int, CellCounts],
) -> Domain:
    """Cut intervals into bins with about equal counts. The noise of pairs limits their number."""
    total = max(1.0, float(np.mean([cell.counts.sum() for cell in counts.values()])))
    budget = private.budget
    noise = budget.std_error(budget.remaining / (2 * len(domain.columns)))
    # The noise of a pair of columns is a twentieth of all records.
    n_affordable = max(2, round((0.05 * total / noise) ** 0.5))
    columns = {name: domain[name] for name in domain.columns}
    intervals = find_intervals(domain)
    for column, fine in cells.items():
        edges = np.array(fine.edges, fine.dtype)
        n_bins = min(len(intervals[column].edges) - 1, n_affordable)
        cuts = _cut(counts[column].estimate_proportions(), n_bins)
        columns[domain.columns[column]] = with_edges(fine, edges[cuts])
    found = Domain(columns, constraints=domain.constraints, derived=domain.derived)
    return copy_guarantee(found, domain)


@dataclass(frozen=True, eq=False)
class CellCounts:
    """The noisy counts of neighboring cells."""

    counts: NDArray[np.float64]
    std_error: float
    widths: NDArray[np.float64]
    clear_std_errors: float
    """Standard errors above which a single cell has records."""

    @classmethod
    def of(
        cls,
        fine: Interval,
        counts: NDArray[np.float64],
        std_error: float,
        is_gaussian: bool,
    ) -> CellCounts:
        """Return the counts of the cells of an interval."""
        widths = Steps.of(fine).n_values
        # A single real number has no width.
        widths = np.where(find_points(fine), MIN_PROPORTION * widths.sum(), widths)
        clear = CLEAR_NUMBER_STD_ERRORS
        if not is_gaussian:
            clear = CLEAR_NUMBER_STD_ERRORS_PURE
        return cls(counts, std_error, widths, clear)

    def part(self, start: int, stop: int) -> CellCounts:
        """Return the counts of some of the cells."""
        cells = slice(start, stop)
        return CellCounts(
            self.counts[cells],
            self.std_error,
            self.widths[cells],
            self.clear_std_errors,
        )

    def estimate_within(self, starts: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the proportion of each cell in its bin."""
        proportions = []
        for start, stop in itertools.pairwise(starts):
            proportions.append(self.part(start, stop).estimate_proportions())
        return np.concatenate(proportions)

    def estimate_proportions(self) -> NDArray[np.float64]:
        """Return the proportion of each cell: by its count if clear, otherwise by width."""
        # Every cell has a positive proportion, because a row may still have the bin of
        # these cells.
        proportions = self._divide() + MIN_PROPORTION * self.widths / self.widths.sum()
        return np.asarray(proportions / proportions.sum())

    def _divide(self) -> NDArray[np.float64]:
        """Divide 1 among blocks by their counts, then among the cells of each block."""
        if self.counts.size <= 1:
            return np.ones(self.counts.size)
        stops = np.linspace(0, self.counts.size, 9).astype(int)  # 8 blocks
        blocks = []
        for start, stop in itertools.pairwise(np.unique(stops)):
            blocks.append(self.part(start, stop))
        sizes = np.array([block.counts.size for block in blocks])
        sums = np.array([block.counts.sum() for block in blocks])
        widths = np.array([block.widths.sum() for block in blocks])
        limits = np.where(sizes > 1, CLEAR_STD_ERRORS, self.clear_std_errors)
        std_errors = self.std_error * sizes**0.5
        is_clear = sums >= limits * std_errors
        # If no block is far from its part by width, the blocks that are clear by chance
        # would take the records of the others.
        even = sums.sum() * widths / widths.sum()
        is_uneven = np.abs(sums - even) >= CLEAR_STD_ERRORS * std_errors
        if not (is_clear.any() and is_uneven.any()):
            return np.asarray(self.widths / self.widths.sum())
        # Unclear blocks between or next to clear blocks divide their joint count.
        proportions = np.where(is_clear, sums, 0.0)
        is_open = ~is_clear
        first, last = np.flatnonzero(is_clear)[[0, -1]]
        is_open[: max(0, first - 1)] = False
        is_open[last + 2 :] = False
        rest = float(sums[~is_clear].sum())
        margin = CLEAR_STD_ERRORS * self.std_error * sizes[~is_clear].sum() ** 0.5
        open_width = widths[is_open].sum()
        # If all open blocks are single numbers, noise would become a frequent number.
        if rest > margin and open_width > widths.sum() / 10:
            proportions[is_open] = rest * widths[is_open] / open_width
        proportions /= proportions.sum()
        parts = []
        for block, proportion in zip(blocks, proportions, strict=True):
            parts.append(proportion * block._divide())
        return np.concatenate(parts)


def _cut(proportions: NDArray[np.float64], max_bins: int) -> list[int]:
    """Return the edges of at most `max_bins` bins with about equal proportions."""
    # Cells with more than the mean proportion of a bin become bins; small cells are
    # merged into the remaining bins.
    is_large = proportions >= 1 / max_bins
    n_small = max(1, max_bins - int(is_large.sum()))
    min_proportion = max(proportions[~is_large].sum() / n_small, 1 / (2 * max_bins))
    remainders = np.cumsum(proportions[::-1])[::-1]
    while True:
        cuts = [0]
        proportion = proportions[0]
        for cell in range(1, proportions.size):
            is_alone = is_large[cell] or is_large[cell - 1]
            enough = min_proportion - proportions[cell] / 2
            enough_left = min_proportion / 2
            if is_alone:
                enough = enough_left = min_proportion / 4
            if proportion >= enough and remainders[cell] >= enough_left:
                cuts.append(cell)
                proportion = 0.0
            proportion += proportions[cell]
        if len(cuts) <= max_bins:
            return [*cuts, proportions.size]
        min_proportion *= 1.1
