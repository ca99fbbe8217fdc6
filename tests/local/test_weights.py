"""Estimates of a population from weighted samples, with strata and clusters, by unbiased values of each record."""

import itertools

import numpy as np
import pandas as pd
import pytest

from skdp import (
    LocalHashingEncoder,
    LocalTableEncoder,
    RandomizedResponseEncoder,
    UnaryEncodingTransformer,
)

VALUES = {"report": ["no", "other", "yes"]}
PLACES = np.arange(60)
# Any reports will do: the variance is that of what they say, whoever was asked.
REPORTS = pd.DataFrame(
    {"report": np.where((PLACES * 7 + PLACES // 5) % 3 == 0, "yes", np.where(PLACES % 11 == 4, "other", "no"))}
)
WEIGHTS = 1.0 + (PLACES * 13 % 17) / 4
STRATA = np.array(["north", "south", "west"])[PLACES // 20]
CLUSTERS = PLACES % 20 // 4
ENCODER = RandomizedResponseEncoder(4.0, categories=VALUES).fit(REPORTS)
ALONE = np.zeros(60)
DESIGNS = {
    "weights": (ALONE, PLACES),
    "strata": (STRATA, PLACES),
    "strata and clusters": (STRATA, CLUSTERS),
    "clusters": (ALONE, CLUSTERS),
}

# TaylorEstimator of samplics 0.6.1, of the unbiased vectors of these reports: the standard
# errors of the shares of "no", "other" and "yes", and of their totals.
SHARES = [0.5510902879086624, 0.039510593255663196, 0.4093991188356744]
TOTALS = [97.54298095983326, 6.993375006252386, 72.46364403391438]
STD_ERRORS = {
    "weights": (
        [0.07423900916362285, 0.03286091624031758, 0.07324813281572295],
        [14.144875167345988, 5.81185240479499, 13.637911905658722],
    ),
    "strata": (
        [0.07542706950103524, 0.032834845316383636, 0.07447977663643873],
        [14.374229014845286, 5.80712926721228, 13.86713594774009],
    ),
    "strata and clusters": (
        [0.039716825156820734, 0.030329785799346014, 0.05500168028114073],
        [7.5012920419700295, 5.384181424223366, 9.902439232385433],
    ),
    "clusters": (
        [0.03936578379024527, 0.03675858898173046, 0.07424646485848828],
        [7.138308018612294, 6.554916117276264, 12.994133758717412],
    ),
}


def std_errors(scores, strata, clusters):
    """The recipe of the guide page "Surveys"."""
    totals = scores.groupby([strata, clusters]).sum()
    by_stratum = totals.groupby(level=0)
    return np.sqrt(by_stratum.var().mul(by_stratum.size(), axis=0).sum())


@pytest.mark.parametrize("name", DESIGNS)
def test_the_recipe_with_unbiased_values_has_the_errors_of_samplics(name):
    values = ENCODER.debias(REPORTS)
    shares = np.average(values, weights=WEIGHTS, axis=0)
    np.testing.assert_allclose(shares, SHARES, rtol=1e-12)
    np.testing.assert_allclose(values.mul(WEIGHTS, axis=0).sum(), TOTALS, rtol=1e-12)
    scores = (values - shares).mul(WEIGHTS / WEIGHTS.sum(), axis=0)
    share_errors, total_errors = STD_ERRORS[name]
    np.testing.assert_allclose(std_errors(scores, *DESIGNS[name]), share_errors, rtol=1e-12)
    totals = values.mul(WEIGHTS, axis=0)
    np.testing.assert_allclose(std_errors(totals, *DESIGNS[name]), total_errors, rtol=1e-12)


def test_weighted_frequencies_are_those_of_samplics():
    shares = ENCODER.estimate_frequencies(REPORTS, sample_weight=WEIGHTS)
    np.testing.assert_allclose(shares["frequency"], SHARES, rtol=1e-12)
    np.testing.assert_allclose(shares["std_error"], STD_ERRORS["weights"][0], rtol=1e-12)
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
    "pairs": LocalTableEncoder(4.0, categories=BOTH | {"c": [0, 1]}, purpose="pairs", random_state=0),
}


@pytest.mark.parametrize("name", ENCODERS)
def test_equal_weights_are_none(name):
    encoder = ENCODERS[name]
    reports = encoder.fit_transform(TABLE[[*encoder.categories]])
    weights = np.full(60, 2.0)
    for postprocess in ("none", "clip"):
        weighted = encoder.estimate_frequencies(reports, sample_weight=weights, postprocess=postprocess)
        shares = encoder.estimate_frequencies(reports, postprocess=postprocess)
        np.testing.assert_allclose(weighted["frequency"], shares["frequency"], rtol=1e-9, atol=1e-12)
    # One by n - 1, from the reports, the other by the channel.
    is_within = shares["frequency"].between(0.2, 0.8)
    ratio = (weighted["std_error"] / shares["std_error"])[is_within]
    np.testing.assert_allclose(ratio, 1, atol=0.05 if name == "pairs" else 0.03)


def two_draws(names, chances):
    """Yield all pairs of draws from a population, with their weights and probability."""
    for first, second in itertools.product(range(len(names)), repeat=2):
        weights = np.array([1 / (2 * chances[first]), 1 / (2 * chances[second])])
        yield [names[first], names[second]], weights, chances[first] * chances[second]


def test_the_total_and_its_variance_are_unbiased():
    """Exact: over all samples of two from four people, with unequal chances, and all reports."""
    names = ["yes", "no", "yes", "no"]
    chances = [0.4, 0.3, 0.2, 0.1]
    values = ["no", "yes"]
    encoder = RandomizedResponseEncoder(6.0, categories={"report": values})
    encoder.fit(pd.DataFrame({"report": values}))
    channel = np.array(encoder.channel()[0], float)
    mean = square = stated = 0.0
    for drawn, weights, chance in two_draws(names, chances):
        for reports in itertools.product(range(2), repeat=2):
            probability = chance
            for true, report in zip(drawn, reports, strict=True):
                probability *= channel[values.index(true), report]
            frame = pd.DataFrame({"report": [values[report] for report in reports]})
            totals = encoder.debias(frame).mul(weights, axis=0)
            count = totals["report_yes"].sum()
            mean += probability * count
            square += probability * count**2
            stated += probability * std_errors(totals, np.zeros(2), np.arange(2))["report_yes"] ** 2
    assert mean == pytest.approx(2, rel=1e-9)
    assert stated == pytest.approx(square - mean**2, rel=1e-9)


def test_few_equal_reports_have_the_error_of_their_noise():
    reports = pd.DataFrame({"report": ["no"] * 5})
    shares = ENCODER.estimate_frequencies(reports, sample_weight=np.ones(5))
    (oracle,) = ENCODER.oracles_
    assert shares.loc["no", "std_error"] ** 2 == pytest.approx(oracle.variance([0, 5, 0], 5).min() / 25)


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
def test_what_is_no_weight_is_refused(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        ENCODER.estimate_frequencies(REPORTS, **options)


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_marginals_of_hashed_cells_have_the_errors_of_their_reports(epsilon):
    """Of records of a single cell: the hash functions are not independent for three cells."""
    values = {"sex": ["f", "m"], "place": list("pqrstuvw")}
    encoder = LocalHashingEncoder(epsilon, categories=values, strategy="joint", random_state=3)
    n = 40_000
    table = pd.DataFrame({"sex": ["f"] * n, "place": ["s"] * n})
    reports = encoder.fit_transform(table)
    measured = encoder.debias(reports, columns=["sex"]).std() * np.sqrt(n)
    errors = encoder.estimate_counts(reports, columns=["sex"])["std_error"]
    # The standard error of a measured one is 0.4 % to 0.7 %; three independent cells would
    # have 0.84 of the error of "m" at epsilon 4.
    np.testing.assert_allclose(errors, measured, rtol=0.05)
