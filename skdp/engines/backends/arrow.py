"""Arrow: datasets, readers of record batches, and tables."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.engines._atomic import written_beside
from skdp.engines._engine import Engine, add_up_batches
from skdp.engines._errors import quietly
from skdp.engines._libraries import import_extra
from skdp.engines._release import Preparation
from skdp.engines._streams import ROWS, RowStream, arrow_tables, write_tables
from skdp.tables import (
    Summary,
    text_of,
    with_protocol,
)

pyarrow = import_extra("pyarrow", "duckdb")
compute = import_extra("pyarrow.compute", "duckdb")
dataset = import_extra("pyarrow.dataset", "duckdb")
ipc = import_extra("pyarrow.ipc", "duckdb")
parquet = import_extra("pyarrow.parquet", "duckdb")
types = import_extra("pyarrow.types", "duckdb")

# Batches in memory, not the file.
_READ_AHEAD = {"batch_readahead": 8, "fragment_readahead": 2}


class ArrowTable(Engine):
    """A dataset, or a reader."""

    def __init__(self, frame: Any, marks: NDArray[np.bool_] | None = None) -> None:
        super().__init__(frame)
        self._marks = marks

    def _no_rows(self) -> Any:
        return self._frame.schema.empty_table()

    def column_names(self) -> list[Any]:
        return list(self._frame.schema.names)

    def privatize(self, preparation: Preparation, *, place: Any, check: bool) -> Any:
        frame = self._frame
        is_reader = isinstance(frame, pyarrow.RecordBatchReader)
        if is_reader and preparation.check.record_id is not None:
            raise ValueError(
                "a RecordBatchReader is read once, and record ids are checked before a "
                "row is privatised: give a Dataset or a Table"
            )
        no_reports = preparation.no_reports
        stream = RowStream(
            preparation.check,
            no_reports,
            lambda columns, n_rows: read_tables(frame, columns),
        )
        if check and not is_reader:
            quietly(stream.check)
        release = preparation.charge()
        no_reports = with_protocol(no_reports, release.protocol_text)
        reports = stream.release(release)
        if place is None:
            table = quietly(lambda: pyarrow.concat_tables([no_reports, *reports]))
            stored = dataset.dataset(table)
        else:
            schema = no_reports.schema
            with written_beside(place) as beside:
                quietly(lambda: write_tables(reports, schema, beside))
            stored = dataset.dataset(place)
        return stored.scanner(**_READ_AHEAD).to_reader() if is_reader else stored

    def said(self) -> Iterable[str | None]:
        files = self._noted_files()
        if files is None:
            return super().said()
        return quietly(lambda: {said_by_file(file) for file in files})

    def _noted_files(self) -> list[Any] | None:
        """Return the files whose metadata may say what their reports are, None if there are none."""
        frame = self._frame
        if not isinstance(frame, dataset.FileSystemDataset):
            return None
        if frame.format.default_extname == "csv":
            return None
        return _files(frame)

    def add_up(self, names: Sequence[Any], summary: Summary) -> list[NDArray[np.int64]]:
        return add_up_batches(self._tables(list(names)), summary)

    def _tables(self, names: list[str]) -> Iterator[Any]:
        """Read the rows that are kept, always in the same order."""
        tables = read_tables(self._frame, names, coded=True)
        return tables if self._marks is None else keep_marked(tables, self._marks)

    def limit_persons(self, person: Any, most: int, seed: int) -> Self:
        tables = read_tables(self._frame, [person], coded=True)
        persons = (table.column(0) for table in tables)
        return type(self)(self._frame, mark_rows(persons, most, seed))

    def opened(self) -> Self:
        if isinstance(self._frame, pyarrow.RecordBatchReader):
            raise TypeError(
                "a RecordBatchReader can be read only once, and `fit` may read a table "
                "several times: give a pyarrow Dataset of the files, or "
                "reader.read_all() if it fits into memory"
            )
        return self


def said_by_file(file: Any) -> str | None:
    """Return the protocol that a Parquet or Arrow file says: not all writers of Parquet put it into the schema."""
    return text_of(_metadata_of(file))


def _metadata_of(file: Any) -> dict[bytes, bytes]:
    if isinstance(file, dataset.ParquetFileFragment):
        return file.metadata.metadata or {}
    return file.physical_schema.metadata or {}


def read_tables(
    frame: Any, columns: list[str], *, coded: bool = False
) -> Generator[Any, None, None]:
    """Read some columns, in order; text of Parquet files as the codes that they hold, if `coded`."""
    for table in arrow_tables(_read_batches(frame, columns, coded)):
        for start in range(0, len(table), ROWS):
            yield table.slice(start, ROWS).select(columns)


def _read_batches(frame: Any, columns: list[str], coded: bool) -> Iterator[Any]:
    if isinstance(frame, pyarrow.RecordBatchReader):
        return _validated(frame)
    files = _plain_files(frame, columns)
    if files is not None:
        read_file = _ipc_batches if _is_ipc(frame) else _parquet_batches
        return chain.from_iterable(read_file(file, columns, coded) for file in files)
    scanner = frame.scanner(columns=columns, batch_size=ROWS, **_READ_AHEAD)
    batches = scanner.to_batches()
    return _validated(batches) if _is_ipc(frame) else batches


def _files(frame: Any) -> list[Any] | None:
    """Return the files of a dataset, None of one that is filtered: some of their rows only."""
    try:
        return list(frame.get_fragments())
    except ValueError:
        return None


def _plain_files(frame: Any, columns: list[str]) -> list[Any] | None:
    """Return the files of a Parquet or Arrow dataset that can be read one by one."""
    # Arrow's scanner reads ahead of what is slower, and follows the offsets of a
    # damaged Arrow file before we see them. It also gives all files the same types, and
    # reads columns out of paths: then it is needed.
    if not isinstance(frame, dataset.FileSystemDataset):
        return None
    if not (_is_ipc(frame) or isinstance(frame.format, dataset.ParquetFileFormat)):
        return None
    files = _files(frame)
    if files is None:
        return None
    fields = [frame.schema.field(name) for name in columns]
    if all(_has_fields(file.physical_schema, fields) for file in files):
        return files
    return None


def _has_fields(schema: Any, fields: list[Any]) -> bool:
    for field in fields:
        place = schema.get_field_index(field.name)
        # -1 if there is none, or more than one.
        if place < 0 or schema.types[place] != field.type:
            return False
    return True


def _parquet_batches(file: Any, columns: list[str], coded: bool) -> Iterator[Any]:
    text_columns = []
    for name in columns:
        kind = file.physical_schema.field(name).type
        if coded and kind in (pyarrow.string(), pyarrow.large_string()):
            text_columns.append(name)
    with file.open() as opened:
        reader = parquet.ParquetFile(
            opened, read_dictionary=text_columns, pre_buffer=False
        )
        row_groups = [group.id for group in file.row_groups]
        yield from reader.iter_batches(ROWS, row_groups=row_groups, columns=columns)


def _ipc_batches(file: Any, columns: list[str], coded: bool) -> Iterator[Any]:
    with file.open() as opened:
        schema = ipc.open_file(opened).schema
        options = ipc.IpcReadOptions(
            included_fields=[schema.get_field_index(name) for name in columns]
        )
        reader = ipc.open_file(opened, options=options)
        places = range(reader.num_record_batches)
        yield from _validated(map(reader.get_batch, places))


def _validated(batches: Iterable[Any]) -> Iterator[Any]:
    """Refuse offsets and codes that lead out of the memory of a batch: they would be followed."""
    for batch in batches:
        batch.validate(full=True)
        yield batch


def _is_ipc(frame: Any) -> bool:
    """Return whether these are Arrow files, whose offsets and codes are believed where they are read."""
    return isinstance(getattr(frame, "format", None), dataset.IpcFileFormat)


def mark_rows(persons: Iterable[Any], most: int, seed: int) -> NDArray[np.bool_]:
    """Mark at most `most` rows of each person, whose column comes in batches; some 40 bytes a row."""
    # **Privacy.** Which of a person's rows are kept depends on who it is, on how many
    # there are, and on the seed, but on no other person: one changes at most `most` of
    # the rows that are kept.
    chunks = []
    for column in persons:
        chunks.extend(_as_persons(column).chunks)
    if not chunks:
        return np.zeros(0, bool)
    coded = pyarrow.chunked_array(chunks).combine_chunks().dictionary_encode()
    codes = coded.indices.to_numpy(zero_copy_only=False)
    # Of equal hashes only the order is the same: rows are told apart by the codes.
    hashes = pd.util.hash_array(
        coded.dictionary.to_numpy(zero_copy_only=False),
        hash_key=f"{seed:016x}",
        categorize=False,
    )
    # The number of a row among those of its person, which are in their order.
    rank = pd.Series(codes).groupby(codes).cumcount().to_numpy()
    order_of_chance = pd.util.hash_array(hashes[codes] + rank.astype(np.uint64))
    shuffled = np.lexsort((order_of_chance, codes))
    place_of_person = pd.Series(codes[shuffled]).groupby(codes[shuffled]).cumcount()
    marks = np.zeros(len(codes), bool)
    marks[shuffled[place_of_person.to_numpy() < most]] = True
    return marks


_CHANGED = "the table has changed since the rows of persons were counted"


def keep_marked(tables: Iterable[Any], marks: NDArray[np.bool_]) -> Iterator[Any]:
    """Keep the rows of a stream of tables that are marked."""
    start = 0
    for table in tables:
        stop = start + len(table)
        if stop > marks.size:
            raise RuntimeError(_CHANGED)
        yield table.filter(pyarrow.array(marks[start:stop]))
        start = stop
    if start != marks.size:
        raise RuntimeError(_CHANGED)


def _as_persons(column: Any) -> Any:
    """Write persons as text or bytes, so that equal ones are written alike."""
    kind = column.type
    # Such as UUIDs.
    if isinstance(kind, pyarrow.BaseExtensionType):
        kind = kind.storage_type
        column = column.cast(kind)
    if types.is_dictionary(kind):
        kind = kind.value_type
        column = column.cast(kind)
    if types.is_floating(kind):
        # -0.0 is 0.0.
        column = compute.add(column.cast(pyarrow.float64()), 0.0)
    is_bytes = (
        types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_fixed_size_binary(kind)
    )
    try:
        return column.cast(
            pyarrow.large_binary() if is_bytes else pyarrow.large_string()
        )
    except pyarrow.ArrowNotImplementedError:
        # By the type alone: what Arrow cannot write, such as a list, is no person.
        raise TypeError(
            "groups must be a column of text, bytes, numbers, dates or times, one"
            f" value for each person, got {column.type}; make a column of one such"
            " value, such as a field of the struct"
        ) from None
