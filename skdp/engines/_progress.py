"""What shows how far a run is: a bar of tqdm, or nothing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from typing import Any, Protocol


class Bar(Protocol):
    """Shows how far a run is; a bar of tqdm is one."""

    def update(self, rows: int) -> Any:
        """Say that so many more rows are done."""
        ...

    def close(self) -> Any:
        """Say that it ends."""
        ...


class NoBar:
    """Shows nothing."""

    def __init__(self, total: int | None) -> None: ...

    def update(self, rows: int) -> None:
        """Show nothing."""

    def close(self) -> None:
        """Show nothing."""


Progress = Callable[[int | None], Bar]
"""Takes the number of rows, None if it is not known, and opens a bar."""


def shown(progress: Progress, total: int | None, task: str) -> AbstractContextManager[Bar]:
    """Open a bar, and let it say what is done, if it can."""
    bar = progress(total)
    if hasattr(bar, "set_description"):
        bar.set_description(task)
    return closing(bar)
