"""Keys that a release of groups finds: the distribution of tiny releases is enumerated, and mistakes."""

import itertools
import math
import re
from datetime import date
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy

import skdp.engines
from skdp import DPGroupBy, PrivacyLedger, load, privacy_statement, save
from skdp.privacy import BudgetExceeded, Mu
from skdp.testing import replay_release
from tests.conftest import often

NOTHING = "ignore:No key is frequent enough"


def make(epsilon=1.0, delta=1e-6, **parameters):
    return DPGroupBy(epsilon, delta=delta, **{"by": "k", "keys": "auto", "statistics": "count"} | parameters)


def make_rows(counts):
    return pd.DataFrame({"k": pd.Series(np.repeat([*counts], [*counts.values()]), dtype=object)})


def enumerate_releases(monkeypatch, counts, epsilon, delta, k, largest):
    """Return the probability of each released table, for all noise up to `largest`, and of larger noise."""
    a = math.exp(-epsilon / k)
    rows, model = make_rows(counts), make(epsilon, delta, max_rows_per_person=k)
    distribution = {}
    for noise in itertools.product(range(-largest, largest + 1), repeat=len(counts)):
        # Missing keys are always counted, and are equally many in all tables.
        draw = np.array([*noise, 0])
        replaced = "skdp.central.statistics._calibrated_noise.discrete_laplace"
        monkeypatch.setattr(replaced, lambda source, scale, n, z=draw: z)
        table = model.fit(rows).to_frame()["count"]
        outcome = tuple(zip(table.index, table, strict=True))
        weight = math.prod((1 - a) / (1 + a) * a ** abs(z) for z in noise)
        distribution[outcome] = distribution.get(outcome, 0.0) + weight
    return distribution, 1 - sum(distribution.values())


def find_delta(first, second, epsilon):
    """Return the smallest delta of two distributions for an epsilon."""
    return sum(max(p - math.exp(epsilon) * second.get(outcome, 0.0), 0.0) for outcome, p in first.items())


NEIGHBORS = [
    ({"a": 2}, {"a": 2, "b": 1}, 1),  # a key of one person
    ({"a": 2}, {"a": 3}, 1),
    ({}, {"a": 1, "b": 1}, 2),  # two keys of one person
    ({"a": 1}, {"a": 2, "b": 1}, 2),  # an old and a new key
    ({}, {"a": 2}, 2),
]


@pytest.mark.filterwarnings(NOTHING)
@pytest.mark.parametrize("case", NEIGHBORS, ids=str)
def test_distributions_of_neighbors_are_within_epsilon_and_delta(monkeypatch, case):
    without, with_person, k = case
    epsilon, delta, largest = 3.0 * k, 0.01, 3
    tables = [enumerate_releases(monkeypatch, counts, epsilon, delta, k, largest) for counts in (without, with_person)]
    (first, rest), (second, other_rest) = tables
    assert max(rest, other_rest) < 4e-5
    for one, other in ((first, second), (second, first)):
        assert find_delta(one, other, epsilon) <= delta + rest + other_rest


@pytest.mark.filterwarnings(NOTHING)
def test_threshold_is_the_smallest(monkeypatch):
    """One less, and a key of one person is released with a larger probability than delta."""
    find = skdp.central.groups._group_by.find_threshold
    monkeypatch.setattr("skdp.central.groups._group_by.find_threshold", lambda *given, **step: find(*given, **step) - 1)
    without, with_person, k = NEIGHBORS[0]
    first, second = (enumerate_releases(monkeypatch, c, 3.0, 0.01, k, 3)[0] for c in (without, with_person))
    assert find_delta(second, first, 3.0) > 0.01


@pytest.mark.parametrize("seed", often(range(4), [0]))
def test_all_frequent_keys_are_found_and_counted(seed):
    """200,000 rows of 14,000 keys: two releases with half of epsilon each find 316 keys with a mean error of 1.9."""
    keys = np.random.default_rng(seed).zipf(1.32, 200_000).astype(str).astype(object)
    found = make(random_state=seed).fit(pd.DataFrame({"k": keys})).to_frame()
    truth = pd.Series(keys).value_counts()
    assert abs(len(found) - (truth >= 15).sum()) < 20
    errors = (found["count"] - truth[found.index]).abs()
    assert errors.mean() <= 0.9
    covered = truth[found.index].between(found["count_lower"], found["count_upper"])
    assert covered.mean() >= 0.95 - 4.9 * np.sqrt(0.05 * 0.95 / len(found))
    assert list(found.index) == sorted(found.index)


@pytest.mark.parametrize(("k", "n_rows"), [(1, 11), (3, 38)])
def test_intervals_of_keys_below_the_threshold_cover(k, n_rows):
    """Only the keys with large noise are found, so an interval around the noisy count never covers."""
    keys = np.repeat([f"k{i}" for i in range(2_000)], n_rows).astype(object)
    found = make(max_rows_per_person=k, random_state=0).fit(pd.DataFrame({"k": keys})).to_frame()
    assert len(found) >= 15
    covered = (found["count_lower"] <= n_rows) & (n_rows <= found["count_upper"])
    assert covered.mean() >= 0.95 - 4.9 * np.sqrt(0.05 * 0.95 / len(found))
    assert found["count_lower"].min() == 1
    # Keys whose noisy count would exceed the threshold so far by noise alone with a probability of 0.05 / 2 or less.
    model = make(max_rows_per_person=k, random_state=0)
    keys = np.repeat([f"k{i}" for i in range(100)], round(n_rows + 6 * k)).astype(object)
    found = model.fit(pd.DataFrame({"k": keys})).to_frame()
    threshold = int(re.search(r"that reach (\d+)", model.guarantee_.mechanism)[1])
    excess = found["count"] - threshold
    assert ((found["count_lower"] == 1) == (excess < k * np.log(2 / 0.05))).all()
    assert excess.between(k * np.log(1 / 0.05), k * np.log(2 / 0.05)).any()


def test_release_is_charged_and_described():
    ledger = PrivacyLedger(2.0, delta=1e-6)
    model = make(ledger=ledger, random_state=0).fit(make_rows({"x": 90, "y": 80, None: 70}))
    assert model.keys_[0].tolist() == ["x", "y", None]
    assert (model.guarantee_.epsilon, model.guarantee_.delta) == (1.0, 1e-6)
    assert ledger.spent.epsilon == 1.0
    assert ledger.spent.delta == 1e-6
    with pytest.raises(BudgetExceeded, match="has no rho"):  # the noise has one, the threshold may fail
        PrivacyLedger(rho=10.0).charge(model.guarantee_, "keys")
    (method,) = privacy_statement(model).to_dict()["method"]
    assert "Groups: the values of k with many rows." in method
    assert "counts of groups that reach 15" in method
    with pytest.raises(BudgetExceeded):
        model.fit(make_rows({"x": 90}))


def test_persons_with_several_keys_increase_the_threshold(tmp_path):
    person = np.repeat(np.arange(400), 3)
    rows = pd.DataFrame({"k": np.tile(["a", "b", "c"], 400).astype(object)})
    model = make(max_rows_per_person=3, random_state=1).fit(rows, person=person)
    assert model.guarantee_.unit == "person"
    assert model.excluded_fraction_[0] == pytest.approx(0, abs=0.3)
    counts = model.estimates_["count"]
    assert np.abs(counts[:, 0] - 400).max() < 15 * counts[0, 1]
    assert "reach 46" in model.guarantee_.mechanism
    save(model, tmp_path / "model.skdp")
    assert load(tmp_path / "model.skdp").to_frame().equals(model.to_frame())


def test_nothing_frequent_gives_the_missing_key():
    with pytest.warns(UserWarning, match="No key is frequent enough"):
        model = make(random_state=0).fit(make_rows({"a": 1, "b": 1}))
    assert model.to_frame().index.tolist() == [None]
    assert model.to_frame()["count"].iloc[0] < 15


@pytest.mark.filterwarnings(NOTHING)
def test_missing_key_alone_is_text():
    table = make(random_state=0).fit(pl.from_pandas(make_rows({"a": 1}))).to_frame()
    assert table["k"].dtype == pl.String
    assert table["k"].to_list() == [None]


def test_lazy_frames_give_the_same_release():
    rows = pl.from_pandas(make_rows({"x": 90, "y": 40}))
    found = [make(random_state=3).fit(given).to_frame() for given in (rows, rows.lazy())]
    assert found[0].equals(found[1])
    assert found[0]["k"].to_list() == ["x", "y"]


@pytest.mark.parametrize(
    ("parameters", "rows", "match"),
    [
        (
            {"delta": 0.0},
            {},
            "`delta` must be in .0, 1. with `keys='auto'` and a number as epsilon, and 0 otherwise, got 0",
        ),
        ({"keys": {"k": ["a"]}}, {}, "and 0 otherwise, got 1e-06"),
        ({"epsilon": Mu(1.0, delta=1e-6)}, {}, "`delta` must be 0.0 with `epsilon=Mu"),
        (
            {"epsilon": Mu(1.0, delta=1e-6), "delta": 0.0},
            {},
            "with `keys='auto'` and a number as epsilon, and 0 otherwise",
        ),
        ({"totals": True}, {"k": ["a", "total"]}, "Column 'k' must not contain 'total' with totals"),
        (
            {"totals": True, "statistics": "median", "bounds": (0.0, 1.0)},
            {"x": 0.5},
            "`totals` must be True for counts",
        ),
        ({"keys": "all"}, {}, "`keys` must be a list, a mapping, a Domain or .auto., got .all."),
        (
            {},
            {"k": pd.to_datetime(["2024-01-01"] * 2)},
            "`keys` must declare the values of column 'k' of dtype datetime",
        ),
        ({"by": ["k", "j"]}, {"j": pd.Timestamp(0)}, "`keys` must declare the values of column 'j'"),
        ({"by": None}, {}, "`by` must name key columns with `keys='auto'`, got None"),
        ({"epsilon": 1e-300}, {}, "`epsilon` must be large enough to find values of 2..62 rows"),
    ],
)
def test_mistakes_are_raised_before_the_charge(parameters, rows, match):
    ledger = PrivacyLedger(9.0, delta=1e-5)
    table = pd.DataFrame({"k": ["a", "b"]} | rows)
    if parameters.get("keys") == "all":
        parameters = parameters | {"delta": 0.0}
    with pytest.raises(ValueError, match=match):
        make(ledger=ledger, **parameters).fit(table)
    assert ledger.spent.epsilon == 0


OBJECTS = {
    "dates": [date(2024, 1, 1), date(2024, 2, 1)],
    "decimals": [Decimal("1.5"), Decimal("2.5")],
    "bytes": [b"a", b"b"],
    "lists": [["a"], ["b"]],
    "codes": [1, 2, "x"],
}


@pytest.mark.parametrize("values", OBJECTS.values(), ids=OBJECTS)
def test_objects_that_are_not_text_are_an_undeclared_key(values):
    """They were excluded without a word, and the only group had no rows."""
    rows = pd.DataFrame({"k": pd.Series([*values, "y", None] * 100, dtype=object)})
    ledger = PrivacyLedger(9.0, delta=1e-5)
    with pytest.raises(ValueError, match="Column 'k' must have text, whole numbers or booleans, got other") as raised:
        make(ledger=ledger).fit(rows)
    assert "2024" not in str(raised.value)
    assert ledger.spent.epsilon == 0
    table = make(handle_unknown="ignore", random_state=0).fit(rows).to_frame()
    texts = [value for value in values if isinstance(value, str)]
    assert table.index.tolist() == [*texts, "y", None]
    assert table["count"].tolist() == pytest.approx([100] * len(table), abs=20)


@pytest.mark.parametrize("library", [pd.DataFrame, pl.from_pandas, lambda frame: pl.from_pandas(frame).lazy()])
def test_whole_numbers_and_booleans_are_keys(library):
    """They keep their type and order; a number with a fraction is an undeclared key."""
    rows = pd.DataFrame({"k": [9.0, 10.0, 11.0, np.nan] * 100, "j": [True, False] * 200})
    for by, keys in (("k", [9, 10, 11, None]), ("j", [False, True])):
        model = make(by=by, statistics="count", random_state=0).fit(library(rows[[by]]))
        assert model.keys_[0].tolist() == keys
        assert [type(key) for key in model.keys_[0]] == [type(key) for key in keys]
        assert model.estimates_["count"][:, 0].tolist() == pytest.approx([400 / len(keys)] * len(keys), abs=20)
        counts = model.to_frame()
        assert len(counts) == len(keys)
    both = make(by=["j", "k"], totals=True, random_state=0).fit(library(rows))
    assert both.keys_[0].tolist()[-1] == "total"
    assert set(both.keys_[1]) == {"9", "10", "11", None, "total"}
    with pytest.raises(ValueError, match="Column 'k' must have text, whole numbers or booleans, got other numbers"):
        make(by="k").fit(library(rows[["k"]] + 0.5))


ALL = ["count", "mean", "sum", "std", "median", 0.9]


def make_sales(n_rows=3_000, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"k": rng.choice(["x", "y", None], n_rows), "j": rng.choice(["a", "b"], n_rows)})
    frame["k"] = frame["k"].where(frame["j"] == "a", "x")  # a combination that does not occur
    return frame.assign(v=rng.integers(0, 101, n_rows).astype(float), w=rng.choice([0.5, 1.0], n_rows))


@pytest.mark.parametrize("library", [pd.DataFrame, pl.from_pandas, lambda frame: pl.from_pandas(frame).lazy()])
@pytest.mark.parametrize("totals", [False, "quantiles"])
def test_all_statistics_of_several_keys_at_a_large_epsilon_are_exact(library, totals):
    sales = make_sales()
    model = make(1e6, by=["k", "j"], statistics=ALL, bounds=(0.0, 100.0), max_weight=1.0, totals=totals, random_state=0)
    model.fit(library(sales), sample_weight="w")
    found = dict(zip(zip(*model.keys_, strict=True), model.estimates_["v_mean"][:, 0], strict=True))
    cells = {("x", "a"), ("y", "a"), (None, "a"), ("x", "b")}
    sums = {(key, "total") for key in ("x", "y", None)} | {("total", key) for key in ("a", "b", "total")}
    assert found.keys() == (cells | sums if totals else cells)
    for (k, j), mean in found.items():
        inside = np.ones(len(sales), bool) if k == "total" else sales["k"].isna() if k is None else sales["k"] == k
        part = sales[inside & (True if j == "total" else sales["j"] == j)]
        assert mean == pytest.approx(np.average(part["v"], weights=part["w"]), abs=1e-3)
        row = [*zip(*model.keys_, strict=True)].index((k, j))
        assert model.estimates_["count"][row, 0] == pytest.approx(part["w"].sum(), abs=1e-3)
        order = part.sort_values("v")
        middle = order["v"][order["w"].cumsum() >= part["w"].sum() / 2].iloc[0]
        assert model.estimates_["v_median"][row, 0] == pytest.approx(middle, abs=1)
    table = model.to_frame()
    assert len(table) == len(found)
    # Nothing is negative, so nothing changes; NumPy added numbers beyond the end of the cells to the totals.
    simplex = model.to_frame(postprocess="simplex")
    assert np.allclose(simplex[["count", "v_sum"]], table[["count", "v_sum"]], atol=1e-3)


def bound_tail(distance, n_numbers):
    """The probability that one of n numbers, uniform in a cube with a gamma radius, is at least `distance`."""
    radius = np.linspace(distance, distance + 60, 200_001)
    density = scipy.stats.gamma.pdf(radius, n_numbers + 1) * (1 - distance / radius)
    return scipy.integrate.trapezoid(density, radius) / 2


@pytest.mark.parametrize(("statistics", "n_numbers", "part"), [(["mean"], 3, 1), (["mean", "std", 0.9], 4, 0.43)])
@pytest.mark.parametrize("weight", [{}, {"max_weight": 2.0}])
def test_threshold_of_joint_noise_is_the_smallest(statistics, n_numbers, part, weight):
    """Two rows of a person have one key, or two keys."""
    rows = make_sales(10)[["k", "v"]]
    model = make(statistics=statistics, bounds=(0.0, 100.0), max_rows_per_person=2, random_state=0, **weight)
    with pytest.warns(UserWarning, match="No key"):
        model.fit(rows, **({"sample_weight": np.ones(10)} if weight else {}))
    threshold = int(re.search(r"that reach (\d+)", model.guarantee_.mechanism)[1]) // (2 if weight else 1)
    scale = 2 / float(re.search(r"\((\d+)% of the budget", model.guarantee_.mechanism + "(100% of the budget")[1]) * 100
    assert scale == pytest.approx(2 / part)
    failures = [
        max(bound_tail((t - 2) / scale, n_numbers), 2 * bound_tail((t - 1) / scale, n_numbers))
        for t in (threshold, threshold - 1)
    ]
    assert failures[0] <= 1e-6 * (1 + 1e-6) < failures[1]


@pytest.mark.parametrize(("n_rows", "totals"), [(15, True), (20, False), (24, True)])
def test_intervals_of_statistics_of_keys_near_the_threshold_cover(n_rows, totals):
    """Below the threshold, keys are found by large noise of all of their numbers."""
    keys = np.repeat([f"k{i}" for i in range(1_500)], n_rows).astype(object)
    rows = pd.DataFrame({"k": keys, "x": np.tile(np.linspace(0, 100, n_rows), 1_500)})
    model = make(statistics=["count", "mean", "sum", "std"], bounds=(0.0, 100.0), totals=totals, random_state=0)
    found = model.fit(rows).to_frame()
    n_found = len(found) - totals
    truth = {"count": n_rows, "x_mean": 50, "x_sum": 50 * n_rows, "x_std": np.linspace(0, 100, n_rows).std()}
    assert n_found >= 15
    for name, value in truth.items():
        lower, upper = found[f"{name}_lower"], found[f"{name}_upper"]
        covered = ((lower <= value) & (value <= upper))[:n_found]
        assert covered.mean() >= 0.95 - 4.9 * np.sqrt(0.05 * 0.95 / n_found), name
        if totals:
            total = value if name in ("x_mean", "x_std") else n_found * value
            assert lower["total"] <= total <= upper["total"], name


def test_keys_are_found_as_by_counts_alone_with_as_much_budget():
    keys = np.random.default_rng(0).zipf(1.32, 100_000).astype(str).astype(object)
    rows = pd.DataFrame({"k": keys, "x": np.arange(100_000) % 101})
    model = make(statistics=["mean", "median"], bounds=(0, 100), random_state=0).fit(rows)
    error = model.to_frame().filter(like="std_error").iloc[0, 0]
    assert error > 0
    counts_std = make(statistics=["count", "mean", "median"], bounds=(0, 100), random_state=0).fit(rows)
    std = counts_std.estimates_["count"][0, 1]
    alone = make(np.sqrt(2) / std, random_state=0).fit(rows[["k"]])
    assert alone.estimates_["count"][0, 1] == pytest.approx(std, rel=0.02)
    assert len(counts_std.keys_[0]) >= 0.97 * len(alone.keys_[0])


class Name(str):
    """Text whose methods fail."""

    __slots__ = ()

    def __eq__(self, other):
        raise ValueError(str.__str__(self))

    def __hash__(self):
        raise ValueError(str.__str__(self))


HOSTILE = ["a", Name("a"), "b", None, math.nan, "\ud800", 7, 1.5, True, b"a", ("a",), "(other)", "total", "", "é" * 40]


@pytest.mark.parametrize("keys", [["k"], ["k", "j"]])
@pytest.mark.parametrize("statistics", [["count", "mean"], ["mean", "median", 0.9]])
def test_neighbors_with_hostile_keys_cost_at_most_epsilon(keys, statistics):
    model = make(
        2.0, by=keys, statistics=statistics, bounds=(0, 10), handle_unknown="ignore", totals="mean" in statistics
    )
    texts = HOSTILE * 40
    rows = pd.DataFrame({"k": pd.Series(texts, dtype=object), "x": np.arange(600) % 11})
    rows["j"] = rows["k"].iloc[::-1].to_numpy()
    used = []
    for row in (0, 1, 2, 7):  # 1 has a text of a class of its own, 2 and 7 no group with two keys
        replay = replay_release(model, rows[[*keys, "x"]], rows[[*keys, "x"]].drop(row), random_state=row)
        assert replay.passed, replay.findings
        used.append(replay.epsilon)
    assert 0 < max(used) <= 2 * (1 + 1e-9)


COLUMNS = {
    "chunks": pa.chunked_array([pa.array(texts).dictionary_encode() for texts in (["x", None, "y"], ["y", "x", None])]),
    "repeated": pa.chunked_array([pa.DictionaryArray.from_arrays([0, None, 2, 2, 1, None], ["x", "x", "y"])]),
    "null": pa.chunked_array([pa.DictionaryArray.from_arrays([0, 3, 2, 2, 1, None], ["x", "x", "y", None])]),
    "category": pd.Series(["x", None, "y", "y", "x", None], dtype="category"),
    "string": pd.Series(["x", None, "y", "y", "x", None], dtype="string"),
    "Categorical": pl.Series(["x", None, "y", "y", "x", None], dtype=pl.Categorical),
}


@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
def test_keys_of_all_dtypes_are_equal(column):
    library = type(column).__module__.partition(".")[0]
    make_table = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}[library]
    found = make(1e5, random_state=0).fit(make_table({"k": column}))
    assert found.keys_[0].tolist() == ["x", "y", None]
    assert found.estimates_["count"][:, 0].tolist() == [2, 2, 2]
