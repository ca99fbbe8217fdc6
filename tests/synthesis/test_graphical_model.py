from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skdp.synthesis.model import GraphicalModel, JunctionTree
from tests.conftest import each
from tests.synthesis.conftest import CHAIN, all_subsets, cells, full_table, graphs, model_of, project, random_potentials


def all_rows(sizes):
    return np.indices(sizes).reshape(len(sizes), -1)


def forbid(tree, potentials):
    """Let one value of each clique's first column never occur, so that separators have cells of probability 0."""
    for clique, potential in zip(tree.cliques, potentials, strict=True):
        if tree.sizes[clique[0]] > 1:
            potential[0] = -np.inf
    return potentials


@given(graphs(), st.integers(0, 100), st.sampled_from([0.1, 2.0, 30.0]))
def test_all_marginals_are_those_of_the_product(graph, seed, spread):
    tree = JunctionTree(*graph)
    potentials = random_potentials(tree, seed, spread)
    model, exact = model_of(tree, potentials), full_table(tree, potentials)
    for columns in all_subsets(len(tree.sizes)):
        np.testing.assert_allclose(model.marginal(columns), project(exact, columns), atol=1e-12)


@given(graphs(), st.integers(0, 100), st.booleans())
def test_the_pairs_of_a_column_are_those_of_the_product(graph, seed, impossible):
    tree = JunctionTree(*graph)
    potentials = random_potentials(tree, seed)
    potentials = forbid(tree, potentials) if impossible else potentials
    model, exact = model_of(tree, potentials), full_table(tree, potentials)
    columns = set(range(len(tree.sizes)))
    for column in columns:
        pairs = model.pairs_with(column, columns)
        assert pairs.keys() == columns - {column}
        for other, pair in pairs.items():
            np.testing.assert_allclose(pair, project(exact, (column, other)), atol=1e-12)


@given(graphs(), st.integers(0, 100))
def test_the_entropy_is_that_of_the_product(graph, seed):
    tree = JunctionTree(*graph)
    potentials = random_potentials(tree, seed)
    exact = full_table(tree, potentials)
    entropy = -(exact[exact > 0] * np.log(exact[exact > 0])).sum()
    assert model_of(tree, potentials).entropy == pytest.approx(entropy, abs=1e-9)


def test_what_cannot_occur_has_no_probability(tree):
    potentials = random_potentials(tree)
    potentials[0].flat[0] = -np.inf
    if potentials[0].size == 1:
        pytest.skip("nothing else could occur")
    model, exact = model_of(tree, potentials), full_table(tree, potentials)
    for columns in all_subsets(len(tree.sizes)):
        np.testing.assert_allclose(model.marginal(columns), project(exact, columns), atol=1e-12)
    assert model.marginal(tree.cliques[0]).flat[0] == 0


def test_extreme_potentials_do_not_overflow(tree):
    model = model_of(tree, random_potentials(tree, spread=1e5))
    for belief in model.beliefs:
        assert np.isfinite(belief).all()
        assert (belief >= 0).all()
        assert belief.sum() == pytest.approx(1)


def test_the_uniform_model(tree):
    model = model_of(tree)
    for columns in all_subsets(len(tree.sizes)):
        table = model.marginal(columns)
        np.testing.assert_allclose(table, 1 / table.size)


def test_too_large_a_marginal_is_refused_with_its_size():
    tree = JunctionTree([9_000, 2, 9_000, 9_000], [(0, 1), (1, 2), (1, 3)])
    with pytest.raises(ValueError, match=r"cells \(.* GB\)"):
        model_of(tree).marginal((0, 2, 3))


@given(graphs(), st.integers(0, 100), st.booleans(), st.data())
def test_an_expectation_is_the_sum_over_all_cells(graph, seed, zeros, data):
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


def test_indicators_of_a_row_have_its_probability(model):
    sizes = model.tree.sizes
    rows = all_rows(sizes)
    found = [
        model.expectation({column: np.arange(sizes[column]) == code for column, code in enumerate(row)})
        for row in rows.T
    ]
    np.testing.assert_allclose(found, np.exp(model.log_probability(rows)), rtol=1e-9)


def test_an_expectation_over_many_columns_needs_no_joint_table():
    d = 60
    tree = JunctionTree([3] * d, [(column, column + 1) for column in range(d - 1)])
    model = model_of(tree, random_potentials(tree))
    weights = np.array([0.9, 0.0, 0.4])
    vector = weights * model.marginal([0])  # then along the chain, as a Markov chain goes
    for column in range(1, d):
        pair = model.marginal([column - 1, column])
        vector = vector / model.marginal([column - 1]) @ pair * weights
    assert model.expectation(dict.fromkeys(range(d), weights)) == pytest.approx(vector.sum(), rel=1e-9)


@each(
    "weights, match",
    [
        ({5: [1.0]}, "column 5; the model has columns 0 to 4"),
        ({-1: [1.0] * 6}, "column -1"),
        ({1: [1.0, 1.0]}, r"column 1 must have shape \(4,\), got \(2,\)"),
        ({0: [[1.0, 1.0, 1.0]]}, r"column 0 must have shape \(3,\)"),
        ({0: [1.0, -1e-9, 1.0]}, "column 0 must be finite and not negative"),
        ({0: [1.0, np.nan, 1.0]}, "column 0 must be finite"),
        ({0: [1.0, np.inf, 1.0]}, "column 0 must be finite"),
    ],
)
def test_weights_that_are_none_are_refused(weights, match):
    with pytest.raises(ValueError, match=match):
        model_of(JunctionTree(*CHAIN)).expectation(weights)


@given(graphs(), st.integers(0, 100), st.sampled_from([0.1, 2.0, 10.0]), st.booleans())
def test_every_rows_probability_is_that_of_its_cell(graph, seed, spread, zeros):
    tree = JunctionTree(*graph)
    potentials = random_potentials(tree, seed, spread)
    potentials = forbid(tree, potentials) if zeros else potentials
    exact = full_table(tree, potentials).ravel()
    found = model_of(tree, potentials).log_probability(all_rows(tree.sizes))
    np.testing.assert_array_equal(found == -np.inf, exact == 0)
    np.testing.assert_allclose(found[exact > 0], np.log(exact[exact > 0]), atol=1e-8)


def test_a_row_that_several_cliques_forbid_has_minus_infinity():
    tree = JunctionTree([2, 2, 2], [(0, 1), (1, 2)])
    table = np.array([[0.5, 0.0], [0.5, 0.0]])  # column 1 is never 1: its separator has no probability either
    model = GraphicalModel(tree, [table, table.T])
    found = model.log_probability(all_rows((2, 2, 2))).reshape(2, 2, 2)
    np.testing.assert_array_equal(found[:, 1], -np.inf)
    np.testing.assert_allclose(found[:, 0], math.log(1 / 4))


@each("dtype", [np.int8, np.uint8, np.int32, np.uint64])
def test_rows_are_any_integers(model, dtype):
    rows = all_rows(model.tree.sizes)
    found = model.log_probability(rows.astype(dtype))
    assert found.shape == (cells(model.tree.sizes),)
    assert np.exp(found).sum() == pytest.approx(1)
    np.testing.assert_array_equal(found, model.log_probability(rows))
    assert model.log_probability(rows[:, :0].astype(dtype)).shape == (0,)


@each(
    "rows, error, match",
    [
        (np.zeros((4, 7), int), ValueError, r"5 columns, got \(4, 7\)"),
        (np.zeros(5, int), ValueError, r"got \(5,\)"),
        (np.zeros((5, 7)), TypeError, "dtype float64"),
        (np.zeros((5, 7), bool), TypeError, "dtype bool"),
        (np.full((5, 7), 2), ValueError, "column 3 of rows holds a code outside 0 to 1"),
        (np.full((5, 7), -7), ValueError, "column 0 of rows holds a code outside 0 to 2$"),
    ],
)
def test_rows_that_are_none_are_refused(rows, error, match):
    with pytest.raises(error, match=match):
        model_of(JunctionTree(*CHAIN)).log_probability(rows)
