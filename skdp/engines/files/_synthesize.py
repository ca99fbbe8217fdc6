"""From a file with a private table to a draft of its domain, and to a file with synthetic rows."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Self

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from skdp.domain import Domain
from skdp.engines._atomic import check_path, check_target, write_atomically
from skdp.engines._engine import add_up_batches
from skdp.engines._libraries import Extra
from skdp.engines._streams import Tables
from skdp.engines.files._table_file import (
    TableFile,
    check_writable,
    format_of,
    write_file,
)
from skdp.persistence import save as save_estimator
from skdp.synthesis import DPMarginalSynthesizer, check_n_samples
from skdp.tables import LargeTable, Summary

pyarrow, compute = Extra("pyarrow"), Extra("pyarrow.compute")


# Text in a column of persons that names nobody: its rows would count as one person.
UNNAMED_PERSONS = ("", "NA", "N/A", "NULL", "null", "NaN", "nan", "None")


@dataclass(eq=False, repr=False)
class FileTable(LargeTable):
    """The rows of a file that a synthesizer is to be fitted to; it takes them as it takes a table of an engine."""

    file: TableFile
    domain: Domain
    sample: Any
    # The column of persons, their largest number of rows, and a seed; None for all rows.
    limit: tuple[Any, int, int] | None = None

    def add_up(self, names: Sequence[Any], summary: Summary) -> list[NDArray[np.int64]]:
        with closing(self._tables(list(names))) as tables:
            return add_up_batches(tables, summary)

    def _tables(self, names: list[str]) -> Tables:
        """Read the rows that are kept."""
        if self.limit is None:
            tables = self.file.tables(self.domain, names, strict=True)
        else:
            tables = self._limited_tables(names, *self.limit)
        for table in tables:
            yield self._without_unnamed_persons(table)

    def _limited_tables(
        self, names: list[str], person: Any, most: int, seed: int
    ) -> Tables:
        """Read some rows of each person, which DuckDB chooses by all columns of the domain."""
        from skdp.engines.backends.duckdb import limit_rows

        columns = list(dict.fromkeys([*self.domain.columns, person]))
        schema = self.file.sample(None, columns).schema
        tables = self.file.tables(None, columns)
        kept = limit_rows(tables, schema, person, most, seed)
        named = (table.select(names) for table in kept)
        return self.file.typed_tables(named, self.domain, strict=True)

    def _without_unnamed_persons(self, table: Any) -> Any:
        """Replace text that names no person by a missing value, in the column of persons."""
        for index, name in enumerate(table.column_names):
            persons = table.column(index)
            if name in self.domain.columns:
                continue
            if pyarrow.types.is_dictionary(persons.type):
                persons = persons.cast(persons.type.value_type)
            if _is_text(persons.type):
                is_unnamed = compute.is_in(persons, pyarrow.array(UNNAMED_PERSONS))
                persons = compute.if_else(is_unnamed, None, persons)
                table = table.set_column(index, name, persons)
        return table

    def limit_persons(self, person: Any, most: int, seed: int) -> Self:
        return replace(self, limit=(person, most, seed))


def open_file(file: TableFile, domain: Domain, person: str | None) -> FileTable:
    """Open the columns of a domain in a file, in the order of the file, and that of the persons."""
    persons = [] if person is None else [person]
    file.check_columns([*domain.columns, *persons])
    if person in domain.columns:
        raise ValueError(
            f"the domain declares {person!r}, which says who a row is about; remove it "
            "there"
        )
    # In the order of the file, so that the synthetic table has it too.
    names = [name for name in file.names if name in [*domain.columns, *persons]]
    sample = file.sample(domain, names, whole=True)
    return FileTable(file, domain, sample)


def synthesize_file(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    synthesizer: DPMarginalSynthesizer,
    *,
    n_samples: int | None = None,
    person_column: str | None = None,
    save: str | os.PathLike[str] | None = None,
    delimiter: str | None = None,
) -> Path:
    r"""Fit a synthesizer to the table in a file, and write synthetic rows to another one, in memory of a few batches.

    Formats follow from the suffix: ``.csv``, ``.tsv``, ``.parquet``, or ``.arrow`` (``.feather``, ``.ipc``; files, not
    streams).
    Only the declared columns are read and written, in the order of the table, once for each round of `fit`.

    Synthetic columns have the types of a Parquet or Arrow file. Of a CSV file, the types are those of the
    domain, and each value is read by itself: where an `Interval` has whole edges and is not declared as real, its
    column has whole numbers; dates, datetimes and, in UTC, datetimes with a time zone are ISO 8601; what pandas takes
    for missing is missing, unless it is declared. Text that is no number, date or truth value where such are declared
    is an error.

    Parameters
    ----------
    source : str or path-like
        The file with the private table.
    target : str or path-like
        The file to write. It must not exist, and appears only when complete.
    synthesizer : DPMarginalSynthesizer
        Its ``domain`` declares columns by name. It is fitted.
    n_samples : int, optional
        Number of rows to write; by default the estimated number of records.
    person_column : str, optional
        The column that identifies the person of a row, not in the domain: at most ``max_rows_per_person`` rows of each
        person are counted, and the guarantee is for all rows of one person. Persons in a CSV file are distinguished by
        their text: 7 and 007 are two.
    save : str or path-like, optional
        Where to save the fitted model, as `DPMarginalSynthesizer.save` does, before rows are drawn: if writing these
        fails, `DPMarginalSynthesizer.load` gives any number of rows, free. It must not exist.
    delimiter : str, optional
        What separates the values of a row in a CSV file that is read: one character. By default a comma, and a tab
        where the name ends in ``.tsv``.

    Returns
    -------
    Path
        The target.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range, a file is none of these formats, or the table does not fit the domain. No error
        shows a value.
    BudgetExceeded
        If the ledger does not cover it.
    FileExistsError, FileNotFoundError
        If the target exists, or there is no source or no directory for the target.
    ImportError
        If an optional dependency is missing; the error names the extra.

    See Also
    --------
    privatize_file : The local model: each row by itself, for recipients that are not trusted with the table.
    skdp.DPMarginalSynthesizer.sample_batches : What draws the rows.

    Notes
    -----
    **Privacy.** As for `DPMarginalSynthesizer`: its `guarantee_`, charged once. The target is opened and the whole
    table read once before, so that a value that is not declared costs nothing and leaves nothing. If a run is stopped
    after the charge, this stands; a hidden file of synthetic rows may be left beside the target. No private row is
    written to a disk.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import pandas as pd
    >>> from skdp import DPMarginalSynthesizer
    >>> from skdp.engines import synthesize_file
    >>> synthesizer = DPMarginalSynthesizer(2.0, domain={"smokes": ["yes", "no"]}, random_state=0)
    >>> with TemporaryDirectory() as folder:
    ...     people = Path(folder, "people.csv")
    ...     _ = people.write_text("smokes,year\n" + "yes,2026\n" * 2_500 + "no,2026\n" * 7_500)
    ...     made = synthesize_file(people, Path(folder, "synthetic.csv"), synthesizer)
    ...     pd.read_csv(made)["smokes"].value_counts()
    smokes
    no     7500
    yes    2500
    Name: count, dtype: int64
    """
    domain = _check_synthesizer(synthesizer)
    check_n_samples(n_samples)
    place = check_target(target)
    model = check_path(save)
    if model == place:
        raise ValueError("save and target must be two files")
    rows = open_file(TableFile(source, delimiter=delimiter), domain, person_column)
    # What cannot be written shows before anything is spent.
    schema = rows.sample.select(domain.columns).schema
    check_writable(schema, format_of(place))
    with NamedTemporaryFile(dir=place.parent, prefix=f".{place.name}."):
        pass
    if model is not None:
        # Before the charge: whether the parameters can be saved.
        unfitted = clone(synthesizer).set_params(ledger=None, random_state=None)
        save_estimator(unfitted, io.BytesIO())
    synthesizer.fit(rows, groups=person_column)
    if model is not None:
        with write_atomically(model) as beside:
            synthesizer.save(beside)
    return sample_file(synthesizer, place, n_samples=n_samples)


def sample_file(
    synthesizer: DPMarginalSynthesizer,
    target: str | os.PathLike[str],
    *,
    n_samples: int | None = None,
) -> Path:
    """Write rows of a fitted synthesizer to a file: post-processing, which is free."""
    check_n_samples(n_samples)
    place = check_target(target)
    number = round(synthesizer.n_rows_) if n_samples is None else n_samples
    batches = synthesizer.sample_batches(number)
    first = next(batches, None)
    if first is None:
        first = synthesizer.sample(0)
    tables = (
        nw.from_native(batch, eager_only=True).to_arrow()
        for batch in chain([first], batches)
    )
    sample = next(tables)
    with write_atomically(place) as beside:
        rows = (table.cast(sample.schema) for table in chain([sample], tables))
        write_file(rows, sample.schema, beside, format_of(place))
    return place


def _is_text(kind: Any) -> bool:
    return pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind)


def _check_synthesizer(synthesizer: Any) -> Domain:
    """Return what is declared by name: a file is read by the names of its columns."""
    if not isinstance(synthesizer, DPMarginalSynthesizer):
        raise TypeError(
            "synthesizer must be a DPMarginalSynthesizer, got "
            f"{type(synthesizer).__name__}"
        )
    declared = synthesizer.domain
    if isinstance(declared, Mapping):
        return Domain(declared)
    if not isinstance(declared, Domain):
        kind = type(declared).__name__
        raise TypeError(
            f"domain must be a Domain or a mapping of column name to values, got {kind}"
        )
    return declared
