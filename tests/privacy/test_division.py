"""Parts of a budget for the private steps of a pipeline: exact sums over all fits, and errors before a charge."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy.stats import randint
from sklearn.base import BaseEstimator, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import AdaBoostClassifier, BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    HalvingRandomSearchCV,
    KFold,
    LeaveOneOut,
    RandomizedSearchCV,
    TunedThresholdClassifierCV,
    cross_val_score,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import Pipeline, make_pipeline

import skdp
from skdp.privacy import Mu, Rho, Split, parse_budget


def table(n=120):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"job": rng.choice(["a", "b"], n), "age": rng.normal(40, 9, n), "pay": rng.normal(9, 2, n)})
    return X, rng.random(n) < np.where(X["job"] == "a", 0.8, 0.2)


def pipeline(**model):
    """Return a pipeline with nothing declared, five private steps and an encoder that reads no value."""
    text, numbers = make_column_selector(dtype_exclude="number"), make_column_selector(dtype_include="number")
    columns = make_column_transformer(
        (skdp.DPTargetEncoder(delta=1e-6), text),
        (skdp.DPOneHotEncoder(categories={"job": ["a", "b"]}), ["job"]),
        (make_pipeline(skdp.DPSimpleImputer(), skdp.DPStandardScaler()), numbers),
    )
    return make_pipeline(columns, skdp.DPPCA(), skdp.DPLogisticRegression(**model))


def only(parts, parameter):
    return {name.split("__")[-2]: x for name, x in parts.items() if name.endswith(f"__{parameter}")}


def test_parts_are_in_proportion_to_own_epsilons_and_deltas():
    parts = skdp.PrivacyLedger(1.2, delta=1e-5).split(pipeline(epsilon=2.0, delta=3e-6), n_fits=2)
    steps = ["dptargetencoder", "dpsimpleimputer", "dpstandardscaler", "dppca", "dplogisticregression"]
    epsilons = dict.fromkeys(steps, pytest.approx(0.1)) | {"dplogisticregression": pytest.approx(0.2)}
    assert only(parts, "epsilon") == epsilons
    assert only(parts, "delta") == {
        "dptargetencoder": pytest.approx(1.25e-6), "dplogisticregression": pytest.approx(3.75e-6)
    }  # fmt: skip
    assert list(only(parts, "ledger")) == steps


@pytest.mark.filterwarnings("ignore:(The limits|No value|The noise):UserWarning")
@pytest.mark.parametrize("budget", [{"epsilon": 0.7, "delta": 1e-5}, {"guess": 0.6}, {"rho": 0.01}])
def test_search_and_cross_validation_spend_the_whole_budget(budget):
    X, y = table()
    ledger = skdp.PrivacyLedger(**budget)
    model, grid = pipeline(), {"dppca__n_components": [2]}
    if not ledger.delta:
        X, model, grid = X[["age"]], make_pipeline(skdp.DPStandardScaler(), LogisticRegression()), {}
    search = GridSearchCV(model, grid, cv=2, error_score="raise")
    search.set_params(**ledger.split(search, n_fits=3)).fit(X, y)
    charges = ledger.charges()
    assert len(charges) == 3 * charges["title"].nunique()
    assert ledger.remaining().epsilon < 1e-3
    with pytest.raises(skdp.BudgetExceeded):
        cross_val_score(search.best_estimator_, X, y, cv=2, error_score="raise")
    assert len(ledger.charges()) == len(charges)


@pytest.mark.parametrize("budget", [{"epsilon": 0.7}, {"mu": 0.3}, {"rho": 0.1}])
def test_parts_of_many_fits_use_the_whole_budget(budget):
    """Sums of the decimals of parts that are rounded to the nearest float exceed the budget."""
    for n_fits in (1, 3, 7, 11, 13):
        ledger = skdp.PrivacyLedger(**budget)
        steps = [skdp.DPMean(weight) for weight in (1.0, 1 / 3, 0.7)]
        model = make_pipeline(*steps)
        model.set_params(**ledger.split(model, n_fits=n_fits))
        for step in n_fits * steps:
            ledger.charge(step._planned_guarantee(), "part")
        assert ledger.remaining().epsilon < 1e-6
        # The rounded rest of a spent budget was divided into parts.
        with pytest.raises(skdp.BudgetExceeded, match=r"no budget left to divide\. Each fit is a charge"):
            ledger.split(model)


def test_parts_of_the_remaining_budget():
    ledger = skdp.PrivacyLedger(1.0, delta=1e-6)
    ledger.charge(skdp.PrivacyGuarantee(0.4, relation="add_remove", trust="central"), "earlier")
    scaler = skdp.DPStandardScaler()
    assert ledger.split(scaler)["epsilon"] == pytest.approx(0.6)
    ledger.charge(skdp.PrivacyGuarantee(0.6, relation="add_remove", trust="central"), "earlier")
    with pytest.raises(skdp.BudgetExceeded, match="no budget left to divide"):
        ledger.split(scaler)
    mu = skdp.PrivacyLedger(mu=0.5).split(make_pipeline(skdp.DPMinMaxScaler(), skdp.DPStandardScaler()))
    assert [type(part) for part in only(mu, "epsilon").values()] == [Mu, Mu]
    assert isinstance(skdp.PrivacyLedger(rho=0.5).split(scaler)["epsilon"], Rho)
    assert scaler.get_params() == skdp.DPStandardScaler().get_params()  # unchanged


class OtherStep(BaseEstimator):
    """A step of another package with the parameters of a private step."""

    def __init__(self, epsilon=1.0, ledger=None):
        self.epsilon = epsilon
        self.ledger = ledger


LEDGER = skdp.PrivacyLedger(1.0, delta=1e-6)
PLAIN = skdp.PrivacyLedger(1.0)
TARGET = skdp.DPLogisticRegression(protect="target")


@pytest.mark.parametrize(
    ("ledger", "estimator", "error", "message"),
    [
        (LEDGER, "model", TypeError, "`estimator` must be an estimator, got str"),
        (LEDGER, LogisticRegression(), ValueError, "got LogisticRegression without one that uses a budget"),
        (LEDGER, skdp.DPOneHotEncoder(categories={"a": [1]}), ValueError, "without one that uses a budget"),
        (LEDGER, OtherStep(), ValueError, "private steps of skdp only, got OtherStep"),
        (LEDGER, skdp.RandomizedResponseEncoder(), ValueError, "private steps of the central model, got Randomized"),
        (PLAIN, pipeline(), ValueError, "`delta` of DPTargetEncoder, DPLogisticRegression must be 0 for a ledger"),
        (skdp.PrivacyLedger(mu=1.0), pipeline(), ValueError, "DPTargetEncoder: `delta` must be 0.0 .*epsilon=..., del"),
        (skdp.PrivacyLedger(1.0, relation="replace"), skdp.DPMean(), ValueError, "must have relation='add_remove'"),
        (LEDGER, make_pipeline(skdp.DPStandardScaler(), TARGET), ValueError, "must have relation='replace_values' for"),
        (LEDGER, make_pipeline(skdp.DPMean(), skdp.DPStandardScaler(Mu(1, 1e-6))), ValueError, "must be all numbers"),
    ],
)  # fmt: skip
def test_invalid_split_raises(ledger, estimator, error, message):
    with pytest.raises(error, match=message):
        ledger.split(estimator)
    assert ledger.charges().empty


def test_invalid_number_of_fits_raises():
    with pytest.raises(ValueError, match="`n_fits` must be at least 1, got 0"):
        LEDGER.split(skdp.DPMean(), n_fits=0)


def test_fractions_of_a_split_are_positive_and_add_up_to_one():
    split = Split(rest="steps", counts=Fraction(1, 3), norms=Fraction(1, 7))
    assert split.steps == Fraction(11, 21)
    assert sum(vars(split).values()) == 1
    budget = parse_budget(Rho(0.1, 1e-6))
    assert sum((budget * fraction).amount for fraction in vars(split).values()) == budget.amount
    for counts in (Fraction(0), Fraction(-1, 4), Fraction(3, 4), Fraction(1)):
        with pytest.raises(ValueError, match="must be positive and leave some for 'steps'"):
            Split(rest="steps", counts=counts, norms=Fraction(1, 4))
    with pytest.raises(ValueError, match="must be positive"):
        Split(rest="counts", counts=Fraction(1, 2))
    with pytest.raises(AttributeError, match="count"):
        split.count  # noqa: B018


def first(**params):
    """Return a model with one private step."""
    return skdp.DPLogisticRegression(delta=1e-6, classes=[0, 1], bounds=(-9, 99), **params)


NUMBERS = make_pipeline(skdp.DPStandardScaler(bounds=(0, 99)), first())
GRID = {"dplogisticregression__fit_intercept": [True, False]}
DRAWN = {"dplogisticregression__max_rows_per_person": randint(1, 2)}
COUNTED = {
    "grid": (GridSearchCV(NUMBERS, GRID, cv=3), [7, 7]),
    "grids without a refit": (
        GridSearchCV(NUMBERS, [GRID, {"memory": [None]}], cv=3, refit=False, scoring="f1"),
        [9, 9],
    ),
    "drawn": (RandomizedSearchCV(NUMBERS, GRID | {"memory": [None]}, n_iter=9, cv=KFold(2)), [5, 5]),
    "distribution": (RandomizedSearchCV(NUMBERS, DRAWN, n_iter=3, cv=2), [7, 7]),
    "listed folds": (GridSearchCV(NUMBERS, {}, cv=[(range(60), range(60, 120))]), [2, 2]),
    "threshold": (TunedThresholdClassifierCV(NUMBERS, cv=0.5), [2, 2]),
    "threshold of a part": (TunedThresholdClassifierCV(NUMBERS, cv=0.5, refit=False), [2, 2]),
    "calibrated": (CalibratedClassifierCV(NUMBERS, cv=3), [3, 3]),
    "calibrated once": (CalibratedClassifierCV(NUMBERS, cv=3, ensemble=False), [4, 4]),
    "bagging": (BaggingClassifier(NUMBERS, n_estimators=3), [3, 3]),
    "boosting": (AdaBoostClassifier(first(max_weight=9.0), n_estimators=2), [2]),
    "voting": (VotingClassifier([("a", NUMBERS), ("b", first())]), [1, 1, 1]),
    "stacking": (StackingClassifier([("a", NUMBERS)], final_estimator=first(), cv=2), [3, 3, 1]),
    "search of stacking": (GridSearchCV(StackingClassifier([("a", NUMBERS)], first(), cv=2), {}, cv=2), [9, 9, 3]),
    "halving": (HalvingGridSearchCV(NUMBERS, GRID, factor=2, cv=2, min_resources=60), [7, 7]),
}


@pytest.mark.filterwarnings("ignore::UserWarning")  # noise, few rows and a constant prediction
@pytest.mark.parametrize("case", COUNTED)
def test_fits_of_meta_estimators_are_counted(case):
    model, counts = COUNTED[case]
    model = clone(model)
    ledger = skdp.PrivacyLedger(6.3, delta=1e-4)
    parts = ledger.split(model)
    epsilons = [x for name, x in parts.items() if name.endswith("epsilon")]
    assert epsilons == pytest.approx([6.3 / sum(counts)] * len(counts))
    if case == "boosting":
        return  # takes weights, which may be larger than `max_weight`
    X, y = table()
    model.set_params(**parts).fit(X[["age", "pay"]], y.astype(int))
    assert len(ledger.charges()) == sum(counts)
    assert ledger.spent.epsilon == pytest.approx(6.3)


@pytest.mark.parametrize(
    "model",
    [
        GridSearchCV(NUMBERS, GRID, cv=LeaveOneOut()),
        GridSearchCV(NUMBERS, GRID, cv=iter([])),
        HalvingRandomSearchCV(NUMBERS, DRAWN),
        OneVsRestClassifier(NUMBERS),
        CalibratedClassifierCV(NUMBERS, cv=LeaveOneOut()),
        StackingClassifier([("a", NUMBERS)], cv=LeaveOneOut()),
        GridSearchCV(BaggingClassifier(NUMBERS, n_estimators=2), {"n_estimators": [2, 9]}),
        GridSearchCV(GridSearchCV(NUMBERS, GRID), {"cv": [2, 5]}),
    ],
    ids=lambda model: type(model).__name__,
)
def test_fits_that_depend_on_the_data_are_asked_for(model):
    ledger = skdp.PrivacyLedger(1.0, delta=1e-6)
    with pytest.raises(ValueError, match=rf"`n_fits` must be given, because the fits of {type(model).__name__}"):
        ledger.split(model)
    assert next(iter(ledger.split(model, n_fits=5).values())) == pytest.approx(0.1)


def test_private_steps_of_a_grid_need_a_ledger():
    """They were fitted without a charge."""
    ledger = skdp.PrivacyLedger(1.0, delta=1e-6)
    search = GridSearchCV(Pipeline([("a", first())]), {"a": [skdp.DPGaussianNB(), LogisticRegression()]})
    for n_fits in (None, 11):
        with pytest.raises(ValueError, match="`param_grid` of GridSearchCV must give a ledger to private estimators"):
            ledger.split(search, n_fits=n_fits)
    search.set_params(param_grid={"a__epsilon": [0.1, 2.0]})
    with pytest.raises(ValueError, match="`param_grid` of GridSearchCV must not vary the budget of a step"):
        ledger.split(search)
    search.set_params(param_grid={"a": [skdp.DPGaussianNB(0.01, ledger=ledger), LogisticRegression()]})
    assert ledger.split(search)


def test_parts_that_are_fitted_before_get_no_part():
    frozen = CalibratedClassifierCV(FrozenEstimator(skdp.DPLogisticRegression()))
    with pytest.raises(ValueError, match="without one that uses a budget"):
        skdp.PrivacyLedger(1.0, delta=1e-6).split(frozen)
    model = StackingClassifier([("a", NUMBERS)], final_estimator=first(), cv="prefit")
    assert set(only(skdp.PrivacyLedger(1.0, delta=1e-6).split(model), "epsilon")) == {"final_estimator"}
