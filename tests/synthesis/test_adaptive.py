from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skdp.synthesis.selection import Plan
from skdp.synthesis.selection import _aim as module
from skdp.synthesis.selection import _auto as _guesses
from skdp.synthesis.selection._aim import measure_adaptive
from tests.synthesis.budgets import OpenBudget, assert_sound, counts_of, dependent_rows, make_budget, private_table

SIZES = (2, 3, 4, 3)
PAIRS = list(itertools.combinations(range(4), 2))


@pytest.fixture(autouse=True)
def few_rows(monkeypatch):
    monkeypatch.setattr(_guesses, "_ROWS", 1 << 10)


def plan(sizes=SIZES, max_cells=1000, **others):
    return Plan(tuple(sizes), (False,) * len(sizes), max_cells, **others)


def run(amount, kind="gaussian", n=2000, seed=0, **others):
    table = private_table(dependent_rows(SIZES, n), SIZES, make_budget(kind, amount), seed)
    return table, measure_adaptive(table, plan(**others))


class Ledger(OpenBudget):
    """Notes each share and its use; noise is said to be as asked, though there is none."""

    def __init__(self, error, power=Fraction(1, 2)):
        super().__init__()
        self.error, self.power, self.shares, self.weights = error, power, [], []

    def std_error(self, share):
        return self.error / float(share) ** float(self.power)

    def counts(self, source, share, counts):
        self.shares.append(("counts", share))
        return super().counts(source, share, counts)

    def scores(self, source, share, scores):
        self.shares.append(("scores", share))
        return super().scores(source, share, scores)

    def choose(self, source, share, scores, weight=1):
        self.shares.append(("choice", share))
        self.weights.append(weight)
        return super().choose(source, share, scores, weight)


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_with_little_noise_pairs_are_reproduced(kind):
    table, fitted = run(Fraction(10**5), kind, max_iter=1000)
    assert table.budget.left == 0
    rows = dependent_rows(SIZES, 2000)
    for pair in PAIRS:
        error = np.abs(fitted.total * fitted.model.marginal(pair) - counts_of(rows, SIZES, pair)).sum() / 2
        assert error < 0.03 * 2000


@pytest.mark.parametrize(
    ("power", "rounds", "choice", "growth"),
    [(Fraction(1, 2), 16, Fraction(1, 10), 4), (Fraction(1), 4, Fraction(1, 4), 2)],
)
def test_how_the_budget_is_spent(power, rounds, choice, growth):
    """Columns first; then each round a choice and a measurement of fixed parts; rounds grow; the last takes all."""
    table = private_table(dependent_rows(SIZES, 500), SIZES, Ledger(1.0, power))
    measure_adaptive(table, plan())
    shares, d = table.budget.shares, len(SIZES)
    share = Fraction(1, rounds * d)
    assert sum(part for _, part in shares[:d]) == d * share * (1 - choice)
    spent = d * share * (1 - choice)
    for (one, chosen), (other, measured) in zip(shares[d::2], shares[d + 1 :: 2], strict=True):
        assert (one, other) == ("choice", "counts")
        whole = chosen + measured
        assert chosen == choice * whole
        last = spent + whole == 1
        if not last:
            assert whole in (share, growth * share)
            assert 1 - spent > 2 * whole  # or it would be the last one
            share = whole
        spent += whole
    assert spent == 1
    assert table.budget.left == 0


@pytest.mark.long
def test_noise_is_halved_only_where_the_model_hardly_changed():
    quiet = private_table(dependent_rows(SIZES, 500), SIZES, Ledger(1e-9))  # every change exceeds so little noise
    measure_adaptive(quiet, plan(max_iter=30))
    loud = private_table(dependent_rows(SIZES, 500), SIZES, Ledger(1e9))  # none does
    measure_adaptive(loud, plan(max_iter=30))
    first = Fraction(1, 64)
    assert {share for use, share in quiet.budget.shares[4:-2] if use == "choice"} == {first / 10}
    growing = [share for use, share in loud.budget.shares[4:] if use == "choice"]
    assert growing[:3] == [first / 10, first * 4 / 10, first * 16 / 10]


def test_the_worst_candidate_is_chosen():
    """Columns 1 and 2 are equal, all else is independent."""
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 3, (3000, 4))
    rows[:, 2] = rows[:, 1]
    table = private_table(rows, (3, 3, 3, 3), Ledger(0.1))
    measure_adaptive(table, plan((3, 3, 3, 3)))
    assert table.marginals[4].clique == (1, 2)


def test_a_score_is_the_weighted_distance_less_the_noise(monkeypatch):
    monkeypatch.setattr(module, "_STEPS", 500)
    monkeypatch.setattr(_guesses, "_ROWS", 1 << 17)
    rows = dependent_rows((2, 3), 200)
    table = private_table(rows, (2, 3), Ledger(2.0))
    measure_adaptive(table, plan((2, 3)))
    noise = module._MEAN_ABSOLUTE * table.budget.std_error(Fraction(1, 32) * Fraction(9, 10))
    columns = [counts_of(rows, (2, 3), (column,)) for column in range(2)]
    independent = np.outer(*columns) / 200
    distance = np.abs(counts_of(rows, (2, 3), (0, 1)) - np.rint(independent)).sum()
    kind, scores, weight = next(given for given in table.budget.given if given[0] == "choice")
    assert (kind, weight) == ("choice", 2)
    expected = [0 - round(2 * noise), 0 - round(3 * noise), 2 * (distance - round(6 * noise))]
    np.testing.assert_allclose(scores.astype(float), expected, atol=6)  # guesses are counted in a sample


def test_candidates_are_subsets_of_the_workload_weighted_by_shared_columns():
    assert module._candidates(plan((2, 3, 4))) == {
        **dict.fromkeys([(0,), (1,), (2,)], 2),
        **dict.fromkeys([(0, 1), (0, 2), (1, 2)], 4),
    }
    asked = plan(workload=((0, 1, 2), (1, 3)))
    by_hand = {
        clique: sum(len(set(clique) & set(wanted)) for wanted in asked.workload)
        for clique in [(0,), (1,), (2,), (3,), (0, 1), (0, 2), (1, 2), (1, 3), (0, 1, 2)]
    }
    assert module._candidates(asked) == by_hand
    full = module._candidates(plan(workload=((0, 1, 2, 3),)))
    assert len(full) == 4 + 6 + 4 + 1
    assert module._candidates(plan(max_cells=8)).keys() == {(0,), (1,), (2,), (3,), (0, 1), (0, 2), (0, 3)}
    assert module._candidates(plan((5,))) == {(0,): 1}
    assert module._candidates(plan((5, 5), max_cells=4)) == {}


def test_the_largest_weight_of_the_candidates_is_told():
    table = private_table(dependent_rows(SIZES, 100), SIZES, Ledger(1.0))
    measure_adaptive(table, plan())
    assert set(table.budget.weights) == {6}


def test_three_columns_of_a_workload_are_measured_together():
    first, second = np.random.default_rng(0).integers(0, 2, (2, 4000))
    rows = np.array([first, second, first ^ second]).T
    table = private_table(rows, (2, 2, 2), make_budget("gaussian", 10))
    fitted = measure_adaptive(table, plan((2, 2, 2), workload=((0, 1, 2),)))
    found = fitted.model.marginal((0, 1, 2))
    assert found[0, 0, 1] + found[0, 1, 0] + found[1, 0, 0] + found[1, 1, 1] < 0.05


def test_the_model_grows_with_what_is_spent(monkeypatch):
    limits = []
    small_enough = module._small_enough

    def note(candidates, table, plan, fitted, spent):
        found = small_enough(candidates, table, plan, fitted, spent)
        limits.append(spent)
        for clique in found:
            measured = [marginal.clique for marginal in table.marginals]
            grown = module.replace(plan, max_cells=int(plan.max_cells * spent)).fits([*measured, clique])
            assert grown or fitted.model.tree.holder(clique) is not None
        return found

    monkeypatch.setattr(module, "_small_enough", note)
    _, fitted = run(Fraction(100), max_cells=40)
    assert limits == sorted(limits)
    assert limits[0] == Fraction(9, 10) / 16 + Fraction(1, 64)
    assert limits[-1] == 1
    assert max(map(fitted.model.tree.n_cells, fitted.model.tree.cliques)) <= 40


def test_of_many_candidates_some_are_drawn_and_all_columns(monkeypatch):
    monkeypatch.setattr(module, "_MOST_CANDIDATES", 6)
    candidates = module._candidates(plan())
    first, second = (module._some(candidates, seed) for seed in (0, 1))
    assert first != second
    for some in [first, second]:
        assert {(0,), (1,), (2,), (3,)} <= set(some) <= set(candidates)
        assert len(some) <= 6 + 4
    monkeypatch.setattr(module, "_MOST_CANDIDATES", 10)
    assert module._some(candidates, 0) == list(candidates)


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_the_same_coins_give_the_same_model(kind):
    first, second, other = (run(Fraction(1), kind, n=300, seed=seed, max_iter=30)[1] for seed in (0, 0, 1))
    assert first.total == second.total != other.total
    for one, another in zip(first.model.beliefs, second.model.beliefs, strict=True):
        np.testing.assert_array_equal(one, another)


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.sampled_from(["gaussian", "laplace"]),
    st.sampled_from([Fraction(1, 10**40), Fraction(1, 10**4), Fraction(1, 3), Fraction(100), Fraction(10**12)]),
    st.sampled_from([0, 1, 30, 1000]),
    st.sampled_from([1, 4, 30, 1000]),
    st.data(),
)
def test_everything_is_spent_and_the_model_is_sound(sizes, kind, amount, n, max_cells, data):
    columns = st.sets(st.integers(0, len(sizes) - 1), min_size=1, max_size=4).map(lambda one: tuple(sorted(one)))
    workload = tuple(data.draw(st.lists(columns, max_size=3, unique=True)))
    table = private_table(dependent_rows(sizes, n), sizes, make_budget(kind, amount, 2))
    assert_sound(measure_adaptive(table, plan(sizes, max_cells, workload=workload, max_iter=30)))
    assert table.budget.left == 0


def test_what_cannot_occur_does_not():
    impossible = np.zeros((2, 3), bool)
    impossible[0, 1] = True
    _, fitted = run(Fraction(100), n=300, zeros=(((0, 1), impossible),))
    assert_sound(fitted)
    assert fitted.model.marginal((0, 1))[0, 1] == 0


def test_what_follows_from_a_column_is_kept():
    """120 values of which each has one of 12: 3 % of the rows contradicted it."""
    rng = np.random.default_rng(0)
    first = rng.integers(0, 120, 6000)
    rows, sizes = np.column_stack([first, first % 12, rng.integers(0, 2, 6000)]), (120, 12, 2)
    fitted = measure_adaptive(private_table(rows, sizes, make_budget("gaussian", 2)), plan(sizes, 10**5))
    kept = fitted.model.marginal((0, 1))[np.arange(120), np.arange(120) % 12].sum()
    assert kept > 0.99


def test_a_pair_that_may_follow_is_scored_for_its_share_of_the_budget():
    sizes = (120, 12, 2)
    table = private_table(dependent_rows(sizes, 500), sizes, Ledger(1e-3))
    measure_adaptive(table, plan(sizes, 10**5, max_iter=5))
    assert [(kind, scores.size) for kind, scores, *_ in table.budget.given if kind == "scores"] == [("scores", 1)]
    assert table.budget.shares[3] == ("scores", Fraction(1, 6400))
    assert sum(share for _, share in table.budget.shares) == 1
