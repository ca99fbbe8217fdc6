"""Estimates from noisy counts: what is exact without noise, covered with it, and refused where nothing was measured."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

from skdp import DPMarginalSynthesizer, Interval
from skdp.synthesis import synthetic_inference
from skdp.synthesis._bin_points import BinPoints
from skdp.synthesis._inference import measure_mean
from skdp.synthesis.model import Marginal, group
from skdp.synthesis.tables import Shape, fine_grid
from tests.conftest import each

N = 3000
DOMAIN = {"x": range(4), "g": ["a", "b"], "z": range(3), "y": [0, 1], "age": Interval(edges=[0, 10, 30, 60])}


def people(n=N, seed=0):
    rng = np.random.default_rng(seed)
    group_b = rng.random(n) < 0.4
    x = rng.binomial(3, 0.3 + 0.3 * group_b)
    y = (rng.random(n) < 1 / (1 + np.exp(1 - 0.7 * x))).astype(int)
    age = rng.integers(0, 61, n)
    return pd.DataFrame({"x": x, "g": np.where(group_b, "b", "a"), "z": rng.integers(0, 3, n), "y": y, "age": age})


TABLE = people()


def fitted(marginals, epsilon=1e6, table=TABLE, seed=0, **parameters):
    names = list(dict.fromkeys(name for columns in marginals for name in columns))
    domain = {name: DOMAIN[name] for name in table if name in names}
    parameters = {"domain": domain, "marginals": marginals, "random_state": seed} | parameters
    return DPMarginalSynthesizer(epsilon, **parameters).fit(table[list(domain)])


def means(table):
    return table.groupby("g")["x"].mean()


def correlation(table):
    return float(np.corrcoef(table["x"], table["y"])[0, 1])


def covariance(table):
    return float(np.cov(table["z"], table["y"])[0, 1])


def test_without_noise_statistics_are_those_of_the_table():
    synthesizer = fitted([("x", "g"), ("x", "y")])
    terms = synthetic_inference(synthesizer, means, columns=["g", "x"])
    assert terms["term"].tolist() == ["a", "b"]
    true = means(TABLE)
    np.testing.assert_allclose(terms["estimate"], true, atol=2e-3)
    errors = TABLE.groupby("g")["x"].std() / TABLE.groupby("g").size() ** 0.5
    np.testing.assert_allclose(terms["std_error"], errors, rtol=0.02)
    one = synthetic_inference(synthesizer, correlation, columns=["x", "y"], confidence_level=0.5).iloc[0]
    assert one["estimate"] == pytest.approx(correlation(TABLE), abs=2e-3)
    assert one["upper"] - one["lower"] == pytest.approx(2 * 0.6745 * one["std_error"], rel=0.01)


def test_what_was_not_measured_has_no_interval():
    synthesizer = fitted([("x", "g"), ("y",), ("z",)])
    terms = synthetic_inference(synthesizer, correlation, columns=["x", "y"])
    assert not terms["supported"].any()
    assert terms[["std_error", "lower", "upper", "p_value"]].isna().all(axis=None)
    mean = synthetic_inference(synthesizer, lambda table: table["x"].mean(), columns=["x", "y"])
    assert mean["supported"].all()  # which does not depend on the other column


HOURS = {"hours": Interval(0, 100, bins=20), "g": ["a", "b"]}


def workers(n, seed):
    rng = np.random.default_rng(seed)
    skill = rng.normal(size=n)
    group = np.where(skill + rng.normal(size=n) > 0.5, "b", "a")
    return pd.DataFrame({"hours": np.floor(20 * np.exp(0.6 * skill)).clip(0, 99), "g": group})


def mean_of_hours(table):
    return table["hours"].mean()


def difference(table):
    return float(np.diff(table.groupby("g")["hours"].mean())[0])


def with_bins(epsilon, table, seed, domain=HOURS, **parameters):
    parameters = {"bins": "private", "marginals": [tuple(domain)]} | parameters
    return DPMarginalSynthesizer(epsilon, domain=domain, random_state=seed, **parameters).fit(table)


@pytest.mark.parametrize("bins", ["private", "declared"])
def test_without_noise_statistics_of_bins_are_those_of_the_numbers(bins):
    table = workers(N, 0)
    synthesizer = with_bins(1e6, table, 0, bins=bins)
    mean, by_group = (
        synthetic_inference(synthesizer, statistic, columns=["hours", "g"]).iloc[0]
        for statistic in (mean_of_hours, difference)
    )
    assert mean["estimate"] == pytest.approx(mean_of_hours(table), abs=1e-3)
    assert mean["std_error"] == pytest.approx(table["hours"].std() / N**0.5, rel=0.01)
    assert by_group["estimate"] == pytest.approx(difference(table), rel=0.01)
    assert by_group["reason"] == ""


@pytest.mark.long
def test_intervals_of_private_bins_hold_figures_of_the_numbers():
    """Of 15 intervals of 95 %, at most 7 hold it by chance in less than one of 10^6; it was a tenth of them."""
    population = workers(400_000, 1)
    n_covered = {mean_of_hours: 0, difference: 0}
    n_supported = 0
    for seed in range(15):
        table = population.sample(2_000, random_state=seed, ignore_index=True)
        synthesizer = with_bins(3.0, table, seed)
        for statistic in n_covered:
            terms = synthetic_inference(synthesizer, statistic, columns=["hours", "g"]).iloc[0]
            n_supported += terms["supported"]
            is_covered = not terms["supported"] or terms["lower"] <= statistic(population) <= terms["upper"]
            n_covered[statistic] += is_covered
    assert min(n_covered.values()) > 7
    assert n_supported > 20


def test_what_is_known_from_the_bins_nearby_follows_their_counts():
    """Counts of other rows move an estimate as a fit to these rows does: their noise is in the interval."""
    domain = HOURS | {"hours": Interval(0, 100, bins=4)}
    rng = np.random.default_rng(0)
    table = workers(20_000, 0)
    table["g"] = np.where(rng.random(len(table)) < 0.3 + table["hours"] / 300, "b", "a")
    synthesizer = with_bins(1e6, table, 0, domain)
    is_moved = (table["hours"] >= 40) & (table["g"] == "b") & (rng.random(len(table)) < 0.05)
    moved = with_bins(1e6, table.assign(g=table["g"].mask(is_moved, "a")), 0, domain)
    assert moved.domain_ == synthesizer.domain_
    before, expected = (synthetic_inference(each_one, difference).iloc[0] for each_one in (synthesizer, moved))
    synthesizer.marginals_ = moved.marginals_
    estimate = synthetic_inference(synthesizer, difference)["estimate"].iloc[0]
    assert abs(expected["estimate"] - before["estimate"]) > 0.2
    assert estimate == pytest.approx(expected["estimate"], abs=0.01)
    # Without noise, what bins do not tell is the largest error: it widens the interval.
    assert before["lower"] <= difference(table) <= before["upper"]
    assert before["upper"] - before["lower"] > 5 * before["std_error"]


def test_what_other_columns_do_within_a_single_bin_is_not_supported():
    domain = HOURS | {"hours": Interval(0, 100, bins=1)}
    synthesizer = with_bins(10.0, workers(N, 0), 0, domain)
    assert synthetic_inference(synthesizer, mean_of_hours, columns=["hours", "g"])["supported"].all()
    by_group = synthetic_inference(synthesizer, difference, columns=["hours", "g"]).iloc[0]
    assert not by_group["supported"]
    assert np.isnan(by_group["lower"])
    assert by_group["reason"] == "most numbers are in one wide bin: declare narrower ones"


def figures(table):
    x = table.iloc[:, 0]
    return {"mean": x.mean(), "log": np.log1p(x).mean(), "above": (x >= 20).mean(), "std": x.std()}


def test_intervals_of_a_skewed_column_hold_figures_of_its_numbers():
    """Nearly all of its numbers are in the first of 50 bins, whose middle is eight times their mean."""
    table = pd.DataFrame({"cost": np.random.default_rng(0).lognormal(6, 1, 20_000).round(2)})
    domain = {"cost": Interval(0, 500_000, bins=50, decimals=2)}
    synthesizer = DPMarginalSynthesizer(1.0, delta=1e-6, domain=domain, random_state=0)
    terms = synthetic_inference(synthesizer.fit(table), figures).set_index("term")
    true = pd.Series(figures(table))
    assert terms["supported"].all()
    assert ((terms["lower"] <= true) & (true <= terms["upper"])).all()
    assert terms.loc["mean", "upper"] < 5_000
    assert terms.loc["log", "std_error"] < 0.03
    # That of the squares, over twice the deviation: not over that of noise in bins without records.
    assert terms.loc["std", "std_error"] > 10_000


def test_without_noise_any_function_of_a_single_column_is_of_its_numbers():
    table = workers(N, 0)[["hours"]]
    domain = {"hours": Interval(0, 100, bins=2)}
    synthesizer = DPMarginalSynthesizer(1e6, domain=domain, random_state=0)
    terms = synthetic_inference(synthesizer.fit(table), figures).set_index("term")["estimate"]
    for name, true in figures(table).items():
        assert terms[name] == pytest.approx(true, rel=1e-3)


def test_what_other_columns_do_within_a_bin_of_most_numbers_is_not_supported():
    table = workers(N, 0)
    wide, narrow = (HOURS | {"hours": Interval(0, 240, bins=n_bins)} for n_bins in (3, 24))
    for domain, is_supported in ((wide, False), (narrow, True)):
        synthesizer = with_bins(100.0, table, 0, domain, bins="declared")
        assert synthetic_inference(synthesizer, mean_of_hours, columns=["hours"])["supported"].all()
        by_group = synthetic_inference(synthesizer, difference, columns=["hours", "g"]).iloc[0]
        assert by_group["supported"] == is_supported
        assert ("most numbers are in one wide bin" in by_group["reason"]) != is_supported


def test_of_two_declared_bins_one_may_be_crowded():
    """No interval held a difference of which all is within the first of two bins."""
    rng = np.random.default_rng(0)
    g = rng.choice(["a", "b"], N)
    is_far = rng.random(N) < 0.05
    hours = np.where(is_far, rng.uniform(10, 100, N), rng.uniform(0, 5, N) + 5 * (g == "b"))
    table = pd.DataFrame({"hours": hours, "g": g})
    domain = HOURS | {"hours": Interval(edges=[0, 10, 100], real=True)}
    synthesizer = with_bins(3.0, table, 0, domain, bins="declared", delta=1e-6)
    terms = synthetic_inference(synthesizer, difference, columns=["hours", "g"]).iloc[0]
    assert not terms["supported"]
    assert "most numbers are in one wide bin" in terms["reason"]


def test_bins_whose_records_may_be_noise_tell_nothing_of_those_beside_them():
    """A bin of 10^-9 of all records would give a slope by its share of another column a weight of 10^9."""
    hours = Interval(0, 90, bins=3)
    grid = fine_grid(hours)
    even = np.linspace(0, 1, len(grid.edges))
    shape = Shape(grid, even, np.full(even.size - 1, 100.0), 1e-3)
    points = BinPoints.of(hours, shape, least_share=0.01)
    shares = np.array([[0.3, 0.2], [1e-9, 2e-9], [0.1, 0.4]])
    slopes = np.array([[1.0, -1.0], [1.0, -1.0], [1.0, -1.0]])
    assert np.abs(points.sensitivity(slopes, shares, 0)).max() < 10
    scores = points.interpolate(shares, 0)
    assert scores[1] == pytest.approx(0)
    # From the first bin to the third, 60 apart, a share falls from .6 to .2.
    assert scores[0, 0] == pytest.approx(points.stds[0] * (0.2 - 0.6) / 60 / 0.6, rel=0.01)


def test_nothing_is_supported_where_noise_may_be_all_of_the_number_of_records():
    """Of no record, a mean is noise divided by noise; a wider interval takes more records."""
    for epsilon, n_records in ((0.1, 0), (0.1, 20), (10.0, 20)):
        synthesizer = fitted([("x", "g"), ("x", "y"), ("g", "y")], epsilon, people(n_records))
        is_clear = synthesizer.n_rows_ > 1.96 * synthesizer.n_rows_std_error_
        assert is_clear == (epsilon == 10.0)
        terms = [
            synthetic_inference(synthesizer, lambda table: table["x"].mean(), columns=["x"]),
            synthetic_inference(synthesizer, correlation, columns=["x", "y"]),
        ]
        assert terms[0]["supported"].all() == is_clear
        if not is_clear:
            assert set(pd.concat(terms)["reason"]) == {"noise may be all of the number of records"}
            assert pd.concat(terms)[["std_error", "lower", "upper", "p_value"]].isna().all(axis=None)
            # The model's rows say no number that there is not.
            assert 0 <= terms[0].loc[0, "estimate"] <= 3


def test_functions_of_a_group_whose_count_may_be_noise_are_not_supported():
    """Of ten records, a share is noise divided by noise; how many these are is known to the noise."""
    rng = np.random.default_rng(0)
    g = np.r_[np.repeat("r", 10), rng.choice(["s", "t"], N - 10)]
    table = pd.DataFrame({"g": g, "sex": rng.choice(["f", "m"], N), "y": rng.integers(0, 2, N)})
    domain = {"g": ["s", "t", "r"], "sex": ["f", "m"], "y": [0, 1]}

    def statistics(table):
        shares = table.groupby("g")["y"].mean()
        of_women = table[(table["g"] == "r") & (table["sex"] == "f")]
        return {
            "share of s": shares["s"],
            "share of r": shares["r"],
            "difference": shares["t"] - shares["r"],
            "women of r": of_women["y"].mean(),
            "r": (table["g"] == "r").mean(),
            "y": table["y"].mean(),
        }

    for epsilon in (0.5, 50.0):
        synthesizer = DPMarginalSynthesizer(epsilon, domain=domain, marginals=[("g", "sex", "y")], random_state=1)
        terms = synthetic_inference(synthesizer.fit(table), statistics).set_index("term")
        hidden = ["share of r", "difference", "women of r"]
        assert terms.drop(hidden)["supported"].all()
        assert (terms.loc[hidden, "supported"] == (epsilon == 50.0)).all()
        if epsilon == 0.5:
            assert set(terms.loc[hidden, "reason"]) == {"noise may be all of its divisor"}


def test_bins_of_single_numbers_have_no_points():
    table = pd.DataFrame({"n": [0, 1, 1, 2, 5, 5, 5, 3]})
    figures = []
    for values in (Interval(0, 5, bins=5), range(6)):
        synthesizer = DPMarginalSynthesizer(1e6, domain={"n": values}, random_state=0).fit(table)
        figures.append(synthetic_inference(synthesizer, lambda rows: rows["n"].mean()).iloc[0]["estimate"])
    # The last bin, which is closed, has 4 and 5.
    assert figures == [pytest.approx((1 + 1 + 2 + 3 + 3 * 4.5) / 8, abs=1e-3), pytest.approx(22 / 8, abs=1e-3)]


@pytest.mark.parametrize("bins", ["private", "declared"])
def test_missing_numbers_and_dates_in_bins(bins):
    table = workers(N, 0)
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(table["hours"], "D")
    table = pd.DataFrame({"day": days.where(table.index % 5 > 0), "g": table["g"]})
    ends = pd.Timestamp("2020-01-01"), pd.Timestamp("2020-06-01")
    domain = {"day": Interval(*ends, bins=10, missing=True), "g": ["a", "b"]}
    synthesizer = with_bins(1e6, table, 0, domain, bins=bins)

    def statistics(table):
        days = (table["day"] - ends[0]) / pd.Timedelta(days=1)
        return {"missing": table["day"].isna().mean(), "days": days.mean()}

    terms = synthetic_inference(synthesizer, statistics, columns=["day", "g"]).set_index("term")
    assert terms.loc["missing", "estimate"] == pytest.approx(0.2, abs=1e-3)
    assert terms.loc["days", "estimate"] == pytest.approx(statistics(table)["days"], abs=0.15)
    assert terms["supported"].all()


@pytest.mark.long
def test_coverage_and_rejections():
    """Tables with as much noise as sampling error: nearly all intervals hold what is true of the population."""
    population = people(100_000, seed=9)
    truth = [population["x"].mean(), float(np.diff(means(population))[0]), 0.0]
    held, rejected = [], []
    for seed in range(15):
        table = population.sample(N, replace=True, random_state=seed).reset_index(drop=True)
        synthesizer = fitted([("x", "g"), ("x", "z"), ("z", "y"), ("x", "y")], 1.0, table, seed)
        terms = [
            synthetic_inference(synthesizer, lambda table: table["x"].mean(), columns=["x"]).iloc[0],
            synthetic_inference(synthesizer, lambda rows: np.diff(means(rows)), columns=["g", "x"]).iloc[0],
            synthetic_inference(synthesizer, covariance, columns=["z", "y"]).iloc[0],
        ]
        held += [one["lower"] <= true <= one["upper"] for true, one in zip(truth, terms, strict=True)]
        rejected.append(terms[2]["p_value"] < 0.05)
    # 45 intervals of 95 %: fewer than 37 with a probability of 0.1 %; more than 4 of 15 rejections with 0.1 %.
    assert sum(held) >= 37
    assert sum(rejected) <= 4


def test_rare_values_that_were_counted_together_widen_the_interval():
    rng = np.random.default_rng(0)
    counts = rng.integers(50, 90, (4, 2)).astype(float)
    weights = np.arange(8.0).reshape(4, 2)
    shares = counts / counts.sum()
    groups = (np.array([0, 1, 2, 2]), None)
    whole = [Marginal((0, 1), counts, 1.0)]
    coarse = [Marginal((0, 1), group(counts, groups), 1.0, groups)]
    true = float((weights * shares).sum())
    exact = measure_mean(whole, (0, 1), weights, shares, counts.sum(), 0.0, {})
    assert (exact.value, exact.bias) == (pytest.approx(true), 0)
    # The noise of all eight counts, each with its own weight.
    assert exact.covariance(exact) == pytest.approx(float((weights**2).sum()) / counts.sum() ** 2)
    wide = measure_mean(coarse, (0, 1), weights, np.full((4, 2), 1 / 8), counts.sum(), 0.0, {})
    assert abs(wide.value - true) <= wide.bias
    assert wide.bias > 0


def test_a_component_is_estimated_by_all_that_tell_of_it():
    counts = np.arange(12.0).reshape(3, 4)
    weights = np.repeat([[1.0], [2.0], [6.0]], 4, axis=1)  # of the first column only
    one, both = Marginal((0,), counts.sum(axis=1), 2.0), Marginal((0, 1), counts, 3.0)
    means = []
    for marginals in ([one], [both], [one, both]):
        means.append(measure_mean(marginals, (0, 1), weights, counts / 66, 66.0, 0.0, {}))
    for each_one in means:
        assert each_one.value == pytest.approx(float((weights * counts).sum()) / 66)
        assert each_one.bias == pytest.approx(0, abs=1e-9)
    first, second, all_of_them = (1 / one.covariance(one) for one in means)
    assert all_of_them == pytest.approx(first + second, rel=0.01)


class TestRefused:
    @each(
        "statistic error message",
        [
            (LinearRegression(), TypeError, "must be a function of a table, got LinearRegression"),
            (LinearRegression, TypeError, "got LinearRegression"),
            (7, TypeError, "got int"),
            (lambda table: "high", TypeError, "must return a number"),
            (lambda table: np.nan, ValueError, "must return finite numbers"),
            (lambda table: {len(table): 1.0}, ValueError, "the same terms"),
        ],
    )
    def test_statistics(self, statistic, error, message):
        with pytest.raises(error, match=message):
            synthetic_inference(fitted([("x",)]), statistic)

    @each(
        "options error message",
        [
            ({"columns": 3}, TypeError, "columns must be a list of column names, got int"),
            ({"columns": ["x", "h"]}, ValueError, "there is no column 'h'"),
            ({"synthesizer": LinearRegression()}, TypeError, "must be a DPMarginalSynthesizer, got LinearRegression"),
        ],
    )
    def test_options(self, options, error, message):
        with pytest.raises(error, match=message):
            synthetic_inference(**{"synthesizer": fitted([("x",)]), "statistic": len, "columns": "x"} | options)

    def test_too_many_combinations(self):
        names = list("abcdefgh")
        table = pd.DataFrame(0, index=range(9), columns=names)
        domain = dict.fromkeys(names, range(5))
        synthesizer = DPMarginalSynthesizer(domain=domain, marginals="independent", random_state=0).fit(table)
        with pytest.raises(ValueError, match="390,625 combinations"):
            synthetic_inference(synthesizer, correlation)


def test_what_no_row_changes_has_no_interval():
    terms = synthetic_inference(
        fitted([("x",)]),
        lambda table: {"mean": table["x"].mean(), "median": table["x"].median(), "rows": len(table)},
        columns=["x"],
    ).set_index("term")
    assert terms["supported"].to_dict() == {"mean": True, "median": False, "rows": False}
    assert terms.loc[["median", "rows"], ["std_error", "lower", "upper", "p_value"]].isna().all(axis=None)


class TestSeveralTables:
    def test_they_differ_as_the_noise_does(self):
        synthesizer = fitted([("x", "g"), ("z",)], epsilon=0.5)
        tables = synthesizer.sample(n_tables=25)
        assert len(tables) == 25
        assert all(list(table) == ["x", "g", "z"] for table in tables)
        sizes = np.array([len(table) for table in tables])
        assert sizes.std() == pytest.approx(synthesizer.n_rows_std_error_, rel=0.6)
        shares = np.array([(table["z"] == 1).mean() for table in tables])
        noise = synthesizer.noise_scale_[("z",)] / N
        assert shares.std() == pytest.approx(noise, rel=0.6)


def test_statistics_without_a_divisor_are_supported_however_many_records_noise_may_be():
    """The noise of one pair of a hundred columns may be more than all records, whose number all pairs tell."""
    rng = np.random.default_rng(0)
    columns = [f"x{place}" for place in range(100)]
    table = pd.DataFrame({name: rng.integers(0, 12, 3_000) for name in columns})
    synthesizer = DPMarginalSynthesizer(
        0.3,
        domain={name: range(12) for name in columns},
        marginals=list(itertools.pairwise(columns)),
        random_state=0,
    ).fit(table)

    def plain(rows):
        return {"mean": rows["x0"].mean(), "share": ((rows["x0"] == 1) & (rows["x1"] == 2)).mean()}

    terms = synthetic_inference(synthesizer, plain, columns=["x0", "x1"])
    assert terms["supported"].all(), terms["reason"]
