"""Models and statistics of tables that stay where they are: the same as in memory."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone

from skdp import (
    DPGaussianNB,
    DPGroupBy,
    DPMean,
    DPSimpleImputer,
    PrivacyLedger,
)
from tests.central.estimators import EVERY, WITH_GAPS, fitted, made, released, whole
from tests.conftest import each

rng = np.random.default_rng(0)
X = pd.DataFrame(rng.normal(size=(1_200, 3)).clip(-3, 3), columns=["a", "b", "c"])
NUMBER = pd.Series(X.to_numpy() @ [1.0, -2.0, 0.0] + rng.normal(size=1_200), name="y")
CLASS = pd.Series((NUMBER > 0).map({True: "ill", False: "fine"}), name="y")
MODEL = DPGaussianNB(2.0, bounds=(-3, 3), classes=["ill", "fine"])
CASES = {name: {} for name in EVERY if not EVERY[name][0]._requires_rows}
CASES |= {
    "DPMinMaxScaler, quantile ends": {"bounds": (0, 1), "quantile_range": (5, 95)},
    "DPSimpleImputer, medians": {"strategy": "median"},
}
N = 3_000
LIMITS = {"age": (0, 100), "income": (-1.5, 8.25)}


def make_rows(missing):
    rng = np.random.default_rng(0)
    age, income = rng.integers(0, 120, N), rng.normal(2, 3, N)
    mask = rng.random(N) < 0.1 if missing else None
    return pa.table({"age": pa.array(age), "income": pa.array(income, mask=mask)})


def large_table(name):
    """Make rows of several batches, with numbers of many digits and, where they are taken, gaps."""
    rng = np.random.default_rng(0)
    table = pd.concat([whole(name)] * 40, ignore_index=True)
    for column in table.select_dtypes(float):
        table[column] = rng.random(len(table))
        if name in WITH_GAPS:
            table.loc[rng.random(len(table)) < 0.1, column] = np.nan
    return table


@pytest.mark.filterwarnings("ignore:the noise:UserWarning")
@pytest.mark.parametrize("case", list(CASES))
def test_a_seeded_fit_is_the_one_in_memory(lazy_engine, case):
    name = case.partition(",")[0]
    table = large_table(name)
    model = fitted(made(name, **CASES[case]), table)
    expected = released(model)
    model.fit(lazy_engine.frame(pa.Table.from_pandas(table)), "y" if "y" in table else None)
    assert released(model) == expected


@each("name", [name for name in EVERY if EVERY[name][0]._requires_rows])
def test_models_that_read_rows_several_times_refuse(lazy_engine, name):
    ledger = PrivacyLedger(epsilon=10, delta=1e-3)
    table = pa.Table.from_pandas(large_table(name))
    with pytest.raises(TypeError, match="requires a table in memory, got"):
        made(name, ledger=ledger).fit(lazy_engine.frame(table), "y" if "y" in table.column_names else None)
    assert ledger.spent == (0, 0)


def test_target_and_persons_are_columns_of_the_table(lazy_engine):
    model = DPGaussianNB(1e6, bounds=(-3, 3), classes=["ill", "fine"], random_state=0)
    rows = pa.Table.from_pandas(X.assign(y=CLASS, who=np.repeat(np.arange(400), 3)))
    model.fit(lazy_engine.frame(rows.select(["y", "c", "who", "a"])), "y", groups="who")
    assert model.feature_names_in_.tolist() == ["c", "a"]
    assert model.guarantee_.scope == ("c", "a", "y")


def test_groups(lazy_engine):
    rows = make_rows(True)
    names = rows.column_names
    keys = {"side": ["left", "right"], "color": ["red", None, "blue"]}
    rows = rows.append_column("side", pa.array(["left", "right", "left"] * N)[:N])
    rows = rows.append_column("color", pa.array(["red", None] * N)[:N])
    params = {"keys": keys, "bounds": LIMITS, "statistics": ["count", "mean", "sum"]}
    found, expected = (
        DPGroupBy(1.0, by=["side", "color"], random_state=0, **params).fit(table)
        for table in (lazy_engine.frame(rows), rows)
    )
    assert found.estimates_.keys() == expected.estimates_.keys()
    assert len(found.estimates_) == 1 + 2 * len(names)
    for name, estimate in expected.estimates_.items():
        np.testing.assert_array_equal(found.estimates_[name], estimate)


def test_the_most_frequent_value(lazy_engine):
    rows = pa.table({"color": ["red", None, "green", "red"] * 50, "size": ["s", "s", "m", None] * 50})
    params = {"categories": {"color": ["red", "green", "blue"], "size": ["s", "m"]}, "random_state": 0}
    imputer = DPSimpleImputer(5.0, strategy="most_frequent", **params).fit(lazy_engine.frame(rows))
    assert imputer.statistics_.tolist() == ["red", "s"]


def test_missing_values_are_refused_and_cost_nothing(lazy_engine):
    ledger = PrivacyLedger(epsilon=10)
    with pytest.raises(ValueError, match="column 'income' holds a missing value"):
        DPGaussianNB(bounds=LIMITS, classes=[0, 1], ledger=ledger).fit(
            lazy_engine.frame(make_rows(True).append_column("y", pa.array([0, 1] * (N // 2)))), "y"
        )
    with pytest.raises(TypeError, match="column 'age'"):
        DPMean(bounds=(0, 1), ledger=ledger).fit(lazy_engine.frame(pa.table({"age": ["old", "young"]})))
    assert ledger.spent.epsilon == 0


@each(
    "frame y error message",
    [
        (X.assign(y=CLASS), None, ValueError, "requires y"),
        (X.assign(y=CLASS), NUMBER, TypeError, "y must be the name of a column of X, as X is a large table"),
        (X.assign(y=CLASS), "z", ValueError, "y must be the name of a column of X, got 'z'"),
        (X[["a"]], "a", ValueError, "X must have a column besides y, 'a'"),
        (X.assign(y=CLASS.mask(NUMBER > 3)), "y", ValueError, "y holds a missing value, or one that"),
        (X.assign(y=CLASS, b=X["b"].mask(NUMBER > 3)), "y", ValueError, "column 'b' holds a missing value"),
    ],
)
def test_targets_that_do_not_fit_cost_nothing(frame, y, error, message):
    ledger = PrivacyLedger(epsilon=10, delta=1e-3)
    with pytest.raises(error, match=message):
        clone(MODEL).set_params(ledger=ledger).fit(pl.from_pandas(frame).lazy(), y)
    assert ledger.spent == (0, 0)


def test_classes_are_declared():
    frame = pl.from_pandas(X.assign(y=CLASS))
    with pytest.raises(ValueError, match=r"the categories of 'y' must be declared: .* set classes="):
        DPGaussianNB(bounds=(-3, 3)).fit(frame.lazy(), "y")
