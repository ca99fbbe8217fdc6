"""
ROC curve from private test rows
================================

One release of counts by score, label and group gives the ROC curves of two groups. The bands contain the noise and the
sampling error.
"""

# %%
# Simulate 8,000 test rows with calibrated probabilities, and release the counts at ε = 1.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.metrics import RocCurveDisplay

from skdp import DPHistogram
from skdp.metrics import score_bins, scores_from_counts

rng = np.random.default_rng(0)
sex = np.where(rng.random(8_000) < 0.3, "Female", "Male")
score = rng.beta(1, np.where(sex == "Female", 6, 2))
test = pd.DataFrame(
    {"score": score, "sex": sex, "default": rng.random(8_000) < score}
)
domain = {
    "score": score_bins(),
    "sex": ["Female", "Male"],
    "default": [False, True],
}
counts = (
    DPHistogram(1.0, domain=domain, random_state=0).fit(test).to_frame()
)
scores = scores_from_counts(counts, "default", "score", "sex")
print(scores[scores["score"].isna()].drop(columns="score").round(3))

# %%
# The display of scikit-learn plots the estimated rates, and a polygon their intervals.

figure, axes = plt.subplots(layout="constrained")
for color, (group, table) in zip(
    ("C0", "C1"), scores.groupby("group"), strict=True
):
    metrics = table.set_index("metric")
    fpr = metrics.loc["false_positive_rate"]
    tpr = metrics.loc["true_positive_rate"]
    RocCurveDisplay(
        fpr=fpr["value"],
        tpr=tpr["value"],
        roc_auc=metrics.loc["roc_auc", "value"],
        name=group,
    ).plot(ax=axes, curve_kwargs={"color": color})
    axes.fill(
        [*fpr["lower"], *fpr["upper"][::-1]],
        [*tpr["upper"], *tpr["lower"][::-1]],
        color=color,
        alpha=0.25,
    )
plt.show()
