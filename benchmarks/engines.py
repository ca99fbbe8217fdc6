"""CPU time of tallies, privatization and histograms of files, compared with queries of the engine.

`seconds_of_engine` is the shortest CPU time of all threads in three runs, which alternate with runs of the engine.
`relative_time` is this time divided by the time of the engine: a GROUP BY of the same column for tallies and
histograms, and reading and writing the file unchanged for privatization. The name of a table is its number of rows.

The task "databases" has tables of SQLite and DuckDB, read through Ibis. `relative_time` compares SQLite with its own
GROUP BY, DuckDB with the same estimator of the relation, whose rows are read, and the synthesizer with DuckDB.
"few" and "many" are columns of amounts with 101 values and with nearly as many as rows.

The task "large files" runs each call in a new process: the command on a Parquet file, or the function on a dataset of
Arrow, a relation of DuckDB or a lazy frame of Polars. `seconds_of_process` is the CPU time of the process, imports
included, and `relative_time` its ratio to a process that runs plain queries of the same columns: a GROUP BY of each
column for estimates, tallies and histograms, of each pair of columns in DuckDB for synthesizers, and a copy of three
columns for privatization. `peak_megabytes` and `peak_megabytes_of_query` are the largest memory of both processes on
Linux. The command `synthesize` also writes as many synthetic rows, and "discovery" is `discover_domain` of five columns
of text, compared with a GROUP BY of each.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from _tasks import Task, keep_scores, measure_process, time_in_turns

LABELS = ["never", "sometimes", "often", "always"]
COLUMNS = ["smokes", "drinks", "gambles"]
FIVE_COLUMNS = [*COLUMNS, "votes", "reads"]
ENGINES = ("pyarrow", "duckdb", "polars", "dask")


class Folder:
    """Temporary folder with files of one and three columns; it is deleted with this object."""

    def __init__(self, n_rows: int) -> None:
        import pyarrow
        import pyarrow.parquet

        folder = Path(tempfile.mkdtemp())
        weakref.finalize(self, shutil.rmtree, folder)
        self.path = folder / "rows.parquet"
        self.column = folder / "column.parquet"
        self.target = folder / "out"
        rng = np.random.default_rng(0)
        labels = np.array(LABELS)
        rows = {name: labels[rng.integers(4, size=n_rows)] for name in COLUMNS}
        table = pyarrow.table(rows)
        for path, n_columns in (self.path, 3), (self.column, 1):
            part = table.select(COLUMNS[:n_columns])
            pyarrow.parquet.write_table(part, path, row_group_size=1 << 17)


def tables(quick: bool) -> dict[str, Any]:
    """Return files of few and of many rows."""
    sizes = (10_000,) if quick else (100_000, 1_000_000)
    return {f"{n_rows} rows": partial(Folder, n_rows) for n_rows in sizes}


def open_rows(engine: str, path: Path) -> Any:
    """Open a file with an engine."""
    if engine == "pyarrow":
        import pyarrow.dataset

        return pyarrow.dataset.dataset(path)
    if engine == "polars":
        import polars

        return polars.scan_parquet(path)
    if engine == "dask":
        import dask.dataframe

        return dask.dataframe.read_parquet(path, split_row_groups=1)
    import duckdb

    return duckdb.read_parquet(str(path))


def group_rows(engine: str, path: Path, name: str = COLUMNS[0]) -> None:
    """Count the values of a column with the engine alone."""
    rows = open_rows(engine, path)
    if engine == "polars":
        import polars

        rows.group_by(name).agg(polars.len()).collect()
    elif engine == "pyarrow":
        rows.to_table(columns=[name]).group_by(name).aggregate([(name, "count")])
    elif engine == "dask":
        rows[name].value_counts().compute(scheduler="synchronous")
    else:
        rows.aggregate(f"{name}, count(*)", name).fetchall()


def copy_rows(engine: str, path: Path, target: Path) -> None:
    """Read and write three columns unchanged."""
    rows = open_rows(engine, path)
    if engine == "polars":
        rows.select(COLUMNS).sink_parquet(target)
    elif engine == "dask":
        rows[COLUMNS].to_parquet(target, write_index=False)
    else:
        import pyarrow.parquet

        if engine == "pyarrow":
            scanner = rows.scanner(columns=COLUMNS, batch_size=1 << 17)
            reader = scanner.to_reader()
        else:
            reader = rows.project(", ".join(COLUMNS)).to_arrow_reader(1 << 17)
        with pyarrow.parquet.ParquetWriter(target, reader.schema) as writer:
            for batch in reader:
                writer.write_batch(batch)
    remove(target)


def group_pairs(path: Path) -> None:
    """Count the values of each pair of five columns in DuckDB."""
    rows = open_rows("duckdb", path)
    for pair in combinations(FIVE_COLUMNS, 2):
        names = ", ".join(pair)
        rows.aggregate(f"{names}, count(*)", names).fetchall()


def remove(path: Path) -> None:
    """Remove a written file or directory."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def make_encoder(names: list[str], epsilon: float) -> Any:
    """Return an encoder that is fitted without rows of the file."""
    import pandas as pd

    from skdp import RandomizedResponseEncoder

    encoder = RandomizedResponseEncoder(
        epsilon, categories=dict.fromkeys(names, LABELS)
    )
    return encoder.fit(pd.DataFrame(dict.fromkeys(names, LABELS)))


def compare_times(
    own: Callable[[], object], rival: Callable[[], object]
) -> dict[str, float]:
    """Return the CPU time of a call, and its ratio to the time of the reference."""
    seconds, ratio = time_in_turns(own, rival, turns=3)
    return {"seconds_of_engine": seconds, "relative_time": ratio}


def time_tally(
    engine: str, table: Folder, epsilon: float, seed: int
) -> dict[str, float]:
    """Time the tally of a column."""
    from skdp.engines import tally

    encoder = make_encoder(COLUMNS[:1], epsilon)

    def count() -> object:
        rows = open_rows(engine, table.column)
        return tally(rows, encoder)

    return compare_times(count, partial(group_rows, engine, table.column))


def time_privatize(
    engine: str, table: Folder, epsilon: float, seed: int
) -> dict[str, float]:
    """Time the privatization of three columns, from file to file."""
    from skdp.engines import privatize

    encoder = make_encoder(COLUMNS, epsilon)

    def write() -> None:
        privatize(open_rows(engine, table.path), encoder, path=table.target)
        remove(table.target)

    return compare_times(write, partial(copy_rows, engine, table.path, table.target))


def time_histogram(
    engine: str, table: Folder, epsilon: float, seed: int
) -> dict[str, float]:
    """Time a histogram of a column in the central model."""
    from skdp import DPHistogram

    histogram = DPHistogram(epsilon, domain={COLUMNS[0]: LABELS})

    def count() -> object:
        return histogram.fit(open_rows(engine, table.column))

    return compare_times(count, partial(group_rows, engine, table.column))


# Databases.


class Database:
    """The same table in SQLite and in DuckDB, both through Ibis, and as a relation of DuckDB."""

    def __init__(self, n_rows: int) -> None:
        import ibis
        import pandas as pd

        rng = np.random.default_rng(0)
        labels = np.array(LABELS)
        rows: dict[str, Any] = {
            name: labels[rng.integers(4, size=n_rows)] for name in FIVE_COLUMNS
        }
        rows["few"] = rng.integers(101, size=n_rows).astype(float)
        rows["many"] = rng.uniform(0, 100, n_rows)
        frame = pd.DataFrame(rows)
        duckdb, sqlite = ibis.duckdb.connect(), ibis.sqlite.connect()
        kinds = ", ".join(
            f"{name} {'REAL' if name in ('few', 'many') else 'TEXT'}" for name in frame
        )
        sqlite.con.execute(f"CREATE TABLE people ({kinds})")
        places = ", ".join("?" * len(frame.columns))
        sqlite.con.executemany(
            f"INSERT INTO people VALUES ({places})", frame.itertuples(index=False)
        )
        self.sqlite = sqlite.table("people")
        self.duckdb = duckdb.create_table("people", frame)
        self.relation = duckdb.con.table("people")

    def query(self, text: str) -> list[Any]:
        """Return the result of a query of SQLite."""
        connection = self.sqlite.get_backend().con
        return connection.execute(text).fetchall()


def make_statistic(name: str, epsilon: float) -> tuple[Any, list[str]]:
    """Return an estimator of counts, of means by group or of variances, and its columns."""
    from skdp import DPGroupBy, DPHistogram, DPStandardScaler, Interval

    if name == "histogram":
        return DPHistogram(epsilon, domain={COLUMNS[0]: LABELS}), COLUMNS[:1]
    if name == "bins":
        domain = {"few": Interval(0.0, 100.0, bins=10)}
        return DPHistogram(epsilon, domain=domain), ["few"]
    column = name.split()[-1]
    if name.startswith("variance"):
        return DPStandardScaler(epsilon, bounds=(0, 100)), [column]
    keys = {COLUMNS[0]: LABELS}
    groups = DPGroupBy(epsilon, by=COLUMNS[0], keys=keys, bounds={column: (0, 100)})
    return groups, [COLUMNS[0], column]


def time_sqlite(
    name: str, query: str, table: Database, epsilon: float, seed: int
) -> dict[str, float]:
    """Time an estimator of a table of SQLite, compared with a query of SQLite."""
    statistic, columns = make_statistic(name, epsilon)

    def fit() -> object:
        return statistic.fit(table.sqlite.select(*columns))

    return compare_times(fit, partial(table.query, query))


def time_duckdb(
    name: str, table: Database, epsilon: float, seed: int
) -> dict[str, float]:
    """Time an estimator of a table of DuckDB through Ibis, compared with the relation."""
    statistic, columns = make_statistic(name, epsilon)

    def fit() -> object:
        return statistic.fit(table.duckdb.select(*columns))

    def read() -> object:
        return statistic.fit(table.relation.project(", ".join(columns)))

    return compare_times(fit, read)


def time_sqlite_synthesizer(
    table: Database, epsilon: float, seed: int
) -> dict[str, float]:
    """Time a synthesizer of five columns and 101 amounts in SQLite, compared with DuckDB."""
    from skdp import DPMarginalSynthesizer, Interval

    domain: dict[str, Any] = dict.fromkeys(FIVE_COLUMNS, LABELS)
    domain["few"] = Interval(0, 100)
    synthesizer = DPMarginalSynthesizer(epsilon, delta=1e-9, domain=domain)

    def fit() -> object:
        return synthesizer.fit(table.sqlite.select(*domain))

    def fit_duckdb() -> object:
        return synthesizer.fit(table.duckdb.select(*domain))

    return compare_times(fit, fit_duckdb)


SQLITE_QUERIES = {
    "histogram": "SELECT smokes, count(*) FROM people GROUP BY smokes",
    "bins": "SELECT CAST(few / 10 AS INTEGER), count(*) FROM people GROUP BY 1",
    "means of few": "SELECT smokes, count(*), avg(few) FROM people GROUP BY smokes",
    "means of many": "SELECT smokes, count(*), avg(many) FROM people GROUP BY smokes",
}
DUCKDB_STATISTICS = (*SQLITE_QUERIES, "variance of few", "variance of many")
DATABASE_METHODS: dict[str, Any] = {
    f"{name}, sqlite": partial(time_sqlite, name, query)
    for name, query in SQLITE_QUERIES.items()
}
for name in DUCKDB_STATISTICS:
    DATABASE_METHODS[f"{name}, duckdb"] = partial(time_duckdb, name)
DATABASE_METHODS["synthesizer, sqlite"] = time_sqlite_synthesizer

# Large files.

WAYS = {
    "privatize": ("command", "pyarrow", "duckdb", "polars"),
    "estimate": ("command", "pyarrow", "duckdb", "polars"),
    "tally": ("command", "pyarrow", "duckdb", "polars"),
    "histogram": ("pyarrow", "duckdb", "polars", "dask"),
    "discovery": ("pyarrow", "duckdb", "polars", "dask"),
    "synthesizer": ("command", "pyarrow", "duckdb", "polars"),
}


class LargeFile:
    """Temporary folder with a file of many rows, and a file of their reports."""

    def __init__(self, n_rows: int) -> None:
        import pyarrow
        import pyarrow.parquet

        from skdp import Domain

        self.folder = Path(tempfile.mkdtemp())
        weakref.finalize(self, shutil.rmtree, self.folder)
        rng, labels = np.random.default_rng(0), np.array(LABELS)
        names = dict.fromkeys(FIVE_COLUMNS, pyarrow.string())
        schema = pyarrow.schema(names)
        first = pyarrow.schema([schema[0]])
        write = pyarrow.parquet.ParquetWriter
        with (
            write(self.folder / "rows.parquet", schema) as rows,
            write(self.folder / "column.parquet", first) as column,
        ):
            for start in range(0, n_rows, 1 << 17):
                size = min(1 << 17, n_rows - start)
                values = {name: labels[rng.integers(4, size=size)] for name in names}
                rows.write_table(pyarrow.table(values))
                column.write_table(pyarrow.table(values).select(first.names))
        domain = Domain(dict.fromkeys(FIVE_COLUMNS, LABELS))
        (self.folder / "domain.toml").write_text(domain.to_toml())
        self.run("privatize", "pyarrow")
        (self.folder / "out.parquet").rename(self.folder / "reports.parquet")

    def run(self, work: str, way: str) -> tuple[float, float]:
        """Run a call in a new process; return its CPU time and its largest memory in megabytes."""
        for name in ("out.parquet", "out.json", "out.csv"):
            (self.folder / name).unlink(missing_ok=True)
        code = "import sys; from engines import run_alone; run_alone(*sys.argv[1:])"
        return measure_process(code, work, way, str(self.folder))


def compare_processes(
    work: str, way: str, table: LargeFile, epsilon: float, seed: int
) -> dict[str, float]:
    """Measure the time and the memory of a call and of plain queries, each in a new process."""
    seconds, memory = table.run(work, way)
    query_seconds, query_memory = table.run(f"query of {work}", way)
    return {
        "seconds_of_process": seconds,
        "relative_time": seconds / query_seconds,
        "peak_megabytes": memory,
        "peak_megabytes_of_query": query_memory,
    }


def run_alone(work: str, way: str, path: str) -> None:
    """Run a call, or the plain queries of a call, on the files of a `LargeFile`."""
    folder = Path(path)
    rows, reports = folder / "rows.parquet", folder / "reports.parquet"
    target = folder / "out.parquet"
    if work.startswith("query of "):
        work = work.removeprefix("query of ")
        engine = "duckdb" if way == "command" else way
        if work == "synthesizer":
            group_pairs(rows)
        elif work == "privatize":
            copy_rows("pyarrow" if way == "command" else way, rows, target)
        elif work == "discovery":
            for name in FIVE_COLUMNS:
                group_rows(engine, rows, name)
        else:
            source = folder / "column.parquet" if work == "histogram" else reports
            for name in COLUMNS[: 1 if work == "histogram" else 3]:
                group_rows(engine, source, name)
    elif way == "command":
        run_command(work, folder)
    elif work == "privatize":
        from skdp.engines import privatize

        privatize(open_rows(way, rows), make_encoder(COLUMNS, 2.0), path=target)
    elif work in ("estimate", "tally"):
        from skdp.engines import tally

        encoder = make_encoder(COLUMNS, 2.0)
        counts = tally(open_rows(way, reports), encoder)
        if work == "estimate":
            encoder.estimate_counts(counts)
    elif work == "discovery":
        from skdp import discover_domain

        discover_domain(open_rows(way, rows), 2.0, 1e-9)
    else:
        from skdp import DPHistogram, DPMarginalSynthesizer

        if work == "histogram":
            histogram = DPHistogram(2.0, domain={COLUMNS[0]: LABELS})
            histogram.fit(open_rows(way, folder / "column.parquet"))
            return
        domain = dict.fromkeys(FIVE_COLUMNS, LABELS)
        synthesizer = DPMarginalSynthesizer(2.0, delta=1e-9, domain=domain)
        synthesizer.fit(open_rows(way, rows))


def run_command(work: str, folder: Path) -> None:
    """Run a command on the files of a `LargeFile`."""
    from skdp.cli import main

    rows, reports, target = (
        str(folder / f"{name}.parquet") for name in ("rows", "reports", "out")
    )
    options = ["--domain", str(folder / "domain.toml"), "--epsilon", "2"]
    commands = {
        "privatize": ["privatize", rows, target, *options, "--columns", *COLUMNS],
        "estimate": ["estimate", reports, "--out", str(folder / "out.csv")],
        "tally": ["tally", reports, "--out", str(folder / "out.json")],
        "synthesizer": ["synthesize", rows, target, *options, "--delta", "1e-9"],
    }
    if main(commands[work]):
        raise SystemExit(1)


CALLS = {"tally": time_tally, "privatize": time_privatize, "histogram": time_histogram}
METHODS = {
    f"{name}, {engine}": partial(call, engine)
    for engine in ENGINES
    for name, call in CALLS.items()
}
TASKS = {
    "engines": Task(tables, METHODS, keep_scores, (2.0,), 8),
    "databases": Task(
        lambda quick: {
            f"{n_rows:,} rows": partial(Database, n_rows)
            for n_rows in ((10_000,) if quick else (2_000_000,))
        },
        DATABASE_METHODS,
        keep_scores,
        (2.0,),
        1,
    ),
    "large files": Task(
        lambda quick: {
            f"{n_rows:,} rows": partial(LargeFile, n_rows)
            for n_rows in ((10_000,) if quick else (2_000_000, 20_000_000))
        },
        {
            f"{work}, {way}": partial(compare_processes, work, way)
            for work, ways in WAYS.items()
            for way in ways
        },
        keep_scores,
        (2.0,),
        1,
    ),
}
