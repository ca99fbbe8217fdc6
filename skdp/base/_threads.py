"""Threads of the libraries that multiply matrices."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


@cache
def _libraries() -> ThreadpoolController:
    """Find the libraries, which takes milliseconds."""
    return ThreadpoolController()


def one_thread(alone: bool = True) -> AbstractContextManager[Any]:
    """Multiply matrices by one thread: where they are small, several wait for each other busily."""
    # The limit is one of the process: two threads, of which the first ends first, would leave it behind.
    alone = alone and threading.current_thread() is threading.main_thread()
    manager: AbstractContextManager[Any] = _libraries().limit(
        limits=1 if alone else None, user_api="blas"
    )
    return manager
