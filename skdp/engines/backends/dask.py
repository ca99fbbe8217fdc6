"""Dask: one task a partition, on any scheduler."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.engines._atomic import temporary_place, written_beside
from skdp.engines._engine import Engine, add_up_batches, row_blocks
from skdp.engines._errors import quietly, refusing
from skdp.engines._libraries import import_extra
from skdp.engines._release import (
    BatchCheck,
    Place,
    Preparation,
    Release,
    refuse_repeated,
)
from skdp.tables import ATTRS_KEY, PROTOCOL_KEY, Summary

dask = import_extra("dask", "dask")
dataframe = import_extra("dask.dataframe", "dask")


class DaskTable(Engine):
    """A Dask DataFrame."""

    def _no_rows(self) -> pd.DataFrame:
        # Of categories that are not known, none either, where Dask puts a marker.
        sample = self._frame._meta
        for name in sample.columns[sample.dtypes == "category"]:
            if not self._frame[name].cat.known:
                sample = sample.assign(
                    **{name: pd.Categorical([], ordered=sample[name].cat.ordered)}
                )
        return sample

    def check_place(self, path: Any, *, check: bool) -> Any:
        place = super().check_place(path, check=check)
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
        if check:
            quietly(lambda: self._check(preparation.check))
        release = preparation.charge()
        frame = self._frame[release.check.columns]
        reports, record_digests = _draw(frame, release, preparation.no_reports)
        if place is None:
            stored, record_digests = quietly(
                lambda: dask.persist(reports, record_digests)
            )
            quietly(lambda: refuse_repeated([record_digests.compute().to_numpy()]))
            return stored
        metadata = None
        text = release.protocol_text
        if text is not None:
            metadata = {PROTOCOL_KEY: text, ATTRS_KEY: json.dumps({PROTOCOL_KEY: text})}
        with written_beside(place) as beside:
            writing = reports.to_parquet(
                beside, write_index=False, compute=False, custom_metadata=metadata
            )
            drawn_ids, _ = quietly(lambda: dask.compute(record_digests, writing))
            quietly(lambda: refuse_repeated([drawn_ids.to_numpy()]))
        return dataframe.read_parquet(place)

    def _check(self, check: BatchCheck) -> None:
        """Check the partitions where they are."""
        partitions = self._frame[check.columns].to_delayed()
        shared = dask.delayed(check, pure=False, traverse=False)
        task = dask.delayed(_check_partition, pure=False)
        refuse_repeated(dask.compute(*[task(shared, part) for part in partitions]))

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


def _check_partition(check: BatchCheck, partition: pd.DataFrame) -> NDArray[np.uint64]:
    return check(partition)


def _draw(frame: Any, release: Release, no_reports: pd.DataFrame) -> tuple[Any, Any]:
    """Return the reports, and the digests of their ids, as lazy frames."""
    # Pure tasks would be named after a hash of what they hold, the key among it.
    shared = dask.delayed(release, pure=False, traverse=False)
    task = dask.delayed(_draw_partition, pure=False, nout=2)
    reports = []
    record_digests = []
    # Not `map_partitions`: its number of a partition, and so the random bits, are
    # others after `.partitions[...]`.
    for number, partition in enumerate(frame.to_delayed()):
        drawn = task(shared, partition, Place(number))
        reports.append(drawn[0])
        record_digests.append(drawn[1])
    no_ids = _frame_of(np.empty((0, 2), np.uint64))
    return (
        dataframe.from_delayed(
            reports, meta=no_reports, divisions=frame.divisions, verify_meta=False
        ),
        dataframe.from_delayed(record_digests, meta=no_ids, verify_meta=False),
    )


def _draw_partition(
    release: Release, partition: pd.DataFrame, place: Place
) -> tuple[Any, pd.DataFrame]:
    """Privatise a partition, and digest its ids: both of the same rows, however often these are computed."""
    drawn = release.draw(partition, place)
    return drawn.reports, _frame_of(drawn.record_digests)


def _frame_of(ids: NDArray[np.uint64]) -> pd.DataFrame:
    return pd.DataFrame(ids, columns=["first", "second"])


def _add_up_partition(summary: Summary, partition: Any) -> list[NDArray[np.int64]]:
    return refusing(lambda: add_up_batches(row_blocks(partition), summary))


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
