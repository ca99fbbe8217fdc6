"""Fits do not depend on the units of predictors and target."""

import numpy as np
import pandas as pd
import pytest

from skdp.survey import ReportDesign, ReportLinearRegression, ReportLogisticRegression

THREE = ReportDesign("a", np.full((3, 3), 0.05) + 0.85 * np.eye(3), values=[10, 20, 50])


def table(n=1200):
    rng = np.random.default_rng(0)
    age = rng.normal(2, 1, n)
    a = np.array([10, 20, 50])[np.clip(np.round(age + rng.normal(size=n)), 0, 2).astype(int)]
    X = pd.DataFrame({"age": age, "hours": rng.gamma(2, size=n), "a": a})
    linear = 0.5 * age - 0.3 * X["hours"] + (a == 20) + 0.3 * age * (a == 50) - 1
    return X, linear + rng.normal(size=n), rng.random(n) + 0.5


SCALES = [pytest.param(*scale, marks=pytest.mark.long) for scale in [(3e5, 0), (1e-9, 0), (1, 1e4)]]


@pytest.mark.parametrize("kind", [ReportLinearRegression, ReportLogisticRegression], ids=["linear", "logistic"])
@pytest.mark.parametrize(("factor", "shift"), [(1e7, 1e9), *SCALES])
def test_errors_do_not_depend_on_units(kind, factor, shift):
    """Those of a predictor in units of 1e5 were 1 % off, in 3e5 or with a mean of 1e4 nan."""
    X, values, _ = table()
    y, of_target = values, 1.0
    if kind is ReportLinearRegression:
        of_target = 1e7
        y = 1e9 + of_target * values
    else:
        y = values > 0
        values = y
    expected = kind(THREE).fit(X, values).summary()
    model = kind(THREE).fit(X.assign(age=factor * X["age"] + shift), y)
    terms = model.summary().drop("(intercept)") / of_target
    terms.loc["age"] *= factor
    columns = ["estimate", "std_error"]
    np.testing.assert_allclose(terms[columns], expected[columns].drop("(intercept)"), rtol=1e-6)
    predicted = model.predict(X[:5].assign(age=factor * X["age"][:5] + shift))
    if kind is ReportLinearRegression:
        predicted = (predicted - 1e9) / of_target
    np.testing.assert_allclose(predicted, kind(THREE).fit(X, values).predict(X[:5]), rtol=1e-6)
