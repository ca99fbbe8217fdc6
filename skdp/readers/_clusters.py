"""Engines of Dask and Spark, whose tasks privatize partitions and write Parquet files."""

from __future__ import annotations

import contextlib
import json
import operator
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from skdp._arrays import Integers, PathType
from skdp.domain import is_mixed, to_text
from skdp.readers._io import (
    Extra,
    RefusedBatch,
    make_temporary_path,
    open_output,
    run_check,
    run_safely,
)
from skdp.readers._large_table import (
    REPEATED_IDS,
    LargeTable,
    Release,
    Summary,
    ValueCounts,
    add_up_batches,
    check_batches,
    check_distinct_ids,
    draw_batches,
    read_batches,
)
from skdp.readers._local import split_frame
from skdp.tables import ATTRS_KEY, PROTOCOL_KEY

dask = Extra("dask", "dask")
dataframe = Extra("dask.dataframe", "dask")

# Meta of the result of a check, by which Dask infers types.
_NO_IDS = pd.Series([], dtype=np.uint64)


class DaskTable(LargeTable):
    """A Dask DataFrame."""

    def _make_empty_table(self) -> pd.DataFrame:
        """Return Dask's own empty frame with the columns and dtypes."""
        return self._frame._meta

    def _collect(self) -> Any:
        """Compute all rows as a table of pandas."""
        return self._frame.compute()

    def check_path(self, path: PathType | None) -> Any:
        """Check the path of the reports; it is required on a cluster."""
        scheduler = dask.base.get_scheduler(collections=[self._frame])
        # The scheduler of a cluster is a method of its client.
        client = getattr(scheduler, "__self__", None)
        is_local = client is None or "127.0.0.1" in client.scheduler.address
        if path is None:
            _check_same_machine(is_local=is_local)
        return super().check_path(path)

    def check_rows(self, release: Release) -> None:
        """Check all partitions in their tasks, and compare the ids of persons of the table."""
        frame = self._frame[release.columns]
        checked = frame.map_partitions(_check_partition, release, meta=_NO_IDS)
        run_safely(lambda: check_distinct_ids([checked.compute().to_numpy()]))

    def open_output(self, path: Any) -> contextlib.AbstractContextManager[Any]:
        """Open the folder of the output beside its place."""
        return open_output(path, is_folder=True)

    def write(self, release: Release, path: PathType) -> None:
        """Draw the reports of all partitions in their tasks, and store them as Parquet."""
        # The tasks write reports to files, because a cluster recomputes the partitions
        # of a lost worker that are in memory. Their rows may then be in another order, so
        # records would get a second report. Random bits are derived from the number of the
        # partition, because it does not change.
        reports = self._frame[release.columns].map_partitions(
            _draw_partition, release, meta=release.empty_reports, enforce_metadata=False
        )
        metadata = None
        text = release.protocol_text
        if text is not None:
            # pandas reads the second entry as `attrs`.
            metadata = {PROTOCOL_KEY: text, ATTRS_KEY: json.dumps({PROTOCOL_KEY: text})}
        writing = reports.to_parquet(
            path,
            write_index=False,
            compute=False,
            custom_metadata=metadata,
            schema=_make_report_schema(release),
        )
        run_safely(writing.compute)

    def open_reports(self, release: Release, path: PathType) -> Any:
        """Open the folder of reports as a Dask DataFrame."""
        return dataframe.read_parquet(path)

    def add_up(self, names: Sequence[Any], summary: Summary) -> list[Integers]:
        """Sum over each partition in its task, and add the sums of the partitions.

        `summary` returns the sums of one table as arrays, and `names` are the columns that it reads.
        """
        shared = dask.delayed(summary, pure=False, traverse=False)
        sum_partition = dask.delayed(_add_up_partition, pure=False)
        add = dask.delayed(_add_sums, pure=False)
        # The sums are added one after the other, so that a worker can free the sums of a
        # partition when they are added.
        total: Any = None
        for partition in self._frame[list(names)].to_delayed():
            part = sum_partition(shared, partition)
            total = part if total is None else add(total, part)
        return run_safely(total.compute)


def _check_same_machine(*, is_local: bool) -> None:
    """Check that a release without a path runs on this machine alone."""
    if not is_local:
        raise ValueError(
            "`path` is required on a cluster, which has no common temporary "
            "directory, got None. Use a path that all machines can access."
        )


def _make_report_schema(release: Release) -> Any:
    """Return the Arrow schema of reports, with declared types for columns of Python objects.

    Dask would infer the type of a column of objects from other objects.
    """
    empty_reports, domain = release.empty_reports, release.domain
    schema = pyarrow.Schema.from_pandas(empty_reports, preserve_index=False)
    for index, field in enumerate(schema):
        is_object = empty_reports.dtypes.iloc[index] == np.dtype(object)
        if is_object and domain is not None and field.name in domain.columns:
            values = domain[field.name].values
            if field.name in _list_mixed(release):
                values = tuple(map(to_text, values))
            declared = pyarrow.array(list(values)).type
            schema = schema.set(index, field.with_type(declared))
    return schema


def _list_mixed(release: Release) -> list[Any]:
    """List the columns of reports with found numbers beside text, which are text in Arrow."""
    domain: Any = release.domain or {}
    return [x for x in release.empty_reports if x in domain and is_mixed(domain[x])]


# Tasks


def _check_partition(partition: pd.DataFrame, release: Release) -> pd.Series:
    """Check a partition; return the digests of its ids of persons."""
    return pd.Series(release.check(partition))


def _draw_partition(
    partition: pd.DataFrame, release: Release, partition_info: Any = None
) -> Any:
    """Privatize a partition, with random bits that depend on its number."""
    reports = release.draw(partition, (partition_info["number"], 0))
    mixed = _list_mixed(release)
    return reports.assign(**{name: reports[name].map(to_text) for name in mixed})


def _add_up_partition(summary: Summary, partition: object) -> list[Integers]:
    """Sum over a partition in blocks of rows."""
    return run_check(lambda: add_up_batches(split_frame(partition), summary))


def _add_sums(first: list[Integers], second: list[Integers]) -> list[Integers]:
    """Add the sums of two parts of a table, array by array."""
    return list(map(operator.add, first, second))


pyarrow = Extra("pyarrow", "spark")
functions = Extra("pyspark.sql.functions", "spark")

# Spark has no unsigned integers. Those of 64 bits are stored as signed integers with the
# same bits, and readers of reports convert them back.
_WIDER = {"uint8": "int16", "uint16": "int32", "uint32": "int64", "uint64": "int64"}


class SparkTable(LargeTable):
    """Engine of DataFrames of Spark and Spark Connect."""

    def _make_empty_table(self) -> Any:
        """Return an Arrow table without rows."""
        return run_safely(self._frame.limit(0).toArrow)

    def _collect(self) -> Any:
        """Read all rows as an Arrow table."""
        return self._frame.toArrow()

    def check_path(self, path: PathType | None) -> Any:
        """Check the path of the reports; it is required on a cluster."""
        return check_spark_path(self._frame.sparkSession, path)

    def check_rows(self, release: Release) -> None:
        """Check partitions in their tasks, and let Spark count distinct ids of persons."""
        columns = map(_quote_for_spark, release.columns)
        checked = self._frame.select(*columns).mapInArrow(
            partial(check_partition, release), "id long, refusal string"
        )
        counted = checked.agg(
            functions.max("refusal"),
            functions.count("id"),
            functions.countDistinct("id"),
        )
        refusal, n_ids, n_distinct = (
            column[0].as_py() for column in run_safely(counted.toArrow).columns
        )
        if refusal is not None or n_ids != n_distinct:
            raise RefusedBatch(refusal or REPEATED_IDS)

    def open_output(self, path: object) -> contextlib.AbstractContextManager[Any]:
        """Return the path of the output, which may be on another machine: Spark commits it."""
        return contextlib.nullcontext(path)

    def write(self, release: Release, path: Any) -> None:
        """Draw the reports of all partitions in their tasks, and store them as Parquet."""
        reports = draw_lazily(self._frame, release)
        try:
            # Spark commits the files of one attempt of each task, after all tasks have
            # finished.
            run_safely(lambda: reports.write.mode("error").parquet(path))
        except BaseException:
            with contextlib.suppress(OSError):
                # Another call would fail if the empty directory existed.
                os.rmdir(path.removeprefix("file://"))
            raise

    def open_reports(self, release: Release, path: PathType) -> Any:
        """Open the folder of reports as a Spark DataFrame."""
        schema = draw_lazily(self._frame, release).schema
        return self._frame.sparkSession.read.schema(schema).parquet(path)

    def add_up(self, names: Sequence[Any], summary: Summary) -> list[Integers]:
        """Sum over each partition in its task, and let Spark add the nonzero sums.

        `summary` returns the sums of one table as arrays, and `names` are the columns that it reads.
        """
        indices, values = self._sum_partitions(names, summary, ["cell"])
        # Spark returns the sums of all arrays as one sparse vector.
        zeros = summary.zeros()
        flat = np.zeros(sum(array.size for array in zeros), np.int64)
        flat[indices] = values
        limits = np.cumsum([array.size for array in zeros])[:-1]
        parts = zip(np.split(flat, limits), zeros, strict=True)
        return [part.reshape(zero.shape) for part, zero in parts]

    def count_values(self, names: Sequence[Any], summary: Summary) -> ValueCounts:
        """Count pairs of integers in the tasks, and let Spark add the counts of equal pairs."""
        pairs = self._sum_partitions(names, summary, ["group", "number"])
        groups, numbers, counts = (column[pairs[2] > 0] for column in pairs)
        return ValueCounts(((groups, numbers, counts),))

    def count_texts(
        self, names: Sequence[Any], summary: object
    ) -> list[Counter[str | None]]:
        """Let Spark count the rows with each text, or None if missing, of each column; `summary` is not used."""
        counts = []
        for name in names:
            grouped = self._frame.groupBy(_quote_for_spark(name)).count()
            texts, n_rows = run_safely(grouped.toArrow).columns
            pairs = zip(texts.to_pylist(), n_rows.to_pylist(), strict=True)
            counts.append(Counter(dict(pairs)))
        return counts

    def _sum_partitions(
        self, names: Sequence[Any], summary: Summary, keys: Sequence[str]
    ) -> list[Integers]:
        """Let Spark add the values of `sum_partition` with equal keys; return an array of each key, then the sums."""
        schema = ", ".join(f"{name} long" for name in (*keys, "value"))
        rows = self._frame.select(*map(_quote_for_spark, names))
        sums = rows.mapInArrow(
            partial(sum_partition, summary, keys), f"{schema}, refusal string"
        )
        total = sums.groupBy(*keys).agg(
            functions.sum("value"), functions.max("refusal")
        )
        *columns, refusals = run_safely(total.toArrow).columns
        for refusal in filter(None, refusals.to_pylist()):
            raise RefusedBatch(refusal)
        return [column.to_numpy() for column in columns]


def check_spark_path(session: object, path: PathType | None) -> str:
    """Return the path of the reports, or a temporary one; raise an error if it exists, or if None on a cluster."""
    if path is None:
        # Spark Connect has no context.
        context = getattr(session, "sparkContext", None)
        is_local = context is not None and context.master.startswith("local")
        _check_same_machine(is_local=is_local)
        return make_temporary_path().as_uri()
    target = os.fspath(path)
    if _exists(session, target):
        raise FileExistsError(
            f"`path` must be a new file, got {target!r}, which exists. A release is "
            "never overwritten."
        )
    return target


def _exists(session: Any, path: str) -> bool:
    """Return True if a path exists in a file system of Spark."""
    # Spark raises for a missing path when it infers the schema, before it reads files.
    try:
        _ = session.read.format("binaryFile").load(path).schema
    except Exception as error:
        get_condition = getattr(error, "getCondition", None)
        if get_condition is not None and get_condition() == "PATH_NOT_FOUND":
            return False
        raise ValueError(
            f"`path` must be writable for Spark, got {path!r} "
            f"({type(error).__name__}). Use a path that all its machines can write to."
        ) from None
    return True


def draw_lazily(frame: Any, release: Release) -> Any:
    """Return a lazy frame of reports, which must be written once: each evaluation draws reports."""
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = convert_schema(release.empty_reports.schema)
    rows = frame.select(*map(_quote_for_spark, release.columns))
    # `prefer_timestamp_ntz` is the default only from Spark 4.2 on.
    types = from_arrow_schema(schema, prefer_timestamp_ntz=True)
    return rows.mapInArrow(partial(draw_partition, release), types)


def convert_schema(schema: Any) -> Any:
    """Replace Arrow types that Spark lacks: dictionaries and unsigned integers."""
    fields = []
    for field in schema:
        field_type = field.type
        if pyarrow.types.is_dictionary(field_type):
            field_type = field_type.value_type
        wider = _WIDER.get(str(field_type))
        if wider is not None:
            field_type = pyarrow.type_for_alias(wider)
        fields.append(pyarrow.field(field.name, field_type))
    return pyarrow.schema(fields)


def _quote_for_spark(column: str) -> str:
    """Quote a column name for Spark SQL."""
    return "`" + column.replace("`", "``") + "`"


# Tasks. Errors of Spark's workers contain rows of the data, so the message of a
# `RefusedBatch` is returned as a value of the column "refusal".


def draw_partition(release: Release, batches: Iterable[Any]) -> Iterator[Any]:
    """Privatize a partition of Arrow batches in a task of Spark, with random bits that depend on its number."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    tables = read_batches(batches)
    for table in draw_batches(release, tables, context.partitionId()):
        yield from table.cast(convert_schema(table.schema), safe=False).to_batches()


def check_partition(release: Release, batches: Iterable[Any]) -> Iterator[Any]:
    """Check a partition; yield the digests of its ids of persons, or the message of an error."""
    try:
        for digests in check_batches(release, read_batches(batches)):
            yield _make_batch(id=digests.view(np.int64))
    except RefusedBatch as error:
        yield _make_batch(id=[None], refusal=str(error))


def sum_partition(
    summary: Summary, keys: Sequence[str], batches: Iterable[Any]
) -> Iterator[Any]:
    """Sum over a partition; yield one batch with the columns `keys`, "value" and "refusal", an error or null.

    With one key, the values are the nonzero sums, and the key is their index in the flattened sums. With two keys, the
    values are the counts of pairs of integers.
    """
    columns: Any = np.zeros((len(keys) + 1, 1), np.int64)
    refusal = None
    try:
        sums: Any = run_check(lambda: add_up_batches(read_batches(batches), summary))
        if len(keys) > 1:
            columns = sums[0].merge()
        else:
            flat = np.concatenate([part.ravel() for part in sums])
            indices = np.flatnonzero(flat)
            columns = indices, flat[indices]
    except RefusedBatch as error:
        refusal = str(error)
    yield _make_batch(refusal, **dict(zip((*keys, "value"), columns, strict=True)))


def _make_batch(refusal: str | None = None, **columns: object) -> Any:
    """Make an Arrow batch of integer columns and the column "refusal" with a message or null."""
    arrays = {
        name: pyarrow.array(numbers, pyarrow.int64())
        for name, numbers in columns.items()
    }
    n_rows = len(next(iter(arrays.values())))
    arrays["refusal"] = pyarrow.array([refusal] * n_rows, pyarrow.string())
    return pyarrow.record_batch(arrays)
