"""Composition compared with enumerated losses, closed forms and published numbers, and at the limits of floats."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.special import ndtri_exp

from skdp import PrivacyGuarantee, PrivacyLedger
from skdp.privacy import PureLoss, StatedLoss, compose, gaussian_delta, gaussian_epsilon, pure_mu, zcdp_epsilon
from tests.privacy.accounting.enumerated import exp, true_delta


def list_losses(pairs):
    return [StatedLoss(epsilon, delta) for epsilon, delta in pairs]


def releases(pairs):
    return [PrivacyGuarantee(epsilon, delta=delta) for epsilon, delta in pairs]


PAIRS = st.lists(
    st.tuples(
        st.one_of(st.floats(0, 3), st.sampled_from([0.1, 0.5, 1.0, 20.0])), st.sampled_from([0.0, 0.0, 1e-7, 0.01])
    ),
    min_size=1,
    max_size=7,
)


@example([(5e-324, 0.0)], 1e-12)
@example([(1e-300, 0.0)] * 3 + [(5e-324, 0.0)], 0.3)
@example([(1e-280, 0.0)] * 7, 1e-290)
@example([(5e-324, 0.0), (1.0, 0.0)], 1e-6)
@given(PAIRS, st.sampled_from([1e-12, 1e-6, 1e-3, 0.05, 0.3]))
def test_composition_is_at_least_the_truth_and_close(pairs, extra):
    delta = sum(part for _, part in pairs) + extra
    total = compose(releases(pairs), delta=delta)
    assert true_delta(list_losses(pairs), total.epsilon) <= Fraction(delta)
    assert total.delta <= delta
    basic = sum(Fraction(epsilon) for epsilon, _ in pairs)
    assert Fraction(total.epsilon) <= basic + Fraction(1, 10**12)
    # A grid of at least 2**12 steps for the sum: each release is rounded up by at most one step.
    slack = float(basic) * (len(pairs) + 1) * 2.0**-12 + 1e-9
    if total.epsilon > slack:
        assert true_delta(list_losses(pairs), total.epsilon - slack) >= Fraction(delta) * (1 - Fraction(1, 10**6))


@example(1.3274543938245305, 58, 1e-2, 1e-8)  # the truth is 0.0015 below 46 epsilon
@given(st.floats(0.01, 2), st.integers(1, 60), st.sampled_from([1e-9, 1e-6, 1e-2]), st.sampled_from([0.0, 1e-8]))
def test_equal_releases_equal_the_theorem_of_kairouz_oh_and_viswanath(epsilon, k, delta, part):
    """Theorem 3.3: k releases of (e, d) are together ((k - 2i) e, 1 - (1 - d)**k (1 - d_i)), for each i."""
    if 1 - (1 - Fraction(part)) ** k > Fraction(delta):
        with pytest.raises(ValueError, match="`delta` must be larger"):
            compose([PrivacyGuarantee(epsilon, delta=part)] * k, delta=delta)
        return
    total = compose([PrivacyGuarantee(epsilon, delta=part)] * k, delta=delta)
    power, smallest = exp(epsilon), k
    for i in range(k // 2 + 1):
        terms = (math.comb(k, j) * (power ** (k - j) - power ** (k - 2 * i + j)) for j in range(i))
        d_i = sum(terms, Fraction(0)) / (1 + power) ** k
        if 1 - (1 - Fraction(part)) ** k * (1 - d_i) > Fraction(delta):
            break
        smallest = k - 2 * i
    # The smallest of their epsilons within delta; the truth may be lower, but above the next one.
    slack = k * epsilon * (k + 1) * 2.0**-16  # as above; at most 3 % of the way to the next one
    largest = min(smallest * epsilon + slack, k * epsilon * (1 + 1e-11))
    assert (smallest - 2) * epsilon - 1e-9 <= total.epsilon <= largest


def test_many_small_releases_are_below_the_published_total_of_diffprivlib():
    """Its tests state the bound of theorem 3.5 of Kairouz, Oh and Viswanath, which is not the smallest epsilon."""
    total = compose([PrivacyGuarantee(2.0**-9)] * 700, delta=2.0**-25)
    assert total.epsilon <= 0.27832280615743646
    # The losses of randomized response with this epsilon have nearly the distribution of Gaussian noise.
    assert total.epsilon == pytest.approx(gaussian_epsilon(math.sqrt(700) * 2.0**-9, 2.0**-25), rel=0.02)


def test_stated_rhos_are_converted_together():
    """The stated rhos, and the exact rho of a pure epsilon, are added, and their sum is converted."""
    parts = [PrivacyGuarantee(zcdp_epsilon(0.01, 1e-8), delta=1e-8, rho=0.01)] * 20
    assert compose(parts, delta=1e-6).epsilon == zcdp_epsilon(20 * Fraction(0.01), 1e-6)
    mixed = compose([*parts, PrivacyGuarantee(0.1)], delta=1e-6)
    assert mixed.epsilon == pytest.approx(zcdp_epsilon(20 * Fraction(0.01) + Fraction(0.1 * math.tanh(0.05)), 1e-6))
    with pytest.raises(ValueError, match="`delta` must be larger than 1e-08"):
        compose([*parts, PrivacyGuarantee(0.5, delta=1e-7)], delta=1e-8)


@pytest.mark.parametrize(("guarantees", "delta"), [([], None), ([1.0], None), ([PrivacyGuarantee(1)], 1.0)])
def test_impossible_requests_raise_an_error(guarantees, delta):
    with pytest.raises((TypeError, ValueError), match=r"at least one|PrivacyGuarantees, got float|`delta` must be"):
        compose(guarantees, delta=delta)


@pytest.mark.parametrize("share", [1 - 2.0**-53, 1 - 2.9e-13, 1 - 1e-9, 0.5, 1e-3])
@pytest.mark.parametrize("epsilon", [27.871783952016408, 30.3, 33.22121659457197, 36.7, 40.0])
def test_mu_of_nearly_all_reports_is_not_too_small(epsilon, share):
    """At order 1 the divergence is the total variation; 1 minus it is below float precision."""
    mu = pure_mu(Fraction(epsilon), share)
    if share > 0.9:
        # The corner of the trade-off function: its errors are about e**-epsilon and 1 - share.
        rare = Fraction(share) / (1 + Fraction(math.exp(epsilon)))
        rest = 1 - Fraction(share) + rare
        needed = -ndtri_exp(math.log(rare)) - ndtri_exp(math.log(rest))
        assert float(mu) >= needed * (1 - 1e-12)
    assert float(mu) <= float(pure_mu(Fraction(epsilon)))
    assert gaussian_delta(mu, 0) >= share * math.tanh(epsilon / 2) * (1 - 1e-15)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 4.0])
@pytest.mark.parametrize("share", [0.9, 0.2, 1e-3])
def test_mu_of_a_report_of_many_values_is_the_smallest(epsilon, share):
    """Noise with this mu covers the worst channel at every order, and noise with a smaller mu does not."""
    mu = float(pure_mu(Fraction(epsilon), share))
    orders = np.linspace(0, epsilon, 51).tolist()
    worst = [share * (math.exp(epsilon) - math.exp(order)) / (1 + math.exp(epsilon)) for order in orders]
    for factor, covers in ((1, True), (0.97, False)):
        reached = [gaussian_delta(factor * mu, order) for order in orders]
        assert (np.array(reached) >= worst).all() == covers


@pytest.mark.parametrize("share", [1e-200, 1e-320, 5e-324])
@pytest.mark.parametrize("epsilon", [1e-4, 1.0, 387.0, 499.0])
def test_rarest_reports_are_counted(epsilon, share):
    report = PrivacyGuarantee(epsilon, losses=(PureLoss(epsilon, share=share),))
    for budget in ({"mu": 1e3}, {"rho": 1e6}):
        ledger = PrivacyLedger(**budget)
        ledger.charge(report, "release")
        spent = ledger.balance().loc["spent"]
        assert 0 < spent["mu"] <= float(pure_mu(Fraction(epsilon))) * (1 + 1e-9)
        assert 0 < spent["rho"] <= epsilon**2 / 2 * (1 + 1e-9)
    # The total variation of three is less than delta.
    assert compose([report] * 3, delta=1e-6).epsilon <= 3 * epsilon * (1 + 1e-9)


@pytest.mark.parametrize("loss", [PureLoss(1e308, count=1 << 38), StatedLoss(1e308, count=2)])
def test_sums_beyond_float_range_raise_an_error(loss):
    huge = PrivacyGuarantee(1e308, losses=(loss,))
    for add in (lambda: huge + huge, lambda: compose([huge] * 2, delta=1e-6), lambda: huge + PrivacyGuarantee(1e308)):
        with pytest.raises(ValueError, match="`epsilon` must be a finite number"):
            add()
