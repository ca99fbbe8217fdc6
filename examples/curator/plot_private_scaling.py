"""
Preprocessing that learns privately
===================================

A scaler learns means and deviations of the training rows. `DPStandardScaler` learns noisy ones, so that what the
pipeline knows of its preprocessing is differentially private. The classifier behind it is not: the statement says so.
"""

# %%
# A generated table of 5,000 rows; its columns have different scales and public bounds.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdp import DPStandardScaler, privacy_statement

X, y = make_classification(
    5_000,
    n_features=4,
    n_informative=3,
    n_redundant=0,
    class_sep=0.8,
    random_state=0,
)
X = X * [1, 10, 100, 1000]
bounds = [(-5, 5), (-50, 50), (-500, 500), (-5000, 5000)]
model = make_pipeline(
    DPStandardScaler(1.0, bounds=bounds, random_state=0),
    KNeighborsClassifier(15),
)
privacy_statement(model.fit(X, y))

# %%
# Without scaling, the largest column decides alone. A private scaler is as good as the exact one from a small ε on.

epsilons = [0.1, 0.2, 0.5, 1, 2, 5]


def accuracy(*steps):
    return cross_val_score(
        make_pipeline(*steps, KNeighborsClassifier(15)), X, y
    ).mean()


private = [
    [
        accuracy(
            DPStandardScaler(epsilon, bounds=bounds, random_state=seed)
        )
        for seed in range(3)
    ]
    for epsilon in epsilons
]
figure, axes = plt.subplots(layout="constrained")
axes.errorbar(
    epsilons,
    np.mean(private, axis=1),
    np.std(private, axis=1),
    fmt="o-",
    capsize=3,
    label="DPStandardScaler",
)
axes.axhline(
    accuracy(StandardScaler()),
    color="black",
    linestyle="--",
    label="StandardScaler",
)
axes.axhline(accuracy(), color="grey", linestyle=":", label="no scaling")
axes.set(xscale="log", xlabel="ε of the scaler", ylabel="accuracy")
axes.legend()
plt.show()
