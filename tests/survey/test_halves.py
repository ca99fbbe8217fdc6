"""Non-compliance: two levels in two random halves, by enumeration and compared with published figures."""

import itertools
import warnings
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
    ReportDesign,
    UnaryEncodingTransformer,
    privacy_statement,
)
from tests.conftest import quick_first

VALUES = {"copied": ["no", "yes"]}
PEOPLE = pd.DataFrame({"copied": ["no", "yes", "no", "no"] * 100})


def halves_of(values=VALUES, seed=0, epsilons=(0.5, 2.0), **options):
    encoder = RandomizedResponseEncoder(categories=values, random_state=seed, **options)
    return PerHalf(encoder, epsilons=epsilons)


# Guarantee.


@pytest.mark.parametrize("epsilons", [(0.5, 2.0), (2.0, 0.5)])
def test_guarantee_is_the_guarantee_of_the_weaker_half(epsilons):
    """Enumerate all outputs, half and report."""
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


def test_reports_follow_the_enumerated_distribution():
    """Halves by a fair coin, reports by their channels; false alarm 1e-6."""
    values = {"job": ["a", "b", "c"]}
    halves = halves_of(values)
    n = 30_000
    reports = halves.fit_transform(pd.DataFrame({"job": ["b"] * n}))
    observed = pd.crosstab(reports["half"], reports["job"]).to_numpy()
    expected = np.array([[float(row) for row in encoder.channel()[0][1]] for encoder in halves.encoders_]) * n / 2
    assert ((observed - expected) ** 2 / expected).sum() < chi2.isf(1e-6, 5)


def test_ledger_is_charged_once_before_drawing():
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


@pytest.mark.parametrize("n", quick_first(1, [8, 26]))
def test_estimates_are_unbiased_and_intervals_cover_the_proportions(n):
    """Exact, over all reports of two halves of `n`: the mean of the estimates, and for 26 the smallest coverage."""
    cards = {
        half: ReportDesign.warner("q", np.exp(epsilon) / (1 + np.exp(epsilon))) for half, epsilon in ((0, 0.5), (1, 4))
    }
    design = ReportDesign.by_group(cards, "half").with_cheaters("no")
    lower, upper, estimates = [], [], []
    half = np.repeat([0, 1], n)
    for first, second in itertools.product(range(n + 1), repeat=2):
        is_yes = np.concatenate([np.arange(n) < first, np.arange(n) < second])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            table = design.estimate_frequencies(pd.DataFrame({"q": np.where(is_yes, "yes", "no"), "half": half}))
        for values, column in ((lower, "lower"), (upper, "upper"), (estimates, "frequency")):
            values.append(table[column])
    lower, upper, estimates = np.array(lower), np.array(upper), np.array(estimates)
    channels = np.stack(list(design.channels.values()))
    for truth in ([0.9, 0.1, 0], [0.7, 0.2, 0.1], [0.98, 0.02, 0], [1, 0, 0], [0.5, 0.5, 0], [0.2, 0.3, 0.5]):
        (_, first), (_, second) = truth @ channels
        yeses = np.arange(n + 1)
        chances = np.outer(binom.pmf(yeses, n, first), binom.pmf(yeses, n, second)).ravel()
        np.testing.assert_allclose(chances @ estimates, truth, atol=1e-6)
        coverage = chances @ ((lower <= truth) & (truth <= upper))
        assert n < 26 or coverage.min() > 0.93, (truth, coverage)


# As a transformer.


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"epsilons": (1.0, 1.0)}, ValueError, "must be two different floats"),
        ({"epsilons": (1.0,)}, ValueError, "must be two different floats"),
        ({"epsilons": (1.0, -1.0)}, ValueError, "`epsilon` must be"),
        ({"encoder": UnaryEncodingTransformer(categories=VALUES)}, TypeError, "must be a RandomizedResponseEncoder"),
        ({"encoder": RandomizedResponseEncoder(strategy="joint")}, ValueError, "strategy='split'"),
    ],
)
def test_invalid_parameters_raise_an_error(options, error, message):
    with pytest.raises(error, match=message):
        halves_of().set_params(**options).fit(PEOPLE)


def test_invalid_tables_raise_an_error():
    with pytest.raises(ValueError, match="must not have a column 'half'"):
        PerHalf(RandomizedResponseEncoder(categories={"half": [0, 1]})).fit(pd.DataFrame({"half": [0, 1]}))
    with pytest.raises(TypeError, match="X must be a dataframe"):
        halves_of().fit(PEOPLE.to_numpy())
    halves = halves_of().fit(PEOPLE)
    with pytest.raises(TypeError, match="X must be a dataframe"):
        halves.transform(PEOPLE.to_numpy())
    reports = halves.transform(PEOPLE)
    with pytest.raises(ValueError, match="must have linearly independent rows"):
        halves.design().with_cheaters("no").estimate_frequencies(reports[reports["half"] == 1])
    with pytest.raises(ValueError, match=r"'half'. are missing"):
        halves.design().estimate_frequencies(reports[["copied"]])
    with pytest.raises(ValueError, match=r"'half' must have the labels \[0, 1\], got other entries \(rows: 400"):
        halves.design().estimate_frequencies(reports.assign(half=2))


def test_each_column_has_its_own_cheaters():
    values = {"copied": ["no", "yes"], "job": ["a", "b", "c"]}
    rng = np.random.default_rng(1)
    people = pd.DataFrame({"copied": ["no"] * 30_000, "job": rng.choice(["a", "b", "c"], 30_000)})
    halves = halves_of(values, epsilons=(2.0, 8.0))
    reports = halves.fit_transform(people)
    assert list(halves.get_feature_names_out()) == ["copied", "job", "half"]
    reports.loc[rng.random(30_000) < 0.2, "job"] = "b"
    table = halves.design("job").with_cheaters("b").estimate_frequencies(reports, confidence_level=1 - 1e-6)
    expected = np.append(np.full(3, 0.8 / 3), 0.2)
    assert (table["lower"] < expected).all()
    assert (expected < table["upper"]).all()
    with pytest.raises(ValueError, match="`column` must be one of"):
        halves.design()
