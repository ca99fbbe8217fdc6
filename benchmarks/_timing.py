"""What the benchmarks share: fair timing, peak memory, and the table of results."""

from __future__ import annotations

import os
import platform
import subprocess
import time
import tracemalloc
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
_POOLS: list[
    Any
] = []  # buffers may outlive the call that made them, and need their pool


def best_of(calls: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Return the shortest time of each call in seconds, all taking turns so that a noisy spell hits all alike."""
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(repeats):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def peak_memory(call: Callable[[], object]) -> int:
    """Return the most bytes that a call holds at once beyond what was there before, its result included.

    Counted are Python's and NumPy's bytes (tracemalloc) and Arrow's (a pool for this call); the sum of the two peaks is
    an upper bound. polars allocates by itself: see `peak_resident`.
    """
    pool = _arrow_pool()
    tracemalloc.start()
    try:
        result = call()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        if pool is not None:
            import pyarrow

            pyarrow.set_memory_pool(pyarrow.system_memory_pool())
    del result
    return peak + (0 if pool is None else pool.max_memory())


def _arrow_pool() -> Any:
    try:
        import pyarrow
    except ImportError:
        return None
    pool = pyarrow.proxy_memory_pool(pyarrow.system_memory_pool())
    _POOLS.append(pool)
    pyarrow.set_memory_pool(pool)
    return pool


def peak_resident(call: Callable[[], object]) -> int | None:
    """Return how far the process's resident memory rises above its level before the call; None except on Linux."""
    try:
        Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
        before = _resident("VmRSS")
        call()
        return _resident("VmHWM") - before
    except OSError:
        return None


def _resident(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(
        int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:")
    )


def installed(package: str) -> str:
    """Return the version of a package, or "not installed"."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def processor() -> str:
    """Return the name of the machine's processor and the number of its cores."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:  # no Linux
        lines = []
    names = [
        line.partition(":")[2].strip()
        for line in lines
        if line.startswith("model name")
    ]
    return f"{names[0] if names else name}, {os.cpu_count()} cores"


def commit() -> str:
    """Return the commit of the code, and whether files of it are changed."""

    def git(*arguments: str) -> str:
        command = ["git", *arguments]
        return subprocess.run(
            command, cwd=RESULTS.parent, capture_output=True, text=True, check=True
        ).stdout.strip()

    try:
        name = git("rev-parse", "--short=10", "HEAD")
        changed = git(
            "status", "--porcelain", "--untracked-files=no", "--", "../skdp", "*.py"
        )
    except (
        OSError,
        subprocess.CalledProcessError,
    ):  # a source distribution is no repository
        return "unknown"
    return f"{name} with changes" if changed else name


def verdict(met: bool) -> str:
    """Return what the table says of a target."""
    return "yes" if met else "**no**"


def write_results(
    name: str,
    title: str,
    packages: Iterable[str],
    notes: str,
    tables: dict[str, tuple[Sequence[str], list[list[str]]]],
    *,
    commits: Sequence[str] = (),
) -> None:
    """Print tables as Markdown, and keep them in ``results/<name>.md``.

    `commits` are those that lines of several runs were measured at, the oldest first.
    """
    versions = ", ".join(f"{package} {installed(package)}" for package in packages)
    machine = f"Measured at commit {commit()} on {processor()}."
    if commits:
        machine = f"Measured at commit {' and at '.join(commits)}."
    lines = [
        f"# {title}",
        "",
        f"Python {platform.python_version()}, {versions}.",
        "",
        machine,
        "",
        notes,
    ]
    for heading, (columns, rows) in tables.items():
        lines += ["", f"## {heading}", ""]
        lines += [
            "| " + " | ".join(row) + " |"
            for row in [columns, ["---"] * len(columns), *rows]
        ]
    text = "\n".join(lines) + "\n"
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.md").write_text(text)
    print(text)
