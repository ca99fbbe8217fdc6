"""How fast, and in how much memory, a folder of Parquet files is privatised, and what a run that is killed leaves.

Run ``python benchmarks/sharded_release.py --rows 100000000`` wherever skdp is installed with the extra duckdb. Every
measurement runs in a process of its own; the peak is that of the whole process, its imports (some 250 MB) included.

- *time*: three columns of text with four values each, from 20 files to 20 shards, against reading and writing the same
  files unchanged, with the same number of files at a time; the best of some turns.
- *kill*: the run is killed at 20 random moments, and resumed after each. Afterwards each row has one report in the
  shard of its file, in order, the ledger one charge, and shards that were finished before a kill have the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from _timing import verdict, write_results
from engines_local import COLUMNS, LABELS, write_people

from skdp import PrivacyLedger, RandomizedResponseEncoder
from skdp.engines import privatize_files

SHARDS = 20
SLOWEST, LARGEST = 2.0, 1e9


def write_input(folder: Path, rows: int) -> Path:
    """Write the files, with a column of row numbers."""
    folder.mkdir()
    write_people(folder / "one.parquet", rows // SHARDS, COLUMNS)
    people = pq.ParquetFile(folder / "one.parquet")
    for shard in range(SHARDS):
        first = shard * people.metadata.num_rows
        with pq.ParquetWriter(
            folder / f"{shard:02d}.parquet", people.schema_arrow.append(pa.field("row", "int64"))
        ) as to:
            for batch in people.iter_batches(1 << 20):
                to.write_batch(batch.append_column("row", pa.array(range(first, first + len(batch)))))
                first += len(batch)
    (folder / "one.parquet").unlink()
    return folder


def copy(source: Path, target: Path, jobs: int) -> None:
    """Read and write the columns unchanged."""
    target.mkdir()

    def copy_file(path: Path) -> None:
        reader = ds.dataset(path).scanner(columns=COLUMNS, batch_size=1 << 17).to_reader()
        with pq.ParquetWriter(target / path.name, reader.schema) as writer:
            for batch in reader:
                writer.write_batch(batch)

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(copy_file, sorted(source.iterdir())))


def privatise(source: Path, target: Path, jobs: int, *, keep: tuple[str, ...] = (), check: bool = True) -> None:
    """Privatise the columns, or go on with it if there is a run that was killed."""
    ledger = PrivacyLedger(target.with_name("ledger")) if keep else None
    encoder = RandomizedResponseEncoder(2.0, categories=dict.fromkeys(COLUMNS, LABELS), ledger=ledger)
    resume = target.with_name(f"{target.name}.unfinished").exists()
    privatize_files(source, target, encoder, keep=keep, resume=resume, n_jobs=jobs, check=check)


TASKS = {
    "copy": copy,
    "privatise": privatise,
    "privatise, without the check": partial(privatise, check=False),
    "privatise and keep": partial(privatise, keep=("row",)),
}


def work(task: str, source: Path, target: Path, jobs: int) -> None:
    """Do one task in this process, and print what it took."""
    RandomizedResponseEncoder(2.0, categories={"a": ["x", "y"]}).fit(pa.table({"a": ["x"]}))
    start = time.perf_counter()
    TASKS[task](source, target, jobs)
    seconds, peak = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"seconds": seconds, "peak": peak}))


def command(task: str, source: Path, target: Path, jobs: int) -> list[str]:
    return [sys.executable, __file__, "--work", task, str(source), str(target), str(jobs)]


def measure(source: Path, folder: Path, jobs: int, repeats: int) -> list[list[str]]:
    """Time all tasks in turns."""
    found: dict[str, list[dict[str, float]]] = {task: [] for task in list(TASKS)[:3]}
    for turn in range(repeats):
        for task in found:
            target = folder / f"{task[:4]}{turn}"
            done = subprocess.run(command(task, source, target, jobs), check=True, capture_output=True, text=True)
            found[task].append(json.loads(done.stdout))
            shutil.rmtree(target)
    rows, base = [], min(turn["seconds"] for turn in found["copy"])
    for task, turns in found.items():
        seconds, peak = min(turn["seconds"] for turn in turns), max(turn["peak"] for turn in turns)
        met = verdict(seconds <= SLOWEST * base and peak <= LARGEST)
        rows.append(
            [task, f"{seconds:.1f}", f"{seconds / base:.2f}", f"{peak / 1e6:,.0f}", "–" if task == "copy" else met]
        )
    return rows


def kill(source: Path, folder: Path, jobs: int, kills: int, seed: int) -> list[list[str]]:
    """Kill a run at random moments, and resume it; begin another one if it ends before all kills."""
    draw, left, rows = random.Random(seed), kills, []
    begun = time.perf_counter()
    subprocess.run(command("privatise", source, folder / "whole", jobs), check=True, stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - begun
    shutil.rmtree(folder / "whole")
    while left or not rows:
        home = folder / f"killed{len(rows)}"
        home.mkdir()
        target = home / "out"
        PrivacyLedger(home / "ledger", epsilon=9)
        early: dict[str, str] = {}
        here = 0
        while not target.exists():
            process = subprocess.Popen(command("privatise and keep", source, target, jobs), stdout=subprocess.DEVNULL)
            if left:
                try:
                    process.wait(draw.uniform(0, seconds))
                except subprocess.TimeoutExpired:
                    os.kill(process.pid, signal.SIGKILL)
                    here, left = here + 1, left - 1
            if process.wait() not in (0, -signal.SIGKILL):
                raise RuntimeError("the run failed")
            for record in home.glob("out.unfinished/*.done"):
                shard = json.loads(record.read_text())
                assert early.setdefault(shard["name"], shard["sha256"]) == shard["sha256"]
        check(source, target, early)
        charges = len(PrivacyLedger(home / "ledger").report())
        assert charges == 1
        assert not list(home.glob("*.unfinished/key"))
        rows.append([str(len(rows) + 1), str(here), str(len(early)), str(charges), "yes"])
        shutil.rmtree(home)
    return rows


def check(source: Path, target: Path, early: dict[str, str]) -> None:
    """Check that there is one report for each row, and that no finished shard was drawn again."""
    manifest = json.loads((target / "manifest.json").read_text())
    files = sorted(source.iterdir())
    assert len(files) == len(manifest["shards"]) == SHARDS
    for file, shard in zip(files, manifest["shards"], strict=True):
        with (target / shard["name"]).open("rb") as opened:
            assert hashlib.file_digest(opened, "sha256").hexdigest() == shard["sha256"]
        assert early.get(shard["name"], shard["sha256"]) == shard["sha256"]
        reports = pq.ParquetFile(target / shard["name"])
        rows = pq.read_table(file, columns=["row"])["row"]
        assert pa.chunked_array(reports.read(["row"])["row"].chunks).equals(rows)
        assert reports.schema_arrow.names == [*COLUMNS, "row"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--kills", type=int, default=20, help="0 leaves the second part out")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--folder", type=Path, help="where the files are made (default: a temporary folder)")
    parser.add_argument("--work", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        task, source, target, jobs = options.work
        work(task, Path(source), Path(target), int(jobs))
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        source = write_input(folder / "in", options.rows)
        times = measure(source, folder, options.jobs, options.repeats)
        killed = kill(source, folder, options.jobs, options.kills, options.seed) if options.kills else []
    columns = ["task", "seconds", "ratio to the copy", "peak memory, MB", "at most 2 x and 1 GB?"]
    write_results(
        "sharded_release",
        "A release of many files",
        ["skdp", "numpy", "pyarrow"],
        f"{options.rows:,} rows of three columns in {SHARDS} Parquet files; {options.jobs} files at a time, on "
        f"{os.cpu_count()} cores with a load of {os.getloadavg()[1]:.0f}. Times are the best of {options.repeats} "
        "turns, each in a process of its own, whose whole memory counts.",
        {
            "Time and memory": (columns, times),
            "Killed at random moments, and resumed": (
                [
                    "release",
                    "kills",
                    "shards finished before a kill",
                    "charges",
                    "one report a row, finished shards kept",
                ],
                killed,
            ),
        },
    )


if __name__ == "__main__":
    main()
