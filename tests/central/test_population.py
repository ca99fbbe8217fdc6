"""Intervals for a population, of which the rows are a sample: ``design_effect``."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom
from sklearn.base import clone

from skdp import DPGroupBy, DPHistogram, DPMean
from skdp.central import compare_groups
from skdp.metrics import grade_estimates
from skdp.privacy import Mu

N_DRAWS = 10
BY = {"by": "g", "keys": {"g": ["a", "b"]}}


@pytest.fixture(scope="module")
def population():
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"g": np.where(rng.random(200_000) < 0.2, "a", "b")})
    people["x"] = rng.lognormal(5, 0.5, 200_000).clip(0, 1000)
    people["yes"] = (rng.random(200_000) < np.where(people["g"] == "a", 0.1, 0.4)) * 1.0
    return people


def check_coverage(is_covered, level):
    """Fail for fewer or more intervals that cover than at the levels 0.93 and 0.99, with a false-alarm rate of 1e-6."""
    is_covered = np.asarray(is_covered)
    assert is_covered.sum() >= binom.ppf(1e-6, is_covered.size, level - 0.02)


def draw_tables(population, model, n, columns, **options):
    """Release tables of samples for a population, and for the rows."""
    for seed in range(N_DRAWS):
        model.set_params(random_state=seed).fit(population.sample(n, random_state=seed)[columns])
        yield model.to_frame(**options), model.to_frame()


@pytest.mark.parametrize(("epsilon", "n", "level"), [(0.5, 1000, 0.99), (50, 2000, 0.95)])
def test_intervals_of_groups_cover_the_numbers_of_a_population(epsilon, n, level, population):
    groups = population.groupby("g")
    fractions = groups.size() / len(population)
    true = {"count": n * fractions, "x_mean": groups["x"].mean(), "x_sum": n * fractions * groups["x"].mean()}
    true |= {"x_std": groups["x"].std(), "x_median": groups["x"].median()}
    statistics = ["count", "mean", "sum", "std", "median"]
    model = DPGroupBy(epsilon, bounds=(0.0, 1000.0), statistics=statistics, confidence_level=level, **BY)
    covered = {name: [] for name in true}
    for found, table in draw_tables(population, model, n, ["g", "x"], design_effect=1.0):
        for name, numbers in true.items():
            covered[name] += ((found[f"{name}_lower"] <= numbers) & (numbers <= found[f"{name}_upper"])).tolist()
            assert (found[f"{name}_lower"] <= table[f"{name}_lower"]).all()
            assert found[name].equals(table[name])
    for is_covered in covered.values():
        check_coverage(is_covered, level)


@pytest.mark.parametrize("epsilon", [1.0, Mu(0.5, delta=1e-6)])
def test_shares_and_proportions_cover_the_numbers_of_a_population(epsilon, population):
    shares = population["g"].value_counts(normalize=True)
    histogram = DPHistogram(epsilon, domain={"g": ["a", "b"]})
    mean = DPMean(epsilon, bounds={"yes": (0, 1)})
    covered, missed = [], 0
    for found, table in draw_tables(population, histogram, 2000, ["g"], design_effect=1.0):
        counts = 2000 * shares[found.index]
        covered += ((found["lower"] <= counts) & (counts <= found["upper"])).tolist()
        missed += ((table["upper"] < counts) | (counts < table["lower"])).sum()
    check_coverage(covered, 0.95)
    assert missed > N_DRAWS
    covered = []
    for found, _ in draw_tables(population, mean, 2000, ["yes"], design_effect=1.0):
        covered.append(found.loc["yes", "lower"] <= population["yes"].mean() <= found.loc["yes", "upper"])
    check_coverage(covered, 0.95)


def test_sampling_errors_equal_the_formulas_without_noise(population):
    rows = population.head(5000)
    model = DPGroupBy(1e6, bounds=(0.0, 1000.0), statistics=["count", "mean", "std"], **BY).fit(rows[["g", "x"]])
    found = model.to_frame(design_effect=1.5)
    x = rows.groupby("g")["x"]
    expected = np.sqrt(1.5 * x.var() / x.size())
    np.testing.assert_allclose(found["x_mean_std_error"], expected, rtol=1e-3)
    p = x.size() / 5000
    np.testing.assert_allclose(found["count_std_error"], np.sqrt(1.5 * 5000 * p * (1 - p)), rtol=1e-2)
    histogram = DPHistogram(1e6, domain={"x": range(4)}).fit(pd.DataFrame({"x": [0] * 40 + [1] * 60 + [2] * 100}))
    estimate = histogram.range_estimate(1, 3, design_effect=1)
    assert estimate.value == 160
    assert estimate.std_error == pytest.approx(np.sqrt(200 * 0.8 * 0.2), rel=1e-3)


def test_design_effect_of_none_and_zero_is_the_table(population):
    model = DPGroupBy(1.0, bounds=(0.0, 1000.0), random_state=0, **BY).fit(population[["g", "x"]].head(1000))
    pd.testing.assert_frame_equal(model.to_frame(design_effect=0), model.to_frame())


def test_weights_persons_and_totals_increase_the_sampling_error(population):
    rows = population.head(3000)
    errors = []
    for options in ({}, {"max_weight": 4.0}, {"max_rows_per_person": 4}):
        weights = np.ones(3000) if "max_weight" in options else None
        model = DPGroupBy(1e6, bounds=(0.0, 1000.0), statistics=["count", "mean", "std"], totals=True, **options, **BY)
        found = model.fit(rows[["g", "x"]], sample_weight=weights).to_frame(design_effect=1)
        errors.append(found["x_mean_std_error"].to_numpy())
        assert found.loc["total", "count_std_error"] < 5
    np.testing.assert_allclose(errors[1], 2 * errors[0], rtol=0.01)
    np.testing.assert_allclose(errors[2], 2 * errors[0], rtol=0.01)


def test_counts_of_found_keys_include_their_sampling_error(population):
    model = DPGroupBy(1.0, delta=1e-6, by="g", keys="auto", statistics="count", random_state=0)
    model.fit(population[["g"]].head(3000))
    found = model.to_frame(design_effect=1)
    np.testing.assert_allclose(found["count_std_error"], np.sqrt(found["count"] + 2), rtol=0.01)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_letters_grade_the_error_of_the_population(library, population):
    rows = population.loc[population["x"] < 150, ["g", "x"]].head(60)
    model = DPGroupBy(20.0, bounds=(0.0, 1000.0), statistics=["count", "mean", "std"], random_state=0, **BY).fit(rows)
    letters = [grade_estimates(model.to_frame(design_effect=effect))["count_quality"]["a"] for effect in (None, 1)]
    assert letters == ["A", "E"]


@pytest.mark.parametrize(
    ("statistics", "options", "message"),
    [
        (["count", "mean"], {}, r"`statistics` must contain 'std' for the sampling error of \['x'\], got"),
        (["sum", "median"], {}, "`statistics` must contain 'std'"),
        ("median", {}, "`statistics` must contain 'count'"),
        (["count", "median"], {"intervals": False}, "`intervals` must be True"),
        (["count", "median"], {"confidence_level": 0.4}, "`confidence_level` at least 0.5"),
    ],
)
def test_statistics_without_sampling_variances_are_errors(statistics, options, message, population):
    model = DPGroupBy(bounds=(0.0, 1000.0), statistics=statistics, **options, **BY).fit(population[["g", "x"]][:9])
    with pytest.raises(ValueError, match=message):
        model.to_frame(design_effect=1)


@pytest.mark.parametrize("design_effect", [-1, np.inf, np.nan, "1", True])
def test_design_effects_are_checked(design_effect, population):
    histogram = DPHistogram(domain={"g": ["a", "b"]}).fit(population[["g"]][:9])
    for call in (histogram.to_frame, histogram.range_estimate):
        with pytest.raises(ValueError, match=f"`design_effect` must be a number >= 0, got {design_effect}"):
            call(design_effect=design_effect)


def test_mean_without_a_deviation_names_the_statistics(population):
    mean = DPMean(bounds={"x": (0, 1000), "yes": (0, 1)}).fit(population[["x", "yes"]][:99])
    with pytest.raises(ValueError, match=r"deviations of \['x'\].* Use DPGroupBy\(by=None\).*`statistics`"):
        mean.to_frame(design_effect=1)


def test_comparison_of_means_without_deviations_warns(population):
    table = population[["g", "x", "yes"]].head(1000)
    bounds = {"x": (0.0, 1000.0), "yes": (0.0, 1.0)}
    model = DPGroupBy(bounds=bounds, random_state=0, **BY).fit(table)
    with pytest.warns(UserWarning, match=r"means and sums of \['x'\] are upper bounds.*'std' is not in `statistics`"):
        compare_groups(model, pair=["a", "b"])
    compare_groups(model, pair=["a", "b"], design_effect=0)
    compare_groups(model.set_params(statistics=["count", "mean", "std"]).fit(table), pair=["a", "b"])


def test_medians_of_whole_numbers_include_their_sampling_error():
    """Many rows have the same number, so intervals of the table may have one number: 40 % of true hypotheses failed."""
    covered, n_rejected = [], 0
    model = DPGroupBy(8.0, by=None, bounds=(0, 100), statistics=["count", "median"])
    for seed in range(N_DRAWS):
        pair = []
        for half in range(2):
            x = np.random.default_rng([seed, half]).normal(40.45, 10, 1000).round().clip(0, 100)
            pair.append(clone(model).set_params(random_state=2 * seed + half).fit(pd.DataFrame({"x": x})))
        n_rejected += compare_groups(*pair).loc["x_median", "p_value"].iloc[0] <= 0.05
        found = pair[0].to_frame(design_effect=1).iloc[0]
        covered.append(found["x_median_lower"] <= 40 <= found["x_median_upper"])
        assert found["x_median_upper"] - found["x_median_lower"] < 15
    assert n_rejected <= 1
    check_coverage(covered, 0.95)


def test_median_that_is_not_released_has_no_interval_for_a_population(population):
    groups = DPGroupBy(bounds=(0.0, 1000.0), statistics=["count", "median"], totals=True, random_state=0, **BY)
    table = groups.fit(population[["g", "x"]].head(500)).to_frame(design_effect=1.0)
    assert table.loc["total"].filter(like="median").isna().all()
    assert not table.loc[["a", "b"]].filter(like="median").isna().any(axis=None)


def test_mean_of_too_few_rows_keeps_the_bounds_as_its_interval_for_a_population(population):
    groups = DPGroupBy(0.1, bounds=(0.0, 1000.0), statistics=["count", "mean", "std"], random_state=0, **BY)
    table = groups.fit(population[["g", "x"]].head(3)).to_frame(design_effect=1.0)
    assert table["x_mean"].isna().all()
    assert table[["x_mean_lower", "x_mean_upper"]].to_numpy().tolist() == [[0.0, 1000.0]] * 2


def test_note_of_method_has_the_limits_that_are_found_only(population):
    bounds = {"x": (0, None), "yes": (0, 1)}
    groups = DPGroupBy(bounds=bounds, statistics=["count", "mean"], random_state=0, **BY).fit(population.head(2_000))
    high = groups.bounds_[0, 1]
    assert dict(groups.guarantee_.method)["limits"] == f"x from 0 to {high:,g}"


def test_sampling_error_of_a_mean_has_the_degrees_of_freedom_of_the_design():
    rows = pd.DataFrame({"yes": [0.0, 1.0] * 200})
    table = DPMean(1e6, bounds=(0, 1), random_state=0).fit(rows).to_frame(design_effect=40)
    assert table["std_error"].tolist() == pytest.approx([np.sqrt(0.25 / 9)], rel=1e-3)
