"""A process that is killed at any point of `privatize_file`: the next one makes one report a row, for one charge."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skdp import PrivacyLedger, RandomizedResponseEncoder
from skdp.engines import privatize_file

ROWS = 5_000


def run(folder, resume):
    ledger = PrivacyLedger(folder / "ledger")
    encoder = RandomizedResponseEncoder(0.5, categories={"answer": ["yes", "no"]}, ledger=ledger)
    privatize_file(folder / "in.parquet", folder / "out.csv", encoder, keep=["number"], resume=resume)


def be_killed_at(point):
    """Kill this process at the point-th time that something is made durable, renamed or charged."""
    reached = []

    def before_and_after(function):
        def call(*args, **options):
            reach()
            result = function(*args, **options)
            reach()
            return result

        return call

    def reach():
        reached.append(1)
        if len(reached) == point:
            os.kill(os.getpid(), signal.SIGKILL)

    os.fsync = before_and_after(os.fsync)
    Path.rename = before_and_after(Path.rename)
    PrivacyLedger.charge = before_and_after(PrivacyLedger.charge)


@pytest.mark.long  # test_files_faults.py goes on from copies of what is there at each point
@pytest.mark.skipif(sys.platform == "win32", reason="processes are killed by a signal")
def test_a_run_that_was_killed_is_resumed_to_one_report_a_row_and_one_charge(tmp_path):
    charges_at_death = []
    for point in range(1, 100, 2):
        folder = tmp_path / str(point)
        folder.mkdir()
        pq.write_table(pa.table({"answer": ["yes"] * ROWS, "number": range(ROWS)}), folder / "in.parquet")
        PrivacyLedger(folder / "ledger", epsilon=5)
        killed = subprocess.run([sys.executable, __file__, folder, str(point)], check=False, cwd=Path.cwd())
        if killed.returncode == 0:
            break
        assert killed.returncode == -signal.SIGKILL
        charges_at_death.append(len(PrivacyLedger(folder / "ledger").report()))
        unfinished = folder / "out.csv.unfinished"
        if unfinished.exists() or not (folder / "out.csv").exists():
            run(folder, unfinished.exists())
        answers, numbers = zip(*(line.split(",") for line in (folder / "out.csv").read_text().split()[1:]), strict=True)
        assert list(map(int, numbers)) == list(range(ROWS))
        assert len(set(answers)) == 2
        assert len(PrivacyLedger(folder / "ledger").report()) == 1
        assert not unfinished.exists()
    assert set(charges_at_death) == {0, 1}
    assert len(charges_at_death) > 5


if __name__ == "__main__":
    be_killed_at(int(sys.argv[2]))
    run(Path(sys.argv[1]), resume=False)
