"""
Accuracy by epsilon
===================

`privacy_curve` fits a pipeline at each ε with new random numbers. `PrivacyCurveDisplay` plots its scores, and the
scores of the same pipeline without privacy.
"""

# %%
# The wine data are repeated ten times for a larger table. Three measurements are reported in four public bins each.

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.datasets import load_wine
from sklearn.model_selection import RepeatedStratifiedKFold
from sklearn.naive_bayes import CategoricalNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

from skdp import Interval, RandomizedResponseEncoder
from skdp.evaluation import PrivacyCurveDisplay, privacy_curve

wine = load_wine(as_frame=True)
bounds = {
    "alcohol": (11, 15),
    "flavanoids": (0, 6),
    "color_intensity": (0, 14),
}
X = pd.concat([wine.data[list(bounds)]] * 10, ignore_index=True)
y = pd.concat([wine.target] * 10, ignore_index=True)
domain = {
    name: Interval(low, high, bins=4)
    for name, (low, high) in bounds.items()
}

pipeline = make_pipeline(
    RandomizedResponseEncoder(categories=domain),
    OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=4),
    CategoricalNB(min_categories=5),
)
curve = privacy_curve(
    pipeline,
    X,
    y,
    param_name="randomizedresponseencoder__epsilon",
    epsilons=[1, 2, 4, 8],
    scoring="accuracy",
    cv=RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0),
    random_state=0,
)
PrivacyCurveDisplay.from_curve(curve)
plt.show()
