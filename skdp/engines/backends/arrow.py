"""Arrow: datasets, and readers of record batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Self

from skdp.engines._engine import ROWS, Engine
from skdp.engines._errors import quietly
from skdp.engines._libraries import import_extra
from skdp.engines._release import Preparation
from skdp.engines._streams import StreamTable, Tables, arrow_tables
from skdp.tables import text_of

pyarrow = import_extra("pyarrow", "duckdb")
dataset = import_extra("pyarrow.dataset", "duckdb")
ipc = import_extra("pyarrow.ipc", "duckdb")

# Batches in memory, not the file.
_READ_AHEAD = {"batch_readahead": 8, "fragment_readahead": 2}


class ArrowTable(StreamTable):
    """A dataset, or a reader."""

    # The column of persons, their largest number of rows, and a seed; None for all rows.
    limit: tuple[str, int, int] | None = None

    @property
    def _is_reader(self) -> bool:
        return isinstance(self._frame, pyarrow.RecordBatchReader)

    def _make_empty_table(self) -> Any:
        return self._frame.schema.empty_table()

    def column_names(self) -> list[Any]:
        return list(self._frame.schema.names)

    def privatize(self, preparation: Preparation, *, place: Any, check: bool) -> Any:
        if self._is_reader and preparation.check.record_id is not None:
            raise ValueError(
                "a RecordBatchReader is read once, and record ids are checked before a "
                "row is privatised: give a Dataset or a Table"
            )
        check = check and not self._is_reader
        return super().privatize(preparation, place=place, check=check)

    def reports(self, stored: Any) -> Any:
        reports = dataset.dataset(stored)
        return (
            reports.scanner(**_READ_AHEAD).to_reader() if self._is_reader else reports
        )

    def said(self) -> Iterable[str | None]:
        is_csv = getattr(getattr(self._frame, "format", None), "default_extname", "")
        if not isinstance(self._frame, dataset.FileSystemDataset) or is_csv == "csv":
            return super().said()
        return quietly(lambda: protocols_of(self._frame))

    def read(self, columns: Sequence[Any]) -> Tables:
        if self.limit is None:
            yield from read_dataset(self._frame, columns)
            return
        from skdp.engines.backends.duckdb import limit_rows

        schema = self._frame.schema
        tables = read_dataset(self._frame, schema.names)
        for table in limit_rows(tables, schema, *self.limit):
            yield table.select(columns)

    def opened(self) -> Engine:
        if self._is_reader:
            raise TypeError(
                "a RecordBatchReader can be read only once, and `fit` may read a table "
                "several times: give a pyarrow Dataset of the files, or "
                "reader.read_all() if it fits into memory"
            )
        return self

    def limit_persons(self, person: Any, most: int, seed: int) -> Self:
        limited = type(self)(self._frame)
        limited.limit = person, most, seed
        return limited


def protocols_of(frame: Any) -> set[str | None]:
    """Return the protocols in the metadata of the files of a dataset."""
    texts = set()
    try:
        files = list(frame.get_fragments())
    # A filtered dataset.
    except ValueError:
        return {text_of(frame.schema.metadata or {})}
    for file in files:
        metadata = file.physical_schema.metadata
        # Not all writers of Parquet put it into the schema.
        if isinstance(file, dataset.ParquetFileFragment):
            metadata = file.metadata.metadata
        texts.add(text_of(metadata or {}))
    return texts


def read_dataset(frame: Any, columns: Sequence[Any]) -> Tables:
    """Read some columns of a dataset or reader, in order."""
    is_ipc = isinstance(getattr(frame, "format", None), dataset.IpcFileFormat)
    if isinstance(frame, pyarrow.RecordBatchReader):
        batches = iter(frame)
    elif is_ipc:
        batches = _ipc_batches(frame)
    else:
        options = {"columns": list(columns), "batch_size": ROWS}
        batches = frame.scanner(**options, **_READ_AHEAD).to_batches()
    is_parquet = isinstance(getattr(frame, "format", None), dataset.ParquetFileFormat)
    for table in arrow_tables(batches):
        if not is_parquet:
            # Offsets and codes that lead out of the memory of a batch would be followed.
            quietly(partial(table.validate, full=True))
        for start in range(0, len(table), ROWS):
            yield table.slice(start, ROWS).select(columns)


def _ipc_batches(frame: Any) -> Iterator[Any]:
    """Read Arrow files as they are: the scanner follows the offsets of a damaged one."""
    for file in frame.get_fragments():
        with file.open() as opened:
            reader = ipc.open_file(opened)
            yield from map(reader.get_batch, range(reader.num_record_batches))
