"""Dask: one task a partition, on any scheduler."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.engines._atomic import temporary_place, write_atomically
from skdp.engines._engine import Engine, add_up_batches
from skdp.engines._errors import call_check, quietly
from skdp.engines._libraries import import_extra
from skdp.engines._release import BatchCheck, Preparation, Release, refuse_repeated
from skdp.engines.backends.memory import row_blocks
from skdp.tables import ATTRS_KEY, PROTOCOL_KEY, Summary

dask = import_extra("dask", "dask")
dataframe = import_extra("dask.dataframe", "dask")
pyarrow = import_extra("pyarrow", "dask")


class DaskTable(Engine):
    """A Dask DataFrame."""

    def _make_empty_table(self) -> pd.DataFrame:
        # Of categories that are not known, none either, where Dask puts a marker.
        sample = self._frame._meta
        for name in sample.columns[sample.dtypes == "category"]:
            if not self._frame[name].cat.known:
                sample = sample.assign(
                    **{name: pd.Categorical([], ordered=sample[name].cat.ordered)}
                )
        return sample

    def check_place(self, path: Any) -> Any:
        place = super().check_place(path)
        client = _client_of(self._frame)
        if place is not None or client is None:
            return place
        # Not in memory: a cluster computes again what a lost worker held, perhaps of
        # rows in another order, which would be a second report of the same records.
        if not _is_here(client.scheduler.address):
            raise ValueError(
                "a cluster has no common temporary directory: give a path that all "
                "its machines can reach"
            )
        return temporary_place()

    def privatize(self, preparation: Preparation, *, place: Any, check: bool) -> Any:
        frame = self._frame[preparation.check.columns]
        if check:
            checked = frame.map_partitions(
                _check_partition, preparation.check, meta=_NO_IDS
            )
            quietly(lambda: refuse_repeated([checked.compute().to_numpy()]))
        release = preparation.charge()
        # A task has the key of its partition, whose number persists.
        reports = frame.map_partitions(
            _draw_partition,
            release,
            meta=preparation.no_reports,
            enforce_metadata=False,
        )
        if place is None:
            return quietly(reports.persist)
        metadata = None
        text = release.protocol_text
        if text is not None:
            metadata = {PROTOCOL_KEY: text, ATTRS_KEY: json.dumps({PROTOCOL_KEY: text})}
        with write_atomically(place) as beside:
            writing = reports.to_parquet(
                beside,
                write_index=False,
                compute=False,
                custom_metadata=metadata,
                schema=_schema_of_reports(preparation),
            )
            quietly(writing.compute)
        return dataframe.read_parquet(place)

    def add_up(self, names: Sequence[Any], summary: Summary) -> list[NDArray[np.int64]]:
        shared = dask.delayed(summary, pure=False, traverse=False)
        count, add = (
            dask.delayed(_add_up_partition, pure=False),
            dask.delayed(_add_sums, pure=False),
        )
        sums = [
            count(shared, partition)
            for partition in self._frame[list(names)].to_delayed()
        ]
        # Of the tree that adds up sums.
        n_branches = 8
        while len(sums) > 1:
            sums = [
                add(sums[start : start + n_branches])
                for start in range(0, len(sums), n_branches)
            ]
        return quietly(sums[0].compute)

    def limit_persons(self, person: Any, most: int, seed: int) -> Self:
        meta = self._frame._meta
        if meta[person].dtype == object:
            raise ValueError(
                f"column {person!r} has objects; give persons a dtype, such as string "
                "or int64"
            )
        # One dtype in all partitions: 1 and 1.0 are one person, and go to one
        # partition.
        one_dtype = self._frame.assign(
            **{person: self._frame[person].astype(meta[person].dtype)}
        )
        together = one_dtype.shuffle(on=person)
        return type(self)(
            together.map_partitions(_limit_persons, person, most, seed, meta=meta)
        )


def _client_of(frame: Any) -> Any:
    """Return the client of a cluster that computes a frame, None for the schedulers of this process."""
    scheduler = getattr(dask.base.get_scheduler(collections=[frame]), "__self__", None)
    module = type(scheduler).__module__
    return scheduler if module.partition(".")[0] == "distributed" else None


def _is_here(address: str) -> bool:
    return address.startswith("inproc:") or "://127.0.0.1:" in address


_NO_IDS = pd.DataFrame({"first": [], "second": []}, dtype=np.uint64)


def _schema_of_reports(preparation: Preparation) -> Any:
    """Return the Arrow types of reports. Dask would take the type of objects from other objects."""
    schema = pyarrow.Schema.from_pandas(preparation.no_reports, preserve_index=False)
    values = preparation.check.values
    for place, field in enumerate(schema):
        is_object = preparation.no_reports.dtypes.iloc[place] == np.dtype(object)
        if is_object and values is not None and field.name in values.columns:
            declared = pyarrow.array(list(values[field.name].values)).type
            schema = schema.set(place, field.with_type(declared))
    return schema


def _check_partition(partition: pd.DataFrame, check: BatchCheck) -> pd.DataFrame:
    return pd.DataFrame(check(partition), columns=_NO_IDS.columns)


def _draw_partition(
    partition: pd.DataFrame, release: Release, partition_info: Any = None
) -> Any:
    return release.draw(partition, (partition_info["number"], 0))


def _add_up_partition(summary: Summary, partition: Any) -> list[NDArray[np.int64]]:
    return call_check(lambda: add_up_batches(row_blocks(partition), summary))


def _add_sums(parts: list[list[NDArray[np.int64]]]) -> list[NDArray[np.int64]]:
    return [np.sum(sums, axis=0) for sums in zip(*parts, strict=True)]


def _limit_persons(
    partition: pd.DataFrame, person: Any, most: int, seed: int
) -> pd.DataFrame:
    """Keep the rows of the least hashes of each person; all rows of a person are in this partition."""
    hashes = pd.util.hash_pandas_object(partition, index=False).to_numpy()
    # Of numbers too, the seed decides.
    hashes = pd.util.hash_array(hashes ^ np.uint64(seed))
    order = np.argsort(hashes, kind="stable")
    return partition.iloc[order].groupby(person, sort=False, observed=True).head(most)
