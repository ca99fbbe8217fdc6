"""Epsilon, delta, rho and mu: proven conversions, compared with independent computations."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skdp.privacy import Mu, gaussian_delta, gaussian_epsilon, largest_mu, zcdp_epsilon

DELTAS = st.floats(1e-300, 0.99)
DIGITS = 700


def decimal(number):
    number = Fraction(number)
    return Decimal(number.numerator) / Decimal(number.denominator)


@lru_cache
def root_two_pi():
    """Return the square root of 2 pi, by the iteration of Gauss and Legendre."""
    with localcontext(prec=DIGITS):
        a, b, t, p = Decimal(1), 1 / Decimal(2).sqrt(), Decimal(1) / 4, 1
        for _ in range(12):
            a, b, t, p = (a + b) / 2, (a * b).sqrt(), t - p * ((a - b) / 2) ** 2, 2 * p
        return (2 * (a + b) ** 2 / (4 * t)).sqrt()


def phi(x):
    """Return the normal distribution function by its alternating series; DIGITS exceeds the digits that cancel."""
    total = term = x
    n = 0
    while abs(term) > Decimal(10) ** -(DIGITS - 20):
        n += 1
        term *= -x * x / (2 * n)
        total += term / (2 * n + 1)
    return Decimal(1) / 2 + total / root_two_pi()


def exact_delta(mu, epsilon):
    """Return the formula of Balle and Wang: correct to about 300 digits if epsilon / mu + mu / 2 < 40."""
    with localcontext(prec=DIGITS):
        mu, epsilon = decimal(mu), decimal(epsilon)
        return phi(mu / 2 - epsilon / mu) - epsilon.exp() * phi(-mu / 2 - epsilon / mu)


@given(st.floats(-9, 1.4).map(lambda power: 10**power), st.floats(-7, 36))
def test_delta_is_above_the_truth_and_close(mu, near):
    epsilon = max(0.0, mu * (near + mu / 2))
    if epsilon / mu + mu / 2 > 38:
        return
    delta, truth = Fraction(gaussian_delta(mu, epsilon)), Fraction(exact_delta(mu, epsilon))
    assert truth <= delta <= truth * (1 + Fraction(1, 10**8))


@given(st.floats(1e-6, 1e4), DELTAS)
def test_largest_mu_is_within_the_guarantee_and_a_larger_mu_is_not(epsilon, delta):
    mu = largest_mu(epsilon, delta)
    assert gaussian_delta(mu, epsilon) <= delta
    assert gaussian_delta(Fraction(mu) * (1 + Fraction(1, 10**7)), epsilon) > delta


@given(st.floats(1e-9, 50), DELTAS)
def test_epsilon_is_within_the_guarantee_and_a_smaller_epsilon_is_not(mu, delta):
    epsilon = gaussian_epsilon(mu, delta)
    assert gaussian_delta(mu, epsilon) <= delta
    smaller = epsilon - 1e-7 * (epsilon + mu)
    assert smaller < 0 or gaussian_delta(mu, smaller) > delta


EXTREMES = [0, 5e-324, 1e-300, 1e-6, 1e-3, 1, 1e4, 1e16, 1e300, 1.7e308]


@pytest.mark.parametrize("delta", [5e-324, 1e-300, 1e-15, 0.5, 1 - 2**-53])
def test_extremes_are_safe_and_finite(delta):
    for epsilon in EXTREMES:
        mu = largest_mu(epsilon, delta)
        assert 0 < mu < math.inf
        assert gaussian_delta(mu, epsilon) <= delta
        # Near 1, delta hardly depends on mu.
        if 1e-15 < mu < 1e6 and delta <= 0.5:
            assert gaussian_delta(mu * (1 + 1e-7), epsilon) > delta
            assert 0 <= gaussian_epsilon(mu, delta) <= epsilon * (1 + 1e-12)


def test_extreme_parameters_are_converted():
    assert gaussian_delta(0, 0) == gaussian_delta(0, 1) == 0
    assert gaussian_epsilon(0, 0) == gaussian_epsilon(0, 0.1) == 0
    assert gaussian_delta(1e300, 1) == gaussian_delta(30, 0) == 1
    assert gaussian_delta(1e-300, 1) == gaussian_delta(5e-324, 1e300) == gaussian_delta(1, 1e300) == math.ulp(0.0)
    assert gaussian_delta(1e-300, 0) == pytest.approx(1e-300 / math.sqrt(2 * math.pi))
    assert gaussian_delta(12, 0) < 1
    assert zcdp_epsilon(0, 1e-6) == zcdp_epsilon(0, 0) == zcdp_epsilon(5e-324, 0.5) == 0
    assert zcdp_epsilon(1e300, 1e-6) == pytest.approx(1e300)
    assert zcdp_epsilon(Fraction(1, 2), Fraction(1, 10**6)) == pytest.approx(5.221534444530169)


@pytest.mark.parametrize(
    ("convert", "numbers", "message"),
    [
        (gaussian_delta, (-1, 1), "`mu` must be"),
        (gaussian_epsilon, (1, 0), r"`delta` must be in \(0, 1\), got 0"),
        (gaussian_epsilon, (1e200, 0.1), "`mu` must be at most"),
        (largest_mu, (1, 0), "Gaussian noise requires delta > 0"),
        (zcdp_epsilon, (1, 0), r"`delta` must be in \(0, 1\), got 0"),
    ],
)
def test_impossible_parameters_raise_an_error(convert, numbers, message):
    with pytest.raises(ValueError, match=message):
        convert(*numbers)


@pytest.mark.parametrize("epsilon", [5e-324, 1e-300, 1e-15])
def test_noise_of_a_tiny_epsilon_is_found(epsilon):
    """It is the noise of delta alone, with an epsilon larger by many steps of a float."""
    mu = Mu.of(epsilon, 1e-6).mu
    assert mu == pytest.approx(1e-6 * math.sqrt(2 * math.pi))
    assert gaussian_epsilon(mu, 1e-6) <= epsilon


def implied_delta(rho, epsilon, alpha):
    """Return the bound of Canonne, Kamath and Steinke for one order, to 60 digits."""
    with localcontext(prec=60):
        rho, epsilon, alpha = Decimal(rho), Decimal(epsilon), Decimal(alpha)
        return ((alpha - 1) * (alpha * rho - epsilon)).exp() / (alpha - 1) * (alpha * (1 - 1 / alpha).ln()).exp()


@settings(deadline=None)
@given(st.floats(1e-6, 100), DELTAS)
def test_some_order_proves_the_bound_and_none_proves_much_more(rho, delta):
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


def test_bound_is_rounded_up():
    """The float formula at the best order is sometimes below the proven value."""
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
