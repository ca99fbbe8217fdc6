from __future__ import annotations

import decimal
from fractions import Fraction
from functools import partial
from itertools import pairwise

import numpy as np
import pytest

from skdp.exact import exp_minus_bounds
from skdp.randomness import SeededSource
from skdp.randomness._discrete_noise import _share_bounds
from skdp.randomness._draws import uniform_below
from skdp.randomness._real import RealCoin, Uniform, real_categories
from tests.conftest import each

EXPONENTS = [Fraction(1, 2**30), Fraction(1, 3), Fraction(1), Fraction(27, 5), Fraction(9), Fraction(700)]


def digits_of(exponent, places):
    """The digits of e^-x to the base 256, by the decimal module."""
    with decimal.localcontext(prec=3 * places + 400):
        power = (-decimal.Decimal(exponent.numerator) / decimal.Decimal(exponent.denominator)).exp()
        return list(int(power * 256**places).to_bytes(places, "big"))


@pytest.mark.parametrize("exponent", EXPONENTS)
@pytest.mark.parametrize("filler", [0, 255])
def test_a_real_coin_compares_all_digits_for_every_pair_of_bytes(scripted_source, exponent, filler):
    coin = RealCoin(partial(exp_minus_bounds, exponent))
    digits = digits_of(exponent, 130)
    first, second = np.divmod(np.arange(1 << 16), 256)
    # The coins of the first digit are tied: they alone draw a second byte.
    drawn = coin.draw(scripted_source(first, second[first == digits[0]], filler=filler), 1 << 16)
    lower, upper = exp_minus_bounds(exponent, 16 + 1040)
    words = [(int(pair) << 1040) + (filler == 255) * ((1 << 1040) - 1) for pair in range(1 << 16)]
    assert all(coin == (word < lower) for coin, word in zip(drawn, words, strict=True))
    assert not any(lower <= word <= upper for word in words)
    assert drawn.sum() - digits[0] * 256 - digits[1] in (0, 1)


@each("exponent", EXPONENTS)
@each("place", [0, 1, 7, 8, 9, 40])
def test_a_tie_goes_on_beyond_the_digits_that_are_kept(scripted_source, exponent, place):
    coin = RealCoin(partial(exp_minus_bounds, exponent))
    digits = digits_of(exponent, 41)
    for step in (-1, 1):
        if 0 <= digits[place] + step < 256:
            source = scripted_source([*digits[:place], digits[place] + step])
            assert coin.draw(source, 1)[0] == (step < 0)
            assert source.used == place + 1


@each("share", [Fraction(1, 3), Fraction(2, 7), Fraction(1, 10**9), 1 - Fraction(1, 10**12)])
def test_bounds_are_tightened_until_a_digit_is_certain(scripted_source, share):
    def bounds(bits):
        slack = 1 << max(0, min(bits - 40, 200 - bits))  # they tell 40 bits; beyond 120, ever more
        return max(0, int(share * 2**bits) - slack), min(1 << bits, int(share * 2**bits) + slack)

    coin = RealCoin(bounds)
    digits = int(share * 256**20).to_bytes(20, "big")
    for place in range(20):
        assert coin.draw(scripted_source([*digits[:place], max(0, digits[place] - 1)], filler=0), 1)[0]
        assert not coin.draw(scripted_source([*digits[:place], min(255, digits[place] + 1)], filler=255), 1)[0]


def test_a_share_next_to_a_half_needs_no_more_bits_than_any():
    asked = []
    RealCoin(lambda bits: asked.append(bits) or _share_bounds(Fraction(1, 2**1000), bits))
    assert asked == [80]


def coarse(shares, bits):
    """Bounds that tell little in 62 bits, and all in more."""
    slack = 1 << bits - 5 if bits <= 62 else 1
    one = 1 << bits
    return [(max(0, int(one * share) - slack), min(one, int(one * share) + slack)) for share in shares[:-1]] + [
        (one, one)
    ]


@pytest.mark.parametrize("shares", [[1], [Fraction(1, 3), 1], [Fraction(1, 7), Fraction(1, 5), Fraction(2, 3), 1]])
def test_categories_are_settled_by_more_bits_where_bounds_leave_it_open(scripted_source, shares):
    words = (np.arange(1 << 12, dtype="<u8") << np.uint64(52)) + np.uint64(0xFFF << 40)
    drawn = real_categories(scripted_source(words.view(np.uint8), filler=77), partial(coarse, shares), words.size)
    expected = [next(i for i, share in enumerate(shares) if Fraction(int(word), 2**64) < share) for word in words]
    assert drawn.tolist() == expected


def test_categories_at_the_very_bounds(scripted_source):
    share = Fraction(1, 3)

    def bounds(bits):
        return [(int(share * 2**bits), int(share * 2**bits) + 1), (1 << bits, 1 << bits)]

    third = int(share * 2**62)  # 0101…01
    words = [third - 1, third, third, third + 1, 2**62 - 1]
    script = np.array([word << 2 for word in words], "<u8").view(np.uint8)
    # Two words are tied: of the digits that follow, 0x55… are those of 1/3.
    source = scripted_source(script, [0x55] * 7 + [0x54], [0x55] * 7 + [0x56])
    assert real_categories(source, bounds, 5).tolist() == [0, 0, 1, 1, 1]
    assert source.used == source.script.size


def test_a_uniform_number_is_below_a_bound_with_its_probability(scripted_source):
    uniform = Uniform(scripted_source([0] * 6, [1, 2]), value=5, bits=3)
    uniform.extend()
    assert (uniform.value, uniform.bits) == ((5 << 64) + 258, 67)
    for value in range(16):
        assert Uniform(scripted_source(), value, 4).is_below(lambda bits: (7, 7)) == (value < 7)


def test_integers_below_bounds_are_drawn_again_above_them(scripted_source):
    words = np.arange(32, dtype="<i8")
    rejected = (words & 15) >= 10
    source = scripted_source(words.view(np.uint8), np.full(int(rejected.sum()), 3, "<i8").view(np.uint8))
    drawn = uniform_below(source, np.full(32, 10))
    assert drawn.tolist() == np.where(rejected, 3, words & 15).tolist()
    assert source.used == source.script.size
    high = np.array([-1, -1], "<i8").view(np.uint8)  # all bits are 1
    assert uniform_below(scripted_source(high), np.array([1, 1 << 62])).tolist() == [0, (1 << 62) - 1]


def test_python_integers_below_bounds_are_equally_likely(scripted_source):
    kept = [uniform_below(scripted_source([byte, 0]), np.array([10], object))[0] for byte in range(256)]
    assert np.bincount(kept).tolist() == [16 + 256 - 160, *[16] * 9]  # what is rejected draws a 0
    assert uniform_below(scripted_source(), np.array([1], object)).tolist() == [0]
    assert uniform_below(scripted_source(), np.array([], object)).dtype == object


@pytest.mark.parametrize("bound", [3, 1000, 2**40 + 1, 2**62 - 1, 2**63 - 1, 2**64 + 5, 10**100])
def test_integers_below_a_bound_are_uniform(fits, bound):
    n = 20_000
    dtype = np.int64 if bound < 2**63 else object
    drawn = uniform_below(SeededSource("below", bound), np.full(n, bound, dtype))
    assert drawn.min() >= 0
    assert drawn.max() < bound
    cells = min(bound, 20)
    edges = [-(-bound * i // cells) for i in range(cells + 1)]
    counts = [int(((drawn >= left) & (drawn < right)).sum()) for left, right in pairwise(edges)]
    assert fits(counts, [(right - left) / bound for left, right in pairwise(edges)], n) > 1e-6
    assert bound < 2**40 or 0.4 < np.mean([int(value) & 1 for value in drawn]) < 0.6  # the last bit is random too
