"""Declared and found categories as columns of 0 and 1."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.preprocessing import OneHotEncoder

from skdp import Domain, DPOneHotEncoder, Interval, discover_domain, privacy_statement

DECLARED = {"job": ["clerk", "nurse", "smith"], "sex": ["f", "m"]}
rng = np.random.default_rng(0)
WORDS = pd.DataFrame({"job": rng.choice(DECLARED["job"], 400), "sex": rng.choice(DECLARED["sex"], 400)})


@pytest.mark.parametrize("handle_unknown", ["error", "ignore"])
def test_it_is_the_encoder_of_scikit_learn(handle_unknown):
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
    with pytest.raises(ValueError, match="column 'job' holds a value, or a NaN or inf, outside"):
        fitted.transform(odd)
    fitted.set_params(handle_unknown="ignore")
    assert fitted.transform(odd).iloc[:, :3].to_numpy().sum() == 0


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"categories": None}, "categories"),
        ({"categories": "auto"}, "categories must be declared"),
        ({"categories": DECLARED, "handle_unknown": "clip"}, "handle_unknown must be one of"),
    ],
)
def test_parameters(parameters, match):
    with pytest.raises(ValueError, match=match):
        DPOneHotEncoder(**parameters).fit(WORDS)


def test_domains_bins_and_dtypes_declare():
    ages = pd.DataFrame({"age": [3.0, 50.0, np.nan], "job": pd.Categorical(["b", "a", None], ["b", "a"], ordered=True)})
    declared = Domain({"age": Interval(0, 100, bins=2), "job": ["b", None, "a"]})
    fitted = DPOneHotEncoder(categories=declared, handle_unknown="ignore").fit(ages)
    assert fitted.get_feature_names_out().tolist()[:3] == ["age_[0, 50)", "age_[50, 100]", "job_b"]
    assert fitted.transform(ages).to_numpy().tolist() == [[1, 0, 1, 0, 0], [0, 1, 0, 0, 1], [0, 0, 0, 1, 0]]
    by_dtype = DPOneHotEncoder(handle_unknown="ignore").fit(ages[["job"]])
    assert by_dtype.transform(ages[["job"]]).to_numpy().tolist() == [[1, 0], [0, 1], [0, 0]]


def test_names_that_collide_are_an_error():
    people = pd.DataFrame({"a": ["b_c", "x"], "a_b": ["c", "y"]})
    with pytest.raises(ValueError, match="two columns of the result would be called 'a_b_c'"):
        DPOneHotEncoder(categories={name: list(people[name]) for name in people}).fit(people).transform(people)


def test_a_found_domain_excludes_rare_values_and_adds_its_guarantee():
    rare = pd.concat([WORDS, WORDS[:2].assign(job=["pilot", None])], ignore_index=True)
    domain = discover_domain(rare, 5.0, 1e-6, random_state=0)
    encoder = DPOneHotEncoder(categories=domain, handle_unknown="ignore")
    made = encoder.fit(rare)
    assert [one.tolist() for one in made.categories_] == list(DECLARED.values())
    assert made.transform(rare).iloc[-2:, :3].to_numpy().sum() == 0
    # A list of these values would not have a guarantee.
    found = [step.guarantee for step in privacy_statement(encoder, rare).steps if step.step == "domain"]
    assert found == [domain.guarantee]
