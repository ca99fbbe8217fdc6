"""Errors compared with the literature and with simulations, and the choice of an oracle."""

import math

import numpy as np
import pytest

from skdp.oracles import LocalHashing
from skdp.randomness import SeededSource
from tests.conftest import often
from tests.oracles.conftest import ORACLES


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_variances_equal_the_literature(epsilon):
    """n times the variance of the frequency of a value that does not occur."""
    power, half = math.exp(epsilon), math.exp(epsilon / 2)
    known = {
        "randomized_response": (18 + power) / (power - 1) ** 2,
        "symmetric_unary_encoding": half / (half - 1) ** 2,
        "optimized_unary_encoding": 4 * power / (power - 1) ** 2,
    }
    for name, variance in known.items():
        assert ORACLES[name](20, epsilon).variance(np.zeros(20), 1)[0] == pytest.approx(variance, rel=1e-6)
    binary = LocalHashing(20, epsilon, n_buckets=2)
    assert binary.variance(np.zeros(20), 1)[0] == pytest.approx(((power + 1) / (power - 1)) ** 2, rel=1e-6)


@pytest.mark.parametrize("name", often(ORACLES, ["randomized_response", "optimized_unary_encoding", "local_hashing"]))
def test_intervals_cover_the_truth(name):
    """Intervals from the estimates alone cover the truth in about 95 of 100 cases."""
    k, size, runs = 100, 4_000, 60
    oracle, shares = ORACLES[name](k, 1.5), 1 / np.arange(1, k + 1)
    codes = np.random.default_rng(0).choice(k, size, p=shares / shares.sum()).astype(np.uint8)
    counts = np.bincount(codes, minlength=k)
    covered = 0
    for run in range(runs):
        reports = oracle.report(codes, SeededSource("cover", name, run))
        estimate = oracle.estimate(oracle.tally(reports), size)
        margin = 1.959964 * np.sqrt(oracle.variance(estimate, size))
        covered += int((abs(estimate - counts) <= margin).sum())
    assert 0.93 <= covered / (runs * k) <= 0.975
