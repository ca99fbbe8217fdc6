"""Counts of declared levels, such as cities, regions and countries, which add up."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from skdp import DPHistogram, Interval, PrivacyLedger
from skdp.central._ranges import read_levels
from skdp.domain import Domain
from skdp.privacy import Rho
from skdp.testing import replay_release
from tests.conftest import often
from tests.errors import refusal

# The cities of a region are not neighbors in the declaration.
CITIES = [f"city {index}" for index in range(9)]
REGIONS = dict(zip(CITIES, ["n", "s", "w", "n", "s", "w", "n", "e", "s"], strict=True))
COUNTRIES = {"n": "A", "s": "B", "w": "A", "e": "B"}
LEVELS = {"region": REGIONS, "country": COUNTRIES}
CITY = {"city": CITIES}


def people(n, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"city": rng.choice(CITIES, n, p=rng.dirichlet(np.ones(9)))})


def histogram(epsilon=1.0, **parameters):
    return DPHistogram(epsilon, **{"domain": CITY, "levels": LEVELS, "random_state": 0} | parameters)


@pytest.mark.parametrize("method", ["auto", "flat", "hierarchical"])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, Rho(0.1, delta=1e-6)])
def test_counts_of_all_levels_are_whole_and_add_up(method, epsilon):
    frame = people(500)
    for table in (frame, pl.from_pandas(frame)):
        fitted = histogram(epsilon, method=method).fit(table)
        counts, regions, countries = (
            dict(zip(labels, fitted.to_frame(level)["count"], strict=True))
            for level, labels in ((None, CITIES), ("region", ["n", "w", "s", "e"]), ("country", ["A", "B"]))
        )
        for region in regions:
            assert regions[region] == sum(n for city, n in counts.items() if REGIONS[city] == region)
        for country in countries:
            assert countries[country] == sum(n for region, n in regions.items() if COUNTRIES[region] == country)
        assert all(isinstance(n, int | np.integer) for n in [*counts.values(), *regions.values(), *countries.values()])


@pytest.mark.parametrize("method", ["flat", "hierarchical"])
def test_counts_with_little_noise_are_the_counts_of_the_cities(method):
    frame = people(500)
    fitted = histogram(1e6, method=method).fit(frame)
    for level, groups in ((None, frame["city"]), ("region", frame["city"].map(REGIONS))):
        found = fitted.to_frame(level)["count"]
        assert found.to_dict() == {label: (groups == label).sum() for label in found.index}


def test_estimates_are_the_least_squares_solution():
    tree = read_levels(Domain(CITY), LEVELS)[0]
    # The counts of all levels are a linear function of the counts of the cells.
    totals = [tree.totals(row) for row in np.eye(9)]
    design = np.vstack([np.column_stack([row[level] for row in totals]) for level in range(3)])
    rng = np.random.default_rng(0)
    noisy = [rng.normal(size=size) for size in tree.sizes]
    expected, *_ = np.linalg.lstsq(design, np.concatenate(noisy), rcond=None)
    assert tree.estimate(noisy) == pytest.approx(expected)
    covariance = np.linalg.inv(design.T @ design)
    assert tree.cell_variances == pytest.approx(np.diag(covariance))
    for weights in (*np.eye(9), np.ones(9), rng.normal(size=9)):
        assert tree.variance(weights) == pytest.approx(weights @ covariance @ weights)


@pytest.mark.long
@pytest.mark.parametrize("method", often(["flat", "hierarchical"], ["hierarchical"]))
def test_intervals_of_all_levels_cover(method):
    """The seeds are fixed. The standard error of the coverage of 150 histograms is at most 0.018."""
    frame = people(2000)
    truth = {
        None: frame["city"],
        "region": frame["city"].map(REGIONS),
        "country": frame["city"].map(REGIONS).map(COUNTRIES),
    }
    covered = {level: [] for level in truth}
    errors = {level: [] for level in truth}
    for seed in range(150):
        fitted = histogram(0.5, method=method, random_state=seed).fit(frame)
        for level, values in truth.items():
            found = fitted.to_frame(level)
            counts = values.value_counts().reindex(found.index).fillna(0)
            covered[level] += ((found["lower"] <= counts) & (counts <= found["upper"])).tolist()
            errors[level] += ((found["count"] - counts) / found["std_error"]).tolist()
    for level in truth:
        assert np.mean(covered[level]) >= 0.92, level
        # Rounding adds up to 1 / 12 to the variance.
        assert 0.87 < np.sqrt(np.mean(np.square(errors[level]))) < 1.13, level


@pytest.mark.parametrize("method", ["flat", "hierarchical"])
def test_errors_do_not_depend_on_the_order_of_the_values_or_the_unit_of_weights(method):
    frame, by_region = people(500), sorted(CITIES, key=lambda city: (COUNTRIES[REGIONS[city]], REGIONS[city]))
    expected = histogram(method=method).fit(frame)
    ordered = histogram(method=method, domain={"city": by_region}).fit(frame)
    weighted = histogram(method=method, max_weight=8.0).fit(frame, sample_weight=np.full(500, 8.0))
    for level in (None, *LEVELS):
        errors = expected.to_frame(level)["std_error"]
        pd.testing.assert_series_equal(ordered.to_frame(level)["std_error"][errors.index], errors)
        pd.testing.assert_series_equal(weighted.to_frame(level)["std_error"], 8 * errors, rtol=0.05)


@pytest.mark.parametrize("method", ["flat", "hierarchical"])
def test_neighbors_cost_at_most_epsilon(method):
    used = []
    for seed, city in enumerate([*CITIES[::2], "elsewhere"]):
        table = pd.DataFrame({"city": [*CITIES[:2], city]})
        model = histogram(method=method, handle_unknown="ignore")
        replay = replay_release(model, table, table[:-1], random_state=seed)
        assert replay.passed, replay.findings
        used.append(replay.epsilon / replay.guarantee.epsilon)
    assert max(used) == pytest.approx(1)


@pytest.mark.parametrize("method", ["auto", "hierarchical"])
def test_level_of_one_group_is_released(method):
    """It raised an IndexError after the charge."""
    ledger = PrivacyLedger(epsilon=1e6)
    levels = {"country": dict.fromkeys(CITIES, "A")}
    fitted = histogram(1e6, levels=levels, method=method, ledger=ledger).fit(people(50))
    assert fitted.to_frame("country")["count"].tolist() == [50]
    assert fitted.method_ == "hierarchical"


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"levels": {}}, "`levels` must be a nonempty mapping"),
        ({"levels": [REGIONS]}, "`levels` must be a nonempty mapping"),
        ({"levels": {"region": {"city 0": "n"}}}, "got no group of 'city 1'"),
        ({"levels": {"region": REGIONS, "country": {"n": "A"}}}, "below level 'country' .* got no group of 's'"),
    ],
)
def test_mistakes_raise_errors_before_the_charge(parameters, match):
    with refusal(ValueError, match) as ledger:
        histogram(ledger=ledger, **parameters).fit(people(50))


def test_undeclared_level_and_range_of_levels_raise_errors():
    fitted = histogram().fit(people(50))
    with pytest.raises(ValueError, match=r"`level` must be one of \['region', 'country'\], got 'city'"):
        fitted.to_frame("city")
    with pytest.raises(ValueError, match="`range_estimate` requires a histogram without `levels`"):
        fitted.range_estimate("city 0", "city 3")


def test_levels_group_the_bins_of_an_interval():
    bins = Interval(0, 4, bins=2)
    ages = DPHistogram(1e6, domain=bins, levels={"all": {"[0, 2)": "all", "[2, 4]": "all"}}, random_state=0)
    assert ages.fit(pd.DataFrame({"age": [1, 3, 3]})).to_frame("all")["count"].tolist() == [3]


def test_errors_of_levels_without_a_tree_are_the_errors_of_sums():
    fitted = histogram(method="flat").fit(people(50))
    error = fitted.to_frame()["std_error"].iloc[0]
    sizes = pd.Series(REGIONS).value_counts()
    found = fitted.to_frame("region")["std_error"]
    assert found.tolist() == pytest.approx((error * np.sqrt(sizes[found.index])).tolist())
