"""Noisy counts of private columns by public columns, and the choice of the pairs to measure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import ColumnName, Floats, Indices, Integers
from skdp.privacy import Split
from skdp.synthesis.measure._cell_counts import NumberCounts, measure_cells
from skdp.synthesis.measure._marginal_scores import group_rare_values
from skdp.synthesis.measure._plan import count_ordered
from skdp.synthesis.measure._private_counts import (
    MIN_STD_ERROR,
    NoiseSource,
    PrivateCells,
    Sensitivity,
)
from skdp.synthesis.model import Cross, Marginal, NoisyCounts, estimate_proportions
from skdp.synthesis.private._column_records import ColumnRecords
from skdp.synthesis.private._number_cells import Shape

# benchmarks/synthesis_columns.py shows the effect of half and twice of each constant.
PARTS = Split(rest="tables", columns=Fraction(1, 20), scores=Fraction(1, 20))
"""Parts of the budget for the first counts of columns, for the scores of pairs, and for cells of numbers and tables."""

MAX_TAIL_STD_ERRORS = 3.5
"""Largest difference of the estimated and the noisy count of a bin in a tail; otherwise it gets its noisy count."""

CELL_COST = 0.65
"""Cost of a noisy cell, in standard errors."""


@dataclass(frozen=True)
class _CountedNumbers:
    """The integers of a table that are measured with noise, from which its counts are computed."""

    # The number of records of each public cell, the sum over private values, is public.
    # So with two values, only one of them is measured. With q > 2 values, the noise is
    # projected such that the sums are exact, which reduces its variance to 1 - 1 / q.
    #
    # Centered numbers are K N - S, for the counts N of a value in a cell and their sum S
    # over all K public cells. S is the count of the single private column, which is
    # measured once, with little noise, for all its tables. A record with the value changes
    # centered numbers by K - 1 in its cell and by -1 in all other cells: by K (K - 1) in
    # squared L2 norm. They sum to 0, so projected noise has a variance of 1 - 1 / K; with
    # two cells, only one of them is measured.

    n_cells: int
    """Number of public cells with records."""
    n_values: int
    is_centered: bool
    """True if centered numbers are measured (see `center`), which add up to 0 over the cells; otherwise counts."""

    @property
    def n_counted_values(self) -> int:
        """The number of values that are measured in each cell."""
        return 1 if self.n_values == 2 else self.n_values

    @property
    def n_counted_cells(self) -> int:
        """The number of cells that are measured."""
        return 1 if self.is_centered and self.n_cells == 2 else self.n_cells

    @property
    def sensitivity(self) -> Sensitivity:
        """The sensitivity of the measured integers to replacing the value of a record."""
        # The old and the new value change, unless only one of two values is measured.
        n_changed = min(2, self.n_counted_values)
        if not self.is_centered or self.n_cells == 2:
            return n_changed, n_changed
        n_others = self.n_cells - 1
        return 2 * n_others * n_changed, self.n_cells * n_others * n_changed

    @property
    def relative_std_error(self) -> float:
        """The standard error of each count after `complete`, relative to the noise of the measured integers.

        Known sums of counts make the error smaller than the noise.
        """
        variance = 1 - 1 / self.n_values if self.n_values != 2 else 1.0
        if self.is_centered:
            # A count is N = (centered number + S) / K.
            variance /= self.n_cells**2
            if self.n_cells > 2:
                variance *= 1 - 1 / self.n_cells
        return math.sqrt(variance)

    def center(self, counts: Integers) -> Integers:
        """Convert counts, (n_cells, n_values), to `n_cells` times their difference from the mean cell, if centered."""
        if not self.is_centered:
            return counts
        return self.n_cells * counts - counts.sum(axis=0)

    def complete(self, noisy: Floats, sums: Integers) -> Floats:
        """Compute the numbers, centered or counts, of all cells and values from the measured numbers.

        `noisy` has the measured numbers, (n_counted_cells, n_counted_values), which exclude one of two cells or
        values because both add up to a known sum. `sums` are public sums of numbers over values, (n_cells, 1).
        """
        if self.is_centered and self.n_cells == 2:
            noisy = np.concatenate([noisy, -noisy])
        elif self.is_centered:
            noisy = noisy - noisy.mean(axis=0)
        if self.n_values == 2:
            return np.concatenate([noisy, sums - noisy], axis=1)
        return noisy - (noisy.sum(axis=1, keepdims=True) - sums) / self.n_values


class PrivateColumns:
    """The private columns of all records, of which only noisy counts and scores leave this object."""

    # Neighbors differ in the private values of one record. So the record is in two
    # different cells of a table, with the same public cell.

    def __init__(self, records: ColumnRecords, noise: NoiseSource) -> None:
        """Store the records, and the noise of all measurements."""
        self._combinations = records.combinations
        self.public = records.public
        self.noise = noise

    @property
    def n_rows(self) -> int:
        """The number of records, which is public."""
        return self._combinations.size

    def count_cells(self, cross: Cross) -> Integers:
        """Count the records of each public cell, exactly; (n_cells,)."""
        cells = cross.cells_of(self.public, self.n_rows)
        return np.bincount(cells, minlength=cross.n_cells).astype(np.int64)

    def _count(self, cross: Cross) -> Integers:
        """Count the records of each cell and value exactly; shape (n_cells, n_values)."""
        shape = cross.n_cells, cross.n_values
        cells = cross.cells_of(self.public, self.n_rows)
        index = cells * shape[1] + cross.value_of[self._combinations]
        counts = np.bincount(index, minlength=shape[0] * shape[1])
        return counts.reshape(shape).astype(np.int64)

    def _make_form(self, cross: Cross) -> _CountedNumbers:
        """Return the integers of a table that are measured with noise."""
        n_cells = int((self.count_cells(cross) > 0).sum())
        # With more than two cells, centered numbers need more Laplace noise than counts.
        is_gaussian = self.noise.is_gaussian
        is_centered = n_cells == 2 or (n_cells > 2 and is_gaussian)
        return _CountedNumbers(n_cells, cross.n_values, is_centered)

    def std_error_of(self, cross: Cross, fraction: Fraction) -> float:
        """Return the standard error of each count of a table that is measured with a fraction of the budget."""
        form = self._make_form(cross)
        noise = self.noise.std_error(fraction, form.sensitivity)
        return max(MIN_STD_ERROR, noise * form.relative_std_error)

    def measure(
        self, cross: Cross, fraction: Fraction, single: NoisyCounts | None = None
    ) -> NoisyCounts:
        """Measure a table of counts with a fraction of the budget; shape (n_cells, n_values).

        `single` has the noisy counts of its private column, which complete centered numbers (counts minus their mean
        over cells).
        """
        form = self._make_form(cross)
        exact = self._count(cross)
        # The number of records of a cell is public, so cells without records have no noise.
        has_records = exact.sum(axis=1) > 0
        numbers = form.center(exact[has_records])
        counted = numbers[: form.n_counted_cells, : form.n_counted_values]
        noisy = self.noise.add_to_counts(counted, fraction, form.sensitivity)
        noisy = form.complete(noisy, numbers.sum(axis=1, keepdims=True))
        if form.is_centered and single is not None:
            noisy = (noisy + single.group(cross)) / form.n_cells
        table = np.zeros(exact.shape)
        table[has_records] = noisy
        return NoisyCounts(cross, table, self.std_error_of(cross, fraction))

    def score(
        self,
        crosses: Sequence[Cross],
        fraction: Fraction,
        proportions: Sequence[NDArray],
    ) -> Floats:
        """Measure the L1 distance of each table from independent columns with a fraction of the budget.

        `proportions` are the estimated proportions of the private values of each table.
        """
        # Replacing a value changes two counts by 1 each, and so a distance by at most 2.
        distances = []
        for cross, of_values in zip(crosses, proportions, strict=True):
            expected = np.outer(self.count_cells(cross), of_values)
            guess = np.rint(expected).astype(np.int64)
            distances.append(int(np.abs(self._count(cross) - guess).sum()))
        exact = np.array(distances, np.int64)
        return self.noise.add_to_scores(exact, fraction, change=2)


def measure_columns(
    records: ColumnRecords, noise: NoiseSource
) -> tuple[list[NoisyCounts], dict[int, Shape]]:
    """Spend the budget on the cells of private numbers, on columns, and on pairs that noisy scores select.

    Return the noisy counts, the private columns first, and the distributions of numbers within bins, by index.
    """
    # Replacing a value changes two counts of cells.
    private = PrivateCells(records.private, noise, (2, 2))
    domain, numbers = measure_cells(
        private, records.joint_domain, records.cells, records.max_bins
    )
    records.set_bins(domain)
    columns = PrivateColumns(records, noise)
    singles = []
    for column in range(len(records.private_sizes)):
        singles.append(Cross((column,), records.values_of(column)))
    # The noise of a single column is also in all its pairs, so it costs as much as the
    # noise of one cell in each of them.
    weights = [records.n_columns * _find_cost(columns, cross) for cross in singles]
    first = _measure_tables(columns, singles, weights, PARTS.columns, [])
    proportions = [estimate_proportions(counts) for counts in first]
    pairs = _list_pairs(columns, records, proportions)
    chosen = _choose_pairs(
        columns, pairs, _measure_gains(columns, pairs, proportions), weights
    )
    crosses = [*singles, *chosen]
    for cross in chosen:
        weights.append(_find_cost(columns, cross))
    noisy = _measure_tables(columns, crosses, weights, noise.remaining, first)
    return _estimate_numbers(numbers, noisy)


def _estimate_numbers(
    numbers: NumberCounts, noisy: Sequence[NoisyCounts]
) -> tuple[list[NoisyCounts], dict[int, Shape]]:
    """Estimate the distributions of private numbers within their bins, by index of the column, and their tails.

    Return `noisy`, the measured tables with the private columns first, with the estimated counts of bins in tails.
    """
    singles = []
    for table in noisy:
        if table.cross.is_single:
            clique = table.cross.private
            singles.append(Marginal(clique, table.counts[0], table.std_error))
    tails, shapes = numbers.estimate(singles)
    tables = list(noisy)
    for column, tail in tails.items():
        excess = np.abs(noisy[column].counts[0] - tail)
        is_near = excess <= MAX_TAIL_STD_ERRORS * noisy[column].std_error
        tables[column] = replace(noisy[column], tail=np.where(is_near, tail, np.nan))
    return tables, shapes


def _measure_tables(
    columns: PrivateColumns,
    crosses: Sequence[Cross],
    weights: Sequence[float],
    fraction: Fraction,
    earlier: Sequence[NoisyCounts],
) -> list[NoisyCounts]:
    """Measure tables such that the weighted sum of their errors is smallest; average with earlier measurements.

    `weights` are the weights of the errors of `crosses`, and `fraction` the part of the budget for all tables. The
    first tables are the single private columns in order, as in `earlier`: their noisy counts complete the counts of
    tables with a public column.
    """
    measured: list[NoisyCounts] = []
    parts = columns.noise.allocate(weights, fraction)
    for index, (cross, part) in enumerate(zip(crosses, parts, strict=True)):
        single = None if cross.public is None else measured[cross.private[0]]
        counts = columns.measure(cross, part, single)
        if index < len(earlier):
            counts = counts.average(earlier[index])
        measured.append(counts)
    return measured


def _find_cost(columns: PrivateColumns, cross: Cross) -> float:
    """Return the sum of the standard errors of the cells of a table, relative to the noise of one count."""
    n_cells = int((columns.count_cells(cross) > 0).sum()) * cross.n_values
    unit_std_error = columns.noise.noise_scale(Fraction(1))
    return max(1, n_cells) * columns.std_error_of(cross, Fraction(1)) / unit_std_error


def _list_pairs(
    columns: PrivateColumns, records: ColumnRecords, proportions: Sequence[NDArray]
) -> list[Cross]:
    """List all pairs of columns with at least one private column; rare values are grouped.

    `proportions` are the noisy proportions of the values of each private column. A group of values has a count that is
    clearly above the noise of a pair.
    """
    noise = columns.noise.std_error(columns.noise.remaining / (2 * records.n_columns))

    def group(counts: Floats, *, ordered: bool) -> Indices:
        """Return the group of each value, given its count; at least two groups."""
        groups = group_rare_values(counts, ordered, noise, n_records=columns.n_rows)
        if groups is None or groups.max() == 0:
            return np.arange(counts.size)
        return groups

    def find_axis(
        name: ColumnName, members: Indices, *, ordered: bool
    ) -> tuple[int, int]:
        """Return the number of groups of a column, and of groups of its ordered values."""
        n_ordered = count_ordered(records.domain[name]) if ordered else 0
        n_ordered = int(members[n_ordered - 1]) + 1 if n_ordered else 0
        return int(members.max()) + 1, n_ordered

    groups, axes = [], []
    for name, column_proportions, ordered in zip(
        records.private_names, proportions, records.private_ordered, strict=True
    ):
        members = group(column_proportions * columns.n_rows, ordered=ordered)
        groups.append(members)
        axes.append(find_axis(name, members, ordered=ordered))
    pairs = []
    for public, size in enumerate(records.public_sizes):
        counts = np.bincount(columns.public[public], minlength=size + 1)
        ordered = records.public_ordered[public]
        cells = group(counts[:size].astype(float), ordered=ordered)
        name = records.public_names[public]
        n_cells, n_ordered = find_axis(name, cells, ordered=ordered)
        cell_of = np.append(cells, n_cells)  # all other values
        for private, members in enumerate(groups):
            value_of = members[records.values_of(private)]
            both = (n_cells + 1, n_ordered), axes[private]
            pairs.append(Cross((private,), value_of, public, cell_of, both))
    for second in range(len(groups)):
        for first in range(second):
            n_values = int(groups[second].max()) + 1
            value_of = groups[first][records.values_of(first)] * n_values
            value_of = value_of + groups[second][records.values_of(second)]
            both = axes[first], axes[second]
            pairs.append(Cross((first, second), value_of, axes=both))
    return pairs


def _measure_gains(
    columns: PrivateColumns, pairs: Sequence[Cross], proportions: Sequence[NDArray]
) -> list[float]:
    """Measure the dependence of each pair of columns, with noise.

    The score of a pair is the L1 distance of its counts from the counts of independent columns. All scores together
    spend `PARTS.scores` of the budget. `proportions` are the noisy proportions of the values of each private column.
    """
    expected = []
    for cross in pairs:
        # The proportions of the combinations of all private columns, from which
        # `cross.value_of` selects the values of the pair.
        joint = np.ones(1)
        for column in range(len(proportions)):
            joint = np.multiply.outer(joint, proportions[column]).ravel()
        expected.append(np.bincount(cross.value_of, joint, cross.n_values))
    return columns.score(pairs, PARTS.scores, expected).tolist() if pairs else []


def _choose_pairs(
    columns: PrivateColumns,
    pairs: Sequence[Cross],
    gains: Sequence[float],
    single_weights: Sequence[float],
) -> list[Cross]:
    """Choose pairs in order of gain / noise, if their gain exceeds the noise that they add to all tables.

    `gains` are in records, as in `_measure_gains`. `single_weights` are the costs of the single private columns, which
    are always measured.
    """
    # If tables share a budget such that the sum of their errors is smallest, this sum is
    # sum(noise**power) ** (1 / power): see `NoiseSource.cost_power`.
    power = columns.noise.cost_power
    unit_std_error = columns.noise.noise_scale(columns.noise.remaining)
    noises = [CELL_COST * _find_cost(columns, cross) for cross in pairs]
    spent_noise = math.fsum((CELL_COST * weight) ** power for weight in single_weights)
    order = sorted(range(len(pairs)), key=lambda i: gains[i] / noises[i], reverse=True)
    chosen = []
    for pair in order:
        new_noise = spent_noise + noises[pair] ** power
        cost = unit_std_error * (new_noise ** (1 / power) - spent_noise ** (1 / power))
        if gains[pair] > cost:
            chosen.append(pairs[pair])
            spent_noise = new_noise
    return chosen
