"""
Fairness study: reports or no column
====================================

A model that is trained on reports of sex is fairer than a model that is trained on true values. But a model without
the column is fairer, too. `fairness_study` fits both on the same splits.
"""

# %%
# The domain declares the values of the protected column. The other columns are numbers.

import matplotlib.pyplot as plt
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdp import RandomizedResponseEncoder
from skdp.datasets import load_adult
from skdp.evaluation import compare_to_baseline, fairness_study

adult = load_adult(dropna=True)
columns = ["sex", "age", "education-num", "hours-per-week"]
study = fairness_study(
    make_pipeline(StandardScaler(), LogisticRegression()),
    adult.data[columns].iloc[:8000],
    adult.target.iloc[:8000] == ">50K",
    encoder=RandomizedResponseEncoder(),
    epsilons=[0.25, 1, 4],
    domain=adult.domain.select(["sex"]),
    sensitive="sex",
    privileged="Male",
    n_splits=5,
    random_state=0,
)
means = study.pivot_table("value", ["method", "epsilon"], "metric")
means[["accuracy", "statistical_parity_difference"]].round(3)

# %%
# Compare the model on reports with the model without the column, in pairs of
# splits. A difference of 0 between the groups is parity.

differences = compare_to_baseline(study, baseline="columns excluded")
parity = differences.query(
    "method == 'reported' and metric == 'statistical_parity_difference'"
)
figure, axes = plt.subplots(figsize=(5, 3.5), layout="constrained")
margin = parity["difference"] - parity["lower"]
axes.errorbar(
    parity["epsilon"], parity["difference"], margin, fmt="o", capsize=4
)
axes.axhline(0, color="grey", linestyle="--")
axes.set(xscale="log", xlabel="ε", ylabel="parity, less no column")
plt.show()
