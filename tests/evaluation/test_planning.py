"""Planned epsilons and numbers of rows: closed forms, intervals of releases, and power by simulation."""

import math
import warnings
from statistics import NormalDist

import numpy as np
import pandas as pd
import pytest

import skdp
from skdp import ReportDesign
from skdp.privacy import Mu, Rho
from tests.conftest import often, quick_first

SEX, JOB = ["F", "M"], [f"job {number}" for number in range(6)]
VALUES = {"sex": SEX, "job": JOB}
N = 3_000
Z = NormalDist().inv_cdf(0.975)
SMOKES = skdp.RandomizedResponseEncoder(1.0, categories={"smokes": ["yes", "no"]})


def variance_of_coin(epsilon, rate):
    """Return the variance of the unbiased value of a report of two values, with noise and sampling."""
    p = math.exp(epsilon) / (1 + math.exp(epsilon))
    reported = rate * p + (1 - rate) * (1 - p)
    return reported * (1 - reported) / (2 * p - 1) ** 2


@pytest.mark.parametrize("rate", quick_first(1, [0.1, None]))
def test_smallest_epsilon_of_a_frequency_equals_the_closed_form(rate):
    epsilon = skdp.plan_epsilon(SMOKES, within=0.02, n_rows=20_000, rates=rate)

    def margin(epsilon):
        return Z * math.sqrt(variance_of_coin(epsilon, 0.5 if rate is None else rate) / 20_000)

    assert margin(epsilon) <= 0.02 < margin(epsilon - 0.001)
    assert not hasattr(SMOKES, "protocol_")


def test_smallest_number_of_rows_equals_the_closed_form():
    assert skdp.plan_rows(SMOKES, within=0.02) == math.ceil((Z / 0.02) ** 2 * variance_of_coin(1.0, 0.5))
    variance = 2 * (variance_of_coin(1.0, 0.2) + variance_of_coin(1.0, 0.3))
    assert skdp.plan_rows(SMOKES, rates=(0.2, 0.3), within=0.05) == math.ceil((Z / 0.05) ** 2 * variance)
    assert skdp.plan_rows(skdp.DPHistogram(0.5, domain={"sex": SEX}), within=0.001, rates=0) == 6_000
    given = {"rates": (0.2, 0.3), "power": 0.8}
    assert skdp.plan_epsilon(SMOKES, n_rows=skdp.plan_rows(SMOKES, **given), **given) == pytest.approx(1.0, abs=0.001)


@pytest.mark.parametrize("rate", quick_first(1, [0.1, None]))
def test_proportion_of_a_histogram_includes_the_sampling_error(rate):
    histogram = skdp.DPHistogram(0.1, domain={"sex": SEX})
    n_rows = skdp.plan_rows(histogram, within=0.05, rates=rate)
    frequency = 0.5 if rate is None else rate

    def margin(n_rows):
        return math.hypot(30 / n_rows, Z * math.sqrt(frequency * (1 - frequency) / n_rows))

    assert margin(n_rows) <= 0.05 < margin(n_rows - 1)
    planned = skdp.plan_epsilon(histogram, within=0.05, rates=rate, n_rows=n_rows)
    assert planned == pytest.approx(0.1, abs=0.004)  # the margin of a count is a whole number


def estimators():
    """List estimators of counts, with the column that has the largest error."""
    both, sex, job = dict(VALUES), {"sex": SEX}, {"job": JOB}
    return {
        "randomized response": (skdp.RandomizedResponseEncoder(categories=sex), {}),
        "split": (skdp.RandomizedResponseEncoder(categories=both), {"column": "job"}),
        "joint": (skdp.FrequencyOracleEncoder(categories=both, strategy="joint"), {}),
        "sample": (skdp.FrequencyOracleEncoder(categories=both, strategy="sample"), {"column": "job", "within": 300}),
        "subset selection": (skdp.SubsetSelectionEncoder(categories=job), {}),
        "unary encoding": (skdp.UnaryEncodingTransformer(categories=job), {}),
        "hashing": (skdp.LocalHashingEncoder(categories=job), {}),
        "histogram": (skdp.DPHistogram(domain=sex), {"within": 20}),
        "Gaussian": (skdp.DPHistogram(Mu(1.0, 1e-6), domain=sex), {"within": 20}),
        "rho": (skdp.DPHistogram(Rho(1.0, 1e-6), domain=both), {"within": 20}),
    }


QUICK = ["randomized response", "joint", "sample", "histogram", "rho"]


@pytest.mark.parametrize("case", often(estimators(), QUICK))
def test_intervals_of_releases_have_the_planned_width(case):
    estimator, options = estimators()[case]
    given = {"within": 200, "rates": 0.3} | options
    column = given.pop("column", None)
    epsilon = skdp.plan_epsilon(estimator, n_rows=N, **given)
    amount = type(estimator.epsilon)(epsilon, 1e-6) if isinstance(estimator.epsilon, Mu | Rho) else epsilon
    estimator.set_params(epsilon=amount)
    widths = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        first = rng.permutation(np.arange(N) < 0.3 * N)
        table = pd.DataFrame({"sex": np.where(first, "F", "M")})
        table["job"] = np.where(rng.permutation(first), JOB[0], rng.choice(JOB[1:], N))
        estimator.set_params(random_state=seed)
        if isinstance(estimator, skdp.DPHistogram):
            found = estimator.fit(table[list(estimator.domain)]).to_frame().iloc[0]
        else:
            reports = estimator.fit_transform(table[list(estimator.categories)])
            found = estimator.estimate_counts(reports)
            found = found.loc[(column, VALUES[column][0])] if column else found.iloc[0]
        widths.append((found["upper"] - found["lower"]) / 2)
    assert np.mean(widths) <= given["within"] * 1.05
    assert np.mean(widths) >= given["within"] * (0.85 if case == "sample" else 0.93)


def test_comparison_of_two_groups_has_the_planned_power():
    n_rows = skdp.plan_rows(SMOKES, rates=(0.2, 0.4), power=0.8)

    def power(n_rows):
        ratio = 0.2 / math.sqrt(2 * (variance_of_coin(1.0, 0.2) + variance_of_coin(1.0, 0.4)) / n_rows)
        return NormalDist().cdf(ratio - Z) + NormalDist().cdf(-ratio - Z)

    assert power(n_rows) >= 0.8 > power(n_rows - 1)


DICE = ReportDesign.forced("smokes", yes=2 / 12, no=1 / 12)


@pytest.mark.parametrize(
    ("design", "yes", "no", "rates"),
    [
        (DICE, 2 / 12, 1 / 12, (0.05, 0.1)),
        (ReportDesign.warner("smokes", 0.75), 1 / 4, 1 / 4, (0.1, 0.3)),
        (
            ReportDesign.forced("smokes", yes=0.3, no=0),
            0.3,
            0.0,
            (1.0, 0.9),
        ),  # all "yes" answers are reported: no error
    ],
)
def test_questionnaire_has_the_variance_of_its_channel(design, yes, no, rates):
    """Exchange the probabilities of "yes" for people with "no" and with "yes", too."""
    variance = 0
    for rate in rates:
        reported = yes + (1 - yes - no) * rate
        variance += 2 * reported * (1 - reported) / (1 - yes - no) ** 2
    assert skdp.plan_rows(design, rates=rates, within=0.03) == math.ceil((Z / 0.03) ** 2 * variance)


ENCODER = skdp.RandomizedResponseEncoder(categories=VALUES)
TEST = {"power": 0.8, "within": None, "rates": (0.2, 0.3)}
LEVELS = ReportDesign.by_group({1: ReportDesign.warner("a", 0.9), 2: ReportDesign.warner("a", 0.7)}, "g")


@pytest.mark.parametrize(
    ("source", "options", "error", "message"),
    [
        (skdp.RandomizedResponseEncoder(), {}, TypeError, "categories of RandomizedResponseEncoder must be a mapping"),
        (skdp.LocalTableEncoder(), {}, TypeError, "`source` must be an encoder .*, got LocalTableEncoder"),
        (skdp.DPHistogram(domain=VALUES), TEST, ValueError, "`rates` must be one proportion for a DPHistogram"),
        (DICE, {}, TypeError, "Use plan_rows"),
        (ENCODER, {"n_rows": None}, ValueError, "`n_rows` is required for a proportion"),
        (ENCODER, {"n_rows": 0}, ValueError, "`n_rows` must be at least 1, got 0"),
        (ENCODER, {"within": None}, ValueError, "Exactly one of `within` and"),
        (ENCODER, {"within": 1.5}, ValueError, "`within` must be a float between 0 and 1, or .*, got 1.5"),
        (ENCODER, {"within": 20, "rates": (0.2, 0.3)}, ValueError, "`within` must be a float between 0 and 1"),
        (ENCODER, {"rates": 2}, ValueError, "`rates` must be a proportion between 0 and 1, or two .*, got 2"),
        (ENCODER, TEST | {"power": 0.05}, ValueError, "`power` must be between 0.05, the level of the test, and 1"),
        (ENCODER, TEST | {"rates": (0.3, 0.3)}, ValueError, "`rates` must be distinct"),
        (ENCODER, TEST, ValueError, "No epsilon up to 64 .* with 9 rows. Use plan_rows"),
    ],
)
def test_plan_epsilon_raises_for_invalid_parameters(source, options, error, message):
    with pytest.raises(error, match=message):
        skdp.plan_epsilon(source, **{"within": 0.5, "n_rows": 9, **options})


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        (ENCODER, {"within": 20}, "`within` must be a float between 0 and 1, got 20"),
        (LEVELS, {}, "without groups"),
        (ReportDesign.direct("a", values=[1, 2, 3]), {}, "with two values, got 3"),
    ],
)
def test_plan_rows_raises_for_invalid_parameters(source, options, message):
    with pytest.raises(ValueError, match=message):
        skdp.plan_rows(source, **{"within": 0.5} | options)


def test_planning_neither_charges_nor_changes_the_encoder():
    ledger = skdp.PrivacyLedger(epsilon=1.0)
    encoder = skdp.RandomizedResponseEncoder(1.0, ledger=ledger, random_state=0)
    with warnings.catch_warnings(action="ignore"):
        encoder.fit(pd.DataFrame({"sex": SEX}))
    declared = skdp.RandomizedResponseEncoder(categories={"sex": SEX})
    assert skdp.plan_epsilon(encoder, within=0.1, n_rows=N) == skdp.plan_epsilon(declared, within=0.1, n_rows=N)
    assert not len(ledger.charges())
    assert encoder.guarantee_.epsilon == pytest.approx(1.0)


def test_design_effect_multiplies_rows_and_the_sampling_variance():
    n_rows = skdp.plan_rows(SMOKES, within=0.05)
    assert skdp.plan_rows(SMOKES, within=0.05, design_effect=1.8) == pytest.approx(1.8 * n_rows, abs=2)
    histogram = skdp.DPHistogram(0.5, domain={"smokes": ["yes", "no"]})
    planned = skdp.plan_rows(histogram, within=0.02, rates=0.3, design_effect=2.5)
    found = histogram.fit(pd.DataFrame({"smokes": ["yes"]})).to_frame()
    noise = found.eval("upper - count").iloc[0] / planned
    assert math.hypot(noise, Z * math.sqrt(2.5 * 0.3 * 0.7 / planned)) == pytest.approx(0.02, rel=1e-3)
    with pytest.raises(ValueError, match="`design_effect` must be a float > 0, got 0"):
        skdp.plan_rows(SMOKES, within=0.05, design_effect=0)
