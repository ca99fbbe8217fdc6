"""Junction trees, messages, and answers of a model, compared with the table of all cells."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skdp.synthesis.model import Elimination, JunctionTree
from tests.synthesis.conftest import all_subsets, full_table, graphs, model_of, project, random_potentials


@given(graphs())
def test_every_marginal_is_in_a_clique_and_every_column_is_connected(graph):
    sizes, marginals = graph
    tree = JunctionTree(sizes, marginals)
    assert {column for clique in tree.cliques for column in clique} == set(range(len(sizes)))
    for marginal in marginals:
        assert tree.find(marginal) is not None
        assert set(marginal) <= set(tree.cliques[tree.find(marginal)])
    assert (tree.parents[0], tree.separators[0]) == (-1, ())
    for child in range(1, len(tree.cliques)):
        parent, separator = tree.parents[child], set(tree.separators[child])
        assert 0 <= parent < child  # parents come first
        assert separator == set(tree.cliques[child]) & set(tree.cliques[parent])
        # Running intersection: columns shared with any earlier clique are shared with the parent.
        earlier = set().union(*tree.cliques[:child])
        assert set(tree.cliques[child]) & earlier == separator
    for clique in tree.cliques:
        assert not any(set(clique) < set(other) for other in tree.cliques)


def order_plainly(sizes, marginals):
    """Eliminate the column with the fewest cells repeatedly, by sets."""
    neighbors = {column: {column} for column in range(len(sizes))}
    for marginal in marginals:
        for column in marginal:
            neighbors[column] |= set(marginal)
    while neighbors:
        column = min(neighbors, key=lambda one: (math.prod(sizes[other] for other in neighbors[one]), one))
        clique = neighbors.pop(column)
        for other in clique - {column}:
            neighbors[other] = (neighbors[other] | clique) - {column}
        yield column, clique


def eliminate_plainly(sizes, marginals):
    cliques = []
    for _, clique in order_plainly(sizes, marginals):
        if not any(clique <= set(larger) for larger in cliques):
            cliques.append(tuple(sorted(clique)))
    return cliques


@given(graphs())
def test_cliques_equal_the_plain_elimination(graph):
    assert Elimination(*graph).cliques == eliminate_plainly(*graph)


@given(graphs().filter(lambda graph: graph[1]), st.integers(1, 300), st.integers(1, 600))
def test_marginal_is_added_if_all_cliques_stay_small(graph, largest, together):
    sizes, marginals = graph

    def is_small(cliques):
        n_cells = [math.prod(sizes[column] for column in clique) for clique in cliques]
        return max(n_cells) <= largest and sum(n_cells) <= together

    grown, added = Elimination(sizes), []
    for marginal in marginals:
        if grown.add(marginal, largest, together):
            added.append(marginal)
            assert is_small(grown.cliques) or not is_small(Elimination(sizes).cliques)
        else:
            assert not is_small(eliminate_plainly(sizes, [*added, marginal]))
        for other in added:
            assert any(set(other) <= set(clique) for clique in grown.cliques)


def test_refused_marginal_does_not_change_the_graph():
    """The last pair has capacity in another order only, which is found without the pair that closes a triangle."""
    grown = Elimination([2] * 5)
    pairs = [(0, 3), (0, 4), (3, 4), (0, 1), (1, 2)]
    assert [grown.add(pair, max_cells=4, max_total=100) for pair in pairs] == [True, True, False, True, True]


def forbid(tree, potentials):
    """Set one value of each clique's first column to probability 0, so that separators have impossible cells."""
    for clique, potential in zip(tree.cliques, potentials, strict=True):
        if tree.sizes[clique[0]] > 1:
            potential[0] = -np.inf
    return potentials


@given(graphs(), st.integers(0, 100), st.sampled_from([0.1, 2.0, 30.0]), st.booleans())
def test_all_marginals_equal_the_product(graph, seed, spread, impossible):
    tree = JunctionTree(*graph)
    potentials = random_potentials(tree, seed, spread)
    potentials = forbid(tree, potentials) if impossible else potentials
    model, exact = model_of(tree, potentials), full_table(tree, potentials)
    for columns in all_subsets(len(tree.sizes)):
        np.testing.assert_allclose(model.marginal(columns), project(exact, columns), atol=1e-12)


def test_error_of_too_large_a_marginal_states_its_size():
    tree = JunctionTree([9_000, 2, 9_000, 9_000], [(0, 1), (1, 2), (1, 3)])
    with pytest.raises(ValueError, match="more than 67,108,864 cells"):
        model_of(tree).marginal((0, 2, 3))


@given(graphs(), st.integers(0, 100), st.booleans(), st.data())
def test_expectation_is_the_sum_over_all_cells(graph, seed, zeros, data):
    tree = JunctionTree(*graph)
    potentials = random_potentials(tree, seed)
    potentials = forbid(tree, potentials) if zeros else potentials
    exact = full_table(tree, potentials)
    model = model_of(tree, potentials)
    columns = data.draw(st.sets(st.integers(0, len(tree.sizes) - 1)))
    rng = np.random.default_rng(seed)
    weights = {
        column: 3 * rng.random(tree.sizes[column]) * (rng.random(tree.sizes[column]) < 0.7) for column in columns
    }
    summed = exact
    for column, vector in weights.items():
        summed = summed * vector.reshape([-1 if axis == column else 1 for axis in range(exact.ndim)])
    assert model.expectation(weights) == pytest.approx(summed.sum(), rel=1e-9, abs=1e-12)
