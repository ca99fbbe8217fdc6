"""Two rounds: both are enumerated exactly, one report by itself and several that share their first round."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
from scipy.stats import chisquare

from skdp.exact import exp_bounds
from skdp.oracles import HadamardResponse, LocalHashing, RandomizedResponse, UnaryEncoding, two_rounds
from skdp.oracles._two_rounds import TwoRoundHashing, TwoRoundResponse, TwoRoundUnaryEncoding
from skdp.randomness import SecureSource, SeededSource
from tests.conftest import each, often

FALSE_ALARM = 1e-6
PAIRS = [(2e-9, 1e-9), (0.5, 0.1), (1.0, 0.999), (2.0, 1.0), (8.0, 0.5), (40.0, 3.0), (700.0, 20.0), (700.0, 699.0)]


def second_channel(oracle):
    """The exact probability of each report given each permanent report, in the order of the permanent channel."""
    if isinstance(oracle, TwoRoundResponse):
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


def worst(channel):
    """The largest ratio; reports that no value can give do not count."""
    return max(max(column) / min(column) for column in zip(*channel, strict=True) if any(column))


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
    "L-GRR 2": lambda epsilon, single: TwoRoundResponse(RandomizedResponse(2, epsilon), single),
    "L-GRR 5": lambda epsilon, single: TwoRoundResponse(RandomizedResponse(5, epsilon), single),
    "L-GRR 300": lambda epsilon, single: TwoRoundResponse(RandomizedResponse(300, epsilon), single),
    "L-OSUE": lambda epsilon, single: TwoRoundUnaryEncoding(UnaryEncoding(3, epsilon), single),
    "L-SUE": lambda epsilon, single: TwoRoundUnaryEncoding(UnaryEncoding(3, epsilon, variant="symmetric"), single),
    "L-THE": lambda epsilon, single: TwoRoundUnaryEncoding(UnaryEncoding(3, epsilon, variant="threshold"), single),
}


@pytest.mark.parametrize("name", ORACLES)
@each("epsilon, single", PAIRS)
def test_the_composed_channel_is_that_of_both_rounds_and_keeps_epsilon(name, epsilon, single):
    oracle = ORACLES[name](epsilon, single)
    assert oracle.worst_ratio <= exp_bounds(single)[1]
    if single < 30 and name != "L-THE":  # the request is used up, as far as probabilities over 2**64 can
        assert oracle.epsilon == pytest.approx(single, rel=1e-6, abs=1e-17)
    if oracle.k == 300:
        return
    composed = oracle.channel()
    assert composed == compose(oracle.permanent.channel(), second_channel(oracle))
    assert worst(composed) == oracle.worst_ratio
    assert all(sum(row) == 1 for row in composed)


@pytest.mark.parametrize(
    ("name", "n_reports"), [("L-GRR 2", 1), ("L-GRR 2", 7), ("L-GRR 5", 3), ("L-OSUE", 2), ("L-SUE", 2), ("L-THE", 2)]
)
@pytest.mark.parametrize(("epsilon", "single"), PAIRS[1:6])
def test_many_reports_of_one_permanent_report_keep_its_epsilon(name, n_reports, epsilon, single):
    oracle = ORACLES[name](epsilon, single)
    channel = sequences(oracle.permanent.channel(), second_channel(oracle), n_reports)
    ratio = worst(channel)
    assert oracle.worst_ratio <= ratio <= oracle.permanent.worst_ratio <= exp_bounds(epsilon)[0]
    if n_reports * oracle.epsilon > epsilon:  # a mutant whose first round is fresh at each report goes beyond
        assert oracle.worst_ratio**n_reports > exp_bounds(epsilon)[1]


def test_several_reports_may_cost_more_than_as_many_single_ones():
    """Reports that share a permanent one are not independent: single epsilons do not add, the permanent one holds."""
    oracle = TwoRoundResponse(RandomizedResponse(100, 8.0), 0.5)
    p, q = oracle.permanent.p, oracle.permanent.q
    own, other = oracle.instantaneous.p, oracle.instantaneous.q
    # Twice the true value, against twice another one.
    ratio = (p * own**2 + (1 - p) * other**2) / (q * own**2 + (1 - q) * other**2)
    assert ratio > oracle.worst_ratio**2
    assert ratio <= oracle.permanent.worst_ratio


@pytest.mark.parametrize("g", often([2, 3], [2]))
def test_hashing_keeps_both_epsilons_given_every_partition_of_the_values(g):
    """The public seed decides which values share a bucket: all partitions of 4 values are gone through."""
    oracle = TwoRoundHashing(LocalHashing(4, 2.0, n_buckets=g), 0.5)
    first, second = oracle._inner.permanent.channel(), oracle._inner.instantaneous.channel()
    for buckets in product(range(g), repeat=4):
        own = [first[bucket] for bucket in buckets]
        assert worst(compose(own, second)) <= exp_bounds(0.5)[0]
        assert worst(sequences(own, second, 4)) <= exp_bounds(2.0)[0]
    assert oracle.channel(seed=5)[0][0] in (oracle._inner.p, oracle._inner.q)
    assert oracle.epsilon == pytest.approx(0.5)
    assert oracle.permanent.epsilon == pytest.approx(2.0)


def test_the_flip_is_the_least_that_keeps_epsilon():
    permanent = UnaryEncoding(4, 2.0)
    oracle = TwoRoundUnaryEncoding(permanent, 1.0)
    assert oracle.worst_ratio <= exp_bounds(1.0)[0]
    oracle._set_flip(oracle._flip - 1)
    assert oracle.worst_ratio > exp_bounds(1.0)[0]
    assert oracle.p == permanent.p * (1 - oracle.flip) + (1 - permanent.p) * oracle.flip


def test_the_ratio_falls_with_the_flip_for_every_p_and_q():
    """What bisection relies on."""
    for p, q in [(0.5, 0.1), (0.9, 0.6), (0.3, 0.01), (0.999, 0.001), (0.51, 0.5)]:
        oracle = TwoRoundUnaryEncoding(UnaryEncoding(2, p=p, q=q), 50.0)
        assert oracle.flip == 0
        ratios = []
        for heads in range(0, 1 << 63, 1 << 57):
            oracle._set_flip(heads)
            ratios.append(oracle.worst_ratio)
        assert all(left > right for left, right in pairwise(ratios))


def test_a_first_round_that_keeps_the_single_epsilon_is_left_alone():
    assert TwoRoundResponse(RandomizedResponse(4, 1.0), 1.0).instantaneous.lie == 0
    oracle = TwoRoundResponse(RandomizedResponse(4, 1.0), 3.0)
    codes = np.arange(4, dtype=np.uint8)
    assert oracle.report_again(codes, SecureSource()).tolist() == [0, 1, 2, 3]
    assert oracle.channel() == oracle.permanent.channel()


@pytest.mark.parametrize("name", ["L-GRR 2", "L-GRR 5", "L-OSUE", "L-SUE"])
def test_reports_follow_the_channels(name):
    oracle = ORACLES[name](2.0, 1.0)
    n = 40_000
    weights = 1 << np.arange(oracle.k)[::-1]

    def histogram(reports, size):
        return np.bincount(reports if reports.ndim == 1 else reports @ weights, minlength=size)

    composed, second = oracle.channel(), second_channel(oracle)
    for code in range(oracle.k):
        seen = histogram(oracle.report(np.full(n, code, np.uint8), SeededSource(1, code)), len(composed[0]))
        assert chisquare(seen, np.array(composed[code], float) * n).pvalue > FALSE_ALARM
    for place, row in enumerate(second):
        if isinstance(oracle, TwoRoundResponse):
            permanent = np.full(n, place, np.uint8)
        else:
            bits = [place >> shift & 1 for shift in range(oracle.k)[::-1]]
            permanent = np.tile(np.array(bits, np.uint8), (n, 1))
        seen = histogram(oracle.report_again(permanent, SeededSource(2, place)), len(row))
        assert chisquare(seen, np.array(row, float) * n).pvalue > FALSE_ALARM


def test_hashing_keeps_the_seed():
    oracle = TwoRoundHashing(LocalHashing(50, 2.0), 0.7)
    permanent = oracle.permanent.report(np.arange(50, dtype=np.uint8), SeededSource(0))
    permanent = np.repeat(permanent, 400, axis=0)
    reports = oracle.report_again(permanent, SeededSource(1))
    assert reports.dtype == np.uint64
    assert (reports[:, 0] == permanent[:, 0]).all()
    shift = (reports[:, 1] - permanent[:, 1]).astype(np.int64) % oracle.n_buckets
    row = oracle._inner.instantaneous.channel()[0]
    seen = np.bincount(shift, minlength=oracle.n_buckets)
    assert chisquare(seen, np.array(row, float) * len(reports)).pvalue > FALSE_ALARM


@pytest.mark.parametrize("make", [RandomizedResponse, UnaryEncoding, LocalHashing])
def test_estimates_are_unbiased_with_the_variance_that_is_stated(make):
    oracle = two_rounds(make(6, 3.0), 1.5)
    n, runs = 2_000, 300
    codes = np.repeat(np.arange(4, dtype=np.uint8), n // 4)
    estimates = [oracle.estimate(oracle.tally(oracle.report(codes, SeededSource(run))), n) for run in range(runs)]
    true = np.bincount(codes, minlength=6)
    variance = oracle.variance(true, n)
    z = (np.mean(estimates, axis=0) - true) / np.sqrt(variance / runs)
    assert np.abs(z).max() < 5
    assert np.var(estimates, axis=0).mean() == pytest.approx(variance.mean(), rel=0.15)


def test_other_oracles_have_no_second_round():
    with pytest.raises(TypeError, match="HadamardResponse has no second round"):
        two_rounds(HadamardResponse(4, 1.0), 0.5)


def test_client_and_server_cannot_take_one_round_for_two():
    single = two_rounds(RandomizedResponse(4, 2.0), 1.0)
    assert single.parameters()["oracle"] == "TwoRoundResponse"
    assert single.parameters() != RandomizedResponse(4, 1.0).parameters()
