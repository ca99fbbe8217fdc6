"""
Train a model on reports
========================

A report is weak evidence of a value. `PosteriorFeatures` gives a model the probability of each value given the report,
instead of the report itself.
"""

# %%
# Breast cancer: four measurements, each cut into three public bins and randomised by each patient.

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from skdp import Interval, PosteriorFeatures, UnaryEncodingTransformer

cancer = load_breast_cancer(as_frame=True)
bounds = {
    "mean radius": (5, 30),
    "mean texture": (9, 40),
    "mean concavity": (0, 0.5),
    "mean symmetry": (0.1, 0.32),
}
X = pd.concat([cancer.data[list(bounds)]] * 5, ignore_index=True)
y = pd.concat([cancer.target] * 5, ignore_index=True)
domain = {
    name: Interval(low, high, bins=4)
    for name, (low, high) in bounds.items()
}

# %%
# Cross-validated AUC over ε: the bits of unary encodings, against the probabilities of the values given
# these bits. A linear model gains little: it learns to weight the bits by itself.

scores = []
epsilons = (1, 2, 4, 8, 16)
for epsilon in epsilons:
    models = {
        "reported bits": make_pipeline(
            UnaryEncodingTransformer(
                epsilon, categories=domain, random_state=0
            ),
            LogisticRegression(),
        ),
        "posterior features": make_pipeline(
            PosteriorFeatures(
                UnaryEncodingTransformer(
                    epsilon, categories=domain, random_state=0
                )
            ),
            LogisticRegression(),
        ),
    }
    for name, model in models.items():
        auc = cross_val_score(model, X, y, scoring="roc_auc", cv=5)
        scores.append(
            {
                "epsilon": epsilon,
                "model": name,
                "AUC": auc.mean(),
                "spread": auc.std(),
            }
        )
scores = pd.DataFrame(scores)

figure, axes = plt.subplots(layout="constrained")
for name, part in scores.groupby("model"):
    axes.errorbar(
        part["epsilon"],
        part["AUC"],
        part["spread"],
        fmt="o-",
        capsize=3,
        label=name,
    )
axes.set(
    xlabel="ε for the four columns together",
    ylabel="AUC, mean and spread over 5 folds",
)
axes.set(xscale="log", xticks=epsilons, xticklabels=epsilons)
axes.legend()
plt.show()
