"""Outputs are opened before the charge, and are complete or absent."""

import os
import sys
from pathlib import Path

import pandas as pd
import pytest

from skdp import Domain, PrivacyLedger, RandomizedResponseEncoder
from tests.cli.commands import call, refuse
from tests.conftest import often

resource = pytest.importorskip("resource", reason="Windows has no limits of files")


DOMAIN = Domain({"sex": ["f", "m"], "ward": ["er", "gp"]})
KNOWN = ["--domain", "domain.toml", "--epsilon", 1, "--ledger", "ledger"]
# Words of each command with OUT in place of one output, and the name of the output.
COMMANDS = {
    "table": (["table", "people.csv", "OUT", "--by", "sex"], "out.csv"),
    "table --statement": (["table", "people.csv", "t.csv", "--by", "sex", "--statement", "OUT"], "out.html"),
    "privatize": (["privatize", "people.csv", "OUT"], "out.parquet"),
    "privatize, CSV": (["privatize", "people.csv", "OUT"], "out.csv"),
    "privatize --save": (["privatize", "people.csv", "r.csv", "--save", "OUT"], "out.json"),
    "synthesize": (["synthesize", "people.csv", "OUT"], "out.csv"),
    "synthesize --save": (["synthesize", "people.csv", "s.csv", "--save", "OUT"], "out.skops"),
    "synthesize people": (["synthesize", "sexes.csv", "OUT", "--events", "wards.csv", "e.csv", "--person", "id",
        "--max-rows-per-person", 2], "out.csv"),
    "synthesize events": (["synthesize", "sexes.csv", "p.csv", "--events", "wards.csv", "OUT", "--person", "id",
        "--max-rows-per-person", 2], "out.csv"),
}  # fmt: skip


@pytest.fixture(autouse=True)
def folder():
    Path("domain.toml").write_text(DOMAIN.to_toml(), encoding="utf-8")
    people = pd.DataFrame({"id": range(60), "sex": ["f", "m"] * 30, "ward": ["er", "gp", "gp"] * 20})
    people.to_csv("people.csv", index=False)
    people[["id", "sex"]].to_csv("sexes.csv", index=False)
    people[["id", "ward"]].to_csv("wards.csv", index=False)
    PrivacyLedger(9.0, path="ledger")


def replace_out(command, folder):
    """Return the words of a command, and its output in a folder."""
    words, name = COMMANDS[command]
    path = Path(folder, name)
    return [path if word == "OUT" else word for word in words], path


@pytest.fixture
def limit_files():
    """Return a function that limits the size of files, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limit(n_bytes):
        resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, before[1]))

    yield limit
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def list_files():
    return sorted(path.name for path in Path().iterdir())


@pytest.mark.parametrize("command", COMMANDS)
def test_absent_and_read_only_folders_raise_before_charge(command, capsys):
    files = list_files()
    # Not even root writes to /sys.
    for folder in ["none", *(["/sys"] if sys.platform == "linux" else [])]:
        words, path = replace_out(command, folder)
        error = refuse(capsys, *words, *KNOWN)
        assert str(path) in error
        assert list_files() == files
    assert PrivacyLedger(path="ledger").spent.epsilon == 0


@pytest.mark.parametrize("command", COMMANDS)
def test_full_disk_raises_before_charge(command, capsys, limit_files):
    words, path = replace_out(command, "")
    files = list_files()
    assert Path("ledger").stat().st_size < 60_000
    limit_files(60_000)
    assert "File too large" in refuse(capsys, *words, *KNOWN)
    limit_files(resource.RLIM_INFINITY)
    assert list_files() == files
    assert PrivacyLedger(path="ledger").spent.epsilon == 0
    assert call(*words, *KNOWN) == 0
    assert path.exists()
    assert [name for name in list_files() if name.startswith(".")] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_two_processes_with_one_output_charge_once(command, capsys, monkeypatch):
    words, path = replace_out(command, "")
    charge, errors = PrivacyLedger.charge, []

    def run_again(ledger, *arguments):
        """Run the same command while the first one is about to charge."""
        if not errors:
            errors.append(None)
            errors[0] = refuse(capsys, *words, *KNOWN)
        return charge(ledger, *arguments)

    monkeypatch.setattr(PrivacyLedger, "charge", run_again)
    assert call(*words, *KNOWN) == 0
    assert "must not be written by two processes" in errors[0]
    assert PrivacyLedger(path="ledger").spent.epsilon <= 2
    assert len(PrivacyLedger(path="ledger").charges()) == 1
    assert path.exists()
    # A file of an earlier release is not replaced.
    assert "OUT must be a new file" in refuse(capsys, *words, *KNOWN)
    assert len(PrivacyLedger(path="ledger").charges()) == 1


PERMANENT = ["--person", "id", "--new-key"]
# Options that name the file of OUT, or of another option, a second time.
SHARED_FILES = {
    "privatize --save": ("privatize", ["--save", "out.csv"], "OUT and --save"),
    "privatize --new-key": ("privatize", [*PERMANENT, "out.csv"], "OUT and --new-key"),
    "privatize --save --new-key": ("privatize", ["--save", "./key", *PERMANENT, "key"], "--save and --new-key"),
    "key as protocol": ("privatize", [*PERMANENT, "out.csv.protocol.json"], "--save and --new-key"),
    "key as ledger": ("privatize", [*PERMANENT, "new", "--ledger", "new", "--budget", 1], "--new-key and --ledger"),
    "synthesize --save": ("synthesize", ["--save", "out.csv"], "OUT and --save"),
    "table --ledger": ("table", ["--by", "sex", "--ledger", "out.csv", "--budget", 1], "OUT and --ledger"),
    "table --statement": (
        "table",
        ["--by", "sex", "--statement", "new.html", "--ledger", "new.html", "--budget", 1],
        "--statement and --ledger",
    ),
}


@pytest.mark.parametrize("case", SHARED_FILES)
def test_one_file_of_two_options_raises_before_anything_is_written(case, capsys):
    command, words, names = SHARED_FILES[case]
    files = list_files()
    error = refuse(capsys, command, "people.csv", "out.csv", "--domain", "domain.toml", "--epsilon", 1, *words)
    assert f"error: {names} must be different files, got" in error
    assert list_files() == files


LONG = [f"{index} {'x' * 1500}" for index in range(90)]
LARGE_OUTPUTS = {
    "draft-domain": ["draft-domain", "long.csv", "out.toml"],
    "table": ["table", "long.csv", "out.csv", "--domain", "long.toml", "--epsilon", 1, "--by", "text"],
    "estimate": ["estimate", "reports.parquet", "--out", "out.csv"],
    "statement": ["statement", "reports.parquet", "--out", "out.json"],
    "tally": ["tally", "reports.parquet", "--out", "out.json"],
}


@pytest.mark.parametrize("command", often(LARGE_OUTPUTS, {"draft-domain", "table", "tally"}))
def test_disk_that_becomes_full_leaves_no_cut_file(command, capsys, limit_files):
    rows = pd.DataFrame({"text": LONG * 2} | {f"kept {text}": [1, 2] * 90 for text in LONG})
    rows[["text"]].to_csv("long.csv", index=False)
    Path("long.toml").write_text(Domain({"text": LONG}).to_toml(), encoding="utf-8")
    encoder = RandomizedResponseEncoder(1.0, categories={"text": LONG})
    reports = encoder.fit_transform(rows[["text"]])
    reports.assign(**rows.drop(columns="text")).to_parquet("reports.parquet")
    files = list_files()
    limit_files(70_000)
    assert "File too large" in refuse(capsys, *LARGE_OUTPUTS[command])
    limit_files(resource.RLIM_INFINITY)
    assert list_files() == files
    assert call(*LARGE_OUTPUTS[command]) == 0
    (path,) = set(list_files()) - set(files)
    assert Path(path).stat().st_size > 70_000
    name = {"draft-domain": "DOMAIN", "table": "OUT"}.get(command, "--out")
    assert f"error: {name} must be a new file" in refuse(capsys, *LARGE_OUTPUTS[command])


def test_draft_is_readable_by_its_user_only():
    umask = os.umask(0o022)
    assert call("draft-domain", "people.csv", "draft.toml") == 0
    assert call("privatize", "people.csv", "reports.csv", *KNOWN) == 0
    os.umask(umask)
    assert Path("draft.toml").stat().st_mode & 0o777 == 0o600
    assert Path("reports.csv").stat().st_mode & 0o777 == 0o644
