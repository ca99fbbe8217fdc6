"""A transformer of another package works in engines, files, audits, curves and statements; its fields are checked."""

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow.dataset as ds
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from skdp import PrivacyLedger, privacy_statement
from skdp.engines import privatize, tally
from skdp.local import Memo, ReportProtocol
from skdp.testing import check_privatizer
from tests.outside_transformer import OutsideField, OutsideTransformer

CATEGORIES = {"job": ["clerk", "nurse", "smith"], "sex": ["f", "m"]}
N = 5_000


def people(rows=N):
    numbers = np.random.default_rng(5)
    return pd.DataFrame({name: numbers.choice(values, rows) for name, values in CATEGORIES.items()})


def make_transformer(**parameters):
    return OutsideTransformer(**{"epsilon": 2.0, "categories": CATEGORIES, "random_state": 3} | parameters)


@pytest.mark.long
def test_outside_transformer_passes_the_contract():
    results = check_privatizer(OutsideTransformer(categories=CATEGORIES))
    assert set(results["status"]) <= {"passed", "skipped"}
    skipped = set(results.loc[results["status"] == "skipped", "check"])
    assert skipped <= {"check_channel"}, skipped


def test_protocol_reports_as_transform():
    fitted, frame = make_transformer().fit(people()), people()
    protocol = pickle.loads(pickle.dumps(fitted.protocol_))
    assert isinstance(protocol, ReportProtocol)
    reports = fitted.transform(frame)
    assert list(reports) == protocol.report_columns == list(fitted.get_feature_names_out())
    arrays = protocol.read(reports)
    assert all(map(np.array_equal, arrays, reports.to_numpy().T))
    truth = pd.concat([frame[name].value_counts() for name in CATEGORIES], keys=CATEGORIES)
    table = protocol.estimate(protocol.tally(arrays))
    assert (abs(table["count"] - truth.reindex(table.index)) < 5 * table["std_error"]).all()


def test_engines_accept_an_outside_transformer():
    dask = pytest.importorskip("dask.dataframe")
    table, sums = pl.from_pandas(people()), []
    for frame in (table.lazy(), ds.dataset(table.to_arrow()), dask.from_pandas(people(), npartitions=3)):
        ledger = PrivacyLedger(epsilon=5)
        fitted = make_transformer(ledger=ledger).fit(people(1))
        released = privatize(frame, fitted)
        assert ledger.spent.epsilon == fitted.guarantee_.epsilon
        sums.append(tally(released, fitted))
        assert sums[-1].n_reports == N
    # Dask does not number rows, so seeded reports depend on its partitions.
    assert all(map(np.array_equal, sums[0].sums(), sums[1].sums()))


def test_statement_trusts_outside_transformers_only_if_named():
    fitted = make_pipeline(make_transformer(), LogisticRegression()).fit(people(100), people(100)["sex"])
    assert "Unprotected columns: job, sex." in str(privacy_statement(fitted))
    assert "Unprotected columns: none." in str(privacy_statement(fitted, trusted=[OutsideTransformer]))


# Requirements of a protocol on the fields of another package.

TABLE = pd.DataFrame({"a": ["x", "y"]})


class TwoCodesField(OutsideField):
    def prepare(self, columns):
        return super().prepare(columns) * 2


def test_prepare_with_another_number_of_arrays_raises_an_error():
    made = type("Two", (OutsideTransformer,), {"field": TwoCodesField})(categories={"a": ["x", "y"]}).fit(TABLE)
    with pytest.raises(ValueError, match=r"TwoCodesField.prepare must return 1 array.*got 2"):
        made.transform(TABLE)


def test_guarantee_for_unreported_columns_raises_an_error():
    protocol = OutsideTransformer(categories={"a": ["x", "y"]}).fit(TABLE).protocol_
    with pytest.raises(ValueError, match=r"Only one of them has 'b'"):
        replace(protocol, guarantee=replace(protocol.guarantee, scope=("a", "b")))


def test_permanent_reports_of_two_fields_share_no_random_bits():
    """The context of a permanent report consists of class, parameters, columns and declared values."""
    (field,) = OutsideTransformer(categories={"a": ["x", "y"]}).fit(TABLE).protocol_.fields
    other_fields = [replace(field, columns=("b",)), replace(field, lie=field.lie + 1)]
    Memo(bytes(32), "Outside", [field, *other_fields])
    for other in (field, *other_fields):
        with pytest.raises(ValueError, match="of two fields must differ"):
            Memo(bytes(32), "Outside", [other, field, *other_fields])
