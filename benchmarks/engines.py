"""CPU time of tallies, privatization, histograms and synthesizers of files, compared with queries of the engine.

`seconds_of_engine` is the shortest CPU time of all threads in three runs, which alternate with runs of the engine.
`relative_time` is this time divided by the time of the engine: a GROUP BY of the same column for tallies and
histograms, and reading and writing the file unchanged for privatization. CSV files of three columns are compared with
pandas, and synthesizers of five columns with the GROUP BY queries of their ten pairs in DuckDB. The name of a table is
its number of rows.
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
from _tasks import Task, keep_scores, time_in_turns

LABELS = ["never", "sometimes", "often", "always"]
COLUMNS = ["smokes", "drinks", "gambles"]
FIVE_COLUMNS = [*COLUMNS, "votes", "reads"]
ENGINES = ("pyarrow", "duckdb", "polars", "dask")


class Folder:
    """Temporary folder with files of one, three and five columns; it is deleted with this object."""

    def __init__(self, n_rows: int) -> None:
        import pyarrow
        import pyarrow.parquet

        folder = Path(tempfile.mkdtemp())
        weakref.finalize(self, shutil.rmtree, folder)
        self.path = folder / "rows.parquet"
        self.column = folder / "column.parquet"
        self.five_columns = folder / "five_columns.parquet"
        self.csv = folder / "rows.csv"
        self.target = folder / "out"
        rng = np.random.default_rng(0)
        labels = np.array(LABELS)
        rows = {name: labels[rng.integers(4, size=n_rows)] for name in FIVE_COLUMNS}
        table = pyarrow.table(rows)
        for path, n_columns in (
            (self.path, 3),
            (self.column, 1),
            (self.five_columns, 5),
        ):
            part = table.select(FIVE_COLUMNS[:n_columns])
            pyarrow.parquet.write_table(part, path, row_group_size=1 << 17)
        table.select(COLUMNS).to_pandas().to_csv(self.csv, index=False)

    def remove_target(self) -> None:
        """Remove the written file or directory."""
        if self.target.is_dir():
            shutil.rmtree(self.target)
        else:
            self.target.unlink(missing_ok=True)


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


def group_rows(engine: str, path: Path) -> None:
    """Count the values of a column with the engine alone."""
    name = COLUMNS[0]
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


def copy_rows(engine: str, folder: Folder) -> None:
    """Read and write a file unchanged."""
    rows = open_rows(engine, folder.path)
    if engine == "polars":
        rows.sink_parquet(folder.target)
    elif engine == "dask":
        rows.to_parquet(folder.target, write_index=False)
    else:
        import pyarrow.parquet

        if engine == "pyarrow":
            reader = rows.scanner(batch_size=1 << 17).to_reader()
        else:
            reader = rows.to_arrow_reader(1 << 17)
        with pyarrow.parquet.ParquetWriter(folder.target, reader.schema) as writer:
            for batch in reader:
                writer.write_batch(batch)
    folder.remove_target()


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
        table.remove_target()

    return compare_times(write, partial(copy_rows, engine, table))


def time_histogram(
    engine: str, table: Folder, epsilon: float, seed: int
) -> dict[str, float]:
    """Time a histogram of a column in the central model."""
    from skdp import DPHistogram

    histogram = DPHistogram(epsilon, domain={COLUMNS[0]: LABELS})

    def count() -> object:
        return histogram.fit(open_rows(engine, table.column))

    return compare_times(count, partial(group_rows, engine, table.column))


def time_csv(table: Folder, epsilon: float, seed: int) -> dict[str, float]:
    """Time the privatization of three columns, from CSV file to CSV file."""
    import pandas as pd

    from skdp.engines import privatize_file

    encoder = make_encoder(COLUMNS, epsilon)
    target = table.csv.with_name("out.csv")

    def write() -> None:
        privatize_file(table.csv, target, encoder)
        target.unlink()

    def copy() -> None:
        pd.read_csv(table.csv).to_csv(target, index=False)
        target.unlink()

    return compare_times(write, copy)


def time_synthesizer(
    engine: str, table: Folder, epsilon: float, seed: int
) -> dict[str, float]:
    """Time the fit of a synthesizer of five columns."""
    import duckdb

    from skdp import DPMarginalSynthesizer

    domain = dict.fromkeys(FIVE_COLUMNS, LABELS)
    synthesizer = DPMarginalSynthesizer(epsilon, delta=1e-9, domain=domain)

    def fit() -> object:
        return synthesizer.fit(open_rows(engine, table.five_columns))

    def group_pairs() -> None:
        rows = duckdb.read_parquet(str(table.five_columns))
        for pair in combinations(FIVE_COLUMNS, 2):
            names = ", ".join(pair)
            rows.aggregate(f"{names}, count(*)", names).fetchall()

    return compare_times(fit, group_pairs)


CALLS = {"tally": time_tally, "privatize": time_privatize, "histogram": time_histogram}
METHODS = {
    f"{name}, {engine}": partial(call, engine)
    for engine in ENGINES
    for name, call in CALLS.items()
}
METHODS["privatize CSV, pandas"] = time_csv
for engine in ("pyarrow", "duckdb", "polars"):
    METHODS[f"synthesizer, {engine}"] = partial(time_synthesizer, engine)
TASKS = {"engines": Task(tables, METHODS, keep_scores, (2.0,), 8)}
