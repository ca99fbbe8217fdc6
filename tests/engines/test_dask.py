"""Dask's schedulers: processes, and clusters whose workers die."""

import os
import signal
import threading
import time

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from skdp import Domain, PrivacyLedger, RandomizedResponseEncoder
from skdp.engines import privatize, tally

DOMAIN = Domain({"color": ["red", "green", "blue", "unused", None], "size": [0, 1, 2, 3]})


def encoder(**params):
    return RandomizedResponseEncoder(1.0, categories=DOMAIN, **params)


def test_processes_give_what_threads_give(dask_frame, people):
    import dask

    fitted = encoder(random_state=0)
    expected = pa.Table.from_pandas(privatize(dask_frame(people), encoder(random_state=0)).compute())
    with dask.config.set(scheduler="processes", num_workers=2):
        frame = dask_frame(people, 4)
        released = privatize(frame, fitted)
        lazy = privatize(frame, encoder(), persist=False)
        first, second = lazy.compute(), lazy.compute()
        found = tally(released, fitted)
    assert released.compute().to_dict("list") == expected.to_pandas().to_dict("list")
    assert found == fitted.tally(expected.select(["color", "size"]))
    pd.testing.assert_frame_equal(first, second)  # drawn twice, in other processes


@pytest.fixture(scope="module")
def cluster():
    import dask
    from distributed import Client, LocalCluster

    settings = {"distributed.scheduler.allowed-failures": 10, "distributed.logging.distributed": "critical"}
    with (
        dask.config.set(settings),
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.mark.long
def test_a_cluster_gives_what_threads_give(cluster, dask_frame, people):
    fitted = encoder(random_state=0)
    released = privatize(dask_frame(people, 4), fitted, keep=["number"])
    expected = privatize(people, encoder(random_state=0), keep=["number"]).to_pandas()
    found = released.compute().reset_index(drop=True)
    assert found.astype(object).where(found.notna(), None).to_dict("list") == expected.astype(object).where(
        expected.notna(), None
    ).to_dict("list")
    assert tally(released, fitted).n_reports == people.num_rows


@pytest.mark.long
def test_an_unseen_value_is_one_clear_error_on_a_cluster_too(cluster, dask_frame, people, tmp_path, capfd):
    strange = pa.table({"color": ["red"] * 999 + ["SECRET"], "size": [0] * 1_000})
    for path in (None, tmp_path / "out"):
        with pytest.raises(ValueError, match="column 'color' holds a value") as caught:
            privatize(dask_frame(strange), encoder(), path=path)
        assert "SECRET" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []
    written = capfd.readouterr()
    assert "SECRET" not in written.out + written.err


@pytest.mark.long
def test_the_ledger_is_charged_once_on_a_cluster(cluster, dask_frame, people):
    ledger = PrivacyLedger(epsilon=3)
    privatize(dask_frame(people, 5), encoder(ledger=ledger))
    assert len(ledger.report()) == 1


def kill_one(client):
    os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)


def _slow(frame, folder):
    """Take long, and leave a note that the partition was read."""
    time.sleep(0.3)
    with open(os.path.join(folder, f"{frame.index[0]}"), "a") as note:
        note.write("read\n")
    return frame


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:The inplace keyword:DeprecationWarning")  # Dask's own, of pandas 3.1
@pytest.mark.parametrize("stored", ["memory", "file"])
def test_a_worker_that_is_killed_in_the_middle_makes_no_second_release(cluster, dask_frame, people, tmp_path, stored):
    frame = dask_frame(people, 12)
    folder = tmp_path / "notes"
    folder.mkdir()
    slow = frame.map_partitions(_slow, str(folder), meta=frame._meta)

    def kill():
        while len(list(folder.iterdir())) < 5:
            time.sleep(0.05)
        kill_one(cluster)

    killer = threading.Thread(target=kill)
    killer.start()
    path = None if stored == "memory" else tmp_path / "out"
    released = privatize(slow, encoder(), path=path, keep=["number"])
    killer.join()
    notes = [len(note.read_text().splitlines()) for note in folder.iterdir()]
    whole = released.compute()
    assert sorted(whole["number"]) == list(range(people.num_rows))  # complete, and no row twice
    assert stored == "file" or max(notes) > 1  # lost partitions were computed again


@pytest.mark.long
def test_partitions_that_are_lost_after_they_were_seen_come_back_the_same(cluster, dask_frame, people):
    released = privatize(dask_frame(people, 8), encoder(), keep=["number"])
    seen = released.compute()
    kill_one(cluster)
    again = released.compute()
    pd.testing.assert_frame_equal(seen, again)
    truth = people.to_pandas()["size"].to_numpy()
    assert not np.array_equal(seen["size"].to_numpy(), truth)
