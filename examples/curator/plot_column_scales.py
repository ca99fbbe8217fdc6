"""
A private model of columns with a few large values
==================================================

The noise of a private model is in proportion to the longest rows that it may see. Where bounds have room for a few
millionaires, all other incomes are next to the lower bound, and the noise hides what they tell. With
``scaling="auto"``, a model spends a small share of its budget on noisy counts, and places the values of such columns by
a scale of its own.
"""

# %%
# Generated incomes and ages. Who says yes depends on the logarithm of the income, and on the age.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

from skdp import DPLogisticRegression

rng = np.random.default_rng(0)
n_rows = 20_000
people = pd.DataFrame(
    {
        "age": rng.uniform(18, 90, n_rows),
        "income": np.exp(rng.normal(10, 1.2, n_rows)).round(),
    }
)
logit = 1.5 * (np.log(people["income"] + 1) - 10)
logit += (people["age"] - 54) / 20
answer = pd.Series(
    np.where(rng.random(n_rows) < 1 / (1 + np.exp(-logit)), "yes", "no"),
    name="answer",
)
train, test = people[:15_000], people[15_000:]
bounds = {"age": (18, 90), "income": (0, 10_000_000)}


def fit(epsilon, scaling, seed):
    model = DPLogisticRegression(
        epsilon,
        bounds=bounds,
        classes=["no", "yes"],
        scaling=scaling,
        random_state=seed,
    )
    return model.fit(train, answer[:15_000])


# %%
# The age stays as it is, as its values fill their bounds. The scale of the income is steep where most incomes are.

model = fit(1.0, "auto", seed=0)
age_scale, income_scale = model.scales_
print(age_scale)
figure, axes = plt.subplots(layout="constrained")
axes.plot(*income_scale[1:].T)
axes.set(
    xscale="log",
    xlim=(100, 10_000_000),
    xlabel="income",
    ylabel="place on the scale of the model",
)
plt.show()

# %%
# How well both models rank the people who were kept back. Both have the same guarantee, for whole records.

epsilons = [0.05, 0.1, 0.3, 1, 3]
figure, axes = plt.subplots(layout="constrained")
for scaling, label in [(None, "as it is"), ("auto", 'scaling="auto"')]:
    areas = []
    for epsilon in epsilons:
        of_seeds = []
        for seed in range(5):
            scores = fit(epsilon, scaling, seed).decision_function(test)
            of_seeds.append(
                roc_auc_score(answer[15_000:] == "yes", scores)
            )
        areas.append(of_seeds)
    axes.errorbar(
        epsilons,
        np.mean(areas, axis=1),
        np.std(areas, axis=1),
        fmt="o-",
        capsize=3,
        label=label,
    )
axes.set(xscale="log", xlabel="ε", ylabel="area under the ROC curve")
axes.legend()
plt.show()
