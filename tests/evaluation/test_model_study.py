from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from skdp import Domain
from skdp.evaluation import model_study

DOMAIN = Domain({"group": ["a", "b"]})
METRICS = [
    "accuracy",
    "AUC",
    "statistical parity difference",
    "disparate impact",
    "equal opportunity difference",
    "average odds difference",
    "Theil index",
]


@pytest.fixture
def data():
    """The label follows the private column, and a little the public one."""
    rng = np.random.default_rng(0)
    group = rng.choice(["a", "b"], 1200)
    y = np.where(rng.random(1200) < np.where(group == "a", 0.85, 0.2), "yes", "no")
    return pd.DataFrame({"group": group, "number": rng.normal(size=1200), "kind": rng.choice(["u", "v"], 1200)}), (
        pd.Series(y)
    )


def run(data, **parameters):
    defaults = {
        "classifiers": {"line": LogisticRegression(), "tree": DecisionTreeClassifier(max_depth=3, random_state=0)},
        "sensitive_feature": "group",
        "privileged": "a",
        "positive_label": "yes",
        "epsilons": [0.01, 20.0],
        "repeats": 2,
        "random_state": 0,
    }
    return model_study(*data, DOMAIN, **defaults | parameters)


def test_a_row_for_everything(data):
    scores = run(data)
    assert scores.columns.tolist() == ["repeat", "classifier", "setting", "metric", "value"]
    assert len(scores) == 2 * 2 * 4 * len(METRICS)
    assert scores["setting"].unique().tolist() == ["not private", "left out", 0.01, 20.0]
    assert scores["metric"].unique().tolist() == METRICS


def test_epsilon_leads_from_leaving_the_column_out_to_using_it(data):
    accuracy = run(data).query("metric == 'accuracy'").groupby("setting", sort=False)["value"].mean()
    assert accuracy[20.0] == pytest.approx(accuracy["not private"])
    assert accuracy["not private"] > 0.75
    assert accuracy[0.01] < 0.65
    assert accuracy["left out"] < 0.65


def test_the_true_group_is_used_for_scoring(data):
    """At a tiny epsilon predictions do not depend on the group, whatever was reported; with the truth they do."""
    parity = run(data, epsilons=[0.001]).query("metric == 'statistical parity difference'")
    means = parity.groupby("setting")["value"].mean()
    assert means["not private"] < -0.5
    assert abs(means[0.001]) < 0.15


def test_seeds_and_processes(data):
    one = run(data)
    pd.testing.assert_frame_equal(one, run(data, n_jobs=2))
    assert not one["value"].equals(run(data, random_state=None)["value"])


def test_progress_is_reported_after_each_fit(data):
    calls = []
    run(data, advance=lambda: calls.append(1))
    assert len(calls) == 2 * 2 * 4
