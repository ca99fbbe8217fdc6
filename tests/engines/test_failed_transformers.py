"""An outside author's transformer that fails: the error says where, and shows no value."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from skdp import PrivacyLedger
from skdp.engines import privatize
from tests.outside_transformer import SaidProtocol, SaidTransformer

ROWS = pa.table({"it": ["SECRET", "other"] * 5})


class Fails(SaidProtocol):
    def fail(self, table):
        raise KeyError(next(iter(table.columns[0])))


class FailsToPrepare(Fails):
    def prepare(self, table):
        if len(table.columns[0]):
            self.fail(table)
        return super().prepare(table)


class FailsToWrite(Fails):
    def write(self, reports, table):
        if len(table.columns[0]):
            self.fail(table)
        return super().write(reports, table)


class FailsToRandomise(Fails):
    def randomise(self, codes, records, randomness):
        if len(codes[0]):
            raise ArithmeticError("SECRET")
        return super().randomise(codes, records, randomness)


class FailsAtOnce(Fails):
    def randomise(self, codes, records, randomness):
        return np.no_such_function(codes)


class Outside(SaidTransformer):
    protocol = SaidProtocol

    def _make_protocol(self, table):
        protocol = super()._make_protocol(table)
        object.__setattr__(protocol, "__class__", self.protocol)
        return protocol


def transformer(protocol, ledger=None):
    outside = type("Outside", (Outside,), {"protocol": protocol, "__module__": __name__})
    return outside(categories={"it": ["SECRET", "other"]}, ledger=ledger).fit(pd.DataFrame({"it": ["other"]}))


@pytest.mark.parametrize(
    ("protocol", "where"),
    [
        (FailsToPrepare, "FailsToPrepare.prepare failed: KeyError (test_failed_transformers.py, line "),
        (FailsToRandomise, "FailsToRandomise.randomise failed: ArithmeticError (test_failed_transformers.py, line "),
        (FailsToWrite, "FailsToWrite.write failed: KeyError (test_failed_transformers.py, line "),
    ],
    ids=["prepare", "randomise", "write"],
)
def test_the_kind_and_the_place_are_shown_and_no_value(every_engine, protocol, where):
    with pytest.raises(RuntimeError) as caught:
        privatize(every_engine.frame(ROWS), transformer(protocol))
    assert where in str(caught.value)
    assert "SECRET" not in repr(caught.value)
    assert caught.value.__cause__ is caught.value.__context__ is None


def test_a_fault_that_needs_no_rows_is_shown_with_its_cause(engine):
    ledger = PrivacyLedger(epsilon=9.0)
    expected = r"FailsAtOnce.randomise failed: AttributeError \(test_failed.*, in randomise\): .*no_such_function"
    with pytest.raises(RuntimeError, match=expected) as caught:
        privatize(engine.frame(ROWS), transformer(FailsAtOnce, ledger))
    assert isinstance(caught.value.__cause__, AttributeError)
    assert ledger.spent == (0, 0)
