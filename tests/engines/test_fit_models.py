"""Models and statistics of lazy tables: equal to fits in memory."""

import pickle
import re
from pathlib import Path

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from sklearn.base import clone

from skdp import (
    DPPCA,
    Domain,
    DPAdditiveRegressor,
    DPColumnSynthesizer,
    DPGaussianNB,
    DPLinearRegression,
    DPLinkedSynthesizer,
    DPMarginalSynthesizer,
    DPMean,
    DPOneHotEncoder,
    DPSimpleImputer,
    Interval,
    discover_domain,
)
from skdp.readers import open_large
from tests.central.estimators import EVERY, WITH_GAPS, fit_estimator, make_estimator, read_attributes, whole
from tests.errors import refusal
from tests.synthesis.bounds import bounds_only

rng = np.random.default_rng(0)
X = pd.DataFrame(rng.normal(size=(1_200, 3)).clip(-3, 3), columns=["a", "b", "c"])
NUMBER = pd.Series(X.to_numpy() @ [1.0, -2.0, 0.0] + rng.normal(size=1_200), name="y")
CLASS = pd.Series((NUMBER > 0).map({True: "ill", False: "fine"}), name="y")
MODEL = DPGaussianNB(2.0, bounds=(-3, 3), classes=["ill", "fine"])
CASES = {name: {} for name in EVERY}
CASES |= {
    "DPMinMaxScaler, quantile ends": {"bounds": (0, 1), "quantile_range": (5, 95)},
    "DPSimpleImputer, medians": {"strategy": "median", "bounds": (0.0, 1.0)},
}


def large_table(name):
    """Make rows of several batches, with numbers of many digits and, if allowed, missing values."""
    rng = np.random.default_rng(0)
    table = pd.concat([whole(name)] * 40, ignore_index=True)
    for column in table.select_dtypes(float):
        table[column] = rng.random(len(table))
        if name in WITH_GAPS:
            table.loc[rng.random(len(table)) < 0.1, column] = np.nan
    return table


@pytest.mark.filterwarnings("ignore:The noise:UserWarning")
@pytest.mark.parametrize("case", list(CASES))
def test_seeded_fit_equals_the_fit_in_memory(any_engine, case):
    name = case.partition(",")[0]
    table = large_table(name)
    model = fit_estimator(make_estimator(name, **CASES[case]), table)
    expected = read_attributes(model)
    model.fit(any_engine.frame(pa.Table.from_pandas(table)), "y" if "y" in table else None)
    assert read_attributes(model) == expected


DOMAIN = Domain({"sex": ["f", "m"], "ward": ["er", "gp", "icu"], "stay": Interval(0, 30, bins=5)})
VISITS = pd.DataFrame(
    {
        "who": np.repeat(np.arange(500), 2),
        "sex": np.repeat(rng.choice(["f", "m"], 500), 2),
        "ward": rng.choice(["er", "gp", "icu"], 1_000, p=[0.5, 0.3, 0.2]),
        "stay": rng.integers(0, 31, 1_000),
    }
)
ROWS = VISITS.drop(columns="who")
WORDS = ROWS.drop(columns="stay")


def fit_linked(X):
    model = DPLinkedSynthesizer(
        5.0, domain=DOMAIN, person="who", person_columns=["sex"], max_rows_per_person=2, random_state=0
    )
    return model.fit(X).sample(40)


FITS = {
    "discover_domain": (lambda X: discover_domain(X, 2.0, 1e-6, random_state=0).to_toml(), ROWS),
    "DPMarginalSynthesizer": (
        lambda X: DPMarginalSynthesizer(5.0, domain=DOMAIN, random_state=0).fit(X).sample(40),
        ROWS,
    ),
    "DPColumnSynthesizer": (
        lambda X: DPColumnSynthesizer(["ward"], 5.0, domain=DOMAIN, random_state=0).fit(X).transform(ROWS[:40]),
        ROWS,
    ),
    "DPLinkedSynthesizer": (fit_linked, VISITS),
    "DPOneHotEncoder": (
        lambda X: DPOneHotEncoder(categories=DOMAIN.select(["sex", "ward"])).fit(X).transform(WORDS[:40]),
        WORDS,
    ),
}


@pytest.mark.parametrize("name", FITS)
def test_seeded_synthesis_and_discovery_equal_those_in_memory(any_engine, name):
    fit, table = FITS[name]
    found, expected = fit(any_engine.frame(pa.Table.from_pandas(table))), fit(table)
    found, expected = (pickle.dumps(table_to_lists(result)) for result in (found, expected))
    assert found == expected


def table_to_lists(result):
    """Return the text of a result, or the values of its tables in any library."""
    if isinstance(result, str):
        return result
    tables = result if isinstance(result, tuple) else (result,)
    return [nw.from_native(table).to_arrow().to_pylist() for table in tables]


def find_read(fit, table):
    """Return the part of a lazy frame that a fit reads: "rows", "values" or "sums"."""
    with pytest.MonkeyPatch.context() as patch:
        called = []
        engine = type(open_large(pl.LazyFrame({"x": [1]})))
        reads = {
            "load": "rows",
            "_collect": "rows",
            "read_small": "rows",
            "count_values": "values",
            "add_up": "sums",
        }
        for method, read in reads.items():
            original = getattr(engine, method)
            patch.setattr(engine, method, lambda *a, read=read, original=original: called.append(read) or original(*a))
        fit(pl.from_pandas(table).lazy())
    return next((read for read in ("rows", "values", "sums") if read in called), "nothing")


@pytest.mark.filterwarnings("ignore:The noise:UserWarning")
@pytest.mark.filterwarnings("ignore:.* fewer bins than:UserWarning")  # of few rows
def test_page_lists_what_each_estimator_reads():
    found = {"sums": [], "values": [], "rows": [], "nothing": []}
    for name in EVERY:
        table = whole(name)
        read = find_read(lambda X, name=name, y="y" if "y" in table else None: make_estimator(name).fit(X, y), table)
        found[read].append(name)
    for name, (fit, table) in FITS.items():
        found[find_read(fit, table)].append(name)
    page = (Path(__file__).parents[2] / "docs/guide/engines.md").read_text(encoding="utf-8")
    listed = {read: [] for read in found}
    for read, line in re.findall(r"^\| (sums|values|rows|nothing): (.*)$", page, re.MULTILINE):
        listed[read] += re.findall(r"`(\w+)`", line)
    assert {read: sorted(names) for read, names in listed.items()} == {read: sorted(found[read]) for read in found}


def cut(table, rows):
    """Open an Arrow table as a dataset of small batches."""
    return ds.dataset(pa.Table.from_batches(table.to_batches(max_chunksize=rows)))


def test_discovery_adds_up_the_counts_of_batches():
    table = pa.Table.from_pandas(pd.concat([ROWS, ROWS.assign(ward=None)], ignore_index=True))
    found, expected = (discover_domain(X, 2.0, 1e-6, random_state=0) for X in (cut(table, 20), table.to_pandas()))
    assert found.to_toml() == expected.to_toml()
    assert expected["ward"].values == ("er", "gp", "icu", None)


@pytest.mark.filterwarnings("ignore:The noise:UserWarning")
@pytest.mark.parametrize("kind", ["polars", "dataset"])
def test_models_read_the_values_that_a_dtype_declares(kind):
    stay = [None if days == 30 else days for days in ROWS["stay"].tolist()]
    columns = {"ward": ROWS["ward"].tolist(), "stay": stay, "y": X["a"].clip(-1, 1)[:1_000].tolist()}
    table = pl.DataFrame(columns, schema_overrides={"ward": pl.Enum(["er", "gp", "icu", "or"])})
    if not table.to_arrow().schema.field("ward").type.ordered:
        pytest.skip("before version 2, Polars writes the values of an Enum without their order")
    model = DPAdditiveRegressor(5.0, bounds={"stay": (0, 30)}, target_bounds=(-1, 1), random_state=0)
    expected = model.fit(table.drop("y"), table["y"]).shapes_
    found = model.fit(table.lazy() if kind == "polars" else cut(table.to_arrow(), 300), "y").shapes_
    assert all(map(np.array_equal, found, expected)), (found, expected)


def test_index_of_a_file_of_pandas_is_a_column(tmp_path):
    frame = pd.DataFrame({"age": np.arange(1_000) % 97 / 97, "x": np.arange(1_000) % 2 / 2, "y": 0.3})
    frame.set_index("age").to_parquet(tmp_path / "index.parquet")
    model = DPLinearRegression(
        5.0, bounds={"age": (0.0, 1.0), "x": (0.0, 1.0)}, target_bounds=(0.0, 1.0), random_state=0
    )
    expected = clone(model).fit(frame[["x", "age"]], frame["y"])
    table = ds.dataset(tmp_path / "index.parquet")
    np.testing.assert_array_equal(model.fit(table, "y").coef_, expected.coef_)


def test_missing_value_in_a_later_batch_raises_before_charge():
    table = pa.Table.from_pandas(X.assign(b=X["b"].where(X.index < 1_100)))
    with refusal(ValueError, "Column 'b' contains a missing value") as ledger:
        DPPCA(1.0, bounds=(-3, 3), ledger=ledger).fit(cut(table, 300))


@pytest.mark.parametrize("lazy_engine", ["polars_lazy", "duckdb"], indirect=True)
def test_target_and_groups_are_columns_of_the_table(lazy_engine):
    model = DPGaussianNB(1e6, bounds=(-3, 3), classes=["ill", "fine"], random_state=0)
    rows = pa.Table.from_pandas(X.assign(y=CLASS, who=np.repeat(np.arange(400), 3)))
    model.fit(lazy_engine.frame(rows.select(["y", "c", "who", "a"])), "y", person="who")
    assert model.feature_names_in_.tolist() == ["c", "a"]
    assert model.guarantee_.scope == ("c", "a", "y")


def test_most_frequent_value_is_imputed(lazy_engine):
    rows = pa.table({"color": ["red", None, "green", "red"] * 50, "size": ["s", "s", "m", None] * 50})
    params = {"categories": {"color": ["red", "green", "blue"], "size": ["s", "m"]}, "random_state": 0}
    imputer = DPSimpleImputer(5.0, strategy="most_frequent", **params).fit(lazy_engine.frame(rows))
    assert imputer.statistics_.tolist() == ["red", "s"]


def test_text_among_numbers_raises_before_charge(lazy_engine):
    # Workers of Spark return the text of an error, without its type.
    with refusal((TypeError, ValueError), "Column 'age'") as ledger:
        DPMean(bounds=(0, 1), ledger=ledger).fit(lazy_engine.frame(pa.table({"age": ["old", "young"]})))


@pytest.mark.parametrize(
    ("frame", "y", "error", "message"),
    [
        (X.assign(y=CLASS), None, ValueError, "requires y"),
        (X.assign(y=CLASS), NUMBER, TypeError, "`y` must be the name of a column of X for a large table"),
        (X.assign(y=CLASS), "z", ValueError, "`y` must be the name of a column of X, .*, got 'z'"),
        (X[["a"]], "a", ValueError, "X must have further columns besides `y`='a'"),
        (X.assign(y=CLASS.mask(NUMBER > 3)), "y", ValueError, "y must not have missing values"),
        (X.assign(y=CLASS, b=X["b"].mask(NUMBER > 3)), "y", ValueError, "Column 'b' must not have missing"),
    ],
)
def test_invalid_targets_raise_before_charge(frame, y, error, message):
    with refusal(error, message) as ledger:
        clone(MODEL).set_params(ledger=ledger).fit(pl.from_pandas(frame).lazy(), y)


def test_classes_must_be_declared_without_a_delta():
    frame = pl.from_pandas(X.assign(y=CLASS))
    with pytest.raises(ValueError, match="`classes` must declare the classes of the target 'y'"):
        DPGaussianNB(bounds=(-3, 3)).fit(frame.lazy(), "y")


@pytest.mark.parametrize(
    ("bins", "max_bytes", "n_reads"), [("declared", 200_000, 1), ("found", 200_000, 1), ("found", 50_000, 3)]
)
def test_synthesizer_reads_a_small_table_once(bins, max_bytes, n_reads, monkeypatch):
    monkeypatch.setattr("skdp.synthesis.private._table.MAX_LOADED_BYTES", max_bytes)
    rng = np.random.default_rng(0)
    columns = {name: rng.choice(["x", "y", "z"], 3_000) for name in "abc"}
    table = pa.table(columns | {"age": rng.integers(0, 90, 3_000), "pay": rng.random(3_000)})
    domain = Domain(
        {key: ["x", "y", "z"] for key in "abc"} | {"age": Interval(0, 90, bins=10), "pay": Interval(0.0, 1.0, bins=10)}
    )
    reads = []
    counted = pl.from_arrow(table).lazy().map_batches(lambda rows: reads.append(len(rows)) or rows)
    options = {"delta": 1e-6, "domain": bounds_only(domain, bins), "random_state": 0}
    lazy = DPMarginalSynthesizer(9.0, **options).fit(counted)
    assert max(len(marginal.clique) for marginal in lazy.marginals_) > 2 or bins == "found"
    # A larger table is read until it is too large. Then pairs with fine cells are counted, and combinations of all
    # columns, from which interactions are scored and counted.
    assert reads == [3_000] * n_reads
    in_memory = DPMarginalSynthesizer(9.0, **options).fit(pl.from_arrow(table))
    assert lazy.sample(50).equals(in_memory.sample(50))


@pytest.mark.parametrize("n_values", [3, 9], ids=["few combinations", "many combinations"])
def test_size_of_a_large_table_does_not_change_what_is_measured(n_values, monkeypatch):
    """The number of rows is private: a table that is read into memory is searched like a larger one."""
    rng = np.random.default_rng(0)
    columns = {name: rng.integers(0, 2, 1_500) for name in "ab"}
    columns |= {"c": columns["a"] ^ columns["b"]}
    columns |= {f"d{index}": rng.integers(0, n_values, 1_500) for index in range(7)}
    domain = {name: [*range(values.max() + 1)] for name, values in columns.items()}
    fits = []
    for max_bytes in (0, 1 << 27):
        monkeypatch.setattr("skdp.synthesis.private._table.MAX_LOADED_BYTES", max_bytes)
        model = DPMarginalSynthesizer(9.0, delta=1e-6, domain=domain, random_state=0)
        fits.append(model.fit(pl.DataFrame(columns).lazy()))
    large, loaded = fits
    searched = loaded.pair_scores_.attrs["n_searched"]
    assert searched == large.pair_scores_.attrs["n_searched"]
    assert (searched[3] > 0) == (n_values == 3)
    assert loaded.sample(50).equals(large.sample(50))
