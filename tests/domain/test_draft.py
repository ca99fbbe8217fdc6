import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skdp import Domain, Interval, PrivacyLeakWarning, RandomizedResponseEncoder
from skdp.domain import Categories
from tests.cli.commands import draft_frame
from tests.errors import refusal


def draft(frame, **options):
    return Domain.from_frame(frame, **{"bins": 32} | options)


def test_every_library_gives_the_same_draft():
    data = {
        "sex": ["Male", "Female", None] * 20,
        "age": [*range(20, 80, 2), *range(79, 19, -2)],
        "grade": [1, 2, 3] * 20,
    }
    data = {name: values * 2 for name, values in data.items()}
    expected = Domain({"sex": ["Female", "Male", None], "age": Interval(20, 80, bins=30), "grade": [1, 2, 3]})
    for frame in (pd.DataFrame(data), pl.DataFrame(data), pa.table(data)):
        assert draft(frame) == Domain.from_toml(draft_frame(frame, bins=32)) == expected


def test_missing_value_of_ordered_categories_is_declared():
    levels = pd.Categorical(["low", None], ["low", "high"], ordered=True)
    declared = Categories(["low", "high", None], ordered=True)
    assert draft(pd.DataFrame({"level": levels})) == Domain({"level": declared})


NUMBERS = st.floats(-1e12, 1e12) | st.integers(-1000, 1000).map(float)


@given(st.lists(NUMBERS, min_size=2, unique=True), st.integers(1, 40))
def test_every_value_of_the_table_is_declared(values, bins):
    frame = pd.DataFrame({"x": values})
    domain = draft(frame, bins=bins)
    assert isinstance(domain["x"], Interval) == (len(values) > bins)
    assert domain.sizes[0] <= bins
    assert (domain.encode([frame["x"]])[0] < domain.sizes[0]).all()


@pytest.mark.parametrize(
    ("values", "interval"),
    [
        (range(17, 91), Interval(15, 95, bins=16)),
        (range(101), Interval(0, 105, bins=21)),
        (np.linspace(0.13, 0.98, 50), Interval(0.1, 1.0, bins=18)),
    ],
)
def test_bounds_are_round(values, interval):
    frame = pd.DataFrame(
        {"x": np.repeat(np.array(values, float), 2)}
    )  # whole numbers that never repeat would be row numbers
    assert draft(frame)["x"].edges == pytest.approx(interval.edges)
    text = draft_frame(frame / 8)
    assert Domain.from_toml(text)["x"].real
    assert "declare decimals = 2 in place of real = true." in text
    assert "from the data, without any protection" in text
    assert Domain.from_toml(draft_frame((frame * 1.01).round(2)))["x"].decimals == 2


def test_each_column_has_the_expected_declaration():
    n = 120
    frame = pd.DataFrame(
        {
            "flag": [True] * n,
            "day": [dt.date(2020, 1, 1), dt.date(2020, 1, 2)] * (n // 2),
            "level": pd.Categorical(["low"] * n, ["low", "mid", "high"], ordered=True),
            "half": [0.5, 1.0] * (n // 2),
            "holes": [1.0, None] * (n // 2),
            "income": [None, *range(1, n)],
        }
    )
    domain = draft(frame)
    assert {name: getattr(domain[name], "values", None) for name in domain.columns if name != "income"} == {
        "flag": (False, True),
        "day": (dt.date(2020, 1, 1), dt.date(2020, 1, 2)),
        "level": ("low", "mid", "high"),
        "half": (0.5, 1),
        "holes": (1, None),
    }
    assert domain["income"] == Interval(0, 120, bins=24, missing=True)


@pytest.mark.parametrize(
    ("frame", "options", "error", "match"),
    [
        (np.zeros((2, 2)), {}, TypeError, "X must be a pandas, polars or pyarrow table, got ndarray"),
        (pl.LazyFrame({"a": [1]}), {}, TypeError, "lazy"),
        (pd.DataFrame({"a": [1]}), {"bins": 0}, ValueError, "`bins` must be"),
        (pd.DataFrame({"a": [1]}), {"max_values": True}, ValueError, "`max_values` must be"),
        (pd.DataFrame({"a": ["x", "y"]}), {"max_values": 1}, ValueError, "Column 'a' has more than 1 distinct values"),
        (pd.DataFrame({"a": [np.inf, *range(40)]}), {}, ValueError, "infinite"),
        (pd.DataFrame({"a": pd.Categorical([None])}), {}, ValueError, "Column 'a' has no value"),
    ],
)
def test_invalid_options_raise_an_error(frame, options, error, match):
    with pytest.raises(error, match=match):
        Domain.from_frame(frame, **options)
    if error is ValueError:
        with pytest.raises(error, match=match.replace("Column 'a'", "that a draft cannot declare: 'a'")):
            draft_frame(frame, **options)


@pytest.mark.parametrize("convert", [lambda frame: frame, pl.from_pandas, pa.Table.from_pandas])
@pytest.mark.parametrize("dtype", ["float32", pd.CategoricalDtype(np.array([0.1, 0.2, 0.7], "float32"))])
def test_float32_numbers_are_drafted_with_their_digits(convert, dtype):
    frame = convert(pd.DataFrame({"dose": np.repeat(np.array([0.1, 0.2, 0.7], "float32"), 50)}).astype(dtype))
    domain = Domain.from_frame(frame)
    assert domain["dose"].values == (0.1, 0.2, 0.7)
    assert domain.encode([frame["dose"]])[0].tolist() == np.repeat([0, 1, 2], 50).tolist()
    with pytest.warns(PrivacyLeakWarning):
        encoder = RandomizedResponseEncoder(1.0, categories="auto").fit(frame)
    assert encoder.categories_[0].tolist() == [0.1, 0.2, 0.7]


def test_numbers_that_would_be_months_before_1900_are_no_dates():
    numbers = [100 * year + month for year in range(1000, 1020) for month in range(1, 13)]
    assert isinstance(draft(pd.DataFrame({"x": numbers * 2}))["x"], Interval)
    with pytest.raises(ValueError, match="numbers that are dates"):
        draft(pd.DataFrame({"x": [number + 90_000 for number in numbers] * 2}))


@pytest.mark.parametrize("first", [202400, 20240, 2024000])
def test_numbers_without_a_month_a_quarter_or_a_day_are_no_dates(first):
    # The last digits of codes of months, quarters and days begin at 1.
    numbers = [first + 10_000 * year for year in range(3)] if first > 1e6 else [*range(first, first + 4)]
    frame = pd.DataFrame({"x": numbers * 2})
    assert isinstance(draft(frame, bins=2, max_values=9)["x"], Interval)
    assert not isinstance(draft(frame + 1, bins=2, max_values=9)["x"], Interval)


DAY = dt.timedelta(days=1)


@pytest.mark.parametrize(
    ("first", "step", "number", "interval"),
    [
        (dt.date(1999, 3, 5), DAY, 20, Interval(dt.date(1999, 3, 5), dt.date(1999, 3, 24), bins=20)),
        (dt.date(1999, 3, 1), DAY, 32, Interval(dt.date(1999, 3, 1), dt.date(1999, 4, 1), bins=32)),
        # Times count as dates.
        (dt.datetime(2020, 1, 1, 3), DAY, 366, Interval(dt.date(2020, 1, 1), dt.date(2021, 1, 1), bins=12)),
        (dt.date(2024, 2, 5), DAY, 1461, Interval(dt.date(2024, 1, 1), dt.date(2028, 3, 1), bins=25)),
        (dt.date(1990, 3, 5), 30 * DAY, 150, Interval(dt.date(1990, 1, 1), dt.date(2002, 7, 1), bins=25)),
    ],
)
def test_many_dates_are_cut_into_usual_bins(first, step, number, interval):
    values = [first + index * step for index in range(number)]
    for frame in (pd.DataFrame({"x": values}), pl.DataFrame({"x": values}), pa.table({"x": values})):
        assert draft(frame, max_values=10)["x"] == interval
    holes = draft(pl.DataFrame({"x": [*values, None]}), max_values=10)["x"]
    assert holes == Interval(edges=interval.edges, missing=True)


@pytest.mark.parametrize("n_years", [40, 41])
def test_many_years_are_cut_into_bins_of_whole_years(n_years):
    days = [dt.date(1900 + year, 3, 5) for year in range(n_years)]
    edges = draft(pd.DataFrame({"x": days}), max_values=10)["x"].edges
    assert (edges[0], edges[-1], len(edges)) == (dt.date(1900, 1, 1), dt.date(1900 + n_years, 1, 1), 33)
    assert {(edge.month, edge.day) for edge in edges} == {(1, 1)}


def test_excluded_columns_are_listed():
    columns = {
        "none": [None] * 200,
        "texts": [f"name {row}" for row in range(200)],
        "zones": pd.date_range("2020-01-01", periods=200, tz="UTC"),
        "infinite": [np.inf, -np.inf] * 100,
        "far": np.arange("10000-01-01", "10000-07-19", dtype="datetime64[D]").astype("datetime64[s]"),
        "spans": pd.to_timedelta(np.arange(200), unit="h"),
        "lists": [[1], [2]] * 100,
        "mixed": ["a", 1] * 100,
        "words": [f"word {row % 110}" for row in range(200)],
        "bytes": [b"a"] * 200,
        "kept": [1, 2] * 100,
    }
    frame = pd.DataFrame({name: pd.Series(values) for name, values in columns.items()})
    stored = frame.drop(columns="mixed")  # no file has such a column
    text = draft_frame(stored)
    assert Domain.from_toml(text) == draft(frame[["kept"]]).select(Domain.from_toml(text).columns)
    assert Domain.from_toml(draft_frame(stored, max_values=110)).columns == ("words", "kept")
    assert "name 1" not in text
    assert "word 1" not in text
    for name in set(columns) - {"kept"}:
        assert f"# Column {name!r} is excluded: it" in text or name == "mixed"
        with refusal(ValueError, f"Column {name!r} ", "name 1"):
            draft(frame[[name]])
