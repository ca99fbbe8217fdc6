from __future__ import annotations

import contextlib
import errno
import json
import os
import pickle
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
from contextlib import closing
from pathlib import Path

import pytest

from skdp import BudgetExceeded, PrivacyGuarantee, PrivacyLedger

ONE = PrivacyGuarantee(1)

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.sqlite"


@contextlib.contextmanager
def _folder(other):
    """In memory where that is possible: killing a process does not ask the disk, and waiting for it takes long."""
    memory = "/dev/shm"
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else other) as name:
        yield Path(name)


@pytest.fixture
def folder(tmp_path):
    with _folder(tmp_path) as folder:
        yield folder


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


def test_a_charge_is_on_the_disk_when_it_returns(path, monkeypatch):
    """The line is written and waited for before the count of the lines; its folder too when the file is made."""
    steps, sync = [], os.fsync

    def synced(descriptor):
        steps.append(stat.S_ISDIR(os.fstat(descriptor).st_mode) or path.read_bytes().count(b"\n"))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", synced)
    ledger = PrivacyLedger(path, epsilon=2)
    assert steps == [2, True]
    ledger.charge(ONE, "release")
    assert steps == [2, True, 3]
    assert path.read_bytes().startswith(b'{"skdp_ledger": 1, "charges":               1, ')


def test_the_whole_guarantee_is_stored_as_it_was_stated(path):
    stated = PrivacyGuarantee(
        0.1, 1e-7, relation="add_remove", trust="central", scope=("sex", 3), mechanism="noise", secure=False, rho=1e-3
    )
    ledger = PrivacyLedger(path, epsilon=0.3, delta=1e-5, relation="replace")
    ledger.charge(stated, "release")
    _, _, line = map(json.loads, path.read_text().splitlines())
    assert PrivacyGuarantee(**line["guarantee"] | {"scope": tuple(line["guarantee"]["scope"])}) == stated
    assert (line["epsilon"], line["relation"]) == (0.2, "replace")
    assert '"epsilon": 0.1, "delta": 1e-07' in path.read_text()
    assert PrivacyLedger(path).report()[["scope", "rho", "epsilon"]].to_numpy().tolist() == [["sex, 3", 0.004, 0.2]]


def test_what_did_not_reach_the_disk_was_not_released(path, monkeypatch):
    """It may have been charged."""
    ledger = PrivacyLedger(path, epsilon=2)

    def fail(_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="nothing was released: Input/output error"):
        ledger.charge(ONE, "release")
    monkeypatch.undo()
    assert ledger.spent == PrivacyLedger(path).spent == (1, 0)
    ledger.charge(ONE, "release")


def test_on_a_full_disk_nothing_is_charged_and_nothing_is_broken(path):
    resource = pytest.importorskip("resource")
    ledger = PrivacyLedger(path, epsilon=2)
    limits, size = resource.getrlimit(resource.RLIMIT_FSIZE), path.stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, limits[1]))  # a part of the line fits
    try:
        with pytest.raises(OSError, match="cannot be used, nothing was released"):
            ledger.charge(ONE, "release")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.stat().st_size == size + 20
    assert ledger.spent == PrivacyLedger(path).spent == (0, 0)
    ledger.charge(ONE, "release")
    assert PrivacyLedger(path).report()["what"].tolist() == ["release"]


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
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("CREATE TABLE charges (amount)")
        with pytest.raises(ValueError, match=r"is no ledger, .*: its line 1 cannot be read"):
            PrivacyLedger(path, **budget)
        with closing(sqlite3.connect(path)) as connection, connection:
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
def test_a_fork_waits_for_a_charge(path):
    """A lock that crosses a fork may be released too early; and the child must not inherit a lock that nobody opens."""
    ledger, inside, forked = PrivacyLedger(path, epsilon=3), threading.Event(), []

    class Slow(PrivacyGuarantee):
        def to(self, relation):
            inside.set()
            threading.Event().wait(0.2)
            forked.append(False)
            return super().to(relation)

    thread = threading.Thread(target=ledger.charge, args=(Slow(1), "thread"))
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


@pytest.fixture(scope="module")
def used(tmp_path_factory):
    """Both programs, which take less time than to start a process: the folder, and what they print."""
    with _folder(tmp_path_factory.mktemp("used")) as folder:
        yield folder, run(folder, 1, 8, 1).splitlines()


@forks
def test_eight_processes_race_for_room_for_three(used):
    folder, (raced, *_) = used
    for run, codes in enumerate(json.loads(raced)):
        assert sorted(codes) == [0, 0, 0, 1, 1, 1, 1, 1]
        assert PrivacyLedger(folder / f"{run}.sqlite").report()["what"].tolist() == ["process"] * 3


@forks
@pytest.mark.parametrize("kills", [8, pytest.param(400, marks=pytest.mark.long)])
def test_no_release_without_its_charge_whenever_a_process_is_killed(used, folder, kills):
    folder, lines = used if kills == 8 else (folder, run(folder, 0, kills, 1).splitlines())
    codes = " ".join(lines[1:]).split()
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
    assert PrivacyLedger(ledger.path).spent == ledger.spent
    ledger.charge(ONE, "afterwards")
