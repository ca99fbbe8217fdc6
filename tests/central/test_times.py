"""Means and quantiles of dates, datetimes and durations, as numbers of days."""

from datetime import UTC, date, datetime, timedelta

import numpy as np
import pandas as pd
import polars as pl
import pytest

import skdp.engines  # noqa: F401, so that `fit` reads a LazyFrame
from skdp import Domain, DPGroupBy, DPMean, Interval, load, save
from skdp.testing import replay_release
from tests.errors import refusal

LOW, HIGH = date(2020, 1, 1), date(2023, 1, 1)
KEYS = {"k": ["a", "b"]}


def make_visits(n_rows=2_000):
    rng = np.random.default_rng(0)
    visits = pd.DataFrame({"k": rng.choice(["a", "b"], n_rows)})
    visits["day"] = pd.Timestamp(LOW) + pd.to_timedelta(rng.integers(0, 1_000, n_rows), unit="D")
    visits.loc[::40, "day"] = pd.NaT
    return visits.assign(stay=pd.to_timedelta(rng.integers(0, 200, n_rows), unit="h"))


VISITS = make_visits()


def to_days(visits):
    return pl.from_pandas(visits).with_columns(pl.col("day").cast(pl.Date))


LIBRARIES = {
    "pandas": lambda visits: visits,
    "objects": lambda visits: visits.assign(
        day=visits["day"].dt.date, stay=[pd.Timedelta(stay).to_pytimedelta() for stay in visits["stay"]]
    ).astype({"day": object, "stay": object}),
    "polars": to_days,
    "lazy": lambda visits: to_days(visits).lazy(),
    "arrow": lambda visits: to_days(visits).to_arrow(),
}


@pytest.mark.filterwarnings("ignore:Columns .* have dtype object")
@pytest.mark.parametrize("convert", LIBRARIES.values(), ids=LIBRARIES)
def test_statistics_of_times_at_a_large_epsilon_are_exact_in_all_libraries(convert):
    bounds = {"day": (LOW, HIGH), "stay": (timedelta(0), timedelta(days=10))}
    model = DPGroupBy(
        1e6, by="k", keys=KEYS, statistics=["count", "mean", "median", "std"], bounds=bounds, random_state=0
    )
    released = model.fit(convert(VISITS)).to_frame()
    if not isinstance(released, pd.DataFrame):
        released = pl.DataFrame(released).to_pandas().set_index("k")
    for column, unit in (("day", "datetime64"), ("stay", "timedelta64")):
        groups = VISITS.dropna(subset=column).groupby("k")  # pandas 2.2 counts NaT in medians
        for statistic in ("mean", "median"):
            assert released[f"{column}_{statistic}"].dtype.name.startswith(unit)
            gaps = released[f"{column}_{statistic}"] - groups[column].agg(statistic)
            assert (gaps.abs() <= pd.Timedelta(days=1 if statistic == "median" else 0.02)).all()
            assert (released[f"{column}_{statistic}_lower"] <= released[f"{column}_{statistic}_upper"]).all()
        gaps = released[f"{column}_std"] - groups[column].std()
        assert (gaps.abs() <= pd.Timedelta(days=0.3)).all()
        assert released[f"{column}_mean_std_error"].dtype.name.startswith("timedelta64")


@pytest.mark.parametrize("bounds", [(LOW, HIGH), Domain({"day": Interval(LOW, HIGH)}), None, (LOW, None)])
def test_mean_of_dates_is_a_date_with_declared_or_found_bounds(bounds, tmp_path):
    model = DPMean(5.0, bounds=bounds, random_state=0).fit(VISITS[["day"]])
    table = model.to_frame()
    assert abs(table.loc["day", "mean"] - VISITS["day"].mean()) < pd.Timedelta(days=10)
    assert table.loc["day", "lower"] <= VISITS["day"].mean() <= table.loc["day", "upper"]
    assert table.loc["day", "std_error"] > pd.Timedelta(0)
    method = dict(model.guarantee_.method)
    if bounds is None or None in bounds:
        assert "day from 20" in method["limits"]
    else:
        assert method["bounds"] == "day from 2020-01-01 to 2023-01-01"
    save(model, tmp_path / "mean.skdp")
    pd.testing.assert_frame_equal(load(tmp_path / "mean.skdp").to_frame(), table)


def test_medians_of_dates_are_dates_and_of_other_types_are_times():
    model = DPGroupBy(1.0, by=None, statistics="median", bounds={"day": (LOW, HIGH)}, random_state=0)
    median = model.fit(to_days(VISITS)).to_frame()["day_median"].item()
    assert median == datetime.combine(median.date(), datetime.min.time())


@pytest.mark.filterwarnings("ignore:The 'generic' unit:DeprecationWarning")  # NaT without a unit, of NumPy 2.5
def test_neighbors_with_hostile_times_cost_at_most_epsilon():
    objects = [
        LOW, date(9999, 12, 31), datetime(1, 1, 1), datetime(2021, 5, 1, tzinfo=UTC), pd.NaT, None, "2021-01-01", 7,
        timedelta.max, np.datetime64("NaT"), np.datetime64(10**6, "Y"), pd.Timestamp("2022-01-01"), [LOW],
    ]  # fmt: skip
    rows = pd.DataFrame({"k": ["a", "b"] * 13, "day": pd.Series(objects * 2, dtype=object)})
    model = DPGroupBy(1.0, by="k", keys=KEYS, statistics=["count", "mean", "median"], bounds={"day": (LOW, HIGH)})
    with pytest.warns(UserWarning, match="have dtype object"):
        model.set_params(random_state=0).fit(rows)
    replays = [replay_release(model, rows, rows.drop(row), random_state=row) for row in range(0, 13, 2)]
    assert all(replay.passed for replay in replays)
    assert 0 < max(replay.epsilon for replay in replays) <= 1 + 1e-9


HOSTILE = [timedelta(1), timedelta.max, timedelta.min, pd.NaT, None, LOW, "1 day", 5, np.timedelta64(3, "h")]


@pytest.mark.filterwarnings("ignore:Columns .* have dtype object")
def test_durations_of_any_objects_are_read():
    rows = pd.DataFrame({"x": pd.Series(HOSTILE, dtype=object)})
    model = DPMean(1e6, bounds=(timedelta(0), timedelta(days=2)), random_state=0).fit(rows)
    assert model.mean_[0] == pytest.approx((1 + 2 + 0 + 0.125) / 4, abs=1e-3)


@pytest.mark.parametrize(
    ("parameters", "columns", "match"),
    [
        ({"bounds": {"day": (0, 10)}}, ["day"], "`bounds` of column 'day' must be two dates, or None for an open end"),
        ({"bounds": {"stay": (LOW, HIGH)}}, ["stay"], "of column 'stay' must be two durations, such as timedelta"),
        ({"bounds": {"x": (LOW, HIGH)}}, ["x"], "`bounds` of column 'x' must be two numbers, got date"),
        ({"bounds": {"day": (HIGH, LOW)}}, ["day"], "`bounds` of column 'day'"),
        ({"bounds": {"day": (datetime(2020, 1, 1, tzinfo=UTC), None)}}, ["day"], "without a time zone"),
        ({"bounds": [(LOW, HIGH)]}, ["day"], "must be a mapping of column name to pair with columns of dates"),
        ({"statistics": ["sum"]}, ["day"], "`statistics` must not contain 'sum' with columns of dates, got .'day'."),
        ({}, ["zone"], "got a column of dtype datetime64.* Convert durations to seconds, and remove the time zone"),
        ({"keys": "automatic", "delta": 1e-6}, ["x"], "`keys` must be .* a Domain or 'auto', got 'automatic'"),
    ],
)
def test_mistakes_are_raised_before_the_charge(parameters, columns, match):
    rows = VISITS.assign(x=1.0, zone=VISITS["day"].dt.tz_localize("UTC"))[["k", *columns]]
    with refusal((TypeError, ValueError), match) as ledger:
        DPGroupBy(by="k", ledger=ledger, **{"keys": KEYS} | parameters).fit(rows)


def test_mean_of_several_types_is_an_error():
    with pytest.raises(ValueError, match="X must have columns of one type, dates, durations or numbers"):
        DPMean().fit(VISITS[["day", "stay"]])
    with pytest.raises(ValueError, match="X must have columns of one type, dates, durations or numbers"):
        DPMean().fit(VISITS[["day"]].assign(x=1.0))
