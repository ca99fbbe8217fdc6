"""Unary encoding: its probabilities, and draws of many records at once."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chisquare

from skdp.exact import exp_bounds
from skdp.oracles import UnaryEncoding
from skdp.randomness import ONE, SeededSource
from tests.conftest import often
from tests.oracles.conftest import check_channel, floats

VARIANTS = ["optimized", "symmetric"]


def test_two_bits_use_the_whole_epsilon(epsilon):
    """One bit alone uses at most half of epsilon (symmetric)."""
    for variant, largest in (("optimized", 64), ("symmetric", 128)):
        oracle = UnaryEncoding(4, epsilon, variant=variant)
        assert oracle.epsilon == pytest.approx(min(epsilon, largest * math.log(2)), rel=1e-3)
    tighter = UnaryEncoding(4, epsilon).q - Fraction(1, ONE)
    assert tighter == 0 or (1 - tighter) / tighter > exp_bounds(epsilon)[1]


@pytest.mark.parametrize(
    ("p", "q"), [(0.75, 0.25), (0.5, 0.1), (Fraction(2, 3), Fraction(1, 3)), (1 - 2**-53, 2.0**-60), (0.5, 0.4999)]
)
def test_given_probabilities_are_rounded_toward_more_noise(p, q):
    oracle = UnaryEncoding(3, p=p, q=q)
    assert Fraction(p) - Fraction(1, ONE) < oracle.p <= Fraction(p)
    assert Fraction(q) <= oracle.q < Fraction(q) + Fraction(1, ONE)
    assert check_channel(oracle, oracle.channel()) == oracle.worst_ratio
    p, q = Fraction(p), Fraction(q)
    assert oracle.worst_ratio <= p * (1 - q) / ((1 - p) * q)


@pytest.mark.parametrize("k", often([2, 4], [4]))
@pytest.mark.parametrize("variant", often(VARIANTS, ["symmetric"]))
def test_vectors_follow_the_channel(variant, k):
    """Whole records, and pairs of consecutive records of one call."""
    n = 200_000
    oracle = UnaryEncoding(k, 1.0, variant=variant)
    codes = (np.arange(n) % k).astype(np.uint8)
    seen = oracle.report(codes, SeededSource("vectors", variant)) @ (1 << np.arange(k)[::-1])
    channel = floats(oracle.channel())
    for value in range(k):
        mine = codes == value
        assert chisquare(np.bincount(seen[mine], minlength=1 << k), channel[value] * mine.sum()).pvalue > 1e-6
    first, second = seen[:-1:k] % 16, seen[1::k] % 16
    shares = [np.bincount(np.arange(1 << k) % 16, channel[value], minlength=16) for value in (0, 1)]
    pairs, expected = np.bincount(first * 16 + second, minlength=256), np.outer(*shares).ravel() * first.size
    assert chisquare(pairs[expected > 0], expected[expected > 0]).pvalue > 1e-6


VAGUE = [{"epsilon": 1, "variant": "best"}, {}, {"epsilon": 1, "p": 0.5, "q": 0.2}, {"p": 0.5}, {"p": True, "q": 0.1}]
PAIRS = [(0.5, 0.5), (0.2, 0.5), (1, 0.5), (0.5, 0.0), (math.nan, 0.1), (Fraction(1, 2) + Fraction(1, 2**70), 0.5)]


@pytest.mark.parametrize("arguments", [*VAGUE, *({"p": p, "q": q} for p, q in PAIRS)])
def test_invalid_probabilities_raise_an_error(arguments):
    with pytest.raises(ValueError, match=r"epsilon|`p` and `q`|variant|NaN"):
        UnaryEncoding(4, **arguments)
