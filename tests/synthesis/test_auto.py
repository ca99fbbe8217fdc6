"""Marginals that "auto" selects for a workload and a target, and values that it counts together."""

import itertools
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from skdp import DPMarginalSynthesizer, Interval
from skdp.domain import Categories
from skdp.synthesis.measure import MarginalPlan, group_rare_values, measure_and_fit
from skdp.synthesis.model import Structure, estimate_total, merge_marginals
from tests.conftest import quick_first
from tests.synthesis.budgets import assert_sound, counts_of, dependent_rows, make_budget, private_counts

SIZES = (2, 3, 4, 3)
PAIRS = list(itertools.combinations(range(4), 2))
HUGE, TINY = Fraction(10**6), Fraction(1, 10**9)


def plan(sizes=SIZES, max_cells=1000, **others):
    is_ordered = others.pop("ordered", (False,) * len(sizes))
    structure = Structure(tuple(sizes))
    options = {"cliques": None, "workload": (), "target": None} | others
    return MarginalPlan(structure, is_ordered, max_cells, **options)


def count_misplaced(table, fitted, rows, sizes, pair):
    """Return the number of records that a model has in other cells of a pair."""
    modelled = estimate_total(table.marginals)[0] * fitted.model.marginal(pair)
    return np.abs(modelled - counts_of(rows, sizes, pair)).sum() / 2


def run(amount, kind="gaussian", n=2000, seed=0, **others):
    table = private_counts(dependent_rows(SIZES, n), SIZES, make_budget(kind, amount), seed)
    return table, measure_and_fit(table, plan(**others))


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_all_pairs_are_measured_with_little_noise(kind):
    table, fitted = run(HUGE, kind)
    assert set(PAIRS) <= {marginal.clique for marginal in table.marginals}
    assert table.noise.remaining == 0
    rows = dependent_rows(SIZES, 2000)
    assert all(count_misplaced(table, fitted, rows, SIZES, pair) < 0.005 * 2000 for pair in PAIRS)


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_no_pair_is_measured_with_much_noise(kind):
    table, fitted = run(TINY, kind)
    assert {marginal.clique for marginal in table.marginals} == {(0,), (1,), (2,), (3,)}
    assert len(table.marginals) == 8  # a twentieth first, then the rest
    assert table.noise.remaining == 0
    assert_sound(fitted.model)


def test_few_independent_pairs_are_measured():
    """The largest scores have positive noise, of which half a standard deviation is subtracted."""
    sizes, n_pairs = (3,) * 6, 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        table = private_counts([rng.integers(0, 3, 2000) for _ in sizes], sizes, make_budget("gaussian", 0.1), seed)
        measure_and_fit(table, plan(sizes))
        n_pairs += len({marginal.clique for marginal in table.marginals if len(marginal.clique) == 2})
    assert n_pairs < 0.45 * 4 * 15


def test_rare_label_depends_on_a_column_at_a_small_epsilon():
    """Pairs that may be independent lost their first scores, so that the ratio of rates was 1.5 instead of 8."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({f"x{column}": rng.integers(0, 6, 10_000) for column in range(6)})
    for column in range(1, 6):
        is_equal = rng.random(len(X)) < 0.5
        X.loc[is_equal, f"x{column}"] = X.loc[is_equal, f"x{column - 1}"]
    X["label"] = (rng.random(len(X)) < np.where(X["x2"] == 0, 0.12, 0.015)).astype(int)
    domain = {name: range(2 if name == "label" else 6) for name in X}
    ratios = []
    for seed in range(3):
        model = DPMarginalSynthesizer(0.2, delta=1e-6, domain=domain, random_state=seed).fit(X)
        rates = model.sample().groupby("x2")["label"].mean()
        ratios.append(rates[0] / rates[1:].mean())
    assert np.mean(ratios) > 2.5


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_strong_pair_has_capacity_before_many_weak_pairs(kind):
    """By their gain per noise alone, weak pairs of bits came first, and used its capacity."""
    rng, n, sizes = np.random.default_rng(0), 20_000, (30, 30, 2, 2, 2, 2)
    hidden = rng.integers(0, 30, n)
    columns = [np.where(rng.random(n) < 0.7, hidden, rng.integers(0, 30, n)) for _ in range(2)]
    columns += [(rng.random(n) < 0.35 + 0.3 * (hidden % 2)).astype(int) for _ in range(4)]
    rows = np.array(columns).T
    table = private_counts(rows, sizes, make_budget(kind, HUGE))
    fitted = measure_and_fit(table, plan(sizes, max_cells=2000))
    assert table.noise.remaining == 0
    assert (0, 1) in {marginal.clique for marginal in table.marginals}
    assert count_misplaced(table, fitted, rows, sizes, (0, 1)) < 0.05 * n


def test_rare_label_has_capacity_for_its_strongest_pairs():
    """Its gain is few records, so other pairs used the whole capacity."""
    rng, n, sizes = np.random.default_rng(0), 20_000, (*[6] * 14, 2)
    trait = rng.normal(size=n)
    columns = []
    for _ in range(14):
        columns.append(np.digitize(trait + 0.5 * rng.normal(size=n), [-1.5, -0.7, 0, 0.7, 1.5]))
    columns.append((trait + rng.normal(size=n) > 3).astype(int))
    table = private_counts(np.array(columns).T, sizes, make_budget("gaussian", 100))
    measure_and_fit(table, plan(sizes, max_cells=300))
    of_label = {marginal.clique for marginal in table.marginals if 14 in marginal.clique}
    assert len(of_label - {(14,)}) >= 2
    assert table.noise.remaining == 0


def coded_table(n=6000, size=60, seed=0):
    """Draw unordered codes of two columns; the second one is mostly determined by the first one."""
    rng = np.random.default_rng(seed)
    shares = rng.permutation(1 / np.arange(1, size + 1))
    first = rng.choice(size, n, p=shares / shares.sum())
    partner = rng.integers(0, 8, size)
    second = np.where(rng.random(n) < 0.7, partner[first], rng.integers(0, 8, n))
    return pd.DataFrame({"first": first, "second": second, "third": rng.integers(0, 3, n)})


def fit_codes(table, domain):
    synthesizer = DPMarginalSynthesizer(1, delta=1e-9, domain=domain, random_state=0).fit(table)
    pair = next(one for one in synthesizer.marginals_ if one.clique == (0, 1))
    assert pair.groups is not None
    return synthesizer, pair.groups[0]


def test_values_that_only_the_noise_makes_common_are_grouped():
    noisy_counts = np.random.default_rng(0).normal(0, 100, 1_000)
    groups = group_rare_values(noisy_counts, False, noise=1.0, n_records=5_000, count_error=100.0)
    assert groups.max() < 5


def test_ordered_dtype_and_bins_declare_an_order():
    table = coded_table()
    values = list(range(60))
    domain = {"second": range(8), "third": range(3)}
    table["first"] = pd.Categorical(table["first"], values, ordered=True)
    for declared, is_ordered in ((values, False), (Categories(values, ordered=True), True)):
        _, groups = fit_codes(table, domain | {"first": declared})
        assert (np.diff(groups) >= 0).all() == is_ordered
    _, groups = fit_codes(table, domain)  # the dtype alone
    assert (np.diff(groups) >= 0).all()
    _, groups = fit_codes(table.astype({"first": int}), domain | {"first": Interval(edges=[*values, 60])})
    assert (np.diff(groups) >= 0).all()


def measure_pairs(target, *, amount=1, kind="gaussian", sizes=SIZES, rows=None, **others):
    rows = dependent_rows(sizes, 3000) if rows is None else rows
    table = private_counts(rows, sizes, make_budget(kind, amount))
    assert_sound(measure_and_fit(table, plan(sizes, target=target, **others)).model)
    return table


@pytest.mark.parametrize(("kind", "amount", "power"), [("gaussian", Fraction(1, 4), 1 / 3), ("laplace", 4, 1 / 2)])
@pytest.mark.parametrize("target", quick_first(3, [None, 0, 2, 1, 3]))
def test_error_of_a_pair_is_weighted_by_target_and_numbers_of_values(kind, amount, power, target):
    """The smallest weighted sum of errors: the standard deviation is proportional to (weight * cells) ** -power.

    Pairs with the target have the weight 10, and pairs with a column of two values, such as column 0, have 1.5.
    """
    table = measure_pairs(target, kind=kind, amount=amount)
    assert table.noise.remaining == 0
    scaled = {1: [], 1.5: [], 10: []}
    # Two measurements of a pair with Gaussian noise are one.
    for marginal in merge_marginals(table.marginals):
        if len(marginal.clique) == 2:
            weight = 10 if target in marginal.clique else 1.5 if 0 in marginal.clique else 1
            scaled[weight].append(marginal.std_error * (weight * marginal.counts.size) ** power)
    assert len(scaled[10]) == (0 if target is None else 3)
    assert (scaled[1.5] == []) == (target == 0)
    assert scaled[1]
    assert np.concatenate(list(scaled.values())) == pytest.approx(scaled[1][0], rel=0.02)


@pytest.mark.long
def test_scores_of_several_rounds_have_the_stated_precision():
    """The L1 distance of a pair of equal bits from independent bits is the number of records: 4 * 250."""
    bits = np.random.default_rng(0).integers(0, 2, (1_000, 35))
    sizes = (2,) * 70
    table = private_counts(np.repeat(bits, 2, axis=1), sizes, make_budget("gaussian", 4))
    scores = measure_and_fit(table, plan(sizes)).scores
    errors = [(score - 1_000) / std_error for score, std_error in (scores[at, at + 1] for at in range(0, 70, 2))]
    assert abs(np.mean(errors)) < 0.5
    assert np.std(errors) == pytest.approx(1, abs=0.3)
