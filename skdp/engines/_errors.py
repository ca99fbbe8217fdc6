"""Errors that show no value: the text of an engine's error may hold a row."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import TypeVar

from skdp.engines._libraries import LIBRARIES

T = TypeVar("T")

# Their frames come before the frames of the code that they call.
_CALLERS = LIBRARIES | {"skdp", "distributed", "concurrent"}

# Raised as they are: their texts hold no row.
_WITHOUT_VALUES = (
    KeyboardInterrupt,
    SystemExit,
    GeneratorExit,
    ImportError,
    MemoryError,
)


class RefusedBatch(ValueError):
    """An error of skdp about a batch: the text names a column and shows no value. Workers can send it."""


class RefusedType(RefusedBatch, TypeError):
    """The same, for a column of another type."""


class UnreadableTable(ValueError):
    """A table that cannot be read; the text shows no value."""


def quietly(work: Callable[[], T]) -> T:
    """Call code that reads rows, and replace its errors by errors that show no value."""
    try:
        return work()
    except (RefusedBatch, UnreadableTable, *_WITHOUT_VALUES):
        raise
    # Panics of Polars are no Exception.
    except BaseException as error:
        if isinstance(error, OSError) and error.errno is not None:
            shown: Exception = OSError(error.errno, os.strerror(error.errno))
        else:
            shown = UnreadableTable(
                "the rows cannot be read or privatized "
                f"({type(error).__name__}: {_place(error)}); the text of this error is "
                "not shown, as it may hold values"
            )
        raise shown from None


def read_quietly(batches: Iterable[T]) -> Generator[T, None, None]:
    """Read a stream of an engine."""
    iterator, end = iter(batches), object()
    while (batch := quietly(lambda: next(iterator, end))) is not end:
        yield batch  # type: ignore[misc]


def call_check(work: Callable[[], T]) -> T:
    """Call a check of a batch; its errors, which contain no values, become refusals."""
    try:
        return work()
    except (TypeError, ValueError) as error:
        kind = RefusedType if isinstance(error, TypeError) else RefusedBatch
        raise kind(str(error)) from None


def _place(error: BaseException) -> str:
    """Return the file, the line and the function in which an author finds the fault."""
    # The outermost frame that is neither of skdp nor of a library of tables: the code of
    # the user. Without one, the innermost frame.
    entries = list(traceback.walk_tb(error.__traceback__))
    frame, line = entries[-1]
    for entry in entries:
        module = str(entry[0].f_globals.get("__name__", ""))
        if module.partition(".")[0] not in _CALLERS:
            frame, line = entry
            break
    code = frame.f_code
    return f"{Path(code.co_filename).name}, line {line}, in {code.co_name}"
