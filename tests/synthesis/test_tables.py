"""Declared values as codes and back: targets, undeclared values, dtypes, numbers and dates within bins."""

from __future__ import annotations

from datetime import date, datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from skdp.domain import Domain, Interval
from skdp.synthesis._records import with_target
from skdp.synthesis._rows import draw_numbers, make_template, write_rows
from skdp.tables import Table, to_dates, wrap_table
from tests.conftest import each


def decode(template, domain, codes, rng):
    return write_rows(template, draw_numbers(domain, codes, rng))


@each(
    "columns, name, called",
    [
        ("ab", "c", "c"),
        ("ab", "a", "target"),
        (["a", "target"], "a", "target_2"),
        (["target", "target_2"], None, "target_3"),
    ],
)
def test_a_target_with_the_name_of_a_column_gets_another(columns, name, called):
    table = with_target(
        wrap_table(pd.DataFrame([[0] * len(columns)] * 3, columns=list(columns))), pd.Series([1, 0, 0], name=name)
    )
    assert table.names == (*columns, called)
    assert list(table.columns[-1]) == [1, 0, 0]


def numbers(dtype, edges, n=4000, seed=0, **declared):
    interval = Interval(edges=edges, **declared)
    domain = Domain({"x": interval})
    codes = np.arange(n) % len(interval)
    template = make_template(wrap_table(pd.DataFrame({"x": pd.Series([], dtype=dtype)})), domain)
    (column,) = decode(template, domain, [codes], np.random.default_rng(seed))
    return interval, codes, pd.Series(column)


@each("dtype", ["int8", "float32", object, "category", "Int32", "double[pyarrow]"])
def test_numbers_have_the_declared_dtype_and_stay_in_their_bin(dtype):
    for real, expected in ((False, np.int64), (True, np.float64)):
        interval, codes, column = numbers(dtype, [0, 7, 30, 31, 100], real=real)
        assert column.dtype == expected
        np.testing.assert_array_equal(interval.encode(column), codes)
        assert column.nunique() > (2000 if real else 90)


@each("edges", [[0.2, 0.4, 0.6, 3], [0.5, 0.7, 3], [-5, -0.5, -0.25, 2.5], [0, 1000, 2000]])
def test_a_bin_without_a_whole_number_gives_one_of_the_domain(edges):
    interval, _, column = numbers("int8", edges, decimals=0)
    assert column.dtype == np.int64
    assert (interval.encode(column) < len(interval)).all()


@pytest.mark.parametrize(("dtype", "least", "most"), [("int64", -1e30, 2**63 - 1), ("uint64", 0, 2**64 - 1)])
def test_ends_beyond_what_a_dtype_holds_are_cut(dtype, least, most):
    _, _, column = numbers("float32", [least, 2.0, 1e30])
    assert column.dtype == dtype
    assert int(column.max()) <= most
    assert int(column.min()) >= np.iinfo(dtype).min


def empty(dtype):
    return lambda: pd.Series([], dtype=dtype)


# Columns without rows.
DATE_COLUMNS = {
    **{f"numpy {unit}": (lambda unit=unit: np.array([], f"datetime64[{unit}]")) for unit in ("D", "h", "s", "ns")},
    "numpy object": lambda: np.array([], object),
    **{f"pandas {unit}": empty(f"datetime64[{unit}]") for unit in ("s", "ms", "us", "ns")},
    "pandas date32": empty("date32[pyarrow]"),
    "pandas arrow ns": empty("timestamp[ns][pyarrow]"),
    "polars Date": lambda: pl.Series([], dtype=pl.Date),
    **{f"polars {unit}": (lambda unit=unit: pl.Series([], dtype=pl.Datetime(unit))) for unit in ("ms", "us", "ns")},
    "pyarrow date64": lambda: pa.chunked_array([], pa.date64()),
    **{f"pyarrow {unit}": (lambda unit=unit: pa.chunked_array([], pa.timestamp(unit))) for unit in ("s", "us", "ns")},
    "pyarrow null": lambda: pa.chunked_array([], pa.null()),
}


def dtype_of(column):
    return column.type if isinstance(column, pa.ChunkedArray) else column.dtype


def drawn(like, interval, codes, seed=0):
    """Draw, and read what came as microseconds."""
    frame = pd.DataFrame({"x": like}) if isinstance(like, pd.Series) else pd.DataFrame()
    domain = Domain({"x": interval})
    template = make_template(Table(("x",), (like,), frame), domain)
    (column,) = decode(template, domain, [codes], np.random.default_rng(seed))
    column = pd.Series(column, dtype=column.dtype) if isinstance(like, pd.Series) else column
    return column, to_dates(column, "datetime64[us]")


@pytest.mark.parametrize("kind", DATE_COLUMNS)
@pytest.mark.parametrize("missing", [False, True])
def test_dates_have_the_declared_dtype_stay_in_their_bin_and_cover_it(kind, missing):
    like = DATE_COLUMNS[kind]()
    edges = [date(1969, 12, 1), date(1969, 12, 2), date(1970, 1, 1), date(1970, 1, 11)]
    for by_day in (True, False):
        ends = edges if by_day else [datetime(day.year, day.month, day.day) for day in edges]
        interval = Interval(edges=ends, missing=missing)
        codes = np.arange(4000) % len(interval)
        column, times = drawn(like, interval, codes)
        np.testing.assert_array_equal(interval.encode(column), codes)
        dtype = str(dtype_of(column))
        assert not any(unit in dtype for unit in ("[s]", "[ms]", "'ms'", "[ns]", "'ns'", "date64", "[h]"))
        if by_day:
            whole = np.arange("1969-12-01", "1970-01-12", dtype="datetime64[D]").astype("datetime64[us]")
            assert np.unique(times[~np.isnat(times)]).tolist() == whole.tolist()
        else:
            assert (times.astype("datetime64[s]") == times)[~np.isnat(times)].all()
            assert np.unique(times).size > 0.7 * times.size  # a whole second of several days is seldom drawn twice
