"""Noisy counts of private columns by the values of public columns, and the choice of pairs to count."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from skdp.randomness import ByteSource
from skdp.synthesis.selection import (
    MIN_STD_ERROR,
    NoiseBudget,
    Sensitivity,
    group_rare_values,
)

Codes = NDArray[np.integer]

# benchmarks/synthesis_columns.py shows the effect of half and twice of each constant.
STEP_FRACTION = Fraction(1, 20)
"""Fraction of the budget for the first counts of columns, and as much for the scores of pairs."""

NOISE_COST = 0.65
"""Cost of a noisy cell, in standard deviations."""


@dataclass(frozen=True, eq=False)
class Cross:
    """Private values crossed with public cells."""

    private: tuple[int, ...]
    """Positions of one or two private columns."""
    value_of: NDArray[np.intp]
    """The value, or group of rare values, of each combination of all private columns."""
    public: int | None = None
    """Position of a public column."""
    cell_of: NDArray[np.intp] | None = None
    """The cell, or group of rare cells, of each code of the public column."""

    @property
    def is_single(self) -> bool:
        """True for a single private column without a public one."""
        return self.public is None and len(self.private) == 1

    @property
    def n_values(self) -> int:
        """Number of private values."""
        return int(self.value_of.max()) + 1

    @property
    def n_cells(self) -> int:
        """Number of public cells."""
        return 1 if self.cell_of is None else int(self.cell_of.max()) + 1

    def cells_of(self, public: Sequence[Codes], n_rows: int) -> NDArray[np.intp]:
        """Return the public cell of each row."""
        if self.public is None or self.cell_of is None:
            return np.zeros(n_rows, np.intp)
        return self.cell_of[public[self.public]]


@dataclass(frozen=True, eq=False)
class NoisyCounts:
    """Noisy counts of shape (n_cells, n_values)."""

    cross: Cross
    counts: NDArray[np.float64]
    std_error: float

    def average(self, other: NoisyCounts) -> NoisyCounts:
        """Return the average with a second measurement, weighted by precision."""
        weight = self.std_error**-2
        other_weight = other.std_error**-2
        total = weight + other_weight
        counts = (weight * self.counts + other_weight * other.counts) / total
        return NoisyCounts(self.cross, counts, total**-0.5)

    def group(self, cross: Cross) -> NDArray[np.float64]:
        """Return the counts of a single column by the groups of values of another table."""
        group_of = np.zeros(self.cross.n_values, np.intp)
        group_of[self.cross.value_of] = cross.value_of
        return np.bincount(group_of, self.counts[0], cross.n_values).astype(float)


@dataclass(frozen=True)
class _Form:
    """The numbers of a table that are counted with noise."""

    # The sums over private values, the number of records of each public cell, are public. With two values, only one of
    # them is counted. With q > 2 values, the noise is projected so that the sums are exact, which leaves 1 - 1 / q of
    # its variance.
    #
    # Centered numbers are K N - S for counts N of a cell and their sum S over all K
    # public cells. S is the single private column, which is counted once, with little
    # noise, for all its tables. Another value changes centered numbers by K - 1 in its
    # cell and by 1 in all other cells: by K (K - 1) in squared L2 norm. They sum to 0, so
    # 1 - 1 / K of the variance of the noise is left; with two cells, one is counted.

    n_cells: int
    """Public cells with records."""
    n_values: int
    is_centered: bool

    @property
    def n_counted_values(self) -> int:
        """The number of values that are counted in each cell."""
        return 1 if self.n_values == 2 else self.n_values

    @property
    def n_counted_cells(self) -> int:
        """The number of cells that are counted."""
        return 1 if self.is_centered and self.n_cells == 2 else self.n_cells

    @property
    def sensitivity(self) -> Sensitivity:
        """The sensitivity of the counted numbers to another value of a record."""
        n_changed = min(2, self.n_counted_values)
        if not self.is_centered or self.n_cells == 2:
            return Sensitivity(n_changed, n_changed)
        n_others = self.n_cells - 1
        return Sensitivity(
            2 * n_others * n_changed, self.n_cells * n_others * n_changed
        )

    @property
    def noise_left(self) -> float:
        """The standard deviation of each completed count, relative to the noise."""
        left = 1 - 1 / self.n_values if self.n_values != 2 else 1.0
        if self.is_centered:
            left /= self.n_cells**2
            if self.n_cells > 2:
                left *= 1 - 1 / self.n_cells
        return math.sqrt(left)

    def center(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the numbers of all cells with records: (n_cells, n_values)."""
        if not self.is_centered:
            return counts
        return np.asarray(self.n_cells * counts - counts.sum(axis=0))

    def complete(
        self, noisy: NDArray[np.float64], sums: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Return the noisy numbers of all cells and values, given their sums over values."""
        if self.is_centered and self.n_cells == 2:
            noisy = np.concatenate([noisy, -noisy])
        elif self.is_centered:
            noisy = noisy - noisy.mean(axis=0)
        if self.n_values == 2:
            return np.concatenate([noisy, sums - noisy], axis=1)
        return np.asarray(
            noisy - (noisy.sum(axis=1, keepdims=True) - sums) / self.n_values
        )


class PrivateColumns:
    """Exact codes of private columns; only noisy counts and noisy scores leave this object."""

    # Neighbors differ in the private values of one record, which moves it between two
    # cells of a table with the same public values.

    def __init__(
        self,
        combinations: NDArray[np.intp],
        public: Sequence[Codes],
        budget: NoiseBudget,
        source: ByteSource,
    ) -> None:
        self._combinations = combinations
        self._source = source
        self.public = public
        self.budget = budget

    @property
    def n_rows(self) -> int:
        """The number of records, which is public."""
        return self._combinations.size

    def count_cells(self, cross: Cross) -> NDArray[np.int64]:
        """Count the records of each public cell, exactly."""
        cells = cross.cells_of(self.public, self.n_rows)
        return np.bincount(cells, minlength=cross.n_cells).astype(np.int64)

    def _count(self, cross: Cross) -> NDArray[np.int64]:
        """Count exactly: (n_cells, n_values)."""
        shape = cross.n_cells, cross.n_values
        cells = cross.cells_of(self.public, self.n_rows)
        index = cells * shape[1] + cross.value_of[self._combinations]
        counts = np.bincount(index, minlength=shape[0] * shape[1])
        return counts.reshape(shape).astype(np.int64)

    def _form(self, cross: Cross) -> _Form:
        """Return the numbers that are counted with noise."""
        n_cells = int((self.count_cells(cross) > 0).sum())
        # With more than two cells, centered numbers need more Laplace noise than counts.
        is_gaussian = self.budget.is_gaussian
        is_centered = n_cells == 2 or (n_cells > 2 and is_gaussian)
        return _Form(n_cells, cross.n_values, is_centered)

    def error(self, cross: Cross, fraction: Fraction) -> float:
        """Return the standard deviation of each count, measured with a fraction of the budget."""
        form = self._form(cross)
        error = self.budget.std_error(fraction, form.sensitivity) * form.noise_left
        return max(MIN_STD_ERROR, error)

    def measure(
        self, cross: Cross, fraction: Fraction, single: NoisyCounts | None = None
    ) -> NoisyCounts:
        """Measure a table of counts with a fraction of the budget; `single` has the counts of its private column."""
        form = self._form(cross)
        exact = self._count(cross)
        has_records = exact.sum(axis=1) > 0  # other cells have no noise
        numbers = form.center(exact[has_records])
        counted = numbers[: form.n_counted_cells, : form.n_counted_values]
        noisy = self.budget.add_to_counts(
            self._source, counted, fraction, form.sensitivity
        )
        noisy = form.complete(noisy, numbers.sum(axis=1, keepdims=True))
        if form.is_centered and single is not None:
            noisy = (noisy + single.group(cross)) / form.n_cells
        table = np.zeros(exact.shape)
        table[has_records] = noisy
        return NoisyCounts(cross, table, self.error(cross, fraction))

    def score(
        self,
        crosses: Sequence[Cross],
        fraction: Fraction,
        proportions: Sequence[NDArray],
    ) -> NDArray[np.float64]:
        """Measure the L1 distances of tables from independent columns with a fraction of the budget.

        `proportions` are the estimated proportions of the private values of each table.
        """
        # Another value moves a record between two cells, which changes a distance by
        # at most 2.
        distances = []
        for cross, of_values in zip(crosses, proportions, strict=True):
            expected = np.outer(self.count_cells(cross), of_values)
            guess = np.rint(expected).astype(np.int64)
            distances.append(int(np.abs(self._count(cross) - guess).sum()))
        exact = np.array(distances, np.int64)
        return self.budget.add_to_scores(self._source, exact, fraction, change=2)


@dataclass(frozen=True)
class ColumnLayout:
    """Sizes of columns, and whether their values have an order."""

    private_sizes: tuple[int, ...]
    private_ordered: tuple[bool, ...]
    public_sizes: tuple[int, ...]
    """Numbers of declared values; one code more stands for all other values."""
    public_ordered: tuple[bool, ...]

    @property
    def n_columns(self) -> int:
        """The number of all columns."""
        return len(self.private_sizes) + len(self.public_sizes)

    def values_of(self, *private: int) -> NDArray[np.intp]:
        """Return the value of one or two private columns in each combination of all of them."""
        values = np.indices(self.private_sizes).reshape(len(self.private_sizes), -1)
        sizes = [self.private_sizes[column] for column in private]
        chosen = tuple(values[column] for column in private)
        return np.asarray(np.ravel_multi_index(chosen, sizes), np.intp)


def measure_columns(columns: PrivateColumns, layout: ColumnLayout) -> list[NoisyCounts]:
    """Measure single columns, and then the pairs with the largest gains."""
    singles = []
    for column in range(len(layout.private_sizes)):
        singles.append(Cross((column,), layout.values_of(column)))
    # The noise of a single column is also in all its pairs that are not measured.
    weights = [layout.n_columns * _noise_of(columns, cross) for cross in singles]
    first = _spend(columns, singles, weights, STEP_FRACTION, [])
    proportions = [estimate_proportions(counts) for counts in first]
    pairs = _list_pairs(columns, layout, proportions)
    chosen = _choose(
        columns, pairs, _estimate_gains(columns, pairs, proportions), weights
    )
    crosses = [*singles, *chosen]
    for cross in chosen:
        weights.append(_noise_of(columns, cross))
    return _spend(columns, crosses, weights, columns.budget.remaining, first)


def estimate_proportions(noisy: NoisyCounts) -> NDArray[np.float64]:
    """Estimate the positive proportions of the values of a single column."""
    # A value with a negative noisy count may still occur.
    counts = np.maximum(noisy.counts[0], noisy.std_error / 4)
    return np.asarray(counts / counts.sum())


def _spend(
    columns: PrivateColumns,
    crosses: Sequence[Cross],
    weights: Sequence[float],
    fraction: Fraction,
    earlier: Sequence[NoisyCounts],
) -> list[NoisyCounts]:
    """Measure tables with the smallest weighted sum of the errors of their cells; average with earlier counts."""
    measured: list[NoisyCounts] = []
    parts = columns.budget.allocate(weights, fraction)
    for index, (cross, part) in enumerate(zip(crosses, parts, strict=True)):
        single = None if cross.public is None else measured[cross.private[0]]
        counts = columns.measure(cross, part, single)
        if index < len(earlier):
            counts = counts.average(earlier[index])
        measured.append(counts)
    return measured


def _noise_of(columns: PrivateColumns, cross: Cross) -> float:
    """Return the sum of the standard deviations of all cells, relative to one count."""
    n_cells = int((columns.count_cells(cross) > 0).sum()) * cross.n_values
    unit = columns.budget.std_error(Fraction(1))
    return max(1, n_cells) * columns.error(cross, Fraction(1)) / unit


def _list_pairs(
    columns: PrivateColumns, layout: ColumnLayout, proportions: Sequence[NDArray]
) -> list[Cross]:
    """List all pairs with a private column, with groups of rare values."""
    noise = columns.budget.std_error(columns.budget.remaining / (2 * layout.n_columns))

    def group(counts: NDArray[np.float64], *, ordered: bool) -> NDArray[np.intp]:
        groups = group_rare_values(
            counts,
            ordered,
            noise,
            n_records=columns.n_rows,
        )
        if groups is None or groups.max() == 0:
            return np.arange(counts.size)
        return groups

    groups = []
    for column_proportions, ordered in zip(
        proportions, layout.private_ordered, strict=True
    ):
        groups.append(group(column_proportions * columns.n_rows, ordered=ordered))
    pairs = []
    for public, size in enumerate(layout.public_sizes):
        counts = np.bincount(columns.public[public], minlength=size + 1)
        ordered = layout.public_ordered[public]
        cells = group(counts[:size].astype(float), ordered=ordered)
        cell_of = np.append(cells, cells.max() + 1)  # all other values
        for private, members in enumerate(groups):
            value_of = members[layout.values_of(private)]
            pairs.append(Cross((private,), value_of, public, cell_of))
    for second in range(len(groups)):
        for first in range(second):
            n_values = int(groups[second].max()) + 1
            value_of = groups[first][layout.values_of(first)] * n_values
            value_of = value_of + groups[second][layout.values_of(second)]
            pairs.append(Cross((first, second), value_of))
    return pairs


def _estimate_gains(
    columns: PrivateColumns, pairs: Sequence[Cross], proportions: Sequence[NDArray]
) -> list[float]:
    """Estimate the L1 distance of each pair of columns from independence, in records, from noisy scores."""
    expected = []
    for cross in pairs:
        joint = np.ones(1)
        for column in range(len(proportions)):
            joint = np.multiply.outer(joint, proportions[column]).ravel()
        expected.append(np.bincount(cross.value_of, joint, cross.n_values))
    return columns.score(pairs, STEP_FRACTION, expected).tolist() if pairs else []


def _choose(
    columns: PrivateColumns,
    pairs: Sequence[Cross],
    gains: Sequence[float],
    single_weights: Sequence[float],
) -> list[Cross]:
    """Choose pairs by the ratio of gain to noise, while the gain exceeds the added noise of all other tables."""
    # If n tables divide a budget for the smallest sum of errors, this sum is
    # sum(noise**power) ** (1 / power).
    power = columns.budget.cost_power
    unit = columns.budget.std_error(columns.budget.remaining)
    noises = [NOISE_COST * _noise_of(columns, cross) for cross in pairs]
    spent = math.fsum((NOISE_COST * weight) ** power for weight in single_weights)
    order = sorted(range(len(pairs)), key=lambda i: gains[i] / noises[i], reverse=True)
    chosen = []
    for pair in order:
        spent_with = spent + noises[pair] ** power
        cost = unit * (spent_with ** (1 / power) - spent ** (1 / power))
        if gains[pair] > cost:
            chosen.append(pairs[pair])
            spent = spent_with
    return chosen
