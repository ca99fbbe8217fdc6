"""Engines: frames of one library whose rows are privatized, tallied and summed where they are."""

from __future__ import annotations

import importlib
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import joblib
import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from skdp.engines._io import (
    Extra,
    UnreadableTable,
    check_parquet_name,
    check_path,
    read_safely,
    run_safely,
    write_atomically,
)
from skdp.engines._release import Position, Release, refuse_repeated
from skdp.local import ReportProtocol
from skdp.tables import LargeTable, Summary, carried_text, with_protocol

pyarrow, parquet = Extra("pyarrow"), Extra("pyarrow.parquet")

Tables = Generator[Any, None, None]
Sums = list[NDArray[np.int64]]

# Rows in memory at a time, where no random bits depend on their number.
ROWS = 1 << 17

# Largest number of combinations that are counted together.
MAX_GROUPS = 1 << 16


# The engine of a frame

_LOCAL, _DUCKDB = "skdp.engines._local", ("skdp.engines._local", "DuckDBTable")
_ARROW, _MEMORY = (_LOCAL, "ArrowTable"), (_LOCAL, "MemoryTable")

# The module and the class of the engine, by the library and the class of a frame.
_ENGINES = {
    ("dask", "DataFrame"): ("skdp.engines._dask", "DaskTable"),
    ("pyspark", "DataFrame"): ("skdp.engines._spark", "SparkTable"),
    ("polars", "LazyFrame"): (_LOCAL, "PolarsTable"),
    ("duckdb", "DuckDBPyRelation"): _DUCKDB,
    ("_duckdb", "DuckDBPyRelation"): _DUCKDB,
    ("pyarrow", "Dataset"): _ARROW,
    ("pyarrow", "RecordBatchReader"): _ARROW,
    ("pyarrow", "Table"): _MEMORY,
    ("polars", "DataFrame"): _MEMORY,
    ("pandas", "DataFrame"): _MEMORY,
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
        # Without `_duckdb`, as some versions of a library call themselves.
        names = [" ".join(key) for key in _ENGINES if not key[0].startswith("_")]
        raise TypeError(
            f"frame must be one of: {', '.join(names)}; got {type(frame).__name__}"
        )
    module, class_name = location
    engine: Engine = getattr(importlib.import_module(module), class_name)(frame)
    return engine


def has_engine(frame: Any) -> bool:
    """Return True for a frame of an engine."""
    return _find_engine(frame) is not None


def open_table(frame: Any) -> LargeTable | None:
    """Open a lazy table, which `fit` reads where it is; no engine is imported for another table."""
    if _find_engine(frame) in (None, _MEMORY):
        return None
    engine = engine_of(frame)
    if engine.reads_once:
        raise TypeError(
            "a RecordBatchReader can be read only once, and `fit` may read a table "
            "several times: give a pyarrow Dataset of the files, or reader.read_all() "
            "if it fits into memory"
        )
    return engine


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

    def add(
        self, sums: Sums, batch: Any, counts: NDArray[np.int64] | None = None
    ) -> None:
        """Add a batch of reports, or distinct reports and their counts."""
        if counts is not None:
            tally = self._protocol.tally_counts(batch, counts)
        elif len(batch):
            frame = nw.from_native(batch, eager_only=True).select(*self.names)
            tally = self._protocol.tally(self._protocol.read(frame.to_native()))
        else:
            return
        # In place: one array for each part, whatever the number of batches.
        for total, part in zip(sums, tally.sums(), strict=True):
            total += part

    def n_distinct(self, sample: Any) -> float:
        """Return infinity: engines count equal reports by `counted_groups`."""
        return np.inf

    def counted_groups(self, *, numbers: bool) -> list[list[Any]]:
        """Return by which columns an engine may count equal reports: values of a domain, or numbers too."""
        groups = self._protocol.counted_columns
        if self.values is None:
            return groups if numbers else []
        # One pass over the columns together, if they have few combinations.
        if groups and self.values.size <= MAX_GROUPS:
            return [[name for columns in groups for name in columns]]
        return groups

    def total(self, sums: Sums) -> Any:
        """Return the tally with these sums."""
        # Each report adds to its tally: without any, all sums are 0.
        if not any(part.any() for part in sums):
            raise ValueError(
                "Found a table with 0 sample(s) (rows); at least 1 is required"
            )
        return self._protocol.empty_tally().with_sums(sums)


def add_up_batches(batches: Iterable[Any], summary: Summary) -> Sums:
    """Sum over a stream of batches."""
    sums = summary.zeros()
    for batch in batches:
        summary.add(sums, batch)
    return sums


# Engines


class Engine(LargeTable):
    """A frame of one library."""

    # Whether the engine counts equal reports itself: values of a domain, and numbers.
    counts_values = counts_numbers = False
    reads_once = False

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
        return {carried_text(self._frame)}

    def check_path(self, path: Any) -> Any:
        """Check the path of the reports, before the table; None for memory."""
        check_parquet_name(path)
        return check_path(path)

    @abstractmethod
    def check_rows(self, release: Release) -> None:
        """Check all rows, before the charge."""

    @abstractmethod
    def write(self, release: Release, path: Any) -> Any:
        """Draw and store the reports of a charged release; return them as a frame."""

    def count_rows(
        self, columns: Sequence[Any]
    ) -> Generator[tuple[Any, NDArray[np.int64]], None, None]:
        """Count the distinct rows of some columns, in the engine."""
        raise NotImplementedError

    def tally(self, reports: ReportSums) -> Sums:
        """Sum up reports."""
        groups = []
        if self.counts_values:
            groups = reports.counted_groups(numbers=self.counts_numbers)
        if not groups:
            return self.add_up(reports.names, reports)
        sums = reports.zeros()
        for columns in groups:
            self._add_counts(sums, columns, reports)
        return sums

    def _add_counts(self, sums: Sums, columns: Sequence[Any], summary: Summary) -> None:
        with closing(self.count_rows(columns)) as counted:
            for rows, counts in counted:
                summary.add(sums, rows, counts)


class StreamTable(Engine):
    """A frame that is read as a stream of Arrow batches, in this process."""

    # The column of persons, their largest number of rows, and a seed; None for all rows.
    limit: tuple[Any, int, int] | None = None
    _n_checked: int | None = None

    @abstractmethod
    def read(self, columns: Sequence[Any]) -> Tables:
        """Read some columns from the start, as Arrow tables."""

    def store(self, reports: Any) -> Any:
        """Make a frame of an Arrow table, or of the path of a Parquet file."""
        raise NotImplementedError

    def check_rows(self, release: Release) -> None:
        checked = check_batches(release, self.read(release.columns))
        digests = []
        self._n_checked = 0
        for n_rows, record_digests in run_safely(lambda: list(checked)):
            self._n_checked += n_rows
            digests.append(record_digests)
        run_safely(lambda: refuse_repeated(digests))

    def draw(self, release: Release) -> Iterator[Any]:
        """Draw the reports, in order."""
        n_rows = 0
        for reports in draw_batches(release, self.read(release.columns)):
            n_rows += len(reports)
            yield reports
        if self._n_checked not in (None, n_rows):
            raise UnreadableTable(
                "The number of rows of the table changed after it was checked. The charge "
                "stands, and no reports are stored. Store the table, and pass the file"
            )

    def write(self, release: Release, path: Any) -> Any:
        schema = with_protocol(release.no_reports, release.protocol_text).schema
        reports = self.draw(release)
        if path is None:
            tables = [schema.empty_table(), *run_safely(lambda: list(reports))]
            return self.store(pyarrow.concat_tables(tables))
        with write_atomically(path) as partial:
            run_safely(lambda: write_parquet(reports, schema, partial))
        return self.store(path)

    def add_up(self, names: Sequence[Any], summary: Summary) -> Sums:
        with closing(self.read(names)) as tables:
            return add_up_batches(tables, summary)

    def limit_persons(self, person: Any, most: int, seed: int) -> Self:
        limited = copy(self)
        limited.limit = person, most, seed
        return limited


# Streams of Arrow tables


def read_batches(batches: Iterable[Any]) -> Tables:
    """Read a stream of Arrow batches as tables."""
    for batch in read_safely(batches):
        yield pyarrow.Table.from_batches([batch])


def check_batches(
    release: Release, tables: Tables
) -> Iterator[tuple[int, NDArray[np.uint64]]]:
    """Check a stream of rows; yield the number of rows of each batch, and the digests of its record ids."""
    return map_in_order(
        lambda batch: (len(batch), release.check(batch)),
        split_evenly(tables, release.batch_rows),
    )


def draw_batches(
    release: Release, tables: Tables, partition: int | None = None
) -> Iterator[Any]:
    """Privatize a stream of rows, in order."""

    def add_positions() -> Generator[tuple[Any, Position], None, None]:
        first = 0
        with closing(split_evenly(tables, release.batch_rows)) as batches:
            for batch in batches:
                yield batch, (partition, first)
                first += len(batch)

    return map_in_order(lambda item: release.draw(*item), add_positions())


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


def map_in_order(
    function: Callable[[Any], Any], items: Generator[Any, None, None]
) -> Iterator[Any]:
    """Apply a function to a stream in threads; the results keep the order."""
    # NumPy and OpenSSL release the lock of the interpreter while they draw.
    n_threads = min(4, joblib.cpu_count())
    results: deque[Future[Any]] = deque()
    pool = ThreadPoolExecutor(n_threads)
    try:
        for item in items:
            results.append(pool.submit(function, item))
            if len(results) > n_threads:
                yield results.popleft().result()
        while results:
            yield results.popleft().result()
    finally:
        # Without waiting: a thread of the pool may be the one that drops the stream.
        pool.shutdown(wait=False, cancel_futures=True)
        items.close()


def write_parquet(tables: Iterable[Any], schema: Any, path: Path) -> None:
    """Write a stream of tables to a Parquet file."""
    with parquet.ParquetWriter(path, schema) as writer:
        for table in tables:
            writer.write_table(table)
