"""Each charge of a ledger is one line of the logger "skdp"."""

import json
import logging

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import skdp
from skdp import PrivacyGuarantee, PrivacyLedger
from tests.estimators import SUBJECTS

FIELDS = ["ledger", "release", "mechanism", "columns", "relation", "cost", "remaining"]
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def read_log(caplog):
    """Return the logged charges, and forget them."""
    charges = []
    for record in caplog.records:
        if record.name == "skdp":
            word, _, text = record.getMessage().partition(" ")
            assert (word, record.levelname) == ("charge", "INFO")
            charges.append(json.loads(text))
    caplog.clear()
    return charges


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.INFO, "skdp")
    return lambda: read_log(caplog)


def test_log_of_a_charge_has_cost_and_remaining_budget(log, tmp_path):
    path = tmp_path / "ledger.sqlite"
    ledger = PrivacyLedger(3.0, delta=1e-6, path=path, relation="replace")
    ledger.charge(PrivacyGuarantee(0.5, relation="add_remove", trust="central", scope=("a", 1), mechanism="noise"), "x")
    (charge,) = log()
    assert list(charge) == FIELDS
    assert charge == {
        "ledger": str(path),
        "release": "x",
        "mechanism": "noise",
        "columns": ["a", "1"],
        "relation": "replace",
        "cost": {"epsilon": 1.0, "delta": 0.0},
        "remaining": {"epsilon": 2.0, "delta": 1e-6},
    }


@pytest.mark.parametrize(("budget", "name"), [({"rho": 0.5}, "rho"), ({"mu": 1.0}, "mu_squared")])
def test_log_of_budgets_in_rho_and_mu_has_their_measure(budget, name, caplog):
    caplog.set_level(logging.INFO, "skdp")
    ledger = PrivacyLedger(**budget)
    ledger.charge(PrivacyGuarantee(0.5), "x")
    (charge,) = read_log(caplog)
    assert set(charge["cost"]) == {"epsilon", "delta", name}
    assert charge["ledger"] == "memory"
    power = 2 if name == "mu_squared" else 1
    balance = ledger.balance()[name.removesuffix("_squared")] ** power
    assert charge["remaining"] == {name: pytest.approx(balance["remaining"])}
    assert charge["cost"][name] == pytest.approx(balance["spent"])


def test_refused_charge_is_not_logged(log):
    with pytest.raises(skdp.BudgetExceeded):
        PrivacyLedger(1.0).charge(PrivacyGuarantee(2.0), "x")
    assert log() == []


def release(estimator, X):
    y = np.arange(len(X)) % 2
    if isinstance(estimator, skdp.HeavyHitters):
        return None
    if hasattr(estimator, "fit_resample"):
        return estimator.fit_resample(X)
    options = {"person": np.arange(len(X))} if getattr(estimator, "memoize", False) else {}
    target = y if estimator.__sklearn_tags__().target_tags.required else None
    if hasattr(estimator, "fit_transform"):
        return estimator.fit_transform(X, target, **options)
    return estimator.fit(X, target)


@pytest.mark.parametrize(("estimator", "X"), SUBJECTS, ids=[type(estimator).__name__ for estimator, _ in SUBJECTS])
def test_each_charge_of_an_estimator_is_logged(estimator, X, log):
    names = [name for name in estimator.get_params() if name.rpartition("__")[2] == "ledger"]
    ledger = PrivacyLedger(1000.0, delta=0.5)
    released = clone(estimator).set_params(**dict.fromkeys(names, ledger))
    release(released, X)
    charges = log()
    assert [charge["release"] for charge in charges] == ledger.charges()["title"].tolist()
    table = pd.DataFrame(X)
    values = {str(value) for value in table.to_numpy(object).ravel() if isinstance(value, str)} - set(table.columns)
    for charge in charges:
        assert charge["columns"] == list(map(str, ledger.charges()["scope"][0].split(", ")))
        assert not values & set(json.dumps(charge).replace('"', " ").split())
        assert str(len(X)) not in json.dumps(charge).split()
