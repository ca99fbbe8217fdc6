"""Regressions from noisy counts: equal to statsmodels without noise, coverage, and estimates that are refused."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import binom, norm

from skdp import DPGroupBy, DPHistogram, RandomizedResponseEncoder
from skdp.metrics import joint_distribution, regression_from_counts
from tests.errors import refusal
from tests.metrics.counted import add_noise, count_covered, make_counts

SIZES = [40, 12, 9, 31, 20, 8, 25, 30, 16, 28, 18, 20, 22, 33, 17, 9, 41, 23]
COUNTS = make_counts(SIZES, a=[0, 1], x=[0, 1, 2], y=[0, 1, 2])
# `smf.logit`, `mnlogit`, `poisson` and `ols` of statsmodels 0.15.0 for "a + x": coefficients, and the larger of the
# standard errors of the model and of HC0.
LOGISTIC = [-0.7508436, 1.0429737, 0.7012121], [0.2093097, 0.2207220, 0.1363978]
MULTINOMIAL = (
    [-1.2983944, -1.6209534, 0.9762605, 1.1491551, 0.7942891, 0.5507642],
    [0.2427692, 0.2760047, 0.2441707, 0.2781046, 0.1515490, 0.1727900],
)
POISSON = [-0.6370154, 0.4096482, 0.2106222], [0.1196363, 0.1119479, 0.0674686]
EXPOSED = [-1.1192316, 0.4143609], [0.0883883, 0.1119352]
LINEAR = [0.4861018, 0.3379369, 0.1748983], [0.0711757, 0.0735858, 0.0454207]


# The number of a is the same in all rows, so its interaction with x is a multiple of x.
CONSTANT = COUNTS.loc[[1]]


def estimate(counts=COUNTS, target="y", terms=("a", "x"), **options):
    return regression_from_counts(counts, target, [*terms], **{"numeric": "x"} | options)


def binary(counts=COUNTS):
    """Return counts of the responses 0 and larger."""
    table = counts.reset_index().assign(y=lambda rows: (rows["y"] > 0).astype(int))
    return table.groupby(["a", "x", "y"])[["count", "std_error"]].sum()


# --- estimates --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counts", "options", "expected"),
    [
        (binary(), {}, LOGISTIC),
        (COUNTS, {}, MULTINOMIAL),
        (COUNTS, {"model": "poisson"}, POISSON),
        (
            COUNTS.reset_index().assign(x=COUNTS.index.get_level_values("x") + 1),
            {"model": "poisson", "exposure": "x", "terms": ["a"], "numeric": None},
            EXPOSED,
        ),
        (COUNTS, {"model": "linear"}, LINEAR),
    ],
)
def test_estimates_without_noise_equal_statsmodels(counts, options, expected):
    table = estimate(counts, **options)
    np.testing.assert_allclose(table["estimate"], expected[0], atol=1e-6)
    np.testing.assert_allclose(table["std_error"], expected[1], atol=1e-6)
    assert table["supported"].all()
    assert set(table["reason"]) == {""}
    doubled = estimate(counts, **options, design_effect=4)
    np.testing.assert_allclose(doubled["std_error"], 2 * table["std_error"])
    assert (estimate(counts, **options, design_effect=None)["std_error"] == 0).all()


def test_reference_and_interaction_of_a_saturated_table():
    counts = make_counts([30, 20, 12, 40, 25, 25, 9, 60], ward=["A", "B"], drug=[False, True], ill=["no", "yes"])
    options = {"reference": {"ward": "B", "ill": "yes"}}
    table = regression_from_counts(counts, "ill", ["ward", "drug", ("ward", "drug")], **options)
    assert table["term"].tolist() == [
        "(intercept)",
        "ward=A v B",
        "drug=True v False",
        "ward=A v B : drug=True v False",
    ]
    odds = np.log([30 / 20, 12 / 40, 25 / 25, 9 / 60])
    expected = [odds[2], odds[0] - odds[2], odds[3] - odds[2], odds[1] - odds[0] - odds[3] + odds[2]]
    np.testing.assert_allclose(table["estimate"], expected, atol=1e-9)
    assert table["std_error"].iloc[-1] == pytest.approx(np.sqrt((1 / counts["count"]).sum()))


def test_numbers_far_from_zero_are_estimated():
    shifted = COUNTS.reset_index().assign(x=COUNTS.index.get_level_values("x") + 2_000)
    np.testing.assert_allclose(estimate(shifted)["estimate"][2:], MULTINOMIAL[0][2:], atol=1e-6)


@pytest.mark.parametrize("options", [{}, {"model": "poisson"}, {"model": "linear"}])
def test_error_of_noise_adds_squared_derivatives(options):
    base = estimate(**options, design_effect=None)["estimate"].to_numpy()
    slopes = []
    for step in np.eye(len(COUNTS)) * 1e-3:
        moved = estimate(COUNTS.assign(count=COUNTS["count"] + step), **options, design_effect=None)
        slopes.append((moved["estimate"].to_numpy() - base) / 1e-3)
    errors = estimate(COUNTS.assign(std_error=0.5), **options, design_effect=None)["std_error"]
    np.testing.assert_allclose(errors, 0.5 * np.sqrt((np.array(slopes) ** 2).sum(axis=0)), rtol=2e-3)


def test_counts_of_all_tables_are_read():
    rows = pd.DataFrame({"a": [0, 0, 1, 1] * 100, "y": [0, 1, 1, 1] * 100, "z": ["u", "v"] * 200})
    domain = {"a": [0, 1], "y": [0, 1], "z": ["u", "v"]}
    options = {"random_state": 0}
    groups = DPGroupBy(1.0, by=[*domain], keys=domain, statistics="count", **options).fit(rows)
    table = estimate(groups.to_frame(), terms=["a"], numeric=None)
    histogram = DPHistogram(1.0, domain=domain, **options).fit(pl.DataFrame(rows)).to_frame()
    for counts in (histogram, histogram.to_pandas()):
        assert len(estimate(counts, terms=["a"], numeric=None)) == len(table) == 2
    weights = np.full(400, 0.5)
    weighted = DPHistogram(1.0, domain=domain, max_weight=2.0, **options).fit(rows, sample_weight=weights).to_frame()
    assert estimate(weighted, terms=["a"], numeric=None, design_effect=None)["supported"].all()
    with pytest.raises(ValueError, match=r"^`design_effect` must be None, or the largest weight"):
        estimate(weighted, terms=["a"], numeric=None)


# --- intervals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [0.95, 0.99])
def test_endpoints_of_a_difference_of_means_are_the_limits_of_the_score_test(level):
    numbers, std_error = np.array([[30, 20, 10], [5, 4, 9]]), 0.7
    counts = make_counts(numbers, std_error, a=[0, 1], y=[0, 1, 5])
    options = {"model": "linear", "numeric": None, "design_effect": None, "confidence_level": level}
    row = estimate(counts, terms=["a"], **options).iloc[1]
    sizes, y = numbers.sum(axis=1), np.array([0, 1, 5])
    # The score for a difference of means that is larger by an error, and its derivatives by the counts.
    weights = np.array([-sizes[1], sizes[0]]) / sizes.sum()

    def find_slopes(error):
        means = numbers @ y / sizes + error * weights
        return weights[:, np.newaxis] * (y - means[:, np.newaxis])

    quantiles = []
    for end in (row["lower"], row["upper"]):
        slopes = find_slopes(end - row["estimate"])
        quantiles.append(abs((slopes * numbers).sum()) / std_error / np.sqrt((slopes**2).sum()))
    slopes, z = find_slopes(0), norm.ppf((1 + level) / 2)
    kurtosis = (3 + 1 / std_error**2) * (slopes**4).sum() / (slopes**2).sum() ** 2
    np.testing.assert_allclose(quantiles, z + kurtosis * (z**3 - 3 * z) / 24)


@pytest.mark.parametrize(("level", "epsilon"), [(0.95, 0.7), (0.99, 3.0)])
def test_intervals_cover_the_table_and_the_population(level, epsilon):
    rng = np.random.default_rng(0)
    a, x = np.indices((2, 3))
    chance = 1 / (1 + np.exp(1 - 0.6 * a - 0.4 * x))
    truth = [-1, 0.6, 0.4]
    sizes = rng.multinomial(400, np.full(6, 1 / 6), size=15).reshape(-1, 2, 3)
    found = np.zeros((2, 2))
    for size in sizes:
        ill = rng.binomial(size, chance)
        counts = make_counts(np.stack([size - ill, ill], -1), a=[0, 1], x=[0, 1, 2], y=[0, 1])
        noisy, options = add_noise(counts, epsilon, rng), {"confidence_level": level}
        own = estimate(counts, design_effect=None)["estimate"]
        found[0] += count_covered(estimate(noisy, **options), truth)
        found[1] += count_covered(estimate(noisy, design_effect=None, **options), own)
    for covered, given in found:
        assert given > 30
        # Three coefficients of a table are dependent: a third of the intervals, at 1e-4.
        assert covered / given >= binom.ppf(1e-4, given // 3, level) / (given // 3)


def test_separated_category_has_no_interval():
    counts = make_counts([200, 180, 90, 1], 2.0, a=[0, 1], y=[0, 1])
    table = estimate(counts, terms=["a"], numeric=None)
    assert table["supported"].tolist() == [True, False]
    assert table.loc[1, "reason"] == "the counts do not exclude an infinite coefficient"
    assert table.loc[1, ["estimate", "std_error", "lower", "upper", "p_value"]].isna().all()


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_noise_that_one_in_forty_empty_cells_has_gives_no_interval(epsilon):
    stay = np.exp(-epsilon)
    error = np.sqrt(2 * stay) / (1 - stay)

    def is_supported(n):
        counts = make_counts([299, 199, 104, n], error, a=[0, 1], y=[0, 1])
        return estimate(counts, terms=["a"], numeric=None)["supported"].iloc[1]

    # The probability of noise of at least n.
    smallest = next(n for n in range(30) if stay**n / (1 + stay) <= 0.025)
    assert not is_supported(smallest - 1)
    assert is_supported(2 * smallest + 4)


def test_more_noise_than_information_has_no_interval():
    counts = make_counts([300, 250, 9, 8], 6.0, a=[0, 1], y=[0, 1])
    table = estimate(counts, terms=["a"], numeric=None)
    assert table["supported"].tolist() == [True, False]
    assert table.loc[1, "reason"].startswith("the noise is too large")


def test_value_is_excluded_only_without_a_root():
    sizes = [300, 250, 200, 260, 1, 1]
    small = make_counts(sizes, 2.0, a=["p", "q", "r"], y=[0, 1])
    assert len(estimate(small, terms=["a"], numeric=None)) == 3
    negative = make_counts([*sizes[:4], 3, -4], 2.0, a=["p", "q", "r"], y=[0, 1])
    table = estimate(negative, terms=["a"], numeric=None)
    assert table["term"].tolist() == ["(intercept)", "a=q v p", "a=r"]
    assert table["supported"].tolist() == [True, True, False]
    assert table.loc[2, "reason"] == "the noise is too large: the rows of this value are excluded"
    first = estimate(negative, terms=["a"], numeric=None, reference={"a": "r"})
    assert first["term"].tolist() == ["(intercept)", "a=q v p", "a=r"]


def test_noise_without_rows_has_no_interval():
    counts = add_noise(make_counts(np.zeros(12), a=[0, 1], x=[0, 1, 2], y=[0, 1]), 1.0, np.random.default_rng(0))
    assert not estimate(counts)["supported"].any()


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"counts": COUNTS.iloc[1:]}, r"^`counts` must have a row for each combination.*missing cells"),
        ({"counts": COUNTS.drop(columns="std_error")}, r"^`counts` must have the columns"),
        ({"target": "z"}, r"^`counts` must have the columns"),
        ({"counts": COUNTS.assign(std_error=np.inf)}, r"^`counts` must have finite counts"),
        ({"terms": []}, r"^`terms` must be distinct columns"),
        ({"terms": ["a", "x", ("x", "a"), ("a", "x")]}, r"^`terms` must be distinct columns"),
        ({"terms": ["a"]}, r"^`numeric` must be columns among the terms"),
        ({"terms": ["a", "x", ("a", "a")]}, r"^`terms` must be distinct columns"),
        (
            {"terms": ["x", ("a", "x")], "numeric": ["a", "x"], "counts": CONSTANT},
            r"^`terms` must be linearly",
        ),
        ({"terms": ["a", "y"], "numeric": None}, r"^`target` must be a column of its own, got 'y'"),
        ({"model": "probit"}, r"^`model` must be"),
        ({"reference": {"a": 7}}, r"^`reference\['a'\]` must be a value of column 'a'.*got 7"),
        ({"reference": {"b": 7}}, r"^`reference` must have keys among the columns"),
        ({"exposure": "x", "terms": ["a"], "numeric": None}, r"^`exposure` must be None for model='logistic'"),
        (
            {"exposure": "x", "terms": ["a"], "numeric": None, "model": "poisson"},
            r"^`exposure` must be a column of positive numbers, got 'x' with 0",
        ),
        (
            {"counts": COUNTS.rename(index={0: "none"}, level="y"), "model": "linear"},
            r"^`target` must be the name of a column of numbers",
        ),
        ({"counts": COUNTS.rename(index={0: -1}, level="y"), "model": "poisson"}, r"^`target` must have numbers of"),
        ({"counts": COUNTS.loc[:, [0], :]}, r"^`terms` must be"),
        ({"counts": COUNTS.loc[:, :, [0]]}, r"^`target` must be a column with at least two values"),
        ({"design_effect": -1}, r"^`design_effect` must be a number >= 0"),
    ],
)
def test_bad_input_names_the_parameter(options, match):
    with refusal(ValueError, match):
        estimate(**options)


def test_reference_that_is_no_mapping_is_refused():
    with refusal(TypeError, r"^`reference` must be a mapping of columns to values"):
        estimate(reference="a")


def test_reports_are_refused():
    rows = pd.DataFrame({"a": [0, 1] * 50, "y": [0, 1, 1, 1] * 25})
    encoder = RandomizedResponseEncoder(1.0, categories=[[0, 1]], random_state=0)
    counts = joint_distribution(rows["y"], rows["y"], encoder.fit_transform(rows[["a"]]), encoder)
    with pytest.raises(ValueError, match=r"^`counts` must have true values, got reports of \['a'\]"):
        regression_from_counts(counts, "y_true", "a")
