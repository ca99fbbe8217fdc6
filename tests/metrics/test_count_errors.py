"""Errors of estimated counts."""

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skdp import Domain, RandomizedResponseEncoder
from skdp.metrics import count_error

pairs = st.integers(1, 8).flatmap(
    lambda size: st.tuples(*[st.lists(st.integers(0, 10**6), min_size=size, max_size=size)] * 2)
)


@given(pairs)
def test_errors_equal_exact_arithmetic(pair):
    true, estimate = pair
    differences = [abs(e - t) for t, e in zip(true, estimate, strict=True)]
    assert count_error(true=true, estimate=estimate) == sum(differences)
    expected = math.sqrt(sum(d * d for d in differences))
    assert count_error(true=true, estimate=estimate, metric="l2") == pytest.approx(expected, rel=1e-12)
    if sum(true) and sum(estimate):
        shares = [Fraction(e, sum(estimate)) - Fraction(t, sum(true)) for t, e in zip(true, estimate, strict=True)]
        expected = float(sum(map(abs, shares)) / 2)
        assert count_error(true=true, estimate=estimate, metric="total_variation") == pytest.approx(expected, abs=1e-12)


def test_cells_of_several_columns_are_matched_by_label():
    frame = pd.DataFrame({"sex": ["F", "M", "M", "F"], "job": pd.Categorical(["a", "b", "b", "b"])})
    true = frame.groupby(["sex", "job"], observed=False).size()
    cells = Domain({"sex": ["M", "F"], "job": ["b", "a"]}).cells()
    estimate = pd.Series([2, 0, 1, 1], index=cells)
    assert count_error(true=true, estimate=estimate) == 0


@pytest.mark.parametrize("dtype", [object, "str", "category"])
@pytest.mark.parametrize("missing", [None, float("nan")])
def test_all_missing_labels_are_equal(dtype, missing):
    true = pd.Series([1, 2], index=pd.Index(["a", None], dtype=dtype))
    estimate = pd.Series([2, 1], index=pd.Index([missing, "a"], dtype=object))
    assert count_error(true=true, estimate=estimate) == 0
    several = pd.Series([1, 2], pd.MultiIndex.from_product([["x"], ["a", None]]))
    assert (
        count_error(true=several, estimate=estimate.set_axis(pd.MultiIndex.from_product([["x"], [missing, "a"]]))) == 0
    )


@pytest.mark.parametrize(
    ("true", "estimate", "message"),
    [
        (pd.Series({"a": 1}), pd.Series({"b": 1}), "same labels"),
        (pd.Series({"a": 1, "b": 1}), pd.Series([1, 1], index=["a", "a"]), "distinct labels"),
        (pd.Series([1, 1], index=["a", "a"]), pd.Series([1, 1], index=["a", "a"]), "distinct labels"),
        ([1, 2], [1], r"same shape, got \(2,\) and \(1,\). Count the true values by Domain.value_counts"),
        ([[1, 2]], [[1, 2]], "1-D"),
        ([True, False], [1, 2], "`true` must contain only numbers, got a value of type bool"),
        ([1, float("nan")], [1, 2], "`true` must be finite"),
        ([1, 2], [1, math.inf], "`estimate` must be finite, got a missing or infinite"),
        ([3, "4"], [1, 2], "`true` must contain only numbers, got a value of type str"),
        ([1, 2], np.array(["1", 2], dtype=object), "`estimate` must contain only numbers"),
        ({"a": 1}, [1], "got a value of type dict"),
    ],
)
def test_counts_that_cannot_be_compared_raise_an_error(true, estimate, message):
    with pytest.raises(ValueError, match=message):
        count_error(true=true, estimate=estimate)


@pytest.mark.parametrize(("true", "estimate", "name"), [([0, 0], [1, 1], "true"), ([1, 1], [2, -2], "estimate")])
def test_proportions_of_zero_counts_raise_an_error(true, estimate, name):
    with pytest.raises(ValueError, match=f"`{name}` must have counts with a positive sum"):
        count_error(true=true, estimate=estimate, metric="total_variation")
    with pytest.raises(ValueError, match="`metric` must be one of"):
        count_error(true=true, estimate=estimate, metric="l3")


@pytest.mark.parametrize(
    "column",
    [
        np.array,
        pl.Series,
        lambda values: pd.Series(values, dtype="Int64"),
        lambda values: pd.Series(list(map(Fraction, values)), dtype=object),
        lambda values: np.array(values, np.uint8),  # 1 - 2 would wrap around
    ],
)
def test_counts_of_any_dtype_are_numbers(column):
    assert count_error(true=column([1, 5]), estimate=column([2, 3])) == 3


def test_table_of_estimates_is_read_by_its_counts():
    encoder = RandomizedResponseEncoder(1.0, categories=[["no", "yes"]], random_state=0)
    reports = encoder.fit_transform(pd.DataFrame({"smokes": ["no"] * 7 + ["yes"] * 3}))
    estimates = encoder.estimate_counts(reports)
    true = pd.Series({"yes": 3, "no": 7})
    assert count_error(true=true, estimate=estimates) == count_error(true=true, estimate=estimates["count"])


def test_counts_must_be_passed_by_keyword():
    with pytest.raises(TypeError, match="positional argument"):
        count_error([100], [50])
