"""The folder of a release, with shards that are those of its manifest."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any, Self

from skdp.engines._extras import Extra
from skdp.engines._source_file import SourceFile, open_filesystem
from skdp.engines.files._formats import TableFile
from skdp.engines.files._said import check_said
from skdp.engines.files.shards._manifest import MOST_BYTES, NAME, Manifest, check_names

fs = Extra("pyarrow.fs")


class ReleasedFolder:
    """A folder that `privatize_files` wrote."""

    def __init__(self, filesystem: Any, path: str) -> None:
        self.filesystem, self.path = filesystem, path.rstrip("/")
        info = filesystem.get_file_info(f"{self.path}/{NAME}")
        if info.type != fs.FileType.File:
            raise FileNotFoundError(f"{self.name} has no {NAME}: it is no whole release of privatize_files")
        if info.size > MOST_BYTES:
            raise ValueError(f"a manifest has at most {MOST_BYTES:,} bytes, got {info.size:,}")
        with filesystem.open_input_stream(f"{self.path}/{NAME}") as file:
            self._manifest = Manifest.from_json(file.read(MOST_BYTES))
        self.rows = sum(shard.rows for shard in self._manifest.shards)

    @classmethod
    def at(cls, place: str | os.PathLike[str]) -> Self | None:
        """Open a folder, or that of a manifest; return None for the path or URL of something else."""
        if "://" not in (text := os.fspath(place)) and not os.path.isdir(text) and os.path.basename(text) != NAME:
            return None
        filesystem, path = open_filesystem(text)
        if path.rpartition("/")[2] == NAME:
            return cls(filesystem, path.rpartition("/")[0])
        return cls(filesystem, path) if filesystem.get_file_info(path).type == fs.FileType.Directory else None

    @property
    def digests(self) -> frozenset[str]:
        """The digests of the shards with reports."""
        return frozenset(shard.sha256 for shard in self._manifest.shards if shard.rows)

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.path.rpartition("/")[2]

    def protocol(self) -> str | None:
        """Return the protocol that the manifest says."""
        return None if self._manifest.protocol is None else json.dumps(self._manifest.protocol)

    def tables(self, transformer: Any) -> Iterator[TableFile]:
        """Open the shards, one by one, which must be all, those of the manifest, and no others."""
        listed = self.filesystem.get_file_info(fs.FileSelector(self.path))
        check_names(self._manifest, [file.base_name for file in listed])
        for shard in self._manifest.shards:
            file = SourceFile(self.filesystem, f"{self.path}/{shard.name}")
            with file.open_raw() as opened:
                if not shard.holds(opened):
                    raise ValueError(
                        f"{shard.name} is not as in the manifest: it was changed, or is of another release"
                    )
            if shard.rows:
                table = TableFile(file)
                check_said(table.protocol(), transformer, shard.name)
                yield table
