"""Standard input and output in place of files, which are named ``-``."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

STREAM = "-"
STREAMS = "; - is standard input"

_STARTS = ((b"PAR1", ".parquet"), (b"ARROW1", ".arrow"), (b"{", ".json"))
"""The first bytes of files, and how their names end; those of other files are CSV."""

_GZIPPED = b"\x1f\x8b"
_LONGEST_START = 8


@contextmanager
def redirected(options: argparse.Namespace) -> Iterator[bool]:
    """Put files in the place of streams; yield whether standard output is that of a file, and holds nothing else."""
    inputs: tuple[str, ...] = getattr(options, "inputs", ())
    output: str = getattr(options, "output", "")
    is_output = _is_stream(getattr(options, output, None))
    if not is_output and not any(
        _names_stream(getattr(options, name)) for name in inputs
    ):
        yield False
        return
    if getattr(options, "resume", False):
        raise ValueError("--resume goes with files: a stream that was read is gone")
    # Its folder is for its owner alone, and removed also where the command fails.
    with TemporaryDirectory() as folder:
        for name in inputs:
            setattr(options, name, _with_file(getattr(options, name), Path(folder)))
        if not is_output:
            yield False
            return
        written = Path(folder, f"standard-output{_ending(options)}")
        setattr(options, output, type(getattr(options, output))(written))
        with redirect_stdout(sys.stderr):
            yield True
        with written.open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)


def _is_stream(place: Any) -> bool:
    return place is not None and str(place) == STREAM


def _names_stream(places: Any) -> bool:
    return (
        any(map(_is_stream, places)) if isinstance(places, list) else _is_stream(places)
    )


def _with_file(places: Any, folder: Path) -> Any:
    """Write standard input to a file, where it is named."""
    if not _names_stream(places):
        return places
    path = _stored_input(folder)
    if not isinstance(places, list):
        return type(places)(path)
    if sum(map(_is_stream, places)) > 1:
        raise ValueError("standard input (-) is given twice")
    return [str(path) if _is_stream(place) else place for place in places]


def _stored_input(folder: Path) -> Path:
    stream = sys.stdin.buffer
    start = stream.read(_LONGEST_START)
    ending = next(
        (ending for first, ending in _STARTS if start.startswith(first)), ".csv"
    )
    if start.startswith(_GZIPPED):
        raise ValueError("standard input is gzipped: unpack it first, as by gunzip")
    path = folder / f"standard-input{ending}"
    with path.open("wb") as file:
        file.write(start)
        shutil.copyfileobj(stream, file)
    return path


def _ending(options: argparse.Namespace) -> str:
    form = getattr(options, "format", None)
    return options.ending if form is None else f".{form}"
