"""Dtypes of rows follow the declaration, for tables without rows of any dtype; names of targets."""

from datetime import date, datetime

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from skdp import DPMarginalSynthesizer
from skdp.domain import Interval
from skdp.synthesis.model import JunctionTree
from skdp.tables import to_dates
from tests.conftest import often, quick_first
from tests.persistence.forgery import content_of, save_bytes
from tests.synthesis.conftest import model_of


@pytest.mark.parametrize(
    ("columns", "name", "called"),
    [
        ("ab", "c", "c"),
        ("ab", "a", "target"),
        (["a", "target"], "a", "target_2"),
        (["target", "target_2"], None, "target_3"),
    ],
)
def test_target_named_like_a_column_gets_another_name(columns, name, called):
    X, y = pd.DataFrame([[0] * len(columns)] * 3, columns=list(columns)), pd.Series([1, 0, 0], name=name)
    domain = dict.fromkeys(columns, (0,)) | {called: (0, 1)}
    synthesizer = DPMarginalSynthesizer(50.0, domain=domain, random_state=0).fit(X, y)
    assert synthesizer.domain_.columns == (*columns, called)
    assert synthesizer.marginal(called)["count"].round().tolist() == [2, 1]


def sample(column, interval, n=2_000):
    """Fit a column without rows and noise, and draw from equal bins."""
    if isinstance(column, np.ndarray):
        table, domain = column[:, np.newaxis], [interval]
    else:
        make = {pd.Series: pd.DataFrame, pl.Series: pl.DataFrame, pa.ChunkedArray: pa.table}[type(column)]
        table, domain = make({"x": column}), {"x": interval}
    synthesizer = DPMarginalSynthesizer(1e6, domain=domain, random_state=0).fit(table)
    synthesizer.model_ = model_of(JunctionTree(synthesizer.domain_.sizes, [(0,)]))
    rows = synthesizer.sample(n)
    return rows[:, 0] if isinstance(rows, np.ndarray) else rows["x"]


def empty(dtype):
    return pd.Series([], dtype=dtype)


@pytest.mark.parametrize("dtype", ["int8", "float32", object, "category", "Int32", "double[pyarrow]"])
def test_numbers_have_the_declared_dtype(dtype):
    for real, expected in ((False, np.int64), (True, np.float64)):
        column = sample(empty(dtype), Interval(edges=[0, 7, 30, 31, 100], real=real))
        assert column.dtype == expected
        assert column.between(0, 100).all()
        assert column.nunique() > (1000 if real else 90)


@pytest.mark.parametrize("edges", [[0.2, 0.4, 0.6, 3], [0.5, 0.7, 3], [-5, -0.5, -0.25, 2.5], [0, 1000, 2000]])
def test_bin_without_a_whole_number_gives_a_number_of_the_domain(edges):
    column = sample(empty("int8"), Interval(edges=edges, decimals=0))
    assert column.dtype == np.int64
    assert column.between(edges[0], edges[-1]).all()


def test_largest_whole_numbers_are_drawn():
    column = sample(empty("float32"), Interval(-(2**52), 2**52, bins=1, decimals=0))
    assert column.dtype == "int64"
    assert column.between(-(2**52), 2**52).all()


DATE_COLUMNS = {
    **{f"numpy {unit}": np.array([], f"datetime64[{unit}]") for unit in ("D", "h", "ns")},
    "numpy object": np.array([], object),
    **{f"pandas {dtype}": empty(dtype) for dtype in ("datetime64[s]", "datetime64[ns]", "date32[pyarrow]")},
    "pandas arrow ns": empty("timestamp[ns][pyarrow]"),
    "polars Date": pl.Series([], dtype=pl.Date),
    **{f"polars {unit}": pl.Series([], dtype=pl.Datetime(unit)) for unit in ("ms", "ns")},
    **{f"pyarrow {kind}": pa.chunked_array([], kind) for kind in (pa.date64(), pa.timestamp("s"), pa.null())},
}


@pytest.mark.parametrize("kind", often(DATE_COLUMNS, ["numpy h", "pandas datetime64[ns]", "polars ms", "pyarrow null"]))
def test_dates_have_the_declared_dtype_and_cover_their_bins(kind):
    days = [date(1969, 12, 1), date(1969, 12, 2), date(1970, 1, 1), date(1970, 1, 11)]
    for missing, by_day in ((False, True), (True, True), (True, False)):
        ends = days if by_day else [datetime(day.year, day.month, day.day) for day in days]
        column = sample(DATE_COLUMNS[kind], Interval(edges=ends, missing=missing))
        dtype = str(column.type if isinstance(column, pa.ChunkedArray) else column.dtype)
        assert not any(unit in dtype for unit in ("[s]", "[ms]", "'ms'", "[ns]", "'ns'", "date64", "[h]"))
        times = to_dates(column, "datetime64[us]")
        assert np.isnat(times).any() == missing
        times = times[~np.isnat(times)]
        if by_day:
            whole = np.arange("1969-12-01", "1970-01-12", dtype="datetime64[D]").astype("datetime64[us]")
            assert np.unique(times).tolist() == whole.tolist()
        else:
            assert (times.astype("datetime64[s]") == times).all()
            assert np.unique(times).size > 0.7 * times.size  # a second of several days is seldom drawn twice


TIMES = [datetime(2020, 1, 1), datetime(2020, 7, 1), datetime(2021, 1, 1)]
# Two columns with the same declared values, with dtypes determined by one record, and the declaration.
PAIRS = [
    *[(pd.Series([3, 12, 25, None]).astype("category"), pd.Series([3, 12, 25, 99]).astype("category"), bins)
      for bins in (Interval(edges=[0, 10, 20, 30]), [3, 12, 25])],
    (pd.Series([True, False, False]), pd.Series([True, False, "x"], dtype=object), [False, True]),
    (pl.Series(TIMES[:2]).cast(pl.Date), pl.Series(TIMES[:2]), Interval(edges=[time.date() for time in TIMES])),
    (pd.Series(TIMES[:2]), pd.Series([TIMES[0], TIMES[1].date()], dtype=object), Interval(edges=TIMES)),
]  # fmt: skip


@pytest.mark.parametrize(("first", "second", "declared"), quick_first(4, PAIRS))
def test_no_record_determines_a_dtype_of_the_release(first, second, declared):
    """A missing or unknown record stands for the first declared value."""
    releases = []
    unknown = {"x": getattr(declared, "values", declared)[0]}
    for column in (first, second):
        table = (pl.DataFrame if isinstance(column, pl.Series) else pd.DataFrame)({"x": column})
        options = {"domain": {"x": declared}, "handle_unknown": unknown, "random_state": 0}
        synthesizer = DPMarginalSynthesizer(0.1, **options).fit(table)
        rows = [synthesizer.transform(table)["x"], synthesizer.sample(60)["x"]]
        file = joblib.hash(content_of(save_bytes(synthesizer)))
        releases.append((file, [(type(own), str(own.dtype), own.to_list()) for own in rows]))
    assert releases[0] == releases[1]
