"""The contract finds the usual mistakes: each of these estimators makes one."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skdp import DPMean, PrivacyGuarantee
from skdp.privacy import BudgetExceeded
from skdp.testing import check_curator, curator_checks

X = pd.DataFrame({"a": np.linspace(0, 1, 30), "b": np.linspace(0, 0.5, 30)})


class Overspending(DPMean):
    def fit(self, X, y=None):
        super().fit(X)
        self.guarantee_ = PrivacyGuarantee(
            2 * self.epsilon, relation="add_remove", trust="central", scope=("a", "b"), mechanism="m"
        )
        return self


class NeverCharged(DPMean):
    def fit(self, X, y=None):
        ledger, self.ledger = self.ledger, None
        try:
            return super().fit(X)
        finally:
            self.ledger = ledger


class ChargedAfterwards(NeverCharged):
    def fit(self, X, y=None):
        super().fit(X)
        if self.ledger is not None:
            self.ledger.charge(self.guarantee_, "m")
        return self


class Hoarding(DPMean):
    def fit(self, X, y=None):
        super().fit(X)
        self.extremes_ = {"rows": [np.asarray(X)]}
        return self


class Forgiving(DPMean):
    def fit(self, X, y=None):
        try:
            return super().fit(X)
        except (TypeError, ValueError):
            self.mean_ = np.zeros(1)
            return self


class Constant(DPMean):
    def fit(self, X, y=None):
        seed, self.random_state = self.random_state, 0 if self.random_state is None else self.random_state
        try:
            super().fit(X)
        finally:
            self.random_state = seed
        if seed is None:
            self.guarantee_ = PrivacyGuarantee(
                self.epsilon, relation="add_remove", trust="central", scope=("a", "b"), mechanism="m"
            )
        return self


class Unrepeatable(DPMean):
    def fit(self, X, y=None):
        super().fit(X)
        self.mean_ = self.mean_ + np.random.default_rng().random()
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


@pytest.mark.parametrize(
    ("mistaken", "check"),
    [
        (Overspending, "check_guarantee"),
        (NeverCharged, "check_charge"),
        (ChargedAfterwards, "check_charge"),
        (RefusedButSet, "check_budget"),
        (Hoarding, "check_noise"),
        (Forgiving, "check_parameters"),
        (KeepingTheLeast, "check_noise"),
        (NamingTheCause, "check_errors"),
        (Constant, "check_random_bits"),
        (Unrepeatable, "check_seeds"),
    ],
)
def test_each_mistake_is_found_by_its_check(mistaken, check):
    with pytest.raises(AssertionError):
        dict(curator_checks(mistaken(bounds=(0, 1)), X))[check]()


def test_the_first_check_that_fails_is_named():
    with pytest.raises(AssertionError, match="ChargedAfterwards: check_charge: "):
        check_curator(ChargedAfterwards(bounds=(0, 1)), X)


def test_an_estimator_without_mistakes_passes():
    check_curator(DPMean(bounds=(0, 1)), X)
