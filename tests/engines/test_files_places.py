"""Files of JSON lines and gzipped ones, on this machine and on other file systems."""

import gzip
import json

import fsspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from skdp import Domain, RandomizedResponseEncoder
from skdp.engines import estimate_file, privatize, privatize_file
from skdp.local import NumericPerturber, RapporEncoder, SecretKey

DOMAIN = Domain({"color": ["red", "green", "blue", "unused", None], "size": [0, 1, 2, 3]})
FORMATS = ["csv.gz", "jsonl", "jsonl.gz"]


def encoder(**params):
    return RandomizedResponseEncoder(**{"epsilon": 1.0, "categories": DOMAIN, "random_state": 0} | params)


def written(table, form):
    """Return the bytes of a file."""
    frame = table.to_pandas()
    if form == "parquet":
        pq.write_table(table, sink := pa.BufferOutputStream())
        return sink.getvalue().to_pybytes()
    if form == "arrow":
        feather.write_feather(table, sink := pa.BufferOutputStream())
        return sink.getvalue().to_pybytes()
    if form.startswith("csv"):
        text = frame.to_csv(index=False)
    else:
        text = "".join(json.dumps(row) + "\n" for row in table.to_pylist())
    return gzip.compress(text.encode()) if form.endswith(".gz") else text.encode()


def read(path):
    if ".csv" in path.name:
        return pd.read_csv(path, dtype={"size": "Int64"}).replace({np.nan: None}).to_dict(orient="list")
    if ".jsonl" in path.name:
        packed = path.suffix == ".gz"
        lines = (gzip.decompress(path.read_bytes()) if packed else path.read_bytes()).decode().splitlines()
        rows = [json.loads(line) for line in lines]
        return {name: [row[name] for row in rows] for name in rows[0]}
    return pq.read_table(path).to_pydict()


@pytest.mark.parametrize("before", [*FORMATS, "parquet"])
@pytest.mark.parametrize("after", [*FORMATS, "parquet"])
def test_the_reports_are_those_of_memory(people, tmp_path, before, after):
    source = tmp_path / f"in.{before}"
    source.write_bytes(written(people, before))
    found = privatize_file(source, tmp_path / f"out.{after}", encoder(), keep=["number"])
    expected = privatize(people, encoder(), keep=["number"]).to_pydict()
    if before == "csv.gz" and "csv" not in after:  # what is kept is text
        expected["number"] = [str(number) for number in expected["number"]]
    assert read(found) == expected
    counts = estimate_file(found, encoder())
    assert counts.equals(encoder().fit(people.select(["color", "size"])).estimate_counts(privatize(people, encoder())))


@pytest.mark.parametrize("form", ["csv", "csv.gz", "jsonl", "jsonl.gz", "parquet", "arrow"])
def test_a_url_is_read(people, tmp_path, form):
    people = people.slice(0, 500)
    with fsspec.open(f"memory://folder/in.{form}", "wb") as file:
        file.write(written(people, form))
    expected = privatize(people, encoder()).to_pydict()
    found = privatize_file(f"memory://folder/in.{form}", tmp_path / "memory.parquet", encoder())
    assert pq.read_table(found).to_pydict() == expected
    (tmp_path / f"in.{form}").write_bytes(written(people, form))
    found = privatize_file(f"file://{tmp_path}/in.{form}", tmp_path / "file.parquet", encoder())
    assert pq.read_table(found).to_pydict() == expected


def test_what_is_not_there_is_said_without_the_url(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"there is no file none\.csv"):
        privatize_file("memory://SECRET@folder/none.csv", tmp_path / "out.csv", encoder())
    with pytest.raises(ValueError, match="opens URLs that begin with nope://") as caught:
        privatize_file("nope://SECRET@folder/in.csv", tmp_path / "out.csv", encoder())
    assert caught.value.__context__ is None or "SECRET" not in str(caught.value.__context__)
    monkeypatch.setitem(__import__("sys").modules, "fsspec.core", None)
    with pytest.raises(ImportError, match=r"skdp\[remote\]"):
        privatize_file("memory://folder/in.csv", tmp_path / "out.csv", encoder())


ROW = '{"color": "red", "size": 1}\n'


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"color": "red", "size": "SECRET"}', "column 'size'"),
        ('{"color": 17, "size": 1}', "column 'color'"),
        ('{"color": "SECRET", "size": 1}', "column 'color'"),
        ('{"color": "red", "size": 7}', "column 'size'"),
        ('{"color": "red"}', "column 'size'"),
        ('["SECRET"]', "JSON object a line"),
        ("SECRET", "JSON object a line"),
        ('{"color": "SECRET', "JSON object a line"),
        ('{"color": "r\udce9d"}', r"no UTF-8 text \(line 100\)"),
        ("[" * 100_000, "JSON object a line"),
    ],
)
def test_a_line_that_is_refused_is_not_shown(tmp_path, line, message):
    source = tmp_path / "in.jsonl"
    source.write_bytes((ROW * 99 + line + "\n").encode(errors="surrogateescape"))
    with pytest.raises(ValueError, match=message) as caught:
        privatize_file(source, tmp_path / "out.csv", encoder())
    assert "SECRET" not in str(caught.value)
    assert caught.value.__context__ is None
    assert not list(tmp_path.glob("out*"))


@pytest.mark.parametrize("text", ["", "\n", "[1]", "SECRET", "{}", "[" * 100_000])
def test_a_first_line_must_name_columns(tmp_path, text):
    source = tmp_path / "in.jsonl"
    source.write_text(text)
    with pytest.raises(ValueError, match=r"first line|JSON object a line") as caught:
        privatize_file(source, tmp_path / "out.csv", encoder())
    assert "SECRET" not in str(caught.value)


def test_a_gzip_file_that_ends_early_is_an_error_and_no_shorter_table(people, tmp_path):
    content = written(people, "csv.gz")
    (tmp_path / "in.csv.gz").write_bytes(content[:-100])
    with pytest.raises((ValueError, OSError)):
        privatize_file(tmp_path / "in.csv.gz", tmp_path / "out.csv", encoder())


def test_dates_numbers_truths_and_words_come_from_json(tmp_path):
    rows = [
        {"day": "2024-01-05", "moment": "2024-01-05T10:30:00", "on": True, "age": 17.5, "word": "a", "id": "x"},
        {"day": "2024-01-06", "moment": "2024-01-06T10:30:00", "on": False, "age": None, "word": "NA", "id": "y"},
    ]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    domain = Domain.from_toml(
        "[columns.day]\nvalues = [2024-01-05, 2024-01-06]\n[columns.on]\nvalues = [true, false]\n"
        "[columns.moment]\nvalues = [2024-01-05T10:30:00, 2024-01-06T10:30:00]\n"
        "[columns.age]\nlow = 0\nhigh = 20\nbins = 2\nmissing = true\n[columns.word]\nvalues = ['a', 'NA']\n"
    )
    sure = RandomizedResponseEncoder(200.0, categories=domain)
    found = read(privatize_file(tmp_path / "in.jsonl", tmp_path / "out.jsonl", sure, keep=["id"]))
    expected = {"day": [row["day"] for row in rows], "on": [True, False], "moment": [row["moment"] for row in rows]}
    assert found == expected | {"age": [15.0, None], "word": ["a", "NA"], "id": ["x", "y"]}


def test_numbers_and_permanent_reports_come_from_json(tmp_path):
    rows = [{"age": number % 50, "member": f"M{number}", "city": "Lyon"} for number in range(300)]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    key = SecretKey.generate()
    for number, make in enumerate(
        [
            lambda: NumericPerturber(1.0, mechanism="laplace", bounds={"age": (0, 50)}, memoize=True, secret_key=key),
            lambda: RapporEncoder(1.0, n_bits=8, secret_key=key, p=0.0, q=1.0).fit(pd.DataFrame({"city": [""]})),
        ]
    ):
        once, twice = (tmp_path / f"{number}{name}.parquet" for name in "ab")
        for out in (once, twice):
            privatize_file(tmp_path / "in.jsonl", out, make(), record_id="member")
        assert pq.read_table(once).equals(pq.read_table(twice))
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [*rows, rows[0]]))
    with pytest.raises(ValueError, match="record_id has repeated"):
        privatize_file(
            tmp_path / "in.jsonl",
            tmp_path / "c.parquet",
            NumericPerturber(1.0, mechanism="laplace", bounds={"age": (0, 50)}, memoize=True, secret_key=key),
            record_id="member",
            check=False,
        )
