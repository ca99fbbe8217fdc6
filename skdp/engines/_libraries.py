"""Libraries that not every user has installed, and the engines of their tables."""

from __future__ import annotations

import importlib
from typing import Any

from skdp.tables import LargeTable


def import_extra(module: str, extra: str) -> Any:
    """Import a module that an engine needs."""
    package = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{package} is needed here: pip install {package} (extra {extra!r})"
        ) from error


class Extra:
    """A module of an extra, imported when something of it is used."""

    def __init__(self, module: str, extra: str = "duckdb") -> None:
        self._module, self._extra = module, extra

    def __getattr__(self, name: str) -> Any:
        # Inspection, as by doctest, needs no module.
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(import_extra(self._module, self._extra), name)


_MEMORY = ("skdp.engines.backends.memory", "MemoryTable")
_ARROW = ("skdp.engines.backends.arrow", "ArrowTable")
_DUCKDB = ("skdp.engines.backends.duckdb", "DuckDBTable")

# The module and the class of the engine, by the library and the class of a frame.
_ENGINES = {
    ("dask", "DataFrame"): ("skdp.engines.backends.dask", "DaskTable"),
    ("pyspark", "DataFrame"): ("skdp.engines.backends.spark", "SparkTable"),
    ("polars", "LazyFrame"): ("skdp.engines.backends.polars", "PolarsTable"),
    ("duckdb", "DuckDBPyRelation"): _DUCKDB,
    ("_duckdb", "DuckDBPyRelation"): _DUCKDB,
    ("pyarrow", "Dataset"): _ARROW,
    ("pyarrow", "RecordBatchReader"): _ARROW,
    ("pyarrow", "Table"): _MEMORY,
    ("polars", "DataFrame"): _MEMORY,
    ("pandas", "DataFrame"): _MEMORY,
}

# The libraries of tables.
LIBRARIES = frozenset(library for library, _ in _ENGINES)


def _library_of(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def has_engine(frame: Any) -> bool:
    """Return whether an object is of a library of tables, as readers are that are iterators, too."""
    return any(_library_of(kind) in LIBRARIES for kind in type(frame).__mro__)


def _engine_name(frame: Any) -> tuple[str, str] | None:
    """Name the engine of a frame; None of another object."""
    for kind in type(frame).__mro__:
        name = _ENGINES.get((_library_of(kind), kind.__name__))
        if name is not None:
            return name
    return None


def engine_of(frame: Any) -> Any:
    """Find the engine of a frame, whose library is imported already."""
    name = _engine_name(frame)
    if name is None:
        kinds = []
        for library, kind in _ENGINES:
            # Such as `_duckdb`, as some versions of a library call themselves.
            if not library.startswith("_"):
                kinds.append(f"{library} {kind}")
        raise TypeError(
            f"frame must be one of: {', '.join(kinds)}; got {type(frame).__name__}"
        )
    module, class_name = name
    return getattr(importlib.import_module(module), class_name)(frame)


def open_table(frame: Any) -> LargeTable | None:
    """Open a lazy table of an engine, which `fit` reads where it is; no engine is imported for another table."""
    if _engine_name(frame) in (None, _MEMORY):
        return None
    table: LargeTable = engine_of(frame).opened()
    return table
