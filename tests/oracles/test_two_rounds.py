"""Two rounds: both are enumerated exactly, one report by itself and several that share their first round."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.stats import chisquare

from skdp.exact import exp_bounds
from skdp.oracles import LocalHashing, RandomizedResponse, SubsetSelection, UnaryEncoding, two_rounds
from skdp.randomness import ONE, SecureSource, SeededSource
from tests.conftest import each, often
from tests.oracles.conftest import largest_ratio

FALSE_ALARM = 1e-6
PAIRS = [(2e-9, 1e-9), (0.5, 0.1), (1.0, 0.999), (2.0, 1.0), (8.0, 0.5), (40.0, 3.0), (700.0, 20.0), (700.0, 699.0)]


def second_channel(oracle):
    """The exact probability of each report given each permanent report, in the order of the permanent channel."""
    if not oracle.has_bits:
        return oracle.instantaneous.channel()
    flip = [1 - oracle.flip, oracle.flip]
    vectors = list(product((0, 1), repeat=oracle.k))
    return [
        [
            math.prod((flip[old ^ new] for old, new in zip(first, last, strict=True)), start=Fraction(1))
            for last in vectors
        ]
        for first in vectors
    ]


def compose(first, second):
    return [[sum(map(Fraction.__mul__, row, column)) for column in zip(*second, strict=True)] for row in first]


def sequences(first, second, n_reports):
    """The channel of several reports that share a permanent one."""
    joint = [
        [
            math.prod((row[place] for place in places), start=Fraction(1))
            for places in product(range(len(row)), repeat=n_reports)
        ]
        for row in second
    ]
    return compose(first, joint)


ORACLES = {
    "L-GRR 2": lambda epsilon, single: two_rounds(RandomizedResponse(2, epsilon), single),
    "L-GRR 5": lambda epsilon, single: two_rounds(RandomizedResponse(5, epsilon), single),
    "L-GRR 300": lambda epsilon, single: two_rounds(RandomizedResponse(300, epsilon), single),
    "L-OSUE": lambda epsilon, single: two_rounds(UnaryEncoding(3, epsilon), single),
    "L-SUE": lambda epsilon, single: two_rounds(UnaryEncoding(3, epsilon, variant="symmetric"), single),
}


@pytest.mark.parametrize("name", ORACLES)
@each("epsilon, single", PAIRS)
def test_the_composed_channel_is_that_of_both_rounds_and_keeps_epsilon(name, epsilon, single):
    oracle = ORACLES[name](epsilon, single)
    assert oracle.worst_ratio <= exp_bounds(single)[1]
    if single < 30:  # the request is used up, as far as probabilities over 2**64 can
        assert oracle.epsilon == pytest.approx(single, rel=1e-6, abs=1e-17)
    if oracle.k == 300:
        return
    composed = oracle.channel()
    assert composed == compose(oracle.permanent.channel(), second_channel(oracle))
    assert largest_ratio(composed) == oracle.worst_ratio
    assert all(sum(row) == 1 for row in composed)


@each("name, n_reports", [("L-GRR 2", 1), ("L-GRR 2", 7), ("L-GRR 5", 3), ("L-OSUE", 2), ("L-SUE", 2)])
@pytest.mark.parametrize("pair", often(PAIRS[1:6], [(2.0, 1.0), (8.0, 0.5)]))
def test_many_reports_of_one_permanent_report_keep_its_epsilon(name, n_reports, pair):
    epsilon, single = pair
    oracle = ORACLES[name](epsilon, single)
    channel = sequences(oracle.permanent.channel(), second_channel(oracle), n_reports)
    ratio = largest_ratio(channel)
    assert oracle.worst_ratio <= ratio <= oracle.permanent.worst_ratio <= exp_bounds(epsilon)[0]
    if n_reports * oracle.epsilon > epsilon:  # a mutant whose first round is fresh at each report goes beyond
        assert oracle.worst_ratio**n_reports > exp_bounds(epsilon)[1]


@pytest.mark.parametrize("g", often([2, 3], [2]))
def test_hashing_keeps_both_epsilons_given_every_partition_of_the_values(g):
    """The public seed decides which values share a bucket: all partitions of 4 values are gone through."""
    oracle = two_rounds(LocalHashing(4, 2.0, n_buckets=g), 0.5)
    first, second = oracle._inner.permanent.channel(), oracle._inner.instantaneous.channel()
    for buckets in product(range(g), repeat=4):
        own = [first[bucket] for bucket in buckets]
        assert largest_ratio(compose(own, second)) <= exp_bounds(0.5)[0]
        assert largest_ratio(sequences(own, second, 4)) <= exp_bounds(2.0)[0]
    assert oracle.channel(seed=5)[0][0] in (oracle._inner.p, oracle._inner.q)
    assert oracle.epsilon == pytest.approx(0.5)
    assert oracle.permanent.epsilon == pytest.approx(2.0)


@each("p, q", [(0.5, 0.1), (0.9, 0.6), (0.3, 0.01), (0.999, 0.001), (0.51, 0.5)])
def test_the_flip_is_the_least_that_keeps_epsilon(p, q):
    """The ratio falls as the flip grows: one unit less of it breaks the bound."""
    permanent, epsilon = UnaryEncoding(2, p=p, q=q), 0.01
    oracle = two_rounds(permanent, epsilon)
    ratios = []
    for flip in (oracle.flip, oracle.flip - Fraction(1, ONE), oracle.flip / 2, Fraction(0)):
        own, other = (share * (1 - flip) + (1 - share) * flip for share in (permanent.p, permanent.q))
        ratios.append(own * (1 - other) / ((1 - own) * other))
    assert oracle.worst_ratio == ratios[0]
    assert ratios[0] <= exp_bounds(epsilon)[0] < ratios[1] < ratios[2] < ratios[3]


def test_a_first_round_that_keeps_the_single_epsilon_is_left_alone():
    assert two_rounds(RandomizedResponse(4, 1.0), 1.0).instantaneous.lie == 0
    oracle = two_rounds(RandomizedResponse(4, 1.0), 3.0)
    codes = np.arange(4, dtype=np.uint8)
    assert oracle.report_again(codes, SecureSource()).tolist() == [0, 1, 2, 3]
    assert oracle.channel() == oracle.permanent.channel()


def test_every_draw_of_bits_follows_the_composed_channel(exact_law):
    """Of two values: the first round of each bit, then the second."""
    oracle = two_rounds(UnaryEncoding(2, 2.0), 1.0)
    for code, row in enumerate(oracle.channel()):
        law = exact_law(oracle, np.uint8(code))
        assert [law[bits] for bits in product((0, 1), repeat=2)] == row


@each("name", ["L-GRR 2", "L-GRR 5"])
def test_reports_follow_both_channels(name):
    oracle, n = ORACLES[name](2.0, 1.0), 40_000
    for code in range(oracle.k):
        codes = np.full(n, code, np.uint8)
        for report, channel in ((oracle.report, oracle.channel()), (oracle.report_again, second_channel(oracle))):
            seen = np.bincount(report(codes, SeededSource(1, code)), minlength=oracle.k)
            assert chisquare(seen, np.array(channel[code], float) * n).pvalue > FALSE_ALARM


def test_hashing_keeps_the_seed():
    oracle = two_rounds(LocalHashing(50, 2.0), 0.7)
    permanent = oracle.permanent.report(np.arange(50, dtype=np.uint8), SeededSource(0))
    permanent = np.repeat(permanent, 400, axis=0)
    reports = oracle.report_again(permanent, SeededSource(1))
    assert reports.dtype == np.uint64
    assert (reports[:, 0] == permanent[:, 0]).all()
    shift = (reports[:, 1] - permanent[:, 1]).astype(np.int64) % oracle.n_buckets
    row = oracle._inner.instantaneous.channel()[0]
    seen = np.bincount(shift, minlength=oracle.n_buckets)
    assert chisquare(seen, np.array(row, float) * len(reports)).pvalue > FALSE_ALARM


def test_other_oracles_have_no_second_round():
    with pytest.raises(TypeError, match="SubsetSelection has no second round"):
        two_rounds(SubsetSelection(4, 1.0), 0.5)


def test_client_and_server_cannot_take_one_round_for_two():
    single = two_rounds(RandomizedResponse(4, 2.0), 1.0)
    assert single.parameters()["oracle"] == "TwoRoundResponse"
    assert single.parameters() != RandomizedResponse(4, 1.0).parameters()
