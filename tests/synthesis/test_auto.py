from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skdp.synthesis.selection import Plan, _auto, _strategy
from skdp.synthesis.selection import _auto as _guesses
from skdp.synthesis.selection._auto import measure_auto
from skdp.synthesis.selection._following import Cells
from tests.conftest import each
from tests.synthesis.budgets import assert_sound, counts_of, dependent_rows, make_budget, private_table

SIZES = (2, 3, 4, 3)
PAIRS = list(itertools.combinations(range(4), 2))
HUGE, TINY = Fraction(10**6), Fraction(1, 10**9)


@pytest.fixture(autouse=True)
def few_rows(monkeypatch):
    monkeypatch.setattr(_guesses, "_ROWS", 1 << 10)


def plan(sizes=SIZES, max_cells=1000, **others):
    return Plan(tuple(sizes), others.pop("ordered", (False,) * len(sizes)), max_cells, **others)


def run(amount, kind="gaussian", n=2000, seed=0, **others):
    table = private_table(dependent_rows(SIZES, n), SIZES, make_budget(kind, amount), seed)
    return table, measure_auto(table, plan(**others))


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_with_hardly_any_noise_all_pairs_are_measured_and_reproduced(kind):
    table, fitted = run(HUGE, kind, max_iter=1000)
    assert set(PAIRS) <= {marginal.clique for marginal in table.marginals}
    assert table.budget.left == 0
    rows = dependent_rows(SIZES, 2000)
    for pair in PAIRS:
        error = np.abs(fitted.total * fitted.model.marginal(pair) - counts_of(rows, SIZES, pair)).sum() / 2
        assert error < 0.005 * 2000


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_with_much_noise_no_pair_is_measured_and_columns_get_all(kind):
    table, fitted = run(TINY, kind)
    assert {marginal.clique for marginal in table.marginals} == {(0,), (1,), (2,), (3,)}
    assert len(table.marginals) == 8  # a twentieth first, then the rest
    assert table.budget.left == 0
    assert_sound(fitted)


@each("narrow, carried", [(4, False), (3, True)])
def test_a_wide_table_goes_on_from_its_first_model(monkeypatch, narrow, carried):
    monkeypatch.setattr(_auto, "_NARROW", narrow)
    given, fit = [], _strategy.fit_model
    monkeypatch.setattr(_strategy, "fit_model", lambda *of, **how: given.append(how["factors"]) or fit(*of, **how))
    run(Fraction(1, 2), max_iter=20)
    monkeypatch.setattr(_strategy, "fit_model", fit)
    assert [bool(factors) for factors in given] == [False, carried]


@pytest.mark.parametrize(("error", "most"), [(0.99, 2), (1.01, 1)])
def test_where_a_column_is_more_noise_than_counts_columns_get_all(error, most, monkeypatch):
    monkeypatch.setattr(_auto, "_relative_error", lambda *_: error)
    table, _ = run(HUGE)
    assert max(len(marginal.clique) for marginal in table.marginals) == most
    assert table.budget.left == 0


def test_without_dependence_no_pair_is_measured():
    rows = np.array(list(itertools.product(*map(range, SIZES))))
    table = private_table(rows, SIZES)
    measure_auto(table, plan())
    assert {len(marginal.clique) for marginal in table.marginals} == {1}


def test_a_second_round_finds_what_pairs_do_not_show():
    """The third column is whether the first two differ: every pair of them is independent."""
    first, second = np.random.default_rng(0).integers(0, 2, (2, 4000))
    rows = np.array([first, second, first ^ second]).T
    table = private_table(rows, (2, 2, 2), make_budget("gaussian", 10))
    fitted = measure_auto(table, plan((2, 2, 2)))
    assert (0, 1, 2) in {marginal.clique for marginal in table.marginals}
    found = fitted.model.marginal((0, 1, 2))
    assert found[0, 0, 1] + found[0, 1, 0] + found[1, 0, 0] + found[1, 1, 1] < 0.02
    assert table.budget.left == 0


@pytest.mark.parametrize("seed", [2, 3])
def test_pairs_that_show_nothing_leave_room_for_what_pairs_do_not_show(seed):
    """With little noise, pairs of independent columns were worth it by chance, and filled the model."""
    rng, sizes = np.random.default_rng(seed), (2, 2, 2, 4, 4, 4)
    rows = np.array([rng.integers(0, size, 4000) for size in sizes]).T
    rows[:, 2] = rows[:, 0] ^ rows[:, 1]
    table = private_table(rows, sizes, make_budget("gaussian", 50), seed)
    measure_auto(table, plan(sizes, max_cells=24, max_iter=30))
    assert any({0, 1, 2} <= {*marginal.clique} for marginal in table.marginals)
    assert table.budget.left == 0


def test_the_strongest_pair_is_taken_before_cheap_ones_fill_the_model():
    """By gain and noise alone it came last, and the model had no room for it."""
    sizes, n = (20, 20, 5), 10_000
    table = private_table(dependent_rows(sizes, n), sizes, make_budget("gaussian", 10))
    table.measure((0,), Fraction(1, 10))
    chosen = {}
    for gain in (1.0, 0.75):  # half or three eighths of the records
        gains = {(0, 1): gain * n, (0, 2): 0.3 * n, (1, 2): 0.3 * n}
        cells, share = Cells(sizes, (None,) * 3), Fraction(1, 2)
        chosen[gain], _ = _auto._choose(table, plan(sizes, 400), gains, cells, share, [], [], strong=False)
    assert chosen[1.0][0] == (0, 1)
    assert (0, 1) not in chosen[0.75]


def test_a_workload_that_is_all_measured_is_measured_better():
    """There is nothing else to score in the second round: this raised an error once the first round was paid for."""
    table, fitted = run(HUGE, workload=((0, 1), (1, 2)))
    assert {marginal.clique for marginal in table.marginals[-2:]} == {(0, 1), (1, 2)}
    assert table.budget.left == 0
    assert_sound(fitted)


def test_only_pairs_of_the_workload_are_measured():
    table, _ = run(Fraction(10), workload=((0, 3), (1,)))
    assert {marginal.clique for marginal in table.marginals if len(marginal.clique) > 1} == {(0, 3)}


def test_the_model_stays_small_enough():
    table, fitted = run(HUGE, max_cells=12)
    assert max(map(fitted.model.tree.n_cells, fitted.model.tree.cliques)) <= 12
    assert len(table.marginals) > 4


def test_rare_values_are_counted_together():
    rows = dependent_rows((3, 12), 3000)
    rows[:, 1] = np.where(rows[:, 1] > 2, rows[:, 1], 3)
    table = private_table(rows, (3, 12))
    measure_auto(table, plan((3, 12)))
    grouped = [marginal for marginal in table.marginals if marginal.groups is not None]
    assert [marginal.clique for marginal in grouped] == [(0, 1)]
    columns, members = grouped[0].groups
    assert columns is None
    assert members.tolist() == [9, 9, 9, 0, 1, 2, 3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_the_same_coins_give_the_same_model(kind):
    first, second, other = (run(Fraction(1), kind, seed=seed)[1] for seed in (0, 0, 1))
    assert first.total == second.total != other.total
    for one, another in zip(first.model.beliefs, second.model.beliefs, strict=True):
        np.testing.assert_array_equal(one, another)


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=5),
    st.sampled_from(["gaussian", "laplace"]),
    st.sampled_from([Fraction(1, 10**30), Fraction(1, 10**4), Fraction(1, 3), Fraction(100), Fraction(10**12)]),
    st.sampled_from([0, 1, 30, 1000]),
    st.sampled_from([1, 4, 30, 1000]),
    st.booleans(),
    st.data(),
)
def test_everything_is_spent_and_the_model_is_sound(sizes, kind, amount, n, max_cells, ordered, data):
    columns = st.sets(st.integers(0, len(sizes) - 1), min_size=1, max_size=3).map(lambda one: tuple(sorted(one)))
    workload = tuple(data.draw(st.lists(columns, max_size=3, unique=True)))
    table = private_table(dependent_rows(sizes, n), sizes, make_budget(kind, amount, 2))
    settings_ = {"max_cells": max_cells, "workload": workload, "ordered": (ordered,) * len(sizes), "max_iter": 30}
    settings_["target"] = data.draw(st.none() | st.integers(0, len(sizes) - 1))
    assert_sound(measure_auto(table, plan(sizes, **settings_)))
    assert table.budget.left == 0


def test_scores_are_shrunk_by_as_much_as_noise_explains():
    table = private_table([], SIZES, make_budget("gaussian", 1))
    noise = np.random.default_rng(0).normal(size=1000)
    error = table.budget.score_error(Fraction(1), 1000)
    nothing = np.zeros(1000)
    np.testing.assert_allclose(_auto._trusted(0.5 * error * noise, error, nothing), 0.5 * error * noise.mean())
    signal = _auto._trusted(100 * error * noise, error, nothing)
    np.testing.assert_allclose(signal, 100 * error * noise, atol=0.6 * error)
    assert (signal < 100 * error * noise).mean() > 0.95


def test_scores_that_say_nothing_are_less_what_independent_columns_would_show():
    noise, expected = np.random.default_rng(0).normal(100, 1, 1000), np.arange(1000.0)
    np.testing.assert_allclose(_auto._trusted(noise, 10.0, expected), noise.mean() - expected)
