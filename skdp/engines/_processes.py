"""Permanent reports in several processes: each is hashed by itself, at which threads of Python take turns."""

from __future__ import annotations

import functools
import itertools
import multiprocessing
from collections.abc import Callable
from typing import Any

import joblib

from skdp.engines._release import Release

FEW = 3
"""Batches that are drawn here: a process takes about as long to start."""

_MOST = 16
_IDLE_SECONDS = 10

Draw = Callable[..., Any]


def in_processes(release: Release) -> tuple[Draw, int]:
    """Return what privatises batches for a few threads at a time, and the number of threads to ask it."""
    # Fresh reports are drawn by NumPy and OpenSSL, which let other threads go on: these are drawn where they are asked
    # for. Permanent reports of a large table are drawn in processes. Which batch is drawn where makes no difference.
    cores = min(_MOST, joblib.cpu_count())
    # Not in a process that a pool has started: it may have no children, and its siblings use the cores.
    if not release.permanent or cores == 1 or multiprocessing.parent_process() is not None:
        return release, min(4, cores)
    from joblib.externals.loky import ProcessPoolExecutor  # does not run the user's script again, as others do

    asked = itertools.count()
    # Not joblib's own pool: it would end for ours, and ours for it, at each batch. This one ends with `draw`.
    pool = functools.cache(lambda: ProcessPoolExecutor(cores, timeout=_IDLE_SECONDS))

    def draw(*batch: Any) -> Any:
        if next(asked) < FEW:
            return release(*batch)
        try:
            return pool().submit(release, *batch).result()
        except Exception:  # a refusal, which is the same here; or no process, such as for lack of memory
            pass
        return release(*batch)

    return draw, cores
