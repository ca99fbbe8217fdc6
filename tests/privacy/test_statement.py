from __future__ import annotations

import itertools
import math
import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from imblearn.pipeline import make_pipeline as make_resampling_pipeline
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_selector
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    IsolationForest,
    RandomForestClassifier,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
)
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.feature_selection import (
    RFE,
    GenericUnivariateSelect,
    SelectFromModel,
    SequentialFeatureSelector,
    VarianceThreshold,
)
from sklearn.frozen import FrozenEstimator
from sklearn.impute import IterativeImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, RANSACRegressor
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    LeaveOneOut,
    StratifiedKFold,
    TunedThresholdClassifierCV,
)
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.multioutput import RegressorChain
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from skdp import (
    DPLogisticRegression,
    DPMarginalSynthesizer,
    DPRidge,
    DPStandardScaler,
    HeavyHitters,
    Interval,
    NumericPerturber,
    OnFitOnly,
    PrivacyGuarantee,
    RandomizedResponseEncoder,
    SyntheticResampler,
)
from skdp import privacy_statement as state
from skdp.privacy import Shuffled
from skdp.privacy.statement._columns import Column, Flow
from skdp.privacy.statement._visitor import Walk
from tests.conftest import each

SEXES, JOBS = ["F", "M"], ["clerk", "cook"]
X = pd.DataFrame({"sex": SEXES * 20, "job": JOBS * 20, "age": np.arange(40.0), "pay": np.arange(40.0)})
Y = np.array([0, 1] * 20)
AS_IS, ROWS, DROPPED, STATISTICS = "released as is", "rows", "not released", "released as is, beside private statistics"
FIT_ONLY = "rows at fit; rows given to transform or predict: released as is"


def sex(epsilon=1.0, **options):
    return RandomizedResponseEncoder(epsilon, categories={"sex": SEXES}, **options)


def both(epsilon=1.0):
    return RandomizedResponseEncoder(epsilon, categories={"sex": SEXES, "job": JOBS})


def numbers(epsilon=1.0):
    return NumericPerturber(epsilon, bounds=(0, 40))


class Central(TransformerMixin, BaseEstimator):
    """A scaler of a curator: private statistics, plain rows."""

    protects_rows = False

    def __init__(self, epsilon=0.5, scope=None):
        self.epsilon = epsilon
        self.scope = scope

    def fit(self, X, y=None):
        self.feature_names_in_ = np.array(list(X.columns), object)
        scope = tuple(self.feature_names_in_) if self.scope is None else self.scope
        self.guarantee_ = PrivacyGuarantee(
            self.epsilon, relation="add_remove", trust="central", scope=scope, mechanism="noise"
        )
        return self

    def transform(self, X):
        return X

    def get_feature_names_out(self, input_features=None):
        return self.feature_names_in_


class Synthesizer(Central):
    """The same, but its rows are made up."""

    protects_rows = True


class Resampler(BaseEstimator):
    """Made-up rows at fit, as imbalanced-learn has it."""

    def fit(self, X, y=None):
        self.guarantee_ = PrivacyGuarantee(2, trust="central", scope=tuple(X.columns))
        self.feature_names_in_ = np.array(X.columns, object)
        return self

    def fit_resample(self, X, y):
        return X, y


class Statistic(BaseEstimator):
    """A mean: it has no rows to give."""

    def __init__(self, scope=None):
        self.scope = scope

    def fit(self, X, y=None):
        self.feature_names_in_ = np.array(X.columns, object)
        self.guarantee_ = PrivacyGuarantee(0.5, trust="central", scope=self.scope or tuple(X.columns))
        return self


def privacy_statement(estimator, X=None, *more):
    """Believe the classes of this file that promise something."""
    return state(estimator, X, trusted=[Central, Synthesizer, Resampler, Statistic, *more])


def said(statement):
    """What is said of each column, without what is covered together."""
    result = {}
    for column, text in zip(statement.rows["column"], statement.rows["protection"], strict=True):
        result.setdefault(column, []).append(re.sub(r" \(together.*", "", text))
    return result


def test_a_column_transformer_that_forgets_a_column_says_so():
    columns = ColumnTransformer([("sex", sex(), ["sex"]), ("scale", StandardScaler(), ["age"])])
    forgotten = privacy_statement(columns.fit(X))
    assert said(forgotten) == {"sex": [ROWS], "job": [DROPPED], "age": [AS_IS], "pay": [DROPPED]}
    passed = privacy_statement(columns.set_params(remainder="passthrough").fit(X))
    assert said(passed) == {"sex": [ROWS], "job": [AS_IS], "age": [AS_IS], "pay": [AS_IS]}
    rest = ColumnTransformer([("scale", StandardScaler(), ["age"])], remainder=sex()).fit(X[["sex", "age"]])
    assert said(privacy_statement(rest)) == {"sex": [ROWS], "age": [AS_IS]}
    for statement in (forgotten, passed):
        assert str(statement.total) == "epsilon = 1, local model, replacing one record's values of: sex"
    assert forgotten.rows["step"].tolist() == ["sex: RandomizedResponseEncoder", "", "scale: StandardScaler", ""]


def test_the_rows_hold_the_whole_promise():
    rows = privacy_statement(sex(0.5).fit(X[["sex"]])).rows
    assert rows.to_dict("records") == [
        {
            "column": "sex",
            "step": "RandomizedResponseEncoder",
            "mechanism": "k-ary randomised response",
            "epsilon": 0.5,
            "delta": 0.0,
            "relation": "replace",
            "trust": "local",
            "protection": "rows",
        }
    ]


def test_ten_answers_about_the_same_persons_add_up():
    """Equal guarantees are ten releases, not one."""
    union = FeatureUnion([(f"answer {i}", sex()) for i in range(10)]).fit(X[["sex"]])
    statement = privacy_statement(union)
    assert statement.total.epsilon == 10
    assert len(statement.rows) == 10
    assert "epsilon = 10, " in str(statement)
    assert privacy_statement([sex().fit(X[["sex"]])] * 10).total.epsilon == 10
    assert privacy_statement(make_pipeline(*[sex() for _ in range(10)]).fit(X[["sex"]])).total.epsilon == 10


def test_columns_that_share_a_guarantee_are_named_together_and_counted_once():
    statement = privacy_statement(both().fit(X[["sex", "job"]]))
    assert statement.rows["protection"].tolist() == ["rows (together with job)", "rows (together with sex)"]
    assert statement.total.epsilon == pytest.approx(1)
    assert statement.total.scope == ("sex", "job")


def test_many_columns_are_counted_and_not_listed_again_and_again():
    names = [f"column_{i}" for i in range(100)]
    encoder = RandomizedResponseEncoder(categories=dict.fromkeys(names, SEXES))
    statement = privacy_statement(encoder.fit(pd.DataFrame(dict.fromkeys(names, SEXES))))
    assert set(statement.rows["protection"]) == {"rows (together with 99 others)"}
    assert len(str(statement)) < 20_000
    few = RandomizedResponseEncoder(categories=dict.fromkeys(names[:6], SEXES))
    few = privacy_statement(few.fit(pd.DataFrame(dict.fromkeys(names[:6], SEXES))))
    assert few.rows["protection"][5] == f"rows (together with {', '.join(names[:5])})"


@pytest.mark.parametrize("names", [[0, 1], [1, 0], [2020, 2021]], ids=str)
def test_columns_whose_names_are_numbers(names):
    table = pd.DataFrame(dict.fromkeys(names, SEXES * 5))
    encoder = RandomizedResponseEncoder(categories=dict.fromkeys(names, SEXES))
    fitted = encoder.fit(table)
    for given in (None, table, table[names[::-1]]):
        statement = privacy_statement(fitted, given)
        assert said(statement) == {name: [ROWS] for name in names}
        assert statement.total.scope == tuple(names)
        assert statement.total.epsilon == pytest.approx(1)
    model = make_pipeline(encoder, OneHotEncoder(), LogisticRegression()).fit(table, [0, 1] * 5)
    assert said(privacy_statement(model)) == {"x0": [ROWS], "x1": [ROWS]}
    assert said(privacy_statement(model, table)) == {name: [ROWS] for name in names}
    with pytest.raises(ValueError, match=rf"X lacks columns .* \[{names[0]}\]"):
        privacy_statement(fitted, table[names[1:]])
    # A ColumnTransformer takes numbers for places.
    one = RandomizedResponseEncoder(categories={names[1]: SEXES})
    columns = ColumnTransformer([("one", one, [1])], remainder="passthrough").fit(table)
    assert said(privacy_statement(columns, table)) == {names[0]: [AS_IS], names[1]: [ROWS]}
    assert said(privacy_statement(columns)) == {"x0": [AS_IS], "x1": [ROWS]}


def private_table():
    columns = ColumnTransformer(
        [("sex", sex(), ["sex"]), ("numbers", numbers(), ["age", "pay"])], verbose_feature_names_out=False
    )
    return columns.set_output(transform="pandas")


def test_a_model_of_protected_columns_is_post_processing():
    encode = ColumnTransformer([("sex", OneHotEncoder(), ["sex"]), ("age", StandardScaler(), [1])])
    model = make_pipeline(private_table(), encode, LogisticRegression()).fit(X, Y)
    statement = privacy_statement(model)
    assert said(statement) == {"sex": [ROWS], "job": [DROPPED], "age": [ROWS], "pay": [ROWS]}
    assert statement.total.epsilon == pytest.approx(2)
    assert statement.total.trust == "local"
    free, target = statement.notes[-2:]
    assert free.startswith("Post-processing of protected columns, which costs nothing: ")
    assert "logisticregression: LogisticRegression" in free
    assert "target" in target
    assert "LogisticRegression" in target
    assert "OneHotEncoder" not in target


@pytest.mark.parametrize(
    ("kind", "chosen"),
    [
        *itertools.product(["pandas", "default"], [[2], slice(2, 3), [-2]]),
        ("pandas", ["remainder__age"]),
        ("pandas", slice("remainder__age", "remainder__age")),
    ],
    ids=str,
)
def test_columns_are_followed_through_positions_and_names(kind, chosen):
    """Beside a protected column, the one that passes stays as it is, under whatever name or number."""
    first = ColumnTransformer([("sex", sex(), ["sex"])], remainder="passthrough").set_output(transform=kind)
    second = ColumnTransformer([("sex", OneHotEncoder(), [0]), ("age", StandardScaler(), chosen)])
    statement = privacy_statement(make_pipeline(first, second).fit(X))
    assert said(statement) == {"sex": [ROWS], "job": [DROPPED], "age": [AS_IS], "pay": [DROPPED]}


CHOICES = {
    "names": ["sex"],
    "name": "sex",
    "places": [0],
    "place": 0,
    "from the end": [-4],
    "slice": slice(0, 1),
    "open slice": slice(None, 1),
    "slice of names": slice("sex", "sex"),
    "mask": [True, False, False, False],
    "array": np.array([True, False, False, False]),
    "index": pd.Index(["sex"]),
    "selector": make_column_selector(pattern="sex"),
}


@each("chosen", CHOICES.values())
def test_every_way_to_choose_columns(chosen):
    plain = FunctionTransformer(lambda part: np.asarray(part, object).reshape(len(part), 1))
    statement = privacy_statement(ColumnTransformer([("one", plain, chosen), ("none", StandardScaler(), [])]).fit(X))
    assert said(statement) == {"sex": [AS_IS], "job": [DROPPED], "age": [DROPPED], "pay": [DROPPED]}


def test_a_column_that_also_passes_is_covered_by_nothing():
    columns = ColumnTransformer([("sex", sex(), ["sex"]), ("job and sex", "passthrough", ["job", "sex"])])
    statement = privacy_statement(columns.fit(X))
    assert said(statement)["sex"] == [ROWS, AS_IS]
    assert statement.total is None
    assert "No column has a guarantee." in str(statement)
    learnt = ColumnTransformer([("both", both(), ["sex", "job"]), ("plain", OneHotEncoder(), ["sex"])]).fit(X)
    assert said(privacy_statement(learnt))["sex"] == [ROWS, AS_IS]
    assert privacy_statement(learnt).total.scope == ("job",)


def test_what_leaves_before_a_step_that_privatises_it_is_released():
    union = FeatureUnion([("private", sex()), ("plain", "passthrough")]).fit(X[["sex"]])
    assert said(privacy_statement(union)) == {"sex": [ROWS, AS_IS]}
    after = make_pipeline(MinMaxScaler(), NumericPerturber(1.0, bounds=(0, 1))).fit(X[["age"]])
    statement = privacy_statement(after)
    assert said(statement) == {"age": [ROWS, AS_IS]}
    assert statement.rows["step"].tolist() == ["numericperturber: NumericPerturber", "minmaxscaler: MinMaxScaler"]
    assert statement.total is None


def test_a_central_fit_before_a_local_step_makes_the_total_central():
    model = Pipeline([("scale", Central()), ("perturb", numbers())]).fit(X[["age", "pay"]])
    statement = privacy_statement(model)
    assert said(statement) == {"age": ["statistics only", ROWS], "pay": ["statistics only", ROWS]}
    assert statement.rows["trust"].tolist() == ["central", "local"] * 2
    assert statement.total.trust == "central"
    # Adding or removing 0.5 is replacing 1.
    assert (statement.total.relation, statement.total.epsilon) == ("replace", pytest.approx(2))
    plain = make_pipeline(ColumnTransformer([("age", StandardScaler(), ["age"]), ("sex", "passthrough", ["sex"])]))
    plain.steps.append(("private", RandomizedResponseEncoder(categories=[[0.0, 1.0], SEXES], handle_unknown="uniform")))
    late = privacy_statement(plain.fit(X))
    assert said(late)["sex"] == [ROWS]
    assert (late.total.trust, late.total.scope) == ("central", ("sex",))
    assert "comes after a step that learns from true values" in late.notes[0]


def test_central_statistics_protect_no_rows():
    statement = privacy_statement(Central().fit(X[["age", "pay"]]))
    assert said(statement) == {"age": [STATISTICS], "pay": [STATISTICS]}
    assert statement.rows["epsilon"].tolist() == [0.5, 0.5]
    assert statement.total is None  # for nothing covers the rows
    assert "not about rows" in statement.notes[0]
    model = privacy_statement(make_pipeline(Central(), LogisticRegression()).fit(X[["age"]], Y))
    assert said(model) == {"age": ["statistics only", AS_IS]}
    assert model.total is None
    mean = privacy_statement(Statistic().fit(X[["age"]]))
    assert said(mean) == {"age": ["statistics only"]}
    partly = privacy_statement(Statistic(("age",)).fit(X[["age", "pay"]]))
    assert said(partly) == {"age": ["statistics only"], "pay": [AS_IS]}


def test_an_estimator_says_itself_what_it_protects():
    made_up = privacy_statement(make_pipeline(Synthesizer(), LogisticRegression()).fit(X[["age"]], Y))
    assert said(made_up) == {"age": [ROWS]}
    assert made_up.total.trust == "central"
    # Without a word, the central model protects statistics only.
    unsaid = type("Unsaid", (Central,), {"protects_rows": None})
    assert said(privacy_statement(unsaid().fit(X[["age"]]), None, unsaid)) == {"age": [STATISTICS]}
    # What it leaves alone goes through, and what only its scope names is listed too.
    partly = Synthesizer(scope=("age", "target")).fit(X[["age", "pay"]])
    assert said(privacy_statement(partly)) == {"age": [ROWS], "pay": [AS_IS], "target": ["statistics only"]}


def test_rows_that_are_protected_at_fit_only():
    model = make_pipeline(OnFitOnly(sex()), OneHotEncoder(), LogisticRegression()).fit(X[["sex"]], Y)
    statement = privacy_statement(model)
    assert said(statement) == {"sex": [FIT_ONLY]}
    assert statement.total.epsilon == 1
    resampled = make_pipeline(MinMaxScaler().set_output(transform="pandas"))
    resampled.steps = [("resample", Resampler().fit(X[["age"]])), ("model", LogisticRegression().fit(X[["age"]], Y))]
    assert said(privacy_statement(resampled)) == {"age": [FIT_ONLY]}


def test_a_search_is_followed_to_what_it_kept():
    model = make_pipeline(sex(), OneHotEncoder(), LogisticRegression())
    search = GridSearchCV(model, {"logisticregression__C": [1, 2]}, cv=2)
    statement = privacy_statement(search.fit(X[["sex"]], Y))
    assert said(statement) == {"sex": [ROWS]}
    # Two candidates on two folds, in each of which every record is reported once; and the fit that was kept.
    assert statement.total.epsilon == statement.rows["epsilon"].item() == 5
    assert "each record is used in 4 further releases, so epsilon of its steps is 5 times" in statement.notes[0]
    plain = GridSearchCV(LogisticRegression(), {"C": [1, 2]}, cv=2).fit(X[["age"]], Y)
    assert said(privacy_statement(plain)) == {"age": [AS_IS]}
    assert not any("ledger" in note for note in privacy_statement(plain).notes)


def fit_only(epsilon=1.0):
    return make_pipeline(OnFitOnly(sex(epsilon)), OneHotEncoder(), LogisticRegression())


def always(epsilon=1.0, **options):
    return make_pipeline(sex(epsilon, **options), OneHotEncoder(), LogisticRegression())


def test_estimators_that_are_made_of_estimators():
    members = [("one", fit_only()), ("two", fit_only())]
    voting = privacy_statement(VotingClassifier(members).fit(X[["sex"]], Y))
    assert said(voting) == {"sex": [FIT_ONLY] * 2}
    assert voting.total.epsilon == 2
    mixed = privacy_statement(
        VotingClassifier([*members, ("plain", make_pipeline(OneHotEncoder(), LogisticRegression()))]).fit(X[["sex"]], Y)
    )
    assert said(mixed) == {"sex": [FIT_ONLY, FIT_ONLY, AS_IS]}
    frozen = FrozenEstimator(fit_only().fit(X[["sex"]], Y))
    assert said(privacy_statement(frozen)) == {"sex": [FIT_ONLY]}


@pytest.mark.parametrize(
    ("search", "epsilon"),
    [
        (lambda model: GridSearchCV(model, {"logisticregression__C": [1, 2, 3]}, cv=3, return_train_score=True), 19),
        (lambda model: StackingClassifier([("one", model)], cv=4), 5),
        (lambda model: StackingClassifier([("one", model)]), 6),
        (lambda model: CalibratedClassifierCV(model, cv=3), 3),
        (lambda model: CalibratedClassifierCV(model, cv=3, ensemble=False), 4),
        (lambda model: TunedThresholdClassifierCV(model, cv=StratifiedKFold(3), thresholds=5), 4),
        (lambda model: TunedThresholdClassifierCV(model, cv=0.5, thresholds=5), 2),
        (lambda model: GridSearchCV(StackingClassifier([("one", model)], cv=2), {}, cv=2), 9),
    ],
)
def test_reports_of_fits_that_are_not_stored_are_counted(search, epsilon):
    """The ledger is charged for each call; in most calls, a record is one of the rows, in others not."""
    # With a seed, as one in some thirty models predicts the same for all, and has no threshold.
    statement = privacy_statement(search(always(random_state=0)).fit(X[["sex"]], Y))
    assert statement.total.epsilon == pytest.approx(epsilon)


@pytest.mark.parametrize(
    "search",
    [
        lambda: GridSearchCV(always(), {"randomizedresponseencoder__epsilon": [1, 4]}, cv=2),
        lambda: GridSearchCV(always(), {"randomizedresponseencoder": [sex(), sex(4.0)]}, cv=2),
        lambda: GridSearchCV(always(), {}, cv=[(np.arange(40), np.arange(40))]),
        lambda: StackingClassifier([("one", always())], cv=LeaveOneOut()),
    ],
    ids=["epsilon", "step", "splits", "rows"],
)
def test_what_cannot_be_counted_is_not_promised(search):
    statement = privacy_statement(search().fit(X[["sex"]], Y))
    assert said(statement)["sex"] == [ROWS, AS_IS]
    assert statement.total is None
    assert any("How much these lose is not known here" in note for note in statement.notes)


def logistic(**options):
    return DPLogisticRegression(1.0, bounds=(-3, 3), max_iter=2, **options)


SHOWING = {
    "scaled": lambda: (make_pipeline(StandardScaler(), logistic(classes=[0, 1])), {"target"}),
    "classes": lambda: (logistic(), {"age", "pay"}),
    "target": lambda: (
        TransformedTargetRegressor(DPRidge(1.0, bounds=(0, 40), target_bounds=(-3, 3)), transformer=StandardScaler()),
        {"age", "pay"},
    ),
    "beside": lambda: (
        ColumnTransformer([("mean", DPStandardScaler(1.0, bounds=(0, 40)), ["age"]), ("pay", "passthrough", ["pay"])]),
        None,
    ),
    "bag": lambda: (
        BaggingRegressor(DPRidge(1.0, bounds=(0, 40), target_bounds=(0, 1)), 1, bootstrap=False),
        {"age", "pay", "target"},
    ),
}


@pytest.mark.parametrize("make", SHOWING.values(), ids=SHOWING)
def test_where_records_are_shown_the_total_is_for_replacing_one(make):
    """What looks at all rows, reads classes, or stores the number of rows, shows who is there."""
    model, covered = make()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few rows, and classes that are read
        statement = privacy_statement(model.fit(X[["age", "pay"]], Y))
    if covered is None:
        assert statement.total is None
        return
    stated = statement.steps[0].guarantee
    assert (stated.relation, stated.epsilon) == ("add_remove", pytest.approx(1))
    assert (statement.total.relation, statement.total.epsilon) == ("replace", pytest.approx(2))
    assert set(statement.total.scope) == covered
    conversion = next(note for note in statement.notes if "so the total is for replacing a record" in note)
    assert "epsilon 1" in conversion
    assert "counts as epsilon 2" in conversion
    assert "counts twice" in statement.to_dict()["evaluation"][5]["answer"]


class AddRemove(Statistic):
    """A statistic whose promise is for adding or removing a record."""

    def fit(self, X, y=None):
        super().fit(X)
        self.guarantee_ = PrivacyGuarantee(0.5, relation="add_remove", trust="central", scope=("age",))
        return self


class AddRemoveRows(Resampler):
    """Made-up rows beside a target that stays."""

    def fit(self, X, y=None):
        super().fit(X)
        self.guarantee_ = PrivacyGuarantee(0.5, relation="add_remove", trust="central", scope=("age",))
        return self


def passed():
    return ColumnTransformer([("pay", "passthrough", ["pay"])]).fit(X[["pay"]])


BESIDE = {
    "nothing": lambda: [],
    "a column that leaves": lambda: [passed()],
    "a step that is not fitted": lambda: [Pipeline([("pay", passed()), ("model", LogisticRegression())])],
    "reports": lambda: [sex().fit(X[["sex"]])],
}


@pytest.mark.parametrize("beside", BESIDE)
def test_what_else_leaves_makes_the_total_one_for_replacing(beside):
    statement = privacy_statement([AddRemove().fit(X[["age"]]), *BESIDE[beside]()], None, AddRemove)
    assert "age" in statement.total.scope
    assert statement.total.relation == ("add_remove" if beside == "nothing" else "replace")
    converted = any("epsilon 0.5 counts as epsilon 1" in note for note in statement.notes)
    assert converted == (beside != "nothing")


def test_a_target_that_is_learnt_beside_made_up_rows_shows_who_is_there():
    steps = [("rows", AddRemoveRows().fit(X[["age"]])), ("model", LogisticRegression().fit(X[["age"]], Y))]
    statement = privacy_statement(Pipeline(steps), None, AddRemoveRows)
    assert said(statement) == {"age": [FIT_ONLY]}
    assert (statement.total.relation, statement.total.epsilon) == ("replace", 1)


def test_no_promise_is_left_where_delta_would_be_one():
    class Wide(Statistic):
        def fit(self, X, y=None):
            super().fit(X)
            self.guarantee_ = PrivacyGuarantee(20, 1e-6, relation="add_remove", trust="central", scope=("age",))
            return self

    shown = make_pipeline(ColumnTransformer([("pay", StandardScaler(), ["pay"])], remainder="passthrough"))
    statement = privacy_statement([Wide().fit(X[["age"]]), shown.fit(X[["pay"]])], None, Wide)
    assert statement.total is None
    assert any("None follows from epsilon and delta of: 0: Wide" in note for note in statement.notes)
    # Of Gaussian noise more is known.
    model = make_pipeline(StandardScaler(), DPLogisticRegression(20.0, classes=[0, 1], bounds=(-3, 3)))
    statement = privacy_statement(model.fit(X[["age"]], Y))
    assert statement.total.delta == 1e-6
    assert 40 < statement.total.epsilon < 80


@pytest.mark.parametrize(
    "outer",
    [
        lambda model: IterativeImputer(model, max_iter=1),
        lambda model: RFE(model, n_features_to_select=1),
        lambda model: RegressorChain(model),
    ],
    ids=["imputer", "eliminating", "chain"],
)
def test_a_column_that_stands_in_for_a_target_is_not_listed_under_another_name(outer):
    private = DPRidge(1.0, bounds=(0, 40), target_bounds=(0, 40))
    model = outer(private)
    model.fit(X[["age", "pay"]], np.column_stack([Y, Y]) if isinstance(model, RegressorChain) else Y)
    statement = privacy_statement(model)
    assert list(said(statement)) == ["age", "pay"]
    assert {texts[-1] for texts in said(statement).values()} == {AS_IS}
    assert statement.total is None


def test_a_private_transformer_and_a_private_model_have_the_same_target():
    private = DPRidge(1.0, bounds=(0, 40), target_bounds=(-3, 3))
    model = TransformedTargetRegressor(private, transformer=DPStandardScaler(0.5, bounds=(0, 1)))
    statement = privacy_statement(model.fit(X[["age"]], Y))
    assert said(statement) == {"age": ["statistics only"], "target": ["statistics only"] * 2}
    assert (statement.total.relation, statement.total.epsilon) == ("add_remove", 1.5)


@pytest.mark.parametrize(("drawn", "texts"), [(False, [[ROWS], [AS_IS]]), (True, [[ROWS, AS_IS]] * 2)])
def test_columns_that_a_bag_draws_are_not_taken_for_one_another(drawn, texts):
    """Its member randomises the first column that it gets, and passes the second: each may be either column."""
    first = ColumnTransformer([("first", numbers(), [0])], remainder="passthrough")
    member = make_pipeline(first, LogisticRegression())
    bag = BaggingClassifier(member, 1, bootstrap=False, bootstrap_features=drawn, random_state=0)
    statement = privacy_statement(bag.fit(X[["age", "pay"]].to_numpy(), Y))
    assert list(said(statement).values()) == texts


def test_the_headline_says_first_what_is_released_unprotected():
    parts = [("sex", sex(), ["sex"]), ("mean", Central(), ["age"]), ("pay", "passthrough", ["pay"])]
    statement = privacy_statement(ColumnTransformer(parts).fit(X))
    guarantee = "Guarantee: epsilon = 1, local model, replacing one record's values of: sex."
    headline = f"2 of 4 columns are released unprotected: age, pay. {guarantee}"
    assert str(statement).startswith(headline)
    assert statement.to_dict()["headline"] == headline
    assert f"<p><b>{headline}".replace("'", "&#x27;") in statement._repr_html_().replace("&#39;", "&#x27;")
    assert f'<p class="lead">{headline}'.replace("'", "&#39;") in statement.to_html()
    # Of the column with private statistics, nothing says "protected".
    assert said(statement)["age"] == [STATISTICS]
    page = statement.to_html()
    row = page[page.index('<tr><th scope="row">age') :]
    assert "protected" not in row[: row.index("</tr>")]


def test_a_headline_for_every_kind_of_column():
    def headline(*arguments):
        return privacy_statement(*arguments).to_dict()["headline"]

    assert headline(sex().fit(X[["sex"]])).startswith("No column is released unprotected. Guarantee: epsilon = 1, ")
    learnt = make_pipeline(sex(), OneHotEncoder(), LogisticRegression()).fit(X[["sex"]], Y)
    learnt_statement = privacy_statement(learnt)
    assert headline(learnt).startswith("No column is released unprotected. The target is released as is. Guarantee: ")
    assert ("the target", "released as is, by logisticregression: LogisticRegression") in learnt_statement.open_columns
    plain = StandardScaler().fit(X[["age"]])
    assert headline(plain) == "1 of 1 column is released unprotected: age. No column has a guarantee."
    assert headline(LogisticRegression()).endswith("Without a guarantee yet: (all columns). No column has a guarantee.")
    assert headline(sex()).startswith(
        "No column is released unprotected. Not fitted yet: RandomizedResponseEncoder. Set to spend: epsilon = 1, "
    )
    assert headline(make_pipeline(Nameless().fit(X))).startswith("All columns are released unprotected. ")
    assert ". Without a guarantee yet: job, age, pay. Guarantee" in headline(sex().fit(X[["sex"]]), X)
    assert ". Protected at fit only: sex. Guarantee" in headline(OnFitOnly(sex()).fit(X[["sex"]]))
    wide = StandardScaler().fit(pd.DataFrame({f"x{place}": [0.0, 1.0] for place in range(8)}))
    assert headline(wide).startswith("8 of 8 columns are released unprotected: x0, x1, x2, x3, x4 and 3 more. ")


@pytest.mark.parametrize("released", ["tally", "reports"])
@pytest.mark.parametrize("wrapped", [lambda encoder: encoder, OnFitOnly], ids=["alone", "wrapped"])
def test_what_was_asked_for_after_shuffling_is_stated(wrapped, released):
    encoder = wrapped(sex(Shuffled(1.0, 1e-6, 10_000, released=released))).fit(X[["sex"]])
    statement = privacy_statement(encoder)
    local = encoder.guarantee_.epsilon
    assert statement.total.epsilon == statement.steps[0].guarantee.epsilon == local > 4
    shuffled = statement.steps[0].shuffled
    assert (shuffled.epsilon, shuffled.delta, shuffled.trust, shuffled.scope) == (1, 1e-6, "shuffle", ("sex",))
    (note,) = (note for note in statement.notes if "after shuffling" in note)
    assert "was asked for epsilon 1, delta 0.000001 after shuffling" in note
    assert "at least 10,000 reports of honest persons" in note
    assert ("only their sums are released" in note) == (released == "tally")
    alone = "only these reports in a random order of their own, apart from reports of other steps and from"
    assert (alone in note) == (released == "reports")
    assert "Those who shuffle or sum them are trusted" in note
    assert f"Each report by itself has epsilon {str(local)[:5]}" in note
    assert "charged to a ledger, because reports leave this step unshuffled" in note
    assert type(statement).from_json(statement.to_json()).steps == statement.steps
    assert "After shuffling</th>" in statement.to_html()
    assert "After shuffling</th>" not in privacy_statement(sex().fit(X[["sex"]])).to_html()


def test_reports_of_several_steps_are_to_be_shuffled_apart():
    """In the rows of one table, the pair of a person's reports may be the only one of its kind."""
    shuffled = Shuffled(1.0, 1e-6, 10_000, released="reports")
    job = RandomizedResponseEncoder(shuffled, categories={"job": JOBS})
    columns = ColumnTransformer([("sex", sex(shuffled), ["sex"]), ("job", job, ["job"])]).fit(X)
    statement = privacy_statement(columns)
    local = statement.steps[0].guarantee.epsilon
    # All others say "F" and "clerk" truly; the pair "M", "cook" is reported for the one who says so, or for none.
    both = 1 / (math.exp(local) + 1)
    of_none = 1 - (1 - both**2) ** 10_000
    of_one = 1 - (1 - both**2) ** 9_999 * (1 - (1 - both) ** 2)
    assert of_one - math.exp(2) * of_none > 0.1
    assert statement.total.epsilon == pytest.approx(2 * local)
    assert [note.count("apart from reports of other steps") for note in statement.notes[:2]] == [1, 1]
    assert statement.to_html().count("not beside other reports or columns of the same rows") == 2


def test_each_of_several_collections_is_shuffled_by_itself():
    model = make_pipeline(sex(Shuffled(1.0, 1e-6, 10_000)), OneHotEncoder(), LogisticRegression())
    statement = privacy_statement(StackingClassifier([("one", model)], cv=2).fit(X[["sex"]], Y))
    step = statement.steps[0]
    assert (step.shuffled.epsilon, step.shuffled.delta) == (3, pytest.approx(3e-6))
    assert step.guarantee.epsilon == statement.total.epsilon > 12


@pytest.mark.filterwarnings("ignore::UserWarning")  # so few rows, and classes that are read
def test_a_target_with_the_name_of_a_column_is_kept_apart():
    model = DPLogisticRegression(1.0, classes=[0, 1], bounds=(-3, 3), max_iter=2)
    numeric = X[["age", "pay"]]
    for name, own in [("pay", "target"), ("ill", "ill")]:
        scaled = make_pipeline(StandardScaler(), clone(model)).fit(numeric, pd.Series(Y, name=name))
        statement = privacy_statement(scaled)
        assert said(statement) == {
            "age": ["statistics only", AS_IS],
            "pay": ["statistics only", AS_IS],
            own: ["statistics only"],
        }
        assert statement.total.scope == (own,)
    renamed = numeric.rename(columns={"age": "target"})
    statement = privacy_statement(make_pipeline(StandardScaler(), clone(model)).fit(renamed, pd.Series(Y, name="pay")))
    assert statement.total.scope == ("(target)",)
    # What learns the target may learn the column of its name.
    steps = make_pipeline(numbers(), StandardScaler(), DPRidge(1.0, bounds=(-3, 3), target_bounds=(0, 1)))
    steps.fit(numeric, pd.Series(Y, name="pay"))
    assert privacy_statement(steps).total.scope == ("age", "pay", "target")
    learner = LinearRegression().fit(numeric, Y)
    steps.steps.append(("learner", learner))
    assert privacy_statement(steps).total.scope == ("age",)
    read = clone(model).set_params(classes=None)
    read = make_pipeline(numbers(), StandardScaler(), read).fit(numeric, pd.Series(Y, name="pay"))
    statement = privacy_statement(read)
    assert statement.read_columns == [("target", "dplogisticregression: DPLogisticRegression")]
    assert statement.total.scope == ("age", "pay")


def test_another_epsilon_after_fit_is_not_stated_as_that_of_the_reports():
    encoder = sex(4.0).fit(X[["sex"]]).set_params(epsilon=Shuffled(0.001, 1e-6, 100))
    statement = privacy_statement(encoder)
    assert 1 < statement.steps[0].shuffled.epsilon <= 4
    assert "was asked for epsilon 0.001" in statement.notes[0]


LAST = {"importance_getter": lambda fitted: fitted[-1].coef_}
MORE = {
    "passing on": lambda model: StackingRegressor([("one", model)], cv=2, passthrough=True),
    "selecting": lambda model: SelectFromModel(model, **LAST),
    "eliminating": lambda model: RFE(model, n_features_to_select=1, **LAST),
    "telling inliers": lambda model: RANSACRegressor(model, min_samples=0.5, residual_threshold=1e9),
}


@pytest.mark.parametrize("wrapped", MORE.values(), ids=MORE)
def test_estimators_that_do_more_with_the_table_than_hand_it_on(wrapped):
    model = wrapped(make_pipeline(numbers(), LinearRegression())).fit(X[["age", "pay"]], Y)
    assert said(privacy_statement(model)) == {"age": [ROWS, AS_IS], "pay": [ROWS, AS_IS]}
    assert privacy_statement(model).total is None


@pytest.mark.parametrize(("bootstrap", "texts"), [(False, [FIT_ONLY] * 3), (True, [FIT_ONLY] * 3 + [AS_IS])])
def test_a_row_that_is_drawn_several_times_is_released_as_often(bootstrap, texts):
    """Here, in one of the three fits, some row is drawn at least twice, with coins of its own each time."""
    numeric = make_pipeline(OnFitOnly(numbers()), LogisticRegression())
    bag = BaggingClassifier(numeric, n_estimators=3, bootstrap=bootstrap).fit(X[["age"]].to_numpy(), Y)
    assert said(privacy_statement(bag)) == {"x0": texts}


KNOWN = {
    "voting": lambda model: VotingClassifier([("one", model)]),
    "one against the rest": OneVsRestClassifier,
    "one against one": OneVsOneClassifier,
    "threshold": lambda model: FixedThresholdClassifier(model, threshold=0.4),
    "bagging": lambda model: BaggingClassifier(model, 2, bootstrap=False),
}


@pytest.mark.parametrize("wrapped", KNOWN.values(), ids=KNOWN)
def test_what_hands_the_table_to_its_parts_and_keeps_nothing_of_it(wrapped):
    for private, text in ((OnFitOnly(numbers()), FIT_ONLY), (numbers(), ROWS)):
        model = wrapped(make_pipeline(private, LogisticRegression())).fit(X[["age"]], Y)
        statement = privacy_statement(model)
        assert set(said(statement)["age"]) == {text}
        assert statement.total.epsilon == pytest.approx(len(statement.rows))


SCORED = {
    "stack": lambda model: StackingClassifier([("one", model)], final_estimator=DecisionTreeClassifier(), cv=2),
    "prefit stack": lambda model: StackingClassifier(
        [("one", model.fit(X[["sex"]], Y))], final_estimator=DecisionTreeClassifier(), cv="prefit"
    ),
    "search": lambda model: GridSearchCV(model, {"logisticregression__C": [1, 2]}, cv=2),
    "threshold": lambda model: TunedThresholdClassifierCV(model, cv=2, thresholds=5),
    "calibration": lambda model: CalibratedClassifierCV(model, cv=2),
    "frozen calibration": lambda model: CalibratedClassifierCV(FrozenEstimator(model.fit(X[["sex"]], Y)), cv=2),
    "stack of votes": lambda model: StackingClassifier([("one", VotingClassifier([("two", model)]))], cv=2),
    "search in votes": lambda model: VotingClassifier([("one", GridSearchCV(model, {}, cv=2))]),
    "votes before a model": lambda model: make_pipeline(VotingClassifier([("one", model)]), DecisionTreeClassifier()),
}


@pytest.mark.parametrize("scored", SCORED.values(), ids=SCORED)
def test_what_learns_from_predictions_for_true_rows_is_not_protected_at_fit(scored):
    statement = privacy_statement(scored(fit_only(50)).fit(X[["sex"]], Y))
    texts = said(statement)["sex"]
    assert set(texts[:-1]) == {FIT_ONLY}
    assert texts[-1] == AS_IS
    assert statement.total is None
    # Where rows are privatised whenever they are used, this is about privatised rows; only the target is true.
    statement = privacy_statement(scored(always(50)).fit(X[["sex"]], Y))
    assert set(said(statement)["sex"]) == {ROWS}
    assert statement.total.trust == "local"
    learns = statement.notes[-1]
    assert learns.startswith("The target, which is no column of X, is learnt from as it is by: ")
    assert re.search("DecisionTree|final_estimator_|GridSearchCV|Threshold|Calibrated", learns)


def test_a_search_learns_its_scores_from_the_test_rows_of_a_private_model():
    class Model(Statistic):
        def predict(self, X):
            return np.zeros(len(X), int)

        score = lambda self, X, y: 0.5  # noqa: E731

    statement = privacy_statement(GridSearchCV(Model(), {}, cv=2).fit(X[["age"]], Y), None, Model)
    assert said(statement) == {"age": ["statistics only", AS_IS]}
    assert said(privacy_statement(Model().fit(X[["age"]]), None, Model)) == {"age": ["statistics only"]}


def test_rows_that_were_privatised_before_are_so_for_scores_too():
    encode = make_pipeline(OnFitOnly(sex()), OneHotEncoder(sparse_output=False))
    model = make_pipeline(encode, GridSearchCV(LogisticRegression(), {"C": [1, 2]}, cv=2)).fit(X[["sex"]], Y)
    statement = privacy_statement(model)
    assert said(statement) == {"sex": [FIT_ONLY]}
    assert statement.total.epsilon == 1


@pytest.mark.parametrize("kept", [lambda step: step, lambda step: make_pipeline(step)], ids=["alone", "in a pipeline"])
def test_what_is_frozen_transforms_the_rows_of_fit(kept):
    """It has no `fit_transform`, so that the model learns from the true values."""
    table = X[["age"]]
    first = FrozenEstimator(kept(OnFitOnly(numbers())).fit(table))
    model = make_pipeline(first, LogisticRegression()).fit(table, Y)
    seen = first.transform(table)
    assert np.array_equal(seen, OnFitOnly(numbers()).fit(table).transform(table))
    statement = privacy_statement(model)
    assert said(statement) == {"age": [FIT_ONLY, AS_IS]}
    assert statement.total is None


class Keeper(BaseEstimator):
    """Nobody knows what it does: here, it keeps the table."""

    def __init__(self, estimator=None, keep=True):
        self.estimator = estimator
        self.keep = keep

    def fit(self, X, y=None):
        self.estimator_ = clone(self.estimator).fit(X, y)
        if self.keep:
            self.X_ = X
        return self

    def predict(self, X):
        return self.estimator_.predict(X)


class Subclass(VotingClassifier):
    """Perhaps it does more than what it comes from."""


def test_an_estimator_of_estimators_that_is_not_known_may_keep_the_table():
    for keep in (True, False):
        statement = privacy_statement(Keeper(always(), keep).fit(X[["sex"]], Y), X[["sex"]])
        assert said(statement) == {"sex": [ROWS, AS_IS]}
        assert statement.rows["step"].tolist() == [
            "Keeper / 0 / randomizedresponseencoder: RandomizedResponseEncoder",
            "Keeper",
        ]
        assert statement.total is None
    inherited = Subclass([("one", always())]).fit(X[["sex"]], Y)
    assert said(privacy_statement(inherited)) == {"sex": [ROWS, AS_IS]}
    after = make_pipeline(sex(), Keeper(make_pipeline(OneHotEncoder(), LogisticRegression()))).fit(X[["sex"]], Y)
    assert said(privacy_statement(after)) == {"sex": [ROWS]}
    # In whatever it keeps them, all that they have spent is counted.
    several = Keeper()
    several.__dict__ |= {
        "models_": {"a": [always().fit(X[["sex"]], Y)]},
        "_b": np.array([sex().fit(X[["sex"]])], object),
    }
    several.again_ = several.models_["a"][0]
    assert said(privacy_statement(several, X[["sex"]])) == {"sex": [ROWS, ROWS, AS_IS]}


def test_a_part_that_promises_does_not_hide_one_that_learns():
    """The regressor has all of X; the promise of the transformer is about y."""
    central = DPStandardScaler(1.0, bounds=(-3, 3))
    hidden = TransformedTargetRegressor(KNeighborsRegressor(1), transformer=central).fit(X[["age", "pay"]], Y)
    statement = privacy_statement(hidden)
    assert said(statement) == {"age": [AS_IS], "pay": [AS_IS], "(target)": ["statistics only", AS_IS]}
    assert statement.total is None
    assert statement.rows["step"].tolist()[0] == "TransformedTargetRegressor / 0: KNeighborsRegressor"
    assert "TransformedTargetRegressor / 0: KNeighborsRegressor" in statement.notes[-1]


def test_what_is_spent_on_the_target_is_in_the_total():
    regressor = make_pipeline(sex(), OneHotEncoder(), LinearRegression())
    central = DPStandardScaler(5.0, bounds=(-3, 3))
    for transformer in (central, make_pipeline(central)):
        model = TransformedTargetRegressor(regressor, transformer=transformer).fit(X[["sex"]], Y)
        statement = privacy_statement(model)
        assert said(statement) == {"sex": [ROWS], "(target)": ["statistics only", AS_IS]}
        # Adding or removing 5 is replacing 10.
        assert statement.total.epsilon == pytest.approx(11)
        assert (statement.total.trust, statement.total.scope) == ("central", ("sex",))
    plain = privacy_statement(TransformedTargetRegressor(regressor, transformer=StandardScaler()).fit(X[["sex"]], Y))
    assert said(plain) == {"sex": [ROWS]}
    assert plain.total.epsilon == pytest.approx(1)
    twice = privacy_statement([model, model])
    assert twice.total.epsilon == pytest.approx(22)


def test_what_learns_the_true_target_before_a_private_model_is_named():
    """The mean of a target of a StandardScaler is not noisy, whatever the model promises; logarithms learn nothing."""
    private = DPRidge(1.0, bounds=(0, 100), target_bounds=(-3, 3))
    logarithm, shares = FunctionTransformer(np.log1p), FunctionTransformer(lambda y: y / y.max())
    for transformer, learns in [(StandardScaler(), True), (shares, True), (logarithm, False), (None, False)]:
        model = TransformedTargetRegressor(private, transformer=transformer, check_inverse=False)
        statement = privacy_statement(model.fit(X[["age", "pay"]], Y))
        assert said(statement)["target"] == ["statistics only", *([AS_IS] if learns else [])]
        assert ("target" in statement.total.scope) != learns
        assert any("as it is by: TransformedTargetRegressor" in note for note in statement.notes) == learns


@pytest.mark.parametrize(
    ("selector", "learns"),
    [
        (SelectFromModel(LogisticRegression()), True),
        (SequentialFeatureSelector(LogisticRegression(), cv=2), True),
        (GenericUnivariateSelect(), True),
        (Keeper(LogisticRegression()), True),
        (VarianceThreshold(), False),
        (IsolationForest(n_estimators=2), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_learns_the_target_is_named(selector, learns):
    statement = privacy_statement(selector.fit(X[["age", "pay"]], Y))
    assert any(f"as it is by: {type(selector).__name__}" in note for note in statement.notes) == learns


def test_a_plain_model_releases_everything_once():
    forest = make_pipeline(StandardScaler(), RandomForestClassifier(5)).fit(X[["age", "pay"]], Y)
    statement = privacy_statement(forest)
    assert said(statement) == {"age": [AS_IS], "pay": [AS_IS]}
    assert statement.rows["step"][0] == "standardscaler: StandardScaler, randomforestclassifier: RandomForestClassifier"
    assert statement.total is None


def test_nothing_is_promised_of_what_is_partly_fitted():
    outer = BaggingClassifier(make_pipeline(sex(), OneHotEncoder()).fit(X[["sex"]]))
    assert said(privacy_statement(outer, X[["sex"]])) == {"sex": ["not fitted: no guarantee yet"]}
    half = Pipeline([("private", sex().fit(X[["sex"]])), ("plain", OneHotEncoder())])
    assert said(privacy_statement(half)) == {"sex": [ROWS]}


class Nameless(TransformerMixin, BaseEstimator):
    """Does not say which columns it makes."""

    def fit(self, X, y=None):
        self.fitted_ = True
        return self

    def transform(self, X):
        return X


def test_where_columns_cannot_be_followed_nothing_is_taken_for_protected():
    first = ColumnTransformer([("job", RandomizedResponseEncoder(categories={"job": JOBS}), ["job"])])
    first.set_params(remainder="passthrough", verbose_feature_names_out=False).set_output(transform="pandas")
    second = ColumnTransformer([("sex", sex(), ["sex"]), ("job", "passthrough", ["job"])])
    followed = privacy_statement(make_pipeline(first, second).fit(X))
    assert said(followed) == {"sex": [ROWS], "job": [ROWS], "age": [DROPPED], "pay": [DROPPED]}
    # Now the column that passes might be any of them.
    lost = privacy_statement(make_pipeline(first, Nameless(), second).fit(X))
    assert {name: texts[-1] for name, texts in said(lost).items()} == {
        "sex": AS_IS,
        "job": ROWS,
        "age": AS_IS,
        "pay": AS_IS,
    }
    assert lost.total.scope == ("job",)
    # It covers one of its two columns, but which of those that came in this is, nobody can tell.
    table = X[["age", "pay"]]
    model = make_pipeline(Nameless(), Synthesizer(scope=("age",))).fit(table)
    assert [texts[-1] for texts in said(privacy_statement(model, table)).values()] == [AS_IS, AS_IS]
    assert said(privacy_statement(model)) == {"(all columns)": [AS_IS], "age": [ROWS]}
    assert privacy_statement(model, table).total is privacy_statement(model).total is None
    wide = Flow.start(["age", "pay"]).spread(Column(*[frozenset(["age", "pay"])] * 3), Nameless())
    walk = Walk(["age", "pay"], [Synthesizer])
    assert walk.visit(Synthesizer(scope=("age",)).fit(table), wide).merged.raw == {"age", "pay"}


@each(
    "table", [X, pl.DataFrame(X.to_dict("list")), pa.table(X.to_dict("list")), pl.DataFrame(X.to_dict("list")).lazy()]
)
def test_x_gives_the_names_of_further_columns(table):
    statement = privacy_statement(sex().fit(X[["sex"]]), table)
    assert said(statement) == {"sex": [ROWS]} | {name: ["not seen by fit"] for name in ("job", "age", "pay")}


def test_x_names_the_columns_of_a_model_that_saw_an_array():
    encoder = RandomizedResponseEncoder(categories=[SEXES, JOBS]).fit(X[["sex", "job"]].to_numpy())
    assert said(privacy_statement(encoder)) == {"x0": [ROWS], "x1": [ROWS]}
    assert said(privacy_statement(encoder, X[["sex", "job"]])) == {"sex": [ROWS], "job": [ROWS]}
    assert said(privacy_statement(encoder, X[["sex", "job"]].to_numpy())) == {"x0": [ROWS], "x1": [ROWS]}
    with pytest.raises(ValueError, match="X has 4 columns; RandomizedResponseEncoder was fitted on 2"):
        privacy_statement(encoder, X)


def test_only_names_of_x_are_read():
    class Names:
        columns = ("sex", "job")

        def __getattr__(self, name):
            if name not in ("collect_schema", "column_names"):
                raise AssertionError(f"{name} was read")
            raise AttributeError(name)

    assert said(privacy_statement(sex().fit(X[["sex"]]), Names())) == {"sex": [ROWS], "job": ["not seen by fit"]}
    # Not the values of a column that is called as an attribute of other frames is.
    table = X[["sex"]].assign(column_names="secret", collect_schema="secret")
    statement = privacy_statement(sex().fit(X[["sex"]]), table)
    assert list(said(statement)) == ["sex", "column_names", "collect_schema"]


def test_a_client_that_never_fits():
    statement = privacy_statement(HeavyHitters(0.5))
    assert said(statement) == {"(all columns)": [ROWS]}
    assert statement.total.epsilon == pytest.approx(0.5)


def test_local_and_central_statements_about_the_same_persons_add():
    statement = privacy_statement([sex().fit(X[["sex"]]), Statistic().fit(X[["sex", "age"]])])
    assert statement.total.epsilon == 1.5
    assert statement.total.trust == "central"
    assert statement.rows["step"].tolist() == ["0: RandomizedResponseEncoder", "1: Statistic", "1: Statistic"]


def test_seeds_are_told():
    statement = privacy_statement(sex(random_state=0).fit(X[["sex"]]))
    assert "NOT SECURE" in str(statement)
    assert "NOT SECURE" in statement._repr_html_()


def test_it_shows_as_text_and_as_escaped_html():
    name = "<script>alert(1)</script>"
    table = pd.DataFrame({name: SEXES, "job": JOBS})
    columns = ColumnTransformer([("<b>", RandomizedResponseEncoder(1.0986, categories={name: SEXES}), [name])])
    statement = privacy_statement(columns.fit(table))
    assert repr(statement) == str(statement)
    assert re.search(r"1\.0986 +0 +replace +local +rows", str(statement))
    assert "Guarantee: epsilon = 1.0986, local model" in str(statement)
    assert "job" in str(statement)
    assert "nan" not in str(statement).lower()
    html = statement._repr_html_()
    assert "<script>" not in html
    assert "<b>:" not in html
    assert "&lt;script&gt;" in html
    assert "NaN" not in html


@each(
    "estimator, table, error, message",
    [
        (5, None, TypeError, "needs estimators, got int"),
        (RandomizedResponseEncoder, None, TypeError, "got the class RandomizedResponseEncoder"),
        ([], None, ValueError, "no estimator"),
        (sex().fit(X[["sex"]]), 5, TypeError, "X must be a dataframe or a 2-D array, got int"),
        (sex().fit(X[["sex"]]), X[["age"]], ValueError, r"X lacks columns .* \['sex'\]"),
    ],
)
def test_what_is_no_estimator_or_no_table(estimator, table, error, message):
    with pytest.raises(error, match=message):
        privacy_statement(estimator, table)


TABLE = pd.DataFrame({"sex": SEXES * 50, "job": JOBS * 50, "age": list(range(0, 40, 2)) * 5})
SICK = pd.Series(["no", "yes"] * 50, name="sick")
PUBLIC = {"sex": SEXES, "job": JOBS, "age": Interval(0, 40, bins=4), "sick": ["no", "yes"]}


def synthesizer(*, target=True, **options):
    domain = PUBLIC if target else {name: PUBLIC[name] for name in TABLE}
    return DPMarginalSynthesizer(1.0, domain=domain, marginals="independent", **options)


def encoded_model():
    return make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression())


def test_a_synthesizer_protects_whole_rows():
    statement = privacy_statement(synthesizer(target=False).fit(TABLE))
    assert said(statement) == {name: [ROWS] for name in TABLE}
    # There are as many rows as the table has, so who is there is no secret in them: it would have to be n with noise.
    assert (statement.total.epsilon, statement.total.relation, statement.total.trust) == (2, "replace", "central")
    assert "as many rows as it is given" in statement.notes[0]
    assert "guarantee_" in statement.notes[0]
    assert statement.notes[1:] == (
        "Each further fit costs as much again; further rows that are made from what it learnt are free.",
    )


def test_a_synthesizer_that_knows_the_target_protects_statistics_of_it():
    """`transform` returns no target; what learns it later learns it as it is."""
    statement = privacy_statement(synthesizer().fit(TABLE, SICK))
    assert said(statement) == {name: [ROWS] for name in TABLE} | {"sick": ["statistics only"]}
    assert statement.total.scope == ("sex", "job", "age", "sick")
    learnt = privacy_statement(make_pipeline(synthesizer(), encoded_model()).fit(TABLE, SICK))
    assert said(learnt) == {name: [ROWS] for name in TABLE} | {"sick": ["statistics only", AS_IS]}
    assert learnt.total.scope == ("sex", "job", "age")
    assert learnt.rows["step"].iloc[-1] == "pipeline / logisticregression: LogisticRegression"


def test_redrawn_columns_are_protected_and_the_others_are_not():
    """Beside rows that are there, it is not private that somebody is in the table, but what her values are."""
    alone = synthesizer(target=False, redraw=["age", "sex"]).fit(TABLE)
    learnt = make_pipeline(synthesizer(redraw=["age", "sex"]), encoded_model()).fit(TABLE, SICK)
    assert said(privacy_statement(alone)) == {"sex": [ROWS], "job": [AS_IS], "age": [ROWS]}
    assert said(privacy_statement(learnt)) == {
        "sex": [ROWS],
        "job": [AS_IS],
        "age": [ROWS],
        "sick": ["statistics only", AS_IS],
    }
    for statement in map(privacy_statement, (alone, learnt)):
        rows = statement.rows[statement.rows["column"].isin(["age", "sex"])]
        assert set(rows["epsilon"]) == {2.0}
        assert set(rows["relation"]) == {"replace"}
        assert (statement.total.epsilon, statement.total.relation) == (2, "replace")
        assert statement.total.scope == ("sex", "age")
        assert "as they are. These show who is there" in statement.notes[0]


@pytest.mark.parametrize(("before", "after"), [(["age"], None), (["age"], ["age", "sex"]), (None, ["age"])])
def test_columns_that_are_redrawn_later_were_not_at_fit(before, after):
    learnt = make_pipeline(synthesizer(redraw=before), encoded_model()).fit(TABLE, SICK)
    learnt[0].set_params(redraw=after)
    statement = privacy_statement(learnt)
    assert said(statement)["age"] == [ROWS]
    assert said(statement)["sex"] == said(statement)["job"] == [AS_IS]
    assert statement.total.scope == ("age",)


def test_a_redrawn_column_may_show_those_that_it_was_drawn_from():
    """The model knows how columns hang together: without the other column, the redrawn one tells of it."""
    alone = ColumnTransformer([("age", "passthrough", ["age"])])
    steps = make_pipeline(synthesizer(target=False, redraw=["age"]), alone).fit(TABLE)
    assert said(privacy_statement(steps)) == {"sex": [AS_IS], "job": [AS_IS], "age": [ROWS]}


def test_columns_of_arrays_are_redrawn_too():
    table = np.array([[0.0, 1.0], [1.0, 0.0]] * 20)
    fitted = DPMarginalSynthesizer(domain=[[0, 1], [0, 1]], redraw=["x1"]).fit(table)
    assert said(privacy_statement(fitted)) == {"x0": [AS_IS], "x1": [ROWS]}
    assert said(privacy_statement(fitted, pd.DataFrame(table, columns=["a", "b"]))) == {"a": [AS_IS], "b": [ROWS]}
    numbered = pd.DataFrame(table)
    fitted = DPMarginalSynthesizer(domain={0: [0, 1], 1: [0, 1], "target": [0, 1]}).fit(numbered, [0, 1] * 20)
    assert said(privacy_statement(fitted)) == {0: [ROWS], 1: [ROWS], "target": ["statistics only"]}


def resampled():
    return make_resampling_pipeline(SyntheticResampler(synthesizer()), encoded_model())


def test_a_resampler_protects_rows_at_fit_and_the_target_with_them():
    pipeline = resampled().fit(TABLE, SICK)
    for estimator in (pipeline, pipeline[0]):
        statement = privacy_statement(estimator)
        assert said(statement) == {name: [FIT_ONLY] for name in [*TABLE, "sick"]}
        assert statement.total.scope == ("sex", "job", "age", "sick")
        assert statement.total.epsilon == 1
        assert not any("target" in note for note in statement.notes)


def test_the_target_stays_protected_in_the_steps_after_a_resampler():
    first = ColumnTransformer(
        [("sex", sex(), ["sex"]), ("job", "passthrough", ["job"])], verbose_feature_names_out=False
    )
    steps = (first.set_output(transform="pandas"), both(), encoded_model())
    pipeline = make_resampling_pipeline(SyntheticResampler(synthesizer()), *steps).fit(TABLE, SICK)
    statement = privacy_statement(pipeline)
    assert said(statement)["sick"] == [FIT_ONLY]
    assert not any("target" in note for note in statement.notes)
    beside = ColumnTransformer([("age", StandardScaler(), ["age"])]).fit(TABLE)
    learnt = make_pipeline(beside, LogisticRegression()).fit(TABLE, SICK)
    assert "target" in privacy_statement(learnt).notes[-1]


def test_what_learns_beside_a_resampler_is_told():
    before = ColumnTransformer(
        [("age", StandardScaler(), ["age"])], remainder="passthrough", verbose_feature_names_out=False
    )
    scaled = make_resampling_pipeline(
        before.set_output(transform="pandas"),
        SyntheticResampler(synthesizer().set_params(domain=PUBLIC | {"age": Interval(-3, 3, bins=4)})),
        encoded_model(),
    )
    statement = privacy_statement(scaled.fit(TABLE, SICK))
    assert said(statement)["age"] == [FIT_ONLY, AS_IS]
    assert said(statement)["sex"] == [FIT_ONLY]
    searched = privacy_statement(GridSearchCV(resampled(), {}, cv=2).fit(TABLE, SICK))
    assert said(searched) == {name: [FIT_ONLY, AS_IS] for name in [*TABLE, "sick"]}
    assert searched.total is None


def test_a_resampler_inside_other_estimators_is_found():
    domain = {name: PUBLIC[name] for name in TABLE} | {"target": [0, 1]}  # votes are counted by numbers
    step = SyntheticResampler(synthesizer().set_params(domain=domain))
    votes = VotingClassifier([("one", make_resampling_pipeline(step, encoded_model()))]).fit(TABLE, SICK)
    statement = privacy_statement(votes)
    # Votes are for the classes that occur in the true target.
    read = f"categories read from the data: {AS_IS}"
    assert said(statement) == {name: [FIT_ONLY] for name in TABLE} | {"target": [FIT_ONLY, read]}
    assert (statement.total.epsilon, statement.total.relation) == (2, "replace")
    assert statement.total.scope == tuple(TABLE)
