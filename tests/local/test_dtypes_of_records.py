"""Reports have the dtype of the declared values and the container, because one record may determine other dtypes."""

import datetime as dt
import pickle

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.preprocessing import OneHotEncoder

from skdp import DPColumnSynthesizer, DPMarginalSynthesizer, Interval, RandomizedResponseEncoder, load, save
from skdp.domain import Categories
from skdp.engines import privatize
from tests.conftest import quick_first

DAYS = [dt.date(2020, 1, 1), dt.date(2020, 3, 1), dt.date(2021, 1, 1)]
TIMES = [dt.datetime(day.year, day.month, day.day) for day in DAYS]
WARDS = ["b", "a", "c"]
SECRET = ["s3cr3t", "zzz"]
PANDAS_TEXT = str(pd.Series(["a"]).dtype)

# By declaration, the dtype in pandas, polars and Arrow.
DTYPES = {
    "whole": ([1, 2, 3], "int64", "Int64", "int64"),
    "unsigned": ([1, 2**64 - 1], "uint64", "UInt64", "uint64"),
    "missing": ([1, 2, None], "float64", "Int64", "int64"),
    "real": ([0.5, 1], "float64", "Float64", "double"),
    "bins": (Interval([0, 1, 4]), "float64", "Float64", "double"),
    "whole bins": (Interval([0, 2, 4]), "int64", "Int64", "int64"),
    "truth": ([True, False], "bool", "Boolean", "bool"),
    "missing truth": ([True, False, None], "object", "Boolean", "bool"),
    "text": (["a", "b", None], PANDAS_TEXT, "String", "string"),
    "days": (DAYS, "object", "Date", "date32[day]"),
    "bins of days": (Interval(DAYS), "datetime64[us]", "Date", "date32[day]"),
    "times": ([*TIMES, None], "datetime64[us]", "Datetime(time_unit='us', time_zone=None)", "timestamp[us]"),
}


def values_of(declared):
    return [value for value in declared.values if value is not None] if isinstance(declared, Interval) else declared


def tables(declared):
    """Make tables of the declared values, by library, in dtypes that other records may give them."""
    values = values_of(declared)
    made = [pd.DataFrame({"x": pd.Series(values, dtype=dtype)}) for dtype in (object, None, "category")]
    array = pa.array(values, pa.uint64() if 2**64 - 1 in values else None)
    arrow, coded = pa.table({"x": array}), pa.table({"x": array.dictionary_encode()})
    return [*made, arrow.to_pandas(types_mapper=pd.ArrowDtype), arrow, coded, pl.from_arrow(arrow), pl.DataFrame(arrow)]


def is_categorical(table):
    """Check if the column x is a category of pandas, an Enum or Categorical of polars, or a dictionary of Arrow."""
    kind = str(table["x"].type if isinstance(table, pa.Table) else table["x"].dtype)
    return kind.lower().startswith(("category", "enum", "categorical", "dictionary"))


def categories_of(column):
    """List the categories of a column of any library, in order."""
    if isinstance(column, pd.Series):
        return column.cat.categories.tolist()
    if isinstance(column, pl.Series):
        return column.dtype.categories.to_list()
    return column.chunk(0).dictionary.to_pylist()


@pytest.mark.parametrize("kind", DTYPES)
def test_reports_have_the_container_of_the_column(kind):
    declared, of_pandas, of_polars, of_arrow = DTYPES[kind]
    for table in tables(declared):
        encoder = RandomizedResponseEncoder(1.0, categories={"x": declared}, random_state=0)
        reports = encoder.fit_transform(table)
        assert type(reports) is type(table)
        if isinstance(declared, list) and is_categorical(table):
            assert categories_of(reports["x"]) == [value for value in declared if value is not None]
        elif isinstance(reports, pa.Table):
            assert str(reports["x"].type) == of_arrow
        else:
            assert str(reports["x"].dtype) == (of_polars if isinstance(reports, pl.DataFrame) else of_pandas)


@pytest.mark.parametrize("declared", [WARDS, [1, 2], [True, False], DAYS, TIMES, [0.5, 1]])
def test_sampled_categories_have_the_declared_categories(declared):
    table = pd.DataFrame({"x": pd.Categorical([declared[0]] * 50), "y": ["f"] * 50})
    categories = {"x": Categories(declared, ordered=True), "y": ["f", "m"]}
    encoder = RandomizedResponseEncoder(1.0, categories=categories, strategy="sample", random_state=0)
    reports = encoder.fit_transform(table)
    assert reports["x"].cat.categories.tolist() == declared
    assert reports["x"].cat.ordered
    assert reports["x"].isna().equals(reports["sampled"] == 1)
    encoder.estimate_counts(reports)


def test_sampled_bins_of_dates_are_times_in_pandas():
    table = pd.DataFrame({"x": DAYS * 9, "y": ["f"] * 27})
    categories = {"x": Interval(DAYS), "y": ["f", "m"]}
    encoder = RandomizedResponseEncoder(1.0, categories=categories, strategy="sample", random_state=0)
    reports = encoder.fit_transform(table)
    assert reports["x"].dtype == "datetime64[us]"
    encoder.estimate_counts(reports)


def category_tables(values, others):
    """Make tables of categories by library: their categories have another order, and values that do not occur."""
    words = [*others, *values[::-1]]
    pandas_table = pd.DataFrame({"x": pd.Categorical(values * 20, categories=words, ordered=True)})
    return {
        "category": pandas_table,
        "dictionary": pa.Table.from_pandas(pandas_table, preserve_index=False),
        "Enum": pl.DataFrame({"x": values * 20}, schema={"x": pl.Enum(words)}),
        "Categorical": pl.DataFrame({"x": values * 20}, schema={"x": pl.Categorical}),
    }


def releases(table, folder):
    """Release a table of categories on every path that writes values."""
    encoder = RandomizedResponseEncoder(1.0, categories={"x": WARDS}, random_state=0).fit(table)
    synthesizer = DPMarginalSynthesizer(1.0, domain={"x": WARDS}, random_state=0).fit(table)
    yield encoder.transform(table)
    yield pickle.loads(pickle.dumps(encoder)).transform(table)
    yield RandomizedResponseEncoder.from_json(encoder.to_json()).transform(table)
    yield synthesizer.sample(50)
    yield synthesizer.transform(table)
    save(synthesizer, folder / "model.skops")
    for copied in (pickle.loads(pickle.dumps(synthesizer)), load(folder / "model.skops")):
        yield copied.sample(50)
    two = nw.from_native(table).with_columns(nw.lit(1).alias("g")).to_native()
    resampled = DPColumnSynthesizer(["x"], 1.0, domain={"x": WARDS, "g": [0, 1]}, random_state=0).fit(two)
    yield resampled.transform(two)


@pytest.mark.parametrize("kind", quick_first(2, ["dictionary", "Categorical", "category", "Enum"]))
def test_release_has_the_declared_categories(kind, tmp_path):
    for table in releases(category_tables(WARDS, SECRET)[kind], tmp_path):
        assert is_categorical(table)
        assert categories_of(table["x"]) == WARDS
        assert not getattr(getattr(table["x"], "cat", None), "ordered", False)


def test_ordered_categories_in_the_declared_order_stay_ordered(tmp_path):
    table = pd.DataFrame({"x": pd.Categorical(WARDS * 20, categories=[*WARDS, *SECRET], ordered=True)})
    for release in releases(table, tmp_path):
        assert release["x"].dtype == pd.CategoricalDtype(WARDS, ordered=True)
    by_dtype = RandomizedResponseEncoder(1.0).fit_transform(table)
    assert by_dtype["x"].dtype == table["x"].dtype


@pytest.mark.parametrize("kind", ["category", "dictionary", "Enum"])
@pytest.mark.parametrize("output", ["pandas", "polars"])
def test_set_output_keeps_categories(kind, output):
    encoder = RandomizedResponseEncoder(1.0, categories={"x": WARDS}).set_output(transform=output)
    reports = encoder.fit_transform(category_tables(WARDS, SECRET)[kind])
    assert categories_of(reports["x"]) == WARDS


@pytest.mark.parametrize("kind", ["category", "dictionary", "Enum", "Categorical"])
def test_reports_of_categories_can_be_read(kind):
    table = category_tables(WARDS, SECRET)[kind]
    for strategy in ("split", "joint"):
        encoder = RandomizedResponseEncoder(9.0, categories={"x": WARDS}, strategy=strategy, random_state=0)
        counts = encoder.estimate_counts(encoder.fit_transform(table))["count"]
        assert counts.round(0).tolist() == [20, 20, 20]


def test_categories_contain_the_missing_value_of_reports():
    table = pd.DataFrame({"x": ["a", None] * 20})
    encoder = RandomizedResponseEncoder(9.0, categories={"x": ["a", None]}, random_state=0).fit(table)
    one_hot = OneHotEncoder(categories=encoder.categories_).fit(table)
    assert one_hot.transform(encoder.transform(table)).sum() == 40


def test_arrays_are_as_wide_as_the_declared_values():
    for rows in (np.array([["a"], ["b"]]), np.array([["long text"], ["b"]]), np.array([["a"], [None]], object)):
        encoder = RandomizedResponseEncoder(1.0, categories=[["a", "bc"]], handle_unknown="uniform", random_state=0)
        assert encoder.fit(rows).transform(rows).dtype == "U2"
    numbers = RandomizedResponseEncoder(1.0, categories=[[1, 2, None]], random_state=0)
    assert numbers.fit_transform(np.array([[1], [2]], np.int8)).dtype == np.float64


@pytest.mark.parametrize("kind", ["dictionary", "Enum", "Categorical"])
def test_engines_keep_categories(kind, tmp_path):
    table = category_tables(WARDS, SECRET)[kind]
    encoder = RandomizedResponseEncoder(1.0, categories={"x": WARDS}, random_state=0)
    lazy = table.lazy() if isinstance(table, pl.DataFrame) else table
    reports = privatize(lazy, encoder, path=tmp_path / f"{kind}.parquet")
    if isinstance(table, pl.DataFrame):
        # A Categorical would reveal the order in which the process read values.
        assert reports.collect_schema()["x"] == pl.Enum(WARDS)
        reports = reports.collect()
    assert categories_of(reports["x"]) == WARDS
    stored = pq.read_table(tmp_path / f"{kind}.parquet")
    assert categories_of(stored["x"]) == WARDS
    assert not any(word.encode() in (tmp_path / f"{kind}.parquet").read_bytes() for word in SECRET)
    assert encoder.fit(table).tally(reports) == encoder.tally(stored)
