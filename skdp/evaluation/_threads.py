"""Limit of threads for the fits of a study."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from threadpoolctl import threadpool_limits

P = ParamSpec("P")
T = TypeVar("T")


def on_one_thread(function: Callable[P, T]) -> Callable[P, T]:
    """Limit BLAS and OpenMP to one thread while a function runs.

    On a machine whose cores are busy, the threads of small fits wait for each other
    twenty times as long as they compute.
    """

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        # The limit is global. If several threads set it and end in another order, it
        # would remain, so only the main thread sets it.
        is_main = threading.current_thread() is threading.main_thread()
        with threadpool_limits(limits=1 if is_main else None):
            return function(*args, **kwargs)

    return run
