"""Sums over the rows of a pyarrow Dataset: read batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skdp.engines._arrow import coded_files, is_ipc, parquet_batches, read_batches, validate
from skdp.engines._csv import text_batches
from skdp.engines._engine import import_extra
from skdp.engines._errors import read_quietly
from skdp.engines._large import add_up_batches
from skdp.frames import LargeTable, Summary

pyarrow = import_extra("pyarrow", "duckdb")

_ROWS = 1 << 17


class ArrowTable(LargeTable):
    """A dataset."""

    def __init__(self, frame: Any, kept: LargeTable | None = None) -> None:
        self._frame, self._kept = frame, kept
        self.sample = frame.schema.empty_table()

    def add_up(self, names: Sequence[Any], summary: Summary) -> list[NDArray[np.int64]]:
        if self._kept is not None:
            return self._kept.add_up(names, summary)
        return add_up_batches(self._tables(list(names)), summary)

    def _tables(self, names: list[str]) -> Iterator[Any]:
        """Read some columns in batches."""
        for batch in read_quietly(_batches(self._frame, names)):
            yield pyarrow.Table.from_batches([batch]).select(names)

    def limit_persons(self, person: Any, most: int, seed: int) -> Self:
        return type(self)(self._frame, _in_an_engine(self._frame).limit_persons(person, most, seed))


class StreamedTable(ArrowTable):
    """One CSV or Arrow file, which takes less memory as a stream than with Arrow's scanner; see `TableFile.scan`."""

    def _tables(self, names: list[str]) -> Iterator[Any]:
        (file,) = self._frame.files
        return text_batches(Path(file), names) if file.endswith(".csv") else _ipc_tables(file, names)


def open_table(frame: Any) -> ArrowTable:
    """Open a dataset."""
    return ArrowTable(frame)


def _batches(frame: Any, names: list[str]) -> Iterator[Any]:
    """Read some columns; of Parquet files with their own reader."""
    files = coded_files(frame, names)
    if files is None:
        yield from read_batches(frame, names)
        return
    for file in files:
        yield from parquet_batches(file, names, _ROWS)


def _ipc_tables(file: str, names: list[str]) -> Iterator[Any]:
    """Read some columns of an Arrow file; what is mapped into memory needs none of its own, unless it is compressed."""
    ipc = import_extra("pyarrow.ipc", "duckdb")
    with pyarrow.memory_map(file) as mapped:
        schema = ipc.open_file(mapped).schema
        options = ipc.IpcReadOptions(included_fields=[schema.get_field_index(name) for name in names])
        reader = ipc.open_file(mapped, options=options)
        for place in range(reader.num_record_batches):
            batch = reader.get_batch(place)
            validate(batch)
            rows = pyarrow.Table.from_batches([batch]).select(names)
            for start in range(0, len(rows), _ROWS):
                yield rows.slice(start, _ROWS)


def _in_an_engine(frame: Any) -> LargeTable:
    """Hand a dataset to DuckDB, which can do with less memory than the rows take, or else to Polars."""
    names = frame.schema.names
    if is_ipc(frame):  # both would follow the offsets of a damaged file
        for _ in read_batches(frame, names):
            pass
    clash = len({name.casefold() for name in names}) < len(names)  # DuckDB takes a and A for one column
    for open_it in (_in_polars,) if clash else (_in_duckdb, _in_polars):
        try:
            return open_it(frame)
        except ImportError:
            continue
    raise ImportError(
        "duckdb or polars is needed here, to bring the rows of a person together: pip install skdp[duckdb] or "
        "skdp[polars]"
    )


def _in_duckdb(frame: Any) -> LargeTable:
    from skdp.engines._duckdb import connect
    from skdp.engines._large_duckdb import DuckDBTable

    return DuckDBTable(connect().from_arrow(frame))


def _in_polars(frame: Any) -> LargeTable:
    polars = import_extra("polars", "polars")
    from skdp.engines._large_polars import PolarsTable

    return PolarsTable(polars.scan_pyarrow_dataset(frame))
