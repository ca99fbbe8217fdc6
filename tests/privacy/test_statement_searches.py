"""Totals of what fits estimators that it does not store: searches, and splits of the rows."""

import itertools
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import StackingClassifier, StackingRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    PredefinedSplit,
    ShuffleSplit,
    StratifiedKFold,
)
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

from skdp import DPLinearRegression, OnFitOnly, RandomizedResponseEncoder, privacy_statement
from tests.conftest import each

# The tables are small, and of bags and searches the warnings are not what is tested.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

SEXES, JOBS = ["f", "m"], ["clerk", "cook"]
X = pd.DataFrame({"sex": SEXES * 20, "job": JOBS * 20})
Y = np.array([0, 0, 1, 1] * 10)


def sex(epsilon=1.0, **options):
    return RandomizedResponseEncoder(epsilon, **({"categories": {"sex": SEXES}} | options))


def words(n_columns=1):
    return OneHotEncoder(categories=[SEXES, JOBS][:n_columns], sparse_output=False)


def reports(model=None, **options):
    return Pipeline([("e", sex(**options)), ("o", words()), ("m", model or LogisticRegression())])


def by_columns(**options):
    return ColumnTransformer([("e", sex(), ["sex"])], **options)


class Coins(RandomizedResponseEncoder):
    """Of a subclass nothing is believed, whatever it spends."""


VARIED = {
    "pipeline": (lambda: reports(), "e__epsilon"),
    "columns": (lambda: make_pipeline(by_columns(), words(), LogisticRegression()), "columntransformer__e__epsilon"),
    "union": (
        lambda: make_pipeline(FeatureUnion([("e", sex())]), words(), LogisticRegression()),
        "featureunion__e__epsilon",
    ),
    "search": (lambda: GridSearchCV(reports(), {"m__C": [1.0]}, cv=2), "estimator__e__epsilon"),
}


def searched(estimator, grid, columns=("sex",), **options):
    search = GridSearchCV(estimator, grid, **({"cv": 2} | options))
    return search.fit(X[list(columns)], Y)


@each("name", VARIED)
def test_a_search_of_epsilon_promises_nothing_wherever_it_is(name):
    """The candidate that is kept tells nothing of what the others spent, of which epsilon 5 is the most."""
    make, parameter = VARIED[name]
    statement = privacy_statement(searched(make(), {parameter: [0.01, 5.0]}, error_score="raise"))
    assert statement.total is None
    assert "sex" in statement.unprotected_columns
    assert privacy_statement(GridSearchCV(make(), {parameter: [0.01, 5.0]}, cv=2), X[["sex"]]).total is None


OTHERS = {
    "a step of a subclass": (
        lambda: reports(),
        {"o": [words(), make_pipeline(Coins(categories={"sex": SEXES}), words())]},
    ),
    "a step before": (
        lambda: make_pipeline(FunctionTransformer(), reports()),
        {"functiontransformer__validate": [False]},
    ),
    "folds of a stack": (lambda: StackingClassifier([("x", reports())], cv=2), {"cv": [2, 3]}),
}


@each("name", OTHERS)
def test_what_may_change_how_much_is_spent_promises_nothing(name):
    make, grid = OTHERS[name]
    assert privacy_statement(searched(make(), grid)).total is None


FREE = {
    "a parameter": (lambda: reports(), {"m__C": [1.0, 2.0]}),
    "in a search": (lambda: GridSearchCV(reports(), {}, cv=2), {"estimator__m__C": [1.0, 2.0]}),
}


@each("name", FREE)
def test_post_processing_may_be_searched(name):
    make, grid = FREE[name]
    estimator, uses = make(), 1
    if name == "in a search":
        uses = 3  # a fit on each of two parts, and the last
    statement = privacy_statement(searched(estimator, grid))
    assert statement.total.epsilon == 5 * uses
    assert statement.total.scope == ("sex",)


def test_columns_that_another_candidate_has_used_are_released():
    model = make_pipeline(by_columns(), OneHotEncoder(), LogisticRegression())
    grid = {"columntransformer__remainder": ["drop", "passthrough"]}
    search = searched(model, grid, X, refit=lambda results: 0)
    assert search.best_params_ == {"columntransformer__remainder": "drop"}
    statement = privacy_statement(search)
    assert statement.unprotected_columns == ["sex", "job"]
    # Nor where none of them is private, and another estimator promises something about the column.
    plain = ColumnTransformer([("sex", "passthrough", ["sex"])])
    search = searched(make_pipeline(plain, OneHotEncoder(), LogisticRegression()), grid, X, refit=lambda results: 0)
    other = sex(categories={"job": JOBS}).fit(X[["job"]])
    assert privacy_statement([search, other]).total is None


def uses_of_rows(monkeypatch, estimator):
    """Fit, and return the most reports of a row."""
    counts = Counter()
    transform = RandomizedResponseEncoder.transform

    def counting(self, X, **options):
        counts.update(X.index)
        return transform(self, X, **options)

    with monkeypatch.context() as patched:
        patched.setattr(RandomizedResponseEncoder, "transform", counting)
        estimator.fit(X[["sex"]], Y)
    return max(counts.values())


SCORING = [None, make_scorer(accuracy_score), ["accuracy", "neg_log_loss", "roc_auc"], {"a": "accuracy"}]


@each("train", [False, True])
@each("scoring", SCORING)
def test_each_score_privatises_rows_again(monkeypatch, scoring, train):
    refit = {list: "accuracy", dict: "a"}.get(type(scoring), True)
    search = GridSearchCV(reports(), {"m__C": [1, 2]}, cv=3, scoring=scoring, refit=refit, return_train_score=train)
    uses = uses_of_rows(monkeypatch, search)
    total = privacy_statement(search).total
    assert uses <= total.epsilon <= 2 * uses
    n_scores = len(scoring) if isinstance(scoring, list | dict) else 1
    assert total.epsilon == 1 + 2 * 3 * (n_scores + train)


def test_a_function_that_scores_sees_the_rows():
    for scoring in (lambda model, X, y: float(X["sex"].iloc[0] == "f"), {"a": lambda model, X, y: 0.5}):
        statement = privacy_statement(searched(reports(), {"m__C": [1, 2]}, scoring=scoring, refit="a"))
        assert statement.total is None
        assert "sex" in statement.unprotected_columns
        dropping = make_pipeline(by_columns(), words(), LogisticRegression())
        statement = privacy_statement(searched(dropping, {}, X, scoring=scoring, refit="a"))
        assert statement.unprotected_columns == ["sex", "job"]
        planned = privacy_statement(GridSearchCV(reports(), {}, scoring=scoring, refit="a", cv=2), X[["sex"]])
        assert planned.total is None
        # Behind reports, it sees reports.
        search = GridSearchCV(LogisticRegression(), {"C": [1, 2]}, scoring=scoring, refit="a", cv=2)
        statement = privacy_statement(make_pipeline(sex(), words(), search).fit(X[["sex"]], Y))
        assert statement.total.epsilon == 1


NUMBERS = pd.DataFrame({"age": np.arange(40.0) % 7, "pay": np.arange(40.0) % 11})


def private_stack(cv):
    regression = DPLinearRegression(1.0, bounds=(0, 20), target_bounds=(0, 1))
    final = DPLinearRegression(1.0, bounds=(0, 1), target_bounds=(0, 1))
    return StackingRegressor([("one", regression)], final, cv=cv)


@each("cv", [StratifiedKFold(3), StratifiedKFold(3, shuffle=True, random_state=0)])
def test_a_target_that_splits_the_rows_is_not_covered(cv):
    """One label moves other rows, so that the parts differ by more than a record; other columns move none."""
    other = Y.copy()
    other[0] = 1 - other[0]
    moved = [set(a) ^ set(b) for (_, a), (_, b) in zip(cv.split(NUMBERS, Y), cv.split(NUMBERS, other), strict=True)]
    assert len(set(itertools.chain(*moved)) - {0}) > 1
    statement = privacy_statement(private_stack(cv).fit(NUMBERS, Y))
    # Three fits of folds and one of all rows, and that of predictions; twice, for replacing a record.
    assert (statement.total.scope, statement.total.epsilon) == (("age", "pay"), 10)
    assert statement.target_learners == ["StackingRegressor"]
    assert statement.unprotected_columns == ["target"]
    assert any("the target of one record decides in which part other records are" in note for note in statement.notes)
    # Splits by the number of rows cover the target.
    for other in (None, 3, KFold(3), KFold(3, shuffle=True, random_state=0)):
        statement = privacy_statement(private_stack(other).fit(NUMBERS, Y))
        assert (statement.total.scope, statement.target_learners) == (("age", "pay", "target"), [])


SPLITS = [
    (ShuffleSplit(2), True),
    (GroupKFold(2), False),
    (PredefinedSplit(np.arange(40) % 2), False),
]


@each("cv, known", SPLITS)
def test_splits_by_values_of_the_user_are_not_known(cv, known):
    """Of a search, whose target is true, the reports of the columns are counted where only targets split."""
    search = GridSearchCV(reports(), {"m__C": [1, 2]}, cv=cv).fit(X[["sex"]], Y, groups=np.arange(40) % 5)
    statement = privacy_statement(search)
    assert (statement.total is not None) == known
    planned = privacy_statement(GridSearchCV(OnFitOnly(sex()), {}, cv=cv), X[["sex"]])
    assert ("not known before fit" in " ".join(planned.notes)) == (not known)
