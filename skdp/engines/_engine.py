"""Engines: frames of one library whose rows are privatized, tallied and summed where they are."""

from __future__ import annotations

import importlib
import os
from abc import abstractmethod
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from copy import copy
from functools import cached_property
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from skdp.engines._io import (
    Extra,
    check_path,
    make_temporary_path,
    read_safely,
    run_safely,
    write_atomically,
)
from skdp.engines._release import Release, refuse_repeated
from skdp.local import ReportProtocol
from skdp.tables import LargeTable, Summary, attach_schema_protocol, get_protocol_text

pyarrow, parquet = Extra("pyarrow"), Extra("pyarrow.parquet")
duckdb = Extra("duckdb")

Tables = Generator[Any, None, None]
Sums = list[NDArray[np.int64]]

# Rows in memory at a time, where no random bits depend on their number.
ROWS = 1 << 17


# The engine of a frame

_LOCAL = "skdp.engines._local"

# The module and the class of the engine, by the library and the class of a frame.
_ENGINES = {
    ("dask", "DataFrame"): ("skdp.engines._dask", "DaskTable"),
    ("pyspark", "DataFrame"): ("skdp.engines._spark", "SparkTable"),
    ("polars", "LazyFrame"): (_LOCAL, "PolarsTable"),
    ("duckdb", "DuckDBPyRelation"): (_LOCAL, "DuckDBTable"),
    ("_duckdb", "DuckDBPyRelation"): (_LOCAL, "DuckDBTable"),
    ("pyarrow", "Dataset"): (_LOCAL, "ArrowTable"),
    ("pyarrow", "Table"): (_LOCAL, "ArrowTable"),
    ("polars", "DataFrame"): (_LOCAL, "MemoryTable"),
    ("pandas", "DataFrame"): (_LOCAL, "MemoryTable"),
}


def _find_engine(frame: Any) -> tuple[str, str] | None:
    for frame_type in type(frame).__mro__:
        library = frame_type.__module__.partition(".")[0]
        if (library, frame_type.__name__) in _ENGINES:
            return _ENGINES[library, frame_type.__name__]
    return None


def engine_of(frame: Any) -> Engine:
    """Return the engine of a frame, whose library is imported already."""
    location = _find_engine(frame)
    if location is None:
        is_path = isinstance(frame, str | os.PathLike)
        remedy = ". For files, use `privatize_file` and `estimate_file`"
        raise TypeError(
            "frame must be a DataFrame of Dask, Spark, Polars or pandas, a LazyFrame, a "
            "relation of DuckDB, or a Table or Dataset of pyarrow; got "
            f"{type(frame).__name__}{remedy if is_path else ''}"
        )
    module, class_name = location
    engine: Engine = getattr(importlib.import_module(module), class_name)(frame)
    return engine


def open_table(frame: Any) -> LargeTable | None:
    """Open a lazy table for `fit`, without loading it; an engine is imported only for its own tables."""
    is_memory = type(frame).__name__ == "Table"
    location = _find_engine(frame)
    if location is None or is_memory or location[1] == "MemoryTable":
        return None
    return engine_of(frame)


# Sums over batches


class ReportSums:
    """The sums of reports: a `skdp.tables.Summary` of the columns `names`."""

    def __init__(self, protocol: ReportProtocol) -> None:
        # Neither keys nor a ledger go to workers.
        self._protocol = protocol.without_secrets()
        self.names, self.values = protocol.report_columns, protocol.values

    def zeros(self) -> Sums:
        """Return the sums of no reports."""
        return self._protocol.empty_tally().sums()

    def add(self, sums: Sums, batch: Any) -> None:
        """Add a batch of reports."""
        if not len(batch):
            return
        frame = nw.from_native(batch, eager_only=True).select(*self.names)
        tally = self._protocol.tally(self._protocol.read(frame.to_native()))
        # Added in place, so memory does not grow with the number of batches.
        for total, part in zip(sums, tally.sums(), strict=True):
            total += part

    def total(self, sums: Sums) -> Any:
        """Return the tally with these sums."""
        # Every report adds to the sums, so all sums are 0 only if there are no reports.
        if not any(part.any() for part in sums):
            raise ValueError(
                "Found a table with 0 sample(s) (rows); at least 1 is required"
            )
        return self._protocol.empty_tally().with_sums(sums)


# Engines


class Engine(LargeTable):
    """A frame of one library."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    @cached_property
    def sample(self) -> Any:
        """A table in memory with the columns of the frame, and no rows."""
        return run_safely(self._make_empty_table)

    @abstractmethod
    def _make_empty_table(self) -> Any: ...

    def column_names(self) -> list[Any]:
        """Name the columns, without reading a row."""
        return list(self._frame.columns)

    def protocols(self) -> set[str | None]:
        """Return the protocols in the metadata of the table; None for a part without one."""
        return {get_protocol_text(self._frame)}

    def check_path(self, path: Any) -> Any:
        """Check the path of the reports, before the table; a temporary one by default."""
        return check_path(path) or make_temporary_path()

    def check_rows(self, release: Release) -> None:
        """Check all rows, before the charge."""
        raise NotImplementedError

    def write(self, release: Release, path: Any) -> Any:
        """Draw and store the reports of a charged release; return them as a frame."""
        raise NotImplementedError

    def limit_persons(self, person: Any, most: int, seed: int) -> Self:
        raise TypeError(
            f"The number of rows per person cannot be limited in a {type(self).__name__}. Use a "
            "table of DuckDB, Polars or pyarrow, or a file"
        )


class StreamTable(Engine):
    """A frame that is read as a stream of Arrow batches, in this process."""

    # The column of persons, their largest number of rows, and a seed; None for all rows.
    limit: tuple[Any, int, int] | None = None

    @abstractmethod
    def _read(self, columns: Sequence[Any]) -> Tables:
        """Read some columns from the start, as Arrow tables."""

    def _open_reports(self, path: Path) -> Any:
        """Open a Parquet file as a frame."""
        raise NotImplementedError

    def read(self, columns: Sequence[Any]) -> Tables:
        """Read some columns of the rows, or of the limited rows of each person."""
        if self.limit is None:
            return self._read(columns)
        names = self.column_names()
        return limit_rows(self._read(names), columns, *self.limit)

    def check_rows(self, release: Release) -> None:
        tables = self.read(release.columns)
        run_safely(lambda: refuse_repeated(check_batches(release, tables)))

    def write(self, release: Release, path: Any) -> Any:
        schema = release.no_reports.schema
        schema = attach_schema_protocol(schema, release.protocol_text)
        reports = draw_batches(release, self.read(release.columns))
        with write_atomically(path) as partial:
            run_safely(lambda: write_parquet(reports, schema, partial))
        return self._open_reports(path)

    def add_up(self, names: Sequence[Any], summary: Summary) -> Sums:
        return add_up_batches(self.read(names), summary)

    def limit_persons(self, person: Any, most: int, seed: int) -> Self:
        limited = copy(self)
        limited.limit = person, most, seed
        return limited


# Streams of Arrow tables. They are closed after an error too, because an open reader of
# DuckDB blocks its connection.


def read_batches(batches: Iterable[Any]) -> Tables:
    """Read a stream of Arrow batches as tables."""
    for batch in read_safely(batches):
        yield pyarrow.Table.from_batches([batch])


def add_up_batches(tables: Tables, summary: Summary) -> Sums:
    """Sum over a stream of tables."""
    sums = summary.zeros()
    with closing(tables):
        for table in tables:
            summary.add(sums, table)
    return sums


def check_batches(release: Release, tables: Tables) -> Iterator[NDArray[np.uint64]]:
    """Check a stream of rows; yield the digests of the record ids of each table."""
    with closing(tables):
        for table in tables:
            yield release.check(table)


def draw_batches(
    release: Release, tables: Tables, partition: int | None = None
) -> Iterator[Any]:
    """Privatize a stream of rows, in order."""
    first = 0
    with closing(split_evenly(tables, release.batch_rows)) as batches:
        for batch in batches:
            yield release.draw(batch, (partition, first))
            first += len(batch)


def split_evenly(tables: Tables, n_rows: int) -> Tables:
    """Cut a stream of tables into batches of `n_rows`; no data is copied."""
    parts: list[Any] = []
    n_waiting = 0
    with closing(tables):
        for table in tables:
            while n_waiting + len(table) >= n_rows:
                n_missing = n_rows - n_waiting
                yield pyarrow.concat_tables([*parts, table.slice(0, n_missing)])
                table = table.slice(n_missing)
                parts, n_waiting = [], 0
            if len(table):
                parts.append(table)
                n_waiting += len(table)
    if parts:
        yield pyarrow.concat_tables(parts)


def limit_rows(
    tables: Tables, columns: Sequence[Any], person: Any, most: int, seed: int
) -> Tables:
    """Keep at most some rows of each person in a stream of tables, using DuckDB."""
    with closing(tables):
        first = next(tables, None)
        if first is None:
            return
        # DuckDB does not distinguish names that differ in case only.
        names = [f"c{index}" for index in range(first.num_columns)]
        schema = first.rename_columns(names).schema
        batches = (
            batch
            for table in chain([first], tables)
            for batch in table.rename_columns(names).cast(schema).to_batches()
        )
        number = names[first.column_names.index(person)]
        query = (
            f"SELECT * FROM people QUALIFY row_number() OVER (PARTITION BY {number} "
            f"ORDER BY hash({', '.join(names)}, {seed})) <= {most}"
        )
        # By default, DuckDB would write rows that exceed the memory below the current
        # directory, readable by all.
        with (
            TemporaryDirectory(prefix="skdp-") as folder,
            duckdb.connect(config={"temp_directory": folder}) as connection,
        ):
            reader = pyarrow.RecordBatchReader.from_batches(schema, batches)
            people = connection.from_arrow(reader).query("people", query)
            kept = run_safely(lambda: people.to_arrow_reader(ROWS))
            for table in read_batches(kept):
                yield table.rename_columns(first.column_names).select(columns)


def write_parquet(tables: Iterable[Any], schema: Any, path: Path) -> None:
    """Write a stream of tables to a Parquet file."""
    with parquet.ParquetWriter(path, schema) as writer:
        for table in tables:
            writer.write_table(table)
