"""Which module works with a frame, found by the frame's own library: none is imported that is not there already."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.frames import LargeTable, Summary, register_large_tables
from skdp.privacy import PrivacyLeakWarning

_MODULES = {
    "dask": "dask",
    "pyspark": "spark",
    "polars": "polars",
    "duckdb": "duckdb",
    "_duckdb": "duckdb",
    "pyarrow": "arrow",
    "pandas": "memory",
}

_KINDS = (
    "a Dask or Spark DataFrame, a Polars LazyFrame, a DuckDB relation, a pyarrow Dataset or RecordBatchReader, or a "
    "pandas, polars or pyarrow table"
)


def engine_of(frame: Any) -> Any:
    """Find the module that works with a frame."""
    for kind in type(frame).__mro__:
        name = _MODULES.get(kind.__module__.partition(".")[0])
        if name is not None:
            module = importlib.import_module(f"skdp.engines.backends.{name}")
            if module.accepts(frame):
                return module
            break
    raise TypeError(f"frame must be {_KINDS}, got {type(frame).__name__}")


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
    """Warn whoever keeps reports lazy: the frame is no release, but the means to make one again and again."""
    warnings.warn(
        "the reports are computed anew at each use, and are the same only as long as the table is: it must not change. "
        "The frame holds the key of the reports and the way to the true rows: publish what it evaluates to, not the "
        "frame. Leave out persist=False to have them stored once",
        PrivacyLeakWarning,
        stacklevel=4,
    )


class UnreadableError(ValueError):
    """What was read is no table: it is damaged, or was not read as it is stored."""


_LIBRARIES = ("pyarrow", "duckdb", "_duckdb", "polars")


def is_damage(error: BaseException) -> bool:
    """Return whether a library could not make sense of what it read; its text may hold a row."""
    if isinstance(error, OSError):
        return type(error) is OSError and error.errno is None
    theirs = type(error).__module__.partition(".")[0] in _LIBRARIES
    return theirs and isinstance(error, Exception) and not isinstance(error, MemoryError)


_TABLES = {
    ("polars", "LazyFrame"): "polars",
    ("duckdb", "DuckDBPyRelation"): "duckdb",
    ("_duckdb", "DuckDBPyRelation"): "duckdb",
    ("pyarrow", "Dataset"): "arrow",
    ("dask", "DataFrame"): "dask",
    ("pyspark", "DataFrame"): "spark",
}


def open_table(frame: Any) -> LargeTable | None:
    """Open a table of an engine, found by its own library: none is imported that is not there already."""
    for kind in type(frame).__mro__:
        name = (kind.__module__.partition(".")[0], kind.__name__)
        if name == ("pyarrow", "RecordBatchReader"):
            raise TypeError(
                "a RecordBatchReader can be read only once, and `fit` may read a table several times: give a pyarrow "
                "Dataset of the files, or reader.read_all() if it fits into memory"
            )
        module = _TABLES.get(name)
        if module is not None:
            return importlib.import_module(f"skdp.engines.backends.{module}").open_table(frame)
    return None


def add_up_batches(batches: Iterable[Any], summary: Summary) -> list[NDArray[np.int64]]:
    """Sum over a stream of batches."""
    sums = summary.zeros()
    for batch in batches:
        summary.add(sums, batch)
    return sums


register_large_tables(open_table)
