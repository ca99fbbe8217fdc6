"""
A private pipeline, from columns to predictions
===============================================

`DPLogisticRegression` adds noise to the gradient of each of its Newton steps. Encoders with declared categories do not
read the data, so the guarantee of the model covers the whole pipeline, including the target.
"""

# %%
# The table contains simulated customers. The values and bounds of the columns are public.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skdp import DPLogisticRegression, privacy_statement

rng = np.random.default_rng(0)
plans, regions = (
    ["basic", "family", "flat"],
    ["east", "north", "south", "west"],
)
X = pd.DataFrame(
    {
        "plan": rng.choice(plans, 20_000, p=[0.5, 0.3, 0.2]),
        "region": rng.choice(regions, 20_000),
        "years": rng.gamma(2, 2, 20_000).clip(0, 20),
        "calls": rng.poisson(2, 20_000).clip(0, 20),
    }
)
logits = (
    0.6 * X["calls"]
    - 0.5 * X["years"]
    + X["plan"].map({"basic": 1.0, "family": -1.0, "flat": 0.0})
)
y = pd.Series(
    np.where(
        rng.random(20_000) < 1 / (1 + np.exp(-logits)), "left", "stayed"
    ),
    name="customer",
)
train, test, known, hidden = train_test_split(X, y, random_state=0)
encoder = make_column_transformer(
    (
        OneHotEncoder(categories=[plans, regions], sparse_output=False),
        ["plan", "region"],
    ),
    remainder="passthrough",
    verbose_feature_names_out=False,
).set_output(transform="pandas")

# %%
# Indicator columns are between 0 and 1, and the other numbers have declared bounds. The statement contains all columns,
# the target, and one total.

indicators = [f"plan_{plan}" for plan in plans] + [
    f"region_{region}" for region in regions
]
bounds = {
    **dict.fromkeys(indicators, (0, 1)),
    "years": (0, 20),
    "calls": (0, 20),
}


def pipeline(epsilon: float, seed: int = 0) -> Pipeline:
    model = DPLogisticRegression(
        epsilon,
        bounds=bounds,
        classes=["left", "stayed"],
        random_state=seed,
    )
    return make_pipeline(encoder, model)


privacy_statement(pipeline(1.0).fit(train, known))

# %%
# Even at a small epsilon, predictions for other customers are nearly as accurate as without privacy.


def area(model: Pipeline) -> float:
    scores = model.fit(train, known).decision_function(test)
    return float(roc_auc_score(hidden == "stayed", scores))


epsilons = [0.05, 0.1, 0.2, 0.5, 1, 2]
areas = [
    [area(pipeline(epsilon, seed)) for seed in range(5)]
    for epsilon in epsilons
]
figure, axes = plt.subplots(layout="constrained")
axes.errorbar(
    epsilons,
    np.mean(areas, axis=1),
    np.std(areas, axis=1),
    fmt="o-",
    capsize=3,
    label="DPLogisticRegression",
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
