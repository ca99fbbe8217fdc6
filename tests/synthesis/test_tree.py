from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skdp.synthesis.selection import Plan
from skdp.synthesis.selection._registry import measure_tree, spanning_tree
from tests.synthesis.budgets import assert_sound, dependent_rows, make_budget, private_table


def n_parts(d, edges):
    """Count what a graph falls into, by merging labels."""
    label = list(range(d))
    for first, second in edges:
        label = [label[first] if one == label[second] else one for one in label]
    return len(set(label))


@st.composite
def weighted_graphs(draw):
    d = draw(st.integers(2, 5))
    edges = draw(st.lists(st.sampled_from(list(itertools.combinations(range(d), 2))), min_size=1, unique=True))
    scores = draw(st.lists(st.integers(-3, 5), min_size=len(edges), max_size=len(edges)))
    return d, edges, np.array(scores, float)


@given(weighted_graphs())
def test_no_spanning_tree_is_better(graph):
    d, edges, scores = graph
    found = spanning_tree(edges, scores)
    worth = dict(zip(edges, scores, strict=True))
    size = d - n_parts(d, edges)
    forests = [forest for forest in itertools.combinations(edges, size) if n_parts(d, forest) == n_parts(d, edges)]
    assert tuple(sorted(found)) in {tuple(sorted(forest)) for forest in forests}
    assert sum(worth[edge] for edge in found) == max(sum(worth[edge] for edge in forest) for forest in forests)
    assert sorted((worth[edge] for edge in found), reverse=True) == [worth[edge] for edge in found]


@pytest.mark.parametrize("kind", ["gaussian", "laplace", "open"])
def test_columns_and_the_pairs_of_a_tree_are_measured(kind):
    sizes = (2, 3, 4, 5)
    rows = dependent_rows(sizes, 500)
    rows[:, 2] = rows[:, 1] % 4  # 1 and 2 belong together
    table = private_table(rows, sizes, None if kind == "open" else make_budget(kind, 10**4))
    fitted = measure_tree(table, Plan(sizes, (False,) * 4, 100))
    assert_sound(fitted)
    assert table.budget.left == 0
    cliques = [marginal.clique for marginal in table.marginals]
    assert cliques[:4] == [(0,), (1,), (2,), (3,)]
    assert n_parts(4, cliques[4:]) == 1
    assert len(cliques) == 7
    assert (1, 2) in cliques


def test_a_workload_is_all_that_is_linked():
    sizes = (2, 3, 4)
    table = private_table(dependent_rows(sizes, 100), sizes)
    measure_tree(table, Plan(sizes, (False,) * 3, 100, workload=((0, 2),)))
    assert [marginal.clique for marginal in table.marginals] == [(0,), (1,), (2,), (0, 2)]
    assert table.budget.left == 0


@pytest.mark.parametrize(("sizes", "max_cells"), [((3,), 100), ((3, 4), 11)])
def test_where_there_are_no_pairs_columns_get_all(sizes, max_cells):
    table = private_table(dependent_rows(sizes, 100), sizes, make_budget("laplace", Fraction(1)))
    assert_sound(measure_tree(table, Plan(sizes, (False,) * len(sizes), max_cells)))
    assert [marginal.clique for marginal in table.marginals] == [(column,) for column in range(len(sizes))]
    assert table.budget.left == 0
