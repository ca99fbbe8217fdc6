"""A ledger in a file: one for all processes, also if processes are killed, files are lost or edited."""

import os
import pickle
import sqlite3
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pytest

from skdp import PrivacyGuarantee, PrivacyLedger, RandomizedResponseEncoder
from skdp.randomness import SecureSource
from tests.privacy import ledger_users
from tests.privacy.edited_ledgers import EDITS, charged_ledger, check_damaged

ONE = PrivacyGuarantee(1)

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.sqlite"


def change_tables(path, changes, *values):
    """Change the tables of a file; return the number of changed rows."""
    with sqlite3.connect(path) as database:
        count = database.execute(changes, *values).rowcount
    database.close()
    return count


@pytest.fixture
def fast_folder(tmp_path):
    """Return a folder in memory if possible, because killed processes do not need the disk."""
    memory = "/dev/shm"
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else tmp_path) as name:
        yield Path(name)


def test_file_outlives_its_object_and_keeps_its_budget(path):
    PrivacyLedger(3.0, delta=1e-6, path=path).charge(PrivacyGuarantee(1, delta=1e-7), "first")
    for again in (PrivacyLedger(path=path), PrivacyLedger(3, delta=1e-6, path=str(path))):
        assert (again.epsilon, again.delta, again.relation) == (3.0, 1e-6, "replace")
        assert again.spent == (1, 1e-7)
        assert again.path == path
    again.charge(ONE, "second")
    assert PrivacyLedger(path=path).charges()["title"].tolist() == ["first", "second"]
    assert os.listdir(path.parent) == [path.name]
    for other in ({"epsilon": 4.0, "delta": 1e-6}, {"epsilon": 3, "delta": 1e-6, "relation": "add_remove"}):
        with pytest.raises(ValueError, match=r"was created with epsilon=3\.0, delta=1e-06, relation='replace', got"):
            PrivacyLedger(path=path, **other)


def test_pickle_is_the_same_ledger(path, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    ledger = PrivacyLedger(2, path="ledger.sqlite")  # relative to the current folder
    copied = pickle.loads(pickle.dumps(ledger))
    monkeypatch.chdir("/")
    copied.charge(ONE, "copy")
    assert ledger.spent == copied.spent == (1, 0)
    assert (copied.epsilon, copied.path) == (2, path)


def test_pickle_of_a_lost_ledger_loads_but_releases_nothing(path):
    ledger = PrivacyLedger(2, path=path)
    saved = pickle.dumps(ledger)
    path.unlink()
    for lost in (ledger, pickle.loads(saved)):
        with pytest.raises(FileNotFoundError, match="does not exist; set epsilon"):
            lost.charge(ONE, "release")
        assert repr(lost).endswith("spent=unknown)")
    assert os.listdir(path.parent) == []  # an empty ledger in its place would have the whole budget again


def test_charge_is_on_the_disk_before_a_draw(path, monkeypatch):
    """SQLite waits for the disk, and has committed when the first random bytes are drawn."""
    steps, connect, draw = [], sqlite3.connect, SecureSource.bytes

    def traced(*arguments, **options):
        database = connect(*arguments, **options)
        database.set_trace_callback(lambda statement: steps.append(statement.split(" (")[0]))
        return database

    monkeypatch.setattr(sqlite3, "connect", traced)
    monkeypatch.setattr(SecureSource, "bytes", lambda source, size: steps.append("draw") or draw(source, size))
    frame, ledger = pd.DataFrame({"a": ["x", "y"]}), PrivacyLedger(1, path=path)
    encoder = RandomizedResponseEncoder(1.0, categories={"a": ["x", "y"]}, ledger=ledger).fit(frame)
    steps.clear()
    encoder.transform(frame)
    order = ["PRAGMA synchronous = EXTRA", "BEGIN IMMEDIATE", "INSERT INTO charge", "COMMIT", "draw"]
    last = {step: len(steps) - steps[::-1].index(step) for step in order[:4]}
    assert sorted(last, key=last.get) == order[:4]
    assert last["COMMIT"] <= steps.index("draw")


@contextmanager
def full_disk(room):
    """Limit the size of files to this number of bytes."""
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_charge_that_cannot_be_written_draws_nothing(path, monkeypatch):
    frame, drawn = pd.DataFrame({"a": ["x", "y"]}), []
    ledger = PrivacyLedger(2, path=path)
    encoder = RandomizedResponseEncoder(1.0, categories={"a": ["x", "y"]}, ledger=ledger).fit(frame)
    with monkeypatch.context() as patched, full_disk(1000):
        patched.setattr(SecureSource, "bytes", lambda source, size: drawn.append(size))
        with pytest.raises(OSError, match="cannot be used"):
            encoder.transform(frame)
    assert drawn == []
    assert ledger.spent == (0, 0)
    encoder.transform(frame)
    assert PrivacyLedger(path=path).spent == (1, 0)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda path: PrivacyLedger(path=path), FileNotFoundError, "set epsilon"),
        (lambda path: PrivacyLedger(1, path=path / "no" / "ledger"), OSError, "cannot be used: unable to open"),
        (lambda path: PrivacyLedger(1, path=3.0), TypeError, "`path` must be a str or a path, got float"),
        (lambda path: PrivacyLedger(str(path)), TypeError, "`epsilon` must be a finite number > 0, got str"),
        (lambda path: PrivacyLedger(delta=1e-6), ValueError, "`delta`, `relation` and `columns` require a budget"),
        (lambda path: PrivacyLedger(), TypeError, "requires a budget"),
        (lambda path: PrivacyLedger(rho=1.0, mu=1.0), ValueError, "one of epsilon"),
        (lambda path: PrivacyLedger(rho=1.0, delta=1e-6), ValueError, "`delta` requires a budget of epsilon"),
    ],
)
def test_invalid_arguments_raise_and_make_no_file(path, make, error, message):
    with pytest.raises(error, match=message):
        make(path)
    assert not path.exists()


@pytest.mark.parametrize("edit", EDITS)
def test_edited_sums_and_charges_raise_an_error(edit, tmp_path_factory):
    """A ledger whose sum was edited to -5 had 8 left."""
    path = tmp_path_factory.mktemp("edited") / "ledger.sqlite"
    ledger = charged_ledger(path)
    change_tables(path, edit)
    check_damaged(ledger, path)


@pytest.mark.parametrize("name", ["epsilon", "delta", "rho", "mu_squared"])
def test_negative_sum_charges_nothing(name, tmp_path_factory):
    path = tmp_path_factory.mktemp("edited") / "ledger.sqlite"
    ledger = charged_ledger(path)
    change_tables(path, f"UPDATE account SET {name} = '-5'")
    with pytest.raises(ValueError, match="a sum of its charges is negative"):
        ledger.charge(ONE, "third")


def test_charges_of_0_3_0_without_a_note_of_method_are_counted(path):
    spent = charged_ledger(path).spent
    assert change_tables(path, "UPDATE charge SET guarantee = replace(guarantee, ', \"method\": {}', '')") == 2
    assert PrivacyLedger(path=path).spent == spent


def test_error_of_a_later_ledger_advises_to_upgrade(path):
    PrivacyLedger(3.0, path=path)
    change_tables(path, "UPDATE account SET budget = replace(budget, '{', '{\"version\": 2, ')")
    with pytest.raises(ValueError, match=r"written by a later version of skdp: .*got 2\. Upgrade skdp"):
        PrivacyLedger(path=path)


@pytest.mark.parametrize(
    ("write", "why"),
    [
        (lambda path: path.write_bytes(b""), "its tables are not the tables of a ledger"),
        (lambda path: path.write_bytes(b"age,sex\n" * 200), "file is not a database"),
        (lambda path: change_tables(path, "CREATE TABLE people (age)"), "its tables are not the tables of a ledger"),
    ],
)
def test_error_names_the_reason_if_a_file_is_no_ledger(tmp_path_factory, write, why):
    path = tmp_path_factory.mktemp("other") / "ledger.sqlite"
    write(path)
    with pytest.raises((OSError, ValueError), match=rf"is not a valid ledger: .*{why}|cannot be used: {why}"):
        PrivacyLedger(path=path)


EXPENSIVE = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"

FOREIGN = [
    "DROP TABLE account; CREATE VIEW account AS " + EXPENSIVE,
    "DROP TABLE charge; CREATE VIEW charge AS " + EXPENSIVE,
    "CREATE TRIGGER later AFTER UPDATE ON account BEGIN UPDATE account SET epsilon = '0'; END",
    "ALTER TABLE account ADD COLUMN more TEXT AS (hex(zeroblob(100000000)))",
    "CREATE INDEX slow ON charge (what)",
    "DROP TABLE account; CREATE TABLE account (budget, epsilon, delta, rho, mu_squared TEXT AS (1))",
]


@pytest.mark.parametrize("change", FOREIGN)
def test_code_of_a_foreign_file_is_not_executed(change, tmp_path_factory):
    path = tmp_path_factory.mktemp("foreign") / "ledger.sqlite"
    ledger = charged_ledger(path)
    for statement in [change] if "TRIGGER" in change else change.split("; "):
        change_tables(path, statement)
    for use in (lambda: PrivacyLedger(path=path), ledger.charges, lambda: ledger.charge(ONE, "third")):
        with pytest.raises(ValueError, match="its tables are not the tables of a ledger"):
            use()


@pytest.mark.parametrize(
    ("column", "value"),
    [
        *(("epsilon", value) for value in ("1e99999999", "1/1e99999999", "9" * 100_000, "1" * (1 << 24))),
        *(("budget", value) for value in ("[" * 100_000, '{"columns": ' + "[" * 100_000, '{"version": 1e99999}')),
    ],
)
def test_huge_contents_of_a_file_raise_an_error(column, value, path):
    ledger = charged_ledger(path)
    change_tables(path, f"UPDATE account SET {column} = ?", (value,))
    check_damaged(ledger, path)


def test_statistics_of_sqlite_do_not_change_a_ledger(path):
    PrivacyLedger(3.0, path=path).charge(ONE, "first")
    change_tables(path, "ANALYZE")
    PrivacyLedger(path=path).charge(ONE, "second")
    assert PrivacyLedger(path=path).spent.epsilon == 2.0


@pytest.mark.skipif(os.name == "nt", reason="no modes of files")
def test_only_the_owner_can_read_a_new_file(path):
    before = os.umask(0o022)
    try:
        ledger = PrivacyLedger(3.0, path=path)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o660)  # shared with a group
    ledger.charge(ONE, "charge")
    PrivacyLedger(3.0, path=path)
    assert path.stat().st_mode & 0o777 == 0o660


def test_file_behind_links_is_one_ledger(path):
    ledger = PrivacyLedger(3, path=path)
    (path.parent / "again").symlink_to(path.parent)
    path.with_name("link").symlink_to(path)
    for name in (path, path.parent / "again" / path.name, path.with_name("link")):
        other = PrivacyLedger(path=name)
        assert other.path == path.resolve()
        other.charge(ONE, "charge")
    assert ledger.remaining() == (0, 0)


@forks
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_fork_waits_for_a_charge(path):
    """A child with an inherited transaction could roll it back, and an inherited lock would never open."""
    ledger, inside, finished = PrivacyLedger(3, path=path), threading.Event(), []

    class Slow(PrivacyGuarantee):
        def to(self, relation, *, columns=None):
            inside.set()
            threading.Event().wait(0.2)  # a fork without a wait happens now; a fork with a wait happens any time later
            finished.append(True)
            return super().to(relation)

    thread = threading.Thread(target=ledger.charge, args=(Slow(1), "thread"))
    thread.start()
    inside.wait()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            if finished:
                PrivacyLedger(path=path).charge(ONE, "child")
                code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    thread.join()
    assert sorted(PrivacyLedger(path=path).charges()["title"]) == ["child", "thread"]


@forks
@pytest.mark.parametrize("kills", [8, pytest.param(104, marks=pytest.mark.long)])
def test_killed_processes_leave_no_release_without_its_charge_and_no_charge_above_the_budget(fast_folder, kills):
    program = Path(ledger_users.__file__)
    done = subprocess.run(
        [sys.executable, program, str(fast_folder), str(kills), "1"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["-9"] * kills
    for folder in fast_folder.iterdir():
        n_lost = ledger_users.PROCESSES  # each process is killed once
        ledger_users.check_round(folder, PrivacyLedger(path=folder / "ledger.sqlite"), n_lost)
