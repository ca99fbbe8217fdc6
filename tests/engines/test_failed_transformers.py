"""An outside author's transformer that fails: the error says where, and shows no value."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from skdp import PrivacyLedger
from skdp.engines import privatize
from tests.outside_transformer import SaidField, SaidTransformer

ROWS = pa.table({"it": ["SECRET", "other"] * 5})


class Fails(SaidField):
    def fail(self, columns):
        raise KeyError(next(iter(columns[0])))


class FailsToPrepare(Fails):
    def prepare(self, columns):
        if len(columns[0]):
            self.fail(columns)
        return super().prepare(columns)


class FailsToWrite(Fails):
    def write(self, reports, like, drawn):
        if len(like[0]):
            self.fail(like)
        return super().write(reports, like, drawn)


class FailsToRandomise(Fails):
    def report(self, codes, randomness):
        if len(codes[0]):
            raise ArithmeticError("SECRET")
        return super().report(codes, randomness)


class FailsAtOnce(Fails):
    def report(self, codes, randomness):
        return np.no_such_function(codes)


def transformer(field, ledger=None):
    outside = type("Outside", (SaidTransformer,), {"field": field, "__module__": __name__})
    return outside(categories={"it": ["SECRET", "other"]}, ledger=ledger).fit(pd.DataFrame({"it": ["other"]}))


@pytest.mark.parametrize(
    ("field", "where"),
    [
        (FailsToPrepare, "FailsToPrepare.prepare failed: KeyError (test_failed_transformers.py, line "),
        (FailsToRandomise, "FailsToRandomise.report failed: ArithmeticError (test_failed_transformers.py, line "),
        (FailsToWrite, "FailsToWrite.write failed: KeyError (test_failed_transformers.py, line "),
    ],
    ids=["prepare", "randomise", "write"],
)
def test_the_kind_and_the_place_are_shown_and_no_value(every_engine, field, where):
    with pytest.raises(RuntimeError) as caught:
        privatize(every_engine.frame(ROWS), transformer(field))
    assert where in str(caught.value)
    assert "SECRET" not in repr(caught.value)
    assert caught.value.__cause__ is caught.value.__context__ is None


def test_a_fault_that_needs_no_rows_is_shown_with_its_cause(engine):
    ledger = PrivacyLedger(epsilon=9.0)
    expected = r"FailsAtOnce.report failed: AttributeError \(test_failed.*, in report\): .*no_such_function"
    with pytest.raises(RuntimeError, match=expected) as caught:
        privatize(engine.frame(ROWS), transformer(FailsAtOnce, ledger))
    assert isinstance(caught.value.__cause__, AttributeError)
    assert ledger.spent == (0, 0)
