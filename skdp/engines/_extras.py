"""Libraries that not every user has installed."""

from __future__ import annotations

import importlib
from typing import Any


def import_extra(module: str, extra: str, *, least: str | None = None) -> Any:
    """Import a module that an engine needs."""
    try:
        found = importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f'{module} is needed here: pip install "skdp[{extra}]"'
        ) from error
    if least is not None and _major_minor(found.__version__) < _major_minor(least):
        raise ImportError(
            f'{module} {least} or later is needed here, got {found.__version__}: pip install "skdp[{extra}]"'
        )
    return found


class Extra:
    """A module of an extra, imported when something of it is used."""

    def __init__(self, module: str, extra: str = "duckdb") -> None:
        self._module, self._extra = module, extra

    def __getattr__(self, name: str) -> Any:
        return getattr(import_extra(self._module, self._extra), name)


def _major_minor(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])
