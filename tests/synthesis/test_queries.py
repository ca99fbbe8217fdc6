from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skdp.domain import Domain, Interval
from skdp.synthesis._queries import range_weights, read_conditions
from tests.conftest import each

AGES = Interval(edges=[0, 20, 40, 60])
DOMAIN = Domain({"age": AGES, "size": ["small", "medium", "large", None], "n": [1, 2, 5], "paid": [False, True]})
ends = st.one_of(st.none(), st.floats(-30, 90), st.integers(-30, 90))


@given(ends, ends)
def test_a_range_of_bins_is_the_share_of_evenly_spread_numbers(low, high):
    start, stop = -math.inf if low is None else low, math.inf if high is None else high
    if start > stop:
        with pytest.raises(ValueError, match="low must not be above high"):
            range_weights("age", AGES, low, high)
        return
    grid = np.linspace(0, 60, 60 * 64, endpoint=False)
    inside = ((grid >= start) & (grid < stop)).reshape(3, -1).mean(axis=1)
    np.testing.assert_allclose(range_weights("age", AGES, low, high), inside, atol=2 / 1000)


@given(st.lists(st.floats(0, 60), min_size=3, max_size=3))
def test_neighbouring_ranges_add_up(cuts):
    low, middle, high = sorted(cuts)
    parts = range_weights("age", AGES, low, middle) + range_weights("age", AGES, middle, high)
    np.testing.assert_allclose(parts, range_weights("age", AGES, low, high), atol=1e-12)


def test_ranges_of_values_are_half_open():
    assert range_weights("n", DOMAIN["n"], 2, 5).tolist() == [0, 1, 0]
    assert range_weights("n", DOMAIN["n"], None, None).tolist() == [1, 1, 1]
    assert range_weights("size", DOMAIN["size"], "small", "large").tolist() == [1, 1, 0, 0]
    assert range_weights("size", DOMAIN["size"], None, None).tolist() == [1, 1, 1, 0]  # missing is in no range


@each(
    "condition weights",
    [
        ({"size": "small"}, {1: [1, 0, 0, 0]}),
        ({"size": ["small", None]}, {1: [1, 0, 0, 1]}),
        ({"size": None}, {1: [0, 0, 0, 1]}),
        ({"size": math.nan}, {1: [0, 0, 0, 1]}),
        ({"size": pd.Series(["large"])}, {1: [0, 0, 1, 0]}),
        ({"size": []}, {1: [0, 0, 0, 0]}),
        ({"size": {"small", "large"}}, {1: [1, 0, 1, 0]}),
        ({"n": [1, 1, 5]}, {2: [1, 0, 1]}),
        ({"n": np.int64(2)}, {2: [0, 1, 0]}),
        ({"n": (2, None)}, {2: [0, 1, 1]}),
        ({"paid": True}, {3: [0, 1]}),
        ({"age": (None, 30)}, {0: [1, 0.5, 0]}),
        ({"age": (10, 30), "paid": [True]}, {0: [0.5, 0.5, 0], 3: [0, 1]}),
        ({}, {}),
    ],
)
def test_conditions(condition, weights):
    found = read_conditions(DOMAIN, condition)
    assert {place: weight.tolist() for place, weight in found.items()} == weights


@each(
    "condition error message",
    [
        ("size", TypeError, "must be a mapping"),
        ({"colour": "red"}, ValueError, "there is no column 'colour'"),
        ({"size": "huge"}, ValueError, "column 'size' is not among its declared"),
        ({"n": True}, ValueError, "column 'n' is not among"),
        ({"n": "1"}, ValueError, "column 'n' is not among"),
        ({"paid": 1}, ValueError, "column 'paid' is not among"),
        ({"age": 30}, ValueError, "ask for a range"),
        ({"age": (1, 2, 3)}, ValueError, "a pair"),
        ({"age": (True, None)}, TypeError, "must be numbers or None"),
        ({"age": ("1", None)}, TypeError, "must be numbers or None"),
        ({"age": (math.nan, None)}, TypeError, "must be numbers or None"),
        ({"age": (3, 1)}, ValueError, "low must not be above high"),
        ({"n": (5, 1)}, ValueError, "low must not be above high"),
        ({"size": ("huge", None)}, ValueError, "declared values of column 'size'"),
    ],
)
def test_conditions_that_are_refused(condition, error, message):
    with pytest.raises(error, match=message):
        read_conditions(DOMAIN, condition)


YEAR = Interval(edges=[date(2020, 1, 1), date(2020, 1, 11), date(2020, 1, 31), date(2020, 2, 1)], missing=True)
START = datetime(2020, 1, 1)
moments = st.one_of(st.none(), st.dates(date(2019, 12, 1), date(2020, 3, 1)), st.datetimes(START, datetime(2020, 2, 5)))


@given(moments, moments)
def test_a_range_of_dates_is_that_of_the_days_since(low, high):
    def days(end):
        end = end if end is None or isinstance(end, datetime) else datetime(end.year, end.month, end.day)
        return None if end is None else (end - START) / timedelta(days=1)

    numbers = Interval(edges=[0, 10, 30, 31], missing=True)
    times = Interval(edges=[datetime(day.year, day.month, day.day) for day in YEAR.edges], missing=True)
    try:
        expected = range_weights("age", numbers, days(low), days(high))
    except ValueError:
        for interval in (YEAR, times):
            with pytest.raises(ValueError, match="low must not be above high"):
                range_weights("day", interval, low, high)
        return
    for interval in (YEAR, times):
        np.testing.assert_allclose(range_weights("day", interval, low, high), expected, atol=1e-9)


@pytest.mark.parametrize("end", [pd.Timestamp("2020-01-06"), np.datetime64("2020-01-06"), date(2020, 1, 6)])
def test_the_end_of_a_range_of_dates_may_be_of_any_library(end):
    assert read_conditions(Domain({"day": YEAR}), {"day": (None, end)})[0].tolist() == [0.5, 0, 0, 0]


@each("end", [3, "2020-01-01", True, pd.NaT, math.nan, datetime(2020, 1, 1, tzinfo=UTC), [START]])
def test_ends_that_are_no_dates_are_refused(end):
    for low, high in ((None, end), (end, None), (end, end)):
        with pytest.raises(
            TypeError, match="range of column 'day' must be dates, datetimes without a time zone, or No"
        ):
            range_weights("day", YEAR, low, high)
    with pytest.raises(TypeError, match="must be numbers or None, got date"):
        range_weights("age", AGES, date(2020, 1, 1), None)


def test_a_range_beyond_all_bins_is_empty():
    assert range_weights("day", YEAR, date(9999, 12, 31), None).tolist() == [0] * 4
    assert range_weights("day", YEAR, None, date(1, 1, 1)).tolist() == [0] * 4
    assert range_weights("day", YEAR, None, None).tolist() == [1, 1, 1, 0]
