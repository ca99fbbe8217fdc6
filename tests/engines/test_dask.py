"""Dask's schedulers: processes, and clusters whose workers die."""

import multiprocessing
import os
import signal
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from skdp import DPHistogram, PrivacyLedger, RandomizedResponseEncoder
from skdp.engines import privatize, tally
from skdp.local import ReportProtocol
from tests.engines.tables import DOMAIN, encoder


@pytest.mark.usefixtures("sent_to_workers")
@pytest.mark.parametrize("path", [None, "out.parquet"])
def test_a_task_that_is_tried_again_draws_the_same_reports(dask_frame, people, path, tmp_path, monkeypatch):
    """Each partition is drawn twice, in copies of what goes to workers, as where a worker is lost."""
    drawn, write = {}, ReportProtocol.write

    def note(self, reports, rows):
        written = write(self, reports, rows)
        if len(written):  # a release rehearses without a row
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
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # Python's, of forks of processes with threads
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_forked_and_spawned_workers_never_share_coins(dask_frame, method):
    """Partitions and columns that are all alike, in two processes (false alarm: 2**-5000)."""
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


def kill_one(client):
    os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)


def kill_in_the_middle(client, folder):
    """Kill a worker when five partitions were read."""

    def kill():
        while len(list(folder.iterdir())) < 5:
            time.sleep(0.05)
        kill_one(client)

    killer = threading.Thread(target=kill)
    killer.start()
    return killer


def _slow(frame, folder):
    """Take long, and leave a note that the partition was read."""
    time.sleep(0.3)
    with open(os.path.join(folder, f"{frame.index[0]}"), "a") as note:
        note.write("read\n")
    return frame


@pytest.mark.long
@pytest.mark.parametrize("stored", ["temporary file", "file"])
def test_a_worker_that_is_killed_in_the_middle_makes_no_second_release(cluster, dask_frame, people, tmp_path, stored):
    frame = dask_frame(people, 12)
    folder = tmp_path / "notes"
    folder.mkdir()
    slow = frame.map_partitions(_slow, str(folder), meta=frame._meta)

    killer = kill_in_the_middle(cluster, folder)
    path = tmp_path / "out" if stored == "file" else None
    ledger = PrivacyLedger(epsilon=9)
    released = privatize(slow, encoder(random_state=None, ledger=ledger), path=path, keep=["number"])
    killer.join()
    notes = [len(note.read_text().splitlines()) for note in folder.iterdir()]
    whole = released.compute()
    assert len(ledger.report()) == 1
    assert sorted(whole["number"]) == list(range(people.num_rows))  # complete, and no row twice
    assert max(notes) > 1  # lost partitions were computed again


@pytest.mark.long
@pytest.mark.parametrize("use", [tally, lambda frame, fitted: DPHistogram(domain=DOMAIN, random_state=0).fit(frame)])
def test_a_worker_that_is_killed_in_the_middle_makes_no_row_count_twice(cluster, dask_frame, people, tmp_path, use):
    table = people.select(["color", "size"])
    frame = dask_frame(table, 12)
    slow = frame.map_partitions(_slow, str(tmp_path), meta=frame._meta)
    fitted = encoder().fit(table)
    killer = kill_in_the_middle(cluster, tmp_path)
    found = use(slow, fitted)
    killer.join()
    expected = use(table, fitted)
    if isinstance(found, DPHistogram):
        np.testing.assert_array_equal(found.counts_, expected.counts_)
    else:
        assert found == expected


def test_a_cluster_of_other_machines_needs_a_path(dask_frame, people, monkeypatch):
    ledger = PrivacyLedger(epsilon=9)
    client = SimpleNamespace(scheduler=SimpleNamespace(address="tcp://10.0.0.7:8786"))
    monkeypatch.setattr("dask.base.get_scheduler", lambda collections: SimpleNamespace(__self__=client))
    with pytest.raises(ValueError, match="Use a path that all machines can access"):
        privatize(dask_frame(people), encoder(ledger=ledger))
    assert ledger.spent.epsilon == 0
