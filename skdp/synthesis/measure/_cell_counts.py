"""Noisy counts of fine cells: private bins, and the distribution within bins."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from skdp._arrays import Floats, Indices, Mask
from skdp.domain import Domain, Interval, make_edge_array
from skdp.privacy import Split
from skdp.synthesis.measure._private_counts import PrivateCells
from skdp.synthesis.measure._rules import find_bin_starts
from skdp.synthesis.measure._tails import fit_tails
from skdp.synthesis.model import (
    Covariance,
    Marginal,
    combine_levels,
    estimate_marginal_counts,
    estimate_total,
    group_values,
)
from skdp.synthesis.private._number_cells import (
    Shape,
    Steps,
    add_cells,
    divide_cells,
    find_bins,
    find_intervals,
    find_points,
    find_single,
    find_starts,
    with_edges,
)
from skdp.synthesis.private._table import find_others

# Tuned by benchmarks/synthesis_numbers.py.
CELL_PARTS = Split(
    rest="marginals",
    declared=Fraction(3, 20),
    found=Fraction(1, 5),
    numbers=Fraction(3, 40),
)
"""Parts of the budget for the cells of columns with declared bins, and with found bins, and for frequent numbers.

The cells of frequent numbers are counted when they are divided first, later, and at last: a third each."""

CLEAR_STD_ERRORS = 3.0
CLEAR_NUMBER_STD_ERRORS, CLEAR_NUMBER_STD_ERRORS_PURE = 4.5, 8.5
"""Standard errors above which a block of cells, or a single cell, has records.

Gaussian noise exceeds 4.5, and Laplace noise 8.5, with a probability of 3e-6."""


CLEAR_BIN_STD_ERRORS = 4.0
"""Standard errors above which the count of a bin is better than a tail."""

MAX_NOISE = 0.05
"""Noise of a pair of columns with found bins, relative to all records."""

MAX_FOUND_BINS = 40
"""Largest number of bins that are found for a column."""

MIN_TAIL_STD_ERRORS = 128.0
"""Smallest count of a half of the first or last bin: with 8, noise in tails makes correlations worse at epsilon 10."""

FREQUENT_PROPORTION = 0.2
"""Proportion of the records from which on a cell, such as the value 0, is a bin of its own."""

MAX_NUMBERS = 160
"""Largest number of frequent numbers or narrow cells of a column that get cells of their own."""

N_DIVISIONS = 10
"""Number of times that frequent cells are divided."""

N_BRANCHES = 8
"""Blocks of a block of cells."""

MIN_PROPORTION = 1e-9
"""Proportion that is divided by width, so that no cell is impossible, and relative width of a single real number."""


def measure_cells(
    private: PrivateCells,
    domain: Domain,
    cells: Mapping[int, Interval],
    max_bins: int,
    facts: Domain | None = None,
) -> tuple[Domain, NumberCounts]:
    """Count fine cells of numbers with noise; return the domain with its final bins, and these counts.

    `cells` has the fine cells of each column, by index. Columns without declared bins get at most `max_bins` bins with
    about equal counts, which end at the numbers in the constraints of `facts`, by default the domain. From here on,
    `private` counts records by bins.
    """
    intervals = find_intervals(domain)
    declared = [column for column in cells if intervals[column].has_bins]
    found = [column for column in cells if not intervals[column].has_bins]
    levels: dict[int, tuple[Marginal, ...]] = {}
    # Within declared bins, a column spends 15 % of an equal part of the budget. If no
    # column has declared bins, all together spend a fifth of the budget on finding them.
    if declared:
        fraction = CELL_PARTS.declared / private.n_columns
        levels |= private.measure_levels(declared, fraction)
    if found:
        levels |= private.measure_levels(found, CELL_PARTS.found / len(cells))
    cells = _find_numbers(private, cells, levels)
    numbers = NumberCounts(intervals, cells, levels, private.noise.is_gaussian)
    if found:
        starts = {
            c: find_bin_starts(
                cells[c], (facts or domain)._list_limits(domain.columns[c])
            )
            for c in found
        }
        domain = _choose_bins(private, domain, numbers, starts, max_bins)
        numbers = replace(numbers, intervals=find_intervals(domain))
    private.coarsen(domain, numbers.bins)
    return domain, numbers


def _find_numbers(
    private: PrivateCells,
    cells: Mapping[int, Interval],
    levels: dict[int, tuple[Marginal, ...]],
) -> Mapping[int, Interval]:
    """Give frequent numbers within wider cells their own cells, and count these; return the cells of each column.

    `levels` has the noisy counts of `cells`, and gets the counts of the new cells.
    """
    # Only columns with frequent wide cells spend these fractions of the budget.
    fraction = CELL_PARTS.numbers / (3 * max(1, len(cells)))
    # A divided cell is clear in all later counts of its parts, too.
    min_count = CLEAR_STD_ERRORS * private.cell_error(fraction / N_DIVISIONS)
    wide = {}
    for column, fine in cells.items():
        is_frequent = _mark_frequent(levels[column][0], fine, min_count)
        if (is_wide := is_frequent & ~find_single(fine)).any():
            wide[column] = fine, is_wide
    if not wide:
        return cells
    found = _divide_cells(private, wide, fraction, min_count)
    refined = {column: add_cells(cells[column], found[column]) for column in found}
    private.refine(refined)
    for column, counts in private.measure_cells(refined, fraction).items():
        # The first cells are groups of the new ones.
        members = find_bins(cells[column], refined[column])[: len(refined[column])]
        coarser = []
        for level in levels[column]:
            groups = level.groups_of(column)
            groups = members if groups is None else groups[members]
            coarser.append(replace(level, groups=(groups,)))
        levels[column] = counts, *coarser
    return {**cells, **refined}


def _divide_cells(
    private: PrivateCells,
    wide: Mapping[int, tuple[Interval, Mask]],
    fraction: Fraction,
    min_count: float,
) -> dict[int, list[Any]]:
    """Divide the marked cells of some columns, and again their parts with at least `min_count` records.

    Return the lower and upper edges of these parts, by index of the column. `fraction` of the budget is for the first
    counts of each column, and for all later ones.
    """
    found: dict[int, list[Any]] = {column: [] for column in wide}
    part = fraction
    for _ in range(N_DIVISIONS):
        divided = {column: divide_cells(*marked) for column, marked in wide.items()}
        parts = {column: fine for column, (fine, _) in divided.items()}
        private.refine(parts)
        wide = {}
        for column, counts in private.measure_cells(parts, part).items():
            fine, is_part = divided[column]
            # One of 140 empty parts is marked in spite of Laplace noise, and a cell has 32
            # parts, so wrong divisions end.
            is_part &= _mark_frequent(counts, fine, min_count)
            edges = make_edge_array(fine.edges, fine.dtype)
            found[column].append((edges[:-1][is_part], edges[1:][is_part]))
            if is_part.any():
                wide[column] = fine, is_part
        # Frequent parts are clear in spite of more noise.
        part = fraction / N_DIVISIONS
        if not wide:
            break
    return found


def _mark_frequent(counts: Marginal, cells: Interval, min_count: float) -> Mask:
    """Mark the cells that have many of the records, and at least `min_count`; shape (n_cells,)."""
    noisy = counts.counts[: len(cells.edges) - 1]
    return noisy >= max(min_count, float(noisy.sum()) / MAX_NUMBERS)


@dataclass(frozen=True, eq=False)
class NumberCounts:
    """The bins of numbers and dates, and the noisy counts of finer cells, by index of the column."""

    intervals: Mapping[int, Interval]
    cells: Mapping[int, Interval]
    """The fine cells of each interval with more cells than bins."""
    levels: Mapping[int, tuple[Marginal, ...]]
    """The counts of these cells, and of blocks of them."""
    is_gaussian: bool

    def cells_of(self, column: int) -> Interval:
        """Return the fine cells of a column, or its bins."""
        return self.cells.get(column, self.intervals[column])

    def find_starts(self, column: int) -> Indices:
        """Return the index of the first cell of each bin, followed by the number of cells; shape (n_bins + 1,)."""
        return find_starts(self.intervals[column], self.cells_of(column))

    @property
    def bins(self) -> dict[int, Indices]:
        """The bin of each cell of each column with fine cells."""
        return {c: find_bins(self.intervals[c], fine) for c, fine in self.cells.items()}

    def combine(self, column: int, marginals: Sequence[Marginal]) -> CellCounts:
        """Combine the counts of the cells of a column, of blocks of cells, and of its bins in `marginals`."""
        cells = self.cells_of(column)
        levels = list(self.levels.get(column, ()))
        noisy, std_error = estimate_marginal_counts(marginals, (column,))
        if math.isfinite(std_error):
            members = find_bins(self.intervals[column], cells)[: len(cells)]
            levels.append(Marginal((column,), noisy, std_error, (members,)))
            # Marginals of other columns count the same records.
            others = [m for m in marginals if column not in m.clique]
            if others:
                total, std_error = estimate_total(others)
                together = (np.zeros(len(cells), np.intp),)
                records = Marginal((column,), np.array([total]), std_error, together)
                levels.append(records)
        return CellCounts.of(cells, levels, self.is_gaussian)

    def estimate(
        self, marginals: Sequence[Marginal]
    ) -> tuple[dict[int, Floats], dict[int, Shape]]:
        """Return the estimated counts of the bins in the tails (NaN for other bins), and the distributions within bins.

        Both are by index of the column. `marginals` are all noisy marginals, among them counts of bins. A bin is in a
        tail if all its cells are in the tails that `estimate_proportions` fits, and its own count is below
        `CLEAR_BIN_STD_ERRORS` standard errors.
        """
        tails = {}
        shapes = {}
        for column in self.intervals:
            noisy, std_error = estimate_marginal_counts(marginals, (column,))
            if not math.isfinite(std_error) and column not in self.levels:
                continue
            counts = self.combine(column, marginals)
            starts = self.find_starts(column)
            proportions, first, stop = counts.estimate_proportions(starts)
            sums = np.add.reduceat(proportions, starts[:-1])
            if math.isfinite(std_error):
                is_tail = (starts[:-1] >= stop) | (starts[1:] <= first)
                is_tail &= noisy[: sums.size] < CLEAR_BIN_STD_ERRORS * std_error
                tails[column] = np.full(noisy.size, np.nan)
                tail = max(1.0, float(counts.counts.sum())) * sums[is_tail]
                tails[column][: sums.size][is_tail] = tail
            if column in self.cells:
                within = proportions / np.repeat(sums, np.diff(starts))
                cells, levels = self.cells[column], self.levels[column]
                shapes[column] = Shape(cells, starts, within, levels)
        return tails, shapes


def _choose_bins(
    private: PrivateCells,
    domain: Domain,
    numbers: NumberCounts,
    starts: Mapping[int, Sequence[int]],
    max_bins: int,
) -> Domain:
    """Cut the intervals of columns into bins with about equal noisy counts, and return a domain with these bins.

    Bins are merged cells, and so few that the noise of a pair of columns is small. Frequent values are bins. `starts`
    has the first cells of bins that constraints name, by index of these columns.
    """
    found = [*starts]
    counts = {column: numbers.combine(column, ()) for column in found}
    total = max(1.0, float(np.mean([cell.counts.sum() for cell in counts.values()])))
    noise = private.noise.std_error(private.noise.remaining / (2 * len(domain.columns)))
    n_cells = MAX_NOISE * total / noise
    min_tail = min(0.5, MIN_TAIL_STD_ERRORS * noise / total)
    # The number of bins for a pair of columns with found bins, and for a pair with another
    # column, where the noise may be twice as large, weighted by the numbers of pairs.
    n_equal = max(2.0, n_cells**0.5)
    others = find_others(domain)
    sizes = [
        max(1, size - (column in others))
        for column, size in enumerate(domain.sizes)
        if column not in found
    ] or [1]
    n_beside = max(n_equal, 2 * n_cells / float(np.minimum(sizes, n_equal).mean()))
    proportion = (len(found) - 1) / max(1, len(domain.columns) - 1)
    n_bins = proportion * n_equal + (1 - proportion) * n_beside
    # An even number of bins keeps the sign of symmetric numbers.
    n_bins = 2 * max(1, round(n_bins / 2))
    columns = dict(domain)
    for column in found:
        fine = numbers.cells[column]
        edges = make_edge_array(fine.edges, fine.dtype)
        one_bin = np.array([0, edges.size - 1])
        proportions, _, _ = counts[column].estimate_proportions(one_bin)
        # The numbers of bins between starts are rounded up to 1.
        limit = max(1, min(MAX_FOUND_BINS, max_bins) - len(starts[column]))
        parts = itertools.pairwise([0, *starts[column], proportions.size])
        cuts = [0]
        for start, stop in parts:
            part = proportions[start:stop]
            n_part = min(n_bins, limit) * float(part.sum() / proportions.sum())
            cuts += [start + cut for cut in _cut(part, max(1, round(n_part)))[1:]]
        if (
            max_bins > 2 * MAX_FOUND_BINS
        ):  # most of the variance of skewed numbers is in the tails
            size = proportions.size
            low = _halve_tail(proportions[::-1], [size - cut for cut in cuts], min_tail)
            high = _halve_tail(proportions, cuts, min_tail)
            cuts = sorted({*cuts, *high, *(size - cut for cut in low)})
        columns[domain.columns[column]] = with_edges(fine, edges[cuts])
    return Domain(columns, constraints=domain._constraints, derived=domain.derived)


@dataclass(frozen=True, eq=False)
class CellCounts:
    """Noisy counts of neighboring cells of a column, whose errors are correlated."""

    counts: Floats
    """(n_cells,)."""
    covariance: Covariance
    """The covariance of the errors of counts."""
    edges: Floats
    """(n_cells + 1,), divided by a power of 2."""
    widths: Floats
    """The number of possible numbers of each cell, or its width, divided by a power of 2; shape (n_cells,)."""
    clear_std_errors: float
    """Number of standard errors above which the count of a single cell is clearly positive."""

    @classmethod
    def of(
        cls, fine: Interval, levels: Sequence[Marginal], is_gaussian: bool
    ) -> CellCounts:
        """Combine counts of the cells of an interval and of blocks of them, by weighted least squares.

        A level has the noisy counts of all blocks of one size, and `fine` has the edges of the cells. The result has
        the covariance of the combined counts. `is_gaussian` determines how large noise may be.
        """
        counts, covariance = combine_levels(levels, len(fine))
        # The last code may be missing, which is no number.
        n_cells = len(fine.edges) - 1
        counts = counts[:n_cells]
        covariance = covariance[:n_cells]
        widths = Steps.of(fine).n_values
        # A single real number has no width.
        widths = np.where(find_points(fine), MIN_PROPORTION * widths.sum(), widths)
        clear = CLEAR_NUMBER_STD_ERRORS
        if not is_gaussian:
            clear = CLEAR_NUMBER_STD_ERRORS_PURE
        edges = make_edge_array(fine.edges, fine.dtype).astype(float)
        # No product and no sum of squares overflows.
        edges = np.ldexp(edges, -math.frexp(np.abs(edges).max())[1])
        widths = np.ldexp(widths, -math.frexp(widths.max())[1])
        return cls(counts, covariance, edges, widths, clear)

    @cached_property
    def _sums(self) -> tuple[Floats, Covariance]:
        """The sums of the first counts, and their covariance; each of n_cells + 1 sums."""
        return np.append(0.0, self.counts.cumsum()), self.covariance.accumulate()

    def _sum_blocks(self, edges: Indices) -> tuple[Floats, Floats]:
        """Return the counts of blocks of cells between `edges`, and their standard errors; of shape (n_blocks,)."""
        counts, sums = self._sums
        factors = np.diff(sums.factors[edges], axis=0)
        variances = np.diff(sums.diagonal[edges]) - np.square(factors).sum(axis=1)
        return np.diff(counts[edges]), np.sqrt(np.maximum(variances, 0.0))

    def estimate_proportions(self, starts: Indices) -> tuple[Floats, int, int]:
        """Return the proportion of each cell, and the first cell and the end of the cells between both tails.

        `starts` has the number of the first cell of each bin, and the number of cells; shape (n_bins + 1,). Proportions
        follow the counts of bins that clearly exceed their noise, the counts of cells within them, and fitted
        distributions in the tails.
        """
        sums, std_errors = self._sum_blocks(starts)
        bins = itertools.pairwise(starts.tolist())
        within = np.concatenate([self.divide(*cells) for cells in bins])
        # Every cell has a positive proportion, because a row may still have the bin of
        # these cells.
        within = within + MIN_PROPORTION * self.widths / self.widths.sum()
        is_clear = sums >= CLEAR_STD_ERRORS * std_errors
        weights = np.where(is_clear, sums, 0.0) if is_clear.any() else np.diff(starts)
        proportions = within * np.repeat(weights, np.diff(starts))
        proportions /= proportions.sum()
        if not is_clear.any():
            return proportions, 0, self.counts.size
        proportions, first, stop = fit_tails(
            proportions, self.edges, self.counts, self.covariance
        )
        proportions = proportions + MIN_PROPORTION**2 * within
        return proportions / proportions.sum(), first, stop

    def divide(self, start: int, stop: int) -> Floats:
        """Return the proportion of each cell among the cells from `start` to `stop` (excluded); shape (n_cells,).

        Cells are divided into `N_BRANCHES` blocks by their counts, and each block in the same way. Blocks whose counts
        do not clearly exceed the noise get proportions by their widths, or none.
        """
        size = stop - start
        if size <= 1:
            return np.ones(size)
        edges = start + _cut_evenly(size)
        sums, std_errors = self._sum_blocks(edges)
        all_widths = self.widths[start:stop]
        width = float(all_widths.sum())
        # If no block differs clearly from its proportion of the width, blocks that are clear
        # by chance would take the records of the others.
        widths = np.add.reduceat(all_widths, edges[:-1] - start)
        even = sums.sum() * widths / width
        limits = np.where(np.diff(edges) > 1, CLEAR_STD_ERRORS, self.clear_std_errors)
        is_clear = sums >= limits * std_errors
        is_uneven = np.abs(sums - even) >= CLEAR_STD_ERRORS * std_errors
        if not (is_clear.any() and is_uneven.any()):
            return all_widths / width
        # Unclear blocks between or next to clear blocks divide their joint count.
        proportions = np.where(is_clear, sums, 0.0)
        is_open = ~is_clear
        first, last = np.flatnonzero(is_clear)[[0, -1]]
        is_open[: max(0, first - 1)] = False
        is_open[last + 2 :] = False
        rest = float(sums[~is_clear].sum())
        margin = CLEAR_STD_ERRORS * float((std_errors[~is_clear] ** 2).sum() ** 0.5)
        open_width = widths[is_open].sum()
        # If all open blocks are single numbers, noise would become a frequent number.
        if rest > margin and open_width > width / 10:
            proportions[is_open] = rest * widths[is_open] / open_width
        proportions /= proportions.sum()
        parts = []
        for cells, proportion in zip(
            itertools.pairwise(edges.tolist()), proportions.tolist(), strict=True
        ):
            parts.append(
                proportion * self.divide(*cells)
                if proportion
                else np.zeros(cells[1] - cells[0])
            )
        return np.concatenate(parts)


@lru_cache
def _cut_evenly(size: int) -> Indices:
    """Cut cells into at most `N_BRANCHES` blocks of about equal size; return the first cells and the end."""
    return np.unique(np.linspace(0, size, N_BRANCHES + 1).astype(int))


def _cut(proportions: Floats, max_bins: int) -> list[int]:
    """Merge cells into at most `max_bins` bins with about equal proportions; return the first cells and the end."""
    is_frequent = proportions >= FREQUENT_PROPORTION
    # There may be bins between and beside all frequent values, which are bins.
    n_even = max(1, max_bins - 2 * int(is_frequent.sum()))
    bins = group_values(np.where(is_frequent, 0.0, proportions), n_even)
    is_cut = (np.diff(bins) > 0) | is_frequent[1:] | is_frequent[:-1]
    return [0, *(np.flatnonzero(is_cut) + 1).tolist(), proportions.size]


def _halve_tail(
    proportions: Floats, cuts: Sequence[int], min_proportion: float
) -> list[int]:
    """Halve the last bin again and again, while its upper half has a proportion; return the cuts of the halves."""
    beyond = np.append(proportions[::-1].cumsum()[::-1], 0.0)
    halves: list[int] = []
    start = max(cut for cut in cuts if beyond[cut] >= min_proportion)
    while True:
        start = max(start + 1, int(np.searchsorted(-beyond, -beyond[start] / 2)))
        if beyond[start] < min_proportion:
            return halves
        halves.append(start)
