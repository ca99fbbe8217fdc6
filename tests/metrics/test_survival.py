"""Survival curves and restricted means from noisy counts: equal to lifelines without noise, and coverage."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.special import gamma, gammainc
from scipy.stats import binom, chi2

from skdp import DPGroupBy, DPHistogram, Interval, RandomizedResponseEncoder
from skdp.metrics import joint_distribution, survival_from_counts
from tests.conftest import quick_first

EDGES = np.arange(0.0, 61.0, 3.0)
# Deaths are at odd and censored times at even months, so that the risk sets are known.
MONTHS = [1, 1, 2, 3, 3, 3, 4, 4, 5, 5, 6, 7, 7, 7, 8, 8, 9, 9, 9, 9, 10, 11, 11, 11, 11] * 2
# `KaplanMeierFitter().fit(MONTHS, [month % 2 for month in MONTHS])` of lifelines 0.30.3 after months
# 1 to 10: the survival function, and the square root of `_cumulative_sq_`, Greenwood's sum.
KAPLAN_MEIER = [0.92, 0.92, 0.794545, 0.794545, 0.70107, 0.70107, 0.55084, 0.55084, 0.306022, 0.306022]
GREENWOOD = [0.041703, 0.041703, 0.072991, 0.072991, 0.096173, 0.096173, 0.137802, 0.137802, 0.251861, 0.251861]


def count(times, events, edges=EDGES, std_error=0.0, **columns):
    """Count times in bins that begin at `edges`, as a table of DPHistogram."""
    bins = np.digitize(times, edges) - 1
    rows = pd.DataFrame({"t": edges[bins], "e": np.asarray(events, int), **columns})
    others = [rows[name].unique() for name in columns]
    cells = pd.MultiIndex.from_product([edges, [0, 1], *others], names=list(rows))
    sizes = rows.value_counts().reindex(cells, fill_value=0).rename("count")
    return sizes.to_frame().assign(std_error=std_error)


def select(table, metric):
    return table[table["metric"] == metric].reset_index(drop=True)


def integrate(months, shape, scale):
    """Return the mean of a Weibull distribution that is restricted to `months`."""
    ends = (months / scale) ** shape
    return scale * gamma(1 + 1 / shape) * gammainc(1 + 1 / shape, ends) + months * np.exp(-ends)


# --- estimates --------------------------------------------------------------------------------------------------------


def test_curve_and_error_without_noise_equal_lifelines():
    counts = count(MONTHS, [month % 2 for month in MONTHS], np.arange(1.0, 12.0))
    table = survival_from_counts(counts, "t", "e")
    curve = select(table, "survival")
    assert curve["time"].tolist() == list(range(2, 12))
    np.testing.assert_allclose(curve["value"], KAPLAN_MEIER, atol=1e-6)
    np.testing.assert_allclose(curve["std_error"] / curve["value"], GREENWOOD, atol=1e-6)
    assert select(table, "at_risk")["value"].tolist() == [50, 46, 44, 38, 34, 30, 28, 22, 18, 10, 8]
    mean = select(table, "restricted_mean")
    areas = [np.trapezoid([1, *KAPLAN_MEIER][: n + 2]) for n in range(10)]
    np.testing.assert_allclose(mean["value"], 1 + np.array(areas), atol=1e-5)


def test_interval_without_events_is_the_exact_bound_of_a_poisson_count():
    counts = pd.DataFrame({"t": [0, 0, 1], "e": [0, 1, 0], "count": [0, 0, 90], "std_error": 0.0})
    for level in (0.95, 0.99):
        row = survival_from_counts(counts, "t", "e", confidence_level=level).loc[0]
        assert row["upper"] == 1
        assert row["lower"] == pytest.approx(np.exp(-chi2.ppf((1 + level) / 2, 2) / 2 / 90))


def test_error_of_noise_adds_squared_derivatives():
    numbers = np.array([[30.0, 70.0], [50.0, 40.0], [80.0, 60.0], [600.0, 70.0]])
    table = pd.DataFrame({"t": np.repeat(range(4), 2), "e": [0, 1] * 4, "count": numbers.ravel(), "std_error": 2.0})

    def estimate(counts):
        found = survival_from_counts(table.assign(count=counts), "t", "e")
        return {name: select(found, name)["value"].to_numpy() for name in ("survival", "restricted_mean")}

    slopes = {"survival": [], "restricted_mean": []}
    for step in np.eye(8):
        up, down = estimate(numbers.ravel() + step), estimate(numbers.ravel() - step)
        for name, values in slopes.items():
            values.append((up[name] - down[name]) / 2)
    noisy = survival_from_counts(table, "t", "e")
    exact = survival_from_counts(table.assign(std_error=0.0), "t", "e")
    for name, values in slopes.items():
        added = select(noisy, name)["std_error"] ** 2 - select(exact, name)["std_error"] ** 2
        np.testing.assert_allclose(added, 4 * (np.array(values) ** 2).sum(axis=0), rtol=1e-3)


def test_curve_without_enough_rows_at_risk_is_bounded_by_the_last_endpoint():
    counts = count([1] * 90 + [4] * 5 + [7] * 3, [True] * 98, EDGES[:4], std_error=2.0)
    table = survival_from_counts(counts, "t", "e")
    curve, mean = select(table, "survival"), select(table, "restricted_mean")
    # The noise of 2 * 2 * 2 counts at 3 months has the standard deviation 4.9: 8 rows are too few.
    assert curve["value"].isna().all()
    assert curve[["lower", "upper"]].to_numpy().tolist() == [[0, 1]] * 3
    curve, mean = (
        select(survival_from_counts(counts.assign(std_error=0.5), "t", "e"), name)
        for name in ("survival", "restricted_mean")
    )
    assert curve["value"].notna().tolist() == [True, False, False]
    assert curve["upper"].nunique() == 1
    assert curve["lower"].tolist()[1:] == [0, 0]
    assert mean["lower"].nunique() == 1
    np.testing.assert_allclose(np.diff(mean["upper"]), 3 * curve.loc[0, "upper"])


def test_intervals_of_rows_at_risk_cover_with_little_noise():
    rng = np.random.default_rng(0)
    # Six noisy counts of 500 groups without rows. Noise of epsilon 4 is mostly 0, and otherwise a whole number.
    shape, part = (500, 3, 2), 1 - np.exp(-4)
    noise = rng.geometric(part, shape) - rng.geometric(part, shape)
    groups, times, events = np.indices(shape).reshape(3, -1)
    std_error = np.sqrt(2 * np.exp(-4)) / part
    counts = pd.DataFrame({"g": groups, "t": times, "e": events, "count": noise.ravel(), "std_error": std_error})
    for level in (0.95, 0.99):
        table = survival_from_counts(counts, "t", "e", group="g", confidence_level=level)
        first = table[(table["metric"] == "at_risk") & (table["time"] == 0)]
        n_covered = ((first["lower"] <= 0) & (first["upper"] >= 0)).sum()
        assert n_covered >= binom.ppf(1e-6, len(first), level)


def test_restricted_mean_is_at_most_the_time_with_negative_counts_of_events():
    counts = pd.DataFrame({"t": [0, 0, 3, 3], "e": [0, 1] * 2, "count": [0, -2, 300, 20], "std_error": 1.0})
    mean = select(survival_from_counts(counts, "t", "e"), "restricted_mean")
    assert mean.loc[0, "value"] == mean.loc[0, "upper"] == 3


def test_curve_of_noisy_counts_never_rises():
    rng = np.random.default_rng(0)
    counts = count([1] * 30 + [100] * 200, [True] * 30 + [False] * 200, std_error=5.0)
    counts["count"] += np.rint(rng.laplace(0, 3.5, len(counts)))
    curve = select(survival_from_counts(counts, "t", "e"), "survival")
    assert curve["value"].notna().sum() > 10
    for column in ("value", "lower", "upper"):
        assert (np.diff(curve[column].dropna()) <= 1e-12).all()


# --- tables -----------------------------------------------------------------------------------------------------------


def draw_patients(n=2_000, seed=0):
    rng = np.random.default_rng(seed)
    death, seen = 40 * rng.weibull(1.2, n), rng.uniform(0, 90, n)
    arm = rng.choice(["a", "b"], n)
    return pd.DataFrame({"t": np.minimum(death, seen), "e": death <= seen, "arm": arm})


DOMAIN = {"t": Interval([*EDGES, 1_200.0], real=True), "e": [False, True], "arm": ["a", "b"]}


def test_groups_have_the_curves_of_their_own_counts_in_all_libraries():
    counts = DPHistogram(2.0, domain=DOMAIN, random_state=0).fit(draw_patients()).to_frame()
    table = survival_from_counts(counts, "t", "e", group="arm")
    for arm in ("a", "b"):
        own = survival_from_counts(counts.xs(arm, level="arm"), "t", "e")
        found = table[table["group"] == arm].reset_index(drop=True)
        pd.testing.assert_frame_equal(found.drop(columns="group"), own.drop(columns="group"))
        assert set(own["group"]) == {"all"}
    lazy = pl.from_pandas(counts.reset_index().astype({"t": str}))
    pd.testing.assert_frame_equal(survival_from_counts(lazy, "t", "e", group=["arm"]), table)


def test_counts_of_groupby_and_completed_months_are_accepted():
    patients = draw_patients().assign(t=lambda rows: np.floor(rows["t"]).clip(upper=59).astype(int))
    keys = {"t": list(range(60)), "e": [False, True]}
    release = DPGroupBy(1.0, by=["t", "e"], keys=keys, statistics="count", random_state=0).fit(patients)
    curve = select(survival_from_counts(release.to_frame(), "t", "e"), "survival").set_index("time")
    assert curve.loc[24, "lower"] < np.exp(-(0.6**1.2)) < curve.loc[24, "upper"]


def test_counts_of_reported_groups_are_accepted_and_reported_times_are_not():
    patients = draw_patients(20_000)
    encoder = RandomizedResponseEncoder(2.0, categories={"arm": ["a", "b"]}, random_state=0)
    reports = encoder.fit_transform(patients[["arm"]])
    start = EDGES[np.digitize(patients["t"], EDGES) - 1]
    counts = joint_distribution(start, patients["e"], reports, encoder)
    table = survival_from_counts(counts, "y_true", "y_pred", group="arm")
    curve = select(table, "survival").query("time == 24")
    assert (curve["lower"] < np.exp(-(0.6**1.2))).all()
    assert (curve["upper"] > np.exp(-(0.6**1.2))).all()
    with pytest.raises(ValueError, match="`counts` must have true times and events, got reports"):
        survival_from_counts(counts.rename_axis(index={"arm": "event"}), "y_true", "arm")


GOOD = pd.DataFrame({"t": [0, 0, 1, 1], "e": [0, 1, 0, 1], "count": [5, 9, 8, 7], "std_error": 1.0})


@pytest.mark.parametrize(
    ("counts", "options", "message"),
    [
        (GOOD.assign(e=[0, 2, 0, 2]), {}, "`event` must be .* 0 and 1.*, level='e'"),
        (GOOD.assign(t=["x", "x", "y", "y"]), {}, "`time` must be the name of a column of numbers, or of bins"),
        (GOOD.assign(t=[-1, -1, 1, 1]), {}, "`time` must have from 2 to 1,000 bins or numbers of at least 0, got 2"),
        (GOOD.assign(t=0), {}, "`time` must have from 2 to 1,000 bins or numbers of at least 0, got 1"),
        (GOOD.assign(count=0.5), {}, "`counts` must be numbers of rows, got fractions"),
        (GOOD.drop(columns="std_error"), {}, "`counts` must have the columns"),
        (GOOD, {"group": "arm"}, "`counts` must have the columns"),
        (GOOD, {"confidence_level": 95}, "`confidence_level`"),
    ],
)
def test_invalid_input_is_named(counts, options, message):
    with pytest.raises(ValueError, match=message):
        survival_from_counts(counts, "t", "e", **options)


# --- coverage ---------------------------------------------------------------------------------------------------------


def draw_uniform(low, high):
    return lambda rng, n: rng.uniform(low, high, n)


SETTINGS = {
    # Rows, epsilon, shape and scale of the times, and the times at which rows are last observed.
    "none at risk at the end": (500, 1.0, 3.0, 20.0, draw_uniform(30, 60)),
    "few rows and much noise": (300, 0.3, 3.0, 20.0, draw_uniform(30, 60)),
    "visits at the edges of bins": (10_000, 1.0, 1.2, 40.0, lambda rng, n: 3.0 * rng.integers(1, 30, n)),
    "heavy censoring": (1_000, 1.0, 1.2, 80.0, lambda rng, n: rng.exponential(15, n)),
    "rare events": (1_000, 1.0, 1.2, 1_000.0, draw_uniform(0, 90)),
}


@pytest.mark.parametrize("setting", quick_first(1, list(SETTINGS)))
def test_bands_and_restricted_means_cover(setting):
    """An interval of coverage 0.93 (0.975 at 0.99) covers less often with probability 1e-6; the seed is fixed."""
    n, epsilon, shape, scale, draw_seen = SETTINGS[setting]
    rng, n_draws, p = np.random.default_rng(0), 50, 1 - np.exp(-epsilon)
    tables = []
    for _ in range(n_draws):
        death, seen = scale * rng.weibull(shape, n), draw_seen(rng, n)
        cells = 2 * (np.digitize(np.minimum(death, seen), EDGES) - 1) + (death <= seen)
        tables.append(np.bincount(cells, minlength=2 * len(EDGES)))
    counts = (
        np.array(tables) + rng.geometric(p, (n_draws, 2 * len(EDGES))) - rng.geometric(p, (n_draws, 2 * len(EDGES)))
    )
    cells = pd.MultiIndex.from_product([range(n_draws), EDGES, [0, 1]], names=["draw", "t", "e"])
    frame = pd.DataFrame({"count": counts.ravel(), "std_error": np.sqrt(2 * (1 - p)) / p}, index=cells)
    true = {"survival": np.exp(-((EDGES[1:] / scale) ** shape)), "restricted_mean": integrate(EDGES[1:], shape, scale)}
    for level, wanted in ((0.95, 0.93), (0.99, 0.975)):
        table = survival_from_counts(frame, "t", "e", group="draw", confidence_level=level)
        for metric, values in true.items():
            rows = select(table, metric)
            values = np.tile(values, n_draws)
            is_covered = rows["lower"].le(values + 1e-9) & rows["upper"].ge(values - 1e-9)
            assert is_covered.groupby(rows["time"]).sum().min() >= binom.ppf(1e-6, n_draws, wanted)


def test_rows_at_risk_are_compared_with_the_noise_of_later_counts():
    # After 2 bins, 60 rows are at risk, and two noisy counts have the standard deviation 14.1.
    counts = pd.DataFrame({"t": [0, 0, 2, 2, 4, 4], "e": [0, 1] * 3, "count": [0, 9, 200, 9, 60, 0], "std_error": 10.0})
    curve = select(survival_from_counts(counts, "t", "e"), "survival")
    assert curve["value"].notna().all()
    assert curve["upper"].max() == 1
