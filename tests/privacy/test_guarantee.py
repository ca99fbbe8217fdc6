from __future__ import annotations

import math
import pickle
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skdp import PrivacyGuarantee
from skdp.exact import exp_bounds

EPSILONS = st.floats(0, 100)
DELTAS = st.floats(0, 0.3)


@given(EPSILONS, EPSILONS, DELTAS, DELTAS)
def test_sequential_composition_adds_and_never_rounds_down(e1, e2, d1, d2):
    total = PrivacyGuarantee(e1, d1) + PrivacyGuarantee(e2, d2)
    assert Fraction(total.epsilon) >= Fraction(e1) + Fraction(e2)
    assert Fraction(total.delta) >= Fraction(d1) + Fraction(d2)
    assert total.epsilon == pytest.approx(e1 + e2)


@given(EPSILONS, EPSILONS, DELTAS, DELTAS)
def test_parallel_composition_takes_the_larger(e1, e2, d1, d2):
    either = PrivacyGuarantee(e1, d1) | PrivacyGuarantee(e2, d2)
    assert (either.epsilon, either.delta) == (max(e1, e2), max(d1, d2))


@given(st.floats(0, 5), st.floats(0, 1e-3))
def test_replacing_is_removing_and_adding(epsilon, delta):
    implied = PrivacyGuarantee(epsilon, delta, relation="add_remove", trust="central").to("replace")
    assert implied.epsilon == 2 * epsilon
    assert Fraction(implied.delta) >= (1 + exp_bounds(epsilon)[0]) * Fraction(delta)
    assert implied.delta == pytest.approx((1 + math.exp(epsilon)) * delta)


def test_composition_keeps_what_weakens_the_promise():
    local = PrivacyGuarantee(1, scope=("sex",), mechanism="coins")
    central = PrivacyGuarantee(
        1, 1e-6, relation="add_remove", trust="central", scope=("age", "sex"), mechanism="noise", secure=False
    )
    for total in (local + central, local | central):
        assert total.relation == "replace"
        assert total.trust == "central"
        assert total.scope == ("sex", "age")
        assert total.mechanism == "coins, noise"
        assert not total.secure
    assert (local + central).epsilon == 3
    assert (local | central).epsilon == 2


def test_replace_does_not_imply_add_remove():
    with pytest.raises(ValueError, match="says nothing about adding"):
        PrivacyGuarantee(1).to("add_remove")
    for epsilon, delta in ((10, 0.1), (1e8, 1e-9), (1e8, 5e-324)):
        with pytest.raises(ValueError, match="nothing is promised"):
            PrivacyGuarantee(epsilon, delta, relation="add_remove").to("replace")
    assert PrivacyGuarantee(1e8, relation="add_remove").to("replace").epsilon == 2e8
    with pytest.raises(ValueError, match="relation must be"):
        PrivacyGuarantee(1).to("swap")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"epsilon": -1}, ValueError),
        ({"epsilon": float("nan")}, ValueError),
        ({"epsilon": float("inf")}, ValueError),
        ({"epsilon": True}, TypeError),
        ({"epsilon": "1"}, TypeError),
        ({"epsilon": 1, "delta": 1.0}, ValueError),
        ({"epsilon": 1, "delta": -0.1}, ValueError),
        ({"epsilon": 1, "delta": float("nan")}, ValueError),
        ({"epsilon": 1, "delta": None}, TypeError),
        ({"epsilon": 1, "relation": "swap"}, ValueError),
        ({"epsilon": 1, "trust": "nobody"}, ValueError),
    ],
)
def test_impossible_promises_are_refused(arguments, error):
    with pytest.raises(error):
        PrivacyGuarantee(**arguments)


def test_other_things_cannot_be_added():
    with pytest.raises(TypeError):
        PrivacyGuarantee(1) + 1
    with pytest.raises(TypeError):
        PrivacyGuarantee(1) | 1


@pytest.mark.parametrize(
    ("epsilon", "text"), [(0, "0"), (0.1, "0.1"), (1.0, "1"), (1.0986122886681096, "1.09862"), (1e-9, "0.000000001")]
)
def test_epsilon_is_written_rounded_up(epsilon, text):
    assert str(PrivacyGuarantee(epsilon)).startswith(f"epsilon = {text},")


def test_the_text_says_everything():
    guarantee = PrivacyGuarantee(1, 1e-6, relation="add_remove", trust="central", scope=("a", "b"), secure=False)
    assert str(guarantee) == (
        "epsilon = 1, delta = 0.000001, central model, adding or removing one record's values of: a, b, "
        "NOT SECURE: the coins come from a seed"
    )
    assert pickle.loads(pickle.dumps(guarantee)) == guarantee
