"""What the scripts share: the description of a task, seeds of repeats, coverage, and times."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd


class Task(NamedTuple):
    """Tables, methods, a score, and the epsilons and seeds to run."""

    tables: Callable[[bool], Mapping[str, Callable[[], Any]]]
    methods: Mapping[str, Callable[[Any, float, int], Any]]
    score: Callable[[Any, Any], Mapping[str, float]]
    epsilons: tuple[float, ...]
    n_seeds: int


def keep_scores(table: Any, scores: dict[str, float]) -> dict[str, float]:
    """Return the results of a method that are metrics already."""
    return scores


def list_seeds(seed: int, n_repeats: int = 10) -> range:
    """List the seeds of the repeats within a cell."""
    return range(seed * n_repeats, (seed + 1) * n_repeats)


def measure_coverage(intervals: pd.DataFrame, truth: Any) -> float:
    """Compute the proportion of intervals that contain the true value."""
    is_covered = intervals["lower"].le(truth) & intervals["upper"].ge(truth)
    return float(is_covered.mean())


def time_in_turns(
    own: Callable[[], object], rival: Callable[[], object], turns: int
) -> tuple[float, float]:
    """Return the shortest CPU time of a call, and its ratio to the time of the reference."""
    times = [[measure_seconds(call) for call in (own, rival)] for _ in range(turns)]
    shortest, reference = np.min(times, axis=0).tolist()
    return shortest, shortest / reference


def measure_seconds(call: Callable[[], object]) -> float:
    """Measure the CPU time of a call."""
    start = time.process_time()
    call()
    return time.process_time() - start


# Prints the largest memory since the start of a program, on Linux, at its end. `ru_maxrss` includes the memory of the
# process that started it.
PRINT_MEMORY = """\
import atexit, re
from pathlib import Path
def print_memory():
    status = Path("/proc/self/status").read_text()
    print(re.search(r"^VmHWM:\\s+(\\d+) kB$", status, re.MULTILINE)[1])
atexit.register(print_memory)
"""


def measure_process(code: str, *arguments: str) -> tuple[float, float]:
    """Run code in a new process; return its CPU time and its largest memory in megabytes."""
    process = subprocess.Popen(
        [sys.executable, "-c", PRINT_MEMORY + code, *arguments],
        cwd=Path(__file__).parent,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"a process failed: {code}")
    return usage.ru_utime + usage.ru_stime, int(output.split()[-1]) / 1024
