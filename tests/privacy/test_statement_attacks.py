"""Ways in which a statement could say more than holds: found by attackers, one by one."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.cluster import KMeans
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import OneHotEncoder, TargetEncoder

from skdp import DPCategoricalNB, RandomizedResponseEncoder, privacy_statement

ROWS = pd.DataFrame({"a": ["x", "y"] * 10, "b": ["y", "x", "x", "y"] * 5})
LABELS = np.array([0, 1, 1, 0] * 5)


def encoded(*names):
    return RandomizedResponseEncoder(1.0, categories={name: ["x", "y"] for name in names})


TARGETS = TargetEncoder(target_type="binary", cv=2)


def search(*steps, **options):
    return GridSearchCV(make_pipeline(*steps, KMeans(2)), {"kmeans__n_init": [1]}, cv=2, **options)


SEARCHES = {
    "columns": search(make_column_transformer((TARGETS, ["a", "b"]))),
    "union": search(make_union(TARGETS)),
    "scores": search(OneHotEncoder(), scoring="rand_score"),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_that_learns_the_target_leaves_it_out_of_the_total(name):
    reports = encoded("a", "b").set_output(transform="pandas")
    searched = make_pipeline(reports, SEARCHES[name]).fit(ROWS, LABELS)
    classifier = DPCategoricalNB(1.0, categories={"a": ["x", "y"], "b": ["x", "y"]}, classes=[0, 1])
    statement = privacy_statement([classifier.fit(ROWS, pd.Series(LABELS, name="y")), searched], ROWS)
    assert statement.total is None or "y" not in statement.total.scope


@pytest.mark.parametrize("fitted", [False, True])
def test_what_was_fitted_before_may_hold_true_rows(fitted):
    numbers = OneHotEncoder(sparse_output=False)
    frozen = FrozenEstimator(PCA(1).fit(numbers.fit_transform(ROWS)))
    pipeline = make_pipeline(encoded("a", "b").set_output(transform="pandas"), numbers, frozen)
    statement = privacy_statement(pipeline.fit(ROWS) if fitted else pipeline, ROWS)
    assert statement.total is None
