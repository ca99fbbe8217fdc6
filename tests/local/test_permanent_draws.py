"""Keyed draws: bit by bit what is documented, distinct for all that differs, and the same however many are drawn."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from datetime import UTC, date, datetime, timedelta, timezone
from fractions import Fraction
from itertools import combinations, permutations
from uuid import UUID

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC, ECB

from skdp.local._memo import canonical, framed, keyed_coins, keyed_digests, keyed_numbers
from skdp.oracles import ClampedLaplace, Optimal, RandomizedResponse, SquareWave, SubsetSelection
from skdp.randomness import MAX_ROWS, ONE, RowStreams
from skdp.tables import ColumnError
from tests.conftest import each, often

KEY = bytes(range(32))


@pytest.fixture
def scripted(monkeypatch):
    """Let a digest be a key into a table of streams: the coin, and words plane by plane."""
    streams = {}

    class Stream:
        def __init__(self, digest):
            self.coin, self.planes = streams[bytes(digest)]

        def digest(self, size):
            words = np.concatenate([np.asarray(plane, ">u4") for plane in self.planes])
            whole = self.coin.to_bytes(8, "big") + words.tobytes()
            return whole[:size].ljust(size, b"\0")  # whole blocks are hashed

    monkeypatch.setattr(f"{RowStreams.__module__}.hashlib.shake_256", Stream)

    def draw(oracle, code, scripts):
        streams.clear()
        streams.update({b"%3d" % number: script for number, script in enumerate(scripts)})
        digests = np.frombuffer(b"".join(streams), np.uint8).reshape(-1, 3)
        codes = np.full(len(scripts), code, np.uint8)
        return [tuple(row) for row in oracle._draw_keyed(codes, digests).tolist()]

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

        The numbers start at 0, where a true value that comes first has its place too, or at 1: then, and after a tie.
        """
        oracle = SubsetSelection(k, 1.0, subset_size=size)
        orders = [(np.array(order) + rank_first, np.array(order) + 1) for order in permutations(range(k))]
        sets = [tuple(int(v in members) for v in range(k)) for members in combinations(range(k), size)]
        shares = [oracle.lie, 1 - oracle.lie]
        for code, row in enumerate(oracle.channel()):
            found = dict.fromkeys(sets, Fraction(0))
            for coin, share in zip(coins(oracle), shares, strict=True):
                drawn = scripted(oracle, code, [(coin, planes) for planes in orders])
                for members, times in Counter(drawn).items():
                    found[members] += share * Fraction(times, len(orders))
            assert [found[members] for members in sets] == row


def test_ids_are_told_apart_with_their_types():
    values = ["1", 1, True, b"1", 1.5, "1.5", (1,), ("1",), (1, 1), ((1,), 1), (1, (1,)), ("a", "bc"), ("ab", "c")]
    values += [(), "", b"", UUID(int=1), datetime(2020, 1, 1), datetime(2020, 1, 1, tzinfo=UTC)]
    values += ["2020-01-01", "2020-01-01T00:00:00", "True", "n 1", "s ", 10**30, -1, 2**63]
    values += [("as b",), ("a", "b"), ("a", ("b",)), ("a", "t s b")]
    written = list(map(canonical, values))
    assert len(set(written)) == len(values)
    equal = [(1, 1.0, np.int8(1), np.float32(1), Fraction(1)), ("a", np.str_("a")), (True, np.True_), (0.0, -0.0)]
    equal += [(datetime(2020, 1, 1), date(2020, 1, 1), pd.Timestamp(2020, 1, 1), np.datetime64("2020-01-01", "ns"))]
    equal += [(datetime(2020, 1, 1, tzinfo=UTC), datetime(2020, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))))]
    for group in equal:
        assert len({canonical(value) for value in group}) == 1


@each("value", [None, math.nan, pd.NA, pd.NaT, math.inf, [1], {1}, 1j, (1, None)])
def test_what_is_no_id(value):
    with pytest.raises(ColumnError):
        canonical(value)


@pytest.mark.parametrize(("k", "epsilon"), [(2, 1.0), (256, 0.1), (255, 9.0), (1000, 2.0)])
def test_many_responses_are_those_of_each_record_alone(k, epsilon):
    """With 16 bits, up to k / 2**16 of the words are undecided: some ten of these."""
    oracle, digests = (RandomizedResponse(k, epsilon), keyed_digests(KEY, ("test",), [b"%d" % i for i in range(2_000)]))
    codes = (np.arange(2_000) % k).astype(np.uint16)
    sources = (RowStreams(digest[np.newaxis], head=2 if k <= 256 else 4) for digest in digests)
    expected = np.concatenate([oracle.report(codes[[i]], source) for i, source in enumerate(sources)])
    assert np.array_equal(oracle._draw_keyed(codes, digests), expected)
    assert len(np.unique(expected)) > k / 2


@pytest.mark.parametrize("mechanism", [Optimal, ClampedLaplace, SquareWave])
@pytest.mark.parametrize("steps", often([3, 16, 250, 1_024], [3, 250]))
def test_many_numbers_are_those_of_each_record_alone(mechanism, steps):
    """Bit by bit, with the bytes that only some of them need; and more records than are drawn together."""
    rows = MAX_ROWS + 100 if steps == 16 else 400
    oracle = mechanism(steps, 0.5)
    positions = np.arange(rows) % (steps + 1)
    digests = keyed_digests(KEY, ("test",), [b"%d" % row for row in range(rows)])
    sources = (RowStreams(digest[np.newaxis], head=16) for digest in digests)
    alone = (oracle.report(positions[row : row + 1], source) for row, source in enumerate(sources))
    assert (keyed_numbers(oracle, positions, digests) == np.concatenate([*alone])).all()


@each("size", [16, 32, 64, 65, 200])
def test_digests_are_a_mac_with_aes_of_what_the_documentation_says(size):
    """For all lengths of the key and of the messages, each by itself; longer keys are hashed first."""
    key, messages = bytes(range(size % 251)) * 2, [b"", b"a", b"b" * 16, b"c\0" * 20, b"d" * 16, b"e" * 7_000]
    used = key if len(key) <= 64 else hashlib.blake2b(key).digest()
    derived = hashlib.blake2b(b"skdp permanent coins 2" + framed(b"purpose", b"\0"), key=used).digest()
    expected = []
    for message in messages:
        blocks = len(message).to_bytes(8, "big") + bytes(8) + message + bytes(16 - len(message) % 16)
        mac = Cipher(AES(derived[:32]), CBC(bytes(16))).encryptor().update(blocks)[-16:]
        pair = mac + mac[:-1] + bytes([mac[-1] ^ 1])
        expected.append(Cipher(AES(derived[32:]), ECB()).encryptor().update(pair))
    assert [row.tobytes() for row in keyed_digests(key, ("purpose", b"\0"), messages)] == expected
    assert keyed_digests(key, ("purpose",), []).shape == (0, 32)


def test_no_two_messages_have_one_digest():
    """Zeros at the end, a part that is cut elsewhere, and other purposes."""
    found = [keyed_digests(KEY, ("p",), [b"abc" + bytes(zeros)])[0] for zeros in range(40)]
    found += [keyed_digests(KEY, purpose, [b"abc"])[0] for purpose in [("q",), ("p", ""), ("pp",), ("pp", "")]]
    assert len({row.tobytes() for row in found}) == len(found)
    assert framed(b"", b"b" * 256) == bytes(8) + (256).to_bytes(8, "big") + b"b" * 256


def test_coins_are_decided_by_all_64_bits():
    (digest,) = keyed_digests(KEY, ("test",), [b"record"])
    planes = np.frombuffer(hashlib.shake_128(digest).digest(8 * 5), ">u2")
    high, low = planes[:5], planes[5:].reshape(5, 3)
    words = [int(h) << 48 | int(a) << 32 | int(b) << 16 | int(c) for h, (a, b, c) in zip(high, low, strict=True)]
    for place, word in enumerate(words):
        for threshold, expected in ((word, False), (word + 1, True)):
            coins = keyed_coins([digest], threshold, 5)[0]
            assert coins[place] == expected
            assert coins.tolist() == [other < threshold for other in words]
    assert not keyed_coins([digest], 0, 5).any()
    with pytest.raises(ValueError, match="threshold"):
        keyed_coins([digest], ONE, 5)
