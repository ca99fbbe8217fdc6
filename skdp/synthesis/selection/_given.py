"""Measuring marginals that are known beforehand."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from skdp.synthesis.model import Clique
from skdp.synthesis.selection._fit import FittedTable, fit_measured
from skdp.synthesis.selection._plan import Plan
from skdp.synthesis.selection._private_table import PrivateTable


def measure_cliques(table: PrivateTable, plan: Plan, cliques: Sequence[Clique]) -> FittedTable:
    """Measure marginals, each with the same share of the budget, so that all counts have the same noise."""
    share = table.budget.left * Fraction(1, len(cliques))
    table.prepare(cliques)
    for clique in cliques:
        table.measure(clique, share)
    return fit_measured(table, plan)


def measure_independent(table: PrivateTable, plan: Plan) -> FittedTable:
    """Measure each column by itself."""
    return measure_cliques(table, plan, [(column,) for column in range(len(plan.sizes))])


def measure_full(table: PrivateTable, plan: Plan) -> FittedTable:
    """Measure the whole table, every combination of values."""
    return measure_cliques(table, plan, [tuple(range(len(plan.sizes)))])
