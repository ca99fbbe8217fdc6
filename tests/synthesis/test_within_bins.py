"""Numbers and dates within bins: dates are days if the edges are days."""

from datetime import date, datetime

import numpy as np
import pandas as pd
import pytest

from skdp import DPMarginalSynthesizer, Interval
from tests.conftest import diagonal
from tests.errors import refusal
from tests.synthesis.bounds import bounds_only

N = 6_000


def fit_model(table, domain, epsilon=10, **parameters):
    return DPMarginalSynthesizer(epsilon, delta=1e-9, domain=domain, random_state=0, **parameters).fit(table)


@pytest.mark.parametrize("bins", ["declared", "found"])
def test_bounds_may_be_as_wide_as_floats(bins):
    """Squares of values overflowed after the charge, in an error without the name of the column."""
    numbers = np.random.default_rng(1).uniform(-1, 1, 500)
    parameters = {"epsilon": 20, "random_state": 0}
    samples = {}
    # A power of two changes no digit of a float.
    scales = (2.0**100, 2.0**500, 2.0**1000)
    for scale in scales:
        domain = {"x": Interval(-4 * scale, 4 * scale, bins=4, real=True), "y": [0, 1]}
        table = pd.DataFrame({"x": numbers * scale, "y": [0, 1] * 250})
        rows = DPMarginalSynthesizer(**parameters, domain=bounds_only(domain, bins)).fit(table).sample(500)
        samples[scale] = rows["x"] / scale
        assert abs(samples[scale].mean() - numbers.mean()) < 0.1
        assert abs(samples[scale].std() - numbers.std()) < 0.2


@pytest.mark.parametrize("bins", ["declared", "found"])
def test_bounds_wider_than_floats_raise_before_charge(bins):
    table = pd.DataFrame({"x": [0.0, 1.0], "y": [0, 1]})
    domain = {"x": Interval(edges=[-1e308, 0, 1e308]), "y": [0, 1]}
    with refusal(ValueError, r"column 'x' must have a width of at most 1.8e\+308, .* narrower bounds") as ledger:
        DPMarginalSynthesizer(domain=bounds_only(domain, bins), ledger=ledger).fit(table)


def test_python_dates_depend_on_the_edges_only():
    """A column of objects has no dtype of dates, and its values must not determine it."""
    days = [date(2020, 1, 1), date(2020, 3, 1)]
    times = [datetime(2020, 1, 1), datetime(2020, 3, 1)]
    for edges, has_days in ((days, True), (times, False)):
        domain = {"day": Interval(edges[0], edges[-1], bins=2)}
        for values in (days, times):
            rows = fit_model(pd.DataFrame({"day": values * 50}, dtype=object), domain).sample(20)
            assert rows["day"].dtype == "datetime64[us]"
            assert (rows["day"] == rows["day"].dt.normalize()).all() == has_days


AMOUNTS = {
    "cents": (Interval(0, 1_000, bins=20, decimals=2), 100),
    "real": (Interval(0, 1_000, bins=20, real=True), 100),
    "whole": (Interval(0, 100_000, bins=20), 10_000),
}


@pytest.mark.parametrize(("name", "delta", "bins"), diagonal(AMOUNTS, [0.0, 1e-6], ["declared", "found"]))
def test_noise_is_not_a_frequent_number(name, delta, bins):
    """At bin edges, single numbers had up to 500 of 6,000 rows, where no amount had more than 5.

    Noise alone exceeds the limit of a cell with a chance of 1e-6, in 180 cells of two fits.
    """
    interval, scale = AMOUNTS[name]
    for seed in range(2):
        amounts = np.random.default_rng(seed).gamma(2, scale, N).clip(0, interval.edges[-1])
        table = pd.DataFrame({"x": amounts if interval.decimals is None else amounts.round(interval.decimals)})
        parameters = {"delta": delta, "domain": bounds_only({"x": interval}, bins), "random_state": seed}
        synthesizer = DPMarginalSynthesizer(0.5, **parameters)
        assert synthesizer.fit(table).sample(N)["x"].value_counts().max() <= 12


@pytest.mark.parametrize("decimals", [0, 1])
def test_whole_numbers_stay_in_bins_with_fractional_edges(decimals):
    """Fine cells without a number, such as from 18.5 to 19, had rows; they were drawn in the bin below."""
    numbers = np.random.default_rng(2).integers(16, 96, N) / 10**decimals
    interval = Interval(16 / 10**decimals, 96 / 10**decimals, bins=32, decimals=decimals)
    synthesizer = fit_model(pd.DataFrame({"age": numbers}), {"age": interval}, epsilon=0.3)
    rows = synthesizer.sample(50_000)["age"].to_numpy()
    counts, _ = np.histogram(rows, interval.edges)
    assert np.abs(counts / 50_000 - synthesizer.model_.marginal((0,))).max() < 0.005
    # Numbers of a bin are equally likely: a cell without a number had the weight of one.
    steps = np.rint(rows * 10**decimals).astype(int)
    first = np.ceil(np.array(interval.edges[:-1]) * 10**decimals - 1e-6)
    is_first, is_second = np.isin(steps, first), np.isin(steps, first + 1)
    assert is_first.mean() == pytest.approx(is_second.mean(), rel=0.1)


@pytest.mark.parametrize("bins", ["declared", "found"])
def test_even_dates_stay_even(bins):
    """A few days with large noise do not get the rows of a month."""
    days = np.random.default_rng(0).integers(0, 365, 5_000)
    table = pd.DataFrame({"day": pd.Timestamp("2025-01-01") + pd.to_timedelta(days, "D"), "x": [0, 1] * 2_500})
    domain = {"day": Interval(date(2025, 1, 1), date(2026, 1, 1), bins=12), "x": [0, 1]}
    drawn = fit_model(table, bounds_only(domain, bins), epsilon=1).sample()["day"].dt
    months = drawn.month.value_counts(normalize=True).reindex(range(1, 13), fill_value=0)
    assert abs(months - 1 / 12).sum() / 2 < 0.05
    assert drawn.day_of_year.value_counts().max() < 60
    assert drawn.day_of_year.nunique() > 340


def test_frequent_number_is_found_with_much_noise():
    """Its count is 14 standard errors of its parts; only counts above 20 of them were divided."""
    rng = np.random.default_rng(0)
    amounts = np.where(rng.random(900) < 0.4, 0.37, rng.random(900))
    synthesizer = DPMarginalSynthesizer(1, delta=1e-6, domain={"x": Interval(0.0, 1.0)}, random_state=0)
    drawn = synthesizer.fit(pd.DataFrame({"x": amounts})).sample(20_000)["x"]
    assert np.mean(np.abs(drawn - 0.37) < 0.0005) > 0.2


SMALLEST = {
    "date": (date(1900, 1, 1), date(2026, 1, 1)),
    "datetime": (datetime(1900, 1, 1), datetime(2026, 1, 1)),
    "real": (-999.0, 100_000.0),
    "whole": (-999, 100_000),
}


@pytest.mark.parametrize("kind", SMALLEST)
def test_frequent_number_at_the_lower_bound_is_drawn_exactly(kind):
    """The records of 1900-01-01, which stands for no date, were spread over the years up to 1910."""
    low, high = SMALLEST[kind]
    rng = np.random.default_rng(0)
    usual = np.datetime64("2010-01-01") + rng.integers(0, 3_000, 5_000)
    if not isinstance(low, date):
        usual = rng.lognormal(8, 1, 5_000).clip(0, high).astype(type(low))
    numbers = pd.Series(usual)
    smallest = pd.Timestamp(low) if isinstance(low, date) else low
    numbers[rng.random(5_000) < 0.1] = smallest
    synthesizer = DPMarginalSynthesizer(1.0, domain={"x": Interval(low, high)}, random_state=0)
    drawn = synthesizer.fit(pd.DataFrame({"x": numbers})).sample()["x"]
    assert (drawn == smallest).mean() == pytest.approx((numbers == smallest).mean(), abs=0.01)
    assert ((drawn > smallest) & (drawn < np.sort(usual)[50])).mean() < 0.03
