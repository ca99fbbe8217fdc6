"""Fit a synthesizer to the table in a file, and write synthetic rows to another file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import narwhals.stable.v2 as nw

from skdp.domain import Domain
from skdp.engines._csv import MISSING_TEXTS
from skdp.engines._files import (
    FileTable,
    TableFile,
    check_writable,
    format_of,
    write_file,
)
from skdp.engines._io import check_path, check_target, write_atomically
from skdp.synthesis import DPMarginalSynthesizer, check_n_samples


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
    r"""Fit a synthesizer to the table in a file in batches, and write synthetic rows to another file.

    Formats follow from the suffix: ``.csv``, ``.tsv``, ``.parquet``, or ``.arrow`` (``.feather``, ``.ipc``; files, not
    streams).
    Only the declared columns are read and written, in the order of the table, once for each round of `fit`.

    Synthetic columns have the types of a Parquet or Arrow file. A CSV file is read as text, as by `privatize_file`, and
    parsed as the domain declares it: a column of an `Interval` that is not declared as real has whole numbers; dates
    and datetimes are ISO 8601. Other text in such a column is an error.

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
        fails, `DPMarginalSynthesizer.load` draws any number of rows without further budget. It must not exist.
    delimiter : str, optional
        Separator of the values of a row in a CSV source: one character. By default a comma, and a tab where the name
        ends in ``.tsv``.

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
    skdp.DPMarginalSynthesizer.sample_batches : Draws the rows.

    Notes
    -----
    **Privacy.** As for `DPMarginalSynthesizer`: its `guarantee_`, charged once. The target is opened and the whole
    table read once before, so that an error for a value outside the domain uses no budget and leaves no file. If a
    run is stopped after the charge, this stands; a hidden file of synthetic rows may be left beside the target. No
    private row is written to a disk.

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
    path = check_target(target)
    model = check_path(save)
    if model == path:
        raise ValueError("save and target must be two files")
    rows = _open_rows(TableFile(source, delimiter=delimiter), domain, person_column)
    # Errors of writing are raised before anything is spent.
    schema = rows.sample.select(domain.columns).schema
    check_writable(schema, format_of(path.name))
    with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}."):
        pass
    synthesizer.fit(rows, groups=person_column)
    if model is not None:
        with write_atomically(model) as partial:
            synthesizer.save(partial)
    return sample_file(synthesizer, path, n_samples=n_samples)


def sample_file(
    synthesizer: DPMarginalSynthesizer,
    target: str | os.PathLike[str],
    *,
    n_samples: int | None = None,
) -> Path:
    """Write rows of a fitted synthesizer to a file: post-processing, which is free."""
    check_n_samples(n_samples)
    path = check_target(target)
    n_rows = round(synthesizer.n_rows_) if n_samples is None else n_samples
    batches = synthesizer.sample_batches(n_rows)
    first = next(batches, None)
    if first is None:
        first = synthesizer.sample(0)
    tables = (
        nw.from_native(batch, eager_only=True).to_arrow()
        for batch in chain([first], batches)
    )
    sample = next(tables)
    with write_atomically(path) as partial:
        rows = (table.cast(sample.schema) for table in chain([sample], tables))
        write_file(rows, sample.schema, partial, format_of(path.name))
    return path


def _declared_domain(synthesizer: Any) -> Domain:
    """Return the domain, which must have names: the columns of a file are read by them."""
    if not isinstance(synthesizer, DPMarginalSynthesizer):
        raise TypeError(
            "synthesizer must be a DPMarginalSynthesizer, got "
            f"{type(synthesizer).__name__}"
        )
    declared = synthesizer.domain
    if isinstance(declared, Mapping):
        return Domain(declared)
    if not isinstance(declared, Domain):
        raise TypeError(
            "domain must be a Domain or a mapping of column name to values, got "
            f"{type(declared).__name__}"
        )
    return declared


def _open_rows(file: TableFile, domain: Domain, person: str | None) -> FileTable:
    """Open the columns of a domain in a file, and the column of persons."""
    required = [*domain.columns, *([] if person is None else [person])]
    file.check_columns(required)
    if person in domain.columns:
        raise ValueError(
            f"person_column must not be in the domain, got {person!r}. Remove it from the "
            "domain"
        )
    # In the order of the file, so that the synthetic table has it too.
    names = [name for name in file.names if name in required]
    # Without `missing_texts`, all rows with an empty id would count as one person.
    return FileTable(
        file, names, domain, missing_texts=MISSING_TEXTS, has_integers=True
    )
