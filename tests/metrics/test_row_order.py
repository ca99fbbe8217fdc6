"""Pandas inputs with the same row labels in another order are refused, as rows are matched by position."""

import numpy as np
import pandas as pd
import pytest

from skdp import RandomizedResponseEncoder
from skdp.metrics import (
    debiased_fairness,
    fairness_report,
    joint_distribution,
    private_parity,
    private_reweighing,
    private_threshold_optimizer,
    to_aif360,
)

RNG = np.random.default_rng(0)
N = 600
GROUP = pd.Series(RNG.choice(["a", "b"], N), name="group")
PREDICTED = pd.Series((RNG.random(N) < np.where(GROUP == "b", 0.7, 0.4)).astype(int))
TRUE = pd.Series((RNG.random(N) < 0.3 + 0.4 * PREDICTED).astype(int))
SCORE = pd.Series(RNG.random(N))
X = pd.DataFrame({"group": GROUP, "score": SCORE})
WEIGHTS = pd.Series(RNG.random(N))
ENCODER = RandomizedResponseEncoder(4.0, categories={"group": ["a", "b"]}, random_state=0).fit(X[["group"]])
REPORTS = ENCODER.transform(X[["group"]])


def weights_of_aif360(X, y, sample_weight):
    pytest.importorskip("aif360")
    return to_aif360(X, y, "group", privileged="b", sample_weight=sample_weight).labels.ravel()


def differences_of_parity(X, y, sensitive_features):
    pytest.importorskip("fairlearn")
    moment = private_parity(ENCODER)
    moment.load_data(X, y, sensitive_features=sensitive_features)
    return moment.gamma(lambda X: PREDICTED).to_numpy()


def decisions(y_true, y_pred, reports):
    pytest.importorskip("fairlearn")
    optimizer = private_threshold_optimizer(y_true, y_pred, reports, ENCODER)
    scores = pd.DataFrame({"score": PREDICTED})
    return optimizer.predict(scores, sensitive_features=GROUP, random_state=0)


LABELS = {"y_true": TRUE, "y_pred": PREDICTED}
# The function, and what it matches by position.
FUNCTIONS = {
    "fairness_report": (
        lambda **inputs: fairness_report(**inputs, privileged="b"),
        LABELS | {"sensitive_features": GROUP},
    ),
    "debiased_fairness": (
        lambda **inputs: debiased_fairness(**inputs, encoder=ENCODER, privileged="b"),
        LABELS | {"sensitive_features": REPORTS},
    ),
    "joint_distribution": (
        lambda **inputs: joint_distribution(**inputs, encoder=ENCODER),
        LABELS | {"reports": REPORTS},
    ),
    "private_reweighing": (
        lambda **inputs: private_reweighing(**inputs, encoder=ENCODER, privileged="b"),
        {"y_true": TRUE, "reports": REPORTS},
    ),
    "private_threshold_optimizer": (decisions, LABELS | {"reports": REPORTS}),
    "private_parity": (differences_of_parity, {"X": X, "y": TRUE, "sensitive_features": REPORTS}),
    "to_aif360": (weights_of_aif360, {"X": X, "y": TRUE, "sample_weight": WEIGHTS}),
}


def cases():
    """Each function with each of its inputs."""
    pairs = []
    for function, (_, inputs) in FUNCTIONS.items():
        pairs += [(function, name) for name in inputs]
    return pairs


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize(("function", "name"), cases())
def test_the_same_labels_in_another_order_are_refused(function, name):
    call, inputs = FUNCTIONS[function]
    reordered = inputs[name].sample(frac=1, random_state=1)
    with pytest.raises(ValueError, match=r"has the labels of \w+ in another order.*\.reindex\(\w+\.index\)"):
        call(**inputs | {name: reordered})


def test_a_reordered_input_is_refused_among_arrays():
    reordered = PREDICTED.sample(frac=1, random_state=1)
    with pytest.raises(ValueError, match="sensitive_features has the labels of y_pred in another order"):
        fairness_report(TRUE.to_numpy(), reordered, GROUP, privileged="b")
