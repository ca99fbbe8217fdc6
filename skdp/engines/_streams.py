"""Tables as streams of Arrow batches: cut evenly, checked, privatised in order, and written as they come."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray

from skdp.engines._atomic import write_atomically
from skdp.engines._engine import Engine, add_up_batches
from skdp.engines._errors import UnreadableTable, quietly, read_quietly
from skdp.engines._libraries import Extra
from skdp.engines._release import (
    BatchCheck,
    Preparation,
    Release,
    refuse_repeated,
)
from skdp.tables import Summary, with_protocol

pyarrow, parquet = Extra("pyarrow"), Extra("pyarrow.parquet")

# Values of reports in a batch: some megabytes for every protocol.
_CELLS = 1 << 20
_BLOCK_ROWS = 1 << 12

Tables = Generator[Any, None, None]


def batch_rows(n_columns: int) -> int:
    """Return the rows of a batch: a function of the reports only, as random bits depend on where batches start."""
    return max(1, _CELLS // max(n_columns, 4) // _BLOCK_ROWS) * _BLOCK_ROWS


def arrow_tables(batches: Iterable[Any]) -> Tables:
    """Read a stream of Arrow batches as tables."""
    for batch in read_quietly(batches):
        yield pyarrow.Table.from_batches([batch])


def even_batches(tables: Iterable[Any], n_rows: int) -> Iterator[Any]:
    """Cut a stream of tables evenly; no data is copied."""
    parts: list[Any] = []
    n_waiting = 0
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


def in_turn(function: Callable[[Any], Any], items: Tables) -> Iterator[Any]:
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
        # Without waiting: a thread of the pool may be the one that drops the stream.
        pool.shutdown(wait=False, cancel_futures=True)
        items.close()


class RowStream:
    """The rows of a table, which are checked, read again and released, in the same batches."""

    def __init__(
        self, check: BatchCheck, no_reports: Any, read: Callable[[list[str]], Tables]
    ) -> None:
        self._check = check
        self._read = read
        self.batch_rows = batch_rows(no_reports.shape[1])
        self._n_checked: int | None = None

    def _batches(self) -> Iterator[Any]:
        with closing(self._read(self._check.columns)) as tables:
            yield from even_batches(tables, self.batch_rows)

    def check(self) -> None:
        """Check all rows, while nothing is charged, and that no record id comes twice."""
        refuse_repeated(list(self.checked_ids()))

    def checked_ids(self) -> Iterator[NDArray[np.uint64]]:
        """Check one batch after the other, and yield the digests of its record ids."""
        n_rows = 0
        batches = ((batch, len(batch)) for batch in self._batches())
        work = in_turn(lambda item: (self._check(item[0]), item[1]), batches)
        for record_digests, n_batch in work:
            n_rows += n_batch
            yield record_digests
        self._n_checked = n_rows

    def release(self, release: Release, partition: int | None = None) -> Iterator[Any]:
        """Privatise all batches, in order."""
        first = 0

        def batches_with_position() -> Tables:
            nonlocal first
            for batch in self._batches():
                yield batch, (partition, first)
                first += len(batch)

        yield from in_turn(lambda item: release.draw(*item), batches_with_position())
        if self._n_checked not in (None, first):
            raise UnreadableTable(
                "The number of rows of the table changed after it was checked. The charge "
                "stands, and no reports are stored. Store the table, and pass the file"
            )


def write_tables(tables: Iterable[Any], schema: Any, path: Path) -> None:
    """Write a stream of tables to a Parquet file."""
    with parquet.ParquetWriter(path, schema) as writer:
        for table in tables:
            writer.write_table(table)


class StreamTable(Engine):
    """A frame that is read as a stream of Arrow batches, in this process."""

    @abstractmethod
    def read(self, columns: Sequence[Any]) -> Tables:
        """Read some columns from the start, as Arrow tables."""

    @abstractmethod
    def reports(self, stored: Any) -> Any:
        """Make the result of an Arrow table, or of the path of a Parquet file."""

    def privatize(self, preparation: Preparation, *, place: Any, check: bool) -> Any:
        stream = RowStream(preparation.check, preparation.no_reports, self.read)
        if check:
            quietly(stream.check)
        release = preparation.charge()
        schema = with_protocol(preparation.no_reports, release.protocol_text).schema
        tables = stream.release(release)
        if place is None:
            no_reports = schema.empty_table()
            return self.reports(
                quietly(lambda: pyarrow.concat_tables([no_reports, *tables]))
            )
        with write_atomically(place) as beside:
            quietly(lambda: write_tables(tables, schema, beside))
        return self.reports(place)

    def add_up(self, names: Sequence[Any], summary: Summary) -> list[NDArray[np.int64]]:
        with closing(self.read(names)) as tables:
            return add_up_batches(tables, summary)
