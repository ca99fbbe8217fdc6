from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import skdp.oracles._hashing as module
from skdp.oracles import AffineHash, LinearHash, QuadraticHash
from skdp.randomness import SeededSource
from tests.conftest import each

SMALL, LARGE = 65_521, 2**31 - 1


@pytest.mark.parametrize("g", range(2, 12))
def test_two_values_meet_with_the_stated_probability(monkeypatch, g):
    """All pairs (a, b) of a prime so small that they can be listed."""
    monkeypatch.setattr(module, "_SMALL_PRIME", 11)
    family = AffineHash(11, g)
    seeds = np.array([a << 16 | b for a, b in product(range(11), repeat=2)], np.uint64)
    buckets = family(seeds[:, np.newaxis], np.arange(11))
    for one, other in product(range(11), repeat=2):
        if one != other:
            assert Fraction(int((buckets[:, one] == buckets[:, other]).sum()), 121) == family.collision


@each("k, g, prime", [(4, 3, SMALL), (65_521, 65_521, SMALL), (65_522, 3, LARGE), (9, 4, SMALL)])
def test_the_prime_fits_the_domain(k, g, prime):
    family = AffineHash(k, g)
    assert family.prime == prime
    # Between that of perfectly even buckets and one residue more or less.
    assert Fraction(1, g) <= family.collision <= Fraction(1, g) + Fraction(g, prime**2)


def test_both_numbers_are_prime():
    for number in (SMALL, LARGE):
        assert all(number % divisor for divisor in range(2, int(number**0.5) + 1))


@pytest.mark.parametrize("prime", [SMALL, LARGE])
@given(st.data())
def test_counting_agrees_with_hashing(prime, data):
    g = data.draw(st.integers(2, 300))
    family = AffineHash(40 if prime == SMALL else 70_000, g)
    family.k = 40
    assert family.prime == prime
    extremes = st.sampled_from([0, 1, 2, prime // 2, 1 << 15, prime - 2, prime - 1]) | st.integers(0, prime - 1)
    pairs = data.draw(st.lists(st.tuples(extremes, extremes), min_size=1, max_size=12))
    seeds = np.array([a << (family.seed_bits // 2) | b for a, b in pairs], np.uint64)
    assert family.valid(seeds)
    expected = np.array([[(a * x + b) % prime % g for x in range(40)] for a, b in pairs])
    assert (family(seeds[:, np.newaxis], np.arange(40)) == expected).all()
    buckets = expected[np.arange(len(pairs)), data.draw(st.integers(0, 39))].astype(np.uint64)
    counts = (expected == buckets[:, np.newaxis]).sum(axis=0)
    for times in (1, 50):  # report by report, and value by value
        assert (
            family.count_matches(np.tile(seeds, times), np.tile(buckets, times)).tolist() == (times * counts).tolist()
        )


def test_counting_in_blocks(monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 64)
    family = AffineHash(6, 3)
    seeds = family.draw(SeededSource(0), 1_000)
    buckets = family(seeds, np.full(1_000, 4))
    direct = (family(seeds[:, np.newaxis], np.arange(6)) == buckets[:, np.newaxis]).sum(axis=0)
    assert family.count_matches(seeds, buckets).tolist() == direct.tolist()
    assert direct[4] == 1_000


@pytest.mark.parametrize("k", [10, 70_000])
def test_drawn_seeds_are_valid_and_the_next_ones_are_not(k):
    family = AffineHash(k, 5)
    half = family.seed_bits // 2
    assert family.valid(family.draw(SeededSource(1), 10_000))
    assert family.valid(np.empty(0, np.uint64))
    for a, b in ((family.prime, 0), (0, family.prime), (1 << (63 - half), 0)):
        assert not family.valid(np.array([a << half | b], np.uint64))


def test_hash_values_are_the_same_for_ever():
    """Reports outlive releases: a hash function is part of their format."""
    assert AffineHash(100, 4)(np.array([12_345 << 16 | 54_321] * 5, np.uint64), np.arange(5)).tolist() == [
        1,
        1,
        2,
        3,
        0,
    ]
    coefficients = QuadraticHash.draw(SeededSource(0, "CountMeanSketch"), 2)
    assert coefficients.tolist() == [[1184609339, 399969906, 1438696993], [747796137, 158602518, 2059059117]]


@given(st.lists(st.integers(0, LARGE - 1), min_size=3, max_size=3), st.integers(0, LARGE - 2), st.integers(2, 1 << 20))
def test_quadratic_hashes_are_polynomials(coefficients, value, g):
    family = QuadraticHash(LARGE - 1, g, np.array([coefficients], np.uint64))
    square, linear, constant = coefficients
    expected = (square * value**2 + linear * value + constant) % LARGE % g
    assert int(family(np.array(0), np.array([value]))[0]) == expected


@each("value", [0, 1, LARGE - 2])
@each("coefficient", [0, 1, LARGE - 1])
def test_quadratic_hashes_at_the_ends(value, coefficient):
    family = QuadraticHash(LARGE - 1, LARGE, np.full((1, 3), coefficient, np.uint64))
    expected = coefficient * (value**2 + value + 1) % LARGE
    assert int(family(np.array(0), np.array([value]))[0]) == expected


def test_residues_at_the_ends():
    words = [0, LARGE - 1, LARGE, LARGE + 1, 2 * LARGE, 2**32, 2**62 - 1, 2**62, 2**62 + 2**31 - 1]
    assert module._residues(np.array(words, np.uint64)).tolist() == [word % LARGE for word in words]


@pytest.mark.parametrize("make", [AffineHash, lambda k, g: QuadraticHash(k, g, np.zeros((1, 3), np.uint64))])
def test_domains_beyond_the_prime_are_refused(make):
    with pytest.raises(ValueError, match="at most"):
        make(2**31, 2)


class TestLinearHash:
    @each("n_bits, r", [(1, 1), (4, 1), (3, 2), (2, 3)])
    def test_two_values_collide_with_the_stated_probability(self, n_bits, r):
        """Enumerated: all seeds; and each bucket of two values that are not 0 is as frequent as any other."""
        family = LinearHash(n_bits, r)
        seeds = np.array([*product(range(1 << n_bits), repeat=r)])
        buckets = [family(seeds, value) for value in range(1 << n_bits)]
        for one, other in combinations(range(1 << n_bits), 2):
            assert Fraction(int((buckets[one] == buckets[other]).sum()), len(seeds)) == family.collision
            if one > 0:
                pairs = np.bincount(buckets[one] * family.g + buckets[other], minlength=family.g**2)
                assert (pairs == len(seeds) // family.g**2).all()

    def test_seeds_are_uniform_words(self):
        family = LinearHash(40, 3)
        seeds = family.draw(SeededSource(0), 50_000)
        assert seeds.shape == (50_000, 3)
        assert seeds.max() < 1 << 40
        for place in range(40):
            assert abs(int((seeds >> place & 1).sum()) - 75_000) < 5 * math.sqrt(150_000 / 4)

    @each("n_bits, r, n_tail", [(47, 2, 16), (20, 1, 12), (30, 6, 9), (12, 4, 12), (9, 3, 1)])
    def test_matches_are_counted_as_hashing_says(self, n_bits, r, n_tail):
        family = LinearHash(n_bits, r)
        rng = np.random.default_rng(r)
        seeds = family.draw(SeededSource(r), 200)
        seeds[:2] = [[0] * r, [(1 << n_bits) - 1] * r]
        for head in (0, (1 << n_bits) - (1 << n_tail), int(rng.integers(1 << n_bits - n_tail)) << n_tail):
            own = head + int(rng.integers(1 << n_tail))
            buckets = np.where(np.arange(200) < 100, family(seeds, own), rng.integers(0, family.g, 200))
            counts = family.count_matches(seeds, buckets, head, n_tail)
            assert counts.shape == (1 << n_tail,)
            for tail in {0, 1, (1 << n_tail) - 1, (1 << n_tail) // 3, own - head} & {*range(1 << n_tail)}:
                assert counts[tail] == (family(seeds, head + tail) == buckets).sum()
            assert counts[own - head] >= 100

    def test_reports_are_counted_in_parts(self, monkeypatch):
        family = LinearHash(20, 3)
        rng = np.random.default_rng(0)
        seeds, buckets = family.draw(SeededSource(0), 100), rng.integers(0, family.g, 100)
        at_once = family.count_matches(seeds, buckets, 1 << 12, 10)
        monkeypatch.setattr("skdp.oracles._hashing._TERMS", 1 << 6)
        assert np.array_equal(family.count_matches(seeds, buckets, 1 << 12, 10), at_once)

    @each("n_bits, r, name", [(0, 1, "n_bits"), (63, 1, "n_bits"), (4, 0, "r"), (4, 17, "r")])
    def test_odd_sizes(self, n_bits, r, name):
        with pytest.raises(ValueError, match=f"{name} must be"):
            LinearHash(n_bits, r)
