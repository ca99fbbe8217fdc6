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
    HadamardResponseEncoder,
    Interval,
    LocalHashingEncoder,
    LocalTableEncoder,
    NumericPerturber,
    PrivacyLedger,
    RandomizedResponseEncoder,
    SubsetSelectionEncoder,
    UnaryEncodingTransformer,
    plan_epsilon,
)
from skdp.evaluation import EpsilonPlan, PlanDisplay
from skdp.metrics import debiased_fairness
from skdp.metrics.private_groups._planned_parity import indicator_variances, parity_half_width
from skdp.oracles import (
    CountMeanSketch,
    HadamardResponse,
    LocalHashing,
    RandomizedResponse,
    SubsetSelection,
    UnaryEncoding,
)
from skdp.privacy import Mu, Rho, Shuffled
from skdp.randomness import SeededSource
from tests.conftest import each

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


def test_the_least_epsilon_of_a_frequency_is_that_of_the_closed_form():
    encoder = RandomizedResponseEncoder(categories={"sex": SEX})
    plan = plan_epsilon(encoder, within=0.02, of="frequency", n_rows=20_000)

    def half_width(epsilon):
        p = math.exp(epsilon) / (1 + math.exp(epsilon))
        return 1.959964 * math.sqrt(p * (1 - p) / 20_000) / (2 * p - 1)

    assert half_width(plan.epsilon) <= 0.02 < half_width(0.99 * plan.epsilon)
    assert plan.half_width == pytest.approx(half_width(plan.epsilon), rel=1e-6)
    curve = plan.curve
    assert curve["half_width"].tolist() == pytest.approx([half_width(one) for one in curve["epsilon"]], rel=1e-6)
    assert not hasattr(encoder, "protocol_"), "the estimator itself is left unfitted"


def test_rows_are_the_least_that_are_enough():
    encoder = RandomizedResponseEncoder(categories={"sex": SEX})
    plan = plan_epsilon(encoder, within=0.02, of="frequency", epsilon=1.0)
    p = math.e / (1 + math.e)
    needed = (1.959964 / 0.02) ** 2 * p * (1 - p) / (2 * p - 1) ** 2
    assert plan.n_rows == math.ceil(needed)
    assert plan.epsilon == 1.0
    assert plan.curve.columns.tolist() == ["n_rows", "half_width"]
    assert str(plan).startswith("epsilon = 1 and 8,842 rows are enough for a frequency within ± 0.02 (95 % interval")


@pytest.mark.parametrize("strategy", ["split", "joint", "sample"])
def test_the_half_width_is_that_of_the_estimates(strategy):
    encoder = FrequencyOracleEncoder(2.0, categories=VALUES, strategy=strategy, random_state=0)
    columns = None if strategy == "joint" else ["sex", "job"]
    plan = plan_epsilon(encoder, within=300, n_rows=20_000, share=0.3, columns=columns)
    table = people(20_000)[["sex", "job"]]
    if strategy == "joint":
        table["job"] = table["job"].where(table["sex"] == "M", JOB[0])  # the first combination has the share
    released = encoder.set_params(epsilon=plan.epsilon).fit_transform(table)
    found = encoder.estimate_counts(released)
    first = found.iloc[[0]] if strategy == "joint" else found.loc[[("sex", "F"), ("job", JOB[0])]]
    widest = ((first["upper"] - first["lower"]) / 2).max()
    assert widest == pytest.approx(plan.half_width, rel=0.03)
    assert plan.half_width <= 300


def test_columns_of_joint_reports_are_margins():
    encoder = FrequencyOracleEncoder(categories=VALUES, strategy="joint", oracle="subset_selection", random_state=0)
    plan = plan_epsilon(encoder, within=400, n_rows=10_000, columns="sex", share=0.3)
    table = people(10_000)[["sex", "job"]]
    reports = encoder.set_params(epsilon=plan.epsilon).fit_transform(table)
    row = encoder.estimate_counts(reports, columns=["sex"]).iloc[0]
    assert (row["upper"] - row["lower"]) / 2 == pytest.approx(plan.half_width, rel=0.03)


@pytest.mark.long
def test_a_table_of_reports():
    encoder = LocalTableEncoder(categories=VALUES, bounds={"age": (0, 100)}, strategy="sample", random_state=0)
    plan = plan_epsilon(encoder, within=700, n_rows=20_000, share=0.3, columns="job")
    encoder.set_params(epsilon=plan.epsilon)
    found = encoder.estimate_counts(encoder.fit_transform(people(20_000))).loc[("job", JOB[0])]
    assert (found["upper"] - found["lower"]) / 2 == pytest.approx(plan.half_width, rel=0.05)


@pytest.mark.parametrize("epsilon", [1.0, Rho(0.1, 1e-6), Mu(0.5, 1e-6)])
def test_the_half_width_of_a_histogram_is_that_of_its_frame(epsilon):
    histogram = DPHistogram(epsilon, domain={"sex": SEX}, random_state=0)
    plan = plan_epsilon(histogram, within=130, n_rows=N, share=0.3)
    assert type(plan.epsilon) is type(epsilon)
    histogram.set_params(epsilon=plan.epsilon).fit(people()[["sex"]])
    row = histogram.to_frame().iloc[0]
    assert (row["upper"] - row["lower"]) / 2 == pytest.approx(plan.half_width, abs=2)
    assert plan.half_width <= 130


def test_a_hierarchy_and_frequencies_of_a_histogram():
    ages = DPHistogram(domain={"age": Interval(0, 100, bins=64)}, method="hierarchical", random_state=0)
    plan = plan_epsilon(ages, within=30)
    row = ages.set_params(epsilon=plan.epsilon).fit(people()[["age"]]).to_frame()
    assert ((row["upper"] - row["lower"]) / 2).max() == plan.half_width <= 30
    rows = plan_epsilon(DPHistogram(domain={"sex": SEX}), within=0.001, of="frequency", epsilon=0.5)
    assert rows.n_rows == 6_000


@pytest.mark.parametrize("rows", ["sampled", "fixed"])
def test_the_half_width_of_a_parity_difference_is_that_of_debiased_fairness(rows):
    encoder = RandomizedResponseEncoder(categories=VALUES, random_state=0)
    options = {"of": "parity", "columns": "sex", "privileged": "M", "share": 0.7, "rates": (0.2, 0.4), "rows": rows}
    plan = plan_epsilon(encoder, within=0.06, n_rows=20_000, **options)
    table = people(20_000)[["sex", "job"]]
    hired = np.random.default_rng(1).random(20_000) < np.where(table["sex"] == "M", 0.4, 0.2)
    reports = encoder.set_params(epsilon=plan.epsilon).fit_transform(table)
    found = debiased_fairness(
        hired, hired, reports, encoder, columns="sex", privileged="M", positive_label=True, rows=rows
    ).iloc[6]
    assert (found["upper"] - found["lower"]) / 2 == pytest.approx(plan.half_width, rel=0.05)
    more = plan_epsilon(encoder, within=0.06, epsilon=plan.epsilon, **options)
    assert more.n_rows == pytest.approx(20_000, rel=0.02)


ORACLES = [
    RandomizedResponse(5, 1.0),
    SubsetSelection(5, 1.0),
    UnaryEncoding(5, 1.0),
    LocalHashing(5, 1.0),
    HadamardResponse(5, 3.0),
]


@each("oracle", ORACLES)
def test_the_variances_of_the_indicators_of_a_group(oracle):
    inside = np.array([True, False, True, False, False])
    expected = indicator_variances(oracle, inside)
    for values, variance in zip((np.flatnonzero(~inside), np.flatnonzero(inside)), expected, strict=True):
        codes = np.tile(values, 12_000).astype(np.uint32)
        vectors = oracle.unbiased(oracle.report(codes, SeededSource(0)))
        vectors += (1 - vectors.sum(axis=1, keepdims=True)) / oracle.k
        indicators = vectors[:, inside].sum(axis=1) - inside[codes]
        # Hash functions are nearly pairwise independent, so that two values other than the true one are correlated.
        assert np.mean(indicators**2) == pytest.approx(variance, rel=0.1 if oracle.shows_hash else 0.04)


def test_what_has_no_variances_of_groups_is_refused():
    with pytest.raises(ValueError, match="not known for CountMeanSketch of 50 values"):
        indicator_variances(CountMeanSketch(50, 1.0), np.arange(50) < 2)


def curve_of(losses, *, spread=0.002):
    """Make a curve with given losses of the mean score at epsilons 1, 2, 4, …"""
    rows = [(math.inf, repeat, 0, "roc_auc", "all", 0.9 + 0.01 * repeat) for repeat in range(4)]
    for power, loss in enumerate(losses):
        noise = spread * np.array([-1.5, -0.5, 0.5, 1.5])
        rows += [(2.0**power, place, 0, *rows[place][3:5], rows[place][5] - loss + noise[place]) for place in range(4)]
    curve = pd.DataFrame(rows, columns=["epsilon", "repeat", "fold", "metric", "group", "value"])
    return curve.assign(n_train=400, n_test=100)


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


def test_what_a_curve_does_not_reach():
    with pytest.raises(ValueError, match=r"no epsilon of the curve is enough: the closest roc_auc is 0.04"):
        plan_epsilon(curve_of([0.1, 0.04]), within=0.01, of="roc_auc")
    plan = plan_epsilon(curve_of([0.1, 0.04]), within=0.0405, of="roc_auc")
    assert plan.epsilon_range[1] == math.inf
    assert "to more than was tried" in str(plan)
    with pytest.raises(ValueError, match="of must be a metric of the curve, one of"):
        plan_epsilon(curve_of([0.1, 0.04]), within=0.01, of="accuracy")
    with pytest.raises(ValueError, match="no baseline"):
        plan_epsilon(curve_of([0.1, 0.04]).query("epsilon < 9"), within=0.01, of="roc_auc")
    with pytest.raises(ValueError, match="at two epsilons or more"):
        plan_epsilon(curve_of([0.1]), within=0.01, of="roc_auc")
    for name, value in {"n_rows": 9, "epsilon": 1.0, "columns": "age", "share": 0.5}.items():
        with pytest.raises(ValueError, match=f"{name} is not for a curve of scores"):
            plan_epsilon(curve_of([0.1, 0.04]), within=0.0405, of="roc_auc", **{name: value})
    once = plan_epsilon(curve_of([0.1, 0.04]).query("repeat == 0"), within=0.05, of="roc_auc")
    assert once.epsilon_range == (1, math.inf), "a single pair has no interval"


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


@each(
    "source, options, error, message",
    [
        (
            RandomizedResponseEncoder(),
            {"n_rows": 9},
            TypeError,
            "categories of RandomizedResponseEncoder must be a map",
        ),
        (NumericPerturber(), {"n_rows": 9}, TypeError, "an encoder of categories or tables, or a DPHistogram, got Num"),
        (RandomizedResponseEncoder, {"n_rows": 9}, TypeError, "got the class RandomizedResponseEncoder"),
        (None, {"n_rows": 9}, TypeError, "got NoneType"),
        (RandomizedResponseEncoder(categories=VALUES), {}, ValueError, "of='count' needs n_rows$"),
        (RandomizedResponseEncoder(categories=VALUES), {"n_rows": 9, "epsilon": 1.0}, ValueError, "both given"),
        (RandomizedResponseEncoder(categories=VALUES), {"epsilon": 1.0}, ValueError, "does not fall with the number"),
        (RandomizedResponseEncoder(categories=VALUES), {"n_rows": 0}, ValueError, "n_rows must be an integer of at"),
        (RandomizedResponseEncoder(categories=VALUES), {"n_rows": 9, "of": "mean"}, ValueError, "of must be one of"),
        (
            RandomizedResponseEncoder(categories=VALUES),
            {"n_rows": 9, "within": 0},
            ValueError,
            "within must be a finite",
        ),
        (RandomizedResponseEncoder(categories=VALUES), {"n_rows": 9, "share": 2}, ValueError, "share must be a number"),
        (RandomizedResponseEncoder(categories=VALUES), {"n_rows": 9, "columns": "age"}, ValueError, "columns must be"),
        (RandomizedResponseEncoder(categories=VALUES), {"n_rows": 9, "columns": [["age"]]}, ValueError, "columns must"),
        (
            RandomizedResponseEncoder(categories=VALUES),
            {"n_rows": 9, "rates": 5},
            ValueError,
            "rates must be two numbers",
        ),
        (RandomizedResponseEncoder(categories=VALUES), {"n_rows": 9, "rates": (0.5,)}, ValueError, "rates must be two"),
        (RandomizedResponseEncoder(categories=VALUES), {"n_rows": 9, "of": "frequency"}, ValueError, "must be below 1"),
        (
            RandomizedResponseEncoder(categories=VALUES),
            {"n_rows": 9, "of": "parity", "within": 0.1},
            ValueError,
            "needs `privileged`, its values, and `share`,",
        ),
        (RandomizedResponseEncoder(categories=VALUES), {"n_rows": 9, "rows": "a"}, ValueError, "rows must be one of"),
        (RandomizedResponseEncoder(categories=VALUES), {"epsilon": -1}, ValueError, "epsilon must be"),
        (DPHistogram(domain=VALUES), {"of": "parity", "n_rows": 9}, TypeError, "planned for an encoder of categories"),
    ],
)
def test_refusals(source, options, error, message):
    with pytest.raises(error, match=message):
        plan_epsilon(source, **{"within": 50, **options})


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


def test_the_display_draws_the_curve_and_the_plan():
    pytest.importorskip("matplotlib")
    plan = plan_epsilon(RandomizedResponseEncoder(categories={"sex": SEX}), within=100, n_rows=N)
    axes = PlanDisplay.from_plan(plan).axes_[0]
    curve, wanted, found = axes.lines
    assert curve.get_ydata().tolist() == plan.curve["half_width"].tolist()
    assert set(wanted.get_ydata()) == {100}
    assert (found.get_xdata()[0], found.get_ydata()[0]) == (plan.epsilon, plan.half_width)
    scores = PlanDisplay.from_plan(plan_epsilon(curve_of([0.1, 0.05, 0.01]), within=0.03, of="roc_auc")).axes_[0]
    assert scores.get_ylabel() == "roc_auc: distance to no privacy"
    assert len(scores.collections) == 1
    once = plan_epsilon(curve_of([0.1, 0.04]).query("repeat == 0"), within=0.05, of="roc_auc")
    PlanDisplay.from_plan(once).figure_.canvas.draw()
    rows = plan_epsilon(DPHistogram(domain={"sex": SEX}), within=0.001, of="frequency", epsilon=0.5)
    assert PlanDisplay.from_plan(rows).axes_[0].get_xlabel() == "rows"
    with pytest.raises(TypeError, match="plan must be an EpsilonPlan, got dict"):
        PlanDisplay({})


def test_a_plan_as_html():
    plan = plan_epsilon(DPHistogram(Mu(1.0, 1e-6), domain={"sex": SEX}), within=20)
    assert isinstance(plan, EpsilonPlan)
    assert "count within 20" in plan._repr_html_()
    assert str(plan).startswith("Mu(mu=0.106, delta=1e-06) is enough for a count within ± 20")


def count_cases():
    """Name 16 estimators of counts, with what is asked of them."""
    both, sex = dict(VALUES), {"sex": SEX}
    yield "randomised response", RandomizedResponseEncoder(categories=sex), {}
    yield "of six values", RandomizedResponseEncoder(categories={"job": JOB}), {}
    yield "split", RandomizedResponseEncoder(categories=both), {"columns": "job"}
    yield "joint margin", FrequencyOracleEncoder(categories=both, strategy="joint"), {"columns": "sex"}
    yield "sample", FrequencyOracleEncoder(categories=both, strategy="sample"), {"columns": "job"}
    yield "subset selection", SubsetSelectionEncoder(categories={"job": JOB}), {}
    yield "unary encoding", UnaryEncodingTransformer(categories={"job": JOB}), {}
    yield "hashing", LocalHashingEncoder(categories={"job": JOB}), {}
    yield "Hadamard", HadamardResponseEncoder(categories={"job": JOB}), {}
    yield "shuffled", RandomizedResponseEncoder(Shuffled(1.0, 1e-6, N), categories=sex), {}
    yield "table", LocalTableEncoder(categories=both, bounds={"age": (0, 100)}), {"columns": "sex"}
    yield "90 %", RandomizedResponseEncoder(categories=sex), {"confidence_level": 0.9}
    yield "histogram", DPHistogram(domain=sex), {"within": 20}
    yield "Gaussian", DPHistogram(Mu(1.0, 1e-6), domain=sex), {"within": 20}
    yield "rho", DPHistogram(Rho(1.0, 1e-6), domain=both), {"within": 20}


@pytest.mark.long
@pytest.mark.parametrize("case", [*count_cases()], ids=lambda case: case[0])
def test_planned_counts_cover(case):
    _, estimator, options = case
    options = {"within": 200, "share": 0.3, "n_rows": N, "confidence_level": 0.95, **options}
    plan = plan_epsilon(estimator, **options)
    level = options["confidence_level"]
    widths, covered, close = [], [], []
    for seed in range(200):
        table = people(seed=seed)
        estimator.set_params(epsilon=plan.epsilon, random_state=seed)
        if isinstance(estimator, DPHistogram):
            table = table[list(estimator.domain)]
            found = estimator.fit(table).to_frame(confidence_level=level).iloc[0]
            truth = (table == [SEX[0], JOB[0]][: table.shape[1]]).all(axis=1).sum()
        else:
            bounds = getattr(estimator, "bounds", None) or {}
            table = table[[*estimator.categories, *bounds]]
            (column,) = [options["columns"]] if "columns" in options else estimator.categories
            reports = estimator.fit_transform(table)
            if getattr(estimator, "strategy", "") == "joint":
                found = estimator.estimate_counts(reports, columns=[column], confidence_level=level)
            else:
                found = estimator.estimate_counts(reports, confidence_level=level)
            found = found.loc[(column, estimator.categories[column][0])] if found.index.nlevels > 1 else found.iloc[0]
            truth = (table[column] == estimator.categories[column][0]).sum()
        widths.append((found["upper"] - found["lower"]) / 2)
        covered.append(found["lower"] <= truth <= found["upper"])
        close.append(abs(found["count"] - truth) <= options["within"])
    print(f"{case[0]:20} {plan.epsilon!s:40} {np.mean(widths):7.1f} {np.mean(covered):.3f} {np.mean(close):.3f}")
    least = level - 3 * math.sqrt(level * (1 - level) / 200)
    assert np.mean(covered) >= least
    assert np.mean(close) >= least
    assert np.mean(widths) == pytest.approx(plan.half_width, rel=0.03)


def parity_cases():
    """Name 4 encoders of groups, with what is asked of them."""
    yield "sex", RandomizedResponseEncoder(categories={"sex": SEX}), {"privileged": "M", "share": 0.7}
    yield (
        "fixed",
        RandomizedResponseEncoder(categories={"sex": SEX}),
        {"privileged": "M", "share": 0.7, "rows": "fixed"},
    )
    jobs = {"privileged": JOB[1:], "share": 0.7}
    yield "jobs", SubsetSelectionEncoder(categories={"job": JOB}), jobs
    yield "Hadamard", HadamardResponseEncoder(categories={"job": JOB}), jobs


@pytest.mark.long
@pytest.mark.parametrize("case", [*parity_cases()], ids=lambda case: case[0])
def test_planned_parity_differences_cover(case):
    _, encoder, options = case
    rates, within = (0.2, 0.4), 0.12
    plan = plan_epsilon(encoder, within=within, of="parity", n_rows=N, rates=rates, **options)
    own = {name: value for name, value in options.items() if name != "share"}
    (column,) = encoder.categories
    widths, covered, close = [], [], []
    for seed in range(200):
        table = people(seed=seed)[[column]]
        privileged = table[column].isin(np.ravel(options["privileged"])).to_numpy()
        hired = np.random.default_rng(seed).random(N) < np.where(privileged, rates[1], rates[0])
        truth = hired[~privileged].mean() - hired[privileged].mean() if "rows" in options else rates[0] - rates[1]
        reports = encoder.set_params(epsilon=plan.epsilon, random_state=seed).fit_transform(table)
        found = debiased_fairness(hired, hired, reports, encoder, positive_label=True, **own).iloc[6]
        widths.append((found["upper"] - found["lower"]) / 2)
        covered.append(found["lower"] <= truth <= found["upper"])
        close.append(abs(found["value"] - truth) <= within)
    print(
        f"parity, {case[0]:12} {plan.epsilon!s:40} {np.mean(widths):7.4f} {np.mean(covered):.3f} {np.mean(close):.3f}"
    )
    assert np.mean(covered) >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / 200)
    assert np.mean(close) >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / 200)
    assert np.mean(widths) == pytest.approx(plan.half_width, rel=0.05)


@each("epsilon", [1.0, 3.0])
@each("make", [RandomizedResponseEncoder, UnaryEncodingTransformer])
def test_a_planned_parity_difference_has_the_noise_that_intervals_of_few_given_rows_add(make, epsilon):
    """Of 300 rows with four selected, the planned intervals were 6 % shorter than those of reports, at 3 a third."""
    sex = np.repeat(["M", "F"], 150)
    hired = np.arange(300) % 150 < 2
    encoder = make(epsilon, categories={"sex": ["F", "M"]})
    widths = []
    for seed in range(8):
        reports = encoder.set_params(random_state=seed).fit_transform(pd.DataFrame({"sex": sex}))
        found = debiased_fairness(
            hired, hired, reports, encoder, positive_label=True, privileged="M", rows="fixed"
        ).iloc[6]
        widths.append((found["upper"] - found["lower"]) / 2)
    planned = parity_half_width(encoder, 300, privileged="M", share=0.5, rates=(2 / 150, 2 / 150), rows="fixed")
    # The noise of four reports of bits is itself uncertain, and intervals never take less than what is expected.
    assert planned == pytest.approx(np.mean(widths), rel=0.04 if make is RandomizedResponseEncoder else 0.1)


def test_what_is_shuffled_has_the_reports_that_its_guarantee_needs():
    """With fewer the epsilon of `Shuffled` does not hold."""
    encoder = RandomizedResponseEncoder(Shuffled(1.0, 1e-6, 50_000), categories={"sex": ["F", "M"]})
    plan = plan_epsilon(encoder, of="frequency", within=0.05, epsilon=0.5)
    assert plan.n_rows == 50_000
    assert plan.half_width <= 0.05
    with pytest.raises(ValueError, match="n_rows must be at least 50,000, the number of reports of Shuffled"):
        plan_epsilon(encoder, of="frequency", within=0.05, n_rows=49_999)
