from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import erfcx

from skdp.privacy import _gaussian as normal
from skdp.privacy._gaussian import mills_ratio_bounds, root_two_pi_bounds
from tests.conftest import each

PI = Fraction(31415926535897932384626433832795028841971693993751058209749445923078164062862089986280348253421170679)
PI /= 10**100


@each("bits", [0, 1, 2, 8, 53, 100, 160])
def test_the_root_of_two_pi_is_enclosed_by_neighbouring_integers(bits):
    lower, upper = root_two_pi_bounds(bits)
    assert lower**2 <= 2 * PI * 4**bits <= upper**2
    assert upper - lower <= 2


@given(st.fractions(-12, 60), st.integers(0, 300))
def test_mills_ratio_is_enclosed_by_neighbouring_integers(x, bits):
    lower, upper = mills_ratio_bounds(x, bits)
    ratio = Fraction(math.sqrt(math.pi / 2) * erfcx(float(x) / math.sqrt(2))) * 2**bits
    margin = ratio * (1 + x * x) / 10**14
    assert lower - margin <= ratio <= upper + margin
    assert 0 <= upper - lower <= 2 + ratio * max(-x, 0) / 2 ** (bits + 40)


@each("x", [Fraction(1, 4), Fraction(3, 2), Fraction(4), Fraction(17, 3), Fraction(9), Fraction(12)])
@each("bits", [10, 64, 400])
def test_the_series_and_the_continued_fraction_agree_in_all_bits(x, bits):
    """Two ways that share nothing: both enclose the same number."""
    guard = math.ceil(x * x) + 20
    series = [Fraction(bound, 2**guard) for bound in normal._by_series(x, bits + guard)]
    fraction = normal._by_continued_fraction(x, bits) if x > 1 else series
    both = mills_ratio_bounds(x, bits)
    for lower, upper in (series, fraction, both):
        assert upper - lower <= 2 ** max(2, normal._GUARD // 2)
        assert all(lower <= other[1] for other in (series, fraction, both))


@each("x", [Fraction(0), Fraction(-5, 2), Fraction(1, 3), Fraction(7, 2), Fraction(5)])
def test_few_bits_only_widen_the_bounds_of_the_series(x):
    """Where every rounding matters."""
    tight = [Fraction(bound, 2**300) for bound in mills_ratio_bounds(x, 300)]
    for bits in range(40):
        lower, upper = normal._by_series(x, bits)
        assert lower <= tight[0] * 2**bits
        assert upper >= tight[1] * 2**bits


def test_few_bits_enclose_the_sum_of_the_series():
    for sixteenth in range(1, 80):
        x = Fraction(sixteenth, 16) - Fraction(1, 10**6)
        term = total = x
        for odd in range(3, 150, 2):
            term *= x * x / odd
            total += term
        for bits in range(5):
            lower, upper = normal._odd_series(x, bits)
            assert lower <= total * 2**bits <= upper


@pytest.mark.parametrize("x", [Fraction(1), Fraction(5, 4), Fraction(19, 12), Fraction(9, 2)])
def test_the_continued_fraction_is_rounded_outwards_where_only_rounding_is_left(monkeypatch, x):
    """Close to 0, where it is not used, its rounding errors shrink least."""
    tight = [Fraction(bound, 2**300) for bound in mills_ratio_bounds(x, 300)]
    monkeypatch.setattr(normal, "_GUARD", 8)
    for bits in range(20, 60):
        lower, upper = normal._by_continued_fraction(x, bits)
        assert lower <= tight[0] * 2**bits
        assert upper >= tight[1] * 2**bits
        assert upper - lower < 16


@each("x", [Fraction(9, 2), Fraction(13, 2), Fraction(20), Fraction(1001, 7)])
def test_every_depth_of_the_continued_fraction_encloses_it(x):
    tight = [Fraction(bound, 2**300) for bound in mills_ratio_bounds(x, 300)]
    for bits in range(0, 60, 3):
        lower, upper = normal._by_continued_fraction(x, bits)
        assert lower <= tight[0] * 2**bits
        assert upper >= tight[1] * 2**bits


@pytest.mark.parametrize("x", [Fraction(10**40, 3), Fraction(1, 10**40), Fraction(10**320)])
def test_extreme_arguments(x):
    lower, upper = mills_ratio_bounds(x, 1100)
    expected = 1 / x if x > 1 else math.sqrt(math.pi / 2)
    assert lower <= upper <= lower + 2
    assert lower / Fraction(2**1100) == pytest.approx(float(expected))
