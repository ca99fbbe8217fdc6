"""Distribution of rows drawn from a model."""

import itertools
from unittest import mock

import numpy as np
import pytest
from scipy.stats import chisquare

from skdp.synthesis.model import GraphicalModel, JunctionTree
from tests.synthesis.conftest import model_of, random_potentials

FALSE_ALARM = 1e-6


def count(rows, columns, sizes):
    shape = [sizes[column] for column in columns]
    flat = np.ravel_multi_index([rows[column] for column in columns], shape)
    return np.bincount(flat, minlength=int(np.prod(shape))).reshape(shape)


def test_pairs_and_triples_follow_the_model(model):
    n, sizes = 200_000, model.tree.sizes
    rows = model.sample(n, np.random.default_rng(0))
    for size in (1, 2, 3):
        for columns in itertools.combinations(range(len(sizes)), size):
            shares = model.marginal(columns)
            distance = np.abs(count(rows, columns, sizes) / n - shares).sum() / 2
            # For independent rows about sqrt(p (1 - p) / n) / 2 per cell; these rows vary less.
            assert distance <= np.sqrt(shares * (1 - shares) / n).sum() / 2 * 1.5 + 1e-9


def test_independent_columns_of_the_model_are_independent():
    # Many children of one column: a sampler with equal ranks for each child would make them equal.
    sizes = [2, 8, 8, 8]
    tree = JunctionTree(sizes, [(0, 1), (0, 2), (0, 3)])
    model = model_of(tree, random_potentials(tree))
    rows = model.sample(100_000, np.random.default_rng(1))
    for value in range(2):
        chosen = rows[:, rows[0] == value]
        for pair in itertools.combinations((1, 2, 3), 2):
            seen = count(chosen, pair, sizes)
            shares = np.outer(*(np.bincount(chosen[column], minlength=8) for column in pair)) / chosen.shape[1]
            often = shares > 5
            expected = shares[often] * seen[often].sum() / shares[often].sum()
            assert chisquare(seen[often], expected).pvalue > FALSE_ALARM


def test_every_row_follows_the_model():
    tree = JunctionTree([3, 4], [(0, 1)])
    model = model_of(tree, random_potentials(tree))
    first = np.array([model.sample(3, np.random.default_rng(seed))[:, 0] for seed in range(1500)]).T
    seen = count(first, (0, 1), (3, 4)).ravel()
    assert chisquare(seen, model.marginal((0, 1)).ravel() * 1500).pvalue > FALSE_ALARM


def test_counts_are_as_even_as_possible():
    tree, pmf = JunctionTree([2, 3], [(0, 1)]), np.array([[2000, 1000, 1000], [0, 10, 0]])
    with np.errstate(divide="ignore"):
        groups, values = model_of(tree, [np.log(pmf)]).sample(4010, np.random.default_rng(0))
    assert np.bincount(groups).tolist() == [4000, 10]
    assert (np.abs(np.bincount(values[groups == 0]) - pmf[0]) <= 1).all()
    assert (values[groups == 1] == 1).all()


def test_largest_uniform_number_stays_in_its_group():
    """In floats, the number of a group plus a proportion near 1 is the number of the next group."""
    rng = mock.Mock(permutation=np.arange, random=lambda n: np.full(n, np.nextafter(1, 0)))
    tree = JunctionTree([10, 3], [(0, 1)], given=[0])
    model = GraphicalModel(tree, [np.array([[0.05, 0.05, 0.0]] * 10)])
    rows = model.sample(10, rng, {0: np.arange(10)})
    np.testing.assert_array_equal(rows[1], np.ones(10))


def test_impossible_cells_are_not_drawn(tree):
    potentials = random_potentials(tree)
    potentials[0].flat[0] = -np.inf
    if potentials[0].size == 1:
        pytest.skip("nothing else could occur")
    rows = model_of(tree, potentials).sample(50_000, np.random.default_rng(0))
    clique = tree.cliques[0]
    assert not (rows[list(clique)] == 0).all(axis=0).any()
