"""``skdp synthesize``."""

from pathlib import Path

import pandas as pd
import pytest

from skdp import Domain, DPLinkedSynthesizer, DPMarginalSynthesizer, Interval, PrivacyLedger
from tests.cli.commands import call, refuse
from tests.conftest import diagonal


@pytest.fixture
def table(tmp_path):
    """Write a table with secrets: an age beyond the domain, a name, and an unknown job in an optional column."""
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


ONE_ROW = "The guarantee is for one row. If a person may have several rows, use --person.\n"


def run(table, out, domain, *words):
    return call("synthesize", table, out, "--domain", domain, "--handle-unknown", "clip", *words)


def test_synthetic_table_is_written(table, domain, tmp_path, capsys):
    out, before = tmp_path / "out.parquet", table.read_bytes()
    options = ["--epsilon", 10, "--delta", 1e-6, "--rows", 500, "--seed", 0]
    assert run(table, out, domain, *options) == run(table, tmp_path / "again.parquet", domain, *options) == 0
    made = pd.read_parquet(out)
    assert made.equals(pd.read_parquet(tmp_path / "again.parquet"))
    assert made.columns.tolist() == ["sex", "age", "code"]
    assert len(made) == 500
    assert set(made["code"]) <= {"007", "042", "NA"}
    assert made["age"].between(0, 100).all()
    assert ((made["sex"] == "f") & (made["code"] == "NA")).mean() < 0.1  # independent columns: an eighth
    shown = capsys.readouterr()
    assert shown.out.startswith("epsilon = 10, delta = 0.000001, ")
    assert "central model, adding or removing one record's values of: sex, age, code" in shown.out
    assert f"\nWrote {out}\n" in shown.out
    assert shown.err.startswith(f"Excluded: name, person\n{ONE_ROW}")
    assert table.read_bytes() == before


def test_model_is_saved_and_sampled_again(table, domain, tmp_path, capsys):
    first, model, out = tmp_path / "first.parquet", tmp_path / "model", tmp_path / "out.parquet"
    run(table, first, domain, "--epsilon", 10, "--rows", 50, "--save", model)
    capsys.readouterr()
    assert call("synthesize", out, "--load", model, "--rows", 300, "--seed", 1) == 0
    assert capsys.readouterr().out == f"Wrote {out}\n"
    assert len(pd.read_parquet(out)) == 300
    assert "OUT must be a new file" in refuse(capsys, "synthesize", out, "--load", model)
    for words, message in [
        (["--load", model, "--epsilon", 1], "--epsilon must not be given with --load"),
        (["--load", model, "--max-rows-per-person", 2], "--max-rows-per-person must not be given with --load"),
        (["--load", table], "must be a file of skdp.save"),
        (["--load", model, table], "--load requires the name of one file, OUT"),
        ([table, "--epsilon", 1], "are required: --domain"),
        ([table, "--domain", domain], "are required: --epsilon"),
    ]:
        shown = refuse(capsys, "synthesize", tmp_path / "other.csv", *words)
        assert message in shown
        assert "secret" not in shown


def test_ledger_is_created_charged_and_enforced(table, domain, tmp_path, capsys):
    ledger = tmp_path / "ledger.sqlite"
    new = ["--ledger", ledger, "--budget", 3]
    assert run(table, tmp_path / "one.csv", domain, "--epsilon", 2, *new) == 0
    assert PrivacyLedger(path=ledger).spent.epsilon == 2
    for words, message in [
        (["--ledger", ledger], ", but the ledger has 1.0 of 3.0 left."),
        (["--ledger", ledger, "--budget", 4], "was created with"),
        (["--ledger", tmp_path / "other.sqlite"], "other.sqlite. Use --budget or --budget-guess to create it"),
        (["--budget", 3], "--budget and --budget-guess require --ledger"),
        (["--ledger", ledger, "--budget-delta", 0.1], "--budget-delta requires --budget"),
        (["--ledger", ledger, "--budget", 3, "--budget-guess", 0.6], "--budget and --budget-guess exclude each other"),
        (["--ledger", ledger, "--budget", -1], "--budget must be a finite number > 0"),
        (["--ledger", ledger, "--budget-guess", 0.4], "--budget-guess must be between 0.5 and 1"),
        (["--ledger", ledger, "--budget", 3, "--budget-delta", 3], "--budget-delta must be a number in [0, 1)"),
    ]:
        with pytest.raises(SystemExit):
            run(table, tmp_path / "two.csv", domain, "--epsilon", 2, *words)
        assert message in capsys.readouterr().err
    assert not (tmp_path / "two.csv").exists()
    assert PrivacyLedger(path=ledger).spent.epsilon == 2


@pytest.mark.parametrize(
    ("budget", "words", "ending"),
    [
        (
            {"epsilon": 3, "relation": "add_remove"},
            ["privatize", "--epsilon", 1],
            "The ledger has epsilon=3.0, relation='add_remove'. Use PrivacyLedger(relation='replace') for both.",
        ),
        (
            {"epsilon": 3},
            ["table", "--by", "sex", "--guess", 0.6],
            "requires delta=1e-06, but the ledger has 0.0 of 0.0 left. "
            "Decrease --delta, or use a ledger in a new file with a larger --budget-delta. "
            "--budget and --budget-delta, or --budget-guess, are the budget of a new ledger.",
        ),
        (
            {"epsilon": 3, "relation": "replace"},
            ["synthesize", "--epsilon", 2],
            "requires epsilon=4.0 for relation='replace', but the ledger has 3.0 of 3.0 left. "
            "--budget and --budget-delta, or --budget-guess, are the budget of a new ledger.",
        ),
        (
            {"guess": 0.6},
            ["table", "--by", "sex", "--guess", 0.7],
            "Decrease --guess, or use a ledger with a larger budget. "
            "--budget and --budget-delta, or --budget-guess, are the budget of a new ledger.",
        ),
        (
            {"guess": 0.6},
            ["table", "--by", "sex", "--epsilon", 2],
            "Decrease --epsilon, or use a ledger with a larger budget. "
            "--budget and --budget-delta, or --budget-guess, are the budget of a new ledger.",
        ),
        (
            {"epsilon": 1, "delta": 1e-6},
            ["table", "--by", "sex", "--guess", 0.9],
            "Decrease --guess, or use a ledger with a larger budget. "
            "--budget and --budget-delta, or --budget-guess, are the budget of a new ledger.",
        ),
    ],
)
def test_error_of_a_ledger_names_options(budget, words, ending, table, domain, tmp_path, capsys):
    ledger = tmp_path / "ledger.sqlite"
    PrivacyLedger(**budget, path=ledger)
    command, *further = words
    with pytest.raises(SystemExit):
        call(command, table, tmp_path / "out.csv", "--domain", domain, "--ledger", ledger, *further)
    shown = capsys.readouterr().err
    assert shown.endswith(f"{ending}\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--epsilon", 1, "--rows", -1], "--rows must be between 0 and"),
        (["--epsilon", 1, "--save", "absent/model"], "--save must be in an existing directory, got 'absent/model'"),
        (["--guess", 0.6, "--delta", 1e-6], "--delta must not be given with --guess"),
        (["--epsilon", 1, "--ledger", "postgresql://a@b@c/x", "--budget", 1], "--ledger must write '@' and '/' in"),
    ],
)
def test_error_names_the_option_that_was_given(words, message, table, domain, tmp_path, capsys):
    assert message in refuse(capsys, "synthesize", table, tmp_path / "out.csv", "--domain", domain, *words)
    assert not (tmp_path / "out.csv").exists()


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
        assert "--budget-guess, are the budget of a new ledger" in capsys.readouterr().err
    assert PrivacyLedger(path=ledger).spent.epsilon == 0
    monkeypatch.undo()
    new = ["--ledger", tmp_path / "new.sqlite", "--budget", 6, "--budget-delta", 1e-8]
    assert run(table, tmp_path / "one.csv", domain, *delta, *new) == 0


MISTAKES = {
    "--epsilon must be a finite number > 0": ["--epsilon", "0"],
    "--delta must be a number in [0, 1)": ["--delta", "1"],
    "--max-rows-per-person must be between 1 and": ["--max-rows-per-person", "0"],
    "Column 'age' contains a value outside the declared domain": ["--handle-unknown", "error"],
    "people.csv must have the columns ['who']": ["--person", "who"],
    "must not be in the domain, got 'sex'": ["--person", "sex"],
    "Not a TOML file": ["--domain", "people.csv"],
    "no such file.toml": ["--domain", "no such file.toml"],
}


@pytest.mark.parametrize("words", [["--person", "person"], ["--max-rows-per-person", 2]])
def test_unit_of_rows_is_not_printed_if_the_options_state_persons(table, domain, tmp_path, words, capsys):
    assert run(table, tmp_path / "out.csv", domain, "--epsilon", 1, *words) == 0
    assert ONE_ROW not in capsys.readouterr().err


def test_error_contains_no_value(table, domain, tmp_path, capsys):
    known = ["--domain", domain, "--handle-unknown", "clip", "--epsilon", 1]
    for message, words in MISTAKES.items():
        shown = refuse(capsys, "synthesize", table, "out.csv", *known, *words)
        assert message in shown
        assert "12345" not in shown
        assert "secret" not in shown
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize("command", ["synthesize", "privatize"])
def test_failed_release_charges_no_ledger(table, domain, tmp_path, capsys, command):
    words = ["--domain", domain, "--epsilon", 1, "--ledger", tmp_path / f"{command}.ledger"]
    PrivacyLedger(3.0, path=tmp_path / f"{command}.ledger")
    for out in ("no folder/out.csv", "out.txt"):
        shown = refuse(capsys, command, table, tmp_path / out, *words)
        assert PrivacyLedger(path=tmp_path / f"{command}.ledger").spent.epsilon == 0
        # The error is one line.
        assert [line for line in shown.splitlines() if line.startswith(("usage", " "))] == []


def test_ledger_keeps_the_charge_of_a_stopped_run(table, domain, tmp_path, monkeypatch):

    def stop(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(DPMarginalSynthesizer, "sample_batches", stop)
    ledger = tmp_path / "ledger.sqlite"
    assert run(table, tmp_path / "out.csv", domain, "--epsilon", 1, "--ledger", ledger, "--budget", 3) == 130
    assert PrivacyLedger(path=ledger).spent.epsilon == 1


LINKED = Domain(
    {"sex": ["f", "m"], "day": Interval(0, 40, bins=4), "ward": ["er", "gp"]},
    constraints=["count(ward == 'er') <= 1"],
    derived={"later": "day + 1"},
)


@pytest.fixture
def linked(tmp_path):
    """Write people and their visits; person 007 is not person 7."""
    keys = ["7", "007", *map(str, range(100, 298))]
    people = pd.DataFrame({"id": keys, "sex": ["f", "m"] * 100, "name": "secret"})
    wards = ["er", "gp"] * 100 + ["er", "er", "gp", "gp"] * 50
    visits = pd.DataFrame({"id": keys * 2, "day": [*range(40)] * 10, "ward": wards, "later": 0})
    for suffix in ("csv", "parquet"):
        for name, table in (("people", people), ("visits", visits)):
            getattr(table, f"to_{suffix}")(f"{name}.{suffix}", index=False)
    (tmp_path / "domain.toml").write_text(LINKED.to_toml(), encoding="utf-8")
    return people, visits


def linked_words(suffix="csv", key="id", epsilon=20):
    words = [f"people.{suffix}", f"out.{suffix}", "--events", f"visits.{suffix}", f"events.{suffix}"]
    return ["synthesize", *words, "--person", key, "--domain", "domain.toml", "--epsilon", epsilon]


@pytest.mark.parametrize(("order", "suffix"), diagonal([[], ["--order-by", "day"]], ["csv", "parquet"]))
def test_linked_files_are_synthesized_as_tables_in_memory(linked, suffix, order, capsys):
    for name in ("out", "events"):
        Path(f"{name}.{suffix}").unlink(missing_ok=True)
    words = ["--max-rows-per-person", 3, "--seed", 0, "--rows", 150]
    assert call(*linked_words(suffix), *words, *order) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("epsilon = 20, central model, adding or removing all rows of one person")
    assert shown.out.endswith(f"\nWrote events.{suffix}\nWrote out.{suffix}\n")
    assert shown.err == "Excluded: name\n"
    order_by = order[1] if order else None
    options = {"person": "id", "max_rows_per_person": 3, "order_by": order_by, "random_state": 0}
    synthesizer = DPLinkedSynthesizer(20, domain=LINKED, **options)
    people, visits = linked
    expected = synthesizer.fit(people[["id", "sex"]], visits).sample(150)
    for name, table in zip(("out", "events"), expected, strict=True):
        written = getattr(pd, f"read_{suffix}")(f"{name}.{suffix}")
        assert written.astype(str).values.tolist() == table.astype(str).values.tolist()
        assert list(written) == list(table)
    assert (written["ward"] == "er").groupby(written["id"]).sum().max() == 1


def test_linked_release_charges_ledger_once(linked, capsys, monkeypatch):
    ledger = ["--max-rows-per-person", 3, "--ledger", "ledger.sqlite"]
    assert call(*linked_words(epsilon=2), *ledger, "--budget", 3) == 0
    assert PrivacyLedger(path="ledger.sqlite").spent.epsilon == 2
    # The budget is checked before the files are read.
    monkeypatch.setattr(DPLinkedSynthesizer, "fit", None)
    words = linked_words("parquet", epsilon=2)
    with pytest.raises(SystemExit) as caught:
        call(*words, *ledger)
    assert caught.value.code == 3
    delta = ["--delta", 1e-9, "--max-rows-per-person", 3, "--ledger", "new.sqlite", "--budget", 3]
    assert "--budget-delta must be at least --delta" in refuse(capsys, *words, *delta)
    assert not any(Path(name).exists() for name in ("out.parquet", "events.parquet", "new.sqlite"))
    assert PrivacyLedger(path="ledger.sqlite").spent.epsilon == 2


LINKED_MISTAKES = {
    "--max-rows-per-person is required with --events": [],
    "--max-rows-per-person must be at least 1, got 0": ["--max-rows-per-person", 0],
    "visits.csv must have the columns ['name'], which its header lacks": ["--person", "name"],
    "--order-by must name a column of events, got 'sex'": ["--order-by", "sex"],
    "--order-by must name a column of events, got 'hour'": ["--order-by", "hour"],
    "--save must not be given with --events": ["--save", "model"],
    "OUT and EVENTS_OUT must be different files": ["--events", "visits.csv", "out.csv"],
    "EVENTS_OUT must be a new file, got 'people.csv'": ["--events", "visits.csv", "people.csv"],
    "visits.csv must have the columns ['town'], which its header lacks": ["--domain", "other.toml"],
    "must have a different id in each row, got missing ids": ["--events", "visits.csv", "events.csv"],
}


def test_linked_mistakes_leave_no_file(linked, capsys):
    people, visits = linked
    visits.assign(hour="secret").to_csv("visits.csv", index=False)
    other = LINKED | {"town": ["a", "b"]}
    Path("other.toml").write_text(Domain(other).to_toml(), encoding="utf-8")
    for message, words in LINKED_MISTAKES.items():
        if "missing ids" in message:
            people.replace({"id": {"007": ""}}).to_csv("people.csv", index=False)
        limit = [] if "required" in message else ["--max-rows-per-person", 3]
        ledger = ["--ledger", "ledger.sqlite", "--budget", 50]
        shown = refuse(capsys, *linked_words(), *limit, *ledger, *words)
        assert message in shown
        assert "secret" not in shown
        assert not {"out.csv", "events.csv"} & {path.name for path in Path().iterdir()}
    assert PrivacyLedger(path="ledger.sqlite").spent.epsilon == 0
    words = ["--domain", "sex.toml", "--epsilon", 1, "--order-by", "sex"]
    Path("sex.toml").write_text(LINKED.select(["sex"]).to_toml(), encoding="utf-8")
    assert "--order-by requires --events" in refuse(capsys, "synthesize", "people.csv", "out.csv", *words)


def test_linked_files_are_not_left_if_writing_events_fails(linked, monkeypatch):
    def fail_at_events(tables, schema, target, file_format):
        if "day" in schema.names and tables:
            raise OSError(28, "No space left on device", "events.csv")
        Path(target).touch()

    monkeypatch.setattr("skdp.engines._synthesize.write_file", fail_at_events)
    files = {path.name for path in Path().iterdir()}
    with pytest.raises(SystemExit):
        call(*linked_words(), "--max-rows-per-person", 3)
    assert {path.name for path in Path().iterdir()} == files
