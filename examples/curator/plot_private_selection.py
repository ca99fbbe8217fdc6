"""
The columns that matter, chosen privately
=========================================

Which columns are chosen for a model says something of the rows. `DPSelectKBest` chooses k columns one after the other,
each with a k-th of most of ε, so that its noise hardly depends on how many columns there are.
"""

# %%
# A generated table of 60 columns, of which the first 10 depend on the class, each less than the one before.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_selection import SelectKBest, f_classif

from skdp import DPSelectKBest, DPVarianceThreshold

rng = np.random.default_rng(0)
y = rng.integers(0, 2, 6_000)
shifts = np.append(0.6 * 0.8 ** np.arange(10), np.zeros(50))
X = (rng.normal(size=(len(y), 60)) + np.outer(y, shifts)).clip(-6, 6)

selector = DPSelectKBest(
    5, epsilon=1.0, bounds=(-6, 6), classes=[0, 1], random_state=0
).fit(X, y)
print(selector.ranking_)
selector.guarantee_

# %%
# How many of the columns that scikit-learn's `SelectKBest` chooses are found, over 10 fits each, by ε: pure, and with a
# delta of 1e-6. With this, choices have less noise for a k of about seven or more, and the means and variances of 60
# columns have at any k.

epsilons = np.array([0.1, 0.2, 0.5, 1.0, 2.0])
figure, axes = plt.subplots(
    1, 2, sharey=True, figsize=(9, 4), layout="constrained"
)
for panel, k in zip(axes, (3, 8), strict=True):
    best = SelectKBest(f_classif, k=k).fit(X, y).get_support()
    for delta, label in ((None, "pure"), (1e-6, "delta = 1e-6")):
        found = []
        for epsilon in epsilons:
            declared = {
                "epsilon": epsilon,
                "delta": delta,
                "bounds": (-6, 6),
                "classes": [0, 1],
            }
            fits = [
                DPSelectKBest(k, **declared, random_state=seed).fit(X, y)
                for seed in range(10)
            ]
            found.append(
                np.mean(
                    [(one.get_support() & best).sum() / k for one in fits]
                )
            )
        panel.plot(epsilons, found, "o-", label=label)
    panel.set(
        xscale="log",
        xlabel="ε",
        title=f"the best {k} of 60 columns",
        ylim=(0, 1.05),
    )
axes[0].set_ylabel("share that is found")
axes[0].legend()
plt.show()

# %%
# Columns that hardly vary are left out without a target, by noisy variances: `DPVarianceThreshold`. Here the last ten
# of 20 columns are constant but for a row in a thousand.

X[:, 10:20] = (rng.random((6_000, 10)) < 0.001).astype(float)
threshold = DPVarianceThreshold(
    0.1, epsilon=5.0, bounds=(-6, 6), random_state=0
).fit(X[:, :20])
print(threshold.get_support(indices=True))
print(
    threshold.variances_[[0, 10]].round(2),
    threshold.variances_std_error_[[0, 10]].round(2),
)
