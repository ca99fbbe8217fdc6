"""Statements before fit: at least the charges of a ledger, and no total if they are unknown."""

from functools import reduce
from operator import add

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, StandardScaler

import skdp
from skdp import privacy_statement
from skdp.privacy import Mu, PrivacyGuarantee, Rho
from tests.estimators import SUBJECTS

N = 120
DECLARED = {"sex": ["F", "M"], "job": ["clerk", "cook"]}
BOUNDS = {"age": (17, 90), "hours": (0, 100)}
ROWS = "max_rows_per_person"
"""A parameter of the central estimators."""
TEXT, NUMBERS = list(DECLARED), list(BOUNDS)
rng = np.random.default_rng(5)
TABLE = pd.DataFrame(
    {
        "sex": rng.choice(DECLARED["sex"], N),
        "job": rng.choice(DECLARED["job"], N),
        "age": rng.integers(17, 90, N),
        "hours": rng.random(N) * 100,
    }
)
SICK = pd.Series(np.arange(N) % 2, name="sick")

pytestmark = pytest.mark.filterwarnings("ignore:The noise", "ignore:.* fewer bins than")


def with_ledger(estimator, ledger):
    """Return a copy in which each step charges a ledger."""
    copy = clone(estimator)
    names = [name for name in copy.get_params() if name.rpartition("__")[2] == "ledger"]
    return copy.set_params(**dict.fromkeys(names, ledger))


def released_once(estimator, X, y):
    """Fit, and privatize the rows once, if possible."""
    ids = {"person": np.arange(len(X))} if getattr(estimator, "memoize", False) else {}
    for call in ("fit_transform", "fit_resample", "fit"):
        if hasattr(estimator, call):
            return getattr(estimator, call)(X, y, **ids)


def response(**options):
    return skdp.RandomizedResponseEncoder(**({"categories": DECLARED} | options))


def scaler(**options):
    return skdp.DPStandardScaler(**({"epsilon": 0.1, "bounds": BOUNDS} | options))


def plans_of_every_estimator():
    """Yield each estimator, and estimators of budgets in rho and mu with fractions of a budget."""
    for estimator, X in SUBJECTS:
        if isinstance(estimator, skdp.HeavyHitters):
            continue  # its clients never fit: guarantee_ exists before
        yield estimator, X
        parameters = estimator.get_params()
        owner = next((name[: -len(ROWS)] for name in parameters if name.endswith(ROWS)), None)
        if owner is None:
            continue
        # Estimators of one base class convert a rho alike.
        for share, marks in ((Mu(0.3, delta=1e-6), ()), (Rho(0.1, delta=1e-6), pytest.mark.long)):
            own = {f"{owner}epsilon": share, f"{owner}{ROWS}": 2}
            if parameters.get(f"{owner}delta"):
                own[f"{owner}delta"] = 0.0
            yield pytest.param(clone(estimator).set_params(**own), X, marks=marks)


@pytest.mark.parametrize(("estimator", "X"), list(plans_of_every_estimator()))
def test_plan_states_at_least_the_charge(estimator, X):
    ledger = skdp.PrivacyLedger(epsilon=1e4, delta=0.5)
    copy = with_ledger(estimator, ledger)
    statement = privacy_statement(copy)
    assert ledger.spent == (0.0, 0.0)
    assert statement.notes
    if not statement.steps:  # twice its delta exceeds 1, and rows are for replacing a record
        assert estimator.delta == 0.1
        return
    (step,) = statement.steps
    assert not step.fitted
    target = pd.Series(np.arange(len(X)) % 2, name="target")
    released_once(copy, X, target if copy.__sklearn_tags__().target_tags.required else None)
    assert step.guarantee.epsilon >= ledger.spent.epsilon
    assert step.guarantee.delta >= ledger.spent.delta
    stated, charged = step.guarantee, privacy_statement(copy).steps[0].guarantee
    assert (stated.relation, stated.trust) in ((charged.relation, charged.trust), ("add_remove", "central"))
    assert stated.unit == charged.unit
    assert stated.max_rows_per_person >= charged.max_rows_per_person
    if charged.rho is not None and stated.rho is not None:
        assert stated.rho >= charged.rho


SCALED = make_pipeline(scaler(), LogisticRegression())
REPORTED = make_pipeline(response(), OneHotEncoder(), LogisticRegression())
AT_FIT = make_pipeline(skdp.OnFitOnly(response()), OneHotEncoder(), LogisticRegression())
GRID = {"logisticregression__C": [1, 2]}
PIPELINES = {
    "response and model": (REPORTED, TEXT),
    "on fit only": (AT_FIT, TEXT),
    "scaler and model": (SCALED, NUMBERS),
    "two charges for a column": (
        make_pipeline(scaler(), skdp.DPLogisticRegression(0.5, delta=1e-6, bounds=(-3, 3), classes=[0, 1])),
        NUMBERS,
    ),
    "by columns": (ColumnTransformer([("text", response(), TEXT), ("numbers", scaler(), NUMBERS)]), None),
    "search behind": (make_pipeline(scaler(), GridSearchCV(LogisticRegression(), {"C": [1, 2]}, cv=3)), NUMBERS),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_plan_of_a_pipeline_equals_the_charges(name):
    estimator, columns = PIPELINES[name]
    ledger, X = skdp.PrivacyLedger(epsilon=1000.0, delta=0.1), TABLE if columns is None else TABLE[columns]
    copy = with_ledger(estimator, ledger)
    plans = []
    for given in (None, X):
        statement = privacy_statement(copy, given)
        plans.append(reduce(add, (step.guarantee for step in statement.steps)))
    released_once(copy, X, SICK)
    for planned in plans:
        assert (planned.epsilon, planned.delta) == pytest.approx(tuple(ledger.spent), rel=1e-9)
        assert planned.epsilon >= ledger.spent.epsilon


UNKNOWN = {
    "a search that privatizes what it scores": GridSearchCV(REPORTED, GRID),
    "a search that fits a private step": GridSearchCV(SCALED, GRID),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_loss_before_fit_has_no_total(name):
    for X in (None, TABLE, skdp.Domain(DECLARED | {"age": [20, 30], "hours": [1, 2]})):
        assert privacy_statement(UNKNOWN[name], X).total is None


def protections(statement):
    rows = statement.rows.drop_duplicates("column")
    return dict(zip(rows["column"], rows["protection"], strict=True))


class Unnamed(BaseEstimator):
    """Estimator of another author, which has the names of its columns in its guarantee only."""

    def fit(self, X, y=None):
        self.guarantee_ = PrivacyGuarantee(1, trust="central", scope=("age", "sex"))
        return self


def test_guarantee_names_columns_that_the_estimator_does_not_name():
    statement = privacy_statement(Unnamed().fit(None), trusted=[Unnamed])
    assert list(protections(statement)) == ["age", "sex"]


def test_columns_are_the_columns_of_the_steps():
    chosen = [("text", response(), TEXT), ("numbers", skdp.NumericPerturber(bounds=BOUNDS), NUMBERS)]
    rows = "privatized rows"
    assert protections(privacy_statement(response())) == {"(all columns)": rows}
    assert protections(privacy_statement(response(), TABLE[TEXT])) == dict.fromkeys(TEXT, rows)
    assert protections(privacy_statement(ColumnTransformer(chosen))) == dict.fromkeys([*TEXT, *NUMBERS], rows)
    by_dtype = ColumnTransformer([("text", response(), make_column_selector(dtype_exclude="number"))])
    assert protections(privacy_statement(by_dtype, TABLE)) == dict.fromkeys(TABLE, rows)  # the dtypes are not read
    by_dtype.set_params(remainder="passthrough")
    assert privacy_statement(by_dtype, TABLE).total is None
    assert set(protections(privacy_statement(by_dtype, TABLE)).values()) == {
        "unprotected: true values are in the output"
    }


def test_plan_states_the_protection_after_fit():
    only = privacy_statement(skdp.OnFitOnly(response()), TABLE[TEXT])
    assert protections(only) == dict.fromkeys(TEXT, "privatized rows in fit, unprotected in transform and predict")
    assert privacy_statement(scaler(), TABLE[NUMBERS]).unprotected_columns == NUMBERS
    assert (
        protections(privacy_statement(skdp.DPMean(bounds=BOUNDS), TABLE[NUMBERS]))["age"]
        == "private statistics of this step"
    )
    read = privacy_statement(response(categories="auto"), TABLE[TEXT])
    assert (read.total, read.unprotected_columns) == (None, TEXT)
    learnt = privacy_statement(make_pipeline(response(), LogisticRegression()))
    assert "true values are learned by: logisticregression: LogisticRegression." in str(learnt)


def private_target():
    return skdp.DPLogisticRegression(protect="target", classes=[0, 1], random_state=0)


def test_target_is_protected_after_a_column_transformer():
    behind = make_pipeline(ColumnTransformer([("all", StandardScaler(), NUMBERS)]), private_target())
    for statement in (
        privacy_statement(behind, TABLE),
        privacy_statement(behind.fit(TABLE, SICK.rename("target")), TABLE),
    ):
        assert (statement.total.scope, statement.total.relation) == (("target",), "replace_values")
        assert set(statement.unprotected_columns) == set(NUMBERS)


def test_columns_after_a_column_transformer_have_no_total():
    """Before fit, an unknown target was stated as protected."""
    private = skdp.DPColumnSynthesizer(["sex"], domain=DECLARED, random_state=0)
    names = ColumnTransformer([("text", "passthrough", TEXT)], verbose_feature_names_out=False)
    behind = make_pipeline(names.set_output(transform="pandas"), private)
    for statement in (privacy_statement(behind, TABLE[TEXT]), privacy_statement(behind.fit(TABLE[TEXT]), TABLE[TEXT])):
        assert statement.total is None
        assert "privatized" not in " ".join(protections(statement).values())
        assert "first step" in str(statement)


def test_columns_within_a_column_transformer_are_protected():
    private = skdp.DPColumnSynthesizer(["sex"], domain=DECLARED, random_state=0)
    within = ColumnTransformer([("text", private, TEXT)], remainder="passthrough")
    for statement in (privacy_statement(within, TABLE), privacy_statement(within.fit(TABLE), TABLE)):
        assert (statement.total.scope, statement.total.relation) == (("sex",), "replace_values")
        assert statement.unprotected_columns == ["job", *NUMBERS]


def test_total_with_protected_values_excludes_columns_of_other_estimators():
    private = skdp.DPColumnSynthesizer(["sex"], domain=DECLARED, random_state=0).fit(TABLE[TEXT])
    for other, columns in ((scaler(), NUMBERS), (response(categories={"job": DECLARED["job"]}), ["job"])):
        assert privacy_statement([private, other.fit(TABLE[columns])]).total.scope == ("sex",)


def test_partly_fitted_pipeline_has_no_plan():
    pipeline = make_pipeline(response(), OneHotEncoder(), LogisticRegression()).fit(TABLE[TEXT], SICK)
    pipeline.set_params(randomizedresponseencoder=response(epsilon=0.1))
    assert privacy_statement(pipeline).total is None
    fitted = response().fit(TABLE[TEXT])
    assert len(privacy_statement([fitted, scaler()], TABLE).steps) == 1


def test_private_target_that_is_a_column_after_a_step_without_names():
    """It was stated as protected, although the column of its name is released unchanged."""
    X = TABLE[NUMBERS].assign(sick=SICK)
    pipeline = make_pipeline(StandardScaler(), private_target()).fit(X, SICK.rename("sick"))
    statement = privacy_statement(pipeline, X)
    assert statement.total is None


def test_domain_of_a_computed_column_is_stated_for_the_columns_of_the_table():
    found = PrivacyGuarantee(0.5, relation="add_remove", trust="central")
    domain = skdp.Domain({"a^2": skdp.Interval(0, 1)}).with_guarantee(found)
    square = PolynomialFeatures((2, 2), include_bias=False).set_output(transform="pandas")
    pipeline = make_pipeline(square, skdp.DPStandardScaler(1.0, bounds=domain))
    X = pd.DataFrame({"a": np.linspace(0, 1, 50)})
    rows = privacy_statement(pipeline.fit(X), X).rows
    assert rows.loc[rows["step"] == "domain", ["column", "epsilon"]].to_numpy().tolist() == [["a", 0.5]]
