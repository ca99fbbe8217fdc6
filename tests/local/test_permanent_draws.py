"""Keyed draws: bit by bit as documented, distinct for all that differs, and the same however many are drawn."""

from __future__ import annotations

import hashlib
import math
from datetime import UTC, date, datetime
from fractions import Fraction
from uuid import UUID

import numpy as np
import pandas as pd
import pytest

from skdp.local._memo import encode_value, join_parts, keyed_digests
from skdp.oracles import ClampedLaplace, Optimal, RandomizedResponse, SquareWave, SubsetSelection, draw_by_row
from skdp.randomness import MAX_ROWS, RowStreams
from skdp.tables import ColumnError
from tests.conftest import each

KEY = bytes(range(32))


def test_values_of_other_types_are_other_bytes():
    values = ["1", 1, True, b"1", 1.5, "1.5", (1,), ("1",), (1, 1), ((1,), 1), (1, (1,)), ("a", "bc"), ("ab", "c")]
    values += [(), "", b"", UUID(int=1), date(2020, 1, 1), datetime(2020, 1, 1), datetime(2020, 1, 1, tzinfo=UTC)]
    values += ["2020-01-01", "2020-01-01T00:00:00", "True", "number 1", "string ", 10**30, -1, 2**63]
    values += [("as b",), ("a", "b"), ("a", ("b",)), ("a", "t s b")]
    assert len(set(map(encode_value, values))) == len(values)
    equal = [(1, 1.0, np.int8(1), np.float32(1), Fraction(1)), ("a", np.str_("a")), (True, np.True_), (0.0, -0.0)]
    equal += [(datetime(2020, 1, 1), pd.Timestamp(2020, 1, 1), np.datetime64("2020-01-01", "ns"))]
    for group in equal:
        assert len({encode_value(value) for value in group}) == 1


@each("value", [None, math.nan, pd.NA, pd.NaT, [1], {1}, 1j, (1, None), object()])
def test_values_without_bytes(value):
    with pytest.raises(ColumnError):
        encode_value(value)


ORACLES = [RandomizedResponse(2, 1.0), RandomizedResponse(255, 9.0), RandomizedResponse(1000, 2.0)]
ORACLES += [SubsetSelection(k, 1.0) for k in (5, 40)]
ORACLES += [make(steps, 0.5) for make in (Optimal, ClampedLaplace, SquareWave) for steps in (3, 250)]


@pytest.mark.parametrize("oracle", ORACLES, ids=lambda oracle: f"{type(oracle).__name__} {oracle.n_reports}")
def test_many_reports_are_the_reports_of_each_record_alone(oracle):
    """Bit by bit, also the bytes that some of them need, and more records than one block."""
    n_rows = MAX_ROWS + 100
    digests = keyed_digests(KEY, (b"test",), [b"%d" % row for row in range(n_rows)])
    codes = (np.arange(n_rows) % (getattr(oracle, "steps", oracle.n_reports) + 0)).astype(np.uint16)
    codes %= getattr(oracle, "k", 1 << 15)
    reports = draw_by_row(oracle.report, digests, codes)
    for row in [*range(300), *range(MAX_ROWS - 2, n_rows)]:
        source = RowStreams(digests[row : row + 1], head=16)
        assert np.array_equal(oracle.report(codes[row : row + 1], source)[0], reports[row])
    assert len(np.unique(reports, axis=0)) > 1


@each("size", [16, 32, 64, 65, 200])
def test_digests_are_keyed_blake2b(size):
    """For all lengths of the key and of the messages; longer keys are hashed first."""
    key, messages = bytes(range(size % 251)) * 2, [b"", b"a", b"b" * 16, b"c\0" * 20, b"e" * 7_000]
    used = key if len(key) <= 64 else hashlib.blake2b(key).digest()
    expected = []
    for message in messages:
        function = hashlib.blake2b(b"2" + join_parts(b"purpose", b"\0") + message, key=used, digest_size=32)
        expected.append(function.digest())
    assert [row.tobytes() for row in keyed_digests(key, (b"purpose", b"\0"), messages)] == expected
    assert keyed_digests(key, (b"purpose",), []).shape == (0, 32)


def test_no_two_messages_have_one_digest():
    """Zeros at the end, a part that is cut elsewhere, and other purposes."""
    found = [keyed_digests(KEY, (b"p",), [b"abc" + bytes(zeros)])[0] for zeros in range(40)]
    found += [keyed_digests(KEY, purpose, [b"abc"])[0] for purpose in [(b"q",), (b"p", b""), (b"pp",), (b"pp", b"")]]
    assert len({row.tobytes() for row in found}) == len(found)
    assert join_parts(b"", b"b" * 256) == bytes(8) + (256).to_bytes(8, "big") + b"b" * 256
