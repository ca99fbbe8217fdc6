"""Regression with numbers that are reported: the likelihood by enumeration, and the truth in its intervals."""

import io

import numpy as np
import pandas as pd
import pytest

import skdp
from skdp import (
    LocalTableEncoder,
    NumericPerturber,
    RandomizedResponseEncoder,
    ReportLinearRegression,
    ReportLogisticRegression,
)
from skdp.survey._design import read_questions
from skdp.survey._likelihood import CellPrior, Gaussian, HiddenModel
from tests.conftest import often


def test_scores_are_derivatives_and_the_prior_is_normal_given_categories():
    rng = np.random.default_rng(0)
    categories = np.repeat([0, 1, 2], 8)
    numbers = np.column_stack([np.tile(np.arange(4.0), 6), np.tile(np.repeat([0.0, 1.0], 4), 3)])
    prior = CellPrior.of(categories, numbers)
    n = 5
    known = np.column_stack([np.ones(n), rng.normal(size=n)])
    model = HiddenModel(
        rng.random((n, 24)) + 0.1,
        known,
        known,
        numbers,
        [(1, 0)],
        Gaussian(rng.normal(size=n)),
        np.ones(n),
        cell_prior=prior,
    )
    parameters = rng.normal(size=len(model.start())) / 3
    scores = model.scores(parameters)
    for place in range(len(parameters)):
        step = np.zeros(len(parameters))
        step[place] = 1e-6
        after, before = model.log_likelihoods(parameters + step), model.log_likelihoods(parameters - step)
        np.testing.assert_allclose(scores[:, place], (after - before) / 2e-6, rtol=1e-5, atol=1e-7)
    # Two shares, three means of each number, with slopes; two squares and a product, without.
    assert len(parameters) == 2 + 2 + 1 + 1 + 2 * (2 + 3 + 3) + 3
    # Within a category, second differences of a log probability are those of a normal density: constants.
    logs = model.log_priors(model.split(parameters)[1], slice(None)).reshape(n, 3, 2, 4)
    assert np.exp(logs).sum(axis=(1, 2, 3)) == pytest.approx(np.ones(n))
    second = np.diff(logs, n=2, axis=3)
    np.testing.assert_allclose(second, np.broadcast_to(second[0, 0, 0, 0], second.shape))
    mixed = np.diff(np.diff(logs, axis=3), axis=2)
    np.testing.assert_allclose(mixed, np.broadcast_to(mixed[0, 0, 0, 0], mixed.shape))


MECHANISMS = ["optimal", "laplace", "square_wave", "distribution"]


@pytest.mark.parametrize("mechanism", often(MECHANISMS, ["optimal"]))
def test_the_likelihood_is_that_of_the_channel(mechanism):
    """The mean of the exact channel over a bin, by its positions; up to a factor of each report."""
    bounds = {"age": (20, 80)}
    ages = pd.DataFrame({"age": np.linspace(20, 80, 300)})
    encoder = NumericPerturber(2.0, bounds=bounds, mechanism=mechanism, grid_size=49, random_state=0)
    reports = encoder.fit_transform(ages)
    (question,) = read_questions(encoder, reports, reports)
    n_bins = len(question.values)
    np.testing.assert_allclose(question.values, 20 + 60 * (np.arange(n_bins) + 0.5) / n_bins)
    (channel,) = encoder.channel()
    channel = np.array(channel, float)
    steps = len(channel) - 1
    # Numbers of a bin are rounded at random to the positions beside them.
    fine = (np.arange(n_bins * 200) + 0.5) / (n_bins * 200) * steps
    below = fine.astype(int)
    told = (1 - fine + below)[:, None] * channel[below] + (fine - below)[:, None] * channel[below + 1]
    of_bins = told.reshape(n_bins, 200, -1).mean(axis=1)
    places = np.abs(np.subtract.outer(reports["age"].to_numpy(), encoder.report_values_[0])).argmin(axis=1)
    expected = of_bins.T[places]
    ratio = question.likelihood / expected
    np.testing.assert_allclose(ratio, ratio[:, :1] * np.ones(n_bins), rtol=1e-3)


def people(n, seed):
    rng = np.random.default_rng(seed)
    hours = rng.normal(size=n)
    is_male = rng.random(n) < 1 / (1 + np.exp(-hours))
    age = np.clip(45 + 5 * hours + 6 * is_male + 9 * rng.normal(size=n), 10, 80)
    linear = -3 + 0.5 * hours + 0.8 * is_male + 0.05 * age
    return rng, pd.DataFrame({"hours": hours}), is_male, age, linear


@pytest.mark.parametrize("mechanism", often(MECHANISMS, ["optimal"]))
@pytest.mark.parametrize("is_logistic", [False, True])
@pytest.mark.long
def test_the_truth_is_in_the_intervals(mechanism, is_logistic):
    """A reported number and a reported category that depend on each other and on a true predictor."""
    n = 8_000
    rng, X, is_male, age, linear = people(n, seed=1)
    of_age = NumericPerturber(3.0, bounds={"age": (10, 80)}, mechanism=mechanism, random_state=0)
    of_sex = RandomizedResponseEncoder(3.0, categories={"sex": ["f", "m"]}, random_state=1)
    X = X.assign(
        age=of_age.fit_transform(pd.DataFrame({"age": age}))["age"],
        sex=of_sex.fit_transform(pd.DataFrame({"sex": np.where(is_male, "m", "f")}))["sex"],
    )
    if is_logistic:
        y = rng.random(n) < 1 / (1 + np.exp(-linear))
        model = ReportLogisticRegression([of_age, of_sex]).fit(X, y)
    else:
        y = linear + rng.normal(size=n)
        model = ReportLinearRegression([of_age, of_sex]).fit(X, y)
    summary = model.summary(confidence_level=1 - 1e-6)
    assert list(summary.index) == ["(intercept)", "hours", "age", "sex=m"]
    truth = np.array([-3, 0.5, 0.05, 0.8])
    assert ((summary["lower"] < truth) & (truth < summary["upper"])).all()
    if mechanism == "laplace":
        return
    assert summary.loc["age", "std_error"] < 0.01
    # Predictions are means over what the reports say.
    predicted = model.predict_proba(X)[:, 1] if is_logistic else model.predict(X)
    assert predicted.mean() == pytest.approx(np.mean(y), abs=0.03)
    file = io.BytesIO()
    skdp.save(model, file)
    again = skdp.load(file)
    np.testing.assert_array_equal(again.predict(X.iloc[:9]), model.predict(X.iloc[:9]))


def test_a_loaded_model_predicts_the_same_bits():
    rng, X, is_male, age, linear = people(150, seed=1)
    of_age = NumericPerturber(6.0, bounds={"age": (10, 80)}, mechanism="square_wave", random_state=0)
    of_sex = RandomizedResponseEncoder(6.0, categories={"sex": ["f", "m"]}, random_state=1)
    X = X.assign(
        age=of_age.fit_transform(pd.DataFrame({"age": age}))["age"],
        sex=of_sex.fit_transform(pd.DataFrame({"sex": np.where(is_male, "m", "f")}))["sex"],
    )
    model = ReportLinearRegression([of_age, of_sex]).fit(X, linear + rng.normal(size=150))
    file = io.BytesIO()
    skdp.save(model, file)
    np.testing.assert_array_equal(skdp.load(file).predict(X), model.predict(X))


@pytest.mark.long
def test_least_squares_of_reports_find_a_part_of_the_effect():
    """The regression agrees with the correction of moments: covariances of reports, less the variance of the noise."""
    rng = np.random.default_rng(0)
    age = np.clip(45 + 9 * rng.normal(size=20_000), 10, 80)
    y = 0.05 * age + rng.normal(size=20_000)
    encoder = NumericPerturber(2.0, bounds={"age": (10, 80)}, random_state=0)
    reports = encoder.fit_transform(pd.DataFrame({"age": age}))
    told = reports["age"].to_numpy()
    covariance = np.cov(told, y)
    naive = covariance[0, 1] / covariance[0, 0]
    corrected = covariance[0, 1] / age.var()
    row = ReportLinearRegression(encoder).fit(reports, y).summary().loc["age"]
    assert naive < 0.02
    assert row["estimate"] == pytest.approx(corrected, abs=3 * row["std_error"])
    assert row["estimate"] == pytest.approx(0.05, abs=4.9 * row["std_error"])


def test_a_table_of_numbers_and_categories():
    _, X, is_male, age, linear = people(300, seed=3)
    encoder = LocalTableEncoder(
        6.0, categories={"sex": ["f", "m"]}, bounds={"age": (10, 80)}, strategy="split", grid_size=8, random_state=0
    )
    reports = encoder.fit_transform(pd.DataFrame({"sex": np.where(is_male, "m", "f"), "age": age}))
    model = ReportLinearRegression(encoder).fit(pd.concat([X, reports], axis=1), linear + X["hours"])
    assert set(model.summary().index) == {"(intercept)", "hours", "sex=m", "age"}
