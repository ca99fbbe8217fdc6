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

from skdp.engines import _release
from tests.conftest import often


def _to_dask(table, partitions=3):
    import dask.dataframe as dd

    def keep(kind):
        """Dask would make text of what are Python objects in pandas: decimals, dates, and truth values with nulls."""
        objects = pa.types.is_decimal(kind) or pa.types.is_date(kind) or pa.types.is_boolean(kind)
        return pd.ArrowDtype(kind) if objects else None

    # Nor does Arrow make categories of codes without a sign, in every version.
    signed = [
        field.with_type(pa.dictionary(pa.int32(), field.type.value_type, field.type.ordered))
        if pa.types.is_dictionary(field.type)
        else field
        for field in table.schema
    ]
    frame = table.cast(pa.schema(signed)).to_pandas(types_mapper=keep)
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

    @property
    def numbers_rows(self):
        """Whether seeded reports are those of memory: those of Dask and Spark follow from their partitions."""
        return self.name not in ("dask", "spark")

    @property
    def cuts_batches(self):
        """Whether it cuts its rows into batches of many: tables in memory are one, and partitions are cut already."""
        return self.name not in ("dask", "spark")

    def frame(self, table):
        return self.make(table)

    def table(self, frame):
        return _text(self.rows(frame)).combine_chunks()


def _from_pandas(frame):
    return pa.Table.from_pandas(frame, preserve_index=False)


def _small_batches(table):
    """Cut a table, with nothing between two batches."""
    batches = table.combine_chunks().to_batches(max_chunksize=1_000)
    return pa.Table.from_batches([batch for full in batches for batch in (full[:0], full)], table.schema)


ENGINES = {
    "arrow": Engine("arrow", lambda table: table, lambda table: table),
    "polars_lazy": Engine(
        "polars_lazy", lambda table: pl.from_arrow(table).lazy(), lambda frame: frame.collect().to_arrow()
    ),
    "dataset": Engine("dataset", lambda table: ds.dataset(_small_batches(table)), lambda data: data.to_table()),
    "duckdb": Engine("duckdb", lambda table: duckdb.from_arrow(table), _from_duckdb),
    "dask": Engine("dask", _to_dask, lambda frame: _from_pandas(frame.compute())),
}
LAZY = ["polars_lazy", "dataset", "duckdb", "dask"]  # evaluated when they are asked
# Fixtures: processes, which are started once.
LONG = [
    pytest.param(
        "dask_cluster",
        marks=[
            pytest.mark.long,
            pytest.mark.filterwarnings("ignore:Sending large graph"),
        ],
    ),
    pytest.param("spark_engine", id="spark", marks=[pytest.mark.long, pytest.mark.filterwarnings("ignore")]),
]


def _start(request):
    return ENGINES[request.param] if request.param in ENGINES else request.getfixturevalue(request.param)


@pytest.fixture
def batch_rows(monkeypatch):
    """Set how many rows are privatized at a time, so that small tables have several batches."""

    def set_rows(rows):
        monkeypatch.setattr(_release, "count_batch_rows", lambda n_columns: rows)

    return set_rows


# Quick tests take a table in memory, a lazy one and DuckDB; the others are left to the nightly job.
@pytest.fixture(params=[*often(ENGINES, ["arrow", "duckdb"]), *LONG])
def engine(request):
    return _start(request)


@pytest.fixture(params=[*often(LAZY, ["polars_lazy", "duckdb"]), *LONG])
def lazy_engine(request):
    return _start(request)


@pytest.fixture(params=[*ENGINES, *LONG])
def every_engine(request):
    """All of them, for what matters most; only those of other processes are long."""
    return _start(request)


@pytest.fixture(scope="session")
def engines():
    return ENGINES


@pytest.fixture
def dask_frame():
    return _to_dask


@pytest.fixture
def dask_pickled():
    """Dask in this process, with all that goes to others and comes back copied as for them: those take seconds."""
    import dask
    from dask.multiprocessing import cloudpickle

    def get(graph, keys, **options):
        found = dask.get(*cloudpickle.loads(cloudpickle.dumps((graph, keys))), **options)
        return cloudpickle.loads(cloudpickle.dumps(found))

    with dask.config.set(scheduler=get):
        yield ENGINES["dask"]


@pytest.fixture(scope="session")
def cluster_of_two():
    import dask
    from distributed import Client, LocalCluster

    settings = {"distributed.scheduler.allowed-failures": 10, "distributed.logging.distributed": "critical"}
    with (
        dask.config.set(settings),
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as client,  # other tests have other schedulers
    ):
        yield client


@pytest.fixture
def cluster(cluster_of_two):
    with cluster_of_two.as_current():
        yield cluster_of_two


@pytest.fixture
def dask_cluster(cluster):
    return ENGINES["dask"]


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
            .config("spark.default.parallelism", "3")
            .config("spark.sql.shuffle.partitions", "4")
            .config("spark.sql.execution.arrow.maxRecordsPerBatch", "700")
            .getOrCreate()
        )
        session.sparkContext.setLogLevel("OFF")
        yield session
        with contextlib.suppress(Exception):
            session.stop()


@pytest.fixture
def spark_engine(spark):

    from pyspark.sql.pandas.types import from_arrow_schema

    from skdp.engines._spark import convert_schema

    def make(table):
        """Spark has neither dictionaries nor numbers without a sign."""
        table = table.cast(convert_schema(table.schema), safe=False)
        return spark.createDataFrame(table, from_arrow_schema(table.schema, prefer_timestamp_ntz=True))

    def rows(frame):
        """Spark keeps no order either."""
        table = frame.toArrow()
        return table.sort_by("number") if "number" in table.column_names else table

    return Engine("spark", make, rows)


@pytest.fixture(scope="session")
def people():
    """Two blocks and a part of one: text with nulls, a number, and a column that nobody privatizes."""
    n = 10_000
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
