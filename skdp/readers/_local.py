"""Engines that run in this process: tables in memory, Arrow, Polars and DuckDB."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from secrets import token_hex
from typing import Any

import narwhals.stable.v2 as nw

from skdp._arrays import Integers, PathType
from skdp.readers._io import Extra, read_safely, run_safely
from skdp.readers._large_table import (
    BATCH_ROWS,
    LargeTable,
    Release,
    StreamTable,
    Summary,
    Tables,
    add_up_batches,
    read_batches,
)
from skdp.tables import (
    drop_missing,
    get_arrow_protocol,
    is_frame,
    wrap_table,
)

pyarrow, dataset = Extra("pyarrow"), Extra("pyarrow.dataset")
polars = Extra("polars", "polars")

# Memory


def split_frame(frame: object) -> Tables:
    """Yield blocks of at most ROWS rows of a table in memory, without copying data."""
    rows = nw.from_native(frame, eager_only=True)
    for start in range(0, len(rows), BATCH_ROWS):
        yield rows[start : start + BATCH_ROWS].to_native()


class MemoryTable(LargeTable):
    """Engine of pandas and polars DataFrames, which supports sums but no releases."""

    def _make_empty_table(self) -> Any:
        """Return the first zero rows."""
        return self._frame[:0]

    def check_path(self, path: PathType | None) -> Any:
        """Raise an error, because `transform` of the transformer releases a table in memory."""
        raise TypeError(
            "`frame` must be a table that is not in memory, got "
            f"{type(self._frame).__name__}. For a table in memory, use `fit_transform` "
            "of the transformer."
        )

    def column_names(self) -> list[Any]:
        """Return the names of the columns."""
        return list(wrap_table(self.sample).names)

    def _collect(self) -> Any:
        """Return the table."""
        return self._frame

    def add_up(self, names: Sequence[Any], summary: Summary) -> list[Integers]:
        """Sum over all rows in blocks."""
        is_frame(self._frame)  # raises for repeated column names
        return add_up_batches(split_frame(self._frame), summary)


# Arrow


class ArrowTable(StreamTable):
    """Engine of datasets and tables of pyarrow."""

    def _make_empty_table(self) -> Any:
        """Return an Arrow table without rows."""
        return self._frame.schema.empty_table()

    def column_names(self) -> list[Any]:
        """Return the names of the columns."""
        return list(self._frame.schema.names)

    def protocols(self) -> set[str | None]:
        """Return the protocols in the metadata of the table, or of the files of a dataset."""
        if not isinstance(self._frame, dataset.FileSystemDataset):
            return super().protocols()
        return run_safely(lambda: find_protocols(self._frame))

    def _read(self, columns: Sequence[Any]) -> Tables:
        """Read columns as a stream of Arrow tables."""
        yield from read_dataset(self._frame, columns)

    def open_reports(self, release: Release, path: PathType) -> Any:
        """Open a Parquet file as a dataset, or as a table if the frame is a table."""
        reports = dataset.dataset(path)
        is_table = isinstance(self._frame, pyarrow.Table)
        return reports.to_table() if is_table else reports


def find_protocols(data: Any) -> set[str | None]:
    """Return the protocols (JSON) in the metadata of the files of a dataset; None for a file without one."""
    texts = set()
    try:
        files = list(data.get_fragments())
    # A filtered dataset has no fragments.
    except ValueError:
        return {get_arrow_protocol(data.schema.metadata or {})}
    for file in files:
        metadata = file.physical_schema.metadata
        # Not all writers of Parquet copy the metadata of the file to the schema.
        if isinstance(file, dataset.ParquetFileFragment):
            metadata = file.metadata.metadata
        texts.add(get_arrow_protocol(metadata or {}))
    return texts


def read_dataset(data: Any, columns: Sequence[Any]) -> Tables:
    """Read columns of a dataset or table, in order, as a stream of validated Arrow tables."""
    if isinstance(data, pyarrow.Table):
        batches = data.select(columns).to_batches(BATCH_ROWS)
    else:
        # The memory is bounded to a few batches: with threads or a buffer, Arrow reads a
        # file ahead of its reader without a limit.
        options = None
        file_format = getattr(data, "format", None)
        if isinstance(file_format, dataset.ParquetFileFormat):
            options = file_format.default_fragment_scan_options
            if options == dataset.ParquetFragmentScanOptions():
                options = dataset.ParquetFragmentScanOptions(pre_buffer=False)
        batches = data.scanner(
            columns=list(columns),
            batch_size=BATCH_ROWS,
            batch_readahead=1,
            fragment_readahead=1,
            fragment_scan_options=options,
            use_threads=False,
        ).to_batches()
    for table in read_batches(batches):
        # A damaged file may have offsets and codes outside of the memory of a batch.
        run_safely(partial(table.validate, full=True))
        yield table


# Polars


class PolarsTable(StreamTable):
    """Engine of lazy frames of Polars, which its streaming engine reads in batches."""

    def _make_empty_table(self) -> Any:
        """Return an Arrow table without rows, from the schema of the query."""
        return self.template.to_arrow()

    @cached_property
    def template(self) -> Any:
        """Table of Polars without rows, in which an Enum keeps its values."""
        # Polars reads the first rows of some files for a schema, and quotes them in errors.
        return polars.DataFrame(schema=run_safely(self._frame.collect_schema))

    def column_names(self) -> list[Any]:
        """Return the names of the columns, from the schema of the query."""
        return list(self.template.columns)

    def _read(self, columns: Sequence[Any]) -> Tables:
        """Read columns as a stream of Arrow tables."""
        # The streaming engine of Polars keeps only a few batches in memory.
        selected = self._frame.select(columns)
        batches = run_safely(lambda: selected.collect_batches(chunk_size=BATCH_ROWS))
        for frame in read_safely(batches):
            yield frame.to_arrow()

    def _collect(self) -> Any:
        """Read all rows; an Enum keeps its values."""
        return self._frame.collect(engine="streaming")

    def open_reports(self, release: Release, path: PathType) -> Any:
        """Open a Parquet file as a lazy frame, in which columns of categories are Enums."""
        reports = polars.scan_parquet(path)
        # **Privacy.** A Categorical uses a table shared by the whole process, in order of
        # first appearance, possibly in the true rows.
        dtypes = {}
        for name, dtype in reports.collect_schema().items():
            if dtype == polars.Categorical and name not in release.keep:
                assert release.domain is not None
                dtypes[name] = polars.Enum(drop_missing(release.domain[name].values))
        return reports.cast(dtypes)


# DuckDB


class DuckDBTable(StreamTable):
    """Engine of relations of DuckDB."""

    def _make_empty_table(self) -> Any:
        """Return an Arrow table without rows."""
        return self._frame.limit(0).to_arrow_table()

    def _read(self, columns: Sequence[Any]) -> Tables:
        """Read columns as a stream of Arrow tables."""
        selected = self._frame.project(", ".join(map(quote_for_sql, columns)))
        with run_safely(lambda: selected.to_arrow_reader(BATCH_ROWS)) as reader:
            yield from read_batches(reader)

    def open_reports(self, release: Release, path: PathType) -> Any:
        """Open a Parquet file as a relation in the connection of the frame."""
        quoted = str(path).replace("'", "''")
        select = f"SELECT * FROM read_parquet('{quoted}')"
        return run_safely(lambda: self._frame.query(f"skdp_{token_hex(8)}", select))


def quote_for_sql(column: str) -> str:
    """Quote a column name for SQL."""
    return '"' + column.replace('"', '""') + '"'
