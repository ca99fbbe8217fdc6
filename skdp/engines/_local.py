"""Engines of this process: tables in memory, Arrow, Polars and DuckDB."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Any

import narwhals.stable.v2 as nw

from skdp.engines._engine import (
    ROWS,
    Engine,
    StreamTable,
    Sums,
    Tables,
    add_up_batches,
    read_batches,
)
from skdp.engines._io import Extra, read_safely, run_safely
from skdp.tables import Summary, get_arrow_protocol, is_frame, wrap_table

pyarrow, dataset = Extra("pyarrow"), Extra("pyarrow.dataset")
polars = Extra("polars", "polars")

# Memory


def split_frame(frame: Any) -> Tables:
    """Cut a table in memory into blocks of rows; no data is copied."""
    rows = nw.from_native(frame, eager_only=True)
    for start in range(0, len(rows), ROWS):
        yield rows[start : start + ROWS].to_native()


class MemoryTable(Engine):
    """A pandas or polars table, which is only tallied."""

    def _make_empty_table(self) -> Any:
        return self._frame[:0]

    def check_path(self, path: Any) -> Any:
        raise TypeError(
            "frame must be a table that is not in memory, got "
            f"{type(self._frame).__name__}. Use `transform` of the transformer"
        )

    def column_names(self) -> list[Any]:
        return list(wrap_table(self.sample).names)

    def add_up(self, names: Sequence[Any], summary: Summary) -> Sums:
        # Refuses two columns of one name.
        is_frame(self._frame)
        return add_up_batches(split_frame(self._frame), summary)


# Arrow


class ArrowTable(StreamTable):
    """A dataset, or a table of pyarrow."""

    def _make_empty_table(self) -> Any:
        return self._frame.schema.empty_table()

    def column_names(self) -> list[Any]:
        return list(self._frame.schema.names)

    def protocols(self) -> set[str | None]:
        if not isinstance(self._frame, dataset.FileSystemDataset):
            return super().protocols()
        return run_safely(lambda: find_protocols(self._frame))

    def _read(self, columns: Sequence[Any]) -> Tables:
        yield from read_dataset(self._frame, columns)

    def _open_reports(self, path: Path) -> Any:
        reports = dataset.dataset(path)
        is_table = isinstance(self._frame, pyarrow.Table)
        return reports.to_table() if is_table else reports


def find_protocols(data: Any) -> set[str | None]:
    """Return the protocols in the metadata of the files of a dataset."""
    texts = set()
    try:
        files = list(data.get_fragments())
    # A filtered dataset.
    except ValueError:
        return {get_arrow_protocol(data.schema.metadata or {})}
    for file in files:
        metadata = file.physical_schema.metadata
        # Not all writers of Parquet put it into the schema.
        if isinstance(file, dataset.ParquetFileFragment):
            metadata = file.metadata.metadata
        texts.add(get_arrow_protocol(metadata or {}))
    return texts


def read_dataset(data: Any, columns: Sequence[Any]) -> Tables:
    """Read some columns of a dataset or table, in order."""
    if isinstance(data, pyarrow.Table):
        batches = data.select(columns).to_batches(ROWS)
    else:
        # Limits memory to a few batches of the file.
        batches = data.scanner(
            columns=list(columns),
            batch_size=ROWS,
            batch_readahead=8,
            fragment_readahead=2,
        ).to_batches()
    for table in read_batches(batches):
        # Offsets and codes of a damaged file outside the memory of a batch would be
        # followed.
        run_safely(partial(table.validate, full=True))
        yield table


# Polars


class PolarsTable(StreamTable):
    """A lazy frame, read in batches by the streaming engine."""

    def _make_empty_table(self) -> Any:
        return polars.DataFrame(schema=self._frame.collect_schema()).to_arrow()

    def column_names(self) -> list[Any]:
        return list(self._frame.collect_schema().names())

    def _read(self, columns: Sequence[Any]) -> Tables:
        selected = self._frame.select(columns)
        batches = run_safely(lambda: selected.collect_batches(chunk_size=ROWS))
        for frame in read_safely(batches):
            yield frame.to_arrow()

    def _open_reports(self, path: Path) -> Any:
        return polars.scan_parquet(path)


# DuckDB


class DuckDBTable(StreamTable):
    """A relation, read as a stream of Arrow batches."""

    def _make_empty_table(self) -> Any:
        return self._frame.limit(0).to_arrow_table()

    def _read(self, columns: Sequence[Any]) -> Tables:
        selected = self._frame.project(", ".join(map(_quote, columns)))
        with run_safely(lambda: selected.to_arrow_reader(ROWS)) as reader:
            yield from read_batches(reader)

    def _open_reports(self, path: Path) -> Any:
        # The relation knows its connection, in which the file is opened.
        quoted = str(path).replace("'", "''")
        select = f"SELECT * FROM read_parquet('{quoted}')"
        return run_safely(lambda: self._frame.query(f"skdp_{token_hex(8)}", select))


def _quote(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'
