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
from typing import Any

from skdp.base import type_of_values
from skdp.engines._atomic import (
    Bar,
    NoBar,
    Progress,
    check_path,
    check_target,
    sync,
    written_beside,
)
from skdp.engines._errors import UnreadableError
from skdp.engines._libraries import Extra
from skdp.engines._release import (
    BatchRandomness,
    KeyedRandomness,
    Preparation,
    Release,
    SeededRandomness,
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
    keyed_digests,
    protocol_text,
    warn_of_reports,
)
from skdp.tables import schema_with_protocol

try:
    import fcntl
except ImportError:
    # There are no such locks on Windows.
    fcntl = None  # type: ignore[assignment]


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
        As for `privatize`. A record has the same permanent report in every format: 7 in a CSV file is the integer 7.
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
        If the file carries a protocol, as for `privatize`.

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
    check_transformer(transformer)
    # Record ids are compared before anything is charged, and so are all rows.
    check = check or record_id is not None
    table = TableFile(source, delimiter=delimiter)
    is_left = resume and target is not None and _is_left(Path(target).absolute())
    place = Path(target).absolute() if is_left else check_target(target)
    if is_csv(format_of(place)) and not resume:
        check_path(sidecar_of(place))
    release = _FileRelease(table, place, transformer, keep, record_id)
    if resume:
        release.find_folder()
    else:
        release.make_folder()
    with release.locked():
        if _is_left(place):
            release.remove_folder()
        else:
            release.carry_out(resume=resume, check=check, progress=progress)
    return place


def _folder_of(target: Path) -> Path:
    """Name the folder of an unfinished release, beside its target."""
    return target.with_name(f"{target.name}.unfinished")


def _is_left(target: Path) -> bool:
    """Return whether there is the folder of a run that was stopped after its target was there."""
    # The key goes before the file is moved to its place, and the folder after that.
    folder = _folder_of(target)
    if not _is_there(folder / _SETTINGS) or _is_there(folder / _KEY):
        return False
    return not _is_there(folder / _WHOLE) and _is_there(target)


# What is in the folder: the secret key of the release, or the number of the call of a
# seeded transformer; what the run was started with; an empty file once it is charged;
# and all reports, once they are drawn.
_KEY = "key"
_SETTINGS = "settings.json"
_CHARGED = "charged"
_WHOLE = "whole"


class _FileRelease:
    """A release from one file to another, and the folder of what is unfinished, for its owner's eyes only."""

    def __init__(
        self,
        table: TableFile,
        target: Path,
        transformer: ReportTransformer,
        keep: Sequence[str],
        record_id: str | None,
    ) -> None:
        self._table = table
        self._target = target
        self._folder = _folder_of(target)
        self._transformer = transformer
        self._form = format_of(target)
        # The types of a CSV file are those of the domain.
        domain = transformer.declared_domain() if table.is_csv else None
        check_names(keep)
        table.check_columns(set(table.repeated).intersection([*keep, record_id]))
        if domain is not None:
            table.check_columns(domain.columns)
        elif hasattr(transformer, "protocol_"):
            table.check_columns(transformer.protocol_.columns)
        table.check_columns(keep)
        sample = table.sample(domain, table.names)
        self._preparation = Preparation(
            sample, transformer, keep=keep, record_id=record_id
        )
        sidecar = sidecar_of(Path(table.path.name)).name if table.is_csv else None
        warn_of_reports(lambda: [table.protocol()], sidecar)
        no_reports = self._preparation.no_reports
        protocol = transformer.protocol_
        self._schema = _output_schema(
            no_reports.schema, protocol, keep, of_csv=table.is_csv, form=self._form
        )
        check_writable(self._schema, self._form)
        check_readable(protocol.values, no_reports, self._schema, self._form)
        # Text among numbers is an error, unless values outside the domain are accepted.
        strict = getattr(transformer, "handle_unknown", "error") == "error"
        self._stream = RowStream(
            self._preparation.check,
            no_reports,
            lambda columns, n_rows: table.tables(domain, columns, strict=strict),
        )
        table.check_quotes()
        self._content = table.fingerprint()

    def _settings(self) -> dict[str, Any]:
        """Describe what must be the same when the run is resumed: the file, and what decides its reports."""
        transformer = self._transformer
        protocol = transformer.protocol_
        ledger = transformer.charged_ledger()
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
        seed = transformer.randomness(call=0).seed
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

    def make_folder(self) -> None:
        """Make the folder, with a fresh key or the number of the call of a seeded transformer."""
        if self._folder.exists():
            raise FileExistsError(
                f"{self._folder} is of a run that did not finish, or that still goes"
                " on: take it up with resume (--resume), or remove it and start again,"
                " which is one more release"
            )
        settings = self._settings()
        randomness = self._transformer.randomness()
        # The number of the call is no secret, and enough for the same seeded reports.
        key = str(randomness.call).encode()
        if randomness.seed is None:
            key = SecretKey.generate()
        # The folder is there with all that a resumed run needs, or not at all.
        with written_beside(self._folder) as beside:
            beside.mkdir(mode=0o700)
            _write(beside / _KEY, key)
            content = settings | {"run": secrets.token_hex(8)}
            _write(beside / _SETTINGS, json.dumps(content).encode())

    def find_folder(self) -> None:
        """Check that there is the folder of a run of the same that did not finish."""
        stored = self._stored_settings()
        # Through JSON and back, as what was stored.
        settings = json.loads(json.dumps(self._settings()))
        differences = [name for name in settings if stored.get(name) != settings[name]]
        if differences:
            raise ValueError(
                f"the unfinished run in {self._folder} had another "
                f"{', another '.join(differences)}: resume it with what it was started "
                "with, or remove it and start again, which is one more release"
            )

    def _stored_settings(self) -> dict[str, Any]:
        try:
            stored = json.loads((self._folder / _SETTINGS).read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            raise FileNotFoundError(
                f"there is nothing to resume: no unfinished run in {self._folder}"
            ) from None
        except ValueError:
            return {}
        return stored if isinstance(stored, dict) else {}

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes out as long as this one draws; where the system has such locks."""
        with self._lock():
            # It may be gone since it was found.
            self._stored_settings()
            for half in self._folder.glob(".*.partial"):
                half.unlink()
            yield

    @contextmanager
    def _lock(self) -> Iterator[None]:
        if fcntl is None:
            # Nor could a folder with an open file be renamed on Windows.
            yield
            return
        with (self._folder / "lock").open("ab") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise FileExistsError(
                    f"{self._folder} is being written by another run; let it finish"
                ) from None
            yield

    def carry_out(self, *, resume: bool, check: bool, progress: Progress) -> None:
        """Check, charge, draw and publish: each once, however often the run is stopped."""
        is_charged = _is_there(self._folder / _CHARGED)
        try:
            if check and not is_charged:
                # A run that was killed as it was charged has its charge in the ledger
                # alone, which may have nothing left: `_charge` finds it by the run.
                if not resume:
                    self._transformer.check_budget()
                self._stream.check()
                logger.info("checked")
        # Nothing is charged.
        except BaseException as error:
            self._leave(error, resume)
            raise
        try:
            self._charge(is_charged=is_charged)
        # Refused, so not charged.
        except (RuntimeError, TypeError, ValueError) as error:
            self._leave(error, resume)
            raise
        except BaseException as error:
            self._tell(error)
            raise
        is_whole = _is_there(self._folder / _WHOLE)
        randomness = None if is_whole else self._randomness()
        try:
            if randomness is not None:
                self._draw(randomness, progress)
            self._publish()
        except BaseException as error:
            is_drawn = _is_there(self._folder / _WHOLE)
            if _is_refusal(error) and not is_drawn and self._is_same_file():
                # The same rows would be refused again.
                self.remove_folder()
            else:
                self._tell(error)
            raise

    def _charge(self, *, is_charged: bool) -> None:
        """Charge the ledger, unless that is recorded here or there; a ledger in memory may be another one."""
        ledger = self._transformer.charged_ledger()
        # A ledger with a file knows the number of the run, and is charged once; one in
        # memory may be new, and then it is charged.
        if ledger is not None and not (is_charged and ledger.path is not None):
            self._transformer.charge(self._stored_settings().get("run"))
        # The charge is on the disk before anything is drawn.
        if not is_charged:
            _write(self._folder / _CHARGED, b"")
            sync(self._folder)
        guarantee = self._transformer.guarantee_
        logger.info("charged, by this run or before: %s", guarantee)

    def _randomness(self) -> BatchRandomness:
        """Take up the randomness of the release."""
        path = self._folder / _KEY
        key = path.read_bytes() if _is_there(path) else b""
        transformer = self._transformer
        is_seeded = transformer.randomness(call=0).seed is not None
        if is_seeded and key.isdigit():
            return SeededRandomness(transformer.randomness(call=int(key)))
        key_bytes = 32
        if is_seeded or len(key) != key_bytes:
            raise ValueError(
                f"{self._folder} has lost its key, and cannot be resumed: remove it"
            )
        return KeyedRandomness(SecretKey(key))

    def _draw(self, randomness: BatchRandomness, progress: Progress) -> None:
        """Draw all reports, and write them into a file of the folder."""
        release = self._preparation.release(randomness)
        schema = self._schema
        n_rows = self._table.count_rows()
        whole = self._folder / _WHOLE
        with closing(progress(n_rows)) as bar, written_beside(whole) as path:
            reports = self._reports(release, bar)
            if not is_csv(self._form):
                schema = schema_with_protocol(schema, release.protocol_text)
            write_file(reports, schema, path, self._form)

    def _reports(self, release: Release, bar: Bar) -> Iterator[Any]:
        for reports in self._stream.release(release):
            bar.update(len(reports))
            yield reports.cast(self._schema).unify_dictionaries()

    def _publish(self) -> None:
        """Delete the key, move what is whole to its place, and remove the folder; say the protocol beside CSV."""
        if _is_there(self._target):
            raise FileExistsError(
                f"{self._target} exists already; a release is never overwritten"
            )
        whole = self._folder / _WHOLE
        text = protocol_text(self._transformer) if is_csv(self._form) else None
        if text is not None:
            # One of this run, which was stopped before its target was there.
            sidecar = sidecar_of(self._target)
            sidecar.unlink(missing_ok=True)
            write_sidecar(whole, text, sidecar)
        (self._folder / _KEY).unlink(missing_ok=True)
        sync(self._folder)
        whole.rename(self._target)
        sync(self._target.parent)
        self.remove_folder()
        logger.info("released")

    def remove_folder(self) -> None:
        """Remove the folder: what is in it can never be completed again."""
        (self._folder / _KEY).unlink(missing_ok=True)
        # At once: a run that is killed in between must not leave half of a folder.
        gone = self._folder.with_name(
            f".{self._folder.name}.{secrets.token_hex(8)}.removed"
        )
        try:
            self._folder.rename(gone)
        except OSError:
            gone = self._folder
        shutil.rmtree(gone, ignore_errors=True)

    def _is_same_file(self) -> bool:
        """Return whether the file still holds what it held when the run was started."""
        try:
            return self._table.fingerprint() == self._content
        except OSError:
            return False

    def _leave(self, error: BaseException, resumed: bool) -> None:
        """Remove the folder of a run that was started without a charge; one that is resumed may have been charged."""
        if resumed:
            self._tell(error)
        else:
            self.remove_folder()

    def _tell(self, error: BaseException) -> None:
        if self._folder.exists():
            error.add_note(
                f"The run is unfinished in {self._folder}: resume=True goes on, with "
                "one charge in all and one report a row."
            )


def _is_there(path: Path) -> bool:
    """Return whether a file exists; a disk that does not answer is an error, where `Path.exists` may return False."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _write(path: Path, content: bytes) -> None:
    """Write a new file that only its owner can read, and wait until it is on the disk."""
    path.touch(mode=0o600, exist_ok=False)
    path.write_bytes(content)
    sync(path)


def _is_refusal(error: BaseException) -> bool:
    """Return whether an error is of what the file holds, not of reading or writing."""
    return isinstance(
        error, TypeError | ValueError | NotImplementedError
    ) and not isinstance(error, UnreadableError | OSError)


def _output_schema(
    no_reports: Any,
    protocol: ReportProtocol,
    keep: Sequence[str],
    *,
    of_csv: bool,
    form: str,
) -> Any:
    """Return the schema that is written: declared whole numbers of CSV, and dictionaries in Parquet only."""
    domain = protocol.values
    whole_numbers = set()
    if of_csv and domain is not None:
        for name in domain.columns:
            if type_of_values(domain[name]) is int:
                whole_numbers.add(name)
    fields = []
    for field in no_reports:
        kind = field.type
        is_kept = field.name in keep
        if pyarrow.types.is_dictionary(kind) and (form != "parquet" or is_kept):
            kind = kind.value_type
        if field.name in whole_numbers and not is_kept:
            kind = pyarrow.int64()
        is_nested = pyarrow.types.is_nested(kind) or pyarrow.types.is_binary(kind)
        if is_csv(form) and is_nested:
            raise ValueError(
                f"column {field.name!r} is of type {kind}, which a CSV file cannot hold"
            )
        fields.append(pyarrow.field(field.name, kind))
    return pyarrow.schema(fields)
