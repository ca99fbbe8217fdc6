from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2_contingency, chisquare

import skdp.randomness._subsets as module
from skdp.randomness import SecureSource, SeededSource, subsets
from skdp.randomness._subsets import _counts, _from_coins, _patterns
from tests.conftest import each, often

FALSE_ALARM = 1e-6


@pytest.fixture(params=["patterns", "coins"])
def way(request, monkeypatch):
    monkeypatch.setattr(module, "_MANY", 0 if request.param == "patterns" else 1 << 40)
    return request.param


def members(packed, n_cells):
    bits = np.unpackbits(packed, axis=1)
    assert bits.shape[1] > n_cells
    assert not bits[:, n_cells:].any()
    return bits[:, :n_cells]


@each("n_cells", [1, 2, 15, 16, 17, 31, 33, 64, 99, 127, 128, 300, 1023, 4097])
@each("n", [0, 1, 60])
def test_sets_have_their_sizes(way, n_cells, n):
    for least in {0, n_cells // 4, n_cells // 2, n_cells - 1}:
        more = np.arange(n) % 3 == 0
        packed = subsets(SeededSource(n_cells, least), n_cells, least, more)
        assert packed.dtype == np.uint8
        assert (members(packed, n_cells).sum(axis=1, dtype=int) == least + more).all()


@each("n_cells, least", [(10, 10), (10, -1), (0, 0)])
def test_sizes_that_no_sets_have_are_refused(n_cells, least):
    with pytest.raises(ValueError, match="least must be between 0 and"):
        subsets(SecureSource(), n_cells, least, np.zeros(1, bool))


# Up to two whole words of cells and a rest; 8 of 9 is drawn as the complement of a set.
SETS = [(5, 1), (9, 8), (16, 2), (17, 2), (18, 1), (33, 1), (35, 1), (70, 0), (12, 5)]


@pytest.mark.parametrize("shape", often(SETS, [(9, 8), (18, 1), (35, 1)]))
def test_all_sets_of_a_size_are_equally_likely(way, shape):
    n_cells, least = shape
    n = 80_000  # more than a block
    more = np.arange(n) % 2 == 1
    bits = members(subsets(SeededSource("sets", n_cells, least, way), n_cells, least, more), n_cells)
    for extra in (0, 1):
        size = least + extra
        order = {sum(1 << cell for cell in cells): i for i, cells in enumerate(combinations(range(n_cells), size))}
        some = bits[more == extra].astype(object if n_cells > 62 else np.int64)
        places = np.array([order[key] for key in (some @ [1 << cell for cell in range(n_cells)]).tolist()])
        seen = np.bincount(places, minlength=len(order))
        assert len(order) == 1 or chisquare(seen).pvalue > FALSE_ALARM
        # Sets that follow each other have nothing to do with each other.
        if len(order) > 7:
            pairs = np.zeros((7, 7), int)
            np.add.at(pairs, (places[:-1] % 7, places[1:] % 7), 1)
            assert chi2_contingency(pairs).pvalue > FALSE_ALARM


@each("n_cells, least", [(16, 3), (17, 0), (20, 9), (37, 5), (64, 20), (99, 26)])
def test_numbers_of_members_are_hypergeometric(n_cells, least):
    for table, cells in zip(_counts(n_cells, least), range(n_cells, 15, -16), strict=True):
        for missing, row in enumerate(table._weights):
            ways = [
                math.comb(16, count) * math.comb(cells - 16, missing - count) for count in range(min(16, missing) + 1)
            ]
            assert sum(ways) == math.comb(cells, missing)
            assert [Fraction(w, sum(row)) for w in row[: len(ways)]] == [Fraction(w, sum(ways)) for w in ways]
            assert not any(row[len(ways) :])
        assert len(table._weights) > min(least, cells)
        assert (table._values == np.arange(17)).all()


@pytest.mark.parametrize("n_cells", [1, 3, 8, 11, 16])
def test_every_word_stands_for_a_pattern_as_often_as_any_other_word_for_another(n_cells):
    table = _patterns(n_cells).reshape(n_cells + 1, 1 << 16)
    for size, row in enumerate(table):
        fitting = row[np.bitwise_count(row) == size]
        patterns, counts = np.unique(fitting, return_counts=True)
        assert patterns.size == math.comb(n_cells, size)
        assert not np.unpackbits(patterns.astype("<u2")[:, np.newaxis].view(np.uint8), axis=1)[:, n_cells:].any()
        assert set(counts.tolist()) == {(1 << 16) // patterns.size}


def test_words_that_stand_for_no_pattern_are_drawn_again(scripted_source):
    """Of 16 cells with 8 members, 65,536 = 5 × 12,870 + 1,186 words; and with 16, the pattern of ones is one."""
    words = np.array([0, 5 * 12_870 - 1, 5 * 12_870, 65_535, 65_535], "<u2")
    again = np.array([65_535, 12_869], "<u2")
    source = scripted_source(words.view(np.uint8), again.view(np.uint8), np.array([1], "<u2").view(np.uint8))
    drawn = module._draw_patterns(source, 16, np.array([8, 8, 8, 8, 16], np.uint8))
    of_eight = [pattern for pattern in range(1 << 16) if pattern.bit_count() == 8]
    assert drawn.byteswap().tolist() == [of_eight[0], of_eight[-1], of_eight[1], of_eight[-1], 65_535]
    assert source.used == source.script.size


@given(st.integers(1, 150), st.data())
def test_from_coins_no_cell_is_special(n_cells, data):
    """Rename the cells: coins and draws that are renamed alike must give the renamed set.

    The coins are independent and alike, the draws uniform, so their joint probability does not change: all sets are
    equally likely.
    """
    least = data.draw(st.integers(0, (n_cells - 1) // 2))
    more = data.draw(st.booleans())
    names = np.array(data.draw(st.permutations(range(n_cells))))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    coins = rng.random((20, n_cells)) < rng.random()
    coins[-1] = False  # the last toss is never too many
    draws = rng.integers(n_cells, size=200_000)
    fair = rng.random(draws.size) < 0.9

    def draw(names):
        tosses, used = iter(coins), 0

        def toss(source, n_cells, least, words):
            cells = np.zeros(words.size * 64, np.uint8)
            cells[names] = next(tosses)
            words[:] = np.packbits(cells).view(np.uint64)
            return words

        def multiply_words(source, high, width, out):
            nonlocal used
            assert high == n_cells
            part = slice(used, used + out.size)
            used += out.size
            out[:] = names[draws[part]]
            return np.where(fair[part], np.uint32(0xFFFF), np.uint32(0))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "_toss", toss)
            patch.setattr(module, "multiply_words", multiply_words)
            words = np.full((1, n_cells // 64 + 1), -1).view(np.uint64)
            _from_coins(None, n_cells, least, np.array([more]), words)
        return members(words.view(np.uint8), n_cells)[0]

    plain = draw(np.arange(n_cells))
    assert plain.sum() == least + more
    assert (draw(names)[names] == plain).all()


@pytest.mark.parametrize("n_cells", [3, 99, 300, 1023])
def test_every_word_adds_each_cell_equally_often_or_none(scripted_source, n_cells):
    every, lasts = np.arange(1 << 16, dtype="<u2"), (1 << 16) % n_cells
    words = np.zeros((every.size, n_cells // 64 + 1), np.uint64)
    source = scripted_source(every.view(np.uint8), filler=255)  # a word of ones adds the last cell
    module._add(source, n_cells, words, np.ones(every.size, np.int32))
    added = members(words.view(np.uint8), n_cells).sum(axis=0, dtype=int)
    added[-1] -= lasts
    assert added.tolist() == [(1 << 16) // n_cells] * n_cells
    assert source.used == 2 * (every.size + lasts)


@each("n_cells, least", [(99, 26), (1023, 274), (300, 2), (64, 31), (63, 20), (65, 20)])
def test_coins_are_independent_and_have_their_share(n_cells, least):
    numerator, digits = module._share(n_cells, least)
    n, share = 40_000_000 // n_cells // 10, numerator / 2**digits
    assert 0 <= share <= least / n_cells
    words = np.full((n, n_cells // 64 + 1), -1).view(np.uint64)
    module._toss(SeededSource("toss", n_cells), n_cells, least, words)
    bits = members(words.view(np.uint8), n_cells).astype(np.float32)
    assert abs(bits.sum(axis=0) - n * share).max() <= 7 * math.sqrt(n * share * (1 - share))
    together = (bits.T @ bits)[np.triu_indices(n_cells, 1)]
    assert abs(together - n * share**2).max() <= 7 * math.sqrt(n * share**2 * (1 - share**2))
