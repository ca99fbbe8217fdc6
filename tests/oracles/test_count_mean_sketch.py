from __future__ import annotations

import tracemalloc
from itertools import product

import numpy as np
import pytest

import skdp.oracles._count_mean_sketch as module
import skdp.oracles._hashing as hashing
from skdp.oracles import CountMeanSketch, QuadraticHash
from skdp.randomness import SeededSource
from tests.conftest import each, often


@each("buckets", [2, 3, 8])
def test_every_index_of_every_function_keeps_the_promise(check_channel, epsilon, buckets):
    oracle = CountMeanSketch(6, epsilon, n_functions=4, n_buckets=buckets)
    ratios = [check_channel(oracle, oracle.channel(function), epsilon) for function in range(4)]
    assert max(ratios) == oracle.worst_ratio


def test_given_the_function_the_bucket_is_estimated_without_bias():
    oracle = CountMeanSketch(20, 1.0, n_functions=3, n_buckets=5)
    meet = float(oracle.hash_family.collision)
    for function in range(3):
        indices = np.arange(oracle.inner.n_indices)
        reports = np.column_stack([np.full_like(indices, function), indices])
        mean = np.array(oracle.channel(function), float) @ oracle.unbiased(reports)
        buckets = oracle.hash_family(np.array(function), np.arange(20))
        together = buckets == buckets[:, np.newaxis]
        assert mean == pytest.approx((together - meet) / (1 - meet), abs=1e-12)


@pytest.fixture
def small_prime(monkeypatch):
    """Hash modulo 11, and list all functions."""
    monkeypatch.setattr(hashing, "_LARGE_PRIME", 11)
    monkeypatch.setattr(hashing, "_residues", lambda words: words % np.uint64(11))
    return np.array(list(product(range(11), repeat=3)), np.uint64)


def sketch_of(coefficients, k, g, n_functions):
    oracle = CountMeanSketch(k, 1.0, n_functions=n_functions, n_buckets=g)
    oracle.hash_family = QuadraticHash(k, g, coefficients)
    return oracle


@pytest.mark.parametrize("g", often([2, 4, 11], [4]))
def test_over_all_functions_the_estimate_is_unbiased(small_prime, g):
    oracle = sketch_of(small_prime, 5, g, 1331)
    indices = np.arange(oracle.inner.n_indices)
    mean, square = np.zeros((5, 5)), np.zeros((5, 5))
    for function in range(1331):
        shares = np.array(oracle.channel(function), float)
        values = oracle.unbiased(np.column_stack([np.full_like(indices, function), indices]))
        mean += shares @ values
        square += shares @ values**2
    assert mean / 1331 == pytest.approx(np.eye(5), abs=1e-12)
    assert oracle.inner.n_blocks == 1  # else the mean square depends on the pair of buckets
    square = square.T / 1331
    assert square == pytest.approx(oracle.second_moments(), rel=1e-12)


@pytest.mark.long
def test_over_all_functions_the_variance_is_the_stated_one(small_prime):
    """One function for all reports: the collisions do not average out."""
    counts = np.array([5, 0, 3, 1, 2])
    indices = np.arange(CountMeanSketch(5, 1.0, n_functions=1, n_buckets=11).inner.n_indices)
    means, variances = [], []
    for row in small_prime:
        oracle = sketch_of(row[np.newaxis], 5, 11, 1)
        shares = np.array(oracle.channel(), float)
        values = oracle.unbiased(np.column_stack([np.zeros_like(indices), indices]))
        mean = shares @ values
        means.append(counts @ mean)
        variances.append(counts @ (shares @ values**2 - mean**2))
    total = np.mean(variances, axis=0) + np.var(means, axis=0)
    assert np.mean(means, axis=0) == pytest.approx(counts, abs=1e-9)
    assert oracle.variance(counts, 11) == pytest.approx(total, rel=1e-9)


def test_over_all_functions_the_floor_is_what_collisions_leave(small_prime):
    """Of one function and of two: the bias of each value, over all functions, when all records have the value 2."""
    for g in (2, 4, 11):
        oracle = sketch_of(small_prime, 5, g, 1331)
        buckets = oracle.hash_family(np.arange(1331)[:, np.newaxis], np.arange(5))
        meet = float(oracle.hash_family.collision)
        bias = ((buckets == buckets[:, [2]]) - meet) / (1 - meet) - (np.arange(5) == 2)
        assert bias.mean(axis=0) == pytest.approx(0, abs=1e-12)
        single = (bias**2).mean()
        pairs = ((bias[:, np.newaxis] + bias) ** 2).mean() / 4
        for n_functions, floor in ((1, single), (2, pairs)):
            oracle = sketch_of(small_prime[:n_functions], 5, g, n_functions)
            assert oracle.error_floor == pytest.approx(floor, rel=1e-9)
            many = 10**12
            worst = np.array([0, 0, many, 0, 0])
            assert oracle.variance(worst, many).mean() / many**2 == pytest.approx(floor, rel=1e-6)


def test_noise_of_many_values_is_not_taken_for_collisions():
    """The collisions of n reports are at most those of one value that all of them have."""
    oracle = CountMeanSketch(10_000, 1.0, n_functions=4, n_buckets=16)
    noise = 500.0 * (-1) ** np.arange(10_000)
    single = np.r_[1_000.0, np.zeros(9_999)]
    assert oracle.variance(noise, 1_000)[1] <= oracle.variance(single, 1_000)[1] * (1 + 1e-12)


def test_a_report_is_a_uniform_function_and_the_randomised_bucket(monkeypatch):
    oracle = CountMeanSketch(50, 1.0, n_functions=7, n_buckets=5)
    monkeypatch.setattr(module, "uniform_integers", lambda source, high, n: np.arange(n) % high)
    given = []
    monkeypatch.setattr(
        type(oracle.inner), "report", lambda self, buckets, source: given.append(buckets) or 5 - buckets
    )
    codes = (np.arange(200) % 50).astype(np.uint8)
    reports = oracle.report(codes, None)
    assert (reports[:, 0] == np.arange(200) % 7).all()
    assert (given[0] == oracle.hash_family(reports[:, 0], codes)).all()
    assert (reports[:, 1] == 5 - given[0]).all()


def test_the_tally_is_the_sum_of_inner_estimates(monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 16)
    oracle = CountMeanSketch(40, 1.0, n_functions=6, n_buckets=9)
    reports = oracle.report((np.arange(2_000) % 40).astype(np.uint8), SeededSource(0))
    unbiased = oracle.unbiased(reports).sum(axis=0)
    assert oracle.estimate(oracle.tally(reports), 2_000) == pytest.approx(unbiased, rel=1e-9, abs=1e-6)
    table = sum(oracle.table(part) for part in np.array_split(reports, 3))
    assert (table == oracle.table(reports)).all()
    assert table.shape == (6, 9)
    for number in range(6):
        own = reports[reports[:, 0] == number, 1]
        assert (oracle.inner.tally(own) == table[number]).all()


@pytest.mark.long
def test_the_error_is_near_the_stated_one_over_seeds():
    """Few functions, so that collisions of heavy values count."""
    counts = np.array([600, 200, 100, 60, 30, 10, 0, 0])
    codes = np.repeat(np.arange(8, dtype=np.uint8), counts)
    squares, runs = np.zeros(8), 1_500
    for seed in range(runs):
        oracle = CountMeanSketch(8, 2.0, n_functions=2, n_buckets=5, seed=seed)
        support = oracle.tally(oracle.report(codes, SeededSource("sketch", seed)))
        squares += (oracle.estimate(support, 1_000) - counts) ** 2
    assert squares / runs == pytest.approx(oracle.variance(counts, 1_000), rel=0.2)
    assert squares.sum() / runs == pytest.approx(oracle.variance(counts, 1_000).sum(), rel=0.08)


@each(
    "reports",
    [
        np.zeros(3, np.uint32),
        np.zeros((2, 3), np.uint32),
        np.zeros((2, 2)),
        np.array([[4, 0]]),
        np.array([[0, 8]]),
        np.array([[-1, 0]]),
        np.array([[0, -1]]),
    ],
)
def test_reports_of_another_sketch_are_refused(reports):
    oracle = CountMeanSketch(100, 1.0, n_functions=4, n_buckets=7)
    for read in (oracle.tally, oracle.table, oracle.unbiased, oracle.supports):
        with pytest.raises(ValueError, match=r"reports must be|not those of this oracle"):
            read(reports)


@each(
    "arguments, error",
    [
        ({"n_functions": 0}, ValueError),
        ({"n_buckets": 1}, ValueError),
        ({"seed": -1}, ValueError),
        ({"seed": 0.5}, TypeError),
        ({"n_functions": 1 << 24, "n_buckets": 1 << 10}, ValueError),
    ],
)
def test_parameters_out_of_range_are_refused(arguments, error):
    with pytest.raises(error):
        CountMeanSketch(100, 1.0, **arguments)


def test_a_large_table_needs_no_square_of_it():
    oracle = CountMeanSketch(10, 6.0, n_functions=1, n_buckets=1 << 20)
    tracemalloc.start()
    oracle.variance(np.ones(10), 10)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_sketches_of_different_seeds_do_not_mix():
    assert CountMeanSketch(9, 1, seed=1).parameters() != CountMeanSketch(9, 1, seed=2).parameters()
