"""Files of reports contain their protocol on every engine, and are read by it."""

import json

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from skdp import (
    LocalHashingEncoder,
    NumericPerturber,
    RandomizedResponseEncoder,
    RapporEncoder,
    UnaryEncodingTransformer,
    read_protocol,
)
from skdp.engines import estimate_file, privatize, privatize_file, tally, tally_files
from skdp.local import SecretKey
from tests.conftest import diagonal

VALUES = {"sex": ["f", "m"], "rooms": [1, 2, 3]}
PEOPLE = pd.DataFrame({"sex": ["f", "m", "m"] * 20, "rooms": [1, 2, 3] * 20})
TABLE = pa.Table.from_pandas(PEOPLE, preserve_index=False)

TRANSFORMERS = {
    "bits": (UnaryEncodingTransformer(1.0, categories=VALUES, strategy="sample"), PEOPLE),
    "joint": (RandomizedResponseEncoder(1.0, categories=VALUES, strategy="joint"), PEOPLE),
    "numbers": (NumericPerturber(1.0, bounds={"rooms": (1, 3)}), PEOPLE[["rooms"]].astype(float)),
    "words": (RapporEncoder(1.0, n_bits=8), PEOPLE[["sex"]]),
}


def encoder():
    return RandomizedResponseEncoder(1.0, categories=VALUES)


def test_every_engine_writes_the_protocol_to_its_files(every_engine, tmp_path):
    privatize(every_engine.frame(TABLE), encoder(), path=tmp_path / "out.parquet")
    path = next(path for path in [tmp_path / "out.parquet", *tmp_path.rglob("*.parquet")] if path.is_file())
    if every_engine.name == "spark":  # Spark writes no metadata
        with pytest.raises(ValueError, match="does not contain the protocol"):
            read_protocol(path)
        return
    assert read_protocol(path).to_json() == encoder().fit(PEOPLE).to_json()
    assert estimate_file(path).shape == (5, 4)
    if every_engine.name != "polars_lazy":  # pandas does not read the metadata of Polars
        found = pd.read_parquet(tmp_path / "out.parquet")
        assert found.attrs["skdp.protocol"] == encoder().fit(PEOPLE).to_json()
        with pytest.raises(ValueError, match="protocol of another transformer"):
            RandomizedResponseEncoder(3.0, categories=VALUES).fit(PEOPLE).estimate_counts(found)


@pytest.mark.parametrize(("ending", "name"), diagonal(["parquet", "arrow"], TRANSFORMERS))
def test_files_of_reports_are_read_by_their_protocol(name, ending, tmp_path):
    transformer, people = TRANSFORMERS[name]
    people.to_parquet(tmp_path / "in.parquet")
    path = privatize_file(tmp_path / "in.parquet", tmp_path / f"out.{ending}", transformer)
    found = read_protocol(path)
    assert type(found) is type(transformer)
    assert found.to_json() == transformer.to_json()
    assert tally_files(path) == tally_files(path, transformer)


@pytest.mark.parametrize("given", [False, True])
def test_tally_states_the_weakest_guarantee_of_the_files(given, tmp_path):
    key, secure = SecretKey.generate(), encoder().fit(PEOPLE)
    seeded = RandomizedResponseEncoder(1.0, categories=VALUES, random_state=0).fit(PEOPLE)
    once, always = (RapporEncoder(1.0, n_bits=8, secret_key=own).fit(PEOPLE[["sex"]]) for own in (None, key))
    for strong, weak in ((secure, seeded), (once, always)):
        columns = list(weak.feature_names_in_)
        strong.transform(PEOPLE[columns]).to_parquet(tmp_path / "strong.parquet")
        ids = {"person": list(range(60))} if weak is always else {}
        weak.transform(PEOPLE[columns], **ids).to_parquet(tmp_path / "weak.parquet")
        for names in (["weak"], ["strong", "weak"], ["weak", "strong"], ["strong"]):
            target = tmp_path / f"{weak is always}{''.join(names)}.json"
            tally_files([tmp_path / f"{name}.parquet" for name in names], strong if given else None, destination=target)
            stated = json.loads(target.read_text())["skdp.protocol"]["guarantee"]
            expected = (weak if "weak" in names else strong).guarantee_
            assert (stated["epsilon"], stated["secure"]) == (expected.epsilon, expected.secure)
            assert read_protocol(target).guarantee_.epsilon == expected.epsilon


def test_file_is_counted_once(tmp_path, monkeypatch):
    PEOPLE.to_parquet(tmp_path / "in.parquet")
    path = privatize_file(tmp_path / "in.parquet", tmp_path / "out.parquet", encoder())
    tally_files(path, destination=tmp_path / "tally.json")
    (tmp_path / "again.parquet").symlink_to(path)
    monkeypatch.chdir(tmp_path)
    for same in (path, "out.parquet", "./out.parquet", tmp_path / "again.parquet"):
        with pytest.raises(ValueError, match="must be distinct files"):
            tally_files([path, tmp_path / "tally.json", same])
    with pytest.raises(ValueError, match=r"must end in \.json, got tally\.txt"):
        tally_files(path, destination=tmp_path / "tally.txt")
    with pytest.raises(ValueError, match="must be distinct files"):
        tally_files(["tally.json", tmp_path / "tally.json"])


def test_file_without_a_protocol_raises_an_error(tmp_path):
    reports = encoder().fit(PEOPLE).transform(PEOPLE)
    reports.to_csv(tmp_path / "reports.csv", index=False)
    for source in (reports.to_numpy(), PEOPLE, pl.DataFrame(PEOPLE), tmp_path / "reports.csv"):
        with pytest.raises(ValueError, match=r"does not contain the protocol of its reports.*`save`"):
            read_protocol(source)
    with pytest.raises(ValueError, match="does not contain the protocol of its reports"):
        tally_files(tmp_path / "reports.csv")


def test_seeds_beyond_the_integers_of_floats_are_read_from_csv_files(tmp_path):
    """Hash functions of more than 65,521 values have seeds of 62 bits."""
    values = range(65_522)
    encoder = LocalHashingEncoder(8.0, categories={"place": values})
    encoder.fit_transform(pd.DataFrame({"place": [values[-1]] * 30})).to_csv(tmp_path / "reports.csv", index=False)
    assert estimate_file(tmp_path / "reports.csv", encoder)["count"].iloc[-1] > 15


def test_table_with_two_protocols_raises_an_error(tmp_path):
    encoders = [RandomizedResponseEncoder(epsilon, categories=VALUES).fit(PEOPLE) for epsilon in (1.0, 2.0)]
    for number, one in enumerate(encoders):
        one.transform(PEOPLE).to_parquet(tmp_path / f"reports{number}.parquet")
    table = ds.dataset([tmp_path / f"reports{number}.parquet" for number in range(2)])
    for one in encoders:
        with pytest.raises(ValueError, match="protocol"):
            tally(table, one)
