"""Where Spark may write, and what it says on its workers: asked of a session that is none, so without Java."""

import numpy as np
import pyarrow as pa
import pytest

from skdp import RandomizedResponseEncoder
from skdp.engines import _spark
from skdp.engines._engine import ReportSums
from skdp.engines._release import prepare_release
from skdp.local import SecretKey

COLORS = {"color": ["red", "green"]}


class NotFound(Exception):
    def getCondition(self):
        return "PATH_NOT_FOUND"


class Session:
    """As much of a session as is asked: its machine, and what is at some places."""

    def __init__(self, master=None, places=()):
        self._master, self._places = master, places
        self.conf, self.read = {}, self

    @property
    def sparkContext(self):
        if self._master is None:  # Spark Connect
            raise AttributeError("no such attribute")
        return type("Context", (), {"master": self._master})

    def format(self, name):
        return self

    def load(self, place):
        if place.startswith("gone:"):
            raise ValueError("No FileSystem for scheme gone, and SECRET")
        if place not in self._places:
            raise NotFound(place)
        return type("Frame", (), {"schema": "binary"})


@pytest.mark.parametrize("master", ["yarn", None])
@pytest.mark.parametrize("place", ["hdfs:/data/out", "dbfs:/out", "s3a://bucket/out", "/data/on/the/cluster", "out"])
def test_a_cluster_writes_where_it_can(master, place):
    assert _spark.check_path(Session(master), place) == place
    with pytest.raises(FileExistsError, match="never overwritten"):
        _spark.check_path(Session(master, [place]), place)
    with pytest.raises(ValueError, match="path is required on a cluster"):
        _spark.check_path(Session(master), None)


def test_on_this_machine_a_path_is_one_of_this_machine(tmp_path):
    here = Session("local[2]")
    assert _spark.check_path(here, tmp_path / "out") == str(tmp_path / "out")
    assert _spark.check_path(here, None).startswith("file:///")
    assert _spark.check_path(here, "hdfs:/data/out") == "hdfs:/data/out"
    with pytest.raises(FileExistsError):
        _spark.check_path(Session("local[2]", [str(tmp_path)]), tmp_path)


def batches_of(words, **columns):
    return pa.table({"color": words, **columns}).to_batches(max_chunksize=2)


def values_of(batches):
    return pa.Table.from_batches(list(batches)).to_pydict()


def test_a_refusal_comes_back_from_a_worker_as_a_value():
    """And the digests of ids, and sums, of each partition."""
    encoder = RandomizedResponseEncoder(categories=COLORS, memoize=True, secret_key=SecretKey.generate())
    sample = pa.table({"color": ["red"], "id": [1]})[:0]
    made = prepare_release(sample, encoder, record_id="id")
    ids = values_of(_spark.check_partition(made, batches_of(["red"] * 3, id=[1, 2, 1])))
    assert ids["refusal"] == [None] * 3
    assert ids["id"][0] == ids["id"][2] != ids["id"][1]
    odd = batches_of(["red", "SECRET"], id=[1, 2])
    (refusal,) = values_of(_spark.check_partition(made, odd))["refusal"]
    assert refusal.startswith("column 'color' holds a value")
    assert "SECRET" not in refusal
    reports = ReportSums(encoder.protocol_)
    found = values_of(_spark.add_up_partition(reports, batches_of(["red", "green", "red"])))
    flat = np.zeros(sum(part.size for part in reports.zeros()), int)
    flat[found["cell"]] = found["value"]
    whole = encoder.tally(pa.table({"color": ["red", "green", "red"]}))
    assert flat.tolist() == np.concatenate([part.ravel() for part in whole.sums()]).tolist()
    (refusal,) = values_of(_spark.add_up_partition(reports, odd))["refusal"]
    assert "SECRET" not in refusal
