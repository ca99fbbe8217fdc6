"""Estimates of a population from weighted samples, with strata and clusters, by unbiased values of each record."""

import inspect

import numpy as np
import pandas as pd
import pytest

import skdp.local
import skdp.survey
from skdp import LocalHashingEncoder, LocalTableEncoder, RandomizedResponseEncoder, UnaryEncodingTransformer

VALUES = {"report": ["no", "other", "yes"]}
PLACES = np.arange(60)
# Any reports can be used, because the variance is the variance of the reported values.
REPORTS = pd.DataFrame(
    {"report": np.where((PLACES * 7 + PLACES // 5) % 3 == 0, "yes", np.where(PLACES % 11 == 4, "other", "no"))}
)
WEIGHTS = 1.0 + (PLACES * 13 % 17) / 4
ENCODER = RandomizedResponseEncoder(4.0, categories=VALUES).fit(REPORTS)

# TaylorEstimator of samplics 0.6.1, applied to the unbiased values of these reports: proportions of "no", "other" and
# "yes" with standard errors.
SHARES = [0.5510902879086624, 0.039510593255663196, 0.4093991188356744]
STD_ERRORS = [0.07423900916362285, 0.03286091624031758, 0.07324813281572295]


def test_weighted_frequencies_equal_samplics():
    shares = ENCODER.estimate_frequencies(REPORTS, sample_weight=WEIGHTS)
    np.testing.assert_allclose(shares["frequency"], SHARES, rtol=1e-12)
    np.testing.assert_allclose(shares["std_error"], STD_ERRORS, rtol=1e-12)
    assert (shares["lower"] < shares["frequency"]).all()
    assert (shares["frequency"] < shares["upper"]).all()
    assert shares.attrs["rows"] == "population"


BOTH = VALUES | {"sex": ["f", "m"]}
TABLE = REPORTS.assign(sex=np.where(PLACES % 2, "f", "m"), c=PLACES % 2)
ENCODERS = {
    "response": RandomizedResponseEncoder(2.0, categories=VALUES, random_state=0),
    "unary": UnaryEncodingTransformer(2.0, categories=VALUES, random_state=0),
    "joint": RandomizedResponseEncoder(4.0, categories=BOTH, strategy="joint", random_state=0),
    "sampled": RandomizedResponseEncoder(2.0, categories=BOTH, strategy="sample", random_state=0),
    "pairs": LocalTableEncoder(4.0, categories=BOTH | {"c": [0, 1]}, workload="pairs", random_state=0),
}


@pytest.mark.parametrize("name", ENCODERS)
def test_equal_weights_give_the_unweighted_estimates(name):
    encoder = ENCODERS[name]
    reports = encoder.fit_transform(TABLE[[*encoder.categories]])
    weights = np.full(60, 2.0)
    for postprocess in ("none", "clip"):
        weighted = encoder.estimate_frequencies(reports, sample_weight=weights, postprocess=postprocess)
        shares = encoder.estimate_frequencies(reports, postprocess=postprocess)
        np.testing.assert_allclose(weighted["frequency"], shares["frequency"], rtol=1e-9, atol=1e-12)
    # One uses n - 1 and the reports, the other one the channel.
    is_within = shares["frequency"].between(0.2, 0.8)
    ratio = (weighted["std_error"] / shares["std_error"])[is_within]
    np.testing.assert_allclose(ratio, 1, atol=0.05 if name == "pairs" else 0.03)


def test_few_equal_reports_have_the_error_of_their_noise_and_of_their_draw():
    reports = pd.DataFrame({"report": ["no"] * 5})
    shares = ENCODER.estimate_frequencies(reports, sample_weight=np.ones(5))
    (oracle,) = ENCODER.oracles_
    # Five records of a population may miss a frequency of (1 / 2) / (5 + 1).
    missed = 1 / 12
    expected = oracle.variance([0, 5, 0], 5).min() / 25 + missed * (1 - missed) / 5
    assert shares.loc["no", "std_error"] ** 2 == pytest.approx(expected)


def test_value_that_no_record_reports_has_the_error_of_the_draw():
    """With strategy="sample", the standard error was 0 if no record of a value was drawn to report it."""
    columns = pd.DataFrame({"a": ["x"] * 4 + ["y"] * 196} | {name: ["u", "v"] * 100 for name in "bcd"})
    values = {"a": ["x", "y"]} | {name: ["u", "v"] for name in "bcd"}
    errors, stated, n_absent = [], [], 0
    for seed in range(30):
        encoder = RandomizedResponseEncoder(40.0, categories=values, strategy="sample", random_state=seed)
        row = encoder.fit(columns).estimate_counts(encoder.transform(columns)).loc[("a", "x")]
        # A drawn record counts about four times.
        n_absent += row["count"] < 0.5
        assert row["std_error"] > 1.5
        errors.append(row["count"] - 4)
        stated.append(row["std_error"])
    assert n_absent > 3
    # The mean square of 30 errors has a standard error of less than 40 %.
    assert np.mean(np.square(stated)) == pytest.approx(np.mean(np.square(errors)), rel=0.9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sample_weight": WEIGHTS[:-1]}, r"shape \(60,\)"),
        ({"sample_weight": -WEIGHTS}, "at least 0"),
        ({"sample_weight": np.zeros(60)}, "not all zero"),
        ({"sample_weight": np.full(60, np.nan)}, "finite"),
        ({"sample_weight": ["a"] * 60}, "numbers"),
        ({"sample_weight": WEIGHTS, "rows": "table"}, "rows='population'"),
        ({"sample_weight": pd.Series(WEIGHTS, index=PLACES[::-1])}, "row labels in the order of X"),
    ],
)
def test_invalid_weights_raise_an_error(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        ENCODER.estimate_frequencies(REPORTS, **options)


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_marginals_of_hashed_cells_have_the_errors_of_their_reports(epsilon):
    """All records are in one cell, and hash values of three cells are dependent."""
    values = {"sex": ["f", "m"], "place": list("pqrstuvw")}
    encoder = LocalHashingEncoder(epsilon, categories=values, strategy="joint", random_state=3)
    n = 40_000
    table = pd.DataFrame({"sex": ["f"] * n, "place": ["s"] * n})
    reports = encoder.fit_transform(table)
    measured = encoder.debias(reports, columns=["sex"]).std() * np.sqrt(n)
    errors = encoder.estimate_counts(reports, columns=["sex"])["std_error"]
    # The standard error of a simulated error is 0.4 % to 0.7 %. With independent hash values of three cells, the
    # error of "m" at epsilon 4 would be 0.84 of the simulated one.
    np.testing.assert_allclose(errors, measured, rtol=0.05)


# Functions that estimate something of the population from the rows of people.
ESTIMATES = {"decode", "score", "survey_mean", "tally"}
CLASSES = [getattr(package, name) for package in (skdp.local, skdp.survey) for name in package.__all__]
FUNCTIONS = {
    f"{owner.__name__}.{name}": getattr(owner, name)
    for owner in CLASSES
    if inspect.isclass(owner) and owner.__name__ not in ("Field", "ReportProtocol", "SecretKey")
    for name in dir(owner)
    if name.startswith("estimate_") or name in ESTIMATES
} | {
    "survey_mean": skdp.survey.survey_mean,
    "HeavyHitters.fit": skdp.HeavyHitters.fit,
    "PosteriorFeatures.fit": skdp.PosteriorFeatures.fit,
}


def test_each_estimate_takes_weights_or_its_page_states_where_they_go():
    """Weights that are lost without a word give the estimates of the sample, and not of the population."""
    for name, function in FUNCTIONS.items():
        takes_weights = "sample_weight" in inspect.signature(function).parameters
        assert takes_weights or "weight" in inspect.getdoc(function).lower(), name
