"""Selected columns: sensitivities by brute force, charges, and accuracy of the selection."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.feature_selection import SelectKBest, f_classif, f_regression

from skdp import DPSelectKBest
from skdp.central.statistics import Noise
from skdp.privacy import Mu, Rho
from skdp.testing import replay_release

rng = np.random.default_rng(0)
COLUMNS = rng.normal(size=(3_000, 12))
CLASSES = rng.integers(0, 3, 3_000)
COLUMNS[:, [2, 5, 7]] += CLASSES[:, np.newaxis] * [0.5, 0.8, 0.3]
TABLE = pd.DataFrame(COLUMNS.clip(-5, 5), columns=[f"c{index}" for index in range(12)])
TARGET = pd.Series(TABLE["c1"] * 2 - TABLE["c4"] + rng.normal(size=3_000), name="y")
DECLARED = {"bounds": (-5, 5), "classes": [0, 1, 2], "random_state": 0}
NUMBER = {"bounds": (-5, 5), "target_bounds": (-15, 15), "random_state": 0}


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_selection_with_little_noise_equals_scikit_learn(delta):
    expected = SelectKBest(f_classif, k=3).fit(TABLE, CLASSES)
    found = DPSelectKBest(k=3, epsilon=200.0, delta=delta, **DECLARED).fit(TABLE, CLASSES)
    assert (found.get_support() == expected.get_support()).all()
    ratios = np.sqrt(2 * expected.scores_ / (2 * expected.scores_ + 2_997))  # F with 2 and 2,997 degrees of freedom
    chosen = found.get_support()
    assert np.allclose(found.scores_[chosen], ratios[chosen], atol=0.02)
    assert np.isnan(found.scores_[~chosen]).all()
    assert found.ranking_.tolist() == [5, 2, 7]
    expected = SelectKBest(f_regression, k=2).fit(TABLE, TARGET)
    found = DPSelectKBest(k=2, epsilon=200.0, delta=delta, **NUMBER).fit(TABLE, TARGET)
    assert (found.get_support() == expected.get_support()).all()
    correlations = np.abs([np.corrcoef(TABLE[name], TARGET)[0, 1] for name in ("c1", "c4")])
    assert np.allclose(found.scores_[[1, 4]], correlations, atol=0.03)  # clipped


def test_boolean_target_needs_no_declaration():
    target = TARGET > 0
    found = DPSelectKBest(50.0, k=2, random_state=0).fit(TABLE, target)
    assert found.bounds_[-1].tolist() == [0, 1]
    declared = DPSelectKBest(50.0, k=2, classes=[False, True], random_state=0).fit(TABLE, target)
    assert set(found.ranking_) == set(declared.ranking_) == {1, 4}


def test_choice_covers_scores_that_change_in_opposite_directions():
    """A row increases the score of one column and decreases the score of the other one, each by the most."""
    target = 0.5 + 0.1 * np.tile([-1.0, 1.0], 200)
    table = pd.DataFrame({"a": target, "b": target, "t": target})
    more = pd.concat([table, pd.DataFrame({"a": [1.0], "b": [0.0], "t": [1.0]})], ignore_index=True)
    selector = DPSelectKBest(20.0, bounds=(0, 1), target_bounds=(0, 1), k=1, random_state=0)
    replay = replay_release(lambda X: clone(selector).fit(X[["a", "b"]], X["t"]), table, more)
    assert replay.passed, replay.findings
    assert 19.99 < replay.epsilon <= 20


@pytest.mark.parametrize(("budget", "growth"), [(3.0, 3), (Mu(0.5, delta=1e-6), 3), (Rho(0.1, delta=1e-6), 3)])
def test_scores_of_several_columns_share_their_budget(budget, growth, monkeypatch):
    """A row changes each of k scores, so noise for one score would reveal too much."""
    draw, of_scores = Noise.draw_each, []
    for k in (1, 3):
        drawn = []
        watch = lambda noise, *more, drawn=drawn: drawn.append(noise) or draw(noise, *more)  # noqa: E731
        monkeypatch.setattr(Noise, "draw_each", watch)
        DPSelectKBest(k=k, **DECLARED | {"epsilon": budget}).fit(TABLE, CLASSES)
        of_scores.append(max(drawn, key=lambda noise: noise.sensitivity))
    alone, together = of_scores
    assert together.sensitivity == growth * alone.sensitivity
    assert together.amount == alone.amount
