"""Local hashing: its hash functions, and estimates over all of them."""

import math
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skdp.oracles import LocalHashing, RandomizedResponse
from skdp.randomness import SeededSource
from tests.conftest import often
from tests.oracles.conftest import check_channel

SMALL, LARGE = 65_521, 2**31 - 1
ALL_SEEDS = np.array([a << 16 | b for a, b in product(range(11), repeat=2)], np.uint64)


@pytest.fixture
def small_prime(monkeypatch):
    """Hash modulo 11, so that all functions can be enumerated."""
    for name in ("_SMALL_PRIME", "_LARGE_PRIME"):
        monkeypatch.setattr(f"{LocalHashing.__module__}.{name}", 11)


# Hash functions.


def hash_family(k, g):
    return LocalHashing(k, 1.0, n_buckets=g).hash_family


@pytest.mark.parametrize("g", range(2, 12))
def test_two_values_collide_with_the_stated_probability(small_prime, g):
    family = hash_family(11, g)
    buckets = family(ALL_SEEDS[:, np.newaxis], np.arange(11))
    for one, other in combinations(range(11), 2):
        assert Fraction(int((buckets[:, one] == buckets[:, other]).sum()), 121) == family.collision


@pytest.mark.parametrize(
    ("k", "g", "prime"), [(4, 3, SMALL), (65_521, 65_521, SMALL), (65_522, 3, LARGE), (9, 4, SMALL)]
)
def test_prime_is_larger_than_the_domain(k, g, prime):
    family = hash_family(k, g)
    assert family.prime == prime
    assert all(prime % divisor for divisor in range(2, math.isqrt(prime) + 1))
    # Between perfectly even buckets and buckets with one residue more or less.
    assert Fraction(1, g) <= family.collision <= Fraction(1, g) + Fraction(g, prime**2)


@pytest.mark.parametrize("prime", [SMALL, LARGE])
@given(st.data())
def test_counting_agrees_with_hashing(prime, data):
    g = data.draw(st.integers(2, 300))
    family = hash_family(40 if prime == SMALL else 70_000, g)
    family.k = 40
    extremes = st.sampled_from([0, 1, 2, prime // 2, 1 << 15, prime - 2, prime - 1]) | st.integers(0, prime - 1)
    pairs = data.draw(st.lists(st.tuples(extremes, extremes), min_size=1, max_size=12))
    seeds = np.array([a << (family.seed_bits // 2) | b for a, b in pairs], np.uint64)
    assert family.are_valid(seeds)
    expected = np.array([[(a * x + b) % prime % g for x in range(40)] for a, b in pairs])
    assert (family(seeds[:, np.newaxis], np.arange(40)) == expected).all()
    buckets = expected[np.arange(len(pairs)), data.draw(st.integers(0, 39))].astype(np.uint64)
    counts = (expected == buckets[:, np.newaxis]).sum(axis=0)
    for times in (1, 50, 10_000):  # single reports, single values, and blocks
        counted = family.count_matches(np.tile(seeds, times), np.tile(buckets, times))
        assert counted.tolist() == (times * counts).tolist()


def test_hash_values_never_change():
    """Reports are stored, so a hash function is part of their format."""
    seeds = np.array([12_345 << 16 | 54_321] * 5, np.uint64)
    assert hash_family(100, 4)(seeds, np.arange(5)).tolist() == [1, 1, 2, 3, 0]


@pytest.mark.parametrize(("n_buckets", "error"), [(1, ValueError), (65_522, ValueError), (2.0, TypeError)])
def test_number_of_buckets_out_of_range_raises_an_error(n_buckets, error):
    with pytest.raises(error, match=r"must be|at most|the limit is"):
        LocalHashing(100, 1.0, n_buckets=n_buckets)


# Local hashing.


def partitions(k, g):
    """Return all partitions of k values into at most g buckets, up to the names of the buckets."""
    rows = [[0]]
    for _ in range(k - 1):
        rows = [[*row, bucket] for row in rows for bucket in range(min(max(row) + 2, g))]
    return rows


def ratios(oracle, epsilon):
    """Yield the largest ratio for each partition of the values."""
    for row in partitions(oracle.k, oracle.n_buckets):
        oracle.hash_family = lambda seeds, codes, row=row: np.take(row, codes)
        yield check_channel(oracle, oracle.channel(), epsilon)


@pytest.mark.parametrize(("k", "g"), [(5, 2), (5, 3), (5, 5), (7, 3)])
def test_every_partition_of_the_values_is_within_epsilon(k, g):
    for epsilon in (1e-9, 1.0, 40) if k == 5 else (1.0,):
        oracle = LocalHashing(k, epsilon, n_buckets=g)
        # Reports of two values differ only if their buckets differ.
        assert set(ratios(oracle, epsilon)) == {1, oracle.worst_ratio}


@pytest.mark.parametrize("g", often([2, 3, 4, 7, 11], [2, 4]))
def test_estimate_is_unbiased_over_all_seeds(small_prime, g):
    oracle = LocalHashing(6, 1.0, n_buckets=g)
    mean, pairs, support = np.zeros((6, 6)), np.zeros(2), [[Fraction(0)] * 6 for _ in range(6)]
    for seed in ALL_SEEDS:
        channel = oracle.channel(int(seed))
        reports = np.column_stack([np.full(g, seed), np.arange(g, dtype=np.uint64)])
        supports = oracle.supports(reports)
        for value, other in product(range(6), repeat=2):
            support[value][other] += sum(channel[value][bucket] for bucket in np.flatnonzero(supports[:, other]))
        shares, values = np.array(channel, float), oracle.unbiased(reports)
        mean += shares @ values
        pairs += shares[0] @ (supports[:, :2] & supports[:, 1:3])
    assert mean / 121 == pytest.approx(np.eye(6), abs=1e-12)
    # Three values are treated as independent. 0, 1 and 2 are slightly dependent, and more so if the number of buckets
    # is close to the small prime.
    both, others = oracle.pair_supports
    assert pairs[0] / 121 == pytest.approx(both)
    assert g > 5 or pairs[1] / 121 == pytest.approx(others, rel=0.4)
    assert all(support[v][x] / 121 == (oracle.p if v == x else oracle.q) for v, x in product(range(6), repeat=2))


@pytest.mark.parametrize("k", [2, 3, 4, 14, 100])
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0, 4.0])
def test_number_of_buckets_is_close_to_the_optimum(k, epsilon):
    errors = [LocalHashing(k, epsilon, n_buckets=g).mean_squared_error for g in range(2, max(3, k + 1))]
    assert LocalHashing(k, epsilon).mean_squared_error <= 1.04 * min(errors)


@pytest.mark.parametrize("k", [10, 70_000])
def test_report_is_the_randomized_bucket_of_its_seed(k):
    """At epsilon 60, the probability of a misreport is about 2**-64."""
    oracle, codes = LocalHashing(k, 60.0, n_buckets=5), (np.arange(1_000) * 7 % k).astype(np.uint32)
    reports = oracle.report(codes, SeededSource(0))
    assert reports.dtype == np.uint64
    assert (reports[:, 1] == oracle.hash_family(reports[:, 0], codes)).all()
    assert len(set(reports[:, 0])) > 990
    noisy = LocalHashing(k, 1.0, n_buckets=5)
    reports = noisy.report(np.repeat(codes, 40), SeededSource(1))
    honest = reports[:, 1] == noisy.hash_family(reports[:, 0], np.repeat(codes, 40))
    assert honest.mean() == pytest.approx(float(RandomizedResponse(5, 1.0).p), abs=0.013)


@pytest.mark.parametrize(
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
def test_reports_of_another_oracle_raise_an_error(reports):
    oracle = LocalHashing(10, 1.0, n_buckets=4)
    for read in (oracle.tally, oracle.supports, oracle.unbiased):
        with pytest.raises(ValueError, match="`reports` must"):
            read(reports)
