"""Interactions: rules over several columns that are independent in pairs, found by private choices."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest

from skdp import DPMarginalSynthesizer, Interval
from skdp.randomness import watch_draws
from skdp.synthesis.measure import MarginalPlan, measure_and_fit
from skdp.synthesis.measure import _interactions as interactions
from skdp.synthesis.measure._private_counts import PrivateScores
from skdp.synthesis.measure._selection import score_marginals
from skdp.synthesis.model import Structure
from skdp.testing import replay_release
from tests.conftest import quick_first
from tests.synthesis.budgets import make_budget, make_noise, private_counts
from tests.testing.central_releases import fit_model

N = 6_000


def make_sign(n=N, n_factors=3, seed=0):
    """Draw six uniform numbers, and the sign of the product of the first numbers."""
    numbers = np.random.default_rng(seed).uniform(-1, 1, (n, 6))
    table = pd.DataFrame(numbers, columns=list("abcdef"))
    table["label"] = (numbers[:, :n_factors].prod(axis=1) > 0).astype(int)
    return table


def make_majority(n=N, seed=0):
    """Draw six columns of three unordered values; the label is true if most of three columns have two of the values."""
    codes = np.random.default_rng(seed).integers(0, 3, (n, 6))
    table = pd.DataFrame(codes, columns=list("abcdef"))
    table["label"] = (np.sum(codes[:, [0, 2, 4]] == 1, axis=1) % 2).astype(int)
    return table


SIGN_DOMAIN = {name: Interval(-1.0, 1.0, bins=8) for name in "abcdef"} | {"label": [0, 1]}
CODE_DOMAIN = {name: [0, 1, 2] for name in "abcdef"} | {"label": [0, 1]}


def fit(table, domain=SIGN_DOMAIN, **parameters):
    given = {"epsilon": 4.0, "delta": 1e-9, "random_state": 0}
    return DPMarginalSynthesizer(domain=domain, **given | parameters).fit(table)


def measure_accuracy(synthesizer, rule):
    """Compute the proportion of synthetic rows that satisfy a rule."""
    rows = synthesizer.sample(20_000)
    return float((rule(rows) == rows["label"]).mean())


def sign_of(rows, n_factors=3):
    return (rows.to_numpy(float)[:, :n_factors].prod(axis=1) > 0).astype(int)


@pytest.mark.parametrize(
    "parameters",
    quick_first(
        1, [{"target": "label", "delta": 0}, {"max_rows_per_person": 2, "epsilon": 8.0}, {}, {"target": "label"}]
    ),
)
def test_sign_of_three_binned_columns_is_kept(parameters):
    synthesizer = fit(make_sign(), **parameters)
    # A table with the target may have further columns.
    assert any({"a", "b", "c", "label"} <= {*clique} for clique in synthesizer.selected_cliques_)
    assert measure_accuracy(synthesizer, sign_of) > 0.9


@pytest.mark.parametrize(("target", "n", "seed"), quick_first(1, [(None, N, 0), ("label", 20_000, 1)]))
def test_sign_of_four_binned_columns_is_kept(target, n, seed):
    """The model has no capacity for the rule beside all pairs of independent columns."""
    table = make_sign(n, n_factors=4, seed=seed)
    synthesizer = fit(table, epsilon=10.0, target=target, random_state=seed)
    assert ("a", "b", "c", "d", "label") in synthesizer.selected_cliques_
    assert measure_accuracy(synthesizer, partial(sign_of, n_factors=4)) > 0.9


def test_second_scores_expect_the_error_of_sampled_rows():
    """Marginals outside of a model are estimated from sampled rows, whose errors are no dependence."""
    sizes = (8,) * 5
    counts = private_counts(np.random.default_rng(0).integers(0, 8, (20_000, 5)), sizes, make_budget("gaussian", 100))
    model = measure_and_fit(counts, replace(make_plan(sizes), cliques=make_plan(sizes).columns)).model
    counts.noise.remaining = Fraction(1)
    scores = score_marginals(counts, model, list(itertools.combinations(range(5), 3)), (None,) * 5)
    for clique, score in scores.noisy.items():
        assert score == pytest.approx(scores.chance[clique], rel=0.1)


@pytest.mark.parametrize(("target", "delta"), quick_first(1, [(None, 1e-6), ("label", 0.0), ("label", 1e-6)]))
def test_rule_of_a_small_table_is_kept(target, delta):
    synthesizer = fit(make_sign(2_500, seed=1), epsilon=1.0, delta=delta, target=target)
    assert measure_accuracy(synthesizer, sign_of) > 0.8


@pytest.mark.long
def test_rule_beside_dependent_columns_is_kept():
    """The model has less noise than the counts of pairs, so noise does not hide the rule."""
    rng = np.random.default_rng(0)
    table = make_sign(5_000)
    numbers = np.sqrt(0.7) * rng.normal(size=(5_000, 1)) + np.sqrt(0.3) * rng.normal(size=(5_000, 28))
    names = [f"x{index}" for index in range(28)]
    table[names] = numbers.clip(-4, 4)
    domain = SIGN_DOMAIN | {name: Interval(-4.0, 4.0, bins=8) for name in names}
    synthesizer = fit(table, domain, epsilon=1.0, delta=1e-6)
    rows = synthesizer.sample(20_000)
    assert (sign_of(rows[list("abcdef")]) == rows["label"]).mean() > 0.8


def test_rule_with_much_noise_is_kept_in_a_part_of_the_budget():
    """Without second scores, all pairs are measured first."""
    synthesizer = fit(make_sign(20_000), epsilon=1.0)
    assert measure_accuracy(synthesizer, sign_of) > 0.9


def test_sample_of_records_suffices_for_the_search(monkeypatch):
    monkeypatch.setattr(interactions, "MODEL_ROWS", 3_000)
    draws = []
    with watch_draws(lambda sampler, drawn, values: draws.append((sampler, np.size(drawn), np.sum(drawn))) or drawn):
        synthesizer = fit(make_sign())
    sampled = [(size, n) for sampler, size, n in draws if sampler == "bernoulli_ratio"]
    assert sampled
    assert all(size == N and 2_500 < n < 3_500 for size, n in sampled)
    assert ("a", "b", "c", "label") in synthesizer.selected_cliques_


@pytest.mark.parametrize("target", quick_first(1, [None, "e"]))
def test_chain_of_columns_has_no_interaction(target):
    rng = np.random.default_rng(0)
    columns = [rng.integers(0, 4, N)]
    for _ in range(5):
        columns.append(np.where(rng.random(N) < 0.6, columns[-1], rng.integers(0, 4, N)))
    table = pd.DataFrame(np.array(columns).T, columns=list("abcdef"))
    synthesizer = fit(table, {name: range(4) for name in "abcdef"}, target=target)
    assert all(len(clique) < 4 for clique in synthesizer.selected_cliques_)


def make_plan(sizes, max_cells=1_000, target=None, workload=()):
    return MarginalPlan(Structure(sizes), (False,) * len(sizes), max_cells, None, workload, target)


def test_all_marginals_of_three_to_five_columns_are_listed():
    subsets = [clique for order in (3, 4, 5) for clique in itertools.combinations(range(5), order)]
    assert interactions.list_interactions(make_plan((3, 2, 3, 2, 3, 1)), 48) == subsets
    assert interactions.list_interactions(make_plan((3,) * 5, max_cells=81), 16) == subsets[:15]
    assert interactions.list_interactions(make_plan((3,) * 5, workload=((0, 1),)), 16) == []


def test_marginals_with_the_target_or_else_with_a_label_are_listed_if_all_are_too_many():
    triples = list(itertools.combinations(range(6), 3))
    for target, label in ((4, 4), (None, 5)):
        listed = interactions.list_interactions(make_plan((3, 3, 3, 3, 3, 2), target=target), 60)
        assert listed[:20] == triples
        larger = set(map(frozenset, listed[20:]))
        assert len(larger) == len(listed[20:]) == 10 + 5
        assert all(label in clique for clique in larger)


def test_search_scores_as_many_records_as_a_small_fraction_requires():
    counts = private_counts([[0] * 12], (2,) * 12, make_budget("gaussian", Fraction(1, 100)))
    search = interactions.plan_search(counts, make_plan((2,) * 12), 20_000)
    assert search.fraction == Fraction(1, 256)
    assert interactions.MODEL_ROWS < search.sampling_rate * 20_000 < 12_000


# Sensitivity.

SIZES = (2, 3, 2)
CELLS = list(itertools.product(*map(range, SIZES)))
MARGINALS = [(0, 1, 2), (0, 2), (1, 2)]
COLUMNS = [(0, np.array([0, 1])), (1, np.array([0, 0, 1])), (2, np.array([0, 1]))]
GUESSES = [np.full((2, 2, 2), 0.7), np.array([[0.0, 3.2], [1.5, 0.0]]), np.full((2, 2), 1e300)]


def score(rows, rate, seed=0):
    """Compute the exact scores of all marginals, without the noise."""
    counts = private_counts(rows, SIZES, make_budget("laplace", 1), seed)
    sample = counts.draw_sample(rate)
    return sample.open_scores(COLUMNS, MARGINALS, GUESSES)._scores


@pytest.mark.parametrize("rate", quick_first(1, [Fraction(1, 2), Fraction(1)]))
def test_record_changes_each_score_by_at_most_one_in_small_tables(rate):
    """All tables of one record, some of two and three, and each record beside them; others are sampled alike."""
    changes = []
    for n, step in enumerate((1, 1, 2, 20)):
        for rows in itertools.islice(itertools.combinations_with_replacement(CELLS, n), 0, None, step):
            before = score(list(rows), rate)
            for row in CELLS:
                changes.append(np.abs(score([*rows, row], rate) - before))
    assert np.max(changes) == 1


def test_scores_of_columns_with_two_values_are_distances_of_counts():
    """Their bits are counted in blocks of records."""
    rows = np.random.default_rng(0).integers(0, (2, 3, 2, 2, 2), (9_001, 5))
    columns = [(column, np.arange(size)) for column, size in enumerate((2, 3, 2, 2, 2))]
    marginals = [(0, 2, 3), (1, 2), (4,), (3, 0, 2, 4), (2, 3, 4), (1,), (4, 0)]
    shapes = [tuple(columns[c][1].size for c in marginal) for marginal in marginals]
    counts = private_counts(rows.tolist(), (2, 3, 2, 2, 2), make_budget("laplace", 1), 0)
    scores = counts.open_scores(columns, marginals, [np.full(shape, 100.0) for shape in shapes])._scores
    for score_of, marginal in zip(scores, marginals, strict=True):
        cells = pd.DataFrame(rows[:, marginal]).value_counts()
        n_empty = math.prod(shapes[marginals.index(marginal)]) - len(cells)
        assert score_of == (cells - 100).abs().sum() + 100 * n_empty


def test_scores_are_of_a_sample_with_the_stated_fraction_of_the_records():
    counts = private_counts(CELLS * 100, SIZES, make_budget("laplace", 1), 0)
    for rate, low, high in ((Fraction(1), 1_200, 1_200), (Fraction(1, 4), 220, 380)):
        # The distance from empty cells is the number of records; 5 standard deviations.
        n_records = counts.draw_sample(rate).open_scores(COLUMNS, [(0, 2)], [np.zeros((2, 2))])._scores
        assert low <= n_records <= high


def test_person_with_three_records_changes_each_score_by_at_most_three():
    rows, changes = CELLS[:5], []
    before = score(rows, Fraction(1))
    for person in itertools.combinations_with_replacement(CELLS[::2], 3):
        changes.append(np.abs(score([*rows, *person], Fraction(1)) - before))
    assert np.max(changes) == 3


@pytest.mark.parametrize(("kind", "n_rows"), list(itertools.product(["laplace", "gaussian"], [1, 3])))
def test_choice_uses_its_fraction_of_the_budget(kind, n_rows):
    """One score may rise by the rows of a person while another one falls by as much."""
    noise = make_noise(kind, Fraction(1, 4), n_rows)
    rates = []
    with watch_draws(lambda sampler, drawn, values: rates.append(values["rate"]) or drawn):
        noise.choose(np.array([5, 9, 3]), Fraction(1, 4))
    assert noise.remaining == Fraction(3, 4)
    epsilon = rates[0] * 2 * n_rows
    if kind == "laplace":
        assert epsilon == Fraction(1, 16)
    else:  # mu is 1 / 4, of a choice with at most epsilon / 2 on both sides
        assert epsilon == pytest.approx(2 * 0.25 * np.sqrt(2 / np.pi), rel=0.01)


def test_choice_compares_scores_of_weighted_records_with_expected_records():
    noise = make_noise("laplace", 1_000).split(Fraction(1, 2), unit=100)
    scores = PrivateScores(np.array([500, 1_400]), noise)
    assert scores.choose([0, 1], np.array([0.0, 12.0]), Fraction(1)) == 0


@pytest.mark.parametrize(("delta", "choice"), [(0.0, "permute-and-flip"), (1e-9, "exponential mechanism")])
def test_guarantee_names_noise_and_choices(delta, choice):
    mechanism = fit(make_sign(200), delta=delta).guarantee_.mechanism
    assert "noise on marginals and scores" in mechanism
    assert f"{choice} of marginals" in mechanism
    assert choice not in fit(make_sign(200), delta=delta, marginals="independent").guarantee_.mechanism


REPLAYED = {
    "epsilon": (4.0, {}),
    "delta": (4.0, {"delta": 1e-6}),
    "persons": (12.0, {"delta": 1e-6, "max_rows_per_person": 3}),
    "sample": (4.0, {"delta": 1e-6}),
}


def replay_neighbors(name, n_neighbors, monkeypatch):
    """Replay fits on a table with an interaction, and without the rows of the last person."""
    if name == "sample":
        monkeypatch.setattr(interactions, "MODEL_ROWS", 1_000)
    epsilon, parameters = REPLAYED[name]
    synthesizer = DPMarginalSynthesizer(epsilon, domain=CODE_DOMAIN, **parameters)
    n_rows = synthesizer.max_rows_per_person
    table = make_majority(2_500)
    rng = np.random.default_rng(1)
    for _ in range(n_neighbors):
        row = {name: rng.integers(0, 3, n_rows) for name in "abcdef"} | {"label": rng.integers(0, 2, n_rows)}
        whole = pd.concat([table, pd.DataFrame(row)], ignore_index=True)
        if n_rows > 1:
            whole["person"] = [*range(len(table)), *[len(table)] * n_rows]
        replay = replay_release(partial(fit_model, synthesizer), whole, whole[: len(table)])
        assert replay.passed, replay.findings
        choices = replay.draws["sampler"].isin(["exponential_mechanism", "permute_and_flip"])
        assert choices.any()
        assert replay.draws.loc[choices, "difference"].max() <= 2 * n_rows


@pytest.mark.parametrize("name", quick_first(2, [*REPLAYED][::-1]))
def test_replay_of_a_search_costs_at_most_the_guarantee(name, monkeypatch):
    replay_neighbors(name, 1, monkeypatch)


@pytest.mark.long
@pytest.mark.parametrize("name", REPLAYED)
def test_replays_of_500_neighbors_cost_at_most_the_guarantee(name, monkeypatch):
    replay_neighbors(name, 125, monkeypatch)


def test_pair_scores_state_that_a_large_table_of_many_combinations_is_not_searched(monkeypatch):
    monkeypatch.setattr("skdp.synthesis.private._table.MAX_LOADED_BYTES", 1_000)
    monkeypatch.setattr("skdp.synthesis.measure._private_counts.MAX_LOADED_CELLS", 1_000)
    synthesizer = fit(pl.from_pandas(make_sign()).lazy())
    assert synthesizer.pair_scores_.attrs["n_searched"] == {3: 0, 4: 0, 5: 0}
    assert len(synthesizer.sample(5)) == 5


@pytest.mark.parametrize(("parameters", "n"), [({}, {3: 35, 4: 35, 5: 21}), ({"epsilon": 0.05}, {3: 0, 4: 0, 5: 0})])
def test_pair_scores_state_how_many_marginals_were_searched(parameters, n):
    assert fit(make_sign(2_000), **parameters).pair_scores_.attrs["n_searched"] == n


def test_target_without_interactions_is_fitted():
    """A target of one value raised an IndexError after the charge."""
    domain = {"t": ["v"]} | {name: ["x", "y"] for name in "abc"}
    rng = np.random.default_rng(0)
    table = pd.DataFrame({name: rng.choice(values, 500) for name, values in domain.items()})
    synthesizer = fit(table, domain, epsilon=10.0, delta=1e-6, target="t")
    assert len(synthesizer.sample(5)) == 5
