"""Linear and logistic regression with little and with much noise."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.metrics import log_loss
from sklearn.preprocessing import StandardScaler

from skdp import DPLinearRegression, DPLogisticRegression, DPRidge
from skdp.privacy import Mu
from tests.conftest import often

rng = np.random.default_rng(0)
TABLE = pd.DataFrame(rng.normal(size=(2_000, 4)).clip(-3, 3), columns=["a", "b", "c", "d"])
WEIGHTS = np.array([1.0, -0.5, 0.0, 2.0])
TARGET = 1.5 + TABLE.to_numpy() @ WEIGHTS + rng.normal(size=2_000)
DECLARED = {"bounds": (-3, 3), "target_bounds": (-12, 12), "delta": 1e-6}


def test_fit_with_little_noise_equals_linear_and_ridge_regression():
    expected = LinearRegression().fit(TABLE, TARGET)
    for epsilon, delta in [(1e7, 0.0), (Mu(300, delta=1e-6), 0.0)]:
        model = DPLinearRegression(epsilon, **DECLARED | {"delta": delta}, random_state=0).fit(TABLE, TARGET)
        assert np.allclose(model.coef_, expected.coef_, atol=0.002)
        assert model.intercept_ == pytest.approx(expected.intercept_, abs=0.002)
    wide = TABLE * [1, 10, 1, 0.1]
    ends = np.tile([-3, 3], (4, 1)) * np.array([[1], [10], [1], [0.1]])
    expected = Ridge(alpha=500).fit(wide, TARGET)
    for epsilon, delta in [(1e7, 0.0), (Mu(300, delta=1e-6), 0.0)]:
        model = DPRidge(epsilon, alpha=500, **DECLARED | {"delta": delta, "bounds": ends}, random_state=0)
        model.fit(wide, TARGET)
        assert np.allclose(model.coef_, expected.coef_, atol=0.002)
        assert model.intercept_ == pytest.approx(expected.intercept_, abs=0.002)


def test_logistic_regression_without_intercept_of_a_column_with_a_noisy_mean_of_zero():
    X = np.repeat([[-1.0], [-0.5], [0.5], [1.0]], 5_000, axis=0)
    y = np.arange(20_000) % 4 < 1 + 2 * (X[:, 0] > 0)
    declared = {"bounds": (-1.0, 1.0), "classes": [False, True], "fit_intercept": False}
    model = DPLogisticRegression(Mu(100, delta=1e-6), **declared, random_state=0).fit(X, y)
    assert model.coef_ == pytest.approx(LogisticRegression(fit_intercept=False).fit(X, y).coef_, rel=0.1)


@pytest.mark.parametrize("epsilon", [1e7, Mu(300, delta=1e-6)])
def test_target_is_clipped_to_its_bounds(epsilon):
    X = pd.DataFrame({"a": np.linspace(-1, 1, 1_000)})
    y = X["a"] * 2
    y.iloc[-50:] = 1e300
    model = DPLinearRegression(epsilon, bounds=(-1, 1), target_bounds=(-2, 3), random_state=0).fit(X, y)
    assert model.coef_ == pytest.approx(LinearRegression().fit(X, y.clip(-2, 3)).coef_, abs=0.005)


def test_rows_far_from_a_mean_at_a_bound_have_the_weights_of_other_rows():
    """With little noise, no row is shortened, also if it is twice as far from the mean as the middle of the bounds."""
    X = pd.DataFrame({"a": np.repeat([-1.0, 0.0, 1.0], [900, 60, 40])})
    y = X["a"] ** 2 / 2
    model = DPLinearRegression(Mu(300, delta=1e-6), bounds=(-1, 1), target_bounds=(-1, 1), random_state=0).fit(X, y)
    assert model.coef_ == pytest.approx(LinearRegression().fit(X, y).coef_, abs=0.001)


def test_large_laplace_noise_is_no_large_residual():
    """In 3 of 200 fits with bounds ten times too wide, Laplace noise of empty counts widened the limit of residuals."""
    rng = np.random.default_rng(7)
    X = rng.normal(50, 9, (2_000, 1))
    y = 0.2 * X[:, 0] + rng.normal(0, 3, 2_000)
    wide = {"bounds": (0, 1_000), "target_bounds": (-120, 140)}
    scores = [DPLinearRegression(2.0, random_state=seed, **wide).fit(X, y).score(X, y) for seed in range(45, 53)]
    assert min(scores) > 0.1  # 0.27 without noise


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("size", [1e-6, 1e-200])
def test_penalty_of_a_small_column_does_not_shrink_other_columns(size, delta):
    """A column of 1e-12 shrank a coefficient of 0.1 by a factor of 1e-9."""
    X = np.random.default_rng(0).normal(size=(20_000, 2)).clip(-3, 3)
    y = 0.5 + 0.1 * X[:, 0]
    bounds = [(-3, 3), (-3 * size, 3 * size)]
    model = DPRidge(4.0, delta=delta, bounds=bounds, target_bounds=(0, 1), random_state=0).fit(X * [1, size], y)
    assert model.coef_[0] == pytest.approx(0.1, abs=0.005)
    # Its values change predictions by a negligible amount.
    assert abs(model.coef_[1]) * 3 * size < 1e-5
    assert model.summary().notna().all(axis=None)


@pytest.mark.parametrize("bounds", [(1900.0, 2025.0), (-2025.0, -1900.0), (-1e-6, 1e-6), (1e300, 1e300 + 1e293)])
@pytest.mark.parametrize(
    ("model", "tolerance"),
    [
        (DPLinearRegression(4.0, target_bounds=(0, 3)), 0.05),
        (DPLinearRegression(4.0, target_bounds=(0, 3), delta=1e-6), 0.05),
        (DPLogisticRegression(classes=[False, True]), 1e-3),
    ],
)
def test_position_of_the_bounds_does_not_increase_the_error(bounds, model, tolerance):
    low, high = bounds
    X = rng.uniform(0, 1, (4_000, 2))
    moved = X * (high - low) + low
    y = X @ [1.0, 2.0]
    y = y > 1.5 if isinstance(model, DPLogisticRegression) else y
    # Not (0, 1), the bounds of indicators, which are not tested.
    near_end = (0, 1 + 1e-12) if low + high > 0 else (-1, 0) if low + high < 0 else (-0.5, 0.5)
    near = clone(model).set_params(bounds=near_end, random_state=0).fit(X + near_end[0], y)
    far = clone(model).set_params(bounds=bounds, random_state=0).fit(moved, y)
    assert np.allclose(far.coef_ * (high - low), near.coef_, rtol=tolerance, atol=tolerance)
    assert far.score(moved, y) == pytest.approx(near.score(X + near_end[0], y), abs=0.01)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_few_rows_warn_and_give_small_coefficients(delta):
    model = DPLinearRegression(0.1, **DECLARED | {"delta": delta}, random_state=0)
    with pytest.warns(UserWarning, match="Use more rows"):
        model.fit(TABLE[:20], TARGET[:20])
    assert np.abs(model.predict(TABLE)).max() < 24


@pytest.mark.parametrize("correlation", [0.0, 0.95])
def test_scaled_steps_converge_to_the_minimum(correlation):
    """After 20 steps with unweighted rows, the loss was 3 percent above the minimum at every epsilon."""
    draw = np.random.default_rng(0)
    X = np.sqrt(1 - correlation) * draw.normal(size=(20_000, 6)) + np.sqrt(correlation) * draw.normal(size=(20_000, 1))
    y = draw.random(20_000) < 1 / (1 + np.exp(-2 * X @ draw.normal(size=6)))
    model = DPLogisticRegression(Mu(5, delta=1e-6), bounds=(-5, 5), classes=[False, True], random_state=0).fit(X, y)
    smallest = log_loss(y, LogisticRegression(C=1e6).fit(X, y).predict_proba(X))
    assert log_loss(y, model.predict_proba(X)) < 1.005 * smallest


@pytest.mark.parametrize("epsilon", [30.0, 1e4])
@pytest.mark.parametrize("base", [4.4, 5.4], ids=["5 %", "2 %"])
def test_steps_toward_a_rare_class_converge(base, epsilon):
    """Steps were too long beside indicators: a part or 6 times the gain by the columns was lost at each epsilon."""
    draw = np.random.default_rng(0)
    levels = np.eye(4)[draw.choice(4, 20_000, p=[0.52, 0.31, 0.11, 0.06])][:, 1:]
    X = np.column_stack([levels, draw.random((20_000, 4)) < [0.45, 0.29, 0.64, 0.53]])
    logits = X @ [1.45, 2.64, 3.77, 0.14, 0.93, -1.1, 0.0] - base
    two = draw.logistic(size=len(X)) < logits
    three = np.where(two, 2, draw.random(len(X)) < 0.5)
    for y in (two, three):
        model = DPLogisticRegression(epsilon, bounds=(0, 1), classes=[*np.unique(y)], random_state=0).fit(X, y)
        smallest = log_loss(y, LogisticRegression(C=1e6).fit(X, y).predict_proba(X))
        constant = log_loss(y, np.tile(np.unique(y, return_counts=True)[1] / len(y), (len(y), 1)))
        assert log_loss(y, model.predict_proba(X)) - smallest < 0.05 * (constant - smallest)


def test_classes_of_text_are_predicted():
    X, y = load_wine(return_X_y=True)
    X, y = np.tile(StandardScaler().fit_transform(X), (10, 1)), np.tile(np.array(["b", "c", "a"])[y], 10)
    model = DPLogisticRegression(4.0, bounds=(-3, 3), classes=["b", "c", "a"], random_state=0).fit(X, y)
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert model.score(X, y) > 0.95
    assert model.coef_.shape == (3, 13)
    assert np.allclose(model.predict_proba(X).sum(axis=1), 1)
    assert (model.predict(X) == model.classes_[model.decision_function(X).argmax(axis=1)]).all()


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_bounds_of_the_target_hardly_change_the_error(delta):
    """The noise was proportional to the bounds of the target."""
    errors = {10.0: [], 100.0: []}
    for seed in range(5):
        draw = np.random.default_rng(seed)
        X = draw.uniform(-1, 1, (6_000, 2))
        y = 1 + X @ [1.0, -0.5] + draw.normal(size=6_000)
        for bound, found in errors.items():
            model = DPLinearRegression(1.0, delta=delta, bounds=(-1, 1), target_bounds=(-bound, bound))
            found.append(model.set_params(random_state=seed).fit(X, y).coef_ - [1.0, -0.5])
    near, far = (np.sqrt(np.mean(np.square(found))) for found in errors.values())
    assert near < 0.09
    assert far < 2 * near


def test_few_outliers_within_wide_bounds_do_not_increase_the_error():
    draw = np.random.default_rng(0)
    X = draw.uniform(0, 1, (5_000, 2))
    y = X @ [1.0, -1.0] + draw.normal(0, 0.1, 5_000)
    y[:5] = 1_000
    model = DPLinearRegression(1.0, delta=1e-6, bounds=(0, 1), target_bounds=(-1_000, 1_000), random_state=0)
    assert np.allclose(model.fit(X, y).coef_, [1.0, -1.0], atol=0.15)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_rare_large_values_of_the_target_are_not_clipped(delta):
    # The prediction is near the lower bound, so residuals are up to nearly the width of the bounds.
    generator = np.random.default_rng(0)
    X = generator.uniform(0, 1, (20_000, 2))
    is_large = generator.random(len(X)) < 0.02 + 0.1 * X[:, 0]
    y = np.where(is_large, 5 + 15 * X[:, 1], 0.0)
    expected = LinearRegression().fit(X, y)
    model = DPLinearRegression(100.0, delta=delta, bounds=(0, 1), target_bounds=(0, 20), random_state=0).fit(X, y)
    assert model.coef_ == pytest.approx(expected.coef_, rel=0.03)


@pytest.mark.filterwarnings("ignore:The noise is about as large as the effects:UserWarning")
def test_skewed_residuals_that_the_noise_nearly_hides_do_not_bias_the_intercept():
    """The tail of lognormal residuals was taken for a normal tail, and the error of the intercept was 0.27."""
    errors = []
    for seed in range(10):
        draw = np.random.default_rng(seed)
        X = draw.uniform(-1, 1, (5_000, 2))
        y = np.exp(6 + draw.normal(size=5_000))
        model = DPLinearRegression(0.3, bounds=(-1, 1), target_bounds=(0, 100_000), random_state=seed).fit(X, y)
        errors.append(model.intercept_ / np.exp(6.5) - 1)
    assert np.sqrt(np.mean(np.square(errors))) < 0.12


@pytest.mark.filterwarnings("ignore:The noise is about as large:UserWarning")
def test_tail_of_residuals_that_single_noisy_counts_hide_is_not_clipped():
    """By single counts beyond their noise, predictions were too small by 0.21 in place of 0.12 (false alarms: 1e-3)."""
    errors = []
    for seed in range(40):
        draw = np.random.default_rng(seed)
        X = draw.uniform(0, 1, (2_000, 2))
        y = np.exp(2 * draw.normal(size=2_000)).clip(0, 200)
        model = DPLinearRegression(1.0, bounds=(0, 1), target_bounds=(0, 200), random_state=seed).fit(X, y)
        errors.append(model.predict(X).mean() / y.mean() - 1)
    assert np.mean(errors) > -0.18


@pytest.mark.parametrize("n_draws", often([12, 40], [12]))
def test_noisy_counts_of_large_residuals_do_not_increase_the_noise(n_draws):
    """In one of 40 draws, the noise of all coefficients was 30 times as large."""
    errors = []
    for seed in range(n_draws):
        draw = np.random.default_rng(seed)
        X = draw.uniform(0, 1, (5_000, 2))
        y = 3_000 + X @ [1_000.0, -500.0] + 400 * draw.normal(size=5_000)
        model = DPLinearRegression(1.0, bounds=(0, 1), target_bounds=(0, 1e6), random_state=seed).fit(X, y)
        errors.append(model.summary().loc["x0", "noise_std_error"])
    assert max(errors) < 20 * np.median(errors)
    assert np.sum(errors > 5 * np.median(errors)) <= 3


@pytest.mark.filterwarnings("ignore:The noise is about as large as the number of rows:UserWarning")
def test_noisy_counts_of_few_rows_do_not_hide_most_residuals():
    """Noise in counts of small residuals added up to half of the rows, and the limit was about 0, with this seed."""
    draw = np.random.default_rng(1_017)
    X = draw.uniform(0, 10, (800, 1))
    y = 2 * X[:, 0] + 2 * draw.normal(size=800)
    model = DPLinearRegression(0.3, delta=1e-6, bounds=(0, 10), target_bounds=(-100, 100), random_state=17).fit(X, y)
    slope = model.summary().loc["x0"]
    assert abs(slope["estimate"] - 2) < 3 * slope["std_error"]


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (
            DPLogisticRegression(0.3, bounds=(-4, 4), classes=[0, 1], random_state=2),
            "effects of the columns",
        ),  # 15 of 20 seeds
        (
            DPLinearRegression(0.3, delta=1e-6, bounds=(-4, 4), target_bounds=(0, 1), random_state=0),
            "effects of the col",
        ),
        (DPLinearRegression(1.0, bounds=(-4, 4), target_bounds=(0, 1), random_state=0), "Set a delta"),
    ],
)
def test_models_without_effects_warn(model, text):
    draw = np.random.default_rng(0)
    X, y = draw.normal(size=(1_500, 12)), draw.integers(0, 2, 1_500)
    with pytest.warns(UserWarning, match=text):
        model.fit(X, y)


@pytest.mark.filterwarnings("ignore:The noise is about as large as the number of rows:UserWarning")
def test_each_fit_without_effects_warns_if_the_products_are_noise():
    """With equal eigenvalues, the check took any of their directions, so 3 of 20 fits did not warn."""
    draw = np.random.default_rng(0)
    X, y = draw.normal(size=(1_500, 12)), draw.integers(0, 2, 1_500)
    for seed in range(20):
        model = DPLinearRegression(0.05, delta=1e-6, bounds=(-4, 4), target_bounds=(0, 1), random_state=seed)
        with pytest.warns(UserWarning, match="effects of the col"):
            model.fit(X, y)
