"""``skdp statement``."""

import json

import pandas as pd
import pytest

import skdp
from skdp.cli import main
from skdp.engines import privatize_file, tally_files
from skdp.privacy import privacy_statement
from tests.cli.commands import refuse

PEOPLE = pd.DataFrame({"sex": ["f", "m"] * 50, "age": range(100)})
ENCODER = skdp.RandomizedResponseEncoder(1.0, categories={"sex": ["f", "m"]})


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Return reports in all forms, and all other files that state a guarantee."""
    folder = tmp_path_factory.mktemp("files")
    PEOPLE.to_parquet(folder / "people.parquet")
    for ending in ("csv.gz", "parquet", "arrow"):
        privatize_file(folder / "people.parquet", folder / f"reports.{ending}", ENCODER)
    tally_files(folder / "reports.parquet", destination=folder / "tally.json")
    ENCODER.save(folder / "protocol.json")
    skdp.save(ENCODER, folder / "model.skops")
    return folder


def test_invalid_arguments_raise_an_error(files, tmp_path, capsys):
    (tmp_path / "old.html").write_text("mine")
    model, other = files / "model.skops", tmp_path / "a.txt"
    for message, words in {
        "--out must end in .html or .json, got 'a.txt'": [model, "--out", other],
        "old.html', which exists": [model, "--out", tmp_path / "old.html"],
        "There is no file none.csv": ["none.csv"],
        "There is no file model.py:pipeline": ["model.py:pipeline"],
        "There is no file none": ["none"],
        "error: There is no file none.": ["memory://none.csv"],
    }.items():
        assert message in refuse(capsys, "statement", *words)
    assert (tmp_path / "old.html").read_text() == "mine"
    assert not other.exists()


def test_saved_model_is_stated_as_text_record_and_page(files, tmp_path, capsys):
    model = str(files / "model.skops")
    assert main(["statement", model]) == 0
    assert "Guarantee: epsilon = 1, local model" in capsys.readouterr().out
    record, page = tmp_path / "one.json", tmp_path / "one.HTML"
    assert main(["statement", model, "--out", str(record)]) == 0
    assert capsys.readouterr().out == f"Wrote {record}\n"
    assert json.loads(record.read_text())["total"]["epsilon"] == 1
    assert main(["statement", model, "--out", str(page)]) == 0
    assert "<html" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["reports.parquet", "reports.arrow", "tally.json", "protocol.json"])
def test_files_state_their_guarantee(files, name, capsys):
    assert main(["statement", str(files / name)]) == 0
    printed = capsys.readouterr().out
    assert "Guarantee: epsilon = 1, local model, replacing one record's values of: sex" in printed
    assert "age" not in printed


def test_statement_has_the_texts_of_the_options(files, capsys):
    texts = {"title": "Visits", "purpose": "Open data"}
    words = [word for name, text in texts.items() for word in (f"--{name}", text)]
    assert main(["statement", str(files / "tally.json"), *words]) == 0
    printed = capsys.readouterr().out
    assert [text for text in texts.values() if text not in printed] == []


def test_columns_beside_reports_are_unprotected(tmp_path, capsys):
    encoder = skdp.UnaryEncodingTransformer(1.0, categories={"sex": ["f", "m"]})
    reports = encoder.fit_transform(PEOPLE[["sex"]])
    reports.assign(age=PEOPLE["age"]).to_parquet(tmp_path / "reports.parquet")
    assert main(["statement", str(tmp_path / "reports.parquet"), "--out", str(tmp_path / "page.json")]) == 0
    record = json.loads((tmp_path / "page.json").read_text())
    columns = [(row["column"], row["protection"]) for row in record["columns"]]
    assert columns == [("sex", "privatized rows"), ("age", "unprotected: true values are in the table")]
    assert record["total"]["scope"] == ["sex"]


def test_files_without_a_protocol_raise_an_error(files, capsys):
    for name in ("people.parquet", "reports.csv.gz"):  # text does not contain its protocol
        error = refuse(capsys, "statement", files / name)
        assert "does not contain the protocol of its reports. Use the protocol file of `save`" in error
    assert main(["statement", str(files / "model.skops")]) == 0


def test_ledger_states_its_charges(tmp_path, capsys):
    ledger = skdp.PrivacyLedger(path=tmp_path / "ledger.sqlite", epsilon=9.0)
    encoder = skdp.RandomizedResponseEncoder(2.0, categories={"sex": ["f", "m"]}, ledger=ledger)
    encoder.fit_transform(PEOPLE[["sex"]])
    encoder.transform(PEOPLE[["sex"]])
    skdp.DPMean(0.5, bounds=(0, 100), ledger=ledger, random_state=0).fit(PEOPLE[["age"]])
    rows = privacy_statement(ledger).rows[["column", "step", "epsilon", "relation"]].values.tolist()
    assert rows == [["sex", "RandomizedResponseEncoder, 2 times", 4, "replace"], ["age", "DPMean", 1, "replace"]]
    assert main(["statement", str(tmp_path / "ledger.sqlite")]) == 0
    printed = capsys.readouterr().out
    assert "Guarantee: epsilon = 5, central model, replacing" in printed
    assert "Only charged releases are listed. Others may exist, and are not in this total." in printed
    assert "Unprotected columns" not in printed
    assert ledger.spent.epsilon == 5


@pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
def test_address_of_a_database_is_a_ledger(scheme, capsys):
    pytest.importorskip("psycopg", reason="psycopg is not installed (extra 'postgres')")
    error = refuse(capsys, "statement", f"{scheme}://nobody@127.0.0.1:1/budgets?connect_timeout=2")
    assert f"The ledger {scheme}://nobody@127.0.0.1:1/budgets" in error
    assert "the server cannot be reached" in error
