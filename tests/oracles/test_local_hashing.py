from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import skdp.oracles._hashing as hashing
import skdp.oracles._local_hashing as module
from skdp.oracles import LocalHashing
from skdp.randomness import SecureSource, SeededSource
from tests.conftest import each


def partitions(k, g):
    """Every way to put k values into at most g buckets, up to the names of the buckets."""
    rows = [[0]]
    for _ in range(k - 1):
        rows = [[*row, bucket] for row in rows for bucket in range(min(max(row) + 2, g))]
    return rows


def ratios(oracle, check_channel, epsilon, rows):
    for row in rows:
        buckets = np.array(row)
        oracle.hash_family = lambda seeds, codes, buckets=buckets: buckets[codes]
        yield check_channel(oracle, oracle.channel(), epsilon)


@each("g", [2, 3, 5])
def test_every_partition_of_the_values_keeps_the_promise(check_channel, epsilon, g):
    oracle = LocalHashing(5, epsilon, n_buckets=g)
    assert max(ratios(oracle, check_channel, epsilon, partitions(5, g))) == oracle.worst_ratio


@pytest.mark.parametrize("g", [2, 3, 4])
def test_every_partition_of_eight_values_keeps_the_promise(check_channel, g):
    oracle = LocalHashing(8, 1.0, n_buckets=g)
    rows = partitions(8, g)
    assert len(rows) == {2: 128, 3: 1094, 4: 2795}[g]
    # Reports under two values differ only if their buckets do.
    assert set(ratios(oracle, check_channel, 1.0, rows[:: 1 if g < 4 else 7])) <= {1, oracle.worst_ratio}


def test_the_default_keeps_the_promise_for_real_seeds(check_channel, epsilon):
    oracle = LocalHashing(6, epsilon)
    for seed in oracle.hash_family.draw(SeededSource(0), 20):
        check_channel(oracle, oracle.channel(int(seed)), epsilon)


@pytest.mark.parametrize("g", [2, 3, 4, 7, 11])
def test_over_all_seeds_the_estimate_is_unbiased(monkeypatch, g):
    """With a prime so small that all seeds can be listed: means and mean squares are exact."""
    monkeypatch.setattr(hashing, "_SMALL_PRIME", 11)
    oracle = LocalHashing(6, 1.0, n_buckets=g)
    seeds = np.array([a << 16 | b for a, b in product(range(11), repeat=2)], np.uint64)
    mean, square, support = np.zeros((6, 6)), np.zeros((6, 6)), [[Fraction(0)] * 6 for _ in range(6)]
    for seed in seeds:
        channel = oracle.channel(int(seed))
        reports = np.column_stack([np.full(g, seed), np.arange(g, dtype=np.uint64)])
        supports = oracle.supports(reports)
        for value, other in product(range(6), repeat=2):
            support[value][other] += sum(channel[value][bucket] for bucket in np.flatnonzero(supports[:, other]))
        shares, values = np.array(channel, float), oracle.unbiased(reports)
        mean += shares @ values
        square += shares @ values**2
    assert mean / 121 == pytest.approx(np.eye(6), abs=1e-12)
    square = square.T / 121
    assert square == pytest.approx(oracle.second_moments(), rel=1e-12)
    assert all(support[v][x] / 121 == (oracle.p if v == x else oracle.q) for v, x in product(range(6), repeat=2))


@each("k", [2, 3, 4, 14, 100])
@each("epsilon", [0.1, 0.5, 1.0, 2.0, 4.0])
def test_the_number_of_buckets_is_the_best_one(k, epsilon):
    errors = [LocalHashing(k, epsilon, n_buckets=g).mean_squared_error for g in range(2, max(3, k + 1))]
    assert LocalHashing(k, epsilon).mean_squared_error == min(errors)


@pytest.mark.parametrize("k", [10, 70_000])
def test_a_report_is_the_randomised_bucket_of_its_seed(monkeypatch, k):
    oracle = LocalHashing(k, 1.0, n_buckets=5)
    codes = (np.arange(1_000) * 7 % k).astype(np.uint32)
    given = []
    monkeypatch.setattr(
        type(oracle._inner), "report", lambda self, buckets, source: given.append(buckets) or 4 - buckets
    )
    reports = oracle.report(codes, SeededSource(0))
    assert reports.dtype == np.uint64
    assert (given[0] == oracle.hash_family(reports[:, 0], codes)).all()
    assert (reports[:, 1] == 4 - given[0]).all()
    assert len(set(reports[:, 0])) > 990


def test_seeds_do_not_depend_on_the_codes():
    oracle = LocalHashing(50, 1.0)
    one, two = (oracle.report(np.full(100, value, np.uint8), SeededSource(3)) for value in (0, 49))
    assert (one[:, 0] == two[:, 0]).all()


def test_the_tally_counts_supports():
    oracle = LocalHashing(30, 1.0)
    reports = oracle.report((np.arange(500) % 30).astype(np.uint8), SecureSource())
    assert oracle.tally(reports).tolist() == oracle.supports(reports).sum(axis=0).tolist()


@each(
    "reports",
    [
        np.zeros(3, np.uint64),
        np.zeros((2, 3), np.uint64),
        np.zeros((2, 2)),
        np.zeros((2, 2), np.int64),
        np.array([[0, 4]], np.uint64),
        np.array([[65_521 << 16, 0]], np.uint64),
        np.array([[65_521, 0]], np.uint64),
        np.array([[1 << 40, 0]], np.uint64),
    ],
)
def test_reports_of_another_oracle_are_refused(reports):
    oracle = LocalHashing(10, 1.0, n_buckets=4)
    for read in (oracle.tally, oracle.supports, oracle.unbiased):
        with pytest.raises(ValueError, match=r"reports must be|not those of this oracle"):
            read(reports)


@pytest.mark.parametrize(("g", "error"), [(1, ValueError), (65_522, ValueError), (2.0, TypeError)])
def test_numbers_of_buckets_out_of_range_are_refused(g, error):
    with pytest.raises(error):
        LocalHashing(10, 1.0, n_buckets=g)


def test_the_size_of_a_report():
    assert LocalHashing(100, math.log(3)).report_bytes == 5
    assert LocalHashing(70_000, math.log(3)).report_bytes == 9
    assert module.MOST_BUCKETS == 65_521
