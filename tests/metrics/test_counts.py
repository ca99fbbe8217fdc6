import itertools
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skdp import Domain, Interval, RandomizedResponseEncoder
from skdp.metrics import expected_l2_error, l1_count_error, l2_count_error, percent_error, total_variation
from tests.conftest import each

ERRORS = [l1_count_error, l2_count_error, percent_error, total_variation]

counts = st.lists(st.integers(0, 10**6), min_size=1, max_size=8)
pairs = st.integers(1, 8).flatmap(
    lambda size: st.tuples(*[st.lists(st.integers(0, 10**6), min_size=size, max_size=size)] * 2)
)


@given(pairs)
def test_the_errors_are_what_exact_arithmetic_says(pair):
    true, estimate = pair
    differences = [abs(e - t) for t, e in zip(true, estimate, strict=True)]
    assert l1_count_error(true, estimate) == sum(differences)
    assert l2_count_error(true, estimate) == pytest.approx(math.sqrt(sum(d * d for d in differences)), rel=1e-12)
    percents = [0 if d == 0 else math.inf if t == 0 else 100 * d / t for t, d in zip(true, differences, strict=True)]
    assert percent_error(true, estimate).tolist() == pytest.approx(percents, rel=1e-12)
    if sum(true) and sum(estimate):
        shares = [Fraction(e, sum(estimate)) - Fraction(t, sum(true)) for t, e in zip(true, estimate, strict=True)]
        assert total_variation(true, estimate) == pytest.approx(float(sum(map(abs, shares)) / 2), abs=1e-12)


@given(counts, st.randoms(use_true_random=False))
def test_series_are_matched_by_label_in_whatever_order(values, random):
    true = pd.Series(values, index=[f"cell {i}" for i in range(len(values))])
    estimate = true * 2 + 1
    order = random.sample(range(len(values)), len(values))
    for error in (l1_count_error, l2_count_error):
        assert error(true, estimate.iloc[order]) == pytest.approx(error(values, estimate.to_list()))
    pd.testing.assert_series_equal(percent_error(true, estimate.iloc[order]), percent_error(true, estimate))


def test_cells_of_several_columns_are_matched_by_label():
    frame = pd.DataFrame({"sex": ["F", "M", "M", "F"], "job": pd.Categorical(["a", "b", "b", "b"])})
    true = frame.groupby(["sex", "job"], observed=False).size()
    cells = Domain({"sex": ["M", "F"], "job": ["b", "a"]}).cells()
    estimate = pd.Series([2, 0, 1, 1], index=cells)
    assert l1_count_error(true, estimate) == 0
    assert percent_error(true, estimate + 1).to_dict() == {
        ("F", "a"): 100,
        ("F", "b"): 100,
        ("M", "a"): math.inf,
        ("M", "b"): 50,
    }


@pytest.mark.parametrize("dtype", [object, "str", "category"])
@pytest.mark.parametrize("missing", [None, float("nan")])
def test_a_missing_label_is_one_label(dtype, missing):
    true = pd.Series([1, 2], index=pd.Index(["a", None], dtype=dtype))
    estimate = pd.Series([2, 1], index=pd.Index([missing, "a"], dtype=object))
    assert l1_count_error(true, estimate) == 0
    both = pd.MultiIndex.from_product([["x"], [missing, "a"]])
    assert (
        l1_count_error(pd.Series([1, 2], pd.MultiIndex.from_product([["x"], ["a", None]])), estimate.set_axis(both))
        == 0
    )


def test_labels_of_intervals_match_those_of_estimates():
    frame = pd.DataFrame({"age": [20, 30, 50]})
    encoder = RandomizedResponseEncoder(40, categories={"age": Interval(edges=[0, 38, 100])}, random_state=0)
    estimate = encoder.estimate_counts(encoder.fit_transform(frame))["count"]
    assert l1_count_error(pd.Series({"[38, 100]": 1, "[0, 38)": 2}), estimate) == pytest.approx(0, abs=1e-9)


@each("error", ERRORS)
@each(
    "true, estimate, message",
    [
        (pd.Series({"a": 1}), pd.Series({"b": 1}), "same labels"),
        (pd.Series({"a": 1, "b": 1}), pd.Series([1, 1], index=["a", "a"]), "label twice"),
        (pd.Series([1, 1], index=["a", "a"]), pd.Series([1, 1], index=["a", "a"]), "label twice"),
        (pd.Series({"1": 1}), pd.Series({1: 1}), "same labels"),
        (pd.Series({("a", "b"): 1}), pd.Series({"a": 1}), "same labels"),
        ([1, 2], [1], "same shape"),
        ([1, 2], 1, "same shape"),
        ([[1, 2]], [[1, 2]], "1-D"),
        ([1, float("nan")], [1, 2], "true holds a missing"),
        ([1, 2], [1, None], "estimate holds a missing"),
        ([1, 2], [1, math.inf], "estimate holds a missing or infinite"),
        ([1, 2], pd.Series([1, None], dtype="Int64"), "estimate holds a missing"),
        (["1", "2"], [1, 2], "true must be numeric"),
        ([1, 2], np.array(["1", 2], dtype=object), "estimate must be numeric"),
        ([True, False], [1, 2], "true must be numeric"),
        ([1j], [1], "true must be numeric"),
        ([[1], [1, 2]], [1, 2], "1-D"),
        ({"a": 1}, [1], "got dict"),
    ],
)
def test_what_cannot_be_compared_is_refused(error, true, estimate, message):
    with pytest.raises(ValueError, match=message):
        error(true, estimate)


@pytest.mark.parametrize("error", [l1_count_error, l2_count_error, total_variation])
def test_single_numbers_are_for_percentages_only(error):
    with pytest.raises(ValueError, match="1-D"):
        error(1, 2)


@each(
    "column",
    [
        tuple,
        np.array,
        pl.Series,
        pd.Series,
        lambda values: pd.Series(values, dtype="Int64"),
        lambda values: pd.Series(values, dtype="float32"),
        lambda values: pd.Series(list(map(Fraction, values)), dtype=object),
        lambda values: np.array(values, np.uint8),  # 1 - 2 would wrap around
    ],
)
def test_counts_of_any_kind_are_numbers(column):
    assert l1_count_error(column([1, 5]), column([2, 3])) == 3


def test_percent_error_returns_the_kind_it_got():
    assert isinstance(percent_error(4, 5), float)
    assert percent_error(np.int64(4), 5.0) == 25
    assert percent_error(0, 0) == 0
    assert percent_error(0, -1) == math.inf
    assert isinstance(percent_error([4], [5]), np.ndarray)
    assert percent_error([], []).shape == (0,)
    labelled = pd.Series([4.0, 0.0], index=["a", "b"])
    for true, estimate in ((labelled, [5, 1]), ([4, 0], labelled + 1), (labelled, labelled + 1)):
        expected = pd.Series([25, math.inf], index=["a", "b"], name="percent_error")
        pd.testing.assert_series_equal(percent_error(true, estimate), expected)


def test_a_negative_true_count_has_no_percentage():
    with pytest.raises(ValueError, match="true counts must be at least 0"):
        percent_error([-1], [1])


@pytest.mark.parametrize(("true", "estimate", "side"), [([0, 0], [1, 1], "true"), ([1, 1], [2, -2], "estimate")])
def test_total_variation_needs_distributions(true, estimate, side):
    with pytest.raises(ValueError, match=f"counts of {side} must add up"):
        total_variation(true, estimate)


def test_total_variation_is_the_largest_error_of_any_set_of_cells():
    true, estimate = np.array([5, 3, 2]) / 10, np.array([1, 2, 7]) / 10
    sets = [list(s) for size in range(4) for s in itertools.combinations(range(3), size)]
    assert total_variation(true, estimate) == pytest.approx(max(abs((true - estimate)[s].sum()) for s in sets))


@pytest.mark.parametrize("columns", [["a"], ["a", "b"]])
def test_the_expected_error_is_the_mean_over_all_that_can_happen(columns):
    domain = {name: values for name, values in {"a": [0, 1, 2], "b": ["x", "y"]}.items() if name in columns}
    frame = pd.DataFrame({"a": [0, 0, 1], "b": ["x", "y", "y"]})[columns]
    encoder = RandomizedResponseEncoder(1.5, strategy="joint", categories=domain, random_state=0).fit(frame)
    cells = list(itertools.product(*domain.values()))
    rows = [cells.index(row) for row in frame.itertuples(index=False, name=None)]
    true = [rows.count(cell) for cell in range(len(cells))]
    (channel,) = encoder.channel()
    mean_square = 0.0
    for reports in itertools.product(range(len(cells)), repeat=len(rows)):
        probability = math.prod(channel[row][report] for row, report in zip(rows, reports, strict=True))
        released = pd.DataFrame([cells[report] for report in reports], columns=columns)
        mean_square += float(probability) * l2_count_error(true, encoder.estimate_counts(released)["count"]) ** 2
    assert expected_l2_error(encoder, true) == pytest.approx(math.sqrt(mean_square), rel=1e-9)


def test_the_expected_error_adds_up_over_columns():
    frame = pd.DataFrame({"a": [0, 1, 2], "b": ["x", "y", "y"]})
    encoder = RandomizedResponseEncoder(2.0, categories={"a": [0, 1, 2], "b": ["x", "y"]}).fit(frame)
    alone = [
        expected_l2_error(RandomizedResponseEncoder(1.0, categories=[values]).fit(frame[[name]]), true)
        for name, values, true in (("a", [0, 1, 2], [1, 1, 1]), ("b", ["x", "y"], [1, 2]))
    ]
    assert expected_l2_error(encoder, [1, 1, 1, 1, 2]) == pytest.approx(math.hypot(*alone))


def test_the_expected_error_needs_only_the_variances():
    class Encoder:
        def count_variances(self, counts):
            assert counts.tolist() == [3.0, 1.0]
            return np.array([9.0, 16.0])

    assert expected_l2_error(Encoder(), pd.Series({"b": 3, "a": 1})) == 5


@each("encoder", [object(), None, RandomizedResponseEncoder(), RandomizedResponseEncoder])
def test_the_expected_error_needs_a_fitted_local_transformer(encoder):
    with pytest.raises((TypeError, ValueError), match=r"count_variances|not fitted"):
        expected_l2_error(encoder, [1, 2])


@each("given_counts", [[1, float("nan")], ["a"], 3, [[1, 2]], [1, 2, 3], [-1, 2]])
def test_the_expected_error_needs_counts(given_counts):
    encoder = RandomizedResponseEncoder(categories=[["a", "b"]]).fit(pd.DataFrame({"x": ["a"]}))
    with pytest.raises(ValueError, match="counts"):
        expected_l2_error(encoder, given_counts)
