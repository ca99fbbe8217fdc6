"""The registry of engines, found by the library of a frame: none is imported that is not there already."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from skdp.frames import LargeTable, Summary, register_large_tables
from skdp.privacy import PrivacyLeakWarning


class Engine(Protocol):
    """What a module of `skdp/engines/backends` holds to be an engine."""

    def accepts(self, frame: Any) -> bool:
        """Return whether this is one of its frames."""

    def column_names(self, frame: Any) -> list[Any]:
        """Name the columns, without reading a row."""

    def privatize(self, frame: Any, plan: Any, *, persist: bool, path: Any, check: bool) -> Any:
        """Call ``plan(sample, look=...)`` once, which checks and charges, and then the release with each batch."""

    def tally(self, frame: Any, protocol: Any) -> Any:
        """Sum up the reports of a frame."""

    def open_table(self, frame: Any) -> LargeTable | None:
        """Open a lazy table for `fit`; None if the frame is in memory."""

    def countable_ids(self, frame: Any, record_id: str) -> Any:
        """Return what narwhals counts the distinct record ids of, byte by byte."""


@dataclass(frozen=True)
class Backend:
    """A line of the registry."""

    module: str  # of skdp.engines.backends
    frames: str  # what it takes, for errors
    libraries: tuple[str, ...]  # of the classes of its frames
    lazy: tuple[str, ...] = ()  # names of the classes that `open_table` takes
    reads_files: bool = False  # whether its errors may be about a damaged file


ENGINES = (
    Backend("dask", "a Dask DataFrame", ("dask",), ("DataFrame",)),
    Backend("spark", "a Spark DataFrame", ("pyspark",), ("DataFrame",)),
    Backend("polars", "a Polars DataFrame or LazyFrame", ("polars",), ("LazyFrame",), reads_files=True),
    Backend("duckdb", "a DuckDB relation", ("duckdb", "_duckdb"), ("DuckDBPyRelation",), reads_files=True),
    Backend(
        "arrow",
        "a pyarrow Table, Dataset or RecordBatchReader",
        ("pyarrow",),
        ("Dataset", "RecordBatchReader"),
        reads_files=True,
    ),
    Backend("memory", "a pandas DataFrame", ("pandas",)),
)
_BY_LIBRARY = {library: backend for backend in ENGINES for library in backend.libraries}


def _load(backend: Backend) -> Engine:
    engine: Any = importlib.import_module(f"skdp.engines.backends.{backend.module}")
    return engine


def engine_of(frame: Any) -> Engine:
    """Find the engine of a frame, which has imported the library already."""
    for kind in type(frame).__mro__:
        backend = _BY_LIBRARY.get(kind.__module__.partition(".")[0])
        if backend is not None:
            engine = _load(backend)
            if engine.accepts(frame):
                return engine
            break
    *others, last = (backend.frames for backend in ENGINES)
    raise TypeError(f"frame must be {', '.join(others)} or {last}, got {type(frame).__name__}")


def open_table(frame: Any) -> LargeTable | None:
    """Open a lazy table of an engine; no engine is imported for another table."""
    for kind in type(frame).__mro__:
        backend = _BY_LIBRARY.get(kind.__module__.partition(".")[0])
        if backend is not None and kind.__name__ in backend.lazy:
            return _load(backend).open_table(frame)
    return None


register_large_tables(open_table)


def import_extra(module: str, extra: str, *, least: str | None = None) -> Any:
    """Import a module that an engine needs."""
    try:
        found = importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"{module} is needed here: pip install skdp[{extra}]") from error
    if least is not None and _major_minor(found.__version__) < _major_minor(least):
        raise ImportError(
            f"{module} {least} or later is needed here, got {found.__version__}: pip install skdp[{extra}]"
        )
    return found


def _major_minor(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])


def tell_of_lazy_reports() -> None:
    """Warn that lazy reports are evaluated at each use, and that their frame is no release."""
    warnings.warn(
        "the reports are computed again at each use, and are the same only as long as the table is: it must not "
        "change. The frame holds the key of the reports and the way to the true rows: publish what it evaluates to, "
        "not the frame. Leave out persist=False to have them stored once",
        PrivacyLeakWarning,
        stacklevel=4,
    )


class UnreadableError(ValueError):
    """What was read is no table: it is damaged, or was not read as it is stored."""


def is_damage(error: BaseException) -> bool:
    """Return whether a library could not make sense of what it read; its text may hold a row."""
    if isinstance(error, OSError):
        return type(error) is OSError and error.errno is None
    backend = _BY_LIBRARY.get(type(error).__module__.partition(".")[0])
    theirs = backend is not None and backend.reads_files
    return theirs and isinstance(error, Exception) and not isinstance(error, MemoryError)


def add_up_batches(batches: Iterable[Any], summary: Summary) -> list[NDArray[np.int64]]:
    """Sum over a stream of batches."""
    sums = summary.zeros()
    for batch in batches:
        summary.add(sums, batch)
    return sums
