"""Ledgers: what they admit, list and refuse, in searches and threads, and plans of many releases."""

from __future__ import annotations

import contextlib
import copy
import os
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skdp import BudgetExceeded, OnFitOnly, PrivacyGuarantee, PrivacyLedger, RandomizedResponseEncoder
from skdp.randomness import SecureSource
from tests.conftest import each


def test_ten_charges_of_a_tenth_fit_into_1_exactly(make):
    ledger = make(1)
    for _ in range(10):
        ledger.charge(PrivacyGuarantee(0.1), "release")
    assert (ledger.spent, ledger.remaining()) == ((1, 0), (0, 0))


@each("charge, what", [(PrivacyGuarantee(0.5), "epsilon=0.5"), (PrivacyGuarantee(0.1, delta=1e-6), "delta=1e-06")])
def test_over_the_budget_nothing_is_charged(make, charge, what):
    ledger = make(epsilon=0.4, delta=1e-7)
    with pytest.raises(BudgetExceeded, match=rf"^DPMean requires {what}, but the ledger has .* left\.$"):
        ledger.charge(charge, "DPMean")
    assert ledger.spent == (0, 0)
    assert ledger.relation is None
    assert len(ledger.report()) == 0
    with pytest.raises(ValueError, match="relation='add_remove'"):
        make(epsilon=3, delta=1e-5, relation="add_remove").charge(charge, "encoder")


def test_the_report_lists_every_charge(make):
    ledger = make(epsilon=3, delta=1e-5)
    before = pd.Timestamp.now("UTC").floor("us")
    ledger.charge(PrivacyGuarantee(1, scope=("sex", 3), mechanism="coins", secure=False), "encoder")
    ledger.charge(PrivacyGuarantee(0.1, delta=1e-6, rho=0.25, trust="central"), "histogram")
    report = ledger.report()
    assert report.drop(columns=["time", "rho"]).to_numpy().tolist() == [
        ["encoder", 1.0, 0.0, "replace", "one record", "local", "sex, 3", "coins", False],
        ["histogram", 0.1, 1e-6, "replace", "one record", "central", "", "", True],
    ]
    assert report["rho"].isna().tolist() == [True, False]
    assert before <= report["time"][0] <= report["time"][1] <= pd.Timestamp.now("UTC")


def test_copies_and_clones_are_the_same_ledger(make):
    ledger = make(epsilon=1)
    assert copy.copy(ledger) is copy.deepcopy(ledger) is clone(ledger) is ledger


def test_in_memory_a_copy_that_was_pickled_refuses_everything_but_its_budget():
    ledger = PrivacyLedger(epsilon=1)
    ledger.charge(PrivacyGuarantee(0.5), "before")
    copied = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(ledger))))
    assert copied.epsilon == 1
    assert repr(copied) == "PrivacyLedger(epsilon=1.0, delta=0.0, spent=unknown)"
    for use in (lambda: copied.charge(PrivacyGuarantee(0.1), "copy"), lambda: copied.spent, copied.remaining):
        with pytest.raises(RuntimeError, match=r"belongs to one process .* a copy.*ledger\.sqlite.*n_jobs=1"):
            use()
    assert ledger.spent == (0.5, 0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_in_memory_it_refuses_to_be_charged_in_a_forked_process():
    ledger = PrivacyLedger(epsilon=1)
    child = os.fork()
    if child == 0:  # nothing of pytest may run here
        try:
            ledger.charge(PrivacyGuarantee(1), "child")
        except RuntimeError as error:
            os._exit(10 if "used in another" in str(error) and "unknown" in repr(ledger) else 11)
        finally:
            os._exit(12)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 10
    ledger.charge(PrivacyGuarantee(1), "parent")


def test_a_charge_waits_for_the_one_before_it(make):
    """Both threads see an empty ledger unless the second waits until the first has charged."""
    ledger, meeting = make(epsilon=1), threading.Barrier(2)

    class Slow(PrivacyGuarantee):
        def to(self, relation, *, columns=None):
            with contextlib.suppress(threading.BrokenBarrierError):
                meeting.wait(timeout=0.5)
            return super().to(relation)

    def spend(_):
        with contextlib.suppress(BudgetExceeded):
            ledger.charge(Slow(1), "thread")

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(spend, range(2)))
    assert len(ledger.report()) == 1


FRAME = pd.DataFrame({"smokes": ["yes", "no"] * 50})
ILL = np.array([1, 0] * 50)


def model(ledger, *, on_fit_only=True):
    encoder = RandomizedResponseEncoder(1.0, categories={"smokes": ["yes", "no"]}, ledger=ledger)
    first = OnFitOnly(encoder) if on_fit_only else encoder
    return make_pipeline(first, OneHotEncoder(), LogisticRegression())


@each("on_fit_only, spent", [(True, 5), (False, 10)])
def test_every_fit_of_a_search_is_charged_and_what_is_privatized_for_scores(make, on_fit_only, spent):
    ledger = make(epsilon=spent)
    cross_val_score(model(ledger, on_fit_only=on_fit_only), FRAME, ILL, cv=5, error_score="raise")
    assert ledger.spent == (spent, 0)
    with pytest.raises(BudgetExceeded):
        model(ledger).fit(FRAME, ILL)


@pytest.mark.filterwarnings("ignore:\\s*3 fits failed:sklearn.exceptions.FitFailedWarning")
def test_worker_processes_share_a_file_and_get_no_budget_of_a_pickled_memory(tmp_path):
    """Each process has a copy: of the file it charges what all together may spend, of memory nothing."""
    in_memory, in_file = PrivacyLedger(epsilon=2), PrivacyLedger(path=tmp_path / "ledger.sqlite", epsilon=2)
    scores = cross_val_score(model(in_file), FRAME, ILL, cv=5, n_jobs=2)
    assert np.isnan(scores).sum() == 3
    assert in_file.spent == (2, 0)
    with pytest.raises(ValueError, match=r"(?s)All the 5 fits failed.*in memory belongs to one process .* n_jobs=1"):
        cross_val_score(model(in_memory), FRAME, ILL, cv=5, n_jobs=2)
    assert in_memory.spent == (0, 0)


def test_over_the_budget_no_coin_is_drawn(make, monkeypatch):
    encoder = RandomizedResponseEncoder(1.0, categories={"smokes": ["yes", "no"]}, ledger=make(epsilon=0.5)).fit(FRAME)
    drawn = []
    monkeypatch.setattr(SecureSource, "bytes", lambda source, size: drawn.append(size))
    with pytest.raises(BudgetExceeded):
        encoder.transform(FRAME)
    assert drawn == []
    # A failure after the charge does not refund.
    ledger, left = make(epsilon=2), iter(())
    monkeypatch.setattr(SecureSource, "bytes", lambda source, size: next(left))
    with pytest.raises(StopIteration):
        encoder.set_params(ledger=ledger).fit(FRAME).transform(FRAME)
    assert ledger.spent == (1, 0)


@each("spent", [1e-20, 1e-300, 1 / 3, 0.7])
def test_what_remains_is_rounded_down(spent):
    ledger = PrivacyLedger(epsilon=1.0, delta=0.999)
    ledger.charge(PrivacyGuarantee(spent, delta=spent), "release")
    left = ledger.remaining()
    with pytest.raises(BudgetExceeded) as caught:
        ledger.charge(PrivacyGuarantee(1.0), "too much")
    assert str(caught.value).startswith(f"too much requires epsilon=1.0, but the ledger has {left.epsilon} of 1.0 left")
    assert left.epsilon < 1
    assert left == pytest.approx((1 - spent, 0.999 - spent))
    ledger.charge(PrivacyGuarantee(left.epsilon, delta=left.delta), "the rest")
