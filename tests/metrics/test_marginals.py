"""Distances of marginals equal counts of the rows in fractions."""

import itertools
import math
from collections import Counter
from fractions import Fraction

import matplotlib as mpl
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skdp import Domain, Interval
from skdp.metrics import marginal_errors
from tests.conftest import quick_first
from tests.errors import refusal
from tests.metrics.tables import REAL, SYNTHETIC

mpl.use("agg")


def distance(real, synthetic):
    """Compute the total-variation distance of two lists of cells."""
    left, right = Counter(real), Counter(synthetic)
    parts = (abs(Fraction(left[c], len(real)) - Fraction(right[c], len(synthetic))) for c in {*left, *right})
    return sum(parts) / 2


def mean_error(*tables, **options):
    return marginal_errors(*tables, **options)["error"].mean()


def compute_distance(real, synthetic, columns):
    return distance(*(list(zip(*(data[name] for name in columns), strict=True)) for data in (real, synthetic)))


def bin_of(value, edges):
    index = None if value is None else sum(value >= edge for edge in edges) - (value == edges[-1])
    return index if index and index < len(edges) else "outside"


@pytest.mark.parametrize("order", [1, 2, 3])
def test_error_of_every_marginal_is_exact_in_every_dataframe(make_frame, order):
    table = marginal_errors(make_frame(REAL), make_frame(SYNTHETIC), order=order)
    assert table["columns"].to_list() == list(itertools.combinations(REAL, order))
    assert table["error"].to_list() == [float(compute_distance(REAL, SYNTHETIC, names)) for names in table["columns"]]


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA, pd.NaT])
def test_all_missing_values_are_equal(missing):
    real = pd.DataFrame({"a": pd.Series(["x", None], dtype=object)})
    synthetic = pd.DataFrame({"a": pd.Series(["x", missing], dtype=object)})
    assert mean_error(real, synthetic, order=1) == 0
    assert mean_error(real, synthetic.dropna(), order=1) == 0.5


def test_whole_number_equals_itself_in_any_dtype_but_not_text_or_boolean():
    real = pd.DataFrame({"a": [0, 1, 1]})
    for same in ([0.0, 1.0, 1.0], pd.array([0, 1, 1], dtype="Int8"), np.array([0, 1, 1], dtype="uint64")):
        assert mean_error(real, pd.DataFrame({"a": same}), order=1) == 0
    for other, kind in ((["0", "1", "1"], "string"), ([False, True, True], "boolean")):
        with pytest.raises(ValueError, match=f"must have values of one type, got .*{kind}"):
            mean_error(real, pd.DataFrame({"a": other}), order=1)


@pytest.mark.parametrize("as_domain", quick_first(1, [Domain, dict]))
def test_declared_interval_is_compared_in_bins(make_frame, as_domain):
    edges = [20, 35, 50]
    binned = [data | {"age": [bin_of(value, edges) for value in data["age"]]} for data in (REAL, SYNTHETIC)]
    assert "outside" in {*binned[0]["age"], *binned[1]["age"]}
    domain = as_domain({"age": Interval(edges=edges)})
    for order in (1, 2, 3):
        table = marginal_errors(make_frame(REAL), make_frame(SYNTHETIC), order=order, domain=domain)
        assert table["error"].to_list() == [float(compute_distance(*binned, names)) for names in table["columns"]]


def test_values_outside_the_domain_are_one_value(make_frame):
    domain = {"sex": ["M", "unused"], "age": [20, 30, 40, 50, 60, None]}
    others = [data | {"sex": [v if v == "M" else "outside" for v in data["sex"]]} for data in (REAL, SYNTHETIC)]
    for order in (1, 2):
        table = marginal_errors(make_frame(REAL), make_frame(SYNTHETIC), order=order, domain=domain)
        assert table["error"].to_list() == [float(compute_distance(*others, names)) for names in table["columns"]]


def test_product_of_more_than_2_to_the_64_cells_is_counted():
    # The code of the first column would be multiplied by 2**66, and become 0.
    domain = {f"x{column}": list(range(64)) for column in range(12)}
    assert mean_error(np.zeros((1, 12)), np.eye(1, 12), order=12, domain=domain) == 1
    coins = np.random.default_rng(0)
    real, synthetic = coins.integers(0, 3, (50, 14)), coins.integers(0, 3, (30, 14))
    synthetic[:20] = real[:20]
    domain = {f"x{column}": list(range(40)) for column in range(14)}
    want = distance([tuple(row) for row in real.tolist()], [tuple(row) for row in synthetic.tolist()])
    assert 0 < want < 1
    assert mean_error(real, synthetic, order=14, domain=domain) == float(want)


@settings(max_examples=max(4, settings().max_examples // 3))
@given(st.lists(st.tuples(*[st.integers(0, 9)] * 4), min_size=1, max_size=20))
def test_equal_tables_have_error_0_and_disjoint_tables_error_1(real):
    table = pd.DataFrame(real, columns=list("abcd"))
    assert mean_error(table, pd.concat([table] * 3)) == 0
    for order in (1, 2, 4):
        assert marginal_errors(table, table + 10, order=order)["error"].eq(1).all()


ONE = pd.DataFrame({"a": [1, 2], "b": pd.array(["secret", "s"], "string")})


@pytest.mark.parametrize(
    ("real", "synthetic", "options", "message"),
    [
        (ONE, ONE[["a"]], {}, r"same columns, got columns in one of them only: \['b'\]"),
        (ONE, ONE[:0], {}, "`synthetic` must have at least one row"),
        (ONE[:0], ONE, {}, "`real` must have at least one row"),
        (pl.LazyFrame({"a": [1]}), ONE, {}, "Collect it"),
        (None, ONE, {}, "`real` must be a dataframe or a 2-D array"),
        (pl.DataFrame(), ONE, {}, "`real` must have at least one column"),
        (ONE, ONE, {"order": 0}, "`order` must be between 1 and 2, got 0"),
        (ONE, ONE, {"domain": [1]}, "Domain requires a mapping from column name to values, or a Domain, got list"),
        (ONE, ONE, {"domain": {"a": [1, 1]}}, "Column 'a': expected distinct values"),
        (ONE, ONE, {"domain": {"b": Interval(0, 1, bins=2)}}, "Column 'b': expected numbers"),
        (ONE, ONE.assign(a=[1, "secret"]), {}, "Column 'a' must have values of one type"),
        (ONE, ONE.assign(a=[1, math.inf]), {}, "Column 'a': expected finite numbers"),
    ],
)
def test_invalid_arguments_raise_an_error(real, synthetic, options, message):
    with refusal((ValueError, TypeError), message, "secret"):
        marginal_errors(real, synthetic, **options)


def test_correlation_is_lost_although_all_cells_are_similar(make_frame):
    rng = np.random.default_rng(0)
    x = rng.normal(size=2_000)
    real = {"x": x.tolist(), "y": (x + rng.normal(size=2_000)).tolist(), "z": ["u", "v"] * 1_000}
    synthetic = real | {"y": np.where(rng.random(2_000) < 0.5, real["y"], rng.permutation(real["y"])).tolist()}
    domain = {"y": Interval(-9.0, 9.0, bins=200), "z": ["u", "v"]}
    table = marginal_errors(make_frame(real), make_frame(synthetic), domain=domain).set_index("columns")
    assert table.loc[[("x", "y")], "kept"].item() == pytest.approx(0.5, abs=0.06)
    assert table["kept"].isna().sum() == 2  # z has no order
    assert "kept" not in marginal_errors(make_frame(real), make_frame(synthetic), order=1)
