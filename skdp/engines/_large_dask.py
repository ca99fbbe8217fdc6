"""Sums over the rows of a Dask DataFrame: each partition by itself, then as a tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.engines._dask import sample_of
from skdp.engines._engine import import_extra
from skdp.engines._errors import quietly, refusing
from skdp.engines._large import add_up_batches
from skdp.frames import LargeTable, Summary

dask = import_extra("dask", "dask")

_BRANCHES = 8  # of the tree that adds up sums
_ROWS = 1 << 17


class DaskTable(LargeTable):
    """A Dask DataFrame."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self.sample = sample_of(frame)

    def add_up(self, names: Sequence[Any], summary: Summary) -> list[NDArray[np.int64]]:
        shared = dask.delayed(summary, pure=False, traverse=False)
        count, add = dask.delayed(_add_up_partition, pure=False), dask.delayed(_add, pure=False)
        sums = [count(shared, partition) for partition in self._frame[list(names)].to_delayed()]
        while len(sums) > 1:
            sums = [add(sums[start : start + _BRANCHES]) for start in range(0, len(sums), _BRANCHES)]
        return quietly(sums[0].compute)

    def limit_persons(self, person: Any, most: int, seed: int) -> Self:
        meta = self._frame._meta
        if meta[person].dtype == object:
            raise ValueError(f"column {person!r} has objects; give persons a dtype, such as string or int64")
        # One dtype in all partitions: 1 and 1.0 are one person, and go to one partition.
        same = self._frame.assign(**{person: self._frame[person].astype(meta[person].dtype)})
        together = same.shuffle(on=person)
        return type(self)(together.map_partitions(_limit_persons, person, most, seed, meta=meta))


def open_table(frame: Any) -> DaskTable:
    """Open a Dask DataFrame."""
    return DaskTable(frame)


def _add_up_partition(summary: Summary, partition: Any) -> list[NDArray[np.int64]]:
    blocks = range(0, len(partition), _ROWS)
    return refusing(lambda: add_up_batches((partition.iloc[start : start + _ROWS] for start in blocks), summary))


def _limit_persons(partition: pd.DataFrame, person: Any, most: int, seed: int) -> pd.DataFrame:
    """Keep the rows of the least hashes of each person; all rows of a person are in this partition."""
    hashes = pd.util.hash_pandas_object(partition, index=False).to_numpy()
    hashes = pd.util.hash_array(hashes ^ np.uint64(seed))  # of numbers too, the seed decides
    order = np.argsort(hashes, kind="stable")
    return partition.iloc[order].groupby(person, sort=False, observed=True).head(most)


def _add(parts: list[list[NDArray[np.int64]]]) -> list[NDArray[np.int64]]:
    return [np.sum(sums, axis=0) for sums in zip(*parts, strict=True)]
