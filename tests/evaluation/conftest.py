from __future__ import annotations

import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

from skdp.evaluation.attacks import _attacker
from skdp.evaluation.report import _report


@pytest.fixture(scope="module")
def few_trees():
    """Attack and predict by few trees, where it is about what is said of it: many take most of the time of a study."""

    def few(**parameters):
        return HistGradientBoostingClassifier(**{**parameters, "max_iter": 10})

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(_attacker, "HistGradientBoostingClassifier", few)
        patched.setitem(_report._CLASSIFIERS, "gradient boosting", few(random_state=0))
        yield
