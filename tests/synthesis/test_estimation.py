"""Models from noisy counts: groups, descents, scaling, impossible cells."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from skdp.synthesis.model import (
    JunctionTree,
    Marginal,
    Structure,
    estimate_total,
    fit_model,
    merge_marginals,
    sum_value_groups,
)
from tests.conftest import often
from tests.synthesis.budgets import assert_sound, counts_of, dependent_rows
from tests.synthesis.conftest import GRAPHS, graphs, project


@st.composite
def grouped_tables(draw):
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    groups = []
    for size in shape:
        found = draw(st.none() | st.lists(st.integers(0, size - 1), min_size=size, max_size=size))
        groups.append(None if found is None else np.unique(found, return_inverse=True)[1])
    return shape, tuple(groups), draw(st.integers(0, 1000))


@given(grouped_tables())
def test_groups_contain_the_sums_of_their_values(case):
    shape, groups, seed = case
    table = np.random.default_rng(seed).integers(0, 9, shape)
    small = sum_value_groups(table, groups)
    assert small.dtype == table.dtype
    expected = np.zeros_like(small)
    for cell in np.ndindex(table.shape):
        to = tuple(value if one is None else one[value] for value, one in zip(cell, groups, strict=True))
        expected[to] += table[cell]
    np.testing.assert_array_equal(small, expected)


def test_repeated_measurements_are_weighted():
    first, second = Marginal((0,), np.array([10.0, 20.0]), 1.0), Marginal((0,), np.array([13.0, 17.0]), 2.0)
    grouped = Marginal((0,), np.array([3.0]), 1.0, (np.array([0, 0]),))
    merged, apart = merge_marginals([first, grouped, second])
    np.testing.assert_allclose(merged.counts, [10.6, 19.4])
    assert merged.std_error == pytest.approx((1 + 1 / 4) ** -0.5)
    assert merged.groups is None
    assert apart is grouped


def fit(sizes, marginals, masks=()):
    """Fit a model; return it with the total."""
    structure = Structure(tuple(sizes), tuple(masks))
    model, _ = fit_model(structure, marginals)
    return model, estimate_total(marginals)[0]


N = 1000.0


def measure(table, marginals, std_error=1.0, noise=0.0, seed=0):
    rng = np.random.default_rng(seed)
    found = [N * project(table, columns) for columns in marginals]
    return [
        Marginal(columns, counts + noise * rng.normal(size=counts.shape), std_error)
        for columns, counts in zip(marginals, found, strict=True)
    ]


def random_table(sizes, seed=0):
    return np.random.default_rng(seed).dirichlet(np.full(int(np.prod(sizes)), 5.0)).reshape(sizes)


@pytest.mark.parametrize("name", often([name for name in GRAPHS if GRAPHS[name][1]], ["cycle"]))
def test_descent_ends_at_the_minimum(name):
    sizes, marginals = GRAPHS[name]
    measured = measure(random_table(sizes), marginals, std_error=30.0, noise=30.0)
    model, total = fit(sizes, measured)

    def loss(project_model):
        return sum(np.sum((total * project_model(m.clique) - m.counts) ** 2) / m.std_error**2 / 2 for m in measured)

    def loss_of_logits(logits):  # of the full table, without a tree
        table = np.exp(logits - logits.max()).reshape(sizes)
        table /= table.sum()
        return loss(lambda clique: project(table, clique))

    options = {"maxiter": 5000, "maxfun": 10**6}
    best = minimize(loss_of_logits, np.zeros(int(np.prod(sizes))), method="L-BFGS-B", options=options)
    assert loss(model.marginal) <= best.fun + 1e-2 * max(1, best.fun)


@pytest.mark.parametrize("counts", [[-5.0, -7.0, -1.0], [0.0, 0.0, 0.0], [1e9, -1e9, 3.0], [1e-300, 0.0, 0.0]])
def test_absurd_measurements_give_a_distribution(counts):
    measured = [Marginal((0,), np.array(counts), 1.0), Marginal((0, 1), np.full((3, 2), -100.0), 1e-3)]
    model, total = fit((3, 2), measured)
    table = model.marginal((0, 1))
    assert total >= 1
    assert np.isfinite(table).all()
    assert (table >= 0).all()
    assert table.sum() == pytest.approx(1)


def test_descent_continues_until_each_column_is_fitted():
    """The noise of fine pairs dominated the loss: after it was fitted, columns were still 4 standard errors off."""
    size, n = 60, 20_000
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=n)
    rows = [(((hidden + 0.5 * rng.normal(size=n)) ** 3 + 8) / 16 * size).clip(0, size - 1).astype(int) for _ in "abc"]
    marginals = []
    for clique, std_error in {(0,): 2.0, (1,): 2.0, (2,): 2.0, (0, 1): 0.7, (1, 2): 0.7}.items():
        counts = counts_of(np.array(rows).T, [size] * 3, clique)
        marginals.append(Marginal(clique, counts + rng.normal(0, std_error, counts.shape), std_error))
    model, _ = fit((size,) * 3, marginals)
    for marginal in marginals:
        assert np.square((n * model.marginal(marginal.clique) - marginal.counts) / marginal.std_error).mean() < 5


def scale_table(sizes, measured, sweeps=400):
    """Scale the whole table, without a tree."""
    table = np.full(sizes, 1 / np.prod(sizes))
    for _ in range(sweeps):
        for marginal in measured:
            others = tuple(axis for axis in range(len(sizes)) if axis not in marginal.clique)
            shape = [size if axis in marginal.clique else 1 for axis, size in enumerate(sizes)]
            table = table * (marginal.counts.reshape(shape) / N / table.sum(axis=others, keepdims=True))
    return table


@settings(max_examples=max(3, settings().max_examples // 3))
@given(graphs().filter(lambda graph: graph[1]), st.integers(0, 100))
@example(GRAPHS["cycle"], 0)  # a clique shares columns with its parent that were not measured together
def test_exact_counts_give_the_table_of_largest_entropy(graph, seed):
    """Proportional fitting along a tree equals fitting of the whole table."""
    sizes, marginals = graph
    tree = JunctionTree(sizes, marginals)
    measured = measure(random_table(sizes, seed), marginals, std_error=1e-4)
    table = scale_table(sizes, measured)
    model, _ = fit(sizes, measured)
    for clique, belief in zip(tree.cliques, model.beliefs, strict=True):
        np.testing.assert_allclose(belief, project(table, clique), atol=5e-3)


SIZES = (3, 4, 2)
ROWS = dependent_rows(SIZES, 400)


def exact(clique, std_error=0.3, groups=None):
    return Marginal(clique, sum_value_groups(counts_of(ROWS, SIZES, clique), groups), std_error, groups)


def test_grouped_marginals_reproduce_the_sums_of_groups():
    groups = (np.array([0, 1, 1]), np.array([0, 0, 1, 0]))
    measured = [exact((0,)), exact((0, 1), groups=groups), exact((1, 2), groups=(groups[1], None))]
    model, total = fit(SIZES, measured)
    for marginal in measured:
        found = sum_value_groups(model.marginal(marginal.clique), marginal.groups)
        np.testing.assert_allclose(total * found, marginal.counts, atol=1)


def test_impossible_cells_have_probability_0():
    pair, triple = np.zeros((3, 2), bool), np.zeros(SIZES, bool)
    pair[1, 0] = triple[0, 3, 1] = triple[2, :, 0] = True
    noisy = [exact((0, 1), 5.0), exact((1, 2), 5.0), exact((0,), 1.0)]
    for zeros in [[((0, 2), pair)], [((0, 1, 2), triple)], [((0, 2), pair), ((0, 1, 2), triple)]]:
        model, _ = fit(SIZES, noisy, zeros)
        assert_sound(model)
        for clique, impossible in zeros:
            assert (model.marginal(clique)[impossible] == 0).all()
            if len(zeros) == 1:
                assert (model.marginal(clique)[~impossible] > 0).all()
