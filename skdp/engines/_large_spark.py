"""Sums over the rows of a Spark DataFrame: within each partition first, then by Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from secrets import token_hex
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skdp.engines._batches import arrow_tables
from skdp.engines._engine import import_extra
from skdp.engines._errors import refusing
from skdp.engines._large import add_up_batches
from skdp.engines._spark import _ask, _name, bytewise
from skdp.frames import LargeTable, Summary

pyarrow = import_extra("pyarrow", "spark")
functions = import_extra("pyspark.sql.functions", "spark")
window = import_extra("pyspark.sql.window", "spark")


class SparkTable(LargeTable):
    """A Spark DataFrame."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self.sample = frame.limit(0).toArrow()

    def add_up(self, names: Sequence[Any], summary: Summary) -> list[NDArray[np.int64]]:
        partial = self._frame.select(*map(_name, names)).mapInArrow(_adder(summary), "place long, value long")
        table = _ask(partial.groupBy("place").sum("value").toArrow)
        zeros = summary.zeros()
        flat = np.zeros(sum(part.size for part in zeros), np.int64)
        flat[table.column(0).to_numpy()] = table.column(1).to_numpy()
        return np.split(flat, np.cumsum([part.size for part in zeros])[:-1])

    def limit_persons(self, person: Any, most: int, seed: int) -> Self:
        names = list(map(_name, self._frame.columns))
        missing = [functions.col(name).isNull() for name in names]  # the hash leaves out what is missing
        order = functions.xxhash64(functions.lit(seed), *names, *missing)
        rank = functions.row_number().over(window.Window.partitionBy(bytewise(self._frame, person)).orderBy(order))
        column = f"skdp_{token_hex(8)}"
        ranked = self._frame.withColumn(column, rank)
        return type(self)(ranked.where(functions.col(column) <= most).drop(column))


def open_table(frame: Any) -> SparkTable:
    """Open a Spark DataFrame."""
    return SparkTable(frame)


def _adder(summary: Summary) -> Callable[[Iterable[Any]], Iterator[Any]]:
    def add_up_partition(batches: Iterable[Any]) -> Iterator[Any]:
        sums = refusing(lambda: add_up_batches(arrow_tables(batches), summary))
        flat = np.concatenate([part.ravel() for part in sums])
        places = np.flatnonzero(flat)
        yield pyarrow.record_batch({"place": places, "value": flat[places]})

    return add_up_partition
