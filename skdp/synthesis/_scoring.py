"""How much a model gains by being told a marginal: the same for every way of choosing marginals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from skdp.synthesis._fitted import one_way_counts
from skdp.synthesis._junction_tree import Clique
from skdp.synthesis._marginal import Groups, estimate_total, group
from skdp.synthesis._plan import Plan
from skdp.synthesis._private_table import PrivateTable


def measure_columns(
    table: PrivateTable, plan: Plan, share: Fraction, *, equal: bool = False
) -> list[NDArray[np.float64]]:
    """Measure each column by itself.

    Parameters
    ----------
    table : PrivateTable
        The table.
    plan : Plan
        Sizes.
    share : Fraction
        What all of them may cost.
    equal : bool, default=False
        Whether all counts get the same noise; otherwise columns of many values get less, for the least sum of errors.
        Where the noise is larger than the counts of these, that would be in vain.

    Returns
    -------
    list of ndarray
        Estimates of each column's counts, not negative; all columns have the same total.
    """
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
    """Measure how many records are misplaced, counted twice, where the columns of a marginal are taken as independent.

    Parameters
    ----------
    table : PrivateTable
        The table.
    cliques : sequence of tuple of int
        The candidates, of two columns or more.
    counts : sequence of ndarray
        Estimates of each column's counts.
    share : Fraction
        What all scores together may cost.
    groups : tuple of (ndarray of int or None), optional
        For each column, values that are counted together.

    Returns
    -------
    ndarray of float64, shape (n_cliques,)
        The L1 distances with noise.
    """
    groups = groups or (None,) * len(counts)
    total = max(1.0, float(counts[0].sum()))
    rough = [group(count, (members,)) for count, members in zip(counts, groups, strict=True)]
    guesses = (
        reduce(lambda guess, count: np.multiply.outer(guess, count) / total, (rough[column] for column in clique))
        for clique in cliques
    )
    return table.score(cliques, guesses, share, groups)


def by_workload(gains: NDArray[np.float64], weights: Mapping[Clique, int]) -> dict[Clique, float]:
    """Weigh gains by how many marginals of the workload they are for.

    Parameters
    ----------
    gains : ndarray of shape (n_cliques,)
        In the order of the weights.
    weights : mapping of tuple of int to int
        Positive.

    Returns
    -------
    dict of tuple of int to float
        The gains, those of the largest weight as they were.
    """
    largest = max(weights.values(), default=1)
    return {
        clique: float(gain) * weight / largest for (clique, weight), gain in zip(weights.items(), gains, strict=True)
    }
