"""Permanent reports in several processes are those of one."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from joblib.externals import loky
from joblib.externals.loky import ProcessPoolExecutor
from joblib.externals.loky.backend.reduction import dumps

from skdp import NumericPerturber, RandomizedResponseEncoder
from skdp.engines import _streams, privatize, privatize_file
from skdp.local import SecretKey

KEY = SecretKey(bytes(range(32)))
ROWS, BATCH = 20_000, 4_096


def encoder(**params):
    return RandomizedResponseEncoder(
        **{"epsilon": 1.0, "categories": {"a": ["x", "y", "z"]}, "memoize": True, "secret_key": KEY} | params
    )


def perturber():
    return NumericPerturber(1.0, mechanism="laplace", bounds={"b": (0, 100)}, memoize=True, secret_key=KEY)


@pytest.fixture(scope="module")
def people():
    return pa.table({"a": ["x", "y", "z", "x"] * (ROWS // 4), "b": np.arange(ROWS) % 100.0, "id": np.arange(ROWS)})


class PicklingExecutor(ThreadPoolExecutor):
    """Copies what goes to a process and comes back, as for one, and takes no seconds to start."""

    def submit(self, *work):
        call, *args = pickle.loads(dumps(work))
        return super().submit(lambda: pickle.loads(dumps(call(*args))))


@pytest.fixture(scope="module", params=[PicklingExecutor, pytest.param(ProcessPoolExecutor, marks=pytest.mark.long)])
def shared_pools(request):
    """A process, or nearly one, and a thread, for all tests."""
    with request.param(1) as process, ThreadPoolExecutor(1) as thread:
        yield process, thread


@pytest.fixture
def used(monkeypatch, shared_pools):
    """Let every batch but the first be drawn in a pool, and count those."""
    monkeypatch.setattr(_streams, "batch_rows", lambda n_columns: BATCH)
    monkeypatch.setattr(_streams, "FEW", 1)
    monkeypatch.setattr(_streams, "SLOW", -1.0)
    monkeypatch.setattr(_streams.joblib, "cpu_count", lambda: 3)  # this process, and two others
    submitted = []

    class Pool:
        def __init__(self, processes, timeout):
            assert (processes, timeout > 0) == (2, True)

        def submit(self, *args):
            submitted.append(1)
            return shared_pools[1 - len(submitted) % 2].submit(*args)

    monkeypatch.setattr(loky, "ProcessPoolExecutor", Pool)
    return submitted


def test_the_reports_are_those_of_memory(people, used, tmp_path):
    for fitted in (encoder(), perturber(), encoder(instantaneous_epsilon=0.5, random_state=0)):
        used.clear()
        found = privatize(ds.dataset(people), fitted, record_id="id").to_table()
        assert len(used) == 4
        fresh = fitted if fitted.random_state is None else encoder(instantaneous_epsilon=0.5, random_state=0)
        assert found.to_pydict() == privatize(people, fresh, record_id="id").to_pydict()
    expected = privatize(people, encoder(), record_id="id").to_pydict()
    assert (
        privatize(pl.from_arrow(people).lazy(), encoder(), record_id="id").collect().to_dict(as_series=False)
        == expected
    )
    pq.write_table(people, tmp_path / "in.parquet")
    privatize_file(tmp_path / "in.parquet", tmp_path / "out.parquet", encoder(), record_id="id")
    assert pq.read_table(tmp_path / "out.parquet").to_pydict() == expected
    used.clear()
    privatize(ds.dataset(people), RandomizedResponseEncoder(categories={"a": ["x", "y", "z"]}))
    assert not used  # fresh reports need none


def test_a_row_that_is_refused_in_a_process(people, used):
    """The other process does not show in the error, nor does the value."""
    strange = people.set_column(0, "a", pa.array(["x"] * (ROWS - 1) + ["SECRET"]))
    with pytest.raises(ValueError, match="column 'a' holds a value") as caught:
        privatize(ds.dataset(strange), encoder(), record_id="id", check=False)
    assert used
    assert "SECRET" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_reports_are_drawn_where_no_process_can_be_started(people, used, monkeypatch):
    """Such as without semaphores (AWS Lambda): the release was charged by then, and failed."""

    def start(*args, **options):
        raise OSError(38, "Function not implemented")

    expected = privatize(people, encoder(), record_id="id")
    monkeypatch.setattr(loky, "ProcessPoolExecutor", start)
    assert privatize(ds.dataset(people), encoder(), record_id="id").to_table().to_pydict() == expected.to_pydict()
