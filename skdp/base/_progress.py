"""Progress bars of commands, on a terminal only."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")

_IS_SHOWN = ContextVar("is_shown", default=False)


@contextmanager
def show_progress() -> Iterator[None]:
    """Show the progress bars of `track` within a ``with`` block."""
    token = _IS_SHOWN.set(True)
    try:
        yield
    finally:
        _IS_SHOWN.reset(token)


def track(items: Iterable[T], label: str, unit: str) -> Generator[T, None, None]:
    """Yield items, with a progress bar on standard error if a command runs in a terminal."""
    # The bar counts items, such as blocks of a file, because the number of rows is private.
    if _IS_SHOWN.get():
        from tqdm import tqdm

        items = tqdm(items, label, unit=f" {unit}", disable=None, leave=False)
    yield from items
