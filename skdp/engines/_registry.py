"""The registry of engines, found by the library of a frame: none is imported that is not there already."""

from __future__ import annotations

import importlib
import warnings
from dataclasses import dataclass
from typing import Any

from skdp.engines._engine import Engine
from skdp.privacy import PrivacyLeakWarning
from skdp.tables import LargeTable


@dataclass(frozen=True)
class Backend:
    """A line of the registry."""

    module: str  # of skdp.engines.backends
    engine: str  # its class
    frames: str  # what it takes, for errors
    libraries: tuple[str, ...]  # of the classes of its frames
    lazy: tuple[str, ...] = ()  # names of the classes that `fit` reads where they are
    reads_files: bool = False  # whether its errors may be about a damaged file


_ARROW_FRAMES = "a pyarrow Table, Dataset or RecordBatchReader"
ENGINES = (
    Backend("dask", "DaskTable", "a Dask DataFrame", ("dask",), ("DataFrame",)),
    Backend("spark", "SparkTable", "a Spark DataFrame", ("pyspark",), ("DataFrame",)),
    Backend(
        "polars",
        "PolarsTable",
        "a Polars DataFrame or LazyFrame",
        ("polars",),
        ("LazyFrame",),
        True,
    ),
    Backend(
        "duckdb",
        "DuckDBTable",
        "a DuckDB relation",
        ("duckdb", "_duckdb"),
        ("DuckDBPyRelation",),
        True,
    ),
    Backend(
        "arrow",
        "ArrowTable",
        _ARROW_FRAMES,
        ("pyarrow",),
        ("Dataset", "RecordBatchReader"),
        True,
    ),
    Backend("memory", "MemoryTable", "a pandas DataFrame", ("pandas",)),
)


def _of_library(kind: type) -> list[Backend]:
    """Find the engines of the library of a class."""
    return [
        backend
        for backend in ENGINES
        if kind.__module__.partition(".")[0] in backend.libraries
    ]


def _load(backend: Backend) -> type[Engine]:
    found: type[Engine] = getattr(
        importlib.import_module(f"skdp.engines.backends.{backend.module}"),
        backend.engine,
    )
    return found


def has_engine(frame: Any) -> bool:
    """Return whether an object is of a library of tables, as readers are that are iterators, too."""
    return any(_of_library(kind) for kind in type(frame).__mro__)


def engine_of(frame: Any) -> Engine:
    """Find the engine of a frame, whose library is imported already."""
    for backend in dict.fromkeys(
        backend for kind in type(frame).__mro__ for backend in _of_library(kind)
    ):
        engine = _load(backend)
        if isinstance(frame, engine.kinds):
            return engine(frame)
    *others, last = (backend.frames for backend in ENGINES)
    raise TypeError(
        f"frame must be {', '.join(others)} or {last}, got {type(frame).__name__}"
    )


def open_table(frame: Any) -> LargeTable | None:
    """Open a lazy table of an engine; no engine is imported for another table."""
    for kind in type(frame).__mro__:
        for backend in _of_library(kind):
            if kind.__name__ in backend.lazy:
                return _load(backend)(frame).opened()
    return None


def tell_of_lazy_reports() -> None:
    """Warn that lazy reports are evaluated at each use, and that their frame is no release."""
    warnings.warn(
        "the reports are computed again at each use, and are the same only as long as the table is: it must not "
        "change. The frame holds the key of the reports and the way to the true rows: publish what it evaluates to, "
        "not the frame. Leave out persist=False to have them stored once",
        PrivacyLeakWarning,
        stacklevel=4,
    )


def is_damage(error: BaseException) -> bool:
    """Return whether a library could not make sense of what it read; its text may hold a row."""
    if isinstance(error, OSError):
        return type(error) is OSError and error.errno is None
    theirs = any(backend.reads_files for backend in _of_library(type(error)))
    return (
        theirs and isinstance(error, Exception) and not isinstance(error, MemoryError)
    )
