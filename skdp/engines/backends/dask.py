"""Dask: one task a partition, on any scheduler."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Self

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.engines._atomic import check_path, written_beside
from skdp.engines._batch_release import BatchCheck, Plan, Release
from skdp.engines._engine import ROWS, Engine, add_up_batches
from skdp.engines._errors import quietly, refusing
from skdp.engines._extras import import_extra
from skdp.engines._randomness import Place
from skdp.engines._record_ids import DistinctInAll, check_countable
from skdp.engines._registry import tell_of_lazy_reports
from skdp.tables import ATTRS_KEY, PROTOCOL_KEY, RELEASES_KEY, Releases, Summary

dask = import_extra("dask", "dask")
dataframe = import_extra("dask.dataframe", "dask")

_BRANCHES = 8  # of the tree that adds up sums


class DaskTable(Engine):
    """A Dask DataFrame."""

    kinds = (dataframe.DataFrame,)

    def _no_rows(self) -> pd.DataFrame:
        # Of categories that are not known, none either, where Dask puts a marker.
        sample = self._frame._meta
        for name in sample.columns[sample.dtypes == "category"]:
            if not self._frame[name].cat.known:
                sample = sample.assign(
                    **{name: pd.Categorical([], ordered=sample[name].cat.ordered)}
                )
        return sample

    def privatize(self, plan: Plan, *, persist: bool, path: Any, check: bool) -> Any:
        frame, place = self._frame, check_path(path)
        # What may be computed again, by the user or since a worker died, is compared with what was checked.
        repeats = not persist or (place is None and _has_workers(frame))
        if repeats and not check:
            raise ValueError(
                "reports that Dask may compute again need check=True, or a path to be written to"
            )

        def look(check: BatchCheck, _: Any) -> list[bytes | None]:
            return _check(frame[check.columns], check, digests=repeats)

        release, trial, digests = plan(self.sample, look=look if check else None)
        lazy, ids = _release(frame[release.check.columns], release, trial, digests)
        if not persist:
            tell_of_lazy_reports()
            return lazy
        if place is None:
            stored, ids = quietly(lambda: _wait(dask.persist(lazy, ids)))
            quietly(lambda: _refuse_repeated(ids.compute()))
            return stored
        said = None
        if release.said is not None:
            said = {
                PROTOCOL_KEY: release.said,
                ATTRS_KEY: json.dumps({PROTOCOL_KEY: release.said}),
            }
        with written_beside(place) as beside:
            written = lazy.to_parquet(
                beside, write_index=False, compute=False, custom_metadata=said
            )
            quietly(lambda: _refuse_repeated(dask.compute(ids, written)[0]))
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
        while len(sums) > 1:
            sums = [
                add(sums[start : start + _BRANCHES])
                for start in range(0, len(sums), _BRANCHES)
            ]
        return quietly(sums[0].compute)

    def limit_persons(self, person: Any, most: int, seed: int) -> Self:
        meta = self._frame._meta
        if meta[person].dtype == object:
            raise ValueError(
                f"column {person!r} has objects; give persons a dtype, such as string or int64"
            )
        # One dtype in all partitions: 1 and 1.0 are one person, and go to one partition.
        same = self._frame.assign(
            **{person: self._frame[person].astype(meta[person].dtype)}
        )
        together = same.shuffle(on=person)
        return type(self)(
            together.map_partitions(_limit_persons, person, most, seed, meta=meta)
        )

    def count_ids(self, record_id: str) -> tuple[int, int, int]:
        # By Dask: narwhals gives it up.
        ids, dtype = (
            self._frame[record_id],
            nw.from_native(self.sample, eager_only=True).schema[record_id],
        )
        check_countable(dtype)
        missing = (
            ids.isna() | ids.isin([math.inf, -math.inf])
            if dtype.is_float()
            else ids.isna()
        )
        found = quietly(lambda: dask.compute(missing.sum(), ids.nunique(), ids.size))
        return int(found[0]), int(found[1]), int(found[2])


def _refuse_repeated(ids: pd.DataFrame) -> None:
    """Refuse an id that is in two partitions."""
    seen = DistinctInAll()
    seen.add(ids.to_numpy())
    seen.close()


def _has_workers(frame: Any) -> bool:
    """Tell a cluster, which computes again what it lost, from the schedulers of this process."""
    scheduler = getattr(dask.base.get_scheduler(collections=[frame]), "__self__", None)
    return type(scheduler).__module__.partition(".")[0] == "distributed"


def _check(frame: Any, check: BatchCheck, *, digests: bool) -> list[bytes | None]:
    """Check the partitions where they are, and bring home a digest of each if they may be computed again."""
    shared = dask.delayed(check, pure=False, traverse=False)
    task = dask.delayed(_check_partition, pure=False)
    found = dask.compute(
        *(task(shared, partition, digests) for partition in frame.to_delayed())
    )
    _refuse_repeated(pd.concat([ids for _, ids in found]))
    return [digest for digest, _ in found]


def _check_partition(
    check: BatchCheck, partition: pd.DataFrame, digests: bool
) -> tuple[bytes | None, pd.DataFrame]:
    ids = _frame_of(check.digest_ids(partition))
    return check(partition, digests), ids


def _release(
    frame: Any,
    release: Release,
    trial: pd.DataFrame,
    digests: list[bytes | None] | None,
) -> tuple[Any, Any]:
    # Not `map_partitions`: its number of a partition, and so the random bits, are others after `.partitions[...]`.
    partitions = frame.to_delayed()
    places = [Place(partition=number) for number in range(len(partitions))]
    if release.seeded:
        lengths = quietly(frame.map_partitions(len).compute)
        places = [Place(first=int(first)) for first in accumulate(lengths, initial=0)][
            :-1
        ]
    # Pure tasks would be named after a hash of what they hold, the key among it.
    shared = dask.delayed(release, pure=False, traverse=False)
    task = dask.delayed(_release_partition, pure=False)
    expected = digests or [None] * len(partitions)
    both = [
        task(shared, *batch) for batch in zip(partitions, places, expected, strict=True)
    ]
    reports, ids = (
        dataframe.from_delayed(
            [part[place] for part in both],
            meta=meta,
            divisions=divisions,
            verify_meta=False,
        )
        for place, (meta, divisions) in enumerate(
            [(trial, frame.divisions), (_frame_of(np.empty((0, 2), np.uint64)), None)]
        )
    )
    return reports, ids


def _release_partition(
    release: Release, partition: pd.DataFrame, place: Place, expected: bytes | None
) -> tuple[Any, pd.DataFrame]:
    """Privatise a partition, and digest its ids: both of the same rows, however often these are computed."""
    reports, counts = release.draw(partition, place, expected)
    note = Releases.of(counts, f"{release.call}, {place}")
    if note is not None:
        reports.attrs[RELEASES_KEY] = (
            note  # pyarrow writes it into the file of the partition
        )
    return reports, _frame_of(release.check.digest_ids(partition))


def _frame_of(ids: NDArray[np.uint64]) -> pd.DataFrame:
    return pd.DataFrame(ids, columns=["first", "second"])


def _wait(persisted: Any) -> Any:
    """Wait for what a cluster computes in the background, and raise its errors."""
    distributed: Any = sys.modules.get("distributed")
    futures = distributed.futures_of(persisted) if distributed is not None else []
    if futures:
        distributed.wait(futures)
    for future in futures:
        if future.status == "error":
            future.result()
    return persisted


def _add_up_partition(summary: Summary, partition: Any) -> list[NDArray[np.int64]]:
    blocks = range(0, len(partition), ROWS)
    return refusing(
        lambda: add_up_batches(
            (partition.iloc[start : start + ROWS] for start in blocks), summary
        )
    )


def _add_sums(parts: list[list[NDArray[np.int64]]]) -> list[NDArray[np.int64]]:
    return [np.sum(sums, axis=0) for sums in zip(*parts, strict=True)]


def _limit_persons(
    partition: pd.DataFrame, person: Any, most: int, seed: int
) -> pd.DataFrame:
    """Keep the rows of the least hashes of each person; all rows of a person are in this partition."""
    hashes = pd.util.hash_pandas_object(partition, index=False).to_numpy()
    hashes = pd.util.hash_array(
        hashes ^ np.uint64(seed)
    )  # of numbers too, the seed decides
    order = np.argsort(hashes, kind="stable")
    return partition.iloc[order].groupby(person, sort=False, observed=True).head(most)
