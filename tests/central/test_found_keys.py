"""Keys that a release of groups finds: the distribution of tiny releases is enumerated, and mistakes."""

import itertools
import math
import re
from datetime import date
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest

import skdp.engines
from skdp import DPGroupBy, PrivacyLedger, load, privacy_statement, save
from skdp.privacy import BudgetExceeded, Mu
from tests.conftest import often

pytestmark = pytest.mark.usefixtures("repeatable_draws")

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
    n_draws = len(counts) + 1  # missing keys are always counted
    for noise in itertools.product(range(-largest, largest + 1), repeat=n_draws):
        draw = np.array(noise)
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
@pytest.mark.parametrize("case", often(NEIGHBORS, NEIGHBORS[:1] + NEIGHBORS[4:]), ids=str)
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
    monkeypatch.setattr("skdp.central.groups._group_by.find_threshold", lambda *given: find(*given) - 1)
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
        ({"by": ["k", "j"]}, {"j": "b"}, "one column in `by`"),
        ({"statistics": ["count", "mean"], "bounds": (0.0, 1.0)}, {"x": 0.5}, "statistics='count'"),
        ({"totals": True}, {}, "no totals"),
        ({"keys": "all"}, {}, "`keys` must be a list, a mapping or a Domain"),
        ({}, {"k": [3, 4]}, "Column 'k' must be text with `keys='auto'`. Convert it"),
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
    with pytest.raises(ValueError, match="Column 'k' must have text, got other Python objects") as raised:
        make(ledger=ledger).fit(rows)
    assert "2024" not in str(raised.value)
    assert ledger.spent.epsilon == 0
    table = make(handle_unknown="ignore", random_state=0).fit(rows).to_frame()
    texts = [value for value in values if isinstance(value, str)]
    assert table.index.tolist() == [*texts, "y", None]
    assert table["count"].tolist() == pytest.approx([100] * len(table), abs=20)


def test_weights_are_refused():
    with pytest.raises(ValueError, match="no weights"):
        make(max_weight=2.0).fit(make_rows({"a": 9}), sample_weight=np.ones(9))
