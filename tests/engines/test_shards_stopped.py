"""A release of many files that fails, or is killed, at any point: one report a row, one charge, the same shards."""

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skdp import PrivacyLedger, RandomizedResponseEncoder
from skdp.engines import privatize_file, privatize_files
from skdp.engines.files import shards
from skdp.engines.files._checkpoint import WorkingFolder
from skdp.engines.files.shards import _privatize

pytestmark = pytest.mark.long  # a release of many files is to be retired

ROWS, PART = [5_000, 10], 4096
FAULTS = [OSError(errno.EIO, "Input/output error"), OSError(errno.ENOSPC, "No space left"), KeyboardInterrupt()]


class Faults:
    """Raise at the chosen one of all points where a run touches the disk or the ledger."""

    def __init__(self, monkeypatch):
        self.point, self.count, self.fault = None, 0, None
        for owner, name in [
            (os, "fsync"),
            (Path, "rename"),
            (Path, "unlink"),
            (Path, "read_bytes"),
            (Path, "write_text"),
            (Path, "mkdir"),
            (Path, "open"),
            (PrivacyLedger, "charge"),
            (_privatize, "write_file"),
        ]:
            real = getattr(owner, name) if name != "fsync" else lambda file: None
            monkeypatch.setattr(owner, name, self.around(real))

    def around(self, function):
        def call(*args, **options):
            self.reach()
            result = function(*args, **options)
            if function.__name__ in ("charge", "rename", "write_file"):
                self.reach()
            return result

        return call

    def reach(self):
        self.count += 1
        if self.count == self.point:
            raise self.fault

    def arm(self, point, fault):
        self.point, self.count, self.fault = point, 0, fault


def run(home, resume):
    ledger = PrivacyLedger(home / "ledger")
    encoder = RandomizedResponseEncoder(0.5, categories={"answer": ["yes", "no"]}, ledger=ledger)
    return privatize_files(home / "in", home / "out", encoder, keep=["number"], resume=resume)


def prepare(home):
    (home / "in").mkdir(parents=True)
    first = 0
    for number, rows in enumerate(ROWS):
        table = pa.table({"answer": ["yes"] * rows, "number": range(first, first + rows)})
        pq.write_table(table, home / "in" / f"{number:02d}.parquet")
        first += rows
    PrivacyLedger(home / "ledger", epsilon=5)
    return home


def check_resumed(home):
    """Go on as long as something is left to do, and check that nothing was reported or charged twice."""
    out, unfinished = home / "out", home / "out.unfinished"
    early = {path.name: json.loads(path.read_text()) for path in unfinished.glob("*.done")}
    charges = len(PrivacyLedger(home / "ledger").report())
    assert charges == 1 if early or out.exists() else charges <= 1
    assert not (out.exists() and (unfinished / "key").exists())
    if charges:
        assert unfinished.exists() or out.exists()  # a charge is never for nothing
    if unfinished.exists() or not out.exists():
        run(home, unfinished.exists())
    manifest = shards.Manifest.from_json((out / "manifest.json").read_bytes())
    assert [shard.rows for shard in manifest.shards] == ROWS
    found = [pq.read_table(out / shard.name) for shard in manifest.shards]
    assert [number for table in found for number in table["number"].to_pylist()] == list(range(sum(ROWS)))
    for shard in manifest.shards:
        with (out / shard.name).open("rb") as file:
            assert shard.holds(file)
        if shard.name in early:
            assert shards.Shard(**early[shard.name]) == shard
    assert len(PrivacyLedger(home / "ledger").report()) == 1
    assert not unfinished.exists()
    return len(early), charges


@pytest.mark.parametrize("step", [11, pytest.param(1, marks=pytest.mark.long)], ids=["some", "all"])
def test_a_fault_at_any_point_is_resumed_from(tmp_path, monkeypatch, step):
    """The points where a first run touches the disk or the ledger, one after the other."""
    monkeypatch.setattr(_privatize, "batch_rows", lambda width: PART)
    fresh = prepare(tmp_path / "fresh")
    shutil.copytree(fresh, tmp_path / "0")
    with monkeypatch.context() as patched:
        faults = Faults(patched)
        run(tmp_path / "0", False)
        count, seen = faults.count, set()
        assert count > 30
        for point in range(1, count + 1, step):
            faults.arm(None, None)
            home = shutil.copytree(fresh, tmp_path / str(point))
            fault = FAULTS[point % len(FAULTS)]
            faults.arm(point, fault)
            try:
                run(home, False)
            except type(fault):
                pass
            faults.arm(None, None)
            seen.add(check_resumed(home))
            shutil.rmtree(home)
    assert seen >= ({(0, 0), (0, 1), (1, 1), (2, 1)} if step == 1 else {(0, 0), (2, 1)})


SCRIPT = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from tests.engines.test_shards_stopped import run
home = Path(sys.argv[1])
print("begins", flush=True)
run(home, (home / "out.unfinished").exists())
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="processes are killed")
def test_killed_at_many_moments(tmp_path, monkeypatch):
    """Killed in the middle of whatever it does, again and again, with all that is left then."""
    monkeypatch.setattr(sys.modules[__name__], "ROWS", [60_000] * 12)
    home, kills, delay = prepare(tmp_path / "home"), 0, 0.0
    while not (home / "out").exists():
        process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, home, Path(__file__).parents[2]], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout.readline() == "begins\n"
        delay += 0.1
        try:
            process.wait(delay)
        except subprocess.TimeoutExpired:
            kills += 1
        process.kill()
        process.wait()
        process.stdout.close()
    assert kills >= 3
    assert check_resumed(home)[1] == 1


@pytest.mark.parametrize("release", [privatize_file, privatize_files])
def test_a_run_that_was_stopped_when_its_target_was_there_is_not_taken_for_another_one(tmp_path, monkeypatch, release):
    for name, rows in {"a": 100, "b": 30}.items():
        (tmp_path / f"{name}.csv").write_text("answer\n" + "yes\n" * rows)
    first, other = tmp_path / "a.csv", tmp_path / "b.csv"
    out = tmp_path / ("out.parquet" if release is privatize_file else "out")

    def go(source, epsilon, **options):
        release(source, out, RandomizedResponseEncoder(epsilon, categories={"answer": ["yes", "no"]}), **options)

    with monkeypatch.context() as patched:
        patched.setattr(WorkingFolder, "remove", lambda self: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            go(first, 8.0)
    for source, epsilon, text in [(other, 8.0, "input file"), (first, 0.5, "transformer")]:
        with pytest.raises(ValueError, match=f"had another .*{text}"):
            go(source, epsilon, resume=True)
    with pytest.raises(FileExistsError, match="never overwritten"):
        go(first, 8.0)
    go(first, 8.0, resume=True)
    assert out.exists()
    assert not out.with_name(f"{out.name}.unfinished").exists()
