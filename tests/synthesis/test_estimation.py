from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from skdp import DPMarginalSynthesizer
from skdp.synthesis.model import (
    JunctionTree,
    Marginal,
    count_cells,
    estimate_total,
    fit_model,
    independent_start,
    merge,
)
from tests.conftest import each, often
from tests.synthesis.conftest import GRAPHS, graphs, project

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


@settings(max_examples=max(3, settings().max_examples // 3))
@given(graphs().filter(lambda graph: graph[1]), st.integers(0, 100))
def test_measurements_without_noise_are_reproduced(graph, seed):
    sizes, marginals = graph
    tree = JunctionTree(sizes, marginals)
    measured = measure(random_table(sizes, seed), marginals)
    fit = fit_model(tree, measured, N, max_iter=20_000, tol=0)
    for marginal in measured:
        np.testing.assert_allclose(N * fit.model.marginal(marginal.clique), marginal.counts, atol=N * 1e-6)


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


def test_the_same_input_gives_the_same_model():
    sizes, marginals = GRAPHS["cycle"]
    tree = JunctionTree(sizes, marginals)
    measured = measure(random_table(sizes), marginals, noise=5.0)
    first, second = (fit_model(tree, measured, N) for _ in range(2))
    for one, other in zip(first.model.beliefs, second.model.beliefs, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_warm_start_is_where_the_last_fit_ended():
    sizes, marginals = GRAPHS["chain"]
    tree = JunctionTree(sizes, marginals)
    measured = measure(random_table(sizes), marginals, noise=5.0)
    fit = fit_model(tree, measured, N, tol=1e-9)
    again = fit_model(tree, measured, N, start=fit.potentials, tol=1e-3)
    assert again.losses[0] == pytest.approx(fit.losses[-1])
    assert len(again.losses) < len(fit.losses)


def test_factors_go_on_where_the_last_fit_ended_in_another_tree():
    sizes, marginals = GRAPHS["chain"]
    measured = measure(random_table(sizes), marginals, noise=5.0)
    fit = fit_model(JunctionTree(sizes, marginals), measured, N, tol=1e-9)
    more = [*marginals, (2, 4)]
    tree = JunctionTree(sizes, more)
    assert len(tree.cliques) != len(fit.model.tree.cliques)
    again = fit_model(tree, measured, N, factors=fit.factors, max_iter=1)
    assert again.losses[0] == pytest.approx(fit.losses[-1])
    # Of several releases of the same columns, one gets the factor; where a column follows, none does.
    grouped = Marginal((0, 1), np.zeros((1, 1)), 1e9, (np.zeros(3, int), np.zeros(4, int)))
    twice = fit_model(tree, [*measured, grouped], N, factors=fit.factors, max_iter=1)
    assert twice.losses[0] == pytest.approx(fit.losses[-1])
    counted = [Marginal(m.clique, m.counts, m.std_error, counted=np.ones(m.shape, bool)) for m in measured]
    assert fit_model(tree, counted, N, factors=fit.factors).losses[0] == fit_model(tree, counted, N).losses[0]


def test_a_model_that_was_scaled_is_more_than_its_factors():
    sizes, marginals = GRAPHS["cycle"]
    tree = JunctionTree(sizes, marginals)
    rough, exact = (measure(random_table(sizes), marginals, std_error=error) for error in (100.0, 1e-3))
    assert set(fit_model(tree, rough, N).factors) == set(marginals)
    assert fit_model(tree, exact, N).factors == {}


def test_structural_zeros_stay():
    sizes, marginals = GRAPHS["cycle"]
    tree = JunctionTree(sizes, marginals)
    start = [np.zeros([sizes[column] for column in clique]) for clique in tree.cliques]
    start[0].flat[0] = -np.inf
    fit = fit_model(tree, measure(random_table(sizes), marginals), N, start=start)
    assert fit.model.marginal(tree.cliques[0]).flat[0] == 0


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


def test_repeated_measurements_are_weighted():
    first, second = Marginal((0,), np.array([10.0, 20.0]), 1.0), Marginal((0,), np.array([13.0, 17.0]), 2.0)
    (merged,) = merge([first, second])
    np.testing.assert_allclose(merged.counts, [10.6, 19.4])
    assert merged.std_error == pytest.approx((1 + 1 / 4) ** -0.5)


def test_the_total_is_weighted_by_the_number_of_cells():
    few, many = Marginal((0,), np.array([60.0, 40.0]), 3.0), Marginal((1,), np.full(8, 25.0), 3.0)
    total, error = estimate_total([few, many])
    assert total == pytest.approx((100 / 2 + 200 / 8) / (1 / 2 + 1 / 8))
    assert error == pytest.approx((1 / 18 + 1 / 72) ** -0.5)


def test_a_marginal_that_no_clique_holds_is_refused():
    with pytest.raises(ValueError, match="no clique"):
        fit_model(JunctionTree([2, 2], []), [Marginal((0, 1), np.zeros((2, 2)), 1.0)], N)


def test_a_smaller_tol_explains_more():
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 9, (2, 5000)) // [[1], [2]]
    frame = pd.DataFrame({"a": a, "b": b, "c": (a * b + rng.integers(0, 3, 5000)) % 7})
    pairs = [("a", "b"), ("b", "c"), ("a", "c")]
    steps, errors = [], []
    for tol in (0.9, 0.01):
        fit = DPMarginalSynthesizer(
            30.0, domain={"a": range(9), "b": range(5), "c": range(7)}, marginals=pairs, tol=tol, random_state=0
        ).fit(frame)
        have = [fit.model_.marginal(marginal.clique) * fit.n_rows_ - marginal.counts for marginal in fit.marginals_]
        steps.append(fit.n_iter_)
        errors.append(sum(float(np.square(error).sum()) for error in have))
    assert steps[1] > steps[0]
    assert errors[1] < errors[0]


@each("tol", [0, 1, -0.1, True, "0.5", None, float("nan")])
def test_tolerances_that_are_refused(tol):
    with pytest.raises(ValueError, match="tol must be a number between 0 and 1"):
        DPMarginalSynthesizer(tol=tol, domain={"a": [0, 1]}).fit(pd.DataFrame({"a": [0, 1]}))


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
