"""Numbers and dates within bins: columns in order keep their means, and dates are days if the edges are."""

from __future__ import annotations

from datetime import date, datetime

import numpy as np
import pandas as pd
import pytest

from skdp import DPMarginalSynthesizer, Interval, PrivacyLedger

N = 6_000
RNG = np.random.default_rng(0)
EQUAL, UNEQUAL = (Interval(0, 60, bins=bins, decimals=1) for bins in (12, 7))


def later(values, mean, most=60):
    """Return numbers that are on average so much larger."""
    return (values + RNG.exponential(mean, len(values))).clip(0, most).round(1)


def fitted(table, domain, rules, epsilon=10, **parameters):
    return DPMarginalSynthesizer(
        epsilon, delta=1e-9, domain=domain, structural_zeros=rules, random_state=0, **parameters
    ).fit(table)


START = RNG.gamma(2, 3, N).clip(0, 59.9).round(1)
DECIMALS = pd.DataFrame({"start": START, "end": later(START, 2)})
DECIMALS["last"] = later(DECIMALS["end"], 4)
WHOLE = RNG.poisson(12, N).clip(0, 50)
RULE = [("start", "<=", "end")]


@pytest.mark.long
@pytest.mark.parametrize(
    ("table", "domain", "rules"),
    [
        (DECIMALS[["start", "end"]], {"start": EQUAL, "end": UNEQUAL}, RULE),
        (DECIMALS, dict.fromkeys(DECIMALS, EQUAL), [*RULE, ("end", "<=", "last")]),
        (
            pd.DataFrame({"start": WHOLE, "end": WHOLE + RNG.geometric(0.3, N) - 1}),
            {"start": Interval(0, 90, bins=10), "end": Interval(0, 90, bins=6)},
            RULE,
        ),
    ],
    ids=["unequal cuts", "a chain", "whole numbers"],
)
@pytest.mark.parametrize("epsilon", [1, 10])
def test_columns_in_order_keep_their_means(table, domain, rules, epsilon):
    """They were drawn again where bins overlap: means of 6.06 and 8.04 became 5.75 and 8.83."""
    free = fitted(table, domain, None, epsilon).sample(N)
    rows = fitted(table, domain, rules, epsilon).sample(N)
    assert (np.diff(rows.to_numpy(), axis=1) >= 0).all()
    assert (rows.round(1) == rows).all().all()
    errors, errors_without = ((one.mean() - table.mean()).abs() for one in (rows, free))
    assert (errors <= errors_without + 0.035 * table.std()).all()
    if epsilon == 10:
        difference = rows["end"] - rows["start"]
        true = table["end"] - table["start"]
        # Their difference is nearly that of the table, too: it became longer by a third and more.
        assert difference.mean() == pytest.approx(true.mean(), rel=0.06)
        np.testing.assert_allclose(difference.quantile([0.25, 0.5, 0.75]), true.quantile([0.25, 0.5, 0.75]), atol=1)


def test_nearly_equal_columns_in_a_diamond_keep_their_means():
    """Values of few rows may be exchanged there: a search for pairs of rows took 27 seconds for 400,000 rows."""
    first = DECIMALS["start"].to_numpy()
    table = pd.DataFrame({"first": first})
    table["left"] = first + (RNG.random(N) < 0.3)
    table["right"] = first + 2 * (RNG.random(N) < 0.3)
    table["last"] = first + 2
    rules = [("first", "<=", "left"), ("first", "<=", "right"), ("left", "<=", "last"), ("right", "<=", "last")]
    for n_bins in (1, 10):
        domain = dict.fromkeys(table, Interval(0, 70, bins=n_bins, decimals=1))
        rows = fitted(table, domain, rules).sample(N)
        for below, _, above in rules:
            assert (rows[below] <= rows[above]).all()
            assert (rows[above] - rows[below]).mean() == pytest.approx((table[above] - table[below]).mean(), abs=0.4)
        assert ((rows.mean() - table.mean()).abs() <= 0.06 * table.std()).all()


def test_values_in_order_are_as_unrelated_as_the_order_allows():
    """Two uniform columns in one bin, conditioned on the order: their correlation is that of pairs that are in order.

    Of sorted rows it would be lower. False alarm below 1e-6: the standard error is 0.006.
    """
    n_rows = 20_000
    pairs = np.sort(RNG.random((n_rows, 2)), axis=1)
    table = pd.DataFrame(pairs, columns=["start", "end"])
    domain = dict.fromkeys(table, Interval(0, 1, bins=1, real=True))
    rows = fitted(table, domain, RULE).sample(n_rows)
    assert rows.corr().iloc[0, 1] == pytest.approx(0.5, abs=0.04)


def test_missing_values_and_dates_keep_theirs():
    present = RNG.random(N) < 0.7
    first = np.datetime64("2020-01-01") + RNG.gamma(2, 40, N).astype(int).clip(0, 500)
    last = first + RNG.exponential(15, N).astype(int).clip(0, 200)
    table = pd.DataFrame({"first": first, "last": pd.Series(last).where(present)})
    ends = date(2020, 1, 1), date(2022, 1, 1)
    domain = {"first": Interval(*ends, bins=8), "last": Interval(*ends, bins=8, missing=True)}
    rows = fitted(table, domain, [("first", "<=", "last")]).sample(N)
    both = rows["last"].notna()
    assert both.mean() == pytest.approx(0.7, abs=0.02)
    assert (rows["first"] <= rows["last"])[both].all()
    for name in rows:
        assert abs(rows[name].mean() - table[name].mean()) < pd.Timedelta(days=3)


def test_an_exchange_leaves_rows_in_the_bins_of_the_model():
    """False alarm below 1e-6: no count of 84 cells is off by 6 standard errors."""
    synthesizer = fitted(DECIMALS[["start", "end"]], {"start": EQUAL, "end": UNEQUAL}, RULE)
    rows = synthesizer.sample(N)
    cells = UNEQUAL.encode(rows["end"].to_numpy()) + len(UNEQUAL) * EQUAL.encode(rows["start"].to_numpy())
    counts = np.bincount(cells, minlength=len(EQUAL) * len(UNEQUAL))
    expected = synthesizer.marginal(["start", "end"])["count"].to_numpy() * N / synthesizer.n_rows_
    assert (np.abs(counts - expected) <= 6 * np.sqrt(expected) + 1).all()


@pytest.mark.parametrize("bins", ["declared", "private"])
def test_bounds_may_be_as_wide_as_floats_are(bins):
    """Squares of values overflowed after the charge, in an error that named no column."""
    numbers = np.random.default_rng(1).uniform(-1, 1, 500)
    parameters = {"epsilon": 10, "bins": bins, "random_state": 0}
    samples = {}
    # A power of two changes no digit of a float.
    scales = (2.0**100, 2.0**500, 2.0**1000)
    for scale in scales:
        domain = {"x": Interval(-4 * scale, 4 * scale, bins=4, real=True), "y": [0, 1]}
        table = pd.DataFrame({"x": numbers * scale, "y": [0, 1] * 250})
        rows = DPMarginalSynthesizer(**parameters, domain=domain).fit(table).sample(500)
        samples[scale] = rows["x"] / scale
        assert abs(samples[scale].mean() - numbers.mean()) < 0.1
        assert abs(samples[scale].std() - numbers.std()) < 0.2


@pytest.mark.parametrize("bins", ["declared", "private"])
def test_bounds_wider_than_floats_are_refused_before_the_charge(bins):
    table = pd.DataFrame({"x": [0.0, 1.0], "y": [0, 1]})
    domain = {"x": Interval(edges=[-1e308, 0, 1e308]), "y": [0, 1]}
    ledger = PrivacyLedger(epsilon=5)
    with pytest.raises(ValueError, match=r"column 'x' is wider than the largest float, 1.8e\+308: declare closer ends"):
        DPMarginalSynthesizer(domain=domain, bins=bins, ledger=ledger).fit(table)
    assert ledger.report().empty


def test_python_dates_follow_the_edges_and_not_the_data():
    """A column of objects has no dtype that says dates; its values must not decide."""
    days = [date(2020, 1, 1), date(2020, 3, 1)]
    times = [datetime(2020, 1, 1), datetime(2020, 3, 1)]
    for edges, has_days in ((days, True), (times, False)):
        domain = {"day": Interval(edges[0], edges[-1], bins=2)}
        for values in (days, times):
            rows = fitted(pd.DataFrame({"day": values * 50}, dtype=object), domain, None).sample(20)
            assert rows["day"].dtype == "datetime64[us]"
            assert (rows["day"] == rows["day"].dt.normalize()).all() == has_days


def test_days_in_place_of_a_second_date_keep_short_times():
    """As the page of rules says: with a rule of two dates and bins of months, such days are more than twice as many."""
    rng = np.random.default_rng(1)
    severity = rng.binomial(5, 0.2, 20_000)
    table = pd.DataFrame(
        {
            "admitted": np.datetime64("2021-01-01") + rng.integers(0, 730, 20_000).astype("m8[D]"),
            "stay": rng.lognormal(0.3 + 0.35 * severity, 0.8).round().clip(0, 365).astype(int),
            "severity": severity,
        }
    )
    domain = {
        "admitted": Interval(date(2021, 1, 1), date(2023, 1, 1), bins=24),
        "stay": Interval(edges=[*range(8), 14, 31, 61, 122, 366]),
        "severity": list(range(6)),
    }
    rows = DPMarginalSynthesizer(1.0, delta=1e-6, domain=domain, random_state=0).fit(table).sample()
    assert rows["stay"].mean() == pytest.approx(table["stay"].mean(), rel=0.1)
    assert rows["stay"].dtype.kind == "i"
    correlations = [own["stay"].corr(own["severity"], method="spearman") for own in (table, rows)]
    assert correlations[1] == pytest.approx(correlations[0], abs=0.1)


@pytest.mark.parametrize("bins", ["declared", "private"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize(
    ("interval", "scale"),
    [
        (Interval(0, 1_000, bins=20, decimals=2), 100),
        (Interval(0, 1_000, bins=20, real=True), 100),
        (Interval(0, 100_000, bins=20), 10_000),
    ],
    ids=["cents", "real", "whole"],
)
def test_noise_is_not_a_frequent_number(interval, scale, delta, bins):
    """At bin edges, single numbers had up to 500 of 6,000 rows, where no amount had more than 5.

    Noise alone exceeds the limit of a cell with a chance of 3e-6, in 450 cells of five fits.
    """
    for seed in range(5):
        amounts = np.random.default_rng(seed).gamma(2, scale, N).clip(0, interval.edges[-1])
        table = pd.DataFrame({"x": amounts if interval.decimals is None else amounts.round(interval.decimals)})
        synthesizer = DPMarginalSynthesizer(0.5, delta=delta, domain={"x": interval}, bins=bins, random_state=seed)
        assert synthesizer.fit(table).sample(N)["x"].value_counts().max() <= 12


@pytest.mark.parametrize("bins", ["declared", "private"])
def test_a_frequent_number_keeps_its_share(bins):
    rng = np.random.default_rng(1)
    hours = np.where(rng.random(N) < 0.3, 40.0, rng.uniform(5, 80, N).round(1))
    domain = {"hours": Interval(0, 100, bins=20, decimals=1)}
    rows = (
        DPMarginalSynthesizer(1.0, domain=domain, bins=bins, random_state=0)
        .fit(pd.DataFrame({"hours": hours}))
        .sample()
    )
    assert (rows["hours"] == 40).mean() == pytest.approx(0.3, abs=0.03)


def test_numbers_between_whole_bounds_are_whole():
    """Ages in bins of 4.1 years came out as 49.778."""
    ages = np.random.default_rng(0).integers(18, 101, 500)
    rows = fitted(pd.DataFrame({"age": ages}), {"age": Interval(18, 100, bins=20)}, None).sample()
    assert rows["age"].dtype == "int64"
    assert rows["age"].between(18, 100).all()


def test_rows_of_a_bin_that_is_mostly_noise_lie_evenly():
    """Fine cells are small near 0, and got as large a part of a bin as wide ones: medians of .05 for 5."""
    X = pd.DataFrame({"v": np.random.default_rng(0).uniform(0, 100, 400), "s": ["a", "b"] * 200})
    domain = {"v": Interval(0, 100, bins=10, real=True), "s": ["a", "b"]}
    medians = []
    for seed in range(12):
        synthesizer = DPMarginalSynthesizer(
            0.3, delta=1e-6, domain=domain, marginals="independent", random_state=seed
        ).fit(X)
        rows = synthesizer.sample(2000)["v"]
        medians.append(rows[rows < 10].median())
    assert 4 < np.median(medians) < 6
