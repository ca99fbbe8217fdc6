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
from tests.oracles.conftest import floats

VARIANTS = ["optimized", "symmetric"]


def test_two_bits_use_the_whole_epsilon(epsilon):
    """One bit alone uses at most half of epsilon (symmetric)."""
    for variant, largest in (("optimized", 64), ("symmetric", 128)):
        oracle = UnaryEncoding(4, epsilon, variant=variant)
        assert oracle.epsilon == pytest.approx(min(epsilon, largest * math.log(2)), rel=1e-3)
    tighter = UnaryEncoding(4, epsilon).q - Fraction(1, ONE)
    assert tighter == 0 or (1 - tighter) / tighter > exp_bounds(epsilon)[1]


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


def test_unknown_variant_raises_an_error():
    with pytest.raises(ValueError, match="`variant` must be 'optimized' or 'symmetric', got 'best'"):
        UnaryEncoding(4, 1.0, variant="best")
