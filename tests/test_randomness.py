from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from skdp.randomness import BLOCK, ONE, SecureSource, SeededSource, bernoulli, categorical, uniform_integers

FALSE_ALARM = 1e-6
THRESHOLDS = [0, 1, ONE // 3, ONE // 2, math.ceil(ONE * 0.3), (255 << 56) + 12345, ONE - 1, ONE]


@pytest.mark.parametrize("threshold", THRESHOLDS)
@pytest.mark.parametrize("filler", [0, 255])
def test_a_coin_compares_its_bytes_with_the_threshold_for_every_pair_of_bytes(scripted_source, threshold, filler):
    heads = 0
    for pair in range(1 << 16):
        high, low = divmod(pair, 256)
        word = (high << 56) + (low << 48) + int.from_bytes(bytes([filler] * 6), "big")
        coin = bernoulli(scripted_source([high, low], filler=filler), threshold, 1)[0]
        assert coin == (word < threshold)
        heads += int(coin)
    assert heads in (threshold >> 48, (threshold >> 48) + 1)


def test_ties_are_resolved_within_a_batch(scripted_source):
    threshold = (7 << 56) + (9 << 48)
    first = [7, 0, 7, 8, 7]
    second = [8, 9, 10]
    third = [0]
    source = scripted_source(first, second, third, filler=0)
    assert bernoulli(source, threshold, 5).tolist() == [True, True, False, False, False]
    assert bernoulli(scripted_source(first, second, [1], filler=0), threshold, 5).tolist()[2] is False


def test_a_tie_of_all_eight_bytes_is_not_below(scripted_source):
    digits = [1, 2, 3, 4, 5, 6, 7, 8]
    threshold = int.from_bytes(bytes(digits), "big")
    assert not bernoulli(scripted_source(digits), threshold, 1)[0]
    assert bernoulli(scripted_source(digits), threshold + 1, 1)[0]


@pytest.mark.parametrize("threshold", [-1, ONE + 1])
def test_a_threshold_out_of_range_is_refused(threshold):
    with pytest.raises(ValueError, match="threshold"):
        bernoulli(SecureSource(), threshold, 1)


@pytest.mark.parametrize("high", [1, 2, 4, 64, 256])
def test_bytes_split_evenly_into_powers_of_two(scripted_source, high):
    drawn = uniform_integers(scripted_source(np.arange(256)), high, 256)
    assert np.bincount(drawn, minlength=high).tolist() == [256 // high] * high


@pytest.mark.parametrize("high", [3, 5, 100, 255])
def test_every_word_gives_each_integer_equally_often_or_is_drawn_again(scripted_source, high):
    words = np.arange(1 << 16, dtype="<u2")
    kept = (words.astype(np.uint64) * high & 0xFFFF) >= (1 << 16) % high
    redrawn = int((~kept).sum())
    assert redrawn == (1 << 16) % high
    # Words that are drawn again get a zero first, which is drawn again too, then a word that is accepted.
    again, accepted = np.zeros(redrawn, "<u2"), np.full(redrawn, 0xFFFF, "<u2")
    source = scripted_source(*(part.view(np.uint8) for part in (words, again, accepted)))
    drawn = uniform_integers(source, high, 1 << 16)
    assert source.used == source.script.size
    assert np.bincount(drawn[kept], minlength=high).tolist() == [(1 << 16) // high] * high
    assert set(drawn[~kept].tolist()) <= {high - 1}


@pytest.mark.parametrize("high", [257, 1000, 65_536, 65_537, 1_000_000, 2**32])
def test_larger_integers_are_uniform(high):
    drawn = uniform_integers(SeededSource(high), high, 400_000)
    assert drawn.dtype == np.min_scalar_type(high - 1)
    counts, _ = np.histogram(drawn, bins=64, range=(0, high))
    # Bins of unequal width: expected by how many integers fall into each.
    edges = np.ceil(np.linspace(0, high, 65))
    expected = np.diff(edges) / high * drawn.size
    assert chisquare(counts, expected).pvalue > FALSE_ALARM


@pytest.mark.parametrize("high", [0, -1, 2**32 + 1])
def test_a_range_that_cannot_be_drawn_is_refused(high):
    with pytest.raises(ValueError, match="high"):
        uniform_integers(SecureSource(), high, 1)


def test_categories_follow_their_weights_at_every_boundary(scripted_source):
    weights = [5, 0, ONE // 2, ONE // 2 - 5, 0]
    words = np.array([0, 4, 5, ONE // 2 + 4, ONE // 2 + 5, ONE - 1], dtype="<u8")
    drawn = categorical(scripted_source(words.view(np.uint8)), weights, words.size)
    assert drawn.tolist() == [0, 0, 2, 2, 3, 3]


@pytest.mark.parametrize("weights", [[ONE], [ONE, 0], [0, ONE], [0, ONE, 0]])
def test_a_certain_category_is_always_drawn(scripted_source, weights):
    words = np.array([0, 1, ONE - 1], dtype="<u8")
    drawn = categorical(scripted_source(words.view(np.uint8)), weights, 3)
    assert set(drawn.tolist()) == {weights.index(ONE)}


@pytest.mark.parametrize("weights", [[ONE - 1], [ONE, 1], [-1, ONE + 1], []])
def test_weights_that_are_no_distribution_are_refused(weights):
    with pytest.raises(ValueError, match="weights"):
        categorical(SecureSource(), weights, 1)


@given(st.integers(1, ONE - 1))
def test_coins_have_the_probability_of_their_threshold(threshold):
    n = 20_000
    heads = int(bernoulli(SeededSource("coins", threshold), threshold, n).sum())
    share = Fraction(threshold, ONE)
    # Hoeffding: beyond this distance at most once in 10**6 examples.
    assert abs(heads / n - share) <= math.sqrt(math.log(2 / 1e-8) / (2 * n))


@pytest.mark.parametrize("size", [0, 1, 7, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 5])
def test_sources_give_as_many_bytes_as_asked(size):
    for source in (SecureSource(), SeededSource(1)):
        assert source.bytes(size).shape == (size,)
        assert source.bytes(size).dtype == np.uint8
    assert bernoulli(SecureSource(), ONE // 2, size).shape == (size,)
    assert uniform_integers(SecureSource(), 100, size).shape == (size,)


def test_every_byte_value_is_equally_likely():
    for source in (SecureSource(), SeededSource(2)):
        counts = np.bincount(source.bytes(1_000_000), minlength=256)
        assert chisquare(counts).pvalue > FALSE_ALARM


def test_a_seeded_stream_advances_replays_and_differs_by_key():
    first = SeededSource(0, "Class", 3)
    again = SeededSource(0, "Class", 3)
    beginning = first.bytes(64).tolist()
    assert beginning == again.bytes(64).tolist()
    assert beginning != first.bytes(64).tolist()
    keys = [(0,), (1,), ("0",), (0, "a"), (0, "b"), ("0", "a"), (0, "a", 0), (0, "a0")]
    assert len({bytes(SeededSource(*key).bytes(16)) for key in keys}) == len(keys)


def test_the_seeded_stream_never_changes_between_versions():
    assert SeededSource(0, "sex").bytes(8).tobytes().hex() == "cbb60e284547fa85"
