"""From noisy counts to a model: groups, descents, scaling, what cannot occur."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from skdp.synthesis.model import (
    JunctionTree,
    Marginal,
    count_cells,
    count_pairs,
    cover,
    estimate_total,
    fit_model,
    group,
    hubs_of,
    independent_start,
    merge,
    spread,
)
from skdp.synthesis.selection import fit_table
from tests.conftest import each, often
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
def test_groups_hold_the_sums_of_their_values(case):
    shape, groups, seed = case
    table = np.random.default_rng(seed).integers(0, 9, shape)
    small = group(table, groups)
    assert small.dtype == table.dtype
    expected = np.zeros_like(small)
    for cell in np.ndindex(table.shape):
        to = tuple(value if one is None else one[value] for value, one in zip(cell, groups, strict=True))
        expected[to] += table[cell]
        assert spread(small, groups)[cell] == small[to]
    np.testing.assert_array_equal(small, expected)


def test_repeated_measurements_are_weighted_and_grouped_values_stay_apart():
    first, second = Marginal((0,), np.array([10.0, 20.0]), 1.0), Marginal((0,), np.array([13.0, 17.0]), 2.0)
    grouped = Marginal((0,), np.array([3.0]), 1.0, (np.array([0, 0]),))
    merged, apart = merge([first, grouped, second])
    np.testing.assert_allclose(merged.counts, [10.6, 19.4])
    assert merged.std_error == pytest.approx((1 + 1 / 4) ** -0.5)
    assert merged.groups is None
    assert apart is grouped


@given(st.data())
def test_each_marginal_is_within_one_that_is_counted(data):
    sizes = data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=6))
    subsets = [c for order in (1, 2, 3) for c in itertools.combinations(range(len(sizes)), order)]
    cliques = data.draw(st.lists(st.sampled_from(subsets), max_size=12))
    most = data.draw(st.integers(1, 300))
    counted = cover(cliques, sizes, most)
    for clique in cliques:
        assert any(set(clique) <= set(larger) for larger in counted)
    for larger in counted:
        assert list(larger) == sorted(set(larger))
        assert larger in cliques or math.prod(sizes[column] for column in larger) <= most
    assert len(counted) <= len(set(cliques))


@each("n", [0, 1, 5000])
def test_pairs_that_are_counted_together_are_those_counted_one_by_one(n):
    rng, sizes = np.random.default_rng(0), (2, 3, 4, 1, 5)
    codes = [rng.integers(0, size, n).astype(np.uint8) for size in sizes]
    all_pairs = list(itertools.combinations(range(len(sizes)), 2))
    # Of columns that pairs share, only these are multiplied with all.
    with_shared = [pair for pair in all_pairs if {0, 1} & set(pair)]
    assert hubs_of(all_pairs, sizes) == [0, 1, 2, 3, 4]
    assert hubs_of(with_shared, sizes) == [0, 1]
    for pairs in (all_pairs, with_shared):
        counts = count_pairs(codes, sizes, pairs)
        assert list(counts) == pairs
        for pair in pairs:
            expected = count_cells([codes[column] for column in pair], [sizes[column] for column in pair])
            np.testing.assert_array_equal(counts[pair], expected)


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
def test_the_loss_never_rises_and_ends_at_the_minimum(name):
    sizes, marginals = GRAPHS[name]
    tree = JunctionTree(sizes, marginals)
    measured = measure(random_table(sizes), marginals, std_error=30.0, noise=30.0)
    fit = fit_model(tree, measured, N, max_iter=20_000, tol=0)
    assert all(after <= before for before, after in zip(fit.losses, fit.losses[1:], strict=False))

    def loss(logits):  # of the full table, without any tree
        table = np.exp(logits - logits.max()).reshape(sizes)
        table /= table.sum()
        return sum(np.sum((N * project(table, m.clique) - m.counts) ** 2) / m.std_error**2 / 2 for m in measured)

    best = minimize(loss, np.zeros(int(np.prod(sizes))), method="L-BFGS-B", options={"maxiter": 5000, "maxfun": 10**6})
    assert fit.losses[-1] <= best.fun + 1e-3 * max(1, best.fun)


@each("counts", [[-5.0, -7.0, -1.0], [0.0, 0.0, 0.0], [1e9, -1e9, 3.0], [1e-300, 0.0, 0.0]])
def test_absurd_measurements_give_a_distribution(counts):
    tree = JunctionTree([3, 2], [(0,), (0, 1)])
    measured = [Marginal((0,), np.array(counts), 1.0), Marginal((0, 1), np.full((3, 2), -100.0), 1e-3)]
    total, _ = estimate_total(measured)
    fit = fit_model(tree, measured, total)
    table = fit.model.marginal((0, 1))
    assert total >= 1
    assert np.isfinite(table).all()
    assert (table >= 0).all()
    assert table.sum() == pytest.approx(1)


def test_the_total_is_weighted_by_the_number_of_cells():
    few, many = Marginal((0,), np.array([60.0, 40.0]), 3.0), Marginal((1,), np.full(8, 25.0), 3.0)
    total, error = estimate_total([few, many])
    assert total == pytest.approx((100 / 2 + 200 / 8) / (1 / 2 + 1 / 8))
    assert error == pytest.approx((1 / 18 + 1 / 72) ** -0.5)


def test_a_descent_goes_on_until_each_column_is_fitted():
    """The noise of fine pairs was most of the loss: once it was fitted, columns remained 4 standard errors off."""
    size, n = 60, 20_000
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=n)
    rows = [(((hidden + 0.5 * rng.normal(size=n)) ** 3 + 8) / 16 * size).clip(0, size - 1).astype(int) for _ in "abc"]
    marginals = []
    for clique, std_error in {(0,): 2.0, (1,): 2.0, (2,): 2.0, (0, 1): 0.7, (1, 2): 0.7}.items():
        counts = count_cells([rows[column] for column in clique], [size] * len(clique))
        marginals.append(Marginal(clique, counts + rng.normal(0, std_error, counts.shape), std_error))
    tree = JunctionTree((size,) * 3, [marginal.clique for marginal in marginals])
    shares = [marginal.counts.clip(1) / marginal.counts.clip(1).sum() for marginal in marginals[:3]]
    start = independent_start(tree, shares)
    model = fit_model(tree, marginals, n, start=start).model
    for marginal in marginals:
        assert np.square((n * model.marginal(marginal.clique) - marginal.counts) / marginal.std_error).mean() < 5


def scale_table(sizes, measured, sweeps=400):
    """Scale the whole table, without any tree."""
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
def test_exact_counts_give_the_table_of_the_largest_entropy(graph, seed):
    """Proportional fitting along a tree is that of the whole table."""
    sizes, marginals = graph
    tree = JunctionTree(sizes, marginals)
    measured = measure(random_table(sizes, seed), marginals, std_error=1e-4)
    table = scale_table(sizes, measured)
    model = fit_model(tree, measured, N, max_iter=2000, tol=1e-6).model
    for clique, belief in zip(tree.cliques, model.beliefs, strict=True):
        np.testing.assert_allclose(belief, project(table, clique), atol=1e-4)


SIZES = (3, 4, 2)
ROWS = dependent_rows(SIZES, 400)


def exact(clique, std_error=0.3, groups=None):
    return Marginal(clique, group(counts_of(ROWS, SIZES, clique), groups), std_error, groups)


def test_very_uneven_shares_do_not_stop_the_descent():
    """A step that is divided by the root of the shares may lead up: it was halved until the steps were used up."""
    table = np.array([[900.0, 0, 0], [0, 90, 0], [0, 0, 9]])
    fitted = fit_table((3, 3), [Marginal((0, 1), table, 0.01)])
    np.testing.assert_allclose(fitted.total * fitted.model.marginal((0, 1)), table, atol=1)


def test_grouped_marginals_reproduce_the_sums_of_groups():
    groups = (np.array([0, 1, 1]), np.array([0, 0, 1, 0]))
    measured = [exact((0,)), exact((0, 1), groups=groups), exact((1, 2), groups=(groups[1], None))]
    fitted = fit_table(SIZES, measured)
    for marginal in measured:
        found = group(fitted.model.marginal(marginal.clique), marginal.groups)
        np.testing.assert_allclose(fitted.total * found, marginal.counts, atol=0.5)


def test_what_cannot_occur_has_probability_0():
    pair, triple = np.zeros((3, 2), bool), np.zeros(SIZES, bool)
    pair[1, 0] = triple[0, 3, 1] = triple[2, :, 0] = True
    noisy = [exact((0, 1), 5.0), exact((1, 2), 5.0), exact((0,), 1.0)]
    for zeros in [[((0, 2), pair)], [((0, 1, 2), triple)], [((0, 2), pair), ((0, 1, 2), triple)]]:
        fitted = fit_table(SIZES, noisy, zeros=zeros)
        assert_sound(fitted)
        for clique, impossible in zeros:
            assert (fitted.model.marginal(clique)[impossible] == 0).all()
            if len(zeros) == 1:
                assert (fitted.model.marginal(clique)[~impossible] > 0).all()
