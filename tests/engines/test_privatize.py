"""What holds for every engine."""

import warnings

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from skdp import (
    BudgetExceeded,
    Domain,
    PrivacyLeakWarning,
    PrivacyLedger,
    RandomizedResponseEncoder,
    SecretKey,
    UnaryEncodingTransformer,
)
from skdp.engines import privatize, tally, tally_batches
from skdp.local import LocalHashingEncoder, OnFitOnly, PosteriorFeatures
from tests.conftest import each

pytestmark = pytest.mark.filterwarnings("ignore:the reports are computed again")

DOMAIN = Domain({"color": ["red", "green", "blue", "unused", None], "size": [0, 1, 2, 3]})
# Dask's own, of pandas 3.1.
DASK_READS_PARQUET = pytest.mark.filterwarnings("ignore:The inplace keyword:DeprecationWarning")


def encoder(**params):
    return RandomizedResponseEncoder(**{"epsilon": 1.0, "categories": DOMAIN, "random_state": 0} | params)


def reports_of(frame):
    return frame.select(["color", "size"])


def test_a_seeded_release_is_the_same_on_every_engine(engine, people):
    expected = privatize(people, encoder())
    found = engine.table(privatize(engine.frame(people), encoder()))
    assert found.column_names == ["color", "size"]
    assert found.to_pydict() == expected.to_pydict()


def test_a_release_hides_and_nulls_are_values(engine, people):
    found = engine.table(privatize(engine.frame(people), encoder()))
    truth = reports_of(people).to_pydict()
    for name, values in found.to_pydict().items():
        assert len(values) == people.num_rows
        assert set(values) == set(DOMAIN[name].values)  # the unused one too
        assert values != truth[name]


@pytest.mark.parametrize("make", [encoder, lambda **p: encoder(strategy="joint", **p)])
def test_tallies_are_those_of_the_rows(engine, people, make):
    fitted = make()
    released = privatize(engine.frame(people), fitted)
    table = engine.table(released)
    found = tally(engine.frame(table), fitted)
    assert found == fitted.tally(table)
    assert found.n_reports == people.num_rows
    assert fitted.estimate_counts(found).equals(fitted.estimate_counts(table))


@pytest.mark.parametrize(
    "make",
    [
        lambda: encoder(strategy="sample"),
        lambda: UnaryEncodingTransformer(categories=DOMAIN, random_state=0),
        lambda: LocalHashingEncoder(categories=DOMAIN, random_state=0),
    ],
)
def test_reports_that_are_no_values_are_tallied_too(engine, people, make):
    fitted = make()
    released = engine.table(privatize(engine.frame(people), fitted))
    assert tally(engine.frame(released), fitted) == fitted.tally(privatize(people, make()))


def test_a_tally_reads_what_privatize_gave_and_ignores_other_columns(engine, people):
    fitted = encoder()
    released = privatize(engine.frame(people), fitted, keep=["number"])
    assert tally(released, fitted).n_reports == people.num_rows


def test_columns_are_kept_only_when_asked_for(engine, people):
    found = engine.table(privatize(engine.frame(people), encoder(), keep=["number"]))
    assert found.column_names == ["color", "size", "number"]
    assert found["number"].to_pylist() == people["number"].to_pylist()


@DASK_READS_PARQUET
@pytest.mark.parametrize("stored", ["memory", "file"])
def test_two_uses_of_a_secure_release_give_the_same_reports(lazy_engine, people, stored, tmp_path):
    path = None if stored == "memory" else tmp_path / "out"
    released = privatize(lazy_engine.frame(people), encoder(random_state=None), path=path)
    first, second = lazy_engine.table(released), lazy_engine.table(released)
    assert first.equals(second)
    assert first.num_rows == people.num_rows
    assert not reports_of(first).equals(reports_of(people))


def test_so_do_two_evaluations_of_one_that_is_not_persisted(lazy_engine, people):
    engine = lazy_engine
    if engine.name not in ("polars_lazy", "dask"):
        return  # they have no release that is evaluated twice
    released = privatize(engine.frame(people), encoder(random_state=None), persist=False)
    assert engine.table(released).equals(engine.table(released))


def test_calls_have_coins_of_their_own(engine, people):
    fitted = encoder(random_state=None)
    first, second = (engine.table(privatize(engine.frame(people), fitted)) for _ in range(2))
    assert not first.equals(second)  # 10,000 equal reports: never


def test_batches_and_partitions_have_coins_of_their_own(engine):
    """Equal rows everywhere: equal coins would give equal reports (false alarm: 2**-30000)."""
    rows = 600_000 if engine.name in ("polars_lazy", "dataset", "reader", "duckdb") else 90_000
    table = pa.table({"answer": pa.array(["yes"] * rows)})
    fitted = RandomizedResponseEncoder(0.1, categories={"answer": ["yes", "no"]})
    reports = engine.table(privatize(engine.frame(table), fitted))["answer"].to_numpy()
    for cut in (rows // 3, rows - 25_000, 1 << 18, 30_000):
        assert cut > rows - 25_000 or not (reports[:25_000] == reports[cut : cut + 25_000]).all()


def test_the_ledger_is_charged_once(engine, people):
    ledger = PrivacyLedger(epsilon=1.5)
    fitted = encoder(ledger=ledger)
    privatize(engine.frame(people), fitted)
    assert ledger.spent.epsilon == fitted.guarantee_.epsilon
    with pytest.raises(BudgetExceeded):
        privatize(engine.frame(people), fitted)
    assert len(ledger.report()) == 1


def test_without_budget_nothing_is_read(people):
    def explode(frame):
        raise AssertionError("read")

    lazy = pl.from_arrow(people).lazy().map_batches(explode, schema=pl.from_arrow(people).schema)
    with pytest.raises(BudgetExceeded):
        privatize(lazy, encoder(ledger=PrivacyLedger(epsilon=0.5)))


@pytest.mark.parametrize("stored", ["memory", "file"])
def test_an_unseen_value_is_one_clear_error_and_leaves_nothing(lazy_engine, people, stored, tmp_path):
    strange = pa.table({"color": ["red"] * 299_999 + ["SECRET"], "size": [0] * 300_000})
    path = None if stored == "memory" else tmp_path / "out"
    with pytest.raises(ValueError, match="column 'color' holds a value") as caught:
        privatize(lazy_engine.frame(strange), encoder(), path=path)
    assert "SECRET" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_stranger_among_reports_is_refused(engine):
    fitted = encoder()
    fitted.fit(pa.table({"color": ["red"], "size": [0]}))
    strange = pa.table({"color": ["red", "SECRET"], "size": [0, 0]})
    with pytest.raises(ValueError, match="column 'color' holds a value") as caught:
        tally(engine.frame(strange), fitted)
    assert "SECRET" not in str(caught.value)


def test_reports_of_another_encoder_are_refused(engine, people):
    with pytest.raises(ValueError, match="have the columns"):
        tally(engine.frame(people), UnaryEncodingTransformer(categories=DOMAIN).fit(people.select(["color", "size"])))


def test_no_rows_give_no_reports(engine, people):
    fitted = encoder()
    released = privatize(engine.frame(people.slice(0, 0)), fitted, keep=["number"])
    found = engine.table(released)
    assert (found.num_rows, found.column_names) == (0, ["color", "size", "number"])
    with pytest.raises(ValueError, match="0 sample"):
        tally(engine.frame(reports_of(found)), fitted)


def test_handle_unknown_is_heeded(engine):
    strange = pa.table({"color": ["red", "purple"] * 500, "size": [0, 9] * 500})
    fitted = encoder(handle_unknown="uniform")
    found = engine.table(privatize(engine.frame(strange), fitted))
    assert found.to_pydict() == privatize(strange, encoder(handle_unknown="uniform")).to_pydict()
    assert tally(engine.frame(found), fitted).n_reports == 1000


# Fitting


def test_what_is_declared_is_fitted_without_a_row(engine, people):
    fitted = encoder()
    privatize(engine.frame(people), fitted)
    assert fitted.domain_ == DOMAIN
    assert list(fitted.feature_names_in_) == ["color", "size"]


def test_a_transformer_that_is_fitted_stays_as_it_is(engine, people):
    fitted = encoder().fit(people.select(["color", "size"]))
    guarantee = fitted.guarantee_
    privatize(engine.frame(people), fitted)
    assert fitted.guarantee_ is guarantee


def test_values_are_never_read_from_the_rows(engine, people):
    with pytest.raises(ValueError, match="are not read from a large table"):
        privatize(engine.frame(people), encoder(categories="auto"))
    with pytest.raises(ValueError, match="declare them by name"):
        privatize(engine.frame(people), encoder(categories=[["red"], [0, 1]]))


@pytest.mark.parametrize("values", [["a", "b"], ["a", "b", "unused"]])
def test_sorted_categories_may_be_of_the_rows_and_no_row_is_read_to_find_out(values):
    frame = pd.DataFrame({"color": pd.Categorical(["b", "a"] * 10, values)})
    with pytest.warns(PrivacyLeakWarning, match="'color' are read from the data"):
        privatize(frame, RandomizedResponseEncoder())
    permanent = RandomizedResponseEncoder(memoize=True, secret_key=SecretKey.generate())
    with pytest.raises(ValueError, match=r"the values of the columns \['color'\] are not declared"):
        privatize(frame.assign(id=range(20)), permanent, record_id="id")
    privatize(frame.assign(color=frame["color"].cat.as_ordered()), RandomizedResponseEncoder())


@pytest.mark.parametrize("name", ["polars_lazy", "dask", "pandas"])
def test_dtypes_that_carry_values_are_declarations(name, dask_frame):
    values = pl.Series("color", ["a", "b"] * 10, dtype=pl.Enum(["c", "a", "b"]))
    frame = pl.DataFrame([values])
    ordered = frame.to_pandas().astype({"color": pd.CategoricalDtype(["c", "a", "b"], ordered=True)})
    make = {
        "polars_lazy": pl.DataFrame.lazy,
        "pandas": lambda frame: ordered,
        "dask": lambda frame: dask_frame(pa.Table.from_pandas(ordered)),
    }[name]
    fitted = RandomizedResponseEncoder(1.0, random_state=0)
    privatize(make(frame), fitted)
    assert fitted.domain_ == Domain({"color": ["c", "a", "b"]})


def test_categories_that_dask_does_not_know_are_no_declaration(dask_frame):
    frame = dask_frame(pa.table({"color": pa.array(["a", "b"] * 10).dictionary_encode()}))
    frame = frame.assign(color=frame["color"].cat.as_unknown())
    for unknown in (frame, frame.assign(color=frame["color"].cat.as_ordered())):
        with pytest.raises(ValueError, match="are not read"):
            privatize(unknown, RandomizedResponseEncoder())
    released = privatize(frame, RandomizedResponseEncoder(categories={"color": ["a", "b"]}))
    assert released.compute()["color"].cat.categories.tolist() == ["a", "b"]


# Kinds of columns


def test_unsigned_and_decimal_and_dictionary_columns(engine):
    table = pa.table(
        {
            "u": pa.array([1, 2, 250] * 100, pa.uint8()),
            "d": pa.array(["a", "b", "a"] * 100).dictionary_encode(),
        }
    )
    make = {"categories": {"u": [1, 2, 250], "d": ["a", "b", "unused"]}, "random_state": 0}
    fitted = RandomizedResponseEncoder(2.0, **make)
    found = engine.table(privatize(engine.frame(table), fitted))
    assert found.to_pydict() == privatize(table, RandomizedResponseEncoder(2.0, **make)).to_pydict()
    assert tally(engine.frame(found), fitted) == fitted.tally(found)


def test_dictionaries_that_differ_between_batches(people):
    halves = [
        pa.record_batch({"d": pa.DictionaryArray.from_arrays(pa.array([0, 1, None], pa.int8()), values)})
        for values in (["a", "b"], ["b", "c"])
    ]
    domain = {"d": ["a", "b", "c", None]}
    fitted = RandomizedResponseEncoder(50.0, categories=domain, random_state=0)  # all but the truth
    for frame in (ds.InMemoryDataset(halves), pa.RecordBatchReader.from_batches(halves[0].schema, halves)):
        released = privatize(frame, fitted)
        table = released.to_table() if isinstance(released, ds.Dataset) else released.read_all()
        assert table["d"].to_pylist() == ["a", "b", None, "b", "c", None]
        assert tally(ds.dataset(table), fitted).support[0].tolist() == [1, 2, 1, 2]


def test_decimals(engine):
    from decimal import Decimal

    table = pa.table({"price": pa.array([Decimal("1.50"), Decimal("2.00")] * 50, pa.decimal128(10, 2))})
    fitted = RandomizedResponseEncoder(2.0, categories={"price": [Decimal("1.5"), Decimal("2")]}, random_state=0)
    found = engine.table(privatize(engine.frame(table), fitted))
    assert {float(value) for value in found["price"].to_pylist()} == {1.5, 2.0}
    assert tally(engine.frame(found), fitted).n_reports == 100


def test_empty_partitions(dask_frame, people):
    import dask.dataframe as dd

    frame = people.to_pandas()
    pieces = dd.concat([dd.from_pandas(part, npartitions=1) for part in (frame[:50], frame[:0], frame[50:], frame[:0])])
    fitted = encoder()
    released = privatize(pieces, fitted)
    assert (
        pa.Table.from_pandas(released.compute(), preserve_index=False).to_pydict()
        == privatize(people, encoder()).to_pydict()
    )
    assert tally(released, fitted).n_reports == people.num_rows


# Files


def test_a_file_is_never_overwritten(lazy_engine, people, tmp_path):
    (tmp_path / "out").write_text("mine")
    with pytest.raises(FileExistsError):
        privatize(lazy_engine.frame(people), encoder(ledger=PrivacyLedger(epsilon=0.001)), path=tmp_path / "out")
    assert (tmp_path / "out").read_text() == "mine"
    with pytest.raises(FileNotFoundError):
        privatize(lazy_engine.frame(people), encoder(), path=tmp_path / "no" / "out")
    with pytest.raises(ValueError, match="this machine"):
        privatize(lazy_engine.frame(people), encoder(), path="s3://bucket/out")


@DASK_READS_PARQUET
def test_what_is_written_is_what_is_returned(engine, people, tmp_path):
    released = privatize(engine.frame(people), encoder(), path=tmp_path / "out", keep=["number"])
    written = ds.dataset(tmp_path / "out").to_table(columns=["color", "size", "number"])
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]
    expected = engine.table(released)
    assert {name: list(map(str, written[name].to_pylist())) for name in written.column_names} == {
        name: list(map(str, expected[name].to_pylist())) for name in expected.column_names
    }


# What is refused


@each("frame", [[[1]], "in.parquet", 3, None, pa.array([1]), pl.Series([1]), duckdb.connect()])
def test_other_things_than_tables_are_refused(frame):
    with pytest.raises(TypeError, match="frame must be"):
        privatize(frame, encoder())
    with pytest.raises(TypeError, match="frame must be"):
        tally(frame, encoder())


def test_transformers_that_cannot_work_by_batches_are_refused(people):
    with pytest.raises(TypeError, match="leaves the rows"):
        privatize(people, OnFitOnly(encoder()))
    for other in (PosteriorFeatures(encoder()), "encoder", RandomizedResponseEncoder):
        with pytest.raises(TypeError, match="transformer must be"):
            privatize(people, other)
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        tally(people, encoder())
    with pytest.raises(NotFittedError):
        tally_batches([people], encoder())


def test_options_that_do_not_fit_are_refused_before_any_charge(engine, people):
    ledger = PrivacyLedger(epsilon=10)
    frame = engine.frame(people)
    for options, message in [
        ({"keep": ["color"]}, "privatised"),
        ({"keep": ["nothing"]}, "distinct columns"),
        ({"keep": ["number", "number"]}, "distinct columns"),
        ({"persist": False, "path": "x"}, "persist=False"),
    ]:
        with pytest.raises(ValueError, match=message):
            privatize(frame, encoder(ledger=ledger), **options)
    with pytest.raises(TypeError, match="keep"):
        privatize(frame, encoder(ledger=ledger), keep="number")
    with pytest.raises(TypeError, match="persist"):
        privatize(frame, encoder(ledger=ledger), persist=1)
    with pytest.raises(ValueError, match="lacks the columns"):
        privatize(engine.frame(people.select(["color"])), encoder(ledger=ledger))
    assert ledger.spent.epsilon == 0


def test_a_kept_column_does_not_take_the_name_of_a_report():
    table = pa.table({"a": ["x"], "a_x": [1]})
    with pytest.raises(ValueError, match="keep names 'a_x'"):
        privatize(table, UnaryEncodingTransformer(categories={"a": ["x", "y"]}), keep=["a_x"])


def test_what_cannot_be_lazy_says_so(people):
    for frame in (people, people.to_pandas(), pl.from_arrow(people)):
        with pytest.raises(ValueError, match="persist=False is for lazy frames"):
            privatize(frame, encoder(), persist=False)
    with pytest.raises(ValueError, match="DuckDB"):
        privatize(duckdb.from_arrow(people), encoder(), persist=False)


@pytest.mark.parametrize("kind", ["TABLE", "VIEW"])
@pytest.mark.parametrize("name", ["stored", "beside", "tables", "skdp_true_rows", "skdp_rows"])
def test_no_table_of_the_user_is_taken_for_the_reports(kind, name, tmp_path):
    connection = duckdb.connect()
    connection.execute(f"CREATE {kind} {name} AS SELECT 'yes' AS smokes, i AS number FROM range(1000) rows(i)")
    fitted = RandomizedResponseEncoder(0.1, categories={"smokes": ["yes", "no"]})
    for path in (None, tmp_path / "out.parquet"):
        released = privatize(connection.sql(f"SELECT * FROM {name}"), fitted, path=path)
        assert released.columns == ["smokes"]
        assert 300 < released.filter("smokes = 'no'").count("*").fetchall()[0][0] < 700  # false alarm: 1e-20


def test_a_dataset_that_is_not_persisted_is_read_once(people):
    reader = privatize(ds.dataset(people), encoder(), persist=False)
    assert reader.read_all().to_pydict() == privatize(people, encoder()).to_pydict()
    assert reader.read_all().num_rows == 0


# Polars and Dask, asked for parts


def test_parts_of_a_lazy_release_are_parts_of_the_release(people):
    released = privatize(pl.from_arrow(people).lazy(), encoder(random_state=None), persist=False, keep=["number"])
    whole = released.collect()
    assert released.select("size").collect().equals(whole.select("size"))
    assert released.head(70).collect().equals(whole.head(70))
    assert released.filter(pl.col("number") > 9_000).collect().equals(whole.filter(pl.col("number") > 9_000))
    assert released.filter(pl.col("number") > 90).head(5).collect().equals(whole[91:96])


def test_a_partition_that_is_asked_for_by_number_has_its_own_coins(dask_frame, people):
    released = privatize(dask_frame(people), encoder(random_state=None), persist=False)
    assert released.partitions[2].compute().equals(released.compute().loc[released.partitions[2].index.compute()])


def test_a_relation_stays_with_its_connection(people):
    with duckdb.connect() as connection:
        connection.sql("CREATE TABLE mine AS SELECT 7 AS seven")
        released = privatize(connection.from_arrow(people), encoder())
        assert released.query("reports", "SELECT count(*) * min(seven) FROM reports, mine").fetchall() == [(70_000,)]


# Parquet


def parquet_reports(people, parquet):
    fitted = encoder()
    released = privatize(people, fitted, keep=["number"])
    return fitted, released, parquet(released)


def test_parquet_is_tallied_by_its_codes(people, parquet):
    fitted, released, path = parquet_reports(people, parquet)
    expected = fitted.tally(reports_of(released))
    assert tally(ds.dataset(path), fitted) == expected
    assert tally(pl.scan_parquet(path), fitted) == expected
    assert tally(duckdb.read_parquet(str(path)), fitted) == expected


def test_of_a_filtered_dataset_only_what_passes_is_counted(people, parquet):
    fitted, _, path = parquet_reports(people, parquet)
    assert tally(ds.dataset(path).filter(ds.field("number") < 700), fitted).n_reports == 700


def test_of_chosen_row_groups_only_these_are_counted(people, parquet):
    fitted, _, path = parquet_reports(people, parquet)
    fragment = next(iter(ds.dataset(path).get_fragments())).subset(row_group_ids=[1])
    some = ds.FileSystemDataset([fragment], fragment.physical_schema, fragment.format, fragment.filesystem)
    assert tally(some, fitted).n_reports == 3_000


def test_columns_that_are_in_the_paths_are_counted_too(people, tmp_path):
    fitted = encoder()
    released = privatize(people, fitted)
    text = released.set_column(1, "size", released["size"].cast(pa.int64()))
    ds.write_dataset(
        text,
        tmp_path / "out",
        format="parquet",
        partitioning=ds.partitioning(pa.schema([("size", pa.int64())]), flavor="hive"),
    )
    assert tally(ds.dataset(tmp_path / "out", partitioning="hive"), fitted) == fitted.tally(released)


@pytest.mark.parametrize("make", [pl.LazyFrame, pl.DataFrame])
def test_text_is_counted_by_comparing(people, make):
    text = Domain({"color": ["red", "green", "blue", "unused", None], "word": ["a", "b"]})
    table = pa.table({"color": people["color"], "word": ["a", "b"] * 5_000})
    fitted = RandomizedResponseEncoder(1.0, categories=text, random_state=0)
    released = privatize(table, fitted)
    assert tally(make(pl.from_arrow(released)), fitted) == fitted.tally(released)
    for strange in ({"color": ["red", "SECRET"], "word": ["a", "b"]}, {"color": ["red", "red"], "word": ["a", None]}):
        with pytest.raises(ValueError, match="These are not reports") as caught:
            tally(make(strange), fitted)
        assert "SECRET" not in str(caught.value)


# Streams of reports


def test_batches_are_tallied_as_they_come(people):
    fitted = encoder()
    released = privatize(people, fitted)
    batches = [released.slice(0, 0), released.slice(0, 7).to_pandas(), pl.from_arrow(released.slice(7))]
    assert tally_batches(iter(batches), fitted) == fitted.tally(released)
    with pytest.raises(ValueError, match="0 sample"):
        tally_batches([], fitted)


def test_a_file_of_reports_has_no_row_index(people, tmp_path):
    frame = people.to_pandas().set_index("number").iloc[::2]
    with pytest.warns(PrivacyLeakWarning, match="the row index passes through unprotected, with 'number'"):
        released = privatize(frame, encoder(), path=tmp_path / "out.parquet")
    assert released.index.equals(frame.index)
    stored = pq.read_table(tmp_path / "out.parquet")
    assert stored.column_names == ["color", "size"]
    assert b"number" not in repr(stored.schema.metadata).encode()
    assert pd.read_parquet(tmp_path / "out.parquet").index.equals(pd.RangeIndex(len(frame)))


def test_a_broken_file_shows_no_row(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("color,size\n" + "red,1\n" * 300_000 + "SECRET,1,1\n")
    with pytest.raises(ValueError, match="the table cannot be read") as caught:
        privatize(ds.dataset(path, format="csv"), encoder())
    assert "SECRET" not in str(caught.value)
    assert caught.value.__cause__ is caught.value.__context__ is None


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", ["polars_lazy", "dask"])
def test_who_keeps_reports_lazy_is_told(name, people, dask_frame):
    frame = dask_frame(people) if name == "dask" else pl.from_arrow(people).lazy()
    with pytest.warns(PrivacyLeakWarning, match="computed again at each use.*publish what it evaluates to") as caught:
        privatize(frame, encoder(), persist=False)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        privatize(frame, encoder())
