"""Ledgers: their budgets, lists and errors, in searches and threads; budgets as filters, and their relation."""

import contextlib
import copy
import math
import os
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skdp import (
    BudgetExceeded,
    DPAdditiveClassifier,
    DPLogisticRegression,
    DPMarginalSynthesizer,
    Interval,
    OnFitOnly,
    PrivacyGuarantee,
    PrivacyLedger,
    RandomizedResponseEncoder,
    privacy_statement,
)
from skdp.privacy import GaussianLoss, Mu, compose, gaussian_epsilon, gaussian_loss, zcdp_epsilon


def test_ten_charges_of_a_tenth_fit_into_1_exactly(make):
    ledger = make(1)
    for _ in range(10):
        ledger.charge(PrivacyGuarantee(0.1), "release")
    assert (ledger.spent, ledger.remaining()) == ((1, 0), (0, 0))


X = pd.DataFrame({"x": np.arange(50) / 50})
NEED_DELTA = [
    DPLogisticRegression(1.0, delta=1e-6, bounds=(0, 1), classes=[False, True]),
    DPAdditiveClassifier(1.0, delta=1e-6, bounds=(0, 1), classes=[False, True]),
    DPMarginalSynthesizer(1.0, delta=1e-6, domain={"x": Interval(0.0, 1.0, bins=2)}),
]


@pytest.mark.parametrize("estimator", NEED_DELTA, ids=lambda value: type(value).__name__)
def test_error_about_delta_names_the_deltas_of_estimator_and_ledger(estimator):
    y = None if isinstance(estimator, DPMarginalSynthesizer) else X["x"] > 0.5
    without_delta = clone(estimator).set_params(ledger=PrivacyLedger(5.0))
    with pytest.raises(
        BudgetExceeded, match=r"requires delta=1e-06, .*`delta=` of PrivacyLedger, .*`delta=` of"
    ) as raised:
        without_delta.fit(X, y)
    assert "epsilon" not in str(raised.value)
    with pytest.raises(BudgetExceeded, match="Decrease `epsilon`, or use a ledger with a larger budget"):
        clone(estimator).set_params(ledger=PrivacyLedger(0.1, delta=0.1)).fit(X, y)


def test_numbers_of_a_ledger_have_no_rounding_errors():
    """The error printed epsilon=0.9999999999990199 and 2.9403e-12, and `remaining` 3.000000000000001."""
    ledger = PrivacyLedger(4.0)
    charge = PrivacyGuarantee(1 - 1e-12)
    ledger.charge(charge, "table")
    assert ledger.remaining() == (3.0, 0.0)
    for _ in range(3):
        ledger.charge(charge, "table")
    with pytest.raises(BudgetExceeded, match=r"^table requires epsilon=1\.0, but the ledger has 0\.0 of 4\.0 left\."):
        ledger.charge(charge, "table")
    assert ledger.remaining() == (0.0, 0.0)
    close = PrivacyLedger(1.0)
    with pytest.raises(BudgetExceeded, match=r"requires epsilon=1\.0000000001, but the ledger has 1\.0 of 1\.0 left"):
        close.charge(PrivacyGuarantee(1 + 1e-10), "table")


def test_balance_has_no_amounts_without_a_limit():
    """The remaining epsilon of a ledger of mu was infinite, and 4 in its statement."""
    balance = PrivacyLedger(mu=1.0).balance()
    assert balance.loc[["budget", "remaining"], ["epsilon", "delta", "rho"]].isna().all(axis=None)
    assert balance["mu"].tolist() == [1.0, 0.0, 1.0]


@pytest.mark.parametrize("budget", [{"epsilon": 2.3, "delta": 1e-6}, {"rho": 0.3}, {"mu": 0.7}])
def test_budget_of_the_balance_is_the_declared_one(budget):
    """Rounded up, the budget of 2.3 was 2.3000000000000003."""
    balance = PrivacyLedger(**budget).balance()
    assert balance.loc["budget", list(budget)].to_dict() == budget
    assert balance.loc["remaining", list(budget)].to_dict() == budget


def test_exceeded_budget_of_mu_is_stated_in_mu():
    """The error had squares, which are neither in the statement nor an argument."""
    ledger = PrivacyLedger(mu=0.5)
    ledger.charge(PrivacyGuarantee(1.0, delta=1e-6, losses=(gaussian_loss(Fraction("0.09")),)), "first")
    with pytest.raises(BudgetExceeded, match=r" left \(mu=0\.45.*, 0\.4 of 0\.5 left, as squares of mu add up\)\."):
        ledger.charge(PrivacyGuarantee(1.5, delta=1e-6, losses=(gaussian_loss(Fraction("0.2025")),)), "next")


def test_exceeded_budget_of_a_guess_is_stated_as_guesses():
    """The error had mu only, which was neither given for the ledger nor for the release."""
    ledger = PrivacyLedger(guess=0.6)
    loss = gaussian_loss(Fraction(Mu.of(guess=0.6).mu) ** 2 / 2)
    ledger.charge(PrivacyGuarantee(1.0, delta=1e-6, losses=(loss,)), "first")
    larger = gaussian_loss(Fraction(Mu.of(guess=0.6).mu) ** 2)
    with pytest.raises(BudgetExceeded, match=r"requires guess=0\.6, but the ledger has 0\.5711 of 0\.6 left \("):
        ledger.charge(PrivacyGuarantee(1.5, delta=1e-6, losses=(larger,)), "next")
    spent = PrivacyLedger(guess=0.6)
    spent.charge(PrivacyGuarantee(1.5, delta=1e-6, losses=(larger,)), "first")
    with pytest.raises(BudgetExceeded, match=r"but the ledger has nothing of 0\.6 left \("):
        spent.charge(PrivacyGuarantee(1.0, delta=1e-6, losses=(loss,)), "next")


def test_budget_of_a_guess_is_shown_as_a_guess():
    ledger = PrivacyLedger(guess=0.75)
    assert repr(ledger) == f"PrivacyLedger(mu={ledger.mu!r} (guess=0.75), spent=(0.0, 0.0))"
    assert "Spent: mu 0 of 1.34898 (guess 0.75), 0 % of the budget" in str(privacy_statement(ledger))


def test_home_directory_of_a_path_is_expanded(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    PrivacyLedger(1.0, path="~/budget.ledger").charge(PrivacyGuarantee(0.25), "table")
    assert PrivacyLedger(path=tmp_path / "budget.ledger").spent.epsilon == 0.25


def test_error_of_a_release_without_mu_names_delta():
    with pytest.raises(BudgetExceeded, match=r"has no mu \(delta=0.1\), .*PrivacyLedger with `epsilon=` and `delta=`"):
        PrivacyLedger(mu=1.0).charge(PrivacyGuarantee(0.1, delta=0.1), "release")
    with pytest.raises(BudgetExceeded, match=r"requires guess=1, .* \(mu=inf, 1.0 of 1.0 left"):
        PrivacyLedger(mu=1.0).charge(PrivacyGuarantee(501.0), "release")


@pytest.mark.parametrize(
    ("charge", "what"), [(PrivacyGuarantee(0.5), "epsilon=0.5"), (PrivacyGuarantee(0.1, delta=1e-6), "delta=1e-06")]
)
def test_charge_beyond_the_budget_is_refused(make, charge, what):
    ledger = make(epsilon=0.4, delta=1e-7)
    with pytest.raises(BudgetExceeded, match=rf"^DPMean requires {what}, but the ledger has .* left\."):
        ledger.charge(charge, "DPMean")
    assert ledger.spent == (0, 0)
    assert ledger.relation is None
    assert len(ledger.charges()) == 0
    with pytest.raises(ValueError, match="relation='add_remove'"):
        make(epsilon=3, delta=1e-5, relation="add_remove").charge(charge, "encoder")


def test_charge_whose_square_overflows_is_refused(make):
    ledger = make(rho=1.0)
    with pytest.raises(BudgetExceeded, match=r"requires rho=1e\+200, but"):
        ledger.charge(PrivacyGuarantee(1e200), "DPMean")
    assert ledger.charges().empty


def test_charges_are_listed(make):
    ledger = make(epsilon=3, delta=1e-5)
    before = pd.Timestamp.now("UTC").floor("us")
    ledger.charge(PrivacyGuarantee(1, scope=("sex", 3), mechanism="coins", secure=False), "encoder")
    ledger.charge(PrivacyGuarantee(0.1, delta=1e-6, rho=0.25, trust="central"), "histogram")
    report = ledger.charges()
    assert report.drop(columns=["time", "rho"]).to_numpy().tolist() == [
        ["encoder", 1.0, 0.0, "replace", "one record", "local", "sex, 3", "coins", False],
        ["histogram", 0.1, 1e-6, "replace", "one record", "central", "", "", True],
    ]
    assert report["rho"].isna().tolist() == [True, False]
    assert before <= report["time"][0] <= report["time"][1] <= pd.Timestamp.now("UTC")


def test_copies_and_clones_are_the_same_ledger(make):
    ledger = make(epsilon=1)
    assert copy.copy(ledger) is copy.deepcopy(ledger) is clone(ledger) is ledger


def test_pickled_copy_of_a_ledger_in_memory_cannot_be_charged():
    ledger = PrivacyLedger(epsilon=1)
    ledger.charge(PrivacyGuarantee(0.5), "before")
    copied = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(ledger))))
    assert copied.epsilon == 1
    assert repr(copied) == "PrivacyLedger(epsilon=1.0, spent=unknown)"
    for use in (lambda: copied.charge(PrivacyGuarantee(0.1), "copy"), lambda: copied.spent, copied.remaining):
        with pytest.raises(RuntimeError, match=r"belongs to one process .* a copy.*ledger\.sqlite.*n_jobs=1"):
            use()
    assert ledger.spent == (0.5, 0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_ledger_in_memory_cannot_be_charged_in_a_forked_process():
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


def test_charge_waits_for_the_previous_charge(make):
    """Both threads would find an empty ledger unless the second waits until the first has charged."""
    ledger, meeting = make(epsilon=1), threading.Barrier(2)

    class Slow(PrivacyGuarantee):
        def to(self, relation, *, columns=None):
            with contextlib.suppress(threading.BrokenBarrierError):
                meeting.wait(timeout=0.15)  # the second thread never comes, however long this waits
            return super().to(relation)

    def spend(_):
        with contextlib.suppress(BudgetExceeded):
            ledger.charge(Slow(1), "thread")

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(spend, range(2)))
    assert len(ledger.charges()) == 1


FRAME = pd.DataFrame({"smokes": ["yes", "no"] * 50})
ILL = np.array([1, 0] * 50)


def model(ledger, *, on_fit_only=True):
    encoder = RandomizedResponseEncoder(1.0, categories={"smokes": ["yes", "no"]}, ledger=ledger)
    first = OnFitOnly(encoder) if on_fit_only else encoder
    return make_pipeline(first, OneHotEncoder(), LogisticRegression())


@pytest.mark.parametrize(("on_fit_only", "spent"), [(True, 5), (False, 10)])
def test_every_fit_and_score_of_a_search_is_charged(make, on_fit_only, spent):
    ledger = make(epsilon=spent)
    cross_val_score(model(ledger, on_fit_only=on_fit_only), FRAME, ILL, cv=5, error_score="raise")
    assert ledger.spent == (spent, 0)
    with pytest.raises(BudgetExceeded):
        model(ledger).fit(FRAME, ILL)


@pytest.mark.long  # processes that share a file are killed in test_book.py, and pickles in memory are refused above
@pytest.mark.filterwarnings("ignore:\\s*3 fits failed:sklearn.exceptions.FitFailedWarning")
def test_worker_processes_share_a_file_but_not_a_ledger_in_memory(tmp_path):
    """Each process has a copy: a file is charged within one budget, a ledger in memory is not charged."""
    in_memory, in_file = PrivacyLedger(epsilon=2), PrivacyLedger(path=tmp_path / "ledger.sqlite", epsilon=2)
    scores = cross_val_score(model(in_file), FRAME, ILL, cv=5, n_jobs=2)
    assert np.isnan(scores).sum() == 3
    assert in_file.spent == (2, 0)
    with pytest.raises(ValueError, match=r"(?s)All the 5 fits failed.*in memory belongs to one process .* n_jobs=1"):
        cross_val_score(model(in_memory), FRAME, ILL, cv=5, n_jobs=2)
    assert in_memory.spent == (0, 0)


@pytest.mark.parametrize("spent", [1e-20, 1e-300, 1 / 3, 0.7])
def test_remaining_budget_is_rounded_down(spent):
    ledger = PrivacyLedger(epsilon=1.0, delta=0.999)
    ledger.charge(PrivacyGuarantee(spent, delta=spent), "release")
    left = ledger.remaining()
    with pytest.raises(BudgetExceeded) as caught:
        ledger.charge(PrivacyGuarantee(1.0), "too much")
    assert str(caught.value).startswith(f"too much requires epsilon=1.0, but the ledger has {left.epsilon} of 1.0 left")
    assert left.epsilon < 1
    assert left == pytest.approx((1 - spent, 0.999 - spent))
    ledger.charge(PrivacyGuarantee(left.epsilon, delta=left.delta), "the rest")


def gaussian(mu, delta=1e-6, relation="replace"):
    return PrivacyGuarantee(
        gaussian_epsilon(mu, delta), delta=delta, rho=mu**2 / 2, losses=(GaussianLoss(mu),), relation=relation
    )


def count_charges(ledger, guarantee, *, max_charges=10_000):
    for number in range(max_charges):
        try:
            ledger.charge(guarantee, "release")
        except BudgetExceeded:
            return number
    raise AssertionError("there is no end")


def test_rhos_add_up_in_decimals(make):
    ledger = make(rho=0.125)
    release = PrivacyGuarantee(0.3, delta=1e-6, rho=0.005)
    assert count_charges(ledger, release) == 25
    assert ledger.balance().loc["spent", "rho"] == 0.125
    assert ledger.remaining() == (0, 0)
    with pytest.raises(BudgetExceeded, match=r"late requires rho=0\.005, but the ledger has 0\.0 of 0\.125 left"):
        ledger.charge(release, "late")


def test_epsilon_counts_as_its_exact_rho(make):
    """Randomized response with two values has the largest rho of all releases with its epsilon."""
    ledger = make(rho=0.125)
    assert count_charges(ledger, PrivacyGuarantee(0.1)) == 25
    assert ledger.balance().loc["spent", "rho"] == pytest.approx(25 * 0.1 * math.tanh(0.05), rel=1e-11)
    assert zcdp_epsilon(0.5, 1e-6) < 5.3  # of 100 charges, instead of 10


def test_large_delta_does_not_decrease_the_rho_of_releases(make):
    ledger, answers = make(rho=9.0), [PrivacyGuarantee(1.0)] * 4
    ledger.charge(compose(answers, delta=0.5), "answers")  # epsilon 1.2
    assert ledger.balance().loc["spent", "rho"] == pytest.approx(4 * math.tanh(0.5))


def test_charge_without_rho_or_mu_is_refused(make):
    failing = PrivacyGuarantee(0.1, delta=1e-9)
    for budget in ({"rho": 1.0}, {"mu": 1.0}):
        ledger = make(**budget)
        with pytest.raises(BudgetExceeded, match=r"threshold has no (rho|mu) \(delta=1e-09\)"):
            ledger.charge(failing, "threshold")
        ledger.charge(PrivacyGuarantee(0.5), "answer")
        ledger.charge(gaussian(0.3), "noise")
    concentrated = PrivacyGuarantee(1.0, delta=1e-6, rho=0.01)
    make(rho=1.0).charge(concentrated, "discrete Gaussian")
    with pytest.raises(BudgetExceeded):
        make(mu=1.0).charge(concentrated, "discrete Gaussian")


def test_relation_is_set_by_the_first_charge(make):
    central, local = PrivacyGuarantee(0.5, relation="add_remove", trust="central"), PrivacyGuarantee(0.25)
    ledger = make(epsilon=2.25)
    assert ledger.relation is None
    for number, charge in enumerate([local, central, central]):
        ledger.charge(charge, f"{number}")
    assert ledger.charges()["epsilon"].tolist() == [0.25, 1.0, 1.0]
    assert repr(ledger) == "PrivacyLedger(epsilon=2.25, relation='replace', spent=(2.25, 0.0))"
    with pytest.raises(BudgetExceeded, match=r"requires epsilon=1\.0 for relation='replace', .* has 0\.0 of"):
        ledger.charge(central, "third")
    assert set(ledger.charges()["relation"]) == {"replace"}
    total = privacy_statement(ledger).total
    assert (total.epsilon, total.relation) == (2.25, "replace")
    if ledger.path is not None:
        assert PrivacyLedger(path=ledger.path).charges().equals(ledger.charges())


def test_local_charge_to_a_central_ledger_raises_an_error_with_a_remedy(make):
    ledger = make(epsilon=2.25)
    ledger.charge(PrivacyGuarantee(0.5, relation="add_remove", trust="central"), "mean")
    with pytest.raises(ValueError, match=r"Use PrivacyLedger\(relation='replace'\) for both"):
        ledger.charge(PrivacyGuarantee(0.25), "report")
    assert ledger.spent == (0.5, 0)
    assert ledger.relation == "add_remove"


@pytest.mark.parametrize("budget", [{"rho": 0.5}, {"mu": 1.0}, {"epsilon": 3.0, "delta": 1e-5}], ids=str)
def test_records_and_files_keep_the_budget(tmp_path, budget):
    path = tmp_path / "ledger.sqlite"
    ledger = PrivacyLedger(path=path, **budget)
    ledger.charge(gaussian(0.1), "noise")
    ledger.charge(PrivacyGuarantee(0.2), "answer")
    for other in (PrivacyLedger(path=path), PrivacyLedger(path=path, **budget)):
        assert other.balance().equals(ledger.balance())
        assert other.charges().equals(ledger.charges())
    assert all(f"{name}={value}" in repr(ledger) for name, value in budget.items())
    with pytest.raises(ValueError, match="was created with"):
        PrivacyLedger(1.0, path=path)


@pytest.mark.parametrize("budget", [{"rho": 0.5}, {"mu": 1.0}])
def test_statement_adds_no_deltas_to_a_budget_without_delta(budget):
    ledger = PrivacyLedger(**budget)
    for delta in (1e-3, 1e-9):
        ledger.charge(gaussian(0.1, delta), "mean")
    total = privacy_statement(ledger).total
    # The filter: the whole budget, at a delta that does not depend on the charges.
    assert total.delta == 1e-6
    whole = zcdp_epsilon(0.5, 1e-6) if "rho" in budget else gaussian_epsilon(1.0, 1e-6)
    assert total.epsilon == whole
    assert "do not add up" in str(privacy_statement(ledger))


def test_total_of_a_ledger_has_the_delta_of_its_budget():
    ledger = PrivacyLedger(epsilon=2.0, delta=1e-2)
    for _ in range(2):
        ledger.charge(PrivacyGuarantee(0.5, delta=1e-3, scope=("a",)), "answer")
    statement = privacy_statement(ledger)
    assert (statement.total.epsilon, statement.total.delta) == (1.0, 1e-2)
    # Both charges are one fact.
    assert statement.rows[["epsilon", "delta"]].to_numpy().tolist() == [[1.0, 2e-3]]
    assert [step.step for step in statement.steps] == ["answer, 2 times"]
    assert str(privacy_statement(PrivacyLedger(epsilon=2.0))).startswith("The ledger has no charges.\n")
