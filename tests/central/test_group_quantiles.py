"""Quantiles by group: the distribution of the endpoints of intervals is enumerated for all small tables."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from sklearn.base import clone

import skdp.engines  # noqa: F401, so that `fit` reads a LazyFrame
from skdp import Domain, DPGroupBy
from skdp.central._quantiles import VALUE_MASS, Candidates, Masses, score_endpoints
from skdp.privacy import Mu, PrivacyBudget, Rho
from skdp.testing import replay_release
from tests.conftest import diagonal, often
from tests.errors import refusal

# Candidates 0, 1, 2, ..., 8; around 4, the candidates of a lower endpoint are 0, 2, 3 and 4.
CANDIDATES = Candidates(0.0, 8.0, 0)
TABLES = [list(counts) for counts in itertools.product(range(4), repeat=4)]
PROBABILITIES = [Fraction(1, 2), Fraction(1, 10), Fraction(3, 4)]
HALF = PrivacyBudget("epsilon", Fraction(1, 2))


def make_masses(numbers, counts, candidates=CANDIDATES):
    cells = np.append(numbers, 0), np.append(counts, 1)
    return Masses(candidates, *cells, np.array([0, len(numbers)]))


def score(masses, *parameters, is_upper):
    """Return the candidates of the only group around 4, their scores and the rate."""
    endpoints = score_endpoints(np.array([4]), masses, *parameters, is_upper=is_upper)
    assert endpoints.n_candidates.tolist() == [len(endpoints.candidates[0])]
    return endpoints.candidates[0].tolist(), endpoints.scores[0].tolist(), endpoints.rate


def make_scores(counts, probability, budget=HALF, tail=Fraction(1, 40), *, is_upper=False):
    """Score the endpoints around the candidate 4 for values at 0, 2, 3, 4, or at 8, 6, 5, 4."""
    values = np.array([8, 6, 5, 4] if is_upper else [0, 2, 3, 4])
    order = np.argsort(values)
    cells = values[order], np.array(counts)[order]
    masses = make_masses(*cells)
    probability = 1 - probability if is_upper else probability
    candidates, scores, rate = score(masses, probability, budget, tail, is_upper=is_upper)
    assert candidates == values.tolist()
    return scores, rate


def exceedance(scores, rate, counts, probability, total=None):
    """Return the exact probability that more than the fraction `probability` of the values is below the endpoint."""
    total = sum(counts) if total is None else total
    weights = np.exp([float(rate) * score for score in scores])
    below = np.append(0, np.cumsum(counts)[:-1])
    is_above = [n > probability * total for n in below.tolist()]
    return weights[is_above].sum() / weights.sum()


@pytest.mark.parametrize(
    ("tail", "epsilon", "probability", "is_upper"),
    diagonal([Fraction(1, 40), Fraction(1, 4)], [1e-20, 0.01, 0.5, 4.0], PROBABILITIES, [False, True]),
)
def test_endpoint_exceeds_the_quantile_of_no_table_more_often_than_stated(probability, epsilon, tail, is_upper):
    budget = PrivacyBudget("epsilon", Fraction(epsilon))
    largest = 0.0
    for counts in TABLES:
        scores, rate = make_scores(counts, probability, budget, tail, is_upper=is_upper)
        assert max(scores) == 0
        largest = max(largest, exceedance(scores, rate, counts, probability))
    assert largest <= tail * (1 + 1e-12)  # rounding of floats
    if epsilon < 1:
        assert largest >= tail / 8


@pytest.mark.parametrize(("epsilon", "probability"), diagonal([0.01, 0.5, 4.0], PROBABILITIES))
def test_interval_misses_the_quantile_of_no_table_more_often_than_stated(probability, epsilon):
    """At most one endpoint is on the wrong side, so each has the tail of the interval."""
    budget, tail = PrivacyBudget("epsilon", Fraction(epsilon)), Fraction(1, 20)
    values = np.array([0, 2, 3, 4, 5, 6, 8])
    largest = 0.0
    for counts in itertools.islice(itertools.product(range(3), repeat=7), 0, None, 2):
        masses = make_masses(values, np.array(counts))
        missed = 0.0
        for is_upper in (False, True):
            _, scores, rate = score(masses, probability, budget, tail, is_upper=is_upper)
            side = counts[:4] if not is_upper else counts[:2:-1]
            missed += exceedance(scores, rate, side, 1 - probability if is_upper else probability, sum(counts))
        largest = max(largest, missed)
    assert 0 < largest <= tail


@pytest.mark.parametrize(("probability", "is_upper"), diagonal(PROBABILITIES, [False, True]))
def test_added_value_changes_distances_by_at_most_the_sensitivity(probability, is_upper):
    changes = []
    for counts in TABLES:
        before, _ = make_scores(counts, probability, is_upper=is_upper)
        for cell in range(4):
            more = [n + (index == cell) for index, n in enumerate(counts)]
            after, _ = make_scores(more, probability, is_upper=is_upper)
            changes.append(max(abs(x - y) for x, y in zip(before, after, strict=True)))
    numerator, denominator = probability.as_integer_ratio()
    assert max(changes) == max(numerator, denominator - numerator)


KEYS = {"key": ["a", "b"]}
VALUES = (0.0, 30.0, 100.0, math.nan)


@pytest.mark.parametrize(
    ("seeds", "persons", "epsilon"),
    diagonal(
        often([range(5), range(5, 30)], [range(5)]), [False, True], [1.0, Rho(0.1, delta=1e-6), Mu(0.5, delta=1e-6)]
    ),
)
def test_neighbors_by_record_or_person_cost_at_most_epsilon(seeds, epsilon, persons):
    model = DPGroupBy(
        epsilon,
        by="key",
        keys=KEYS,
        statistics=["count", "median", 0.9],
        bounds=(0, 100),
        handle_unknown="ignore",
        max_rows_per_person=1 + persons,
    )
    records = [(key, x) for key in ("a", "b", "c") for x in VALUES]
    rng = np.random.default_rng(0)
    used = []
    for seed in seeds:
        rows = [records[index] for index in rng.integers(0, len(records), 3 + persons)]
        table = pd.DataFrame(rows, columns=["key", "x"])
        replay = replay_release(model, table, table[: -1 - persons], random_state=seed)
        assert replay.passed, replay.findings
        used.append(replay.epsilon / replay.guarantee.epsilon)
    assert 0.25 < max(used) <= 1 + 1e-9


def test_quantiles_of_many_groups_of_distant_values_are_exact():
    """Pairs of a group and a candidate are further apart than integers of 64 bits."""
    groups = range(1_100)
    table = pd.DataFrame({"key": groups, "x": np.where(np.arange(1_100) % 2, 4.5, -4.5)})
    model = DPGroupBy(1e7, by="key", keys={"key": groups}, statistics="median", bounds=(-4.5, 4.5), random_state=0)
    found = model.set_params(intervals=False).fit(pd.concat([table, table])).estimates_["x_median"][:, 0]
    assert (found == table["x"]).all()


def test_equal_values_at_the_end_of_a_batch_and_the_beginning_of_the_next_one_are_added():
    """A sorted table in two batches has the quantiles of the table in memory."""
    table = pa.table({"x": [*map(float, range(31)), *[30.0] * 80]})
    batches = ds.InMemoryDataset([table[:91], table[91:]])
    model = DPGroupBy(0.1, by=None, statistics="median", bounds=(0, 100), intervals=False)
    for seed in range(8):
        found, expected = (clone(model).set_params(random_state=seed).fit(rows) for rows in (batches, table))
        assert found.estimates_["x_median"][0, 0] == expected.estimates_["x_median"][0, 0]


@pytest.mark.parametrize(("epsilon", "level"), [(1.0, 0.95), (Rho(0.05, delta=1e-6), 0.5)])
def test_intervals_cover_quantiles_of_tables_of_any_shape(epsilon, level):
    rng, n_groups, n_rows = np.random.default_rng(1), 50, 60
    keys = np.repeat(np.arange(n_groups), n_rows)
    shapes = {
        "skewed": rng.gamma(2, 10, keys.size).clip(0, 100),
        "ties": rng.choice([0.0, 1.0, 50.0], keys.size, p=[0.5, 0.3, 0.2]),
        "gap": np.where(rng.random(keys.size) < 0.5, 10.0, 90.0),
        "single": np.full(keys.size, 37.3),
    }
    table = pd.DataFrame(shapes).assign(key=keys)
    fitted = DPGroupBy(
        epsilon,
        by="key",
        keys={"key": range(n_groups)},
        statistics=["median", 0.9],
        bounds=(0.0, 100.0),
        confidence_level=level,
        random_state=0,
    ).fit(table)
    slack = 4 * math.sqrt(level * (1 - level) / n_groups)
    for name, (suffix, probability) in itertools.product(shapes, (("median", 0.5), ("q90", 0.9))):
        values = shapes[name].reshape(n_groups, n_rows)
        quantiles = np.quantile(values, probability, axis=1, method="inverted_cdf")
        value, error, lower, upper = fitted.estimates_[f"{name}_{suffix}"].T
        assert np.isnan(error).all()
        assert ((lower <= value) & (value <= upper)).all()
        assert np.mean((lower <= quantiles) & (quantiles <= upper)) >= level - slack, (name, suffix)


@pytest.mark.parametrize("value", [0.0, 100.0])
def test_intervals_of_a_low_level_at_a_bound_are_released(value):
    """The odds of the level are below 1, and the only candidate of an endpoint is the bound."""
    model = DPGroupBy(1e6, by=None, statistics="median", bounds=(0, 100), confidence_level=0.1, random_state=0)
    estimate = model.fit(np.full((50, 1), value)).estimates_["x0_median"]
    assert estimate[0, [0, 2, 3]].tolist() == [value] * 3


def test_quantiles_at_large_epsilon_are_exact_in_all_libraries():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"key": rng.choice(["a", "b", "c"], 3000), "x": rng.integers(0, 101, 3000), "y": rng.random(3000)}
    )
    frame.loc[::7, "y"] = np.nan
    model = DPGroupBy(
        1e5,
        by="key",
        keys={"key": ["b", "a"]},
        statistics=["median", 0.1, "count"],
        bounds={"x": (0, 100), "y": (0.0, 1.0)},
        handle_unknown="ignore",
        random_state=0,
    )
    found = model.fit(frame).to_frame()
    assert [name for name in found if not name.startswith("count")] == [
        f"{column}_{name}{suffix}"
        for column in "xy"
        for name in ("median", "q10")
        for suffix in ("", "_lower", "_upper")
    ]
    for key, rows in frame[frame["key"] != "c"].groupby("key"):
        for name, probability in (("median", 0.5), ("q10", 0.1)):
            assert found.loc[key, f"x_{name}"] == rows["x"].quantile(probability, "lower")
            assert found.loc[key, f"y_{name}"] == pytest.approx(rows["y"].quantile(probability), abs=2e-3)
            assert found.loc[key, f"x_{name}_lower"] <= found.loc[key, f"x_{name}"] <= found.loc[key, f"x_{name}_upper"]
            assert found.loc[key, f"y_{name}_upper"] - found.loc[key, f"y_{name}_lower"] < 0.01
    for table in (pl.from_pandas(frame), pl.from_pandas(frame).lazy()):
        np.testing.assert_allclose(model.fit(table).to_frame().to_pandas().set_index("key"), found)


def test_endpoints_of_a_constant_column_are_its_value():
    """Values that are equal to a candidate are neither below nor above it."""
    rows = pd.DataFrame({"x": [5] * 40})
    fitted = DPGroupBy(1e4, by=None, bounds=(0, 9), statistics=["median", 0.9], random_state=0).fit(rows)
    for estimate in fitted.estimates_.values():
        assert estimate[0, [0, 2, 3]].tolist() == [5, 5, 5]


def test_without_keys_all_rows_are_one_group():
    frame = pd.DataFrame({"x": np.arange(1001.0), "y": -np.arange(1001.0)})
    bounds = {"x": (0, 1000), "y": (-1000, 0)}
    model = DPGroupBy(1e5, by=None, statistics=["count", "mean", "median"], bounds=bounds, random_state=0)
    for table in (frame, frame.to_numpy(), pl.from_pandas(frame)):
        estimates = model.set_params(bounds=[*bounds.values()] if table is not frame else bounds).fit(table).estimates_
        assert model.keys_ == []
        assert [round(estimate[0, 0]) for estimate in estimates.values()][:3] == [1001, 500, 500]
        assert len(model.to_frame()) == 1


@pytest.mark.parametrize(
    ("statistics", "weighted"),
    [("count", False), (["count", "median"], False), ("median", False), ("count", True), (["sum", "count"], True)],
)
def test_one_group_of_all_rows_takes_all_statistics(statistics, weighted):
    frame = pl.DataFrame({"x": np.arange(1001.0)}).with_columns(w=pl.lit(1.0))
    weights = {"sample_weight": "w"} if weighted else {}
    frame = frame if weighted else frame.drop("w")
    bounds, max_weight = (0, 1000), 1 if weighted else None
    model = DPGroupBy(1e5, by=None, statistics=statistics, bounds=bounds, max_weight=max_weight, random_state=0)
    truth = {"count": 1001, "x_median": 500, "x_sum": 500_500}
    for table in (frame.to_pandas(), frame, frame.lazy()):
        found = {name: round(estimate[0, 0]) for name, estimate in model.fit(table, **weights).estimates_.items()}
        assert found == {name: truth[name] for name in found}
        assert len(found) == len([statistics] if isinstance(statistics, str) else statistics)


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"statistics": [1.0]}, r"`statistics` must be in \[1e-6, 1 - 1e-6\]"),
        ({"statistics": [50]}, "got 50. Divide a percentile by 100: the median is 0.5"),
        ({"statistics": ["median", 0.25, 0.25]}, "must not name a statistic twice"),
        ({"statistics": ["median", 0.5]}, r"must not name a statistic twice, got \['median', 0.5\]"),
        ({"statistics": [0.1234567, 0.1234568]}, "must not name a statistic twice"),  # both are q12.3457
        ({"statistics": ["mode"]}, "`statistics` must be"),
    ],
)
def test_mistakes_raise_errors_before_the_charge(parameters, match):
    frame = pd.DataFrame({"key": [1, 2], "x": [0.5, 1.0]})
    given = {"keys": {"key": [1, 2]}, "bounds": (0, 1)} | parameters
    with refusal(ValueError, match) as ledger:
        DPGroupBy(by="key", ledger=ledger, **given).fit(frame)


def test_no_budget_is_spent_on_intervals_without_them():
    frame = pd.DataFrame({"x": np.arange(2001.0)})
    options = {"by": None, "statistics": ["median", 0.9], "bounds": (0.0, 1e6)}
    with_intervals, without = (DPGroupBy(0.3, intervals=intervals, **options) for intervals in (True, False))
    spreads = []
    for model in (with_intervals, without):
        released = [model.set_params(random_state=seed).fit(frame).estimates_["x_q90"][0, 0] for seed in range(12)]
        spreads.append(np.abs(np.array(released) - 1800).mean())
    assert spreads[1] < spreads[0] / 2
    assert list(without.to_frame()) == ["x_median", "x_q90"]
    assert without.guarantee_.losses[0].epsilon == pytest.approx(0.15)
    assert with_intervals.guarantee_.losses[0].epsilon == pytest.approx(0.075)


@pytest.mark.parametrize("largest", [3, 2**40])
def test_first_cut_has_at_least_a_mass_on_its_left(largest):
    """With large weights, masses exceed 64 bits."""
    rng = np.random.default_rng(0)
    candidates = Candidates(-300.0, 700.0, 2)
    numbers = np.unique(np.append(rng.integers(-30_000, 70_000, 40), [-30_000, 0, 10_000, 70_000]))
    masses = make_masses(numbers, rng.integers(1, largest + 1, numbers.size), candidates)
    whole = int(masses.totals[0]) * VALUE_MASS
    wanted = [1, VALUE_MASS, VALUE_MASS + 1, whole - 1, whole, *(whole * i // 97 for i in range(1, 97))]
    wanted = np.array([wanted], np.int64 if largest == 3 else object)
    group = np.zeros(len(wanted[0]), int)
    found = [part[0].tolist() for part in masses.find_first_cuts(group[:1], wanted)]
    cuts = [place * VALUE_MASS + rest for place, rest in zip(*found[:2], strict=True)]
    inside, before = (masses.find_masses(group, [cut - i for cut in cuts]) for i in range(2))
    assert inside == found[2]
    assert before == [mass - step for mass, step in zip(*found[2:], strict=True)]
    for mass, first, last in zip(wanted[0].tolist(), before, inside, strict=True):
        assert first < mass <= last


@pytest.mark.parametrize(
    ("low", "high", "decimals"), [(-4.0, 4.0, None), (0.0, 1.0, 0), (-350.0, 120.0, 1), (250.0, 90_000.0, 0)]
)
def test_candidate_of_a_cut_contains_it(low, high, decimals):
    candidates, rng = Candidates.between(low, high, decimals), np.random.default_rng(0)
    length = candidates.length
    assert candidates.find_start(candidates.first) == 0
    for position in {0, length - 1, *range(min(length, 300)), *rng.integers(0, length, 500).tolist()}:
        for cut in (position * VALUE_MASS, (position + 1) * VALUE_MASS - 1):
            found = candidates.find_candidate(cut)
            assert candidates.find_start(found) <= position < candidates.find_start(found + 1)
    assert candidates.find_candidate(length * VALUE_MASS) == candidates.last


def test_tail_quantiles_of_some_hundred_values_are_seldom_above_the_maximum_of_wide_bounds():
    """With a third of the budget for the quantile, 73 % of the releases were above the maximum."""
    n_above = 0
    for seed in range(30):
        values = np.random.default_rng(seed).lognormal(9, 1, 500)
        model = DPGroupBy(1.0, by=None, bounds=(0.0, 1e8), statistics=0.9, random_state=seed)
        n_above += model.fit(pd.DataFrame({"x": values})).estimates_["x_q90"][0, 0] > values.max()
    assert n_above <= 8


def test_counts_beside_99_quantiles_have_a_tenth_of_the_budget():
    """By the numbers of choices, they would have a hundredth of it."""
    statistics = ["count", *(k / 100 for k in range(1, 100))]
    rows = pd.DataFrame({"x": np.arange(200.0)})
    groups = DPGroupBy(by=None, bounds=(0.0, 200.0), statistics=statistics, random_state=0).fit(rows)
    assert groups.estimates_["count"][0, 1] == pytest.approx(np.sqrt(200), rel=0.01)


@pytest.mark.long
def test_counts_beside_many_quantiles_of_totals_have_a_part_of_the_budget():
    """Quantiles need more than 39,601 times as much, and had all of the budget."""
    names = [f"key{i}" for i in range(11)]
    rows = pd.DataFrame(np.zeros((2, 12), int), columns=[*names, "x"])
    statistics = ["count", 0.3, 0.5, 0.8]
    groups = DPGroupBy(
        by=names, keys={name: [0] for name in names}, bounds=(0.0, 1.0), statistics=statistics, totals="quantiles"
    )
    fitted = groups.fit(rows)
    assert np.isfinite(fitted.estimates_["count"]).all()


def test_median_of_declared_halves_beside_whole_numbers():
    """The first and the last value are whole, so fractions were an error that named bounds."""
    halves = pd.DataFrame({"sex": "f", "score": [1.0, 2.5, 4.5, 5.0] * 50})
    domain = Domain({"score": [1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5]})
    found = DPGroupBy(50.0, by="sex", keys={"sex": ["f"]}, bounds=domain, statistics=["median"], random_state=0).fit(
        halves
    )
    assert 2.5 <= found.estimates_["score_median"][0, 0] <= 4.5
