"""Spark: Arrow batches within each partition, written to Parquet before they are handed out."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from skdp.engines._batches import release_batches
from skdp.engines._counts import Counter, group_columns
from skdp.engines._engine import import_extra
from skdp.engines._files import check_path, temporary_place
from skdp.engines._release import Plan, Release

pyarrow = import_extra("pyarrow", "spark")
sql = import_extra("pyspark.sql", "spark")
functions = import_extra("pyspark.sql.functions", "spark")

_WIDER = {"uint8": "int16", "uint16": "int32", "uint32": "int64", "uint64": "int64"}
"""Spark has no unsigned numbers. Those of 64 bits keep their bits: what reads reports takes them as unsigned again."""

_REFUSAL = re.compile(r"(?:Value|Type)Error: ((?:column|record_id|the reports|the cohorts|the seeds|the functions) .*)")
"""Our own errors, in Spark's words; they show no value."""


def accepts(frame: Any) -> bool:
    """Say whether it is a Spark DataFrame, classic or of Spark Connect.

    Parameters
    ----------
    frame : object
        Of pyspark.

    Returns
    -------
    bool
        True if it is.
    """
    return isinstance(frame, sql.DataFrame)


def privatize(frame: Any, plan: Plan, *, persist: bool, path: Any) -> Any:
    """Privatise a Spark DataFrame.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        True rows.
    plan : Plan
        Checks, charges, and says what privatises.
    persist : bool
        Must be True.
    path : str, path-like or None
        A new directory, anywhere that Spark writes to. None writes to a temporary directory that lives as long as
        Python does, if Spark runs on this machine only.

    Returns
    -------
    pyspark.sql.DataFrame
        The reports.

    Raises
    ------
    FileExistsError
        If `path` exists on this machine.
    ValueError
        If it shall not be persisted, a cluster is to write to a temporary directory, or an undeclared value is found.
    """
    if not persist:
        # Tasks of `coalesce` and `union` number batches anew: reports would share coins, or be drawn twice.
        raise ValueError("Spark numbers no rows that a lazy frame could rely on: persist=True")
    session = frame.sparkSession
    if path is None and not session.conf.get("spark.master", "").startswith("local"):
        raise ValueError("a cluster has no common temporary directory: give a path that all its machines can reach")
    if path is not None and "://" not in os.fspath(path):
        check_path(path)
    release, trial = plan(frame.limit(0).toArrow())
    lazy = release_lazily(frame, release, trial)
    place = os.fspath(temporary_place() if path is None else path)
    _write(lazy, place)
    return session.read.schema(lazy.schema).parquet(place)


def _write(lazy: Any, place: str) -> None:
    """Write reports: all of them, or nothing."""
    from pyspark.errors import PySparkException

    try:
        # Spark commits the files of one attempt of each task, and none before all tasks are done.
        lazy.write.mode("errorifexists").parquet(place)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.rmdir(place)  # left empty, it would be in the way of the next attempt
        refusal = _REFUSAL.search(str(error)) if isinstance(error, PySparkException) else None
        if refusal is None:
            raise
        raise ValueError(refusal[1]) from None


def release_lazily(frame: Any, release: Release, trial: Any) -> Any:
    """Privatise a frame each time that it is evaluated: by its own tasks, so it must be written at once.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        True rows.
    release : Release
        What privatises.
    trial : pyarrow.Table
        What it makes of no rows.

    Returns
    -------
    pyspark.sql.DataFrame
        The reports.
    """
    columns = map(_name, release.columns)
    return frame.select(*columns).mapInArrow(_Privatizer(release, trial.num_columns), _spark_schema(trial.schema))


def _name(column: str) -> str:
    return "`" + column.replace("`", "``") + "`"


def bytewise(frame: Any, column: str) -> Any:
    """Write a column so that its text is compared byte by byte: Spark 4 has collations.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        The table.
    column : str
        The name of the column.

    Returns
    -------
    pyspark.sql.Column
        Text as its bytes; all else as it is.
    """
    found = functions.col(_name(column))
    return found.cast("binary") if _is_text(frame.schema[column].dataType) else found


def _is_text(kind: Any) -> bool:
    return kind.typeName().startswith(("string", "char", "varchar"))


def _arrow_schema(schema: Any) -> Any:
    """Give Spark types that it knows."""
    fields = []
    for field in schema:
        kind = field.type.value_type if pyarrow.types.is_dictionary(field.type) else field.type
        wider = _WIDER.get(str(kind))
        fields.append(pyarrow.field(field.name, kind if wider is None else pyarrow.type_for_alias(wider)))
    return pyarrow.schema(fields)


def _spark_schema(schema: Any) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(_arrow_schema(schema), prefer_timestamp_ntz=True)  # not the default before 4.2


class _Privatizer:
    """Privatise the batches of one partition."""

    def __init__(self, release: Release, width: int) -> None:
        self._release = release
        self._width = width

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        for table in release_batches(batches, self._release, self._width, context.partitionId()):
            yield from table.cast(_arrow_schema(table.schema), safe=False).to_batches()


def column_names(frame: Any) -> list[Any]:
    """Name the columns, without reading a row.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        The table.

    Returns
    -------
    list of str
        The names.
    """
    return list(frame.columns)


def tally(frame: Any, transformer: Any) -> Any:
    """Sum up the reports of a Spark DataFrame: by Spark, within partitions first.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        Reports.
    transformer : local transformer
        Fitted.

    Returns
    -------
    same kind as what the transformer's `tally` returns
        The sums.
    """
    from pyspark.errors import PySparkException

    counter = Counter(transformer)
    groups = group_columns(transformer)
    for columns in groups:
        keys = [bytewise(frame, name).alias(str(place)) for place, name in enumerate(columns)]
        table = frame.groupBy(*keys).count().toArrow()
        counts = table.column(len(columns)).to_numpy().astype(np.int64)
        kinds = [frame.schema[name].dataType for name in columns]
        values = [
            found.cast(pyarrow.string()) if _is_text(kind) else found
            for kind, found in zip(kinds, table.columns[:-1], strict=True)
        ]
        counter.add_groups(pyarrow.table(values, columns), counts)
    if not groups:
        sums = frame.select(*map(_name, counter.names)).mapInArrow(_tallier(transformer), "place long, value long")
        try:
            table = sums.groupBy("place").sum("value").toArrow()
        except PySparkException as error:
            refusal = _REFUSAL.search(str(error))
            if refusal is None:
                raise
            raise ValueError(refusal[1]) from None
        counter.add_sums(table.column(0).to_numpy(), table.column(1).to_numpy())
    return counter.total()


def _tallier(transformer: Any) -> Callable[[Iterable[Any]], Iterator[Any]]:
    def tally_partition(batches: Iterable[Any]) -> Iterator[Any]:
        counter = Counter(transformer)
        for batch in batches:
            counter.add(pyarrow.Table.from_batches([batch]))
        places, values = counter.sums()
        yield pyarrow.record_batch({"place": places, "value": values})

    return tally_partition
