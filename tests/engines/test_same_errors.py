"""A value that is not declared, in one partition: one clear error everywhere, which shows it nowhere."""

import logging
from datetime import date
from itertools import cycle, product

import pyarrow as pa
import pytest

from skdp import DPHistogram, DPMarginalSynthesizer, DPSimpleImputer, PrivacyLedger, RandomizedResponseEncoder
from skdp.engines import privatize, tally
from tests.engines.tables import everything_said

pytestmark = pytest.mark.filterwarnings("ignore:the reports are computed again")

ROWS = 3_000
# Declared values, and one that is not.
VALUES = {
    "text": (["red", "green"], "SECRET"),
    "date": ([date(2020, 1, 1), date(2020, 1, 2)], date(1987, 6, 5)),
}
SHOWN = ("SECRET", "1987")


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
