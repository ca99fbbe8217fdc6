"""What the strategies share: measuring columns, scoring marginals, and fitting a model to what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from skdp.oracles import project_to_simplex
from skdp.synthesis.model import (
    Clique,
    GraphicalModel,
    Groups,
    JunctionTree,
    Marginal,
    estimate_total,
    expand,
    fit_model,
    group,
    independent_start,
    merge,
    potentials_of,
)
from skdp.synthesis.selection._plan import FittedTable, Plan
from skdp.synthesis.selection._private_table import PrivateTable


def fit_table(
    sizes: Sequence[int],
    marginals: Sequence[Marginal],
    *,
    zeros: Sequence[tuple[Clique, NDArray[np.bool_]]] = (),
    max_iter: int = 300,
    start_from: FittedTable | None = None,
) -> FittedTable:
    """Fit a model to all that was measured."""
    # The descent starts at independent columns: what remains where little is known of their dependence.
    merged = merge(marginals)
    total, std_error = estimate_total(merged)
    cliques = [marginal.clique for marginal in merged] + [clique for clique, _ in zeros]
    tree = JunctionTree(sizes, cliques)
    start = None if start_from is None else _carry_over(start_from.model, tree)
    if start is None:
        start = independent_start(tree, [_share(column, size, merged, total) for column, size in enumerate(sizes)])
    for clique, impossible in zeros:
        place = tree.holder(clique)
        assert place is not None  # the tree was made for it
        start[place] = np.where(expand(impossible, clique, tree.cliques[place]), -np.inf, start[place])
    fit = fit_model(tree, merged, total, max_iter=max_iter, start=start)
    return FittedTable(fit.model, total, std_error, fit.losses)


def fit_measured(
    table: PrivateTable, plan: Plan, *, max_iter: int | None = None, start_from: FittedTable | None = None
) -> FittedTable:
    """Fit a model to all that was measured of a table so far."""
    steps = plan.max_iter if max_iter is None else max_iter
    return fit_table(plan.sizes, table.marginals, zeros=plan.zeros, max_iter=steps, start_from=start_from)


def _carry_over(model: GraphicalModel, tree: JunctionTree) -> list[NDArray[np.float64]] | None:
    """Return the potentials of a model on another tree, None if that takes too large tables."""
    # What was measured before is measured still, so the new tree holds every factor of the model: nothing is lost.
    try:
        carried = GraphicalModel(tree, [model.marginal(clique) for clique in tree.cliques])
    except ValueError:
        return None
    return potentials_of(carried)


def one_way_counts(column: int, size: int, marginals: Sequence[Marginal], total: float) -> NDArray[np.float64]:
    """Estimate the counts of one column: not negative, and adding up to the total."""
    found = _most_precise(column, marginals)
    return np.full(size, total / size) if found is None else project_to_simplex(found[0], total)


def _share(column: int, size: int, marginals: Sequence[Marginal], total: float) -> NDArray[np.float64]:
    """Estimate the distribution of a column, positive everywhere."""
    found = _most_precise(column, marginals)
    counts = one_way_counts(column, size, marginals, total) + (1.0 if found is None else found[1])
    return counts / counts.sum()


def _most_precise(column: int, marginals: Sequence[Marginal]) -> tuple[NDArray[np.float64], float] | None:
    """Return the counts of a column with the least noise, and its standard deviation."""
    best: tuple[NDArray[np.float64], float] | None = None
    for marginal in marginals:
        if column not in marginal.clique:
            continue
        axis = marginal.clique.index(column)
        if marginal.groups is not None and marginal.groups[axis] is not None:
            continue
        others = tuple(other for other in range(len(marginal.clique)) if other != axis)
        summed = marginal.counts.sum(axis=others)
        error = marginal.std_error * (marginal.counts.size / summed.size) ** 0.5
        if best is None or error < best[1]:
            best = summed, error
    return best


def measure_columns(
    table: PrivateTable, plan: Plan, share: Fraction, *, equal: bool = False
) -> list[NDArray[np.float64]]:
    """Measure each column by itself."""
    weights = [1] * len(plan.sizes) if equal else plan.sizes
    for column, part in enumerate(table.budget.best_shares(weights, share)):
        table.measure((column,), part)
    total, _ = estimate_total(table.marginals)
    return [one_way_counts(column, size, table.marginals, total) for column, size in enumerate(plan.sizes)]


def score_marginals(
    table: PrivateTable,
    cliques: Sequence[Clique],
    counts: Sequence[NDArray[np.float64]],
    share: Fraction,
    groups: Groups | None = None,
) -> NDArray[np.float64]:
    """Return twice the number of records misplaced if the columns were independent."""
    groups = groups or (None,) * len(counts)
    total = max(1.0, float(counts[0].sum()))
    rough = [group(count, (members,)) for count, members in zip(counts, groups, strict=True)]
    guesses = (
        reduce(lambda guess, count: np.multiply.outer(guess, count) / total, (rough[column] for column in clique))
        for clique in cliques
    )
    return table.score(cliques, guesses, share, groups)


def by_workload(gains: NDArray[np.float64], weights: Mapping[Clique, int]) -> dict[Clique, float]:
    """Weigh gains by how many marginals of the workload they are for."""
    largest = max(weights.values(), default=1)
    return {
        clique: float(gain) * weight / largest for (clique, weight), gain in zip(weights.items(), gains, strict=True)
    }
