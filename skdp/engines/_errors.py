"""Errors without values: what an engine says of a row that it cannot read stays inside.

The text of such an error may hold the row ("could not parse `…` as dtype `i64`", "Original Line: …"), and so may its
cause and its context. So another error is raised in its place, outside of the handler that caught it.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Generator, Iterable, Sized
from pathlib import Path
from typing import TypeVar

from skdp.engines._libraries import LIBRARIES

T = TypeVar("T")

# The libraries whose frames come before those of the code that they call.
_CALLERS = LIBRARIES | {"distributed"}


class RefusedBatch(ValueError):
    """What skdp says of a batch: the text names a column and shows no value. Workers can send it."""


class RefusedType(RefusedBatch, TypeError):
    """The same, for a column of another type."""


class UnreadableError(ValueError):
    """What was read is no table: it is damaged, or was not read as it is stored."""


class UnreadableTable(UnreadableError):
    """A table that its engine cannot read: which kind of error was raised, and where in the code."""

    def __init__(self, kind: str, is_csv: bool, place: str) -> None:
        super().__init__(kind, is_csv, place)
        self.kind, self.is_csv, self.place = kind, is_csv, place

    def __str__(self) -> str:
        return (
            f"the table cannot be read ({self.kind}: {self.place}); the text of this"
            " error is not shown, as it may hold values"
        )


class FailedTransformer(RuntimeError):
    """A transformer that failed by itself: the text names where, and its cause is known only if no row was read."""


class ShortenedTable(UnreadableError):
    """A table that had more rows when it was checked than when its reports were drawn."""

    def __init__(self) -> None:
        super().__init__(
            "the table cannot be read a second time: it ended before all rows that were"
            " checked. The charge stands, and no incomplete release is stored. Store"
            " the table and give what was stored, or leave out the check (check=False)"
        )


def without_values(error: BaseException) -> BaseException:
    """Make the error that may be shown in place of one that was raised where rows are read."""
    if isinstance(error, KeyboardInterrupt | SystemExit | GeneratorExit):
        return error
    if isinstance(error, FailedTransformer):
        return error
    if isinstance(error, RefusedBatch):
        return (
            TypeError(str(error))
            if isinstance(error, RefusedType)
            else ValueError(str(error))
        )
    if isinstance(error, ShortenedTable):
        return ShortenedTable()
    if isinstance(error, UnreadableTable):
        return UnreadableTable(error.kind, error.is_csv, error.place)
    if isinstance(error, ImportError) and error.name is not None:
        text = (
            f"{error.name} cannot be imported where the table is read; install it there"
        )
        return ImportError(text, name=error.name)
    if isinstance(error, OSError) and error.errno is not None:
        return OSError(error.errno, os.strerror(error.errno))
    if isinstance(error, MemoryError):
        return MemoryError("not enough memory to read the table")
    return UnreadableTable(type(error).__name__, "CSV" in str(error), _place(error))


def quietly(work: Callable[[], T]) -> T:
    """Call what reads rows."""
    try:
        return work()
    except BaseException as error:
        failed = without_values(error)
    try:
        raise failed
    finally:
        # Or the frame would keep its own error, and with it the readers that are open.
        del failed


def read_quietly(batches: Iterable[T]) -> Generator[T, None, None]:
    """Read a stream of an engine."""
    iterator, end = iter(batches), object()
    while (batch := quietly(lambda: next(iterator, end))) is not end:
        yield batch  # type: ignore[misc]


def naming(method: str, owner: object, batch: Sized, work: Callable[[], T]) -> T:
    """Call a part of a transformer; what it does not refuse itself names the part and its place in the code."""
    try:
        return work()
    except (RefusedBatch, UnreadableError, MemoryError, OSError, ImportError):
        raise
    except Exception as error:
        text = (
            f"{_failed_part(error, owner, method)} failed: {type(error).__name__}"
            f" ({_place(error)})"
        )
        if len(batch) == 0:
            # No row was read, so that neither the text nor the cause can show one.
            raise FailedTransformer(f"{text}: {error}") from error
    raise FailedTransformer(
        f"{text}; the text of this error is not shown, as it may hold values"
    )


def _failed_part(error: Exception, owner: object, method: str) -> str:
    """Name the field of a protocol, and its method, in which it failed; the protocol itself if it did in none."""
    fields = getattr(owner, "fields", ())
    for frame, _ in traceback.walk_tb(error.__traceback__):
        part = frame.f_locals.get("self")
        if any(part is field for field in fields):
            return f"{type(part).__name__}.{frame.f_code.co_name}"
    return f"{type(owner).__name__}.{method}"


def _place(error: BaseException) -> str:
    """Return the file, the line and the function in which an author finds the fault."""
    # The author of a transformer, or of what makes the rows of a lazy table, looks at
    # their own code first: the outermost frame that is neither of skdp nor of a library
    # of tables. Else the author of an engine looks at the innermost one of skdp.
    frames = list(traceback.walk_tb(error.__traceback__))
    place = frames[-1]
    for entry in frames:
        module = str(entry[0].f_globals.get("__name__", ""))
        library = module.partition(".")[0]
        if library == "skdp" and module != __name__:
            place = entry
        elif library != "skdp" and library not in _CALLERS:
            place = entry
            break
    frame, line = place
    code = frame.f_code
    return f"{Path(code.co_filename).name}, line {line}, in {code.co_name}"


def refusing(work: Callable[[], T]) -> T:
    """Call what checks a batch, so that its refusals are known for such wherever they arrive."""
    try:
        return work()
    except (TypeError, ValueError) as error:
        kind = RefusedType if isinstance(error, TypeError) else RefusedBatch
        refused = kind(str(error))
    raise refused
