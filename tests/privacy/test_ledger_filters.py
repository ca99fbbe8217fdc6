"""Budgets as filters: rho, mu and a share of delta; the relation of a ledger."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from skdp import BudgetExceeded, PrivacyGuarantee, PrivacyLedger, privacy_statement
from skdp.privacy import (
    GaussianLoss,
    PureLoss,
    gaussian_delta,
    gaussian_epsilon,
    pure_mu,
    zcdp_epsilon,
)
from tests.conftest import each

D = 1e-6


def gaussian(mu, delta=D, relation="replace"):
    return PrivacyGuarantee(
        gaussian_epsilon(mu, delta), delta=delta, rho=mu**2 / 2, losses=(GaussianLoss(mu),), relation=relation
    )


def admitted(ledger, guarantee, *, most=10_000):
    for number in range(most):
        try:
            ledger.charge(guarantee, "release")
        except BudgetExceeded:
            return number
    raise AssertionError("there is no end")


def test_rhos_add_up_in_their_decimals(make):
    ledger = make(rho=0.5)
    assert admitted(ledger, PrivacyGuarantee(0.1)) == 100
    assert ledger.balance().loc["spent", "rho"] == 0.5
    assert ledger.remaining() == (0, 0)
    with pytest.raises(BudgetExceeded, match=r"late requires rho=0\.02, but the ledger has 0\.0 of 0\.5 left"):
        ledger.charge(PrivacyGuarantee(0.2), "late")
    assert zcdp_epsilon(0.5, D) < 5.3  # in place of 10


def test_what_has_no_rho_or_mu_is_refused(make):
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


def test_the_relation_is_that_of_the_first_charge(make):
    central, local = PrivacyGuarantee(0.5, relation="add_remove", trust="central"), PrivacyGuarantee(0.25)
    ledger = make(epsilon=2.25)
    assert ledger.relation is None
    for number, charge in enumerate([local, central, central]):
        ledger.charge(charge, f"{number}")
    assert ledger.report()["epsilon"].tolist() == [0.25, 1.0, 1.0]
    assert repr(ledger) == "PrivacyLedger(epsilon=2.25, delta=0.0, relation='replace', spent=(2.25, 0.0))"
    with pytest.raises(BudgetExceeded, match=r"requires epsilon=1\.0 for relation='replace', .* has 0\.0 of"):
        ledger.charge(central, "third")
    assert set(ledger.report()["relation"]) == {"replace"}
    total = privacy_statement(ledger).total
    assert (total.epsilon, total.relation) == (2.25, "replace")
    if ledger.path is not None:
        assert PrivacyLedger(path=ledger.path).report().equals(ledger.report())


def test_a_ledger_of_central_charges_refuses_local_ones_with_the_remedy(make):
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
        assert other.report().equals(ledger.report())
    assert all(f"{name}={value}" in repr(ledger) for name, value in budget.items())
    with pytest.raises(ValueError, match="was created with"):
        PrivacyLedger(1.0, path=path)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 4.0])
@pytest.mark.parametrize("share", [0.9, 0.2, 1e-3])
def test_the_mu_of_a_report_of_many_values(epsilon, share):
    def above(mu):
        """Whether the divergence of Gaussian noise is at least that of the worst channel for every order."""
        orders = [epsilon * step / 50 for step in range(51)]
        worst = [share * (math.exp(epsilon) - math.exp(order)) / (1 + math.exp(epsilon)) for order in orders]
        return all(gaussian_delta(mu, order) >= delta for order, delta in zip(orders, worst, strict=True))

    mu = float(pure_mu(Fraction(epsilon), share))
    assert above(mu)
    assert not above(0.97 * mu)
    assert mu < float(pure_mu(Fraction(epsilon)))
    charge = PrivacyGuarantee(epsilon, losses=(PureLoss(epsilon, share=share),))
    ledger = PrivacyLedger(mu=10.0)
    ledger.charge(charge, "report")
    assert ledger.balance().loc["spent", "mu"] == pytest.approx(mu)


@each("budget", [{"rho": 0.5}, {"mu": 1.0}])
def test_the_statement_adds_no_deltas_of_charges_to_a_budget_without_one(budget):
    ledger = PrivacyLedger(**budget)
    for delta in (1e-3, 1e-9):
        ledger.charge(gaussian(0.1, delta), "mean")
    total = privacy_statement(ledger).total
    # The filter: the whole budget, at a delta that no charge has chosen.
    assert total.delta == 1e-6
    whole = zcdp_epsilon(0.5, 1e-6) if "rho" in budget else gaussian_epsilon(1.0, 1e-6)
    assert total.epsilon == whole
    assert "do not add up" in str(privacy_statement(ledger))


def test_impossible_budgets_are_refused():
    with pytest.raises(ValueError, match="one of epsilon"):
        PrivacyLedger(rho=1.0, mu=1.0)
    with pytest.raises(ValueError, match="delta requires a budget of epsilon"):
        PrivacyLedger(rho=1.0, delta=1e-6)


def test_an_empty_ledger_is_stated_in_a_sentence():
    statement = privacy_statement(PrivacyLedger(epsilon=2.0))
    assert str(statement).startswith("The ledger has no charges.\n- PrivacyLedger(epsilon=2.0, ")


def test_the_total_of_a_ledger_has_the_delta_of_its_budget():
    ledger = PrivacyLedger(epsilon=2.0, delta=1e-2)
    for _ in range(2):
        ledger.charge(PrivacyGuarantee(0.5, delta=1e-3, scope=("a",)), "answer")
    statement = privacy_statement(ledger)
    assert (statement.total.epsilon, statement.total.delta) == (1.0, 1e-2)
    # Both charges are one fact.
    assert statement.rows[["epsilon", "delta"]].to_numpy().tolist() == [[1.0, 2e-3]]
    assert [step.step for step in statement.steps] == ["answer, 2 times"]
