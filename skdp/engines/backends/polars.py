"""Polars: lazy frames, read in batches by the streaming engine; reports are counted by Polars itself."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skdp.engines._atomic import written_beside
from skdp.engines._engine import Engine, add_up_batches
from skdp.engines._errors import quietly, read_quietly
from skdp.engines._libraries import import_extra
from skdp.engines._release import Preparation, Release
from skdp.engines._streams import ROWS, RowStream
from skdp.tables import PROTOCOL_KEY, Summary

# Before, a stream of batches ended without a word when its source failed.
polars = import_extra("polars", "polars", least="1.37")

# Of a frame or a Parquet file that Polars makes.
_MOST_ROWS = (
    (1 << 32) - 1 if polars.get_index_type() == polars.UInt32 else (1 << 64) - 1
)


class PolarsTable(Engine):
    """A lazy frame."""

    def _no_rows(self) -> Any:
        return polars.DataFrame(schema=self._frame.collect_schema())

    def column_names(self) -> list[Any]:
        return self.sample.columns

    def privatize(self, preparation: Preparation, *, place: Any, check: bool) -> Any:
        no_reports = preparation.no_reports
        read = partial(_read_tables, self._frame)
        stream = RowStream(preparation.check, no_reports, read, polars.concat)
        if check:
            quietly(stream.check)
        if stream.n_rows > _MOST_ROWS:
            raise ValueError(
                f"the table has more rows ({stream.n_rows:,}) than this build of "
                "Polars counts: install polars[rt64], or give a pyarrow Dataset or a "
                "DuckDB relation"
            )
        release = preparation.charge()
        reports = stream.release(release)
        if place is None:
            stored = quietly(lambda: polars.concat([no_reports, *reports]))
            return stored.lazy()
        with written_beside(place) as beside:
            quietly(lambda: _write(reports, no_reports.schema, release, beside))
        return polars.scan_parquet(place)

    def add_up(self, names: Sequence[Any], summary: Summary) -> list[NDArray[np.int64]]:
        batches = self._frame.select(names).collect_batches(
            chunk_size=ROWS, maintain_order=False
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


def _write(reports: Iterable[Any], schema: Any, release: Release, place: Path) -> None:
    """Write a stream of reports to a Parquet file as they come."""
    from polars.io.plugins import register_io_source

    errors = []

    # A frame that is only written selects nothing of its source.
    def read(*_: Any) -> Iterator[Any]:
        try:
            yield from reports
        except Exception as error:
            errors.append(error)
            raise

    metadata = None
    if release.protocol_text is not None:
        metadata = {PROTOCOL_KEY: release.protocol_text}

    # Opened here: threads of Polars may create a file after the error that ends the
    # query, and so after its removal.
    try:
        with place.open("wb") as file:
            register_io_source(read, schema=schema).sink_parquet(
                file, metadata=metadata
            )
    except polars.exceptions.PolarsError:
        if not errors:
            raise
        # Polars made an error of its own of it.
        raise errors[0] from None
