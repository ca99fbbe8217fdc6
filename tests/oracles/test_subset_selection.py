from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

import skdp.oracles._subset_selection as module
import skdp.randomness._subsets as randomness
from skdp.exact import exp_bounds
from skdp.oracles import SubsetSelection
from skdp.randomness import ONE, SeededSource
from tests.conftest import each

SIZES = [(k, size) for k in range(2, 9) for size in range(1, k)]


def test_every_set_keeps_the_promise(check_channel, epsilon):
    for k, size in SIZES:
        oracle = SubsetSelection(k, epsilon, subset_size=size)
        assert check_channel(oracle, oracle.channel(), epsilon) == oracle.worst_ratio
        assert oracle.epsilon == pytest.approx(min(epsilon, math.log(1 + Fraction(k, size) * (ONE - 1))), rel=1e-3)


@each("epsilon", [1e-300, 1e-19, 1e-12, 1.0, 40.0])
def test_no_smaller_probability_of_a_lie_keeps_the_promise(epsilon):
    for k, size in SIZES:
        oracle = SubsetSelection(k, epsilon, subset_size=size)
        assert oracle.worst_ratio <= exp_bounds(epsilon)[0]
        less = oracle.lie - Fraction(1, ONE)
        assert less == 0 or 1 + Fraction(k, size) * (1 - less) / less > exp_bounds(epsilon)[1]


def test_probabilities_are_those_of_the_channel():
    for k, size in SIZES:
        oracle = SubsetSelection(k, 1.0, subset_size=size)
        sets = list(combinations(range(k), size))
        row = oracle.channel()[0]
        assert oracle.p == sum(share for share, members in zip(row, sets, strict=True) if 0 in members)
        assert oracle.q == sum(share for share, members in zip(row, sets, strict=True) if 1 in members)


@pytest.mark.parametrize("k", [2, 3, 4, 7, 14, 40, 100])
@each("epsilon", [0.01, 0.5, 1.0, 2.0, 4.0, 8.0])
def test_the_size_is_the_best_one(k, epsilon):
    errors = [SubsetSelection(k, epsilon, subset_size=size).mean_squared_error for size in range(1, k)]
    assert SubsetSelection(k, epsilon).mean_squared_error == min(errors)


@pytest.mark.parametrize(("k", "size"), SIZES)
def test_the_table_gives_exactly_the_channel(monkeypatch, k, size):
    """All integers that are drawn, with and without a lie: no place of the row is special but by its value."""
    oracle = SubsetSelection(k, 1.0, subset_size=size)
    total = math.comb(k, size) * size
    sets = list(combinations(range(k), size))

    def every_integer(source, high, n):
        assert (high, n) == (total, total)
        return np.arange(total, dtype=np.uint32)

    monkeypatch.setattr(module, "uniform_integers", every_integer)
    for value in range(k):
        seen = {}
        for lying in (True, False):
            monkeypatch.setattr(
                module,
                "bernoulli",
                lambda source, threshold, n, lying=lying: (
                    np.full(n, lying) if threshold == oracle.lie * ONE else pytest.fail("another coin")
                ),
            )
            bits = oracle.report(np.full(total, value, np.uint8), None)
            seen[lying] = Counter(tuple(np.flatnonzero(row)) for row in bits)
        for share, members in zip(oracle.channel()[value], sets, strict=True):
            mixed = oracle.lie * seen[True][members] + (1 - oracle.lie) * seen[False][members]
            assert mixed / total == share


@pytest.fixture(params=["table", "patterns", "coins"])
def way(request, monkeypatch):
    """Draw sets from a table of all, or as `subsets` does where there are many, or where there are few."""
    if request.param != "table":
        monkeypatch.setattr(module, "_TABLE_BYTES", 0)
        monkeypatch.setattr(randomness, "_MANY", 0 if request.param == "patterns" else 1 << 40)
    return request.param


@given(st.integers(2, 70), st.data())
def test_the_last_value_stands_in_for_the_true_one(k, data):
    """The own bit is one coin of p, and the sets of k - 1 others become the sets of all other values, one to one."""
    oracle = SubsetSelection(k, 1.0, subset_size=data.draw(st.integers(1, k - 1)))
    codes = np.array(data.draw(st.lists(st.integers(0, k - 1), min_size=1, max_size=6)), np.uint8)
    own = np.array(data.draw(st.lists(st.booleans(), min_size=codes.size, max_size=codes.size)))
    others = np.random.default_rng(data.draw(st.integers(0, 99))).integers(0, 2, (codes.size, k - 1), np.uint8)

    def bernoulli_ratio(source, numerator, denominator, n):
        assert Fraction(numerator, denominator) == oracle.p
        assert n == codes.size
        return own

    def subsets(source, n_cells, least, more):
        assert (n_cells, least) == (k - 1, oracle.subset_size - 1)
        assert (more == ~own).all()
        return np.packbits(np.pad(others, ((0, 0), (0, 9))), axis=1)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "bernoulli_ratio", bernoulli_ratio)
        patch.setattr(module, "subsets", subsets)
        patch.setattr(module, "_TABLE_BYTES", 0)
        bits = oracle.report(codes, None)
    for code, mine, rest, row in zip(codes, own, others, bits, strict=True):
        renamed = [*rest.tolist(), None]
        renamed[-1], renamed[code] = renamed[code], mine
        assert row.tolist() == renamed


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 4.0])
@pytest.mark.parametrize(("k", "size"), [(2, 1), (4, 2), (5, 1), (6, 2), (6, 5), (18, 1), (19, 2), (35, 34)])
def test_sets_follow_the_channel(way, epsilon, k, size):
    n = 40_000
    oracle = SubsetSelection(k, epsilon, subset_size=size)
    order = {sum(1 << v for v in members): place for place, members in enumerate(combinations(range(k), size))}
    channel = np.array([[float(share) for share in row] for row in oracle.channel()])
    codes = (np.arange(n * 3) % 3 * (k - 1) // 2).astype(np.uint8)  # the first value, one between, and the last
    bits = oracle.report(codes, SeededSource("sets", way))
    seen = np.array([order[key] for key in (bits @ (1 << np.arange(k))).tolist()])
    for value in {0, (k - 1) // 2, k - 1}:
        mine = codes == value
        observed = np.bincount(seen[mine], minlength=len(order))
        assert chisquare(observed, channel[value] * mine.sum()).pvalue > 1e-6
    # Reports that follow each other have nothing to do with each other.
    pairs = np.bincount(seen[:-1:3] % 5 * 5 + seen[1::3] % 5, minlength=25)
    first, second = (np.bincount(np.arange(len(order)) % 5, channel[c], minlength=5) for c in codes[:2])
    expected = np.outer(first, second).ravel() * n
    assert chisquare(pairs[expected > 0], expected[expected > 0]).pvalue > 1e-6


@each("epsilon", [1e-9, 700.0])
@each("k", [2, 20, 100])
def test_extreme_epsilons_are_drawn(way, epsilon, k):
    n = 6_000
    for size in (1, k // 2, k - 1):
        oracle = SubsetSelection(k, epsilon, subset_size=size)
        codes = (np.arange(n) % k).astype(np.int64)
        if way == "table" and math.comb(k, size) > 10_000:
            continue  # it has no table
        bits = oracle.report(codes, SeededSource("extreme", k, size, way))
        assert (bits.sum(axis=1) == size).all()
        held, p = bits[np.arange(n), codes].sum(), float(oracle.p)
        assert abs(held - n * p) <= 6 * math.sqrt(n * p * (1 - p))
        q = (size - p) / (k - 1)
        bits[np.arange(n), codes] = 0
        m = n - n / k
        assert abs(bits.sum(axis=0) - m * q).max() <= 6 * math.sqrt(m * q * (1 - q)) + 1


@each("k, size", [(300, 2), (300, 80), (255, 254), (256, 255), (257, 256), (1000, 3)])
def test_large_sets_have_their_size_and_hold_what_they_should(k, size):
    n = 3_000
    oracle = SubsetSelection(k, 2.0, subset_size=size)
    codes = (np.arange(n) % k).astype(np.uint16)
    bits = oracle.report(codes, SeededSource("large", k))
    assert (bits.sum(axis=1) == size).all()
    assert bits.max() == 1
    held = bits[np.arange(n), codes].sum()
    p, q = float(oracle.p), float(oracle.q)
    assert abs(held - n * p) <= 5 * math.sqrt(n * p * (1 - p)) + 1
    shares = bits.sum(axis=0)
    assert abs(shares - n * q).max() <= 6 * math.sqrt(n * q * (1 - q)) + n / k + 1


def test_chunks_change_nothing_but_where_they_end(way, monkeypatch):
    monkeypatch.setattr(module, "_CELLS", 100)
    monkeypatch.setattr(randomness, "_TOGETHER", 10)
    oracle = SubsetSelection(7, 1.0)
    bits = oracle.report((np.arange(95) % 7).astype(np.uint8), SeededSource(way))
    assert (bits.sum(axis=1) == oracle.subset_size).all()


def test_a_channel_of_too_many_sets_is_refused():
    with pytest.raises(ValueError, match=r"2\*\*16 reports"):
        SubsetSelection(40, 1).channel()


@each("size, error", [(0, ValueError), (4, ValueError), (1.0, TypeError), (True, TypeError)])
def test_sizes_out_of_range_are_refused(size, error):
    with pytest.raises(error):
        SubsetSelection(4, 1.0, subset_size=size)
