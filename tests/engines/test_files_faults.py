"""A disk that fails at any point deletes nothing: the run is resumed to one report a row and one charge."""

import contextlib
import errno
import io
import os
import shutil
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset
import pyarrow.fs
import pyarrow.parquet as pq
import pytest

from skdp import PrivacyLedger, RandomizedResponseEncoder
from skdp.engines import privatize_file

ROWS, PART = 5_000, 4096
DOMAIN = {"answer": ["yes", "no"]}
FAULTS = [OSError(errno.EIO, "Input/output error"), OSError(errno.ENOSPC, "No space left"), KeyboardInterrupt()]


class Faults:
    """Raise at the chosen one of all points where a run touches the disk or the ledger."""

    def __init__(self, monkeypatch):
        self.point, self.count, self.fault, self.look = None, 0, None, lambda: None
        self.lock = threading.RLock()  # reports are drawn in threads: no file goes while `look` looks
        for owner, name in [
            (os, "fsync"),
            (Path, "rename"),
            (Path, "unlink"),
            (Path, "read_bytes"),
            (Path, "stat"),
            (PrivacyLedger, "charge"),
        ]:
            real = getattr(owner, name) if name != "fsync" else lambda file: None
            monkeypatch.setattr(owner, name, self.around(real))
        monkeypatch.setattr(pa.dataset, "dataset", self.opened(pa.dataset.dataset))

    def around(self, function):
        def call(*args, **options):
            with self.lock if function.__name__ in ("rename", "unlink") else contextlib.nullcontext():
                self.reach()
                result = function(*args, **options)
                if function.__name__ in ("charge", "rename"):
                    self.reach()
                return result

        return call

    def opened(self, function):
        files = pa.fs.PyFileSystem(_Handler(self))
        return lambda path, **options: function(str(path), **options | {"filesystem": files})

    def reach(self):
        with self.lock:
            self.count += 1
            self.look()
            if self.count == self.point:
                raise self.fault

    def arm(self, point, fault):
        self.point, self.count, self.fault = point, 0, fault


class _Handler(pa.fs.FSSpecHandler):
    """The files of this machine, read through Python."""

    def __init__(self, faults):
        self.faults, self.local = faults, pa.fs.LocalFileSystem()

    def get_type_name(self):
        return "faulty"

    def normalize_path(self, path):
        return path

    def get_file_info(self, paths):
        return self.local.get_file_info(paths)

    def open_input_file(self, path):
        return pa.PythonFile(_File(Path(path), self.faults), mode="r")

    open_input_stream = open_input_file


class _File(io.BytesIO):
    def __init__(self, path, faults):
        with path.open("rb") as file:
            super().__init__(file.read())
        self.faults = faults

    def read(self, *size):
        self.faults.reach()
        return super().read(*size)


@pytest.fixture
def faults(monkeypatch, batch_rows):
    batch_rows(PART)
    with monkeypatch.context() as patched:
        yield Faults(patched)


def run(home, resume):
    ledger = PrivacyLedger(home / "ledger")
    encoder = RandomizedResponseEncoder(0.5, categories=DOMAIN, ledger=ledger)
    return privatize_file(home / "in.parquet", home / "out.parquet", encoder, keep=["number"], resume=resume)


def prepare(home):
    home.mkdir()
    pq.write_table(pa.table({"answer": ["yes"] * ROWS, "number": range(ROWS)}), home / "in.parquet")
    PrivacyLedger(home / "ledger", epsilon=0.5)  # of one charge: nothing is left for a second one
    return home


def check_resumed(home):
    """Go on as long as something is left to do, and check that nothing was reported or charged twice."""
    out, unfinished = home / "out.parquet", home / "out.parquet.unfinished"
    charges = len(PrivacyLedger(home / "ledger").report())
    assert charges <= 1
    assert charges or not (out.exists() or list(unfinished.glob(".whole.*")))  # nothing is drawn before the charge
    assert not (out.exists() and (unfinished / "key").exists())
    if charges:
        assert unfinished.exists() or out.exists()  # a charge is never for nothing
    if unfinished.exists() or not out.exists():
        run(home, unfinished.exists())
    found = pq.read_table(out).to_pydict()
    assert found["number"] == list(range(ROWS))
    assert len(PrivacyLedger(home / "ledger").report()) == 1
    assert not unfinished.exists()


@pytest.mark.parametrize(
    "faults_in_turn",
    [FAULTS, *(pytest.param([fault], marks=pytest.mark.long) for fault in FAULTS)],
    ids=["in turn", "EIO", "ENOSPC", "stopped"],
)
def test_a_fault_at_any_point_is_resumed_from(tmp_path, faults, faults_in_turn):
    """Every seventh point where a first run touches the disk or the ledger; all in the long run."""
    fresh = prepare(tmp_path / "fresh")
    shutil.copytree(fresh, tmp_path / "0")
    faults.arm(None, None)
    run(tmp_path / "0", False)
    assert faults.count > 40
    for point in range(1, faults.count + 1, 7 if len(faults_in_turn) > 1 else 1):
        home = shutil.copytree(fresh, tmp_path / str(point))
        fault = faults_in_turn[point % len(faults_in_turn)]
        faults.arm(point, fault)
        with contextlib.suppress(type(fault)):
            run(home, False)
        faults.arm(None, None)
        check_resumed(home)
        shutil.rmtree(home)


def test_what_a_killed_run_leaves_at_any_point_is_resumed_from(tmp_path, faults):
    """A copy of the folder is what SIGKILL would leave there, as no handler runs; test_files_killed.py kills."""
    home, left = prepare(tmp_path / "home"), []

    def copy():
        if faults.count % 5 == 0:
            left.append(shutil.copytree(home, tmp_path / f"copy {len(left)}"))

    faults.look = copy
    run(home, False)
    faults.look = lambda: None
    assert len(left) > 8
    for folder in left:
        shutil.rmtree(home)
        shutil.move(folder, home)  # a ledger is known by its place
        check_resumed(home)
