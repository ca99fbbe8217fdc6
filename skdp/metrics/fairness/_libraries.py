"""The libraries of the extra "fairness", which are imported only when needed."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any


def import_optional(module: str) -> Any:
    """Import a module of aif360 or fairlearn."""
    try:
        with _without_advice():
            return import_module(module)
    except ImportError as error:
        raise ImportError(f"this needs {module.partition('.')[0]}: pip install skdp[fairness]") from error


@contextmanager
def _without_advice() -> Iterator[None]:
    """Suppress aif360's log lines on learners that need tensorflow or inFairness, which skdp does not use."""

    def is_other(record: logging.LogRecord) -> bool:
        return "will be unavailable" not in record.getMessage()

    root = logging.getLogger()
    # aif360 calls logging.warning, which configures the logging of the whole program if it is not configured yet.
    stand_in = logging.lastResort if not root.handlers else None
    if stand_in is not None:
        root.addHandler(stand_in)
    root.addFilter(is_other)
    try:
        yield
    finally:
        root.removeFilter(is_other)
        if stand_in is not None:
            root.removeHandler(stand_in)
