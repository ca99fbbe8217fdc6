"""
Naive Bayes: counts by class
============================

`DPCategoricalNB` counts the values of each column by class, once, with noise. Where the noise is as large as what the
classes differ by, it says so: the shares of a value in the classes are drawn together.
"""

# %%
# A generated table of visits to a clinic. The values that each column may take are public, and declared.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from skdp import DPCategoricalNB, DPGaussianNB, privacy_statement

rng = np.random.default_rng(0)
towns = [f"town {place}" for place in range(12)]
answers = ["no", "yes"]
ill = rng.random(12_000) < 0.2
shares = np.where(ill, 0.7, 0.3)
X = pd.DataFrame(
    {
        "cough": np.where(rng.random(12_000) < shares, "yes", "no"),
        "fever": np.where(rng.random(12_000) < shares / 2, "yes", "no"),
        "smokes": rng.choice(answers, 12_000),
        "town": np.where(
            ill & (rng.random(12_000) < 0.5),
            rng.choice(towns[:3], 12_000),
            rng.choice(towns, 12_000),
        ),
    }
)
y = pd.Series(np.where(ill, "ill", "well"), name="visit")
declared = {
    "cough": answers,
    "fever": answers,
    "smokes": answers,
    "town": towns,
}
train, test, known, hidden = train_test_split(X, y, random_state=0)


def model(epsilon, seed=0):
    return DPCategoricalNB(
        epsilon,
        categories=declared,
        classes=["ill", "well"],
        random_state=seed,
    )


privacy_statement(model(1.0).fit(train, known))

# %%
# How much likelier each town is among the ill than among the well: with little noise it is seen of each town, with
# more only of the towns that stand out, and then of none.

figure, axes = plt.subplots(layout="constrained")
for epsilon, marker in ((0.01, "s"), (0.1, "o"), (10, "_")):
    ill_share, well_share = (
        model(epsilon).fit(train, known).feature_log_prob_[3]
    )
    axes.plot(
        np.exp(ill_share - well_share),
        marker,
        markersize=9,
        label=f"ε = {epsilon:g}",
    )
axes.axhline(1, color="black", linewidth=0.8)
axes.set(
    xticks=range(12),
    xticklabels=range(12),
    xlabel="town",
    ylabel="share among the ill / among the well",
)
axes.legend()
plt.show()

# %%
# A tenth is enough for predictions that are nearly as good as those without noise.

epsilons = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1]
areas = [
    [
        roc_auc_score(
            hidden == "ill",
            model(epsilon, seed)
            .fit(train, known)
            .predict_proba(test)[:, 0],
        )
        for seed in range(5)
    ]
    for epsilon in epsilons
]
exact = roc_auc_score(
    hidden == "ill", model(1e6).fit(train, known).predict_proba(test)[:, 0]
)
figure, axes = plt.subplots(layout="constrained")
axes.errorbar(
    epsilons,
    np.mean(areas, axis=1),
    np.std(areas, axis=1),
    fmt="o-",
    capsize=3,
    label="DPCategoricalNB",
)
axes.axhline(exact, color="black", linestyle="--", label="without noise")
axes.set(
    xscale="log", xlabel="ε of the model", ylabel="area under the curve"
)
axes.legend()
plt.show()

# %%
# Of numbers, the means and variances by class are released, by `DPGaussianNB`: here those of a temperature and a pulse.
# The means of the classes are drawn together as far as the noise hides that they differ.

numbers = pd.DataFrame(
    {
        "temperature": rng.normal(36.8 + 0.9 * ill, 0.5),
        "pulse": rng.normal(70 + 8 * ill, 12),
    }
)
bounds = {"temperature": (30, 45), "pulse": (30, 220)}
for epsilon in (0.01, 0.1, 1.0):
    bayes = DPGaussianNB(
        epsilon, bounds=bounds, classes=["ill", "well"], random_state=0
    ).fit(numbers, y)
    print(
        f"epsilon {epsilon}: {bayes.class_count_[0]:.0f} +- {bayes.class_count_std_error_:.0f} ill"
    )
    print(
        bayes.theta_.round(1).tolist(), round(bayes.score(numbers, y), 2)
    )
