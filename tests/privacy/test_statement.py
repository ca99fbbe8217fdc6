"""Statements about each column of a pipeline, and about all columns together: a table of cases."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pytest
from imblearn.pipeline import make_pipeline as make_resampling_pipeline
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.feature_selection import GenericUnivariateSelect, SelectFromModel, VarianceThreshold
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, TunedThresholdClassifierCV
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import skdp
from skdp import OnFitOnly, RandomizedResponseEncoder
from skdp.privacy import Mu, PrivacyGuarantee
from tests.conftest import diagonal

# Few rows.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

SEXES, JOBS = ["F", "M"], ["clerk", "cook"]
X = pd.DataFrame({"sex": SEXES * 20, "job": JOBS * 20, "age": np.arange(40.0), "pay": np.arange(40.0)})
SEX, AGE, NUMBERS = X[["sex"]], X[["age"]], X[["age", "pay"]]
Y = np.array([0, 1] * 20)


def sex(epsilon=1.0, **options):
    return RandomizedResponseEncoder(epsilon, categories={"sex": SEXES}, **options)


def numbers():
    return skdp.NumericPerturber(1.0, bounds=(-40, 40))


def scaler():
    """Return a pipeline of private statistics and plain rows."""
    return skdp.DPStandardScaler(0.5, bounds=(0, 40))


def mean(epsilon=0.5):
    return skdp.DPMean(epsilon, bounds=(0, 40))


def logistic(**options):
    return skdp.DPLogisticRegression(1.0, bounds=(-3, 3), **options)


def at_fit(epsilon=1.0):
    return make_pipeline(OnFitOnly(sex(epsilon)), OneHotEncoder(), LogisticRegression())


def always(epsilon=1.0, **options):
    return make_pipeline(sex(epsilon, **options), OneHotEncoder(), LogisticRegression())


def by_columns(*parts, rest="drop", output="default"):
    """Return a transformer of columns; each part is an estimator and its columns."""
    named = [(f"part {index}", estimator, columns) for index, (estimator, columns) in enumerate(parts)]
    made = ColumnTransformer(named, remainder=rest, verbose_feature_names_out=False)
    return made.set_output(transform=output)


class RowsAlways(skdp.DPStandardScaler):
    """Claims that its rows are synthetic."""

    protects_rows = True


class RowsAtFit(skdp.DPStandardScaler):
    """Claims that the rows of its fit are synthetic."""

    protects_rows = "fit"


class Nameless(TransformerMixin, BaseEstimator):
    """Does not list its output columns."""

    def fit(self, X, y=None):
        self.fitted_ = True
        return self

    def transform(self, X):
        return X


class Keeper(BaseEstimator):
    """An unknown estimator, which stores the table."""

    def __init__(self, estimator=None):
        self.estimator = estimator

    def fit(self, X, y=None):
        self.estimator_ = clone(self.estimator).fit(X, y)
        self.X_ = X
        return self

    def predict(self, X):
        return self.estimator_.predict(X)


def total_of(statement):
    total = statement.total
    if total is None:
        return None
    return f"{round(total.epsilon, 9):g} {total.relation} {total.trust}: {', '.join(map(str, total.scope))}"


CODES = {
    "privatized rows": "R",
    "synthetic rows": "R",
    "private statistics of this step": "S",
    "privatized rows in fit, unprotected in transform and predict": "F",
    "unprotected: true values are learned": "A",
    "unprotected: true values are in the output": "A",
    "unprotected in transform: true values are in its output": "T",
    "unprotected: categories are inferred from the data": "C",
    "not released": "-",
    "no guarantee yet: the step is not fitted": "N",
    "no guarantee: not seen by fit": "0",
}


def marks(statement):
    """Return the statement about each column, one letter per row: {"sex": "AR", "age": "S"}."""
    letters = {}
    for column, text in zip(statement.rows["column"], statement.rows["protection"], strict=True):
        letters[column] = letters.get(column, "") + CODES[text]
    return letters


class Case(NamedTuple):
    """A fitted estimator, the statement per column in `CODES`, and the total as "epsilon relation trust: columns"."""

    make: Any
    marks: str
    total: str | None
    given: Any = None


def of_columns():
    sex_of = by_columns((sex(), ["sex"]), (StandardScaler(), ["age"]))
    twice = by_columns((sex(), ["sex"]), ("passthrough", ["job", "sex"]))
    beside = by_columns((sex(), ["sex"]), (scaler(), ["age"]), ("passthrough", ["pay"]))
    jobs = by_columns(
        (RandomizedResponseEncoder(categories={"job": JOBS}), ["job"]), rest="passthrough", output="pandas"
    )
    then = by_columns((sex(), ["sex"]), ("passthrough", ["job"]))
    late = make_pipeline(by_columns((StandardScaler(), ["age"]), ("passthrough", ["sex"])))
    late.steps.append(("private", RandomizedResponseEncoder(categories=[[0.0, 1.0], SEXES], handle_unknown="uniform")))
    one = "1 replace local: sex"
    return {
        "columns that are forgotten": Case(lambda: sex_of.fit(X), "sex:R job:- age:A pay:-", one),
        "ten answers about the same persons": Case(
            lambda: FeatureUnion([(f"answer {index}", sex()) for index in range(10)]).fit(SEX),
            "sex:RRRRRRRRRR",
            "10 replace local: sex",
        ),
        "a column that also passes": Case(lambda: twice.fit(X), "sex:AR job:A age:- pay:-", None),
        "what is learnt before it is private": Case(
            lambda: make_pipeline(MinMaxScaler(), skdp.NumericPerturber(1.0, bounds=(0, 1))).fit(AGE), "age:AR", None
        ),
        "columns that cannot be followed": Case(
            lambda: make_pipeline(clone(jobs), Nameless(), clone(then)).fit(X),
            "sex:AR job:RR age:AR pay:AR",
            "2 replace local: job",
        ),
        "columns without names beside reports": Case(
            lambda: [sex().fit(SEX), Nameless().fit(AGE)], "sex:R (all_columns):A", None
        ),
        "statistics beside what passes": Case(lambda: beside.fit(X), "sex:R job:- age:AS pay:A", one),
        "reports behind what was learnt": Case(lambda: late.fit(X), "sex:R job:- age:AR pay:-", "1 replace local: sex"),
    }


def of_a_curator():
    shown = make_pipeline(by_columns((StandardScaler(), ["pay"]), rest="passthrough"))
    return {
        "a private scaler before reports": Case(
            # Adding or removing 0.5 is replacing 1.
            lambda: make_pipeline(scaler(), numbers()).fit(NUMBERS),
            "age:SR pay:SR",
            "2 replace central: age, pay",
        ),
        "statistics": Case(lambda: scaler().fit(NUMBERS), "age:ST pay:ST", "0.5 add_remove central: age, pay"),
        "adding or removing alone": Case(lambda: [mean().fit(AGE)], "age:S", "0.5 add_remove central: age"),
        "beside a column that leaves": Case(
            lambda: [mean().fit(AGE), by_columns(("passthrough", ["pay"])).fit(X[["pay"]])],
            "age:S pay:A",
            "1 replace central: age",
        ),
        "classes that are found": Case(
            lambda: logistic().fit(NUMBERS, pd.Series(Y, name="ill")),
            "age:S pay:S ill:S",
            "1 add_remove central: age, pay, ill",
        ),
        "a delta that would be 1": Case(
            lambda: [mean(Mu(8.0, 1e-6)).fit(AGE), shown.fit(X[["pay"]])], "age:S pay:A", None
        ),
        "a target whose name is taken": Case(
            lambda: make_pipeline(StandardScaler(), logistic(classes=[0, 1])).fit(
                NUMBERS.set_axis(["target", "pay"], axis=1), pd.Series(Y, name="pay")
            ),
            "target:AS pay:AS",
            None,
        ),
    }


def of_estimators():
    """Meta-estimators are not followed; after reports they are post-processing."""
    return {
        "frozen before a model": Case(
            # It has no `fit_transform`, so that the model learns from the true values.
            lambda: make_pipeline(FrozenEstimator(OnFitOnly(numbers()).fit(AGE)), LogisticRegression()).fit(AGE, Y),
            "age:AA",
            None,
        ),
        "an unknown class behind reports": Case(
            lambda: make_pipeline(sex(), Keeper(make_pipeline(OneHotEncoder(), LogisticRegression()))).fit(SEX, Y),
            "sex:R",
            "1 replace local: sex",
        ),
    }


TABLE = pd.DataFrame({"sex": SEXES * 50, "job": JOBS * 50, "age": list(range(0, 40, 2)) * 5})
SICK = pd.Series(["no", "yes"] * 50, name="sick")
PUBLIC = {"sex": SEXES, "job": JOBS, "age": skdp.Interval(0, 40, bins=4), "sick": ["no", "yes"]}


def encoded_model():
    return make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression())


def of_synthetic_rows():
    scale = by_columns((StandardScaler(), ["age"]), rest="passthrough", output="pandas")
    scaled = PUBLIC | {"age": skdp.Interval(-3, 3, bins=4, real=True)}
    rows = skdp.SyntheticResampler(skdp.DPMarginalSynthesizer(1.0, domain=scaled, marginals="independent"))
    return {
        "resampled columns before a model": Case(
            lambda: make_pipeline(
                skdp.DPColumnSynthesizer(["age", "sex"], domain=PUBLIC).set_output(transform="pandas"), encoded_model()
            ).fit(TABLE, SICK),
            "sex:R job:AAA age:R",
            "1 replace_values central: sex, age",
        ),
        "a resampler behind a scaler": Case(
            lambda: make_resampling_pipeline(scale, rows, encoded_model()).fit(TABLE, SICK),
            "sex:F job:F age:AF sick:F",
            "2 replace central: sex, job, sick",
        ),
    }


CASES = {
    f"{group.__name__[3:]}: {name}": case
    for group in (of_columns, of_a_curator, of_estimators, of_synthetic_rows)
    for name, case in group().items()
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_columns_and_total_are_stated(case):
    statement = skdp.privacy_statement(case.make(), case.given)
    expected = dict(part.replace("_", " ").split(":") for part in case.marks.split())
    assert (marks(statement), total_of(statement)) == (expected, case.total)


@pytest.mark.parametrize("kind", [RowsAlways, RowsAtFit])
def test_rows_reveal_their_number(kind):
    """Also if only the output of fit_transform is protected: a guarantee for adding a record does not hold."""
    statement = skdp.privacy_statement(kind(0.5, bounds=(0, 40)).fit(AGE), trusted=[kind])
    assert (statement.total.relation, statement.total.epsilon) == ("replace", 1.0)
    reason = "transform returns as many rows as its input, which reveals their number"
    assert statement.notes[0].startswith("If only fit and sample are used")
    assert statement.notes[1].startswith(f"{reason}, so the total is for replacing one record")


META = {
    "search": lambda model: GridSearchCV(model, {"logisticregression__C": [1, 2]}, cv=3),
    "stack": lambda model: StackingClassifier([("one", model)], DecisionTreeClassifier(), cv=2),
    "votes": lambda model: VotingClassifier([("one", model), ("two", model)]),
    "threshold": lambda model: TunedThresholdClassifierCV(model, cv=2, thresholds=5),
    "calibration": lambda model: CalibratedClassifierCV(model, cv=2),
    "frozen calibration": lambda model: CalibratedClassifierCV(FrozenEstimator(clone(model).fit(SEX, Y)), cv=2),
    "target": lambda model: TransformedTargetRegressor(model),
    "ours": Keeper,
}


@pytest.mark.parametrize(("protected", "name"), diagonal([at_fit, always], META))
def test_meta_estimators_are_unprotected(name, protected):
    """Each of its fits is a release, and it may store scores, predictions, classes or the number of rows."""
    ledger = skdp.PrivacyLedger(epsilon=1000)
    private = sex(ledger=ledger, random_state=0)
    first = OnFitOnly(private) if protected is at_fit else private
    meta = META[name](make_pipeline(first, OneHotEncoder(handle_unknown="ignore"), LogisticRegression()))
    planned = skdp.privacy_statement(meta, SEX)
    assert (planned.total, marks(planned)["sex"] in "NA") == (None, True)
    statement = skdp.privacy_statement(meta.fit(SEX, Y), SEX)
    assert (marks(statement)["sex"], statement.total, statement.steps) == ("A", None, ())
    assert any("target is unprotected" in note for note in statement.notes)


@pytest.mark.parametrize(
    ("selector", "learns"),
    [
        (SelectFromModel(LogisticRegression()), True),
        (GenericUnivariateSelect(), True),
        (Keeper(LogisticRegression()), True),
        (VarianceThreshold(), False),
    ],
)
def test_estimators_that_learn_the_target_are_named(selector, learns):
    statement = skdp.privacy_statement(selector.fit(NUMBERS, Y))
    note = f"true values are learned by: {type(selector).__name__}."
    assert any(text.endswith(note) for text in statement.notes) is learns


class ColumnResampler(BaseEstimator):
    """Makes synthetic columns, and returns the target unchanged."""

    guarantee_ = PrivacyGuarantee(0.5, relation="add_remove", trust="central", scope=("age",))

    def fit_resample(self, X, y):
        return X, y


def test_true_target_reveals_the_number_of_rows():
    """A guarantee for adding a record does not hold, although the columns are synthetic."""
    pipeline = make_resampling_pipeline(ColumnResampler(), LogisticRegression().fit(AGE, Y))
    assert total_of(skdp.privacy_statement(pipeline, AGE, trusted=[ColumnResampler])) == "1 replace central: age"


def test_resampler_that_models_the_target_is_named():
    resampler = skdp.SyntheticResampler(skdp.DPColumnSynthesizer(["age", "sex"], domain=PUBLIC))
    resampler.fit_resample(TABLE, SICK)
    note = "The target is unprotected, because true values are learned by: SyntheticResampler."
    assert note in skdp.privacy_statement(resampler).notes


def test_unfitted_step_has_learned_nothing():
    fitted = make_pipeline(StandardScaler(), numbers().fit(AGE))
    protections = dict(zip(*skdp.privacy_statement(fitted, AGE).rows[["step", "protection"]].to_numpy().T, strict=True))
    assert protections["standardscaler: StandardScaler"] == "no guarantee yet: the step is not fitted"
    for scaler in (StandardScaler().fit(AGE), Nameless()):  # an unknown class may store the table anywhere
        statement = skdp.privacy_statement(make_pipeline(scaler, numbers().fit(AGE)), AGE)
        assert statement.unprotected_columns == ["age"]


def test_x_adds_names_of_further_columns():
    for table in (X, pl.DataFrame(X.to_dict("list")).lazy()):
        assert marks(skdp.privacy_statement(sex().fit(SEX), table)) == {"sex": "R", "job": "0", "age": "0", "pay": "0"}
    of_array = RandomizedResponseEncoder(categories=[SEXES, JOBS]).fit(X[["sex", "job"]].to_numpy())
    assert marks(skdp.privacy_statement(of_array, X[["sex", "job"]])) == {"sex": "R", "job": "R"}


def test_only_names_of_x_are_read():
    class Names:
        columns = ("sex", "job")

        def __getattr__(self, name):
            if name not in ("collect_schema", "column_names"):
                raise AssertionError(f"{name} was read")
            raise AttributeError(name)

    assert marks(skdp.privacy_statement(sex().fit(SEX), Names())) == {"sex": "R", "job": "0"}
    # Values of a column named like an attribute of frames are not read.
    table = SEX.assign(column_names="secret", collect_schema="secret")
    assert list(marks(skdp.privacy_statement(sex().fit(SEX), table))) == ["sex", "column_names", "collect_schema"]


@pytest.mark.parametrize(
    ("estimator", "table", "error", "message"),
    [
        (RandomizedResponseEncoder, None, TypeError, "got the class RandomizedResponseEncoder"),
        (
            [skdp.PrivacyLedger(1.0)] * 2,
            None,
            TypeError,
            "got a list with a PrivacyLedger. State each ledger by itself",
        ),
        ([], None, ValueError, "got an empty list"),
        (sex().fit(SEX), 5, TypeError, "X must be a DataFrame or a 2D array, got int"),
        (sex().fit(SEX), AGE, ValueError, r"X must have the columns .* got 1 columns without \['sex'\]"),
    ],
)
def test_unsupported_objects_raise_an_error(estimator, table, error, message):
    with pytest.raises(error, match=message):
        skdp.privacy_statement(estimator, table)


def test_headline_begins_with_unprotected_columns():
    parts = by_columns((sex(), ["sex"]), (scaler(), ["age"]), ("passthrough", ["pay"])).fit(X)
    for fitted, said_first in (
        (parts, "Unprotected columns: age, pay. At most 73.2 of 100 guesses about one record can be right, 50 "),
        (always().fit(SEX, Y), "The target is unprotected. At most "),
        (make_pipeline(StandardScaler(), LogisticRegression()), "No guarantee for: (all columns). The target is"),
    ):
        assert said_first in skdp.privacy_statement(fitted).to_dict()["headline"]
        assert said_first in str(skdp.privacy_statement(fitted))


def test_charge_that_counts_twice_is_noted():
    pipeline = make_pipeline(StandardScaler(), logistic(classes=[0, 1])).fit(NUMBERS, pd.Series(Y, name="ill"))
    for fitted, total, is_twice in (
        (pipeline, "epsilon = 2, delta = 0.00000371829", True),
        (pipeline[-1], "epsilon = 1, delta = 0.000001", False),
    ):
        statement = skdp.privacy_statement(fitted)
        assert f"Guarantee: {total}" in str(statement)
        assert (
            "grow by more): dplogisticregression: DPLogisticRegression (epsilon 1 becomes 2)." in str(statement)
        ) is is_twice
        assert set(statement.rows["epsilon"].dropna()) == {pipeline[-1].guarantee_.epsilon}


def test_seed_is_stated_without_a_guarantee():
    scaler = skdp.DPStandardScaler(1.0, bounds=(0, 100), random_state=0).fit(pd.DataFrame({"a": np.arange(100.0)}))
    assert "come from a seed: DPStandardScaler." in str(skdp.privacy_statement(scaler))


class OtherWrapper(TransformerMixin, BaseEstimator):
    """A transformer of another package, whose parts are not followed, such as `ApplyToCols` of skrub."""

    __module__ = "skrub._apply_to_cols"

    def __init__(self, transformer):
        self.transformer = transformer

    def fit(self, X, y=None):
        self.transformer_ = clone(self.transformer).fit(X)
        return self


class LazyObject:
    """An object with any attribute, whose truth is an error, such as the plan of a learner of skrub."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return LazyObject()

    def __bool__(self):
        raise TypeError("evaluated later")


def test_private_parts_that_are_not_followed_are_named_with_a_remedy():
    ages = X[["age"]]
    search = GridSearchCV(make_pipeline(numbers(), LogisticRegression()), {"logisticregression__C": [1.0]}, cv=2)
    plain = GridSearchCV(LogisticRegression(), {"C": [1.0]}, cv=2)
    target = np.arange(40) % 2
    for estimator, is_named in ((search, True), (OtherWrapper(numbers()), True), (plain, False)):
        statement = skdp.privacy_statement(estimator.fit(ages, target), ages)
        assert statement.unprotected_columns == ["age"]
        assert ("The parts of these steps are not stated" in str(statement)) == is_named


def test_lazy_objects_in_an_estimator_are_not_evaluated():
    assert skdp.privacy_statement(OtherWrapper(LazyObject()), X).total is None


def test_protected_weights_are_not_listed_as_unprotected():
    """Weights were among the protected columns, and among what is not covered."""
    groups = skdp.DPGroupBy(1.0, by=None, bounds=(0.0, 100.0), max_weight=2.0)
    record = skdp.privacy_statement(groups.fit(AGE, sample_weight=np.ones(len(AGE)))).to_dict()
    assert "sample_weight" in record["meaning"]["protected"]
    (about_weights,) = [text for text in record["not_covered"] if "sample weights" in text]
    assert "that are not among the protected columns" in about_weights
