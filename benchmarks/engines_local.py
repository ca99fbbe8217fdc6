"""How fast, and in how much memory, Parquet files are privatised and tallied on one machine.

Run ``python benchmarks/engines_local.py --rows 50000000 --tally-rows 100000000`` wherever skdp is installed with the
extras dask, duckdb and polars. Every measurement runs in a process of its own, all take turns, and the shortest time
counts; the peak is that of the whole process, its imports (some 200 MB) included.

- *tally*: one column of text with four values, against DuckDB's own ``GROUP BY`` on the same file.
- *privatise*: three columns of text with four values each, from Parquet to Parquet, against the same engine reading
  and writing them unchanged.
- *Dask*: the same on a cluster of one and of two workers with one thread each.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from _timing import verdict, write_results

from skdp import RandomizedResponseEncoder
from skdp.engines import privatize, tally

LABELS = ["never", "sometimes", "often", "always"]
COLUMNS = ["smokes", "drinks", "gambles"]
GROUP = 1 << 20


def write_people(path: Path, rows: int, columns: list[str]) -> None:
    """Write uniform values, a million rows at a time."""
    draw = np.random.default_rng(0)
    schema = pa.schema([(name, pa.string()) for name in columns])
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, rows, GROUP):
            size = min(GROUP, rows - start)
            arrays = [
                pa.DictionaryArray.from_arrays(
                    pa.array(draw.integers(4, size=size, dtype=np.int8)), LABELS
                ).cast("string")
                for _ in columns
            ]
            writer.write_table(pa.table(arrays, schema=schema))


def encoder(columns: list[str]) -> RandomizedResponseEncoder:
    return RandomizedResponseEncoder(2.0, categories=dict.fromkeys(columns, LABELS))


def fitted(columns: list[str]) -> RandomizedResponseEncoder:
    return encoder(columns).fit(pa.table(dict.fromkeys(columns, LABELS)))


def open_frame(engine: str, path: Path) -> Any:
    if engine == "pyarrow":
        return ds.dataset(path)
    if engine == "polars":
        import polars

        return polars.scan_parquet(path)
    import duckdb

    return duckdb.read_parquet(str(path))


def copy(engine: str, source: Path, target: Path) -> None:
    """Read and write a file unchanged, with the settings of `privatize`."""
    if engine == "polars":
        open_frame(engine, source).sink_parquet(target)
        return
    frame = open_frame(engine, source)
    reader = (
        frame.scanner(batch_size=1 << 17).to_reader()
        if engine == "pyarrow"
        else frame.to_arrow_reader(1 << 18)
    )
    with pq.ParquetWriter(target, reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)


def group_by(path: Path) -> None:
    import duckdb

    duckdb.sql(
        f"SELECT smokes, count(*) FROM read_parquet('{path}') GROUP BY smokes"
    ).fetchall()


def dask_privatize(source: Path, target: Path, workers: int) -> None:
    import dask.dataframe as dd
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
        ) as cluster,
        Client(cluster) as client,
    ):
        client.run(fitted, COLUMNS)  # imports are not what is measured
        start = time.perf_counter()
        privatize(
            dd.read_parquet(source, split_row_groups=2), encoder(COLUMNS), path=target
        )
        print(json.dumps({"seconds": time.perf_counter() - start}))


def work(task: str, engine: str, source: Path, target: Path) -> None:
    """Do one task in this process, and print what it took."""
    if task == "dask":
        dask_privatize(source, target, int(engine))
        return
    calls: dict[str, Callable[[], object]] = {
        "tally": lambda: tally(open_frame(engine, source), fitted(["smokes"])),
        "group by": lambda: group_by(source),
        "privatise": lambda: privatize(
            open_frame(engine, source), encoder(COLUMNS), path=target
        ),
        "copy": lambda: copy(engine, source, target),
    }
    fitted(COLUMNS)
    __import__({"pyarrow": "pyarrow", "polars": "polars"}.get(engine, "duckdb"))
    start = time.perf_counter()
    calls[task]()
    seconds = time.perf_counter() - start
    print(
        json.dumps(
            {
                "seconds": seconds,
                "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            }
        )
    )


def measure(task: str, engine: str, source: Path, folder: Path) -> dict[str, float]:
    target = folder / "out"
    command = [
        sys.executable,
        __file__,
        "--work",
        task,
        engine,
        str(source),
        str(target),
    ]
    try:
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return json.loads(done.stdout.strip().splitlines()[-1])
    finally:
        shutil.rmtree(target, ignore_errors=True)
        target.unlink(missing_ok=True)


def best(
    tasks: list[tuple[str, str, Path]], folder: Path, repeats: int
) -> dict[tuple[str, str], dict[str, float]]:
    """Measure tasks in turns: the shortest time and the highest peak of each."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    for _ in range(repeats):
        for task, engine, source in tasks:
            now = measure(task, engine, source, folder)
            before = found.get((task, engine), now)
            peak = max(now.get("peak", 0), before.get("peak", 0))
            found[task, engine] = {
                "seconds": min(now["seconds"], before["seconds"]),
                "peak": peak,
            }
    return found


def rows_of(
    found: dict[tuple[str, str], dict[str, float]],
    base: Callable[[str, str], tuple[str, str]],
    target: float,
) -> list[list[str]]:
    table = []
    for (task, engine), result in found.items():
        ratio = result["seconds"] / found[base(task, engine)]["seconds"]
        own = (task, engine) == base(task, engine)
        judged = "–" if own else verdict(ratio <= target)
        peak = f"{result['peak'] / 1e6:,.0f}" if result["peak"] else "–"
        table.append(
            [
                task,
                engine,
                f"{result['seconds']:.2f}",
                f"{ratio:.2f}",
                "–" if own else f"{target:g}",
                judged,
                peak,
            ]
        )
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--tally-rows", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--work", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.work[0], options.work[1], *map(Path, options.work[2:]))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        one, three = folder / "one.parquet", folder / "three.parquet"
        write_people(one, options.tally_rows, COLUMNS[:1])
        write_people(three, options.rows, COLUMNS)
        engines = ["pyarrow", "duckdb", "polars"]
        tallies = best(
            [
                ("group by", "DuckDB itself", one),
                *(("tally", engine, one) for engine in engines),
            ],
            folder,
            options.repeats,
        )
        copies = best(
            [
                (task, engine, three)
                for engine in engines
                for task in ("copy", "privatise")
            ],
            folder,
            options.repeats,
        )
        clusters = best(
            [("dask", workers, three) for workers in ("1", "2")],
            folder,
            options.repeats,
        )
    columns = [
        "task",
        "engine",
        "seconds",
        "ratio to the baseline",
        "target",
        "met?",
        "peak memory, MB",
    ]
    write_results(
        "engines_local",
        "Parquet on one machine",
        ["skdp", "numpy", "pandas", "polars", "pyarrow", "duckdb", "dask"],
        f"{options.rows:,} rows, and {options.tally_rows:,} reports; the best of {options.repeats} turns, each in a "
        "process of its own, on "
        f"{os.cpu_count()} cores with a load of {os.getloadavg()[1]:.0f}. Memory is that of the whole process.",
        {
            "Tally of a column of four values; the baseline is DuckDB's GROUP BY": (
                columns,
                rows_of(
                    tallies, lambda task, engine: ("group by", "DuckDB itself"), 1.5
                ),
            ),
            "Three columns privatised; the baseline is the engine's own copy": (
                columns,
                rows_of(copies, lambda task, engine: ("copy", engine), 2),
            ),
            "Dask, workers of one thread; the baseline is one worker": (
                columns,
                rows_of(clusters, lambda task, engine: ("dask", "1"), 1 / 1.6),
            ),
        },
    )


if __name__ == "__main__":
    main()
