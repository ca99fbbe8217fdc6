from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare, qmc

from skdp.synthesis.model import GraphicalModel, JunctionTree, redraw, sample
from skdp.synthesis.model import _sampling as _redraw
from tests.synthesis.conftest import CHAIN, GRAPHS, full_table, graphs, model_of, project, random_potentials

FALSE_ALARM = 1e-6
N_POINTS = 1 << 12


class Net:
    """Coins that are spread evenly over the cube instead of being random.

    Each outcome of a redraw is a box of the coins' cube: the share of a net's points in it is nearly its volume, which
    is the probability. So a law is read off without any chance.
    """

    def __init__(self):
        self._points = None

    def random(self, shape):
        if self._points is None:
            self._points = qmc.Sobol(shape[0], scramble=False).random_base2(12).T
        taken, self._points = np.split(self._points, [shape[1]], axis=1)
        return taken


def law(model, row, columns):
    """Read the law of a redraw off: a share a cell of the columns."""
    drawn = redraw(model, np.repeat(np.reshape(row, (-1, 1)), N_POINTS, axis=1), columns, Net())
    shares = np.zeros([model.tree.sizes[column] for column in columns])
    np.add.at(shares, tuple(drawn), 1 / N_POINTS)
    return shares


def conditional(table, row, columns):
    """Cut the law of some columns out of the table of all cells."""
    cut = table[tuple(slice(None) if column in columns else code for column, code in enumerate(row))]
    kept = sorted(columns)
    return np.transpose(cut, [kept.index(column) for column in columns]) / cut.sum()


def joint(model):
    """Multiply cliques and divide by separators, over all cells."""
    rows = np.indices(model.tree.sizes).reshape(len(model.tree.sizes), -1)
    return np.exp(model.log_probability(rows)).reshape(model.tree.sizes)


def mixture(model, columns):
    """Mix a model with independent columns, as the docstring of `redraw` has it."""
    sizes, cliques = model.tree.sizes, model.tree.cliques
    laws = [model.marginal([c]) if c in columns else np.full(size, 1 / size) for c, size in enumerate(sizes)]
    products = [np.prod(np.meshgrid(*(laws[column] for column in clique), indexing="ij"), axis=0) for clique in cliques]
    mixed = [(1 - 1e-12) * belief + 1e-12 * one for belief, one in zip(model.beliefs, products, strict=True)]
    return GraphicalModel(model.tree, mixed)


def star(center, *leaves):
    """Make a model of column 0 with the given law, and a leaf for each table of its law given column 0."""
    sizes = [len(center), *(np.shape(leaf)[1] for leaf in leaves)]
    tree = JunctionTree(sizes, [(0, leaf) for leaf in range(1, len(sizes))])
    tables = {(0, leaf): np.reshape(center, (-1, 1)) * table for leaf, table in enumerate(leaves, 1)}
    return GraphicalModel(tree, [tables[clique] for clique in tree.cliques])


@settings(deadline=None)
@given(graphs(), st.integers(0, 100), st.data())
def test_the_law_is_the_conditional_one(graph, seed, data):
    tree = JunctionTree(*graph)
    potentials = random_potentials(tree, seed)
    model, exact = model_of(tree, potentials), full_table(tree, potentials)
    columns = data.draw(st.lists(st.integers(0, len(tree.sizes) - 1), min_size=1, unique=True))
    row = [data.draw(st.integers(0, size - 1)) for size in tree.sizes]
    np.testing.assert_allclose(law(model, row, columns), conditional(exact, row, columns), atol=0.02)


@pytest.mark.parametrize("name", GRAPHS)
def test_rows_of_the_model_keep_its_law(name):
    tree = JunctionTree(*GRAPHS[name])
    potentials = random_potentials(tree, spread=1.0)
    model, exact = model_of(tree, potentials), full_table(tree, potentials)
    rng = np.random.default_rng(0)
    n = 100_000
    # Independent rows, unlike those of `sample`, whose counts vary less.
    rows = np.array(np.unravel_index(rng.choice(exact.size, size=n, p=exact.ravel()), tree.sizes))
    for columns in itertools.combinations(range(len(tree.sizes)), 2):
        rows[list(columns)] = redraw(model, rows, columns, rng)
        seen = np.bincount(np.ravel_multi_index(tuple(rows), tree.sizes), minlength=exact.size)
        often = n * exact.ravel() > 5
        seen = np.append(seen[often], seen[~often].sum())
        expected = np.append(n * exact.ravel()[often], n * exact.ravel()[~often].sum() + 1e-9)
        assert chisquare(seen, expected * n / expected.sum()).pvalue > FALSE_ALARM


def test_columns_that_the_model_holds_independent_are_so():
    sizes = [2, 6, 6, 6]
    tree = JunctionTree(sizes, [(0, 1), (0, 2), (0, 3)])
    model = model_of(tree, random_potentials(tree, spread=1.0))
    rng = np.random.default_rng(1)
    rows = sample(model, 50_000, rng)
    rows = np.concatenate([rows, redraw(model, rows, [2, 1], rng)])
    for value in range(2):
        chosen = rows[:, rows[0] == value]
        for pair in itertools.combinations([1, 2, 3, 4, 5], 2):  # 4 and 5 are the new columns 2 and 1
            seen = np.bincount(6 * chosen[pair[0]] + chosen[pair[1]], minlength=36)
            shares = [np.bincount(chosen[column], minlength=6) / chosen.shape[1] for column in pair]
            expected = np.outer(*shares).ravel() * chosen.shape[1]
            often = expected > 5
            expected = expected[often] * seen[often].sum() / expected[often].sum()
            assert chisquare(seen[often], expected).pvalue > FALSE_ALARM


def test_all_columns_redrawn_are_a_new_row(model):
    columns = range(len(model.tree.sizes))
    np.testing.assert_allclose(law(model, [0] * len(columns), columns), joint(model), atol=0.02)


def test_blocks_change_nothing_but_the_order_of_the_coins(monkeypatch):
    tree = JunctionTree(*CHAIN)
    model = model_of(tree, random_potentials(tree))
    whole = law(model, [0, 1, 2, 1, 5], [1, 3])
    monkeypatch.setattr(_redraw, "_BLOCK", 100)
    np.testing.assert_array_equal(law(model, [0, 1, 2, 1, 5], [1, 3]), whole)


def test_rows_are_untouched_and_named_columns_are_not_read(model):
    rows = sample(model, 1000, np.random.default_rng(0))
    rows.flags.writeable = False
    before, d = rows.copy(), len(rows)
    for columns in ([], [0], [d - 1, 0], range(d)):
        drawn = redraw(model, rows, columns, np.random.default_rng(1))
        assert drawn.shape == (len(columns), 1000)
        assert drawn.dtype == np.int32
        other = rows.copy()
        other[list(columns)] = -99
        np.testing.assert_array_equal(redraw(model, other, columns, np.random.default_rng(1)), drawn)
    np.testing.assert_array_equal(rows, before)
    assert redraw(model, rows[:, :0], [0], np.random.default_rng(0)).shape == (1, 0)


def test_the_order_of_the_names_is_that_of_the_output():
    tree = JunctionTree(*CHAIN)
    model = model_of(tree, random_potentials(tree))
    rows = sample(model, 1000, np.random.default_rng(0))
    one, other = (redraw(model, rows, columns, np.random.default_rng(2)) for columns in ([1, 4, 2], [2, 1, 4]))
    np.testing.assert_array_equal(one, other[[1, 2, 0]])


def test_what_cannot_occur_is_not_drawn(tree):
    potentials = random_potentials(tree)
    potentials[0].flat[0] = -np.inf
    if potentials[0].size == 1:
        pytest.skip("nothing else could occur")
    model, rng = model_of(tree, potentials), np.random.default_rng(0)
    rows = sample(model, 20_000, rng)
    for column in tree.cliques[0]:
        rows[column] = redraw(model, rows, [column], rng)
        assert not (rows[list(tree.cliques[0])] == 0).all(axis=0).any()


def test_many_unlikely_columns_do_not_underflow():
    # Each leaf multiplies by about 1e-20: 40 of them are far below the least float.
    model = star([0.5, 0.5], *([[[1 - 1e-20, 1e-20], [1 - 3e-20, 3e-20]], [[1, 3e-20], [1, 1e-20]]] * 20))
    found = law(model, [0, *[1] * 40], [0])
    np.testing.assert_allclose(found, [0.5, 0.5], atol=1e-3)
    found = law(model, [0, *[1] * 39, 0], [0])
    np.testing.assert_allclose(found, [0.25, 0.75], atol=1e-3)


def test_messages_of_unlikely_columns_do_not_underflow():
    # Columns 0 and 1 are in the root, with 3, which has one value; 2 hangs below, and all unlikely leaves on it.
    copy, leaves = np.array([[0.4, 0.1], [0.1, 0.4]]), range(4, 43)
    tree = JunctionTree([2, 2, 2, 1, *[2] * 39], [(0, 1, 3), (1, 2), *((2, leaf) for leaf in leaves)])
    tables = {(0, 1, 3): copy[:, :, np.newaxis], (1, 2): copy}
    tilts = [np.array([1e-20, 3e-20]), np.array([3e-20, 1e-20])] * 20
    tables |= {(2, leaf): np.stack([1 - tilt, tilt], axis=1) / 2 for leaf, tilt in zip(leaves, tilts, strict=False)}
    assert tree.cliques[0] == (0, 1, 3)
    model = GraphicalModel(tree, [tables[clique] for clique in tree.cliques])
    # Of the 39 leaves, 19 pairs cancel out, and one says that column 2 is 1 with three times the weight.
    expected = np.einsum("ab,bc,c->abc", copy, 2 * copy, [0.5, 1.5])
    np.testing.assert_allclose(law(model, [0, 0, 0, 0, *[1] * 39], [0, 1, 2]), expected, atol=0.01)


@pytest.mark.parametrize("coin", [0.0, 1 - 2.0**-53])
def test_the_outermost_coins_draw_what_can_occur(coin):
    class Constant:
        def random(self, shape):
            return np.full(shape, coin)

    model = star([0.0, 0.4, 0.6, 0.0], [[0.0, 1 / 3, 2 / 3, 0.0]] * 4)
    expected = 1 if coin == 0 else 2
    np.testing.assert_array_equal(redraw(model, np.zeros((2, 3), int), [0, 1], Constant()), expected)
    np.testing.assert_array_equal(redraw(model, np.full((2, 3), 2), [0], Constant()), expected)


def test_an_impossible_part_is_seen_beside_a_possible_one():
    tree = JunctionTree([2, 3, 2, 3], [(0, 1), (2, 3)])
    table = np.array([[0.2, 0.3, 0.0], [0.4, 0.1, 0.0]])
    model = GraphicalModel(tree, [table, table])
    for row in ([0, 2, 0, 0], [0, 0, 0, 2]):
        parts = [np.array([0.5, 0.5]) if row[given] == 2 else table[:, 0] / 0.6 for given in (1, 3)]
        np.testing.assert_allclose(law(model, row, [0, 2]), np.outer(*parts), atol=0.01)


def test_a_value_that_never_occurs_says_nothing():
    # Column 1 is never 2. Column 2 still speaks: given it is 0, column 0 has the law (0.4, 0.1) / 0.5.
    model = star([0.5, 0.5], [[0.5, 0.5, 0.0], [0.1, 0.9, 0.0]], [[0.8, 0.2], [0.2, 0.8]])
    np.testing.assert_allclose(law(model, [0, 2, 0], [0]), [0.8, 0.2], atol=1e-3)
    np.testing.assert_allclose(law(model, [0, 2, 0], [0, 2]), [[0.4, 0.1], [0.1, 0.4]], atol=1e-2)


def test_rows_that_contradict_themselves_have_a_law_without_impossible_values():
    # Column 1 says that column 0 is 0, column 2 says that it is 1; it is never 2.
    model = star([0.3, 0.7, 0.0], np.eye(2)[[0, 1, 1]], np.eye(2)[[0, 1, 1]])
    found = law(model, [0, 0, 1], [0])
    assert found[:2].min() > 0.1
    assert found[2] == 0


@settings(deadline=None)
@given(graphs(), st.integers(0, 100), st.data())
def test_an_impossible_row_has_the_law_of_the_mixture(graph, seed, data):
    tree = JunctionTree(*graph)
    potentials = random_potentials(tree, seed)
    for clique, potential in zip(tree.cliques, potentials, strict=True):
        if tree.sizes[clique[0]] > 1:
            potential[0] = -np.inf
    model = model_of(tree, potentials)
    columns = data.draw(st.lists(st.integers(0, len(tree.sizes) - 1), min_size=1, unique=True))
    row = [0] * len(tree.sizes)
    exact = joint(model)
    if project(exact, [column for column in range(len(row)) if column not in columns]).flat[0] == 0:
        exact = joint(mixture(model, columns))
        assert exact.sum() == pytest.approx(1)
    np.testing.assert_allclose(law(model, row, columns), conditional(exact, row, columns), atol=0.02)


def test_possible_rows_are_not_changed_by_impossible_ones():
    model = star([0.5, 0.5], [[0.5, 0.5, 0.0], [0.1, 0.9, 0.0]])
    rows = np.array([[0] * 6, [0, 1, 0, 1, 0, 1]])
    mixed = rows.copy()
    mixed[1, ::3] = 2
    first, second = (redraw(model, one, [0], np.random.default_rng(3)) for one in (rows, mixed))
    np.testing.assert_array_equal(first[:, [1, 2, 4, 5]], second[:, [1, 2, 4, 5]])


def test_too_large_a_table_is_refused_with_its_size():
    tree = JunctionTree([200, 200, 2], [(0, 1), (1, 2)])
    model, rows = model_of(tree), np.zeros((3, 5), int)
    with pytest.raises(ValueError, match=r"columns \(0, 1\) takes a table of 40000 cells .* Redraw fewer"):
        redraw(model, rows, [0, 1], np.random.default_rng(0))
    assert redraw(model, rows, [0, 2], np.random.default_rng(0)).shape == (2, 5)


@pytest.mark.parametrize("columns", [[0, 0], [5], [-1]])
def test_columns_that_are_none_are_refused(columns):
    with pytest.raises(ValueError, match="columns must be different numbers from 0 to 4"):
        redraw(model_of(JunctionTree(*CHAIN)), np.zeros((5, 2), int), columns, np.random.default_rng(0))


def test_rows_that_are_none_are_refused():
    model, rng = model_of(JunctionTree(*CHAIN)), np.random.default_rng(0)
    with pytest.raises(ValueError, match="column 1 of rows holds a code outside 0 to 3"):
        redraw(model, np.full((5, 2), 4), [0, 2, 3], rng)
    with pytest.raises(TypeError, match="dtype float64"):
        redraw(model, np.zeros((5, 2)), [0], rng)
    with pytest.raises(TypeError):
        redraw(model, np.zeros((5, 2), int), [1.0], rng)
