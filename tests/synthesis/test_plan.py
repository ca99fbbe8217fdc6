from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from skdp.synthesis.model import JunctionTree
from skdp.synthesis.selection import Plan
from tests.synthesis.conftest import graphs


def plan(sizes, max_cells, **others):
    return Plan(tuple(sizes), (False,) * len(sizes), max_cells, **others)


def test_cells_are_counted():
    assert plan([2, 3, 5], 10).n_cells((0, 2)) == 10
    assert plan([2, 3, 5], 10).n_cells(()) == 1


@given(graphs(), st.integers(1, 300))
def test_a_model_fits_if_its_cliques_do(graph, max_cells):
    sizes, marginals = graph
    tree = JunctionTree(sizes, marginals)
    largest = max(map(tree.n_cells, tree.cliques))
    assert plan(sizes, max_cells).fits(marginals) == (largest <= max_cells and tree.cells <= 4 * max_cells)


def test_all_cliques_together_are_bounded_too():
    chain = [(place, place + 1) for place in range(6)]
    assert not plan([4] * 7, 16).fits(chain)
    assert plan([4] * 7, 24).fits(chain)
    assert plan([4] * 7, 16).fits(chain[:2])


def test_what_cannot_occur_needs_room_too():
    impossible = ((0, 1, 2), np.zeros((4, 4, 4), bool))
    assert plan([4] * 3, 63).fits([(0, 1)])
    assert not plan([4] * 3, 63, zeros=(impossible,)).fits([(0, 1)])
    assert plan([4] * 3, 64, zeros=(impossible,)).fits([(0, 1)])


def test_without_a_workload_all_count_the_same():
    for order in [1, 2, 3]:
        expected = dict.fromkeys(itertools.combinations(range(4), order), 1)
        assert plan([2, 3, 4, 5], 1000).candidates(order) == expected


def test_a_workload_says_what_matters_and_how_much():
    asked = plan([2, 3, 4, 5], 1000, workload=((0, 1, 2), (1, 2), (3,)))
    assert asked.candidates(1) == {(0,): 1, (1,): 2, (2,): 2, (3,): 1}
    assert asked.candidates(2) == {(0, 1): 1, (0, 2): 1, (1, 2): 2}
    assert asked.candidates(3) == {(0, 1, 2): 1}
    assert asked.candidates(4) == {}


def test_large_tables_are_no_candidates():
    assert plan([2, 3, 4], 8).candidates(2) == {(0, 1): 1, (0, 2): 1}
    assert plan([2, 3, 4], 1).candidates(1) == {}
