"""People who do not follow: two levels in two random halves, by enumeration and against published figures."""

import itertools
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, chi2

from skdp import (
    BudgetExceeded,
    PerHalf,
    PrivacyLedger,
    RandomizedResponseEncoder,
    ReportLogisticRegression,
    UnaryEncodingTransformer,
    privacy_statement,
)
from skdp.survey._halves import likely_shares, nonnegative_shares, share_errors

VALUES = {"copied": ["no", "yes"]}
PEOPLE = pd.DataFrame({"copied": ["no", "yes", "no", "no"] * 100})


def halves_of(values=VALUES, seed=0, epsilons=(0.5, 2.0), **options):
    encoder = RandomizedResponseEncoder(categories=values, random_state=seed, **options)
    return PerHalf(encoder, epsilons=epsilons)


# What is promised.


@pytest.mark.parametrize("epsilons", [(0.5, 2.0), (2.0, 0.5)])
def test_the_guarantee_is_that_of_the_weaker_half(epsilons):
    """By enumeration of all outputs, half and report."""
    halves = halves_of({"job": ["a", "b", "c"]}, epsilons=epsilons).fit(pd.DataFrame({"job": ["a"]}))
    outputs = {}
    for half, encoder in enumerate(halves.encoders_):
        (channel,) = encoder.channel()
        for code in range(3):
            outputs[half, code] = [Fraction(1, 2) * row[code] for row in channel]
    for value in range(3):
        assert sum(probabilities[value] for probabilities in outputs.values()) == 1
    largest = max(max(probabilities) / min(probabilities) for probabilities in outputs.values())
    assert halves.guarantee_.epsilon == pytest.approx(np.log(float(largest)), abs=1e-12)
    assert np.log(float(largest)) <= halves.guarantee_.epsilon == 2.0
    assert privacy_statement(halves).rows["epsilon"].tolist() == [2.0]
    # The design of a regression has these probabilities.
    for half, table in halves.design().channels.items():
        np.testing.assert_allclose(table, [[2 * float(outputs[half, r][v]) for r in range(3)] for v in range(3)])
    assert halves.design().epsilon == pytest.approx(2.0)


def test_reports_are_drawn_as_enumerated():
    """Halves by a fair coin, reports by their channels; a false alarm once in a million."""
    values = {"job": ["a", "b", "c"]}
    halves = halves_of(values)
    n = 30_000
    reports = halves.fit_transform(pd.DataFrame({"job": ["b"] * n}))
    observed = pd.crosstab(reports["half"], reports["job"]).to_numpy()
    expected = np.array([[float(row) for row in encoder.channel()[0][1]] for encoder in halves.encoders_]) * n / 2
    assert ((observed - expected) ** 2 / expected).sum() < chi2.isf(1e-6, 5)


def test_halves_do_not_depend_on_data():
    first = halves_of().fit_transform(PEOPLE)["half"]
    second = halves_of().fit_transform(PEOPLE.replace({"no": "yes"}))["half"]
    assert first.tolist() == second.tolist()
    # Each call draws its own.
    halves = halves_of().fit(PEOPLE)
    assert halves.transform(PEOPLE)["half"].tolist() != halves.transform(PEOPLE)["half"].tolist()
    secure = halves_of(seed=None)
    assert secure.fit_transform(PEOPLE)["half"].tolist() != secure.transform(PEOPLE)["half"].tolist()
    assert secure.guarantee_.secure
    assert not halves.guarantee_.secure


def test_a_ledger_is_charged_once_and_before_any_draw():
    ledger = PrivacyLedger(epsilon=3.0)
    halves = halves_of(seed=None, ledger=ledger).fit(PEOPLE)
    with pytest.raises(ValueError, match="declare"):
        halves.transform(PEOPLE.replace({"no": "secret"}))
    assert ledger.spent.epsilon == 0
    halves.transform(PEOPLE)
    assert ledger.spent.epsilon == 2.0
    with pytest.raises(BudgetExceeded):
        halves.transform(PEOPLE)
    assert ledger.spent.epsilon == 2.0


# Estimates.

# Reports of no and of yes in the two groups of cases that RRreg 0.7.6 was run on; of those who follow, how many
# carriers report no and how many others yes; and an independent fit: shares of yes, no and cheaters, and their errors.
PUBLISHED = {
    "d01": ([[1308, 656], [586, 1450]], (0, 0.2), (0, 0.8), [0.2079560444, 0.6302808777, 0.1617630779]),
    "d02": ([[118, 89], [28, 165]], (0, 0.25), (0, 0.75), [0.2174663963, 0.8499411779, -0.0674075743]),
    "d03": ([[1389, 1078], [2070, 463]], (0.1, 0.4), (0.4, 0.1), [0.1961205721, 0.651148656, 0.1527307719]),
}
PUBLISHED_ERRORS = {
    "d01": [0.0145788333, 0.0243778252, 0.0138407697],
    "d02": [0.0531480747, 0.0854790929, 0.0417367217],
    "d03": [0.0215332389, 0.0609806061, 0.0419919954],
}


def published(name):
    counts, first, second, shares = PUBLISHED[name]
    channels = []
    for no_of_yes, yes_of_no in (first, second):
        channels.append([[no_of_yes, 1 - no_of_yes], [1 - yes_of_no, yes_of_no], [1, 0]])
    return np.array(channels, float), np.array(counts, float), np.array(shares)


@pytest.mark.parametrize("name", PUBLISHED)
def test_estimates_are_those_of_independent_programs(name):
    """Also where RRreg gives shares of 1, 1 and -1 (d02)."""
    channels, counts, expected = published(name)
    shares = likely_shares(channels, counts)
    np.testing.assert_allclose(shares, expected, atol=1e-6)
    # Variances count one report more of each kind.
    tolerance = 0.02 if name == "d02" else 1e-3
    np.testing.assert_allclose(share_errors(channels, counts, shares), PUBLISHED_ERRORS[name], rtol=tolerance)


def test_shares_below_0_are_set_to_0():
    channels, counts, _ = published("d02")
    # Of an independent fit with bounds.
    np.testing.assert_allclose(nonnegative_shares(channels, counts), [0.2662035771, 0.7337964229, 0], atol=2e-6)


def test_intervals_hold_the_truth():
    """Exact, over all reports of two halves of 50: the least coverage of all shares."""
    n = 50
    probabilities = [np.exp(epsilon) / (1 + np.exp(epsilon)) for epsilon in (0.5, 4)]
    channels = np.array([[[p, 1 - p], [1 - p, p], [1, 0]] for p in probabilities])
    estimates, errors = [], []
    for first, second in itertools.product(range(n + 1), repeat=2):
        counts = np.array([[n - first, first], [n - second, second]], float)
        estimates.append(likely_shares(channels, counts))
        errors.append(share_errors(channels, counts, estimates[-1]))
    estimates, errors = np.array(estimates), np.array(errors)
    yeses = np.arange(n + 1)
    for truth in ([0.9, 0.1, 0], [0.7, 0.2, 0.1], [0.98, 0.02, 0], [1, 0, 0], [0.5, 0.5, 0], [0.2, 0.3, 0.5]):
        (_, first), (_, second) = np.einsum("hvr,v->hr", channels, truth)
        chances = np.outer(binom.pmf(yeses, n, first), binom.pmf(yeses, n, second)).ravel()
        np.testing.assert_allclose(chances @ estimates, truth, atol=1e-6)
        coverage = chances @ (np.abs(estimates - truth) <= 1.96 * errors)
        assert coverage.min() > 0.926, truth


def survey(n, seed, share=0.15):
    """Draw people of whom some say no whatever they are told."""
    rng = np.random.default_rng(seed)
    age = rng.normal(size=n)
    copied = np.where(rng.random(n) < 1 / (1 + np.exp(1 - 0.8 * age)), "yes", "no")
    halves = halves_of(epsilons=(1.0, 4.0), seed=seed)
    reports = halves.fit_transform(pd.DataFrame({"copied": copied}))
    is_cheater = rng.random(n) < share
    reports.loc[is_cheater & (copied == "no"), "copied"] = "no"
    return halves, pd.DataFrame({"age": age}), reports


def test_cheaters_are_found_beside_the_others():
    """In shares and in a regression; intervals of 1 - 1e-6."""
    halves, people, reports = survey(20_000, seed=3)
    table = halves.estimate_frequencies(reports, cheaters="no", confidence_level=1 - 1e-6)
    assert table.index.tolist() == ["no", "yes", "cheaters"]
    assert table["frequency"].sum() == pytest.approx(1)
    model = ReportLogisticRegression(target_design=halves.design(cheaters="no")).fit(people, reports)
    share = 0.15 * table.loc[["no", "cheaters"], "frequency"].sum()
    assert table.loc["cheaters", "lower"] < share < table.loc["cheaters", "upper"]
    assert table.loc["cheaters", "lower"] > 0.02
    # Both are of one likelihood, but for what age says.
    row = model.unknown_.loc["cheaters"]
    assert row["estimate"] == pytest.approx(table.loc["cheaters", "frequency"], abs=row["std_error"])
    assert row["std_error"] == pytest.approx(table.loc["cheaters", "std_error"], rel=0.1)
    summary = model.summary(confidence_level=1 - 1e-6)
    assert (np.abs(summary["estimate"] - [-1, 0.8]) < (summary["upper"] - summary["lower"]) / 2).all()
    # Without them, the share of yes is too low, and the halves do not agree.
    with pytest.warns(UserWarning, match="no shares explain the reports in column 'copied' of all groups"):
        honest = halves.estimate_frequencies(reports)
    assert honest.index.tolist() == ["no", "yes"]
    assert honest.loc["yes", "frequency"] < table.loc["yes", "frequency"] - 3 * table.loc["yes", "std_error"]


def test_each_column_has_its_own_cheaters():
    values = {"copied": ["no", "yes"], "job": ["a", "b", "c"]}
    rng = np.random.default_rng(1)
    people = pd.DataFrame({"copied": ["no"] * 30_000, "job": rng.choice(["a", "b", "c"], 30_000)})
    halves = halves_of(values, epsilons=(2.0, 8.0))
    reports = halves.fit_transform(people)
    assert list(halves.get_feature_names_out()) == ["copied", "job", "half"]
    reports.loc[rng.random(30_000) < 0.2, "job"] = "b"
    table = halves.estimate_frequencies(reports, column="job", cheaters="b", confidence_level=1 - 1e-6)
    expected = np.append(np.full(3, 0.8 / 3), 0.2)
    assert (table["lower"] < expected).all()
    assert (expected < table["upper"]).all()
    with pytest.raises(ValueError, match="column must be one of"):
        halves.estimate_frequencies(reports)


# As a transformer.


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"epsilons": (1.0, 1.0)}, ValueError, "epsilons must differ"),
        ({"epsilons": (1.0,)}, ValueError, "epsilons must be two numbers"),
        ({"epsilons": (1.0, -1.0)}, ValueError, "epsilon must be"),
        ({"encoder": UnaryEncodingTransformer(categories=VALUES)}, TypeError, "must be a RandomizedResponseEncoder"),
        ({"encoder": RandomizedResponseEncoder(strategy="joint")}, ValueError, "strategy='split'"),
        ({"group": "copied"}, ValueError, "name of a column"),
    ],
)
def test_wrong_parameters_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        halves_of().set_params(**options).fit(PEOPLE)


def test_wrong_tables_are_refused():
    with pytest.raises(TypeError, match="X must be a dataframe"):
        halves_of().fit(PEOPLE.to_numpy())
    halves = halves_of().fit(PEOPLE)
    with pytest.raises(TypeError, match="X must be a dataframe"):
        halves.transform(PEOPLE.to_numpy())
    reports = halves.transform(PEOPLE)
    with pytest.raises(ValueError, match="rows of both halves"):
        halves.estimate_frequencies(reports[reports["half"] == 1])
    with pytest.raises(ValueError, match="must have the column 'half'"):
        halves.estimate_frequencies(reports[["copied"]])
    with pytest.raises(ValueError, match="cheaters must be one of the declared values"):
        halves.estimate_frequencies(reports, cheaters="never")
    with pytest.raises(ValueError, match="groups that the design does not declare"):
        halves.estimate_frequencies(reports.assign(half=2))


def test_impossible_shares_warn():
    halves = PerHalf(RandomizedResponseEncoder(categories={"q": ["no", "yes"]}), epsilons=(0.5, 3.0))
    halves.fit(pd.DataFrame({"q": ["no", "yes"]}))
    yes = np.repeat([1, 0, 1, 0], [600, 400, 50, 950])
    reports = pd.DataFrame({"q": np.where(yes, "yes", "no"), "half": np.repeat([0, 1], 1000)})
    with pytest.warns(UserWarning, match="impossible share"):
        halves.estimate_frequencies(reports, cheaters="no")
