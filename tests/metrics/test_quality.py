"""Quality letters by the coefficient of variation."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from skdp import DPGroupBy, DPHistogram
from skdp.metrics import grade_estimates
from skdp.survey import survey_mean

CODES = {"a": ["x", "y", "z"]}


def make_table(variations):
    value = np.array([100.0, -100.0, 100.0, 100.0, 100.0, 0.0, 0.0, 100.0])
    error = np.array([*(100 * np.array(variations)), 1.0, 0.0, 0.0])
    interval = {"lower": value - 2 * error, "upper": value + 2 * error}
    return pd.DataFrame({"mean": value, "std_error": error} | interval)


@pytest.mark.parametrize(
    ("variations", "letters"),
    [((0.049, 0.099, 0.149, 0.249, 0.333), "ABCDEFAA"), ((0.05, 0.1, 0.15, 0.25, 0.334), "BCDEFFAA")],
)
def test_letters_follow_the_published_limits(variations, letters):
    assert "".join(grade_estimates(make_table(variations))["quality"]) == letters


def test_medians_are_graded_by_their_intervals():
    table = pd.DataFrame({"x_median": [10.0, 10.0, np.nan], "x_median_lower": [9.1, 0, np.nan]})
    table["x_median_upper"] = 20 - table["x_median_lower"]
    assert grade_estimates(table)["x_median_quality"].fillna("").tolist() == ["A", "F", ""]
    assert grade_estimates(table, confidence_level=0.5)["x_median_quality"][0] == "C"


def test_medians_of_noise_have_the_worst_letter():
    """Half of the width graded [4, 130] as an error of 32 of 100, although the median may be 4."""
    table = pd.DataFrame({"x_median": [100.0] * 4, "x_median_lower": [4.0, 36.0, 34.0, 90.0]})
    table["x_median_upper"] = [130.0, 130.0, 100.0, 170.0]
    assert grade_estimates(table)["x_median_quality"].tolist() == ["F", "E", "F", "F"]
    table = pd.DataFrame({"std": [26_754.0], "std_error": 6_000.0, "lower": 5_000.0, "upper": 37_487.0})
    assert grade_estimates(table)["quality"].tolist() == ["E"]


def test_estimate_without_an_error_has_the_worst_letter():
    table = pd.DataFrame({"mean": [5.0], "std_error": np.nan, "lower": np.nan, "upper": np.nan})
    assert grade_estimates(table)["quality"].tolist() == ["F"]


def test_estimates_whose_interval_contains_zero_have_the_worst_letter():
    """A standard deviation of noise with the interval [0, 37,487] was printed."""
    table = pd.DataFrame({"x_std": [26_754.0, 5.0, 0.0, 0.0], "x_std_std_error": [6_000.0, 1.0, 0.0, 1e9]})
    table["x_std_lower"], table["x_std_upper"] = [0.0, 3.0, 0.0, -np.inf], [37_487.0, 7.0, 0.0, np.inf]
    assert grade_estimates(table)["x_std_quality"].tolist() == ["F", "D", "A", "F"]


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_suppressed_estimates_are_missing_in_all_libraries(library):
    rows = pd.DataFrame({"a": ["x"] * 500 + ["y"], "v": 3.0})
    given = {"pandas": rows, "polars": pl.from_pandas(rows), "pyarrow": pa.Table.from_pandas(rows)}[library]
    model = DPGroupBy(
        1.0, by="a", keys=CODES, bounds=(0.0, 10.0), statistics=["count", "mean", "median"], random_state=2
    )
    table = model.fit(given).to_frame()
    graded = grade_estimates(table, suppress=True)
    assert type(graded) is type(table)
    found = graded.reset_index() if library == "pandas" else graded
    found = {"polars": pl.DataFrame.to_dicts, "pyarrow": pa.Table.to_pylist}.get(
        library, lambda frame: frame.astype(object).where(frame.notna(), None).to_dict("records")
    )(found)
    assert [row["count_quality"] for row in found] == ["A", "F", "F"]
    assert found[0]["count"] == int(found[0]["count"])
    assert not isinstance(found[0]["count"], float)
    for name in ("count", "count_std_error", "count_lower", "v_mean", "v_median_upper"):
        assert [row[name] is None for row in found] == [False, True, True]


def test_histograms_and_surveys_are_graded():
    histogram = DPHistogram(10.0, domain=CODES, random_state=0).fit(pd.DataFrame({"a": ["x"] * 90 + ["y"] * 9}))
    assert grade_estimates(histogram.to_frame())["quality"].tolist() == ["A", "A", "F"]
    mean = survey_mean(pd.DataFrame({"x": np.arange(100.0)}))
    assert grade_estimates(mean)["quality"].tolist() == ["B"]


def test_column_of_a_key_is_no_interval():
    table = pl.DataFrame(
        {"lower": ["a"], "count": [9], "count_std_error": [1.0], "count_lower": [7], "count_upper": [11]}
    )
    graded = grade_estimates(table)
    assert graded.columns == [*table.columns, "count_quality"]
    assert graded["count_quality"].to_list() == ["C"]


BANDS = {"age": [20, 40], "age_lower": [20, 40], "age_upper": [40, 60], "lower": [0], "upper": [1]}


@pytest.mark.parametrize(
    ("model", "names"),
    [
        (DPGroupBy, ["age_lower", "age_upper"]),
        (DPGroupBy, ["age", "age_lower", "age_upper"]),
        (DPGroupBy, ["age", "lower", "upper"]),
        (DPHistogram, ["age", "age_lower", "age_upper"]),
    ],
)
def test_keys_named_like_an_interval_are_no_estimates(model, names):
    """Numbers of bands had letters, and were suppressed as estimates of noise."""
    keys = {name: BANDS[name] for name in names}
    rows = pl.DataFrame({name: np.repeat(values[0], 50) for name, values in keys.items()})
    of_groups = {"by": names, "keys": keys, "statistics": "count"}
    parameters = of_groups if model is DPGroupBy else {"domain": keys}
    table = model(1.0, random_state=0, **parameters).fit(rows).to_frame()
    letter = "count_quality" if model is DPGroupBy else "quality"
    for given in (table, table.to_pandas(), table.to_arrow()):
        graded = pl.DataFrame(grade_estimates(given, suppress=True))
        assert graded.columns == [*table.columns, letter]
        assert graded.select(names).equals(table.select(names))
        assert graded["count"].null_count() > 0


def test_estimates_of_a_release_are_given_by_name():
    """A key and its bounds are like a median with its interval, if no estimate has a standard error."""
    names = ["age", "age_lower", "age_upper"]
    keys = {name: BANDS[name] for name in names}
    rows = pd.DataFrame({name: np.repeat(BANDS[name], 100) for name in names} | {"x": np.arange(200.0)})
    model = DPGroupBy(5.0, by=names, keys=keys, bounds=(0.0, 200.0), statistics="median", random_state=0)
    model.fit(pl.from_pandas(rows))
    graded = grade_estimates(model.to_frame(), estimates=model.estimates_)
    assert graded.columns == [*model.to_frame().columns, "x_median_quality"]


@pytest.mark.parametrize("name", ["count_quality", "x_median_quality"])
def test_key_named_like_a_letter_is_an_error_of_fit(name):
    rows = pd.DataFrame({name: ["a"], "x": [1.0]})
    model = DPGroupBy(1.0, by=name, keys={name: ["a"]}, bounds=(0.0, 1.0), statistics=["count", "median"])
    with pytest.raises(ValueError, match=f"must have different names, got '{name}' twice"):
        model.fit(rows)


@pytest.mark.parametrize(
    ("table", "error", "match"),
    [
        (np.zeros((2, 4)), TypeError, "`table` must be a dataframe, got ndarray"),
        (pd.DataFrame({"count": [1], "lower": [0]}), ValueError, "`table` must have columns with intervals"),
        (grade_estimates(make_table([0.1] * 5)), ValueError, "and no quality letters"),
    ],
)
def test_tables_without_intervals_raise_errors(table, error, match):
    with pytest.raises(error, match=match):
        grade_estimates(table)
