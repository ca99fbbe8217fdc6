"""Streams of Arrow batches: cut evenly, privatised one by one, written as they come."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from skdp.engines._coins import BLOCK_ROWS, Place
from skdp.engines._engine import import_extra
from skdp.engines._processes import in_processes
from skdp.engines._release import Release

_CELLS = 1 << 20  # of reports in a batch: some megabytes, whatever the protocol


def batch_rows(width: int) -> int:
    """Say how many rows a batch has: a function of the reports only, for coins depend on where batches start.

    Parameters
    ----------
    width : int
        The number of columns of the output.

    Returns
    -------
    int
        A multiple of the blocks of seeded coins.
    """
    return max(1, _CELLS // max(width, 4) // BLOCK_ROWS) * BLOCK_ROWS


def even(batches: Iterable[Any], rows: int, concat: Callable[[list[Any]], Any]) -> Iterator[Any]:
    """Cut a stream of tables evenly, whatever their sizes; no data is copied.

    Parameters
    ----------
    batches : iterable of pyarrow or polars table
        Of one schema, in the order of the rows.
    rows : int
        How many rows there shall be in each, but for the last one.
    concat : callable
        Joins a list of them.

    Yields
    ------
    same kind
        With at least one row.
    """
    waiting: list[Any] = []
    held = 0
    for table in batches:
        while held + len(table) >= rows:
            waiting.append(table.slice(0, rows - held))
            table = table.slice(rows - held)
            yield concat(waiting)
            waiting, held = [], 0
        if len(table):
            waiting.append(table)
            held += len(table)
    if waiting:
        yield concat(waiting)


def in_turn(function: Callable[[Any], Any], items: Iterable[Any], workers: int) -> Iterator[Any]:
    """Apply a function to a stream in threads, a few items ahead of whoever takes the results, in order.

    Parameters
    ----------
    function : callable
        What to apply.
    items : iterable
        To what.
    workers : int
        The number of threads.

    Yields
    ------
    object
        The results.
    """
    waiting: deque[Future[Any]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def placed(tables: Iterable[Any], partition: int | None = None) -> Iterator[tuple[Any, Place]]:
    """Say of each table of a stream where it stands.

    Parameters
    ----------
    tables : iterable of table
        In the order of the rows.
    partition : int or None
        The partition that the stream is, if it is not the whole table.

    Yields
    ------
    tuple of table and Place
        The table, and the number of its first row.
    """
    first = 0
    for table in tables:
        yield table, Place(partition, first)
        first += len(table)


def release_batches(
    batches: Iterable[Any], release: Release, width: int, partition: int | None = None
) -> Iterator[Any]:
    """Privatise a stream of Arrow batches.

    Parameters
    ----------
    batches : iterable of pyarrow.RecordBatch
        True rows, in order.
    release : Release
        What privatises a batch.
    width : int
        The number of columns of the output.
    partition : int or None
        The partition that the stream is, if it is not the whole table.

    Yields
    ------
    pyarrow.Table
        Reports.
    """
    pyarrow = import_extra("pyarrow", "duckdb")
    tables = (pyarrow.Table.from_batches([batch]) for batch in batches)
    whole = placed(even(tables, batch_rows(width), pyarrow.concat_tables), partition)
    draw, workers = in_processes(release)
    yield from in_turn(lambda item: draw(*item), whole, workers)


def write_tables(tables: Iterable[Any], schema: Any, path: Path) -> None:
    """Write a stream of tables to a Parquet file.

    Parameters
    ----------
    tables : iterable of pyarrow.Table
        Of one schema.
    schema : pyarrow.Schema
        The schema.
    path : Path
        The file.
    """
    parquet = import_extra("pyarrow.parquet", "duckdb")
    with parquet.ParquetWriter(path, schema) as writer:
        for table in tables:
            writer.write_table(table)
