"""A record that decides the dtype of the input does not decide that of the reports."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from skdp import Interval, RandomizedResponseEncoder
from tests.carry_checks import facts_of
from tests.conftest import each

TIMES = [dt.datetime(2020, 1, 1), dt.datetime(2021, 1, 1)]
BINS = Interval(edges=[0, 2, 4])

# Of each, two columns of which the last record decides the dtype, and the declaration.
PAIRS = {
    "missing number": (pd.Series([1, 2, 3, 1]), pd.Series([1, 2, 3, None]), [1, 2, 3]),
    "missing truth": (pd.Series([True, False] * 2), pd.Series([True, False, True, None]), [True, False]),
    "missing category": (
        pd.Series([1, 2, 3, 1]).astype("category"),
        pd.Series([1, 2, 3, None]).astype("category"),
        [1, 2, 3],
    ),
    "text among numbers": (pd.Series([1, 2, 3, 1]), pd.Series([1, 2, 3, "x"], dtype=object), [1, 2, 3]),
    "number among texts": (pd.Series(["a", "b"] * 2), pd.Series(["a", "b", "a", 1], dtype=object), ["a", "b"]),
    "wide number": (pd.Series([1, 2, 3, 1], dtype="int8"), pd.Series([1, 2, 3, 500], dtype="int16"), [1, 2, 3]),
    "fraction": (pd.Series([1, 2, 3, 1]), pd.Series([1, 2, 3, 1.5]), BINS),
    "nullable fraction": (pd.Series([1, 2], dtype="Int64"), pd.Series([1, 1.5], dtype="Float64"), BINS),
    "fraction in Arrow": (pa.chunked_array([[1, 2, 3]]), pa.chunked_array([[1.0, 2.0, 1.5]]), BINS),
    "fraction in polars": (pl.Series([1, 2, 3]), pl.Series([1.0, 2.0, 1.5]), BINS),
    "array": (np.array([1, 2, 3]), np.array([1, 2, np.nan]), [1, 2, 3]),
    "unit": (pd.Series(TIMES, dtype="datetime64[s]"), pd.Series(TIMES, dtype="datetime64[ns]"), TIMES),
    "unit in Arrow": (
        pa.chunked_array([pa.array(TIMES, pa.timestamp("s"))]),
        pa.chunked_array([pa.array(TIMES, pa.timestamp("ns"))]),
        Interval(edges=[*TIMES, dt.datetime(2022, 1, 1)]),
    ),
    "time among days": (
        pl.Series([dt.date(2020, 1, 1), dt.date(2020, 5, 1)]),
        pl.Series([dt.datetime(2020, 1, 1), dt.datetime(2020, 5, 1, 10)]),
        Interval(edges=[dt.date(2020, 1, 1), dt.date(2020, 3, 1), dt.date(2021, 1, 1)]),
    ),
    "many words": (
        pa.chunked_array([pa.array(["a", "b"]).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string()))]),
        pa.chunked_array([pa.array(["a", "b"]).dictionary_encode().cast(pa.dictionary(pa.int16(), pa.string()))]),
        ["a", "b"],
    ),
}


def table_of(column):
    if isinstance(column, np.ndarray):
        return column[:, np.newaxis]
    make = {pd.Series: pd.DataFrame, pl.Series: pl.DataFrame, pa.ChunkedArray: pa.table}[type(column)]
    return make({"x": column})


@each("kind", PAIRS)
def test_reports_have_the_form_of_the_declaration(kind):
    *columns, declared = PAIRS[kind]
    forms = []
    for column in columns:
        table = table_of(column)
        categories = [declared] if isinstance(table, np.ndarray) else {"x": declared}
        encoder = RandomizedResponseEncoder(1.0, categories=categories, handle_unknown="uniform", random_state=0)
        forms.append(facts_of(encoder.fit(table).transform(table)))
    assert forms[0] == forms[1]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_of_other_libraries_too(library):
    forms = []
    for column in PAIRS["fraction"][:2]:
        encoder = RandomizedResponseEncoder(1.0, categories={"x": BINS}, random_state=0).set_output(transform=library)
        forms.append(facts_of(encoder.fit_transform(table_of(column))))
    assert forms[0] == forms[1]
