"""Plans of differences and coefficients: closed forms, exact information, and power by simulation."""

import math
from statistics import NormalDist

import numpy as np
import pandas as pd
import pytest

from skdp import (
    LocalHashingEncoder,
    RandomizedResponseEncoder,
    ReportLogisticRegression,
    SubsetSelectionEncoder,
    UnaryEncodingTransformer,
    plan_epsilon,
    plan_rows,
)
from skdp.survey import ReportDesign
from tests.conftest import often

SMOKES = RandomizedResponseEncoder(categories={"smokes": ["yes", "no"]})
JOB = {"job": ["a", "b", "c", "d"]}
Z = NormalDist().inv_cdf(0.975)


def test_a_difference_has_the_variance_of_the_closed_form():
    plan = plan_rows(SMOKES, epsilon=1.5, of="difference", within=0.05, rates=(0.2, 0.3), share=0.3)
    p = math.exp(1.5) / (1 + math.exp(1.5))
    variance = 0
    for size, rate in ((0.7, 0.2), (0.3, 0.3)):
        told = rate * p + (1 - rate) * (1 - p)
        variance += told * (1 - told) / (2 * p - 1) ** 2 / size
    assert plan.n_rows == math.ceil((Z / 0.05) ** 2 * variance)
    assert plan.half_width == pytest.approx(Z * math.sqrt(variance / plan.n_rows))
    assert plan.effect == pytest.approx(0.1)
    # The least epsilon for these rows is this one.
    again = plan_epsilon(SMOKES, n_rows=plan.n_rows, of="difference", within=0.05, rates=(0.2, 0.3), share=0.3)
    assert again.epsilon == 1.5


def fisher_error(epsilon, n_values, share, rates, reported):
    """Return the standard error of the first value's log odds ratio against the second, for one row.

    By the information of all parameters: probabilities of each report and known class, derivatives by differences.
    """
    p = math.exp(epsilon) / (math.exp(epsilon) + n_values - 1)
    channel = np.full((n_values, n_values), (1 - p) / (n_values - 1))
    np.fill_diagonal(channel, p)
    others = np.full(n_values - 1, 1 / (n_values - 1))
    if reported == "target":
        cells = np.array([np.append(rate, (1 - rate) * others) for rate in rates]) * [[1 - share], [share]]
    else:
        values = np.append(share, (1 - share) * others)
        chances = np.append(rates[1], np.full(n_values - 1, rates[0]))
        cells = np.array([values * (1 - chances), values * chances])

    def told(parameters):
        shares = np.append(parameters, 1 - parameters.sum()).reshape(cells.shape)
        return (shares @ channel).ravel()

    def log_ratio(parameters):
        shares = np.append(parameters, 1 - parameters.sum()).reshape(cells.shape)
        return math.log(shares[1, 0] * shares[0, 1] / (shares[1, 1] * shares[0, 0]))

    parameters = cells.ravel()[:-1]
    steps = 1e-6 * np.eye(len(parameters))
    slopes = np.array([(told(parameters + step) - told(parameters - step)) / 2e-6 for step in steps])
    gradient = np.array([(log_ratio(parameters + step) - log_ratio(parameters - step)) / 2e-6 for step in steps])
    information = slopes @ np.diag(1 / told(parameters)) @ slopes.T
    return math.sqrt(gradient @ np.linalg.solve(information, gradient))


@pytest.mark.parametrize("reported", ["target", "predictor"])
@pytest.mark.parametrize("n_values", [2, 4])
def test_a_coefficient_has_the_error_of_the_exact_information(n_values, reported):
    values = {"job": JOB["job"][:n_values]}
    guesses = {"of": "coefficient", "rates": (0.2, 0.35), "share": 0.3, "reported": reported}
    plan = plan_rows(RandomizedResponseEncoder(categories=values), epsilon=1.2, within=0.4, **guesses)
    expected = Z * fisher_error(1.2, n_values, 0.3, (0.2, 0.35), reported) / math.sqrt(plan.n_rows)
    assert plan.half_width == pytest.approx(expected, rel=1e-5)
    assert plan.effect == pytest.approx(math.log(0.35 / 0.65) - math.log(0.2 / 0.8))


@pytest.mark.parametrize("power", [0.5, 0.8, 0.95])
def test_a_difference_is_found_as_often_as_planned(power):
    """200,000 surveys; a false alarm once in a million (five standard errors, and what the normal form leaves)."""
    rates, share = (0.2, 0.3), 0.4
    plan = plan_rows(SMOKES, epsilon=1.0, of="difference", rates=rates, share=share, power=power)
    rng = np.random.default_rng(0)
    p = math.e / (1 + math.e)
    differences, variances = 0, 0
    for sign, size, rate in ((-1, 1 - share, rates[0]), (1, share, rates[1])):
        n = round(plan.n_rows * size)
        told = rng.binomial(n, rate * p + (1 - rate) * (1 - p), 200_000) / n
        differences = differences + sign * (told - 1 + p) / (2 * p - 1)
        variances = variances + told * (1 - told) / n / (2 * p - 1) ** 2
    is_found = np.abs(differences) > Z * np.sqrt(variances)
    assert is_found.mean() == pytest.approx(power, abs=0.006)
    assert plan.reached_power == pytest.approx(power, abs=1e-3)
    # An effect that is twice as small needs four times as many people, and a little more or less.
    smaller = plan_rows(SMOKES, epsilon=1.0, of="difference", rates=(0.2, 0.25), share=share, power=power)
    assert smaller.n_rows == pytest.approx(4 * plan.n_rows, rel=0.02)


@pytest.mark.long
@pytest.mark.parametrize("reported", ["target", "predictor"])
def test_a_coefficient_is_found_as_often_as_planned(reported):
    """400 regressions from reports; four standard errors."""
    guesses = {"of": "coefficient", "rates": (0.2, 0.4), "share": 0.4, "reported": reported}
    plan = plan_rows(SMOKES, epsilon=1.5, power=0.8, **guesses)
    rng = np.random.default_rng(0)
    n_found = 0
    for seed in range(400):
        is_second = rng.random(plan.n_rows) < 0.4
        target = rng.random(plan.n_rows) < np.where(is_second, 0.4, 0.2)
        hidden, known = (target, is_second) if reported == "target" else (is_second, target)
        encoder = RandomizedResponseEncoder(1.5, categories={"smokes": ["no", "yes"]}, random_state=seed)
        reports = encoder.fit_transform(pd.DataFrame({"smokes": np.where(hidden, "yes", "no")}))
        if reported == "target":
            model = ReportLogisticRegression(target_encoder=encoder)
            model.fit(pd.DataFrame({"group": known.astype(float)}), reports)
        else:
            model = ReportLogisticRegression(encoder).fit(reports, known)
        n_found += model.summary()["p_value"].iloc[-1] < 0.05
    assert n_found / 400 == pytest.approx(0.8, abs=4 * math.sqrt(0.8 * 0.2 / 400))


ENCODERS = [UnaryEncodingTransformer, SubsetSelectionEncoder, LocalHashingEncoder]


@pytest.mark.parametrize("make", often(ENCODERS, [SubsetSelectionEncoder]))
def test_other_reports_are_as_precise_as_planned(make):
    """The difference of estimated shares of two groups, in 60 surveys; four standard errors of its deviation."""
    guesses = {"of": "difference", "rates": (0.2, 0.5), "share": 0.5}
    plan = plan_rows(make(categories=JOB), epsilon=2.0, within=0.1, **guesses)
    n = plan.n_rows // 2
    rng = np.random.default_rng(0)
    encoder = make(2.0, categories=JOB, random_state=0).fit(pd.DataFrame({"job": ["a"]}))
    differences = []
    for _ in range(60):
        shares = []
        for rate in guesses["rates"]:
            jobs = rng.choice(JOB["job"], n, p=[rate, *[(1 - rate) / 3] * 3])
            reports = encoder.transform(pd.DataFrame({"job": jobs}))
            shares.append(encoder.estimate_frequencies(reports)["frequency"].iloc[0])
        differences.append(shares[1] - shares[0])
    assert np.mean(differences) == pytest.approx(0.3, abs=4 * 0.05 / math.sqrt(60))
    # Shares that do not add up to 1 have a little more error than the plan's.
    assert 0.63 < np.std(differences) * Z / 0.1 < 1.45


def test_the_curve_has_power_by_epsilon_and_rows():
    plan = plan_rows(SMOKES, epsilon=1.0, of="coefficient", rates=(0.2, 0.3), power=0.8)
    assert list(plan.curve.columns) == ["epsilon", "n_rows", "half_width", "power"]
    assert plan.curve["n_rows"].nunique() == 5
    of_plan = plan.curve[plan.curve["n_rows"] == plan.n_rows].set_index("epsilon")
    assert of_plan.loc[1.0, "power"] == pytest.approx(plan.reached_power)
    assert of_plan["power"].is_monotonic_increasing
    assert str(plan) == (
        f"epsilon = 1 and {plan.n_rows:,} rows are enough to find a coefficient of 0.539 with a power of 0.8 "
        "(test at 0.05)"
    )
    assert "power 0.8" in plan._repr_html_()
    by_epsilon = plan_epsilon(SMOKES, n_rows=plan.n_rows, of="coefficient", rates=(0.2, 0.3), power=0.8)
    assert by_epsilon.epsilon == pytest.approx(1.0, abs=0.002)


DICE = ReportDesign.forced("smokes", yes=2 / 12, no=1 / 12)
CARDS = ReportDesign.warner("smokes", 0.75)


def test_a_design_of_others_has_the_variance_of_its_channel():
    """By an encoder of the same epsilon, simulated power was .60 in place of .80."""
    guess = {"of": "difference", "rates": (0.05, 0.1)}
    plan = plan_rows(DICE, power=0.8, share=0.3, **guess)
    variance = 0
    for size, rate in ((0.7, 0.05), (0.3, 0.1)):
        yes = 2 / 12 + 9 / 12 * rate
        variance += yes * (1 - yes) / (9 / 12) ** 2 / size
    assert plan.half_width == pytest.approx(Z * math.sqrt(variance / plan.n_rows))
    assert plan.reached_power == pytest.approx(0.8, abs=1e-3)
    assert plan.epsilon == DICE.epsilon
    by_epsilon = plan_rows(SMOKES, epsilon=DICE.epsilon, power=0.8, share=0.3, **guess)
    assert plan.n_rows > 1.4 * by_epsilon.n_rows


@pytest.mark.parametrize("of", ["difference", "coefficient"])
def test_cards_of_an_encoder_need_as_many_rows(of):
    """Of Warner's design, whose values are those of the encoder in the other order."""
    for rates in ((0.1, 0.3), (0.6, 0.9)):
        guess = {"of": of, "rates": rates, "power": 0.9, "share": 0.4}
        of_encoder = plan_rows(SMOKES, epsilon=CARDS.epsilon, **guess)
        assert plan_rows(CARDS, **guess).n_rows == of_encoder.n_rows


@pytest.mark.parametrize("design", [DICE, CARDS, ReportDesign.direct("smokes")])
def test_the_share_of_a_design_has_the_interval_that_it_states(design):
    plan = plan_rows(design, within=0.02, share=0.25)
    channel = design.channels[None]
    n = 4800
    yes = round(n * (0.75 * channel[0, 1] + 0.25 * channel[1, 1]))
    reports = pd.DataFrame({"smokes": np.repeat(["no", "yes"], [n - yes, yes])})
    stated = design.estimate_frequencies(reports).loc["yes"]
    assert stated["frequency"] == pytest.approx(0.25)
    # The curve has other numbers of rows, of which one is looked up between its neighbours.
    widths = np.interp(n, plan.curve["n_rows"], plan.curve["half_width"])
    assert (stated["upper"] - stated["lower"]) / 2 == pytest.approx(widths, rel=0.03)
    # Of no guess, the widest of all.
    assert plan_rows(design, within=0.02).n_rows > plan.n_rows


def test_a_report_that_tells_the_value_has_no_error_at_the_end():
    """Who is never told to say no, says no only where that is true."""
    never_no = ReportDesign.forced("smokes", yes=0.3)
    guess = {"of": "difference", "rates": (1.0, 0.9)}
    plan = plan_rows(never_no, within=0.1, **guess)
    told = 0.9 + 0.1 * 0.3
    variance = told * (1 - told) / 0.7**2 / 0.5
    assert plan.n_rows == math.ceil((Z / 0.1) ** 2 * variance)


LEVELS = ReportDesign.warner("a", {1: 0.9, 2: 0.7}, group="g")


@pytest.mark.parametrize(
    ("design", "options", "message"),
    [
        (DICE, {"epsilon": 1.0}, "epsilon is that of the ReportDesign"),
        (SMOKES, {}, "epsilon must be given"),
        (DICE, {"of": "parity"}, "of must be one of .* for a ReportDesign"),
        (DICE, {"rows": "table"}, "rows must be 'population' for a ReportDesign"),
        (LEVELS, {}, "without group and unknown"),
        (ReportDesign.direct("a", values=[1, 2, 3]), {}, "with two values, got 3"),
        (ReportDesign("a", [[0.5, 0.5]] * 2, values=[0, 1]), {}, "does not tell its values apart"),
    ],
)
def test_designs_that_are_not_planned_are_refused(design, options, message):
    with pytest.raises(ValueError, match=message):
        plan_rows(design, within=0.1, **options)
    with pytest.raises(TypeError, match="plan_rows takes the design"):
        plan_epsilon(DICE, within=0.1, n_rows=100, of="frequency")
