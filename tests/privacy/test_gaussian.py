from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm

from skdp.privacy import _gaussian as module
from skdp.privacy import gaussian_delta, gaussian_epsilon, largest_mu, zcdp_epsilon
from tests.conftest import each

MUS = st.floats(1e-9, 50)
EPSILONS = st.floats(1e-6, 1e4)
DELTAS = st.floats(1e-300, 0.999)
DIGITS = 700


def decimal(number):
    number = Fraction(number)
    return Decimal(number.numerator) / Decimal(number.denominator)


@lru_cache
def root_two_pi():
    """The square root of 2 pi, by the iteration of Gauss and Legendre."""
    with localcontext(prec=DIGITS):
        a, b, t, p = Decimal(1), 1 / Decimal(2).sqrt(), Decimal(1) / 4, 1
        for _ in range(12):
            a, b, t, p = (a + b) / 2, (a * b).sqrt(), t - p * ((a - b) / 2) ** 2, 2 * p
        return (2 * (a + b) ** 2 / (4 * t)).sqrt()


def phi(x):
    """The normal law by its alternating series, with more digits than cancel."""
    total = term = x
    n = 0
    while abs(term) > Decimal(10) ** -(DIGITS - 20):
        n += 1
        term *= -x * x / (2 * n)
        total += term / (2 * n + 1)
    return Decimal(1) / 2 + total / root_two_pi()


def exact_delta(mu, epsilon):
    """The formula of Balle and Wang as they write it: right to some 300 digits if epsilon / mu + mu / 2 < 40."""
    with localcontext(prec=DIGITS):
        mu, epsilon = decimal(mu), decimal(epsilon)
        return phi(mu / 2 - epsilon / mu) - epsilon.exp() * phi(-mu / 2 - epsilon / mu)


def integrated_delta(mu, epsilon):
    """Delta by an integral of positive numbers: phi(a) times that of e^(-a t - t^2 / 2) (1 - e^(-mu t)), in floats."""
    near = float(Fraction(epsilon) / Fraction(mu) - Fraction(mu) / 2)
    end = math.sqrt(near**2 + 100) - near
    nodes, weights = np.polynomial.legendre.leggauss(200)
    t = end * (nodes + 1) / 2
    # The exponent completes a square where a is negative: then its peak is far from 0.
    values = np.exp(-((t + near) ** 2) / 2 + max(near, 0) ** 2 / 2) * -np.expm1(-mu * t)
    log = math.log(end / 2 * (weights @ values) / math.sqrt(2 * math.pi)) - max(near, 0) ** 2 / 2
    return math.exp(log)


@given(st.floats(1e-6, 30), st.floats(-7, 36))
def test_delta_is_the_truth_rounded_up_to_a_float(mu, near):
    epsilon = max(0.0, mu * (near + mu / 2))
    if epsilon / mu + mu / 2 > 38:
        return
    delta, truth = Fraction(gaussian_delta(mu, epsilon)), Fraction(exact_delta(mu, epsilon))
    assert truth <= delta <= truth * (1 + Fraction(3, 10**16))


@given(st.floats(1e-7, 200), st.floats(-6, 36.5))
def test_delta_is_right_for_large_and_small_epsilons(mu, near):
    epsilon = max(0.0, mu * (near + mu / 2))
    assert gaussian_delta(mu, epsilon) == pytest.approx(integrated_delta(mu, epsilon), rel=1e-11)


@each("mu", [0.1, 0.5, 1, 3])
def test_delta_in_the_common_range_is_that_of_the_float_formula(mu):
    for epsilon in [0, 0.1, 0.5, 1, 3]:
        floats = norm.cdf(-epsilon / mu + mu / 2) - math.exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2)
        assert gaussian_delta(mu, epsilon) == pytest.approx(floats, abs=1e-14)


@pytest.mark.parametrize("bits", [0, 2, 4, 8, 12])
def test_few_bits_only_raise_delta(monkeypatch, bits):
    cases = [(0.01, 0.01), (0.3, 2.0), (1.0, 1.0), (3.0, 0.5), (7.0, 1.0)]
    tight = [Fraction(exact_delta(*case)) for case in cases]
    monkeypatch.setattr(module, "_BITS", bits)
    loose = [Fraction(gaussian_delta(*case)) for case in cases]
    assert all(delta >= truth for delta, truth in zip(loose, tight, strict=True))
    assert max(delta / truth for delta, truth in zip(loose, tight, strict=True)) > 1 + 2.0 ** -(bits + 12)


@given(MUS, EPSILONS, st.floats(1, 2), st.floats(1, 2))
def test_delta_grows_with_mu_and_falls_with_epsilon(mu, epsilon, more, further):
    delta = gaussian_delta(mu, epsilon)
    assert 0 < delta <= 1
    assert gaussian_delta(mu * more, epsilon) >= delta
    assert gaussian_delta(mu, epsilon * further) <= delta


@given(EPSILONS, DELTAS)
def test_the_largest_mu_keeps_the_promise_and_a_larger_one_does_not(epsilon, delta):
    mu = largest_mu(epsilon, delta)
    assert gaussian_delta(mu, epsilon) <= delta
    assert module._curve(Fraction(mu) * (1 + Fraction(1, 10**13)), Fraction(epsilon))[0] > delta


@given(MUS, DELTAS)
def test_epsilon_keeps_the_promise_and_a_smaller_one_does_not(mu, delta):
    epsilon = gaussian_epsilon(mu, delta)
    assert gaussian_delta(mu, epsilon) <= delta
    assert epsilon == 0 or module._curve(Fraction(mu), Fraction(epsilon) * (1 - Fraction(1, 10**13)))[0] > delta


@pytest.mark.parametrize("delta", [Fraction(1, 10**9), Fraction(1, 3), Fraction(1, 7**300), 1 - Fraction(1, 10**30)])
def test_a_delta_that_is_no_float_is_kept_too(delta):
    for epsilon in np.linspace(0.5, 1.5, 10):
        assert gaussian_delta(largest_mu(float(epsilon), delta), float(epsilon)) <= delta
    assert gaussian_delta(1, gaussian_epsilon(1, delta)) <= delta


@given(EPSILONS, DELTAS, st.floats(1, 2), st.floats(1, 1.5))
def test_more_is_allowed_for_a_larger_epsilon_or_delta(epsilon, delta, more, further):
    mu = largest_mu(epsilon, delta) * (1 - 1e-13)
    assert largest_mu(epsilon * more, delta) >= mu
    assert largest_mu(epsilon, min(0.999, delta * further)) >= mu


@each("epsilon", [0.1, 0.5, 1, 3])
@each("delta", [1e-6, 1e-3, 0.1])
def test_the_inverses_in_the_common_range(epsilon, delta):
    def excess(mu):
        return norm.cdf(-epsilon / mu + mu / 2) - math.exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2) - delta

    mu = largest_mu(epsilon, delta)
    assert mu == pytest.approx(brentq(excess, 1e-3, 20, xtol=1e-15, rtol=1e-14), rel=1e-8)
    assert gaussian_epsilon(mu, delta) == pytest.approx(epsilon, rel=1e-11)


def test_it_allows_a_tenth_more_than_the_conversion_of_concentrated_privacy():
    mu = largest_mu(1, 1e-9)
    rho = brentq(lambda rho: zcdp_epsilon(rho, 1e-9) - 1, 1e-3, 1, xtol=1e-14)
    assert mu**2 / 2 / rho == pytest.approx(1.10, abs=0.02)


@settings(max_examples=50)
@given(st.floats(1e-3, 5), st.floats(1e-200, 0.5))
def test_it_is_never_worse_than_the_conversion_of_concentrated_privacy(mu, delta):
    assert gaussian_epsilon(mu, delta) <= zcdp_epsilon(Fraction(mu) ** 2 / 2, delta)


def test_at_epsilon_0_it_is_the_total_variation_and_the_classical_calibration_is_too_noisy():
    for mu in (0.01, 1, 4):
        assert gaussian_delta(mu, 0) == pytest.approx(2 * norm.cdf(mu / 2) - 1)
    classical = 0.5 / math.sqrt(2 * math.log(1.25 / 1e-6))  # Dwork and Roth (2014), theorem A.1
    assert 1.1 < largest_mu(0.5, 1e-6) / classical < 2


EXTREMES = [0, 5e-324, 1e-300, 1e-6, 1e-3, 1, 1e4, 1e16, 1e300, 1.7e308]


@pytest.mark.parametrize("epsilon", EXTREMES)
@each("delta", [5e-324, 1e-300, 1e-15, 0.5, 1 - 2**-53])
def test_extremes_are_safe_and_finite(epsilon, delta):
    mu = largest_mu(epsilon, delta)
    assert 0 < mu < math.inf
    assert gaussian_delta(mu, epsilon) <= delta
    if 1e-15 < mu < 1e6:
        assert gaussian_delta(mu * (1 + 1e-12), epsilon) > delta
        assert 0 <= gaussian_epsilon(mu, delta) <= epsilon * (1 + 1e-12)


@each("mu", [5e-324, 1e-300, 1e-9, 1e-3, 10, 1e9, 1e150])
@each("delta", [5e-324, 1e-15, 0.5])
def test_epsilon_of_extremes_is_safe_and_finite(mu, delta):
    epsilon = gaussian_epsilon(mu, delta)
    assert 0 <= epsilon < math.inf
    assert gaussian_delta(mu, epsilon) <= delta
    assert mu < 1e9 or epsilon == pytest.approx(mu**2 / 2, rel=1e-6)


def test_delta_of_extremes():
    assert gaussian_delta(0, 0) == gaussian_delta(0, 1) == 0
    assert gaussian_epsilon(0, 0) == gaussian_epsilon(0, 0.1) == 0
    assert gaussian_delta(1e300, 1) == gaussian_delta(30, 0) == 1
    assert gaussian_delta(1e-300, 1) == gaussian_delta(5e-324, 1e300) == gaussian_delta(1, 1e300) == math.ulp(0.0)
    assert gaussian_delta(1e-300, 0) == pytest.approx(1e-300 / math.sqrt(2 * math.pi))
    assert gaussian_delta(Fraction(1, 2), Fraction(1, 3)) == pytest.approx(integrated_delta(1 / 2, 1 / 3))
    assert gaussian_delta(16, 0) < 1


@each(
    "call error message",
    [
        (lambda: gaussian_delta(-1, 1), ValueError, "mu must be"),
        (lambda: gaussian_delta(math.inf, 1), ValueError, "mu must be"),
        (lambda: gaussian_delta(True, 1), TypeError, "mu must be"),
        (lambda: gaussian_delta(1, -1), ValueError, "epsilon must be"),
        (lambda: gaussian_delta(1, "1"), TypeError, "epsilon must be"),
        (lambda: gaussian_epsilon(1, 0), ValueError, "got delta = 0"),
        (lambda: gaussian_epsilon(1, 1), ValueError, "delta must be"),
        (lambda: gaussian_epsilon(1e200, 0.1), ValueError, "mu must be at most"),
        (lambda: largest_mu(1, 0), ValueError, "discrete Laplace"),
        (lambda: largest_mu(1, Fraction(1, 10**400)), ValueError, "got delta = 0"),
        (lambda: largest_mu(math.nan, 0.1), ValueError, "epsilon must be"),
    ],
)
def test_impossible_parameters_are_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
