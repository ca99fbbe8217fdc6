"""Spark on this machine: two workers, partitions that are tried twice. It needs Java 17."""

import numpy as np
import pytest

from skdp import DPHistogram, PrivacyLedger, RandomizedResponseEncoder, UnaryEncodingTransformer
from skdp.engines import privatize, tally
from skdp.engines._release import prepare_release
from tests.engines.tables import DOMAIN

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore")]  # Spark's own, of pandas and of sockets


def encoder(**params):
    return RandomizedResponseEncoder(1.0, categories=DOMAIN, **params)


@pytest.fixture
def frame(spark, people, tmp_path):
    import pyarrow.parquet as pq

    (tmp_path / "in").mkdir()
    for part in range(4):
        pq.write_table(people.slice(part * 2_500, 2_500), tmp_path / "in" / f"{part}.parquet")
    return spark.read.parquet(str(tmp_path / "in"))


def shaken(frame, marks):
    """Make each task fail once, and leave a mark of it."""

    def fail_once(batches):
        """Fail after the first batch of each partition, at the first attempt: half a task's rows were privatized."""
        import os

        from pyspark import TaskContext

        context = TaskContext.get()
        for number, batch in enumerate(batches):
            if number and context.attemptNumber() == 0:
                os.makedirs(marks, exist_ok=True)
                open(os.path.join(marks, str(context.partitionId())), "w").close()
                raise RuntimeError("on purpose")
            yield batch

    return frame.mapInArrow(fail_once, frame.schema)


def test_a_task_that_fails_on_purpose_is_tried_again_and_no_row_has_two_reports(frame, people, tmp_path):
    shaky = shaken(frame, str(tmp_path / "marks"))
    released = privatize(shaky, encoder(), keep=["number"], path=str(tmp_path / "out"))
    found = released.toArrow()
    assert list((tmp_path / "marks").iterdir())
    assert sorted(found["number"].to_pylist()) == list(range(people.num_rows))


@pytest.mark.parametrize("make", [RandomizedResponseEncoder, UnaryEncodingTransformer])
def test_nor_does_a_row_count_twice(frame, people, tmp_path, make):
    table = people.select(["color", "size"])
    params = {"domain": DOMAIN, "random_state": 0}
    found = DPHistogram(**params).fit(shaken(frame, str(tmp_path / "fit")).select("color", "size"))
    np.testing.assert_array_equal(found.counts_, DPHistogram(**params).fit(table).counts_)
    fitted = make(1.0, categories=DOMAIN)
    released = privatize(frame, fitted)
    assert tally(shaken(released, str(tmp_path / "tally")), fitted) == tally(released, fitted)
    assert {mark.name for mark in tmp_path.iterdir()} >= {"fit", "tally"}


def test_an_attempt_that_is_repeated_draws_the_same_reports(spark, frame, tmp_path):
    """Before it is written: each attempt leaves what it drew, and all that was drawn agrees."""
    notes = str(tmp_path / "notes")
    from skdp.engines._spark import draw_lazily

    made = encoder()
    release = prepare_release(frame.limit(0).toArrow(), made, keep=["number"])
    lazy = draw_lazily(frame, release.charge(made))

    def note_and_fail(batches):
        import os

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


def test_a_place_that_exists_costs_nothing(frame, tmp_path):
    ledger = PrivacyLedger(epsilon=10)
    with pytest.raises(FileExistsError):
        privatize(frame, encoder(ledger=ledger), path=tmp_path)
    assert ledger.spent.epsilon == 0
