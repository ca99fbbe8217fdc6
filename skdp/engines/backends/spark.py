"""Spark: Arrow batches within each partition, written to Parquet before they are handed out."""

from __future__ import annotations

import contextlib
import os
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from secrets import token_hex
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skdp.engines._atomic import check_parquet_name, check_path, temporary_place
from skdp.engines._engine import Engine, ReportSums, add_up_batches, counted_groups
from skdp.engines._errors import (
    FailedTransformer,
    RefusedBatch,
    RefusedType,
    quietly,
    refusing,
)
from skdp.engines._libraries import import_extra
from skdp.engines._release import REPEATED, BatchCheck, Preparation, Release
from skdp.engines._streams import RowStream, arrow_tables
from skdp.local import ReportProtocol
from skdp.tables import Summary

pyarrow = import_extra("pyarrow", "spark")
sql = import_extra("pyspark.sql", "spark")
functions = import_extra("pyspark.sql.functions", "spark")
window = import_extra("pyspark.sql.window", "spark")

# Spark has no unsigned numbers. Those of 64 bits keep their bits: what reads reports
# takes them as unsigned again.
_WIDER = {"uint8": "int16", "uint16": "int32", "uint32": "int64", "uint64": "int64"}

# Marks our own errors in Spark's text. It is of this process, and goes to workers with
# the tasks: no data know it.
_TOKEN = f"skdp-{token_hex(16)}"

_MARKED = re.compile(_TOKEN + r"-(\w+)-([A-Za-z0-9+/]*=*);")

_OUR_ERRORS: dict[str, type[Exception]] = {
    error.__name__: error for error in (RefusedBatch, RefusedType, FailedTransformer)
}

_NEEDED = (
    "skdp",
    "joblib",
    "narwhals",
    "numpy",
    "pandas",
    "pyarrow",
    "sklearn",
    "scipy",
    "threadpoolctl",
)

# A text of data may look like this one, so only names of ours are shown.
_ABSENT = re.compile(
    rf"ModuleNotFoundError: No module named '((?:{'|'.join(_NEEDED)})(?:\.\w+)?)'"
)

# A single letter is a drive.
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


class SparkTable(Engine):
    """A Spark DataFrame, classic or of Spark Connect."""

    def _no_rows(self) -> Any:
        return _refusals_of(self._frame.limit(0).toArrow)

    def check_place(self, path: Any, *, check: bool) -> Any:
        return check_place(self._frame.sparkSession, path)

    def privatize(self, preparation: Preparation, *, place: Any, check: bool) -> Any:
        if check:
            quietly(lambda: self._check(preparation))
        release = preparation.charge()
        reports = release_lazily(self._frame, release, preparation.no_reports)
        _write(reports, place)
        session = self._frame.sparkSession
        return session.read.schema(reports.schema).parquet(place)

    def _check(self, preparation: Preparation) -> None:
        """Check the partitions where they are."""
        check = preparation.check
        work = partial(_check_partition, check, preparation.no_reports)
        ids = self._frame.select(*map(_name, check.columns)).mapInArrow(
            Marked(work), "first long, second long"
        )
        n_ids = functions.count("first")
        n_distinct = functions.countDistinct("first", "second")
        counts = _refusals_of(ids.agg(n_ids, n_distinct).toArrow)
        if counts.column(0)[0] != counts.column(1)[0]:
            raise RefusedBatch(REPEATED)

    def tally(
        self, reports: ReportSums, protocol: ReportProtocol
    ) -> list[NDArray[np.int64]]:
        groups = counted_groups(protocol)
        if not groups:
            return super().tally(reports, protocol)
        sums = reports.zeros()
        for columns in groups:
            keys = [
                bytewise(self._frame, name).alias(str(place))
                for place, name in enumerate(columns)
            ]
            *values, counts = _ask(self._frame.groupBy(*keys).count().toArrow).columns
            for place, name in enumerate(columns):
                if _is_text(self._frame.schema[name].dataType):
                    values[place] = values[place].cast(pyarrow.string())
            reports.add(
                sums, pyarrow.table(values, columns), counts.to_numpy().astype(np.int64)
            )
        return sums

    def add_up(self, names: Sequence[Any], summary: Summary) -> list[NDArray[np.int64]]:
        rows = self._frame.select(*map(_name, names))
        sums = rows.mapInArrow(
            Marked(partial(_add_up, summary)), "place long, value long"
        )
        table = _ask(sums.groupBy("place").sum("value").toArrow)
        zeros = summary.zeros()
        flat = np.zeros(sum(part.size for part in zeros), np.int64)
        flat[table.column(0).to_numpy()] = table.column(1).to_numpy()
        parts = np.split(flat, np.cumsum([part.size for part in zeros])[:-1])
        return [
            part.reshape(zero.shape) for part, zero in zip(parts, zeros, strict=True)
        ]

    def limit_persons(self, person: Any, most: int, seed: int) -> Self:
        names = list(map(_name, self._frame.columns))
        # The hash leaves out what is missing.
        missing = [functions.col(name).isNull() for name in names]
        order = functions.xxhash64(functions.lit(seed), *names, *missing)
        rank = functions.row_number().over(
            window.Window.partitionBy(bytewise(self._frame, person)).orderBy(order)
        )
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
    if _is_here(session) and not _SCHEME.match(place):
        check_path(path)
    elif _exists(session, place):
        raise FileExistsError(
            f"path {place!r} exists already; a release is never overwritten"
        )
    return place


def _is_here(session: Any) -> bool:
    """Whether Spark and its default file system are on this machine; of a remote one, that is not known."""
    try:
        context = session.sparkContext
    # Spark Connect has none.
    except Exception:
        return False
    return context.master.startswith("local") and str(
        session.conf.get("spark.hadoop.fs.defaultFS", "file:///")
    ).startswith("file:")


def _exists(session: Any, place: str) -> bool:
    """Ask Spark for what is at a place: it looks before it runs anything."""
    from pyspark.errors import AnalysisException

    try:
        _ = session.read.format("binaryFile").load(place).schema
    except AnalysisException as error:
        # Of Spark 4, and of Spark 3.
        read_kind = getattr(error, "getCondition", None) or error.getErrorClass
        if read_kind() == "PATH_NOT_FOUND":
            return False
        failed = type(error).__name__
    except Exception as error:
        failed = type(error).__name__
    else:
        return True
    raise ValueError(
        f"Spark cannot write to path {place!r} ({failed}); is it one that its "
        "machines can reach?"
    )


def _ask(work: Callable[[], Any]) -> Any:
    """Have Spark read rows: of its errors, show our own refusals and missing modules, and of the others the type."""
    return quietly(lambda: _refusals_of(work))


def _refusals_of(work: Callable[[], Any]) -> Any:
    """Call what Spark runs; what our own code said on a worker, or a module that it lacked, is in Spark's text."""
    from pyspark.errors import PySparkException

    try:
        return work()
    except PySparkException as error:
        ours = _our_error(str(error))
        if ours is None:
            raise
    # Outside of the handler, as Spark's error, which would be its context, may hold
    # values.
    raise ours


def _our_error(text: str) -> Exception | None:
    """Read the error that our own code raised on a worker, or a module that it lacked."""
    marked = _MARKED.search(text)
    if marked is not None:
        kind, message = marked.groups()
        return _OUR_ERRORS[kind](b64decode(message).decode())
    absent = _ABSENT.search(text)
    if absent is not None:
        return ImportError(absent[0], name=absent[1])
    return None


def _write(lazy: Any, place: str) -> None:
    """Write reports: all of them, or nothing."""
    try:
        # Spark commits the files of one attempt of each task, and none before all tasks
        # are done.
        _ask(lambda: lazy.write.mode("error").parquet(place))
    except BaseException:
        with contextlib.suppress(OSError):
            # Left empty, it would be in the way of the next attempt.
            os.rmdir(place.removeprefix("file://"))
        raise


def release_lazily(frame: Any, release: Release, no_reports: Any) -> Any:
    """Privatise a frame each time that it is evaluated: by its own tasks, so it must be written at once."""
    columns = map(_name, release.check.columns)
    work = Marked(partial(_draw_partition, release, no_reports))
    return frame.select(*columns).mapInArrow(work, _spark_schema(no_reports.schema))


def _name(column: str) -> str:
    return "`" + column.replace("`", "``") + "`"


def bytewise(frame: Any, column: str) -> Any:
    """Write a column so that its text is compared byte by byte: Spark 4 has collations."""
    values = functions.col(_name(column))
    return values.cast("binary") if _is_text(frame.schema[column].dataType) else values


def _is_text(kind: Any) -> bool:
    return kind.typeName().startswith(("string", "char", "varchar"))


def _arrow_schema(schema: Any) -> Any:
    """Give Spark types that it knows."""
    fields = []
    for field in schema:
        kind = (
            field.type.value_type
            if pyarrow.types.is_dictionary(field.type)
            else field.type
        )
        wider = _WIDER.get(str(kind))
        fields.append(
            pyarrow.field(
                field.name, kind if wider is None else pyarrow.type_for_alias(wider)
            )
        )
    return pyarrow.schema(fields)


def _spark_schema(schema: Any) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    # Not the default before 4.2.
    return from_arrow_schema(_arrow_schema(schema), prefer_timestamp_ntz=True)


class Marked:
    """Run on a worker, and mark our errors, which Spark hands over as text."""

    def __init__(self, work: Callable[[Iterable[Any]], Iterator[Any]]) -> None:
        self._work, self._token = work, _TOKEN

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        try:
            yield from self._work(batches)
        except (RefusedBatch, FailedTransformer) as error:
            text = b64encode(str(error).encode()).decode()
            marked = f"{self._token}-{type(error).__name__}-{text};"
        else:
            return
        raise RuntimeError(marked)


def _draw_partition(
    release: Release, no_reports: Any, batches: Iterable[Any]
) -> Iterator[Any]:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    stream = _stream(release.check, no_reports, batches)
    for table in stream.release(release, context.partitionId()):
        yield from table.cast(_arrow_schema(table.schema), safe=False).to_batches()


def _check_partition(
    check: BatchCheck, no_reports: Any, batches: Iterable[Any]
) -> Iterator[Any]:
    """Check a partition, and give the digests of its ids: Spark compares them with those of the others."""
    stream = _stream(check, no_reports, batches)
    for record_digests in stream.checked_batches():
        ids = record_digests.view(np.int64)
        yield pyarrow.record_batch({"first": ids[:, 0], "second": ids[:, 1]})


def _stream(check: BatchCheck, no_reports: Any, batches: Iterable[Any]) -> RowStream:
    """Return the rows of a partition, which a task reads once."""
    return RowStream(check, no_reports, lambda columns, n_rows: arrow_tables(batches))


def _add_up(summary: Summary, batches: Iterable[Any]) -> Iterator[Any]:
    """Sum over one partition; what is not 0, and its place."""
    sums = refusing(lambda: add_up_batches(arrow_tables(batches), summary))
    flat = np.concatenate([part.ravel() for part in sums])
    places = np.flatnonzero(flat)
    yield pyarrow.record_batch({"place": places, "value": flat[places]})
