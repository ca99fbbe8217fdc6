"""Statements of single estimators: the total is the guarantee of `fit` and `sample`."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import skdp
from skdp import privacy_statement
from tests.estimators import SUBJECTS, fit

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

SEXES, JOBS = ["f", "m"], ["clerk", "cook"]
TABLE = pd.DataFrame({"sex": SEXES * 30, "job": JOBS * 30, "age": np.arange(60.0)})
PERSONS = np.arange(60) // 2
SICK = pd.Series([0, 1] * 30, name="sick")
DOMAIN = {"sex": SEXES, "job": JOBS, "age": skdp.Interval(0, 60, bins=4, real=True)}
AGE = TABLE[["age"]]


def synthesizer(**options):
    return skdp.DPMarginalSynthesizer(1.0, domain=DOMAIN, marginals="independent", **options)


def amounts(guarantee):
    names = ("epsilon", "delta", "rho", "relation", "trust", "unit")
    return [getattr(guarantee, name) for name in names]


CENTRAL = [(one, X) for one, X in SUBJECTS if type(one).__name__.startswith(("DP", "Synthetic"))]


@pytest.mark.parametrize(("estimator", "X"), CENTRAL, ids=[type(one).__name__ for one, _ in CENTRAL])
def test_total_of_a_single_curator_equals_its_guarantee(estimator, X):
    estimator = clone(estimator)
    if "classes" in estimator.get_params():
        estimator.set_params(classes=[0, 1])
    fit(estimator, X)
    statement = privacy_statement(estimator)
    assert amounts(statement.total) == amounts(estimator.guarantee_)
    assert statement.total.scope == tuple(estimator.guarantee_.scope)
    assert "<h2>In odds</h2>" in statement.to_html()


GROUPED = {
    "synthesizer": (synthesizer, TABLE, None),
    "mean": (lambda **rows: skdp.DPMean(1.0, bounds=(0, 60), **rows), AGE, None),
    "scaler": (lambda **rows: skdp.DPStandardScaler(1.0, bounds=(0, 60), **rows), AGE, None),
    "histogram": (lambda **rows: skdp.DPHistogram(1.0, domain={"sex": SEXES}, **rows), TABLE[["sex"]], None),
    "model": (lambda **rows: skdp.DPLogisticRegression(bounds=(0, 60), classes=[0, 1], **rows), AGE, SICK),
}


@pytest.mark.parametrize("name", GROUPED)
def test_total_with_groups_protects_all_rows_of_a_person(name, tmp_path_factory):
    make, X, y = GROUPED[name]
    fitted = make(max_rows_per_person=2).fit(X, y, person=PERSONS)
    path = tmp_path_factory.mktemp("model") / "model.skops"
    skdp.save(fitted, path)
    for estimator in (fitted, skdp.load(path)):
        statement = privacy_statement(estimator)
        assert amounts(statement.total) == amounts(fitted.guarantee_)
        assert (statement.total.unit, statement.total.relation) == ("person", "add_remove")
        assert "No column has a total" not in str(statement)
        assert "times in 100" in statement.to_html()


def test_total_of_a_synthesizer_equals_the_ledger():
    ledger = skdp.PrivacyLedger(5.0)
    fitted = synthesizer(ledger=ledger).fit(TABLE)
    for statement in (privacy_statement(synthesizer()), privacy_statement(fitted), privacy_statement(ledger)):
        assert (statement.total.epsilon, statement.total.relation) == (1.0, "add_remove")
    assert "fit and sample" in str(privacy_statement(fitted))


def test_total_of_a_list_does_not_count_transform():
    both = [synthesizer().fit(TABLE), skdp.DPMean(0.5, bounds=(0, 60)).fit(AGE)]
    total = privacy_statement(both).total
    assert (total.epsilon, total.relation) == (1.5, "add_remove")


def test_total_of_a_column_synthesizer_equals_its_guarantee():
    fitted = skdp.DPColumnSynthesizer(["sex"], domain=DOMAIN).fit(TABLE)
    statement = privacy_statement(fitted)
    assert amounts(statement.total) == amounts(fitted.guarantee_)
    assert statement.unprotected_columns == ["job", "age"]


@pytest.mark.parametrize("n_columns", [1, 2])
def test_integer_column_names_are_stated(n_columns):
    """A fault of the names was invisible with an odd number of columns."""
    X = pd.DataFrame(dict.fromkeys(range(10, 10 + n_columns), AGE["age"]))
    model = skdp.DPLogisticRegression(bounds=(0, 60), classes=[0, 1]).fit(X, SICK)
    assert privacy_statement(model).total.scope == (*X.columns, "sick") == model.guarantee_.scope


def test_total_contains_the_domain_once():
    domain = skdp.discover_domain(AGE, 3.0, 0.0, max_rows_per_person=2, person=PERSONS)
    fitted = skdp.DPMean(1.0, bounds=domain, max_rows_per_person=2).fit(AGE, person=PERSONS)
    total = privacy_statement(fitted).total
    assert (total.epsilon, total.unit) == (1.0 + domain.guarantee.epsilon, "person")


def test_model_in_a_pipeline_keeps_its_guarantee():
    declared = skdp.DPMinMaxScaler(bounds=(0, 60))
    pipeline = make_pipeline(declared, skdp.DPLogisticRegression(bounds=(0, 1), classes=[0, 1]))
    pipeline.fit(AGE, SICK)
    assert amounts(privacy_statement(pipeline).total) == amounts(pipeline[-1].guarantee_)


def test_rows_of_a_single_scaler_are_listed_as_unprotected():
    statement = privacy_statement(skdp.DPStandardScaler(0.5, bounds=(0, 60)).fit(AGE))
    assert statement.unprotected_columns == ["age"]
    headline = statement.to_dict()["headline"]
    assert headline.startswith("Unprotected in the rows that transform returns: age. At most ")
    page = statement.to_html()
    assert "unprotected in transform: true values are in its output" in page


@pytest.mark.parametrize(
    ("estimator", "X"),
    [(skdp.DPMinMaxScaler(bounds=(0, 60)), AGE), (skdp.DPOneHotEncoder(categories={"sex": SEXES}), TABLE[["sex"]])],
)
def test_guarantee_without_a_release_names_the_central_model(estimator, X):
    guarantee = clone(estimator).fit(X).guarantee_
    assert (guarantee.epsilon, guarantee.trust) == (0.0, "central")
    assert "epsilon = 0, central model" in str(privacy_statement(clone(estimator).fit(X)))
    # Reports together with this guarantee do not require a trusted curator.
    assert (guarantee + skdp.PrivacyGuarantee(1.0)).trust == "local"
