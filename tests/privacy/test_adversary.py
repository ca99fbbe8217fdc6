"""An adversary selects each charge by earlier results: the best strategy stays within the budget."""

import math
from fractions import Fraction
from functools import cache

import pytest

from skdp import BudgetExceeded, PrivacyGuarantee, PrivacyLedger, privacy_statement
from skdp.exact import exp_bounds, log_upper
from skdp.privacy import GaussianLoss, gaussian_epsilon, pure_mu, zcdp_epsilon
from tests.conftest import quick_first


def answer(odds):
    """Return the guarantee of randomized response of two values, and (P, Q) of each result."""
    odds = Fraction(odds)
    return PrivacyGuarantee(log_upper(odds)), [(odds / (1 + odds), 1 / (1 + odds)), (1 / (1 + odds), odds / (1 + odds))]


def threshold(delta):
    """Return a mechanism that reveals the input with probability delta, and nothing otherwise."""
    delta = Fraction(delta)
    return PrivacyGuarantee(0.0, delta=float(delta)), [(delta, Fraction(0)), (1 - delta, 1 - delta)]


def best_delta(state, options, admit, epsilon):
    """Return the largest delta at epsilon of all adaptive strategies, by backward induction, exactly.

    The divergence is a sum over the last results of the positive part of ``P - e**epsilon Q``, so the best choice
    after any results depends on their ratio P / Q and on the state of the ledger alone.
    """
    power = exp_bounds(epsilon)[0]

    @cache
    def value(state, ratio):
        best = max(Fraction(0), ratio - power)  # for Q = 1: stop here
        for guarantee, results in options:
            after = admit(state, guarantee)
            if after is not None:
                total = sum(q * value(after, ratio * p / q) if q else ratio * p for p, q in results)
                best = max(best, total)
        return best

    return value(state, Fraction(1))


def of_ledger(options, aim, **budget):
    """Return the largest delta of strategies within a ledger; its state is the number of charges of each type."""
    guarantees = [guarantee for guarantee, _ in options]

    @cache
    def is_admitted(counts):
        ledger = PrivacyLedger(**budget)
        try:
            for guarantee, count in zip(guarantees, counts, strict=True):
                for _ in range(count):
                    ledger.charge(guarantee, "charge")
        except BudgetExceeded:
            return False
        return True

    def admit(counts, guarantee):
        kind = guarantees.index(guarantee)
        after = (*counts[:kind], counts[kind] + 1, *counts[kind + 1 :])
        return after if is_admitted(after) else None

    return best_delta((0,) * len(options), options, admit, aim)


def test_minimum_of_two_bounds_is_not_a_filter():
    """The fault: answers within the optimal composition, or charges that add up to epsilon and delta.

    Five answers of odds 2 are (ln 8, 24/243)-private together. If three of them do not all indicate the same input,
    take a threshold with the whole delta; otherwise two further answers: the result is 1.7 times delta.
    """
    epsilon, delta = log_upper(Fraction(8)), Fraction(math.nextafter(24 / 243, 1))
    options = [answer(2), threshold(delta)]
    assert of_ledger(options, epsilon, epsilon=epsilon, delta=float(delta)) <= Fraction(float(delta))


@pytest.mark.parametrize("delta", quick_first(1, [1e-2, 1e-3, 0.1]))
def test_no_strategy_exceeds_rho_or_mu(delta):
    answers = [answer("5/4"), answer("3/2"), answer(2)]
    for budget, epsilon in (({"rho": 0.15}, zcdp_epsilon(0.15, delta)), ({"mu": 0.6}, gaussian_epsilon(0.6, delta))):
        assert of_ledger(answers, epsilon, **budget) <= Fraction(delta)
    more = of_ledger(answers, gaussian_epsilon(0.6, delta), mu=0.9)
    assert more > Fraction(delta) / 10  # a budget larger by a half would be found


def make_worst_release(odds, delta):
    """Return the worst (epsilon, delta) release: the input with probability delta, and an answer otherwise."""
    guarantee, results = answer(odds)
    delta = Fraction(delta)
    shown = [(delta, Fraction(0)), (Fraction(0), delta)]
    rest = [((1 - delta) * p, (1 - delta) * q) for p, q in results]
    return PrivacyGuarantee(guarantee.epsilon, delta=float(delta)), [*shown, *rest]


def as_noise(odds):
    """Return an answer with its implied mu only, as Gaussian noise with its epsilon and delta."""
    guarantee, results = answer(odds)
    mu = float(pure_mu(Fraction(guarantee.epsilon)))
    return PrivacyGuarantee(gaussian_epsilon(mu, 1e-3), delta=1e-3, losses=(GaussianLoss(mu),)), results


def test_no_strategy_of_all_types_of_charges_exceeds_the_budget():
    """Pure, Gaussian and (epsilon, delta) charges, in any order that depends on results."""
    epsilon, delta = 0.75, 0.25
    budget = {"epsilon": epsilon, "delta": delta}
    options = [answer("3/2"), as_noise("3/2"), make_worst_release("5/4", 1 / 64), threshold(1 / 32)]
    reached = of_ledger(options, epsilon, **budget)
    assert 0.02 < reached <= Fraction(delta)


BUDGETS = [{"epsilon": 1.0}, {"epsilon": 0.75, "delta": 0.25}, {"rho": 0.15}, {"mu": 0.6}]


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_no_strategy_guesses_better_than_the_budget_allows(budget):
    """The best strategy of charges that depend on results: its total variation is the delta at epsilon 0."""
    options = [answer("5/4"), answer("3/2"), answer(2)]
    if "delta" in budget:
        options = [answer("3/2"), make_worst_release("5/4", 1 / 64), threshold(1 / 32)]
    guess = PrivacyLedger(**budget).balance().loc["budget", "guess"]
    reached = (1 + of_ledger(options, 0.0, **budget)) / 2
    assert reached <= Fraction(guess)
    assert reached > Fraction(guess) - Fraction(1, 12)  # a budget that is much smaller would be found


def test_a_strategy_guesses_better_than_the_losses_of_its_charges_allow():
    """Answers of odds 3/2 that stop when they agree twice: the fault of a total by the losses of the charges."""
    guarantee, _ = answer("3/2")
    ledger = PrivacyLedger(3.0)
    for _ in range(2):
        ledger.charge(guarantee, "answer")
    statement = privacy_statement(ledger)
    # After two answers that agree, the guess is right with odds of 9/4.
    reached = Fraction(9, 13)
    assert Fraction(statement.total_if_fixed.guess_probability) < reached <= Fraction(statement.total.guess_probability)
