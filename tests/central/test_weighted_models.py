"""Weights, models without an intercept, and scores of linear, ridge and logistic regression."""

import math

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skdp import DPAdditiveRegressor, DPGaussianNB, DPLinearRegression, DPLogisticRegression, DPRidge, PrivacyLedger
from skdp.privacy import Mu
from skdp.testing import replay_release
from tests.conftest import diagonal, often

BOUNDS = {"bounds": {"a": (-1, 1), "b": (-4, 4)}}
NUMBER, CLASSES = BOUNDS | {"target_bounds": (-1, 1)}, BOUNDS | {"classes": [0, 1]}
MODELS = {
    "linear": DPLinearRegression(delta=1e-6, **NUMBER),
    "linear, pure": DPLinearRegression(**NUMBER),
    "ridge": DPRidge(delta=1e-6, alpha=2.0, **NUMBER),
    "logistic": DPLogisticRegression(**CLASSES),
    "logistic, target": DPLogisticRegression(classes=[0, 1], protect="target"),
}


def draw_table(name, n_rows, seed=0):
    """Draw rows whose coefficients differ between light and heavy rows, and weights from 0.5 to 4."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"a": rng.uniform(-1, 1, n_rows), "b": rng.uniform(-4, 4, n_rows)})
    weights = pd.Series(rng.choice([0.5, 4.0], n_rows))
    y = 0.2 * X["a"] * weights + 0.05 * X["b"] + 0.1 + rng.normal(0, 0.1, n_rows)
    if "logistic" in name:
        return X, pd.Series((5 * y > rng.logistic(size=n_rows)).astype(int)), weights
    return X, y.clip(-1, 1), weights


@pytest.mark.usefixtures("few_cells")
@pytest.mark.filterwarnings("ignore:The noise:UserWarning")  # there are few rows
@pytest.mark.parametrize(("name", "n_rows"), diagonal(["linear", "linear, pure", "logistic"], [1, 2]))
def test_weighted_neighbors_by_record_or_person_lose_at_most_epsilon(name, n_rows):
    """Rows of large leverage and any weight: 0, above `max_weight` or missing."""
    model = clone(MODELS[name]).set_params(max_rows_per_person=n_rows, max_weight=4.0)
    used = []
    for seed, weight in enumerate([4.0, 9.0, 1.5, 0.0, np.nan]):
        rng = np.random.default_rng(seed)
        X, y, weights = draw_table(name, 60, seed)
        table = (X / 10).assign(w=weights, target=y)
        corner = [*rng.choice([-1.0, 1.0], 2) * [1, 4], weight, rng.integers(2)]
        corners = [corner] * n_rows
        rows = pd.concat([table, pd.DataFrame(corners, columns=table.columns)], ignore_index=True)
        rows = rows.astype({"target": int}) if name == "logistic" else rows

        def release(part, seed=seed):
            part = part.drop(columns="target"), part["target"]
            return model.set_params(random_state=seed).fit(*part, sample_weight="w")

        replay = replay_release(release, rows, rows[:-n_rows])
        assert replay.passed, replay.findings
        used.append(replay.epsilon / replay.guarantee.epsilon)
    assert 0.42 < max(used) <= 1 + 1e-9
    # A weight of 0 changes numbers of rows only: 1 / 40 of the squared budget for the test of bounds, at most a fourth
    # of the rest for the scales of three columns, 7 / 32 of what remains for coordinates, and 11 / 60 of the rest.
    assert used[3] < math.sqrt(1 / 40 + 39 / 40 * (1 / 4 + 3 / 4 * (7 / 32 + 25 / 32 * 11 / 60)))


@pytest.mark.parametrize("name", list(MODELS))
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_fit_with_little_noise_equals_weighted_models(name, fit_intercept):
    X, y, weights = draw_table(name, 4_000)
    expected = LogisticRegression(C=1e6, fit_intercept=fit_intercept)
    if "logistic" not in name:
        expected = (
            Ridge(2.0, fit_intercept=fit_intercept)
            if name == "ridge"
            else LinearRegression(fit_intercept=fit_intercept)
        )
    expected.fit(X, y, sample_weight=weights)
    epsilon = 1e7 if name == "linear, pure" else Mu(300, delta=1e-6)
    parameters = {"epsilon": epsilon, "delta": 1e-6 if "logistic" in name else 0.0}
    model = clone(MODELS[name]).set_params(**parameters, max_weight=4.0, fit_intercept=fit_intercept, random_state=0)
    model.fit(X, y, sample_weight=weights)
    # Logistic regression has further weights, and the relation of the weights is not linear.
    tolerance = 0.1 if "logistic" in name else 0.003
    assert np.allclose(model.coef_, expected.coef_, atol=tolerance)
    assert np.allclose(model.intercept_, expected.intercept_, atol=tolerance)
    terms = ["a", "b"] if not fit_intercept else ["intercept", "a", "b"]
    assert model.summary().index.tolist() == terms
    if not fit_intercept:
        assert np.all(model.intercept_ == 0.0)


def test_penalty_is_for_weights_that_are_not_divided_by_the_largest_one():
    X, weights = pd.DataFrame({"a": np.tile([-1.0, 1.0], 500)}), np.full(1_000, 2.0)
    y = 0.5 * X["a"]
    model = DPRidge(Mu(300, delta=1e-6), alpha=4_000, bounds=(-1, 1), target_bounds=(-1, 1), random_state=0)
    model.set_params(max_weight=4.0).fit(X, y, sample_weight=weights)
    assert model.coef_ == pytest.approx(Ridge(4_000).fit(X, y, sample_weight=weights).coef_, abs=0.001)


@pytest.mark.parametrize("name", often(MODELS, ["linear", "logistic"]))
def test_estimates_without_an_intercept_have_the_stated_errors(name):
    model = clone(MODELS[name]).set_params(fit_intercept=False, epsilon=2.0)
    estimates = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X = pd.DataFrame({"a": rng.uniform(0, 1, 6_000), "b": rng.uniform(-1, 3, 6_000)})
        y = X @ [0.5, -0.2]
        noise = rng.logistic(size=6_000) if "logistic" in name else rng.normal(0, 0.1, 6_000)
        y = y > noise if "logistic" in name else (y + noise).clip(-1, 1)
        table = model.set_params(random_state=seed).fit(X, y.astype(int) if "logistic" in name else y).summary()
        wanted = [0.5, -0.2] if name != "ridge" else Ridge(2.0, fit_intercept=False).fit(X, X @ [0.5, -0.2]).coef_
        estimates.append((table["estimate"] - wanted) / table["std_error"])
    squares = np.mean(np.square(estimates), axis=0)
    # Chi-squared with 12 degrees of freedom: 3.4e-7 on each side.
    assert (squares > 0.0432).all(), squares
    assert (squares < 4.46).all(), squares


def test_halves_of_the_largest_weight_double_the_noise():
    X, y, _ = draw_table("linear", 5_000)
    plain = DPLinearRegression(4.0, delta=1e-6, **NUMBER, random_state=0).fit(X, y).summary()
    weighted = DPLinearRegression(4.0, delta=1e-6, **NUMBER, max_weight=2.0, random_state=0)
    weighted = weighted.fit(X, y, sample_weight=np.ones(5_000)).summary()
    assert (weighted["noise_std_error"] / plain["noise_std_error"]).between(1.5, 3).all()
    assert np.allclose(weighted["sampling_std_error"], plain["sampling_std_error"], rtol=0.3)


@pytest.mark.parametrize("name", list(MODELS))
def test_mistakes_with_weights_raise_errors_before_the_charge(name):
    X, y, weights = draw_table(name, 100)
    ledger = PrivacyLedger(epsilon=1.0, delta=1e-6)
    model = clone(MODELS[name]).set_params(ledger=ledger)
    if name == "logistic, target":
        model.set_params(ledger=None)
    mistakes = [
        ({"max_weight": 4.0}, None, "`sample_weight` must be given with max_weight=4.0"),
        ({"max_weight": None}, weights, "`max_weight` must be the largest weight .* Set max_weight=1 in a bagging"),
        ({"max_weight": 4.0}, weights[::-1], "`sample_weight` must have its row labels in the order of X"),
        ({"max_weight": 4.0}, [1.0], "must have one weight for each row"),
        ({"max_weight": 4.0}, "v", "`sample_weight` must be the name of a column of X"),
    ]
    for parameters, sample_weight, match in mistakes:
        with pytest.raises(ValueError, match=match):
            model.set_params(**parameters).fit(X, y, sample_weight=sample_weight)
    with pytest.raises(TypeError, match="`fit_intercept` must be True or False, got int"):
        model.set_params(max_weight=None, fit_intercept=0).fit(X, y)
    assert ledger.spent.epsilon == 0


def test_weights_and_persons_of_columns_are_no_features():
    X, y, weights = draw_table("linear", 3_000)
    model = DPLinearRegression(5.0, delta=1e-6, **NUMBER, max_weight=4.0, random_state=0)
    by_name = clone(model).fit(X.assign(w=weights), y, sample_weight="w")
    assert by_name.feature_names_in_.tolist() == ["a", "b"]
    assert by_name.guarantee_.scope == ("a", "b", "target", "w")
    pipeline = make_pipeline(FunctionTransformer(), clone(model))
    found = pipeline.fit(X, y, dplinearregression__sample_weight=weights)[-1]
    assert np.array_equal(found.coef_, by_name.coef_)
    table = X.assign(w=weights, id=np.arange(3_000))
    persons = clone(model).fit(table, y, sample_weight="w", person="id")
    assert persons.feature_names_in_.tolist() == ["a", "b"]
    assert np.allclose(persons.coef_, by_name.coef_, atol=0.1)


@pytest.mark.parametrize(
    "model",
    [
        DPLinearRegression(**NUMBER),
        DPAdditiveRegressor(**NUMBER),
        DPLogisticRegression(**CLASSES),
        DPGaussianNB(**CLASSES),
    ],
)
def test_score_refuses_targets_and_weights_in_another_order(model):
    """`score` matched permuted rows by position, with the accuracy of a random model."""
    X, y, weights = draw_table("linear" if hasattr(model, "target_bounds") else "logistic", 2_000)
    fitted = model.set_params(random_state=0).fit(X, y)
    expected = fitted.score(X, y, weights)
    with pytest.raises(ValueError, match="`y` must have its row labels in the order of X"):
        fitted.score(X, y[::-1])
    with pytest.raises(ValueError, match="`sample_weight` must have its row labels in the order of X"):
        fitted.score(X, y, weights[::-1])
    assert fitted.score(X, y.to_numpy(), weights.to_numpy()) == expected
