"""Likelihood ratio tests: fits that are no special case of another are refused."""

import io

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

import skdp
from skdp.survey import ReportDesign, ReportLinearRegression, ReportLogisticRegression


@pytest.mark.long
def test_likelihood_ratios_are_of_nested_fits_alone():
    """Fits to other reports or targets had a statistic of -4077, and a p-value of 1."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"age": rng.normal(size=2000), "hours": rng.normal(size=2000), "a": rng.integers(2, size=2000)})
    y = (rng.logistic(size=2000) < X["age"] / 2 + X["a"] - 0.5).astype(int)
    design = ReportDesign.warner("a", 0.9, values=[0, 1])
    model = ReportLogisticRegression(design).fit(X, y)
    others = {
        "the same target and the same reports": [
            ReportLogisticRegression().fit(X[["age", "hours"]], y),
            ReportLogisticRegression(design).fit(X[["age", "a"]], 1 - y),
            ReportLogisticRegression(design).fit(X[["age", "a"]].assign(a=X["a"].to_numpy()[::-1]), y),
            ReportLogisticRegression(ReportDesign.warner("a", 0.8, values=[0, 1])).fit(X[["age", "a"]], y),
        ],
        "terms of this fit only": [
            ReportLogisticRegression(design).fit(X[["a"]].assign(age=X["age"] ** 2), y),
            ReportLogisticRegression(design, interactions=[("age", "a")]).fit(X[["age", "a"]], y),
        ],
    }
    for message, fits in others.items():
        for fit in fits:
            with pytest.raises(ValueError, match=f"nested must .*{message}"):
                model.likelihood_ratio_test(fit)
    nested = ReportLogisticRegression(design).fit(X[["a", "age"]], y)
    test = model.likelihood_ratio_test(nested)
    # Of the coefficient, and of the hidden values given the predictor.
    assert test["df"] == 2
    marginal = ReportLogisticRegression(design, hidden_distribution="marginal").fit(X, y)
    assert model.likelihood_ratio_test(marginal)["df"] == 2
    products = [("age", "a"), ("hours", "a")]
    marginal.set_params(interactions=products).fit(X, y)
    with pytest.raises(ValueError, match="terms of this fit only"):
        marginal.likelihood_ratio_test(nested)
    no_predictors = ReportLogisticRegression(design).fit(X[["a"]], y)
    assert marginal.likelihood_ratio_test(no_predictors)["df"] == 4
    file = io.BytesIO()
    skdp.save(model, file)
    file.seek(0)
    assert skdp.load(file).likelihood_ratio_test(nested) == test
    nested.log_likelihood_ = model.log_likelihood_ + 1
    with pytest.raises(ValueError, match="the search of this fit ended at a lower maximum"):
        model.likelihood_ratio_test(nested)
    with pytest.warns(ConvergenceWarning, match="tell each other"):
        without = ReportLogisticRegression(design).fit(X.assign(one=1.0), y)
    with pytest.raises(ValueError, match="two fits with a maximum"):
        without.likelihood_ratio_test(model)


def test_numbers_are_nested_in_categories():
    """Of three values, as one term instead of two; not the other way round."""
    rng = np.random.default_rng(0)
    design = ReportDesign("a", np.full((3, 3), 0.1) + 0.7 * np.eye(3), values=[0, 1, 2])
    X = pd.DataFrame({"a": rng.integers(3, size=900)})
    y = X["a"] + rng.normal(size=900)
    full = ReportLinearRegression(design).fit(X, y)
    nested = ReportLinearRegression(design, reported_as="numbers").fit(X, y)
    assert full.likelihood_ratio_test(nested)["df"] == 1
    X["age"] = rng.normal(size=900)
    larger = ReportLinearRegression(design, reported_as="numbers", interactions=[("age", "a")]).fit(X, y)
    with pytest.raises(ValueError, match="terms of this fit only"):
        larger.likelihood_ratio_test(full)
