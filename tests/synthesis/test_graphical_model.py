from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skdp.synthesis._graphical_model import GraphicalModel
from skdp.synthesis._junction_tree import JunctionTree
from tests.synthesis.conftest import all_subsets, full_table, graphs, project, random_potentials


@given(graphs(), st.integers(0, 100), st.sampled_from([0.1, 2.0, 30.0]))
def test_all_marginals_are_those_of_the_product(graph, seed, spread):
    tree = JunctionTree(*graph)
    potentials = random_potentials(tree, seed, spread)
    model, exact = GraphicalModel.from_potentials(tree, potentials), full_table(tree, potentials)
    for columns in all_subsets(len(tree.sizes)):
        np.testing.assert_allclose(model.marginal(columns), project(exact, columns), atol=1e-12)


@given(graphs(), st.integers(0, 100))
def test_the_entropy_is_that_of_the_product(graph, seed):
    tree = JunctionTree(*graph)
    potentials = random_potentials(tree, seed)
    exact = full_table(tree, potentials)
    entropy = -(exact[exact > 0] * np.log(exact[exact > 0])).sum()
    assert GraphicalModel.from_potentials(tree, potentials).entropy == pytest.approx(entropy, abs=1e-9)


def test_what_cannot_occur_has_no_probability(tree):
    potentials = random_potentials(tree)
    potentials[0].flat[0] = -np.inf
    if potentials[0].size == 1:
        pytest.skip("nothing else could occur")
    model, exact = GraphicalModel.from_potentials(tree, potentials), full_table(tree, potentials)
    for columns in all_subsets(len(tree.sizes)):
        np.testing.assert_allclose(model.marginal(columns), project(exact, columns), atol=1e-12)
    assert model.marginal(tree.cliques[0]).flat[0] == 0


def test_extreme_potentials_do_not_overflow(tree):
    model = GraphicalModel.from_potentials(tree, random_potentials(tree, spread=1e5))
    for belief in model.beliefs:
        assert np.isfinite(belief).all()
        assert (belief >= 0).all()
        assert belief.sum() == pytest.approx(1)


def test_the_uniform_model(tree):
    model = GraphicalModel.uniform(tree)
    for columns in all_subsets(len(tree.sizes)):
        table = model.marginal(columns)
        np.testing.assert_allclose(table, 1 / table.size)


def test_too_large_a_marginal_is_refused_with_its_size():
    tree = JunctionTree([300, 2, 300, 300, 300], [(0, 1), (1, 2), (1, 3), (1, 4)])
    with pytest.raises(ValueError, match=r"cells \(.* GB\)"):
        GraphicalModel.uniform(tree).marginal((0, 2, 3, 4))
