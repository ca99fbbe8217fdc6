"""Guarantees: their numbers, their sums, and their text."""

import math
import pickle
import sys
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from skdp import PrivacyGuarantee, PrivacyLedger
from skdp.exact import exp_bounds
from skdp.privacy import GaussianLoss, PureLoss, StatedLoss, check_delta, check_epsilon, gaussian_epsilon

EPSILONS = st.floats(0, 100)
DELTAS = st.floats(0, 0.3)


@settings(deadline=None)
@example(1.0, 1.0, 1e-3, 1e-3)  # equal releases are counted
@given(EPSILONS, EPSILONS, DELTAS, DELTAS)
def test_sequential_composition_adds_and_never_rounds_down(e1, e2, d1, d2):
    total = PrivacyGuarantee(e1, delta=d1) + PrivacyGuarantee(e2, delta=d2)
    assert Fraction(total.epsilon) >= Fraction(e1) + Fraction(e2)
    assert Fraction(total.delta) >= Fraction(d1) + Fraction(d2)
    assert total.epsilon == pytest.approx(e1 + e2)


@settings(deadline=None)
@given(st.floats(0, 5), st.floats(0, 1e-3))
def test_replacing_is_removing_and_adding(epsilon, delta):
    implied = PrivacyGuarantee(epsilon, delta=delta, relation="add_remove", trust="central").to("replace")
    assert implied.epsilon == 2 * epsilon
    assert Fraction(implied.delta) >= (1 + exp_bounds(epsilon)[0]) * Fraction(delta)
    assert implied.delta == pytest.approx((1 + math.exp(epsilon)) * delta)


def test_composition_keeps_all_restrictions():
    local = PrivacyGuarantee(1, scope=("sex",), mechanism="coins")
    central = PrivacyGuarantee(
        1, delta=1e-6, relation="add_remove", trust="central", scope=("age", "sex"), mechanism="noise", secure=False
    )
    total = local + central
    assert (total.epsilon, total.relation, total.trust) == (3, "replace", "central")
    assert (total.scope, total.mechanism, total.secure) == (("sex", "age"), "coins, noise", False)


GAUSSIAN = {"epsilon": 5.3, "delta": 1e-6, "rho": 0.5}


def test_rhos_add_and_a_pure_release_has_a_rho():
    gaussian, pure, approximate = PrivacyGuarantee(**GAUSSIAN), PrivacyGuarantee(0.5), PrivacyGuarantee(0.5, delta=1e-9)
    assert (gaussian + gaussian).rho == 1
    assert (gaussian + pure).rho == (pure + gaussian).rho == pytest.approx(0.5 + 0.5 * math.tanh(0.25), rel=1e-11)
    assert (pure + pure).rho is None
    assert (gaussian + approximate).rho is None
    assert (gaussian + PrivacyGuarantee(1e200)).rho == pytest.approx(1e200)


def test_rho_of_a_replacement_is_the_rho_of_a_group_of_two():
    removed = PrivacyGuarantee(**GAUSSIAN, relation="add_remove", trust="central")
    assert removed.to("replace").rho == 2
    both = (removed + PrivacyGuarantee(1, relation="add_remove")).to("replace")
    assert both.rho == pytest.approx(2 + 4 * math.tanh(0.5))
    # A pure release alone is converted first: 2 epsilon.
    assert (removed + PrivacyGuarantee(1)).rho == pytest.approx(2 + math.tanh(0.5))
    one = replace(removed, epsilon=gaussian_epsilon(0.25, 1e-6), losses=(GaussianLoss(0.25),))
    assert one.to("replace").losses == (GaussianLoss(0.5),)


@settings(deadline=None)
@given(st.fractions(0, 100), st.fractions(0, Fraction(99, 100)))
def test_fractions_are_rounded_up_to_floats(epsilon, delta):
    guarantee = PrivacyGuarantee(epsilon, delta=delta, rho=epsilon)
    for kept, exact in ((guarantee.epsilon, epsilon), (guarantee.delta, delta), (guarantee.rho, epsilon)):
        assert isinstance(kept, float)
        assert exact <= Fraction(kept) <= exact * (1 + Fraction(1, 1 << 52))


def test_replace_does_not_imply_add_remove():
    with pytest.raises(ValueError, match="does not cover adding"):
        PrivacyGuarantee(1).to("add_remove")
    for epsilon, delta in ((10, 0.1), (1e8, 1e-9), (1e8, 5e-324)):
        with pytest.raises(ValueError, match="there is no guarantee"):
            PrivacyGuarantee(epsilon, delta=delta, relation="add_remove").to("replace")
    assert PrivacyGuarantee(1e8, relation="add_remove").to("replace").epsilon == 2e8
    with pytest.raises(ValueError, match="`relation` must be"):
        PrivacyGuarantee(1).to("swap")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"epsilon": -1}, ValueError),
        ({"epsilon": True}, TypeError),
        ({"epsilon": 1, "delta": 1.0}, ValueError),
        ({"epsilon": Fraction(sys.float_info.max) + 1}, ValueError),
        ({"epsilon": 1, "delta": 1 - Fraction(1, 10**30)}, ValueError),
        ({"epsilon": 1, "rho": -0.1}, ValueError),
        ({"epsilon": 1, "relation": "swap"}, ValueError),
        ({"epsilon": 1, "trust": "nobody"}, ValueError),
    ],
)
def test_impossible_guarantees_raise_an_error(arguments, error):
    with pytest.raises(error):
        PrivacyGuarantee(**arguments)


def test_sum_of_guarantees_keeps_all_losses():
    noise = PrivacyGuarantee(1.0, delta=1e-6, losses=(GaussianLoss(0.2),))
    assert pickle.loads(pickle.dumps(noise)) == noise
    assert (noise + noise + PrivacyGuarantee(0.5) + noise).losses == (GaussianLoss(0.2, count=3), StatedLoss(0.5))
    assert PrivacyGuarantee(0.5, losses=(StatedLoss(0.5),)) == PrivacyGuarantee(0.5)


def test_losses_belong_to_all_stated_releases():
    """`dataclasses.replace` would keep the losses of one release for the losses of three."""
    with pytest.raises(TypeError, match="`losses` must be losses of skdp"):
        PrivacyGuarantee(1.0, losses=(0.5,))
    one = PrivacyGuarantee(1.0, losses=(PureLoss(1.0, share=0.5),))
    with pytest.raises(ValueError, match=r"`losses` add up to epsilon 1\.0, less than the stated 3\.0"):
        replace(one, epsilon=3.0)
    assert replace(one, epsilon=3.0, losses=()).losses == ()
    assert PrivacyGuarantee(0.5, delta=1e-6, losses=(PureLoss(1.0),)).epsilon == 0.5  # as composed


@pytest.mark.parametrize("value", [1, 1.0, np.float64(1), np.float32(1), np.int8(1), np.longdouble(1), Fraction(1)])
def test_real_numbers_are_taken_exactly(value):
    assert check_epsilon(value) == 1


@pytest.mark.parametrize(
    ("check", "value", "error"),
    [
        *((check_epsilon, value, ValueError) for value in (0, -1, math.nan, math.inf, 10**400, Fraction(10**400))),
        *((check_delta, value, ValueError) for value in (-0.1, 1, math.nan)),
        *((check, value, TypeError) for check in (check_epsilon, check_delta) for value in (True, "1", None, [1])),
    ],
)
def test_numbers_out_of_range_raise_an_error(check, value, error):
    with pytest.raises(error, match=r"must be a (finite )?number"):
        check(value)


@pytest.mark.parametrize("epsilon", [5e-324, 1e-323, 1e-310, 1e-170, 1e-160, 1e-150, 1e-20])
def test_smallest_losses_count_in_every_budget(epsilon):
    exact = Fraction(epsilon)
    for unit, smallest in (("mu", exact * Fraction("1.2533")), ("rho", exact**2 / 2)):  # the root of pi / 2
        for losses in ((), (PureLoss(epsilon),)):
            ledger = PrivacyLedger(**{unit: 1.0})
            ledger.charge(PrivacyGuarantee(epsilon, losses=losses), "answer")
            assert Fraction(ledger.balance().loc["spent", unit]) >= smallest
