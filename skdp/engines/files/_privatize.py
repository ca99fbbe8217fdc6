"""From a file with true rows to a file with reports."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from skdp.engines._atomic import Bar, NoBar, Progress, check_path
from skdp.engines._batch_release import BatchCheck, Release, check_flags, check_names, check_transformer, in_processes
from skdp.engines._csv import unreadable_error
from skdp.engines._errors import UnreadableError, UnreadableTable
from skdp.engines._extras import Extra
from skdp.engines._randomness import BatchRandomness
from skdp.engines._record_ids import check_distinct
from skdp.engines._registry import engine_of
from skdp.engines.backends.batches import Checked, batch_rows, check_batches, even, in_full, in_turn, placed
from skdp.engines.files._checkpoint import WorkingFolder
from skdp.engines.files._formats import TableFile, check_readable, check_writable, format_of, write_file
from skdp.engines.files._run import carry_out, declared_columns, describe_release, output_schema
from skdp.engines.files._said import sidecar_of
from skdp.local import ReportTransformer, protocol_text

pyarrow = Extra("pyarrow")


def privatize_file(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    transformer: ReportTransformer,
    *,
    keep: Sequence[str] = (),
    record_id: str | None = None,
    resume: bool = False,
    progress: Progress = NoBar,
    check: bool = True,
    delimiter: str | None = None,
) -> Path:
    r"""Privatise the table in a file, and write the reports to another one, in memory of a few batches.

    The names say the formats: ``.csv``, ``.tsv``, ``.parquet``, ``.jsonl`` (an object a line), or ``.arrow`` (also
    ``.feather``, ``.ipc``; files, not streams); ``.csv.gz``, ``.tsv.gz`` and ``.jsonl.gz`` are gzipped. Of a CSV file,
    the types are those of the domain, and each value is read by itself, so that none depends on other rows: declared
    numbers and bins of numbers are numbers, decimals are exact, true and false are booleans, dates and datetimes are
    ISO 8601, all else is text; what pandas takes for missing is missing, unless it is declared. The columns of a
    `NumericPerturber` are numbers; those of a `RapporEncoder`, and kept columns, are text, or missing where empty.
    In JSON lines, null and a name that is left out are missing; dates and datetimes are text, and decimals text or
    numbers; what is not declared (kept columns, ids) has the type that it has in the first line, which names the
    columns.

    Parameters
    ----------
    source : str or path-like
        The file with true rows: a path, or a URL that pyarrow or fsspec opens (``s3://…``).
    target : str or path-like
        The file for the reports. It must not exist, and appears only when complete.
    transformer : local transformer
        As for `privatize`.
    keep : sequence of str, optional
        Columns that are released **unprotected**, after the reports. By default, only reports are released.
    record_id : str, optional
        As for `privatize`. The ids of a CSV file are text: the permanent reports of 7 there are those of "7" elsewhere.
    resume : bool, default=False
        Whether to go on with a run to the same target that was stopped: with the same file, transformer, key, ledger,
        kept columns and column of record ids.
    progress : callable, optional
        Takes the number of rows (None if it is not known), and returns what shows the progress, such as a bar of tqdm.
    check : bool, default=True
        Whether all rows are read once before the charge, as for `privatize`; what is resumed was checked.
    delimiter : str, optional
        What separates the values of a row in a CSV file that is read: one character. By default a comma, and a tab
        where the name ends in ``.tsv``.

    Returns
    -------
    Path
        The target. It says its protocol (`ReportTransformer.to_json`): in the metadata of its schema, under
        ``skdp.protocol``, or for text (CSV, JSON lines) in a file ``<target>.skdp.json`` beside it, with the SHA-256 of
        the target.

    Raises
    ------
    TypeError, ValueError, BudgetExceeded, ImportError
        As for `privatize`, or if a file is none of these formats, or cannot hold the declared values so that they are
        read as what they are, or the run to resume was of something else. No error shows a value. A row that is refused
        costs nothing; with ``check=False``, the charge stands.
    OSError
        If a file cannot be read or written. A note says where the run can be resumed.
    FileExistsError
        If the target exists, or the folder of a run to it that was stopped, without `resume`.
    FileNotFoundError
        If there is no source, no directory for the target, or nothing to resume.

    See Also
    --------
    estimate_file : Estimates counts from the reports.
    privatize : The same for tables of an engine.

    Notes
    -----
    **Privacy.** As for `privatize`: for each record (row), the transformer's `guarantee_`, charged once before anything
    is drawn. The kept columns and the order of the rows are not protected.

    While it runs, a folder ``<target>.unfinished``, which only its owner can enter, holds the secret key of the
    release, whether it was charged, and the reports so far, in parts. A run that was killed leaves it, and `resume`
    goes on from there: a part that is stored is not drawn again, and one that is missing or damaged is drawn from the
    same key and the same rows, so that it has the same reports. There is one report for each row and one charge,
    however often the run was stopped: the ledger names the run beside its charge. (Another ledger, such as a new one in
    memory, is charged.) A disk that fails to read or write deletes nothing; only rows that are refused do, if the file
    is still the one that the run began with. The key is deleted when all is drawn, before the target appears; until
    then, keep the folder as secret as the true rows: the key can undo the reports. (A deleted file may remain on a disk
    and in backups.) The file with the rows is recognised by a digest of its content. Should it change while a run reads
    it, the random bits of other rows are independent of those that were drawn before.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from skdp import RandomizedResponseEncoder
    >>> from skdp.engines import estimate_file, privatize_file
    >>> with TemporaryDirectory() as folder:
    ...     people = Path(folder, "people.csv")
    ...     _ = people.write_text("smokes,year\n" + "yes,2026\n" * 2_500 + "no,2026\n" * 7_500)
    ...     encoder = RandomizedResponseEncoder(2.0, categories={"smokes": ["yes", "no"]}, random_state=0)
    ...     reports = privatize_file(people, Path(folder, "reports.parquet"), encoder)
    ...     estimate_file(reports, encoder).round(0)
             count  std_error   lower   upper
    smokes
    yes     2563.0       43.0  2480.0  2646.0
    no      7437.0       43.0  7354.0  7520.0
    """
    check_flags(resume=resume, check=check)
    check_transformer(transformer)
    table = TableFile(source, delimiter=delimiter)
    left = resume and target is not None and WorkingFolder(Path(target).absolute()).is_left()
    place = Path(target).absolute() if left else check_path(target)
    if place is None:
        raise TypeError("target must be a str or a path, got NoneType")
    form = format_of(place)
    is_text = form not in ("parquet", "ipc")
    if is_text and not resume:
        check_path(sidecar_of(place))
    declared = transformer.declared_domain if table.is_text else None
    check_names(keep)
    table.check_columns([*declared_columns(transformer, declared), *keep])
    sample = table.sample(declared, table.names)
    trial = Release.rehearse(sample, transformer, keep, record_id)
    look = BatchCheck(transformer.protocol_, keep, record_id)
    if record_id is not None:
        _check_ids(table, record_id, look)
    schema = output_schema(trial.schema, transformer.protocol_, keep, of_text=table.is_text, form=form)
    check_writable(schema, form)
    check_readable(transformer.protocol_.values, trial, schema, form)
    said = protocol_text(transformer)
    rows = batch_rows(trial.num_columns)
    settings = {"input file": table.fingerprint()} | describe_release(transformer, keep, record_id, rows)
    folder = WorkingFolder.resume(place, settings) if resume else WorkingFolder.start(place, settings, transformer)

    def check_rows() -> Checked:
        if not check:
            return Checked()
        transformer.check_budget()
        return check_batches(table.tables(declared, look.columns), look, rows, pyarrow.concat_tables)

    def draw(randomness: BatchRandomness, checked: Checked | None) -> None:
        release = Release(transformer.protocol_, keep, randomness, record_id)
        release.begin(transformer, randomness.name)
        tables = in_full(table.tables(declared, release.check.columns), checked or Checked())
        batches = even(tables, rows, pyarrow.concat_tables)
        with closing(progress(table.count_rows())) as bar, folder.written_whole() as path:
            parts = _reports(batches, release, schema, folder, bar)
            if form == "parquet":
                write_file(parts, schema, path, form, release.noted)
            elif form == "ipc":
                # An Arrow file begins with its schema: all parts are drawn before.
                n_parts = sum(1 for _ in parts)
                stored = (folder.read(part) for part in range(n_parts))
                write_file(stored, release.noted(schema), path, form)
            else:
                write_file(parts, schema, path, form)
                release.close()

    def is_same() -> bool:
        """Return whether the file still holds what it held when the run was started."""
        try:
            return table.fingerprint() == settings["input file"]
        except OSError:
            return False

    carry_out(
        folder,
        transformer,
        resumed=resume,
        check=check_rows,
        draw=draw,
        is_same=is_same,
        publish=partial(folder.publish, said if is_text else None),
    )
    return place


def _reports(batches: Iterator[Any], release: Release, schema: Any, folder: WorkingFolder, bar: Bar) -> Iterator[Any]:
    """Draw and store the reports of all parts, in order; those of parts that are stored are read."""
    draw, workers = in_processes(release)

    def report(item: Any) -> Any:
        part, (batch, place) = item
        stored = folder.read(part)
        if stored is not None:
            release.count_again(place, stored)
            return stored
        reports = draw(batch, place).cast(schema).unify_dictionaries()
        folder.write(part, reports)
        return reports

    for reports in in_turn(report, enumerate(placed(release.check.distinct_in_all(batches))), workers):
        bar.update(len(reports))
        yield reports


def _check_ids(table: TableFile, record_id: str, look: BatchCheck) -> None:
    if table.format == "jsonl":  # which no engine reads
        deque(look.distinct_in_all(table.tables(None, [record_id])), maxlen=0)
        return
    try:
        check_distinct(*engine_of(table.scan([record_id])).count_ids(record_id))
    except UnreadableTable as error:
        failed = UnreadableError(f"{table.path.name} cannot be read ({error.kind})")
    else:
        return
    raise unreadable_error(table.path) if table.format == "csv" else failed
