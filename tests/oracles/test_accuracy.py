"""Errors in figures of the literature and of simulations, and the choice of an oracle."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest

from skdp.oracles import RandomizedResponse, choose_oracle
from skdp.randomness import SeededSource
from tests.conftest import each, often
from tests.oracles.conftest import ORACLES

QUICK = ["randomized_response", "optimized_unary_encoding", "subset_selection", "local_hashing"]


def zipf_codes(k, n, source):
    """Draw codes from frequencies that fall as 1 / rank."""
    weights = 1 / np.arange(1, k + 1)
    bounds = np.cumsum(weights / weights.sum()) * 65_536
    words = source.bytes(2 * n).view("<u2")
    return np.minimum(np.searchsorted(bounds, words), k - 1).astype(np.min_scalar_type(k - 1))


@each("epsilon", [0.3, 1.0, 3.0])
def test_textbook_variances(epsilon):
    """Of a value that nobody has, n times the variance of its frequency."""
    power, half = math.exp(epsilon), math.exp(epsilon / 2)
    known = {
        "randomized_response": (18 + power) / (power - 1) ** 2,
        "symmetric_unary_encoding": half / (half - 1) ** 2,
        "optimized_unary_encoding": 4 * power / (power - 1) ** 2,
        "binary_local_hashing": ((power + 1) / (power - 1)) ** 2,
    }
    for name, variance in known.items():
        assert ORACLES[name](20, epsilon).variance(np.zeros(20), 1)[0] == pytest.approx(variance, rel=1e-6)


def check_empirical_error(oracle, label):
    """Many small studies from one call; the standard error of their mean squared error is below 2 %."""
    k, size = oracle.k, 200
    runs = max(150, 7_500 // (k - 1))
    codes = np.tile(zipf_codes(k, size, SeededSource("codes")), runs)
    counts = np.bincount(codes[:size], minlength=k)
    reports = oracle.report(codes, SeededSource("error", label))
    parts = [reports[start : start + size] for start in range(0, codes.size, size)]
    errors = np.array([((oracle.estimate(oracle.tally(part), size) - counts) ** 2).sum() for part in parts])
    expected = oracle.variance(counts, size).sum()
    assert errors.mean() == pytest.approx(expected, rel=0.08)
    assert errors.std() / math.sqrt(runs) < 0.02 * expected


def check_coverage(oracle, label):
    """Intervals from the estimates alone hold the truth in about 95 of 100 cases."""
    k, size, runs = oracle.k, 4_000, max(50, 6_000 // oracle.k)
    codes = zipf_codes(k, size, SeededSource("codes"))
    counts = np.bincount(codes, minlength=k)
    covered = 0
    for run in range(runs):
        estimate = oracle.estimate(oracle.tally(oracle.report(codes, SeededSource("cover", label, run))), size)
        reach = 1.959964 * np.sqrt(oracle.variance(estimate, size))
        covered += int((abs(estimate - counts) <= reach).sum())
    assert 0.93 <= covered / (runs * k) <= 0.975


@pytest.mark.parametrize("name", often(ORACLES, QUICK))
def test_the_empirical_error_is_the_closed_form(name):
    check_empirical_error(ORACLES[name](14, 1), f"{name} 14")


@pytest.mark.parametrize("name", often(ORACLES, QUICK[:2]))
def test_intervals_cover_the_truth(name):
    check_coverage(ORACLES[name](100, 1.5), name)


# The choice of an oracle.


@pytest.mark.parametrize("max_report_bytes", [3, 9])
def test_the_chosen_oracle_has_the_stated_error_for_many_reports(max_report_bytes):
    k, n = 100_000, 500_000
    _, oracle = choose_oracle(k, 8.0, max_report_bytes=max_report_bytes)
    counts = np.where(np.arange(k) % 1_000 == 0, 5_000, 0)
    codes = np.repeat(np.arange(k, dtype=np.uint32), counts)
    estimates = oracle.estimate(oracle.tally(oracle.report(codes, SeededSource(0))), n)
    measured = ((estimates - counts) ** 2).mean() / n  # of 100,000 squares: known to some 0.5 %
    assert measured == pytest.approx(oracle.mean_squared_error, rel=0.05)
    assert oracle.variance(counts, n).mean() / n == pytest.approx(measured, rel=0.05)


# Large domains.


def test_a_million_values_fit():
    k, n = 1_000_000, 20_000
    codes = np.zeros(n, np.uint32)
    codes[5_000:] = np.arange(n - 5_000) * 66
    tracemalloc.start()
    oracle = RandomizedResponse(k, 4.0)
    counts = oracle.estimate(oracle.tally(oracle.report(codes, SeededSource("million"))), n)
    assert abs(counts[0] - 5_001) < 6 * math.sqrt(oracle.variance(np.r_[5_001, np.ones(k - 1) / 67], n)[0])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 300 << 20
