"""plan_epsilon: its half widths are those of the released intervals, and what it finds is the least."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pandas as pd
import pytest

from skdp import (
    DPHistogram,
    FrequencyOracleEncoder,
    Interval,
    LocalHashingEncoder,
    LocalTableEncoder,
    NumericPerturber,
    PrivacyLedger,
    RandomizedResponseEncoder,
    SubsetSelectionEncoder,
    UnaryEncodingTransformer,
    plan_epsilon,
    plan_rows,
)
from skdp.metrics import debiased_fairness, parity_half_width
from skdp.privacy import Mu, Rho
from tests.conftest import each, often

SEX, JOB = ["F", "M"], [f"job {number}" for number in range(6)]
VALUES = {"sex": SEX, "job": JOB}
N = 3_000


def people(n_rows=N, share=0.3, seed=0):
    """Make rows of which the first value of each column has a share."""
    rng = np.random.default_rng(seed)
    first = round(n_rows * share)
    others = rng.choice(JOB[1:], n_rows - first)
    frame = pd.DataFrame({"sex": ["F"] * first + ["M"] * (n_rows - first), "job": [JOB[0]] * first + [*others]})
    return frame.assign(job=rng.permutation(frame["job"]), age=rng.integers(0, 100, n_rows).astype(float))


@pytest.mark.parametrize("rows", ["table", "population"])
def test_the_least_epsilon_of_a_frequency_is_that_of_the_closed_form(rows):
    encoder = RandomizedResponseEncoder(categories={"sex": SEX})
    plan = plan_epsilon(encoder, within=0.02, of="frequency", n_rows=20_000, rows=rows)

    def half_width(epsilon):
        # Of the table the noise; of the population, reports that are yes with a probability of 1 / 2 at most.
        p = math.exp(epsilon) / (1 + math.exp(epsilon))
        variance = p * (1 - p) if rows == "table" else 1 / 4
        return 1.959964 * math.sqrt(variance / 20_000) / (2 * p - 1)

    # The least number of three digits. Of the population, the interval is Wilson's.
    accuracy = 1e-6 if rows == "table" else 1e-3
    assert half_width(plan.epsilon) <= 0.02 * (1 + accuracy)
    assert half_width(plan.epsilon - 0.001) > 0.02
    assert plan.half_width == pytest.approx(half_width(plan.epsilon), rel=accuracy)
    curve = plan.curve
    assert curve["half_width"].tolist() == pytest.approx([half_width(one) for one in curve["epsilon"]], rel=accuracy)
    assert not hasattr(encoder, "protocol_"), "the estimator itself is left unfitted"


def test_rows_are_the_least_that_are_enough():
    encoder = RandomizedResponseEncoder(categories={"sex": SEX})
    plan = plan_rows(encoder, within=0.02, of="frequency", epsilon=1.0, rows="table")
    p = math.e / (1 + math.e)
    needed = (1.959964 / 0.02) ** 2 * p * (1 - p) / (2 * p - 1) ** 2
    assert plan.n_rows == math.ceil(needed)
    assert plan.epsilon == 1.0
    assert plan.curve.columns.tolist() == ["n_rows", "half_width"]
    assert str(plan).startswith("epsilon = 1 and 8,842 rows are enough for a frequency within ± 0.02 (95 % interval")


def count_cases():
    """List estimators of counts, with what is asked of them."""
    both, sex, job = dict(VALUES), {"sex": SEX}, {"job": JOB}
    return {
        "randomised response": (RandomizedResponseEncoder(categories=sex), {}),
        "90 %": (RandomizedResponseEncoder(categories=job), {"confidence_level": 0.9}),
        "split": (RandomizedResponseEncoder(categories=both), {"columns": "job"}),
        "joint margin": (FrequencyOracleEncoder(categories=both, strategy="joint"), {"columns": "sex"}),
        "sample": (FrequencyOracleEncoder(categories=both, strategy="sample"), {"columns": "job"}),
        "subset selection": (SubsetSelectionEncoder(categories=job), {}),
        "unary encoding": (UnaryEncodingTransformer(categories=job), {}),
        "hashing": (LocalHashingEncoder(categories=job), {}),
        "table": (LocalTableEncoder(categories=both, bounds={"age": (0, 100)}), {"columns": "sex"}),
        "sampled table": (
            LocalTableEncoder(categories=both, bounds={"age": (0, 100)}, strategy="sample"),
            {"columns": "job", "within": 300},
        ),
        "histogram": (DPHistogram(domain=sex), {"within": 20}),
        "Gaussian": (DPHistogram(Mu(1.0, 1e-6), domain=sex), {"within": 20}),
        "rho": (DPHistogram(Rho(1.0, 1e-6), domain=both), {"within": 20}),
    }


QUICK = ["randomised response", "joint margin", "sample", "histogram", "rho"]


@pytest.mark.long
@pytest.mark.parametrize("case", often(count_cases(), QUICK))
def test_the_half_width_is_that_of_the_estimates(case):
    estimator, options = count_cases()[case]
    level = options.get("confidence_level", 0.95)
    plan = plan_epsilon(estimator, **{"within": 200, "share": 0.3, "n_rows": N} | options)
    assert plan.half_width <= options.get("within", 200)
    assert type(plan.epsilon) is type(estimator.epsilon)
    widths = []
    for seed in range(8):
        table = people(seed=seed)
        estimator.set_params(epsilon=plan.epsilon, random_state=seed)
        if isinstance(estimator, DPHistogram):
            found = estimator.fit(table[list(estimator.domain)]).to_frame(confidence_level=level).iloc[0]
        else:
            table = table[[*estimator.categories, *(getattr(estimator, "bounds", None) or ())]]
            column = options.get("columns", next(iter(estimator.categories)))
            margin = {"columns": [column]} if getattr(estimator, "strategy", "") == "joint" else {}
            reports = estimator.fit_transform(table)
            found = estimator.estimate_counts(reports, confidence_level=level, **margin)
            found = found.loc[(column, VALUES[column][0])] if found.index.nlevels > 1 else found.iloc[0]
        widths.append((found["upper"] - found["lower"]) / 2)
    assert np.mean(widths) == pytest.approx(plan.half_width, rel=0.03)


def test_a_hierarchy_and_frequencies_of_a_histogram():
    ages = DPHistogram(domain={"age": Interval(0, 100, bins=64)}, method="hierarchical", random_state=0)
    plan = plan_epsilon(ages, within=30)
    row = ages.set_params(epsilon=plan.epsilon).fit(people()[["age"]]).to_frame()
    assert ((row["upper"] - row["lower"]) / 2).max() == plan.half_width <= 30
    rows = plan_rows(DPHistogram(domain={"sex": SEX}), within=0.001, of="frequency", epsilon=0.5)
    assert rows.n_rows == 6_000


JOBS = {"privileged": JOB[1:]}
PARITY = [
    (RandomizedResponseEncoder(categories={"sex": SEX}), {"privileged": "M", "rows": "table"}),
    pytest.param(RandomizedResponseEncoder(categories={"sex": SEX}), {"privileged": "M"}, marks=pytest.mark.long),
    pytest.param(SubsetSelectionEncoder(categories={"job": JOB}), JOBS, marks=pytest.mark.long),
]


@pytest.mark.parametrize(("encoder", "options"), PARITY)
def test_the_half_width_of_a_parity_difference_is_that_of_debiased_fairness(encoder, options):
    n, guesses = 20_000, {"of": "parity", "share": 0.7, "rates": (0.2, 0.4)}
    plan = plan_epsilon(encoder, within=0.06, n_rows=n, **guesses, **options)
    widths = []
    for seed in range(4):
        table = people(n, seed=seed)[list(encoder.categories)]
        privileged = table.iloc[:, 0].isin(np.ravel(options["privileged"]))
        hired = np.random.default_rng(seed).random(n) < np.where(privileged, 0.4, 0.2)
        reports = encoder.set_params(epsilon=plan.epsilon, random_state=seed).fit_transform(table)
        found = debiased_fairness(hired, hired, reports, encoder, positive_label=True, **options).iloc[6]
        widths.append((found["upper"] - found["lower"]) / 2)
    assert np.mean(widths) == pytest.approx(plan.half_width, rel=0.05)
    more = plan_rows(encoder, within=0.06, epsilon=plan.epsilon, **guesses, **options)
    assert more.n_rows == pytest.approx(n, rel=0.02)


def curve_of(losses, *, spread=0.002):
    """Make a curve with given losses of the mean score at epsilons 1, 2, 4, …"""
    rows = [(math.inf, repeat, 0, "roc_auc", "all", 0.9 + 0.01 * repeat) for repeat in range(4)]
    for power, loss in enumerate(losses):
        noise = spread * np.array([-1.5, -0.5, 0.5, 1.5])
        rows += [(2.0**power, place, 0, *rows[place][3:5], rows[place][5] - loss + noise[place]) for place in range(4)]
    curve = pd.DataFrame(rows, columns=["epsilon", "repeat", "fold", "metric", "group", "value"])
    return curve.assign(n_train=400, n_test=100)


def test_the_parity_of_one_of_two_columns_takes_twice_the_epsilon():
    options = {"within": 0.1, "n_rows": 9_000, "of": "parity", "privileged": "M", "share": 0.5, "columns": ["sex"]}
    alone = plan_epsilon(RandomizedResponseEncoder(categories={"sex": SEX}), **options).epsilon
    assert plan_epsilon(ENCODER, **options).epsilon == pytest.approx(2 * alone, rel=0.01)


def test_the_epsilon_of_a_curve_is_between_its_neighbours():
    plan = plan_epsilon(curve_of([0.1, 0.05, 0.01]), within=0.03, of="roc_auc")
    assert plan.epsilon == pytest.approx(2 * 2**0.5)
    assert plan.half_width == pytest.approx(0.03)
    low, high = plan.epsilon_range
    assert low < plan.epsilon < high < 4
    assert "2.83 is enough for roc_auc within 0.03 of no privacy (95 % interval: 2." in str(plan)


def test_a_curve_is_made_monotone():
    plan = plan_epsilon(curve_of([0.1, 0.04, 0.06, 0.01]), within=0.05, of="roc_auc")
    assert plan.curve["half_width"].tolist() == pytest.approx([0.1, 0.05, 0.05, 0.01])
    assert plan.epsilon == pytest.approx(2)
    assert plan_epsilon(curve_of([0.1, 0.04]), within=0.2, of="roc_auc").epsilon == 1


def test_an_end_that_a_curve_does_not_reach_is_infinite():
    plan = plan_epsilon(curve_of([0.1, 0.04]), within=0.0405, of="roc_auc")
    assert plan.epsilon_range[1] == math.inf
    assert "to more than was tried" in str(plan)
    once = plan_epsilon(curve_of([0.1, 0.04]).query("repeat == 0"), within=0.05, of="roc_auc")
    assert once.epsilon_range == (1, math.inf), "a single pair has no interval"


@each(
    "losses, rows, options, message",
    [
        (
            [0.1, 0.04],
            "epsilon > 0",
            {"within": 0.01},
            "no epsilon of the curve is enough: the closest roc_auc is 0.04",
        ),
        ([0.1, 0.04], "epsilon > 0", {"of": "accuracy"}, "of must be a metric of the curve, one of"),
        ([0.1, 0.04], "epsilon < 9", {}, "no baseline"),
        ([0.1, math.nan], "epsilon > 0", {}, "curve must have finite scores of 'roc_auc' at two epsilons"),
        ([0.1, 0.04], "epsilon > 0", {"n_rows": 9}, "n_rows is not for a curve of scores"),
    ],
)
def test_what_a_curve_cannot_answer(losses, rows, options, message):
    with pytest.raises(ValueError, match=message):
        plan_epsilon(curve_of(losses).query(rows), **{"within": 0.05, "of": "roc_auc", **options})


def test_a_count_is_a_whole_number():
    with pytest.raises(ValueError, match=r"within 1e-12, as its interval ends at whole numbers: the shortest is ± 1$"):
        plan_epsilon(DPHistogram(domain=VALUES), within=1e-12)


@pytest.mark.long
def test_what_sampling_makes_impossible_is_said_with_the_number_of_rows():
    encoder = FrequencyOracleEncoder(categories=VALUES, strategy="sample")
    options = {"of": "frequency", "share": 0.5, "columns": "sex"}
    with pytest.raises(ValueError, match=r"no epsilon up to 64 gives a frequency within 0\.01") as refused:
        plan_epsilon(encoder, within=0.01, n_rows=5_000, **options)
    needed = int(str(refused.value).rsplit("at least ", 1)[1].split(" ")[0].replace(",", ""))
    assert plan_epsilon(encoder, within=0.01, n_rows=needed, **options).epsilon > 10
    with pytest.raises(ValueError, match=r"with at most .* rows it is possible"):
        plan_epsilon(encoder, within=50, n_rows=20_000, share=0.5, columns="sex")
    wanted = {"of": "parity", "privileged": "M", "share": 0.5}
    with pytest.raises(ValueError, match=r"it needs at least 153,6.. rows"):
        plan_epsilon(RandomizedResponseEncoder(categories={"sex": SEX}), within=0.005, n_rows=1_000, **wanted)


ENCODER = RandomizedResponseEncoder(categories=VALUES)
BOTH = {"of": "parity", "within": 0.1, "privileged": ("M", JOB[0]), "share": 0.5, "columns": ["sex", "job"]}
FEW = {"epsilon": 1e-6, "of": "frequency", "within": 1e-6}
ONE_COLUMN = RandomizedResponseEncoder(categories={"sex": SEX})
FOUND = {"of": "difference", "power": 0.8, "within": None, "rates": (0.2, 0.3)}


@each(
    "source, options, error, message",
    [
        (RandomizedResponseEncoder(), {}, TypeError, "categories of RandomizedResponseEncoder must be a map"),
        (NumericPerturber(), {}, TypeError, "an encoder of categories or tables, or a DPHistogram, got Num"),
        (DPHistogram(domain=VALUES), {"of": "parity"}, TypeError, "planned for an encoder of categories"),
        (ENCODER, {"n_rows": None}, ValueError, "of='count' needs n_rows; plan_rows finds it for an epsilon"),
        (ENCODER, {"within": None}, ValueError, "within must be a finite number > 0, got None"),
        (ENCODER, {"within": True}, ValueError, "within must be a finite number > 0, got True"),
        (ENCODER, {"of": "sum"}, ValueError, "of must be one of .*, got 'sum'"),
        (ENCODER, {"share": 2}, ValueError, "share must be a number from 0 to 1, got 2"),
        (ENCODER, {"rates": (0.5,)}, ValueError, "rates must be two numbers"),
        (ENCODER, {"n_rows": 0}, ValueError, "n_rows must be an integer of at least 1, got 0"),
        (ENCODER, {"of": "frequency"}, ValueError, "must be below 1"),
        (ENCODER, {"of": "parity", "within": 0.1}, ValueError, "needs `privileged`, its values, and `share`,"),
        (ENCODER, {"columns": [["age"]]}, ValueError, "columns must be"),
        (ENCODER, BOTH, ValueError, "planned for one column, or for columns of strategy='joint'"),
        (ENCODER, FOUND, ValueError, "columns must be the one column whose value is compared"),
        (ENCODER, {"power": 0.8, "within": None}, ValueError, "power is for of='difference' or 'coefficient'"),
        (ONE_COLUMN, FOUND | {"within": 0.1}, ValueError, "power is for .* in place of within"),
        (ONE_COLUMN, FOUND | {"power": 0.05}, ValueError, "power must be between 0.05, the level of the test, and 1"),
        (ONE_COLUMN, FOUND | {"rates": (0.3, 0.3)}, ValueError, "rates must differ"),
        (ONE_COLUMN, FOUND | {"share": 0}, ValueError, "share must be between 0 and 1"),
        (ONE_COLUMN, FOUND | {"rows": "table"}, ValueError, "rows must be 'population' for a difference"),
        (ONE_COLUMN, FOUND | {"of": "coefficient", "rates": (0, 1)}, ValueError, "rates must be between 0 and 1"),
        (ONE_COLUMN, FOUND | {"reported": "both"}, ValueError, "reported must be"),
        (ONE_COLUMN, FOUND, ValueError, "no epsilon up to 64 .* at least 581 rows"),
        (DPHistogram(domain=VALUES), FOUND, TypeError, "planned for an encoder of categories"),
    ],
)
def test_refusals(source, options, error, message):
    with pytest.raises(error, match=message):
        plan_epsilon(source, **{"within": 50, "n_rows": 9, **options})


@pytest.mark.long
@each(
    "options, message",
    [
        (FEW, "no number of rows up to .* is enough at this epsilon"),
        ({"of": "count", "within": 50}, "does not fall with the number"),
        ({"epsilon": -1.0}, "epsilon must be"),
    ],
)
def test_rows_that_cannot_be_planned(options, message):
    with pytest.raises(ValueError, match=message):
        plan_rows(ENCODER, **{"within": 0.5, "epsilon": 1.0, **options})


def test_nothing_is_charged_and_a_fitted_encoder_keeps_its_values():
    ledger = PrivacyLedger(epsilon=1.0)
    encoder = RandomizedResponseEncoder(1.0, ledger=ledger, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        encoder.fit(people()[["sex"]])
    plan = plan_epsilon(encoder, within=100, n_rows=N)
    assert (
        plan.epsilon == plan_epsilon(RandomizedResponseEncoder(categories={"sex": SEX}), within=100, n_rows=N).epsilon
    )
    assert not len(ledger.report())
    assert encoder.guarantee_.epsilon == pytest.approx(1.0)


@pytest.mark.filterwarnings("ignore:undefined")
@pytest.mark.parametrize("epsilon", often([1.0, 3.0], [3.0]))
@pytest.mark.parametrize(
    "make", often([RandomizedResponseEncoder, UnaryEncodingTransformer], [RandomizedResponseEncoder])
)
def test_a_planned_parity_difference_has_the_noise_that_intervals_of_few_given_rows_add(make, epsilon):
    """Of 300 rows with four selected, the planned intervals were 6 % shorter than those of reports, at 3 a third."""
    sex = np.repeat(["M", "F"], 150)
    hired = np.arange(300) % 150 < 2
    encoder = make(epsilon, categories={"sex": ["F", "M"]})
    widths = []
    for seed in range(8):
        reports = encoder.set_params(random_state=seed).fit_transform(pd.DataFrame({"sex": sex}))
        found = debiased_fairness(
            hired, hired, reports, encoder, positive_label=True, privileged="M", rows="table"
        ).iloc[6]
        widths.append((found["upper"] - found["lower"]) / 2)
    planned = parity_half_width(encoder, 300, privileged="M", share=0.5, rates=(2 / 150, 2 / 150), rows="table")
    # The noise of four reports of bits is itself uncertain, and intervals never take less than what is expected.
    assert planned == pytest.approx(np.mean(widths), rel=0.04 if make is RandomizedResponseEncoder else 0.1)
