"""Spark: where it can write, and, on one machine with two workers, partitions that are repeated (with Java 17)."""

import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skdp import DPHistogram, RandomizedResponseEncoder, UnaryEncodingTransformer
from skdp.engines import privatize, tally
from skdp.engines._privatize import prepare_release
from skdp.engines._reports import ReportSums
from skdp.local import SecretKey
from skdp.readers import _clusters
from tests.engines.tables import DOMAIN, encoder

pytestmark = pytest.mark.filterwarnings("ignore")  # warnings of Spark about pandas and sockets


@pytest.fixture
def frame(spark, people, tmp_path):
    (tmp_path / "in").mkdir()
    for part in range(4):
        pq.write_table(people.slice(part * 250, 250), tmp_path / "in" / f"{part}.parquet")
    return spark.read.parquet(str(tmp_path / "in"))


def fail_first_attempts(frame, marks):
    """Fail at the first attempt of each task, after its first batch, and write a mark."""

    def fail_once(batches):
        from pyspark import TaskContext

        context = TaskContext.get()
        for number, batch in enumerate(batches):
            if number and context.attemptNumber() == 0:
                os.makedirs(marks, exist_ok=True)
                open(os.path.join(marks, str(context.partitionId())), "w").close()
                raise RuntimeError("on purpose")
            yield batch

    return frame.mapInArrow(fail_once, frame.schema)


@pytest.mark.long
def test_repeated_task_gives_no_row_two_reports(frame, people, tmp_path):
    shaky = fail_first_attempts(frame, str(tmp_path / "marks"))
    released = privatize(shaky, encoder(random_state=None), keep=["number"], path=str(tmp_path / "out"))
    found = released.toArrow()
    assert list((tmp_path / "marks").iterdir())
    assert sorted(found["number"].to_pylist()) == list(range(people.num_rows))


@pytest.mark.long
@pytest.mark.parametrize("make", [RandomizedResponseEncoder, UnaryEncodingTransformer])
def test_repeated_task_counts_each_row_once(frame, people, tmp_path, make):
    table = people.select(["color", "size"])
    params = {"domain": DOMAIN, "random_state": 0}
    found = DPHistogram(**params).fit(fail_first_attempts(frame, str(tmp_path / "fit")).select("color", "size"))
    np.testing.assert_array_equal(found.counts_, DPHistogram(**params).fit(table).counts_)
    fitted = make(1.0, categories=DOMAIN)
    released = privatize(frame, fitted)
    assert tally(fail_first_attempts(released, str(tmp_path / "tally")), fitted) == tally(released, fitted)
    assert {mark.name for mark in tmp_path.iterdir()} >= {"fit", "tally"}


@pytest.mark.long
def test_repeated_attempt_draws_the_same_reports(spark, frame, tmp_path):
    """Before the reports are written: each attempt stores its draws, and all draws are equal."""
    notes = str(tmp_path / "notes")
    made = encoder(random_state=None)
    release = prepare_release(frame.limit(0).toArrow(), made, keep=["number"])
    lazy = _clusters.draw_lazily(frame, release.charge(made))

    def note_and_fail(batches):
        from pyspark import TaskContext

        context = TaskContext.get()
        os.makedirs(notes, exist_ok=True)
        for batch in batches:
            with open(os.path.join(notes, f"{context.partitionId()}-{context.attemptNumber()}"), "a") as file:
                for row in batch.to_pylist():
                    file.write(f"{row['number']} {row['color']} {row['size']}\n")
            if context.attemptNumber() == 0:
                raise RuntimeError("on purpose")
            yield batch

    lazy.mapInArrow(note_and_fail, lazy.schema).count()
    drawn = {}
    files = list((tmp_path / "notes").iterdir())
    assert len({file.name.split("-")[1] for file in files}) > 1
    for file in files:
        for line in file.read_text().splitlines():
            number, report = line.split(" ", 1)
            assert drawn.setdefault(number, report) == report


# A mocked session, without Java.

COLORS = {"color": ["red", "green"]}


class NotFound(Exception):
    def getCondition(self):
        return "PATH_NOT_FOUND"


class Session:
    """The used part of a session: its machine, and the existing paths."""

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
def test_cluster_writes_where_all_machines_can_read(master, place):
    assert _clusters.check_spark_path(Session(master), place) == place
    with pytest.raises(FileExistsError, match="never overwritten"):
        _clusters.check_spark_path(Session(master, [place]), place)
    with pytest.raises(ValueError, match="`path` is required on a cluster"):
        _clusters.check_spark_path(Session(master), None)


def test_local_session_writes_to_local_paths(tmp_path):
    here = Session("local[2]")
    assert _clusters.check_spark_path(here, tmp_path / "out") == str(tmp_path / "out")
    assert _clusters.check_spark_path(here, None).startswith("file:///")
    assert _clusters.check_spark_path(here, "hdfs:/data/out") == "hdfs:/data/out"
    with pytest.raises(FileExistsError):
        _clusters.check_spark_path(Session("local[2]", [str(tmp_path)]), tmp_path)


def values_of(batches):
    return pa.Table.from_batches(list(batches)).to_pydict()


def test_error_of_a_worker_is_returned_as_a_value():
    """The digests of ids and the sums of each partition are returned, too."""
    transformer = RandomizedResponseEncoder(categories=COLORS, memoize=True, secret_key=SecretKey.generate())
    rows = pa.table({"color": ["red", "red", "red"], "id": [1, 2, 1]})
    odd = pa.table({"color": ["red", "SECRET"], "id": [1, 2]})
    made = prepare_release(rows[:0], transformer, person="id")
    ids = values_of(_clusters.check_partition(made, rows.to_batches(max_chunksize=2)))
    assert ids["refusal"] == [None] * 3
    assert ids["id"][0] == ids["id"][2] != ids["id"][1]
    reports = ReportSums(transformer.protocol_)
    failed = [
        _clusters.check_partition(made, odd.to_batches()),
        _clusters.sum_partition(reports, ["cell"], odd.to_batches()),
    ]
    for found in failed:
        (refusal,) = values_of(found)["refusal"]
        assert "olumn 'color' " in refusal
        assert "SECRET" not in refusal
    found = values_of(_clusters.sum_partition(reports, ["cell"], rows.to_batches(max_chunksize=2)))
    sums = np.concatenate([part.ravel() for part in transformer.tally(rows.select(["color"])).sums()])
    assert dict(zip(found["cell"], found["value"], strict=True)) == {n: sums[n] for n in np.flatnonzero(sums)}


SCRIPT = """
import warnings
warnings.simplefilter("ignore")
from pyspark.sql import SparkSession
from skdp import DPHistogram
session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
try:
    DPHistogram(domain={"id": [0, 1]}).fit(session.range(2))
except ImportError as error:
    print(error)
"""


@pytest.mark.long
def test_worker_with_a_python_without_packages_raises_an_import_error(tmp_path):
    pytest.importorskip("pyspark")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys._base_executable} -S "$@"\n')
    python.chmod(0o755)
    settings = os.environ | {"PYSPARK_PYTHON": str(python)}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=settings, capture_output=True, text=True)
    assert "All workers must have the module '" in done.stdout, done.stderr
