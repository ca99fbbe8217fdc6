"""Logistic regression by noisy gradients: sensitivities by brute force, what is spent, and what is learnt."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_wine, make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

from skdp import (
    DPLogisticRegression,
    PrivacyLeakWarning,
)
from skdp.privacy import Mu

rng = np.random.default_rng(0)
TABLE, TARGET = make_classification(2_000, 4, n_informative=3, n_redundant=0, random_state=1)
TABLE = pd.DataFrame(np.clip(TABLE, -4, 4), columns=["a", "b", "c", "d"])
DECLARED = {"bounds": (-4, 4), "classes": [0, 1]}


def test_with_little_noise_it_is_logistic_regression():
    model = DPLogisticRegression(Mu(300, delta=1e-6), **DECLARED, max_iter=2_000, random_state=0).fit(TABLE, TARGET)
    wanted = LogisticRegression(C=1e6).fit(TABLE, TARGET)
    assert np.allclose(model.coef_, wanted.coef_, atol=0.04)  # a few rows are shrunk
    assert np.allclose(model.intercept_, wanted.intercept_, atol=0.04)
    assert np.allclose(model.predict_proba(TABLE), wanted.predict_proba(TABLE), atol=0.02)
    assert (model.predict(TABLE) == model.classes_[model.predict_proba(TABLE).argmax(axis=1)]).all()


def test_the_auc_is_near_that_without_privacy():
    X, y = make_classification(8_000, 20, n_informative=6, random_state=2)
    model = DPLogisticRegression(1.0, bounds=(-8, 8), classes=[0, 1], random_state=0).fit(X[:6_000], y[:6_000])
    wanted = LogisticRegression().fit(X[:6_000], y[:6_000])
    reached = [roc_auc_score(y[6_000:], one.decision_function(X[6_000:])) for one in (model, wanted)]
    assert reached[0] > reached[1] - 0.01


def test_several_classes_of_any_kind():
    X, y = load_wine(return_X_y=True)
    X, y = np.tile(StandardScaler().fit_transform(X), (10, 1)), np.tile(np.array(["b", "c", "a"])[y], 10)
    model = DPLogisticRegression(4.0, bounds=(-3, 3), classes=["b", "c", "a"], random_state=0).fit(X, y)
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert model.score(X, y) > 0.95
    assert model.coef_.shape == (3, 13)
    assert np.allclose(model.predict_proba(X).sum(axis=1), 1)
    assert (model.predict(X) == model.classes_[model.decision_function(X).argmax(axis=1)]).all()


def test_columns_keep_their_units_and_the_intercept_its_place():
    kinds = rng.integers(0, 3, (4_000, 2))
    X = np.hstack([np.eye(3)[kinds[:, 0]], np.eye(3)[kinds[:, 1]]])
    y = rng.random(4_000) < np.where(kinds[:, 0] == 2, 0.9, 0.2)
    model = DPLogisticRegression(2.0, bounds=(0, 1), classes=[False, True], random_state=0).fit(X, y)
    scaled = DPLogisticRegression(2.0, bounds=(0, 8), classes=[False, True], random_state=0).fit(8 * X, y)
    assert np.allclose(8 * scaled.coef_, model.coef_)
    assert np.allclose(scaled.intercept_, model.intercept_)
    shares = model.predict_proba(X)[:, 1]
    assert shares[kinds[:, 0] == 2].mean() == pytest.approx(0.9, abs=0.05)
    assert shares[kinds[:, 0] != 2].mean() == pytest.approx(0.2, abs=0.05)


@pytest.mark.parametrize("bounds", [(1900.0, 2025.0), (-2025.0, -1900.0), (5.0, 6.0), (1e300, 1e300 + 1e293)])
def test_bounds_far_from_0_cost_nothing(bounds):
    low, high = bounds
    X = rng.uniform(0, 1, (4_000, 2))
    y = X[:, 0] + 0.2 * rng.normal(size=4_000) > 0.5
    ends = (0, 1) if low > 0 else (-1, 0)
    near = DPLogisticRegression(bounds=ends, classes=[False, True], random_state=0).fit(X + min(ends), y)
    far = DPLogisticRegression(bounds=bounds, classes=[False, True], random_state=0)
    moved = X * (high - low) + low
    assert far.fit(moved, y).score(moved, y) > 0.8
    assert np.allclose(far.coef_ * (high - low), near.coef_, rtol=1e-3, atol=1e-3)
    without = DPLogisticRegression(bounds=bounds, classes=[False, True], fit_intercept=False, random_state=0)
    assert without.fit(moved, y).intercept_ == [0]


def test_classes_that_are_read_are_warned_of():
    with pytest.warns(PrivacyLeakWarning, match="classes="):
        model = DPLogisticRegression(bounds=(-4, 4), random_state=0).fit(TABLE, TARGET)
    assert (model.coef_ == DPLogisticRegression(**DECLARED, random_state=0).fit(TABLE, TARGET).coef_).all()
