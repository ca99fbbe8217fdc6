"""Totals of statements: a part never states more than the whole, on any route."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.pipeline import make_pipeline

from skdp import DPLogisticRegression, DPStandardScaler, PrivacyGuarantee, PrivacyLedger
from skdp.privacy import (
    GaussianLoss,
    Mu,
    PureLoss,
    Rho,
    gaussian_delta,
    gaussian_epsilon,
    privacy_statement,
    zcdp_epsilon,
)
from tests.conftest import quick_first

DELTA = 1e-6


class Step(BaseEstimator):
    """A fitted estimator with a guarantee."""

    protects_rows = False

    def __init__(self, **facts):
        facts = {"relation": "add_remove", "trust": "central", "scope": ("age",)} | facts
        self.guarantee_, self.feature_names_in_ = PrivacyGuarantee(**facts), np.array(["age"])

    def get_params(self, deep=True):
        return {}

    def fit(self, X, y=None):
        return self


def draw_step(rng, kinds, relation="add_remove", deltas=(DELTA,)):
    """Return a step of a random kind, with the losses that estimators state."""
    kind, size, delta = rng.choice(kinds), rng.choice([0.01, 0.3, 1.0]), rng.choice(deltas)
    if kind == "pure":
        losses = [(), (PureLoss(size / 3), PureLoss(2 * size / 3, share=0.8))]
        facts = {"epsilon": size, "losses": losses[rng.integers(2)]}
    elif kind == "mu":
        facts = {"epsilon": gaussian_epsilon(size, delta), "delta": delta, "losses": (GaussianLoss(size),)}
    elif kind == "rho":
        facts = {"epsilon": zcdp_epsilon(size / 8, delta), "delta": delta, "rho": size / 8}
    else:  # values that are found, or a release of which only epsilon and delta are known
        facts = {"epsilon": size, "delta": delta}
    return Step(**facts, relation=relation)


def state(steps):
    total = privacy_statement(list(steps), trusted=[Step]).total
    return total, np.array([total.epsilon, total.delta])


@pytest.mark.parametrize("seed", quick_first(12, range(200)))
def test_list_states_what_its_ledger_states_and_no_part_states_more(seed):
    rng = np.random.default_rng(seed)
    deltas = [DELTA, DELTA, 1e-9]
    steps = [draw_step(rng, ["pure", "mu", "rho", "delta"], deltas=deltas) for _ in range(rng.integers(2, 7))]
    ledger = PrivacyLedger(epsilon=1e3, delta=0.1, relation="add_remove")
    for step in steps:
        ledger.charge(step.guarantee_, "step")
    statement = privacy_statement(ledger)
    total, whole = state(steps)
    fixed = statement.total_if_fixed
    for name in ("epsilon", "delta", "rho", "losses", "relation"):
        assert getattr(total, name) == getattr(fixed, name)
    assert total.epsilon <= statement.total.epsilon
    assert total.delta <= statement.total.delta
    for size in range(1, len(steps)):
        _, part = state(rng.permutation(steps)[:size])
        assert (part <= whole).all()


def test_pure_step_with_gaussian_losses_counts_with_its_epsilon():
    """Randomized response with epsilon 3 is within noise of mu 3.4, too; its total with noise of mu 1 is exact."""
    noise = Step(epsilon=gaussian_epsilon(1.0, DELTA), delta=DELTA, losses=(GaussianLoss(1.0),))
    total, _ = state([Step(epsilon=3.0, losses=(GaussianLoss(3.4),)), noise])
    likely = 1 / (1 + np.exp(-3.0))
    exact = likely * gaussian_delta(1.0, total.epsilon - 3) + (1 - likely) * gaussian_delta(1.0, total.epsilon + 3)
    assert exact <= total.delta


@pytest.mark.parametrize("relation", ["add_remove", "replace"])
@pytest.mark.parametrize(("name", "kinds"), [("mu", ["pure", "mu"]), ("rho", ["pure", "mu", "rho"])])
@pytest.mark.parametrize("seed", quick_first(1, range(10)))
def test_list_states_no_more_than_a_spent_ledger_of_mu_or_rho(name, kinds, relation, seed):
    rng = np.random.default_rng(seed)
    steps = [draw_step(rng, kinds, relation) for _ in range(4)]
    trial = PrivacyLedger(**{name: 100.0})
    for step in steps:
        trial.charge(step.guarantee_, "step")
    ledger = PrivacyLedger(**{name: trial.balance().loc["spent", name] * (1 + 1e-9)})
    for step in steps:
        ledger.charge(step.guarantee_, "step")
    statement = privacy_statement(ledger)
    assert state(steps)[0].epsilon <= statement.total.epsilon
    assert all(step.guarantee.epsilon <= statement.total.epsilon for step in statement.steps)


@pytest.mark.parametrize("budget", [Mu.of(guess=0.6), Rho(0.02, DELTA)], ids=["mu", "rho"])
def test_pipeline_states_the_budget_that_it_divided(budget):
    model = make_pipeline(DPStandardScaler(bounds=(0, 1)), DPLogisticRegression(bounds=(-3, 3), classes=[0, 1]))
    ledger = PrivacyLedger(**{budget.name: getattr(budget, budget.name)})
    model.set_params(**ledger.split(model))
    X = np.random.default_rng(0).uniform(size=(2_000, 1))
    model.fit(X, (X[:, 0] > 0.5).astype(int))
    whole, total = privacy_statement(ledger).total, privacy_statement(model).total
    assert total.epsilon == pytest.approx(whole.epsilon, rel=1e-8)
    assert total.epsilon <= whole.epsilon
    assert total.delta == whole.delta == DELTA


def test_charges_of_a_ledger_of_mu_are_stated_together():
    month = PrivacyGuarantee(gaussian_epsilon(0.3, DELTA), delta=DELTA, losses=(GaussianLoss(0.3),))
    ledger = PrivacyLedger(mu=3.0)
    for _ in range(12):
        ledger.charge(month, "month")
    (step,) = privacy_statement(ledger).steps
    assert step.guarantee.epsilon == pytest.approx(gaussian_epsilon(0.3 * 12**0.5, DELTA), rel=1e-9)
    assert step.guarantee.epsilon < privacy_statement(ledger).total.epsilon
