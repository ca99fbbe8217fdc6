"""Spark: Arrow batches within each partition, written to Parquet before they are handed out."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from secrets import token_hex
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skdp.engines._atomic import check_parquet_name, temporary_place
from skdp.engines._engine import Engine, add_up_batches
from skdp.engines._errors import RefusedBatch, call_check, quietly
from skdp.engines._libraries import Extra
from skdp.engines._release import REPEATED, BatchCheck, Preparation, Release
from skdp.engines._streams import RowStream, arrow_tables
from skdp.tables import Summary

pyarrow = Extra("pyarrow", "spark")
functions = Extra("pyspark.sql.functions", "spark")
window = Extra("pyspark.sql.window", "spark")

# Spark has no unsigned integers. 64-bit ones keep their bits, and readers of reports
# convert them back.
_WIDER = {"uint8": "int16", "uint16": "int32", "uint32": "int64", "uint64": "int64"}

# A value of the data may have this form, so only these module names are shown.
_ABSENT = re.compile(
    "ModuleNotFoundError: No module named "
    "'(skdp|joblib|narwhals|numpy|pandas|pyarrow|sklearn|scipy|threadpoolctl)"
)


class SparkTable(Engine):
    """A Spark DataFrame, classic or of Spark Connect."""

    def _make_empty_table(self) -> Any:
        return _ask(self._frame.limit(0).toArrow)

    def check_place(self, path: Any) -> Any:
        return check_place(self._frame.sparkSession, path)

    def privatize(self, preparation: Preparation, *, place: Any, check: bool) -> Any:
        if check:
            self._check(preparation)
        release = preparation.charge()
        reports = release_lazily(self._frame, release, preparation.no_reports)
        try:
            # Spark commits the files of one attempt of each task, and none before all
            # tasks are done.
            _ask(lambda: reports.write.mode("error").parquet(place))
        except BaseException:
            with contextlib.suppress(OSError):
                # Left empty, it would be in the way of the next attempt.
                os.rmdir(place.removeprefix("file://"))
            raise
        session = self._frame.sparkSession
        return session.read.schema(reports.schema).parquet(place)

    def _check(self, preparation: Preparation) -> None:
        """Check the partitions where they are; Spark compares the ids of all of them."""
        work = partial(_check_partition, preparation.check, preparation.no_reports)
        columns = map(_name, preparation.check.columns)
        checked = self._frame.select(*columns).mapInArrow(
            work, "first long, second long, refusal string"
        )
        counted = checked.agg(
            functions.max("refusal"),
            functions.count("first"),
            functions.countDistinct("first", "second"),
        )
        refusal, n_ids, n_distinct = (
            column[0].as_py() for column in _ask(counted.toArrow).columns
        )
        if refusal is not None or n_ids != n_distinct:
            raise RefusedBatch(refusal or REPEATED)

    def add_up(self, names: Sequence[Any], summary: Summary) -> list[NDArray[np.int64]]:
        rows = self._frame.select(*map(_name, names))
        sums = rows.mapInArrow(
            partial(_add_up, summary), "place long, value long, refusal string"
        )
        total = sums.groupBy("place").agg(
            functions.sum("value"), functions.max("refusal")
        )
        places, values, refusals = _ask(total.toArrow).columns
        for refusal in filter(None, refusals.to_pylist()):
            raise RefusedBatch(refusal)
        zeros = summary.zeros()
        flat = np.zeros(sum(part.size for part in zeros), np.int64)
        flat[places.to_numpy()] = values.to_numpy()
        parts = np.split(flat, np.cumsum([part.size for part in zeros])[:-1])
        return [
            part.reshape(zero.shape) for part, zero in zip(parts, zeros, strict=True)
        ]

    def limit_persons(self, person: Any, most: int, seed: int) -> Self:
        names = list(map(_name, self._frame.columns))
        # The hash leaves out what is missing.
        missing = [functions.col(name).isNull() for name in names]
        order = functions.xxhash64(functions.lit(seed), *names, *missing)
        persons = window.Window.partitionBy(_bytewise(self._frame, person))
        rank = functions.row_number().over(persons.orderBy(order))
        column = f"skdp_{token_hex(8)}"
        ranked = self._frame.withColumn(column, rank)
        return type(self)(ranked.where(functions.col(column) <= most).drop(column))


def check_place(session: Any, path: Any) -> str:
    """Check where reports are to be written, before anything is charged."""
    if path is None:
        if not _is_here(session):
            raise ValueError(
                "a cluster has no common temporary directory: give a path that all "
                "its machines can reach"
            )
        return temporary_place().as_uri()
    if not isinstance(path, str | os.PathLike):
        raise TypeError(
            f"path must be None, a str or a path, got {type(path).__name__}"
        )
    check_parquet_name(path)
    place = os.fspath(path)
    if _exists(session, place):
        raise FileExistsError(
            f"path {place!r} exists already; a release is never overwritten"
        )
    return place


def _is_here(session: Any) -> bool:
    """Return True if Spark runs on this machine alone."""
    # Spark Connect has no context.
    context = getattr(session, "sparkContext", None)
    return context is not None and context.master.startswith("local")


def _exists(session: Any, place: str) -> bool:
    """Return True if a path exists for Spark, which checks it before it runs anything."""
    try:
        _ = session.read.format("binaryFile").load(place).schema
    except Exception as error:
        # Names of the method in Spark 4 and Spark 3.
        for method in ("getCondition", "getErrorClass"):
            read_condition = getattr(error, method, None)
            if read_condition is not None and read_condition() == "PATH_NOT_FOUND":
                return False
        raise ValueError(
            f"Spark cannot write to path {place!r} ({type(error).__name__}). Use a path "
            "that all its machines can write to."
        ) from None
    return True


def _ask(work: Callable[[], Any]) -> Any:
    """Have Spark read rows; its errors show no value, and a module that workers lack."""

    def run() -> Any:
        try:
            return work()
        except Exception as error:
            absent = _ABSENT.search(str(error))
            if absent is None:
                raise
            raise ImportError(
                f"{absent[1]} cannot be imported by the workers; install it there"
            ) from None

    return quietly(run)


def release_lazily(frame: Any, release: Release, no_reports: Any) -> Any:
    """Privatise a frame each time that it is evaluated: by its own tasks, so it must be written at once."""
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = _arrow_schema(no_reports.schema)
    work = partial(_draw_partition, release, no_reports)
    rows = frame.select(*map(_name, release.check.columns))
    # Not the default before 4.2.
    return rows.mapInArrow(work, from_arrow_schema(schema, prefer_timestamp_ntz=True))


def _name(column: str) -> str:
    return "`" + column.replace("`", "``") + "`"


def _bytewise(frame: Any, column: str) -> Any:
    """Write a column so that its text is compared byte by byte: Spark 4 has collations."""
    values = functions.col(_name(column))
    kind = frame.schema[column].dataType.typeName()
    is_text = kind.startswith(("string", "char", "varchar"))
    return values.cast("binary") if is_text else values


def _arrow_schema(schema: Any) -> Any:
    """Give Spark types that it has."""
    fields = []
    for field in schema:
        kind = field.type
        if pyarrow.types.is_dictionary(kind):
            kind = kind.value_type
        wider = _WIDER.get(str(kind))
        kind = kind if wider is None else pyarrow.type_for_alias(wider)
        fields.append(pyarrow.field(field.name, kind))
    return pyarrow.schema(fields)


def _stream(check: BatchCheck, no_reports: Any, batches: Iterable[Any]) -> RowStream:
    """Return the rows of a partition, which a task reads once."""
    return RowStream(check, no_reports, lambda columns: arrow_tables(batches))


def _draw_partition(
    release: Release, no_reports: Any, batches: Iterable[Any]
) -> Iterator[Any]:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    stream = _stream(release.check, no_reports, batches)
    for table in stream.release(release, context.partitionId()):
        yield from table.cast(_arrow_schema(table.schema), safe=False).to_batches()


# Spark's worker errors contain rows of the data. So the message of a `RefusedBatch` is
# returned as a value, in the column "refusal".


def _check_partition(
    check: BatchCheck, no_reports: Any, batches: Iterable[Any]
) -> Iterator[Any]:
    """Check a partition, and yield the digests of its ids."""
    try:
        for digests in _stream(check, no_reports, batches).checked_ids():
            ids = digests.view(np.int64)
            yield _batch(first=ids[:, 0], second=ids[:, 1])
    except RefusedBatch as error:
        yield _batch(first=[None], second=[None], refusal=str(error))


def _add_up(summary: Summary, batches: Iterable[Any]) -> Iterator[Any]:
    """Sum over one partition; yield the nonzero sums and their flat indices."""
    try:
        sums = call_check(lambda: add_up_batches(arrow_tables(batches), summary))
        flat = np.concatenate([part.ravel() for part in sums])
        places = np.flatnonzero(flat)
        yield _batch(place=places, value=flat[places])
    except RefusedBatch as error:
        yield _batch(place=[0], value=[0], refusal=str(error))


def _batch(refusal: str | None = None, **columns: Any) -> Any:
    """Make an Arrow batch of integer columns, and of the message of an error, if any."""
    arrays = {
        name: pyarrow.array(numbers, pyarrow.int64())
        for name, numbers in columns.items()
    }
    n_rows = len(next(iter(arrays.values())))
    arrays["refusal"] = pyarrow.array([refusal] * n_rows, pyarrow.string())
    return pyarrow.record_batch(arrays)
