"""What a ledger says is left, what it writes, and plans of very many releases."""

from __future__ import annotations

import decimal
import math
import time
from fractions import Fraction

import numpy as np
import pytest

from skdp import BudgetExceeded, PrivacyGuarantee, PrivacyLedger
from tests.conftest import each

D = 1e-6


def charged(*guarantees, **budget):
    ledger = PrivacyLedger(**budget)
    for guarantee in guarantees:
        ledger.charge(guarantee, "release")
    return ledger


def different(number):
    return [PrivacyGuarantee(0.001 + i * 0.005 / number, scope=("age",)) for i in range(number)]


@pytest.fixture
def at_most_64_losses(monkeypatch):
    monkeypatch.setattr("skdp.privacy.accounting._lists.MOST_LOSSES", 64)
    monkeypatch.setattr("skdp.privacy._guarantee.MOST_LOSSES", 64)


@each("budget", [{"rho": 1e308}, {"mu": 100.0}, {"mu": 1e200}, {"mu": 1e-200}, {"rho": 5e-324}])
def test_what_remains_of_any_budget_is_admitted(budget):
    ledger = charged(**budget)
    left = ledger.remaining().epsilon
    assert math.isfinite(left)
    ledger.charge(PrivacyGuarantee(left), "all of it")


@each("spent", [1e-20, 1e-300, 1 / 3, 0.7])
def test_what_remains_is_rounded_down(spent):
    ledger = charged(PrivacyGuarantee(spent, spent), epsilon=1.0, delta=0.999)
    left = ledger.remaining()
    with pytest.raises(BudgetExceeded) as caught:
        ledger.charge(PrivacyGuarantee(1.0), "too much")
    assert str(caught.value).startswith(f"too much asks for epsilon 1.0; the ledger has {left.epsilon} of 1.0 left")
    assert left.epsilon < 1
    assert left == pytest.approx((1 - spent, 0.999 - spent))
    ledger.charge(PrivacyGuarantee(*left), "the rest")


def check_plan(path, number):
    """The plan of many different releases leaves a file that can be read."""
    ledger = PrivacyLedger(path, epsilon=100.0, delta=D)
    plan = ledger.plan(different(number), "survey", delta=D)
    plan.charge(PrivacyGuarantee(0.0059, scope=("age",)), "first")
    for again in (PrivacyLedger(path), PrivacyLedger.from_json(ledger.to_json())):
        assert again.spent == ledger.spent
    return ledger


def test_a_plan_of_more_losses_than_a_record_has(tmp_path, at_most_64_losses):
    ledger = check_plan(tmp_path / "ledger.jsonl", 200)
    assert ledger.spent.epsilon < 0.6 * sum(one.epsilon for one in different(200))


@pytest.mark.long
def test_a_plan_of_five_thousand_different_releases(tmp_path):
    ledger = check_plan(tmp_path / "ledger.jsonl", 5_000)
    assert ledger.spent.epsilon < 2  # by the distribution of the loss, and not as a sum


def test_a_line_that_could_not_be_read_again_is_not_written(tmp_path, monkeypatch):
    path = tmp_path / "ledger.jsonl"
    ledger = PrivacyLedger(path, epsilon=1.0)
    monkeypatch.setattr("skdp.privacy.ledger._file_book.line_of", lambda charge, previous: b"no line of a ledger\n")
    with pytest.raises(ValueError, match="nothing was released"):
        ledger.charge(PrivacyGuarantee(0.1), "release")
    monkeypatch.undo()
    ledger.charge(PrivacyGuarantee(0.1), "release")
    assert PrivacyLedger(path).spent == (0.1, 0)


def test_a_charge_to_a_long_plan_takes_no_longer():
    def cost(number):
        plan = PrivacyLedger(epsilon=1e6, delta=D).plan([PrivacyGuarantee(0.01)] * number, "survey", delta=D)
        begun = time.process_time()
        for _ in range(50):
            plan.charge(PrivacyGuarantee(0.01), "question")
        return time.process_time() - begun

    assert cost(5_000) < 3 * cost(50) + 0.05


def test_sums_are_exact_in_any_decimal_context():
    narrow = decimal.Context(prec=3, Emin=-2, Emax=2, rounding=decimal.ROUND_DOWN)
    with decimal.localcontext(narrow):
        ledger = charged(*[PrivacyGuarantee(1.23456e-9)] * 3, epsilon=1.0)
        assert ledger.spent.epsilon == 3.70368e-9
        rho = charged(*[PrivacyGuarantee(1e-9)] * 2, rho=1.0)
        assert rho.balance().loc["spent", "rho"] == 1e-18


def test_the_balance_of_a_filter_shows_what_one_more_release_may_have():
    ledger = charged(PrivacyGuarantee(0.1), epsilon=5.0, delta=2e-6, filter_delta=1e-6)
    balance = ledger.balance()
    assert tuple(balance.loc["remaining", ["epsilon", "delta"]]) == ledger.remaining()
    assert balance.loc["budget", "rho"] == pytest.approx(balance.loc["remaining", "rho"] + 0.005)
    assert 0.4 < balance.loc["budget", "rho"] < 0.5
    while ledger.remaining().epsilon > 0.5:
        ledger.charge(PrivacyGuarantee(0.5), "question")
    assert (ledger.balance().loc["remaining"] >= 0).all()


def test_a_check_refuses_what_a_charge_refuses():
    ledger = PrivacyLedger(epsilon=1.0)
    with pytest.raises(TypeError, match="guarantee must be a PrivacyGuarantee"):
        ledger.check(1.0, "release")
    with pytest.raises(TypeError, match="what must be a str"):
        ledger.check(PrivacyGuarantee(0.1), 5)


def test_a_plan_says_what_is_left_of_it():
    plan = PrivacyLedger(epsilon=5.0).plan([PrivacyGuarantee(0.5), PrivacyGuarantee(0.1), PrivacyGuarantee(0.1)], "all")
    with pytest.raises(BudgetExceeded, match=r"asks for epsilon 0\.6 .*: 3 are left, the largest .* epsilon 0\.5"):
        plan.charge(PrivacyGuarantee(0.6), "more")
    for epsilon in (0.5, 0.1, 0.1):
        plan.charge(PrivacyGuarantee(epsilon), "release")
    with pytest.raises(BudgetExceeded, match="none is left"):
        plan.charge(PrivacyGuarantee(0.0), "more")


def test_names_and_flags_of_other_types(tmp_path):
    with pytest.raises(TypeError, match="scope must be a tuple of names, got str"):
        PrivacyGuarantee(0.1, scope="age")
    path = tmp_path / "ledger.jsonl"
    PrivacyLedger(path, epsilon=1.0).charge(PrivacyGuarantee(0.1, secure=np.bool_(True)), "release")
    assert PrivacyLedger(path).report()["secure"].tolist() == [True]


def test_a_plan_without_delta_has_none():
    plan = PrivacyLedger(epsilon=5.0).plan([PrivacyGuarantee(0.1)] * 3, "survey")
    assert repr(plan) == "PrivacyLedger(epsilon=0.3, delta=0.0, spent=(0.0, 0.0))"


@pytest.mark.parametrize("name", ["epsilon", "rho", "mu"])
def test_a_budget_below_the_floats_is_none(name):
    with pytest.raises(ValueError, match=rf"{name} must be a finite number > 0, got 0\.0"):
        PrivacyLedger(**{name: Fraction(1, 10**400)})
