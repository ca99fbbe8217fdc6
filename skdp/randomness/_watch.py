"""Watch the draws of noise and choices, so that an audit can record them and replay them on another table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

Drawn = TypeVar("Drawn")
Watcher = Callable[[str, Any, dict[str, Any]], Any]
"""Called with the name of a sampler, what it drew and its other arguments; returns what the sampler returns."""

_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextmanager
def watched(watcher: Watcher | None) -> Iterator[None]:
    """Pass each draw in a block of code through a function; through none, inside a sampler that uses others."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


def seen(sampler: str, drawn: Drawn, **parameters: Any) -> Drawn:
    """Return what a sampler drew, or what the watcher makes of it."""
    watcher = _watcher.get()
    return drawn if watcher is None else watcher(sampler, drawn, parameters)
