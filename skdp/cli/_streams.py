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

# The first bytes of files, and how their names end; those of other files are CSV.
_ENDINGS = {b"PAR1": ".parquet", b"ARROW1": ".arrow", b"{": ".json"}
_START_OF_GZIP = b"\x1f\x8b"
_LONGEST_START = 8


@contextmanager
def redirected(options: argparse.Namespace) -> Iterator[bool]:
    """Put files in the place of streams.

    Yield whether standard output is that of a file, and holds nothing else.
    """
    inputs: tuple[str, ...] = getattr(options, "inputs", ())
    output: str = getattr(options, "output", "")
    is_output = _is_stream(getattr(options, output, None))
    is_input = any(_names_stream(getattr(options, name)) for name in inputs)
    if not is_output and not is_input:
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
        path = Path(folder, f"standard-output{_ending_of_output(options)}")
        # As the option is: text or a path.
        kind = type(getattr(options, output))
        setattr(options, output, kind(path))
        # What a command prints besides must not be in the table.
        with redirect_stdout(sys.stderr):
            yield True
        with path.open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)


def _is_stream(place: Any) -> bool:
    return place is not None and str(place) == STREAM


def _names_stream(places: Any) -> bool:
    if isinstance(places, list):
        return any(map(_is_stream, places))
    return _is_stream(places)


def _with_file(places: Any, folder: Path) -> Any:
    """Write standard input to a file, where it is named."""
    if not _names_stream(places):
        return places
    if isinstance(places, list) and sum(map(_is_stream, places)) > 1:
        raise ValueError("standard input (-) is given twice")
    path = _store_input(folder)
    if not isinstance(places, list):
        return type(places)(path)
    return [str(path) if _is_stream(place) else place for place in places]


def _store_input(folder: Path) -> Path:
    """Write standard input to a file, whose ending follows from its first bytes."""
    # A table is read several times (its columns, the check, the reports), and a stream only
    # once: it becomes a file.
    stream = sys.stdin.buffer
    start = stream.read(_LONGEST_START)
    if start.startswith(_START_OF_GZIP):
        raise ValueError("standard input is gzipped: unpack it first, as by gunzip")
    ending = ".csv"
    for start_of_format, ending_of_format in _ENDINGS.items():
        if start.startswith(start_of_format):
            ending = ending_of_format
    path = folder / f"standard-input{ending}"
    with path.open("wb") as file:
        file.write(start)
        shutil.copyfileobj(stream, file)
    return path


def _ending_of_output(options: argparse.Namespace) -> str:
    file_format = getattr(options, "format", None)
    return options.ending if file_format is None else f".{file_format}"
