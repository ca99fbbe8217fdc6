from __future__ import annotations

import math
from fractions import Fraction

import pytest
from scipy.stats import norm

from skdp.privacy import Share, largest_rho, zcdp_epsilon
from skdp.synthesis.selection import open_budget
from skdp.synthesis.selection._private_table import GaussianBudget, LaplaceBudget
from tests.conftest import each

PROMISES = [(epsilon, delta) for epsilon in (1e-3, 0.1, 1, 10, 1000) for delta in (1e-12, 1e-9, 1e-2)]


def gaussian_delta(mu, epsilon):
    """Dong, Roth, Su, corollary 1; in logarithms where the terms are small."""
    first = norm.sf(epsilon / mu - mu / 2)
    return first - math.exp(epsilon + norm.logsf(epsilon / mu + mu / 2))


def test_without_delta_epsilon_is_the_budget():
    budget, rho = open_budget(Share("epsilon", Fraction(1, 3)), Fraction(0), 2, choices=True)
    assert isinstance(budget, LaplaceBudget)
    assert (budget.epsilon, budget.reach, budget.left, rho) == (Fraction(1, 3), 2, 1, None)


@each("epsilon, delta", PROMISES)
def test_gaussian_privacy_is_used_up_and_not_exceeded(epsilon, delta):
    budget, rho = open_budget(Share("epsilon", Fraction(epsilon)), Fraction(delta), 1, choices=False)
    assert isinstance(budget, GaussianBudget)
    assert rho == budget.mu_squared / 2
    mu = math.sqrt(budget.mu_squared)
    # Near 0 the two terms cancel; 1e-10 is far above their rounding errors, and far below what matters of mu.
    assert gaussian_delta(mu, epsilon) <= delta * (1 + 1e-6) + 1e-17
    assert gaussian_delta(mu * 1.001, epsilon) > delta


@pytest.mark.parametrize(("epsilon", "delta"), PROMISES)
def test_with_choices_it_is_zero_concentrated_privacy(epsilon, delta):
    budget, rho = open_budget(Share("epsilon", Fraction(epsilon)), Fraction(delta), 1, choices=True)
    assert rho == budget.mu_squared / 2 == largest_rho(Fraction(epsilon), Fraction(delta))
    assert zcdp_epsilon(rho, delta) <= epsilon
    assert zcdp_epsilon(rho * Fraction(1001, 1000), delta) > epsilon
    # A choice costs what a release of the same share does: epsilon**2 / 8 = mu**2 * share / 2, rounded down.
    share = Fraction(1, 7)
    assert budget._choice_epsilon(share) ** 2 / 8 <= rho * share
    assert float(budget._choice_epsilon(share) ** 2 / 8) == pytest.approx(float(rho * share))


def test_a_choice_makes_gaussian_noise_larger_not_smaller():
    with_choices, _ = open_budget(Share("epsilon", Fraction(1)), Fraction(1, 10**9), 1, choices=True)
    without, _ = open_budget(Share("epsilon", Fraction(1)), Fraction(1, 10**9), 1, choices=False)
    assert with_choices.mu_squared < without.mu_squared
