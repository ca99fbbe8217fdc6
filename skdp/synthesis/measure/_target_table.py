"""One table of many columns, by groups of values, with the target, chosen by the predictions that it corrects."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction

import numpy as np

from skdp._arrays import Floats, Indices
from skdp.privacy import Split
from skdp.synthesis.measure._interactions import LEVELS
from skdp.synthesis.measure._plan import MarginalPlan
from skdp.synthesis.measure._private_counts import PrivateCounts
from skdp.synthesis.measure._rules import CLIQUES_PER_MODEL
from skdp.synthesis.model import (
    Clique,
    GraphicalModel,
    ValueGroups,
    estimate_total,
    group_values,
)

# Chosen on six tables at epsilon 1: artificial characters, phoneme, segment, penbased, marketing
# and COMPAS.
TABLE_PARTS = Split(
    rest="later", table=Fraction(2, 3), choice=Fraction(1, 32), score=Fraction(1, 64)
)
"""Parts of the remaining budget for the counts of a table, for its choice, and for the score of the chosen table."""

MIN_CORRECTED_ERRORS = 3
"""Smallest number of corrected predictions, in standard errors."""

MAX_TABLE_COLUMNS = 16
"""Largest number of columns of a table."""


def reserve_table(
    plan: MarginalPlan, counts: Sequence[Floats], gains: Mapping[Clique, float]
) -> dict[Clique, ValueGroups]:
    """Return the table of most columns with the target, and of these the one of most cells; or nothing.

    Pairs that fit into a model with it leave capacity for the tables that are listed later. `counts` are the counts of
    each column, and `gains` has the noisy scores of pairs.
    """
    assert plan.target is not None
    columns = rank_columns(plan, plan.target, gains)[:MAX_TABLE_COLUMNS]
    listed = [table for _, table in list_tables(plan, plan.target, counts, [columns])]
    if not listed:
        return {}
    n_groups = [count_groups(groups) for _, groups in listed]
    n_cells = [(len(sizes), math.prod(sizes)) for sizes in n_groups]
    clique, groups = listed[max(range(len(listed)), key=n_cells.__getitem__)]
    return {clique: groups}


def rank_columns(
    plan: MarginalPlan, target: int, gains: Mapping[Clique, float]
) -> list[int]:
    """Return the other columns than the target by the noisy scores of their pairs with it."""
    columns = [c for c in range(len(plan.sizes)) if c != target and plan.sizes[c] > 1]
    columns.sort(key=lambda c: -gains.get(tuple(sorted((c, target))), 0.0))
    return columns


def count_groups(groups: Sequence[Indices]) -> list[int]:
    """Count the groups of each column."""
    return [int(members.max()) + 1 for members in groups]


def measure_target_table(
    private: PrivateCounts,
    plan: MarginalPlan,
    *,
    model: GraphicalModel,
    gains: Mapping[Clique, float],
    measured: Sequence[Clique],
    found: Clique = (),
) -> dict[Clique, ValueGroups]:
    """Choose a table, and measure it if it corrects many predictions of a model; return it, or nothing.

    `gains` has the noisy scores of pairs, `measured` has the marginals of the model, and `found` the columns of a
    marginal that the model probably lacks.
    """
    target = plan.target
    assert target is not None
    total, _ = estimate_total(private.marginals)
    counts = [total * model.marginal(clique) for clique in plan.columns]
    columns = rank_columns(plan, target, gains)
    ranked = columns[:MAX_TABLE_COLUMNS], [c for c in columns if c in found]
    tables = []
    for clique, groups in dict(list_tables(plan, target, counts, ranked)).values():
        graph, refined = plan.start_elimination(measured, {clique: groups})
        largest = plan.max_cells
        if graph.add(refined[clique], largest, CLIQUES_PER_MODEL * largest):
            tables.append((clique, groups))
    if not tables:
        return {}
    fraction = private.noise.remaining
    # A prediction of the table counts where it exceeds the noise of its counts.
    std_error = private.noise.std_error(fraction * TABLE_PARTS.table)
    grouped = []
    for clique, groups in tables:
        members = zip(clique, groups, strict=True)
        grouped.append([part for part in members if part[0] != target])
    # With two values, errors of the rare value count as much as errors of the other one:
    # no table predicts a rare value as the more frequent one.
    weights = np.ones(plan.sizes[target])
    if weights.size == 2:
        # A constraint may exclude a value, whose count is then 0.
        likely = np.maximum(counts[target], 1.0)
        weights = likely.min() / likely
    threshold = math.ceil(std_error)
    scores = private.open_corrections(grouped, model, target, threshold, weights)
    expected = np.zeros(len(tables))
    index = scores.choose(range(len(tables)), expected, fraction * TABLE_PARTS.choice)
    corrected = scores.measure(index, fraction * TABLE_PARTS.score)
    sampling_error = math.sqrt(counts[target] @ weights**2)
    error = math.hypot(
        private.noise.std_error(fraction * TABLE_PARTS.score), sampling_error
    )
    if corrected < MIN_CORRECTED_ERRORS * error:
        return {}
    clique, groups = tables[index]
    chosen: dict[Clique, ValueGroups] = {clique: groups}
    private.measure([clique], [fraction * TABLE_PARTS.table], chosen)
    return chosen


def list_tables(
    plan: MarginalPlan,
    target: int,
    counts: Sequence[Floats],
    ranked: Iterable[Sequence[int]],
) -> Iterator[tuple[Hashable, tuple[Clique, tuple[Indices, ...]]]]:
    """List tables of the first of some ranked columns with the target, by groups of values, each with a key.

    `counts` are the counts of each column. A table is a clique and the group of each value of each of its columns.
    """
    # The first columns have as many or more groups.
    levels = [(level, level) for level in LEVELS]
    levels += itertools.pairwise(LEVELS)
    for columns in ranked:
        for n_columns in range(2, len(columns) + 1):
            for low, high in levels:
                table = {target: np.arange(plan.sizes[target])}
                for rank, column in enumerate(columns[:n_columns]):
                    level = high if 2 * rank < n_columns else low
                    table[column] = group_values(counts[column], level)
                clique = tuple(sorted(table))
                groups = tuple(table[column] for column in clique)
                n_groups = count_groups(groups)
                if math.prod(n_groups) <= plan.max_cells:
                    yield (clique, *n_groups), (clique, groups)
