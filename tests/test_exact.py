from __future__ import annotations

import decimal
import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skdp.exact import exp_bounds, log_upper, round_up


@given(st.floats(0, 700))
def test_exp_is_enclosed_tightly(exponent):
    lower, upper = exp_bounds(exponent)
    with decimal.localcontext(prec=400):
        # The decimal module rounds exp correctly: an independent witness, far more precise than the bounds.
        witness = Fraction(decimal.Decimal(exponent).exp())
    margin = witness / 10**395
    assert lower <= witness + margin
    assert witness - margin <= upper
    assert upper - lower <= lower / 2**250


def test_exp_of_zero_and_negative():
    assert exp_bounds(0)[0] == 1
    with pytest.raises(ValueError, match="at least 0"):
        exp_bounds(-1.0)


@given(st.fractions(1, 10**30), st.integers(1, 2**80))
def test_log_is_rounded_up_by_at_most_two_floats(ratio, denominator):
    for value in (ratio, 1 + Fraction(1, denominator)):
        result = log_upper(value)
        assert exp_bounds(result)[0] >= value
        assert value == 1 or exp_bounds(math.nextafter(math.nextafter(result, 0), 0))[1] <= value


def test_log_of_huge_tiny_and_illegal_ratios():
    huge = Fraction(2**1500)
    assert log_upper(huge) == pytest.approx(1500 * math.log(2))
    tiny = Fraction(1, 2**300)
    assert Fraction(log_upper(1 + tiny)) >= tiny / 2
    assert log_upper(1 + tiny) > 0
    with pytest.raises(ValueError, match="at least 1"):
        log_upper(Fraction(1, 2))


@given(st.fractions(-1000, 1000))
def test_round_up_is_the_next_float(value):
    result = round_up(value)
    assert result >= value
    assert math.nextafter(result, -math.inf) < value
