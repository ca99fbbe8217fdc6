"""``skdp estimate`` and ``skdp tally``: files contain their protocol, and options that contradict it are errors."""

import json
import os
import runpy
import sys

import numpy as np
import pandas as pd
import pytest

from skdp import (
    Domain,
    Interval,
    NumericPerturber,
    RandomizedResponseEncoder,
    RapporEncoder,
    UnaryEncodingTransformer,
    read_protocol,
)
from skdp.cli import main
from skdp.engines import estimate_file, privatize_file, tally_files
from tests.cli.commands import refuse
from tests.conftest import draw_by_key

DOMAIN = Domain({"sex": ["f", "m"], "rooms": [1, 2, 3, 4], "age": Interval(0, 120, bins=4)})
PEOPLE = pd.DataFrame({"sex": ["f", "m"] * 50, "rooms": [1, 2, 3, 4] * 25, "age": [5, 35, 65, 95] * 25})


def response(epsilon=1.0, columns=DOMAIN.columns, **parameters):
    return RandomizedResponseEncoder(epsilon, categories=DOMAIN.select(list(columns)), **parameters)


REPORTS = {
    "split": response(),
    "joint": response(columns=["sex", "rooms"], strategy="joint"),
    "unary": UnaryEncodingTransformer(1.0, categories=DOMAIN),
    "numeric": NumericPerturber(1.0, bounds={"age": (0, 120)}, random_state=0),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("reports")
    PEOPLE.to_parquet(place / "people.parquet")
    for name, encoder in REPORTS.items():
        with draw_by_key(name):
            privatize_file(place / "people.parquet", place / f"{name}.parquet", encoder)
        encoder.save(place / f"{name}.json")
    response(3.0).fit(PEOPLE).save(place / "epsilon.json")
    return place


@pytest.fixture(autouse=True)
def inside(folder, monkeypatch):
    monkeypatch.chdir(folder)


def test_options_of_estimates_are_used(capsys):
    words = ["--population", "--confidence-level", "0.5", "--postprocess", "clip"]
    assert main(["estimate", "split.parquet", *words]) == 0
    options = {"rows": "population", "confidence_level": 0.5, "postprocess": "clip"}
    assert estimate_file("split.parquet", **options).round(1).to_string() in capsys.readouterr().out


def test_printed_means_have_two_digits_of_their_error(capsys):
    """A mean of 3.07 with an error of 0.039 was printed as 3.1 and 0.0."""
    pd.DataFrame({"score": np.tile([1.0, 3.5, 4.0], 2_000)}).to_parquet("scores.parquet")
    encoder = NumericPerturber(2.0, bounds={"score": (0.0, 5.0)}, random_state=0)
    privatize_file("scores.parquet", "noisy.parquet", encoder)
    assert main(["estimate", "noisy.parquet"]) == 0
    (error,) = estimate_file("noisy.parquet")["std_error"]
    assert error < 0.05
    assert f"{error:.2g}" in capsys.readouterr().out


@pytest.mark.parametrize("name", REPORTS)
def test_file_needs_no_option(capsys, name):
    assert main(["estimate", f"{name}.parquet"]) == 0
    printed = capsys.readouterr().out
    assert main(["estimate", f"{name}.parquet", "--protocol", f"{name}.json"]) == 0
    assert capsys.readouterr().out == printed


def test_protocol_of_another_encoder_and_reports_of_words_raise_an_error(capsys):
    for protocol in ("unary.json", "epsilon.json"):
        assert "split.parquet: " in refuse(capsys, "estimate", "split.parquet", "--protocol", protocol)
    PEOPLE[["sex"]].to_parquet("sexes.parquet")
    privatize_file("sexes.parquet", "words.parquet", RapporEncoder(1.0))
    assert "for declared values, got RapporEncoder" in refuse(capsys, "estimate", "words.parquet")


def test_file_without_its_protocol_needs_one(capsys):
    reports = REPORTS["split"].transform(PEOPLE)
    reports.attrs.clear()
    reports.to_parquet("plain.parquet")
    for command in (["estimate"], ["tally", "--out", "plain.json"]):
        assert "plain.parquet does not contain the protocol of its reports. Use --protocol" in refuse(
            capsys, *command, "plain.parquet"
        )
    reports.to_csv("plain.csv", index=False)
    absent = "There is no protocol file plain.csv.protocol.json beside plain.csv"
    assert f"{absent}, and a CSV file does not contain the protocol of its reports. Use --protocol" in refuse(
        capsys, "estimate", "plain.csv"
    )
    for read in (read_protocol, estimate_file):
        with pytest.raises(ValueError, match=f"^{absent}"):
            read("plain.csv")
    assert "--out must end in .csv, got 'out.json'" in refuse(capsys, "estimate", "split.parquet", "--out", "out.json")
    with pytest.raises(ValueError, match=r"Pass the encoder: `estimate_file\(path, encoder\)`"):
        estimate_file("plain.parquet")
    assert "which exists" in refuse(capsys, "estimate", "split.parquet", "--out", "plain.csv")
    main(["estimate", "plain.parquet", "--protocol", "split.json"])
    expected = REPORTS["split"].estimate_counts(reports).round(1)
    assert capsys.readouterr().out == expected.to_string() + "\n"


@pytest.fixture
def parts(tmp_path):
    """Return files of reports of two protocols, and their tallies."""
    for name, encoder in {"a": REPORTS["split"], "b": REPORTS["split"], "other": response(3.0).fit(PEOPLE)}.items():
        encoder.transform(PEOPLE).to_parquet(tmp_path / f"{name}.parquet")
        assert main(["tally", str(tmp_path / f"{name}.parquet"), "--out", str(tmp_path / f"{name}.json")]) == 0
    return tmp_path


def test_reports_and_tallies_of_collectors_are_added_and_estimated(parts, capsys):
    main(["tally", str(parts / "a.json"), str(parts / "b.json"), "--out", str(parts / "sum.json")])
    whole = tally_files([parts / "a.parquet", parts / "b.parquet"])
    assert whole.n_reports == 200
    assert tally_files(parts / "sum.json") == whole
    capsys.readouterr()
    main(["estimate", str(parts / "sum.json")])
    assert capsys.readouterr().out == REPORTS["split"].estimate_counts(whole).round(1).to_string() + "\n"


def test_tallies_of_two_protocols_raise_an_error(parts, capsys):
    error = refuse(capsys, "tally", parts / "a.json", parts / "other.json")
    assert "other.json: The metadata of the reports contains the protocol of another transformer" in error
    tallied, other = (json.loads((parts / f"{name}.json").read_text()) for name in ("a", "other"))
    (parts / "swapped.json").write_text(json.dumps(tallied | {"skdp.protocol": other["skdp.protocol"]}))
    assert "must contain a tally of its own protocol" in refuse(capsys, "estimate", parts / "swapped.json")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no poll")
def test_closed_pipe_is_no_error(capsys, monkeypatch):
    """Run ``python -m skdp`` in this process, because a new process takes seconds to start."""
    monkeypatch.setattr(sys, "argv", ["skdp", "estimate", "split.parquet"])
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as closed:  # main redirects it, so closing it raises no error
        monkeypatch.setattr(sys, "stdout", closed)
        with pytest.raises(SystemExit) as caught:
            runpy.run_module("skdp", run_name="__main__")
    assert caught.value.code == 141
    assert not capsys.readouterr().err
