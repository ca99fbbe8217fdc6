from __future__ import annotations

import contextlib
import copy
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from sklearn.base import clone

from skdp import BudgetExceeded, PrivacyGuarantee, PrivacyLedger


def test_decimals_count_as_they_were_written():
    ledger = PrivacyLedger(epsilon=0.3, delta=3e-7)
    for _ in range(3):
        ledger.charge(PrivacyGuarantee(0.1, 1e-7), "release")
    assert ledger.spent == (0.3, 3e-7)
    assert ledger.remaining == (0.0, 0.0)
    with pytest.raises(BudgetExceeded):
        ledger.charge(PrivacyGuarantee(1e-300), "release")


@pytest.mark.parametrize(
    ("charge", "what"), [(PrivacyGuarantee(0.5), "epsilon 0.5"), (PrivacyGuarantee(0.1, 1e-6), "delta 1e-06")]
)
def test_over_the_budget_nothing_is_charged(charge, what):
    ledger = PrivacyLedger(epsilon=0.4, delta=1e-7)
    with pytest.raises(BudgetExceeded, match=rf"^DPMean asks for {what}; .* Nothing was released\.$"):
        ledger.charge(charge, "DPMean")
    assert ledger.spent == (0, 0)
    assert ledger.relation is None
    assert len(ledger.report()) == 0


def test_charges_convert_to_the_relation_of_the_first_one():
    ledger = PrivacyLedger(epsilon=3)
    ledger.charge(PrivacyGuarantee(1), "local")
    ledger.charge(PrivacyGuarantee(1, relation="add_remove", trust="central"), "central")
    assert ledger.spent == (3, 0)
    assert ledger.report()["relation"].tolist() == ["replace", "replace"]


def test_a_local_charge_cannot_enter_an_add_remove_ledger():
    ledger = PrivacyLedger(epsilon=3, relation="add_remove")
    with pytest.raises(ValueError, match=r"encoder: a guarantee for replacing .*; the ledger is for 'add_remove'"):
        ledger.charge(PrivacyGuarantee(1), "encoder")
    assert ledger.spent == (0, 0)


def test_the_report_lists_every_charge():
    ledger = PrivacyLedger(epsilon=3)
    ledger.charge(PrivacyGuarantee(1, scope=("sex", "age"), mechanism="coins"), "encoder")
    assert ledger.report().to_dict("records") == [
        {
            "what": "encoder",
            "epsilon": 1,
            "delta": 0.0,
            "relation": "replace",
            "trust": "local",
            "scope": "sex, age",
            "mechanism": "coins",
            "secure": True,
        }
    ]


def test_copies_and_clones_are_the_same_ledger():
    ledger = PrivacyLedger(epsilon=1)
    assert copy.copy(ledger) is copy.deepcopy(ledger) is clone(ledger) is ledger


def test_it_refuses_to_be_pickled():
    with pytest.raises(pickle.PicklingError, match="lives in one process"):
        pickle.dumps(PrivacyLedger(epsilon=1))


def test_a_small_charge_leaves_a_large_budget_exactly():
    ledger = PrivacyLedger(epsilon=1e16)
    ledger.charge(PrivacyGuarantee(1e-16), "release")
    with pytest.raises(BudgetExceeded):
        ledger.charge(PrivacyGuarantee(1e16), "release")


def test_a_charge_waits_for_the_one_before_it(monkeypatch):
    """Both threads see an empty ledger unless the second waits until the first has charged."""
    ledger = PrivacyLedger(epsilon=1)
    totals, meeting = ledger._totals, threading.Barrier(2)

    def slow_totals():
        result = totals()
        with contextlib.suppress(threading.BrokenBarrierError):
            meeting.wait(timeout=0.5)
        return result

    monkeypatch.setattr(ledger, "_totals", slow_totals)

    def spend(_):
        with contextlib.suppress(BudgetExceeded):
            ledger.charge(PrivacyGuarantee(1), "thread")

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(spend, range(2)))
    assert len(ledger.report()) == 1


def test_threads_cannot_overspend():
    ledger = PrivacyLedger(epsilon=50)

    def spend(_):
        try:
            ledger.charge(PrivacyGuarantee(1), "thread")
        except BudgetExceeded:
            return 0
        return 1

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(spend, range(200))) == 50
    assert ledger.spent == (50, 0)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"epsilon": 0}, ValueError),
        ({"epsilon": "1"}, TypeError),
        ({"epsilon": 1, "delta": 1}, ValueError),
        ({"epsilon": 1, "relation": "swap"}, ValueError),
    ],
)
def test_impossible_budgets_are_refused(arguments, error):
    with pytest.raises(error):
        PrivacyLedger(**arguments)
