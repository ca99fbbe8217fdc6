"""How much a model gains by being told a marginal: the same for every way of choosing marginals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from skdp.synthesis.model import Clique, Groups, estimate_total, group
from skdp.synthesis.selection._fit import one_way_counts
from skdp.synthesis.selection._plan import Plan
from skdp.synthesis.selection._private_table import PrivateTable


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
