"""Every engine that the tests run on: how to make its frame of an Arrow table, and how to get the rows back."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from dataclasses import dataclass
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest


def _to_dask(table, partitions=3):
    import dask.dataframe as dd

    # Dask would make text of decimals that are Python objects.
    frame = table.to_pandas(types_mapper=lambda kind: pd.ArrowDtype(kind) if pa.types.is_decimal(kind) else None)
    return dd.from_pandas(frame, npartitions=partitions, sort=False)


def _from_duckdb(relation):
    return relation.to_arrow_table()


def _text(table):
    """Write views and large strings as strings: which of them an engine uses is its own affair."""
    fields = []
    for field in table.schema:
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        is_text = pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
        fields.append(pa.field(field.name, pa.string() if is_text else kind))
    return table.cast(pa.schema(fields)).replace_schema_metadata(None)


@dataclass
class Engine:
    name: str
    make: Any  # Arrow table -> frame
    rows: Any  # frame -> Arrow table

    def frame(self, table):
        return self.make(table)

    def table(self, frame):
        return _text(self.rows(frame)).combine_chunks()


def _from_pandas(frame):
    return pa.Table.from_pandas(frame, preserve_index=False)


def _small_batches(table):
    return pa.Table.from_batches(table.to_batches(max_chunksize=1_000)) if table.num_rows else table


ENGINES = {
    "pandas": Engine("pandas", pa.Table.to_pandas, _from_pandas),
    "polars": Engine("polars", pl.from_arrow, pl.DataFrame.to_arrow),
    "arrow": Engine("arrow", lambda table: table, lambda table: table),
    "polars_lazy": Engine(
        "polars_lazy", lambda table: pl.from_arrow(table).lazy(), lambda frame: frame.collect().to_arrow()
    ),
    "dataset": Engine("dataset", lambda table: ds.dataset(_small_batches(table)), lambda data: data.to_table()),
    "reader": Engine("reader", lambda table: _small_batches(table).to_reader(), lambda reader: reader.read_all()),
    "duckdb": Engine("duckdb", lambda table: duckdb.from_arrow(table), _from_duckdb),
    "dask": Engine("dask", _to_dask, lambda frame: _from_pandas(frame.compute())),
}
LAZY = ["polars_lazy", "dataset", "duckdb", "dask"]  # evaluated when they are asked


@pytest.fixture(params=ENGINES)
def engine(request):
    return ENGINES[request.param]


@pytest.fixture(params=LAZY)
def lazy_engine(request):
    return ENGINES[request.param]


@pytest.fixture
def dask_frame():
    return _to_dask


@pytest.fixture(scope="session")
def spark():
    pytest.importorskip("pyspark")
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # or the workers run whatever python3 is
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Spark's own, of pandas and of Python
        session = (
            SparkSession.builder.master("local[2,3]")  # a task may fail twice
            .config("spark.ui.enabled", "false")
            .config("spark.sql.shuffle.partitions", "4")
            .config("spark.sql.execution.arrow.maxRecordsPerBatch", "700")
            .getOrCreate()
        )
        session.sparkContext.setLogLevel("OFF")
        yield session
        with contextlib.suppress(Exception):
            session.stop()


@pytest.fixture
def people():
    """20,000 rows of text with nulls, of a number, and of a column that nobody privatises."""
    n = 20_000
    frame = pd.DataFrame({"number": range(n)})
    color = ["red", "green", None, "blue", "red"]
    return pa.table(
        {
            "color": pa.array([color[row % 5] for row in range(n)], pa.string()),
            "size": pa.array([(row // 3) % 4 for row in range(n)], pa.int64()),
            "number": pa.array(frame["number"]),
        }
    )


@pytest.fixture
def parquet(tmp_path):
    def write(table, name="in.parquet"):
        pq.write_table(table, tmp_path / name, row_group_size=3_000)
        return tmp_path / name

    return write
