"""Files to read: on this machine, or on a file system that pyarrow or fsspec opens by a URL; as they are or gzipped."""

from __future__ import annotations

import os
import textwrap
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Self

from skdp.base import delimiter_of
from skdp.engines._libraries import Extra, import_extra

pyarrow, fs = Extra("pyarrow"), Extra("pyarrow.fs")

_LONGEST_REASON = 200

_MAX_RETRY_SECONDS = 8


def open_filesystem(text: str) -> tuple[Any, str]:
    """Open the file system of a URL; also return the path on it."""
    scheme = text.partition("://")[0]
    uri = text
    if scheme in ("gs", "gcs") and "retry_limit_seconds=" not in text:
        # Google's client would try to connect for 15 minutes.
        uri += f"{'&' if '?' in text else '?'}retry_limit_seconds={_MAX_RETRY_SECONDS}"
    try:
        return fs.FileSystem.from_uri(uri)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError):
        # Pyarrow has no such file system; its text would show the URL, which may hold a
        # password.
        pass
    fsspec_core = import_extra("fsspec.core", "remote")
    try:
        filesystem, path = fsspec_core.url_to_fs(text)
    except ImportError as error:
        raise ImportError(
            f"{scheme}:// needs a package besides fsspec: {error}"
        ) from None
    except ValueError:
        filesystem = None
    if filesystem is None:
        raise ValueError(
            f"neither pyarrow nor fsspec opens URLs that begin with {scheme}://"
        )
    return fs.PyFileSystem(fs.FSSpecHandler(filesystem)), path


def check_delimiter(delimiter: Any) -> None:
    """Check that a delimiter of CSV files is None or one character that can be one."""
    if delimiter is None:
        return
    if not isinstance(delimiter, str):
        raise TypeError(f"delimiter must be a str, got {type(delimiter).__name__}")
    if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n\0':
        raise ValueError(
            "delimiter must be one ASCII character, and no quote and no end of line, "
            f"got {delimiter!r}"
        )


@dataclass(frozen=True, repr=False)
class SourceFile:
    """A file that is read as often as need be, unzipped where its name ends in ``.gz``."""

    filesystem: Any
    path: str
    given_delimiter: str | None = None

    @classmethod
    def at(cls, place: str | os.PathLike[str], delimiter: str | None = None) -> Self:
        """Find a file by a path of this machine or a URL."""
        text = os.fspath(place)
        if "://" in text:
            return cls(*open_filesystem(text), delimiter)
        return cls(None, text, delimiter)

    @property
    def delimiter(self) -> str:
        """What separates the values of a row, if this is a CSV file: as given, or by its name."""
        return self.given_delimiter or delimiter_of(self.name)

    @property
    def is_local(self) -> bool:
        """Whether the file is on this machine."""
        return self.filesystem is None or isinstance(
            self.filesystem, fs.LocalFileSystem
        )

    @property
    def name(self) -> str:
        """The last part of its path."""
        return (
            PurePosixPath(self.path).name if not self.is_local else Path(self.path).name
        )

    @property
    def is_packed(self) -> bool:
        """Whether it is gzipped."""
        return self.name.endswith(".gz")

    def exists(self) -> bool:
        """Return whether there is such a file."""
        if self.is_local:
            return Path(self.path).is_file()
        try:
            info = self.filesystem.get_file_info(self.path)
        except OSError as error:
            # What a client of a cloud says may be a page.
            reason = textwrap.shorten(str(error), _LONGEST_REASON)
        else:
            return bool(info.type == fs.FileType.File)
        raise OSError(
            f"{self.name} cannot be read by {self.filesystem.type_name}: {reason}"
        )

    def open_raw(self) -> Any:
        """Open the bytes as they are stored."""
        return (
            Path(self.path).open("rb")
            if self.is_local
            else self.filesystem.open_input_file(self.path)
        )

    def open(self, mode: str = "rb") -> Any:
        """Open the bytes, unzipped."""
        if not self.is_packed:
            return self.open_raw()
        packed = pyarrow.OSFile(self.path) if self.is_local else self.open_raw()
        return pyarrow.CompressedInputStream(packed, "gzip")
