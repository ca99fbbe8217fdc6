"""Statements of transformers of skrub, whose columns are followed, and of learners, which are not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import skdp
from skdp import privacy_statement

pytestmark = pytest.mark.usefixtures("repeatable_draws")

X = pd.DataFrame({"sex": ["f", "m"] * 20, "age": np.arange(40.0)})
Y = np.arange(40) % 2
ENCODER = skdp.RandomizedResponseEncoder(1.0, categories={"sex": ["f", "m"]})
SCALER = skdp.DPStandardScaler(1.0, bounds=(0, 40))


class ApplyToCols(TransformerMixin, BaseEstimator):
    """The public attributes of the transformer of skrub, which is not installed for tests."""

    __module__ = "skrub._apply_to_cols"

    def __init__(self, transformer, cols=(), *, allow_reject=False, keep_original=False):
        self.transformer = transformer
        self.cols = cols
        self.allow_reject = allow_reject
        self.keep_original = keep_original

    def fit(self, X, y=None):
        self.used_inputs_ = [name for name in X if name in self.cols]
        self.feature_names_in_ = [*X]
        self.n_features_in_ = X.shape[1]
        self.transformer_ = clone(self.transformer).fit(X[self.used_inputs_])
        return self

    def transform(self, X):
        return X.assign(**self.transformer_.transform(X[self.used_inputs_]))


class ApplyToEachCol(ApplyToCols):
    __module__ = "skrub._apply_to_each_col"

    def fit(self, X, y=None):
        super().fit(X)
        del self.transformer_
        self.transformers_ = {name: clone(self.transformer).fit(X[[name]]) for name in self.used_inputs_}
        return self


class LazyObject:
    """An object with any attribute, whose truth is an error, such as the plan of a learner."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return LazyObject()

    def __bool__(self):
        raise TypeError("evaluated later")


class SkrubLearner(BaseEstimator):
    __module__ = "skrub._data_ops._estimator"

    def __init__(self, data_op):
        self.data_op = data_op
        self._is_fitted = False

    def __getattr__(self, name):
        if name != "fit":
            raise AttributeError(name)
        return self.fit_learner

    def fit_learner(self, environment):
        self._is_fitted = True
        return self


class Filter:
    """A selector of columns by their values."""

    __module__ = "skrub.selectors._base"

    def __contains__(self, name):
        return name == "sex"


def protections(statement):
    return {fact.column: fact.protection for fact in statement.facts}


LEARNED = "unprotected: true values are learned"
RETURNED = "unprotected: true values are in the output"


@pytest.mark.parametrize("kind", [ApplyToCols, ApplyToEachCol])
@pytest.mark.parametrize("is_fitted", [True, False])
@pytest.mark.parametrize(
    ("options", "sex", "age"),
    [
        ({}, "privatized rows", RETURNED),
        ({"keep_original": True}, RETURNED, RETURNED),
        ({"allow_reject": True}, LEARNED, LEARNED),
        ({"cols": Filter()}, LEARNED, LEARNED),
    ],
)
def test_listed_columns_have_the_guarantee_of_their_transformer(kind, is_fitted, options, sex, age):
    estimator = kind(ENCODER, **{"cols": ["sex"], **options})
    if is_fitted:
        estimator.fit(X)
    elif "cols" in options or "allow_reject" in options:
        sex = age = "no guarantee yet: the step is not fitted"
    statement = privacy_statement(estimator, X)
    first = {fact.column: fact.protection for fact in reversed(statement.facts)}
    assert first == {"sex": sex, "age": age}
    # The columns of a selector are not known before fit.
    scope = ("sex",) if is_fitted or "cols" not in options else ("sex", "age")
    assert [step.guarantee.scope for step in statement.steps] == [scope]
    assert (statement.total is not None) == (sex == "privatized rows")


def test_columns_are_followed_through_a_pipeline():
    steps = make_pipeline(ApplyToCols(ENCODER, ["sex"]), ApplyToCols(SCALER, ["age"])).fit(X)
    statement = privacy_statement(steps, X)
    assert statement.unprotected_columns == ["age"]
    steps = make_pipeline(ApplyToCols(ENCODER, ["sex"]), ApplyToCols(SCALER, ["age"]), LogisticRegression())
    statement = privacy_statement(clone(steps), X)
    assert statement.unprotected_columns == []


def test_learner_is_unprotected_with_a_remedy():
    for learner in (SkrubLearner(LazyObject()), SkrubLearner(LazyObject()).fit({})):
        statement = privacy_statement(learner, X)
        expected = LEARNED if learner._is_fitted else "no guarantee yet: the step is not fitted"
        assert set(protections(statement).values()) == {expected}
        assert "ApplyToCols with listed columns, or state each fitted part" in str(statement)
        assert statement.total is None


def test_search_with_private_parts_names_a_remedy():
    search = GridSearchCV(make_pipeline(SCALER, LogisticRegression()), {"logisticregression__C": [1.0]}, cv=2)
    statement = privacy_statement(search.fit(X[["age"]], Y))
    assert statement.unprotected_columns == ["age"]
    assert "The parts of these steps are not stated" in str(statement)
    plain = privacy_statement(GridSearchCV(LogisticRegression(), {"C": [1.0]}, cv=2).fit(X[["age"]], Y))
    assert "The parts of these steps are not stated" not in str(plain)


def test_real_transformers_are_followed():
    skrub = pytest.importorskip("skrub")
    statement = privacy_statement(skrub.ApplyToCols(ENCODER, cols=["sex"]).fit(X), X)
    assert protections(statement) == {"sex": "privatized rows", "age": RETURNED}
    data = skrub.var("data", X).skb.mark_as_X().skb.apply(ENCODER, cols=["sex"])
    assert privacy_statement(data.skb.make_learner(), X).total is None
