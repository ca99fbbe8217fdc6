"""Models from noisy counts: groups, the optimum, scaling, impossible cells."""

import functools
import itertools

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import logsumexp

from skdp.synthesis.model import (
    JunctionTree,
    Marginal,
    Structure,
    _estimation,
    estimate_total,
    fit_model,
    merge_marginals,
    sum_value_groups,
)
from skdp.synthesis.model._tables import combine_nonnegative_levels
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
    groups = (np.array([0, 0]),)
    grouped, again = Marginal((0,), np.array([3.0]), 1.0, groups), Marginal((0,), np.array([8.0]), 2.0, groups)
    merged, together = merge_marginals([first, grouped, second, again])
    np.testing.assert_allclose(merged.counts, [10.6, 19.4])
    assert merged.std_error == together.std_error == pytest.approx((1 + 1 / 4) ** -0.5)
    assert merged.groups is None
    np.testing.assert_allclose(together.counts, [4.0])
    np.testing.assert_array_equal(together.groups, groups)


def test_groups_of_single_values_are_counts_of_values():
    order = np.array([2, 0, 1])
    grouped = Marginal((0, 1), np.arange(6.0).reshape(2, 3), 1.0, (np.array([0, 1]), order))
    (merged,) = merge_marginals([grouped])
    assert merged.groups is None
    np.testing.assert_array_equal(merged.counts, grouped.counts[:, order])


def noisy_levels(size, seed):
    """Return noisy counts of values, with negative ones, of pairs of values, and of all values."""
    rng = np.random.default_rng(seed)
    truth = rng.poisson(3.0, size) * (rng.random(size) < 0.5) + np.eye(size)[0]
    levels = []
    for groups, std_error in ((None, 4.0), (np.arange(size) // 2, 1.0), (np.zeros(size, int), 0.1)):
        counts = truth if groups is None else np.bincount(groups, truth)
        given = None if groups is None else (groups,)
        levels.append(Marginal((0,), counts + std_error * rng.normal(size=counts.size), std_error, given))
    return levels


@pytest.mark.parametrize("seed", range(5))
def test_nonnegative_counts_minimize_the_weighted_squares(seed):
    size = 7
    levels = noisy_levels(size, seed)
    known = np.full(size, np.nan)
    known[2] = 1.5

    def loss(counts):
        sums = [sum_value_groups(counts, level.groups) - level.counts for level in levels]
        return sum(np.sum((s / level.std_error) ** 2) for s, level in zip(sums, levels, strict=True))

    found = combine_nonnegative_levels(levels, size, known)
    assert found[2] == 1.5
    assert (found >= 0).all()
    bounds = [(0, None)] * size
    bounds[2] = (1.5, 1.5)
    best = minimize(loss, np.ones(size), bounds=bounds, method="L-BFGS-B", options={"maxiter": 10_000, "ftol": 1e-15})
    assert loss(found) <= best.fun * 1.05  # values that become 0 stay 0


def fit(sizes, marginals, masks=(), *, ordered=False):
    """Fit a model; return it with the total."""
    structure = Structure(tuple(sizes), tuple(masks), n_ordered=tuple(sizes) if ordered else ())
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


def entropy_model(sizes, measured, ordered):
    """Minimize the penalized divergence from independent columns over all tables, without a tree.

    The measured marginals are pairs. Their penalties are read from the fit.
    """
    factors = []
    plan_sweep = _estimation._plan_sweep

    def record(tree, masks, found, columns):
        factors.append((found, columns))
        return plan_sweep(tree, masks, found, columns)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_estimation, "_plan_sweep", record)
        fit(sizes, measured, ordered=ordered)
    factors, columns = factors[0]
    table = functools.reduce(np.multiply.outer, columns)
    cells = np.indices(sizes).reshape(len(sizes), -1)
    design, offsets, penalties = [], [], []
    for factor in factors:
        shape = tuple(sizes[column] for column in factor.clique)
        design.append(np.eye(np.prod(shape))[np.ravel_multi_index(cells[list(factor.clique)], shape)])
        for level in factor._levels:
            offsets.append(level.target.ravel())
            penalties.append(level.penalties.ravel())
            if level.sums is not None:
                design.append(design[-1] @ np.eye(level.sums.max() + 1)[level.sums])
    for column, proportions in enumerate(columns):
        design.append(np.eye(sizes[column])[cells[column]])
        offsets.append(proportions)
        penalties.append(np.zeros(proportions.size))
    design, offsets, penalties = np.hstack(design), np.concatenate(offsets), np.concatenate(penalties)

    def dual(logs):
        weights = np.log(table.ravel()) + design @ logs
        total = logsumexp(weights)
        gradient = design.T @ np.exp(weights - total) - offsets + penalties * logs
        return total - logs @ offsets + penalties @ logs**2 / 2, gradient

    options = {"maxiter": 20_000, "maxfun": 10**6, "ftol": 1e-16, "gtol": 1e-9, "maxcor": 50}
    best = minimize(dual, np.zeros(offsets.size), jac=True, method="L-BFGS-B", options=options)
    weights = np.log(table.ravel()) + design @ best.x
    return np.exp(weights - logsumexp(weights)).reshape(sizes)


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("std_error", [1.0, 30.0])
@pytest.mark.parametrize("name", ["chain", "cycle", "apart"])
def test_model_minimizes_the_penalized_divergence(name, std_error, ordered, monkeypatch):
    """Fitting along the tree equals minimization over the whole table, also with contradictory noise."""
    monkeypatch.setattr(_estimation, "MAX_RESIDUAL", 1e-7)
    monkeypatch.setattr(_estimation, "MAX_SWEEPS", 3_000)
    sizes, marginals = GRAPHS[name]
    measured = measure(random_table(sizes), marginals, std_error=std_error, noise=std_error)
    best = entropy_model(sizes, measured, ordered)
    model, _ = fit(sizes, measured, ordered=ordered)
    for clique, belief in zip(model.tree.cliques, model.beliefs, strict=True):
        np.testing.assert_allclose(belief, project(best, clique), atol=2e-5)


def test_model_is_nearer_with_less_noise():
    sizes, marginals = GRAPHS["cycle"]
    exact = scale_table(sizes, measure(random_table(sizes), marginals))
    distances = []
    for std_error in (300.0, 30.0, 1.0, 0.001):
        fitted = [
            fit(sizes, measure(random_table(sizes), marginals, std_error, std_error, seed))[0] for seed in range(8)
        ]
        cliques = fitted[0].tree.cliques
        distances.append(
            np.mean([np.abs(m.marginal(c) - project(exact, c)).sum() / 2 for m in fitted for c in cliques])
        )
    assert (np.diff(distances) < 1e-4).all(), distances
    assert distances[-1] < 1e-3


@pytest.mark.parametrize("rare", [0.5, 0.1, 0.01])
def test_dependence_of_two_binary_columns_is_the_squared_correlation(rare):
    """Penalties of a rare label were 1 / rare times too large."""
    first, second = np.array([0.3, 0.7]), np.array([rare, 1 - rare])
    shift = 0.1 * rare * np.array([[1, -1], [-1, 1]])
    correlation = shift[0, 0] / np.sqrt(np.prod(first) * np.prod(second))
    found = _estimation._estimate_dependence(np.outer(first, second) + shift, [first, second], 1e-18)
    assert found == pytest.approx(correlation**2, rel=1)  # plus a standard error, with 4 cells
    assert found >= correlation**2


def test_contradictory_noise_does_not_slow_the_fit():
    """Fits without the removal of main effects took hundreds of sweeps."""
    size, n = 12, 20_000
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=n)
    rows = np.array([np.clip(3 * hidden + rng.normal(size=n) + 6, 0, size - 1).astype(int) for _ in range(4)]).T
    marginals = []
    for clique in itertools.combinations(range(4), 2):
        counts = counts_of(rows, [size] * 4, clique)
        marginals.append(Marginal(clique, counts + rng.normal(0, 10, counts.shape), 10.0))
    _, n_sweeps = fit_model(Structure((size,) * 4), marginals)
    assert n_sweeps <= 12


@pytest.mark.parametrize(("n", "size", "noise"), [(32_000, 26, 35.0), (8_000, 18, 16.0)])
def test_noise_on_fine_cells_does_not_flatten_a_pair(n, size, noise):
    """The nearest nonnegative table kept 0.60 and 0.68 of a correlation of 0.7, which the noisy counts keep."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=n)
    y = 0.7 * x + 0.714 * rng.normal(size=n)
    rows = np.array([column.argsort().argsort() * size // n for column in (x, y)]).T
    clique_counts = {clique: counts_of(rows, (size, size), clique) for clique in [(0,), (1,), (0, 1)]}
    marginals = [Marginal(c, t + rng.normal(0, noise, t.shape), noise) for c, t in clique_counts.items()]
    scores = np.multiply.outer(*[np.arange(size) - (size - 1) / 2] * 2)
    true = (scores * clique_counts[0, 1]).sum() / n
    distances = {}
    for ordered in (False, True):
        table = fit((size, size), marginals, ordered=ordered)[0].marginal((0, 1))
        distances[ordered] = np.abs(table - clique_counts[0, 1] / n).sum()
        if ordered:
            assert (scores * table).sum() == pytest.approx(true, rel=0.05)
    assert distances[True] < 0.9 * distances[False]


def test_residual_states_that_the_fit_did_not_converge(monkeypatch):
    sizes, marginals = GRAPHS["cycle"]
    measured = measure(random_table(sizes), marginals, std_error=0.5)
    assert max(fit(sizes, measured)[0].residuals.values()) < 0.5
    monkeypatch.setattr(_estimation, "MAX_SWEEPS", 1)
    assert max(fit(sizes, measured)[0].residuals.values()) > 1


@pytest.mark.parametrize("counts", [[-5.0, -7.0, -1.0], [0.0, 0.0, 0.0], [1e9, -1e9, 3.0], [1e-300, 0.0, 0.0]])
def test_absurd_measurements_give_a_distribution(counts):
    measured = [Marginal((0,), np.array(counts), 1.0), Marginal((0, 1), np.full((3, 2), -100.0), 1e-3)]
    model, total = fit((3, 2), measured)
    table = model.marginal((0, 1))
    assert total >= 1
    assert np.isfinite(table).all()
    assert (table >= 0).all()
    assert table.sum() == pytest.approx(1)


def test_each_column_is_fitted():
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


@pytest.mark.parametrize("seed", [19, 27, 141, 164])
def test_counts_with_little_noise_that_contradict_each_other_give_finite_proportions(seed):
    """Factors of thousands of standard errors underflowed, and all proportions were NaN."""
    rng = np.random.default_rng(seed)
    sizes = tuple(rng.integers(2, 5, 4).tolist())
    n = int(rng.choice([1_000, 10_000, 100_000]))
    hidden = rng.integers(0, 2, n)
    rows = []
    for column, size in enumerate(sizes):
        is_random = rng.random(n) < rng.choice([0, 0.001])
        rows.append(np.where(is_random, rng.integers(0, size, n), (hidden * column + column % 2) % size))
    marginals = []
    for clique in [*itertools.combinations(range(4), 2), *itertools.combinations(range(4), 3)]:
        if rng.random() < 0.6:
            shape = [sizes[column] for column in clique]
            cells = np.ravel_multi_index([rows[column] for column in clique], shape)
            counts = np.bincount(cells, minlength=np.prod(shape)).reshape(shape)
            std_error = float(rng.choice([0.5, 2, 10]))
            marginals.append(Marginal(clique, counts + rng.normal(size=shape) * std_error, std_error))
    model, _ = fit(sizes, marginals)
    for belief in model.beliefs:
        assert belief.min() >= 0
        assert belief.sum() == pytest.approx(1)
