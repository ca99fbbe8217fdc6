"""Batched draws of rows equal separate draws of each row."""

import hashlib

import numpy as np
import pytest

from skdp.randomness import ONE, SeededSource, bernoulli, bernoulli_ratio, uniform_integers
from skdp.randomness._sources import RowStreams

SEEDS = np.frombuffer(b"".join(b"%09d" % number for number in range(150)), np.uint8).reshape(150, 9)


@pytest.mark.parametrize(
    "draw",
    [
        lambda source, n: bernoulli(source, 3 * ONE // 10 + 12_345, n),
        lambda source, n: bernoulli(source, 1 << 56, n),  # all further bytes of the threshold are 0
        lambda source, n: bernoulli_ratio(source, 1, 3, n),
        lambda source, n: uniform_integers(source, 4, n),
        lambda source, n: uniform_integers(source, 255, n),
        lambda source, n: uniform_integers(source, 129, n),  # one word in 500 is resampled
        lambda source, n: uniform_integers(source, (1 << 31) + 1, n),  # every second word is resampled
    ],
)
def test_batched_draws_equal_separate_draws(draw):
    """Twelve draws each, so that rows that needed more bytes are behind afterwards."""
    alone = [RowStreams(SEEDS[[row]]) for row in range(len(SEEDS))]
    together = RowStreams(SEEDS)
    for _ in range(12):
        expected = np.concatenate([draw(source, 1) for source in alone])
        assert (draw(together, len(SEEDS)) == expected).all()


@pytest.mark.parametrize("threshold", [0, ONE, 3 * ONE // 10 + 12_345, 1 << 56, (1 << 56) + 1, 128 << 48])
def test_several_draws_of_each_row_equal_draws_from_its_stream(threshold):
    """One draw in 256 needs a second byte, and later draws use the bytes after it."""
    digests = SeededSource("rows").bytes(32 * 400).reshape(400, 32)
    streams = RowStreams(digests)
    alone = [RowStreams(digests[[row]]) for row in range(400)]
    for size in (150, 1, 20):
        expected = np.concatenate([bernoulli(source, threshold, size) for source in alone])
        np.testing.assert_array_equal(bernoulli(streams, threshold, 400 * size), expected)


def test_bytes_equal_shake_256():
    streams = RowStreams(SEEDS[:3])
    found = np.hstack([streams.bytes(3 * width).reshape(3, width) for width in (1, 100, 500)])
    for row, seed in zip(found, SEEDS, strict=False):
        assert row.tobytes() == hashlib.shake_256(seed).digest(601)


@pytest.mark.parametrize("head", [1, 2, 5])
def test_stream_begins_with_bytes_of_its_seed(head):
    seeds = [seed.tobytes() for seed in SEEDS[:3]]
    streams = RowStreams(SEEDS[:3], head=head)
    first = streams.select(np.array([1])).bytes(4)  # this row is stretched first
    found = np.hstack([streams.bytes(3 * width).reshape(3, width) for width in (1, 30, 300)])
    for row, seed in enumerate(seeds):
        whole = seed[:head] + hashlib.shake_256(seed).digest(400)
        before = 4 if row == 1 else 0
        assert found[row].tobytes() == whole[before : before + 331]
    assert first.tobytes() == (seeds[1][:head] + hashlib.shake_256(seeds[1]).digest(4))[:4]


def test_bytes_read_by_some_rows_are_not_read_again():
    streams, alone = RowStreams(SEEDS[:3]), RowStreams(SEEDS[1:2]).bytes(4)
    some = streams.select(np.array([1])).bytes(2)
    rest = streams.bytes(3 * 2).reshape(3, 2)[1]
    assert (np.concatenate([some, rest]) == alone).all()


def test_bytes_of_a_repeated_row_are_not_read_again():
    streams, alone = RowStreams(SEEDS[:3]), RowStreams(SEEDS[1:2]).bytes(4)
    repeated = streams.read(np.array([0, 1, 1]), 3)[1:]
    rest = streams.read(np.array([1]), 2)
    assert (np.concatenate([repeated, rest]) == alone).all()


def test_unsupported_draws_of_rows_raise_an_error():
    with pytest.raises(ValueError, match="a multiple of the"):
        RowStreams(SEEDS[:3]).bytes(4)
    with pytest.raises(ValueError, match="a multiple of the"):
        RowStreams(SEEDS[:0]).bytes(4)
    assert RowStreams(SEEDS[:0]).bytes(0).size == 0
