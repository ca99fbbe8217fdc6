"""Logistic regression with a private target only: sensitivity, statements, and accuracy."""

import dataclasses
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from skdp import DPLogisticRegression, PrivacyLedger, privacy_statement
from skdp.privacy import Mu, Rho
from skdp.testing import replay_release

OF_TARGET = {"relation": "replace_values", "columns": ["target"]}


def binary(epsilon=1.0, **parameters):
    return DPLogisticRegression(epsilon, classes=[0, 1], protect="target", **parameters)


def several(epsilon=1.0, **parameters):
    return DPLogisticRegression(epsilon, classes=["a", "b", "c"], protect="target", **parameters)


MODELS = {"binary": (binary, [0, 1]), "several": (several, ["a", "b", "c"])}


def rows(seed, n_rows, n_columns=3):
    """Return rows of very different lengths, with linearly dependent columns."""
    rng = np.random.default_rng(seed)
    X = rng.standard_t(2, (n_rows, n_columns)) * 10.0 ** rng.integers(-2, 3, n_columns)
    return np.hstack([X, X[:, :1] + X[:, 1:2], np.ones((n_rows, 1))])


@pytest.mark.parametrize("weight", [0.0, np.nan])
def test_weights_that_are_all_zero_or_missing_are_an_error_before_the_charge(weight):
    """The error was raised after the charge, in the words of a noise variance."""
    ledger = PrivacyLedger(9.0, delta=1e-3, **OF_TARGET)
    model = binary(max_weight=2.0, ledger=ledger)
    with pytest.raises(ValueError, match="`sample_weight` must have a weight > 0 with protect='target', got none"):
        model.fit(rows(0, 20), np.tile([0, 1], 10), sample_weight=np.full(20, weight))
    assert ledger.spent.epsilon == 0


@pytest.mark.parametrize("weights", [[1.0] + [0.0] * 19, [0.01] * 20, [1e-300] * 20], ids=["one row", "light", "tiny"])
def test_public_weights_of_any_scale_give_finite_coefficients(weights):
    model = binary(max_weight=2.0, random_state=0).fit(rows(0, 20), np.tile([0, 1], 10), sample_weight=weights)
    assert np.isfinite(model.coef_).all()


def test_table_without_rows_is_an_error():
    with pytest.raises(ValueError, match="X must have at least one row with protect='target', got 0"):
        binary().fit(np.empty((0, 2)), np.empty(0, int))


class TestPrivacy:
    """The noise covers the change by another target of one row: replayed, with shifted noise."""

    @pytest.mark.parametrize("n_neighbors", [4, pytest.param(504, marks=pytest.mark.long)])
    @pytest.mark.parametrize("name", list(MODELS))
    def test_neighbors_with_another_target_are_within_epsilon(self, name, n_neighbors):
        """Up to 504 neighbors of each model: tables of 1 to 24 rows, with and without delta, all proportions."""
        make, values = MODELS[name]
        rng = np.random.default_rng(3)
        shares = [{"epsilon": 1.0, "delta": 1e-6}, {"epsilon": Rho(0.1, 1e-6)}, {"epsilon": Mu(2.0, 1e-6)}]
        largest = {}
        for number in range(n_neighbors):
            n_rows = int(rng.integers(1, 25))
            X = pd.DataFrame(rows(number, n_rows)).rename(columns=str)
            X["target"] = pd.Series(rng.choice(values, n_rows).tolist())
            neighbor = X.copy()
            row = int(rng.integers(n_rows))
            others = [value for value in values if value != X["target"].iloc[row]]
            neighbor["target"] = pd.Series(X["target"].tolist())
            neighbor.loc[row, "target"] = rng.choice(others)
            parameters = shares[number % len(shares)]
            model = make(**parameters)
            replay = replay_release(model, X, neighbor)
            assert replay.passed, (parameters, replay.findings)
            assert replay.guarantee.relation == "replace_values"
            index = number % len(shares)
            largest[index] = max(largest.get(index, 0.0), replay.epsilon / replay.guarantee.epsilon)
        # The bound is attained, up to rounding to steps of the noise: the test would find a larger change.
        assert max(largest.values()) > 0.5

    @pytest.mark.parametrize("name", list(MODELS))
    def test_public_columns_are_stated_as_unprotected(self, name):
        """X has no guarantee, and none is stated for it."""
        make, values = MODELS[name]
        X = pd.DataFrame(rows(0, 30)).rename(columns=str)
        y = pd.Series(np.resize(np.array(values, object), 30).tolist(), name="income")
        fitted = make(1.0, delta=1e-6, random_state=0).fit(X, y)
        stated = fitted.guarantee_
        assert (stated.relation, stated.scope, stated.trust) == ("replace_values", ("income",), "central")
        assert stated.epsilon <= 1
        assert stated.delta == 1e-6
        statement = privacy_statement(fitted)
        assert statement.total == dataclasses.replace(stated, method=())
        assert set(statement.rows["protection"]) == {
            "unprotected: true values are learned",
            "private statistics of this step",
        }
        assert "noisy sums with the target" in stated.mechanism
        planned = privacy_statement(make(1.0, delta=1e-6))
        assert planned.steps[0].guarantee.relation == "replace_values"
        assert planned.steps[0].guarantee.epsilon == 1

    def test_rows_of_a_person_count_together(self):
        X, persons = rows(0, 40), np.repeat(np.arange(10), 4)
        X[persons == 3] = X[12]  # equal rows of a person, so that the changes of the sums add up
        y = persons % 2
        one = binary(1.0, random_state=0).fit(X, y)
        several_rows = binary(1.0, max_rows_per_person=4, random_state=0).fit(X, y, person=persons)
        assert several_rows.guarantee_.max_rows_per_person == 4
        assert several_rows.guarantee_.epsilon == one.guarantee_.epsilon
        frame = pd.DataFrame(X).rename(columns=str).assign(target=y)
        changed = frame.assign(target=np.where(persons == 3, 1 - y, y))
        replay = replay_release(
            lambda table: binary(1.0, max_rows_per_person=4, random_state=0).fit(
                table.iloc[:, :-1], table["target"], person=persons
            ),
            frame,
            changed,
        )
        assert replay.passed
        assert replay.epsilon > 0.5 * several_rows.guarantee_.epsilon

    def test_invalid_arguments_raise_before_charge(self):
        X, y = rows(0, 20), np.resize([0, 1], 20)
        ledger = PrivacyLedger(epsilon=5, delta=1e-3, **OF_TARGET)
        mistakes = [
            (binary(ledger=ledger).set_params(protect="y"), y, "`protect` must be one of"),
            (binary(ledger=ledger), np.where(np.arange(20) == 3, 7, y), "values that `classes` does not declare"),
            (binary(ledger=ledger, bounds={"nope": (0, 1)}), y, r"must be columns of X, .*got \['nope'\]"),
            (binary(ledger=ledger), np.where(np.arange(20) == 3, np.nan, y), "missing"),
        ]
        for model, target, message in mistakes:
            with pytest.raises(ValueError, match=message):
                model.fit(X, target)
        assert ledger.spent == (0, 0)
        ledger = PrivacyLedger(epsilon=5, delta=1e-3, relation="replace_values", columns=["income"])
        with pytest.raises(ValueError, match=r"target \(give y a name\) does not cover the values of income"):
            binary(ledger=ledger).fit(X, y)

    def test_target_that_is_a_column_raises_an_error(self):
        """It was public in X and protected as y, and stated as "target"."""
        X = pd.DataFrame(rows(0, 200)[:, :3], columns=["a", "b", "income"])
        y = pd.Series(np.resize([0, 1], 200), name="income")
        ledger = PrivacyLedger(epsilon=5, delta=1e-3, relation="replace_values", columns=["income"])
        model = binary(ledger=ledger)
        for target in (y, y.to_frame()):
            with pytest.raises(ValueError, match="X must not have a column with the name of y, 'income'"):
                model.fit(X, target)
        assert ledger.spent == (0, 0)
        # A target without a name is another target.
        model.set_params(ledger=None).fit(X.rename(columns={"income": "target"}), y.rename(None))
        assert model.guarantee_.scope == ("target_2",)
        model.fit(X.to_numpy(), y)
        assert model.guarantee_.scope == ("income",)


class TestModels:
    def test_model_without_noise_equals_scikit_learn(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(4_000, 4)) * [1, 10, 0.1, 1]
        logits = X @ [1.0, -0.1, 5.0, 0.0] - 0.3
        X += 1
        y = (rng.random(4_000) < 1 / (1 + np.exp(-logits))).astype(int)
        model = binary(10_000.0, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X, y)
        exact = LogisticRegression(C=1e6, tol=1e-10, max_iter=1_000).fit(X, y)
        # The penalty for the sample shrinks slightly.
        np.testing.assert_allclose(model.coef_, exact.coef_, atol=0.02 * np.abs(exact.coef_).max())
        np.testing.assert_allclose(model.intercept_, exact.intercept_, atol=0.02 * abs(exact.intercept_).max())

    @pytest.mark.parametrize("name", list(MODELS))
    def test_numbers_of_any_magnitude_are_supported(self, name):
        """Differences below float precision are 0; squares beyond float range raise an error before the charge."""
        make, values = MODELS[name]
        X = pd.DataFrame(np.arange(12.0).reshape(6, 2) * [1, 1e-309], columns=["a", "b"])
        y = np.resize(np.array(values), 6)
        ledger = PrivacyLedger(epsilon=5, delta=1e-3, **OF_TARGET)
        assert np.isfinite(make(1.0).fit(X, y).coef_).all()
        with pytest.raises(ValueError, match="squares are finite floats"):
            make(1.0, ledger=ledger).fit(X * 1e300, y)
        assert ledger.spent == (0, 0)
