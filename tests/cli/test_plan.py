"""``skdp plan``: what `plan_epsilon` finds, in words; no table is read."""

from functools import partial

import pytest

from skdp import DPHistogram, RandomizedResponseEncoder, plan_epsilon
from skdp.cli import main
from tests.cli.commands import refuse

TOML = """
[columns.sex]
values = ["f", "m"]

[columns.level]
values = [1, 2, 3]
"""


@pytest.fixture
def plan(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.toml").write_text(TOML)

    def run(*words):
        assert main(["plan", "--domain", "people.toml", *words]) == 0
        return capsys.readouterr().out

    run.refused = partial(refuse, capsys, "plan", "--domain", "people.toml")
    return run


@pytest.mark.long
def test_the_epsilon_of_reports(plan):
    found = plan("--columns", "sex", "--of", "frequency", "--within", "0.02", "--rows", "20000")
    encoder = RandomizedResponseEncoder(categories={"sex": ["f", "m"]})
    sentence, empty, heading, *rows = found.splitlines()
    assert sentence == str(plan_epsilon(encoder, within=0.02, of="frequency", n_rows=20_000))
    assert (empty, heading.split(), len(rows)) == ("", ["epsilon", "half_width"], 9)
    rows = plan("--columns", "sex", "--of", "frequency", "--within", "0.02", "--epsilon", "1")
    assert rows.startswith("epsilon = 1 and 11,239 rows are enough for a frequency within ± 0.02")
    own = plan("--columns", "sex", "--of", "frequency", "--within", "0.02", "--epsilon", "1", "--of-the-table")
    assert own.startswith("epsilon = 1 and 8,842 rows are enough for a frequency within ± 0.02")


def test_a_curator_and_groups(plan):
    found = plan("--columns", "sex", "--within", "20", "--curator")
    assert found.startswith(f"{plan_epsilon(DPHistogram(domain={'sex': ['f', 'm']}), within=20)}\n")
    parity = ["--columns", "level", "--of", "parity", "--within", "0.1", "--rows", "20000", "--share", "0.4"]
    assert "a parity difference within ± 0.1" in plan(*parity, "--privileged", "1", "2", "--rates", "0.2", "0.3")


def test_power(plan):
    found = plan("--columns", "sex", "--of", "difference", "--power", "0.8", "--rates", "0.3", "0.4", "--epsilon", "1")
    assert found.startswith("epsilon = 1 and 3,597 rows are enough to find a difference of two groups of 0.1 with")
    words = ["--columns", "sex", "--of", "coefficient", "--reported", "predictor", "--power", "0.8"]
    assert "a coefficient of 0.442 with a power of 0.8" in plan(*words, "--rates", "0.3", "0.4", "--epsilon", "1")


def test_refusals(plan):
    assert plan.refused("--within", "20").endswith("--rows is needed\n")
    assert "--rows is needed; or --epsilon" in plan.refused("--of", "frequency", "--within", "0.1")
    assert "--privileged goes with --of parity" in plan.refused("--within", "20", "--rows", "9", "--privileged", "f")
    assert "--within is needed, or --power" in plan.refused("--of", "frequency", "--rows", "9")
    assert "both given" in plan.refused("--of", "frequency", "--within", "0.1", "--rows", "9", "--epsilon", "1")
    assert "--power goes with" in plan.refused("--of", "frequency", "--power", "0.8", "--rows", "9")
    assert "--strategy is how rows" in plan.refused("--within", "20", "--rows", "9", "--strategy", "split", "--curator")
