from __future__ import annotations

import json
import os
import pickle
import sqlite3
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from skdp import BudgetExceeded, PrivacyGuarantee, PrivacyLedger

ONE = PrivacyGuarantee(1)

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def folder(tmp_path):
    """In memory where that is possible: killing a process does not ask the disk, and waiting for it takes long."""
    memory = "/dev/shm"
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else tmp_path) as name:
        yield Path(name)


def run(*arguments):
    program = Path(__file__).with_name("ledger_users.py")
    done = subprocess.run([sys.executable, program, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_outlives_its_object_and_keeps_its_budget(path):
    PrivacyLedger(path, epsilon=3.0, delta=1e-6).charge(PrivacyGuarantee(1, 1e-7), "first")
    for again in (PrivacyLedger(path), PrivacyLedger(str(path), epsilon=3, delta=1e-6)):
        assert (again.epsilon, again.delta, again.relation) == (3.0, 1e-6, "replace")
        assert again.spent == (1, 1e-7)
        assert again.path == path
    again.charge(ONE, "second")
    assert PrivacyLedger(path).report()["what"].tolist() == ["first", "second"]


@pytest.mark.parametrize(
    ("other", "named"),
    [
        ({"epsilon": 4.0}, "epsilon=4.0, delta=0.0, relation=None"),
        ({"epsilon": 3.0, "delta": 1e-9}, "epsilon=3.0, delta=1e-09, relation=None"),
        ({"epsilon": 3.0, "relation": "add_remove"}, "epsilon=3.0, delta=0.0, relation='add_remove'"),
    ],
)
def test_another_budget_is_refused_naming_both(path, other, named):
    PrivacyLedger(path, epsilon=3.0).charge(ONE, "first")
    with pytest.raises(
        ValueError, match=r"was made with epsilon=3\.0, delta=0\.0, relation='replace', and is"
    ) as caught:
        PrivacyLedger(path, **other)
    assert named in str(caught.value)
    assert PrivacyLedger(path, epsilon=3.0, relation="replace").spent == (1, 0)


def test_two_objects_on_one_file_spend_one_budget(path):
    one, other = PrivacyLedger(path, epsilon=2), PrivacyLedger(path)
    one.charge(ONE, "one")
    other.charge(ONE, "other")
    for ledger in (one, other):
        assert ledger.remaining() == (0, 0)
        with pytest.raises(BudgetExceeded):
            ledger.charge(ONE, "more")


def test_a_pickle_is_the_same_ledger(path, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    ledger = PrivacyLedger("ledger.sqlite", epsilon=2)  # a relative path means the folder of now
    copied = pickle.loads(pickle.dumps(ledger))
    monkeypatch.chdir("/")
    copied.charge(ONE, "copy")
    assert ledger.spent == copied.spent == (1, 0)
    assert (copied.epsilon, copied.path) == (2, path)


def test_a_pickle_of_a_lost_ledger_loads_and_releases_nothing(path):
    ledger = PrivacyLedger(path, epsilon=2)
    saved = pickle.dumps(ledger)
    for file in path.parent.iterdir():
        file.unlink()
    loaded = pickle.loads(saved)
    for lost in (ledger, loaded):
        with pytest.raises(FileNotFoundError, match="is gone; nothing was released"):
            lost.charge(ONE, "release")
        assert repr(lost).endswith("spent=unknown)")
    assert list(path.parent.iterdir()) == []  # an empty ledger in its place would have the whole budget again


def test_with_a_budget_a_lost_file_is_made_anew_and_without_it_is_an_error(path):
    """As the docstring warns."""
    PrivacyLedger(path, epsilon=2).charge(ONE, "release")
    for file in path.parent.iterdir():
        file.unlink()
    with pytest.raises(FileNotFoundError, match="there is no ledger"):
        PrivacyLedger(path)
    assert PrivacyLedger(path, epsilon=2).spent == (0, 0)


def test_the_file_is_a_write_ahead_database_and_charges_reach_the_disk(path, monkeypatch):
    statements = []
    connect = sqlite3.connect

    def traced(*args, **kwargs):
        connection = connect(*args, **kwargs)
        connection.set_trace_callback(statements.append)
        return connection

    ledger = PrivacyLedger(path, epsilon=2)
    monkeypatch.setattr(sqlite3, "connect", traced)
    ledger.charge(ONE, "release")
    with connect(path) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    kinds = [statement.split("(")[0].strip() for statement in statements]
    assert kinds[0] == "PRAGMA synchronous = FULL"
    assert kinds[1] == "BEGIN IMMEDIATE"
    assert kinds[-1] == "COMMIT"
    assert sum(kind.startswith(("BEGIN", "COMMIT")) for kind in kinds) == 2
    assert any(kind.startswith("INSERT INTO charges") for kind in kinds)


def test_amounts_are_stored_as_they_were_written(path):
    PrivacyLedger(path, epsilon=0.3).charge(PrivacyGuarantee(0.1, rho=1e-3), "release")
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT epsilon, delta, rho FROM charges").fetchall() == [("0.1", "0.0", "0.001")]


def test_what_was_not_committed_was_not_charged(path, monkeypatch):
    """The disk is full, or the machine fails, before the end of a charge."""
    ledger = PrivacyLedger(path, epsilon=2)

    def fail(*_):
        raise sqlite3.OperationalError("disk is full")

    monkeypatch.setattr("skdp.privacy._file_book._FilePage.append", fail)
    with pytest.raises(OSError, match="nothing was released: disk is full"):
        ledger.charge(ONE, "release")
    monkeypatch.undo()
    assert ledger.spent == (0, 0)
    ledger.charge(ONE, "release")


class TestWhatIsNoLedger:
    def test_a_missing_file_without_a_budget(self, path):
        with pytest.raises(FileNotFoundError, match="give epsilon="):
            PrivacyLedger(path)
        assert not path.exists()

    def test_a_missing_folder(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="there is no such folder"):
            PrivacyLedger(tmp_path / "no" / "ledger.sqlite", epsilon=1)

    def test_a_folder(self, tmp_path):
        with pytest.raises(OSError, match="cannot be used"):
            PrivacyLedger(tmp_path, epsilon=1)

    @pytest.mark.parametrize("budget", [{}, {"epsilon": 1}])
    def test_another_kind_of_file(self, path, budget):
        path.write_text("age,sex\n30,F\n" * 100)
        with pytest.raises(ValueError, match="is no ledger"):
            PrivacyLedger(path, **budget)
        assert path.read_text().startswith("age,sex")

    @pytest.mark.parametrize("budget", [{}, {"epsilon": 1}])
    def test_another_database(self, path, budget):
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE charges (amount)")
        with pytest.raises(ValueError, match="is no ledger: it is another kind of database"):
            PrivacyLedger(path, **budget)
        with sqlite3.connect(path) as connection:
            assert [name for (name,) in connection.execute("SELECT name FROM sqlite_master")] == ["charges"]

    def test_an_empty_file_is_filled_only_with_a_budget(self, path):
        path.touch()
        with pytest.raises(ValueError, match="is no ledger"):
            PrivacyLedger(path)
        assert PrivacyLedger(path, epsilon=1).remaining() == (1, 0)

    def test_a_budget_in_the_place_of_the_path(self):
        with pytest.raises(TypeError, match="path must be a path, got float; the budget is epsilon="):
            PrivacyLedger(3.0)

    @forks
    @pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
    def test_a_file_that_cannot_be_written(self, path):
        ledger = PrivacyLedger(path, epsilon=1)
        path.chmod(0o444)
        path.parent.chmod(0o555)
        child = os.fork()
        if child == 0:  # the administrator may write anything, so somebody else tries
            code = 0
            try:
                if os.getuid() == 0:
                    for folder in path.parents[:-2]:
                        os.chmod(folder, os.stat(folder).st_mode | 0o555)
                    os.setuid(65534)
                for attempt in (lambda: PrivacyLedger(path), lambda: ledger.charge(ONE, "release")):
                    try:
                        attempt()
                    except OSError as error:
                        code += "cannot be used, nothing was released" in str(error)
            finally:
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        path.parent.chmod(0o755)
        assert code == 2
        assert ledger.spent == (0, 0)


@forks
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_fork_waits_for_an_open_transaction(path, monkeypatch):
    """A connection that crosses a fork may break the file; and the child must not inherit a lock that nobody opens."""
    ledger = PrivacyLedger(path, epsilon=3)
    totals, inside, forked = ledger._totals, threading.Event(), []

    def slow_totals(page):
        inside.set()
        threading.Event().wait(0.2)
        forked.append(False)
        return totals(page)

    monkeypatch.setattr(ledger, "_totals", slow_totals)
    thread = threading.Thread(target=ledger.charge, args=(ONE, "thread"))
    thread.start()
    inside.wait()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            if forked == [False]:  # the thread was through with it
                PrivacyLedger(path).charge(ONE, "child")
                code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    thread.join()
    assert sorted(PrivacyLedger(path).report()["what"]) == ["child", "thread"]


@forks
def test_eight_processes_race_for_room_for_three(folder):
    for codes in json.loads(run("race", folder, 10)):
        assert sorted(codes) == [0, 0, 0, 1, 1, 1, 1, 1]
    for ledger in folder.glob("*.sqlite"):
        assert PrivacyLedger(ledger).report()["what"].tolist() == ["process"] * 3


@forks
@pytest.mark.parametrize("kills", [16, pytest.param(200, marks=pytest.mark.long)])
def test_no_release_without_its_charge_whenever_a_process_is_killed(folder, kills):
    codes = run("kill", folder, kills, 1).split()
    assert codes == ["-9"] * kills
    ledger = PrivacyLedger(folder / "ledger.sqlite", epsilon=1e6)
    charged = ledger.report()["what"].tolist()
    released = [line.split()[0] for line in (folder / "releases").read_text().splitlines()]
    assert len(released) >= kills // 4  # or little would have been tested
    assert len(set(released)) == len(released)
    assert set(released) <= set(charged)
    # Who was killed may have charged once more.
    assert len(charged) <= len(released) + kills
    assert ledger.spent.epsilon == pytest.approx(0.1 * len(charged))
    with sqlite3.connect(ledger.path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    ledger.charge(ONE, "afterwards")
