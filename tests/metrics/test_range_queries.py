"""Range-count queries, compared with a loop over the rows."""

import math
from datetime import date, datetime
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skdp.metrics import range_query_error
from tests.metrics.tables import REAL, SYNTHETIC

QUERIES = [
    {"age": (20, 40)},
    {"age": (20.5, 40.5), "sex": ["F", "M"]},
    {"age": (None, 41), "smokes": [True]},
    {"age": (40, None), "sex": ["F", None, "absent"]},
    {"age": [None, 20, 60.0], "smokes": [False]},
    {"sex": ["X"]},
    {"sex": [None]},
]


def meets(value, condition):
    if isinstance(condition, list):
        return value in condition
    low, high = condition
    return value is not None and (low is None or low <= value) and (high is None or value < high)


def share(data, query):
    rows = zip(*(data[name] for name in query), strict=True)
    hits = [all(map(meets, row, query.values())) for row in rows]
    return Fraction(sum(hits), len(hits))


def compute_error(real, synthetic, queries):
    return float(sum(abs(share(real, query) - share(synthetic, query)) for query in queries) / len(queries))


@pytest.mark.parametrize("query", QUERIES)
def test_error_of_a_query_is_exact_in_every_dataframe(make_frame, query):
    got = range_query_error(make_frame(REAL), make_frame(SYNTHETIC), [query])
    assert got == pytest.approx(compute_error(REAL, SYNTHETIC, [query]), rel=1e-12, abs=1e-15)


numbers = st.lists(st.one_of(st.none(), st.integers(-5, 5)), min_size=1, max_size=12)
bounds = st.one_of(st.none(), st.integers(-6, 6))


@given(numbers, numbers, bounds, bounds)
def test_ranges_are_half_open(real, synthetic, low, high):
    query = {"a": (low, high)}
    tables = [pd.DataFrame({"a": pd.array(values, dtype="Int64")}) for values in (real, synthetic)]
    if low is high is None or (low is not None and high is not None and low >= high):
        with pytest.raises(ValueError, match=r"low < high|\(low, high\) of numbers"):
            range_query_error(*tables, [query])
    else:
        got = range_query_error(*tables, [query])
        assert got == pytest.approx(compute_error({"a": real}, {"a": synthetic}, [query]), rel=1e-12, abs=1e-15)


def test_infinite_number_is_above_every_bound():
    for dtype in ("float64", "float32"):
        real, synthetic = (pd.DataFrame({"a": np.array(values, dtype)}) for values in ([math.inf, 1], [1]))
        assert range_query_error(real, synthetic, [{"a": (0, None)}]) == 0
        assert range_query_error(real, synthetic, [{"a": (0, 1e300)}]) == 0.5
        assert range_query_error(real, synthetic, [{"a": (1e300, None)}]) == 0.5


@pytest.mark.parametrize(
    ("queries", "message"),
    [
        ([], "at least one query"),
        ([{}], "must be a non-empty mapping"),
        ([{"height": (1, 2)}], "must have the column 'height'"),
        ([{"age": 20}], "column 'age' must be a tuple"),
        ([{"sex": []}], "condition on column 'sex'"),
        ([{"age": (1, 2, 3)}], "The range of column 'age' must be"),
        ([{"sex": ("F", "M")}], "Use a list for a set of values"),
        ([{"sex": (1, 2)}], "Column 'sex': expected numbers"),
        ([{"age": ["20"]}], "condition on column 'age'|number"),
        ([{"age": [20, "20"]}], "condition on column 'age'"),
    ],
)
def test_invalid_queries_raise_an_error(queries, message):
    sex = pd.array(["F", "M"], "string")
    table = pd.DataFrame({"age": [20, 30], "sex": sex, "smokes": [True, False]})
    with pytest.raises((ValueError, TypeError), match=message):
        range_query_error(table, table, queries)


DAYS = [date(2020, 1, 1), date(2020, 1, 2), date(2020, 2, 1), None]


@pytest.mark.parametrize(
    "make", [pd.DataFrame, lambda data: pd.DataFrame(data).astype({"day": "datetime64[us]"}), pl.DataFrame]
)
def test_ranges_of_dates_count_half_open(make):
    table, other = make({"day": DAYS}), make({"day": [date(1990, 1, 1)]})

    def share(low, high):
        return range_query_error(table, other, [{"day": (low, high)}])

    assert share(date(2020, 1, 1), date(2020, 2, 1)) == 2 / 4
    assert share(date(2020, 1, 1), datetime(2020, 2, 1, 0, 0, 1)) == 3 / 4
    assert share(date(2020, 1, 2), None) == 2 / 4
    with pytest.raises(ValueError, match="low < high"):
        share(date(2020, 1, 2), date(2020, 1, 2))
    if make is not pd.DataFrame:  # objects that are not numbers are in no range
        with pytest.raises(ValueError, match="Column 'day'"):
            share(1, 2)
