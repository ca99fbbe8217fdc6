"""Randomized response: every random word is enumerated."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chisquare

from skdp.exact import exp_bounds
from skdp.oracles import RandomizedResponse
from skdp.randomness import ONE, SeededSource

FALSE_ALARM = 1e-6
KS = [2, 3, 4, 16, 257]
EPSILONS = [1e-9, 1e-3, 0.1, math.log(3), 1, 4, 20, 36, 40, 700]


@pytest.mark.parametrize("k", KS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_misreport_probability_is_the_smallest_within_epsilon(k, epsilon):
    """The rounding is the smallest possible: one step less exceeds the bound."""
    oracle = RandomizedResponse(k, epsilon)
    assert oracle.worst_ratio <= exp_bounds(oracle.epsilon)[0]
    assert oracle.epsilon <= epsilon
    # A misreport is always possible, so a larger epsilon cannot remove all noise.
    assert oracle.epsilon == pytest.approx(min(epsilon, (80 if k <= 256 else 96) * math.log(2)), rel=1e-6)
    words = 2**16 if k <= 256 else 2**32
    tied = min(k, words - words * oracle.lie // k * k)
    lie = oracle.lie - Fraction(tied, words * ONE)
    truth, other = 1 - lie * (k - 1) / k, lie / k
    assert other == 0 or truth / other > exp_bounds(epsilon)[1]


@pytest.mark.parametrize("k", [2, 3, 100, 256])
@pytest.mark.parametrize("epsilon", [1e-9, 1, 20, 700])
def test_sampler_follows_the_channel_for_every_pair_of_bytes(scripted_source, monkeypatch, k, epsilon):
    """Enumerate all 2**16 words, once with all ties misreported and once with all ties truthful.

    A tie is misreported with probability threshold / 2**64 (proved by the tests of `bernoulli`), uniformly, so the
    mixture of the two enumerations with this weight must equal the channel exactly.
    """
    oracle = RandomizedResponse(k, epsilon)
    words = np.arange(1 << 16, dtype="<u2").view(np.uint8)
    module, asked, lying = RandomizedResponse.__module__, [], []

    def toss(source, threshold, size):
        asked.append((threshold, size))
        return np.full(size, lying[-1])

    monkeypatch.setattr(f"{module}.uniform_integers", lambda source, high, size: np.arange(size) % high)
    monkeypatch.setattr(f"{module}.bernoulli", toss)
    for value in {0, 1, k - 1}:
        counts = {}
        for lies in (True, False):
            lying.append(lies)
            codes = np.full(1 << 16, value, np.uint8)
            counts[lies] = np.bincount(oracle.report(codes, scripted_source(words)), minlength=k)
        threshold, ties = asked[-1]
        weight = Fraction(threshold, ONE)
        assert ties in (k, (1 << 16) % k)
        for report in range(k):
            mixed = weight * int(counts[True][report]) + (1 - weight) * int(counts[False][report])
            if ties == k:
                assert mixed / (1 << 16) == (oracle.p if report == value else oracle.q)
        if ties < k:  # fewer ties than values: the uniform draw of a tie makes the values equally likely
            lies = weight * ties + (1 << 16) // k * k
            assert lies / (1 << 16) == oracle.lie


def test_misreports_of_neighboring_rows_are_independent():
    oracle = RandomizedResponse(3, 0.5)
    reports = oracle.report(np.zeros(300_000, np.uint8), SeededSource("pairs"))
    pairs = np.bincount(reports[:-1:2] * 3 + reports[1::2], minlength=9)
    shares = [float(a * b) for a in oracle.channel()[0] for b in oracle.channel()[0]]
    assert chisquare(pairs, np.array(shares) * 150_000).pvalue > FALSE_ALARM
