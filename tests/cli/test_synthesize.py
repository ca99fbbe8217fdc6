"""``skdp synthesize``."""

import pandas as pd
import pytest

from skdp import Domain, DPMarginalSynthesizer, Interval, PrivacyLedger
from skdp.cli import main
from tests.cli.commands import call, refuse
from tests.conftest import each


@pytest.fixture
def table(tmp_path):
    """Secrets: an age beyond the domain, a name, and an undeclared job in a column that may be left out."""
    path = tmp_path / "people.csv"
    people = {
        "name": [f"secret {index}" for index in range(200)],
        "sex": ["f", "m"] * 100,
        "age": [*range(20, 80), *range(20, 80), *range(20, 80), *range(20, 39), 12345],
        "code": ["007", "NA", "042", "007"] * 50,
        "person": [index // 2 for index in range(200)],
    }
    pd.DataFrame(people).to_csv(path, index=False)
    return path


@pytest.fixture
def domain(tmp_path):
    declared = {"sex": ["f", "m"], "code": ["007", "042", "NA"], "age": Interval(0, 100, bins=10)}
    (tmp_path / "domain.toml").write_text(Domain(declared).to_toml(), encoding="utf-8")
    return tmp_path / "domain.toml"


def run(table, out, domain, *words):
    return call("synthesize", table, out, "--domain", domain, "--handle-unknown", "clip", *words)


def test_a_synthetic_table_is_written(table, domain, tmp_path, capsys):
    out, before = tmp_path / "out.parquet", table.read_bytes()
    options = ["--epsilon", 10, "--delta", 1e-6, "--rows", 500, "--seed", 0]
    assert run(table, out, domain, *options) == run(table, tmp_path / "again.parquet", domain, *options) == 0
    made = pd.read_parquet(out)
    assert made.equals(pd.read_parquet(tmp_path / "again.parquet"))
    assert made.columns.tolist() == ["sex", "age", "code"]
    assert len(made) == 500
    assert set(made["code"]) <= {"007", "042", "NA"}
    assert made["age"].between(0, 100).all()
    assert ((made["sex"] == "f") & (made["code"] == "NA")).mean() < 0.1  # independent: an eighth
    shown = capsys.readouterr()
    assert shown.out.startswith("epsilon = 10, delta = 0.000001, ")
    assert "central model, adding or removing one record's values of: sex, age, code" in shown.out
    assert f"\nWrote {out}\n" in shown.out
    assert shown.err.startswith("Excluded: name, person\n")
    assert table.read_bytes() == before


def test_a_model_is_saved_and_gives_rows_again(table, domain, tmp_path, capsys):
    first, model, out = tmp_path / "first.parquet", tmp_path / "model", tmp_path / "out.parquet"
    run(table, first, domain, "--epsilon", 10, "--rows", 50, "--save", model)
    capsys.readouterr()
    assert main(["synthesize", str(model), str(out), "--load", "--rows", "300", "--seed", "1"]) == 0
    assert capsys.readouterr().out == f"Wrote {out}\n"
    assert len(pd.read_parquet(out)) == 300
    for words, message in [
        ([model, "--load", "--epsilon", 1], "--epsilon must not be given with --load"),
        ([model, "--load", "--max-rows-per-person", 2], "--max-rows-per-person must not be given with --load"),
        ([table, "--load"], "must be a file of skdp.save"),
        ([table, "--epsilon", 1], "--domain is required"),
        ([table, "--domain", domain], "--epsilon is required"),
    ]:
        shown = refuse(capsys, "synthesize", words[0], tmp_path / "other.csv", *words[1:])
        assert message in shown
        assert "secret" not in shown


def test_a_ledger_is_made_charged_and_kept_to(table, domain, tmp_path, capsys):
    ledger = tmp_path / "ledger.sqlite"
    new = ["--ledger", ledger, "--budget", 3]
    assert run(table, tmp_path / "one.csv", domain, "--epsilon", 2, *new) == 0
    assert PrivacyLedger(path=ledger).spent.epsilon == 2
    for words, message in [
        (["--ledger", ledger], ", but the ledger has 1.0 of 3.0 left."),
        (["--ledger", ledger, "--budget", 4], "was created with"),
        (["--ledger", tmp_path / "other.sqlite"], "other.sqlite. Use --budget to create it"),
        (["--budget", 3], "--budget requires --ledger"),
        (["--ledger", ledger, "--budget-delta", 0.1], "--delta, `relation` and `columns` require a budget"),
    ]:
        with pytest.raises(SystemExit):
            run(table, tmp_path / "two.csv", domain, "--epsilon", 2, *words)
        assert message in capsys.readouterr().err
    assert not (tmp_path / "two.csv").exists()
    assert PrivacyLedger(path=ledger).spent.epsilon == 2


def test_delta_without_budget_raises_before_reading(table, domain, tmp_path, capsys, monkeypatch):
    ledger = tmp_path / "ledger.sqlite"
    delta = ["--epsilon", 1, "--delta", 1e-9, "--ledger", ledger]
    shown = refuse(capsys, "synthesize", table, tmp_path / "one.csv", "--domain", domain, *delta, "--budget", 6)
    assert "--budget-delta must be at least --delta" in shown
    assert not ledger.exists()
    PrivacyLedger(6, path=ledger)
    # The rows are not read.
    monkeypatch.setattr(DPMarginalSynthesizer, "fit", None)
    for words in (delta, ["--epsilon", 7, "--ledger", ledger]):
        with pytest.raises(SystemExit) as caught:
            run(table, tmp_path / "one.csv", domain, *words)
        assert caught.value.code == 3
        assert "--budget and --budget-delta are the budget of a new ledger" in capsys.readouterr().err
    assert PrivacyLedger(path=ledger).spent.epsilon == 0
    monkeypatch.undo()
    new = ["--ledger", tmp_path / "new.sqlite", "--budget", 6, "--budget-delta", 1e-8]
    assert run(table, tmp_path / "one.csv", domain, *delta, *new) == 0


MISTAKES = {
    "--epsilon must be a finite number > 0": ["--epsilon", "0"],
    "--delta must be a number in [0, 1)": ["--delta", "1"],
    "--max-rows-per-person must be between 1 and": ["--max-rows-per-person", "0"],
    "Column 'age' contains a value outside the declared domain": ["--handle-unknown", "error"],
    "people.csv must have the columns ['who']": ["--person-column", "who"],
    "--person-column must not be in the domain, got 'sex'": ["--person-column", "sex"],
    "Not a TOML file": ["--domain", "people.csv"],
    "no such file.toml": ["--domain", "no such file.toml"],
}


def test_mistakes_are_explained_without_a_value(table, domain, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    known = ["--domain", domain, "--handle-unknown", "clip", "--epsilon", 1]
    for message, words in MISTAKES.items():
        shown = refuse(capsys, "synthesize", table, "out.csv", *known, *words)
        assert message in shown
        assert "12345" not in shown
        assert "secret" not in shown
    assert not (tmp_path / "out.csv").exists()


@each("command", ["synthesize", "privatize"])
def test_a_ledger_of_a_release_that_fails_has_no_charge(table, domain, tmp_path, capsys, command):
    words = ["--domain", domain, "--epsilon", 1, "--ledger", tmp_path / f"{command}.ledger", "--budget", 3]
    for out in ("no folder/out.csv", "out.txt"):
        shown = refuse(capsys, command, table, tmp_path / out, *words)
        assert PrivacyLedger(path=tmp_path / f"{command}.ledger").spent.epsilon == 0
        # What is wrong is one line.
        assert [line for line in shown.splitlines() if line.startswith(("usage", " "))] == []


def test_a_ledger_that_was_charged_stays(table, domain, tmp_path, monkeypatch):
    """Though the run is stopped."""

    def stop(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(DPMarginalSynthesizer, "sample_batches", stop)
    ledger = tmp_path / "ledger.sqlite"
    assert run(table, tmp_path / "out.csv", domain, "--epsilon", 1, "--ledger", ledger, "--budget", 3) == 130
    assert PrivacyLedger(path=ledger).spent.epsilon == 1
