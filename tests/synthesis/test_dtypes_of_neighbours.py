"""Tables of the same declared values, whose dtypes one record of one of them decides: all that is released is equal."""

from __future__ import annotations

import datetime as dt
import io

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from skdp import DPMarginalSynthesizer, Interval
from tests.conftest import often
from tests.persistence.forgery import content_of


def released(table, domain, **parameters):
    """Return the whole of what is released: rows, the file of the fit, and the rows that a table gets."""
    options = {"delta": 1e-6, "random_state": 0, "handle_unknown": "ignore"} | parameters
    synthesizer = DPMarginalSynthesizer(0.1, domain=domain, **options).fit(table)
    file = io.BytesIO()
    synthesizer.save(file)
    rows = [synthesizer.transform(table), synthesizer.sample(60)]
    return joblib.hash(content_of(file.getvalue())), rows


DAYS = [dt.date(2020, 1, 1), dt.date(2020, 7, 1), dt.date(2021, 1, 1)]
TIMES = [dt.datetime(day.year, day.month, day.day) for day in DAYS]
MIDNIGHTS = [TIMES[0], TIMES[1]] * 20
NUMBERS = [1.0, 2.5, 7.0, 9.0] * 10
WHOLE = [3, 12, 25, 17] * 10
BINS = Interval(edges=[0, 10, 20, 30])
REAL = Interval(0, 10, bins=4, real=True)


def of_pandas(values, dtype):
    return pd.Series(values).astype(dtype)


def coded(values, codes):
    """Make a dictionary of Arrow as files have it, whose codes are as wide as the number of values needs."""
    array = pa.array(values).dictionary_encode()
    return pa.chunked_array([pa.DictionaryArray.from_arrays(array.indices.cast(codes), array.dictionary)])


# Of each, two columns of the same declared values, of which one record may have decided the dtype; and the declaration.
# Where a record is missing or undeclared, it stands for a declared value.
PAIRS = {
    "categories, one missing": (
        pd.Series([*WHOLE, None]).astype("category"),
        pd.Series([*WHOLE, 99]).astype("category"),
        BINS,
    ),
    "truth values, one text": (
        pd.Series([True, False] * 20),
        pd.Series([*[True, False] * 19, True, "x"], dtype=object),
        [False, True],
    ),
    "a day among times": (
        of_pandas(MIDNIGHTS, "datetime64[us]"),
        pd.Series([*MIDNIGHTS[:-1], MIDNIGHTS[-1].date()], dtype=object),
        Interval(edges=TIMES),
    ),
    "pandas Arrow days": (
        of_pandas(DAYS[:2] * 20, "date32[pyarrow]"),
        of_pandas(MIDNIGHTS, "timestamp[s][pyarrow]"),
        Interval(edges=DAYS),
    ),
    "polars days": (pl.Series(DAYS[:2] * 20), pl.Series(MIDNIGHTS), Interval(edges=DAYS)),
    "Arrow dictionary of text": (coded(["a", "b"] * 20, pa.int8()), coded(["a", "b"] * 20, pa.int16()), ["a", "b"]),
    "array of numbers": (np.array(NUMBERS, np.float32), np.array(NUMBERS), REAL),
}


QUICK = ["categories, one missing", "a day among times", "polars days"]


def table_of(column):
    public = ["p", "q"] * (len(column) // 2) + ["p"] * (len(column) % 2)
    if isinstance(column, np.ndarray):
        return column[:, np.newaxis]
    make = {pd.Series: pd.DataFrame, pl.Series: pl.DataFrame, pa.ChunkedArray: pa.table}[type(column)]
    return make({"pub": public, "x": column})


def require_equal(first, second):
    """Compare tables of any library with their dtypes."""
    if isinstance(first, pd.DataFrame):
        pd.testing.assert_frame_equal(first, second, check_exact=True)
    elif isinstance(first, (pl.DataFrame, pa.Table)):
        assert first.schema == second.schema
        assert first.equals(second)
    else:
        assert first.dtype == second.dtype
        assert np.array_equal(first, second)


@pytest.mark.parametrize("kind", often(PAIRS, QUICK))
def test_the_dtype_of_the_data_is_not_in_the_release(kind):
    *columns, declared = PAIRS[kind]
    tables = list(map(table_of, columns))
    is_array = isinstance(tables[0], np.ndarray)
    domain = [declared] if is_array else {"pub": ["p", "q"], "x": declared}
    unknown = {"x0" if is_array else "x": getattr(declared, "values", declared)[0]}
    files = []
    rows = []
    for table in tables:
        file, drawn = released(table, domain, handle_unknown=unknown)
        files.append(file)
        rows.append(drawn)
    assert files[0] == files[1]
    for first, second in zip(*rows, strict=True):
        require_equal(first, second)
