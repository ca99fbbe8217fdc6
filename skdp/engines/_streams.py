"""Streams of batches: read, cut evenly, checked, privatised in order, and written as they come."""

from __future__ import annotations

import base64
import multiprocessing
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any

import joblib

from skdp.engines._errors import (
    RefusedBatch,
    ShortenedTable,
    UnreadableTable,
    read_quietly,
)
from skdp.engines._libraries import Extra
from skdp.engines._randomness import BLOCK_ROWS, Place
from skdp.engines._release import (
    BatchCheck,
    CheckedBatch,
    DistinctRecords,
    DrawnBatch,
    Release,
)

pyarrow, parquet = Extra("pyarrow"), Extra("pyarrow.parquet")

ROWS = 1 << 17
"""Rows in memory at a time, where nothing depends on how many."""

_CELLS = 1 << 20
"""Of reports in a batch: some megabytes, whatever the protocol."""

FEW = 3
"""Batches that are drawn here: a process takes about as long to start."""

SLOW = 3e-6
"""Seconds of a row from which it is worth the while to send rows to a process."""

_MOST_CORES = 16
_IDLE_SECONDS = 10

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


def in_turn(
    function: Callable[[Any], Any], items: Iterable[Any], n_threads: int = 0
) -> Iterator[Any]:
    """Apply a function to a stream in threads, in order, a few items ahead of what is taken."""
    n_threads = n_threads or min(4, joblib.cpu_count())
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
        self._contents: dict[int, bytes | None] | None = None
        self.n_rows = 0
        """The rows that were checked."""

    def check(self, *, rows: bool, with_contents: bool = False) -> None:
        """Check all rows, or the record ids alone, while nothing is charged."""
        # With the digests of what the batches hold, these are compared with what is
        # drawn, however often that is.
        contents = {}
        for place, batch in self.checked_batches(
            rows=rows, with_contents=with_contents
        ):
            contents[place.first] = batch.content
            if rows:
                self.n_rows += batch.n_rows
        if with_contents:
            self._contents = contents
        elif self.n_rows:
            self._open_again()

    def checked_batches(
        self, *, rows: bool, with_contents: bool = False
    ) -> Iterator[tuple[Place, CheckedBatch]]:
        """Check a batch after the other, and that no record id comes twice."""
        check = self._check
        if not rows and check.record_id is None:
            return

        def work(item: tuple[Any, Place]) -> tuple[Place, CheckedBatch]:
            batch, place = item
            if rows:
                return place, check(batch, with_content=with_contents)
            return place, check.check_ids(batch)

        columns = check.columns if rows else check.id_columns
        tables = self._read(columns, self.batch_rows)
        batches = even_batches(tables, self.batch_rows, self._concat)
        distinct = DistinctRecords()
        for place, batch in in_turn(work, placed_batches(batches)):
            distinct.add(batch.id_digests)
            yield place, batch
        distinct.close()

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
        batches = even_batches(self._all_tables(), self.batch_rows, self._concat)
        drawing = Drawing(release, is_partition=partition is not None)

        def work(item: tuple[Any, Place]) -> tuple[Place, DrawnBatch]:
            batch, place = item
            return place, drawing.draw(batch, place, self._content_at(place))

        distinct = DistinctRecords()
        items = placed_batches(batches, partition)
        for place, drawn in in_turn(work, items, drawing.n_threads):
            distinct.add(drawn.id_digests)
            yield release.count(place, drawn)
        distinct.close()

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

    def _content_at(self, place: Place) -> bytes | None:
        # A place has the reports of the rows that were checked, or none: not even of
        # one more batch.
        if self._contents is None:
            return None
        return self._contents.get(place.first, b"")

    def close(self) -> None:
        """Close what was opened for the release."""
        self._tables.close()


class Drawing:
    """Draws batches for a few threads at a time; which of them is drawn where makes no difference."""

    # NumPy and OpenSSL let other threads go on: what they draw is drawn in the thread
    # that asks for it. Permanent reports that are slow, as each record is hashed, are
    # drawn in processes.

    def __init__(self, release: Release, *, is_partition: bool = False) -> None:
        self._release = release
        self._paces: list[float] = []
        self._n_batches = 0
        self._pool: Any = None
        self._lock = threading.Lock()
        n_cores = min(_MOST_CORES, joblib.cpu_count())
        # The partitions of an engine are in its own processes already, one a core; and
        # a process that a pool has started may have no children.
        is_child = multiprocessing.parent_process() is not None
        uses_processes = (
            release.is_permanent and n_cores > 1 and not is_partition and not is_child
        )
        # This process reads, compares ids and writes; if there is one other only, it
        # draws as well.
        self._n_processes = n_cores - 1 if uses_processes else 0
        self._free = threading.Semaphore(self._n_processes)
        self.n_threads = max(2, n_cores - 1) if uses_processes else min(4, n_cores)

    def draw(self, batch: Any, place: Place, content: bytes | None) -> DrawnBatch:
        """Draw a batch, here or in a process."""
        with self._lock:
            n_earlier = self._n_batches
            self._n_batches += 1
        is_slow = min(self._paces, default=0.0) > SLOW
        if n_earlier >= FEW and is_slow and self._free.acquire(blocking=False):
            try:
                task = self._processes().submit(
                    self._release.draw, batch, place, content
                )
                drawn: DrawnBatch = task.result()
                return drawn
            except Exception:
                # A refusal, which is the same here; or no process, such as for lack of
                # memory.
                pass
            finally:
                self._free.release()
        start = time.thread_time()
        drawn = self._release.draw(batch, place, content)
        self._paces.append((time.thread_time() - start) / max(1, len(batch)))
        return drawn

    def _processes(self) -> Any:
        # loky does not run the user's script again, as others do. Not joblib's own pool
        # of it: that would end for ours, and ours for it, at each batch.
        from joblib.externals.loky import ProcessPoolExecutor

        with self._lock:
            if self._pool is None:
                self._pool = ProcessPoolExecutor(
                    self._n_processes, timeout=_IDLE_SECONDS
                )
        return self._pool


def write_tables(
    tables: Iterable[Any],
    schema: Any,
    path: Path,
    finish: Callable[[Any], Any] | None = None,
) -> None:
    """Write a stream of tables to a Parquet file; `finish` makes the final schema when all of them are written."""
    bare = schema if finish is None else schema.remove_metadata()
    with parquet.ParquetWriter(path, bare, store_schema=finish is None) as writer:
        for table in tables:
            writer.write_table(table)
        if finish is not None:
            final = finish(schema)
            stored = base64.b64encode(final.serialize().to_pybytes())
            metadata = {**(final.metadata or {}), b"ARROW:schema": stored}
            writer.add_key_value_metadata(metadata)
