"""A fit that fails leaves the estimator unchanged: no old statistic with a new guarantee."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from sklearn.base import is_classifier, is_regressor

import skdp
from skdp import PrivacyLedger
from skdp.randomness import SecureSource, SeededSource
from tests.central.estimators import EVERY, made

NUMBERS = np.linspace(1, 99, 80).reshape(-1, 2)
WORDS = pd.DataFrame({"job": ["clerk", "nurse"] * 20, "sex": ["f", "m", "m", "f"] * 10})
DECLARED = {"job": ["clerk", "nurse", "smith"], "sex": ["f", "m"]}
BOUNDS = (0, 100)
KEY = bytes(range(32))
EVENTS = WORDS.sort_values("sex", ignore_index=True).assign(id=np.arange(len(WORDS)) // 2)
FINDER = skdp.HeavyHitters(4.0, alphabet="ab", max_length=2, random_state=0)

# Parameters that differ from `EVERY`.
SUBJECTS = [
    (skdp.DPMinMaxScaler(bounds=BOUNDS), NUMBERS),
    (skdp.DPMinMaxScaler(bounds=BOUNDS, quantile_range=(10, 90)), NUMBERS),
    (skdp.DPSimpleImputer(bounds=BOUNDS, strategy="median"), NUMBERS),
    (skdp.DPSimpleImputer(strategy="most_frequent", categories=DECLARED), WORDS),
    (skdp.DPGroupBy(5.0, by="sex", keys={"sex": ["f", "m"]}, bounds=BOUNDS), WORDS[["sex"]].assign(age=50.0)),
    (skdp.DPRidge(delta=1e-6, bounds=BOUNDS, target_bounds=(0, 1)), NUMBERS),
    (skdp.DPMarginalSynthesizer(domain=DECLARED), WORDS),
    (skdp.DPLinkedSynthesizer(domain=DECLARED, key="id", max_rows_per_person=2, person_columns=["sex"]), EVENTS),
    (skdp.SyntheticResampler(skdp.DPMarginalSynthesizer(domain=DECLARED)), WORDS),
    (skdp.RandomizedResponseEncoder(categories=DECLARED), WORDS),
    (
        skdp.UnaryEncodingTransformer(categories=DECLARED, memoize=True, secret_key=KEY, instantaneous_epsilon=0.5),
        WORDS,
    ),
    (skdp.UnaryEncodingTransformer(categories=DECLARED), WORDS),
    (skdp.SubsetSelectionEncoder(categories=DECLARED), WORDS),
    (skdp.LocalHashingEncoder(categories=DECLARED), WORDS),
    (skdp.FrequencyOracleEncoder(categories=DECLARED), WORDS),
    (skdp.NumericPerturber(bounds=BOUNDS), NUMBERS),
    (skdp.LocalTableEncoder(categories=DECLARED), WORDS),
    (skdp.SetValuedEncoder(categories={"job": ["a", "b"]}), pd.DataFrame({"job": [["a"], ["a", "b"], []] * 20})),
    (skdp.RapporEncoder(n_bits=8), WORDS),
    (skdp.OnFitOnly(skdp.RandomizedResponseEncoder(categories=DECLARED)), WORDS),
    (skdp.PerHalf(skdp.RandomizedResponseEncoder(categories=DECLARED)), WORDS),
    (skdp.PosteriorFeatures(skdp.RandomizedResponseEncoder(categories=DECLARED)), WORDS),
    (FINDER, FINDER.report(["ab", "a"] * 30)),
]
SUBJECTS += [(made(name), X) for name, (_, X) in EVERY.items()]
IDS = [f"{place}-{type(estimator).__name__}" for place, (estimator, _) in enumerate(SUBJECTS)]

pytestmark = pytest.mark.filterwarnings("ignore:(The noise (exceeds|is about)|.* fewer bins than):UserWarning")


class Stop(BaseException):
    """Neither an error nor an interrupt, so no code expects it."""


def fit(estimator, X):
    if (
        is_classifier(estimator)
        or is_regressor(estimator)
        or isinstance(estimator, skdp.DPSelectKBest | skdp.DPTargetEncoder)
    ):
        return estimator.fit(X, np.arange(len(X)) % 2)
    return estimator.fit_resample(X) if hasattr(estimator, "fit_resample") else estimator.fit(X)


def state(estimator):
    return {name: value for name, value in vars(estimator).items() if name not in estimator.get_params(deep=False)}


def is_unchanged_wherever_it_stops(estimator, X, patch, most):
    """Refit and stop at each patched call; return the number of calls of a complete fit."""
    fit(estimator, X)
    before = state(estimator)
    for place in range(most):
        with pytest.MonkeyPatch.context() as patches:
            patch(patches, place)
            try:
                fit(estimator, X)
            except Stop:
                after = state(estimator)
                assert after.keys() == before.keys()
                assert all(after[name] is before[name] for name in before)
                continue
        return place
    return most


@pytest.mark.usefixtures("repeatable_draws")
@pytest.mark.parametrize(("estimator", "X"), SUBJECTS, ids=IDS)
def test_refit_that_stops_while_drawing_changes_nothing(estimator, X):
    def patch(patches, place):
        counter = itertools.count()

        def stopping(draw):
            def stop(self, size):
                if next(counter) == place:
                    raise Stop
                return draw(self, size)

            return stop

        for source in (SecureSource, SeededSource):
            patches.setattr(source, "bytes", stopping(source.bytes))

    spends = type(estimator).__name__.startswith("DP")
    free = isinstance(estimator, skdp.DPMinMaxScaler | skdp.DPKBinsDiscretizer)
    assert is_unchanged_wherever_it_stops(estimator, X, patch, 8) > 0 or not spends or free


@pytest.mark.usefixtures("repeatable_draws")
@pytest.mark.parametrize(("estimator", "X"), SUBJECTS, ids=IDS)
def test_refit_that_stops_at_any_attribute_changes_nothing(estimator, X):
    def patch(patches, place):
        counter = itertools.count()

        def set_attribute(self, name, value):
            if self is estimator and next(counter) == place:
                raise Stop
            object.__setattr__(self, name, value)

        patches.setattr(type(estimator), "__setattr__", set_attribute, raising=False)

    assert 0 < is_unchanged_wherever_it_stops(estimator, X, patch, 40) < 40


def test_stopped_release_uses_up_its_random_bits():
    ledger = PrivacyLedger(epsilon=100)
    one, other = (
        skdp.RandomizedResponseEncoder(0.1, categories=DECLARED, random_state=0, ledger=book).fit(WORDS)
        for book in (ledger, None)
    )
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(SeededSource, "bytes", lambda self, size: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            one.transform(WORDS)
    assert ledger.spent[0] == one.guarantee_.epsilon
    first, second = other.transform(WORDS), other.transform(WORDS)
    assert not first.equals(second)
    assert one.transform(WORDS).equals(second)
