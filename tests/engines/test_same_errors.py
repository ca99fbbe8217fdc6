"""A value that is not declared, in one partition: one clear error everywhere, which shows it nowhere."""

import logging
import subprocess
import sys
from datetime import date
from decimal import Decimal
from itertools import cycle, product

import polars as pl
import pyarrow as pa
import pytest

from skdp import DPHistogram, DPMarginalSynthesizer, DPSimpleImputer, PrivacyLedger, RandomizedResponseEncoder
from skdp.engines import privatize, tally
from skdp.engines._extras import import_extra

pytestmark = pytest.mark.filterwarnings("ignore:the reports are computed again")

ROWS = 3_000
# Declared values, and one that is not.
VALUES = {
    "text": (["red", "green"], "SECRET"),
    "number": ([1, 2], 31_337),
    "decimal": ([Decimal("1.50"), Decimal("2.50")], Decimal("313.37")),
    "date": ([date(2020, 1, 1), date(2020, 1, 2)], date(1987, 6, 5)),
}
SHOWN = ("SECRET", "31337", "31_337", "313.37", "1987")


def everything_said(error):
    """Give the text of an error, and of all that led to it, whether it is shown or not."""
    waiting, seen = [error], []
    while waiting:
        error = waiting.pop()
        if error is not None and not any(error is other for other in seen):
            seen.append(error)
            waiting += [error.__cause__, error.__context__]
    return " ".join(f"{error} {error!r} {error.args}" for error in seen)


@pytest.fixture(params=VALUES)
def strange(request):
    """A table whose last row has what is not declared, and its declaration."""
    declared, other = VALUES[request.param]
    return pa.table({"it": [*(declared * ROWS)[: ROWS - 1], other]}), {"it": declared}


def privatized(frame, declared, folder):
    privatize(frame, RandomizedResponseEncoder(categories=declared))


def written(frame, declared, folder):
    privatize(frame, RandomizedResponseEncoder(categories=declared), path=folder / "out")


def tallied(frame, declared, folder):
    encoder = RandomizedResponseEncoder(categories=declared)
    tally(frame, encoder.fit(pa.table(declared)))


def counted(frame, declared, folder):
    charged_nothing(DPHistogram(domain=declared), frame)


def modelled(frame, declared, folder):
    charged_nothing(DPMarginalSynthesizer(delta=1e-9, domain=declared), frame)


def filled(frame, declared, folder):
    charged_nothing(DPSimpleImputer(strategy="most_frequent", categories=declared), frame)


def charged_nothing(estimator, frame):
    estimator.ledger = PrivacyLedger(epsilon=10, delta=1e-3)
    try:
        estimator.fit(frame)
    finally:
        assert estimator.ledger.spent.epsilon == 0


USES = [privatized, written, tallied, counted, modelled, filled]
OFTEN = list(zip(USES, cycle(VALUES)))  # on each engine each use, and each kind of value


@pytest.mark.parametrize(
    ("use", "strange"),
    [
        pytest.param(*pair, id=f"{pair[0].__name__}-{pair[1]}", marks=[] if pair in OFTEN else pytest.mark.long)
        for pair in product(USES, VALUES)
    ],
    indirect=["strange"],
)
def test_the_error_names_the_column_and_nothing_else(lazy_engine, strange, use, tmp_path, caplog, capfd):
    table, declared = strange
    frame = lazy_engine.frame(table)
    with caplog.at_level(logging.DEBUG), pytest.raises(ValueError, match="column 'it' holds a value") as caught:
        use(frame, declared, tmp_path)
    said = everything_said(caught.value) + caplog.text + "".join(capfd.readouterr())
    assert not [word for word in SHOWN if word in said]
    assert list(tmp_path.iterdir()) == []


# A table that breaks off


def test_what_is_too_old_is_not_used():
    with pytest.raises(ImportError, match=r'polars 99\.0 or later is needed here, got .*pip install "skdp\[polars\]"'):
        import_extra("polars", "polars", least="99.0")
    assert import_extra("polars", "polars", least="1.37") is pl


# What the processes of an engine log by themselves, with the settings that a user finds.

SCRIPT = """
import os, sys, tempfile
import pyarrow as pa
from skdp import DPHistogram, RandomizedResponseEncoder
from skdp.engines import privatize, tally


def on_dask(work):
    import dask.dataframe as dd
    from distributed import Client, LocalCluster
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster, Client(cluster) as client:
        work(lambda table: dd.from_pandas(table.to_pandas(), npartitions=3))
        print(client.get_worker_logs(), client.get_scheduler_logs())


def on_spark(work):
    from pyspark.sql import SparkSession
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    work(spark.createDataFrame)
    spark.stop()


def work(make):
    encoder = RandomizedResponseEncoder(categories={"it": ["red", "green"]})
    frame = make(pa.table({"it": ["red", "green"] * 500 + ["SECRET"]}))
    for use in (
        lambda: privatize(frame, encoder),
        lambda: privatize(frame, encoder, path=os.path.join(tempfile.mkdtemp(), "out")),
        lambda: tally(frame, encoder),
        lambda: DPHistogram(domain={"it": ["red", "green"]}).fit(frame),
    ):
        try:
            use()
        except ValueError as error:
            print("refused:", error)


if __name__ == "__main__":
    {"dask": on_dask, "spark": on_spark}[sys.argv[1]](work)
"""


@pytest.mark.long
@pytest.mark.parametrize("name", ["dask", "spark"])
def test_logs_of_other_processes_do_not_show_it(name, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run([sys.executable, script, name], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("refused: column 'it' holds a value") == 4
    assert "Traceback" in done.stdout + done.stderr  # the workers did log
    assert "SECRET" not in done.stdout + done.stderr
