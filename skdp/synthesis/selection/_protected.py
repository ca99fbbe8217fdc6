"""Noisy counts of protected columns beside public ones, whose own counts are exact."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from skdp.randomness import ByteSource
from skdp.synthesis.model import (
    MOST_EVEN,
    Clique,
    Groups,
    Marginal,
    group,
    merge,
    n_cells_of,
    positive_shares,
    shape_of,
)
from skdp.synthesis.selection._auto import Choice
from skdp.synthesis.selection._following import Cells
from skdp.synthesis.selection._private_table import (
    LEAST_ERROR,
    NoiseBudget,
    PrivateTable,
)
from skdp.synthesis.selection._rare_values import group_column
from skdp.synthesis.selection._scores import LEAST_SCORES, MOST_SCORES, Score
from skdp.synthesis.selection._strategy import COLUMN_SHARE, Plan, Strategy
from skdp.synthesis.tables import Records

_SCORE_ERROR = 0.01
"""The error of a score, as a share of all records, above which it gets more than the least share."""

_LARGEST_ERROR = 0.1
"""The error of a score, as a share of all records, above which it says nothing."""


class ProtectedTable(PrivateTable):
    """A table of which some columns are protected, and all others are public."""

    # Neighbours have other values of the protected columns in one record, which leaves
    # one cell for another: both have the same public values. So the sum over all
    # protected values of a public cell is public, and of two values one is counted
    # alone: it changes by 1. Otherwise the noise is moved such that these sums are
    # right, which leaves 1 - 1 / q of its variance for q values.

    def __init__(
        self,
        records: Records,
        sizes: Sequence[int],
        budget: NoiseBudget,
        source: ByteSource,
        protected: Collection[int],
    ) -> None:
        super().__init__(records, sizes, budget, source)
        self.protected = tuple(protected)
        (counts,) = records.count([(0,)])
        self.n_records = int(counts.sum())

    def measure(
        self, clique: Clique, share: Fraction, groups: Groups | None = None
    ) -> Marginal:
        """Count a marginal with noise, as far as it is not public."""
        (exact,) = self._records.count([clique])
        exact = group(exact, groups)
        axes = [axis for axis, name in enumerate(clique) if name in self.protected]
        last = range(-len(axes), 0)
        cells = np.moveaxis(exact, axes, last)
        n_values = math.prod(cells.shape[axis] for axis in last)
        # A row for each public cell, a column for each combination of protected values.
        counts = cells.reshape(-1, n_values)
        totals = counts.sum(axis=1)
        if n_values == 2:
            first = self.budget.counts(self._source, share, counts[:, 0], n_cells=1)
            noisy = np.stack([first, totals - first], axis=1)
            error = self.budget.std_error(share, n_cells=1)
        else:
            noisy = self.budget.counts(self._source, share, counts)
            excess = (noisy.sum(axis=1) - totals) / n_values
            noisy = noisy - excess[:, np.newaxis]
            error = self.budget.std_error(share) * math.sqrt(1 - 1 / n_values)
        noisy = np.moveaxis(noisy.reshape(cells.shape), last, axes)
        marginal = Marginal(clique, noisy, max(error, LEAST_ERROR), groups)
        self.marginals.append(marginal)
        return marginal

    def shares_of(self, column: int) -> NDArray[np.float64]:
        """Return the distribution of a column: exact if it is public, else noisy."""
        (counts,) = self._records.count([(column,)])
        if column not in self.protected:
            return np.asarray(counts / max(1, counts.sum()))
        noisy = [
            marginal for marginal in self.marginals if marginal.clique == (column,)
        ]
        return positive_shares(merge(noisy)[0])


def with_protected(plan: Plan, protected: Collection[int]) -> Plan:
    """Leave the marginals of public columns out of a plan: they are known."""
    workload = []
    for clique in plan.workload:
        if not set(clique).isdisjoint(protected):
            workload.append(clique)
    if plan.workload and not workload:
        raise ValueError(
            "workload must name a column of protect: all others are public"
        )
    n_values = math.prod(shape_of(protected, plan.sizes))
    if n_values > MOST_EVEN:
        raise ValueError(
            f"the columns of protect have {n_values:,} combinations of values; at most "
            f"{MOST_EVEN:,} are modelled. Protect fewer, or declare coarser bins"
        )
    return replace(plan, workload=tuple(workload))


def measure_protected(
    table: ProtectedTable, plan: Plan, strategy: Strategy
) -> dict[Clique, tuple[float, float]]:
    """Spend the budget on marginals with protected columns; return the noisy scores."""
    singles: list[Clique] = [(column,) for column in table.protected]
    further = []
    for clique in strategy.candidates(plan):
        if len(clique) > 1 and not set(clique).isdisjoint(table.protected):
            further.append(clique)
    scores: dict[Clique, Score] = {}
    groups: dict[int, NDArray[np.intp]] = {}
    sizes = plan.sizes
    chosen = further
    # Noise of a single column is in all its pairs that are not measured, too.
    weights = {}
    for clique in singles:
        weights[clique] = plan.n_cells(clique) * len(plan.sizes)
    if further and not strategy.is_certain:
        _spend(table, weights, COLUMN_SHARE, groups)
        groups = _group_values(table, plan)
        sizes = _sizes_of(plan, groups)
        scores = _score(table, further)
        chosen = _choose(table, replace(plan, sizes=sizes), scores, weights)
    for clique in chosen:
        weights[clique] = n_cells_of(clique, sizes)
    _spend(table, weights, table.budget.left, groups)
    return {clique: (score.noisy, score.std_error) for clique, score in scores.items()}


def _spend(
    table: ProtectedTable,
    weights: Mapping[Clique, int],
    share: Fraction,
    groups: Mapping[int, NDArray[np.intp]],
) -> None:
    """Measure marginals with the least weighted sum of the errors of their cells."""
    shares = table.budget.best_shares(list(weights.values()), share)
    for clique, part in zip(weights, shares, strict=True):
        groups_of_clique = tuple(groups.get(column) for column in clique)
        is_grouped = len(clique) > 1 and not groups.keys().isdisjoint(clique)
        table.measure(clique, part, groups_of_clique if is_grouped else None)


def _group_values(table: ProtectedTable, plan: Plan) -> dict[int, NDArray[np.intp]]:
    """Group values of protected columns that are rare against the noise of pairs."""
    noise = table.budget.std_error(table.budget.left / (2 * len(plan.sizes)))
    n_records = max(1, table.n_records)
    groups = {}
    for column in table.protected:
        counts = table.shares_of(column) * n_records
        ordered = plan.ordered[column]
        members = group_column(counts, n_records, noise, ordered=ordered)
        if members is not None and 1 < members.max() + 1 < counts.size:
            groups[column] = members
    return groups


def _sizes_of(plan: Plan, groups: Mapping[int, NDArray[np.intp]]) -> tuple[int, ...]:
    sizes = list(plan.sizes)
    for column, members in groups.items():
        sizes[column] = int(members.max()) + 1
    return tuple(sizes)


def _score(table: ProtectedTable, cliques: Sequence[Clique]) -> dict[Clique, Score]:
    """Measure how far marginals are from independent columns; none if noise hides it."""
    # The number of records is public. A share that is k times as large has errors that
    # are smaller by k to the power of the budget.
    columns = sorted(set[int]().union(*cliques))
    shares = {column: table.shares_of(column) for column in columns}
    n_records = max(1, table.n_records)
    relative_error = table.budget.score_error(LEAST_SCORES, len(cliques)) / n_records
    factor = (relative_error / _SCORE_ERROR) ** (1 / float(table.budget.power))
    most = float(MOST_SCORES / LEAST_SCORES)
    share = LEAST_SCORES * Fraction(min(most, max(1.0, factor)))
    error = table.budget.score_error(share, len(cliques))
    if error > _LARGEST_ERROR * n_records:
        return {}
    guesses = []
    for clique in cliques:
        factors = [shares[column] for column in clique]
        guesses.append(n_records * reduce(np.multiply.outer, factors))
    no_groups = (None,) * len(table.sizes)
    noisy = table.score(cliques, guesses, share, no_groups)
    scores = [Score(value, error) for value in noisy.tolist()]
    return dict(zip(cliques, scores, strict=True))


def _choose(
    table: ProtectedTable,
    plan: Plan,
    scores: Mapping[Clique, Score],
    weights: Mapping[Clique, int],
) -> list[Clique]:
    """Choose what gains more than its noise costs all that share the budget."""
    gains = {clique: score.gain for clique, score in scores.items()}
    cells = Cells(plan.sizes, (None,) * len(plan.sizes))
    # Costs are to this power less 1: the order is that of the gain for each cell.
    order = 1 + float(table.budget.power)
    share = table.budget.left
    costs = list(weights.values())
    choice = Choice(
        table, plan, gains, cells, share, costs, order=order, weigh=_weigh_equally
    )
    return choice.chosen


def _weigh_equally(clique: Clique, plan: Plan) -> float:
    """Weigh the errors of all marginals alike."""
    return 1.0
