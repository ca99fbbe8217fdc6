"""Polars: lazy frames, read in batches by the streaming engine; reports are counted by Polars itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from skdp.engines import _memory
from skdp.engines._batches import batch_rows, even, in_turn, placed
from skdp.engines._counts import Counter, group_columns
from skdp.engines._engine import import_extra, tell_of_lazy_reports
from skdp.engines._files import check_path, written_beside
from skdp.engines._processes import in_processes
from skdp.engines._release import Plan, Release

# Before, a stream of batches ended without a word when its source failed.
polars = import_extra("polars", "polars", least="1.37")

_FEW = 32


def accepts(frame: Any) -> bool:
    """Say whether it is a lazy frame or a frame.

    Parameters
    ----------
    frame : object
        Of Polars.

    Returns
    -------
    bool
        True if it is.
    """
    return isinstance(frame, polars.LazyFrame | polars.DataFrame)


def privatize(frame: Any, plan: Plan, *, persist: bool, path: Any) -> Any:
    """Privatise a lazy frame, or a frame.

    Parameters
    ----------
    frame : polars.LazyFrame or DataFrame
        True rows.
    plan : Plan
        Checks, charges, and says what privatises.
    persist : bool
        Whether to store the reports before they are handed out; else each evaluation computes the same ones anew.
    path : path-like or None
        Where to write the reports.

    Returns
    -------
    same kind as the frame
        The reports.
    """
    if isinstance(frame, polars.DataFrame):
        return _memory.privatize(frame, plan, persist=persist, path=path)
    place = check_path(path)
    release, trial = plan(polars.DataFrame(schema=frame.collect_schema()))
    batches = _Batches(frame.select(release.columns), release, batch_rows(trial.width))
    if persist and place is None:
        return polars.concat([trial, *batches]).lazy()
    from polars.io.plugins import register_io_source

    lazy = register_io_source(batches.read, schema=trial.schema)
    if not persist:
        tell_of_lazy_reports()
        return lazy
    assert place is not None
    with written_beside(place) as beside:
        try:
            lazy.sink_parquet(beside)
        except polars.exceptions.PolarsError:
            if batches.refusal is None:
                raise
            # Polars would make an error of its own kind of it.
            raise batches.refusal from None
    return polars.scan_parquet(place)


class _Batches:
    """The reports of a lazy frame, batch by batch: the same ones each time they are asked for."""

    def __init__(self, rows: Any, release: Release, size: int) -> None:
        self._rows = rows
        self._release = release
        self._size = size
        self.refusal: ValueError | None = None

    def __iter__(self) -> Iterator[Any]:
        # Not the reader's own batches: coins depend on where a batch starts.
        tables = even(self._rows.collect_batches(chunk_size=self._size), self._size, polars.concat)
        try:
            draw, workers = in_processes(self._release)
            yield from in_turn(lambda item: draw(*item), placed(tables), workers)
        except ValueError as error:
            self.refusal = error
            raise

    def read(self, columns: list[str] | None, predicate: Any, n_rows: int | None, _: int | None) -> Iterator[Any]:
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


def column_names(frame: Any) -> list[Any]:
    """Name the columns, without reading a row.

    Parameters
    ----------
    frame : polars.LazyFrame or DataFrame
        The table.

    Returns
    -------
    list of str
        The names.
    """
    return frame.collect_schema().names()


def tally(frame: Any, transformer: Any) -> Any:
    """Sum up the reports of a lazy frame, or a frame.

    Parameters
    ----------
    frame : polars.LazyFrame or DataFrame
        Reports.
    transformer : local transformer
        Fitted.

    Returns
    -------
    same kind as what the transformer's `tally` returns
        The sums.
    """
    counter = Counter(transformer)
    lazy = frame.lazy()
    groups = group_columns(transformer)
    if groups and _is_short_text(lazy, transformer):
        _count_text(lazy, transformer, counter)
        return counter.total()
    for columns in groups:
        counted = lazy.select(columns).group_by(columns).agg(polars.len().alias("")).collect(engine="streaming")
        counter.add_groups(counted.select(columns), counted.to_series(-1).to_numpy().astype(np.int64))
    if not groups:
        for batch in lazy.select(transformer._own_names()).collect_batches(maintain_order=False):
            counter.add(batch)
    return counter.total()


def _is_short_text(frame: Any, transformer: Any) -> bool:
    domain, schema = transformer.domain_, frame.collect_schema()
    text = all(schema[name] == polars.String for name in domain.columns)
    values = [value for name in domain.columns for value in domain[name].values if value is not None]
    few = len(values) <= _FEW and all(isinstance(value, str) for value in values)
    return text and few and transformer._strategy == "split"


def _count_text(frame: Any, transformer: Any, counter: Counter) -> None:
    """Compare each column with each of a few values: less work than to group by them."""
    domain = transformer.domain_
    rows = [(name, value) for name in domain.columns for value in domain[name].values]
    matches = [polars.col(name).eq_missing(polars.lit(value, polars.String)).sum() for name, value in rows]
    asked = [match.alias(str(place)) for place, match in enumerate(matches)]
    *counts, n_rows = frame.select(*asked, polars.len().alias("rows")).collect(engine="streaming").row(0)
    for name in domain.columns:
        own = [count for (column, _), count in zip(rows, counts, strict=True) if column == name]
        values = polars.DataFrame({name: domain[name].values}, schema={name: polars.String})
        counter.add_groups(values, np.array(own, np.int64), n_rows=n_rows)
