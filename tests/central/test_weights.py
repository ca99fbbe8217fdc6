"""Weighted statistics of the curator: what is released, and that one record moves it no further than stated."""

import itertools
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest

from skdp import DPGroupBy, DPHistogram, DPMean, Interval, PrivacyLedger, load, plan_epsilon, save
from skdp.testing import check_curator, check_sensitivity
from tests.conftest import each, often

RNG = np.random.default_rng(5)
N = 4_000
PEOPLE = pd.DataFrame(
    {
        "sex": np.array(["f", "m"])[RNG.integers(2, size=N)],
        "age": RNG.integers(100, size=N).astype(float),
        "weight": RNG.uniform(0, 12, size=N),
    }
)
CLIPPED = PEOPLE["weight"].clip(0, 10)
WEIGHTED = {"sample_weight": "weight", "max_weight": 10}
SEXES = {"sex": ["f", "m"]}
EXACT = {"epsilon": 1e6, "random_state": 0}
"""Noise that is next to none: what remains is the statistic."""


def mean(**options):
    return DPMean(bounds=(0, 100), **WEIGHTED | options)


def groups(**options):
    return DPGroupBy("sex", keys=SEXES, bounds=(0, 100), **WEIGHTED | options)


def histogram(**options):
    return DPHistogram(domain=SEXES, **WEIGHTED | options)


@pytest.mark.parametrize("missing", ["ignore", "error"])
def test_a_mean_is_weighted(missing):
    fitted = mean(missing=missing, **EXACT).fit(PEOPLE[["age", "weight"]])
    expected = np.average(PEOPLE["age"], weights=CLIPPED)
    np.testing.assert_allclose(fitted.mean_, [expected], atol=1e-4)
    assert fitted.guarantee_.scope == ("age", "weight")
    # Where the weights are does not matter.
    again = mean(missing=missing, **EXACT).fit(PEOPLE[["weight", "age"]])
    np.testing.assert_allclose(again.mean_, [expected], atol=1e-4)


@pytest.mark.parametrize("missing", ["ignore", "error"])
def test_groups_are_weighted(missing):
    statistics = ["count", "mean", "sum"]
    fitted = groups(missing=missing, statistics=statistics, **EXACT).fit(PEOPLE).to_frame()
    by_sex = PEOPLE.assign(weight=CLIPPED, product=CLIPPED * PEOPLE["age"]).groupby("sex")
    weights, sums = by_sex["weight"].sum(), by_sex["product"].sum()
    np.testing.assert_allclose(fitted["count"], weights, atol=0.01)
    np.testing.assert_allclose(fitted["age_sum"], sums, atol=1)
    np.testing.assert_allclose(fitted["age_mean"], sums / weights, atol=1e-4)
    counts = DPGroupBy("sex", keys=SEXES, statistics="count", **WEIGHTED, **EXACT)
    alone = counts.fit(PEOPLE[["sex", "weight"]]).to_frame()
    np.testing.assert_allclose(alone["count"], weights, atol=0.01)


@pytest.mark.parametrize("method", ["flat", "hierarchical"])
def test_cells_are_weighted(method):
    ages = DPHistogram(domain=Interval(0, 100, bins=20), method=method, **WEIGHTED, **EXACT)
    ages.fit(PEOPLE[["age", "weight"]])
    expected = np.bincount((PEOPLE["age"] // 5).astype(int), CLIPPED)
    np.testing.assert_allclose(ages.counts_, expected, atol=0.01)
    assert ages.range_count(10, 50) == pytest.approx(expected[2:10].sum(), abs=0.1)
    np.testing.assert_allclose(ages.to_frame()["count"], ages.counts_)
    np.testing.assert_allclose(ages.frequencies_, expected / expected.sum(), atol=1e-6)


def test_equal_weights_of_the_maximum_are_counts():
    people = PEOPLE.assign(weight=10.0)
    plain = DPHistogram(domain=SEXES, **EXACT).fit(people[["sex"]])
    weighted = histogram(**EXACT).fit(people[["sex", "weight"]])
    np.testing.assert_allclose(weighted.counts_, 10 * plain.counts_, rtol=1e-6)


@pytest.mark.parametrize("kind", ["count", "mean", "sum", "histogram"])
@pytest.mark.long
def test_intervals_hold_what_was_asked(kind):
    """95 % intervals in 200 fits: fewer than 176 hits would be one in a million."""
    sums = PEOPLE.assign(weight=CLIPPED, product=CLIPPED * PEOPLE["age"]).groupby("sex")
    weights, products = sums["weight"].sum(), sums["product"].sum()
    truth = {"count": weights, "histogram": weights, "sum": products, "mean": products / weights}
    hits = np.zeros(2)
    for seed in range(200):
        if kind == "histogram":
            fitted = histogram(epsilon=0.5, random_state=seed).fit(PEOPLE[["sex", "weight"]])
            frame, name = fitted.to_frame().add_prefix("count_"), "count"
        else:
            fitted = groups(epsilon=0.5, statistics=kind, random_state=seed).fit(PEOPLE)
            frame, name = fitted.to_frame(), "count" if kind == "count" else f"age_{kind}"
        lower, upper = frame[f"{name}_lower"], frame[f"{name}_upper"]
        hits += (lower <= truth[kind]) & (truth[kind] <= upper)
    assert (hits >= 176).all()


ROWS = list(itertools.product(["f", "m"], [-5.0, 30.0, 100.0], [-99.0, 0.0, 3.3, 10.0, 99.0, np.nan, np.inf]))
NAMES = {mean: ["age", "weight"], groups: ["sex", "age", "weight"], histogram: ["sex", "weight"]}


@pytest.mark.parametrize("row", often(ROWS, ROWS[::5]))
@pytest.mark.parametrize("make", [mean, groups, histogram])
def test_no_row_changes_a_sum_by_more_than_the_noise_is_for(make, row):
    """A row of any values is added to a table: the replayed noise covers what it changes."""
    table = pd.DataFrame([("m", 77.7, 1.23), row], columns=["sex", "age", "weight"])[NAMES[make]]
    check_sensitivity(make(epsilon=1.0), table, [table[:1]])


@pytest.mark.parametrize("make", [mean, groups, histogram])
def test_the_contract_of_the_curator_holds(make):
    check_curator(make(epsilon=1.0), PEOPLE[NAMES[make]].iloc[:40])


@pytest.mark.parametrize("make", [mean, groups, histogram])
def test_tables_of_engines_are_weighted(make):
    frame = pl.from_pandas(PEOPLE[NAMES[make]])
    in_memory = make(epsilon=1.0, random_state=0).fit(frame)
    lazy = make(epsilon=1.0, random_state=0).fit(frame.lazy())
    if make is mean:
        np.testing.assert_array_equal(in_memory.mean_, lazy.mean_)
    else:
        assert in_memory.to_frame().equals(lazy.to_frame())


def test_plans_are_in_weights():
    epsilon = plan_epsilon(histogram(), within=100, n_rows=N).epsilon
    frame = histogram(epsilon=epsilon).fit(PEOPLE[["sex", "weight"]]).to_frame()
    reach = (frame["upper"] - frame["lower"]) / 2
    np.testing.assert_allclose(reach, 100, rtol=0.03)


@pytest.mark.parametrize("make", [mean, groups, histogram])
def test_they_are_saved(make, tmp_path):
    fitted = make(epsilon=1.0, random_state=0).fit(PEOPLE[NAMES[make]])
    save(fitted, tmp_path / "model.json")
    again = load(tmp_path / "model.json")
    if make is mean:
        np.testing.assert_array_equal(again.mean_, fitted.mean_)
    else:
        pd.testing.assert_frame_equal(again.to_frame(), fitted.to_frame())


@pytest.mark.parametrize("make", [mean, groups, histogram])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_weight": None}, "give both or none"),
        ({"sample_weight": None}, "give both or none"),
        ({"sample_weight": "w"}, "the name of a column of X"),
        ({"sample_weight": [1.0, 2.0]}, "the name of a column of X"),
        ({"max_weight": 0}, "max_weight must be a number > 0"),
        ({"max_weight": np.inf}, "max_weight must be a number > 0"),
        ({"max_weight": 10**5000}, "max_weight must be a number > 0, from 1.2e-271 to 6.7e.240, got a longer int"),
        ({"max_weight": 1e300}, "max_weight must be a number > 0, .*, got 1e.300"),
        ({"max_weight": 5e-324}, "max_weight must be a number > 0, .*, got 4.9.*e-324"),
        ({"max_weight": np.float32(-1)}, "max_weight must be a number > 0, .*, got -1"),
        ({"max_weight": Fraction(3, 7)}, "an int or a float, got Fraction"),
        ({"max_weight": True}, "max_weight must be an int or a float"),
        ({"max_weight": "10"}, "max_weight must be an int or a float"),
    ],
)
def test_weights_are_declared(make, options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make(**options).fit(PEOPLE[NAMES[make]])


@pytest.mark.parametrize("max_weight", [2.0**800, 2.0**-900, np.float32(3e38), np.longdouble(3)])
def test_weights_of_any_size_give_finite_numbers(max_weight):
    people = PEOPLE.assign(weight=PEOPLE["weight"] / 10 * float(max_weight))
    counted = histogram(epsilon=60.0, max_weight=max_weight, random_state=0).fit(people[NAMES[histogram]])
    usual = histogram(epsilon=60.0, random_state=0).fit(PEOPLE[NAMES[histogram]])
    np.testing.assert_allclose(counted.counts_ / max_weight * 10, usual.counts_)
    np.testing.assert_allclose(counted.std_error_ / max_weight * 10, usual.std_error_)
    in_groups = groups(max_weight=max_weight, random_state=0).fit(people[NAMES[groups]])
    assert np.isfinite(in_groups.to_frame().to_numpy(float)).all()
    np.testing.assert_array_equal(
        mean(max_weight=max_weight, random_state=0).fit(people[NAMES[mean]]).mean_,
        mean(max_weight=float(max_weight), random_state=0).fit(people[NAMES[mean]]).mean_,
    )


@each("epsilon", [5e-324, 1.0])
@each(
    "max_weight, high", [(2.0**800, 1.0), (2.0**700, 2.0**100), (None, 2.0**800), (2.0**-900, 2.0**-90), (None, 1e-300)]
)
def test_sums_are_finite_with_any_epsilon(epsilon, max_weight, high):
    factor = max_weight or 1.0
    people = PEOPLE.assign(age=PEOPLE["age"] / 100 * high, weight=PEOPLE["weight"] / 10 * factor)
    options = {"max_weight": max_weight, "sample_weight": "weight" if max_weight else None}
    names = NAMES[groups] if max_weight else ["sex", "age"]
    sums = DPGroupBy(
        "sex", epsilon, keys=SEXES, statistics=["count", "sum"], bounds=(-high, high), random_state=0, **options
    )
    estimates = sums.fit(people[names]).to_frame()
    assert np.isfinite(estimates.to_numpy(float)).all()
    assert (estimates[["count_std_error", "age_sum_std_error"]] > 0).all(axis=None)
    if max_weight:
        counted = histogram(epsilon=epsilon, max_weight=max_weight, random_state=0).fit(people[NAMES[histogram]])
        assert np.isfinite(counted.to_frame().to_numpy(float)).all()


@each(
    "max_weight, bounds, message",
    [
        (2.0**800, (0, 1e50), "for sums, bounds times max_weight must be at most 6.7e.240, got 6.6.*e.290"),
        (2.0**800, (-1e300, 0), "for sums, bounds times max_weight must be at most 6.7e.240, got inf"),
        (2.0**-900, (0, 1e-50), "for sums, bounds times max_weight must be at least 1e-300 apart, got 1.*e-321"),
        (None, (0, 1e250), "for sums, bounds must be at most 6.7e.240, got 1e.250"),
    ],
)
def test_sums_beyond_floats_are_refused_before_anything_is_charged(max_weight, bounds, message):
    ledger = PrivacyLedger(epsilon=1.0)
    weight = "weight" if max_weight else None
    options = {"keys": SEXES, "bounds": bounds, "max_weight": max_weight, "sample_weight": weight, "ledger": ledger}
    names = NAMES[groups] if max_weight else ["sex", "age"]
    with pytest.raises(ValueError, match=message):
        DPGroupBy("sex", statistics=["mean", "sum"], **options).fit(PEOPLE[names])
    assert ledger.spent.epsilon == 0
    # Means are between the bounds.
    estimates = DPGroupBy("sex", statistics="mean", random_state=0, **options).fit(PEOPLE[names]).to_frame()
    assert np.isfinite(estimates.to_numpy(float)).all()


@each("max_weight", [2.0**800, 1.0])
def test_sums_beyond_floats_are_infinite_if_the_bounds_are_private(max_weight):
    huge = PEOPLE.assign(age=1e307 * (1 + PEOPLE["age"] / 100), weight=PEOPLE["weight"] / 10 * max_weight)
    options = {"max_weight": max_weight, "sample_weight": "weight", "random_state": 0}
    fitted = DPGroupBy("sex", keys=SEXES, statistics=["mean", "sum"], bounds="private", **options).fit(huge)
    estimates = fitted.to_frame()
    assert (estimates["age_sum"] == np.inf).all()
    assert np.isfinite(estimates["age_mean"]).all()
    assert not estimates.isna().any(axis=None)


def test_a_missing_weight_is_an_error_where_missing_values_are():
    people = PEOPLE[["age", "weight"]].copy()
    people.loc[3, "weight"] = np.nan
    with pytest.raises(ValueError, match="column 'weight' holds a missing value"):
        mean(missing="error").fit(people)
    mean().fit(people)


def test_weights_are_no_keys_and_not_alone():
    with pytest.raises(ValueError, match="must not be one of the keys"):
        groups(sample_weight="sex").fit(PEOPLE)
    with pytest.raises(ValueError, match="no column beside"):
        mean().fit(PEOPLE[["weight"]])
