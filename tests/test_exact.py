import decimal
import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skdp.exact import exp_bounds, exp_minus_bounds, log_upper, round_up


@pytest.mark.parametrize(
    ("bound", "numbers", "message"),
    [
        (exp_bounds, [-1.0], "at least 0"),
        (exp_minus_bounds, [Fraction(-1), 8], "at least 0"),
        (log_upper, [Fraction(1, 2)], "at least 1"),
    ],
)
def test_numbers_without_bounds_are_refused(bound, numbers, message):
    with pytest.raises(ValueError, match=message):
        bound(*numbers)


# With few bits, the relative errors of the squarings do not add up.
@given(st.fractions(0, 50) | st.floats(0, 700).map(Fraction), st.integers(32, 600))
def test_exp_is_enclosed_with_the_requested_precision(exponent, precision):
    lower, upper = exp_bounds(exponent, precision=precision)
    # The decimal module rounds exp correctly, independently of skdp.
    with decimal.localcontext(prec=400):
        witness = Fraction((decimal.Decimal(exponent.numerator) / decimal.Decimal(exponent.denominator)).exp())
    margin = witness / 10**390
    assert lower <= witness + margin
    assert witness - margin <= upper
    # Each squaring doubles the relative error of the few dozen terms.
    assert upper - lower <= witness * (exponent + 1) * 2**12 / 2**precision


@given(
    st.one_of(st.fractions(0, 4), st.fractions(0, 2_000), st.fractions(0, Fraction(1, 10**9))), st.integers(0, 1_000)
)
def test_small_powers_are_enclosed_by_neighboring_integers(exponent, bits):
    lower, upper = exp_minus_bounds(exponent, bits)
    with decimal.localcontext(prec=700):
        witness = (-decimal.Decimal(exponent.numerator) / decimal.Decimal(exponent.denominator)).exp() * 2**bits
        margin = decimal.Decimal(10) ** -300
        assert lower <= witness + margin
        assert witness - margin <= upper
    assert 0 <= lower <= upper <= min(lower + 2, 1 << bits)
    assert exponent > 0 or lower == upper


@pytest.mark.parametrize("exponent", [Fraction(10**400), Fraction(1, 10**400), Fraction(3**900, 2**1400)])
def test_small_powers_of_any_exponent_are_enclosed(exponent):
    lower, upper = exp_minus_bounds(exponent, 64)
    assert (lower, upper) == ((0, 1) if exponent > 1 else (2**64 - 1, 2**64))


@given(st.fractions(1, 10**30) | st.just(Fraction(2**1500)), st.integers(1, 2**80))
def test_log_is_rounded_up_by_at_most_two_floats(ratio, denominator):
    for value in (ratio, 1 + Fraction(1, denominator)):
        result = log_upper(value)
        assert exp_bounds(result)[0] >= value
        assert value == 1 or exp_bounds(math.nextafter(math.nextafter(result, 0), 0))[1] <= value
    tiny = Fraction(1, 2**300)
    assert Fraction(log_upper(1 + tiny)) >= tiny / 2


@pytest.mark.parametrize("exponent", [0.25, 1.0, 7.5])
def test_log_is_above_an_exponent_whose_power_may_be_smaller(exponent):
    assert log_upper(sum(exp_bounds(exponent)) / 2) > exponent


@given(st.fractions(-1000, 1000))
def test_round_up_is_the_next_float(value):
    result = round_up(value)
    assert result >= value
    assert math.nextafter(result, -math.inf) < value
