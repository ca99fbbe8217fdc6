"""Hear what a block of code says besides its result, for audits and checks."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout


class _Listener(logging.Handler):
    def __init__(self, texts: list[str]) -> None:
        super().__init__()
        self._texts = texts

    def emit(self, record: logging.LogRecord) -> None:
        self._texts.append(f"{record.name}: {record.getMessage()}")


@contextmanager
def heard() -> Iterator[list[str]]:
    """Collect the texts of all log records and warnings, and what is printed."""
    texts: list[str] = []
    root, listener, printed = logging.getLogger(), _Listener(texts), io.StringIO()
    level = root.level
    root.addHandler(listener)
    root.setLevel(logging.DEBUG)
    try:
        with (
            warnings.catch_warnings(record=True) as caught,
            redirect_stdout(printed),
            redirect_stderr(printed),
        ):
            warnings.simplefilter("always")
            yield texts
    finally:
        root.removeHandler(listener)
        root.setLevel(level)
        texts += [
            f"{warning.category.__name__}: {warning.message}" for warning in caught
        ]
        texts += [f"printed: {printed.getvalue()}"] if printed.getvalue() else []
