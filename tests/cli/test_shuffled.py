"""``skdp estimate --shuffled``."""

import pandas as pd
import pytest

from skdp.cli import main
from skdp.local import ReportTransformer
from skdp.privacy import shuffled_guarantee
from tests.cli.commands import call, refuse

TOML = '[columns.sex]\nvalues = ["f", "m"]\n\n[columns.rooms]\nvalues = [1, 2, 3, 4]\n'
PRIVATIZE = ["privatize", "people.csv", "reports.parquet", "--domain", "domain.toml", "--strategy", "joint"]


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "domain.toml").write_text(TOML)
    pd.DataFrame({"sex": ["f", "m"] * 600, "rooms": [1, 2, 3, 4] * 300}).to_csv("people.csv", index=False)


def test_the_guarantee_of_sums_is_stated_beside_the_counts(files, capsys):
    assert call(*PRIVATIZE, "--epsilon", "3", "--save", "protocol.json") == 0
    assert main(["tally", "reports.parquet", "--out", "tally.json"]) == 0
    fitted = ReportTransformer.load("protocol.json")
    capsys.readouterr()
    assert main(["estimate", "tally.json", "--shuffled", "1000", "--delta", "1e-6", "--out", "counts.csv"]) == 0
    assert str(shuffled_guarantee(fitted, n=1_000, delta=1e-6, released="tally")) in capsys.readouterr().out


def test_no_more_persons_are_stated_than_there_are_reports(files, capsys):
    assert call(*PRIVATIZE, "--epsilon", "1") == 0
    estimate = ["estimate", "reports.parquet", "--shuffled", "1201", "--delta", "1e-6"]
    assert "--shuffled 1201: there are only 1200 reports" in refuse(capsys, *estimate)
    assert "--shuffled and --delta go together" in refuse(capsys, *estimate[:4])
