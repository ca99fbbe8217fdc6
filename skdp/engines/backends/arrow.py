"""Arrow: datasets, readers of record batches, and tables."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skdp.engines._atomic import check_path, written_beside
from skdp.engines._batch_release import Plan
from skdp.engines._csv import text_batches
from skdp.engines._engine import ROWS, Engine, ReportSums, add_up_batches
from skdp.engines._errors import quietly, read_quietly
from skdp.engines._extras import import_extra
from skdp.engines._record_ids import count_ids
from skdp.engines._source_file import SourceFile
from skdp.engines.backends.batches import arrow_tables, plan_arrow, write_tables
from skdp.engines.backends.memory import MemoryTable
from skdp.engines.backends.persons import keep_marked, mark_rows
from skdp.local import ReportProtocol
from skdp.tables import Releases, Summary, joined_releases, releases_of, text_of

pyarrow = import_extra("pyarrow", "duckdb")
dataset = import_extra("pyarrow.dataset", "duckdb")

_READ_AHEAD = {
    "batch_readahead": 8,
    "fragment_readahead": 2,
}  # batches in memory, not the file


class ArrowTable(Engine):
    """A dataset, a reader, or a table."""

    kinds = (pyarrow.Table, dataset.Dataset, pyarrow.RecordBatchReader)

    def __init__(self, frame: Any, kept: NDArray[np.bool_] | None = None) -> None:
        super().__init__(frame)
        self._kept = kept

    def _no_rows(self) -> Any:
        return self._frame.schema.empty_table()

    def column_names(self) -> list[Any]:
        return list(self._frame.schema.names)

    def privatize(self, plan: Plan, *, persist: bool, path: Any, check: bool) -> Any:
        frame = self._frame
        if isinstance(frame, pyarrow.Table):
            return MemoryTable(frame).privatize(
                plan, persist=persist, path=path, check=check
            )
        place, is_dataset = check_path(path), isinstance(frame, dataset.Dataset)

        def read(columns: list[str], rows: int) -> Generator[Any, None, None]:
            return read_batches(frame, columns)

        # A reader is read once.
        release, trial, _, tables = plan_arrow(
            plan, self.sample, read, check=check and is_dataset
        )
        if not persist:
            batches = chain.from_iterable(table.to_batches() for table in tables)
            return pyarrow.RecordBatchReader.from_batches(trial.schema, batches)
        if place is None:
            whole = quietly(lambda: pyarrow.concat_tables([trial, *tables]))
            stored = dataset.dataset(
                whole.replace_schema_metadata(release.noted(whole.schema).metadata)
            )
        else:
            with written_beside(place) as beside:
                quietly(
                    lambda: write_tables(tables, trial.schema, beside, release.noted)
                )
            stored = dataset.dataset(place)
        return stored if is_dataset else stored.scanner(**_READ_AHEAD).to_reader()

    def said(self) -> Iterable[str | None]:
        frame = self._frame
        if (
            not isinstance(frame, dataset.FileSystemDataset)
            or frame.format.default_extname == "csv"
        ):
            return super().said()
        files = _files(frame)
        return (
            super().said()
            if files is None
            else quietly(lambda: set(map(said_by_file, files)))
        )

    def releases(self) -> Releases | None:
        frame = self._frame
        if (
            not isinstance(frame, dataset.FileSystemDataset)
            or frame.format.default_extname == "csv"
        ):
            return super().releases()
        files = _files(frame)
        return (
            super().releases()
            if files is None
            else quietly(lambda: joined_releases(map(releases_of_file, files)))
        )

    def tally(
        self, reports: ReportSums, protocol: ReportProtocol
    ) -> list[NDArray[np.int64]]:
        groups = protocol.counted_columns
        by_column = (
            protocol.values is not None
            and bool(groups)
            and all(len(columns) == 1 for columns in groups)
        )
        sums = reports.zeros()
        for batch in report_batches(self._frame, reports.names):
            kinds = batch.select(reports.names).schema.types
            if (
                by_column
                and batch.num_rows
                and all(map(pyarrow.types.is_dictionary, kinds))
            ):
                for name in reports.names:
                    reports.add(sums, *_count_codes(name, batch.column(name)))
            else:
                reports.add(sums, pyarrow.Table.from_batches([batch]))
        return sums

    def add_up(self, names: Sequence[Any], summary: Summary) -> list[NDArray[np.int64]]:
        return add_up_batches(self._tables(list(names)), summary)

    def _tables(self, names: list[str]) -> Iterator[Any]:
        """Read the rows that are kept, always in the same order."""
        tables, kept = self._read(names), self._kept
        return tables if kept is None else keep_marked(tables, kept)

    def _read(self, names: list[str]) -> Iterator[Any]:
        return (
            table.select(names)
            for table in arrow_tables(report_batches(self._frame, names))
        )

    def limit_persons(self, person: Any, most: int, seed: int) -> Self:
        def read() -> Iterator[Any]:
            return (table.column(0) for table in self._read([person]))

        return type(self)(self._frame, mark_rows(read, most, seed))

    def opened(self) -> Self:
        if isinstance(self._frame, pyarrow.RecordBatchReader):
            raise TypeError(
                "a RecordBatchReader can be read only once, and `fit` may read a table several times: give a pyarrow "
                "Dataset of the files, or reader.read_all() if it fits into memory"
            )
        return self

    def count_ids(self, record_id: str) -> tuple[int, int, int]:
        frame = self._frame
        if isinstance(frame, pyarrow.RecordBatchReader):
            raise ValueError(
                "a RecordBatchReader is read once, and record ids are checked before a row is privatised: give a "
                "Dataset or a Table"
            )
        if isinstance(frame, pyarrow.Table):
            return count_ids(frame, record_id)
        from skdp.engines.backends.duckdb import connect

        schema = pyarrow.schema([frame.schema.field(record_id)])
        checked = read_batches(
            frame, [record_id]
        )  # DuckDB would follow the offsets of a damaged file
        return count_ids(
            connect().from_arrow(
                pyarrow.RecordBatchReader.from_batches(schema, checked)
            ),
            record_id,
        )


class StreamedTable(ArrowTable):
    """One CSV or Arrow file, which takes less memory as a stream than with Arrow's scanner; see `TableFile.scan`."""

    def _read(self, names: list[str]) -> Iterator[Any]:
        (file,) = self._frame.files
        if _is_ipc(self._frame):
            return _ipc_tables(SourceFile(self._frame.filesystem, file), names)
        delimiter = self._frame.format.parse_options.delimiter
        return text_batches(SourceFile(self._frame.filesystem, file, delimiter), names)


def _files(frame: Any) -> list[Any] | None:
    """Return the files of a dataset, None of one that is filtered: some of their rows only."""
    try:
        return list(frame.get_fragments())
    except ValueError:
        return None


def said_by_file(file: Any) -> str | None:
    """Return the protocol that a Parquet or Arrow file says: not all writers of Parquet put it into the schema."""
    return text_of(_metadata_of(file))


def releases_of_file(file: Any) -> Releases | None:
    """Return the releases that a Parquet or Arrow file says its reports are of."""
    return releases_of(_metadata_of(file))


def _metadata_of(file: Any) -> dict[bytes, bytes]:
    parquet = isinstance(file, dataset.ParquetFileFragment)
    return (file.metadata.metadata if parquet else file.physical_schema.metadata) or {}


def read_batches(frame: Any, columns: list[str]) -> Generator[Any, None, None]:
    """Read some columns of a dataset or a reader, in order."""
    for batch in read_quietly(
        _scan(frame, columns)
        if isinstance(frame, dataset.Dataset)
        else _validated(frame)
    ):
        yield quietly(partial(batch.select, columns))


def _scan(frame: Any, columns: list[str]) -> Iterator[Any]:
    files = _ipc_files(frame, columns)
    if files is None:
        scanned = frame.scanner(
            columns=columns, batch_size=ROWS, **_READ_AHEAD
        ).to_batches()
        yield from _validated(scanned) if _is_ipc(frame) else scanned
        return
    for file in files:
        with file.open() as opened:
            for batch in _ipc_batches(opened, columns):
                yield from (
                    batch.slice(start, ROWS) for start in range(0, len(batch), ROWS)
                )


def _ipc_files(frame: Any, columns: list[str]) -> list[Any] | None:
    """Return the Arrow files of a dataset, whose scanner follows the offsets of a damaged file before we see them."""
    if not isinstance(frame, dataset.FileSystemDataset) or not _is_ipc(frame):
        return None
    files = _files(frame)
    if files is None:
        return None
    wanted = [frame.schema.field(name) for name in columns]
    return (
        files
        if all(_has_fields(file.physical_schema, wanted) for file in files)
        else None
    )


def _has_fields(schema: Any, fields: list[Any]) -> bool:
    places = [
        schema.get_field_index(field.name) for field in fields
    ]  # -1 if there is none, or more than one
    return all(
        place >= 0 and schema.types[place] == field.type
        for place, field in zip(places, fields, strict=True)
    )


def _ipc_batches(opened: Any, columns: Sequence[str]) -> Iterator[Any]:
    """Read some columns of an Arrow file, batch by batch as they were written."""
    ipc = import_extra("pyarrow.ipc", "duckdb")
    schema = ipc.open_file(opened).schema
    options = ipc.IpcReadOptions(
        included_fields=[schema.get_field_index(name) for name in columns]
    )
    reader = ipc.open_file(opened, options=options)
    return _validated(map(reader.get_batch, range(reader.num_record_batches)))


def _validated(batches: Iterable[Any]) -> Iterator[Any]:
    """Refuse offsets and codes that lead out of the memory of a batch: they would be followed."""
    for batch in batches:
        batch.validate(full=True)
        yield batch


def _is_ipc(frame: Any) -> bool:
    """Whether these are Arrow files, whose offsets and codes are believed where they are read."""
    return isinstance(getattr(frame, "format", None), dataset.IpcFileFormat)


def report_batches(frame: Any, columns: list[str]) -> Iterator[Any]:
    """Read reports, text of Parquet files as codes, in any order."""
    if isinstance(frame, pyarrow.Table):
        yield from frame.to_batches()
        return
    fragments = quietly(lambda: _coded_files(frame, columns))
    if fragments is None:
        yield from read_batches(frame, columns)
        return
    for fragment in fragments:
        yield from _parquet_batches(fragment, columns)


def _parquet_batches(fragment: Any, columns: list[str]) -> Iterator[Any]:
    """Read some columns of a Parquet file with its own reader: Arrow's scanner reads ahead of what is slower."""
    parquet = import_extra("pyarrow.parquet", "duckdb")
    text = fragment.format.read_options.dictionary_columns
    with fragment.open() as opened:
        reader = parquet.ParquetFile(
            opened, read_dictionary=list(text), pre_buffer=False
        )
        groups = [group.id for group in fragment.row_groups]
        yield from read_quietly(
            reader.iter_batches(ROWS, row_groups=groups, columns=columns)
        )


def _coded_files(frame: Any, columns: list[str]) -> list[Any] | None:
    """Return the files of a Parquet dataset, their text to be read as the codes that they hold."""
    if not isinstance(frame, dataset.FileSystemDataset) or not isinstance(
        frame.format, dataset.ParquetFileFormat
    ):
        return None
    files = _files(frame)
    if files is None:
        return None
    if not all(set(columns) <= set(file.physical_schema.names) for file in files):
        return None  # a column is in the paths
    text = [
        name
        for name in columns
        if frame.schema.field(name).type in (pyarrow.string(), pyarrow.large_string())
    ]
    coded = dataset.ParquetFileFormat(
        read_options=dataset.ParquetReadOptions(dictionary_columns=text)
    )
    return [
        coded.make_fragment(
            file.path,
            file.filesystem,
            file.partition_expression,
            row_groups=[group.id for group in file.row_groups],
        )
        for file in files
    ]


def _count_codes(name: str, column: Any) -> tuple[Any, NDArray[np.int64]]:
    """Count by the codes that a dictionary column holds: the values that occur, and how often."""
    values, codes = column.dictionary, column.indices
    counts = np.bincount(codes.drop_null().to_numpy(), minlength=len(values))
    counts = np.append(counts, codes.null_count)
    found = np.flatnonzero(counts)
    values = pyarrow.concat_arrays([values, pyarrow.nulls(1, values.type)]).take(
        pyarrow.array(found)
    )
    return pyarrow.table({name: values}), counts[found]


def _ipc_tables(source: SourceFile, names: list[str]) -> Iterator[Any]:
    """Read some columns of an Arrow file; what is mapped into memory needs none of its own, unless it is compressed."""
    with (
        pyarrow.memory_map(source.path) if source.is_local else source.open() as mapped
    ):
        for batch in read_quietly(_ipc_batches(mapped, names)):
            rows = pyarrow.Table.from_batches([batch]).select(names)
            for start in range(0, len(rows), ROWS):
                yield rows.slice(start, ROWS)
