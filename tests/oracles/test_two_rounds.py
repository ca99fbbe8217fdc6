"""Permanent bits with fresh noise: single and repeated reports are enumerated exactly."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from skdp.exact import exp_bounds
from skdp.oracles import TwoRoundUnaryEncoding, UnaryEncoding
from skdp.randomness import ONE, SecureSource
from tests.conftest import often
from tests.oracles.conftest import largest_ratio

PAIRS = [(2e-9, 1e-9), (0.5, 0.1), (1.0, 0.999), (2.0, 1.0), (8.0, 0.5), (40.0, 3.0), (700.0, 20.0), (700.0, 699.0)]
VARIANTS = ["optimized", "symmetric"]


def make(variant, epsilon, single, k=3):
    return TwoRoundUnaryEncoding(UnaryEncoding(k, epsilon, variant=variant), single)


def second_channel(oracle):
    """Return the probability of each report given each permanent report, in the order of the permanent channel."""
    flip = [1 - oracle.flip, oracle.flip]
    vectors = list(product((0, 1), repeat=oracle.k))
    return [
        [math.prod(flip[old ^ new] for old, new in zip(first, last, strict=True)) for last in vectors]
        for first in vectors
    ]


def compose(first, second):
    return [[sum(map(Fraction.__mul__, row, column)) for column in zip(*second, strict=True)] for row in first]


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(("epsilon", "single"), PAIRS)
def test_channel_composes_both_rounds_within_epsilon(variant, epsilon, single):
    oracle = make(variant, epsilon, single)
    assert oracle.worst_ratio <= exp_bounds(single)[1]
    if single < 30:  # probabilities over 2**64 use up epsilon
        assert oracle.epsilon == pytest.approx(single, rel=1e-6, abs=1e-17)
    channel = oracle.channel()
    assert channel == compose(oracle.permanent.channel(), second_channel(oracle))
    assert largest_ratio(channel) == oracle.worst_ratio
    assert all(sum(row) == 1 for row in channel)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("pair", often(PAIRS[1:6], [(2.0, 1.0), (8.0, 0.5)]))
def test_reports_of_one_permanent_report_keep_its_epsilon(variant, pair):
    epsilon, single = pair
    oracle, n_reports = make(variant, epsilon, single), 2
    joint = [[math.prod(shares) for shares in product(row, repeat=n_reports)] for row in second_channel(oracle)]
    ratio = largest_ratio(compose(oracle.permanent.channel(), joint))
    assert oracle.worst_ratio <= ratio <= oracle.permanent.worst_ratio <= exp_bounds(epsilon)[0]
    if n_reports * oracle.epsilon > epsilon:  # a fresh first round in each report would exceed epsilon
        assert oracle.worst_ratio**n_reports > exp_bounds(epsilon)[1]


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("permanent_epsilon", [0.04, 2.0, 14.0])
def test_flip_is_the_smallest_within_epsilon(variant, permanent_epsilon):
    epsilon = 0.01
    oracle = make(variant, permanent_epsilon, epsilon, k=2)
    permanent = oracle.permanent
    ratios = []
    for flip in (oracle.flip, oracle.flip - Fraction(1, ONE), oracle.flip / 2, Fraction(0)):
        own, other = (share * (1 - flip) + (1 - share) * flip for share in (permanent.p, permanent.q))
        ratios.append(own * (1 - other) / ((1 - own) * other))
    assert oracle.worst_ratio == ratios[0]
    assert ratios[0] <= exp_bounds(epsilon)[0] < ratios[1] < ratios[2] < ratios[3]


def test_small_permanent_epsilon_needs_no_second_round():
    oracle = make("optimized", 1.0, 3.0)
    bits = np.eye(3, dtype=np.uint8)
    assert oracle.flip == 0
    assert oracle.report_again(bits, SecureSource()).tolist() == bits.tolist()
    assert oracle.channel() == oracle.permanent.channel()
