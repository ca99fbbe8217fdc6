"""Streams of Arrow batches: cut evenly, privatised one by one, written as they come."""

from __future__ import annotations

import base64
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import joblib

from skdp.engines._batch_release import BatchCheck, Plan, Release, in_processes
from skdp.engines._errors import (
    RefusedBatch,
    ShortenedTable,
    UnreadableTable,
    read_quietly,
)
from skdp.engines._extras import Extra
from skdp.engines._randomness import BLOCK_ROWS, Place
from skdp.tables import with_protocol

pyarrow, parquet = Extra("pyarrow"), Extra("pyarrow.parquet")

_CELLS = 1 << 20  # of reports in a batch: some megabytes, whatever the protocol


def batch_rows(width: int) -> int:
    """Return the rows of a batch: a function of the reports only, as random bits depend on where batches start."""
    return max(1, _CELLS // max(width, 4) // BLOCK_ROWS) * BLOCK_ROWS


def even(
    batches: Iterable[Any], rows: int, concat: Callable[[list[Any]], Any]
) -> Iterator[Any]:
    """Cut a stream of tables evenly; no data is copied."""
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


def in_turn(
    function: Callable[[Any], Any], items: Iterable[Any], workers: int = 0
) -> Iterator[Any]:
    """Apply a function to a stream in threads, in order, a few items ahead of what is taken."""
    workers = workers or min(4, joblib.cpu_count())
    waiting: deque[Future[Any]] = deque()
    pool = ThreadPoolExecutor(workers)
    try:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        # Without waiting: whoever drops an unfinished stream, be it the garbage collector, may be one of its threads.
        pool.shutdown(wait=False, cancel_futures=True)


def placed(
    tables: Iterable[Any], partition: int | None = None
) -> Iterator[tuple[Any, Place]]:
    """Add to each table of a stream where it stands."""
    first = 0
    for table in tables:
        yield table, Place(partition, first)
        first += len(table)


@dataclass
class Checked:
    """What is known of a table after its batches were checked."""

    rows: int = 0
    digests: dict[int, bytes] = field(default_factory=dict)


def read_again(batches: Iterable[Any], checked: Checked) -> Generator[Any, None, None]:
    """Open a checked table for its release, while nothing is charged yet."""
    opened = read_quietly(batches)
    if not checked.rows:
        return opened
    try:
        first = next((batch for batch in opened if len(batch)), None)
    except UnreadableTable:
        first = None
    if first is None:
        raise RefusedBatch(
            "the table can be read once only, and the check was one time: give one that can be read again, or leave "
            "out the check (check=False)"
        )
    return in_full(chain([first], opened), checked)


def in_full(batches: Iterable[Any], checked: Checked) -> Generator[Any, None, None]:
    """Pass on the batches of a checked table."""
    rows = 0
    for batch in batches:
        rows += len(batch)
        yield batch
    if rows < checked.rows:
        raise ShortenedTable


def check_batches(
    tables: Iterable[Any],
    check: BatchCheck,
    rows: int,
    concat: Callable[[list[Any]], Any],
    *,
    digests: bool = False,
) -> Checked:
    """Check a stream of tables as they will be privatised."""

    def look(item: tuple[Any, Place]) -> tuple[int, int, bytes | None]:
        table, place = item
        return place.first, len(table), check(table, digests)

    found = Checked()
    for first, length, digest in in_turn(
        look, placed(check.distinct_in_all(even(tables, rows, concat)))
    ):
        found.rows += length
        if digest is not None:
            found.digests[first] = digest
    return found


def release_batches(
    batches: Iterable[Any], release: Release, width: int, partition: int | None = None
) -> Iterator[Any]:
    """Privatise a stream of Arrow batches."""
    even_ones = even(arrow_tables(batches), batch_rows(width), pyarrow.concat_tables)
    whole = placed(release.check.distinct(even_ones), partition)
    # The partitions of an engine are in its own processes already, one a core.
    draw, workers = in_processes(release) if partition is None else (release, 0)
    yield from in_turn(lambda item: draw(*item), whole, workers)


def arrow_tables(batches: Iterable[Any]) -> Iterator[Any]:
    """Read a stream of Arrow batches as tables."""
    return (pyarrow.Table.from_batches([batch]) for batch in read_quietly(batches))


def check_arrow(batches: Iterable[Any], check: BatchCheck, width: int) -> Checked:
    """Check a stream of Arrow batches as they will be privatised."""
    return check_batches(
        arrow_tables(batches), check, batch_rows(width), pyarrow.concat_tables
    )


def plan_arrow(
    plan: Plan,
    sample: Any,
    read: Callable[[list[str], int], Generator[Any, None, None]],
    *,
    check: bool,
) -> tuple[Release, Any, Generator[Any, None, None], Iterator[Any]]:
    """Check and charge a release of Arrow batches; return it, no reports, the stream of rows and that of reports."""

    def look(check: BatchCheck, trial: Any) -> Generator[Any, None, None]:
        rows = batch_rows(trial.num_columns)
        checked = check_arrow(read(check.columns, rows), check, trial.num_columns)
        return read_again(read(check.columns, rows), checked)

    release, trial, batches = plan(sample, look=look if check else None)
    if batches is None:
        batches = read(release.check.columns, batch_rows(trial.num_columns))
    trial = with_protocol(trial, release.said)
    return release, trial, batches, release_batches(batches, release, trial.num_columns)


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
            writer.add_key_value_metadata(
                {**(final.metadata or {}), b"ARROW:schema": stored}
            )
