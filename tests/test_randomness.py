import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chisquare

from skdp.randomness import (
    BLOCK,
    ONE,
    SecureSource,
    SeededSource,
    bernoulli,
    bernoulli_ratio,
    categorical,
    uniform_integers,
)
from tests.conftest import diagonal

FALSE_ALARM = 1e-10
THRESHOLDS = [0, 1, ONE // 3, ONE // 2, math.ceil(ONE * 0.3), (255 << 56) + 12345, ONE - 1, ONE]


@pytest.mark.parametrize(("filler", "threshold"), diagonal([0, 255], THRESHOLDS))
def test_coin_compares_bytes_with_the_threshold_for_every_pair_of_bytes(scripted_source, threshold, filler):
    heads, rest = 0, int.from_bytes(bytes([filler] * 6), "big")
    for high in range(256):
        # One batch: the first bytes of 256 coins, and after a tie all second bytes.
        coins = bernoulli(scripted_source([high] * 256, range(256), filler=filler), threshold, 256)
        assert coins.tolist() == [(high << 56) + (low << 48) + rest < threshold for low in range(256)]
        heads += int(coins.sum())
    assert heads in (threshold >> 48, (threshold >> 48) + 1)


def test_tie_of_all_eight_bytes_is_not_below(scripted_source):
    digits = [1, 2, 3, 4, 5, 6, 7, 8]
    threshold = int.from_bytes(bytes(digits), "big")
    assert not bernoulli(scripted_source(digits), threshold, 1)[0]
    assert bernoulli(scripted_source(digits), threshold + 1, 1)[0]


@pytest.mark.parametrize("high", [1, 2, 4, 64, 256])
def test_bytes_split_evenly_into_powers_of_two(scripted_source, high):
    drawn = uniform_integers(scripted_source(np.arange(256)), high, 256)
    assert np.bincount(drawn, minlength=high).tolist() == [256 // high] * high


@pytest.mark.parametrize("high", [3, 5, 100, 255])
def test_every_word_gives_each_integer_equally_often_or_is_resampled(scripted_source, high):
    words = np.arange(1 << 16, dtype="<u2")
    kept = (words.astype(np.uint64) * high & 0xFFFF) >= (1 << 16) % high
    redrawn = int((~kept).sum())
    assert redrawn == (1 << 16) % high
    # Resampled words are followed by a zero, which is resampled too, and then by an accepted word.
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
    # Bins of unequal width: the expected counts are their numbers of integers.
    edges = np.ceil(np.linspace(0, high, 65))
    expected = np.diff(edges) / high * drawn.size
    assert chisquare(counts, expected).pvalue > FALSE_ALARM


def test_categories_follow_their_weights_at_every_boundary(scripted_source):
    weights = [5, 0, ONE // 2, ONE // 2 - 5, 0]
    words = np.array([0, 4, 5, ONE // 2 + 4, ONE // 2 + 5, ONE - 1], dtype="<u8")
    drawn = categorical(scripted_source(words.view(np.uint8)), weights, words.size)
    assert drawn.tolist() == [0, 0, 2, 2, 3, 3]
    for certain in ([ONE], [ONE, 0], [0, ONE], [0, ONE, 0]):
        drawn = categorical(scripted_source(words.view(np.uint8)), certain, words.size)
        assert set(drawn.tolist()) == {certain.index(ONE)}
    for weights, last in (([ONE - 1, 1], [0, 1]), ([ONE - 1, 1, 0], [0, 1]), ([ONE - 2, 2], [1, 1])):
        ends = np.array([ONE - 2, ONE - 1], dtype="<u8")
        assert categorical(scripted_source(ends.view(np.uint8)), weights, 2).tolist() == last


@pytest.mark.parametrize("size", [0, 1, 7, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 5])
def test_sources_return_the_requested_number_of_bytes(size):
    for source in (SecureSource(), SeededSource(1)):
        assert source.bytes(size).shape == (size,)
        assert source.bytes(size).dtype == np.uint8
    assert bernoulli(SecureSource(), ONE // 2, size).shape == (size,)
    assert uniform_integers(SecureSource(), 100, size).shape == (size,)


def test_every_byte_value_is_equally_likely():
    for source in (SecureSource(), SeededSource(2)):
        counts = np.bincount(source.bytes(1_000_000), minlength=256)
        assert chisquare(counts).pvalue > FALSE_ALARM


def test_seeded_stream_advances_replays_and_differs_by_key():
    first = SeededSource(0, "Class", 3)
    again = SeededSource(0, "Class", 3)
    beginning = first.bytes(64).tolist()
    assert beginning == again.bytes(64).tolist()
    assert beginning != first.bytes(64).tolist()
    keys = [(0,), (1,), ("0",), (0, "a"), (0, "b"), ("0", "a"), (0, "a", 0), (0, "a0")]
    assert len({bytes(SeededSource(*key).bytes(16)) for key in keys}) == len(keys)


def test_seeded_stream_is_equal_in_all_versions():
    assert SeededSource(0, "sex").bytes(8).tobytes().hex() == "cbb60e284547fa85"


@pytest.mark.parametrize(("numerator", "denominator"), [(0, 1), (1, 1), (1, 3), (2, 6), (255, 256), (1, 2**70), (3, 7)])
def test_rational_coin_compares_all_digits(scripted_source, numerator, denominator):
    for pair in range(0, 1 << 16, 251):
        for filler in (0, 255):
            word = (pair << 48) + int.from_bytes(bytes([filler] * 6), "big")
            coin = bernoulli_ratio(scripted_source(divmod(pair, 256), filler=filler), numerator, denominator, 1)[0]
            # The filler has no end: 0x00... adds nothing, 0xFF... adds up to the next word.
            drawn = Fraction(word + (filler == 255), ONE)
            assert coin == (drawn < Fraction(numerator, denominator)) or drawn == Fraction(numerator, denominator)


@pytest.mark.parametrize(("last", "heads"), [(0x54, True), (0x56, False)])
@pytest.mark.parametrize("ties", [1, 8, 100])
def test_tie_of_a_rational_coin_continues_beyond_any_word(scripted_source, ties, last, heads):
    source = scripted_source([0x55] * ties, last)
    assert bernoulli_ratio(source, 1, 3, 1).tolist() == [heads]
    assert source.used == ties + 1


def test_tie_ends_with_the_digits_of_a_rational_coin(scripted_source):
    source = scripted_source([0x80, 0x01])
    assert bernoulli_ratio(source, (0x8001 << 5), 1 << 21, 1).tolist() == [False]
    assert source.used == 2
    assert bernoulli_ratio(scripted_source(), 5, 5, 100).all()


@pytest.mark.parametrize(
    ("draw", "error", "name"),
    [
        (lambda source: bernoulli(source, -1, 1), ValueError, "threshold"),
        (lambda source: bernoulli(source, 0.5, 1), TypeError, "`threshold` must be an integer, got"),
        (lambda source: bernoulli_ratio(source, 3, 2, 1), ValueError, "numerator"),
        (lambda source: bernoulli_ratio(source, 0, 0, 1), ValueError, "denominator"),
        (lambda source: bernoulli_ratio(source, Fraction(1, 2), 3, 1), TypeError, "`numerator` must be an integer"),
        (lambda source: uniform_integers(source, 0, 1), ValueError, "high"),
        (lambda source: uniform_integers(source, 2.0, 1), TypeError, "`high` must be an integer, got"),
        (lambda source: categorical(source, [ONE - 1], 1), ValueError, "weights"),
        (lambda source: categorical(source, [], 1), ValueError, "weights"),
    ],
)
def test_invalid_probability_raises_before_drawing(scripted_source, draw, error, name):
    with pytest.raises(error, match=name):
        draw(scripted_source())
