"""What others wrote is refused by a ValueError, before it takes memory or time, or is read as what it is."""

from __future__ import annotations

import json
import random
import sys
import time
import tracemalloc
from functools import partial

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skdp import (
    FrequencyOracleEncoder,
    HadamardResponseEncoder,
    LocalHashingEncoder,
    LocalTableEncoder,
    NumericPerturber,
    RandomizedResponseEncoder,
    RapporEncoder,
    SubsetSelectionEncoder,
    UnaryEncodingTransformer,
)
from skdp.engines import tally_files
from skdp.local import NumericTally, RapporTally, ReportTally, ReportTransformer
from tests.conftest import each, often

PEOPLE = pd.DataFrame({"sex": ["f", "m"]})
ROW = pd.DataFrame({"a": ["x"]})
VALUES = {"sex": ["f", "m"]}
SAME_HASH = [place * sys.hash_info.modulus for place in range(1, 16_000)]
TEXTS = {
    **{
        kind.__name__: kind(1.0, categories=VALUES).fit(PEOPLE).to_json()
        for kind in (
            RandomizedResponseEncoder,
            UnaryEncodingTransformer,
            SubsetSelectionEncoder,
            LocalHashingEncoder,
            HadamardResponseEncoder,
            FrequencyOracleEncoder,
            LocalTableEncoder,
        )
    },
    "NumericPerturber": NumericPerturber(1.0, bounds={"sex": (0, 5)}).fit(pd.DataFrame({"sex": [1.0]})).to_json(),
    "RapporEncoder": RapporEncoder(1.0).fit(PEOPLE).to_json(),
}


def changed(name, **parameters):
    content = json.loads(TEXTS[name])
    content["parameters"] |= parameters
    return content


def joint(name, n_columns, n_values, **parameters):
    columns = [f"c{place}" for place in range(n_columns)]
    categories = {"mapping": [[column, [f"v{value}" for value in range(n_values)]] for column in columns]}
    content = changed(name, strategy="joint", categories=categories, **parameters)
    return json.dumps(content | {"columns": columns})


def split(name, n_columns, values, prefix="c", **parameters):
    columns = [f"{prefix}{place}" for place in range(n_columns)]
    categories = {"mapping": [[column, values] for column in columns]}
    content = changed(name, categories=categories, **parameters) | {"columns": columns, "client": None}
    return json.dumps(content)


def nested(depth, name="RandomizedResponseEncoder"):
    return TEXTS[name].replace('"epsilon": 1.0', '"epsilon": ' + '{"tuple": [' * depth + "1" + "]}" * depth)


# The long ones are made when they are asked for: each process of pytest imports this.
HOSTILE = {
    **{
        f"{name}, {n} columns of {k} values": partial(joint, name, n, k, **more)
        for n, k in [(4, 60), (4, 200), (5, 80), (2, 5000)]
        for name, more in [
            ("UnaryEncodingTransformer", {}),
            ("SubsetSelectionEncoder", {}),
            ("FrequencyOracleEncoder", {"max_report_bytes": None}),
        ]
    },
    "reports of too many cells": partial(joint, "RandomizedResponseEncoder", 4, 200),
    "long names of many bits": partial(split, "UnaryEncodingTransformer", 1, list(range(20_000)), "c" * 20_000),
    "long names of sets": partial(split, "SubsetSelectionEncoder", 1, list(range(5_000)), "c" * 5_000),
    "long names of joint bits": lambda: json.dumps(
        changed(
            "UnaryEncodingTransformer",
            strategy="joint",
            categories={"mapping": [[name, [f"{i:03}" + name * 2000 for i in range(300)]] for name in "ab"]},
        )
        | {"columns": ["a", "b"]}
    ),
    "whole numbers of one hash": partial(split, "RandomizedResponseEncoder", 1, SAME_HASH),
    "fractions of one hash": partial(
        split, "RandomizedResponseEncoder", 1, [{"fraction": f"{number}/1"} for number in SAME_HASH]
    ),
    "fractions of one hash in many columns": lambda: json.dumps(
        changed(
            "RandomizedResponseEncoder",
            categories={
                "mapping": [
                    [f"c{place}", [{"fraction": f"{number}/1"} for number in SAME_HASH[place : place + 100]]]
                    for place in range(0, 15_000, 100)
                ]
            },
        )
        | {"columns": [f"c{place}" for place in range(0, 15_000, 100)]}
    ),
    "tuples of one hash": json.dumps(
        changed("NumericPerturber", bounds={"mapping": [[{"tuple": [{"fraction": f"{n}/1"}]}, 0] for n in SAME_HASH]})
    ),
    "decimals of one hash": partial(split, "RandomizedResponseEncoder", 1, [{"decimal": f"{n}"} for n in SAME_HASH]),
    "columns of one hash": json.dumps(
        changed("NumericPerturber", bounds={"mapping": [[{"fraction": f"{n}/1"}, 0] for n in SAME_HASH]})
    ),
    "shares of one hash": partial(
        split, "RandomizedResponseEncoder", 1, ["x", "y"], shares={"mapping": [[n, 1] for n in SAME_HASH]}
    ),
    "very many values": partial(split, "RandomizedResponseEncoder", 1, [place + 0.5 for place in range(500_000)]),
    "very many values of all columns": partial(split, "RandomizedResponseEncoder", 1000, list(map(str, range(400)))),
    "a large grid": json.dumps(changed("NumericPerturber", grid_size=10**9)),
    "many columns of a grid": json.dumps(changed("NumericPerturber", grid_size=1 << 16) | {"columns": ["a"] * 1000}),
    "a number to be found": json.dumps(changed("NumericPerturber", strategy="sample", epsilon=1e6)),
    "a plan of many columns": partial(split, "LocalTableEncoder", 1000, ["x", "y", "z"], epsilon=1e6),
    "a plan of many pairs": partial(split, "LocalTableEncoder", 1000, ["x", "y"], purpose="pairs"),
    "a large filter": json.dumps(changed("RapporEncoder", n_bits=10**9)),
    "many filters": json.dumps(changed("RapporEncoder", n_bits=1 << 16, n_cohorts=1 << 16)),
    "many blocks": json.dumps(changed("HadamardResponseEncoder", n_blocks=10**12)),
    "a huge numerator": json.dumps(
        changed("RandomizedResponseEncoder", epsilon={"fraction": "9" * 4000 + "/" + "7" * 4000})
    ),
    "a huge whole number": TEXTS["RapporEncoder"].replace('"epsilon": 1.0', '"epsilon": ' + "9" * 1_000_000),
    "a huge exponent": json.dumps(changed("RandomizedResponseEncoder", epsilon={"decimal": "1e999999999"})),
    "infinity": TEXTS["RandomizedResponseEncoder"].replace('"epsilon": 1.0', '"epsilon": 1e999'),
    "NaN": TEXTS["RandomizedResponseEncoder"].replace('"epsilon": 1.0', '"epsilon": NaN'),
    "deep lists": "[" * 1_000_000,
    "deep mappings": '{"a":' * 200_000,
    **{f"{depth} tuples in each other": nested(depth) for depth in (300, 900, 3000, 50_000)},
    "many empty lists": lambda: "[" + "[]," * 5_000_000 + "[]]",
    "long text": lambda: json.dumps("x" * 20_000_000),
    "many values": lambda: json.dumps(list(range(600_000))),
    "a list of bounds": json.dumps(changed("NumericPerturber", bounds={"mapping": [["sex", [{"float": "nan"}, 5]]]})),
}

LARGEST = {"a plan of many columns", "very many values"}


def hostile(name):
    text = HOSTILE[name]
    return text() if callable(text) else text


@pytest.mark.parametrize("name", often(HOSTILE, HOSTILE.keys() - LARGEST))
def test_hostile_texts_are_refused_in_two_seconds(name):
    text = hostile(name)
    start = time.process_time()
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - many reasons
        ReportTransformer.from_json(text)
    assert time.process_time() - start < 2
    assert type(caught.value) is ValueError
    assert caught.value.__context__ is None


def test_fractions_of_all_columns_are_looked_at_together():
    """Python 3.12 and later keep their hashes in one mapping: without this, it takes minutes there."""
    with pytest.raises(ValueError, match="too many values have one hash"):
        ReportTransformer.from_json(hostile("fractions of one hash in many columns"))


@pytest.mark.long
def test_columns_of_one_size_share_an_oracle():
    text = split(
        "FrequencyOracleEncoder", 1000, ["0", "1", "2"], epsilon=2000.0, instantaneous_epsilon=1000.0, memoize=True
    )
    start = time.process_time()
    with pytest.raises(ValueError, match="reports would be misread"):
        ReportTransformer.from_json(json.dumps(json.loads(text) | {"permanent": True}))
    assert time.process_time() - start < 4


@pytest.mark.parametrize(
    "name",
    [
        "UnaryEncodingTransformer, 4 columns of 60 values",
        pytest.param("long names of many bits", marks=pytest.mark.long),
        "long names of joint bits",
        "many empty lists",
        "a large grid",
    ],
)
def test_hostile_texts_take_no_memory(name):
    text = hostile(name)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"at most|cannot be read"):
            ReportTransformer.from_json(text)
        assert tracemalloc.get_traced_memory()[1] < 200e6
    finally:
        tracemalloc.stop()


def mutants(number):
    """Yield damaged texts: characters, values of JSON, and parts of two texts."""
    rng, names = random.Random(17), list(TEXTS)
    odd = [None, True, -1, 0, 1e308, 10**30, "", "f", [], {}, {"tuple": []}, {"fraction": "1/0"}, {"float": "inf"}]
    odd += [{"mapping": [["sex", ["f", "m", "x"]]]}, {"interval": [[0, 1], False]}, {"bytes": "zz"}, {"date": 5}]
    for place in range(number):
        text = TEXTS[names[place % len(names)]]
        if place % 3 == 0:
            damaged = list(text)
            for _ in range(rng.choice([1, 2, 5])):
                damaged[rng.randrange(len(damaged))] = rng.choice(["", "0", "9", '"', "}", "[", "e9", "\\", "\ud800"])
            yield names[place % len(names)], "".join(damaged)
        elif place % 3 == 1:
            content = json.loads(text)
            part = content["parameters"] if rng.random() < 0.7 else content
            part[rng.choice(list(part))] = rng.choice(odd)
            yield names[place % len(names)], json.dumps(content)
        else:
            other, cut = TEXTS[rng.choice(names)], rng.randrange(len(text))
            yield names[place % len(names)], text[:cut] + other[cut:]


def test_damaged_texts_are_refused_or_mean_the_same():
    read = {name: ReportTransformer.from_json(text) for name, text in TEXTS.items()}
    refused = 0
    for name, text in mutants(180):
        try:
            again = ReportTransformer.from_json(text)
        except ValueError:
            refused += 1
        else:
            assert type(again).__name__ in TEXTS
            own = again.protocol_.parameters(), again.guarantee_
            if type(again) is type(read[name]) and own[0] == read[name].protocol_.parameters():
                assert own[1].epsilon == read[name].guarantee_.epsilon
            else:  # the text is that of another, as a whole
                assert own[0] == ReportTransformer.from_json(again.to_json()).protocol_.parameters()
    assert 90 < refused < 176


@each("change", [{"rho": 1e-9}, {"scope": ["nothing"]}, {"secure": "very"}, {"epsilon": 0.01}])
def test_a_guarantee_that_does_not_follow_is_refused(change):
    content = json.loads(RandomizedResponseEncoder(8.0, categories={"a": ["x", "y"]}).fit(ROW).to_json())
    content["guarantee"] |= change
    with pytest.raises(ValueError, match="states another guarantee"):
        ReportTransformer.from_json(json.dumps(content))


@each("permanent", [0, 1, "true", None, []])
def test_whether_reports_are_permanent_is_true_or_false(permanent):
    content = json.loads(RandomizedResponseEncoder(1.0, categories={"a": ["x", "y"]}).fit(ROW).to_json())
    with pytest.raises(ValueError, match="no protocol of a local transformer"):
        ReportTransformer.from_json(json.dumps(content | {"permanent": permanent}))


def test_the_sentence_of_another_is_not_repeated(tmp_path):
    """What people read of a tally is written by this library, not by who sent the reports."""
    encoder = RandomizedResponseEncoder(8.0, categories={"a": ["x", "y"]}).fit(ROW)
    reports = encoder.transform(ROW)
    content = json.loads(encoder.to_json())
    content["guarantee"] |= {"text": "epsilon = 0.01", "mechanism": "magic"}
    reports.attrs["skdp.protocol"] = json.dumps(content)
    reports.to_parquet(tmp_path / "reports.parquet")
    tally_files(tmp_path / "reports.parquet", target=tmp_path / "tally.json")
    stated = json.loads((tmp_path / "tally.json").read_text())["skdp.protocol"]["guarantee"]
    assert stated == json.loads(encoder.to_json())["guarantee"]


@pytest.mark.parametrize("kind", [ReportTally, RapporTally, NumericTally])
def test_a_tally_of_others_is_read_within_limits(kind, tmp_path):
    with pytest.raises(ValueError, match="no tally of this kind"):
        kind.from_json("[" * 100_000)
    with pytest.raises(ValueError, match="a tally has at most"):
        kind.from_json("[" + "0," * (1 << 21) + "0]")


def test_a_tally_in_parquet_is_read_within_limits(tmp_path, monkeypatch):
    encoder = RandomizedResponseEncoder(1.0, categories={"a": ["x", "y"], "b": [1, 2, 3]}).fit(ROW.assign(b=1))
    tally = encoder.tally(encoder.transform(ROW.assign(b=1)))
    tally.to_parquet(tmp_path / "tally.parquet")
    assert ReportTally.from_parquet(tmp_path / "tally.parquet") == tally
    table = pq.read_table(tmp_path / "tally.parquet")
    zeros = pa.table([pa.nulls(1 << 20, field.type).fill_null(0) for field in table.schema], schema=table.schema)
    with pq.ParquetWriter(tmp_path / "large.parquet", table.schema, compression="zstd") as writer:
        for _ in range(17):
            writer.write_table(zeros)
    with monkeypatch.context() as patched:
        patched.setattr(pq.ParquetFile, "read", lambda _: pytest.fail("the sums are read"))
        with pytest.raises(ValueError, match=r"at most 16,777,216 sums"):
            ReportTally.from_parquet(tmp_path / "large.parquet")
    pq.write_table(table.replace_schema_metadata({"skdp": "[" * 100_000}), tmp_path / "deep.parquet")
    with pytest.raises(ValueError, match="no tally of this kind"):
        ReportTally.from_parquet(tmp_path / "deep.parquet")
