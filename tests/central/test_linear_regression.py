"""Linear regression from noisy sums of products: sensitivities by brute force, what is spent, and what is learnt."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, Ridge

from skdp import DPLinearRegression, DPRidge
from skdp.privacy import Mu, Rho
from tests.conftest import each

rng = np.random.default_rng(0)
TABLE = pd.DataFrame(rng.normal(size=(2_000, 4)).clip(-3, 3), columns=["a", "b", "c", "d"])
WEIGHTS = np.array([1.0, -0.5, 0.0, 2.0])
TARGET = 1.5 + TABLE.to_numpy() @ WEIGHTS + rng.normal(size=2_000)
DECLARED = {"bounds": (-3, 3), "target_bounds": (-12, 12), "delta": 1e-6}


def test_with_little_noise_it_is_linear_or_ridge_regression():
    wanted = LinearRegression().fit(TABLE, TARGET)
    for epsilon, delta in [(1e7, None), (Mu(300, delta=1e-6), None)]:
        model = DPLinearRegression(epsilon, **DECLARED | {"delta": delta}, random_state=0).fit(TABLE, TARGET)
        # With a delta, long rows weigh less: another estimate of the same coefficients.
        tolerance = 0.002 if epsilon == 1e7 else 0.02
        assert np.allclose(model.coef_, wanted.coef_, atol=tolerance)
        assert model.intercept_ == pytest.approx(wanted.intercept_, abs=tolerance)
    assert model.ridge_ == 0
    wide = TABLE * [1, 10, 1, 0.1]
    ends = np.tile([-3, 3], (4, 1)) * np.array([[1], [10], [1], [0.1]])
    model = DPRidge(1e7, alpha=500, bounds=ends, target_bounds=(-12, 12), random_state=0).fit(wide, TARGET)
    wanted = Ridge(alpha=500).fit(wide, TARGET)
    assert np.allclose(model.coef_, wanted.coef_, atol=0.002)
    assert model.intercept_ == pytest.approx(wanted.intercept_, abs=0.002)
    model = DPRidge(1e7, **DECLARED | {"delta": None}, alpha=50, fit_intercept=False, random_state=0)
    wanted = Ridge(50, fit_intercept=False).fit(TABLE, TARGET)
    assert np.allclose(model.fit(TABLE, TARGET).coef_, wanted.coef_, atol=0.002)
    assert (model.intercept_, model.intercept_std_error_) == (0, 0)


def test_long_rows_do_not_bend_coefficients():
    X = rng.exponential(size=(20_000, 2)).clip(0, 12)
    y = 3 + X @ [1.0, -2.0]
    model = DPLinearRegression(Mu(300, delta=1e-6), bounds=(0, 12), target_bounds=(-21, 15), random_state=0).fit(X, y)
    assert np.allclose(model.coef_, [1, -2], atol=0.003)
    assert model.intercept_ == pytest.approx(3, abs=0.003)


def covered(n_rows, epsilon, delta, repeats):
    weights, found = np.array([1.0, -0.5, 0.3]), []
    for _ in range(repeats):
        X = np.column_stack([rng.normal(size=(n_rows, 2)), rng.exponential(size=n_rows)]).clip(-5, 5)
        y = 2 + X @ weights + rng.normal(size=n_rows)
        model = DPLinearRegression(epsilon, delta=delta, bounds=(-5, 5), target_bounds=(-9, 13)).fit(X, y)
        errors = np.append(model.coef_ - weights, model.intercept_ - 2)
        found.append(np.abs(errors) < 1.96 * np.append(model.coef_std_error_, model.intercept_std_error_))
    return np.mean(found, axis=0)


def test_standard_errors_cover_the_sample_and_the_noise():
    assert covered(2_000, 2.0, 1e-6, 15).min() > 0.7


@pytest.mark.long
@pytest.mark.parametrize(("n_rows", "epsilon", "delta"), [(4_000, 1.0, 1e-6), (50_000, 0.5, 1e-6), (50_000, 1.0, None)])
def test_standard_errors_cover_as_often_as_stated(n_rows, epsilon, delta):
    shares = covered(n_rows, epsilon, delta, 400)
    assert shares.min() > 0.92
    assert shares.max() < 0.99


def test_standard_errors_cover_what_the_ridge_takes():
    """A column that fills a tenth of its bounds: without, the interval held its slope in 6 of 16 cases."""
    held = []
    for seed in range(16):
        draw = np.random.default_rng(seed)
        X = np.column_stack([draw.normal(50, 5, 2_000), draw.uniform(0, 100, 2_000)])
        y = X @ [1.0, -0.5] + draw.normal(0, 10, 2_000)
        model = DPLinearRegression(1.0, delta=1e-6, bounds=(0, 100), target_bounds=(-100, 150), random_state=seed)
        held.append(np.abs(model.fit(X, y).coef_ - [1.0, -0.5]) < 1.96 * model.coef_std_error_)
        assert model.ridge_ > 0
    assert np.mean(held, axis=0).min() > 0.8


@pytest.mark.parametrize("bounds", [(1900.0, 2025.0), (-1e-6, 1e-6), (1e300, 1e300 + 1e293)])
@pytest.mark.parametrize("delta", [None, 1e-6])
def test_bounds_of_any_place_cost_nothing(bounds, delta):
    low, high = bounds
    X = rng.uniform(0, 1, (4_000, 2))
    y = X @ [1.0, 2.0]
    found = [
        DPLinearRegression(4.0, delta=delta, bounds=ends, target_bounds=(0, 3), random_state=0).fit(table, y)
        for ends, table in [((0, 1), X), (bounds, X * (high - low) + low)]
    ]
    assert np.allclose(found[1].coef_ * (high - low), found[0].coef_, rtol=0.05)
    assert found[1].score(X * (high - low) + low, y) == pytest.approx(found[0].score(X, y), abs=0.01)


@pytest.mark.parametrize("delta", [None, 1e-6])
def test_too_few_rows_are_warned_of_and_coefficients_are_small(delta):
    model = DPLinearRegression(0.1, **DECLARED | {"delta": delta}, random_state=0)
    with pytest.warns(UserWarning, match="too few rows for this epsilon"):
        model.fit(TABLE[:20], TARGET[:20])
    assert np.abs(model.predict(TABLE)).max() < 24


@pytest.mark.filterwarnings("ignore:the noise hides how many rows:UserWarning")
@each("epsilon", [5e-324, 1e-300, 1e300, Rho(1e-50, delta=1e-6), Mu(1e-30, delta=1e-6)])
def test_tiny_and_huge_epsilons_and_bounds_are_answered(epsilon):
    for high, fit_intercept, rows in itertools.product([1e-290, 8e307], [True, False], [0, 1, 50]):
        ends = {"bounds": (-high, high), "target_bounds": (-high, high), "fit_intercept": fit_intercept}
        table = np.tile([[high], [0.1 * high]], (rows, 2))  # two columns are the same
        model = DPLinearRegression(epsilon, **ends, random_state=0).fit(table, table[:, 0])
        for found in (model.coef_, model.coef_std_error_, model.intercept_, model.intercept_std_error_):
            assert np.isfinite(found).all()
        assert model.coef_std_error_.min() > 0
