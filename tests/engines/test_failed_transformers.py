"""An outside author's transformer that fails, or their rows: the error says where, and shows no value."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from skdp import PrivacyLedger, RandomizedResponseEncoder
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


def fail_on_rows(rows):
    """Fail as what makes the rows of a lazy table may do; Dask calls it for no rows, too."""
    if len(rows):
        raise KeyError("SECRET")
    return rows


def failing_batches():
    yield ROWS.to_batches()[0]
    fail_on_rows(ROWS)


def failing_rows(kind, dask_frame):
    if kind == "polars":
        return pl.from_arrow(ROWS).lazy().map_batches(fail_on_rows)
    if kind == "dask":
        frame = dask_frame(ROWS)
        return frame.map_partitions(fail_on_rows, meta=frame._meta)
    return pa.RecordBatchReader.from_batches(ROWS.schema, failing_batches())


@pytest.mark.parametrize("kind", ["polars", "dask", "reader"])
def test_the_place_in_what_makes_the_rows_is_shown(kind, dask_frame):
    encoder = RandomizedResponseEncoder(categories={"it": ["SECRET", "other"]})
    expected = r"the table cannot be read \(KeyError: test_failed_transformers.py, line \d+, in fail"
    with pytest.raises(ValueError, match=expected) as caught:
        privatize(failing_rows(kind, dask_frame), encoder)
    assert "SECRET" not in repr(caught.value)
    assert pickle.loads(pickle.dumps(caught.value)).args == caught.value.args


def test_of_a_damaged_file_it_is_the_place_in_the_engine(tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(ROWS, path)
    content = bytearray(path.read_bytes())
    content[4:40] = bytes(36)
    path.write_bytes(content)
    encoder = RandomizedResponseEncoder(categories={"it": ["SECRET", "other"]})
    with pytest.raises(ValueError, match=r"cannot be read \(OSError: arrow.py, line \d+, in _parquet_batches\)"):
        privatize(ds.dataset(path), encoder)
