"""``skdp estimate`` and ``skdp tally``: files say their protocol, and what contradicts them is refused."""

from __future__ import annotations

import gzip
import json
import os
import runpy
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from skdp import (
    Domain,
    HadamardResponseEncoder,
    NumericPerturber,
    PrivacyLedger,
    RandomizedResponseEncoder,
    RapporEncoder,
    UnaryEncodingTransformer,
)
from skdp.cli import main
from skdp.engines import estimate_file, privatize_file, tally_files

TOML = """
[columns.sex]
values = ["f", "m"]

[columns.rooms]
values = [1, 2, 3, 4]

[columns.age]
low = 0
high = 120
bins = 4
"""
DOMAIN = Domain.from_toml(TOML)
PEOPLE = pd.DataFrame({"sex": ["f", "m"] * 50, "rooms": [1, 2, 3, 4] * 25, "age": [5, 35, 65, 95] * 25})
OTHERS = {
    "other values.toml": TOML.replace('"m"]', '"x"]'),
    "other order.toml": TOML.replace('["f", "m"]', '["m", "f"]'),
    "more values.toml": TOML.replace("4]", "4, 5]"),
    "as text.toml": TOML.replace("[1, 2, 3, 4]", '["1", "2", "3", "4"]'),
    "as truth.toml": TOML.replace('["f", "m"]', "[true, false]"),
    "other bins.toml": TOML.replace("bins = 4", "bins = 6"),
    "other end.toml": TOML.replace("high = 120", "high = 100"),
    "without sex.toml": TOML[TOML.index("[columns.rooms]") :],
    "domain.toml": TOML,
}


def response(epsilon=1.0, columns=DOMAIN.columns, **parameters):
    return RandomizedResponseEncoder(epsilon, categories=DOMAIN.select(list(columns)), **parameters)


REPORTS = {
    "split": response(),
    "joint": response(columns=["sex", "rooms"], strategy="joint"),
    "unary": UnaryEncodingTransformer(1.0, categories=DOMAIN),
    "hadamard": HadamardResponseEncoder(2.0, categories=DOMAIN.select(["rooms"])),
}
WRONG = [
    ("split", ["--epsilon", 3], "--epsilon 3.0 contradicts the epsilon 1.0 of split"),
    ("split", ["--epsilon", 0.999], "--epsilon 0.999 contradicts the epsilon 1.0"),
    ("joint", ["--epsilon", 2], "--epsilon 2.0 contradicts the epsilon 1.0"),
    ("hadamard", ["--epsilon", 1], "--epsilon 1.0 contradicts the epsilon 2.0"),
    ("split", ["--strategy", "joint"], "--strategy joint contradicts the strategy split"),
    ("split", ["--strategy", "sample"], "--strategy sample contradicts the strategy split"),
    ("joint", ["--strategy", "split"], "--strategy split contradicts the strategy joint"),
    ("joint", ["--strategy", "sample"], "--strategy sample contradicts the strategy joint"),
    ("split", ["--transformer", "unary"], "--transformer unary contradicts the transformer randomized_response"),
    ("split", ["--transformer", "auto"], "--transformer auto contradicts the transformer randomized_response"),
    ("unary", ["--transformer", "randomized_response"], "contradicts the transformer unary"),
    ("unary", ["--transformer", "subset"], "--transformer subset contradicts the transformer unary"),
    ("hadamard", ["--transformer", "local_hashing"], "contradicts the transformer hadamard"),
    ("split", ["--columns", "sex"], "--columns sex contradicts the columns sex rooms age"),
    ("split", ["--columns", "sex,rooms"], "--columns sex rooms contradicts the columns sex rooms age"),
    ("joint", ["--columns", "rooms", "sex"], "--columns rooms sex contradicts the columns sex rooms"),
    ("hadamard", ["--columns", "rooms", "age"], "--columns rooms age contradicts the columns rooms"),
    ("hadamard", ["--columns", "income"], "--columns income contradicts the columns rooms"),
    ("split", ["--domain", "other values.toml"], "other values, or another order, of column 'sex'"),
    ("split", ["--domain", "other order.toml"], "other values, or another order, of column 'sex'"),
    ("joint", ["--domain", "other order.toml"], "other values, or another order, of column 'sex'"),
    ("split", ["--domain", "more values.toml"], "--domain declares other values of column 'rooms'"),
    ("hadamard", ["--domain", "as text.toml"], "of column 'rooms'"),
    ("unary", ["--domain", "as truth.toml"], "of column 'sex'"),
    ("split", ["--domain", "other bins.toml"], "--domain declares other values of column 'age'"),
    ("split", ["--domain", "other end.toml"], "other values, or another order, of column 'age'"),
    ("unary", ["--domain", "without sex.toml"], "--domain declares no column 'sex'"),
    ("split", ["--protocol", "unary.json"], "--protocol unary.json contradicts split"),
    ("split", ["--protocol", "epsilon.json"], "these are of epsilon 1.0, not 3.0"),
    ("hadamard", ["--protocol", "split.json"], "--protocol split.json contradicts hadamard"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("reports")
    PEOPLE.to_parquet(place / "people.parquet")
    for name, text in OTHERS.items():
        (place / name).write_text(text)
    for place_of, (name, encoder) in enumerate(REPORTS.items()):
        ending = ("csv", "parquet", "arrow", "parquet")[place_of]
        privatize_file(place / "people.parquet", place / f"{name}.{ending}", encoder)
        encoder.save(place / f"{name}.json")
    response(3.0).fit(PEOPLE).save(place / "epsilon.json")
    return place


@pytest.fixture(autouse=True)
def inside(folder, monkeypatch):
    monkeypatch.chdir(folder)


def refuse(capsys, *words):
    capsys.readouterr()
    with pytest.raises(SystemExit) as caught:
        main(list(map(str, words)))
    assert caught.value.code == 2
    return capsys.readouterr().err


def file_of(folder, name):
    return next(f"{name}{end}" for end in (".csv", ".parquet", ".arrow") if (folder / f"{name}{end}").exists())


@pytest.mark.parametrize("name", REPORTS)
def test_a_file_needs_no_option(folder, capsys, name):
    assert main(["estimate", file_of(folder, name)]) == 0
    printed = capsys.readouterr().out
    given = ["--domain", "domain.toml", "--columns", *REPORTS[name].protocol_.columns, "--protocol", f"{name}.json"]
    right = ["--epsilon", str(REPORTS[name].epsilon), "--strategy", REPORTS[name].strategy]
    assert main(["estimate", file_of(folder, name), *given, *right]) == 0
    assert capsys.readouterr().out == printed


@pytest.mark.parametrize(("name", "options", "expected"), WRONG)
def test_an_option_that_contradicts_the_file_is_refused(folder, capsys, name, options, expected):
    text = refuse(capsys, "estimate", file_of(folder, name), *options)
    assert expected in text
    assert name in text


def test_there_are_thirty():
    assert len(WRONG) == 30


def test_a_file_that_says_nothing_needs_the_options(capsys):
    reports = REPORTS["split"].transform(PEOPLE)
    reports.attrs.clear()
    reports.to_parquet("plain.parquet")
    for options in ([], ["--epsilon", 1], ["--domain", "domain.toml"]):
        assert "--protocol, or --domain and --epsilon are needed" in refuse(
            capsys, "estimate", "plain.parquet", *options
        )
    main(["estimate", "plain.parquet", "--epsilon", "1", "--domain", "domain.toml"])
    printed = capsys.readouterr().out
    main(["estimate", "plain.parquet", "--protocol", "split.json"])
    assert capsys.readouterr().out == printed
    assert "--epsilon 2.0 contradicts the epsilon 1.0 of split.json" in refuse(
        capsys, "estimate", "plain.parquet", "--protocol", "split.json", "--epsilon", 2
    )


def test_a_file_that_lacks_its_columns_is_refused(capsys):
    REPORTS["split"].transform(PEOPLE).drop(columns="sex").to_parquet("cut.parquet")
    assert "cut.parquet lacks the columns ['sex']" in refuse(capsys, "estimate", "cut.parquet")


def test_a_csv_file_that_was_changed_is_refused(folder, capsys):
    for name in ("split.csv", "split.csv.skdp.json"):
        (folder / name.replace("split", "changed")).write_bytes((folder / name).read_bytes())
    assert main(["estimate", "changed.csv"]) == 0
    with (folder / "changed.csv").open("a") as file:
        file.write("f,1,35\n")
    assert "it was changed or replaced since" in refuse(capsys, "estimate", "changed.csv")
    (folder / "changed.csv.skdp.json").write_text("{}")
    assert "does not say the protocol" in refuse(capsys, "estimate", "changed.csv")


def test_a_sidecar_is_never_overwritten(folder):
    (folder / "new.csv.skdp.json").write_text("{}")
    with pytest.raises(FileExistsError, match=r"new.csv.skdp.json"):
        privatize_file("people.parquet", "new.csv", response(ledger=PrivacyLedger(epsilon=9)))
    assert not (folder / "new.csv").exists()


@pytest.mark.parametrize("ending", ["csv", "parquet", "arrow"])
def test_columns_may_be_named_as_the_estimates(tmp_path, ending):
    names = ["count", "lower", "std_error"]
    people = pd.DataFrame({name: ["f", "m"] * 50 for name in names})
    encoder = RandomizedResponseEncoder(9.0, strategy="joint", categories={name: ["f", "m"] for name in names})
    encoder.fit_transform(people).to_csv(tmp_path / "reports.csv", index=False)
    found = estimate_file(tmp_path / "reports.csv", encoder, target=tmp_path / f"out.{ending}")
    read = {"csv": pd.read_csv, "parquet": pd.read_parquet, "arrow": pd.read_feather}[ending]
    written = read(tmp_path / f"out.{ending}")
    assert written.columns.to_list() == [f"{name}_value" for name in names] + found.columns.to_list()
    assert np.allclose(written["count"], found["count"])
    assert set(written["count_value"]) == {"f", "m"}


def test_the_python_function_refuses_another_transformer():
    with pytest.raises(ValueError, match=r"joint.parquet: reports of two protocols are never added: .*epsilon"):
        estimate_file("joint.parquet", response(3.0, columns=["sex", "rooms"], strategy="joint"))
    assert estimate_file("joint.parquet").shape == (8, 4)


def test_numbers_and_filters(tmp_path):
    ages = PEOPLE[["age"]].astype(float)
    ages.to_parquet(tmp_path / "ages.parquet")
    privatize_file(tmp_path / "ages.parquet", tmp_path / "numbers.csv", NumericPerturber(1.0, bounds={"age": (0, 120)}))
    assert list(estimate_file(tmp_path / "numbers.csv").columns) == ["mean", "std_error", "lower", "upper"]
    RapporEncoder(1.0, n_bits=8).fit_transform(PEOPLE[["sex"]]).to_parquet(tmp_path / "filters.parquet")
    assert tally_files(tmp_path / "filters.parquet").n_reports == 100
    with pytest.raises(TypeError, match="RapporEncoder; give its own estimates"):
        estimate_file(tmp_path / "filters.parquet")


@pytest.fixture
def lines(tmp_path):
    def write(name, encoder=REPORTS["split"], rows=PEOPLE, extra=()):
        path = tmp_path / name
        encoder.transform(rows).to_json(path, orient="records", lines=True)
        with path.open("a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in extra)
        return str(path)

    return write


def test_lines_of_clients_are_tallied_merged_and_estimated(lines, tmp_path, capsys):
    made = [lines(f"{place}.jsonl") for place in range(3)]
    for path in made:
        assert main(["tally", path, "--protocol", "split.json", "--out", path.replace("jsonl", "json")]) == 0
    main(["tally", *(path.replace("jsonl", "json") for path in made), "--out", str(tmp_path / "sum.json")])
    whole = tally_files(made, REPORTS["split"])
    assert whole.n_reports == 300
    assert tally_files(tmp_path / "sum.json") == whole
    assert type(whole).from_json((tmp_path / "sum.json").read_text()) == whole
    capsys.readouterr()
    main(["estimate", str(tmp_path / "sum.json")])
    assert capsys.readouterr().out == REPORTS["split"].estimate_counts(whole).round(1).to_string() + "\n"
    main(["tally", "split.csv", made[0], "--quiet"])
    assert json.loads(capsys.readouterr().out)["n_reports"] == 200


def test_tallies_of_two_protocols_are_refused(lines, tmp_path, capsys):
    for place, epsilon in enumerate((1.0, 3.0)):
        encoder = response(epsilon).fit(PEOPLE)
        tally_files(lines("one.jsonl", encoder), encoder, target=tmp_path / f"{place}.json")
    error = refuse(capsys, "tally", tmp_path / "0.json", tmp_path / "1.json")
    assert "1.json: reports of two protocols are never added: these are of epsilon 3.0, not 1.0" in error
    swapped = json.loads((tmp_path / "0.json").read_text()) | {
        "skdp.protocol": json.loads((tmp_path / "1.json").read_text())["skdp.protocol"]
    }
    (tmp_path / "swapped.json").write_text(json.dumps(swapped))
    assert "holds no tally of the protocol that it says" in refuse(capsys, "estimate", tmp_path / "swapped.json")
    assert "give the transformer (--protocol)" in refuse(capsys, "tally", lines("alone.jsonl"))


@pytest.mark.parametrize(
    "bad",
    [
        '{"sex": "SECRET", "rooms": 1, "age": 15}',
        '{"sex": "f", "rooms": 1}',
        '{"sex": "f", "rooms": 1, "age": NaN}',
        '{"sex": "f", "rooms": [1], "age": 15}',
        '{"sex": "f", "sex": "m", "rooms": 1, "age": 15}',
        '{"sex": "f", "rooms": 1.5, "age": 15}',
        '["f", 1, 15]',
        "SECRET",
        "[" * 5000,
        '{"sex": "' + "SECRET" * 200_000 + '", "rooms": 1, "age": 15}',
    ],
)
def test_a_bad_line_is_refused_by_its_number(lines, capsys, bad):
    path = lines("bad.jsonl", extra=["", bad, '{"sex": "f"}'])
    text = refuse(capsys, "tally", path, "--protocol", "split.json")
    assert "bad.jsonl, line 102: " in text
    assert "SECRET" not in text


@pytest.mark.parametrize("content", ["", "[]", "{}", "[" * 100_000, '{"skdp.protocol": {}}', "\udcff"])
def test_what_is_no_tally_is_refused(tmp_path, capsys, content):
    (tmp_path / "bad.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    assert "skdp estimate: error: " in refuse(capsys, "estimate", tmp_path / "bad.json")


@pytest.mark.long
def test_one_number_with_a_point_does_not_change_the_others(tmp_path):
    """Seeds of more than 53 bits are not read as floats because of another line."""
    from skdp import LocalHashingEncoder

    people = pd.DataFrame({"rooms": [7] * 10})
    encoder = LocalHashingEncoder(3.0, categories={"rooms": range(70_000)}).fit(people)
    reports = encoder.transform(people)
    path = tmp_path / "reports.jsonl"
    rows = [{"rooms_seed": str(seed), "rooms_bucket": int(bucket)} for seed, bucket in reports.to_numpy()]
    extra = {"rooms_seed": 5.0, "rooms_bucket": 0}
    path.write_text("".join(json.dumps(row) + "\n" for row in [*rows, extra]))
    alone = tmp_path / "alone.jsonl"
    alone.write_text(json.dumps(extra) + "\n")
    assert tally_files(path, encoder) == encoder.tally(reports) + tally_files(alone, encoder)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no poll")
def test_a_reader_that_ends_is_no_error(folder, capsys, monkeypatch):
    """As ``python -m skdp``, but in no process of its own, which takes seconds to start."""
    monkeypatch.setattr(sys, "argv", ["skdp", "estimate", str(file_of(folder, "split")), "--quiet"])
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as closed:  # and what is left is written at its end
        monkeypatch.setattr(sys, "stdout", closed)
        with pytest.raises(SystemExit) as caught:
            runpy.run_module("skdp", run_name="__main__")
    assert caught.value.code == 141
    assert not capsys.readouterr().err


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz"])
def test_a_byte_order_mark_is_no_part_of_a_line(lines, tmp_path, ending):
    content = b"\xef\xbb\xbf" + Path(lines("plain.jsonl")).read_bytes()
    path = tmp_path / f"marked.{ending}"
    path.write_bytes(gzip.compress(content) if ending.endswith(".gz") else content)
    assert tally_files(path, REPORTS["split"]) == tally_files(tmp_path / "plain.jsonl", REPORTS["split"])
