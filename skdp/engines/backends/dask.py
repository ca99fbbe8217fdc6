"""Dask: one task a partition, on any scheduler."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.engines._atomic import check_path, written_beside
from skdp.engines._engine import Engine, add_up_batches
from skdp.engines._errors import quietly, refusing
from skdp.engines._libraries import import_extra, tell_of_lazy_reports
from skdp.engines._randomness import Place
from skdp.engines._release import (
    BatchCheck,
    CheckedBatch,
    DistinctRecords,
    Preparation,
    Release,
)
from skdp.engines._streams import ROWS
from skdp.tables import ATTRS_KEY, PROTOCOL_KEY, RELEASES_KEY, Releases, Summary

dask = import_extra("dask", "dask")
dataframe = import_extra("dask.dataframe", "dask")

# Of the tree that adds up sums.
_BRANCHES = 8


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

    def check_output(self, *, persist: bool, path: Any, check: bool) -> None:
        super().check_output(persist=persist, path=path, check=check)
        if self._is_computed_again(persist, path) and not check:
            raise ValueError(
                "reports that Dask may compute again need check=True, or a path to be "
                "written to"
            )

    def _is_computed_again(self, persist: bool, path: Any) -> bool:
        """Return whether the user, or a cluster that lost a worker, may compute the reports again."""
        return not persist or (path is None and _has_workers(self._frame))

    def privatize(
        self, preparation: Preparation, *, persist: bool, path: Any, check: bool
    ) -> Any:
        contents = quietly(
            lambda: self._check(
                preparation.check,
                rows=check,
                with_contents=self._is_computed_again(persist, path),
            )
        )
        release = preparation.charge()
        reports, ids = _draw(
            self._frame[release.check.columns],
            release,
            preparation.no_reports,
            contents,
        )
        if not persist:
            tell_of_lazy_reports()
            return reports
        place = check_path(path)
        if place is None:
            stored, ids = quietly(lambda: _wait(dask.persist(reports, ids)))
            quietly(lambda: _refuse_repeated(ids.compute()))
            return stored
        metadata = None
        text = release.protocol_text
        if text is not None:
            metadata = {PROTOCOL_KEY: text, ATTRS_KEY: json.dumps({PROTOCOL_KEY: text})}
        with written_beside(place) as beside:
            writing = reports.to_parquet(
                beside, write_index=False, compute=False, custom_metadata=metadata
            )
            quietly(lambda: _refuse_repeated(dask.compute(ids, writing)[0]))
        return dataframe.read_parquet(place)

    def _check(
        self, check: BatchCheck, *, rows: bool, with_contents: bool
    ) -> list[bytes | None] | None:
        """Check the partitions where they are; return what they hold, if they may be computed again."""
        if not rows and check.record_id is None:
            return None
        columns = check.columns if rows else check.id_columns
        partitions = self._frame[columns].to_delayed()
        shared = dask.delayed(check, pure=False, traverse=False)
        task = dask.delayed(_check_partition, pure=False)
        tasks = [task(shared, part, rows, with_contents) for part in partitions]
        distinct = DistinctRecords()
        contents = []
        for batch in dask.compute(*tasks):
            distinct.add(batch.id_digests)
            contents.append(batch.content)
        distinct.close()
        return contents

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


def _refuse_repeated(ids: pd.DataFrame) -> None:
    """Refuse an id that is in two partitions."""
    distinct = DistinctRecords()
    distinct.add(ids.to_numpy())
    distinct.close()


def _has_workers(frame: Any) -> bool:
    """Tell a cluster, which computes again what it lost, from the schedulers of this process."""
    scheduler = getattr(dask.base.get_scheduler(collections=[frame]), "__self__", None)
    return type(scheduler).__module__.partition(".")[0] == "distributed"


def _check_partition(
    check: BatchCheck, partition: pd.DataFrame, rows: bool, with_content: bool
) -> CheckedBatch:
    if not rows:
        return check.check_ids(partition)
    return check(partition, with_content=with_content)


def _draw(
    frame: Any,
    release: Release,
    no_reports: pd.DataFrame,
    contents: list[bytes | None] | None,
) -> tuple[Any, Any]:
    """Return the reports, and the digests of their ids, as lazy frames."""
    # Not `map_partitions`: its number of a partition, and so the random bits, are
    # others after `.partitions[...]`.
    partitions = frame.to_delayed()
    places = [Place(partition=number) for number in range(len(partitions))]
    if release.is_seeded:
        lengths = quietly(frame.map_partitions(len).compute)
        ends = np.cumsum(lengths)
        places = [
            Place(first=int(end - n)) for end, n in zip(ends, lengths, strict=True)
        ]
    if contents is None:
        contents = [None] * len(partitions)
    # Pure tasks would be named after a hash of what they hold, the key among it.
    shared = dask.delayed(release, pure=False, traverse=False)
    task = dask.delayed(_draw_partition, pure=False, nout=2)
    reports = []
    ids = []
    for partition, place, content in zip(partitions, places, contents, strict=True):
        drawn = task(shared, partition, place, content)
        reports.append(drawn[0])
        ids.append(drawn[1])
    no_ids = _frame_of(np.empty((0, 2), np.uint64))
    return (
        dataframe.from_delayed(
            reports, meta=no_reports, divisions=frame.divisions, verify_meta=False
        ),
        dataframe.from_delayed(ids, meta=no_ids, verify_meta=False),
    )


def _draw_partition(
    release: Release, partition: pd.DataFrame, place: Place, content: bytes | None
) -> tuple[Any, pd.DataFrame]:
    """Privatise a partition, and digest its ids: both of the same rows, however often these are computed."""
    drawn = release.draw(partition, place, content)
    note = Releases.of(drawn.counts, f"{release.call}, {place}")
    if note is not None:
        # pyarrow writes it into the file of the partition.
        drawn.reports.attrs[RELEASES_KEY] = note
    return drawn.reports, _frame_of(drawn.id_digests)


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
    # Of numbers too, the seed decides.
    hashes = pd.util.hash_array(hashes ^ np.uint64(seed))
    order = np.argsort(hashes, kind="stable")
    return partition.iloc[order].groupby(person, sort=False, observed=True).head(most)
