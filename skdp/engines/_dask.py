"""Dask: one task for each partition, on any scheduler."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import pandas as pd

from skdp.engines._engine import Engine, Sums, add_up_batches
from skdp.engines._io import (
    import_extra,
    make_temporary_path,
    run_check,
    run_safely,
    write_atomically,
)
from skdp.engines._local import split_frame
from skdp.engines._release import Release, refuse_repeated
from skdp.tables import ATTRS_KEY, PROTOCOL_KEY, Summary

dask = import_extra("dask", "dask")
dataframe = import_extra("dask.dataframe", "dask")
pyarrow = import_extra("pyarrow", "dask")

# Branches of the tree that adds up the sums of partitions.
N_BRANCHES = 8

_NO_IDS = pd.DataFrame({"first": [], "second": []}, dtype=np.uint64)


class DaskTable(Engine):
    """A Dask DataFrame."""

    def _make_empty_table(self) -> pd.DataFrame:
        # Unknown categories are empty, where Dask puts a marker.
        sample = self._frame._meta
        for name in sample.columns[sample.dtypes == "category"]:
            if not self._frame[name].cat.known:
                empty = pd.Categorical([], ordered=sample[name].cat.ordered)
                sample = sample.assign(**{name: empty})
        return sample

    def check_path(self, path: Any) -> Any:
        target = super().check_path(path)
        client = _client_of(self._frame)
        if target is not None or client is None:
            return target
        # Not in memory: a cluster computes again the partitions of a lost worker,
        # perhaps from rows in another order, which would be a second report of the same
        # records.
        if not _is_local(client.scheduler.address):
            raise ValueError(
                "a cluster has no common temporary directory: give a path that all "
                "its machines can reach"
            )
        return make_temporary_path()

    def check_rows(self, release: Release) -> None:
        frame = self._frame[release.columns]
        checked = frame.map_partitions(_check_partition, release, meta=_NO_IDS)
        run_safely(lambda: refuse_repeated([checked.compute().to_numpy()]))

    def write(self, release: Release, path: Any) -> Any:
        # A task has the key of its partition, whose number persists.
        reports = self._frame[release.columns].map_partitions(
            _draw_partition,
            release,
            meta=release.no_reports,
            enforce_metadata=False,
        )
        if path is None:
            return run_safely(reports.persist)
        metadata = None
        text = release.protocol_text
        if text is not None:
            metadata = {PROTOCOL_KEY: text, ATTRS_KEY: json.dumps({PROTOCOL_KEY: text})}
        with write_atomically(path) as partial:
            writing = reports.to_parquet(
                partial,
                write_index=False,
                compute=False,
                custom_metadata=metadata,
                schema=_report_schema(release),
            )
            run_safely(writing.compute)
        return dataframe.read_parquet(path)

    def add_up(self, names: Sequence[Any], summary: Summary) -> Sums:
        shared = dask.delayed(summary, pure=False, traverse=False)
        count = dask.delayed(_add_up_partition, pure=False)
        add = dask.delayed(_add_sums, pure=False)
        partitions = self._frame[list(names)].to_delayed()
        sums = [count(shared, partition) for partition in partitions]
        while len(sums) > 1:
            starts = range(0, len(sums), N_BRANCHES)
            sums = [add(sums[start : start + N_BRANCHES]) for start in starts]
        return run_safely(sums[0].compute)

    def limit_persons(self, person: Any, most: int, seed: int) -> Self:
        meta = self._frame._meta
        dtype = meta[person].dtype
        if pd.api.types.is_object_dtype(dtype):
            raise ValueError(
                f"column {person!r} has objects; give persons a dtype, such as string "
                "or int64"
            )
        # One dtype in all partitions: 1 and 1.0 are one person, and go to one
        # partition.
        frame = self._frame.assign(**{person: self._frame[person].astype(dtype)})
        kept = frame.shuffle(on=person).map_partitions(
            _limit_partition, person, most, seed, meta=meta
        )
        return type(self)(kept)


def _client_of(frame: Any) -> Any:
    """Return the client of a cluster that computes a frame, None for the schedulers of this process."""
    scheduler = getattr(dask.base.get_scheduler(collections=[frame]), "__self__", None)
    module = type(scheduler).__module__
    return scheduler if module.partition(".")[0] == "distributed" else None


def _is_local(address: str) -> bool:
    return address.startswith("inproc:") or "://127.0.0.1:" in address


def _report_schema(release: Release) -> Any:
    """Return the Arrow types of reports. Dask would infer the type of objects from other objects."""
    no_reports, domain = release.no_reports, release.domain
    schema = pyarrow.Schema.from_pandas(no_reports, preserve_index=False)
    for index, field in enumerate(schema):
        is_object = no_reports.dtypes.iloc[index] == np.dtype(object)
        if is_object and domain is not None and field.name in domain.columns:
            declared = pyarrow.array(list(domain[field.name].values)).type
            schema = schema.set(index, field.with_type(declared))
    return schema


# Tasks


def _check_partition(partition: pd.DataFrame, release: Release) -> pd.DataFrame:
    return pd.DataFrame(release.check(partition), columns=_NO_IDS.columns)


def _draw_partition(
    partition: pd.DataFrame, release: Release, partition_info: Any = None
) -> Any:
    return release.draw(partition, (partition_info["number"], 0))


def _add_up_partition(summary: Summary, partition: Any) -> Sums:
    return run_check(lambda: add_up_batches(split_frame(partition), summary))


def _add_sums(parts: list[Sums]) -> Sums:
    return [np.sum(sums, axis=0) for sums in zip(*parts, strict=True)]


def _limit_partition(
    partition: pd.DataFrame, person: Any, most: int, seed: int
) -> pd.DataFrame:
    """Keep the rows with the smallest hashes of each person; all rows of a person are in this partition."""
    hashes = pd.util.hash_pandas_object(partition, index=False).to_numpy()
    # The seed decides for equal rows of numbers, too.
    hashes = pd.util.hash_array(hashes ^ np.uint64(seed))
    order = np.argsort(hashes, kind="stable")
    return partition.iloc[order].groupby(person, sort=False, observed=True).head(most)
