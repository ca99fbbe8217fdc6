"""Draws of real probability: coins of e^-x and of any real number, and uniform numbers."""

import decimal
import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skdp.exact import exp_minus_bounds
from skdp.randomness import SecureSource, SeededSource
from skdp.randomness import _noise as module
from skdp.randomness._draws import uniform_below
from skdp.randomness._noise import IrrationalBernoulli, Uniform, bernoulli_exp
from tests.conftest import often


def test_exp_of_numpy_has_the_assumed_accuracy():
    """Exponents are small, large and denormal. The undecided band allows for errors of 2**-34."""
    points = np.concatenate([np.linspace(0, 40, 5_000), [1e-300, 1e-16, 700.0, 745.0, 1024.0]])
    computed = np.exp(-points)
    with decimal.localcontext(prec=40):
        exact = [(-decimal.Decimal(float(x))).exp() for x in points]
        assert (
            max(abs(decimal.Decimal(float(p)) - q) for p, q in zip(computed, exact, strict=True))
            < decimal.Decimal(2) ** -45
        )


@given(
    st.one_of(st.integers(0, 60), st.integers(0, 2**63 - 1), st.integers(0, 10**330)),
    st.one_of(st.fractions(0, 10), st.fractions(0, 10**9), st.just(Fraction(10**400)), st.just(Fraction(1, 10**400))),
)
def test_exponents_have_the_stated_rounding_error(exponent, rate):
    rounded, exact = [], []

    def capture(source, approximate, exactly):
        rounded.extend(approximate.tolist())
        exact.extend(exactly(0).args)  # bounds of e^-x
        return np.ones(1, bool)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "bernoulli_of_exponents", capture)
        bernoulli_exp(None, [exponent], rate)
    assert exact == [exponent * rate]
    assert rounded[0] == rounded[0] >= 0
    if rounded[0] < 2**10 or exact[0] < 2**10:
        assert abs(Fraction(rounded[0]) - exact[0]) <= max(1, exact[0]) / 2**40


def words(*values):
    return np.array(values, "<u4").view(np.uint8)


@pytest.mark.parametrize("exponent", [Fraction(1, 10**6), Fraction(1, 3), 1, 7, 22, 31, Fraction(64, 2)])
def test_words_at_the_bound_are_decided_by_proven_digits(scripted_source, exponent):
    low = exp_minus_bounds(Fraction(exponent), 32)[0]
    more = exp_minus_bounds(Fraction(exponent), 96)[0] - (low << 64)
    for word in range(max(0, low - 3), min(low + 4, 1 << 32)):
        for rest, below in ((more - 1, True), (more + 2, False)):
            if 0 <= rest < 1 << 64:
                source = scripted_source(words(word), list(rest.to_bytes(8, "big")), filler=0)
                expected = word < low or (word == low and below)
                assert bernoulli_exp(source, [1], exponent)[0] == expected
                assert source.used in (4, 12)


def test_huge_exponents_of_tiny_rates_are_exact():
    n = 4_000
    for exponent, rate in [(2**62, 1), (10**400, 1), (1, 10**400), (10**400, Fraction(1, 10**9))]:
        assert not bernoulli_exp(SecureSource(), [exponent] * 100, rate).any()
    assert bernoulli_exp(SecureSource(), []).shape == (0,)
    for scale in (10**30, 10**400):
        heads = bernoulli_exp(SeededSource("huge"), [scale] * n, Fraction(1, scale)).mean()
        assert abs(heads - math.exp(-1)) < 5 * math.sqrt(0.25 / n)


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int64, np.uint64, object])
def test_coins_have_their_probabilities(fits, dtype):
    n = 4_000 if dtype in (np.uint64, object) else 40_000
    exponents = np.repeat(np.arange(12), n).astype(dtype)
    heads = bernoulli_exp(SeededSource("exp", str(dtype)), exponents, Fraction(2, 7)).reshape(12, n).sum(axis=1)
    for exponent, count in enumerate(heads):
        share = math.exp(-exponent * 2 / 7)
        assert fits([count], [share], n) > 1e-6
    assert heads[0] == n


@pytest.mark.parametrize(
    ("exponents", "rate", "error", "name"),
    [
        ([-1], 1, ValueError, "exponents"),
        (1, 1, ValueError, "exponents"),
        ([1.0], 1, TypeError, "exponents"),
        (np.array([1, True], object), 1, TypeError, "exponents"),
        ([1], -1, ValueError, "rate"),
        ([1], 0.5, TypeError, "rate"),
        ([1], math.nan, TypeError, "rate"),
    ],
)
def test_invalid_exponents_raise_before_drawing(scripted_source, exponents, rate, error, name):
    with pytest.raises(error, match=name):
        bernoulli_exp(scripted_source(), exponents, rate)


EXPONENTS = [Fraction(1, 2**30), Fraction(1, 3), Fraction(1), Fraction(27, 5), Fraction(9), Fraction(700)]


def digits_of(exponent, places):
    """Return the digits of e^-x to the base 256, computed by the decimal module."""
    with decimal.localcontext(prec=3 * places + 400):
        power = (-decimal.Decimal(exponent.numerator) / decimal.Decimal(exponent.denominator)).exp()
        return list(int(power * 256**places).to_bytes(places, "big"))


@pytest.mark.parametrize("exponent", often(EXPONENTS, EXPONENTS[1::3]))
@pytest.mark.parametrize("filler", [0, 255])
def test_real_coin_compares_all_digits_for_every_pair_of_bytes(scripted_source, exponent, filler):
    coin = IrrationalBernoulli(partial(exp_minus_bounds, exponent))
    digits = digits_of(exponent, 130)
    first, second = np.divmod(np.arange(1 << 16), 256)
    # The coins with an equal first digit, and only these, draw a second byte.
    drawn = coin.draw(scripted_source(first, second[first == digits[0]], filler=filler), 1 << 16)
    lower, upper = exp_minus_bounds(exponent, 16 + 1040)
    words = [(int(pair) << 1040) + (filler == 255) * ((1 << 1040) - 1) for pair in range(1 << 16)]
    assert all(coin == (word < lower) for coin, word in zip(drawn, words, strict=True))
    assert not any(lower <= word <= upper for word in words)
    assert drawn.sum() - digits[0] * 256 - digits[1] in (0, 1)


@pytest.mark.parametrize("share", [Fraction(1, 3), Fraction(2, 7), Fraction(1, 10**9), 1 - Fraction(1, 10**12)])
def test_bounds_are_tightened_until_a_digit_is_certain(scripted_source, share):
    def bounds(bits):
        slack = 1 << max(0, min(bits - 40, 200 - bits))  # 40 certain bits; from 120 on, more and more
        return max(0, int(share * 2**bits) - slack), min(1 << bits, int(share * 2**bits) + slack)

    coin = IrrationalBernoulli(bounds)
    digits = int(share * 256**20).to_bytes(20, "big")
    for place in range(20):
        assert coin.draw(scripted_source([*digits[:place], max(0, digits[place] - 1)], filler=0), 1)[0]
        assert not coin.draw(scripted_source([*digits[:place], min(255, digits[place] + 1)], filler=255), 1)[0]


def test_uniform_number_is_below_a_bound_with_its_probability(scripted_source):
    uniform = Uniform(scripted_source([0] * 6, [1, 2]), prefix=5, bits=3)
    uniform.extend()
    assert (uniform.prefix, uniform.bits) == ((5 << 64) + 258, 67)
    for value in range(16):
        assert Uniform(scripted_source(), value, 4).is_below(lambda bits: (7, 7)) == (value < 7)


def test_integers_above_the_bound_are_resampled(scripted_source):
    words = np.arange(32, dtype="<i8")
    rejected = (words & 15) >= 10
    source = scripted_source(words.view(np.uint8), np.full(int(rejected.sum()), 3, "<i8").view(np.uint8))
    drawn = uniform_below(source, np.full(32, 10))
    assert drawn.tolist() == np.where(rejected, 3, words & 15).tolist()
    assert source.used == source.script.size
    kept = [uniform_below(scripted_source([byte, 0]), np.array([10], object))[0] for byte in range(256)]
    assert np.bincount(kept).tolist() == [16 + 256 - 160, *[16] * 9]  # a rejected word draws a 0
    high = np.array([-1, -1], "<i8").view(np.uint8)  # all bits are 1
    assert uniform_below(scripted_source(high), np.array([1, 1 << 62])).tolist() == [0, (1 << 62) - 1]
