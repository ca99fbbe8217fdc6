"""Limits of the threads of numeric libraries, which wait for each other longer than they compute."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache, wraps
from typing import Any, TypeVar, cast

from threadpoolctl import ThreadpoolController, threadpool_limits

Function = TypeVar("Function", bound=Callable[..., Any])


def _find_limit() -> int | None:
    """Return the limit of threads: 1 in the main thread, and None elsewhere."""
    # The limit is global. If several threads set it and end in another order, it would
    # remain, so only the main thread sets it.
    return 1 if threading.current_thread() is threading.main_thread() else None


@cache
def _find_blas() -> ThreadpoolController:
    """Find the loaded BLAS libraries, which takes milliseconds."""
    return ThreadpoolController()


def limit_blas_threads() -> AbstractContextManager[Any]:
    """Return a context that limits BLAS to one thread, which is faster for small matrices."""
    return _find_blas().limit(limits=_find_limit(), user_api="blas")


def on_one_thread(function: Function) -> Function:
    """Limit BLAS and OpenMP to one thread while a function runs.

    On a machine whose cores are busy, the threads of small fits wait for each other
    twenty times as long as they compute.
    """

    @wraps(function)
    def run(*args: object, **kwargs: object) -> Any:
        with threadpool_limits(limits=_find_limit()):
            return function(*args, **kwargs)

    return cast(Function, run)
