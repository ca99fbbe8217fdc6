"""From a file with true rows to a file with reports."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from skdp.base import type_of_values
from skdp.engines._atomic import Bar, NoBar, Progress, check_path
from skdp.engines._batch_release import BatchCheck, Release, check_flags, check_names, check_transformer, in_processes
from skdp.engines._csv import unreadable_error
from skdp.engines._errors import UnreadableError, UnreadableTable
from skdp.engines._extras import Extra
from skdp.engines._record_ids import check_distinct
from skdp.engines._registry import engine_of
from skdp.engines.backends.batches import Checked, batch_rows, check_batches, even, in_full, in_turn, placed
from skdp.engines.files._checkpoint import WorkingFolder
from skdp.engines.files._formats import TableFile, check_writable, format_of, write_file
from skdp.engines.files._said import sidecar_of
from skdp.local import PROTOCOL_KEY, ReportProtocol, ReportTransformer, protocol_text
from skdp.local.memo import keyed_digests

pyarrow = Extra("pyarrow")


def privatize_file(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    transformer: Any,
    *,
    keep: Sequence[str] = (),
    record_id: str | None = None,
    resume: bool = False,
    progress: Progress = NoBar,
    check: bool = True,
) -> Path:
    r"""Privatise the table in a file, and write the reports to another one, in memory of a few batches.

    The names say the formats: ``.csv``, ``.parquet``, or ``.arrow`` (also ``.feather``, ``.ipc``; files, not streams).
    Of a CSV file, the types are those of the domain, and each value is read by itself, so that none depends on other
    rows: declared numbers and bins of numbers are numbers, true and false are booleans, dates and datetimes are ISO
    8601, all else is text; what pandas takes for missing is missing, unless it is declared. The columns of a
    `NumericPerturber` are numbers; those of a `RapporEncoder`, and kept columns, are text, or missing where empty.

    Parameters
    ----------
    source : str or path-like
        The file with true rows.
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

    Returns
    -------
    Path
        The target. It says its protocol (`ReportTransformer.to_json`): in the metadata of its schema, under
        ``skdp.protocol``, or for CSV in a file ``<target>.skdp.json`` beside it, with the SHA-256 of the target.

    Raises
    ------
    TypeError, ValueError, BudgetExceeded, ImportError
        As for `privatize`, or if a file is none of these formats, or the run to resume was of something else. No error
        shows a value. A row that is refused costs nothing; with ``check=False``, the charge stands.
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
    if resume and WorkingFolder.tidy(target):
        return Path(target).absolute()
    table = TableFile(Path(source))
    place = check_path(target)
    if place is None:
        raise TypeError("target must be a str or a path, got NoneType")
    form = format_of(place)
    if form == "csv" and not resume:
        check_path(sidecar_of(place))
    declared = transformer.declared_domain if table.format == "csv" else None
    check_names(keep)
    table.check_columns([*([] if declared is None else declared.columns), *keep])
    sample = table.sample(declared, table.names)
    trial = Release.rehearse(sample, transformer, keep, record_id)
    if record_id is not None:
        _check_ids(table, record_id)
    schema = _output_schema(trial.schema, transformer.protocol_, keep, table.format, form)
    check_writable(schema, form)
    said = protocol_text(transformer)
    written = schema if form == "csv" or said is None else schema.with_metadata({PROTOCOL_KEY: said})
    rows = batch_rows(trial.num_columns)
    settings = _settings(table, transformer, keep, record_id, rows)
    folder = WorkingFolder.resume(place, settings) if resume else WorkingFolder.start(place, settings, transformer)
    checked = Checked()
    with folder.locked():
        try:
            if check and not folder.is_charged:
                transformer.check_budget()
                look = BatchCheck(transformer.protocol_, keep, record_id)
                checked = check_batches(table.tables(declared, look.columns), look, rows, pyarrow.concat_tables)
        except BaseException as error:  # nothing is charged
            _leave(error, folder, resume)
            raise
        try:
            folder.charge(transformer)
        except (RuntimeError, TypeError, ValueError) as error:  # refused, so not charged
            _leave(error, folder, resume)
            raise
        except BaseException as error:
            _tell(error, folder)
            raise
        release = (
            None
            if folder.is_whole()
            else Release(transformer.protocol_, keep, folder.randomness(transformer), record_id)
        )
        try:
            if release is not None:
                tables = in_full(table.tables(declared, release.check.columns), checked)
                batches = even(tables, rows, pyarrow.concat_tables)
                with closing(progress(table.count_rows())) as bar, folder.written_whole() as path:
                    write_file(_reports(batches, release, schema, folder, bar), written, path, form)
            folder.publish(said if form == "csv" else None)
        except BaseException as error:
            if _is_refusal(error) and _is_same(table, settings):
                folder.remove()  # the same rows would be refused again
            else:
                _tell(error, folder)
            raise
    return place


def _is_refusal(error: BaseException) -> bool:
    """Return whether an error is of what the file holds, not of reading or writing."""
    return isinstance(error, TypeError | ValueError | NotImplementedError) and not isinstance(
        error, UnreadableError | OSError
    )


def _is_same(table: TableFile, settings: dict[str, Any]) -> bool:
    """Return whether the file still holds what it held when the run was started."""
    try:
        return table.fingerprint() == settings["input file"]
    except OSError:
        return False


def _leave(error: BaseException, folder: WorkingFolder, resume: bool) -> None:
    """Remove the folder of a run that was started without a charge; one that is resumed may have been charged."""
    if resume:
        _tell(error, folder)
    else:
        folder.remove()


def _tell(error: BaseException, folder: WorkingFolder) -> None:
    if folder.path.exists():
        error.add_note(
            f"The run is unfinished in {folder.path}: resume=True goes on, with one charge in all and one report a row."
        )


def _reports(batches: Iterator[Any], release: Release, schema: Any, folder: WorkingFolder, bar: Bar) -> Iterator[Any]:
    """Draw and store the reports of all parts, in order; those of parts that are stored are read."""
    draw, workers = in_processes(release)

    def report(item: Any) -> Any:
        part, (batch, place) = item
        stored = folder.read(part)
        if stored is not None:
            return stored
        reports = draw(batch, place).cast(schema).unify_dictionaries()
        folder.write(part, reports)
        return reports

    for reports in in_turn(report, enumerate(placed(release.check.distinct(batches))), workers):
        bar.update(len(reports))
        yield reports


def _check_ids(table: TableFile, record_id: str) -> None:
    try:
        check_distinct(engine_of(table.scan([record_id])).countable_ids(record_id), record_id)
    except UnreadableTable as error:
        failed = UnreadableError(f"{table.path.name} cannot be read ({error.kind})")
    else:
        return
    raise unreadable_error(table.path) if table.format == "csv" else failed


def _output_schema(trial: Any, protocol: ReportProtocol, keep: Sequence[str], source: str, form: str) -> Any:
    """Say what is written: whole numbers where such are declared for a CSV file, and dictionaries to Parquet only."""
    fields = []
    for field in trial:
        values = field.type
        if pyarrow.types.is_dictionary(values) and (form != "parquet" or field.name in keep):
            values = values.value_type
        domain = protocol.values if source == "csv" and field.name not in keep else None
        if domain is not None:
            declared = domain[field.name] if field.name in domain.columns else None
            values = pyarrow.int64() if declared is not None and type_of_values(declared) is int else values
        if form == "csv" and (pyarrow.types.is_nested(values) or pyarrow.types.is_binary(values)):
            raise ValueError(f"column {field.name!r} is of type {values}, which a CSV file cannot hold")
        fields.append(pyarrow.field(field.name, values))
    return pyarrow.schema(fields)


def _settings(
    table: TableFile, transformer: ReportTransformer, keep: Sequence[str], record_id: str | None, rows: int
) -> dict[str, Any]:
    """Describe a release by what decides its reports, and the size of its parts."""
    protocol, ledger, seed = transformer.protocol_, transformer.charged_ledger, transformer.randomness(call=0).seed
    parameters, key = protocol.parameters(), protocol.permanent_key
    path = ledger.path if ledger is not None else None
    return {
        "input file": table.fingerprint(),
        "domain": _digest(parameters.pop("columns")),
        "transformer": _digest(sorted(parameters.items())),
        "secret key": None if key is None else keyed_digests(key, ("unfinished run",), [b""])[0].hex(),
        "column of record ids": record_id,
        "seed": None if seed is None else int(seed),
        "list of kept columns": list(keep),
        "ledger": None if ledger is None else "in memory" if path is None else str(path.resolve()),
        "size of parts": rows,
    }


def _digest(content: Any) -> str:
    return hashlib.sha256(repr(content).encode()).hexdigest()
