"""
Which epsilon is enough?
========================

A study wants a number within some error. `plan_epsilon` finds the least epsilon, or the least number of people, before
anything is collected.
"""

# %%
# Twenty thousand people are asked whether they smoke, and each answer is randomised. The share of smokers is wanted
# within two percentage points; or, at epsilon 1, the number of people that it takes. A curator needs much less.

import matplotlib.pyplot as plt

from skdp import (
    DPHistogram,
    RandomizedResponseEncoder,
    plan_epsilon,
    plan_rows,
)
from skdp.evaluation import privacy_curve

smokes = RandomizedResponseEncoder(categories={"smokes": ["yes", "no"]})
share = plan_epsilon(smokes, within=0.02, of="frequency", n_rows=20_000)
people = plan_rows(smokes, within=0.02, of="frequency", epsilon=1.0)
print(share)
print(people)
print(
    plan_epsilon(
        DPHistogram(domain={"smokes": ["yes", "no"]}),
        within=0.02,
        of="frequency",
        n_rows=20_000,
    )
)

# %%
# Are smokers given fewer loans? The difference of the rates of two groups needs more than the size of one.

parity = plan_epsilon(
    smokes,
    within=0.04,
    of="parity",
    n_rows=20_000,
    privileged="no",
    share=0.7,
    rates=(0.5, 0.6),
)

# %%
# Do more of the young smoke? If 35 in 100 do, and 25 of the others, a test shall find it in four of five surveys.

plan_of_young = plan_rows(
    smokes, epsilon=1.0, of="coefficient", rates=(0.25, 0.35), power=0.8
)
print(plan_of_young)
plan_of_young.plot()

# %%
# What a model loses has no closed form: it is read from a curve, with the intervals of `compare_to_baseline`.

from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skdp import Interval

X, y = load_breast_cancer(as_frame=True, return_X_y=True)
bins = {
    "mean radius": Interval(5, 30, bins=6),
    "mean texture": Interval(5, 45, bins=4),
}
encoder = RandomizedResponseEncoder(categories=bins)
model = make_pipeline(
    encoder, OneHotEncoder(handle_unknown="ignore"), LogisticRegression()
)
name = "randomizedresponseencoder__epsilon"
curve = privacy_curve(
    model,
    X[list(bins)],
    y,
    param_name=name,
    epsilons=[1, 2, 4, 8],
    scoring="roc_auc",
    cv=3,
    n_repeats=3,
)
auc = plan_epsilon(curve, within=0.1, of="roc_auc")
print(auc)

# %%
figure, axes = plt.subplots(2, 2, figsize=(10, 7), layout="constrained")
for one, panel in zip(
    (share, people, parity, auc), axes.flat, strict=True
):
    one.plot(ax=panel)
plt.show()
