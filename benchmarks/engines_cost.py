"""What a large table costs: measured at 1, 10 and 100 million rows on this machine, extrapolated to 10 billion.

Run ``python benchmarks/engines_cost.py`` wherever skdp is installed with the extras dask, duckdb, polars and spark, and
Java 17 or later. Every measurement runs in a process of its own; clusters are started before the clock is.

- *privatise*: three columns of text with four values each, from Parquet to Parquet.
- *tally*: the reports of these three columns, in Parquet.
- *all pairs*: the 91 tables of two of 14 columns that a synthesizer reads, and the 14 of one, over the declared domain.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
from _timing import write_results
from engines_counts import DOMAIN, write_rows
from engines_local import COLUMNS, encoder, fitted, write_people

from skdp.engines import privatize, tally
from skdp.synthesis.tables._records import LargeRecords
from skdp.tables import open_large

FILE_ROWS = 10_000_000
ROWS = 1_000_000, 10_000_000, 100_000_000
TASKS = {
    "privatise": ["pyarrow", "duckdb", "polars", "dask", "spark"],
    "tally": ["pyarrow", "duckdb", "polars", "dask", "spark"],
    "all pairs": ["pyarrow", "duckdb", "dask"],
}
BILLIONS = 10_000_000_000
# Name, engine, cores: what `privatize` can use on one machine, and clusters whose machines share a file system.
CLUSTERS = [
    ("one machine with 4 cores", "pyarrow", 4),
    ("one machine with 4 cores", "duckdb", 4),
    ("Dask, 4 machines with 16 cores", "dask", 64),
    ("Spark, 10 machines with 16 cores", "spark", 160),
]
EFFICIENCY = (
    0.85  # two Dask workers against twice one: benchmarks/results/engines_local.md
)
NOTES = """
Measured on {cores} cores, once each, with a load of {load:.0f}. Tables of more than {file_rows:,} rows are one file
several times. |
The extrapolation: the time of a row is the slope between the two largest tables. A row costs the same whatever the
number of rows: batches are privatised, tallied and counted each by itself, and what they send back is a table over the
declared domain (12 numbers for the tally, 24,000 for all pairs), added up as a tree. There is no shuffle. The time
is divided by the cores, of which a cluster is taken to use {efficiency:.0%}, as two workers did here. On one machine
`privatize` uses at most four cores. Not counted: starting the cluster, and storage that is slower than its cores. 10
billion rows of three such columns are 8 GB of Parquet; columns of many values may be a hundred times as much.
"""


@contextmanager
def opened(engine: str, folder: Path) -> Iterator[Callable[[], Any]]:
    """Start what an engine needs, and say how to open the files of a folder."""
    files = sorted(map(str, folder.glob("*.parquet")))
    if engine == "pyarrow":
        yield lambda: ds.dataset(files)
    elif engine == "polars":
        import polars

        yield lambda: polars.scan_parquet(files)
    elif engine == "duckdb":
        import duckdb

        yield lambda: duckdb.read_parquet(files)
    elif engine == "dask":
        import dask.dataframe
        from distributed import Client, LocalCluster

        with (
            LocalCluster(
                n_workers=2,
                threads_per_worker=1,
                processes=True,
                dashboard_address=None,
            ) as cluster,
            Client(cluster) as client,
        ):
            client.run(fitted, COLUMNS)  # imports are not what is measured
            yield lambda: dask.dataframe.read_parquet(files, split_row_groups=2)
    else:
        from pyspark.sql import SparkSession

        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder = SparkSession.builder.master("local[2]").config(
            "spark.ui.enabled", "false"
        )
        # These files are small: by default, Spark would make one task of each.
        session = builder.config(
            "spark.sql.files.maxPartitionBytes", "2m"
        ).getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        session.range(10).mapInArrow(
            lambda batches: batches, "id long"
        ).collect()  # starts the workers
        yield lambda: session.read.parquet(*files)
        session.stop()


def count_pairs(frame: Any) -> None:
    table = open_large(frame)
    assert table is not None
    places = range(len(DOMAIN.columns))
    cliques = [*((place,) for place in places), *itertools.combinations(places, 2)]
    assert sum(1 for _ in LargeRecords(table, DOMAIN, "error").count(cliques)) == len(
        cliques
    )


def work(task: str, engine: str, folder: Path, target: Path) -> float:
    """Do one task in this process; return the seconds that it took."""
    transformer = fitted(COLUMNS)
    with opened(engine, folder) as open_frame:
        start = time.perf_counter()
        if task == "privatise":
            privatize(open_frame(), encoder(COLUMNS), path=target)
        elif task == "tally":
            tally(open_frame(), transformer)
        else:
            count_pairs(open_frame())
        return time.perf_counter() - start


def measure(task: str, engine: str, folder: Path) -> float:
    target = folder / "out"
    command = [
        sys.executable,
        __file__,
        "--work",
        task,
        engine,
        str(folder),
        str(target),
    ]
    try:
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return float(json.loads(done.stdout.strip().splitlines()[-1]))
    finally:
        shutil.rmtree(target, ignore_errors=True)
        target.unlink(missing_ok=True)


def fill(folder: Path, write: Callable[[Path, int], None], rows: int) -> None:
    """Write a file, and link to it until there are as many rows as wanted."""
    folder.mkdir()
    write(folder / "00.parquet", min(rows, FILE_ROWS))
    for number in range(1, rows // FILE_ROWS):
        os.link(folder / "00.parquet", folder / f"{number:02}.parquet")


def slope(seconds: dict[int, float]) -> tuple[float, float]:
    """Return the seconds that a row takes, and those that a run takes without any."""
    few, many = sorted(seconds)[-2:]
    each = (seconds[many] - seconds[few]) / (many - few)
    return each, max(0.0, seconds[few] - few * each)


def extrapolate(
    found: dict[tuple[str, str], dict[int, float]], cores_here: int
) -> list[list[str]]:
    lines = []
    for name, engine, cores in CLUSTERS:
        for task in TASKS:
            if (task, engine) not in found:
                continue
            each, start = slope(found[task, engine])
            cluster = engine in ("dask", "spark")
            seconds = start + BILLIONS * each * cores_here / (
                cores * (EFFICIENCY if cluster else 1)
            )
            row, took = (
                f"{each * cores_here * 1e9:.0f} ns",
                f"{seconds / 60:,.1f} minutes",
            )
            lines.append(
                [name, engine, task, row, took, f"{seconds * cores / 3600:.1f}"]
            )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS)
    parser.add_argument("--work", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        print(work(options.work[0], options.work[1], *map(Path, options.work[2:])))
        return
    found: dict[tuple[str, str], dict[int, float]] = {}
    with tempfile.TemporaryDirectory() as name:
        for rows in options.rows:
            people, adult = Path(name) / f"people{rows}", Path(name) / f"adult{rows}"
            fill(people, lambda path, rows: write_people(path, rows, COLUMNS), rows)
            fill(adult, write_rows, rows)
            for task, engines in TASKS.items():
                for engine in engines:
                    seconds = measure(
                        task, engine, adult if task == "all pairs" else people
                    )
                    found.setdefault((task, engine), {})[rows] = seconds
    cores = os.cpu_count() or 1
    measured = [
        [task, engine, *(f"{seconds[rows]:.1f}" for rows in options.rows)]
        for (task, engine), seconds in found.items()
    ]
    notes = (
        " ".join(NOTES.split())
        .replace(" | ", "\n\n")
        .format(
            cores=cores,
            load=os.getloadavg()[1],
            file_rows=FILE_ROWS,
            efficiency=EFFICIENCY,
        )
    )
    write_results(
        "engines_cost",
        "What a large table costs",
        ["skdp", "numpy", "polars", "pyarrow", "duckdb", "dask", "pyspark"],
        notes,
        {
            "Measured, in seconds": (
                ["task", "engine", *(f"{rows:,} rows" for rows in options.rows)],
                measured,
            ),
            "Extrapolated to 10,000,000,000 rows": (
                ["where", "engine", "task", "a row, on one core", "time", "core hours"],
                extrapolate(found, cores),
            ),
        },
    )


if __name__ == "__main__":
    main()
