"""Files to read: on this machine, or on a file system that pyarrow or fsspec opens by a URL; as they are or gzipped."""

from __future__ import annotations

import os
import textwrap
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Self

from skdp.base import delimiter_of
from skdp.engines._libraries import Extra, import_extra

pyarrow, fs = Extra("pyarrow"), Extra("pyarrow.fs")

_MAX_REASON_LENGTH = 200


def open_filesystem(url: str) -> tuple[Any, str]:
    """Open the file system of a URL; also return the path on it."""
    scheme = url.partition("://")[0]
    try:
        return fs.FileSystem.from_uri(url)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError):
        # Its text would show the URL, which may hold a password.
        pass
    fsspec_core = import_extra("fsspec.core", "remote")
    try:
        filesystem, path = fsspec_core.url_to_fs(url)
    except ImportError as error:
        raise ImportError(
            f"{scheme}:// needs a package besides fsspec: {error}"
        ) from None
    except ValueError:
        raise ValueError(
            f"neither pyarrow nor fsspec opens URLs that begin with {scheme}://"
        ) from None
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
        return cls(fs.LocalFileSystem(), text, delimiter)

    @property
    def delimiter(self) -> str:
        """The character that separates the values of a row in a CSV file."""
        return self.given_delimiter or delimiter_of(self.name)

    @property
    def is_local(self) -> bool:
        """Whether the file is on this machine."""
        return isinstance(self.filesystem, fs.LocalFileSystem)

    @property
    def name(self) -> str:
        """The last part of its path."""
        return PurePath(self.path).name

    def exists(self) -> bool:
        """Return whether there is such a file."""
        try:
            info = self.filesystem.get_file_info(self.path)
        except OSError as error:
            # The answer of a cloud may be a page.
            reason = textwrap.shorten(str(error), _MAX_REASON_LENGTH)
            raise OSError(
                f"{self.name} cannot be read by {self.filesystem.type_name}: {reason}"
            ) from None
        return bool(info.type == fs.FileType.File)

    def open(self, mode: str = "rb") -> Any:
        """Open the bytes, unzipped."""
        compression = "gzip" if self.name.endswith(".gz") else None
        return self.filesystem.open_input_stream(self.path, compression=compression)
