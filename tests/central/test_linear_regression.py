"""Linear regression from noisy sums of products: sensitivities by brute force, what is spent, and what is learnt."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.pipeline import make_pipeline

from skdp import DPLinearRegression, DPRidge, DPStandardScaler, PrivacyLedger, privacy_statement
from skdp.central.linear_model import _moments
from skdp.central.linear_model._moments import ExactMoments
from skdp.central.statistics import UNIT, GaussianNoise, Rows, _rows, largest_moments
from skdp.privacy import Mu, Rho
from tests.conftest import each

rng = np.random.default_rng(0)
GRID = np.array(list(itertools.product([-1.0, -0.3, 1.0], [-1.0, 0.4, 1.0], [-1.0, 0.7, 1.0])))
ENDS = np.tile([-1.0, 1.0], (2, 1))


def placed(values):
    """Place two columns and a target of bounds -1 and 1."""
    return Rows.of(list(values[:, :2].T), ENDS, np.zeros(2), np.trunc(values[:, 2] * UNIT))


@pytest.mark.parametrize("middle", [(0, 0), (UNIT - 1, 1 - UNIT), (17, -300)])
@pytest.mark.parametrize("limit", [UNIT**2 // 3, 3 * UNIT**2, None])
@pytest.mark.parametrize("constant", [UNIT // 3, 3 * UNIT])
def test_a_row_changes_sums_by_no_more_than_is_paid_for(middle, limit, constant, monkeypatch):
    monkeypatch.setattr(_rows, "_BLOCK", 7)  # a row in front moves all others to another place of a block

    def moments(values):
        rows = placed(values).centred(np.array(middle, np.int16))
        return ExactMoments.of(rows, rows.square if limit is None else limit, constant, 2 * UNIT)

    whole = moments(GRID)
    largest = [0, 0, 0]
    for place in range(len(GRID)):
        change = whole.sums - moments(np.delete(GRID, place, axis=0)).sums
        assert (change == moments(GRID[[place]]).sums).all()
        assert (change == change.T).all()
        parts = change[np.triu_indices(3)], change[:-1, -1], change[-1:, -1]
        largest = [max(one, sum(int(x) ** 2 for x in part)) for one, part in zip(largest, parts, strict=True)]
    bounds = largest_moments(whole.square, whole.largest), whole.square * UNIT**2, UNIT**4
    assert all(one <= bound for one, bound in zip(largest, bounds, strict=True))
    assert all(one > 0.1 * bound for one, bound in zip(largest, bounds, strict=True))


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_no_row_of_a_fit_changes_sums_by_more_than_is_paid_for(fit_intercept, monkeypatch):
    whole, draw, changes, drawn = ExactMoments.of, GaussianNoise.draw, [], []

    def check(rows, *given):
        for place in np.unique(rows.places, axis=0, return_index=True)[1]:
            change = whole(Rows(rows.places[[place]], rows.codes[[place]], rows.square), *given).sums
            parts = change[np.triu_indices(2)], change[:-1, -1], change[-1:, -1]
            changes.append([sum(int(one) ** 2 for one in part) for part in parts])
        return whole(rows, *given)

    monkeypatch.setattr(ExactMoments, "of", check)
    monkeypatch.setattr(GaussianNoise, "draw", lambda self, *more: drawn.append(self.square) or draw(self, *more))
    X = np.repeat([-1.0, 1.0], [3_000, 1_000])[:, np.newaxis]  # many rows are far from the mean
    model = DPLinearRegression(Mu(10, delta=1e-6), bounds=(-1, 1), target_bounds=(-1, 1), fit_intercept=fit_intercept)
    model.set_params(random_state=0).fit(X, X[:, 0])
    assert len(changes) == 2
    assert (np.max(changes, axis=0) <= drawn[-3:]).all()


def test_without_delta_a_row_changes_each_sum_by_1_at_most():
    whole = ExactMoments.of(placed(GRID), 2 * UNIT**2, UNIT, UNIT)
    assert whole.largest == UNIT
    table = np.column_stack([np.trunc(GRID[:, :2] * UNIT), np.full(len(GRID), UNIT), np.trunc(GRID[:, 2] * UNIT)])
    assert (whole.sums == table.T @ table).all()
    for place in range(len(GRID)):
        fewer = ExactMoments.of(placed(np.delete(GRID, place, axis=0)), 2 * UNIT**2, UNIT, UNIT)
        assert np.abs(whole.sums - fewer.sums).max() == UNIT**2


TABLE = pd.DataFrame(rng.normal(size=(2_000, 4)).clip(-3, 3), columns=["a", "b", "c", "d"])
WEIGHTS = np.array([1.0, -0.5, 0.0, 2.0])
TARGET = 1.5 + TABLE.to_numpy() @ WEIGHTS + rng.normal(size=2_000)
DECLARED = {"bounds": (-3, 3), "target_bounds": (-12, 12), "delta": 1e-6}


@pytest.mark.parametrize("epsilon", [Rho(0.1, delta=1e-6), Mu(0.3, delta=1e-6), 0.7])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_the_draws_spend_what_is_given(epsilon, fit_intercept, monkeypatch):
    drawn, whole = [], GaussianNoise.draw
    monkeypatch.setattr(GaussianNoise, "draw", lambda self, *more: drawn.append((self, more[1])) or whole(self, *more))
    delta = 1e-6 if isinstance(epsilon, float) else None
    model = DPLinearRegression(epsilon, **DECLARED | {"delta": delta}, fit_intercept=fit_intercept, random_state=0).fit(
        TABLE, TARGET
    )
    assert [size for _, size in drawn] == ([24, 4, 24] if fit_intercept else [24]) + [15, 5, 1]
    given = Mu.of(epsilon, 1e-6) if isinstance(epsilon, float) else epsilon
    spent = sum(noise.mu_squared for noise, _ in drawn)
    assert spent == (2 * Fraction(given.rho) if isinstance(given, Rho) else Fraction(given.mu) ** 2)
    assert model.guarantee_.rho == pytest.approx(float(spent) / 2)


@pytest.mark.parametrize("delta", [None, 0, 0.0])
def test_a_pure_epsilon_is_spent_on_one_draw(monkeypatch, delta):
    asked, whole = [], _moments.joint_noise
    monkeypatch.setattr(_moments, "joint_noise", lambda *what: asked.append(what) or whole(*what))
    model = DPRidge(0.7, **DECLARED | {"delta": delta}, random_state=0).fit(TABLE, TARGET)
    ((share, sensitivity, dimension),) = set(asked)  # what is stated is what is drawn
    assert (share.pure, sensitivity, dimension) == (Fraction(0.7), UNIT**2, 21)
    assert (model.guarantee_.epsilon, model.guarantee_.delta) == (0.7, 0)


def test_with_little_noise_it_is_linear_or_ridge_regression():
    wanted = LinearRegression().fit(TABLE, TARGET)
    for epsilon, delta in [(1e7, None), (Mu(300, delta=1e-6), None)]:
        model = DPLinearRegression(epsilon, **DECLARED | {"delta": delta}, random_state=0).fit(TABLE, TARGET)
        # With a delta, long rows weigh less: another estimate of the same coefficients.
        tolerance = 0.002 if epsilon == 1e7 else 0.02
        assert np.allclose(model.coef_, wanted.coef_, atol=tolerance)
        assert model.intercept_ == pytest.approx(wanted.intercept_, abs=tolerance)
    assert model.ridge_ == 0
    wide = TABLE * [1, 10, 1, 0.1]
    ends = np.tile([-3, 3], (4, 1)) * np.array([[1], [10], [1], [0.1]])
    model = DPRidge(1e7, alpha=500, bounds=ends, target_bounds=(-12, 12), random_state=0).fit(wide, TARGET)
    wanted = Ridge(alpha=500).fit(wide, TARGET)
    assert np.allclose(model.coef_, wanted.coef_, atol=0.002)
    assert model.intercept_ == pytest.approx(wanted.intercept_, abs=0.002)
    model = DPRidge(1e7, **DECLARED | {"delta": None}, alpha=50, fit_intercept=False, random_state=0)
    wanted = Ridge(50, fit_intercept=False).fit(TABLE, TARGET)
    assert np.allclose(model.fit(TABLE, TARGET).coef_, wanted.coef_, atol=0.002)
    assert (model.intercept_, model.intercept_std_error_) == (0, 0)


def test_long_rows_do_not_bend_coefficients():
    X = rng.exponential(size=(20_000, 2)).clip(0, 12)
    y = 3 + X @ [1.0, -2.0]
    model = DPLinearRegression(Mu(300, delta=1e-6), bounds=(0, 12), target_bounds=(-21, 15), random_state=0).fit(X, y)
    assert np.allclose(model.coef_, [1, -2], atol=0.003)
    assert model.intercept_ == pytest.approx(3, abs=0.003)


def covered(n_rows, epsilon, delta, repeats):
    weights, found = np.array([1.0, -0.5, 0.3]), []
    for _ in range(repeats):
        X = np.column_stack([rng.normal(size=(n_rows, 2)), rng.exponential(size=n_rows)]).clip(-5, 5)
        y = 2 + X @ weights + rng.normal(size=n_rows)
        model = DPLinearRegression(epsilon, delta=delta, bounds=(-5, 5), target_bounds=(-9, 13)).fit(X, y)
        errors = np.append(model.coef_ - weights, model.intercept_ - 2)
        found.append(np.abs(errors) < 1.96 * np.append(model.coef_std_error_, model.intercept_std_error_))
    return np.mean(found, axis=0)


def test_standard_errors_cover_the_sample_and_the_noise():
    assert covered(2_000, 2.0, 1e-6, 15).min() > 0.7


@pytest.mark.long
@pytest.mark.parametrize(("n_rows", "epsilon", "delta"), [(4_000, 1.0, 1e-6), (50_000, 0.5, 1e-6), (50_000, 1.0, None)])
def test_standard_errors_cover_as_often_as_stated(n_rows, epsilon, delta):
    shares = covered(n_rows, epsilon, delta, 400)
    assert shares.min() > 0.92
    assert shares.max() < 0.99


def test_standard_errors_cover_what_the_ridge_takes():
    """A column that fills a tenth of its bounds: without, the interval held its slope in 6 of 16 cases."""
    held = []
    for seed in range(16):
        draw = np.random.default_rng(seed)
        X = np.column_stack([draw.normal(50, 5, 2_000), draw.uniform(0, 100, 2_000)])
        y = X @ [1.0, -0.5] + draw.normal(0, 10, 2_000)
        model = DPLinearRegression(1.0, delta=1e-6, bounds=(0, 100), target_bounds=(-100, 150), random_state=seed)
        held.append(np.abs(model.fit(X, y).coef_ - [1.0, -0.5]) < 1.96 * model.coef_std_error_)
        assert model.ridge_ > 0
    assert np.mean(held, axis=0).min() > 0.8


@pytest.mark.parametrize("bounds", [(1900.0, 2025.0), (-1e-6, 1e-6), (1e300, 1e300 + 1e293)])
@pytest.mark.parametrize("delta", [None, 1e-6])
def test_bounds_of_any_place_cost_nothing(bounds, delta):
    low, high = bounds
    X = rng.uniform(0, 1, (4_000, 2))
    y = X @ [1.0, 2.0]
    found = [
        DPLinearRegression(4.0, delta=delta, bounds=ends, target_bounds=(0, 3), random_state=0).fit(table, y)
        for ends, table in [((0, 1), X), (bounds, X * (high - low) + low)]
    ]
    assert np.allclose(found[1].coef_ * (high - low), found[0].coef_, rtol=0.05)
    assert found[1].score(X * (high - low) + low, y) == pytest.approx(found[0].score(X, y), abs=0.01)


def test_units_beyond_the_squares_of_floats():
    wanted = DPLinearRegression(4.0, **DECLARED | {"delta": None}, random_state=0).fit(TABLE, TARGET)
    far = DPLinearRegression(4.0, bounds=(-3, 3), target_bounds=(-12 * 2.0**1000, 12 * 2.0**1000), random_state=0)
    far.fit(TABLE, TARGET * 2.0**1000)
    for name in ("coef_", "coef_std_error_", "intercept_", "intercept_std_error_"):
        assert np.allclose(getattr(far, name) / 2.0**1000, getattr(wanted, name))
    steep = DPLinearRegression(4.0, bounds=(0, 2e-300), target_bounds=(0, 1e10), random_state=0).fit(TABLE, TARGET)
    assert np.isinf(steep.coef_).all()  # and no warning after the charge


def test_frames_of_all_kinds_give_the_same():
    wanted = DPLinearRegression(**DECLARED, random_state=0).fit(TABLE, TARGET)
    for X, y in [
        (pl.DataFrame(TABLE), pl.Series("y", TARGET)),
        (TABLE.to_numpy(), TARGET.tolist()),
        (TABLE.set_index(rng.permutation(2_000)), pd.Series(TARGET, name="y")),
        (TABLE, pd.DataFrame({"y": TARGET})),
    ]:
        model = DPLinearRegression(**DECLARED, random_state=0).fit(X, y)
        assert (model.coef_ == wanted.coef_).all()
        assert (model.predict(X) == wanted.predict(TABLE)).all()


@each(
    "parameters, y, error, message",
    [
        ({"bounds": None}, TARGET, ValueError, "bounds must be declared"),
        ({"target_bounds": None}, TARGET, ValueError, "target_bounds must be declared"),
        ({"target_bounds": (3, 1)}, TARGET, ValueError, "low < high"),
        ({"target_bounds": "public"}, TARGET, ValueError, "bounds of column 'target' must be 'private' or a pair"),
        ({"target_bounds": 3}, TARGET, ValueError, "target_bounds of column 'target' must be a pair"),
        ({"bounds": "private", "bounds_share": 1}, TARGET, ValueError, "bounds_share must be between 0 and 1"),
        ({"max_rows_per_person": 0}, TARGET, ValueError, "max_rows_per_person"),
        ({"fit_intercept": 1}, TARGET, TypeError, "fit_intercept must be True or False, got int"),
        ({"alpha": -1}, TARGET, ValueError, "alpha must be a finite number >= 0, got -1"),
        ({"alpha": True}, TARGET, TypeError, "alpha must be a number, got bool"),
        ({"delta": 1}, TARGET, ValueError, r"delta must be a number in \[0, 1\), got 1"),
        ({"epsilon": Rho(0.1, delta=1e-6)}, TARGET, ValueError, "delta must be 0"),
        ({}, TARGET[:-1], ValueError, "y has 1999 rows; X has 2000"),
        ({}, np.where(TARGET > 0, TARGET, np.nan), ValueError, "holds a missing value"),
        ({}, np.where(TARGET > 0, "x", "y"), TypeError, "expected numbers"),
        ({}, None, ValueError, "requires y"),
    ],
)
def test_mistakes_cost_nothing(parameters, y, error, message):
    ledger = PrivacyLedger(epsilon=10, delta=1e-3)
    model = DPRidge(**{**DECLARED, "ledger": ledger} | parameters)
    with pytest.raises(error, match=message):
        model.fit(TABLE, y)
    assert ledger.spent == (0, 0)
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize("delta", [None, 1e-6])
def test_too_few_rows_are_warned_of_and_coefficients_are_small(delta):
    model = DPLinearRegression(0.1, **DECLARED | {"delta": delta}, random_state=0)
    with pytest.warns(UserWarning, match="too few rows for this epsilon"):
        model.fit(TABLE[:20], TARGET[:20])
    assert np.abs(model.predict(TABLE)).max() < 24


@pytest.mark.filterwarnings("ignore:the noise hides how many rows:UserWarning")
@each("epsilon", [5e-324, 1e-300, 1e300, Rho(1e-50, delta=1e-6), Mu(1e-30, delta=1e-6)])
def test_tiny_and_huge_epsilons_and_bounds_are_answered(epsilon):
    for high, fit_intercept, rows in itertools.product([1e-290, 8e307], [True, False], [0, 1, 50]):
        ends = {"bounds": (-high, high), "target_bounds": (-high, high), "fit_intercept": fit_intercept}
        table = np.tile([[high], [0.1 * high]], (rows, 2))  # two columns are the same
        model = DPLinearRegression(epsilon, **ends, random_state=0).fit(table, table[:, 0])
        for found in (model.coef_, model.coef_std_error_, model.intercept_, model.intercept_std_error_):
            assert np.isfinite(found).all()
        assert model.coef_std_error_.min() > 0


def test_a_pipeline_states_one_total_for_columns_and_target():
    ledger = PrivacyLedger(epsilon=3, delta=1e-5)
    scaled = DPLinearRegression(**DECLARED, ledger=ledger)
    pipe = make_pipeline(DPStandardScaler(0.5, bounds=(-4, 4), ledger=ledger), scaled).fit(TABLE, TARGET)
    assert ledger.spent == pytest.approx((1.5, 1e-6))
    total = privacy_statement(pipe).total
    assert set(total.scope) == {"a", "b", "c", "d", "target"}
    assert total.epsilon == pytest.approx(1.5)
