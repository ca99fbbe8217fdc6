"""Gzipped files, and files on other file systems."""

import gzip

import fsspec
import pandas as pd
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from skdp import RandomizedResponseEncoder
from skdp.engines import estimate_file, privatize, privatize_file
from tests.engines.tables import DOMAIN


def encoder(**params):
    return RandomizedResponseEncoder(**{"epsilon": 1.0, "categories": DOMAIN, "random_state": 0} | params)


def written(table, form):
    """Return the bytes of a file."""
    if form in ("parquet", "arrow"):
        sink = pa.BufferOutputStream()
        (pq.write_table if form == "parquet" else feather.write_feather)(table, sink)
        return sink.getvalue().to_pybytes()
    text = table.to_pandas().to_csv(index=False, sep="\t" if form.startswith("tsv") else ",").encode()
    return gzip.compress(text) if form.endswith(".gz") else text


@pytest.mark.parametrize(("before", "after"), [("csv.gz", "csv.gz"), ("tsv", "tsv.gz"), ("arrow", "tsv")])
def test_the_reports_are_those_of_memory(people, tmp_path, before, after):
    (tmp_path / f"in.{before}").write_bytes(written(people, before))
    found = privatize_file(tmp_path / f"in.{before}", tmp_path / f"out.{after}", encoder(), keep=["number"])
    expected = privatize(people, encoder(), keep=["number"]).to_pandas()
    separator = "\t" if after.startswith("tsv") else ","
    read = pd.read_csv(found, dtype={"size": "Int64"}, sep=separator)
    assert read.equals(expected.astype(read.dtypes.to_dict()))
    counts = estimate_file(found, encoder())
    assert counts.equals(encoder().fit(people.select(["color", "size"])).estimate_counts(privatize(people, encoder())))


@pytest.mark.parametrize("form", ["csv", "csv.gz", "parquet", "arrow"])
def test_a_url_is_read(people, tmp_path, form):
    people = people.slice(0, 500)
    with fsspec.open(f"memory://folder/in.{form}", "wb") as file:
        file.write(written(people, form))
    (tmp_path / f"in.{form}").write_bytes(written(people, form))
    expected = privatize(people, encoder()).to_pydict()
    for name, url in {"memory": f"memory://folder/in.{form}", "file": f"file://{tmp_path}/in.{form}"}.items():
        found = privatize_file(url, tmp_path / f"{name}.parquet", encoder())
        assert pq.read_table(found).to_pydict() == expected


def test_what_is_not_there_is_said_without_the_url(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"there is no file none\.csv"):
        privatize_file("memory://SECRET@folder/none.csv", tmp_path / "out.csv", encoder())
    with pytest.raises(ValueError, match="Protocol not known: nope") as caught:
        privatize_file("nope://SECRET@folder/in.csv", tmp_path / "out.csv", encoder())
    assert caught.value.__context__ is None or "SECRET" not in str(caught.value.__context__)
    monkeypatch.setitem(__import__("sys").modules, "fsspec.core", None)
    with pytest.raises(ImportError, match=r"extra .remote"):
        privatize_file("memory://folder/in.csv", tmp_path / "out.csv", encoder())


def test_a_gzip_file_that_ends_early_is_an_error_and_no_shorter_table(people, tmp_path):
    (tmp_path / "in.csv.gz").write_bytes(written(people, "csv.gz")[:-100])
    with pytest.raises((ValueError, OSError)):
        privatize_file(tmp_path / "in.csv.gz", tmp_path / "out.csv", encoder())
