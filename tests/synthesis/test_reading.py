from __future__ import annotations

import math
from datetime import date, datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from skdp.domain import Domain, Interval
from skdp.frames import read_table
from skdp.synthesis.tables import assemble, decode, public_template, read_codes, with_target
from tests.conftest import each

BINS = Interval(0, 100, bins=4)
FEATURES = {"a": [1, 2, 3]}
LIBRARIES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table,
             "array": lambda data: np.array(list(data.values())).T}  # fmt: skip
TARGETS = {
    "list": ([0, 1, 1], "target"),
    "array": (np.array([0, 1, 1]), "target"),
    "column": (np.array([[0], [1], [1]]), "target"),
    "index": (pd.Index([0, 1, 1], name="unread"), "target"),
    "pandas": (pd.Series([0, 1, 1], index=[7, 8, 9], name="label"), "label"),
    "pandas nameless": (pd.Series([0, 1, 1]), "target"),
    "pandas frame": (pd.DataFrame({"label": [0, 1, 1]}), "label"),
    "polars": (pl.Series("label", [0, 1, 1]), "label"),
    "polars nameless": (pl.Series([0, 1, 1]), "target"),
    "polars frame": (pl.DataFrame({"label": [0, 1, 1]}), "label"),
    "pyarrow": (pa.chunked_array([[0, 1], [1]]), "target"),
    "pyarrow frame": (pa.table({"label": [0, 1, 1]}), "label"),
}


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("kind", TARGETS)
def test_a_target_of_any_kind_joins_a_table_of_any_library(library, kind):
    y, name = TARGETS[kind]
    table = with_target(read_table(LIBRARIES[library](FEATURES)), y)
    assert table.names == ("x0" if library == "array" else "a", name)
    both = Domain({table.names[0]: [1, 2, 3], name: [0, 1]})
    assert [code.tolist() for code in read_codes(table, both, "error")] == [[0, 1, 2], [0, 1, 1]]
    template, codes = public_template(table, both), read_codes(table, both, "error")
    made = assemble(template, decode(template, both, codes, np.random.default_rng(0)), table.names)
    assert type(made) is type(table.native)
    again = read_table(made)
    same = Domain(dict(zip(again.names, ([1, 2, 3], [0, 1]), strict=True)))
    assert [code.tolist() for code in read_codes(again, same, "error")] == [[0, 1, 2], [0, 1, 1]]


def test_a_list_of_several_kinds_is_not_made_text():
    # NumPy makes "1" of 1, and "nan" of a missing value, beside text.
    table = read_table(pd.DataFrame({"a": [0] * 4}))
    domain = Domain({"a": [0], "target": ["x", "y", "1", None]})
    codes = read_codes(with_target(table, ["x", math.nan, None, "y"]), domain, "error")
    assert codes[1].tolist() == [0, 3, 3, 1]
    with pytest.raises(ValueError, match="'target' holds a value"):
        read_codes(with_target(table, ["x", 1, "y", "y"]), domain, "error")


@each(
    "y, message",
    [
        (np.zeros((3, 2)), "y must be one column"),
        (pd.DataFrame({"b": [0] * 3, "c": [0] * 3}), "y must be one column, got 2"),
        ([0, 1], "y has 2 rows; X has 3"),
        (3, "0 dimensions"),
    ],
)
def test_a_target_that_does_not_fit_is_refused(y, message):
    with pytest.raises(ValueError, match=message):
        with_target(read_table(pd.DataFrame(FEATURES)), y)


@each(
    "columns, name, called",
    [
        ("ab", "c", "c"),
        ("ab", "a", "target"),
        (["a", "target"], "a", "target_2"),
        (["target", "target_2"], None, "target_3"),
    ],
)
def test_a_target_with_the_name_of_a_column_gets_another(columns, name, called):
    table = with_target(
        read_table(pd.DataFrame([[0] * len(columns)] * 3, columns=list(columns))), pd.Series([1, 0, 0], name=name)
    )
    assert table.names == (*columns, called)
    assert list(table.columns[-1]) == [1, 0, 0]


def test_a_masked_target_is_refused():
    with pytest.raises(TypeError, match="masked"):
        with_target(read_table(pd.DataFrame(FEATURES)), np.ma.array([0, 1, 1], mask=[0, 0, 1]))


def codes_of(values, attribute, policy):
    return read_codes(read_table(pd.DataFrame({"x": values})), Domain({"x": attribute}), policy)[0].tolist()


def test_the_ends_of_bins():
    assert codes_of([0, 24.999, 25, 100.0], BINS, "error") == [0, 0, 1, 3]


@each("value", [-0.001, 100.001, math.inf, -math.inf, math.nan])
def test_numbers_beyond_the_ends(value):
    with pytest.raises(ValueError, match="column 'x' holds a value, or a NaN or inf"):
        codes_of([50.0, value], BINS, "error")
    assert codes_of([50.0, value], BINS, "ignore") == [2, 4]
    assert codes_of([50.0, value], BINS, {"x": 30}) == [2, 1]
    if math.isnan(value):
        with pytest.raises(ValueError, match="NaN"):
            codes_of([50.0, value], BINS, "clip")
    else:
        assert codes_of([50.0, value], BINS, "clip") == [2, 0 if value < 0 else 3]


@each("dtype", [int, float, "float32", "Int64", "int64[pyarrow]", object])
def test_clipping_reads_numbers_of_all_dtypes(dtype):
    # Fractional ends must not be cut to whole ones on the way.
    frame = pd.DataFrame({"x": pd.Series([-3, -2, 0, 2, 3], dtype=dtype)})
    codes = read_codes(read_table(frame), Domain({"x": Interval(edges=[-2.5, 0, 2.5])}), "clip")
    assert codes[0].tolist() == [0, 0, 1, 1, 1]


def test_clipping_leaves_numbers_within_the_ends_where_they_are():
    narrow = Interval(edges=[-2.5, -2.25, 2.25, 2.5])
    assert codes_of([-9.0, -2.1, 0.0, 2.1, 9.0], narrow, "clip") == [0, 1, 1, 1, 2]


def test_clipping_is_for_numbers_only():
    with pytest.raises(ValueError, match="column 'x'"):
        codes_of(["a", "z"], ["a", "b"], "clip")


def test_a_value_that_stands_for_others():
    values = ["a", "zzz", None, "b"]
    assert codes_of(values, ["a", "b", "other"], {"x": "other"}) == [0, 2, 2, 1]
    assert codes_of(values, ["a", "b", "other", None], {"x": "other"}) == [0, 2, 3, 1]
    assert codes_of(values, ["a", "b", None], {"x": None}) == [0, 2, 2, 1]


@pytest.mark.parametrize("policy", [{"x": "nowhere"}, {"q": "a"}])
def test_a_value_that_stands_for_others_must_be_declared(policy):
    with pytest.raises(ValueError, match="handle_unknown"):
        codes_of(["a"], ["a", "b"], policy)


@pytest.mark.parametrize("values", [["1", "0"], [True, False], [1.0, 0.0]])
def test_kinds_are_never_taken_for_one_another(values):
    for declared in (["1", "0"], [True, False], [1, 0]):
        alike = type(values[0]) is type(declared[0]) or {type(values[0]), type(declared[0])} == {int, float}
        expected = [0, 1] if alike else [2, 2]
        assert codes_of(pd.Series(values, dtype=object), declared, "ignore") == expected


DAYS = Interval(date(2020, 1, 1), date(2022, 1, 1), bins=2)
WITH_MISSING = Interval(date(2020, 1, 1), date(2022, 1, 1), bins=2, missing=True)


@each("dtype", [object, "datetime64[s]", "datetime64[ns]", "date32[pyarrow]"])
def test_dates_beyond_the_ends(dtype):
    values = pd.Series([date(2019, 12, 31), date(2020, 1, 1), date(2022, 1, 1), date(2022, 1, 2)]).astype(dtype)
    with pytest.raises(ValueError, match="column 'x' holds a value") as caught:
        codes_of(values, DAYS, "error")
    assert "2019" not in str(caught.value)
    assert "2022-01-02" not in str(caught.value)
    assert codes_of(values, DAYS, "clip") == [0, 0, 1, 1]
    assert codes_of(values, DAYS, "ignore") == [2, 0, 1, 2]
    for value in (date(2021, 5, 5), datetime(2021, 5, 5), pd.Timestamp("2021-05-05"), np.datetime64("2021-05-05")):
        assert codes_of(values, DAYS, {"x": value}) == [1, 0, 1, 1]
    assert codes_of(values, WITH_MISSING, {"x": None}) == [2, 0, 1, 2]
    for value in (date(2023, 1, 1), 5, "2021-05-05", None):
        with pytest.raises(ValueError, match="handle_unknown of column 'x' must be one of its declared"):
            codes_of(values, DAYS, {"x": value})


def test_clipping_leaves_missing_dates_missing():
    values = pd.Series([pd.NaT, "2030-01-01"], dtype="datetime64[s]")
    assert codes_of(values, WITH_MISSING, "clip") == [2, 1]
    with pytest.raises(ValueError, match="outside the declared domain"):
        codes_of(values, DAYS, "clip")
