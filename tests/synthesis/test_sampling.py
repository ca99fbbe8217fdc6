"""Rows drawn from a model, and columns of rows drawn again: their law."""

from __future__ import annotations

import itertools
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare, qmc

from skdp.synthesis.model import GraphicalModel, JunctionTree, redraw, sample
from tests.synthesis.conftest import CHAIN, GRAPHS, full_table, graphs, model_of, project, random_potentials

FALSE_ALARM = 1e-6


def count(rows, columns, sizes):
    shape = [sizes[column] for column in columns]
    flat = np.ravel_multi_index([rows[column] for column in columns], shape)
    return np.bincount(flat, minlength=int(np.prod(shape))).reshape(shape)


def test_pairs_and_triples_have_the_models_marginals(model):
    n, sizes = 200_000, model.tree.sizes
    rows = sample(model, n, np.random.default_rng(0))
    for size in (1, 2, 3):
        for columns in itertools.combinations(range(len(sizes)), size):
            shares = model.marginal(columns)
            distance = np.abs(count(rows, columns, sizes) / n - shares).sum() / 2
            # Of independent rows it would be about sqrt(p (1 - p) / n) / 2 a cell; these vary less.
            assert distance <= np.sqrt(shares * (1 - shares) / n).sum() / 2 * 1.5 + 1e-9


def test_some_columns_are_drawn_without_the_others(model):
    n, sizes = 20_000, model.tree.sizes
    for columns in itertools.combinations(range(len(sizes)), 2):
        rows = sample(model, n, np.random.default_rng(0), columns)
        shares = model.marginal(columns)
        distance = np.abs(count(rows, columns, sizes) / n - shares).sum() / 2
        assert distance <= np.sqrt(shares * (1 - shares) / n).sum() / 2 * 1.5 + 1e-9
    assert not sample(model, 5, np.random.default_rng(0), [])[
        [c not in model.tree.cliques[0] for c in range(len(sizes))]
    ].any()


def test_columns_that_the_model_holds_independent_are_so():
    # Many children of one column: a sampler that ranks rows the same way for each makes them agree.
    sizes = [2, 8, 8, 8]
    tree = JunctionTree(sizes, [(0, 1), (0, 2), (0, 3)])
    model = model_of(tree, random_potentials(tree))
    rows = sample(model, 100_000, np.random.default_rng(1))
    for value in range(2):
        chosen = rows[:, rows[0] == value]
        for pair in itertools.combinations((1, 2, 3), 2):
            seen = count(chosen, pair, sizes)
            shares = np.outer(*(np.bincount(chosen[column], minlength=8) for column in pair)) / chosen.shape[1]
            often = shares > 5
            expected = shares[often] * seen[often].sum() / shares[often].sum()
            assert chisquare(seen[often], expected).pvalue > FALSE_ALARM


def test_every_row_has_the_models_law_wherever_it_stands():
    tree = JunctionTree([3, 4], [(0, 1)])
    model = model_of(tree, random_potentials(tree))
    first = np.array([sample(model, 3, np.random.default_rng(seed))[:, 0] for seed in range(1500)]).T
    seen = count(first, (0, 1), (3, 4)).ravel()
    assert chisquare(seen, model.marginal((0, 1)).ravel() * 1500).pvalue > FALSE_ALARM


def test_counts_are_as_even_as_they_can_be():
    tree, law = JunctionTree([2, 3], [(0, 1)]), np.array([[2000, 1000, 1000], [0, 10, 0]])
    with np.errstate(divide="ignore"):
        groups, values = sample(model_of(tree, [np.log(law)]), 4010, np.random.default_rng(0))
    assert np.bincount(groups).tolist() == [4000, 10]
    assert (np.abs(np.bincount(values[groups == 0]) - law[0]) <= 1).all()
    assert (values[groups == 1] == 1).all()


def test_the_largest_uniform_number_stays_in_its_group():
    """In floats, the number of a group and a share next to 1 add up to the number of the next group."""
    rng = mock.Mock(permutation=np.arange, random=lambda n: np.full(n, np.nextafter(1, 0)))
    model = GraphicalModel(JunctionTree([10, 3], [(0, 1)]), [np.array([[0.05, 0.05, 0.0]] * 10)])
    rows = sample(model, 10, rng)
    np.testing.assert_array_equal(rows[1], np.ones(10))


def test_what_cannot_occur_is_not_drawn(tree):
    potentials = random_potentials(tree)
    potentials[0].flat[0] = -np.inf
    if potentials[0].size == 1:
        pytest.skip("nothing else could occur")
    rows = sample(model_of(tree, potentials), 50_000, np.random.default_rng(0))
    clique = tree.cliques[0]
    assert not (rows[list(clique)] == 0).all(axis=0).any()


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


@pytest.mark.long
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


def test_many_unlikely_columns_do_not_underflow():
    # Each leaf multiplies by about 1e-20: 40 of them are far below the least float.
    model = star([0.5, 0.5], *([[[1 - 1e-20, 1e-20], [1 - 3e-20, 3e-20]], [[1, 3e-20], [1, 1e-20]]] * 20))
    found = law(model, [0, *[1] * 40], [0])
    np.testing.assert_allclose(found, [0.5, 0.5], atol=1e-3)
    found = law(model, [0, *[1] * 39, 0], [0])
    np.testing.assert_allclose(found, [0.25, 0.75], atol=1e-3)


@pytest.mark.parametrize("coin", [0.0, 1 - 2.0**-53])
def test_the_outermost_coins_draw_what_can_occur(coin):
    class Constant:
        def random(self, shape):
            return np.full(shape, coin)

    model = star([0.0, 0.4, 0.6, 0.0], [[0.0, 1 / 3, 2 / 3, 0.0]] * 4)
    expected = 1 if coin == 0 else 2
    np.testing.assert_array_equal(redraw(model, np.zeros((2, 3), int), [0, 1], Constant()), expected)
    np.testing.assert_array_equal(redraw(model, np.full((2, 3), 2), [0], Constant()), expected)


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


def test_rows_and_columns_that_are_refused():
    model, rng = model_of(JunctionTree(*CHAIN)), np.random.default_rng(0)
    for columns in ([0, 0], [5], [-1]):
        with pytest.raises(ValueError, match="columns must be different numbers from 0 to 4"):
            redraw(model, np.zeros((5, 2), int), columns, rng)
    large = model_of(JunctionTree([200, 200, 2], [(0, 1), (1, 2)]))
    with pytest.raises(ValueError, match=r"columns \(0, 1\) takes a table of 40000 cells .* Redraw fewer"):
        redraw(large, np.zeros((3, 5), int), [0, 1], rng)
    with pytest.raises(ValueError, match="column 1 of rows holds a code outside 0 to 3"):
        redraw(model, np.full((5, 2), 4), [0, 2, 3], rng)
    with pytest.raises(ValueError, match=r"rows must have shape \(n_columns, n\) with 5 columns, got \(4, 2\)"):
        redraw(model, np.zeros((4, 2), int), [0], rng)
    with pytest.raises(TypeError, match="dtype float64"):
        redraw(model, np.zeros((5, 2)), [0], rng)
    with pytest.raises(TypeError):
        redraw(model, np.zeros((5, 2), int), [1.0], rng)
