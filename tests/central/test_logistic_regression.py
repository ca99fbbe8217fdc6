"""Logistic regression by noisy gradients: sensitivities by brute force, what is spent, and what is learnt."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction
from math import isqrt

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.datasets import load_wine, make_classification
from sklearn.ensemble import BaggingClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from skdp import (
    DPLinearRegression,
    DPLogisticRegression,
    DPStandardScaler,
    PrivacyLeakWarning,
    PrivacyLedger,
    privacy_statement,
)
from skdp.central.linear_model import _descent
from skdp.central.linear_model._descent import _CERTAIN, BinaryLoss, SoftmaxLoss, gradient, largest_change
from skdp.central.statistics import UNIT, GaussianNoise, Rows, _rows, largest_moments
from skdp.central.statistics._rows import choose_limit
from skdp.privacy import Mu, Rho
from skdp.randomness import SeededSource
from tests.conftest import each

rng = np.random.default_rng(0)
GRID = np.array(list(itertools.product([-1.0, -0.3, 0.0, 1.0], repeat=2)))
LOSSES = {
    "binary": BinaryLoss(),
    "softmax": SoftmaxLoss(3),
    "weighted binary": BinaryLoss(weighted=True),
    "weighted softmax": SoftmaxLoss(3, weighted=True),
}


def rows_of(values, codes, limit=None):
    rows = Rows.of(list(values.T), np.tile([-1.0, 1.0], (2, 1)), np.zeros(2), np.asarray(codes))
    return (rows if limit is None else rows.clipped(limit)).with_constant(UNIT)


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize("limit", [None, UNIT**2 // 2 + 5, UNIT**2])
def test_a_row_changes_the_gradient_by_its_own_and_no_more(loss, limit, monkeypatch):
    n_classes = max(loss.n_outputs, 2)
    cases = [(row, code) for row in GRID for code in range(n_classes)]
    others = rows_of(rng.uniform(-1, 1, (7, 2)), rng.integers(0, n_classes, 7), limit)
    monkeypatch.setattr(_rows, "_BLOCK", 3 * 4)  # a row in front moves all others to another place of a block
    for size in (0.0, 0.1, 3.0, 500.0, 1e9):
        coefficients = size * rng.normal(size=(3, loss.n_outputs))
        before = gradient(others, coefficients, loss)
        largest = 0
        for row, code in cases:
            own = rows_of(row[np.newaxis], [code], limit)
            more = replace(
                others, places=np.vstack([own.places, others.places]), codes=np.append(own.codes, others.codes)
            )
            change = gradient(more, coefficients, loss) - before
            assert (change == gradient(own, coefficients, loss)).all()
            largest = max(largest, sum(int(one) ** 2 for one in change.ravel()))
        assert largest <= largest_change(others, loss)
        # The bound is reached: it is that of a certain prediction of a wrong class for the longest row.
        assert size < 1e9 or largest > 0.9 * largest_change(others, loss)


def test_residuals_are_short_and_0_in_expectation():
    for n_classes, weighted in itertools.product([2, 3, 5], [False, True]):
        loss = SoftmaxLoss(n_classes, weighted=weighted) if n_classes > 2 else BinaryLoss(weighted=weighted)
        logits = np.vstack([rng.integers(-size, size + 1, (500, loss.n_outputs)) for size in (0, 99, 4_000, 16_384)])
        residuals = np.stack([loss.residuals(logits, np.full(len(logits), code)) for code in range(n_classes)])
        squares = (residuals.astype(np.int64) ** 2).sum(axis=2)
        assert (residuals == np.rint(residuals)).all()
        assert 0.999 * loss.square < squares.max() <= loss.square
        bound = 1 - 1 / n_classes if weighted else 2
        assert loss.square <= (bound / 2 if n_classes == 2 else bound) * _CERTAIN**2
        powers = np.exp(np.hstack([np.zeros_like(logits), logits] if n_classes == 2 else [logits]) / 1024)
        shares = (powers / powers.sum(axis=1, keepdims=True)).T[:, :, np.newaxis]
        assert np.abs((shares * residuals).sum(axis=0)).max() < 20  # with residuals that are cut: thousands


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_neither_order_nor_blocks_show(loss, monkeypatch):
    values, codes = rng.uniform(-1, 1, (500, 2)), rng.integers(0, max(loss.n_outputs, 2), 500)
    coefficients = rng.normal(size=(3, loss.n_outputs))
    whole = gradient(rows_of(values, codes), coefficients, loss)
    order = rng.permutation(500)
    assert (gradient(rows_of(values[order], codes[order]), coefficients, loss) == whole).all()
    monkeypatch.setattr(_rows, "_BLOCK", 7)
    assert (gradient(rows_of(values, codes), coefficients, loss) == whole).all()


def test_the_gradient_is_that_of_the_loss():
    values, codes = rng.uniform(-1, 1, (200, 2)), rng.integers(0, 3, 200)
    constant = np.column_stack([values, np.ones(200)])
    coefficients = rng.normal(size=(3, 3))
    powers = np.exp(constant @ coefficients)
    wanted = constant.T @ (powers / powers.sum(axis=1, keepdims=True) - np.eye(3)[codes])
    found = gradient(rows_of(values, codes), coefficients, SoftmaxLoss(3)) / (UNIT * _CERTAIN)
    assert np.allclose(found, wanted, atol=0.2)
    wanted = constant.T @ (1 / (1 + np.exp(-constant @ coefficients[:, :1])) - (codes[:, np.newaxis] > 0))
    found = gradient(rows_of(values, (codes > 0).astype(int)), coefficients[:, :1], BinaryLoss()) / (UNIT * _CERTAIN)
    assert np.allclose(found, wanted, atol=0.2)


def test_clipped_rows_are_no_longer_than_the_limit_and_point_the_same_way():
    values = rng.uniform(-1, 1, (5_000, 2)) * rng.choice([1e-3, 1.0], (5_000, 2))
    for limit in (1, UNIT**2 // 3, UNIT**2 + 1, 2 * UNIT**2 - 1, 2 * UNIT**2):
        whole, cut = rows_of(values, np.zeros(5_000, int)), rows_of(values, np.zeros(5_000, int), limit)
        squares = [sum(int(place) ** 2 for place in row) for row in cut.places]
        assert whole.total(limit).tolist() == cut.places.sum(axis=0, dtype=int).tolist()
        assert (cut.squares == squares).all()
        assert max(squares) <= limit
        long = whole.squares > limit
        assert (cut.places[~long] == whole.places[~long]).all()
        if limit > UNIT:
            assert min(np.array(squares)[long], default=limit) > 0.99 * limit


def test_a_row_changes_the_moments_by_its_own_and_no_more(monkeypatch):
    monkeypatch.setattr(_rows, "_BLOCK", 7)
    ends, starts = np.tile([-1.0, 1.0], (2, 1)), np.zeros(2)
    for middle, limit in itertools.product([(0, 0), (UNIT - 1, 1 - UNIT), (17, -300)], [None, UNIT**2 // 2, UNIT**2]):
        table = Rows.of(list(GRID.T), ends, starts, np.zeros(len(GRID), int)).centred(np.array(middle, np.int16))
        table = (table if limit is None else table.clipped(limit)).with_constant(5)
        whole = [[sum(int(row[i]) * int(row[j]) for row in table.places) for j in range(2)] for i in range(2)]
        assert table.moments().tolist() == whole
        changes = []
        for place in range(len(GRID)):
            fewer = replace(table, places=np.delete(table.places, place, axis=0))
            changes.append((table.moments() - fewer.moments())[np.triu_indices(2)])
        largest = max(sum(int(one) ** 2 for one in change) for change in changes)
        bound = largest_moments(table.square - 5**2, 2 * UNIT)
        assert largest <= bound
        assert largest > 0.45 * bound  # reached by a single column, or by equal values of all


def test_a_row_changes_one_number_of_rows_by_1_and_the_total_by_itself(monkeypatch):
    given = []
    monkeypatch.setattr(GaussianNoise, "add", lambda self, source, numbers: given.append(numbers) or numbers)
    table = rows_of(rng.uniform(-1, 1, (30, 2)), np.zeros(30, int))
    for row in GRID:
        given.clear()
        own = rows_of(row[np.newaxis], [0])
        more = Rows(np.vstack([own.places, table.places]), np.zeros(31, int), table.square)
        for rows in (table, more):
            choose_limit(rows, GaussianNoise(1), 0.05, SeededSource(0))
        change = np.subtract(given[1], given[0])
        assert (np.sort(change) == [0] * 23 + [1]).all()
        assert (more.total(2 * UNIT**2) - table.total(2 * UNIT**2)).tolist() == own.places[0].tolist()
    few_are_longer = np.repeat([1.0, 0.3], [2, 48])
    limit, n_rows = choose_limit(
        Rows(few_are_longer[:, np.newaxis] * UNIT, None, UNIT**2), GaussianNoise(1), 0.05, None
    )
    assert n_rows == 50
    assert 0.3 <= limit**0.5 / UNIT < 0.3 * 2 ** (1 / 6)


def test_centred_rows_stay_within_their_bound():
    for middle in ([0, 0], [UNIT - 1, 1 - UNIT], [17, -3]):
        rows = Rows.of(list(GRID.T), np.tile([-1.0, 1.0], (2, 1)), np.zeros(2), np.zeros(len(GRID), int))
        centred = rows.centred(np.array(middle, np.int16))
        assert (centred.places == rows.places.astype(int) - middle).all()
        assert centred.squares.max() <= centred.square


TABLE, TARGET = make_classification(2_000, 4, n_informative=3, n_redundant=0, random_state=1)
TABLE = pd.DataFrame(np.clip(TABLE, -4, 4), columns=["a", "b", "c", "d"])
DECLARED = {"bounds": (-4, 4), "classes": [0, 1]}


@pytest.mark.parametrize("epsilon", [Rho(0.1, delta=1e-6), Mu(0.3, delta=1e-6), 0.7, Mu(5, delta=1e-6)])
@pytest.mark.parametrize("parameters", [{}, {"max_iter": np.int64(7)}, {"fit_intercept": False}])
def test_the_draws_spend_what_is_given(epsilon, parameters, monkeypatch):
    drawn, limits, whole, factors = [], [], GaussianNoise.draw, Rows.factors

    def recorded(self, source, size):
        drawn.append((self, size))
        return whole(self, source, size)

    def limited(self, square):
        limits.append(square)
        return factors(self, square)

    monkeypatch.setattr(GaussianNoise, "draw", recorded)
    monkeypatch.setattr(Rows, "factors", limited)
    model = DPLogisticRegression(epsilon, **DECLARED, **parameters, random_state=0).fit(TABLE, TARGET)
    steps, n_numbers = drawn[-1]
    once = [noise for noise, _ in drawn[:-1]]
    longest = _CERTAIN if epsilon == Mu(5, delta=1e-6) else _CERTAIN // 2  # weighted, unless there is little noise
    if epsilon == Mu(5, delta=1e-6):  # so little noise that moments scale the steps
        moments, n_pairs = drawn.pop(-2)
        assert n_pairs == 10
        assert limits[-1] * UNIT**2 < moments.square <= limits[-1] ** 2
        assert model.n_iter_ == parameters.get("max_iter", 20)
    if parameters.get("fit_intercept", True):
        assert [size for _, size in drawn[:-1]] == [24, 4, 24]
        assert [noise.square for noise in once[:3]] == [1, limits[0], 1]
        constant = isqrt(limits[1]) // 2
        assert steps.square == (limits[1] + constant**2) * longest**2
        assert n_numbers == model.n_iter_ * 5
    else:
        assert [size for _, size in drawn[:-1]] == [24]
        assert steps.square == limits[0] * longest**2
        assert n_numbers == model.n_iter_ * 4
        assert model.intercept_ == [0]
    given = Mu.of(epsilon, 1e-6) if isinstance(epsilon, float) else epsilon
    spent = sum(noise.mu_squared for noise in once) + model.n_iter_ * steps.mu_squared
    assert spent == (2 * Fraction(given.rho) if isinstance(given, Rho) else Fraction(given.mu) ** 2)
    assert model.guarantee_.rho == pytest.approx(float(spent) / 2)
    assert type(model.n_iter_) is int
    assert model.guarantee_.delta == 1e-6
    assert model.guarantee_.epsilon <= (epsilon if isinstance(epsilon, float) else 40)


def test_no_row_of_a_fit_changes_the_moments_by_more_than_is_paid_for(monkeypatch):
    moments, draw, changes, drawn = Rows.moments, GaussianNoise.draw, [], []

    def check(rows):
        for place in np.unique(rows.places, axis=0, return_index=True)[1]:
            alone = replace(rows, places=rows.places[[place]], codes=rows.codes[[place]])
            changes.append(int(moments(alone)[0, 0]) ** 2)
        return moments(rows)

    monkeypatch.setattr(Rows, "moments", check)
    monkeypatch.setattr(GaussianNoise, "draw", lambda self, *more: drawn.append(self.square) or draw(self, *more))
    X = np.repeat([-1.0, 0.5, 1.0], [2_900, 1_000, 100])[:, np.newaxis]  # a few rows are too long
    y = (X[:, 0] > 0).astype(int)
    DPLogisticRegression(Mu(10, delta=1e-6), bounds=(-1, 1), classes=[0, 1], random_state=0).fit(X, y)
    assert len(changes) == 3
    assert max(changes) <= drawn[-2]


@pytest.mark.parametrize("most", [50, 10**6])  # in the second case, moments scale the steps
@pytest.mark.parametrize("model", [DPLinearRegression, DPLogisticRegression])
def test_all_follows_from_noisy_numbers_alone(model, most, monkeypatch):
    monkeypatch.setattr(GaussianNoise, "add", lambda self, source, numbers: [*range(most, most + len(numbers))])
    monkeypatch.setattr(_descent, "gradient", lambda rows, coefficients, loss: np.ones_like(coefficients, np.int64))
    declared = {"target_bounds": (0, 1)} if model is DPLinearRegression else {"classes": [0, 1]}
    found = []
    for X, y in [(TABLE, TARGET), (TABLE[:7] / 9, TARGET[:7]), (TABLE[:0], TARGET[:0])]:
        fitted = model(Mu(2, delta=1e-6), bounds=(-4, 4), **declared, random_state=0).fit(X, y)
        found.append({name: str(value) for name, value in vars(fitted).items()})
    assert found[0] == found[1] == found[2]


def test_with_little_noise_it_is_logistic_regression():
    model = DPLogisticRegression(Mu(300, delta=1e-6), **DECLARED, max_iter=2_000, random_state=0).fit(TABLE, TARGET)
    wanted = LogisticRegression(C=1e6).fit(TABLE, TARGET)
    assert np.allclose(model.coef_, wanted.coef_, atol=0.04)  # a few rows are shrunk
    assert np.allclose(model.intercept_, wanted.intercept_, atol=0.04)
    assert np.allclose(model.predict_proba(TABLE), wanted.predict_proba(TABLE), atol=0.02)
    assert (model.predict(TABLE) == model.classes_[model.predict_proba(TABLE).argmax(axis=1)]).all()


def test_few_steps_find_a_column_of_bounds_that_are_too_wide():
    X = rng.uniform(-1, 1, (20_000, 3)) / [1, 1, 10]
    y = rng.random(20_000) < 1 / (1 + np.exp(-X @ [1, -2, 30]))
    model = DPLogisticRegression(4.0, bounds=(-1, 1), classes=[False, True], random_state=0).fit(X, y)
    assert model.n_iter_ == 20
    assert np.allclose(model.coef_, LogisticRegression(C=1e6).fit(X, y).coef_, rtol=0.1)


def test_the_auc_is_near_that_without_privacy():
    X, y = make_classification(8_000, 20, n_informative=6, random_state=2)
    model = DPLogisticRegression(1.0, bounds=(-8, 8), classes=[0, 1], random_state=0).fit(X[:6_000], y[:6_000])
    wanted = LogisticRegression().fit(X[:6_000], y[:6_000])
    reached = [roc_auc_score(y[6_000:], one.decision_function(X[6_000:])) for one in (model, wanted)]
    assert reached[0] > reached[1] - 0.01


def test_several_classes_of_any_kind():
    X, y = load_wine(return_X_y=True)
    X, y = np.tile(StandardScaler().fit_transform(X), (10, 1)), np.tile(np.array(["b", "c", "a"])[y], 10)
    model = DPLogisticRegression(4.0, bounds=(-3, 3), classes=["b", "c", "a"], random_state=0).fit(X, y)
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert model.score(X, y) > 0.95
    assert model.coef_.shape == (3, 13)
    assert np.allclose(model.predict_proba(X).sum(axis=1), 1)
    assert (model.predict(X) == model.classes_[model.decision_function(X).argmax(axis=1)]).all()


def test_columns_keep_their_units_and_the_intercept_its_place():
    kinds = rng.integers(0, 3, (4_000, 2))
    X = np.hstack([np.eye(3)[kinds[:, 0]], np.eye(3)[kinds[:, 1]]])
    y = rng.random(4_000) < np.where(kinds[:, 0] == 2, 0.9, 0.2)
    model = DPLogisticRegression(2.0, bounds=(0, 1), classes=[False, True], random_state=0).fit(X, y)
    scaled = DPLogisticRegression(2.0, bounds=(0, 8), classes=[False, True], random_state=0).fit(8 * X, y)
    assert np.allclose(8 * scaled.coef_, model.coef_)
    assert np.allclose(scaled.intercept_, model.intercept_)
    shares = model.predict_proba(X)[:, 1]
    assert shares[kinds[:, 0] == 2].mean() == pytest.approx(0.9, abs=0.05)
    assert shares[kinds[:, 0] != 2].mean() == pytest.approx(0.2, abs=0.05)


@pytest.mark.parametrize("bounds", [(1900.0, 2025.0), (-2025.0, -1900.0), (5.0, 6.0), (1e300, 1e300 + 1e293)])
def test_bounds_far_from_0_cost_nothing(bounds):
    low, high = bounds
    X = rng.uniform(0, 1, (4_000, 2))
    y = X[:, 0] + 0.2 * rng.normal(size=4_000) > 0.5
    ends = (0, 1) if low > 0 else (-1, 0)
    near = DPLogisticRegression(bounds=ends, classes=[False, True], random_state=0).fit(X + min(ends), y)
    far = DPLogisticRegression(bounds=bounds, classes=[False, True], random_state=0)
    moved = X * (high - low) + low
    assert far.fit(moved, y).score(moved, y) > 0.8
    assert np.allclose(far.coef_ * (high - low), near.coef_, rtol=1e-3, atol=1e-3)
    without = DPLogisticRegression(bounds=bounds, classes=[False, True], fit_intercept=False, random_state=0)
    assert without.fit(moved, y).intercept_ == [0]


def test_a_place_between_bounds_is_on_the_grid_whatever_the_bounds():
    for low, high in [(1900, 2025), (-7.3, -7.1), (0.1, 0.3), (-0.1, 0.3), (1e-300, 2e-300), (-8e307, 9e307)]:
        values = np.linspace(low, high, 1_001)
        values = np.concatenate([[-1.7e308, np.nextafter(low, -np.inf)], values, [np.nextafter(high, np.inf), 1.7e308]])
        for start in (0.0, np.clip(0.0, low, high)):
            places = Rows.of([values], np.array([[low, high]]), np.array([start]), np.zeros(len(values), int)).places
            assert np.abs(places).max() == UNIT
            assert (np.diff(places[:, 0]) >= 0).all()
            assert (places == np.trunc(places)).all()


def test_frames_of_all_kinds_give_the_same():
    wanted = DPLogisticRegression(**DECLARED, random_state=0).fit(TABLE, TARGET)
    for X, y in [
        (pl.DataFrame(TABLE), pl.Series("y", TARGET)),
        (pl.DataFrame(TABLE).to_arrow(), pl.Series(TARGET).to_arrow()),
        (TABLE.to_numpy(), TARGET.tolist()),
        (TABLE.set_index(rng.permutation(2_000)), pd.Series(TARGET, name="y")),
        (TABLE, pd.DataFrame({"y": TARGET})),
    ]:
        model = DPLogisticRegression(**DECLARED, random_state=0).fit(X, y)
        assert (model.coef_ == wanted.coef_).all()
        assert type(model.predict(X)) is np.ndarray
        assert (model.predict(X) == wanted.predict(TABLE)).all()


@each(
    "parameters, y, error, message",
    [
        ({"bounds": None}, TARGET, ValueError, "bounds must be declared"),
        ({"max_iter": 0}, TARGET, ValueError, "max_iter"),
        ({"fit_intercept": 1}, TARGET, TypeError, "fit_intercept must be True or False, got int"),
        ({"delta": 0}, TARGET, ValueError, "delta"),
        ({"epsilon": Rho(0.1, delta=1e-6), "delta": 1e-6}, TARGET, ValueError, "delta must be 0"),
        ({"classes": [0]}, TARGET, ValueError, "classes must be at least 2, got 1 class"),
        ({"classes": [0, 1, None]}, TARGET, ValueError, "classes must not hold a missing value"),
        ({"classes": [0.0, 1.0, np.nan]}, TARGET, ValueError, "classes must not hold a missing value"),
        ({"classes": [0, 2]}, TARGET, ValueError, "one that classes does not declare"),
        ({}, TARGET[:-1], ValueError, "y has 1999 rows; X has 2000"),
        ({}, np.where(TARGET, 0.0, np.nan), ValueError, "y holds a missing value"),
        ({}, np.column_stack([TARGET, TARGET]), ValueError, "y must be one column"),
    ],
)
def test_mistakes_cost_nothing(parameters, y, error, message):
    ledger = PrivacyLedger(epsilon=10, delta=1e-3)
    model = DPLogisticRegression(**{**DECLARED, "ledger": ledger} | parameters)
    with pytest.raises(error, match=message):
        model.fit(TABLE, y)
    assert ledger.spent == (0, 0)
    assert not hasattr(model, "coef_")


def test_classes_that_are_read_are_warned_of():
    with pytest.warns(PrivacyLeakWarning, match="classes="):
        model = DPLogisticRegression(bounds=(-4, 4), random_state=0).fit(TABLE, TARGET)
    assert (model.coef_ == DPLogisticRegression(**DECLARED, random_state=0).fit(TABLE, TARGET).coef_).all()


def test_classes_that_are_read_are_no_part_of_the_promise():
    y = pd.Series(TARGET, name="ill")
    model = DPLogisticRegression(bounds=(-4, 4), random_state=0)
    for pipe in (model, make_pipeline(OneHotEncoder(categories=[[0, 1]] * 4, sparse_output=False), model)):
        with pytest.warns(PrivacyLeakWarning, match="classes="):
            pipe.fit((TABLE > 0) * 1.0, y)
        statement = privacy_statement(pipe)
        assert set(statement.total.scope) == {"a", "b", "c", "d"}
        assert "categories read from the data" in str(statement)
    declared = y.astype(pd.CategoricalDtype([0, 1], ordered=True))
    for model, target in [
        (DPLogisticRegression(**DECLARED, random_state=0), y),
        (DPLogisticRegression(bounds=(-4, 4), random_state=0), declared),
    ]:
        assert set(privacy_statement(model.fit(TABLE, target)).total.scope) == {"a", "b", "c", "d", "ill"}


@pytest.mark.parametrize(
    ("meta", "covered"),
    [
        (OneVsRestClassifier, {"a", "b", "c", "d"}),
        (lambda model: VotingClassifier([("m", model)]), {"a", "b", "c", "d"}),
        (BaggingClassifier, set()),
        (FixedThresholdClassifier, {"a", "b", "c", "d", "target"}),  # has the classes of its part
    ],
)
def test_a_meta_estimator_may_read_the_classes(meta, covered):
    y = pd.Series(TARGET, name="target")
    total = privacy_statement(meta(DPLogisticRegression(**DECLARED, random_state=0)).fit(TABLE, y)).total
    assert set(() if total is None else total.scope) == covered


def test_too_few_rows_are_warned_of():
    with pytest.warns(UserWarning, match="too few rows for this epsilon"):
        DPLogisticRegression(0.1, **DECLARED, random_state=0).fit(TABLE[:50], TARGET[:50])


def test_a_pipeline_states_one_total_for_columns_and_target():
    ledger = PrivacyLedger(epsilon=3, delta=1e-5)
    pipe = make_pipeline(
        DPStandardScaler(0.5, bounds=(-4, 4), ledger=ledger), DPLogisticRegression(**DECLARED, ledger=ledger)
    ).fit(TABLE, TARGET)
    assert ledger.spent == pytest.approx((1.5, 1e-6))
    statement = privacy_statement(pipe)
    assert statement.total is not None
    assert set(statement.total.scope) == {"a", "b", "c", "d", "target"}
    assert statement.total.epsilon == pytest.approx(1.5)


def test_a_pipeline_from_words_to_predictions_is_private_as_a_whole():
    words = pd.DataFrame({"sex": rng.choice(["f", "m"], 500), "job": rng.choice(["clerk", "nurse", "smith"], 500)})
    target = pd.Series((words["job"] == "nurse").astype(int), name="ill")
    declared = [["f", "m"], ["clerk", "nurse", "smith"]]
    model = DPLogisticRegression(4.0, bounds=(0, 1), classes=[0, 1], random_state=0)
    pipe = make_pipeline(OneHotEncoder(categories=declared, sparse_output=False), model).fit(words, target)
    assert pipe.score(words, target) == 1
    total = privacy_statement(pipe).total
    assert total is not None
    assert set(total.scope) == {"sex", "job", "ill"}
    for learnt in (
        OneHotEncoder(sparse_output=False),
        OneHotEncoder(categories=declared, min_frequency=0.1, sparse_output=False),
        make_pipeline(OneHotEncoder(categories=declared, sparse_output=False), StandardScaler()),
    ):
        total = privacy_statement(make_pipeline(learnt, model).fit(words, target)).total
        assert total is None or set(total.scope) == {"ill"}
    read = make_pipeline(OneHotEncoder(sparse_output=False), model).fit(words, target)
    read[0].set_params(categories=[["m", "f"], ["clerk", "nurse", "smith"]])  # says later what it did not know
    assert set(privacy_statement(read).total.scope) == {"ill"}
    read[0].set_params(categories=[[1, 2], "x"])
    assert set(privacy_statement(read).total.scope) == {"ill"}
    numbers = words.apply(lambda column: column.astype("category").cat.codes.astype(float))
    for encoder in (
        OneHotEncoder(categories=[[0, 1], [0, 1, 2]], sparse_output=False, drop="first"),
        OneHotEncoder(categories=[np.array([0, 1, np.nan]), [0, 1, 2]], sparse_output=False),
        OrdinalEncoder(categories=[[0, 1], [0, 1, 2]]),
    ):
        total = privacy_statement(make_pipeline(encoder, model).fit(numbers, target)).total
        assert set(total.scope) == {"sex", "job", "ill"}
