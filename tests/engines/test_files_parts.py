"""The files of a folder or of a pattern are one table."""

import shutil
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skdp import Domain, Interval, PrivacyLedger, RandomizedResponseEncoder, read_protocol
from skdp.engines import TableFile, estimate_file, privatize_file, tally_files
from tests.cli.commands import call, refuse
from tests.conftest import often
from tests.engines.tables import read, read_declared, write
from tests.errors import refusal

DOMAIN = Domain({"sex": ["f", "m"], "age": Interval(0, 120, bins=4)})
N = 900
ROWS = pa.table(
    {
        "id": range(N),
        "sex": ["f", "m", "m"] * (N // 3),
        "age": [row % 90 for row in range(N)],
        "note": ["a,b", "c"] * (N // 2),
    }
)
FORMATS = ["csv", "parquet", "arrow"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("domain.toml").write_text(DOMAIN.to_toml(), encoding="utf-8")
    Path("parts").mkdir()


@pytest.fixture(params=often(FORMATS, ["csv", "parquet"]))
def form(request):
    """Write a table to one file and to three files of a folder, with further files that are no rows."""
    form = request.param
    write(ROWS, Path(f"whole.{form}"))
    for number, start in enumerate(range(0, N, 400)):
        write(ROWS.slice(start, 400), Path(f"parts/part-{number}.{form}"))
    Path("parts/_SUCCESS").touch()
    Path(f"parts/.part-0.{form}.crc").touch()
    return form


def sources(form):
    # The name of a folder may look like a pattern.
    shutil.copytree("parts", "[2020]", dirs_exist_ok=True)
    patterns = [f"parts/part-*.{form}", f"p*/part-[0-9].{form}", f"[2020]/part-*.{form}"]
    return ["parts", "parts/", *patterns, f"whole.{form}"]


def encoder(**params):
    return RandomizedResponseEncoder(**{"epsilon": 1.0, "categories": DOMAIN, "random_state": 0} | params)


def test_parts_are_privatized_as_one_file(form):
    found = []
    for number, source in enumerate(sources(form)):
        ledger = PrivacyLedger(9.0)
        target = privatize_file(source, f"{number}.parquet", encoder(ledger=ledger), keep=["id"])
        assert len(ledger.charges()) == 1
        found.append(pq.read_table(target).to_pydict())
    assert list(map(int, found[0]["id"])) == list(range(N))
    assert all(table == found[-1] for table in found)


@pytest.mark.parametrize("command", ["table", "draft-domain", "synthesize", "privatize"])
def test_commands_read_parts_as_one_file(form, command):
    known = ["--domain", "domain.toml", "--epsilon", 1, "--seed", 0]
    words = {"table": [*known, "--by", "sex", "--columns", "age", "--statistics", "count", "mean"], "draft-domain": []}
    suffix = "toml" if command == "draft-domain" else "csv"
    texts = []
    for number, source in enumerate(["parts", f"whole.{form}"]):
        assert call(command, source, f"{number}.{suffix}", *words.get(command, known)) == 0
        texts.append(Path(f"{number}.{suffix}").read_text())
    assert texts[0] == texts[1]


def test_people_and_events_are_read_from_folders(form):
    (Path("events")).mkdir()
    for number in range(2):
        visits = pa.table({"id": range(number * 400, number * 400 + 400), "ward": ["er", "gp"] * 200})
        write(visits, Path(f"events/{number}.{form}"))
    Path("domain.toml").write_text(Domain({**DOMAIN, "ward": ["er", "gp"]}).to_toml(), encoding="utf-8")
    words = ["--person", "id", "--max-rows-per-person", 2, "--domain", "domain.toml", "--epsilon", 100]
    assert call("synthesize", "parts", "p.csv", "--events", f"events/*.{form}", "e.csv", *words) == 0
    assert len(pd.read_csv("e.csv")) == pytest.approx(800, abs=40)


def test_reports_of_parts_are_estimated_as_one_file(form, capsys):
    whole = privatize_file(f"whole.{form}", f"reports.{form}", encoder())
    encoder_of_all = encoder().fit(ROWS.select(["sex", "age"]))
    Path("reports").mkdir()
    for start in range(0, N, 500):
        part = Path(f"reports/{start}.{form}")
        table = read(whole).slice(start, 500)
        write(table.replace_schema_metadata(None if form == "csv" else read(whole).schema.metadata), part)
        if form == "csv":
            encoder_of_all.save(f"{part}.protocol.json")
    for source in ("reports", f"reports/*.{form}"):
        assert read_protocol(source).to_json() == encoder_of_all.to_json()
        assert estimate_file(source).equals(estimate_file(whole, encoder_of_all))
        assert tally_files(source) == tally_files([f"reports/0.{form}", f"reports/500.{form}"])
        assert call("estimate", source) == 0
        assert call("statement", source) == 0
    assert capsys.readouterr().out.count("Guarantee: epsilon = 1, local model") == 2
    # Reports are not added twice.
    assert "must be distinct files" in refuse(capsys, "tally", "reports", f"reports/0.{form}")


def test_person_in_two_files_raises_before_charge(form):
    write(ROWS.slice(0, 10), Path(f"parts/part-9.{form}"))
    with refusal(ValueError, "repeated entries") as ledger:
        made = encoder(memoize=True, secret_key=b"k" * 32, random_state=None, ledger=ledger)
        privatize_file("parts", "out.parquet", made, person="id")


def test_columns_of_parts_may_have_another_order(form):
    write(ROWS.select(["sex", "id", "note", "age"]), Path(f"parts/part-9.{form}"))
    assert read_declared("parts", DOMAIN)["age"].tolist() == ROWS["age"].to_pylist() * 2


NAMES = [["id", "sex", "note"], [*ROWS.column_names, "more"], ["id", "sex", "note", "more"]]


@pytest.mark.parametrize("names", NAMES)
def test_parts_with_other_columns_raise_an_error(form, names):
    write(ROWS.append_column("more", ROWS["id"]).select(names), Path(f"parts/part-9.{form}"))
    same = "part-9.csv must have the same columns as part-0.csv"
    with pytest.raises(ValueError, match=same if form == "csv" else "parts must have the same columns in all files"):
        TableFile("parts")


@pytest.mark.parametrize("form", ["parquet", "arrow"], indirect=True)
def test_parts_with_other_types_raise_an_error(form):
    write(ROWS.set_column(2, "age", ROWS["age"].cast(pa.string())), Path(f"parts/part-9.{form}"))
    with pytest.raises(ValueError, match="parts must have one type of each column in all files"):
        TableFile("parts")


def test_part_of_missing_values_has_the_type_of_the_other_parts(form):
    write(pa.table({"id": [N], "sex": ["f"], "age": [None], "note": [None]}), Path(f"parts/part-9.{form}"))
    frame = read_declared("parts", DOMAIN)
    assert len(frame) == N + 1
    assert frame["age"].isna().sum() == 1


def test_other_files_of_a_folder_raise_an_error(form, capsys):
    Path("parts/more").mkdir()
    other = "x.parquet" if form == "csv" else "x.csv"
    for action, message in [
        (lambda: None, "parts must contain files only, got a folder in it"),
        (lambda: Path("parts/more").rmdir(), ""),
        (lambda: write(ROWS, Path("parts", other)), "must contain files of one format"),
        (lambda: Path("parts/readme.txt").touch(), "The name of a file must end in one of"),
    ]:
        action()
        if message:
            with pytest.raises(ValueError, match=message):
                TableFile("parts")
    for source in ("parts/none-*.csv", "none", "none.csv"):
        assert f"There is no file {Path(source).name}." in refuse(capsys, "draft-domain", source, "out.toml")
