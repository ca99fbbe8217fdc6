"""From many files with true rows to a folder of shards with reports, and a manifest."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import joblib

from skdp.engines._atomic import NoBar, Progress, check_path
from skdp.engines._batch_release import BatchCheck, Release, check_flags, check_names, check_transformer, in_processes
from skdp.engines._extras import Extra
from skdp.engines._randomness import BatchRandomness
from skdp.engines._record_ids import DistinctIds, DistinctInAll
from skdp.engines._source_file import open_filesystem
from skdp.engines.backends.batches import Checked, batch_rows, even, in_full, in_turn, placed
from skdp.engines.files._checkpoint import WorkingFolder
from skdp.engines.files._formats import check_readable, check_writable, format_of, write_file
from skdp.engines.files._run import carry_out, declared_columns, describe_release, digest_of, output_schema
from skdp.engines.files.shards._manifest import NAME, Manifest, Shard
from skdp.engines.files.shards._parts import Part, Sources, check_folders, check_types, open_parts
from skdp.engines.files.shards._work import ShardFolder, Stop
from skdp.frames import schema_with_protocol
from skdp.local import ReportTransformer, protocol_text
from skdp.privacy import PrivacyGuarantee

pyarrow, fs = Extra("pyarrow"), Extra("pyarrow.fs")
logger = logging.getLogger(__name__)

FileFormat = Literal["parquet", "csv", "arrow", "jsonl", "csv.gz", "jsonl.gz"]
FILE_FORMATS: tuple[str, ...] = get_args(FileFormat)


def privatize_files(
    source: Sources,
    target: str | os.PathLike[str],
    transformer: ReportTransformer,
    *,
    file_format: FileFormat = "parquet",
    keep: Sequence[str] = (),
    record_id: str | None = None,
    resume: bool = False,
    n_jobs: int | None = None,
    staging: str | os.PathLike[str] | None = None,
    progress: Progress = NoBar,
    check: bool = True,
    allow_copies: bool = False,
    delimiter: str | None = None,
) -> str:
    r"""Privatise a table in many files, and write a folder of shards and the manifest that describes them.

    The shards are called ``part-00000.parquet`` and so on, one for each file of the input, in the order of the list
    and, within folders and patterns, in that of the names. ``manifest.json`` has the protocol
    (`ReportTransformer.to_json`), the guarantee (`PrivacyGuarantee.to_dict`), what the ledger was charged, the kept
    columns, the version of skdp, and of each shard its rows, size and SHA-256: `estimate_file` needs nothing else.

    Parameters
    ----------
    source : str, path-like, or a list of these
        Files, folders, or patterns with ``*``, ``?``, ``[…]`` and ``**``: paths of this machine or URLs that pyarrow
        or fsspec opens (of a URL, only ``*`` is a pattern). All files are of one format, as for `privatize_file`, and
        of the same types. Of a folder, all files below it are read, but none whose name, or whose folder's name, begins
        with ``.`` or ``_``. Folders called ``NAME=VALUE``, below what all places have in common, are columns of text,
        which must be kept.
    target : str or path-like
        The folder to write, a path or a URL. It must not exist, or be empty at a URL.
    transformer : local transformer
        As for `privatize_file`.
    file_format : {"parquet", "csv", "arrow", "jsonl", "csv.gz", "jsonl.gz"}, default="parquet"
        The format of the shards.
    keep : sequence of str, optional
        Columns that are released **unprotected**, after the reports. By default, only reports are released.
    record_id : str, optional
        As for `privatize_file`; no record reports twice in all files. The ids take 16 bytes each in memory.
    resume : bool, default=False
        Whether to go on with a run to the same target that was stopped, as for `privatize_file`.
    n_jobs : int, optional
        How many files are worked on at a time, in threads; -1 is one for each core. By default one.
    staging : str or path-like, optional
        With a URL as the target, and only then: a folder of this machine, in which the whole release is made before it
        is copied. The key of the release never leaves this machine.
    progress : callable, optional
        As for `privatize_file`.
    check : bool, default=True
        As for `privatize_file`: whether all rows of all files are read once before the charge.
    allow_copies : bool, default=False
        Whether two files may have the same content, byte for byte, as small files of different rows may. By default
        that is an error, as one of them may be a copy, whose rows would be reported twice.
    delimiter : str, optional
        What separates the values of a row in a CSV file that is read: one character. By default a comma, and a tab
        where the name ends in ``.tsv``.

    Returns
    -------
    str
        The target.

    Raises
    ------
    TypeError, ValueError, BudgetExceeded, ImportError, OSError, FileExistsError, FileNotFoundError
        As for `privatize_file`; or if a file is named twice, by a link too, or is a copy of another one. An error about
        rows names the column and the number of the part, and shows no value. A row that is refused costs nothing; with
        ``check=False``, the charge stands.

    See Also
    --------
    privatize_file : From one file to one file.
    estimate_file : Estimates counts from the folder, or its manifest.

    Notes
    -----
    **Privacy.** As for `privatize_file`: for each record (row), the transformer's `guarantee_`, charged once before
    anything is drawn, for all shards together.

    *In which file a row is, is not protected*, as its place within a file is not: a shard has the rows of one file, and
    the manifest their number. The names of the files are not released. But where they, or the rows that a file has,
    follow from the values of a column, the shards show these values. So a column in the names of folders cannot be
    privatised, and must be named in `keep`; and files that are divided by what is to be hidden (a file for each
    diagnosis) must be written in another order first.

    *A run that is stopped*, at any moment, leaves a folder ``<target>.unfinished``, as for `privatize_file`, with the
    key and the shards that are finished. With `resume`, a shard that is as its digest says is not drawn again, and any
    other one is drawn from the same key and has the same bytes (with the same versions of skdp and pyarrow). The
    target appears when it is complete; at a URL, ``manifest.json`` is written last.

    Anybody who can write to the folder can also write another manifest: the digests show accidents, not attacks.

    Examples
    --------
    >>> import json
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from skdp import RandomizedResponseEncoder
    >>> from skdp.engines import privatize_files
    >>> encoder = RandomizedResponseEncoder(2.0, categories={"smokes": ["yes", "no"]})
    >>> with TemporaryDirectory() as folder:
    ...     for day, n_smokers in {"monday": 250, "tuesday": 200}.items():
    ...         _ = Path(folder, f"{day}.csv").write_text("smokes\n" + "yes\n" * n_smokers + "no\n" * 750)
    ...     _ = privatize_files(f"{folder}/*.csv", f"{folder}/reports", encoder, file_format="jsonl.gz")
    ...     manifest = json.loads(Path(folder, "reports", "manifest.json").read_text())
    >>> [(shard["name"], shard["rows"]) for shard in manifest["shards"]]
    [('part-00000.jsonl.gz', 1000), ('part-00001.jsonl.gz', 950)]
    >>> manifest["guarantee"]["trust"], round(manifest["guarantee"]["epsilon"], 6)
    ('local', 2.0)
    """
    check_flags(resume=resume, check=check, allow_copies=allow_copies)
    check_transformer(transformer)
    place, upload = _check_target(target, staging, resume)
    if file_format not in FILE_FORMATS:
        raise ValueError(f"file_format must be one of {', '.join(FILE_FORMATS)}, got {file_format!r}")
    if not (resume and WorkingFolder(place).is_left()):
        check_path(place)
    jobs = _check_jobs(n_jobs)
    parts = open_parts(source, place, delimiter)
    release = _ShardedRelease(parts, transformer, keep, record_id, file_format, jobs, progress, check)
    release.carry_out(place, upload, resume, allow_copies)
    return os.fspath(target)


def _check_target(
    target: str | os.PathLike[str], staging: str | os.PathLike[str] | None, resume: bool
) -> tuple[Path, tuple[Any, str] | None]:
    """Return where the release is made, and where it is copied to: a file system and a path on it, or None."""
    if not isinstance(target, str | os.PathLike):
        raise TypeError(f"target must be a str or a path, got {type(target).__name__}")
    if "://" not in os.fspath(target):
        if staging is not None:
            raise ValueError("staging goes with a URL as the target: a folder of this machine needs none")
        return Path(target).absolute(), None
    if staging is None:
        raise ValueError("a URL as the target needs staging: a folder of this machine, where the release is made")
    filesystem, path = open_filesystem(target)
    if not resume and filesystem.get_file_info(fs.FileSelector(path, allow_not_found=True)):
        raise FileExistsError("the folder of the target is not empty; a release is never overwritten")
    if not Path(staging).is_dir():
        raise FileNotFoundError(f"there is no folder {staging} for staging")
    own = digest_of((filesystem.type_name, path))[:16]  # so that no other target gets what is left here
    return Path(staging).absolute() / f"release-{own}", (filesystem, path)


def _check_jobs(n_jobs: int | None) -> int:
    if n_jobs is not None and (isinstance(n_jobs, bool) or not isinstance(n_jobs, int) or n_jobs == 0):
        raise ValueError(f"n_jobs must be None or a whole number that is not 0, got {n_jobs!r}")
    jobs: int = joblib.effective_n_jobs(n_jobs)
    return jobs


def _copy(filesystem: Any, path: str, whole: Path) -> None:
    """Copy a release to where it is to be, the manifest last."""
    filesystem.create_dir(path, recursive=True)
    names = sorted((file.name for file in whole.iterdir()), key=lambda name: (name == NAME, name))
    for name in names:
        fs.copy_files(
            str(whole / name),
            f"{path.rstrip('/')}/{name}",
            source_filesystem=fs.LocalFileSystem(),
            destination_filesystem=filesystem,
        )


class _ShardedRelease:
    """A release of many files, whose steps `carry_out` calls in their order."""

    def __init__(
        self,
        parts: list[Part],
        transformer: ReportTransformer,
        keep: Sequence[str],
        record_id: str | None,
        file_format: str,
        jobs: int,
        progress: Progress,
        check: bool,
    ) -> None:
        first, self._parts, self._jobs, self._progress, self._check = parts[0], parts, jobs, progress, check
        self._transformer, self._keep, self._record_id, self._ending = transformer, keep, record_id, file_format
        self._declared = transformer.declared_domain if first.table.is_text else None
        check_names(keep)
        for part in parts:
            part.check_columns([*declared_columns(transformer, self._declared), *keep])
        trial = Release.rehearse(first.sample(self._declared, first.names), transformer, keep, record_id)
        self._look = BatchCheck(transformer.protocol_, keep, record_id)
        for part in parts:
            part.check_columns(self._look.columns)
        check_folders(first, transformer.protocol_.columns, keep)
        check_types(parts, self._declared, self._look.columns)
        self._form = format_of(Path(f"part.{file_format}"))
        self._schema = output_schema(
            trial.schema, transformer.protocol_, keep, of_text=first.table.is_text, form=self._form
        )
        check_writable(self._schema, self._form)
        check_readable(transformer.protocol_.values, trial, self._schema, self._form)
        self._rows = batch_rows(trial.num_columns)
        said = protocol_text(transformer)
        is_text = self._form not in ("parquet", "ipc")
        self._written = self._schema if is_text else schema_with_protocol(self._schema, said)
        protocol = None if said is None else json.loads(said)
        self._manifest = partial(Manifest, protocol, transformer.guarantee_, _charged(transformer))

    def carry_out(self, place: Path, upload: tuple[Any, str] | None, resume: bool, allow_copies: bool) -> None:
        """Make the release, or go on with it, and copy it to a path on a file system, if one is given."""
        files = self._fingerprints()
        if not allow_copies:
            self._refuse_copies(files)
        settings = {"list of input files": digest_of(files), "format of shards": self._form} | describe_release(
            self._transformer, self._keep, self._record_id, self._rows
        )
        folder = (
            WorkingFolder.resume(place, settings) if resume else WorkingFolder.start(place, settings, self._transformer)
        )

        def is_same() -> bool:
            try:
                return self._fingerprints() == files
            except OSError:
                return False

        carry_out(
            folder,
            self._transformer,
            resumed=resume,
            check=self._count_checked,
            draw=partial(self._draw, ShardFolder(folder)),
            is_same=is_same,
            publish=folder.publish if upload is None else partial(folder.send, partial(_copy, *upload)),
        )

    def _fingerprints(self) -> list[str]:
        found = Stop().in_threads(lambda part: part.table.fingerprint(), self._parts, self._jobs)
        return [digest_of((file, sorted(part.folders.items()))) for file, part in zip(found, self._parts, strict=True)]

    def _refuse_copies(self, files: list[str]) -> None:
        """Refuse a part with the rows of another one; those without rows are no copies."""
        seen: dict[str, Part] = {}
        for part, file in zip(self._parts, files, strict=True):
            first = seen.setdefault(file, part)
            if first is not part and any(map(len, part.tables(self._declared, self._look.columns))):
                raise ValueError(
                    f"part {part.number} has the same content as part {first.number}: if it is a copy, leave it out, "
                    "as its rows would be reported twice; if these are different rows, give allow_copies=True"
                )

    def _count_checked(self) -> list[int]:
        """Check all rows of all parts, and return how many each has; or, on demand, the record ids only."""
        if not self._check and self._record_id is None:
            return []
        if self._check:
            self._transformer.check_budget()
        stop, seen = Stop(), DistinctInAll()
        columns = self._look.columns if self._check else [str(self._record_id)]

        def look(part: Part) -> int:
            tables, rows = part.tables(self._declared, columns), 0
            for batch in self._look.distinct(stop.watched(even(tables, self._rows, pyarrow.concat_tables)), seen):
                if self._check:
                    self._look(batch)
                rows += len(batch)
            logger.info("part %d is checked", part.number)
            return rows

        counts = stop.in_threads(lambda part: part.of_this(partial(look, part)), self._parts, self._jobs)
        seen.close()
        return counts

    def _draw(self, shards: ShardFolder, randomness: BatchRandomness, checked: list[int] | None) -> None:
        """Draw and write the shards that are not finished, and the manifest."""
        shards.open()
        release = Release(self._transformer.protocol_, self._keep, randomness, self._record_id)
        draw, _ = in_processes(release)
        seen = DistinctIds()
        counts = [part.table.count_rows() for part in self._parts]
        total = sum(checked) if checked else None if None in counts else sum(count or 0 for count in counts)

        def reports(part: Part, stop: Stop) -> Iterator[Any]:
            tables = in_full(
                part.tables(self._declared, release.check.columns), Checked(checked[part.number] if checked else 0)
            )
            batches = release.check.distinct(stop.watched(even(tables, self._rows, pyarrow.concat_tables)), seen)
            for made in in_turn(lambda item: draw(*item), placed(batches, part.number), 1):
                stop.done(len(made))
                yield made.cast(self._schema).unify_dictionaries()

        def shard(part: Part, stop: Stop) -> Shard:
            name = f"part-{part.number:05d}.{self._ending}"
            found = shards.find(name)
            if found is not None:
                stop.done(found.rows)
                return found
            made = shards.write(name, lambda path: self._write(reports(part, stop), path))
            logger.info("%s is written", name)
            return made

        with closing(self._progress(total)) as bar:
            stop = Stop(bar)
            made = stop.in_threads(lambda part: part.of_this(partial(shard, part, stop)), self._parts, self._jobs)
        shards.complete(self._manifest(tuple(self._keep), tuple(made)))

    def _write(self, reports: Iterator[Any], path: Path) -> int:
        """Write a shard, and count its rows."""
        rows = 0

        def counted() -> Iterator[Any]:
            nonlocal rows
            for batch in reports:
                rows += len(batch)
                yield batch

        write_file(counted(), self._written, path, self._form)
        return rows


def _charged(transformer: ReportTransformer) -> PrivacyGuarantee | None:
    ledger, guarantee = transformer.charged_ledger, transformer.guarantee_
    if ledger is None:
        return None
    return guarantee if ledger.relation is None else guarantee.to(ledger.relation)
