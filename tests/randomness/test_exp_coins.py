from __future__ import annotations

import decimal
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skdp.exact import exp_minus_bounds
from skdp.randomness import SecureSource, SeededSource, bernoulli_exp
from skdp.randomness import _real as module
from tests.conftest import each


def test_the_power_is_as_exact_as_it_claims():
    """At the steps of the table, just below them, in between, and beyond the table."""
    steps = np.arange(0, 33, 1 / 64)
    points = np.concatenate([steps, np.nextafter(steps[1:], 0), np.linspace(0, 40, 5_000), [1e-300, 33.0, 1024.0]])
    computed = module._exp_minus(points)
    with decimal.localcontext(prec=40):
        exact = [(-decimal.Decimal(float(x))).exp() for x in points]
        errors = [abs(decimal.Decimal(float(p)) - q) for p, q in zip(computed, exact, strict=True)]
        assert max(errors) < decimal.Decimal(2) ** -36
        # Otherwise the test could not see a term that is missing.
        assert max(errors) > decimal.Decimal(2) ** -38


@given(
    st.one_of(st.integers(0, 60), st.integers(0, 2**63 - 1), st.integers(0, 10**330)),
    st.one_of(st.fractions(0, 10), st.fractions(0, 10**9), st.just(Fraction(10**400)), st.just(Fraction(1, 10**400))),
)
def test_exponents_are_rounded_as_little_as_claimed(exponent, rate):
    rounded, exact = [], []

    def capture(source, approximate, exactly):
        rounded.extend(approximate.tolist())
        exact.append(exactly(0))
        return np.ones(1, bool)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "exp_coins", capture)
        bernoulli_exp(None, [exponent], rate)
    assert exact == [exponent * rate]
    assert rounded[0] == rounded[0] >= 0
    if rounded[0] < 2**10 or exact[0] < 2**10:
        assert abs(Fraction(rounded[0]) - exact[0]) <= max(1, exact[0]) / 2**40


def words(*values):
    return np.array(values, "<u4").view(np.uint8)


@each("exponent", [Fraction(1, 1000), Fraction(1, 2), 1, Fraction(16, 7), 10, 20])
def test_every_first_half_of_a_word_is_decided_rightly(scripted_source, exponent):
    low = exp_minus_bounds(Fraction(exponent), 32)[0]
    drawn = np.arange(1 << 16, dtype="<u4") << np.uint32(16)
    blocks = drawn.reshape(-1, module._BLOCK)
    bound, extra = 1 << 16, []
    # A word within 2 of the bound is settled by 8 more bytes, at the end of its block.
    for block in blocks:
        tied = np.abs(block.astype(np.int64) - low) <= 2
        extra += [block.view(np.uint8), np.zeros(8 * int(tied.sum()), np.uint8)]
    source = scripted_source(*extra, filler=0)
    coins = bernoulli_exp(source, np.ones(bound, np.int64), exponent)
    assert coins.tolist() == (drawn <= low).tolist()  # after the word low, the zeros that follow decide for heads


@each("exponent", [Fraction(1, 10**6), Fraction(1, 3), 1, 7, 22, 31, Fraction(64, 2)])
def test_words_at_the_bound_are_settled_by_proven_digits(scripted_source, exponent):
    low = exp_minus_bounds(Fraction(exponent), 32)[0]
    more = exp_minus_bounds(Fraction(exponent), 96)[0] - (low << 64)
    for word in range(max(0, low - 3), min(low + 4, 1 << 32)):
        for rest, below in ((more - 1, True), (more + 2, False)):
            if 0 <= rest < 1 << 64:
                source = scripted_source(words(word), list(rest.to_bytes(8, "big")), filler=0)
                expected = word < low or (word == low and below)
                assert bernoulli_exp(source, [1], exponent)[0] == expected
                assert source.used in (4, 12)


def test_what_is_undecided_is_looked_up_in_its_own_block(scripted_source):
    exponents = np.append(np.zeros(module._BLOCK, np.int64), [1, 2])
    low = exp_minus_bounds(Fraction(2), 32)[0]
    above = exp_minus_bounds(Fraction(2), 96)[0] - (low << 64) + 2
    source = scripted_source(words(*[0] * module._BLOCK), words(0, low), list(above.to_bytes(8, "big")))
    assert bernoulli_exp(source, exponents)[-2:].tolist() == [True, False]


def test_the_tail_has_no_end(scripted_source):
    """e^-50 = 2**-72.1: heads need 72 zero bits, and then the right ones."""
    bits = exp_minus_bounds(Fraction(50), 96)[0]
    assert 0 < bits < 1 << 24
    for rest, expected in ((bits - 1, True), (bits + 1, False)):
        script = [0] * 4 + list(rest.to_bytes(8, "big"))
        assert bernoulli_exp(scripted_source(script), [50])[0] == expected
    assert not bernoulli_exp(scripted_source([0] * 200, [1] * 8), [10**4])[0]


@pytest.mark.parametrize("exponents", [np.zeros(3, np.int64), np.array([0, 0, 0], object), [0, 0, 0]])
def test_the_exponent_0_is_certain(scripted_source, exponents):
    assert bernoulli_exp(scripted_source(filler=255), exponents, 5).all()
    assert bernoulli_exp(scripted_source(filler=255), np.array([1, 5, 2**62]), 0).all()


@each("exponents, rate", [(2**62, 1), (10**400, 1), (1, 10**400), (10**400, Fraction(1, 10**9))])
def test_huge_exponents_are_hardly_ever_heads(exponents, rate):
    assert not bernoulli_exp(SecureSource(), [exponents] * 100, rate).any()


def test_huge_exponents_of_tiny_rates_are_of_any_size():
    n = 4_000
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


def test_no_coins():
    assert bernoulli_exp(SecureSource(), []).shape == (0,)


@each(
    "exponents, rate, error, name",
    [
        ([-1], 1, ValueError, "exponents"),
        ([[1]], 1, ValueError, "exponents"),
        (1, 1, ValueError, "exponents"),
        ([1.0], 1, TypeError, "exponents"),
        ([True], 1, TypeError, "exponents"),
        (np.array([1, True], object), 1, TypeError, "exponents"),
        (["1"], 1, TypeError, "exponents"),
        ([1], -1, ValueError, "rate"),
        ([1], 0.5, TypeError, "rate"),
        ([1], True, TypeError, "rate"),
        ([1], math.nan, TypeError, "rate"),
    ],
)
def test_what_is_no_exponent_is_refused_before_any_draw(scripted_source, exponents, rate, error, name):
    with pytest.raises(error, match=name):
        bernoulli_exp(scripted_source(), exponents, rate)
