"""Predictions of the truth and of the report, with their intervals."""

import numpy as np
import pandas as pd
import pytest

from skdp import (
    PerHalf,
    RandomizedResponseEncoder,
    ReportLinearRegression,
    ReportLogisticRegression,
    UnaryEncodingTransformer,
)
from skdp.survey import ReportDesign

Z = 1.959963984540054


def table(n=500, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"age": rng.normal(size=n), "hours": rng.normal(size=n)})
    linear = 0.5 * X["age"] - 0.3 * X["hours"] + 0.2
    return rng, X, linear.to_numpy()


def test_the_mean_of_a_number_has_the_error_of_least_squares():
    rng, X, linear = table()
    y = linear + rng.normal(size=500)
    model = ReportLinearRegression().fit(X, y)
    intervals = model.predict_interval(X)
    design = np.column_stack([np.ones(500), X])
    errors = model.sigma_ * np.sqrt(np.einsum("if,fg,ig->i", design, np.linalg.inv(design.T @ design), design))
    np.testing.assert_allclose(intervals["estimate"], model.predict(X))
    np.testing.assert_allclose(intervals["std_error"], errors, rtol=1e-4)
    np.testing.assert_allclose(intervals["upper"] - intervals["estimate"], Z * errors, rtol=1e-4)
    np.testing.assert_allclose(intervals["estimate"] - intervals["lower"], Z * errors, rtol=1e-4)
    wider = model.predict_interval(X, confidence_level=0.99)
    assert (wider["upper"] > intervals["upper"]).all()


def test_a_probability_has_the_error_of_logistic_regression():
    rng, X, linear = table()
    y = rng.random(500) < 1 / (1 + np.exp(-linear))
    model = ReportLogisticRegression().fit(X, y)
    intervals = model.predict_interval(X)
    assert intervals.index.names == ["row", "class"]
    probabilities = model.predict_proba(X)
    np.testing.assert_allclose(intervals["estimate"].to_numpy().reshape(-1, 2), probabilities)
    # The log odds have the error of the linear predictor.
    design = np.column_stack([np.ones(500), X])
    p = probabilities[:, 1]
    covariance = np.linalg.inv(design.T @ (design * (p * (1 - p))[:, None]))
    errors = np.sqrt(np.einsum("if,fg,ig->i", design, covariance, design))
    rows = intervals.xs(True, level="class")
    log_odds = np.log(p / (1 - p))
    np.testing.assert_allclose(rows["lower"], 1 / (1 + np.exp(-log_odds + Z * errors)), rtol=1e-4)
    np.testing.assert_allclose(rows["upper"], 1 / (1 + np.exp(-log_odds - Z * errors)), rtol=1e-4)
    np.testing.assert_allclose(rows["std_error"], errors * p * (1 - p), rtol=1e-4)


@pytest.fixture(scope="module")
def reported():
    """Return a fit to a reported target and a reported predictor, its reports, and what is true."""
    rng, X, linear = table(20_000, seed=1)
    sex = rng.random(20_000) < 0.4
    smokes = rng.random(20_000) < 1 / (1 + np.exp(-linear - 0.8 * sex))
    of_sex = RandomizedResponseEncoder(3.0, categories={"sex": ["f", "m"]}, random_state=0)
    of_target = RandomizedResponseEncoder(2.0, categories={"smokes": ["no", "yes"]}, random_state=1)
    X["sex"] = of_sex.fit_transform(pd.DataFrame({"sex": np.where(sex, "m", "f")}))["sex"]
    told = of_target.fit_transform(pd.DataFrame({"smokes": np.where(smokes, "yes", "no")}))
    model = ReportLogisticRegression(of_sex, target_encoder=of_target).fit(X, told)
    return model, X, told["smokes"].to_numpy() == "yes", smokes


@pytest.mark.long
def test_truth_and_report_are_kept_apart(reported):
    model, X, told, smokes = reported
    truth = model.predict_interval(X)["estimate"].xs("yes", level="class")
    report = model.predict_interval(X, of="report").xs("yes", level="class")
    p = np.exp(2) / (1 + np.exp(2))
    np.testing.assert_allclose(report["estimate"], (1 - p) + (2 * p - 1) * truth, rtol=1e-6)
    assert truth.mean() == pytest.approx(smokes.mean(), abs=0.03)
    assert report["estimate"].mean() == pytest.approx(told.mean(), abs=0.01)
    # The channel shrinks errors as it shrinks differences.
    of_truth = model.predict_interval(X).xs("yes", level="class")
    np.testing.assert_allclose(report["std_error"], (2 * p - 1) * of_truth["std_error"], rtol=1e-5)


def test_rows_are_predicted_in_parts(reported, monkeypatch):
    model, X, _, _ = reported
    whole = model.predict_interval(X.iloc[:300])
    monkeypatch.setattr("skdp.survey._likelihood._CHUNK", 70)
    pd.testing.assert_frame_equal(model.predict_interval(X.iloc[:300]), whole)


def test_a_design_tells_what_is_reported():
    rng, X, linear = table(4_000, seed=2)
    smokes = rng.random(4_000) < 1 / (1 + np.exp(-linear))
    told = np.where(rng.random(4_000) < np.where(smokes, 0.9, 0.2), "a", "b")
    design = ReportDesign("smokes", [[0.2, 0.8], [0.9, 0.1]], values=["no", "yes"], reports=["a", "b"])
    model = ReportLogisticRegression(target_encoder=design).fit(X, pd.DataFrame({"smokes": told}))
    report = model.predict_interval(X, of="report")["estimate"]
    assert list(report.index.get_level_values("class")[:2]) == ["a", "b"]
    np.testing.assert_allclose(report.xs("a", level="class"), 0.2 + 0.7 * model.predict_proba(X)[:, 1], rtol=1e-6)


def test_reports_without_one_channel_of_values_are_refused():
    rng, X, linear = table(2_000, seed=3)
    smokes = pd.DataFrame({"smokes": np.where(rng.random(2_000) < 1 / (1 + np.exp(-linear)), "yes", "no")})
    true = ReportLogisticRegression().fit(X, smokes["smokes"])
    values = {"smokes": ["no", "yes"]}
    bits = UnaryEncodingTransformer(3.0, categories=values, random_state=0)
    of_bits = ReportLogisticRegression(target_encoder=bits.fit(smokes)).fit(X, bits.transform(smokes))
    halves = PerHalf(RandomizedResponseEncoder(categories=values, random_state=0), epsilons=(2.0, 4.0))
    told = halves.fit_transform(smokes)
    of_halves = ReportLogisticRegression(target_encoder=halves.design()).fit(X, told)
    for model in (true, of_bits, of_halves):
        with pytest.raises(ValueError, match="of='report' needs a target_encoder with one known channel"):
            model.predict_interval(X, of="report")
        assert model.predict_interval(X).notna().all(axis=None)
    with pytest.raises(ValueError, match="of must be one of"):
        true.predict_interval(X, of="both")
