"""``skdp privatize --target-epsilon`` and ``skdp estimate --shuffled``."""

import pandas as pd
import pytest

from skdp.cli import main
from skdp.local import ReportTransformer
from skdp.privacy import shuffled_guarantee
from tests.cli.commands import call, refuse

TOML = '[columns.sex]\nvalues = ["f", "m"]\n\n[columns.rooms]\nvalues = [1, 2, 3, 4]\n'
PRIVATIZE = ["privatize", "people.csv", "reports.csv", "--domain", "domain.toml", "--strategy", "joint"]
TARGET = ["--target-epsilon", "0.5", "--n-shuffled", "1000", "--delta", "1e-6"]


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "domain.toml").write_text(TOML)
    pd.DataFrame({"sex": ["f", "m"] * 600, "rooms": [1, 2, 3, 4] * 300}).to_csv("people.csv", index=False)


def test_a_target_is_reached_and_stated_beside_the_tally(files, capsys):
    assert call(*PRIVATIZE, *TARGET, "--save", "protocol.json") == 0
    local, summed, *_ = capsys.readouterr().out.splitlines()
    assert "local model" in local
    assert summed.startswith(
        "If only the sums of at least 1,000 honest rows are published (skdp tally): epsilon = 0.49"
    )
    assert "delta = 0.000001, shuffle model" in summed
    assert 2 < ReportTransformer.load("protocol.json").epsilon < 4
    assert main(["estimate", "reports.csv", "--shuffled", "1000", "--delta", "1e-6"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == summed.partition("tally): ")[2]
    assert main(["tally", "reports.csv", "--out", "tally.json"]) == 0
    assert main(["estimate", "tally.json", "--shuffled", "1000", "--delta", "1e-6", "--out", "counts.csv"]) == 0
    assert summed.partition("tally): ")[2] in capsys.readouterr().out


def test_what_fewer_rows_guarantee_is_stated(files, capsys):
    wanted = ["--target-epsilon", "0.5", "--n-shuffled", "1201", "--delta", "1e-6", "--save", "protocol.json"]
    assert call(*PRIVATIZE, *wanted) == 0
    *_, aimed, alone, _ = capsys.readouterr().out.splitlines()
    assert aimed.startswith("If only the sums of at least 1,201 honest rows are published")
    start, _, promise = alone.partition("of others: ")
    assert start == "This file has 1,200 rows only. If their sums are published without those "
    fitted = ReportTransformer.load("protocol.json")
    assert promise == str(shuffled_guarantee(fitted, 1_200, 1e-6, released="tally"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--target-epsilon", "1"], "--target-epsilon needs --delta and --n-shuffled"),
        ([*TARGET, "--epsilon", "1"], "--epsilon is what --target-epsilon finds"),
        (["--epsilon", "1", "--delta", "1e-6"], "--delta goes with --target-epsilon"),
        (["--epsilon", "1", "--n-shuffled", "5"], "--n-shuffled goes with --target-epsilon"),
        ([*TARGET[:-1], "0"], "delta must be a number in (0, 1), got 0"),
    ],
)
def test_options_that_do_not_go_together_are_refused(files, capsys, words, message):
    assert message in refuse(capsys, *PRIVATIZE, *words)


def test_no_more_persons_are_stated_than_there_are_reports(files, capsys):
    assert call(*PRIVATIZE, "--epsilon", "1") == 0
    estimate = ["estimate", "reports.csv", "--shuffled", "1201", "--delta", "1e-6"]
    assert "--shuffled 1201: there are only 1200 reports" in refuse(capsys, *estimate)
    assert "--shuffled and --delta go together" in refuse(capsys, *estimate[:4])
