"""Errors without values: what an engine says of a row that it cannot read stays inside.

The text of such an error may hold the row ("could not parse `…` as dtype `i64`", "Original Line: …"), and so may its
cause and its context. So another error is raised in its place, outside of the handler that caught it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable
from typing import TypeVar

T = TypeVar("T")


class RefusedBatch(ValueError):
    """What skdp says of a batch: the text names a column and shows no value. Workers can send it."""


class RefusedType(RefusedBatch, TypeError):
    """The same, for a column of another type."""


class UnreadableError(ValueError):
    """What was read is no table: it is damaged, or was not read as it is stored."""


class UnreadableTable(UnreadableError):
    """A table that its engine cannot read."""

    def __init__(self, kind: str, is_csv: bool) -> None:
        super().__init__(kind, is_csv)
        self.kind, self.is_csv = kind, is_csv

    def __str__(self) -> str:
        return f"the table cannot be read ({self.kind}); the text of this error is not shown, as it may hold values"


class ShortenedTable(UnreadableError):
    """A table that had more rows when it was checked than when its reports were drawn."""

    def __init__(self) -> None:
        super().__init__(
            "the table cannot be read a second time: it ended before all rows that were checked. The charge stands, "
            "and no incomplete release is stored. Store the table and give what was stored, or leave out the check "
            "(check=False)"
        )


def without_values(error: BaseException) -> BaseException:
    """Make the error that may be shown in place of one that was raised where rows are read."""
    if isinstance(error, KeyboardInterrupt | SystemExit | GeneratorExit):
        return error
    if isinstance(error, RefusedBatch):
        return TypeError(str(error)) if isinstance(error, RefusedType) else ValueError(str(error))
    if isinstance(error, ShortenedTable):
        return ShortenedTable()
    if isinstance(error, UnreadableTable):
        return UnreadableTable(error.kind, error.is_csv)
    if isinstance(error, ImportError) and error.name is not None:
        text = f"{error.name} cannot be imported where the table is read; install it there"
        return ImportError(text, name=error.name)
    if isinstance(error, OSError) and error.errno is not None:
        return OSError(error.errno, os.strerror(error.errno))
    if isinstance(error, MemoryError):
        return MemoryError("not enough memory to read the table")
    return UnreadableTable(type(error).__name__, "CSV" in str(error))


def quietly(work: Callable[[], T]) -> T:
    """Call what reads rows."""
    try:
        return work()
    except BaseException as error:
        failed = without_values(error)
    try:
        raise failed
    finally:
        del failed  # or the frame would keep its own error, and with it the readers that are open


def read_quietly(batches: Iterable[T]) -> Generator[T, None, None]:
    """Read a stream of an engine."""
    iterator, end = iter(batches), object()
    while (batch := quietly(lambda: next(iterator, end))) is not end:
        yield batch  # type: ignore[misc]


def refusing(work: Callable[[], T]) -> T:
    """Call what checks a batch, so that its refusals are known for such wherever they arrive."""
    try:
        return work()
    except (TypeError, ValueError) as error:
        refused = (RefusedType if isinstance(error, TypeError) else RefusedBatch)(str(error))
    raise refused
