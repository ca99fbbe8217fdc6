from datetime import datetime, timedelta

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skdp import Interval
from skdp.tables import to_dates

UNITS = {"s": timedelta(seconds=1), "ms": timedelta(milliseconds=1), "us": timedelta.resolution}
DAY = timedelta(days=1)


def days(times):
    return [None if time is None else time.date() for time in times]


def array(times, unit):
    return np.array(times, "datetime64[us]").astype(f"datetime64[{unit}]")


def arrow(times, kind):
    return pa.array(times if pa.types.is_timestamp(kind) else days(times), kind)


def chunk(column):
    return pa.chunked_array([column[:1], column[1:]]) if len(column) else pa.chunked_array([], column.type)


# How to make a column of times, and the unit in which it stores them.
COLUMNS = {
    "numpy D": (lambda times: array(times, "D"), DAY),
    "numpy h": (lambda times: array(times, "h"), timedelta(hours=1)),
    "numpy object": (lambda times: np.array([*times, None], object)[:-1], UNITS["us"]),
    "pandas object": (lambda times: pd.Series(times, dtype=object), UNITS["us"]),
    "pandas object of dates": (lambda times: pd.Series(days(times), dtype=object), DAY),
    "pandas category": (lambda times: pd.Series(array(times, "us")).astype("category"), UNITS["us"]),
    "pandas date32": (lambda times: pd.Series(arrow(times, pa.date32()), dtype=pd.ArrowDtype(pa.date32())), DAY),
    "polars Date": (lambda times: pl.Series(days(times), dtype=pl.Date), DAY),
    "pyarrow date32": (lambda times: chunk(arrow(times, pa.date32())), DAY),
    "pyarrow date64": (lambda times: chunk(arrow(times, pa.date64())), DAY),
    "pyarrow dictionary": (lambda times: chunk(arrow(times, pa.timestamp("us")).dictionary_encode()), UNITS["us"]),
}
for unit, width in (UNITS | {"ns": UNITS["us"]}).items():
    COLUMNS[f"numpy {unit}"] = (lambda times, unit=unit: array(times, unit), width)
    COLUMNS[f"pandas {unit}"] = (lambda times, unit=unit: pd.Series(array(times, unit)), width)
    COLUMNS[f"pyarrow {unit}"] = (lambda times, unit=unit: chunk(pa.array(array(times, unit))), width)
    COLUMNS[f"pandas arrow {unit}"] = (
        lambda times, unit=unit: pd.Series(pa.array(array(times, unit)), dtype=pd.ArrowDtype(pa.timestamp(unit))),
        width,
    )
    if unit != "s":
        COLUMNS[f"polars {unit}"] = (lambda times, unit=unit: pl.Series(array(times, unit)), width)


def known_dates(kind):
    """Nanoseconds cover fewer years."""
    narrow = kind.endswith("ns")
    return (datetime(1700, 1, 1), datetime(2250, 1, 1)) if narrow else (datetime(1, 1, 2), datetime(9999, 12, 30))


@pytest.mark.parametrize("kind", COLUMNS)
@settings(max_examples=settings().max_examples // 4)
@given(data=st.data())
def test_dates_of_any_dtype_are_binned_exactly(kind, data):
    make, unit = COLUMNS[kind]
    moments = st.datetimes(*known_dates(kind))
    edges = sorted(data.draw(st.lists(moments, min_size=2, max_size=5, unique_by=lambda edge: edge.date())))
    by_day, missing = data.draw(st.booleans()), data.draw(st.booleans())
    interval = Interval(edges=days(edges) if by_day else edges, missing=missing)
    near = [edge + sign * width for edge in edges for width in (timedelta.resolution, unit, DAY) for sign in (-1, 0, 1)]
    times = [*near, None, *data.draw(st.lists(moments, max_size=5))]
    expected = []
    for time in times:
        if time is None:
            expected.append(len(edges) - 1 if missing else len(interval))
            continue
        kept = time - (time - datetime.min) % unit
        kept = kept.date() if by_day else kept
        inside = [index for index, edge in enumerate(interval.edges) if edge <= kept]
        index = len(interval) if not inside or kept > interval.edges[-1] else min(inside[-1], len(edges) - 2)
        expected.append(index)
    assert interval.encode(make(times)).tolist() == expected


@pytest.mark.parametrize("unit", ["Y", "M", "W", "D", "h", "s", "ms"])
@pytest.mark.parametrize("dtype", ["datetime64[D]", "datetime64[us]"])
def test_years_beyond_python_do_not_overflow(unit, dtype):
    far = np.array([-(1 << 62), 1 << 62], "int64").astype(f"datetime64[{unit}]")
    read = to_dates(far, dtype)
    assert read[0] < np.datetime64("0001-01-01")
    assert read[1] > np.datetime64("9999-12-31T23:59:59.999999")
    assert to_dates(np.array([*far, None], object), dtype)[:2].tolist() == read.tolist()
