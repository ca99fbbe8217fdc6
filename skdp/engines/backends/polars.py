"""Polars: lazy frames, read in batches by the streaming engine; reports are counted by Polars itself."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skdp.domain import Domain
from skdp.engines._atomic import check_path, written_beside
from skdp.engines._batch_release import BatchCheck, Plan, Release, in_processes
from skdp.engines._engine import (
    ROWS,
    Engine,
    ReportSums,
    add_up_batches,
    counted_groups,
)
from skdp.engines._errors import RefusedBatch, quietly, read_quietly
from skdp.engines._extras import import_extra
from skdp.engines._randomness import Place
from skdp.engines._registry import tell_of_lazy_reports
from skdp.engines.backends.batches import (
    batch_rows,
    check_batches,
    even,
    in_turn,
    placed,
    read_again,
)
from skdp.engines.backends.memory import MemoryTable
from skdp.local import ReportProtocol
from skdp.tables import PROTOCOL_KEY, RELEASES_KEY, Summary

# Before, a stream of batches ended without a word when its source failed.
polars = import_extra("polars", "polars", least="1.37")

_FEW = 32
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

    def privatize(self, plan: Plan, *, persist: bool, path: Any, check: bool) -> Any:
        frame = self._frame
        if isinstance(frame, polars.DataFrame):
            return MemoryTable(frame).privatize(
                plan, persist=persist, path=path, check=check
            )
        if not (persist or check):
            raise ValueError(
                "persist=False needs check=True: what is evaluated again is compared with what was checked"
            )
        place = check_path(path)

        def look(check: BatchCheck, trial: Any) -> tuple[dict[int, bytes] | None, Any]:
            size = batch_rows(trial.width)
            rows = frame.select(check.columns)
            found = check_batches(
                read_quietly(_read(rows, size)),
                check,
                size,
                polars.concat,
                digests=not persist,
            )
            if not persist:
                return found.digests, None
            if found.rows > _MOST_ROWS:
                raise RefusedBatch(
                    f"the table has more rows ({found.rows:,}) than this build of Polars counts: install polars[rt64], "
                    "or give a pyarrow Dataset or a DuckDB relation"
                )
            return None, read_again(_read(rows, size), found)

        release, trial, found = plan(self.sample, look=look if check else None)
        digests, opened = (None, None) if found is None else found
        batches = _Batches(
            frame.select(release.check.columns),
            release,
            batch_rows(trial.width),
            digests,
            opened,
        )
        if persist and place is None:
            stored = quietly(lambda: polars.concat([trial, *batches]))
            release.close()
            return stored.lazy()
        from polars.io.plugins import register_io_source

        lazy = register_io_source(batches.read, schema=trial.schema)
        if not persist:
            tell_of_lazy_reports()
            return lazy
        assert place is not None
        with written_beside(place) as beside:
            quietly(lambda: _sink(lazy, batches, beside, release))
        return polars.scan_parquet(place)

    def tally(
        self, reports: ReportSums, protocol: ReportProtocol
    ) -> list[NDArray[np.int64]]:
        groups, values, lazy = (
            counted_groups(protocol),
            protocol.values,
            self._frame.lazy(),
        )
        if not groups or values is None:
            return super().tally(reports, protocol)
        if _is_short_text(self.sample.schema, protocol, values):
            sums = _count_text(lazy, values, reports)
            if sums is not None:
                return sums
        sums = reports.zeros()
        for columns in groups:
            found = quietly(
                lambda: count_groups(lazy, columns).collect(engine="streaming")  # noqa: B023 - called now
            )
            reports.add(
                sums,
                found.select(columns),
                found.to_series(-1).to_numpy().astype(np.int64),
            )
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


def _sink(lazy: Any, batches: _Batches, place: Path, release: Release) -> None:
    def note(_: Any) -> dict[str, str]:
        # Polars asks for it when all rows are written.
        releases = release.close()
        noted = {} if releases is None else {RELEASES_KEY: json.dumps(releases)}
        return {} if release.said is None else {PROTOCOL_KEY: release.said, **noted}

    # Opened here: threads of Polars may create a file after the error that ends the query, and so after its removal.
    try:
        with place.open("wb") as file:
            lazy.sink_parquet(file, metadata=note)
    except polars.exceptions.PolarsError:
        if batches.failed is None:
            raise
        raise batches.failed from None  # of which Polars made an error of its own


def _read(frame: Any, rows: int) -> Iterator[Any]:
    yield from frame.collect_batches(chunk_size=rows)


@dataclass(eq=False, repr=False)
class _Batches:
    """The reports of a lazy frame, batch by batch: the same ones each time that they are asked for, or none."""

    rows: Any
    release: Release
    size: int
    digests: dict[int, bytes] | None
    opened: Any
    failed: Exception | None = None

    def __iter__(self) -> Iterator[Any]:
        # Not the reader's own batches: random bits depend on where a batch starts.
        batches = (
            read_quietly(_read(self.rows, self.size))
            if self.opened is None
            else self.opened
        )
        try:
            draw, workers = in_processes(self.release)
            whole = even(batches, self.size, polars.concat)
            if (
                self.digests is None
            ):  # the digests count the ids; else nothing is shown before all is written
                whole = self.release.check.distinct_in_all(whole)
            yield from in_turn(
                lambda item: draw(*item, self._expected(item[1])),
                placed(whole),
                workers,
            )
        except Exception as error:
            self.failed = error
            raise

    def _expected(self, place: Place) -> bytes | None:
        # A place has the reports of the rows that were checked, or none: not even of one more batch.
        return None if self.digests is None else self.digests.get(place.first, b"")

    def read(
        self,
        columns: list[str] | None,
        predicate: Any,
        n_rows: int | None,
        _: int | None,
    ) -> Iterator[Any]:
        """Give what a query of Polars asks for."""
        for batch in self:
            part = batch if n_rows is None else batch.head(n_rows)
            if n_rows is not None:
                n_rows -= part.height
            if predicate is not None:
                part = part.filter(predicate)
            yield part if columns is None else part.select(columns)
            if n_rows == 0:
                return


def count_groups(frame: Any, columns: list[str]) -> Any:
    """Count rows by value, in 64 bits: `polars.len` stops at 2**32, and sums of booleans start again from 0 there."""
    rows = frame.select(columns).with_columns(_ONE.alias(""))
    return rows.group_by(columns).agg(polars.col("").sum())


def _is_short_text(schema: Any, protocol: ReportProtocol, domain: Domain) -> bool:
    text = all(schema[name] == polars.String for name in domain.columns)
    values = [
        value
        for name in domain.columns
        for value in domain[name].values
        if value is not None
    ]
    few = len(values) <= _FEW and all(isinstance(value, str) for value in values)
    return (
        text and few and all(len(columns) == 1 for columns in protocol.counted_columns)
    )


def _count_text(
    frame: Any, domain: Domain, reports: ReportSums
) -> list[NDArray[np.int64]] | None:
    """Compare each column with each of a few values, less work than to group by them; None if there are others."""
    asked = [(name, value) for name in domain.columns for value in domain[name].values]
    *counts, n_rows = quietly(
        lambda: count_matches(frame, asked).collect(engine="streaming").row(0)
    )
    found, sums = iter(counts), reports.zeros()
    for name in domain.columns:
        values = polars.DataFrame(
            {name: domain[name].values}, schema={name: polars.String}
        )
        own = np.array(list(islice(found, len(values))), np.int64)
        if own.sum() != n_rows:
            return None
        reports.add(sums, values, own)
    return sums


def count_matches(frame: Any, asked: list[tuple[str, Any]]) -> Any:
    """Count the rows that have each of a few values, and all rows; in 64 bits, as `count_groups` does."""
    matches = [
        polars.col(name).eq_missing(polars.lit(value, polars.String))
        for name, value in asked
    ]
    every = polars.col(asked[0][0]).is_null().or_(polars.lit(True))
    return frame.select(
        match.cast(polars.UInt64).sum().alias(str(place))
        for place, match in enumerate([*matches, every])
    )
