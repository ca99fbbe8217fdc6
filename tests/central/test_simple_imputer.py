from __future__ import annotations

import math
from datetime import date, datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from skdp import DPSimpleImputer, Interval, PrivacyLedger
from tests.conftest import each

NUMERIC = ["mean", "median"]


def table(n, seed=0):
    """Two columns with gaps; their middles are at about 30 and 60."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.beta(3, 7, n), rng.beta(6, 4, n)]) * 100
    X[rng.random(X.shape) < 0.3] = np.nan
    return X


class TestMostFrequent:
    def test_missing_is_never_the_most_frequent(self):
        frame = pd.DataFrame({"a": ["x", None, None, None]})
        imputer = DPSimpleImputer(50.0, strategy="most_frequent", categories={"a": [None, "x"]})
        assert imputer.fit_transform(frame)["a"].tolist() == ["x"] * 4
        with pytest.raises(ValueError, match="column 'a' declares nothing that could be filled in"):
            imputer.set_params(categories={"a": [None]}, handle_unknown="ignore").fit(frame)

    def test_the_middle_of_a_bin(self):
        X = np.array([[1.0], [12.0], [13.0], [np.nan]] * 50)
        imputer = DPSimpleImputer(50.0, strategy="most_frequent", categories=Interval(0, 20, bins=4)).fit(X)
        assert imputer.statistics_.tolist() == [12.5]
        assert imputer.transform(X)[:4].tolist() == [[1.0], [12.0], [13.0], [12.5]]

    def test_an_array_of_words(self):
        X = np.array([["x", 1], [None, 2], ["x", np.nan]] * 30, dtype=object)
        imputer = DPSimpleImputer(90.0, strategy="most_frequent", categories=[["x", "y"], [1, 2]], random_state=0)
        out = imputer.fit(X).transform(X)
        assert out.dtype == object
        assert out[1].tolist() == ["x", 2]
        assert out[2, 1] == imputer.statistics_[1]
        assert X[1, 0] is None


@each(
    "column value filled dtype",
    [
        (pd.Series(["x", None], dtype="category"), "z", ["x", "z"], "category"),
        (pd.Series([1, None], dtype="Int64"), 1.5, [1.0, 1.5], "Float64"),
        (pd.Series([1, None], dtype="Int64"), 2, [1, 2], "Int64"),
        (pd.Series([1, None], dtype="Int8"), 1000, [1, 1000], "Int64"),
        (pd.Series([1, None], dtype="uint8[pyarrow]"), -5, [1, -5], "int64[pyarrow]"),
        (pl.Series([1, None], dtype=pl.Int8), 1000, [1, 1000], "Int16"),
        (pa.chunked_array([pa.array([1, None], pa.int8())]), 1000, [1, 1000], "int64"),
        (pd.Series([1, None], dtype="float32"), 1.5, [1.0, 1.5], "float32"),
        (pd.Series([1, None], dtype="int64[pyarrow]"), 1.5, [1.0, 1.5], "double[pyarrow]"),
        (pl.Series(["x", None], dtype=pl.Enum(["x"])), "z", ["x", "z"], "String"),
        (pl.Series(["x", None], dtype=pl.Categorical), "z", ["x", "z"], "Categorical"),
        (pl.Series([1, None]), 1.5, [1.0, 1.5], "Float64"),
        (pl.Series([False, None]), True, [False, True], "Boolean"),
        (pl.Series([1.0, None, math.nan]), 2.0, [1.0, 2.0, 2.0], "Float64"),
        (pl.Series([None, None]), "x", ["x", "x"], "String"),
        (pa.chunked_array([pa.array(["x", None]).dictionary_encode()]), "z", ["x", "z"], "dictionary"),
        (pa.chunked_array([pa.array([1, None])]), 1.5, [1.0, 1.5], "double"),
        (pa.chunked_array([pa.nulls(2)]), "z", ["z", "z"], "string"),
        (pa.chunked_array([pa.array(["x", None], pa.string_view())]), "z", ["x", "z"], "large_string"),
    ],
)
def test_a_dtype_gives_way_only_if_it_must(column, value, filled, dtype):
    frame = {pd.Series: pd.DataFrame, pl.Series: pl.DataFrame, pa.ChunkedArray: pa.table}[type(column)]({"a": column})
    imputer = DPSimpleImputer(strategy="most_frequent", categories={"a": [value]}, handle_unknown="ignore")
    out = imputer.fit(frame).transform(frame)["a"]
    assert (out.to_pylist() if isinstance(out, pa.ChunkedArray) else list(out)) == filled
    assert str(out.type if isinstance(out, pa.ChunkedArray) else out.dtype).startswith(dtype)


DATES = [date(2020, 1, 1), date(2020, 3, 1), date(2021, 8, 1), None] * 50
TIMES = [day and datetime(day.year, day.month, day.day) for day in DATES]


@each("bound", [date, datetime])
@each(
    "column",
    [
        pd.Series(pd.to_datetime(TIMES)),
        pd.Series(pd.to_datetime(TIMES)).astype("datetime64[s]"),
        pd.Series(TIMES, dtype=pd.ArrowDtype(pa.timestamp("us"))),
        pd.Series(DATES, dtype=pd.ArrowDtype(pa.date32())),
        pl.Series(DATES),
        pl.Series(TIMES),
        pa.chunked_array([pa.array(DATES)]),
        pa.chunked_array([pa.array(DATES, pa.date64())]),
        pa.chunked_array([pa.array(TIMES, pa.timestamp("s"))]),
    ],
)
def test_a_column_of_dates_stays_one(column, bound):
    """The middle of the second bin is in the middle of a day."""
    make = {pd.Series: pd.DataFrame, pl.Series: pl.DataFrame, pa.ChunkedArray: pa.table}[type(column)]
    days = Interval(bound(2019, 1, 1), bound(2022, 1, 1), bins=3)
    imputer = DPSimpleImputer(strategy="most_frequent", categories={"a": days}, random_state=0)
    filled = imputer.fit_transform(make({"a": column}))["a"]
    is_arrow = isinstance(filled, pa.ChunkedArray)
    assert (filled.type == column.type) if is_arrow else (filled.dtype == column.dtype)
    values = filled.to_pylist() if is_arrow else filled.to_list()
    assert str(values[3])[:10] == "2020-07-02"
    assert str(values[4])[:10] == "2020-01-01"


def test_a_dtype_that_cannot_be_filled_costs_nothing():
    ledger = PrivacyLedger(epsilon=10)
    table = pa.table({"a": pa.array(np.array([1, 2, np.nan], np.float16))})
    imputer = DPSimpleImputer(strategy="most_frequent", categories={"a": [1, 2]}, ledger=ledger)
    with pytest.raises(ValueError, match="column 'a' cannot be filled in"):
        imputer.fit(table)
    assert ledger.report().empty


class TestNumbers:
    @each("bounds", [(0, 100), (-3.5, 250.25), (0, 12_345), (1, 98)])
    def test_medians(self, bounds):
        X = table(3000).round()
        imputer = DPSimpleImputer(20.0, strategy="median", bounds=bounds).fit(X)
        step = (bounds[1] - bounds[0]) / 10_000
        assert imputer.statistics_ == pytest.approx(np.nanmedian(X, axis=0), abs=1 + 2 * step)
        if bounds in [(0, 100), (1, 98)]:
            assert imputer.statistics_.tolist() == np.nanmedian(X, axis=0).tolist()

    @pytest.mark.parametrize("strategy", NUMERIC)
    def test_only_gaps_are_filled(self, strategy):
        X = table(300)
        imputer = DPSimpleImputer(strategy=strategy, bounds=(0, 100)).fit(X)
        before = X.copy()
        out = imputer.transform(X)
        np.testing.assert_array_equal(X, before)
        gaps = np.isnan(X)
        np.testing.assert_array_equal(out[~gaps], X[~gaps])
        np.testing.assert_array_equal(out[gaps], np.broadcast_to(imputer.statistics_, X.shape)[gaps])
        outside = np.array([[-5.0, np.inf]])  # what is there stays, clipped or not
        np.testing.assert_array_equal(imputer.transform(outside), outside)


class TestMistakes:
    def test_a_column_that_cannot_be_filled_is_named_without_its_values(self):
        fitted = DPSimpleImputer(strategy="most_frequent", categories={"a": ["x", "y"]}).fit(pd.DataFrame({"a": ["x"]}))
        frame = pl.DataFrame({"a": pl.Series([object(), None], dtype=pl.Object)})
        with pytest.raises(ValueError, match=r"column 'a' cannot be filled in \(\w+\)$"):
            fitted.transform(frame)
        with pytest.raises(ValueError, match="feature names"):
            fitted.transform(pd.DataFrame({"b": ["x"]}))
