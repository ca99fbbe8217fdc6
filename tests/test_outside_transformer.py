"""A transformer from outside the package is treated as ours: engines, files, audits, curves and statements."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from skdp import PrivacyLedger, privacy_statement
from skdp.engines import privatize, privatize_file, tally
from skdp.evaluation import audit_epsilon, privacy_curve
from skdp.local import ReportProtocol
from skdp.testing import check_privatizer
from tests.outside_transformer import SaidTransformer

CATEGORIES = {"job": ["clerk", "nurse", "smith"], "sex": ["f", "m"]}
N = 5_000


def people(rows=N):
    numbers = np.random.default_rng(5)
    return pd.DataFrame({name: numbers.choice(values, rows) for name, values in CATEGORIES.items()})


def said(**parameters):
    return SaidTransformer(**{"epsilon": 2.0, "categories": CATEGORIES, "random_state": 3} | parameters)


def test_it_keeps_the_contract():
    results = check_privatizer(SaidTransformer())
    assert set(results["status"]) <= {"passed", "skipped"}
    skipped = set(results.loc[results["status"] == "skipped", "check"])
    assert skipped <= {"check_channel_keeps_the_guarantee", "check_reports_follow_the_channel"}, skipped


def test_its_protocol_does_what_transform_does():
    fitted, frame = said().fit(people()), people()
    protocol = pickle.loads(pickle.dumps(fitted.protocol_))
    assert isinstance(protocol, ReportProtocol)
    reports = fitted.transform(frame)
    assert list(reports) == protocol.report_columns == list(fitted.get_feature_names_out())
    arrays = protocol.read(reports)
    assert all(map(np.array_equal, arrays, reports.to_numpy().T))
    truth = pd.concat([frame[name].value_counts() for name in CATEGORIES], keys=CATEGORIES)
    table = protocol.estimate(protocol.tally(arrays))
    assert (abs(table["count"] - truth.reindex(table.index)) < 5 * table["std_error"]).all()


def frames(table, folder):
    dask = pytest.importorskip("dask.dataframe")
    duckdb = pytest.importorskip("duckdb")
    polars = pytest.importorskip("polars")
    yield table.to_pandas()
    yield polars.from_arrow(table).lazy()
    yield duckdb.from_arrow(table)
    yield ds.dataset(table)
    yield dask.from_pandas(table.to_pandas(), npartitions=3)


def test_engines_take_it(tmp_path):
    table, sums = pa.Table.from_pandas(people(), preserve_index=False), []
    for frame in frames(table, tmp_path):
        ledger = PrivacyLedger(epsilon=5)
        fitted = said(ledger=ledger).fit(people(1))
        released = privatize(frame, fitted)
        assert ledger.spent.epsilon == fitted.guarantee_.epsilon
        sums.append(tally(released, fitted))
        assert sums[-1].n_reports == N
    assert all(all(map(np.array_equal, one.sums(), sums[0].sums())) for one in sums)


def test_files_take_it(tmp_path):
    source, fitted = tmp_path / "people.parquet", said().fit(people(1))
    pq.write_table(pa.Table.from_pandas(people(), preserve_index=False), source)
    reports = pq.read_table(privatize_file(source, tmp_path / "reports.parquet", fitted))
    assert reports.column_names == fitted.protocol_.report_columns
    assert tally([reports], fitted).n_reports == N


def test_a_refusal_names_the_column_and_costs_nothing():
    ledger = PrivacyLedger(epsilon=5)
    fitted = said(ledger=ledger).fit(people(1))
    wrong = people(3).assign(sex=["f", "secret", "m"])
    for release in (lambda: privatize(pa.Table.from_pandas(wrong), fitted), lambda: fitted.transform(wrong)):
        with pytest.raises(ValueError, match="column 'sex' holds a value that is not declared") as caught:
            release()
        assert "secret" not in str(caught.value)
    assert ledger.spent.epsilon == 0


@pytest.mark.long
@pytest.mark.usefixtures("few_calls")
def test_it_is_audited():
    result = audit_epsilon(said(random_state=None), n_draws=5_000, random_state=0)
    assert result.passed
    assert result.epsilon_lower > 0.5


def test_it_has_a_privacy_curve():
    frame = people(600)
    model, y = make_pipeline(said(random_state=None), LogisticRegression()), frame["sex"] == "f"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        curve = privacy_curve(
            model, frame, y, param_name="saidtransformer__epsilon", epsilons=[0.5, 8.0], cv=2, baseline=None
        )
    assert curve is not None


def test_a_statement_believes_it_only_if_it_is_told_to():
    fitted = make_pipeline(said(), LogisticRegression()).fit(people(100), people(100)["sex"])
    assert "2 of 2 columns are released unprotected" in str(privacy_statement(fitted))
    assert "2 of 2 columns" not in str(privacy_statement(fitted, trusted=[SaidTransformer]))
