"""From a file with true rows to a file with reports."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

from skdp.base import type_of_values
from skdp.engines._atomic import Bar, NoBar, Progress, check_path, sync, written_beside
from skdp.engines._errors import UnreadableError
from skdp.engines._libraries import Extra
from skdp.engines._randomness import BatchRandomness, KeyedRandomness, SeededRandomness
from skdp.engines._release import (
    Preparation,
    Release,
    check_flags,
    check_names,
    check_transformer,
)
from skdp.engines._streams import RowStream
from skdp.engines.files._table_file import (
    TableFile,
    check_readable,
    check_writable,
    format_of,
    is_csv,
    sidecar_of,
    write_file,
    write_sidecar,
)
from skdp.local import (
    ReportProtocol,
    ReportTransformer,
    SecretKey,
    protocol_text,
    warn_of_reports,
)
from skdp.local.memo import keyed_digests

try:
    import fcntl
except ImportError:
    # There are no such locks on Windows.
    fcntl = None  # type: ignore[assignment]

_KEY_BYTES = 32


class WorkingFolder:
    """The folder of an unfinished release, beside its target; for its owner's eyes only."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self.path = target.with_name(f"{target.name}.unfinished")
        self._whole = self.path / "whole"
        self._key = self.path / "key"
        self._settings = self.path / "settings.json"
        self._charged = self.path / "charged"

    @classmethod
    def start(
        cls, target: Path, settings: dict[str, Any], transformer: ReportTransformer
    ) -> Self:
        """Make the folder, with a fresh key or the number of the call of a seeded transformer."""
        folder = cls(target)
        if folder.path.exists():
            raise FileExistsError(
                f"{folder.path} is of a run that did not finish, or that still goes on:"
                " take it up with resume (--resume), or remove it and start again,"
                " which is one more release"
            )
        randomness = transformer.randomness()
        # The number of the call is no secret, and enough for the same seeded reports.
        key = str(randomness.call).encode()
        if randomness.seed is None:
            key = SecretKey.generate()
        # The folder is there with all that a resumed run needs, or not at all.
        with written_beside(folder.path) as beside:
            beside.mkdir(mode=0o700)
            _write(beside / folder._key.name, key)
            content = settings | {"run": secrets.token_hex(8)}
            _write(beside / folder._settings.name, json.dumps(content).encode())
            sync(beside)
        sync(target.parent)
        return folder

    @classmethod
    def resume(cls, target: Path, settings: dict[str, Any]) -> Self:
        """Open the folder of a run that did not finish."""
        folder = cls(target)
        stored = folder._read_settings()
        # Through JSON and back, as what was stored.
        settings_here = json.loads(json.dumps(settings))
        differences = [
            name for name in settings_here if stored.get(name) != settings_here[name]
        ]
        if differences:
            raise ValueError(
                f"the unfinished run in {folder.path} had another "
                f"{', another '.join(differences)}: resume it with what it was started "
                "with, or remove it and start again, which is one more release"
            )
        return folder

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes out as long as this one draws; where the system has such locks."""
        with self._lock():
            self._read_settings()
            for half in self.path.glob(".*.partial"):
                half.unlink()
            yield

    def _read_settings(self) -> dict[str, Any]:
        try:
            stored = json.loads(self._settings.read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            raise FileNotFoundError(
                f"there is nothing to resume: no unfinished run in {self.path}"
            ) from None
        except ValueError:
            return {}
        return stored if isinstance(stored, dict) else {}

    @contextmanager
    def _lock(self) -> Iterator[None]:
        if fcntl is None:
            yield
            return
        with (self.path / "lock").open("ab") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise FileExistsError(
                    f"{self.path} is being written by another run; let it finish"
                ) from None
            yield

    def is_left(self) -> bool:
        """Return whether this is the folder of a run that was stopped after its target was there."""
        # The key goes before the file is moved to its place, and the folder after that.
        if not _is_there(self._settings) or _is_there(self._key):
            return False
        return not self.is_whole() and _is_there(self._target)

    def randomness(self, transformer: ReportTransformer) -> BatchRandomness:
        """Take up the randomness of the release."""
        key = self._key.read_bytes() if _is_there(self._key) else b""
        seeded = transformer.randomness(call=0).seed is not None
        if seeded and key.isdigit():
            return SeededRandomness(transformer.randomness(call=int(key)))
        if seeded or len(key) != _KEY_BYTES:
            raise ValueError(
                f"{self.path} has lost its key, and cannot be resumed: remove it"
            )
        return KeyedRandomness(SecretKey(key))

    @property
    def is_charged(self) -> bool:
        """Whether a charge is recorded."""
        return _is_there(self._charged)

    def charge(self, transformer: ReportTransformer) -> None:
        """Charge the ledger, unless that is recorded here or there; a ledger in memory may be another one."""
        is_charged = self.is_charged
        ledger = transformer.charged_ledger
        # A ledger with a file knows the number of the run, and is charged once; one in
        # memory may be new, and then it is charged.
        if ledger is not None and not (is_charged and ledger.path is not None):
            transformer.charge(self._read_settings().get("run"))
        # The charge is on the disk before anything is drawn.
        if not is_charged:
            _write(self._charged, b"")
            sync(self.path)

    @contextmanager
    def written_whole(self) -> Iterator[Path]:
        """Write all reports into a file of their own."""
        with written_beside(self._whole) as beside:
            yield beside
            sync(beside)
        sync(self.path)

    @contextmanager
    def draft(self) -> Iterator[Path]:
        """Name a file for what is written a second time, and remove it."""
        path = self.path / f".draft.{secrets.token_hex(8)}.partial"
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)

    def is_whole(self) -> bool:
        """Return whether all reports are in one file, or folder."""
        return _is_there(self._whole)

    def publish(self, text: str | None = None) -> None:
        """Delete the key, move what is whole to its place, and remove the folder; say its protocol beside it before."""
        if _is_there(self._target):
            raise FileExistsError(
                f"{self._target} exists already; a release is never overwritten"
            )
        if text is not None:
            # One of this run, which was stopped before its target was there.
            sidecar = sidecar_of(self._target)
            sidecar.unlink(missing_ok=True)
            write_sidecar(self._whole, text, sidecar)
        self._key.unlink(missing_ok=True)
        sync(self.path)
        self._whole.rename(self._target)
        sync(self._target.parent)
        self.remove()

    def remove(self) -> None:
        """Remove the folder: what is in it can never be completed again."""
        self._key.unlink(missing_ok=True)
        gone = self.path.with_name(f".{self.path.name}.{secrets.token_hex(8)}.removed")
        # At once: a run that is killed in between must not leave half of a folder.
        try:
            self.path.rename(gone)
        except OSError:
            gone = self.path
        shutil.rmtree(gone, ignore_errors=True)


def _is_there(path: Path) -> bool:
    """Return whether a file exists; a disk that does not answer is an error, where `Path.exists` may return False."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _write(path: Path, *contents: Any) -> None:
    """Write a new file that only its owner can read, and wait until it is on the disk."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        file.writelines(contents)
        file.flush()
        os.fsync(file.fileno())


pyarrow, ipc = Extra("pyarrow"), Extra("pyarrow.ipc")
logger = logging.getLogger(__name__)


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

    The names say the formats: ``.csv``, ``.tsv``, ``.parquet``, or ``.arrow`` (also ``.feather``, ``.ipc``; files, not
    streams); ``.csv.gz`` and ``.tsv.gz`` are gzipped. Of a CSV file, the types are those of the domain, and each value
    is read by itself, so that none depends on other rows: declared numbers and bins of numbers are numbers, decimals
    are exact, true and false are booleans, dates and datetimes are ISO 8601, all else is text; what pandas takes for
    missing is missing, unless it is declared. The columns of a `NumericPerturber` are numbers; those of a
    `RapporEncoder`, and kept columns, are text, or missing where empty.

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
        ``skdp.protocol``, or for CSV in a file ``<target>.skdp.json`` beside it, with the SHA-256 of the target and
        a random number, by which a copy is noticed.

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

    Warns
    -----
    UserWarning
        If the file says that a column holds reports already, as for `privatize`.

    See Also
    --------
    estimate_file : Estimates counts from the reports.
    privatize : The same for tables of an engine.

    Notes
    -----
    **Privacy.** As for `privatize`: for each record (row), the transformer's `guarantee_`, charged once before anything
    is drawn. The kept columns and the order of the rows are not protected.

    *A run that is stopped*, at any moment, leaves a folder ``<target>.unfinished``, for its owner only, with the secret
    key of the release and whether it was charged. With `resume`, all rows are drawn again from the same key, so that
    they have the same reports. There is one report for each row and one charge, however often the run was
    stopped: the ledger names the run beside its charge. (Another ledger, such as a new one in memory, is charged.) A
    disk that fails to read or write deletes nothing; only rows that are refused do, if the file is still the one that
    the run began with. The key is deleted when all is drawn, before the target appears; until then, keep the folder as
    secret as the true rows: the key can undo the reports. (A deleted file may remain on a disk and in backups.) The
    file with the rows is recognised by a digest of its content. Should it change while a run reads it, the random bits
    of other rows are independent of those that were drawn before.

    *Many files* with rows of one table are read together by `privatize`, as a lazy frame of Polars, a relation of
    DuckDB or a pyarrow Dataset: one release, one charge, and a record id that is in two files is refused. In a loop
    over `privatize_file`, each call is a release of its own: a ledger is charged for each file, as if all of them had
    rows of the same persons, and no two files are compared.

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
    # Record ids are compared before anything is charged, and so are all rows.
    check = check or record_id is not None
    check_transformer(transformer)
    table = TableFile(source, delimiter=delimiter)
    is_left = (
        resume
        and target is not None
        and WorkingFolder(Path(target).absolute()).is_left()
    )
    place = Path(target).absolute() if is_left else check_path(target)
    if place is None:
        raise TypeError("target must be a str or a path, got NoneType")
    if is_csv(format_of(place)) and not resume:
        check_path(sidecar_of(place))
    release = _FileRelease(table, transformer, keep, record_id, format_of(place))
    settings = release.settings()
    folder = (
        WorkingFolder.resume(place, settings)
        if resume
        else WorkingFolder.start(place, settings, transformer)
    )
    with folder.locked():
        if folder.is_left():
            folder.remove()
        else:
            _carry_out(release, folder, resume=resume, check=check, progress=progress)
    return place


class _FileRelease:
    """A release from one file to another, in the steps that `_carry_out` calls."""

    def __init__(
        self,
        table: TableFile,
        transformer: ReportTransformer,
        keep: Sequence[str],
        record_id: str | None,
        form: str,
    ) -> None:
        self._table = table
        self._transformer = transformer
        self._form = form
        # The types of a CSV file are those of the domain.
        domain = transformer.declared_domain if table.is_csv else None
        check_names(keep)
        if domain is not None:
            table.check_columns(domain.columns)
        elif hasattr(transformer, "protocol_"):
            table.check_columns(transformer.protocol_.columns)
        table.check_columns(keep)
        sample = table.sample(domain, table.names)
        preparation = Preparation(sample, transformer, keep=keep, record_id=record_id)
        sidecar = sidecar_of(Path(table.path.name)).name if table.is_csv else None
        warn_of_reports(_protocol_texts(table), transformer, sidecar)
        no_reports = preparation.no_reports
        protocol = transformer.protocol_
        self._schema = _output_schema(
            no_reports.schema, protocol, keep, of_csv=table.is_csv, form=form
        )
        check_writable(self._schema, form)
        check_readable(protocol.values, no_reports, self._schema, form)
        self._preparation = preparation
        self._stream = RowStream(
            preparation.check,
            no_reports,
            lambda columns, n_rows: table.tables(domain, columns),
        )
        self._content = table.fingerprint()

    def settings(self) -> dict[str, Any]:
        """Describe what must be the same when the run is resumed: the file, and what decides its reports."""
        transformer = self._transformer
        protocol = transformer.protocol_
        ledger = transformer.charged_ledger
        seed = transformer.randomness(call=0).seed
        check = self._preparation.check
        ledger_name = None
        if ledger is not None:
            path = ledger.path
            ledger_name = "in memory" if path is None else str(path.resolve())
        key_name = None
        if protocol.permanent_key is not None:
            (key_digest,) = keyed_digests(
                protocol.permanent_key, ("unfinished run",), [b""]
            )
            key_name = key_digest.tobytes().hex()
        parameters = repr(sorted(protocol.parameters().items()))
        return {
            # Another version may draw other reports from the same key, and some of the
            # first ones may be known.
            "version of skdp": version("skdp"),
            "input file": self._content,
            "transformer": hashlib.sha256(parameters.encode()).hexdigest(),
            "secret key": key_name,
            "column of record ids": check.record_id,
            "seed": None if seed is None else int(seed),
            "list of kept columns": list(check.keep),
            "ledger": ledger_name,
            "size of batches": self._stream.batch_rows,
        }

    def is_same(self) -> bool:
        """Return whether the file still holds what it held when the run was started."""
        try:
            return self._table.fingerprint() == self._content
        except OSError:
            return False

    def check_rows(self) -> None:
        """Check all rows, if the budget covers the release."""
        self._transformer.check_budget()
        self._stream.check()
        logger.info("checked")

    def charge(self, folder: WorkingFolder) -> None:
        """Charge the ledger, once for all that is done in a folder."""
        folder.charge(self._transformer)
        logger.info("charged, by this run or before: %s", self._transformer.guarantee_)

    def randomness(self, folder: WorkingFolder) -> BatchRandomness:
        """Take up the key of a folder."""
        return folder.randomness(self._transformer)

    def draw(
        self, folder: WorkingFolder, randomness: BatchRandomness, progress: Progress
    ) -> None:
        """Draw all reports, and write them into a folder."""
        release = self._preparation.release(randomness)
        schema = self._schema
        n_rows = self._table.count_rows()
        with closing(progress(n_rows)) as bar, folder.written_whole() as path:
            reports = self._reports(release, bar)
            if self._form == "parquet":
                write_file(reports, schema, path, self._form, release.noted)
            elif self._form == "ipc":
                # An Arrow file begins with its schema, and so with the note of all
                # reports.
                with folder.draft() as draft:
                    write_file(reports, schema, draft, self._form)
                    noted = release.noted(schema)
                    write_file(_stored_tables(draft), noted, path, self._form)
            else:
                write_file(reports, schema, path, self._form)
                release.close()

    def _reports(self, release: Release, bar: Bar) -> Iterator[Any]:
        for reports in self._stream.release(release):
            bar.update(len(reports))
            yield reports.cast(self._schema).unify_dictionaries()

    def publish(self, folder: WorkingFolder) -> None:
        """Move the reports to their place; beside CSV, say their protocol."""
        folder.publish(protocol_text(self._transformer) if is_csv(self._form) else None)
        logger.info("released")


def _carry_out(
    release: _FileRelease,
    folder: WorkingFolder,
    *,
    resume: bool,
    check: bool,
    progress: Progress,
) -> None:
    """Check, charge, draw and publish: each once, however often the run is stopped."""
    try:
        if check and not folder.is_charged:
            release.check_rows()
    # Nothing is charged.
    except BaseException as error:
        _leave(error, folder, resume)
        raise
    try:
        release.charge(folder)
    # Refused, so not charged.
    except (RuntimeError, TypeError, ValueError) as error:
        _leave(error, folder, resume)
        raise
    except BaseException as error:
        _tell(error, folder)
        raise
    randomness = None if folder.is_whole() else release.randomness(folder)
    try:
        if randomness is not None:
            release.draw(folder, randomness, progress)
        release.publish(folder)
    except BaseException as error:
        if _is_refusal(error) and not folder.is_whole() and release.is_same():
            # The same rows would be refused again.
            folder.remove()
        else:
            _tell(error, folder)
        raise


def _is_refusal(error: BaseException) -> bool:
    """Return whether an error is of what the file holds, not of reading or writing."""
    return isinstance(
        error, TypeError | ValueError | NotImplementedError
    ) and not isinstance(error, UnreadableError | OSError)


def _leave(error: BaseException, folder: WorkingFolder, resumed: bool) -> None:
    """Remove the folder of a run that was started without a charge; one that is resumed may have been charged."""
    if resumed:
        _tell(error, folder)
    else:
        folder.remove()


def _tell(error: BaseException, folder: WorkingFolder) -> None:
    if folder.path.exists():
        error.add_note(
            f"The run is unfinished in {folder.path}: resume=True goes on, with one "
            "charge in all and one report a row."
        )


def _output_schema(
    trial: Any,
    protocol: ReportProtocol,
    keep: Sequence[str],
    *,
    of_csv: bool,
    form: str,
) -> Any:
    """Return the schema that is written: declared whole numbers of CSV, and dictionaries in Parquet only."""
    domain = protocol.values if of_csv else None
    fields = []
    for field in trial:
        values = field.type
        if pyarrow.types.is_dictionary(values) and (
            form != "parquet" or field.name in keep
        ):
            values = values.value_type
        if (
            domain is not None
            and field.name in domain.columns
            and field.name not in keep
        ):
            values = (
                pyarrow.int64() if type_of_values(domain[field.name]) is int else values
            )
        if is_csv(form) and (
            pyarrow.types.is_nested(values) or pyarrow.types.is_binary(values)
        ):
            raise ValueError(
                f"column {field.name!r} is of type {values}, which a CSV file cannot "
                "hold"
            )
        fields.append(pyarrow.field(field.name, values))
    return pyarrow.schema(fields)


def _stored_tables(path: Path) -> Iterator[Any]:
    """Read the batches of an Arrow file."""
    with pyarrow.memory_map(str(path)) as file:
        reader = ipc.open_file(file)
        for number in range(reader.num_record_batches):
            yield pyarrow.Table.from_batches([reader.get_batch(number)])


def _protocol_texts(table: TableFile) -> list[str | None]:
    """Return the protocol that a file says; none, if it says several, or was changed since."""
    try:
        return [table.protocol()]
    except ValueError:
        return []
