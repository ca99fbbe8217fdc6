"""Streams of batches: read, cut evenly, checked, privatised in order, and written as they come."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray

from skdp.engines._errors import (
    RefusedBatch,
    ShortenedTable,
    UnreadableTable,
    read_quietly,
)
from skdp.engines._libraries import Extra
from skdp.engines._release import (
    BLOCK_ROWS,
    BatchCheck,
    DrawnBatch,
    Place,
    Release,
    refuse_repeated,
)

pyarrow, parquet = Extra("pyarrow"), Extra("pyarrow.parquet")

# Rows in memory at a time, where nothing depends on how many.
ROWS = 1 << 17

# Of reports in a batch: some megabytes, whatever the protocol.
_CELLS = 1 << 20

Read = Callable[[list[str], int], Generator[Any, None, None]]
"""Reads columns of a table from its start, in batches of about so many rows."""


def batch_rows(n_columns: int) -> int:
    """Return the rows of a batch: a function of the reports only, as random bits depend on where batches start."""
    return max(1, _CELLS // max(n_columns, 4) // BLOCK_ROWS) * BLOCK_ROWS


def concat_arrow(tables: list[Any]) -> Any:
    """Join Arrow tables; no data is copied."""
    return pyarrow.concat_tables(tables)


def arrow_tables(batches: Iterable[Any]) -> Generator[Any, None, None]:
    """Read a stream of Arrow batches as tables."""
    for batch in read_quietly(batches):
        yield pyarrow.Table.from_batches([batch])


def even_batches(
    tables: Iterable[Any], n_rows: int, concat: Callable[[list[Any]], Any]
) -> Iterator[Any]:
    """Cut a stream of tables evenly; no data is copied."""
    parts: list[Any] = []
    n_waiting = 0
    for table in tables:
        while n_waiting + len(table) >= n_rows:
            n_missing = n_rows - n_waiting
            yield concat([*parts, table.slice(0, n_missing)])
            table = table.slice(n_missing)
            parts = []
            n_waiting = 0
        if len(table):
            parts.append(table)
            n_waiting += len(table)
    if parts:
        yield concat(parts)


def placed_batches(
    batches: Iterable[Any], partition: int | None = None
) -> Iterator[tuple[Any, Place]]:
    """Add to each batch of a stream where it stands."""
    first = 0
    for batch in batches:
        yield batch, Place(partition, first)
        first += len(batch)


def in_turn(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
    """Apply a function to a stream in threads, in order, a few items ahead of what is taken."""
    # NumPy and OpenSSL let other threads go on while they draw.
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
        # Without waiting: whoever drops an unfinished stream, be it the garbage
        # collector, may be one of its threads.
        pool.shutdown(wait=False, cancel_futures=True)


def _no_tables() -> Generator[Any, None, None]:
    yield from ()


class RowStream:
    """The rows of a table, which are checked, read again and released, in the same batches."""

    def __init__(
        self,
        check: BatchCheck,
        no_reports: Any,
        read: Read,
        concat: Callable[[list[Any]], Any] = concat_arrow,
    ) -> None:
        self._check = check
        self._read = read
        self._concat = concat
        self.batch_rows = batch_rows(no_reports.shape[1])
        self._tables: Generator[Any, None, None] = _no_tables()
        self._first_tables: list[Any] = []
        """What was read ahead, to see that the table can be read again."""
        self.n_rows = 0
        """The rows that were checked."""

    def check(self) -> None:
        """Check all rows, while nothing is charged."""
        for _ in self.checked_batches():
            pass
        if self.n_rows:
            self._open_again()

    def checked_batches(self) -> Iterator[NDArray[np.uint64]]:
        """Check a batch after the other, and that no record id comes twice; give the digests of the ids."""

        def work(batch: Any) -> tuple[int, NDArray[np.uint64]]:
            return len(batch), self._check(batch)

        all_digests = []
        tables = self._open()
        batches = even_batches(tables, self.batch_rows, self._concat)
        for n_rows, record_digests in in_turn(work, batches):
            self.n_rows += n_rows
            all_digests.append(record_digests)
            yield record_digests
        refuse_repeated(all_digests)

    def _open(self) -> Generator[Any, None, None]:
        return self._read(self._check.columns, self.batch_rows)

    def _open_again(self) -> None:
        """Open the table for its release: one that can be read once only is refused before the charge."""
        self._tables = self._open()
        try:
            first = next((table for table in self._tables if len(table)), None)
        except UnreadableTable:
            first = None
        if first is None:
            raise RefusedBatch(
                "the table can be read once only, and the check was one time: give one "
                "that can be read again, or leave out the check (check=False)"
            )
        self._first_tables = [first]

    def release(self, release: Release, partition: int | None = None) -> Iterator[Any]:
        """Privatise all batches, in order."""

        def work(item: tuple[Any, Place]) -> DrawnBatch:
            return release.draw(*item)

        batches = even_batches(self._all_tables(), self.batch_rows, self._concat)
        # The rows may be others than those that were checked: the ids of those that are
        # drawn are compared, too.
        all_digests = []
        for drawn in in_turn(work, placed_batches(batches, partition)):
            all_digests.append(drawn.record_digests)
            yield drawn.reports
        refuse_repeated(all_digests)

    def _all_tables(self) -> Iterator[Any]:
        """Read the rows, which must be as many as were checked."""
        tables = self._tables
        first_tables = self._first_tables
        if not first_tables:
            tables = self._open()
        self._tables = tables
        self._first_tables = []
        n_rows = 0
        for table in chain(first_tables, tables):
            n_rows += len(table)
            yield table
        if n_rows < self.n_rows:
            raise ShortenedTable

    def close(self) -> None:
        """Close what was opened for the release."""
        self._tables.close()


def write_tables(tables: Iterable[Any], schema: Any, path: Path) -> None:
    """Write a stream of tables to a Parquet file."""
    with parquet.ParquetWriter(path, schema) as writer:
        for table in tables:
            writer.write_table(table)
