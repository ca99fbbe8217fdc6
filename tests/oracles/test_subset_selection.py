from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import chain, combinations
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

import skdp.oracles._subset_selection as module
from skdp.exact import exp_bounds
from skdp.oracles import SubsetSelection
from skdp.randomness import ONE, SeededSource

SIZES = [(k, size) for k in range(2, 9) for size in range(1, k)]


def test_every_set_keeps_the_promise(check_channel, epsilon):
    for k, size in SIZES:
        oracle = SubsetSelection(k, epsilon, subset_size=size)
        assert check_channel(oracle, oracle.channel(), epsilon) == oracle.worst_ratio
        assert oracle.epsilon == pytest.approx(min(epsilon, math.log(1 + Fraction(k, size) * (ONE - 1))), rel=1e-3)


@pytest.mark.parametrize("epsilon", [1e-300, 1e-19, 1e-12, 1.0, 40.0])
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
@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 2.0, 4.0, 8.0])
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


@pytest.fixture
def built(monkeypatch):
    """Draw cell by cell even where a table would do."""
    monkeypatch.setattr(module, "_TABLE_BYTES", 0)


@given(st.integers(2, 9), st.data())
def test_cell_by_cell_no_other_value_is_special(k, data):
    """Rename the other values: bytes and integers that are renamed alike must give the renamed set.

    The bytes of the cells are independent and alike, the integers uniform, so their joint probability does not change:
    all sets with the own bit as it is are equally likely.
    """
    value = data.draw(st.integers(0, k - 1))
    oracle = SubsetSelection(k, 1.0, subset_size=data.draw(st.integers(1, k - 1)))
    others = [other for other in range(k) if other != value]
    names = np.arange(k)
    names[others] = data.draw(st.permutations(others))
    lie = data.draw(st.booleans())
    first = data.draw(st.sampled_from([0, k - 1]))  # a lie holds the own value if this is below the size
    coins = np.array(data.draw(st.lists(st.integers(0, 255), min_size=k, max_size=k)), np.uint8)
    integers = np.random.default_rng(data.draw(st.integers(0, 99))).integers(0, k, 100_000)

    def draw(names):
        cells = np.empty_like(coins)
        cells[names] = coins
        source = SimpleNamespace(bytes=lambda size: cells)
        calls = chain([first], names[integers])
        bits = np.empty((1, k), np.uint8)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "bernoulli", lambda source, threshold, size: np.full(size, lie))
            patch.setattr(module, "uniform_integers", lambda source, high, size: np.array([next(calls)]))
            oracle._build(bits, np.array([value]), source)
        return bits[0]

    plain = draw(np.arange(k))
    assert plain.sum() == oracle.subset_size
    assert plain[value] == (not lie or first < oracle.subset_size)
    assert (draw(names)[names] == plain).all()


def test_cell_by_cell_the_own_bit_has_its_probability(monkeypatch):
    """Every first integer, with and without a lie."""
    for k, size in SIZES:
        oracle = SubsetSelection(k, 1.0, subset_size=size)
        for value in (0, k - 1):
            held = {}
            for lying in (True, False):
                monkeypatch.setattr(module, "bernoulli", lambda source, threshold, n, lying=lying: np.full(n, lying))
                rest = np.random.default_rng(0)
                calls = []

                def uniform_integers(source, high, n, calls=calls, rest=rest):
                    calls.append(n)
                    return np.arange(high) if len(calls) == 1 else rest.integers(0, high, n)

                monkeypatch.setattr(module, "uniform_integers", uniform_integers)
                bits = np.empty((k, k), np.uint8)
                oracle._build(bits, np.full(k, value), SeededSource("own", k, size))
                assert (bits.sum(axis=1) == size).all()
                held[lying] = int(bits[:, value].sum())
            assert oracle.lie * Fraction(held[True], k) + (1 - oracle.lie) * Fraction(held[False], k) == oracle.p


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 4.0])
@pytest.mark.parametrize(("k", "size"), [(2, 1), (4, 2), (5, 1), (6, 2), (6, 5)])
@pytest.mark.parametrize("way", ["table", "cells"])
def test_sets_follow_the_channel(request, epsilon, k, size, way):
    if way == "cells":
        request.getfixturevalue("built")
    n = 40_000
    oracle = SubsetSelection(k, epsilon, subset_size=size)
    order = {members: place for place, members in enumerate(combinations(range(k), size))}
    places = np.array([order.get(tuple(v for v in range(k) if code >> v & 1), -1) for code in range(1 << k)])
    for value in range(k):
        bits = oracle.report(np.full(n, value, np.uint8), SeededSource("sets", value, way))
        seen = np.bincount(places[bits @ (1 << np.arange(k))], minlength=len(order))
        expected = np.array([float(share) for share in oracle.channel()[value]]) * n
        assert chisquare(seen, expected).pvalue > 1e-6


@pytest.mark.parametrize(("k", "size"), [(300, 2), (300, 80), (255, 254), (256, 255), (257, 256), (1000, 3)])
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


def test_chunks_change_nothing_but_where_they_end(monkeypatch):
    monkeypatch.setattr(module, "_CELLS", 100)
    for table in (0, 1 << 18):
        monkeypatch.setattr(module, "_TABLE_BYTES", table)
        bits = SubsetSelection(7, 1.0).report((np.arange(95) % 7).astype(np.uint8), SeededSource(table))
        assert (bits.sum(axis=1) == SubsetSelection(7, 1.0).subset_size).all()


def test_a_channel_of_too_many_sets_is_refused():
    with pytest.raises(ValueError, match=r"2\*\*16 reports"):
        SubsetSelection(40, 1).channel()


@pytest.mark.parametrize(("size", "error"), [(0, ValueError), (4, ValueError), (1.0, TypeError), (True, TypeError)])
def test_sizes_out_of_range_are_refused(size, error):
    with pytest.raises(error):
        SubsetSelection(4, 1.0, subset_size=size)
