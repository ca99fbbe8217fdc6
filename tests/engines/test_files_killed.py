"""A run that is killed at any point is resumed to one report a row and one charge."""

import subprocess
import sys

import pytest

SCRIPT = r"""
import json, os, signal, sys
from pathlib import Path
import narwhals.stable.v2
import pyarrow as pa
import pyarrow.csv, pyarrow.dataset  # once, not in each child
import pyarrow.parquet as pq
from skdp import PrivacyLedger, RandomizedResponseEncoder
from skdp.engines import privatize_file
from skdp.engines.files import _privatize as _files_privatize
from skdp.engines.files._checkpoint import WorkingFolder

narwhals.stable.v2.from_native(pa.table({"a": [1]}))  # imports what reads a table, also once
ROWS, PART = 5_000, 4096
_files_privatize.batch_rows = lambda width: PART
home = Path(sys.argv[1])


def child(work):
    "Run something in a process of its own; say whether it came to its end."
    process = os.fork()
    if process == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
    status = os.waitpid(process, 0)[1]
    assert status in (0, signal.SIGKILL), status
    return status == 0


def kill_at(point):
    "Kill this process at the point-th time that something is made durable, renamed or charged."
    left = [point]

    def reach():
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left[0] -= 1

    charge, rename = PrivacyLedger.charge, Path.rename
    os.fsync = lambda file: reach()  # killed, not cut off from power: what is written is there
    PrivacyLedger.charge = lambda *args: (reach(), charge(*args), reach())
    Path.rename = lambda *args: (reach(), rename(*args))


def run(folder, resume):
    ledger = PrivacyLedger(folder / "ledger")
    encoder = RandomizedResponseEncoder(0.5, categories={"answer": ["yes", "no"]}, ledger=ledger)
    privatize_file(folder / "in.parquet", folder / "out.csv", encoder, keep=["number"], resume=resume)


def trial(point):
    folder = home / str(point)

    def first():
        folder.mkdir()
        pq.write_table(pa.table({"answer": ["yes"] * ROWS, "number": range(ROWS)}), folder / "in.parquet")
        PrivacyLedger(folder / "ledger", epsilon=5)
        kill_at(point)
        run(folder, False)

    def second():
        unfinished, out = folder / "out.csv.unfinished", folder / "out.csv"
        charges = len(PrivacyLedger(folder / "ledger").report())
        assert not (out.exists() and (unfinished / "key").exists())
        stored = {
            path.name: WorkingFolder(out).read(int(path.stem)).to_pydict() for path in unfinished.glob("0*.part")
        }
        assert charges == 1 if stored or out.exists() else charges <= 1
        run(folder, unfinished.exists())
        lines = [line.split(",") for line in out.read_text().splitlines()]
        assert lines.pop(0) == ["answer", "number"]
        assert [int(number) for _, number in lines] == list(range(ROWS))
        for name, table in stored.items():
            start = int(name[:8]) * PART
            assert [answer.strip('"') for answer, _ in lines[start : start + PART]] == table["answer"]
        assert len(PrivacyLedger(folder / "ledger").report()) == 1
        assert not unfinished.exists()
        print("killed", point, "charges", charges, "parts", len(stored), "out", out_was_there)

    whole = child(first)
    out_was_there = (folder / "out.csv").exists()
    if not whole and not (out_was_there and not (folder / "out.csv.unfinished").exists()):
        left.append(second)
    return whole


point, left = 0, []
while not trial(point):
    point += 1
for second in left:  # here, where nothing more is forked
    second()
"""


@pytest.mark.long  # test_files_faults.py goes on from copies of what is there at each point
@pytest.mark.skipif(sys.platform == "win32", reason="processes are forked")
def test_killed_at_every_point(tmp_path):
    done = subprocess.run([sys.executable, "-c", SCRIPT, tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert len(lines) > 15
    seen = {(charges, parts, out) for _, _, _, charges, _, parts, _, out in lines}
    steps = [("0", "0", "False"), ("1", "0", "False"), ("1", "1", "False"), ("1", "2", "False")]
    assert seen >= {*steps, ("1", "2", "True")}
