"""From a file with a private table to a draft of its domain, and to a file with synthetic rows."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Self

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone

from skdp.base import draft_domain_toml, type_texts
from skdp.domain import Domain
from skdp.engines._atomic import (
    Bar,
    NoBar,
    Progress,
    check_path,
    check_target,
    shown,
    written_beside,
)
from skdp.engines._engine import add_up_batches
from skdp.engines._libraries import Extra
from skdp.engines.files._table_file import (
    TableFile,
    check_writable,
    format_of,
    write_file,
)
from skdp.persistence import save
from skdp.synthesis import DPMarginalSynthesizer, check_n_samples
from skdp.synthesis.tables import assemble, decode, public_template
from skdp.tables import LargeTable, Summary, read_table

# Of a column in memory: some 16 megabytes of text.
_MOST_VALUES = 1 << 18

compute = Extra("pyarrow.compute")


def draft_file(table: TableFile, *, bins: int, max_values: int) -> str:
    """Draft a domain of the table in a file, in memory of a few batches."""
    # The draft of a column depends on which values occur, and not on how often: each
    # distinct one is kept, up to a number that bounds the memory.
    if len(table.names) == 1 and table.path.given_delimiter is None and table.advice():
        raise ValueError(f"{table.path.name} has a single column{table.advice()}")
    table.check_columns(table.repeated)
    most_values = max(_MOST_VALUES, 4 * max(bins, max_values))
    no_rows = table.sample(None, table.names)
    values = {name: _plain(no_rows[name]) for name in table.names}
    for rows in table.tables(None, table.names):
        for name in table.names:
            chunks = [*values[name].chunks, *_plain(rows[name]).chunks]
            column = pyarrow.chunked_array(chunks, values[name].type)
            values[name] = _distinct_values(column, table, most_values)
    # All columns have as many rows as the longest: what is added has occurred.
    n_rows = max(map(len, values.values()))
    columns = {}
    for name, column in values.items():
        places = np.arange(n_rows) % max(1, len(column))
        columns[name] = column.take(pyarrow.array(places)) if len(column) else column
    return draft_domain_toml(
        _typed(table, pyarrow.table(columns), table.names),
        bins=bins,
        max_values=max_values,
    )


def _plain(column: Any) -> Any:
    """Write out what is coded: of a dictionary only what occurs is drafted."""
    if pyarrow.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pyarrow.types.is_string_view(column.type):
        column = column.cast(pyarrow.large_string())
    return column


def _typed(table: TableFile, rows: Any, names: list[str]) -> Any:
    """Give the columns of a CSV file the types that their texts have."""
    if not table.is_csv:
        return rows
    texts = {}
    for name in names:
        texts[name] = pd.Series(rows[name].to_pylist(), dtype=object)
    return type_texts(pd.DataFrame(texts))


def _distinct_values(column: Any, table: TableFile, most_values: int) -> Any:
    """Keep the distinct values, or of very many of them the least and the largest ones."""
    if pyarrow.types.is_nested(column.type):
        # No such column is drafted.
        return column.slice(0, 1)
    values = compute.unique(column)
    if isinstance(values, pyarrow.ChunkedArray):
        values = values.combine_chunks()
    # Not at each batch: to sort text by what it means takes time.
    if len(values) > 2 * most_values:
        rows = _typed(table, pyarrow.table({"values": values}), ["values"])
        keys = rows["values"] if table.is_csv else rows.to_pandas()["values"]
        if keys.dtype == object:
            keys = keys.map(str)
        # A bin or a list of values needs the ends, whose last ones may be missing.
        order = np.asarray(keys.argsort(kind="stable"))
        n_kept = most_values // 2
        values = values.take(pyarrow.array(np.append(order[:n_kept], order[-n_kept:])))
    return pyarrow.chunked_array([values])


pyarrow = Extra("pyarrow")

# Text in a column of persons that names nobody: its rows would count as one person.
UNNAMED_PERSONS = ("", "NA", "N/A", "NULL", "null", "NaN", "nan", "None")


def is_text(arrow_type: Any) -> bool:
    """Whether an Arrow type is text."""
    return pyarrow.types.is_string(arrow_type) or pyarrow.types.is_large_string(
        arrow_type
    )


@dataclass(eq=False, repr=False)
class FileTable(LargeTable):
    """The rows of a file that a synthesizer is to be fitted to; it takes them as it takes a table of an engine."""

    file: TableFile
    domain: Domain
    sample: Any
    progress: Progress
    # Which rows are kept; None for all.
    marks: NDArray[np.bool_] | None = None

    def add_up(self, names: Sequence[Any], summary: Summary) -> list[NDArray[np.int64]]:
        return add_up_batches(self._tables(list(names)), summary)

    def _tables(self, names: list[str]) -> Iterator[Any]:
        """Read the rows that are kept."""
        tables = self.file.tables(
            self.domain, names, strict=True, coded=True, marks=self.marks
        )
        # The bar counts passes, since the number of rows is protected: also their share
        # that is read after a batch of known size would tell it, and so would a call
        # after each batch.
        with shown(self.progress, 1, "reading", unit="pass") as bar:
            for table in tables:
                yield self._without_unnamed_persons(table)
            bar.update(1)

    def _without_unnamed_persons(self, table: Any) -> Any:
        """Replace text that names no person by a missing value, in the column of persons."""
        for index, name in enumerate(table.column_names):
            persons = _plain(table.column(index))
            if name not in self.domain.columns and is_text(persons.type):
                is_unnamed = compute.is_in(persons, pyarrow.array(UNNAMED_PERSONS))
                persons = compute.if_else(is_unnamed, None, persons)
                table = table.set_column(index, name, persons)
        return table

    def limit_persons(self, person: Any, most: int, seed: int) -> Self:
        from skdp.engines.backends.arrow import mark_rows

        tables = self.file.tables(None, [person], coded=True)
        persons = (table.column(0) for table in tables)
        return replace(self, marks=mark_rows(persons, most, seed))


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
    # In the order of the file, so that the synthetic table has it too.
    names = [name for name in file.names if name in [*domain.columns, *persons]]
    sample = file.sample(domain, names, whole=True)
    return FileTable(file, domain, sample, progress)


def synthesize_file(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    synthesizer: DPMarginalSynthesizer,
    *,
    n_samples: int | None = None,
    person_column: str | None = None,
    save: str | os.PathLike[str] | None = None,
    progress: Progress = NoBar,
    delimiter: str | None = None,
) -> Path:
    r"""Fit a synthesizer to the table in a file, and write synthetic rows to another one, in memory of a few batches.

    The names say the formats: ``.csv``, ``.tsv``, ``.parquet``, or ``.arrow`` (also ``.feather``, ``.ipc``; files, not
    streams).
    Only the declared columns are read and written, in the order of the table, once for each round of `fit`.

    Synthetic columns have the types of a Parquet or Arrow file; in those that are written, pandas reads whole numbers
    and truth values as ``Int64`` and ``boolean`` where missing is declared. Of a CSV file, the types are those of the
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
        How many rows to write; by default the estimated number of records.
    person_column : str, optional
        The column that says who a row is about, not in the domain: of each person at most ``max_rows_per_person`` rows
        are counted, and the guarantee is for all rows of one person. Persons in a CSV file are distinguished by their
        text: 7 and 007 are two.
    save : str or path-like, optional
        Where to save the fitted model, as `DPMarginalSynthesizer.save` does, before rows are drawn: if writing these
        fails, `DPMarginalSynthesizer.load` gives any number of rows, free. It must not exist.
    progress : callable, optional
        Called for each time that the table is read, and for writing. Takes a total, and returns what shows the
        progress, such as a bar of tqdm. Writing counts rows; reading is one step, as the number of private rows is
        protected.
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
        If what is needed is missing; the error names the extra.

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
    rows = open_file(
        TableFile(source, delimiter=delimiter), domain, person_column, progress
    )
    schema = _schema_of_rows(rows.sample, domain)
    # What cannot be written shows before anything is spent.
    check_writable(schema, format_of(place))
    with NamedTemporaryFile(dir=place.parent, prefix=f".{place.name}."):
        pass
    if model is not None:
        _check_saved(synthesizer, domain, model)
    synthesizer.fit(rows, groups=person_column)
    saved = False
    try:
        if model is not None:
            with written_beside(model) as beside:
                synthesizer.save(beside)
            saved = True
        return sample_file(synthesizer, place, n_samples=n_samples, progress=progress)
    except OSError as error:
        raise OSError(
            error.errno, f"{error.strerror or error}: {_what_is_left(model, saved)}"
        ) from None


def sample_file(
    synthesizer: DPMarginalSynthesizer,
    target: str | os.PathLike[str],
    *,
    n_samples: int | None = None,
    progress: Progress = NoBar,
) -> Path:
    """Write rows of a fitted synthesizer to a file: post-processing, which is free."""
    check_n_samples(n_samples)
    place = check_target(target)
    number = round(synthesizer.n_rows_) if n_samples is None else n_samples
    batches = synthesizer.sample_batches(number)
    first = next(batches, None)
    if first is None:
        first = synthesizer.sample(0)
    sample = nw.from_native(first, eager_only=True).to_arrow()
    schema = _with_pandas_dtypes(sample.schema, synthesizer.domain_)
    with written_beside(place) as beside, shown(progress, number, "writing") as bar:
        rows = _rows(chain([first], batches), schema, bar)
        write_file(rows, schema, beside, format_of(place))
    return place


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


def _check_saved(
    synthesizer: DPMarginalSynthesizer, domain: Domain, model: Path
) -> None:
    """Check before the charge that the model can be saved, as far as that can be known."""
    unfitted = clone(synthesizer).set_params(
        domain=domain, ledger=None, random_state=None
    )
    save(unfitted, io.BytesIO())
    with written_beside(model) as beside:
        beside.touch()
    model.unlink()


def _what_is_left(model: Path | None, saved: bool) -> str:
    """Describe what a run that could not write its rows leaves, and what it does not."""
    if saved:
        return (
            f"no table was written, but the fitted model is in {model}: "
            "DPMarginalSynthesizer.load draws rows from it"
        )
    lost = (
        "the model could not be saved"
        if model is not None
        else "the model was not saved (save=, --save)"
    )
    return f"no table was written after the charge, which stands; {lost}"


def _schema_of_rows(sample: Any, domain: Domain) -> Any:
    """Return the columns that a synthesizer that is fitted to a table will write."""
    table = read_table(
        sample.select([name for name in sample.column_names if name in domain.columns])
    )
    none = [np.zeros(0, np.int32)] * len(table.names)
    declared = domain.select(table.names)
    template = public_template(table, declared)
    columns = decode(template, declared, none, np.random.default_rng(0))
    rows = assemble(template, columns, table.names)
    return _with_pandas_dtypes(rows.schema, declared)


def _with_pandas_dtypes(schema: Any, domain: Domain) -> Any:
    """Say as which dtypes pandas is to read the columns: the declared values decide it, and not the rows."""
    frame = schema.empty_table().to_pandas()
    for field in schema:
        dtype = None
        if pyarrow.types.is_date32(field.type):
            dtype = "date32[day][pyarrow]"
        elif None in domain[field.name].values and pyarrow.types.is_boolean(field.type):
            dtype = "boolean"
        elif None in domain[field.name].values and pyarrow.types.is_integer(field.type):
            dtype = str(field.type).replace("uint", "UInt").replace("int", "Int")
        if dtype is not None:
            frame[field.name] = frame[field.name].astype(dtype)
    return pyarrow.Table.from_pandas(frame, schema, preserve_index=False).schema


def _rows(batches: Iterable[Any], schema: Any, bar: Bar) -> Iterator[Any]:
    for batch in batches:
        rows = nw.from_native(batch, eager_only=True).to_arrow()
        yield rows.cast(schema)
        bar.update(len(rows))
