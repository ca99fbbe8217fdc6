from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from skdp.randomness import ONE, SeededSource, WordTable
from tests.conftest import each, often

TABLES = {
    "one": [[1, 2]],
    "powers of two": [[1, 1, 2], [0, 4, 0]],
    "thirds": [[1, 1, 1], [0, 1, 2], [3, 0, 0]],
    "rare": [[1, ONE**3], [ONE**3, 1]],
    "uneven": [[7] * 11, [1, *[0] * 9, 10**6], [5, 1, 4, 1, 3, 1, 2, 1, 1, 1, 1]],
    "many": [[1 + (row * column) % 13 for column in range(17)] for row in range(28)],
}


@pytest.fixture(params=often(TABLES, [name for name in TABLES if name != "many"]))
def weights(request):
    return TABLES[request.param]


def make(weights):
    return WordTable(weights, np.arange(len(weights[0])))


@each("n_rows, bits", [(1, 16), (2, 15), (4, 14), (8, 13), (16, 12), (17, 12), (300, 12)])
def test_the_first_word_has_the_bits_that_there_is_room_for(n_rows, bits):
    assert make([[1, 2]] * n_rows).bits == bits


def test_the_digits_are_those_of_the_probabilities(weights):
    table = make(weights)
    total = sum(table.digits(place).astype(object) * Fraction(1, 1 << (table.bits + 16 * place)) for place in range(12))
    for row, sums in zip(weights, total, strict=True):
        for weight, share in zip(row, sums, strict=True):
            assert 0 <= Fraction(weight, sum(row)) - share < Fraction(1, 1 << (table.bits + 16 * 11))


def test_every_pair_of_words_gives_every_outcome_as_often_as_it_should(weights, scripted_source, monkeypatch):
    """All first words, and behind those that settle nothing all second ones; what is open then is counted too.

    The first two digits of a probability say how many of the pairs stand for an outcome.
    """
    table, seconds = make(weights), np.arange(1 << 16, dtype="<u2").view(np.uint8)
    followed = []
    monkeypatch.setattr(table, "_follow", lambda source, row, left: followed.append((row, left)) or 0)
    firsts = np.arange(1 << table.bits, dtype="<u2")

    def rows(size):
        return np.full(size, row, np.uint8) if len(weights) > 1 else None

    for row in range(len(weights)):
        source = scripted_source(firsts.view(np.uint8), filler=0)
        drawn = table.draw(source, firsts.size, rows(firsts.size))
        settled = 2 * firsts.size - source.used // 2
        assert settled == min(table.digits(0).sum(axis=1)), "the rows differ in how often a second word is drawn"
        pairs = np.bincount(drawn[:settled], minlength=len(weights[0])) << 16
        followed.clear()
        for first in firsts[settled:]:
            source = scripted_source(np.full(1 << 16, first, "<u2").view(np.uint8), seconds)
            drawn = table.draw(source, 1 << 16, rows(1 << 16))
            pairs += np.bincount(drawn, minlength=len(weights[0]))
            assert source.used == source.script.size
        pairs[0] -= len(followed)
        expected = [(weight << (table.bits + 16)) // sum(weights[row]) for weight in weights[row]]
        assert pairs.tolist() == expected
        assert followed == [(row, left) for left in range((1 << (table.bits + 16)) - sum(expected))]


def test_long_ties_follow_the_digits_place_by_place(weights, scripted_source):
    """A reference in plain integers: at each place, as many values stand for an outcome as its digit says."""
    table, rng = make(weights), np.random.default_rng(0)
    places = [table.digits(place).tolist() for place in range(14)]
    for row in range(len(weights)):
        shift = table.bits + 16
        n_open = (1 << shift) - sum((weight << shift) // sum(weights[row]) for weight in weights[row])
        for start in rng.integers(n_open, size=60).tolist() if n_open else []:
            words = rng.choice([0, 65_534, 65_535, 65_535, int(rng.integers(1 << 16))], 12).tolist()
            left, expected = start, None
            for place, word in enumerate(words, 2):
                left = (left << 16) + word
                bounds = np.cumsum(places[place][row])
                if left < bounds[-1]:
                    expected = int(np.flatnonzero(left < bounds)[0])
                    break
                left -= int(bounds[-1])
            if expected is None:
                continue  # longer than this reference
            source = scripted_source(np.array(words, "<u2").view(np.uint8))
            assert table._follow(source, row, start) == expected
            assert source.used == 2 * (place - 1)


@each("values", [np.array([5, 7], np.uint16), np.array([[0, 1, 2], [3, 4, 5]], np.uint8)])
@each("size", [0, 1, 70_000])
def test_values_of_any_shape_are_drawn(values, size):
    drawn = WordTable([[1, 2]], values).draw(SeededSource(0), size)
    assert drawn.dtype == values.dtype
    assert drawn.shape == (size, *values.shape[1:])
    assert np.isin(drawn, values).all()
