"""One record has one permanent report, however its id, its values and the names of its columns are written."""

from __future__ import annotations

import enum
from datetime import UTC, date, datetime, timedelta, timezone
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from skdp import RandomizedResponseEncoder
from skdp.engines import privatize
from skdp.local import NumericPerturber, RapporEncoder, SubsetSelectionEncoder
from skdp.local.memo import canonical, read_record_ids
from skdp.testing._burdened_frames import burdened_frames
from skdp.testing._tools import columns_of
from tests.conftest import each

KEY = b"a key that nobody else has......"
MEMO = {"memoize": True, "secret_key": KEY}
DAY, TIME = date(2026, 3, 29), datetime(2026, 3, 29, 1, 30)
SUMMER = timezone(timedelta(hours=2))


class Text(str, enum.Enum):  # noqa: UP042 - its text is another one than that of a StrEnum
    YES = "yes"


class Number(enum.IntEnum):
    SEVEN = 7


def rappor(names=("c",), ids=tuple(range(40)), dtype=object):
    frame = pd.DataFrame({name: ["x", "y"] * 20 for name in names}, dtype=object)
    frame.columns = pd.Index(list(names), dtype=dtype, tupleize_cols=False)
    encoder = RapporEncoder(1.0, n_bits=16, p=0.0, q=1.0, secret_key=KEY)
    return encoder.fit(frame).transform(frame, record_id=ids).to_numpy().tolist()


def response(ids):
    frame = pd.DataFrame({"c": ["x", "y"] * 20}, dtype=object)
    encoder = RandomizedResponseEncoder(0.1, categories={"c": ["x", "y"]}, **MEMO)
    return encoder.fit(frame).transform(frame, record_id=ids)["c"].tolist()


@each(
    "one, other",
    [
        (("c", 1), ("c", np.int64(1))),
        (("c", 1), (np.str_("c"), 1.0)),
        (("c", True), ("c", np.True_)),
        (("c", DAY), ("c", pd.Timestamp(DAY))),
        ((("c", 1), "d"), ((np.str_("c"), np.uint8(1)), "d")),
        (1, np.int64(1)),
        ("c", np.str_("c")),
        (DAY, np.datetime64("2026-03-29")),
    ],
)
def test_names_of_columns(one, other):
    assert rappor([one]) == rappor([other])


def test_other_names_have_other_bits():
    every = [("c", 1), ("c", "1"), ("c", True), "c", ("c",), (("c", 1),), "('c', 1)", "(c, 1)"]
    assert len({repr(rappor([name])) for name in every}) == len(every)


def test_a_name_that_can_be_written_in_many_ways_is_refused():
    frame = pd.DataFrame([["x"]], columns=pd.Index([frozenset({"c"})], dtype=object))
    with pytest.raises(ValueError, match="secret_key needs column names of text, numbers"):
        RapporEncoder(1.0, secret_key=KEY).fit(frame)
    RapporEncoder(1.0).fit(frame)


DAYS = [DAY + timedelta(days=place) for place in range(40)]
TIMES = [TIME + timedelta(minutes=place) for place in range(40)]
AWARE = [time.replace(tzinfo=SUMMER) for time in TIMES]
WHOLE = list(range(7, 47))
WAYS = {
    "days": [
        DAYS,
        [datetime(day.year, day.month, day.day) for day in DAYS],
        list(map(pd.Timestamp, DAYS)),
        np.array(DAYS, "datetime64[D]"),
        np.array(DAYS, "datetime64[s]"),
        pd.Series(DAYS, dtype=object),
        pd.Series(pd.to_datetime(DAYS)),
        pd.Series(pd.to_datetime(DAYS)).astype("datetime64[ns]"),
        pd.Series(pd.to_datetime(DAYS)).astype("category"),
        pd.Series(DAYS, dtype=pd.ArrowDtype(pa.date32())),
        pl.Series(DAYS),
        pl.Series(DAYS).cast(pl.Datetime("ms")),
        pl.Series(DAYS).cast(pl.Datetime("ns")),
        pa.array(DAYS),
        pa.chunked_array([pa.array(DAYS, pa.date64())]),
        pa.array(DAYS).cast(pa.timestamp("ns")),
    ],
    "times": [
        TIMES,
        np.array(TIMES, "datetime64[us]"),
        np.array(TIMES, "datetime64[ns]"),
        pd.Series(TIMES),
        pl.Series(TIMES, dtype=pl.Datetime("us")),
        pl.Series(TIMES, dtype=pl.Datetime("ns")),
        pa.array(TIMES, pa.timestamp("ms")),
    ],
    "times with a zone": [
        AWARE,
        [time.astimezone(UTC) for time in AWARE],
        pd.Series(AWARE).dt.tz_convert("America/New_York"),
        pl.Series(AWARE).dt.convert_time_zone("Asia/Tokyo"),
        pl.Series(AWARE).dt.cast_time_unit("ns"),
        pa.array(AWARE, pa.timestamp("us", "Europe/Berlin")),
    ],
    "whole numbers": [
        WHOLE,
        [Number.SEVEN, *WHOLE[1:]],
        list(map(float, WHOLE)),
        list(map(Fraction, WHOLE)),
        np.array(WHOLE, np.int8),
        np.array(WHOLE, np.uint64),
        np.array(WHOLE, np.float32),
        np.array(WHOLE, object),
        pd.Series(WHOLE, dtype="Int64"),
        pd.Series(WHOLE, dtype="Float32"),
        pd.Series(WHOLE, dtype="category"),
        pd.Series(WHOLE, dtype="int64[pyarrow]"),
        pd.Index(WHOLE),
        pl.Series(WHOLE, dtype=pl.UInt16),
        pa.array(WHOLE, pa.int8()),
        pa.array(WHOLE).dictionary_encode(),
    ],
    "texts": [
        ["yes", *map(str, WHOLE[1:])],
        [Text.YES, *map(str, WHOLE[1:])],
        np.array(["yes", *map(str, WHOLE[1:])]),
        pd.Series(["yes", *map(str, WHOLE[1:])], dtype="string"),
        pd.Series(["yes", *map(str, WHOLE[1:])], dtype="category"),
        pl.Series(["yes", *map(str, WHOLE[1:])], dtype=pl.Categorical),
        pa.array(["yes", *map(str, WHOLE[1:])], pa.large_string()),
        pa.array(["yes", *map(str, WHOLE[1:])]).cast(pa.string_view()),
        pa.array(["yes", *map(str, WHOLE[1:])]).dictionary_encode(),
    ],
}


@pytest.mark.parametrize("kind", WAYS)
def test_ids_of_records(kind):
    first, *others = WAYS[kind]
    expected = rappor(ids=first), response(first)
    for ids in others:
        assert (rappor(ids=ids), response(ids)) == expected


def test_ids_of_other_kinds_are_other_records():
    kinds = [ways[0] for ways in WAYS.values()]
    kinds += [list(map(str, WHOLE)), [bytes([number]) for number in WHOLE], [(number,) for number in WHOLE]]
    assert len({repr(rappor(ids=ids)) for ids in kinds}) == len(kinds)


VALUES = {"text": ["red", "green", "blue"], "gaps": ["x", "y", None], "number": [1, 2, 3], "holes": [1, 2, None]}
NUMBERS = {"whole": [1, 2, 3, 4], "real": [0.5, 1.25, 2.5, 3.0]}
ENCODERS = {
    "response": (lambda: RandomizedResponseEncoder(0.1, categories=VALUES, **MEMO), VALUES),
    "joint": (
        lambda: RandomizedResponseEncoder(0.1, categories=VALUES, strategy="joint", **MEMO),
        VALUES,
    ),
    "subsets": (lambda: SubsetSelectionEncoder(0.1, categories=VALUES, **MEMO), VALUES),
    "rappor": (
        lambda: RapporEncoder(0.1, n_bits=16, p=0.0, q=1.0, handle_missing="value", secret_key=KEY),
        VALUES,
    ),
    "numbers": (
        lambda: NumericPerturber(0.1, mechanism="laplace", bounds={"whole": (0, 5), "real": (0, 5)}, **MEMO),
        NUMBERS,
    ),
}


@pytest.mark.parametrize("name", ENCODERS)
def test_frames_of_all_kinds(name):
    make, values = ENCODERS[name]
    rows = {column: (known * 20)[:40] for column, known in values.items()}
    reports = {}
    for kind, frame in burdened_frames(rows):
        if kind == "array":  # its columns have other names, and so other coins
            continue
        ids = list(range(40))
        reports[kind] = list(columns_of(make().fit(frame).transform(frame, record_id=ids)).values())
    assert len(reports) >= 10
    assert len(set(map(repr, map(_numbers, reports.values())))) == 1


def _numbers(columns):
    return [[float(value) if isinstance(value, int) else value for value in column] for column in columns]


def test_days_are_one_record_on_all_engines():
    duckdb = pytest.importorskip("duckdb")
    encoder = RandomizedResponseEncoder(0.1, categories={"c": ["x", "y"]}, **MEMO)
    table = pa.table({"day": pa.array(DAYS), "c": ["x", "y"] * 20})
    pandas = pd.DataFrame({"day": pd.to_datetime(DAYS), "c": ["x", "y"] * 20})
    with duckdb.connect() as connection:
        released = [
            privatize(table, encoder, record_id="day")["c"].to_pylist(),
            privatize(pandas, encoder, record_id="day")["c"].tolist(),
            privatize(pl.from_arrow(table).lazy(), encoder, record_id="day").collect()["c"].to_list(),
            privatize(pl.from_pandas(pandas), encoder, record_id="day")["c"].to_list(),
            privatize(connection.from_arrow(table), encoder, record_id="day").to_arrow_table()["c"].to_pylist(),
        ]
    assert all(rows == released[0] for rows in released)
    assert released[0] == response(DAYS)


@each("kind", ["polars", "arrow", "arrow large", "arrow view", "arrow chunks", "nullable"])
def test_text_ids_are_written_as_one_by_one(kind):
    """Text of polars and Arrow is written without a Python string for each."""
    words = ["", "a", "person 17", "é", "日本", "a\x00b", "1", "s a", "\U0001f600"]
    texts = pa.array(words)
    ids = {
        "polars": lambda: pl.Series("text", words),
        "arrow": lambda: texts,
        "arrow large": lambda: texts.cast(pa.large_string()),
        "arrow view": lambda: texts.cast(pa.string_view()),
        "arrow chunks": lambda: pa.chunked_array([texts[:4], texts[4:]]),
        "nullable": lambda: pd.Series(words, dtype="string"),
    }[kind]()
    assert read_record_ids(ids, len(words)) == [canonical(word) for word in words]


@each(
    "ids",
    [
        pl.Series([-128, 127], dtype=pl.Int8),
        pl.Series([-(2**63), 2**63 - 1]),
        pl.Series([0, 2**64 - 1], dtype=pl.UInt64),
        pl.Series([], dtype=pl.UInt8),
        pa.chunked_array([[-1], [2**62, 7]]),
        pd.Series([-1, 2**62]),
    ],
)
def test_whole_ids_are_one_record_in_each_library(ids):
    assert read_record_ids(ids, len(ids)) == [canonical(number) for number in ids.to_numpy().tolist()]


@pytest.mark.parametrize("missing", [pl.Series(["a", None]), pa.chunked_array([["a", None]])])
def test_missing_text_ids_are_refused(missing):
    with pytest.raises(ValueError, match="record_id holds missing values"):
        read_record_ids(missing, 2)
