"""Libraries that not every user has installed, and the engines of their tables."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

from skdp.privacy import PrivacyLeakWarning
from skdp.tables import LargeTable


def import_extra(module: str, extra: str, *, least: str | None = None) -> Any:
    """Import a module that an engine needs."""
    try:
        imported = importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f'{module} is needed here: pip install "skdp[{extra}]"'
        ) from error
    if least is not None and _major_minor(imported.__version__) < _major_minor(least):
        raise ImportError(
            f"{module} {least} or later is needed here, got {imported.__version__}: "
            f'pip install "skdp[{extra}]"'
        )
    return imported


class Extra:
    """A module of an extra, imported when something of it is used."""

    def __init__(self, module: str, extra: str = "duckdb") -> None:
        self._module, self._extra = module, extra

    def __getattr__(self, name: str) -> Any:
        return getattr(import_extra(self._module, self._extra), name)


def _major_minor(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])


# The library of the classes of frames, and the module and the class of their engine.
_ENGINES = [
    ("dask", "skdp.engines.backends.dask", "DaskTable"),
    ("pyspark", "skdp.engines.backends.spark", "SparkTable"),
    ("polars", "skdp.engines.backends.polars", "PolarsTable"),
    ("duckdb", "skdp.engines.backends.duckdb", "DuckDBTable"),
    ("_duckdb", "skdp.engines.backends.duckdb", "DuckDBTable"),
    ("pyarrow", "skdp.engines.backends.arrow", "ArrowTable"),
    ("pandas", "skdp.engines._engine", "MemoryTable"),
]

# Classes that `fit` reads where they are.
_LAZY_CLASSES = {
    ("dask", "DataFrame"),
    ("pyspark", "DataFrame"),
    ("polars", "LazyFrame"),
    ("duckdb", "DuckDBPyRelation"),
    ("_duckdb", "DuckDBPyRelation"),
    ("pyarrow", "Dataset"),
    ("pyarrow", "RecordBatchReader"),
}

# Libraries whose errors may be about a damaged file.
_READERS_OF_FILES = {"polars", "duckdb", "_duckdb", "pyarrow"}


def _library_of(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def has_engine(frame: Any) -> bool:
    """Return whether an object is of a library of tables, as readers are that are iterators, too."""
    libraries = {library for library, _, _ in _ENGINES}
    return any(_library_of(kind) in libraries for kind in type(frame).__mro__)


def engine_of(frame: Any) -> Any:
    """Find the engine of a frame, whose library is imported already."""
    frame_libraries = set(map(_library_of, type(frame).__mro__))
    for library, module, name in _ENGINES:
        if library in frame_libraries:
            engine = getattr(importlib.import_module(module), name)
            if isinstance(frame, engine.kinds):
                return engine(frame)
    raise TypeError(
        "frame must be a Dask DataFrame, a Spark DataFrame, a Polars DataFrame or "
        "LazyFrame, a DuckDB relation, a pyarrow Table, Dataset or RecordBatchReader "
        f"or a pandas DataFrame, got {type(frame).__name__}"
    )


def open_table(frame: Any) -> LargeTable | None:
    """Open a lazy table of an engine; no engine is imported for another table."""
    for kind in type(frame).__mro__:
        if (_library_of(kind), kind.__name__) in _LAZY_CLASSES:
            table: LargeTable = engine_of(frame).opened()
            return table
    return None


def tell_of_lazy_reports() -> None:
    """Warn that lazy reports are evaluated at each use, and that their frame is no release."""
    warnings.warn(
        "the reports are computed again at each use, and are the same only as long as"
        " the table is: it must not change. The frame holds the key of the reports and"
        " the way to the true rows: publish what it evaluates to, not the frame. Leave"
        " out persist=False to have them stored once",
        PrivacyLeakWarning,
        stacklevel=4,
    )


def is_damage(error: BaseException) -> bool:
    """Return whether a library could not make sense of what it read; its text may hold a row."""
    if isinstance(error, OSError):
        return type(error) is OSError and error.errno is None
    if isinstance(error, MemoryError) or not isinstance(error, Exception):
        return False
    return _library_of(type(error)) in _READERS_OF_FILES
