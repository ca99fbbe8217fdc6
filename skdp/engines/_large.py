"""Tables that stay where they are, for the estimators that sum over their rows: `fit` takes them as they are."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.frames import LargeTable, Summary, register_large_tables

_KINDS = {
    ("polars", "LazyFrame"): "_large_polars",
    ("duckdb", "DuckDBPyRelation"): "_large_duckdb",
    ("_duckdb", "DuckDBPyRelation"): "_large_duckdb",
    ("pyarrow", "Dataset"): "_large_arrow",
    ("dask", "DataFrame"): "_large_dask",
    ("pyspark", "DataFrame"): "_large_spark",
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
        module = _KINDS.get(name)
        if module is not None:
            return importlib.import_module(f"skdp.engines.{module}").open_table(frame)
    return None


def add_up_batches(batches: Iterable[Any], summary: Summary) -> list[NDArray[np.int64]]:
    """Sum over a stream of batches."""
    sums = summary.zeros()
    for batch in batches:
        summary.add(sums, batch)
    return sums


register_large_tables(open_table)
