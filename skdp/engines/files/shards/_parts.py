"""The input of a release of many files: which files, in which order, and the columns that names of folders hold."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import takewhile
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

from skdp.domain import Domain
from skdp.engines._errors import RefusedBatch, RefusedType, UnreadableError
from skdp.engines._extras import Extra
from skdp.engines._source_file import SourceFile, check_delimiter, first_repeated, open_filesystem
from skdp.engines.files._formats import TableFile

pyarrow, fs, types = map(Extra, ("pyarrow", "pyarrow.fs", "pyarrow.types"))
Found = TypeVar("Found")

Sources = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class Part:
    """A file of the input, with the columns that the names of its folders hold."""

    number: int
    table: TableFile
    folders: Mapping[str, str | None]

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [*self.table.names, *self.folders]

    def check_columns(self, columns: Sequence[str]) -> None:
        """Check that there are some columns."""
        absent = [name for name in columns if name not in self.names]
        if absent:
            raise ValueError(f"part {self.number} lacks the columns {absent}{self.table.advice()}")

    def sample(self, domain: Domain | None, columns: Sequence[str]) -> Any:
        """Make a table without rows."""
        own = self.table.sample(domain, [name for name in columns if name not in self.folders])
        return self._with_folders(own, columns)

    def tables(self, domain: Domain | None, columns: Sequence[str]) -> Iterator[Any]:
        """Read the rows in order, text of a Parquet file as the codes that it holds, which is twice as fast."""
        own = [name for name in columns if name not in self.folders]
        # Of one file, the rows are in order whatever is asked for.
        for table in self.table.tables(domain, own, in_order=False):
            yield self._with_folders(table, columns)

    def _with_folders(self, table: Any, columns: Sequence[str]) -> Any:
        for name in columns:
            if name in self.folders:
                value = pyarrow.scalar(self.folders[name], pyarrow.string())
                table = table.append_column(name, pyarrow.repeat(value, len(table)))
        return table.select(list(columns))

    def of_this(self, work: Callable[[], Found]) -> Found:
        """Do what may be refused for what this part holds; the error then says which part it is."""
        try:
            return work()
        except (TypeError, ValueError) as error:
            if isinstance(error, OSError):
                raise
            failed = _numbered(error, self.number)
        raise failed


def _numbered(error: TypeError | ValueError, number: int) -> Exception:
    """Say in an error, which shows no value, of which part it is."""
    kinds = (RefusedType, RefusedBatch, UnreadableError, TypeError, ValueError)
    return next(kind for kind in kinds if isinstance(error, kind))(f"part {number}: {error}")


def open_parts(sources: Sources, target: Path | None = None, delimiter: str | None = None) -> list[Part]:
    """Find and open the files: those of lists in their order, those of folders and patterns in the order of names."""
    check_delimiter(delimiter)
    listed = [sources] if isinstance(sources, str | os.PathLike) else list(sources)
    if not all(isinstance(place, str | os.PathLike) for place in listed):
        raise TypeError("source must be a path, a URL, or a list of these")
    roots: list[str] = []
    found = [file for place in listed for file in _files(place, target, roots)]
    if not found:
        raise FileNotFoundError("there are no files in what source names")
    again = first_repeated((file.filesystem, file.path) for file in found)
    if again is not None:
        raise ValueError(
            f"source names a file twice, perhaps by a link: the rows of part {again} would be reported twice"
        )
    # Below what all places have in common, the names of folders tell files apart.
    levels = zip(*(root.split("/") for root in roots), strict=False)
    shared = len(list(takewhile(lambda pieces: len(set(pieces)) == 1, levels)))
    parts: list[Part] = []
    for number, file in enumerate(found):
        folders = _columns_of(file.path.split("/")[shared:-1])
        first = parts[0].table if parts else None
        parts.append(Part(number, TableFile(replace(file, given_delimiter=delimiter), typed_as=first), folders))
        _check_alike(parts[0], parts[-1])
    return parts


def names_of_files(sources: Sources, columns: Sequence[str], delimiter: str | None = None) -> list[str]:
    """Name the columns of the first of some files, which must have the given ones; those of its folders included."""
    first = open_parts(sources, delimiter=delimiter)[0]
    first.check_columns(columns)  # others may be a row, if a CSV file has no header
    return first.names


def _check_alike(first: Part, part: Part) -> None:
    if part.table.format != first.table.format:
        raise ValueError(f"part {part.number} is a {part.table.format} file and part 0 a {first.table.format} file")
    if [*part.folders] != [*first.folders]:
        raise ValueError(f"part {part.number} is in folders of other columns (NAME=VALUE) than part 0")
    both = [name for name in part.folders if name in part.table.names]
    if both:
        raise ValueError(f"part {part.number}: columns {both} are in the file, and in the names of its folders too")


def check_folders(part: Part, privatised: Sequence[Any], keep: Sequence[str]) -> None:
    """Refuse to privatise or to leave out a column of names of folders: which rows share a shard shows its values."""
    for name in part.folders:
        if name in privatised:
            raise ValueError(
                f"column {name!r} is in the names of the folders, so that all rows of a shard have one value of it, "
                "which no report can hide: write the rows into files that do not follow from it"
            )
        if name not in keep:
            raise ValueError(
                f"column {name!r} is in the names of the folders, so that the shards show which rows share a value of "
                "it: name it in keep, to release it unprotected, or write the rows into other files"
            )


def check_types(parts: Sequence[Part], domain: Domain | None, columns: Sequence[str]) -> None:
    """Refuse parts whose columns are of other types than those of the first."""
    first = parts[0].sample(domain, columns).schema
    for part in parts[1:]:
        for field, own in zip(first, part.sample(domain, columns).schema, strict=True):
            if _plain(field.type) != _plain(own.type):
                raise ValueError(
                    f"part {part.number}: column {field.name!r} is of type {own.type}, and in part 0 of {field.type}"
                )


def _plain(kind: Any) -> Any:
    """Take all ways to store text for one."""
    kind = kind.value_type if types.is_dictionary(kind) else kind
    return pyarrow.string() if types.is_large_string(kind) or types.is_string_view(kind) else kind


def _files(place: str | os.PathLike[str], target: Path | None, roots: list[str]) -> Iterator[SourceFile]:
    """List the files of a path, a URL, a folder of either, or a pattern; add where they are to the roots."""
    root, pattern = _split(os.fspath(place))
    filesystem, path = open_filesystem(root)
    path = path.replace(os.sep, "/").rstrip("/") or "/"
    info = filesystem.get_file_info(path)
    if not pattern and info.type != fs.FileType.Directory:
        roots.append(path.rpartition("/")[0])
        yield SourceFile(filesystem, path)  # `TableFile` says if there is none
        return
    roots.append(path)
    is_local = isinstance(filesystem, fs.LocalFileSystem)
    if target is not None and is_local and not pattern and target.is_relative_to(Path(path)):
        raise ValueError("target must not be inside the folder that is read")
    listed = filesystem.get_file_info(fs.FileSelector(path, allow_not_found=True, recursive=True))
    ahead = len(path.rstrip("/")) + 1
    files = {file.path[ahead:]: file.path for file in listed if file.type == fs.FileType.File}
    for below, whole in sorted(files.items()):
        pieces = below.split("/")
        if any(piece[:1] in ("", ".", "_") for piece in pieces):
            continue  # hidden, as for Spark and pyarrow
        if not pattern or _fits(pieces, pattern):
            yield SourceFile(filesystem, whole)


def _split(place: str) -> tuple[str, list[str]]:
    """Cut a place before the first piece with a wildcard: * in a URL, and also ? and [ in a path of this machine."""
    is_url = "://" in place
    path, mark, query = place.partition("?") if is_url else (place.replace(os.sep, "/"), "", "")
    wild = "*" if is_url else "*?["
    if not any(sign in path for sign in wild) or (not is_url and Path(place).exists()):
        return place, []
    pieces = path.split("/")
    first = next(number for number, piece in enumerate(pieces) if any(sign in piece for sign in wild))
    root = "/".join(pieces[:first]) or ("/" if path.startswith("/") else ".")
    return root + mark + query, pieces[first:]


def _fits(pieces: list[str], pattern: list[str]) -> bool:
    if not pattern:
        return not pieces
    if pattern[0] == "**":
        return any(_fits(pieces[start:], pattern[1:]) for start in range(len(pieces) + 1))
    return bool(pieces) and fnmatchcase(pieces[0], pattern[0]) and _fits(pieces[1:], pattern[1:])


def _columns_of(folders: list[str]) -> dict[str, str | None]:
    """Read the columns of names such as ``year=2026``."""
    pairs = [folder.partition("=") for folder in folders if "=" in folder]
    return {unquote(name): None if text == _NO_VALUE else unquote(text) for name, _, text in pairs}
