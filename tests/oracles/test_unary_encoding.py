from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

import skdp.oracles._unary_encoding as module
from skdp.exact import exp_bounds
from skdp.oracles import UnaryEncoding
from skdp.randomness import ONE, SeededSource
from tests.conftest import each

VARIANTS = ["optimized", "symmetric", "threshold"]


@pytest.mark.parametrize("variant", VARIANTS)
@each("k", [2, 3, 6])
def test_every_vector_of_bits_keeps_the_promise(check_channel, variant, k, epsilon):
    oracle = UnaryEncoding(k, epsilon, variant=variant)
    assert check_channel(oracle, oracle.channel(), epsilon) == oracle.worst_ratio


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("epsilon", [0.1, 1])
def test_every_vector_of_eight_bits_keeps_the_promise(check_channel, variant, epsilon):
    oracle = UnaryEncoding(8, epsilon, variant=variant)
    assert check_channel(oracle, oracle.channel(), epsilon) == oracle.worst_ratio


def test_two_bits_use_all_of_epsilon(epsilon):
    """Of one bit alone, the share would be half (symmetric) or less."""
    for variant, most in (("optimized", 64), ("symmetric", 128)):
        oracle = UnaryEncoding(4, epsilon, variant=variant)
        assert oracle.epsilon == pytest.approx(min(epsilon, most * math.log(2)), rel=1e-3)


def test_no_larger_gap_of_the_integers_keeps_the_promise(epsilon):
    oracle = UnaryEncoding(4, epsilon)
    tighter = oracle.q - Fraction(1, ONE)
    assert tighter == 0 or (1 - tighter) / tighter > exp_bounds(epsilon)[1]


@each("p, q", [(0.75, 0.25), (0.5, 0.1), (Fraction(2, 3), Fraction(1, 3)), (1 - 2**-53, 2.0**-60), (0.5, 0.4999)])
def test_given_probabilities_are_rounded_toward_more_noise(check_channel, p, q):
    oracle = UnaryEncoding(3, p=p, q=q)
    assert Fraction(p) - Fraction(1, ONE) < oracle.p <= Fraction(p)
    assert Fraction(q) <= oracle.q < Fraction(q) + Fraction(1, ONE)
    assert check_channel(oracle, oracle.channel()) == oracle.worst_ratio
    p, q = Fraction(p), Fraction(q)
    assert oracle.worst_ratio <= p * (1 - q) / ((1 - p) * q)


def test_three_quarters_and_a_quarter_cost_log_nine():
    oracle = UnaryEncoding(14, p=0.75, q=0.25)
    assert oracle.worst_ratio == 9
    assert oracle.epsilon == pytest.approx(math.log(9), rel=1e-15)
    assert UnaryEncoding.from_heads(14, 3 << 62, 1 << 62).parameters() == oracle.parameters()


@each("epsilon", [0.3, 1.0, 3.0, 8.0])
def test_the_threshold_is_the_best_one(epsilon):
    oracle = UnaryEncoding(4, epsilon, variant="threshold")

    def variance(p, q):
        return q * (1 - q) / (p - q) ** 2

    grid = np.linspace(0.5, 1, 20_001)
    best = variance(1 - np.exp(epsilon * (grid - 1) / 2) / 2, np.exp(-epsilon * grid / 2) / 2).min()
    assert variance(float(oracle.p), float(oracle.q)) == pytest.approx(best, rel=1e-5)


@given(st.integers(2, 9), st.integers(0, 20), st.randoms(use_true_random=False))
def test_each_cell_is_one_coin(k, n, rng):
    """The own bit is a coin of p and no other, every other bit a coin of q, each used once."""
    codes = np.array([rng.randrange(k) for _ in range(n)], np.uint8)
    coins = {}

    def bernoulli(source, threshold, size):
        assert threshold not in coins
        coins[threshold] = np.array([rng.random() < 0.5 for _ in range(size)], bool)
        return coins[threshold].copy()

    oracle = UnaryEncoding(k, 1.0, variant="symmetric")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "bernoulli", bernoulli)
        bits = oracle.report(codes, None)
    own, other = coins[int(oracle.p * ONE)], coins[int(oracle.q * ONE)].reshape(n, k)
    mine = np.arange(k) == codes[:, np.newaxis]
    assert (bits == np.where(mine, own[:, np.newaxis], other)).all()
    assert len(coins) == 2


@given(st.sampled_from([2, 4, 8]), st.data())
def test_records_that_are_drawn_whole_are_turned(k, data):
    """The own coin comes first, with p, and goes to the true value; the coins of q go to the others, one to one."""
    codes = np.array(data.draw(st.lists(st.integers(0, k - 1), min_size=1, max_size=9)), np.uint8)
    oracle = UnaryEncoding(k, 1.0)
    p, q = oracle._heads
    packed = np.array(data.draw(st.lists(st.integers(0, 255), min_size=9, max_size=9)), np.uint8)

    def eight_coins(thresholds):
        assert thresholds == (p, *[q] * (k - 1)) * (8 // k)
        return SimpleNamespace(draw=lambda source, size: packed[:size])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "eight_coins", eight_coins)
        patch.setattr(module, "_MANY", 0)
        bits = oracle.report(codes, None)
    coins = np.unpackbits(packed)[: codes.size * k].reshape(-1, k)
    for code, drawn, row in zip(codes, coins, bits, strict=True):
        assert row.tolist() == np.roll(drawn, int(code)).tolist()


@pytest.mark.parametrize("k", [2, 4, 8])
def test_every_word_gives_every_record_as_often_as_it_should(scripted_source, k):
    """A word of 16 bits draws as many records as make a byte; of all 2**16 words, each combination of records has as
    many as the first digit of its probability says, whatever the true values are.
    """
    together = 8 // k
    oracle, channel = UnaryEncoding(k, 1.0), UnaryEncoding(k, 1.0).channel()
    words = np.arange(1 << 16, dtype="<u2")
    for values in {(0,) * together, (k - 1,) * together, tuple(place % k for place in range(together))}:
        source = scripted_source(words.view(np.uint8), filler=255)
        bits = oracle.report(np.tile(np.array(values, np.uint8), words.size), source)
        expected = [
            math.floor(math.prod(shares) * (1 << 16)) for shares in product(*(channel[value] for value in values))
        ]
        settled = bits.reshape(words.size, 8)[: sum(expected)]
        assert np.bincount(np.packbits(settled, axis=1)[:, 0], minlength=256).tolist() == expected
        assert source.used >= 2 * (2 * words.size - sum(expected))  # the rest has drawn second words


@pytest.fixture(params=["many", "few"])
def way(request, monkeypatch):
    """Draw records whole, where they are words, or bit by bit."""
    monkeypatch.setattr(module, "_MANY", 0 if request.param == "many" else 1 << 40)
    return request.param


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("k", [2, 3, 4, 8])
def test_vectors_follow_the_channel(way, variant, k):
    """Whole records, and pairs of records that follow each other."""
    n = 200_000
    oracle = UnaryEncoding(k, 1.0, variant=variant)
    codes = (np.arange(n) % k).astype(np.uint8)
    bits = oracle.report(codes, SeededSource("vectors", variant, way))
    seen = bits @ (1 << np.arange(k)[::-1])
    channel = np.array([[float(share) for share in row] for row in oracle.channel()])
    for value in range(k):
        mine = codes == value
        assert chisquare(np.bincount(seen[mine], minlength=1 << k), channel[value] * mine.sum()).pvalue > 1e-6
    first, second = seen[:-1:k] % 16, seen[1::k] % 16
    shares = [np.bincount(np.arange(1 << k) % 16, channel[value], minlength=16) for value in (0, 1)]
    pairs, expected = np.bincount(first * 16 + second, minlength=256), np.outer(*shares).ravel() * first.size
    assert chisquare(pairs[expected > 0], expected[expected > 0]).pvalue > 1e-6


@each("k", [2, 4, 8, 14])
@each("p, q", [(1 - 2**-53, 2.0**-60), (0.5, 2.0**-64), (1 - 2**-53, 1 - 2**-52)])
def test_extreme_probabilities_are_drawn(way, k, p, q):
    n = 10_000
    oracle = UnaryEncoding(k, p=p, q=q)
    codes = (np.arange(n) % k).astype(np.int64)
    bits = oracle.report(codes, SeededSource("extreme", k, way))
    assert bits.shape == (n, k)
    own = bits[np.arange(n), codes].sum()
    assert bits.sum() - own == (0 if q < 0.5 else n * (k - 1))
    assert abs(own - n * p) <= 6 * math.sqrt(n * p * (1 - p))


@each(
    "arguments error",
    [
        ({"epsilon": 1, "variant": "best"}, ValueError),
        ({}, ValueError),
        ({"epsilon": 1, "p": 0.5, "q": 0.2}, ValueError),
        ({"p": 0.5}, ValueError),
        ({"p": 0.5, "q": 0.5}, ValueError),
        ({"p": 0.2, "q": 0.5}, ValueError),
        ({"p": 1, "q": 0.5}, ValueError),
        ({"p": 0.5, "q": 0.0}, ValueError),
        ({"p": float("nan"), "q": 0.1}, ValueError),
        ({"p": Fraction(1, 2) + Fraction(1, 2**70), "q": 0.5}, ValueError),
        ({"p": "0.5", "q": 0.1}, TypeError),
        ({"p": True, "q": 0.1}, TypeError),
    ],
)
def test_probabilities_that_make_no_sense_are_refused(arguments, error):
    with pytest.raises(error):
        UnaryEncoding(4, **arguments)


@each(
    "reports",
    [
        np.zeros(4),
        np.zeros((2, 3), np.uint8),
        np.full((2, 4), 2, np.uint8),
        np.full((2, 4), -1),
        np.full((2, 4), 0.5),
        np.full((2, 4), np.nan),
        np.full((2, 4), "1"),
        np.full((2, 4), None),
        np.full((2, 4), 256),
    ],
)
def test_what_are_no_bits_is_refused(reports):
    with pytest.raises(ValueError, match=r"shape|zeros and ones"):
        UnaryEncoding(4, 1).tally(reports)


@each("dtype", [bool, np.int8, np.uint8, np.int64, np.float32, np.float64])
def test_bits_of_every_dtype_and_layout_are_read(dtype):
    bits = np.array([[0, 1, 1], [1, 0, 1]], dtype)
    assert UnaryEncoding(3, 1).tally(bits).tolist() == [1, 1, 2]
    assert UnaryEncoding(3, 1).tally(np.asfortranarray(bits)).tolist() == [1, 1, 2]


def test_a_channel_of_too_many_vectors_is_refused():
    with pytest.raises(ValueError, match=r"2\*\*17 reports"):
        UnaryEncoding(17, 1).channel()
