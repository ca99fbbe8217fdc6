"""Dask: one task for each partition, on any scheduler."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from skdp.engines._engine import Engine, Sums, add_up_batches
from skdp.engines._io import (
    import_extra,
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

_NO_IDS = pd.Series([], dtype=np.uint64)


class DaskTable(Engine):
    """A Dask DataFrame."""

    def _make_empty_table(self) -> pd.DataFrame:
        return self._frame._meta

    def check_path(self, path: Any) -> Any:
        scheduler = dask.base.get_scheduler(collections=[self._frame])
        # The scheduler of a cluster is a method of its client.
        client = getattr(scheduler, "__self__", None)
        is_local = client is None or "127.0.0.1" in client.scheduler.address
        if path is None and not is_local:
            raise ValueError(
                "path is required on a cluster, which has no common temporary "
                "directory. Use a path that all machines can reach"
            )
        return super().check_path(path)

    def check_rows(self, release: Release) -> None:
        frame = self._frame[release.columns]
        checked = frame.map_partitions(_check_partition, release, meta=_NO_IDS)
        run_safely(lambda: refuse_repeated([checked.compute().to_numpy()]))

    def write(self, release: Release, path: Any) -> Any:
        # Reports are written by the tasks and not kept in memory, because a cluster
        # recomputes the partitions of a lost worker, possibly from rows in another
        # order, which would be a second report of the same records. The position of a
        # partition is stable, and its task uses it.
        reports = self._frame[release.columns].map_partitions(
            _draw_partition,
            release,
            meta=release.no_reports,
            enforce_metadata=False,
        )
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
        # Adding in a chain frees the sums of a partition as soon as they are added.
        total, *others = [
            count(shared, partition)
            for partition in self._frame[list(names)].to_delayed()
        ]
        for part in others:
            total = add(total, part)
        return run_safely(total.compute)


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


def _check_partition(partition: pd.DataFrame, release: Release) -> pd.Series:
    return pd.Series(release.check(partition))


def _draw_partition(
    partition: pd.DataFrame, release: Release, partition_info: Any = None
) -> Any:
    return release.draw(partition, (partition_info["number"], 0))


def _add_up_partition(summary: Summary, partition: Any) -> Sums:
    return run_check(lambda: add_up_batches(split_frame(partition), summary))


def _add_sums(first: Sums, second: Sums) -> Sums:
    return [one + other for one, other in zip(first, second, strict=True)]
