"""Privatization of batches on every engine with every transformer."""

import sys
from pathlib import Path

import duckdb
import narwhals.stable.v2 as nw
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from sklearn.exceptions import NotFittedError

from skdp import BudgetExceeded, Domain, PrivacyLedger, RandomizedResponseEncoder, SecretKey, UnaryEncodingTransformer
from skdp.engines import privatize, tally
from skdp.local import LocalHashingEncoder, NumericPerturber, OnFitOnly, PosteriorFeatures, RapporEncoder
from tests.conftest import often
from tests.engines.tables import DOMAIN, encoder
from tests.errors import refusal

pytestmark = pytest.mark.filterwarnings("ignore:the reports are computed again")


def perturber(**params):
    return NumericPerturber(**{"bounds": {"size": (0, 3)}, "grid_size": 16, "random_state": 0} | params)


def rappor(**params):
    made = RapporEncoder(**{"epsilon": 2.0, "n_bits": 8, "random_state": 0} | params)
    return made.fit(pd.DataFrame({"size": [0]}))


MAKERS = {
    "values": encoder,
    "joint": lambda **params: encoder(strategy="joint", **params),
    "sample": lambda **params: encoder(strategy="sample", **params),
    "bits": lambda **params: UnaryEncodingTransformer(categories=DOMAIN, **{"random_state": 0} | params),
    "hashes": lambda **params: LocalHashingEncoder(categories=DOMAIN, **{"random_state": 0} | params),
    "numbers": perturber,
    "words": rappor,
}


@pytest.fixture(params=often(MAKERS, ["values", "bits", "numbers", "words"]))
def make(request):
    return MAKERS[request.param]


def reports_of(table):
    return table.drop_columns("number") if "number" in table.column_names else table


def test_seeded_reports_are_equal_on_every_engine(every_engine, make, people):
    """The tally equals the tally of the rows, too."""
    fitted, expected = make(), privatize(people, make(), keep=["number"])
    found = every_engine.table(privatize(every_engine.frame(people), fitted, keep=["number"]))
    assert found.column_names == expected.column_names
    assert found["number"].to_pylist() == people["number"].to_pylist()
    assert found.num_rows == people.num_rows
    if not every_engine.has_partitions:
        assert found.to_pydict() == expected.to_pydict()
    tallied = tally(every_engine.frame(found), fitted)
    assert tallied == fitted.tally(reports_of(found))
    assert tallied.n_reports == people.num_rows


def test_ledger_is_charged_once(engine, make, people):
    fitted = make(ledger=PrivacyLedger(epsilon=1e9))
    privatize(engine.frame(people), fitted)
    spent = fitted.ledger.spent.epsilon
    assert spent == pytest.approx(fitted.guarantee_.epsilon)
    with pytest.raises(BudgetExceeded):
        privatize(engine.frame(people), make(ledger=PrivacyLedger(epsilon=spent / 2)))
    assert len(fitted.ledger.charges()) == 1


def test_table_is_not_read_without_budget(people):
    def explode(frame):
        raise AssertionError("read")

    lazy = pl.from_arrow(people).lazy().map_batches(explode, schema=pl.from_arrow(people).schema)
    with pytest.raises(BudgetExceeded):
        privatize(lazy, encoder(ledger=PrivacyLedger(epsilon=0.5)))


@pytest.mark.parametrize("bad", [None, float("nan"), float("inf")])
def test_invalid_number_or_missing_word_raises_before_charge(lazy_engine, bad, tmp_path):
    frame = lazy_engine.frame(pa.table({"size": [12.5] * 9_999 + [bad]}))
    with refusal(ValueError, "Column 'size' contains a missing value, NaN or infinity", "12.5"):
        privatize(frame, perturber(), path=tmp_path / "out")
    if bad != float("inf"):
        with pytest.raises(ValueError, match="Column 'size' contains missing values"):
            privatize(frame, rappor(), path=tmp_path / "out")
    assert not list(tmp_path.rglob("*.parquet"))


@pytest.mark.parametrize(
    ("make", "invalid", "match"),
    [
        (encoder, {"color": ["red", "SECRET"], "size": [0, 0]}, "Column 'color' must contain reports of this encoder"),
        (perturber, {"size": [12.3456]}, "Column 'size' must contain reports of this transformer"),
        (rappor, {"size_cohort": [77]}, "Column 'size_cohort' must have integers"),
    ],
)
def test_invalid_report_raises_an_error_without_its_value(engine, people, make, invalid, match):
    fitted = make()
    released = privatize(people.slice(0, len(next(iter(invalid.values())))), fitted)
    for name, values in invalid.items():
        released = released.set_column(released.column_names.index(name), name, pa.array(values))
    with refusal(ValueError, match, "SECRET", "12.3456"):
        tally(engine.frame(released), fitted)


def test_table_without_rows_gives_no_reports(engine, make, people):
    fitted = make()
    found = engine.table(privatize(engine.frame(people.slice(0, 0)), fitted, keep=["number"]))
    assert (found.num_rows, found.column_names) == (0, [*fitted.get_feature_names_out(), "number"])
    with pytest.raises(ValueError, match="0 sample"):
        tally(engine.frame(reports_of(found)), fitted)


def test_columns_without_declared_names_exclude_kept_columns(people):
    sizes = people.select(["size", "number"])
    fitted = perturber(bounds=(0, 3))
    assert privatize(sizes, fitted, keep=["number"]).column_names == ["size", "number"]
    assert fitted.guarantee_.scope == ("size",)
    words = RapporEncoder(n_bits=8, secret_key=SecretKey(bytes(32)))
    privatize(sizes, words, person="number")
    assert words.guarantee_.scope == ("size",)
    with pytest.raises(ValueError, match="`bounds` must be"):
        privatize(people, perturber(bounds=None))


def test_declared_values_are_not_read_from_the_rows(engine, people):
    with pytest.raises(ValueError, match="`categories` must be a dict or a Domain for a table that is not in memory"):
        privatize(engine.frame(people), encoder(categories="auto"))
    with pytest.raises(ValueError, match="which name the columns"):
        privatize(engine.frame(people), encoder(categories=[["red"], [0, 1]]))


def test_dictionaries_may_differ_between_batches(people):
    halves = [
        pa.record_batch({"d": pa.DictionaryArray.from_arrays(pa.array([0, 1, None], pa.int8()), values)})
        for values in (["a", "b"], ["b", "c"])
    ]
    domain = {"d": ["a", "b", "c", None]}
    fitted = RandomizedResponseEncoder(50.0, categories=domain, random_state=0)  # nearly always truthful
    table = privatize(ds.InMemoryDataset(halves), fitted).to_table()
    assert table["d"].to_pylist() == ["a", "b", None, "b", "c", None]
    assert tally(ds.dataset(table), fitted).counts[0].tolist() == [1, 2, 1, 2]


def test_empty_partitions_are_privatized(dask_frame, people):
    frame = dask_frame(people, 4)
    empty = people.to_pandas()[:0]
    pieces = frame.map_partitions(
        lambda part, partition_info=None: empty if partition_info["number"] % 2 else part, meta=frame._meta
    )
    fitted = encoder()
    released = privatize(pieces, fitted)
    assert tally(released, fitted).n_reports == len(released) == people.num_rows // 2
    fitted.estimate_counts(
        released.compute()
    )  # the metadata of a partition differs from the table, which would raise a warning


def test_reports_are_parquet_and_other_suffixes_raise_an_error(people, tmp_path):
    with pytest.raises(ValueError, match=r"`path` must end in \.parquet, .* Use `privatize_file`"):
        privatize(pl.from_arrow(people).lazy(), encoder(), path=tmp_path / "reports.csv")


def test_absent_columns_of_a_domain_are_ignored(people):
    declared = {name: DOMAIN[name] for name in DOMAIN.columns}
    domain = Domain({**declared, "absent": ["a", "b"]})
    frame = pl.from_arrow(people).lazy()
    found = privatize(frame, RandomizedResponseEncoder(1.0, categories=domain, random_state=0))
    assert found.collect_schema().names() == list(DOMAIN.columns)
    with pytest.raises(ValueError, match="neither privatized"):
        privatize(frame, RandomizedResponseEncoder(1.0, categories=domain), keep=list(DOMAIN.columns)[:1])


def test_existing_file_is_not_overwritten(lazy_engine, people, tmp_path):
    (tmp_path / "out").write_text("mine")
    with pytest.raises(FileExistsError):
        privatize(lazy_engine.frame(people), encoder(ledger=PrivacyLedger(epsilon=0.001)), path=tmp_path / "out")
    assert (tmp_path / "out").read_text() == "mine"
    if lazy_engine.name != "spark":  # Spark makes folders, and may write to a bucket.
        with pytest.raises(FileNotFoundError):
            privatize(lazy_engine.frame(people), encoder(), path=tmp_path / "no" / "out")


NOT_LAZY = [pd.DataFrame({"color": ["red"]}), pl.DataFrame({"color": ["red"]})]
NO_TABLES = [[[1]], None, pa.array([1]), pl.Series([1])]


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        *((frame, "For a table in memory, use `fit_transform` of the transformer") for frame in NOT_LAZY),
        *((nw.from_native(frame), r"Use frame\.to_native\(\)") for frame in (NOT_LAZY[0], NOT_LAZY[1].lazy())),
        (pa.RecordBatch.from_pylist([{"color": "red"}]), r"Use pyarrow\.table\(frame\)"),
        (NOT_LAZY[0].to_numpy(), "For an array, use `fit_transform`"),
        (duckdb.connect(), "`frame` must be"),
        (3, r"`frame` must be .*, got int\.$"),
        *((frame, "`frame` must be") for frame in NO_TABLES),
        *((path, "For files, use `privatize_file` and") for path in ("in.parquet", Path("in.parquet"))),
    ],
)
def test_unsupported_tables_raise_an_error(frame, message):
    with pytest.raises(TypeError, match=message):
        privatize(frame, encoder())
    if not isinstance(frame, pd.DataFrame | pl.DataFrame | list):
        with pytest.raises(TypeError, match=message):
            tally(frame, encoder().fit(pa.table({"color": ["red"], "size": [0]})))


@pytest.mark.parametrize("method", ["estimate_counts", "debias", "tally"])
def test_reports_of_an_engine_are_tallied(lazy_engine, people, method):
    """The reports would be randomized again by `privatize`."""
    made = encoder().fit(people.select(list(DOMAIN.columns)))
    frame = lazy_engine.frame(made.transform(people.select(list(DOMAIN.columns))))
    with pytest.raises(TypeError, match=r"`reports` must be in memory, got \w+ \(\w+\)\. Use `skdp\.engines\.tally`"):
        getattr(made, method)(frame)


def test_transformers_without_batches_raise_an_error(people):
    for other in (OnFitOnly(encoder()), PosteriorFeatures(encoder()), "encoder", RandomizedResponseEncoder):
        with pytest.raises(TypeError, match=r"`transformer` must"):
            privatize(people, other)
    with pytest.raises(NotFittedError):
        tally(people, encoder())


def test_unknown_or_repeated_column_names_raise_an_error(people):
    fitted = encoder().fit(people.select(["color", "size"]))
    with pytest.raises(ValueError, match=r"`reports` must have the columns .*, got \['age'\]"):
        tally(pa.table({"age": [1]}), fitted)
    table = pa.table({"a": ["x"], "a_x": [1]})
    with pytest.raises(ValueError, match="nor named as a report, got"):
        privatize(table, UnaryEncodingTransformer(categories={"a": ["x", "y"]}), keep=["a_x"])


def test_variable_of_the_user_is_not_read_as_the_reports():
    """DuckDB searches Python variables for names of tables."""
    connection = duckdb.connect()
    for name in ("stored", "tables", "skdp_rows"):
        connection.execute(f"CREATE TABLE {name} AS SELECT 'yes' AS smokes FROM range(1000)")
        fitted = RandomizedResponseEncoder(0.1, categories={"smokes": ["yes", "no"]})
        released = privatize(connection.sql(f"SELECT * FROM {name}"), fitted)
        assert 300 < released.filter("smokes = 'no'").count("*").fetchall()[0][0] < 700  # false alarm: 1e-20


def test_batches_are_tallied_one_by_one(people):
    fitted = encoder()
    released = privatize(people, fitted)
    batches = [released.slice(0, 0), released.slice(0, 7).to_pandas(), pl.from_arrow(released.slice(7))]
    assert tally(iter(batches), fitted) == fitted.tally(released)
    with pytest.raises(ValueError, match="0 sample"):
        tally([], fitted)


@pytest.mark.skipif(sys.platform != "linux", reason="root writes to all folders except /sys")
def test_output_that_cannot_be_written_raises_before_charge(lazy_engine, people, tmp_path):
    if lazy_engine.name == "spark":
        pytest.skip("Spark commits its files, on any machine")
    (tmp_path / ".busy.parquet.partial").touch()
    for path in ("/sys/reports.parquet", tmp_path / "busy.parquet"):
        with refusal(OSError, r"Permission denied|two processes|Operation not permitted") as ledger:
            privatize(lazy_engine.frame(people), encoder(ledger=ledger), path=path)


def test_kept_dictionaries_contain_their_rows_only():
    notes = pa.array(["a", "of another row"]).dictionary_encode().slice(0, 1)
    reports = privatize(pa.table({"color": ["red"], "size": [0], "note": notes}), encoder(), keep=["note"])
    assert reports["note"].type == pa.string()
    assert reports["note"].to_pylist() == ["a"]
