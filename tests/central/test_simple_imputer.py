from datetime import date, datetime

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from skdp import DPSimpleImputer, Interval, discover_domain
from skdp.testing import replay_release
from tests.errors import refusal

NUMERIC = ["mean", "median"]


def table(n, seed=0):
    """Return two columns with missing values, and medians of about 30 and 60."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.beta(3, 7, n), rng.beta(6, 4, n)]) * 100
    X[rng.random(X.shape) < 0.3] = np.nan
    return X


class TestMostFrequent:
    def test_missing_is_never_the_most_frequent_value(self):
        frame = pd.DataFrame({"a": ["x", None, None, None]})
        imputer = DPSimpleImputer(50.0, strategy="most_frequent", categories={"a": [None, "x"]})
        imputer.bounds_ = np.zeros((1, 2))  # of an earlier fit
        assert imputer.fit_transform(frame)["a"].tolist() == ["x"] * 4
        assert not hasattr(imputer, "bounds_")
        with pytest.raises(ValueError, match="must declare a value other than missing for column 'a'"):
            imputer.set_params(categories={"a": [None]}, handle_unknown="ignore").fit(frame)

    def test_most_frequent_bin_gives_its_midpoint(self):
        X = np.array([[1.0], [12.0], [13.0], [np.nan]] * 50)
        bins = Interval(0, 20, bins=4, real=True)
        imputer = DPSimpleImputer(50.0, strategy="most_frequent", categories=bins).fit(X)
        assert imputer.statistics_.tolist() == [12.5]
        assert imputer.transform(X)[:4].tolist() == [[1.0], [12.0], [13.0], [12.5]]

    @pytest.mark.parametrize(
        ("bins", "number", "middle"),
        [
            (Interval([1, 3, 4, 7]), 3, 3),
            (Interval([3, 6, 9], missing=True), 3, 4),  # 3, 4 and 5
            (Interval([3, 6, 9]), 9, 7),  # 6 to 9
            (Interval([2, 3.5, 5], decimals=0), 2, 2),
            (Interval([0, 0.07, 0.14, 1], decimals=2), 0.13, 0.1),  # 0.07 to 0.13; as a float, 0.07 * 100 > 7
            (Interval([-0.6, -0.3, 0], decimals=1), -0.6, -0.5),
            (Interval([1.2, 3.2, 4.2], decimals=0), 4, 4),  # the only whole number of the bin
            (Interval([date(2024, 1, 1), date(2024, 1, 2), date(2024, 1, 9)]), date(2024, 1, 1), date(2024, 1, 1)),
        ],
    )
    def test_midpoint_is_a_declared_number(self, bins, number, middle):
        frame = pd.DataFrame({"a": [number] * 50})
        imputer = DPSimpleImputer(50.0, strategy="most_frequent", categories={"a": bins}).fit(frame)
        assert imputer.statistics_.tolist() == [middle]

    def test_whole_numbers_keep_their_dtype(self):
        frame = pd.DataFrame({"age": [85, 85, None]}, dtype="Int64")
        imputer = DPSimpleImputer(50.0, strategy="most_frequent", categories={"age": Interval([17, 85, 86])})
        filled = imputer.fit_transform(frame)["age"]
        assert filled.dtype == "Int64"
        assert filled.tolist() == [85, 85, 85]

    @pytest.mark.parametrize(
        "frame", [pd.DataFrame({"a": [9, None]}, dtype="Int8"), pl.DataFrame({"a": [9, None]}, {"a": pl.Int8})]
    )
    def test_dtype_is_widened_for_a_larger_value(self, frame):
        imputer = DPSimpleImputer(50.0, strategy="most_frequent", categories={"a": [9, 300]})
        imputer.fit(pd.DataFrame({"a": [300] * 9}))
        assert list(imputer.transform(frame)["a"]) == [9, 300]


DAYS = [date(2024, 1, 1 + day) for day in range(9) for _ in range(20)] + [None] * 20
TIMES = pd.to_datetime(pd.Series(DAYS))
ARROW_DAYS = pa.chunked_array([pa.array(DAYS)])
DATE_COLUMNS = {
    "datetime64": pd.DataFrame({"day": TIMES.astype("datetime64[ns]")}),
    "datetime64 seconds": pd.DataFrame({"day": TIMES.astype("datetime64[s]")}),
    "arrow timestamps in pandas": pd.DataFrame({"day": TIMES.astype(pd.ArrowDtype(pa.timestamp("us")))}),
    "arrow days in pandas": pd.DataFrame({"day": pd.Series(DAYS, dtype=pd.ArrowDtype(pa.date32()))}),
    "polars dates": pl.DataFrame({"day": DAYS}),
    "polars datetimes": pl.DataFrame({"day": pl.Series(DAYS).cast(pl.Datetime("ms"))}),
    "arrow days": pa.table({"day": ARROW_DAYS}),
    "arrow timestamps": pa.table({"day": ARROW_DAYS.cast(pa.timestamp("s"))}),
}


@pytest.mark.parametrize("library", list(DATE_COLUMNS))
def test_dates_of_a_found_domain_keep_their_dtype(library):
    frame = DATE_COLUMNS[library]
    found = discover_domain(frame, epsilon=5.0, delta=1e-6, random_state=0)
    imputer = DPSimpleImputer(5.0, strategy="most_frequent", categories=found, random_state=0).fit(frame)
    before = nw.from_native(frame, eager_only=True)
    filled = nw.from_native(imputer.transform(frame), eager_only=True)
    assert filled.schema == before.schema, library
    filled_days = [str(day)[:10] for day in filled["day"].to_list()]
    assert filled_days == [str(day or imputer.statistics_[0]) for day in DAYS], library


CATEGORY_COLUMNS = {
    "datetimes": pd.DataFrame({"a": TIMES.astype("category")}),
    "integers": pd.DataFrame({"a": pd.Series([1, 9, None] * 20, dtype="Int64").astype("category")}),
    "floats": pd.DataFrame({"a": pd.Series([1.0, 9.0, None] * 20).astype("category")}),
    "dictionary of dates": pa.table({"a": ARROW_DAYS.dictionary_encode()}),
    "dictionary of strings in pandas": pd.DataFrame(
        {"a": pd.Series(["x", "y", None] * 20, dtype=pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string())))}
    ),
}
BINS_OF_CATEGORIES = {
    "datetimes": Interval([date(2024, 1, 2), date(2024, 1, 5), date(2025, 1, 1)]),
    "integers": Interval([0, 10, 20]),
    "floats": Interval([0.0, 10.0, 20.0]),
    "dictionary of dates": Interval([date(2024, 1, 1), date(2024, 1, 5), date(2025, 1, 1)]),
    "dictionary of strings in pandas": ["x", "y"],
}


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_categories_without_a_text_become_text(make):
    column = pd.Series(pd.Categorical(["y", None] * 20, categories=["y", "z"]))
    if make is pl.DataFrame:
        column = pl.Series(["y", None] * 20, dtype=pl.Enum(["y", "z"]))
    imputer = DPSimpleImputer(50.0, strategy="most_frequent", categories={"a": ["x"]}, handle_unknown="ignore")
    filled = imputer.fit_transform(make({"a": column}))["a"]
    assert filled.to_list() == ["y", "x"] * 20


@pytest.mark.parametrize("name", list(CATEGORY_COLUMNS))
def test_categories_without_the_statistic_are_converted(name):
    frame = CATEGORY_COLUMNS[name]
    imputer = DPSimpleImputer(
        5.0,
        strategy="most_frequent",
        categories={"a": BINS_OF_CATEGORIES[name]},
        handle_unknown="ignore",
        random_state=0,
    )
    filled = nw.from_native(imputer.fit(frame).transform(frame), eager_only=True)["a"]
    assert filled.null_count() == 0, name
    last = filled.to_list()[-1]
    assert (last.date() if isinstance(last, datetime) else last) == imputer.statistics_[0], name


def test_dtype_without_the_declared_value_raises_before_the_charge(monkeypatch):
    def fail(column, value):
        raise TypeError(value)

    monkeypatch.setattr("skdp.central.preprocessing._simple_imputer.fill_missing", fail)
    with refusal(ValueError, r"Missing values of column 'a' cannot be replaced \(TypeError\)") as ledger:
        imputer = DPSimpleImputer(strategy="most_frequent", categories={"a": ["x"]}, ledger=ledger)
        imputer.fit(pd.DataFrame({"a": ["x", None]}))


class TestNumbers:
    @pytest.mark.parametrize("bounds", [(0, 100), (-3.5, 250.25), (0, 12_345), (1, 98)])
    def test_medians_are_imputed(self, bounds):
        X = table(3000).round()
        imputer = DPSimpleImputer(20.0, strategy="median", bounds=bounds).fit(X)
        step = (bounds[1] - bounds[0]) / 10_000
        assert imputer.statistics_ == pytest.approx(np.nanmedian(X, axis=0), abs=1 + 2 * step)
        if bounds in [(0, 100), (1, 98)]:
            assert imputer.statistics_.tolist() == np.nanmedian(X, axis=0).tolist()

    @pytest.mark.parametrize("strategy", NUMERIC)
    def test_only_missing_values_are_filled(self, strategy):
        X = table(300)
        imputer = DPSimpleImputer(strategy=strategy, bounds=(0.0, 100.0)).fit(X)
        before = X.copy()
        out = imputer.transform(X)
        np.testing.assert_array_equal(X, before)
        gaps = np.isnan(X)
        np.testing.assert_array_equal(out[~gaps], X[~gaps])
        np.testing.assert_array_equal(out[gaps], np.broadcast_to(imputer.statistics_, X.shape)[gaps])
        outside = np.array([[-5.0, np.inf]])  # other values stay, clipped or not
        np.testing.assert_array_equal(imputer.transform(outside), outside)


def test_error_of_a_column_without_a_statistic_contains_no_value():
    fitted = DPSimpleImputer(strategy="most_frequent", categories={"a": ["x", "y"]}).fit(pd.DataFrame({"a": ["x"]}))
    frame = pl.DataFrame({"a": pl.Series([object(), None], dtype=pl.Object)})
    with pytest.raises(ValueError, match=r"Missing values of column 'a' cannot be replaced \(\w+\)\. Convert"):
        fitted.transform(frame)


@pytest.mark.parametrize("strategy", NUMERIC)
@pytest.mark.parametrize("bounds", [None, (0, None), (0.0, 1e4), (0.0, 1e6)])
def test_statistics_do_not_follow_the_width_of_the_bounds(strategy, bounds):
    """Imputed means were wrong by 0.88 standard deviations with bounds 100 times wider than the numbers."""
    for seed in range(3):
        X = table(3000, seed)
        imputer = DPSimpleImputer(bounds=bounds, strategy=strategy).fit(X)
        assert np.abs(imputer.statistics_ - getattr(np, f"nan{strategy}")(X, axis=0)).max() < 5


def test_declared_whole_numbers_beside_an_open_end_have_whole_medians():
    X = pd.DataFrame({"a": [1, 2, 2, 3] * 100, "b": [0.5, 1.5, 1.5, 2.5] * 100})
    imputer = DPSimpleImputer(20.0, strategy="median", bounds={"a": (0, 9), "b": (0, None)})
    assert imputer.fit(X).statistics_[0] == 2
    with pytest.raises(ValueError, match="'a' contains a number with more decimals than its bounds declare"):
        imputer.fit(X + 0.5)


def test_most_frequent_values_of_all_columns_cost_the_budget_together():
    table = pd.DataFrame({"a": [0, 1, 1], "b": [0, 0, 1]})
    release = DPSimpleImputer(strategy="most_frequent", categories={"a": [0, 1], "b": [0, 1]})
    replay = replay_release(release, table, table[:-1])
    assert replay.passed, replay.findings
    assert replay.epsilon == pytest.approx(1)
