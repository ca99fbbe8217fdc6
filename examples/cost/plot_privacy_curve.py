"""
Accuracy by epsilon
===================

`privacy_curve` fits a pipeline at each ε with new random numbers. `PrivacyCurveDisplay` plots its scores, and the
scores of the same pipeline without privacy.
"""

# %%
# Three columns of Adult are randomized, and predict the income.

import matplotlib.pyplot as plt
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skdp import RandomizedResponseEncoder
from skdp.datasets import load_adult
from skdp.evaluation import (
    PrivacyCurveDisplay,
    compare_to_baseline,
    privacy_curve,
)

adult = load_adult(dropna=True)
X = adult.data[["sex", "race", "marital-status"]].iloc[:5000]
y = adult.target.iloc[:5000]
pipeline = make_pipeline(
    RandomizedResponseEncoder(categories=adult.domain.select(X.columns)),
    OneHotEncoder(),
    LogisticRegression(),
)
curve = privacy_curve(
    pipeline,
    X,
    y,
    cv=3,
    scoring="roc_auc",
    epsilons=[0.5, 2.0, 8.0],
    random_state=0,
)
print(compare_to_baseline(curve).round(3).T)

# %%
PrivacyCurveDisplay.from_curve(curve)
plt.show()
