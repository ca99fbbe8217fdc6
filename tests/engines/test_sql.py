"""Tables of Ibis: a database counts distinct rows, with the results of the rows in memory."""

import datetime as dt
import sys
from decimal import Decimal
from urllib.parse import quote

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import skdp
from skdp import Domain, Interval
from skdp.engines import privatize, tally
from skdp.readers import open_large
from tests.engines.conftest import IBIS
from tests.errors import refusal

ibis = pytest.importorskip("ibis", reason="ibis is not installed (extra 'sql')")

N = 1_500
RNG = np.random.default_rng(0)
DAYS = [dt.date(2000, 1, 1) + dt.timedelta(int(day)) for day in RNG.integers(0, 1_500, N)]
ROWS = pa.table(
    {
        "town": pa.array(RNG.choice(["Ulm", "ulm", "Bonn", "Zürich", "O'Hara \\ %"], N), mask=RNG.random(N) < 0.1),
        "level": RNG.integers(0, 5, N),
        "age": RNG.integers(0, 101, N),
        "pay": pa.array(RNG.lognormal(3, 1, N).round(1), mask=RNG.random(N) < 0.1),
        "rate": pa.array(RNG.normal(size=N)),
        "born": pa.array(DAYS, pa.date32()),
        "seen": pa.array([dt.datetime.combine(day, dt.time(7, 30)) for day in DAYS], pa.timestamp("us")),
        "member": RNG.random(N) < 0.3,
        "cost": pa.array([Decimal(int(cents)) / 100 for cents in RNG.integers(0, 9_999, N)], pa.decimal128(12, 2)),
        "person": RNG.integers(0, N // 3, N),
        "weight": RNG.choice([0.5, 1.0, 3.0], N),
    }
)
# Each row occurs three times, so that numbers of rows have several binary digits.
N, ROWS = 3 * N, pa.concat_tables([ROWS] * 3)
TOWNS = ["Ulm", "ulm", "Bonn", "Zürich", "O'Hara \\ %", "unused", None]
DOMAIN = Domain(
    {
        "town": TOWNS,
        "level": [0, 1, 2, 3, 4],
        "age": Interval(0, 100, bins=5),
        "pay": Interval(edges=[0.0, 0.1, 7.3, 40.0, 5_000.0], missing=True),
        "born": Interval(dt.date(2000, 1, 1), dt.date(2005, 1, 1), bins=5),
        "member": [True, False],
    }
)
MAX_DISTINCT_ROWS = "skdp.readers._sql.MAX_DISTINCT_ROWS"
BOUNDS = {"age": (0, 100), "pay": (0.3, 80.7), "rate": (-0.7, 2.1), "cost": (0.1, 70.0)}


@pytest.fixture(scope="module", params=IBIS)
def connect(request):
    """Return a function that stores an Arrow table in a database."""
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def rows(connect):
    """Return rows as an Arrow table; SQLite has no decimals."""
    if "sqlite" in connect.__qualname__:
        return ROWS.set_column(ROWS.column_names.index("cost"), "cost", ROWS["cost"].cast(pa.float64()))
    return ROWS


@pytest.fixture(scope="module")
def stored(connect, rows):
    return connect(rows)


@pytest.fixture
def fetched(monkeypatch):
    """List the numbers of rows that are fetched from the database."""
    counts = []
    engine = sys.modules[type(open_large(ibis.memtable({"x": [1]}))).__module__]
    read_query, count_distinct = engine.read_query, engine.count_distinct

    def count_rows(query):
        for batch in read_query(query):
            counts.append(batch.num_rows)
            yield batch

    def count_distinct_rows(query):
        counted = list(counts)
        rows = count_distinct(query)
        counts[:] = [*counted, 0 if rows is None else rows.num_rows]
        return rows

    monkeypatch.setattr(engine, "read_query", count_rows)
    monkeypatch.setattr(engine, "count_distinct", count_distinct_rows)
    return counts


def sums(**parameters):
    return {"epsilon": 1.0, "random_state": 0} | parameters


FITS = {
    "mean": (lambda X: skdp.DPMean(**sums(bounds=BOUNDS)).fit(X).to_frame(), list(BOUNDS)),
    "variance": (lambda X: skdp.DPStandardScaler(**sums(bounds=BOUNDS)).fit(X).scale_, list(BOUNDS)),
    "histogram": (
        lambda X: skdp.DPHistogram(**sums(domain=DOMAIN.select(["town", "age"]))).fit(X).counts_,
        ["town", "age"],
    ),
    "groups": (
        lambda X: (
            skdp.DPGroupBy(**sums(by=["town", "level"], keys=DOMAIN.select(["town", "level"]), bounds={"pay": (0, 90)}))
            .fit(X)
            .to_frame()
        ),
        ["town", "level", "pay"],
    ),
    "imputer": (
        lambda X: (
            skdp.DPSimpleImputer(**sums(strategy="most_frequent", categories={"level": range(5)})).fit(X).statistics_
        ),
        ["level"],
    ),
    "synthesizer": (
        lambda X: skdp.DPMarginalSynthesizer(**sums(domain=DOMAIN.select(["town", "level", "age"]))).fit(X).sample(200),
        ["town", "level", "age"],
    ),
    "weights": (
        lambda X: skdp.DPMean(**sums(bounds=(0, 100), max_weight=3)).fit(X, sample_weight="weight").to_frame(),
        ["age", "weight"],
    ),
    "quantiles": (lambda X: skdp.DPRobustScaler(**sums(bounds=(0, 100))).fit(X).center_, ["pay", "age"]),
    "texts": (lambda X: skdp.discover_domain(X, 20.0, 1e-3, random_state=0), ["town", "pay"]),
}


@pytest.mark.filterwarnings("ignore:Columns .* have dtype object")  # decimals in pandas
@pytest.mark.parametrize("max_rows", [1 << 16, 0], ids=["distinct rows", "all rows"])
@pytest.mark.parametrize("name", FITS)
def test_results_equal_the_results_of_rows(stored, rows, fetched, name, max_rows, monkeypatch):
    """The database counts distinct rows, or all rows are read: the release has the same numbers."""
    monkeypatch.setattr(MAX_DISTINCT_ROWS, max_rows)
    fit, columns = FITS[name]
    found, expected = fit(stored.select(*columns)), fit(ds.dataset(rows.select(columns)))
    if hasattr(expected, "columns") and not isinstance(expected, Domain):
        pd.testing.assert_frame_equal(found, expected, check_dtype=False)
    else:
        np.testing.assert_equal(found, expected)
    assert (sum(fetched) < N) == (max_rows > 0)


@pytest.mark.parametrize("max_rows", [1 << 16, 0])
@pytest.mark.parametrize("policy", ["ignore", {"town": None}])
def test_undeclared_value_of_another_column_excludes_the_row(stored, rows, policy, max_rows, monkeypatch):
    monkeypatch.setattr(MAX_DISTINCT_ROWS, max_rows)
    domain = dict(DOMAIN.select(["level", "age"])) | {"town": ["Ulm", "Bonn", None]}
    marginals = [("level", "age")]
    model = skdp.DPMarginalSynthesizer(1e6, domain=domain, marginals=marginals, handle_unknown=policy, random_state=0)
    names = list(domain)
    found, expected = (
        [marginal.counts for marginal in model.fit(X).marginals_]
        for X in (stored.select(*names), ds.dataset(rows.select(names)))
    )
    for counts, counts_of_rows in zip(found, expected, strict=True):
        np.testing.assert_array_equal(counts, counts_of_rows)
    assert (expected[-1].sum() < N - 500) == (policy == "ignore")


def test_rows_are_read_if_more_of_them_are_distinct_than_the_limit(ibis_duckdb, fetched, monkeypatch):
    monkeypatch.setattr(MAX_DISTINCT_ROWS, 4)
    for n_values, n_fetched in ((4, 4), (5, 250)):
        fetched.clear()
        stored = ibis_duckdb(pa.table({"x": [*range(n_values)] * 50}))
        found = skdp.DPHistogram(1e6, domain={"x": range(n_values)}, random_state=0).fit(stored)
        assert found.counts_.tolist() == [50] * n_values
        assert sum(fetched) == n_fetched


def test_many_distinct_rows_are_not_grouped(connect, fetched, monkeypatch):
    """A few rows are probed first, so that the database does not group a table in vain."""
    for name in ("N_PROBED_ROWS", "BATCH_ROWS"):
        monkeypatch.setattr(f"skdp.readers._sql.{name}", 64)
    many, few = connect(pa.table({"x": [*range(60)] * 5})), connect(pa.table({"x": [0, 1, 2, 3] * 50}))
    for stored, n_fetched in ((many, 300), (few, 4)):
        fetched.clear()
        skdp.DPMean(1.0, bounds=(0, 100)).fit(stored)
        assert sum(fetched) == n_fetched


def test_synthesizer_groups_the_table_once(stored, fetched):
    columns = ["town", "level", "age"]
    skdp.DPMarginalSynthesizer(1.0, domain=DOMAIN.select(columns), random_state=0).fit(stored.select(*columns))
    n_distinct = len(ROWS.select(columns).group_by(columns).aggregate([]))
    assert sum(fetched) == n_distinct


@pytest.mark.parametrize("name", ["born", "seen", "member", "pay"])
def test_bins_and_values_of_other_types_are_counted(stored, rows, fetched, name):
    declared = dict(DOMAIN) | {"seen": DOMAIN["born"], "pay": Interval(0.0, 100.0, bins=8)}
    declared = declared[name]
    histogram = skdp.DPHistogram(1e6, domain={name: declared}, handle_unknown="ignore", random_state=0)
    found = histogram.fit(stored.select(name)).counts_
    np.testing.assert_array_equal(found, histogram.fit(ds.dataset(rows.select([name]))).counts_)
    assert found.sum() > N / 2
    assert sum(fetched) == len(set(rows[name].to_pylist()))


CASES = {
    "text": (["a", "A", "a ", "", None, "é", "b"], ["a", "", "é", None]),
    "integers": ([1, 2, 3, None, 2**53 + 1, -(2**62)], [1, 3, 2**53]),
    "floats": ([0.1, 0.1 + 2**-56, 0.3, 0.1 + 0.2, np.nan, None, np.inf, 0.0, -0.0, 5e-324], [0.1, 0.3, 0.0, None]),
    "bins": (
        [0.0, 0.1, 0.1 + 2**-56, 0.3, 0.1 + 0.2, 1.0, 1.0 + 2**-52, -5e-324, np.nan],
        Interval(edges=[0.0, 0.1, 0.3, 1.0]),
    ),
    "whole bins": ([0, 3, 4, 7, 8, 9, -1, None], Interval(0, 8, bins=2, missing=True)),
    "dates": ([dt.date(2000, 1, 1), dt.date(1999, 12, 31), None, dt.date(2004, 2, 29)], [dt.date(2000, 1, 1)]),
    "days": (
        [dt.datetime(2000, 1, 2, 23, 59), dt.datetime(2000, 1, 3), None],
        Interval(dt.date(2000, 1, 1), dt.date(2000, 1, 2), bins=1),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_values_are_compared_as_in_python(connect, case):
    values, declared = CASES[case]
    table = pa.table({"x": values * 3})
    histogram = skdp.DPHistogram(1e9, domain={"x": declared}, handle_unknown="ignore", random_state=0)
    found = histogram.fit(connect(table)).counts_
    np.testing.assert_array_equal(found, histogram.fit(ds.dataset(table)).counts_)
    with pytest.raises(ValueError, match="Column 'x' contains a value outside"):
        skdp.DPHistogram(1.0, domain={"x": declared}).fit(connect(table))


@pytest.mark.parametrize("name", ["ibis_sqlite", "ibis_duckdb", pytest.param("ibis_postgres", marks=pytest.mark.long)])
def test_collation_of_a_column_does_not_merge_values(request, name):
    stored = request.getfixturevalue(name)(pa.table({"x": ["a", "A", "a"]}))
    connection = stored.get_backend()
    if connection.name == "sqlite":
        connection.con.executescript("CREATE TABLE n (x TEXT COLLATE NOCASE); INSERT INTO n VALUES ('a'), ('A'), ('a')")
    elif connection.name == "duckdb":
        connection.raw_sql("CREATE TABLE n (x VARCHAR COLLATE NOCASE)")
        connection.raw_sql("INSERT INTO n VALUES ('a'), ('A'), ('a')")
    else:
        connection.raw_sql("CREATE EXTENSION citext")
        connection.raw_sql("CREATE TABLE n AS SELECT unnest(ARRAY['a', 'A', 'a']::citext[]) AS x")
    n = connection.sql("SELECT x FROM n", schema=ibis.schema({"x": "string"}))
    histogram = skdp.DPHistogram(1e9, domain={"x": ["a", "A"]}, random_state=0).fit(n)
    assert histogram.counts_.tolist() == [2, 1]


@pytest.mark.long
def test_text_of_fixed_length_and_enumerated_values_are_counted_as_they_are_read(ibis_postgres):
    connection = ibis_postgres(pa.table({"x": [1]})).get_backend()
    connection.raw_sql("CREATE TYPE mood AS ENUM ('sad', 'ok')")
    connection.raw_sql("CREATE TABLE fixed (code char(4), mood mood)")
    connection.raw_sql("INSERT INTO fixed VALUES ('a', 'ok'), ('a ', 'sad'), ('abcd', 'ok'), (NULL, NULL)")
    stored = connection.table("fixed")
    assert stored.to_pandas()["code"].tolist()[:2] == ["a   "] * 2
    for name, values, counts in (
        ("code", ["a   ", "abcd", "a", None], [2, 1, 0, 1]),
        ("mood", ["sad", "ok", None], [1, 2, 1]),
    ):
        histogram = skdp.DPHistogram(1e9, domain={name: values}, random_state=0).fit(stored.select(name))
        assert histogram.counts_.tolist() == counts


def test_values_of_another_type_in_sqlite_raise_an_error(ibis_sqlite):
    stored = ibis_sqlite(pa.table({"x": [1.5, 2.5], "n": [1, 2]}))
    connection = stored.get_backend()
    connection.con.execute(f"INSERT INTO {stored.get_name()} VALUES ('secret', 'secret')")
    with refusal(ValueError, "cannot be read", "secret"):
        skdp.DPMean(1.0, bounds=(0, 5)).fit(stored.select("x"))
    with pytest.raises(ValueError, match="cannot be read"):
        skdp.DPHistogram(1.0, domain={"n": [1, 2]}).fit(stored.select("n"))


@pytest.fixture
def connection(tmp_path):
    """A connection to a file of SQLite, which Python 3.13 requires to be closed."""
    connection = ibis.sqlite.connect(tmp_path / "rows.sqlite")
    yield connection
    connection.disconnect()


@pytest.mark.parametrize(
    ("kind", "value", "release"),
    [
        ("INTEGER", "1.9", skdp.DPMean(1.0, bounds=(0, 5))),
        ("INTEGER", "1.9", skdp.DPHistogram(1.0, domain={"x": [1, 2]})),
        ("TEXT", "x'61'", skdp.DPHistogram(1.0, domain={"x": ["a", "b"]})),
        ("BOOLEAN", "0.5", skdp.DPHistogram(1.0, domain={"x": [False, True]})),
        ("BOOLEAN", "7", skdp.DPHistogram(1.0, domain={"x": [False, True]})),
    ],
)
def test_values_that_arrow_would_convert_raise_an_error(kind, value, release, connection):
    """Arrow converted 1.9 to 1 and bytes to text, so that a mean of 1.9 was 1.0."""
    connection.con.executescript(f"CREATE TABLE t (x {kind}); INSERT INTO t VALUES ({value})")
    with pytest.raises(ValueError, match="cannot be read"):
        release.fit(connection.table("t"))


def test_text_in_utf_16_is_compared_as_text(connection):
    """ "\u6162" in UTF-16 has the bytes of "ba" in UTF-8, as which its rows were counted."""
    connection.con.execute("PRAGMA encoding = 'UTF-16le'")
    connection.con.execute("CREATE TABLE t (x TEXT)")
    connection.con.executemany("INSERT INTO t VALUES (?)", [("\u6162",)] * 3 + [("ba",)])
    histogram = skdp.DPHistogram(1e9, domain={"x": ["ba", "\u6162"]}, random_state=0).fit(connection.table("t"))
    assert histogram.counts_.tolist() == [1, 3]


def test_reports_are_drawn_in_batches(stored, rows, tmp_path, monkeypatch):
    monkeypatch.setattr("skdp.readers._sql.BATCH_ROWS", 700)
    encoder = skdp.RandomizedResponseEncoder(20.0, categories=DOMAIN.select(["level", "town"]), random_state=0)
    reports = privatize(stored, encoder, keep=["age"], path=tmp_path / "reports.parquet")
    counts = encoder.estimate_counts(tally(reports, encoder))["count"]
    expected = pd.Series(rows["level"].to_pylist()).value_counts(sort=False)
    np.testing.assert_allclose(counts.loc["level"], expected.loc[range(5)], atol=25)
    assert reports.to_table()["age"].to_pylist() == stored.select("age").to_pyarrow()["age"].to_pylist()


def test_rows_of_persons_are_limited(stored, rows):
    histogram = skdp.DPHistogram(1e6, domain={"level": range(5)}, max_rows_per_person=2, random_state=0)
    found = histogram.fit(stored.select("level", "person"), person="person")
    sizes = pd.Series(rows["person"].to_pylist()).value_counts()
    assert found.counts_.sum() == pytest.approx(sizes.clip(upper=2).sum(), abs=1)


@pytest.mark.long
def test_rows_and_ledger_are_in_one_database_of_a_server(ibis_postgres):
    table = ibis_postgres(ROWS.select(["level", "age"]))
    server = table.get_backend().con.info
    address = f"postgresql://{server.user}@/{server.dbname}?host={quote(server.host, safe='')}"
    ledger = skdp.PrivacyLedger(3.0, path=address)
    skdp.DPMean(1.0, bounds=(0, 100), ledger=ledger).fit(table)
    skdp.DPHistogram(1.5, domain={"level": range(5)}, ledger=ledger).fit(table.select("level"))
    with pytest.raises(skdp.BudgetExceeded):
        skdp.DPMean(1.0, bounds=(0, 100), ledger=ledger).fit(table)
    assert skdp.PrivacyLedger(path=address).spent.epsilon == 2.5


def test_ledger_is_not_written_into_a_file_of_rows(connection, tmp_path):
    connection.con.executescript("CREATE TABLE t (x INTEGER); INSERT INTO t VALUES (1)")
    with pytest.raises(ValueError, match="its tables are not the tables of a ledger"):
        skdp.PrivacyLedger(1.0, path=tmp_path / "rows.sqlite")
    assert connection.list_tables() == ["t"]
    ledger = skdp.PrivacyLedger(1.0, path=tmp_path / "ledger.sqlite")
    skdp.DPMean(1.0, bounds=(0, 1), ledger=ledger).fit(connection.table("t"))
    assert ledger.spent.epsilon == 1


@pytest.mark.parametrize("dtype", ["decimal(10, 2)", "numeric", "numeric(12, 4)", "decimal(20, 4)"])
def test_decimals_of_sqlite_are_numbers(connection, dtype):
    """SQLite stores decimals as floats, which were a TypeError."""
    connection.con.execute(f"create table sales (price {dtype}, town text)")
    prices = [None if k == 3 else k % 5 + 0.25 if k % 2 else k % 5 for k in range(200)]
    rows = ", ".join(f"({'null' if price is None else price}, 'a')" for price in prices)
    connection.con.execute(f"insert into sales values {rows}")
    frame = pd.DataFrame({"price": pd.Series(prices, dtype=float)})
    declared = {"price": Interval(0.0, 5.0, bins=5, missing=True)}
    for model in (
        skdp.DPMean(1.0, bounds={"price": (0.0, 5.0)}, random_state=0),
        skdp.DPHistogram(1.0, domain=declared, random_state=0),
    ):
        found, expected = (model.fit(X).to_frame() for X in (connection.table("sales")[["price"]], frame))
        pd.testing.assert_frame_equal(found, expected)
    connection.con.execute("insert into sales values ('secret', 'a')")
    with refusal((TypeError, ValueError), ".", "secret"):
        skdp.DPMean(1.0, bounds={"price": (0.0, 5.0)}).fit(connection.table("sales")[["price"]])


def test_long_integers_in_decimals_of_sqlite_are_an_error_with_a_remedy(connection):
    """The error had no remedy, because pyarrow does not round integers to floats."""
    connection.con.execute("create table visits (person decimal(20), x integer)")
    connection.con.executemany("insert into visits values (?, 1)", [(2**53 + row // 2,) for row in range(40)])
    visits = connection.table("visits")
    counts = skdp.DPHistogram(1e6, domain={"x": [1]}, max_rows_per_person=2, random_state=0)
    with pytest.raises(ValueError, match=r"Column 'person' must have integers below 2\*\*53.* Cast it to int64"):
        counts.fit(visits, person="person")
    assert counts.fit(visits.cast({"person": "int64"}), person="person").counts_.tolist() == [40]


@pytest.mark.long
def test_uuids_and_numeric_of_postgres_are_read(ibis_postgres):
    """The ids of persons are often UUIDs; both types ended in an error without a remedy."""
    connection = ibis_postgres(pa.table({"x": [0]})).get_backend()
    rows = "select md5((i % 70)::text)::uuid as person, i / 3::numeric as pay"
    connection.raw_sql(f"create table paid as {rows} from generate_series(0, 299) as i").close()
    people = np.arange(300) % 70
    pay = pd.DataFrame({"pay": np.arange(300) / 3})
    mean = skdp.DPMean(1.0, bounds=(0.0, 100.0), max_rows_per_person=5, random_state=0)
    found = mean.fit(connection.table("paid")[["pay", "person"]], person="person").to_frame()
    pd.testing.assert_frame_equal(found, mean.fit(pay, person=people).to_frame())


@pytest.mark.long
def test_long_ids_of_postgres_are_not_rounded(ibis_postgres):
    """As floats, these ids were one person, so that removing a person exchanged the rows of another one."""
    connection = ibis_postgres(pa.table({"x": [0]})).get_backend()
    rows = "select 1152921504606846976::numeric + i / 2 as person, 'a' as job from generate_series(0, 199) as i"
    connection.raw_sql(f"create table visits as {rows}").close()
    groups = skdp.DPGroupBy(1e6, by="job", keys={"job": ["a"]}, max_rows_per_person=1, random_state=0)
    with pytest.warns(UserWarning, match="about 50% of a person's rows"):
        groups.fit(connection.table("visits"), person="person")
    assert groups.to_frame()["count"].tolist() == [100]


@pytest.mark.long
def test_long_keys_of_postgres_are_not_rounded(ibis_postgres):
    """As floats, two keys were one group, and the count of the other key was 0."""
    connection = ibis_postgres(pa.table({"x": [0]})).get_backend()
    rows = "select 9007199254740992::numeric + i % 2 as key from generate_series(0, 199) as i"
    connection.raw_sql(f"create table keys as {rows}").close()
    keys, counts = connection.table("keys"), skdp.DPHistogram(1e6, domain={"key": [2**53, 2**53 + 1]}, random_state=0)
    with pytest.raises(ValueError, match=r"Column 'key': dtype float64 rounds integers .* a cast to bigint"):
        counts.fit(keys)
    assert counts.fit(keys.cast({"key": "int64"})).counts_.tolist() == [100, 100]


@pytest.mark.parametrize(("stored", "named"), [("to_seconds(3)", "interval"), ("'1'::bit", "unknown")])
def test_types_without_an_arrow_type_are_named(stored, named):
    """A column of intervals ended in an error of Arrow."""
    connection = ibis.duckdb.connect()
    if named == "unknown" and connection.version.startswith("1."):
        pytest.skip("before version 2, DuckDB returns bits as objects")
    connection.raw_sql(f"create table stays as select {stored} as stay, 'f' as sex from range(9)")
    stays, ledger = connection.table("stays"), skdp.PrivacyLedger(5.0)
    with pytest.raises(ValueError, match=f"Column 'stay' must have a type that Arrow represents, got {named}"):
        skdp.DPMean(ledger=ledger).fit(stays[["stay"]])
    skdp.DPHistogram(domain=[["f", "m"]], ledger=ledger).fit(stays[["sex"]])
    assert len(ledger.charges()) == 1
    connection.disconnect()
