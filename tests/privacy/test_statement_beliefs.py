"""Trusted classes of a statement: exact classes, and the use of table, target and weights by each; attacks on it."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer, make_column_selector, make_column_transformer
from sklearn.decomposition import PCA
from sklearn.ensemble import StackingClassifier
from sklearn.feature_selection import SelectFromModel
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline, make_union
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler, TargetEncoder

import skdp
from skdp.oracles import ORACLES, RandomizedResponse

PEOPLE = pd.DataFrame({"sex": ["F", "M"] * 10, "age": np.arange(20.0), "hours": np.arange(20.0) + 1})
NUMBERS, ILL = PEOPLE[["age", "hours"]], np.array([0, 1] * 10)


def sex(**options):
    return skdp.RandomizedResponseEncoder(1.0, categories={"sex": ["F", "M"]}, **options)


def perturber():
    return skdp.NumericPerturber(1.0, bounds=(0, 20))


def list_protected(statement):
    """Return the columns without an unprotected release."""
    exposed = statement.rows["protection"].str.contains("unprotected|no guarantee")
    return sorted(set(statement.rows["column"]) - set(statement.rows["column"][exposed]))


class Truth(RandomizedResponse):
    """An oracle of another package, which reports the true value."""

    def report(self, codes, source):
        return codes


def test_outside_oracles_are_not_trusted(monkeypatch):
    monkeypatch.setitem(ORACLES, "truth", Truth)
    people = PEOPLE[["sex"]]
    encoder = skdp.FrequencyOracleEncoder(1.0, oracle="truth", categories={"sex": ["F", "M"]}).fit(people)
    for estimator in (encoder, make_pipeline(encoder), skdp.OnFitOnly(clone(encoder)).fit(people)):
        statement = skdp.privacy_statement(estimator, people)
        assert statement.total is None
        assert list_protected(statement) == []
    assert skdp.privacy_statement(encoder, trusted=[skdp.FrequencyOracleEncoder]).total.epsilon == 1


class Duck(TransformerMixin, BaseEstimator):
    """Has the attributes of another class, and stores the table."""

    def __init__(self, **attributes):
        self.__dict__ |= attributes

    def fit(self, X, y=None):
        self.X_ = self.feature_names_in_ = np.array(X.columns, object)
        return self

    def transform(self, X):
        return X

    def predict(self, X):
        return self.X_


LOOKS = {
    "steps": lambda: {"steps": [("private", perturber().fit(NUMBERS))]},
    "transformer_list": lambda: {"transformer_list": [("private", perturber().fit(NUMBERS))]},
    "estimators_": lambda: {"estimators_": [perturber().fit(NUMBERS)]},
    "guarantee_": lambda: {"guarantee_": skdp.PrivacyGuarantee(1, scope=("age", "hours")), "protects_rows": True},
    "func": lambda: {"func": None},
}


@pytest.mark.parametrize("attributes", LOOKS.values())
def test_attributes_are_not_trusted(attributes):
    duck = Duck(**attributes()).fit(NUMBERS)
    for estimator in (duck, Pipeline([("duck", duck)]), FrozenEstimator(duck)):
        statement = skdp.privacy_statement(estimator, NUMBERS)
        assert list_protected(statement) == []
        assert statement.total is None


def test_trusted_covers_exact_classes_only():
    duck = Duck(**LOOKS["guarantee_"]()).fit(NUMBERS)
    statement = skdp.privacy_statement(duck, trusted=[Duck])
    assert list_protected(statement) == ["age", "hours"]
    assert statement.total.epsilon == 1
    heir = type("Heir", (Duck,), {})(**LOOKS["guarantee_"]()).fit(NUMBERS)
    assert skdp.privacy_statement(heir, trusted=[Duck]).total is None
    scaler = StandardScaler().fit(NUMBERS)  # a guarantee that was set on a known class
    scaler.guarantee_ = skdp.PrivacyGuarantee(1, scope=("age", "hours"))
    assert skdp.privacy_statement(scaler).total is None
    with pytest.raises(TypeError, match="`trusted` must be a sequence of classes"):
        skdp.privacy_statement(duck, trusted=[duck])


class LeakingEncoder(skdp.RandomizedResponseEncoder):
    def transform(self, X, person=None):
        return X

    def fit_transform(self, X, y=None, person=None):
        return self.fit(X).transform(X)


class LeakingSynthesizer(skdp.DPMarginalSynthesizer):
    def sample(self, *args, **kwargs):
        return PEOPLE[["sex"]]


WRAPPED = {
    "on fit only": lambda: skdp.OnFitOnly(LeakingEncoder(1.0, categories=[["F", "M"]])),
    "posterior": lambda: skdp.PosteriorFeatures(LeakingEncoder(1.0, categories=[["F", "M"]])),
    "resampler": lambda: skdp.SyntheticResampler(LeakingSynthesizer(1.0, domain=skdp.Domain({"sex": ["F", "M"]}))),
}


@pytest.mark.parametrize("make", WRAPPED.values())
def test_wrappers_of_outside_estimators_are_not_trusted(make):
    wrapper = make()
    if hasattr(wrapper, "fit_resample"):
        wrapper.fit_resample(PEOPLE[["sex"]])
    else:
        wrapper.fit_transform(PEOPLE[["sex"]], ILL)
    for estimator in (wrapper, Pipeline([("private", wrapper)])):
        statement = skdp.privacy_statement(estimator)
        assert list_protected(statement) == []
        assert statement.total is None


def learns_nothing(encoder, table):
    model = make_pipeline(encoder, skdp.DPRidge(1.0, bounds=(0, 1), target_bounds=(0, 1)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # few rows
        model.fit(table, ILL)
    return bool(set(list_protected(skdp.privacy_statement(model))) - {"target"})


def test_encoder_with_a_declared_domain_learns_nothing():
    declared, table = [["F", "M"]], PEOPLE[["sex"]]
    dense = {"sparse_output": False}
    assert learns_nothing(OneHotEncoder(categories=declared, **dense), table)
    assert learns_nothing(OrdinalEncoder(categories=declared), table)
    assert not learns_nothing(OneHotEncoder(**dense), table)
    assert not learns_nothing(OneHotEncoder(categories=declared, max_categories=2, **dense), table)
    assert not learns_nothing(OneHotEncoder(categories=declared, min_frequency=1, **dense), table)


def test_function_that_selects_columns_reads_them():
    def chosen(table):
        return ["age"] if table["hours"].iloc[0] > 10 else ["hours"]

    for selector, known in [(chosen, False), (make_column_selector("age"), True), (["age"], True)]:
        columns = ColumnTransformer([("private", perturber(), selector)])
        planned = skdp.privacy_statement(columns, NUMBERS)
        assert (planned.total is not None) == known
        assert ("no guarantee yet" in str(planned)) == (not known)
        statement = skdp.privacy_statement(columns.fit(NUMBERS))
        assert statement.unprotected_columns == ([] if known else ["age", "hours"])
        assert (statement.total is not None) == known
    # After a step that privatizes the columns, it reads reports.
    passed = ColumnTransformer([("rows", "passthrough", chosen)])
    later = make_pipeline(perturber().set_output(transform="pandas"), passed)
    assert set(list_protected(skdp.privacy_statement(later.fit(NUMBERS)))) == {"age", "hours"}


ROWS = pd.DataFrame({"a": ["x", "y"] * 10, "b": ["y", "x", "x", "y"] * 5})
LABELS = np.array([0, 1, 1, 0] * 5)


def make_encoder(*names):
    return skdp.RandomizedResponseEncoder(1.0, categories={name: ["x", "y"] for name in names})


TARGETS = TargetEncoder(target_type="binary", cv=2)


def search(*steps, **options):
    return GridSearchCV(make_pipeline(*steps, KMeans(2)), {"kmeans__n_init": [1]}, cv=2, **options)


SEARCHES = {
    "columns": search(make_column_transformer((TARGETS, ["a", "b"]))),
    "union": search(make_union(TARGETS)),
    "scores": search(OneHotEncoder(), scoring="rand_score"),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_search_that_learns_the_target_excludes_it_from_the_total(name):
    reports = make_encoder("a", "b").set_output(transform="pandas")
    searched = make_pipeline(reports, SEARCHES[name]).fit(ROWS, LABELS)
    classifier = skdp.DPCategoricalNB(1.0, categories={"a": ["x", "y"], "b": ["x", "y"]}, classes=[0, 1])
    statement = skdp.privacy_statement([classifier.fit(ROWS, pd.Series(LABELS, name="y")), searched], ROWS)
    assert statement.total is None or "y" not in statement.total.scope


EARLIER = {
    "frozen": lambda X: FrozenEstimator(PCA(1).fit(X)),
    "selector": lambda X: SelectFromModel(LogisticRegression().fit(X, LABELS), prefit=True),
    "stack": lambda X: StackingClassifier([("model", LogisticRegression().fit(X, LABELS))], cv="prefit"),
}


@pytest.mark.parametrize("name", EARLIER)
@pytest.mark.parametrize("fitted", [False, True])
def test_previously_fitted_step_may_contain_true_rows(fitted, name):
    numbers = OneHotEncoder(sparse_output=False)
    earlier = EARLIER[name](numbers.fit_transform(ROWS))
    pipeline = make_pipeline(make_encoder("a", "b").set_output(transform="pandas"), numbers, earlier)
    statement = skdp.privacy_statement(pipeline.fit(ROWS, LABELS) if fitted else pipeline, ROWS)
    assert statement.total is None
