"""``skdp privatize`` of many files, numbers, filters and permanent reports; ``skdp estimate`` of what it wrote."""

import gzip
import json
import stat
import sys

import pandas as pd
import pytest

from skdp import PrivacyLedger
from skdp.cli import main
from skdp.engines.files import _privatize as _files_privatize
from skdp.engines.files.shards import _privatize as _shards_privatize
from skdp.local import RandomizedResponseEncoder, RapporEncoder, ReportTransformer

TOML = """
[columns.sex]
values = ["F", "M"]

[columns.age]
low = 0
high = 120
bins = 12

[columns.pay]
low = 0
high = 100
bins = 2
missing = true
"""
ROWS = 3_000
BASE = ["--domain", "domain.toml", "--epsilon", 4]


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(_files_privatize, "batch_rows", lambda width: 4096)
    monkeypatch.setattr(_shards_privatize, "batch_rows", lambda width: 4096)
    (tmp_path / "domain.toml").write_text(TOML)
    rows = pd.DataFrame(
        {
            "member": [f"M{row}" for row in range(ROWS)],
            "sex": ["F", "M", "M"] * (ROWS // 3),
            "age": [row % 121 for row in range(ROWS)],
            "pay": [None if row % 4 == 0 else row % 100 for row in range(ROWS)],
            "town": "Lyon",
        }
    )
    (tmp_path / "in").mkdir()
    for part in range(3):
        rows.iloc[part * 1_000 : (part + 1) * 1_000].to_csv(f"in/{part}.csv", index=False)
    rows.to_csv("in.csv", index=False)
    return tmp_path


def run(*words):
    return main(list(map(str, words)))


def refuse(capsys, *words):
    with pytest.raises(SystemExit) as caught:
        run(*words)
    assert caught.value.code == 2
    return capsys.readouterr().err


def estimated(capsys, *words):
    capsys.readouterr()
    run("estimate", *words)
    return capsys.readouterr().out


@pytest.mark.parametrize("source", [["in"], ["in/*.csv"], ["in/0.csv", "in/1.csv", "in/2.csv"]])
def test_many_files_become_a_folder_that_is_estimated_without_options(files, capsys, source):
    words = ["--columns", "sex", "age", "--keep", "town", "--ledger", "ledger", "--budget", 9, "--jobs", 2]
    assert run("privatize", *source, "out", *BASE, *words) == 0
    printed = capsys.readouterr()
    assert "Released as they are: town" in printed.err
    assert "Left out: member, pay" in printed.err
    assert printed.out.startswith("epsilon = 4, local model")
    assert printed.out.endswith("Wrote out\n")
    assert sorted(path.name for path in (files / "out").iterdir()) == [
        "manifest.json", *(f"part-0000{part}.parquet" for part in range(3))
    ]  # fmt: skip
    assert len(PrivacyLedger("ledger").report()) == 1
    text = estimated(capsys, "out/manifest.json")
    assert text == estimated(capsys, "out")
    assert len([line for line in text.splitlines() if "." in line]) == 14
    (files / "out" / "part-00001.parquet").unlink()
    assert "shards are missing, such as part-00001.parquet" in refuse(capsys, "estimate", "out")
    assert "--epsilon 1.0 contradicts the epsilon 4.0 of out" in refuse(capsys, "estimate", "out", "--epsilon", 1)


@pytest.mark.parametrize("form", ["csv", "csv.gz", "jsonl", "jsonl.gz", "arrow", "parquet"])
def test_the_format_of_shards_is_chosen(files, capsys, form):
    run("privatize", "in", "out/", *BASE, "--columns", "sex", "--format", form)
    assert (files / "out" / f"part-00002.{form}").exists()
    assert "sex" in estimated(capsys, "out")


def test_one_file_may_be_packed_json(files, capsys):
    rows = pd.read_csv("in.csv")[["sex", "age"]].to_dict(orient="records")
    (files / "in.jsonl.gz").write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))
    run("privatize", "in.jsonl.gz", "out.csv.gz", *BASE, "--columns", "sex", "age")
    assert len(pd.read_csv("out.csv.gz")) == ROWS
    assert "age" in estimated(capsys, "out.csv.gz")


def test_a_url_is_read_and_written(files, capsys):
    (files / "staging").mkdir()
    run("privatize", f"file://{files}/in/*.csv", "memory://cli/out", *BASE, "--columns", "sex", "--staging", "staging")
    assert capsys.readouterr().out.endswith("Wrote memory://cli/out\n")
    assert "sex" in estimated(capsys, "memory://cli/out")
    assert "sex" in estimated(capsys, "memory://cli/out/manifest.json")


def test_a_stopped_release_is_resumed(files, capsys, monkeypatch):
    class Stop:
        def update(self, rows):
            raise KeyboardInterrupt

        def close(self):
            pass

    words = ["privatize", "in", "out", *BASE, "--columns", "sex", "--ledger", "ledger"]
    with monkeypatch.context() as broken:
        broken.setattr("skdp.cli._privatize.bar_of_rows", lambda options: lambda total: Stop())
        assert run(*words, "--budget", 9) == 130
    assert "out.unfinished: --resume goes on" in capsys.readouterr().err
    assert run(*words, "--resume") == 0
    assert len(PrivacyLedger("ledger").report()) == 1
    assert len(list((files / "out").glob("part-*"))) == 3


def test_a_refusal_names_the_part_and_costs_nothing(files, capsys):
    pd.DataFrame({"sex": ["F"] * 9 + ["SECRET"]}).to_csv("in/1.csv", index=False)
    text = refuse(capsys, "privatize", "in", "out", *BASE, "--columns", "sex", "--ledger", "ledger", "--budget", 9)
    assert "part 1: column 'sex' holds a value" in text
    assert "--handle-unknown uniform" in text
    assert "SECRET" not in text
    assert sorted(path.name for path in files.iterdir()) == ["domain.toml", "in", "in.csv"]


# What is reported


def test_numbers_are_reported(files, capsys):
    words = ["--transformer", "numeric", "--columns", "age", "--mechanism", "laplace", "--grid-size", 60]
    run("privatize", "in.csv", "out.parquet", *BASE, *words)
    assert pd.read_parquet("out.parquet").columns.tolist() == ["age"]
    text = estimated(capsys, "out.parquet")
    assert abs(float(text.splitlines()[-1].split()[1]) - 59.5) < 6
    run("privatize", "in", "out", *BASE, *words)
    assert json.loads((files / "out" / "manifest.json").read_text())["protocol"]["transformer"] == "NumericPerturber"
    assert "age" in estimated(capsys, "out")


def test_declared_missing_numbers_are_reported_as_bins(files, capsys):
    run("privatize", "in.csv", "out.csv", *BASE, "--columns", "pay")
    assert 0.1 < pd.read_csv("out.csv")["pay"].isna().mean() < 0.5
    lines = estimated(capsys, "out.csv").splitlines()
    assert len([line for line in lines if "." in line]) == 3
    text = refuse(capsys, "privatize", "in.csv", "o.csv", *BASE, "--columns", "pay", "--transformer", "numeric")
    assert "reports no missing values, which the domain declares of 'pay'" in text
    assert "numbers, and the domain declares other values of 'sex'" in refuse(
        capsys, "privatize", "in.csv", "o.csv", *BASE, "--transformer", "numeric"
    )


def test_text_that_is_not_declared_is_reported(files, capsys):
    words = ["--epsilon", 2, "--transformer", "rappor", "--columns", "town", "--n-bits", 16, "--n-hashes", 1]
    run("privatize", "in", "out", *words, "--save", "town.json")
    loaded = ReportTransformer.load("town.json")
    assert isinstance(loaded, RapporEncoder)
    assert (loaded.n_bits, loaded.n_hashes) == (16, 1)
    reports = pd.concat([pd.read_parquet(path) for path in (files / "out").glob("part-*")])
    assert abs(loaded.decode(reports, ["Lyon"]).loc["Lyon", "count"] - ROWS) < 1_000
    run("privatize", "in", "again", "--load", "town.json")
    text = refuse(capsys, "privatize", "in", "other", *words, "--domain", "domain.toml")
    assert "--domain is of no use with --transformer rappor" in text


@pytest.mark.parametrize(
    "words",
    [
        [*BASE, "--columns", "sex"],
        [*BASE, "--columns", "age", "--transformer", "numeric"],
        ["--epsilon", 3, "--columns", "town", "--transformer", "rappor", "--p", 0, "--q", 1],
    ],
    ids=["values", "numbers", "filters"],
)
def test_permanent_reports_are_repeated(files, words):
    run("privatize", "in.csv", "may.csv", *words, "--record-id", "member", "--new-key", "key", "--save", "protocol")
    if sys.platform != "win32":
        assert stat.S_IMODE((files / "key").stat().st_mode) == 0o600
    run("privatize", "in", "june", *words, "--record-id", "member", "--key", "key", "--format", "csv")
    key = (files / "key").read_text().strip()
    for path in [files / "protocol", *(files / "june").iterdir(), files / "may.csv"]:
        assert key not in path.read_text()
    may, june = pd.read_csv("may.csv"), pd.concat([pd.read_csv(f"june/part-0000{part}.csv") for part in range(3)])
    same = (may.to_numpy() == june.to_numpy()).mean()
    assert same == 1
    run("privatize", "in.csv", "july.csv", "--load", "protocol", "--record-id", "member", "--key", "key")
    july = pd.read_csv("july.csv")
    assert may.equals(july)


def test_a_protocol_is_saved_and_loaded(files, capsys):
    run("privatize", "in.csv", "one.csv", *BASE, "--columns", "sex", "age", "--strategy", "joint", "--save", "p.json")
    saved = ReportTransformer.load("p.json")
    assert isinstance(saved, RandomizedResponseEncoder)
    assert saved.strategy == "joint"
    run("privatize", "in", "two", "--load", "p.json", "--ledger", "ledger", "--budget", 9)
    assert PrivacyLedger("ledger").spent.epsilon == saved.guarantee_.epsilon
    manifest = json.loads((files / "two" / "manifest.json").read_text())
    assert manifest["protocol"] == json.loads(saved.to_json())
    (files / "bad.json").write_text("SECRET")
    text = refuse(capsys, "privatize", "in", "three", "--load", "bad.json")
    assert "--load bad.json: the text is no protocol" in text
    assert "SECRET" not in text


def test_options_that_do_not_go_together_are_refused_before_a_charge(files, capsys):
    run("privatize", "in.csv", "one.csv", *BASE, "--columns", "sex", "--save", "p.json")
    run("privatize", "in.csv", "memo.csv", *BASE, "--columns", "sex", "--record-id", "member", "--new-key", "key",
        "--save", "m.json")  # fmt: skip
    (files / "nokey").write_text("SECRET")
    (files / "copy.csv").write_bytes((files / "in.csv").read_bytes())
    before = sorted(path.name for path in files.iterdir())
    load, numeric, rappor = ["--load", "p.json"], ["--transformer", "numeric"], ["--transformer", "rappor"]
    ages, towns = ["--columns", "age"], ["--columns", "town", "--epsilon", 1]
    wrong = {
        "--epsilon is in the protocol p.json": ["in", "out", *load, "--epsilon", 1],
        "--domain is in the protocol": ["in", "out", *load, "--domain", "domain.toml"],
        "--columns is in the protocol": ["in", "out", *load, "--columns", "sex"],
        "--strategy is in the protocol": ["in", "out", *load, "--strategy", "split"],
        "--transformer is in the protocol": ["in", "out", *load, *numeric],
        "--mechanism is in the protocol": ["in", "out", *load, "--mechanism", "laplace"],
        "--handle-unknown is in the protocol": ["in", "out", *load, "--handle-unknown", "error"],
        "m.json is for permanent reports": ["in", "out", "--load", "m.json"],
        "--epsilon is needed": ["in", "out", "--domain", "domain.toml"],
        "--domain is needed": ["in", "out", "--epsilon", 1],
        "--mechanism go with --transformer numeric": ["in", "out", *BASE, "--mechanism", "laplace"],
        "--n-bits go with --transformer rappor": ["in", "out", *BASE, *numeric, *ages, "--n-bits", 8],
        "--strategy goes with another --transformer": [
            "in", "out", "--epsilon", 1, "--columns", "town", *rappor, "--strategy", "split"
        ],
        "strategy must be 'split' or 'sample'": ["in", "out", *BASE, *numeric, *ages, "--strategy", "joint"],
        "--handle-unknown goes with another": ["in", "out", *BASE, *numeric, *ages, "--handle-unknown", "uniform"],
        "--columns is needed": ["in", "out", "--epsilon", 1, *rappor],
        "--record-id goes with --key": ["in", "out", *BASE, "--record-id", "member"],
        "and these with --record-id": ["in", "out", *BASE, "--key", "key"],
        "not allowed with": ["in", "out", *BASE, "--record-id", "member", "--key", "key", "--new-key", "other"],
        "--seed is of no use": ["in", "out", *BASE, "--record-id", "member", "--key", "key", "--seed", 1],
        "key exists already": ["in", "out", *BASE, "--record-id", "member", "--new-key", "key"],
        "there is no key none": ["in", "out", *BASE, "--record-id", "member", "--key", "none"],
        "holds no key": ["in", "out", *BASE, "--record-id", "member", "--key", "nokey"],
        "must name the column of the record ids": [
            "in", "out", *BASE, *ages, "--record-id", "nobody", "--key", "key"
        ],
        "p.json exists already": ["in", "out", *BASE, "--save", "p.json"],
        "give its name with / at the end, not out.csv": ["in", "out.csv", *BASE],
        "--format goes with a folder": ["in.csv", "out.csv", *BASE, "--format", "csv"],
        "--jobs goes with a folder": ["in.csv", "out.csv", *BASE, "--jobs", 2],
        "--allow-copies goes with a folder": ["in.csv", "out.csv", *BASE, "--allow-copies"],
        "different rows, give --allow-copies": ["in.csv", "copy.csv", "out/", *BASE],
        "--staging goes with a folder": ["in.csv", "out.csv", *BASE, "--staging", "."],
        "staging goes with a URL": ["in", "out", *BASE, *ages, "--staging", "."],
        "a URL as the target needs staging": ["in", "memory://options/out", *BASE, *ages],
        "nothing to resume": ["in", "out", *BASE, *ages, "--resume"],
        "n_hashes": ["in", "out", *towns, *rappor, "--n-bits", 2, "--n-hashes", 8],
    }  # fmt: skip
    for text, words in wrong.items():
        found = refuse(capsys, "privatize", *words, "--ledger", "ledger", "--budget", 9)
        assert text in found, (text, found)
        assert "SECRET" not in found
    assert sorted(path.name for path in files.iterdir()) == before


def test_steps_are_logged_without_values(files, capsys):
    run("privatize", "in", "out", *BASE, "--columns", "sex", "--log-level", "info")
    text = capsys.readouterr().err
    for step in ("part 2 is checked", "before: epsilon = 4", "part-00000.parquet is written", "released"):
        assert step in text
    run("privatize", "in", "quiet", *BASE, "--columns", "sex")
    assert "checked" not in capsys.readouterr().err


def test_what_privatize_was_given_goes_with_estimate_and_what_contradicts_it_does_not(files, capsys):
    numeric = ["--transformer", "numeric", "--columns", "age", "--mechanism", "square_wave", "--grid-size", 64]
    rappor = ["--transformer", "rappor", "--columns", "town", "--epsilon", 2, "--n-bits", 16]
    run("privatize", "in.csv", "age.parquet", *BASE, *numeric)
    run("privatize", "in.csv", "town.parquet", *rappor, "--handle-missing", "value")
    run("privatize", "in.csv", "sex.parquet", *BASE, "--columns", "sex")
    capsys.readouterr()
    assert run("estimate", "age.parquet", *BASE, *numeric) == 0
    (files / "other.toml").write_text("[columns.age]\nlow = 0\nhigh = 100\nbins = 12\n")
    wrong = {
        "--mechanism laplace contradicts the mechanism square_wave of age": ["age", "--mechanism", "laplace"],
        "--grid-size 7 contradicts the grid-size 64 of age": ["age", "--grid-size", 7],
        "--strategy sample contradicts the strategy split of age": ["age", "--strategy", "sample"],
        "--q 0.9 goes with another --transformer than the numeric of age": ["age", "--q", 0.9],
        "'age' within 0.0 100.0, which contradicts the bounds of age": ["age", "--domain", "other.toml"],
        "--mechanism laplace goes with another": ["sex", "--mechanism", "laplace"],
        "--n-hashes 2 goes with another": ["sex", "--n-hashes", 2],
        "--n-bits 32 contradicts the n-bits 16 of town": ["town", "--n-bits", 32],
        "--n-cohorts 4 contradicts the n-cohorts 8": ["town", "--n-cohorts", 4],
        "--p 0.25 contradicts the p 0.5": ["town", "--p", 0.25],
        "--handle-missing error contradicts the handle-missing value": ["town", "--handle-missing", "error"],
    }
    for text, (name, *words) in wrong.items():
        assert text in refuse(capsys, "estimate", f"{name}.parquet", *words)
