"""Values that no record can have reported are an error wherever reports are read."""

import datetime as dt
from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import skdp
from skdp import Interval
from skdp.engines import estimate_file, privatize, tally
from skdp.metrics import debiased_fairness
from skdp.oracles import SubsetSelection
from skdp.survey import ReportLogisticRegression
from tests.conftest import diagonal, often

DAYS = [dt.date(2024, 1, 1) + dt.timedelta(number) for number in range(366)]
COLUMNS = {
    "age": (np.arange(366) % 90, Interval(0, 90, bins=3)),
    "wage": (np.linspace(0, 100, 366), Interval(0.0, 100.0, bins=7)),
    "short": (np.linspace(0, 100, 366, dtype="float32"), Interval(0.0, 100.0, bins=7)),
    "uneven": (np.arange(366) % 90, Interval([0, 1, 10, 100])),
    "day": (DAYS, Interval(DAYS[0], dt.date(2025, 1, 1), bins=4)),
    "moment": (
        [dt.datetime(2024, 1, 1, number % 24, number % 60) for number in range(366)],
        Interval(dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 2), bins=5),
    ),
    "gaps": ([None if number % 3 else number % 90 for number in range(366)], Interval(0, 90, bins=3, missing=True)),
}
SEXES = ["f", "m"] * 183
LIBRARIES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}


def make_encoder(name, strategy="split"):
    """Make a table with a column of bins and a column of two values, and an encoder that is fitted to it."""
    values, interval = COLUMNS[name]
    categories = {name: interval, "sex": ["f", "m"]}
    encoder = skdp.RandomizedResponseEncoder(1.0, categories=categories, strategy=strategy, random_state=0)
    table = {name: values, "sex": SEXES}
    return encoder.fit(pd.DataFrame(table)), table


@pytest.mark.parametrize(("library", "name"), diagonal(LIBRARIES, often(COLUMNS, ["short", "uneven", "day", "gaps"])))
def test_values_other_than_midpoints_raise_an_error(name, library):
    for strategy in ("split", "joint", "sample"):
        encoder, columns = make_encoder(name, strategy)
        table = LIBRARIES[library](columns)
        reports = encoder.transform(table)
        encoder.estimate_counts(reports)
        if strategy == "sample":
            columns = columns | {"sampled": [0, 1] * 183}
        true_values = LIBRARIES[library](columns)
        for method in (encoder.tally, encoder.estimate_counts, encoder.estimate_frequencies, encoder.debias):
            with pytest.raises(ValueError, match=f"Column '{name}'.*`transform`"):
                method(true_values)


def test_reports_of_text_files_are_read():
    for name, strategy in product(COLUMNS, ["split", "sample"]):
        encoder, columns = make_encoder(name, strategy)
        reports = encoder.transform(pd.DataFrame(columns))
        counts = encoder.estimate_counts(reports)
        stored = pd.DataFrame(reports)
        if stored[name].dtype.kind == "f":
            # Ten significant digits, as a spreadsheet may write.
            stored[name] = stored[name].map("{:.10g}".format).astype(float)
        pd.testing.assert_frame_equal(encoder.estimate_counts(stored), counts)
        if stored[name].dtype.kind == "f":
            stored[name] = stored[name].astype("float32")
            pd.testing.assert_frame_equal(encoder.estimate_counts(stored), counts)


def test_times_of_day_on_a_midpoint_date_raise_an_error():
    encoder, columns = make_encoder("day")
    reports = encoder.transform(pd.DataFrame(columns))
    with pytest.raises(ValueError, match="'day'"):
        encoder.estimate_counts(reports.assign(day=reports["day"] + pd.Timedelta(hours=9)))


def test_single_true_value_among_reports_raises_an_error():
    encoder, columns = make_encoder("age")
    reports = encoder.transform(pd.DataFrame(columns))
    reports.loc[300, "age"] = 16
    with pytest.raises(ValueError, match="'age'"):
        encoder.tally(reports)


def test_metrics_and_models_raise_an_error_for_true_values():
    encoder, columns = make_encoder("age")
    table = pd.DataFrame(columns)
    y = np.arange(366) % 2
    calls = [
        lambda: debiased_fairness(y, y, table, encoder),
        lambda: ReportLogisticRegression(encoder).fit(table, y),
        lambda: encoder.estimate_frequencies(table, sample_weight=np.ones(366)),
        lambda: encoder.estimate_joint_counts(table),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="Column 'age'"):
            call()


def test_engines_raise_an_error_for_true_values(tmp_path):
    encoder, columns = make_encoder("age")
    table = pl.DataFrame(columns)
    assert tally(privatize(table.lazy(), encoder), encoder).n_reports == 366
    with pytest.raises(ValueError, match="'age'"):
        tally(table.lazy(), encoder)
    for name in ("t.csv", "t.parquet"):
        write = table.write_csv if name.endswith("csv") else table.write_parquet
        write(tmp_path / name)
        with pytest.raises(ValueError, match="'age'"):
            estimate_file(tmp_path / name, encoder)


@pytest.mark.parametrize("dtype", ["uint8", "int64", "float64", "bool", object])
def test_sets_of_another_size_raise_an_error(dtype):
    for size in (1, 3):
        oracle = SubsetSelection(8, 1.0, subset_size=size)
        reports = oracle.report(np.arange(8), skdp.randomness.SeededSource(0)).astype(dtype)
        if dtype in ("uint8", "int64", "bool"):
            assert (oracle.read(reports) == reports).all()
            reports[5, np.flatnonzero(reports[5])[0]] = 0
            with pytest.raises(ValueError, match=f"exactly {size} of the 8 values"):
                oracle.read(reports)
    encoder = skdp.SubsetSelectionEncoder(1.0, categories={"x": list(range(12))}, random_state=0)
    reports = encoder.fit_transform(pd.DataFrame({"x": np.arange(12)}))
    one_hot = pd.DataFrame(np.eye(12, dtype="uint8"), columns=reports.columns).astype(dtype)
    encoder.tally(reports.astype(dtype))
    with pytest.raises(ValueError, match="exactly"):
        encoder.tally(one_hot)
