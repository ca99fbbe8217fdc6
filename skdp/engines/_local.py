"""Engines of this process: tables in memory, Arrow, Polars and DuckDB. The last two count reports themselves."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Any, Self

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from skdp.domain import DECLARED
from skdp.engines._engine import (
    ROWS,
    Engine,
    StreamTable,
    Sums,
    Tables,
    add_up_batches,
    read_batches,
    write_parquet,
)
from skdp.engines._io import (
    Extra,
    make_temporary_path,
    read_safely,
    run_safely,
    write_atomically,
)
from skdp.engines._release import Release, refuse_repeated
from skdp.tables import Summary, is_frame, read_table, text_of, with_protocol

pyarrow, duckdb = Extra("pyarrow"), Extra("duckdb")
dataset, ipc = Extra("pyarrow.dataset"), Extra("pyarrow.ipc")
polars = Extra("polars", "polars")

# Batches in memory, not the file.
_READ_AHEAD = {"batch_readahead": 8, "fragment_readahead": 2}

# Largest number of distinct rows that DuckDB counts; above, it hands over all rows.
MAX_DISTINCT = 1 << 16


def _add_declared(schema: Any, index: int, values: list[str]) -> Any:
    """Add the values of an Enum to the metadata: an empty dictionary array has no values."""
    field = schema.field(index).with_metadata({DECLARED: json.dumps(values)})
    return schema.set(index, field)


# Memory


def split_frame(frame: Any) -> Iterator[Any]:
    """Cut a table in memory into blocks of rows; no data is copied."""
    rows = nw.from_native(frame, eager_only=True)
    for start in range(0, len(rows), ROWS):
        yield rows[start : start + ROWS].to_native()


class MemoryTable(Engine):
    """A pandas, polars or pyarrow table, which is one batch."""

    def _make_empty_table(self) -> Any:
        return self._frame[:0]

    def column_names(self) -> list[Any]:
        return list(read_table(self.sample).names)

    def check_rows(self, release: Release) -> None:
        run_safely(lambda: refuse_repeated([release.check(self._frame)]))

    def write(self, release: Release, path: Any) -> Any:
        reports = run_safely(lambda: release.draw(self._frame))
        if path is not None:
            # A file of reports has no columns for a row index.
            frame = nw.from_native(reports, eager_only=True)
            table = nw.maybe_reset_index(frame).to_arrow()
            schema = with_protocol(table, release.protocol_text).schema
            with write_atomically(path) as partial_path:
                write_parquet([table], schema, partial_path)
        return with_protocol(reports, release.text_in_memory)

    def add_up(self, names: Sequence[Any], summary: Summary) -> Sums:
        # Refuses two columns of one name.
        is_frame(self._frame)
        return add_up_batches(split_frame(self._frame), summary)

    def limit_persons(self, person: Any, most: int, seed: int) -> Self:
        raise NotImplementedError("`fit` takes a table in memory as it is")


# Arrow


class ArrowTable(StreamTable):
    """A dataset, or a reader of record batches."""

    @property
    def reads_once(self) -> bool:  # type: ignore[override]
        return isinstance(self._frame, pyarrow.RecordBatchReader)

    def _make_empty_table(self) -> Any:
        return self._frame.schema.empty_table()

    def column_names(self) -> list[Any]:
        return list(self._frame.schema.names)

    def store(self, reports: Any) -> Any:
        data = dataset.dataset(reports)
        return data.scanner(**_READ_AHEAD).to_reader() if self.reads_once else data

    def protocols(self) -> set[str | None]:
        if not isinstance(self._frame, dataset.FileSystemDataset):
            return super().protocols()
        return run_safely(lambda: find_protocols(self._frame))

    def read(self, columns: Sequence[Any]) -> Tables:
        if self.limit is None:
            yield from read_dataset(self._frame, columns)
            return
        schema = self._frame.schema
        tables = read_dataset(self._frame, schema.names)
        for table in limit_rows(tables, schema, *self.limit):
            yield table.select(columns)


def find_protocols(data: Any) -> set[str | None]:
    """Return the protocols in the metadata of the files of a dataset."""
    texts = set()
    try:
        files = list(data.get_fragments())
    # A filtered dataset.
    except ValueError:
        return {text_of(data.schema.metadata or {})}
    for file in files:
        metadata = file.physical_schema.metadata
        # Not all writers of Parquet put it into the schema.
        if isinstance(file, dataset.ParquetFileFragment):
            metadata = file.metadata.metadata
        texts.add(text_of(metadata or {}))
    return texts


def read_dataset(data: Any, columns: Sequence[Any]) -> Tables:
    """Read some columns of a dataset or reader, in order."""
    file_format = getattr(data, "format", None)
    if isinstance(data, pyarrow.RecordBatchReader):
        batches = iter(data)
    elif isinstance(file_format, dataset.IpcFileFormat):
        batches = _read_ipc(data)
    else:
        options = {"columns": list(columns), "batch_size": ROWS}
        batches = data.scanner(**options, **_READ_AHEAD).to_batches()
    for table in read_batches(batches):
        if not isinstance(file_format, dataset.ParquetFileFormat):
            # Offsets and codes outside the memory of a batch would be followed.
            run_safely(partial(table.validate, full=True))
        for start in range(0, len(table), ROWS):
            yield table.slice(start, ROWS).select(columns)


def _read_ipc(data: Any) -> Iterator[Any]:
    """Read Arrow files as they are: the scanner follows the offsets of a damaged file."""
    for file in data.get_fragments():
        with file.open() as opened:
            reader = ipc.open_file(opened)
            yield from map(reader.get_batch, range(reader.num_record_batches))


# Polars


class PolarsTable(StreamTable):
    """A lazy frame, read in batches by the streaming engine."""

    counts_values = True

    def _make_empty_table(self) -> Any:
        types = self._frame.collect_schema()
        schema = polars.DataFrame(schema=types).to_arrow().schema
        for index, column_type in enumerate(types.values()):
            if isinstance(column_type, polars.Enum):
                values = column_type.categories.to_list()
                schema = _add_declared(schema, index, values)
        return schema.empty_table()

    def column_names(self) -> list[Any]:
        return list(self._frame.collect_schema().names())

    def read(self, columns: Sequence[Any]) -> Tables:
        selected = self._frame.select(columns)
        batches = run_safely(lambda: selected.collect_batches(chunk_size=ROWS))
        for frame in read_safely(batches):
            yield frame.to_arrow()

    def store(self, reports: Any) -> Any:
        if isinstance(reports, pyarrow.Table):
            return polars.from_arrow(reports).lazy()
        return polars.scan_parquet(reports)

    def count_rows(
        self, columns: Sequence[Any]
    ) -> Generator[tuple[Any, NDArray[np.int64]], None, None]:
        # No column of the user has this name.
        count = f"skdp_{token_hex(8)}"
        grouped = self._frame.group_by(columns).agg(polars.len().alias(count))
        counted = run_safely(lambda: grouped.collect(engine="streaming"))
        counts = counted[count].to_numpy().astype(np.int64)
        yield counted.select(columns).to_arrow(), counts

    def limit_persons(self, person: Any, most: int, seed: int) -> Self:
        rank = polars.struct(polars.all()).hash(seed).rank("ordinal").over(person)
        return type(self)(self._frame.filter(rank <= most))


# DuckDB


class DuckDBTable(StreamTable):
    """A relation, read as a stream of Arrow batches."""

    # **Privacy.** Who counts, the database or Python, follows from dtypes and
    # declarations alone. The database holds each distinct row once (some 80 bytes); where
    # there are more than declared, which is refused, or whole numbers beyond the bounds
    # of a mean or quantile, that is a row for each. It counts 8 times as fast as Python.
    counts_values = counts_numbers = True

    def _make_empty_table(self) -> Any:
        schema = self._frame.limit(0).to_arrow_table().schema
        for index, column_type in enumerate(self._frame.types):
            if column_type.id == "enum":
                # The Arrow type lacks the values of the enum.
                ((_, values),) = column_type.children
                schema = _add_declared(schema, index, values)
        return schema.empty_table()

    def check_path(self, path: Any) -> Any:
        # Always a file: DuckDB would look a table in memory up by its name, among the
        # names of the user.
        return super().check_path(path) or make_temporary_path()

    def read(self, columns: Sequence[Any]) -> Tables:
        selected = self._frame.project(", ".join(map(_quote, columns)))
        # An open reader would block the connection.
        with run_safely(lambda: selected.to_arrow_reader(ROWS)) as reader:
            yield from read_batches(reader)

    def store(self, reports: Path) -> Any:
        # DuckDB opens the table once more for that.
        path = str(reports).replace("'", "''")
        select = f"SELECT * FROM read_parquet('{path}')"
        return run_safely(lambda: self._frame.query(f"skdp_{token_hex(8)}", select))

    def count_rows(
        self, columns: Sequence[Any]
    ) -> Generator[tuple[Any, NDArray[np.int64]], None, None]:
        keys = ", ".join(map(self._compare_bytes, columns))
        query = self._frame.aggregate(f"{keys}, count(*)", keys)
        with run_safely(lambda: query.to_arrow_reader(ROWS)) as grouped:
            for table in read_batches(grouped):
                counts = table.column(len(columns)).to_numpy().astype(np.int64)
                values = table.select(range(len(columns)))
                yield values.rename_columns(list(columns)), counts

    def add_up(self, names: Sequence[Any], summary: Summary) -> Sums:
        if summary.n_distinct(self.sample.select(list(names))) > MAX_DISTINCT:
            return super().add_up(names, summary)
        sums = summary.zeros()
        self._add_counts(sums, names, summary)
        return sums

    def limit_persons(self, person: Any, most: int, seed: int) -> Self:
        values = ", ".join(map(_quote, self._frame.columns))
        view = f"skdp_{token_hex(8)}"
        ranks = (
            f"row_number() OVER (PARTITION BY {self._compare_bytes(person)} ORDER BY"
            f" hash({values}, {seed}))"
        )
        query = f"SELECT * FROM {view} QUALIFY {ranks} <= {most}"
        return type(self)(self._frame.query(view, query))

    def _compare_bytes(self, column: str) -> str:
        """Write a column so that its text is compared byte by byte, whatever its collation."""
        types = dict(zip(self._frame.columns, self._frame.types, strict=True))
        is_text = types[column].id == "varchar"
        return f'{_quote(column)} COLLATE "C"' if is_text else _quote(column)


def _quote(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'


def limit_rows(
    tables: Tables, schema: Any, person: str, most: int, seed: int
) -> Tables:
    """Keep some rows of each person in a stream of Arrow tables; DuckDB holds the rows that it needs."""
    # DuckDB does not distinguish names that differ in case only.
    names = [f"c{index}" for index in range(len(schema))]
    numbered = pyarrow.schema(list(zip(names, schema.types, strict=True)))
    batches = (
        batch
        for table in tables
        for batch in table.rename_columns(names).cast(numbered).to_batches()
    )
    with duckdb.connect() as connection:
        reader = pyarrow.RecordBatchReader.from_batches(numbered, batches)
        rows = DuckDBTable(connection.from_arrow(reader))
        kept = rows.limit_persons(names[schema.names.index(person)], most, seed)
        with closing(kept.read(names)) as kept_tables:
            for table in kept_tables:
                yield table.rename_columns(schema.names)
