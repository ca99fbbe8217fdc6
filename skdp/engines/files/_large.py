"""A file as a table that stays where it is: a synthesizer is fitted to it as to a table of an engine."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Self

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from skdp.base import (
    LARGEST_WHOLE,
    MISSING_TEXTS,
    date_dtype,
    declares_zone,
    type_of_values,
)
from skdp.domain import Domain, Interval
from skdp.engines._atomic import Bar, Progress, shown
from skdp.engines._csv import exact_type, readers, unreadable_error
from skdp.engines._errors import UnreadableError, UnreadableTable
from skdp.engines._extras import Extra
from skdp.engines._registry import is_damage
from skdp.engines._source_file import SourceFile
from skdp.engines.files._formats import TableFile
from skdp.tables import LargeTable, Summary

pyarrow, compute = Extra("pyarrow"), Extra("pyarrow.compute")


@dataclass(eq=False, repr=False)
class FileTable(LargeTable):
    """The rows of a file that a synthesizer is to be fitted to; it takes them as it takes a table of an engine."""

    rows: LargeTable
    sample: Any
    read: Callable[[Any], Any]
    shown: Callable[[], AbstractContextManager[Bar]]
    file: SourceFile
    is_csv: bool

    def add_up(self, names: Sequence[Any], summary: Summary) -> list[NDArray[np.int64]]:
        try:
            with self.shown() as bar:
                return self.rows.add_up(names, _ShownSummary(summary, self.read, bar))
        except Exception as error:
            if is_damage(error):
                error = UnreadableTable(type(error).__name__, "CSV" in str(error))
            if not isinstance(error, UnreadableTable):
                raise
            # What an engine says of a CSV file that is none has a row of it.
            failed = UnreadableError(f"{self.file.name} cannot be read ({error.kind})")
            if error.is_csv and self.is_csv:
                failed = unreadable_error(self.file)
        raise failed

    def limit_persons(self, person: Any, most: int, seed: int) -> Self:
        return replace(self, rows=self.rows.limit_persons(person, most, seed))


class _ShownSummary:
    """A `skdp.tables.Summary` of rows that are typed first, and shown by a bar."""

    def __init__(self, summary: Summary, read: Callable[[Any], Any], bar: Bar) -> None:
        self._summary, self._read, self._bar = summary, read, bar

    def zeros(self) -> list[NDArray[np.int64]]:
        return self._summary.zeros()

    def add(
        self,
        sums: list[NDArray[np.int64]],
        batch: Any,
        counts: NDArray[np.int64] | None = None,
    ) -> None:
        self._summary.add(sums, self._read(batch), counts)
        self._bar.update(len(batch) if counts is None else int(counts.sum()))

    def n_distinct(self, sample: Any) -> float:
        return math.inf  # text may be written in many ways, and a bar is to move


def open_file(
    table: TableFile, domain: Domain, person: str | None, progress: Progress
) -> FileTable:
    """Open the columns of a domain in a file, in the order of the file, and that of the persons."""
    from skdp.engines.backends.arrow import ArrowTable, StreamedTable

    table.check_columns([*domain.columns, *([] if person is None else [person])])
    if person in domain.columns:
        raise ValueError(
            f"the domain declares {person!r}, which says who a row is about; remove it there"
        )
    names = [name for name in table.names if name in domain.columns or name == person]
    rows = (ArrowTable if table.format == "parquet" else StreamedTable)(
        table.scan(names)
    )
    is_csv = table.format == "csv"
    sample, read = (
        (_typed_sample(domain, names), _text_reader(domain))
        if is_csv
        else (rows.sample, _unchanged)
    )
    total = None if person is not None else table.count_rows()
    return FileTable(
        rows,
        sample,
        read,
        lambda: shown(progress, total, "reading"),
        table.path,
        is_csv,
    )


def _unchanged(batch: Any) -> Any:
    return batch


def _text_reader(domain: Domain) -> Callable[[Any], Any]:
    """Build the parser of a batch of text; persons stay text."""
    known, missing = readers(domain, strict=True), pyarrow.array(MISSING_TEXTS)

    def read(batch: Any) -> Any:
        texts = nw.from_native(batch, eager_only=True).to_arrow()
        made = {}
        for name in texts.column_names:
            column = texts[name].cast(pyarrow.string())
            if name in known:
                made[name] = known[name][1](column)
            else:
                made[name] = compute.if_else(
                    compute.is_in(column, missing), None, column
                )
        return pyarrow.table(made)

    return read


def _typed_sample(domain: Domain, names: Sequence[str]) -> Any:
    """Make a table without rows of the types that the domain says."""
    types = {
        name: _type_of(name, domain[name]) for name in names if name in domain.columns
    }
    sample = pyarrow.schema(types.items()).empty_table()
    for person in set(names) - set(types):
        sample = sample.append_column(person, pyarrow.array([], pyarrow.string()))
    return sample


def _type_of(name: str, values: Any) -> Any:
    """Return Arrow's type that can hold the declared values, whatever the data have."""
    dates = date_dtype(values)
    if dates is not None:
        is_day = dates == np.dtype("datetime64[D]")
        return pyarrow.date32() if is_day else pyarrow.timestamp("us")
    if declares_zone(values):
        return pyarrow.timestamp("us", "UTC")
    kind = type_of_values(values)
    if kind is Decimal:
        return exact_type(name, values)
    if isinstance(values, Interval):
        edges = np.array(values.edges)
        is_real = values.real or np.abs(edges).max() >= LARGEST_WHOLE
        kind = float if is_real else int
    known = {bool: pyarrow.bool_(), int: pyarrow.int64(), float: pyarrow.float64()}
    return known.get(kind or str, pyarrow.string())
