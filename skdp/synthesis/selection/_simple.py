"""The plain strategies: marginals that are known beforehand, and a tree of pairs that links all columns once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import DisjointSet

from skdp.synthesis.model import Clique
from skdp.synthesis.selection._fit import by_workload, fit_measured, measure_columns, score_marginals
from skdp.synthesis.selection._plan import FittedTable, Plan, Strategy
from skdp.synthesis.selection._private_table import PrivateTable

_ONE_WAY = Fraction(1, 5)
_SCORES = Fraction(1, 10)


def given(cliques: Sequence[Clique]) -> Strategy:
    """Return the strategy that measures given marginals."""
    return _certain(lambda plan: cliques, "within none of the given ones")


def _certain(certain: Callable[[Plan], Collection[Clique]], beyond: str) -> Strategy:
    """Measure marginals, each with the same share of the budget, so that all counts have the same noise."""

    def measure(table: PrivateTable, plan: Plan) -> FittedTable:
        cliques = certain(plan)
        share = table.budget.left * Fraction(1, len(cliques))
        table.prepare(list(cliques))
        for clique in cliques:
            table.measure(clique, share)
        return fit_measured(table, plan)

    return Strategy(measure=measure, certain=certain, beyond=beyond)


INDEPENDENT = _certain(
    lambda plan: [(column,) for column in range(len(plan.sizes))],
    "marginals='independent' measures single columns only",
)
FULL = _certain(lambda plan: [tuple(range(len(plan.sizes)))], "")


def measure_tree(table: PrivateTable, plan: Plan) -> FittedTable:
    """Measure the columns, and the pairs of a tree of the largest dependence."""
    # A fifth of the budget is for the columns, a tenth for noisy distances of all pairs from independence, the rest for
    # a maximum spanning tree of these scores ([1]_ draws edge by edge with the exponential mechanism instead).
    # .. [1] R. McKenna, G. Miklau, D. Sheldon (2021). Winning the NIST contest: a scalable and general approach to
    #    differentially private synthetic data. Journal of Privacy and Confidentiality 11(3).
    weights = plan.candidates(2)
    if not weights:
        measure_columns(table, plan, Fraction(1))
        return fit_measured(table, plan)
    counts = measure_columns(table, plan, _ONE_WAY)
    scores = by_workload(score_marginals(table, list(weights), counts, _SCORES), weights)
    chosen = spanning_tree(list(scores), np.array(list(scores.values())), plan.fits if plan.zeros else None)
    if not chosen:  # none fits beside what cannot occur
        measure_columns(table, plan, table.budget.left)
        return fit_measured(table, plan)
    costs = [float(plan.n_cells(pair)) for pair in chosen]
    for pair, share in zip(chosen, table.budget.best_shares(costs, 1 - _ONE_WAY - _SCORES), strict=True):
        table.measure(pair, share)
    return fit_measured(table, plan)


def spanning_tree(
    pairs: list[Clique], scores: NDArray[np.float64], fits: Callable[[list[Clique]], bool] | None = None
) -> list[Clique]:
    """Take pairs of high scores that make no circle (Kruskal's algorithm)."""
    joined = DisjointSet(column for pair in pairs for column in pair)
    chosen: list[Clique] = []
    for place in np.argsort(-scores, kind="stable"):
        first, second = pairs[place]
        if joined.connected(first, second) or (fits and not fits([*chosen, pairs[place]])):
            continue
        joined.merge(first, second)
        chosen.append(pairs[place])
    return chosen


TREE = Strategy(
    measure=measure_tree,
    most_columns=2,
    beyond="marginals='tree' measures pairs only",
    not_chosen="not in the tree, which links all columns by as few pairs as it can",
)
