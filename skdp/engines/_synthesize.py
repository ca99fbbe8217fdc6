"""Synthetic rows of a table in a file, written to another file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw

from skdp.base import track
from skdp.domain import Domain
from skdp.engines._files import (
    FileTable,
    TableFile,
    check_destination,
    check_writable,
    find_format,
    write_file,
)
from skdp.randomness import check_type
from skdp.readers import Extra, check_path, open_output, write_keys
from skdp.synthesis import (
    DPLinkedSynthesizer,
    DPMarginalSynthesizer,
    check_n_samples,
)

pyarrow = Extra("pyarrow")


def synthesize_file(
    source: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    synthesizer: DPMarginalSynthesizer,
    *,
    n_samples: int | None = None,
    person: str | None = None,
    save: str | os.PathLike[str] | None = None,
    delimiter: str | None = None,
) -> Path:
    r"""Fit a synthesizer to the table in a file in batches, and write synthetic rows to another file.

    The suffix determines the format: ``.csv``, ``.tsv``, ``.parquet``, or ``.arrow`` (``.feather``, ``.ipc``; files,
    not streams). Only the declared columns are read and written, in the order of the table. Up to 128 MB of values are
    read once; a larger table is read in batches, once for all pairs and up to four times for other marginals.

    Synthetic columns have the types of the columns in a Parquet or Arrow source. A CSV file is read as by
    `privatize_file`, and parsed as the domain declares it: a column of an `Interval` has integers unless it is declared
    as real; dates and datetimes are ISO 8601. Other text in such a column is an error.

    Parameters
    ----------
    source : str or path-like
        File with the private table; a folder or a pattern of files is one table, as for `privatize_file`.
    destination : str or path-like
        New file for the synthetic rows. It is created when all rows are complete.
    synthesizer : DPMarginalSynthesizer
        Synthesizer whose ``domain`` declares columns by name. It is fitted.
    n_samples : int, default=None
        Number of rows to write. If None, the estimated number of records.
    person : str, default=None
        Column that identifies the person of a row, which is not in the domain. At most ``max_rows_per_person`` rows of
        each person are counted, and the guarantee is for all rows of one person. In a CSV file, people are
        distinguished by their text: 7 and 007 are two people, but 7 and 7.0 are one.
    save : str or path-like, default=None
        New file for the fitted model, which is saved before rows are drawn. If writing the rows fails,
        `DPMarginalSynthesizer.load` draws any number of rows without further budget.
    delimiter : str, default=None
        Character that separates the values in a CSV source. If None, a tab for ``.tsv`` and a comma otherwise.

    Returns
    -------
    Path
        Path of the destination.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range, a file has an unsupported format, or a value is outside the domain. Errors
        contain no value of the table.
    BudgetExceeded
        If the ledger does not cover the release.
    FileExistsError, FileNotFoundError
        If the destination exists, or if the source or the directory of the destination does not exist.
    ImportError
        If an optional dependency is not installed.

    See Also
    --------
    privatize_file : Privatize each row, for recipients that are not trusted with the table.
    skdp.DPMarginalSynthesizer.sample_batches : Draw synthetic rows in batches.

    Notes
    -----
    **Privacy.** As for `DPMarginalSynthesizer`: its `guarantee_`, charged once. The destination is opened and the whole
    table is read once before the charge, so that an error for a value outside the domain uses no budget and leaves no
    file. If a run is killed after the charge, the charge is not reverted, and a hidden file of synthetic rows may
    remain in the folder of the destination. No private row is written to a disk, except that rows of people that exceed
    the memory are stored in a temporary folder of the user until the fit ends.

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
    domain = _declared_domain(synthesizer)
    check_n_samples(n_samples)
    path = check_destination(destination)
    model = check_path(save, "save")
    if model == path:
        raise ValueError("`save` and `destination` must be different files.")
    rows = _open_rows(TableFile(source, delimiter=delimiter), domain, person)
    _check_output(synthesizer, rows.sample.select(domain.columns).schema, path)
    # All files are opened before the charge. The model is complete before rows are drawn.
    with open_output(path) as partial:
        with nullcontext() if model is None else open_output(model) as partial_model:
            synthesizer.fit(rows, person=person)
            if partial_model is not None:
                synthesizer.save(partial_model)
        _write_samples(synthesizer, partial, find_format(path.name), n_samples)
    return path


def _check_output(
    synthesizer: DPMarginalSynthesizer | DPLinkedSynthesizer, schema: Any, path: Path
) -> None:
    """Raise most errors of writing and of the ledger, before rows are read."""
    check_writable(schema, find_format(path.name))
    # The rho or mu of the noise is not known yet.
    ledger = synthesizer.ledger
    if ledger is not None and ledger.epsilon is not None:
        planned = synthesizer._planned_guarantee()
        ledger.check(replace(planned, scope=tuple(schema.names)), "synthesize_file")


def synthesize_linked_files(
    files: Sequence[TableFile],
    destinations: Sequence[Any],
    synthesizer: DPLinkedSynthesizer,
    n_persons: int | None = None,
) -> None:
    """Fit a synthesizer to files of people and of their events, and write synthetic tables to two new files.

    The ids of persons and the declared columns are read into memory, with the types of `synthesize_file`. An undeclared
    order of events is not read, because its type in a CSV file would depend on the values of all people.
    """
    check_n_samples(n_persons, "n_persons")
    paths = list(map(check_destination, destinations))
    domain = synthesizer._declared
    files[1].check_columns(set(domain.columns) - set(files[0].header))
    rows = []
    for file, path in zip(files, paths, strict=True):
        declared = domain.select([n for n in domain.columns if n in file.header])
        rows.append(_open_rows(file, declared, synthesizer.person))  # type: ignore[arg-type]
        _check_output(synthesizer, rows[-1].sample.schema, path)
    with open_output(paths[0]) as people, open_output(paths[1]) as events:
        synthesizer.fit(*_read_linked(rows, synthesizer.person))
        samples = synthesizer.sample(n_persons)
        for table, partial, path in zip(samples, (people, events), paths, strict=True):
            write_file([table], table.schema, partial, find_format(path.name))


def _read_linked(rows: Sequence[FileTable], key: object) -> list[Any]:
    """Read tables of people and events, whose keys have one type."""
    tables = [pyarrow.concat_tables(part.read(part.column_names())) for part in rows]
    # The keys of a CSV file are text, which are compared with text.
    if len({part.file.is_csv for part in rows}) > 1:
        for index, table in enumerate(tables):
            keys = write_keys(key, table[key])
            column = table.column_names.index(key)
            tables[index] = table.set_column(column, key, keys)
    return tables


def sample_file(
    synthesizer: DPMarginalSynthesizer,
    destination: str | os.PathLike[str],
    *,
    n_samples: int | None = None,
) -> Path:
    """Draw rows of a fitted synthesizer and write them to a new file, without privacy cost."""
    check_n_samples(n_samples)
    path = check_destination(destination)
    with open_output(path) as partial:
        _write_samples(synthesizer, partial, find_format(path.name), n_samples)
    return path


def _write_samples(
    synthesizer: DPMarginalSynthesizer,
    path: Path,
    file_format: str,
    n_samples: int | None,
) -> None:
    """Draw rows of a fitted synthesizer in batches, and write them to an open output."""
    n_rows = round(synthesizer.n_rows_) if n_samples is None else n_samples
    batches = synthesizer.sample_batches(n_rows)
    # The first batch determines the types of all batches.
    first = next(batches, None)
    if first is None:
        first = synthesizer.sample(0)
    schema = nw.from_native(first, eager_only=True).to_arrow().schema

    def convert(batch: object) -> Any:
        """Convert a batch of synthetic rows to an Arrow table with the schema."""
        return nw.from_native(batch, eager_only=True).to_arrow().cast(schema)

    tables = map(convert, track(chain([first], batches), "Writing rows", "blocks"))
    write_file(tables, schema, path, file_format)


def _declared_domain(synthesizer: Any) -> Domain:
    """Return the domain of a synthesizer; raise an error unless it declares columns by name."""
    expected = "a DPMarginalSynthesizer"
    check_type("synthesizer", synthesizer, DPMarginalSynthesizer, expected)
    expected = "a Domain or a mapping of column name to values"
    check_type("domain", synthesizer.domain, Mapping, expected)
    return Domain(synthesizer.domain)


def _open_rows(file: TableFile, domain: Domain, person: str | None) -> FileTable:
    """Open the declared columns of a file, and the column `person` that identifies people (None without one)."""
    required = dict.fromkeys([*domain.columns, *([] if person is None else [person])])
    file.check_columns(required)
    if person in domain.columns:
        raise ValueError(
            f"`person` must not be in the domain, got {person!r}. Remove it "
            "from the domain."
        )
    # Synthetic columns have the order of the file.
    names = [name for name in file.names if name in required]
    return FileTable(
        file,
        names,
        domain,
        has_integers=True,
        person=person,
    )
