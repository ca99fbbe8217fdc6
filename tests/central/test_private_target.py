"""Models that protect the target alone: what a target changes, what is stated, and what is learnt."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge

from skdp import (
    BudgetExceeded,
    DPLinearRegression,
    DPLogisticRegression,
    DPRidge,
    PrivacyGuarantee,
    PrivacyLedger,
    privacy_statement,
)
from skdp.privacy import Mu, Rho
from skdp.testing import replay_release
from tests.conftest import each

OF_TARGET = {"relation": "replace_values", "columns": ["target"]}


def binary(epsilon=1.0, **parameters):
    return DPLogisticRegression(epsilon, classes=[0, 1], protect="target", **parameters)


def several(epsilon=1.0, **parameters):
    return DPLogisticRegression(epsilon, classes=["a", "b", "c"], protect="target", **parameters)


def linear(epsilon=1.0, **parameters):
    return DPLinearRegression(epsilon, target_bounds=(-3, 5), protect="target", **parameters)


def ridge(epsilon=1.0, **parameters):
    return DPRidge(epsilon, alpha=2.0, target_bounds=(-3, 5), protect="target", **parameters)


MODELS = {
    "binary": (binary, [0, 1]),
    "several": (several, ["a", "b", "c"]),
    "linear": (linear, [-3.0, 5.0, 0.25, 1e9]),
    "ridge": (ridge, [-3.0, 5.0, -1e9]),
}


def rows(seed, n_rows, n_columns=3):
    """Return rows whose lengths differ by much, and of which some columns follow from others."""
    rng = np.random.default_rng(seed)
    X = rng.standard_t(2, (n_rows, n_columns)) * 10.0 ** rng.integers(-2, 3, n_columns)
    return np.hstack([X, X[:, :1] + X[:, 1:2], np.ones((n_rows, 1))])


class TestPrivacy:
    """What another target of one row changes is covered by the noise: replayed, with the noise moved."""

    @pytest.mark.parametrize("n_neighbours", [4, pytest.param(504, marks=pytest.mark.long)])
    @each("name", list(MODELS))
    def test_neighbours_that_differ_in_the_target(self, name, n_neighbours):
        """Up to 504 neighbours of each model: tables of 1 to 24 rows, with and without delta, all kinds of shares."""
        make, values = MODELS[name]
        rng = np.random.default_rng(3)
        shares = [{"epsilon": 1.0, "delta": 1e-6}, {"epsilon": Rho(0.1, 1e-6)}, {"epsilon": Mu(2.0, 1e-6)}]
        if name in ("linear", "ridge"):
            shares.append({"epsilon": 1.0})
        largest = {}
        for number in range(n_neighbours):
            n_rows = int(rng.integers(1, 25))
            X = pd.DataFrame(rows(number, n_rows)).rename(columns=str)
            X["target"] = pd.Series(rng.choice(values, n_rows).tolist())
            neighbour = X.copy()
            row = int(rng.integers(n_rows))
            others = [value for value in values if value != X["target"].iloc[row]]
            neighbour["target"] = pd.Series(X["target"].tolist())
            neighbour.loc[row, "target"] = rng.choice(others)
            parameters = shares[number % len(shares)] | {"fit_intercept": bool(number % 2)}
            model = make(**parameters)
            replay = replay_release(model, X, neighbour)
            assert replay.passed, (parameters, replay.findings)
            assert replay.guarantee.relation == "replace_values"
            place = number % len(shares)
            largest[place] = max(largest.get(place, 0.0), replay.epsilon / replay.guarantee.epsilon)
        # The bound is reached, but for rounding to steps of the noise: the test would see a larger change.
        assert max(largest.values()) > 0.5

    @each("name", list(MODELS))
    def test_public_columns_are_no_secret(self, name):
        """Nothing is promised of X, and nothing of X is said to be protected."""
        make, values = MODELS[name]
        X = pd.DataFrame(rows(0, 30)).rename(columns=str)
        y = pd.Series(np.resize(np.array(values, object), 30).tolist(), name="income")
        fitted = make(1.0, delta=1e-6, random_state=0).fit(X, y)
        stated = fitted.guarantee_
        assert (stated.relation, stated.scope, stated.trust) == ("replace_values", ("income",), "central")
        assert stated.epsilon <= 1
        assert stated.delta == 1e-6
        statement = privacy_statement(fitted)
        assert statement.total == stated
        assert set(statement.rows["protection"]) == {"unprotected: true values are learned", "private statistics only"}
        assert "noisy sums with the target" in stated.mechanism
        planned = privacy_statement(make(1.0, delta=1e-6))
        assert planned.steps[0].guarantee.relation == "replace_values"
        assert planned.steps[0].guarantee.epsilon == 1

    def test_rows_of_a_person_count_together(self):
        X = rows(0, 40)
        y = np.resize([0, 1], 40)
        persons = np.repeat(np.arange(10), 4)
        one = binary(1.0, random_state=0).fit(X, y)
        several_rows = binary(1.0, max_rows_per_person=4, random_state=0).fit(X, y, groups=persons)
        assert several_rows.guarantee_.max_rows_per_person == 4
        assert several_rows.guarantee_.epsilon == one.guarantee_.epsilon
        frame = pd.DataFrame(X).rename(columns=str).assign(target=y)
        changed = frame.assign(target=np.where(persons == 3, 1 - y, y))
        assert replay_release(
            lambda table: binary(1.0, max_rows_per_person=4, random_state=0).fit(
                table.iloc[:, :-1], table["target"], groups=persons
            ),
            frame,
            changed,
        ).passed

    def test_mistakes_cost_nothing(self):
        X, y = rows(0, 20), np.resize([0, 1], 20)
        ledger = PrivacyLedger(epsilon=5, delta=1e-3, **OF_TARGET)
        mistakes = [
            (binary(ledger=ledger).set_params(protect="y"), y, "protect must be one of"),
            (binary(ledger=ledger).set_params(protect=None), y, "protect must be one of"),
            (binary(ledger=ledger), np.where(np.arange(20) == 3, 7, y), "classes does not declare"),
            (binary(ledger=ledger).set_params(protect=["x0"]), y, "protect must be one of"),
            (binary(ledger=ledger, bounds={"nope": (0, 1)}), y, r"X does not have: \['nope'\]"),
            (linear(ledger=ledger).set_params(target_bounds=None), y, "target_bounds must be"),
            (linear(ledger=ledger), np.where(np.arange(20) == 3, np.nan, y), "missing"),
        ]
        for model, target, message in mistakes:
            with pytest.raises(ValueError, match=message):
                model.fit(X, target)
        assert ledger.spent == (0, 0)
        ledger = PrivacyLedger(epsilon=5, delta=1e-3, relation="replace_values", columns=["income"])
        with pytest.raises(ValueError, match=r"target \(give y a name\) does not cover the values of income"):
            linear(ledger=ledger).fit(X, y)

    @each("model", [binary(), linear()])
    def test_a_target_that_is_a_column_is_refused(self, model):
        """It was public in X and protected as y, and stated as "target"."""
        X = pd.DataFrame(rows(0, 200)[:, :3], columns=["a", "b", "income"])
        y = pd.Series(np.resize([0, 1], 200), name="income")
        ledger = PrivacyLedger(epsilon=5, delta=1e-3, relation="replace_values", columns=["income"])
        model = clone(model).set_params(ledger=ledger)
        for target in (y, y.to_frame()):
            with pytest.raises(ValueError, match="X has a column of the name of y, 'income'"):
                model.fit(X, target)
        assert ledger.spent == (0, 0)
        # One without a name is another target.
        model.set_params(ledger=None).fit(X.rename(columns={"income": "target"}), y.rename(None))
        assert model.guarantee_.scope == ("target_2",)
        model.fit(X.to_numpy(), y)
        assert model.guarantee_.scope == ("income",)

    def test_ledgers_of_whole_records_refuse(self):
        X, y = rows(0, 20), np.resize([0, 1], 20)
        for ledger in (PrivacyLedger(epsilon=5, delta=1e-3), PrivacyLedger(epsilon=5, delta=1e-3, relation="replace")):
            with pytest.raises(ValueError, match="for whole records"):
                binary(ledger=ledger).fit(X, y)
            assert ledger.spent == (0, 0)
        ledger = PrivacyLedger(epsilon=1.5, delta=1e-3, **OF_TARGET)
        binary(ledger=ledger).fit(X, y)
        assert ledger.spent.epsilon <= 1
        with pytest.raises(BudgetExceeded):
            binary(ledger=ledger).fit(X, y)
        # A model of whole records is paid from the same ledger, for twice its epsilon.
        ledger.charge(PrivacyGuarantee(0.2, relation="add_remove", trust="central"), "counts")

    def test_large_tables_are_refused(self):
        pl = pytest.importorskip("polars")
        frame = pl.DataFrame({"x": [0.0, 1.0, 2.0], "y": [0, 1, 0]}).lazy()
        with pytest.raises(TypeError, match="requires a table in memory"):
            binary().fit(frame, "y")


class TestModels:
    @each("fit_intercept", [True, False])
    def test_without_noise_it_is_the_model_of_scikit_learn(self, fit_intercept):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(4_000, 4)) * [1, 10, 0.1, 1]
        logits = X @ [1.0, -0.1, 5.0, 0.0] - 0.3 * fit_intercept
        X += fit_intercept
        y = (rng.random(4_000) < 1 / (1 + np.exp(-logits))).astype(int)
        model = binary(10_000.0, fit_intercept=fit_intercept, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X, y)
        exact = LogisticRegression(C=1e6, fit_intercept=fit_intercept, tol=1e-10, max_iter=1_000).fit(X, y)
        # The penalty that the sample asks for takes a little.
        np.testing.assert_allclose(model.coef_, exact.coef_, atol=0.02 * np.abs(exact.coef_).max())
        np.testing.assert_allclose(model.intercept_, exact.intercept_, atol=0.02 * abs(exact.intercept_).max())

    def test_several_classes(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(6_000, 3))
        logits = X @ [[2.0, 0.0, -1.0], [0.0, 1.0, -1.0], [0.0, 0.0, 0.0]] + [0.5, 0.0, 0.0]
        y = np.array(["a", "b", "c"])[(logits + rng.gumbel(size=logits.shape)).argmax(axis=1)]
        exact = LogisticRegression(C=1e6).fit(X, y)
        model = several(4.0, random_state=0).fit(X, y)
        assert model.coef_.shape == (3, 3)
        assert abs(model.predict_proba(X) - exact.predict_proba(X)).mean() < 0.02
        assert list(model.classes_) == ["a", "b", "c"]

    def test_linear_is_least_squares_and_its_errors_are_right(self):
        rng = np.random.default_rng(0)
        slopes = np.array([1.0, -0.5, 0.25, 2.0])
        n_covered = n_all = 0
        for seed in range(60):
            X = rng.normal(size=(2_000, 4))
            y = 1 + X @ slopes + rng.normal(size=2_000)
            model = DPLinearRegression(
                1.0, delta=1e-6, target_bounds=(-12, 12), protect="target", random_state=seed
            ).fit(X, y)
            errors = np.append(model.coef_ - slopes, model.intercept_ - 1)
            widths = np.append(model.coef_std_error_, model.intercept_std_error_)
            n_covered += (abs(errors) < 1.96 * widths).sum()
            n_all += len(errors)
        # 300 intervals of 95 %: fewer than .885 are covered with a probability of 1e-6.
        assert n_covered / n_all > 0.885
        # And they are no wider than they have to be.
        assert widths.max() < 0.5

    def test_penalty_is_that_of_ridge(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(2_000, 3))
        y = X @ [1.0, -1.0, 0.5] + rng.normal(size=2_000)
        parameters = {"target_bounds": (-9, 9), "protect": "target", "random_state": 0}
        for alpha in (0.0, 500.0, 5_000.0):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = DPRidge(10_000.0, alpha=alpha, delta=1e-6, **parameters).fit(X, y)
            exact = Ridge(alpha=alpha).fit(X, y)
            np.testing.assert_allclose(model.coef_, exact.coef_, atol=0.01)

    @each("delta", [None, 1e-6])
    def test_small_epsilons_are_hardly_worse_than_the_mean(self, delta):
        """The penalty was that of the likeliest spread of coefficients, and R2 was -20, and -860 at worst."""
        scores = []
        for seed in range(6):
            rng = np.random.default_rng(seed)
            X = rng.normal(size=(330, 10))
            y = np.clip(50 + X @ rng.normal(size=10) * 3 + 10 * rng.normal(size=330), 0, 100)
            for kind in (DPLinearRegression, DPRidge):
                model = kind(0.1, delta=delta, target_bounds=(0, 100), protect="target", random_state=seed).fit(X, y)
                scores.append(model.score(X, y))
                # What the noise hides is as good as nothing beside the penalty.
                assert model.ridge_ > 330
                assert abs(model.predict(X) - 50).max() < 50
        assert np.median(scores) > -0.2
        assert min(scores) > -1

    def test_a_mean_that_noise_hides_is_drawn_to_the_middle(self):
        X = np.random.default_rng(0).normal(size=(200, 8))
        errors = []
        for seed in range(20):
            parameters = {"target_bounds": (0, 10), "protect": "target", "random_state": seed}
            model = DPLinearRegression(0.02, **parameters).fit(X, np.full(200, 5.0))
            errors.append(model.intercept_ - 5)
            assert model.intercept_std_error_ < 10
        # Noise alone has a deviation of 200.
        assert np.sqrt(np.mean(np.square(errors))) < 2
        exact = DPLinearRegression(10.0, **parameters).fit(X, np.full(200, 9.0))
        assert exact.intercept_ == pytest.approx(9, abs=1)


class TestSizes:
    """Columns of any size are answered, or refused before the charge: an error after it costs the budget."""

    @each("alpha", [0.01, 1.0, 1_000.0])
    def test_the_penalty_is_that_of_ridge_in_all_units(self, alpha):
        """One column is small, one is large, and one follows from others."""
        rng = np.random.default_rng(0)
        X = rng.normal(size=(4_000, 3))
        X = np.column_stack([X, X[:, 0] + X[:, 1]]) * [1, 1e-3, 1e3, 1]
        y = np.clip(0.5 + X @ [0.1, 20, 1e-5, 0], 0, 1)
        parameters = {"protect": "target", "target_bounds": (0, 1), "random_state": 0}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = DPRidge(1e5, delta=1e-6, alpha=alpha, **parameters).fit(X, y)
        sizes = [1, 1e-3, 1e3, 1]
        np.testing.assert_allclose(model.coef_ * sizes, Ridge(alpha).fit(X, y).coef_ * sizes, atol=1e-3)

    @each("n_rows", [1, 100])
    @each("epsilon", [1e-9, 1e-6, 1e-4, 1.0])
    def test_columns_of_zeros(self, n_rows, epsilon):
        """There is nothing to draw, and it was an error."""
        model = DPLinearRegression(
            epsilon, protect="target", target_bounds=(1000, 1001), fit_intercept=False, random_state=0
        ).fit(np.zeros((n_rows, 2)), np.full(n_rows, 1000.0))
        np.testing.assert_array_equal([*model.coef_, model.intercept_], 0)

    @each("name", list(MODELS))
    @each("fit_intercept", [True, False])
    def test_columns_that_no_float_scales(self, name, fit_intercept):
        make, values = MODELS[name]
        X = pd.DataFrame(np.arange(12.0).reshape(6, 2) * [1, 1e-309], columns=["a", "b"])
        y = np.resize(np.array(values), 6)
        ledger = PrivacyLedger(epsilon=5, delta=1e-3, **OF_TARGET)
        with pytest.raises(ValueError, match="values of column 'b' differ by less than"):
            make(1.0, delta=1e-6, fit_intercept=fit_intercept, ledger=ledger).fit(X, y)
        assert ledger.spent == (0, 0)
