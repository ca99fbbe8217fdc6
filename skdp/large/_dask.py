"""Engine of Dask, with one task for each partition, on any scheduler."""

from __future__ import annotations

import json
import operator
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pandas as pd

from skdp.large._engine import (
    LargeTable,
    Release,
    Summary,
    Sums,
    add_up_batches,
    check_distinct_ids,
)
from skdp.large._io import (
    import_extra,
    open_output,
    run_check,
    run_safely,
)
from skdp.large._local import split_frame
from skdp.tables import ATTRS_KEY, PROTOCOL_KEY

dask = import_extra("dask", "dask")
dataframe = import_extra("dask.dataframe", "dask")
pyarrow = import_extra("pyarrow", "dask")

# Meta of the result of a check, by which Dask infers types.
_NO_IDS = pd.Series([], dtype=np.uint64)


class DaskTable(LargeTable):
    """A Dask DataFrame."""

    def _make_empty_table(self) -> pd.DataFrame:
        """Return Dask's own empty frame with the columns and dtypes."""
        return self._frame._meta

    def _collect(self) -> Any:
        """Compute all rows as a table of pandas."""
        return self._frame.compute()

    def check_path(self, path: Any) -> Any:
        """Check the path of the reports; it is required on a cluster."""
        scheduler = dask.base.get_scheduler(collections=[self._frame])
        # The scheduler of a cluster is a method of its client.
        client = getattr(scheduler, "__self__", None)
        is_local = client is None or "127.0.0.1" in client.scheduler.address
        if path is None and not is_local:
            raise ValueError(
                "`path` is required on a cluster, which has no common temporary "
                "directory, got None. Use a path that all machines can access."
            )
        return super().check_path(path)

    def check_rows(self, release: Release) -> None:
        """Check all partitions in their tasks, and compare the ids of persons of the table."""
        frame = self._frame[release.columns]
        checked = frame.map_partitions(_check_partition, release, meta=_NO_IDS)
        run_safely(lambda: check_distinct_ids([checked.compute().to_numpy()]))

    def open_output(self, path: Any) -> AbstractContextManager[Any]:
        """Open the folder of the output beside its place."""
        return open_output(path, is_folder=True)

    def write(self, release: Release, path: Any) -> None:
        """Draw the reports of all partitions in their tasks, and store them as Parquet."""
        # The tasks write reports to files, because a cluster recomputes the partitions
        # of a lost worker that are in memory. Their rows may be in another order, so that
        # records would be reported a second time. The number of a partition does not
        # change, so that its random bits are derived from it.
        reports = self._frame[release.columns].map_partitions(
            _draw_partition,
            release,
            meta=release.no_reports,
            enforce_metadata=False,
        )
        metadata = None
        text = release.protocol_text
        if text is not None:
            # pandas reads the second entry as `attrs`.
            metadata = {PROTOCOL_KEY: text, ATTRS_KEY: json.dumps({PROTOCOL_KEY: text})}
        writing = reports.to_parquet(
            path,
            write_index=False,
            compute=False,
            custom_metadata=metadata,
            schema=_make_report_schema(release),
        )
        run_safely(writing.compute)

    def open_reports(self, release: Release, path: Any) -> Any:
        """Open the folder of reports as a Dask DataFrame."""
        return dataframe.read_parquet(path)

    def add_up(self, names: Sequence[Any], summary: Summary) -> Sums:
        """Sum over each partition in its task, and add the sums of the partitions.

        `summary` returns the sums of one table as arrays, and `names` are the columns that it reads.
        """
        shared = dask.delayed(summary, pure=False, traverse=False)
        sum_partition = dask.delayed(_add_up_partition, pure=False)
        add = dask.delayed(_add_sums, pure=False)
        # The sums are added one after the other, so that a worker can free the sums of a
        # partition when they are added.
        total: Any = None
        for partition in self._frame[list(names)].to_delayed():
            part = sum_partition(shared, partition)
            total = part if total is None else add(total, part)
        return run_safely(total.compute)


def _make_report_schema(release: Release) -> Any:
    """Return the Arrow schema of reports, with declared types for columns of Python objects.

    Dask would infer the type of a column of objects from other objects.
    """
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
    """Check a partition; return the digests of its ids of persons."""
    return pd.Series(release.check(partition))


def _draw_partition(
    partition: pd.DataFrame, release: Release, partition_info: Any = None
) -> Any:
    """Privatize a partition, with random bits that depend on its number."""
    return release.draw(partition, (partition_info["number"], 0))


def _add_up_partition(summary: Summary, partition: Any) -> Sums:
    """Sum over a partition in blocks of rows."""
    return run_check(lambda: add_up_batches(split_frame(partition), summary))


def _add_sums(first: Sums, second: Sums) -> Sums:
    """Add the sums of two parts of a table, array by array."""
    return list(map(operator.add, first, second))
