"""The contract finds common faults of curators; `test_privatizer` has a fault for each of the other checks."""

from dataclasses import replace
from unittest import SkipTest

import numpy as np
import pandas as pd
import pytest

from skdp import DPColumnSynthesizer, DPLogisticRegression, DPMarginalSynthesizer, DPMean, DPMinMaxScaler
from skdp.domain import Interval
from skdp.privacy import BudgetExceeded
from skdp.randomness import SecureSource, bernoulli_ratio
from skdp.testing import check_curator, curator_checks
from tests.testing import broken_curators as broken

X = pd.DataFrame({"a": np.linspace(0, 1, 30), "b": np.linspace(0, 0.5, 30)})
DOMAIN = {"a": Interval(0, 1, bins=2, real=True), "b": Interval(0, 1, bins=2, real=True)}


def after_fit(name, compute):
    """Make a mean that keeps something of the rows in an attribute."""

    def fit(self, X, y=None):
        DPMean.fit(self, X)
        setattr(self, name, compute(X))
        return self

    return type("Mistaken", (DPMean,), {"fit": fit})


class RefusedButSet(DPMean):
    def fit(self, X, y=None):
        try:
            return super().fit(X)
        except BudgetExceeded:
            self.mean_ = np.zeros(2)
            raise


class NamingTheCause(DPMean):
    def fit(self, X, y=None):
        if isinstance(X, pd.DataFrame) and "object" in set(map(str, X.dtypes)):
            raise TypeError("no numbers") from KeyError(X.to_numpy().tolist())
        return super().fit(X)


class DrawingFirst(DPMean):
    def fit(self, X, y=None):
        SecureSource().bytes(8)
        return super().fit(X)


OF_A_SYNTHESIZER = DPMarginalSynthesizer(domain=DOMAIN, marginals="independent")
# Protected values beside the rows of `transform`.
LEAKS = {
    "row index": (OF_A_SYNTHESIZER, lambda rows, X: rows.set_axis(X["a"])),
    "name of the columns": (OF_A_SYNTHESIZER, lambda rows, X: rows.rename_axis(columns=str(X["a"].iloc[0]))),
    "column": (DPColumnSynthesizer(["b"], domain=DOMAIN), lambda rows, X: rows.assign(b=X["b"])),
}


@pytest.mark.parametrize("name", LEAKS)
def test_protected_values_in_the_output_of_transform_are_found(name):
    correct, leak = LEAKS[name]
    kind = type(correct)
    mistaken = type("Mistaken", (kind,), {"transform": lambda self, X: leak(kind.transform(self, X), X)})
    with pytest.raises(AssertionError, match="check_transform: the output of transform"):
        dict(curator_checks(mistaken(**correct.get_params()), X))["check_transform"]()
    dict(curator_checks(correct, X))["check_transform"]()


@pytest.mark.parametrize(
    ("mistaken", "check"),
    [
        (DrawingFirst, "check_parameters"),
        (RefusedButSet, "check_budget"),
        (after_fit("extremes_", lambda X: {"rows": [np.asarray(X)]}), "check_noise"),
        (
            after_fit("_origin", lambda X: {"least": np.sort(np.asarray(X, float), axis=None)[:1].tolist()}),
            "check_noise",
        ),
        (NamingTheCause, "check_errors"),
    ],
)
def test_each_fault_is_found_by_its_check(mistaken, check):
    with pytest.raises(AssertionError):
        dict(curator_checks(mistaken(bounds=(0, 1)), X))[check]()


class ForgetsRowsOfAPerson(broken.Curator):
    """The guarantee covers two rows of a person, and the noise one."""

    def make_guarantee(self, values):
        return replace(super().make_guarantee(values), max_rows_per_person=2)


def test_noise_for_one_row_of_a_person_with_two_is_found():
    with pytest.raises(AssertionError, match=r"last person \(2 of 8 rows\), got: the draws lose epsilon 1.9 together"):
        dict(curator_checks(ForgetsRowsOfAPerson(), broken.TABLE))["check_noise"]()
    dict(curator_checks(DPMean(bounds=(0, 10), max_rows_per_person=2), broken.TABLE))["check_noise"]()


class DrawsByNumpy(broken.Curator):
    def answer(self, values):
        return np.clip(values.sum() + np.random.default_rng(self.random_state).laplace(scale=broken.TOP), 0, 1)


class RandomizesRows(broken.Curator):
    def answer(self, values):
        return bernoulli_ratio(self._source, 1, 2, len(values)) ^ (values > 5)


def test_noise_of_another_generator_is_found_before_the_checks_of_seeds():
    with pytest.raises(AssertionError, match=r"check_noise: the noise must be drawn by functions of skdp\.randomness"):
        check_curator(DrawsByNumpy(), broken.TABLE)
    with pytest.raises(SkipTest, match="random bits of single rows cannot be replayed"):
        dict(curator_checks(RandomizesRows(), broken.TABLE))["check_noise"]()
    # Bounds are public, so nothing is drawn.
    dict(curator_checks(DPMinMaxScaler(bounds=(0, 10)), broken.TABLE))["check_noise"]()


class Clipped(broken.Curator):
    """Sound; with much noise, half of the releases are 0."""

    def answer(self, values):
        return np.clip(super().answer(values), 0, 1)


class ClippedWithOneSeed(Clipped):
    def fit(self, X, y=None):
        seed, self.random_state = self.random_state, None if self.random_state is None else 7
        super().fit(X)
        self.random_state = seed
        return self


def test_seeds_of_clipped_releases_are_compared_by_their_random_bits(monkeypatch):
    release = "skdp.testing._subject.Curator.describe"
    monkeypatch.setattr(release, lambda subject, released: "an equal release")
    dict(curator_checks(Clipped(), broken.TABLE))["check_seeds"]()
    with pytest.raises(AssertionError, match="check_seeds: eight seeds must use different random bits"):
        dict(curator_checks(ClippedWithOneSeed(), broken.TABLE))["check_seeds"]()


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
    assert "must cover the last person (1 of 30 rows), got: n_ill_: differs" in outcome


def test_error_names_the_first_failing_check():
    with pytest.raises(AssertionError, match="RefusedButSet: check_budget: "):
        check_curator(RefusedButSet(bounds=(0, 1)), X)
