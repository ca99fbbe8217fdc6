"""Declared and found categories as columns of 0 and 1."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skdp import (
    Domain,
    DPLinearRegression,
    DPLogisticRegression,
    DPOneHotEncoder,
    Interval,
    PrivacyLedger,
)

DECLARED = {"job": ["clerk", "nurse", "smith"], "sex": ["f", "m"]}
rng = np.random.default_rng(0)
WORDS = pd.DataFrame({"job": rng.choice(DECLARED["job"], 400), "sex": rng.choice(DECLARED["sex"], 400)})


@pytest.mark.parametrize("handle_unknown", ["error", "ignore"])
def test_encoding_equals_scikit_learn(handle_unknown):
    theirs = OneHotEncoder(categories=list(DECLARED.values()), handle_unknown=handle_unknown, sparse_output=False)
    theirs.fit(WORDS)
    ours = DPOneHotEncoder(categories=DECLARED, handle_unknown=handle_unknown).fit(WORDS)
    names = ours.get_feature_names_out()
    assert names.tolist() == theirs.get_feature_names_out().tolist()
    made = ours.transform(WORDS)
    np.testing.assert_array_equal(made, theirs.transform(WORDS))
    assert made.columns.tolist() == names.tolist()
    assert ours.transform(WORDS[:0]).shape == (0, len(names))
    assert ours.transform(pl.from_pandas(WORDS)).columns == names.tolist()


def test_fit_reads_no_value():
    odd = WORDS.assign(job="pilot")
    fitted = DPOneHotEncoder(categories=DECLARED).fit(odd)
    assert (fitted.guarantee_.epsilon, fitted.guarantee_.delta) == (0, 0)
    assert [one.tolist() for one in fitted.categories_] == list(DECLARED.values())
    with pytest.raises(ValueError, match=r"Column 'job' contains a value outside the .*in the same spelling"):
        fitted.transform(odd)
    fitted.set_params(handle_unknown="ignore")
    assert fitted.transform(odd).iloc[:, :3].to_numpy().sum() == 0


def test_domains_bins_and_dtypes_declare_categories():
    ages = pd.DataFrame({"age": [3.0, 50.0, np.nan], "job": pd.Categorical(["b", "a", None], ["b", "a"], ordered=True)})
    declared = Domain({"age": Interval(0, 100, bins=2), "job": ["b", None, "a"]})
    fitted = DPOneHotEncoder(categories=declared, handle_unknown="ignore").fit(ages)
    assert fitted.get_feature_names_out().tolist()[:3] == ["age_[0, 50)", "age_[50, 100]", "job_b"]
    assert fitted.transform(ages).to_numpy().tolist() == [[1, 0, 1, 0, 0], [0, 1, 0, 0, 1], [0, 0, 0, 1, 0]]
    by_dtype = DPOneHotEncoder(handle_unknown="ignore").fit(ages[["job"]])
    assert by_dtype.transform(ages[["job"]]).to_numpy().tolist() == [[1, 0], [0, 1], [0, 0]]


def test_missing_and_the_text_none_raise_an_error_with_a_remedy():
    text = pd.DataFrame({"job": ["None", None]})
    with pytest.raises(ValueError, match=r"'job_None' twice\. .* replace a declared value"):
        DPOneHotEncoder(categories={"job": ["None", None]}).fit(text)
    # With a new name, the columns differ.
    names = pd.DataFrame({"a": ["b_c"], "a_b": ["c"]})
    with pytest.raises(ValueError, match=r"'a_b_c' twice\. Rename a column of X"):
        DPOneHotEncoder(categories={"a": ["b_c"], "a_b": ["c"]}).fit(names)


def test_first_categories_are_dropped_as_in_scikit_learn():
    X = pd.DataFrame({"a": ["x", "y", "z", "y"], "b": [1, 2, 2, 1]})
    categories = [["x", "y", "z"], [1, 2]]
    encoder = DPOneHotEncoder(categories=categories, drop="first").fit(X)
    expected = OneHotEncoder(categories=categories, drop="first", sparse_output=False).fit(X)
    assert encoder.get_feature_names_out().tolist() == expected.get_feature_names_out().tolist()
    assert (encoder.transform(X).to_numpy() == expected.transform(X)).all()
    with pytest.raises(ValueError, match="`drop` must be"):
        DPOneHotEncoder(categories=categories, drop="last").fit(X)


@pytest.mark.filterwarnings("ignore:The noise is about as large as the number of rows:UserWarning")
@pytest.mark.parametrize("name", ["linear", "logistic"])
def test_all_indicators_of_a_column_are_an_error_before_the_charge(name):
    """The reason was known from the Domain, but only `summary` of the fitted model stated it."""
    ages = np.random.default_rng(1).uniform(18, 80, 400)
    X, y = WORDS.assign(age=ages), (ages > 50).astype(int)
    domain = Domain({**DECLARED, "age": Interval(0, 100)})
    ledger = PrivacyLedger(epsilon=2.0, delta=2e-6)
    common = {"delta": 1e-6, "bounds": domain, "ledger": ledger, "random_state": 3}
    model = (
        DPLinearRegression(target_bounds=(0, 1), **common)
        if name == "linear"
        else DPLogisticRegression(classes=[0, 1], **common)
    )
    encoder = DPOneHotEncoder(categories=domain.select(list(DECLARED)))
    columns = make_column_transformer(
        (encoder, list(DECLARED)), remainder="passthrough", verbose_feature_names_out=False
    ).set_output(transform="pandas")
    pipeline = make_pipeline(columns, model)
    match = r"\['job_clerk', 'job_nurse', 'job_smith'\] are all indicators of column 'job', .*drop='first'"
    for fit_intercept in (True, False):  # the indicators of two columns depend on each other
        with pytest.raises(ValueError, match=match):
            pipeline.set_params(**{f"{pipeline.steps[1][0]}__fit_intercept": fit_intercept}).fit(X, y)
    assert ledger.spent == (0, 0)
    encoder.set_params(drop="first")
    model.set_params(fit_intercept=True)
    fitted = pipeline.fit(X, y)[-1]
    assert fitted.feature_names_in_.tolist() == ["job_nurse", "job_smith", "sex_m", "age"]
    assert fitted.bounds_[:4].tolist() == [[0, 1]] * 3 + [[0, 100]]
