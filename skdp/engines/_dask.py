"""Dask: one task a partition, on any scheduler."""

from __future__ import annotations

import sys
from itertools import accumulate
from typing import Any

import pandas as pd

from skdp.engines._coins import Place
from skdp.engines._counts import Counter
from skdp.engines._engine import import_extra, tell_of_lazy_reports
from skdp.engines._files import check_path, written_beside
from skdp.engines._release import Plan, Release

dask = import_extra("dask", "dask")
dataframe = import_extra("dask.dataframe", "dask")

_BRANCHES = 8  # of the tree that adds up tallies


def accepts(frame: Any) -> bool:
    """Say whether it is a Dask DataFrame.

    Parameters
    ----------
    frame : object
        Of Dask.

    Returns
    -------
    bool
        True if it is.
    """
    return isinstance(frame, dataframe.DataFrame)


def privatize(frame: Any, plan: Plan, *, persist: bool, path: Any) -> Any:
    """Privatise a Dask DataFrame.

    Parameters
    ----------
    frame : dask.dataframe.DataFrame
        True rows.
    plan : Plan
        Checks, charges, and says what privatises.
    persist : bool
        Whether to compute the reports, and keep them with the workers, before they are handed out.
    path : path-like or None
        Where to write the reports: a directory.

    Returns
    -------
    dask.dataframe.DataFrame
        The reports, in the partitions of the frame.
    """
    place = check_path(path)
    release, trial = plan(sample_of(frame))
    lazy = _release(frame[release.columns], release, trial)
    if not persist:
        tell_of_lazy_reports()
        return lazy
    if place is None:
        return _wait(lazy.persist())
    with written_beside(place) as beside:
        lazy.to_parquet(beside, write_index=False)
    return dataframe.read_parquet(place)


def sample_of(frame: Any) -> pd.DataFrame:
    """Return no rows; of categories that are not known, none either, where Dask puts a marker.

    Parameters
    ----------
    frame : dask.dataframe.DataFrame
        The table.

    Returns
    -------
    pandas.DataFrame
        The names and dtypes.
    """
    sample = frame._meta
    for name in sample.columns[sample.dtypes == "category"]:
        if not frame[name].cat.known:
            sample = sample.assign(**{name: pd.Categorical([], ordered=sample[name].cat.ordered)})
    return sample


def _release(frame: Any, release: Release, trial: pd.DataFrame) -> Any:
    # Not `map_partitions`: what it says of the number of a partition is another one after `.partitions[...]`, and the
    # coins would be those of another partition.
    partitions = frame.to_delayed()
    places = [Place(partition=number) for number in range(len(partitions))]
    if release.seeded:
        lengths = frame.map_partitions(len).compute()
        places = [Place(first=int(first)) for first in accumulate(lengths, initial=0)][:-1]
    # Pure tasks would be named after a hash of what they hold, the key among it.
    shared = dask.delayed(release, pure=False, traverse=False)
    task = dask.delayed(_release_partition, pure=False)
    released = [task(shared, partition, place) for partition, place in zip(partitions, places, strict=True)]
    return dataframe.from_delayed(released, meta=trial, divisions=frame.divisions, verify_meta=False)


def _release_partition(release: Release, partition: pd.DataFrame, place: Place) -> Any:
    return release(partition, place)


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


def column_names(frame: Any) -> list[Any]:
    """Name the columns, without reading a row.

    Parameters
    ----------
    frame : dask.dataframe.DataFrame
        The table.

    Returns
    -------
    list of str
        The names.
    """
    return list(frame.columns)


def tally(frame: Any, transformer: Any) -> Any:
    """Sum up the reports of a Dask DataFrame: each partition by itself, then as a tree.

    Parameters
    ----------
    frame : dask.dataframe.DataFrame
        Reports.
    transformer : local transformer
        Fitted.

    Returns
    -------
    same kind as what the transformer's `tally` returns
        The sums.
    """
    shared = dask.delayed(transformer, pure=False, traverse=False)
    count, add = dask.delayed(_tally_partition, pure=False), dask.delayed(_add, pure=False)
    counters = [count(shared, partition) for partition in frame[transformer._own_names()].to_delayed()]
    while len(counters) > 1:
        counters = [add(counters[start : start + _BRANCHES]) for start in range(0, len(counters), _BRANCHES)]
    return counters[0].compute().total()


def _tally_partition(transformer: Any, partition: pd.DataFrame) -> Counter:
    counter = Counter(transformer)
    counter.add(partition)
    return counter


def _add(counters: list[Counter]) -> Counter:
    return sum(counters[1:], start=counters[0])
