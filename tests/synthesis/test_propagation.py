"""Products of tables for cliques and of factors for marginals, against all cells."""

from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skdp.synthesis.model import JunctionTree, _propagation, _tables
from skdp.synthesis.model._propagation import Propagation
from skdp.synthesis.model._tables import Projections
from tests.conftest import each
from tests.synthesis.conftest import GRAPHS, cells, full_table, graphs, log_table, project, random_potentials


def product(tree, potentials, marginals, logs):
    """Multiply everything over all cells."""
    table, start = log_table(tree, potentials), 0
    for marginal in marginals:
        shape = [tree.sizes[column] for column in marginal]
        factor = logs[start : start + cells(shape)]
        table = table + factor.reshape([tree.sizes[c] if c in marginal else 1 for c in range(len(tree.sizes))])
        start += factor.size
    table = np.exp(table - table.max())
    return table / table.sum()


@given(graphs(), st.integers(0, 100), st.sampled_from([0.1, 3.0, 100.0]), st.sampled_from([0, 20, 4096]))
def test_cliques_and_marginals_are_those_of_the_product(graph, seed, spread, small):
    sizes, marginals = graph
    tree, rng = JunctionTree(sizes, marginals), np.random.default_rng(seed)
    potentials = random_potentials(tree, seed, spread)
    logs = spread * rng.normal(size=sum(cells([sizes[column] for column in marginal]) for marginal in marginals))
    with mock.patch.object(_tables, "_SMALL", small):
        model = Propagation(tree, potentials, marginals)
        beliefs, sums = model.run(logs)
    exact = product(tree, potentials, marginals, logs)
    for belief, clique in zip(beliefs, tree.cliques, strict=True):
        np.testing.assert_allclose(belief, project(exact, clique), atol=1e-12)
    expected = [project(exact, marginal).ravel() for marginal in marginals]
    np.testing.assert_allclose(sums, np.concatenate([*expected, []]), atol=1e-12)
    np.testing.assert_allclose(full_table(tree, model.joined(logs)), exact, atol=1e-12)


@pytest.mark.parametrize("apart", [False, True])
def test_only_what_vanishes_is_done_in_logarithms(monkeypatch, apart):
    tree = JunctionTree([2, 2, 2], [(0, 1), (1, 2)])
    potentials = [np.zeros((2, 2)), np.zeros((2, 2))]
    # Each factor has a 1, but no cell of the clique has both.
    factors = np.array([[0.0, -600.0], [0.0, -600.0]]), np.array([[-600.0, 0.0], [-600.0, 0.0]])
    logs = np.concatenate([factor.ravel() * apart for factor in factors])
    calls = []
    slow = _propagation._calibrate_logs
    monkeypatch.setattr(_propagation, "_calibrate_logs", lambda *given: calls.append(given) or slow(*given))
    model = Propagation(tree, potentials, [(1, 2), (1, 2)])
    beliefs, _ = model.run(logs)
    assert bool(calls) == apart
    np.testing.assert_allclose(beliefs, np.full((2, 2, 2), 0.25))


@each("small", [0, 50, 10**6])
def test_sums_of_one_table_and_the_way_back(small):
    sizes, wanted = (2, 3, 4, 2), [(0, 1, 2, 3), (1,), (0, 2), (0, 2, 3), (2, 3), (1, 3)]
    table = np.random.default_rng(0).normal(size=sizes)
    with mock.patch.object(_tables, "_SMALL", small):
        projections = Projections((0, 1, 2, 3), sizes, wanted)
    sums = [project(table, clique) for clique in wanted]
    np.testing.assert_allclose(projections.project(table), np.concatenate([one.ravel() for one in sums]))
    shaped = [
        one.reshape([size if c in clique else 1 for c, size in enumerate(sizes)])
        for one, clique in zip(sums, wanted, strict=True)
    ]
    vector = np.concatenate([one.ravel() for one in sums])
    np.testing.assert_allclose(projections.lift(vector), sum(shaped))
    np.testing.assert_allclose(projections.lift(vector, np.multiply), np.prod(np.broadcast_arrays(*shaped), axis=0))


def test_without_marginals_every_cell_stays():
    projections = Projections((0, 1), (2, 3), [])
    assert projections.project(np.ones((2, 3))).size == 0
    assert projections.lift(np.empty(0)) == 0
    assert projections.lift(np.empty(0), np.multiply) == 1


def test_the_way_to_columns_is_that_of_their_cliques():
    tree = JunctionTree(*GRAPHS["chain"])
    whole = range(len(tree.cliques))
    assert tree.path(range(len(tree.sizes))) == list(whole)
    for column in range(len(tree.sizes)):
        path = tree.path([column])
        assert any(column in tree.cliques[place] for place in path)
        assert path == sorted({0, *path, *(tree.links[place - 1].parent for place in path if place)})
    assert min(len(tree.path([column])) for column in range(len(tree.sizes))) < len(tree.cliques)


def test_messages_that_numbers_hardly_hold_are_passed_in_logarithms():
    """The scale of a message, and what its largest number is multiplied with, exceed the floats together."""
    tree = JunctionTree([2, 3, 2], [(0, 1), (1, 2)])
    assert tree.cliques == ((0, 1), (1, 2))
    parent = np.array([[-2000.0, 0.0, 0.0], [-2000.0, -1.0, 0.0]])
    child = np.array([[-430.0, -431.0], [-740.0, -741.5], [0.0, 0.0]])
    factor = np.array([[0.0, 0.0], [0.0, 0.0], [-2000.0, -2000.0]])
    found, _ = Propagation(tree, [parent, child], [(1, 2)]).run(factor.ravel())
    joint = parent[:, :, np.newaxis] + child + factor
    joint = np.exp(joint - joint.max())
    np.testing.assert_allclose(found[0], joint.sum(axis=2) / joint.sum(), atol=1e-9)
    np.testing.assert_allclose(found[1], joint.sum(axis=0) / joint.sum(), atol=1e-9)
