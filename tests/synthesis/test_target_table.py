"""A table of many columns by groups of values with the target: its choice, its counts, and its model."""

import io
import itertools
import math
from fractions import Fraction
from functools import cache, partial

import numpy as np
import pandas as pd
import pytest

from skdp import Domain, DPMarginalSynthesizer, Interval
from skdp.synthesis.measure import _target_table as target_table
from skdp.synthesis.model import Marginal, Structure, _estimation, fit_model
from skdp.testing import replay_release
from tests.conftest import diagonal, often, quick_first
from tests.synthesis.budgets import counts_of, dependent_rows, make_budget, private_counts
from tests.testing.central_releases import fit_model as fit_release

N = 4_000
NAMES = list("abcde")
DOMAIN = {name: Interval(-1.0, 1.0, bins=6) for name in NAMES} | {"label": range(4)}


def label_of(numbers):
    """Compute a label that depends on pairs of columns only through all of them."""
    signs = np.asarray(numbers) > 0
    return (signs[:, 0] ^ signs[:, 1] ^ signs[:, 2]) + 2 * (signs[:, 2] ^ signs[:, 3] ^ signs[:, 4])


def make_table(n=N, seed=0):
    numbers = np.random.default_rng(seed).uniform(-1, 1, (n, 5))
    return pd.DataFrame(numbers, columns=NAMES).assign(label=label_of(numbers).astype(int))


def fit(table=None, **parameters):
    given = {"epsilon": 1.0, "delta": 1e-6, "domain": DOMAIN, "target": "label", "random_state": 0}
    return DPMarginalSynthesizer(**given | parameters).fit(make_table() if table is None else table)


@pytest.fixture(scope="module")
def fitted():
    return fit()


def find_tables(synthesizer):
    return [marginal for marginal in synthesizer.marginals_ if len(marginal.clique) > 4]


def test_label_of_five_columns_is_kept(fitted):
    (table,) = find_tables(fitted)
    assert table.clique == (0, 1, 2, 3, 4, 5)
    rows = fitted.sample(20_000)
    assert (label_of(rows[NAMES]) == rows["label"]).mean() > 0.8


def make_clusters(seed=3):
    """Draw a table whose columns are all dependent, and whose label follows from all of them."""
    rng = np.random.default_rng(seed)
    centers = rng.uniform(-1, 1, (30, 6))
    drawn = rng.integers(0, 30, 5_000)
    numbers = np.clip(centers[drawn] + rng.normal(0, 0.15, (5_000, 6)), -1, 1)
    return pd.DataFrame(numbers, columns=list("abcdef")).assign(label=drawn % 6)


CLUSTER_DOMAIN = {name: Interval(-1.0, 1.0, bins=16) for name in "abcdef"} | {"label": range(6)}


def test_rule_of_three_columns_is_a_table_of_three_columns():
    """Columns of a rule have no dependent pairs, so a search among interactions finds them."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 9, (10_000, 6))
    table = pd.DataFrame(codes, columns=list("abcdef"))
    table["label"] = (codes[:, [1, 3, 4]].sum(axis=1) % 3 == 0).astype(int)
    domain = {name: list(range(9)) for name in "abcdef"} | {"label": [0, 1]}
    synthesizer = fit(table, domain=domain)
    assert ("b", "d", "e", "label") in synthesizer.selected_cliques_
    rows = synthesizer.sample(20_000)
    is_zero = rows[["b", "d", "e"]].sum(axis=1) % 3 == 0
    assert (is_zero == rows["label"]).mean() > 0.75


def test_target_with_an_excluded_value_has_weights_of_at_most_1():
    """The estimated count of a value that a constraint excludes is 0."""
    codes = np.random.default_rng(0).integers(0, 3, (2_000, 5))
    table = pd.DataFrame(codes, columns=NAMES).assign(label=0)
    domain = Domain({name: range(3) for name in NAMES} | {"label": [0, 1]}, constraints=["label == 0"])
    assert not fit(table, domain=domain).sample(100)["label"].any()


def test_pairs_within_the_target_table_are_not_stated_as_measured(fitted):
    """The table counts groups of values with about equal counts, so no value of a pair has its own count."""
    scores = fitted.pair_scores_
    is_listed = [pair in fitted.selected_cliques_ for pair in scores.index]
    assert scores["measured"].tolist() == is_listed
    assert not all(is_listed)


@pytest.mark.parametrize("parameters", [{"target": None}, {"delta": 0.0}, {"workload": [("a", "label")]}])
def test_table_requires_a_target_and_gaussian_noise_and_no_workload(parameters):
    assert find_tables(fit(**parameters)) == []


def test_table_of_a_label_that_pairs_determine_is_not_measured():
    table = make_table()
    table["label"] = np.digitize(table["a"], [-0.5, 0, 0.5])
    synthesizer = fit(table)
    assert find_tables(synthesizer) == []
    assert synthesizer._fitted.counts.searched[3] > 0


def test_table_is_in_a_saved_model(fitted):
    file = io.BytesIO()
    fitted.save(file)
    loaded = DPMarginalSynthesizer.load(file)
    for before, after in zip(fitted.model_.beliefs, loaded.model_.beliefs, strict=True):
        np.testing.assert_allclose(before, after)
    quality = loaded.marginal_quality_.loc["a, b, c, d, e, label"]
    assert quality["n_cells"] == find_tables(loaded)[0].counts.size
    assert quality["misfit"] == pytest.approx(quality["noise"], rel=0.3)


# The model.


@pytest.mark.parametrize("given", quick_first(1, [frozenset({0, 1}), frozenset()]))
def test_columns_for_groups_do_not_change_the_model(given, monkeypatch):
    """A model with columns for the groups of values is the same distribution as with a clique of all values."""
    sizes, groups = (4, 3, 5, 2), (np.array([0, 0, 1, 1]), None, np.array([0, 0, 1, 1, 1]), None)
    rows = dependent_rows(sizes, 2_000)
    rng = np.random.default_rng(0)
    marginals = []
    for clique in [(0,), (1,), (2,), (3,), (0, 2), (1, 3)]:
        counts = counts_of(rows, sizes, clique)
        marginals.append(Marginal(clique, counts + rng.normal(0, 10, counts.shape), 10.0))
    grouped = np.zeros((2, 3, 2, 2))
    for row in rows:
        grouped[groups[0][row[0]], row[1], groups[2][row[2]], row[3]] += 1
    marginals.append(Marginal((0, 1, 2, 3), grouped + rng.normal(0, 10, grouped.shape), 10.0, groups))
    structure = Structure(sizes, given=given)
    monkeypatch.setattr(_estimation, "MAX_RESIDUAL", 1e-6)
    monkeypatch.setattr(_estimation, "MAX_SWEEPS", 1_000)
    coarse, _ = fit_model(structure, marginals)
    assert len(coarse.tree.sizes) == 6
    monkeypatch.setattr(_estimation, "MIN_CELLS_PER_COUNT", 100)
    fine, _ = fit_model(structure, marginals)
    assert len(fine.tree.sizes) == 4
    np.testing.assert_allclose(coarse.marginal(range(4)), fine.marginal(range(4)), atol=1e-6)
    if given:
        drawn = coarse.sample(len(rows), rng, {0: rows[:, 0], 1: rows[:, 1]})
        np.testing.assert_array_equal(drawn[:2], rows.T[:2])
    else:
        drawn = coarse.sample(50_000, rng)
        shares = counts_of(drawn.T[:5_000], sizes, (0, 2)) / 5_000
        np.testing.assert_allclose(shares, coarse.marginal((0, 2)), atol=0.03)
    assert len(drawn) == 4


def test_prediction_is_the_most_probable_value_given_all_other_columns():
    sizes = (3, 2, 4, 3)
    rows = dependent_rows(sizes, 500)
    marginals = []
    for clique in [(0,), (1,), (2,), (3,), (0, 1), (1, 3), (2, 3)]:
        marginals.append(Marginal(clique, counts_of(rows, sizes, clique), 1.0))
    model, _ = fit_model(Structure(sizes), marginals)
    cells = np.indices(sizes).reshape(4, -1)
    joint = model.marginal(range(4))
    for column in range(4):
        expected = joint.argmax(axis=column)[tuple(np.delete(cells, column, axis=0))]
        np.testing.assert_array_equal(model.predict(list(cells), column), expected)


# Sensitivity.

SIZES = (2, 3, 2)
CELLS = list(itertools.product(*map(range, SIZES)))
TABLES = [[(0, np.array([0, 1])), (1, np.array([0, 0, 1]))], [(1, np.arange(3))]]
MODEL, _ = fit_model(Structure(SIZES), [Marginal((0, 2), np.array([[5.0, 1.0], [2.0, 4.0]]), 1.0)])


WEIGHTS = [np.ones(2), np.array([0.375, 1.0])]


def count_corrections(rows, threshold, outcome_weights=WEIGHTS[0], weights=None):
    """Compute the exact scores of all tables, without the noise."""
    counts = private_counts(rows, SIZES, make_budget("laplace", 1), weights=weights)
    return counts.open_corrections(TABLES, MODEL, 2, threshold, outcome_weights)._scores


def predict(row, weights):
    return MODEL.predict([[value] for value in row], 2, weights)[0]


def count_corrections_in_a_loop(rows, threshold, weights):
    scores = []
    for columns in TABLES:
        cells = {}
        for row in rows:
            key = tuple(int(groups[row[column]]) for column, groups in columns)
            cells.setdefault(key, []).append(row)
        score = 0
        for members in cells.values():
            n_right = sum(weights[row[2]] for row in members if row[2] == predict(row, weights))
            largest = max(weights[label] * sum(row[2] == label for row in members) for label in range(2))
            score += max(0, largest - n_right - threshold)
        scores.append(int(score))
    return scores


@pytest.mark.parametrize(("threshold", "weights"), diagonal(often([0, 1], [1]), WEIGHTS))
def test_record_changes_the_corrected_predictions_of_all_tables_in_one_direction(threshold, weights):
    """All tables of up to two records, and each record beside them."""
    changes = []
    for n in range(3):
        for rows in itertools.combinations_with_replacement(CELLS, n):
            before = count_corrections(list(rows), threshold, weights)
            if n < 2:
                np.testing.assert_array_equal(before, count_corrections_in_a_loop(rows, threshold, weights))
            for row in CELLS:
                changes.append(count_corrections([*rows, row], threshold, weights) - before)
    directions = np.where(MODEL.predict(np.transpose(CELLS), 2, weights) == np.transpose(CELLS)[2], -1, 1)
    signed = np.array(changes).reshape(-1, len(CELLS), len(TABLES)) * directions[:, None]
    assert signed.min() == 0
    assert signed.max() == 1
    # Both tables change, or one of them.
    assert {tuple(change) for change in signed.reshape(-1, len(TABLES))} >= {(0, 1), (1, 0), (1, 1)}


def test_combinations_of_a_large_table_count_as_their_records():
    weights = np.where(MODEL.predict(np.transpose(CELLS), 2) == np.transpose(CELLS)[2], 1, 3)
    expected = count_corrections(np.repeat(CELLS, weights, axis=0), 1)
    assert expected.min() > 0
    np.testing.assert_array_equal(count_corrections(CELLS, 1, weights=weights), expected)


@pytest.mark.parametrize(("n_rows", "weights"), diagonal([1, 2], WEIGHTS))
def test_choice_of_a_table_multiplies_probabilities_by_at_most_the_guarantee(n_rows, weights, monkeypatch):
    """Exact probabilities for all tables of up to two records, and each person with `n_rows` rows beside them."""
    chosen = []
    monkeypatch.setattr(
        "skdp.central.statistics._calibrated_noise.exponential_mechanism",
        lambda source, scores, rate: chosen.append(float(rate) * np.asarray(scores)) or 0,
    )
    fraction = Fraction(1, 3)
    epsilon = float((make_budget("gaussian", 1, n_rows) * fraction).choice)

    @cache
    def log_probabilities(rows):
        counts = private_counts(list(rows), SIZES, make_budget("gaussian", 1, n_rows))
        scores = counts.open_corrections(TABLES, MODEL, 2, 0, weights)
        scores.choose(range(len(TABLES)), np.zeros(len(TABLES)), fraction)
        return chosen[-1] - np.logaddexp.reduce(chosen[-1])

    widths, losses = [], []
    for n in range(3):
        for rows in itertools.combinations_with_replacement(CELLS, n):
            before = log_probabilities(rows)
            for person in itertools.combinations_with_replacement(CELLS, n_rows):
                loss = log_probabilities(tuple(sorted([*rows, *person]))) - before
                widths.append(np.ptp(loss))
                losses.append(np.abs(loss).max())
    assert np.max(losses) < epsilon
    # The whole interval is used, so a larger rate would exceed it.
    assert np.max(widths) == pytest.approx(epsilon)


@pytest.mark.parametrize("threshold", [3, math.inf])
def test_measurement_spends_the_whole_budget(threshold, monkeypatch):
    """With and without a table, for which pairs have waited: a model of all pairs has too many cells for a table."""
    monkeypatch.setattr(target_table, "MIN_CORRECTED_ERRORS", threshold)
    sources = []
    start = target_table.measure_target_table

    def measure(private, *args, **options):
        sources.append(private.noise)
        return start(private, *args, **options)

    monkeypatch.setattr("skdp.synthesis.measure._selection.measure_target_table", measure)
    synthesizer = fit(make_clusters(), epsilon=2.0, domain=CLUSTER_DOMAIN)
    assert ((*"abcdef", "label") in synthesizer.selected_cliques_) == math.isfinite(threshold)
    assert [noise.remaining for noise in sources] == [Fraction(0)]


def replay_neighbors(n_neighbors, n_rows):
    """Replay fits on a table with a rule, and without the rows of the last person."""
    epsilon = 1.0 if n_rows == 1 else 3.0
    parameters = {"delta": 1e-6, "domain": DOMAIN, "target": "label", "max_rows_per_person": n_rows}
    synthesizer = DPMarginalSynthesizer(epsilon, **parameters)
    table = make_table()
    rng = np.random.default_rng(1)
    for _ in range(n_neighbors):
        row = {name: rng.uniform(-1, 1, n_rows) for name in NAMES} | {"label": rng.integers(0, 4, n_rows)}
        whole = pd.concat([table, pd.DataFrame(row)], ignore_index=True)
        if n_rows > 1:
            whole["person"] = [*range(len(table)), *[len(table)] * n_rows]
        replay = replay_release(partial(fit_release, synthesizer), whole, whole[: len(table)])
        assert replay.passed, replay.findings
        is_choice = replay.draws["sampler"] == "exponential_mechanism"
        assert is_choice.any()
        # Interactions are chosen, too.
        assert replay.draws.loc[is_choice, "difference"].max() <= 2 * n_rows


@pytest.mark.parametrize("n_rows", quick_first(1, [3, 1]))
def test_replay_of_a_choice_of_a_table_costs_at_most_the_guarantee(n_rows):
    replay_neighbors(1, n_rows)


@pytest.mark.long
@pytest.mark.parametrize("n_rows", [1, 3])
def test_replays_of_250_neighbors_cost_at_most_the_guarantee(n_rows):
    replay_neighbors(125, n_rows)
