"""Models of ordinary columns: equal to scikit-learn with little noise, and right about rare indicators."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from scipy.stats import binom, chi2, norm
from sklearn.base import clone, is_classifier
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import log_loss, r2_score, roc_auc_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdp import (
    DPPCA,
    DPAdditiveClassifier,
    DPAdditiveRegressor,
    DPGaussianNB,
    DPLinearRegression,
    DPLogisticRegression,
    DPRidge,
    DPStandardScaler,
)
from tests.conftest import diagonal, often, quick_first
from tests.ordinary import AGE_BOUNDS, DEPENDENT, SETTINGS, draw_age, draw_indicator, draw_ordinary

# Models warn of columns that are constant or equal, up to noise: such as indicators of 20 rows.
pytestmark = pytest.mark.filterwarnings(
    "ignore:(The noise|Without a delta|Column .* is constant):UserWarning",
    "ignore:Setting penalty=None:UserWarning",  # of scikit-learn 1.8, about C
)

# Quick tests find errors of twice their standard error in one of three columns, with a probability above 0.8.
N_DRAWS = 15
MAX_FALSE_ALARM = 1e-6
LIMIT = 10_000.0

LOGISTIC = make_pipeline(StandardScaler(), LogisticRegression(C=np.inf))
LINEAR = make_pipeline(StandardScaler(), LinearRegression())
# Each estimator with a reference without privacy; additive models contain linear models.
MODELS = {
    "logistic": (DPLogisticRegression(LIMIT), LOGISTIC),
    "linear, pure": (DPLinearRegression(LIMIT), LINEAR),
    "linear": (DPLinearRegression(LIMIT, delta=1e-6), LINEAR),
    "ridge, pure": (DPRidge(LIMIT, alpha=1e-3), LINEAR),
    "ridge": (DPRidge(LIMIT, alpha=1e-3, delta=1e-6), LINEAR),
    "additive, numbers": (DPAdditiveRegressor(LIMIT), LINEAR),
    "additive, classes": (DPAdditiveClassifier(LIMIT), LOGISTIC),
    "naive Bayes": (DPGaussianNB(LIMIT), make_pipeline(StandardScaler(), GaussianNB())),
}


def score(model, X, y):
    return roc_auc_score(y, model.predict_proba(X)[:, 1]) if is_classifier(model) else r2_score(y, model.predict(X))


@pytest.mark.parametrize(("setting", "name"), diagonal(SETTINGS, MODELS))
def test_models_of_ordinary_columns_with_little_noise_equal_models_without_privacy(setting, name):
    model, rival = map(clone, MODELS[name])
    table = draw_ordinary(setting)
    declared = {"classes": [0, 1]} if is_classifier(model) else {"target_bounds": table.number_bounds}
    y = table.label if is_classifier(model) else table.number
    model.set_params(bounds=table.bounds, random_state=0, **declared).fit(table.X, y)
    rival.fit(table.X, y)
    assert score(model, table.X, y) >= score(rival, table.X, y) - 0.01
    if hasattr(model, "coef_") and setting not in [*DEPENDENT, "constant"]:
        scaled = np.ravel(model.coef_) * table.X.std(ddof=0)
        assert scaled.to_numpy() == pytest.approx(np.ravel(rival[-1].coef_), abs=0.05)
    if name == "logistic":  # the AUC ignores how large coefficients are
        loss, best = (log_loss(y, fitted.predict_proba(table.X)) for fitted in (model, rival))
        assert loss <= best + 0.002


@pytest.mark.parametrize(("setting", "seed"), [("equal columns", 15), ("sum of columns", 57)])
def test_steps_of_logistic_regression_ignore_the_direction_of_dependent_columns(setting, seed):
    """Steps of 20 along it, where second derivatives are noise, hid the others: losses were 0.10 and 0.17 larger."""
    table = draw_ordinary(setting, seed=3)
    model = DPLogisticRegression(4.0, bounds=table.bounds, classes=[0, 1], random_state=seed).fit(table.X, table.label)
    loss, best = (
        log_loss(table.label, fitted.predict_proba(table.X))
        for fitted in (model, clone(LOGISTIC).fit(table.X, table.label))
    )
    assert loss <= best + 0.005


@pytest.mark.parametrize("setting", SETTINGS)
def test_scaler_and_components_of_ordinary_columns_with_little_noise_are_exact(setting):
    table = draw_ordinary(setting)
    X = table.X.to_numpy()
    bounds = np.array([*table.bounds.values()])
    scaler = DPStandardScaler(LIMIT, bounds=bounds, random_state=0).fit(X)
    assert (np.abs(scaler.mean_ - X.mean(axis=0)) < 1e-3 * np.ptp(bounds, axis=1)).all()
    varies = X.std(axis=0) > 0
    assert scaler.scale_[varies] == pytest.approx(X.std(axis=0)[varies], rel=0.02)
    scaled = StandardScaler().fit_transform(X).clip(-5, 5)
    components = DPPCA(LIMIT, bounds=(-5, 5), n_components=1, random_state=0).fit(scaled).components_
    best = PCA(1).fit(scaled).components_
    assert (scaled @ components.T).var() >= 0.99 * (scaled @ best.T).var()


def draw_smokers(rng, n_rows, share=0.1):
    """Draw age, BMI, a rare indicator, and a label."""
    columns = {"age": draw_age(rng, n_rows), "bmi": rng.normal(26, 4, n_rows).clip(0, 80)}
    X = pd.DataFrame(columns).assign(smoker=draw_indicator(rng, share, n_rows))
    y = rng.random(n_rows) < expit(-5 + X.to_numpy() @ [0.05, 0.08, 0.7])
    return X, y.astype(int)


SMOKER_BOUNDS = [AGE_BOUNDS, (0.0, 80.0), (0.0, 1.0)]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_coefficients_beside_a_rare_indicator_are_those_without_privacy(seed):
    """Coefficients were (64, 77, 16,020) with seed 1; of nine intervals, a correct one fails with probability 0.024."""
    X, y = draw_smokers(np.random.default_rng(seed), 10_000)
    model = DPLogisticRegression(1.0, bounds=SMOKER_BOUNDS, classes=[0, 1], random_state=seed).fit(X, y)
    check_logistic(model, X, y)


def check_logistic(model, X, y):
    """Check the coefficients by their noise, and the AUC."""
    rival = clone(LOGISTIC).fit(X, y)
    expected = rival[-1].coef_[0] / X.std(ddof=0).to_numpy()
    assert (np.abs(model.coef_[0] - expected) <= 3 * model.summary()["std_error"].to_numpy()[1:]).all()
    assert score(model, X, y) >= score(rival, X, y) - 0.01


@pytest.mark.parametrize(("first", "second"), quick_first(1, [(0.1, 0.02), (0.15, 0.05)]))
@pytest.mark.parametrize("n_draws", often([N_DRAWS, 200], [N_DRAWS]))
def test_intervals_of_rare_indicators_beside_a_uniform_column_cover(first, second, n_draws):
    """No interval of the first indicator covered."""

    def draw(seed):
        rng = np.random.default_rng(seed)
        indicators = [draw_indicator(rng, share, 20_000) for share in (first, second)]
        X = np.column_stack([rng.uniform(0, 1, 20_000), *indicators])
        y = rng.random(20_000) < expit(-1 + X @ [1.0, 0.7, -0.5])
        model = DPLogisticRegression(1.0, delta=1e-6, bounds=(0, 1), classes=[False, True], random_state=seed)
        return standardize(model.fit(X, y), [1.0, 0.7, -0.5])

    check_errors(np.array([draw(seed) for seed in range(n_draws)]))


@pytest.mark.long
def test_intervals_of_an_indicator_of_twenty_rows_beside_other_columns_cover():
    """Standard errors ignored the noise of second derivatives, and mean squares of the indicator were 2.5."""
    weights, bounds = np.array([0.6, 0.3, -0.15, 0.15, 0.4, 0.7]), [(-4, 7)] * 2 + [(0, 1)] + [(0, 20)] + [(0, 1)] * 2

    def draw(seed):
        rng = np.random.default_rng(seed)
        numbers = [rng.normal(size=(2_000, 2)).clip(-4, 7), rng.uniform(size=2_000), rng.gamma(2, 1, 2_000).clip(0, 20)]
        X = np.column_stack([*numbers, draw_indicator(rng, 0.45, 2_000), draw_indicator(rng, 0.01, 2_000)])
        y = rng.random(2_000) < expit(X @ weights - 0.9)
        model = DPLogisticRegression(1.0, bounds=bounds, classes=[False, True], random_state=seed)
        table = model.fit(X, y).summary().iloc[1:]
        return ((table["estimate"] - weights) / table["std_error"]).to_numpy()

    errors = np.array([draw(seed) for seed in range(200)])
    check_errors(errors[np.isfinite(errors).all(axis=1)])


@pytest.mark.parametrize("share", [0.03, pytest.param(0.01, marks=pytest.mark.long)])
@pytest.mark.parametrize("target_bounds", [(-10, 40), pytest.param((-12, 38), marks=pytest.mark.long)])
@pytest.mark.parametrize("n_draws", often([N_DRAWS, 200], [N_DRAWS]))
def test_intervals_of_a_rare_indicator_cover_for_any_bounds_of_the_target(target_bounds, share, n_draws):
    """The coefficient of -3 was half too large, because the rows of the indicator were shortened, then clipped."""
    n_rows = round(90 / share)

    def draw(seed):
        rng = np.random.default_rng(seed)
        X = np.column_stack([rng.uniform(18, 90, n_rows), draw_indicator(rng, share, n_rows)])
        y = 10 + X @ [0.05, -3.0] + rng.normal(0, 2, n_rows)
        declared = {"bounds": [(0, 100), (0, 1)], "target_bounds": target_bounds}
        model = DPLinearRegression(1.0, delta=1e-6, **declared, random_state=seed)
        return standardize(model.fit(X, y), [0.05, -3.0])

    check_errors(np.array([draw(seed) for seed in range(n_draws)]))


def standardize(model, expected):
    """Return the errors of the coefficients in standard errors, nan without an interval."""
    errors = model.summary()["std_error"].to_numpy(dtype=float)[1:]
    return (np.ravel(model.coef_) - expected) / np.where(np.isfinite(errors), errors, np.nan)


def check_errors(errors):
    """Check intervals and mean squares of normal errors by draw; correct ones fail with a probability of 1e-6."""
    check_misses(errors, max_error=1.96, alarm=MAX_FALSE_ALARM / 2)
    n_given = np.isfinite(errors).sum(axis=0)
    assert (n_given >= len(errors) / 2).all(), n_given
    squares = np.nansum(errors**2, axis=0)
    assert (squares <= chi2.isf(MAX_FALSE_ALARM / (2 * errors.shape[1]), n_given)).all(), squares / n_given


def check_misses(errors, max_error, alarm=MAX_FALSE_ALARM):
    """Check the numbers of normal errors by draw that are larger than `max_error`."""
    n_misses, n_given = (np.abs(errors) > max_error).sum(axis=0), np.isfinite(errors).sum(axis=0)
    assert (n_misses <= binom.isf(alarm / errors.shape[1], n_given, 2 * norm.sf(max_error))).all(), n_misses


@pytest.mark.long
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
@pytest.mark.parametrize("n_rows", [2_000, 20_000])
@pytest.mark.parametrize("n_columns", [1, 3, 6])
@pytest.mark.parametrize("share", [0.01, 0.03, 0.05, 0.1, 0.15, 0.2])
def test_logistic_regression_of_a_rare_indicator_is_as_good_as_without_privacy(share, n_columns, n_rows, epsilon):
    """In 100 draws, errors of coefficients above three standard errors have a probability of 0.0027 each."""
    weights = np.append(np.full(n_columns, 0.8 / np.sqrt(n_columns)), 0.7)
    errors, shortfalls = [], []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        X = np.column_stack([rng.normal(size=(n_rows, n_columns)).clip(-4, 4), draw_indicator(rng, share, n_rows)])
        y = rng.random(n_rows) < expit(-0.5 + X @ weights)
        bounds = [(-4, 4)] * n_columns + [(0, 1)]
        model = DPLogisticRegression(epsilon, bounds=bounds, classes=[False, True], random_state=seed).fit(X, y)
        errors.append(standardize(model, weights))
        shortfalls.append(score(clone(LOGISTIC).fit(X, y), X, y) - score(model, X, y))
    assert np.mean(shortfalls) <= 0.01
    check_misses(np.array(errors), max_error=3.0)
