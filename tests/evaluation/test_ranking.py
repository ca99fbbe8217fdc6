"""The numbers of attacks: areas, intervals, lift and best guesses are those of their definitions."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from skdp.evaluation import bayes_accuracy
from skdp.evaluation._attacker import Outcome, area, best_of_report, value_table
from skdp.evaluation._membership_inference import _by_distance, advantage
from skdp.oracles import LocalHashing, RandomizedResponse, SubsetSelection, UnaryEncoding
from skdp.randomness import SeededSource
from tests.conftest import each

PRIOR = np.array([0.9, 0.07, 0.03])


@each("seed", range(5))
def test_the_area_counts_pairs_and_many_rows_have_the_error_of_delong(seed):
    rng = np.random.default_rng(seed)
    one, other = rng.integers(0, 6, 700), rng.integers(0, 5, 500)
    pairs = (one[:, np.newaxis] > other) + (one[:, np.newaxis] == other) / 2
    auc, lower, upper = area(one, other, 0.95)
    assert auc == pytest.approx(pairs.mean())
    delong = pairs.mean(axis=1).var(ddof=1) / 700 + pairs.mean(axis=0).var(ddof=1) / 500
    assert upper - lower == pytest.approx(2 * 1.959964 * np.sqrt(delong), rel=0.02)
    assert area([-np.inf, 0], [-np.inf, -np.inf], 0.95)[0] == pytest.approx(0.75)


def test_an_area_has_the_same_interval_from_both_sides():
    """Of scores in the reverse order, outside is inside; equal scores among the outside count as those inside."""
    rng = np.random.default_rng(0)
    inside, outside = rng.integers(1, 5, 30), rng.integers(0, 4, 40)
    assert area(-outside, -inside, 0.95) == pytest.approx(area(inside, outside, 0.95), rel=1e-12)


def test_an_interval_of_an_area_holds_it():
    """Of few rows, too, where DeLong's standard error is 0 if all are ranked alike; 3 standard errors of the share."""
    rng, held = np.random.default_rng(0), []
    for _ in range(300):
        _, low, high = area(rng.normal(1.19, 1, 12), rng.normal(0, 1, 300), 0.95)  # an area of .8
        held.append(low <= 0.8 <= high)
    assert 0.91 < np.mean(held) <= 0.99
    _, low, high = area([2.0, 3.0, 4.0], [0.0, 1.0], 0.95)
    assert low < 0.7
    assert high == 1
    assert area([1.0], [1.0, 1.0], 0.95)[1] < 0.2
    wider = area(np.arange(40.0), np.arange(40.0), 0.99)
    assert wider[1] < area(np.arange(40.0), np.arange(40.0), 0.95)[1]


def scored(scores, is_value):
    """Return the measures of the value 1 of two, by its scores."""
    truth = is_value.astype(int)
    table = value_table(truth, Outcome(truth, np.column_stack([-scores, scores]).astype(float), []))
    return table.loc[1]


def test_measures_are_those_of_their_definitions():
    rng = np.random.default_rng(0)
    is_value = rng.random(5_000) < 0.1
    scores = np.round(rng.normal(is_value, 1.0), 1)
    measures = scored(scores, is_value)
    assert measures["auc"] == pytest.approx(roc_auc_score(is_value, scores))
    untied = scores + rng.uniform(0, 1e-3, 5_000)
    top = np.argsort(-untied)[:50]
    lift = scored(untied, is_value)["lift"]
    assert lift == pytest.approx(is_value[top].mean() / is_value.mean())
    assert measures["lift"] == pytest.approx(lift, rel=0.25)


def test_scores_that_say_nothing_or_all():
    half = np.repeat([False, True], 50)
    assert scored(np.zeros(100), half)[["auc", "lift"]].tolist() == [0.5, 1.0]
    assert scored(half.astype(float), half)[["auc", "lift"]].tolist() == [1.0, 2.0]


def test_shares_of_a_value_have_wilsons_interval():
    truth, guesses = np.repeat([0, 1], [30, 70]), np.repeat([0, 1, 0, 1], [20, 10, 5, 65])
    table = value_table(truth, Outcome(guesses, None, []))
    assert table.loc[0, "precision"] == 0.8
    assert table.loc[0, ["auc", "lift"]].isna().all()
    for end in table.loc[0, ["precision_lower", "precision_upper"]]:
        # The ends are the shares that are 1.96 of their own standard errors away.
        assert abs(end - 0.8) == pytest.approx(1.959964 * np.sqrt(end * (1 - end) / 25))
    never = value_table(truth, Outcome(np.ones(100, int), None, []))
    assert never.loc[0, ["precision", "precision_lower"]].isna().all()
    scores = np.column_stack([truth == 0, truth == 1]).astype(float)
    lift = value_table(truth, Outcome(truth, scores, [])).loc[0, ["lift_lower", "lift", "lift_upper"]]
    assert lift.is_monotonic_increasing
    assert lift["lift"] == pytest.approx(1 / 0.3)


@each("oracle", [RandomizedResponse(3, 1.0), SubsetSelection(3, 1.0), UnaryEncoding(3, 1.0)])
def test_the_best_guess_is_exact(oracle):
    accuracy, areas = best_of_report(oracle, PRIOR, 1.0, 0)
    assert accuracy == pytest.approx(bayes_accuracy(oracle, PRIOR))
    codes = np.repeat([0, 1, 2], 30_000).astype(np.uint8)
    supports = oracle.supports(oracle.report(codes, SeededSource(0)))
    weights = np.where(supports, float(oracle.support_ratio), 1.0) * PRIOR
    posterior = np.round(weights / weights.sum(axis=1, keepdims=True), 9)
    found = [roc_auc_score(codes == value, posterior[:, value], sample_weight=PRIOR[codes]) for value in range(3)]
    assert areas == pytest.approx(found, abs=0.01)


def test_the_best_guess_of_hashed_reports_is_drawn():
    accuracy, areas = best_of_report(LocalHashing(3, 4.0), PRIOR, 1.0, 0)
    again, _ = best_of_report(LocalHashing(3, 4.0), PRIOR, 1.0, 1)
    assert PRIOR.max() < accuracy == pytest.approx(again, abs=0.01)
    assert (areas > 0.8).all()
    nothing, half = best_of_report(LocalHashing(3, 0.001), PRIOR, 1.0, 0)
    assert nothing == pytest.approx(PRIOR.max(), abs=0.01)
    assert half == pytest.approx(0.5, abs=0.01)


def test_what_is_seldom_reported_is_seldom_known():
    always, areas = best_of_report(RandomizedResponse(3, 4.0), PRIOR, 1.0, 0)
    half, fewer = best_of_report(RandomizedResponse(3, 4.0), PRIOR, 0.5, 0)
    assert half == pytest.approx((always + PRIOR.max()) / 2)
    assert (fewer < areas).all()


def test_distances_are_those_of_gower():
    synthetic = pd.DataFrame({"sex": ["F", "M"], "age": [20.0, 60.0]})
    members = pd.DataFrame({"age": [20.0, 30.0], "sex": ["F", None]})
    others = pd.DataFrame({"sex": ["X", "M"], "age": [100.0, np.nan]})
    inside, outside = _by_distance(synthetic, members, others)
    assert inside == pytest.approx([0, -(1 + 10 / 80)])
    assert outside == pytest.approx([-(1 + 40 / 80), -(1 + 40 / 80)])


def test_the_threshold_of_an_advantage_is_chosen_on_other_rows():
    scores = np.random.default_rng(0).normal(size=(2, 4000))
    found, low, high = advantage(*scores, level=0.95, seed=0)
    assert low < 0 < high
    assert abs(found) < 0.1
    shifted, low, high = advantage(scores[0] + 1, scores[1], level=0.95, seed=0)
    assert low < 0.3829 < high  # 2 Phi(1/2) - 1
    assert low < shifted < high
