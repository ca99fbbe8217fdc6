"""Engines: tables of a library that are checked, privatized and summed in batches or tasks."""

from __future__ import annotations

import importlib
import os
from abc import abstractmethod
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing
from copy import copy
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp._arrays import Integers
from skdp.engines._csv import write_keys
from skdp.engines._io import (
    Extra,
    check_path,
    make_temporary_path,
    open_output,
    read_safely,
    run_safely,
)
from skdp.engines._release import BatchRelease, check_distinct_ids
from skdp.local import ReportProtocol
from skdp.tables import (
    LargeTable,
    Summary,
    attach_schema_protocol,
    choose_library,
    convert_frame,
    get_protocol_text,
    type_of_column,
)

pyarrow, parquet = Extra("pyarrow"), Extra("pyarrow.parquet")
duckdb = Extra("duckdb")

Tables = Generator[Any, None, None]
Sums = list[Integers]

# Rows of a batch that is read. Random bits do not depend on it.
ROWS = 1 << 17


# The engine of a frame

_LOCAL = "skdp.engines._local"

# Module and class of the engine, by the library and the class of a frame.
_ENGINES = {
    ("dask", "DataFrame"): ("skdp.engines._dask", "DaskTable"),
    ("pyspark", "DataFrame"): ("skdp.engines._spark", "SparkTable"),
    ("polars", "LazyFrame"): (_LOCAL, "PolarsTable"),
    ("duckdb", "DuckDBPyRelation"): (_LOCAL, "DuckDBTable"),
    ("_duckdb", "DuckDBPyRelation"): (_LOCAL, "DuckDBTable"),
    ("ibis", "Table"): ("skdp.engines._sql", "IbisTable"),
    ("pyarrow", "Dataset"): (_LOCAL, "ArrowTable"),
    ("pyarrow", "Table"): (_LOCAL, "ArrowTable"),
    ("polars", "DataFrame"): (_LOCAL, "MemoryTable"),
    ("pandas", "DataFrame"): (_LOCAL, "MemoryTable"),
}


def _find_engine(frame: Any) -> tuple[str, str] | None:
    """Return the module and the class of the engine of a frame, or None."""
    for frame_type in type(frame).__mro__:
        library = frame_type.__module__.partition(".")[0]
        if (library, frame_type.__name__) in _ENGINES:
            return _ENGINES[library, frame_type.__name__]
    return None


def open_engine(frame: Any) -> Engine:
    """Wrap a frame in the engine of its library; raise an error for other objects."""
    location = _find_engine(frame)
    if location is None:
        raise TypeError(
            "`frame` must be a DataFrame of Dask, Spark, Polars or pandas, a "
            "LazyFrame, a relation of DuckDB, a table of Ibis, or a Table or Dataset "
            f"of pyarrow, got {type(frame).__name__}.{_advise(frame)}"
        )
    module, class_name = location
    return getattr(importlib.import_module(module), class_name)(frame)


def _advise(frame: Any) -> str:
    """Return the remedy for an object that is no frame of an engine, as a sentence after a space."""
    if isinstance(frame, str | os.PathLike):
        return " For files, use `privatize_file` and `estimate_file`."
    if isinstance(frame, np.ndarray):
        return " For an array, use `fit_transform` of the transformer."
    if type(frame).__module__.startswith("narwhals"):
        return " Use frame.to_native()."
    if hasattr(frame, "__arrow_c_stream__") or hasattr(frame, "__arrow_c_array__"):
        return " Use pyarrow.table(frame)."
    return ""


def open_table(frame: Any) -> LargeTable | None:
    """Wrap a table that is not in memory in its engine, for `fit`; None for other objects."""
    location = _find_engine(frame)
    # A pyarrow Table is in memory, although its engine reads it as a stream.
    is_arrow = choose_library(frame) == "pyarrow"
    if location is None or is_arrow or location[1] == "MemoryTable":
        return None
    return open_engine(frame)


# Sums over batches


class ReportSums:
    """Sums of reports over batches of rows, as a `skdp.tables.Summary`."""

    def __init__(self, protocol: ReportProtocol) -> None:
        # The summary is sent to workers, which must not receive keys or a ledger.
        self._protocol = protocol.without_secrets()
        self.names, self.values = protocol.report_columns, protocol.values

    def zeros(self) -> Sums:
        """Return the sums of an empty table."""
        return self._protocol.empty_tally().sums()

    def add(self, sums: Sums, batch: Any) -> None:
        """Add the sums of a batch of reports to `sums`, the arrays of a tally, in place."""
        if not len(batch):
            return
        frame = nw.from_native(batch, eager_only=True).select(*self.names)
        tally = self._protocol.tally(self._protocol.read(frame.to_native()))
        for total, part in zip(sums, tally.sums(), strict=True):
            total += part

    def total(self, sums: Sums) -> Any:
        """Return the tally with these sums."""
        # Each report increases a sum, so all sums are 0 only if there are no reports.
        if not any(part.any() for part in sums):
            raise ValueError(
                "Found a table with 0 sample(s) (rows); at least 1 is required."
            )
        return self._protocol.empty_tally().with_sums(sums)


# Engines


class Engine(LargeTable):
    """Base class of engines, each of which wraps a frame of one library."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    @cached_property
    def sample(self) -> Any:
        """Table in memory with the columns of the frame, and no rows."""
        return run_safely(self._make_empty_table)

    @cached_property
    def template(self) -> Any:
        """Table without rows in the library of results for the frame."""
        return convert_frame(self.sample, choose_library(self._frame))

    @abstractmethod
    def _make_empty_table(self) -> Any:
        """Return a table in memory with the columns of the frame, and no rows."""

    def column_names(self) -> list[Any]:
        """Return the names of the columns, without reading rows."""
        return list(self._frame.columns)

    def protocols(self) -> set[str | None]:
        """Return the protocols (JSON) in the metadata of the table; None if a part has none."""
        return {get_protocol_text(self._frame)}

    def check_path(self, path: Any) -> Any:
        """Check the path of the reports; None is replaced by a temporary path."""
        if path is not None and Path(path).suffix not in ("", ".parquet"):
            raise ValueError(
                "`path` must end in .parquet, the format of the reports, got "
                f"{str(path)!r}. Use `privatize_file` for files in other formats."
            )
        return check_path(path) or make_temporary_path()

    @abstractmethod
    def _collect(self) -> Any:
        """Read all rows as a table of pandas, polars or pyarrow."""

    def collect(self) -> Any:
        """Read all columns of all rows into memory, as a table of pandas, polars or pyarrow."""
        return run_safely(self._collect)

    def load(self) -> Any:
        """Read all columns of all rows into memory, in the library of results."""
        return convert_frame(self.collect(), choose_library(self.template))

    def check_rows(self, release: BatchRelease) -> None:
        """Raise an error if a row has a value outside the domain, or an id of a person is repeated."""
        raise NotImplementedError

    def open_output(self, path: Any) -> AbstractContextManager[Any]:
        """Open the output beside its place, before the charge; it is renamed to `path` at the end."""
        return open_output(path)

    def write(self, release: BatchRelease, path: Any) -> None:
        """Draw the reports of a charged release, and write them to an open output."""
        raise NotImplementedError

    def open_reports(self, release: BatchRelease, path: Any) -> Any:
        """Open the reports of a release as a frame of the engine's library."""
        raise NotImplementedError

    def limit_persons(self, person: Any, most: int, seed: int) -> Self:
        """Raise an error, because this engine cannot limit the number of rows of a person."""
        raise TypeError(
            "A limit of rows per person requires a table of DuckDB, Polars or pyarrow, "
            f"or a file, got {type(self).__name__}."
        )


class StreamTable(Engine):
    """Engine of a frame that this process reads as a stream of Arrow tables."""

    # Column that identifies people, largest number of rows of a person, and a seed; None
    # if the number of rows is not limited.
    limit: tuple[Any, int, int] | None = None

    @abstractmethod
    def _read(self, columns: Sequence[Any]) -> Tables:
        """Read columns of all rows, from the start, as a stream of Arrow tables."""

    def read(self, columns: Sequence[Any]) -> Tables:
        """Read columns of the rows, limited to some rows of each person if `limit` is set."""
        if self.limit is None:
            return self._read(columns)
        names = self.column_names()
        return limit_rows(self._read(names), columns, *self.limit)

    def _collect(self) -> Any:
        """Read all rows as an Arrow table."""
        tables = self.read(self.column_names())
        return pyarrow.concat_tables([self.sample, *tables])

    def collect(self) -> Any:
        """Read all columns of all rows into memory, with numbers as NumPy arrays of a table of pandas."""
        tables = self.read(self.column_names())
        return run_safely(lambda: collect_batches(chain([self.sample], tables)))

    def check_rows(self, release: BatchRelease) -> None:
        """Check the values and the ids of persons of all rows."""
        tables = self.read(release.columns)
        run_safely(lambda: check_distinct_ids(check_batches(release, tables)))

    def write(self, release: BatchRelease, path: Any) -> None:
        """Draw the reports in batches and write them to a Parquet file."""
        schema = release.no_reports.schema
        schema = attach_schema_protocol(schema, release.protocol_text)
        reports = draw_batches(release, self.read(release.columns))
        run_safely(lambda: write_parquet(reports, schema, path))

    def add_up(self, names: Sequence[Any], summary: Summary) -> Sums:
        """Sum over all rows in one pass."""
        return add_up_batches(self.read(names), summary)

    def limit_persons(self, person: Any, most: int, seed: int) -> Self:
        """Return a copy that reads at most some rows of each person."""
        limited = copy(self)
        limited.limit = person, most, seed
        return limited


# Streams of Arrow tables. They are also closed after an error, because an open reader of
# DuckDB blocks its connection.


def read_batches(batches: Iterable[Any]) -> Tables:
    """Convert a stream of Arrow batches to tables."""
    for batch in read_safely(batches):
        yield pyarrow.Table.from_batches([batch])


def collect_batches(tables: Iterable[Any]) -> pd.DataFrame:
    """Convert a stream of Arrow tables to a table of pandas; only one column of numbers is in memory twice."""
    parts: dict[str, list[Any]] = {}
    for table in tables:
        for name in table.column_names:
            column = table[name]
            is_number = str(column.type).startswith(("int", "uint", "float", "double"))
            is_complete = is_number and not column.null_count
            part = column.to_numpy() if is_complete else column.to_pandas()
            parts.setdefault(name, []).append(part)
    columns = {}
    for name in list(parts):
        arrays = parts.pop(name)
        is_numpy = all(isinstance(array, np.ndarray) for array in arrays)
        columns[name] = (np.concatenate if is_numpy else _concat)(arrays)
    # Arrow would keep its memory.
    pyarrow.default_memory_pool().release_unused()
    return pd.DataFrame(columns, copy=False)


def _concat(arrays: Sequence[Any]) -> pd.Series:
    """Concatenate parts of a column, some of which may have missing values."""
    return pd.concat([pd.Series(array) for array in arrays], ignore_index=True)


def add_up_batches(tables: Tables, summary: Summary) -> Sums:
    """Compute the sums of a summary over a stream of tables."""
    sums = summary.zeros()
    with closing(tables):
        for table in tables:
            summary.add(sums, table)
    return sums


def check_batches(
    release: BatchRelease, tables: Tables
) -> Iterator[NDArray[np.uint64]]:
    """Check the rows of a stream of tables; yield the digests of the ids of persons of each table."""
    with closing(tables):
        for table in tables:
            yield release.check(table)


def draw_batches(
    release: BatchRelease, tables: Tables, partition: int | None = None
) -> Iterator[Any]:
    """Privatize the rows of a stream of tables, in order and in batches of `release.batch_rows`.

    `partition` is the number of the partition of a cluster, on which the random bits depend.
    """
    # The random bits of a batch depend on the number of its first row.
    first = 0
    with closing(split_evenly(tables, release.batch_rows)) as batches:
        for batch in batches:
            yield release.draw(batch, (partition, first))
            first += len(batch)


def split_evenly(tables: Tables, n_rows: int) -> Tables:
    """Split a stream of tables into tables of `n_rows` rows each, without copying data."""
    parts: list[Any] = []  # of the next table
    n_collected = 0
    with closing(tables):
        for table in tables:
            while n_collected + len(table) >= n_rows:
                n_missing = n_rows - n_collected
                yield pyarrow.concat_tables([*parts, table.slice(0, n_missing)])
                table = table.slice(n_missing)
                parts, n_collected = [], 0
            if len(table):
                parts.append(table)
                n_collected += len(table)
    if parts:
        yield pyarrow.concat_tables(parts)


def limit_rows(
    tables: Tables, columns: Sequence[Any], person: Any, most: int, seed: int
) -> Tables:
    """Select at most `most` pseudorandom rows of each person from a stream, using DuckDB.

    `person` is the column that identifies people. The result has `columns` only.
    """
    with closing(tables):
        first = next(tables, None)
        if first is None:
            return
        # Columns are renamed because DuckDB ignores the case of names.
        names = [f"c{index}" for index in range(first.num_columns)]
        schema = first.rename_columns(names).schema
        # Of ids that are text, 7 and 7.0 are one.
        is_text = type_of_column(first[person]) == "string"
        query = (
            "SELECT * EXCLUDE (person) FROM people QUALIFY row_number() OVER (PARTITION "
            f"BY person ORDER BY hash({', '.join(names)}, {seed})) <= {most}"
        )
        # DuckDB writes rows that exceed the memory to this folder. By default, it would
        # be in the current directory and readable by all users.
        with (
            TemporaryDirectory(prefix="skdp-") as folder,
            duckdb.connect(config={"temp_directory": folder}) as connection,
        ):
            # The rows are stored, because threads of DuckDB cannot read from all engines.
            statement = "CREATE TABLE people AS"
            for table in chain([first], tables):
                ids = write_keys(person, table[person]) if is_text else table[person]
                rows = table.rename_columns(names).cast(schema)
                people = connection.from_arrow(rows.append_column("person", ids))
                run_safely(partial(people.query, "rows", f"{statement} FROM rows"))
                statement = "INSERT INTO people"
            people = connection.sql(query)
            selected = run_safely(lambda: people.to_arrow_reader(ROWS))
            for table in read_batches(selected):
                yield table.rename_columns(first.column_names).select(columns)


def write_parquet(tables: Iterable[Any], schema: Any, path: Path) -> None:
    """Write a stream of Arrow tables to a Parquet file."""
    with parquet.ParquetWriter(path, schema) as writer:
        for table in tables:
            writer.write_table(table)
