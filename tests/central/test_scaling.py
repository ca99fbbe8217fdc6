"""Columns that a model scales by itself: when, to what, and at which cost."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from skdp import DPLinearRegression, DPLogisticRegression, DPRidge, load, save
from skdp.privacy import Mu, Rho
from skdp.testing import replay_release
from tests.conftest import each

rng = np.random.default_rng(0)
N_ROWS = 6_000
INCOMES = np.exp(rng.normal(10, 1.5, N_ROWS)).clip(0, 1e7)
AGES = rng.uniform(0, 100, N_ROWS)
PEOPLE = pd.DataFrame({"age": AGES, "income": INCOMES})
BOUNDS = {"age": (0, 100), "income": (0, 10_000_000)}
LOGITS = (np.log(INCOMES + 1) - 10) * 1.5 + (AGES - 50) / 25
CLASSES = pd.Series((rng.random(N_ROWS) < 1 / (1 + np.exp(-LOGITS))).astype(int), name="class")
NUMBERS = pd.Series(LOGITS + rng.normal(size=N_ROWS), name="number")
LITTLE_NOISE = Mu(100.0, delta=1e-6)


def logistic(epsilon=1.0, **parameters):
    declared = {"bounds": BOUNDS, "classes": [0, 1], "scaling": "auto", "random_state": 0}
    return DPLogisticRegression(epsilon, **declared | parameters)


def linear(epsilon=1.0, **parameters):
    declared = {"bounds": BOUNDS, "target_bounds": (-12, 12), "scaling": "auto", "random_state": 0}
    return DPLinearRegression(epsilon, **declared | parameters)


TARGETS = {logistic: CLASSES, linear: NUMBERS}


@each("make", [logistic, linear])
def test_incomes_are_scaled_and_ages_stay_as_they_are(make):
    target = TARGETS[make]
    scaled = make(delta=1e-6).fit(PEOPLE, target)
    of_age, of_income = scaled.scales_
    assert of_age is None
    values, places = of_income.T
    assert (values[0], values[-1]) == (0, 10_000_000)
    assert (np.diff(values) > 0).all()
    assert (np.diff(places) >= 0).all()
    assert places[[0, -1]] == pytest.approx([-1, 1])
    unscaled = make(delta=1e-6, scaling=None).fit(PEOPLE, target)
    assert not hasattr(unscaled, "scales_")
    assert scaled.score(PEOPLE, target) > unscaled.score(PEOPLE, target) + 0.1


@each("make", [logistic, linear])
def test_rows_are_predicted_by_the_places_of_their_values(make):
    model = make(5.0).fit(PEOPLE, TARGETS[make])
    values, places = model.scales_[1].T
    columns = np.column_stack([AGES, np.interp(INCOMES, values, places)])
    response = columns @ np.ravel(model.coef_) + model.intercept_
    predicted = model.decision_function(PEOPLE) if make is logistic else model.predict(PEOPLE)
    np.testing.assert_allclose(predicted, response, rtol=1e-12)
    beyond = pd.DataFrame({"age": [50.0, 50.0], "income": [1e7, 1e9]})
    assert len(set(model.predict(beyond))) == 1


def test_with_little_noise_a_place_is_half_a_rank():
    model = logistic(LITTLE_NOISE).fit(PEOPLE, CLASSES)
    values, places = model.scales_[1].T
    ranks = np.searchsorted(np.sort(INCOMES), values) / N_ROWS
    first, last = np.quantile(INCOMES, [0.005, 0.995])
    expected = np.clip((values - first) / (last - first), 0, 1) + ranks - 1
    # The quantiles are those of cells, within which values are taken to be even.
    np.testing.assert_allclose(places, expected, atol=0.06)
    again = LogisticRegression(C=1e9).fit(np.column_stack([AGES, np.interp(INCOMES, values, places)]), CLASSES)
    np.testing.assert_allclose(model.coef_, again.coef_, rtol=0.1)


@each("bounds", [(-1, 1), (0, 1), (-3, 3)])
def test_tight_bounds_leave_columns_as_they_are(bounds):
    X = np.random.default_rng(1).uniform(-1, 1, (5_000, 3))
    y = (X[:, 0] > 0).astype(int)
    assert logistic(2.0, bounds=bounds).fit(X, y).scales_ == [None] * 3


def test_few_rows_leave_columns_as_they_are():
    with pytest.warns(UserWarning, match="too few rows"):
        model = logistic(0.5).fit(PEOPLE[:50], CLASSES[:50])
    assert model.scales_ == [None, None]


@pytest.mark.filterwarnings("ignore::UserWarning")  # there are few rows
def test_no_rows_leave_columns_as_they_are():
    # Laplace noise of a large epsilon is 0, and so is the number of rows.
    model = linear(1e6).fit(PEOPLE[:0], NUMBERS[:0])
    assert model.scales_ == [None, None]
    assert np.isfinite(model.predict(PEOPLE[:1])).all()


def test_one_charge_of_the_same_size():
    for make in (logistic, linear):
        for epsilon in (1.0, Mu(0.3, delta=1e-6)):
            scaled = make(epsilon).fit(PEOPLE, TARGETS[make]).guarantee_
            unscaled = make(epsilon, scaling=None).fit(PEOPLE, TARGETS[make]).guarantee_
            assert scaled.epsilon == pytest.approx(unscaled.epsilon)
            assert scaled.epsilon <= max(1.0, unscaled.epsilon)
            assert scaled.scope == unscaled.scope


def test_private_bounds_are_found_before():
    model = linear(4.0, bounds="private", delta=1e-6).fit(PEOPLE, NUMBERS)
    values = model.scales_[1][:, 0]
    assert values[[0, -1]].tolist() == model.bounds_[1].tolist()
    assert model.score(PEOPLE, NUMBERS) > 0.6


def test_what_is_fitted_is_kept(tmp_path):
    model = logistic().fit(PEOPLE, CLASSES)
    save(model, tmp_path / "model.json")
    expected = model.predict_proba(PEOPLE)
    for copy in (load(tmp_path / "model.json"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(copy.predict_proba(PEOPLE), expected)
    again = clone(model).fit(pl.from_pandas(PEOPLE), CLASSES.to_numpy())
    np.testing.assert_array_equal(again.predict_proba(pl.from_pandas(PEOPLE)), expected)
    model.set_params(scaling=None).fit(PEOPLE, CLASSES)
    assert not hasattr(model, "scales_")


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"scaling": "log"}, ValueError, "scaling must be None or 'auto', got 'log'"),
        ({"scaling": True}, ValueError, "scaling must be None or 'auto', got True"),
        ({"fit_intercept": False}, ValueError, "needs fit_intercept=True"),
        ({"protect": "target"}, ValueError, "scaling must be None with protect, got 'auto'"),
    ],
)
@each("make", [logistic, linear])
def test_what_is_refused(make, parameters, error, message):
    model = make(**parameters)
    with pytest.raises(error, match=message):
        model.fit(PEOPLE, TARGETS[make])
    assert not hasattr(model, "guarantee_")


@each("bounds", [(-8e307, 8e307), (0, 1e-300), (-1e300, 0), (1e300, 1.0000001e300), (1e9, 1e9 + 99)])
def test_extreme_bounds_make_finite_scales(bounds):
    low, high = bounds
    X = np.array([[low], [high]] * 200)
    y = np.array([0, 1] * 200)
    model = DPRidge(50.0, bounds=bounds, target_bounds=(0, 1), scaling="auto", random_state=0).fit(X, y)
    for scale in model.scales_:
        assert scale is None or np.isfinite(scale).all()


def test_all_noise_is_gaussian_where_the_guarantee_says_so():
    """Of a large rho, pure noise is less than Gaussian noise, and not covered by the sum of the squares of mu."""
    table = pd.DataFrame({"age": AGES[:60], "number": NUMBERS[:60]})
    model = linear(Rho(30.0, delta=1e-6), bounds={"age": (0, 100)})
    result = replay_release(model, table, table.drop(index=3))
    assert [loss.mu for loss in result.guarantee.losses] == [pytest.approx(60**0.5)]
    assert set(result.draws["sampler"]) == {"rounded_gaussian"}
