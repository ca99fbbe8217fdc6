"""Where Spark may write, and what it says on its workers: asked of a session that is none, so without Java."""

import pickle

import cloudpickle
import pytest

pytest.importorskip("pyspark")

from pyspark.errors import AnalysisException, PySparkException

from skdp.engines._errors import RefusedBatch, RefusedType
from skdp.engines.backends import spark as _spark


class Session:
    """As much of a session as is asked: its machine, and what is at some places."""

    def __init__(self, master=None, places=()):
        self._master, self._places = master, places
        self.conf, self.read = {}, self

    @property
    def sparkContext(self):
        if self._master is None:  # Spark Connect
            raise PySparkException("no such attribute")
        return type("Context", (), {"master": self._master})

    def format(self, name):
        return self

    def load(self, place):
        if place.startswith("gone:"):
            raise ValueError("No FileSystem for scheme gone, and SECRET")
        if place not in self._places:
            raise AnalysisException("no path", errorClass="PATH_NOT_FOUND", messageParameters={"path": place})
        return type("Frame", (), {"schema": "binary"})


@pytest.mark.parametrize("master", ["yarn", None])
@pytest.mark.parametrize("place", ["hdfs:/data/out", "dbfs:/out", "s3a://bucket/out", "/data/on/the/cluster", "out"])
def test_a_cluster_writes_where_it_can(master, place):
    assert _spark.check_place(Session(master), place) == place
    with pytest.raises(FileExistsError, match="never overwritten"):
        _spark.check_place(Session(master, [place]), place)
    with pytest.raises(ValueError, match="give a path"):
        _spark.check_place(Session(master), None)


def test_on_this_machine_a_path_is_one_of_this_machine(tmp_path):
    here = Session("local[2]")
    assert _spark.check_place(here, tmp_path / "out") == str(tmp_path / "out")
    assert _spark.check_place(here, None).startswith("file:///")
    assert _spark.check_place(here, "hdfs:/data/out") == "hdfs:/data/out"
    with pytest.raises(FileNotFoundError):
        _spark.check_place(here, tmp_path / "no" / "out")
    with pytest.raises(FileExistsError):
        _spark.check_place(here, tmp_path)


@pytest.mark.parametrize(
    ("said", "kind", "shown"),
    [
        ("ModuleNotFoundError: No module named 'skdp'\n at", ImportError, "skdp cannot be imported where"),
        ("ModuleNotFoundError: No module named 'SECRET'", ValueError, "the table cannot be read"),
        ("skdp.engines._errors.RefusedBatch: SECRET\n at", ValueError, "the table cannot be read"),
        ("skdp-00-Batch-U0VDUkVU;", ValueError, "the table cannot be read"),
        ("[CAST_INVALID_INPUT] The value 'SECRET' of the type", ValueError, "the table cannot be read"),
    ],
)
def test_what_workers_say_is_told_without_values(said, kind, shown):
    def work():
        raise PySparkException(said + " SECRET")

    with pytest.raises(kind, match=shown) as caught:
        _spark._ask(work)
    assert "SECRET" not in str(caught.value)
    assert caught.value.__cause__ is caught.value.__context__ is None


@pytest.mark.parametrize("kind", [RefusedBatch, RefusedType])
def test_a_refusal_comes_back_from_a_worker_as_it_was(kind):
    def refuse(batches):
        yield from batches
        raise kind("column 'ü' holds; a value")

    marked = pickle.loads(cloudpickle.dumps(_spark.Marked(refuse)))
    with pytest.raises(RuntimeError) as caught:
        list(marked([1, 2]))
    assert list(_spark.Marked(iter)([1, 2])) == [1, 2]

    def work():
        raise PySparkException(f"RefusedBatch: SECRET\nRuntimeError: {caught.value}\nSECRET")

    with pytest.raises(ValueError if kind is RefusedBatch else TypeError) as shown:
        _spark._ask(work)
    assert str(shown.value) == "column 'ü' holds; a value"
