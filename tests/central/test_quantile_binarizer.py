from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Binarizer

from skdp import DPQuantileBinarizer, PrivacyLedger, RandomizedResponseEncoder
from skdp.datasets import load_adult


@pytest.fixture
def people():
    return load_adult().frame[["age", "sex"]]


def test_1_is_above_the_threshold(people):
    """As scikit-learn has it, and the study of age and sex."""
    fitted = DPQuantileBinarizer(epsilon=0.5, bounds=(0, 100)).fit(people[["age"]])
    assert fitted.thresholds_.tolist() == [37] == [people["age"].median()]
    out = fitted.transform(people[["age"]])
    assert out["age"].dtype == np.int8
    assert out["age"].tolist() == (people["age"] > 37).tolist()
    np.testing.assert_array_equal(out, Binarizer(threshold=37).fit_transform(people[["age"]]))
    assert fitted.transform(pd.DataFrame({"age": [36, 37, 38]}))["age"].tolist() == [0, 0, 1]


@pytest.mark.parametrize("quantile", [0.1, 0.5, 0.9])
def test_each_column_has_its_quantile(quantile):
    rows = np.random.default_rng(0).integers(0, 100, (20_000, 2)) * [1, 10]
    bounds = {"x0": (0, 99), "x1": (0, 990)}
    fitted = DPQuantileBinarizer(10.0, quantile=quantile, bounds=bounds, random_state=0).fit(rows)
    exact = np.quantile(rows, quantile, axis=0, method="inverted_cdf")
    assert np.abs(fitted.thresholds_ - exact).max() <= 1
    assert fitted.transform(rows).mean() == pytest.approx(1 - quantile, abs=0.02)


def test_the_failure_is_within_the_stated_bound():
    """1 - m e^(-t s) >= 1 - 1e-6 for each of 3 columns."""
    rows = np.random.default_rng(1).uniform(0, 100, (5_000, 3))
    thresholds = DPQuantileBinarizer(0.9, quantile=0.8, bounds=(0, 100)).fit(rows).thresholds_
    s = 0.9 / (2 * 3 * 0.8)
    failure = np.abs((rows < thresholds).sum(axis=0) - 0.8 * 5_000).max()
    assert failure < math.log(10_001 / 1e-6) / s + 2


def test_infinite_values_are_the_ends():
    fitted = DPQuantileBinarizer(1e6, bounds=(0, 100), candidates=10).fit([[-math.inf], [30], [math.inf]])
    assert fitted.thresholds_.tolist() == [30]
    assert fitted.transform([[-math.inf], [30], [math.inf]]).tolist() == [[0], [0], [1]]


def test_before_a_local_encoder_the_whole_needs_a_curator(people):
    ledger = PrivacyLedger(epsilon=2.0, relation="replace")
    older = make_column_transformer(
        (DPQuantileBinarizer(0.1, bounds=(0, 100), ledger=ledger), ["age"]),
        remainder="passthrough",
        verbose_feature_names_out=False,
    ).set_output(transform="pandas")
    encoder = RandomizedResponseEncoder(
        1.0, strategy="joint", categories={"age": [0, 1], "sex": ["Female", "Male"]}, ledger=ledger
    )
    reports = make_pipeline(older, encoder).fit_transform(people)
    estimate = encoder.estimate_counts(reports)["count"].unstack()
    truth = pd.crosstab((people["age"] > 37).astype(int), people["sex"])
    assert np.abs(estimate.to_numpy() - truth.to_numpy()).max() < 0.05 * len(people)
    total = older.named_transformers_["dpquantilebinarizer"].guarantee_ + encoder.guarantee_
    assert (total.trust, total.relation, total.scope) == ("central", "replace", ("age", "sex"))
    assert ledger.spent[0] == pytest.approx(1.2) == total.epsilon
