"""Intervals of distributions of numbers hold for any distribution, smooth or of a few values."""

import numpy as np
import pandas as pd
import pytest

from skdp import NumericPerturber
from skdp.datasets import load_adult
from skdp.local._distribution import GroupedReports, best_weights, knots_of_range
from skdp.oracles import ClampedLaplace, Windows
from tests.conftest import each, often

PEOPLE = load_adult().frame


def shares(values, bins, high=100):
    """The share of each bin, which holds its left edge; the last one holds both."""
    places = np.minimum(np.floor(np.asarray(values) * (bins / high)), bins - 1).astype(int)
    return np.bincount(places, minlength=bins) / len(places)


def square_wave(steps, epsilon):
    return Windows(steps, epsilon, repeating=False)


def estimate(values, seed, *, epsilon=2.0, mechanism="square_wave", grid_size=256, **options):
    perturber = NumericPerturber(epsilon, mechanism=mechanism, bounds=(0, 100), grid_size=grid_size, random_state=seed)
    return perturber.estimate_distribution(perturber.fit_transform(pd.DataFrame({"x": values})), **options)


def covers(table, expected):
    return (table["lower"] <= expected + 1e-9) & (expected - 1e-9 <= table["upper"])


DRAWS = {
    "uniform": lambda rng, n: 100 * rng.random(n),
    "log-normal": lambda rng, n: np.minimum(rng.lognormal(2.5, 0.8, n), 100),
    "edges": lambda rng, n: rng.choice([20.0, 40.0, 80.0], n, p=[0.2, 0.5, 0.3]),
    "beside edges": lambda rng, n: rng.choice([19.9, 40.1, 79.0], n, p=[0.2, 0.5, 0.3]),
    "one value": lambda rng, n: np.full(n, 60.0),
    "ends": lambda rng, n: rng.choice([0.0, 100.0], n),
    "half spiky": lambda rng, n: np.where(rng.random(n) < 0.5, 33.0, 100 * rng.beta(2, 2, n)),
    "hours": lambda rng, n: rng.choice(PEOPLE["hours-per-week"].to_numpy(float), n),
}


SETTINGS = [("square_wave", 4.0), ("distribution", 2.0), ("laplace", 4.0), ("square_wave", 1.0), ("optimal", 3.0)]


@pytest.mark.parametrize("setting", often(SETTINGS, SETTINGS[:1]))
def test_they_cover_whatever_the_distribution(setting):
    """80 intervals, of records that are drawn again: at 95 %, fewer than 66 cover once in 100,000."""
    mechanism, epsilon = setting
    hits = []
    for draw in DRAWS.values():
        expected = shares(draw(np.random.default_rng(0), 200_000), 5)
        for seed in range(2):
            records = draw(np.random.default_rng(1 + seed), 2_000)
            table = estimate(records, seed, mechanism=mechanism, epsilon=epsilon, grid_size=64, n_bins=5)
            hits.append(covers(table, expected))
    assert np.sum(hits) >= 66


RARE = {"190 and 10": [30.0] * 190 + [90.0] * 10, "198 and 2": [30.0] * 198 + [90.0] * 2}


@pytest.mark.parametrize("name", RARE)
@pytest.mark.long
def test_they_cover_where_reports_are_few_and_epsilon_is_large(name):
    """Weights followed the noise of the same reports: intervals of 95 % covered 16 to 99 %, by bin."""
    expected = shares(RARE[name], 4)
    tables = [estimate(RARE[name], seed, epsilon=8.0, grid_size=1024, n_bins=4) for seed in range(6)]
    assert np.mean([covers(table, expected) for table in tables]) >= 0.9


@pytest.mark.long
@pytest.mark.parametrize("n", [1, 5, 50])
def test_few_reports_have_intervals_that_cover(n):
    hits = []
    for seed in range(40):
        records = np.random.default_rng(seed).choice([10.0, 20.0, 50.0, 55.0], n, p=[0.3, 0.5, 0.1, 0.1])
        table = estimate(records, seed, epsilon=1.0, grid_size=64, n_bins=5)
        hits.append(covers(table, np.array([0.3, 0.5, 0.2, 0, 0])))
    assert np.mean(hits) >= 0.93


@each("steps, bins", [(64, 5), (60, 6), (7, 7), (16, 1)])
@each("kind", [square_wave, Windows, ClampedLaplace])
def test_the_weights_bound_the_share_at_every_value(steps, bins, kind):
    """At 16 numbers between any two positions, by the exact channel: at least 1 in the bin, and 0 elsewhere."""
    mechanism = kind(steps, 2.0)
    places = np.arange(mechanism.n_reports)
    knots = knots_of_range(steps, bins)
    reports = GroupedReports.of(mechanism, knots, places)
    model = np.full(len(knots.positions), 1 / len(knots.positions))
    numbers = np.arange(16 * steps + 1) / 16
    in_bin = np.minimum(np.floor(numbers * (bins / steps) + 1e-12), bins - 1)
    positions = np.isin(knots.positions, np.arange(steps + 1))
    for place in range(bins):
        for sign, least in ((1, knots.touches[place]), (-1, knots.inside[place])):
            weights = best_weights(reports.channel, sign * least.astype(float), model @ reports.channel, 1_000)
            on_grid = (reports.channel @ weights)[positions]
            means = sign * np.interp(numbers, np.arange(steps + 1), on_grid)
            gaps = sign * (means - (in_bin == place))
            assert gaps.min() > -1e-9


@pytest.mark.long
@each("options", [{}, {"confidence_level": 0.5}])
def test_the_standard_error_reaches_the_further_end_of_the_interval_of_95_per_cent(options):
    records = np.where(np.arange(2_000) % 2, 40.0, np.arange(2_000) % 101)
    table = estimate(records, 0, n_bins=5, **options)
    of_95 = estimate(records, 0, n_bins=5, **options | {"confidence_level": 0.95})
    to_ends = np.maximum(table["frequency"] - of_95["lower"], of_95["upper"] - table["frequency"])
    assert (1.959964 * table["std_error"]).to_numpy() == pytest.approx(to_ends.to_numpy(), rel=1e-6)


@pytest.mark.long
@pytest.mark.parametrize("bounds", [{"age": (0, 100)}, {"age": (0, 100), "height": (1, 2)}])
def test_a_column_is_estimated_by_itself(bounds):
    rows = pd.DataFrame({"age": [20.0, 30.0] * 50, "height": [1.25, 1.5] * 50})[[*bounds]]
    fitted = NumericPerturber(8.0, mechanism="square_wave", bounds=bounds, random_state=0)
    reports = fitted.fit_transform(rows)
    table = fitted.estimate_distribution(reports, n_bins=4)
    assert table.index.names == (["age"] if len(bounds) == 1 else ["column", "bin"])
    for name in bounds:
        alone = table if len(bounds) == 1 else table.loc[name]
        assert alone["frequency"].sum() == pytest.approx(1)
        assert covers(alone, shares(rows[name] - bounds[name][0], 4, np.ptp(bounds[name]))).mean() >= 0.75


@pytest.mark.long
def test_intervals_tell_of_a_spike_and_hold_the_frequencies():
    """Smoothed, the frequency of its bin is below the lower end."""
    table = estimate([33.0] * 20_000, 0, epsilon=8.0, grid_size=1024, n_bins=10)
    assert table["lower"].iloc[3] > 0.5
    assert (table["lower"] <= table["frequency"] + 1e-9).all()
    assert (table["frequency"] <= table["upper"] + 1e-9).all()
