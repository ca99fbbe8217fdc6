"""
A study of fairness on a table of your own
==========================================

A table of your own needs four things: its rows, the label to predict, the declared values of the columns that people
report, and which group is privileged. Here the rows are scikit-learn's wines with an invented buyer; put yours in
their place.
"""

# %%
# The table. Columns that `domain` declares become features of 0 and 1; all others must be numbers.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.ensemble import RandomForestClassifier

from skdp import RandomizedResponseEncoder, SubsetSelectionEncoder
from skdp.evaluation import StudyTable, fairness_study

wines = load_wine(as_frame=True)
rng = np.random.default_rng(0)
rows = wines.data[["alcohol", "hue"]].sample(
    3000, replace=True, random_state=0
)
rows["buyer"] = rng.choice(["shop", "restaurant"], len(rows))
rows["region"] = rng.choice(["north", "south", "west"], len(rows))
is_better = rows["buyer"] == "restaurant"
sold = (
    rows["alcohol"] + 0.8 * is_better + rng.normal(0, 0.5, len(rows))
    > 13.4
)
table = StudyTable(
    rows,
    sold,
    sensitive="buyer",
    privileged="restaurant",
    positive_label=True,
    protect=["buyer", "region"],
    domain={
        "buyer": ["shop", "restaurant"],
        "region": ["north", "south", "west"],
    },
    name="wines",
)

# %%
# The study: two encoders, each with two ways to divide epsilon, beside the baselines. With ``memory="folder"`` it
# goes on after an interruption.

study = fairness_study(
    table,
    {
        "response": RandomizedResponseEncoder(),
        "subset": SubsetSelectionEncoder(),
    },
    shares=["uniform", "joint"],
    epsilons=[0.5, 2, 8],
    estimator=RandomForestClassifier(
        30, min_samples_leaf=5, random_state=0
    ),
    n_splits=5,
    random_state=0,
)
study.plot()
plt.show()

# %%
# What counts: each method less the model without the columns, in pairs of splits. ``study.save("folder")`` writes
# all scores and a page.

study.compare(metric="statistical_parity_difference").round(3)
