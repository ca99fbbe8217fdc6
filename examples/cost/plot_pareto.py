"""
Accuracy against fairness
=========================

Each ε is a point: how accurate a model is, and how far apart it treats two groups. `ParetoDisplay` draws several models
together, and `compare_to_baseline` says what privacy costs each, with intervals.
"""

# %%
# People of a population that is known: education and group decide about an income. Both are reported by randomised
# response; one model uses both, the other education alone.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skdp import RandomizedResponseEncoder
from skdp.evaluation import (
    ParetoDisplay,
    compare_to_baseline,
    privacy_curve,
)

rng = np.random.default_rng(0)
n = 6_000
values = {"group": ["F", "M"], "school": ["none", "some", "all"]}
X = pd.DataFrame(
    {name: rng.choice(known, n) for name, known in values.items()}
)
logits = (
    1.5 * X["school"].map({"none": -1, "some": 0, "all": 1})
    + 0.9 * (X["group"] == "M")
    - 0.4
)
y = (rng.random(n) < 1 / (1 + np.exp(-logits))).astype(int)


def curve_of(columns):
    encoder = RandomizedResponseEncoder(
        categories={name: values[name] for name in columns}
    )
    return privacy_curve(
        make_pipeline(encoder, OneHotEncoder(), LogisticRegression()),
        X[columns],
        y,
        param_name="randomizedresponseencoder__epsilon",
        epsilons=[1, 2, 4, 8],
        sensitive_features=X["group"],
        privileged="M",
        positive_label=1,
        scoring=["accuracy", "statistical_parity_difference"],
        cv=3,
        random_state=0,
    )


curves = {
    "school and group": curve_of(["school", "group"]),
    "school alone": curve_of(["school"]),
}
ParetoDisplay(
    curves, x="statistical_parity_difference", y="accuracy"
).plot()
plt.show()

# %%
# What privacy costs, with intervals: both models of a fold are scored on the same rows, and folds share most of theirs.

compare_to_baseline(curves["school and group"]).round(3)
