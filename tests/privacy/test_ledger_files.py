"""A ledger in a file: one under all its names and for all processes, whatever is killed; nothing else is believed."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import pickle
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pandas as pd
import pytest

from skdp import PrivacyGuarantee, PrivacyLedger, RandomizedResponseEncoder
from skdp.randomness import SecureSource
from tests.conftest import each

ONE = PrivacyGuarantee(1)

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.jsonl"


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
    for other in ({"epsilon": 4.0, "delta": 1e-6}, {"epsilon": 3, "delta": 1e-6, "relation": "add_remove"}):
        with pytest.raises(ValueError, match=r"was made with epsilon=3\.0, delta=1e-06, relation='replace', and is"):
            PrivacyLedger(path, **other)


def test_a_pickle_is_the_same_ledger(path, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    ledger = PrivacyLedger("ledger.jsonl", epsilon=2)  # a relative path means the folder of now
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


def test_a_charge_is_on_the_disk_when_it_returns(path, monkeypatch):
    """The line is written and waited for; its folder too when the file is made."""
    steps, sync = [], os.fsync

    def synced(descriptor):
        steps.append(stat.S_ISDIR(os.fstat(descriptor).st_mode) or path.read_bytes().count(b"\n"))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", synced)
    ledger = PrivacyLedger(path, epsilon=2)
    assert steps == [1, True]
    ledger.charge(ONE, "release")
    assert steps == [1, True, 2]
    assert path.read_bytes().startswith(b'{"skdp_ledger": 1, "budget": ')


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


@contextlib.contextmanager
def full_disk(room):
    """Let no file become larger than this many bytes."""
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize("n_bytes", [None, 0, 20])
def test_a_charge_that_cannot_be_written_draws_nothing_and_leaves_no_part_of_a_line(path, monkeypatch, n_bytes):
    """The file cannot be opened, the write fails, or a full disk takes 20 bytes, which the next charge removes."""
    frame, drawn, plain_open = pd.DataFrame({"a": ["x", "y"]}), [], Path.open
    ledger = PrivacyLedger(path, epsilon=2)
    encoder = RandomizedResponseEncoder(1.0, categories={"a": ["x", "y"]}, ledger=ledger).fit(frame)
    before = path.read_bytes()

    class Failing(io.FileIO):
        def write(self, data):
            if n_bytes:
                return super().write(data[:n_bytes])
            raise OSError(errno.EIO, "Input/output error")

    def fail_to_write(path, mode="r", **options):
        if "+" not in mode:
            return plain_open(path, mode, **options)
        if n_bytes is None:
            raise PermissionError(errno.EACCES, "Permission denied")
        return Failing(path, mode)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", fail_to_write)
        patched.setattr(SecureSource, "bytes", lambda source, size: drawn.append(size))
        with pytest.raises(OSError, match=r"nothing was released: (Input/output|Permission|No space)"):
            encoder.transform(frame)
    assert drawn == []
    assert len(path.read_bytes()) == len(before) + (n_bytes or 0)
    assert path.read_bytes().startswith(before)
    assert ledger.spent == PrivacyLedger(path).spent == (0, 0)
    encoder.transform(frame)
    assert [len(json.loads(line)) > 1 for line in path.read_text().splitlines()] == [True] * 2
    assert PrivacyLedger(path).spent == (1, 0)


@each("room", [0, 20, 90])
def test_a_ledger_that_a_full_disk_has_cut_short_can_be_made_later(room, tmp_path_factory):
    path = tmp_path_factory.mktemp("full") / "ledger.jsonl"
    with full_disk(room), pytest.raises(OSError, match="cannot be used, nothing was released"):
        PrivacyLedger(path, epsilon=2)
    assert path.read_bytes() == b""
    with pytest.raises(ValueError, match="is no ledger"):
        PrivacyLedger(path)
    assert PrivacyLedger(path, epsilon=2).remaining() == (2, 0)


@each(
    "make, error, message",
    [
        (lambda path: PrivacyLedger(path), FileNotFoundError, "give epsilon="),
        (lambda path: PrivacyLedger(path / "no" / "ledger", epsilon=1), FileNotFoundError, "there is no such folder"),
        (lambda path: PrivacyLedger(3.0), TypeError, "path must be a path, got float; the budget is epsilon="),
    ],
)
def test_what_is_no_path_of_a_ledger_is_named(path, make, error, message):
    with pytest.raises(error, match=message):
        make(path)
    assert not path.exists()


@forks
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_fork_waits_for_a_charge(path):
    """A lock that crosses a fork may be released too early; and the child must not inherit a lock that nobody opens."""
    ledger, inside, forked = PrivacyLedger(path, epsilon=3), threading.Event(), []

    class Slow(PrivacyGuarantee):
        def to(self, relation, columns=None):
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
        assert PrivacyLedger(folder / f"{run}.jsonl").report()["what"].tolist() == ["process"] * 3


@forks
@pytest.mark.parametrize("kills", [8, pytest.param(400, marks=pytest.mark.long)])
def test_no_release_without_its_charge_whenever_a_process_is_killed(used, folder, kills):
    folder, lines = used if kills == 8 else (folder, run(folder, 0, kills, 1).splitlines())
    codes = " ".join(lines[1:]).split()
    assert codes == ["-9"] * kills
    ledger = PrivacyLedger(folder / "ledger.jsonl", epsilon=1e6)
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


def test_a_file_with_two_names_is_refused_and_behind_links_it_is_one(path):
    ledger = PrivacyLedger(path, epsilon=3)
    (path.parent / "again").symlink_to(path.parent)
    path.with_name("link.jsonl").symlink_to(path)
    for other in (
        ledger,
        PrivacyLedger(path.parent / "again" / path.name),
        PrivacyLedger(path.with_name("link.jsonl")),
    ):
        assert other.path == path.resolve()
        other.charge(ONE, "charge")
    assert ledger.remaining() == (0, 0)
    os.link(path, path.with_name("hard.jsonl"))
    for use in (lambda: PrivacyLedger(path), lambda: ledger.charge(ONE, "second")):
        with pytest.raises(ValueError, match=r"has 2 names \(hard links\)"):
            use()


def test_the_lock_is_on_the_file_and_not_on_its_name(path):
    """Another process may have locked it under any name, as in a bind mount."""
    fcntl = pytest.importorskip("fcntl")
    ledger, other = PrivacyLedger(path, epsilon=2), path.with_name("other")
    os.link(path, other)
    with other.open("rb") as file:
        other.unlink()
        fcntl.flock(file, fcntl.LOCK_EX)
        charge = threading.Thread(target=ledger.charge, args=(ONE, "release"))
        charge.start()
        charge.join(0.1)
        assert charge.is_alive()
        assert path.read_bytes().count(b"\n") == 1  # the budget
    charge.join()
    assert ledger.spent == (1, 0)


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_a_signal_handler_may_show_a_ledger_during_a_charge(path, kind):
    ledger = PrivacyLedger(epsilon=3) if kind == "memory" else PrivacyLedger(path, epsilon=3)
    twin = ledger if kind == "memory" else PrivacyLedger(path)
    ledger.charge(ONE, "first")
    shown = []

    class Interrupted(PrivacyGuarantee):
        def to(self, relation, columns=None):
            signal.raise_signal(signal.SIGUSR1)
            raise ArithmeticError

    def handler(*_):
        shown.extend([repr(ledger), len(ledger.report()), repr(twin)])
        with pytest.raises(RuntimeError, match="is being charged"):
            twin.charge(ONE, "from the handler")

    before = signal.signal(signal.SIGUSR1, handler)
    begun = time.monotonic()
    try:
        with pytest.raises(ArithmeticError):
            ledger.charge(Interrupted(1), "second")
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert time.monotonic() - begun < 5
    assert shown[0].endswith("spent=(1.0, 0.0))")
    assert shown[1] == 1
    ledger.charge(ONE, "second")
    assert ledger.spent == (2, 0)


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture
def written(tmp_path, quick):
    path = tmp_path / "written.jsonl"
    ledger = PrivacyLedger(path, epsilon=5, delta=1e-6)
    for what in ("first", "second", "third"):
        ledger.charge(ONE, what)
    return path


def edited(number, old, new):
    def edit(lines):
        assert old in lines[number]
        lines[number] = lines[number].replace(old, new)

    return edit


EDITS = {
    "no budget": lambda lines: lines.pop(0),
    "not JSON": lambda lines: lines.append(b"age,sex\n"),
    "another kind of file": lambda lines: lines.__setitem__(slice(None), [b"age,sex\n"] * 100),
    "a later version": edited(0, b'"skdp_ledger": 1', b'"skdp_ledger": 2'),
}


@each("name", EDITS)
def test_what_is_no_ledger_is_named(tmp_path_factory, name):
    path = tmp_path_factory.mktemp("edited") / "ledger.jsonl"
    PrivacyLedger(path, epsilon=5).charge(ONE, "first")
    lines = path.read_bytes().splitlines(keepends=True)
    EDITS[name](lines)
    path.write_bytes(b"".join(lines))
    why = "it was made by a later version of skdp" if name == "a later version" else ".*"
    with pytest.raises(ValueError, match=rf"is no ledger, or not as it was written: {why}; nothing was released"):
        PrivacyLedger(path)


def rewritten(path, budget=None, **changes):
    """Change the second charge."""
    first, *charges = [json.loads(line) for line in path.read_text().splitlines()]
    charges[1] |= changes
    first["budget"] |= budget or {}
    path.write_text("".join(json.dumps(record) + "\n" for record in (first, *charges)))


@pytest.mark.parametrize(
    "changes",
    [
        {"epsilon": -1.0},
        {"epsilon": float("inf")},
        {"delta": -1e-7},
        {"delta": 0.1},
        {"relation": "add_remove"},
        {"epsilon": 4.5},  # more than was left
        {"budget": {"epsilon": 2.0}},
        {"budget": {"relation": "swap"}},
    ],
    ids=str,
)
def test_what_no_ledger_would_have_written_is_not_believed(written, changes):
    rewritten(written)
    assert PrivacyLedger(written).spent == (3, 0)
    rewritten(written, **changes)
    with pytest.raises(ValueError, match="is no ledger, or not as it was written"):
        PrivacyLedger(written)


@pytest.mark.parametrize("value", ["1E-9999999999999999999999", "[" * 10**5 + "]" * 10**5], ids=["small", "deep"])
def test_what_json_cannot_read_is_named(written, value):
    with written.open("a") as lines:
        lines.write(f'{{"epsilon": {value}, "delta": 0.0, "relation": "replace"}}\n')
    with pytest.raises(ValueError, match=r"its line 5 cannot be read.*; nothing was released"):
        PrivacyLedger(written)


def test_an_older_copy_in_its_place_is_noticed(written):
    older = written.read_bytes()
    ledger = PrivacyLedger(written)
    ledger.charge(ONE, "fourth")
    newer = written.read_bytes()
    written.write_bytes(older)
    with pytest.raises(ValueError, match="lines that were read before are missing"):
        ledger.charge(ONE, "fifth")
    written.write_bytes(newer)
    ledger.charge(ONE, "fifth")


def test_a_process_may_be_killed_at_every_byte_of_a_charge(written):
    before = written.read_bytes()
    long_name = "fourth" * 9  # so that the next line is shorter than what is left of this one
    PrivacyLedger(written).charge(ONE, long_name)
    after = written.read_bytes()
    assert len(after) > len(before)
    for size in range(len(before), len(after) + 1):
        written.write_bytes(after[:size])
        ledger = PrivacyLedger(written)
        whole = size == len(after)
        assert ledger.spent == (3 + whole, 0)
        if size % 25 and not whole:
            continue
        ledger.charge(ONE, "next")
        names = ["first", "second", "third", *[long_name] * whole, "next"]
        assert written.read_bytes().endswith(b"\n")
        assert PrivacyLedger(written).report()["what"].tolist() == names


def test_a_process_may_be_killed_while_it_makes_a_ledger(written, tmp_path):
    """Nothing was charged then; the file is made again if it is empty, and refused otherwise."""
    PrivacyLedger(tmp_path / "new.jsonl", epsilon=5)
    content, torn = (tmp_path / "new.jsonl").read_bytes(), tmp_path / "torn.jsonl"
    for size in range(1, len(content)):
        torn.write_bytes(content[:size])
        with pytest.raises(ValueError, match="is no ledger"):
            PrivacyLedger(torn, epsilon=5)
    torn.write_bytes(b"")
    with pytest.raises(ValueError, match="is no ledger"):
        PrivacyLedger(torn)
    assert PrivacyLedger(torn, epsilon=5).remaining() == (5, 0)
