"""Files that are whole or not there."""

from __future__ import annotations

import atexit
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def check_path(path: Any) -> Path | None:
    """Check where a release is to be written."""
    if path is None:
        return None
    if not isinstance(path, str | os.PathLike):
        raise TypeError(
            f"path must be None, a str or a path, got {type(path).__name__}"
        )
    if "://" in os.fspath(path):
        raise ValueError(
            "path must be a path of this machine; only Spark writes elsewhere"
        )
    place = Path(path).absolute()
    if place.exists():
        raise FileExistsError(
            f"path {str(path)!r} exists already; a release is never overwritten"
        )
    if not place.parent.is_dir():
        raise FileNotFoundError(
            f"path {str(path)!r} is in a directory that does not exist"
        )
    return place


def check_parquet_name(path: Any) -> None:
    """Refuse the name of a file of another format."""
    name = os.fspath(path) if isinstance(path, str | os.PathLike) else ""
    if name.lower().endswith((".csv", ".tsv", ".gz", ".arrow", ".feather", ".ipc")):
        raise ValueError(
            f"path must be the name of a Parquet file, got {os.path.basename(name)!r}: "
            "privatize_file writes CSV and Arrow files"
        )


def check_target(path: Any) -> Path:
    """Check where a file is to be written, which is needed."""
    place = check_path(path)
    if place is None:
        raise TypeError("target must be a str or a path, got NoneType")
    return place


@contextmanager
def write_atomically(path: Path) -> Iterator[Path]:
    """Write a file or a directory under a temporary name, and rename it when it is complete."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}.partial")
    try:
        yield beside
        if path.exists():
            raise FileExistsError(
                f"path {str(path)!r} exists already; a release is never overwritten"
            )
        beside.rename(path)
    except BaseException:
        if beside.is_dir():
            shutil.rmtree(beside, ignore_errors=True)
        else:
            beside.unlink(missing_ok=True)
        raise


def temporary_place() -> Path:
    """Name a file or directory that lives as long as Python does."""
    folder = tempfile.mkdtemp(prefix="skdp-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder) / "reports"
