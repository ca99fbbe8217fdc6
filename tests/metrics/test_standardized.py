"""Standardized rates from noisy counts: equal to closed forms and to statsmodels, coverage, and refusals."""

import numpy as np
import pytest
from scipy.stats import binom

from skdp.metrics import standardize_from_counts
from tests.errors import refusal
from tests.metrics.counted import add_noise, count_covered, make_counts

SIZES = np.array([[[120, 60], [50, 40]], [[80, 90], [30, 60]], [[30, 70], [90, 150]]])
COUNTS = make_counts(SIZES, age=["20", "40", "60"], drug=["no", "yes"], ill=[0, 1])
RATES = SIZES[:, :, 1] / SIZES.sum(axis=2)
# `StratifiedTable` of statsmodels 0.15.0 for the strata of SIZES: `oddsratio_pooled` with its interval at 0.95, and
# `riskratio_pooled`.
POOLED = [1.2360884, 0.9221475, 1.6569091]
RISK_RATIO = 1.0939633


def estimate(counts=COUNTS, **options):
    return standardize_from_counts(counts, **{"target": "ill", "group": "drug", "by": "age"} | options)


def list_estimates(**options):
    return estimate(**options).set_index("term")["estimate"]


# --- estimates --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("standard", [None, {"20": 5, "40": 3, "60": 2}])
def test_rates_of_strata_are_averaged(standard):
    shares = SIZES.sum(axis=(1, 2)) if standard is None else np.array([5, 3, 2])
    low, high = shares / shares.sum() @ RATES
    found = list_estimates(standard=standard)
    assert found.index.tolist() == [
        "rate: no",
        "rate: yes",
        "rate difference: yes v no",
        "rate ratio: yes v no",
        "odds ratio: yes v no",
    ]
    odds = high / (1 - high) / (low / (1 - low))
    np.testing.assert_allclose(found, [low, high, high - low, high / low, odds])


def test_rates_without_strata_are_proportions():
    low, high = SIZES.sum(axis=0)[:, 1] / SIZES.sum(axis=(0, 2))
    np.testing.assert_allclose(list_estimates(by=None)[:2], [low, high])
    table = estimate(by=None).set_index("term")
    n = SIZES.sum(axis=(0, 2))
    variances = np.array([low, high]) * (1 - np.array([low, high])) / n
    assert table.loc["rate difference: yes v no", "std_error"] == pytest.approx(np.sqrt(variances.sum()))


def test_mantel_haenszel_equals_statsmodels():
    table = estimate(method="mantel_haenszel").set_index("term")
    odds = table.loc["odds ratio: yes v no", ["estimate", "lower", "upper"]]
    np.testing.assert_allclose(odds.astype(float), POOLED, rtol=5e-3)
    assert table.loc["rate ratio: yes v no", "estimate"] == pytest.approx(RISK_RATIO)


def test_model_without_an_interaction_averages_equal_odds_ratios():
    odds = np.exp(np.add.outer([-1, 0, 1], [0, 0.7]))
    sizes = np.array([[400, 100], [300, 300], [100, 500]])[..., np.newaxis]
    counts = make_counts(
        sizes * np.stack([1 / (1 + odds), odds / (1 + odds)], -1), age=[1, 2, 3], drug=[0, 1], ill=[0, 1]
    )
    by_model, by_strata = (
        list_estimates(counts=counts, method=name, design_effect=None) for name in ("model", "strata")
    )
    np.testing.assert_allclose(by_model, by_strata)


@pytest.mark.parametrize("method", ["strata", "mantel_haenszel", "model"])
def test_error_of_noise_adds_squared_derivatives(method):
    options = {"method": method, "design_effect": None}
    base = list_estimates(**options)
    slopes = [
        (list_estimates(counts=COUNTS.assign(count=COUNTS["count"] + step), **options) - base) / 1e-3
        for step in np.eye(len(COUNTS)) * 1e-3
    ]
    errors = estimate(COUNTS.assign(std_error=0.1), **options)["std_error"]
    np.testing.assert_allclose(errors, 0.1 * np.sqrt((np.array(slopes) ** 2).sum(axis=0)), rtol=2e-3)


@pytest.mark.parametrize("method", ["strata", "mantel_haenszel", "model"])
def test_interval_of_many_rows_has_the_width_of_its_standard_error(method):
    many = COUNTS.assign(count=COUNTS["count"] * 100, std_error=20.0)
    row = estimate(many, method=method).set_index("term").loc["rate difference: yes v no"]
    assert (row["upper"] - row["lower"]) / row["std_error"] == pytest.approx(2 * 1.96, rel=0.03)


def test_reference_is_compared_with_all_groups():
    counts = make_counts(np.arange(20, 32), drug=[*"abc"], age=[1, 2], ill=[0, 1])
    terms = estimate(counts, reference={"drug": "b", "ill": 1})["term"]
    assert [term for term in terms if "difference" in term] == ["rate difference: a v b", "rate difference: c v b"]


# --- intervals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["strata", "mantel_haenszel", "model"])
def test_intervals_cover_the_table_and_the_population(method):
    rng = np.random.default_rng(0)
    chances = 1 / (1 + np.exp(1 - np.add.outer([0, 0.5], [0, 0.6])))
    sizes = np.array([[150, 100], [60, 190]])
    true = make_counts(
        sizes[..., np.newaxis] * np.stack([1 - chances, chances], -1), age=[0, 1], drug=[0, 1], ill=[0, 1]
    )
    truth = estimate(true, method=method, design_effect=None)["estimate"]
    found = np.zeros((2, 2))
    for _ in range(12):
        ill = rng.binomial(sizes, chances)
        counts = make_counts(np.stack([sizes - ill, ill], -1), age=[0, 1], drug=[0, 1], ill=[0, 1])
        noisy = add_noise(counts, 1.0, rng)
        own = estimate(counts, method=method, design_effect=None)["estimate"]
        found[0] += count_covered(estimate(noisy, method=method), truth)
        found[1] += count_covered(estimate(noisy, method=method, design_effect=None), own)
    for covered, given in found:
        # The comparisons of a table are about equivalent: one interval a table, at 1e-4.
        assert given >= 36
        assert covered / given >= binom.ppf(1e-4, 12, 0.95) / 12


def test_stratum_with_few_rows_has_no_interval():
    small = SIZES.copy()
    small[0, 1] = 1
    counts = make_counts(small, 2.0, age=["20", "40", "60"], drug=["no", "yes"], ill=[0, 1])
    table = estimate(counts).set_index("term")
    assert table["supported"].tolist() == [True, False, False, False, False]
    assert table.loc["rate: yes", "reason"] == "the noise is too large: a stratum has too few rows"
    assert estimate(counts, method="mantel_haenszel")["supported"].all()


def test_bias_of_many_small_strata_has_no_interval():
    counts = make_counts(np.full((1_000, 2, 2), [4, 9]), 1.0, age=range(1_000), drug=[0, 1], ill=[0, 1])
    table = estimate(counts, design_effect=None)
    assert not table["supported"].any()
    assert table.loc[0, "reason"] == "the noise is too large: its bias is more than half of the error"


def test_rate_of_0_has_an_interval_and_no_ratio():
    sizes = np.array([[200, 0], [180, 30]])
    table = estimate(make_counts(sizes, 1.0, drug=[0, 1], ill=[0, 1]), by=None)
    assert table["supported"].tolist() == [True, True, True, False, False]
    assert table.loc[0, "lower"] == 0
    assert table.loc[3, "reason"] == "the counts do not exclude a rate of 0 or 1"


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"counts": COUNTS.iloc[1:]}, r"^`counts` must have a row for each combination"),
        ({"target": "age", "by": None}, r"^`target` must be a column with two values, got 'age' with 3"),
        ({"counts": COUNTS.loc[:, ["no"], :]}, r"^`group` must be a column with at least two values"),
        ({"by": "drug"}, r"^`group` must be a column of its own"),
        ({"method": "matching"}, r"^`method` must be"),
        ({"standard": {"20": 1}}, r"^`standard` must be a mapping of the values of \['age'\]"),
        ({"standard": {"20": 1, "40": -1, "60": 3}}, r"^`standard` must have numbers of at least 0"),
        ({"standard": {"20": 1}, "method": "mantel_haenszel"}, r"^`standard` must be None"),
        ({"reference": {"drug": "maybe"}}, r"^`reference\['drug'\]` must be a value"),
    ],
)
def test_bad_input_names_the_parameter(options, match):
    with refusal(ValueError, match):
        estimate(**options)
