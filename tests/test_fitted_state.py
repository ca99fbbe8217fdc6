"""A fit that fails leaves the estimator unchanged: no old statistic with a new guarantee."""

import itertools

import pytest

import skdp
from skdp import PrivacyLedger
from skdp.randomness import SecureSource, SeededSource
from tests.estimators import DECLARED, SUBJECTS, WORDS, fit

IDS = [f"{place}-{type(estimator).__name__}" for place, (estimator, _) in enumerate(SUBJECTS)]

pytestmark = pytest.mark.filterwarnings("ignore:(The noise (exceeds|is about)|.* fewer bins than):UserWarning")


class Stop(BaseException):
    """Neither an error nor an interrupt, so no code expects it."""


def state(estimator):
    return {name: value for name, value in vars(estimator).items() if name not in estimator.get_params(deep=False)}


def is_unchanged_wherever_it_stops(estimator, X, patch, most, step=1):
    """Refit and stop at every `step`-th patched call; return the number of calls of a complete fit."""
    fit(estimator, X)
    before = state(estimator)
    for place in range(0, most, step):
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
    assert is_unchanged_wherever_it_stops(estimator, X, patch, 8, step=2) > 0 or not spends or free


@pytest.mark.parametrize(("estimator", "X"), SUBJECTS, ids=IDS)
def test_refit_that_stops_at_any_attribute_changes_nothing(estimator, X):
    def patch(patches, place):
        counter = itertools.count()

        def set_attribute(self, name, value):
            if self is estimator and next(counter) == place:
                raise Stop
            object.__setattr__(self, name, value)

        patches.setattr(type(estimator), "__setattr__", set_attribute, raising=False)

    assert 0 < is_unchanged_wherever_it_stops(estimator, X, patch, 40, step=5) < 40


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
