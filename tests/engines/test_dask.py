"""Schedulers of Dask: processes, and clusters with lost workers."""

import multiprocessing
import os
import signal
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from skdp import DPHistogram, PrivacyLedger, RandomizedResponseEncoder
from skdp.engines import privatize, tally
from skdp.local import ReportProtocol
from tests.engines.tables import DOMAIN, encoder
from tests.errors import refusal


def test_limit_of_rows_per_person_raises_before_the_charge(dask_frame, people):
    with refusal(TypeError, r"requires a table of DuckDB, .*, got a table of dask\.$") as ledger:
        histogram = DPHistogram(1.0, domain={"color": ["red", "blue"]}, handle_unknown="ignore", ledger=ledger)
        histogram.fit(dask_frame(people, 2)[["color", "number"]], person="number")


@pytest.mark.usefixtures("sent_to_workers")
@pytest.mark.parametrize("path", [None, "out.parquet"])
def test_repeated_task_draws_the_same_reports(dask_frame, people, path, tmp_path, monkeypatch):
    """Each partition is drawn twice, from copies of the pickled tasks, as after the loss of a worker."""
    drawn, write = {}, ReportProtocol.write

    def note(self, reports, rows):
        written = write(self, reports, rows)
        if len(written):  # a release runs once without rows
            drawn.setdefault(rows.native["number"].iloc[0], []).append(written)
        return written

    monkeypatch.setattr(ReportProtocol, "write", note)
    secure = encoder(random_state=None)
    released = privatize(dask_frame(people, 5), secure, keep=["number"], path=path and tmp_path / path)
    assert len(drawn) == 5
    for first, second in drawn.values():
        pd.testing.assert_frame_equal(first, second)
    assert sorted(released["number"].compute()) == list(range(people.num_rows))


@pytest.mark.long
@pytest.mark.filterwarnings(
    "ignore:This process:DeprecationWarning"
)  # a warning of Python about forks of processes with threads
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_forked_and_spawned_workers_share_no_random_bits(dask_frame, method):
    """All partitions and columns are equal, in two processes (false alarm: 2**-5000)."""
    import dask

    if method not in multiprocessing.get_all_start_methods():
        pytest.skip("no processes are forked here")
    same = pa.table({"a": ["x"] * 40_000, "b": ["x"] * 40_000})
    fitted = RandomizedResponseEncoder(0.1, categories={"a": ["x", "y"], "b": ["x", "y"]})
    with (
        ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(method)) as pool,
        dask.config.set(scheduler="processes", pool=pool, chunksize=1),
    ):
        releases = [privatize(dask_frame(same, 4), fitted) for _ in range(2)]
        drawn = [dask.compute(*released.to_delayed()) for released in releases]
    columns = [tuple(part[name]) for parts in drawn for part in parts for name in part]
    assert {len(column) for column in columns} == {10_000}
    assert len(set(columns)) == len(columns) == 16


def _read_and_kill_one_worker(frame, folder):
    """Write a note that the partition was read. The first worker that finds five notes is killed."""
    folder = Path(folder)
    (folder / f"{frame.index[0]}").touch()
    if len(list(folder.iterdir())) >= 5:
        try:
            (folder / "killed").touch(exist_ok=False)
        except FileExistsError:
            return frame
        os.kill(os.getpid(), signal.SIGKILL)
    return frame


@pytest.fixture
def deadly_frame(dask_frame, tmp_path):
    """Make a frame of 12 partitions; one of them kills its worker."""
    folder = tmp_path / "notes"
    folder.mkdir()

    def make(table):
        frame = dask_frame(table, 12)
        return frame.map_partitions(_read_and_kill_one_worker, str(folder), meta=frame._meta)

    yield make
    assert (folder / "killed").exists()


@pytest.mark.long
@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("stored", ["temporary file", "file"])
def test_privatize_releases_each_row_once_after_a_worker_was_killed(deadly_frame, people, tmp_path, stored):
    path = tmp_path / "out" if stored == "file" else None
    ledger = PrivacyLedger(epsilon=9)
    fitted = encoder(random_state=None, ledger=ledger)
    whole = privatize(deadly_frame(people), fitted, path=path, keep=["number"]).compute()
    assert len(ledger.charges()) == 1
    assert sorted(whole["number"]) == list(range(people.num_rows))


@pytest.mark.long
@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("use", [tally, lambda frame, fitted: DPHistogram(domain=DOMAIN, random_state=0).fit(frame)])
def test_counts_contain_each_row_once_after_a_worker_was_killed(deadly_frame, people, use):
    table = people.select(["color", "size"])
    fitted = encoder().fit(table)
    found, expected = use(deadly_frame(table), fitted), use(table, fitted)
    if isinstance(found, DPHistogram):
        np.testing.assert_array_equal(found.counts_, expected.counts_)
    else:
        assert found == expected


def test_cluster_of_other_machines_requires_a_path(dask_frame, people, monkeypatch):
    client = SimpleNamespace(scheduler=SimpleNamespace(address="tcp://10.0.0.7:8786"))
    monkeypatch.setattr("dask.base.get_scheduler", lambda collections: SimpleNamespace(__self__=client))
    with refusal(ValueError, "Use a path that all machines can access") as ledger:
        privatize(dask_frame(people), encoder(ledger=ledger))
