"""Proportional fitting along a tree is that of the whole table."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from skdp.synthesis.model import JunctionTree, Marginal, fit_model
from skdp.synthesis.model._inference import Scaling
from tests.conftest import each
from tests.synthesis.conftest import GRAPHS, graphs, model_of, project
from tests.synthesis.test_estimation import N, measure, random_table

SWEEPS = 400


def scale_table(sizes, measured, sweeps):
    """Scale the whole table, without any tree."""
    table = np.full(sizes, 1 / np.prod(sizes))
    for _ in range(sweeps):
        for marginal in measured:
            others = tuple(axis for axis in range(len(sizes)) if axis not in marginal.clique)
            shape = [size if axis in marginal.clique else 1 for axis, size in enumerate(sizes)]
            table = table * (marginal.counts.reshape(shape) / N / table.sum(axis=others, keepdims=True))
    return table


def scale(tree, measured, sweeps, start=None):
    scaling, beliefs = Scaling(tree, measured, N), start or model_of(tree).beliefs
    for _ in range(sweeps):
        beliefs = scaling.sweep(beliefs)
    return beliefs


@settings(max_examples=max(3, settings().max_examples // 3))
@given(graphs().filter(lambda graph: graph[1]), st.integers(0, 100))
@example(GRAPHS["cycle"], 0)  # a clique shares columns with its parent that were not measured together
def test_the_limit_is_that_of_the_whole_table(graph, seed):
    """It has the marginals, and of all such tables the largest entropy."""
    sizes, marginals = graph
    tree = JunctionTree(sizes, marginals)
    measured = measure(random_table(sizes, seed), marginals, std_error=1e-9)
    table = scale_table(sizes, measured, SWEEPS)
    for clique, belief in zip(tree.cliques, scale(tree, measured, SWEEPS), strict=True):
        np.testing.assert_allclose(belief, project(table, clique), atol=1e-7)


@each("name", [name for name in GRAPHS if GRAPHS[name][1]])
def test_a_sweep_leaves_cliques_that_agree(name):
    """Even where the measurements do not agree with each other."""
    sizes, marginals = GRAPHS[name]
    tree = JunctionTree(sizes, marginals)
    beliefs = scale(tree, measure(random_table(sizes), marginals, std_error=9.0, noise=9.0), 1)
    for link in tree.links:
        shared = [
            project(beliefs[place], [tree.cliques[place].index(column) for column in link.separator])
            for place in (link.child, link.parent)
        ]
        np.testing.assert_allclose(*shared, atol=1e-12)
    assert [belief.sum() for belief in beliefs] == pytest.approx([1] * len(beliefs))


def test_what_cannot_occur_stays_so():
    tree = JunctionTree([2, 2, 2], [(0, 1), (1, 2)])
    start = [np.array([[0.5, 0.0], [0.25, 0.25]]), np.full((2, 2), 0.25) * [[1.5], [0.5]]]
    measured = measure(random_table([2, 2, 2]), [(0, 1), (1, 2)])
    assert scale(tree, measured, 5, start)[0][0, 1] == 0


def test_what_has_the_least_noise_is_met_best():
    rough = Marginal((0,), np.array([500.0, 500.0]), 5.0)
    exact = Marginal((0, 1), np.array([[100.0, 200.0], [300.0, 400.0]]), 1e-9)
    for order in ([rough, exact], [exact, rough]):
        (belief,) = scale(JunctionTree([2, 2], [(0, 1)]), order, 1)
        np.testing.assert_allclose(N * belief, exact.counts)


def test_sums_are_those_of_the_marginal_with_few_cells():
    sums = Marginal((0,), np.array([500.0, 500.0]), 1.0)
    cells = Marginal((0, 1), np.array([[100.0, 200.0], [300.0, 400.0]]), 1.0)
    for order in ([sums, cells], [cells, sums]):
        (belief,) = scale(JunctionTree([2, 2], [(0, 1)]), order, 1)
        np.testing.assert_allclose(N * belief.sum(axis=1), sums.counts)


def test_groups_of_values_are_scaled_together():
    groups = (np.array([0, 1, 1]), None)
    marginal = Marginal((0, 1), np.array([[400.0, 100.0], [200.0, 300.0]]), 1e-9, groups)
    (belief,) = scale(JunctionTree([3, 2], [(0, 1)]), [marginal], 3)
    np.testing.assert_allclose(belief, [[0.4, 0.1], [0.1, 0.15], [0.1, 0.15]], atol=1e-9)


def test_a_count_of_nothing_does_not_forbid():
    marginal = Marginal((0,), np.array([1003.0, -3.0]), 2.0)
    (belief,) = scale(JunctionTree([2], [(0,)]), [marginal], 1)
    assert 0 < belief[1] < 2.0 / N


def test_ten_million_records_take_few_steps():
    sizes = [30, 20, 15, 10]
    marginals = [(0, 1), (1, 2), (2, 3), (0, 3)]
    table = np.random.default_rng(0).dirichlet(np.full(int(np.prod(sizes)), 0.002)).reshape(sizes)
    total, rng = 1e7, np.random.default_rng(1)
    exact = {columns: total * project(table, columns) for columns in marginals}
    measured = [Marginal(columns, counts + rng.normal(0, 5, counts.shape), 5.0) for columns, counts in exact.items()]
    fit = fit_model(JunctionTree(sizes, marginals), measured, total)
    assert len(fit.losses) < 100
    assert all(after <= before for before, after in zip(fit.losses, fit.losses[1:], strict=False))
    for columns, counts in exact.items():
        assert np.abs(total * fit.model.marginal(columns) - counts).sum() < 0.001 * total


@pytest.mark.parametrize(("std_error", "scaled"), [(0.3, True), (100.0, False)])
def test_only_what_is_nearly_exact_is_scaled(monkeypatch, std_error, scaled):
    sweeps = []
    sweep = Scaling.sweep
    monkeypatch.setattr(Scaling, "sweep", lambda self, beliefs: sweeps.append(self) or sweep(self, beliefs))
    sizes, marginals = GRAPHS["cycle"]
    table = np.random.default_rng(0).dirichlet(np.full(int(np.prod(sizes)), 0.05)).reshape(sizes)
    fit_model(JunctionTree(sizes, marginals), measure(table, marginals, std_error=std_error), N)
    assert bool(sweeps) == scaled


def test_sweeps_count_as_steps():
    sizes, marginals = GRAPHS["cycle"]
    measured = measure(random_table(sizes), marginals, std_error=1e-3)
    fit = fit_model(JunctionTree(sizes, marginals), measured, N, max_iter=3)
    assert len(fit.losses) <= 4
