"""The contract finds common faults of curators; `test_privatizer` has a fault for each of the other checks."""

from unittest import SkipTest

import numpy as np
import pandas as pd
import pytest

from skdp import DPColumnSynthesizer, DPLogisticRegression, DPMarginalSynthesizer, DPMean
from skdp.domain import Interval
from skdp.privacy import BudgetExceeded
from skdp.randomness import SecureSource
from skdp.testing import check_curator, curator_checks

X = pd.DataFrame({"a": np.linspace(0, 1, 30), "b": np.linspace(0, 0.5, 30)})
DOMAIN = {"a": Interval(0, 1, bins=2, real=True), "b": Interval(0, 1, bins=2, real=True)}


class Hoarding(DPMean):
    def fit(self, X, y=None):
        super().fit(X)
        self.extremes_ = {"rows": [np.asarray(X)]}
        return self


class RefusedButSet(DPMean):
    def fit(self, X, y=None):
        try:
            return super().fit(X)
        except BudgetExceeded:
            self.mean_ = np.zeros(2)
            raise


class KeepingTheLeast(DPMean):
    def fit(self, X, y=None):
        super().fit(X)
        self._origin = {"least": np.sort(np.asarray(X, float), axis=None)[:1].tolist()}
        return self


class NamingTheCause(DPMean):
    def fit(self, X, y=None):
        if isinstance(X, pd.DataFrame) and "object" in set(map(str, X.dtypes)):
            raise TypeError("no numbers") from KeyError(X.to_numpy().tolist())
        return super().fit(X)


class DrawingFirst(DPMean):
    def fit(self, X, y=None):
        SecureSource().bytes(8)
        return super().fit(X)


class WritingIndex(DPMarginalSynthesizer):
    def transform(self, X):
        return super().transform(X).set_axis(X["a"])


class NamingColumns(DPMarginalSynthesizer):
    def transform(self, X):
        return super().transform(X).rename_axis(columns=str(X["a"].iloc[0]))


class PassingColumns(DPColumnSynthesizer):
    def transform(self, X):
        return super().transform(X).assign(b=X["b"])


@pytest.mark.usefixtures("repeatable_draws")
@pytest.mark.parametrize(
    "estimator",
    [
        WritingIndex(domain=DOMAIN, marginals="independent"),
        NamingColumns(domain=DOMAIN, marginals="independent"),
        PassingColumns(["b"], domain=DOMAIN),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_protected_values_in_the_output_of_transform_are_found(estimator):
    with pytest.raises(AssertionError, match="check_transform: the output of transform"):
        dict(curator_checks(estimator, X))["check_transform"]()
    (correct,) = type(estimator).__bases__
    dict(curator_checks(correct(**estimator.get_params()), X))["check_transform"]()


@pytest.mark.usefixtures("repeatable_draws")
@pytest.mark.parametrize(
    ("mistaken", "check"),
    [
        (DrawingFirst, "check_parameters"),
        (RefusedButSet, "check_budget"),
        (Hoarding, "check_noise"),
        (KeepingTheLeast, "check_noise"),
        (NamingTheCause, "check_errors"),
    ],
)
def test_each_fault_is_found_by_its_check(mistaken, check):
    with pytest.raises(AssertionError):
        dict(curator_checks(mistaken(bounds=(0, 1)), X))[check]()


class CountingLabels(DPLogisticRegression):
    def fit(self, X, y=None):
        super().fit(X, y)
        self.n_ill_ = int(np.sum(y))
        return self


@pytest.mark.filterwarnings("ignore:The noise exceeds the effects:UserWarning")
def test_noise_of_protected_values_is_replayed_with_other_values():
    table = X.assign(ill=np.arange(30) % 3 == 1)
    model = CountingLabels(protect="target", classes=[False, True])
    (correct,) = CountingLabels.__bases__
    outcomes = []
    for checked in (model, correct(**model.get_params())):
        try:
            dict(curator_checks(checked, table))["check_noise"]()
        except (AssertionError, SkipTest) as error:
            outcomes.append(str(error))
    (outcome,) = outcomes
    assert "must cover the last of 30 rows, got: n_ill_: differs" in outcome


@pytest.mark.usefixtures("repeatable_draws")
def test_error_names_the_first_failing_check():
    with pytest.raises(AssertionError, match="RefusedButSet: check_budget: "):
        check_curator(RefusedButSet(bounds=(0, 1)), X)
