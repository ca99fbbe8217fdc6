"""Progress bars are shown on standard error, on a terminal, in commands, and count blocks only."""

import io
import re
import sys

import pandas as pd
import pytest

from skdp import Domain, DPMarginalSynthesizer, Interval, RandomizedResponseEncoder
from skdp.base import show_progress
from skdp.engines import privatize_file, synthesize_file
from skdp.evaluation import study_report
from tests.cli.commands import call

ROWS = 7_919
DOMAIN = Domain({"sex": ["f", "m"], "age": Interval(0, 100)})


class Terminal(io.StringIO):
    """Standard error of a terminal."""

    def isatty(self):
        return True


@pytest.fixture(params=["csv", "parquet"])
def table(request, tmp_path):
    frame = pd.DataFrame({"sex": (["f", "m"] * ROWS)[:ROWS], "age": [row % 100 for row in range(ROWS)]})
    (tmp_path / "domain.toml").write_text(DOMAIN.to_toml())
    name = f"people.{request.param}"
    frame.to_csv(name, index=False) if request.param == "csv" else frame.to_parquet(name)
    privatize_file(name, "reports.parquet", RandomizedResponseEncoder(1.0, categories=DOMAIN))
    return name


def run(name, command):
    """Run a command on a table; it prints to standard error."""
    release = ["--domain", "domain.toml", "--epsilon", "1"]
    words = {
        "privatize": [name, "out.parquet", *release],
        "synthesize": [name, "out.parquet", *release],
        "draft-domain": [name, "out.toml"],
        "estimate": ["reports.parquet"],
        "tally": ["reports.parquet", "--out", "out.json"],
    }[command]
    assert call(command, *words) == 0


@pytest.mark.parametrize("command", ["privatize", "synthesize", "draft-domain", "estimate", "tally"])
def test_commands_show_a_bar_on_a_terminal_only(table, tmp_path, monkeypatch, capsys, command):
    source = "reports.parquet" if command in ("estimate", "tally") else table
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    run(table, command)
    text = terminal.getvalue()
    assert f"Reading {source}: " in text
    assert " blocks" in text
    assert ("Writing rows: " in text) == (command == "synthesize")
    # The number of rows is private.
    assert str(ROWS) not in re.sub(r"\D", "", re.sub(r"\d+[:.]\d+", "", text))
    assert "Reading" not in capsys.readouterr().out
    for path in tmp_path.glob("out*"):
        path.unlink()
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    run(table, command)
    assert "Reading" not in sys.stderr.getvalue()
    for path in tmp_path.glob("out*"):
        path.unlink()


def test_functions_show_no_bar(table, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    synthesize_file(table, "rows.csv", DPMarginalSynthesizer(1.0, domain=DOMAIN))
    assert sys.stderr.getvalue() == ""


@pytest.mark.long
def test_report_shows_a_bar_of_its_parts_on_a_terminal(monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(sys, "stderr", Terminal())
    people = {"sex": ["f", "m", "m"] * 191, "town": [f"secret-{row % 7}" for row in range(573)]}
    domain = Domain({"sex": ["f", "m"]})
    with show_progress():
        study_report(pd.DataFrame(people), domain, "out", columns=["sex"], epsilons=[1.0], n_jobs=1)
    text = sys.stderr.getvalue()
    assert re.findall("Running the study: .*? parts", text)
    assert re.search("573|191|382|secret|town", text) is None
