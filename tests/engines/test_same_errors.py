"""A value outside the domain in one partition gives the same error on every engine, without the value."""

import logging
from datetime import date
from itertools import cycle, product

import polars as pl
import pyarrow as pa
import pytest

from skdp import DPHistogram, DPMarginalSynthesizer, DPSimpleImputer, RandomizedResponseEncoder
from skdp.engines import privatize, tally
from tests.errors import refusal

ROWS = 3_000
# Declared values, and one outside the domain.
VALUES = {"text": (["red", "green"], "SECRET"), "date": ([date(2020, 1, 1), date(2020, 1, 2)], date(1987, 6, 5))}
# Spark numbers objects in its log, for example with 1987.
SHOWN = ("SECRET", "1987-", "1987,", "1987 ", "/1987")


@pytest.fixture(params=VALUES)
def strange(request):
    """Return a table with a value outside the domain in its last row, and its declaration."""
    declared, other = VALUES[request.param]
    return pa.table({"it": [*(declared * ROWS)[: ROWS - 1], other]}), {"it": declared}


USES = {
    "privatized": lambda frame, it, folder, **own: privatize(frame, RandomizedResponseEncoder(categories=it, **own)),
    "written": lambda frame, it, folder, **own: privatize(
        frame, RandomizedResponseEncoder(categories=it, **own), path=folder / "out"
    ),
    "tallied": lambda frame, it, *_, **own: tally(frame, RandomizedResponseEncoder(categories=it).fit(pa.table(it))),
    "counted": lambda frame, it, folder, **own: DPHistogram(domain=it, **own).fit(frame),
    "modelled": lambda frame, it, folder, **own: DPMarginalSynthesizer(delta=1e-9, domain=it, **own).fit(frame),
    "filled": lambda frame, it, folder, **own: DPSimpleImputer(strategy="most_frequent", categories=it, **own).fit(
        frame
    ),
}
OFTEN = list(zip(USES, cycle(VALUES)))  # each use on each engine, and each type of value


@pytest.mark.parametrize(
    ("use", "strange"),
    [
        pytest.param(*pair, id="-".join(pair), marks=[] if pair in OFTEN else pytest.mark.long)
        for pair in product(USES, VALUES)
    ],
    indirect=["strange"],
)
def test_error_names_the_column_only(lazy_engine, strange, use, tmp_path, caplog, capfd):
    table, declared = strange
    with caplog.at_level(logging.DEBUG), refusal(ValueError, "olumn 'it' ", *SHOWN, folder=tmp_path) as ledger:
        USES[use](lazy_engine.frame(table), declared, tmp_path, ledger=ledger)
    text = caplog.text + "".join(capfd.readouterr())
    assert not [word for word in SHOWN if word in text]


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (
            "ModuleNotFoundError: No module named 'skdp'",
            ImportError,
            "All workers must have the module 'skdp'.*PYSPARK_",
        ),
        ("No module named 'pandas.core'", ImportError, "All workers must have the module 'pandas'"),
        ("[PYTHON_VERSION_MISMATCH] Python", ImportError, "All workers must run the Python version of this process"),
        ("No module named 'SECRET'", ValueError, "The rows cannot be read"),
    ],
)
def test_missing_module_of_a_worker_is_named(text, error, message):
    def fail(rows):
        raise RuntimeError(text)

    frame = pl.LazyFrame({"x": [1]}).map_batches(fail)
    with refusal(error, message, "SECRET"):
        DPHistogram(domain={"x": [1]}).fit(frame)
