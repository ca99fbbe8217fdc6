"""Models and statistics of tables that stay where they are: the same as in memory."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone

from skdp import (
    DPCategoricalNB,
    DPGaussianNB,
    DPGroupBy,
    DPKBinsDiscretizer,
    DPLinearRegression,
    DPLogisticRegression,
    DPMean,
    DPMinMaxScaler,
    DPQuantileBinarizer,
    DPQuantileTransformer,
    DPRidge,
    DPSelectKBest,
    DPSimpleImputer,
    DPStandardScaler,
    DPTargetEncoder,
    Interval,
    PrivacyLedger,
)
from skdp.privacy import Mu
from tests.conftest import each

rng = np.random.default_rng(0)
X = pd.DataFrame(rng.normal(size=(1_200, 3)).clip(-3, 3), columns=["a", "b", "c"])
NUMBER = pd.Series(X.to_numpy() @ [1.0, -2.0, 0.0] + rng.normal(size=1_200), name="y")
CLASS = pd.Series((NUMBER > 0).map({True: "ill", False: "fine"}), name="y")
REGRESSION = {"bounds": (-3, 3), "target_bounds": (-9, 9), "random_state": 0}
CLASSES = {"classes": ["ill", "fine"], "random_state": 0}
MODELS = {
    "linear": (DPLinearRegression(2.0, **REGRESSION), NUMBER),
    "ridge": (DPRidge(2.0, delta=1e-6, **REGRESSION), NUMBER),
    "private bounds": (DPRidge(40.0, **REGRESSION | {"bounds": "private", "target_bounds": "private"}), NUMBER),
    "Gaussian": (DPGaussianNB(2.0, bounds=(-3, 3), **CLASSES), CLASS),
    "categorical": (DPCategoricalNB(2.0, categories=Interval(-3, 3, bins=4), **CLASSES), CLASS),
    "target encoder": (
        DPTargetEncoder(20.0, categories=Interval(-3, 3, bins=4), bounds="private", random_state=0),
        NUMBER,
    ),
    "selector": (DPSelectKBest(2, epsilon=2.0, bounds=(-3, 3), **CLASSES), CLASS),
    "selector, private bounds": (
        DPSelectKBest(
            1, epsilon=40.0, delta=1e-6, **REGRESSION | {"bounds": {"a": (-3, 3), "b": "private", "c": (0, 1)}}
        ),
        NUMBER,
    ),
    "logistic": (DPLogisticRegression(2.0, bounds=(-3, 3), max_iter=1, **CLASSES), CLASS),
    "scaled steps": (
        DPLogisticRegression(
            Mu(9.0, delta=1e-6), max_iter=2, bounds={"a": (-3, 3), "b": (-3, 3), "c": "private"}, **CLASSES
        ),
        CLASS,
    ),
}


N = 3_000
LIMITS = {"age": (0, 100), "income": (-1.5, 8.25)}
STATISTICS = {
    "mean": DPMean(bounds=LIMITS, random_state=0),
    "mean, private bounds": DPMean(50.0, bounds="private", random_state=0),
    "standard": DPStandardScaler(bounds=LIMITS, missing="ignore", random_state=0),
    "ends": DPMinMaxScaler(bounds=LIMITS, random_state=0),
    "quantile ends": DPMinMaxScaler(bounds=LIMITS, quantile_range=(0.05, 0.95), random_state=0),
    "bins": DPKBinsDiscretizer(bounds=LIMITS, n_bins=4, random_state=0),
    "even bins": DPKBinsDiscretizer(bounds=LIMITS, n_bins=4, strategy="uniform", random_state=0),
    "threshold": DPQuantileBinarizer(bounds=LIMITS, candidates=50, random_state=0),
    "quantiles": DPQuantileTransformer(bounds=LIMITS, candidates=50, n_quantiles=9, random_state=0),
    "imputed means": DPSimpleImputer(bounds=LIMITS, random_state=0),
    "imputed medians": DPSimpleImputer(bounds=LIMITS, strategy="median", random_state=0),
}


def make_rows(missing):
    rng = np.random.default_rng(0)
    age, income = rng.integers(0, 120, N), rng.normal(2, 3, N)
    mask = rng.random(N) < 0.1 if missing else None
    return pa.table({"age": pa.array(age), "income": pa.array(income, mask=mask)})


def released(model):
    return {name: str(value) for name, value in vars(model).items() if name.endswith("_") and name != "guarantee_"}


@pytest.mark.parametrize("case", MODELS)
def test_a_seeded_model_is_the_one_in_memory(lazy_engine, case):
    model, y = MODELS[case]
    rows = pa.Table.from_pandas(X.assign(y=y))
    expected = released(model.fit(X, y))
    model.fit(lazy_engine.frame(rows), "y")
    assert released(model) == expected
    assert model.guarantee_.scope == ("a", "b", "c", "y")


def test_target_and_persons_are_columns_of_the_table(lazy_engine):
    model = DPLinearRegression(1e6, bounds=(-3, 3), target_bounds=(-9, 9), random_state=0)
    rows = pa.Table.from_pandas(X.assign(y=NUMBER, who=np.repeat(np.arange(400), 3)))
    model.fit(lazy_engine.frame(rows.select(["y", "c", "who", "a"])), "y", groups="who")
    assert model.feature_names_in_.tolist() == ["c", "a"]
    assert model.guarantee_.scope == ("c", "a", "y")
    assert np.allclose(model.coef_, [0, 1], atol=0.5)


@pytest.mark.parametrize("name", STATISTICS)
def test_a_seeded_statistic_is_the_one_in_memory(lazy_engine, name):
    rows, statistic = make_rows(missing=True), STATISTICS[name]
    expected = released(statistic.fit(rows))
    statistic.fit(lazy_engine.frame(rows))
    assert released(statistic) == expected


@pytest.mark.parametrize("missing", ["ignore", pytest.param("error", marks=pytest.mark.long)])
def test_groups(lazy_engine, missing):
    rows = make_rows(missing == "ignore")
    names = rows.column_names
    keys = {"side": ["left", "right"], "color": ["red", None, "blue"]}
    rows = rows.append_column("side", pa.array(["left", "right", "left"] * N)[:N])
    rows = rows.append_column("color", pa.array(["red", None] * N)[:N])
    params = {"keys": keys, "bounds": LIMITS, "missing": missing, "statistics": ["count", "mean", "sum"]}
    found, expected = (
        DPGroupBy(["side", "color"], 1.0, random_state=0, **params).fit(table)
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
        DPStandardScaler(bounds=LIMITS, missing="error", ledger=ledger).fit(lazy_engine.frame(make_rows(True)))
    with pytest.raises(TypeError, match="column 'age'"):
        DPMean(bounds=(0, 1), ledger=ledger).fit(lazy_engine.frame(pa.table({"age": ["old", "young"]})))
    assert ledger.spent.epsilon == 0


@each(
    "model frame y error message",
    [
        ("linear", X.assign(y=NUMBER), None, ValueError, "requires y"),
        ("linear", X.assign(y=NUMBER), NUMBER, TypeError, "y must be the name of a column of X, as X is a large table"),
        ("linear", X.assign(y=NUMBER), "z", ValueError, "y must be the name of a column of X, got 'z'"),
        ("linear", X[["a"]], "a", ValueError, "X has no column beside 'a', which is y"),
        ("linear", X.assign(y=NUMBER.mask(NUMBER > 3)), "y", ValueError, "column 'y' holds a missing value"),
        ("logistic", X.assign(y=CLASS.mask(NUMBER > 3)), "y", ValueError, "y holds a missing value, or one that"),
        ("logistic", X.assign(y=CLASS, b=X["b"].mask(NUMBER > 3)), "y", ValueError, "column 'b' holds a missing value"),
    ],
)
def test_targets_that_do_not_fit_cost_nothing(model, frame, y, error, message):
    ledger = PrivacyLedger(epsilon=10, delta=1e-3)
    with pytest.raises(error, match=message):
        clone(MODELS[model][0]).set_params(ledger=ledger).fit(pl.from_pandas(frame).lazy(), y)
    assert ledger.spent == (0, 0)


def test_classes_are_declared():
    frame = pl.from_pandas(X.assign(y=CLASS))
    with pytest.raises(ValueError, match=r"the categories of 'y' must be declared: .* set classes="):
        DPLogisticRegression(bounds=(-3, 3)).fit(frame.lazy(), "y")
    by_dtype = frame.with_columns(pl.col("y").cast(pl.Enum(["ill", "fine"])))
    model = DPLogisticRegression(bounds=(-3, 3), max_iter=3, random_state=0).fit(by_dtype.lazy(), "y")
    assert model.classes_.tolist() == ["fine", "ill"]
