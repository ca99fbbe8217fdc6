"""Selection of the pairs of columns to measure: pairs whose expected gain exceeds the cost of their noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from skdp.synthesis.columns._counts import Cross, NoisyCounts, PrivateColumns
from skdp.synthesis.selection import group_rare_values

# benchmarks/synthesis_columns.py shows the effect of half and twice of each constant.
COLUMN_FRACTION = Fraction(1, 20)
"""Fraction of the budget for the first counts of single columns."""

SCORE_FRACTION = Fraction(1, 20)
"""Fraction of the budget for the scores of pairs."""

NOISE_COST = 0.65
"""Cost of a noisy cell, in standard deviations."""


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
    """Spend the budget on single columns and on the pairs that gain most; singles come first."""
    singles = []
    for column in range(len(layout.private_sizes)):
        singles.append(Cross((column,), layout.values_of(column)))
    # The noise of a single column is also in all its pairs that are not measured.
    weights = [layout.n_columns * _noise_of(columns, cross) for cross in singles]
    first = _spend(columns, singles, weights, COLUMN_FRACTION, [])
    shares = [estimate_shares(counts) for counts in first]
    pairs = _list_pairs(columns, layout, shares)
    chosen = _choose(columns, pairs, _estimate_gains(columns, pairs, shares), weights)
    crosses = [*singles, *chosen]
    for cross in chosen:
        weights.append(_noise_of(columns, cross))
    return _spend(columns, crosses, weights, columns.budget.left, first)


def estimate_shares(noisy: NoisyCounts) -> NDArray[np.float64]:
    """Estimate the positive shares of the values of a single column."""
    # A value with a negative noisy count may still occur.
    counts = np.maximum(noisy.counts[0], noisy.std_error / 4)
    return np.asarray(counts / counts.sum())


def _spend(
    columns: PrivateColumns,
    crosses: Sequence[Cross],
    weights: Sequence[float],
    share: Fraction,
    earlier: Sequence[NoisyCounts],
) -> list[NoisyCounts]:
    """Measure tables with the smallest weighted sum of the errors of their cells; average with earlier counts."""
    measured: list[NoisyCounts] = []
    parts = columns.budget.allocate(weights, share)
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
    columns: PrivateColumns, layout: ColumnLayout, shares: Sequence[NDArray]
) -> list[Cross]:
    """List all pairs with a private column, with groups of rare values."""
    noise = columns.budget.std_error(columns.budget.left / (2 * layout.n_columns))

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
    for column_shares, ordered in zip(shares, layout.private_ordered, strict=True):
        groups.append(group(column_shares * columns.n_rows, ordered=ordered))
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
    columns: PrivateColumns, pairs: Sequence[Cross], shares: Sequence[NDArray]
) -> list[float]:
    """Estimate the L1 distance of each pair of columns from independence, in records, from noisy scores."""
    expected = []
    for cross in pairs:
        joint = np.ones(1)
        for column in range(len(shares)):
            joint = np.multiply.outer(joint, shares[column]).ravel()
        expected.append(np.bincount(cross.value_of, joint, cross.n_values))
    return columns.score(pairs, SCORE_FRACTION, expected).tolist() if pairs else []


def _choose(
    columns: PrivateColumns,
    pairs: Sequence[Cross],
    gains: Sequence[float],
    single_weights: Sequence[float],
) -> list[Cross]:
    """Choose pairs by the ratio of gain to noise, while the gain exceeds the added noise of all other tables."""
    # If n tables share a budget for the smallest sum of errors, this sum is
    # sum(noise**power) ** (1 / power).
    power = columns.budget.cost_power
    unit = columns.budget.std_error(columns.budget.left)
    noises = [NOISE_COST * _noise_of(columns, cross) for cross in pairs]
    spent = math.fsum((NOISE_COST * weight) ** power for weight in single_weights)
    order = sorted(range(len(pairs)), key=lambda i: gains[i] / noises[i], reverse=True)
    chosen = []
    for place in order:
        spent_with = spent + noises[place] ** power
        cost = unit * (spent_with ** (1 / power) - spent ** (1 / power))
        if gains[place] > cost:
            chosen.append(pairs[place])
            spent = spent_with
    return chosen
