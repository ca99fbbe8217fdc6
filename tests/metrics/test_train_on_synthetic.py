"""Scores of models that are trained on synthetic rows."""

from typing import ClassVar

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, make_scorer, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skdp.metrics import train_on_synthetic


def table(size, seed, labels=("no", "yes")):
    coins = np.random.default_rng(seed)
    age = coins.integers(20, 60, size)
    buys = np.where(age + coins.normal(0, 10, size) > 40, labels[1], labels[0])
    return {"age": age.tolist(), "sex": coins.choice(["F", "M"], size).tolist(), "buys": buys.tolist()}


TRAIN, SYNTHETIC, TEST = table(60, 0), table(50, 1), table(40, 2)
MODEL = make_pipeline(
    ColumnTransformer([("text", OneHotEncoder(handle_unknown="ignore"), ["sex"])], remainder="passthrough"),
    LogisticRegression(max_iter=1000),
)


def auc(train, test):
    X, X_test = (pd.DataFrame(data).drop(columns="buys") for data in (train, test))
    return roc_auc_score(test["buys"], MODEL.fit(X, train["buys"]).predict_proba(X_test)[:, 1])


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, lambda data: pd.DataFrame(data, dtype="category")])
def test_model_is_fitted_to_synthetic_rows_and_scored_on_real_rows(make):
    scores = train_on_synthetic(MODEL, make(SYNTHETIC), make(TEST), target="buys", real_train=make(TRAIN))
    assert scores.index.to_list() == ["synthetic", "real"]
    assert scores.index.name == "trained_on"
    assert scores["roc_auc"].to_list() == pytest.approx([auc(SYNTHETIC, TEST), auc(TRAIN, TEST)])


class Spy(ClassifierMixin, BaseEstimator):
    """Stores its arguments, also for its clones."""

    seen: ClassVar = []

    def fit(self, X, y):
        self.seen.append(("fit", X, list(y)))
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        self.seen.append(("predict", X, None))
        return np.full(len(X), self.classes_[0])


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_features_are_unchanged_in_order_and_exclude_the_target(make):
    Spy.seen.clear()
    turned = {name: TEST[name] for name in ("buys", "sex", "age")}
    estimator = Spy()
    scores = train_on_synthetic(estimator, make(SYNTHETIC), make(turned), target="buys", scoring="accuracy")
    assert not hasattr(estimator, "classes_")
    (first, X, y), (second, X_test, _) = Spy.seen
    assert (first, second) == ("fit", "predict")
    for got, data in ((X, SYNTHETIC), (X_test, TEST)):
        assert isinstance(got, type(make(data)))
        assert list(pa.table(got).to_pydict().items()) == [(name, data[name]) for name in ("age", "sex")]
    assert y == SYNTHETIC["buys"]
    assert scores.loc["synthetic", "accuracy"] == TEST["buys"].count("no") / len(TEST["buys"])


def test_scores_have_names():
    test, model = pd.DataFrame(TEST).drop(columns="sex"), LogisticRegression()

    def scores(scoring):
        return train_on_synthetic(model, test, test, target="buys", scoring=scoring)

    assert list(scores(["accuracy", "roc_auc"])) == ["accuracy", "roc_auc"]
    accuracy = scores("accuracy").iloc[0, 0]
    for scoring in (None, make_scorer(accuracy_score)):
        assert scores(scoring).to_dict() == {"score": {"synthetic": accuracy}}

    def own(estimator, X, y):
        return 7.0

    assert scores(own).loc["synthetic", "own"] == 7


@pytest.mark.parametrize(
    ("model", "labels", "label", "dtype"),
    [
        (HistGradientBoostingClassifier(), ("no", "yes"), "yes", "category"),
        (LogisticRegression(), (0, 1), 1, object),
        (LogisticRegression(), (False, True), True, bool),
    ],
)
def test_synthetic_rows_of_one_class_give_a_constant_model(model, labels, label, dtype):
    train, test = (pd.DataFrame(table(200, seed, labels)).drop(columns="sex") for seed in (1, 2))
    synthetic = train.assign(buys=label)
    synthetic["buys"] = synthetic["buys"].astype(dtype)
    with pytest.warns(UserWarning, match="All rows of `synthetic` have the same class") as caught:
        scores = train_on_synthetic(
            model, synthetic, test, target="buys", scoring=["roc_auc", "accuracy"], real_train=train
        )
    assert caught[0].filename == __file__
    assert "yes" not in str(caught[0].message)
    assert scores.loc["synthetic"].to_list() == [0.5, (test["buys"] == label).mean()]
    assert scores.loc["real", "roc_auc"] > 0.6


FRAME = pd.DataFrame({"age": [20, 30], "buys": ["no", "yes"]})


@pytest.mark.parametrize(
    ("synthetic", "test", "target", "message"),
    [
        (FRAME, FRAME, "sells", r"must have the column 'sells', got \['age', 'buys'\]"),
        (FRAME[:0], FRAME, "buys", "`synthetic` must have at least one row"),
        (FRAME.assign(buys=["no", None]), FRAME, "buys", r"synthetic\[.*\]` has missing values"),
        (FRAME.assign(buys=[0, 1]), FRAME, "buys", "values of the same type"),
        (FRAME.to_numpy(), FRAME, "buys", "must have the column 'buys'"),
        (FRAME[["buys"]], FRAME[["buys"]], "buys", "column besides the target"),
    ],
)
def test_invalid_arguments_raise_an_error(synthetic, test, target, message):
    with pytest.raises((ValueError, TypeError), match=message):
        train_on_synthetic(LogisticRegression(), synthetic, test, target=target)


@pytest.mark.parametrize("target", [FRAME["buys"], FRAME["buys"].to_numpy(), FRAME["buys"].to_list(), FRAME[["buys"]]])
def test_column_as_target_is_an_error_without_a_value(target):
    with pytest.raises(TypeError, match=r"`target` must be the name of a column, got [A-Za-z]*.$"):
        train_on_synthetic(LogisticRegression(), FRAME, FRAME, target=target)
