"""A column is coded by value, or its dtype is an error: no dtype moves a declared value outside the domain."""

import datetime as dt
import itertools
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from skdp import Domain, Interval, RandomizedResponseEncoder
from skdp.tables import ValueCoder
from tests.errors import refusal

DAYS = [dt.date(2020, 1, 1), dt.date(2020, 1, 2)]
TIMES = [dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 2)]
ZONED = [time.replace(tzinfo=dt.UTC) for time in TIMES]
DOMAINS = {
    "text": ["a", "b"],
    "whole": [1, 2],
    "fractions": [0.1, 2.5],
    "truth": [False, True],
    "dates": DAYS,
    "times": TIMES,
    "numbers": Interval(edges=[0, 1.5, 3]),
    "days": Interval(edges=[*DAYS, dt.date(2020, 1, 3)]),
}
UNDECLARED = [2, 2]  # the codes of values outside a domain of two values
WHOLE = {"whole": [0, 1], "fractions": UNDECLARED, "numbers": [0, 1]}
FRACTIONS = {"fractions": [0, 1], "whole": UNDECLARED, "numbers": [0, 1]}
TEXT, TRUTH = {"text": [0, 1]}, {"truth": [0, 1]}
TIMED = {"dates": [0, 1], "times": [0, 1], "days": [0, 1]}  # a date is its midnight

# Two values of each dtype of Arrow, and their codes in the domains that can contain them.
ARROW = {
    **dict.fromkeys([pa.string(), pa.large_string(), pa.string_view()], (["a", "b"], TEXT)),
    pa.dictionary(pa.int8(), pa.string()): (["a", "b"], TEXT),
    **dict.fromkeys([pa.int8(), pa.uint16(), pa.int64(), pa.decimal128(9, 0)], ([1, 2], WHOLE)),
    **dict.fromkeys([pa.float32(), pa.float64()], ([0.1, 2.5], FRACTIONS)),
    **dict.fromkeys([pa.decimal128(9, 2), pa.decimal256(40, 1)], ([Decimal("0.1"), Decimal("2.5")], FRACTIONS)),
    pa.dictionary(pa.int32(), pa.decimal128(9, 1)): ([Decimal("0.1"), Decimal("2.5")], FRACTIONS),
    pa.bool_(): ([False, True], TRUTH),
    **dict.fromkeys([pa.date32(), pa.date64()], (DAYS, TIMED)),
    **dict.fromkeys([pa.timestamp("s"), pa.timestamp("ns")], (TIMES, TIMED)),
    pa.timestamp("us", "UTC"): (ZONED, {}),
    **dict.fromkeys([pa.binary(), pa.large_binary(), pa.binary(1)], ([b"a", b"b"], {})),
    pa.duration("us"): ([dt.timedelta(1), dt.timedelta(2)], {}),
    pa.time64("us"): ([dt.time(1), dt.time(2)], {}),
    pa.list_(pa.string()): ([["a"], ["b"]], {}),
    pa.struct({"a": pa.int64()}): ([{"a": 1}, {"a": 2}], {}),
}
NUMPY = {
    **dict.fromkeys(["<U1", ">U1"], (["a", "b"], TEXT)),
    **dict.fromkeys([">i2", ">i8", ">u4"], ([1, 2], WHOLE)),
    **dict.fromkeys([">f4", ">f8", "f2"], ([0.1, 2.5], FRACTIONS)),
    "?": ([False, True], TRUTH),
    **dict.fromkeys([">M8[s]", "M8[us]"], (TIMES, TIMED)),
    "S1": ([b"a", b"b"], {}),
    ">m8[s]": ([dt.timedelta(1), dt.timedelta(2)], {}),
    "V1": ([b"a", b"b"], {}),
    "c16": ([1, 2], {}),
}
READERS = {
    "pyarrow": lambda array: pa.chunked_array([array]),
    "polars": lambda array: pl.Series(pl.from_arrow(array)),
    "pandas of Arrow": lambda array: pd.Series(pd.arrays.ArrowExtensionArray(array)),
    "pandas": lambda array: array.to_pandas(),
}


def check(column, expected, domain):
    """Check that the codes of a column are as expected, or that an error names the column and its dtype."""
    declared = Domain({"age": DOMAINS[domain]})
    dtype = getattr(column, "dtype", None)
    if isinstance(dtype, pd.CategoricalDtype):
        dtype = dtype.categories.dtype
    if domain in expected:
        assert declared.encode([column])[0].tolist() == expected[domain], domain
    elif str(dtype) == "object":  # which does not determine the type of the values
        assert declared.encode([column])[0].tolist() == UNDECLARED, domain
    else:
        with pytest.raises(ValueError, match=r"Column 'age': .*dtype"):
            declared.encode([column])


def arrow_array(values, dtype):
    if pa.types.is_dictionary(dtype):
        return pa.array(values, dtype.value_type).dictionary_encode()
    return pa.array(values, dtype)


NOT_IN_POLARS = [pa.dictionary(pa.int32(), pa.decimal128(9, 1)), pa.decimal256(40, 1), pa.date64()]


@pytest.mark.parametrize("dtype", ARROW, ids=str)
def test_arrow_dtype_is_coded_or_refused(dtype):
    values, expected = ARROW[dtype]
    for reader, domain in itertools.product(READERS, DOMAINS):
        if reader != "polars" or dtype not in NOT_IN_POLARS:
            check(READERS[reader](arrow_array(values, dtype)), expected, domain)


@pytest.mark.parametrize("dtype", NUMPY)
def test_numpy_dtype_is_coded_or_refused(dtype):
    values, expected = NUMPY[dtype]
    array = np.array(values, "S1").view("V1") if dtype == "V1" else np.array(values).astype(dtype)
    for library, domain in itertools.product((np.asarray, pd.Series), DOMAINS):
        check(library(array), expected, domain)


NOTHING = {
    "None": pd.Series([None, None]),
    "nan": pd.Series([np.nan, np.nan]),
    "array": np.full(2, np.nan),
    "NaT": pd.Series([pd.NaT, pd.NaT]),
    "NA": pd.Series([pd.NA, pd.NA], dtype="Int64"),
    "text": pd.Series([None, None], dtype="string"),
    "category": pd.Series(pd.Categorical([None, None], ["a"])),
    "null of polars": pl.Series([None, None]),
    "nan of polars": pl.Series([np.nan, None]),
    "zone": pl.Series([None, None], dtype=pl.Datetime("us", "UTC")),
    **{str(dtype): pa.chunked_array([pa.nulls(2, dtype)]) for dtype in [pa.null(), *ARROW]},
}


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("domain", DOMAINS)
def test_column_without_values_is_missing_in_every_dtype(domain, missing):
    declared = DOMAINS[domain]
    if missing:
        declared = Interval(edges=declared.edges, missing=True) if isinstance(declared, Interval) else [*declared, None]
    for kind, column in NOTHING.items():
        assert Domain({"age": declared}).encode([column])[0].tolist() == UNDECLARED, kind


@pytest.mark.parametrize("convert", [pa.table, pl.DataFrame, pd.DataFrame])
def test_error_contains_no_field_of_a_struct(convert):
    # Keys of records in cells become the names of fields.
    table = convert({"c": pa.array([{"hunter2": 1}])} if convert is pa.table else {"c": [{"hunter2": 1}]})
    encoder = RandomizedResponseEncoder(1.0, categories={"c": [1, 2]})
    for reads in (encoder.fit_transform, Domain({"c": [1, 2]}).value_counts):
        with refusal((TypeError, ValueError), "Column 'c'", "hunter2"):
            reads(table)


def test_codes_of_few_and_many_rows_are_equal():
    values = ["a", "b", "z", None, "ß"]
    coder = ValueCoder(["b", "a", "ß"])
    for n_rows in (1, 127, 128, 300):
        listed = [values[row % 5] for row in range(n_rows)]
        expected = [[1, 0, 3, 3, 2][row % 5] for row in range(n_rows)]
        arrow = pa.chunked_array([pa.array(listed)])
        damaged = pa.array([b"\xff", *(value and value.encode() for value in listed)]).cast(pa.binary())
        columns = [
            *(pd.Series(listed, dtype=dtype) for dtype in (object, "str", "category")),
            *(pl.Series(listed, dtype=dtype) for dtype in (pl.String, pl.Enum(["z", *"cab", "ß"]), pl.Categorical)),
            *(arrow, arrow.cast(pa.large_string()), arrow.dictionary_encode()),
        ]
        for column in columns:
            assert coder.encode(column).tolist() == expected
        damaged = pa.chunked_array(
            [pa.StringArray.from_buffers(len(damaged), *damaged.buffers()[1:], damaged.buffers()[0])]
        )
        assert coder.encode(damaged).tolist() == [3, *expected]
