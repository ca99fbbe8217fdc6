"""
Accuracy against fairness
=========================

Each ε is a point: how accurate a model is, and how far apart it treats two groups. `ParetoDisplay` draws several models
together, and `compare_to_baseline` says what privacy costs each, with intervals.
"""

# %%
# People of a population that is known: education and group decide about an income, and both are reported by randomised
# response.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import BernoulliNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skdp import RandomizedResponseEncoder
from skdp.evaluation import ParetoDisplay, compare_to_baseline, privacy_curve

rng = np.random.default_rng(0)
X = pd.DataFrame({"group": rng.choice(["F", "M"], 3000), "school": rng.choice(["none", "some", "all"], 3000)})
logits = 1.2 * X["school"].map({"none": -1, "some": 0, "all": 1}) + 0.8 * (X["group"] == "M") - 0.4
y = (rng.random(3000) < 1 / (1 + np.exp(-logits))).astype(int)

curves = {
    type(model).__name__: privacy_curve(
        make_pipeline(
            RandomizedResponseEncoder(categories={"group": ["F", "M"], "school": ["none", "some", "all"]}),
            OneHotEncoder(),
            model,
        ),
        X,
        y,
        param_name="randomizedresponseencoder__epsilon",
        epsilons=[1, 2, 4, 8],
        sensitive_features="group",
        privileged="M",
        positive_label=1,
        scoring=["accuracy", "statistical_parity_difference"],
        cv=3,
        random_state=0,
    )
    for model in (LogisticRegression(), BernoulliNB())
}
ParetoDisplay.from_curves(curves, x="statistical_parity_difference", y="accuracy")
plt.show()

# %%
# Less is lost than the spread of the folds suggests: both models of a fold are scored on the same rows.

compare_to_baseline(curves["LogisticRegression"]).round(3)
