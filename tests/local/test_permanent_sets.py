"""Permanent sets: the exact law of subset selection, by enumeration of what the digests may give."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import combinations, permutations, product

import numpy as np
import pytest

import skdp.oracles._subset_selection as module
from skdp.local.memo import keyed_digests
from skdp.oracles import SubsetSelection
from skdp.randomness import ONE
from tests.conftest import each

KEY = bytes(range(32))
LARGEST = 2**32 - 1


@pytest.fixture
def scripted(monkeypatch):
    """Let a digest be a key into a table of streams: the coin, and words plane by plane."""
    streams = {}

    class Stream:
        def __init__(self, digest):
            self.coin, self.planes = streams[digest]

        def digest(self, size):
            words = np.concatenate([np.asarray(plane, ">u4") for plane in self.planes])
            whole = self.coin.to_bytes(8, "big") + words.tobytes()
            assert size <= len(whole), "the script is too short"
            return whole[:size]

    monkeypatch.setattr(module.hashlib, "shake_256", Stream)

    def draw(oracle, code, scripts):
        streams.clear()
        streams.update({b"%d" % number: script for number, script in enumerate(scripts)})
        codes = np.full(len(scripts), code, np.uint8)
        return [tuple(row) for row in oracle._draw_keyed(codes, list(streams)).tolist()]

    return draw


def coins(oracle):
    """Give the last coin that is a lie, and the first that is not."""
    lies = int(oracle.lie * ONE)
    return lies - 1, lies


SHAPES = [(k, size) for k in range(2, 6) for size in range(1, k)]


class TestLaw:
    @each("rank_first", [0, 1])
    @each("k, size", SHAPES)
    def test_over_all_orders_it_is_the_channel(self, scripted, k, size, rank_first):
        """All orders of the values' numbers are equally likely, and the coin has 64 bits: nothing else is drawn.

        The numbers start at 0, where a true value that comes first has its place too, or at 1.
        """
        oracle = SubsetSelection(k, 1.0, subset_size=size)
        orders = [(np.array(order) + rank_first,) * 8 for order in permutations(range(k))]
        sets = [tuple(int(v in members) for v in range(k)) for members in combinations(range(k), size)]
        shares = [oracle.lie, 1 - oracle.lie]
        for code, row in enumerate(oracle.channel()):
            found = dict.fromkeys(sets, Fraction(0))
            for coin, share in zip(coins(oracle), shares, strict=True):
                drawn = scripted(oracle, code, [(coin, planes) for planes in orders])
                for members, times in Counter(drawn).items():
                    found[members] += share * Fraction(times, len(orders))
            assert [found[members] for members in sets] == row

    @pytest.mark.parametrize("plane", [0, LARGEST])
    @pytest.mark.parametrize(("k", "size"), SHAPES)
    def test_where_words_are_equal_the_next_ones_decide(self, scripted, k, size, plane):
        oracle = SubsetSelection(k, 1.0, subset_size=size)
        tied = [np.full(k, plane)] * 3
        for code, coin in product(range(k), coins(oracle)):
            # Three planes that say nothing, then an order; against the order alone.
            orders = [np.array(order) for order in permutations(range(1, k + 1))]
            late = scripted(oracle, code, [(coin, [*tied, *[order] * 5]) for order in orders])
            assert late == scripted(oracle, code, [(coin, [order] * 8) for order in orders])

    def test_all_words_of_two_bits(self, scripted):
        """Every pair of planes of two-bit words: ties of every kind, decided in the third plane."""
        oracle = SubsetSelection(3, 1.0, subset_size=2)
        planes = [np.array(words) for words in product(range(2), repeat=3)]
        last = np.array([2, 0, 1])
        for coin, first in zip(coins(oracle), (None, 1), strict=True):
            scripts = list(product(planes, repeat=2))
            drawn = scripted(oracle, 1, [(coin, [*pair, last, last]) for pair in scripts])
            for pair, bits in zip(scripts, drawn, strict=True):
                keys = [(v != first, *(plane[v] for plane in (*pair, last))) for v in range(3)]
                assert bits == tuple(int(key <= sorted(keys)[1]) for key in keys)

    @pytest.mark.parametrize("epsilon", [1e-300, 700.0])
    def test_coins_at_the_ends(self, scripted, epsilon):
        oracle = SubsetSelection(4, epsilon, subset_size=1)
        order = [np.array([2, 1, 3, 4])] * 2
        for coin in (0, ONE - 1):
            (bits,) = scripted(oracle, 3, [(coin, order)])
            assert bits == ((0, 1, 0, 0) if coin < oracle.lie * ONE else (0, 0, 0, 1))

    def test_a_mutant_that_takes_all_tied_values_is_noticed(self, scripted, monkeypatch):
        oracle = SubsetSelection(3, 1.0, subset_size=1)
        monkeypatch.setattr(module, "_untied", lambda digest, k, size, first: np.ones(k, bool))
        (bits,) = scripted(oracle, 0, [(0, [[5, 5, 7], [1, 2, 3]])])
        assert sum(bits) > oracle.subset_size


class TestRecords:
    @each("k", [2, 5, 100, 70_000])
    def test_a_record_has_its_set_whoever_else_is_in_the_call(self, k):
        n = 3 if k > 1_000 else 1_500
        oracle = SubsetSelection(k, 1.0)
        codes = np.random.default_rng(0).integers(0, k, n).astype(np.uint32)
        digests = keyed_digests(KEY, ("test",), [b"%d" % row for row in range(n)])
        whole = oracle._draw_keyed(codes, digests)
        assert (whole.sum(axis=1) == oracle.subset_size).all()
        assert np.array_equal(oracle._draw_keyed(codes[::-1], digests[::-1])[::-1], whole)
        assert np.array_equal(oracle._draw_keyed(codes[1:2], digests[1:2]), whole[1:2])
        assert oracle._draw_keyed(codes[:0], []).shape == (0, k)

    def test_many_sets_have_the_frequencies_that_they_should_have(self):
        """30,000 records: beyond 5.5 standard errors at most once in 10**6 for 100 values."""
        oracle, n = SubsetSelection(100, 1.0), 30_000
        sets = oracle._draw_keyed(np.full(n, 7, np.uint8), keyed_digests(KEY, ("test",), [b"%d" % i for i in range(n)]))
        expected = np.array([float(oracle.p if value == 7 else oracle.q) for value in range(100)])
        z = (sets.mean(axis=0) - expected) / np.sqrt(expected * (1 - expected) / n)
        assert np.abs(z).max() < 5.5
