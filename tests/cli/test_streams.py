"""Delimiters, standard input and output, and exit statuses."""

import io
import os
import signal
import subprocess
import sys
import time
import warnings

import pandas as pd
import pytest

import skdp
from skdp.cli import main
from skdp.engines import estimate_file
from tests.conftest import often

PEOPLE = pd.DataFrame({"sex": ["f", "m"] * 30, "a;b,c": range(60)})
ENCODER = skdp.RandomizedResponseEncoder(3.0, categories={"sex": ["f", "m"]})


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "domain.toml").write_text('[columns.sex]\nvalues = ["f", "m"]\n')
    PEOPLE.to_csv(tmp_path / "people.csv", index=False)
    PEOPLE.to_csv(tmp_path / "semicolons.csv", index=False, sep=";")
    return tmp_path


@pytest.fixture
def run(monkeypatch, capsysbinary):
    """Run a command on standard input; return its status, its output, and its messages."""

    def run(*words, given=b""):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
        try:
            status = main([str(word) for word in words])
        except SystemExit as stopped:
            status = stopped.code
        written = capsysbinary.readouterr()
        return status, written.out, written.err.decode()

    return run


PRIVATIZE = ["--domain", "domain.toml", "--epsilon", "3"]


def test_error_advises_a_delimiter_and_an_invalid_delimiter_raises_an_error(folder, run):
    errors = run("privatize", "semicolons.csv", "r.csv", *PRIVATIZE)[2]
    assert "Use --delimiter if another character separates the values" in errors
    status, _, errors = run("privatize", "people.csv", "r.csv", *PRIVATIZE, "--delimiter", ";;")
    assert status == 2
    assert "--delimiter must be one character" in errors
    assert run("privatize", "semicolons.csv", "r.csv", *PRIVATIZE, "--delimiter", ";", "--keep", "a;b,c")[0] == 0
    assert pd.read_csv("r.csv")["a;b,c"].tolist() == list(range(60))


def test_reports_are_piped(folder, run):
    given = (folder / "people.csv").read_bytes()
    status, reports, errors = run("privatize", "-", "-", *PRIVATIZE, "--save", "protocol.json", given=given)
    assert (status, reports.splitlines()[0], len(reports.splitlines())) == (0, b"sex", 61)
    assert "epsilon = 3" in errors
    status, estimates, _ = run("estimate", "-", "--protocol", "protocol.json", "--out", "-", given=reports)
    assert status == 0
    found = pd.read_csv(io.BytesIO(estimates))
    assert found.columns.tolist() == ["sex", "count", "std_error", "lower", "upper"]
    assert found["count"].sum() == pytest.approx(60)
    assert b"std_error" in run("estimate", "-", "--protocol", "protocol.json", given=reports)[1]
    (folder / "sent.csv").write_bytes(reports)
    tally = run("tally", "sent.csv", "--protocol", "protocol.json", "--out", "-")[1]
    (folder / "tally.json").write_bytes(tally)
    assert estimate_file(folder / "tally.json")["count"].sum() == pytest.approx(60)
    assert sorted(path.name for path in folder.iterdir() if path.name[:1] in "rs") == ["semicolons.csv", "sent.csv"]


def test_drafts_and_synthetic_rows_are_piped(folder, run):
    given = (folder / "people.csv").read_bytes()
    status, text, errors = run("draft-domain", "-", "-", given=given)
    assert status == 0, errors
    assert skdp.Domain.from_toml(text.decode())["sex"].values == ("f", "m")
    status, rows, _ = run("synthesize", "-", "-", *PRIVATIZE, "--rows", "7", given=given)
    assert (status, len(rows.splitlines())) == (0, 8)


def test_failed_command_has_no_output(folder, run):
    status, reports, errors = run("privatize", "-", "-", *PRIVATIZE, "--save", "p.json", given=b"sex\nf\nx\n")
    assert (status, reports) == (2, b"")
    assert "outside the declared categories" in errors


def test_exhausted_budget_has_its_own_status(folder, run):
    charged = [*PRIVATIZE, "--ledger", "ledger.sqlite"]
    assert run("privatize", "people.csv", "first.csv", *charged, "--budget", "4")[0] == 0
    for command in ("privatize", "synthesize"):
        status, _, errors = run(command, "people.csv", "second.csv", *charged)
        assert status == 3
        # The file and its remaining budget, without `PrivacyLedger(...)` and without advice on searches in Python.
        assert f"skdp {command}: error: ledger ledger.sqlite: " in errors
        assert ", but the ledger has " in errors
        assert "PrivacyLedger" not in errors
    given = (folder / "people.csv").read_bytes()
    status, reports, _ = run("privatize", "-", "-", *charged, "--save", "p.json", given=given)
    assert (status, reports) == (3, b"")
    # Reports without their protocol are useless.
    status, reports, errors = run("privatize", "-", "-", *PRIVATIZE, given=given)
    assert (status, reports) == (2, b"")
    assert "--save is required for reports on standard output" in errors
    assert not (folder / "second.csv").exists()
    assert run("privatize", "none.csv", "second.csv", *PRIVATIZE)[0] == 2
    assert b"3 if the release would exceed the budget" in b" ".join(run("--help")[1].split())


def test_warning_is_one_line_without_python(folder, run):
    reports = ENCODER.fit_transform(PEOPLE[["sex"]])
    reports.to_parquet("made.parquet")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        status, _, errors = run("privatize", "made.parquet", "again.parquet", *PRIVATIZE)
    assert status == 0
    assert [line for line in errors.splitlines() if line.startswith("skdp privatize: warning: ")]
    assert ".py" not in errors


DOMAIN = ["--domain", "domain.toml"]
PERSON = ["--max-rows-per-person", "2", "--person"]
HEADLESS = {
    "synthesize": ["headless.csv", "o.csv", *PRIVATIZE],
    "synthesize, a key": ["headless.csv", "o.csv", *PRIVATIZE, "--person", "id"],
    "synthesize people": ["headless.csv", "o.csv", "--events", "people.csv", "e.csv", *PERSON, "sex", *PRIVATIZE],
    "synthesize events": ["people.csv", "o.csv", "--events", "headless.csv", "e.csv", *PERSON, "a;b,c", *PRIVATIZE],
    "synthesize events without a person": ["people.csv", "o.csv", "--events", "headless.csv", "e.csv", *PRIVATIZE],
    "privatize": ["headless.csv", "o.csv", *PRIVATIZE],
    "table": ["headless.csv", "o.csv", *PRIVATIZE, "--by", "sex"],
    "estimate": ["headless.csv", "--protocol", "protocol.json"],
}


@pytest.mark.parametrize("case", HEADLESS)
def test_file_without_a_header_prints_no_value(folder, run, case):
    (folder / "headless.csv").write_text("39,Male,HIV-positive\n40,Female,no\n")
    ENCODER.fit(PEOPLE[["sex"]]).save("protocol.json")
    status, printed, errors = run(case.partition(" ")[0].strip(","), *HEADLESS[case])
    assert status == 2
    assert "headless.csv must have the columns [" in errors or "--person is required with --events" in errors
    assert [text for text in ("39", "Male", "HIV") if text in errors + printed.decode()] == []


@pytest.mark.parametrize("command", ["synthesize", "privatize", "draft-domain"])
def test_control_characters_of_a_header_are_escaped(folder, run, command):
    PEOPLE.assign(**{"\x1b[31mred\u202e\x07": 1}).to_csv("people.csv", index=False)
    words = {"draft-domain": ["out.toml"]}.get(command, ["out.csv", *PRIVATIZE])
    status, printed, errors = run(command, "people.csv", *words)
    assert status == 0
    assert "\\x1b[31mred\\u202e\\x07" in errors
    assert [c for c in errors + printed.decode() if not (c.isprintable() or c == "\n")] == []


@pytest.mark.parametrize("command", ["privatize", "synthesize", "table"])
def test_standard_output_is_called_by_its_name(folder, run, command):
    words = [*PRIVATIZE, *{"privatize": ["--save", "p.json"], "synthesize": [], "table": ["--by", "sex"]}[command]]
    status, _, errors = run(command, "people.csv", "-", *words)
    assert status == 0
    assert errors.endswith("Wrote standard output\n")
    assert "/" not in errors


@pytest.mark.parametrize("command", ["report", "statement"])
def test_folder_and_page_are_not_written_to_standard_output(folder, run, command):
    words = ["reports.parquet"] if command == "statement" else []
    status, printed, errors = run(command, *words, "--out", "-")
    assert (status, printed) == (2, b"")
    assert f"skdp {command}: error: --out must be a file or folder, got -" in errors


@pytest.fixture
def temporary(tmp_path):
    """Return the folder of temporary files of processes."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    return folder


def start(temporary, *words, **options):
    """Start a command as a process."""
    environment = os.environ | {"TMPDIR": str(temporary), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, *words]
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True, **options)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has neither pipes with names nor SIGHUP")
@pytest.mark.parametrize("name", often(["SIGTERM", "SIGHUP", "SIGKILL"], ["SIGTERM"]))
def test_stopped_command_leaves_no_private_row(folder, temporary, name):
    number = getattr(signal, name)
    if signal.getsignal(number) == signal.SIG_IGN:
        pytest.skip("processes inherit that the signal is ignored, as after nohup")
    (folder / "domain.toml").unlink()
    os.mkfifo("domain.toml")  # reading it does not end
    with open("people.csv", "rb") as rows:
        words = ["-m", "skdp", "table", "-", "out.csv", *PRIVATIZE, "--by", "sex"]
        process = start(temporary, *words, stdin=rows)
        while not list(temporary.glob("*/standard-input.csv")) and process.poll() is None:
            time.sleep(0.02)
        (stored,) = temporary.glob("*/standard-input.csv")
        process.send_signal(number)
        _, errors = process.communicate()
    if name == "SIGKILL":
        assert process.returncode == -number
        assert sys.platform != "linux" or not stored.exists()
    else:
        assert (process.returncode, errors) == (128 + number, "Stopped. A charge to a ledger remains.\n")
        assert list(temporary.iterdir()) == []


def test_interrupt_while_modules_are_imported_is_no_traceback(folder, temporary):
    code = (
        "import sys\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'skdp.base':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupt())\n"
        "from skdp.cli import main\n"
        "sys.exit(main(['tally', 'reports.csv']))\n"
    )
    process = start(temporary, "-c", code)
    assert process.communicate()[1] == "Stopped. A charge to a ledger remains.\n"
    assert process.returncode == 130


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM of processes")
def test_signal_while_a_class_is_compiled_has_its_own_status(folder, temporary):
    """Python ends with SIGINT after a KeyboardInterrupt in code that it compiles from text."""
    code = "import os, signal; os.kill(os.getpid(), signal.SIGTERM); [None for _ in range(1000)]"
    lines = ["import sys", "from skdp import cli", f"cli._run = lambda _: exec({code!r})", "sys.exit(cli.main([]))"]
    (folder / "compiled.py").write_text("\n".join(lines))
    process = start(temporary, "-m", "compiled")
    assert process.communicate()[1] == "Stopped. A charge to a ledger remains.\n"
    assert process.returncode == 143


def test_ignored_signal_and_handlers_stay(folder, run):
    before = signal.getsignal(signal.SIGTERM)
    assert run("draft-domain", "people.csv", "first.toml")[0] == 0
    assert signal.getsignal(signal.SIGTERM) is before
