"""Pairs of columns in additive models: what a row changes in scores, which pairs are chosen, and what is learnt."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.metrics import r2_score

from skdp import DPAdditiveClassifier, DPAdditiveRegressor, Interval, PrivacyLedger, load, save
from skdp.central.additive._backfitting import _Descent
from skdp.central.additive._pairs import SCORE_FACTOR, Pair, group_bins, scores
from skdp.central.additive._sums import (
    STEPS,
    ClassResiduals,
    NumberResiduals,
    Rows,
    crossed_counts,
    crossed_sums,
)
from skdp.central.statistics import Bins, Noise
from skdp.domain import Categories
from skdp.privacy import Mu, read_share
from tests.conftest import each

rng = np.random.default_rng(0)
N = 4_000
X = pd.DataFrame({"a": rng.uniform(-1, 1, N), "b": rng.uniform(-1, 1, N), "c": rng.choice(["x", "y", "z"], N)})
PRODUCT = 3 * X["a"] * X["b"]
NUMBER = (X["a"] + PRODUCT + rng.normal(0, 0.3, N)).to_numpy()
CLASS = (rng.random(N) < 1 / (1 + np.exp(-2 * PRODUCT))).astype(int).to_numpy()
ONE = Mu(1, delta=1e-6)
DECLARED = {"bounds": (-1, 1), "categories": {"c": ["x", "y", "z"]}, "random_state": 0}


def classifier(epsilon=ONE, **more):
    return DPAdditiveClassifier(epsilon, **DECLARED | {"classes": [0, 1]} | more)


def regressor(epsilon=ONE, **more):
    return DPAdditiveRegressor(epsilon, **DECLARED | {"target_bounds": (-5, 5)} | more)


MODELS = pytest.mark.parametrize(
    ("make", "target"), [(classifier, CLASS), (regressor, NUMBER)], ids=["classes", "numbers"]
)
RESIDUALS = {
    "two classes": (ClassResiduals(2), [0, 1]),
    "three classes": (ClassResiduals(3), [0, 1, 2]),
    "numbers": (NumberResiduals(STEPS // 3), [-STEPS, 7, STEPS]),
}


def values_of(counts):
    """Return a column with a bin for each of a few values."""
    places = np.append(np.arange(len(counts)), len(counts))
    return Bins(Categories(list(range(len(counts)))), places, np.array(counts, float), np.ones(len(counts)))


def pairs_of(*columns):
    groups = [group_bins(column) for column in columns]
    return [
        Pair((first, second), (groups[first], groups[second]))
        for first, second in itertools.combinations(range(len(columns)), 2)
    ]


@pytest.mark.parametrize(("residuals", "targets"), RESIDUALS.values(), ids=RESIDUALS)
def test_a_row_changes_scores_by_no_more(residuals, targets):
    """All rows of a small table, and none more."""
    # Of a value without rows, a residual moves what is left by most.
    pairs = pairs_of(values_of([9, 1, 0]), values_of([5, 5]), values_of([0.1, 3]))
    crossings = [pair.crossing() for pair in pairs]
    few = [np.array([0, 1, 1, 0]), np.array([0, 1, 2, 1]), np.array([1, 0, 0, 1])]
    before = np.array([targets[place % len(targets)] for place in range(4)])
    start = np.zeros(residuals.n_outputs, np.int64)
    most = SCORE_FACTOR * (math.isqrt(residuals.n_outputs * residuals.square - 1) + 1)
    largest = 0
    for scale in (0, 1 << 26):
        functions = [rng.integers(-scale, scale + 1, (size, residuals.n_outputs)) for size in (4, 3, 3)]
        arguments = crossings, functions, start, residuals
        for *bins, target in itertools.product(range(4), range(3), range(3), targets):
            codes = [np.append(column, bin_) for column, bin_ in zip(few, bins, strict=True)]
            more, fewer = Rows(codes, np.append(before, target)), Rows(few, before)
            counts = crossed_counts(more, crossings) - crossed_counts(fewer, crossings)
            assert np.abs(counts).sum() <= len(pairs)
            of_more, of_fewer = (scores(crossed_sums(rows, *arguments), pairs) for rows in (more, fewer))
            largest = max(largest, *np.abs(np.subtract(of_more, of_fewer)).tolist())
    assert 0.7 * most < largest <= most


def test_cells_of_many_pairs_are_counted_as_those_of_each():
    """One column is in no pair, and another one has no neighbour in a table of four."""
    sizes = [2, 3, 4, 2, 5, 3]
    columns = [values_of(np.ones(size)) for size in sizes]
    groups = [group_bins(column) for column in columns]
    n_rows = 200
    codes = [rng.integers(0, size + 1, n_rows) for size in sizes]
    targets = rng.integers(-STEPS, STEPS, n_rows)
    rows = Rows(codes, targets)
    zeros = [np.zeros((size + 1, 1), np.int64) for size in sizes]
    residuals = NumberResiduals(2 * STEPS)
    without_fourth = (0, 1, 2, 4, 5)
    for numbers in (itertools.permutations(without_fourth, 2), [(5, 0)], [(1, 0), (2, 5)]):
        pairs = [Pair((first, second), (groups[first], groups[second])) for first, second in numbers]
        crossings = [pair.crossing() for pair in pairs]
        counts = crossed_counts(rows, crossings)
        sums = crossed_sums(rows, crossings, zeros, np.zeros(1, np.int64), residuals)[:, 0]
        expected_counts, expected_sums = [], []
        for first, second in [pair.columns for pair in pairs]:
            for one, other in itertools.product(range(sizes[first]), range(sizes[second])):
                is_here = (codes[first] == one) & (codes[second] == other)
                expected_counts.append(is_here.sum())
                expected_sums.append(targets[is_here].sum())
        assert counts.tolist() == expected_counts
        assert sums.tolist() == expected_sums


def test_sums_of_cells_are_in_the_order_of_a_table():
    first, second = values_of([1, 1]), values_of([1, 1, 1])
    (pair,) = pairs_of(first, second)
    rows = Rows([np.array([0, 1, 1, 2]), np.array([2, 0, 0, 1])], np.array([5, 7, 8, 9]))
    zeros = [np.zeros((3, 1), np.int64), np.zeros((4, 1), np.int64)]
    sums = crossed_sums(rows, [pair.crossing()], zeros, np.zeros(1, np.int64), NumberResiduals(STEPS))
    assert sums.reshape(2, 3).tolist() == [[0, 0, 5], [15, 0, 0]]
    assert crossed_counts(rows, [pair.crossing()]).reshape(2, 3).tolist() == [[0, 0, 1], [2, 0, 0]]
    # With single columns, nothing is left.
    alike = np.outer([3, 9], [1, 4, 7])[:, :, np.newaxis] * 64
    sizes = [np.array([3.0, 9.0]), np.array([1.0, 4.0, 7.0])]
    (pair,) = pairs_of(*map(values_of, sizes))
    assert scores(alike.reshape(6, 1), [pair])[0] < 0.03 * alike.sum()


@MODELS
def test_a_product_is_chosen_and_learnt(make, target):
    model = make(Mu(5, delta=1e-6)).fit(X, target)
    assert model.interactions_ == [("a", "b")]
    shape = model.shape_(("a", "b"))
    first, second = shape.bins
    middles = [np.array(bins.edges[:-1]) / 2 + np.array(bins.edges[1:]) / 2 for bins in (first, second)]
    slope = 3 if make is regressor else 6
    wanted = slope * np.outer(*middles)
    assert shape.values[:-1, :-1] == pytest.approx(wanted, abs=0.35 * slope)
    assert shape.is_supported[:-1, :-1].all()
    assert not shape.is_supported[-1].any()  # nothing is missing
    assert shape.counts[:-1, :-1].sum() == pytest.approx(N, rel=0.05)
    # Functions of single columns have what is theirs.
    for axis in (0, 1):
        assert np.abs(np.average(shape.values, axis=axis, weights=shape.counts.sum(axis=1 - axis))).max() < 0.1 * slope
    assert len(model.shapes_) == len(model.bin_counts_) == 4


def test_a_product_is_predicted():
    model = regressor(Mu(5, delta=1e-6))
    additive = clone(model).set_params(interactions=0).fit(X, NUMBER)
    assert additive.interactions_ == []
    assert r2_score(NUMBER, additive.predict(X)) < 0.3
    assert r2_score(NUMBER, model.fit(X, NUMBER).predict(X)) > 0.85
    # What a row adds is in the cells of its values.
    row = pd.DataFrame({"a": [0.9], "b": [-0.9], "c": ["y"]})
    total = model.intercept_
    for name in ("a", "b", "c"):
        shape = model.shape_(name)
        total += shape.values[shape.bins.encode(row[name])[0]]
    shape = model.shape_(("a", "b"))
    total += shape.values[shape.bins[0].encode(row["a"])[0], shape.bins[1].encode(row["b"])[0]]
    assert model.predict(row) == pytest.approx([total])


def test_pairs_that_are_declared_are_not_chosen(monkeypatch):
    monkeypatch.setattr(_Descent, "choose", None)
    model = regressor(interactions=[("c", "a"), ("a", "b")]).fit(X, NUMBER)
    assert model.interactions_ == [("c", "a"), ("a", "b")]
    assert model.shape_(("c", "a")).values.shape == (3, 7)
    assert list(model.interaction_domains_[0].columns) == ["c", "a"]
    with pytest.raises(ValueError, match=r"or a pair of interactions_, got \('b', 'c'\)"):
        model.shape_(("b", "c"))
    # One that says nothing has a function of about nothing.
    assert np.abs(model.shape_(("c", "a")).values[:, :-1]).max() < 0.2
    assert r2_score(NUMBER, model.predict(X)) > 0.8


def test_none_is_chosen_where_columns_add_up():
    for seed in range(3):
        model = regressor(random_state=seed).fit(X, 2 * X["a"] - X["b"] + rng.normal(0, 0.3, N))
        assert len(model.interactions_) <= 1


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_an_array_is_predicted_by_the_order_of_its_columns():
    model = regressor(interactions=[("a", "c")]).fit(X, NUMBER)
    np.testing.assert_array_equal(model.predict(X.to_numpy(object)), model.predict(X))


def test_a_number_of_pairs_that_do_not_exist_takes_no_budget():
    models = []
    for interactions in (1, 10**6):
        models.append(regressor(1.0, categories=None, interactions=interactions).fit(X[["a", "b"]], NUMBER))
    few, many = models
    assert [values.tolist() for values in few.shapes_] == [values.tolist() for values in many.shapes_]


def test_pairs_of_several_classes():
    names = np.array(["low", "middle", "high"])[np.digitize(PRODUCT, [-0.5, 0.5])]
    model = classifier(Mu(5, delta=1e-6), classes=["low", "middle", "high"]).fit(X, names)
    assert model.interactions_ == [("a", "b")]
    assert model.shape_(("a", "b")).values.shape == (7, 7, 3)
    assert model.score(X, names) > 0.85


def test_missing_and_undeclared_values():
    gaps = X.assign(a=X["a"].where(rng.random(N) > 0.3), c=X["c"].where(X["c"] != "z", "w"))
    target = np.where(gaps["a"].isna() & (X["b"] > 0), 4.0, 0.0)
    model = regressor(Mu(5, delta=1e-6), interactions=[("a", "b"), ("b", "c")], handle_unknown="ignore")
    model.fit(gaps, target)
    assert model.shape_(("a", "b")).is_supported[-1, :-1].all()
    assert r2_score(target, model.predict(gaps)) > 0.95
    # An undeclared value is in no cell.
    assert np.isfinite(model.predict(gaps.assign(c="w", b=np.nan))).all()


@MODELS
def test_all_draws_share_the_budget(make, target, monkeypatch):
    amounts = []
    draw = Noise.draw
    monkeypatch.setattr(Noise, "draw", lambda noise, *more: amounts.append(noise.amount) or draw(noise, *more))
    for mu, interactions in itertools.product((0.05, 5.0), (2, [("a", "b"), ("a", "c")])):
        amounts.clear()
        make(Mu(mu, delta=1e-6), interactions=interactions).fit(X, target)
        whole = read_share(Mu(mu, delta=1e-6)).mu_squared
        assert whole * 9 / 10 < sum(amounts) <= whole


@pytest.mark.long
@MODELS
def test_a_large_table_gives_the_same_pairs(make, target):
    frame = pl.from_pandas(X.assign(y=target))
    model = make(Mu(5, delta=1e-6)).fit(frame.drop("y"), frame["y"])
    lazy = clone(model).fit(frame.lazy(), "y")
    assert lazy.interactions_ == model.interactions_ == [("a", "b")]
    for values, others in zip(model.shapes_, lazy.shapes_, strict=True):
        assert (values == others).all()


def test_a_model_with_pairs_is_saved(tmp_path):
    model = regressor(Mu(5, delta=1e-6)).fit(X, NUMBER)
    save(model, tmp_path / "model.json")
    again = load(tmp_path / "model.json")
    assert again.interactions_ == [("a", "b")]
    assert (again.predict(X) == model.predict(X)).all()
    assert again.shape_(("a", "b")).bins == model.shape_(("a", "b")).bins


@each(
    "interactions, message",
    [
        (-1, "interactions must be"),
        (1.5, "interactions must be an int, or a list of pairs"),
        ("ab", "interactions must be an int, or a list of pairs"),
        (["ab"], "interactions must hold pairs of columns"),
        ([("a", "b", "c")], "interactions must hold pairs of columns"),
        ([("a", "d")], r"interactions names columns that X does not have: \['d'\]"),
        ([("a", "a")], "interactions must hold each pair of two columns once"),
        ([("a", "b"), ("b", "a")], "interactions must hold each pair of two columns once"),
        ([("a", "c")], "column 'c' has 17 declared values; one of interactions has at most 16"),
    ],
)
def test_errors_name_the_parameter_and_cost_nothing(interactions, message):
    ledger = PrivacyLedger(epsilon=2.0, delta=1e-3)
    model = regressor(1.0, interactions=interactions, categories={"c": list("xyzabcdefghijklmn")}, ledger=ledger)
    with pytest.raises((ValueError, TypeError), match=message):
        model.fit(X, NUMBER)
    assert ledger.spent.epsilon == 0


def test_public_bins_are_joined_to_groups():
    declared = {"a": Interval(-1, 1, bins=30), "b": Interval(-1, 1, bins=3), "c": ["x", "y", "z"]}
    model = regressor(bounds=None, categories=declared, interactions=[("a", "b")]).fit(X, NUMBER)
    first, second = model.shape_(("a", "b")).bins
    assert len(first) == 6
    assert set(first.edges) < set(declared["a"].edges)
    assert second == declared["b"]
