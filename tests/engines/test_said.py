"""Files of reports say their protocol, whatever engine wrote them, and are read back by what they say."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from skdp import (
    FrequencyOracleEncoder,
    HadamardResponseEncoder,
    LocalHashingEncoder,
    NumericPerturber,
    RandomizedResponseEncoder,
    RapporEncoder,
    SubsetSelectionEncoder,
    UnaryEncodingTransformer,
    read_protocol,
)
from skdp.engines import estimate_file, privatize, privatize_file, tally, tally_files
from skdp.local import SecretKey
from tests.conftest import often

VALUES = {"sex": ["f", "m"], "rooms": [1, 2, 3]}
PEOPLE = pd.DataFrame({"sex": ["f", "m", "m"] * 20, "rooms": [1, 2, 3] * 20})
TABLE = pa.Table.from_pandas(PEOPLE, preserve_index=False)
NUMBERS = PEOPLE[["rooms"]].astype(float)

TRANSFORMERS = {
    **{
        kind.__name__: (kind(1.0, categories=VALUES), PEOPLE)
        for kind in (
            RandomizedResponseEncoder,
            UnaryEncodingTransformer,
            SubsetSelectionEncoder,
            LocalHashingEncoder,
            HadamardResponseEncoder,
            FrequencyOracleEncoder,
        )
    },
    "joint": (RandomizedResponseEncoder(1.0, categories=VALUES, strategy="joint"), PEOPLE),
    "sample": (UnaryEncodingTransformer(1.0, categories=VALUES, strategy="sample"), PEOPLE),
    "unbiased": (UnaryEncodingTransformer(1.0, categories=VALUES, output="unbiased"), PEOPLE),
    "NumericPerturber": (NumericPerturber(1.0, bounds={"rooms": (1, 3)}), NUMBERS),
    "RapporEncoder": (RapporEncoder(1.0, n_bits=8), PEOPLE[["sex"]]),
}


def encoder():
    return RandomizedResponseEncoder(1.0, categories=VALUES)


def in_dask(path):
    pytest.importorskip("dask")
    dataframe = pytest.importorskip("dask.dataframe")
    dask = pytest.importorskip("dask")
    with dask.config.set(scheduler="synchronous"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        privatize(dataframe.from_pandas(PEOPLE, npartitions=2), encoder(), path=path)


def in_duckdb(path):
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        privatize(connection.from_arrow(TABLE), encoder(), path=path)


ENGINES = {
    "pandas": lambda path: privatize(PEOPLE, encoder(), path=path),
    "polars": lambda path: privatize(pl.from_arrow(TABLE), encoder(), path=path),
    "pyarrow": lambda path: privatize(TABLE, encoder(), path=path),
    "lazy": lambda path: privatize(pl.from_arrow(TABLE).lazy(), encoder(), path=path),
    "dataset": lambda path: privatize(ds.dataset(TABLE), encoder(), path=path),
    "dask": in_dask,
    "duckdb": in_duckdb,
}


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_says_the_protocol_in_the_files_that_it_writes(engine, tmp_path):
    ENGINES[engine](tmp_path / "out.parquet")
    path = next(tmp_path.rglob("*.parquet"))
    path = path if path.is_file() else next(path.rglob("*.parquet"))
    assert read_protocol(path).to_json() == encoder().fit(PEOPLE).to_json()
    assert estimate_file(path).shape == (5, 4)
    if engine != "lazy":  # pandas does not read what Polars says of a file
        found = pd.read_parquet(tmp_path / "out.parquet")
        assert found.attrs["skdp.protocol"] == encoder().fit(PEOPLE).to_json()
        with pytest.raises(ValueError, match="two protocols are never added"):
            RandomizedResponseEncoder(3.0, categories=VALUES).fit(PEOPLE).estimate_counts(found)


def test_reports_in_memory_say_it_too():
    text = encoder().fit(PEOPLE).to_json()
    assert privatize(PEOPLE, encoder()).attrs["skdp.protocol"] == text
    for frame in (TABLE, ds.dataset(TABLE)):
        released = privatize(frame, encoder())
        assert released.schema.metadata[b"skdp.protocol"] == text.encode()
    for released in (privatize(TABLE, encoder()), privatize(ds.dataset(TABLE), encoder()).to_table()):
        assert released.to_pandas().attrs["skdp.protocol"] == text


@pytest.mark.parametrize("name", TRANSFORMERS)
@pytest.mark.parametrize("ending", often(["csv", "parquet", "arrow"], ["csv"]))
def test_files_of_reports_are_read_by_what_they_say(name, ending, tmp_path):
    transformer, people = TRANSFORMERS[name]
    people.to_parquet(tmp_path / "in.parquet")
    path = privatize_file(tmp_path / "in.parquet", tmp_path / f"out.{ending}", transformer)
    found = read_protocol(path)
    assert type(found) is type(transformer)
    assert found.to_json() == transformer.to_json()
    assert tally_files(path) == tally_files(path, transformer)


@pytest.mark.parametrize("name", often(TRANSFORMERS, ["UnaryEncodingTransformer", "NumericPerturber", "RapporEncoder"]))
@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_frames_of_reports_are_read_back(name, library, tmp_path):
    transformer, people = TRANSFORMERS[name]
    table = pa.Table.from_pandas(people, preserve_index=False)
    frame = {"pandas": people, "polars": pl.from_arrow(table), "pyarrow": table}[library]
    reports = transformer.fit(frame).transform(frame)
    expected = transformer.tally(reports)
    stored = [tmp_path / "out.parquet", tmp_path / "out.arrow", tmp_path / "out.csv"]
    if library == "pandas":
        reports.to_parquet(stored[0])
        reports.to_csv(stored[2], index=False)
    elif library == "polars":
        reports.write_parquet(stored[0])
        reports.write_ipc(stored[1])
        reports.write_csv(stored[2])
    else:
        pq.write_table(reports, stored[0])
        feather.write_feather(reports, stored[1])
    for path in stored:
        if path.exists():
            says = library != "polars" and path.suffix != ".csv"  # polars and CSV have no metadata
            assert (read_protocol(path) is not None) == says
            assert tally_files(path, None if says else transformer) == expected


def test_files_of_two_protocols_are_not_added(tmp_path):
    for place, epsilon in enumerate((1.0, 3.0)):
        one = RandomizedResponseEncoder(epsilon, categories=VALUES)
        privatize(PEOPLE, one, path=tmp_path / f"{place}.parquet")
    paths = [tmp_path / "0.parquet", tmp_path / "1.parquet"]
    with pytest.raises(ValueError, match=r"1.parquet: reports of two protocols are never added"):
        tally_files(paths)
    with pytest.raises(ValueError, match="reports of two protocols are never added"):
        tally(ds.dataset(paths), encoder().fit(PEOPLE))


@pytest.mark.parametrize("given", [False, True])
def test_a_tally_states_the_weakest_guarantee_of_its_files(given, tmp_path):
    key, secure = SecretKey.generate(), encoder().fit(PEOPLE)
    seeded = RandomizedResponseEncoder(1.0, categories=VALUES, random_state=0).fit(PEOPLE)
    once, always = (RapporEncoder(1.0, n_bits=8, secret_key=own).fit(PEOPLE[["sex"]]) for own in (None, key))
    for strong, weak in ((secure, seeded), (once, always)):
        columns = list(weak.feature_names_in_)
        strong.transform(PEOPLE[columns]).to_parquet(tmp_path / "strong.parquet")
        ids = {"record_id": list(range(60))} if weak is always else {}
        weak.transform(PEOPLE[columns], **ids).to_parquet(tmp_path / "weak.parquet")
        for names in (["weak"], ["strong", "weak"], ["weak", "strong"], ["strong"]):
            target = tmp_path / f"{weak is always}{''.join(names)}.json"
            tally_files([tmp_path / f"{name}.parquet" for name in names], strong if given else None, target=target)
            stated = json.loads(target.read_text())["skdp.protocol"]["guarantee"]
            expected = (weak if "weak" in names else strong).guarantee_
            assert (stated["epsilon"], stated["secure"]) == (expected.epsilon, expected.secure)
            assert read_protocol(target).guarantee_.epsilon == expected.epsilon


def test_a_tally_does_not_repeat_a_guarantee_that_does_not_follow(tmp_path):
    reports = encoder().fit(PEOPLE).transform(PEOPLE)
    content = json.loads(reports.attrs["skdp.protocol"])
    content["guarantee"]["epsilon"] = 7
    reports.attrs["skdp.protocol"] = json.dumps(content)
    reports.to_parquet(tmp_path / "reports.parquet")
    with pytest.raises(ValueError, match="states another guarantee"):
        tally_files(tmp_path / "reports.parquet", encoder().fit(PEOPLE), target=tmp_path / "tally.json")


def test_a_file_is_not_counted_twice(tmp_path, monkeypatch):
    PEOPLE.to_parquet(tmp_path / "in.parquet")
    path = privatize_file(tmp_path / "in.parquet", tmp_path / "out.parquet", encoder())
    tally_files(path, target=tmp_path / "tally.json")
    (tmp_path / "again.parquet").symlink_to(path)
    monkeypatch.chdir(tmp_path)
    for same in (path, "out.parquet", "./out.parquet", tmp_path / "again.parquet"):
        with pytest.raises(ValueError, match="is given twice"):
            tally_files([path, tmp_path / "tally.json", same])
    with pytest.raises(ValueError, match=r"tally.json is given twice"):
        tally_files(["tally.json", tmp_path / "tally.json"])


def test_a_tally_shows_nothing_of_its_files_but_their_sum(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    reports = encoder().fit(PEOPLE).transform(PEOPLE)
    reports.to_parquet("reports.parquet")
    reports[::-1].to_parquet("other order.parquet")
    first, other = (tally_files(f"{name}.parquet", target=f"{name}.json") for name in ("reports", "other order"))
    assert first == other
    assert Path("reports.json").read_text() == Path("other order.json").read_text()


def test_what_says_no_protocol(tmp_path):
    reports = encoder().fit(PEOPLE).transform(PEOPLE)
    with pytest.raises(TypeError, match=r"a tally in memory.*tally_files. with target="):
        read_protocol(encoder().fit(PEOPLE).tally(reports))
    assert read_protocol(reports.to_numpy()) is None
    reports.to_csv(tmp_path / "reports.csv", index=False)
    assert read_protocol(tmp_path / "reports.csv") is None
    with pytest.raises(ValueError, match="does not say the protocol"):
        tally_files(tmp_path / "reports.csv")
