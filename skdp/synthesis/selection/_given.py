"""Measuring marginals that are known beforehand."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from fractions import Fraction

from skdp.synthesis.model import Clique
from skdp.synthesis.selection._fit import FittedTable, fit_measured
from skdp.synthesis.selection._plan import Plan
from skdp.synthesis.selection._private_table import PrivateTable
from skdp.synthesis.selection._strategy import Strategy


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
