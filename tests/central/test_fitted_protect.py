"""What was fitted with `protect` does not depend on the parameter afterwards."""

from __future__ import annotations

import numpy as np
import pytest

from tests.central.estimators import EVERY, NUMBERS, fitted, made, whole
from tests.conftest import each

PROTECTING = [name for name, (estimator, _) in EVERY.items() if "protect" in estimator.get_params()]


def answers(estimator, X):
    """Return all that a fitted estimator says of rows, and of itself."""
    results = [estimator.guarantee_]
    for method in ("predict", "predict_proba", "transform"):
        if hasattr(estimator, method):
            results.append(np.asarray(getattr(estimator, method)(X)).tolist())
    return [*map(repr, results), str(estimator.protects_rows)]


@pytest.mark.filterwarnings("ignore::UserWarning")  # there are few rows
@each("name", PROTECTING)
def test_of_models(name):
    # Between indicators, all columns but the target are 0 or 1.
    X = NUMBERS.head(7) * 3 - 1
    for protect, later in (("target", None), ("record", "target")):
        estimator = fitted(made(name, protect=protect), whole(name))
        before = answers(estimator, X)
        assert answers(estimator.set_params(protect=later), X) == before, protect
