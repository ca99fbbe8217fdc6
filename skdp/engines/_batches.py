"""Streams of Arrow batches: cut evenly, privatised one by one, written as they come."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import joblib

from skdp.engines._coins import BLOCK_ROWS, Place
from skdp.engines._engine import import_extra
from skdp.engines._errors import RefusedBatch, UnreadableTable, read_quietly
from skdp.engines._processes import in_processes
from skdp.engines._release import BatchCheck, Release

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


def in_turn(function: Callable[[Any], Any], items: Iterable[Any], workers: int = 0) -> Iterator[Any]:
    """Apply a function to a stream in threads, a few items ahead of whoever takes the results, in order.

    Parameters
    ----------
    function : callable
        What to apply.
    items : iterable
        To what.
    workers : int, optional
        The number of threads; by default one a core, at most four.

    Yields
    ------
    object
        The results.
    """
    workers = workers or min(4, joblib.cpu_count())
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


@dataclass
class Checked:  # numpydoc ignore=PR02
    """What is known of a table after its batches were checked.

    Parameters
    ----------
    rows : int
        How many rows it had.
    digests : dict
        The digest of each batch, by the number of its first row; none if a batch is read once only.
    """

    rows: int = 0
    digests: dict[int, bytes] = field(default_factory=dict)


def read_again(batches: Iterable[Any], checked: Checked) -> Iterator[Any]:
    """Open a checked table for its release, while nothing is charged yet.

    Parameters
    ----------
    batches : iterable
        The table, to be read another time.
    checked : Checked
        What is known of it.

    Returns
    -------
    iterator
        The batches.

    Raises
    ------
    RefusedBatch
        If there is no first batch: what the table is made of was used up by the check.
    """
    opened, end = read_quietly(batches), object()
    try:
        first = next(opened, end)
    except UnreadableTable:
        first = end
    if first is not end:
        return chain([first], opened)
    if checked.rows:
        raise RefusedBatch(
            "the table can be read once only, and the check was one time: give one that can be read again, or leave "
            "out the check (check=False)"
        )
    return opened


def check_batches(
    tables: Iterable[Any], check: BatchCheck, rows: int, concat: Callable[[list[Any]], Any], *, digests: bool = False
) -> Checked:
    """Check a stream of tables as they will be privatised.

    Parameters
    ----------
    tables : iterable of pyarrow or polars table
        True rows, in order.
    check : BatchCheck
        What checks a batch.
    rows : int
        How many rows there are in each batch, but for the last one.
    concat : callable
        Joins a list of them.
    digests : bool, default=False
        Whether digests of the batches are kept.

    Returns
    -------
    Checked
        What is known then.
    """

    def look(item: tuple[Any, Place]) -> tuple[int, int, bytes]:  # numpydoc ignore=GL08
        table, place = item
        if digests:
            return place.first, len(table), check.digest(table)
        return place.first, check(table), b""

    found = Checked()
    for first, length, digest in in_turn(look, placed(even(tables, rows, concat))):
        found.rows += length
        if digests:
            found.digests[first] = digest
    return found


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
    whole = placed(even(arrow_tables(batches), batch_rows(width), pyarrow.concat_tables), partition)
    # The partitions of an engine are in its own processes already, one a core.
    draw, workers = in_processes(release) if partition is None else (release, 0)
    yield from in_turn(lambda item: draw(*item), whole, workers)


def arrow_tables(batches: Iterable[Any]) -> Iterator[Any]:
    """Read a stream of Arrow batches as tables.

    Parameters
    ----------
    batches : iterable of pyarrow.RecordBatch
        Of one schema.

    Returns
    -------
    iterator of pyarrow.Table
        Rows; errors are as for `read_quietly`.
    """
    pyarrow = import_extra("pyarrow", "duckdb")
    return (pyarrow.Table.from_batches([batch]) for batch in read_quietly(batches))


def check_arrow(batches: Iterable[Any], check: BatchCheck, width: int) -> Checked:
    """Check a stream of Arrow batches as they will be privatised.

    Parameters
    ----------
    batches : iterable of pyarrow.RecordBatch
        True rows, in order.
    check : BatchCheck
        What checks a batch.
    width : int
        The number of columns of the output.

    Returns
    -------
    Checked
        What is known then.
    """
    pyarrow = import_extra("pyarrow", "duckdb")
    return check_batches(arrow_tables(batches), check, batch_rows(width), pyarrow.concat_tables)


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
