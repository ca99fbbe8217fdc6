"""``skdp privatize`` and ``skdp estimate``."""

import errno
import shutil
import sys

import pandas as pd
import pytest

import skdp
from skdp import Domain, PrivacyLedger, RandomizedResponseEncoder
from skdp.base import read_frame
from skdp.cli import main
from skdp.cli._transformers import ENCODERS
from skdp.engines import estimate_file
from skdp.engines.files import _privatize as _files_privatize

TOML = """
[columns.sex]
values = ["F", "M"]

[columns.age]
low = 0
high = 120
bins = 12
"""


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(_files_privatize, "batch_rows", lambda width: 4096)
    rows = pd.DataFrame({"id": range(10_000), "sex": ["F", "M"] * 5_000, "age": [row % 121 for row in range(10_000)]})
    rows.assign(town="x").to_csv("in.csv", index=False)
    (tmp_path / "domain.toml").write_text(TOML)
    return tmp_path


def run(command, *words):
    return main([command, *map(str, words), "--domain", "domain.toml", "--epsilon", "1"])


def refuse(capsys, *words, status=2):
    with pytest.raises(SystemExit) as caught:
        run(*words)
    assert caught.value.code == status
    return capsys.readouterr().err


def test_from_rows_to_reports_to_counts(files, capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert run("privatize", "in.csv", "out.parquet", "--seed", 1, "--keep", "town") == 0
    printed = capsys.readouterr()
    assert "Released as they are: town" in printed.err
    assert "Left out: id" in printed.err
    assert "10.0k/" in printed.err or "10.0krows" in printed.err
    assert printed.out.startswith("epsilon = 1, local model")
    assert printed.out.endswith("Wrote out.parquet\n")
    assert pd.read_parquet("out.parquet").columns.tolist() == ["sex", "age", "town"]
    assert run("estimate", "out.parquet") == 0
    text = capsys.readouterr().out
    assert text.split()[:4] == ["count", "std_error", "lower", "upper"]
    assert (
        run("estimate", "out.parquet", "--out", "counts.csv", "--confidence", "0.99", "--postprocess", "simplex") == 0
    )
    encoder = RandomizedResponseEncoder(1.0, categories=Domain.from_toml(TOML))
    expected = estimate_file("out.parquet", encoder, confidence_level=0.99, postprocess="simplex").reset_index()
    pd.testing.assert_frame_equal(pd.read_csv("counts.csv"), expected, check_dtype=False)


@pytest.mark.parametrize("strategy", ["split", "joint", "sample"])
@pytest.mark.parametrize("transformer", ENCODERS)
def test_every_transformer(files, capsys, transformer, strategy):
    options = ["--transformer", transformer, "--strategy", strategy, "--columns", "age", "sex"]
    run("privatize", "in.csv", "out.csv", *options, "--seed", 0)
    capsys.readouterr()
    run("estimate", "out.csv", *options)
    cells = {"split": 14, "joint": 24, "sample": 14}[strategy]
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines if "." in line]) == cells


def test_some_columns_only(files, capsys):
    run("privatize", "in.csv", "out.csv", "--columns", "sex")
    assert "Left out: id, age, town" in capsys.readouterr().err
    assert pd.read_csv("out.csv").columns.tolist() == ["sex"]
    run("privatize", "in.csv", "two.csv", "--columns", "sex,age")
    assert pd.read_csv("two.csv").columns.tolist() == ["sex", "age"]
    capsys.readouterr()
    run("privatize", "in.csv", "all.csv", "--columns", "sex", "--keep-all")
    assert "Released as they are: id, age, town" in capsys.readouterr().err
    assert pd.read_csv("all.csv").columns.tolist() == ["sex", "id", "age", "town"]


def test_a_stopped_run_is_resumed_and_charged_once(files, capsys, monkeypatch):
    monkeypatch.setattr("skdp.cli._privatize.bar_of_rows", lambda options: lambda total: Stop())
    assert run("privatize", "in.csv", "out.csv", "--ledger", "ledger", "--budget", 1.5) == 130
    assert "out.csv.unfinished: --resume goes on" in capsys.readouterr().err
    monkeypatch.undo()
    monkeypatch.setattr(_files_privatize, "batch_rows", lambda width: 4096)
    monkeypatch.chdir(files)
    assert "take it up with resume (--resume)" in refuse(capsys, "privatize", "in.csv", "out.csv", "--ledger", "ledger")
    assert "another ledger" in refuse(capsys, "privatize", "in.csv", "out.csv", "--resume")
    run("privatize", "in.csv", "out.csv", "--ledger", "ledger", "--resume")
    assert len(PrivacyLedger("ledger").report()) == 1
    assert len(pd.read_csv("out.csv")) == 10_000
    assert sorted(path.name for path in files.iterdir()) == [
        "domain.toml",
        "in.csv",
        "ledger",
        "out.csv",
        "out.csv.skdp.json",
    ]


def test_a_failure_names_resume(files, capsys, monkeypatch):
    with monkeypatch.context() as broken:
        broken.setattr(_files_privatize, "batch_rows", lambda width: 4096)
        broken.setattr("skdp.engines.files._checkpoint.WorkingFolder.write", _full)
        text = refuse(capsys, "privatize", "in.csv", "out.csv", "--ledger", "ledger", "--budget", 1.5)
    assert "No space left on device" in text
    assert "out.csv.unfinished: --resume goes on" in text
    run("privatize", "in.csv", "out.csv", "--ledger", "ledger", "--resume")
    assert len(PrivacyLedger("ledger").report()) == 1


def test_errors_name_the_options_of_the_command(files, capsys):
    rows = pd.DataFrame({"sex": ["F"] * 9 + ["SECRET"], "age": 1})
    rows.to_csv("in.csv", index=False)
    text = refuse(capsys, "privatize", "in.csv", "out.csv")
    assert "column 'sex' holds a value" in text
    assert "--handle-unknown uniform" in text
    assert "handle_unknown" not in text
    assert "SECRET" not in text


def test_the_check_before_the_charge_may_be_left_out(files, capsys):
    pd.DataFrame({"sex": ["F"] * 9 + ["SECRET"], "age": 1}).to_csv("in.csv", index=False)
    refuse(capsys, "privatize", "in.csv", "out.csv", "--ledger", "ledger", "--budget", 9)
    assert not (files / "ledger").exists()  # nothing is charged
    refuse(capsys, "privatize", "in.csv", "out.csv", "--ledger", "ledger", "--budget", 9, "--no-check")
    assert PrivacyLedger("ledger").spent.epsilon > 0


def _full(*args):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_the_version(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"skdp {skdp.__version__}\n"


@pytest.mark.parametrize("command", ["privatize", "estimate"])
def test_bars_are_for_terminals_and_not_for_the_quiet(files, capsys, monkeypatch, command):
    seen = {}
    run("privatize", "in.csv", "in.parquet", "--keep-all")
    for terminal, quiet in [(True, False), (True, True), (False, False)]:
        monkeypatch.setattr(sys.stderr, "isatty", lambda terminal=terminal: terminal)
        out = [f"{terminal}{quiet}.csv"] if command == "privatize" else []
        capsys.readouterr()
        run(command, "in.parquet", *out, *(["--quiet"] if quiet else []))
        seen[terminal, quiet] = "rows" in capsys.readouterr().err
    assert seen == {(True, False): True, (True, True): False, (False, False): False}


@pytest.mark.parametrize("command", ["audit", "report", "synthesize"])
def test_other_commands_can_be_quiet(capsys, command):
    with pytest.raises(SystemExit):
        main([command, "--help"])
    assert "--quiet" in capsys.readouterr().out


@pytest.mark.parametrize("line", [1, 2, 5_000, 100_000])
def test_text_of_another_encoding_is_named(files, capsys, line):
    rows = ["sex,age,caf\xe9" if line == 1 else "sex,age,town", *["F,20,Lyon"] * 100_001]
    rows[line - 1] = rows[line - 1].replace("F,", "Orl\xe9ans,")
    (files / "latin.csv").write_bytes("\n".join(rows).encode("latin-1"))
    for command, *words in [("privatize", "out.csv"), ("estimate",), ("synthesize", "out.csv")]:
        text = refuse(capsys, command, "latin.csv", *words)
        assert f"latin.csv is no UTF-8 text (line {line}); if it is Latin-1" in text
        assert "Orl" not in text
        shutil.rmtree(files / "out.csv.unfinished", ignore_errors=True)
    with pytest.raises(ValueError, match=rf"no UTF-8 text \(line {line}\)") as caught:
        read_frame(files / "latin.csv", Domain.from_toml(TOML))
    assert caught.value.__context__ is None


class Stop:
    def update(self, rows):
        raise KeyboardInterrupt

    def close(self):
        pass


def test_wrong_options(files, capsys):
    wrong = {
        "--columns must name distinct columns": ["in.csv", "out.csv", "--columns", "none"],
        "must end in one of .csv": ["in.csv", "out.txt"],
        "there is no file": ["none.csv", "out.csv"],
        "nothing to resume": ["in.csv", "out.csv", "--resume"],
        "--budget goes with --ledger": ["in.csv", "out.csv", "--budget", 1],
        "not allowed with": ["in.csv", "out.csv", "--keep", "id", "--keep-all"],
        "lacks the columns ['nothing']": ["in.csv", "out.csv", "--keep", "nothing"],
        "invalid choice": ["in.csv", "out.csv", "--strategy", "apart"],
        "exists already": ["in.csv", "in.csv"],
    }
    for text, words in wrong.items():
        assert text in refuse(capsys, "privatize", *words)
    assert "ledger has 0.5 of 0.5 left" in refuse(
        capsys, "privatize", "in.csv", "out.csv", "--ledger", "ledger", "--budget", 0.5, status=3
    )
    assert "lacks the columns" in refuse(capsys, "estimate", "in.csv", "--transformer", "unary")
    (files / "headless.csv").write_text("1,SECRET,20,x\n")
    assert "SECRET" not in refuse(capsys, "privatize", "headless.csv", "out.csv")
    # Nothing was charged, so no ledger was made.
    assert sorted(path.name for path in files.iterdir()) == ["domain.toml", "headless.csv", "in.csv"]


def test_synthetic_rows_from_and_to_arrow(files, capsys):
    pd.read_csv("in.csv").to_feather("in.arrow")
    for out in ("out.feather", "out.csv", "out.parquet"):
        run("synthesize", "in.arrow", out, "--seed", 0, "--rows", 50)
    expected = pd.read_csv("out.csv")
    for found in (pd.read_feather("out.feather"), pd.read_parquet("out.parquet")):
        pd.testing.assert_frame_equal(found, expected, check_dtype=False)
    assert sorted(path.name for path in files.glob("*out*")) == ["out.csv", "out.feather", "out.parquet"]
