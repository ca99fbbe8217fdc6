from __future__ import annotations

import pickle
from datetime import date, datetime, timedelta

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from skdp.coding import to_dates
from skdp.domain import Domain, Interval
from skdp.frames import Table, read_table
from skdp.synthesis.tables import assemble, decode, public_template
from tests.conftest import each

SECRET = "hunter2hunter2"
N = 1237


def leaky_tables():
    values = ["a", "b"] * (N // 2) + [SECRET]
    frame = pd.DataFrame({"job": values})
    named = frame.set_axis(pd.Index(range(N), name=SECRET))
    noted = frame.copy()
    noted.attrs["note"] = SECRET
    table = pa.table({"job": values})
    field = pa.schema([pa.field("job", pa.string(), metadata={"note": SECRET})])
    return {
        "pandas": frame,
        "pandas object": frame.astype(object),
        "pandas nullable": frame.convert_dtypes(),
        "pandas arrow": frame.convert_dtypes(dtype_backend="pyarrow"),
        "pandas category": frame.astype("category"),
        "pandas attrs": noted,
        "pandas index": frame.set_axis([f"{SECRET}{place}" for place in range(N)]),
        "pandas index name": named,
        "polars": pl.DataFrame({"job": values}),
        "polars categorical": pl.DataFrame({"job": values}, schema={"job": pl.Categorical}),
        "polars enum": pl.DataFrame({"job": values}, schema={"job": pl.Enum(["a", "b", SECRET])}),
        "pyarrow": table,
        "pyarrow chunks": pa.concat_tables([table, table]),
        "pyarrow dictionary": pa.table({"job": pa.array(values).dictionary_encode()}),
        "pyarrow view": pa.table({"job": pa.array(values).cast(pa.string_view())}),
        "pyarrow metadata": table.replace_schema_metadata({"note": SECRET}),
        "pyarrow field metadata": table.cast(field),
        "array of text": np.array(values)[:, np.newaxis],
        "array of bytes": np.array(values, "S")[:, np.newaxis],
        "array of objects": np.array(values, object)[:, np.newaxis],
    }


def template_of(data):
    table = read_table(data)
    return public_template(table, Domain({name: ["a", "b"] for name in table.names}))


@each("kind", leaky_tables())
def test_the_template_holds_no_value_and_not_how_many_rows_there_were(kind):
    # A slice of no rows fails this: Arrow pickles all of the memory behind it, and a dtype carries all categories.
    table = leaky_tables()[kind]
    template = template_of(table)
    assert SECRET.encode() not in pickle.dumps(template)
    fewer = template_of(table[:5] if not isinstance(table, pa.Table) else table.slice(0, 5))
    assert len(pickle.dumps(template)) == len(pickle.dumps(fewer))


def numbers(dtype, edges, n=4000, seed=0):
    interval = Interval(edges=edges)
    codes = np.arange(n) % len(interval)
    template = read_table(pd.DataFrame({"x": pd.Series([], dtype=dtype)}))
    (column,) = decode(template, Domain({"x": interval}), [codes], np.random.default_rng(seed))
    return interval, codes, pd.Series(column)


@each(
    "dtype",
    ["int8", "int64", "uint16", "Int32", "float64", "float32", "Float64", "int64[pyarrow]", "double[pyarrow]", object],
)
def test_numbers_keep_their_dtype_and_stay_in_their_bin(dtype):
    interval, codes, column = numbers(dtype, [0, 7, 30, 31, 100])
    assert column.dtype == dtype
    np.testing.assert_array_equal(interval.encode(column), codes)
    assert column.nunique() > (90 if "int" in str(dtype).lower() else 2000)


def test_narrow_floats_do_not_round_up_into_the_next_bin():
    edges = np.linspace(0.1, 0.9, 9).tolist()
    interval, codes, column = numbers("float16", edges, n=200_000)
    np.testing.assert_array_equal(interval.encode(column), codes)


def test_every_whole_number_of_a_bin_is_as_likely_the_last_bins_end_included():
    _, codes, column = numbers("int64", [0.5, 3, 5], n=80_000)
    found = {code: column[codes == code].value_counts(normalize=True).to_dict() for code in (0, 1)}
    assert {code: sorted(shares) for code, shares in found.items()} == {0: [1, 2], 1: [3, 4, 5]}
    for shares in found.values():
        # 40,000 draws: 5.5 standard deviations.
        assert all(abs(share - 1 / len(shares)) < 5.5 * 0.5 / 200 for share in shares.values())


@each("edges", [[0.2, 0.4, 0.6, 3], [0.5, 0.7, 3], [-5, -0.5, -0.25, 2.5], [0, 1000, 2000]])
def test_a_bin_without_a_whole_number_gives_one_of_the_domain(edges):
    interval, _, column = numbers("int8", edges)
    assert column.dtype == np.int8
    assert (interval.encode(column) < len(interval)).all()


@pytest.mark.parametrize(("dtype", "most"), [("int64", 2**63 - 1), ("uint64", 2**64 - 1)])
def test_ends_beyond_what_a_dtype_holds_are_cut(dtype, most):
    _, _, column = numbers(dtype, [-1e30, 0, 1e30])
    assert column.dtype == dtype
    assert int(column.max()) <= most
    assert int(column.min()) >= np.iinfo(dtype).min


def test_numbers_in_categories_become_plain_numbers_and_never_missing():
    frame = pd.DataFrame({"x": pd.Categorical([10, 20, 30])})
    domain = Domain({"x": Interval(0, 40, bins=2)})
    column = decode(read_table(frame[:0]), domain, [np.array([0, 1, 1])], np.random.default_rng(0))[0]
    assert pd.Series(column).dtype == np.int64
    assert pd.Series(column).between(0, 40).all()


def test_columns_of_all_kinds_come_back(make_frame, values_of):
    data = {
        "job": ["clerk", None],
        "sex": ["f", "m"],
        "n": [3, 1],
        "paid": [True, False],
        "since": [date(2020, 1, 1)] * 2,
    }
    frame = make_frame(data)
    domain = Domain({"job": ["clerk", "smith", None], "sex": ["f", "m"], "n": [1, 3], "paid": [False, True],
                     "since": [date(2020, 1, 1), date(2021, 1, 1)]})  # fmt: skip
    template = public_template(read_table(frame), domain)
    codes = [np.array(code) for code in ([1, 2, 0], [1, 0, 1], [0, 1, 1], [1, 0, 0], [1, 1, 0])]
    made = assemble(template, decode(template, domain, codes, np.random.default_rng(0)), domain.columns)
    assert type(made) is type(frame)
    assert values_of(made, "job") == ["smith", None, "clerk"]
    assert values_of(made, "n") == [1, 3, 3]
    assert values_of(made, "paid") == [True, False, False]
    assert [str(value)[:4] for value in values_of(made, "since")] == ["2021", "2021", "2020"]


def test_the_kind_of_the_column_index_stays():
    frame = pd.DataFrame([[0, 1]], columns=pd.MultiIndex.from_tuples([("a", 1), ("b", 2)], names=["one", "two"]))
    template = read_table(frame[:0])
    made = assemble(template, [np.array([0, 1])] * 2, template.names)
    pd.testing.assert_index_equal(made.columns, frame.columns)


def empty(dtype):
    return lambda: pd.Series([], dtype=dtype)


# A column without rows, and the step of its dates.
DATE_COLUMNS = {
    **{f"numpy {unit}": (lambda unit=unit: np.array([], f"datetime64[{unit}]")) for unit in ("D", "h", "s", "ns")},
    "numpy object": lambda: np.array([], object),
    **{f"pandas {unit}": empty(f"datetime64[{unit}]") for unit in ("s", "ms", "us", "ns")},
    "pandas object": empty(object),
    "pandas date32": empty("date32[pyarrow]"),
    "pandas arrow s": empty("timestamp[s][pyarrow]"),
    "pandas arrow ns": empty("timestamp[ns][pyarrow]"),
    "polars Date": lambda: pl.Series([], dtype=pl.Date),
    **{f"polars {unit}": (lambda unit=unit: pl.Series([], dtype=pl.Datetime(unit))) for unit in ("ms", "us", "ns")},
    "pyarrow date32": lambda: pa.chunked_array([], pa.date32()),
    "pyarrow date64": lambda: pa.chunked_array([], pa.date64()),
    **{f"pyarrow {unit}": (lambda unit=unit: pa.chunked_array([], pa.timestamp(unit))) for unit in ("s", "us", "ns")},
    "pyarrow null": lambda: pa.chunked_array([], pa.null()),
}

WHOLE_DAYS = (" D", "date32", "Date", "date64")


def dtype_of(column):
    return column.type if isinstance(column, pa.ChunkedArray) else column.dtype


def drawn(like, interval, codes, seed=0):
    """Draw, and read what came as microseconds."""
    frame = pd.DataFrame({"x": like}) if isinstance(like, pd.Series) else pd.DataFrame()
    (column,) = decode(Table(("x",), (like,), frame), Domain({"x": interval}), [codes], np.random.default_rng(seed))
    column = pd.Series(column, dtype=column.dtype) if isinstance(like, pd.Series) else column
    return column, to_dates(column, "datetime64[us]")


@pytest.mark.parametrize("kind", DATE_COLUMNS)
@pytest.mark.parametrize("missing", [False, True])
def test_dates_keep_their_dtype_stay_in_their_bin_and_cover_it(kind, missing):
    like = DATE_COLUMNS[kind]()
    edges = [date(1969, 12, 1), date(1969, 12, 2), date(1970, 1, 1), date(1970, 1, 11)]
    for interval in (
        Interval(edges=edges, missing=missing),
        Interval(edges=[datetime(day.year, day.month, day.day) for day in edges], missing=missing),
    ):
        codes = np.arange(4000) % len(interval)
        column, times = drawn(like, interval, codes)
        np.testing.assert_array_equal(interval.encode(column), codes)
        if "null" not in kind:
            assert dtype_of(column) == dtype_of(like)
        if interval.edges[0] == edges[0] or kind.endswith(WHOLE_DAYS):
            whole = np.arange("1969-12-01", "1970-01-12", dtype="datetime64[D]").astype("datetime64[us]")
            assert np.unique(times[~np.isnat(times)]).tolist() == whole.tolist()
        elif kind != "numpy h":
            assert (times.astype("datetime64[s]") == times)[~np.isnat(times)].all()
            assert np.unique(times).size > 0.7 * times.size  # a whole second of several days is seldom drawn twice


@each("kind", DATE_COLUMNS)
def test_bins_shorter_than_a_second_have_microseconds_if_the_column_has(kind):
    start = datetime(2020, 2, 29, 12)
    interval = Interval(edges=[start + timedelta(microseconds=number) for number in (0, 3, 500_000, 2_000_000)])
    column, times = drawn(DATE_COLUMNS[kind](), interval, np.arange(6000) % 3)
    if kind.endswith(("us", "ns", "object", "null")):
        np.testing.assert_array_equal(interval.encode(column), np.arange(6000) % 3)
        assert np.unique(times[::3]).astype(object).tolist() == [start + timedelta(microseconds=n) for n in range(3)]
    elif not kind.endswith(WHOLE_DAYS):  # the declared range is within one day
        assert (interval.encode(column) < 3).all()


def test_every_day_of_a_bin_is_as_likely_the_last_bins_end_included():
    interval = Interval(edges=[date(2020, 2, 28), date(2020, 3, 1), date(2020, 3, 3)])
    codes = np.arange(80_000) % 2
    _, times = drawn(pd.Series([], dtype="datetime64[ns]"), interval, codes)
    found = [pd.Series(times[codes == code]).value_counts(normalize=True) for code in (0, 1)]
    assert [sorted(shares.index.day) for shares in found] == [[28, 29], [1, 2, 3]]
    for shares in found:
        # 40,000 draws: 5.5 standard deviations.
        assert all(abs(share - 1 / len(shares)) < 5.5 * 0.5 / 200 for share in shares)


def test_all_years_are_drawn_exactly():
    ends = Interval(edges=[datetime.min, datetime.min + timedelta.resolution, datetime.max])
    _, times = drawn(np.array([], object), ends, np.zeros(3, int))
    assert times.tolist() == [datetime.min] * 3
    late = Interval(edges=[datetime.max - 2 * timedelta.resolution, datetime.max])
    _, times = drawn(np.array([], "datetime64[us]"), late, np.zeros(200, int))
    assert np.unique(times).tolist() == [datetime.max - number * timedelta.resolution for number in (2, 1, 0)]


def test_what_nanoseconds_cannot_hold_is_not_drawn():
    interval = Interval(edges=[date(1, 1, 1), date(1600, 1, 1), date(2250, 1, 1), date(9999, 1, 1)])
    codes = np.arange(3000) % 3
    _, times = drawn(pd.Series([], dtype="datetime64[ns]"), interval, codes)
    years = times.astype("datetime64[Y]").astype(int) + 1970
    assert set(years[codes == 0]) == {1677}
    assert set(years[codes == 2]) == set(range(2250, 2263))


def test_dates_in_categories_become_plain_dates():
    like = pd.Series(pd.to_datetime(["2020-01-01"])).astype("category")
    column, _ = drawn(like, Interval(date(2020, 1, 1), date(2021, 1, 1), bins=2), np.array([0, 1]))
    assert column.dtype == like.cat.categories.dtype


@each("kind", DATE_COLUMNS)
def test_edges_between_two_steps_of_the_column(kind):
    interval = Interval(edges=[datetime(1969, 12, day, 12, 30) for day in (1, 3, 5)])
    codes = np.arange(400) % 2
    column, times = drawn(DATE_COLUMNS[kind](), interval, codes)
    np.testing.assert_array_equal(interval.encode(column), codes)
    if kind.endswith(WHOLE_DAYS):
        assert [sorted(pd.Series(times[codes == code]).dt.day.unique()) for code in (0, 1)] == [[2, 3], [4, 5]]


@pytest.mark.parametrize("seconds", [[0.2, 0.4, 0.6, 3], [0.5, 0.7, 3], [-5, -0.5, -0.25, 2.5]])
def test_a_bin_without_a_whole_second_gives_one_of_the_domain(seconds):
    interval = Interval(edges=[datetime(1970, 1, 1) + timedelta(seconds=number) for number in seconds])
    column, _ = drawn(pd.Series([], dtype="datetime64[s]"), interval, np.arange(400) % len(interval))
    assert (interval.encode(column) < len(interval)).all()
