"""Polars: lazy frames, read in batches by the streaming engine; reports are counted by Polars itself."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skdp.engines._atomic import check_path, written_beside
from skdp.engines._engine import (
    Engine,
    MemoryTable,
    ReportSums,
    add_up_batches,
    counted_groups,
)
from skdp.engines._errors import quietly, read_quietly
from skdp.engines._libraries import import_extra, tell_of_lazy_reports
from skdp.engines._release import Preparation, Release
from skdp.engines._streams import ROWS, RowStream
from skdp.local import ReportProtocol
from skdp.tables import PROTOCOL_KEY, RELEASES_KEY, Summary

# Before, a stream of batches ended without a word when its source failed.
polars = import_extra("polars", "polars", least="1.37")

_ONE = polars.lit(1, polars.UInt64)
_MOST_ROWS = (
    (1 << 32) - 1 if polars.get_index_type() == polars.UInt32 else (1 << 64) - 1
)
"""Of a frame or a Parquet file that Polars makes."""


class PolarsTable(Engine):
    """A lazy frame, or a frame."""

    kinds = (polars.LazyFrame, polars.DataFrame)

    def _no_rows(self) -> Any:
        return polars.DataFrame(schema=self._frame.collect_schema())

    def column_names(self) -> list[Any]:
        return self.sample.columns

    def check_output(self, *, persist: bool, path: Any, check: bool) -> None:
        if isinstance(self._frame, polars.DataFrame):
            MemoryTable(self._frame).check_output(
                persist=persist, path=path, check=check
            )
        if not (persist or check):
            raise ValueError(
                "persist=False needs check=True: what is evaluated again is compared "
                "with what was checked"
            )
        super().check_output(persist=persist, path=path, check=check)

    def privatize(
        self, preparation: Preparation, *, persist: bool, path: Any, check: bool
    ) -> Any:
        frame = self._frame
        if isinstance(frame, polars.DataFrame):
            return MemoryTable(frame).privatize(
                preparation, persist=persist, path=path, check=check
            )
        no_reports = preparation.no_reports
        stream = RowStream(
            preparation.check, no_reports, partial(_read_tables, frame), polars.concat
        )
        quietly(lambda: stream.check(rows=check, with_contents=not persist))
        if persist and stream.n_rows > _MOST_ROWS:
            raise ValueError(
                f"the table has more rows ({stream.n_rows:,}) than this build of "
                "Polars counts: install polars[rt64], or give a pyarrow Dataset or a "
                "DuckDB relation"
            )
        release = preparation.charge()
        place = check_path(path)
        if persist and place is None:
            reports = stream.release(release)
            stored = quietly(lambda: polars.concat([no_reports, *reports]))
            release.close()
            return stored.lazy()
        from polars.io.plugins import register_io_source

        source = _ReportSource(stream, release)
        lazy = register_io_source(source.read, schema=no_reports.schema)
        if not persist:
            tell_of_lazy_reports()
            return lazy
        assert place is not None
        with written_beside(place) as beside:
            quietly(lambda: source.sink(lazy, beside))
        return polars.scan_parquet(place)

    def tally(
        self, reports: ReportSums, protocol: ReportProtocol
    ) -> list[NDArray[np.int64]]:
        groups = counted_groups(protocol)
        if not groups:
            return super().tally(reports, protocol)
        sums = reports.zeros()
        for columns in groups:
            query = count_groups(self._frame.lazy(), columns)
            rows = quietly(partial(query.collect, engine="streaming"))
            counts = rows.to_series(-1).to_numpy().astype(np.int64)
            reports.add(sums, rows.select(columns), counts)
        return sums

    def add_up(self, names: Sequence[Any], summary: Summary) -> list[NDArray[np.int64]]:
        batches = (
            self._frame.lazy()
            .select(names)
            .collect_batches(chunk_size=ROWS, maintain_order=False)
        )
        return add_up_batches(read_quietly(batches), summary)

    def limit_persons(self, person: Any, most: int, seed: int) -> Self:
        rank = polars.struct(polars.all()).hash(seed).rank("ordinal").over(person)
        return type(self)(self._frame.filter(rank <= most))


def _read_tables(
    frame: Any, columns: list[str], n_rows: int
) -> Generator[Any, None, None]:
    def read() -> Iterator[Any]:
        # Not before it is asked for: Polars begins to read at once.
        yield from frame.select(columns).collect_batches(chunk_size=n_rows)

    return read_quietly(read())


class _ReportSource:
    """The reports of a lazy frame for queries of Polars: the same ones each time that they are asked for, or none."""

    def __init__(self, stream: RowStream, release: Release) -> None:
        self._stream = stream
        self._release = release
        self._error: Exception | None = None

    def read(
        self,
        columns: list[str] | None,
        predicate: Any,
        n_rows: int | None,
        _: int | None,
    ) -> Iterator[Any]:
        """Give what a query asks for."""
        for batch in self._batches():
            part = batch if n_rows is None else batch.head(n_rows)
            if n_rows is not None:
                n_rows -= part.height
            if predicate is not None:
                part = part.filter(predicate)
            yield part if columns is None else part.select(columns)
            if n_rows == 0:
                return

    def _batches(self) -> Iterator[Any]:
        try:
            yield from self._stream.release(self._release)
        except Exception as error:
            self._error = error
            raise

    def sink(self, lazy: Any, place: Path) -> None:
        """Write all reports to a Parquet file."""

        def note(_: Any) -> dict[str, str]:
            # Polars asks for it when all rows are written.
            releases = self._release.close()
            text = self._release.protocol_text
            notes = {}
            if text is not None:
                notes[PROTOCOL_KEY] = text
                if releases is not None:
                    notes[RELEASES_KEY] = json.dumps(releases)
            return notes

        # Opened here: threads of Polars may create a file after the error that ends the
        # query, and so after its removal.
        try:
            with place.open("wb") as file:
                lazy.sink_parquet(file, metadata=note)
        except polars.exceptions.PolarsError:
            if self._error is None:
                raise
            # Polars made an error of its own of it.
            raise self._error from None


def count_groups(frame: Any, columns: list[str]) -> Any:
    """Count rows by value, in 64 bits: `polars.len` stops at 2**32, and sums of booleans start again from 0 there."""
    rows = frame.select(columns).with_columns(_ONE.alias(""))
    return rows.group_by(columns).agg(polars.col("").sum())
