"""
A private model, from a raw table to predictions
================================================

`DPAdditiveClassifier` takes a table with text, numbers and missing values. Nothing is declared, and the guarantee
covers all columns and the target.
"""

# %%
# The table contains simulated customers.

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skdp import DPAdditiveClassifier, privacy_statement

rng = np.random.default_rng(0)
X = pd.DataFrame(
    {
        "plan": rng.choice(
            ["basic", "family", "flat"], 20_000, p=[0.5, 0.3, 0.2]
        ),
        "region": rng.choice(["east", "north", "south", "west"], 20_000),
        "years": rng.gamma(2, 2, 20_000).clip(0, 20),
        "calls": rng.poisson(2, 20_000).clip(0, 20),
    }
)
logits = (
    0.6 * X["calls"]
    - 0.5 * X["years"]
    + X["plan"].map({"basic": 1.0, "family": -1.0, "flat": 0.0})
)
stays = rng.random(20_000) > 1 / (1 + np.exp(-logits))
train, test, known, hidden = train_test_split(X, stays, random_state=0)

# %%
# The statement contains all columns, the target, and one total.

privacy_statement(DPAdditiveClassifier(1.0).fit(train, known))

# %%
# Even at a small epsilon, predictions for other customers are nearly as accurate as without privacy.


def area(model: Any) -> float:
    scores = model.fit(train, known).decision_function(test)
    return float(roc_auc_score(hidden, scores))


epsilons = [0.1, 0.2, 0.5, 1, 2]
areas = [
    [
        area(DPAdditiveClassifier(epsilon, random_state=seed))
        for seed in range(5)
    ]
    for epsilon in epsilons
]
encoder = make_column_transformer(
    (OneHotEncoder(), ["plan", "region"]), remainder="passthrough"
)
figure, axes = plt.subplots(layout="constrained")
axes.errorbar(
    epsilons,
    np.mean(areas, axis=1),
    np.std(areas, axis=1),
    fmt="o-",
    capsize=3,
    label="DPAdditiveClassifier",
)
axes.axhline(
    area(make_pipeline(encoder, LogisticRegression())),
    color="black",
    linestyle="--",
    label="without privacy",
)
axes.set(
    xscale="log", xlabel="ε of the model", ylabel="area under the curve"
)
axes.legend()
plt.show()
