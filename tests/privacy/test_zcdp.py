from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from skdp.privacy import _zcdp as zcdp
from skdp.privacy import zcdp_epsilon
from tests.conftest import each

RHOS = st.floats(1e-6, 100)
DELTAS = st.floats(1e-300, 0.99)


def implied_delta(rho, epsilon, alpha):
    """The bound of Canonne, Kamath and Steinke for one order, as they write it, to 60 digits."""
    with localcontext(prec=60):
        rho, epsilon, alpha = Decimal(rho), Decimal(epsilon), Decimal(alpha)
        return ((alpha - 1) * (alpha * rho - epsilon)).exp() / (alpha - 1) * (alpha * (1 - 1 / alpha).ln()).exp()


@settings(deadline=None)
@given(RHOS, DELTAS)
def test_some_order_proves_it_and_none_proves_much_more(rho, delta):
    epsilon = zcdp_epsilon(rho, delta)
    # The sign of rho (alpha - 1)**2 + log(delta alpha) changes at the best order; here the root is found by Newton.
    alpha = 1 + math.sqrt(-math.log(delta) / rho)
    for _ in range(60):
        excess = alpha - 1
        slope = 2 * rho * excess + 1 / alpha
        alpha = max(1 + excess / 10, alpha - (rho * excess**2 + math.log(alpha) + math.log(delta)) / slope)
    margin = Decimal("1e-9")
    if epsilon > 0:
        assert implied_delta(rho, epsilon, alpha) <= Decimal(delta) * (1 + margin)
        for order in 1 + (alpha - 1) * np.array([0.1, 0.5, 0.9, 0.99, 1, 1.01, 1.1, 2, 10]):
            assert implied_delta(rho, epsilon * (1 - 1e-6), order) >= Decimal(delta)


@settings(deadline=None)
@given(RHOS, DELTAS)
def test_it_is_below_the_simple_formula_and_above_the_truth_of_a_gaussian(rho, delta):
    epsilon = zcdp_epsilon(rho, delta)
    assert epsilon <= rho + 2 * math.sqrt(-rho * math.log(delta)) + 1e-9
    # Gaussian noise with (mean / deviation)**2 / 2 = rho keeps rho-zCDP; its delta is known (Balle and Wang 2018).
    mu = math.sqrt(2 * rho)
    parts = norm.logcdf(mu / 2 - epsilon / mu), epsilon + norm.logcdf(-mu / 2 - epsilon / mu)
    truth = math.exp(parts[0]) - math.exp(parts[1])
    assert truth <= delta


def test_the_bound_is_proven_and_not_only_computed():
    """The float formula, at the best order, is below the proven value now and then: rounding must go up."""
    computed, proven, delta = [], [], 1e-6
    for rho in np.geomspace(1e-4, 10, 50):
        epsilon = zcdp_epsilon(rho, delta)
        low, high = 1e-12, 1e12
        for _ in range(200):
            middle = math.sqrt(low * high)
            low, high = (low, middle) if rho * middle**2 + math.log1p(middle) + math.log(delta) > 0 else (middle, high)
        with localcontext(prec=60):
            excess, order = Decimal(high), Decimal(high) + 1
            exact = Decimal(rho) * order + (1 - 1 / order).ln() - (Decimal(delta) * order).ln() / excess
        proven.append(Decimal(epsilon) >= exact - Decimal("1e-25"))
        computed.append(epsilon - float(exact))
    assert all(proven)
    assert max(computed) < 1e-13


def test_looser_bounds_of_logarithms_only_raise_it(monkeypatch):
    cases = [(0.01, 1e-6), (0.5, 1e-9), (3.0, 0.5), (20.0, 0.9)]
    tight = [zcdp_epsilon(*case) for case in cases]
    monkeypatch.setattr(zcdp, "log_upper", lambda ratio: 1.01 * math.log(ratio))
    monkeypatch.setattr(zcdp, "_log_lower", lambda ratio: Fraction(0.99 * math.log(ratio)))
    assert all(zcdp_epsilon(*case) > before for case, before in zip(cases, tight, strict=True))


def test_nothing_costs_nothing_and_extremes_are_finite():
    assert zcdp_epsilon(0, 1e-6) == zcdp_epsilon(0, 0) == 0
    assert zcdp_epsilon(1e-300, 1e-6) == 0
    assert zcdp_epsilon(5e-324, 0.5) == 0
    assert zcdp_epsilon(1e300, 1e-6) == pytest.approx(1e300)
    assert zcdp_epsilon(0.5, 5e-324) == pytest.approx(0.5 + 2 * math.sqrt(0.5 * 744.44), rel=0.02)
    assert zcdp_epsilon(Fraction(1, 2), Fraction(1, 10**6)) == pytest.approx(5.221534444530169)


@each(
    "rho, delta, message",
    [(-1, 1e-6, "rho must be"), (math.inf, 1e-6, "rho must be"), (1, 1, "delta must be"), (1, 0, "got delta = 0")],
)
def test_impossible_conversions_are_refused(rho, delta, message):
    with pytest.raises(ValueError, match=message):
        zcdp_epsilon(rho, delta)
