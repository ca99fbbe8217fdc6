"""Keys of people in text files: equal integers are one person, and other text is compared as written."""

import sys
from pathlib import Path

import pandas as pd
import pytest

from skdp import Domain, PrivacyLedger
from tests.cli.commands import call, refuse
from tests.conftest import diagonal

N = 300
DOMAIN = Domain({"sex": ["f", "m"], "ward": ["er", "gp"]})
PERSON = ["--domain", "domain.toml", "--person", "id"]


@pytest.fixture(autouse=True)
def folder():
    Path("domain.toml").write_text(DOMAIN.to_toml(), encoding="utf-8")


def spell(number, spelling):
    """Spell an integer as spreadsheets, pandas and R do."""
    spellings = {
        "point": f"{number}.0",
        "bare point": f"{number}.",
        "exponent": f"{number:e}",
        "large": f"{number:.9E}",
    }
    return spellings.get(spelling, str(number))


@pytest.mark.parametrize(
    ("n_missing", "spelling"), diagonal([0, 40], ["point", "bare point", "exponent", "large", "integer"])
)
def test_events_have_the_person_of_an_equal_integer(spelling, n_missing):
    keys = range(1000, 1000 + N)
    pd.DataFrame({"id": keys, "sex": ["f", "m"] * (N // 2)}).to_csv("people.csv", index=False)
    events = [spell(key, spelling) for key in [*keys, *keys]]
    events[:n_missing] = [""] * n_missing
    pd.DataFrame({"id": events, "ward": ["er", "gp"] * N}).to_csv("visits.csv", index=False)
    words = ["--events", "visits.csv", "events.csv", *PERSON, "--max-rows-per-person", 3]
    assert call("synthesize", "people.csv", "out.csv", *words, "--epsilon", 1000) == 0
    assert len(pd.read_csv("events.csv")) == pytest.approx(2 * N - n_missing, abs=20)


@pytest.mark.parametrize("form", ["people", "visits"])
def test_keys_of_a_text_file_match_keys_of_a_parquet_file(form):
    people = pd.DataFrame({"id": range(N), "sex": ["f", "m"] * (N // 2)})
    visits = pd.DataFrame({"id": [*range(N)] * 2, "ward": ["er", "gp"] * N}).astype({"id": float})
    sources = {}
    for name, table in {"people": people, "visits": visits}.items():
        sources[name] = f"{name}.parquet" if name == form else f"{name}.csv"
        table.to_parquet(sources[name]) if name == form else table.to_csv(sources[name], index=False)
    words = ["--events", sources["visits"], "events.csv", *PERSON, "--max-rows-per-person", 2, "--epsilon", 1000]
    assert call("synthesize", sources["people"], "out.csv", *words) == 0
    assert len(pd.read_csv("events.csv")) == pytest.approx(2 * N, abs=20)


def count_rows(command, keys):
    """Run a command that counts one row of each person; return the number of rows."""
    pd.DataFrame({"id": keys, "sex": "f"}).to_csv("rows.csv", index=False)
    Path("sex.toml").write_text(DOMAIN.select(["sex"]).to_toml(), encoding="utf-8")
    words = [*PERSON, "--domain", "sex.toml", "--max-rows-per-person", 1, "--epsilon", 1000]
    if command == "table":
        words += ["--by", "sex"]
    out = Path("out.csv")
    assert call(command, "rows.csv", out, *words) == 0
    written = pd.read_csv(out)
    out.unlink()
    return written["count"].sum() if command == "table" else len(written)


@pytest.mark.filterwarnings("ignore:On average over persons, about .* rows")
@pytest.mark.parametrize(
    ("spelling", "command"), diagonal(["point", "bare point", "exponent"], ["table", "synthesize"])
)
def test_spellings_of_an_integer_are_one_person(command, spelling):
    keys = [spell(number, s) for s in ("integer", spelling) for number in range(N)]
    assert count_rows(command, keys) == pytest.approx(N, abs=2)


@pytest.mark.parametrize("command", ["table", "synthesize"])
def test_other_text_is_compared_as_written(command):
    keys = [f"{zero}{number}" for zero in ("", "0", "A", "12E") for number in range(10, N)]
    keys += [f"{number}{end}" for end in (".5", ".10", "e2", "A") for number in range(10, N)]
    assert count_rows(command, keys) == pytest.approx(len(keys), abs=2)


ROUNDED = "Column 'id' must have exact keys, got numbers of 2**53 or more with a decimal point or an exponent"


@pytest.mark.parametrize(
    ("key", "message"),
    [
        *((key, ROUNDED) for key in ("9007199254740993.0", "1.2345e+30", "-9007199254740993.")),
        *((key, "missing values") for key in ("", "NA", "None")),
    ],
)
@pytest.mark.parametrize("command", ["table", "synthesize", "privatize"])
def test_rounded_and_missing_keys_raise_before_charge(capsys, key, message, command):
    pd.DataFrame({"id": ["7", key], "sex": "f"}).to_csv("rows.csv", index=False)
    Path("domain.toml").write_text(DOMAIN.select(["sex"]).to_toml(), encoding="utf-8")
    further = {"table": ["--by", "sex"], "privatize": ["--new-key", "key"], "synthesize": []}[command]
    PrivacyLedger(3.0, path="ledger")
    error = refuse(capsys, command, "rows.csv", "out.csv", *PERSON, "--epsilon", 1, "--ledger", "ledger", *further)
    assert message in error
    assert message != ROUNDED or key not in error
    assert PrivacyLedger(path="ledger").spent.epsilon == 0


def test_permanent_report_does_not_depend_on_the_spelling_of_the_person():
    rows = pd.DataFrame({"id": range(N), "sex": ["f", "m"] * (N // 2)})
    Path("domain.toml").write_text(DOMAIN.select(["sex"]).to_toml(), encoding="utf-8")
    keys = ["--new-key", "key"]
    reports = []
    for spelling in ("integer", "point", "exponent"):
        rows.assign(id=[spell(number, spelling) for number in range(N)]).to_csv("rows.csv", index=False)
        assert call("privatize", "rows.csv", f"{spelling}.csv", *PERSON, *keys, "--epsilon", 1) == 0
        reports.append(Path(f"{spelling}.csv").read_text())
        keys = ["--secret-key", "key"]
    assert reports[0] == reports[1] == reports[2]
    assert sys.platform == "win32" or Path("key").stat().st_mode & 0o777 == 0o600
