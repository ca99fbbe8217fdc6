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

# The constants were chosen with benchmarks/synthesis_columns.py.
COLUMN_SHARE = Fraction(1, 20)
"""Fraction of the budget for the first counts of single columns."""

MIN_SCORE_SHARE, MAX_SCORE_SHARE = Fraction(1, 70), Fraction(1, 7)
"""Fractions of the budget for the scores of pairs."""

_TARGET_SCORE_ERROR = 0.01
"""Standard error of a score, as a fraction of the records, that needs no larger share."""

_MAX_SCORE_ERROR = 0.1
"""Standard error of a score, as a fraction of the records, above which scores are not used."""

_EXPECTED_GAIN = 0.5
"""Expected gain of a pair without scores, as a fraction of the records."""

_NOISE_COST = 0.65
"""Cost of a noisy cell, in standard deviations."""

_MAX_RARE_SHARE = 0.1
"""Largest fraction of the records of a value without order that is grouped as rare."""


_N_STEPS = 20
"""Number of EM steps: with few values, more steps fit the noise."""

_MIN_COUNT = 1e-6
"""Smallest count of a value, to avoid division by 0."""


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
    first = _spend(columns, singles, weights, COLUMN_SHARE, [])
    shares = [estimate_shares(counts) for counts in first]
    pairs = _list_pairs(columns, layout, shares)
    chosen = _choose(columns, pairs, _estimate_gains(columns, pairs, shares), weights)
    crosses = [*singles, *chosen]
    for cross in chosen:
        weights.append(_noise_of(columns, cross))
    return _spend(columns, crosses, weights, columns.budget.left, first)


def estimate_shares(noisy: NoisyCounts) -> NDArray[np.float64]:
    """Estimate the positive shares of the values of a single column."""
    counts = noisy.counts[0]
    rest = noisy.std_error / 4  # a value with a negative noisy count may still occur
    # Empirical Bayes needs several numbers; two counts with a known sum are one number.
    if counts.size > 2 and counts.sum() > 0:
        counts = _shrink_counts(counts, noisy.std_error)
        rest = 0.0
    counts = np.maximum(counts, max(rest, _MIN_COUNT))
    return np.asarray(counts / counts.sum())


def _shrink_counts(noisy: NDArray[np.float64], std_error: float) -> NDArray[np.float64]:
    """Return posterior means of counts, under the prior that maximizes the likelihood of the noisy counts."""
    # Nonparametric empirical Bayes ([1]_) by EM; the prior is discrete, on the noisy
    # counts and their mean.
    # .. [1] J. Kiefer, J. Wolfowitz (1956). Consistency of the maximum likelihood
    #    estimator in the presence of infinitely many incidental parameters. Annals of
    #    Mathematical Statistics 27(4).
    support = np.append(np.unique(np.maximum(noisy, 0)), noisy.mean())
    logs = -(((noisy[:, np.newaxis] - support) / std_error) ** 2) / 2
    likelihood = np.exp(logs - logs.max(axis=1, keepdims=True))
    weights = np.full(support.size, 1 / support.size)
    for _ in range(_N_STEPS):
        posterior = likelihood * weights
        posterior /= posterior.sum(axis=1, keepdims=True)
        weights = posterior.mean(axis=0)
    return np.asarray(posterior @ support)


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
            max_rare_share=_MAX_RARE_SHARE,
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
    # The number of records is public. A share that is k times as large has errors that
    # are smaller by k to the power of the budget.
    if not pairs:
        return []
    n_rows = columns.n_rows
    budget = columns.budget
    error = budget.score_error(MIN_SCORE_SHARE, len(pairs), change=2) / n_rows
    factor = (error / _TARGET_SCORE_ERROR) ** (1 / budget.error_power)
    largest = float(MAX_SCORE_SHARE / MIN_SCORE_SHARE)
    share = MIN_SCORE_SHARE * Fraction(min(largest, max(1.0, factor)))
    error = budget.score_error(share, len(pairs), change=2)
    if error > _MAX_SCORE_ERROR * n_rows:
        return [_EXPECTED_GAIN * n_rows] * len(pairs)
    expected = []
    for cross in pairs:
        joint = np.ones(1)
        for column in range(len(shares)):
            joint = np.multiply.outer(joint, shares[column]).ravel()
        expected.append(np.bincount(cross.value_of, joint, cross.n_values))
    scores = columns.score(pairs, share, expected)
    return _shrink(scores, error).tolist()


def _shrink(scores: NDArray[np.float64], error: float) -> NDArray[np.float64]:
    """Return the expected scores given the noisy ones (empirical Bayes, both normal)."""
    # Shrinkage corrects the bias of the largest noisy scores.
    if scores.size < 2:
        return scores
    variance = float(scores.var(ddof=1))
    signal = max(0.0, 1 - error**2 / variance) if variance else 0.0
    return scores.mean() + signal * (scores - scores.mean())


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
    noises = [_NOISE_COST * _noise_of(columns, cross) for cross in pairs]
    spent = math.fsum((_NOISE_COST * weight) ** power for weight in single_weights)
    order = sorted(range(len(pairs)), key=lambda i: gains[i] / noises[i], reverse=True)
    chosen = []
    for place in order:
        spent_with = spent + noises[place] ** power
        cost = unit * (spent_with ** (1 / power) - spent ** (1 / power))
        if gains[place] > cost:
            chosen.append(pairs[place])
            spent = spent_with
    return chosen
