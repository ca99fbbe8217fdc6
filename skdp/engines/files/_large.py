"""A file as a table that stays where it is: a synthesizer is fitted to it as to a table of an engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skdp.base import LARGEST_WHOLE, date_dtype, declares_zone, type_of_values
from skdp.domain import Domain, Interval
from skdp.engines._atomic import Progress, shown
from skdp.engines._csv import exact_type
from skdp.engines._engine import add_up_batches
from skdp.engines._extras import Extra
from skdp.engines.files._formats import TableFile
from skdp.tables import LargeTable, Summary

pyarrow = Extra("pyarrow")


@dataclass(eq=False, repr=False)
class FileTable(LargeTable):
    """The rows of a file that a synthesizer is to be fitted to; it takes them as it takes a table of an engine."""

    file: TableFile
    domain: Domain
    sample: Any
    progress: Progress
    n_rows: int | None
    """For the progress; None if it is not known."""
    marks: NDArray[np.bool_] | None = None
    """Which rows are kept; None for all."""

    def add_up(self, names: Sequence[Any], summary: Summary) -> list[NDArray[np.int64]]:
        return add_up_batches(self._tables(list(names)), summary)

    def _tables(self, names: list[str]) -> Iterator[Any]:
        """Read the rows that are kept."""
        tables: Iterator[Any] = self.file.tables(
            self.domain, names, strict=True, coded=True
        )
        if self.marks is not None:
            from skdp.engines.backends.arrow import keep_marked

            tables = keep_marked(tables, self.marks)
        with shown(self.progress, self.n_rows, "reading") as bar:
            for table in tables:
                yield table
                bar.update(len(table))

    def limit_persons(self, person: Any, most: int, seed: int) -> Self:
        from skdp.engines.backends.arrow import mark_rows

        def read_persons() -> Iterator[Any]:
            for table in self.file.tables(None, [person], coded=True):
                yield table.column(0)

        return replace(self, marks=mark_rows(read_persons, most, seed))


def open_file(
    file: TableFile, domain: Domain, person: str | None, progress: Progress
) -> FileTable:
    """Open the columns of a domain in a file, in the order of the file, and that of the persons."""
    persons = [] if person is None else [person]
    file.check_columns([*domain.columns, *persons])
    if person in domain.columns:
        raise ValueError(
            f"the domain declares {person!r}, which says who a row is about; remove it "
            "there"
        )
    names = [name for name in file.names if name in [*domain.columns, *persons]]
    sample = _typed_sample(domain, names) if file.is_csv else file.sample(None, names)
    n_rows = None if persons else file.count_rows()
    return FileTable(file, domain, sample, progress, n_rows)


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
