"""Encoding and decoding of a column in all dataframes."""

from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from skdp import Domain, Interval
from skdp.tables import ValueCoder, distinct_values, is_missing, to_numbers, to_objects, to_python, wrap_table

STRINGS = ["a", "", "b", None, "ü"]
MISSING = [None, float("nan"), np.nan, pd.NA, pd.NaT, np.datetime64("NaT", "s"), np.float32("nan")]


def decode(codes, values, like):
    (decoder,) = Domain({"x": values}).decoders([like])
    return decoder(codes)


def column(frame):
    return wrap_table(frame).columns[0]


def test_values_without_a_dtype_of_the_library_raise_an_error():
    with pytest.raises(ValueError, match=r"Column 'x': no dtype of pyarrow represents all declared values \(number\)"):
        decode(np.array([0]), [2**70, -1], pa.chunked_array([[1]]))


@pytest.mark.parametrize(
    ("values", "data"),
    [
        (STRINGS, ["a", "b", "ü", "", "a", None]),
        ([3, 1, 2], [1, 2, 3, 3]),
        ([3, 1, None], [1, None, 3]),
        ([0.5, 1.5, -2.0], [1.5, 0.5, -2.0]),
        ([True, False], [False, True, True]),
        ([True, None, False], [False, None, True]),
    ],
)
def test_codes_are_positions_and_decoding_inverts_them(make_frame, values_of, values, data):
    frame = make_frame({"x": data}, {"x": values})
    codes = ValueCoder(values).encode(column(frame))
    assert codes.tolist() == [values.index(value) for value in data]
    back = wrap_table(frame).rebuild([decode(codes, values, column(frame))], ["x"])
    assert type(back) is type(frame)
    assert values_of(back, "x") == data


def test_object_column_of_several_types_is_coded_by_value():
    mixed = np.array([1, True, 1.0, "1", None, pd.NA, np.nan, (1,), b"1"], dtype=object)
    assert ValueCoder([1]).encode(mixed).tolist() == [0, 1, 0, 1, 1, 1, 1, 1, 1]
    assert ValueCoder(["1", None]).encode(mixed).tolist() == [2, 2, 2, 0, 1, 1, 1, 2, 2]
    assert ValueCoder([True]).encode(pd.Series(mixed)).tolist() == [1, 0, 1, 1, 1, 1, 1, 1, 1]


@pytest.mark.parametrize("missing", MISSING)
def test_all_missing_values_have_one_code(missing):
    assert is_missing(missing)
    assert to_python(missing) is None
    data = np.array(["a", missing], dtype=object)
    assert ValueCoder(["a", None]).encode(data).tolist() == [0, 1]
    assert ValueCoder([None, "a"]).encode(data).tolist() == [1, 0]
    assert ValueCoder(["a"]).encode(data).tolist() == [0, 1]


def test_declared_numbers_beyond_the_dtype_are_not_found():
    assert ValueCoder([1, 2]).encode(np.array([2.0, 1.0, 1.5])).tolist() == [1, 0, 2]
    assert ValueCoder([1.0, 2.0, 2.5]).encode(np.array([2, 1, 3])).tolist() == [1, 0, 3]
    assert ValueCoder([300, 1]).encode(np.array([44, 1], np.uint8)).tolist() == [2, 1]
    assert ValueCoder([-1, 1]).encode(np.array([255, 1], np.uint8)).tolist() == [2, 1]
    assert ValueCoder([2**53, 2**53 + 1]).encode(to_objects([Decimal(2**53 + 1)])).tolist() == [1]
    assert ValueCoder([pd.Timestamp(0.5, unit="s")]).encode(np.array([0], "datetime64[s]")).tolist() == [1]
    assert ValueCoder([2**63]).encode(np.array([2**63], np.uint64)).tolist() == [0]
    assert ValueCoder([0.5, 1]).encode(np.array([0, 1])).tolist() == [2, 1]
    assert ValueCoder([0.1, 0.2]).encode(np.array([0.2, 0.1], np.float32)).tolist() == [1, 0]
    with pytest.raises(ValueError, match="same number in a column of dtype float32"):
        ValueCoder([0.1, float(np.float32(0.1))]).encode(np.array([0.1], np.float32))


@pytest.mark.parametrize(("dtype", "n_bits"), [(np.float64, 53), (np.float32, 24), (np.float16, 11)])
def test_declared_integers_that_a_float_dtype_rounds_are_an_error(dtype, n_bits):
    """The rows of 2**53 + 1 were rows of 2**53, and the count of 2**53 + 1 was 0."""
    for value in (2**n_bits, -(2**n_bits), 2**n_bits + 1):
        for column in (np.zeros(2, dtype), pd.Series(np.zeros(2, dtype)), pa.chunked_array([np.zeros(2, dtype)])):
            with pytest.raises(ValueError, match=rf"rounds integers of 2\*\*{n_bits} or more, which are declared"):
                ValueCoder([1, value]).encode(column)
        assert ValueCoder([1, value]).encode(np.array([value, 1])).tolist() == [1, 0]
    assert ValueCoder([2**n_bits - 1]).encode(np.array([2**n_bits - 1], dtype)).tolist() == [0]
    assert ValueCoder([float(2**n_bits)]).encode(np.array([2**n_bits], dtype)).tolist() == [0]


def narrow_columns(numbers, dtype):
    """Return numbers of a narrow float dtype in each library that has it."""
    array = np.array(numbers, dtype)
    columns = [array, pd.Series(array), pa.chunked_array([pa.array(array)])]
    if dtype == np.float32:
        columns += [pd.Series(array, dtype="Float32"), pl.Series(array)]
    return columns


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        (np.float32, [1e300, 1e-300, 5.0]),
        (np.float32, [-1e300, -1e-300, 5.0]),
        (np.float16, [70000.0, 1e-9, 5.0]),
        (np.float16, [-70000.0, -1e-9, 5.0]),
    ],
)
def test_infinity_and_zero_of_a_narrow_float_are_outside_the_domain(dtype, values):
    coder = ValueCoder(values)
    for numbers in ([np.inf, 0.0, 5.0, 7.0], [-np.inf, -0.0, 5.0, 7.0]):
        for narrow in narrow_columns(numbers, dtype):
            assert coder.encode(narrow).tolist() == [3, 3, 2, 3]
    for narrow in narrow_columns([0.0, np.inf, -np.inf, 5.0], dtype):
        assert ValueCoder([5.0, 0.0, np.inf]).encode(narrow).tolist() == [1, 2, 3, 0]


@pytest.mark.parametrize("edges", [[-1e5, -7e4, 5.0], [-5.0, 7e4, 1e5]])
def test_infinity_is_outside_of_bounds_beyond_a_narrow_float(edges):
    column = np.array([-np.inf, -4.0, np.inf, np.nan], np.float16)
    found = Interval(edges=edges, missing=True).encode(column)
    assert found.tolist() == [3, int(edges[0] < -1e4), 3, 2]


def test_values_beyond_a_small_code_dtype_are_coded():
    for k in (254, 255, 256, 257, 65_535, 65_536):
        values = list(range(k))
        codes = ValueCoder(values).encode(np.array([0, k - 1, k]))
        assert codes.tolist() == [0, k - 1, k]
        texts = [str(value) for value in values[:300]]
        data = [texts[0], texts[-1], "none"]
        for made in (np.array(data, object), pl.Series(data), pa.chunked_array([pa.array(data)]), pd.Series(data)):
            assert ValueCoder([*texts, None]).encode(made).tolist() == [0, len(texts) - 1, len(texts) + 1]


# Columns as numbers, and their distinct values.


@pytest.mark.parametrize(
    ("given", "numbers"),
    [
        (pa.chunked_array([[5, 2**53 + 1]]), [5.0, 2.0**53]),  # rounded, without an error that shows the value
        (pd.Series([5, 2**53 + 1], dtype="int64[pyarrow]"), [5.0, 2.0**53]),
        (pa.chunked_array([[Decimal("0.3"), None]]), [0.3, np.nan]),
        (np.array([0.3], np.float32), [np.float32(0.3)]),
        (pl.Series([0.3], dtype=pl.Float32), [np.float32(0.3)]),
        (pd.Series([0.3, None], dtype="Float32"), [np.float32(0.3), np.float32("nan")]),
        (pa.chunked_array([pa.array([0.3], pa.float32())]), [np.float32(0.3)]),
        (pl.Series([5, None], dtype=pl.Int128), [5.0, np.nan]),
        (np.array([Decimal("1.50"), Decimal("sNaN")], object), [1.5, np.nan]),
        (np.array([1, 2.5, True, "3", None, b"1"], object), [1, 2.5, *[np.nan] * 4]),
        (pd.Series([10**400, -(10**400)], dtype=object), [np.inf, -np.inf]),
        *(
            (pd.Series(pd.Categorical([None] * 2, categories=pd.Index([], dtype=dtype))), [np.nan] * 2)
            for dtype in (object, "str", "float64", "Int64")
        ),
    ],
)
def test_columns_of_any_dtype_are_read_as_numbers(given, numbers):
    read = to_numbers(given)
    np.testing.assert_array_equal(read, numbers)
    assert read.dtype == (np.float32 if isinstance(numbers[0], np.float32) else np.float64)


@pytest.mark.parametrize(
    ("data", "values", "missing"),
    [(["b", "a", "b"], ["a", "b"], False), (["b", None], ["b"], True), ([2, 1], [1, 2], False)],
)
def test_distinct_values_are_sorted_with_a_flag_for_missing(make_frame, data, values, missing):
    assert distinct_values(column(make_frame({"x": data}))) == (values, missing)


@pytest.mark.parametrize("data", [[1, True], [0.0, False], [True, 1.0]])
def test_equal_numbers_and_booleans_are_distinct_values(data):
    with pytest.raises(ValueError, match="must have values of one type"):
        distinct_values(np.array(data, object))


def test_levels_of_a_categorical_may_be_unordered_and_unused():
    series = pd.Series(pd.Categorical(["b", "a", None], categories=["z", "b", "a"], ordered=True))
    assert ValueCoder(["a", "b", None]).encode(series).tolist() == [1, 0, 2]
    wide = pl.Series([3, None, 9], dtype=pl.Int128)
    assert ValueCoder([1, 2, 3, None]).encode(wide).tolist() == [2, 3, 4]
    integers = pd.Series(pd.Categorical([3, 1]))
    assert ValueCoder([1, 2, 3]).encode(integers).tolist() == [2, 0]


@pytest.mark.parametrize("values", [["a", "a\0"], [-1, 2**63]])
def test_decoded_value_is_not_converted(values):
    for like in (np.array(values, object), pd.Series(values, dtype=object)):
        assert list(decode(np.arange(2), values, like)) == values


def test_timedelta_of_numpy_is_not_a_number():
    """NumPy registers it as an integer."""
    with pytest.raises(TypeError, match=r"Column 'x': expected text, numbers.* got timedelta64"):
        Domain({"x": [np.timedelta64(7, "s")]})
    column = to_objects([7, np.timedelta64(7, "s")])
    assert ValueCoder([7]).encode(column).tolist() == [0, 1]
