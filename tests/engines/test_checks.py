"""Checks before a release is charged; nothing is released twice, and no error contains a value of a row."""

import dask.dataframe as dd
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from skdp import DPHistogram, PrivacyLedger, RandomizedResponseEncoder, UnaryEncodingTransformer
from skdp.engines import privatize, privatize_file, tally
from skdp.local import LocalHashingEncoder, NumericPerturber, RapporEncoder, SecretKey
from skdp.testing import list_error_texts
from tests.conftest import often
from tests.errors import refusal
from tests.outside_transformer import OutsideField, OutsideTransformer

COLORS = {"color": ["red", "green"]}
STRANGE = pa.table({"color": ["red"] * 999 + ["SECRET"]})


def encoder(**params):
    return RandomizedResponseEncoder(**{"epsilon": 1.0, "categories": COLORS} | params)


def test_error_closes_the_reader_of_a_connection():
    connection = duckdb.connect()
    frame = connection.sql("SELECT CASE WHEN range = 5 THEN 'SECRET' ELSE 'red' END AS color FROM range(2000000)")
    for use in (lambda: privatize(frame, encoder()), lambda: tally(frame, encoder().fit(pa.table({"color": ["red"]})))):
        with pytest.raises(ValueError, match="olumn 'color' ") as caught:
            use()
        assert connection.sql("SELECT 1").fetchall() == [(1,)]  # while the error is referenced
        assert not any("SECRET" in text for text in list_error_texts(caught.value))


def test_ledger_set_after_fit_is_refused(tmp_path):
    rows = pa.table({"color": ["red", "green"] * 5})
    pq.write_table(rows, tmp_path / "in.parquet")
    fitted = encoder().fit(rows)
    for use in (
        lambda: fitted.transform(rows),
        lambda: privatize(pl.from_arrow(rows).lazy(), fitted),
        lambda: privatize_file(tmp_path / "in.parquet", tmp_path / "out.csv", fitted),
    ):
        with refusal(ValueError, "`ledger` was set after fit", folder=tmp_path) as ledger:
            fitted.set_params(ledger=ledger)
            use()


def test_stored_table_may_be_in_any_order(tmp_path):
    """A table with another order of its rows at each evaluation."""
    orders = map(np.random.default_rng(0).permutation, [1_000] * 9)
    rows = pl.DataFrame({"number": range(1_000), "color": ["red", "green"] * 500})
    frame = rows.lazy().map_batches(lambda frame: frame[next(orders)], schema=rows.schema)
    for path in (None, tmp_path / "out.parquet"):
        released = privatize(frame, encoder(), keep=["number"], path=path)
        assert sorted(released.collect()["number"]) == list(range(1_000))
        assert released.collect().equals(released.collect())


# Errors of reading.


def _of_csv(folder):
    (folder / "in.csv").write_text("color,age\n" + "red,1\n" * 5_000 + "SECRET,31337x\n")
    return folder / "in.csv"


COLUMNS = "{'color': 'VARCHAR', 'age': 'BIGINT'}"
SCHEMA = pa.schema({"color": pa.string(), "age": pa.int64()})


def read_with_dask(folder):
    frame = dd.from_pandas(pd.DataFrame({"color": ["SECRET"] * 4}), npartitions=2)
    meta = {"color": "str", "age": "int64"}
    return frame.map_partitions(lambda part: part.assign(age=part["color"].astype(int)), meta=meta)


UNREADABLE = {
    "polars": lambda folder: pl.scan_csv(_of_csv(folder), schema={"color": pl.String, "age": pl.Int64}),
    "duckdb": lambda folder: duckdb.sql(f"SELECT * FROM read_csv('{_of_csv(folder)}', columns={COLUMNS})"),
    "dataset": lambda folder: ds.dataset(_of_csv(folder), format="csv", schema=SCHEMA),
    "dask": read_with_dask,
}


def perturber(**params):
    return NumericPerturber(1.0, bounds={"age": (0, 100)}, **params)


def fit_transformer(transformer, names):
    return transformer.fit(pd.DataFrame({"color": ["red"], "age": [1]})[names])


USES = {
    "checked": lambda frame, folder: privatize(frame, perturber()),
    "written": lambda frame, folder: privatize(frame, perturber(), path=folder / "out"),
    "ids": lambda frame, folder: privatize(frame, encoder(memoize=True, secret_key=SecretKey.generate()), person="age"),
    "tallied": lambda frame, folder: tally(frame, fit_transformer(perturber(), ["age"])),
    "grouped": lambda frame, folder: tally(frame, fit_transformer(encoder(categories={"age": [1, 2]}), ["age"])),
    "counted": lambda frame, folder: DPHistogram(domain={"color": ["red", "SECRET"], "age": [1, 2]}).fit(frame),
}


@pytest.mark.parametrize("use", often(USES, ["checked", "ids", "grouped"]))
@pytest.mark.parametrize("engine_name", UNREADABLE)
def test_error_of_reading_contains_no_value(engine_name, use, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    frame = UNREADABLE[engine_name](tmp_path / "in")
    with refusal(ValueError, "cannot be read", "SECRET", "31337", folder=tmp_path):
        USES[use](frame, tmp_path / "out")


def test_error_of_a_schema_contains_no_value(tmp_path):
    (tmp_path / "in.ndjson").write_text("SECRET\n")
    columns = pl.LazyFrame({"age": ["SECRET"]}).select(pl.lit("SECRET").cast(pl.Float64))
    for frame in (pl.scan_ndjson(tmp_path / "in.ndjson"), columns):
        with refusal(ValueError, "cannot be read", "SECRET", "'S'"):
            DPHistogram(domain={"age": [1, 2]}).fit(frame)


# Transformers of other packages.


class Fails(OutsideField):
    """A field that raises an error in `method` if there are rows."""

    method = "prepare"

    def prepare(self, columns):
        self.fail("prepare", columns)
        return super().prepare(columns)

    def report(self, codes, randomness):
        self.fail("report", codes)
        return super().report(codes, randomness)

    def write(self, reports, like, drawn):
        self.fail("write", like)
        return super().write(reports, like, drawn)

    def fail(self, method, columns):
        if method == self.method and len(columns[0]):
            raise KeyError("SECRET")


class FailsAtOnce(OutsideField):
    def report(self, codes, randomness):
        return np.no_such_function(codes)


def fit_outside_transformer(field, ledger=None):
    kind = type("Outside", (OutsideTransformer,), {"field": field, "__module__": __name__})
    return kind(categories=COLORS, ledger=ledger).fit(pd.DataFrame({"color": ["red"]}))


@pytest.mark.parametrize("method", ["prepare", "report", "write"])
def test_error_of_an_outside_transformer_contains_no_value(engine, method):
    field = type("Field", (Fails,), {"method": method})
    # Spark returns the text of an error of a task without its type. The text is not shown.
    cause = "PythonException" if engine.name == "spark" else "KeyError"
    with refusal(ValueError, rf"cannot be read or privatized \({cause}\)", "SECRET"):
        privatize(engine.frame(STRANGE[:9]), fit_outside_transformer(field))


def test_error_without_rows_is_raised_before_the_charge(engine):
    with refusal(AttributeError, "no_such_function") as ledger:
        privatize(engine.frame(STRANGE), fit_outside_transformer(FailsAtOnce, ledger))


# Pickles that are sent to workers.

KEY = b"the key of permanent reports...."
PERMANENT = {"memoize": True, "secret_key": KEY}


@pytest.mark.parametrize(
    "transformer",
    [
        encoder(**PERMANENT),
        UnaryEncodingTransformer(1.0, categories=COLORS, **PERMANENT),
        LocalHashingEncoder(1.0, categories=COLORS, **PERMANENT),
        NumericPerturber(1.0, mechanism="square_wave", bounds={"color": (0, 9)}, **PERMANENT),
        RapporEncoder(1.0, secret_key=KEY),
    ],
)
def test_pickles_for_workers_contain_no_key_and_no_ledger(transformer, dask_frame, sent_to_workers):
    sent_to_workers.clear()
    transformer.ledger = PrivacyLedger(epsilon=10)  # in memory: it cannot be pickled
    values = [1.0, 2.0] if isinstance(transformer, NumericPerturber) else ["red", "green"]
    table = pa.table({"color": values * 5, "who": range(10)})
    transformer.fit(table.select(["color"]))
    reports = privatize(dask_frame(table), transformer, person="who")
    found = tally(reports, transformer)
    check, draw, count = sent_to_workers
    assert KEY not in check + count
    assert KEY in draw
    assert found == transformer.tally(reports.compute())
