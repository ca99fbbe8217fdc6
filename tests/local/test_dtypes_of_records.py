"""The dtype of reports follows from the declared values and the library, as one record may decide that of the data."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from skdp import Interval, RandomizedResponseEncoder
from tests.conftest import each

DAYS = [dt.date(2020, 1, 1), dt.date(2020, 3, 1), dt.date(2021, 1, 1)]
TIMES = [dt.datetime(day.year, day.month, day.day) for day in DAYS]
PANDAS_TEXT = str(pd.Series(["a"]).dtype)

# By declaration, the dtype in pandas, polars and Arrow.
DTYPES = {
    "whole": ([1, 2, 3], "int64", "Int64", "int64"),
    "unsigned": ([1, 2**64 - 1], "uint64", "UInt64", "uint64"),
    "missing": ([1, 2, None], "float64", "Int64", "int64"),
    "real": ([0.5, 1], "float64", "Float64", "double"),
    "bins": (Interval([0, 1, 4]), "float64", "Float64", "double"),
    "whole bins": (Interval([0, 2, 4]), "int64", "Int64", "int64"),
    "truth": ([True, False], "bool", "Boolean", "bool"),
    "missing truth": ([True, False, None], "object", "Boolean", "bool"),
    "text": (["a", "b", None], PANDAS_TEXT, "String", "string"),
    "days": (DAYS, "object", "Date", "date32[day]"),
    "bins of days": (Interval(DAYS), "datetime64[us]", "Date", "date32[day]"),
    "times": ([*TIMES, None], "datetime64[us]", "Datetime(time_unit='us', time_zone=None)", "timestamp[us]"),
}


def values_of(declared):
    return [value for value in declared.values if value is not None] if isinstance(declared, Interval) else declared


def tables(declared):
    """Make tables of the declared values, by library, in dtypes that other records may give them."""
    values = values_of(declared)
    made = [pd.DataFrame({"x": pd.Series(values, dtype=dtype)}) for dtype in (object, None, "category")]
    array = pa.array(values, pa.uint64() if 2**64 - 1 in values else None)
    arrow, coded = pa.table({"x": array}), pa.table({"x": array.dictionary_encode()})
    return [*made, arrow.to_pandas(types_mapper=pd.ArrowDtype), arrow, coded, pl.from_arrow(arrow), pl.DataFrame(arrow)]


@each("kind", DTYPES)
def test_of_the_column_remains_the_library(kind):
    declared, of_pandas, of_polars, of_arrow = DTYPES[kind]
    for table in tables(declared):
        encoder = RandomizedResponseEncoder(1.0, categories={"x": declared}, random_state=0)
        reports = encoder.fit_transform(table)
        assert type(reports) is type(table)
        if isinstance(reports, pa.Table):
            assert str(reports["x"].type) == of_arrow
        else:
            assert str(reports["x"].dtype) == (of_polars if isinstance(reports, pl.DataFrame) else of_pandas)


def test_arrays_are_as_wide_as_the_declared_values():
    for rows in (np.array([["a"], ["b"]]), np.array([["long text"], ["b"]]), np.array([["a"], [None]], object)):
        encoder = RandomizedResponseEncoder(1.0, categories=[["a", "bc"]], handle_unknown="uniform", random_state=0)
        assert encoder.fit(rows).transform(rows).dtype == "U2"
    numbers = RandomizedResponseEncoder(1.0, categories=[[1, 2, None]], random_state=0)
    assert numbers.fit_transform(np.array([[1], [2]], np.int8)).dtype == np.float64
